"""Links and bins: the noisy distribution of a column, groups of its levels, finer bins, and mass shared in a tree."""

import numpy as np
import pytest
from internals import N_FINE_BINS, CellsInBins, LevelGroups, RefinedBins, quasi_normal, split_mass
from internals import level_groups_expected as expected
from scipy import stats

from skdpsynth.measures import least_squares, mass_from_root
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


def test_cells_that_cannot_hold_rows_get_no_mass_and_counts_without_mass_are_uniform():
    """Five whole numbers in a tree of eight leaves: noise in the other three is dropped."""
    leaves = np.array([10, 0, 30, 0, 20, 40, 40, 40])
    link = Link.of(tree(leaves), 1.0, 5, 16)
    np.testing.assert_allclose(link.mass, leaves[:5] / 60)
    assert link.edges[-1] == 5
    for counts in (np.zeros(16, dtype=np.int64), np.full(16, -5)):
        np.testing.assert_allclose(Link.of(tree(counts), 1.0, 11, 4).mass, np.full(11, 1 / 11))


@pytest.mark.parametrize("least", [0.0, 1e-17, 1e-300])
def test_cells_of_a_bin_with_next_to_no_mass_are_drawn_too(least):
    mass = np.array([0.5, least, least, 0.0, 0.5])
    inside = CellsInBins.of(Link(mass / mass.sum(), np.array([0, 1, 4, 5])))
    cells = inside.cells(np.array([2, 7, 3]), np.array([0.1, 0.5, 0.9]))
    assert np.bincount(np.searchsorted([1, 4], cells, side="right")).tolist() == [2, 7, 3]
    assert (cells[2:9] < 3).all() or not least  # the last cell of the bin has no mass


RNG = np.random.default_rng(0)


def groups_of(counts, groups=None, most=8, deviation=1.0):
    counts = np.asarray(counts)
    return LevelGroups.of(counts, deviation, np.zeros(len(counts), dtype=int) if groups is None else np.asarray(groups), most)


@pytest.mark.parametrize("seed", range(20))
def test_every_level_has_one_of_few_codes_and_every_code_a_level(seed):
    rng = np.random.default_rng(seed)
    n_levels, most = rng.integers(2, 200), rng.integers(2, 40)
    counts = rng.integers(-50, 50, n_levels) + rng.integers(0, 2, n_levels) * rng.integers(0, 2000, n_levels)
    made = groups_of(counts, rng.integers(0, rng.integers(1, 60), n_levels), most, deviation=20.0)
    assert sorted(made.order) == list(range(n_levels))
    assert sorted(set(made.codes)) == list(range(made.n_bins))
    assert made.n_bins <= most
    assert made.link.mass.sum() == pytest.approx(1)
    assert groups_of([[-50, -40, -60], [0, 0, 0]][seed % 2], deviation=20.0).link.mass.sum() == pytest.approx(1)  # all noise


@pytest.mark.parametrize(
    ("counts", "groups", "most", "deviation", "same"),
    [
        ([1000, 3, 2, 900, 1, 4], None, 8, 1.0, [0, 1, 1, 2, 1, 1]),  # the heavy ones have a code each
        ([100, 300, 200, 400, 50], None, 3, 1.0, [0, 1, 0, 2, 0]),  # the heaviest, where there are few
        ([30, 20, 10, 25], None, 8, 10.0, [0, 0, 0, 0]),  # none that stands out of the noise
        ([50, 50, 50, 50, 50, 50], [0, 1, 0, 2, 1, 2], 4, 1.0, [0, 1, 0, 2, 1, 2]),  # groups have a code each
        ([5, 100, 4, 200, 3], [0, 1, 2, 3, 4], 3, 1.0, [0, 1, 0, 2, 0]),  # the lightest of too many are one
    ],
)
def test_heavy_levels_and_groups_have_codes_of_their_own_and_the_others_share_one(counts, groups, most, deviation, same):
    codes = groups_of(counts, groups, most, deviation).codes
    assert [codes.tolist().index(code) for code in codes] == [same.index(code) for code in same]


@pytest.mark.parametrize("shape", ["equal", "zipf", "few"])
def test_expected_counts_are_nearer_than_what_is_positive_of_noisy_ones(shape):
    """Seeded: 30,000 levels of some 30 rows, and noise of 80."""
    n = 30_000
    shares = {"equal": np.ones(n), "zipf": 1 / np.arange(1, n + 1), "few": (np.arange(n) < 100) + 1e-6}[shape]
    true = RNG.multinomial(1_000_000, shares / shares.sum())
    noisy = true + np.rint(RNG.normal(0, 80, n)).astype(int)

    def distance(counts):
        return np.abs(counts / counts.sum() - true / true.sum()).sum() / 2

    positive, better = distance(np.maximum(noisy, 0)), distance(expected(noisy, 80.0))
    assert better < 0.6 * positive


def test_counts_far_above_the_noise_stay_as_they_are():
    counts = np.array([0, 5, 1000, 5000])
    assert expected(counts, 10.0)[2:].tolist() == [1000, 5000]
    assert expected(counts, 0.0).tolist() == [0, 5, 1000, 5000]


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


@pytest.mark.parametrize("seed", range(20))
def test_the_law_of_bins_given_a_node_stays_and_numbers_have_the_law_of_their_bin_in_the_mean_over_nodes(seed):
    """P(finer bin) is P(bin) times the share of the bin's mass, so the column is distributed as without finer bins."""
    link = a_link(seed)
    finer = RefinedBins.of(link)
    for missing in (False, True):
        table = a_table(link, seed, missing=missing)
        joined = np.zeros_like(table)
        np.add.at(joined, np.append(finer.coarse, link.n_bins) if missing else finer.coarse, finer.probabilities(table))
        np.testing.assert_allclose(joined, table, atol=1e-12)
    table, masses = a_table(link, seed), np.add.reduceat(link.mass, finer.link.edges[:-1])
    whole = np.bincount(finer.coarse, masses)[finer.coarse]
    assert set(link.edges) <= set(finer.link.edges)
    assert (masses[whole > 0] > 0).all()  # no finer bin is empty in a bin that is not
    expected = table.mean(axis=1)[finer.coarse][whole > 0] * masses[whole > 0] / whole[whole > 0]
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


def noisy_tree(leaves, deviation, rng):
    """Least squares of noisy counts of all levels, and their variances."""
    depth = int(np.log2(len(leaves)))
    levels = [leaves.reshape(2**j, -1).sum(axis=1) + deviation * rng.normal(size=2**j) for j in range(1, depth + 1)]
    return least_squares([None, *levels], [np.inf, *[deviation**2] * depth])


def test_where_noise_is_little_estimates_are_taken_as_they_are():
    rng = np.random.default_rng(1)
    estimates, errors = noisy_tree(rng.integers(1000, 2000, 16).astype(float), 1.0, rng)
    found = split_mass(estimates[1:], errors[1:], estimates[0][0], 16)
    np.testing.assert_allclose(found, mass_from_root(estimates[1:], np.array(estimates[0][0])))


def test_a_share_is_its_posterior_mean():
    """Of one split, against a fine quadrature of the three priors, whose weights the split tells itself."""
    mass, difference, variance = 10.0, 4.0, 8.0
    share = (np.arange(200_000) + 0.5) / 200_000
    likelihood = np.exp(-((difference - mass * (2 * share - 1)) ** 2) / (2 * variance))
    under = np.array([stats.beta.pdf(share, n / 2, n / 2) * likelihood for n in (1, 8, 64)])
    weights, of_priors = np.full(3, 1 / 3), under.mean(axis=1)
    for _ in range(100):
        weights = (1 / 3 + weights * of_priors / (weights @ of_priors)) / 2
    exact = weights @ (under * share).mean(axis=1) / (weights @ of_priors)
    found = split_mass([np.array([7.0, 3.0])], [variance / 2], mass, 2)[0] / mass
    assert found == pytest.approx(exact, abs=1e-3)


def test_no_cell_stands_out_of_even_ones_by_noise_and_an_atom_stays():
    rng, atom = np.random.default_rng(2), np.full(64, 60.0)
    atom[20] = 2000.0
    for leaves in (np.full(64, 60.0), atom):
        errors = np.zeros(2)
        for _ in range(20):
            estimates, variances = noisy_tree(leaves, 40.0, rng)
            found = split_mass(estimates[1:], variances[1:], estimates[0][0], 64)
            cut = mass_from_root(estimates[1:], np.array(estimates[0][0]))
            errors += [np.abs(each - leaves).sum() for each in (found, cut)]
        assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("n_cells", [1, 37, 64])
def test_noise_alone_makes_the_uniform_law_of_the_cells_that_there_are(n_cells):
    estimates = [np.zeros(2**j) for j in range(1, 7)]
    mass = split_mass(estimates, [1e12] * 6, 1.0, n_cells)
    assert mass.sum() == pytest.approx(1)
    np.testing.assert_allclose(mass, 1 / n_cells, rtol=0.15)
