"""The accountant: the one door through which private data become public."""

import math
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._change import Change, units
from skdpsynth._checks import shown
from skdpsynth._locks import lock_of
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import savable
from skdpsynth.privacy._discovery import Discovery, checked_tables
from skdpsynth.privacy._ledger import Ledger, LedgerEntry, Refused
from skdpsynth.privacy._losses import Amount, PrivacyLoss, as_loss, check_delta, check_epsilon, check_neighboring, split_exactly
from skdpsynth.privacy._mechanism import check_covered
from skdpsynth.privacy._noise import Noise, exact
from skdpsynth.privacy._presentation import frame_of, lines_of, noise_of, refusal
from skdpsynth.privacy._random import RandomBits
from skdpsynth.privacy._standing import StandingRelease, taken_up


@savable
class PrivacyAccountant:
    """Keep a privacy budget: charge a release first, then draw its noise.

    Parameters
    ----------
    epsilon : number
        The whole budget. A float means the decimal it prints (0.1 is 1/10); ``float("inf")`` allows releases without
        noise.
    delta : number, default=0.0
        The delta of the budget; above 0 it admits losses in rho, those of Gaussian noise among them.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The relation that every loss here is stated under.

    Attributes
    ----------
    epsilon, delta : Fraction
        The budget (epsilon may be ``math.inf``).
    spent, remaining : Fraction or float
        Epsilon spent so far and left; they sum to the budget. Exact for pure losses; of losses in rho an upper
        bound by the conversion of their sum, which is smaller if all are of Gaussian noise.
    spent_delta : Fraction
        Delta spent so far.
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
    How much each loss is may be chosen as one goes, by what was released before, as long as all are of one kind: pure, of Gaussian
    noise [1]_ [2]_, or zCDP [3]_. Of mixed kinds, fix the shares in advance. Releases themselves may always follow from earlier ones.

    It lives in one process: a forked process may not spend from it, and it refuses to be pickled while open, because a
    copy would let the budget be spent twice. ``clone`` and ``copy`` return the same object for the same reason.

    References
    ----------
    .. [1] Smith, Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy".
    .. [2] Koskela, Tobaben, Honkela (2023), "Individual privacy accounting with Gaussian differential privacy".
    .. [3] Whitehouse, Ramdas, Rogers, Wu (2023), "Fully-adaptive composition in differential privacy".

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

    def __init__(self, epsilon: Any, delta: Any = 0.0, *, neighboring: str = "replace_one") -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.neighboring = check_neighboring(neighboring)
        self._entries = Ledger()
        self._account: int | None = None  # in the ledger: the entry that charged for this, of a child
        self._closed = False
        self._process = os.getpid()
        self._resumable: list[LedgerEntry] = []  # of a reopened record: charges that a mechanism may go on under

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Entries in the order of their charge; one that charged for a child says where the child's noise came from."""
        return tuple(map(self._entries.told, self._entries.entries(self._account)))

    def parts_of(self, entry: LedgerEntry) -> tuple[LedgerEntry, ...]:
        """Return what the child released that an entry charged for: none for any other entry."""
        return tuple(map(self._entries.told, self._entries.entries(entry.id)))

    @property
    def closed(self) -> bool:
        """Whether this is a record that can no longer be spent from."""
        return self._closed

    @property
    def spent(self) -> Amount:
        """Epsilon spent so far, at the accountant's delta."""
        return self._entries.total(self._account, self.delta)[0]

    @property
    def spent_delta(self) -> Fraction:
        """Delta spent so far: all of it, once there is a loss in rho."""
        return self._entries.total(self._account, self.delta)[1]

    @property
    def remaining(self) -> Amount:
        """Epsilon left."""
        return math.inf if self.epsilon == math.inf else self.epsilon - self.spent

    def split(self, weights: Any) -> list[Any]:
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

    def spend(self, loss: Any, *, name: str) -> None:
        """Charge a loss without drawing noise here.

        Parameters
        ----------
        loss : PrivacyLoss or number
            A number is a pure epsilon.
        name : str
            What it is for.
        """
        self._charge(self._entry(name, as_loss(loss)))

    def release(
        self, values: Any, noise: Noise, rng: RandomBits, *, name: str, loss: Any = None, change: Change | None = None
    ) -> np.ndarray:
        """Charge `loss`, then add noise to exact integers: the only way out for private data.

        Parameters
        ----------
        values : int64 array
            The exact statistic.
        noise : DiscreteLaplace, DiscreteGaussian, DiscreteSupNorm or DiscreteMatrixLaplace
            Its scale broadcasts over `values`.
        rng : SecureBits or SeededBits
            See `skdpsynth.privacy.check_rng`.
        name : str
            What is released, for the ledger.
        loss : PrivacyLoss or number, default=None
            What the release costs. None: all that remains.
        change : Change, default=None
            How far one row moves `values`, as `skdpsynth.statistics` tells it. The noise must cover it at `loss`, or nothing is
            charged or drawn. None: the caller answers for the loss, and the ledger says that no change was stated.

        Returns
        -------
        noisy_values : int64 array of the same shape
            Sums wrap modulo 2**64, which is post-processing.
        """
        values = exact(values)
        loss = PrivacyLoss(epsilon=self._all_that_remains()) if loss is None else as_loss(loss)
        check_covered(noise, rng, change, loss, self.neighboring, name)
        noise.check_shape(values.shape)
        self._charge(self._entry(name, loss, noise, rng, change=change, n_values=values.size))
        return values + noise.sample(values.shape, rng)

    def release_discovered(self, tables: Any, chosen: Discovery, rng: RandomBits, *, name: str) -> list[list[Any]]:
        """Charge the loss of a discovery, then return the levels of tables that enough rows have; their number alone is private.

        Parameters
        ----------
        tables : sequence of dict of level to int
            Exact counts of the levels that occur: strings or whole numbers. Each row has at most one level of each table.
        chosen : Discovery
            From `skdpsynth.privacy.discovery`.
        rng : SecureBits or SeededBits
        name : str
            What is released, for the ledger, which tells of no number of levels.

        Returns
        -------
        levels : list of list
            Of each table, in their own order.
        """
        tables = checked_tables(tables)
        chosen.check(self.neighboring, len(tables), rng, name)
        self._charge(self._entry(name, chosen.loss, chosen.noise, rng, change=units(self.neighboring, len(tables))))
        return [chosen.shown_levels(table, rng) for table in tables]

    def standing(self, noise: Noise, rng: RandomBits, *, name: str, loss: Any = None, change: Change | None = None) -> StandingRelease:
        """Charge `loss` once for a mechanism that releases again and again, such as a counter along a stream.

        Parameters
        ----------
        noise : DiscreteLaplace or DiscreteGaussian
            What is drawn.
        rng : SecureBits or SeededBits
        name : str
        loss : PrivacyLoss or number, default=None
            What all its releases together cost, which the caller proves. None: all that remains.
        change : Change, default=None
            How far one row moves all that is ever released together; see `release`.

        Returns
        -------
        standing : object with ``release``
        """
        loss = PrivacyLoss(epsilon=self._all_that_remains()) if loss is None else as_loss(loss)
        check_covered(noise, rng, change, loss, self.neighboring, name)
        self._charge(self._entry(name, loss, noise, rng, change=change))
        return StandingRelease(self, noise, loss, rng)

    def standing_again(self, noise: Noise, rng: RandomBits, *, name: str, loss: Any, change: Change) -> StandingRelease:
        """Open the door again of a mechanism that goes on after it was saved and loaded, under what the record shows was charged.

        Parameters
        ----------
        noise : DiscreteLaplace or DiscreteGaussian
        rng : SecureBits or SeededBits
        name : str
            Of the charge: an entry of the record, or of a child in it. The last one counts, and each is taken up once.
        loss : PrivacyLoss or number
            What all releases together cost, those before and those to come.
        change : Change
            How far one row moves all that is released together, which the noise must cover.

        Returns
        -------
        standing : object with ``release``

        Raises
        ------
        ValueError
            If this accountant was not made by `reopened`, or its record shows no such charge.
        """
        loss = as_loss(loss)
        check_covered(noise, rng, change, loss, self.neighboring, name)
        with lock_of(self):
            self.check_open(name)
            taken_up(self._resumable, name, loss)
        return StandingRelease(self, noise, loss, rng)

    def child(self, epsilon: Any, delta: Any = 0.0, *, name: str, group: str | None = None) -> "PrivacyAccountant":
        """Hand part of the budget to a new accountant; this one is charged at once and in full.

        Parameters
        ----------
        epsilon, delta : numbers
            The child's budget.
        name : str
            What the child is for; within a group, which rows it holds.
        group : str, default=None
            Children of one group hold disjoint rows (parallel composition): together they cost the largest of them. Those of one
            name hold the same rows, and add. Under "replace_one" rows may be split by their public position. Under
            "add_or_remove_one" only by a value that each row carries, never by position: one row more shifts all that follow.

        Returns
        -------
        child : PrivacyAccountant
        """
        child = PrivacyAccountant(epsilon, delta, neighboring=self.neighboring)
        child._account = self._charge(self._entry(name, PrivacyLoss(child.epsilon, child.delta), group=group)).id
        child._entries, child._process = self._entries, self._process
        return child

    def fold(self, group: str, names: Any, *, into: str) -> None:
        """Replace entries of a group by one that costs the largest of them, so that the ledger of an endless stream stays short.

        Parameters
        ----------
        group : str
        names : sequence of str
            Members whose rows never come again, and whose children are closed.
        into : str
            Name of the one entry; may be that of an earlier one, which is folded in.
        """
        self._entries.fold(self._account, group, names, into)

    def was_charged(self, name: str, group: str) -> bool:
        """Return whether a group has a member of this name."""
        return self._entries.has_member(self._account, group, name)

    def check_open(self, name: str) -> None:
        """Raise unless this is open, and in the process that opened it."""
        if self._closed:
            raise BudgetExceededError(
                f"{shown(name)} cannot be charged to a closed record; set accountant to None or to a new PrivacyAccountant.",
                None,
                Fraction(0),
            )
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{shown(name)} cannot be charged in another process than the accountant's, where the charge would be lost; "
                "use n_jobs=1, or threads."
            )

    def close(self) -> None:
        """Make this a record: it can be read and pickled, but no longer spent from."""
        with lock_of(self):  # not between the check and the charge of another thread: the record is complete
            self._closed = True

    def record(self) -> "PrivacyAccountant":
        """Return a closed copy."""
        copy = self._copied()
        copy._closed = True
        return copy

    def reopened(self) -> "PrivacyAccountant":
        """Return an open accountant that has spent what this record has: for a mechanism that goes on after it was saved and loaded.

        Going on twice from one record is two releases of what follows, which together cost the sum.

        Raises
        ------
        ValueError
            If this is open: two open accountants would spend one budget twice.
        """
        if not self._closed:
            raise ValueError("Only a closed record can be reopened, and this accountant is open; go on with it as it is.")
        copy = self._copied()
        copy._resumable = list(copy._entries.below(copy._account))
        return copy

    def _copied(self) -> "PrivacyAccountant":
        copy = PrivacyAccountant(self.epsilon, self.delta, neighboring=self.neighboring)
        copy._account = self._account
        copy._entries = Ledger(self._entries.below(self._account), self._account)
        return copy

    def to_frame(self, backend: str = "pandas", *, parts: bool = False) -> Any:
        """Return the ledger as a data frame, a row for each charge.

        The columns "epsilon" and "delta" say what a charge added to what was spent, so they sum to `spent` and `spent_delta`: the
        members of a group add only what exceeds the largest before, and losses in rho what their sum converts to.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the frame; it must be installed.
        parts : bool, default=False
            Whether to list below each charge what the child that it paid for released. Those rows have the name of the charge in a
            column "part_of", and nothing in the columns "epsilon" and "delta", because they add nothing.
        """
        return frame_of(self._entries, self._account, self.delta, backend, parts)

    def lines(self) -> Iterator[tuple[LedgerEntry, str | None]]:
        """Yield (entry, name of the entry it is part of or None): the ledger, with what children released below their entry."""
        return ((line.entry, line.part_of) for line in lines_of(self._entries, self._account, self.delta))

    def noise_of(self, entry: LedgerEntry) -> str | None:
        """Return the noise of an entry in words: that of its parts, if it charged for a child."""
        return noise_of(self._entries, entry)

    def _all_that_remains(self) -> Amount:
        remaining = self.remaining
        if remaining <= 0:
            raise BudgetExceededError(
                f"Nothing remains of epsilon={float(self.epsilon):g}; `split` it before the first release, or raise it.", None, remaining
            )
        return remaining

    def _entry(self, name: str, loss: PrivacyLoss, noise: Noise | None = None, rng: RandomBits | None = None, **more: Any) -> LedgerEntry:
        if noise is not None and rng is not None:
            more |= {"noise": type(noise).__name__, "scale": noise.scales, "randomness": "seeded" if rng.seeded else "secure"}
        return LedgerEntry(name, loss, self.neighboring, part_of=self._account, **more)

    def check_affordable(self, epsilon: Any, delta: Any = 0.0, *, name: str) -> None:
        """Raise what `child` would raise now; nothing is charged.

        Parameters
        ----------
        epsilon, delta : numbers
            What a child would get.
        name : str
            What it would be for.
        """
        self._charge(self._entry(name, PrivacyLoss(epsilon=check_epsilon(epsilon), delta=check_delta(delta))), self._entries.check_room)

    def _charge(self, entry: LedgerEntry, write: Any = None) -> Any:
        """Refuse or write the entry; nothing else changes."""
        self.check_open(entry.name)
        if entry.loss.rho is not None and not self.delta and not entry.loss.is_infinite:
            raise ValueError(f"{shown(entry.name)} has a loss in rho, which needs delta > 0; give the accountant a delta.")
        try:
            with lock_of(self):
                self.check_open(entry.name)
                return (write or self._entries.append)(entry, self.epsilon, self.delta)
        except Refused as refused:
            spent, needed = refused.spent, refused.needed
        raise refusal(entry, spent, needed, (self.epsilon, self.delta))

    def __repr__(self) -> str:
        state, n_entries = "record" if self._closed else "open", len(self._entries.entries(self._account))
        return (
            f"<PrivacyAccountant ({state}): spent epsilon={float(self.spent):g} of {float(self.epsilon):g}, "
            f"delta={float(self.spent_delta):g} of {float(self.delta):g}, {self.neighboring}, {n_entries} entries>"
        )

    def __sklearn_clone__(self) -> "PrivacyAccountant":
        return self

    def __copy__(self) -> "PrivacyAccountant":
        return self

    def __deepcopy__(self, memo: dict) -> "PrivacyAccountant":
        return self

    def __getstate__(self) -> dict[str, Any]:
        if not self._closed:
            raise TypeError(
                "An open PrivacyAccountant cannot be pickled, because a copy could spend the budget again; "
                "use n_jobs=1 or threads, or pickle its record()."
            )
        return {**vars(self), "_entries": list(self._entries.below(self._account)), "_resumable": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _entries=Ledger(state["_entries"], state["_account"]), _process=os.getpid())


def check_accountant(accountant: Any) -> None:
    """Raise ValueError unless `accountant` is None or a PrivacyAccountant."""
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise ValueError(
            f"accountant must be None or a PrivacyAccountant, got {type(accountant).__name__}; make one with PrivacyAccountant(epsilon)."
        )
