"""Parities in a mixture: the nearest law, psi, and what is drawn, conditioned and filled in, against enumeration."""

from dataclasses import replace
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from internals import Mixture, MixtureSampler, ParityPart, Posterior, _parity_parts, nearest_law, parity_means, tilt
from internals import mixture_Part as Part
from laws import ALARM, CERTAIN, chi_squared
from scipy.optimize import minimize

SIZES = (3, 4, 2, 3, 2)
SIGNS = {0: np.array([0, 1, 1]), 1: np.array([0, 1, 1, 1]), 2: np.array([0, 1]), 3: np.array([0, 1, 0]), 4: np.array([0, 1])}
SIGNS = {column: sign.astype(bool) for column, sign in SIGNS.items()}
NULLABLE = [True, False, True, False, False]


def a_mixture(seed=0, n_nodes=5, sizes=SIZES):
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(size, 12.0), n_nodes).T for size in sizes]
    return Mixture(rng.dirichlet(np.ones(n_nodes)), tuple(Part.of_column(c, table) for c, table in enumerate(tables)))


def law(mixture, sizes=SIZES):
    """P of each row of codes, by enumeration."""
    found = np.zeros(sizes)
    for node, weight in enumerate(mixture.weights):
        for row in product(*map(range, sizes)):
            p = weight
            for part in mixture.parts:
                own = [part.within[c].classes[row[c]] if c in part.within else row[c] for c in part.columns]
                p *= part.probabilities[(part.codes == own).all(axis=1), node].sum()
                p *= np.prod([part.within[c].probabilities[row[c], node] for c in part.columns if c in part.within])
            found[row] += p
    return found


def of_signs(table, columns, signs=SIGNS):
    """The law of the signs of some columns, from that of rows of codes."""
    for column in range(table.ndim):
        sign = signs[column]
        parts = [np.compress(~sign, table, axis=column), np.compress(sign, table, axis=column)]
        table = np.concatenate([part.sum(axis=column, keepdims=True) for part in parts], axis=column)
    return table.sum(axis=tuple(c for c in range(table.ndim) if c not in columns))


def mean_of(signs_law):
    return float((signs_law * (-1.0) ** np.indices(signs_law.shape).sum(axis=0)).sum())


def pairs_of(table):
    return [table.sum(axis=tuple(c for c in range(table.ndim) if c not in pair)) for pair in combinations(range(table.ndim), 2)]


def joined(mixture, parts, label=0):
    return reduce(lambda whole, part: part.join(whole, label, {}, NULLABLE), parts, mixture)


@pytest.mark.parametrize("mean", [-0.2, 0.1, 0.4])
def test_the_nearest_law_of_three_signs_adds_the_same_to_all_of_one_product(mean):
    """Laws of three signs with the same pairs differ by a multiple of the product alone."""
    before = np.random.default_rng(0).dirichlet(np.full(8, 10.0)).reshape(2, 2, 2)
    signs = (-1.0) ** np.indices(before.shape).sum(axis=0)
    np.testing.assert_allclose(nearest_law(before, mean), before + signs * (mean - mean_of(before)) / 8, atol=1e-7)


def test_the_nearest_law_of_four_signs_is_that_of_a_general_solver():
    before = np.random.default_rng(1).dirichlet(np.full(16, 5.0))
    signs = (-1.0) ** np.indices([2] * 4).reshape(4, -1)
    A = np.array([np.prod(signs[list(some)], axis=0) for n in range(3) for some in combinations(range(4), n)])
    limits = [{"type": "eq", "fun": lambda q: A @ (q - before)}, {"type": "eq", "fun": lambda q: np.prod(signs, axis=0) @ q - 0.35}]
    found = minimize(lambda q: (q * np.log(q / before)).sum(), before, bounds=[(1e-9, 1)] * 16, constraints=limits, method="SLSQP")
    assert found.success
    np.testing.assert_allclose(nearest_law(before.reshape([2] * 4), 0.35).ravel(), found.x, atol=2e-5)


def test_where_no_law_has_both_the_pairs_are_kept():
    before = np.outer([0.95, 0.05], np.outer([0.9, 0.1], [0.5, 0.5])).reshape(2, 2, 2)
    for found, kept in zip(pairs_of(nearest_law(before, -0.9)), pairs_of(before), strict=True):
        np.testing.assert_allclose(found, kept, atol=1e-5)


@pytest.mark.parametrize("columns", [(0, 2, 4), (0, 1, 3), (0, 1, 2, 4), (0, 1, 2, 3, 4)])
def test_a_part_has_the_mean_product_and_leaves_pairs_of_its_signs_and_columns_outside(columns):
    mixture = a_mixture()
    (part,) = tilt([mixture], [], {c: SIGNS[c] for c in columns}, np.array([0.25]))
    before, after = law(mixture), law(joined(mixture, [part]))
    own = of_signs(after, columns)
    assert mean_of(own) == pytest.approx(0.25, abs=1e-5)
    assert abs(mean_of(of_signs(before, columns)) - 0.25) > 0.1
    for found, kept in zip(pairs_of(own), pairs_of(of_signs(before, columns)), strict=True):
        np.testing.assert_allclose(found, kept, atol=1e-5)
    outside = tuple(c for c in range(5) if c not in columns)
    np.testing.assert_allclose(after.sum(axis=columns), before.sum(axis=columns), atol=1e-12) if outside else None
    assert after.sum() == pytest.approx(1, abs=1e-12)


def test_an_exclusive_or_of_even_columns_is_exact():
    """All rows of one product occur alike, up to the most that a mean may be."""
    even = Mixture(np.ones(1), tuple(Part.of_column(c, np.full((2, 1), 0.5)) for c in range(3)))
    nullable, sign = [False] * 3, np.array([False, True])
    (part,) = tilt([even], [], dict.fromkeys(range(3), sign), np.array([1.0]))
    found = part.join(even, 0, {}, nullable).parts[0].probabilities.reshape(2, 2, 2)
    expected = (1 + _parity_parts._LARGEST_MEAN * (-1.0) ** np.indices((2, 2, 2)).sum(axis=0)) / 8
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_parts_that_share_columns_become_one_and_both_have_their_means():
    mixture = a_mixture(3)
    first = tilt([mixture], [], {c: SIGNS[c] for c in (0, 1, 2)}, np.array([0.2]))
    (part,) = tilt([mixture], first, {c: SIGNS[c] for c in (2, 3, 4)}, np.array([-0.15]))
    after = law(joined(mixture, [part]))
    assert part.columns == (0, 1, 2, 3, 4)
    assert mean_of(of_signs(after, (2, 3, 4))) == pytest.approx(-0.15, abs=1e-4)
    assert mean_of(of_signs(after, (0, 1, 2))) == pytest.approx(0.2, abs=0.02)  # which the second hardly moves


def test_too_many_columns_are_refused():
    mixture = a_mixture(sizes=[2] * 14)
    sign = np.array([False, True])
    parts = tilt([mixture], [], dict.fromkeys(range(5), sign), np.array([0.3]))
    parts = tilt([mixture], parts, dict.fromkeys(range(4, 9), sign), np.array([0.3]))
    parts = tilt([mixture], parts, dict.fromkeys(range(9, 13), sign), np.array([0.3]))
    assert [part.columns for part in parts] == [tuple(range(9)), tuple(range(9, 13))]
    assert tilt([mixture], parts, dict.fromkeys((8, 9, 10), sign), np.array([0.3])) is None


def test_each_class_has_its_own_mean_or_stays():
    mixtures = [a_mixture(0), a_mixture(1), a_mixture(2)]
    (part,) = tilt(mixtures, [], {c: SIGNS[c] for c in (0, 1, 4)}, np.array([0.2, np.nan, -0.2]))
    found = [mean_of(of_signs(law(joined(mixture, [part], label)), (0, 1, 4))) for label, mixture in enumerate(mixtures)]
    assert found[::2] == pytest.approx([0.2, -0.2], abs=1e-5)
    np.testing.assert_allclose(law(joined(mixtures[1], [part], 1)), law(mixtures[1]), atol=1e-12)


def test_means_of_products_are_those_of_enumeration_with_parts_and_without():
    mixture = a_mixture(4)
    parts = tilt([mixture], [], {c: SIGNS[c] for c in (0, 1, 2)}, np.array([0.4]))
    sets = [np.array(list(combinations(range(5), order))) for order in (3, 4, 5)]
    for some in ([], parts):
        after = law(joined(mixture, some))
        expected = [mean_of(of_signs(after, tuple(each))) for members in sets for each in members]
        np.testing.assert_allclose(parity_means(mixture, 0, some, SIGNS, sets), expected, atol=1e-12)


def a_joined_mixture():
    mixture = a_mixture(5)
    return joined(mixture, tilt([mixture], [], {c: SIGNS[c] for c in (0, 2, 3)}, np.array([0.45])))


def test_draws_have_the_law_of_the_joined_mixture():
    """The mixture without the part, which has the same pairs of signs, fails."""
    mixture, rng = a_joined_mixture(), np.random.default_rng(0)
    rows, observed = list(MixtureSampler(mixture, rng).codes(40_000, 0, rng)), np.zeros(SIZES)
    np.add.at(observed, tuple(rows), 1)
    assert chi_squared(observed, law(mixture)) > ALARM
    assert chi_squared(observed, law(a_mixture(5))) < CERTAIN


@pytest.mark.parametrize("allowed", [{0: [1, 0, 1]}, {3: [0.5, 1, 0], 1: [1, 0, 0, 1]}, {0: [0, 1, 0], 2: [0, 1], 4: [1, 0.1]}], ids=str)
def test_a_condition_is_met_exactly(allowed):
    mixture, shares = a_joined_mixture(), np.ones(SIZES)
    for column, own in allowed.items():
        shares *= np.array(own, dtype=float).reshape([-1 if c == column else 1 for c in range(5)])
    conditional, probability = mixture.condition({column: np.array(own, dtype=float) for column, own in allowed.items()})
    assert probability == pytest.approx((law(mixture) * shares).sum(), rel=1e-12)
    np.testing.assert_allclose(law(conditional), law(mixture) * shares / probability, atol=1e-14)


def test_cells_are_filled_in_by_the_law_given_the_others_and_are_not_missing():
    """The last codes of the first and third column are missing cells; one of these is filled in, the other is known."""
    mixture, n, rng = a_joined_mixture(), 40_000, np.random.default_rng(1)
    codes, known = np.tile([0, 1, 0, 1, 0], (n, 1)), np.tile([False, True, True, True, False], (n, 1))
    found = Posterior(mixture, np.array(SIZES), np.array(NULLABLE), codes, known).impute(rng)
    expected = law(mixture)[:, 1, 0, 1, :]
    expected[2] = 0
    observed = np.zeros((3, 2))
    np.add.at(observed, (found[:, 0], found[:, 4]), 1)
    assert chi_squared(observed, expected) > ALARM
    assert chi_squared(observed, np.where(np.arange(3)[:, None] < 2, law(a_mixture(5))[:, 1, 0, 1, :], 0)) < CERTAIN


def test_a_part_of_a_file_that_is_none_is_refused():
    sign, weights = np.array([False, True]), np.ones((1, 2, 2, 2))
    good = ParityPart((0, 1, 2), (sign,) * 3, weights)
    good._check_loaded()
    for wrong in ({"columns": (0, 2, 1)}, {"columns": (0, 1)}, {"signs": (sign,) * 2}, {"weights": -weights}, {"weights": weights[0]}):
        with pytest.raises(Exception):  # noqa: B017, PT011
            replace(good, **wrong)._check_loaded()
