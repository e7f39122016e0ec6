"""Pages, each a single HTML file without scripts or external resources: the public card of a model or account, and a private report."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from html import escape
from os import PathLike
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth._text import DOCS_URL, percent_at_most
from skdpsynth._validation import check_string, check_type, short_repr
from skdpsynth.auditing import PrivacyEvidence
from skdpsynth.measures import BinaryPartition, Lattice
from skdpsynth.metrics import LinkedReport, QualityReport, numbers_table
from skdpsynth.plotting import BudgetDisplay, EvidenceDisplay, MeasureDisplay, PrivatePCADisplay, SynthesisDisplay
from skdpsynth.privacy import PrivacyAccountant, SecretSample
from skdpsynth.report._facts import CardFacts, LedgerLine, Promise, facts_of, round_up
from skdpsynth.report._registry import Check, checklist_of, questions_of, registry_record
from skdpsynth.synthesis import Interval

_MOST_PICTURED = 20  # columns: each picture is some 10 kB
_MOST_ASSOCIATED = 40  # with more columns the cells are too small to see
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_ALLOWED_TAGS = {"svg", "g", "defs", "style", "path", "use", "text", "tspan", "image", "clipPath"}
_ALLOWED_TAGS |= {"rect", "circle", "line", "polygon", "polyline"}
_MOST_COLUMNS, _MOST_PAIRS = 100, 20
_MOST_ATTACKED = 40  # columns
_EVIDENCE_NUMBER = 1000  # of the picture: those of a card are counted from 0


@dataclass(frozen=True)
class Page:
    """One file of HTML: no script, and nothing that is loaded from elsewhere.

    Attributes
    ----------
    title : str
    html : str

    See Also
    --------
    card : A release card.
    quality_page : A report of quality.
    """

    title: str
    html: str = field(repr=False)

    @property
    def _is_public(self) -> bool:
        return False

    def to_html(self) -> str:
        """Return the page as text."""
        return self.html

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, which is complete or not there, and replace it if it exists.

        A path ends in ".html", as a rule. Only the owner may read a page that is not private.
        """
        with atomic_write(output_path(path), is_private=not self._is_public) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        # A frame of its own: neither styles the other, and the sandbox lets nothing run.
        style = "width:100%;height:40em;border:1px solid #ccc"
        return f'<iframe title="{escape(self.title)}" sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def render_template(template: str, **values: Any) -> str:
    """Fill in a template of this package, escaping every value."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ImportError("A release card needs jinja2: pip install 'skdpsynth[report]'.") from None
    loader = PackageLoader("skdpsynth.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(**values)


def inline_svg(svg: str, number: int, label: str) -> str:
    """Return an SVG document as an element of a page: scalable, with names of its own, and with a label for screen readers."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root, prefix = ElementTree.fromstring(svg), f"p{number}-"  # comments are dropped
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.removeprefix(f"{{{_SVG}}}") not in _ALLOWED_TAGS:  # drop metadata and any script
                element.remove(child)
        for name, value in element.attrib.items():
            value = prefix + value if name == "id" else re.sub("^#", f"#{prefix}", value) if name == f"{{{_LINK}}}href" else value
            element.set(name, value.replace("url(#", f"url(#{prefix}"))
    for size in ("width", "height"):  # the box is left
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


@dataclass(frozen=True)
class Card(Page):
    """A release card, for the public: made by `card`.

    Attributes
    ----------
    title : str
    html : str
    facts : CardFacts
        Its content as data.

    See Also
    --------
    card : Makes it from a model or an account.
    """

    facts: CardFacts = field(repr=False)

    @property
    def _is_public(self) -> bool:
        return self.facts.promise.holds

    @property
    def checklist(self) -> tuple[Check, ...]:
        """The topics of NIST SP 800-226, each answered from code, or "not covered"."""
        return checklist_of(self.facts)

    def to_registry(self, **known: Any) -> dict[str, Any]:
        """Return the card as a draft of a record of the DP Deployments Registry: texts, numbers, lists and dicts, to be written as JSON.

        Facts that no code can know may be given by the registry's own names: ``name``, ``data_curators`` (list), ``description``,
        ``intended_use``, ``data_product_region``, ``data_product_sector``, ``publication_date``, ``sources``, ``registry_authors`` (list).
        Fields that are left out say "not covered". If the noise was seeded or epsilon is infinite, it names no variant and no parameters,
        because there is no promise. Its notes hold the `checklist`.
        """
        return registry_record(self.facts, known)


def card(
    model: BaseEstimator | PrivacyAccountant,
    *,
    title: str | None = None,
    accountant: PrivacyAccountant | None = None,
    files: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    interval: Interval | None = None,
    sample: SecretSample | None = None,
) -> Card:
    """Make a release card: what was released, what it cost, what an attacker gains, and what is not protected, on one page.

    It is made of public facts, of what the model released, and of synthetic rows. No row of the fit is read, and no budget is charged:
    you may publish it with the model. Figures that are computed from real rows stand on `quality_page`.

    Parameters
    ----------
    model : fitted private estimator, or PrivacyAccountant
        An accountant gives a card of its whole ledger.
    title : str, default=None
        None: what made the release.
    accountant : PrivacyAccountant, default=None
        Account whose ledger to show: that of the whole budget, if several models share one. None: the charges of this model.
    files : path or list of paths, default=()
        The files of synthetic rows that are released. The card names each, without its folder, with its SHA-256, so that others can tell
        whether they have it. Never give the file of the fit: its hash tells who guesses its content that the guess is right.
    interval : Interval, default=None
        From ``model.interval(...)``, to be shown: estimates with their confidence intervals.
    sample : SecretSample, default=None
        The sample that all charges are about, if who is in it is secret: the card shows what they cost the people of its population, too.

    Returns
    -------
    card : Card
        ``card.save("card.html")`` writes it; ``card.to_registry()`` is a record for the DP Deployments Registry.

    Raises
    ------
    ValueError
        If `accountant` never charged for `model`; or if `model` is a part of another, such as ``synthesizer_`` or ``best_estimator_``, and
        no `accountant` says what the whole cost.

    See Also
    --------
    skdpsynth.PrivacyAccountant.risk : The gain of an attacker in numbers.
    quality_page : Real against synthetic rows, and attacks: not private, on a page of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.report import card
    >>> rng = np.random.default_rng(0)
    >>> model = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(rng.random((1000, 2)))
    >>> release = card(model, title="Visits in May")
    >>> release
    Card(title='Visits in May')
    >>> release.to_registry()["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 1.0}
    """
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise TypeError(f"accountant must be None or a PrivacyAccountant, got {short_repr(accountant)}; PrivacyAccountant.at opens one.")
    if not isinstance(model, PrivacyAccountant):
        _check_model(model, accountant)
    if interval is not None:
        check_type("interval", interval, Interval, "None or an Interval, from model.interval")
    if title is not None:
        check_string("title", title)
    facts = facts_of(model, accountant, title, files, interval)
    html = render_template(
        "card.html",
        population=_population_words(model if accountant is None else accountant, facts.promise, sample),
        facts=facts,
        promise=facts.promise,
        docs=DOCS_URL,
        amount=_amount,
        risks=[(percent_at_most(risk.fpr), percent_at_most(risk.tpr), percent_at_most(risk.fpr)) for risk in facts.promise.risks],
        checks=map(astuple, checklist_of(facts)),
        fields=[(path, text) for path, text in _leaves(registry_record(facts, {})) if not path.endswith("notes")],
        questions=questions_of(facts),
        interval_rows=_interval_rows(interval),
        pictures=list(_pictures(model, facts, accountant)),
        **_ledger_table(facts.promise.lines),
    )
    return Card(title=facts.title, html=html, facts=facts)


def _check_model(model: BaseEstimator | PrivacyAccountant, accountant: PrivacyAccountant | None) -> None:
    if not isinstance(model, BaseEstimator):
        raise TypeError(
            f"model must be a fitted private estimator or a PrivacyAccountant, got {short_repr(model)}; of a Pipeline give the step."
        )
    check_is_fitted(model)
    own = getattr(model, "accountant_", None)
    if not isinstance(own, PrivacyAccountant):
        raise TypeError(f"model must be a fitted private estimator, got a {type(model).__name__}; of a Pipeline give the private step.")
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


def _population_words(account: Any, promise: Promise, sample: SecretSample | None) -> str | None:
    """Return what all charges cost a person of the population of a secret sample, if anything is promised."""
    if sample is None:
        return None
    check_type("sample", sample, SecretSample, "None or a SecretSample")
    loss = sample.amplify(getattr(account, "accountant_", account), Fraction(promise.epsilon) if promise.holds else math.inf, promise.delta)
    if not promise.holds:
        return None
    how = "each by a toss of its own" if sample.design == "poisson" else "all sets of them alike"
    return (
        f"The rows are a sample of a larger population, drawn once ({how}, at a rate of {float(sample.rate):g}). As long as nobody "
        f"knows who is in it, a person of the population has epsilon = {round_up(loss.epsilon):g}"
        f"{f', delta = {round_up(loss.delta):g}' if loss.delta else ''}, from the sum of all charges."
    )


def _interval_rows(found: Interval | None) -> list[tuple[str, ...]]:
    if found is None:
        return []
    parts = [np.ravel(part) for part in (found.estimate, found.low, found.high)]
    names = [f"number {place}" for place in range(1, len(parts[0]) + 1)] if found.names is None else map(str, found.names)
    return [(name, *(f"{number:,.4g}" for number in numbers)) for name, *numbers in zip(names, *parts, strict=True)]


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


def _pictures(model: BaseEstimator | PrivacyAccountant, facts: CardFacts, accountant: PrivacyAccountant | None) -> Iterator[dict[str, Any]]:
    """Yield the pictures of a card with their captions."""
    drawn = list(_sample_pictures(facts))
    fitted: Any = getattr(model, "best_estimator_", model)
    if hasattr(fitted, "noise_edge_"):
        words = "Variance of each direction as released, with noise, and the largest that noise alone is likely to show."
        drawn.append(("Directions of largest variance", words, PrivatePCADisplay.from_estimator(fitted).to_svg()))
    partition = getattr(getattr(fitted, "measure_", None), "partition", None)
    if isinstance(partition, BinaryPartition | Lattice) and fitted.n_features_in_ <= 2:
        words = "The released probability measure: how much of it lies where."
        drawn.append(("Released measure", words, MeasureDisplay.from_estimator(fitted).to_svg()))
    if accountant is None:
        accountant = model if isinstance(model, PrivacyAccountant) else model.accountant_
    if accountant.ledger:
        drawn.append(("Budget", "The charge of each release.", BudgetDisplay.from_accountant(accountant).to_svg()))
    yield from _inline_pictures(drawn)


def _inline_pictures(drawn: Iterable[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    for number, (title, words, svg) in enumerate(drawn):
        yield {"title": title, "words": words, "svg": inline_svg(svg, number, f"{title}. {words}")}


def _sample_pictures(facts: CardFacts) -> Iterator[tuple[str, str, str]]:
    if isinstance(facts.schema, dict):
        for table, schema in facts.schema.items():
            if n := len(facts.sample[table]):
                yield from _table_pictures(SynthesisDisplay.from_samples(facts.sample[table], schema), f"{n:,} synthetic rows of {table}.")
    elif facts.sample is not None:
        display = SynthesisDisplay.from_samples(facts.sample, facts.schema)
        yield from _table_pictures(display, f"{len(facts.sample):,} synthetic rows.")


def _table_pictures(display: SynthesisDisplay, rows: str) -> Iterator[tuple[str, str, str]]:
    """Yield two columns a picture, so that a phone shows them large enough to read."""
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


def quality_page(
    quality: QualityReport | LinkedReport,
    *,
    evidence: PrivacyEvidence | None = None,
    display: SynthesisDisplay | None = None,
    title: str = "Synthetic against real rows",
) -> Page:
    """Lay out a quality report, and attacks, as a page that is **private, not to be published**, and says so on every section.

    Parameters
    ----------
    quality : QualityReport or LinkedReport
        From `skdpsynth.metrics.quality_report` or `skdpsynth.metrics.linked_report`.
    evidence : PrivacyEvidence, default=None
        From `skdpsynth.auditing.privacy_evidence`: a section more.
    display : SynthesisDisplay, default=None
        From ``SynthesisDisplay.from_samples(synthetic, schema, X=real)``: pictures of both.
    title : str, default="Synthetic against real rows"

    Returns
    -------
    page : Page

    See Also
    --------
    card : The page for the public, which has nothing of this.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.metrics import quality_report
    >>> from skdpsynth.report import quality_page
    >>> rng = np.random.default_rng(0)
    >>> quality_page(quality_report(rng.random((200, 2)), rng.random((200, 2)))).save("quality.html")  # doctest: +SKIP
    """
    check_type("quality", quality, (QualityReport, LinkedReport), "a QualityReport, from skdpsynth.metrics.quality_report")
    if evidence is not None:
        check_type("evidence", evidence, PrivacyEvidence, "None or a PrivacyEvidence, from skdpsynth.auditing.privacy_evidence")
    if display is not None:
        check_type("display", display, SynthesisDisplay, "None or a SynthesisDisplay, from SynthesisDisplay.from_samples")
    check_string("title", title)
    drawn = [] if display is None else _table_pictures(display, "synthetic rows beside real ones: not private.")
    values = {"quality": quality, "tables": quality_tables(quality), "pictures": list(_inline_pictures(drawn)), **evidence_values(evidence)}
    return Page(title, render_template("quality.html", title=title, **values))


class QualityTable(NamedTuple):
    """A table of a quality report."""

    title: str
    words: str
    rows: list[tuple[str, ...]]
    heads: tuple[str, ...] = ("What", "Synthetic", "Real halves")  # the first of these
    n_words: int = 1  # columns that are no numbers


def quality_tables(quality: QualityReport | LinkedReport) -> list[QualityTable]:
    if isinstance(quality, LinkedReport):
        words = "Rows and orphans as they are; all other numbers are distances, 0 is best, beside those of two halves of the real roots."
        return [QualityTable("Linked tables", words, quality._lines(), ("What", "Synthetic", "Real or its halves"))]
    halves = quality.halves or {}
    distances = {
        "Marginals, mean total variation": ("marginals", float(np.mean(list(quality.marginals.values())))),
        "Pairs, mean total variation": ("pairs", float(np.mean(list(quality.pairs.values()))) if quality.pairs else None),
        "Associations, mean difference": ("correlation_error", quality.correlation_error if quality.pairs else None),
        "Wasserstein distance, in shares of the bounds": ("wasserstein", quality.wasserstein),
    }
    short: list[tuple[str, ...]] = [
        (words, f"{value:.4f}", "" if halves.get(name) is None else f"{halves[name]:.4f}")
        for words, (name, value) in distances.items()
        if value is not None
    ]
    scores = {f"{quality.scoring}, after training on {rows} rows": value for rows, value in (quality.auc or {}).items()}
    heads, numbers = numbers_table(quality, _MOST_COLUMNS)
    associations = [(" x ".join(map(str, pair)), *(f"{each:.4f}" for each in both[::-1])) for pair, both in quality.associations.items()]
    number_heads = ("What", *(head[0].upper() + head[1:] for head in heads[1:]))
    tables = [
        QualityTable("In short", "0 is best. Beside each number stands that of two halves of the real rows.", short),
        _table_of_worst("Columns", "Total variation distance of each column", quality.marginals, _MOST_COLUMNS),
        QualityTable("Numbers", "The columns whose means are farthest off first.", numbers, number_heads, n_words=2),
        _table_of_worst("Pairs of columns", "Total variation distance of pairs", quality.pairs, _MOST_PAIRS),
        QualityTable("Associations", "Of pairs, those farthest apart first.", associations[:_MOST_PAIRS], ("What", "Synthetic", "Real")),
        QualityTable("Use for prediction", "Scores on real rows: more is better.", _number_rows(scores.items())),
        QualityTable("Broken rules", "Shares of synthetic rows that break the schema.", _number_rows(quality.broken.items())),
    ]
    return [table._replace(heads=table.heads[: len(table.rows[0])]) for table in tables if table.rows]


def _table_of_worst(title: str, words: str, distances: Mapping[Any, float], most: int) -> QualityTable:
    worst = ", the worst first." if len(distances) <= most else f": the worst {most} of {len(distances)}."
    return QualityTable(title, words + worst, _number_rows(sorted(distances.items(), key=lambda each: -each[1]), most))


def _number_rows(numbers: Iterable[tuple[Any, float]], most: int = _MOST_COLUMNS) -> list[tuple[str, ...]]:
    return [(" x ".join(map(str, what)) if isinstance(what, tuple) else str(what), f"{value:.4f}") for what, value in list(numbers)[:most]]


def evidence_values(evidence: PrivacyEvidence | None) -> dict[str, Any]:
    """Return what templates show of attacks, made from real rows."""
    if evidence is None:
        return {"evidence": None}
    gaps = []
    for gap in (*evidence.gaps.values(), *list(evidence.by_column.values())[:_MOST_ATTACKED]):
        ends = f"{gap.low:+.4f} to {gap.high:+.4f}"
        gaps.append((gap.what[:1].upper() + gap.what[1:], f"{gap.train:.4f}", f"{gap.holdout:.4f}", f"{gap.difference:+.4f}", ends))
    svg = inline_svg(EvidenceDisplay.from_evidence(evidence).to_svg(), _EVIDENCE_NUMBER, " ".join(evidence.sentences()))
    guesses = {"guess_heads": ("Attack", *map(str.capitalize, evidence.heads_of_guesses)), "guesses": list(evidence.lines_of_guesses())}
    return {"evidence": evidence, "gaps": gaps, "evidence_svg": svg, **guesses}
