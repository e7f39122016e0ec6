"""Arrays and data frames of Dask: summed where their partitions are, or computed one partition at a time."""

import math
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from skdpsynth.frames._partition_sums import FAN_IN, TOLD, Part, PartitionedSource, PartitionError, Summing, add_parts
from skdpsynth.frames._source import Source, without_cells_in_errors
from skdpsynth.frames._table_kind import TableKind, as_chunk, without_rows

_MOST_BYTES = 1 << 16  # of a rule that every task carries; a larger one goes to each worker once
_OPTIMIZING = threading.Lock()
_FAILS = "{name} is {what} of Dask, of which partition {number} could not be computed ({error}); compute it alone to see why."


def open_dask(X: Any, name: str) -> Source | None:
    """Open an array or data frame of Dask; refuse its other collections."""
    kind = type(X).__name__
    if kind == "Array" and len(X.shape) == 2 and not math.isnan(X.shape[1]):
        n_samples = None if math.isnan(X.shape[0]) else int(X.shape[0])
        return Partitions(name, X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, "an array", n_samples)
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


class Partitions(PartitionedSource):
    """Partitions of Dask: of an array in one piece along its columns, or of a data frame."""

    def __init__(self, name: str, X: Any, what: str, n_samples: int | None = None) -> None:
        self._fails = _FAILS.replace("{name}", name).replace("{what}", what)
        meta = X._meta
        if isinstance(meta, np.ndarray):
            meta = np.empty((0, X.shape[1]), dtype=X.dtype)
        head = without_rows(as_chunk(meta, "its description", name))
        super().__init__(name, head, TableKind.of(head, name), n_samples=n_samples)
        self.has_order = isinstance(meta, np.ndarray)  # rows of a frame go where a shuffle, a join or a groupby sends them
        parts = without_cells_in_errors(lambda: X.to_delayed(), self._fails.replace("{number}", "1"))
        self.partitions = parts.ravel().tolist() if isinstance(parts, np.ndarray) else list(parts)

    def _sum_up(self, summing: Summing) -> Part:
        """Sum each partition in a task, on the scheduler of Dask that is current, and add up eight sums at a time in a tree of tasks."""
        import dask

        sum_of = _on_workers(summing)
        parts = [sum_of(partition, number) for number, partition in enumerate(self.partitions, start=1)]
        add = dask.delayed(add_parts, pure=False)
        while len(parts) > 1:
            parts = [add(parts[start : start + FAN_IN]) for start in range(0, len(parts), FAN_IN)]
        return _compute(parts[0])

    def _read(self) -> Iterator[Any]:
        import dask

        for number, part in enumerate(self.partitions, start=1):
            failed = self._fails.replace("{number}", str(number))
            (table,) = without_cells_in_errors(lambda part=part: dask.compute(part), failed)
            yield as_chunk(table, f"partition {number}", self.name)


def sum_of_partition(summing: Summing, partition: Any, number: int) -> Part:
    """Sum a partition by a rule that came by itself."""
    return summing(partition, number)


def _on_workers(summing: Summing) -> Any:
    """Return what makes a task of a partition and its number. Tasks have names of their own: no result of another fit stands for theirs."""
    import cloudpickle
    import dask
    from dask.base import get_scheduler

    rule = dask.delayed(summing, traverse=False, pure=False)
    # The `get` of a client is a method, those of threads and processes are functions.
    is_large = hasattr(get_scheduler(), "__self__") and len(cloudpickle.dumps(summing)) > _MOST_BYTES
    return partial(dask.delayed(sum_of_partition, pure=False), rule) if is_large else rule


def _compute(tree: Any) -> Part:
    """Compute the sum of all partitions; what goes wrong is said in one sentence."""
    import dask

    try:
        # A partition and its sum become one task: rows do not wait for it, and are not moved to where it is made.
        with _OPTIMIZING, dask.config.set({"optimization.fuse.delayed": True}):
            (tree,) = dask.optimize(tree)
        return dask.compute(tree, optimize_graph=False)[0]
    except PartitionError as error:
        told = error.told
    except Exception as error:
        is_killed = type(error).__name__ == "KilledWorker"
        kind = OSError if is_killed else next((kind for kind in (MemoryError, *TOLD) if isinstance(error, kind)), ValueError)
        told = kind(f"X is of Dask, whose partitions could not all be computed ({type(error).__name__}); {_way_out(error)}.")
    raise told  # here, so that it has no context, which would quote what went wrong in a worker


def _way_out(error: Exception) -> str:
    if isinstance(error, MemoryError) or type(error).__name__ == "KilledWorker":
        return "give workers more memory, or X smaller partitions"
    if isinstance(error, ImportError):
        return "install skdpsynth, and whatever X is made with, on the workers too"
    return "compute X alone to see why"
