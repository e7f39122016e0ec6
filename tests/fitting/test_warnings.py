"""Warnings of a fit, by public numbers alone: budgets that promise little, bounds that nobody gave, and units that nobody named."""

import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from parts import told
from sklearn.base import clone

from skdpsynth import PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box, Identifier, MixedTypeEncoder, Schema, Unique
from skdpsynth.exceptions import BoundsWarning, BudgetWarning, SmallSampleWarning
from skdpsynth.fitting import Facts
from skdpsynth.measures import BinaryPartition
from skdpsynth.model_selection import PrivateSearchCV, plan
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer


def rows(n, d, seed=0):
    return np.random.default_rng(seed).beta(0.9, 9.1, size=(n, d))  # means of .09


def told_by(estimator, X, category):
    return told(lambda: estimator.fit(X), category)


@pytest.mark.parametrize(
    "estimator", [PrivateMeasureMechanism(), PrivatePCA(1), SignedMeasureMechanism(), LowDimSynthesizer(1), LatentFactorSynthesizer()]
)
def test_epsilon_above_20_and_delta_above_one_over_the_number_of_rows_are_warned_of_once(estimator):
    X, large, many = rows(500, 3), "is above 20", "above 1 / n_samples"
    for given, words in (
        *(({"epsilon": epsilon}, []) for epsilon in (20, math.inf)),
        *(({"epsilon": epsilon}, [large]) for epsilon in (20.5, 10**6)),
        *(({"delta": delta}, []) for delta in (0.0, 1e-6, 1 / 500)),
        *(({"delta": delta}, [many]) for delta in (0.0021, 0.5)),
    ):
        messages = told_by(clone(estimator).set_params(**given), X, BudgetWarning)
        assert [word for message in messages for word in (large, many) if word in message] == words
    if isinstance(estimator, PrivateMeasureMechanism):  # the noisy number, where that is private
        model = clone(estimator).set_params(delta=0.01, neighboring="add_or_remove_one")
        (message,) = told_by(model, rows(1000, 2), BudgetWarning)
        told = int(re.search(r"n_samples=(\d+):", message)[1])  # as it was bought, before it is joined with the counts
        assert abs(told - model.n_samples_) < 450


@pytest.mark.parametrize(("estimator", "d"), [(PrivatePCA(), 60), (LowDimSynthesizer(2), 60)], ids=["PCA", "LowDim"])
def test_delta_0_is_warned_of_from_where_gaussian_noise_is_three_times_smaller(estimator, d):
    """60 features at epsilon 1: 3.4 times; 40 features: 2.8 times. LowDimSynthesizer: with a part of the budget, and no mean."""
    assert told_by(clone(estimator), rows(20_000, 40), BudgetWarning) == []
    (message,) = told_by(clone(estimator), rows(20_000, d), BudgetWarning)
    assert "delta=1e-06" in message
    assert told_by(clone(estimator).set_params(delta=1e-6), rows(20_000, d), BudgetWarning) == []


@pytest.mark.parametrize("center", ["private", "public", np.full(80, 0.1)], ids=["private", "public", "point"])
@pytest.mark.parametrize("n", [300, 5000])
def test_what_is_said_of_delta_is_the_ratio_of_what_noise_shows(center, n):
    """Spectral norms: 1.6651 m scales of matrix Laplace noise on m rows, sqrt(2 m) of Gaussian noise that is averaged with its mirror, up
    to 5 % for the fluctuations of both. With few rows a radius would take a fifth of the budget, were it not public."""
    pca = PrivatePCA(max_norm=0.1, center=center)
    (message,) = told_by(pca, X := rows(n, 80), BudgetWarning)
    m = 81 if isinstance(center, str) and center == "private" else 80
    pure, gaussian = (
        float(pca.set_params(delta=delta).fit(X).accountant_.ledger[-1].scale[0]) * factor
        for delta, factor in ((0, 1.6651 * m), (1e-6, math.sqrt(2 * m)))
    )
    assert float(message.split("would be ")[1].split(" times")[0]) == pytest.approx(pure / gaussian, rel=0.06)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("estimator", [PrivateMeasureMechanism(), SignedMeasureMechanism()], ids=["PMM", "PSMM"])
def test_more_features_than_halvings_are_warned_of_and_other_estimators_named(estimator, neighboring):
    # Seeded: a private number of rows may come out so small that another message takes the place of this one.
    few = clone(estimator).set_params(neighboring=neighboring, epsilon=0.1, random_state=0)
    (message,) = told_by(few, rows(2000, 30), SmallSampleWarning)
    assert "of 30 features: the others will be uniform" in message
    assert "LowDimSynthesizer" in message
    assert "LatentFactorSynthesizer" in message


@pytest.mark.parametrize("strategy", ["auto", "optimal", "paper", "adaptive"])
@pytest.mark.parametrize(("n", "d"), [(1000, 10), (1000, 12), (1000, 13), (1000, 40), (20_000, 18), (20_000, 22)])
def test_what_is_warned_of_does_come_out_uniform_and_the_rest_does_not(strategy, n, d):
    """Rows of mean .09: uniform columns of a sample have the mean .5 (deviation .005 with 4000 rows)."""
    model = PrivateMeasureMechanism(strategy)
    messages = told_by(model, rows(n, d), SmallSampleWarning)
    means = model.sample(4000, random_state=0).mean(axis=0)
    n_cut = int(messages[0].split("along ")[1].split(" of")[0]) if messages else d
    assert np.abs(means[n_cut:] - 0.5).max(initial=0) < 0.03
    # The last feature that is cut at all is cut in few cells, and only where these hold many rows.
    assert (means[: n_cut - 3] < 0.47).all()


def test_what_is_usual_or_was_chosen_by_the_caller_is_not_commented_on():
    many, few = rows(20_000, 13), rows(5000, 6)  # 78 pairs: one row moves each of their tables
    own = PrivateMeasureMechanism("optimal", depth=3), SignedMeasureMechanism(4), SignedMeasureMechanism(cells=np.eye(6))
    for estimator, X, category, expected in (
        *((PrivatePCA(**given), rows(5000, 80), BudgetWarning, 0) for given in ({"noise": "matrix_laplace"}, {"epsilon": math.inf})),
        (LatentFactorSynthesizer(), many[:, :4], BudgetWarning, 0),
        (LatentFactorSynthesizer(), many, BudgetWarning, 1),
        (LatentFactorSynthesizer(delta=1e-6), many, BudgetWarning, 0),
        *((PrivateMeasureMechanism(), rows(n, 2), SmallSampleWarning, is_few) for n, is_few in ((100, 1), (101, 0))),
        *((PrivateMeasureMechanism(), rows(n, d), SmallSampleWarning, 0) for n, d in ((100, 1), (101, 3))),
        *((model, few, SmallSampleWarning, 0) for model in own),
    ):
        assert len(told_by(estimator, X, category)) == expected
    for n in (10, 10**5, 10**7, 10**12):  # the delta that a message names is not warned of in turn
        delta = Facts(Fraction(1), Fraction(1, 2), "replace_one", n, 2).usual_delta
        assert delta * n <= Fraction(1, 10)
        assert delta <= Fraction(1, 10**6)


@pytest.mark.parametrize(("n", "d"), [(300, 2), (1000, 3), (1000, 8), (5000, 5), (20_000, 10), (200_000, 15)])
def test_usual_tables_fit_without_a_word(n, d):
    for estimator in (PrivateMeasureMechanism(bounds=(0, 1)), LowDimSynthesizer(2, bounds=(0, 1))):
        assert told_by(estimator, rows(n, d), Warning) == []


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


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_bounds_that_nobody_gave_are_said_once_whatever_the_rows_are_and_others_never(model):
    for X in (AGES, AGES / 90.0):
        (message,) = told(lambda X=X: model.fit(X), BoundsWarning)
        assert message.startswith("bounds are not given, so values are clipped to (0, 1); give bounds in the units of your columns")
        assert "bounds=(0, 1) if these" in message
    name = "estimator__bounds" if isinstance(model, PrivateSearchCV) else "bounds"
    assert told(lambda: clone(model).set_params(**{name: ([0, 0, 0], [1, 1, 1])}).fit(AGES), BoundsWarning) == []


def test_every_kind_of_table_is_told_a_stream_by_its_first_rows_alone_and_a_plan_not():
    for make in (pd.DataFrame, pl.DataFrame, lambda table: [pd.DataFrame(table)]):
        table = make({"share": np.linspace(0, 1, 300), "smokes": AGES[:, 0] > 30})
        assert len(told(lambda table=table: PrivateMeasureMechanism().fit(table), BoundsWarning)) == 1
    stream = OnlineSynthesizer()
    assert len(told(lambda: [stream.partial_fit(AGES[start : start + 100]) for start in (0, 100, 200)], BoundsWarning)) == 1
    assert told(lambda: plan(PrivateMeasureMechanism(), 200, n_features=2, epsilons=[1], n_repeats=2), BoundsWarning) == []


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
    assert told(lambda: model.fit(X), BoundsWarning) == []


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(("n_rows", "warns"), [(300, True), (20_000, False)])
def test_bounds_within_which_noise_hides_where_numbers_end_are_told_of_by_the_number_of_rows_alone(n_rows, warns, neighboring):
    for rows in (np.zeros(n_rows), np.arange(n_rows) % 99.0):
        model = LatentFactorSynthesizer({0: (0.0, 99.0), 1: [0, 1]}, delta=1e-6, n_factors=2, neighboring=neighboring)
        table = np.column_stack([rows, np.zeros(n_rows)])
        assert len(told(lambda: model.fit(table), BoundsWarning, "Noise hides")) == warns  # noqa: B023


@pytest.mark.parametrize("model", [PrivateMeasureMechanism("optimal"), PrivatePCA(), LatentFactorSynthesizer()])
def test_no_bounds_are_the_bounds_0_and_1(model):
    fits = [clone(model).set_params(bounds=bounds, random_state=0).fit(AGES / 90) for bounds in (None, (0, 1))]
    shown = [each.sample(20, random_state=0) if hasattr(each, "sample") else each.components_ for each in fits]
    np.testing.assert_array_equal(*shown)


COLUMNS = {"patient": Identifier(), "age": (0, 99), "ill": ["no", "yes"]}
RNG = np.random.default_rng(0)
VISITS = pd.DataFrame({"patient": np.arange(200) // 4, "age": RNG.integers(0, 99, 200), "ill": RNG.choice(["no", "yes"], 200)})


def latent(schema, **parameters):
    return LatentFactorSynthesizer(schema, **parameters)


def stream(schema, **parameters):
    return OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(schema), **parameters)


def said(run):
    return told(run, BudgetWarning, "identifier")


@pytest.mark.parametrize("make", [latent, stream])
def test_an_identifier_without_a_unit_is_said_once_whatever_the_rows_are_and_a_unit_is_silent(make):
    message = (
        "schema has the identifier 'patient', but fit got no unit, so one row is protected, and not all rows of one 'patient'; give "
        "fit(X, unit='patient'), or, if no two rows have the same, the rule Unique('patient')."
    )
    for table in (VISITS, VISITS.assign(patient=np.arange(200))):
        assert said(lambda table=table: make(COLUMNS).fit(table)) == [message]
    for unit in ("patient", np.arange(200) // 4):
        assert said(lambda unit=unit: make(COLUMNS, max_rows_per_unit=2).fit(VISITS, unit=unit)) == []


def test_the_first_identifier_that_is_no_key_is_named_and_a_schema_without_one_is_silent():
    """A key of one column says that each has one row."""
    rows, unique = VISITS.assign(patient=np.arange(200)), [Unique("patient")]
    assert said(lambda: latent(Schema(COLUMNS, rules=unique)).fit(rows)) == []
    (message,) = said(lambda: latent(Schema({**COLUMNS, "ward": Identifier()}, rules=unique)).fit(rows.assign(ward=1)))
    assert "the identifier 'ward'" in message
    assert said(lambda: latent({"age": (0, 99), "ill": ["no", "yes"]}).fit(VISITS.drop(columns="patient"))) == []
