"""Ranges of the axes of a subspace: their counts, what is chosen from them, and when they are bought."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import counts_of as counts_of_rows
from internals import grid, interval, noise_of_ranges, scales_of, usual_ranges

from skdpsynth.domain import Rows
from skdpsynth.fitting import Facts

RELATIONS = ("replace_one", "add_or_remove_one")


def counts_of(T, grids):
    return counts_of_rows(Rows.held(T), grids)


def facts(n_samples, n_axes=1, neighboring="replace_one"):
    return Facts(1, Fraction(0), neighboring, n_samples, n_axes)


def chosen(t, deviation, *, reach=20.0, alarm=6.0, seed=0):
    """Interval of rows of deviation 1 on one axis, with Laplace noise of a deviation on the counts."""
    edges = grid(-reach, reach, 1.0)
    counts = counts_of(t[:, None], [edges]).counts + np.random.default_rng(seed).laplace(0, deviation / np.sqrt(2), len(edges) - 1)
    return interval(counts, edges, (-3.0, 3.0), alarm * deviation, deviation, len(t))


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_row_moves_the_counts_by_what_is_said(relation, n_axes):
    """All rows on a small grid, and all pairs of them: the largest change is the one that is stated."""
    edges = np.array([-1.0, 0.0, 1.0])
    rows = np.array(list(itertools.product([-0.5, 0.5], repeat=n_axes)))
    counts = [counts_of(row[None], [edges] * n_axes).counts for row in rows]
    others = [np.zeros_like(counts[0])] if relation == "add_or_remove_one" else counts
    moved = [np.abs(a - b) for a in counts for b in others]
    change = counts_of(rows, [edges] * n_axes).query(relation).change
    assert change.l1 == max(m.sum() for m in moved)
    assert change.l2_squared == max((m**2).sum() for m in moved)
    assert change.sup == max(m.max() for m in moved)


def test_every_row_is_counted_once_on_each_axis():
    T = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    tables = counts_of(T, [grid(-1, 1, 0.1), grid(-1, 2, 0.5)]).tables()
    assert [table.sum() for table in tables] == [1000, 1000]
    assert np.array_equal(tables[0], np.histogram(T[:, 0], grid(-1, 1, 0.1))[0])


@given(low=st.floats(-1e3, 0.1), width=st.floats(0.2, 1e4), share=st.floats(1 / 300, 1))
def test_a_grid_rises_from_end_to_end_and_knows_the_usual_range(low, width, share):
    reach = np.array([low]), np.array([low + width])
    scales = scales_of(reach, np.array([(share * width) ** 2]))
    edges = grid(low, low + width, scales[0])
    assert (np.diff(edges) > 0).all()
    assert edges[0] == low
    assert edges[-1] == low + width
    assert {float(end[0]) for end in usual_ranges(reach, scales)} <= set(edges.tolist())


def test_an_axis_without_variance_keeps_a_range():
    reach = np.array([-1.0]), np.array([2.0])
    low, high = usual_ranges(reach, scales_of(reach, np.zeros(1)))
    assert low < 0 < high
    assert high - low < 0.1


@given(counts=st.lists(st.integers(-50, 200), min_size=25, max_size=25), deviation=st.floats(0, 50))
def test_any_counts_give_an_interval_among_the_edges(counts, deviation):
    edges = grid(-20, 20, 1)
    low, high = interval(np.array(counts[: len(edges) - 1]), edges, (-3.0, 3.0), 6 * deviation, deviation, 1000)
    assert low < high
    assert {low, high} <= set(edges.tolist())


def test_without_noise_no_row_is_cut():
    t = np.random.default_rng(0).standard_t(3, 5000).clip(-20, 20)
    low, high = chosen(t, 0.0)
    assert low <= t.min() < t.max() <= high
    assert high - low < 3 * np.ptp(t)


def test_room_without_rows_is_cut():
    """Uniform rows end at 1.73 deviations; noise of two rows in a thousand."""
    t = np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, 20_000)
    low, high = chosen(t, 40.0)
    assert -2.2 < low < -1.7
    assert 1.7 < high < 2.2


def test_one_side_is_cut_alone():
    t = np.random.default_rng(0).exponential(1, 20_000) - 1
    low, high = chosen(t, 20.0)
    assert -1.6 < low <= -1
    assert high >= 3


def test_rows_that_lie_together_far_away_are_kept():
    """One row in a hundred lies at ten deviations, noise is 20 rows."""
    rng = np.random.default_rng(0)
    t = np.where(np.arange(20_000) % 100 == 0, 10.0, rng.uniform(-1, 1, 20_000))
    assert chosen(t, 20.0)[1] >= 10


def test_a_heavy_tail_widens_its_side():
    t = (np.exp(np.random.default_rng(0).normal(size=100_000)) / 2).clip(0, 20)
    low, high = chosen(t, 30.0)
    assert low > -1.5
    assert high >= np.quantile(t, 0.995)


def test_few_rows_are_cut_however_much_noise_there_is():
    """At the most noise with which counts are bought, a hundredth of the rows, less than a hundredth of normal rows is cut on average."""
    t = np.random.default_rng(0).normal(size=10_000)
    ranges = [chosen(t, 100.0, seed=seed) for seed in range(200)]
    assert np.mean([np.mean((t < low) | (t > high)) for low, high in ranges]) < 0.01


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_are_bought_where_a_hundredth_of_the_rows_exceeds_their_noise(relation):
    changed = 2 if relation == "replace_one" else 1
    enough = int(100 * np.sqrt(2) * 3 * changed / 0.05) + 10  # deviation of Laplace noise of scale 3 * changed / .05
    assert noise_of_ranges(facts(enough, 3, relation), Fraction(1, 20)) is not None
    assert noise_of_ranges(facts(enough - 30, 3, relation), Fraction(1, 20)) is None
