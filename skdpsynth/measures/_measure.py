"""Probability measures on the cells of a partition, and samples of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skdpsynth._parallel import run_all
from skdpsynth._serialization import is_array, require
from skdpsynth._text import html_table
from skdpsynth._validation import as_numeric_array, check_generator, check_integer, check_memory
from skdpsynth.measures._partition import Partition
from skdpsynth.measures._placement import CellList, PointNumbers
from skdpsynth.persistence import savable

_DECK = 1 << 24  # points listed at a time, 4 bytes each
_ROWS = 1 << 14  # of a block: all facts about its points stay in a cache
_LEAST_ROWS = 1 << 10
_CELLS = 1 << 19  # of rows times features in a block, where rows are wide
_SLAB = 16  # blocks that are looked up together: their points are neighbors in memory
_ROUNDING = 1e-6  # of the sum of weights
_MOST_SAMPLES = 1 << 40  # more than any memory holds
_MOST_SHOWN = 5  # cells listed in a notebook


class _Slab(NamedTuple):
    """Neighboring blocks of a deck."""

    start: int  # row of the sample
    which: np.ndarray  # cells of the points, shape (n_points, n_blocks); the last may be beyond a block's end
    sizes: list[int]
    number: int  # of the first point of the first block in the whole sample
    to_block: int  # ... and from one block to the next
    to_point: int  # ... and from one point of a block to the next
    order: list[int]  # of the blocks


class SampleBlocks:
    """Points of cells, in an order along a curve, dealt in turn to blocks as cards are to players, and shuffled within each.

    So all blocks have the same number of points up to one, and of the points of each run of cells too: a block is an even part of the
    sample. Which of the blocks begins is random, hence a point is as likely to stand in one place as in any other. A block knows its points
    by itself and has random bits of its own, so that blocks can be made in any order, and in threads.
    """

    def __init__(self, partition: Partition, cells: np.ndarray, levels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        self.partition, self.cells, self.levels = partition, cells, levels
        self.upto = np.cumsum(counts)
        self.n_samples = int(self.upto[-1]) if len(counts) else 0
        # A partition of the caller's own has only a method that samples, which need not be safe in threads.
        self.placement = partition.placement(cells, levels) if hasattr(partition, "placement") else None
        self.entropy = rng.integers(2**32, size=4).tolist()
        self.offsets: Any = None if self.placement is None else self.placement.offsets(rng)

    def rows(self, n_jobs: int | None) -> np.ndarray:
        if self.placement is None:
            return np.concatenate(list(self.blocks()))
        check_memory("n_samples", self.n_samples, 8 * self.n_samples * self.placement.box.n_features)
        X = np.empty((self.n_samples, self.placement.box.n_features))
        run_all((partial(self._write_slab, slab, X) for slab in self._slabs()), n_jobs)
        return X

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows, a block at a time."""
        for slab in self._slabs():
            rng = self._rng(slab.start + 1)
            if self.placement is None:
                for i in slab.order:
                    which = slab.which[: slab.sizes[i], i]
                    cells, levels = self.cells[which], self.levels[which]
                    rows = [self.partition.sample(cells[levels == level], level, rng) for level in np.unique(levels).tolist()]
                    yield np.take(np.concatenate(rows), rng.permutation(len(cells)), axis=0)
                continue
            near = self.placement.near(slab.which)
            for i in slab.order:
                X = np.empty((slab.sizes[i], self.placement.box.n_features))
                self._write(slab, i, near[i], rng, X)
                yield X

    def _slabs(self) -> Iterator[_Slab]:
        start, rng, n_decks = 0, self._rng(0), -(-self.n_samples // _DECK)
        size = _ROWS if self.placement is None else max(_LEAST_ROWS, min(_ROWS, _CELLS // self.placement.box.n_features))
        for deck in rng.permutation(n_decks).tolist():
            n_points = -(-(self.n_samples - deck) // n_decks)
            n_blocks = -(-n_points // size)
            width = min(_SLAB, n_blocks)
            n_blocks = -(-n_blocks // width) * width
            # The cells of every n-th point, n = n_decks, from number `deck` on: (e - deck) / n, rounded up, of these are below e.
            counts = np.diff(self.upto if n_decks == 1 else (self.upto + (n_decks - 1 - deck)) // n_decks, prepend=0)
            counts[-1] += -n_points % n_blocks  # the last point is repeated to the end
            which = np.repeat(np.arange(len(counts), dtype=np.int32), counts).reshape(-1, n_blocks)
            for first in rng.permutation(np.arange(0, n_blocks, width)).tolist():
                sizes = [-(-(n_points - i) // n_blocks) for i in range(first, first + width)]
                order = rng.permutation(width).tolist()
                yield _Slab(start, which[:, first : first + width], sizes, deck + n_decks * first, n_decks, n_decks * n_blocks, order)
                start += sum(sizes)

    def _rng(self, seed: int) -> np.random.Generator:
        return np.random.default_rng([*self.entropy, seed])

    def _write_slab(self, slab: _Slab, X: np.ndarray) -> None:
        assert self.placement is not None
        near, start, rng = self.placement.near(slab.which), slab.start, self._rng(slab.start + 1)
        for i in slab.order:
            self._write(slab, i, near[i], rng, X[start : start + slab.sizes[i]])
            start += slab.sizes[i]

    def _write(self, slab: _Slab, i: int, near: CellList, rng: np.random.Generator, out: np.ndarray) -> None:
        assert self.placement is not None
        order, numbers = rng.permutation(len(out)), PointNumbers(slab.number + i * slab.to_block, slab.to_point)
        near.write(out, order, numbers, self.offsets if self.placement.spread else self.placement.offsets(rng))


@savable
@dataclass(frozen=True, eq=False, repr=False)
class DiscreteMeasure:
    """Weights on disjoint cells of a partition, which may lie on several levels.

    Cells are listed by level, and those of one level along the curve.

    Attributes
    ----------
    partition : object with the partition protocol
    cells : ndarray of shape (n_cells,), int64
        Cell numbers, each within its level.
    levels : ndarray of shape (n_cells,), int8
    weights : ndarray of shape (n_cells,)
        Probabilities; they sum to 1.

    See Also
    --------
    BinaryPartition : Where the cells come from.
    PrivateMeasureMechanism : Makes one from rows, privately.
    skdpsynth.measures.nearest_probability_measure : Makes weights of signed ones.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import Box
    >>> from skdpsynth.measures import BinaryPartition, DiscreteMeasure
    >>> partition = BinaryPartition(Box([0], [1]), depth=2)
    >>> measure = DiscreteMeasure.from_mass(partition, np.array([0, 3]), np.array([2, 2]), np.array([30.0, 10.0]))
    >>> measure.weights
    array([0.75, 0.25])
    >>> measure.sample(8, np.random.default_rng(0)).shape
    (8, 1)
    """

    partition: Any
    cells: np.ndarray
    levels: np.ndarray
    weights: np.ndarray

    def _check_loaded(self) -> None:
        n_cells, n_kept = len(self.cells), getattr(self.partition, "n_cells", None)  # of one level; else those of level l have l bits
        require(is_array(self.cells, "i", n_cells) and is_array(self.levels, "i", n_cells) and is_array(self.weights, "f", n_cells))
        require(self.weights.min() >= 0 and abs(self.weights.sum() - 1) < 1e-6 and self.levels.min() >= 0 and self.cells.min() >= 0)
        require(self.levels.max() <= (self.partition.depth if n_kept is None else 0))
        require(np.all(self.cells >> self.levels.astype(np.int64) == 0) if n_kept is None else self.cells.max() < n_kept)

    def __repr__(self) -> str:
        return f"DiscreteMeasure(partition={type(self.partition).__name__}, n_cells={self.n_cells}, depth={self.levels.max(initial=0)})"

    def _repr_html_(self) -> str:
        heaviest = np.argsort(-self.weights, kind="stable")[:_MOST_SHOWN]
        rows = [(self.levels[cell], self.cells[cell], f"{self.weights[cell]:.4g}") for cell in heaviest]
        more = f"The {len(rows)} heaviest cells." if len(rows) < self.n_cells else ""
        page = "api/generated/skdpsynth.measures.DiscreteMeasure.html"
        return html_table(repr(self), rows, page, heads=("level", "cell", "weight"), more=more)

    @classmethod
    def from_mass(cls, partition: Partition, cells: ArrayLike, levels: ArrayLike, mass: ArrayLike) -> "DiscreteMeasure":
        """Normalize non-negative `mass` on disjoint `cells` of some `levels` to a measure (no mass: uniform on the whole space)."""
        cells, levels = as_numeric_array(cells, "cells", whole=True), as_numeric_array(levels, "levels", whole=True)
        mass = np.asarray(as_numeric_array(mass, "mass"), dtype=float)
        if not len(cells) == len(levels) == len(mass):
            raise ValueError(f"cells, levels and mass must be of one length, got {len(cells)}, {len(levels)} and {len(mass)}.")
        with np.errstate(all="ignore"):
            if not np.isfinite(mass.sum()):
                raise ValueError("mass must be finite, and so must its sum; divide it by its largest number.")
        n_kept = np.count_nonzero(mass > 0)
        if not n_kept:
            return cls(partition, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int8), np.ones(1))
        if n_kept < len(mass):
            keep = np.flatnonzero(mass > 0)
            cells, levels, mass = cells[keep], levels[keep], mass[keep]
        return cls(partition, cells.astype(np.int64, copy=False), levels.astype(np.int8, copy=False), mass / mass.sum())

    @property
    def n_cells(self) -> int:
        """Number of cells that have weight."""
        return len(self.cells)

    def counts(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Round the weights to whole points, `n_samples` in all, by systematic sampling along the curve.

        Every run of cells along the curve, so every ancestor too, gets its weight times `n_samples` up to less than one point.
        """
        n_samples = _check_n_samples(n_samples, rng)
        order = self._along_curve()
        counts = np.empty(self.n_cells, dtype=np.int64)
        counts[order] = self._counts_along(order, n_samples, rng)
        return counts

    def _along_curve(self) -> np.ndarray:
        """Return the order of the cells along the curve, whatever their levels."""
        depth = int(self.levels.max(initial=0))
        return np.argsort(self.cells << (depth - self.levels.astype(np.int64)), kind="stable")

    def _counts_along(self, order: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        edges = np.cumsum(self.weights[order])
        edges *= n_samples / edges[-1]
        edges -= rng.random()
        # Points sit at the whole numbers 0, ..., n_samples - 1 after a common random shift.
        np.floor(edges, out=edges)
        upto = edges.astype(np.int64)
        upto += 1
        np.clip(upto, 0, n_samples, out=upto)
        upto[-1] = n_samples
        return np.diff(upto, prepend=0)

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> np.ndarray:
        """Draw exactly `n_samples` rows, in random order, shape (n_samples, n_features); sampling a released measure costs no privacy.

        They do not depend on the number of threads, `n_jobs`; None: 1, or as set by ``joblib.parallel_config``.
        """
        check_memory("n_samples", n_samples, 8 * check_integer("n_samples", n_samples))
        return self._deal(n_samples, rng).rows(n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Return an iterator of the rows of `sample` under the same `rng`, in blocks: memory does not grow with `n_samples`.

        The number of points of each cell is decided for all blocks together, and each block has an even share of each run of cells.
        """
        return self._deal(n_samples, rng).blocks()

    def _deal(self, n_samples: int, rng: np.random.Generator) -> SampleBlocks:
        n_samples = _check_n_samples(n_samples, rng)
        order = self._along_curve()
        counts = self._counts_along(order, n_samples, rng)
        some = np.flatnonzero(counts)
        order = order[some]
        return SampleBlocks(self.partition, self.cells[order], self.levels[order], counts[some], rng)


def _check_n_samples(n_samples: object, rng: object) -> int:
    check_generator(rng)
    return check_integer("n_samples", n_samples, 0, _MOST_SAMPLES)
