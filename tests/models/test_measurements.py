"""Noisy tables: how much of what tells classes apart is kept, and tables of a union of rows."""

import numpy as np
import pytest
from internals import contrasts_expected as expected
from internals import pool_tables, recoding_matrix, shrink_class_contrasts

from skdpsynth.domain import Schema
from skdpsynth.models import Codes, LevelGroups, Link, Measurements, NoisyTables, pool_measurements

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


SIZES = [400.0, 800.0, 3200.0]


def parts(seed, laws, deviation, sizes=SIZES):
    """Noisy tables of parts of some sizes, each with its law; and the exact table of all."""
    rng = np.random.default_rng(seed)
    exact = [rng.multinomial(int(size), law.ravel()).reshape(law.shape) for size, law in zip(sizes, laws, strict=True)]
    return [(counts + deviation * rng.normal(size=counts.shape), deviation**2) for counts in exact], sum(exact)


def law(seed, shape=(1, 6, 7)):
    return np.random.default_rng(seed).dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)


def error(found, exact):
    return float(((found - exact) ** 2).sum())


def test_one_part_stays_as_it_is_and_without_noise_the_union_is_the_plain_sum():
    (noisy,), _ = parts(0, [law(0)], 30.0, [500.0])
    table, variance = pool_tables([noisy], [500.0], [500.0])
    assert np.allclose(table, noisy[0])
    assert variance == pytest.approx(900)
    noisy, exact = parts(0, [law(0), law(1), law(2)], 0.0)
    table, variance = pool_tables(noisy, SIZES, SIZES)
    assert np.allclose(table, exact, rtol=1e-12)
    assert variance == 0


@pytest.mark.parametrize(("laws", "deviation", "most"), [([0] * 3, 60.0, 0.7), *(([0, 1, 2], each, 1.13) for each in (5.0, 20.0, 60.0))])
def test_parts_of_one_law_have_less_error_together_than_their_sum_has_and_others_never_more(laws, deviation, most):
    """100 draws: the mean ratio is near .5, or at most 1 by the theorem; its standard error below .02."""
    ratios = []
    for seed in range(100):
        noisy, exact = parts(seed, [law(each) for each in laws], deviation)
        ratios.append(error(pool_tables(noisy, SIZES, SIZES)[0], exact) / error(sum(table for table, _ in noisy), exact))
    assert np.mean(ratios) < most


def test_variance_of_parts_that_are_all_noise_is_what_it_says():
    """Uniform parts, 400 draws of 42 counts: the mean square is within 10 % of the variance (its standard error is below 1 %)."""
    flat = np.full((1, 6, 7), 1 / 42)
    squares, said = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        noisy = [(size * flat + 60 * rng.normal(size=flat.shape), 3600.0) for size in SIZES]
        table, variance = pool_tables(noisy, SIZES, SIZES)
        squares.append(np.mean((table - sum(SIZES) * flat) ** 2))
        said.append(variance)
    assert 0.9 < np.mean(squares) / np.mean(said) < 1.1


def test_a_part_that_was_not_counted_so_has_the_mean_of_the_others():
    noisy, _ = parts(0, [law(0)] * 2, 5.0, [1000.0, 2000.0])
    table, _ = pool_tables([noisy[0], None, noisy[1]], [1000.0, 500.0, 2000.0], [1000.0, 500.0, 2000.0])
    without, _ = pool_tables(noisy, [1000.0, 2000.0], [1000.0, 2000.0])
    assert np.allclose(table, without * 3500 / 3000, rtol=0.02, atol=1)


def link(edges, n_cells=16, seed=0):
    return Link(np.random.default_rng(seed).dirichlet(np.ones(n_cells)), np.array(edges))


@pytest.mark.parametrize("nullable", [False, True])
def test_bins_that_are_joined_are_translated_exactly_and_one_that_is_cut_by_the_mass_of_its_cells_or_their_widths(nullable):
    shares = recoding_matrix(link([0, 4, 8, 16]), link([0, 8, 16]), nullable)
    assert np.allclose(shares[:3, :2], [[1, 0], [1, 0], [0, 1]])
    assert not nullable or np.array_equal(shares[-1], [0, 0, 1])
    new = link([0, 3, 16])
    shares = recoding_matrix(link([0, 8, 16]), new, nullable=False)
    assert shares[0, 0] == pytest.approx(new.mass[:3].sum() / new.mass[:8].sum())
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares[1], [0, 1])
    new = Link(np.r_[np.zeros(8), np.full(8, 1 / 8)], np.array([0, 2, 16]))
    assert np.allclose(recoding_matrix(link([0, 8, 16]), new, nullable=False)[0], [1 / 4, 3 / 4])


def test_groups_of_levels_are_translated_level_by_level():
    counts = np.random.default_rng(0).integers(1, 1000, 30).astype(float)
    old, new = (
        LevelGroups.of(counts[order], 0.0, np.zeros(30, dtype=np.int64), most) for order, most in ((np.arange(30), 6), (slice(None), 12))
    )
    shares = recoding_matrix(old, new, nullable=False)
    for level in range(30):
        assert shares[old.codes[level], new.codes[level]] > 0
    own = [code for code in range(old.n_bins) if np.sum(old.codes == code) == 1]
    assert all(shares[code].max() == pytest.approx(1) for code in own)


def counted(edges, counts, n):
    codes = Codes({"x": link(edges)}, {}, {}, ((0,),), n)
    table = np.array(counts, dtype=float)[None]
    return Measurements(SCHEMA, None, codes, NoisyTables({(0,): table}, 0.0), NoisyTables({}, 0.0), n)


SCHEMA = Schema({"x": (0, 1)})


def test_a_union_has_the_codes_of_its_last_part_and_all_rows_and_codes_serve_until_twice_as_many_have_come_as_chose_them():
    union = pool_measurements([counted([0, 4, 8, 16], [10, 20, 30], 60), counted([0, 8, 16], [5, 7], 12)], [60, 12])
    assert np.allclose(union.one_way.tables[(0,)], [[35, 37]])
    assert union.n_samples == 72
    assert union.codes.links["x"].n_bins == 2
    codes = Codes({}, {}, {}, (), 1000)
    assert [each.can_count(n) for each, n in ((codes, 1999), (codes, 2000), (codes.after(1000), 999), (codes.after(1000), 1000))] == [
        *(True, False, True, False)
    ]
