"""Links: the noisy distribution of a column, and its bins."""

import numpy as np
import pytest
from internals import CellsInBins
from laws import ALARM, CERTAIN, chi_squared

from skdpsynth.models import Link


def tree(leaves, every=1):
    """Exact counts of the levels 1 to depth; None for those that are not released."""
    depth = int(np.log2(len(leaves)))
    return [leaves.reshape(2**j, -1).sum(axis=1) if (depth - j) % every == 0 else None for j in range(1, depth + 1)]


def noisy_link(seed, n_cells=64, n_bins=16, scale=20):
    """A link of noisy counts that do not fit together, with zeros, atoms and cells that cannot hold rows."""
    rng = np.random.default_rng(seed)
    leaves = rng.integers(0, 30, 64) * rng.integers(0, 2, 64)
    leaves[rng.integers(0, 64, 3)] += rng.integers(0, 800, 3)
    leaves[n_cells:] = 0
    levels = [level if level is None else level + rng.integers(-scale, scale + 1, len(level)) for level in tree(leaves, 1 + seed % 3)]
    return Link.of(levels, 2.0 * scale**2, n_cells, n_bins)


LINKS = [noisy_link(seed, n_cells=64 - seed % 20) for seed in range(40)]


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("variance", [0.0, 1e-4])  # what is stated decides how far counts are believed
def test_without_noise_mass_is_the_histogram(every, variance):
    leaves = np.random.default_rng(0).integers(0, 50, 64)
    link = Link.of(tree(leaves, every), variance, 64, 16)
    np.testing.assert_allclose(link.mass, leaves / leaves.sum(), atol=1e-12)


def cells_of(link, counts, rng):
    return CellsInBins.of(link).cells(np.array(counts), rng.random(link.n_bins))


def test_links_are_probability_measures_in_few_bins_in_which_cells_are_drawn_by_their_mass():
    n_heavy = 0
    for link in LINKS:
        mass, edges, width = link.mass, link.edges, np.diff(link.edges)
        assert mass.min() >= 0
        assert mass.sum() == pytest.approx(1, abs=1e-12)
        assert (edges[0], edges[-1], link.n_bins) == (0, len(mass), len(width))
        assert (width > 0).all()
        assert link.n_bins <= 2 * 16
        assert np.add.reduceat(mass, edges[:-1])[width > 1].max() <= 2 / 16 + 1e-12
        for cell in np.flatnonzero(mass > 1 / 16):  # a heavy cell is a bin of its own
            assert {cell, cell + 1} <= set(edges.tolist())
            n_heavy += 1
        counts = np.random.default_rng(0).integers(900, 1000, link.n_bins)
        drawn = cells_of(link, counts, np.random.default_rng(1))
        np.testing.assert_array_equal(link.bins_of(drawn), np.repeat(np.arange(link.n_bins), counts))
        found = np.bincount(drawn, minlength=len(mass))
        for first, last, count in zip(edges, edges[1:], counts, strict=False):
            own = mass[first:last] if mass[first:last].any() else np.ones(last - first)  # without mass all cells are alike
            assert np.abs(found[first:last] - count * own / own.sum()).max() < 1 + 1e-9
            assert not found[first:last][own == 0].any()
    assert n_heavy > 40


def test_cells_that_cannot_hold_rows_get_no_mass():
    """Five whole numbers in a tree of eight leaves: noise in the other three is dropped."""
    leaves = np.array([10, 0, 30, 0, 20, 40, 40, 40])
    link = Link.of(tree(leaves), 1.0, 5, 16)
    np.testing.assert_allclose(link.mass, leaves[:5] / 60)
    assert link.edges[-1] == 5


@pytest.mark.parametrize("counts", [np.zeros(16), np.full(16, -5)])
def test_counts_without_mass_are_uniform(counts):
    link = Link.of(tree(counts.astype(np.int64)), 1.0, 11, 4)
    np.testing.assert_allclose(link.mass, np.full(11, 1 / 11))


def test_noisy_levels_are_weighed_so_that_the_error_falls():
    """All levels against the leaves alone: squared errors of the mass of the left half in 200 draws.

    Variances v of one count, and 32 v of the sum of 32 leaves: together a good deal less.
    """
    rng, leaves = np.random.default_rng(3), np.full(64, 100)
    errors = []
    for _ in range(200):
        noisy = [level + rng.integers(-20, 21, len(level)) for level in tree(leaves)]
        links = Link.of(noisy, 140.0, 64, 16), Link.of([None] * 5 + noisy[-1:], 140.0, 64, 16)
        errors.append([(link.mass[:32].sum() - 0.5) ** 2 for link in links])
    all_levels, leaves_alone = np.mean(errors, axis=0)
    assert all_levels < 0.35 * leaves_alone


def test_a_single_cell_is_drawn_by_its_mass():
    """20,000 numbers drawn one at a time in one bin of 40 unlike cells; like ones fail."""
    leaves, rng = np.random.default_rng(0).integers(1, 100, 64), np.random.default_rng(1)
    inner = CellsInBins.of(Link(leaves / leaves.sum(), np.array([0, 13, 53, 64])))
    drawn = np.concatenate([inner.cells(np.array([0, 1, 0]), rng.random(3)) for _ in range(20_000)])
    observed = np.bincount(drawn, minlength=64)[13:53]
    share = leaves[13:53] / leaves[13:53].sum()
    assert observed.sum() == 20_000
    assert chi_squared(observed, share) > ALARM
    assert chi_squared(observed, np.ones(40)) < CERTAIN


@pytest.mark.parametrize("least", [0.0, 1e-17, 1e-300])
def test_cells_of_a_bin_with_next_to_no_mass_are_drawn_too(least):
    mass = np.array([0.5, least, least, 0.0, 0.5])
    inside = CellsInBins.of(Link(mass / mass.sum(), np.array([0, 1, 4, 5])))
    cells = inside.cells(np.array([2, 7, 3]), np.array([0.1, 0.5, 0.9]))
    assert np.bincount(np.searchsorted([1, 4], cells, side="right")).tolist() == [2, 7, 3]
    assert (cells[2:9] < 3).all() or not least  # the last cell of the bin has no mass
