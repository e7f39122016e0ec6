"""Utilities of models for held-out rows: what they are, and how far one row moves them."""

import numpy as np
import pytest
from internals import N_POINTS, CapturedVariance, MarginalDistance, SlicedDistance, _search
from scipy.stats import wasserstein_distance as on_a_line

from skdpsynth.domain import Box
from skdpsynth.statistics import Sensitivity


class Model:
    """A released model that draws these points."""

    components_, mean_ = np.array([[0.6, 0.8]]), np.array([0.1, 0.9])

    def __init__(self, points):
        self.points = points

    def _sample_points(self, n_samples, rng):
        return self.points[np.arange(n_samples) % len(self.points)]


BOX = Box(np.zeros(2), np.ones(2))
CORNERS = np.array([[0, 0], [1, 1], [0, 1], [1, 0], [0.5, 0.5], [0.1, 0.9], [7.0, -7.0]])
MODELS = [Model(corner[None, :]) for corner in CORNERS] + [Model(np.random.default_rng(0).random((100, 2)))]
UTILITIES = [SlicedDistance(BOX), MarginalDistance(BOX), CapturedVariance(BOX)]


def of(utility, rows, model):
    return utility.of(np.asarray(rows).reshape(-1, 2), model, np.random.default_rng(0))


@pytest.mark.must
@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: type(utility).__name__)
def test_a_row_added_removed_or_replaced_moves_a_utility_by_at_most_its_change(utility):
    """Brute force over small tables of worst-case rows; whole numbers, so there is no tolerance."""
    rng, largest = np.random.default_rng(3), 0
    for model in MODELS:
        for n_rows in (0, 1, 4):
            rows = CORNERS[rng.integers(0, len(CORNERS), n_rows)]
            more = [of(utility, np.vstack([rows, corner]), model) for corner in CORNERS]
            fewer = of(utility, rows, model)
            largest = max(largest, max(more) - min(more), *(abs(each - fewer) for each in more))
    assert largest <= utility.sensitivity
    assert largest >= 0.5 * utility.sensitivity, "the bound is far from what rows do"


def test_the_change_of_each_utility_is_attained():
    """By a row that goes from end to end, that leaves where the points are, or that goes from the mean to the farthest corner."""
    line, center = Box(np.zeros(1), np.ones(1)), Model(CORNERS)
    center.components_, center.mean_ = np.eye(2), np.zeros(2)
    pairs = [(SlicedDistance(line), Model(np.zeros((1, 1))), 1.0, 0.0), (CapturedVariance(BOX), center, 0.0, 1.0)]
    pairs += [(MarginalDistance(Box(np.zeros(d), np.ones(d))), Model(np.full((1, d), 0.1)), 0.9, 0.1) for d in (1, 2, 4)]
    for utility, model, low, high in pairs:
        d = model.points.shape[1]
        least, most = (utility.of(np.full((1, d), at), model, np.random.default_rng(0)) for at in (low, high))
        assert most - least == utility.sensitivity


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: type(utility).__name__)
def test_a_row_moves_the_utility_of_each_candidate_as_far(utility, relation):
    c = utility.sensitivity
    sensitivity = utility.sensitivity_of(3, relation)
    assert sensitivity == Sensitivity(relation, 3 * c, 3 * c**2, c)
    assert dict(sensitivity.statistic) == {"kind": "utilities", "candidates": 3, **utility.facts}


@pytest.mark.parametrize("utility", UTILITIES[:2], ids=lambda utility: type(utility).__name__)
def test_a_row_counts_the_same_beside_any_others(utility):
    """Counts of a table are the sum of those of its rows, to the last unit: no rounding depends on the batch."""
    box = Box(np.full(50, -3.0), np.full(50, 11.0))
    utility, rows = type(utility)(box), np.random.default_rng(1).normal(4, 5, (300, 50))
    cells = box.quantize(rows)
    assert (utility.counts(cells) == sum(utility.counts(cells[i : i + 1]) for i in range(300))).all()


def test_score_is_the_mean_distance_along_directions():
    box, rng = Box([0.0, 0.0, 0.0], [1.0, 2.0, 4.0]), np.random.default_rng(2)
    utility, rows, points = SlicedDistance(box), rng.random((500, 3)) * [1, 2, 4], rng.beta(2, 3, (N_POINTS, 3)) * [1, 2, 4]
    unit = utility.directions / np.linalg.norm(utility.directions, axis=1, keepdims=True)
    lengths = [on_a_line(rows / [1, 2, 4] @ w, points / [1, 2, 4] @ w) for w in unit]
    assert -utility.score(utility.of(rows, Model(points), None), 500) == pytest.approx(np.mean(lengths), rel=0.02)


def test_score_of_tables_is_their_total_variation():
    tables, model = MarginalDistance(BOX), Model(np.array([[0.1, 0.1]]))
    assert tables.score(of(tables, [[0.9, 0.9]] * 8, model), 8) == -1.0
    assert of(tables, [[0.1, 0.1]] * 8, model) == 0


def test_pairs_are_few_and_public():
    wide = MarginalDistance(Box(np.zeros(60), np.ones(60)))
    assert len(wide.pairs) == _search._MOST_PAIRS
    assert wide.pairs == MarginalDistance(Box(np.zeros(60), np.ones(60))).pairs
    assert MarginalDistance(Box(np.zeros(1), np.ones(1))).pairs == [(0,)]
