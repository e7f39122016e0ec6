"""Partitions: cells that are halved repeatedly, cells of a lattice, and the cells nearest to given points."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from skdpsynth._serialization import is_array, require
from skdpsynth._validation import as_numeric_array, check_bool, check_generator, check_integer, check_type, is_integer, short_repr
from skdpsynth.domain import Box
from skdpsynth.frames import as_rows
from skdpsynth.measures._placement import Placement
from skdpsynth.persistence import savable

_ROWS_LOCATED = 1 << 14  # rows, or cells, at a time: the scratch stays in cache
_ROWS_AT_ONCE = 1 << 13  # ... where all axes are joined
_CODE_BITS = 12  # bits that are sorted by one look-up
_TABLE_BITS = 15  # bits that one look-up table spreads
MAX_DEPTH = 62  # a cell number is a non-negative int64
_MOST_LEVEL = 2 * MAX_DEPTH  # whole rounds over the axes may go beyond
NORMS = {"chebyshev": np.inf, "cityblock": 1.0, "euclidean": 2.0}  # the order of the norm of each metric
_ROWS_OF_CELLS = 1 << 15  # rows located in cells without a tree at a time
_MOST_CELLS = 1 << 24
_DISTANCES = 1 << 21  # held at a time
_SAME = 1e-12  # distances that differ by less, relatively, are ties


class Partition(Protocol):
    """A tree of cells, numbered so that leading bits name the ancestors: of the package, or of a caller."""

    depth: int

    def locate(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf of each row."""

    def diameters(self, level: int) -> Any:
        """Return the diameter of every cell of a level, or one for all of them."""

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Return a point in each of the cells listed."""


class _AxisGroup(NamedTuple):
    """Axes whose steps are joined into one number, ``sum(steps * place)``, and the look-ups that spread its bits."""

    axes: list
    bits: list
    places: list
    tables: list  # of (shift, table): a number wider than one table is looked up in parts


@savable
class BinaryPartition:
    """Halve a box along its axes in turn; the cells of a level are numbered along the Morton curve, leading bits naming the ancestors.

    Parameters
    ----------
    box : Box
        The public box; an axis can be halved at most ``box.bits`` times.
    depth : int
        Number of halvings from the box to a leaf; 0 to ``min(62, n_features * bits)``.
    spread : bool, default=True
        Whether `sample` spreads the points of a cell evenly (a low-discrepancy sequence) instead of drawing them independently.

    See Also
    --------
    Lattice : Cells of equal size.
    DiscreteMeasure : Weights on cells.
    PrivateMeasureMechanism : Refines such a partition.

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

    box: Box
    depth: int
    spread: bool

    def __init__(self, box: Box, depth: int, *, spread: bool = True) -> None:
        check_type("box", box, Box, "a Box, such as Box([0, 0], [1, 1])")
        check_bool("spread", spread)
        most = min(MAX_DEPTH, box.n_features * box.bits)
        if not is_integer(depth, 0, most):
            raise ValueError(f"depth must be an integer from 0 to {most}, got {short_repr(depth)}; 'auto' follows from n * epsilon.")
        self.box = box
        self.depth = int(depth)
        self.spread = spread

    def __repr__(self) -> str:
        return f"BinaryPartition(n_features={self.box.n_features}, depth={self.depth})"

    def cuts(self, level: int) -> np.ndarray:
        """Return how often each axis is halved down to `level`, shape (n_features,)."""
        return halvings_per_axis(self.box.n_features, check_integer("level", level, 0, _MOST_LEVEL))

    def diameters(self, level: int) -> float:
        """Return the diameter (chebyshev) of the cells of `level`; all of one level are congruent."""
        check_integer("level", level, 0, self.depth, "the depth of the partition is the last")
        return _diameters_by_level(self.box.width.tobytes(), self.depth)[level]

    def locate(self, X: np.ndarray, *, finite: bool = False) -> np.ndarray:
        """Return the leaf of each row, shape (n_samples,), int64: ``cells >> (depth - level)`` are the ancestors.

        Rows outside the box count as clipped to it. Give `finite` as True if all are known to be, so that no test for NaN is needed.
        """
        X, finite = as_rows(X, self.box.n_features), check_bool("finite", finite)
        groups, cells = _axis_groups(self.box.n_features, self.depth), np.zeros(len(X), dtype=np.int64)
        if len(groups) == 1 and len(groups[0].axes) == self.box.n_features > 2:
            # All axes are one number: one pass over the rows as they lie, and one look-up.
            scratch = np.zeros((min(_ROWS_AT_ONCE, -(-len(X) // 64) * 64), len(groups[0].axes)))  # `Box.steps` works on tiles of 64 rows
            (_, table), bits, places = *groups[0].tables, np.array(groups[0].bits), np.array(groups[0].places)
            for start in range(0, len(X), _ROWS_AT_ONCE):
                steps = self.box.steps(X[start : start + _ROWS_AT_ONCE], bits, scratch, finite)
                # Whole numbers below 2**15: exact, in whatever order BLAS adds them.
                np.take(table, (steps @ places).astype(np.int64), out=cells[start : start + len(steps)], mode="wrap")
            return cells
        size = min(_ROWS_LOCATED, len(X))
        floats, integers = np.empty((2, size)), np.empty((2, size), dtype=np.int64)
        for start in range(0, len(X), _ROWS_LOCATED):
            rows = X[start : start + _ROWS_LOCATED]
            out = cells[start : start + _ROWS_LOCATED]
            joined, one = floats[:, : len(rows)]
            number, spread = integers[:, : len(rows)]
            for group in groups:
                self._join(rows, group, joined, one)
                if not finite and np.isnan(np.min(joined)):
                    self._join(rows, group, joined, one, settle=True)
                number[:] = joined
                for shift, table in group.tables:
                    part = number if len(group.tables) == 1 else number >> shift & (len(table) - 1)
                    # in range by construction, so "wrap" only skips the check
                    out |= np.take(table, part, out=spread, mode="wrap")
        return cells

    def _join(self, rows: np.ndarray, group: _AxisGroup, joined: np.ndarray, one: np.ndarray, settle: bool = False) -> None:
        """Write the numbers of a group of axes into `joined`; `settle` sends NaN to the middle, else it stays."""
        for i, (axis, bits) in enumerate(zip(group.axes, group.bits, strict=True)):
            steps = self.box.column_steps(rows[:, axis], axis, 2.0**bits, one if i else joined)
            if settle:
                steps[np.isnan(steps)] = 2.0 ** (bits - 1)
            if i < len(group.axes) - 1:
                steps *= group.places[i]
            if i:
                joined += steps

    def corners(self, cells: np.ndarray, level: int) -> list[np.ndarray]:
        """Return the lower corners of cells of one level as grid coordinates, one int64 array an axis.

        Axis i has ``2**cuts(level)[i]`` steps.
        """
        codes, cuts = self._sort_bits_by_axis(_check_cells(cells, level), level), self.cuts(level)
        return [codes >> int(cuts[axis + 1 :].sum()) & (1 << int(bits)) - 1 for axis, bits in enumerate(cuts)]

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Place one point in each of the `cells` of a `level`; equal ones next to each other are spread evenly.

        Return an array of shape (n_samples, n_features). The randomness of `rng` is public: this is post-processing.
        """
        check_integer("level", level, 0, self.depth, "the depth of the partition is the last")
        check_generator(rng)
        cells, which = np.unique(_check_cells(cells, level), return_inverse=True)
        return self.placement(cells, np.full(len(cells), level)).rows(which, rng)

    def placement(self, cells: np.ndarray, levels: np.ndarray) -> Placement:
        """Return the `Placement` that puts points into cells of several levels at once; both arrays have shape (n_cells,)."""
        cells, levels = as_numeric_array(cells, "cells", whole=True), as_numeric_array(levels, "levels", whole=True)
        if cells.shape != levels.shape or (levels < 0).any() or (levels > MAX_DEPTH).any() or (cells < 0).any() or (cells >> levels).any():
            raise ValueError(f"levels must hold the level of each of the cells, from 0 to {MAX_DEPTH}, and cells numbers below 2**level.")
        finest = int(levels.max(initial=0))
        cuts = self.cuts(finest)
        sides = 2.0 ** (cuts[:, None] - np.array([self.cuts(level) for level in range(finest + 1)]).T)
        # Cells stand at their first descendant of the finest level, so that one grid serves all.
        codes = self._sort_bits_by_axis(cells << (finest - levels), finest)
        return Placement.of(self.box, codes, cuts.tolist(), self.box.width / 2.0**cuts, levels, sides, self.spread)

    def _sort_bits_by_axis(self, cells: np.ndarray, level: int) -> np.ndarray:
        """Return the coordinates of lower corners, as bits of one number, axis after axis, the first one highest."""
        n_axes, ends = self.box.n_features, np.cumsum(self.cuts(level)[::-1])[::-1]
        targets = [int(ends[position % n_axes]) - 1 - position // n_axes for position in range(level)][::-1]
        tables = []
        for low in range(0, level, _CODE_BITS):
            part = targets[low : low + _CODE_BITS]
            values = np.arange(1 << len(part))
            tables.append((low, sum(((values >> bit & 1) << target for bit, target in enumerate(part)), np.zeros_like(values))))
        codes = np.zeros_like(cells)
        for start in range(0, len(cells), _ROWS_LOCATED):
            some = slice(start, start + _ROWS_LOCATED)
            for low, table in tables:
                codes[some] |= np.take(table, cells[some] >> low & (len(table) - 1), mode="wrap")
        return codes


def _check_cells(cells: ArrayLike, level: int) -> np.ndarray:
    """Return cell numbers of a level, or raise."""
    level = check_integer("level", level, 0, MAX_DEPTH)
    numbers = as_numeric_array(cells, "cells", whole=True)
    if ((numbers < 0) | (numbers >> level > 0)).any():
        raise ValueError(f"cells must be cell numbers of level {level}, integers from 0 to {2**level - 1}, but some are not.")
    return numbers


def halvings_per_axis(n_axes: int, level: int) -> np.ndarray:
    """Return how often each of some axes is halved down to a level."""
    return np.maximum(0, (level - np.arange(n_axes) + n_axes - 1) // n_axes)


@lru_cache(maxsize=64)
def _diameters_by_level(width: bytes, depth: int) -> tuple[float, ...]:
    sides = np.frombuffer(width)
    return tuple(float(np.max(sides / 2.0 ** halvings_per_axis(len(sides), level))) for level in range(depth + 1))


@lru_cache(maxsize=16)
def _axis_groups(n_axes: int, depth: int) -> list[_AxisGroup]:
    """Join axes into numbers of few bits, with the tables that turn them into bits of the cell number."""
    cuts = halvings_per_axis(n_axes, depth).tolist()
    joined: list[list[int]] = []
    for axis, bits in enumerate(cuts):
        if bits and joined and sum(cuts[a] for a in joined[-1]) + bits <= _TABLE_BITS:
            joined[-1].append(axis)
        elif bits:
            joined.append([axis])
    groups = []
    for axes in joined:
        bits = [cuts[axis] for axis in axes]
        tables = list(_spread_tables(axes[0], bits[0], n_axes, depth))
        for axis in axes[1:]:
            ((_, table),), ((_, own),) = tables, _spread_tables(axis, cuts[axis], n_axes, depth)
            tables = [(0, (table[:, None] | own).ravel())]
        groups.append(_AxisGroup(axes, bits, [2.0 ** sum(bits[i + 1 :]) for i in range(len(axes))], tables))
    return groups


def _spread_tables(axis: int, bits: int, n_axes: int, depth: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield ``(shift, table)``: the table moves a few bits of the steps of an axis to their places in the Morton number."""
    for low in range(0, bits, _TABLE_BITS):
        values = np.arange(1 << min(_TABLE_BITS, bits - low), dtype=np.int64)
        table = np.zeros_like(values)
        for bit in range(min(_TABLE_BITS, bits - low)):
            halving = bits - 1 - (low + bit)  # 0 is the first cut of this axis
            table |= (values >> bit & 1) << (depth - 1 - (halving * n_axes + axis))
        yield low, table


@savable
class Lattice:
    """A box cut into ``shape[i]`` equal parts along axis i; all of its cells, or some.

    Parameters
    ----------
    box : Box
        The public box.
    shape : sequence of int
        Parts of each axis, at least 1; at most 2**24 cells in all.
    keep : array-like of bool of length ``prod(shape)``, default=None
        Which cells to keep, the last axis fastest. Rows of the others belong to the nearest cell that is kept (euclidean), so that every
        record has a cell. None: all.

    Attributes
    ----------
    n_cells : int
    coordinates : ndarray of shape (n_cells, n_features), int64
        Place of each cell along each axis.

    See Also
    --------
    BinaryPartition : Cells of a tree.
    SignedMeasureMechanism : Counts the cells of a lattice.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import Box
    >>> from skdpsynth.measures import Lattice
    >>> lattice = Lattice(Box([0, 0], [1, 1]), (3, 2))
    >>> lattice.locate(np.array([[0.9, 0.1], [0.1, 0.9]]))
    array([4, 1])
    >>> lattice.positions[4]
    array([0.83333333, 0.25      ])
    """

    def __init__(self, box: Box, shape: Any, *, keep: ArrayLike | None = None) -> None:
        check_type("box", box, Box, "a Box, such as Box([0, 0], [1, 1])")
        shape = tuple(shape) if isinstance(shape, list | tuple) or (isinstance(shape, np.ndarray) and shape.ndim == 1) else (shape,)
        if len(shape) != box.n_features or not all(is_integer(parts, 1, _MOST_CELLS) for parts in shape):
            raise ValueError(f"shape must hold a positive integer for each of {box.n_features} features, got {short_repr(shape)}.")
        size = math.prod(map(int, shape))
        if size > _MOST_CELLS:
            raise ValueError(f"shape must make at most 2**24 cells, got {size:.3g}; use fewer parts an axis.")
        self.box = box
        self.shape = tuple(int(parts) for parts in shape)
        self.coordinates = np.empty((size, box.n_features), dtype=np.int64)
        rest = np.arange(size)
        for axis in reversed(range(box.n_features)):
            rest, self.coordinates[:, axis] = np.divmod(rest, self.shape[axis])
        self._cell_of = None
        if keep is not None:
            keep = as_numeric_array(keep, "keep", None)
            if keep.dtype != bool or keep.shape != (size,) or not keep.any():
                raise ValueError(f"keep must hold {size} booleans, one a cell, at least one True, got {keep.dtype} of shape {keep.shape}.")
            kept, sides = self.coordinates[keep], self.sides / self.sides.max()
            self._cell_of = cKDTree(kept * sides).query(self.coordinates * sides)[1]
            self._cell_of[keep] = np.arange(len(kept))
            self.coordinates = kept
        self.n_cells = len(self.coordinates)

    def __repr__(self) -> str:
        return f"Lattice(shape={self.shape}, n_cells={self.n_cells})"

    def _check_loaded(self) -> None:
        """Refuse cells that a row could not be in: it would raise, and so be told of."""
        size, cell_of = math.prod(self.shape), self._cell_of
        require(len(self.shape) == self.box.n_features and is_array(self.coordinates, "i", self.n_cells, self.box.n_features))
        require(size == self.n_cells if cell_of is None else is_array(cell_of, "i", size))
        require(cell_of is None or (cell_of.min() >= 0 and cell_of.max() < self.n_cells))

    @property
    def sides(self) -> np.ndarray:
        """Side lengths of a cell, shape (n_features,)."""
        return self.box.width / self.shape

    @property
    def positions(self) -> np.ndarray:
        """Centers of the cells, shape (n_cells, n_features)."""
        return self.box.low + (self.coordinates + 0.5) * self.sides

    def locate(self, X: np.ndarray) -> np.ndarray:
        """Return the cell of each row, shape (n_samples,), int64; rows outside the box count as clipped to it, NaN as the midpoint."""
        X = as_rows(X, self.box.n_features)
        cells = np.zeros(len(X), dtype=np.int64)
        scratch = np.empty(min(_ROWS_OF_CELLS, len(X)))
        for start in range(0, len(X), _ROWS_OF_CELLS):
            rows, out = X[start : start + _ROWS_OF_CELLS], cells[start : start + _ROWS_OF_CELLS]
            for axis, parts in enumerate(self.shape):
                steps = self.box.column_steps(rows[:, axis], axis, parts, scratch[: len(rows)])
                steps[np.isnan(steps)] = parts // 2
                out *= parts
                out += steps.astype(np.int64)
        return cells if self._cell_of is None else self._cell_of[cells]

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Place one point in each of the `cells`; equal ones next to each other are spread evenly.

        Return an array of shape (n_samples, n_features). There is one level, so `level` is ignored; the randomness of `rng` is public.
        """
        check_generator(rng)
        cells, which = np.unique(as_numeric_array(cells, "cells", whole=True), return_inverse=True)
        return self.placement(cells, np.zeros(len(cells), dtype=np.int8)).rows(which, rng)

    def placement(self, cells: np.ndarray, levels: np.ndarray) -> Placement:
        """Return the `Placement` that puts points into cells of shape (n_cells,); `levels` is ignored, as there is one level."""
        cells = as_numeric_array(cells, "cells", whole=True)
        if ((cells < 0) | (cells >= self.n_cells)).any():
            raise ValueError(f"cells must be cell numbers, integers from 0 to {self.n_cells - 1}, but some are not.")
        bits = [(parts - 1).bit_length() for parts in self.shape]
        codes = np.zeros(len(cells), dtype=np.int64)
        for coordinate, width in zip(self.coordinates[cells].T, bits, strict=True):
            codes = codes << width | coordinate
        return Placement.of(self.box, codes, bits, self.sides, np.zeros(len(cells), dtype=np.int8), np.ones((len(bits), 1)), spread=True)


@savable
class NearestCells:
    """Cells of the rows that are nearest to each of the given points, the first of them where several are; rows are clipped to the box."""

    def __init__(self, box: Box, positions: np.ndarray, metric: str) -> None:
        self.__setstate__({"box": box, "positions": positions, "metric": metric})

    def __getstate__(self) -> dict[str, Any]:
        return {"box": self.box, "positions": self.positions, "metric": self.metric}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.box, self.positions, self.metric = box, positions, _ = state["box"], state["positions"], state["metric"]
        self.n_cells = len(positions)
        # Within a power of two of the unit box: no square overflows, whatever the bounds.
        self._scale = 2.0 ** -np.rint(np.log2(box.width.max()))
        self._places = (positions - box.low) * self._scale
        self._tree = cKDTree(self._places)

    @np.errstate(all="ignore")  # a warning would reveal a value
    def locate(self, X: np.ndarray) -> np.ndarray:
        """Return the cell of each row, shape (n_samples,), int64: a function of that row alone."""
        cells = np.empty(len(X), dtype=np.int64)
        p = NORMS[self.metric]
        for start in range(0, len(X), _ROWS_OF_CELLS):
            rows = np.array(X[start : start + _ROWS_OF_CELLS], dtype=float)
            rows = np.clip(np.where(np.isnan(rows), self.box.midpoint, rows), self.box.low, self.box.high)
            rows = (rows - self.box.low) * self._scale
            distances, nearest = self._tree.query(rows, k=[1, 2], p=p)
            limits = distances[:, 0] * (1 + _SAME)
            tied = np.flatnonzero(distances[:, 1] <= limits)
            nearest = nearest[:, 0]
            if len(tied):
                places, which = np.unique(rows[tied], axis=0, return_inverse=True)
                size, firsts = max(1, _DISTANCES // self.n_cells), []
                for first in range(0, len(places), size):
                    apart = cdist(places[first : first + size], self._places, self.metric)
                    firsts.append(np.argmax(apart <= apart.min(axis=1, keepdims=True) * (1 + _SAME), axis=1))
                nearest[tied] = np.concatenate(firsts)[which.ravel()]
            cells[start : start + _ROWS_OF_CELLS] = nearest
        return cells

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Return the point of each cell; `level` and `rng` are ignored."""
        return self.positions[cells]
