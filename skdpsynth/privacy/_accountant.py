"""The accountant, which charges a release and then adds its noise."""

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Self, SupportsIndex, TypeAlias

import numpy as np

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, count_sensitivity, statistic_facts
from skdpsynth._serialization import require
from skdpsynth._validation import check_bool, check_choice, check_string, check_type, short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import savable
from skdpsynth.privacy import _ledger_views as views
from skdpsynth.privacy._amplification import SecretSample
from skdpsynth.privacy._composition import AttackRisk, optimal_loss, rho_of_epsilon, risk_of
from skdpsynth.privacy._ledger import LARGER_BUDGET_ADVICE, Account, Budget, Ledger, OutOfTurn, Overtaken, merge_entries, merge_options
from skdpsynth.privacy._ledger_entry import LedgerEntry, MemoryStore, exact_text
from skdpsynth.privacy._ledger_file import FilePath, FileStore, existing_path
from skdpsynth.privacy._losses import (
    LONE_ROW,
    Amount,
    Cost,
    PrivacyLoss,
    Unit,
    as_loss,
    check_delta,
    check_epsilon,
    check_neighboring,
    check_unit,
    split_exactly,
)
from skdpsynth.privacy._mechanism import ContinualRelease, check_covered
from skdpsynth.privacy._noise import Noise, check_int64
from skdpsynth.privacy._random import RandomBits
from skdpsynth.privacy._selection import (
    Discovery,
    ExponentialMechanism,
    Level,
    PermuteAndFlip,
    check_tables,
    check_utilities,
    selection_mechanism,
)

_LONGEST = 1000  # characters of a note


@savable
class PrivacyAccountant:
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
    skdpsynth.model_selection.plan : Expected errors, before anything is spent.

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

    epsilon: Amount
    delta: Fraction
    neighboring: str
    dataset: str | None
    note: str | None
    remark: str | None = None
    unit: Unit | None = None
    _account: Account
    _closed: bool
    _process: int
    _planned: bool = False  # whether the shares of all kinds of losses were fixed before the first

    def __init__(
        self,
        epsilon: Amount,
        delta: Amount = 0.0,
        *,
        neighboring: str = "replace_one",
        ledger: FilePath | None = None,
        dataset: str | None = None,
        note: str | None = None,
        unit: Unit | None = None,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self.neighboring = check_neighboring(neighboring)
        self.dataset, self.note = _check_note("dataset", dataset), _check_note("note", note)
        self.unit = check_unit(unit)
        self._closed = False
        self._process = os.getpid()
        if ledger is None:
            self._account = Account(Ledger(MemoryStore()))
            return
        if unit is not None:
            raise ValueError(
                f"unit must be None for a ledger in a file, which holds fits of several units, got {unit}; give it to a child."
            )
        store = FileStore.open(ledger, (self.epsilon, self.delta, self.neighboring), self.dataset)
        self._account, self.dataset = Account(Ledger(store)), store.dataset if self.dataset is None else self.dataset

    @classmethod
    def at(cls, path: FilePath, *, dataset: str | None = None, note: str | None = None) -> "PrivacyAccountant":
        """Return the accountant of an existing ledger at a `path`, with the budget that it was made with.

        `dataset` and `note` are as of the class. Raises LedgerError if there is no file, or it cannot be used.
        """
        path = existing_path(path, "path")
        epsilon, delta, neighboring = FileStore(path).promise
        return cls(epsilon, delta, neighboring=neighboring, ledger=path, dataset=dataset, note=note)

    # Spending

    def split(self, weights: Sequence[Amount]) -> list[Amount]:
        """Return epsilons in the proportion of `weights` that sum exactly to what remains.

        Weights are positive and finite, and a float means the decimal it prints. Epsilons are fractions (or ``math.inf``, of an infinite
        budget).
        """
        return split_exactly(self._positive_remaining(), weights)

    def spend(self, loss: Cost, *, name: str) -> None:
        """Charge a loss, a `PrivacyLoss` or a number (a pure epsilon), without drawing noise here; `name` states its purpose."""
        self._charge(self._entry(name, as_loss(loss)))

    def release(
        self,
        values: np.ndarray,
        noise: Noise,
        rng: RandomBits,
        *,
        name: str,
        loss: Cost | None = None,
        sensitivity: Sensitivity | None = None,
    ) -> np.ndarray:
        """Charge `loss`, then add noise to exact integers.

        By this and its kin private data leave, and by nothing else: `release_discovered` shows levels, `release_choice` makes a choice,
        and what `standing` returns releases again and again.

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
        noise.check_shape(values.shape, in_stack=sensitivity is not None)
        self._charge(self._entry(name, loss, noise, rng, sensitivity, n_values=values.size))
        return values + noise.sample(values.shape, rng)

    def release_discovered(
        self, tables: Sequence[Mapping[Level, int]], chosen: Discovery, rng: RandomBits, *, name: str
    ) -> list[list[Level]]:
        """Charge the loss of a discovery, then return the levels of tables that enough rows have.

        `tables` are dicts of level to int: exact counts of the levels that occur, strings or whole numbers, where each row has at most one
        level of each table. `chosen` is from `skdpsynth.privacy.discovery`. The ledger holds no number of levels. Returns the shown levels
        of each table, sorted.
        """
        tables = check_tables(tables)
        check_type("chosen", chosen, Discovery, "a Discovery, from skdpsynth.privacy.discovery")
        chosen.check(self.neighboring, len(tables), rng, name, self.rows_per_unit)
        facts = statistic_facts("levels_shown", tables=len(tables), threshold=int(chosen.threshold))
        self._charge(self._entry(name, chosen.loss, chosen.noise, rng, count_sensitivity(self.neighboring, len(tables), facts)))
        return [chosen.select_levels(table, rng) for table in tables]

    def release_choice(
        self, utilities: np.ndarray, sensitivity: Sensitivity, rng: RandomBits, *, name: str, loss: Cost | None = None
    ) -> int:
        """Charge `loss`, then choose one of some candidates, preferably one of large utility; nothing else about the utilities leaves.

        `utilities` is an int64 array of exact whole numbers, one for each candidate, and `sensitivity` how far one row moves them; its
        `sup`, D, counts. Candidates whose utility is less than the largest by ``2 D / epsilon`` are chosen e times less often. A pure loss
        pays for permute-and-flip, and one in rho for the exponential mechanism, which at the same loss chooses candidates of less utility
        less often by twice that exponent; None: all that remains. Returns the number of the chosen candidate.
        """
        listed = check_utilities(utilities)
        loss = self._rest() if loss is None else as_loss(loss)
        check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
        choice = selection_mechanism(sensitivity.times(self.rows_per_unit), loss, self.neighboring, rng)
        self._charge(self._entry(name, loss, choice, rng, sensitivity, n_values=1))
        return choice.choose(listed, rng)

    def standing(
        self, noise: Noise, rng: RandomBits, *, name: str, loss: Cost | None = None, sensitivity: Sensitivity | None = None
    ) -> ContinualRelease:
        """Charge `loss` once for a mechanism that releases again and again, such as a counter along a stream.

        `loss` (None: all that remains) is the cost of all its releases together, which the caller proves, and `sensitivity` is how far one
        row moves all values that are ever released together; `noise`, `rng` and `name` are as in `release`. Returns an object with a
        method ``release``.
        """
        loss = self._rest() if loss is None else as_loss(loss)
        check_covered(noise, rng, sensitivity, loss, self.neighboring, name, self.rows_per_unit)
        self._charge(self._entry(name, loss, noise, rng, sensitivity))
        return ContinualRelease(self, noise, loss, rng)

    def standing_again(self, noise: Noise, rng: RandomBits, *, name: str, loss: Cost, sensitivity: Sensitivity) -> ContinualRelease:
        """Return the releases of a mechanism that goes on after it was saved and loaded, under a charge of the record.

        `name` is that of the charge: an entry of the record, or of a child in it. The last one counts, and each is taken up once. `loss`
        is the cost of all releases together, those before and those to come, and `sensitivity` is how far one row moves all their values,
        which the noise must cover. Raises ValueError if this accountant was not made by `reopen`, or its record has no such charge.
        """
        loss = as_loss(loss)
        check_string("name", name)
        check_covered(noise, rng, sensitivity, loss, self.neighboring, name, self.rows_per_unit)
        with lock_of(self):
            self.check_open(name)
            self._account.take_up(name, loss)
        return ContinualRelease(self, noise, loss, rng)

    def child(
        self, epsilon: Amount, delta: Amount = 0.0, *, name: str, group: str | None = None, rho: str | None = None, unit: Unit | None = None
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

    def children(self, losses: Sequence[Cost], delta: Amount = 0.0, *, name: str) -> "list[PrivacyAccountant]":
        """Hand parts of the budget that are fixed in advance to new accountants, at the least joint epsilon that is possible.

        This one is charged at once and in full, by optimal composition (Murtagh, Vadhan, 2016) at `delta`, however much of the children is
        used. The children can be spent from in any order, and by turns (Vadhan, Zhang, 2023).

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
        charged = self._charge(self._entry(name, whole))
        both = self._below(charged, sum(part.epsilon for part in parts), sum(part.delta for part in parts), self.unit)
        return [both.child(part.epsilon, part.delta, name=f"{name} {number}") for number, part in enumerate(parts, 1)]

    def _child(
        self, epsilon: Amount, delta: Amount, name: str, group: str | None, rho: str | None, unit: Unit | None, claims: bool = False
    ) -> "PrivacyAccountant":
        """Return a child; `claims`: its charge is pending, and that of a process that died before it showed anything serves again."""
        unit, budget = check_unit(unit, self.unit), PrivacyLoss(epsilon, delta)
        entry = self._entry(name, budget, group=group, unit=unit)
        charged = self._charge_first(entry, rho, self._account.ledger.claim if claims else None)
        return self._below(charged, budget.epsilon, budget.delta, unit)

    def _below(self, charged: LedgerEntry, epsilon: Amount, delta: Fraction, unit: Unit | None) -> "PrivacyAccountant":
        child = self._copy_with(Account(self._account.ledger, charged.id), closed=False)
        child.epsilon, child.delta, child.unit, child.remark = epsilon, delta, unit, None
        return child

    def check_affordable(self, epsilon: Amount, delta: Amount = 0.0, *, name: str, rho: str | None = None) -> None:
        """Raise the error that `child` would raise now; nothing is charged."""
        self._charge_first(self._entry(name, PrivacyLoss(epsilon, delta)), rho, self._account.ledger.check_room)

    def fold(self, group: str, names: Collection[str], *, into: str) -> None:
        """Replace entries of a group by one that costs the largest of them, so that the ledger of an endless stream stays short.

        `names` are members whose rows never come again, and whose children are closed. An earlier entry named `into` is folded in.
        """
        check_string("group", group), check_string("into", into)
        if not isinstance(names, list | tuple | set) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"names must be a list of strings, names of members of the group, got {short_repr(names)}.")
        with lock_of(self):
            self._account.fold(group, [*names], into)

    def was_charged(self, name: str, group: str) -> bool:
        """Return whether a group has a member of this name."""
        check_string("name", name), check_string("group", group)
        return self._account.ledger.has_member(self._account.number, group, name)

    def _last_entry(self) -> int:
        """Return the number of the latest entry of this account, pending or not, or 0."""
        store = self._account.ledger.store
        return store.run(lambda: max(store.numbers(self._account.number), default=0), "read")

    def _entry(
        self,
        name: str,
        loss: PrivacyLoss,
        noise: Noise | PermuteAndFlip | ExponentialMechanism | None = None,
        rng: RandomBits | None = None,
        sensitivity: Sensitivity | None = None,
        *,
        n_values: int | None = None,
        group: str | None = None,
        unit: Unit | None = None,
    ) -> LedgerEntry:
        unit = self.unit if unit is None else unit
        return LedgerEntry(
            check_string("name", name),
            loss if loss.rows == 1 else replace(loss, rows=1),
            self.neighboring,
            noise=None if noise is None else type(noise).__name__,
            scale=() if noise is None else noise.scales,
            sensitivity=None if sensitivity is None else sensitivity.times(self.rows_per_unit),
            n_values=n_values,
            randomness=None if rng is None else "seeded" if rng.seeded else "secure",
            group=None if group is None else check_string("group", group),
            part_of=self._account.number,
            unit=None if unit is None else str(unit),
            dataset=_check_note("dataset", self.dataset),
            note=_check_note("note", self.note),
        )

    def _charge_first(self, entry: LedgerEntry, rho: str | None, write: Callable[..., Any] | None = None) -> Any:
        """Charge for a child in rho if that fits, and else its (epsilon, delta); or raise the error of the first."""
        if rho is not None:
            check_choice("rho", rho, ("gaussian", "zcdp"), " or None")
        whole, refused = entry.loss, []
        losses = [whole]
        if rho is not None and whole.delta and self.delta and not whole.is_infinite:
            gaussian = rho == "gaussian"
            losses.insert(0, PrivacyLoss(rho=rho_of_epsilon(whole.epsilon, whole.delta, gaussian=gaussian), gaussian=gaussian))
        for loss in losses:
            try:
                return self._charge(replace(entry, loss=loss), write)
            except BudgetExceededError as error:
                refused.append(error)
        raise refused[0]

    def _charge(self, entry: LedgerEntry, write: Callable[..., Any] | None = None) -> Any:
        """Write the entry, or refuse it and change nothing."""
        budget = self._budget
        try:
            with lock_of(self):
                self.check_open(entry.name)
                return self._account.append(entry, budget, self._planned) if write is None else write(entry, budget, self._planned)
        except Overtaken:
            raise RuntimeError(f"{short_repr(entry.name)} was not charged, because a copy of this stream went on; try again.") from None

    def _positive_remaining(self) -> Amount:
        if (remaining := self.remaining) <= 0:
            message = f"Nothing remains of epsilon={float(self.epsilon):g}; `split` it before the first release, or {LARGER_BUDGET_ADVICE}."
            raise BudgetExceededError(message, None, remaining)
        return remaining

    def _rest(self) -> PrivacyLoss:
        """Return all that remains as a loss; in rho for a child that was charged for in rho."""
        sums, epsilon = self._account.sums(), self._positive_remaining()
        if sums.most == math.inf:
            return PrivacyLoss(epsilon=epsilon)
        return PrivacyLoss(rho=sums.most - sums.total_rho, gaussian=sums.only_gaussian)

    # Views

    @property
    def _budget(self) -> Budget:
        return self.epsilon, self.delta

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit, which every noise must cover."""
        return 1 if self.unit is None else self.unit.rows

    @property
    def spent(self) -> Amount:
        """Epsilon spent so far: exact for pure losses, and for losses in rho an upper bound, the conversion of their sum."""
        return self._account.sums().total_within(*self._budget)[0]

    @property
    def spent_delta(self) -> Fraction:
        """Delta spent so far: all of it, once there is a loss in rho."""
        return self._account.sums().total_within(*self._budget)[1]

    @property
    def remaining(self) -> Amount:
        """Epsilon left: the budget less `spent`, an exact fraction; print ``float(accountant.remaining)``."""
        return math.inf if self.epsilon == math.inf else self.epsilon - self.spent

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Entries in the order of their charge; an entry for a child has the randomness of the child's noise."""
        return self._entries_of(self._account.number)

    def parts_of(self, entry: LedgerEntry) -> tuple[LedgerEntry, ...]:
        """Return the releases of the child that an entry charged for; none for any other entry."""
        check_type("entry", entry, LedgerEntry, "an entry of the ledger")
        return self._entries_of(entry.id)

    def _entries_of(self, account: int | None) -> tuple[LedgerEntry, ...]:
        ledger = self._account.ledger.snapshot(account)
        return tuple(map(ledger.with_randomness, ledger.entries(account)))

    @property
    def closed(self) -> bool:
        """Whether this is a record that can no longer be spent from."""
        return self._closed

    def epsilon_at(self, delta: Amount) -> Amount:
        """Return the spent epsilon at another `delta` in [0, 1), rounded up; infinite where there is none.

        So ledgers of different deltas can be compared. At delta 0 it is the pure part, infinite if there is another. For losses that were
        fixed in advance, such as those of a fit, it is a bound at every delta at once. For losses that were chosen adaptively it is a bound
        if they are pure; where some are in rho the accountant is a filter, which keeps its promise at its own epsilon and delta only.
        """
        sums, delta = self._account.sums(), check_delta(delta)
        return math.inf if sums.delta > delta else sums.total_within(self.epsilon if delta >= self.delta else math.inf, delta)[0]

    def risk(self, fpr: float = 0.01) -> AttackRisk:
        """Return the gain of the best attack on the releases so far, on a target whose every other row the attacker knows.

        Parameters
        ----------
        fpr : number, default=0.01
            The false alarms that the attacker allows, in [0, 1].

        Returns
        -------
        risk : AttackRisk
            Its text says it in words, for the unit that all entries protect, or else for a row that is the only one of its unit.

        Notes
        -----
        It holds for losses that were fixed in advance: if their number or size followed from earlier outputs, ask an accountant that is
        charged the whole budget at once. It is exact (no mechanism with these losses shows more and some show as much) for pure losses and
        losses with a delta, alone or together (up to 4,096 that differ, or 65,536 that are equal; beyond, it is that of their sum, an
        upper bound), and for Gaussian noise alone. It is an upper bound where rho is mixed with epsilon, for zCDP, and for groups of
        children with several lines each.

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> accountant = PrivacyAccountant(1)
        >>> accountant.spend(1, name="a histogram")
        >>> accountant.risk(fpr=0.01).tpr.__round__(4)
        0.0272
        """
        ledger, number = self._account.snapshot()
        unit = views.unit_in_words(ledger.entries(number), self.unit)
        return risk_of(ledger.sums(number), views.losses_of(ledger, number), fpr, self.neighboring, unit)

    def to_dp_events(self) -> Any:
        """Return the charges as a ``ComposedDpEvent`` of the package dp-accounting, down to the releases.

        It needs the extra ``accounting``. Each event is stated for the relation of this accountant, so leave that of an accountant of that
        package as it is: ``PLDAccountant().compose(events).get_epsilon(1e-6)``. A pure epsilon is a ``DiscreteLaplaceDpEvent`` of
        sensitivity 1, whose two losses are those of the worst mechanism of that epsilon; Gaussian noise is a
        ``GaussianDpEvent``, zCDP a ``ZCDpEvent`` (which needs the ``RdpAccountant``), no noise a ``NonPrivateDpEvent``. There is none for
        (epsilon, delta), which is an ``UnsupportedDpEvent``. The releases of a child stand in its place; of a group, its costliest member.
        """
        return views.dp_events(*self._account.snapshot())

    def evidence(self, sample: SecretSample | None = None) -> dict[str, Any]:
        """Return the charges as data that others can check: each release, and all facts that its loss follows from.

        The facts are: the statistic and its public sizes, the neighboring relation, the unit of privacy, the norm that the noise covers
        and the sensitivity in it, the noise with its scales, and the loss; exact numbers as texts such as "1/10". It holds no value,
        neither of rows nor with noise, and no name of a data set. It holds the names of releases, which may quote names of columns.
        ``json.dumps`` writes it, and `skdpsynth_evidence.check_evidence` checks it.

        Parameters
        ----------
        sample : SecretSample, default=None
            The sample that all releases are about: with it, the evidence tells what they cost a person of the population, too.

        Returns
        -------
        evidence : dict

        Examples
        --------
        >>> from skdpsynth import PrivateMeasureMechanism
        >>> model = PrivateMeasureMechanism("optimal", depth=1, bounds=(0, 1)).fit([[0.2], [0.7], [0.4]])
        >>> model.accountant_.evidence()["releases"][0]["statistic"]
        {'kind': 'tables', 'tables': 1}
        """
        promise = {
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "relation": self.neighboring,
            "unit": None if self.unit is None else str(self.unit),
            "rows_per_unit": self.rows_per_unit,
        }
        found = views.evidence_of(promise, self._budget, *self._account.snapshot())
        if sample is None:
            return found
        check_type("sample", sample, SecretSample, "None or a SecretSample")
        loss = sample.population_loss(self)
        figures = {"rate": sample.rate, "epsilon": loss.epsilon, "delta": loss.delta}
        return {**found, "population": {"design": sample.design, **{name: exact_text(value) for name, value in figures.items()}}}

    def to_frame(self, backend: str = "pandas", *, parts: bool = False) -> Any:
        """Return the ledger as a data frame, a row for each charge.

        The columns "epsilon" and "delta" are the increments of `spent` and `spent_delta`, so they sum to them: the members of a group add
        only their excess over the largest before, and losses in rho the conversion of their sum.

        `backend` is the library of the frame, "pandas", "polars" or "pyarrow". With `parts` the releases of a child are listed below the
        charge that paid for them: those rows have its name in a column "part_of", and nothing in the columns "epsilon" and "delta", because
        they add nothing.
        """
        check_bool("parts", parts)
        return views.ledger_frame(*self._account.snapshot(), self._budget, backend, parts)

    def lines(self) -> Iterator[tuple[LedgerEntry, str | None]]:
        """Yield (entry, name of the entry it is part of or None): the ledger, with the releases of children below their entry."""
        return ((entry, part_of) for entry, part_of, *_ in views.ledger_lines(*self._account.snapshot(), self._budget))

    def charges(self) -> Iterator[tuple[LedgerEntry, Amount, Fraction]]:
        """Return (entry, epsilon, delta) of each charge: its increments of `spent` and `spent_delta`, as in `to_frame`.

        An epsilon is infinite where nothing was protected.

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> accountant = PrivacyAccountant(1)
        >>> accountant.spend(0.25, name="a histogram")
        >>> [(entry.name, float(epsilon)) for entry, epsilon, _ in accountant.charges()]
        [('a histogram', 0.25)]
        """
        ledger, number = self._account.snapshot()
        return ledger.additions(number, self._budget)

    def noise_of(self, entry: LedgerEntry) -> str | None:
        """Return the noise of an entry in words; that of its parts, if it charged for a child."""
        check_type("entry", entry, LedgerEntry, "an entry of the ledger")
        return views.noise_of(self._account.ledger.snapshot(entry.id), entry)

    def __repr__(self) -> str:
        ledger, number = self._account.snapshot()
        entries, (spent, spent_delta) = ledger.entries(number), ledger.sums(number).total_within(*self._budget)
        unit = views.unit_in_words(entries, self.unit)
        protects = f"; protects one {unit}{', because not all entries protect the same unit' if unit == LONE_ROW else ''}"
        return (
            f"<PrivacyAccountant ({'record' if self.closed else 'open'}): spent epsilon={float(spent):g} of {float(self.epsilon):g}, "
            f"delta={float(spent_delta):g} of {float(self.delta):g}, {self.neighboring}, {len(entries)} entries"
            f"{'' if unit is None else protects}{'' if self.remark is None else f'; {self.remark}'}>"
        )

    def _repr_html_(self) -> str:
        return views.ledger_html(repr(self)[1:-1], *self._account.snapshot())

    # Records

    def close(self) -> None:
        """Make this a record: it can be read and pickled, but no longer spent from; a ledger in a file stays as it is."""
        with lock_of(self):  # not between the check and the charge of another thread: the record is complete
            self._closed = True
            if self._account.ledger.store.is_file:
                self._account = Account(self._account.ledger.copy(self._account.number), self._account.number)

    def record(self) -> Self:
        """Return a closed copy, in memory."""
        account = self._account
        return self._copy_with(Account(account.ledger.copy(account.number), account.number), closed=True)

    def reopen(self) -> Self:
        """Return an open accountant that has spent as much as this record, for a mechanism that was saved and loaded.

        It is in memory. Going on twice from one record makes two releases, which together cost the sum. An open accountant is refused with
        a ValueError: two of them would spend one budget twice.
        """
        if not self._closed:
            raise ValueError("Only a closed record can be reopened, and this accountant is open; go on with it as it is.")
        ledger, number = self._account.snapshot()
        entries = list(ledger.below(number))
        # Two that go on from one record give the same numbers to different entries, so each is a ledger of its own.
        known = (replace(entry, source=entry.source or f"{ledger.store.id}:{entry.id}") for entry in entries)
        copy = Ledger.of(known, None, number, ledger.charge_of(number))
        return self._copy_with(Account(copy, number, resumable=entries), closed=False)

    def _copy_with(self, account: Account, *, closed: bool) -> Self:
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), _account=account, _closed=closed, _process=os.getpid(), _planned=False)
        return copy

    def import_record(self, record: "PrivacyAccountant | FilePath") -> int:
        """Charge the expenses of another ledger on the same data, once: importing it again adds only new entries.

        Parameters
        ----------
        record : PrivacyAccountant, str or path-like
            Another accountant, a record, `accountant_` of a fitted model, or the path of another ledger.

        Returns
        -------
        n_new : int
            How many entries were new, parts included.

        Raises
        ------
        BudgetExceededError
            If the entries do not fit: all of them are charged, or none.
        ValueError
            If the record has another relation, went on as a copy of this ledger, or that cannot be told.

        Notes
        -----
        Entries are known by the ledger that they were first charged in and their number there, whatever way they came. A group of the other
        ledger stays a group apart. A record that holds losses in epsilon and in rho, such as that of many fits with a delta, is one line:
        the whole (epsilon, delta) of its budget, if that is spent, or if its lines do not fit here one by one.

        Nobody can check the order of entries of two ledgers. The sum is right where the charges here did not follow from outputs there, or
        all charges of both are pure. If they did, do not import: charge the whole budget of the other by `spend`, before any loss in rho.

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> first, second = PrivacyAccountant(1.0), PrivacyAccountant(2.0)
        >>> first.spend(0.5, name="counts")
        >>> second.import_record(first.record()), second.import_record(first.record()), second.spent
        (1, 0, Fraction(1, 2))
        """
        other = PrivacyAccountant.at(record) if isinstance(record, str | os.PathLike) else record
        if not isinstance(other, PrivacyAccountant):
            raise ValueError(f"record must be a PrivacyAccountant or the path of a ledger, got {short_repr(other)}; give its record().")
        if other.neighboring != self.neighboring:
            raise ValueError(
                f"record counts under {other.neighboring!r}, but this accountant under {self.neighboring!r}; charge what it spent with "
                "spend, stated under this relation."
            )
        if self.unit is not None and any(entry.unit != str(self.unit) for entry in other.ledger):
            raise ValueError(
                f"record must protect {self.unit}, as this accountant does, got one that protects others; charge what it cost such a unit "
                "with spend."
            )
        self.check_open("A record")
        of, budget = other._account.number, self._budget
        ledger = other._account.ledger.copy(of)
        units = {entry.unit for entry in ledger.entries(of)}
        loss = PrivacyLoss(other.epsilon, other.delta)
        one = LedgerEntry("record of another ledger", loss, self.neighboring, unit=units.pop() if len(units) == 1 else None)
        refused: list[Exception] = []
        with lock_of(self):
            self.check_open("A record")
            for way in self._account.ledger.whole(partial(merge_options, ledger, of, one)):
                try:
                    return self._account.ledger.whole(partial(merge_entries, self._account.number, ledger, of, budget, way))
                except (BudgetExceededError, OutOfTurn) as error:
                    refused.append(error)
        raise refused[0]

    # Processes, pickles and copies

    def check_open(self, name: str) -> None:
        """Raise unless this is open and, with a ledger in memory, in the process that opened it."""
        if self._closed:
            message = f"{short_repr(name)} cannot be charged to a closed record; set accountant to None or to a new PrivacyAccountant."
            raise BudgetExceededError(message, None, Fraction(0))
        if os.getpid() != self._process and not self._account.ledger.store.is_file:
            raise RuntimeError(
                f"{short_repr(name)} cannot be charged in another process than the accountant's, where the charge would be lost; "
                "use n_jobs=1, threads, or PrivacyAccountant(..., ledger='budget.db')."
            )

    def __sklearn_clone__(self) -> Self:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # A pickle goes to another process, which goes on with the file. `save` writes the state below, which may be
        # published and holds no path.
        if self._account.ledger.store.is_file:
            return _reconnect, (type(self), {**vars(self)})
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        if self._account.ledger.store.is_file:
            raise TypeError(
                "An open PrivacyAccountant cannot be saved, because a file must not say where its ledger lies; save its record()."
            )
        if not self._closed:
            raise TypeError(
                "An open PrivacyAccountant cannot be pickled, because a copy could spend the budget again; "
                "use n_jobs=1 or threads, or pickle its record(), or keep its ledger in a file."
            )
        ledger, number = self._account.snapshot()
        own = {name: value for name, value in vars(self).items() if name not in ("_account", "_process", "_planned")}
        kept = {"_entries": [*ledger.below(number)], "_ledger_id": ledger.store.id, "_root": number}
        return own | kept | {"_root_charge": ledger.charge_of(number), "_place": self._account.place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {**state}
        entries, id_, root, charge, place = map(own.pop, ("_entries", "_ledger_id", "_root", "_root_charge", "_place"))
        vars(self).update(own, _account=Account(Ledger.of(entries, id_, root, charge), root, place=place), _process=os.getpid())

    def _check_loaded(self) -> None:
        """Refuse a file of an open accountant, or of parts that cost more than their charge."""
        require(self._closed and self._account.ledger.are_parts_paid())


def _reconnect(cls: type, state: dict[str, Any]) -> Any:
    accountant: Any = object.__new__(cls)
    vars(accountant).update(state)
    return accountant


def _check_note(name: str, words: object) -> str | None:
    if words is not None and not (isinstance(words, str) and 0 < len(words) <= _LONGEST):
        given = f"a text of {len(words)}" if isinstance(words, str) else short_repr(words)
        raise ValueError(f"{name} must be None or a text of 1 to {_LONGEST} characters, got {given}; say it in a few words.")
    return words


AccountantLike: TypeAlias = PrivacyAccountant | FilePath | None  # the parameter `accountant` of estimators


def resolve_accountant(accountant: AccountantLike) -> PrivacyAccountant | None:
    """Return the accountant that a parameter stands for: itself, that of the ledger at a path, or None."""
    if isinstance(accountant, str | os.PathLike):
        return PrivacyAccountant.at(existing_path(accountant, "accountant"))
    if accountant is not None:
        check_accountant(accountant)
    return accountant


def check_accountant(accountant: object) -> None:
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise ValueError(
            f"accountant must be None or a PrivacyAccountant, got {type(accountant).__name__}; make one with PrivacyAccountant(epsilon), "
            "or give the path of a ledger."
        )
