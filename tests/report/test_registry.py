"""The record for the DP Deployments Registry, and the checklist of NIST SP 800-226."""

import json
from datetime import date

import numpy as np
import pytest
from laws import refuses

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from skdpsynth import OnlineSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.report import card

X = np.random.default_rng(0).random((300, 2))
# The fields of its schema, schemas/deployments-schema.yaml of opendp/deployments-registry-data at 3e9c812; it allows no others.
FIELDS = {
    "": {"url_slug", "status", "tier", "deployment"},
    "deployment": {"basic", "dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative"},
    "basic": {
        *("name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description", "publication_date"),
        "data_product_sector",
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "privacy_parameters": {"epsilon", "delta", "rho"},
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details", "data_source_type"),
        *("data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
REQUIRED = {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region", "publication_date"}


@pytest.fixture(scope="module")
def release():
    return card(PrivateMeasureMechanism(epsilon=0.5).fit(X), title="Visits in May")


def objects(record, name=""):
    yield name, record
    for key, value in record.items():
        if isinstance(value, dict):
            yield from objects(value, key)


def test_a_record_has_what_the_registry_requires_and_no_field_that_it_does_not_know(release):
    record = release.to_registry()
    assert all(set(fields) <= FIELDS[name] for name, fields in objects(record))
    assert ({name for name, _ in objects(record)}, set(record)) == (set(FIELDS), FIELDS[""])
    assert set(record["deployment"]["basic"]) >= REQUIRED
    assert record["deployment"]["administrative"]["registry_authors"]
    assert (record["status"], record["tier"] in (1, 2, 3)) == ("Draft", True)
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_words_of_the_registry_are_its_own(release):
    parts = release.to_registry()["deployment"]
    said = {key: value for part in ("basic", "dp_variant", "deployment_model", "privacy_loss") for key, value in parts[part].items()}
    assert said.items() >= {"data_product_type": "Synthetic data", "variant_name": "Pure DP", "model_name": "Central"}.items()
    assert said.items() >= {"release_type": "One release", "data_source_type": "Static", "access_type": "Non-interactive"}.items()
    assert (said["privacy_parameters"], said["privacy_unit"]) == ({"epsilon": 0.5}, "row")
    date.fromisoformat(parts["basic"]["publication_date"])


def test_a_record_of_gaussian_noise_states_delta_and_one_of_a_stream_that_data_come_in():
    parts = card(PrivatePCA(1, noise="gaussian", delta=1e-6).fit(X)).to_registry()["deployment"]
    assert (parts["dp_variant"]["variant_name"], parts["privacy_loss"]["privacy_parameters"]["delta"]) == ("Approximate DP", 1e-6)
    assert parts["basic"]["data_product_type"] == "Machine learning model"
    model = card(OnlineSynthesizer(epsilon=0.5).partial_fit(X)).to_registry()["deployment"]["deployment_model"]
    assert (model["data_source_type"], model["release_type"]) == ("Dynamic", "Many releases")


def test_what_the_curator_says_stands_in_the_record(release):
    record = release.to_registry(
        name="Visits", data_curators=["A clinic"], registry_authors=["An officer"], data_product_sector="Healthcare"
    )
    assert (record["url_slug"], record["deployment"]["basic"]["data_curators"]) == ("visits", ["A clinic"])
    assert record["deployment"]["basic"]["intended_use"] == "not covered"
    assert record["deployment"]["administrative"]["registry_authors"] == ["An officer"]
    for known in ({"epsilon": 0.1}, {"name": 3}, {"data_curators": "A clinic"}, {"registry_authors": []}):
        refuses(TypeError, next(iter(known)), release.to_registry, **known)


def test_the_checklist_stands_in_the_notes_and_on_the_page(release):
    assert {check.status for check in release.checklist} == {"covered", "partly", "not covered"}
    assert len({check.topic for check in release.checklist if check.answer}) == len(release.checklist) >= 15
    notes = release.to_registry()["deployment"]["administrative"]["notes"]
    assert all(f"{check.topic}: {check.status}" in notes for check in release.checklist)
    assert all(f">{check.topic}</td>" in release.to_html() for check in release.checklist)


def test_numbers_are_never_rounded_below_what_was_spent():
    from fractions import Fraction

    from internals import round_up

    rng = np.random.default_rng(1)
    for numerator, denominator in rng.integers(1, 10**9, (200, 2)).tolist():
        amount = Fraction(numerator, denominator)
        assert amount <= Fraction(repr(round_up(amount))) <= amount * (1 + Fraction(1, 10**5))
    assert round_up(Fraction(1, 10)) == 0.1
