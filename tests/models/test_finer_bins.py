"""Few bins, cut finer: what stays as it is, and what numbers within bins have in common."""

import numpy as np
import pytest
from internals import N_FINE_BINS, RefinedBins, quasi_normal
from scipy import stats

from skdpsynth.models import Link


def a_link(seed, n_cells=60, n_bins=4):
    """Uneven mass with atoms and cells of none, and bins of which some may have no mass."""
    rng = np.random.default_rng(seed)
    mass = rng.gamma(0.3, size=n_cells) * rng.integers(0, 2, n_cells)
    mass[rng.integers(0, n_cells)] += mass.sum() * rng.random()
    inner = rng.choice(np.arange(1, n_cells), n_bins - 1, replace=False)
    return Link(mass / mass.sum(), np.sort(np.concatenate([[0, n_cells], inner])))


def a_table(link, seed, n_nodes=40, missing=False):
    """P(code | node), in the mean the mass of the bins; of an ordered column, whose bins depend on a factor."""
    rng = np.random.default_rng(seed)
    logits = np.linspace(-2, 2, link.n_bins)[:, None] * rng.normal(size=n_nodes) + 0.3 * rng.normal(size=(link.n_bins, n_nodes))
    table = np.exp(logits)
    table = np.vstack([table, np.full(n_nodes, 0.2)]) if missing else table
    return table / table.sum(axis=0)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_law_of_bins_given_a_node_stays(seed, missing):
    link = a_link(seed)
    finer, table = RefinedBins.of(link), a_table(link, seed, missing=missing)
    cut = finer.probabilities(table)
    coarse = np.append(finer.coarse, link.n_bins) if missing else finer.coarse
    joined = np.zeros_like(table)
    np.add.at(joined, coarse, cut)
    np.testing.assert_allclose(joined, table, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_have_the_law_of_their_bin_in_the_mean_over_nodes(seed):
    """P(finer bin) is P(bin) times the share of the bin's mass, so the column is distributed as without finer bins."""
    link = a_link(seed)
    finer, table = RefinedBins.of(link), a_table(link, seed)
    masses = np.add.reduceat(link.mass, finer.link.edges[:-1])
    whole = np.bincount(finer.coarse, masses)[finer.coarse]
    assert set(link.edges) <= set(finer.link.edges)
    assert (masses[whole > 0] > 0).all()  # no finer bin is empty in a bin that is not
    shares = masses[whole > 0] / whole[whole > 0]
    expected = table.mean(axis=1)[finer.coarse][whole > 0] * shares
    np.testing.assert_allclose(finer.probabilities(table).mean(axis=1)[whole > 0], expected, atol=1e-6)


def test_bins_that_are_many_or_one_stay():
    mass = np.full(64, 1 / 64)
    assert RefinedBins.of(Link(mass, np.arange(65))) is None
    assert RefinedBins.of(Link(mass, np.array([0, 64]))) is None
    assert RefinedBins.of(Link(np.full(3, 1 / 3), np.arange(4))) is None  # each cell is a bin
    assert RefinedBins.of(Link(mass, np.array([0, 20, 64]))).link.n_bins >= N_FINE_BINS


def test_of_a_normal_factor_it_is_exact():
    """Bins of x = r z + noise given z: the finer ones are those of the same normal law."""
    r, z = 0.6, quasi_normal(256, 1)[:, 0]
    spread = np.sqrt(1 - r**2)
    n_cells = 1 << 12
    cells = stats.norm.ppf(np.arange(1, n_cells) / n_cells)
    link = Link(np.full(n_cells, 1 / n_cells), np.array([0, n_cells // 4, n_cells // 2, 3 * n_cells // 4, n_cells]))
    finer = RefinedBins.of(link)

    def law(edges):
        return np.diff(stats.norm.cdf((cells[edges[1:-1] - 1][:, None] - r * z) / spread), axis=0, prepend=0, append=1)

    found, exact = finer.probabilities(law(link.edges)), law(finer.link.edges)
    independent = law(link.edges)[finer.coarse] * finer.parts[:, None]
    assert np.abs(found - exact).sum(axis=0).mean() < 0.25 * np.abs(independent - exact).sum(axis=0).mean()
