"""Transport on a line, and least-cost flow in whole numbers, against linear programs and brute force."""

import itertools
import time

import numpy as np
import pytest
from internals import PrimalDual, _grid_transport, _isotonic, transport_on_a_line
from scipy.optimize import linprog


def chain_program(points, mass):
    """The least cost of moving mass along a chain until none is negative: a flow to the right and one to the left over each gap."""
    n_points = len(points)
    right = np.eye(n_points)[:, 1:] - np.eye(n_points)[:, :-1]  # what a unit over each gap brings to each point
    gaps = np.diff(points)
    return linprog(np.tile(gaps, 2), A_ub=-np.hstack([right, -right]), b_ub=mass, method="highs").fun


def chain_program_with(points, mass, created):
    """The same where `created` may appear, anywhere."""
    n_points = len(points)
    right = np.eye(n_points)[:, 1:] - np.eye(n_points)[:, :-1]
    balance = np.hstack([-right, right, -np.eye(n_points)])
    all_created = np.concatenate([np.zeros(2 * n_points - 2), np.ones(n_points)])
    cost = np.concatenate([np.tile(np.diff(points), 2), np.zeros(n_points)])
    return linprog(cost, A_ub=np.vstack([balance, all_created]), b_ub=np.append(mass, created), method="highs").fun


MASSES = {
    "whole": lambda rng, m: rng.integers(-4, 6, m).astype(float),
    "tenths": lambda rng, m: rng.integers(-4, 6, m) / 10,  # sums that should tie differ by rounding
    "real": lambda rng, m: rng.normal(0.2, 1, m),
}
POINTS = {
    "equal gaps": lambda rng, m: np.arange(m) / 4,
    "unequal gaps": lambda rng, m: np.sort(rng.random(m)),
    "coinciding": lambda rng, m: np.sort(rng.integers(0, 1 + m // 3, m)) / 3,
}


def instances(points, masses, n=12):
    """Lines of 1 to 40 points whose mass is at least 0."""
    rng = np.random.default_rng([len(points), len(masses)])
    for m in [1, *rng.integers(2, 41, n)]:
        mass = MASSES[masses](rng, m)
        mass[rng.integers(m)] += max(0, 0.1 - mass.sum()) if masses == "real" else max(0, np.ceil(-mass.sum()))
        yield POINTS[points](rng, m), mass


each_line = pytest.mark.parametrize(("points", "masses"), list(itertools.product(POINTS, MASSES)))


@each_line
def test_cost_is_that_of_a_linear_program_and_the_residual_attains_it_and_the_bound_proves_it(points, masses):
    for at, mass in instances(points, masses):
        residual, cost, bound = transport_on_a_line(at, mass)
        assert cost == pytest.approx(chain_program(at, mass) if len(at) > 1 else 0, abs=1e-9)
        assert bound == pytest.approx(cost, abs=1e-12)
        only = np.diff(at) @ np.abs(np.cumsum(mass - residual)[:-1])  # the one flow that turns the mass into what is left
        assert only == pytest.approx(cost, abs=1e-12)
        assert residual.min() >= -1e-12
        assert residual.sum() == pytest.approx(mass.sum(), abs=1e-12)
        if masses == "whole":
            whole, _, _ = transport_on_a_line(at, mass.astype(np.int64))
            assert whole.dtype == np.int64
            assert np.array_equal(residual, np.rint(residual))
            assert residual.sum() == whole.sum() == mass.sum()


@each_line
def test_where_mass_is_created_cost_is_that_of_a_linear_program_and_is_proved(points, masses):
    rng, n_paid = np.random.default_rng(8), 0
    for m in rng.integers(2, 30, 40):
        at, mass = POINTS[points](rng, m), MASSES[masses](rng, m) - rng.choice([0, 1])
        least, most = max(0.0, -mass.sum()), -np.minimum(mass, 0).sum()
        if most > least:
            created = least + rng.choice([0.02, 0.3, 0.5, 0.9]) * (most - least)
            residual, cost, bound = transport_on_a_line(at, mass, created)
            assert cost == pytest.approx(chain_program_with(at, mass, created), abs=1e-9)
            assert bound == pytest.approx(cost, abs=1e-12)
            assert residual.min() >= 0
            if cost > 1e-9:  # else less may be enough
                assert residual.sum() == pytest.approx(mass.sum() + created, abs=1e-12)
            n_paid += cost > 1e-9
    assert n_paid > 5


def test_isotonic_regression_beats_every_monotone_sequence_of_data_values():
    # Some optimum takes only values of the data: the objective is linear between them.
    rng = np.random.default_rng(0)
    for _ in range(150):
        n = rng.integers(1, 7)
        values = rng.integers(-3, 4, n).astype(float) if rng.random() < 0.5 else rng.normal(size=n)
        weights = rng.choice([0.0, 1.0, 2.0], n) if rng.random() < 0.5 else rng.random(n)
        found = _isotonic(values, weights)
        best = min(weights @ np.abs(values - k) for k in itertools.combinations_with_replacement(np.sort(values), n))
        assert np.all(np.diff(found) >= 0)
        assert weights @ np.abs(values - found) == pytest.approx(best, abs=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize("masses", MASSES)
def test_time_grows_almost_linearly_with_the_points(masses):
    # Five times the points: 5 to 6 times the time at O(n log n), 25 times at O(n**2). Best of three, as the machine is shared.
    rng, seconds = np.random.default_rng(1), []
    for m in (20_000, 100_000):
        mass, times = MASSES[masses](rng, m), []
        mass[0] += max(0, np.ceil(-mass.sum()))
        for _ in range(3):
            start = time.perf_counter()
            transport_on_a_line(np.arange(m) / m, mass)
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
    assert seconds[1] < 15 * seconds[0]


def network(seed, n=12, unit=1):
    """Arcs (source, sink, cost), each pair of nodes once, all nodes on a ring; and masses that can be met."""
    rng = np.random.default_rng(seed)
    pairs = {(int(node), int((node + 1) % n)) for node in range(n)}
    for source, sink in rng.integers(0, n, (2 * n, 2)):
        if source != sink and (sink, source) not in pairs:
            pairs.add((int(source), int(sink)))
    source, sink = np.array(sorted(pairs)).T
    mass = rng.integers(-9, 10, n)
    mass[0] += max(0, -mass.sum()) + rng.integers(0, 3)
    return source, sink, rng.integers(0, 5, len(source)), mass * unit


def shortest(source, sink, cost, prices):
    """The largest prices up to these that rise by at most the cost along every arc."""
    prices = prices.copy()
    for _ in range(len(prices)):
        np.minimum.at(prices, sink, prices[source] + cost)
    return prices


def least_cost(source, sink, cost, mass):
    leaving = np.zeros((len(mass), len(source)))
    leaving[source, np.arange(len(source))] += 1
    leaving[sink, np.arange(len(source))] -= 1
    return linprog(cost, A_ub=leaving, b_ub=mass, method="highs").fun


def cost_of_flow(found, source, sink, cost):
    moved = found.flow.toarray()
    assert np.array_equal(moved, -moved.T)
    return int((np.maximum(moved[source, sink], 0) * cost).sum())


@pytest.mark.parametrize(("high", "bits", "capacity"), [(0, 0, None), (3, 0, None), (1000, 0, 2), (0, 20, 5), (0, 40, None), (0, 55, None)])
def test_flow_and_prices_are_best_and_prove_each_other(high, bits, capacity, monkeypatch):
    """From any prices, with masses beyond 32 bits, and whatever the units of capacity."""
    if capacity:
        monkeypatch.setattr(_grid_transport, "_CAPACITY_BITS", capacity)
        monkeypatch.setattr(_grid_transport, "_FINER_BITS", 1)
    for seed in range(20):
        source, sink, cost, mass = network(seed, unit=1 + seed if capacity else 1)
        rng = np.random.default_rng(seed)
        start = shortest(source, sink, cost, rng.integers(0, high + 1, len(mass)))
        mass = mass * 2**bits + np.where(mass > 0, rng.integers(0, 2**bits // 9 + 1, len(mass)), 0)
        found = PrimalDual(source, sink, cost, mass, start).solve()
        if not bits:
            assert cost_of_flow(found, source, sink, cost) == pytest.approx(least_cost(source, sink, cost, mass), abs=1e-7)
        assert cost_of_flow(found, source, sink, cost) == -mass @ found.price
        assert np.all(found.price >= 0)
        assert np.all(found.price[sink] <= found.price[source] + cost)
        flow = found.flow.toarray()
        np.testing.assert_array_equal(flow.sum(axis=1), found.sent - np.maximum(-mass, 0))  # each demand is met
        assert np.all((found.sent >= 0) & (found.sent <= np.maximum(mass, 0)))
        of = {(int(u), int(v)): price for u, v, price in zip(source, sink, cost, strict=True)}
        assert all(found.price[v] == found.price[u] + of[u, v] for u, v in np.argwhere(flow > 0).tolist())  # only arcs that just pay
        assert np.all(found.sent[found.price > 0] == np.maximum(mass, 0)[found.price > 0])  # what is dear is sent
