"""A ledger as lines, as a data frame, and in the words of a refusal."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy._ledger import Ledger, LedgerEntry
from skdpsynth.privacy._losses import Amount

# Not "raise the budget": who makes a new one and forgets what was spent here spends it twice.
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


_FIELDS = ("n_values", "randomness", "group", "time", "dataset", "unit", "process", "note")  # of an entry
_COLUMNS = ("name", "part_of", "epsilon", "delta", "loss", "rho", "noise", "sensitivity", *_FIELDS)
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
