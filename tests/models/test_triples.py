"""Tables of three columns beside those of pairs: which may be counted, and what they teach a model."""

from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
from internals import TripleErrors

from skdpsynth.models import BlockTables, LatentFactors, candidate_triples, most_dependent_triples, triple_frequencies

SIZES = np.array([2, 4, 3, 2])


def some_probabilities(seed, n_nodes=5):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(size), n_nodes).T for size in SIZES]


def test_the_table_of_a_triple_is_the_mean_over_nodes_of_products():
    P = some_probabilities(0)
    table = triple_frequencies(P, (0, 2, 3))
    for a, b, c in product(range(2), range(3), range(2)):
        np.testing.assert_allclose(table[a, b, c], np.mean(P[0][a] * P[2][b] * P[3][c]))


def test_the_slope_is_that_of_the_squared_errors():
    """By central differences, in single precision."""
    rng, P = np.random.default_rng(1), np.vstack(some_probabilities(1)).astype(np.float32)
    tables = {triple: rng.dirichlet(np.ones(SIZES[list(triple)].prod())).reshape(SIZES[list(triple)]) for triple in [(0, 1, 2), (1, 2, 3)]}
    [slope] = TripleErrors(tables, SIZES, 0.5).slope(SimpleNamespace(singles=P))

    def value(at):
        columns = np.split(at, np.cumsum(SIZES)[:-1])
        return sum(0.25 * ((triple_frequencies(columns, triple) - table) ** 2).sum() for triple, table in tables.items())

    for place in product(range(len(P)), range(P.shape[1])):
        step = np.zeros(P.shape)
        step[place] = 1e-3
        np.testing.assert_allclose(slope[place] / P.shape[1], (value(P + step) - value(P - step)) / 2e-3, atol=1e-6)


def test_columns_that_rules_tie_columns_of_one_code_and_large_tables_are_left_out():
    assert candidate_triples([2, 3, 1, 4, 5, 2], [5], 24) == [(0, 1, 3)]


def test_triples_of_dependent_columns_come_first():
    rng = np.random.default_rng(2)
    first = rng.dirichlet(np.full(3, 0.2), 50).T
    alone = np.full((3, 50), 1 / 3)
    columns = [first, alone, first, alone, first]
    assert most_dependent_triples(list(combinations(range(5), 3)), [columns], np.ones(1), 1) == [(0, 2, 4)]


def test_a_triple_teaches_what_pairs_do_not_tell():
    """The third of three ticks says whether the first two differ: each pair is independent."""
    n, n_classes = 10_000.0, 2
    one_way = [np.full((n_classes, 2), n / 2) for _ in range(3)]
    two_way = {pair: np.full((n_classes, 2, 2), n / 4) for pair in combinations(range(3), 2)}
    whole = np.array([[[c == (a != b) for c in (0, 1)] for b in (0, 1)] for a in (0, 1)]) * n / 4
    counted = BlockTables(one_way, two_way, [n] * n_classes, (1.0, 1.0))
    model = LatentFactors.of(counted, 8)
    taught = model.with_triples(counted, {(0, 1, 2): np.array([whole] * n_classes)}, 1.0)
    for label in range(n_classes):
        before, after = (triple_frequencies(np.split(each.probabilities(label), 3), (0, 1, 2)) for each in (model, taught))
        assert np.abs(after - whole / n).sum() < 0.6 * np.abs(before - whole / n).sum()
