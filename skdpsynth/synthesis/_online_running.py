"""A stream that has begun: its new rows, its account, and its samples."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._atomic_write import output_path, pending_files
from skdpsynth._parallel import lock_of
from skdpsynth._serialization import is_of_type, require
from skdpsynth._validation import warn
from skdpsynth.domain import Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget
from skdpsynth.frames import FirstRows, Rows, check_length, split_units
from skdpsynth.persistence import save_pending
from skdpsynth.privacy import (
    acknowledge_settled,
    check_rng,
    finish,
    is_durable,
    is_latest_checkpoint,
    is_overtaken,
    is_settled,
    mark_resumed,
    pending_charges,
    recover,
    resolve_accountant,
    resume,
    settle,
    unsettle,
)
from skdpsynth.statistics import RowCount, total
from skdpsynth.synthesis._base import BATCH, PrivateSynthesizer, SampleRequest, check_generator, check_n_samples, default_n_samples
from skdpsynth.synthesis._online_blocks import Blocks
from skdpsynth.synthesis._online_settings import (
    check_horizon,
    check_save_path,
    check_settings,
    check_since,
    counts_ticks,
    current_settings,
    time_unit,
)
from skdpsynth.synthesis._online_tree import GrowingTree
from skdpsynth.tables import continue_numbers, continue_table, encode, reading_options


class RunningStream(PrivateSynthesizer):
    """Base of `OnlineSynthesizer`, which begins the stream: all that happens afterward."""

    strategy: str
    synthesizer: Any
    window: Any
    _stream: Any  # Blocks or GrowingTree
    _rng: Any
    _said: str  # the last warning
    _was_saved: bool = False
    _settings: dict  # parameters as they were when the last rows came
    _time: int  # rows, or ticks, that were taken in
    # Rows of each unit that were taken in: before the last call, and after it of the units that it had. None where the unit is the row.
    _units: tuple[dict, dict] | None = None
    _reader: Any = None  # of mixed tables: knows columns, dtypes and schema of the first rows
    _may_be_empty = False  # whether the first rows may be none
    _starting: Any = None  # a list for the first rows, where the stream is saved before it takes them in

    def _check_loaded(self) -> None:
        if not hasattr(self, "accountant_"):
            return
        stream = self._stream
        require(isinstance(stream, Blocks | GrowingTree) and stream.n_seen == self._time and isinstance(self._settings, dict))
        require("_charged_to" in vars(self) and current_settings(self).keys() <= self._settings.keys())
        told = {"n_ticks_seen_": stream.n_seen} if stream.in_ticks else {"n_samples_seen_": stream.n_seen}
        require(all(getattr(self, name, None) == number for name, number in told.items()))
        require(self._units is None or is_of_type(self._units, tuple[dict[Any, int], dict[Any, int]]))
        require(all(count >= 1 for each in self._units or () for count in each.values()))  # less would let more rows in
        require(self._rng is None and (self._reader is None or isinstance(self._reader, PrivateSynthesizer)))

    def _try_loaded(self) -> None:
        """Draw some rows where that has no consequences: counters would take noise, and a model of all blocks takes long to make."""
        blocks = getattr(self._stream, "blocks", ()) if hasattr(self, "accountant_") else ()
        if blocks and self._stream.are_joined and not self._stream.inner._joins_fast:
            blocks[-1][-1]._try_loaded()
        elif blocks:
            super()._try_loaded()

    def _next_rows(self, X: Any) -> Rows:
        """Open a table whose columns must be those of the first rows; it may have no rows."""
        return continue_numbers(self, X, 0) if self._reader is None else continue_table(self._reader, X, 0, are_inferred=True)

    def _check_order(self, rows: Rows) -> None:
        """Refuse rows in no stated order where blocks are cut by it: one row more might reorder all, and so change all blocks."""
        if not (rows.source.has_order or counts_ticks(self)):  # within a tick rows have no order
            raise TypeError(
                "X must come in a stated order for OnlineSynthesizer, which cuts blocks by position, got a lazy frame or query, which has "
                "none; write its rows in order of arrival to a Parquet file and give the path, or give it in memory."
            )

    def _take(self, X: Any, unit: Any, save: Any) -> Any:
        """Take in rows, with the lock held."""
        place = None if save is None else check_save_path(self, save)
        if not hasattr(self, "_stream"):
            return self._begin(X, unit) if place is None else self._begin_and_save(X, unit, place)
        settings = check_settings(self)
        if unit is not None or self._units is not None:
            return self._take_unit_rows(X, unit, settings, place)
        rows = self._next_rows(X)
        self._check_order(rows)
        if counts_ticks(self):
            check_horizon(self, self._time, 1)
            return self._extend_by(rows, settings, place)
        n_samples = total(rows, RowCount.over()).n_samples if rows.n_samples is None else rows.n_samples
        check_horizon(self, self._time, n_samples)
        return self._extend_by(rows, settings, place)

    def _begin(self, X: Any, unit: Any) -> None:
        self._may_be_empty = True
        try:
            self.fit(X, unit=unit)
        finally:
            del self._may_be_empty

    def _begin_and_save(self, X: Any, unit: Any, place: Path) -> Any:
        """Begin the stream with no rows, save that, and take in the rows.

        So the file is there before anything is drawn: a process that loads it continues in the account that was charged. If the process is
        killed before that, the account is charged and pending, and the next stream that begins so takes it over.
        """
        starting: list[Any] = []
        self._starting = starting
        self._claims = True
        try:
            self._begin(X, unit)
        finally:
            del self._starting, self._claims
        save_pending(self, place).move()
        rows, units = starting.pop()
        return self._extend_by(rows, self._settings, place, units)

    def _take_unit_rows(self, X: Any, unit: Any, settings: dict, place: Path | None) -> Any:
        """Take in the rows of units that may still contribute some."""
        if unit is None or self._units is None:
            was = "none" if self._units is None else "one"
            raise ValueError(f"unit must be given always or never along a stream, which began with {was}; call fit to start a new one.")
        X, labels = split_units(X, unit, **reading_options(self, unit))
        rows = self._next_rows(X)
        check_in_memory(rows)
        check_length(labels or [], rows.n_samples)
        before, latest = self._units
        before.update(latest)  # the same again, if something broke in after it
        counting = FirstRows(self._rows_per_unit, before)
        rows = rows.only(counting.kept(labels or []))
        check_horizon(self, self._time, 1 if counts_ticks(self) else rows.n_samples or 0)
        return self._extend_by(rows, settings, place, (before, counting.latest))

    def _extend_by(self, rows: Rows, settings: dict, place: Path | None, units: tuple[dict, dict] | None = None) -> Any:
        """Take in checked rows: all at once where they are held, or make a tick, or are saved; else a chunk at a time."""
        is_one = counts_ticks(self) or rows.source.in_memory
        chunks = (rows.collected() for _ in range(1)) if is_one else rows.chunks()
        if place is not None:
            return self._extend_and_save(chunks, settings, units, place)
        if is_one:
            return self._extend(next(iter(chunks)), settings, units)
        for chunk in chunks:
            self._extend(chunk, settings, units)

    def _extend_and_save(self, chunks: Iterable[Any], settings: dict, units: tuple[dict, dict] | None, place: Path) -> None:
        """Take in rows and save the result, as if in one step; `skdpsynth.privacy._resume` has the steps and their proof."""
        budget = self._budget()
        before: Any = self._stream
        stream, charged = before, [*before.charged]
        with pending_charges(self.accountant_):
            try:
                with np.errstate(all="ignore"):
                    for chunk in chunks:
                        stream = stream.with_new_rows(chunk, self, budget)
                self._publish(stream, settings, units, place)
            except BaseException:
                if self._stream is before and budget.is_broken:
                    # What a release raised may follow from its noise, so a second draw would cost too: its block is left out for good.
                    with suppress(Exception):
                        self._publish(before, self._settings, None, place)
                elif self._stream is before:
                    before.charged[:] = charged  # nothing of it was shown, so it may be drawn again
                raise

    def _publish(self, stream: Any, settings: dict, units: tuple[dict, dict] | None, place: Path) -> None:
        """Save a state, and make it that of the stream."""
        ahead: Any = object.__new__(type(self))
        vars(ahead).update(vars(self))
        ahead._set_stream(stream, settings, units)
        accountant, aside = self.accountant_, None
        try:
            aside = save_pending(ahead, place)
            settle(accountant, is_first=not self._time)
            finish(accountant, aside.move)
        except BaseException:
            if is_settled(accountant) or (aside is not None and aside.is_moved):
                self._set_stream(stream, settings, units)
                acknowledge_settled(accountant)
            elif aside is not None:
                unsettle(accountant)
                aside.remove()
            raise
        self._set_stream(stream, settings, units)
        acknowledge_settled(accountant)
        for left in pending_files(place):
            left.remove()  # of processes that were killed, or were too late

    def _charge_to(self, accountant: Any) -> None:
        opened: Any = resolve_accountant(accountant)
        if hasattr(self, "accountant_"):
            if not (is_durable(self.accountant_) and is_durable(opened)):
                raise ValueError(
                    "accountant must be the ledger in a file that a stream was charged in, or one that has imported it, got a ledger in "
                    "memory, or one for a stream that has its own; leave it out."
                )
            is_latest_checkpoint(self.accountant_, opened)  # raises where that ledger does not hold what the stream was charged
        self.accountant = opened

    def _recovered(self, path: Any, read: Callable[[Any], Any]) -> Any:
        """Return the last settled state of a stream that was loaded from a path: this one, or one beside it."""
        if not hasattr(self, "accountant_") or not is_durable(self.accountant_) or not (asides := pending_files(output_path(path))):
            return self
        at = resolve_accountant(self.accountant)
        if is_latest_checkpoint(self.accountant_, at):
            return self
        for aside in asides:
            try:
                other = read(aside.beside)
            except (OSError, ValueError):  # it was not written to its end
                continue
            if isinstance(other, RunningStream) and recover(other.accountant_, at, aside.move):
                other.accountant = self.accountant
                return other
        return self

    def _extend(self, X: np.ndarray, settings: dict, units: tuple[dict, dict] | None = None) -> Any:
        """Take in checked rows: all of them, or none."""
        budget = self._budget()
        settle(budget.accountant, is_first=not self._time)  # what is drawn now may be shown, so nobody else may begin in this account
        if self._was_saved and self._stream.stop_of is None and is_durable(self.accountant_):
            self._mark("goes on after it was saved")
        with np.errstate(all="ignore"):  # a floating-point warning would tell of values, and an error would cost a block
            stream = self._stream.with_new_rows(X, self, budget)
        self._set_stream(stream, settings, units)

    def _warn_once(self, message: str) -> None:
        """Warn while rows are taken in; but once, so that they come in after a warning that the caller turns into an error."""
        if message != self._said:
            self._said = message
            warn(message, SmallSampleWarning)

    def _set_stream(self, stream: Any, settings: dict, units: tuple[dict, dict] | None = None) -> None:
        """Assign the state of the stream, all at once and last: an interrupt leaves it as it was, or as it is now."""
        time, n_seen = stream.n_seen, stream.n_rows_so_far
        n_open = stream.n_seen - getattr(stream, "begun", stream.n_seen)
        # Where the number of rows is private, so is how many of them wait.
        ticks = {"n_ticks_seen_": time, "n_ticks_waiting_": n_open} if stream.in_ticks else {"n_samples_waiting_": n_open}
        n_samples, error = stream.n_rows(time - min(time, self.window or time))
        sizes = {"n_samples_seen_": n_seen, "n_samples_": n_samples, "_size_error": error, **ticks}
        units = self._units if units is None else units
        self.__dict__.update(_stream=stream, _settings=settings, _units=units, _time=time, **sizes)

    @property
    def blocks_(self) -> tuple:
        """The blocks that were released and are kept, by time: (start, stop, fitted synthesizer)."""
        if not hasattr(getattr(self, "_stream", None), "blocks"):
            raise AttributeError(f"{type(self).__name__} has no blocks_ before rows came, or with strategy={self.strategy!r}.")
        return tuple(self._stream.blocks)

    @property
    def _first(self) -> int:
        """The row, or tick, with which the window begins."""
        return self._time - min(self._time, self._settings["window"] or self._time)

    def _budget(self) -> Budget:
        """Return the open budget; after loading, first open its record again, and a stream of noise."""
        if self._rng is None:
            self._resume_noise(check_rng(self.random_state), is_loaded=True)
        elif is_overtaken(self.accountant_):
            self._resume_noise(self._rng, is_loaded=False)
        return Budget(self.accountant_, self._rng)

    def _resume_noise(self, rng: Any, is_loaded: bool) -> None:
        """Continue where a copy stopped, or beside one: rows that were released may be released again only at a second charge."""
        stream, charged = self._stream, self.accountant_
        moved = resolve_accountant(self.accountant) if is_durable(charged) else None
        name = type(self).__name__
        loss = stream.epsilon, stream.delta
        accountant = resume(charged, name, stream.group, row=stream.first_row, stop_of=stream.stop_of, loss=loss, at=moved)
        if stream.stop_of is None or not is_durable(charged):
            # In memory it costs nothing; but who reads two ledgers with this line knows that they add up.
            words = f"resumed from a copy at {time_unit(self)[:-1]} {stream.n_seen}: another that goes on is a release of its own"
            mark_resumed(accountant, words, (stream.epsilon, stream.delta), stream.group)
        if is_loaded:
            stream.resume(accountant, rng)
        self.__dict__.update(_rng=rng, accountant_=accountant, _charged_to=self.accountant)

    def _mark(self, words: str) -> None:
        stream = self._stream
        mark_resumed(self.accountant_, f"{words} at {time_unit(self)[:-1]} {stream.n_seen}", (stream.epsilon, stream.delta), stream.group)
        self._was_saved = False

    def sample(self, n_samples: Any = None, random_state: Any = None, since: Any = None, *, out: Any = None, conditions: Any = None) -> Any:
        """Draw synthetic rows of the stream so far; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: the number of rows (in the window, or since `since`), or an estimate where it is private. Where
            that may be nothing but noise, being less than ten times its expected error, at most 2**24 cells: rows times columns.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of the stream.
        since : int, default=None
            Leave out rows before this row of the stream (where the number of rows is private: this tick), counted from 0; whole blocks
            count by the part of them that is left. Strategy "blocks" only.
        out : str or path-like, default=None
            A file that ends in ".parquet" (which needs pyarrow), ".csv" or ".tsv", or packed in ".csv.gz" or ".tsv.gz". The same rows are
            written there, a batch at a time.
        conditions : dict, default=None
            Allowed cells of some columns, as in `LatentFactorSynthesizer.sample`: rows have the law of the model given that.
            Only of mixed tables, whose blocks are joined.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that came first, with its columns and dtypes; or `out`, where it was given.

        Raises
        ------
        ValueError
            If `conditions` are given of a stream that has no joined blocks, or no row can meet them. Nothing is drawn then.
        """
        check_is_fitted(self, "_stream")
        return self._sample_request_since(n_samples, random_state, since, conditions).to(out)

    def sample_batches(
        self, n_samples: Any = None, batch_size: Any = BATCH, random_state: Any = None, since: Any = None, *, conditions: Any = None
    ) -> Iterator[Any]:
        """Draw synthetic rows of the stream so far in batches, in memory that does not grow with their number.

        Together they are the rows of `sample` with the same `n_samples`, `random_state`, `since` and `conditions`, in the same order.
        Rows of the stream that come meanwhile do not change them.

        Parameters
        ----------
        n_samples : int, default=None
            Rows of all batches together. None: the number of rows (in the window, or since `since`).
        batch_size : int, default=65536
            Rows of a batch; the last one has the rest.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of the stream.
        since : int, default=None
            As in `sample`.
        conditions : dict, default=None
            As in `sample`.

        Returns
        -------
        batches : iterator of arrays or data frames
        """
        check_is_fitted(self, "_stream")
        return self._sample_request_since(n_samples, random_state, since, conditions).batches(batch_size)

    def _sample_request_since(self, n_samples: Any, random_state: Any, since: Any, conditions: Any) -> SampleRequest:
        with lock_of(self):
            first = self._first if since is None else check_since(self, since)
            if n_samples is None:
                known, error = (self.n_samples_, self._size_error) if since is None else self._stream.n_rows(first)
                n_samples = default_n_samples(known, error, self.n_features_in_)
            number = check_n_samples(n_samples)
            stream = self._readable()  # more rows make a new state of blocks
            if conditions is not None:
                stream = self._condition_on(stream, conditions, first)
            return SampleRequest(
                self._container,
                self.n_features_in_,
                number,
                check_generator(random_state),
                lambda n, rng: self._draw_locked(stream.sample, n, first, rng),
                lambda n, rng: self._draw_locked(stream.sample_blocks, n, first, rng),
            )

    def _condition_on(self, stream: Any, conditions: Any, first: int) -> Any:
        if self._reader is None or not stream.is_conditional:
            raise ValueError(
                "conditions need a stream with synthesizer=LatentFactorSynthesizer(schema), whose blocks have one model, got another; "
                "draw more rows and keep those that you want, which costs no privacy."
            )
        return stream.given(conditions, first)

    def _public_schema(self) -> Schema | None:
        return super()._public_schema() if self._reader is None else self.schema_

    def _points(self, X: Any) -> Rows:
        return super()._points(X) if self._reader is None else continue_table(self._reader, X).map(partial(encode, schema=self.schema_))

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        rows = self._sample_rows(n_samples, rng)
        return rows if self._reader is None else encode(list(rows), self.schema_)

    @property
    def _has_schema(self) -> bool:
        return self._reader is not None

    @property
    def _stated_schema(self) -> Schema | None:
        schema = getattr(self.synthesizer, "schema", None)
        return None if schema is None else Schema.of(schema)

    def _draw_locked(self, draw: Callable[..., Any], *arguments: Any) -> Any:
        with lock_of(self):
            return draw(*arguments)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        with lock_of(self):
            return self._readable().sample(n_samples, self._first, rng)

    def _readable(self) -> Any:
        if self.strategy != "paper":
            return self._stream
        if self._rng is None and is_durable(self.accountant_):
            # Reading what was saved shows nothing new, since the noise of its time was drawn then: it is no second release.
            stream = copy.deepcopy(self._stream)
            stream.resume(self.accountant_.reopened(), check_rng(self.random_state))
            return stream
        self._budget()  # reading a counter may draw noise
        return self._stream


def check_in_memory(rows: Rows) -> None:
    """Refuse a table with units that is read in chunks: the units of each chunk must be known."""
    if not rows.source.in_memory:
        raise TypeError("X must be in memory where a stream has units, got a table that is read in chunks; give partial_fit each of them.")
