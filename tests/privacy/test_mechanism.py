"""Noise and loss made together: scales, what the noise covers at the share, and the rows of a unit."""

import math
import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _noise, covers, is_hidden, rho_of_pure, short_repr
from laws import ALARM, chi_squared, refuses

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteMatrixLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    SeededBits,
    Unit,
    check_rng,
    discovery,
    loss_of_kind,
    losses_of_kind,
    mechanism,
    rho_of_epsilon,
    scale_of_kind,
)
from skdpsynth.statistics import Histogram, Sensitivity

KINDS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian, "sup_norm": DiscreteSupNorm}


@st.composite
def changes(draw):
    """A vector that moves decides the three norms; relation of any kind."""
    moved = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any))
    relation = draw(st.sampled_from(["replace_one", "add_or_remove_one"]))
    return Sensitivity(relation, sum(moved), sum(m * m for m in moved), max(moved))


PURE = st.floats(1e-3, 1e3).map(PrivacyLoss)
RHO = st.floats(1e-6, 1e3).map(lambda rho: PrivacyLoss(rho=rho))
APPROXIMATE = st.builds(PrivacyLoss, st.floats(1e-3, 50), st.floats(1e-12, 0.1))


def charge(loss, share):
    """Whether a budget of one share takes a loss."""
    if share.rho is not None:
        return loss.rho is not None and loss.rho <= share.rho
    accountant = PrivacyAccountant(share.epsilon, share.delta)
    accountant.spend(loss, name="all")
    return accountant.remaining >= 0


@given(sensitivity=changes(), share=st.one_of(PURE, RHO, APPROXIMATE), kind=st.sampled_from([*KINDS, None]))
@settings(max_examples=80, deadline=None)
def test_the_noise_covers_the_change_at_the_loss_and_the_loss_fits_the_share(sensitivity, share, kind):
    kinds = ("laplace", "gaussian", "sup_norm") if kind is None else (kind,)
    if all(loss_of_kind(k, share) is None for k in kinds):
        refuses(ValueError, r"kinds must hold one that serves a loss of .*, got .*; give delta", mechanism, sensitivity, share, kinds)
        return
    made = mechanism(sensitivity, share, kinds)
    assert (made.sensitivity, made.deviation) == (sensitivity, math.sqrt(made.noise.variance()))
    assert any(covers(made.loss, cost) for cost in made.noise.losses(sensitivity))
    assert charge(made.loss, share)
    assert type(made.noise) in [KINDS[k] for k in kinds]


@given(sensitivity=changes(), share=st.one_of(PURE, RHO), kind=st.sampled_from(list(KINDS)))
@settings(max_examples=60, deadline=None)
def test_no_smaller_scale_would_cover_it(sensitivity, share, kind):
    """But for the least scale that can be sampled, and the grid of 2**-20 of Gaussian scales."""
    loss = loss_of_kind(kind, share)
    if loss is None:
        return
    scale = scale_of_kind(kind, sensitivity, loss)
    smaller = scale * (1 - Fraction(1, 2**20)) - (Fraction(1, 2**20) if kind == "gaussian" else 0)
    if smaller > Fraction(1, 100):
        assert not covers(loss, KINDS[kind](smaller).losses(sensitivity)[0])


@pytest.mark.parametrize(
    ("kind", "share", "spent"),
    [
        ("laplace", PrivacyLoss(0.5, 1e-6, rows=3), PrivacyLoss(0.5, rows=3)),
        ("matrix_laplace", PrivacyLoss(0.5), PrivacyLoss(0.5)),
        ("gaussian", PrivacyLoss(rho=0.5, gaussian=True), PrivacyLoss(rho=0.5, gaussian=True)),
        ("gaussian", PrivacyLoss(1, 1e-6), PrivacyLoss(rho=rho_of_epsilon(1, 1e-6, gaussian=True), gaussian=True)),
    ],
)
def test_a_kind_of_noise_spends_all_of_a_share_that_it_can(kind, share, spent):
    assert loss_of_kind(kind, share) == spent
    assert scale_of_kind("matrix_laplace", Sensitivity("replace_one", 6, 12, 3, 5), PrivacyLoss(0.5, rows=2)) == 20


@pytest.mark.parametrize("share", [PrivacyLoss(math.inf), PrivacyLoss(math.inf, 1e-6), PrivacyLoss(rho=math.inf)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_share_needs_no_noise(share, kind):
    made = mechanism(Sensitivity("replace_one", 2, 2, 1), share, (kind,))
    assert (made.noise.scale, made.loss, made.deviation) == (0, share, 0)
    noisy = release(PrivacyAccountant(math.inf, 1e-6), made.noise, made.loss, made.sensitivity)
    np.testing.assert_array_equal(noisy, [5, 6])


def test_a_sampler_that_would_wait_too_long_is_never_the_best_and_a_kind_must_be_known():
    sensitivity = Sensitivity("replace_one", 1000, 1000, 1)
    assert mechanism(sensitivity, PrivacyLoss(1000), ("sup_norm",), 1000).deviation == math.inf
    assert isinstance(mechanism(sensitivity, PrivacyLoss(1000), ("sup_norm", "laplace"), 1000).noise, DiscreteLaplace)
    with pytest.raises(ValueError, match="kinds must be one of 'laplace', 'gaussian', 'sup_norm', 'matrix_laplace', got 'normal'"):
        mechanism(sensitivity, PrivacyLoss(1), ("normal",))
    refuses(ValueError, "kinds must hold one that serves", mechanism, sensitivity, PrivacyLoss(1), ())


@pytest.mark.parametrize("share", [PrivacyLoss(0.5), PrivacyLoss(0.5, 1e-6), PrivacyLoss(rho=0.1)])
def test_what_does_not_move_gets_the_least_noise_there_is(share):
    made = mechanism(Sensitivity("replace_one", 0, 0, 0), share)
    assert made.noise.scale == Fraction(1, 100)
    assert not made.noise.losses(made.sensitivity)


def test_noise_of_several_scales_costs_what_its_least_scale_costs():
    """Any value may be the one with the least scale."""
    sensitivity = Sensitivity("replace_one", 6, 14, 3)
    assert DiscreteLaplace([4, 2, 8]).losses(sensitivity)[0] == PrivacyLoss(3)
    assert DiscreteGaussian([4, 2, 8]).losses(sensitivity)[0] == PrivacyLoss(rho=Fraction(14, 8))
    assert DiscreteSupNorm(2).losses(sensitivity)[0] == PrivacyLoss(Fraction(3, 2))
    assert DiscreteLaplace([4, 0]).losses(sensitivity)[0] == PrivacyLoss(math.inf)
    assert not DiscreteLaplace(np.empty(0)).losses(sensitivity)


EDGE = [
    (DiscreteLaplace(10), PrivacyLoss(Fraction(6, 10))),
    (DiscreteLaplace([10, 20]), PrivacyLoss(Fraction(6, 10))),
    (DiscreteSupNorm(10), PrivacyLoss(Fraction(3, 10))),
    (DiscreteGaussian(10), PrivacyLoss(rho=Fraction(14, 200))),
    (DiscreteLaplace(10), PrivacyLoss(rho=rho_of_pure(Fraction(6, 10)))),
]
FACTORS = [1 + Fraction(1, 10**15), Fraction(3, 2), Fraction(8)]


def release(accountant, noise, loss, sensitivity):
    return accountant.release(np.array([5, 6]), noise, SecureBits(), name="counts", loss=loss, sensitivity=sensitivity)


def times(loss, factor):
    return PrivacyLoss(rho=loss.rho * factor) if loss.rho is not None else PrivacyLoss(loss.epsilon * factor, loss.delta)


@pytest.mark.parametrize(("noise", "loss"), EDGE)
def test_the_door_takes_noise_that_just_covers_its_change_and_refuses_what_is_too_small_by_any_factor(noise, loss):
    """Too small for a change that is larger by the factor, and for a loss that is smaller by it."""
    accountant, covered = PrivacyAccountant(10, 1e-6), Sensitivity("replace_one", 6, 14, 3)
    release(accountant, noise, loss, covered)
    spent = accountant.spent
    (entry,) = accountant.ledger
    assert (entry.loss, entry.sensitivity) == (loss, covered)
    smaller = [(times(loss, 1 / factor), covered) for factor in FACTORS]
    larger = [(loss, Sensitivity("replace_one", 6 * factor, 14 * factor**2, 3 * factor)) for factor in FACTORS]
    for cost, sensitivity in smaller + larger:
        with pytest.raises(ValueError, match=r"Releasing 'counts' with Discrete.* costs .*, more than the loss .* that is charged"):
            release(accountant, noise, cost, sensitivity)
        with pytest.raises(ValueError, match="more than the loss"):
            accountant.standing(noise, SecureBits(), name="counts", loss=cost, sensitivity=sensitivity)
    assert (accountant.ledger, accountant.spent) == ((entry,), spent)


def test_the_door_takes_gaussian_noise_for_an_epsilon_and_a_delta_that_it_fits():
    sensitivity, share = Sensitivity("replace_one", 2, 2, 1), PrivacyLoss(1, 1e-6)
    right = mechanism(sensitivity, share, ("gaussian",)).noise
    release(PrivacyAccountant(1, 1e-6), right, share, sensitivity)
    for factor in FACTORS[1:]:
        with pytest.raises(ValueError, match="more than the loss"):
            release(PrivacyAccountant(1, 1e-6), DiscreteGaussian(right.scale / factor), share, sensitivity)
    refuses(ValueError, "Gaussian noise has no pure loss", release, PrivacyAccountant(100, 1e-6), right, PrivacyLoss(100), sensitivity)
    zcdp, gaussian = right.losses(sensitivity)
    assert gaussian.rho <= rho_of_epsilon(1, 1e-6, gaussian=True)
    assert zcdp.rho > rho_of_epsilon(1, 1e-6)  # as zCDP it would need more noise


def test_what_is_no_noise_change_loss_or_name_is_refused_before_the_charge():
    for mine, other in (("replace_one", "add_or_remove_one"), ("add_or_remove_one", "replace_one")):
        accountant = PrivacyAccountant(1, neighboring=mine)
        with pytest.raises(ValueError, match=rf"sensitivity is stated under '{other}', but this budget is under '{mine}'"):
            release(accountant, DiscreteLaplace(10**6), PrivacyLoss(1), Sensitivity(other, 1, 1, 1))
        for noise in (None, 5, np.array([1, 2])):
            refuses(TypeError, r"noise must be a noise such as DiscreteLaplace\(scale\), got .*; see", release, accountant, noise, 1, None)
        for loss in (np.longdouble("1e-400"), Fraction(1, 10**400)):  # they round to 0
            for attempt in (
                lambda loss=loss, accountant=accountant: release(accountant, DiscreteLaplace(1), loss, None),
                lambda loss=loss, accountant=accountant: accountant.spend(loss, name="a"),
                lambda loss=loss, accountant=accountant: accountant.child(loss, name="a"),
            ):
                refuses(ValueError, "epsilon must be a number greater than 0", attempt)
        with pytest.raises(ValueError, match="with scale 0") as refusal:
            accountant.release(np.array([1]), DiscreteLaplace(0), SecureBits(), name=np.array([[918273.5]]), loss=1)
        assert "918273" not in str(refusal.value)
        assert accountant.ledger == ()


@pytest.mark.parametrize("share", [{"epsilon": 0.4375}, {"rho": 0.03}, {"epsilon": 0.75, "delta": 1e-7}], ids=["pure", "rho", "delta"])
def test_a_choice_that_was_made_before_is_pickled_as_the_first_was(share):
    # Which objects are the same shows in a pickle, and must not tell what was asked for earlier.
    def pickled():
        asked = PrivacyLoss(**share)
        return pickle.dumps([asked, *(mechanism(Sensitivity("replace_one", 6, 14, 3), asked) for _ in range(2))])

    assert pickled() == pickled()


def test_changes_that_are_equal_keep_what_they_say_they_are_of():
    # Noise of equal changes is chosen once; a ledger still says of each what moves.
    changes = [Sensitivity("replace_one", 2, 2, 1, statistic=(("kind", name),)) for name in ("Histogram", "Trees")]
    first, second = (mechanism(sensitivity, PrivacyLoss(0.375)) for sensitivity in changes)
    assert first.noise == second.noise
    assert [first.sensitivity.statistic, second.sensitivity.statistic] == [sensitivity.statistic for sensitivity in changes]


RELATIONS = ["replace_one", "add_or_remove_one"]
FIVE = Unit("patient", 5)
VALUES = np.array([3, 4])


def test_pure_noise_for_a_unit_is_exactly_as_many_times_larger():
    for relation, kind in product(RELATIONS, ("laplace", "sup_norm", "matrix_laplace")):
        one, five = (mechanism(Sensitivity(relation, 6, 12, 3, 5), PrivacyLoss(0.5, rows=k), (kind,)) for k in (1, 5))
        assert (five.noise.scale, replace(five.loss, rows=1)) == (5 * one.noise.scale, one.loss)


def test_gaussian_noise_for_a_unit_is_that_of_as_many_times_the_change_at_the_same_rho():
    sensitivity = Sensitivity("replace_one", 6, 12, 3)
    share = PrivacyLoss(1, 1e-6, rows=5)
    assert {loss.rows for loss in losses_of_kind("gaussian", share)} == {5}
    five = mechanism(sensitivity, share, ("gaussian",))
    other = mechanism(sensitivity.times(5), PrivacyLoss(1, 1e-6), ("gaussian",))
    assert (five.noise, replace(five.loss, rows=1)) == (other.noise, other.loss)


def test_rows_that_are_no_number_of_rows_are_refused():
    for rows, ask in product((0, -1, 1.5, True, None, "2"), (lambda rows: PrivacyLoss(1, rows=rows), lambda rows: Unit("patient", rows))):
        refuses(ValueError, "rows must be a positive integer, got", ask, rows)


NOISES = [
    (DiscreteLaplace, PrivacyLoss(0.5), Fraction(4)),
    (DiscreteSupNorm, PrivacyLoss(0.5), Fraction(2)),
    (DiscreteMatrixLaplace, PrivacyLoss(0.5), Fraction(4)),
    (DiscreteGaussian, PrivacyLoss(rho=Fraction(1, 16)), Fraction(4)),
]


@pytest.mark.parametrize(("kind", "loss", "scale"), NOISES)
@pytest.mark.parametrize("how", ["release", "standing"])
def test_door_refuses_noise_that_covers_one_row_only(kind, loss, scale, how):
    sensitivity = Sensitivity("replace_one", 2, 2, 1, 2)
    values = np.zeros((2, 2), dtype=np.int64)

    def ask(unit, times):
        accountant = PrivacyAccountant(5, 1e-6, unit=unit)
        arguments = (values,) if how == "release" else ()
        try:
            getattr(accountant, how)(*arguments, kind(times * scale), check_rng(None), name="it", loss=loss, sensitivity=sensitivity)
        except ValueError:
            assert accountant.spent == 0
            raise
        return accountant

    ask(None, 1)
    refuses(ValueError, r"costs .*, more than the loss", ask, FIVE, 1)
    refuses(ValueError, r"costs .*, more than the loss", ask, FIVE, Fraction(49, 10))
    (entry,) = ask(FIVE, 5).ledger
    assert (entry.unit, entry.sensitivity, entry.loss.rows) == ("patient, at most 5 rows", sensitivity.times(5), 1)


def test_door_refuses_a_release_of_several_rows_that_states_no_change():
    accountant = PrivacyAccountant(1, unit=FIVE)
    with pytest.raises(ValueError, match="must state its sensitivity where a unit may have 5 rows, got None; ask the statistic"):
        accountant.release(VALUES, DiscreteLaplace(10**6), check_rng(None), name="it", loss=1)
    refuses(ValueError, "must state its sensitivity", accountant.standing, DiscreteLaplace(10**6), check_rng(None), name="it", loss=1)
    PrivacyAccountant(1, unit=Unit("patient", 1)).release(VALUES, DiscreteLaplace(2), check_rng(None), name="it", loss=1)


def test_a_part_of_a_standing_release_must_cover_the_unit_too():
    sensitivity = Histogram.sensitivity("replace_one")
    door = PrivacyAccountant(1, unit=FIVE).standing(DiscreteLaplace(10), check_rng(None), name="it", loss=1, sensitivity=sensitivity)
    refuses(ValueError, "more than the loss", door.part, DiscreteLaplace(4), PrivacyLoss(0.5), sensitivity)


def test_a_child_has_the_unit_of_its_account_or_one_of_its_own():
    whole = PrivacyAccountant(1, unit=FIVE)
    assert whole.child(0.5, name="part").unit == FIVE
    with pytest.raises(ValueError, match="unit must be that of the whole account, patient, at most 5 rows, got worker"):
        whole.child(0.1, name="part", unit=Unit("worker", 1))
    rows = PrivacyAccountant(1)
    child = rows.child(0.5, name="fit", unit=FIVE)
    assert (child.rows_per_unit, rows.rows_per_unit, rows.ledger[0].unit) == (5, 1, "patient, at most 5 rows")
    refuses(BudgetExceededError, "charge", rows.child, 0.6, name="too much", unit=FIVE)


@pytest.mark.parametrize("k", [1, 2, 3, 50, 10_000])
def test_the_threshold_for_a_unit_is_the_least_that_hides_its_levels(k):
    for n_tables, epsilon, delta in product((1, 3), (1e-6, 0.01, 1, 20), (1e-300, 1e-9, 1e-6, 0.01, 0.4)):
        share = PrivacyLoss(epsilon, delta, rows=k)
        chosen = discovery("replace_one", n_tables, share)
        assert chosen.noise.scale == 2 * n_tables * k / share.epsilon
        assert is_hidden(chosen.noise.scale, chosen.threshold, share.delta / n_tables, k)
        assert not is_hidden(chosen.noise.scale, chosen.threshold - 1, share.delta / n_tables, k)


def test_door_refuses_a_discovery_that_was_made_for_one_row():
    accountant, chosen = PrivacyAccountant(1, 1e-6, unit=FIVE), discovery("replace_one", 1, PrivacyLoss(1, 1e-6))
    refuses(ValueError, "costs more than the loss", accountant.release_discovered, [{"a": 3}], chosen, check_rng(None), name="levels")
    assert accountant.spent == 0
    accountant.release_discovered([{"a": 3}], discovery("replace_one", 1, PrivacyLoss(1, 1e-6, rows=5)), check_rng(None), name="levels")


both = pytest.mark.parametrize("noise", [DiscreteLaplace, DiscreteGaussian])


@both
def test_scale_0_gives_zeros_and_asks_for_no_bits(noise, scripted):
    rng = scripted()
    np.testing.assert_array_equal(noise(0).sample((2, 3), rng), np.zeros((2, 3), dtype=np.int64))
    assert rng.requests == 0


@both
def test_draws_are_int64_of_the_asked_shape(noise):
    for shape in ((), (0,), (5,), (2, 0), (2, 3, 4), 5):
        for scale in (2, 1000, 0.01, 2**58):
            draws = noise(scale).sample(shape, SeededBits(0))
            assert (draws.shape, draws.dtype) == (shape if isinstance(shape, tuple) else (shape,), np.int64)
    refuses(ValueError, "broadcast", noise([1, 2, 3]).sample, (2,), SeededBits(0))


@both
def test_values_of_several_scales_get_the_draws_of_each_scale_one_after_the_other(noise):
    scales, rng = np.array([[50], [3], [1000], [0]]), SeededBits(0)
    draws = noise(scales).sample((4, 400), SeededBits(0))
    for row in (3, 1, 0, 2):  # the least scale first
        np.testing.assert_array_equal(draws[row], noise(int(scales[row, 0])).sample(400, rng))


@pytest.mark.parametrize(("noise", "power"), [(DiscreteLaplace, 1), (DiscreteGaussian, 2)])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5, 2)])
def test_more_scales_than_tables_are_kept_have_the_same_law(noise, power, scale):
    """Chi squared of 64,000 draws of 64 scales that are one to within 2**-40."""
    scales = [scale + Fraction(k, 2**46) for k in range(64)] + [300 + k for k in range(6)]
    assert len(scales) > _noise.MAX_CACHED_TABLES
    assert _noise._FEW > 1000
    draws = noise(scales).sample((1000, 70), SeededBits(0))[:, :64].ravel()
    cells = np.arange(-4, 5) * math.ceil(scale)
    law = np.exp(-(np.abs(cells / float(scale)) ** power) / power)
    found = np.array([np.sum(draws == cell) for cell in cells])
    is_frequent = law / law.sum() > 1e-3
    found, law = found[is_frequent], law[is_frequent]
    assert found.sum() > 15_000
    assert chi_squared(found, law) > ALARM


@both
def test_a_float_scale_is_the_decimal_it_prints(noise):
    assert (noise(0.1).scale, noise(np.float64(2.3)).scale) == (Fraction(1, 10), Fraction(23, 10))
    assert noise(np.array([0.1, 1e15])).scale.tolist() == [Fraction(1, 10), Fraction(10**15)]
    assert (noise(np.int64(2**58)).scale, noise(np.array(4)).scale) == (2**58, 4)
    assert isinstance(noise(np.array(0.1)).scale, Fraction)


@both
@pytest.mark.parametrize("scale", [-1, -0.5, float("nan"), float("inf"), 0.0099, Fraction(1, 101), 2**58 + 1, 1e300, None, "3", 1j, True])
@pytest.mark.parametrize("in_array", [False, True])
def test_other_scales_are_refused_in_one_sentence(noise, scale, in_array):
    with pytest.raises(ValueError, match=r"scale must be 0 or between 1/100 and 2.*58, got .*; rescale") as refusal:
        noise([5, scale] if in_array else scale)
    is_number = isinstance(scale, int | float | Fraction) and scale is not True
    assert short_repr(scale if is_number or not in_array else [5, scale]) in str(refusal.value)


@both
def test_noise_is_frozen_and_does_not_follow_the_array_of_the_caller(noise):
    mine = np.array([1.0, 2.0])
    scales = noise(mine)
    mine[:] = 0
    assert scales.scale.tolist() == [1, 2]
    with pytest.raises(AttributeError):
        scales.scale = 0
    with pytest.raises(ValueError, match="read-only"):
        scales.scale[0] = 0


@both
def test_a_numpy_generator_cannot_draw_the_noise(noise):
    # It has a method `bytes` too, and would draw predictable noise without a word.
    refuses(TypeError, "rng must be a stream made by check_rng, got Generator; use", noise(2).sample, 3, np.random.default_rng(0))
