"""Integers with the default bounds: a word by dtype alone, since cells may not be spoken of."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.exceptions import BoundsWarning

AGES = np.arange(900).reshape(300, 3) % 90
MODELS = [
    PrivateMeasureMechanism(),
    SignedMeasureMechanism(),
    PrivatePCA(),
    LowDimSynthesizer(1),
    OnlineSynthesizer(),
    LatentFactorSynthesizer(),
]


def told(model, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return [str(each.message) for each in caught if each.category is BoundsWarning]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_integers_between_0_and_1_are_warned_of_once_whatever_they_are(model):
    assert told(model, AGES) == told(model, AGES * 0)
    (message,) = told(model, AGES)
    assert message.startswith("X holds integers, of which bounds=(0, 1) leave only 0 and 1; give")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda table: [pd.DataFrame(table)]], ids=["pandas", "polars", "chunks"])
@pytest.mark.parametrize("model", [PrivateMeasureMechanism(), LatentFactorSynthesizer()], ids=lambda model: type(model).__name__)
def test_the_first_column_of_integers_is_named(model, make):
    (message,) = told(model, make({"share": np.linspace(0, 1, 300), "smokes": AGES[:, 0] > 30, "age": AGES[:, 0]}))
    assert message.startswith("Column 'age' holds integers, of which bounds=(0, 1) leave only 0 and 1; give")


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (PrivateMeasureMechanism(), AGES / 90),
        (PrivateMeasureMechanism(), AGES > 30),
        (PrivateMeasureMechanism(bounds=(0, 120)), AGES),
        (PrivateMeasureMechanism(bounds=([0, 0, 0], [1, 1, 1])), AGES),
        (PrivateMeasureMechanism(bounds={"a": (0, 1)}), pd.DataFrame({"a": AGES[:, 0]})),
        (LatentFactorSynthesizer({"a": (0, 99)}), pd.DataFrame({"a": AGES[:, 0]})),
        (PrivateMeasureMechanism(bounds="private"), AGES),
    ],
    ids=["floats", "booleans", "bounds", "each", "by name", "schema", "private"],
)
def test_whoever_said_what_is_in_the_columns_is_not_warned(model, X):
    assert told(model, X) == []
