"""Choices and levels that nobody has listed: their laws, their losses, and the door."""

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, product

import numpy as np
import pytest
from internals import (
    ExponentialMechanism,
    PermuteAndFlip,
    _random_permutation,
    _selection,
    _uniform_below,
    exp_minus,
    gaussian_of_pure,
    is_hidden,
)
from laws import ALARM, CERTAIN, chi_squared, clopper_pearson, refuses
from sampler_trees import decimal
from scipy.stats import norm

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import (
    Discovery,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyAccountant,
    PrivacyLoss,
    SeededBits,
    Unit,
    check_rng,
    discovery,
)
from skdpsynth.statistics import Sensitivity, SumParities

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


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_row_that_moves_two_parities_apart_shows_all_of_epsilon(relation):
    """By the exact law; 4,000 seeded choices on each of two tables of 160 and 161 rows show .8 of it, and not more than all.

    The gaps of two sets are equal, and others 0. One row makes one of them larger and the other smaller, each by as much as is allowed. No
    neighbor at all loses more.
    """
    rows, rule = np.array(list(product((0, 1), repeat=4))), SumParities(tuple(range(4)), (np.array([False, True]),) * 4, (3, 4), 1)
    one, other = ((rows[:, some].sum(axis=1) % 2 == 0) for some in ([0, 1, 2], [0, 1, 3]))
    table = np.repeat(np.vstack([rows[one], rows[other]]), 10, axis=0).tolist()

    def gaps(rows):
        exact = rule.of([*np.array(rows).T, np.zeros(len(rows), dtype=int)])
        return exact.gaps(np.zeros((1, 5), dtype=int), range(5), relation)

    accountant = PrivacyAccountant(1, neighboring=relation)
    accountant.release_choice(gaps(table).values, gaps(table).sensitivity, SeededBits(0), name="choice")
    (scale,) = accountant.ledger[0].scale
    moved = rows[~one & other][0].tolist()  # comes, and leaves a set in which it was for one in which it is
    gone = table.index(rows[one & ~other][0].tolist())
    rest = table if relation == "add_or_remove_one" else table[:gone] + table[gone + 1 :]
    law, worst = chances(gaps(table).values, float(scale)), np.log(chances(gaps([*rest, moved]).values, float(scale)))
    assert np.abs(np.log(law) - worst).max() == pytest.approx(1, abs=1e-6)
    bare = [table] if relation == "add_or_remove_one" else [[*table[:k], *table[k + 1 :]] for k in range(0, 160, 10)]
    neighbors = [[*some, row] for some in bare for row in rows.tolist()]
    assert max(np.abs(np.log(law) - np.log(chances(gaps(each).values, float(scale)))).max() for each in neighbors) <= 1 + 1e-9
    place = int(np.argmax(np.abs(np.log(law) - worst)))
    drawn, choice = [], PermuteAndFlip(scale)
    for k, each in enumerate((table, [*rest, moved])):
        bits, utilities = SeededBits(k), gaps(each).values.tolist()
        drawn.append(sum(choice.choose(utilities, bits) == place for _ in range(4_000)))
    low, high = (clopper_pearson(count, 4_000) for count in drawn)
    assert math.log(drawn[0] / drawn[1]) > 0.8
    assert math.log(low[0] / high[1]) <= 1 <= math.log(low[1] / high[0])


def tempered(utilities, scale):
    """The law of the exponential mechanism."""
    weights = np.exp((np.array(utilities) - max(utilities)) / scale)
    return weights / weights.sum()


@pytest.mark.parametrize(("kind", "law"), [(PermuteAndFlip, chances), (ExponentialMechanism, tempered)])
def test_draws_follow_the_law(kind, law):
    """5,000 draws; 2/3 and 3/2 of the scale fail."""
    utilities, choice, rng = [0, 2, 5, 4], kind(Fraction(3)), SeededBits(1)
    drawn = np.bincount([choice.choose(utilities, rng) for _ in range(5_000)], minlength=4)
    assert chi_squared(drawn, law(utilities, 3)) > ALARM
    assert all(chi_squared(drawn, law(utilities, scale)) < CERTAIN for scale in (2, 4.5))
    assert kind(Fraction(0)).choose([1, 3, 3], rng) == 1


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

    refuses(BudgetExceededError, "charge", accountant.release_choice, np.array([1, 2, 3]), CHANGE, NoBits(), name="choice", loss=0.7)
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
    refuses(error, words, accountant.release_choice, utilities, sensitivity, check_rng(None), name="choice", loss=loss)
    assert accountant.spent == 0


RELATIONS = ["replace_one", "add_or_remove_one"]


def chance_shown(count, chosen):
    """P(count + Z > threshold), from the law of discrete Laplace noise."""
    if not count:
        return Decimal(0)
    above = chosen.threshold - count + 1  # Z >= above
    return tail(above, chosen.noise.scale) if above > 0 else 1 - tail(1 - above, chosen.noise.scale)


def tail(least, scale):
    """P(Z >= least), for least > 0."""
    return decimal(-least / scale).exp() / (1 + decimal(-1 / scale).exp())


def law(table, levels, chosen):
    """The probability of every set of levels that may be shown of a table of counts."""
    chances = {level: chance_shown(table[level], chosen) for level in levels}
    events = chain.from_iterable(combinations(levels, size) for size in range(len(levels) + 1))
    return {
        shown: math.prod([chances[each] if each in shown else 1 - chances[each] for each in levels], start=Decimal(1)) for shown in events
    }


def joint(rows, levels, n_tables, chosen):
    laws = [law(Counter(row[j] for row in rows if row[j] is not None), levels, chosen).items() for j in range(n_tables)]
    return {tuple(shown for shown, _ in events): math.prod(chance for _, chance in events) for events in product(*laws)}


def neighbors(cells, n_tables, relation, most, k):
    """Pairs of tables of at most `most` rows and up to k of one unit, in all ways that matter: rows have the same law in any order."""
    rows = list(product(cells, repeat=n_tables))
    for n, size in product(range(most + 1), range(1, k + 1)):
        units = list(combinations_with_replacement(rows, size))
        for kept in combinations_with_replacement(rows, n):
            if relation == "replace_one":
                yield from (((*kept, *old), (*kept, *new)) for old, new in product(units, repeat=2) if old != new)
            else:
                yield from (pair for unit in units for pair in (((*kept, *unit), kept), (kept, (*kept, *unit))))


def largest_delta(relation, n_tables, chosen, cells, most, k=1):
    """The least delta of (epsilon, delta) that all neighbors together need: the sum of what exceeds e**epsilon times the other."""
    factor = decimal(Fraction(chosen.loss.epsilon)).exp()
    levels = [cell for cell in cells if cell is not None]
    laws, worst = {}, Decimal(0)
    for first, second in neighbors(cells, n_tables, relation, most, k):
        keys = [tuple(sorted(rows, key=str)) for rows in (first, second)]
        for key, rows in zip(keys, (first, second), strict=True):
            if key not in laws:
                laws[key] = joint(rows, levels, n_tables, chosen)
        mine, other = (laws[key] for key in keys)
        worst = max(worst, sum(max(Decimal(0), mine[event] - factor * other[event]) for event in mine))
    return worst


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("n_tables", "cells", "most", "k", "shares"),
    [
        (1, ["a", "b", "c", None], 6, 1, [("1/2", "1/20"), ("2", "1/100"), ("4", "1/3")]),
        (2, ["a", "b", None], 2, 1, [("1", "1/5"), ("2", "1/50")]),
        (1, ["a", "b", None], 2, 2, [("1", "1/100"), ("3", "1/10"), ("1/2", "1/10000")]),
        (1, ["a", "b", None], 2, 3, [("1", "1/100"), ("3", "1/10"), ("1/2", "1/10000")]),
    ],
    ids=["one column", "two columns", "two rows of a unit", "three rows of a unit"],
)
def test_no_event_is_more_likely_than_what_is_charged_allows(relation, n_tables, cells, most, k, shares):
    for epsilon, delta in shares:
        chosen = discovery(relation, n_tables, PrivacyLoss(epsilon=Fraction(epsilon), delta=Fraction(delta), rows=k))
        needed = largest_delta(relation, n_tables, chosen, cells, most, k)
        assert 0 < needed <= decimal(chosen.loss.delta) + Decimal("1e-50")
        if n_tables == k == 1:  # a level of one row alone needs what it is shown with
            assert needed >= chance_shown(1, chosen) - Decimal("1e-50")


@pytest.mark.parametrize("relation", RELATIONS)
def test_half_of_the_noise_would_cost_more_than_what_is_charged(relation):
    """The law above can fail."""
    share, cheap = PrivacyLoss(epsilon=1, delta=Fraction(1, 100)), discovery(relation, 1, PrivacyLoss(epsilon=2, delta=Fraction(1, 100)))
    cheap = Discovery(relation, 1, cheap.noise, cheap.threshold, share)
    assert largest_delta(relation, 1, cheap, ["a", "b"], most=2 * cheap.threshold) > decimal(share.delta)


def test_the_levels_of_a_unit_are_hidden_from_exactly_the_chance_on_that_one_of_them_is_shown():
    billionth = Fraction(1, 10**9)
    for scale, k, more in product((Fraction(1, 3), Fraction(2), Fraction(40)), (1, 2, 7), (0, 1, 60)):
        threshold = k + more
        chance = Fraction(max(tail(threshold - k + 1, scale), k * tail(threshold, scale)))
        assert is_hidden(scale, threshold, chance * (1 + billionth), k)
        assert not is_hidden(scale, threshold, chance * (1 - billionth), k)
        assert not is_hidden(scale, k - 1, Fraction(1, 2), k)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(40)])
def test_one_unit_of_the_last_bit_is_kept_for_noise_that_wraps(scale):
    checked = 0
    for threshold in range(2, 300, 3):
        bits = 64 + int(1 / tail(threshold, scale)).bit_length()
        least = Fraction(exp_minus(threshold / scale, bits)[1] + 1, (1 << bits) + exp_minus(1 / scale, bits)[0])
        if least.denominator.bit_length() - least.numerator.bit_length() == bits - 64:  # so many bits are what it is compared with
            assert is_hidden(scale, threshold, least, 1)
            assert not is_hidden(scale, threshold, least - Fraction(1, 2 ** (bits + 20)), 1)
            checked += 1
    assert checked > 8


@pytest.mark.parametrize("away", [-40, -2, 0, 2, 40])
@pytest.mark.parametrize("k", [1, 5])
def test_the_search_for_a_threshold_ends_at_the_least_wherever_it_begins(monkeypatch, away, k):
    share = PrivacyLoss(0.5, 1e-6, rows=k)
    least, near = discovery("replace_one", 2, share).threshold, _selection._approximate_threshold
    monkeypatch.setattr(_selection, "_approximate_threshold", lambda *asked: near(*asked) + away)
    assert discovery("replace_one", 2, share).threshold == least


def test_shown_levels_have_the_law_of_noisy_counts():
    """5000 draws; what another epsilon would show fails."""
    chosen, rng = discovery("replace_one", 1, PrivacyLoss(epsilon=1, delta=0.05)), check_rng(0)
    table = {"a": 1, "b": 3, "c": 6}
    found = Counter(tuple(chosen.select_levels(table, rng.child(f"{i}"))) for i in range(5000))

    def p_value(chosen):
        expected = law(Counter(table), ["a", "b", "c"], chosen)
        assert set(found) <= set(expected)
        return chi_squared([found[event] for event in expected], [float(chance) for chance in expected.values()])

    assert p_value(chosen) > ALARM
    assert p_value(discovery("replace_one", 1, PrivacyLoss(epsilon=1.5, delta=0.05))) < CERTAIN


def accountant(relation="replace_one", epsilon=1, delta=1e-6):
    return PrivacyAccountant(epsilon, delta, neighboring=relation)


SHARE = PrivacyLoss(epsilon=0.5, delta=1e-7)


def test_door_shows_common_levels_in_an_order_of_their_own_and_hides_rare_ones():
    chosen = discovery("replace_one", 1, SHARE)
    table = {"b": 1000, 10: 1000, "rare": 1, "a": 1000, 9: 1000, "none": 0}
    for levels in (table, dict(reversed(table.items()))):
        assert accountant().release_discovered([levels], chosen, check_rng(None), name="levels") == [[9, 10, "a", "b"]]


def test_ledger_tells_what_was_charged_and_no_number_of_levels():
    budget, chosen = accountant(), discovery("replace_one", 2, SHARE)
    budget.release_discovered([{"a": 5}, {}], chosen, check_rng(None), name="levels")
    (entry,) = budget.ledger
    assert (budget.spent, budget.spent_delta) == (Fraction(1, 2), Fraction(1, 10**7))
    assert (entry.n_values, entry.sensitivity.l1, entry.loss, entry.randomness) == (None, 4, SHARE, "secure")
    assert dict(entry.sensitivity.statistic) == {"kind": "levels_shown", "tables": 2, "threshold": chosen.threshold}


@pytest.mark.parametrize(
    "wrong",
    [
        Discovery("replace_one", 1, DiscreteLaplace(Fraction(39, 10)), 53, SHARE),
        Discovery("replace_one", 1, DiscreteLaplace(4), 52, PrivacyLoss(epsilon=0.5, delta=1e-6)),
        Discovery("replace_one", 1, DiscreteLaplace(4), 0, SHARE),
        Discovery("replace_one", 1, DiscreteLaplace(0), 100, SHARE),
        Discovery("replace_one", 1, DiscreteLaplace(4), 100, PrivacyLoss(epsilon=0.5)),
        Discovery("replace_one", 1, DiscreteLaplace(4), 100, PrivacyLoss(rho=0.5)),
        Discovery("replace_one", 1, DiscreteGaussian(40), 1000, SHARE),
        Discovery("replace_one", 1, DiscreteLaplace([4]), 1000, SHARE),
        Discovery("replace_one", 2, DiscreteLaplace(8), 1000, SHARE),
        Discovery("add_or_remove_one", 1, DiscreteLaplace(4), 1000, SHARE),
    ],
)
def test_door_refuses_what_costs_more_than_its_loss_and_charges_nothing(wrong):
    budget = accountant()
    with pytest.raises(ValueError, match=r"costs more than the loss|plan it anew"):
        budget.release_discovered([{"a": 5}], wrong, check_rng(None), name="levels")
    assert not budget.ledger


def test_door_refuses_what_is_no_count_without_a_word_about_it_and_what_has_no_delta():
    budget, chosen = accountant(), discovery("replace_one", 1, SHARE)
    for count in (2.5, "31415", -31415, True):
        with pytest.raises(TypeError, match="whole numbers of rows") as caught:
            budget.release_discovered([{"a": count}], chosen, check_rng(None), name="levels")
        assert "31415" not in str(caught.value)
    assert not budget.ledger
    budget = accountant(delta=0)
    refuses(BudgetExceededError, "delta", budget.release_discovered, [{"a": 5}], chosen, check_rng(None), name="levels")
    assert not budget.ledger
    for share in (PrivacyLoss(epsilon=1), PrivacyLoss(rho=0.1)):
        refuses(ValueError, "give a delta", discovery, "replace_one", 1, share)
    with pytest.raises(ValueError, match="epsilon is too small"):  # noise of such a scale could wrap
        discovery("replace_one", 1, PrivacyLoss(epsilon=1e-13, delta=1e-6))


def test_without_noise_every_level_that_occurs_is_shown():
    chosen = discovery("replace_one", 1, PrivacyLoss(epsilon=float("inf")))
    often = discovery("add_or_remove_one", 1, PrivacyLoss(epsilon=5, delta=0.4))
    assert all(often.select_levels({"a": 0}, check_rng(0).child(str(i))) == [] for i in range(200))  # one that no row has is never
    assert PrivacyAccountant(float("inf")).release_discovered([{"a": 1, "b": 0}], chosen, check_rng(None), name="levels") == [["a"]]


def test_noise_follows_levels_and_not_their_place_in_the_table():
    chosen, table = discovery("replace_one", 1, PrivacyLoss(epsilon=0.5, delta=0.05)), {f"level {i}": 6 for i in range(50)}
    shown = [chosen.select_levels(each, check_rng(3)) for each in (table, dict(reversed(table.items())))]
    assert shown[0] == shown[1] == sorted(shown[0])
    assert 0 < len(shown[0]) < 50
