"""Low-dimensional synthesis: its budget, its fixed map of rows, its ranges, its box and its stories with scikit-learn."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import Subspace, axis_scales, choose_interval, default_ranges, n_directions, needs_distance, range_edges, range_noise
from internals import count_axis_cells as counts_of_rows
from laws import refuses
from scipy.stats import norm

from skdpsynth import LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.fitting import Facts
from skdpsynth.frames import Rows
from skdpsynth.measures import BinaryPartition


def line(n, d, seed=0, noise=0.005):
    rng = np.random.default_rng(seed)
    direction = rng.uniform(-1, 1, d)
    return np.clip(0.5 + 0.4 * rng.uniform(-1, 1, (n, 1)) * direction / np.abs(direction).max() + noise * rng.normal(size=(n, d)), 0, 1)


REDUCED = {"n_components": 1, "reducer_share": 0.4, "epsilon": 5}
SPLITS = [  # (rows, columns, parameters, tenths of epsilon); ranges get a tenth of what the reducer leaves
    (500, 4, {"n_components": 2, "reducer_share": 0.3, "epsilon": 2}, {"PrivatePCA": 6, "PrivateMeasureMechanism": 14}),
    (500, 3, {"n_components": 3}, {"PrivateMeasureMechanism": 10}),  # as many components as columns: no reducer
    (5000, 4, REDUCED, {"PrivatePCA": 20, "ranges": 3, "PrivateMeasureMechanism": 27}),
]


@pytest.mark.parametrize(("n", "n_columns", "parameters", "steps"), SPLITS)
def test_the_budget_is_split_by_reducer_share(n, n_columns, parameters, steps):
    model = LowDimSynthesizer(**parameters).fit(line(n, n_columns))
    assert {entry.name: 10 * entry.loss.epsilon for entry in model.accountant_.ledger} == steps
    assert (model.reducer_ is None) == ("PrivatePCA" not in steps)
    if model.reducer_ is not None:
        assert 10 * model.reducer_.accountant_.spent == steps["PrivatePCA"]
    assert 10 * model.synthesizer_.accountant_.spent == steps["PrivateMeasureMechanism"]


def test_delta_goes_to_the_moments_only():
    model = LowDimSynthesizer(2, delta=1e-6).fit(line(500, 12))
    assert model.reducer_.accountant_.ledger[0].noise.startswith("DiscreteGaussian")
    assert all(entry.noise.startswith("DiscreteLaplace") for entry in model.synthesizer_.accountant_.ledger)
    assert model.accountant_.spent == 1


@pytest.mark.parametrize("bounds", [(0, 1), "private"])
def test_moments_get_all_of_a_budget_that_pure_losses_leave(bounds):
    """By the exact delta of a bit, which is all that pure losses of that sum tell, and a normal number."""
    model = LowDimSynthesizer(2, delta=1e-6, bounds=bounds).fit(line(500, 12))
    assert model.accountant_.spent == 1
    pure = float(sum(entry.loss.epsilon for entry in model.accountant_.ledger if entry.loss.rho is None))
    (mu,) = (np.sqrt(2 * float(entry.loss.rho)) for entry in model.accountant_.ledger if entry.loss.rho is not None)
    share = 1 / (1 + np.exp(-pure))

    def delta(epsilon):
        of_moments = [norm.sf(x / mu - mu / 2) - np.exp(x + norm.logsf(x / mu + mu / 2)) for x in (epsilon - pure, epsilon + pure)]
        return share * of_moments[0] + (1 - share) * of_moments[1]

    assert 1e-6 * (1 - 1e-6) < delta(1) <= 1e-6
    assert delta(0.995) > 1e-6


def test_rows_lie_within_ranges_that_were_released():
    """A line of .8 times its largest entry, whose ends lie at 1.7 deviations: three would be nearly twice as far."""
    X = line(20_000, 4)
    model = LowDimSynthesizer(1, epsilon=5, random_state=0).fit(X)
    (low,), (high,) = model.synthesizer_.bounds
    t = model.reducer_.transform(X)
    deviation = np.sqrt(model.reducer_.explained_variance_[0])
    assert low <= np.quantile(t, 0.01) < np.quantile(t, 0.99) <= high
    assert high - low < 5 * deviation


def test_rows_far_from_the_subspace_come_back_as_far():
    """Along a line, with a spread beside it that is wide against its cells: the mean square of each column is kept."""
    X = line(30_000, 20, noise=0.08)
    model = LowDimSynthesizer(1, epsilon=5).fit(X)
    assert model.synthesizer_.n_features_in_ == 2
    assert model.n_components_ == 1
    assert model.sample().var(axis=0).sum() == pytest.approx(X.var(axis=0).sum(), rel=0.05)


def test_auto_finds_the_number_of_directions():
    """Six clusters in three directions of twenty columns; of 40 fits with fresh noise none missed. This is seeded."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(3, 20))
    factors = np.clip(rng.uniform(-0.8, 0.8, (6, 3))[rng.integers(0, 6, 10_000)] + 0.15 * rng.normal(size=(10_000, 3)), -1, 1)
    X = np.clip(0.5 + 0.5 * factors @ (loadings / np.abs(loadings).sum(axis=0)) + 0.01 * rng.normal(size=(10_000, 20)), 0, 1)
    assert LowDimSynthesizer(random_state=0).fit(X).n_components_ == 3


def test_private_center_wins_far_from_the_midpoint():
    """Data about 0.1, epsilon 5: W1 .039 (sd .0002) against .005 (.0013), so a false alarm needs 27 deviations."""
    X = np.clip(0.1 + 0.2 * (line(20_000, 8) - 0.5), 0, 1)
    public, private = (LowDimSynthesizer(1, center=c, epsilon=5).fit(X).score(X) for c in ("public", "private"))
    assert private > public


@pytest.mark.parametrize(
    ("inner", "is_kept"),
    [
        (PrivateMeasureMechanism("paper", depth=5, epsilon=99), lambda used: (used.strategy, used.depth) == ("paper", 5)),
        (SignedMeasureMechanism(30, metric="euclidean", epsilon=99), lambda used: used.measure_.partition.n_cells <= 30),
    ],
)
def test_any_unfitted_synthesizer_runs_inside(inner, is_kept):
    model = LowDimSynthesizer(2, synthesizer=inner, epsilon=4).fit(line(500, 5))
    assert type(model.synthesizer_) is type(inner)
    assert is_kept(model.synthesizer_)
    assert (model.synthesizer_.accountant_.spent, model.accountant_.spent) == (2, 4)
    assert (inner.epsilon, hasattr(inner, "measure_")) == (99, False)


@pytest.mark.parametrize(("k", "n", "expected"), [(2, 100, "pmm"), (3, 100, "psmm"), (4, 800, "psmm"), (3, 5000, "pmm"), (4, 5000, "pmm")])
def test_auto_takes_the_signed_measure_where_it_was_measured_to_be_better(k, n, expected):
    model = LowDimSynthesizer(k, epsilon=2).fit(line(n, 6))
    kind = {"pmm": PrivateMeasureMechanism, "psmm": SignedMeasureMechanism}[expected]
    assert isinstance(model.synthesizer_, kind)


REFUSED = [
    ({"synthesizer": SignedMeasureMechanism(cells=np.zeros((1, 2)))}, "must have cells=None"),
    ({"synthesizer": "psmm2"}, "synthesizer must be one of"),
    ({"synthesizer": PrivatePCA()}, "PrivatePCA lacks sample"),
    ({"synthesizer": PrivateMeasureMechanism}, "give an instance"),
    ({"synthesizer": PrivateMeasureMechanism(accountant=PrivacyAccountant(1))}, "accountant=None"),
    ({"synthesizer": 3}, "unfitted synthesizer"),
    ({"synthesizer": PrivateMeasureMechanism(depth=-1)}, "depth must be"),
    *(({"reducer_share": share}, "reducer_share must be") for share in (0, 1.0)),
    ({"center": "mean"}, "center must be one of"),
    ({"center": [2.0, 0, 0, 0]}, "within bounds"),
    *(
        ({"n_components": 2, "synthesizer": part, "reducer_share": 1 - 1e-10}, "epsilon must be at least 1e-9")
        for part in ("pmm", "psmm", "auto")
    ),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_bad_parameters_and_too_small_shares_are_refused_before_any_budget_is_spent(parameters, message):
    shared = PrivacyAccountant(1)
    refuses(ValueError, message, LowDimSynthesizer(accountant=shared, **parameters).fit, line(300, 4))
    assert shared.spent == 0


@pytest.mark.parametrize("n_components", ["auto", 5, 6])
def test_what_the_part_refuses_on_any_number_of_axes_is_refused_before_the_charge(n_components):
    """A depth of 40 serves six axes or more, and not fewer; an axis of distances may make six of five."""
    X = np.clip(0.5 + np.random.default_rng(0).normal(0, [0.2, *[0.01] * 6], (500, 7)), 0, 1)
    shared = PrivacyAccountant(20)
    model = LowDimSynthesizer(n_components, synthesizer=PrivateMeasureMechanism("adaptive", depth=40), accountant=shared)
    try:
        model.fit(X)
    except ValueError:
        assert shared.spent == 0


def test_cells_of_a_callers_own_get_as_many_axes_as_there_are_directions():
    X = np.random.default_rng(0).random((3000, 6)) * [1, 0.9, 0.8, 0.7, 0.6, 0.5]
    partition = BinaryPartition(Box(np.full(2, -1.0), np.ones(2)), 8)
    model = LowDimSynthesizer(2, synthesizer=PrivateMeasureMechanism(partition=partition, depth=8), epsilon=20).fit(X)
    assert model.synthesizer_.n_features_in_ == 2


def unit_box(d):
    return Box(np.zeros(d), np.ones(d))


def subspace_of(X, k, has_distance=False, **parameters):
    return Subspace(PrivatePCA(k, **{"epsilon": 100, **parameters}).fit(X), unit_box(X.shape[1]), has_distance)


@pytest.mark.parametrize("has_distance", [False, True])
def test_projection_is_the_same_row_by_row_and_in_any_batch(has_distance):
    """A fixed map of one row: whole numbers leave BLAS no room to round."""
    X = np.random.default_rng(0).random((700, 37))
    subspace = subspace_of(X, 3, has_distance)
    whole = subspace.project(X)
    rows = np.vstack([subspace.project(X[i : i + 1]) for i in range(len(X))])
    backwards = subspace.project(X[::-1])[::-1]
    assert np.array_equal(whole, rows)
    assert np.array_equal(whole, backwards)


def test_coordinates_are_those_of_transform_and_the_distance_of_what_it_leaves():
    X = np.random.default_rng(0).random((300, 6))
    subspace = subspace_of(X, 2, has_distance=True)
    T = subspace.project(X)
    expected = subspace.reducer.transform(X)
    assert np.allclose(T[:, :2], expected, atol=1e-4)
    assert np.allclose(T[:, 2], np.linalg.norm(X - subspace.reducer.inverse_transform(expected), axis=1), atol=1e-4)


def test_corners_of_the_box_attain_the_reach_of_each_direction():
    subspace = subspace_of(np.random.default_rng(0).random((50, 5)), 2, has_distance=True, epsilon=1)
    corners = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T.astype(float)
    low, high = subspace.reach
    T = subspace.project(corners)
    assert np.allclose(T[:, :2].min(axis=0), low[:2], atol=1e-3)
    assert np.allclose(T[:, :2].max(axis=0), high[:2], atol=1e-3)
    assert T[:, 2].max() <= high[2] <= 1.5 * T[:, 2].max()


@pytest.mark.parametrize("has_distance", [False, True])
def test_what_is_lifted_has_its_coordinates(has_distance):
    rng = np.random.default_rng(0)
    subspace = subspace_of(0.5 + 0.1 * (rng.random((300, 6)) - 0.5), 2, has_distance)
    T = np.column_stack([rng.uniform(-0.1, 0.1, (400, 2)), *([rng.uniform(0, 0.2, 400)] if has_distance else [])])
    X = subspace.lift(T, rng)
    assert np.allclose(subspace.project(X), T, atol=1e-4)


def test_distances_are_lifted_along_directions_of_the_released_covariance():
    """Beside one line, one of four directions has 25 times the variance of the others: a normal vector of that law, at unit length."""
    rng = np.random.default_rng(0)
    deviations = np.array([0.15, 0.05, 0.01, 0.01, 0.01])
    subspace = subspace_of(np.clip(0.5 + rng.normal(size=(20_000, 5)) * deviations, 0, 1), 1, has_distance=True, epsilon=float("inf"))
    X = subspace.lift(np.column_stack([np.zeros(5000), np.full(5000, 0.1)]), rng)
    drawn = rng.normal(size=(50_000, 4)) * deviations[1:]
    expected = ((drawn / np.linalg.norm(drawn, axis=1, keepdims=True)) ** 2).mean(axis=0)
    assert ((X - subspace.mean) ** 2).mean(axis=0) / 0.01 == pytest.approx(np.append(0, expected), abs=0.02)


def test_eigenvalues_that_noise_could_show_are_levelled():
    """Pure noise beside the subspace gives no direction more than another."""
    rng = np.random.default_rng(0)
    subspace = subspace_of(np.clip(0.5 + 0.2 * rng.normal(size=(100, 5)), 0, 1), 1, has_distance=True, epsilon=0.01)
    subspace.reducer.noise_edge_ = float("inf")
    deviations, others = subspace._beside
    assert np.ptp(deviations) == 0
    assert np.allclose(others @ subspace.axes.T, 0)


@pytest.mark.parametrize("width", [1e-40, 1.0, 1e40])
def test_any_width_of_bounds_serves(width):
    X = np.random.default_rng(0).random((200, 4)) * width
    reducer = PrivatePCA(2, epsilon=100, bounds=(0, width)).fit(X)
    subspace = Subspace(reducer, Box(np.zeros(4), np.full(4, width)), has_distance=True)
    T = subspace.project(X)
    assert np.isfinite(T).all()
    assert np.allclose(T[:, :2] / width, reducer.transform(X) / width, atol=1e-4)


@pytest.mark.parametrize(("d", "k"), [(3, 1), (4, 2), (6, 3), (30, 3), (12, 5)])
def test_cells_that_meet_the_image_of_the_box_are_all_kept(d, k):
    """Images of corners and of random rows lie in kept cells; of the others, some are dropped when the image leaves room."""
    rng = np.random.default_rng(0)
    subspace = subspace_of(rng.random((50, d)), k, epsilon=1)
    bounds = subspace.reach
    lattice = subspace.lattice(bounds, 500)
    assert 200 <= lattice.n_cells <= 500 or k == 5
    X = np.vstack([rng.random((2000, d)), rng.integers(0, 2, (2000, d))])
    T = np.clip(subspace.reducer.transform(X), *bounds)
    # A row in a kept cell is within half a side of its center; in another it is not.
    apart = np.abs(T - lattice.positions[lattice.locate(T)]) / lattice.sides
    assert apart.max() <= 0.5 + 1e-6
    assert np.ptp(lattice.sides) < 0.5 * lattice.sides.max()  # nearly cubes


def test_cells_outside_the_image_of_the_box_are_dropped_but_distances_are_cut_whatever_the_image():
    """The image of the unit square under a turn by 45 degrees fills half of its bounding box."""
    X = np.random.default_rng(0).random((50, 2))
    reducer = subspace_of(X, 2, center="public").reducer
    reducer.components_ = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    subspace = Subspace(reducer, unit_box(2))
    lattice = subspace.lattice(subspace.reach, 1000)
    assert 0.5 < lattice.n_cells / np.prod(lattice.shape) < 0.57
    ends = np.array([-0.5, 0.0]), np.array([0.5, 0.5])
    lattice = subspace_of(X, 1, has_distance=True, center="public").lattice(ends, 200)
    assert lattice.n_cells == np.prod(lattice.shape)


SPECTRUM = np.array([0.2, 0.15, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01])  # deviations


def of_spectrum(k, noise_edge=0.0):
    rng = np.random.default_rng(0)
    subspace = subspace_of(np.clip(0.5 + rng.normal(size=(2000, 10)) * SPECTRUM, 0, 1), k, epsilon=float("inf"))
    subspace.reducer.noise_edge_ = noise_edge
    return subspace


def test_directions_are_worth_their_cost_once_there_are_rows():
    subspace = of_spectrum(6)
    assert [n_directions(subspace, size) for size in (10, 1000, 1e6)] == [1, 3, 3]


@pytest.mark.parametrize(
    ("k", "noise_edge", "size", "is_worth"),
    [(1, 0.0, 1e4, True), (1, 0.0, 10, False), (3, 0.0, 1e4, False), (1, 1.0, 1e4, False), (10, 0.0, 1e6, False)],
)
def test_distances_are_worth_an_axis_where_they_are_wide_against_the_cells_and_no_noise(k, noise_edge, size, is_worth):
    assert needs_distance(of_spectrum(k, noise_edge), size) == is_worth


RELATIONS = ("replace_one", "add_or_remove_one")


def counts_of(T, grids):
    return counts_of_rows(Rows.of(T), grids)


def facts(n_samples, n_axes=1, neighboring="replace_one"):
    return Facts(1, Fraction(0), neighboring, n_samples, n_axes)


def chosen(t, deviation, *, reach=20.0, alarm=6.0, seed=0):
    """Interval of rows of deviation 1 on one axis, with Laplace noise of a deviation on the counts."""
    edges = range_edges(-reach, reach, 1.0)
    counts = counts_of(t[:, None], [edges]).counts + np.random.default_rng(seed).laplace(0, deviation / np.sqrt(2), len(edges) - 1)
    return choose_interval(counts, edges, (-3.0, 3.0), alarm * deviation, deviation, len(t))


@pytest.mark.parametrize("n_axes", [1, 2, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_row_moves_the_counts_by_what_is_said(relation, n_axes):
    """All rows on a small grid, and all pairs of them: the largest change is the one that is stated."""
    edges = np.array([-1.0, 0.0, 1.0])
    rows = np.array(list(itertools.product([-0.5, 0.5], repeat=n_axes)))
    counts = [counts_of(row[None], [edges] * n_axes).counts for row in rows]
    others = [np.zeros_like(counts[0])] if relation == "add_or_remove_one" else counts
    moved = [np.abs(a - b) for a in counts for b in others]
    sensitivity = counts_of(rows, [edges] * n_axes).query(relation).sensitivity
    assert sensitivity.l1 == max(m.sum() for m in moved)
    assert sensitivity.l2_squared == max((m**2).sum() for m in moved)
    assert sensitivity.sup == max(m.max() for m in moved)


def test_every_row_is_counted_once_on_each_axis():
    T = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    tables = counts_of(T, [range_edges(-1, 1, 0.1), range_edges(-1, 2, 0.5)]).tables()
    assert [table.sum() for table in tables] == [1000, 1000]
    assert np.array_equal(tables[0], np.histogram(T[:, 0], range_edges(-1, 1, 0.1))[0])


@given(low=st.floats(-1e3, 0.1), width=st.floats(0.2, 1e4), share=st.one_of(st.just(0.0), st.floats(1 / 300, 1)))
def test_a_grid_rises_from_end_to_end_and_knows_the_usual_range(low, width, share):
    reach = np.array([low]), np.array([low + width])
    scales = axis_scales(reach, np.array([(share * width) ** 2]))
    edges, (first, last) = range_edges(low, low + width, scales[0]), default_ranges(reach, scales)
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (low, low + width)
    assert first < last
    assert share == 0 or {float(first[0]), float(last[0])} <= set(edges.tolist())


@given(counts=st.lists(st.integers(-50, 200), min_size=25, max_size=25), deviation=st.floats(0, 50))
def test_any_counts_give_an_interval_among_the_edges(counts, deviation):
    edges = range_edges(-20, 20, 1)
    low, high = choose_interval(np.array(counts[: len(edges) - 1]), edges, (-3.0, 3.0), 6 * deviation, deviation, 1000)
    assert low < high
    assert {low, high} <= set(edges.tolist())


RANGES = [  # (law of the rows, deviation of the noise, where the low end is, where the high end is)
    (lambda rng: rng.standard_t(3, 5000).clip(-20, 20), 0.0, (-20, -13.26), (20, 20)),  # without noise: the least and the largest
    (lambda rng: rng.uniform(-(3**0.5), 3**0.5, 20_000), 40.0, (-2.2, -1.7), (1.7, 2.2)),  # room without rows, beyond 1.73, is cut
    (lambda rng: rng.exponential(1, 20_000) - 1, 20.0, (-1.6, -1), (3, 20)),
    (lambda rng: np.where(np.arange(20_000) % 100 == 0, 10.0, rng.uniform(-1, 1, 20_000)), 20.0, (-20, 0), (10, 20)),
    (lambda rng: (np.exp(rng.normal(size=100_000)) / 2).clip(0, 20), 30.0, (-1.5, 0), (6.62, 20)),  # 99.5 % lie below 6.62
]


@pytest.mark.parametrize(("law", "deviation", "lows", "highs"), RANGES)
def test_ranges_hold_the_rows_and_cut_room_without_rows(law, deviation, lows, highs):
    low, high = chosen(law(np.random.default_rng(0)), deviation)
    assert lows[0] <= low <= lows[1]
    assert highs[0] <= high <= highs[1]


@pytest.mark.parametrize("relation", RELATIONS)
def test_counts_are_bought_where_a_hundredth_of_the_rows_exceeds_their_noise(relation):
    changed = 2 if relation == "replace_one" else 1
    enough = int(100 * np.sqrt(2) * 3 * changed / 0.05) + 10  # deviation of Laplace noise of scale 3 * changed / .05
    assert range_noise(facts(enough, 3, relation), Fraction(1, 20)) is not None
    assert range_noise(facts(enough - 30, 3, relation), Fraction(1, 20)) is None
