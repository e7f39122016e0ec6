"""Mixtures of products: their conditional law against enumeration, and what is drawn from them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from internals import Mixture, MixtureSampler
from internals import mixture_Part as Part
from laws import ALARM, CERTAIN, chi_squared, has_law

SIZES = (3, 4, 2, 3)


def a_mixture(seed=0, n_nodes=5, tied=False):
    """Four columns; `tied`: the first and third can only occur in four of their six pairs."""
    rng = np.random.default_rng(seed)

    def table(n):
        return rng.dirichlet(np.full(n, 0.5), n_nodes).T

    weights = rng.dirichlet(np.ones(n_nodes))
    if not tied:
        return Mixture(weights, tuple(Part.of_column(c, table(n)) for c, n in enumerate(SIZES)))
    pairs = np.array([[0, 0], [1, 1], [2, 0], [2, 1]])
    return Mixture(weights, (Part((0, 2), pairs, table(4)), Part.of_column(1, table(4)), Part.of_column(3, table(3))))


def law(mixture):
    """P of each row of codes, by enumeration."""
    found = np.zeros(SIZES)
    for node, weight in enumerate(mixture.weights):
        for tuples in product(*(range(len(part.codes)) for part in mixture.parts)):
            row = [0] * len(SIZES)
            p = weight
            for part, t in zip(mixture.parts, tuples, strict=True):
                p *= part.probabilities[t, node]
                for column, code in zip(part.columns, part.codes[t], strict=True):
                    row[column] = code
            found[tuple(row)] += p
    return found


def shares_of(allowed):
    """P(condition | row), of each row of codes."""
    out = np.ones(SIZES)
    for column, shares in allowed.items():
        out *= np.asarray(shares, dtype=float).reshape([-1 if c == column else 1 for c in range(len(SIZES))])
    return out


CONDITIONS = [
    {},
    {0: np.array([True, False, True])},
    {1: np.array([False, False, True, False]), 3: np.array([True, True, False])},
    {0: np.array([False, True, True]), 2: np.array([False, True])},
    {0: np.array([0.2, 0.0, 1.0]), 1: np.array([0.5, 0.25, 0.0, 1.0]), 2: np.array([1.0, 0.1]), 3: np.array([0.0, 0.0, 0.3])},
]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("allowed", CONDITIONS)
def test_conditional_law_is_that_of_enumeration(allowed, tied):
    mixture = a_mixture(tied=tied)
    conditional, probability = mixture.condition(allowed)
    joint = law(mixture) * shares_of(allowed)
    assert probability == pytest.approx(joint.sum(), rel=1e-12)
    np.testing.assert_allclose(law(conditional), joint / joint.sum(), atol=1e-14)
    assert conditional.weights.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("tied", [False, True])
def test_conditions_one_after_the_other_are_the_conditions_at_once(tied):
    mixture = a_mixture(1, tied=tied)
    first, second = {0: np.array([True, False, True])}, {3: np.array([0.5, 1.0, 0.0]), 2: np.array([True, False])}
    once, probability = mixture.condition(first | second)
    half, one = mixture.condition(first)
    twice, other = half.condition(second)
    assert one * other == pytest.approx(probability, rel=1e-12)
    np.testing.assert_allclose(law(twice), law(once), atol=1e-14)


def test_a_condition_that_cannot_be_met_has_probability_0():
    mixture = a_mixture(tied=True)
    assert mixture.condition({0: np.array([True, False, False]), 2: np.array([False, True])}) == (mixture, 0.0)
    assert mixture.condition({1: np.zeros(4, dtype=bool)}) == (mixture, 0.0)


def test_nodes_that_exclude_a_condition_have_no_weight():
    table = np.array([[1.0, 0.0], [0.0, 1.0]])
    mixture = Mixture(np.array([0.25, 0.75]), (Part.of_column(0, table), Part.of_column(1, table)))
    conditional, probability = mixture.condition({0: table[:, 0]})
    assert probability == 0.25
    assert conditional.weights.tolist() == [1.0, 0.0]
    assert all(np.isfinite(part.probabilities).all() for part in conditional.parts)


def test_conditions_on_very_many_columns_do_not_vanish():
    """Their product is below the least float within a node, and is not told from 0 only at the end."""
    n = 400
    tables = [np.array([[1e-3, 1e-4], [1 - 1e-3, 1 - 1e-4]]) for _ in range(n)]
    conditional, probability = Mixture.of_columns([*tables[:-1], np.full((2, 2), 0.5)]).condition({column: [1, 0] for column in range(100)})
    assert probability == pytest.approx(0.5e-300)
    np.testing.assert_allclose(conditional.weights, [1, 0], atol=1e-90)
    # Beyond the floats the probability is 0.
    assert Mixture.of_columns(tables).condition({column: [1, 0] for column in range(n)})[1] == 0


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("allowed", [CONDITIONS[0], CONDITIONS[1], CONDITIONS[4]])
def test_draws_have_the_law_of_the_mixture(allowed, tied):
    """20,000 rows, which are evener than independent ones, and the first ones of samples of seven; the mixture with equal weights fails."""
    mixture, _ = a_mixture(2, tied=tied).condition(allowed)
    expected, rng = law(mixture), np.random.default_rng(5)
    others = law(replace(mixture, weights=np.where(mixture.weights > 0, 1 / np.count_nonzero(mixture.weights), 0)))

    def rows(n):
        return np.array(list(MixtureSampler(mixture, rng).codes(n, 0, rng)))

    def p_value(rows, expected=expected):
        observed = np.zeros(SIZES)
        np.add.at(observed, tuple(rows), 1)
        return chi_squared(observed, expected)

    drawn = rows(20_000)
    assert p_value(drawn) > ALARM
    assert p_value(drawn, others) < CERTAIN
    assert has_law(lambda n: np.array([rows(7)[:, 0] for _ in range(n)]).T, p_value, 300)
