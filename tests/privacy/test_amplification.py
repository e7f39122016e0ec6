"""A secret sample: what its releases cost the population it was drawn from."""

import json
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from laws import refuses
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant, PrivateMeasureMechanism
from skdpsynth.model_selection import fit_to_error
from skdpsynth.privacy import SecretSample
from skdpsynth.report import card
from skdpsynth_evidence import check_evidence

DESIGNS = {"poisson": "add_or_remove_one", "simple_random": "replace_one"}
each_design = pytest.mark.parametrize("design", DESIGNS)


def account(design, epsilon=1.0, delta=0.0):
    accountant = PrivacyAccountant(epsilon, delta, neighboring=DESIGNS[design])
    for name, part in zip("ab", accountant.split([1, 2]), strict=True):
        accountant.spend(part, name=name)
    return accountant


@each_design
def test_the_figure_follows_from_the_sum_of_all_charges_and_is_rounded_up(design):
    for rate, epsilon in product([Fraction(1, 100), Fraction(1, 10), Fraction(9, 10)], [0.1, 1.0, 8.0]):
        loss = SecretSample(design, rate).population_loss(account(design, epsilon))
        exact = math.log1p(float(rate) * math.expm1(epsilon))
        assert exact - 1e-14 <= float(loss.epsilon) <= exact + 1e-13
    assert SecretSample(design, 1).population_loss(account(design, 0.3)).epsilon == Fraction(3, 10)
    assert SecretSample(design, 0.5).population_loss(account(design, math.inf)).epsilon == math.inf


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 2)])
def test_no_event_of_a_poisson_sample_tells_more_and_one_tells_as_much(rate):
    """Brute force: randomized response of epsilon 1 on whether a person is in; a count of two answers, all samples of three people."""
    stay = math.e / (1 + math.e)
    with_one = float(rate) * np.array([stay, 1 - stay]) + (1 - float(rate)) * np.array([1 - stay, stay])
    without = np.array([1 - stay, stay])
    found = np.abs(np.log(with_one / without)).max()
    promised = float(SecretSample("poisson", rate).population_loss(account("poisson")).epsilon)
    assert found <= promised + 1e-12
    assert found == pytest.approx(promised)


def test_no_event_of_a_simple_random_sample_tells_more_and_one_tells_as_much():
    """Two of four people, whose sum is told by randomized response on "more than 0": all samples, populations that differ in one."""

    def law(people):
        chances = [math.e / (1 + math.e) if max(people[i] for i in chosen) else 1 / (1 + math.e) for chosen in combinations(range(4), 2)]
        return np.array([np.mean(chances), 1 - np.mean(chances)])

    found = max(np.abs(np.log(law(people) / law((other, *people[1:])))).max() for people in product([0, 1], repeat=4) for other in (0, 1))
    promised = float(SecretSample("simple_random", Fraction(1, 2)).population_loss(account("simple_random")).epsilon)
    assert found == pytest.approx(promised)


@each_design
def test_a_card_and_evidence_show_one_figure_beside_that_of_rows(design):
    model = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1), neighboring=DESIGNS[design]).fit(np.random.default_rng(0).random((500, 1)))
    sample = SecretSample(design, Fraction(1, 50))
    assert "epsilon = 0.0337" in card(model, sample=sample).html
    assert "epsilon = 0.0337" not in card(model).html
    evidence = json.loads(json.dumps(model.accountant_.evidence(sample)))
    assert check_evidence(evidence).ok
    assert evidence["spent"]["epsilon"] == "1"
    for change in ({"epsilon": "1/50"}, {"rate": "1/20"}, {"rate": "2"}, {"design": "stratified"}):
        assert not check_evidence({**evidence, "population": {**evidence["population"], **change}}).ok


def test_a_part_of_an_account_has_no_figure():
    """Neither a fit beside another, nor a clone, which does not know of other fits."""
    X, sample = np.random.default_rng(0).random((500, 1)), SecretSample("simple_random", Fraction(1, 50))
    shared = PrivacyAccountant(5)
    model = PrivateMeasureMechanism(epsilon=0.5, bounds=(0, 1), accountant=shared).fit(X)
    shared.spend(4, name="another release")
    copied = clone(PrivateMeasureMechanism(epsilon=0.5, bounds=(0, 1)).fit(X)).fit(X)
    for part in (model, copied):
        for call in (sample.population_loss, lambda account: account.evidence(sample)):
            refuses(ValueError, "accountant must be that of everything", call, part.accountant_)
        refuses(ValueError, "accountant must be that of everything", card, part, sample=sample)
    assert "epsilon = 1.02258" in card(model, accountant=shared, sample=sample).html
    whole, part = shared.evidence(sample), model.accountant_.evidence()
    assert check_evidence(whole).ok
    assert any("a part of an account" in line for line in check_evidence({**part, "population": whole["population"]}).wrong)


def test_a_search_for_an_epsilon_has_the_figure_of_its_cap():
    """Its own account holds all rounds and the rest; beside other releases it is a part."""
    X, sample = np.random.default_rng(0).random((2000, 1)), SecretSample("simple_random", Fraction(1, 50))
    shared, settings = PrivacyAccountant(5), {"target": 0.05, "max_epsilon": 4, "error": "bound"}
    alone = fit_to_error(PrivateMeasureMechanism(bounds=(0, 1)), X, **settings).model
    beside = fit_to_error(PrivateMeasureMechanism(bounds=(0, 1), accountant=shared), X, **settings).model
    once = PrivacyAccountant(4)
    once.spend(4, name="a table")
    assert sample.population_loss(alone.accountant_) == sample.population_loss(once)
    assert check_evidence(alone.accountant_.evidence(sample)).ok
    assert "epsilon = 0.728497" in card(alone, sample=sample).html
    refuses(ValueError, "accountant must be that of everything", sample.population_loss, beside.accountant_)


@pytest.mark.parametrize("is_public", [False, True])
def test_searches_of_clones_have_no_figure_as_fits_of_clones_have_none(is_public):
    estimator, sample = PrivateMeasureMechanism("optimal", bounds=(0, 1)), SecretSample("simple_random", Fraction(1, 50))
    X, settings = np.random.default_rng(0).random((2000, 1 + is_public)), {"target": 0.4, "max_epsilon": 4, "error": "bound"}
    if not is_public:
        settings["error"] = lambda model: float(model.sample(9, random_state=0).mean() / model.epsilon / 5)
    found = fit_to_error(estimator, X, **settings)
    assert found.is_public == is_public
    assert sample.population_loss(found.model.accountant_).epsilon < found.epsilon
    of_clone = fit_to_error(clone(estimator), X, **settings).model.accountant_
    assert of_clone.spent == found.model.accountant_.spent
    refuses(ValueError, "accountant must be that of everything", sample.population_loss, of_clone)


def test_rows_with_survey_weights_have_no_figure():
    """Weights that differ show that chances did, so the rate of all would promise too much to those asked more often."""
    rng, sample = np.random.default_rng(0), SecretSample("simple_random", Fraction(1, 50))
    X, shared = pd.DataFrame({"a": rng.integers(0, 2, 500), "w": rng.integers(1, 5, 500)}), PrivacyAccountant(2, 1e-6)
    model = LatentFactorSynthesizer({"a": [0, 1], "w": (1, 4)}, weights="w", delta=1e-6, accountant=shared).fit(X)
    for call in (sample.population_loss, lambda account: account.evidence(sample)):
        refuses(ValueError, "survey weights", call, shared)
    refuses(ValueError, "survey weights", card, model, accountant=shared, sample=sample)
    population = {"design": "simple_random", "rate": "1/50", "epsilon": "2", "delta": "1"}
    assert any("chances were not alike" in line for line in check_evidence({**shared.evidence(), "population": population}).wrong)


def test_an_account_that_protects_nobody_has_its_own_figure():
    whole = PrivacyAccountant(10**7)
    whole.spend(10**7, name="a table")
    sample = SecretSample("simple_random", Fraction(1, 50))
    assert sample.population_loss(whole).epsilon == 10**7
    assert check_evidence(whole.evidence(sample)).ok
    refuses(TypeError, "accountant must be a PrivacyAccountant", sample.population_loss, "b.db")


def test_other_designs_relations_and_units_are_refused_with_the_reason():
    for design in ("stratified", "cluster", "pps", None):
        refuses(ValueError, "strata and clusters that depend on data", SecretSample, design, 0.1)
    for rate in (0, -1, 1.5, math.nan, "1/2"):
        refuses(ValueError, "rate must be a number from 1e-15 to 1", SecretSample, "poisson", rate)
    refuses(ValueError, "needs an account under", SecretSample("poisson", 0.1).population_loss, account("simple_random"))
    labels = np.arange(40) // 2
    model = PrivateMeasureMechanism(max_rows_per_unit=2, bounds=(0, 1)).fit(np.linspace(0, 1, 40)[:, None], unit=labels)
    refuses(ValueError, "must be one of rows", SecretSample("simple_random", 0.1).population_loss, model.accountant_)
    refuses(TypeError, "sample must be None or a SecretSample", model.accountant_.evidence, 0.1)
