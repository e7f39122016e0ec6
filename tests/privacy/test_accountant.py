"""The accountant: charge first, then draw; refuse before both; never let a budget be spent twice."""

import copy
import math
import pickle
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Noise, lock_of
from sklearn.base import BaseEstimator, clone

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    SecureBits,
    SeededBits,
    check_accountant,
    epsilon_of_rho,
    rho_of_epsilon,
)

VALUES = np.array([10, 20, 30])


class WatchedNoise(Noise):
    """Noise that notes whether it was drawn and what the accountant had spent by then; a noise of somebody's own has no more."""

    scale = Fraction(1)

    def __init__(self, accountant=None, fails=False):
        self._accountant = accountant
        self._fails = fails
        self.spent_when_drawn = []

    def sample(self, size, rng):
        self.spent_when_drawn.append(None if self._accountant is None else self._accountant.spent)
        if self._fails:
            raise KeyboardInterrupt
        return np.zeros(size, dtype=np.int64)

    def variance(self, n_values=1):
        return 0.0

    def _finite_loss(self, change, scale):
        return PrivacyLoss(epsilon=change.l1 / scale)


class Holder(BaseEstimator):
    """An estimator that takes an accountant."""

    def __init__(self, accountant=None):
        self.accountant = accountant


def release(accountant, noise=None, values=VALUES, rng=None, **arguments):
    noise = DiscreteLaplace(1) if noise is None else noise
    return accountant.release(values, noise, SeededBits(0) if rng is None else rng, name="counts", **arguments)


# What a release does, and in which order.


def test_who_is_refused_is_not_led_to_spend_twice():
    accountant = PrivacyAccountant(1)
    accountant.spend(Fraction(3, 4), name="a")
    with pytest.raises(BudgetExceededError, match=r"give it a smaller epsilon .*, or charge what was spent here to a larger budget by"):
        accountant.spend(1, name="b")
    accountant.spend(Fraction(1, 4), name="c")
    with pytest.raises(
        BudgetExceededError, match="only 0 of 1 remains; charge what was spent here to a larger budget by its `import_record`"
    ):
        accountant.spend(Fraction(1, 100), name="d")


def test_a_release_adds_the_noise_of_its_stream_to_the_values():
    noise = DiscreteLaplace(5)
    noisy = release(PrivacyAccountant(1), noise, rng=SeededBits(3))
    np.testing.assert_array_equal(noisy, VALUES + noise.sample(3, SeededBits(3)))
    assert noisy.dtype == np.int64


def test_an_account_that_is_opened_at_its_file_keeps_to_the_digit_what_it_promised(tmp_path):
    PrivacyAccountant(0.3, 1e-6, neighboring="add_or_remove_one", ledger=tmp_path / "budget.db").close()
    again = PrivacyAccountant.at(tmp_path / "budget.db")
    again.close()
    assert (again.epsilon, again.delta, again.neighboring) == (Fraction(3, 10), Fraction(1, 10**6), "add_or_remove_one")


def test_a_release_is_charged_before_its_noise_is_drawn():
    accountant = PrivacyAccountant(1)
    noise = WatchedNoise(accountant)
    release(accountant, noise, loss=0.25)
    assert noise.spent_when_drawn == [Fraction(1, 4)]


def test_an_interrupted_draw_leaves_the_charge():
    accountant = PrivacyAccountant(1)
    with pytest.raises(KeyboardInterrupt):
        release(accountant, WatchedNoise(fails=True), loss=0.25)
    assert accountant.spent == Fraction(1, 4)
    assert len(accountant.ledger) == 1


def test_a_refused_release_draws_nothing_and_leaves_the_ledger_alone():
    accountant = PrivacyAccountant(1)
    release(accountant, loss=0.9)
    before = accountant.ledger
    noise = WatchedNoise()
    with pytest.raises(BudgetExceededError):
        release(accountant, noise, loss=0.2)
    assert noise.spent_when_drawn == []
    assert accountant.ledger == before
    release(accountant, loss=0.1)  # what remained can still be spent


def test_a_release_without_a_loss_costs_all_that_remains():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.3, name="links")
    release(accountant)
    assert accountant.ledger[-1].loss == PrivacyLoss(0.7)
    assert accountant.remaining == 0
    with pytest.raises(BudgetExceededError, match="Nothing remains of epsilon=1; "):
        release(accountant)


def test_the_ledger_tells_what_was_released_with_which_noise_and_randomness():
    accountant = PrivacyAccountant(2)
    release(accountant, DiscreteLaplace([1, 2, 2]), loss=1)
    release(accountant, DiscreteLaplace(0.5), rng=SecureBits(), loss=0.5)
    accountant.spend(0.25, name="model")
    first, second, third = accountant.ledger
    assert (first.name, first.loss, first.randomness, first.n_values) == ("counts", PrivacyLoss(1), "seeded", 3)
    assert (first.noise, first.scale) == ("DiscreteLaplace", (1, 2))
    assert first.describe() == accountant.noise_of(first) == "DiscreteLaplace(scale=1, 2)"
    assert (second.describe(), second.randomness) == ("DiscreteLaplace(scale=0.5)", "secure")
    assert (third.name, third.describe(), third.randomness) == ("model", None, None)


def test_the_ledger_never_holds_the_seed():
    accountant = PrivacyAccountant(1)
    release(accountant, rng=SeededBits(918273645).child("a"))
    assert "918273645" not in repr(accountant.ledger)
    assert (918273645).to_bytes(4, "little") not in pickle.dumps(accountant.record())


def test_the_callers_ledger_is_a_copy():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.5, name="a")
    assert isinstance(accountant.ledger, tuple)
    with pytest.raises(AttributeError):
        accountant.ledger[0].loss = PrivacyLoss(0.1)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_values_of_every_shape_can_be_released(shape):
    for scale in (2, np.full(shape, 2)):
        noisy = release(PrivacyAccountant(1), DiscreteLaplace(scale), values=np.zeros(shape, dtype=np.int64))
        assert np.shape(noisy) == shape


# What a release refuses, before any charge.


@pytest.mark.parametrize("dtype", [float, np.int32, np.uint64, bool, object])
def test_values_that_are_not_int64_are_refused_before_the_charge(dtype):
    accountant = PrivacyAccountant(1)
    with pytest.raises(TypeError, match=r"values must be int64, .*, got .*; quantise"):
        release(accountant, values=VALUES.astype(dtype))
    assert accountant.ledger == ()


@pytest.mark.parametrize("noise", [DiscreteLaplace(0), DiscreteGaussian(0), DiscreteLaplace([1, 0, 1])])
@pytest.mark.parametrize("loss", [PrivacyLoss(0.5), PrivacyLoss(rho=0.01), None])
def test_no_noise_at_a_finite_loss_is_refused_before_the_charge(noise, loss):
    accountant = PrivacyAccountant(1, 1e-6)
    with pytest.raises(ValueError, match=r"'counts' with scale 0 has an infinite loss, got .*; give"):
        release(accountant, noise, loss=loss)
    assert accountant.ledger == ()


@pytest.mark.parametrize("scale", [[1, 2], [[1, 2, 3]], [[1], [2]]])
def test_scales_of_another_shape_than_the_values_are_refused_before_the_charge(scale):
    accountant = PrivacyAccountant(1)
    with pytest.raises(ValueError, match=r"broadcast to the values of shape \(3,\), got scales of shape .*; reshape"):
        release(accountant, DiscreteLaplace(scale))
    assert accountant.ledger == ()


@pytest.mark.parametrize("rng", [np.random.default_rng(0), np.random.RandomState(0), 0])
def test_what_is_no_stream_is_refused_before_the_charge(rng):
    accountant = PrivacyAccountant(1)
    with pytest.raises(TypeError, match=r"rng must be a stream made by check_rng, got .*; use"):
        release(accountant, rng=rng)
    assert accountant.ledger == ()


@pytest.mark.parametrize("loss", [0, -1, float("nan"), "1"])
def test_a_loss_that_is_no_loss_is_refused_before_the_charge(loss):
    accountant = PrivacyAccountant(1)
    with pytest.raises(ValueError, match="epsilon must be a number greater than 0"):
        release(accountant, loss=loss)
    with pytest.raises(ValueError, match="epsilon must be a number greater than 0"):
        accountant.spend(loss, name="a")
    assert accountant.ledger == ()


@pytest.mark.parametrize(
    "arguments", [{"epsilon": 0}, {"epsilon": float("nan")}, {"epsilon": 1, "delta": 1}, {"epsilon": 1, "neighboring": "swap"}]
)
def test_a_budget_outside_its_domain_is_refused(arguments):
    with pytest.raises(ValueError, match=r"must be .*, got .*; "):
        PrivacyAccountant(**arguments)


# Arithmetic of the budget.


def test_ten_tenths_spend_exactly_one():
    accountant = PrivacyAccountant(1.0)
    for _ in range(10):
        accountant.spend(0.1, name="tenth")
    assert accountant.spent == 1
    assert accountant.remaining == 0
    with pytest.raises(BudgetExceededError):
        accountant.spend(1e-300, name="more")


def test_three_tenths_fit_in_0_3():
    accountant = PrivacyAccountant(0.3)  # in binary floats 3 * 0.1 > 0.3
    for _ in range(3):
        accountant.spend(0.1, name="tenth")
    assert accountant.remaining == 0


positive = st.one_of(st.integers(1, 1000), st.floats(1e-6, 1e6), st.fractions(min_value=Fraction(1, 1000), max_value=1000))


@given(epsilon=positive, weights=st.lists(positive, min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_split_is_spent_to_the_last_bit(epsilon, weights):
    accountant = PrivacyAccountant(epsilon)
    for share in accountant.split(weights):
        accountant.spend(share, name="share")
    assert accountant.remaining == 0
    assert accountant.spent == accountant.epsilon


def test_what_remains_is_a_plain_fraction():
    remaining = PrivacyAccountant(0.3).remaining
    assert type(remaining) is Fraction
    assert not callable(remaining)


@given(epsilon=positive, losses=st.lists(positive, max_size=20))
@settings(max_examples=100, deadline=None)
def test_spent_and_remaining_sum_to_the_budget_and_never_pass_it(epsilon, losses):
    accountant = PrivacyAccountant(epsilon)
    for loss in losses:
        before = accountant.spent
        if PrivacyLoss(loss).epsilon > accountant.remaining:
            with pytest.raises(BudgetExceededError):
                accountant.spend(loss, name="a")
            assert accountant.spent == before
        else:
            accountant.spend(loss, name="a")
            assert accountant.spent == before + PrivacyLoss(loss).epsilon
    assert accountant.spent + accountant.remaining == accountant.epsilon
    assert accountant.remaining >= 0


def test_a_split_shares_out_what_remains():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.2, name="first")
    assert accountant.split([1, 3]) == [Fraction(1, 5), Fraction(3, 5)]


def test_a_split_of_nothing_is_refused():
    accountant = PrivacyAccountant(1)
    accountant.spend(1, name="all")
    with pytest.raises(BudgetExceededError, match="Nothing remains"):
        accountant.split([1, 1])


def test_an_infinite_budget_allows_releases_without_noise():
    accountant = PrivacyAccountant(float("inf"))
    assert accountant.split([1, 2]) == [math.inf, math.inf]
    np.testing.assert_array_equal(release(accountant, DiscreteLaplace(0)), VALUES)
    release(accountant, loss=1)
    np.testing.assert_array_equal(release(accountant, DiscreteGaussian(0), loss=PrivacyLoss(rho=math.inf)), VALUES)
    assert accountant.spent == accountant.remaining == math.inf
    assert "inf" in repr(accountant)


def test_a_finite_budget_refuses_an_infinite_loss():
    accountant = PrivacyAccountant(1, 1e-6)
    for loss in (PrivacyLoss(math.inf), PrivacyLoss(rho=math.inf)):
        with pytest.raises(BudgetExceededError, match="costs epsilon=inf, but only 1 of 1 remains"):
            release(accountant, DiscreteLaplace(0), loss=loss)
    assert accountant.ledger == ()


def test_zcdp_and_pure_losses_share_a_budget():
    accountant = PrivacyAccountant(2, 1e-6)
    accountant.spend(0.5, name="pure")
    accountant.spend(PrivacyLoss(rho=0.01), name="first")
    accountant.spend(PrivacyLoss(rho=0.02), name="second")
    assert accountant.spent == Fraction(1, 2) + epsilon_of_rho(0.03, 1e-6)
    accountant._planned = True
    accountant.spend(accountant.remaining, name="rest")
    assert accountant.spent == 2
    with pytest.raises(BudgetExceededError):
        accountant.spend(PrivacyLoss(rho=1e-9), name="more")


def test_a_calibrated_rho_fits_its_budget():
    for epsilon in (0.1, 1, 7.3):
        accountant = PrivacyAccountant(epsilon, 1e-7)
        release(accountant, DiscreteGaussian(9), loss=PrivacyLoss(rho=rho_of_epsilon(epsilon, 1e-7)))
        assert 0 <= accountant.remaining < 1e-6 * epsilon


def test_a_zcdp_loss_needs_a_delta():
    accountant = PrivacyAccountant(1)
    with pytest.raises(ValueError, match="'a' has a loss in rho, which needs delta > 0; give"):
        accountant.spend(PrivacyLoss(rho=0.01), name="a")
    assert accountant.ledger == ()


def test_delta_is_a_budget_too():
    accountant = PrivacyAccountant(1, 1e-6)
    accountant.spend(PrivacyLoss(0.1, 1e-6), name="a")
    with pytest.raises(BudgetExceededError, match=r"'b' costs delta=1e-09, but only 0 of 1e-06 remains; give"):
        accountant.spend(PrivacyLoss(0.1, 1e-9), name="b")
    with pytest.raises(BudgetExceededError, match=r"'c' costs rho=0.001, but that leaves none of delta=1e-06 for the losses in rho; give"):
        accountant.spend(PrivacyLoss(rho=0.001), name="c")
    assert len(accountant.ledger) == 1


def test_delta_that_zcdp_needs_cannot_be_handed_away():
    accountant = PrivacyAccountant(1, 1e-6)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    accountant.spend(PrivacyLoss(rho=0.001), name="a")
    with pytest.raises(BudgetExceededError, match="leaves none of delta"):
        accountant.child(0.1, 1e-6, name="b")
    accountant.child(0.1, 5e-7, name="b")
    assert accountant.spent == Fraction(1, 10) + epsilon_of_rho(0.001, 5e-7)


# Children.


def test_a_child_charges_its_parent_at_once_and_in_full():
    parent = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    child = parent.child(0.4, 1e-7, name="synthesizer")
    assert parent.spent == Fraction(4, 10)
    assert parent.ledger[0].loss == PrivacyLoss(0.4, 1e-7)
    assert (child.epsilon, child.delta, child.neighboring) == (Fraction(4, 10), Fraction(1, 10**7), "add_or_remove_one")
    assert child.ledger == ()
    child.spend(0.4, name="all of it")
    assert parent.spent == Fraction(4, 10)


def test_a_child_that_does_not_fit_is_refused():
    parent = PrivacyAccountant(1)
    parent.child(0.7, name="first")
    with pytest.raises(BudgetExceededError, match=r"'second' costs epsilon=0.4, but only 0.3 of 1 remains; give"):
        parent.child(0.4, name="second")
    assert len(parent.ledger) == 1


@given(groups=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_group_costs_its_largest_child(groups):
    parent = PrivacyAccountant(100)
    for number, (group, tenths) in enumerate(groups):
        parent.child(Fraction(tenths, 10), name=f"stratum {number}", group=group)
    largest = {group: max(tenths for name, tenths in groups if name == group) for group, _ in groups}
    assert parent.spent == Fraction(sum(largest.values()), 10)


def test_a_group_costs_the_largest_delta_too():
    parent = PrivacyAccountant(1, 1e-6)
    parent.child(0.5, 1e-7, name="a", group="strata")
    parent.child(0.2, 9e-7, name="b", group="strata")
    parent.spend(PrivacyLoss(0.1, 1e-7), name="c")
    assert parent.spent == Fraction(6, 10)
    with pytest.raises(BudgetExceededError):
        parent.spend(PrivacyLoss(0.1, 1e-12), name="d")


def test_only_the_growth_of_a_group_must_fit():
    parent = PrivacyAccountant(1)
    parent.child(0.9, name="a", group="strata")
    parent.child(0.9, name="b", group="strata")
    with pytest.raises(BudgetExceededError) as refusal:
        parent.child(1.1, name="c", group="strata")
    assert refusal.value.requested == Fraction(2, 10)
    assert refusal.value.remaining == Fraction(1, 10)


# One budget, one object.


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, clone, lambda a: clone(Holder(a)).accountant])
def test_a_copy_is_the_accountant_itself(duplicate):
    accountant = PrivacyAccountant(1)
    assert duplicate(accountant) is accountant


@pytest.mark.parametrize("inside", [lambda a: a, lambda a: [a], Holder])
def test_an_open_accountant_cannot_be_pickled(inside):
    with pytest.raises(TypeError, match=r"open PrivacyAccountant cannot be pickled, .*; use n_jobs=1 or threads, or pickle its record\(\)"):
        pickle.dumps(inside(PrivacyAccountant(1)))


def test_a_record_survives_pickling_and_cannot_be_spent_from():
    accountant = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    release(accountant, loss=0.25)
    accountant.spend(PrivacyLoss(rho=0.001), name="moments")
    record = pickle.loads(pickle.dumps(accountant.record()))
    assert record.closed
    assert record.ledger == accountant.ledger
    assert (record.epsilon, record.delta, record.neighboring) == (accountant.epsilon, accountant.delta, accountant.neighboring)
    assert (record.spent, record.remaining) == (accountant.spent, accountant.remaining)
    noise = WatchedNoise()
    for attempt in (
        lambda: record.spend(0.1, name="a"),
        lambda: release(record, noise, loss=0.1),
        lambda: record.child(0.1, name="a"),
        lambda: release(record, noise),
    ):
        with pytest.raises(BudgetExceededError, match="cannot be charged to a closed record; set accountant"):
            attempt()
    assert noise.spent_when_drawn == []
    assert record.ledger == accountant.ledger


def test_a_record_does_not_follow_the_accountant_nor_close_it():
    accountant = PrivacyAccountant(1)
    record = accountant.record()
    accountant.spend(0.5, name="later")
    assert record.ledger == ()
    assert not accountant.closed


def test_a_closed_accountant_is_a_record():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.5, name="a")
    accountant.close()
    with pytest.raises(BudgetExceededError, match="closed record"):
        accountant.spend(0.1, name="b")
    assert pickle.loads(pickle.dumps(accountant)).spent == Fraction(1, 2)


def test_a_forked_process_cannot_spend(in_child_process):
    accountant = PrivacyAccountant(1)
    for attempt in (
        lambda: accountant.spend(0.1, name="a"),
        lambda: release(accountant, WatchedNoise()),
        lambda: accountant.child(0.1, name="a"),
    ):
        error = in_child_process(attempt)
        assert isinstance(error, RuntimeError)
        assert "cannot be charged in another process than the accountant's, where the charge would be lost; use n_jobs=1" in str(error)
    assert accountant.spent == 0


def test_a_process_forked_in_the_middle_of_a_charge_is_refused_too(in_child_process):
    import signal

    accountant = PrivacyAccountant(1)
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock_of(accountant):
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)

    def attempt():
        signal.alarm(5)  # ends this child if it waits for a lock that nobody will release
        accountant.spend(0.1, name="a")

    try:
        assert isinstance(in_child_process(attempt), RuntimeError)
    finally:
        done.set()
        thread.join()


def test_a_forked_process_can_read_a_record(in_child_process):
    accountant = PrivacyAccountant(1)
    accountant.spend(0.25, name="a")
    assert in_child_process(lambda: accountant.record().spent) == Fraction(1, 4)


def test_threads_cannot_overspend():
    accountant = PrivacyAccountant(1)
    start = threading.Barrier(8)
    granted, refused = [], []

    def spend():
        start.wait()
        for _ in range(25):
            try:
                accountant.spend(0.01, name="a")
                granted.append(1)
            except BudgetExceededError:
                refused.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (len(granted), len(refused)) == (100, 100)
    assert accountant.spent == 1


# What it tells.


def test_a_refusal_carries_its_numbers_and_survives_pickling():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.75, name="a")
    with pytest.raises(BudgetExceededError, match=r"'counts' costs epsilon=0.5, but only 0.25 of 1 remains; give") as refusal:
        release(accountant, loss=0.5)
    for error in (refusal.value, pickle.loads(pickle.dumps(refusal.value)), copy.copy(refusal.value)):
        assert (error.requested, error.remaining) == (Fraction(1, 2), Fraction(1, 4))
        assert str(error) == str(refusal.value)


def test_a_refused_zcdp_loss_tells_the_epsilon_it_would_add():
    accountant = PrivacyAccountant(1, 1e-6)
    accountant.spend(PrivacyLoss(rho=0.02), name="a")
    with pytest.raises(BudgetExceededError) as refusal:
        accountant.spend(PrivacyLoss(rho=0.02), name="b")
    assert refusal.value.requested == epsilon_of_rho(0.04, 1e-6) - epsilon_of_rho(0.02, 1e-6)


COLUMNS = ["name", "epsilon", "delta", "loss", "rho", "noise", "change", "n_values", "randomness", "group", "time"]
COLUMNS += ["dataset", "unit", "process", "note"]


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_the_ledger_is_a_data_frame_of_the_asked_library(backend):
    library = pytest.importorskip(backend)
    accountant = PrivacyAccountant(1, 1e-6)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    release(accountant, loss=0.25)
    accountant.spend(PrivacyLoss(rho=0.001), name="moments")
    accountant.child(0.1, 1e-7, name="stratum", group="strata")
    frame = accountant.to_frame(backend)
    assert isinstance(frame, library.DataFrame)
    assert list(frame.columns) == COLUMNS
    assert list(frame["name"]) == ["counts", "moments", "stratum"]
    assert list(frame["loss"]) == ["epsilon=0.25", "rho=0.001", "epsilon=0.1, delta=1e-07"]
    rho, change, n_values = ([None if x is None or math.isnan(x) else x for x in frame[c]] for c in ("rho", "change", "n_values"))
    assert (rho, change, n_values) == ([None, 0.001, None], [None] * 3, [3, None, None])
    assert next(iter(frame["noise"])) == "DiscreteLaplace(scale=1)"
    assert list(frame["group"])[2] == "strata"
    assert all(accountant.to_frame(backend, parts=True)["name"] == frame["name"])


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_an_empty_ledger_is_a_frame_with_the_same_columns(backend):
    pytest.importorskip(backend)
    frame = PrivacyAccountant(1).to_frame(backend)
    assert frame.shape == (0, len(COLUMNS))
    assert list(frame.columns) == COLUMNS
    assert list(PrivacyAccountant(1).to_frame(backend, parts=True).columns) == ["name", "part_of", *COLUMNS[1:]]


def test_a_library_without_frames_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="backend must be one of 'pandas', 'polars', 'pyarrow', got 'numpy'"):
        PrivacyAccountant(1).to_frame("numpy")


def test_the_representation_tells_what_is_spent_of_what():
    accountant = PrivacyAccountant(1, 1e-6)
    accountant.spend(0.25, name="a")
    assert repr(accountant) == "<PrivacyAccountant (open): spent epsilon=0.25 of 1, delta=0 of 1e-06, replace_one, 1 entries>"
    assert repr(accountant.record()).startswith("<PrivacyAccountant (record)")


def test_an_accountant_parameter_is_none_or_an_accountant():
    check_accountant(None)
    check_accountant(PrivacyAccountant(1))
    with pytest.raises(ValueError, match=r"accountant must be None or a PrivacyAccountant, got float; make one"):
        check_accountant(1.0)


def test_a_parent_tells_the_noise_and_randomness_of_its_children():
    parent = PrivacyAccountant(1)
    values = np.array([1, 2])
    parent.child(0.5, name="first").release(values, DiscreteLaplace(4), SecureBits(), name="counts")
    grandparent = PrivacyAccountant(2)
    inner = grandparent.child(1, name="model").child(0.5, name="part")
    assert grandparent.ledger[0].randomness is None
    inner.release(values, DiscreteLaplace(4), SeededBits(0), name="counts")
    assert (parent.noise_of(parent.ledger[0]), parent.ledger[0].randomness) == ("DiscreteLaplace(scale=4)", "secure")
    for accountant in (grandparent, pickle.loads(pickle.dumps(grandparent.record()))):
        assert accountant.ledger[0].randomness == "seeded"
        frame = accountant.to_frame("polars", parts=True)
        assert frame["part_of"].to_list() == [None, "model", "model / part"]
        assert frame["name"].to_list() == ["model", "part", "counts"]


@pytest.mark.parametrize("loss", [None, 0.5, PrivacyLoss(0.5)])
def test_gaussian_noise_is_not_booked_as_a_pure_loss(loss):
    accountant = PrivacyAccountant(1, 1e-6)
    with pytest.raises(ValueError, match="has no pure loss"):
        accountant.release(np.array([5]), DiscreteGaussian(3), SecureBits(), name="counts", loss=loss)
    assert accountant.spent == 0


def test_sup_norm_noise_of_too_many_values_is_refused_before_the_charge():
    accountant = PrivacyAccountant(1)
    with pytest.raises(ValueError, match="at least an eighth of the number of values"):
        accountant.release(np.zeros(100, dtype=np.int64), DiscreteSupNorm(1), SecureBits(), name="moments")
    assert accountant.spent == 0
