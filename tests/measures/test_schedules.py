"""How the budget is shared over levels."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition, optimal_shares, paper_shares


def total_diameters(d, r):
    partition = BinaryPartition(Box(np.zeros(d), np.ones(d), bits=30), r)
    return tuple(2.0**i * partition.diameters(i) for i in range(r))


def bound(shares, widths):
    """The bound on n E W1 by the textbook recursion, for two-sided noise of sensitivity 2 at epsilon = 1.

    A level with share b has variance 8 / b**2, and the error of a split of a cell has that of one child's estimate.
    """
    error, moved = math.inf, 0.0
    for share, width in zip(reversed(shares[1:]), reversed(widths), strict=True):
        below = 0 if error == math.inf else 1 / (2 * error)
        error = 1 / (float(share) ** 2 / 8 + below) if share or below else math.inf
        moved += width * math.sqrt(error)
    return moved


def leaf_only(r):
    return [0] * r + [1]


# Bounds at epsilon = 1, to the digits they were published with: equation (3.7) with least squares, leaves only, and the best shares that
# a local search found.
TABLE = [
    (1, 6, 80, 47.8, 47.8),
    (1, 10, 214, 212, 126),
    (1, 14, 412, 867, 255),
    (2, 10, 1460, 773, 773),
    (2, 14, 7030, 4330, 4330),
    (3, 14, 21200, 10700, 10700),
    (5, 14, 56500, 25900, 25900),
]


@pytest.mark.parametrize(("d", "r", "paper", "leaf", "searched"), TABLE)
def test_bounds_are_those_published_or_better(d, r, paper, leaf, searched):
    widths = total_diameters(d, r)
    below_root = paper_shares(widths)[1:]
    assert bound([0, *(share / sum(below_root) for share in below_root)], widths) == pytest.approx(paper, rel=0.01)
    assert bound(leaf_only(r), widths) == pytest.approx(leaf, rel=0.01)
    assert bound(optimal_shares(widths), widths) <= searched * 1.005


@pytest.mark.parametrize(
    ("d", "r", "shares"), [(1, 6, {6: 1}), (2, 8, {8: 1}), (10, 12, {12: 1}), (1, 10, {5: 0.49, 10: 0.51}), (2, 14, {8: 0.27, 14: 0.73})]
)
def test_leaves_take_the_whole_budget_of_shallow_trees_and_deep_ones_share_it_over_a_few_levels(d, r, shares):
    got = {level: float(share) for level, share in enumerate(optimal_shares(total_diameters(d, r))) if share}
    assert got == pytest.approx(shares, abs=0.01)


@pytest.mark.parametrize(("d", "r"), [(1, 8), (1, 13), (2, 12), (3, 14)])
def test_no_local_search_from_random_shares_finds_better_ones(d, r):
    widths = total_diameters(d, r)

    def log_bound(x):
        shares = np.exp(x - x.max())
        return math.log(bound([0, *(shares / shares.sum())], widths))

    starts = np.random.default_rng(0).normal(0, 3, (15, r))
    searched = min(minimize(log_bound, start, method="L-BFGS-B").fun for start in starts)
    assert bound(optimal_shares(widths), widths) <= math.exp(searched) * 1.002


growing = st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=14).map(lambda steps: tuple(2.0 ** np.cumsum(steps)))


@pytest.mark.must
@given(widths=growing)
@settings(max_examples=30, deadline=None)
def test_shares_are_fractions_that_sum_to_exactly_one(widths):
    for shares in (optimal_shares(widths), paper_shares(widths)):
        assert len(shares) == len(widths) + 1
        assert all(isinstance(share, Fraction) and share >= 0 for share in shares)
        assert sum(shares) == 1


@pytest.mark.parametrize("r", [4, 6, 9])
def test_leaves_that_hardly_matter_have_two_thousandths(r):
    shares = optimal_shares(tuple(1000.0**-level for level in range(r)))
    assert shares[-1] == Fraction(2, 1000)
    assert sum(shares) == 1


@given(widths=growing)
@settings(max_examples=50, deadline=None)
def test_shares_of_the_paper_are_proportional_to_the_root_of_the_width_one_level_up(widths):
    roots = np.sqrt([widths[0], *widths])
    np.testing.assert_allclose(np.array(paper_shares(widths), dtype=float), roots / roots.sum(), atol=len(roots) * 2.0**-20)
    assert min(paper_shares(widths)) > 0
