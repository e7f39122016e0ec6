"""What a card's template is given: sentences, and tables as rows of text."""

import math
from collections.abc import Iterator
from typing import Any

from skdpsynth._repr_html import DOCS_URL
from skdpsynth._text import percent_at_most
from skdpsynth.report._checklist import checklist_of
from skdpsynth.report._facts import CardFacts
from skdpsynth.report._promise import LedgerLine, Promise
from skdpsynth.report._registry import registry_record
from skdpsynth.report._wording import describe_composition, describe_guarantee, describe_relation, describe_unit, unprotected

_LEDGER = ("Release", "Adds epsilon", "Adds delta", "Loss", "Noise", "Sensitivity", "Values", "Randomness", "Group", "Unit", "When")


def template_values(facts: CardFacts) -> dict[str, Any]:
    """Return the values of the template "card.html" that follow from the facts."""
    promise = facts.promise
    budget = f"{amount(promise.budget_epsilon)}, {amount(promise.budget_delta)}"
    sentences = {
        "meaning": describe_guarantee(promise),
        "relation": describe_relation(promise),
        "unit": describe_unit(promise),
        "composition": describe_composition(promise),
        "unprotected": unprotected(promise, facts.is_stream, facts.is_multiline),
    }
    tables = {
        "risk_rows": [(percent_at_most(risk.fpr), percent_at_most(risk.tpr), percent_at_most(risk.fpr)) for risk in promise.risks],
        "bound_rows": [(bound.name, bound.value, bound.words) for bound in facts.bounds],
        "column_rows": [_cells_of_column(column) for column in facts.columns],
        **_ledger(promise),
        "check_rows": [(check.topic, check.status, check.answer) for check in checklist_of(facts)],
        "registry_rows": [(path, text) for path, text in _leaves(registry_record(facts, {})) if not path.endswith("notes")],
    }
    epsilon, delta = ("void", "void") if promise.is_seeded else (amount(promise.epsilon), amount(promise.delta))
    amounts = {"epsilon": epsilon, "delta": delta, "budget": budget}
    return {"facts": facts, "promise": promise, "docs": DOCS_URL, **sentences, **tables, **amounts}


def amount(number: float | None) -> str:
    """Return epsilon or delta as text."""
    return "" if number is None else "infinite" if number == math.inf else f"{number:g}"


def _cells_of_column(column: Any) -> tuple[str, ...]:
    return column.name, column.kind, column.values, "yes" if column.nullable else "", column.origin


def _ledger(promise: Promise) -> dict[str, Any]:
    """Return the ledger as a table, without columns in which nothing stands."""
    rows = [_cells_of_line(line) for line in promise.lines]
    kept = [place for place in range(len(_LEDGER)) if place == 0 or any(row[place] not in ("", "0") for row in rows)]
    cells = [tuple(row[place] for place in kept) for row in rows]
    return {"ledger_heads": [_LEDGER[place] for place in kept], "ledger_rows": list(zip(promise.lines, cells, strict=True))}


def _cells_of_line(line: LedgerLine) -> tuple[str, ...]:
    added = amount(line.epsilon), amount(line.delta)
    values = "" if line.n_values is None else f"{line.n_values:,}"
    randomness = "SEEDED" if line.randomness == "seeded" else line.randomness or ""
    told = line.loss, line.noise or "", line.sensitivity or "", values, randomness, line.group or "", line.unit or ""
    return (line.name, *added, *told, line.time[:16].replace("T", " "))


def _leaves(record: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a record, as path and text."""
    if isinstance(record, dict):
        for name, value in record.items():
            yield from _leaves(value, f"{path}{name}." if isinstance(value, dict) else f"{path}{name}")
    else:
        yield path.removeprefix("deployment."), ", ".join(record) if isinstance(record, list) else str(record)
