"""Where rows lie, from noisy answers: rules of post-processing."""

import math

import numpy as np
import pytest
from internals import candidate_radii, choose_radius, shrunken_center


@pytest.mark.parametrize("squared", [1, 2, 3, 10, 1000, 2**20, 2**46 - 12345, 2**46, 4000 * (2**17 - 2) ** 2])
def test_squared_radii_fall_by_the_root_of_2_in_whole_numbers_that_differ(squared):
    """Down to one unit, or to 2**-29.5 of the largest."""
    radii = candidate_radii(squared)
    assert radii[0] == squared
    assert (np.diff(radii) < 0).all()
    assert (radii == np.floor(radii)).all()
    assert radii[-1] == (1 if squared <= 2**20 else pytest.approx(squared / 2**29.5, rel=1e-3))
    assert len(radii) <= 60
    for step, radius in enumerate(radii[:20]):
        if radius > 1000:
            assert radius == pytest.approx(squared / math.sqrt(2) ** step, abs=1)


RADII = candidate_radii(2**30)


def counts_at(**rows):
    """Numbers of rows by place: ``_3=100`` puts 100 rows between the radii 3 and 4."""
    counts = np.zeros(len(RADII))
    for place, number in rows.items():
        counts[int(place[1:])] = number
    return counts


@pytest.mark.parametrize("n_samples", [100, 1000, 10_000])
def test_where_no_row_is_seen_the_radius_is_one_that_holds_half_of_the_rows_for_sure(n_samples):
    """No prefix is seen at 3 deviations, and that of the last place is known to half of the rows. Noise beyond the rows tells of none."""
    place, stretch = choose_radius(np.zeros(len(RADII)), RADII, 10.0, 1e-9, n_samples)
    assert stretch == 1
    assert place == len(RADII) - 1 or 30 * math.sqrt(1 + place) <= n_samples / 2 < 30 * math.sqrt(2 + place)
    assert choose_radius(counts_at(_20=1000), RADII, 1e6, 1e-3, 1000) == (0, 1.0)
    with_noise = counts_at(_20=5000)
    with_noise[22:] = -30
    assert choose_radius(with_noise, RADII, 5.0, 30, 5000)[0] == 20


def test_noise_does_not_make_the_radius_collapse():
    """300 rows in place 11, counts of deviation 14, 1000 seeded draws: never within the radius of the rows, whatever noise says beyond."""
    rng = np.random.default_rng(0)
    noisy = [counts_at(_11=300) + rng.laplace(0, 10, len(RADII)) for _ in range(1000)]
    places = [choose_radius(counts, RADII, 14.1, 1e9, 300)[0] for counts in noisy]
    assert max(places) <= 11
    assert np.median(places) >= 9


def test_the_radius_is_where_noise_and_what_is_taken_add_up_to_least():
    """By hand: a row between r_j and r_(j+1) is as long as their geometric mean, and loses what is beyond r**2, at a price of 1/128."""
    rng = np.random.default_rng(0)
    middle = [math.sqrt(a * b) for a, b in zip(RADII, [*RADII[1:], 0], strict=True)]
    for _ in range(60):
        counts = np.round(rng.exponential(1000, len(RADII)) * (rng.random(len(RADII)) < 0.3)) + 10_000 * (np.arange(len(RADII)) == 2)
        rate, n_samples = 10 ** rng.uniform(-6, 12), counts.sum()
        first = int(np.argmax(np.cumsum(counts) > 3 * np.sqrt(1 + np.arange(len(RADII)))))
        taken = [sum(counts[j] * (middle[j] - RADII[k]) for j in range(first, k)) for k in range(first, len(RADII))]
        costs = [
            rate * RADII[k] + taken[k - first] / 128 if counts[first:k].sum() + math.sqrt(1 + k) <= n_samples / 2 else math.inf
            for k in range(first, len(RADII))
        ]
        best = int(np.argmin(costs))
        place, stretch = choose_radius(counts, RADII, 1.0, rate, int(n_samples))
        assert place == first + best
        whole = sum(counts[j] * middle[j] for j in range(first, len(RADII)))
        assert stretch == pytest.approx(min(4, whole / (whole - taken[best])))


def test_a_mean_is_shrunk_by_the_share_of_its_square_that_is_noise_and_rounded():
    """2 features, deviation 100: the square 4 * 10**5 has 2 * 10**4 of noise, a twentieth."""
    assert shrunken_center(np.array([600.0, 200.0]), 100.0).tolist() == [570, 190]
    assert shrunken_center(np.array([1000.4, -2000.6, 0.0]), 1e-3).tolist() == [1000, -2001, 0]


@pytest.mark.parametrize("d", [1, 2, 20, 300])
def test_a_mean_that_may_be_noise_is_no_center(d):
    """At 1 of 230 draws it is: more than 45 of 2000 have a chance of 1e-14. No mean that is shorter than all noise is."""
    noise = np.random.default_rng(0).laplace(scale=100 / math.sqrt(2), size=(2000, d))
    assert sum(shrunken_center(mean, 100.0).any() for mean in noise) < 45
    assert shrunken_center(np.full(d, 100.0 * (1 + 4 / math.sqrt(d))), 100.0).any()
    assert not shrunken_center(np.full(d, 100.0), 100.0).any()
