"""Partitions without a tree: the cells of a lattice, and the cells nearest to given points."""

import math
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from skdpsynth._validation import as_numeric_array, check_generator, check_type, is_integer, short_repr
from skdpsynth.domain import Box
from skdpsynth.frames import as_rows
from skdpsynth.measures._placement import Placement, pack_coordinates
from skdpsynth.persistence import savable

NORMS = {"chebyshev": np.inf, "cityblock": 1.0, "euclidean": 2.0}  # the order of the norm of each metric
_ROWS = 1 << 15  # rows located at a time: the scratch stays in cache
_MOST_CELLS = 1 << 24
_DISTANCES = 1 << 21  # held at a time
_SAME = 1e-12  # distances that differ by less, relatively, are ties


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

    Raises
    ------
    ValueError
        If `shape` does not fit the box, or no cell is kept.

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

    def __init__(self, box: Any, shape: Any, *, keep: Any = None) -> None:
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
                raise ValueError(
                    f"keep must hold {size} booleans, one a cell and at least one True, got {keep.dtype} of shape {keep.shape}."
                )
            kept, sides = self.coordinates[keep], self.sides / self.sides.max()
            self._cell_of = cKDTree(kept * sides).query(self.coordinates * sides)[1]
            self._cell_of[keep] = np.arange(len(kept))
            self.coordinates = kept
        self.n_cells = len(self.coordinates)

    def __repr__(self) -> str:
        return f"Lattice(shape={self.shape}, n_cells={self.n_cells})"

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
        scratch = np.empty(min(_ROWS, len(X)))
        for start in range(0, len(X), _ROWS):
            rows, out = X[start : start + _ROWS], cells[start : start + _ROWS]
            for axis, parts in enumerate(self.shape):
                steps = self.box.column_steps(rows[:, axis], axis, parts, scratch[: len(rows)])
                steps[np.isnan(steps)] = parts // 2
                out *= parts
                out += steps.astype(np.int64)
        return cells if self._cell_of is None else self._cell_of[cells]

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Place one point in each of the cells listed.

        Parameters
        ----------
        cells : ndarray of shape (n_samples,), int64
            Equal ones next to each other are spread evenly.
        level : int
            Ignored: there is one level.
        rng : numpy.random.Generator
            Public randomness: this is post-processing.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
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
        codes = pack_coordinates(self.coordinates[cells].T, bits, len(cells))
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
        for start in range(0, len(X), _ROWS):
            rows = np.array(X[start : start + _ROWS], dtype=float)
            rows = np.clip(np.where(np.isnan(rows), self.box.midpoint, rows), self.box.low, self.box.high)
            rows = (rows - self.box.low) * self._scale
            distances, nearest = self._tree.query(rows, k=[1, 2], p=p)
            limits = distances[:, 0] * (1 + _SAME)
            tied = np.flatnonzero(distances[:, 1] <= limits)
            nearest = nearest[:, 0]
            if len(tied):
                places, which = np.unique(rows[tied], axis=0, return_inverse=True)
                nearest[tied] = self._first_of_nearest(places)[which.ravel()]
            cells[start : start + _ROWS] = nearest
        return cells

    def _first_of_nearest(self, rows: np.ndarray) -> np.ndarray:
        cells = np.empty(len(rows), dtype=np.int64)
        size = max(1, _DISTANCES // self.n_cells)
        for start in range(0, len(rows), size):
            distances = cdist(rows[start : start + size], self._places, self.metric)
            cells[start : start + size] = np.argmax(distances <= distances.min(axis=1, keepdims=True) * (1 + _SAME), axis=1)
        return cells

    def sample(self, cells: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
        """Return the point of each cell; `level` and `rng` are ignored."""
        return self.positions[cells]
