"""The signed measure mechanism: its noise, its cells, its whole rows, and what it refuses."""

import importlib.util
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from internals import _signed_measure, _transport, default_n_cells, lattice_shape
from laws import refuses
from scipy.spatial.distance import cdist

from skdpsynth import PrivacyAccountant, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Facts
from skdpsynth.measures import Lattice
from skdpsynth.metrics import wasserstein_distance


def rows(n=400, d=2, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


def laplace_pmf(z, scale):
    p = np.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** np.abs(z)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_loss_of_the_two_cell_mechanism_is_epsilon_and_not_twice_that(door, epsilon):
    """Exact distribution of the released measure on two neighboring tables, by all noise values."""
    laws = []
    for left in (3, 4):  # of six rows; replacing one moves one of them to the right
        X = np.array([[0.2]] * left + [[0.8]] * (6 - left))
        law: dict = {}
        for z in range(-90, 91):
            door.answer = lambda name, values, drawn, z=z: values + z
            model = SignedMeasureMechanism(2, epsilon=epsilon).fit(X)
            weights = np.bincount(model.measure_.cells, model.measure_.weights, minlength=2)
            (draw,) = door.take()
            assert draw.values.shape == (1,)
            outcome = tuple(np.rint(6 * weights).astype(int))
            law[outcome] = law.get(outcome, 0) + laplace_pmf(z, float(draw.noise.scale))
        laws.append(law)
    assert abs(sum(laws[0].values()) - 1) < 1e-15
    losses = [abs(np.log(laws[0][outcome] / laws[1][outcome])) for outcome in laws[0]]
    assert max(losses) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.must
@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_counts_of_neighbors_differ_by_at_most_what_the_noise_is_scaled_for(door, neighboring):
    tables = [np.array(list(points)) for n in (2, 3) for points in product(([0.1], [0.5], [0.9]), repeat=n)]
    counts, scales = [], set()
    for X in tables:
        SignedMeasureMechanism(3, epsilon=2, neighboring=neighboring).fit(X)
        counts.append(door.draws[-1].values)
        scales.add(door.draws[-1].noise.scale)
    moved = max(
        np.abs(a - b).sum()
        for (X, a), (Y, b) in product(zip(tables, counts, strict=True), repeat=2)
        if (len(X) == len(Y) and np.sum(X != Y) == 1) or (len(X) + 1 == len(Y) and np.array_equal(X, Y[:-1]))
        if (neighboring == "replace_one") == (len(X) == len(Y))
    )
    share = Fraction(1) if neighboring == "replace_one" else Fraction(95, 100)
    assert scales == {Fraction(int(moved)) / (2 * share)}


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_measure_holds_whole_rows_that_sum_to_their_number_and_are_those_of_a_sample(d, neighboring):
    model = SignedMeasureMechanism(60, neighboring=neighboring).fit(rows(d=d))
    whole = model.measure_.weights * model.n_samples_
    np.testing.assert_allclose(whole, np.rint(whole), atol=1e-6)
    assert np.rint(whole).sum() == model.n_samples_
    assert model.solution_.gap <= 1e-9 * model.solution_.value
    expected = np.zeros(model.measure_.partition.n_cells, dtype=int)
    expected[model.measure_.cells] = np.rint(whole)
    located = model.measure_.partition.locate(model.sample(model.n_samples_))
    np.testing.assert_array_equal(np.bincount(located, minlength=len(expected)), expected)


def test_without_noise_the_measure_is_the_histogram():
    X = rows()
    model = SignedMeasureMechanism(36, epsilon=float("inf")).fit(X)
    expected = np.histogram2d(*X.T, bins=6, range=[(0, 1)] * 2)[0].ravel() / len(X)
    got = np.zeros(36)
    got[model.measure_.cells] = model.measure_.weights
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert model.solution_.value == 0


def test_columns_in_unlike_units_count_alike():
    """Stretching a column and its bounds changes nothing but the units (one seed, so one noise)."""
    X = rows(500)
    plain = SignedMeasureMechanism(100, random_state=1).fit(X)
    stretched = SignedMeasureMechanism(100, bounds=([0, 0], [1, 1000]), random_state=1).fit(X * [1, 1000])
    np.testing.assert_allclose(stretched.measure_.weights, plain.measure_.weights, atol=1e-12)
    np.testing.assert_array_equal(stretched.measure_.cells, plain.measure_.cells)
    assert stretched.solution_.value == pytest.approx(1000 * plain.solution_.value)


@pytest.mark.parametrize("metric", ["chebyshev", "cityblock", "euclidean"])
def test_value_is_what_it_costs_to_fill_the_holes_of_the_released_counts(door, metric):
    """By POT: from the positive counts to what is left of them and the holes."""
    ot = pytest.importorskip("ot")
    noise = np.random.default_rng(1).integers(-6, 7, 49)
    noise[0] -= noise.sum() - 98  # all cells are shifted down by two, and none by one more
    door.answer = lambda name, values, drawn: values + noise
    model = SignedMeasureMechanism(49, metric=metric).fit(rows(300))
    counts = (door.draws[-1].values + noise - 2) / 300
    positions, weights = model.measure_.partition.positions, np.zeros(49)
    weights[model.measure_.cells] = model.measure_.weights
    assert counts.min() < 0
    mass = np.maximum(counts, 0).sum()
    after = weights + np.maximum(-counts, 0)
    cost = mass * ot.emd2(np.maximum(counts, 0) / mass, after / after.sum(), cdist(positions, positions, metric))
    assert model.solution_.value == pytest.approx(cost, rel=1e-9)


def sphere(n, seed=0):
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_any_space_with_representatives_will_do():
    """Data about a pole of a sphere; 300 representatives all over it."""
    X = sphere(2000)
    X = X[X[:, 2] > 0.6]
    cells = sphere(300, seed=1)
    model = SignedMeasureMechanism(cells=cells, metric="euclidean", bounds=(-1, 1), epsilon=2).fit(X)
    sample = model.sample(500, random_state=0)
    assert cdist(sample, cells).min(axis=1).max() == 0  # samples are representatives
    assert wasserstein_distance(X[:400], sample) < 0.35 * wasserstein_distance(X[:400], cells)


def test_representatives_in_a_frame_are_matched_by_column():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"lon": [11.5] * 50, "lat": [48.1] * 50})
    shops = pd.DataFrame({"lat": [48.1, 48.2], "lon": [11.5, 11.6]})
    model = SignedMeasureMechanism(cells=shops, bounds={"lat": (47, 49), "lon": (11, 12)}, epsilon=20).fit(X)
    sample = model.sample()
    assert (sample["lat"] > 40).all()
    refuses(ValueError, "cells must have the columns of X", model.set_params(cells=shops.rename(columns={"lat": "y"})).fit, X)


def test_many_rows_tied_between_many_representatives_take_little_memory_and_time():
    """Twenty thousand rows at the center of a sphere of two thousand representatives belong to the first of them."""
    cells = sphere(2000)
    cells[:, 0] = np.abs(cells[:, 0])
    model = SignedMeasureMechanism(cells=cells, metric="euclidean", bounds=(-1, 1), epsilon=float("inf")).fit(np.zeros((20_000, 3)))
    distances = np.linalg.norm(cells, axis=1)
    assert model.measure_.cells.tolist() == [int(np.argmax(distances <= distances.min() * (1 + 1e-12)))]


def test_more_cells_than_noise_can_be_cancelled_in_are_warned_of():
    with pytest.warns(SmallSampleWarning, match="There are 1089 cells for n_samples"):
        SignedMeasureMechanism(1100, epsilon=0.5).fit(rows(400))


@pytest.mark.parametrize("cells", [[[0, 0], [1e155, 1e155]], "lattice"])
def test_no_row_can_fail_however_wide_the_bounds(cells):
    """Squares of such widths overflow."""
    W = 1e155
    if isinstance(cells, str):
        keep = np.zeros(16, dtype=bool)
        keep[[0, 1, 15]] = True
        cells = Lattice(Box([0, 0], [W, W]), (4, 4), keep=keep)
    X = np.zeros((200, 2))
    for row in ([W / 2, W / 3], [0.3 * W, 0.7 * W], [W, 0]):
        X[0] = row
        model = SignedMeasureMechanism(cells=cells, metric="euclidean", bounds=(0, W)).fit(X)
        assert model.sample(5).shape == (5, 2)


def test_axes_are_cut_alike_into_at_most_the_cells_asked_for_and_the_values_they_have():
    for d, n_cells in product([1, 2, 3, 5, 8], [1, 2, 7, 64, 100, 1000, 4096]):
        shape = lattice_shape(n_cells, Box(np.zeros(d), np.ones(d)))
        assert max(shape) - min(shape) <= 1
        assert np.prod(shape) <= n_cells < np.prod(shape) / min(shape) * (min(shape) + 1)
    assert lattice_shape(1000, Box([0, 0, 0], [1, 6, 1], whole=[True, True, False])) == (2, 7, 71)


def test_default_number_of_cells_grows_and_stays_solvable():
    for d in (1, 2, 3, 4, 8):
        sizes = [default_n_cells(size, d) for size in (1.0, 1e2, 1e3, 1e4, 2.0**24)]
        assert sizes[0] >= 1
        assert sizes == sorted(sizes)
        assert sizes[-1] <= 10_000


BAD = [
    *(({"n_cells": n}, "n_cells must be 'auto' or an integer from 1 to") for n in (0, 2.5, True)),
    ({"n_cells": 10**6}, "from 1 to 150000, got 1000000; 'auto' is the default; with solver='highs' use fewer, or solver='ortools'"),
    ({"metric": "manhattan"}, "metric must be one of"),
    ({"solver": "gurobi"}, "solver must be one of"),
    ({"solver": "ortools"}, "solver='ortools' needs the package ortools"),
    ({"cells": np.zeros((0, 2))}, "at least one representative"),
    ({"cells": np.zeros((4, 3))}, "a row of 2 numbers each"),
    ({"cells": "kmeans"}, "cells must be a Lattice or a table of numbers"),
    *(({"cells": [[0.5, x]]}, "cells must be finite and lie within bounds") for x in (np.nan, 1.5)),
    ({"cells": [[0.5, 0.5], [0.5, 0.5]]}, "cells must differ"),
    ({"cells": [[0.5, 0.5]], "n_cells": 3}, "n_cells must be 'auto' where cells are given"),
    ({"cells": Lattice(Box([0, 0], [1, 2]), (2, 2))}, "got a Lattice of another box"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters_are_refused_in_one_sentence_before_any_budget_is_spent(parameters, message, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *where: None if name == "ortools" else find(name, *where))
    shared = PrivacyAccountant(1)
    with pytest.raises(ValueError, match=message) as caught:
        SignedMeasureMechanism(accountant=shared, **parameters).fit(rows(50))
    assert shared.spent == 0
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(("n_cells", "n", "most"), [(150_000, 30, 5000), (150_000, 40_000, 30_000), (40_000, 40_000, 30_000)])
def test_more_cells_than_seconds_of_solving_are_cut_into_fewer_with_a_warning(n_cells, n, most):
    facts = Facts(Fraction(1), Fraction(0), "replace_one", n, 3, Box(np.zeros(3), np.ones(3)))
    planned = SignedMeasureMechanism(n_cells)._plan(facts).partition.n_cells
    assert 0.8 * most < planned <= most
    assert any(f"so the box is cut into at most {most};" in said for said, _ in facts.warnings)


def test_cells_that_are_given_and_cells_on_a_line_are_as_many_as_asked_for():
    box = Box(np.zeros(2), np.ones(2))
    facts = Facts(Fraction(1), Fraction(0), "replace_one", 30, 2, box)
    assert SignedMeasureMechanism(cells=Lattice(box, (200, 200)))._plan(facts).partition.n_cells == 40_000
    line = Facts(Fraction(1), Fraction(0), "replace_one", 30, 1, Box(np.zeros(1), np.ones(1)))
    assert SignedMeasureMechanism(150_000)._plan(line).partition.n_cells == 150_000


def test_scattered_cells_whose_noise_takes_too_long_to_cancel_are_refused_before_any_budget_is_spent(monkeypatch):
    monkeypatch.setitem(_signed_measure._MOST_CUT, "highs", 1100)
    rng = np.random.default_rng(0)
    X, cells, accountant = rng.random((20, 2)), rng.random((1200, 2)), PrivacyAccountant(1)
    with pytest.raises(ValueError, match=r"cells must be at most 1100 .* 4 \* n_samples \* epsilon = 80, got 1200"):
        SignedMeasureMechanism(cells=cells, accountant=accountant).fit(X)
    assert accountant.spent == 0
    SignedMeasureMechanism(cells=cells[:1100]).fit(X)
    SignedMeasureMechanism(cells=Lattice(Box(np.zeros(2), np.ones(2)), (40, 30))).fit(X)
    with pytest.warns(SmallSampleWarning, match="nearly all that they count is noise"):
        SignedMeasureMechanism(cells=cells, neighboring="add_or_remove_one").fit(X)


def test_trouble_of_the_solver_leaves_the_object_as_it_was(monkeypatch):
    model = SignedMeasureMechanism(20, epsilon=0.1).fit(rows())
    before = dict(vars(model))

    def fail(*args):
        raise RuntimeError("infeasible")

    monkeypatch.setattr(_transport, "min_cost_flow", fail)
    refuses(RuntimeError, r"not solved by 'highs' \(status: infeasible\)", model.fit, rows(seed=1))
    assert vars(model) == before
