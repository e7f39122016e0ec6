"""Mixtures of products: their conditional law against enumeration, what is drawn from them, and cells given those that are known."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from internals import Mixture, MixtureSampler, Pattern, Posterior
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


NULLABLE = np.array([False, True, False, True])  # the last code of the second and the fourth column is a missing cell
KNOWN = [
    (True, True, True, True),
    (False, True, True, True),
    (True, False, False, True),
    (False, False, True, False),
    (False, False, False, False),
]


def posterior(mixture, codes, known):
    return Posterior(mixture, np.array(SIZES), NULLABLE, np.asarray(codes), np.asarray(known))


def conditional(joint, codes, known):
    """P(row, agreeing with what is known, nothing else missing) of each row of codes, given that of each row."""
    for column, (code, is_known) in enumerate(zip(codes, known, strict=True)):
        allowed = np.arange(SIZES[column]) == code if is_known else np.arange(SIZES[column]) < SIZES[column] - NULLABLE[column]
        joint = joint * allowed.reshape([-1 if c == column else 1 for c in range(len(SIZES))])
    return joint


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("known", KNOWN)
def test_evidence_is_the_probability_of_what_is_known(known, tied):
    mixture = a_mixture(tied=tied)
    joint = law(mixture)
    rows = [row for row in np.ndindex(SIZES) if joint[row] > 0]
    found = posterior(mixture, rows, [known] * len(rows)).evidence()[:, 0]
    expected = [conditional(joint, row, known).sum() for row in rows]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-5)


def test_codes_that_a_class_rules_out_speak_against_it_more_than_any_that_it_allows():
    mixture = a_mixture(tied=True)
    everything, joint = [(True,) * 4] * int(np.prod(SIZES)), law(mixture)
    found = posterior(mixture, list(np.ndindex(SIZES)), everything).evidence()[:, 0]
    assert found[joint.ravel() == 0].max() < found[joint.ravel() > 0].min() - 1000


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("known", KNOWN)
def test_filled_rows_have_the_conditional_law(known, tied):
    """10,000 draws of all completions of a row; where some are left open, the law whatever is known fails."""
    mixture, row = a_mixture(4, tied=tied), (1, 2, 1, 1)
    drawn = posterior(mixture, [row] * 10_000, [known] * 10_000).impute(np.random.default_rng(0))
    observed = np.zeros(SIZES)
    np.add.at(observed, tuple(drawn.T), 1)
    assert chi_squared(observed, conditional(law(mixture), row, known)) > ALARM
    assert all(known) or chi_squared(observed, law(mixture)) < CERTAIN


def test_rows_of_all_patterns_at_once_keep_what_is_known():
    mixture, rng = a_mixture(5, tied=True), np.random.default_rng(1)
    rows = np.argwhere(law(mixture) > 0)
    codes, known = rows[rng.integers(len(rows), size=5000)], rng.random((5000, 4)) < 0.5
    drawn = posterior(mixture, codes, known).impute(rng)
    assert (drawn[known] == codes[known]).all()
    assert (~known & (drawn == np.array(SIZES) - 1) & NULLABLE).sum() == 0
    assert {(a, c) for a, c in drawn[:, [0, 2]].tolist()} <= {(0, 0), (1, 1), (2, 0), (2, 1)}


def test_codes_that_cannot_occur_together_tell_nothing():
    """(0, 1) is no tuple of the first and third columns: the others are drawn as if neither were known."""
    mixture = a_mixture(6, tied=True)
    codes, known = [[0, 0, 1, 0]] * 4000, [[True, False, True, False]] * 4000
    drawn = posterior(mixture, codes, known).impute(np.random.default_rng(2))
    expected = conditional(law(mixture), (0, 0, 0, 0), (False,) * 4).sum(axis=(0, 2, 3))[:3]
    assert chi_squared(np.bincount(drawn[:, 1], minlength=3)[:3], expected) > ALARM
    assert (drawn[:, [0, 2]] == [0, 1]).all()


def test_nodes_that_contradict_each_other_tell_nothing():
    """Each node allows one of two known codes: what is left is the law without them, and no row is lost."""
    table = np.array([[1.0, 0.0], [0.0, 1.0]])
    free = np.array([[0.9, 0.1], [0.1, 0.9]])
    mixture = Mixture(np.array([0.5, 0.5]), tuple(Part.of_column(c, t) for c, t in enumerate((table, table, free))))
    made = Posterior(
        mixture, np.array([2, 2, 2]), np.zeros(3, dtype=bool), np.array([[0, 1, 0]] * 1600), np.array([[True, True, False]] * 1600)
    )
    drawn = made.impute(np.random.default_rng(0))
    assert (drawn[:, :2] == [0, 1]).all()
    assert abs(drawn[:, 2].mean() - 0.5) < 0.1  # eight standard errors


def test_many_tuples_are_drawn_as_few_are():
    """Both ways to look a tuple up, of 100 codes, in the same random numbers."""
    rng = np.random.default_rng(0)
    part = Part.of_column(0, rng.dirichlet(np.full(100, 0.3), 7).T)
    pattern = Pattern.of(part, np.array([False]), np.array([100]), np.array([-1]))
    nodes, groups = rng.integers(7, size=3000), np.zeros(3000, dtype=int)
    many = pattern.sample(groups, nodes, np.random.default_rng(1))
    u = np.random.default_rng(1).random(3000)
    expected = [np.searchsorted(np.cumsum(part.probabilities[:, node]), x, side="right") for node, x in zip(nodes, u, strict=True)]
    assert (many[:, 0] == np.minimum(expected, 99)).mean() > 0.999  # rounding at the ends
