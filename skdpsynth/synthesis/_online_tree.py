"""A tree of cells that grows with time, with a private counter in each: Algorithm 12."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.continual import InhomogeneousCounter
from skdpsynth.measures import BinaryPartition, DiscreteMeasure, uniform_consistency
from skdpsynth.privacy import split_exactly

_DEEPEST = 22  # levels of the tree: beyond, counts would not fit into memory
_LINE_SHARE = Fraction(155, 100)  # sum over j >= 1 of 1 / (j + 1)^2 is pi^2 / 6 - 1 = .6449 < 1 / 1.55
_COMPARISONS = 64  # of a sparse counter, while its threshold could fill up


class GrowingTree:
    """Level r of time begins with row ``ceil(2**r / epsilon)`` and splits every cell once more.

    Parameters
    ----------
    box : Box
    epsilon : Fraction or inf
    counter : {"kary", "binary", "sparse"}
    """

    def __init__(self, box, epsilon, counter):
        self.box, self.epsilon, self.delta, self.counter = box, epsilon, 0, counter
        self.n_seen = 0
        self.broken = False
        self.level = -1  # of time; counters[j - 1] counts the cells of depth j
        self.counters: list = []
        self._partition: Any = None

    def start_of(self, level):
        """Row, counted from 1, with which a level of time begins."""
        epsilon = 1 if self.epsilon == math.inf else self.epsilon
        return math.ceil(2**level / epsilon)

    def extend(self, X, accountant, rng):
        """Count rows; levels that begin are charged.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        accountant : PrivacyAccountant
        rng : SecureBits or SeededBits
        """
        accountant.check_open("The stream")
        if self.broken:
            raise RuntimeError(
                "The stream was interrupted while it took in rows, so counting them again is not safe; load a saved state, or fit."
            )
        self.broken = True  # until all is counted: half of the counters may have seen a row
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
        self.broken = False

    def _begin_level(self, accountant, rng):
        level = self.level + 1
        while self.n_seen + 1 >= self.start_of(level + 1):
            level += 1  # with epsilon > 1 the first levels may be empty
        depth = min(level, _DEEPEST, self.box.n_features * self.box.bits)
        for counter in self.counters:
            counter.end_level()
        while len(self.counters) < depth:
            # A new cell takes over half of what was released of its parent: nothing is paid for its history.
            parent = self.counters[-1].value if self.counters else np.array([self.n_seen])
            halves = np.stack([parent - parent // 2, parent // 2], axis=1).ravel()
            self.counters.append(self._counter(len(self.counters) + 1, halves))
        self.level = level
        self._partition = BinaryPartition(self.box, depth, spread=False)
        if depth:
            # A row is counted in one level of time: levels cost what one of them does.
            name = self._name_of_level()
            child = accountant.child(self.epsilon, name=name, group="levels of time")
            length = self.start_of(level + 1) - 1 - self.n_seen
            for counter, share in zip(self.counters, shares_of_depths(self.epsilon, depth, self.box.n_features), strict=True):
                counter.every = 1
                if self.counter == "sparse" and self.epsilon != math.inf:
                    counter.every = max(1, int(9 * math.log(max(length, 2)) / float(share / 4) / _COMPARISONS))
                counter.start_level(length, share, child, rng.child(name))

    def _name_of_level(self):
        return f"rows {self.start_of(self.level) - 1} to {self.start_of(self.level + 1) - 2}"

    def _counter(self, depth, history):
        # Replacing a row takes one from a cell of each depth and gives one to another.
        return InhomogeneousCounter(self.counter, n_counters=2**depth, sensitivity=2, history=history, name=f"cells of depth {depth}")

    def resume(self, accountant, rng):
        """Take noise under what was charged already."""
        for counter in self.counters:
            # The streams of this level of time: with the seed set again, the noise is that of a stream that was never saved.
            counter.resume(accountant, rng.child(self._name_of_level()))

    def settle(self):
        """Draw the noise of this time, so that copies that are made now agree on it."""
        for counter in self.counters:
            _ = counter.value

    def sample(self, n_samples, rng):
        """Return rows of the measure of this time; uniform ones before there are cells."""
        if not self.counters:
            return self.box.low + self.box.width * rng.random((n_samples, self.box.n_features))
        counts = [np.array([self.n_seen]), *(np.maximum(counter.value, 0) for counter in self.counters)]
        leaves = uniform_consistency(counts, rng)
        depth = len(self.counters)
        everywhere = np.arange(2**depth)
        measure = DiscreteMeasure.from_mass(self._partition, everywhere, np.full(2**depth, depth, dtype=np.int8), leaves)
        return measure.sample(n_samples, rng)


def shares_of_depths(epsilon, depth, n_features):
    """Epsilons of the counters of depths 1, ..., `depth` in a level of time, for replacing a row: they sum to at most `epsilon`.

    The change of a row is on two paths of the tree, which both are paid for here. More than one feature: shares grow with the depth
    like alpha**j, and their sum is epsilon exactly. One feature: 1.55 epsilon / (j + 1)**2, at any depth.
    """
    if n_features == 1:
        return [epsilon if epsilon == math.inf else epsilon * _LINE_SHARE / (j + 1) ** 2 for j in range(1, depth + 1)]
    alpha = 2 ** ((1 - 1 / n_features) / 2)
    return split_exactly(epsilon, [alpha ** (j - depth) for j in range(1, depth + 1)])
