"""Open whatever callers give as a table."""

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth.frames._files import ReadOptions
from skdpsynth.frames._rows import InMemory
from skdpsynth.frames._source import FILES, Source, check_distinct, require_package
from skdpsynth.frames._table_kind import is_pandas, library_of


def open_source(X: Any, name: str = "X", *, read: Any = None, skips_damaged: bool = False, wanted: Any = None) -> Any:
    """Open a table, which messages call `name`, or refuse it in one sentence.

    It is in memory, an array-like or an eager data frame; a path, glob, folder or list of paths of files; a Dataset, Scanner,
    RecordBatchReader or ParquetFile of pyarrow; a lazy frame of polars, DuckDB or Ibis, also in narwhals; an array or data frame of Dask; a
    data frame of Spark; a list of chunks, an iterable of chunks that starts anew at each iteration, a function without arguments that
    returns an iterator of chunks, or an iterator of chunks. A chunk is a 2-D array, sparse matrix or data frame. Or a `Source`.

    Parameters
    ----------
    read : dict, default=None
        How files are read, as `Schema.read` says.
    skips_damaged : bool, default=False
        Whether damaged lines of text files are left out (the number of rows is private); else each is a row of missing cells.
    wanted : list of columns, default=None
        Which of Parquet files are read. None: all.
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
    return _open_of_library(X, name) or InMemory(X)


def _open_of_library(X: Any, name: str) -> Source | None:
    """Open by the package that a table comes from, which is imported already; none is imported to look."""
    library = library_of(X)
    if library == "pyarrow":
        from skdpsynth.frames._arrow import open_arrow as opened
    elif library == "dask":
        from skdpsynth.frames._dask import open_dask as opened
    elif library == "pyspark":
        from skdpsynth.frames._spark import open_spark as opened
    elif library in ("polars", "duckdb", "_duckdb", "ibis"):
        from skdpsynth.frames._lazy import open_lazy as opened
    else:
        from skdpsynth.frames._chunks import open_chunks as opened
    return opened(X, name)


def _open_files(paths: Iterable[Any], name: str, read: ReadOptions, skips_damaged: bool, wanted: Any) -> Source:
    """Open files of one kind, as `open_source` says; refuse what is none in one sentence."""
    from skdpsynth.frames import _files

    files = [file for path in paths for file in _files.files_at(path, name)]
    kinds = sorted({_files.kind_of_file(file, name) for file in files}, reverse=True)
    if len(kinds) > 1:
        raise ValueError(
            f"{name} must be files of one kind, got both {kinds[0]} and {kinds[1]}; give one of them by its suffix, '*.csv' say."
        )
    check_distinct(files, name)
    (kind,) = kinds
    require_package("pyarrow", name, f"a {kind} file")
    if kind == "Parquet":
        return _files.ParquetFiles(name, files, read.columns, wanted)
    if kind in ("Stata", "SPSS"):
        from skdpsynth.frames._statistics_files import StatisticsFiles

        return StatisticsFiles(name, files, read)
    if read.decimal == "open":
        raise ValueError("decimal in read of the schema is open; write '.' or ',', as numbers in the file have it.")
    from skdpsynth.frames import _cells, _csv

    made: Any = _csv.CsvFiles if kind == "CSV" else _cells.SheetFiles if kind == "Excel" else _cells.DatabaseFiles
    return made(name, files, read, skips_damaged=skips_damaged)
