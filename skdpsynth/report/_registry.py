"""Questions that others ask of a release: of regulators and standards, of NIST SP 800-226, and of the DP Deployments Registry.

Near, Darais, Lefkovitz, Howarth (2025), "Guidelines for Evaluating Differential Privacy Guarantees",
https://doi.org/10.6028/NIST.SP.800-226. The names of topics are ours. The fields of a record follow the schema of the registry
(https://github.com/opendp/deployments-registry-data, version of 2026). Those that code cannot know say "not covered", for people.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.privacy import LONE_ROW
from skdpsynth.report._facts import CardFacts

_COVERED, _PARTLY, _NOT_COVERED = "covered", "partly", "not covered"
_LARGE = 20.0  # larger epsilons promise little, and a fit warns of them
_CURATOR = ("name", "data_curators", "description", "intended_use", "data_product_region", "data_product_sector", "publication_date")
_ADMINISTRATIVE = ("sources", "registry_authors")
_LISTS = ("data_curators", "registry_authors")
_QUESTIONS = (  # in words of our own, who asks, and which section of the card answers
    ("Can somebody be singled out? (membership)", "WP29, ISO/IEC 20889, ICO", "What an attacker gains"),
    ("Can records of one person be linked?", "WP29, ISO/IEC 20889, ICO", "What an attacker gains; other tables: What is not protected"),
    ("Can cells of somebody be inferred?", "WP29, ISO/IEC 20889, ICO", "What an attacker gains; truths about many: What is not protected"),
    ("Would a motivated intruder succeed?", "ICO", "What an attacker gains, which holds whatever the intruder knows"),
    ("Which technique and privacy model is it?", "ISO/IEC 20889", "What was released: differential privacy, by noise; Ledger"),
    ("Who receives it, and why? (context)", "ISO/IEC 27559, 6", ""),
    ("Whose data, of which kind? (data)", "ISO/IEC 27559, 7.2", "What was released; Columns"),
    ("Which attack, maximum or average risk?", "ISO/IEC 27559, 7.3", "What an attacker gains: the maximum, over all attacks and rows"),
    ("How identifiable, and tested how?", "ISO/IEC 27559, 8.2", "What an attacker gains; attacks that were tried: the private page"),
    ("What was done against it? (mitigation)", "ISO/IEC 27559, 8.3", "Ledger"),
    ("Who is responsible, and reviews it? (governance)", "ISO/IEC 27559, 9", "Signatures; Settings and versions"),
    ("Are parameters, unit, noise and total right?", "NIST SP 800-226", "Checklist of NIST SP 800-226"),
)
_NOTES = "Checklist by the topics of NIST SP 800-226, filled from code:"  # the registry shows the lines after it as a list


@dataclass(frozen=True)
class Check:
    """One topic of the checklist.

    Attributes
    ----------
    topic : str
    status : {"covered", "partly", "not covered"}
        "covered": the code answers it. "not covered": people must, for nothing in the code knows.
    answer : str

    See Also
    --------
    Card.checklist : The topics of a release.
    """

    topic: str
    status: str
    answer: str


def questions_of(facts: CardFacts) -> list[tuple[str, str, str]]:
    """Return the questions of regulators and standards, who asks, and where the card answers, if it does."""
    nobody = "Not here: people must answer"
    return [(question, who, (where if facts.columns else where.replace("; Columns", "")) or nobody) for question, who, where in _QUESTIONS]


def checklist_of(facts: CardFacts) -> tuple[Check, ...]:
    return tuple(starmap(Check, (*_guarantee(facts), *_making(facts))))


def _guarantee(facts: CardFacts) -> Iterator[tuple[str, str, str]]:
    promise = facts.promise
    large = " That is large, and promises little." if promise.epsilon > _LARGE else ""
    parameters = f"epsilon {promise.epsilon:g}, delta {promise.delta:g}, from the ledger.{large}"
    if promise.is_seeded:
        parameters = "The noise was seeded, so whoever knows the seed can remove it: no epsilon holds."
    elif promise.is_infinite:
        parameters = "epsilon is infinite: no noise was added, and nothing is promised."
    others = "Accountants do not know of each other: whatever else was released about the same people adds up with this."
    invariant = f"the exact number of {promise.counted_rows}, public under replace-one" if promise.has_public_size else "no statistic"
    yield "Privacy parameters", _COVERED, parameters
    yield "Unit of privacy", _PARTLY if promise.unit in (None, LONE_ROW) else _COVERED, promise.unit_in_words
    yield "Neighboring tables (bounded or unbounded)", _COVERED, promise.relation
    yield "Composition within this release", _COVERED, promise.composition
    yield "Other releases about the same people", _NOT_COVERED, others
    yield "Releases without noise beside this one", _PARTLY, f"This model releases {invariant}. Publications of others are not covered."


def _making(facts: CardFacts) -> Iterator[tuple[str, str, str]]:
    promise = facts.promise
    known, unknown = _PARTLY if promise.n_untold else _COVERED, promise.unknown_charges
    stated = f"{promise.n_stated} of {promise.n_noisy} noisy releases say how far one unit moves them; their noise was checked to cover it."
    random = "Seeded: anybody with the seed removes the noise." if promise.is_seeded else promise.mechanisms
    exact = "Statistics are whole numbers before noise, the noise is exact, and budgets are fractions."
    accuracy = "; ".join(f"{bound.name} {bound.value}" for bound in facts.bounds)
    bias = "Values outside the bounds were clipped, and noise weighs most on small groups. Whether that harms is for people."
    searched = promise.remark or "If settings, columns or bounds were chosen by looking at the rows, that choice is not in epsilon."
    yield "Mechanisms, and noise that fits them", known if promise.n_stated == promise.n_noisy else _PARTLY, stated + unknown
    yield "Randomness", known, random
    yield "Floating-point arithmetic", known, exact + unknown
    if facts.sample is not None:
        files = "".join(f" {file.name} has the SHA-256 {file.sha256}." for file in facts.files)
        yield "Synthetic data", _COVERED, f"Samples are drawn from noisy results alone, so any number of them costs nothing more.{files}"
    yield (
        "Accuracy",
        _PARTLY if accuracy else _NOT_COVERED,
        accuracy or "No bound is proved for this model; compare it on a page that is private.",
    )
    yield "Bias", _NOT_COVERED, bias
    yield "Preprocessing, exploration and tuning", _NOT_COVERED, searched
    yield "Trust model", _COVERED, "Central: whoever ran the fit saw the rows, and is trusted with them."
    yield "Timing and other side channels", _NOT_COVERED, "How long a fit takes, and what memory it uses, is not protected."
    yield "Security of the rows, and who may see them", _NOT_COVERED, "Nothing here knows how the rows are kept."
    consent = "Nothing here knows how, and with whose consent, they were collected."
    yield "Exposure when the data were collected", _NOT_COVERED, consent


def registry_record(facts: CardFacts, known: dict[str, Any]) -> dict[str, Any]:
    """Return the record; `known` holds the fields that the curator gives."""
    for name, value in known.items():
        if name not in _CURATOR + _ADMINISTRATIVE:
            raise TypeError(f"to_registry takes {', '.join(_CURATOR + _ADMINISTRATIVE)}, got {short_repr(name)}; the model tells the rest.")
        is_list = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
        if not (is_list if name in _LISTS else isinstance(value, str)):
            raise TypeError(f"{name} must be {'a list of texts' if name in _LISTS else 'a text'}, got {short_repr(value)}.")
    deployment = _describe_release(facts) | _describe_making(facts)
    deployment["basic"] |= {name: known[name] for name in _CURATOR if name in known}
    deployment["administrative"] |= {name: known[name] for name in _ADMINISTRATIVE if name in known}
    slug = re.sub(r"[^a-z0-9]+", "-", deployment["basic"]["name"].lower()).strip("-") or "release"
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def _describe_release(facts: CardFacts) -> dict[str, dict[str, Any]]:
    promise = facts.promise
    product = "Synthetic data" if facts.sample is not None else "Summary statistics" if facts.what is None else "Machine learning model"
    table = f"{len(facts.tables)} linked tables" if facts.tables else "A table"
    columns = f"{table} of {facts.n_columns} columns of public names, kinds and bounds. " if facts.n_columns else ""
    basic = {
        "name": facts.title,
        "data_curators": [_NOT_COVERED],
        "description": f"{facts.what_words} {promise.guarantee}",
        "intended_use": _NOT_COVERED,
        "data_product_type": product,
        "data_product_region": _NOT_COVERED,
        "publication_date": facts.made,
    }
    variant = {
        "data_domain": columns + promise.relation,
        "unprotected_quantities": f"The number of {promise.counted_rows}." if promise.has_public_size else "None.",
    }
    loss: dict[str, Any] = {
        "privacy_unit": "row" if promise.unit is None else promise.unit,
        "privacy_unit_details": f"{promise.unit_in_words} {promise.relation}",
        "privacy_parameters_details": promise.guarantee,
    }
    if promise.holds:  # a record of no promise names no variant
        variant["variant_name"] = "Approximate DP" if promise.delta else "Pure DP"
        loss["privacy_parameters"] = {"epsilon": promise.epsilon} | ({"delta": promise.delta} if promise.delta else {})
    return {"basic": basic, "dp_variant": variant, "privacy_loss": loss}


def _describe_making(facts: CardFacts) -> dict[str, dict[str, Any]]:
    promise = facts.promise
    limit = "that is infinite" if promise.budget_epsilon == math.inf else f"{promise.budget_epsilon:g}"
    many = f"Releases come as the stream goes on, and all of them together cost at most epsilon {limit}."
    sampled = " and synthetic rows are drawn from the result" if facts.sample is not None else ""
    n_bought = sum(column.origin == "bought" for column in facts.columns)
    bought = f" Facts about {n_bought} columns were bought within the budget." if n_bought else ""
    tried = promise.remark or f"Attempts before this fit: {_NOT_COVERED}."
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions)
    model = {
        "model_name": "Central",
        "model_name_details": "Those who run the fit see the rows; noise is added before anything leaves.",
        "actors": _NOT_COVERED,
        "release_type": "Many releases" if facts.is_stream or facts.what is None else "One release",
        "release_type_details": many if facts.is_stream else "The model is released once; samples of it are free.",
        "data_source_type": "Dynamic" if facts.is_stream else "Static",
        "access_type": "Non-interactive",
    }
    accounting = {
        "post_processing": f"Noisy results are made consistent{sampled}; none of it reads the rows again.",
        "composition": promise.composition,
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": f"Values are clipped to public bounds.{bought} {tried}",
        "mechanisms": f"{promise.mechanisms} Floating point: whole numbers before noise. Timing: {_NOT_COVERED}. "
        f"Security of the rows: {_NOT_COVERED}. {versions}.",
        "justification": _NOT_COVERED,
    }
    notes = [f"- {check.topic}: {check.status}. {check.answer}" for check in checklist_of(facts)]
    administrative = {"notes": "\n".join([_NOTES, "", *notes]), "registry_authors": [_NOT_COVERED]}
    return {"deployment_model": model, "accounting": accounting, "implementation": implementation, "administrative": administrative}
