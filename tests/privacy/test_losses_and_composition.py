"""Losses, how they add up, and the conversion between zCDP and (epsilon, delta)."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Sums, covers, gaussian_of_pure, rho_of_pure
from laws import refuses

from skdpsynth.privacy import (
    PrivacyAccountant,
    PrivacyLoss,
    check_delta,
    check_epsilon,
    check_neighboring,
    epsilon_of_rho,
    rho_of_epsilon,
    split_exactly,
)

DIGITS = decimal.Context(prec=50)


def reference_epsilon(rho, delta):
    """Minimize the epsilon of Canonne, Kamath and Steinke's Corollary 13 over alpha, by thirds, at 50 digits.

    Solved for epsilon from delta = exp((alpha - 1) (alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)**alpha.
    """
    with decimal.localcontext(DIGITS):
        rho, delta = (Decimal(x.numerator) / Decimal(x.denominator) for x in (rho, delta))

        def epsilon(log_excess):
            excess = log_excess.exp()
            alpha = 1 + excess
            return alpha * rho - (delta.ln() + excess.ln() - alpha * (1 - 1 / alpha).ln()) / excess

        # First a dense grid, so that no unimodality is assumed; then thirds within its best cell and the two beside it.
        grid = [Decimal(i) / 4 for i in range(-80, 160)]
        best = min(range(len(grid)), key=lambda i: epsilon(grid[i]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        for _ in range(120):
            third = (high - low) / 3
            if epsilon(low + third) < epsilon(high - third):
                high -= third
            else:
                low += third
        return max(Fraction(0), Fraction(epsilon((low + high) / 2)))


RHOS = [Fraction(1, 10**8), Fraction(1, 10**4), Fraction(2435, 10**5), Fraction(1, 2), Fraction(3), Fraction(50)]
DELTAS = [Fraction(1, 10**12), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10), Fraction(9, 10)]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_conversion_is_never_below_the_infimum_and_within_a_billionth_of_it(rho, delta):
    reference = reference_epsilon(rho, delta)
    assert reference <= epsilon_of_rho(rho, delta) <= reference + Fraction(1, 10**9)


@pytest.mark.parametrize("epsilon", ["0.000001", "0.001", "0.01", "0.1", "1", "3", "10", "50"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-9", "1e-6", "0.001", "0.1", "0.9"])
def test_a_calibrated_rho_costs_at_most_epsilon_and_a_millionth_less_at_worst(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    rho = rho_of_epsilon(epsilon, delta)
    assert epsilon * (1 - Fraction(1, 10**6)) < epsilon_of_rho(rho, delta) <= epsilon
    # At 1.00001 times that rho the cost has passed epsilon: no larger one was missed.
    assert epsilon_of_rho(rho * Fraction(100001, 100000), delta) > epsilon


@pytest.mark.parametrize("rounding", [decimal.ROUND_DOWN, decimal.ROUND_UP])
def test_the_decimal_context_of_the_caller_has_no_say(rounding):
    for gaussian in (False, True):
        expected = [epsilon_of_rho(rho, delta, gaussian=gaussian) for rho in RHOS for delta in DELTAS]
        with decimal.localcontext(decimal.Context(prec=2, rounding=rounding)):
            assert [epsilon_of_rho(rho, delta, gaussian=gaussian) for rho in RHOS for delta in DELTAS] == expected


@pytest.mark.parametrize("convert", [epsilon_of_rho, rho_of_epsilon])
def test_conversion_refuses_what_is_no_loss_and_no_delta(convert):
    refuses(ValueError, "delta must be greater than 0 to convert zCDP, got 0; use Laplace", convert, 1, 0)
    refuses(ValueError, r"delta must be a number in \[0, 1\), got 1.5", convert, 1, 1.5)
    refuses(ValueError, "must be a number greater than 0", convert, -1, 1e-6)
    assert convert(math.inf, 1e-6) == math.inf


def spent(losses, delta):
    """(epsilon, delta) that an accountant without a limit has spent after these losses."""
    accountant = PrivacyAccountant(10**6, delta)
    for loss in losses:
        accountant.spend(loss, name="a")
    return accountant.spent, accountant.spent_delta


def test_losses_add_in_all_their_numbers_and_rho_before_it_is_converted():
    """At the delta that the others leave; where they leave none, it is an infinite epsilon."""
    moments = [PrivacyLoss(rho=0.01), PrivacyLoss(rho=0.02)]
    others, delta = [PrivacyLoss(0.5), PrivacyLoss(0.25, 4e-6)], Fraction(1, 10**5)
    assert (spent([], Fraction(0)), spent([PrivacyLoss(0.1)] * 10, Fraction(0))) == ((0, 0), (1, 0))
    assert spent(others, Fraction(1, 2)) == (Fraction(3, 4), Fraction(4, 10**6))
    assert spent(moments, delta) == (epsilon_of_rho(Fraction(3, 100), delta), delta)
    assert spent(others + moments, delta) == (Fraction(3, 4) + epsilon_of_rho(Fraction(3, 100), Fraction(6, 10**6)), delta)
    assert Sums(Fraction(1, 4), Fraction(3, 100), delta, gaussian=False).total(delta)[0] == math.inf
    assert 10**301 <= Sums(rho=Fraction(10**301), gaussian=False).total(Fraction(1, 10**6))[0] < 1.0001 * 10**301


def test_absurd_losses_convert_too_and_one_too_small_is_refused():
    """At 1e26 and more, 40 digits do not hold the decimals that a conversion is rounded up to."""
    for epsilon in (1e15, 1e26, 9e299, 1e300):
        assert Fraction(epsilon) * (1 - Fraction(1, 10**6)) < epsilon_of_rho(rho_of_epsilon(epsilon, 1e-6), 1e-6) <= check_epsilon(epsilon)
    refuses(ValueError, r"epsilon must be at least 1e-150 to be converted to rho, got 1e-200; use Laplace", rho_of_epsilon, 1e-200, 1e-6)
    assert 0 < epsilon_of_rho(rho_of_epsilon(1e-9, 1e-10), 1e-10) <= Fraction(1, 10**9)  # of which floats know a few digits
    assert epsilon_of_rho(5e-324, 1e-6) <= Fraction(1, 10**15)  # to which conversions are rounded up


ONE_TENTH = PrivacyLoss(rho=Fraction(1, 10))


def gaussian(rho):
    return PrivacyLoss(rho=rho, gaussian=True)


@pytest.mark.parametrize(
    ("charged", "cost", "enough"),
    [
        (PrivacyLoss(1), PrivacyLoss(1), True),
        (PrivacyLoss(1), PrivacyLoss(1 + Fraction(1, 10**30)), False),
        (PrivacyLoss(1, 1e-6), PrivacyLoss(1, 1e-6), True),
        (PrivacyLoss(1, 1e-6), PrivacyLoss(1, 1.1e-6), False),
        (PrivacyLoss(1, 1e-6), PrivacyLoss(rho=rho_of_epsilon(1, 1e-6)), True),
        (PrivacyLoss(1, 1e-6), PrivacyLoss(rho=rho_of_epsilon(1, 1e-6) * Fraction(100001, 100000)), False),
        (PrivacyLoss(100), PrivacyLoss(rho=1e-9), False),  # no delta, no Gaussian noise
        (ONE_TENTH, PrivacyLoss(rho=0.1), True),
        (ONE_TENTH, PrivacyLoss(rho=Fraction(1, 10) + Fraction(1, 10**30)), False),
        (PrivacyLoss(rho=rho_of_pure(Fraction(1))), PrivacyLoss(1), True),
        (PrivacyLoss(rho=rho_of_pure(Fraction(1))), PrivacyLoss(1 + Fraction(1, 10**23)), False),
        (PrivacyLoss(rho=0.5), PrivacyLoss(0.1, 1e-9), False),
        (PrivacyLoss(math.inf), PrivacyLoss(rho=math.inf), True),
        (PrivacyLoss(1e300, 0.9), PrivacyLoss(math.inf), False),
        (PrivacyLoss(rho=1e300), PrivacyLoss(math.inf), False),
        (gaussian(0.1), gaussian(0.1), True),
        (gaussian(0.1), gaussian(Fraction(1, 10) + Fraction(1, 10**30)), False),
        (gaussian(0.1), PrivacyLoss(rho=0.01), False),
        (gaussian(gaussian_of_pure(Fraction(1))), PrivacyLoss(1), True),
        (gaussian(gaussian_of_pure(Fraction(1))), PrivacyLoss(Fraction(1001, 1000)), False),
        (PrivacyLoss(rho=0.1), gaussian(0.1), True),
        (PrivacyLoss(1, 1e-6), gaussian(rho_of_epsilon(1, 1e-6, gaussian=True)), True),
        (PrivacyLoss(1, 1e-6), gaussian(rho_of_epsilon(1, 1e-6, gaussian=True) * Fraction(100001, 100000)), False),
        (gaussian(math.inf), PrivacyLoss(1), True),
    ],
)
def test_a_charge_covers_a_cost_from_exactly_that_cost_on(charged, cost, enough):
    assert covers(charged, cost) is enough


@given(
    amount=st.fractions(min_value=Fraction(1, 10**6), max_value=1000, max_denominator=10**6),
    weights=st.lists(
        st.one_of(st.integers(1, 10**9), st.floats(1e-9, 1e9), st.fractions(min_value=Fraction(1, 999), max_value=9)), min_size=1
    ),
)
@settings(max_examples=40, deadline=None)
def test_shares_sum_exactly_and_keep_the_proportion(amount, weights):
    shares = split_exactly(amount, weights)
    assert sum(shares) == amount
    assert all(isinstance(share, Fraction) and share > 0 for share in shares)
    assert float(shares[0] / shares[-1]) == pytest.approx(float(weights[0]) / float(weights[-1]), rel=1e-12)


def test_weights_that_are_not_positive_numbers_are_refused_in_one_sentence():
    refused = [[], [0], [1, 0], [1, -1], [math.nan], [math.inf], ["1"], None, [[1, 2], [3, 4]], [[1], [2, 3]], [1, np.longdouble("1e400")]]
    for weights in refused:
        refuses(ValueError, r"weights must be positive finite numbers, got .*; leave out", split_exactly, Fraction(1), weights)
    assert split_exactly(math.inf, [1, 2]) == [math.inf, math.inf]


def test_a_float_epsilon_is_the_decimal_it_prints():
    for epsilon in (0.1, np.float64(0.1), Fraction(1, 10)):
        assert check_epsilon(epsilon) == PrivacyLoss(epsilon).epsilon == Fraction(1, 10)
    for epsilon in (5e-324, 1e-17, 7.3, 1e300):
        assert float(check_epsilon(epsilon)) == epsilon


BEYOND_FLOATS = [1.1e300, 10**301, 10**400, Fraction(10**400), np.longdouble("1e400"), np.longdouble("-1e400")]
ROUND_TO_0 = [np.longdouble("1e-400"), Fraction(1, 10**400)]
NEARLY_1 = np.longdouble(1) - np.finfo(np.longdouble).epsneg  # is 1 as a float


def test_what_is_no_number_of_a_loss_is_refused_in_one_sentence():
    for epsilon in [0, -1, math.nan, -math.inf, "1", None, True, 1j, [1], np.timedelta64(1), *BEYOND_FLOATS, *ROUND_TO_0]:
        refuses(ValueError, r"epsilon must be a number greater than 0 .*, got .*; common choices", check_epsilon, epsilon)
        refuses(ValueError, r"rho must be a number greater than 0|exactly one of", PrivacyLoss, rho=epsilon)
    for delta in [-0.1, 1, 1.5, math.nan, "0", None, True, NEARLY_1, *BEYOND_FLOATS, *ROUND_TO_0]:
        refuses(ValueError, r"delta must be a number in \[0, 1\), got .*; use 0", check_delta, delta)
    for neighboring in ("replace", None, 1):
        refuses(ValueError, r"neighboring must be one of .*, got .*; use 'replace_one'", check_neighboring, neighboring)


def test_a_loss_is_either_epsilon_or_rho():
    for arguments in ({}, {"epsilon": 1, "rho": 1}):
        refuses(ValueError, r"exactly one of epsilon and rho, got epsilon=.* and rho=.*;", PrivacyLoss, **arguments)
    refuses(ValueError, "delta belongs to epsilon, not to rho, got delta=1e-06", PrivacyLoss, rho=1, delta=1e-6)
    with pytest.raises(AttributeError):
        PrivacyLoss(1).epsilon = 2
    shown = [str(loss) for loss in (PrivacyLoss(0.1), PrivacyLoss(0.1, 1e-6), PrivacyLoss(rho=0.5))]
    assert shown == ["epsilon=0.1", "epsilon=0.1, delta=1e-06", "rho=0.5"]
