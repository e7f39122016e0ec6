"""The loss of Gaussian noise: that it is a rounding, what it converts to, and that no enumeration finds more."""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from internals import (
    LEAST_SCALE,
    ROUNDING_VARIANCE,
    SLACK,
    Sensitivity,
    _gaussian,
    delta_above,
    epsilon_beside,
    epsilon_of_gaussian,
    gaussian_of_pure,
    is_mixture_within,
    mills_ratio_bounds,
    pure_of_gaussian,
)
from laws import refuses
from sampler_trees import PI
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    PrivacyAccountant,
    PrivacyLoss,
    SeededBits,
    epsilon_of_rho,
    gaussian_scale,
    mechanism,
    rho_of_epsilon,
)
from skdpsynth_evidence import _losses as checker_losses

DIGITS = decimal.Context(prec=60)


def gaussian(rho):
    return PrivacyLoss(rho=rho, gaussian=True)


def waves(t):
    """Twice the sum of exp(-2 pi^2 t k^2)."""
    return 2 * sum((-2 * PI * PI * t * k * k).exp() for k in range(1, 9))


def stated_eta(scale, t):
    """The eta of the proof, for a rounding of variance t."""
    h, v = waves(t), t * (scale**2 - t) / scale**2
    return -(1 - waves(t + v) - h * h / (1 - h) - waves(scale**2)).ln()


def rounded_law(scale, t, y):
    """P'(y): X from N(0, scale^2 - t) by a sum over a lattice, which for integrands so smooth is exact to 40 digits; then y from X."""
    s2, per_unit = scale**2 - t, 8
    reach = math.ceil(14 * math.sqrt(s2)) * per_unit
    places = [Decimal(i) / per_unit for i in range(per_unit)]
    wholes = [sum((-((z - x) ** 2) / (2 * t)).exp() for z in range(-60, 61)) for x in places]  # C(X) has period 1
    found = Decimal(0)
    for i in range(-reach, reach + 1):
        x = Decimal(i) / per_unit
        found += (-(x**2) / (2 * s2) - (y - x) ** 2 / (2 * t)).exp() / wholes[i % per_unit]
    return found / per_unit / (2 * PI * s2).sqrt()


@pytest.mark.parametrize(("scale", "t"), [("3", "0.5"), ("3", None), ("4.5", "1"), ("7", None)])
def test_a_rounded_continuous_gaussian_is_the_discrete_one_within_what_is_stated(scale, t):
    """For the t of the proof and smaller ones, where the difference is larger: the bound holds, and is nearly attained."""
    with decimal.localcontext(DIGITS):
        scale, t = Decimal(scale), Decimal(ROUNDING_VARIANCE.numerator) / ROUNDING_VARIANCE.denominator if t is None else Decimal(t)
        whole = sum((-Decimal(z * z) / (2 * scale**2)).exp() for z in range(-int(17 * scale), int(17 * scale) + 1))
        ys = {0, 1, 2, int(scale), int(3 * scale), int(scale**2 / (2 * t))}  # where cosines are 1, and where they are -1
        ratios = [((-Decimal(y * y) / (2 * scale**2)).exp() / whole / rounded_law(scale, t, y)).ln() for y in ys]
        eta = stated_eta(scale, t)
        assert eta / 2 < max(map(abs, ratios)) <= eta


def test_the_slack_pays_for_the_rounding_of_2_to_the_41_values():
    with decimal.localcontext(DIGITS):
        eta = max(
            stated_eta(Decimal(scale), Decimal(ROUNDING_VARIANCE.numerator) / ROUNDING_VARIANCE.denominator)
            for scale in (LEAST_SCALE, 4, 9, 10**6)
        )
        assert eta < Decimal("3e-26")
        assert Fraction(2, 10**13) == SLACK
        assert 2 * eta * 2**41 <= Decimal(SLACK.numerator) / SLACK.denominator
        assert (eta * 2**41).exp() * (1 - Decimal("1e-13")) < 1


def laws(scale, shift):
    """Probabilities of N_Z(0, scale^2), and of it moved by `shift`, on the same points; what is cut off has mass below 1e-42."""
    points = np.arange(-int(14 * scale) - shift, int(14 * scale) + 2 * shift + 1)
    first, second = (np.exp(-((points - x) ** 2) / (2 * np.longdouble(scale) ** 2)) for x in (0, shift))
    return first / first.sum(), second / second.sum()


def exact_delta(scale, vector, epsilon):
    """The delta at epsilon of noise on whole numbers that move by a vector: a sum over all outputs."""
    first = second = np.ones(())
    for shift in vector:
        p, q = laws(scale, shift)
        first, second = np.multiply.outer(first, p), np.multiply.outer(second, q)
    return float(np.maximum(first - np.exp(np.longdouble(epsilon)) * second, 0).sum())


SMALL_SCALES = [3, 3.25, 3.5, 4, 5, 6, 9, 14, 20]
SHIFTS = [*itertools.product([*SMALL_SCALES, 30, 47.5, 100], [(1,), (2,), (3,), (7,), (25,)])]
PLANE_SHIFTS = [*itertools.product(SMALL_SCALES, [(1, 1), (1, 3)])]


@pytest.mark.parametrize(("scale", "vector"), [*SHIFTS, *PLANE_SHIFTS])
def test_no_shift_loses_more_than_is_charged(scale, vector):
    mu, checked = math.sqrt(sum(v * v for v in vector) / (scale**2 - float(ROUNDING_VARIANCE))), 0
    for epsilon in (0, 0.01, 0.1, 0.5, 1, 2, 5, 10, 20):
        found = exact_delta(scale, vector, epsilon)
        if found > 1e-17:  # below, sums in long doubles may be rounding
            assert found <= float(delta_above(Decimal(epsilon / mu - mu / 2), Decimal(mu))) * (1 + 1e-9)
            checked += 1
    assert checked


@pytest.mark.parametrize("x", ["0", "1e-20", "0.3", "3", "4.9999", "5.0001", "6", "10", "38", "1e3", "-1", "-5", "-30"])
def test_mills_ratio_is_between_its_bounds(x):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(120):
        exact = mpmath.erfc(mpmath.mpf(x) / mpmath.sqrt(2)) / 2 / mpmath.npdf(mpmath.mpf(x))
        low, high = (mpmath.mpf(str(bound)) for bound in mills_ratio_bounds(Decimal(x)))
        assert low < exact < high < low * (1 + mpmath.mpf("1e-45"))


@pytest.mark.parametrize("rho", [Fraction(1, 10**12), Fraction(1, 10**4), Fraction(28, 1000), Fraction(3), Fraction(10**5)])
@pytest.mark.parametrize("delta", ["1e-300", "1e-12", "1e-6", "0.5", "0.999"])
def test_the_conversion_is_never_below_the_exact_one_and_hardly_above(rho, delta):
    mpmath = pytest.importorskip("mpmath")
    delta = Fraction(delta)
    assert (epsilon_of_rho(rho, delta, gaussian=True) * 10**15).denominator == 1
    with mpmath.workdps(120):
        epsilon, d = (mpmath.mpf(f.numerator) / f.denominator for f in (epsilon_of_rho(rho, delta, gaussian=True) - SLACK, delta))
        mu, d = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator), d * (1 - mpmath.mpf(10) ** -13)

        def excess(e):
            return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) - d

        assert excess(max(epsilon, 0)) <= 0
        assert epsilon <= 0 or excess(epsilon - mpmath.mpf("1.1e-15")) > 0


@pytest.mark.must
@given(epsilon=st.floats(1e-9, 1024), log_delta=st.floats(-690, -0.01))
@example(epsilon=1e-9, log_delta=-690)
@example(epsilon=1024.0, log_delta=-690)
@settings(max_examples=25, deadline=None)
def test_the_two_conversions_are_inverse_to_each_other(epsilon, log_delta):
    epsilon, delta = Fraction(epsilon), Fraction(math.exp(log_delta))
    rho = rho_of_epsilon(epsilon, delta, gaussian=True)
    assert epsilon_of_rho(rho, delta, gaussian=True) <= epsilon < epsilon_of_rho(rho * Fraction(10**9 + 1, 10**9), delta, gaussian=True)


@pytest.mark.parametrize("epsilon", [1e-12, 1e26, 1e300])
@pytest.mark.parametrize("delta", [5e-324, 1e-6, 0.5, Fraction(10**16 - 1, 10**16)])
def test_absurd_promises_convert_too(epsilon, delta):
    rho = rho_of_epsilon(epsilon, delta, gaussian=True)
    assert rho >= rho_of_epsilon(epsilon, delta)
    assert epsilon_of_rho(rho, delta, gaussian=True) <= Fraction(str(epsilon))
    assert epsilon_of_rho(math.inf, delta, gaussian=True) == rho_of_epsilon(math.inf, delta, gaussian=True) == math.inf


@pytest.mark.parametrize("missing", [10**10, 10**12, 10**300])
def test_a_delta_of_all_but_less_than_a_billionth_converts_as_all_but_a_billionth_does(missing):
    most = epsilon_of_gaussian(Fraction(500), 1 - Fraction(1, 10**9))
    assert epsilon_of_gaussian(Fraction(500), 1 - Fraction(1, missing)) == most > 100


@pytest.mark.must
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(20)])
def test_a_rho_that_floats_find_too_large_is_made_smaller_until_it_converts(monkeypatch, epsilon):
    exactly = _gaussian.to_fraction
    monkeypatch.setattr(_gaussian, "to_fraction", lambda found: exactly(found) * (1 + Fraction(2, 10**6)))
    delta = Fraction(1, 10**6)
    rho = _gaussian.rho_of_gaussian(epsilon, delta, rho_of_epsilon(epsilon, delta))
    assert epsilon_of_gaussian(rho, delta) <= epsilon < epsilon_of_gaussian(rho * (1 + Fraction(1, 10**5)), delta)


def spent(losses, delta=1e-6):
    accountant = PrivacyAccountant(100, delta)
    for i, loss in enumerate(losses):
        accountant.spend(loss, name=str(i))
    return accountant.spent


def test_a_budget_holds_exactly_the_releases_that_it_was_shared_among():
    accountant = PrivacyAccountant(1, 1e-6)
    for share in gaussian(rho_of_epsilon(1, 1e-6, gaussian=True)).split([1, 2, 3]):
        made = mechanism(Sensitivity("replace_one", 2, 2, 1), share, ("gaussian",))
        assert made.loss is share
        accountant.release(np.zeros(3, dtype=np.int64), made.noise, SeededBits(0), name="a", loss=share, sensitivity=made.sensitivity)
    assert 1 - 1e-9 < accountant.spent <= 1
    refuses(BudgetExceededError, "charge", accountant.spend, gaussian(1e-6), name="more")


@pytest.mark.parametrize("scale", [3, 5, 200])
def test_noise_is_charged_as_gaussian_from_exactly_its_scale_on(scale):
    sensitivity, accountant = Sensitivity("replace_one", 4, 4, 2), PrivacyAccountant(1e6, 1e-6)
    loss = gaussian(Fraction(4) / (2 * (scale**2 - Fraction(5, 3))))
    values = np.zeros(2, dtype=np.int64)
    accountant.release(values, DiscreteGaussian(scale), SeededBits(0), name="a", loss=loss, sensitivity=sensitivity)
    smaller = DiscreteGaussian(Fraction(scale) * (1 - Fraction(1, 10**9)))
    with pytest.raises(ValueError, match=r"costs rho=.* \(Gaussian\), more than the loss"):
        accountant.release(values, smaller, SeededBits(0), name="a", loss=loss, sensitivity=sensitivity)


def test_gaussian_noise_of_a_small_scale_is_not_charged_as_such():
    accountant, sensitivity, values = PrivacyAccountant(1e9, 1e-6), Sensitivity("replace_one", 1, 1, 1), np.zeros(1, dtype=np.int64)
    noise = DiscreteGaussian(2.99)
    accountant.release(values, noise, SeededBits(0), name="a", loss=PrivacyLoss(rho=1), sensitivity=sensitivity)
    with pytest.raises(ValueError, match="more than the loss"):
        accountant.release(values, noise, SeededBits(0), name="b", loss=gaussian(1e6), sensitivity=sensitivity)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**7), Fraction(1, 10**4), Fraction(1, 10), Fraction(7, 5), Fraction(30), Fraction(99)])
def test_a_pure_loss_is_the_gaussian_one_whose_halves_tell_as_much(epsilon):
    """By scipy, and by the decimals of the checker, which share no code; the other way round to the last digits."""
    rho = gaussian_of_pure(epsilon)
    tail = 1 / (1 + math.exp(epsilon))
    assert float(rho) == pytest.approx(2 * norm.isf(tail) ** 2, rel=1e-9 if epsilon > 1e-3 else 1e-6)
    assert float(rho / checker_losses.gaussian_of_pure(epsilon)) == pytest.approx(1, rel=1e-8)
    assert pure_of_gaussian(rho) >= epsilon > pure_of_gaussian(rho * (1 - Fraction(1, 10**8)))
    assert gaussian_of_pure(Fraction(1000)) == 4000 <= checker_losses.gaussian_of_pure(Fraction(1000))


@pytest.mark.must
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_every_attack_on_randomized_response_errs_at_least_as_often_as_on_its_gaussian(epsilon):
    """Its two-sided errors lie on or above those of N(0, 1) against N(mu, 1) at every level, and on them where both are equal."""
    levels, tail = np.linspace(0, 1, 2001), 1 / (1 + math.exp(epsilon))
    response = np.interp(levels, [0, tail, 1], [1, tail, 0])  # the errors of the second kind of the bit, and of coins between its two
    mu = math.sqrt(2 * float(gaussian_of_pure(Fraction(epsilon))))
    assert (response - norm.cdf(norm.isf(levels) - mu)).min() >= -1e-12
    assert norm.cdf(norm.isf(tail) - mu) == pytest.approx(tail, rel=1e-9)
    less = norm.cdf(norm.isf(tail) - 0.99 * mu)
    assert less > tail  # a smaller mu would promise more than the bit keeps


def delta_of_gaussian(mu, epsilon):
    return norm.sf(epsilon / mu - mu / 2) - np.exp(epsilon + norm.logsf(epsilon / mu + mu / 2))


MIXTURES = [("0.5", "0.0081", "1"), ("0.1", "0.0243", "1"), ("5", "0.52", "10"), ("0.001", "0.0003", "0.1"), ("0.05", "0.0001", "0.1")]


@pytest.mark.must
@pytest.mark.parametrize(("pure", "rho", "epsilon"), MIXTURES)
def test_pure_losses_and_gaussian_ones_together_lose_what_a_bit_and_a_normal_number_do(pure, rho, epsilon):
    """By the integral of max(0, P - e^epsilon Q) over the number, for both values of the bit, and by the decimals of the checker."""
    e, eps, mu = float(pure), float(epsilon), math.sqrt(2 * float(rho))
    excess = [
        lambda x, bit=bit: max(0.0, expit(bit * e) * norm.pdf(x - mu) - math.exp(eps) * expit(-bit * e) * norm.pdf(x)) for bit in (1, -1)
    ]
    starts = [(eps - bit * e) / mu + mu / 2 for bit in (1, -1)]
    exact = sum(quad(each, start, start + 40, epsabs=0, limit=400)[0] for each, start in zip(excess, starts, strict=True))
    losses = tuple(map(Fraction, (pure, rho, epsilon)))
    holds = [is_mixture_within(*losses, Fraction(exact * (1 + each))) for each in (-1e-6, 1e-6)]
    assert holds == [False, True]
    sums = checker_losses.Sums(epsilon=losses[0], rho=losses[1])
    assert float(checker_losses._mixture_delta(sums, losses[2] - losses[0])) == pytest.approx(exact, rel=1e-6)
    assert not is_mixture_within(losses[0], losses[1], losses[0] - Fraction(1, 10**6), Fraction(1, 2))


@pytest.mark.must
@given(share=st.floats(1e-3, 1 - 1e-3), epsilon=st.sampled_from([1e-9, 1e-3, 0.1, 1, 10, 1024]), log_delta=st.floats(-100, -0.01))
@settings(max_examples=25, deadline=None)
def test_gaussian_noise_beside_pure_losses_gets_all_that_they_leave(share, epsilon, log_delta):
    epsilon, delta = Fraction(str(epsilon)), Fraction(math.exp(log_delta))
    pure = Fraction(share) * epsilon
    beside = epsilon_beside(pure, epsilon, delta)
    rho = rho_of_epsilon(beside, delta, gaussian=True)
    assert beside >= epsilon - pure
    if beside > epsilon - pure:
        assert is_mixture_within(pure, rho, epsilon, delta)
    if epsilon > Fraction(1, 100) and delta < Fraction(1, 2):
        assert not is_mixture_within(pure, rho * (1 + Fraction(1, 10**7)), epsilon, delta)


@pytest.mark.parametrize(("pure", "mus", "epsilon"), [(0.5, (0.1, 0.08), 1.0), (1.0, (0.6, 0.5), 3.0), (0.2, (0.3, 0.02), 1.0)])
def test_no_order_of_turns_and_no_division_that_follows_from_outputs_loses_more_than_the_sums(pure, mus, epsilon):
    """An adversary sees a Gaussian answer, then asks the pure losses whole, in halves around the second answer, or after it."""
    first, second = mus
    whole = math.hypot(first, second)

    def bits(*losses):
        return [(math.prod(expit(s * e) for s, e in zip(signs, losses, strict=True)), np.dot(signs, losses)) for signs in
                itertools.product((1, -1), repeat=len(losses))]  # fmt: skip

    def lost(seen, *losses):  # of what was seen, whatever comes later
        return sum(chance * delta_of_gaussian(second, epsilon - seen - loss) for chance, loss in bits(*losses))

    x = np.linspace(-9, 9, 20_001) + first  # the first answer under the one table, whose loss is first x - first^2 / 2
    seen = first * x - first**2 / 2
    ways = [lost(seen, pure), lost(seen, pure / 2, pure / 2), lost(seen, pure / 4, pure / 4, pure / 2)]
    most = np.trapezoid(np.max(ways, axis=0) * norm.pdf(x - first), x)
    together = sum(chance * delta_of_gaussian(whole, epsilon - loss) for chance, loss in bits(pure))
    assert most == pytest.approx(together, rel=1e-6)
    assert np.trapezoid(ways[1] * norm.pdf(x - first), x) < together


@pytest.mark.parametrize("span", [0.1, 1.0, 6.0])
def test_a_range_of_losses_is_the_gaussian_loss_of_a_pure_one_of_half_of_it(span):
    """Wherever the range lies: the chords of the trade-off curve meet above that of mu, and touch it where the range is even."""
    mu = math.sqrt(2 * float(gaussian_of_pure(Fraction(span / 2))))
    x = np.linspace(-15, 15, 601) - span / 2
    p, q = expit(x + span), expit(x)
    gaps = (1 - p) - norm.cdf(norm.isf(q) - mu)  # of errors of the second kind at an error q of the first
    assert gaps.min() >= -1e-12
    assert abs(gaps[300]) < 1e-12


@given(l2=st.integers(1, 10**6), epsilon=st.floats(0.01, 20))
@settings(max_examples=25, deadline=None)
def test_of_the_two_ways_to_charge_gaussian_noise_the_one_with_less_noise_is_taken(l2, epsilon):
    sensitivity, share = Sensitivity("replace_one", l2, l2, 1), PrivacyLoss(epsilon, 1e-6)
    made = mechanism(sensitivity, share, ("gaussian",))
    scales = {each: gaussian_scale(l2, rho_of_epsilon(epsilon, 1e-6, gaussian=each), gaussian=each) for each in (True, False)}
    assert made.noise.scale == min(scales.values()) == scales[made.loss.gaussian]
    assert made.loss.gaussian or made.noise.scale < 5


@pytest.mark.parametrize(("epsilon", "is_gaussian"), [(1, True), (2, True), (300, False)])
def test_mixed_tables_charge_all_their_steps_in_one_way_by_the_noise(epsilon, is_gaussian):
    X = np.random.default_rng(0).random((200, 3))
    model = LatentFactorSynthesizer(n_factors=1, epsilon=epsilon, delta=1e-6, random_state=0).fit(X)
    assert {entry.loss.gaussian for entry in model.accountant_.ledger} == {is_gaussian}
    assert len(model.accountant_.ledger) >= 3


def test_shares_of_a_loss_are_of_its_kind_and_join_to_it_again():
    third = Fraction(1, 3)
    for loss in (PrivacyLoss(1, rows=4), PrivacyLoss(rho=third, rows=3), gaussian(third), PrivacyLoss(math.inf), gaussian(math.inf)):
        shares = loss.split([1, 2, 3])
        assert all((share.gaussian, share.rows) == (loss.gaussian, loss.rows) for share in shares)
        assert shares[0] + shares[1] + shares[2] == loss
    assert PrivacyLoss(1, 1e-6, rows=4).pure.rows == 4


def test_losses_of_different_kinds_are_not_joined():
    kinds = [PrivacyLoss(1), PrivacyLoss(1, rows=4), PrivacyLoss(rho=1), gaussian(1)]
    for loss, other in itertools.product(kinds, [*kinds, PrivacyLoss(1, 1e-6)]):
        if loss != other:
            with pytest.raises(ValueError, match=r"of one kind and without delta to be joined, got .* and .*; charge each by itself"):
                loss + other
    with pytest.raises(TypeError):
        PrivacyLoss(1) + 1
    for arguments in ({"epsilon": 1, "gaussian": True}, {"rho": 1, "gaussian": 1}, {"rho": 1, "gaussian": "yes"}):
        refuses(ValueError, r"gaussian must be False, or True for a loss in rho, got .*; leave it out", PrivacyLoss, **arguments)
    assert str(gaussian(0.5)) == "rho=0.5 (Gaussian)"
