"""Rules that guess the table of a run, chosen on runs that are not counted."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from skdpsynth.auditing._bounds import lower_epsilon
from skdpsynth.auditing._likelihood import RATIO

_CUTS = 24  # thresholds to try: with more of them, rare events win by chance
_RARE = 200  # runs beyond the outermost threshold
_STRICTER = 0.01  # factor on alpha when thresholds are compared, for the same reason
_SINGLE = 8  # numbers of a run to try as scores by themselves
_CLEAR = 4.0  # standard errors by which the mean of a number must differ
_ODD = 4.0  # standard errors, and guesses, by which likelihood ratios may be off
_MARGIN = 1.1  # factor by which a later score must promise more


@dataclass(frozen=True, eq=False)
class Score:
    """A number of a run that is larger where the neighbor is likelier."""

    words: str
    places: np.ndarray  # in the vector of a run
    centers: np.ndarray | None  # medians on both tables, (2, n_places): score how much nearer the neighbor's one is; None: sum the numbers
    weights: np.ndarray  # (n_places,)

    def of(self, vectors: np.ndarray) -> np.ndarray:
        X = np.clip(vectors[:, self.places], -_FAR, _FAR)  # -inf stands for a missing number
        if self.centers is not None:
            X = np.abs(X - self.centers[0]) - np.abs(X - self.centers[1])
        return X @ self.weights


_FAR = 1e30


@dataclass(frozen=True, eq=False)
class Rule:
    """Thresholds on a score that decide whether and how a run is guessed."""

    score: Score
    low: float  # guess the first table up to `low`, the neighbor from `high` on, and pass in between
    high: float
    score_of_all: Score
    middle: float  # threshold where every run must be guessed

    def __str__(self) -> str:
        parts = [f"X_neighbor where it is at least {self.high:.4g}"] * bool(np.isfinite(self.high))
        parts += [f"X where it is at most {self.low:.4g}"] * bool(np.isfinite(self.low))
        return f"by {self.score.words}: guess {', and '.join(parts) or 'nothing'}"

    def counts(self, vectors: np.ndarray, bits: np.ndarray) -> tuple[int, int, int]:
        """Return the number of guessed runs, of right guesses, and of right guesses if all runs are guessed."""
        scores = self.score.of(vectors)
        high, low = scores >= self.high, scores <= self.low
        right = (high & bits).sum() + (low & ~bits).sum()
        right_of_all = (self.score_of_all.of(vectors) >= self.middle) == bits
        return int((high | low).sum()), int(right), int(right_of_all.sum())


def learn_rule(vectors: np.ndarray, bits: np.ndarray, names: list[str], n_runs: int, delta: float, alpha: float) -> Rule:
    """Return the most promising rule: sums are learned on half of the runs and cut on the others, for bounds from `n_runs` further runs."""
    learning = np.arange(len(bits)) % 4 < 2  # the tables alternate
    by_epsilon: tuple[float, Any] = (-math.inf, None)
    by_share: tuple[float, Any] = (-math.inf, None)
    for score in _scores(vectors[learning], bits[learning], names):
        chosen = np.ones(len(bits), dtype=bool) if len(score.places) == 1 else ~learning  # a single number has nothing to learn
        epsilon, thresholds, share, middle = _best_thresholds(score, vectors[chosen], bits[chosen], n_runs, delta, alpha)
        # The first score is optimal if the noise is as in the ledger; by chance others often seem slightly better.
        if by_epsilon[1] is None or epsilon > _MARGIN * by_epsilon[0]:
            by_epsilon = epsilon, (score, *thresholds)
        if by_share[1] is None or share - 0.5 > _MARGIN * (by_share[0] - 0.5):
            by_share = share, (score, middle)
    return Rule(*by_epsilon[1], *by_share[1])


def _scores(vectors: np.ndarray, bits: np.ndarray, names: list[str]) -> Iterator[Score]:
    """Yield candidates: single numbers, and sums over all numbers that clearly differ."""
    X = np.clip(vectors, -_FAR, _FAR)
    first, other = X[~bits], X[bits]
    shift, spread = other.mean(axis=0) - first.mean(axis=0), (first.std(axis=0) + other.std(axis=0)) / 2
    clear = np.abs(shift) / np.maximum(spread / np.sqrt(len(bits) / 4), 1e-200)  # at most 1e231
    clear[shift == 0] = 0
    order = np.argsort(-clear, kind="stable")
    for place in dict.fromkeys([len(names) - 1, *order[:_SINGLE]]):
        sign = -1.0 if shift[place] < 0 and names[place] != RATIO else 1.0
        words = names[place] if sign > 0 else f"minus {names[place]}"
        yield Score(words, np.array([place]), None, np.array([sign]))
    places = order[clear[order] > _CLEAR]
    places = places[places != len(names) - 1]
    if len(places) < 2:
        return
    centers = np.array([np.median(first[:, places], axis=0), np.median(other[:, places], axis=0)])
    off = (np.abs(first[:, places] - centers[0]).mean(axis=0) + np.abs(other[:, places] - centers[1]).mean(axis=0)) / 2
    yield Score(f"how near {len(places)} numbers are to their medians", places, centers, 1 / np.maximum(off, 1e-9))
    weights = shift[places] / np.maximum(spread[places], 1e-9) ** 2
    yield Score(f"a weighted sum of {len(places)} numbers", places, None, weights)


def _best_thresholds(
    score: Score, vectors: np.ndarray, bits: np.ndarray, n_runs: int, delta: float, alpha: float
) -> tuple[float, tuple[float, float], float, float]:
    """Return the bound that a score promises with its thresholds, and the share of right guesses at all runs with its threshold."""
    scores = score.of(vectors)
    cuts = np.unique(np.quantile(scores, _threshold_quantiles(len(scores)), method="nearest"))
    at_least, at_most = scores[:, None] >= cuts, scores[:, None] <= cuts
    right = expit(scores)  # probability that a guess is right: if the score is the ratio, more precise than counts, for any number of runs
    if score.words != RATIO or not _is_calibrated(right, bits, at_least, at_most):
        right, n_runs, alpha = bits.astype(float), len(bits), _STRICTER * alpha
    weight = n_runs / len(bits)
    n_high, right_high = np.append(at_least.sum(axis=0), 0), np.append(right @ at_least, 0)
    n_low, right_low = np.append(0, at_most.sum(axis=0)), np.append(0, (1 - right) @ at_most)
    n_right, n_guesses = weight * (right_low[:, None] + right_high), weight * (n_low[:, None] + n_high)
    bounds = lower_epsilon(n_right, n_guesses, n_runs, delta, alpha)
    lows, highs = np.append(-np.inf, cuts), np.append(cuts, np.inf)
    bounds[lows[:, None] >= highs] = -1.0
    low, high = np.unravel_index(int(bounds.argmax()), bounds.shape)
    shares = (right @ at_least + (1 - right) @ ~at_least) / len(bits)
    middle = int(shares.argmax())
    return float(bounds[low, high]), (float(lows[low]), float(highs[high])), float(shares[middle]), float(cuts[middle])


def _threshold_quantiles(n_runs: int) -> np.ndarray:
    """Return the quantiles to try as thresholds; many runs allow rarer ones."""
    even = np.linspace(0, 1, _CUTS)
    rare = even[1] / 2.0 ** np.arange(1, 1 + max(0, int(np.log2(even[1] * n_runs / _RARE))))
    return np.concatenate([even, rare, 1 - rare])


def _is_calibrated(right: np.ndarray, bits: np.ndarray, at_least: np.ndarray, at_most: np.ndarray) -> bool:
    """Whether guesses beyond every threshold are right about as often as the likelihood ratios say.

    They are not if the exact values differ between runs, as after another private radius.
    """
    variance = right * (1 - right)
    return all((np.abs((right - bits) @ beyond) <= _ODD * np.sqrt(variance @ beyond) + _ODD).all() for beyond in (at_least, at_most))
