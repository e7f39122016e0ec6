"""What is asked of rows that lie elsewhere."""

from dataclasses import dataclass
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.frames import TableKind, as_chunk
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.tables import ReadValues, check_dtypes


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """Sums that are asked of a table: what becomes of each row, and the rule by which rows are then summed.

    It holds public facts alone, and what was released before: no row, and nothing that was summed. It can be pickled and saved.

    Attributes
    ----------
    columns : tuple
        Names of the columns of the table; numbers in an array.
    maps : tuple of callable
        What becomes of a chunk of rows, in order. The first one reads it.
    rule : Aggregator

    See Also
    --------
    Site : Answers it.
    RemoteRows : Passes it on.
    """

    columns: tuple
    maps: tuple
    rule: Aggregator

    def __repr__(self) -> str:
        return f"Question({self.rule}, of a table of {len(self.columns)} columns)"

    def of(self, chunk: Any) -> Any:
        """Return the sums over the rows of a chunk; those of several chunks add up with ``+``.

        Parameters
        ----------
        chunk : array or data frame
            With the columns of the table, in their order.

        Returns
        -------
        statistic : Statistic
            Its ``flat`` is a vector of int64 numbers, and ``rule.from_flat(vector)`` reads that back.
        """
        return self.add(self.rule.zero(), chunk)

    def add(self, statistic: Any, chunk: Any) -> Any:
        """Return a statistic with the rows of a chunk added; it may be changed in place."""
        return self.rule.add(statistic, self.mapped(chunk))

    def mapped(self, chunk: Any) -> Any:
        """Return what becomes of a chunk before its rows are summed; all that can be wrong with it is refused here."""
        chunk = as_chunk(chunk, "one of them", "X")
        self.check_columns(TableKind.of(chunk).columns)
        for change in self.maps:
            if isinstance(change, ReadValues):
                check_dtypes(change.schema, TableKind.of(chunk).dtypes)
            chunk = change(chunk)
        return chunk

    def check_columns(self, columns: tuple) -> None:
        """Refuse a table with other columns, or with these in another order."""
        if columns != self.columns:
            here = next((name for name, asked in zip(columns, self.columns, strict=False) if name != asked), None)
            raise ValueError(
                f"X must have the {len(self.columns)} columns that are asked for, in their order, got {len(columns)}"
                + (f", among them {short_repr(here)} in another place" if here is not None else "")
                + "; select them, or give arrays everywhere or frames everywhere."
            )
