"""The measure of a union of disjoint rows, from the noisy counts of its parts."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skdpsynth.measures._adaptive import DEFAULT_PRIOR, MOST_LEARNED, NO_PAIRS, TwoStages, left_mass, prior_of
from skdpsynth.measures._consistency import interleave_siblings
from skdpsynth.measures._measure import DiscreteMeasure

_CLEAR = 2.0  # standard errors
_LEAST = 1e-9  # rows


class _SiblingCounts(NamedTuple):
    """Siblings of one level and their counts."""

    parents: np.ndarray  # of siblings that some part counted, in order
    estimates: np.ndarray  # sums of the counts of both
    variances: np.ndarray
    counted: np.ndarray  # rows that these stand for


class _Cells(NamedTuple):
    """Cells of one level and their mass."""

    cells: np.ndarray
    mass: np.ndarray
    likelihood: np.ndarray  # of each kind of share, by pair of siblings


def measure_of_union(parts: Sequence[TwoStages], numbers: Sequence[float]) -> DiscreteMeasure:
    """Return the measure of the union of disjoint rows, each part of which was counted by itself.

    The counts of a cell add up, and so do the variances of their noise. So noise is removed once, from the sums: mass that each part made
    of its own noise would add up too. The parts number their cells alike; `numbers` tells how many rows of the union each part stands for.
    """
    levels, n_all = _add_parts(parts, numbers), float(sum(numbers))
    noise_free = parts[-1].noise_free
    usual = None
    if not noise_free and sum(len(pairs.parents) for pairs in levels) < MOST_LEARNED:
        usual = prior_of(level.likelihood for level in _share_mass(levels, n_all, DEFAULT_PRIOR, noise_free))
    cells, depths, mass = [], [], []
    shared = list(_share_mass(levels, n_all, usual, noise_free))
    for depth, level in enumerate(shared):
        ends = np.ones(len(level.cells), dtype=bool)
        if depth < len(levels):
            ends[np.searchsorted(level.cells, levels[depth].parents)] = False
        cells.append(level.cells[ends])
        depths.append(np.full(len(cells[-1]), depth, dtype=np.int8))
        mass.append(level.mass[ends])
    partition = max((part.partition for part in parts), key=lambda partition: partition.depth)
    return DiscreteMeasure.from_mass(partition, np.concatenate(cells), np.concatenate(depths), np.concatenate(mass))


def _add_parts(parts: Sequence[TwoStages], numbers: Sequence[float]) -> list[_SiblingCounts]:
    """Add up the counts of all parts at the levels 1, 2, ..."""
    found = defaultdict(list)
    for part, number in zip(parts, numbers, strict=True):
        weight = number / part.n
        for level, parents, estimates, variances in replace(part).pairs():  # of a copy, so that nothing computed stays with a part
            spread = np.broadcast_to(variances, estimates.shape)
            found[level].append((parents, weight * estimates, weight**2 * spread, np.full(len(parents), float(number))))
    return [_sums_of_level(*map(np.concatenate, zip(*found.pop(level), strict=True))) for level in sorted(found)]


def _sums_of_level(parents: np.ndarray, estimates: np.ndarray, variances: np.ndarray, counted: np.ndarray) -> _SiblingCounts:
    distinct, places = np.unique(parents, return_inverse=True)
    children, n = interleave_siblings(2 * places, 2 * places + 1), len(distinct)
    counts, noise = (np.bincount(children, values, 2 * n) for values in (estimates, variances))
    return _SiblingCounts(distinct, counts, noise, np.bincount(places, counted, n))


def _share_mass(levels: Sequence[_SiblingCounts], n_all: float, usual: np.ndarray | None, noise_free: bool) -> Iterator[_Cells]:
    """Yield the cells of the levels 0, 1, ... with their mass, shared from the root."""
    cells, mass = np.zeros(1, dtype=np.int64), np.array([n_all])
    yield _Cells(cells, mass, NO_PAIRS)
    for pairs in levels:
        whole = mass[np.searchsorted(cells, pairs.parents)]
        times = whole / _n_rows_counted(pairs, whole, n_all, noise_free)
        of_pair = np.repeat(times, 2)
        share = pairs.variances[0::2] / (pairs.variances[0::2] + pairs.variances[1::2])
        left, _, likelihood = left_mass(whole, of_pair * pairs.estimates, of_pair**2 * pairs.variances, share, usual)
        cells, mass = interleave_siblings(2 * pairs.parents, 2 * pairs.parents + 1), interleave_siblings(left, whole - left)
        yield _Cells(cells, mass, likelihood)


def _n_rows_counted(pairs: _SiblingCounts, whole: np.ndarray, n_all: float, noise_free: bool) -> np.ndarray:
    """Return how many rows of each parent are in the parts that counted its children.

    The same share as of all rows, unless the counts themselves are clear of that; and at least all that the other parts cannot hold.
    """
    seen = pairs.estimates[0::2] + pairs.estimates[1::2]
    reach = 0.0 if noise_free else _CLEAR * np.sqrt(pairs.variances[0::2] + pairs.variances[1::2])
    likely = np.clip(whole * (pairs.counted / n_all), seen - reach, seen + reach)
    return np.maximum(np.clip(likely, whole - (n_all - pairs.counted), whole), _LEAST)
