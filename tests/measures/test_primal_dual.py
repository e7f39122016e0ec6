"""Least-cost flow in whole numbers, against linear programs, from any prices."""

import numpy as np
import pytest
from internals import PrimalDual, _grid_transport
from scipy.optimize import linprog


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


def cost_of(found, source, sink, cost):
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
            assert cost_of(found, source, sink, cost) == pytest.approx(least_cost(source, sink, cost, mass), abs=1e-7)
        assert cost_of(found, source, sink, cost) == -mass @ found.price
        assert np.all(found.price >= 0)
        assert np.all(found.price[sink] <= found.price[source] + cost)
        flow = found.flow.toarray()
        np.testing.assert_array_equal(flow.sum(axis=1), found.sent - np.maximum(-mass, 0))  # each demand is met
        assert np.all((found.sent >= 0) & (found.sent <= np.maximum(mass, 0)))
        of = {(int(u), int(v)): price for u, v, price in zip(source, sink, cost, strict=True)}
        assert all(found.price[v] == found.price[u] + of[u, v] for u, v in np.argwhere(flow > 0).tolist())  # only arcs that just pay
        assert np.all(found.sent[found.price > 0] == np.maximum(mass, 0)[found.price > 0])  # what is dear is sent
