"""One fit's hand on the door: every answer is charged, and covered by noise that was made for its query."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from internals import NumberOfRows

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.fitting import Budget, Facts
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, SeededBits, mechanism, rho_of_epsilon
from skdpsynth.statistics import Histogram, Query, Sensitivity


def budget_of(epsilon, neighboring="replace_one", seed=0):
    return Budget(PrivacyAccountant(epsilon, neighboring=neighboring), SeededBits(seed))


def histogram(neighboring="replace_one"):
    return Histogram(np.array([5, 0, 7])).query(neighboring)


def test_an_answer_is_charged_with_its_change_and_noise():
    budget, query, loss = budget_of(1), histogram(), PrivacyLoss(0.25)
    chosen = mechanism(query.sensitivity, loss)
    noisy = budget.answer(query, chosen, "counts")
    (entry,) = budget.accountant.ledger
    assert (entry.name, entry.loss, entry.sensitivity, entry.scale, entry.n_values) == ("counts", loss, query.sensitivity, (8,), 3)
    np.testing.assert_array_equal(noisy - query.values, chosen.noise.sample(3, SeededBits(0).child("counts")))


OTHER_CHANGE = r"The noise of 'counts' was made for Sensitivity\(.*\), but the query has Sensitivity\(.*\); plan it anew"
TWO = np.array([1, 2])
OTHER_UNIT = "under 'replace_one', but this budget is under 'add_or_remove_one'"
REFUSED = {  # (query, relation of the budget, loss, error, words); noise is made for the change of a histogram
    "larger change": (Query(TWO, Sensitivity("replace_one", 16, 32, 2)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "smaller change": (Query(TWO, Sensitivity("replace_one", 1, 1, 1)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "other change": (Query(TWO, Sensitivity("add_or_remove_one", 2, 2, 1)), "replace_one", 1, ValueError, OTHER_CHANGE),
    "other relation": (histogram(), "add_or_remove_one", 1, ValueError, OTHER_UNIT),
    "more than there is": (histogram(), "replace_one", 10.5, BudgetExceededError, "counts"),
}


@pytest.mark.parametrize(("query", "relation", "loss", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_an_answer_that_its_noise_or_its_budget_does_not_cover_is_refused_before_the_charge(query, relation, loss, error, words):
    """Also for a smaller change: noise and loss are made from the change of the query, or not at all."""
    budget = budget_of(10, relation)
    with pytest.raises(error, match=words):
        budget.answer(query, mechanism(Histogram.sensitivity("replace_one"), PrivacyLoss(loss)), "counts")
    assert budget.accountant.ledger == ()


def bought(n_samples, facts, budget, rho=None):
    """Return the number of rows, its error, and the facts of the rest of the budget."""
    share, facts, _ = NumberOfRows().reserve(facts, rho)
    facts, _ = NumberOfRows().buy(SimpleNamespace(n_samples=n_samples), facts, share, budget)
    return facts.n_samples, facts.count_error, facts


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), math.inf])
def test_the_private_number_of_rows_takes_a_twentieth_and_leaves_the_rest(epsilon):
    budget = budget_of(epsilon, "add_or_remove_one")
    number, error, rest = bought(100, Facts(epsilon, Fraction(0), "add_or_remove_one", None, 2), budget)
    assert rest.epsilon == budget.accountant.remaining
    if epsilon == math.inf:
        assert (number, error, rest.epsilon) == (100, 0, math.inf)
        return
    assert budget.accountant.spent == epsilon / 20
    assert rest.epsilon + epsilon / 20 == epsilon
    assert error == pytest.approx(float(20 / epsilon), rel=0.01)  # the mean absolute value of Laplace noise is its scale
    assert number != 100  # with this seed


def test_a_released_number_of_rows_is_at_least_one():
    facts = Facts(Fraction(1), Fraction(0), "add_or_remove_one", None, 2)
    assert min(bought(0, facts, budget_of(1, "add_or_remove_one", seed))[0] for seed in range(10)) == 1


def test_of_a_budget_in_rho_the_number_of_rows_has_gaussian_noise_and_less_of_it():
    """A twentieth of rho, and not of epsilon: the rest is larger, too."""
    facts = Facts(Fraction(1), Fraction(1, 10**6), "add_or_remove_one", None, 2)
    accountant = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    _, error, rest = bought(100, facts, Budget(accountant, SeededBits(0)), "gaussian")
    assert accountant.ledger[0].noise == "DiscreteGaussian"
    assert error == pytest.approx(float(accountant.ledger[0].scale[0]))
    assert error < 20.5  # Laplace noise of a twentieth of epsilon has a deviation of 28
    assert rest.epsilon > Fraction(95, 100)
    accountant.spend(PrivacyLoss(rho=rho_of_epsilon(rest.epsilon, 1e-6, gaussian=True), gaussian=True), name="the rest")
    assert 1 - 1e-6 <= accountant.spent <= 1
