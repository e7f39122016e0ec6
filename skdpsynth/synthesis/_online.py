"""Synthetic data from a stream."""

import copy
import math
import numbers

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._estimator import all_or_nothing
from skdpsynth._sklearn import check_choice, is_whole, validate_rows
from skdpsynth.privacy import check_rng
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._inner import clone_inner, rehearse
from skdpsynth.synthesis._online_blocks import Blocks
from skdpsynth.synthesis._online_tree import GrowingTree
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism

_FIXED = ("strategy", "counter", "epsilon", "delta", "neighboring", "bounds", "synthesizer")  # for the length of a stream
_RESUMED = "resumed from a copy: another that goes on is a release of its own"
_FREE = ("growth", "window", "horizon")


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

    Notes
    -----
    *Privacy.* All that is ever sampled is epsilon-differentially private with respect to replacing one row (event level). "blocks":
    where blocks begin and end follows from the number of rows alone, a row is in one block, and nothing of an open block is
    released; so the stream costs what one block does (parallel composition), also if later rows depend on earlier samples. "paper":
    a row is counted by the counters of one level of time, in one cell of each depth; replacing it changes two cells a depth, and
    the budgets of all depths sum to epsilon. `sample` is free. `score` is not private.

    *State.* While a block is open its rows are kept, on the public grid and without their order; the counters of "paper" hold exact
    counts and the noise they will use again. No attribute shows them, but the object in memory, its pickle and what `save` writes
    are **as private as the data**. A copy that goes on beside the original is a second release: together they cost 2 epsilon for
    the rows that both see, and the copy's ledger says that it was resumed. No generator state is kept, nor a seed: after loading,
    noise is secure unless `random_state` is set again.

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

    _settings: dict

    def __init__(
        self,
        strategy="blocks",
        *,
        synthesizer=None,
        growth=1.25,
        window=None,
        counter="kary",
        horizon=None,
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
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

    @all_or_nothing
    def fit(self, X, y=None):
        """Start a new stream with these rows; see `partial_fit`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : OnlineSynthesizer
        """
        return self._start(X)

    @all_or_nothing
    def partial_fit(self, X, y=None):
        """Take in the next rows of the stream, in their order; one at a time or many give the same.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : OnlineSynthesizer
        """
        if not hasattr(self, "_stream"):
            return self._start(X)
        if any(getattr(self, name) is not was for name, was in self._settings.items()):
            self._check_parameters()
            self._check_what_stays()
            self._remember_settings()
        return self._take_in(validate_rows(self, X, reset=False))

    def _start(self, X):
        X, box, rng = self._begin(X)
        self._check_parameters()
        self._box = box
        self._remember_settings()
        self._rng = rng
        inner = None
        if self.strategy == "blocks":
            inner = (
                PrivateMeasureMechanism() if self.synthesizer is None else clone_inner(self.synthesizer, "OnlineSynthesizer", "None or ")
            )
            trial = clone_inner(inner, "OnlineSynthesizer").set_params(epsilon=self.epsilon, delta=self.delta, neighboring=self.neighboring)
            rehearse(trial, box.n_features, (box.low, box.high))
        self._check_horizon(0, len(X))
        accountant = self._open_accountant(delta=None if self.synthesizer is not None and self.strategy == "blocks" else 0)
        if self.strategy == "blocks":
            self._stream: Blocks | GrowingTree = Blocks(box, self._container, inner, accountant.epsilon, accountant.delta)
        else:
            self._stream = GrowingTree(box, accountant.epsilon, self.counter)
        self.accountant_ = accountant
        return self._take_in(X)

    def _remember_settings(self):
        settings = {name: getattr(self, name) for name in (*_FIXED, *_FREE)}
        self._settings = {**settings, "bounds": copy.deepcopy(self.bounds)}  # arrays could be changed in place

    def _take_in(self, X):
        self._check_horizon(self._stream.n_seen, len(X))
        self._go_on()
        if isinstance(self._stream, Blocks):
            self._stream = self._stream.extended(X, self.growth, self.window, self.accountant_, self._rng)
        else:
            self._stream.extend(X, self.accountant_, self._rng)
        self.n_samples_seen_ = self._stream.n_seen
        self.n_samples_ = self.n_samples_seen_ if self.window is None else min(self.window, self.n_samples_seen_)
        return self

    def _check_horizon(self, seen, more):
        if self.horizon is not None and seen + more > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} rows, {seen} have come, and {more} more would pass it; raise horizon, or fit a new stream."
            )

    def _go_on(self):
        """After loading: open the budget's record, and a stream of noise."""
        if self._rng is None:
            self._rng = check_rng(self.random_state)
        if self.accountant_.closed:
            self.accountant_ = self.accountant_.reopened()
            group = "blocks" if isinstance(self._stream, Blocks) else "levels of time"
            # It costs nothing here; but who reads two ledgers with this line knows that they add up.
            self.accountant_.child(self._stream.epsilon, self._stream.delta, name=_RESUMED, group=group).close()
            self._stream.resume(self.accountant_, self._rng)

    def sample(self, n_samples=None, random_state=None, since=None):
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

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            In the kind of table that came first, with its columns and dtypes.
        """
        check_is_fitted(self, "_stream")
        first = self.n_samples_seen_ - self.n_samples_
        if since is not None:
            if self.strategy != "blocks":
                raise ValueError('since must be None for strategy="paper", which keeps no history; use strategy="blocks".')
            if not is_whole(since, first, self.n_samples_seen_ - 1):
                raise ValueError(f"since must be a row of the stream from {first} to {self.n_samples_seen_ - 1}, got {since!r}.")
            first = int(since)
        n_samples = self.n_samples_seen_ - first if n_samples is None else n_samples
        return self._filled(n_samples, random_state, lambda n, rng: self._rows_since(first, n, rng))

    def _sample_rows(self, n_samples, rng):
        return self._rows_since(self.n_samples_seen_ - self.n_samples_, n_samples, rng)

    def _rows_since(self, first, n_samples, rng):
        if isinstance(self._stream, Blocks):
            return self._stream.sample(n_samples, first, rng)
        self._go_on()  # reading a counter may draw noise
        return self._stream.sample(n_samples, rng)

    def _check_parameters(self):
        check_choice("strategy", self.strategy, ("blocks", "paper"))
        check_choice("counter", self.counter, ("kary", "binary", "sparse"))
        is_number = isinstance(self.growth, numbers.Real) and not isinstance(self.growth, bool)
        if not (1 < self.growth < math.inf if is_number else isinstance(self.growth, str) and self.growth == "auto"):
            raise ValueError(f"growth must be 'auto' or a number greater than 1, got {self.growth!r}; 1.25 is the default.")
        for name in ("window", "horizon"):
            value = getattr(self, name)
            if value is not None and not is_whole(value, 1):
                raise ValueError(f"{name} must be None or a positive integer, got {value!r}; None sets no limit.")
        if self.strategy == "paper" and (self.window is not None or self.synthesizer is not None):
            raise ValueError('window and synthesizer must be None for strategy="paper"; use strategy="blocks".')
        if self.neighboring != "replace_one":
            raise ValueError(
                f'OnlineSynthesizer supports neighboring="replace_one" only, got {self.neighboring!r}: one row more shifts all after it.'
            )

    def _check_what_stays(self):
        changed = [name for name in _FIXED if not _same(getattr(self, name), self._settings[name])]
        if changed:
            raise ValueError(f"{', '.join(changed)} must not change along a stream; set it back, or call fit to start a new one.")
        stream = self._stream
        if isinstance(stream, Blocks) and stream.dropped > 0 and (self.window is None or stream.n_seen - self.window < stream.dropped):
            raise ValueError(
                f"window must not grow beyond what is kept, the rows from {stream.dropped} on, got {self.window!r}; fit a new stream."
            )

    def __copy__(self):
        return copy.deepcopy(self)  # a shallow one would share the rows of the open block

    def __getstate__(self):
        state = super().__getstate__()
        if "_stream" in state:
            if isinstance(self._stream, GrowingTree):
                self._go_on()
                self._stream.settle()
            # No stream of noise leaves memory: a seed would void the promise, and there is no other state.
            state["_rng"] = state["random_state"] = None
            state["accountant_"] = state["accountant_"].record()
        return state


def _same(value, was):
    """Whether a parameter has the value it had."""
    if isinstance(value, tuple | list) and isinstance(was, tuple | list):
        return len(value) == len(was) and all(np.array_equal(a, b) for a, b in zip(value, was, strict=True))
    return value is was or repr(value) == repr(was) or (isinstance(value, numbers.Real) and isinstance(was, numbers.Real) and value == was)
