"""Rows as whole numbers about a center, within a ball."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain._box import Box
from skdpsynth.frames import dense_chunks
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False)
class Ball:
    """The map of rows to whole numbers ``w = 2 q - (2**bits - 1) - center``, q their grid coordinates.

    Half a grid step is the unit, and without a center the midpoint of the box is the origin. A row outside the ball is shrunk towards
    its center. Rows must be finite, as those of a fit are. Every row is mapped by itself, in whole numbers, so neighboring tables go
    to neighboring tables, and no row is longer than the radius, exactly.
    """

    box: Box  # the grid
    least: np.ndarray  # grid coordinates that bounds allow, of each feature; the box may be wider
    most: np.ndarray
    center: np.ndarray  # int64
    squared_radius: Any = None  # int; None: no row is shrunk
    takes_coordinates: bool = False  # whether rows come as grid coordinates and not in the units of the data

    @classmethod
    def of(cls, box: Box, bits: int, equal_units: bool) -> "Ball":
        """Return all of a box, about its midpoint, on a grid of ``2**bits`` steps along every side.

        With `equal_units` they are along the widest side, and a step has one length on all axes, so lengths of rows are those of the data.
        """
        grid = box.with_bits(bits)
        if equal_units:
            reach = box.width.max() / 2
            grid = Box(box.midpoint - reach, box.midpoint + reach, bits)
        # The grid is monotone, so clipping its coordinates to those of the bounds is to clip the row to the bounds.
        least, most = grid.quantize(np.array([box.low, box.high]))
        return cls(grid, least, most, np.zeros(box.n_features, dtype=np.int64))

    @property
    def unit(self) -> np.ndarray:
        """Length of 1 on each axis, in the units of the data."""
        return self.box.step / 2

    @property
    def width(self) -> np.ndarray:
        """Side lengths that bounds allow, in the units of the data."""
        return (self.most - self.least + 1) * self.box.step

    @property
    def origin(self) -> np.ndarray:
        """The origin in twice the grid coordinates, shape (n_features,), int64."""
        return (1 << self.box.bits) - 1 + self.center

    @property
    def largest(self) -> np.ndarray:
        """The most that a coordinate can be, either way, shape (n_features,)."""
        return np.maximum(np.abs(2 * self.least - self.origin), np.abs(2 * self.most - self.origin))

    @property
    def reach(self) -> int:
        """The squared length that no row exceeds."""
        return self._corner if self.squared_radius is None else min(self._corner, self.squared_radius)

    @property
    def _corner(self) -> int:
        return int((self.largest**2).sum())

    @property
    def shrinks(self) -> bool:
        """Whether a row within the bounds may lie beyond the radius."""
        return self.reach < self._corner

    def clipped(self, point: np.ndarray) -> np.ndarray:
        """Clip a point, in the units of the data, to the bounds, up to a grid step."""
        return np.clip(point, self.box.low + self.least * self.box.step, self.box.low + (self.most + 1) * self.box.step)

    def about(self, center: np.ndarray) -> "Ball":
        """Return the same about another center: whole numbers, clipped to the bounds."""
        middle = (1 << self.box.bits) - 1
        inside = np.clip(center, 2 * self.least - middle, 2 * self.most - middle)
        return replace(self, center=inside.astype(np.int64))

    def within(self, squared_radius: int) -> "Ball":
        """Return the same with a radius: the root of `squared_radius`, at least 1."""
        return replace(self, squared_radius=max(1, int(squared_radius)))

    def of_coordinates(self) -> "Ball":
        """Return the same for rows that come as grid coordinates, as `steps` gives them."""
        return replace(self, takes_coordinates=True)

    def chunks(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield ``(rows, whole)`` over `X`: a slice, and those rows as whole numbers in reused scratch."""
        origin, shrinks = self.origin, self.shrinks
        for rows, whole in self.steps(X):
            whole *= 2
            whole -= origin
            if shrinks:
                lengths = _squared(whole)
                far = np.flatnonzero(lengths > self.reach)
                whole[far] = self.nearer(whole[far], lengths[far])
            yield rows, whole

    def steps(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield ``(rows, q)`` over `X`: a slice, and the grid coordinates of those rows within the bounds in reused scratch."""
        if self.takes_coordinates:
            scratch = self.box.scratch(len(X))
            for rows, part in dense_chunks(X, self.box.chunk_rows):
                q = scratch[: len(part)]
                np.copyto(q, part)
                yield rows, q
            return
        is_narrow = self.least.any() or (self.most < (1 << self.box.bits) - 1).any()
        for rows, q in self.box.chunks(X, finite=True):
            yield rows, np.clip(q, self.least, self.most, out=q) if is_narrow else q

    def squared_lengths(self, q: np.ndarray) -> np.ndarray:
        """Return the squared lengths, before they are shrunk, of rows given by grid coordinates.

        ``|2 q - o|^2 = 4 (|q|^2 - q.o) + |o|^2``, of whole numbers below 2**53, which floats hold.
        """
        origin = self.origin.astype(float)
        lengths = _squared(q)
        lengths -= q @ origin
        lengths *= 4
        lengths += origin @ origin
        return lengths

    def nearer(self, whole: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Shrink rows w beyond the radius r: multiply by ``floor(r) / ceil(|w|)``, and round towards 0.

        No square exceeds r**2. |w|**2 < 2**50 is exact in floats, and so is the ceiling of its root: next to a whole number m it differs
        from m by 1 / (2 m) at least, more than rounding moves it. So is the floor of a quotient of whole numbers below 2**50 by one below
        2**25.
        """
        scaled = whole * math.isqrt(self.reach)
        scaled /= np.ceil(np.sqrt(lengths))[:, None]
        return np.trunc(scaled, out=scaled)


def _squared(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)
