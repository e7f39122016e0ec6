"""Cards as records of the DP Deployments Registry.

The fields follow its schema (https://github.com/opendp/deployments-registry-data, version of 2026). Fields that code cannot know say "not
covered", for the curator to fill in.
"""

import math
import re
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.report._checklist import NOT_COVERED, checklist_of
from skdpsynth.report._facts import CardFacts
from skdpsynth.report._promise import (
    Promise,
    describe_composition,
    describe_guarantee,
    describe_mechanisms,
    describe_relation,
    describe_unit,
)

CURATOR = ("name", "data_curators", "description", "intended_use", "data_product_region", "data_product_sector", "publication_date")
ADMINISTRATIVE = ("sources", "registry_authors")
_NOTES = "Checklist by the topics of NIST SP 800-226, filled from code:"  # the registry shows the lines after it as a list
_LISTS = ("data_curators", "registry_authors")


def registry_record(facts: CardFacts, known: dict[str, Any]) -> dict[str, Any]:
    """Return the record; `known` holds the fields that the curator gives."""
    _check(known)
    product = "Synthetic data" if facts.sample is not None else "Summary statistics" if facts.what is None else "Machine learning model"
    sampled = " and synthetic rows are drawn from the result" if facts.sample is not None else ""
    post_processing = f"Noisy results are made consistent{sampled}; none of it reads the rows again."
    notes = [f"- {check.topic}: {check.status}. {check.answer}" for check in checklist_of(facts)]
    basic: dict[str, Any] = {
        "name": facts.title,
        "data_curators": [NOT_COVERED],
        "description": f"{facts.what_words} {describe_guarantee(facts.promise)}",
        "intended_use": NOT_COVERED,
        "data_product_type": product,
        "data_product_region": NOT_COVERED,
        "publication_date": facts.made,
    }
    basic |= {name: known[name] for name in CURATOR if name in known}
    administrative = {"registry_authors": [NOT_COVERED]} | {name: known[name] for name in ADMINISTRATIVE if name in known}
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", basic["name"].lower()).strip("-") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _variant(facts),
            "privacy_loss": _loss(facts.promise),
            "deployment_model": _model(facts),
            "accounting": {"post_processing": post_processing, "composition": describe_composition(facts.promise)},
            "implementation": _implementation(facts),
            "administrative": {"notes": "\n".join([_NOTES, "", *notes])} | administrative,
        },
    }


def _check(known: dict[str, Any]) -> None:
    for name, value in known.items():
        if name not in CURATOR + ADMINISTRATIVE:
            raise TypeError(
                f"to_registry takes {', '.join(CURATOR + ADMINISTRATIVE)}, got {short_repr(name)}; the rest follows from the model."
            )
        is_list = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
        if not (is_list if name in _LISTS else isinstance(value, str)):
            raise TypeError(f"{name} must be {'a list of texts' if name in _LISTS else 'a text'}, got {short_repr(value)}.")


def _variant(facts: CardFacts) -> dict[str, Any]:
    promise = facts.promise
    columns = f"A table of {facts.n_columns} columns of public names, kinds and bounds. " if facts.n_columns else ""
    variant: dict[str, Any] = {
        "data_domain": columns + describe_relation(promise),
        "unprotected_quantities": "The number of rows." if promise.neighboring == "replace_one" else "None.",
    }
    if promise.holds:  # a record of no promise names no variant
        variant["variant_name"] = "Approximate DP" if promise.delta else "Pure DP"
    return variant


def _loss(promise: Promise) -> dict[str, Any]:
    loss: dict[str, Any] = {
        "privacy_unit": "row" if promise.unit is None else promise.unit,
        "privacy_unit_details": f"{describe_unit(promise)} {describe_relation(promise)}",
        "privacy_parameters_details": describe_guarantee(promise),
    }
    if promise.holds:
        loss["privacy_parameters"] = {"epsilon": promise.epsilon} | ({"delta": promise.delta} if promise.delta else {})
    return loss


def _model(facts: CardFacts) -> dict[str, Any]:
    once = "The model is released once; samples of it are free."
    budget = facts.promise.budget_epsilon
    limit = "that is infinite" if budget == math.inf else f"{budget:g}"
    many = f"Releases come as the stream goes on, and all of them together cost at most epsilon {limit}."
    return {
        "model_name": "Central",
        "model_name_details": "Whoever runs the fit sees the rows; noise is added before anything leaves.",
        "actors": NOT_COVERED,
        "release_type": "Many releases" if facts.is_stream or facts.what is None else "One release",
        "release_type_details": many if facts.is_stream else once,
        "data_source_type": "Dynamic" if facts.is_stream else "Static",
        "access_type": "Non-interactive",
    }


def _implementation(facts: CardFacts) -> dict[str, str]:
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions)
    bought = [column.name for column in facts.columns if column.origin == "bought"]
    facts_bought = f" Facts about {len(bought)} columns were bought within the budget." if bought else ""
    return {
        "preprocessing_and_hyperparameter_tuning": f"Values are clipped to public bounds.{facts_bought} "
        f"{facts.promise.remark or 'What was tried before this fit: ' + NOT_COVERED + '.'}",
        "mechanisms": f"{describe_mechanisms(facts.promise)} Floating point: whole numbers before noise. Timing: not covered. "
        f"Security of the rows: {NOT_COVERED}. {versions}.",
        "justification": NOT_COVERED,
    }
