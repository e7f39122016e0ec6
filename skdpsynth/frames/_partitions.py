"""Tables in partitions that Dask or Spark sums where they lie: only packed sums come back."""

import math
import pickle
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from skdpsynth.frames._dtypes import ArrowSchema, Table, pandas_head
from skdpsynth.frames._source import ChunkedSource, Rows, Source, SumRule, rebatch_tables, require_package
from skdpsynth.frames._table_kind import TableKind, as_chunk, without_cells_in_errors, without_rows

_FAN_IN = 8  # sums that one task adds up
_TOLD = (OSError, TypeError, ImportError, ValueError)  # kinds of errors that speak to users
_MOST_BYTES = 1 << 16  # of a rule that every task of Dask carries; a larger one goes to each worker once
_OPTIMIZING = threading.Lock()
_DASK_FAILS = "{name} is {what} of Dask, of which partition {number} could not be computed ({error}); compute it alone to see why."
_SPARK_FAILS = "{name} is a data frame of Spark, which could not be evaluated ({error}); "
_SPARK_FAILS += "write it alone to see why, and see that skdpsynth is installed on the executors."
_PART = "number int, part binary"


@dataclass(frozen=True, eq=False, repr=False)  # what it holds is private: no repr shows it
class Packed:
    """The sums of a statistic, packed without a loss.

    Most counts are small or zero: they travel in the narrowest whole numbers that hold them, and without the zeros where there are many.
    Counts of 2^24 cells are 128 MiB; they travel in 16 MiB unless one exceeds 255, and those of a million rows in two.
    """

    n_sums: int
    sums: np.ndarray  # without a sign: negative ones stay as wide as they are
    gaps: np.ndarray | None = None  # from the place of each sum to that of the next, where zeros are left out

    @classmethod
    def of(cls, values: np.ndarray) -> "Packed":
        sums = values.view(np.uint64)
        width = _narrowest(sums).itemsize
        if (4 + width) * np.count_nonzero(sums) >= width * len(sums):
            return cls(len(sums), sums.astype(_narrowest(sums)))
        places = np.flatnonzero(sums)
        return cls._sparse(len(sums), places, sums[places])

    @classmethod
    def of_cells(cls, cells: np.ndarray, n_cells: int) -> "Packed":
        cells = np.sort(cells)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cls._sparse(n_cells, cells[starts], np.diff(starts, append=len(cells)))

    @classmethod
    def _sparse(cls, n_sums: int, places: np.ndarray, sums: np.ndarray) -> "Packed":
        gaps = np.diff(places, prepend=0)
        return cls(n_sums, sums.astype(_narrowest(sums)), gaps.astype(_narrowest(gaps)))

    @property
    def n_bytes(self) -> int:
        return self.sums.nbytes + (0 if self.gaps is None else self.gaps.nbytes)

    def unpack(self) -> np.ndarray:
        return self.add_to(np.zeros(self.n_sums, dtype=np.int64))

    def add_to(self, total: np.ndarray) -> np.ndarray:
        sums = self.sums.view(np.int64) if self.sums.itemsize == 8 else self.sums
        if self.gaps is None:
            total += sums
        else:
            total[np.cumsum(self.gaps, dtype=np.int64)] += sums  # no place occurs twice
        return total


def _narrowest(numbers: np.ndarray) -> np.dtype:
    return np.min_scalar_type(int(numbers.max(initial=0)))


def pack(sums: object) -> Packed | bytes:
    """Pack sums, or a statistic; one that is no vector of sums, such as counts of levels that nobody has listed, is pickled."""
    sums = getattr(sums, "flat", sums) if not isinstance(sums, np.ndarray) else sums
    if isinstance(sums, np.ndarray):
        return Packed.of(sums)
    import cloudpickle  # it knows classes that were defined in a notebook

    return cloudpickle.dumps(sums)


@dataclass(frozen=True, eq=False, repr=False)  # sums are private: no repr shows them
class Part:
    """The sum of some partitions, and how many rows were read for it."""

    sums: Packed | bytes
    n_rows: int

    def unpack(self) -> Any:
        # Bytes were made by our own task, in the caller's cluster, which is trusted with the rows.
        return self.sums.unpack() if isinstance(self.sums, Packed) else pickle.loads(self.sums)

    def __sizeof__(self) -> int:
        """Tell Dask how many bytes this takes, by which it decides where to add up, and what to spill."""
        return 256 + (self.sums.n_bytes if isinstance(self.sums, Packed) else len(self.sums))


class PartitionError(Exception):
    """An error in the rows of a partition: the caller sees the one inside, whose sentence says what is wrong."""

    def __init__(self, told: Exception) -> None:
        super().__init__(told)
        self.told = told


class Summing:
    """The work on a partition: a worker reads, checks, maps and sums its rows, a chunk of at most `n_rows` at a time.

    Not a dataclass, which Dask would take apart in search of its own objects.
    """

    __name__ = "sum_of_partition"  # how dashboards call the task

    def __init__(self, name: str, kind: TableKind, n_rows: int, maps: Sequence[Any], rule: SumRule) -> None:
        self._name, self._kind, self._n_rows, self._maps, self._rule = name, kind, n_rows, maps, rule

    def __call__(self, partition: Table, number: int) -> Part:
        return self.of_tables((partition,), number)

    def of_tables(self, tables: Iterable[Any], number: int) -> Part:
        n_rows = 0

        def chunks() -> Iterator[Any]:
            nonlocal n_rows
            for table in tables:
                table = as_chunk(table, f"partition {number}", self._name)
                self._kind.check(table, f"partition {number}", self._name)
                for chunk in self._kind.parts(table, self._n_rows):
                    n_rows += chunk.shape[0]
                    for change in self._maps:
                        chunk = change(chunk)
                    yield chunk

        try:
            with np.errstate(all="ignore"):  # a floating-point warning would tell of values
                return Part(self._rule.pack_sums(chunks()), n_rows)
        except MemoryError:
            raise
        except Exception as error:
            kind = next((kind for kind in _TOLD if isinstance(error, kind)), ValueError)
            is_ours = type(error) in _TOLD  # and not a subclass by which a library quotes a cell
            sentence = str(error) if is_ours else f"Rows of partition {number} of X could not be summed ({type(error).__name__})."
        # Raised here, so that it has no context: what workers log and send of an error is this sentence.
        raise PartitionError(kind(sentence))


def add_parts(parts: Iterable[Part]) -> Part:
    """Return the sum of one part or more, which are left as they are, for a task may run again."""
    parts = iter(parts)
    first = next(parts)
    total, n_rows = first.unpack(), first.n_rows
    for part in parts:
        total = part.sums.add_to(total) if isinstance(part.sums, Packed) else total + part.unpack()
        n_rows += part.n_rows
    return Part(pack(total), n_rows)


class PartitionedSource(ChunkedSource):
    stays_apart = True

    def aggregate(self, rows: Rows, rule: SumRule) -> Any:
        """Return the statistic of all rows, summed where they are.

        A task whose worker dies runs again elsewhere. A sum has no side effects, so rows are counted once however often that happens.
        """
        part = self._sum_up(Summing(self.name, self.kind, self._at_once, rows.maps, rule))
        self.check_length(part.n_rows)
        sums = part.unpack()
        return rule.from_flat(sums) if isinstance(sums, np.ndarray) else sums

    @abstractmethod
    def _sum_up(self, summing: Summing) -> Part:
        """Return the sum of all partitions; what goes wrong is said in one sentence."""


# Dask


def open_dask(X: Table, name: str) -> Source | None:
    kind = type(X).__name__
    if kind == "Array" and len(X.shape) == 2 and not math.isnan(X.shape[1]):
        n_samples = None if math.isnan(X.shape[0]) else int(X.shape[0])
        return DaskPartitions(name, X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, "an array", n_samples)
    if kind == "DataFrame":
        # Without Dask's own conversion of objects to strings, which raises where a cell cannot be one.
        with suppress(ImportError, AttributeError):  # a version of Dask that is built otherwise
            from dask.dataframe.dask_expr import new_collection

            whole = X.expr
            for part in list(whole.walk()):
                if type(part).__name__.startswith("FromPandas"):
                    whole = whole.substitute(part, part.substitute_parameters({"pyarrow_strings_enabled": False}))
                elif type(part).__name__ == "ArrowStringConversion":
                    whole = whole.substitute(part, part.frame)
            X = new_collection(whole)
        return DaskPartitions(name, X, "a data frame")
    if kind in ("Array", "Series", "Index"):
        raise ValueError(
            f"Expected 2D array, got {name} as {kind} of Dask of {X.ndim} dimension(s) instead; give columns whose number is known, by "
            ".to_frame() or .reshape(-1, 1) for example."
        )
    raise TypeError(f"{name} must be an array or data frame of Dask, got a {kind} of Dask; convert it, by .to_dataframe() for example.")


class DaskPartitions(PartitionedSource):
    """Partitions of Dask: of an array in one piece along its columns, or of a data frame."""

    def __init__(self, name: str, X: Table, what: str, n_samples: int | None = None) -> None:
        self._fails = _DASK_FAILS.replace("{name}", name).replace("{what}", what)
        self.has_order = isinstance(X._meta, np.ndarray)  # rows of a frame go where a shuffle, a join or a groupby sends them
        meta = np.empty((0, X.shape[1]), dtype=X.dtype) if self.has_order else X._meta
        head = without_rows(as_chunk(meta, "its description", name))
        super().__init__(name, head, n_samples=n_samples)
        parts = without_cells_in_errors(X.to_delayed, self._fails.replace("{number}", "1"))
        self.partitions = parts.ravel().tolist() if isinstance(parts, np.ndarray) else list(parts)

    def _sum_up(self, summing: Summing) -> Part:
        """Sum each partition in a task, on the scheduler of Dask that is current, and add up eight sums at a time in a tree of tasks.

        Tasks have names of their own: no result of another fit stands for theirs.
        """
        import cloudpickle
        import dask
        from dask.base import get_scheduler

        sum_of: Any = dask.delayed(summing, traverse=False, pure=False)
        # The `get` of a client is a method, those of threads and processes are functions.
        if hasattr(get_scheduler(), "__self__") and len(cloudpickle.dumps(summing)) > _MOST_BYTES:
            sum_of = partial(dask.delayed(sum_of_partition, pure=False), sum_of)
        parts = [sum_of(partition, number) for number, partition in enumerate(self.partitions, start=1)]
        add = dask.delayed(add_parts, pure=False)
        while len(parts) > 1:
            parts = [add(parts[start : start + _FAN_IN]) for start in range(0, len(parts), _FAN_IN)]
        try:
            # A partition and its sum become one task: rows do not wait for it, and are not moved to where it is made.
            with _OPTIMIZING, dask.config.set({"optimization.fuse.delayed": True}):
                (tree,) = dask.optimize(parts[0])
            return dask.compute(tree, optimize_graph=False)[0]
        except PartitionError as error:
            told = error.told
        except Exception as error:
            is_killed, way = type(error).__name__ == "KilledWorker", "compute X alone to see why"
            kind = OSError if is_killed else next((kind for kind in (MemoryError, *_TOLD) if isinstance(error, kind)), ValueError)
            if is_killed or kind is MemoryError:
                way = "give workers more memory, or X smaller partitions"
            elif kind is ImportError:
                way = "install skdpsynth, and whatever X is made with, on the workers too"
            told = kind(f"X is of Dask, whose partitions could not all be computed ({type(error).__name__}); {way}.")
        raise told  # here, so that it has no context, which would quote what went wrong in a worker

    def _read_tables(self) -> Iterator[Any]:
        import dask

        for number, part in enumerate(self.partitions, start=1):
            failed = self._fails.replace("{number}", str(number))
            (table,) = without_cells_in_errors(partial(dask.compute, part), failed)
            yield as_chunk(table, f"partition {number}", self.name)


def sum_of_partition(summing: Summing, partition: Table, number: int) -> Part:
    return summing(partition, number)


# Spark


def open_spark(X: Table, name: str) -> Source:
    if not hasattr(type(X), "mapInArrow"):  # of the type: a frame takes any name for that of a column
        raise TypeError(f"{name} must be a data frame of Spark, got a {type(X).__name__}; convert it, by .toDF() or .to_spark().")
    require_package("pyarrow", name, "a data frame of Spark")
    return SparkFrame(name, X)


class SparkFrame(PartitionedSource):
    """A data frame of Spark, evaluated anew at each reading; samples come back in pandas."""

    has_order = False

    def __init__(self, name: str, frame: Table) -> None:
        import pyarrow as pa

        self._frame, self._fails = frame, _SPARK_FAILS.replace("{name}", name)
        schema = without_cells_in_errors(frame.limit(0).toArrow, self._fails).schema.remove_metadata()
        empty = pa.schema([field.with_nullable(True) for field in schema]).empty_table()
        self._tables = partial(_tables_of, schema=empty.schema, fails=self._fails)
        super().__init__(name, pandas_head(empty, date_as_object=True), kind=TableKind.of(empty, name), library="pandas")

    def _sum_up(self, summing: Summing) -> Part:
        """Sum each partition in a task, and the sums in eight more; an error travels as a sum does, so that no log of Spark holds it."""
        tables = self._tables

        def sum_partition(batches: Iterable[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            number = TaskContext.get().partitionId() + 1
            yield _pack_in_batch(number, lambda: summing.of_tables(tables(batches), number))

        def add_sums(batches: Iterable[Any]) -> Iterator[Any]:
            parts = (part for batch in batches for part in batch.column("part").to_pylist())
            for first in parts:
                yield _pack_in_batch(0, partial(add_parts, map(_unpack, chain([first], parts))))

        # By its number a sum goes to the same task whenever its own runs again.
        sums = self._frame.mapInArrow(sum_partition, _PART).repartition(_FAN_IN, "number").mapInArrow(add_sums, _PART)
        rows = without_cells_in_errors(sums.collect, self._fails)
        try:
            return add_parts([summing.of_tables((), 0), *(_unpack(row.part) for row in rows)])
        except PartitionError as error:
            told = error.told
        raise told

    def _read_tables(self) -> Iterator[Any]:
        import pyarrow as pa

        def write(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                with pa.BufferOutputStream() as written:
                    with pa.ipc.new_stream(written, batch.schema) as stream:
                        stream.write_batch(batch)
                    yield pa.record_batch({"rows": [written.getvalue().to_pybytes()]})

        rows = without_cells_in_errors(lambda: self._frame.mapInArrow(write, "rows binary").toLocalIterator(), self._fails)
        yield from self._tables(chain.from_iterable(pa.ipc.open_stream(row.rows) for row in rows))


def _tables_of(batches: Iterable[Any], schema: ArrowSchema, fails: str) -> Iterator[Any]:
    """Yield tables of the head's types of record batches: Spark gives times in the zone of the session there, and here in UTC."""
    import pyarrow as pa

    cast = (pa.Table.from_batches([batch]).cast(schema).to_batches() for batch in batches)
    return rebatch_tables(chain.from_iterable(cast), len(schema), fails)


def _pack_in_batch(number: int, sum_up: Callable[[], Part]) -> Any:
    """Return a record batch of a sum, or of what is wrong with the rows."""
    import pyarrow as pa

    part: Part | PartitionError
    try:
        part = sum_up()
    except PartitionError as error:
        part = error
    return pa.record_batch({"number": pa.array([number], pa.int32()), "part": [pickle.dumps(part)]})


def _unpack(part: bytes) -> Part:
    opened = pickle.loads(part)  # made by our own task, in the caller's cluster, which is trusted with the rows
    if isinstance(opened, PartitionError):
        raise opened
    return opened
