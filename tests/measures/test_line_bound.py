"""W1 on a line: noise at the boundaries of cells, by linear algebra; and the area between distribution functions, by the closed form."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import BoundaryNoise, moved_on_a_line

from skdpsynth.measures import least_squares, mass_from_root_unclipped
from skdpsynth.metrics import wasserstein_distance

SEEDS = st.integers(0, 2**32 - 1)


def moments_of(boundaries, variances):
    """Second moments at both ends of each cell; row k of `boundaries` has what a unit of noise k does to the sums up to each boundary."""
    covariance = boundaries.T @ (variances[:, None] * boundaries)
    return np.diag(covariance)[:-1], np.diag(covariance)[1:], np.diag(covariance, 1)


@given(seed=SEEDS, depth=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_moments_of_a_tree_are_those_of_its_linear_map(seed, depth):
    """Every noisy count moves the estimates in turn; the variances of the levels differ, and some levels are not released."""
    rng = np.random.default_rng(seed)
    variances, released = rng.uniform(0.1, 9, depth + 1), [*(rng.random(depth) < 0.6), True]
    rows, noise = [], []
    for level in np.flatnonzero(released):
        for node in range(2**level):
            noisy = [np.zeros(2**j) if kept else None for j, kept in enumerate(released)]
            noisy[level][node] = 1.0
            estimates, errors = least_squares(noisy, [v if kept else np.inf for v, kept in zip(variances, released, strict=True)])
            rows.append(np.append(0.0, np.cumsum(mass_from_root_unclipped(estimates, 0.0))))
            noise.append(variances[level])
    for got, wanted in zip(BoundaryNoise.of_tree(errors), moments_of(np.array(rows), np.array(noise)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@given(seed=SEEDS, n_cells=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_moments_of_parts_are_those_of_sums_of_which_the_last_is_known(seed, n_cells):
    numbers = 2.0 ** np.random.default_rng(seed).integers(0, 4, n_cells)
    parts, cell = np.eye(int(numbers.sum())), np.repeat(np.arange(n_cells), numbers.astype(int))
    spread = parts - 1 / len(parts)  # the deficit of all, shared evenly
    sums = np.column_stack([np.zeros(len(parts)), *(spread[:, cell <= k].sum(axis=1) for k in range(n_cells))])
    for got, wanted in zip(BoundaryNoise.of_parts(numbers, 3.0), moments_of(sums, np.full(len(parts), 3.0)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@given(seed=SEEDS, n_cells=st.integers(1, 4), n_parts=st.sampled_from([1, 2, 8]))
@settings(max_examples=60, deadline=None)
def test_the_area_between_two_samples_is_at_most_what_their_cells_say(seed, n_cells, n_parts):
    """Rows anywhere within their cells, often at an end; without noise, so the bound holds for each table."""
    rng, m = np.random.default_rng(seed), n_cells * n_parts
    counts = [rng.multinomial(50, rng.dirichlet(np.full(m, 0.3))) for _ in range(2)]
    places = [rng.choice([0.0, 1.0, 0.5], 50) if rng.random() < 0.8 else rng.random(50) for _ in range(2)]
    X, Y = ((np.repeat(np.arange(m), count) + place)[:, None] / m for count, place in zip(counts, places, strict=True))
    first, second = (count.reshape(n_cells, n_parts).astype(float) for count in counts)
    gaps = np.append(0.0, np.cumsum((first - second).sum(axis=1))[:-1])
    none = BoundaryNoise(*np.zeros((3, n_cells)))
    moved = moved_on_a_line(first, second, gaps, none, 0.0)
    assert wasserstein_distance(X, Y) <= (moved / 50 + 1) / m + 1e-12
