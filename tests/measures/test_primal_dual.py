"""Least-cost flow in whole numbers, against linear programs, from any prices."""

import numpy as np
import pytest
from internals import PrimalDual, _primal_dual
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


@pytest.mark.parametrize("high", [0, 3, 1000])
def test_flow_and_prices_are_best_and_prove_each_other(high):
    for seed in range(20):
        source, sink, cost, mass = network(seed)
        start = shortest(source, sink, cost, np.random.default_rng(seed).integers(0, high + 1, len(mass)))
        found = PrimalDual(source, sink, cost, mass, start).solve()
        assert cost_of(found, source, sink, cost) == pytest.approx(least_cost(source, sink, cost, mass), abs=1e-7)
        assert cost_of(found, source, sink, cost) == -mass @ found.price
        assert np.all(found.price >= 0)
        assert np.all(found.price[sink] <= found.price[source] + cost)


def test_flow_meets_every_demand_and_sends_no_more_than_there_is():
    for seed in range(20):
        source, sink, cost, mass = network(seed)
        found = PrimalDual(source, sink, cost, mass, np.zeros_like(mass)).solve()
        leaving = found.flow.toarray().sum(axis=1)
        np.testing.assert_array_equal(leaving, found.sent - np.maximum(-mass, 0))
        assert np.all(found.sent <= np.maximum(mass, 0))
        assert np.all(found.sent >= 0)


def test_only_arcs_that_just_pay_carry_flow_and_what_is_dear_is_sent():
    for seed in range(20):
        source, sink, cost, mass = network(seed)
        found = PrimalDual(source, sink, cost, mass, np.zeros_like(mass)).solve()
        rows, columns = np.nonzero(found.flow.toarray() > 0)
        of = {pair: price for *pair, price in zip(source, sink, cost, strict=True) for pair in [tuple(pair)]}
        assert all(found.price[v] == found.price[u] + of[u, v] for u, v in zip(rows, columns, strict=True))
        assert np.all(found.sent[found.price > 0] == np.maximum(mass, 0)[found.price > 0])


@pytest.mark.parametrize("bits", [20, 40, 55])
def test_masses_beyond_32_bits_are_met_to_the_last_unit(bits):
    for seed in range(20):
        source, sink, cost, mass = network(seed)
        rng = np.random.default_rng(seed)
        large = mass * 2**bits + np.where(mass > 0, rng.integers(0, 2**bits // 9, len(mass)), 0)
        found = PrimalDual(source, sink, cost, large, np.zeros_like(large)).solve()
        leaving = found.flow.toarray().sum(axis=1)
        np.testing.assert_array_equal(leaving, found.sent - np.maximum(-large, 0))
        assert cost_of(found, source, sink, cost) == -large @ found.price


@pytest.mark.parametrize("bits", [2, 5])
def test_units_of_capacity_change_nothing_that_is_proved(bits, monkeypatch):
    monkeypatch.setattr(_primal_dual, "_BITS", bits)
    monkeypatch.setattr(_primal_dual, "_FINER", 1)
    for seed in range(20):
        source, sink, cost, mass = network(seed, unit=1 + seed)
        found = PrimalDual(source, sink, cost, mass, np.zeros_like(mass)).solve()
        assert cost_of(found, source, sink, cost) == -mass @ found.price
