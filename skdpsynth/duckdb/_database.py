"""Counts inside DuckDB, of which nothing but counts is fetched."""

import math
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from skdpsynth.duckdb._sql import Query, cast
from skdpsynth.duckdb._workload import is_small

_AT_ONCE = 64  # tables counted by one statement


class Database:
    """A relation of DuckDB, asked for counts.

    Its connection is the user's: no setting, no table and no view of it is changed. Tables of codes are temporary, with random names, and
    whoever has them made must have them dropped.
    """

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self.rows = _new_name()
        self._made: dict[Any, tuple[Any, str]] = {}

    def column_types(self) -> dict[str, Any]:
        """Return the dtype of each column, as narwhals calls it."""
        import narwhals.stable.v2 as nw

        return dict(nw.from_native(self._relation).collect_schema())

    def table(self, key: Any) -> str | None:
        """Return the name of the table of codes that was made under a key, if there is one."""
        return self._made[key][1] if key in self._made else None

    def make_table(self, key: Any, keep: Any, query: Query) -> str:
        """Make a table of codes, to be found by a key; `keep` stays alive as long as the table."""
        self._made[key] = keep, self.make(query)
        return self._made[key][1]

    def drop_all(self) -> None:
        """Drop all tables of codes."""
        while self._made:
            self.drop(self._made.popitem()[1][1])

    def n_rows(self, name: str | None = None) -> int:
        """Return the number of rows, or of those of a temporary table."""
        return int(self._fetched(f"SELECT count(*) AS n FROM {name or self.rows}")["n"][0])

    def make(self, query: Query) -> str:
        """Make a temporary table of codes; return its name. Its columns are k0, k1, ..."""
        name = f"temp.{_new_name()}"
        try:
            self._asked(f"CREATE TEMPORARY TABLE {name} AS {query.named('k')}")
        except BaseException:
            self.drop(name)
            raise
        return name

    def drop(self, name: str) -> None:
        """Drop a temporary table."""
        try:
            self._relation.query(self.rows, f"DROP TABLE IF EXISTS {name}")
        except Exception:  # the connection is closed or broken, and its temporary tables are gone with it
            return

    def counts(self, name: str, tables: Sequence[tuple[int, ...]], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Count the combinations of codes in the columns of each of some tables: of a temporary table, in arrays of these shapes."""
        queries = [_count(name, columns, shape) for columns, shape in zip(tables, shapes, strict=True)]
        counts = self._arrays(queries, list(map(math.prod, shapes)))
        return [table.reshape(shape) for table, shape in zip(counts, shapes, strict=True)]

    def counts_of(self, queries: Sequence[Query], sizes: Sequence[int]) -> list[np.ndarray]:
        """Count the codes of one column each, below a size; no table is made for it."""
        return self._arrays([f"k0 AS cell, count(*) AS n FROM ({query.named('k')}) GROUP BY cell" for query in queries], sizes)

    def _arrays(self, queries: Sequence[str], sizes: Sequence[int]) -> list[np.ndarray]:
        """Return an array of counts for each query, whose answer tells numbers of cells and how often they occur."""
        counts = [np.zeros(size, dtype=np.int64) for size in sizes]
        for start in range(0, len(queries), _AT_ONCE):
            numbered = enumerate(queries[start : start + _AT_ONCE], start)
            found = self._fetched(" UNION ALL ".join(f"SELECT {part} AS part, {query}" for part, query in numbered))
            order = np.argsort(found["part"], kind="stable")
            parts, cells, n = (np.asarray(found[key], dtype=np.int64)[order] for key in ("part", "cell", "n"))
            present, first = np.unique(parts, return_index=True)
            for part, rows in zip(present, np.split(np.arange(len(parts)), first[1:]), strict=False):
                counts[part][cells[rows]] = n[rows]
        return counts

    def _fetched(self, sql: str) -> dict[str, np.ndarray]:
        return self._asked(sql, lambda answer: answer.fetchnumpy())

    def _asked(self, sql: str, read: Callable[[Any], Any] = lambda answer: None) -> Any:
        """Run a statement and read its answer; an error of the database may quote cells, so only its kind is told."""
        try:
            return read(self._relation.query(self.rows, sql))
        except Exception as error:
            told = type(error).__name__
        # Raised here, so that it has no context, which would quote what the database said.
        raise OSError(
            f"the database must answer queries over X until fit is done, got {told}; keep its connection open, and see whether it can read "
            "all of X."
        )


def _count(name: str, columns: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Write the query for the counts of a table, without SELECT: the number of a cell, and how often that occurs."""
    n_cells = math.prod(shape)
    keys, cell = [f"k{column}" for column, size in zip(columns, shape, strict=True) if size > 1], cast("0", n_cells)
    for key, size in zip(keys, (size for size in shape if size > 1), strict=True):
        cell = cast(f"{cell} * {cast(str(size), n_cells)} + {key}", n_cells)
    # A few small columns are addressed directly; of more, one number is hashed faster than several.
    by = ", ".join(keys) if keys and is_small(shape) else "cell"
    return f"{cell} AS cell, count(*) AS n FROM {name} GROUP BY {by}"


def _new_name() -> str:
    return f"_skdpsynth_{uuid4().hex}"
