"""Tables in partitions that are summed where they lie, by Dask or by Spark: only packed sums come back."""

import pickle
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from skdpsynth.frames._source import ChunkedSource
from skdpsynth.frames._table_kind import TableKind, as_chunk

FAN_IN = 8  # sums that one task adds up
TOLD = (OSError, TypeError, ImportError, ValueError)  # kinds of errors that speak to users


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
        """Pack a vector of int64."""
        sums = values.view(np.uint64)
        width = _narrowest(sums).itemsize
        if (4 + width) * np.count_nonzero(sums) >= width * len(sums):
            return cls(len(sums), sums.astype(_narrowest(sums)))
        places = np.flatnonzero(sums)
        return cls._sparse(len(sums), places, sums[places])

    @classmethod
    def of_cells(cls, cells: np.ndarray, n_cells: int) -> "Packed":
        """Count the cells of rows, and pack the counts."""
        cells = np.sort(cells)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cls._sparse(n_cells, cells[starts], np.diff(starts, append=len(cells)))

    @classmethod
    def _sparse(cls, n_sums: int, places: np.ndarray, sums: np.ndarray) -> "Packed":
        gaps = np.diff(places, prepend=0)
        return cls(n_sums, sums.astype(_narrowest(sums)), gaps.astype(_narrowest(gaps)))

    @property
    def n_bytes(self) -> int:
        """How many bytes travel."""
        return self.sums.nbytes + (0 if self.gaps is None else self.gaps.nbytes)

    def opened(self) -> np.ndarray:
        """Return the sums as a vector of int64."""
        return self.added_to(np.zeros(self.n_sums, dtype=np.int64))

    def added_to(self, total: np.ndarray) -> np.ndarray:
        """Add the sums to others, in place."""
        sums = self.sums.view(np.int64) if self.sums.itemsize == 8 else self.sums
        if self.gaps is None:
            total += sums
        else:
            total[np.cumsum(self.gaps, dtype=np.int64)] += sums  # no place occurs twice
        return total


def _narrowest(numbers: np.ndarray) -> np.dtype:
    return np.min_scalar_type(int(numbers.max(initial=0)))


@dataclass(frozen=True, eq=False, repr=False)
class Pickled:
    """A statistic that is no vector of sums, such as counts of levels that nobody has listed."""

    statistic: bytes

    @classmethod
    def of(cls, statistic: Any) -> "Pickled":
        """Pack a statistic."""
        import cloudpickle  # it knows classes that were defined in a notebook

        return cls(cloudpickle.dumps(statistic))

    @property
    def n_bytes(self) -> int:
        """How many bytes travel."""
        return len(self.statistic)

    def opened(self) -> Any:
        """Return the statistic."""
        return pickle.loads(self.statistic)  # made by our own task, in the caller's cluster, which is trusted with the rows

    def added_to(self, total: Any) -> Any:
        """Return the sum of this and another."""
        return total + self.opened()


def pack(sums: Any) -> Packed | Pickled:
    """Pack what `opened` and `added_to` returned, or a statistic."""
    sums = getattr(sums, "flat", sums) if not isinstance(sums, np.ndarray) else sums
    return Packed.of(sums) if isinstance(sums, np.ndarray) else Pickled.of(sums)


@dataclass(frozen=True, eq=False, repr=False)  # sums are private: no repr shows them
class Part:
    """The sum of some partitions, and how many rows were read for it."""

    sums: Packed | Pickled
    n_rows: int

    def __sizeof__(self) -> int:
        """Tell Dask how many bytes this takes, by which it decides where to add up, and what to spill."""
        return 256 + self.sums.n_bytes


class PartitionError(Exception):
    """What is wrong with the rows of a partition: the error that the caller sees, whose one sentence says it."""

    def __init__(self, told: Exception) -> None:
        super().__init__(told)
        self.told = told


class Summing:
    """What a worker does with a partition: it reads, checks, maps and sums its rows, a chunk of at most `n_rows` at a time.

    Not a dataclass, which Dask would take apart in search of its own objects.
    """

    __name__ = "sum_of_partition"  # how dashboards call the task

    def __init__(self, name: str, kind: TableKind, n_rows: int, maps: Sequence[Any], rule: Any) -> None:
        self._name, self._kind, self._n_rows, self._maps, self._rule = name, kind, n_rows, maps, rule

    def __call__(self, partition: Any, number: int) -> Part:
        """Sum a partition, of which messages tell the number."""
        return self.of_tables((partition,), number)

    def of_tables(self, tables: Iterable[Any], number: int) -> Part:
        """Sum a partition that comes in tables."""
        n_rows = 0

        def chunks() -> Iterator[Any]:
            nonlocal n_rows
            for table in tables:
                table = as_chunk(table, f"partition {number}", self._name)
                self._kind.check(table, f"partition {number}", self._name)
                for chunk in self._kind.parts(table, self._n_rows):
                    n_rows += chunk.shape[0]
                    yield reduce(lambda rows, change: change(rows), self._maps, chunk)

        try:
            with np.errstate(all="ignore"):  # a floating-point warning would tell of values
                return Part(self._rule.pack_sums(chunks()), n_rows)
        except MemoryError:
            raise
        except Exception as error:
            kind = next((kind for kind in TOLD if isinstance(error, kind)), ValueError)
            is_ours = type(error) in TOLD  # and not a subclass by which a library quotes a cell
            sentence = str(error) if is_ours else f"Rows of partition {number} of X could not be summed ({type(error).__name__})."
        # Raised here, so that it has no context: what workers log and send of an error is this sentence.
        raise PartitionError(kind(sentence))


def add_parts(parts: Iterable[Part]) -> Part:
    """Return the sum of one part or more, which are left as they are, for a task may run again."""
    parts = iter(parts)
    first = next(parts)
    total, n_rows = first.sums.opened(), first.n_rows
    for part in parts:
        total = part.sums.added_to(total)
        n_rows += part.n_rows
    return Part(pack(total), n_rows)


class PartitionedSource(ChunkedSource):
    """A table in partitions, which workers sum."""

    stays_apart = True

    def aggregate(self, rows: Any, rule: Any) -> Any:
        """Return the statistic of all rows, summed where they are.

        A task whose worker dies runs again elsewhere. A sum has no side effects, so rows are counted once however often that happens.
        """
        part = self._sum_up(Summing(self.name, self.kind, self._at_once, rows.maps, rule))
        self.check_length(part.n_rows)
        sums = part.sums.opened()
        return rule.from_flat(sums) if isinstance(sums, np.ndarray) else sums

    @abstractmethod
    def _sum_up(self, summing: Summing) -> Part:
        """Return the sum of all partitions; what goes wrong is said in one sentence."""
