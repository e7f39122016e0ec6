"""Rows of a `MarginalModel`, in blocks that are made one by one and in threads."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import numpy as np

from skdpsynth._workers import do_all
from skdpsynth.domain import Grid, grids_of
from skdpsynth.models._level_groups import LevelGroups
from skdpsynth.models._links import InBins, Link
from skdpsynth.models._systematic import CELLS, STRATA, points_below, shifts_of

_ROWS = 1 << 16  # of a block
_LEAST_ROWS = 1 << 11
_CELLS = 1 << 23  # of rows times columns in a block, where rows are wide
_BIN_BIT = 48  # of a word that is sorted: bin, random bits, row
_ROW_BITS = 16


class MarginalDraw:
    """A sample of rows.

    Parameters
    ----------
    model : MarginalModel
    n_samples : int
    rng : numpy.random.Generator
    """

    def __init__(self, model: Any, n_samples: int, rng: np.random.Generator) -> None:
        self.model, self.n_samples = model, n_samples
        self.size = max(_LEAST_ROWS, min(_ROWS, 1 << (_CELLS // len(model.schema)).bit_length() - 1))
        self.entropy = rng.integers(2**32, size=4).tolist()
        self.shift = rng.random(1)
        self.strata = np.cumsum(model.weights) / np.sum(model.weights)
        self.strata[-1] = 1.0
        self.codes = [[factors.draw(label, rng) for factors in model.factors] for label in range(len(model.weights))]
        grids = grids_of(model.schema)
        self.links: dict[Hashable, _Linked] = {
            name: _Levels(link, rng) if isinstance(link, LevelGroups) else _Numbers(link, grids[name], rng)
            for name, link in model.links.items()
        }

    def values(self, n_jobs: int | None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them; levels in the narrowest signed integers."""
        columns = [np.empty(self.n_samples, dtype=self._dtype(name)) for name in self.model.schema]
        do_all((partial(self._write, block, columns) for block in range(self.n_blocks)), n_jobs)
        return columns

    def blocks(self) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        for block in range(self.n_blocks):
            rows = self._rows(block)
            columns = [np.empty(rows.stop - rows.start, dtype=self._dtype(name)) for name in self.model.schema]
            self._write(block, columns, offset=rows.start)
            yield columns

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.n_samples // self.size)

    def _rows(self, block: int) -> slice:
        return slice(block * self.size, min((block + 1) * self.size, self.n_samples))

    def _dtype(self, name: Hashable) -> Any:
        return float if isinstance(self.links.get(name), _Numbers) else np.min_scalar_type(-self.model.schema[name].n_codes)

    def _write(self, block: int, columns: list[np.ndarray], offset: int = 0) -> None:
        rows, rng = self._rows(block), np.random.default_rng([*self.entropy, block])
        strata, coded = self._coded(rows.stop - rows.start, block, rng)
        codes = iter(coded)
        for name, column in zip(self.model.schema, columns, strict=True):
            out = column[rows.start - offset : rows.stop - offset]
            if name == self.model.stratum:
                out[:] = strata
            elif name in self.links:
                self.links[name].write(next(codes), block, rng, out)
            else:
                out[:] = next(codes)

    def _coded(self, n_rows: int, block: int, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the strata of a block of rows, and the codes of its other columns."""
        upto = points_below(self.strata, n_rows, shifts_of(self.shift, block, STRATA)).astype(np.int64)
        coded = [np.empty(n_rows, dtype=np.uint32) for _ in range(sum(map(len, self.model.blocks)))]
        for of_stratum, start, stop in zip(self.codes, [0, *upto], upto, strict=False):
            if stop > start:
                for draw, columns in zip(of_stratum, self.model.blocks, strict=True):
                    for column, codes in zip(columns, draw.codes(int(stop - start), block, rng), strict=True):
                        coded[column][start:stop] = codes
        strata = np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))
        if len(upto) == 1:
            return strata, coded
        order = rng.permutation(n_rows)
        return strata[order], [np.take(codes, order) for codes in coded]


class _Linked(ABC):
    """Values of a column whose codes are bins of cells."""

    missing: Any

    def __init__(self, link: Link, rng: np.random.Generator) -> None:
        self.bins, self.shifts = InBins.of(link), rng.random(link.n_bins)

    @abstractmethod
    def _values_of(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a value of each cell."""

    def write(self, codes: np.ndarray, block: int, rng: np.random.Generator, out: np.ndarray) -> None:
        """Draw a value in each of the bins listed; the code after the last bin is a missing cell."""
        n_bins = len(self.shifts)
        keys = codes.astype(np.uint64) << np.uint64(_BIN_BIT)
        keys |= rng.integers(2**32, size=len(codes), dtype=np.uint32).astype(np.uint64) << np.uint64(_ROW_BITS)
        keys |= np.arange(len(codes), dtype=np.uint64)
        keys.sort()  # by bin; within a bin in random order, so that the rows of a bin get its numbers in that
        rows = (keys & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)
        counts = np.bincount(codes, minlength=n_bins + 1)
        cells = self.bins.cells(counts[:n_bins], shifts_of(self.shifts, block, CELLS))
        out[rows[: len(cells)]] = self._values_of(cells, rng)
        out[rows[len(cells) :]] = self.missing


class _Numbers(_Linked):
    """Numbers of a continuous column."""

    missing = np.nan

    def __init__(self, link: Link, grid: Grid, rng: np.random.Generator) -> None:
        super().__init__(link, rng)
        self.grid = grid

    def _values_of(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.grid.place(cells, rng)


class _Levels(_Linked):
    """Levels of a column of very many."""

    def __init__(self, groups: LevelGroups, rng: np.random.Generator) -> None:
        super().__init__(groups.link, rng)
        self.order, self.missing = groups.order, len(groups.order)

    def _values_of(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.order[cells]
