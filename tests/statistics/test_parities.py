"""Parities: sums of products of signs against rows one by one, and by how much one row moves them, by brute force."""

from itertools import chain, combinations_with_replacement, product

import numpy as np
import pytest

from skdpsynth.statistics import Parities, SumParities

RELATIONS = ["replace_one", "add_or_remove_one"]
SIGNS = [np.array([False, True]), np.array([False, True, True]), np.array([True, False]), np.array([False, True])]
ROWS = list(product(range(2), range(2), range(2), range(2), range(2)))  # and last the class


def rule(orders=(3, 4), n_classes=2, columns=range(4)):
    return SumParities(tuple(columns), tuple(SIGNS), orders, n_classes)


def summed(rows, **parameters):
    return rule(**parameters).of(list(np.array(rows, dtype=np.int64).reshape(-1, 5).T))


SINGLE = {n_classes: np.array([summed([row], n_classes=n_classes).counts for row in ROWS]) for n_classes in (1, 2)}


def largest_moves(values_of, relation, n_classes, n_others):
    """What values of the sums of any two neighbors differ by at most, with so many other rows: in l1, squared l2 and sup."""
    worst = np.zeros(3, dtype=np.int64)
    for others in combinations_with_replacement(range(len(ROWS)), n_others):
        bare = SINGLE[n_classes][list(others)].sum(axis=0)
        tables = np.array([values_of(bare + single) for single in SINGLE[n_classes]])
        beside = tables if relation == "replace_one" else values_of(bare)[None]
        moved = np.abs(tables[:, None] - beside).reshape(len(tables) * len(beside), -1)
        worst = np.maximum(worst, [moved.sum(axis=1).max(), (moved**2).sum(axis=1).max(), moved.max()])
    return worst.tolist()


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 3000])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_sums_are_those_of_rows_one_by_one(n_rows, n_classes):
    rng = np.random.default_rng(n_rows)
    codes = [rng.integers(0, size, n_rows) for size in (2, 3, 2, 2)]
    label = rng.integers(0, n_classes, n_rows)
    made, signs = rule((3, 4), n_classes), [1 - 2 * sign[own] for sign, own in zip(SIGNS, codes, strict=True)]
    expected = [[np.prod([signs[j] for j in some], axis=0)[label == c].sum() for some in chain(*made.sets)] for c in range(n_classes)]
    assert made.of([*codes, label]).counts.tolist() == np.array(expected).tolist()
    assert made.n_values == 5 * n_classes == len(made.zero().flat)


def test_chunks_add_up_and_columns_are_taken_from_their_places():
    table, made = np.array(ROWS * 4, dtype=np.int64), rule(columns=(3, 1, 2, 0))
    parts = [made.of(list(part.T)) for part in np.split(table, [10, 100])]
    assert (parts[0] + parts[1] + parts[2]).counts.tolist() == made.of(list(table.T)).counts.tolist()
    assert made.from_flat(parts[0].flat).counts.tolist() == parts[0].counts.tolist()


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_one_row_moves_the_sums_of_a_set_by_what_is_stated(relation, n_classes):
    for place in range(5):
        stated = summed([], n_classes=n_classes).query(place, relation).sensitivity
        found = largest_moves(lambda counts, place=place: counts[:, place], relation, n_classes, 0)
        assert found == [stated.l1, stated.l2_squared, stated.sup]


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("expected", [0, 1, -1, 2])
def test_one_row_moves_every_gap_by_what_is_stated_and_in_sums_a_bound(relation, n_classes, expected):
    guess = np.full((n_classes, 5), expected)
    worst = largest_moves(lambda counts: Parities(counts).gaps(guess, range(5), relation).values, relation, n_classes, 1)
    stated = summed([], n_classes=n_classes).gaps(guess, range(5), relation).sensitivity
    assert worst[2] == stated.sup
    assert worst[0] <= stated.l1
    assert worst[1] <= stated.l2_squared
    assert relation == "replace_one" or worst[0] == stated.l1


def test_a_gap_is_the_distance_from_what_was_expected_in_all_classes():
    found = summed([(0, 0, 1, 0, 0)] * 3 + [(1, 0, 1, 0, 1)] * 2)
    assert found.counts[:, -1].tolist() == [3, -2]
    assert found.gaps(np.array([[0] * 5, [1] * 5]), [1, 4], "replace_one").values[1] == 6
    assert found.query(4, "replace_one").values.tolist() == [3, -2]
