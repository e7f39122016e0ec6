"""The accountant: the one door through which private data become public."""

import math
import os
import threading
from dataclasses import dataclass, field, replace

import numpy as np

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._composition import split_exactly, total
from skdpsynth.privacy._gaussian import DiscreteGaussian
from skdpsynth.privacy._losses import PrivacyLoss, check_delta, check_epsilon, check_neighboring
from skdpsynth.privacy._random import check_stream
from skdpsynth.privacy._sup_norm import DiscreteSupNorm


@dataclass(frozen=True)
class LedgerEntry:
    """One line of a ledger.

    Attributes
    ----------
    name : str
        What was released.
    loss : PrivacyLoss
        What it cost.
    noise : str or None
        The noise that was added, with its scale; None for a plain charge.
    randomness : {"secure", "seeded"} or None
        Where the bits came from; seeded noise protects nobody.
    group : str or None
        Children of one group hold disjoint rows: together they cost their largest.
    detail : PrivacyAccountant or None
        The child that this entry charged for; its noise and randomness are told here too.
    """

    name: str
    loss: PrivacyLoss
    noise: str | None = None
    randomness: str | None = None
    group: str | None = None
    detail: "PrivacyAccountant | None" = field(default=None, repr=False, compare=False)

    def _told(self):
        """Return the entry with the noise and randomness of its detail; one seeded draw below makes it seeded."""
        if self.detail is None:
            return self
        inner = self.detail.ledger
        sources = {entry.randomness for entry in inner if entry.randomness}
        randomness = "seeded" if "seeded" in sources else "secure" if sources else None
        return replace(self, noise="; ".join(dict.fromkeys(entry.noise for entry in inner if entry.noise)) or None, randomness=randomness)

    def _recorded(self):
        return self if self.detail is None else replace(self, detail=self.detail.record())


class PrivacyAccountant:
    """Keep a privacy budget: charge a release first, then draw its noise.

    Parameters
    ----------
    epsilon : number
        The whole budget. A float means the decimal it prints (0.1 is 1/10); ``float("inf")`` allows releases without
        noise.
    delta : number, default=0.0
        The delta of the budget; above 0 it admits losses in rho-zCDP.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The relation that every loss here is stated under.

    Attributes
    ----------
    epsilon, delta : Fraction
        The budget (epsilon may be ``math.inf``).
    spent, remaining : Fraction or float
        Epsilon spent so far and left; they sum to the budget. Exact for pure losses; with zCDP an upper bound by the
        tight conversion.
    ledger : tuple of LedgerEntry
        What was charged, in order.

    Raises
    ------
    ValueError
        If a parameter is out of its domain.
    BudgetExceededError
        By `spend`, `release` and `child` when the cost exceeds what remains; then nothing is charged or drawn.

    Notes
    -----
    Losses may be chosen as one goes as long as all are pure; mixed with zCDP, fix the shares in advance.

    It lives in one process: a forked process may not spend from it, and it refuses to be pickled while open, because a
    copy would let the budget be spent twice. ``clone`` and ``copy`` return the same object for the same reason.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.privacy import DiscreteLaplace, PrivacyAccountant, check_rng
    >>> accountant = PrivacyAccountant(1.0)
    >>> count_share, sum_share = accountant.split([1, 3])
    >>> noisy = accountant.release(
    ...     np.array([120, 80]), DiscreteLaplace(2 / count_share), check_rng(None), name="counts", loss=count_share)
    >>> accountant.spent, accountant.remaining
    (Fraction(1, 4), Fraction(3, 4))
    """

    def __init__(self, epsilon, delta=0.0, *, neighboring="replace_one"):
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.neighboring = check_neighboring(neighboring)
        self._entries = []
        self._closed = False
        self._process = os.getpid()
        self._lock = threading.RLock()

    @property
    def ledger(self):
        """Entries in the order of their charge."""
        return tuple(entry._told() for entry in self._entries)

    @property
    def closed(self):
        """Whether this is a record that can no longer be spent from."""
        return self._closed

    @property
    def spent(self):
        """Epsilon spent so far, at the accountant's delta."""
        return self._total(self._entries)[0]

    @property
    def remaining(self):
        """Epsilon left."""
        return math.inf if self.epsilon == math.inf else self.epsilon - self.spent

    def split(self, weights):
        """Return epsilons in the proportion of `weights` that sum exactly to what remains.

        Parameters
        ----------
        weights : sequence of float
            Positive and finite; a float means the decimal it prints.

        Returns
        -------
        epsilons : list of Fraction (of ``math.inf`` for an infinite budget)
        """
        return split_exactly(self._all_that_remains(), weights)

    def spend(self, loss, *, name):
        """Charge a loss without drawing noise here.

        Parameters
        ----------
        loss : PrivacyLoss or number
            A number is a pure epsilon.
        name : str
            What it is for.
        """
        self._charge(LedgerEntry(name, _as_loss(loss)))

    def release(self, values, noise, rng, *, name, loss=None):
        """Charge `loss`, then add noise to exact integers: the only way out for private data.

        The caller states the loss; it must follow from the sensitivity of `values` and from the scale of `noise`.

        Parameters
        ----------
        values : int64 array
            The exact statistic.
        noise : DiscreteLaplace, DiscreteGaussian or DiscreteSupNorm
            Its scale broadcasts over `values`.
        rng : SecureBits or SeededBits
            See `skdpsynth.privacy.check_rng`.
        name : str
            What is released, for the ledger.
        loss : PrivacyLoss or number, default=None
            None: all that remains.

        Returns
        -------
        noisy_values : int64 array of the same shape
            Sums wrap modulo 2**64, which is post-processing.
        """
        values = np.asarray(values)
        if values.dtype != np.int64:
            raise TypeError(f"values must be int64, so that their sensitivity is exact, got {values.dtype}; quantise them first.")
        loss = PrivacyLoss(epsilon=self._all_that_remains()) if loss is None else _as_loss(loss)
        if not _broadcasts(np.shape(noise.scale), values.shape):
            raise ValueError(
                f"noise must have one scale, or scales that broadcast to the values of shape {values.shape}, "
                f"got scales of shape {np.shape(noise.scale)}; reshape one of them."
            )
        _check_noise(noise, rng, loss, name)
        if isinstance(noise, DiscreteSupNorm):
            noise.check_size(values.size)
        self._charge(LedgerEntry(name, loss, _describe(noise), "seeded" if rng.seeded else "secure"))
        return values + noise.sample(values.shape, rng)

    def standing(self, noise, rng, *, name, loss=None):
        """Charge `loss` once for a mechanism that releases again and again, such as a counter along a stream.

        The caller proves that all its releases together cost that.

        Parameters
        ----------
        noise : DiscreteLaplace or DiscreteGaussian
            What the ledger shows, and what is drawn unless a release names another.
        rng : SecureBits or SeededBits
        name : str
        loss : PrivacyLoss or number, default=None
            None: all that remains.

        Returns
        -------
        standing : StandingRelease
        """
        loss = PrivacyLoss(epsilon=self._all_that_remains()) if loss is None else _as_loss(loss)
        _check_noise(noise, rng, loss, name)
        self._charge(LedgerEntry(name, loss, _describe(noise), "seeded" if rng.seeded else "secure"))
        return StandingRelease(self, noise, rng)

    def child(self, epsilon, delta=0.0, *, name, group=None):
        """Hand part of the budget to a new accountant; this one is charged at once and in full.

        Parameters
        ----------
        epsilon, delta : numbers
            The child's budget.
        name : str
            What the child is for.
        group : str, default=None
            Children of one group hold disjoint rows (parallel composition): together they cost the largest of them.
            Rows may be split by public position; under "add_or_remove_one" also by their values.

        Returns
        -------
        child : PrivacyAccountant
        """
        child = PrivacyAccountant(epsilon, delta, neighboring=self.neighboring)
        self._charge(LedgerEntry(name, PrivacyLoss(child.epsilon, child.delta), group=group, detail=child))
        return child

    def check_open(self, name):
        """Raise unless this is open, and in the process that opened it."""
        if self._closed:
            raise BudgetExceededError(
                f"{name!r} cannot be charged to a closed record; set accountant to None or to a new PrivacyAccountant.", None, 0
            )
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{name!r} cannot be charged in another process than the accountant's, where the charge would be lost; "
                "use n_jobs=1, or threads."
            )

    def close(self):
        """Make this a record: it can be read and pickled, but no longer spent from."""
        self._closed = True

    def record(self):
        """Return a closed copy."""
        copy = PrivacyAccountant(self.epsilon, self.delta, neighboring=self.neighboring)
        copy._entries = [entry._recorded() for entry in self._entries]
        copy.close()
        return copy

    def reopened(self):
        """Return an open accountant that has spent what this one has: for a mechanism that goes on after it was saved and loaded.

        Going on twice from one record is two releases of what follows, which together cost the sum.
        """
        copy = PrivacyAccountant(self.epsilon, self.delta, neighboring=self.neighboring)
        copy._entries = list(self._entries)
        return copy

    def to_frame(self, backend="pandas"):
        """Return the ledger as a data frame, a row an entry.

        What a child released is listed below the entry that charged for it, with that entry's name in the column "part_of": the
        rows where that is missing are what this accountant was charged.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the frame; it must be installed.
        """
        import narwhals.stable.v2 as nw

        def number(x):
            return None if x is None else float(x)

        lines = list(self.lines())
        entries = [entry for entry, _ in lines]
        columns = {
            "name": [entry.name for entry in entries],
            "part_of": [above for _, above in lines],
            "epsilon": [number(entry.loss.epsilon) for entry in entries],
            "delta": [number(entry.loss.delta) for entry in entries],
            "rho": [number(entry.loss.rho) for entry in entries],
            "noise": [entry.noise for entry in entries],
            "randomness": [entry.randomness for entry in entries],
            "group": [entry.group for entry in entries],
        }
        text, real = nw.String, nw.Float64
        schema = {name: real if name in ("epsilon", "delta", "rho") else text for name in columns}
        try:
            return nw.from_dict(columns, schema=schema, backend=backend).to_native()
        except ModuleNotFoundError:
            raise ImportError(f"to_frame needs {backend}: install it, name another backend, or read the ledger itself.") from None

    def lines(self, above=None):
        """Yield (entry, name of the entry it is part of or None): the ledger, with what children released below their entry."""
        for entry in self.ledger:
            yield entry, above
            if entry.detail is not None:
                yield from entry.detail.lines(entry.name if above is None else f"{above} / {entry.name}")

    def _all_that_remains(self):
        remaining = self.remaining
        if remaining <= 0:
            raise BudgetExceededError(
                f"Nothing remains of epsilon={float(self.epsilon):g}; `split` it before the first release, or raise it.", None, remaining
            )
        return remaining

    def _total(self, entries):
        """Return (epsilon, delta) of the entries, each group counted once, at its largest."""
        losses = [entry.loss for entry in entries if entry.group is None]
        groups: dict[str, list] = {}
        for entry in entries:
            if entry.group is not None:
                groups.setdefault(entry.group, []).append(entry.loss)
        for members in groups.values():
            # Only child() names groups, so these are (epsilon, delta) losses.
            losses.append(PrivacyLoss(max(m.epsilon for m in members), max(m.delta for m in members)))
        return total(losses, self.delta)

    def _charge(self, entry):
        """Refuse or write the entry; nothing else changes."""
        # Before the lock: a fork may have copied it while another thread held it.
        self.check_open(entry.name)
        with self._lock:
            self.check_open(entry.name)
            if entry.loss.rho is not None and not self.delta and entry.loss.rho != math.inf:
                raise ValueError(f"{entry.name!r} has a zCDP loss, which needs delta > 0; give the accountant a delta.")
            if entry.group is not None and any(entry.group == e.group and _covers(e.loss, entry.loss) for e in self._entries[-1:]):
                self._entries.append(entry)  # the group costs what it did
                return
            before = self.spent
            epsilon, delta = self._total([*self._entries, entry])
            if epsilon > self.epsilon or delta > self.delta:
                self._refuse(entry, epsilon - before if epsilon != math.inf else math.inf, delta)
            self._entries.append(entry)

    def _refuse(self, entry, requested, delta):
        remaining = self.remaining
        if delta > self.delta:
            left = self.delta - self._total(self._entries)[1]
            cost, rest = f"delta={float(entry.loss.delta):g}", f"only {float(left):g} of {float(self.delta):g} remains"
        elif requested == math.inf and math.inf not in (entry.loss.epsilon, entry.loss.rho):
            cost, rest = entry.loss, f"that leaves none of delta={float(self.delta):g} for the zCDP losses"
        else:
            cost, rest = f"epsilon={float(requested):g}", f"only {float(remaining):g} of {float(self.epsilon):g} remains"
        less = "delta" if delta > self.delta else "epsilon (or share of `split`)"
        raise BudgetExceededError(
            f"{entry.name!r} costs {cost}, but {rest}; give it a smaller {less}, or raise the budget.",
            requested,
            remaining,
        )

    def __repr__(self):
        state = "record" if self._closed else "open"
        return (
            f"<PrivacyAccountant ({state}): spent epsilon={float(self.spent):g} of {float(self.epsilon):g}, "
            f"delta={float(self.delta):g}, {self.neighboring}, {len(self._entries)} entries>"
        )

    def __sklearn_clone__(self):
        return self

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __getstate__(self):
        if not self._closed:
            raise TypeError(
                "An open PrivacyAccountant cannot be pickled, because a copy could spend the budget again; "
                "use n_jobs=1 or threads, or pickle its record()."
            )
        state = {key: value for key, value in self.__dict__.items() if key != "_lock"}
        return {**state, "_entries": [entry._recorded() for entry in self._entries]}

    def __setstate__(self, state):
        self.__dict__.update(state, _lock=threading.RLock())


class StandingRelease:
    """The door for a mechanism that was charged for in full by `PrivacyAccountant.standing`.

    Parameters
    ----------
    accountant : PrivacyAccountant
        Where it was charged.
    noise : DiscreteLaplace or DiscreteGaussian
    rng : SecureBits or SeededBits
    """

    def __init__(self, accountant, noise, rng):
        self._accountant = accountant
        self.noise = noise
        self._rng = rng

    def release(self, values, name=None, noise=None):
        """Add noise to exact integers, at no further charge.

        Parameters
        ----------
        values : int64 array
        name : str, default=None
            Of this draw: with a seed, draws of different names are independent, and those of one name equal. None: `noise` names
            its draws.
        noise : object with ``sample(size, rng)``, default=None
            Made of draws of the noise that was charged for. None: that itself.

        Returns
        -------
        noisy_values : int64 array of the same shape
        """
        values = np.asarray(values)
        if values.dtype != np.int64:
            raise TypeError(f"values must be int64, so that their sensitivity is exact, got {values.dtype}; quantise them first.")
        self._accountant.check_open(name)
        return values + (self.noise if noise is None else noise).sample(values.shape, self._rng if name is None else self._rng.child(name))


def _check_noise(noise, rng, loss, name):
    lossless = loss.epsilon == math.inf or loss.rho == math.inf
    if np.any(np.asarray(noise.scale == 0)) and not lossless:
        raise ValueError(f"Releasing {name!r} with scale 0 has an infinite loss, got {loss}; give the noise a positive scale.")
    if isinstance(noise, DiscreteGaussian) and loss.rho is None and not loss.delta and not lossless:
        raise ValueError(f"Releasing {name!r} with Gaussian noise has no pure loss, got {loss}; give loss=PrivacyLoss(rho=...).")
    check_stream(rng)


def _covers(loss, other):
    """Whether a loss of a group is at least another, so that the other adds nothing."""
    return loss.epsilon >= other.epsilon and loss.delta >= other.delta


def _as_loss(loss):
    return loss if isinstance(loss, PrivacyLoss) else PrivacyLoss(epsilon=loss)


def _describe(noise):
    scales = np.unique(np.atleast_1d(np.vectorize(float, otypes=[float])(noise.scale)))
    return f"{type(noise).__name__}(scale={', '.join(f'{scale:.6g}' for scale in scales)})"


def _broadcasts(shape, to):
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def check_accountant(accountant):
    """Raise ValueError unless `accountant` is None or a PrivacyAccountant."""
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise ValueError(
            f"accountant must be None or a PrivacyAccountant, got {type(accountant).__name__}; make one with PrivacyAccountant(epsilon)."
        )
