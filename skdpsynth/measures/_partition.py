"""Binary partitions: cells that are halved again and again, numbered so that leading bits name the ancestors."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from skdpsynth._sklearn import is_whole
from skdpsynth.measures._placement import place_points

_ROWS_LOCATED = 1 << 15  # rows located at a time: the scratch stays in cache
_TABLE_BITS = 15  # bits that one look-up table spreads
MAX_DEPTH = 62  # a cell number is a non-negative int64


class _Group(NamedTuple):
    """Axes whose steps are joined into one number, ``sum(steps * place)``, and the look-ups that spread its bits."""

    axes: list
    bits: list
    places: list
    tables: list  # of (shift, table): a number wider than one table is looked up in parts


class BinaryPartition:
    """Halve a box along its axes in turn; the cells of a level are numbered along the Morton curve.

    Parameters
    ----------
    box : Box
        The public box; an axis can be halved at most ``box.bits`` times.
    depth : int
        Number of halvings from the box to a leaf; 0 to ``min(62, n_features * bits)``.
    spread : bool, default=True
        Whether `sample` spreads the points of a cell evenly (a low-discrepancy sequence) instead of drawing them independently.

    Raises
    ------
    ValueError
        If `depth` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import Box
    >>> from skdpsynth.measures import BinaryPartition
    >>> partition = BinaryPartition(Box([0, 0], [1, 1]), depth=3)
    >>> partition.locate(np.array([[0.9, 0.1], [0.1, 0.9]]))
    array([5, 2])
    >>> partition.diameters(1)
    1.0
    """

    def __init__(self, box, depth, *, spread=True):
        most = min(MAX_DEPTH, box.n_features * box.bits)
        if not is_whole(depth, 0, most):
            raise ValueError(f"depth must be an integer from 0 to {most}, got {depth!r}; the depth 'auto' follows from n * epsilon.")
        self.box = box
        self.depth = int(depth)
        self.spread = spread

    def __repr__(self):
        return f"BinaryPartition(n_features={self.box.n_features}, depth={self.depth})"

    def cuts(self, level):
        """Return how often each axis is halved down to `level`, shape (n_features,)."""
        axes = np.arange(self.box.n_features)
        return np.maximum(0, (level - axes + len(axes) - 1) // len(axes))

    def diameters(self, level):
        """Return the diameter (chebyshev) of the cells of `level`; all of one level are congruent."""
        return float(np.max(self.box.width / 2.0 ** self.cuts(level)))

    def locate(self, X):
        """Return the leaf of each row.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows outside the box count as clipped to it.

        Returns
        -------
        cells : ndarray of shape (n_samples,), int64
            Numbers in [0, 2**depth); ``cells >> (depth - level)`` are the ancestors.
        """
        X = np.asarray(X)
        cells = np.zeros(len(X), dtype=np.int64)
        groups = self._groups()
        size = min(_ROWS_LOCATED, len(X))
        floats, integers = np.empty((2, size)), np.empty((2, size), dtype=np.int64)
        for start in range(0, len(X), _ROWS_LOCATED):
            rows = X[start : start + _ROWS_LOCATED]
            out = cells[start : start + _ROWS_LOCATED]
            joined, one = floats[:, : len(rows)]
            number, spread = integers[:, : len(rows)]
            for group in groups:
                self._join(rows, group, joined, one)
                if np.isnan(np.min(joined)):
                    self._join(rows, group, joined, one, settle=True)
                number[:] = joined
                for shift, table in group.tables:
                    part = number if len(group.tables) == 1 else number >> shift & (len(table) - 1)
                    # in range by construction, so "wrap" only skips the check
                    out |= np.take(table, part, out=spread, mode="wrap")
        return cells

    def _join(self, rows, group, joined, one, settle=False):
        """Write the numbers of a group of axes into `joined`; `settle` sends NaN to the middle, else it stays."""
        for i, (axis, bits) in enumerate(zip(group.axes, group.bits, strict=True)):
            steps = self.box.column_steps(rows[:, axis], axis, 2.0**bits, one if i else joined)
            if settle:
                steps[np.isnan(steps)] = 2.0 ** (bits - 1)
            if i < len(group.axes) - 1:
                steps *= group.places[i]
            if i:
                joined += steps

    def _groups(self):
        """Join axes into numbers of few bits, and give the tables that turn them into bits of the cell number."""
        cuts = self.cuts(self.depth).tolist()
        joined: list[list[int]] = []
        for axis, bits in enumerate(cuts):
            if bits and joined and sum(cuts[a] for a in joined[-1]) + bits <= _TABLE_BITS:
                joined[-1].append(axis)
            elif bits:
                joined.append([axis])
        groups = []
        for axes in joined:
            bits = [cuts[axis] for axis in axes]
            places = [2.0 ** sum(bits[i + 1 :]) for i in range(len(axes))]
            tables = list(self._spread(axes[0], bits[0]))
            for axis in axes[1:]:
                ((_, table),), ((_, own),) = tables, self._spread(axis, cuts[axis])
                tables = [(0, (table[:, None] | own).ravel())]
            groups.append(_Group(axes, bits, places, tables))
        return groups

    def _spread(self, axis, bits):
        """Yield ``(shift, table)``: the steps of an axis, a few bits at a time, to where the Morton number has them."""
        for low in range(0, bits, _TABLE_BITS):
            values = np.arange(1 << min(_TABLE_BITS, bits - low), dtype=np.int64)
            table = np.zeros_like(values)
            for bit in range(min(_TABLE_BITS, bits - low)):
                halving = bits - 1 - (low + bit)  # 0 is the first cut of this axis
                table |= (values >> bit & 1) << (self.depth - 1 - (halving * self.box.n_features + axis))
            yield low, table

    def corners(self, cells, level):
        """Return the lower corners of cells of one level as grid coordinates, one int64 array an axis.

        Axis i has ``2**cuts(level)[i]`` steps.
        """
        n_axes, cells = self.box.n_features, np.asarray(cells, dtype=np.int64)
        rounds, table = _gather_table(n_axes)
        width = rounds * n_axes  # bits that one look-up takes apart: whole rounds over the axes
        padding = -level % width
        if level + padding > MAX_DEPTH:
            table = None
        out = []
        for axis in range(n_axes):
            coordinate = np.zeros(len(cells), dtype=np.int64)
            if table is None:
                for position in range(axis, level, n_axes):
                    coordinate = coordinate << 1 | (cells >> (level - 1 - position)) & 1
            else:
                padded = cells << padding
                for low in range(level + padding - width, -1, -width):
                    coordinate <<= rounds
                    coordinate |= np.take(table[axis], padded >> low & (len(table[axis]) - 1), mode="wrap")
                coordinate >>= self.cuts(level + padding)[axis] - self.cuts(level)[axis]
            out.append(coordinate)
        return out

    def sample(self, cells, level, rng):
        """Place one point in each of the cells listed.

        Parameters
        ----------
        cells : ndarray of shape (n_samples,), int64
            Cells of `level`; equal ones next to each other are spread evenly.
        level : int
        rng : numpy.random.Generator
            Public randomness: this is post-processing.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        cells, which = np.unique(np.asarray(cells, dtype=np.int64), return_inverse=True)
        return self.place(cells, np.full(len(cells), level), which, np.argsort(np.argsort(which, kind="stable")), rng)

    def place(self, cells, levels, which, order, rng):
        """Place one point a row, for cells of several levels at once.

        Parameters
        ----------
        cells, levels : ndarray of shape (n_cells,), int
            Distinct cells.
        which : ndarray of shape (n_samples,), int
            The index of each row's cell.
        order : ndarray of shape (n_samples,), int
            A numbering of the rows in which those of one cell follow each other: they are spread evenly.
        rng : numpy.random.Generator

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        box = self.box
        levels = np.asarray(levels, dtype=np.int64)
        sides = np.array([box.width / 2.0 ** self.cuts(level) for level in range(int(levels.max(initial=0)) + 1)]).T
        corners = np.empty((box.n_features, len(cells)))
        for level in np.unique(levels):
            where = np.flatnonzero(levels == level)
            # In a measure the cells come by level: then nothing need be gathered.
            here: Any = slice(where[0], where[-1] + 1) if where[-1] - where[0] + 1 == len(where) else where
            for axis, coordinate in enumerate(self.corners(cells[here], level)):
                corners[axis, here] = coordinate
        return place_points(box, corners, sides, levels, which, order, rng, self.spread)


@lru_cache(maxsize=16)
def _gather_table(n_axes):
    """Return (rounds, table): ``table[axis]`` maps ``rounds * n_axes`` bits of a cell number to the bits of that axis."""
    rounds = max(1, 12 // n_axes)
    width = rounds * n_axes
    if width > 12:
        return rounds, None
    codes = np.arange(1 << width)
    table = np.zeros((n_axes, 1 << width), dtype=np.int64)
    for axis in range(n_axes):
        for position in range(axis, width, n_axes):
            table[axis] = table[axis] << 1 | codes >> (width - 1 - position) & 1
    return rounds, table
