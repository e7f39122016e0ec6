"""How much of what tells classes apart is kept, given how noisy it is."""

import numpy as np
import pytest
from internals import NoisyTables, shrink_class_contrasts
from internals import contrasts_expected as expected

N_COLUMNS, SIZE, DEVIATION = 20, 12, 40.0


def truth(strength, n_classes=2, seed=0, of_classes=(3000.0, 1000.0, 500.0)):
    """Counts of classes in columns, of which every fourth tells the classes apart, along its order."""
    rng = np.random.default_rng(seed)
    rows = np.array(of_classes[:n_classes])
    tables = {}
    for i in range(N_COLUMNS):
        shares = np.tile(rng.dirichlet(np.full(SIZE, 20)), (n_classes, 1))
        if i % 4 == 0:
            slope = strength * np.linspace(-1, 1, SIZE)
            shares = shares * np.exp(np.outer(np.linspace(-1, 1, n_classes), slope))
        tables[i,] = rows[:, None] * shares / shares.sum(axis=1, keepdims=True)
    return rows, tables


def noisy(tables, rows, seed=1):
    """Those tables with noise, each with as many rows in a class as before."""
    rng = np.random.default_rng(seed)
    made = {place: table + rng.normal(0, DEVIATION, table.shape) for place, table in tables.items()}
    made = {place: table - (table.sum(axis=1) - rows)[:, None] / SIZE for place, table in made.items()}
    return NoisyTables(made, DEVIATION**2)


def told(tables, rows, pairs=None, ordered=True):
    return shrink_class_contrasts(tables, pairs or NoisyTables({}, 1.0), rows, [np.full(SIZE, ordered)] * N_COLUMNS)


def squared_error(found, tables):
    return sum(float(((found.tables[place] - table) ** 2).sum()) for place, table in tables.items())


@pytest.mark.parametrize(("ordered", "part"), [(True, 0.6), (False, 0.35)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_error_falls_where_few_columns_tell_classes_apart(n_classes, ordered, part):
    rows, tables = truth(0.5, n_classes)
    given = noisy(tables, rows)
    found, _ = told(given, rows, ordered=ordered)
    for table in found.tables.values():
        np.testing.assert_allclose(table.sum(axis=1), rows)
    of_contrasts = (n_classes - 1) / n_classes  # of the error; what all classes share stays as noisy as it was
    assert squared_error(found, tables) < (1 - part * of_contrasts) * squared_error(given, tables)


def test_a_class_of_nearly_all_rows_gets_no_noise_of_the_others():
    rows, tables = truth(0.0, 3, of_classes=(9000.0, 50.0, 50.0))
    given = noisy(tables, rows)
    found, _ = told(given, rows)
    errors = [sum(float(((each.tables[place] - table)[0] ** 2).sum()) for place, table in tables.items()) for each in (found, given)]
    assert errors[0] < 1.02 * errors[1]


def test_error_hardly_grows_where_all_stand_out_and_none_has_an_order():
    rows = np.array([3000.0, 3000.0])
    tables = {(i,): 3000 * np.random.default_rng(i).dirichlet(np.ones(SIZE), 2) for i in range(N_COLUMNS)}
    given = noisy(tables, rows)
    assert squared_error(told(given, rows, ordered=False)[0], tables) < 1.02 * squared_error(given, tables)


def test_the_variance_that_is_left_is_that_of_the_error():
    rows, tables = truth(0.5)
    errors, stated = [], []
    for seed in range(20):
        given = noisy(tables, rows, seed)
        found, _ = told(given, rows)
        errors.append(squared_error(found, tables) / (N_COLUMNS * 2 * (SIZE - 1)))
        stated.append(found.variance)
    assert np.mean(stated) == pytest.approx(np.mean(errors), rel=0.1)


def test_without_noise_or_classes_nothing_changes():
    rows, tables = truth(0.5)
    exact = NoisyTables(tables, 0.0)
    assert told(exact, rows)[0] is exact
    alone = NoisyTables({place: table[:1] for place, table in tables.items()}, 1.0)
    assert told(alone, rows[:1])[0] is alone


def test_pairs_have_the_margins_of_their_columns():
    rows, tables = truth(0.5)
    given = noisy(tables, rows)
    pairs = {(i, j): np.einsum("ca,cb->cab", given.tables[i,], given.tables[j,]) / rows[:, None, None] for i, j in [(0, 1), (3, 4), (0, 4)]}
    found, of_pairs = told(given, rows, NoisyTables(pairs, 1.0))
    for (i, j), table in of_pairs.tables.items():
        np.testing.assert_allclose(table.sum(axis=2), found.tables[i,], atol=1e-8)
        np.testing.assert_allclose(table.sum(axis=1), found.tables[j,], atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_columns_of_few_codes_and_missing_cells_have_finite_counts(size):
    rows = np.array([100.0, 0.0])
    given = NoisyTables({(0,): np.random.default_rng(0).normal(50, 40, (2, size))}, 40.0**2)
    found, _ = shrink_class_contrasts(given, NoisyTables({}, 1.0), rows, [np.arange(size) < size - 1])
    assert np.isfinite(found.tables[0,]).all()


def test_means_are_those_given_the_law_of_the_numbers():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(50_000) < 0.8, 0.0, rng.normal(0, 4, 50_000))
    seen = values + rng.normal(size=len(values))
    at = np.linspace(-8, 8, 33)
    of_zero, of_others = 0.8 * np.exp(-(at**2) / 2), 0.2 * np.exp(-(at**2) / 34) / 17**0.5
    right = at * 16 / 17 * of_others / (of_zero + of_others)
    means, left = expected(np.concatenate([seen, at])[None])
    means = means[0]
    np.testing.assert_allclose(means[-33:], right, atol=0.15)
    assert left == pytest.approx(np.mean((means[:-33] - values) ** 2), rel=0.05)
    means, left = expected(np.array([[1e6, -3e5, 1e9]]))  # beyond all noise
    np.testing.assert_allclose(means, [[1e6, -3e5, 1e9]], rtol=1e-3)
    assert left == pytest.approx(1, abs=1e-3)
