"""The life of an accountant: views of its ledger, records, processes and imports."""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Self

from skdpsynth._parallel import lock_of
from skdpsynth._serialization import require
from skdpsynth._text import html_table
from skdpsynth._validation import check_bool, check_type, short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._format import budget_exceeded_error, dp_events, evidence_of, ledger_frame, ledger_lines, noise_of
from skdpsynth.privacy._ledger import BaseLedger, Ledger, LedgerEntry, OutOfTurn, OverBudget
from skdpsynth.privacy._ledger_sqlite import LedgerFile
from skdpsynth.privacy._losses import LONE_ROW, Amount, PrivacyLoss, Unit, check_delta, common_unit
from skdpsynth.privacy._merge_ledgers import merge_entries, merge_options
from skdpsynth.privacy._tradeoff import AttackRisk, losses_of, risk_of

Place = tuple[str, str, int, int, int]
"""Where a checkpoint goes on: path and id of the ledger, account, its newest entry then, and the account that it was charged to first."""

_LONGEST = 1000  # characters of a note
_MOST_SHOWN = 20  # charges in a notebook


def check_note(name: str, words: Any) -> str | None:
    if words is not None and not (isinstance(words, str) and 0 < len(words) <= _LONGEST):
        given = f"a text of {len(words)}" if isinstance(words, str) else short_repr(words)
        raise ValueError(f"{name} must be None or a text of 1 to {_LONGEST} characters, got {given}; say it in a few words.")
    return words


class BaseAccountant:
    """All that an accountant does with its ledger, except spending."""

    epsilon: Amount
    delta: Fraction
    neighboring: str
    unit: Unit | None
    dataset: str | None
    note: str | None
    remark: str | None
    _entries: BaseLedger
    _account: int | None
    _closed: bool
    _process: int
    _resumable: list[LedgerEntry]
    _newest: int | None
    _first: int | None
    _place: Place | None
    # Of a stream, while it takes in rows that nothing is shown of until the end: what it was charged, and what is to be folded then.
    _unshown: list[int] | None = None
    _later: tuple = ()
    _aliases: dict[str, str] | None = None  # of a stream that goes on in another ledger: what its groups are called there

    # What it shows

    @property
    def spent(self) -> Amount:
        """Epsilon spent so far: exact for pure losses, and for losses in rho an upper bound, the conversion of their sum."""
        return self._entries.total(self._account, self.delta)[0]

    @property
    def spent_delta(self) -> Fraction:
        """Delta spent so far: all of it, once there is a loss in rho."""
        return self._entries.total(self._account, self.delta)[1]

    def epsilon_at(self, delta: Any) -> Amount:
        """Return the spent epsilon at another delta, rounded up; infinite where there is none.

        So ledgers of different deltas can be compared. For losses that were fixed in advance, such as those of a fit, it is a bound at
        every delta at once. For losses that were chosen adaptively it is a bound if they are pure; where some are in rho the accountant is
        a filter, which keeps its promise at its own epsilon and delta only.

        Parameters
        ----------
        delta : number
            In [0, 1). At 0 epsilon is the pure part, infinite if there is another.

        Returns
        -------
        epsilon : Fraction or inf
        """
        return self._entries.sums(self._account).at(check_delta(delta))

    def risk(self, fpr: Any = 0.01) -> AttackRisk:
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
        entries = self._entries.entries(self._account)
        return risk_of(self._entries.sums(self._account), losses_of(entries), fpr, self.neighboring, self._unit_in_words(entries))

    def to_dp_events(self) -> Any:
        """Return the charges as a ``ComposedDpEvent`` of the package dp-accounting, down to the releases.

        It needs the extra ``accounting``. Each event is stated for the relation of this accountant, so leave that of an accountant of that
        package as it is: ``PLDAccountant().compose(events).get_epsilon(1e-6)``. A pure epsilon is a ``DiscreteLaplaceDpEvent`` of
        sensitivity 1, whose two losses are those of the worst mechanism of that epsilon; Gaussian noise is a
        ``GaussianDpEvent``, zCDP a ``ZCDpEvent`` (which needs the ``RdpAccountant``), no noise a ``NonPrivateDpEvent``. There is none for
        (epsilon, delta), which is an ``UnsupportedDpEvent``. The releases of a child stand in its place; of a group, its costliest member.
        """
        return dp_events(self._entries.snapshot(self._account), self._account)

    def evidence(self) -> dict[str, Any]:
        """Return the charges as data that others can check: each release, and all facts that its loss follows from.

        The facts are: the statistic and its public sizes, the neighboring relation, the unit of privacy, the norm that the noise covers
        and the sensitivity in it, the noise with its scales, and the loss; exact numbers as texts such as "1/10". It holds no value,
        neither of rows nor with noise, and no name of a data set. It holds the names of releases, which may quote names of columns.

        Returns
        -------
        evidence : dict
            As ``json.dumps`` takes it; `skdpsynth_evidence.check_evidence` checks it.

        Examples
        --------
        >>> from skdpsynth import PrivateMeasureMechanism
        >>> model = PrivateMeasureMechanism("optimal", depth=1, bounds=(0, 1)).fit([[0.2], [0.7], [0.4]])
        >>> model.accountant_.evidence()["releases"][0]["statistic"]
        {'kind': 'tables', 'tables': 1}
        """
        return evidence_of(self, self._entries.snapshot(self._account), self._account)

    @property
    def remaining(self) -> Amount:
        """Epsilon left: the budget less `spent`, an exact fraction; print ``float(accountant.remaining)``."""
        return math.inf if self.epsilon == math.inf else self.epsilon - self.spent

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Entries in the order of their charge; an entry for a child has the randomness of the child's noise."""
        return self._entries_of(self._account)

    def parts_of(self, entry: LedgerEntry) -> tuple[LedgerEntry, ...]:
        """Return the releases of the child that an entry charged for; none for any other entry."""
        check_type("entry", entry, LedgerEntry, "an entry of the ledger")
        return self._entries_of(entry.id)

    def _entries_of(self, account: int | None) -> tuple[LedgerEntry, ...]:
        ledger = self._entries.snapshot(account)
        return tuple(map(ledger.with_randomness, ledger.entries(account)))

    @property
    def closed(self) -> bool:
        """Whether this is a record that can no longer be spent from."""
        return self._closed

    def to_frame(self, backend: str = "pandas", *, parts: bool = False) -> Any:
        """Return the ledger as a data frame, a row for each charge.

        The columns "epsilon" and "delta" are the increments of `spent` and `spent_delta`, so they sum to them: the members of a group add
        only their excess over the largest before, and losses in rho the conversion of their sum.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the frame; it must be installed.
        parts : bool, default=False
            Whether to list below each charge the releases of the child that it paid for. Those rows have the name of the charge in a
            column "part_of", and nothing in the columns "epsilon" and "delta", because they add nothing.
        """
        check_bool("parts", parts)
        return ledger_frame(self._entries.snapshot(self._account), self._account, self.delta, backend, parts)

    def lines(self) -> Iterator[tuple[LedgerEntry, str | None]]:
        """Yield (entry, name of the entry it is part of or None): the ledger, with the releases of children below their entry."""
        ledger = self._entries.snapshot(self._account)
        return ((entry, part_of) for entry, part_of, *_ in ledger_lines(ledger, self._account, self.delta))

    def charges(self) -> Iterator[tuple[LedgerEntry, Amount, Fraction]]:
        """Return (entry, epsilon, delta) of each charge: its increments of `spent` and `spent_delta`, as in `to_frame`.

        Returns
        -------
        charges : iterator of (LedgerEntry, Fraction, Fraction)
            The epsilon is infinite where nothing was protected.

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> accountant = PrivacyAccountant(1)
        >>> accountant.spend(0.25, name="a histogram")
        >>> [(entry.name, float(epsilon)) for entry, epsilon, _ in accountant.charges()]
        [('a histogram', 0.25)]
        """
        return self._entries.snapshot(self._account).additions(self._account, self.delta)

    def noise_of(self, entry: LedgerEntry) -> str | None:
        """Return the noise of an entry in words; that of its parts, if it charged for a child."""
        check_type("entry", entry, LedgerEntry, "an entry of the ledger")
        return noise_of(self._entries.snapshot(entry.id), entry)

    def __repr__(self) -> str:
        ledger: Any = self._entries.snapshot(self._account)
        spent, spent_delta = ledger.total(self._account, self.delta)
        entries = ledger.entries(self._account)
        unit = self._unit_in_words(entries)
        protects = f"; protects one {unit}{', because not all entries protect the same unit' if unit == LONE_ROW else ''}"
        return (
            f"<PrivacyAccountant ({'record' if self._closed else 'open'}): spent epsilon={float(spent):g} of {float(self.epsilon):g}, "
            f"delta={float(spent_delta):g} of {float(self.delta):g}, {self.neighboring}, {len(entries)} entries"
            f"{'' if unit is None else protects}"
            f"{'' if self.remark is None else f'; {self.remark}'}>"
        )

    def _repr_html_(self) -> str:
        ledger: Any = self._entries.snapshot(self._account)
        entries = [ledger.with_randomness(entry) for entry in ledger.entries(self._account)]
        rows = [(entry.name, entry.loss, noise_of(ledger, entry), entry.randomness, entry.time) for entry in entries[-_MOST_SHOWN:]]
        older = len(entries) - len(rows)
        more = f"The last {len(rows)} of {len(entries)} charges; to_frame() has all." if older else ""
        return html_table(repr(self)[1:-1], rows, "ledger.html", heads=("charge", "loss", "noise", "randomness", "time"), more=more)

    def _unit_in_words(self, entries: Iterable[LedgerEntry]) -> str | None:
        units = [entry.unit for entry in entries]  # what was imported may protect another than the account does
        return common_unit(units or [None if self.unit is None else str(self.unit)])

    # Records

    def close(self) -> None:
        """Make this a record: it can be read and pickled, but no longer spent from; a ledger in a file stays as it is."""
        with lock_of(self):  # not between the check and the charge of another thread: the record is complete
            self._closed = True
            if isinstance(self._entries, LedgerFile):
                self._entries = self._copy_of_ledger()

    def record(self) -> Self:
        """Return a closed copy, in memory."""
        return self._copy_with(self._copy_of_ledger(), closed=True)

    def reopened(self) -> Self:
        """Return an open accountant that has spent as much as this record, for a mechanism that was saved and loaded.

        It is in memory. Going on twice from one record makes two releases, which together cost the sum. An open accountant is refused with
        a ValueError: two of them would spend one budget twice.
        """
        if not self._closed:
            raise ValueError("Only a closed record can be reopened, and this accountant is open; go on with it as it is.")
        ledger = self._copy_of_ledger()
        entries = list(ledger.below(self._account))
        # Two that go on from one record give the same numbers to different entries, so each is a ledger of its own.
        known = (replace(entry, source=entry.source or f"{ledger.id}:{entry.id}") for entry in entries)
        copy = self._copy_with(Ledger(known, self._account, charge=ledger.charge), closed=False)
        copy._resumable = entries
        return copy

    def _copy_of_ledger(self) -> Ledger:
        ledger = self._entries.snapshot(self._account)
        copy = Ledger(ledger.below(self._account), self._account, ledger.id, ledger.charge_of(self._account))
        copy._set_pending(ledger._pending(), True)
        return copy

    def _copy_with(self, ledger: BaseLedger, *, closed: bool) -> Self:
        copy = object.__new__(type(self))
        own = {"_entries": ledger, "_closed": closed, "_process": os.getpid(), "_resumable": []}
        vars(copy).update(vars(self), **own, _newest=None, _first=None, _place=None, _planned=False)
        for name in ("_unshown", "_later", "_aliases"):
            vars(copy).pop(name, None)
        return copy

    def import_record(self, record: Any) -> int:
        """Charge the expenses of another ledger on the same data, once: importing it again adds only new entries.

        Entries are known by the ledger that they were first charged in and their number there, whatever way they came. All of them are
        charged, or none. A group of the other ledger stays a group apart. A record that holds losses in epsilon and in rho, such as that of
        many fits with a delta, is one line: the whole (epsilon, delta) of its budget, if that is spent, or if its lines do not fit here
        one by one.

        Nobody can check the order of entries of two ledgers. The sum is right where the charges here did not follow from outputs there, or
        all charges of both are pure. If they did, do not import: charge the whole budget of the other by `spend`, before any loss in rho.

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
        ValueError
            If it has another relation, or went on as a copy of this ledger, or that cannot be told.
        BudgetExceededError
            If it does not fit; then nothing of it is charged.

        Examples
        --------
        >>> from skdpsynth import PrivacyAccountant
        >>> first, second = PrivacyAccountant(1.0), PrivacyAccountant(2.0)
        >>> first.spend(0.5, name="counts")
        >>> second.import_record(first.record()), second.import_record(first.record()), second.spent
        (1, 0, Fraction(1, 2))
        """
        other = self._other(record)
        self.check_open("A record")
        ledger, of, budget = other._copy_of_ledger(), other._account, (self.epsilon, self.delta)
        units = {entry.unit for entry in ledger.entries(of)}
        loss = PrivacyLoss(other.epsilon, other.delta)
        one = LedgerEntry("record of another ledger", loss, self.neighboring, unit=units.pop() if len(units) == 1 else None)

        def work(mine: BaseLedger, way: LedgerEntry | None) -> int:
            return merge_entries(mine, self._account, ledger, of, budget, way)

        refused: list[Any] = []
        with lock_of(self):
            self.check_open("A record")
            for way in self._entries.whole(lambda mine: merge_options(mine, ledger, of, one)):
                try:
                    return int(self._entries.whole(partial(work, way=way)))
                except (OverBudget, OutOfTurn) as error:
                    refused.append(error)
        first = refused[0]
        raise first if isinstance(first, OutOfTurn) else budget_exceeded_error(first.entry, first.spent, first.needed, budget, first.in_rho)

    def _other(self, record: Any) -> "BaseAccountant":
        other = type(self).at(record) if isinstance(record, str | os.PathLike) else record  # type: ignore[attr-defined]
        if not isinstance(other, BaseAccountant):
            raise ValueError(
                f"record must be a PrivacyAccountant or the path of a ledger, got {short_repr(record)}; give accountant.record()."
            )
        if other.neighboring != self.neighboring:
            raise ValueError(
                f"record counts under {other.neighboring!r}, but this accountant under {self.neighboring!r}; charge what it spent with "
                "spend, stated under this relation."
            )
        unit = getattr(self, "unit", None)
        if unit is not None and any(entry.unit != str(unit) for entry in other.ledger):
            raise ValueError(
                f"record must protect {unit}, as this accountant does, got one that protects others; charge what it cost such a unit with "
                "spend."
            )
        return other

    # Processes, pickles and copies

    def check_open(self, name: str) -> None:
        """Raise unless this is open and, with a ledger in memory, in the process that opened it."""
        if self._closed:
            raise BudgetExceededError(
                f"{short_repr(name)} cannot be charged to a closed record; set accountant to None or to a new PrivacyAccountant.",
                None,
                Fraction(0),
            )
        if os.getpid() != self._process and not isinstance(self._entries, LedgerFile):
            raise RuntimeError(
                f"{short_repr(name)} cannot be charged in another process than the accountant's, where the charge would be lost; "
                "use n_jobs=1, threads, or PrivacyAccountant(..., ledger='budget.db')."
            )

    def __sklearn_clone__(self) -> Self:
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo: dict) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A pickle goes to another process, which goes on with the file. `save` writes the state below, which may be
        # published and holds no path.
        if isinstance(self._entries, LedgerFile):
            return _reconnect, (type(self), {**vars(self)})
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._entries, LedgerFile):
            raise TypeError(
                "An open PrivacyAccountant cannot be saved, because a file shall not tell where its ledger lies; save its record()."
            )
        if not self._closed:
            raise TypeError(
                "An open PrivacyAccountant cannot be pickled, because a copy could spend the budget again; "
                "use n_jobs=1 or threads, or pickle its record(), or keep its ledger in a file."
            )
        entries: Any = self._entries
        kept = {"_entries": list(entries.below(self._account)), "_ledger_id": entries.id, "_resumable": [], "_process": 0}
        kept["_ledger_charge"] = entries.charge_of(self._account)
        return {**vars(self), **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {**state}
        ledger = Ledger(state["_entries"], state["_account"], state.pop("_ledger_id"), state.pop("_ledger_charge"))
        vars(self).update(state, _entries=ledger, _process=os.getpid())

    def _check_loaded(self) -> None:
        """Refuse a file of an open accountant, or of parts that cost more than their charge."""
        require(self._closed and not self._resumable)
        entries: Any = self._entries
        require(entries.are_parts_paid())


def _reconnect(cls: type, state: dict[str, Any]) -> Any:
    accountant: Any = object.__new__(cls)
    vars(accountant).update(state)
    return accountant
