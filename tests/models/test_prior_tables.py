"""Estimates that are pulled towards a public table: what a pull may lose, what it gains, and what it leaves alone."""

from itertools import combinations

import numpy as np
import pytest
from internals import center_table, james_stein_factor

from skdpsynth.domain import Schema
from skdpsynth.models import (
    Codes,
    Estimates,
    LevelGroups,
    Link,
    Measurements,
    NoisyInteractions,
    NoisyTables,
    Pool,
    PublicPrior,
    pool_measurements,
)

SIZES = [5, 4, 7, 2]
PAIRS = list(combinations(range(len(SIZES)), 2))
ROWS = 4000.0


def law(seed, n_classes=1):
    """A joint law of all columns in each class, in which they depend on each other."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.dirichlet(np.full(int(np.prod(SIZES)), 0.2)).reshape(SIZES) for _ in range(n_classes)]) / n_classes


def tables(cells, places):
    return {place: cells.sum(axis=tuple(axis for axis in range(1, cells.ndim) if axis - 1 not in place)) for place in places}


def prior_of(cells, cuts=None):
    return PublicPrior(tables(cells, [(i,) for i in range(len(SIZES))]), tables(cells, PAIRS), cuts or {})


def noisy(cells, deviation, seed):
    """Estimates of the tables of exact counts; interactions have three times the noise of columns."""
    rng = np.random.default_rng(seed)
    one = {place: table + deviation * rng.normal(size=table.shape) for place, table in tables(cells, [(i,) for i in range(4)]).items()}
    two = {place: table + 3 * deviation * rng.normal(size=table.shape) for place, table in tables(cells, PAIRS).items()}
    interactions = NoisyInteractions(two, dict.fromkeys(PAIRS, 1), 9 * deviation**2)
    return Estimates.of([NoisyTables(one, deviation**2), interactions], PAIRS, int(ROWS))


def pull(prior, estimates):
    return prior.pull(estimates.one_way, estimates.two_way, estimates.rows(int(ROWS)))


def error(found, exact):
    return sum(float(((found.tables[place] - table) ** 2).sum()) for place, table in exact.items())


def errors(truth, prior, deviation, n_draws):
    """Mean squared errors of (columns, pairs), after the pull and before it."""
    exact = [tables(truth, [(i,) for i in range(4)]), tables(truth, PAIRS)]
    sums = np.zeros((2, 2))
    for seed in range(n_draws):
        estimates = noisy(truth, deviation, seed)
        after = pull(prior, estimates)
        sums += [
            [error(found, own) for found, own in zip(each, exact, strict=True)] for each in (after, (estimates.one_way, estimates.two_way))
        ]
    return sums / n_draws


def turned(cells):
    return np.flip(cells, axis=(1, 2, 3, 4))


PRIORS = {
    "right": lambda truth: truth,
    "turned": turned,
    "another": lambda truth: law(9) * ROWS,
    "even": lambda truth: np.ones_like(truth),
    "half right": lambda truth: truth + law(9) * ROWS,
    "nearly right": lambda truth: 0.9 * truth + 0.1 * law(9) * ROWS,
}


@pytest.mark.parametrize("n_counts", [3, 4, 10, 40])
@pytest.mark.parametrize("distance", [0.0, 1.0, 3.0, 10.0, 100.0])
def test_what_is_kept_never_loses_to_the_noisy_numbers(n_counts, distance):
    """40,000 draws: the standard error of the mean difference is under .006 a number; six of them."""
    rng = np.random.default_rng(n_counts)
    away = np.full(n_counts, distance / np.sqrt(n_counts))
    y = away + rng.normal(size=(40_000, n_counts))
    share = james_stein_factor((y**2).sum(axis=1), n_counts, 1.0)
    difference = ((share[:, None] * y - away) ** 2).sum(axis=1) - ((y - away) ** 2).sum(axis=1)
    assert difference.mean() < 6 * difference.std() / 200


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("deviation", [3.0, 30.0, 300.0])
def test_a_pull_never_adds_to_the_squared_error_and_one_to_what_is_right_takes_most_of_it_away(prior, deviation):
    """100 draws each: ratios have standard errors under .01. Of 14 free effects about 2 are left, of 102 interactions less."""
    truth = law(1) * ROWS
    after, before = errors(truth, prior_of(PRIORS[prior](truth)), deviation, 100)
    assert (after <= (0.35 if prior == "right" and deviation > 3 else 1.06) * before).all()


def test_a_prior_that_is_farther_than_even_columns_is_ignored_as_each_is_without_noise_or_with_two_free_numbers():
    for deviation in (0.0, 3.0):
        estimates = noisy(law(1) * ROWS, deviation, 0)
        for found, given in zip(pull(prior_of(turned(law(1) * ROWS)), estimates), (estimates.one_way, estimates.two_way), strict=True):
            assert deviation or found.variance == given.variance == 0
            assert all(np.array_equal(found.tables[place], given.tables[place]) for place in given.tables)
    one = {(0,): np.array([[30.0, 10.0, 0.0]])}
    prior = PublicPrior({(0,): np.array([[3, 1, 1]])}, {}, {})
    found, _ = prior.pull(NoisyTables(one, 1e6), NoisyTables({}, 0.0), np.array([40.0]))
    assert np.array_equal(found.tables[0,], one[0,])


def test_pairs_of_a_prior_that_are_farther_than_independent_columns_are_left_alone():
    """Columns are right, and each pair is turned around its independent table."""
    truth = law(1) * ROWS
    columns = tables(truth, [(i,) for i in range(4)])
    alone = {(i, j): columns[i,][:, :, None] * columns[j,][:, None, :] / ROWS for i, j in PAIRS}
    prior = PublicPrior(columns, {pair: 2 * alone[pair] - table for pair, table in tables(truth, PAIRS).items()}, {})
    estimates = noisy(truth, 3.0, 0)
    one_way, two_way = pull(prior, estimates)
    for i, j in PAIRS:
        given, found = (center_table(each.tables[i, j]) for each in (estimates.two_way, two_way))
        assert np.allclose(given, found, atol=1e-9 * ROWS)
    assert not np.array_equal(one_way.tables[0,], estimates.one_way.tables[0,])


@pytest.mark.parametrize("n_classes", [1, 3])
def test_pairs_agree_with_columns_and_sum_to_the_same_rows(n_classes):
    truth = law(1, n_classes) * ROWS
    estimates = noisy(truth, 30.0, 0)
    one_way, two_way = pull(prior_of(law(2, n_classes)), estimates)
    for i, j in PAIRS:
        assert np.allclose(two_way.tables[i, j].sum(axis=2), one_way.tables[i,])
        assert np.allclose(two_way.tables[i, j].sum(axis=1), one_way.tables[j,])
    assert np.allclose(one_way.tables[0,].sum(axis=1), estimates.totals)


def test_a_class_without_rows_in_the_prior_is_as_all_classes_are():
    truth = law(1, 2) * ROWS
    estimates, one = noisy(truth, 30.0, 0), law(1)[0]
    found = [pull(prior_of(np.stack(classes)), estimates) for classes in ([one, np.zeros(SIZES)], [one, one])]
    assert all(np.allclose(found[0][0].tables[place], table) for place, table in found[1][0].tables.items())


@pytest.mark.parametrize(("prior", "least"), [("right", 0.0), ("half right", 0.5), ("another", 0.5)])
def test_the_variance_that_is_stated_covers_the_squared_error(prior, least):
    """100 draws at deviation 30, of a free interaction. Where the prior is right, less is left than is stated."""
    truth = law(1) * ROWS
    chosen, squares, variances = prior_of(PRIORS[prior](truth)), [], []
    n_free = sum((SIZES[i] - 1) * (SIZES[j] - 1) for i, j in PAIRS)
    for seed in range(100):
        _, two_way = pull(chosen, noisy(truth, 30.0, seed))
        exact = tables(truth, PAIRS)
        squares.append(sum(float((center_table(two_way.tables[pair] - exact[pair]) ** 2).sum()) for pair in PAIRS) / n_free)
        variances.append(two_way.variance)
    assert least <= np.mean(squares) / np.mean(variances) < 1.3


def mass_of(seed, n_cells):
    return np.random.default_rng(seed).dirichlet(np.full(n_cells, 0.5))


def tree(mass, n_rows):
    """Exact counts of every second level of a tree of 64 cells."""
    return {level: n_rows * mass.reshape(1 << level, -1).sum(axis=1) for level in (2, 4, 6)}


def test_cells_of_a_number_lean_on_a_prior_within_the_same_bins():
    """20 draws: the distance of the mass from the truth falls to less than half where the prior is right, and rises by a tenth at most."""
    truth, other, wrong, right, without = mass_of(0, 64), mass_of(5, 64), [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        levels = {level: counts + 60 * rng.normal(size=counts.shape) for level, counts in tree(truth, 4000).items()}
        link = Link.of([levels.get(j) for j in range(1, 7)], 3600.0, 64, 8)
        pools = {"x": Pool(np.concatenate(list(levels.values())), 3600.0, 4000.0)}
        for mass, found in ((truth, right), (other, wrong)):
            weighed = PublicPrior({}, {}, {"x": tree(mass, 10)}).reweigh({"x": link}, pools, {"x": 4000.0})["x"]
            assert np.array_equal(weighed.edges, link.edges)
            found.append(np.abs(weighed.mass - truth).sum())
        without.append(np.abs(link.mass - truth).sum())
    assert np.mean(right) < 0.5 * np.mean(without)
    assert np.mean(wrong) < 1.1 * np.mean(without)


def test_levels_of_a_long_column_lean_on_a_prior_within_the_same_codes():
    truth, rng = mass_of(0, 200), np.random.default_rng(0)
    counts = np.rint(2000 * truth + 40 * rng.normal(size=200))
    groups = LevelGroups.of(counts, 40.0, np.zeros(200, dtype=int), 64)
    prior = PublicPrior({}, {}, {"x": np.append(500 * truth, 7.0)})
    weighed = prior.reweigh({"x": groups}, {"x": Pool(np.append(counts, 0.0), 1600.0, 2000.0)}, {"x": 2000.0})["x"]
    assert np.array_equal(weighed.codes, groups.codes)
    assert np.abs(weighed.link.mass - truth[weighed.order]).sum() < 0.5 * np.abs(groups.link.mass - truth[groups.order]).sum()


@pytest.mark.parametrize("told", [{2: np.zeros(4), 4: np.zeros(16), 6: np.zeros(64)}])
def test_a_column_that_is_all_missing_in_a_prior_stays(told):
    levels = tree(mass_of(0, 64), 4000)
    link = Link.of([levels.get(j) for j in range(1, 7)], 9.0, 64, 8)
    pool = Pool(np.concatenate(list(levels.values())), 9.0, 4000.0)
    weighed = PublicPrior({}, {}, {"x": told}).reweigh({"x": link}, {"x": pool}, {"x": 4000.0})["x"]
    assert np.allclose(weighed.mass, link.mass)


def test_a_union_takes_the_prior_of_an_earlier_part_in_the_codes_of_the_last():
    schema = Schema({0: (0.0, 1.0), 1: ["a", "b"]})
    fine, coarse = Link(np.full(8, 1 / 8), np.arange(9)), Link(np.full(8, 1 / 8), np.array([0, 4, 8]))
    exact = np.arange(1.0, 17.0).reshape(1, 8, 2)
    told = PublicPrior({(0,): exact.sum(axis=2), (1,): exact.sum(axis=1)}, {(0, 1): exact}, {0: {3: np.arange(8)}})

    def part(link, table, beside):
        one_way = NoisyTables({(0,): table.sum(axis=2), (1,): table.sum(axis=1)}, 4.0)
        return Measurements(
            schema, None, Codes({0: link}, {}, {}, ((0, 1),), 100.0), one_way, NoisyTables({(0, 1): table}, 4.0), 100, beside
        )

    later = exact.reshape(1, 2, 4, 2).sum(axis=2)
    union = pool_measurements([part(fine, exact, told), part(coarse, later, None)], [100.0, 100.0])
    assert np.allclose(union.prior.two_way[0, 1], later)
    assert np.allclose(union.prior.one_way[0,], later.sum(axis=2))
    assert union.prior.cells is told.cells
    assert pool_measurements([part(fine, exact, None), part(coarse, later, None)], [100.0, 100.0]).prior is None
