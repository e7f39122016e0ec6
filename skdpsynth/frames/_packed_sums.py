"""Exact sums in few bytes, to travel between processes."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np


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
