"""A schema that says whose row each is, and a fit that does not ask: one sentence, by the schema alone."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Identifier, Schema, Unique
from skdpsynth.exceptions import BudgetWarning

COLUMNS = {"patient": Identifier(), "age": (0, 99), "ill": ["no", "yes"]}
RNG = np.random.default_rng(0)
VISITS = pd.DataFrame({"patient": np.arange(200) // 4, "age": RNG.integers(0, 99, 200), "ill": RNG.choice(["no", "yes"], 200)})


def latent(schema, **parameters):
    return LatentFactorSynthesizer(schema, **parameters)


def stream(schema, **parameters):
    return OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema), **parameters)


EACH = pytest.mark.parametrize("make", [latent, stream])


def told(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in caught if issubclass(each.category, BudgetWarning) and "identifier" in str(each.message)]


@EACH
def test_an_identifier_without_a_unit_is_said_once_whatever_the_rows_are(make):
    message = (
        "schema has the identifier 'patient', but fit got no unit, so one row is protected, and not all rows of one 'patient'; give "
        "fit(X, unit='patient'), or, if no two rows have the same, the rule Unique('patient')."
    )
    for table in (VISITS, VISITS.assign(patient=np.arange(200))):
        assert told(lambda table=table: make(COLUMNS).fit(table)) == [message]


@EACH
@pytest.mark.parametrize("unit", ["patient", np.arange(200) // 4], ids=["by name", "labels"])
def test_a_unit_is_silent(make, unit):
    assert told(lambda: make(COLUMNS, max_rows_per_unit=2).fit(VISITS, unit=unit)) == []


def test_the_first_identifier_that_is_no_key_is_named_and_a_schema_without_one_is_silent():
    """A key of one column says that each has one row."""
    rows, unique = VISITS.assign(patient=np.arange(200)), [Unique("patient")]
    assert told(lambda: latent(Schema(COLUMNS, rules=unique)).fit(rows)) == []
    (message,) = told(lambda: latent(Schema({**COLUMNS, "ward": Identifier()}, rules=unique)).fit(rows.assign(ward=1)))
    assert "the identifier 'ward'" in message
    assert told(lambda: latent({"age": (0, 99), "ill": ["no", "yes"]}).fit(VISITS.drop(columns="patient"))) == []
