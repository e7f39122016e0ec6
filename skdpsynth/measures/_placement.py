"""Points inside rectangular cells."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

_ROWS = 1 << 13  # rows placed at a time: the scratch stays in a small cache, and is made once
_PART = 2.0**-32  # of an offset: a power of two, so that multiplying by it rounds nothing


@dataclass(frozen=True, eq=False)
class Placement:
    """Where points go that fall into rectangular cells of a box; whole-number features get whole numbers.

    The lower corners of the cells lie on one grid, packed into a whole number a cell: a point costs one look-up, instead of one an axis.

    Attributes
    ----------
    box : Box
    codes : ndarray of shape (n_cells,), int64
        Coordinates of the lower corner, axis after axis; 62 bits in all at most, the last axis has the lowest.
    levels : ndarray of shape (n_cells,), int8
    axes : list
    spread : bool
        Whether points are spread evenly, or at random.
    """

    box: Any
    codes: np.ndarray
    levels: np.ndarray
    axes: "list[_Axis | _WholeAxis]"
    spread: bool

    @classmethod
    def of(
        cls, box: Any, codes: np.ndarray, bits: Sequence[int], steps: np.ndarray, levels: np.ndarray, sides: np.ndarray, spread: bool
    ) -> "Placement":
        """Prepare cells.

        Parameters
        ----------
        box : Box
        codes : ndarray of shape (n_cells,), int64
        bits : sequence of int
            How many bits of a code each axis has.
        steps : ndarray of shape (n_features,)
            Side lengths of the grid.
        levels : ndarray of shape (n_cells,), int
        sides : ndarray of shape (n_features, n_levels)
            Side lengths of the cells of each level, in steps.
        spread : bool
        """
        return cls(box, codes, np.asarray(levels, dtype=np.int8), _axes(box, codes, bits, steps, levels, sides), spread)

    def rows(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a point for each of a list of cells, whatever their order, shape (n_samples, n_features)."""
        numbers = np.empty(len(which), dtype=np.uint32)  # those of a cell follow each other
        numbers[np.argsort(which, kind="stable")] = np.arange(len(which)).astype(np.uint32)
        X = np.empty((len(which), self.box.n_features))
        self.near(which[:, None])[0].write(X, np.arange(len(which)), numbers, self.offsets(rng))
        return X

    def offsets(self, rng: np.random.Generator) -> "_Kronecker | _Independent":
        """Return the random part: points of one sequence are even together."""
        return _Kronecker(self.box.n_features, rng) if self.spread else _Independent(rng)

    def near(self, which: np.ndarray) -> "list[Near]":
        """Look up lists of cells that stand side by side, shape (n_samples, n_lists); return what is known of each.

        In the order of memory that is one pass; afterwards points of a list may come in any order, and find their cell in a cache.
        """
        which = which.astype(np.int64)

        def looked_up(table: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(np.take(table, which, mode="wrap").T)  # in range, "wrap" only skips the check

        codes, levels, axes = looked_up(self.codes), looked_up(self.levels), [axis.near(looked_up) for axis in self.axes]
        return [Near(codes[i], levels[i].astype(np.int64), [axis.of_list(i) for axis in axes]) for i in range(which.shape[1])]


class Near(NamedTuple):
    """A list of cells, in memory of its own."""

    codes: np.ndarray
    levels: np.ndarray
    axes: "list[_Axis | _WholeAxis]"

    def write(self, out: np.ndarray, order: np.ndarray, numbers: np.ndarray, offsets: "_Kronecker | _Independent") -> None:
        """Write points.

        Parameters
        ----------
        out : ndarray of shape (n_samples, n_features)
        order : ndarray of shape (n_samples,), int64
            Which cell of the list each row lies in.
        numbers : ndarray of shape (n_samples,), uint32
            Of rows: those whose numbers follow each other are spread evenly.
        offsets : object
            As `Placement.offsets` makes them.
        """
        scratch = _Scratch.of(min(_ROWS, len(out)))
        for start in range(0, len(out), _ROWS):
            some = slice(start, start + _ROWS)
            block = scratch.filled(order[some], numbers[some], self)
            for i, axis in enumerate(self.axes):
                offsets.write(i, block)
                axis.place(block, out[some, i])


def packed(coordinates: Iterable[np.ndarray], bits: Sequence[int], n_cells: int) -> np.ndarray:
    """Return the codes of cells: the coordinates of each axis, which are below ``2**bits``, in one whole number."""
    codes = np.zeros(n_cells, dtype=np.int64)
    for coordinate, width in zip(coordinates, bits, strict=True):
        codes <<= width
        codes |= coordinate
    return codes


class _Scratch(NamedTuple):
    """What is known of a block of points, and room to work in: nothing is allocated along the way."""

    number: np.ndarray
    which: np.ndarray
    product: np.ndarray
    code: np.ndarray
    level: np.ndarray
    coordinate: np.ndarray
    side: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, size: int) -> "_Scratch":
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, np.empty(size, dtype=np.uint32), *np.empty((3, size), dtype=np.int64), *np.empty((2, size)))

    def filled(self, which: np.ndarray, numbers: np.ndarray, cells: Near) -> "_Scratch":
        """Return the part of it that some points need, with all that is known of them."""
        block = _Scratch(numbers, which, *(values[: len(which)] for values in self[2:]))
        np.take(cells.codes, which, out=block.code, mode="wrap")
        np.take(cells.levels, which, out=block.level, mode="wrap")
        return block


class _Kronecker:
    """A Kronecker sequence modulo 2**32 under one random shift: any run of it is evenly spread."""

    def __init__(self, n_axes: int, rng: np.random.Generator) -> None:
        self.steps, self.shifts = _kronecker_steps(n_axes), rng.integers(2**32, size=n_axes, dtype=np.uint32)

    def write(self, axis: int, block: _Scratch) -> None:
        """Write an offset a point, in parts of 2**-32."""
        np.multiply(block.number, self.steps[axis], out=block.product)
        np.add(block.product, self.shifts[axis], out=block.product)


class _Independent:
    """Independent uniform points."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def write(self, axis: int, block: _Scratch) -> None:
        """Write an offset a point, in parts of 2**-32."""
        block.product[:] = self.rng.integers(2**32, size=len(block.product), dtype=np.uint32)


class _Axis(NamedTuple):
    """An axis of real numbers; `sides` of the cells of each level are in parts of an offset."""

    low: float
    high: float
    step: float
    shift: int
    mask: int
    sides: np.ndarray

    def near(self, looked_up: Callable[[np.ndarray], np.ndarray]) -> "_Axis":
        """It is the same for all cells."""
        return self

    def of_list(self, i: int) -> "_Axis":
        """And for all lists of them."""
        return self

    def place(self, block: _Scratch, out: np.ndarray) -> None:
        """Map offsets into the cells."""
        np.take(self.sides, block.level, out=block.side, mode="wrap")
        np.multiply(block.product, block.side, out=block.offset)
        np.right_shift(block.code, self.shift, out=block.coordinate)
        np.bitwise_and(block.coordinate, self.mask, out=block.coordinate)
        np.add(block.offset, block.coordinate, out=block.offset)
        np.multiply(block.offset, self.step, out=block.offset)
        np.add(block.offset, self.low, out=block.offset)
        np.minimum(block.offset, self.high, out=out)


class _WholeAxis(NamedTuple):
    """An axis of whole numbers: the first of each cell, and how many it has, in parts of an offset."""

    high: float
    first: np.ndarray
    choices: np.ndarray

    def near(self, looked_up: Callable[[np.ndarray], np.ndarray]) -> "_WholeAxis":
        """Return this for lists of cells."""
        return _WholeAxis(self.high, looked_up(self.first), looked_up(self.choices))

    def of_list(self, i: int) -> "_WholeAxis":
        """Return this for one of them."""
        return _WholeAxis(self.high, self.first[i], self.choices[i])

    def place(self, block: _Scratch, out: np.ndarray) -> None:
        """Choose one of the whole numbers of the cells."""
        np.take(self.choices, block.which, out=block.side, mode="wrap")
        np.multiply(block.product, block.side, out=block.offset)
        np.floor(block.offset, out=block.offset)
        np.take(self.first, block.which, out=block.side, mode="wrap")
        np.add(block.offset, block.side, out=block.offset)
        np.minimum(block.offset, self.high, out=out)


def _axes(
    box: Any, codes: np.ndarray, bits: Sequence[int], steps: np.ndarray, levels: np.ndarray, sides: np.ndarray
) -> list[_Axis | _WholeAxis]:
    axes: list[_Axis | _WholeAxis] = []
    total = sum(bits)
    for i, (width, upto) in enumerate(zip(bits, accumulate(bits), strict=True)):
        shift, mask = total - upto, (1 << width) - 1
        if box.whole[i]:
            side = np.take(sides[i], levels)
            first, choices = _whole_numbers(box, i, (codes >> shift & mask) / side, side * steps[i])
            axes.append(_WholeAxis(box.high[i], first, choices * _PART))
        else:
            axes.append(_Axis(box.low[i], box.high[i], steps[i], shift, mask, sides[i] * _PART))
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
