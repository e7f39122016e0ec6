"""A ledger as lines, a data frame, exact texts, evidence and events of dp-accounting; and a refusal in words."""

import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import check_choice, short_repr
from skdpsynth._version import __version__
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._composition import Sums, largest
from skdpsynth.privacy._ledger import Ledger, LedgerEntry
from skdpsynth.privacy._losses import Amount, PrivacyLoss

FORMAT, VERSION = "skdpsynth evidence", 1
_NUMBER = re.compile(r"-?(?:\d+|0x[0-9a-f]+)(?:/(?:\d+|0x[0-9a-f]+))?")
_LONG = 10**4000  # Python refuses to write or read more digits of a decimal number
_CLASSES = {cls.__name__: cls for cls in (PrivacyLoss, Sums, Sensitivity)}
# Not "raise the budget": who makes a new one and forgets what was spent here spends it twice.
_EXACT_FIELDS = ("loss", "scale", "sensitivity")  # of an entry; all else is words and whole numbers
_FIELDS = ("n_values", "randomness", "group", "time", "dataset", "unit", "process", "note")  # of an entry
_COLUMNS = ("name", "part_of", "epsilon", "delta", "loss", "rho", "noise", "sensitivity", *_FIELDS)
_FLOAT_COLUMNS = ("epsilon", "delta", "rho", "sensitivity", "n_values")
# The norm of a change that each noise covers; a choice is charged by what one utility moves.
_NORMS = {
    "DiscreteLaplace": "l1",
    "DiscreteGaussian": "l2_squared",
    "DiscreteSupNorm": "sup",
    "DiscreteMatrixLaplace": "nuclear",
    "PermuteAndFlip": "sup",
    "ExponentialMechanism": "sup",
}
LARGER_BUDGET_ADVICE = "charge what was spent here to a larger budget by its `import_record`, and go on there"


LedgerLine = tuple[LedgerEntry, str | None, Amount | None, Fraction | None]
"""An entry, the entry it is part of, and the (epsilon, delta) that it added; a part adds nothing."""


def ledger_lines(ledger: Ledger, account: int | None, delta: Fraction) -> Iterator[LedgerLine]:
    for entry, epsilon, spent in ledger.additions(account, delta):
        yield ledger.with_randomness(entry), None, epsilon, spent
        yield from _part_lines(ledger, entry, entry.name)


def _part_lines(ledger: Ledger, entry: LedgerEntry, path: str) -> Iterator[LedgerLine]:
    for part in ledger.entries(entry.id):
        yield ledger.with_randomness(part), path, None, None
        yield from _part_lines(ledger, part, f"{path} / {part.name}")


def noise_of(ledger: Ledger, entry: LedgerEntry) -> str | None:
    """Return the noise of an entry in words; that of its parts, if it charged for a child."""
    if entry.noise is not None:
        return entry.describe()
    return "; ".join(dict.fromkeys(part.describe() or "" for part in ledger.below(entry.id) if part.noise)) or None


def ledger_frame(ledger: Ledger, account: int | None, delta: Fraction, backend: Any, parts: bool) -> Any:
    import narwhals.stable.v2 as nw

    check_choice("backend", backend, ("pandas", "polars", "pyarrow"))
    rows = [_row(ledger, *line) for line in ledger_lines(ledger, account, delta) if parts or line[1] is None]
    names = [name for name in _COLUMNS if parts or name != "part_of"]
    columns = {name: [row[name] for row in rows] for name in names}
    schema = {name: nw.Float64 if name in _FLOAT_COLUMNS else nw.String for name in names}
    try:
        if backend == "pandas":  # where narwhals would turn a text that is missing into one that says so
            import pandas as pd

            return pd.DataFrame(
                {name: pd.Series(column, dtype=float if name in _FLOAT_COLUMNS else object) for name, column in columns.items()}
            )
        return nw.from_dict(columns, schema=schema, backend=backend).to_native()
    except ModuleNotFoundError:
        raise ImportError(f"to_frame needs {backend}: install it, name another backend, or read the ledger itself.") from None


def _row(ledger: Ledger, entry: LedgerEntry, part_of: str | None, epsilon: Amount | None, delta: Fraction | None) -> dict[str, Any]:
    amounts = _to_float(epsilon), _to_float(delta), str(entry.loss), _to_float(entry.loss.rho)
    noise = noise_of(ledger, entry), _to_float(entry.sensitivity and entry.sensitivity.l1)
    return dict(zip(_COLUMNS, (entry.name, part_of, *amounts, *noise, *(getattr(entry, name) for name in _FIELDS)), strict=True))


def _to_float(amount: Any) -> float | None:
    return None if amount is None else float(amount)


def budget_exceeded_error(
    entry: LedgerEntry,
    spent: tuple[Amount, Fraction],
    needed: tuple[Amount, Fraction],
    budget: tuple[Amount, Fraction],
    in_rho: bool = False,
) -> BudgetExceededError:
    """Return the error for an entry that does not fit; pairs are (epsilon, delta), `needed` includes the entry."""
    (epsilon, delta), remaining = budget, _subtract(budget[0], spent[0])
    requested = _subtract(needed[0], spent[0])
    less = "smaller epsilon (or share of `split`)"
    if needed[1] > delta:
        less, cost = "smaller delta", f"delta={float(entry.loss.delta):g}"
        rest = f"only {float(delta - spent[1]):g} of {float(delta):g} remains"
    elif requested == math.inf and not entry.loss.is_infinite:
        cost, rest = str(entry.loss), f"that leaves none of delta={float(delta):g} for the losses in rho"
    else:
        cost, rest = f"epsilon={float(requested):g}", f"only {float(remaining):g} of {float(epsilon):g} remains"
    if in_rho and entry.loss.rho is None:  # a kind of its own, whatever remains
        rest, less = "what was charged here is rho, and holds no more of such losses", "loss in rho"
    elif in_rho and needed[0] <= epsilon and needed[1] <= delta:
        rest = f"the rho that was charged for epsilon={float(epsilon):g} at delta={float(delta):g} holds no more"
    out = f"give it a {less}, or {LARGER_BUDGET_ADVICE}"
    if remaining <= 0 and less.startswith("smaller"):
        out = LARGER_BUDGET_ADVICE
    message = f"{short_repr(entry.name)} costs {cost}, but {rest}; {out}."
    return BudgetExceededError(message, requested, remaining)


def _subtract(amount: Amount, taken: Amount) -> Amount:
    return math.inf if amount == math.inf else amount - taken


def to_text(thing: Any) -> str:
    return _add_checksum(_to_json(thing))


def parse_text(text: str) -> Any:
    """Return the argument of `to_text`; raise ValueError, TypeError or KeyError if this is no such text."""
    return _from_json(_strip_checksum(text))


def entry_to_text(entry: LedgerEntry) -> str:
    facts = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name != "id"}
    exact = {name: _to_json(facts[name]) for name in _EXACT_FIELDS}
    return _add_checksum({name: value for name, value in (facts | exact).items() if value is not None})


def parse_entry(number: int, text: str) -> LedgerEntry:
    facts = _strip_checksum(text)
    return LedgerEntry(id=number, **(facts | {name: _from_json(facts[name]) for name in _EXACT_FIELDS if name in facts}))


def exact_text(number: Any) -> str:
    return str(_to_json(number))


def _add_checksum(data: Any) -> str:
    """Return JSON behind its check sum, since a digit that flips on a disk would be another amount."""
    text = json.dumps(data, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}"


def _strip_checksum(text: str) -> Any:
    if int(text[:8], 16) != zlib.crc32(text[9:].encode()):
        raise ValueError("a text of the ledger is not what was written.")
    return json.loads(text[9:])


def _to_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return _digits(value.numerator) + ("" if value.denominator == 1 else f"/{_digits(value.denominator)}")
    if isinstance(value, float):
        if not value == math.inf:
            raise TypeError("a ledger holds exact numbers, and infinity.")
        return "inf"
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if type(value).__name__ in _CLASSES:
        return {"is": type(value).__name__} | {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    return value


def _from_json(data: Any) -> Any:
    if isinstance(data, str):
        return math.inf if data == "inf" else _fraction(data) if _NUMBER.fullmatch(data) else data
    if isinstance(data, list):
        return tuple(_from_json(item) for item in data)
    if isinstance(data, dict):
        return _CLASSES[data["is"]](**{name: _from_json(value) for name, value in data.items() if name != "is"})
    return data


def _digits(number: int) -> str:
    return str(number) if abs(number) < _LONG else hex(number)


def _fraction(text: str) -> Fraction:
    return Fraction(*(int(part, 16 if "x" in part else 10) for part in text.split("/")))


def evidence_of(accountant: Any, ledger: Ledger, account: int | None) -> dict[str, Any]:
    entries = list(ledger.below(account))
    charge = ledger.charge_of(account)
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"skdpsynth {__version__}",
        "promise": {
            "epsilon": exact_text(accountant.epsilon),
            "delta": exact_text(accountant.delta),
            "relation": accountant.neighboring,
            "unit": None if accountant.unit is None else str(accountant.unit),
            "rows_per_unit": accountant.rows_per_unit,
        },
        "charged": None if charge is None else _loss(charge),
        "spent": {"epsilon": exact_text(accountant.spent), "delta": exact_text(accountant.spent_delta)},
        "numbers": list(_consecutive_ranges(sorted(entry.id for entry in entries))),
        "releases": [_release_facts(entry, account) for entry in entries],
    }


def _release_facts(entry: LedgerEntry, account: int | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "number": entry.id,
        "name": entry.name,
        "part_of": None if entry.part_of == account else entry.part_of,
        "group": entry.group,
        "relation": entry.neighboring,
        "unit": entry.unit,
        "rows_per_unit": _rows_per_unit(entry.unit),
        "loss": _loss(entry.loss),
    }
    if entry.noise is None:
        return facts
    sensitivity, norm = entry.sensitivity, _NORMS.get(entry.noise)
    stated = None if sensitivity is None or norm is None else getattr(sensitivity, norm)
    statistic = (
        None
        if sensitivity is None or sensitivity.statistic is None
        else {name: _statistic_fact(value) for name, value in sensitivity.statistic}
    )
    return facts | {
        "statistic": statistic,
        "norm": norm,
        "sensitivity": None if stated is None else exact_text(stated),
        "noise": entry.noise,
        "scales": [exact_text(scale) for scale in entry.scale],
        "values": entry.n_values,
        "randomness": entry.randomness,
    }


def _loss(loss: PrivacyLoss) -> dict[str, Any]:
    if loss.rho is not None:
        return {"rho": exact_text(loss.rho), "gaussian": loss.gaussian}
    return {"epsilon": exact_text(loss.epsilon), "delta": exact_text(loss.delta)}


def _statistic_fact(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_statistic_fact(each) for each in value]
    return value if isinstance(value, str | int) else exact_text(value)


def _rows_per_unit(unit: str | None) -> int:
    """Return the most rows of a unit, which its words end with."""
    found = re.search(r", at most (\d+) rows?$", unit or "")
    return int(found[1]) if found else 1


def _consecutive_ranges(numbers: list[int]) -> Iterator[list[int]]:
    """Yield the first and the last number of each run without a gap; entries that a stream folded leave gaps."""
    ends = [i for i, (a, b) in enumerate(pairwise(numbers)) if b > a + 1]
    starts = [0, *(i + 1 for i in ends)]
    yield from ([numbers[a], numbers[b]] for a, b in zip(starts, [*ends, len(numbers) - 1], strict=True) if numbers)


def dp_events(ledger: Ledger, account: int | None) -> Any:
    try:
        from dp_accounting import dp_event
    except ModuleNotFoundError:
        raise ImportError("to_dp_events needs dp-accounting: pip install 'skdpsynth[accounting]'.") from None
    return dp_event.ComposedDpEvent([_event(dp_event, loss) for loss in _losses(ledger, account)])


def _losses(ledger: Ledger, account: int | None) -> Iterator[PrivacyLoss]:
    """Yield the losses of all releases; of a group, those of its costliest member."""
    groups: dict[str, dict[str, list[LedgerEntry]]] = {}
    for entry in ledger.entries(account):
        if entry.group is None:
            yield from _release_losses(ledger, entry)
        else:
            groups.setdefault(entry.group, {}).setdefault(entry.name, []).append(entry)
    for members in groups.values():
        yield from _largest_member_losses(ledger, members)


def _release_losses(ledger: Ledger, entry: LedgerEntry) -> Iterator[PrivacyLoss]:
    if ledger.entries(entry.id):
        yield from _losses(ledger, entry.id)
    else:
        yield entry.loss


def _largest_member_losses(ledger: Ledger, members: dict[str, list[LedgerEntry]]) -> list[PrivacyLoss]:
    """Return the losses of the costliest member; where none is the largest in all, the largest of each kind."""
    sums = {name: Sums.of(*(entry.loss for entry in entries)) for name, entries in members.items()}
    most = largest(sums.values())
    for name, entries in members.items():
        if sums[name] == most:
            return [loss for entry in entries for loss in _release_losses(ledger, entry)]
    return most.losses()


def _event(dp_event: Any, loss: PrivacyLoss) -> Any:
    if loss.is_infinite:
        return dp_event.NonPrivateDpEvent()
    if loss.rho is not None:
        rho = float(loss.rho)
        return dp_event.GaussianDpEvent(noise_multiplier=1 / math.sqrt(2 * rho)) if loss.gaussian else dp_event.ZCDpEvent(rho=rho)
    if loss.delta:
        return dp_event.UnsupportedDpEvent()
    return dp_event.DiscreteLaplaceDpEvent(noise_parameter=float(loss.epsilon), sensitivity=1)
