"""The accountant: charge first, then draw; refuse before both; never let a budget be spent twice."""

import copy
import math
import pickle
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Noise
from laws import in_child, refuses
from sklearn.base import BaseEstimator, clone

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteSupNorm,
    PrivacyAccountant,
    PrivacyLoss,
    SeededBits,
    check_accountant,
    epsilon_of_rho,
)

VALUES = np.array([10, 20, 30])


class WatchedNoise(Noise):
    """Noise that notes whether it was drawn and what the accountant had spent by then; a noise of somebody's own has no more."""

    scale, norm = Fraction(1), "l1"

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


class Holder(BaseEstimator):
    """An estimator that takes an accountant."""

    def __init__(self, accountant=None):
        self.accountant = accountant


def release(accountant, noise=None, values=VALUES, rng=None, **arguments):
    noise = DiscreteLaplace(1) if noise is None else noise
    return accountant.release(values, noise, SeededBits(0) if rng is None else rng, name="counts", **arguments)


def test_who_is_refused_is_not_led_to_spend_twice():
    accountant = PrivacyAccountant(1)
    for part, way_out in ((Fraction(3, 4), "give it a smaller epsilon .*, or charge"), (Fraction(1, 4), "only 0 of 1 remains; charge")):
        accountant.spend(part, name="a")
        with pytest.raises(BudgetExceededError, match=f"{way_out} what was spent here to a larger budget by its `import_record`"):
            accountant.spend(1, name="b")


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 3)])
def test_a_release_adds_the_noise_of_its_stream_to_values_of_every_shape(shape):
    for scale in (5, np.full(shape, 5)):
        values, noise = np.full(shape, 7), DiscreteLaplace(scale)
        noisy = release(PrivacyAccountant(1), noise, values, SeededBits(3))
        np.testing.assert_array_equal(noisy, values + noise.sample(shape, SeededBits(3)), strict=True)


def test_a_release_is_charged_before_its_noise_is_drawn_and_a_refused_one_draws_nothing_and_costs_nothing():
    accountant = PrivacyAccountant(1)
    noise = WatchedNoise(accountant, fails=True)
    with pytest.raises(KeyboardInterrupt):
        release(accountant, noise, loss=0.25)
    before = accountant.ledger
    refuses(BudgetExceededError, "charge", release, accountant, noise, loss=0.8)
    assert noise.spent_when_drawn == [accountant.spent] == [Fraction(1, 4)]
    assert (len(before), accountant.ledger) == (1, before)
    release(accountant, loss=0.75)  # what remained can still be spent


def test_the_ledger_never_holds_the_seed():
    accountant = PrivacyAccountant(1)
    release(accountant, rng=SeededBits(918273645).child("a"))
    assert "918273645" not in repr(accountant.ledger)
    assert (918273645).to_bytes(4, "little") not in pickle.dumps(accountant.record())


NO_LOSS = r"'counts' with scale 0 has an infinite loss, got .*; give"
REFUSED = [
    *((TypeError, r"values must be int64, .*, got .*; quantize", {"values": VALUES.astype(t)}) for t in (float, np.int32, np.uint64, bool)),
    *(
        (ValueError, NO_LOSS, {"noise": noise, "loss": loss})
        for noise in (DiscreteLaplace(0), DiscreteGaussian(0), DiscreteSupNorm(0), DiscreteLaplace([1, 0, 1]))
        for loss in (PrivacyLoss(0.5), PrivacyLoss(1e300, 0.4), PrivacyLoss(rho=0.01), PrivacyLoss(rho=1e299), None)
    ),
    *(
        (ValueError, r"broadcast to the values of shape \(3,\), got scales of shape .*; reshape", {"noise": DiscreteLaplace(scale)})
        for scale in ([1, 2], [[1, 2, 3]], [[1], [2]])
    ),
    *((TypeError, r"rng must be a stream made by check_rng, got .*; use", {"rng": rng}) for rng in (np.random.default_rng(0), 5)),
    *((ValueError, "epsilon must be a number greater than 0", {"loss": loss}) for loss in (0, -1, float("nan"), "1")),
    *((ValueError, "has no pure loss", {"noise": DiscreteGaussian(3), "loss": loss}) for loss in (None, 0.5, PrivacyLoss(0.5))),
    (ValueError, "at least an eighth of the number of values", {"noise": DiscreteSupNorm(1), "values": np.zeros(100, dtype=np.int64)}),
]


@pytest.mark.parametrize(("error", "words", "arguments"), REFUSED)
def test_what_is_no_release_is_refused_before_the_charge(error, words, arguments):
    accountant = PrivacyAccountant(1, 1e-6)
    refuses(error, words, release, accountant, **arguments)
    assert accountant.ledger == ()


def test_a_budget_outside_its_domain_is_refused():
    for arguments in ({"epsilon": 0}, {"epsilon": math.nan}, {"epsilon": 1, "delta": 1}, {"epsilon": 1, "neighboring": "swap"}):
        refuses(ValueError, r"must be .*, got .*; ", PrivacyAccountant, **arguments)
    accountant = PrivacyAccountant(1)
    refuses(ValueError, "'a' has a loss in rho, which needs delta > 0; give", accountant.spend, PrivacyLoss(rho=0.01), name="a")
    refuses(ValueError, "epsilon must be a number greater than 0", accountant.spend, 0, name="a")
    refuses(ValueError, "backend must be one of 'pandas', 'polars', 'pyarrow', got 'numpy'", accountant.to_frame, "numpy")
    check_accountant(None)
    refuses(ValueError, r"accountant must be None or a PrivacyAccountant, got float; make one", check_accountant, 1.0)
    assert accountant.ledger == ()


positive = st.one_of(st.integers(1, 1000), st.floats(1e-6, 1e6), st.fractions(min_value=Fraction(1, 1000), max_value=1000))


@pytest.mark.must
@given(epsilon=positive, weights=st.lists(positive, min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_split_is_spent_to_the_last_bit(epsilon, weights):
    accountant = PrivacyAccountant(epsilon)
    for share in accountant.split(weights):
        accountant.spend(share, name="share")
    assert (accountant.remaining, accountant.spent) == (0, accountant.epsilon)
    refuses(BudgetExceededError, "Nothing remains", accountant.split, [1, 1])


@pytest.mark.must
@given(epsilon=positive, losses=st.lists(positive, max_size=20))
@settings(max_examples=100, deadline=None)
def test_spent_and_remaining_sum_to_the_budget_and_never_pass_it(epsilon, losses):
    accountant = PrivacyAccountant(epsilon)
    for loss in losses:
        before = accountant.spent
        if PrivacyLoss(loss).epsilon > accountant.remaining:
            refuses(BudgetExceededError, "charge", accountant.spend, loss, name="a")
            assert accountant.spent == before
        else:
            accountant.spend(loss, name="a")
            assert accountant.spent == before + PrivacyLoss(loss).epsilon
    assert type(accountant.remaining) is Fraction
    assert accountant.spent + accountant.remaining == accountant.epsilon
    assert accountant.remaining >= 0


def test_a_finite_budget_refuses_an_infinite_loss():
    accountant = PrivacyAccountant(1, 1e-6)
    for loss in (PrivacyLoss(math.inf), PrivacyLoss(rho=math.inf)):
        refuses(BudgetExceededError, "costs epsilon=inf, but only 1 of 1 remains", release, accountant, DiscreteLaplace(0), loss=loss)
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
    refuses(BudgetExceededError, "leaves none of delta", accountant.child, 0.1, 1e-6, name="b")
    accountant.child(0.1, 5e-7, name="b")
    assert accountant.spent == Fraction(1, 10) + epsilon_of_rho(0.001, 5e-7)


def test_a_child_charges_its_parent_at_once_and_in_full():
    parent = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    child = parent.child(0.4, 1e-7, name="synthesizer")
    assert (parent.spent, parent.ledger[0].loss, child.ledger) == (Fraction(4, 10), PrivacyLoss(0.4, 1e-7), ())
    assert (child.epsilon, child.delta, child.neighboring) == (Fraction(4, 10), Fraction(1, 10**7), "add_or_remove_one")
    child.spend(0.4, name="all of it")
    assert parent.spent == Fraction(4, 10)


def test_only_the_growth_of_a_group_must_fit():
    parent = PrivacyAccountant(1)
    parent.child(0.9, name="a", group="strata")
    parent.child(0.9, name="b", group="strata")
    with pytest.raises(BudgetExceededError) as refusal:
        parent.child(1.1, name="c", group="strata")
    assert (refusal.value.requested, refusal.value.remaining) == (Fraction(2, 10), Fraction(1, 10))


def test_a_copy_is_the_accountant_itself_and_none_goes_elsewhere_while_it_is_open():
    accountant = PrivacyAccountant(1)
    for again in (copy.copy(accountant), copy.deepcopy(accountant), clone(accountant), clone(Holder(accountant)).accountant):
        assert again is accountant
    words = r"open PrivacyAccountant cannot be pickled, .*; use n_jobs=1 or threads, or pickle its record\(\)"
    for inside in (accountant, [accountant], Holder(accountant)):
        refuses(TypeError, words, pickle.dumps, inside)


def test_a_record_survives_pickling_and_cannot_be_spent_from():
    accountant = PrivacyAccountant(1, 1e-6, neighboring="add_or_remove_one")
    empty = accountant.record()
    release(accountant, loss=0.25)
    accountant.spend(PrivacyLoss(rho=0.001), name="moments")
    record = pickle.loads(pickle.dumps(accountant.record()))
    assert (empty.ledger, accountant.closed, record.closed) == ((), False, True)
    accountant.close()
    for closed in (record, accountant, pickle.loads(pickle.dumps(accountant))):
        assert closed.ledger == accountant.ledger
        assert (closed.epsilon, closed.delta, closed.neighboring) == (accountant.epsilon, accountant.delta, accountant.neighboring)
        assert (closed.spent, closed.remaining) == (accountant.spent, accountant.remaining)
        noise = WatchedNoise()
        charges = [partial(charge, 0.1, name="a") for charge in (closed.spend, closed.child)]
        for attempt in (*charges, partial(release, closed, noise, loss=0.1), partial(release, closed, noise)):
            refuses(BudgetExceededError, "cannot be charged to a closed record; set accountant", attempt)
        assert (noise.spent_when_drawn, len(closed.ledger)) == ([], 2)


def test_a_forked_process_cannot_spend():
    accountant = PrivacyAccountant(1)
    spend, child = partial(accountant.spend, 0.1, name="a"), partial(accountant.child, 0.1, name="a")
    for attempt in (spend, child, partial(release, accountant, WatchedNoise())):
        error = in_child(attempt)
        assert isinstance(error, RuntimeError)
        assert "cannot be charged in another process than the accountant's, where the charge would be lost; use n_jobs=1" in str(error)
    assert accountant.spent == 0


def test_a_refusal_carries_its_numbers_and_survives_pickling():
    accountant = PrivacyAccountant(1)
    accountant.spend(0.75, name="a")
    with pytest.raises(BudgetExceededError, match=r"'counts' costs epsilon=0.5, but only 0.25 of 1 remains; give") as refusal:
        release(accountant, loss=0.5)
    moments = PrivacyAccountant(1, 1e-6)
    moments.spend(PrivacyLoss(rho=0.02), name="a")
    with pytest.raises(BudgetExceededError) as in_rho:
        moments.spend(PrivacyLoss(rho=0.02), name="b")
    assert in_rho.value.requested == epsilon_of_rho(0.04, 1e-6) - epsilon_of_rho(0.02, 1e-6)
    for error in (refusal.value, pickle.loads(pickle.dumps(refusal.value)), copy.copy(refusal.value)):
        assert (error.requested, error.remaining, str(error)) == (Fraction(1, 2), Fraction(1, 4), str(refusal.value))


COLUMNS = ["name", "epsilon", "delta", "loss", "rho", "noise", "sensitivity", "n_values", "randomness", "group", "time"]
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
    assert (list(frame.columns), list(frame["name"])) == (COLUMNS, ["counts", "moments", "stratum"])
    assert list(frame["loss"]) == ["epsilon=0.25", "rho=0.001", "epsilon=0.1, delta=1e-07"]
    rho, sensitivity, n_values = ([None if x is None or math.isnan(x) else x for x in frame[c]] for c in ("rho", "sensitivity", "n_values"))
    assert (rho, sensitivity, n_values) == ([None, 0.001, None], [None] * 3, [3, None, None])
    assert (next(iter(frame["noise"])), list(frame["group"])[2]) == ("DiscreteLaplace(scale=1)", "strata")
    assert all(accountant.to_frame(backend, parts=True)["name"] == frame["name"])
    empty = PrivacyAccountant(1)
    assert (empty.to_frame(backend).shape, list(empty.to_frame(backend).columns)) == ((0, len(COLUMNS)), COLUMNS)
    assert list(empty.to_frame(backend, parts=True).columns) == ["name", "part_of", *COLUMNS[1:]]


def test_the_representation_tells_what_is_spent_of_what():
    accountant = PrivacyAccountant(1, 1e-6)
    accountant.spend(0.25, name="a")
    assert repr(accountant) == "<PrivacyAccountant (open): spent epsilon=0.25 of 1, delta=0 of 1e-06, replace_one, 1 entries>"
    assert repr(accountant.record()).startswith("<PrivacyAccountant (record)")
