"""Points inside rectangular cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.domain import Box

_VALUES = 1 << 15  # coordinates placed at a time: the scratch stays in a small cache
_TILE = 64  # rows that share one line of constants; also the least that are placed at a time
_DRAWN = 1 << 13  # independent offsets drawn at a time, axis after axis
_CELLS = 1 << 14  # cells unpacked at a time
_PART = 2.0**-32  # of an offset: a power of two, so that multiplying by it rounds nothing


@dataclass(frozen=True, eq=False)
class Placement:
    """Points of rectangular cells of a box; whole-number features get whole numbers.

    All facts about a cell are one short row, so a point costs one look-up, instead of one an axis.
    """

    box: Box
    known: np.ndarray  # structured: the lower corner, in sides of the cell, of the axes up to the last that is cut; and the level
    sides: np.ndarray  # of the cells of each level, shape (n_levels, n_features)
    whole: "list[_WholeAxis]"  # axes of whole numbers
    spread: bool  # evenly, or at random

    @classmethod
    def of(
        cls, box: Box, codes: np.ndarray, bits: Sequence[int], steps: np.ndarray, levels: np.ndarray, sides: np.ndarray, spread: bool
    ) -> "Placement":
        """Prepare cells whose lower corners lie on one grid.

        `codes` are the coordinates of lower corners in a row, 62 bits in all at most, 31 an axis; `bits` how many each axis has;
        `steps` the side lengths of the grid; `sides`, shape (n_features, n_levels), those of the cells of each level, in steps: powers of
        two.
        """
        n_bits = sum(bits)
        levels, shifts = np.asarray(levels, dtype=np.int8), [n_bits - upto for upto in accumulate(bits)]
        whole = []
        for i in np.flatnonzero(box.whole).tolist():
            side = np.take(sides[i], levels)
            first, choices = _whole_numbers(box, i, (codes >> shifts[i] & (1 << bits[i]) - 1) / side, side * steps[i])
            whole.append(_WholeAxis(i, box.high[i], first, choices * _PART))
        # A row takes a power of two of bytes, because those are looked up fastest.
        n_cut = max((axis + 1 for axis, width in enumerate(bits) if width), default=1)
        coordinate = np.min_scalar_type((1 << max(bits)) - 1)
        size = 1 << (n_cut * coordinate.itemsize).bit_length()
        row: Any = {"names": ["corner", "level"], "formats": [(coordinate, (n_cut,)), np.int8], "offsets": [0, size - 1], "itemsize": size}
        known, halvings = np.zeros(len(codes), dtype=np.dtype(row)), np.log2(sides).astype(np.int64)
        known["level"] = levels
        for start in range(0, len(codes), _CELLS):  # the scratch stays in cache
            some = slice(start, start + _CELLS)
            for axis in range(n_cut):
                corner = codes[some] >> shifts[axis] & (1 << bits[axis]) - 1
                known["corner"][some, axis] = corner >> np.take(halvings[axis], levels[some])
        return cls(box, known, np.ascontiguousarray((sides * steps[:, None]).T), whole, spread)

    def rows(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a point for each of a list of cells, whatever their order, shape (n_samples, n_features)."""
        by_cell = np.argsort(which, kind="stable")  # the numbers of those of a cell follow each other
        order = np.empty_like(by_cell)
        order[by_cell] = np.arange(len(which))
        X = np.empty((len(which), self.box.n_features))
        self.near(which[by_cell][:, None])[0].write(X, order, PointNumbers(0, 1), self.offsets(rng))
        return X

    def offsets(self, rng: np.random.Generator) -> "Offsets":
        """Return the random offsets: points of one sequence are even together."""
        return (_even_offsets if self.spread else _independent_offsets)(self.box.n_features, rng)

    def near(self, which: np.ndarray) -> "list[CellList]":
        """Look up lists of cells that stand side by side, shape (n_samples, n_lists): one pass in the order of memory."""
        which = which.astype(np.int64)

        def look_up(table: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(np.take(table, which, mode="wrap").T)  # in range, "wrap" only skips the check

        items = self.known.view(np.dtype((np.void, self.known.itemsize)))  # rows are copied whole, not field by field
        known, scratch = look_up(items).view(self.known.dtype), _Scratch.of(self.box, len(which))
        whole = [(axis, look_up(axis.first), look_up(axis.choices)) for axis in self.whole]
        return [
            CellList(self, scratch, known[i], [axis._replace(first=first[i], choices=choices[i]) for axis, first, choices in whole])
            for i in range(which.shape[1])
        ]


class PointNumbers(NamedTuple):
    """Numbers of the points of a list, modulo 2**32: points that follow each other along the curve are spread evenly."""

    first: int
    to_next: int


Writer = Callable[[int, np.ndarray], None]
"""Writes the offsets of the points from a place on into the lower halves of words."""
Offsets = Callable[[np.ndarray, PointNumbers], Writer]
"""From the places of the points of a list among its rows, and their numbers."""


class CellList(NamedTuple):
    """A list of cells, in memory of its own; lists that were looked up together share the room to work in."""

    placement: Placement
    scratch: "_Scratch"
    known: np.ndarray
    whole: "list[_WholeAxis]"

    def write(self, out: np.ndarray, order: np.ndarray, numbers: PointNumbers, offsets: Offsets) -> None:
        """Write a point of each of the first cells of the list to `out`, whose rows lie in the cells that the permutation `order` names.

        They are made in the order of the list, where all facts about them lie side by side, and only then go to their places.
        """
        points, write_offsets, size = self.scratch.points[: len(out)], offsets(order, numbers), len(self.scratch.words)
        for start in range(0, len(out), size):
            write_offsets(start, self.scratch.words)
            self._place(slice(start, min(start + size, len(out))))
        np.take(points, order, axis=0, out=out, mode="wrap")

    def _place(self, some: slice) -> None:
        placement, out = self.placement, self.scratch.points[some]
        words, sides, low, high = (values[: len(out)] for values in self.scratch[:-1])
        corners = self.known["corner"][some]
        words[:, : corners.shape[1], 1] = corners
        # A whole number becomes a float in one rounding. Parts and sides are scaled one after the other: their product may be no normal
        # float, where the box is very narrow.
        out[...] = words.view("<i8")[..., 0]
        out *= _PART
        np.take(placement.sides, self.known["level"][some].astype(np.int64), axis=0, out=sides, mode="wrap")
        out *= sides
        if placement.box.low.any():
            out += low
        np.minimum(out, high, out=out)
        for number, most, first, choices in self.whole:  # one of the whole numbers of each cell
            chosen = np.floor(words[:, number, 0] * choices[some])
            chosen += first[some]
            np.minimum(chosen, most, out=out[:, number])


class _Scratch(NamedTuple):
    """Working memory for some rows, and constants repeated row after row: operations run over long lines."""

    words: np.ndarray  # a coordinate, in parts of 2**-32 of a side: the corner is its upper half, the offset its lower one
    sides: np.ndarray
    low: np.ndarray
    high: np.ndarray
    points: np.ndarray  # of a whole list

    @classmethod
    def of(cls, box: Box, n_points: int) -> "_Scratch":
        n_axes = box.n_features
        shape = max(_TILE, min(_VALUES // n_axes, n_points + _TILE - 1) // _TILE * _TILE), n_axes
        low, high = (  # without a copy, if all axes are alike
            np.broadcast_to(side[0], shape) if (side == side[0]).all() else np.tile(side, (shape[0], 1)) for side in (box.low, box.high)
        )
        return cls(np.zeros((*shape, 2), dtype="<u4"), np.empty(shape), low, high, np.empty((n_points, n_axes)))


def _even_offsets(n_axes: int, rng: np.random.Generator) -> Offsets:
    """Return the points of a Kronecker sequence modulo 2**32 under one random shift: any run of it is evenly spread."""
    steps, shifts = _kronecker_steps(n_axes), rng.integers(2**32, size=n_axes, dtype=np.uint32)

    def of_list(order: np.ndarray, numbers: PointNumbers) -> Writer:
        first, to_next = shifts + steps * np.uint32(numbers.first % 2**32), numbers.to_next % 2**32

        def write(start: int, words: np.ndarray) -> None:
            line = np.tile(first + steps * np.uint32(start * to_next % 2**32), _TILE)
            lines = words.reshape(-1, len(line), 2)[..., 0]
            np.add(_multiples(n_axes, to_next, len(words)).reshape(lines.shape), line, out=lines)

        return write

    return of_list


def _independent_offsets(n_axes: int, rng: np.random.Generator) -> Offsets:
    """Return independent uniform points, drawn in the order of the rows in which they will stand."""

    def of_list(order: np.ndarray, numbers: PointNumbers) -> Writer:
        drawn = np.empty((len(order), n_axes), dtype=np.uint32)
        for start in range(0, len(order), _DRAWN):
            some = order[start : start + _DRAWN]
            for axis in range(n_axes):
                drawn[some, axis] = rng.integers(2**32, size=len(some), dtype=np.uint32)

        def write(start: int, words: np.ndarray) -> None:
            some = drawn[start : start + len(words)]
            words[: len(some), :, 0] = some

        return write

    return of_list


class _WholeAxis(NamedTuple):
    """An axis of whole numbers."""

    number: int
    high: float
    first: np.ndarray  # whole number of each cell
    choices: np.ndarray  # how many it has, in parts of an offset


@lru_cache(maxsize=4)
def _multiples(n_axes: int, to_next: int, n_points: int) -> np.ndarray:
    """Return how far the offsets of the points are from that of the first, shape (n_points, n_axes)."""
    multiples = np.arange(n_points, dtype=np.uint32)[:, None] * (_kronecker_steps(n_axes) * np.uint32(to_next))
    multiples.setflags(write=False)
    return multiples


def _whole_numbers(box: Box, axis: int, coordinate: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first whole number of each cell of an axis and how many it has (none: the nearest to its middle, and 1).

    A number belongs to the cell that `Box.column_steps` puts it into, whatever the rounding.
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
    """Return the steps of the R_d sequence, modulo 2**32: 1/g, 1/g**2, ... with g**(d+1) = g + 1.

    Source: M. Roberts (2018), the generalized golden ratio.
    """
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / (n_axes + 1))
    return (g ** -np.arange(1.0, n_axes + 1) * 2.0**32).astype(np.uint32)
