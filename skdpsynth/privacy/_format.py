"""A ledger as lines, as a data frame, and in the words of a refusal."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._ledger import Ledger, LedgerEntry
from skdpsynth.privacy._losses import Amount

# Not "raise the budget": who makes a new one and forgets what was spent here spends it twice.
LARGER_BUDGET_ADVICE = "charge what was spent here to a larger budget by its `import_record`, and go on there"


@dataclass(frozen=True)
class LedgerLine:
    """An entry and what it added to the total; or a part of an entry, which adds nothing."""

    entry: LedgerEntry
    part_of: str | None = None
    epsilon: Amount | None = None
    delta: Fraction | None = None


def ledger_lines(ledger: Ledger, account: int | None, delta: Fraction) -> Iterator[LedgerLine]:
    """Yield the entries of an account in order, each followed by its parts."""
    for entry, epsilon, spent in ledger.additions(account, delta):
        yield LedgerLine(ledger.told(entry), None, epsilon, spent)
        yield from _part_lines(ledger, entry, entry.name)


def _part_lines(ledger: Ledger, entry: LedgerEntry, path: str) -> Iterator[LedgerLine]:
    for part in ledger.entries(entry.id):
        yield LedgerLine(ledger.told(part), path)
        yield from _part_lines(ledger, part, f"{path} / {part.name}")


def noise_of(ledger: Ledger, entry: LedgerEntry) -> str | None:
    """Return the noise of an entry in words; that of its parts, if it charged for a child."""
    if entry.noise is not None:
        return entry.describe()
    return "; ".join(dict.fromkeys(part.describe() or "" for part in ledger.below(entry.id) if part.noise)) or None


def ledger_frame(ledger: Ledger, account: int | None, delta: Fraction, backend: Any, parts: bool) -> Any:
    import narwhals.stable.v2 as nw

    check_choice("backend", backend, ("pandas", "polars", "pyarrow"))
    rows = [_row(ledger, line) for line in ledger_lines(ledger, account, delta) if parts or line.part_of is None]
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


def _row(ledger: Ledger, line: LedgerLine) -> dict[str, Any]:
    entry = line.entry
    told = entry.name, line.part_of, _to_float(line.epsilon), _to_float(line.delta), str(entry.loss), _to_float(entry.loss.rho)
    more = noise_of(ledger, entry), _to_float(entry.sensitivity and entry.sensitivity.l1), entry.n_values
    last = entry.randomness, entry.group, entry.time, entry.dataset, entry.unit, entry.process, entry.note
    return dict(zip(_COLUMNS, told + more + last, strict=True))


_COLUMNS = (
    *("name", "part_of", "epsilon", "delta", "loss", "rho"),
    *("noise", "sensitivity", "n_values"),
    *("randomness", "group", "time"),
    *("dataset", "unit", "process", "note"),
)
_FLOAT_COLUMNS = ("epsilon", "delta", "rho", "sensitivity", "n_values")


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
