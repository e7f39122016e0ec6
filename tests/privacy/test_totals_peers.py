"""Totals beside those of dp-accounting: never below its privacy-loss distributions, and above by no more than is stated."""

import math
from fractions import Fraction

import numpy as np
import pytest

from skdpsynth import PrivatePCA
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, rho_of_epsilon

dp_accounting = pytest.importorskip("dp_accounting")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
pld_accountant = pytest.importorskip("dp_accounting.pld.pld_privacy_accountant")

INTERVAL = 1e-4


def bound_by_pld(losses, delta, pessimistic):
    """The epsilon of losses by distributions that are rounded up, or down."""
    composed = None
    for loss in losses:
        if loss.rho is None:
            # Its two losses are +-epsilon, as those of randomized response. Without its delta a loss is less: a bound from below.
            each = pld.from_discrete_laplace_mechanism(
                float(loss.epsilon), 1, pessimistic_estimate=pessimistic, value_discretization_interval=INTERVAL
            )
        else:
            deviation = 1 / math.sqrt(2 * float(loss.rho))
            each = pld.from_gaussian_mechanism(deviation, pessimistic_estimate=pessimistic, value_discretization_interval=INTERVAL)
        composed = each if composed is None else composed.compose(each)
    return composed.get_epsilon_for_delta(delta)


def spent(losses, delta):
    accountant = PrivacyAccountant(1000, delta)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    for loss in losses:
        accountant.spend(loss, name="a")
    return accountant


def gaussian(epsilon, delta=1e-6):
    return PrivacyLoss(rho=rho_of_epsilon(epsilon, delta, gaussian=True), gaussian=True)


@pytest.mark.parametrize(("epsilon", "k", "delta"), [(0.1, 20, 1e-6), (0.1, 100, 1e-9), (0.5, 5, 1e-4), (1, 12, 1e-6)])
def test_pure_losses_cost_no_less_than_the_optimum_which_children_attain(epsilon, k, delta):
    losses = [PrivacyLoss(epsilon)] * k
    low, high = (bound_by_pld(losses, delta, pessimistic) for pessimistic in (False, True))
    fixed = PrivacyAccountant(1000, delta)
    fixed.children([epsilon] * k, delta, name="a")
    assert low - 1e-9 <= fixed.spent <= high * (1 + 1e-6) + 1e-9
    in_rho = PrivacyAccountant(1000, delta).child(100, delta, name="questions", rho="zcdp")
    for loss in losses:
        in_rho.spend(loss, name="a")
    as_one_goes = min(in_rho.spent, spent(losses, delta).spent)
    # By the sum, or by zCDP: the stated slack is 1/4 (of 0.1, 20 times, the sum: 2.0 and 1.79).
    assert low - 1e-9 <= as_one_goes <= 1.25 * high


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_the_events_of_a_gaussian_fit_cost_its_epsilon(neighboring):
    X = np.random.default_rng(0).random((300, 3))
    accountant = PrivacyAccountant(3, 1e-6, neighboring=neighboring)
    PrivatePCA(noise="gaussian", epsilon=0.5, delta=1e-6, accountant=accountant, neighboring=neighboring).fit(X)
    peer = pld_accountant.PLDAccountant(value_discretization_interval=INTERVAL).compose(accountant.to_dp_events())
    assert 0.995 * 0.5 <= peer.get_epsilon(1e-6) <= 0.5 + 1e-3


def test_events_are_the_releases_and_of_a_group_its_costliest_member():
    event = dp_accounting.dp_event
    accountant = PrivacyAccountant(9, 1e-5)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    accountant.spend(0.5, name="pure")
    accountant.spend(PrivacyLoss(rho=0.02), name="zcdp")
    child = accountant.child(1, 1e-6, name="fit", rho="gaussian")
    for _ in range(2):
        child.spend(PrivacyLoss(rho=Fraction(1, 200), gaussian=True), name="half")
    accountant.child(0.1, name="small", group="strata")
    accountant.child(0.3, name="large", group="strata").spend(0.2, name="inner")
    accountant.spend(PrivacyLoss(0.1, 1e-7), name="levels")
    events = accountant.to_dp_events().events
    assert isinstance(events[4], event.UnsupportedDpEvent)
    assert [*events[:4], events[5]] == [
        event.DiscreteLaplaceDpEvent(0.5, 1),
        event.ZCDpEvent(0.02),
        event.GaussianDpEvent(pytest.approx(10)),
        event.GaussianDpEvent(pytest.approx(10)),
        event.DiscreteLaplaceDpEvent(0.2, 1),
    ]
    endless = PrivacyAccountant(math.inf)
    endless.spend(math.inf, name="a")
    assert endless.to_dp_events().events == [event.NonPrivateDpEvent()]
