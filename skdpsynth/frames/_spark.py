"""Data frames of Spark: summed on the executors, or read one partition at a time."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from skdpsynth.frames._arrow import rebatch_tables
from skdpsynth.frames._dtypes import pandas_head
from skdpsynth.frames._partition_sums import FAN_IN, Part, PartitionedSource, PartitionError, Summing, add_parts
from skdpsynth.frames._source import Source, require_package, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind

_FAILS = "{name} is a data frame of Spark, which could not be evaluated ({error}); "
_FAILS += "write it alone to see why, and see that skdpsynth is installed on the executors."
_PART = "number int, part binary"


def open_spark(X: Any, name: str) -> Source:
    """Open a data frame of Spark; refuse its other collections."""
    if not hasattr(type(X), "mapInArrow"):  # of the type: a frame takes any name for that of a column
        raise TypeError(f"{name} must be a data frame of Spark, got a {type(X).__name__}; convert it, by .toDF() or .to_spark().")
    if not hasattr(type(X), "toArrow"):
        raise TypeError(f"{name} is a data frame of a Spark that is older than 4.0; install pyspark 4, or write it as Parquet.")
    require_package("pyarrow", name, "a data frame of Spark")
    return SparkFrame(name, X)


class SparkFrame(PartitionedSource):
    """A data frame of Spark, evaluated anew at each reading; samples come back in pandas."""

    has_order = False

    def __init__(self, name: str, frame: Any) -> None:
        import pyarrow as pa

        self._frame, self._fails = frame, _FAILS.replace("{name}", name)
        schema = without_cells_in_errors(frame.limit(0).toArrow, self._fails).schema.remove_metadata()
        empty = pa.schema([field.with_nullable(True) for field in schema]).empty_table()
        self._tables = partial(_tables_of, schema=empty.schema, fails=self._fails)
        super().__init__(name, pandas_head(empty, date_as_object=True), TableKind.of(empty, name), library="pandas")

    def _sum_up(self, summing: Summing) -> Part:
        """Sum each partition in a task, and the sums in eight more; an error travels as a sum does, so that no log of Spark holds it."""
        tables = self._tables

        def sum_partition(batches: Iterable[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            number = TaskContext.get().partitionId() + 1
            yield _packed(number, lambda: summing.of_tables(tables(batches), number))

        def add_sums(batches: Iterable[Any]) -> Iterator[Any]:
            parts = (part for batch in batches for part in batch.column("part").to_pylist())
            for first in parts:
                yield _packed(0, partial(add_parts, map(_unpacked, chain([first], parts))))

        # By its number a sum goes to the same task whenever its own runs again.
        sums = self._frame.mapInArrow(sum_partition, _PART).repartition(FAN_IN, "number").mapInArrow(add_sums, _PART)
        rows = without_cells_in_errors(sums.collect, self._fails)
        try:
            return add_parts([summing.of_tables((), 0), *(_unpacked(row.part) for row in rows)])
        except PartitionError as error:
            told = error.told
        raise told

    def _read(self) -> Iterator[Any]:
        import pyarrow as pa

        def write(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                with pa.BufferOutputStream() as written:
                    with pa.ipc.new_stream(written, batch.schema) as stream:
                        stream.write_batch(batch)
                    yield pa.record_batch({"rows": [written.getvalue().to_pybytes()]})

        rows = without_cells_in_errors(lambda: self._frame.mapInArrow(write, "rows binary").toLocalIterator(), self._fails)
        yield from self._tables(chain.from_iterable(pa.ipc.open_stream(row.rows) for row in rows))


def _tables_of(batches: Iterable[Any], schema: Any, fails: str) -> Iterator[Any]:
    """Yield tables of the head's types of record batches: Spark gives times in the zone of the session there, and here in UTC."""
    import pyarrow as pa

    cast = (pa.Table.from_batches([batch]).cast(schema).to_batches() for batch in batches)
    return rebatch_tables(chain.from_iterable(cast), len(schema), fails)


def _packed(number: int, sum_up: Callable[[], Part]) -> Any:
    """Return a record batch of a sum, or of what is wrong with the rows."""
    import pyarrow as pa

    part: Part | PartitionError
    try:
        part = sum_up()
    except PartitionError as error:
        part = error
    return pa.record_batch({"number": pa.array([number], pa.int32()), "part": [pickle.dumps(part)]})


def _unpacked(part: bytes) -> Part:
    """Return a sum, or raise what is wrong with the rows."""
    opened = pickle.loads(part)  # made by our own task, in the caller's cluster, which is trusted with the rows
    if isinstance(opened, PartitionError):
        raise opened
    return opened
