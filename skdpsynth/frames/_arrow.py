"""Streams, datasets and files of pyarrow, read in tables of even size."""

from collections.abc import Iterable, Iterator
from typing import Any

from skdpsynth.frames._chunks import Spooled, first_pass_only
from skdpsynth.frames._source import (
    ChunkedSource,
    Source,
    check_distinct,
    each_without_cells_in_errors,
    rows_at_once,
    without_cells_in_errors,
)
from skdpsynth.frames._table_kind import TableKind

_FAILS = "{name} must be readable to its end, but reading it failed ({error}); read it with pyarrow alone to see why."


def open_arrow(X: Any, name: str) -> Source | None:
    """Open what pyarrow reads in batches; None of a table in memory."""
    import pyarrow as pa

    fails, kind = _FAILS.replace("{name}", name), type(X).__name__
    if isinstance(X, pa.RecordBatchReader):
        head, what = X.schema.remove_metadata().empty_table(), "a RecordBatchReader"
        return Spooled(name, first_pass_only(X, rebatch_tables(X, len(X.schema), fails), name, what), what, head)
    if kind == "ParquetFile":
        return ArrowBatches(name, X.schema_arrow, lambda size: X.iter_batches(size, use_threads=True), n_samples=X.metadata.num_rows)
    if kind == "Scanner":
        return ArrowBatches(name, X.projected_schema, lambda size: X.to_batches())
    if kind.endswith("Dataset"):
        check_distinct(_files_of(X), name)
        n_samples = without_cells_in_errors(X.count_rows, fails) if _is_parquet(X) else None  # other files do not tell it
        return ArrowBatches(name, X.schema, lambda size: _scan(X, size), n_samples=n_samples)
    return None


def _files_of(dataset: Any) -> list[str]:
    """Return the files of a dataset, and of those that it joins."""
    parts = getattr(dataset, "children", ())
    return [file for part in parts for file in _files_of(part)] if parts else list(getattr(dataset, "files", ()))


class ArrowBatches(ChunkedSource):
    """Record batches that can be read again: `batches` returns an iterator of some of at most about as many rows as it is given."""

    def __init__(self, name: str, schema: Any, batches: Any, *, n_samples: int | None = None) -> None:
        head = schema.remove_metadata().empty_table()
        super().__init__(name, head, TableKind.of(head, name), n_samples=n_samples)
        self._batches = batches

    def _read(self) -> Iterator[Any]:
        failed = _FAILS.replace("{name}", self.name)
        yield from rebatch_tables(
            without_cells_in_errors(lambda: self._batches(self._at_once), failed), self.kind.width, failed, self._at_once
        )


def rebatch_tables(batches: Iterable[Any], n_columns: int, failed: str, n_rows: int | None = None) -> Iterator[Any]:
    """Yield record batches in tables of about `n_rows` rows, or of as many as a chunk may have: no size of batches costs time or memory."""
    import pyarrow as pa

    most = rows_at_once(n_columns) if n_rows is None else n_rows
    waiting: list[Any] = []
    n_waiting = 0
    for batch in each_without_cells_in_errors(batches, failed):
        waiting.append(batch.replace_schema_metadata())  # which may differ from file to file
        n_waiting += batch.num_rows
        if 2 * n_waiting > most:
            yield pa.Table.from_batches(waiting)
            waiting, n_waiting = [], 0
    if n_waiting:
        yield pa.Table.from_batches(waiting)


def _scan(dataset: Any, n_rows: int) -> Iterator[Any]:
    """Read a dataset a few batches ahead: as many as pyarrow reads ahead by itself would fill the memory."""
    import pyarrow.dataset as ds

    ahead = {"batch_size": n_rows, "batch_readahead": 2, "fragment_readahead": 1}
    if _is_parquet(dataset):
        ahead["fragment_scan_options"] = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=2**18, pre_buffer=False)
    return dataset.to_batches(**ahead)


def _is_parquet(dataset: Any) -> bool:
    return type(getattr(dataset, "format", None)).__name__ == "ParquetFileFormat"
