"""Totals: never below the truth, never above it by more than is stated, and refused where a filter refuses."""

import itertools
import math
import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import Sums, _composition, covers_composition, epsilon_beside, optimal_epsilon, rho_of_pure
from laws import refuses

from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.privacy import DiscreteGaussian, PrivacyAccountant, PrivacyLoss, SecureBits, epsilon_of_rho, rho_of_epsilon
from skdpsynth_evidence import check_evidence

mpmath = pytest.importorskip("mpmath")

MILLIONTH = Fraction(1, 10**6)


def gaussian(epsilon, delta):
    return PrivacyLoss(rho=rho_of_epsilon(epsilon, delta, gaussian=True), gaussian=True)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.1, 1, 3, 20])
def test_randomized_response_has_the_rho_of_its_epsilon_at_every_order_and_no_less_at_the_first(epsilon):
    with mpmath.workdps(60):
        exact, e = rho_of_pure(Fraction(str(epsilon))), mpmath.mpf(str(epsilon))
        rho = mpmath.mpf(exact.numerator) / exact.denominator
        true, false = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
        for alpha in (1 + mpmath.mpf(10) ** -9, 1.001, 1.5, 2, 5, 30, 1000):
            divergence = mpmath.log(true**alpha * false ** (1 - alpha) + false**alpha * true ** (1 - alpha)) / (alpha - 1)
            assert divergence <= alpha * rho * (1 + mpmath.mpf(10) ** -20)
        least = true * mpmath.log(true / false) + false * mpmath.log(false / true)
        assert least <= rho <= least + mpmath.mpf(10) ** -23
    assert all(rho_of_pure(epsilon) == epsilon for epsilon in (61, 10**6, math.inf))


@pytest.mark.parametrize("tenths", [[1] * 20, [1, 2, 2], [3]])
def test_the_least_epsilon_allows_for_as_many_roundings_of_floats_as_are_made(monkeypatch, tenths):
    told, least = [], _composition._least_epsilon
    monkeypatch.setattr(
        _composition, "_least_epsilon", lambda law, delta, error: told.append((len(law), error)) or least(law, delta, error)
    )
    optimal_epsilon([Fraction(tenth, 10) for tenth in tenths], Fraction(1, 10**6))
    ((n_steps, error),) = told
    assert error * 2**52 == pytest.approx(64 + sum(8 + tenth / 10 for tenth in tenths) + n_steps, rel=1e-12)


@pytest.mark.parametrize(("less", "pays"), [("0.99e-9", True), ("1.004e-9", False)])
def test_a_charge_may_be_short_of_the_least_epsilon_by_a_billionth_of_it(less, pays):
    losses, delta = [PrivacyLoss(0.1)] * 20, Fraction(1, 10**6)
    assert (
        covers_composition(losses, PrivacyLoss(optimal_epsilon([loss.epsilon for loss in losses], delta) * (1 - Fraction(less)), delta))
        is pays
    )


KINDS = st.sampled_from(["pure", "approximate", "gaussian", "zcdp"])


def loss_of(kind, tenths):
    return {
        "pure": PrivacyLoss(Fraction(tenths, 100)),
        "approximate": PrivacyLoss(Fraction(tenths, 100), Fraction(tenths, 10**9)),
        "gaussian": PrivacyLoss(rho=Fraction(tenths, 10**4), gaussian=True),
        "zcdp": PrivacyLoss(rho=Fraction(tenths, 10**4)),
    }[kind]


@given(losses=st.lists(st.tuples(KINDS, st.integers(1, 20)), min_size=1, max_size=40), copies=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_a_total_is_the_sum_and_what_rho_converts_to_and_does_not_depend_on_the_order(losses, copies):
    made, most = [loss_of(*each) for each in losses] * copies, Fraction(1, 10**5)
    sums = Sums.of(*made)
    epsilon, delta = sums.total(most)
    assert Sums.of(*reversed(made)).total(most) == (epsilon, delta)
    apart = epsilon_of_rho(sums.rho, most - sums.delta, gaussian=sums.gaussian) if sums.rho else 0
    assert (epsilon, delta) == (sums.epsilon + apart, most if sums.rho else sums.delta)
    assert Sums.of(*made, made[0]).total(most)[0] >= epsilon


def truth(tree, epsilon):
    """The exact delta of a tree of randomized responses: (bit, chosen loss) -> the next; None where nothing is asked any more."""

    def leaves(node, first, second):
        if node is None:
            yield first, second
            return
        loss, on_true, on_false = node
        true = 1 / (1 + math.exp(-float(loss)))
        yield from leaves(on_true, first * true, second * (1 - true))
        yield from leaves(on_false, first * (1 - true), second * true)

    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in leaves(tree, 1.0, 1.0))


def worst_tree(sums, budget, delta, choices, depth):
    """The adversary's best tree against the filter, by brute force: of all choices at all nodes those that lose the most."""

    @cache
    def after(sums, choice):
        more = sums.plus(PrivacyLoss(choice))
        return more if more.total(delta)[0] <= budget else None

    @cache
    def best(sums, loss, depth):
        # Of a state, the most that can be made of sum max(0, P - e^E Q), in units of P, where ln(P / Q) is `loss` so far.
        found = max(0.0, 1 - math.exp(budget - loss)), None
        for choice in choices if depth else ():
            if (more := after(sums, choice)) is not None:
                true = 1 / (1 + math.exp(-choice))
                (up, on_true), (down, on_false) = best(more, loss + choice, depth - 1), best(more, loss - choice, depth - 1)
                value = true * up + (1 - true) * down
                if value > found[0] + 1e-15:
                    found = value, (choice, on_true, on_false)
        return found

    return best(sums, Fraction(0), depth)


EIGHT = Sums.of(*[PrivacyLoss(Fraction(1, 10**6))] * 8)  # they hardly count, but from here on losses may be counted in rho


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 100)])
@pytest.mark.parametrize("budget", [Fraction(3, 2), Fraction(5, 2), Fraction(4)])
@pytest.mark.parametrize("choices", [(Fraction(1, 2),), (Fraction(1, 4), Fraction(1)), (Fraction(2, 5), Fraction(3, 4))])
def test_no_adversary_who_chooses_pure_losses_as_he_goes_gets_more_than_delta(choices, budget, delta):
    """Both rules of the total are in force: after some losses the one in rho lets pass what their sum would not."""
    lost, tree = worst_tree(EIGHT, budget, delta, choices, 9)
    assert 0 < lost <= delta or tree is None
    if tree is not None:
        assert truth(tree, float(budget)) == pytest.approx(lost, abs=1e-12)


def test_the_truth_of_the_test_tells_what_a_wrong_filter_lets_pass():
    """One that stops at 6 is no promise of 4: a tree it allows, of six losses of 1, loses more than a tenth at 4."""
    chain = None
    for _ in range(6):
        chain = (Fraction(1), chain, chain)
    assert Sums.of(*[PrivacyLoss(1)] * 6).total(Fraction(1, 10))[0] == 6
    assert truth(chain, 6) < 1e-12
    assert truth(chain, 4) > 0.1


@pytest.mark.parametrize("kind", ["gaussian", "zcdp"])
def test_a_child_in_rho_holds_its_rho_to_the_last_digit(kind):
    parent = PrivacyAccountant(1, 1e-6)
    child = parent.child(1, 1e-6, name="fit", rho=kind)
    whole = parent.ledger[0].loss
    child.spend(PrivacyLoss(rho=whole.rho - Fraction(1, 10**30), gaussian=whole.gaussian), name="most")
    with pytest.raises(BudgetExceededError, match=r"'more' costs epsilon=.*; charge what was spent here to a larger"):
        child.spend(PrivacyLoss(rho=Fraction(2, 10**30), gaussian=whole.gaussian), name="more")
    child.spend(PrivacyLoss(rho=Fraction(1, 10**30), gaussian=whole.gaussian), name="rest")
    assert child.spent <= 1


def test_a_child_in_rho_of_gaussian_noise_refuses_other_losses_and_spends_all_that_remains_in_rho():
    parent = PrivacyAccountant(9, 1e-6)
    child = parent.child(1, 1e-6, name="fit", rho="gaussian")
    with pytest.raises(BudgetExceededError, match="what was charged here is rho, and holds no more of such losses; give it a loss in rho"):
        child.spend(PrivacyLoss(1e-6, 1e-9), name="approximate")
    for attempt in (lambda: child.spend(PrivacyLoss(rho=1e-6), name="zcdp"), lambda: child.child(0.1, 1e-7, name="part")):
        refuses(BudgetExceededError, "charge", attempt)
    assert child.ledger == ()
    child.child(0.1, 1e-7, name="part", rho="gaussian")
    child.release(np.array([5]), DiscreteGaussian(100), SecureBits(), name="rest")
    assert sum(entry.loss.rho for entry in child.ledger) == parent.ledger[0].loss.rho


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
def test_a_child_in_rho_takes_pure_losses_for_the_rho_that_they_are(kind):
    is_gaussian = kind == "gaussian"
    child = PrivacyAccountant(9, 1e-6).child(1, 1e-6, name="fit", rho=kind)
    child.spend(PrivacyLoss(0.1), name="pure")
    left = rho_of_epsilon(1, 1e-6, gaussian=is_gaussian) - rho_of_pure(Fraction(1, 10), is_gaussian)
    child.spend(PrivacyLoss(rho=left, gaussian=is_gaussian), name="rest")
    assert 1 - Fraction(1, 10**6) < child.spent <= 1
    assert check_evidence(child.record().evidence()).ok
    refuses(BudgetExceededError, "charge", child.spend, PrivacyLoss(1e-9), name="more")


def test_children_of_children_add_up_in_rho_too():
    parent = PrivacyAccountant(1, 1e-6)
    child = parent.child(1, 1e-6, name="fit", rho="gaussian")
    part = gaussian(0.4, 1e-6)
    n_parts = int(parent.ledger[0].loss.rho / part.rho)
    for i in range(n_parts):
        child.child(0.4, 1e-6, name=f"part {i}", rho="gaussian").spend(part, name="all")
    assert n_parts > 4  # 0.4 of 1 twice, were they charged in epsilon
    refuses(BudgetExceededError, "charge", child.child, 0.4, 1e-6, name="one more", rho="gaussian")
    for accountant in (parent, pickle.loads(pickle.dumps(parent.record())), parent.record().reopen()):
        assert accountant.spent == parent.spent <= 1
        assert [entry.name for entry, _ in accountant.lines()][:3] == ["fit", "part 0", "all"]
        assert accountant.to_frame()["epsilon"].sum() == pytest.approx(float(parent.spent))
    record = pickle.loads(pickle.dumps(child.record()))
    assert (record.spent, record.epsilon) == (child.spent, 1)


def test_where_rho_does_not_fit_a_child_costs_its_epsilon_as_ever():
    """A loss that is zCDP alone makes Gaussian ones count as such, which may be more than the sum."""
    accountant = PrivacyAccountant(Fraction(101, 100), 2e-6)
    accountant.child(1, 1e-6, name="large", rho="gaussian")
    spent = accountant.spent
    accountant._planned = True
    accountant.check_affordable(0.01, 1e-9, name="small", rho="zcdp")
    child = accountant.child(0.01, 1e-9, name="small", rho="zcdp")
    assert spent < accountant.spent <= accountant.epsilon
    assert accountant.ledger[-1].loss == PrivacyLoss(0.01, 1e-9)
    child.spend(PrivacyLoss(rho=rho_of_epsilon(0.01, 1e-9)), name="all")


@pytest.mark.parametrize("rho", [None, "gaussian", "zcdp"])
def test_what_is_affordable_is_to_the_digit_what_a_child_may_cost(rho):
    accountant = PrivacyAccountant(1, 1e-6)
    accountant.check_affordable(1, 1e-6, name="fit", rho=rho)
    refuses(BudgetExceededError, "charge", accountant.check_affordable, 1 + MILLIONTH, 1e-6, name="fit", rho=rho)
    accountant.child(1, 1e-6, name="fit", rho=rho)


def test_without_a_delta_a_child_in_rho_is_refused_as_ever():
    accountant = PrivacyAccountant(1)
    for attempt in (accountant.child, accountant.check_affordable):
        with pytest.raises(BudgetExceededError, match="costs delta=1e-06, but only 0 of 0 remains; give it a smaller delta"):
            attempt(0.5, 1e-6, name="fit", rho="gaussian")
    refuses(ValueError, "rho must be one of 'gaussian', 'zcdp' or None, got 'laplace'", accountant.child, 0.5, name="fit", rho="laplace")
    assert accountant.ledger == ()


@given(members=st.lists(st.tuples(st.sampled_from("abc"), KINDS, st.integers(1, 9)), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_group_costs_at_least_each_member_and_at_most_the_largest_of_each_kind(members):
    delta = Fraction(1, 10**5)
    accountant = PrivacyAccountant(1000, delta)
    accountant._planned = True  # what losses add up to, in whatever order a plan has them
    for name, kind, tenths in members:
        loss = loss_of(kind, tenths)
        if loss.rho is None:
            accountant.child(loss.epsilon, loss.delta, name=name, group="strata")
        else:
            epsilon = epsilon_of_rho(loss.rho, Fraction(1, 10**7), gaussian=loss.gaussian)
            accountant.child(epsilon, 1e-7, name=name, group="strata", rho=kind)
    each = [Sums.of(*(entry.loss for entry in accountant.ledger if entry.name == name)) for name in {name for name, _, _ in members}]
    for copy in (accountant, accountant.record(), accountant.record().reopen()):
        assert max(sums.total(delta)[0] for sums in each) <= copy.spent
        largest = {name: max(getattr(sums, name) for sums in each) for name in ("epsilon", "rho", "delta")}
        most = Sums(**largest, gaussian=all(sums.gaussian for sums in each))
        assert copy.spent <= most.total(delta)[0]
    spent = accountant.spent
    accountant.fold("strata", ["a", "b", "c"], into="all")
    assert (accountant.spent, {entry.name for entry in accountant.ledger}) == (spent, {"all"})
    assert accountant.record().spent == spent  # what is left tells the same when it is read again


def delta_of(epsilons, target):
    """Exact delta of randomized responses, all outcomes enumerated, in 40 digits."""
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for signs in itertools.product((1, -1), repeat=len(epsilons)):
            p = mpmath.fprod(1 / (1 + mpmath.exp(-sign * mpmath.mpf(str(e)))) for sign, e in zip(signs, epsilons, strict=True))
            loss = mpmath.fsum(sign * mpmath.mpf(str(e)) for sign, e in zip(signs, epsilons, strict=True))
            total += max(mpmath.mpf(0), p * (1 - mpmath.exp(target - loss)))
        return total


@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10)])
@pytest.mark.parametrize("epsilons", [[0.1] * 7, [1.0], [0.5, 0.25, 2], [0.1, 0.3, 1.7, 0.9, 0.2, 0.2], [3.0, 0.01], [1e-6, 1, 1e-6]])
def test_optimal_composition_is_the_least_by_enumeration(epsilons, delta):
    found = optimal_epsilon([Fraction(str(epsilon)) for epsilon in epsilons], delta)
    exact = mpmath.mpf(found.numerator) / found.denominator
    most = mpmath.mpf(delta.numerator) / delta.denominator
    assert delta_of(epsilons, exact) <= most
    if found:
        assert delta_of(epsilons, exact * (1 - mpmath.mpf(10) ** -4)) > most * (1 - mpmath.mpf(10) ** -9) or found < 1e-4


def test_fixed_losses_of_no_common_step_cost_hardly_more():
    near = [Fraction(1, 10) + Fraction(i * i % 97, 10**6 + 3 * i) for i in range(40)]
    low, high = ([bound(near)] * 40 for bound in (min, max))
    assert optimal_epsilon(low, MILLIONTH) <= optimal_epsilon(near, MILLIONTH) <= optimal_epsilon(high, MILLIONTH) * (1 + Fraction(1, 1000))


def test_children_that_are_fixed_in_advance_cost_the_least():
    accountant = PrivacyAccountant(3, 1e-6)
    children = accountant.children([0.1] * 20, 1e-6, name="questions")
    assert 1.7886 < accountant.spent < 1.7887
    assert (accountant.spent_delta, [child.remaining for child in children]) == (MILLIONTH, [Fraction(1, 10)] * 20)
    assert all(entry.loss == PrivacyLoss(0.1) for entry in accountant.parts_of(accountant.ledger[0]))
    for child in reversed(children):
        child.spend(0.06, name="first")
        refuses(BudgetExceededError, "charge", child.spend, 0.05, name="second")
    assert accountant.record().spent == accountant.spent
    refuses(BudgetExceededError, "charge", accountant.children, [0.1] * 20, 1e-6, name="again")


def test_what_is_no_set_of_fixed_losses_is_refused_before_the_charge():
    accountant = PrivacyAccountant(5, 1e-6)
    for losses in ([], [PrivacyLoss(rho=0.1)], [PrivacyLoss(0.1)] * 65537):
        with pytest.raises(ValueError, match=r"losses must be 1 to 65536 losses in epsilon, got .*; losses in rho add up by themselves"):
            accountant.children(losses, name="parts")
    refuses(ValueError, "epsilon must be", accountant.children, [0.1, -1], name="parts")
    assert accountant.ledger == ()
    accountant = PrivacyAccountant(5, 0.5)  # at no delta they cost the sum, and deltas multiply
    accountant.children([0.1, PrivacyLoss(0.2, 0.1), PrivacyLoss(0.3, 0.1)], name="parts")
    assert accountant.ledger[0].loss == PrivacyLoss(0.6, Fraction(19, 100))


def test_epsilon_at_another_delta_is_that_of_an_account_with_it():
    losses = [*[PrivacyLoss(0.05)] * 20, PrivacyLoss(0.1, 1e-8), gaussian(0.5, 1e-6)]
    accountant = PrivacyAccountant(9, 1e-5)
    for loss in losses:
        accountant.spend(loss, name="a")
    for delta in (1e-7, 1e-6, 1e-5, 1e-3):
        other = PrivacyAccountant(9, delta)
        for loss in losses:
            other.spend(loss, name="a")
        assert accountant.epsilon_at(delta) == other.spent
    assert accountant.epsilon_at(1e-9) == accountant.epsilon_at(0) == math.inf  # less than the losses take
    refuses(ValueError, "delta must be a number in", accountant.epsilon_at, 1)


def small_gaussian():
    return PrivacyLoss(rho=Fraction(1, 1000), gaussian=True)


@pytest.fixture(params=["memory", "file"])
def mixed(request, tmp_path):
    return PrivacyAccountant(3, 1e-6, ledger=tmp_path / "budget.db" if request.param == "file" else None)


@pytest.mark.parametrize("late", [PrivacyLoss(0.1), PrivacyLoss(0.1, 1e-9), PrivacyLoss(rho=1e-6)], ids=["pure", "with delta", "zcdp"])
def test_a_loss_of_another_kind_after_gaussian_noise_is_refused_and_costs_nothing(mixed, late):
    """Else an analyst who waits for the worst moment would have many times the delta."""
    mixed.spend(PrivacyLoss(0.5), name="first")
    mixed.spend(small_gaussian(), name="moments")
    before = mixed.spent, mixed.ledger
    refuses(ValueError, r"^'late' has a loss of .*, which may not follow losses in rho of another kind", mixed.spend, late, name="late")
    assert (mixed.spent, mixed.ledger) == before
    mixed.spend(small_gaussian(), name="more")
    assert mixed.spent == Fraction(1, 2) + epsilon_of_rho(Fraction(1, 500), MILLIONTH, gaussian=True)


def planned(budget, pure):
    """A fit whose plan has pure losses and Gaussian ones, charged to a budget by a child, or alone."""
    own = budget.child(1, MILLIONTH, name="fit") if budget is not None else PrivacyAccountant(1, MILLIONTH)
    beside = epsilon_beside(pure, Fraction(1), MILLIONTH)
    return own, PrivacyLoss(rho=rho_of_epsilon(beside, MILLIONTH, gaussian=True), gaussian=True)


@pytest.mark.must
@pytest.mark.parametrize("alone", [False, True])
def test_losses_that_a_plan_has_fixed_are_added_by_their_joint_curve_and_others_by_their_sum(mixed, alone):
    own, moments = planned(None if alone else mixed, Fraction(1, 2))
    own.spend(0.5, name="pure")
    refuses(BudgetExceededError, "'moments' costs epsilon=0.5", own.spend, moments, name="moments")
    own._planned = True
    own.spend(moments, name="moments")
    assert (own.spent, own.spent_delta, own.remaining) == (1, MILLIONTH, 0)
    assert own.epsilon_at(0.5) < own.epsilon_at(MILLIONTH) == 1 < own.epsilon_at(MILLIONTH / 2)
    assert own.to_frame()["epsilon"].sum() == pytest.approx(1, rel=1e-12)
    assert check_evidence(own.evidence()).wrong == []
    refuses(BudgetExceededError, "only 0 of 1 remains", own.spend, PrivacyLoss(rho=moments.rho / 10**6, gaussian=True), name="more")
    record = own.record()
    assert pickle.loads(pickle.dumps(record)).spent == 1
    refuses(BudgetExceededError, "remains", record.reopen().spend, 1e-6, name="later")
    if not alone:
        assert (mixed.spent, mixed.spent_delta) == (1, MILLIONTH)
        assert check_evidence(mixed.evidence()).wrong == []


def test_the_checker_finds_parts_that_exceed_their_joint_curve(mixed):
    own, moments = planned(mixed, Fraction(1, 2))
    own._planned = True
    own.spend(moments, name="moments")
    own.spend(0.5, name="pure")
    told = mixed.evidence()
    told["releases"][1]["loss"]["rho"] = str(moments.rho * (1 + Fraction(1, 10**6)))
    assert any("its parts need more" in line for line in check_evidence(told).wrong)


def test_records_of_a_child_in_rho_go_on_in_rho(mixed):
    child = mixed.child(0.5, 1e-7, name="moments", rho="gaussian")
    child.spend(small_gaussian(), name="first")
    for record in (child.record(), pickle.loads(pickle.dumps(child.record()))):
        again = record.reopen()
        assert again.spent == child.spent
        refuses(BudgetExceededError, "charge", again.spend, 0.4, name="pure")
        again.spend(small_gaussian(), name="more")
