"""The unit at the door: noise that covers one row where a unit has several is refused."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from internals import is_hidden

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteMatrixLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    Unit,
    check_rng,
    discovery,
    losses_of_kind,
    mechanism,
)
from skdpsynth.statistics import Histogram, Sensitivity

RELATIONS = ["replace_one", "add_or_remove_one"]
FIVE = Unit("patient", 5)
VALUES = np.array([3, 4])


def test_pure_noise_for_a_unit_is_exactly_as_many_times_larger():
    for relation, kind in product(RELATIONS, ("laplace", "sup_norm", "matrix_laplace")):
        one, five = (mechanism(Sensitivity(relation, 6, 12, 3, 5), PrivacyLoss(0.5, rows=k), (kind,)) for k in (1, 5))
        assert five.noise.scale == 5 * one.noise.scale
        assert five.loss.alone == one.loss


def test_gaussian_noise_for_a_unit_is_that_of_as_many_times_the_change_at_the_same_rho():
    sensitivity = Sensitivity("replace_one", 6, 12, 3)
    share = PrivacyLoss(1, 1e-6, rows=5)
    assert {loss.rows for loss in losses_of_kind("gaussian", share)} == {5}
    five = mechanism(sensitivity, share, ("gaussian",))
    other = mechanism(sensitivity.times(5), PrivacyLoss(1, 1e-6), ("gaussian",))
    assert (five.noise, five.loss.alone) == (other.noise, other.loss)


def test_rows_that_are_no_number_of_rows_are_refused():
    for rows, ask in product((0, -1, 1.5, True, None, "2"), (lambda rows: PrivacyLoss(1, rows=rows), lambda rows: Unit("patient", rows))):
        with pytest.raises(ValueError, match="rows must be a positive integer, got"):
            ask(rows)


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
    with pytest.raises(ValueError, match=r"costs .*, more than the loss"):
        ask(FIVE, 1)
    with pytest.raises(ValueError, match=r"costs .*, more than the loss"):
        ask(FIVE, Fraction(49, 10))
    (entry,) = ask(FIVE, 5).ledger
    assert (entry.unit, entry.sensitivity, entry.loss.rows) == ("patient, at most 5 rows", sensitivity.times(5), 1)


def test_door_refuses_a_release_of_several_rows_that_states_no_change():
    accountant = PrivacyAccountant(1, unit=FIVE)
    with pytest.raises(ValueError, match="must state its sensitivity where a unit may have 5 rows, got None; ask the statistic"):
        accountant.release(VALUES, DiscreteLaplace(10**6), check_rng(None), name="it", loss=1)
    with pytest.raises(ValueError, match="must state its sensitivity"):
        accountant.standing(DiscreteLaplace(10**6), check_rng(None), name="it", loss=1)
    PrivacyAccountant(1, unit=Unit("patient", 1)).release(VALUES, DiscreteLaplace(2), check_rng(None), name="it", loss=1)


def test_a_part_of_a_standing_release_must_cover_the_unit_too():
    sensitivity = Histogram.sensitivity("replace_one")
    door = PrivacyAccountant(1, unit=FIVE).standing(DiscreteLaplace(10), check_rng(None), name="it", loss=1, sensitivity=sensitivity)
    with pytest.raises(ValueError, match="more than the loss"):
        door.part(DiscreteLaplace(4), PrivacyLoss(0.5), sensitivity)


def test_a_child_has_the_unit_of_its_account_or_one_of_its_own():
    whole = PrivacyAccountant(1, unit=FIVE)
    assert whole.child(0.5, name="part").unit == FIVE
    with pytest.raises(ValueError, match="unit must be that of the whole account, patient, at most 5 rows, got worker, at most 1 row"):
        whole.child(0.1, name="part", unit=Unit("worker", 1))
    rows = PrivacyAccountant(1)
    child = rows.child(0.5, name="fit", unit=FIVE)
    assert (child.rows_per_unit, rows.rows_per_unit, rows.ledger[0].unit) == (5, 1, "patient, at most 5 rows")
    with pytest.raises(BudgetExceededError):
        rows.child(0.6, name="too much", unit=FIVE)


def test_records_keep_the_unit_and_the_frame_shows_it():
    accountant = PrivacyAccountant(1, unit=FIVE)
    accountant.spend(0.5, name="it")
    assert accountant.record().unit == FIVE
    assert accountant.record().reopened().rows_per_unit == 5
    pytest.importorskip("pandas")
    assert accountant.to_frame()["unit"].tolist() == ["patient, at most 5 rows"]


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
    with pytest.raises(ValueError, match="costs more than the loss"):
        accountant.release_discovered([{"a": 3}], chosen, check_rng(None), name="levels")
    assert accountant.spent == 0
    accountant.release_discovered([{"a": 3}], discovery("replace_one", 1, PrivacyLoss(1, 1e-6, rows=5)), check_rng(None), name="levels")
