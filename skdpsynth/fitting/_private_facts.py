"""Buy bounds and levels that nobody knows with a part of the budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.domain import PLACEHOLDER, UnknownBounds, list_names
from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts
from skdpsynth.privacy import DiscreteGaussian, Mechanism, PrivacyLoss, discovery, epsilon_of_rho, mechanism, rho_of_epsilon, split_exactly
from skdpsynth.statistics import MAGNITUDES, EvenCells, Magnitudes, Occurrences

BOUNDS_SHARE = Fraction(1, 10)  # of the budget, for the bounds of columns where they are private
LEVELS_SHARE = Fraction(1, 10)  # of epsilon and of delta, for the levels of columns where they are private
_MIN_REMAINING_SHARE = Fraction(1, 4)
_EVEN = 64  # cells of the second count
_FALSE_ALARMS = 0.01  # chance that noise alone is taken for rows, in any window of any column
_FARTHEST = 20  # powers of two from where most numbers are, beyond which those that are seen are clipped: nothing else could be told apart
_WINDOWS = (1, 2, 4)  # cells, of powers of two
_EVEN_WINDOWS = (1, 2, 4, 8, 16)
_CLEAR = 0.1  # of the rows: the least that one cell must show for a second count to be of use
_DOUBTFUL = 0.05  # of the rows: where a cell must show more to be seen, tails are long
_MANY = 0.25  # of the rows: if so many are not seen, they may as well be of the other sign
_MOST_STRETCH = 3.0
_SURE, _LIKELY = 2.0, 1.5  # deviations of a sum, up to which it is taken for noise


def reserve_budget(facts: Facts, part: Fraction, rho: str | None) -> tuple[PrivacyLoss, Facts]:
    """Return a part of the budget for noise that is charged as pure or, if the plan charges `rho`, as Gaussian; and the facts of the rest.

    In rho the part is a share of rho, which is more than that share of epsilon. Gaussian noise of a rho is zCDP of that rho too, so it adds
    up in rho with a rest of either kind. The kind of the rest must not follow from what was bought: a choice between two kinds, each of
    which fits, by the first noise would lose up to twice delta.
    """
    first, rest = split_exactly(facts.epsilon, [part, 1 - part])
    pure = facts.pure(first), replace(facts, epsilon=rest, rho=None)
    if rho is None or facts.epsilon == math.inf:
        return pure
    is_gaussian = rho == "gaussian"
    whole = rho_of_epsilon(facts.epsilon, facts.delta, gaussian=is_gaussian)
    rest = epsilon_of_rho((1 - part) * whole, facts.delta, gaussian=is_gaussian)
    if rest < _MIN_REMAINING_SHARE * facts.epsilon:
        return pure  # a delta that is large beside epsilon pays for rho alone, so that no epsilon tells what is left
    # What the rest will take of it, to the last digit, and what that leaves.
    bought = whole - rho_of_epsilon(rest, facts.delta, gaussian=is_gaussian)
    return PrivacyLoss(rho=bought, gaussian=True, rows=facts.rows_per_unit), replace(facts, epsilon=rest, rho=rho)


def loss_kind_of_fit(facts: Facts, parts: Sequence[Fraction], rho: str | None) -> str | None:
    """Return the kind of rho that all of a fit is charged in, or None; each of `parts` is a share of what the one before leaves."""
    for part in parts:
        _, facts = reserve_budget(facts, part, rho)
        rho = facts.rho
    return None if facts.unlisted else rho


def without_levels_share(facts: Facts) -> Facts:
    """Return the facts that are left after buying levels."""
    return replace(facts, epsilon=facts.epsilon * (1 - LEVELS_SHARE), delta=facts.delta * (1 - LEVELS_SHARE))


def buy_levels(total: Any, columns: Sequence[int], facts: Facts, budget: Budget) -> list[list[Any]]:
    """Release the levels that enough rows have; ``total(rule)`` aggregates all rows, and `facts` are those of the whole budget."""
    epsilon, _ = split_exactly(facts.epsilon, [LEVELS_SHARE, 1 - LEVELS_SHARE])
    share = PrivacyLoss(epsilon, 0 if epsilon == math.inf else facts.delta * LEVELS_SHARE, rows=facts.rows_per_unit)
    return budget.discover(total(Occurrences.over(columns)).tables, discovery(budget.relation, len(columns), share), "levels")


def warn_of_few_levels(names: Sequence[Any], found: Sequence[Sequence[Any]], budget: Budget) -> None:
    """Warn of columns with fewer than two released levels."""
    if few := [name for name, levels in zip(names, found, strict=True) if len(levels) < 2]:
        budget.warn(
            f"Fewer than two levels of {list_names(few)} have enough rows to be shown, so made-up ones stand there; list the levels, use "
            "more rows, a larger epsilon or delta."
        )


@dataclass(frozen=True, eq=False)
class BoughtBounds:
    low: np.ndarray
    high: np.ndarray
    is_seen: np.ndarray  # where counts showed any rows; elsewhere the bounds are (-1, 1)


def buy_bounds(total: Any, unknown: UnknownBounds, share: PrivacyLoss, budget: Budget, n_samples: int | None) -> BoughtBounds:
    """Release counts of magnitudes and, where they can show something, of even cells between the bounds that these show.

    ``total(rule)`` aggregates all rows; `share` pays for both releases; `n_samples` is public or noisy, None where it is neither yet.
    """
    columns, n_columns = unknown.columns, len(unknown.columns)
    first, second = share.split([1, 1])
    finer = mechanism(EvenCells.sensitivity(budget.relation, n_columns), second, n_values=n_columns * _EVEN)
    is_clear = n_samples is None or noise_threshold(finer, 1, n_columns * _EVEN * len(_EVEN_WINDOWS)) <= _CLEAR * n_samples
    magnitudes = total(Magnitudes.over(columns)).query(budget.relation)
    coarse = mechanism(magnitudes.sensitivity, first if is_clear else share, n_values=len(magnitudes.values))
    noisy = budget.answer(magnitudes, coarse, "bounds: magnitudes").reshape(n_columns, -1)
    alarms = _noise_thresholds(coarse, _WINDOWS, noisy.size)
    n_samples = n_samples or max(1, int(np.median(noisy.sum(axis=1))))
    found = [
        _bounds_from_magnitudes(counts, alarms, coarse.deviation, n_samples, is_clear, ends)
        for counts, *ends in zip(noisy, unknown.least, unknown.most, strict=True)
    ]
    low, high = np.array([PLACEHOLDER if each is None else each for each in found]).T
    low, high = _round_to_dtypes(low, high, unknown)
    if is_clear:
        even = total(EvenCells.over(columns, low, high, _EVEN)).query(budget.relation)
        noisy = budget.answer(even, finer, "bounds: even cells").reshape(n_columns, -1)
        alarms = _noise_thresholds(finer, _EVEN_WINDOWS, noisy.size)
        found_finer = [_bounds_from_even_cells(*each, alarms, finer.deviation, n_samples) for each in zip(noisy, low, high, strict=True)]
        low, high = np.array(found_finer).T
        low, high = _round_to_dtypes(low, high, unknown)
    return BoughtBounds(low, high, np.array([each is not None for each in found]))


def noise_threshold(noise: Mechanism, width: int, n_windows: int) -> float:
    """Return the value that the noise of a sum of `width` counts exceeds in any of `n_windows` windows with a chance of at most 1 %.

    By Chernoff's bound: the noise of a count has E exp(tZ) <= 1 / (1 - (t s)**2) (Laplace, below 1 / s) or exp((t s)**2 / 2) (Gaussian).
    """
    least, scale = math.log(n_windows / _FALSE_ALARMS), float(max(noise.noise.scales))
    if isinstance(noise.noise, DiscreteGaussian):
        return scale * math.sqrt(2 * width * least)
    t = np.linspace(0.001, 0.999999, 1 << 10)
    return scale * float(np.min((least - width * np.log1p(-t * t)) / t))


def warn_of_unseen(names: Sequence[Any], budget: Budget) -> None:
    """Warn of columns in which noisy counts showed no rows."""
    if len(names):
        budget.warn(
            f"The noisy counts show no rows of {list_names(names)}, so the bounds are {PLACEHOLDER} there, and what lies beyond is "
            "clipped; give bounds, use more rows or a larger epsilon."
        )


def _noise_thresholds(noise: Mechanism, widths: Sequence[int], n_cells: int) -> list[tuple[int, float]]:
    return [(width, noise_threshold(noise, width, n_cells * len(widths))) for width in widths]


def occupied_cells(counts: np.ndarray, alarms: Sequence[tuple[int, float]]) -> np.ndarray:
    """Return the numbers of the cells in which rows are seen: post-processing of noisy counts.

    Windows that sum to more than noise explains are taken, the shortest first, and longer ones where nothing was seen yet: many small
    counts show together rows that none of them shows. `alarms` holds widths of windows, and the largest sum that noise makes of each.
    """
    is_seen = np.zeros(len(counts), dtype=bool)
    upto = np.concatenate([[0], np.cumsum(counts)])
    for width, most in alarms:
        for start in np.flatnonzero(upto[width:] - upto[:-width] > most):
            if not is_seen[start : start + width].any():
                is_seen[start : start + width] = True
    return np.flatnonzero(is_seen)


def _bounds_from_magnitudes(
    counts: np.ndarray, alarms: Sequence[tuple[int, float]], deviation: float, n_samples: int, is_clear: bool, ends: Sequence[float]
) -> tuple[float, float] | None:
    """Choose bounds from the noisy counts of magnitudes; None where nothing is seen.

    They are those of the cells that are seen, and a power of two more on either side: clipping is costly, room to spare is cheap. Without a
    second count to take back the excess, none is added if all rows are seen, and two powers if a cell must hold many rows to be seen; and
    where a quarter of the rows is not seen, the bounds are equally far from 0 on either side.
    """
    counts = np.where((MAGNITUDES[1:] >= ends[0]) & (MAGNITUDES[:-1] <= ends[1]), counts, 0)  # what the dtype cannot hold is noise
    middle = len(counts) // 2  # the cell of 0
    cells = _drop_outlying_cells(occupied_cells(counts, alarms), counts, middle)
    if not len(cells):
        return None
    start, stop, room = int(cells[0]), int(cells[-1]) + 1, 1
    if not is_clear:
        unseen = n_samples - counts[start:stop].sum()
        room = 0 if unseen <= _SURE * deviation * math.sqrt(stop - start) else 1 + (alarms[0][1] > _DOUBTFUL * n_samples)
        if room and unseen > _MANY * n_samples:
            start, stop = min(start, len(counts) - stop), max(stop, len(counts) - start)
    start = start if start == middle else max(start - room, 0)
    stop = stop if stop == middle + 1 else min(stop + room, len(counts))
    low, high = float(MAGNITUDES[start]), float(MAGNITUDES[stop])
    # What is seen in the cell of 0 is 0, and so is an end next to it, as far as even cells tell.
    from_zero, to_zero = start == middle or 0 < low <= high / _EVEN, stop == middle + 1 or low / _EVEN <= high < 0
    low, high = 0.0 if from_zero else low, 0.0 if to_zero else high
    return (low, high) if low < high else PLACEHOLDER


def _drop_outlying_cells(cells: np.ndarray, counts: np.ndarray, middle: int) -> np.ndarray:
    """Drop cells much farther from 0, or much nearer to it, than the cell of most nonzero numbers."""
    others = cells[cells != middle]
    if not len(others):
        return cells
    sizes, usual = np.abs(cells - middle), abs(others[np.argmax(counts[others])] - middle)
    return cells[(cells == middle) | (np.abs(sizes - usual) <= _FARTHEST)]


def _bounds_from_even_cells(
    counts: np.ndarray, low: float, high: float, alarms: Sequence[tuple[int, float]], deviation: float, n_samples: int
) -> tuple[float, float]:
    """Cut bounds to where noisy counts of even cells show rows, with room for rows that they do not show; post-processing.

    An exponential tail has the last of n rows log(n) of its lengths away, and the last that is seen at log(n / alarm): so the range is
    stretched by the ratio. Where more rows may lie beyond than noise explains, nothing is cut.
    """
    cells = occupied_cells(counts, alarms)
    if not len(cells) or (low, high) == PLACEHOLDER:
        return low, high
    start, stop = int(cells[0]), int(cells[-1]) + 1
    ratio = math.log(max(n_samples, 3)) / math.log(max(n_samples / max(alarms[0][1], 1.0), math.e))
    room = max(1, math.ceil((min(ratio, _MOST_STRETCH) - 1) / 2 * (stop - start)))
    start, stop = max(start - room, 0), min(stop + room, len(counts))
    n_beyond = len(counts) - (stop - start)
    if counts.sum() - counts[start:stop].sum() > _LIKELY * deviation * math.sqrt(n_beyond):
        return low, high
    edges = np.linspace(low, high, len(counts) + 1)
    return float(edges[start]), float(edges[stop])


def _round_to_dtypes(low: np.ndarray, high: np.ndarray, unknown: UnknownBounds) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that their dtypes can hold; those of whole numbers are rounded outward, and at least 1 apart."""
    least, most = unknown.least, unknown.most
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    low = np.where(unknown.whole, np.clip(np.floor(low), least, most - 1), low)
    return low, np.where(unknown.whole, np.clip(np.ceil(high), low + 1, most), high)
