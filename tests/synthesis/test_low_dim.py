"""Low-dimensional synthesis: its budget, its fixed map of rows, its box and its stories with scikit-learn."""

from fractions import Fraction

import numpy as np
import pytest

from skdpsynth import LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.synthesis._subspace import image, lattice_of_image, project

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


def line(n, d, seed=0, noise=0.005):
    rng = np.random.default_rng(seed)
    direction = rng.uniform(-1, 1, d)
    return np.clip(0.5 + 0.4 * rng.uniform(-1, 1, (n, 1)) * direction / np.abs(direction).max() + noise * rng.normal(size=(n, d)), 0, 1)


def test_the_budget_is_split_by_reducer_share():
    model = LowDimSynthesizer(2, reducer_share=0.3, epsilon=2).fit(line(500, 4))
    names = {entry.name: entry.loss.epsilon for entry in model.accountant_.ledger}
    assert names == {"PrivatePCA": Fraction(6, 10), "PrivateMeasureMechanism": Fraction(14, 10)}
    assert model.reducer_.accountant_.spent == Fraction(6, 10)
    assert model.synthesizer_.accountant_.spent == Fraction(14, 10)


def test_delta_goes_to_the_moments_only():
    model = LowDimSynthesizer(2, delta=1e-6).fit(line(500, 12))
    assert model.reducer_.accountant_.ledger[0].noise.startswith("DiscreteGaussian")
    assert all(entry.noise.startswith("DiscreteLaplace") for entry in model.synthesizer_.accountant_.ledger)
    assert model.accountant_.spent == 1


def test_as_many_components_as_columns_skip_the_reducer_and_its_cost():
    model = LowDimSynthesizer(3).fit(line(500, 3))
    assert model.reducer_ is None
    assert [entry.name for entry in model.accountant_.ledger] == ["PrivateMeasureMechanism"]
    assert model.synthesizer_.accountant_.spent == 1
    assert model.n_components_ == 3


def test_projection_is_the_same_row_by_row_and_in_any_batch():
    """A fixed map of one row: whole numbers leave BLAS no room to round."""
    X = np.random.default_rng(0).random((700, 37))
    box = Box(np.zeros(37), np.ones(37))
    reducer = PrivatePCA(3, epsilon=100).fit(X)
    bounds = image(reducer, box)
    whole = project(X, reducer, box, bounds)
    rows = np.vstack([project(X[i : i + 1], reducer, box, bounds) for i in range(len(X))])
    backwards = project(X[::-1], reducer, box, bounds)[::-1]
    assert np.array_equal(whole, rows)
    assert np.array_equal(whole, backwards)


def test_projection_agrees_with_transform_up_to_the_grid_and_the_clip():
    X = line(300, 6)
    box = Box(np.zeros(6), np.ones(6))
    reducer = PrivatePCA(2, epsilon=100).fit(X)
    low, high = image(reducer, box)
    expected = np.clip(reducer.transform(X), low, high)
    assert np.allclose(project(X, reducer, box, (low, high)), expected, atol=1e-4)


def test_each_direction_is_cut_to_what_the_box_reaches():
    """Vertices of the box project into the interval before the 3-deviation cut, and attain its ends."""
    X = np.random.default_rng(0).random((50, 5))
    box = Box(np.zeros(5), np.ones(5))
    reducer = PrivatePCA(2, epsilon=1).fit(X)
    reducer.explained_variance_ = np.full(2, 1e6)
    low, high = image(reducer, box)
    corners = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    projected = reducer.transform(corners)
    assert np.allclose(projected.min(axis=0), low)
    assert np.allclose(projected.max(axis=0), high)


@pytest.mark.parametrize("n_components", [1, 2, "auto"])
def test_it_beats_uniform_noise_on_a_line(n_components):
    X = line(5000, 10)
    model = LowDimSynthesizer(n_components).fit(X)
    uniform = np.random.default_rng(1).random((1000, 10))
    assert wasserstein_distance(X[:1000], model.sample(1000)) < 0.3 * wasserstein_distance(X[:1000], uniform)


def test_private_centre_wins_far_from_the_midpoint():
    """Data about 0.1, epsilon 5: W1 .039 (sd .0002) against .005 (.0013), so a false alarm needs 27 deviations."""
    X = np.clip(0.1 + 0.2 * (line(20_000, 8) - 0.5), 0, 1)
    public, private = (LowDimSynthesizer(1, center=c, epsilon=5).fit(X).score(X) for c in ("public", "private"))
    assert private > public


def test_any_unfitted_synthesizer_runs_inside():
    inner = PrivateMeasureMechanism("paper", depth=5, epsilon=99)
    model = LowDimSynthesizer(2, synthesizer=inner).fit(line(500, 4))
    assert model.synthesizer_.strategy == "paper"
    assert model.synthesizer_.depth == 5
    assert model.synthesizer_.accountant_.spent == Fraction(1, 2)
    assert inner.epsilon == 99
    assert not hasattr(inner, "measure_")


@pytest.mark.parametrize(("d", "k"), [(3, 1), (4, 2), (6, 3), (30, 3), (12, 5)])
def test_cells_that_meet_the_image_of_the_box_are_all_kept(d, k):
    """Images of corners and of random rows lie in kept cells; of the others, some are dropped when the image leaves room."""
    box, rng = Box(np.zeros(d), np.ones(d)), np.random.default_rng(0)
    reducer = PrivatePCA(k, epsilon=1).fit(rng.random((50, d)))
    reducer.explained_variance_ = np.full(k, 1e6)  # no cut at three deviations
    bounds = image(reducer, box)
    lattice = lattice_of_image(reducer, box, bounds, 500)
    assert 200 <= lattice.n_cells <= 500 or k == 5
    X = np.vstack([rng.random((2000, d)), rng.integers(0, 2, (2000, d))])
    T = np.clip(reducer.transform(X), *bounds)
    # A row in a kept cell is within half a side of its centre; in another it is not.
    apart = np.abs(T - lattice.positions[lattice.locate(T)]) / lattice.sides
    assert apart.max() <= 0.5 + 1e-6
    assert np.ptp(lattice.sides) < 0.5 * lattice.sides.max()  # nearly cubes


def test_cells_outside_the_image_of_the_box_are_dropped():
    """The image of the unit square under a turn by 45 degrees fills half of its bounding box."""
    box, turn = Box([0, 0], [1, 1]), np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    reducer = PrivatePCA(2, center="public").fit(np.random.default_rng(0).random((50, 2)))
    reducer.components_, reducer.explained_variance_ = turn, np.full(2, 1e6)
    lattice = lattice_of_image(reducer, box, image(reducer, box), 1000)
    assert 0.5 < lattice.n_cells / np.prod(lattice.shape) < 0.57


@pytest.mark.parametrize("synthesizer", ["psmm", SignedMeasureMechanism(30, metric="euclidean")])
def test_signed_measure_runs_inside(synthesizer):
    model = LowDimSynthesizer(2, synthesizer=synthesizer, epsilon=4).fit(line(500, 5))
    assert isinstance(model.synthesizer_, SignedMeasureMechanism)
    assert model.synthesizer_.solution_.status == "optimal"
    assert model.accountant_.spent == 4
    if synthesizer != "psmm":
        assert model.synthesizer_.measure_.partition.n_cells <= 30
        assert synthesizer.cells is None


@pytest.mark.parametrize(("k", "n", "expected"), [(2, 100, "pmm"), (3, 100, "psmm"), (4, 800, "psmm"), (3, 5000, "pmm"), (4, 5000, "pmm")])
def test_auto_takes_the_signed_measure_where_it_was_measured_to_be_better(k, n, expected):
    model = LowDimSynthesizer(k, epsilon=2).fit(line(n, 6))
    kind = {"pmm": PrivateMeasureMechanism, "psmm": SignedMeasureMechanism}[expected]
    assert isinstance(model.synthesizer_, kind)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("synthesizer", SignedMeasureMechanism(cells=np.zeros((1, 2))), "must have cells=None"),
        ("synthesizer", "psmm2", "synthesizer must be one of"),
        ("synthesizer", PrivatePCA(), "PrivatePCA lacks sample"),
        ("synthesizer", PrivateMeasureMechanism, "give an instance"),
        ("synthesizer", PrivateMeasureMechanism(accountant=PrivacyAccountant(1)), "accountant=None"),
        ("synthesizer", 3, "unfitted synthesizer"),
        ("reducer_share", 0, "reducer_share must be"),
        ("reducer_share", 1.0, "reducer_share must be"),
        ("center", "mean", "center must be one of"),
        ("neighboring", "add_or_remove_one", 'supports neighboring="replace_one" only'),
    ],
)
def test_bad_parameters_are_refused_before_any_budget_is_spent(parameter, value, message):
    shared = PrivacyAccountant(1, neighboring=value if parameter == "neighboring" else "replace_one")
    with pytest.raises(ValueError, match=message):
        LowDimSynthesizer(accountant=shared).set_params(**{parameter: value}).fit(line(50, 4))
    assert shared.spent == 0


def test_an_inner_synthesizer_that_refuses_its_parameters_does_so_before_any_budget_is_spent():
    shared = PrivacyAccountant(1)
    inner = PrivateMeasureMechanism(depth=-1)
    with pytest.raises(ValueError, match="depth must be"):
        LowDimSynthesizer(2, synthesizer=inner, accountant=shared).fit(line(50, 4))
    assert shared.spent == 0


@pytest.mark.parametrize("synthesizer", ["pmm", "psmm", "auto"])
def test_a_share_too_small_for_the_second_step_is_refused_before_the_first(synthesizer):
    shared = PrivacyAccountant(1)
    with pytest.raises(ValueError, match="epsilon must be at least 1e-9"):
        LowDimSynthesizer(2, synthesizer=synthesizer, reducer_share=1 - 1e-10, accountant=shared).fit(line(300, 4))
    assert shared.spent == 0
