"""The release card of a fitted model, or of an account."""

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._text import DOCS_URL, percent_at_most
from skdpsynth._validation import check_choice, check_string, short_repr
from skdpsynth.auditing import privacy_evidence
from skdpsynth.frames import Table
from skdpsynth.measures import BinaryPartition, Lattice
from skdpsynth.metrics import quality_report
from skdpsynth.plotting import BudgetDisplay, MeasureDisplay, PrivatePCADisplay, SynthesisDisplay
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.report._facts import CardFacts, LedgerLine, facts_of
from skdpsynth.report._page import Page, evidence_values, inline_svg, quality_tables, render_template
from skdpsynth.report._registry import Check, checklist_of, registry_record

_MOST_PICTURED = 20  # columns: each picture is some 10 kB
_MOST_ASSOCIATED = 40  # with more columns the cells are too small to see


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
    model: BaseEstimator | PrivacyAccountant,
    *,
    audience: str = "public",
    real: Table = None,
    holdout: Table = None,
    title: str | None = None,
    accountant: PrivacyAccountant | None = None,
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
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise TypeError(
            f"accountant must be None or a PrivacyAccountant, got {short_repr(accountant)}; PrivacyAccountant.at opens a ledger."
        )
    if not isinstance(model, PrivacyAccountant):
        _check_model(model, accountant)
    _check_rows(model, audience, real, holdout)
    if title is not None:
        check_string("title", title)
    facts = facts_of(model, accountant, title)
    quality = None if real is None else quality_report(real, facts.sample, facts.schema)
    evidence = None if holdout is None else privacy_evidence(getattr(model, "best_estimator_", model), real, holdout)
    html = render_template(
        "card.html",
        facts=facts,
        promise=facts.promise,
        internal=audience == "internal",
        docs=DOCS_URL,
        amount=_amount,
        risks=[(percent_at_most(risk.fpr), percent_at_most(risk.tpr), percent_at_most(risk.fpr)) for risk in facts.promise.risks],
        checks=map(astuple, checklist_of(facts)),
        fields=[(path, text) for path, text in _leaves(registry_record(facts, {})) if not path.endswith("notes")],
        pictures=list(_pictures(model, facts, real, accountant)),
        quality=quality_tables(quality),
        **evidence_values(evidence),
        **_ledger_table(facts.promise.lines),
    )
    return Card(title=facts.title, html=html, facts=facts, audience=audience)


def _check_model(model: BaseEstimator | PrivacyAccountant, accountant: PrivacyAccountant | None) -> None:
    if not isinstance(model, BaseEstimator):
        raise TypeError(
            f"model must be a fitted private estimator or a PrivacyAccountant, got {short_repr(model)}; of a Pipeline give the step."
        )
    check_is_fitted(model)
    own = getattr(model, "accountant_", None)
    if not isinstance(own, PrivacyAccountant):
        raise TypeError(
            f"model must be a private estimator, which has accountant_ once it is fitted, got a {type(model).__name__}; of a Pipeline or a "
            "search give the private step."
        )
    # Charges are the same by the facts that survive when a ledger takes in another.
    charged, known = ({(entry.name, entry.time, str(entry.loss)) for entry, _ in one.lines()} for one in (own, accountant or own))
    if not charged <= known:
        raise ValueError(
            "accountant must be the budget that the model was charged to, got one without those charges; leave it out for "
            "the model's own ledger."
        )
    # The result of a step of another fit depends on earlier steps, which were charged elsewhere.
    if accountant in (None, own) and own._account.number is not None and getattr(model, "accountant", None) is None:
        raise ValueError(
            f"model must be the whole of a fit, got a {type(model).__name__} that is a part of one, charged with its own share alone; give "
            "the estimator that holds it, or that one's accountant_ as accountant."
        )


def _check_rows(model: BaseEstimator | PrivacyAccountant, audience: str, real: Table, holdout: Table) -> None:
    for name, rows, what in (("real", real, "a comparison"), ("holdout", holdout, "attacks")):
        if audience == "public" and rows is not None:
            raise ValueError(f"{name} must be None for audience='public', which never reads rows; for {what} give audience='internal'.")
    if audience == "internal" and real is None:
        raise ValueError("real must be the rows to compare with for audience='internal'; without them give audience='public'.")
    if real is not None and not hasattr(model, "sample"):
        raise ValueError(
            f"real must be None for {type(model).__name__}, which has no synthetic rows to compare with; give audience='public'."
        )


def _amount(number: float | None) -> str:
    return "" if number is None else "infinite" if number == math.inf else f"{number:g}"


def _ledger_table(lines: tuple[LedgerLine, ...]) -> dict[str, Any]:
    """Return the ledger as heads and rows, each with the depth of its line, without empty columns."""
    rows = []
    for line in lines:
        entry = line.entry
        cells = {
            "Release": entry.name,
            "Adds epsilon": _amount(line.epsilon),
            "Adds delta": _amount(line.delta),
            "Loss": str(entry.loss),
            "Noise": entry.describe(),  # noise of parts stands in their own lines
            "Sensitivity": line.sensitivity,
            "Values": "" if entry.n_values is None else f"{entry.n_values:,}",
            "Randomness": "SEEDED" if entry.randomness == "seeded" else entry.randomness,
            "Group": entry.group,
            "Unit": entry.unit,
            "When": entry.time[:16].replace("T", " "),
        }
        rows.append((line.depth, cells))
    heads = ["Release"]
    if rows:
        heads += [head for head in list(rows[0][1])[1:] if any(cells[head] not in (None, "", "0") for _, cells in rows)]
    return {"ledger_heads": heads, "ledger_rows": [(depth, [cells[head] for head in heads]) for depth, cells in rows]}


def _leaves(record: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and text of each field of a record."""
    if isinstance(record, dict):
        for name, value in record.items():
            yield from _leaves(value, f"{path}{name}." if isinstance(value, dict) else f"{path}{name}")
    else:
        yield path.removeprefix("deployment."), ", ".join(record) if isinstance(record, list) else str(record)


def _pictures(
    model: BaseEstimator | PrivacyAccountant, facts: CardFacts, real: Table, accountant: PrivacyAccountant | None
) -> Iterator[dict[str, Any]]:
    """Yield the pictures of a card with their captions; only `real` gives real rows."""
    drawn = [*_sample_pictures(facts, real), *_model_pictures(getattr(model, "best_estimator_", model))]
    if accountant is None:
        accountant = model if isinstance(model, PrivacyAccountant) else model.accountant_
    if accountant.ledger:
        drawn.append(("Budget", "The charge of each release.", BudgetDisplay.from_accountant(accountant).to_svg()))
    for number, (title, words, svg) in enumerate(drawn):
        yield {"title": title, "words": words, "svg": inline_svg(svg, number, f"{title}. {words}")}


def _sample_pictures(facts: CardFacts, real: Table) -> Iterator[tuple[str, str, str]]:
    """Yield two columns a picture, so that a phone shows them large enough to read."""
    if facts.sample is None:
        return
    rows = f"{len(facts.sample):,} synthetic rows" + (" beside real ones: not private." if real is not None else ".")
    display = SynthesisDisplay.from_samples(facts.sample, schema=facts.schema, X=real)
    names = [column.name for column in display.columns]
    for first in range(0, min(len(names), _MOST_PICTURED), 2):
        two = names[first : first + 2]
        yield "Columns", f"{' and '.join(map(str, two))}, of {rows}", display.to_svg(columns=two)
    if len(names) > _MOST_PICTURED:
        rows += f" Only the first {_MOST_PICTURED} columns are pictured alone."
    if len(names) > 1:
        yield "Pairs of columns", f"Those that depend most on each other, of {rows}", display.to_svg(kind="pairs")
    if 2 < len(names) <= _MOST_ASSOCIATED:
        words = f"1 or -1: one column follows from the other; 0: they have nothing to do with each other. Computed from {rows}"
        yield "Associations", words, display.to_svg(kind="correlations")


def _model_pictures(model: BaseEstimator) -> Iterator[tuple[str, str, str]]:
    if hasattr(model, "noise_edge_"):
        words = "Variance of each direction as released, with noise, and the largest that noise alone is likely to show."
        yield "Directions of largest variance", words, PrivatePCADisplay.from_estimator(model).to_svg()
    partition = getattr(getattr(model, "measure_", None), "partition", None)
    if isinstance(partition, BinaryPartition | Lattice) and model.n_features_in_ <= 2:
        words = "The released probability measure: how much of it lies where."
        yield "Released measure", words, MeasureDisplay.from_estimator(model).to_svg()
