"""A tree of cells that grows with time, with a private counter in each: Algorithm 12."""

import copy
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._serialization import require
from skdpsynth.continual import InhomogeneousCounter
from skdpsynth.domain import Box
from skdpsynth.fitting import Budget
from skdpsynth.measures import BinaryPartition, DiscreteMeasure, pair_sums, uniform_consistency
from skdpsynth.persistence import savable
from skdpsynth.privacy import Amount, PrivacyAccountant, RandomBits, check_epsilon, split_exactly

_DEEPEST = 22  # levels of the tree: beyond, counts would not fit into memory
_FINEST = 4  # 2**4 cells for each row that a level of time begins with, at most: more stay empty, whatever epsilon allows
_LINE_SHARE = Fraction(155, 100)  # sum over j >= 1 of 1 / (j + 1)^2 is pi^2 / 6 - 1 = .6449 < 1 / 1.55
_TICK_LINE_SHARE = Fraction(607, 1000)  # sum over j >= 0 of 1 / (j + 1)^2 is pi^2 / 6 = 1.6449 < 1 / .607
_COMPARISONS = 64  # of a sparse counter, while its threshold could fill up
_COUNT_ERROR = 100  # over the share of a level: more than the expected error of one count of it, while time is below four million


@savable
class GrowingTree:
    """A tree whose level r of time begins with row ``ceil(2**r / epsilon)`` and splits every cell once more.

    Its stream holds a lock whenever it calls.

    With `in_ticks` the number of rows is private, and time is counted in ticks, each with any number of rows; level 0 begins with the
    first. At each tick the counters get the counts of all cells. A row more or less changes them by 1 in one cell of each depth, 0 among
    them, at one tick: half of the effect of replacing a row, except for the count of all rows, which is then released too. It is in one
    level of time, whose shares sum to at most epsilon.
    """

    box: Box
    epsilon: Any
    counter: str
    in_ticks: bool
    n_seen: int  # rows, or ticks
    n_begun: int  # the same with those that are being counted
    level: int  # of time
    counters: list[InhomogeneousCounter]  # of the cells of one depth after the other
    _error: float  # of the number of rows, at most, as expected

    group, delta, dropped, left = "levels of time", 0, 0, 0
    first_row, stop_of = 0, None  # what was read of a counter stands in no ledger, so no name tells which rows were released

    def __init__(self, box: Box, epsilon: Amount, counter: str, in_ticks: bool = False) -> None:
        self.box, self.epsilon, self.counter, self.in_ticks = box, epsilon, counter, in_ticks
        self.n_seen = self.n_begun = 0
        self.level, self.counters, self._error = -1, [], 0.0

    def _check_loaded(self) -> None:
        """Refuse counters that cover less than a row changes, or with other shares than their level was charged for."""
        require(check_epsilon(self.epsilon) and 0 <= self.n_seen <= self.n_begun and self._error >= 0)
        shares = self._shares() if self.counters else []
        for depth, (counter, share) in enumerate(zip(self.counters, shares, strict=True), self._first_depth):
            require((counter.n_counters, counter.counter, counter.sensitivity) == (2**depth, self.counter, self._sensitivity))
            require(counter.name == f"cells of depth {depth}" and counter.epsilon in (None, share))

    @property
    def _first_depth(self) -> int:
        """Depth of the first counter; the number of all rows is counted only where it is private."""
        return 0 if self.in_ticks else 1

    def _shares(self) -> list:
        depth = len(self.counters) + self._first_depth - 1
        return depth_shares(self.epsilon, depth, self.box.n_features, self._first_depth)

    @property
    def _partition(self) -> BinaryPartition:
        return BinaryPartition(self.box, len(self.counters) + self._first_depth - 1, spread=False)

    def level_start(self, level: int) -> int:
        """Return the row or tick, counted from 1, with which a level of time begins."""
        epsilon = 1 if self.epsilon == math.inf else self.epsilon
        return 1 if self.in_ticks and level == 0 else math.ceil(2**level / epsilon)

    def with_new_rows(self, X: np.ndarray, stream: BaseEstimator, budget: Budget) -> "GrowingTree":
        """Count rows, or a tick with all its rows, and return this tree; levels that begin are charged.

        It is changed in place, and counts no more if the stream does not know of all the rows that it began to count: some counters may
        have seen rows that others have not.
        """
        budget.accountant.check_open("The stream")
        if self.n_begun != stream._time:
            raise RuntimeError(
                "The stream was interrupted while it took in rows, so counting them again is not safe; load a saved state, or fit."
            )
        self.n_begun += 1 if self.in_ticks else len(X)
        start = 0
        while self.n_seen < self.n_begun:
            if self.n_seen + 1 >= self.level_start(self.level + 1):
                self._begin_level(budget.accountant, budget.rng)
            if self.in_ticks:  # the step "Perturbation", which here and below the counters do
                counts = np.bincount(self._partition.locate(X), minlength=2**self._partition.depth)
                for counter in reversed(self.counters):
                    counter.update(counts)
                    counts = pair_sums(counts)
                self.n_seen += 1
            else:
                stop = min(len(X), start + self.level_start(self.level + 1) - 1 - self.n_seen)
                cells: Any = self._partition.locate(X[start:stop]) if self.counters else None
                for counter in reversed(self.counters):
                    counter.update_cells(cells)
                    cells = cells >> 1
                self.n_seen += stop - start
                start = stop
        return self

    def _begin_level(self, accountant: PrivacyAccountant, rng: RandomBits) -> None:
        """End a level of time and begin the next: a new binary partition, and new subroutines, whose counters share its budget."""
        level = self.level + 1
        while self.n_seen + 1 >= self.level_start(level + 1):
            level += 1  # with epsilon > 1 the first levels may be empty
        # The depth is the level, where epsilon is at most 2**_FINEST: then the level begins with row 2**(level - _FINEST) at the earliest.
        depth = min(level, (self.n_seen + 1).bit_length() - 1 + _FINEST, _DEEPEST, self.box.n_features * self.box.bits)
        for counter in self.counters:
            counter.end_level()
        while len(self.counters) + self._first_depth <= depth:
            self.counters.append(self._split())
        self.level = level
        if not self.counters:
            return
        # A row is counted in one level of time: levels cost what one of them does.
        name = self._level_name()
        child = accountant.child(self.epsilon, name=name, group=self.group)
        length = self.level_start(self.level + 1) - 1 - self.n_seen
        shares = self._shares()
        if self.in_ticks and self.epsilon != math.inf:
            self._error += _COUNT_ERROR / float(shares[0])
        for counter, share in zip(self.counters, shares, strict=True):
            if self.counter != "sparse" or self.epsilon == math.inf or self.in_ticks:
                counter.every = 1
            else:  # steps between comparisons, a public choice: a larger epsilon than the tree uses would only compare more often
                felt = share * min(1, 2**_FINEST / self.epsilon)
                counter.every = max(1, int(9 * math.log(max(length, 2)) / float(felt / 4) / _COMPARISONS))
            counter.start_level(length, share, child, rng.child(name))

    def _split(self) -> InhomogeneousCounter:
        """Return a counter of cells one depth deeper; each inherits half of the released count of its parent, at no cost."""
        depth = len(self.counters) + self._first_depth
        history = np.zeros(1, dtype=np.int64)
        if depth:
            parent = self.counters[-1].value if self.counters else np.array([self.n_seen])
            history = np.stack([parent - parent // 2, parent // 2], axis=1).ravel()
        return InhomogeneousCounter(
            self.counter, n_counters=2**depth, sensitivity=self._sensitivity, history=history, name=f"cells of depth {depth}"
        )

    @property
    def _sensitivity(self) -> int:
        """The L1 sensitivity of the counts of a depth: a replaced row leaves one cell for another; an added one is in one."""
        return 1 if self.in_ticks else 2

    def _level_name(self) -> str:
        return f"{'ticks' if self.in_ticks else 'rows'} {self.level_start(self.level) - 1} to {self.level_start(self.level + 1) - 2}"

    def resume(self, accountant: PrivacyAccountant, rng: RandomBits) -> None:
        """Take noise under an earlier charge."""
        for counter in self.counters:
            # The streams of this level of time: with the seed set again, the noise of what it left unfinished is the same.
            counter.resume(accountant, rng.child(self._level_name()))

    def snapshot(self) -> "GrowingTree":
        """Return a copy, with the noise of this time drawn, so that all copies agree on it."""
        twin = object.__new__(GrowingTree)
        vars(twin).update(vars(self), counters=[copy.copy(counter) for counter in self.counters])
        return twin

    def n_rows(self, first: int) -> tuple[int, float]:
        """Return the number of rows (here: from the start) and its expected error."""
        return (max(1, int(self.counters[0].value[0])), self._error) if self.in_ticks else (self.n_seen - first, 0.0)

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        return self._measure(rng).sample_blocks(n_samples, rng)

    def _measure(self, rng: np.random.Generator) -> DiscreteMeasure:
        counts = [np.maximum(counter.value, 0) for counter in self.counters]
        counts = counts if self.in_ticks else [np.array([self.n_seen]), *counts]
        depth = len(counts) - 1
        leaves = uniform_consistency(counts, rng) if depth else np.ones(1)  # the step "Consistency"
        return DiscreteMeasure.from_mass(self._partition, np.arange(2**depth), np.full(2**depth, depth, dtype=np.int8), leaves)


def tree_depth(size: float) -> int:
    """Return the depth of the tree after `size` rows times epsilon: it halves the cells along so many features at most."""
    return min(int(math.log2(max(size, 1))), _DEEPEST)


def depth_shares(epsilon: Amount, depth: int, n_features: int, first: int = 1) -> list:
    """Return the epsilons of the counters of depths `first`, ..., `depth` in a level of time: for a row they sum to at most `epsilon`.

    From depth 1 on a row is replaced: it is on two paths of the tree, which both are paid for here. From depth 0 on it is added or
    removed, which is on one path. More than one feature: shares grow with the depth like alpha**j, and their sum is epsilon exactly. One
    feature: 1.55 (from depth 0 on: .607) epsilon / (j + 1)**2, at any depth.
    """
    depths = range(first, depth + 1)
    if n_features == 1:
        whole = _LINE_SHARE if first else _TICK_LINE_SHARE
        return [epsilon if epsilon == math.inf else epsilon * whole / (j + 1) ** 2 for j in depths]
    alpha = 2 ** ((1 - 1 / n_features) / 2)
    return split_exactly(epsilon, [alpha ** (j - depth) for j in depths])
