"""Synthetic data from a stream."""

import copy
from dataclasses import dataclass
from typing import Any

from skdpsynth._parallel import lock_of
from skdpsynth.fitting import Budget, Facts, Plan, check_y_is_ignored
from skdpsynth.frames import FirstRows, Rows, check_length
from skdpsynth.persistence import savable
from skdpsynth.privacy import RandomBits, checkpoint, guard_account
from skdpsynth.synthesis._base import warn_if_small
from skdpsynth.synthesis._online_blocks import Blocks
from skdpsynth.synthesis._online_rows import MixedRows, NumericRows
from skdpsynth.synthesis._online_running import RunningStream, check_in_memory
from skdpsynth.synthesis._online_settings import (
    check_horizon,
    check_inner,
    check_parameters,
    counts_ticks,
    current_settings,
    min_block_rows,
    mixed_table_reader,
    start_reading,
)
from skdpsynth.synthesis._online_tree import GrowingTree, tree_depth

_LONG = 100_000  # rows of a stream that is long enough


@dataclass(frozen=True, kw_only=True)
class _StreamPlan(Plan):
    """The first state of the stream."""

    inner: Any  # the unfitted synthesizer of a block
    kept: NumericRows | MixedRows  # how rows wait
    least: int  # rows of a block


@savable
class OnlineSynthesizer(RunningStream):
    """Synthetic data from a stream: at any time a synthetic table of the rows so far, all of them under one epsilon.

    Rows come by `partial_fit`, one or many at a time, in their order. The budget is forever: it does not grow with the stream. A lazy frame
    or query (polars, DuckDB, Ibis, a frame of Dask or Spark) states no order, and is refused where rows are counted.

    With ``neighboring="add_or_remove_one"`` how many rows come is private. Then time is counted in ticks: **each call of `partial_fit` is
    one tick**, with all the rows that came since the last, in any order, or with none (an array or frame of no rows). Call it at times
    that do not depend on the rows, such as once an hour or a day.

    Parameters
    ----------
    strategy : {"blocks", "paper"}, default="blocks"
        "blocks": disjoint blocks of consecutive rows, each released with the whole epsilon when it is full; a sample is drawn from one
        model of all of them (where `synthesizer` allows it; else each block gives its share). "paper": Algorithm 12 of [1]_ with its
        budgets corrected, for comparison: a tree that grows with time, with a private counter in every cell.
    synthesizer : unfitted synthesizer, default=None
        The synthesizer of a block (strategy "blocks"): it is cloned when the stream starts, and gets its ``epsilon``, ``delta``,
        ``bounds``, ``neighboring``, ``accountant`` and ``random_state`` set. None: `PrivateMeasureMechanism`. It gets rows of numbers. For
        mixed tables give ``LatentFactorSynthesizer(schema)``: then frames, or arrays of objects, are read by its schema, and `bounds` are
        not used. All bounds and levels must be public, because they must be known before the first row comes.
    growth : float or "auto", default=None
        How far rows grow from the start of a block to its end (strategy "blocks"): at most a share of 1 - 1/growth of the rows
        waits in the open block. None: 1.25; and 2.25 for `LatentFactorSynthesizer`, the noise of whose model is least if blocks are few
        and large. "auto": blocks of order t**(d / (d + 1)) rows at time t, so that this share tends to zero; see Notes.
        Where the number of rows is private: how far the number of ticks grows.
    window : int, default=None
        Synthesize the last `window` rows only (where their number is private: ticks), by whole blocks: up to a block of older rows is
        among them, and up to a block of the newest still waits. None: all.
    counter : {"kary", "binary", "sparse"}, default="kary"
        The counter in the cells (strategy "paper"); "sparse" is the published choice.
    horizon : int, default=None
        Most rows (where their number is private: ticks) that will ever come; more are refused. Where blocks have one model and there is no
        `window`, a block ends with it, so that no row waits in the end: give it if you know how long the stream will be. None: no end.
    epsilon : float, default=1.0
        The whole budget of the stream. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Handed to `synthesizer` where it is given; else no delta is spent.
    bounds : tuple or dict, default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Event level: two streams are neighbors if they differ in one row. "replace_one": how many rows come, and in which order, is
        public; a row more or less would shift all that follow, which is not covered. "add_or_remove_one": one of them has a row more in
        one tick. The number of ticks and the times of the calls are public; how many rows came, in a tick or in all, is private.
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit` (a column that says whose row it is): how many rows of each count, the first ones to arrive. Then
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
    blocks_ : tuple of (start, stop, fitted synthesizer)
        The blocks that were released and are kept, by time: a sample draws from them. Only of strategy "blocks".
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
        If there are more features than cells can ever be cut along, so that some come out uniform, if the first block waits for more
        rows than came at first, or if a block is left out because its release was interrupted after it was charged.
    BudgetWarning
        If epsilon is above 20, or delta above one over the number of rows that came first.

    See Also
    --------
    PrivateMeasureMechanism : What runs on each block by default.
    skdpsynth.continual.KaryCounter : What counts in the cells of the published form.
    PrivacyAccountant : Where the one epsilon of the stream is kept.

    Notes
    -----
    *Privacy.* All that is ever sampled is epsilon-differentially private with respect to replacing one row (event level). "blocks":
    where blocks begin and end follows from the number of rows alone, a row is in one block by its position, and nothing of an open block
    is released; so the stream costs what one block does (parallel composition), also if later rows depend on earlier samples. That
    supposes an order that no row decides: those of arrays, frames, files and calls are such, and lazy queries without one are refused.
    "paper":
    a row is counted by the counters of one level of time, in one cell of each depth; replacing it changes two cells a depth, and
    the budgets of all depths sum to epsilon. `sample` is free. `score` is not private.

    *Blocks of numbers.* Blocks of `PrivateMeasureMechanism` (strategy "auto" or "adaptive") are counted. The counts of a cell add up over
    blocks, and one measure is made of the sums at the first sample after new rows: so the noise of b blocks is sqrt(b) times that of one,
    where separate measures would each turn noise into mass. That costs no privacy, and blocks without samples get no measure. A cell that
    early blocks counted less finely is divided as the later ones say.

    *Blocks of mixed tables.* Blocks of `LatentFactorSynthesizer` are counted too, and a sample is drawn from one model of all their noisy
    tables: that costs no privacy. The noise of a block is the same however few rows it has, so the first one has some ten times as many
    rows as the noise of a count is large, and each later one as many as came before it and a quarter more (with a `horizon` somewhat more
    or less, so that the last one ends there): with a known end no row waits at last, and else up to 56 % do, with the last block in their
    place. Blocks are counted in the bins and groups of levels that those before released, until twice as many rows have come as chose them;
    then a block chooses others, by its own counts and the earlier ones, and older tables are translated. The tables of blocks are added up;
    but each is drawn to the mean of all as far as its distance from it looks like noise, so that where the stream changes, blocks keep what
    is their own. A model is fitted at the first sample after a block, and when some more rows wait: within 7 to 20 seconds for 13 columns,
    while the stream is locked.

    *Units.* With `unit` the rows of one unit are replaced by as many others, wherever in the stream they came, and the first
    `max_rows_per_unit` of each count. With j_b of k rows in block b, whose noise is for k rows, the block loses ``epsilon j_b / k`` on
    them, and all blocks together epsilon at most. The stream remembers every label that ever came, with a number, and for ever: one that
    was forgotten could come again with new rows. So the state grows with the units, not with the rows, and is as private as the labels.

    *Ticks.* Under "add_or_remove_one" the same holds for a row more or less in one tick. Where blocks, and levels of time, begin and end
    follows from the number of ticks, and for ``growth="auto"`` from what was released before; a row more shifts nothing. Each block is
    fitted under the same relation, so it buys its number of rows: a sample takes from each block in the proportion of these noisy numbers,
    and the rows that wait are taken to come at the rate of the last block. In "paper" a row changes one cell a depth by 1, the number of
    all rows among them; each counter has half of the noise that it needs for replacing a row at its share. The first block is the first
    tick. Let a tick hold some hundreds of rows over epsilon, because the noise of a block is the same however few rows it has: calls of
    single rows make nothing but noise. A tick is read into memory as a whole.

    *State.* While a block is open its rows are kept, without their order and on the public grid (mixed rows: as the schema reads them); the
    counters of "paper" hold exact counts and the noise they will use again. No attribute shows them, but the object in memory, its pickle
    and what `save` writes are **as private as the data**. No generator state is kept, nor a seed: after loading, noise is secure unless
    `random_state` is set again. With a `window` the ledger has one line for all blocks that were left behind, so state and file stay as
    small as the window, however long the stream.

    *Kills.* With `save`, no draw of a call is shown before ledger and file agree on it: see the guide on streams for the steps. So if the
    process is killed, the call may be repeated under the same charge, and ``n_samples_seen_`` (or ``n_ticks_seen_``) of the loaded stream
    says whether it has to be. This assumes that no one reads the memory of the killed process or a file that it left beside the stream's,
    and that the kill did not depend on the noise.

    *Copies.* If you load a saved stream twice and continue both, rows seen by both cost epsilon twice; the ledger of a copy says that it
    was resumed. A ledger in a file sees it: a loaded stream continues at no charge if nothing was released of the rows that come next, and
    else is charged epsilon once more, or refused. Its file then knows where the ledger lies; if that has moved, or a larger one has
    imported it, give that to `load` as `accountant`. A loaded "paper" stream gives the same sample as the one that was saved. Later rows
    are counted with fresh noise ("kary" and "sparse" begin new trees), so that subtracting copies that continue with different rows does
    not reveal them.

    *Threads.* Threads may share a stream: it has one lock for reading, feeding, copying and saving. A forked process may sample "blocks"
    and start streams of its own, but not continue this one: its charges would be lost. With a ledger in a file it may continue "blocks":
    one of the two is then charged once more. A "paper" stream stays in its process, as the noise of its counters does.

    *Interrupts.* A `partial_fit` that fails or is interrupted has taken in no row, and may be repeated. A block that was charged by
    then is never released again: its rows are left out, with a `SmallSampleWarning`, and the blocks beside it stand in for them. With
    `save` that is so only where the release itself raised an error; after an interrupt, or where nothing can be written, the block is
    released under the same charge, and an error that comes last of all may find the rows taken in, as ``n_samples_seen_`` says. A
    "paper" stream that is interrupted while it counts refuses to go on; load a saved state.

    *"auto".* A block of s rows has error of order (epsilon s)**(-1/d), and at time t at most s rows are waiting, which moves at most s/t of
    the mass. They are balanced by s = 4 t**(d/(d+1)) * epsilon**(-1/(d+1)) (at most t/4): the error tends to zero forevery stream, like
    (epsilon t)**(-1/(d+1)) (one feature: up to a logarithm). In ticks the same rule holds for epsilon times the released number of rows of
    a tick. The default has fewer, larger blocks: smaller error while the stream is stationary, but a lag of up to a fifth of it forever. In
    a sample the last block stands in for the rows that wait.

    Before the first block is full, samples are uniform in the bounds, and over the levels. Mixed tables with rules keep them also then.

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
    >>> synthetic.shape, model.n_samples_seen_
    ((100, 2), 3000)
    >>> model.accountant_.spent
    Fraction(1, 1)
    >>> hourly = OnlineSynthesizer(neighboring="add_or_remove_one", bounds=(0, 1))
    >>> for rows in (stream[:800], stream[:0], stream[800:]):  # the second hour is empty
    ...     hourly = hourly.partial_fit(rows)
    >>> hourly.n_ticks_seen_
    3

    A mixed stream:

    >>> import pandas as pd
    >>> from skdpsynth import LatentFactorSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"age": rng.integers(18, 99, 4000), "ward": rng.choice(["A", "B"], 4000)})
    >>> schema = {"age": (18, 99), "ward": ["A", "B"]}
    >>> mixed = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema), delta=1e-6)
    >>> for day in range(4):
    ...     mixed = mixed.partial_fit(visits[1000 * day : 1000 * (day + 1)])
    >>> mixed.sample(3).dtypes.equals(visits.dtypes)
    True
    """

    _keeps_budget_open = True
    _buys_facts = False
    _counts_rows = False  # blocks, or counters, tell how many there are

    def __init__(
        self,
        strategy: str = "blocks",
        *,
        synthesizer: Any = None,
        growth: Any = None,
        window: Any = None,
        counter: str = "kary",
        horizon: Any = None,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        bounds: Any = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: Any = 1,
        accountant: Any = None,
        random_state: Any = None,
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

    def _plan(self, facts: Facts) -> _StreamPlan:
        check_parameters(self)
        check_horizon(self, 0, 1 if facts.n_samples is None else facts.n_samples)
        given = self.synthesizer is not None
        # The stream may grow, so it is warned of what a long one would not help.
        part = facts.part(delta=facts.delta if given else 0, n_samples=max(facts.n_samples or 1, _LONG))
        inner, least = None, 0
        if self.strategy == "paper":
            warn_if_small(part, tree_depth(part.size))
        else:
            inner = check_inner(self, part)
            least = min_block_rows(inner, part)
        facts.told.extend(part.told)
        if (facts.n_samples or least) < least:
            facts.warn(f"samples are uniform until {least} rows have come, because the noise of fewer would be all that they show.")
        kept = NumericRows.of(facts.box, self._container) if self._reader is None else MixedRows(self._reader)
        return _StreamPlan(given, inner=inner, kept=kept, least=least)

    def _release(self, rows: Rows, plan: _StreamPlan, budget: Budget) -> None:
        self._rng, self._charged_to, self._was_saved = budget.rng, self.accountant, False
        guard_account(budget.accountant)
        self._said = ""
        epsilon, delta = budget.accountant.epsilon, budget.accountant.delta
        if self.strategy == "blocks":
            stream: Any = Blocks(plan.kept, plan.inner, epsilon, delta, budget.rows_per_unit, counts_ticks(self), plan.least)
        else:
            stream = GrowingTree(plan.kept.public_box, epsilon, self.counter, counts_ticks(self))
        self.__dict__.update(_stream=stream, _settings=current_settings(self), _time=0)
        if self._starting is not None:  # with no rows, which come once that is saved
            self._starting.append((rows, self._units))
            self._units = None if self._units is None else ({}, {})
            self._set_stream(self._stream, self._settings)
            return
        for chunk in [rows.collected()] if counts_ticks(self) else rows.chunks():
            self._set_stream(self._stream.with_new_rows(chunk, self, budget), self._settings)
        if not self._stream.n_seen:
            self._set_stream(self._stream, self._settings)  # no rows came yet

    def _read(self, X: Any) -> tuple[Rows, dict[str, Any]]:
        self._reader = mixed_table_reader(self)
        if self._reader is None:
            rows, more = super()._read(X)
        else:
            self._container, rows = start_reading(self._reader, X, self._least_rows)
            names = ("schema_", "n_features_in_", "feature_names_in_")
            self.__dict__.update({name: vars(self._reader)[name] for name in names if name in vars(self._reader)})
            more = {"schema": self.schema_.coded}
        self._check_order(rows)
        return rows, more

    @property
    def _least_rows(self) -> int:
        return 0 if self._may_be_empty else super()._least_rows

    def _open_rows(self, X: Any, unit: Any, rng: RandomBits) -> tuple[Rows, Facts]:
        self._units = None
        return super()._open_rows(X, unit, rng)

    def _bound_contributions(self, rows: Rows, labels: Any, rng: RandomBits) -> Rows:
        """Return the first rows of each unit: later rows must not decide which earlier ones count."""
        check_in_memory(rows)
        check_length(labels or [], rows.n_samples)
        counting = FirstRows(self._rows_per_unit)
        kept, self._units = counting.kept(labels or []), ({}, counting.latest)
        return rows.only(kept)

    def partial_fit(self, X: Any, y: Any = None, unit: Any = None, *, save: Any = None) -> "OnlineSynthesizer":
        """Take in the next rows of the stream, in their order; one at a time or many give the same.

        Under "add_or_remove_one": take in a tick, all rows that came since the last call.

        All of them are taken in, or none; of a table that is not in memory, all of a chunk (of a tick, all). Threads may call it at once:
        their rows come one call after the other.

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped. Of mixed tables whatever the schema says. There may be no rows, also at
            first: an array of shape (0, n_features), or a frame. Dtypes are checked, but a column of words or times that comes as floats
            after the first rows has none but missing cells, whatever they are: so do data frames write a column in which none is there,
            and an error would tell of that. State the dtypes of the first rows where that may happen, as by ``astype("string")``.
        y : None
            Ignored.
        unit : str, int or array-like of shape (n_samples,), default=None
            As in `fit`, and always or never along a stream. A unit's rows are counted over the whole stream, so this remembers every
            label that ever came: see Notes. `X` must then be in memory.
        save : str or path-like, default=None
            Where to save the stream in the same step, as its method `save` does: if the process is killed, wherever that is, `load` of
            this file goes on at no further charge, and no row is lost or released twice; see Notes. All rows are taken in, or none. Not
            with ``strategy="paper"``. A stream that begins refuses a file that is there.

        Returns
        -------
        self : OnlineSynthesizer
        """
        check_y_is_ignored(y)
        # On one line: none begins after the rows are taken in, where an interrupt would look as if they were not.
        with lock_of(self): return self._take(X, unit, save) or self  # fmt: skip  # noqa: E701

    def __copy__(self) -> "OnlineSynthesizer":
        return copy.deepcopy(self)  # a shallow one would share the rows of the open block

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            state = super().__getstate__()
            if "_stream" in state:
                # No stream of noise leaves memory: a seed would void the promise, and there is no other state.
                state |= {"_stream": self._stream.settled(), "accountant_": checkpoint(self.accountant_), "_was_saved": False}
                state["_units"] = None if self._units is None else ({**self._units[0], **self._units[1]}, {})
                state |= dict.fromkeys(("_rng", "random_state", "_charged_to"))
                self._was_saved = True
            return state
