"""Views of a ledger: lines, data frame, text, evidence, events of dp-accounting, and losses."""

import math
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from skdpsynth._text import html_table
from skdpsynth._validation import check_choice
from skdpsynth._version import __version__
from skdpsynth.privacy._composition import Sums, largest
from skdpsynth.privacy._ledger import Budget, Ledger
from skdpsynth.privacy._ledger_entry import LedgerEntry, exact_text
from skdpsynth.privacy._losses import Amount, PrivacyLoss, Unit, common_unit
from skdpsynth.privacy._mechanism import NOISES

_MOST_SHOWN = 20  # charges in a notebook
_FIELDS = ("n_values", "randomness", "group", "time", "dataset", "unit", "process", "note")  # of an entry
_COLUMNS = ("name", "part_of", "epsilon", "delta", "loss", "rho", "noise", "sensitivity", *_FIELDS)
_AMOUNTS = ("epsilon", "delta", "rho", "sensitivity", "n_values")
# The norm that each noise covers; a choice is charged by what one utility moves.
_NORMS = {noise.__name__: noise.norm for noise in NOISES.values()} | {"PermuteAndFlip": "sup", "ExponentialMechanism": "sup"}

LedgerLine = tuple[LedgerEntry, str | None, Amount | None, Fraction | None]
"""An entry, the entry it is part of, and the (epsilon, delta) that it added; a part adds nothing."""


def ledger_lines(ledger: Ledger, account: int | None, budget: Budget) -> Iterator[LedgerLine]:
    def parts_of(entry: LedgerEntry, path: str) -> Iterator[LedgerLine]:
        for part in ledger.entries(entry.id):
            yield ledger.with_randomness(part), path, None, None
            yield from parts_of(part, f"{path} / {part.name}")

    for entry, epsilon, spent in ledger.additions(account, budget):
        yield ledger.with_randomness(entry), None, epsilon, spent
        yield from parts_of(entry, entry.name)


def noise_of(ledger: Ledger, entry: LedgerEntry) -> str | None:
    """Return the noise of an entry in words; that of its parts, if it charged for a child."""
    if entry.noise is not None:
        return entry.describe()
    return "; ".join(dict.fromkeys(part.describe() or "" for part in ledger.below(entry.id) if part.noise)) or None


def ledger_frame(ledger: Ledger, account: int | None, budget: Budget, backend: Any, parts: bool) -> Any:
    import narwhals.stable.v2 as nw

    check_choice("backend", backend, ("pandas", "polars", "pyarrow"))
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS if parts or name != "part_of"}
    for entry, part_of, epsilon, spent in ledger_lines(ledger, account, budget):
        if parts or part_of is None:
            facts = {name: getattr(entry, name) for name in ("name", *_FIELDS)} | {"part_of": part_of, "noise": noise_of(ledger, entry)}
            amounts = {"epsilon": epsilon, "delta": spent, "rho": entry.loss.rho, "n_values": entry.n_values}
            amounts["sensitivity"] = None if entry.sensitivity is None else entry.sensitivity.l1
            facts |= {"loss": str(entry.loss)} | {name: None if amount is None else float(amount) for name, amount in amounts.items()}
            for name, column in columns.items():
                column.append(facts[name])
    try:
        if backend == "pandas":  # where narwhals would turn a text that is missing into one that says so
            import pandas as pd

            return pd.DataFrame({name: pd.Series(column, dtype=float if name in _AMOUNTS else object) for name, column in columns.items()})
        schema = {name: nw.Float64 if name in _AMOUNTS else nw.String for name in columns}
        return nw.from_dict(columns, schema=schema, backend=backend).to_native()
    except ModuleNotFoundError:
        raise ImportError(f"to_frame needs {backend}: install it, name another backend, or read the ledger itself.") from None


def unit_in_words(entries: Iterable[LedgerEntry], unit: Unit | None) -> str | None:
    """Return the unit that entries protect, or an account where there are none; imported ones may protect another than the account."""
    return common_unit([entry.unit for entry in entries] or [None if unit is None else str(unit)])


def ledger_html(title: str, ledger: Ledger, account: int | None) -> str:
    entries = [ledger.with_randomness(entry) for entry in ledger.entries(account)]
    rows = [(entry.name, entry.loss, noise_of(ledger, entry), entry.randomness, entry.time) for entry in entries[-_MOST_SHOWN:]]
    more = f"The last {len(rows)} of {len(entries)} charges; to_frame() has all." if len(entries) > len(rows) else ""
    heads = ("charge", "loss", "noise", "randomness", "time")
    return html_table(title, rows, "ledger.html", heads=heads, more=more)


def evidence_of(promise: dict[str, Any], budget: Budget, ledger: Ledger, account: int | None) -> dict[str, Any]:
    entries = list(ledger.below(account))
    charge, (spent, spent_delta) = ledger.charge_of(account), ledger.sums(account).total_within(*budget)
    numbers: list[list[int]] = []  # first and last of each run; entries that a stream folded leave gaps
    for number in sorted(entry.id for entry in entries):
        if numbers and numbers[-1][1] == number - 1:
            numbers[-1][1] = number
        else:
            numbers.append([number, number])
    return {
        "format": "skdpsynth evidence",
        "version": 1,
        "made_by": f"skdpsynth {__version__}",
        "promise": promise,
        "charged": None if charge is None else _loss_facts(charge),
        "spent": {"epsilon": exact_text(spent), "delta": exact_text(spent_delta)},
        "numbers": numbers,
        "releases": [_release_facts(entry, account) for entry in entries],
    }


def _release_facts(entry: LedgerEntry, account: int | None) -> dict[str, Any]:
    rows = re.search(r", at most (\d+) rows?$", entry.unit or "")
    facts: dict[str, Any] = {
        "number": entry.id,
        "name": entry.name,
        "part_of": None if entry.part_of == account else entry.part_of,
        "group": entry.group,
        "relation": entry.neighboring,
        "unit": entry.unit,
        "rows_per_unit": int(rows[1]) if rows else 1,
        "loss": _loss_facts(entry.loss),
    }
    if entry.noise is None:
        return facts
    sensitivity, norm = entry.sensitivity, _NORMS.get(entry.noise)
    stated = None if sensitivity is None or norm is None else getattr(sensitivity, norm)
    statistic = None if sensitivity is None else sensitivity.statistic
    return facts | {
        "statistic": None if statistic is None else {name: _statistic_fact(value) for name, value in statistic},
        "norm": norm,
        "sensitivity": None if stated is None else exact_text(stated),
        "noise": entry.noise,
        "scales": [exact_text(scale) for scale in entry.scale],
        "values": entry.n_values,
        "randomness": entry.randomness,
    }


def _loss_facts(loss: PrivacyLoss) -> dict[str, Any]:
    if loss.rho is not None:
        return {"rho": exact_text(loss.rho), "gaussian": loss.gaussian}
    return {"epsilon": exact_text(loss.epsilon), "delta": exact_text(loss.delta)}


def _statistic_fact(value: Fraction | str | int | tuple) -> Any:
    if isinstance(value, tuple):
        return [_statistic_fact(each) for each in value]
    return value if isinstance(value, str | int) else exact_text(value)


def losses_of(ledger: Ledger, account: int | None) -> list[PrivacyLoss]:
    """Return the losses of the lines of an account; of a group, those of its largest member, as a row is in one of them alone."""
    entries = ledger.entries(account)
    losses = [entry.loss for entry in entries if entry.group is None]
    groups = dict.fromkeys(entry.group for entry in entries if entry.group is not None)
    return losses + [loss for group in groups for loss in (ledger.store.sums((account, group)) or Sums()).losses()]


def dp_events(ledger: Ledger, account: int | None) -> Any:
    try:
        from dp_accounting import dp_event
    except ModuleNotFoundError:
        raise ImportError("to_dp_events needs dp-accounting: pip install 'skdpsynth[accounting]'.") from None

    def event(loss: PrivacyLoss) -> Any:
        if loss.is_infinite:
            return dp_event.NonPrivateDpEvent()
        if loss.rho is not None:
            rho = float(loss.rho)
            return dp_event.GaussianDpEvent(noise_multiplier=1 / math.sqrt(2 * rho)) if loss.gaussian else dp_event.ZCDpEvent(rho=rho)
        if loss.delta:
            return dp_event.UnsupportedDpEvent()
        return dp_event.DiscreteLaplaceDpEvent(noise_parameter=float(loss.epsilon), sensitivity=1)

    return dp_event.ComposedDpEvent([event(loss) for loss in _release_losses(ledger, account)])


def _release_losses(ledger: Ledger, account: int | None) -> Iterator[PrivacyLoss]:
    """Yield the losses of all releases; of a group, those of its costliest member, or the largest of each kind if no member has both."""
    groups: dict[str, dict[str, list[LedgerEntry]]] = {}

    def losses(entries: Iterable[LedgerEntry]) -> Iterator[PrivacyLoss]:
        for entry in entries:
            yield from _release_losses(ledger, entry.id) if ledger.entries(entry.id) else (entry.loss,)

    for entry in ledger.entries(account):
        if entry.group is None:
            yield from losses([entry])
        else:
            groups.setdefault(entry.group, {}).setdefault(entry.name, []).append(entry)
    for members in groups.values():
        sums = {name: Sums.of(*(entry.loss for entry in entries)) for name, entries in members.items()}
        most = largest(sums.values())
        costliest = next((entries for name, entries in members.items() if sums[name] == most), None)
        yield from most.losses() if costliest is None else losses(costliest)
