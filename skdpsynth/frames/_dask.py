"""Arrays and data frames of Dask: summed where their partitions are, or computed one partition at a time."""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdpsynth.frames._packed_sums import Packed, Pickled, pack
from skdpsynth.frames._source import ChunkedSource, Source, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind, as_chunk, without_rows

_FAN_IN = 8  # sums that one task adds up
_MOST_BYTES = 1 << 16  # of a rule that every task carries; a larger one goes to each worker once
_OPTIMIZING = threading.Lock()
_TOLD = (OSError, TypeError, ImportError, ValueError)  # kinds of errors that speak to users
_FAILS = "{name} is {what} of Dask, of which partition {number} could not be computed ({error}); compute it alone to see why."


def open_dask(X: Any, name: str) -> Source | None:
    """Open an array or data frame of Dask; refuse its other collections."""
    kind = type(X).__name__
    if kind == "Array" and len(X.shape) == 2 and not math.isnan(X.shape[1]):
        return Partitions(name, X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, "an array", _length(X))
    if kind == "DataFrame":
        return Partitions(name, _with_objects(X), "a data frame")
    if kind in ("Array", "Series", "Index"):
        raise ValueError(
            f"Expected 2D array, got {name} as {kind} of Dask of {X.ndim} dimension(s) instead; give columns whose number is known, by "
            ".to_frame() or .reshape(-1, 1) for example."
        )
    raise TypeError(f"{name} must be an array or data frame of Dask, got a {kind} of Dask; convert it, by .to_dataframe() for example.")


def _with_objects(X: Any) -> Any:
    """Return a data frame without Dask's own conversion of objects to strings, which raises where a cell cannot be one."""
    if not hasattr(X, "expr"):
        return X
    try:
        from dask.dataframe.dask_expr import new_collection

        whole = X.expr
        for part in list(whole.walk()):
            if type(part).__name__.startswith("FromPandas"):
                whole = whole.substitute(part, part.substitute_parameters({"pyarrow_strings_enabled": False}))
            elif type(part).__name__ == "ArrowStringConversion":
                whole = whole.substitute(part, part.frame)
        return new_collection(whole)
    except (ImportError, AttributeError):  # a version of Dask that is built otherwise
        return X


def _length(X: Any) -> int | None:
    return None if math.isnan(X.shape[0]) else int(X.shape[0])


class Partitions(ChunkedSource):
    """Partitions of Dask: of an array in one piece along its columns, or of a data frame."""

    stays_apart = True

    def __init__(self, name: str, X: Any, what: str, n_samples: int | None = None) -> None:
        self._fails = _FAILS.replace("{name}", name).replace("{what}", what)
        meta = X._meta
        if isinstance(meta, np.ndarray):
            meta = np.empty((0, X.shape[1]), dtype=X.dtype)
        head = without_rows(as_chunk(meta, "its description", name))
        super().__init__(name, head, TableKind.of(head, name), n_samples=n_samples)
        self.has_order = isinstance(meta, np.ndarray)  # rows of a frame go where a shuffle, a join or a groupby sends them
        parts = without_cells_in_errors(lambda: X.to_delayed(), self._fails.replace("{number}", "1"))
        self.pieces = Pieces(name, self.kind, self._at_once)
        self.partitions = parts.ravel().tolist() if isinstance(parts, np.ndarray) else list(parts)

    def aggregate(self, rows: Any, rule: Any) -> Any:
        """Return the statistic of all rows: a task sums each partition, and a tree of tasks adds up eight sums at a time.

        It runs on the scheduler of Dask that is current: threads, processes, or a cluster. A task whose worker dies runs again elsewhere.
        A sum has no side effects, so rows are counted once however often that happens.
        """
        import dask

        sum_of = _on_workers(Summing(self.pieces, rows.maps, rule))
        parts = [sum_of(partition, number) for number, partition in enumerate(self.partitions, start=1)]
        add = dask.delayed(add_parts, pure=False)
        while len(parts) > 1:
            parts = [add(parts[start : start + _FAN_IN]) for start in range(0, len(parts), _FAN_IN)]
        part = _compute(parts[0])
        self.check_length(part.n_rows)
        sums = part.sums.opened()
        return rule.from_flat(sums) if isinstance(sums, np.ndarray) else sums

    def _read(self) -> Iterator[Any]:
        import dask

        for number, part in enumerate(self.partitions, start=1):
            failed = self._fails.replace("{number}", str(number))
            (table,) = without_cells_in_errors(lambda part=part: dask.compute(part), failed)
            yield as_chunk(table, f"partition {number}", self.name)


@dataclass(frozen=True)
class Pieces:
    """What cuts a computed partition into chunks of the form of the whole, wherever it was computed.

    Attributes
    ----------
    name : str
        What the caller calls the whole, for messages.
    kind : TableKind
    n_rows : int
        The most in a chunk.
    """

    name: str
    kind: TableKind
    n_rows: int

    def __call__(self, partition: Any, number: int) -> Iterator[Any]:
        table = as_chunk(partition, f"partition {number}", self.name)
        self.kind.check(table, f"partition {number}", self.name)
        yield from self.kind.parts(table, self.n_rows)


@dataclass(frozen=True, eq=False, repr=False)  # sums are private: no repr shows them
class Part:
    """The sum of some partitions, and how many rows were read for it."""

    sums: Packed | Pickled
    n_rows: int

    def __sizeof__(self) -> int:
        """Tell Dask how many bytes this takes, by which it decides where to add up, and what to spill."""
        return 256 + self.sums.n_bytes


class PartitionError(Exception):
    """What is wrong with the rows of a partition: the kind of error, and the one sentence that says it."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(kind, sentence)
        self.kind, self.sentence = kind, sentence


class Summing:
    """What a worker does with a partition: it reads, maps and sums its rows, a chunk at a time.

    Not a dataclass, which Dask would take apart in search of its own objects.
    """

    __name__ = "sum_of_partition"  # how dashboards call the task

    def __init__(self, pieces: "Pieces", maps: Sequence[Any], rule: Any) -> None:
        self._pieces, self._maps, self._rule = pieces, maps, rule

    def __call__(self, partition: Any, number: int) -> Part:
        """Sum a partition, of which messages tell the number."""
        n_rows = 0

        def chunks() -> Iterator[Any]:
            nonlocal n_rows
            for chunk in self._pieces(partition, number):
                n_rows += chunk.shape[0]
                for step in self._maps:
                    chunk = step(chunk)
                yield chunk

        try:
            with np.errstate(all="ignore"):  # a floating-point warning would tell of values
                return Part(self._rule.pack_sums(chunks()), n_rows)
        except MemoryError:
            raise
        except Exception as error:
            kind = next((kind for kind in _TOLD if isinstance(error, kind)), None)
            is_ours = type(error) in _TOLD  # and not a subclass by which a library quotes a cell
            sentence = str(error) if is_ours else f"Rows of partition {number} of X could not be summed ({type(error).__name__})."
        # Raised here, so that it has no context: what workers log and send of an error is this sentence.
        raise PartitionError((kind or ValueError).__name__, sentence)


def sum_of_partition(summing: Summing, partition: Any, number: int) -> Part:
    """Sum a partition by a rule that came by itself."""
    return summing(partition, number)


def add_parts(parts: list[Part]) -> Part:
    """Return the sum of parts, which are left as they are, for a task may run again."""
    total = parts[0].sums.opened()
    for part in parts[1:]:
        total = part.sums.added_to(total)
    return Part(pack(total), sum(part.n_rows for part in parts))


def _on_workers(summing: Summing) -> Any:
    """Return what makes a task of a partition and its number. Tasks have names of their own: no result of another fit stands for theirs."""
    import cloudpickle
    import dask
    from dask.base import get_scheduler

    # The `get` of a client is a method, those of threads and processes are functions.
    if hasattr(get_scheduler(), "__self__") and len(cloudpickle.dumps(summing)) > _MOST_BYTES:
        return partial(dask.delayed(sum_of_partition, pure=False), dask.delayed(summing, traverse=False, pure=False))
    return dask.delayed(summing, traverse=False, pure=False)


def _compute(tree: Any) -> Part:
    """Compute the sum of all partitions; what goes wrong is said in one sentence."""
    import dask

    kind: type[Exception]
    try:
        # A partition and its sum become one task: rows do not wait for it, and are not moved to where it is made.
        with _OPTIMIZING, dask.config.set({"optimization.fuse.delayed": True}):
            (tree,) = dask.optimize(tree)
        return dask.compute(tree, optimize_graph=False)[0]
    except PartitionError as error:
        kind = next(kind for kind in _TOLD if kind.__name__ == error.kind)
        sentence = error.sentence
    except Exception as error:
        is_killed = type(error).__name__ == "KilledWorker"
        kind = OSError if is_killed else next((kind for kind in (MemoryError, *_TOLD) if isinstance(error, kind)), ValueError)
        sentence = f"X is of Dask, whose partitions could not all be computed ({type(error).__name__}); {_way_out(error)}."
    # Raised here, so that it has no context, which would quote what went wrong in a worker.
    raise kind(sentence)


def _way_out(error: Exception) -> str:
    if isinstance(error, MemoryError) or type(error).__name__ == "KilledWorker":
        return "give workers more memory, or X smaller partitions"
    if isinstance(error, ImportError):
        return "install skdpsynth, and whatever X is made with, on the workers too"
    return "compute X alone to see why"
