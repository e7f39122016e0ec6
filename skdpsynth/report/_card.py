"""The release card of a fitted model, or of an account."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from skdpsynth._text import DOCS_URL, percent_at_most
from skdpsynth._validation import check_choice, check_string, short_repr
from skdpsynth.auditing import privacy_evidence
from skdpsynth.metrics import quality_report
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.report._checklist import Check, checklist_of
from skdpsynth.report._facts import CardFacts, facts_of
from skdpsynth.report._page import Page, pictures_of, render_template
from skdpsynth.report._promise import (
    LedgerLine,
    Promise,
    describe_composition,
    describe_guarantee,
    describe_relation,
    describe_unit,
    unprotected,
)
from skdpsynth.report._quality import EvidenceSection, quality_tables
from skdpsynth.report._registry import registry_record


@dataclass(frozen=True)
class Card(Page):
    """A release card: made by `card`.

    Attributes
    ----------
    title : str
    html : str
    facts : CardFacts
        Its content as data.
    audience : {"public", "internal"}

    See Also
    --------
    card : Makes it from a model or an account.
    """

    facts: CardFacts = field(repr=False)
    audience: str

    @property
    def _is_public(self) -> bool:
        return self.audience == "public" and self.facts.promise.holds

    @property
    def checklist(self) -> tuple[Check, ...]:
        """The topics of NIST SP 800-226, each answered from code, or "not covered"."""
        return checklist_of(self.facts)

    def to_registry(self, **known: Any) -> dict[str, Any]:
        """Return the card as a draft of a record of the DP Deployments Registry, which may be written as JSON or YAML.

        It holds nothing of an internal card's comparison.

        Parameters
        ----------
        **known : str, or list of str
            Facts that no code can know, by the registry's own names: ``name``, ``data_curators`` (list), ``description``, ``intended_use``,
            ``data_product_region``, ``data_product_sector``, ``publication_date``, ``sources``, ``registry_authors`` (list). Fields
            that are left out say "not covered".

        Returns
        -------
        record : dict
            Only texts, numbers, lists and dicts. If the noise was seeded or epsilon is infinite, it names no variant and no
            parameters, because there is no promise. Its notes hold the `checklist`.
        """
        return registry_record(self.facts, known)


def card(
    model: Any, *, audience: str = "public", real: Any = None, holdout: Any = None, title: str | None = None, accountant: Any = None
) -> Card:
    """Make a release card: what was released, what it cost, what an attacker gains, and what is not protected, on one page.

    A public card is made of public facts, of what the model released, and of synthetic rows. No row of the fit is read, and no budget
    is charged: you may publish it with the model.

    Parameters
    ----------
    model : fitted private estimator, or PrivacyAccountant
        An accountant gives a card of its whole ledger.
    audience : {"public", "internal"}, default="public"
        "internal": the page also compares `real` with synthetic rows, is **not private**, and says so on every section.
    real : array-like or data frame, default=None
        The rows to compare with; only for "internal", which needs them. With `holdout`: those of the fit.
    holdout : array-like or data frame, default=None
        Rows of other people, set aside at random before the fit. The page then shows how attacks do on `real` and on these, by
        `skdpsynth.auditing.privacy_evidence`; only for "internal".
    title : str, default=None
        None: what made the release.
    accountant : PrivacyAccountant, default=None
        Account whose ledger to show: that of the whole budget, if several models share one. None: the charges of this model.

    Returns
    -------
    card : Card
        ``card.save("card.html")`` writes it; ``card.to_registry()`` is a record for the DP Deployments Registry.

    Raises
    ------
    TypeError
        If `model` is no private estimator.
    sklearn.exceptions.NotFittedError
        If it is not fitted.
    ValueError
        If `real` or `holdout` is given for the public, or `real` not for internal use; if `accountant` never charged for `model`; or if
        `model` is a part of another, such as ``synthesizer_`` or ``best_estimator_``, and no `accountant` says what the whole cost.
    ImportError
        If jinja2 or matplotlib is not installed.

    See Also
    --------
    skdpsynth.PrivacyAccountant.risk : The gain of an attacker in numbers.
    skdpsynth.metrics.quality_report : Real against synthetic rows, for internal use.
    skdpsynth.auditing.privacy_evidence : Attacks on training and on held-out rows, for internal use.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.report import card
    >>> rng = np.random.default_rng(0)
    >>> model = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(rng.random((1000, 2)))
    >>> release = card(model, title="Visits in May")
    >>> release
    Card(title='Visits in May', audience='public')
    >>> release.to_registry()["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 1.0}
    """
    check_choice("audience", audience, ("public", "internal"))
    _check(model, audience, real, holdout, accountant)
    if title is not None:
        check_string("title", title)
    facts = facts_of(model, accountant, title)
    quality = None if real is None else quality_report(real, facts.sample, facts.schema)
    evidence = None if holdout is None else privacy_evidence(getattr(model, "best_estimator_", model), real, holdout)
    html = render_template(
        "card.html",
        internal=audience == "internal",
        pictures=tuple(pictures_of(model, facts, real, accountant)),
        quality=None if quality is None else quality_tables(quality),
        evidence=None if evidence is None else EvidenceSection.of(evidence),
        **template_values(facts),
    )
    return Card(title=facts.title, html=html, facts=facts, audience=audience)


def _check(model: Any, audience: str, real: Any, holdout: Any, accountant: Any) -> None:
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise TypeError(
            f"accountant must be None or a PrivacyAccountant, got {short_repr(accountant)}; PrivacyAccountant.at opens a ledger."
        )
    if accountant is not None and not _charges_of(model) <= _charges_of(accountant):
        raise ValueError(
            "accountant must be the budget that the model was charged to, got one without those charges; leave it out for "
            "the model's own ledger."
        )
    if accountant in (None, getattr(model, "accountant_", None)) and _is_part(model):
        raise ValueError(
            f"model must be the whole of a fit, got a {type(model).__name__} that is a part of one, charged with its own share alone; give "
            "the estimator that holds it, or that one's accountant_ as accountant."
        )
    if audience == "public" and real is not None:
        raise ValueError("real must be None for audience='public', which never reads rows; for a comparison give audience='internal'.")
    if audience == "public" and holdout is not None:
        raise ValueError("holdout must be None for audience='public', which never reads rows; for attacks give audience='internal'.")
    if audience == "internal" and real is None:
        raise ValueError("real must be the rows to compare with for audience='internal'; without them give audience='public'.")
    if real is not None and not hasattr(model, "sample"):
        raise ValueError(
            f"real must be None for {type(model).__name__}, which has no synthetic rows to compare with; give audience='public'."
        )


def _is_part(model: Any) -> bool:
    """Whether a model was fitted as a step of another: its result depends on earlier steps, which were charged elsewhere."""
    own = getattr(model, "accountant_", None)
    return getattr(own, "_account", None) is not None and getattr(model, "accountant", None) is None


def _charges_of(model: Any) -> set[tuple[str, str, str]]:
    """Return the charges of a model or an account, by the facts that survive when a ledger takes in another."""
    accountant = model if isinstance(model, PrivacyAccountant) else getattr(model, "accountant_", None)
    return set() if accountant is None else {(entry.name, entry.time, str(entry.loss)) for entry, _ in accountant.lines()}


_LEDGER = ("Release", "Adds epsilon", "Adds delta", "Loss", "Noise", "Sensitivity", "Values", "Randomness", "Group", "Unit", "When")


def template_values(facts: CardFacts) -> dict[str, Any]:
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
        "column_rows": [(each.name, each.kind, each.values, "yes" if each.nullable else "", each.origin) for each in facts.columns],
        **_ledger(promise),
        "check_rows": [(check.topic, check.status, check.answer) for check in checklist_of(facts)],
        "registry_rows": [(path, text) for path, text in _leaves(registry_record(facts, {})) if not path.endswith("notes")],
    }
    epsilon, delta = ("void", "void") if promise.is_seeded else (amount(promise.epsilon), amount(promise.delta))
    amounts = {"epsilon": epsilon, "delta": delta, "budget": budget}
    return {"facts": facts, "promise": promise, "docs": DOCS_URL, **sentences, **tables, **amounts}


def amount(number: float | None) -> str:
    return "" if number is None else "infinite" if number == math.inf else f"{number:g}"


def _ledger(promise: Promise) -> dict[str, Any]:
    """Return the ledger as a table, without empty columns."""
    rows = [_cells_of_line(line) for line in promise.lines]
    kept = [place for place in range(len(_LEDGER)) if place == 0 or any(row[place] not in ("", "0") for row in rows)]
    cells = [tuple(row[place] for place in kept) for row in rows]
    return {"ledger_heads": [_LEDGER[place] for place in kept], "ledger_rows": list(zip(promise.lines, cells, strict=True))}


def _cells_of_line(line: LedgerLine) -> tuple[str, ...]:
    added = amount(line.epsilon), amount(line.delta)
    values = "" if line.n_values is None else f"{line.n_values:,}"
    randomness = "SEEDED" if line.randomness == "seeded" else line.randomness or ""
    facts = line.loss, line.noise or "", line.sensitivity or "", values, randomness, line.group or "", line.unit or ""
    return (line.name, *added, *facts, line.time[:16].replace("T", " "))


def _leaves(record: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of each field of a record."""
    if isinstance(record, dict):
        for name, value in record.items():
            yield from _leaves(value, f"{path}{name}." if isinstance(value, dict) else f"{path}{name}")
    else:
        yield path.removeprefix("deployment."), ", ".join(record) if isinstance(record, list) else str(record)
