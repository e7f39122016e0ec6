"""Which tables are counted together: one table over several columns holds those over some of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_CELLS = 1 << 13  # of a table that is counted in place of several: in the cache
_PERFECT_BITS = 12  # of all codes of a table up to which DuckDB needs no hash


@dataclass(frozen=True)
class Joint:
    """A table to count, and those that are sums of it."""

    columns: tuple[int, ...]
    tables: tuple[int, ...]  # which of the wanted tables are over some of these columns


def is_small(sizes: Sequence[int]) -> bool:
    """Whether the codes of all columns of a table fit into so few bits that a database addresses its cells directly."""
    return sum((size + 1).bit_length() for size in sizes if size > 1) <= _PERFECT_BITS


def choose_joint_tables(sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]) -> list[Joint]:
    """Return few tables that hold all wanted ones, each of which is in exactly one; they have two columns besides those that all share.

    Counting a table costs about the same whether it has two columns or five, as long as its cells are few, and one of five columns holds
    ten of pairs. Greedy: a table that is not yet held grows by the column that brings the most others for its price.
    """
    shared = frozenset.intersection(*map(frozenset, attributes)) if attributes else frozenset()
    rest = [tuple(set(columns) - shared) for columns in attributes]
    if any(len(columns) > 2 for columns in rest):
        return [Joint(columns, (table,)) for table, columns in enumerate(attributes)]
    wanted: dict[frozenset[int], list[int]] = {}
    for table, columns in enumerate(rest):
        wanted.setdefault(frozenset(columns), []).append(table)
    # Of each column, the columns with which it still shares a wanted table, as bits; itself where it is wanted alone.
    beside = [0] * len(sizes)
    for pair in wanted:
        for one in pair:
            beside[one] |= sum(1 << other for other in pair - {one}) if len(pair) > 1 else 1 << one
    joints = []
    while wanted:
        group = _grow(next(iter(wanted)), shared, sizes, beside)
        held = [pair for pair in _pairs_within(group) if pair in wanted]
        joints.append(Joint((*sorted(shared), *sorted(group)), tuple(table for pair in held for table in wanted.pop(pair))))
        for pair in held:
            for one in pair:
                beside[one] &= ~(sum(1 << other for other in pair - {one}) if len(pair) > 1 else 1 << one)
    return joints


def _grow(seed: frozenset[int], shared: frozenset[int], sizes: Sequence[int], beside: Sequence[int]) -> list[int]:
    """Return the columns of a table around a seed that holds the most wanted tables for its price."""
    group, mask, held = sorted(seed), sum(1 << one for one in seed), 1
    best, best_rate = list(group), held / _price(group, shared, sizes)
    while True:
        options = []
        for column, others in enumerate(beside):
            if not (mask >> column & 1) and (new := (others & (mask | 1 << column)).bit_count()):
                grown = [*group, column]
                if math.prod(sizes[one] for one in {*grown, *shared}) <= _MOST_CELLS:
                    options.append(((held + new) / _price(grown, shared, sizes), column, new))
        if not options:
            return best
        rate, column, new = max(options)
        group, mask, held = [*group, column], mask | 1 << column, held + new
        if rate > best_rate:
            best, best_rate = list(group), rate


def _price(group: Sequence[int], shared: frozenset[int], sizes: Sequence[int]) -> float:
    """Milliseconds that DuckDB needs to count a table of 10 million rows on two cores, roughly."""
    of_table = [sizes[column] for column in {*group, *shared}]
    return 33.0 if is_small(of_table) else 45.0 + math.prod(of_table) / 200


def _pairs_within(group: Sequence[int]) -> list[frozenset[int]]:
    alone = [frozenset([one]) for one in group]
    return [frozenset(), *alone, *(frozenset([one, other]) for i, one in enumerate(group) for other in group[:i])]


@dataclass(frozen=True)
class Clock:
    """How a column of dates or times becomes numbers: whole units since the lower bound."""

    first: int  # the bounds, in units since 1970
    last: int
    microseconds: int  # of a unit
    is_date: bool  # whether the column holds dates, not times to the microsecond


@dataclass(frozen=True, eq=False)
class Cuts:
    """Classes of a column of numbers: first all that is missing, then the numbers that are at least as large as 0, 1, ... of some cuts."""

    cuts: np.ndarray  # floats in ascending order, shape (n_classes - 2,)
    low: float  # bounds, between which most cuts may lie evenly
    high: float
    clock: Clock | None = None  # of dates and times
    is_whole: bool = False  # whether the column can hold no other than whole numbers, none of which is NaN

    @property
    def cells(self) -> np.ndarray:
        if self.clock is None:
            return np.concatenate([[np.nan, -np.inf], self.cuts])
        units = np.concatenate([[-1], np.ceil(self.cuts).astype(np.int64)]) + self.clock.first
        return np.append(np.datetime64("NaT", "us"), (units * self.clock.microseconds).view("datetime64[us]"))


@dataclass(frozen=True, eq=False)
class Values:
    """Classes of any column: first all that is none of some values, then each of those."""

    values: tuple[Any, ...]  # distinct, of the type of the column

    @property
    def cells(self) -> np.ndarray:
        cells = np.empty(len(self.values) + 1, dtype=object)
        cells[:] = [None, *self.values]
        return cells


Classes = Cuts | Values
