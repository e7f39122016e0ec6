"""Synthetic data from a stream."""

import copy
import numbers
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from skdpsynth._atomic_write import check_writable, output_path, pending_files
from skdpsynth._parallel import lock_of
from skdpsynth._serialization import require
from skdpsynth._validation import Between, Whole, check_choice, check_parameters, is_integer, short_repr, warn
from skdpsynth.domain import BoundsLike, Box, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, Plan, PrivateEstimator, check_part, check_rows_per_unit, check_y_is_ignored, clone_part
from skdpsynth.frames import Cell, FirstRows, Rows, Table, Unit, check_length, concatenate, split_units
from skdpsynth.persistence import savable, save_pending, to_bytes
from skdpsynth.privacy import AccountantLike, RandomBits, Seed, check_epsilon, check_rng, resolve_accountant, streams
from skdpsynth.statistics import RowCount, total
from skdpsynth.synthesis._base import (
    BATCH,
    BlockPlan,
    PrivateSynthesizer,
    SampleRequest,
    check_generator,
    check_n_samples,
    default_n_samples,
    warn_if_small,
)
from skdpsynth.synthesis._online_blocks import Blocks, MixedRows, NumericRows
from skdpsynth.synthesis._online_tree import GrowingTree, tree_depth
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.tables import continue_numbers, continue_table, encode, reading_options, start_table

_LONG = 100_000  # rows of a stream that is long enough
_FIXED_PARAMETERS = ("strategy", "counter", "epsilon", "delta", "neighboring", "bounds", "synthesizer", "max_rows_per_unit")
_CHANGEABLE_PARAMETERS = ("growth", "window", "horizon")


@dataclass(frozen=True, kw_only=True)
class _StreamPlan(Plan):
    stream: Any  # the first state: Blocks or GrowingTree


@savable
class OnlineSynthesizer(PrivateSynthesizer):
    """Synthetic data from a stream: at any time a synthetic table of the rows so far, all of them under one epsilon.

    Rows come by `partial_fit`, one or many at a time, in their order. The budget is forever: it does not grow with the stream. A lazy frame
    or query (polars, DuckDB, Ibis, a frame of Dask or Spark) states no order, and is refused where rows are counted.

    With ``neighboring="add_or_remove_one"`` the number of rows is private. Then time is counted in ticks: **each call of `partial_fit` is
    one tick**, with all the rows that came since the last call, in any order, or with none (an array or frame of no rows). Call it at times
    that do not depend on the rows, such as once an hour or a day.

    Parameters
    ----------
    strategy : {"blocks", "paper"}, default="blocks"
        "blocks": disjoint blocks of consecutive rows, each released with the whole epsilon when it is full; a sample is drawn from one
        model of all of them (where `synthesizer` allows it; else each block gives its share). "paper": Algorithm 12 of [1]_ with its
        budgets corrected, for comparison: a tree that grows with time, with a private counter in every cell.
    synthesizer : unfitted synthesizer, default=None
        The synthesizer of a block (strategy "blocks"). It is cloned when the stream starts, and gets its ``epsilon``, ``delta``,
        ``bounds``, ``neighboring``, ``accountant`` and ``random_state`` from the stream. None: `PrivateMeasureMechanism`. It gets rows of
        numbers. For mixed tables give ``LatentFactorSynthesizer(schema)``: it reads frames, or arrays of objects, by its schema, and
        `bounds` are not used. All bounds and levels must be public, because they must be known before the first row comes.
    growth : float or "auto", default=None
        How far the number of rows (ticks) grows over a block (strategy "blocks"): at most a share of 1 - 1/growth of the rows waits in the
        open block. None: 1.25; and 2.25 for `LatentFactorSynthesizer`, whose noise is least in few large blocks. "auto": blocks of order
        t**(d / (d + 1)) rows at time t for d columns, so that this share tends to zero; see the guide on streams.
    window : int, default=None
        Synthesize the last `window` rows (ticks) only, by whole blocks: up to a block of older rows is among them, and up to a block of the
        newest still waits. None: all.
    counter : {"kary", "binary", "sparse"}, default="kary"
        The counter in the cells (strategy "paper"); "sparse" is the published choice.
    horizon : int, default=None
        Most rows (ticks) that will ever come; more are refused. Give it if you know how long the stream will be: where blocks have one
        model and there is no `window`, a block ends with it, so that no row waits in the end. None: no end.
    epsilon : float, default=1.0
        The whole budget of the stream. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Handed to `synthesizer` where it is given; else no delta is spent.
    bounds : tuple or dict, default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Event level: two streams are neighbors if they differ in one row. "replace_one": the number of rows and their order are public; a
        row more or less would shift all that follow, which is not covered. "add_or_remove_one": one stream has a row more in one tick. The
        number of ticks and the times of the calls are public; how many rows came, in a tick or in all, is private.
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit` (a column that says whose row it is): how many rows of each unit count, the first ones to arrive. Then
        `epsilon` protects all rows of a unit together, and the noise is that many times larger. It must be public; see the guide on units.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged the whole ``epsilon`` (and delta) when the stream starts.
        None: one of its own for each stream.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    n_samples_seen_ : int
        Rows so far: public; under "add_or_remove_one" an estimate from noisy counts (at least 1).
    n_samples_waiting_ : int
        Rows in the open block, of which nothing is released yet: public. Only under "replace_one".
    n_ticks_seen_, n_ticks_waiting_ : int
        Ticks so far, and those of the open block: public. Only under "add_or_remove_one", where how many rows wait is private.
    n_samples_ : int
        Rows that a sample stands for: all so far, or those of the window; also an estimate where they are private.
    schema_ : Schema
        In the order of the columns. Only of mixed tables.
    accountant_ : PrivacyAccountant
        What was spent: blocks (or levels of time) are a group, which costs what one of them does.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, or rows do not fit those before; the object is then as it was.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left when the stream starts.

    Warns
    -----
    SmallSampleWarning
        If cells can never be cut along all features, so that some come out uniform; if the first block waits for more rows than came at
        first; or if a block is left out because its release was interrupted after it was charged.
    BudgetWarning
        If epsilon is above 20, or delta above one over the number of rows that came first.

    See Also
    --------
    PrivateMeasureMechanism : Runs on each block by default.
    skdpsynth.continual.KaryCounter : Counts in the cells of the published form.

    Notes
    -----
    *Privacy.* All that is ever sampled is epsilon-differentially private (event level). "blocks": where blocks begin and end follows from
    the number of rows alone (of ticks: from their number, and for ``growth="auto"`` from earlier releases), a row is in one block by its
    position, and nothing of an open block is released. So the stream costs what one block does (parallel composition), also if later rows
    depend on earlier samples. "paper": a row is counted by the counters of one level of time, in one cell of each depth; the budgets of all
    depths sum to epsilon. `sample` is free. `score` is not private.

    *Units.* With `unit` the rows of one unit are replaced by as many others, wherever in the stream they came. With j_b of its k rows in
    block b, whose noise is for k rows, the block loses ``epsilon j_b / k`` on them, and all blocks together epsilon at most. The stream
    remembers every label that ever came, because one that was forgotten could come again with new rows: its state grows with the units.

    *State.* The rows of the open block are kept, without their order and on the public grid (mixed rows: as the schema reads them), and
    the counters of "paper" hold exact counts and noise. No attribute shows them, but the object in memory, its pickle and its file are **as
    secret as the data**. They hold no seed: after loading, noise is secure unless `random_state` is set again. With a `window` state and
    file stay as small as the window, however long the stream.

    *Copies.* If you load a saved stream twice and continue both, rows seen by both cost epsilon twice. A ledger in a file sees it: a loaded
    stream continues at no charge if nothing was released of the rows that come next, and else is charged epsilon once more, or refused.

    *Threads, forks, interrupts, kills.* Threads may share a stream: it has one lock. A forked process may sample "blocks" and start streams
    of its own, but continue this one only with a ledger in a file. A `partial_fit` that fails has taken in no row, and may be repeated. One
    that is interrupted has taken in all rows (of a table that is not in memory: some chunks) or none, and `n_samples_seen_` or
    `n_ticks_seen_` tells which: go on from there, because rows that come twice may be released twice for one charge. A block that was
    charged by then is left out, with a warning. With `save`, also a killed process loses no row and pays once. The guide on streams has the
    steps, the assumptions and how blocks are joined.

    Before the first block is full, samples are uniform in the bounds, and over the levels. Mixed tables keep the rules of the schema then.

    References
    ----------
    .. [1] He (2025), dissertation, Algorithm 12.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import OnlineSynthesizer
    >>> stream = np.random.default_rng(0).beta(2, 5, size=(3000, 2))
    >>> model = OnlineSynthesizer(epsilon=1.0, bounds=(0, 1))
    >>> for batch in np.array_split(stream, 30):
    ...     synthetic = model.partial_fit(batch).sample(100)
    >>> synthetic.shape, model.n_samples_seen_, model.accountant_.spent
    ((100, 2), 3000, Fraction(1, 1))
    >>> hourly = OnlineSynthesizer(neighboring="add_or_remove_one", bounds=(0, 1))
    >>> for rows in (stream[:800], stream[:0], stream[800:]):  # the second hour is empty
    ...     hourly = hourly.partial_fit(rows)
    >>> hourly.n_ticks_seen_
    3
    """

    _keeps_budget_open = True
    _buys_facts = False
    _counts_rows = False  # blocks, or counters, tell how many there are
    _may_be_empty = False  # whether the first rows may be none
    _starting: Any = None  # a list for the first rows, where the stream is saved before it takes them in

    _stream: Any
    _rng: Any
    _said: str  # the last warning
    _was_saved: bool = False
    _settings: dict  # parameters as they were when the last rows came
    _time: int  # rows, or ticks, that were taken in
    # Rows of each unit that were taken in: before the last call, and after it of the units that it had. None where the unit is the row.
    _units: tuple[dict, dict] | None = None
    _reader: Any = None  # of mixed tables: an unfitted synthesizer that knows columns, dtypes and schema of the first rows

    def __init__(
        self,
        strategy: str = "blocks",
        *,
        synthesizer: BaseEstimator | None = None,
        growth: float | Literal["auto"] | None = None,
        window: int | None = None,
        counter: str = "kary",
        horizon: int | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
    ) -> None:
        self.strategy = strategy
        self.synthesizer = synthesizer
        self.growth = growth
        self.window = window
        self.counter = counter
        self.horizon = horizon
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state

    @property
    def _in_ticks(self) -> bool:
        """Whether the number of rows is private, so that each call is a tick."""
        return bool(self.neighboring == "add_or_remove_one")

    @property
    def _time_unit(self) -> str:
        return "tick" if self._in_ticks else "row"

    @property
    def _window_start(self) -> int:
        """The row, or tick, with which the window begins."""
        return self._time - min(self._time, self._settings["window"] or self._time)

    # The beginning

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        check_choice("strategy", self.strategy, ("blocks", "paper"))
        given = self.synthesizer
        if self.strategy == "paper" or getattr(given, "schema", None) is None or not isinstance(given, PrivateSynthesizer):
            rows, more = super()._open_table(X)
        else:
            self._reader = reader = clone(given).set_params(bounds=self.bounds)
            reader._buys_facts = False  # they must stand before the first row comes
            self._container, rows = start_table(reader, X, self._least_rows)
            del reader._buys_facts
            reader._container, reader.schema_ = self._container, self._container.schema
            names = ("schema_", "n_features_in_", "feature_names_in_")
            self.__dict__.update({name: vars(reader)[name] for name in names if name in vars(reader)})
            more = {"schema": self.schema_.coded}
        self._check_order(rows)
        return rows, more

    @property
    def _least_rows(self) -> int:
        return 0 if self._may_be_empty else super()._least_rows

    def _bound_contributions(self, rows: Rows, labels: Unit, rng: RandomBits) -> Rows:
        """Return the first rows of each unit: later rows must not decide which earlier ones count."""
        self._units = ({}, {})
        rows, self._units = self._first_rows_of_units(rows, labels)
        return rows

    def _first_rows_of_units(self, rows: Rows, labels: Unit) -> tuple[Rows, tuple[dict, dict]]:
        if not rows.source.in_memory:  # the units of each chunk must be known
            raise TypeError(
                "X must be in memory where a stream has units, got a table that is read in chunks; give partial_fit each of them."
            )
        check_length(labels or [], rows.n_samples)
        before, latest = self._units or ({}, {})
        before.update(latest)  # the same again, if something broke in after it
        counting = FirstRows(self._rows_per_unit, before)
        return rows.only(counting.mask(labels or [])), (before, counting.latest)

    def _plan(self, facts: Facts) -> _StreamPlan:
        self._check_parameters()
        self._check_horizon(0, 1 if facts.n_samples is None else facts.n_samples)
        given, box = self.synthesizer is not None, cast("Box", facts.box)
        # The stream may grow, so it is warned of what a long one would not help.
        part = facts.part(delta=facts.delta if given else 0, n_samples=max(facts.n_samples or 1, _LONG))
        if self.strategy == "paper":
            warn_if_small(part, tree_depth(part.size))
            stream: Any = GrowingTree(Box(box.low, box.high), facts.epsilon, self.counter, self._in_ticks)
        else:
            if self.synthesizer is None:
                inner: Any = PrivateMeasureMechanism()
            else:
                inner = clone_part(self.synthesizer, "OnlineSynthesizer", "None or ", takes_tables=self._reader is not None)
            first = clone(inner)
            check_part(first, part)
            if self._in_ticks:
                if not isinstance(inner, PrivateEstimator):
                    raise ValueError(
                        'synthesizer must derive from PrivateSynthesizer for neighboring="add_or_remove_one", because it must release how '
                        f"many rows a block has; {type(inner).__name__} does not."
                    )
                check_part(clone(inner), part.part(n_samples=1))  # as few may be found
            plan = first._plan_blocks(part.part()) if isinstance(first, PrivateSynthesizer) else BlockPlan()
            if self._reader is not None:
                kept: Any = MixedRows(self._reader)
            else:  # a single column is cut finer than many
                kept = NumericRows(box.with_bits(30) if box.n_features == 1 else box, self._container)
            stream = Blocks(kept, inner, plan, facts.epsilon, part.delta, facts.rows_per_unit, self._in_ticks)
            if (facts.n_samples or plan.least) < plan.least:
                part.warn(f"samples are uniform until {plan.least} rows have come, because the noise of fewer would be all that they show.")
        facts.warnings.extend(part.warnings)
        return _StreamPlan(spends_delta=given, stream=stream)

    def _release(self, rows: Rows, plan: _StreamPlan, budget: Budget) -> None:
        self._rng, self._charged_to, self._was_saved, self._said = budget.rng, self.accountant, False, ""
        streams.guard_account(budget.accountant)
        stream, self._time = plan.stream, 0
        chunks: Iterable[Any] = ()
        if self._starting is None:
            chunks = [rows.collect()] if self._in_ticks else rows.chunks()
        else:  # with no rows, which come once that is saved
            self._starting.append((rows, self._units))
            self._units = None if self._units is None else ({}, {})
        for chunk in chunks:
            stream = stream.with_new_rows(chunk, self, budget)
            self._time = stream.n_seen
        self._set_stream(stream, self._current_settings())

    def _begin(self, X: Table, unit: Unit, place: Path | None) -> Any:
        """Begin the stream; if it is saved, with no rows, save that, and take in the rows.

        So the file is there before anything is drawn: a process that loads it continues in the account that was charged. If the process is
        killed before that, the account is charged and pending, and the next stream that begins so takes it over.
        """
        starting: list[Any] = []
        self.__dict__.update(_may_be_empty=True, **({} if place is None else {"_starting": starting, "_claims": True}))
        try:
            self.fit(X, unit=unit)
        finally:
            for name in ("_may_be_empty", "_starting", "_claims"):
                self.__dict__.pop(name, None)
        if place is not None:
            save_pending(self, place).move()
            rows, units = starting.pop()
            self._take_rows(rows, self._settings, place, units)

    # More rows

    def partial_fit(self, X: Table, y: object = None, unit: Unit = None, *, save: str | PathLike[str] | None = None) -> "OnlineSynthesizer":
        """Take in the next rows of the stream, in their order; one at a time or many give the same.

        Under "add_or_remove_one" this is a tick: all rows that came since the last call. All rows are taken in, or none; a table that is
        not in memory is taken in by chunks (a tick as a whole).

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Finite numbers, or cells that a schema describes. Values outside `bounds` are clipped. There may be no rows, also at first: an
            array of shape (0, n_features), or a frame. Dtypes are checked, but a column of words or times that comes as floats after the
            first rows counts as missing cells only: data frames write a column so in which all cells are missing, and an error would tell
            of that. State the dtypes of the first rows if that may happen, as by ``astype("string")``.
        y : None
            Ignored.
        unit : str, int or array-like of shape (n_samples,), default=None
            As in `fit`, and always or never along a stream, which remembers every label that ever came: see Notes. `X` must be in memory.
        save : str or path-like, default=None
            Where to save the stream in the same step: if the process is killed at any point, `load` of this file goes on at no further
            charge, and no row is lost or released twice. Not with ``strategy="paper"``. A stream that begins refuses a file that exists.

        Returns
        -------
        self : OnlineSynthesizer
        """
        check_y_is_ignored(y)
        # On one line, so that as little as possible runs after the rows are taken in, where an interrupt would look as if they were not.
        with lock_of(self): return self._take_table(X, unit, save) or self  # fmt: skip  # noqa: E701

    def _take_table(self, X: Table, unit: Unit, save: str | PathLike[str] | None) -> Any:
        place = None if save is None else self._check_save_path(save)
        if not hasattr(self, "_stream"):
            return self._begin(X, unit, place)
        settings = self._check_settings()
        if (unit is None) != (self._units is None):
            was = "none" if self._units is None else "one"
            raise ValueError(f"unit must be given always or never along a stream, which began with {was}; call fit to start a new one.")
        X, labels = (X, None) if unit is None else split_units(X, unit, **reading_options(self, unit))
        # They may be none.
        rows = continue_numbers(self, X, 0) if self._reader is None else continue_table(self._reader, X, 0, are_inferred=True)
        self._check_order(rows)
        rows, units = (rows, None) if unit is None else self._first_rows_of_units(rows, labels)
        n_samples = total(rows, RowCount.over()).n_samples if rows.n_samples is None and not self._in_ticks else rows.n_samples
        self._check_horizon(self._time, 1 if self._in_ticks else n_samples or 0)
        return self._take_rows(rows, settings, place, units)

    def _take_rows(self, rows: Rows, settings: dict, place: Path | None, units: tuple[dict, dict] | None) -> Any:
        """Take in checked rows: at once where they are in memory, make a tick, or are saved; else a chunk at a time."""
        is_one = self._in_ticks or rows.source.in_memory
        chunks: Any = [rows.collect()] if is_one else rows.chunks()
        if place is None:
            if is_one:
                return self._take_chunk(chunks[0], settings, units)
            for chunk in chunks:
                self._take_chunk(chunk, settings, units)
            return
        # Take them in and save the result, as if in one step; `skdpsynth.privacy._streams` has the steps and their proof.
        budget = self._budget()
        before: Any = self._stream
        stream, charged = before, [*before.charged]
        with streams.pending_charges(self.accountant_):
            try:
                with np.errstate(all="ignore"):
                    for chunk in chunks:
                        stream = stream.with_new_rows(chunk, self, budget)
                self._save_state(stream, settings, units, place)
            except BaseException:
                if self._stream is before and budget.is_broken:
                    # An error of a release may follow from its noise, so a second draw would cost too: its block is left out for good.
                    with suppress(Exception):
                        self._save_state(before, self._settings, None, place)
                elif self._stream is before:
                    before.charged[:] = charged  # nothing of it was shown, so it may be drawn again
                raise

    def _take_chunk(self, X: Table, settings: dict, units: tuple[dict, dict] | None) -> Any:
        budget = self._budget()
        streams.settle(budget.accountant, is_first=not self._time)  # as what is drawn now may be shown, nobody else may begin here
        was = self._stream
        if self._was_saved and was.stop_of is None and streams.is_durable(self.accountant_):
            words = f"goes on after it was saved at {self._time_unit} {was.n_seen}"
            streams.mark_resumed(self.accountant_, words, (was.epsilon, was.delta), was.group)
            self._was_saved = False
        with np.errstate(all="ignore"):  # a floating-point warning would tell of values, and an error would cost a block
            stream = was.with_new_rows(X, self, budget)
        self._set_stream(stream, settings, units)

    def _set_stream(self, stream: BaseEstimator, settings: dict, units: tuple[dict, dict] | None = None) -> None:
        """Assign the state of the stream, all at once and last: an interrupt leaves it as it was, or as it is now."""
        time = stream.n_seen
        n_seen = max(1, round(stream.left + stream.n_rows(0)[0])) if stream.in_ticks else time
        n_open = time - getattr(stream, "begun", time)
        # Where the number of rows is private, so is how many of them wait.
        ticks = {"n_ticks_seen_": time, "n_ticks_waiting_": n_open} if stream.in_ticks else {"n_samples_waiting_": n_open}
        n_samples, error = stream.n_rows(time - min(time, settings["window"] or time))
        sizes = {"n_samples_seen_": n_seen, "n_samples_": n_samples, "_size_error": error, **ticks}
        units = self._units if units is None else units
        self.__dict__.update(_stream=stream, _settings=settings, _units=units, _time=time, **sizes)

    def _warn_once(self, message: str) -> None:
        """Warn while rows are taken in; but once, so that they come in after a warning that the caller turns into an error."""
        if message != self._said:
            self._said = message
            warn(message, SmallSampleWarning)

    def _save_state(self, stream: BaseEstimator, settings: dict, units: tuple[dict, dict] | None, place: Path) -> None:
        """Save a state, and make it that of the stream."""
        ahead: Any = object.__new__(type(self))
        vars(ahead).update(vars(self))
        ahead._set_stream(stream, settings, units)
        accountant, aside = self.accountant_, None
        try:
            aside = save_pending(ahead, place)
            streams.settle(accountant, is_first=not self._time)
            streams.finish(accountant, aside.move)
        except BaseException:
            if streams.is_settled(accountant) or (aside is not None and aside.is_moved):
                self._set_stream(stream, settings, units)
                streams.acknowledge_settled(accountant)
            elif aside is not None:
                streams.unsettle(accountant)
                aside.remove()
            raise
        self._set_stream(stream, settings, units)
        streams.acknowledge_settled(accountant)
        for left in pending_files(place):
            left.remove()  # of processes that were killed, or were too late

    # A stream that was loaded

    def _charge_to(self, accountant: AccountantLike) -> None:
        opened: Any = resolve_accountant(accountant)
        if hasattr(self, "accountant_"):
            if not (streams.is_durable(self.accountant_) and streams.is_durable(opened)):
                raise ValueError(
                    "accountant must be the ledger in a file that a stream was charged in, or one that has imported it, got a ledger in "
                    "memory, or one for a stream that has its own; leave it out."
                )
            streams.is_latest_checkpoint(self.accountant_, opened)  # raises where that ledger does not hold what the stream was charged
        self.accountant = opened

    def _recover(self, path: str | PathLike[str], read: Callable[[Any], Any]) -> Any:
        """Return the last settled state of a stream that was loaded from a path: this one, or one beside it."""
        is_durable = hasattr(self, "accountant_") and streams.is_durable(self.accountant_)
        if not is_durable or not (asides := pending_files(output_path(path))):
            return self
        at = resolve_accountant(self.accountant)
        if streams.is_latest_checkpoint(self.accountant_, at):
            return self
        for aside in asides:
            try:
                other = read(aside.beside)
            except (OSError, ValueError):  # it was not written to its end
                continue
            if isinstance(other, OnlineSynthesizer) and streams.recover(other.accountant_, at, aside.move):
                other.accountant = self.accountant
                return other
        return self

    def _budget(self) -> Budget:
        """Return the open budget.

        After loading, or where a copy went on, first continue in a record of its own: rows that were released may be released again only at
        a second charge.
        """
        is_loaded = self._rng is None
        if is_loaded or streams.is_overtaken(self.accountant_):
            rng = check_rng(self.random_state) if is_loaded else self._rng
            stream, charged = self._stream, self.accountant_
            moved = resolve_accountant(self.accountant) if streams.is_durable(charged) else None
            loss = stream.epsilon, stream.delta
            accountant = streams.resume(
                charged, type(self).__name__, stream.group, row=stream.first_row, stop_of=stream.stop_of, loss=loss, at=moved
            )
            if stream.stop_of is None or not streams.is_durable(charged):
                # In memory it costs nothing; but who reads two ledgers with this line knows that they add up.
                words = f"resumed from a copy at {self._time_unit} {stream.n_seen}: another that goes on is a release of its own"
                streams.mark_resumed(accountant, words, loss, stream.group)
            if is_loaded and isinstance(stream, GrowingTree):  # blocks open their own accounts
                stream.resume(accountant, rng)
            self.__dict__.update(_rng=rng, accountant_=accountant, _charged_to=self.accountant)
        return Budget(self.accountant_, self._rng)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not hasattr(self, "accountant_"):
            return
        stream = self._stream
        require(isinstance(stream, Blocks | GrowingTree) and stream.n_seen == self._time)
        # A row moves fewer counts of a tick, and a unit of fewer rows fewer: less noise would cover them.
        begun, n_rows = self._settings, self.accountant_.rows_per_unit
        require(stream.in_ticks == (begun["neighboring"] == "add_or_remove_one") and stream.epsilon == check_epsilon(begun["epsilon"]))
        require(n_rows == begun["max_rows_per_unit"] and (isinstance(stream, GrowingTree) or stream.rows_per_unit == n_rows))
        require((self._units is None) == (self.accountant_.unit is None))
        require("_charged_to" in vars(self) and self._current_settings().keys() <= self._settings.keys())
        require((self.n_ticks_seen_ if stream.in_ticks else self.n_samples_seen_) == stream.n_seen)
        require(all(count >= 1 for each in self._units or () for count in each.values()))  # less would let more rows in
        require(self._rng is None and (self._reader is None or isinstance(self._reader, PrivateSynthesizer)))

    def _try_loaded(self) -> None:
        """Draw some rows where that has no consequences: counters would take noise, and a model of all blocks takes long to make."""
        blocks = getattr(self._stream, "blocks", ()) if hasattr(self, "accountant_") else ()
        if blocks and self._stream.plan.is_joined and not self._stream.plan.is_fast:
            blocks[-1][-1]._try_loaded()
        elif blocks:
            super()._try_loaded()

    def __copy__(self) -> "OnlineSynthesizer":
        return copy.deepcopy(self)  # a shallow one would share the rows of the open block

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            state = super().__getstate__()
            if "_stream" in state:
                # No stream of noise leaves memory: a seed would void the promise, and there is no other state.
                state |= {"_stream": self._stream.snapshot(), "accountant_": streams.checkpoint(self.accountant_), "_was_saved": False}
                state["_units"] = None if self._units is None else ({**self._units[0], **self._units[1]}, {})
                state |= dict.fromkeys(("_rng", "random_state", "_charged_to"))
                self._was_saved = True
            return state

    # Samples

    @property
    def blocks_(self) -> tuple:
        """The blocks that were released and are kept, by time: (start, stop, fitted synthesizer)."""
        if not hasattr(getattr(self, "_stream", None), "blocks"):
            raise AttributeError(f"{type(self).__name__} has no blocks_ before rows came, or with strategy={self.strategy!r}.")
        return tuple(self._stream.blocks)

    def sample(
        self,
        n_samples: int | None = None,
        random_state: Seed = None,
        since: int | None = None,
        *,
        out: str | PathLike[str] | None = None,
        conditions: Mapping[Hashable, Cell] | None = None,
    ) -> Any:
        """Draw synthetic rows of the stream so far; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: the number of rows (in the window, or since `since`), or an estimate where it is private. If that is less than ten times
            its expected error, and so may be nothing but noise: at most 2**24 cells, rows times columns.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of the stream.
        since : int, default=None
            Leave out rows before this row (or tick) of the stream, counted from 0; a block that began before counts by the part that is
            left. Strategy "blocks" only.
        out : str or path-like, default=None
            A file that ends in ".parquet" (which needs pyarrow), ".csv" or ".tsv", or packed in ".csv.gz" or ".tsv.gz". The same rows are
            written there, a batch at a time.
        conditions : dict, default=None
            Allowed cells of some columns, as in `LatentFactorSynthesizer.sample`: rows have the law of the model given that. Only of mixed
            tables, whose blocks are joined. Conditions that no row can meet are refused, and nothing is drawn.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that came first, with its columns and dtypes; or `out`, where it was given.
        """
        check_is_fitted(self, "_stream")
        return self._sample_request_since(n_samples, random_state, since, conditions).to(out)

    def sample_batches(
        self,
        n_samples: int | None = None,
        batch_size: int = BATCH,
        random_state: Seed = None,
        since: int | None = None,
        *,
        conditions: Mapping[Hashable, Cell] | None = None,
    ) -> Iterator[Any]:
        """Draw synthetic rows of the stream so far in batches, in memory that does not grow with their number.

        Together they are the rows of `sample` with the same parameters, in the same order. Rows that come meanwhile do not change them.

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

    def _sample_request_since(
        self, n_samples: int | None, random_state: Seed, since: int | None, conditions: Mapping[Hashable, Cell] | None
    ) -> SampleRequest:
        with lock_of(self):
            first, last = self._window_start, self._time - 1
            if since is not None:
                if self.strategy != "blocks":
                    raise ValueError('since must be None for strategy="paper", which keeps no history; use strategy="blocks".')
                if not is_integer(since, first, last):
                    raise ValueError(f"since must be a {self._time_unit} of the stream from {first} to {last}, got {short_repr(since)}.")
                first = int(since)
            if n_samples is None:
                known, error = (self.n_samples_, self._size_error) if since is None else self._stream.n_rows(first)
                n_samples = default_n_samples(known, error, self.n_features_in_)
            number = check_n_samples(n_samples)
            stream = self._state_to_sample()  # more rows make a new state of blocks
            draw = stream.sample_blocks
            if conditions is not None:
                if self._reader is None or not stream.plan.is_joined:
                    raise ValueError(
                        "conditions need a stream with synthesizer=LatentFactorSynthesizer(schema), whose blocks have one model, got "
                        "another; draw more rows and keep those that you want, which costs no privacy."
                    )
                draw = partial(draw, model=stream.model(first)._condition_on(conditions))

        def blocks(n_samples: int, rng: np.random.Generator) -> Iterator[Any]:
            with lock_of(self):  # blocks that come now are of the present model
                return draw(n_samples, first, rng)

        def rows(n_samples: int, rng: np.random.Generator) -> Any:
            return concatenate(blocks(n_samples, rng))

        return SampleRequest(self._container, self.n_features_in_, number, check_generator(random_state), rows, blocks)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        with lock_of(self):
            return concatenate(self._state_to_sample().sample_blocks(n_samples, self._window_start, rng))

    def _state_to_sample(self) -> Any:
        """Return the state to draw from, with the lock held."""
        if self.strategy != "paper":
            return self._stream
        if self._rng is None and streams.is_durable(self.accountant_):
            # Reading what was saved shows nothing new, since the noise of its time was drawn then: it is no second release.
            stream = copy.deepcopy(self._stream)
            stream.resume(self.accountant_.reopen(), check_rng(self.random_state))
            return stream
        self._budget()  # reading a counter may draw noise
        return self._stream

    # Mixed tables

    def _public_schema(self) -> Schema | None:
        return super()._public_schema() if self._reader is None else self.schema_

    def _points(self, X: Table) -> Rows:
        return super()._points(X) if self._reader is None else continue_table(self._reader, X).map(partial(encode, schema=self.schema_))

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        rows = self._sample_rows(n_samples, rng)
        return rows if self._reader is None else encode(list(rows), self.schema_)

    @property
    def _lacks_bounds(self) -> bool:
        return self._reader is None and self.bounds is None

    @property
    def _stated_schema(self) -> Schema | None:
        schema = getattr(self.synthesizer, "schema", None)
        return None if schema is None else Schema.of(schema)

    # Parameters

    def _check_parameters(self) -> None:
        table = {
            "strategy": ("blocks", "paper", ""),
            "counter": ("kary", "binary", "sparse", ""),
            "growth": (None, "auto", Between(1), "None is the default"),
            "window": (None, Whole(1), "None sets no limit"),
            "horizon": (None, Whole(1), "None sets no limit"),
        }
        check_parameters(self, table)
        if self.strategy == "paper" and (self.window is not None or self.synthesizer is not None):
            raise ValueError('window and synthesizer must be None for strategy="paper"; use strategy="blocks".')
        check_rows_per_unit(self.max_rows_per_unit, check_epsilon(self.epsilon))
        if self._rows_per_unit > 1 and (self.strategy == "paper" or self.delta):
            # That blocks cost one of them together, where each holds some rows of a unit, is proved for pure losses.
            raise ValueError(
                'max_rows_per_unit must be 1 for a stream with strategy="paper" or delta > 0, got '
                f'{self._rows_per_unit}; use strategy="blocks" and delta=0.'
            )

    def _current_settings(self) -> dict:
        settings = {name: getattr(self, name) for name in (*_FIXED_PARAMETERS, *_CHANGEABLE_PARAMETERS)}
        return {**settings, "bounds": copy.deepcopy(self.bounds)}  # arrays could be changed in place

    def _check_settings(self) -> dict:
        """Return the parameters from now on; refuse those that may not change along a stream."""
        shared, was = self.accountant, self._charged_to
        may_move = self._rng is None and streams.is_durable(self.accountant_)  # where its ledger lies now
        if not (shared is was or may_move or all(given is None or getattr(given, "closed", False) for given in (shared, was))):
            raise ValueError("accountant must not change along a stream; set it back, or call fit to start a new one.")
        if all(getattr(self, name) is was for name, was in self._settings.items()):
            return self._settings
        self._check_parameters()
        if changed := [name for name in _FIXED_PARAMETERS if not _is_unchanged(getattr(self, name), self._settings[name])]:
            raise ValueError(f"{', '.join(changed)} must not change along a stream; set it back, or call fit to start a new one.")
        dropped = self._stream.dropped
        if dropped > 0 and (self.window is None or self._time - self.window < dropped):
            raise ValueError(
                f"window must not grow beyond what is kept, the {self._time_unit}s from {dropped} on, got {short_repr(self.window)}; "
                "fit a new stream."
            )
        return self._current_settings()

    def _check_horizon(self, seen: int, more: int) -> None:
        if self.horizon is not None and seen + more > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} {self._time_unit}s, {seen} have come, and {more} more would pass it; raise horizon, or fit a "
                "new stream."
            )

    def _check_order(self, rows: Rows) -> None:
        """Refuse rows in no stated order where blocks are cut by it: one row more might reorder all, and so change all blocks."""
        if not (rows.source.has_order or self._in_ticks):  # within a tick rows have no order
            raise TypeError(
                "X must come in a stated order for OnlineSynthesizer, which cuts blocks by position, got a lazy frame or query, which has "
                "none; write its rows in order of arrival to a Parquet file and give the path, or give it in memory."
            )

    def _check_save_path(self, save: str | PathLike[str] | None) -> Path:
        """Return the path at which a stream is saved as it takes in rows; refuse one that cannot be written, before any charge."""
        place = output_path(save, "save", "None or a path")
        if self.strategy != "blocks":
            raise ValueError(
                'save must be None for strategy="paper", whose counters draw their noise in place; call its method save after the rows, or '
                'use strategy="blocks".'
            )
        if not hasattr(self, "_stream"):
            if place.exists():
                raise FileExistsError(
                    f"save must name no file that exists where a stream begins, got {short_repr(str(place))}; load it, or name another."
                )
            if hasattr(self.synthesizer, "get_params") and not isinstance(self.synthesizer, type):
                to_bytes(clone(self.synthesizer))  # raises where it cannot be saved
        check_writable(place)
        return place


def _is_unchanged(value: object, was: object) -> bool:
    if isinstance(value, tuple | list) and isinstance(was, tuple | list):
        return len(value) == len(was) and all(np.array_equal(a, b) for a, b in zip(value, was, strict=True))
    return value is was or repr(value) == repr(was) or (isinstance(value, numbers.Real) and isinstance(was, numbers.Real) and value == was)
