"""Bounds that nobody knows."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import buy_bounds, noise_threshold, occupied_cells
from laws import clopper_pearson, refuses

from skdpsynth import PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box, UnknownBounds
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, reserve_budget
from skdpsynth.measures import BinaryPartition
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, check_rng, epsilon_of_rho, mechanism, rho_of_epsilon
from skdpsynth.statistics import Magnitudes
from skdpsynth.synthesis import LatentFactorSynthesizer, OnlineSynthesizer

RELATIONS = ["replace_one", "add_or_remove_one"]


def bought(columns, share=0.1, relation="replace_one", known_n=True, least=-math.inf, most=math.inf, whole=False, seed=0):
    n_columns = len(columns)
    loss = share if isinstance(share, PrivacyLoss) else PrivacyLoss(epsilon=share)
    budget = Budget(PrivacyAccountant(float("inf"), 1e-6, neighboring=relation), check_rng(seed))
    unknown = UnknownBounds(tuple(range(n_columns)), np.full(n_columns, least), np.full(n_columns, most), np.full(n_columns, whole))
    found = buy_bounds(lambda rule: rule.of(columns), unknown, loss, budget, len(columns[0]) if known_n else None)
    return found, budget.accountant


RNG = np.random.default_rng(0)
COLUMNS = {
    "uniform": RNG.uniform(0.3, 0.9, 20_000),
    "normal": RNG.normal(0, 1, 20_000),
    "far from 0": RNG.normal(1000, 10, 20_000),
    "negative": -RNG.exponential(0.001, 20_000),
    "years": RNG.integers(1930, 2010, 20_000).astype(float),
    "constant": np.full(20_000, 1013.25),
    "large": RNG.uniform(-1e30, 1e30, 20_000),
    "small": RNG.normal(0, 1e-20, 20_000),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("known_n", [True, False])
@pytest.mark.parametrize("share", [0.1, PrivacyLoss(rho=0.002, gaussian=True)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("name", COLUMNS)
def test_bounds_hold_nearly_all_rows_and_not_much_else(name, share, known_n, relation):
    """Seeded; noise alone widens bounds in one of 100."""
    column = COLUMNS[name]
    found, _ = bought([column], share, relation, known_n)
    low, high = found.low[0], found.high[0]
    assert np.mean((column < low) | (column > high)) < 0.01
    if name != "constant":
        assert high - low < 5 * (column.max() - column.min())
    assert found.is_seen.all()


def test_columns_that_differ_by_a_power_of_two_have_bounds_that_do():
    column = COLUMNS["normal"]
    found, _ = bought([column, column * 2.0**40], PrivacyLoss(epsilon=float("inf")))
    assert found.low[1] / found.low[0] == found.high[1] / found.high[0] == 2.0**40


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("share", [PrivacyLoss(epsilon=0.1), PrivacyLoss(rho=0.002, gaussian=True)])
def test_both_releases_together_cost_the_share(share, relation):
    _, accountant = bought([COLUMNS["normal"]] * 3, share, relation)
    first, second = (entry.loss for entry in accountant.ledger)
    assert (first + second) == share
    assert [entry.name for entry in accountant.ledger] == ["bounds: magnitudes", "bounds: even cells"]
    _, accountant = bought([COLUMNS["normal"][:500]], share, relation)  # few rows buy one count with all of the share
    assert [(entry.name, entry.loss) for entry in accountant.ledger] == [("bounds: magnitudes", share)]


def test_what_is_not_seen_has_bounds_of_its_own():
    found, _ = bought([COLUMNS["large"][:10]])
    assert (found.low[0], found.high[0], found.is_seen[0]) == (-1.0, 1.0, False)
    found, _ = bought([np.zeros(20_000)])
    assert (found.low[0], found.high[0], found.is_seen[0]) == (-1.0, 1.0, True)
    assert bought([np.append(COLUMNS["normal"], np.full(2000, 1e30))])[0].high[0] < 10  # a few very large numbers


@pytest.mark.parametrize(("least", "most"), [(0, 255), (0, 1), (-128, 127), (-(2.0**63), math.nextafter(2.0**63, 0))])
@pytest.mark.parametrize("n_samples", [0, 20, 20_000])
def test_bounds_of_whole_numbers_are_whole_and_within_their_dtype(n_samples, least, most):
    column = np.clip(np.rint(RNG.normal(1, 50, n_samples)), least, most)
    found, _ = bought([column], relation="add_or_remove_one", least=least, most=most, whole=True)
    low, high = found.low[0], found.high[0]
    assert least <= low < high <= most
    assert low.is_integer()
    assert high.is_integer()


@pytest.mark.parametrize("share", [PrivacyLoss(epsilon=0.1), PrivacyLoss(rho=0.002, gaussian=True)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("width", [1, 4, 16])
def test_noise_alone_passes_the_alarm_less_often_than_stated(width, share):
    """500 tables of 64 cells: 1 in 100 may pass; half of the alarm more of them do."""
    noise = mechanism(Magnitudes.sensitivity("replace_one", 1), share)
    most = noise_threshold(noise, width, 64)
    drawn = noise.noise.sample((500, 64 + width - 1), check_rng(None))
    upto = np.concatenate([np.zeros((500, 1)), drawn.cumsum(axis=1)], axis=1)
    largest = (upto[:, width:] - upto[:, :-width]).max(axis=1)
    stated, half = (clopper_pearson(np.sum(largest > level), 500)[0] for level in (most, most / 2))
    assert stated <= 0.01 < half


def test_long_windows_see_what_short_ones_do_not():
    counts = np.array([0, 0, 6, 6, 6, 6, 0, 0, 50, 0])
    assert occupied_cells(counts, [(1, 10)]).tolist() == [8]
    assert occupied_cells(counts, [(1, 10), (4, 20)]).tolist() == [2, 3, 4, 5, 8]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 1000), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 100)])
@pytest.mark.parametrize("kind", ["gaussian", "zcdp"])
def test_what_is_set_aside_in_rho_and_the_rest_fit_the_budget(kind, epsilon, delta):
    facts = Facts(epsilon, delta, "replace_one", 100, 3)
    share, rest = reserve_budget(facts, Fraction(1, 10), None)  # a part of epsilon
    assert (share, rest.epsilon, rest.rho) == (PrivacyLoss(epsilon=epsilon / 10), epsilon * Fraction(9, 10), None)
    share, rest = reserve_budget(facts, Fraction(1, 10), kind)
    if share.rho is None:  # a large delta beside a small epsilon
        assert epsilon < 10 * delta
        assert share.epsilon + rest.epsilon == epsilon
        assert rest.rho is None
        return
    is_gaussian = kind == "gaussian"
    rho = share.rho + rho_of_epsilon(rest.epsilon, delta, gaussian=is_gaussian)
    spent = epsilon_of_rho(rho, delta, gaussian=is_gaussian)
    assert epsilon * (1 - Fraction(1, 10**12)) <= spent <= epsilon  # as near as the conversion of the whole
    assert share.rho == pytest.approx(rho_of_epsilon(epsilon, delta, gaussian=is_gaussian) / 10)
    assert rest.rho == kind


@pytest.mark.parametrize("width", [1, 30, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1])
@pytest.mark.parametrize("delta", [1e-9, 1e-6])
def test_bounds_that_were_bought_do_not_decide_the_kind_of_the_noise_that_follows(width, epsilon, delta):
    """Whoever chose by the noise of the bounds between two kinds would lose more than each of them costs."""
    low = -np.array([width, 4, 2, 1, 1.0])
    facts = Facts(Fraction(str(epsilon)), Fraction(str(delta)), "replace_one", 2000, 5, box=Box(low, -low))
    for model, kind in ((PrivatePCA(), "gaussian"), (LatentFactorSynthesizer(), "gaussian"), (LatentFactorSynthesizer(), "zcdp")):
        _, left = reserve_budget(facts, Fraction(1, 10), kind)
        assert model.set_params(bounds="private", epsilon=epsilon, delta=delta)._plan(left).rho == kind


def test_some_columns_may_be_private_and_others_public_and_one_in_which_nothing_is_seen_is_named():
    frame = pd.DataFrame({"a": COLUMNS["far from 0"], "b": COLUMNS["uniform"]})
    model = PrivateMeasureMechanism(bounds={"a": "private", "b": (0, 1)}, random_state=0).fit(frame)
    assert (model.bounds_[0][1], model.bounds_[1][1]) == (0.0, 1.0)
    assert 500 < model.bounds_[0][0] < 1000 < model.bounds_[1][0] < 2100
    assert model.accountant_.ledger[0].sensitivity.l1 == 2
    with pytest.warns(SmallSampleWarning, match="show no rows of 'a'"):
        PrivateMeasureMechanism(bounds="private").fit(pd.DataFrame({"a": COLUMNS["large"][:30]}))


REFUSED = [
    *((OnlineSynthesizer(strategy, bounds="private"), "bounds must be public for OnlineSynthesizer") for strategy in ("blocks", "paper")),
    *((PrivatePCA(1, bounds="private", **given), "max_norm and a point as center") for given in ({"max_norm": 1}, {"center": [0.0, 0.0]})),
    (PrivateMeasureMechanism(bounds="private", partition=BinaryPartition(Box([0, 0], [1, 1]), 3)), "partition must be None"),
    (SignedMeasureMechanism(bounds="private", cells=[[0.0, 0.0], [1.0, 1.0]]), "cells must be None"),
    (PrivateMeasureMechanism(bounds="privat"), "bounds must be a pair"),
    (PrivateMeasureMechanism(bounds="private", depth=0), "depth must be"),
]


@pytest.mark.parametrize(("estimator", "match"), REFUSED)
def test_what_cannot_be_bought_is_refused_before_any_charge(estimator, match):
    accountant = PrivacyAccountant(1)
    refuses(ValueError, match, estimator.set_params(accountant=accountant).fit, np.zeros((50, 2)))
    assert not accountant.ledger
