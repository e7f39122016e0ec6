"""A stream in disjoint blocks of time: of consecutive rows, or of ticks."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth._serialization import is_of_type, require
from skdpsynth.domain import Box, Continuous
from skdpsynth.exceptions import BudgetExceededError, LedgerError
from skdpsynth.fitting import Budget, Facts, fit_part, random_state_from
from skdpsynth.frames import Rows, Table, concatenate, n_rows_of, rebatch, take_rows
from skdpsynth.persistence import savable
from skdpsynth.privacy import check_epsilon
from skdpsynth.synthesis._base import BATCH, BlockPlan, StreamBlock, iter_batches

_CAPACITY = 1024  # rows that the open block has room for at first
_PARTS = 4  # of a block, by which it weighs in a model of all that takes long to make
_MAX_UNIONS = 2  # models of all blocks that are kept
_FIRST = 16  # rows times epsilon of the first block, and rows at least
_BALANCE = 4  # rows of a block whose error is about that of its lag, as measured in benchmarks
_BLOCK_NAME = re.compile(r"(?:rows|ticks) \d+ to (\d+)")


@savable
@dataclass(frozen=True, eq=False)
class NumericRows:
    """Buffer of rows of numbers: on the grid of a box, without their order."""

    box: Box
    container: Any  # of the first rows

    reader = None

    @property
    def n_features(self) -> int:
        return self.box.n_features

    @property
    def public_box(self) -> Box:
        return Box(self.box.low, self.box.high)

    def make_room(self, rows: int) -> list[np.ndarray]:
        return [np.empty((max(rows, _CAPACITY), self.n_features), dtype=np.uint16 if self.box.bits <= 16 else np.uint32)]

    @np.errstate(all="ignore")  # a warning would tell of a value
    def write(self, buffer: list[np.ndarray], place: int, X: np.ndarray) -> None:
        """Write rows from a place on; one as `Box.quantize` does, without its preparations for many rows."""
        if len(X) == 1:
            steps = (X[0] - self.box.low) * (2.0**self.box.bits / self.box.width)
            buffer[0][place] = np.floor(np.clip(steps, 0, 2.0**self.box.bits - 1))
            return
        for rows, steps in self.box.chunks(X):
            buffer[0][place + rows.start : place + rows.stop] = steps

    def as_table(self, buffer: list[np.ndarray], n_rows: int) -> Any:
        return self.container.fill(self.box.restore(buffer[0][:n_rows]))


@savable
@dataclass(frozen=True, eq=False)
class MixedRows:
    """Buffer of rows of a mixed table: columns of numbers and codes, as an unfitted synthesizer has read them."""

    reader: Any

    public_box = None

    @property
    def _kinds(self) -> list[Any]:
        return list(self.reader.schema_.coded.values())

    @property
    def n_features(self) -> int:
        return len(self._kinds)

    def make_room(self, rows: int) -> list[np.ndarray]:
        dtypes = [float if isinstance(kind, Continuous) else np.min_scalar_type(kind.n_codes) for kind in self._kinds]
        return [np.empty(max(rows, _CAPACITY), dtype=dtype) for dtype in dtypes]

    def write(self, buffer: list[np.ndarray], place: int, X: Sequence[np.ndarray]) -> None:
        for kept, column in zip(buffer, X, strict=True):
            kept[place : place + len(column)] = column

    def as_table(self, buffer: list[np.ndarray], n_rows: int) -> Rows:
        columns = [column[:n_rows] if column.dtype.kind == "f" else column[:n_rows].astype(np.int64) for column in buffer]
        return Rows.of(columns, n_jobs=getattr(self.reader, "n_jobs", None))


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """Synthesized blocks, and the rows of the open one.

    New rows make a new state, and the one before stays good: its public part never changes. All states of a stream share `charged`, so
    that it outlives a state that an interrupt discards.

    If the number of rows is public, time is counted in rows, and a row more shifts all that follow. If it is private, time is counted in
    ticks, each with any number of rows. Then blocks end at ticks that follow from the number of ticks and from the releases of earlier
    blocks. So for each outcome of those a row is in the block of its tick, whatever other rows came: a row more or less changes one factor
    of the joint law of all outcomes, by the loss of one block.
    """

    kept: NumericRows | MixedRows
    inner: Any  # an unfitted synthesizer
    plan: BlockPlan
    epsilon: Any  # of each block, as delta
    delta: Any
    rows_per_unit: int = 1  # the most rows of one unit in the whole stream
    in_ticks: bool = False  # whether time is counted in ticks, and the number of rows is private
    blocks: tuple = ()  # (start, stop, fitted synthesizer), by time; older ones may be gone
    rates: tuple = ()  # by block: rows of a unit of time, 1 or released
    left: float = 0.0  # estimated number of rows outside the kept blocks
    dropped: int = 0  # no block is kept from before this time
    n_seen: int = 0  # time so far
    begun: int = 0  # time at the start of the open block
    n_open: int = 0  # rows in the open block: private where time is counted in ticks
    charged: list = field(default_factory=list)  # (start, stop) of charged times, fitted or not, except those that the window left behind
    # models of all blocks together, by their times: made when a sample needs them, and never saved
    unions: dict = field(default_factory=dict)
    _buffer: Any = None  # arrays of the open rows: as secret as the data

    group = "blocks"

    def __post_init__(self) -> None:
        if self._buffer is None:
            object.__setattr__(self, "_buffer", self.kept.make_room(0))

    def with_new_rows(self, X: Table, stream: BaseEstimator, budget: Budget) -> "Blocks":
        """Return the state after some rows, or after a tick with all its rows; blocks that end are charged and synthesized.

        The present ``growth``, ``window`` and ``horizon`` of the stream hold from now on, and it warns of rows that are left out.
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

    def _open_block_length(self, growth: float | Literal["auto"] | None, window: int | None, horizon: int | None) -> int:
        """Return the length of the open block: a function of public numbers."""
        before, epsilon = self.begun, self.epsilon / self.rows_per_unit
        if before < self._charged_until:
            return self._charged_until - before
        first = 1 if self.in_ticks else max(_FIRST, math.ceil(_FIRST / epsilon) if epsilon != math.inf else 0, self.plan.least)
        growth = self.plan.growth if growth is None else growth
        if isinstance(growth, Real):  # narrow ones of numpy overflow
            growth = min(float(growth), 2.0**62) if isinstance(growth, np.floating) or growth < 2**62 else 2.0**62
        if self.plan.is_joined and growth != "auto" and window is None and horizon is not None:
            return max(first, length_until_horizon(before, first, growth, horizon))
        before = before if window is None else min(before, window)
        if growth != "auto":
            return max(first, int(min((growth - 1) * before, 2.0**62)))
        # The length is of order t**(d / (d + 1)), by epsilon times the rows of a unit of time.
        d, size = self.kept.n_features, self._rows_per_time * float(epsilon)
        return max(first, int(min(_BALANCE * before ** (d / (d + 1)) * size ** (-1 / (d + 1)), before / 4)))

    @property
    def _rows_per_time(self) -> float:
        """Rows of a unit of time, public or estimated."""
        if not (self.in_ticks and self.blocks):
            return 1.0
        return float(np.average(self.rates, weights=[stop - start for start, stop, _ in self.blocks]))

    def _add_rows(self, X: Table, time: int) -> "Blocks":
        buffer, end = self._buffer, self.n_open + n_rows_of(X)
        if end > n_rows_of(buffer):
            buffer = self.kept.make_room(2 * end)
            for new, old in zip(buffer, self._buffer, strict=True):
                new[: self.n_open] = old[: self.n_open]
        self.kept.write(buffer, self.n_open, X)
        return replace(self, _buffer=buffer, n_open=end, n_seen=self.n_seen + time)

    @property
    def _charged_until(self) -> int:
        """The end of the charged time: no block may hold earlier rows again."""
        return self.charged[-1][1] if self.charged else 0

    def _close_block(self, budget: Budget, stream: BaseEstimator) -> "Blocks":
        start, stop = self.begun, self.n_seen
        if start < self._charged_until:
            # A second release would cost a second charge.
            stream._warn_once(
                f"{self._name(start, stop)} are left out, because their release was interrupted after it was charged; the blocks beside "
                "them stand in for them."
            )
            *past, last = self.blocks or [None]
            kept = () if last is None else (*past, (last[0], stop, last[2]))
            return replace(self, blocks=kept, _buffer=self.kept.make_room(0), begun=stop, n_open=0)
        model = self._release_block(start, stop, budget)
        rates = (*self.rates, model.n_samples_ / (stop - start) if self.in_ticks else 1.0)
        blocks, least = (*self.blocks, (start, stop, model)), self.plan.least
        if self.in_ticks and max(model.n_samples_ for *_, model in blocks) < least:
            stream._warn_once(f"blocks have had less than {least} rows each, so samples may tell little; let a tick hold more rows.")
        state = replace(self, blocks=blocks, rates=rates, _buffer=self.kept.make_room(0), begun=stop, n_open=0)
        # Blocks that end before the window go; the last one stays, because it stands in for the open block.
        n_gone = 0 if stream.window is None else sum(block[1] <= stop - stream.window for block in blocks[:-1])
        if not n_gone:
            return state
        # The ledger keeps one line for all that is gone, so that a stream that never ends stays small.
        dropped = blocks[n_gone - 1][1]
        gone = [times for times in self.charged if times[1] <= dropped]
        folded = [self._dropped_label(self.dropped), *(self._name(*times) for times in gone)]
        budget.accountant.fold(self.group, folded, into=self._dropped_label(dropped))
        del self.charged[: len(gone)]
        left = self.left + sum(rate * (end - begin) for (begin, end, _), rate in zip(blocks[:n_gone], rates, strict=False))
        return replace(state, blocks=blocks[n_gone:], rates=rates[n_gone:], left=left, dropped=dropped)

    def _release_block(self, start: int, stop: int, budget: Budget) -> Any:
        """Charge the open rows, and return a synthesizer fitted to them."""
        # Disjoint rows by public position, or by the tick that each carries: all blocks together cost what one of them does. So they do
        # where a unit has rows in several: of its k rows j_b are in block b, whose noise for k rows loses epsilon j_b / k on so many, and
        # these sum to epsilon at most.
        relation, n_samples = ("add_or_remove_one", None) if self.in_ticks else ("replace_one", self.n_open)
        size = n_samples, self.kept.n_features, self.kept.public_box
        facts = Facts(self.epsilon, self.delta, relation, *size, rows_per_unit=self.rows_per_unit)
        rows, part, name = self.kept.as_table(self._buffer, self.n_open), clone(self.inner), self._name(start, stop)
        if self.plan.is_joined or self.kept.reader is not None:
            past = tuple(model for *_, model in self.blocks)
            part._block = StreamBlock(self.kept.reader, past, (stop - start) * self._rows_per_time)
        last = budget.accountant._last_entry()
        self.charged.append((start, stop))  # before the charge: whatever breaks in, these rows are not released a second time
        try:
            model = fit_part(part, rows, budget, facts, name=name, group=self.group)
        except BaseException as error:
            budget.is_broken = isinstance(error, Exception) and not isinstance(error, LedgerError | BudgetExceededError)
            if budget.accountant._last_entry() == last:
                self.charged.pop()  # refused before the charge
                budget.is_broken = False
            raise
        vars(model).pop("_block", None)
        return model

    def _name(self, start: int, stop: int) -> str:
        return f"{'ticks' if self.in_ticks else 'rows'} {start} to {stop - 1}"

    def _dropped_label(self, dropped: int) -> str:
        return f"{self._name(0, dropped)}, which the window left behind"

    def n_rows(self, first: int) -> tuple[int, float]:
        """Return the number of rows since `first` and its expected error; the last block stands in for the open one."""
        if not self.in_ticks:
            return self.n_seen - first, 0.0
        sizes = [(length * rate, model) for length, rate, model in self._parts(first)]
        error = sum(size * model._size_error / model.n_samples_ for size, model in sizes)
        return max(1, round(sum(size for size, _ in sizes))), error

    def _parts(self, first: int) -> list[tuple[int, float, Any]]:
        """Return (length, rows of a unit of time, synthesizer) of each block, for the time since `first`."""
        if not self.blocks:
            return []
        *past, (start, _, last) = self.blocks
        blocks = zip((*past, (start, self.n_seen, last)), self.rates, strict=True)
        return [(stop - max(start, first), rate, model) for (start, stop, model), rate in blocks if stop > first]

    @property
    def first_row(self) -> int:
        """The first row, or tick, that may be in a later release."""
        return max(self.begun, self._charged_until)

    @staticmethod
    def stop_of(name: str) -> float:
        """Return the row, or tick, after the last one charged under a name."""
        found = _BLOCK_NAME.match(name)
        return math.inf if found is None else int(found[1]) + 1

    def snapshot(self) -> "Blocks":
        return replace(self, charged=[*self.charged])

    def model(self, first: int) -> Any:
        """Return the one synthesizer of all blocks since `first`, or before the first block that of a schema alone; None: there is none.

        The rest of the first block, and the waiting rows for which the last one stands, count in quarters of a block where a model takes
        long to make: so it is good for some more rows, and follows from the time alone, not from earlier samples.
        """
        if not self.blocks:
            return None if self.kept.reader is None else self.inner._join_blocks((), (), self.kept.reader)
        if not self.plan.is_joined:
            return None
        blocks = [block for block in self.blocks if block[1] > first] or [self.blocks[-1]]
        steps = [1.0 if self.plan.is_fast else (stop - start) / _PARTS for start, stop, _ in blocks]
        lengths = [round(length / step) for (length, *_), step in zip(self._parts(first), steps, strict=True)]
        lengths[-1] = max(lengths[-1], 1)
        key = tuple((start, stop, n) for (start, stop, _), n in zip(blocks, lengths, strict=True) if n)
        union = self.unions.get(key)
        if union is None:
            rates = self.rates[len(self.rates) - len(blocks) :]
            numbers = [n * step * rate for n, step, rate in zip(lengths, steps, rates, strict=True)]
            kept = [(model, number) for (*_, model), number in zip(blocks, numbers, strict=True) if number]
            union = self.inner._join_blocks(*zip(*kept, strict=True), self.kept.reader)
            while len(self.unions) >= _MAX_UNIONS:
                self.unions.pop(next(iter(self.unions)), None)
            self.unions[key] = union
        return union

    def sample_blocks(self, n_samples: int, first: int, rng: np.random.Generator, model: BaseEstimator = None) -> Iterator[Any]:
        """Iterate over rows like those since `first`; before the first block, uniform ones that keep the rules of a schema.

        Joined blocks have one model, fixed now (`model` is that given conditions); of other blocks each gives its share. The last block,
        the nearest in time, stands in for the open one.
        """
        model = self.model(first) if model is None else model
        if model is not None:
            return map(self._as_batch, model._sample_blocks(n_samples, rng))
        if self.blocks:
            return self._mix_blocks(n_samples, first, rng)
        box: Any = self.kept.public_box
        sizes = (min(BATCH, n_samples - start) for start in range(0, n_samples, BATCH))
        return (box.low + box.width * rng.random((size, box.n_features)) for size in sizes)

    def _as_batch(self, rows: Table) -> Any:
        """Return drawn rows, which may be a list of columns, as the stream gives them."""
        return np.column_stack(rows) if self.kept.reader is None and isinstance(rows, list) else rows

    def _mix_blocks(self, n_samples: int, first: int, rng: np.random.Generator) -> Iterator[Any]:
        n_parts = -(-n_samples // BATCH)
        blocks = self._parts(first)
        upto = np.cumsum([length * rate for length, rate, _ in blocks])
        edges = np.floor(upto * (n_samples / upto[-1]) + rng.random()).astype(np.int64)
        edges[-1] = n_samples
        counts = np.diff(np.minimum(edges, n_samples), prepend=0).tolist()
        shares = [_share(model, count, n_parts, rng) for (*_, model), count in zip(blocks, counts, strict=True) if count]
        for _ in range(n_parts):
            rows = [rows for share in shares if n_rows_of(rows := next(share))]
            if rows:
                whole = self._as_batch(concatenate(rows))
                yield take_rows(whole, rng.permutation(n_rows_of(whole)))

    def _check_loaded(self) -> None:
        require(is_of_type(self.blocks, tuple[tuple[int, int, Any], ...]) and is_of_type(self.rates, tuple[float, ...]))
        require(is_of_type(self.charged, list[tuple[int, int]]) and not self.unions and self.rows_per_unit >= 1)
        require(check_epsilon(self.epsilon) and 0 <= self.delta < 1 and len(self.rates) == len(self.blocks))
        require(0 <= self.dropped <= self.begun <= self.n_seen and (self.in_ticks or self.n_open == self.n_seen - self.begun))
        ends = [0, *(time for start, stop, _ in self.blocks for time in (start, stop)), self.begun]
        require(all(first <= second for first, second in pairwise(ends)) and all(start < stop for start, stop, _ in self.blocks))
        for column, room in zip(self._buffer, self.kept.make_room(1), strict=True):
            require(column.dtype == room.dtype and column.shape == (self.n_open, *room.shape[1:]))

    def __getstate__(self) -> dict[str, Any]:
        # Rows leave memory without their order: of numbers a histogram of the grid, as synthesizers count it.
        rows = [column[: self.n_open] for column in self._buffer]
        order = np.lexsort([key for column in rows for key in np.atleast_2d(column.T)])
        return {**vars(self), "_buffer": [column[order] for column in rows], "unions": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)


def _share(model: BaseEstimator, count: int, n_parts: int, rng: np.random.Generator) -> Iterator[Any]:
    """Return an iterator over the rows that a block gives to a sample, in about equal parts."""
    shift, size = rng.random(), -(-count // n_parts)
    if hasattr(model, "schema_"):
        batches: Iterator[Table] = rebatch(model._sample_blocks(count, rng), size)
    else:
        batches = (np.asarray(batch, dtype=float) for batch in iter_batches(model, count, size, lambda: random_state_from(rng)))
    ends = [int(part * count / n_parts + shift) for part in range(n_parts)]
    return _split_batches(batches, np.diff([*ends, count]).tolist())


def _split_batches(batches: Iterator[Table], sizes: list[int]) -> Iterator[Any]:
    left: list[Any] = []
    for size in sizes:
        rows = left
        while not rows or sum(map(n_rows_of, rows)) < size:
            rows = [*rows, next(batches)]
        whole = concatenate(rows)
        rest = take_rows(whole, slice(size, None))
        left = [[column.copy() for column in rest] if isinstance(rest, list) else rest.copy()]
        yield take_rows(whole, slice(size))


def length_until_horizon(before: int, first: int, growth: float, horizon: int) -> int:
    """Return the length where the end of the stream is known: a block ends with it, so that no row waits then.

    The rest of the stream, after `before` < `horizon`, is shared by about as many blocks as `growth` alone would make, and those grow
    alike: by the root of `growth` at least, and by its square at most. `first` is the least length.
    """
    if not before:
        return horizon if first <= horizon < first * math.sqrt(growth) else first
    times = math.log(horizon) - math.log(before)  # whose quotient may be beyond all floats
    n_blocks = max(1, round(times / math.log(growth)))
    return horizon - before if n_blocks == 1 else math.ceil(before * math.expm1(times / n_blocks))
