"""Bounds that nobody gave are (0, 1), and a fit says so, whatever the rows are; bounds that somebody gave are silent."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Box, MixedTypeEncoder
from skdpsynth.exceptions import BoundsWarning
from skdpsynth.measures import BinaryPartition
from skdpsynth.model_selection import PrivateSearchCV, plan

AGES = np.arange(900).reshape(300, 3) % 90
MODELS = {
    "pmm": PrivateMeasureMechanism(),
    "psmm": SignedMeasureMechanism(),
    "pca": PrivatePCA(),
    "low dim": LowDimSynthesizer(1),
    "low dim of psmm": LowDimSynthesizer(2, synthesizer=SignedMeasureMechanism()),
    "stream": OnlineSynthesizer(),
    "stream of low dim": OnlineSynthesizer(synthesizer=LowDimSynthesizer(1)),
    "paper stream": OnlineSynthesizer("paper"),
    "latent": LatentFactorSynthesizer(),
    "scores": LatentFactorSynthesizer(strategy="scores"),
    "search": PrivateSearchCV(LowDimSynthesizer(), {"n_components": [1, 2]}),
    "encoder": MixedTypeEncoder(),
}
EACH = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def told(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in caught if each.category is BoundsWarning]


@EACH
def test_bounds_that_nobody_gave_are_said_once_whatever_the_rows_are_and_others_never(model):
    for X in (AGES, AGES / 90.0):
        (message,) = told(lambda X=X: model.fit(X))
        assert message.startswith("bounds are not given, so values are clipped to (0, 1); give bounds in the units of your columns")
        assert "bounds=(0, 1) if these" in message
    name = "estimator__bounds" if isinstance(model, PrivateSearchCV) else "bounds"
    assert told(lambda: clone(model).set_params(**{name: ([0, 0, 0], [1, 1, 1])}).fit(AGES)) == []


def test_every_kind_of_table_is_told_a_stream_by_its_first_rows_alone_and_a_plan_not():
    for make in (pd.DataFrame, pl.DataFrame, lambda table: [pd.DataFrame(table)]):
        table = make({"share": np.linspace(0, 1, 300), "smokes": AGES[:, 0] > 30})
        assert len(told(lambda table=table: PrivateMeasureMechanism().fit(table))) == 1
    stream = OnlineSynthesizer()
    assert len(told(lambda: [stream.partial_fit(AGES[start : start + 100]) for start in (0, 100, 200)])) == 1
    assert told(lambda: plan(PrivateMeasureMechanism(), 200, n_features=2, epsilons=[1], n_repeats=2)) == []


SILENT = {
    "schema": (LatentFactorSynthesizer({"a": (0, 99)}), pd.DataFrame({"a": np.tile(AGES[:, 0], 200)})),
    "stream of a schema": (OnlineSynthesizer(synthesizer=LatentFactorSynthesizer({"a": (0, 99)})), pd.DataFrame({"a": AGES[:, 0]})),
    "encoder of a schema": (MixedTypeEncoder({"a": (0, 99)}), pd.DataFrame({"a": AGES[:, 0]})),
    "partition": (PrivateMeasureMechanism(partition=BinaryPartition(Box([0] * 3, [99] * 3), 4)), AGES),
    "cells": (SignedMeasureMechanism(cells=np.eye(3) / 2), AGES),
    "private": (PrivateMeasureMechanism(bounds="private"), AGES),
    "by name": (PrivateMeasureMechanism(bounds={"a": (0, 1)}), pd.DataFrame({"a": AGES[:, 0]})),
}


@pytest.mark.parametrize(("model", "X"), SILENT.values(), ids=SILENT)
def test_what_takes_the_place_of_bounds_is_silent(model, X):
    assert told(lambda: model.fit(X)) == []


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(("n_rows", "warns"), [(300, True), (20_000, False)])
def test_bounds_within_which_noise_hides_where_numbers_end_are_told_of_by_the_number_of_rows_alone(n_rows, warns, neighboring):
    for rows in (np.zeros(n_rows), np.arange(n_rows) % 99.0):
        model = LatentFactorSynthesizer({0: (0.0, 99.0), 1: [0, 1]}, delta=1e-6, n_factors=2, neighboring=neighboring)
        words = [each for each in told(lambda: model.fit(np.column_stack([rows, np.zeros(n_rows)]))) if "Noise hides" in each]  # noqa: B023
        assert len(words) == warns


@pytest.mark.parametrize("model", [PrivateMeasureMechanism("optimal"), PrivatePCA(), LatentFactorSynthesizer()])
def test_no_bounds_are_the_bounds_0_and_1(model):
    fits = []
    for bounds in (None, (0, 1)):
        given = type(model)(**{**model.get_params(), "bounds": bounds, "random_state": 0})
        fits.append(given.fit(AGES / 90))
    if hasattr(model, "sample"):
        np.testing.assert_array_equal(*(each.sample(20, random_state=0) for each in fits))
    else:
        np.testing.assert_array_equal(*(each.components_ for each in fits))
