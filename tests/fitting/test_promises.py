"""Warnings about a budget that promises little, or buys more noise than it need; and about features that are never cut."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.fitting import Facts

RELATIONS = ("replace_one", "add_or_remove_one")


def rows(n, d, seed=0):
    return np.random.default_rng(seed).beta(0.9, 9.1, size=(n, d))  # means of .09


def told(estimator, X, category):
    """Messages of one category that a fit gives, but that it is one of a clone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, category)]
    return [message for message in messages if not message.startswith("A clone is fitted")]


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
        messages = told(clone(estimator).set_params(**given), X, BudgetWarning)
        assert [word for message in messages for word in (large, many) if word in message] == words
    if isinstance(estimator, PrivateMeasureMechanism):  # the noisy number, where that is private
        model = clone(estimator).set_params(delta=0.01, neighboring="add_or_remove_one")
        (message,) = told(model, rows(1000, 2), BudgetWarning)
        assert f"n_samples={model.n_samples_}:" in message


def test_the_delta_that_a_message_names_is_not_warned_of_in_turn():
    for n in (10, 10**5, 10**7, 10**12):
        facts = Facts(Fraction(1), Fraction(1, 2), "replace_one", n, 2)
        assert facts.usual_delta * n <= Fraction(1, 10)
        assert facts.usual_delta <= Fraction(1, 10**6)


@pytest.mark.parametrize(("estimator", "d"), [(PrivatePCA(), 60), (LowDimSynthesizer(2), 60)], ids=["PCA", "LowDim"])
def test_delta_0_is_warned_of_from_where_gaussian_noise_is_three_times_smaller(estimator, d):
    """60 features at epsilon 1: 3.4 times; 40 features: 2.8 times. LowDimSynthesizer: with a part of the budget, and no mean."""
    assert told(clone(estimator), rows(20_000, 40), BudgetWarning) == []
    (message,) = told(clone(estimator), rows(20_000, d), BudgetWarning)
    assert "delta=1e-06" in message
    assert told(clone(estimator).set_params(delta=1e-6), rows(20_000, d), BudgetWarning) == []


@pytest.mark.parametrize("center", ["private", "public", np.full(80, 0.1)], ids=["private", "public", "point"])
@pytest.mark.parametrize("n", [300, 5000])
def test_what_is_said_of_delta_is_the_ratio_of_what_noise_shows(center, n):
    """Spectral norms: 1.6651 m scales of matrix Laplace noise on m rows, sqrt(2 m) of Gaussian noise that is averaged with its mirror, up
    to 5 % for the fluctuations of both. With few rows a radius would take a fifth of the budget, were it not public."""
    pca = PrivatePCA(max_norm=0.1, center=center)
    (message,) = told(pca, X := rows(n, 80), BudgetWarning)
    m = 81 if isinstance(center, str) and center == "private" else 80
    pure, gaussian = (
        float(pca.set_params(delta=delta).fit(X).accountant_.ledger[-1].scale[0]) * factor
        for delta, factor in ((0, 1.6651 * m), (1e-6, math.sqrt(2 * m)))
    )
    assert float(message.split("would be ")[1].split(" times")[0]) == pytest.approx(pure / gaussian, rel=0.06)


# ---- features that are never cut


@pytest.mark.parametrize("neighboring", RELATIONS)
@pytest.mark.parametrize("estimator", [PrivateMeasureMechanism(), SignedMeasureMechanism()], ids=["PMM", "PSMM"])
def test_more_features_than_halvings_are_warned_of_and_other_estimators_named(estimator, neighboring):
    # Seeded: a private number of rows may come out so small that another message takes the place of this one.
    few = clone(estimator).set_params(neighboring=neighboring, epsilon=0.1, random_state=0)
    (message,) = told(few, rows(2000, 30), SmallSampleWarning)
    assert "of 30 features: the others will be uniform" in message
    assert "LowDimSynthesizer" in message
    assert "LatentFactorSynthesizer" in message


@pytest.mark.parametrize("strategy", ["auto", "optimal", "paper", "adaptive"])
@pytest.mark.parametrize(("n", "d"), [(1000, 10), (1000, 12), (1000, 13), (1000, 40), (20_000, 18), (20_000, 22)])
def test_what_is_warned_of_does_come_out_uniform_and_the_rest_does_not(strategy, n, d):
    """Rows of mean .09: uniform columns of a sample have the mean .5 (deviation .005 with 4000 rows)."""
    model = PrivateMeasureMechanism(strategy)
    messages = told(model, rows(n, d), SmallSampleWarning)
    means = model.sample(4000, random_state=0).mean(axis=0)
    n_cut = int(messages[0].split("along ")[1].split(" of")[0]) if messages else d
    assert np.abs(means[n_cut:] - 0.5).max(initial=0) < 0.03
    # The last feature that is cut at all is cut in few cells, and only where these hold many rows.
    assert (means[: n_cut - 3] < 0.47).all()


def test_what_is_usual_or_was_chosen_by_the_caller_is_not_commented_on():
    many = rows(20_000, 13)  # 78 pairs: one row moves each of their tables
    for estimator, X, category, expected in (
        (PrivatePCA(noise="matrix_laplace"), rows(5000, 80), BudgetWarning, 0),
        *(
            (model, X, BudgetWarning, n)
            for model, X, n in ((LatentFactorSynthesizer(), many[:, :4], 0), (LatentFactorSynthesizer(), many, 1))
        ),
        (LatentFactorSynthesizer(delta=1e-6), many, BudgetWarning, 0),
        *(
            (PrivateMeasureMechanism(), rows(n, d), SmallSampleWarning, few)
            for n, d, few in ((100, 2, 1), (101, 2, 0), (100, 1, 0), (101, 3, 0))
        ),
        *(
            (model, rows(5000, 6), SmallSampleWarning, 0)
            for model in (PrivateMeasureMechanism("optimal", depth=3), SignedMeasureMechanism(4), SignedMeasureMechanism(cells=np.eye(6)))
        ),
    ):
        assert len(told(estimator, X, category)) == expected


@pytest.mark.parametrize(("n", "d"), [(300, 2), (1000, 3), (1000, 8), (5000, 5), (20_000, 10), (200_000, 15)])
def test_usual_tables_fit_without_a_word(n, d):
    for estimator in (PrivateMeasureMechanism(bounds=(0, 1)), LowDimSynthesizer(2, bounds=(0, 1))):
        assert told(estimator, rows(n, d), Warning) == []
