"""Rows of a sample in blocks that can be made one by one, or in threads."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpsynth._parallel import run_all
from skdpsynth.measures._placement import CellList, PointNumbers

_DECK = 1 << 24  # points listed at a time, 4 bytes each
_ROWS = 1 << 14  # of a block: all facts about its points stay in a cache
_LEAST_ROWS = 1 << 10
_CELLS = 1 << 19  # of rows times features in a block, where rows are wide
_SLAB = 16  # blocks that are looked up together: their points are neighbors in memory


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

    def __init__(self, partition: Any, cells: np.ndarray, levels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
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
        X = np.empty((self.n_samples, self.placement.box.n_features))
        run_all((partial(self._write_slab, slab, X) for slab in self._slabs()), n_jobs)
        return X

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows, a block at a time."""
        for slab in self._slabs():
            rng = self._rng(slab.start + 1)
            if self.placement is None:
                yield from (self._sample_block(slab, i, rng) for i in slab.order)
                continue
            near = self.placement.near(slab.which)
            for i in slab.order:
                X = np.empty((slab.sizes[i], self.placement.box.n_features))
                self._write(slab, i, near[i], rng, X)
                yield X

    def _slabs(self) -> Iterator[_Slab]:
        start, rng = 0, self._rng(0)
        size = _ROWS if self.placement is None else max(_LEAST_ROWS, min(_ROWS, _CELLS // self.placement.box.n_features))
        n_decks = -(-self.n_samples // _DECK)
        for deck in rng.permutation(n_decks).tolist():
            n_points = -(-(self.n_samples - deck) // n_decks)
            n_blocks = -(-n_points // size)
            width = min(_SLAB, n_blocks)
            n_blocks = -(-n_blocks // width) * width
            which = self._listed(deck, n_decks, -n_points % n_blocks).reshape(-1, n_blocks)
            for first in rng.permutation(np.arange(0, n_blocks, width)).tolist():
                sizes = [-(-(n_points - i) // n_blocks) for i in range(first, first + width)]
                order = rng.permutation(width).tolist()
                here = which[:, first : first + width]
                yield _Slab(start, here, sizes, deck + n_decks * first, n_decks, n_decks * n_blocks, order)
                start += sum(sizes)

    def _listed(self, deck: int, n_decks: int, beyond: int) -> np.ndarray:
        """Return the cells of every n-th point, n = `n_decks`, from number `deck` on; the last point is repeated `beyond` times."""
        # (e - deck) / n_decks, rounded up, is how many of these numbers are below e.
        upto = self.upto if n_decks == 1 else (self.upto + (n_decks - 1 - deck)) // n_decks
        counts = np.diff(upto, prepend=0)
        counts[-1] += beyond
        return np.repeat(np.arange(len(upto), dtype=np.int32), counts)

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

    def _sample_block(self, slab: _Slab, i: int, rng: np.random.Generator) -> np.ndarray:
        which = slab.which[: slab.sizes[i], i]
        cells, levels = self.cells[which], self.levels[which]
        rows = [self.partition.sample(cells[levels == level], level, rng) for level in np.unique(levels).tolist()]
        return np.take(np.concatenate(rows), rng.permutation(len(cells)), axis=0)
