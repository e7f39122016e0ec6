"""A tree of cells that grows with time, with a private counter in each: Algorithm 12."""

import copy
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.continual import InhomogeneousCounter
from skdpsynth.fitting import Budget
from skdpsynth.measures import BinaryPartition, DiscreteMeasure, uniform_consistency
from skdpsynth.persistence import savable
from skdpsynth.privacy import split_exactly

_DEEPEST = 22  # levels of the tree: beyond, counts would not fit into memory
_FINEST = 4  # 2**4 cells for each row that a level of time begins with, at most: more stay empty, whatever epsilon allows
_LINE_SHARE = Fraction(155, 100)  # sum over j >= 1 of 1 / (j + 1)^2 is pi^2 / 6 - 1 = .6449 < 1 / 1.55
_COMPARISONS = 64  # of a sparse counter, while its threshold could fill up


@savable
class GrowingTree:
    """Level r of time begins with row ``ceil(2**r / epsilon)`` and splits every cell once more.

    Its stream holds a lock whenever it calls.

    Parameters
    ----------
    box : Box
    epsilon : Fraction or inf
    counter : {"kary", "binary", "sparse"}
    """

    group, delta, dropped = "levels of time", 0, 0

    def __init__(self, box: Any, epsilon: Any, counter: str) -> None:
        self.box, self.epsilon, self.counter = box, epsilon, counter
        self.n_seen = 0
        self.n_begun = 0  # n_seen, and rows that are being counted
        self.level = -1  # of time; counters[j - 1] counts the cells of depth j
        self.counters: list[InhomogeneousCounter] = []
        self._partition: Any = None

    def start_of(self, level: int) -> int:
        """Row, counted from 1, with which a level of time begins."""
        epsilon = 1 if self.epsilon == math.inf else self.epsilon
        return math.ceil(2**level / epsilon)

    def extended(self, X: np.ndarray, stream: Any, budget: Budget) -> "GrowingTree":
        """Count rows, and return this tree; levels that begin are charged.

        It is changed in place, and counts nothing more if the stream does not know of all the rows that it began to count: some
        counters may have seen rows that others have not.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        stream : OnlineSynthesizer
            Whose ``n_samples_seen_`` is assigned once the rows are counted.
        budget : Budget
        """
        budget.accountant.check_open("The stream")
        if self.n_begun != stream.n_samples_seen_:
            raise RuntimeError(
                "The stream was interrupted while it took in rows, so counting them again is not safe; load a saved state, or fit."
            )
        self.n_begun += len(X)
        self._count(X, budget.accountant, budget.rng)
        return self

    def _count(self, X: np.ndarray, accountant: Any, rng: Any) -> None:
        start = 0
        while start < len(X):
            if self.n_seen + 1 >= self.start_of(self.level + 1):
                self._begin_level(accountant, rng)
            stop = min(len(X), start + self.start_of(self.level + 1) - 1 - self.n_seen)
            if self.counters:
                cells = self._partition.locate(X[start:stop])
                for counter in reversed(self.counters):
                    counter.update_cells(cells)
                    cells = cells >> 1
            self.n_seen += stop - start
            start = stop

    def _begin_level(self, accountant: Any, rng: Any) -> None:
        level = self.level + 1
        while self.n_seen + 1 >= self.start_of(level + 1):
            level += 1  # with epsilon > 1 the first levels may be empty
        depth = self._depth_of(level)
        for counter in self.counters:
            counter.end_level()
        while len(self.counters) < depth:
            self.counters.append(self._split())
        self.level = level
        self._partition = BinaryPartition(self.box, depth, spread=False)
        if depth:
            self._start_counters(accountant, rng)

    def _split(self) -> InhomogeneousCounter:
        """Return a counter of cells of one depth more; each takes over half of what was released of its parent, at no cost."""
        parent = self.counters[-1].value if self.counters else np.array([self.n_seen])
        halves = np.stack([parent - parent // 2, parent // 2], axis=1).ravel()
        depth = len(self.counters) + 1
        # Replacing a row takes one from a cell of each depth and gives one to another.
        return InhomogeneousCounter(self.counter, n_counters=2**depth, sensitivity=2, history=halves, name=f"cells of depth {depth}")

    def _start_counters(self, accountant: Any, rng: Any) -> None:
        # A row is counted in one level of time: levels cost what one of them does.
        name = self._name_of_level()
        child = accountant.child(self.epsilon, name=name, group=self.group)
        length = self.start_of(self.level + 1) - 1 - self.n_seen
        shares = shares_of_depths(self.epsilon, len(self.counters), self.box.n_features)
        for counter, share in zip(self.counters, shares, strict=True):
            counter.every = self._every(length, share)
            counter.start_level(length, share, child, rng.child(name))

    def _every(self, length: int, share: Any) -> int:
        """Steps from one comparison of a sparse counter to the next: a public choice."""
        if self.counter != "sparse" or self.epsilon == math.inf:
            return 1
        # A larger epsilon than the tree makes use of would only compare more often.
        felt = share * min(1, 2**_FINEST / self.epsilon)
        return max(1, int(9 * math.log(max(length, 2)) / float(felt / 4) / _COMPARISONS))

    def _depth_of(self, level: int) -> int:
        """Depth of the tree in a level of time that begins now, by public numbers.

        It is the level, where epsilon is at most 2**_FINEST: then the level begins with row 2**(level - _FINEST) at the earliest.
        """
        rows = self.n_seen + 1
        return min(level, rows.bit_length() - 1 + _FINEST, _DEEPEST, self.box.n_features * self.box.bits)

    def _name_of_level(self) -> str:
        return f"rows {self.start_of(self.level) - 1} to {self.start_of(self.level + 1) - 2}"

    def resume(self, accountant: Any, rng: Any) -> None:
        """Take noise under what was charged already."""
        for counter in self.counters:
            # The streams of this level of time: with the seed set again, the noise of what it left unfinished is the same.
            counter.resume(accountant, rng.child(self._name_of_level()))

    def settled(self) -> "GrowingTree":
        """Return a copy, with the noise of this time drawn, so that all copies agree on it."""
        twin = object.__new__(GrowingTree)
        vars(twin).update(vars(self), counters=[copy.copy(counter) for counter in self.counters])
        return twin

    def sample(self, n_samples: int, first: int, rng: np.random.Generator) -> np.ndarray:
        """Return rows of the measure of this time; uniform ones before there are cells."""
        return self._measure(rng).sample(n_samples, rng)

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Return the same a block at a time: those of this time, also if more rows come meanwhile."""
        return self._measure(rng).sample_blocks(n_samples, rng)

    def _measure(self, rng: np.random.Generator) -> DiscreteMeasure:
        counts = [np.array([self.n_seen]), *(np.maximum(counter.value, 0) for counter in self.counters)]
        depth = len(counts) - 1
        if not depth:
            whole = BinaryPartition(self.box, 0, spread=False)
            return DiscreteMeasure.from_mass(whole, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int8), np.ones(1))
        leaves = uniform_consistency(counts, rng)
        everywhere = np.arange(2**depth)
        return DiscreteMeasure.from_mass(self._partition, everywhere, np.full(2**depth, depth, dtype=np.int8), leaves)


def depth_of(size: float) -> int:
    """Return the depth of the tree after rows times epsilon that are `size`: it halves the cells along so many features at most."""
    return min(int(math.log2(max(size, 1))), _DEEPEST)


def shares_of_depths(epsilon: Any, depth: int, n_features: int) -> list:
    """Epsilons of the counters of depths 1, ..., `depth` in a level of time, for replacing a row: they sum to at most `epsilon`.

    The change of a row is on two paths of the tree, which both are paid for here. More than one feature: shares grow with the depth
    like alpha**j, and their sum is epsilon exactly. One feature: 1.55 epsilon / (j + 1)**2, at any depth.
    """
    if n_features == 1:
        return [epsilon if epsilon == math.inf else epsilon * _LINE_SHARE / (j + 1) ** 2 for j in range(1, depth + 1)]
    alpha = 2 ** ((1 - 1 / n_features) / 2)
    return split_exactly(epsilon, [alpha ** (j - depth) for j in range(1, depth + 1)])
