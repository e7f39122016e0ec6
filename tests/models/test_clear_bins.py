"""Bins that are clear of noise: what lies beyond them is not made of noise, and nothing else changes."""

import numpy as np
import pandas as pd
import pytest
from internals import (
    NoisyTables,
    expected_counts,
    grade_bins,
    link_column,
    reweigh_bins,
    share_by_mass,
    tail_directions,
    threshold_bins,
    threshold_link,
)

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Schema, grids_of
from skdpsynth.models import Link

BULK = np.array([400.0, 900, 1200, 700, 300])
NOISE = np.random.default_rng(0).normal(size=(200, 12))
EDGES = np.array([0, 2, 4, 6, 8, 10, 14, 22, 38, 64])


def link(counts=(400, 900, 1200, 700, 300, 0, 0, 0, 0)):
    widths = np.diff(EDGES)
    return Link(np.repeat(np.array(counts) / np.sum(counts) / widths, widths), EDGES)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("alone", "is_kept"), [(5.9, False), (6.1, True)])
def test_a_bin_far_from_the_rows_keeps_its_count_where_it_is_clear_of_noise_alone(alone, is_kept, side):
    counts = np.concatenate([BULK, [0, 3, -5, 10 * alone]])[::side]
    expected, *_ = expected_counts(counts, 10.0)
    far = -1 if side == 1 else 0
    assert expected[far] == (counts[far] if is_kept else 0)
    np.testing.assert_array_equal(expected[counts >= 300], counts[counts >= 300])


def test_bins_that_go_on_falling_are_clear_together_and_go_on_where_noise_hides_them():
    counts = np.append(BULK, [40, 34, 0, 0, 0])  # 4 and 3.4 deviations: together 5.2
    expected, *_ = expected_counts(counts, 10.0)
    np.testing.assert_array_equal(expected[:7], counts[:7])
    assert (np.diff(expected[6:]) <= 0).all()
    assert 0 < expected[7:].sum() < 17


@pytest.mark.parametrize("side", [1, -1])
def test_rows_that_a_heavy_bin_leaves_are_kept_though_noise_hides_each_bin_of_them(side):
    """As of money that most do not have: 720 rows in twelve bins, of which a third is kept; by sums of these bins alone a seventh."""
    few = np.stack([60 + 50 * NOISE, 50 * NOISE])
    counts = np.concatenate([9000 - few.sum(axis=2, keepdims=True), few], axis=2)
    rows, noise = ([expected_counts(table[::side], 50.0, 13)[0][::side][1:].sum() for table in each] for each in counts)
    assert np.mean(rows) > 200
    assert np.mean(noise) < 30


@pytest.mark.parametrize(("counts", "deviation"), [(BULK, 30.0), (np.zeros(5), 0.0), (np.full(5, -3.0), 1.0)])
def test_where_noise_hides_too_much_nothing_is_told(counts, deviation):
    assert expected_counts(counts, deviation) is None


def tables(rng, n_classes=2):
    """A column of nine bins and a missing cell, beside one of three codes, with noise of deviation 10 that margins share."""
    noisy = 10 * rng.normal(size=(n_classes, 10, 3)) / np.sqrt(3 * n_classes)
    noisy[:, :5] += BULK[:, None] / 3 / n_classes
    noisy[:, 9] += 50 / n_classes
    return NoisyTables({(0,): noisy.sum(axis=2), (1,): noisy.sum(axis=1)}, 100.0 / n_classes), NoisyTables({(0, 1): noisy}, 1.0)


def test_tables_keep_rows_and_margins_and_bins_beyond_are_empty_in_every_pair():
    one_way, two_way = tables(np.random.default_rng(1))
    totals = one_way.tables[0,].sum(axis=1)
    links, columns, pairs = threshold_bins(["x", "g"], {"x": link()}, one_way, two_way, totals, set(), {})
    table = pairs.tables[0, 1]
    for axis, column in ((2, 0), (1, 1)):
        np.testing.assert_allclose(table.sum(axis=axis), columns.tables[column,], atol=1e-9)
    np.testing.assert_allclose(table.sum(axis=(1, 2)), totals)
    assert not table[:, 6:9].any()
    assert links["x"].masses[7:].sum() < 1e-4
    np.testing.assert_allclose(columns.tables[0,][:, 9], one_way.tables[0,][:, 9], atol=20)  # a missing cell is no bin
    alone = threshold_bins(
        ["x", "g"], {"x": link()}, one_way, two_way, totals, {"x"}, {}
    )  # each bin that holds something is one of its own
    np.testing.assert_allclose(alone[0]["x"].masses, links["x"].masses)
    assert [int(code) for code in np.flatnonzero(alone[0]["x"].alike == np.arange(9))] == np.flatnonzero(links["x"].masses).tolist()
    assert not alone[2].tables[0, 1][:, np.flatnonzero(links["x"].masses == 0)].any()


def few_beyond(deviation):
    """Return what becomes of a pair in which the last bins hold few rows, nearly all of the second of two levels, and the pair."""
    of_g = np.array([[300.0, 100], [600, 300], [600, 600], [200, 500], [60, 240], [2, 38], [0, 20], [0, 0], [0, 0], [0, 0]])
    one_way = NoisyTables({(0,): of_g.sum(axis=1)[None], (1,): of_g.sum(axis=0)[None]}, 0.0)
    two_way = NoisyTables({(0, 1): of_g[None]}, deviation**2)
    found = threshold_bins(["x", "g"], {"x": link(of_g.sum(axis=1)[:9])}, one_way, two_way, np.array([of_g.sum()]), set(), {})
    return found[2].tables[0, 1][0], of_g


def test_rows_of_bins_that_are_like_another_are_counted_in_its_pairs_where_there_is_no_noise():
    """They are few, but at the ends: of a correlation of .60 of two normal columns .50 was left without them."""
    table, of_g = few_beyond(0.0)
    np.testing.assert_allclose(table[:4], of_g[:4], atol=1e-9)
    np.testing.assert_allclose(table[4], of_g[4:9].sum(axis=0), atol=1e-9)


def test_rows_of_bins_that_are_like_another_depend_on_other_columns_as_it_does_where_noise_hides_them():
    table, of_g = few_beyond(1e6)
    effects = (table - table.mean(axis=1, keepdims=True))[:5, 0]
    wanted = (of_g - of_g.mean(axis=1, keepdims=True))[:5, 0] * np.array([1, 1, 1, 1, of_g[4:9].sum() / of_g[4].sum()])
    np.testing.assert_allclose(effects - effects.mean(), wanted - wanted.mean(), rtol=1e-6)


def test_a_correlation_that_two_columns_have_is_kept():
    x, noise = np.random.default_rng(0).normal(size=(2, 20_000))
    rows = np.clip(np.column_stack([x, 0.6 * x + 0.8 * noise]), -5, 5)
    synthetic = LatentFactorSynthesizer({0: (-5.0, 5.0), 1: (-5.0, 5.0)}, epsilon=10.0, delta=1e-6, random_state=0).fit(rows).sample()
    assert np.corrcoef(synthetic.T)[0, 1] > np.corrcoef(rows.T)[0, 1] - 0.06  # .10 without the pairs of rare bins


def test_bins_that_are_like_another_are_drawn_with_it_by_their_mass():
    counts, alike = np.array([400.0, 900, 1200, 700, 300, 60, 40, 0, 0]), np.array([0, 1, 2, 3, 4, 4, 4, 4, 4])
    table = np.random.default_rng(0).dirichlet(np.ones(10), 5).T
    found = share_by_mass(reweigh_bins(link(), counts, alike, np.zeros(9, dtype=int), np.arange(65)), table)
    np.testing.assert_allclose(found.sum(axis=0), 1)
    np.testing.assert_array_equal(found[[0, 1, 2, 3, 9]], table[[0, 1, 2, 3, 9]])
    np.testing.assert_allclose(found[4:9], table[4:9].sum(axis=0) * np.array([300, 60, 40, 0, 0])[:, None] / 400)


@pytest.mark.parametrize("growth", [2.0, 5.5])
def test_graded_bins_grow_outwards_by_no_more_than_is_asked(growth):
    mass = np.zeros(4096)
    mass[2000:2040] = 1 / 40
    cut = grade_bins(Link(mass, np.array([0, 2000, 2010, 2013, 2040, 4096])), growth)
    assert {0, 2000, 2010, 2013, 2040, 4096} <= set(cut.edges.tolist())
    widths = np.diff(cut.edges)
    densest = int(np.argmax(cut.masses / widths))
    for side in (widths[densest:], widths[densest::-1]):
        assert (side[1:] <= growth * np.maximum.accumulate(side)[:-1]).all()
    assert cut.n_bins < 40


def test_a_number_where_no_rows_are_expected_counts_as_one_of_the_nearest_bin_with_mass():
    kind = Continuous(0, 63)
    column = link_column(link((0, 900, 0, 700, 300, 0, 0, 0, 0)), grids_of(Schema({"x": kind}))["x"])
    np.testing.assert_array_equal(column.codes_of(np.array([0.0, 3, 4, 5, 7, 63, np.nan])), [1, 1, 1, 1, 3, 4, 9])


def test_bounds_that_are_forty_times_too_wide_leave_mean_and_deviation():
    """Of 40 fits the ratios are .98 to 1.03 and .9 to 1.3; cut-off noise made 1.6 and 15 of them."""
    x = np.exp(np.random.default_rng(0).normal(11, 0.6, 10_000))
    table = pd.DataFrame({"x": x, "g": np.random.default_rng(1).choice(["p", "q"], 10_000)})
    rows = LatentFactorSynthesizer({"x": (0.0, 4e7), "g": ["p", "q"]}, delta=1e-6).fit(table).sample()["x"]
    assert rows.mean() == pytest.approx(x.mean(), rel=0.15)
    assert 0.6 < rows.std() / x.std() < 2.2


@pytest.mark.parametrize("way", [1, -1])
def test_rows_that_noise_hides_lie_where_the_density_falls_to(way):
    """By hand: 80 and 40 rows a cell go on to 40 / sqrt(2) at the border; an exponential law of 10 rows from there has 94 % in a cell."""
    edges = np.array([0, 10, 20, 120, 170])
    measure = Link(np.full(170, 1 / 170), edges if way == 1 else 170 - edges[::-1])
    found = reweigh_bins(measure, np.array([800.0, 400, 10, 0])[::way], np.arange(4), np.array([0, 0, way, way])[::way], np.arange(171))
    mass = found.mass[::way] * 1210
    np.testing.assert_allclose([mass[:10].sum(), mass[10:20].sum(), mass[20:120].sum(), mass[120:].sum()], [800, 400, 10, 0], atol=1e-9)
    assert mass[20] == pytest.approx(10 * (1 - np.exp(-(40 / np.sqrt(2)) / 10)), rel=0.01)
    assert np.all(np.diff(mass[20:120]) <= 0)


@pytest.mark.parametrize("way", [1, -1])
def test_a_density_falls_with_the_numbers_however_wide_their_cells_are(way):
    """Cells that double leave the law of the numbers what it is with cells of one width: each has the sum of those within it."""
    fine, doubling = np.arange(1025.0), np.array([0.0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
    counts, falls, masses = np.array([300.0, 90.0, 40.0])[::way], np.array([0, 0, way])[::way], []
    for places in (fine, doubling):
        edges = np.searchsorted(places, [0, 2, 4, 1024])
        edges, places = (edges, places) if way == 1 else (edges[-1] - edges[::-1], 1024 - places[::-1])
        measure = Link(np.full(edges[-1], 1 / edges[-1]), edges)
        masses.append(reweigh_bins(measure, counts, np.arange(3), falls, places).mass[::way])
    np.testing.assert_allclose(masses[1][3:], np.add.reduceat(masses[0], doubling[3:-1].astype(int)), rtol=1e-9)


def test_bins_wider_than_all_before_them_fall_also_where_noise_hides_all():
    measure = Link(np.repeat([0.1, 0.2, 0.1, 0.02, 0.004], [2, 2, 2, 4, 50]) / 1.36, np.array([0, 2, 4, 6, 10, 60]))
    assert tail_directions(measure.masses, np.diff(measure.edges)).tolist() == [0, 0, 0, 0, 1]
    back = Link(measure.mass[::-1], 60 - measure.edges[::-1])
    assert tail_directions(back.masses, np.diff(back.edges)).tolist() == [-1, 0, 0, 0, 0]


@pytest.mark.parametrize("way", [1, -1])
def test_a_pile_at_a_bound_counts_the_more_the_clearer_it_is_of_noise(way):
    for count, kept in ((20.0, 0.0), (40.0, 30.0), (50.0, 50.0)):
        counts = np.append(BULK, [0, -4, 3, count])[::way]
        at_bound, inside = (expected_counts(counts, 10.0, 1, *([is_bound] * 2))[0][::way] for is_bound in (True, False))
        assert at_bound[8] == pytest.approx(kept, abs=1e-9)
        assert inside[8] < 1
        assert at_bound[:8].tolist() == inside[:8].tolist()


@pytest.mark.parametrize("way", [1, -1])
def test_a_law_by_itself_loses_rows_that_noise_made_far_out(way):
    mass = np.zeros(512)
    mass[:40] = 5000.0 * np.exp(-np.arange(40) / 8)
    noisy = mass.copy()
    noisy[[100, 300, 480]] = 60.0  # less than two deviations of a bin
    noisy = noisy[::way]
    found = threshold_link(Link(noisy / noisy.sum(), np.arange(0, 513, 32)), noisy.sum(), 40.0).mass[::way]
    assert found.sum() == pytest.approx(1)
    assert found[64:].sum() < 1e-3 < (noisy[::way][64:] / noisy.sum()).sum()
    np.testing.assert_allclose(found[:16], noisy[::way][:16] / mass.sum(), rtol=0.05)
