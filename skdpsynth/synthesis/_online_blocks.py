"""A stream in disjoint blocks of consecutive rows."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth.domain import Box
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.synthesis._inner import fit_quietly, seed_from

_FIRST = 16  # rows times epsilon of the first block, and rows at least
_BALANCE = 4  # rows of a block whose error is about that of its lag, as measured in benchmarks
_CAPACITY = 1024  # rows that the open block has room for at first


@dataclass(frozen=True, eq=False)
class Blocks:
    """Synthesized blocks, and the rows of the open one.

    Nothing is changed in place but rows of the buffer beyond those of any earlier state, so a state that is kept stays good.

    Attributes
    ----------
    box : Box
    container : Container
        Of the first rows.
    inner : unfitted synthesizer
    epsilon, delta : Fraction
        Of each block.
    blocks : tuple of (start, stop, fitted synthesizer)
        By rows of the stream; older ones may be gone.
    dropped : int
        Rows before this one are in no block that is kept.
    n_seen, n_open : int
        Rows so far, and those in the open block.
    _buffer : ndarray of shape (capacity, n_features), unsigned
        The open rows on the public grid: as secret as the data.
    """

    box: Any
    container: Any
    inner: Any
    epsilon: Any
    delta: Any
    blocks: tuple = ()
    dropped: int = 0
    n_seen: int = 0
    n_open: int = 0
    _buffer: Any = field(default=None, repr=False)  # rows on the public grid: as secret as the data

    def __post_init__(self):
        if self._buffer is None:
            bits = 30 if self.box.n_features == 1 else self.box.bits
            object.__setattr__(self, "box", Box(self.box.low, self.box.high, bits, self.box.whole))
            object.__setattr__(self, "_buffer", self._room(0))

    def _room(self, rows):
        return np.empty((max(rows, _CAPACITY), self.box.n_features), dtype=np.uint16 if self.box.bits <= 16 else np.uint32)

    def extended(self, X, growth, window, accountant, rng):
        """Return the state after some rows; blocks that they fill are charged and synthesized.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
        growth : float or "auto"
        window : int or None
        accountant : PrivacyAccountant
        rng : SecureBits or SeededBits
        """
        state, start = self, 0
        while start < len(X):
            size = state._size_of_open_block(growth, window)
            stop = min(len(X), start + max(size - state.n_open, 0))
            state = state._with_rows(X[start:stop])
            start = stop
            if state.n_open >= size:
                state = state._with_block(accountant, rng)
        if window is not None:
            # The last one stays: it stands in for the open block.
            kept = tuple(block for block in state.blocks[:-1] if block[1] > state.n_seen - window) + state.blocks[-1:]
            gone = state.blocks[len(state.blocks) - len(kept) - 1][1] if len(kept) < len(state.blocks) else state.dropped
            state = replace(state, blocks=kept, dropped=gone)
        return state

    def _size_of_open_block(self, growth, window):
        """Rows that fill the open block: a function of public numbers."""
        before = self.n_seen - self.n_open
        if window is not None:
            before = min(before, window)
        first = max(_FIRST, math.ceil(_FIRST / self.epsilon) if self.epsilon != math.inf else 0)
        if growth == "auto":
            d = self.box.n_features
            wanted = int(min(_BALANCE * before ** (d / (d + 1)) * float(self.epsilon) ** (-1 / (d + 1)), before / 4))
        else:
            wanted = int(min((growth - 1) * before, 2.0**62))
        return max(first, wanted)

    def _with_rows(self, X):
        buffer, end = self._buffer, self.n_open + len(X)
        if end > len(buffer):
            buffer = self._room(2 * end)
            buffer[: self.n_open] = self._buffer[: self.n_open]
        if len(X) == 1:
            buffer[self.n_open] = self._quantized_row(X[0])
        else:
            for rows, steps in self.box.chunks(X):
                buffer[self.n_open + rows.start : self.n_open + rows.stop] = steps
        return replace(self, _buffer=buffer, n_open=end, n_seen=self.n_seen + len(X))

    @np.errstate(all="ignore")  # a warning would tell of a value
    def _quantized_row(self, row):
        """What `Box.quantize` gives, without its preparations for many rows."""
        steps = (row - self.box.low) * (2.0**self.box.bits / self.box.width)
        return np.floor(np.clip(steps, 0, 2.0**self.box.bits - 1))

    def _with_block(self, accountant, rng):
        start, stop = self.n_seen - self.n_open, self.n_seen
        name = f"rows {start} to {stop - 1}"
        # Disjoint rows by public position: all blocks together cost what one of them does.
        child = accountant.child(self.epsilon, self.delta, name=name, group="blocks")
        model = clone(self.inner).set_params(
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=(self.box.low, self.box.high),
            neighboring="replace_one",
            accountant=child,
            random_state=rng.child(name).random_state(),
        )
        rows = self.container.fill(self.box.restore(self._buffer[: self.n_open]))
        fit_quietly(model, rows, SmallSampleWarning)
        child.close()
        model.set_params(accountant=None, random_state=None)
        return replace(self, blocks=(*self.blocks, (start, stop, model)), _buffer=self._room(0), n_open=0)

    def resume(self, accountant, rng):
        """Nothing here keeps a door: blocks open their own."""

    def sample(self, n_samples, first, rng):
        """Return rows like those of the stream from some row on, by the blocks that hold them; uniform ones if there is none.

        The last block, the nearest in time, stands in for the open one.

        Parameters
        ----------
        n_samples : int
        first : int
        rng : numpy.random.Generator
        """
        if not self.blocks:
            return self.box.low + self.box.width * rng.random((n_samples, self.box.n_features))
        *past, (start, _, model) = self.blocks
        blocks = [block for block in (*past, (start, self.n_seen, model)) if block[1] > first]
        upto = np.cumsum([stop - max(start, first) for start, stop, _ in blocks])
        edges = np.floor(upto * (n_samples / upto[-1]) + rng.random()).astype(np.int64)
        edges[-1] = n_samples
        counts = np.diff(np.minimum(edges, n_samples), prepend=0)
        parts = [
            np.asarray(model.sample(int(count), random_state=seed_from(rng)), dtype=float)
            for (_, _, model), count in zip(blocks, counts, strict=True)
            if count
        ]
        return rng.permutation(np.concatenate(parts))

    def __getstate__(self):
        # Rows leave memory without their order: a histogram of the grid, as the synthesizers count it.
        rows = self._buffer[: self.n_open]
        return {**vars(self), "_buffer": rows[np.lexsort(rows.T)]}

    def __setstate__(self, state):
        for key, value in state.items():
            object.__setattr__(self, key, value)
