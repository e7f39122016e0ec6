"""Low-dimensional synthesis: its budget, its fixed map of rows, its box and its stories with scikit-learn."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from internals import _signed_is_no_worse

from skdpsynth import LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.fitting import Facts
from skdpsynth.measures import BinaryPartition
from skdpsynth.metrics import wasserstein_distance

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


def spent(model):
    return {entry.name: entry.loss.epsilon for entry in model.accountant_.ledger}


def test_ranges_get_a_tenth_of_what_the_reducer_leaves():
    model = LowDimSynthesizer(1, reducer_share=0.4, epsilon=5).fit(line(5000, 4))
    assert spent(model) == {"PrivatePCA": 2, "ranges": Fraction(3, 10), "PrivateMeasureMechanism": Fraction(27, 10)}
    assert model.accountant_.spent == 5


def test_rows_lie_within_ranges_that_were_released():
    """A line of .8 times its largest entry, whose ends lie at 1.7 deviations: three would be nearly twice as far."""
    X = line(20_000, 4)
    model = LowDimSynthesizer(1, epsilon=5, random_state=0).fit(X)
    (low,), (high,) = model.synthesizer_.bounds
    t = model.reducer_.transform(X)
    deviation = np.sqrt(model.reducer_.explained_variance_[0])
    assert low <= np.quantile(t, 0.01) < np.quantile(t, 0.99) <= high
    assert high - low < 5 * deviation


@pytest.mark.parametrize("parameters", [{}, {"n_components": 2}, {"n_components": 4}, {"synthesizer": "psmm"}, {"delta": 1e-6}])
def test_the_number_of_rows_is_bought_once_where_it_is_private(parameters):
    model = LowDimSynthesizer(**parameters, epsilon=2, neighboring="add_or_remove_one").fit(line(3000, 4))
    names = [entry.name for entry, _ in model.accountant_.lines()]
    assert names.count("number of rows") == 1
    assert model.accountant_.ledger[0].loss.epsilon == Fraction(1, 10)
    assert 2 * (1 - 1e-6) < model.accountant_.spent <= 2


@pytest.mark.parametrize("synthesizer", ["pmm", "psmm"])
def test_a_private_number_of_rows_is_shown_with_its_noise_only(synthesizer):
    X = line(300, 4)
    models = [LowDimSynthesizer(1, synthesizer=synthesizer, neighboring="add_or_remove_one").fit(X) for _ in range(8)]
    for shown in (lambda m: m.n_samples_, lambda m: m.reducer_.n_samples_, lambda m: m.synthesizer_.n_samples_, lambda m: len(m.sample())):
        assert len({shown(model) for model in models}) > 1


@pytest.mark.parametrize("parameters", [{}, {"n_components": 2, "synthesizer": "psmm"}, {"center": "private"}, {"delta": 1e-6}])
def test_an_empty_table_fits_where_the_number_of_rows_is_private(parameters):
    model = LowDimSynthesizer(**parameters, neighboring="add_or_remove_one").fit(np.zeros((0, 4)))
    assert model.sample(5).shape == (5, 4)


def test_rows_far_from_the_subspace_come_back_as_far():
    """Along a line, with a spread beside it that is wide against its cells: the mean square of each column is kept."""
    X = line(30_000, 20, noise=0.08)
    model = LowDimSynthesizer(1, epsilon=5).fit(X)
    assert model.synthesizer_.n_features_in_ == 2
    assert model.n_components_ == 1
    assert model.sample().var(axis=0).sum() == pytest.approx(X.var(axis=0).sum(), rel=0.05)


def test_a_public_point_may_be_the_centre():
    X = np.clip(0.1 + 0.2 * (line(3000, 8) - 0.5), 0, 1)
    model = LowDimSynthesizer(1, center=np.full(8, 0.1), epsilon=5).fit(X)
    assert np.allclose(model.reducer_.mean_, 0.1, atol=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_auto_finds_the_number_of_directions(seed):
    """Six clusters in three directions of twenty columns; of 40 fits with fresh noise none missed. These are seeded."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(3, 20))
    factors = np.clip(rng.uniform(-0.8, 0.8, (6, 3))[rng.integers(0, 6, 10_000)] + 0.15 * rng.normal(size=(10_000, 3)), -1, 1)
    X = np.clip(0.5 + 0.5 * factors @ (loadings / np.abs(loadings).sum(axis=0)) + 0.01 * rng.normal(size=(10_000, 20)), 0, 1)
    assert LowDimSynthesizer(random_state=seed).fit(X).n_components_ == 3


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


@pytest.mark.parametrize("synthesizer", ["psmm", SignedMeasureMechanism(30, metric="euclidean")])
def test_signed_measure_runs_inside(synthesizer):
    model = LowDimSynthesizer(2, synthesizer=synthesizer, epsilon=4).fit(line(500, 5))
    assert isinstance(model.synthesizer_, SignedMeasureMechanism)
    assert model.synthesizer_.solution_.status == "optimal"
    assert model.accountant_.spent == 4
    if synthesizer != "psmm":
        assert model.synthesizer_.measure_.partition.n_cells <= 30
        assert synthesizer.cells is None


def test_auto_takes_psmm_where_the_class_says_that_it_was_no_worse_within_the_errors():
    text = " ".join(LowDimSynthesizer.__doc__.split())
    sizes, error = (100, 300, 1000, 3000, 10_000), 0.05
    ratios = {int(d): list(map(float, told.split(","))) for d, told in re.findall(r"d' = (\d): (\d\.\d\d(?:, \d\.\d\d)*)", text)}
    assert {d: len(each) for d, each in ratios.items()} == {2: 5, 3: 5, 4: 5, 5: 5}
    facts = Facts(1.0, 0.0, "replace_one", None, 0)
    cells = [(d, m, ratio) for d in ratios for m, ratio in zip(sizes, ratios[d], strict=True)]
    taken = [cell for cell in cells if _signed_is_no_worse(replace(facts, n_features=cell[0], n_samples=cell[1]))]
    assert all(ratio <= 1 + error for *_, ratio in taken)
    # The cells that were not closer are told as such.
    assert [(d, m, ratio) for d, m, ratio in taken if ratio >= 1] == [(3, 300, 1.00), (3, 1000, 1.03)]
    assert "on three axes it was as close at m = 300, and 3 % farther at 1000" in text


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
        ("center", [2.0, 0, 0, 0], "within bounds"),
    ],
)
def test_bad_parameters_are_refused_before_any_budget_is_spent(parameter, value, message):
    shared = PrivacyAccountant(1)
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
