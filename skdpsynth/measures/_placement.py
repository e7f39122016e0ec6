"""Points inside rectangular cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

_ROWS = 1 << 13  # rows placed at a time: the scratch stays in a small cache, and is made once
_NUMBER = 32  # bits of a point that hold its number; its cell stands above them


@dataclass(frozen=True, eq=False)
class PackedCells:
    """Where cells lie in a box: lower corners on one grid, packed into a whole number a cell.

    Shuffled points then cost one far look-up each, in a table that fits into most caches, instead of one an axis.

    Attributes
    ----------
    codes : ndarray of shape (n_cells,), int64
        Coordinates of the lower corner, axis after axis.
    bits : sequence of int
        How many bits of a code each axis has, 62 in all at most; the last axis has the lowest.
    steps : ndarray of shape (n_features,)
        Side lengths of the grid.
    levels : ndarray of shape (n_cells,), int64
    sides : ndarray of shape (n_features, n_levels)
        Side lengths of the cells of each level, in steps.
    """

    codes: np.ndarray
    bits: Sequence[int]
    steps: np.ndarray
    levels: np.ndarray
    sides: np.ndarray

    @classmethod
    def of(
        cls, coordinates: Iterable[np.ndarray], bits: Sequence[int], steps: np.ndarray, levels: np.ndarray, sides: np.ndarray
    ) -> "PackedCells":
        """Pack the coordinates of each axis, which are below ``2**bits``."""
        codes = np.zeros(len(levels), dtype=np.int64)
        for coordinate, width in zip(coordinates, bits, strict=True):
            codes <<= width
            codes |= coordinate
        return cls(codes, bits, steps, np.asarray(levels, dtype=np.int64), sides)


def numbered_points(counts: np.ndarray) -> np.ndarray:
    """Return one whole number a point, cell after cell: its cell, and below that its own number. They stay together when shuffled.

    Parameters
    ----------
    counts : ndarray of shape (n_cells,), int64
        How many points each cell gets.
    """
    points = np.repeat(np.arange(len(counts)) << _NUMBER, counts)
    numbers = np.arange(len(points))
    points |= numbers if len(points) <= 1 << _NUMBER else numbers & (1 << _NUMBER) - 1
    return points


def points_of(which: np.ndarray) -> np.ndarray:
    """Return `numbered_points` in the order of a list of cells."""
    points = np.empty(len(which), dtype=np.int64)
    points[np.argsort(which, kind="stable")] = numbered_points(np.bincount(which))
    return points


def place_points(box: Any, cells: PackedCells, points: np.ndarray, rng: np.random.Generator, spread: bool) -> np.ndarray:
    """Place points in cells of a box, evenly spread or at random; whole-number features get whole numbers.

    Parameters
    ----------
    box : Box
    cells : PackedCells
    points : ndarray of shape (n_samples,), int64
        From `numbered_points`, in any order: points whose numbers follow each other are spread evenly.
    rng : numpy.random.Generator
    spread : bool

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    """
    X = np.empty((len(points), box.n_features))
    axes = _axes(box, cells)
    unit_cube = _Kronecker(box.n_features, rng) if spread else _Independent(rng)
    scratch = _Scratch.of(min(_ROWS, len(points)))
    for start in range(0, len(X), _ROWS):
        block = scratch.filled(points[start : start + _ROWS], cells)
        for i, axis in enumerate(axes):
            unit_cube.offsets(i, block)
            axis.place(block, X[start : start + _ROWS, i])
    return X


class _Scratch(NamedTuple):
    """What is known of a block of points, and room to work in: nothing is allocated along the way."""

    number: np.ndarray
    product: np.ndarray
    which: np.ndarray
    code: np.ndarray
    level: np.ndarray
    coordinate: np.ndarray
    side: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, size: int) -> "_Scratch":
        return cls(*np.empty((2, size), dtype=np.uint32), *np.empty((4, size), dtype=np.int64), *np.empty((2, size)))

    def filled(self, points: np.ndarray, cells: PackedCells) -> "_Scratch":
        """Return the part of it that some points need, with all that is known of them."""
        block = _Scratch(*(values[: len(points)] for values in self))
        np.bitwise_and(points, (1 << _NUMBER) - 1, out=block.number, casting="unsafe")
        np.right_shift(points, _NUMBER, out=block.which)
        # in range by construction, so "wrap" only skips the check
        np.take(cells.codes, block.which, out=block.code, mode="wrap")
        np.take(cells.levels, block.which, out=block.level, mode="wrap")
        return block


class _Kronecker:
    """A Kronecker sequence modulo 2**32 under one random shift: any run of it is evenly spread."""

    def __init__(self, n_axes: int, rng: np.random.Generator) -> None:
        self.steps, self.shifts = _kronecker_steps(n_axes), rng.integers(2**32, size=n_axes, dtype=np.uint32)

    def offsets(self, axis: int, block: _Scratch) -> None:
        """Write an offset in [0, 1) a point."""
        np.multiply(block.number, self.steps[axis], out=block.product)
        np.add(block.product, self.shifts[axis], out=block.product)
        np.multiply(block.product, 2.0**-32, out=block.offset)


class _Independent:
    """Independent uniform points."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def offsets(self, axis: int, block: _Scratch) -> None:
        """Write an offset in [0, 1) a point."""
        block.offset[:] = self.rng.random(len(block.offset))


class _Axis(NamedTuple):
    """An axis of real numbers."""

    low: float
    high: float
    step: float
    shift: int
    mask: int
    sides: np.ndarray

    def place(self, block: _Scratch, out: np.ndarray) -> None:
        """Map offsets into the cells."""
        np.take(self.sides, block.level, out=block.side, mode="wrap")
        np.multiply(block.offset, block.side, out=block.offset)
        np.right_shift(block.code, self.shift, out=block.coordinate)
        np.bitwise_and(block.coordinate, self.mask, out=block.coordinate)
        np.add(block.offset, block.coordinate, out=block.offset)
        np.multiply(block.offset, self.step, out=block.offset)
        np.add(block.offset, self.low, out=block.offset)
        np.minimum(block.offset, self.high, out=out)


class _WholeAxis(NamedTuple):
    """An axis of whole numbers: the first of each cell, and how many it has."""

    high: float
    first: np.ndarray
    choices: np.ndarray

    def place(self, block: _Scratch, out: np.ndarray) -> None:
        """Choose one of the whole numbers of the cells."""
        np.take(self.choices, block.which, out=block.side, mode="wrap")
        np.multiply(block.offset, block.side, out=block.offset)
        np.floor(block.offset, out=block.offset)
        np.take(self.first, block.which, out=block.side, mode="wrap")
        np.add(block.offset, block.side, out=block.offset)
        np.minimum(block.offset, self.high, out=out)


def _axes(box: Any, cells: PackedCells) -> list[_Axis | _WholeAxis]:
    axes: list[_Axis | _WholeAxis] = []
    total = sum(cells.bits)
    for i, (bits, upto) in enumerate(zip(cells.bits, accumulate(cells.bits), strict=True)):
        shift, mask = total - upto, (1 << bits) - 1
        if box.whole[i]:
            side = np.take(cells.sides[i], cells.levels)
            axes.append(_WholeAxis(box.high[i], *_whole_numbers(box, i, (cells.codes >> shift & mask) / side, side * cells.steps[i])))
        else:
            axes.append(_Axis(box.low[i], box.high[i], cells.steps[i], shift, mask, cells.sides[i]))
    return axes


def _whole_numbers(box: Any, axis: int, coordinate: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first whole number of each cell of an axis and how many it has (none: the nearest to its middle, and 1).

    A number is of the cell that `Box.column_steps` says it is in, whatever the rounding.
    """
    low, high = box.low[axis], box.high[axis]
    parts = np.rint(box.width[axis] / side)
    bottom, top = np.ceil(low), np.floor(high)

    def first(cell: np.ndarray) -> np.ndarray:
        """Smallest whole number within bounds whose cell is at least `cell` (none: one more than the largest)."""
        number = np.ceil(low + cell * side)
        for shift in (-1, 1):  # rounding may be off by one either way
            step = np.floor((number + min(shift, 0) - low) * (parts / box.width[axis]))
            number = np.where(step >= cell, number - 1, number) if shift < 0 else np.where(step < cell, number + 1, number)
        return np.where(cell >= parts, top + 1, np.clip(number, bottom, top + 1))

    start = first(coordinate)
    count = first(coordinate + 1) - start
    nearest = np.clip(np.rint(low + (coordinate + 0.5) * side), bottom, top)
    return np.where(count > 0, start, nearest), np.maximum(count, 1)


def _kronecker_steps(n_axes: int) -> np.ndarray:
    """Steps of the R_d sequence, modulo 2**32: 1/g, 1/g**2, ... with g**(d+1) = g + 1.

    Source: M. Roberts (2018), the generalised golden ratio.
    """
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / (n_axes + 1))
    return (g ** -np.arange(1.0, n_axes + 1) * 2.0**32).astype(np.uint32)
