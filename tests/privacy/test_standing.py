"""The standing release: charged once, never without noise, and never for more than was charged."""

import ast
import math
import pickle
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from internals import Sensitivity
from laws import refuses

import skdpsynth
import skdpsynth.privacy
from skdpsynth.continual import BinaryCounter, InhomogeneousCounter, KaryCounter, SparseCounter, SquareRootCounter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, PrivacyAccountant, PrivacyLoss, SecureBits, SeededBits

PACKAGE = Path(skdpsynth.__file__).parent

ONE = Sensitivity("replace_one", 1, 1, 1)


def door_of(epsilon=1, scale=2, **own):
    return PrivacyAccountant(epsilon).standing(DiscreteLaplace(scale), SecureBits(), name="stream", loss=epsilon, **own)


def test_only_the_door_makes_a_standing_release():
    makers = []
    for path in PACKAGE.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        makers += [path.relative_to(PACKAGE).as_posix() for call in calls if ast.unparse(call.func).endswith("ContinualRelease")]
    assert {*makers} == {"privacy/_accountant.py", "privacy/_mechanism.py"}
    assert "ContinualRelease" not in skdpsynth.privacy.__all__


def test_noise_of_scale_0_is_refused_unless_the_loss_is_infinite():
    accountant = PrivacyAccountant(math.inf)
    refuses(ValueError, "scale 0 has an infinite loss", accountant.standing, DiscreteLaplace(0), SecureBits(), name="stream", loss=5)
    refuses(ValueError, "scale 0 has an infinite loss", door_of().part, DiscreteLaplace(0), PrivacyLoss(epsilon=0.5), ONE)
    door = accountant.standing(DiscreteLaplace(0), SecureBits(), name="stream", loss=math.inf)
    assert door.release(np.array([3]), "draw") == 3


def test_a_part_that_costs_more_than_was_charged_or_is_not_covered_is_refused():
    door = door_of(1)
    for more in ({"epsilon": 1.01}, {"epsilon": 0.5, "delta": 1e-9}, {"rho": 0.1}, {"epsilon": math.inf}):
        with pytest.raises(ValueError, match="accountant was charged epsilon=1 for what stands here, less than"):
            door.part(DiscreteLaplace(5), PrivacyLoss(**more), ONE)
    with pytest.raises(ValueError, match=r"costs epsilon=100, more than the loss epsilon=0.5 that is charged"):
        door.part(DiscreteLaplace(Fraction(1, 100)), PrivacyLoss(epsilon=0.5), ONE)
    with pytest.raises(ValueError, match="stated under 'add_or_remove_one'"):
        door.part(DiscreteLaplace(5), PrivacyLoss(epsilon=0.5), Sensitivity("add_or_remove_one", 1, 1, 1))


def test_a_part_has_its_own_noise_and_the_accountant_of_the_whole():
    door = door_of(1, scale=1)
    part = door.part(DiscreteLaplace(10**6), PrivacyLoss(epsilon=Fraction(1, 4)), ONE)
    assert np.abs(part.release(np.zeros(50, dtype=np.int64), "draw")).max() > 1000
    door._accountant.close()
    refuses(BudgetExceededError, "charge", part.release, np.zeros(1, dtype=np.int64), "draw")


def test_a_charge_serves_no_counter_that_costs_more():
    tiny = PrivacyAccountant(1).standing(DiscreteLaplace(10**6), SecureBits(), name="tiny", loss=1e-6)
    for ask in (
        *(partial(kind, 100, epsilon=10, accountant=tiny) for kind in (KaryCounter, BinaryCounter, SparseCounter)),
        lambda: InhomogeneousCounter().start_level(9, 10, tiny),
    ):
        refuses(ValueError, r"less than the epsilon=10 that is needed[^\n]*$", ask)
    door = PrivacyAccountant(2, 1e-6).standing(DiscreteGaussian(10**9), SecureBits(), name="stream", loss=PrivacyLoss(rho=0.01))
    SquareRootCounter(10, rho=0.01, accountant=door).update(1)
    refuses(ValueError, "less than the rho", SquareRootCounter, 10, rho=0.02, accountant=door)
    refuses(ValueError, "less than the epsilon", KaryCounter, 10, epsilon=1, accountant=door)
    KaryCounter(10, epsilon=0.1, accountant=door)  # which is 0.005 in rho


def test_junk_for_an_accountant_is_refused_at_once():
    counter = InhomogeneousCounter("kary")
    for junk in (1.0, "accountant", object(), PrivacyLoss(epsilon=1), SecureBits(), [], PrivacyAccountant):
        for kind in (KaryCounter, BinaryCounter, SparseCounter, SquareRootCounter):
            refuses(ValueError, "accountant must be None or a PrivacyAccountant", kind, 5, accountant=junk)
        for ask in (lambda junk=junk: counter.start_level(5, 1, junk), lambda junk=junk: counter.resume(junk, SecureBits())):
            refuses(ValueError, "accountant must be", ask)
    refuses(ValueError, "accountant must be a PrivacyAccountant, got None", counter.start_level, 5, 1, None)


def test_only_int64_is_released_and_no_nodes_whose_noise_could_be_missing_or_cancel():
    for values in (np.zeros(2), np.zeros(2, dtype=np.int32), [0.5]):
        for ask in (lambda v=values: door_of().release(v, "draw"), lambda v=values: door_of().release_nodes(v, [(0, "node", 1)], {})):
            refuses(TypeError, "values must be int64", ask)
    for nodes in ([], [(0, "a", 1), (0, "a", -1)], [(0, "a", 1), (0, "b", 1)], [(0, "a", 0)], [(0, "a", 2)]):
        refuses(ValueError, "nodes must be at least one, each once, with signs 1 or -1", door_of().release_nodes, np.array([5]), nodes, {})


def test_the_noise_of_a_node_is_drawn_once_and_signed():
    door, kept = door_of(scale=1000), {}
    first = door.release_nodes(np.array([5]), [("a", "node a", 1), ("b", "node b", -1)], kept)
    assert first == 5 + kept["a"] - kept["b"]
    assert (door.release_nodes(np.array([5]), [("b", "node b", 1)], kept), set(kept)) == (5 + kept["b"], {"a", "b"})


def test_seeded_draws_follow_from_their_names():
    door = PrivacyAccountant(1).standing(DiscreteLaplace(100), SeededBits(3), name="stream")
    zeros = np.zeros(5, dtype=np.int64)
    a, b = door.release(zeros, "a"), door.release(zeros, "b")
    assert np.array_equal(a, door.release_nodes(zeros, [(1, "a", 1)], {}))
    assert not np.array_equal(a, b)


def reopen(accountant):
    return pickle.loads(pickle.dumps(accountant.record())).reopen()


def test_a_door_opens_again_under_what_its_record_shows_and_charges_nothing():
    for child in (False, True):
        accountant = PrivacyAccountant(Fraction(1, 2))
        first = (accountant.child(0.5, name="rows 0 to 9") if child else accountant).standing(
            DiscreteLaplace(4), SecureBits(), name="stream", loss=Fraction(1, 2)
        )
        again = reopen(accountant)
        with pytest.raises(ValueError, match=r"costs epsilon=100, more than the loss epsilon=0.5"):
            again.standing_again(DiscreteLaplace(Fraction(1, 100)), SecureBits(), name="stream", loss=0.5, sensitivity=ONE)
        door = again.standing_again(DiscreteLaplace(4), SecureBits(), name="stream", loss=Fraction(1, 2), sensitivity=ONE)
        for one in (first, door):  # charged once, whatever is released
            for i in range(3):
                one.release(np.zeros(3, dtype=np.int64), f"draw {i}")
            assert one.loss == PrivacyLoss(epsilon=Fraction(1, 2))
        assert accountant.spent == again.spent == Fraction(1, 2)
        assert len(again.ledger) == 1


@pytest.mark.parametrize(("name", "loss"), [("other", 0.5), ("stream", 0.51), ("stream", math.inf), ("plain", 0.4)])
def test_a_door_opens_again_for_nothing_that_was_not_charged(name, loss):
    accountant = PrivacyAccountant(1)
    accountant.standing(DiscreteLaplace(4), SecureBits(), name="stream", loss=0.5)
    accountant.spend(0.4, name="plain")
    with pytest.raises(ValueError, match="accountant holds no charge of"):
        reopen(accountant).standing_again(DiscreteLaplace(4), SecureBits(), name=name, loss=loss, sensitivity=ONE)


def test_a_charge_is_taken_up_once_and_only_after_it_was_saved():
    accountant = PrivacyAccountant(1)
    accountant.standing(DiscreteLaplace(4), SecureBits(), name="stream", loss=0.5)
    with pytest.raises(ValueError, match="from before it was saved"):
        accountant.standing_again(DiscreteLaplace(4), SecureBits(), name="stream", loss=0.5, sensitivity=ONE)  # its own door stands
    again = reopen(accountant)
    again.standing_again(DiscreteLaplace(4), SecureBits(), name="stream", loss=0.5, sensitivity=ONE)
    refuses(ValueError, "holds no charge", again.standing_again, DiscreteLaplace(4), SecureBits(), name="stream", loss=0.5, sensitivity=ONE)


def test_levels_that_were_loaded_refuse_a_record_that_did_not_pay_for_them():
    accountant = PrivacyAccountant(1)
    counter = InhomogeneousCounter("kary", name="levels")
    counter.start_level(10, 1, accountant)
    again = pickle.loads(pickle.dumps(counter))
    for wrong in (PrivacyAccountant(5), accountant):
        refuses(ValueError, "holds no charge of epsilon=1 for 'levels'", again.resume, wrong, SecureBits())
    again.resume(reopen(accountant), SecureBits())
    again.update(1)
