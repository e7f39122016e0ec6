"""The accountant, which charges a release and then adds its noise."""

import math
import os
from typing import Any

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._validation import check_string, check_type, short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import savable
from skdpsynth.privacy._accountant_base import BaseAccountant, check_note
from skdpsynth.privacy._continual_release import ContinualRelease, pop_charge
from skdpsynth.privacy._format import LARGER_BUDGET_ADVICE, budget_exceeded_error
from skdpsynth.privacy._ledger import Ledger, LedgerEntry, OverBudget, Overtaken
from skdpsynth.privacy._ledger_place import existing_path
from skdpsynth.privacy._ledger_sqlite import LedgerFile
from skdpsynth.privacy._losses import (
    Amount,
    PrivacyLoss,
    Unit,
    as_loss,
    check_delta,
    check_epsilon,
    check_neighboring,
    check_unit,
    split_exactly,
)
from skdpsynth.privacy._mechanism import check_covered
from skdpsynth.privacy._noise import Noise, check_int64
from skdpsynth.privacy._optimal_composition import losses_of_child, optimal_loss
from skdpsynth.privacy._partition_selection import Discovery, check_tables
from skdpsynth.privacy._permute_and_flip import check_utilities, selection_mechanism
from skdpsynth.privacy._random import RandomBits


@savable
class PrivacyAccountant(BaseAccountant):
    """Keep a privacy budget: charge a release first, then draw its noise.

    Parameters
    ----------
    epsilon : number
        The whole budget. A float means the decimal it prints (0.1 is 1/10); ``float("inf")`` allows releases without noise.
    delta : number, default=0.0
        The delta of the budget; above 0 it admits losses in rho, such as those of Gaussian noise.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The neighboring relation of every loss.
    ledger : str or path-like, default=None
        A file that keeps the charges, for all programs that use the same data: it is made if it does not exist, and refused if it was
        made with another budget or relation. None: the ledger is in memory, and ends with this process.
    dataset : str, default=None
        Your name of the data set, which each entry repeats. None: the name given by the maker of the `ledger`.
    note : str, default=None
        A note on each entry. It may be changed later.
    unit : Unit, default=None
        The unit of privacy of every loss. None: the row; children may then have units of their own.

    Attributes
    ----------
    epsilon, delta : Fraction
        The budget (epsilon may be ``math.inf``).
    remark : str or None
        A further note in its text: after the fit of a clone, that other fits are not counted here.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, or not that of the `ledger`.
    LedgerError
        If the file of the `ledger` cannot be used; nothing is drawn then.
    BudgetExceededError
        By `spend`, `release` and `child` when the cost exceeds the remaining budget; then nothing is charged or drawn.

    See Also
    --------
    skdpsynth.privacy.LedgerEntry : A line of the ledger.
    skdpsynth.privacy.PrivacyLoss : A cost.
    skdpsynth.model_selection.plan : Expected errors, before anything is spent.
    skdpsynth.exceptions.BudgetExceededError : Raised by a release that does not fit.

    Notes
    -----
    The size of each loss may depend on earlier outputs, as long as all losses are of one kind: pure, of Gaussian noise [1]_ [2]_, or
    zCDP [3]_. Losses in epsilon may also come before all in rho. A loss in epsilon after them, or zCDP after Gaussian noise, is refused,
    because its turn could follow from noise that was seen, and every possible turn would have a delta of its own. To alternate between
    kinds, fix their shares first: give each kind a `child`. A child with ``rho="zcdp"`` or ``rho="gaussian"`` takes pure losses too, and
    counts all of them in rho, in any order: many small ones add up to less so. `spent` before the budget is used up, and epsilon at
    another delta, hold for losses that were fixed in advance. Curves of several fits are never composed: no such filter is proved.

    A ledger in memory lives in one process: a forked process may not spend from it, and it refuses to be pickled while open, because a
    copy would let the budget be spent twice. ``clone`` and ``copy`` return the same object for the same reason.

    From a `ledger` in a file any number of processes and threads may spend, forked ones and those of ``n_jobs`` too: a charge is one
    transaction, which is on the disk before anything is drawn, so a crash never leaves an unpaid draw. But a mechanism that releases
    again and again under one charge, such as a counter, stays in the process that charged it. A pickle of this accountant names the
    file, and goes on with it where it is loaded; a record holds the charges, and no path.

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

    A ledger that outlives the program:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "budget.db"
    ...     PrivacyAccountant(1.0, ledger=path, dataset="visits of 2026").spend(0.25, name="counts")
    ...     PrivacyAccountant(1.0, ledger=path).remaining
    Fraction(3, 4)
    """

    remark: str | None = None
    _planned: bool = False  # whether the shares of all kinds of losses were fixed before the first
    unit: Unit | None = None  # also of records from before there were units

    def __init__(
        self,
        epsilon: Any,
        delta: Any = 0.0,
        *,
        neighboring: str = "replace_one",
        ledger: Any = None,
        dataset: str | None = None,
        note: str | None = None,
        unit: Unit | None = None,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.neighboring = check_neighboring(neighboring)
        self.dataset, self.note = check_note("dataset", dataset), check_note("note", note)
        self.unit = check_unit(unit)
        self._entries = Ledger()
        self._account = None  # in the ledger: the entry that charged for this, of a child
        self._closed = False
        self._process = os.getpid()
        self._resumable = []  # of a reopened record: charges that a mechanism may go on under
        self._newest = None  # the newest entry, where nobody else may charge this account unseen
        self._first = None  # of a stream that went on: its first account
        self._place = None  # of a checkpoint: where to go on
        if ledger is not None and unit is not None:
            raise ValueError(
                f"unit must be None for a ledger in a file, which holds fits of several units, got {unit}; give a child the unit."
            )
        if ledger is not None:
            file = LedgerFile.opened(ledger, (self.epsilon, self.delta, self.neighboring), self.dataset)
            self._entries, self.dataset = file, file.dataset if self.dataset is None else self.dataset

    @classmethod
    def at(cls, path: Any, *, dataset: str | None = None, note: str | None = None) -> "PrivacyAccountant":
        """Return the accountant of an existing ledger in a file, with the budget that it was made with.

        Parameters
        ----------
        path : str or path-like
        dataset, note : str, default=None
            As of the class.

        Returns
        -------
        accountant : PrivacyAccountant

        Raises
        ------
        LedgerError
            If there is no file, or it cannot be used.
        """
        path = existing_path(path, "path")
        epsilon, delta, neighboring = LedgerFile(path).promise
        return cls(epsilon, delta, neighboring=neighboring, ledger=path, dataset=dataset, note=note)

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit, which every noise must cover."""
        return 1 if self.unit is None else self.unit.rows

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
        return split_exactly(self._positive_remaining(), weights)

    def spend(self, loss: Any, *, name: str) -> None:
        """Charge a loss without drawing noise here.

        Parameters
        ----------
        loss : PrivacyLoss or number
            A number is a pure epsilon.
        name : str
            Its purpose, for the ledger.
        """
        self._charge(self._entry(name, as_loss(loss)))

    def release(
        self, values: Any, noise: Noise, rng: RandomBits, *, name: str, loss: Any = None, sensitivity: Sensitivity | None = None
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
            The name of the release in the ledger.
        loss : PrivacyLoss or number, default=None
            The cost of the release. None: all that remains.
        sensitivity : Sensitivity, default=None
            How far one row moves `values`, from `skdpsynth.statistics`. The noise must cover that of all rows of a unit at `loss`, or
            nothing is charged or drawn. None: the caller answers for the loss, and the ledger states no sensitivity; this is refused where
            a unit may have several rows.

        Returns
        -------
        noisy_values : int64 array of the same shape
            Sums wrap modulo 2**64, which is post-processing.
        """
        values = check_int64(values)
        loss = self._rest() if loss is None else as_loss(loss)
        check_covered(noise, rng, sensitivity, loss, self.neighboring, name, self.rows_per_unit)
        noise.check_shape(values.shape)
        self._charge(self._entry(name, loss, noise, rng, sensitivity=sensitivity, n_values=values.size))
        return values + noise.sample(values.shape, rng)

    def release_discovered(self, tables: Any, chosen: Discovery, rng: RandomBits, *, name: str) -> list[list[Any]]:
        """Charge the loss of a discovery, then return the levels of tables that enough rows have.

        Parameters
        ----------
        tables : sequence of dict of level to int
            Exact counts of the levels that occur, strings or whole numbers, whose number alone is private. Each row has at most one level
            of each table.
        chosen : Discovery
            From `skdpsynth.privacy.discovery`.
        rng : SecureBits or SeededBits
        name : str
            The name of the release in the ledger, which holds no number of levels.

        Returns
        -------
        levels : list of list
            The shown levels of each table, sorted.
        """
        tables = check_tables(tables)
        check_type("chosen", chosen, Discovery, "a Discovery, from skdpsynth.privacy.discovery")
        chosen.check(self.neighboring, len(tables), rng, name, self.rows_per_unit)
        facts = statistic_facts("levels_shown", tables=len(tables), threshold=int(chosen.threshold))
        self._charge(self._entry(name, chosen.loss, chosen.noise, rng, sensitivity=count_sensitivity(self.neighboring, len(tables), facts)))
        return [chosen.shown_levels(table, rng) for table in tables]

    def release_choice(self, utilities: Any, sensitivity: Sensitivity, rng: RandomBits, *, name: str, loss: Any = None) -> int:
        """Charge `loss`, then choose one of some candidates, preferably one of large utility; nothing else about the utilities leaves.

        Parameters
        ----------
        utilities : int64 array of shape (n_candidates,)
            Exact whole numbers, so that their sensitivity is exact.
        sensitivity : Sensitivity
            How far one row moves them; its `sup`, D, counts. Candidates whose utility is less than the largest by ``2 D / epsilon`` are
            chosen e times less often.
        rng : SecureBits or SeededBits
        name : str
            The name of the choice in the ledger.
        loss : PrivacyLoss or number, default=None
            A pure one, for permute-and-flip, or one in rho, Gaussian or zCDP, for the exponential mechanism, which at the same loss chooses
            candidates of less utility less often by twice that exponent. None: all that remains.

        Returns
        -------
        chosen : int
            The number of a candidate.
        """
        utilities = check_utilities(utilities)
        loss = self._rest() if loss is None else as_loss(loss)
        check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
        choice = selection_mechanism(sensitivity.times(self.rows_per_unit), loss, self.neighboring, rng)
        self._charge(self._entry(name, loss, choice, rng, sensitivity=sensitivity, n_values=1))
        return choice.choose(utilities, rng)

    def standing(
        self, noise: Noise, rng: RandomBits, *, name: str, loss: Any = None, sensitivity: Sensitivity | None = None
    ) -> ContinualRelease:
        """Charge `loss` once for a mechanism that releases again and again, such as a counter along a stream.

        Parameters
        ----------
        noise : DiscreteLaplace or DiscreteGaussian
        rng : SecureBits or SeededBits
        name : str
        loss : PrivacyLoss or number, default=None
            The cost of all its releases together, which the caller proves. None: all that remains.
        sensitivity : Sensitivity, default=None
            How far one row moves all values that are ever released together; see `release`.

        Returns
        -------
        standing : object with ``release``
        """
        loss = self._rest() if loss is None else as_loss(loss)
        check_covered(noise, rng, sensitivity, loss, self.neighboring, name, self.rows_per_unit)
        self._charge(self._entry(name, loss, noise, rng, sensitivity=sensitivity))
        return ContinualRelease(self, noise, loss, rng)

    def standing_again(self, noise: Noise, rng: RandomBits, *, name: str, loss: Any, sensitivity: Sensitivity) -> ContinualRelease:
        """Return the releases of a mechanism that goes on after it was saved and loaded, under a charge of the record.

        `name` is that of the charge: an entry of the record, or of a child in it. The last one counts, and each is taken up once. `loss`
        is the cost of all releases together, those before and those to come, and `sensitivity` is how far one row moves all their values,
        which the noise must cover. Raises ValueError if this accountant was not made by `reopened`, or its record has no such charge.
        """
        loss = as_loss(loss)
        check_string("name", name)
        check_covered(noise, rng, sensitivity, loss, self.neighboring, name, self.rows_per_unit)
        with lock_of(self):
            self.check_open(name)
            pop_charge(self._resumable, name, loss)
        return ContinualRelease(self, noise, loss, rng)

    def child(
        self, epsilon: Any, delta: Any = 0.0, *, name: str, group: str | None = None, rho: str | None = None, unit: Unit | None = None
    ) -> "PrivacyAccountant":
        """Hand part of the budget to a new accountant; this one is charged at once and in full.

        Parameters
        ----------
        epsilon, delta : numbers
            The child's budget.
        name : str
            The purpose of the child; within a group, which rows it holds.
        group : str, default=None
            Children of one group hold disjoint rows (parallel composition): together they cost the largest of them. Children of one name
            hold the same rows, and add. Under "replace_one" rows may be split by position where it is public: in an array, a frame or a
            file, not in a query, which has no order unless it states one. Under "add_or_remove_one" split only by a value that each row
            carries, never by position: one row more shifts all that follow.
        rho : {None, "gaussian", "zcdp"}, default=None
            Charge the child in rho: all its losses will be those of Gaussian noise, or zCDP. It then costs the most rho that converts to
            its (epsilon, delta), and rho adds up: six Gaussian children of (0.5, 1e-7) cost 1.2 at a delta of 1e-6, and not 3. Where that
            does not fit, as where this accountant has delta=0, it costs (epsilon, delta).
        unit : Unit, default=None
            The unit of privacy of the child. None: that of this accountant.

        Returns
        -------
        child : PrivacyAccountant
        """
        return self._child(epsilon, delta, name, group, rho, unit)

    def _child(
        self, epsilon: Any, delta: Any, name: str, group: str | None, rho: str | None, unit: Unit | None, write: Any = None
    ) -> "PrivacyAccountant":
        child = self._below(epsilon, delta, check_unit(unit, self.unit))
        charged = self._charge_first(name, losses_of_child(child.epsilon, child.delta, rho, self.delta), group, write, unit=child.unit)
        child._account, child._entries, child._process = charged.id, self._entries, self._process
        return child

    def _below(self, epsilon: Any, delta: Any, unit: Unit | None) -> "PrivacyAccountant":
        return PrivacyAccountant(epsilon, delta, neighboring=self.neighboring, dataset=self.dataset, note=self.note, unit=unit)

    def children(self, losses: Any, delta: Any = 0.0, *, name: str) -> "list[PrivacyAccountant]":
        """Hand parts of the budget that are fixed in advance to new accountants, at the least joint epsilon that is possible.

        This one is charged at once and in full, by optimal composition at `delta`, however much of the children is used. The children can
        be spent from in any order, and by turns.

        Parameters
        ----------
        losses : sequence of PrivacyLoss or numbers
            The budget of each child; a number is a pure epsilon. None in rho: those add up as they are.
        delta : number, default=0.0
            The delta that is paid for a smaller epsilon, beyond the deltas of the losses. 0: epsilon is the sum.
        name : str
            The purpose of the children.

        Returns
        -------
        children : list of PrivacyAccountant

        References
        ----------
        .. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy".
        .. [2] Murtagh, Vadhan (2016), "The complexity of computing the optimal composition of differential privacy".
        .. [3] Vadhan, Zhang (2023), "Concurrent composition theorems for differential privacy".

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> accountant = PrivacyAccountant(3, 1e-6)
        >>> children = accountant.children([0.1] * 20, 1e-6, name="questions")
        >>> round(float(accountant.spent), 4), children[0].remaining
        (1.7886, Fraction(1, 10))
        """
        if not isinstance(losses, list | tuple) and not (type(losses) is np.ndarray and losses.ndim == 1):
            raise ValueError(f"losses must be a sequence, one for each child, got {short_repr(losses)}; [0.1] * 12 makes twelve.")
        parts, name = [as_loss(loss) for loss in losses], check_string("name", name)
        whole = optimal_loss(parts, check_delta(delta))
        # All that the children get is written below their one line, where nobody else can charge.
        whole_budget = sum(part.epsilon for part in parts), sum(part.delta for part in parts)
        both = self._below(*whole_budget, self.unit)
        both._account, both._entries, both._process = self._charge(self._entry(name, whole)).id, self._entries, self._process
        return [both.child(part.epsilon, part.delta, name=f"{name} {number}") for number, part in enumerate(parts, 1)]

    def fold(self, group: str, names: Any, *, into: str) -> None:
        """Replace entries of a group by one that costs the largest of them, so that the ledger of an endless stream stays short.

        `names` are members whose rows never come again, and whose children are closed. An earlier entry named `into` is folded in.
        """
        check_string("group", group), check_string("into", into)
        if not isinstance(names, list | tuple | set) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"names must be a list of strings, names of members of the group, got {short_repr(names)}.")
        with lock_of(self):
            if self._unshown is not None:
                self._later = (*self._later, (group, [*names], into))
                return
            line = self._entries.fold(self._account, self._alias(group), names, into, self._newest)
            self._newest = self._newest if line is None or self._newest is None else line

    def was_charged(self, name: str, group: str) -> bool:
        """Return whether a group has a member of this name."""
        check_string("name", name), check_string("group", group)
        return self._entries.has_member(self._account, self._alias(group), name)

    def _last_entry(self) -> int:
        """Return the number of the latest entry of this account, or 0."""
        return self._entries.last(self._account)

    def _alias(self, group: str) -> str:
        return (self._aliases or {}).get(group, group)

    def _positive_remaining(self) -> Amount:
        remaining = self.remaining
        if remaining <= 0:
            raise BudgetExceededError(
                f"Nothing remains of epsilon={float(self.epsilon):g}; `split` it before the first release, or {LARGER_BUDGET_ADVICE}.",
                None,
                remaining,
            )
        return remaining

    def _rest(self) -> PrivacyLoss:
        """Return all that remains as a loss; in rho for a child that was charged for in rho."""
        sums, epsilon = self._entries.sums(self._account), self._positive_remaining()
        if sums.most == math.inf:
            return PrivacyLoss(epsilon=epsilon)
        return PrivacyLoss(rho=sums.remaining_rho, gaussian=sums.only_gaussian)

    def _entry(self, name: str, loss: PrivacyLoss, noise: Any = None, rng: RandomBits | None = None, **more: Any) -> LedgerEntry:
        check_string("name", name)
        if more.get("group") is not None:
            more["group"] = self._alias(check_string("group", more["group"]))
        if noise is not None and rng is not None:
            more |= {"noise": type(noise).__name__, "scale": noise.scales, "randomness": "seeded" if rng.seeded else "secure"}
        facts = {"dataset": check_note("dataset", self.dataset), "note": check_note("note", self.note)}
        unit, sensitivity = more.pop("unit", self.unit), more.pop("sensitivity", None)
        facts["unit"] = None if unit is None else str(unit)
        more["sensitivity"] = sensitivity if sensitivity is None else sensitivity.times(self.rows_per_unit)
        return LedgerEntry(name, loss.alone, self.neighboring, part_of=self._account, **(facts | more))

    def check_affordable(self, epsilon: Any, delta: Any = 0.0, *, name: str, rho: str | None = None) -> None:
        """Raise the error that `child` would raise now; nothing is charged."""
        losses = losses_of_child(check_epsilon(epsilon), check_delta(delta), rho, self.delta)
        self._charge_first(name, losses, write=self._entries.check_room)

    def _charge_first(self, name: str, losses: list[PrivacyLoss], group: str | None = None, write: Any = None, **more: Any) -> Any:
        """Charge the first loss that fits, or raise the error of the first."""
        refused = []
        for loss in losses:
            try:
                return self._charge(self._entry(name, loss, group=group, **more), write)
            except BudgetExceededError as error:
                refused.append(error)
        raise refused[0]

    def _charge(self, entry: LedgerEntry, write: Any = None) -> Any:
        """Write the entry, or refuse it and change nothing."""
        self.check_open(entry.name)
        if entry.loss.rho is not None and not self.delta and not entry.loss.is_infinite:
            raise ValueError(f"{short_repr(entry.name)} has a loss in rho, which needs delta > 0; give the accountant a delta.")
        try:
            with lock_of(self):
                self.check_open(entry.name)
                if write is not None:
                    return write(entry, self.epsilon, self.delta, planned=self._planned)
                pending = self._unshown is not None
                entry = self._entries.append(entry, self.epsilon, self.delta, self._newest, self._planned, pending)
                if self._unshown is not None:
                    self._unshown.append(entry.id)
                elif self._newest is not None:
                    self._newest = entry.id
                return entry
        except Overtaken:
            raise RuntimeError(
                f"{short_repr(entry.name)} was not charged, because a copy of this stream went on meanwhile; try again."
            ) from None
        except OverBudget as refused:
            spent, needed, in_rho = refused.spent, refused.needed, refused.in_rho
        raise budget_exceeded_error(entry, spent, needed, (self.epsilon, self.delta), in_rho)


def resolve_accountant(accountant: Any) -> PrivacyAccountant | None:
    """Return the accountant that a parameter stands for: itself, that of the ledger at a path, or None."""
    if isinstance(accountant, str | os.PathLike):
        return PrivacyAccountant.at(existing_path(accountant, "accountant"))
    check_accountant(accountant)
    return accountant


def check_accountant(accountant: Any) -> None:
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise ValueError(
            f"accountant must be None or a PrivacyAccountant, got {type(accountant).__name__}; make one with PrivacyAccountant(epsilon), "
            "or give the path of a ledger."
        )
