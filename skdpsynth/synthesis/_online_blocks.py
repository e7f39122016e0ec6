"""A stream in disjoint blocks of time: of consecutive rows, or of ticks."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth._state_validation import is_of_type, require
from skdpsynth.exceptions import BudgetExceededError, LedgerError
from skdpsynth.fitting import Budget, Facts, fit_part
from skdpsynth.frames import concatenate_batches, n_rows_of, take_rows
from skdpsynth.persistence import savable
from skdpsynth.privacy import check_epsilon
from skdpsynth.synthesis._joining import JoinableSynthesizer
from skdpsynth.synthesis._online_draws import BlockShare, ConditionalRows
from skdpsynth.synthesis._online_lengths import balanced_length, first_length, grown_length, length_until_horizon
from skdpsynth.synthesis._online_rows import MixedRows, NumericRows, buffer_capacity
from skdpsynth.synthesis._sampling import BATCH

_GROWTH = 1.25  # of time over a block, where blocks are not joined
_PARTS = 4  # of a block, by which it weighs in a model of all that takes long to make
_MAX_UNIONS = 2  # models of all blocks that are kept
_GROUP = "blocks"
_BLOCK_NAME = re.compile(r"(?:rows|ticks) \d+ to (\d+)")


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """Synthesized blocks, and the rows of the open one.

    Rows that come make a new state, and the one before stays good: nothing that it shows changes. What all states of a stream share is
    `charged`, so that it outlives a state that was given up because something broke in.

    Time is counted in rows where their number is public, and a row more shifts all that follow. Where it is private, time is counted in
    ticks, each with any number of rows. Then blocks end at ticks that follow from the number of ticks and from what was released of the
    blocks before. So for each outcome of those a row is in the block of its tick, whatever other rows came: a row more or less changes one
    factor of the joint law of all outcomes, and that by the loss of one block.

    Attributes
    ----------
    kept : Points or Columns
        How rows wait.
    inner : unfitted synthesizer
    epsilon, delta : Fraction
        Of each block.
    rows_per_unit : int
        The most rows of one unit in the whole stream.
    in_ticks : bool
        Whether time is counted in ticks, and the number of rows is private.
    least : int
        Rows of a block at least, where their number is public.
    blocks : tuple of (start, stop, fitted synthesizer)
        By time; older ones may be gone.
    rates : tuple of float
        Of each block, how many rows a unit of time has: 1, or what was released of it.
    left : float
        Rows that are in no block that is kept, as far as is known.
    dropped : int
        What came before this time is in no block that is kept.
    n_seen, begun : int
        Time so far, and at the start of the open block.
    n_open : int
        Rows in the open block: private where time is counted in ticks.
    charged : list of (start, stop)
        Times that were charged, whether or not their block was fitted then; but for those that the window left behind.
    unions : dict
        Models of all blocks together, by their times: made when a sample needs them, and never saved.
    _buffer : list of ndarray
        The open rows: as secret as the data.
    """

    kept: Any
    inner: Any
    epsilon: Any
    delta: Any
    rows_per_unit: int = 1
    in_ticks: bool = False
    least: int = 0
    blocks: tuple = ()
    rates: tuple = ()
    left: float = 0.0
    dropped: int = 0
    n_seen: int = 0
    begun: int = 0
    n_open: int = 0
    charged: list = field(default_factory=list)
    unions: dict = field(default_factory=dict)
    _buffer: Any = None

    group = _GROUP

    def __repr__(self) -> str:
        times = f"n_seen={self.n_seen}, n_open={self.n_seen - self.begun}"  # of ticks no rows
        return f"Blocks(n_features={self.kept.n_features}, n_blocks={len(self.blocks)}, {times})"

    @property
    def are_joined(self) -> bool:
        """Whether one model is made of all blocks; else a sample is mixed of theirs."""
        return bool(getattr(self.inner, "_can_join", False))  # asked for each row: to compare with a protocol takes longer than all else

    def __post_init__(self) -> None:
        if self._buffer is None:
            object.__setattr__(self, "_buffer", self.kept.room(0))

    def with_new_rows(self, X: Any, stream: Any, budget: Budget) -> "Blocks":
        """Return the state after some rows, or after a tick; blocks that end are charged and synthesized.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features), or list of columns
            Where time is counted in ticks: all rows of one.
        stream : OnlineSynthesizer
            Whose ``growth``, ``window`` and ``horizon`` hold from now on, and who tells of rows that are left out.
        budget : Budget
        """
        if self.in_ticks:
            state = self._add_rows(X, 1)
            size = self._open_block_length(stream.growth, stream.window, stream.horizon)
            return state._close_block(budget, stream) if state.n_seen - state.begun >= size else state
        state, start = self, 0
        while start < n_rows_of(X):
            size = state._open_block_length(stream.growth, stream.window, stream.horizon)
            stop = min(n_rows_of(X), start + max(size - state.n_open, 0))
            state = state._add_rows(take_rows(X, slice(start, stop)), stop - start)
            start = stop
            if state.n_open >= size:
                state = state._close_block(budget, stream)
        return state

    def _open_block_length(self, growth: Any, window: int | None, horizon: int | None) -> int:
        """Length of the open block: a function of public numbers."""
        before = self.begun
        if before < self._charged_until:
            return self._charged_until - before
        first = 1 if self.in_ticks else first_length(self.epsilon / self.rows_per_unit, self.least)
        growth = (self.inner._growth_of_blocks if self.are_joined else _GROWTH) if growth is None else growth
        if isinstance(growth, Real):  # narrow ones of numpy overflow
            growth = min(float(growth), 2.0**62) if isinstance(growth, np.floating) or growth < 2**62 else 2.0**62
        if self.are_joined and growth != "auto" and window is None and horizon is not None:
            return max(first, length_until_horizon(before, first, growth, horizon))
        before = before if window is None else min(before, window)
        if growth == "auto":
            return max(first, balanced_length(before, self.kept.n_features, self._rows_per_time * float(self.epsilon / self.rows_per_unit)))
        return max(first, grown_length(before, growth))

    @property
    def _rows_per_time(self) -> float:
        """Rows of a unit of time, as far as is known."""
        if not self.in_ticks:
            return 1.0
        lengths = [stop - start for start, stop, _ in self.blocks]
        return float(np.average(self.rates, weights=lengths)) if lengths else 1.0

    def _add_rows(self, X: Any, time: int) -> "Blocks":
        buffer, end = self._buffer, self.n_open + n_rows_of(X)
        if end > buffer_capacity(buffer):
            buffer = self.kept.room(2 * end)
            for new, old in zip(buffer, self._buffer, strict=True):
                new[: self.n_open] = old[: self.n_open]
        self.kept.put(buffer, self.n_open, X)
        return replace(self, _buffer=buffer, n_open=end, n_seen=self.n_seen + time)

    @property
    def _charged_until(self) -> int:
        """What came before this time was charged: no block may hold it again."""
        return self.charged[-1][1] if self.charged else 0

    def _close_block(self, budget: Budget, stream: Any) -> "Blocks":
        start, stop = self.begun, self.n_seen
        if start < self._charged_until:
            stream._warn_once(_skipped_block_message(self._name(start, stop)))
            return self._without_rows(stop)
        model = self._released(start, stop, budget)
        rates = (*self.rates, model.n_samples_ / (stop - start) if self.in_ticks else 1.0)
        state = replace(self, blocks=(*self.blocks, (start, stop, model)), rates=rates, _buffer=self.kept.room(0), begun=stop, n_open=0)
        if self.in_ticks and max(model.n_samples_ for *_, model in state.blocks) < self.least:
            stream._warn_once(f"blocks have had less than {self.least} rows each, so samples may tell little; let a tick hold more rows.")
        return state if stream.window is None else state._within(stream.window, budget)

    def _released(self, start: int, stop: int, budget: Budget) -> Any:
        """Charge the open rows, and return what synthesizes them."""
        # Disjoint rows by public position, or by the tick that each carries: all blocks together cost what one of them does. So they do
        # where a unit has rows in several: of its k rows j_b are in block b, whose noise for k rows loses epsilon j_b / k on so many, and
        # these sum to epsilon at most.
        relation, n_samples = ("add_or_remove_one", None) if self.in_ticks else ("replace_one", self.n_open)
        box, n_features = self.kept.public_box, self.kept.n_features
        facts = Facts(self.epsilon, self.delta, relation, n_samples, n_features, box, rows_per_unit=self.rows_per_unit)
        rows, part = self.kept.given(self._buffer, self.n_open), self._next_block_synthesizer((stop - start) * self._rows_per_time)
        name = self._name(start, stop)
        last = budget.accountant._last_entry()
        self.charged.append((start, stop))  # before the charge: whatever breaks in, these rows are not released a second time
        try:
            return fit_part(part, rows, budget, facts, name=name, group=_GROUP)
        except BaseException as error:
            budget.is_broken = isinstance(error, Exception) and not isinstance(error, LedgerError | BudgetExceededError)
            if budget.accountant._last_entry() == last:
                self.charged.pop()  # refused before the charge
                budget.is_broken = False
            raise

    def _next_block_synthesizer(self, n_samples: float) -> Any:
        """Return the unfitted synthesizer of the next block, of about so many rows; it may use what was released of those before."""
        if not isinstance(self.inner, JoinableSynthesizer):
            return clone(self.inner)
        return self.inner._next_block(getattr(self.kept, "reader", None), [model for *_, model in self.blocks], n_samples)

    def _without_rows(self, stop: int) -> "Blocks":
        """Leave the open rows out; the block before stands in for them."""
        *past, last = self.blocks or [None]
        kept = () if last is None else (*past, (last[0], stop, last[2]))
        return replace(self, blocks=kept, _buffer=self.kept.room(0), begun=stop, n_open=0)

    def _within(self, window: int, budget: Budget) -> "Blocks":
        """Drop the blocks that end before the window; the last one stays, because it stands in for the open block."""
        *past, last = self.blocks
        kept = [block for block in past if block[1] > self.n_seen - window]
        if len(kept) == len(past):
            return self
        n_gone = len(past) - len(kept)
        dropped = past[n_gone - 1][1]
        # What lives for ever stays small: the ledger keeps one line for all that is gone.
        gone = [times for times in self.charged if times[1] <= dropped]
        folded = [self._dropped_label(self.dropped), *(self._name(*times) for times in gone)]
        budget.accountant.fold(_GROUP, folded, into=self._dropped_label(dropped))
        del self.charged[: len(gone)]
        left = self.left + sum(rate * (stop - start) for (start, stop, _), rate in zip(past[:n_gone], self.rates, strict=False))
        return replace(self, blocks=(*kept, last), rates=self.rates[n_gone:], left=left, dropped=dropped)

    def _name(self, start: int, stop: int) -> str:
        """What the ledger calls a block: its times, which are public."""
        return f"{'ticks' if self.in_ticks else 'rows'} {start} to {stop - 1}"

    def _dropped_label(self, dropped: int) -> str:
        return f"{self._name(0, dropped)}, which the window left behind"

    def n_rows(self, first: int) -> tuple[int, float]:
        """Return how many rows came from some time on, and the expected error of that; the last block stands in for the open one."""
        if not self.in_ticks:
            return self.n_seen - first, 0.0
        parts = self._parts(first)
        number = sum(length * rate for length, rate, _ in parts)
        error = sum(length * rate * model._size_error / model.n_samples_ for length, rate, model in parts)
        return max(1, round(number)), error

    @property
    def n_rows_so_far(self) -> int:
        """Rows so far, as far as is known."""
        return max(1, round(self.left + self.n_rows(0)[0])) if self.in_ticks else self.n_seen

    def _parts(self, first: int) -> list[tuple[int, float, Any]]:
        """Return (length, rows of a unit of time, synthesizer) of each block, as far as it lies at some time or later."""
        if not self.blocks:
            return []
        *past, (start, _, last) = self.blocks
        blocks = zip((*past, (start, self.n_seen, last)), self.rates, strict=True)
        return [(stop - max(start, first), rate, model) for (start, stop, model), rate in blocks if stop > first]

    @property
    def first_row(self) -> int:
        """The first row, or tick, that may be in a release from now on."""
        return max(self.begun, self._charged_until)

    @staticmethod
    def stop_of(name: str) -> float:
        """Return the row, or tick, after the last one that was charged for under a name."""
        found = _BLOCK_NAME.match(name)
        return math.inf if found is None else int(found[1]) + 1

    def resume(self, accountant: Any, rng: Any) -> None:
        """Nothing here keeps a door: blocks open their own."""

    def settled(self) -> "Blocks":
        """Return what may be copied while rows come."""
        return replace(self, charged=[*self.charged])

    @property
    def is_conditional(self) -> bool:
        """Whether samples come from one model, which can be conditioned: of all blocks, or before these of the schema of a mixed table."""
        return self.are_joined and bool(self.blocks or getattr(self.kept, "reader", None) is not None)

    def given(self, conditions: Any, first: int) -> "ConditionalRows":
        """Return what gives rows of the stream from some time on that meet conditions, or refuse those that no row meets."""
        return ConditionalRows(self.kept, self._model(first)._condition_on(conditions))

    def _model(self, first: int) -> Any:
        return self._union(first) if self.blocks else self.inner._model_of_public_facts(self.kept.reader)

    def sample(self, n_samples: int, first: int, rng: np.random.Generator) -> Any:
        """Return rows like those of the stream from some time on; if there is no block, uniform ones that keep the rules of a schema.

        Blocks that can be joined have one model. Of others each gives its share. The last block, the nearest in time, stands in for the
        open one.

        Parameters
        ----------
        n_samples : int
        first : int
        rng : numpy.random.Generator
        """
        return concatenate_batches(self.sample_blocks(n_samples, first, rng))

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[Any]:
        """Return an iterator of the same, a part at a time; what it draws from is fixed now, while the stream is locked."""
        if self.is_conditional:
            return map(self.kept.of_columns, self._model(first)._sample_blocks(n_samples, rng))
        if not self.blocks:
            return (self.kept.uniform(min(BATCH, n_samples - start), rng) for start in range(0, n_samples, BATCH))
        return self._mix_blocks(n_samples, first, rng)

    def _mix_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[Any]:
        """Yield rows of all blocks, a part at a time, to which each gives its share."""
        n_parts = -(-n_samples // BATCH)
        blocks = self._parts(first)
        upto = np.cumsum([length * rate for length, rate, _ in blocks])
        edges = np.floor(upto * (n_samples / upto[-1]) + rng.random()).astype(np.int64)
        edges[-1] = n_samples
        counts = np.diff(np.minimum(edges, n_samples), prepend=0)
        shares = [BlockShare(model, int(count), n_parts, rng) for (*_, model), count in zip(blocks, counts, strict=True) if count]
        for part in range(n_parts):
            rows = [rows for share in shares if n_rows_of(rows := share.rows(part))]
            if rows:
                whole = self.kept.of_columns(concatenate_batches(rows))
                yield take_rows(whole, rng.permutation(n_rows_of(whole)))

    def _union(self, first: int) -> Any:
        """Return the synthesizer of all blocks from some time on; post-processing of what was released of each.

        How much of the first block is left, and how many rows wait for which the last one stands, counts in quarters of a block where a
        model takes long to make: so it serves for some rows more, and which one it is follows from the time alone and not from the samples
        before.
        """
        blocks = [block for block in self.blocks if block[1] > first] or [self.blocks[-1]]
        steps = [1.0 if self.inner._joins_fast else (stop - start) / _PARTS for start, stop, _ in blocks]
        lengths = [round(length / step) for (length, *_), step in zip(self._parts(first), steps, strict=True)]
        lengths[-1] = max(lengths[-1], 1)
        key = tuple((start, stop, n) for (start, stop, _), n in zip(blocks, lengths, strict=True) if n)
        union = self.unions.get(key)
        if union is None:
            rates = self.rates[len(self.rates) - len(blocks) :]
            numbers = [n * step * rate for n, step, rate in zip(lengths, steps, rates, strict=True)]
            kept = [(model, number) for (*_, model), number in zip(blocks, numbers, strict=True) if number]
            union = self.inner._joined(*zip(*kept, strict=True))
            while len(self.unions) >= _MAX_UNIONS:
                self.unions.pop(next(iter(self.unions)), None)
            self.unions[key] = union
        return union

    def _check_loaded(self) -> None:
        require(isinstance(self.kept, NumericRows | MixedRows) and hasattr(self.inner, "sample") and hasattr(self.inner, "get_params"))
        require(is_of_type(self.blocks, tuple[tuple[int, int, Any], ...]) and is_of_type(self.rates, tuple[float, ...]))
        require(is_of_type(self.charged, list[tuple[int, int]]) and not self.unions and min(self.rows_per_unit, self.least + 1) >= 1)
        require(check_epsilon(self.epsilon) and 0 <= self.delta < 1 and len(self.rates) == len(self.blocks))
        require(all(0 < rate < math.inf for rate in self.rates if not self.in_ticks) and 0 <= self.left < math.inf)
        require(0 <= self.dropped <= self.begun <= self.n_seen and (self.in_ticks or self.n_open == self.n_seen - self.begun))
        ends = [0, *(time for start, stop, _ in self.blocks for time in (start, stop)), self.begun]
        require(all(first <= second for first, second in pairwise(ends)) and all(start < stop for start, stop, _ in self.blocks))
        require(all(hasattr(model, "sample") for *_, model in self.blocks))
        self.kept.check_waiting(self._buffer, self.n_open)

    def __getstate__(self) -> dict[str, Any]:
        # Rows leave memory without their order.
        return {**vars(self), "_buffer": self.kept.sorted_rows(self._buffer, self.n_open), "unions": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)


def _skipped_block_message(times: str) -> str:
    """What to say of a block whose release failed after it was charged: once more would cost once more."""
    return f"{times} are left out, because their release was interrupted after it was charged; the blocks beside them stand in for them."
