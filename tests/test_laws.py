"""What the statistical tests stand on is tested itself: by exact laws, and by faults."""

import numpy as np
import pytest
from laws import ALARM, CERTAIN, ODD, binomial, chi_squared, clopper_pearson, has_law, kolmogorov
from scipy import stats

RNG = np.random.default_rng(0)


def test_chi_squared_finds_a_scale_that_is_too_small_and_takes_the_right_one():
    k = np.arange(-40, 41)
    right, wrong = (np.exp(-abs(k) / scale) for scale in (3, 2))
    counts = RNG.multinomial(20_000, right / right.sum())
    assert chi_squared(counts, right) > ALARM
    assert chi_squared(counts, wrong) < CERTAIN


def test_chi_squared_is_uniform_at_its_own_law():
    p = np.append(np.full(6, 0.16), np.full(4, 0.01))
    found = [chi_squared(RNG.multinomial(1000, p), p) for _ in range(4000)]
    assert kolmogorov(found, "uniform") > ALARM


def test_a_count_where_none_can_be_is_certain():
    assert chi_squared([10, 1], [1, 0]) == 0


def test_few_counts_are_joined_until_their_law_is_near_a_normal_one():
    assert chi_squared([40, 3, 2, 1], [40, 2, 2, 2]) == chi_squared([46], [46]) == 1
    assert chi_squared([100, 90, 3, 7], [90, 100, 5, 5]) == pytest.approx(stats.chisquare([110, 90], [100, 100]).pvalue)


@pytest.mark.parametrize(("successes", "n"), [(0, 50), (50, 50), (7, 50)])
def test_clopper_pearson_bounds_have_the_stated_tails(successes, n):
    low, high = clopper_pearson(successes, n, 1e-6)
    assert successes == 0 or stats.binom.sf(successes - 1, n, low) == pytest.approx(1e-6)
    assert successes == n or stats.binom.cdf(successes, n, high) == pytest.approx(1e-6)


def test_a_second_stage_is_drawn_only_after_an_odd_first_one():
    asked = []

    def draw(n):
        asked.append(n)
        return n

    assert has_law(draw, lambda n: 0.5, 10)
    assert asked == [10]
    assert has_law(draw, lambda n: ODD / 2 if n == 10 else 0.5, 10)
    assert not has_law(draw, lambda n: ALARM / 2, 10)
    assert (asked, binomial(5, 10, 0.5)) == ([10, 10, 100, 10, 100], 1)
