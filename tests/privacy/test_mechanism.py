"""Noise and loss made together: the noise covers the change at the share, and no kind serves what it cannot."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import covers, rho_of_pure

from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    loss_of_kind,
    mechanism,
    rho_of_epsilon,
    scale_of_kind,
)
from skdpsynth.statistics import Sensitivity

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
        with pytest.raises(ValueError, match=r"kinds must hold one that serves a loss of .*, got .*; give delta"):
            mechanism(sensitivity, share, kinds)
        return
    made = mechanism(sensitivity, share, kinds)
    assert made.sensitivity == sensitivity
    assert made.deviation == math.sqrt(made.noise.variance())
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
        assert not covers(loss, KINDS[kind](smaller).loss(sensitivity))


@pytest.mark.parametrize(
    ("kind", "share", "scale"),
    [
        ("laplace", PrivacyLoss(0.5), Fraction(12)),
        ("sup_norm", PrivacyLoss(0.5), Fraction(6)),
        ("gaussian", PrivacyLoss(rho=0.5), Fraction(math.isqrt(14 * 4**20 - 1) + 1, 2**20)),
        ("laplace", PrivacyLoss(0.5, 1e-6), Fraction(12)),
    ],
)
def test_scales_are_norms_over_losses(kind, share, scale):
    """The change (1, 2, 3): l1 is 6, l2 squared 14, sup 3."""
    made = mechanism(Sensitivity("replace_one", 6, 14, 3), share, (kind,))
    assert made.noise == KINDS[kind](scale)
    assert made.loss == (PrivacyLoss(0.5) if kind != "gaussian" else share)  # pure noise leaves delta alone


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
    assert made.noise.scale == 0
    assert made.loss == share
    assert made.deviation == 0
    accountant = PrivacyAccountant(math.inf, 1e-6)
    values = np.array([3, 4])
    np.testing.assert_array_equal(
        accountant.release(values, made.noise, SecureBits(), name="a", loss=made.loss, sensitivity=made.sensitivity), values
    )


@pytest.mark.parametrize("n_values", [1, 3, 10, 30, 100, 1000])
@pytest.mark.parametrize("share", [PrivacyLoss(1), PrivacyLoss(1, 1e-6), PrivacyLoss(1, 1e-3)])
def test_the_kind_of_least_deviation_is_taken(n_values, share):
    """All values move by 1 together: Laplace grows as n, the sup norm as n / sqrt(3), Gaussian as sqrt(n)."""
    sensitivity = Sensitivity("replace_one", n_values, n_values, 1)
    served = [kind for kind in KINDS if loss_of_kind(kind, share) is not None]
    single = {kind: mechanism(sensitivity, share, (kind,), n_values).deviation for kind in served}
    chosen = mechanism(sensitivity, share, tuple(KINDS), n_values)
    assert chosen.deviation == min(single.values()) == math.sqrt(chosen.noise.variance(n_values))
    if n_values == 1000 and share.delta:
        assert isinstance(chosen.noise, DiscreteGaussian)
    if n_values == 1:
        assert isinstance(chosen.noise, DiscreteLaplace)


def test_a_sampler_that_would_wait_too_long_is_never_the_best_and_a_kind_must_be_known():
    sensitivity = Sensitivity("replace_one", 1000, 1000, 1)
    assert mechanism(sensitivity, PrivacyLoss(1000), ("sup_norm",), 1000).deviation == math.inf
    assert isinstance(mechanism(sensitivity, PrivacyLoss(1000), ("sup_norm", "laplace"), 1000).noise, DiscreteLaplace)
    with pytest.raises(ValueError, match="kinds must be one of 'laplace', 'gaussian', 'sup_norm', 'matrix_laplace', got 'normal'"):
        mechanism(sensitivity, PrivacyLoss(1), ("normal",))
    with pytest.raises(ValueError, match="kinds must hold one that serves"):
        mechanism(sensitivity, PrivacyLoss(1), ())


@pytest.mark.parametrize("share", [PrivacyLoss(0.5), PrivacyLoss(0.5, 1e-6), PrivacyLoss(rho=0.1)])
def test_what_does_not_move_gets_the_least_noise_there_is(share):
    made = mechanism(Sensitivity("replace_one", 0, 0, 0), share)
    assert made.noise.scale == Fraction(1, 100)
    assert made.noise.loss(made.sensitivity) is None


def test_noise_of_several_scales_costs_what_its_least_scale_costs():
    """Any value may be the one with the least scale."""
    sensitivity = Sensitivity("replace_one", 6, 14, 3)
    assert DiscreteLaplace([4, 2, 8]).loss(sensitivity) == PrivacyLoss(3)
    assert DiscreteGaussian([4, 2, 8]).loss(sensitivity) == PrivacyLoss(rho=Fraction(14, 8))
    assert DiscreteSupNorm(2).loss(sensitivity) == PrivacyLoss(Fraction(3, 2))
    assert DiscreteLaplace([4, 0]).loss(sensitivity) == PrivacyLoss(math.inf)
    assert DiscreteLaplace(np.empty(0)).loss(sensitivity) is None


# The door: what is charged covers what the noise costs.

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
    with pytest.raises(ValueError, match="Gaussian noise has no pure loss"):
        release(PrivacyAccountant(100, 1e-6), right, PrivacyLoss(100), sensitivity)
    zcdp, gaussian = right.losses(sensitivity)
    assert gaussian.rho <= rho_of_epsilon(1, 1e-6, gaussian=True)
    assert zcdp.rho > rho_of_epsilon(1, 1e-6)  # as zCDP it would need more noise


def test_what_is_no_noise_change_loss_or_name_is_refused_before_the_charge():
    for mine, other in (("replace_one", "add_or_remove_one"), ("add_or_remove_one", "replace_one")):
        accountant = PrivacyAccountant(1, neighboring=mine)
        with pytest.raises(ValueError, match=rf"sensitivity is stated under '{other}', but this budget is under '{mine}'"):
            release(accountant, DiscreteLaplace(10**6), PrivacyLoss(1), Sensitivity(other, 1, 1, 1))
        for noise in (None, 5, np.array([1, 2])):
            with pytest.raises(TypeError, match=r"noise must be a noise such as DiscreteLaplace\(scale\), got .*; see"):
                release(accountant, noise, 1, None)
        for loss in (np.longdouble("1e-400"), Fraction(1, 10**400)):  # they round to 0
            for attempt in (
                lambda loss=loss, accountant=accountant: release(accountant, DiscreteLaplace(1), loss, None),
                lambda loss=loss, accountant=accountant: accountant.spend(loss, name="a"),
                lambda loss=loss, accountant=accountant: accountant.child(loss, name="a"),
            ):
                with pytest.raises(ValueError, match="epsilon must be a number greater than 0"):
                    attempt()
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
