"""The exact number of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.frames import Chunk, n_rows_of
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator, Statistic
from skdpsynth.statistics._pushdown import can_be_pushed_down


@dataclass(frozen=True, repr=False)  # its counts are private: no repr shows them
class RowCount(Statistic):
    """Number of rows: public under "replace_one", private under "add_or_remove_one"."""

    n_samples: int

    _summed: ClassVar[tuple[str, ...]] = ("n_samples",)

    @staticmethod
    def over() -> "CountRows":
        return CountRows()

    @staticmethod
    def sensitivity(relation: str) -> Sensitivity:
        """Return how far one row moves the number: by 1 if it is added or removed, not at all if it is replaced."""
        moved = int(relation == "add_or_remove_one")
        return Sensitivity(relation, moved, moved, moved, statistic=statistic_facts("row_count"))

    def query(self, relation: str) -> Query:
        """Return the number, and how far one row moves it."""
        return Query(np.array([self.n_samples], dtype=np.int64), self.sensitivity(relation))


@savable
@dataclass(frozen=True)
class CountRows(Aggregator):
    """Counts rows."""

    def __str__(self) -> str:
        return "the number of rows"

    @property
    def n_values(self) -> int:
        """One."""
        return 1

    def zero(self) -> RowCount:
        return RowCount(0)

    def count_in(self, database: Any, rows: Any) -> RowCount | None:
        """Return the number of rows of a relation that is read by a schema."""
        return RowCount(database.n_rows()) if can_be_pushed_down(rows) else None

    def add(self, statistic: RowCount, chunk: Chunk) -> RowCount:
        return RowCount(statistic.n_samples + n_rows_of(chunk))
