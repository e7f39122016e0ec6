"""Differences between the classes of a stratum, told apart from noise by all columns together."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import dct, idct
from scipy.linalg import null_space

from skdpsynth.models._column_blocks import Block, NoisyTables, shares_of

_FINEST = -1  # power of 4 of the smallest variance but 0 of a component, in those of noise
_ROUNDS = 300
_EXACT = 1e-20  # times the square of the number of rows: a variance of which nothing can be seen
_LEAST_ORDERED = 3  # codes


def shrink_class_contrasts(
    one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, is_ordered: Sequence[np.ndarray]
) -> tuple[NoisyTables, NoisyTables]:
    """Return tables in which classes differ as much as is expected given the noisy tables of `Estimates`.

    A column of which all classes have their share of rows is a multiple of these shares at each code. The part that is orthogonal to them
    is a contrast, whose noise is independent; of ordered codes it is written in cosines, as it is often smooth. Most contrasts are small
    against their noise, and a few are not. So the contrasts of all columns are taken as drawn from one mixture of normal distributions
    around 0, whose weights they tell, and each becomes its mean given its noisy value: small ones vanish, large ones stay. Otherwise a
    classifier trained on synthetic rows would sum the noise of all columns up. `is_ordered` says which codes of each column have an order:
    the first ones.

    References ---------- Stephens (2017), "False discovery rates: a new deal", equations 2 to 5; Robbins (1956) on empirical Bayes.
    """
    n_classes = len(totals)
    if n_classes == 1 or one_way.variance <= _EXACT * np.sum(totals) ** 2:
        return one_way, two_way
    shares = shares_of(totals)
    unit = shares / np.linalg.norm(shares)
    contrasts = null_space(unit[None]) * one_way.deviation  # orthogonal ones, whose noise has variance 1
    evens: dict[Block, np.ndarray] = {place: np.outer(unit, unit @ table) for place, table in one_way.tables.items()}
    back = contrasts.T / one_way.variance
    noisy = [_to_cosines(back @ table, is_ordered[place[0]]) for place, table in one_way.tables.items()]
    told, left = _posterior_means_by_column(noisy, [_free_coefficients(is_ordered[i]) for (i,) in one_way.tables])
    columns = {place: evens[place] + contrasts @ _from_cosines(part, is_ordered[place[0]]) for place, part in zip(evens, told, strict=True)}
    moves = {i: columns[i,] - table for (i,), table in one_way.tables.items()}
    pairs: dict[Block, np.ndarray] = {
        (i, j): table + moves[i][:, :, None] / table.shape[2] + moves[j][:, None, :] / table.shape[1]
        for (i, j), table in two_way.tables.items()
    }
    variance = one_way.variance * (1 + (n_classes - 1) * left) / n_classes
    return NoisyTables(columns, variance), NoisyTables(pairs, two_way.variance)


def _posterior_means_by_column(noisy: Sequence[np.ndarray], free: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """Return each array with the posterior means of its free columns, and the mean variance that is left."""
    means, left = posterior_means(np.hstack([part[:, is_free] for part, is_free in zip(noisy, free, strict=True)]))
    told = [np.zeros_like(part) for part in noisy]
    ends = np.cumsum([is_free.sum() for is_free in free])
    for part, is_free, own in zip(told, free, np.split(means, ends[:-1], axis=1), strict=True):
        part[:, is_free] = own
    return told, left


def posterior_means(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the posterior means of vectors, shape (n_numbers, n_vectors), and the mean variance that is left of a number, from 0 to 1.

    Their noise is normal of variance 1. The law of a vector has no direction.
    """
    squares = (values**2).sum(axis=0)[:, None]
    top = math.ceil(math.log2(max(1.0, float(squares.max(initial=0.0)))) / 2)
    variances = np.array([0.0, *(4.0**power for power in range(_FINEST, top + 1))])
    logarithms = -squares / (2 * (1 + variances)) - len(values) * np.log1p(variances) / 2
    likelihoods = np.exp(logarithms - logarithms.max(axis=1, keepdims=True, initial=-np.inf))
    weights = np.full(len(variances), 1 / len(variances))
    for _ in range(_ROUNDS):  # of expectation and maximization
        given = likelihoods * weights
        given /= given.sum(axis=1, keepdims=True)
        weights = given.mean(axis=0)
    lost = 1 / (1 + variances)  # tiny differences of 1 - lost would be rounded away
    share = given @ lost
    spread = (given * (lost - share[:, None]) ** 2).sum(axis=1) * squares[:, 0] / len(values)
    return values * (1 - share), min(float(np.mean(1 - share + spread)), 1.0)


def _free_coefficients(is_ordered: np.ndarray) -> np.ndarray:
    """Return which coefficients noise moves: if all codes are ordered, the first cosine is the sum, which is 0."""
    return np.arange(len(is_ordered)) >= int(is_ordered.all() and len(is_ordered) >= _LEAST_ORDERED)


def _to_cosines(contrast: np.ndarray, is_ordered: np.ndarray) -> np.ndarray:
    n = int(is_ordered.sum())
    return contrast.copy() if n < _LEAST_ORDERED else np.hstack([dct(contrast[:, :n], axis=1, norm="ortho"), contrast[:, n:]])


def _from_cosines(contrast: np.ndarray, is_ordered: np.ndarray) -> np.ndarray:
    n = int(is_ordered.sum())
    contrast = contrast if n < _LEAST_ORDERED else np.hstack([idct(contrast[:, :n], axis=1, norm="ortho"), contrast[:, n:]])
    return contrast - contrast.mean(axis=1, keepdims=True)  # classes keep their rows
