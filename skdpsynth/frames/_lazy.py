"""Lazy frames of polars, DuckDB and Ibis: queries, evaluated anew at each reading, whose rows come in chunks."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from skdpsynth.frames._arrow import rebatch_tables
from skdpsynth.frames._source import ChunkedSource, Source, each_without_cells_in_errors, require_package, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind, library_of

_FAILS = "which could not be evaluated ({error}); evaluate it alone to see why."


def open_lazy(X: Any, name: str) -> Source | None:
    """Open a lazy frame; None of a table in memory."""
    kind, library = type(X).__name__, library_of(X)
    if kind == "LazyFrame":
        return PolarsQuery(name, X)
    if kind == "DuckDBPyRelation":
        return Query(name, X, "a relation of DuckDB")
    if library == "ibis" and hasattr(X, "to_pyarrow_batches") and hasattr(X, "limit"):
        return Query(name, X, "a table of Ibis")
    if kind == "DuckDBPyConnection":
        raise TypeError(f"{name} must be a table, got a connection of DuckDB; give a relation, connection.table('people') for example.")
    if library == "ibis":
        raise TypeError(f"{name} must be a table, got an expression of Ibis; give a table, expression.as_table() for example.")
    return None


class PolarsQuery(ChunkedSource):
    """A lazy frame of polars, evaluated by its streaming engine."""

    has_order = False

    def __init__(self, name: str, frame: Any) -> None:
        import polars as pl

        if not hasattr(frame, "collect_batches"):
            raise TypeError(
                f"{name} is a lazy frame of polars {pl.__version__}, which cannot give its rows in chunks; install polars 1.34 or "
                "later, or call .collect() first."
            )
        self._fails = f"{name} is a lazy frame of polars, {_FAILS}"
        head = pl.DataFrame(schema=without_cells_in_errors(frame.collect_schema, self._fails))
        super().__init__(name, head, TableKind.of(head, name))
        self._frame = frame

    def _read(self) -> Iterator[Any]:
        # The order is no fact, but those who read twice get the same rows in most cases, as from other sources.
        batches = without_cells_in_errors(lambda: self._frame.collect_batches(chunk_size=self._at_once, maintain_order=True), self._fails)
        yield from each_without_cells_in_errors(batches, self._fails)


class Query(ChunkedSource):
    """A query of DuckDB or Ibis, whose rows come in record batches."""

    has_order = False
    database: Any = None  # while sums are made in it

    def __init__(self, name: str, query: Any, what: str) -> None:
        require_package("pyarrow", name, what)
        self._fails = f"{name} is {what}, {_FAILS}"
        self._given = query  # Ibis forgets a table in memory with the last expression of it
        self._query = query if (relation := _relation_of(query)) is None else relation
        head = without_cells_in_errors(lambda: _without_rows(self._query), self._fails)
        super().__init__(name, head, TableKind.of(head, name))

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the tables of codes that a DuckDB makes for sums, and drop them at the end; without it each sum makes its own."""
        if self.database is not None or library_of(self._query) == "ibis":
            yield
            return
        from skdpsynth.duckdb import Database

        self.database = Database(self._query)
        try:
            yield
        finally:
            self.database.drop_all()
            self.database = None

    def aggregate(self, rows: Any, rule: Any) -> Any:
        """Return the statistic of all rows: counted in DuckDB where its rule and the maps of the rows can be written in SQL."""
        with self.session():
            statistic = None if self.database is None else rule.count_in(self.database, rows)
        return super().aggregate(rows, rule) if statistic is None else statistic

    def _read(self) -> Iterator[Any]:
        batches = without_cells_in_errors(lambda: _batches(self._query, self._at_once), self._fails)
        # Closed at once also by who stops early: DuckDB runs no other query on a connection with an open result.
        with closing(batches):
            yield from rebatch_tables(batches, self.kind.width, self._fails, self._at_once)


def _without_rows(query: Any) -> Any:
    if library_of(query) == "ibis":
        return query.schema().to_pyarrow().empty_table()
    empty = query.limit(0)
    return (empty.to_arrow_table if hasattr(empty, "to_arrow_table") else empty.arrow)()


def _batches(query: Any, n_rows: int) -> Any:
    """Return a RecordBatchReader of a query."""
    if library_of(query) == "ibis":
        return query.to_pyarrow_batches(chunk_size=n_rows)
    if hasattr(query, "to_arrow_reader"):
        return query.to_arrow_reader(n_rows)
    return query.select("*").fetch_arrow_reader(n_rows)  # before 1.4 a relation is evaluated once, and keeps its result


def _relation_of(query: Any) -> Any:
    """Return a query as a relation of DuckDB; None of another database."""
    if type(query).__name__ == "DuckDBPyRelation":
        return query
    try:
        backend = query.get_backend()
        return backend._to_duckdb_relation(query) if hasattr(backend, "_to_duckdb_relation") else None
    except Exception:  # reading its rows will say what is wrong
        return None
