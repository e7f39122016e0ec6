"""What is summed over rows: a public rule, apart from the rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from skdpsynth.frames import Chunk, pack


class Aggregator(ABC):
    """The rule of a sum: it makes an empty statistic, and adds the rows of a chunk to one.

    It holds public facts alone and can be pickled and saved, so it goes to where the rows are. Sums of whole numbers are associative, so a
    table may be cut into chunks anywhere, and chunks added in any order: the statistic is the same to the last bit.

    See Also
    --------
    skdpsynth.statistics.total : Adds up all rows by such a rule.
    Histogram : A statistic.
    Question : A rule, and what becomes of rows before it.
    """

    @abstractmethod
    def zero(self) -> Any:
        """Return the statistic of no rows."""

    @abstractmethod
    def add(self, statistic: Any, chunk: Chunk) -> Any:
        """Return the statistic with the rows of a chunk added; `statistic` may be changed in place."""

    @property
    def n_values(self) -> int:
        """How many numbers the statistic holds; a rule that may come in a message says so without making them."""
        return len(self.zero().flat)

    def of(self, chunk: Chunk) -> Any:
        """Return the statistic of a chunk."""
        return self.add(self.zero(), chunk)

    def count_in(self, database: Any, rows: Any) -> Any:
        """Return the statistic of rows that lie in a database, counted there; None if they must be read for it."""
        return None

    def pack_sums(self, chunks: Iterable[Chunk]) -> Any:
        """Return the sums over chunks of rows in few bytes, to travel."""
        statistic = self.zero()
        for chunk in chunks:
            statistic = self.add(statistic, chunk)
        return pack(statistic)

    def from_flat(self, values: np.ndarray) -> Any:
        """Return the statistic whose numbers, laid out as its ``flat``, are these."""
        return self.zero().filled(values)

    def __str__(self) -> str:
        return f"{self.n_values} sums by {type(self).__name__}"
