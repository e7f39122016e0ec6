"""Blocks of columns that depend on each other, as far as noisy tables tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth.persistence import savable

_MAX_BLOCK_SIZE = 12  # the most columns of a block
_MIN_GROUPS = 3  # of a nominal column with more codes
_MAX_GROUPS = 2048  # of all columns, up to which nominal ones have more: a model of so many takes about ten seconds

Block = tuple[int, ...]


@savable
@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Tables over some of the columns, in each class of rows, as they were released together."""

    tables: Mapping[Block, np.ndarray]  # by the columns of each, shape (n_classes, ...)
    variance: float  # of the noise of each count; 0 without noise

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)


def shares_of(totals: np.ndarray) -> np.ndarray:
    """Return non-negative numbers as shares of their sum; equal ones if all are 0."""
    whole = totals.sum()
    return totals / whole if whole > 0 else np.full(len(totals), 1 / len(totals))


def merge_codes(one_way: NoisyTables, is_nominal: Sequence[bool]) -> list[np.ndarray]:
    """Merge the codes of each column into groups of about equal mass; return, for each column, the group of each code.

    Ordered codes have two groups of neighbors: a trend shows in any two. A dependence of nominal codes may lie between any of them, and a
    group hides it, whatever the noise. The sensitivity of the interactions of a pair hardly grows with the number of codes, and the factors
    are few, so the noise of more counts hardly moves them. So each nominal code is a group by itself, unless these are too many to fit.
    """
    counts = [table.sum(axis=0) for table in one_way.tables.values()]
    sizes = [len(each) if nominal else 2 for each, nominal in zip(counts, is_nominal, strict=True)]
    most = max(sizes, default=0)
    while most > _MIN_GROUPS and sum(min(size, most) for size in sizes) > _MAX_GROUPS:
        most -= 1
    return [_equal_mass_groups(each, most if nominal else 0) for each, nominal in zip(counts, is_nominal, strict=True)]


def join_into_blocks(dependence: np.ndarray, tied: Sequence[Sequence[int]] = ()) -> list[Block]:
    """Join columns into blocks of at most 12, the most dependent first; at least two are joined.

    The dependence of a pair is about 0 where there is nothing but noise, and hardly ever more than 1. Columns that are `tied` share a
    block, however many they are.
    """
    blocks: dict[int, Block] = {i: (i,) for i in range(len(dependence))}
    for together in tied:
        blocks |= dict.fromkeys(together, tuple(sorted(together)))
    first, second = np.triu_indices(len(dependence), 1)
    order = np.argsort(-dependence[first, second], kind="stable")
    n_joined = max(1, int((dependence[first, second] > 1).sum()))
    for i, j in zip(first[order[:n_joined]].tolist(), second[order[:n_joined]].tolist(), strict=True):
        if blocks[i] != blocks[j] and len(blocks[i]) + len(blocks[j]) <= _MAX_BLOCK_SIZE:
            joined = tuple(sorted(blocks[i] + blocks[j]))
            blocks |= dict.fromkeys(joined, joined)
    return sorted(set(blocks.values()))


def max_pair_counts(sizes: Sequence[int], in_blocks: bool) -> int:
    """Return the most counts that the pairs of codes of columns within blocks can have: a bound on the work of their models.

    It is largest if the columns of most codes share a block, then those of the most that are left.
    """
    ordered = sorted(sizes, reverse=True)
    width = _MAX_BLOCK_SIZE if in_blocks else max(len(ordered), 1)
    return sum(sum(ordered[i : i + width]) ** 2 for i in range(0, len(ordered), width))


def pairs_within(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    return [pair for block in blocks for pair in combinations(block, 2)]


def _equal_mass_groups(noisy: np.ndarray, most: int) -> np.ndarray:
    """Merge codes into groups of about equal mass: `most` of any codes, each into the lightest so far; if 0, two of neighbors."""
    mass = np.maximum(noisy, 0).astype(float)
    if not most or len(mass) <= 2:
        upto = np.cumsum(mass) - mass / 2
        half = (upto > mass.sum() / 2).astype(np.int64)
        return half if 0 < half.sum() < len(mass) else (np.arange(len(mass)) >= (len(mass) + 1) // 2).astype(np.int64)
    group, load = np.zeros(len(mass), dtype=np.int64), np.zeros(min(most, len(mass)))
    for rank, code in enumerate(np.argsort(-mass, kind="stable")):
        group[code] = rank if rank < len(load) else int(np.argmin(load))
        load[group[code]] += mass[code]
    return group
