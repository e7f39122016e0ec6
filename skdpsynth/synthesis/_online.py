"""Synthetic data from a stream."""

import copy
import math
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skdpsynth._checks import check_choice, is_real, is_whole, shown, warn
from skdpsynth._locks import lock_of
from skdpsynth.domain import Rows, continue_numbers
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, Plan, check_part, clone_part
from skdpsynth.persistence import savable
from skdpsynth.privacy import check_rng
from skdpsynth.statistics import RowCount, total
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._drawing import BATCH, Drawing, checked_generator, checked_number
from skdpsynth.synthesis._online_blocks import Blocks
from skdpsynth.synthesis._online_tree import GrowingTree, depth_of
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._small import warn_if_small

_FIXED = ("strategy", "counter", "epsilon", "delta", "neighboring", "bounds", "synthesizer")  # for the length of a stream
_FREE = ("growth", "window", "horizon")
_LONG = 100_000  # rows of a stream that is long enough


@dataclass(frozen=True)
class _Stream(Plan):
    """How the stream starts."""

    box: Any = None
    inner: Any = None  # the unfitted synthesizer of a block


@savable
class OnlineSynthesizer(PrivateSynthesizer):
    """Synthetic data from a stream: at any time a synthetic table of the rows so far, all of them under one epsilon.

    Rows come by `partial_fit`, one or many at a time, in their order. The budget is for ever: it does not grow with the stream.

    Parameters
    ----------
    strategy : {"blocks", "paper"}, default="blocks"
        "blocks": disjoint blocks of consecutive rows, each synthesized with the whole epsilon when it is full; a sample is the
        union of theirs. "paper": Algorithm 12 of [1]_ with its budgets corrected, for comparison: a tree that grows with time, with
        a private counter in every cell.
    synthesizer : unfitted synthesizer, default=None
        What runs on a block (strategy "blocks"): it is cloned when the stream starts, and gets its ``epsilon``, ``delta``, ``bounds``,
        ``neighboring``, ``accountant`` and ``random_state`` set. None: `PrivateMeasureMechanism`. It gets rows of numbers: encode mixed
        ones with `skdpsynth.domain.MixedTypeEncoder` first.
    growth : float or "auto", default=1.25
        How far rows grow from the start of a block to its end (strategy "blocks"): at most a share of 1 - 1/growth of the rows
        waits in the open block. "auto": blocks of order t**(d / (d + 1)) rows at time t, so that this share tends to zero; see Notes.
    window : int, default=None
        Synthesize the last `window` rows only. None: all.
    counter : {"kary", "binary", "sparse"}, default="kary"
        What counts in the cells (strategy "paper"); "sparse" is the published choice.
    horizon : int, default=None
        Most rows that will ever come; more are refused. None: no end.
    epsilon : float, default=1.0
        The whole budget of the stream. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Handed to `synthesizer` where it is given; else no delta is spent.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data.
    neighboring : {"replace_one"}, default="replace_one"
        Event level: two streams are neighbours if they differ in one row. A row more or less would shift all that follow, which is
        not covered.
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` (and delta) when the stream starts. None: one of its own for each stream.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    n_samples_seen_ : int
        Rows so far: public.
    n_samples_ : int
        Rows that a sample stands for: all so far, or those of the window.
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
        If there are more features than cells can ever be cut along, so that some come out uniform, or if a block is left out because
        its release was interrupted after it was charged.
    BudgetWarning
        If epsilon is above 20, or delta above one over the number of rows that came first.

    Notes
    -----
    *Privacy.* All that is ever sampled is epsilon-differentially private with respect to replacing one row (event level). "blocks":
    where blocks begin and end follows from the number of rows alone, a row is in one block, and nothing of an open block is
    released; so the stream costs what one block does (parallel composition), also if later rows depend on earlier samples. "paper":
    a row is counted by the counters of one level of time, in one cell of each depth; replacing it changes two cells a depth, and
    the budgets of all depths sum to epsilon. `sample` is free. `score` is not private.

    *State.* While a block is open its rows are kept, on the public grid and without their order; the counters of "paper" hold exact
    counts and the noise they will use again. No attribute shows them, but the object in memory, its pickle and what `save` writes
    are **as private as the data**. No generator state is kept, nor a seed: after loading, noise is secure unless `random_state` is
    set again. With a `window` the ledger has one line for all blocks that were left behind, so state and file stay as small as the
    window, however long the stream.

    *Copies.* If you load a saved stream twice and continue both, rows seen by both cost epsilon twice; the ledger of a copy says that it
    was resumed. A loaded "paper" stream gives the same sample as the one that was saved. What follows is counted with fresh noise
    ("kary" and "sparse" begin new trees), so that copies which go on with different rows do not subtract to them.

    *Threads.* Threads may share a stream: it has one lock, for whoever reads, feeds, copies or saves it. A forked process may sample
    "blocks" and start streams of its own, but not go on with this one: its charges would be lost.

    *Interrupts.* A `partial_fit` that fails or is interrupted has taken in no row, and may be repeated. A block that was charged by
    then is never released again: its rows are left out, with a `SmallSampleWarning`, and the blocks beside it stand in for them. A
    "paper" stream that is interrupted while it counts refuses to go on; load a saved state.

    *"auto".* A block of s rows has error of order (epsilon s)**(-1/d), and at time t at most s rows are waiting, which moves at most s/t of
    the mass. They are balanced by s = 4 t**(d/(d+1)) * epsilon**(-1/(d+1)) (at most t/4): the error tends to zero for every stream, like
    (epsilon t)**(-1/(d+1)) (one feature: up to a logarithm). The default has fewer, larger blocks: smaller error while the stream is
    stationary, but a lag of up to a fifth of it for ever. In a sample the last block stands in for the rows that wait.

    Before the first block is full, samples are uniform in the bounds.

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
    """

    _keeps_budget_open = True
    _buys_facts = False
    _stream: Any  # Blocks or GrowingTree
    _rng: Any
    _settings: dict  # parameters as they were when the last rows came

    def __init__(
        self,
        strategy: str = "blocks",
        *,
        synthesizer: Any = None,
        growth: Any = 1.25,
        window: Any = None,
        counter: str = "kary",
        horizon: Any = None,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        bounds: Any = (0.0, 1.0),
        neighboring: str = "replace_one",
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
        self.accountant = accountant
        self.random_state = random_state

    def _plan(self, facts: Facts) -> _Stream:
        self._check_parameters()
        self._check_horizon(0, facts.n_samples or 0)
        given = self.synthesizer is not None
        # The stream may grow, so it is warned of what a long one would not help.
        part = facts.part(delta=facts.delta if given else 0, n_samples=max(facts.n_samples or 1, _LONG))
        inner = None
        if self.strategy == "paper":
            warn_if_small(part, depth_of(part.size))
        else:
            inner = clone_part(self.synthesizer, "OnlineSynthesizer", "None or ") if given else PrivateMeasureMechanism()
            check_part(clone(inner), part)
        facts.told.extend(part.told)
        return _Stream(given, facts.box, inner)

    def _release(self, rows: Rows, plan: _Stream, budget: Budget) -> None:
        self._rng, self._charged_to = budget.rng, self.accountant
        self._said = ""  # the last warning
        epsilon, delta = budget.accountant.epsilon, budget.accountant.delta
        if self.strategy == "blocks":
            stream: Any = Blocks(plan.box, self._container, plan.inner, epsilon, delta)
        else:
            stream = GrowingTree(plan.box, epsilon, self.counter)
        self._follow(stream, self._present_settings())
        for chunk in rows.chunks():
            self._follow(self._stream.extended(chunk, self, budget), self._settings)

    def partial_fit(self, X: Any, y: Any = None) -> "OnlineSynthesizer":
        """Take in the next rows of the stream, in their order; one at a time or many give the same.

        All of them are taken in, or none; of a table that is not in memory, all of a chunk. Threads may call it at once: their rows come
        one call after the other.

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : OnlineSynthesizer
        """
        # On one line: none begins after the rows are taken in, where an interrupt would look as if they were not.
        with lock_of(self): return self._take(X) or self  # fmt: skip  # noqa: E701

    def _take(self, X: Any) -> Any:
        """Take in rows, with the lock held."""
        if not hasattr(self, "_stream"):
            return self.fit(X)
        settings = self._checked_settings()
        rows = continue_numbers(self, X)
        n_samples = total(rows, RowCount.over()).n_samples if rows.n_samples is None else rows.n_samples
        self._check_horizon(self._stream.n_seen, n_samples)
        if rows.are_held:
            return self._extend(rows.collected(), settings)
        for chunk in rows.chunks():
            self._extend(chunk, settings)

    def _extend(self, X: np.ndarray, settings: dict) -> Any:
        """Take in checked rows: all of them, or none."""
        with np.errstate(all="ignore"):  # a floating-point warning would tell of values, and an error would cost a block
            stream = self._stream.extended(X, self, self._budget())
        self._follow(stream, settings)

    def _say(self, message: str) -> None:
        """Warn while rows are taken in; but once, so that they come in after a warning that is an error to the caller."""
        if message != self._said:
            self._said = message
            warn(message, SmallSampleWarning)

    def _follow(self, stream: Any, settings: dict) -> None:
        """Make this the state of the stream: all at once and last, so that an interrupt leaves it as it was, or as it is now."""
        seen = stream.n_seen
        self.__dict__.update(_stream=stream, _settings=settings, n_samples_seen_=seen, n_samples_=min(seen, self.window or seen))

    def _budget(self) -> Budget:
        """Return the open budget; after loading, first open its record again, and a stream of noise."""
        if self._rng is None:
            stream, rng, accountant = self._stream, check_rng(self.random_state), self.accountant_.reopened()
            name = f"resumed from a copy at row {stream.n_seen}: another that goes on is a release of its own"
            if not accountant.was_charged(name, stream.group):
                # It costs nothing here; but who reads two ledgers with this line knows that they add up.
                accountant.child(stream.epsilon, stream.delta, name=name, group=stream.group).close()
            stream.resume(accountant, rng)
            self.__dict__.update(_rng=rng, accountant_=accountant)
        return Budget(self.accountant_, self._rng)

    def _present_settings(self) -> dict:
        settings = {name: getattr(self, name) for name in (*_FIXED, *_FREE)}
        return {**settings, "bounds": copy.deepcopy(self.bounds)}  # arrays could be changed in place

    def _checked_settings(self) -> dict:
        """Return the parameters that hold from now on; refuse those that may not change along a stream."""
        shared, was = self.accountant, self._charged_to
        if shared is not was and not all(accountant is None or accountant.closed for accountant in (shared, was)):
            raise ValueError("accountant must not change along a stream; set it back, or call fit to start a new one.")
        if all(getattr(self, name) is was for name, was in self._settings.items()):
            return self._settings
        self._check_parameters()
        self._check_what_stays()
        return self._present_settings()

    def _check_horizon(self, seen: int, more: int) -> None:
        if self.horizon is not None and seen + more > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} rows, {seen} have come, and {more} more would pass it; raise horizon, or fit a new stream."
            )

    def sample(self, n_samples: Any = None, random_state: Any = None, since: Any = None, *, out: Any = None) -> Any:
        """Draw synthetic rows of the stream so far; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            None: as many as there were rows (in the window, or since `since`).
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of the stream.
        since : int, default=None
            Leave out what came before this row of the stream, counted from 0; whole blocks are weighed by how much of them is
            left. Strategy "blocks" only.
        out : str or path-like, default=None
            A file that ends in ".parquet" (which needs pyarrow), ".csv" or ".tsv", or packed in ".csv.gz" or ".tsv.gz". The same rows are
            written there, a batch at a time.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that came first, with its columns and dtypes; or `out`, where it was given.
        """
        check_is_fitted(self, "_stream")
        return self._drawing_since(n_samples, random_state, since).to(out)

    def sample_batches(self, n_samples: Any = None, batch_size: Any = BATCH, random_state: Any = None, since: Any = None) -> Iterator[Any]:
        """Draw synthetic rows of the stream so far in batches, in memory that does not grow with their number.

        The batches together are the rows of ``sample(n_samples, random_state, since)``, in the same order. Rows of the stream that come
        meanwhile change nothing of them.

        Parameters
        ----------
        n_samples : int, default=None
            Of all batches together. None: as many as there were rows (in the window, or since `since`).
        batch_size : int, default=65536
            Rows of a batch; the last has what is left.
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of the stream.
        since : int, default=None
            As in `sample`.

        Returns
        -------
        batches : iterator of arrays or data frames
        """
        check_is_fitted(self, "_stream")
        return self._drawing_since(n_samples, random_state, since).batches(batch_size)

    def _drawing_since(self, n_samples: Any, random_state: Any, since: Any) -> Drawing:
        with lock_of(self):
            first = self.n_samples_seen_ - self.n_samples_
            if since is not None:
                first = self._checked_since(since, first)
            number = checked_number(self.n_samples_seen_ - first if n_samples is None else n_samples)
            stream = self._readable()  # more rows make a new state of blocks
            return Drawing(
                self._container,
                self.n_features_in_,
                number,
                checked_generator(random_state),
                lambda n, rng: self._locked(stream.sample, n, first, rng),
                lambda n, rng: self._locked(stream.sample_blocks, n, first, rng),
            )

    def _locked(self, draw: Callable[..., Any], *arguments: Any) -> Any:
        with lock_of(self):
            return draw(*arguments)

    def _checked_since(self, since: Any, first: int) -> int:
        if self.strategy != "blocks":
            raise ValueError('since must be None for strategy="paper", which keeps no history; use strategy="blocks".')
        if not is_whole(since, first, self.n_samples_seen_ - 1):
            raise ValueError(f"since must be a row of the stream from {first} to {self.n_samples_seen_ - 1}, got {shown(since)}.")
        return int(since)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        with lock_of(self):
            return self._readable().sample(n_samples, self.n_samples_seen_ - self.n_samples_, rng)

    def _readable(self) -> Any:
        if self.strategy == "paper":
            self._budget()  # reading a counter may draw noise
        return self._stream

    def _check_parameters(self) -> None:
        check_choice("strategy", self.strategy, ("blocks", "paper"))
        check_choice("counter", self.counter, ("kary", "binary", "sparse"))
        if not (1 < self.growth < math.inf if is_real(self.growth) else isinstance(self.growth, str) and self.growth == "auto"):
            raise ValueError(f"growth must be 'auto' or a number greater than 1, got {shown(self.growth)}; 1.25 is the default.")
        for name in ("window", "horizon"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 1):
                raise ValueError(f"{name} must be None or a positive integer, got {shown(value)}; None sets no limit.")
        if self.strategy == "paper" and (self.window is not None or self.synthesizer is not None):
            raise ValueError('window and synthesizer must be None for strategy="paper"; use strategy="blocks".')
        if self.neighboring != "replace_one":
            raise ValueError(
                f'OnlineSynthesizer supports neighboring="replace_one" only, got {shown(self.neighboring)}: '
                "one row more shifts all after it."
            )

    def _check_what_stays(self) -> None:
        changed = [name for name in _FIXED if not _same(getattr(self, name), self._settings[name])]
        if changed:
            raise ValueError(f"{', '.join(changed)} must not change along a stream; set it back, or call fit to start a new one.")
        stream = self._stream
        if stream.dropped > 0 and (self.window is None or stream.n_seen - self.window < stream.dropped):
            raise ValueError(
                f"window must not grow beyond what is kept, the rows from {stream.dropped} on, got {shown(self.window)}; fit a new stream."
            )

    def __copy__(self) -> "OnlineSynthesizer":
        return copy.deepcopy(self)  # a shallow one would share the rows of the open block

    def __getstate__(self) -> dict[str, Any]:
        with lock_of(self):
            state = super().__getstate__()
            if "_stream" in state:
                # No stream of noise leaves memory: a seed would void the promise, and there is no other state.
                state |= {"_stream": self._stream.settled(), "accountant_": self.accountant_.record()}
                state |= dict.fromkeys(("_rng", "random_state", "_charged_to"))
            return state


def _same(value: Any, was: Any) -> bool:
    """Whether a parameter has the value it had."""
    if isinstance(value, tuple | list) and isinstance(was, tuple | list):
        return len(value) == len(was) and all(np.array_equal(a, b) for a, b in zip(value, was, strict=True))
    return value is was or repr(value) == repr(was) or (isinstance(value, numbers.Real) and isinstance(was, numbers.Real) and value == was)
