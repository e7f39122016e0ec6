"""Tables in partitions that are summed where they lie, by Dask or by Spark: only packed sums come back."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.frames._packed_sums import Packed, Pickled, pack
from skdpsynth.frames._source import ChunkedSource
from skdpsynth.frames._table_kind import TableKind, as_chunk

FAN_IN = 8  # sums that one task adds up
TOLD = (OSError, TypeError, ImportError, ValueError)  # kinds of errors that speak to users


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
            for chunk in self._pieces(tables, f"partition {number}"):
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
            kind = next((kind for kind in TOLD if isinstance(error, kind)), ValueError)
            is_ours = type(error) in TOLD  # and not a subclass by which a library quotes a cell
            sentence = str(error) if is_ours else f"Rows of partition {number} of X could not be summed ({type(error).__name__})."
        # Raised here, so that it has no context: what workers log and send of an error is this sentence.
        raise PartitionError(kind(sentence))

    def _pieces(self, tables: Iterable[Any], which: str) -> Iterator[Any]:
        for table in tables:
            table = as_chunk(table, which, self._name)
            self._kind.check(table, which, self._name)
            yield from self._kind.parts(table, self._n_rows)


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
