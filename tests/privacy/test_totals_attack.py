"""What an attacker gains: by closed forms, by brute force, and never less than what an attack reaches."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from laws import refuses
from scipy.stats import norm

from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, Unit, rho_of_epsilon

FPRS = (0, 1e-9, 0.001, 0.01, 0.1, 0.5, 0.9, 1)


def spent(*losses, delta=1e-6):
    accountant = PrivacyAccountant(100, delta)
    for loss in losses:
        accountant.spend(loss, name="a")
    return accountant


def best_of_responses(losses, fpr):
    """(right alarms, advantage) of the best attack on randomized responses, each of which may give all away, over all their outcomes."""
    outcomes = [(1.0, 1.0)]  # probabilities under the two tables
    for epsilon, delta in losses:
        right = 1 / (1 + math.exp(-epsilon))
        ways = [
            (delta, 0.0),
            (0.0, delta),
            ((1 - delta) * right, (1 - delta) * (1 - right)),
            ((1 - delta) * (1 - right), (1 - delta) * right),
        ]
        outcomes = [(p * a, q * b) for p, q in outcomes for a, b in ways if p * a or q * b]
    outcomes.sort(key=lambda pair: pair[0] / pair[1] if pair[1] else math.inf, reverse=True)
    true, false, found = 0.0, 0.0, None
    for p, q in outcomes:
        if found is None and false + q >= fpr:
            found = true + (p * (fpr - false) / q if q else p)
        true, false = true + p, false + q
    return found if found is not None else 1.0, sum(max(0.0, p - q) for p, q in outcomes)


@pytest.mark.parametrize("fpr", [1e-9, 0.001, 0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "losses",
    [
        [(0.01, 0)],
        [(5, 0)],
        [(0.1, 0)] * 10,
        [(1, 0)] * 2,
        [(0.1, 0), (0.2, 0), (0.4, 0), (1.5, 0)],
        [(0.3, 1e-3)] * 3,
        [(0.5, 0.01), (0.25, 0), (0.5, 0), (1, 0.2)],
    ],
)
def test_several_losses_in_epsilon_give_what_their_randomized_responses_do(losses, fpr):
    risk = spent(*(PrivacyLoss(*loss) for loss in losses), delta=0.5).risk(fpr)
    found, advantage = best_of_responses(losses, fpr)
    assert (risk.tpr, risk.advantage) == (pytest.approx(found, rel=1e-9), pytest.approx(advantage, rel=1e-9))


def test_losses_without_a_common_step_are_never_less_of_a_risk_than_they_are_and_hardly_more():
    rng = np.random.default_rng(0)
    for _ in range(20):
        losses = [(float(epsilon), 0) for epsilon in rng.random(7) / 2]
        risk = spent(*(epsilon for epsilon, _ in losses), delta=0).risk(0.05)
        found, advantage = best_of_responses(losses, 0.05)
        assert found <= risk.tpr <= found * (1 + 1e-3)
        assert advantage <= risk.advantage <= advantage * (1 + 1e-3)


def test_a_group_is_as_much_of_a_risk_as_its_largest_member():
    accountant, plain = PrivacyAccountant(10), PrivacyAccountant(10)
    for budget in (accountant, plain):
        budget.spend(0.3, name="a")
    for place, epsilon in enumerate((0.1, 0.5, 0.2)):
        accountant.child(epsilon, name=f"rows {place}", group="disjoint rows")
    plain.spend(0.5, name="largest")
    assert accountant.risk(0.1) == plain.risk(0.1)


def test_so_many_losses_that_it_would_take_long_are_those_of_their_sum():
    accountant = PrivacyAccountant(100, 0)
    for number in range(4097):
        accountant.spend(Fraction(1, 5000 + number), name="a")
    whole = spent(accountant.spent, delta=0).risk(0.05)
    assert accountant.risk(0.05).tpr == pytest.approx(whole.tpr, rel=1e-9)
    assert accountant.risk(0.05).advantage == pytest.approx(whole.advantage, rel=1e-9)


@pytest.mark.parametrize("fpr", FPRS)
@pytest.mark.parametrize("rho", [1e-4, 0.02, 1, 10])
def test_gaussian_noise_gives_its_own_curve(rho, fpr):
    risk = spent(*[PrivacyLoss(rho=Fraction(str(rho)) / 3, gaussian=True)] * 3).risk(fpr)
    mu = math.sqrt(2 * rho)
    assert risk.tpr == pytest.approx(norm.sf(norm.isf(fpr) - mu), rel=1e-9)
    assert risk.advantage == pytest.approx(norm.cdf(mu / 2) - norm.cdf(-mu / 2), rel=1e-9)


def best_attack(epsilons, mu, fpr):
    """The most powerful test of randomized responses and a Gaussian of mean 0 or mu: a threshold on the likelihood ratio, by bisection."""
    outcomes = list(itertools.product((1, -1), repeat=len(epsilons)))
    losses = np.array([np.dot(signs, epsilons) for signs in outcomes])
    first = np.array([np.prod([1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True)]) for signs in outcomes])
    second = first * np.exp(-losses)

    def rates(threshold):  # alarm where loss + mu x - mu^2 / 2 > threshold
        least = (threshold - losses) / mu + mu / 2
        return float(np.sum(second * norm.sf(least))), float(np.sum(first * norm.sf(least - mu)))

    low, high = -60.0, 60.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rates(middle)[0] > fpr else (low, middle)
    return rates(high)[1]


@pytest.mark.parametrize(("epsilons", "epsilon"), [([0.5], 0.5), ([0.1] * 7, 1), ([0.3, 0.2], 2)])
def test_no_attack_on_a_mixture_finds_more_than_is_said(epsilons, epsilon):
    loss = PrivacyLoss(rho=rho_of_epsilon(epsilon, 1e-6, gaussian=True), gaussian=True)
    account, mu = spent(*epsilons, loss), math.sqrt(2 * float(loss.rho))
    for fpr in (1e-4, 0.01, 0.3):
        reached = best_attack(epsilons, mu, fpr)
        assert reached <= account.risk(fpr).tpr <= math.exp(sum(epsilons)) * reached * 1.5
    assert max(best_attack(epsilons, mu, fpr) - fpr for fpr in np.linspace(0.05, 0.95, 9)) <= account.risk(0.3).advantage <= 1


def test_more_losses_are_never_less_of_a_risk():
    accountant, before = PrivacyAccountant(100, 1e-5), (0.0, 0.0)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    for i in range(12):
        accountant.spend((PrivacyLoss(0.1), PrivacyLoss(rho=0.001, gaussian=i < 6), PrivacyLoss(0.05, 1e-7))[i % 3], name="a")
        risk = accountant.risk(0.05)
        assert (risk.tpr, risk.advantage) >= before
        before = risk.tpr * (1 - 1e-3), risk.advantage * (1 - 1e-3)  # the least is sought on a grid


def test_no_loss_gains_nothing_and_an_infinite_one_all():
    assert (spent().risk(0.2).tpr, spent().risk(0.2).advantage) == (pytest.approx(0.2), 0)
    assert [spent(1, delta=0).risk(fpr).tpr for fpr in (0, 1)] == [0, 1]
    accountant = PrivacyAccountant(math.inf)
    accountant.spend(math.inf, name="a")
    assert (accountant.risk(0).tpr, accountant.risk(0).advantage) == (1, 1)


def test_what_is_told_is_true_to_the_digit_and_never_less():
    text = str(spent(1, delta=0).risk(0.01))
    assert "right at most 73.2 % of the time" in text  # 73.106
    assert "1 % of false alarms, at most 2.8 % of their targets" in text  # 2.718


def test_it_says_whom_it_is_about():
    patient = Unit("patient_id", 5)
    alone, shared = PrivacyAccountant(2, unit=patient), PrivacyAccountant(3, neighboring="add_or_remove_one")
    alone.spend(1, name="a")
    shared.child(1, name="a", unit=patient)
    assert "whether one patient_id, at most 5 rows, was this one or another" in str(alone.risk())
    assert "whether one patient_id, at most 5 rows, was in the table" in str(shared.risk())
    assert all(repr(one).endswith("1 entries; protects one patient_id, at most 5 rows>") for one in (alone, shared, shared.record()))
    rows = PrivacyAccountant(1)
    rows.spend(1, name="rows")
    refuses(ValueError, "record must protect patient_id, at most 5 rows", alone.import_record, rows)
    shared.child(1, name="b", unit=Unit("clinic", 2))
    shared.child(1, name="c")
    assert "whether one row that is the only one of its unit was in the table" in str(shared.risk())
    assert repr(shared).endswith(
        "3 entries; protects one row that is the only one of its unit, because not all entries protect the same unit>"
    )


def test_beliefs_follow_bayes_and_rates_that_are_none_are_refused():
    risk = spent(1, delta=0).risk(0.1)
    assert risk.accuracy == pytest.approx(math.e / (1 + math.e))
    assert risk.posterior(0.5) == pytest.approx(math.e / (1 + math.e))
    assert risk.posterior(0.01) == pytest.approx(0.01 * math.e / (0.01 * math.e + 0.99))
    refuses(ValueError, "prior must be a number in", risk.posterior, 0)
    for fpr in (-0.1, 1.1, math.nan, "1"):
        refuses(ValueError, r"fpr must be a number in \[0, 1\], got .*; 0.01 is one false alarm in a hundred", spent().risk, fpr)
