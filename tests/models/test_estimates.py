"""Least squares over noisy tables: against brute force, unbiased, with the errors that are stated, and consistent."""

import numpy as np
import pytest
from internals import weighting_deviations

from skdpsynth.models import Estimates, NoisyInteractions, NoisyTables, expected_error

V1, V2, V3 = 4.0, 9.0, 100.0  # of the noise on tables of one column, of two, and on interactions
PAIRS = [(0, 1), (0, 2), (1, 2)]
SETTINGS = {
    "tables": ([2, 3, 2], PAIRS, [], 1),
    "interactions": ([2, 3, 2], [], PAIRS, 1),
    "classes": ([2, 3], [(0, 1)], [], 3),
    "interactions in classes": ([3, 2, 2], [], [(0, 1), (0, 2), (1, 2)], 2),
    "blocks": ([2, 2, 3, 2], [(0, 1)], [(2, 3)], 1),
    "one pair twice": ([3, 2], [(0, 1)], [(0, 1)], 2),
    "columns alone": ([3, 4], [], [], 1),
    "a column of one code": ([1, 3, 2], [(0, 1)], [(1, 2)], 1),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
each_relation = pytest.mark.parametrize("n_is_public", [True, False])


def scale_of(i, j):
    return 7 * (i + j)


def centered(table):
    """Of each class, less the means of rows and of columns."""
    table = table - table.mean(axis=1, keepdims=True)
    return table - table.mean(axis=2, keepdims=True)


def exact_tables(cells, columns):
    """The tables of each class over some columns, from the counts of all combinations."""
    others = tuple(axis for axis in range(1, cells.ndim) if axis - 1 not in columns)
    return cells.sum(axis=others)


def released(cells, setting, rng=None):
    """What is released of the counts of all combinations, shape (n_classes, *sizes)."""
    sizes, tables, interactions, _ = setting

    def noisy(exact, variance):
        return exact + (0 if rng is None else np.sqrt(variance) * rng.standard_normal(exact.shape))

    one = {(i,): noisy(exact_tables(cells, (i,)), V1) for i in range(len(sizes))}
    two = {pair: noisy(exact_tables(cells, pair), V2) for pair in tables}
    three = {pair: noisy(scale_of(*pair) * centered(exact_tables(cells, pair)), V3) for pair in interactions}
    scales = {pair: scale_of(*pair) for pair in interactions}
    return [NoisyTables(one, V1), NoisyTables(two, V2), NoisyInteractions(three, scales, V3)]


def flat(parts):
    return np.concatenate([table.ravel() for part in parts for table in part.tables.values()])


def pairs_of(setting):
    return list(dict.fromkeys([*setting[1], *setting[2]]))


def by_brute_force(parts, setting, n):
    """Generalized least squares over the counts of all combinations, by dense matrices: (values, variances) of each table."""
    sizes, *_, n_classes = setting
    shape = (n_classes, *sizes)
    units = [np.eye(np.prod(shape))[k].reshape(shape) for k in range(np.prod(shape))]
    A = np.column_stack([flat(released(unit, setting)) for unit in units])
    precision = np.concatenate([np.full(table.size, 1 / part.variance) for part in parts for table in part.tables.values()])
    y = flat(parts)
    if n is not None:  # known but for next to nothing
        A, y, precision = np.vstack([A, np.ones(len(units))]), np.append(y, n), np.append(precision, 1e7)
    covariance = np.linalg.pinv(A.T @ (precision[:, None] * A), rcond=1e-13)
    x = covariance @ A.T @ (precision * y)
    out = {}
    for columns in [*((i,) for i in range(len(sizes))), *pairs_of(setting)]:
        B = np.column_stack([exact_tables(unit, columns).ravel() for unit in units])
        size = (n_classes, *(sizes[i] for i in columns))
        out[columns] = (B @ x).reshape(size), np.diag(B @ covariance @ B.T).reshape(size)
    return out


def counts(setting, seed=0):
    return np.random.default_rng(seed).integers(0, 50, (setting[3], *setting[0])).astype(float)


@each_relation
@each_setting
def test_estimates_and_their_variances_are_those_of_generalized_least_squares(setting, n_is_public):
    cells = counts(setting)
    parts = released(cells, setting, np.random.default_rng(1))
    n = int(cells.sum()) if n_is_public else None
    estimates = Estimates.of(parts, pairs_of(setting), n)
    expected = by_brute_force(parts, setting, n)
    assert list(estimates.tables) == list(expected)
    for columns, (values, variances) in expected.items():
        np.testing.assert_allclose(estimates.tables[columns], values, atol=1e-4)
        np.testing.assert_allclose(variances, estimates.variances[columns], rtol=1e-4, atol=1e-5)


@each_setting
def test_without_noise_the_estimates_are_the_counts_and_have_no_error(setting):
    cells = counts(setting)
    parts = [
        NoisyInteractions(part.tables, part.scales, 0.0) if isinstance(part, NoisyInteractions) else NoisyTables(part.tables, 0.0)
        for part in released(cells, setting)
    ]
    estimates = Estimates.of(parts, pairs_of(setting))
    for columns, table in estimates.tables.items():
        np.testing.assert_allclose(table, exact_tables(cells, columns), atol=1e-9)
    assert not any(estimates.variances.values())
    assert estimates.variance_of_total == 0


def test_pairs_have_the_variance_of_what_only_they_tell_and_columns_beside_them_weigh_as_in_a_fit_to_tables_as_they_are():
    """Least squares over tables as released weigh a cell of a column by the variance of pairs over that of columns; without noise of pairs
    columns have their own deviation."""
    of = {name: Estimates.of(released(counts(SETTINGS[name]), SETTINGS[name]), PAIRS) for name in ("tables", "interactions")}
    assert list(of["interactions"].two_way.tables) == PAIRS
    np.testing.assert_allclose(of["interactions"].two_way.variance, np.mean([V3 / scale_of(*pair) ** 2 for pair in PAIRS]))
    first, second = weighting_deviations(of["tables"].one_way, of["tables"].two_way)
    np.testing.assert_allclose((second / first) ** 2, V2 / V1)
    for pairs in ([], [(0, 1)]):
        alone = Estimates.of([NoisyTables({(0,): np.zeros((1, 2)), (1,): np.zeros((1, 1))}, 3.0)], pairs, 0)
        assert weighting_deviations(alone.one_way, alone.two_way) == (pytest.approx(3.0**0.5), 0.0)


def test_rows_of_nothing_but_noise_are_not_negative_and_sum_to_the_public_number():
    noisy = [NoisyTables({(0,): np.array([[-90, -3], [-1, 0]])}, 1.0)]
    assert Estimates.of(noisy, []).rows().tolist() == [0, 0]
    assert Estimates.of(noisy, [], 10).rows(10).tolist() == [0, 10]
    np.testing.assert_allclose(Estimates.of(noisy, [], 200).rows(200).sum(), 200)


def test_the_variance_of_the_number_of_rows_is_that_of_the_sum_of_classes():
    noisy = NoisyTables({(0,): np.zeros((3, 2)), (1,): np.zeros((3, 4))}, 8.0)
    assert Estimates.of([noisy], []).variance_of_total == pytest.approx(3 / (1 / 16 + 1 / 32))
    assert Estimates.of([noisy], [], 5).variance_of_total == 0


@pytest.mark.parametrize("name", ["tables", "interactions", "a column of one code"])
def test_the_expected_error_is_that_of_the_estimates(name):
    """The mean over tables of the sum of the deviations of cells: of pairs, times the fourth root of that of columns."""
    setting = SETTINGS[name]
    are_tables = name == "tables"
    setting = (setting[0], pairs_of(setting) if are_tables else [], [] if are_tables else pairs_of(setting), 1)
    estimates = Estimates.of(released(counts(setting), setting), pairs_of(setting))
    sums = {place: table[0].size * np.sqrt(estimates.variances[place]) for place, table in estimates.tables.items()}
    means = [np.mean([each for place, each in sums.items() if len(place) == n]) for n in (1, 2)]
    noises = [(part, variance) for each in released(counts(setting), setting) for part, _, variance in each.parts()]
    np.testing.assert_allclose(expected_error(setting[0], pairs_of(setting), noises), means[1] * means[0] ** 0.25)
