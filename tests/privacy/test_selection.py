"""Choices: their laws, their losses, and the door."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from internals import ExponentialMechanism, PermuteAndFlip, _random_permutation, _uniform_below, gaussian_of_pure
from laws import ALARM, CERTAIN, chi_squared
from scipy.stats import norm

from skdpsynth import PrivacyAccountant
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import PrivacyLoss, SeededBits, Unit, check_rng
from skdpsynth.statistics import Sensitivity

CHANGE = Sensitivity("replace_one", 3, 3, 1)


def chances(utilities, scale):
    """The law by its definition: over all orders, the first that is taken."""
    flips = [math.exp((u - max(utilities)) / scale) for u in utilities]
    out = np.zeros(len(utilities))
    for order in itertools.permutations(range(len(utilities))):
        left = 1.0
        for candidate in order:
            out[candidate] += left * flips[candidate]
            left *= 1 - flips[candidate]
    return out / math.factorial(len(utilities))


@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
def test_no_neighbor_changes_a_chance_by_more_than_epsilon_and_some_do_nearly(epsilon):
    """By brute force: three candidates, all utilities from 0 to 4, and all neighbors that move each of them by 1 at most."""
    scale, worst = 2 / epsilon, 0.0
    moves = list(itertools.product((-1, 0, 1), repeat=3))
    laws = {u: np.log(chances(u, scale)) for u in itertools.product(range(-1, 6), repeat=3)}
    for utilities in itertools.product(range(5), repeat=3):
        for move in moves:
            other = tuple(u + m for u, m in zip(utilities, move, strict=True))
            worst = max(worst, np.abs(laws[utilities] - laws[other]).max())
    assert 0.8 * epsilon < worst <= epsilon * (1 + 1e-12)


def test_draws_follow_the_law():
    """5,000 draws; 2/3 and 3/2 of the scale fail."""
    utilities, choice, rng = [0, 2, 5, 4], PermuteAndFlip(Fraction(3)), SeededBits(1)
    drawn = np.bincount([choice.choose(utilities, rng) for _ in range(5_000)], minlength=4)
    assert chi_squared(drawn, chances(utilities, 3)) > ALARM
    assert all(chi_squared(drawn, chances(utilities, scale)) < CERTAIN for scale in (2, 4.5))


def tempered(utilities, scale):
    """The law of the exponential mechanism."""
    weights = np.exp((np.array(utilities) - max(utilities)) / scale)
    return weights / weights.sum()


def test_draws_of_the_exponential_mechanism_follow_its_law():
    """5,000 draws; 2/3 and 3/2 of the scale fail."""
    utilities, choice, rng = [0, 2, 5, 4], ExponentialMechanism(Fraction(3)), SeededBits(1)
    drawn = np.bincount([choice.choose(utilities, rng) for _ in range(5_000)], minlength=4)
    assert chi_squared(drawn, tempered(utilities, 3)) > ALARM
    assert all(chi_squared(drawn, tempered(utilities, scale)) < CERTAIN for scale in (2, 4.5))
    assert ExponentialMechanism(Fraction(0)).choose([1, 3, 3], rng) == 1


@pytest.mark.parametrize("scale", [0.7, 2, 9])
def test_no_attack_on_an_exponential_mechanism_does_better_than_its_gaussian_loss_allows(scale):
    """By brute force: three candidates, all utilities from 0 to 3, all moves by 1 at most; best tests order them by their ratio."""
    mu = math.sqrt(2 * float(gaussian_of_pure(Fraction(1 / scale))))
    worst = 1.0
    for utilities in itertools.product(range(4), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            p, q = tempered(utilities, scale), tempered(np.add(utilities, move), scale)
            order = np.argsort(-q / p)
            first, second = np.cumsum(p[order])[:-1], 1 - np.cumsum(q[order])[:-1]
            worst = min(worst, (second - norm.cdf(norm.isf(first) - mu)).min())
    assert -1e-12 <= worst < 0.02


def test_orders_are_uniform():
    rng = SeededBits(2)
    orders = [tuple(_random_permutation(3, rng)) for _ in range(3_000)]
    assert chi_squared([orders.count(order) for order in itertools.permutations(range(3))], np.ones(6)) > ALARM


@pytest.mark.parametrize("size", [2, 3, 5, 7, 10, 1000, 2**32 + 1])
def test_whole_numbers_beyond_the_last_multiple_are_drawn_again(size):
    whole = 2**64 // size * size
    drawn = [*([whole] if whole < 2**64 else []), whole - 1]

    class Bits:
        def bytes(self, size):
            return drawn.pop(0).to_bytes(size)

    assert _uniform_below(size, Bits()) == size - 1
    assert not drawn


def test_the_door_charges_first_and_keeps_its_books():
    accountant = PrivacyAccountant(1)
    accountant.release_choice(np.array([1, 2, 3]), CHANGE, check_rng(None), name="choice", loss=0.4)
    (entry,) = accountant.ledger
    assert (entry.noise, entry.scale, entry.sensitivity, entry.n_values) == ("PermuteAndFlip", (Fraction(5),), CHANGE, 1)
    assert accountant.spent == Fraction(4, 10)
    assert 2 * entry.sensitivity.sup / entry.scale[0] <= entry.loss.epsilon
    of_five = PrivacyAccountant(1, unit=Unit("patient", 5))
    of_five.release_choice(np.array([1, 2, 3]), CHANGE, check_rng(None), name="choice", loss=PrivacyLoss(0.4, rows=5))
    assert of_five.ledger[0].scale == (5 * entry.scale[0],)
    endless, rest = PrivacyAccountant(math.inf), accountant.child(Fraction(3, 10), name="rest")
    rest.release_choice(np.array([1, 2, 3]), CHANGE, check_rng(None), name="choice")  # without a loss it costs all that remains
    assert (rest.ledger[-1].loss, rest.ledger[-1].scale) == (PrivacyLoss(0.3), (Fraction(20, 3),))
    assert endless.release_choice(np.array([1, 3, 3]), CHANGE, check_rng(None), name="choice") == 1  # the first of the best
    assert PermuteAndFlip(Fraction(1, 10**6)).choose([-(2**62), 2**62], SeededBits(0)) == 1

    in_rho = PrivacyAccountant(1, 1e-6)
    in_rho.release_choice(np.array([1, 2, 3]), CHANGE, check_rng(None), name="choice", loss=PrivacyLoss(rho=0.01, gaussian=True))
    (entry,) = in_rho.ledger
    assert entry.noise == "ExponentialMechanism"
    assert gaussian_of_pure(1 / entry.scale[0]) <= Fraction(1, 100) < gaussian_of_pure(1 / (entry.scale[0] - Fraction(1, 2**20)))

    child = PrivacyAccountant(2, 1e-6).child(1, 5e-7, name="part", rho="gaussian")
    child.spend(0.1, name="pure")
    left = child.remaining
    child.release_choice(np.array([1, 2, 3]), CHANGE, check_rng(None), name="choice")  # all that remains, in rho
    assert 0 <= child.remaining < left / 10**6

    class NoBits:
        seeded = False

    with pytest.raises(BudgetExceededError):
        accountant.release_choice(np.array([1, 2, 3]), CHANGE, NoBits(), name="choice", loss=0.7)
    assert accountant.spent == Fraction(7, 10)


@pytest.mark.parametrize(
    ("utilities", "sensitivity", "loss", "error", "words"),
    [
        (np.array([0.5, 1]), CHANGE, 0.1, TypeError, "utilities must be"),
        (np.array([], dtype=np.int64), CHANGE, 0.1, TypeError, "utilities must be"),
        (np.array([[1]]), CHANGE, 0.1, TypeError, "utilities must be"),
        (np.array([1]), Sensitivity("add_or_remove_one", 1, 1, 1), 0.1, ValueError, "ask for that"),
        (np.array([1]), CHANGE, PrivacyLoss(rho=1e-200), ValueError, "too small for a choice"),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_the_charge(utilities, sensitivity, loss, error, words):
    accountant = PrivacyAccountant(1, 1e-6)
    with pytest.raises(error, match=words):
        accountant.release_choice(utilities, sensitivity, check_rng(None), name="choice", loss=loss)
    assert accountant.spent == 0
