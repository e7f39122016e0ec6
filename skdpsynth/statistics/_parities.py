"""Exact parities: what columns hold together beyond all pairs, as sums over rows of products of signs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic

_ROWS = 1 << 16  # at a time: a multiple of the bits of a word
_BITS = 64


@dataclass(frozen=True, eq=False, repr=False)  # its sums are private: no repr shows them
class Parities(Statistic):
    """Sums over rows of the product of the signs of some columns, in each class of rows.

    The codes of a column are cut in two: a row has the sign -1 in it where its code is in the second part. The product is 1 where an even
    number of them is -1, so the sum tells an exclusive or of columns from independent ones, which have all tables of pairs in common.
    """

    counts: np.ndarray  # shape (n_classes, n_sets), int64

    def query(self, place: int, relation: str) -> Query:
        """Return the sums of one set, class by class, with their sensitivity."""
        return Query(self.counts[:, place].copy(), self.sensitivity(relation, len(self.counts)))

    @staticmethod
    def sensitivity(relation: str, n_classes: int) -> Sensitivity:
        """Return how far one row moves the sums of one set: a public fact.

        A row adds 1 or -1 to the sum of its class. Replaced by one of this class it moves that by 2 or not at all; by one of another class,
        two sums by 1 each, which is as much in l1 and less in squared l2. Attained by two rows that differ in one column of the set.
        """
        facts = statistic_facts("parities", sets=1, classes=n_classes)
        moved = 2 if relation == "replace_one" else 1
        return Sensitivity(relation, moved, moved**2, moved, statistic=facts)

    def gaps(self, expected: np.ndarray, places: Sequence[int], relation: str) -> Query:
        """Return how far some sets are from what was expected of them: the sums over classes of absolute differences.

        The expected numbers are whole and made of earlier releases: a neighbor has the same.
        """
        return Query(np.abs(self.counts - expected).sum(axis=0)[list(places)], self.sensitivity_of_gaps(relation, len(places)))

    @staticmethod
    def sensitivity_of_gaps(relation: str, n_sets: int) -> Sensitivity:
        """Return how far one row moves the gaps of so many sets: a public fact.

        A gap moves by no more than the sums of its set do in l1, which is 1, or 2 if a row is replaced. All sets may do so at once if a row
        comes or goes. If it is replaced, those move that hold an odd number of the columns in which it differs.
        """
        most = 2 if relation == "replace_one" else 1
        return Sensitivity(relation, most * n_sets, most**2 * n_sets, most, statistic=statistic_facts("parity_gaps", sets=n_sets))


@savable
@dataclass(frozen=True, eq=False)
class SumParities(Aggregator):
    """Sums products of signs over all sets of some numbers of columns, of chunks whose last column is the class."""

    columns: tuple[int, ...]  # places in a chunk
    signs: tuple[np.ndarray, ...]  # whether each code has the sign -1
    orders: tuple[int, ...]  # numbers of columns of a set, at least 3
    n_classes: int

    def __str__(self) -> str:
        return f"sums of products of signs in {self.n_sets} sets of {len(self.columns)} columns"

    @property
    def n_sets(self) -> int:
        return sum(math.comb(len(self.columns), order) for order in self.orders)

    @property
    def n_values(self) -> int:
        return self.n_classes * self.n_sets

    @property
    def sets(self) -> list[np.ndarray]:
        """The sets by their order, shape (n_sets, order): numbers of `columns`, in the order in which they are summed."""
        return [np.array(list(combinations(range(len(self.columns)), k)), dtype=np.int64).reshape(-1, k) for k in self.orders]

    def zero(self) -> Parities:
        return Parities(np.zeros((self.n_classes, self.n_sets), dtype=np.int64))

    def add(self, statistic: Parities, chunk: Sequence[np.ndarray]) -> Parities:
        """Add the rows of a chunk, in place."""
        for start in range(0, len(chunk[-1]), _ROWS):
            block = [column[start : start + _ROWS] for column in (*map(chunk.__getitem__, self.columns), chunk[-1])]
            for label, sums in enumerate(statistic.counts):
                rows = slice(None) if self.n_classes == 1 else np.flatnonzero(block[-1] == label)
                sums += self._sums([sign[codes[rows]] for sign, codes in zip(self.signs, block, strict=False)])
        return statistic

    def _sums(self, minus: Sequence[np.ndarray]) -> np.ndarray:
        """Return the sums over rows, of which `minus` tells the signs: a product is the exclusive or of bits."""
        m, n_rows = len(minus), len(minus[0])
        flags = np.zeros((m, -(-n_rows // _BITS) * _BITS), dtype=bool)  # rows beyond the last are of no set
        flags[:, :n_rows] = minus
        bits = np.packbits(flags, axis=1).view(np.uint64)
        first, second = np.triu_indices(m, 1)
        pairs, after = bits[first] ^ bits[second], np.searchsorted(first, np.arange(1, m + 1))  # where pairs of later columns begin
        sums = []
        for order in self.orders:
            for *others, last in combinations(range(m), order - 2):  # the last two columns of a set are a pair of later ones
                head = np.bitwise_xor.reduce(bits[[*others, last]], axis=0)
                sums.append(np.bitwise_count(pairs[after[last] :] ^ head).sum(axis=1, dtype=np.int64))
        return n_rows - 2 * np.concatenate(sums) if sums else np.zeros(0, dtype=np.int64)
