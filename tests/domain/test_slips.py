"""Slips of the first hour: each is refused in a sentence that says the way out, before anything is spent."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Identifier

VISITS = pd.DataFrame({"patient_id": np.arange(300) % 90, "age": np.linspace(20, 90, 300)})
BOUNDS = {"age": (0, 110)}


@pytest.mark.parametrize(
    ("estimator", "unit", "words"),
    [
        (PrivateMeasureMechanism(bounds=BOUNDS), ["patient_id"], r"give unit='patient_id'\.$"),
        (PrivateMeasureMechanism(bounds={**BOUNDS, "patient_id": (0, 90)}), "patient_id", r"none for a column that fit takes as unit\.$"),
        (PrivateMeasureMechanism(bounds={"age": (110, 0)}), "patient_id", r"got \(110, 0\) for column 'age'; swap them\.$"),
        (LatentFactorSynthesizer({**BOUNDS, "patient_id": (0, 90)}), "patient_id", r"as unit is an Identifier\(\) or left out\.$"),
    ],
)
def test_a_slip_around_the_unit_names_the_way_out(estimator, unit, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(VISITS, unit=unit)
    assert not hasattr(estimator, "accountant_")


def test_an_identifier_in_the_schema_may_be_the_unit():
    model = LatentFactorSynthesizer({**BOUNDS, "patient_id": Identifier()}).fit(VISITS, unit="patient_id")
    assert list(model.sample(2)) == ["age"]


@pytest.mark.parametrize("path", ["synthetic.csv", Path("synthetic.csv")])
def test_a_path_in_place_of_a_number_of_rows_is_pointed_to_out(path):
    model = PrivateMeasureMechanism(bounds=(0, 1)).fit(np.linspace(0, 1, 100)[:, None])
    with pytest.raises(ValueError, match=r"n_samples must be .*; for a file give out='synthetic\.csv'\.$"):
        model.sample(path)
