"""Sums on Dask: made where the partitions are, so that rows stay there and only sums travel."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdpsynth.frames import Chunk, Rows
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._sparse_counts import Packed, Pickled, pack, pack_sums

_FAN_IN = 8  # sums that one task adds up
_MOST_BYTES = 1 << 16  # of a rule that every task carries; a larger one goes to each worker once
_OPTIMIZING = threading.Lock()
_TOLD = (OSError, TypeError, ImportError, ValueError)  # kinds of errors that speak to users


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

    def __init__(self, rows: Rows, aggregator: Aggregator) -> None:
        self._pieces, self._maps, self._aggregator = rows.origin.pieces, rows.maps, aggregator

    def __call__(self, partition: Any, number: int) -> Part:
        """Sum a partition.

        Parameters
        ----------
        partition : table
        number : int
            Which one it is, for messages.
        """
        n_rows = 0

        def chunks() -> Iterator[Chunk]:
            nonlocal n_rows
            for chunk in self._pieces(partition, number):
                n_rows += chunk.shape[0]
                for change in self._maps:
                    chunk = change(chunk)
                yield chunk

        try:
            with np.errstate(all="ignore"):  # a floating-point warning would tell of values
                return Part(pack_sums(self._aggregator, chunks()), n_rows)
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


def total_of_partitions(rows: Rows, aggregator: Aggregator) -> Any:
    """Return the statistic of rows whose origin has partitions: a task sums each, and a tree of tasks adds up eight sums at a time.

    It runs on the scheduler of Dask that is current: threads, processes, or a cluster. A task whose worker dies runs again elsewhere.
    A sum has no side effects, so rows are counted once however often that happens.

    Parameters
    ----------
    rows : Rows
    aggregator : Aggregator

    Returns
    -------
    statistic : object
    """
    import dask

    sum_of = _on_workers(Summing(rows, aggregator))
    parts = [sum_of(partition, number) for number, partition in enumerate(rows.origin.partitions, start=1)]
    add = dask.delayed(add_parts, pure=False)
    while len(parts) > 1:
        parts = [add(parts[start : start + _FAN_IN]) for start in range(0, len(parts), _FAN_IN)]
    part = _compute(parts[0])
    rows.origin.check_length(part.n_rows)
    sums = part.sums.opened()
    return aggregator.from_flat(sums) if isinstance(sums, np.ndarray) else sums


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
