"""Open whatever callers give as a table: in memory, in files, or as chunks of their own code, of pyarrow or of lazy queries."""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import chain
from os import PathLike
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from scipy.sparse import issparse

from skdpsynth.frames._dtypes import ArrowSchema, Table
from skdpsynth.frames._files import PARQUET_BUFFER, ReadOptions
from skdpsynth.frames._source import (
    FILES,
    ChunkedSource,
    InMemory,
    Rows,
    Source,
    SumRule,
    check_distinct,
    each_without_cells_in_errors,
    rebatch_tables,
    require_package,
)
from skdpsynth.frames._table_kind import (
    TableKind,
    as_chunk,
    copy_chunk,
    is_chunk,
    is_pandas,
    library_of,
    size_of,
    without_cells_in_errors,
    without_rows,
)

MOST_KEPT = 2**28  # bytes of a one-shot iterator: 256 MiB
_OVER = "which was read already and can be read only once"
_AGAIN = f"give a function that returns the iterator anew, a list of chunks, or {FILES}"
_ARROW_FAILS = "{name} must be readable to its end, but reading it failed ({error}); read it with pyarrow alone to see why."
_QUERY_FAILS = "which could not be evaluated ({error}); evaluate it alone to see why."

_iterators_in_use: "WeakValueDictionary[int, Any]" = WeakValueDictionary()  # iterators that somebody asked for rows, by their id


def open_source(
    X: Table,
    name: str = "X",
    *,
    read: Mapping[str, Any] | None = None,
    skips_damaged: bool = False,
    wanted: Sequence[Hashable] | None = None,
) -> Any:
    """Open a table, which messages call `name`, or refuse it in one sentence.

    It is in memory, an array-like or an eager data frame; a path, glob, folder or list of paths of files; a Dataset, Scanner,
    RecordBatchReader or ParquetFile of pyarrow; a lazy frame of polars, DuckDB or Ibis, also in narwhals; an array or data frame of Dask; a
    data frame of Spark; a list of chunks, an iterable of chunks that starts anew at each iteration, a function without arguments that
    returns an iterator of chunks, or an iterator of chunks. A chunk is a 2-D array, sparse matrix or data frame. Or a `Source`.

    `read` is how files are read, as `Schema.read` says; `skips_damaged`, whether damaged lines of text files are left out (the number of
    rows is private), and else rows of missing cells; `wanted`, the columns that are read of Parquet files, None: all.
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, np.ndarray) or issparse(X) or is_pandas(X):
        return InMemory(X)
    if X is None:
        raise TypeError(f"{name} must be a table, got None; pass an array, a data frame, or {FILES}.")
    if isinstance(X, str | bytes | PathLike):
        X = [X]
    if isinstance(X, list | tuple) and X and all(isinstance(item, str | PathLike | bytes) for item in X):
        return _open_files(X, name, ReadOptions.of(read), skips_damaged, wanted)
    if library_of(X) == "narwhals" and hasattr(X, "to_native"):
        X = X.to_native()
    # By the package that a table comes from, which is imported already; none is imported to look.
    library = library_of(X)
    if library == "dask":
        from skdpsynth.frames._partitions import open_dask as opened
    elif library == "pyspark":
        from skdpsynth.frames._partitions import open_spark as opened
    else:
        opened = (
            _open_arrow if library == "pyarrow" else _open_query if library in ("polars", "duckdb", "_duckdb", "ibis") else _open_chunks
        )
    return opened(X, name) or InMemory(X)


def _open_files(paths: Iterable[Any], name: str, read: ReadOptions, skips_damaged: bool, wanted: Sequence[Hashable] | None) -> Source:
    from skdpsynth.frames import _csv, _files, _sheets

    files = [file for path in paths for file in _files.files_at(path, name)]
    kind, *others = sorted({_files.kind_of_file(file, name) for file in files}, reverse=True)
    if others:
        raise ValueError(f"{name} must be files of one kind, got both {kind} and {others[0]}; give one of them by its suffix, '*.csv' say.")
    check_distinct(files, name)
    require_package("pyarrow", name, f"a {kind} file")
    if kind == "Excel":
        require_package("openpyxl", name, "an .xlsx file")
    if kind == "Parquet":
        return _files.ParquetFiles(name, files, read.columns, wanted)
    if kind in ("Stata", "SPSS"):
        return _sheets.StatisticsFiles(name, files, read)
    if read.decimal == "open":
        raise ValueError("decimal in read of the schema is open; write '.' or ',', as numbers in the file have it.")
    made: Any = _csv.CsvFiles if kind == "CSV" else _sheets.SheetFiles if kind == "Excel" else _sheets.DatabaseFiles
    return made(name, files, read, skips_damaged=skips_damaged)


# Chunks of the caller's own code


def _open_chunks(X: Table, name: str) -> Source | None:
    """Open lists, iterables, functions that return iterators, and iterators that run only once; None of anything else."""
    what = f"a {type(X).__name__}"
    if isinstance(X, list | tuple):
        if not (X and is_chunk(X[0])):
            return None
        # One chunk twice is refused, as one file is: each of its rows would count twice, and what one row moves would double. Most often a
        # loader has filled one array anew for each chunk, and the rows before the last are gone.
        known: dict[Any, int] = {}
        for number, chunk in enumerate(X, start=1):
            place = (chunk.ctypes.data, chunk.shape, chunk.strides) if isinstance(chunk, np.ndarray) and chunk.size else id(chunk)
            if (first := known.setdefault(place, number)) < number:
                raise ValueError(
                    f"{name} must hold each chunk once, but chunk {number} is chunk {first} again, the same object or memory; leave one "
                    "out, or copy what a loader fills anew."
                )
        return _source_of_chunks(name, lambda: X, what, is_kept=True)
    is_array_like = any(hasattr(X, each) for each in ("__array__", "__array_interface__", "__dataframe__", "shape", "columns", "dtype"))
    if is_array_like or isinstance(X, str | bytes | dict | set | frozenset | type):
        return None
    if callable(getattr(X, "__next__", None)):
        return Spooled(name, _first_pass_only(X, _checked_chunks(X, name, what), name, what), what)
    if hasattr(X, "__iter__"):
        is_sequence = hasattr(X, "__len__") and hasattr(X, "__getitem__")  # may be rows, which numpy reads
        return None if is_sequence and not is_chunk(next(iter(X), None)) else _source_of_chunks(name, lambda: X, what)
    if hasattr(X, "__arrow_c_stream__"):
        import pyarrow as pa

        return _source_of_chunks(name, lambda: pa.RecordBatchReader.from_stream(X), what)
    return _source_of_chunks(name, X, "a function") if callable(X) else None


def _source_of_chunks(name: str, start: Callable[[], Any], what: str, *, is_kept: bool = False) -> Source:
    """Open an iterable that starts anew at each iteration; `is_kept`: all chunks exist at once, so none is overwritten by the next."""
    failed = f"{name} is {what}, which must return an iterator of chunks without being given anything, but calling it failed "

    def read(n_rows: int = 0) -> Generator[Any, None, None]:
        chunks = without_cells_in_errors(start, failed + "({error}); correct it.")
        yield from _checked_chunks(chunks, name, what, is_kept=is_kept)

    with closing(read()) as tables:
        first = _first(tables, name, what)
    return ChunkedSource(name, without_rows(first), read, kind=TableKind.of(first, f"chunk 1 of {name}"))


class Spooled(ChunkedSource):
    """Chunks of an iterator that runs only once: kept while they are few, so that they can be read again."""

    def __init__(self, name: str, tables: Iterator[Any], what: str, head: Table = None) -> None:
        self._rest, self._kept, self._what, self._is_gone = tables, list[Any](), what, False
        if head is None:
            first = _first(tables, name, what)
            self._rest, head = chain([first], tables), without_rows(first)
        super().__init__(name, head)

    def _read_tables(self) -> Iterator[Any]:
        if self._is_gone:
            raise ValueError(f"{self.name} is {self._what}, {_OVER}; {_AGAIN}.")
        yield from self._kept.copy()
        size = sum(map(size_of, self._kept))
        while True:
            try:
                table = next(self._rest, None)
            except BaseException:  # what comes after an error is not the whole
                self._is_gone = True
                raise
            if table is None:
                return
            size += size_of(table)
            if size > MOST_KEPT:
                self._is_gone = True
                self._kept.clear()
                raise ValueError(
                    f"{self.name} is {self._what}, which can be read only once, and holds more than the {MOST_KEPT >> 20} MiB that are "
                    f"kept to read it again; {_AGAIN}."
                )
            self._kept.append(table)
            yield table


def _first_pass_only(X: Table, tables: Iterator[Any], name: str, what: str) -> Iterator[Any]:
    """Yield the tables of an iterator from its start alone: another fit would take what the one before left of it for the whole."""
    if _iterators_in_use.get(id(X)) is X:
        raise ValueError(f"{name} is {what}, {_OVER}; {_AGAIN}.")
    with suppress(TypeError):  # of some, such as zip, Python keeps no note
        _iterators_in_use[id(X)] = X
    yield from tables


def _checked_chunks(chunks: Iterable[Table], name: str, what: str, *, is_kept: bool = False) -> Iterator[Any]:
    wrong = f"{name} is {what}, which must give an iterator of chunks of rows, but gave a {type(chunks).__name__}"
    if is_chunk(chunks):
        raise TypeError(f"{wrong}, which is one; yield it.")
    if not hasattr(chunks, "__iter__") and not hasattr(chunks, "__next__"):
        raise TypeError(f"{wrong}; return one.")
    failed = f"{name} is {what} of chunks, whose iteration failed with an error of its own ({{error}}); iterate over it alone to see why."
    for number, chunk in enumerate(each_without_cells_in_errors(chunks, failed), start=1):
        table = as_chunk(chunk, f"chunk {number}", name)
        # A loader may fill one array again and again, bare or in frames, while an earlier chunk is kept or still summed up: the rows that
        # come last would then count several times, and one row would move sums by more than what is charged.
        yield table if is_kept else copy_chunk(table)


def _first(tables: Iterator[Any], name: str, what: str) -> Any:
    """Return the first table, whose columns and dtypes all others must have."""
    first = next(tables, None)
    if first is None:
        raise ValueError(
            f"{name} is {what}, which must give chunks of rows, but gave none; give one that has some and was not read before."
        )
    return first


# Record batches of pyarrow


def _open_arrow(X: Table, name: str) -> Source | None:
    """Open what pyarrow reads in batches; None of a table in memory."""
    import pyarrow as pa

    fails, kind = _ARROW_FAILS.replace("{name}", name), type(X).__name__
    if isinstance(X, pa.RecordBatchReader):
        head, what = X.schema.remove_metadata().empty_table(), "a RecordBatchReader"
        return Spooled(name, _first_pass_only(X, rebatch_tables(X, len(X.schema), fails), name, what), what, head)
    if kind == "ParquetFile":
        return ArrowBatches(name, X.schema_arrow, lambda size: X.iter_batches(size, use_threads=True), fails, X.metadata.num_rows)
    if kind == "Scanner":
        return ArrowBatches(name, X.projected_schema, lambda size: X.to_batches(), fails)
    if not kind.endswith("Dataset"):
        return None
    check_distinct(_files_of(X), name)
    # A few batches ahead: as many as pyarrow reads ahead by itself would fill the memory.
    how: dict[str, Any] = {"batch_readahead": 2, "fragment_readahead": 1}
    n_samples = None
    if type(getattr(X, "format", None)).__name__ == "ParquetFileFormat":  # other files do not tell how many rows they have
        from pyarrow.dataset import ParquetFragmentScanOptions

        n_samples = without_cells_in_errors(X.count_rows, fails)
        how["fragment_scan_options"] = ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=PARQUET_BUFFER, pre_buffer=False)
    return ArrowBatches(name, X.schema, lambda size: X.to_batches(batch_size=size, **how), fails, n_samples)


def _files_of(dataset: Table) -> list[str]:
    parts = getattr(dataset, "children", ())
    return [file for part in parts for file in _files_of(part)] if parts else list(getattr(dataset, "files", ()))


class ArrowBatches(ChunkedSource):
    """Record batches that can be read again: `batches` returns an iterator of some of at most about as many rows as it is given."""

    def __init__(self, name: str, schema: ArrowSchema, batches: Callable[[int], Any], fails: str, n_samples: int | None = None) -> None:
        super().__init__(name, schema.remove_metadata().empty_table(), n_samples=n_samples)
        self._batches, self._fails = batches, fails

    def _read_tables(self) -> Iterator[Any]:
        batches = without_cells_in_errors(lambda: self._batches(self._at_once), self._fails)
        with closing(batches) if hasattr(batches, "close") else nullcontext():
            yield from rebatch_tables(batches, self.kind.width, self._fails, self._at_once)


# Queries, evaluated anew at each reading


def _open_query(X: Table, name: str) -> Source | None:
    """Open a lazy frame; None of a table in memory."""
    kind, library = type(X).__name__, library_of(X)
    if kind == "LazyFrame":
        import polars as pl

        if not hasattr(X, "collect_batches"):
            raise TypeError(
                f"{name} is a lazy frame of polars {pl.__version__}, which cannot give its rows in chunks; install polars 1.34 or "
                "later, or call .collect() first."
            )
        fails = f"{name} is a lazy frame of polars, {_QUERY_FAILS}"

        def read(n_rows: int) -> Iterator[Any]:
            # The order is no fact, but those who read twice get the same rows in most cases, as from other sources.
            batches = without_cells_in_errors(lambda: X.collect_batches(chunk_size=n_rows, maintain_order=True), fails)
            return each_without_cells_in_errors(batches, fails)

        source = ChunkedSource(name, pl.DataFrame(schema=without_cells_in_errors(X.collect_schema, fails)), read)
        source.has_order = False
        return source
    if kind == "DuckDBPyRelation":
        return Query(name, X, "a relation of DuckDB")
    if library == "ibis" and hasattr(X, "to_pyarrow_batches") and hasattr(X, "limit"):
        return Query(name, X, "a table of Ibis")
    if kind == "DuckDBPyConnection":
        raise TypeError(f"{name} must be a table, got a connection of DuckDB; give a relation, connection.table('people') for example.")
    if library == "ibis":
        raise TypeError(f"{name} must be a table, got an expression of Ibis; give a table, expression.as_table() for example.")
    return None


class Query(ArrowBatches):
    """A query of DuckDB or Ibis, whose rows come in record batches.

    They are closed at once also by who stops early: DuckDB runs no other query on a connection with an open result.
    """

    has_order = False
    database: Any = None  # while sums are made in it

    def __init__(self, name: str, query: Table, what: str) -> None:
        require_package("pyarrow", name, what)
        fails = f"{name} is {what}, {_QUERY_FAILS}"
        self._given = query  # Ibis forgets a table in memory with the last expression of it
        if library_of(query) == "ibis":
            with suppress(Exception):  # reading its rows will say what is wrong
                backend = query.get_backend()
                query = backend._to_duckdb_relation(query) if hasattr(backend, "_to_duckdb_relation") else query
        self._query, self._is_ibis = query, library_of(query) == "ibis"
        self.in_database = not self._is_ibis

        def empty() -> Any:
            if self._is_ibis:
                return query.schema().to_pyarrow().empty_table()
            few = query.limit(0)
            return (few.to_arrow_table if hasattr(few, "to_arrow_table") else few.arrow)()

        def batches(n_rows: int) -> Any:
            if self._is_ibis:
                return query.to_pyarrow_batches(chunk_size=n_rows)
            if hasattr(query, "to_arrow_reader"):
                return query.to_arrow_reader(n_rows)
            return query.select("*").fetch_arrow_reader(n_rows)  # before 1.4 a relation is evaluated once, and keeps its result

        super().__init__(name, without_cells_in_errors(empty, fails).schema, batches, fails)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the tables of codes that a DuckDB makes for sums, and drop them at the end; without it each sum makes its own."""
        if self.database is not None or self._is_ibis:
            yield
            return
        from skdpsynth.duckdb import Database

        self.database = Database(self._query)
        try:
            yield
        finally:
            self.database.drop_all()
            self.database = None

    def aggregate(self, rows: Rows, rule: SumRule) -> Any:
        """Return the statistic of all rows: counted in DuckDB where its rule and the maps of the rows can be written in SQL."""
        with self.session():
            statistic = None if self.database is None else rule.count_in(self.database, rows)
        return super().aggregate(rows, rule) if statistic is None else statistic
