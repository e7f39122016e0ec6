"""Releases of weighted rows: in units of what their weights sum to, with the noise that is told, and evidence that agrees."""

from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from internals import (
    ChildRows,
    Forest,
    GramRelease,
    InMemory,
    PairRelease,
    SiblingRows,
    TableRows,
    Weights,
    center_table,
    symmetric_precision,
    total_weights,
)
from laws import ALARM, CERTAIN
from scipy import stats

from skdpsynth.domain import Children
from skdpsynth.fitting import Budget
from skdpsynth.frames import Rows
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, SecureBits
from skdpsynth.statistics import Marginals, total
from skdpsynth_evidence import check_evidence

RELATIONS = ["replace_one", "add_or_remove_one"]
each_relation = pytest.mark.parametrize("relation", RELATIONS)
LINKS = [Children("b", of="a", key="id", most=4)]
TOTALS = total_weights(LINKS)
N, SIZES = 3000, [6, 3, 2]  # roots, and the codes of the columns of their children


def forest():
    """Children whose first column is mostly that of their siblings."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, N)
    owner = np.repeat(np.arange(N), counts)
    common = np.where(rng.random(len(owner)) < 0.7, rng.integers(0, 6, N)[owner], rng.integers(0, 6, len(owner)))
    columns = [common, (common + rng.integers(0, 2, len(owner))) % 3, rng.integers(0, 2, len(owner))]
    return Forest("a", {"a": [rng.integers(0, 2, N), counts], "b": columns}, {"b": owner}, {"b": "a"})


FOREST = forest()
ROWS = Rows(InMemory(FOREST), len(SIZES), N)
SIBLINGS = [(i, 3 + j) for i in range(3) for j in range(i, 3)]
FAMILIES = {  # sizes of columns, map, pairs, and those of a column with itself
    "children": (SIZES, TableRows("b", TOTALS), list(combinations(range(3), 2)), ()),
    "behind parents": ([2, 5, *SIZES], ChildRows("b", TOTALS), [(i, 2 + j) for i in range(2) for j in range(3)], ()),
    "siblings": (SIZES * 2, SiblingRows("b", TOTALS), SIBLINGS, ((0, 3), (1, 4), (2, 5))),
}
each_family = pytest.mark.parametrize("family", FAMILIES)


@cache
def mean_tables(family):
    """Exact tables of roots, by the definition: each child of k counts a k-th, and each of its pairs of siblings an equal part."""
    sizes, _, pairs, _ = FAMILIES[family]
    owner, columns, parents = FOREST.owners["b"], FOREST.tables["b"], FOREST.tables["a"]
    tables = {pair: np.zeros((1, sizes[pair[0]], sizes[pair[1]])) for pair in pairs}
    for root in range(N):
        children = [tuple(int(column[place]) for column in columns) for place in np.flatnonzero(owner == root)]
        above = tuple(int(column[root]) for column in parents)
        rows = {
            "children": children,
            "behind parents": [above + child for child in children],
            "siblings": [a + b for i, a in enumerate(children) for j, b in enumerate(children) if i != j],
        }[family]
        for row in rows:
            for i, j in pairs:
                tables[i, j][0, row[i], row[j]] += 1 / len(rows)
    return tables


def budget_of(relation, epsilon=float("inf")):
    accountant = PrivacyAccountant(epsilon, 0 if epsilon == float("inf") else 1e-6, neighboring=relation)
    return accountant, Budget(accountant, SecureBits())


def released(family, share, relation, column_variance=1.0):
    sizes, change, pairs, symmetric = FAMILIES[family]
    weights = Weights(len(sizes), TOTALS["b"])
    release = PairRelease.choose([*sizes, 1], pairs, column_variance, share, relation, N, weights, symmetric)
    accountant, budget = budget_of(relation, float("inf") if share.is_infinite else 10**12)
    return release, release.ask(ROWS.map(change), budget, "pairs"), accountant


@each_family
@each_relation
def test_tables_without_noise_are_means_over_roots(family, relation):
    release, found, _ = released(family, PrivacyLoss(epsilon=float("inf")), relation)
    assert (release.over, release.deviation, found.variance) == (None, 0, 0)
    for pair, table in mean_tables(family).items():
        expected = (table + table.swapaxes(1, 2)) / 2 if pair in FAMILIES[family][3] else table
        assert found.tables[pair] == pytest.approx(expected)


@each_family
@each_relation
@pytest.mark.parametrize("is_gaussian", [True, False])
def test_noise_on_means_over_roots_is_as_told(family, relation, is_gaussian):
    """Interactions, and tables where the noise on columns is large; the noise of twice the deviation would be found."""
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=True) if is_gaussian else PrivacyLoss(epsilon=1)
    for column_variance in (1e-6, 1e9):
        errors, exact = [], mean_tables(family)
        for _ in range(8):
            release, found, accountant = released(family, share, relation, column_variance)
            for pair, table, variance in found.pairs():
                if pair not in FAMILIES[family][3]:  # those come below
                    errors += ((center_table(table) - center_table(exact[pair])) / np.sqrt(variance)).ravel().tolist()
        free = 8 * sum((table.shape[1] - 1) * (table.shape[2] - 1) for pair, table in exact.items() if pair not in FAMILIES[family][3])
        # Unordered cells have so little noise that tables may be better even beside exact columns.
        assert (release.over is not None) == (is_gaussian and column_variance < 1) or family == "siblings"
        assert check_evidence(accountant.evidence()).is_exact
        squares = np.sum(np.square(errors))
        # Squares of Laplace noise have long tails: of more than a hundred, these bounds are passed by chance once in 1e13 times.
        least, most = stats.chi2.isf([1 - ALARM / 2, ALARM / 2], free) if is_gaussian else (free / 5, free * 5)
        assert least < squares < most
        assert stats.chi2.sf(4 * free, free) < CERTAIN
        assert free > 100
        assert release.deviation == pytest.approx(min(np.sqrt(variance) for _, _, variance in found.pairs()), rel=0.5)


@each_relation
def test_noise_beside_the_diagonal_of_symmetric_tables_is_half(relation):
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=True)
    exact, on, beside = mean_tables("siblings")[0, 3], [], []
    exact = (exact + exact.swapaxes(1, 2)) / 2
    for _ in range(60):
        release, found, _ = released("siblings", share, relation, 1e9)
        table = found.tables[0, 3] - exact
        assert np.array_equal(table, table.swapaxes(1, 2))
        on += table[0].diagonal().tolist()
        beside += table[0][np.triu_indices(6, 1)].tolist()
    assert release.over is None
    for errors, part in ((on, 1), (beside, 4)):
        squares = np.sum(np.square(errors)) / (found.variance / part)
        assert stats.chi2.isf(1 - ALARM / 2, len(errors)) < squares < stats.chi2.isf(ALARM / 2, len(errors))
    assert found.precisions == {(i, 3 + i): symmetric_precision(size) for i, size in enumerate(SIZES)}
    (variance,) = {variance for pair, _, variance in found.pairs() if pair == (0, 3)}
    assert variance == pytest.approx(found.variance / symmetric_precision(6))
    over = released("siblings", share, relation, 1e-6)[1].tables[0, 3]
    assert np.array_equal(over, over.swapaxes(1, 2))


@each_relation
def test_a_gram_matrix_of_weighted_rows_tells_of_means_over_roots(relation):
    sizes, change, pairs, _ = FAMILIES["children"]
    release = GramRelease.choose([*sizes, 1], PrivacyLoss(epsilon=1000), relation, N, Weights(len(sizes), TOTALS["b"]))
    accountant, budget = budget_of(relation, 10**12)
    found = release.ask(ROWS.map(change), budget, "matrix")
    assert check_evidence(accountant.evidence()).is_exact
    assert found.variance == pytest.approx(release.noise.variance / TOTALS["b"] ** 2)
    exact = mean_tables("children")
    n_parts = 0
    for part, values, variance in found.parts():
        if len(part) == 2:
            assert np.abs(values - center_table(exact[part])).max() < 20 * np.sqrt(variance) < 0.1 * np.abs(values).max() + 20
            n_parts += 1
    assert n_parts == len(pairs)
    assert all(
        values == pytest.approx(exact[0, 1].sum(), abs=20 * np.sqrt(variance)) for part, values, variance in found.parts() if not part
    )
    plain = GramRelease.choose([*sizes, 1], PrivacyLoss(epsilon=1000), relation, N)
    assert release.deviation == pytest.approx(plain.deviation, rel=0.1)


@each_relation
def test_noise_on_means_over_roots_is_that_of_a_table_of_as_many_rows(relation):
    """However many children weigh on a root: the total of weights is nowhere in it."""
    sizes, _, pairs, _ = FAMILIES["children"]
    for share in (PrivacyLoss(epsilon=1), PrivacyLoss(rho=Fraction(1, 50), gaussian=True)):
        plain = PairRelease.choose([*sizes, 1], pairs, 1.0, share, relation, N)
        for most in (1, 4, 16, 40):
            weights = Weights(3, total_weights([Children("b", of="a", key="id", most=most)])["b"])
            found = PairRelease.choose([*sizes, 1], pairs, 1.0, share, relation, N, weights)
            assert found.deviation == pytest.approx(plain.deviation, rel=0.1)
            assert found.error == pytest.approx(plain.error, rel=0.1)


def test_rows_of_a_forest_are_mapped_chunk_by_chunk():
    rule = Marginals.over([2, 5, *SIZES], [(0, 2), (1, 3)], weight=5)
    change = ChildRows("b", TOTALS)
    parts = [rule.of(change(FOREST[start : start + 700])) for start in range(0, N, 700)]
    assert np.array_equal(sum(parts[1:], parts[0]).counts, rule.of(change(FOREST)).counts)
    assert total(ROWS.map(change), rule).counts.sum() == 2 * TOTALS["b"] * (FOREST.counts("b") > 0).sum()
