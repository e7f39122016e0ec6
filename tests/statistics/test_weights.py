"""Survey weights: a row of weight w is w equal rows, and moves sums by no more than the cap."""

from itertools import product

import numpy as np
import pytest
from internals import (
    Interactions,
    Parities,
    SumParities,
    SurveyWeights,
    Trees,
    WeighedSums,
    dependences,
    distances,
    sensitivity_of_dependences,
)

from skdpsynth.frames import Rows
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import CodedGram, Marginals, total

RELATIONS = ["replace_one", "add_or_remove_one"]
CAP = 3
SIZES = [2, 3, 1]  # the last is that of classes
each_relation = pytest.mark.parametrize("relation", RELATIONS)


def survey(cap=CAP, place=0, low=0):
    return SurveyWeights.within(place, low, cap, is_whole=True)


def test_weights_beyond_the_cap_are_clipped_and_negative_or_missing_ones_count_as_the_least():
    weights = SurveyWeights.within(1, 1, 100, is_whole=True)
    found = weights([np.arange(7), np.array([-5.0, np.nan, 1.4, 2.6, 100.0, 1e300, np.inf])])[-1]
    assert weights.total == 100
    np.testing.assert_array_equal(found, [1, 1, 1, 3, 100, 100, 100])
    real = SurveyWeights.within(0, 0.25, 4.0, is_whole=False)
    assert real.total == 1024
    np.testing.assert_array_equal(real.whole(np.array([4.0, 5.0, -1.0, np.nan, 1.0])), [1024, 1024, 64, 64, 256])


@pytest.mark.parametrize("rule", ["tables", "trees", "parities"])
def test_weighted_sums_are_those_of_repeated_rows(rule):
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 2, 400) for _ in range(4)] + [np.zeros(400, dtype=np.int64)]
    weights = rng.integers(0, 300, 400)
    found = {
        "tables": Marginals.over([2, 2, 2, 2, 1], [(0, 1), (2,), (4, 3)]),
        "trees": Trees.over([1, 1], [0, 2]),
        "parities": SumParities((0, 1, 2, 3), (np.array([False, True]),) * 4, (3, 4), 1),
    }[rule]
    np.testing.assert_array_equal(
        WeighedSums(found).of([*columns, weights]).flat, found.of([np.repeat(column, weights) for column in columns]).flat
    )


def test_maps_leave_weights_alone_and_every_total_counts_by_them():
    a, w = np.array([0, 1, 1, 2]), np.array([1.0, 2.0, 9.0, 0.0])
    rows = survey(place=1).weigh(Rows.of([a, w])).map(lambda chunk: [chunk[0] % 2])
    assert total(rows, Marginals.over([2], [(0,)])).counts.tolist() == [1, 5]
    weights = survey(place=1)
    assert from_bytes(to_bytes(weights)) == weights


def statistics(relation):
    """By name: exact numbers of rows of codes (repeated by weight), and how far one unweighted row moves them."""
    over, splits = Interactions.over(SIZES[:2], [(0, 1)], 1, 20), [np.array([[True, False]]), np.array([[True, False, False]])]
    guess = [np.array([[2, 1, 0], [0, 1, 2]])]
    signs = SumParities((0, 1, 2), (np.array([False, True]), np.array([False, True, True]), np.array([False])), (3,), 1)

    def tables(columns):
        return Marginals.over(SIZES, [(2, 0, 1)]).of(columns)

    def flat(columns):
        return Marginals.over(SIZES, [(0, 1)]).of(columns)

    yield "tables", lambda columns: tables(columns).counts, Marginals.sensitivity(relation, 1)
    yield "trees", lambda columns: Trees.over([1, 2]).of(columns[:2]).counts, Trees.sensitivity(relation, [1, 2])
    yield "interactions", lambda columns: over.query(tables(columns), relation).values, over.sensitivity(relation)
    yield (
        "distances",
        lambda columns: distances(flat(columns), guess, relation).values,
        distances(flat([np.zeros(1, int)] * 3), guess, relation).sensitivity,
    )
    yield (
        "dependences",
        lambda columns: dependences(flat(columns), [(0, 1)], splits, 6, relation).values,
        sensitivity_of_dependences(relation, 1),
    )
    gram = CodedGram.over(SIZES[:2], [1.0, 1.0], 2.0, 1, 20, 3)
    yield "gram", lambda columns: gram.query(tables(columns), relation).values.ravel(), gram.sensitivity(relation)
    yield "parities", lambda columns: signs.of(columns).counts[0], Parities.sensitivity(relation, 1)


def neighbors(relation):
    """Pairs of weighted tables that differ in one row, beside two others."""
    rows = [(x, y, w) for x, y, w in product(range(2), range(3), range(CAP + 1))]
    others = [(0, 1, 2), (1, 2, 1)]
    for first in rows:
        yield [*others, first], others
        if relation == "replace_one":
            yield from (([*others, first], [*others, second]) for second in rows)


def repeated(rows):
    x, y, w = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return [np.repeat(x, w), np.repeat(y, w), np.zeros(w.sum(), dtype=np.int64)]


@each_relation
def test_a_weighted_row_moves_every_statistic_by_no_more_than_the_cap_says(relation):
    """All neighbors of a small table, weights from 0 to the cap: under replace-one the sum of the weights moves, too."""
    for name, numbers, of_row in statistics(relation):
        moved = survey().sensitivity(of_row)
        found = [np.abs(numbers(repeated(a)) - numbers(repeated(b))) for a, b in neighbors(relation)]
        assert max(change.sum() for change in found) <= moved.l1, name
        assert max((change.astype(object) ** 2).sum() for change in found) <= moved.l2_squared, name
        assert max(change.max() for change in found) <= moved.sup, name
        if name in ("tables", "trees"):
            assert max(change.sum() for change in found) == moved.l1 == CAP * of_row.l1
            assert max((change**2).sum() for change in found) == moved.l2_squared == CAP**2 * of_row.l2_squared
            assert max(change.max() for change in found) == moved.sup == CAP


def test_no_statistic_of_a_table_is_moved_further_by_a_row_that_comes_than_by_one_that_is_replaced():
    """`SurveyWeights.sensitivity` stands on this."""
    coming = {name: of_row for name, _, of_row in statistics("add_or_remove_one")}
    for name, _, replaced in statistics("replace_one"):
        for norm in ("l1", "l2_squared", "sup"):
            assert getattr(coming[name], norm) <= getattr(replaced, norm), (name, norm)


@each_relation
def test_noise_of_a_plan_for_as_many_rows_as_the_cap_covers_a_weighted_row(relation):
    of_row = Marginals.sensitivity(relation, 5)
    weighed = survey(150).sensitivity(of_row)
    for share in (PrivacyLoss(epsilon=1), PrivacyLoss(1, 1e-6)):
        planned = mechanism(of_row, PrivacyLoss(share.epsilon, share.delta, rows=150))
        assert planned.noise == mechanism(weighed, share).noise
    assert dict(weighed.statistic)["weight"] == 150
