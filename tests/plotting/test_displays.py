"""Laws of all pictures: what they leave behind and read, and that what is drawn are the numbers that were computed."""

import copy
import re
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from laws import refuses

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.auditing import AuditResult, privacy_evidence
from skdpsynth.domain import Boolean, Box, Continuous, Date, DateTime, Ordinal, Schema, Text
from skdpsynth.measures import BinaryPartition, DiscreteMeasure
from skdpsynth.metrics import captured_variance_ratio, correlation_error
from skdpsynth.model_selection import plan
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.plotting import (
    AuditDisplay,
    BudgetDisplay,
    EvidenceDisplay,
    MeasureDisplay,
    PlanDisplay,
    PrivatePCADisplay,
    StreamDisplay,
    SynthesisDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

X = np.random.default_rng(0).beta(2, 5, size=(2000, 2))
SCHEMA = {0: (0.0, 1.0), 1: (0, 9), 2: ["a", "b", "c"], 3: Date("2024-01-01", "2024-12-31", nullable=True), 4: Ordinal(["no", "yes"])}


def table(n):
    rng = np.random.default_rng(n)
    days = [None if day < 20 else str(np.datetime64("2024-01-01") + day) for day in rng.integers(0, 366, n).tolist()]
    columns = [rng.random(n).tolist(), rng.integers(0, 10, n).tolist(), rng.choice(list("abc"), n).tolist(), days]
    return np.array([*columns, rng.choice(["no", "yes"], n).tolist()], dtype=object).T


def spent():
    budget = PrivacyAccountant(2.0, 1e-6)
    for epsilon in (0.5, 0.25):
        PrivateMeasureMechanism(epsilon=epsilon, accountant=budget).fit(X)
    return budget


AUDIT = AuditResult(0.95, 0.1, 1.0, 0.0, None, 0.99, "by event", 1000, 500, 400, 280, 260, 500)
AUDITS = {
    "one pass": AUDIT,
    "Gaussian": replace(AUDIT, mu=0.5, mu_lower=0.42),
    "half of the noise": replace(AUDIT, epsilon_lower=1.6),
    "too few runs": replace(AUDIT, epsilon_lower=2.0, epsilon=8.0),
}
MADE = {  # what pictures show, made when a test first wants it
    "pcas": lambda: [PrivatePCA(2, epsilon=epsilon, random_state=seed).fit(X) for epsilon in (0.5, 1, 2) for seed in (0, 1)],
    "one": lambda: PrivateMeasureMechanism(random_state=0).fit(X),
    "signed": lambda: SignedMeasureMechanism(64, random_state=0).fit(X),
    "line": lambda: SignedMeasureMechanism(32, random_state=0).fit(X[:, :1]),
    "atoms": lambda: SignedMeasureMechanism(cells=np.random.default_rng(1).random((40, 2)), metric="euclidean", random_state=0).fit(X),
    "stream": lambda: OnlineSynthesizer(random_state=0).partial_fit(X),
    "plan": lambda: plan(PrivateMeasureMechanism(), n_samples=500, n_features=1, epsilons=[0.1, 1], n_repeats=2, random_state=0),
    "evidence": lambda: privacy_evidence(*np.random.default_rng(9).random((3, 100, 2))),
    "samples": lambda: SynthesisDisplay.from_samples(table(300), SCHEMA),
    "beside": lambda: SynthesisDisplay.from_samples(table(300), SCHEMA, table(200)),
}


@cache
def made(name):
    return MADE[name]()


def curves():
    return StreamDisplay.from_curves([1, 10], {"ours": [[1, 0.5], [2, 0.1]], "theirs": [1, 1]})


KINDS = ("marginals", "pairs", "correlations")
PICTURES = {
    **{f"{name}, {kind}": (lambda name=name: made(name), {"kind": kind}) for name in ("samples", "beside") for kind in KINDS},
    "measure": (lambda: MeasureDisplay.from_estimator(made("one")), {}),
    "measure on a line": (lambda: MeasureDisplay.from_estimator(made("one"), features=1), {}),
    "signed": (lambda: MeasureDisplay.from_estimator(made("signed")), {}),
    "signed on a line": (lambda: MeasureDisplay.from_estimator(made("line")), {}),
    "atoms": (lambda: MeasureDisplay.from_estimator(made("atoms")), {}),
    "scree": (lambda: PrivatePCADisplay.from_estimator(made("pcas")[0]), {}),
    "loadings of one": (lambda: PrivatePCADisplay.from_estimator(made("pcas")[0]), {"kind": "loadings"}),
    "captured": (lambda: PrivatePCADisplay.from_estimators(made("pcas"), X), {}),
    "loadings": (lambda: PrivatePCADisplay.from_estimators(made("pcas")), {}),
    "stream": (lambda: StreamDisplay.from_estimator(made("stream"), random_state=0), {}),
    "curves": (curves, {"scale": "log", "ylabel": "W1"}),
    "budget": (lambda: BudgetDisplay.from_accountant(spent()), {}),
    "audit": (lambda: AuditDisplay.from_results(AUDITS), {}),
    "evidence": (lambda: EvidenceDisplay.from_evidence(made("evidence")), {}),
    "plan": (lambda: PlanDisplay.from_plan(made("plan")), {}),
}
every = pytest.mark.parametrize("name", PICTURES)


@cache
def picture(name):
    """Return (display, options)."""
    make, options = PICTURES[name]
    return make(), options


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@every
def test_a_plot_names_what_it_shows_has_no_bar_on_a_logarithmic_scale_and_says_whether_it_is_private(name):
    """The length of a bar says nothing on a logarithmic scale; only pictures of real rows are not private."""
    display, options = picture(name)
    assert display.plot(**options) is display
    assert display.ax_.figure is display.figure_
    assert all(ax.figure is display.figure_ for ax in display.axes_.flat)
    shown = [ax for ax in display.axes_.flat if ax.axison]
    words = [ax.get_xlabel() or ax.get_ylabel() or ax.get_title() or ax.get_title("left") or len(ax.get_xticklabels()) for ax in shown]
    # In a matrix of pairs the panels of the edges name those within.
    assert all(words) or options.get("kind") == "pairs"
    assert any(ax.get_xlabel() or ax.get_ylabel() for ax in display.figure_.axes)
    for ax in display.axes_.flat:
        bars = [patch for patch in ax.patches if isinstance(patch, plt.Rectangle | plt.matplotlib.patches.StepPatch)]
        assert not bars or (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    written = [text.get_text() for text in display.figure_.findobj(lambda artist: hasattr(artist, "get_text"))]
    told = [text for text in written if "ot private" in text]
    assert bool(told) == (name.startswith("beside") or name in ("evidence", "captured"))
    assert not name.startswith("beside") or told[0].startswith("Not private")  # where a title may follow


@every
def test_plot_draws_where_it_is_told_and_opens_no_other_figure(name):
    display, options = picture(name)
    figure, (_, ax) = plt.subplots(1, 2)
    assert display.plot(ax, **options).figure_ is figure
    assert display.ax_ is ax
    assert plt.get_fignums() == [figure.number]


@every
def test_svg_is_one_small_element_that_loads_nothing_and_leaves_no_figure_open_and_the_display_as_it_was(name):
    display, options = picture(name)
    before, drawn = plt.get_fignums(), copy.copy(vars(display))
    svg = display.to_svg(**options)
    assert (plt.get_fignums(), vars(display).keys()) == (before, drawn.keys())
    assert all(vars(display)[name] is value for name, value in drawn.items())
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert len(svg.encode()) < 80_000
    assert "<script" not in svg
    assert all(link.startswith(("#", "data:")) for link in re.findall(r'href="([^"]*)"', svg))
    assert re.search(r"<text[^>]*>[^<]", svg), "letters are text"


MODELS = {
    "measure": (MeasureDisplay.from_estimator, lambda: made("one")),
    "signed": (MeasureDisplay.from_estimator, lambda: made("signed")),
    "atoms": (MeasureDisplay.from_estimator, lambda: made("atoms")),
    "scree": (PrivatePCADisplay.from_estimator, lambda: made("pcas")[0]),
    "of a subspace": (PrivatePCADisplay.from_estimator, lambda: LowDimSynthesizer(1, random_state=0).fit(X)),
    "in a subspace": (MeasureDisplay.from_estimator, lambda: LowDimSynthesizer(2, random_state=0).fit(X)),
    "stream": (lambda model: StreamDisplay.from_estimator(model, random_state=0), lambda: made("stream")),
    "budget": (lambda model: BudgetDisplay.from_accountant(model.accountant_), lambda: made("one")),
}


@pytest.mark.parametrize(("display_of", "model"), MODELS.values(), ids=MODELS)
def test_a_picture_needs_no_more_than_what_was_released_and_is_the_same_to_the_last_letter(display_of, model):
    """A file of a fitted model holds no rows but those of an open block."""
    model = model()
    assert display_of(from_bytes(to_bytes(model))).to_svg() == display_of(model).to_svg()


def test_a_public_picture_of_a_table_never_reads_the_real_one():
    """A canary level, which no synthetic row has, is in no picture."""
    model = LatentFactorSynthesizer({0: ["a", "b", "canary"], 1: (0, 9)}, random_state=0)
    rows = np.array([["ab"[i % 2], i % 10] for i in range(500)] + [["a", 3]], dtype=object)
    synthetic = model.fit(rows).sample(200)
    synthetic = synthetic[synthetic[:, 0] != "canary"]
    display = SynthesisDisplay.from_samples(synthetic)
    assert "canary" not in "".join(display.to_svg(kind=kind) for kind in ("marginals", "pairs", "correlations"))


@pytest.mark.parametrize("days", [1.7, 45, 600, 720])
def test_no_span_of_time_is_warned_about(days):
    pa = pytest.importorskip("pyarrow")
    start = np.datetime64("2023-01-01", "s")
    span = (str(start), str(start + np.timedelta64(int(days * 86400), "s")))
    times = start + (np.linspace(0, 1, 50) * days * 86400).astype("timedelta64[s]")
    schema = Schema({"t": DateTime(*span), "x": (0.0, 1.0)})
    rows = pa.table({"t": times, "x": np.linspace(0, 1, 50)})
    display = SynthesisDisplay.from_samples(rows, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display.to_svg(kind="marginals")
        display.to_svg(kind="pairs")


X3 = np.random.default_rng(0).beta(2, 5, size=(2000, 3))


ROWS = np.array([["a", 1.0], ["a", 2.0], ["b", 2.0], [None, 3.0]], dtype=object)
FEW_COLUMNS = {0: ["a", "b", "c"], 1: Continuous(0, 9, nullable=True)}


def test_bars_and_steps_are_as_long_as_the_shares_of_each_table_with_missing_cells_apart():
    real = np.array([["a", 1.0], ["b", 1.0]], dtype=object)
    display = SynthesisDisplay.from_samples(ROWS, FEW_COLUMNS, real).plot()
    assert display.columns[0].levels == ("a", "b", "c")
    np.testing.assert_allclose(display.columns[0].missing, [0.25, 0.0])
    steps = [patch.get_data() for patch in display.axes_.flat[1].patches]
    np.testing.assert_allclose(steps[0].edges, [0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose([step.values for step in steps], [[0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    display = SynthesisDisplay.from_samples(ROWS, FEW_COLUMNS)
    np.testing.assert_allclose([bar.get_width() for bar in display.plot().axes_.flat[0].patches], [0.5, 0.25, 0.0, 0.25])
    assert [ax.get_title("left") for ax in display.plot(columns=[1, 0]).axes_.flat] == ["1", "0"]


def test_every_row_is_in_a_bin_whatever_the_range_and_dates_are_drawn_as_dates():
    for high in (1, 31, 32, 33, 12345):
        column = SynthesisDisplay.from_samples(np.array([[0], [high // 3], [high]]), {0: (0, 20_000)}).columns[0]
        assert column.edges[0] <= 0 <= high <= column.edges[-1]
        assert column.shares.sum() == pytest.approx(1)
    days = np.array([["2024-03-01"], ["2024-03-02"], ["2024-03-02"], ["2024-03-05"]], dtype=object)
    column = SynthesisDisplay.from_samples(days, {0: Date("2024-01-01", "2024-12-31")}).columns[0]
    assert column.edges[0] == np.datetime64("2024-02-29T12:00")
    np.testing.assert_allclose(column.shares, [[0.25, 0.5, 0.0, 0.0, 0.25]])


@pytest.mark.parametrize("kind", [list, Ordinal])
def test_of_many_levels_the_synthetic_rows_decide_which_have_a_bar(kind):
    levels = [f"l{i:02}" for i in range(40)]
    synthetic = np.array([[level] for i, level in enumerate(levels[:15]) for _ in range(i + 1)], dtype=object)
    real = np.array([["l39"]] * 1000, dtype=object)
    alone = SynthesisDisplay.from_samples(synthetic, {0: kind(levels)}).columns[0]
    beside = SynthesisDisplay.from_samples(synthetic, {0: kind(levels)}, real).columns[0]
    assert alone.levels == beside.levels
    assert "l39" not in beside.levels
    assert (beside.shares[1][-1], alone.shares.sum()) == (1.0, pytest.approx(1))


def test_pairs_are_the_columns_that_depend_most_on_each_other_by_the_associations_of_the_metric():
    rows, other = (np.random.default_rng(seed).random((500, 7)) for seed in (0, 1))
    rows[:, 5], schema = rows[:, 1], dict.fromkeys(range(7), (0, 1.0))
    display = SynthesisDisplay.from_samples(rows, schema, other)
    assert (1, 5) in display.pairs
    np.testing.assert_allclose(display.pairs[1, 5].sum(axis=(1, 2)), 1)
    first, second = display.associations
    assert np.abs(first - second)[np.triu_indices(7, 1)].mean() == pytest.approx(correlation_error(rows, other, schema))


def test_a_sample_without_a_schema_is_described_by_itself():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"n": [1, 5, 5], "x": [0.5, np.nan, 0.5], "s": ["u", "v", None], "only": ["k"] * 3, "t": pd.to_datetime(["2024-01-01"] * 3)}
    )
    columns = {each.name: each for each in SynthesisDisplay.from_samples(frame).columns}
    assert (list(columns), columns["s"].levels) == (["n", "x", "s", "only", "t"], ("u", "v"))
    assert SynthesisDisplay.from_samples(frame[["s"]], {"s": Boolean(words=["v", "u"], nullable=True)}).columns[0].levels == ("v", "u")
    assert columns["only"].shares[0][0] == 1.0
    assert columns["x"].missing[0] == columns["s"].missing[0] == pytest.approx(1 / 3)


def test_steps_of_a_measure_hold_its_mass():
    model = PrivateMeasureMechanism(random_state=0).fit(X3[:, :1])
    display = MeasureDisplay.from_estimator(model).plot()
    steps = display.ax_.patches[0].get_data()
    assert (steps.values * np.diff(steps.edges)).sum() == pytest.approx(1)
    a, b = 0.2, 0.4
    drawn = np.interp([a, b], steps.edges, np.concatenate([[0], np.cumsum(steps.values * np.diff(steps.edges))]))
    sample = model.sample(200_000, random_state=0)
    assert np.diff(drawn)[0] == pytest.approx(np.mean((sample >= a) & (sample < b)), abs=0.01)


def test_whole_numbers_have_a_step_each_as_often_as_in_samples():
    ages = np.random.default_rng(0).integers(18, 90, (3000, 1))
    model = PrivateMeasureMechanism(bounds=(18, 99), random_state=0).fit(ages)
    steps = MeasureDisplay.from_estimator(model).plot().ax_.patches[0].get_data()
    drawn = np.bincount(model.sample(400_000, random_state=0).ravel().astype(int), minlength=100)[18:] / 400_000
    np.testing.assert_allclose(steps.edges[:-1] + 0.5, np.arange(18, 100))
    np.testing.assert_allclose(steps.values, drawn, atol=0.004)


@pytest.mark.parametrize("n", [100, 2000])
def test_cells_are_drawn_with_their_density(n):
    model = PrivateMeasureMechanism(random_state=0).fit(X3[:n, :2])
    display = MeasureDisplay.from_estimator(model)
    area = np.prod(display.high - display.low, axis=1)
    np.testing.assert_allclose(np.asarray(display.plot().ax_.collections[0].get_array()), display.weights / area)
    np.testing.assert_array_equal(display.weights, model.measure_.weights)


def test_cells_are_where_the_partition_finds_rows():
    box = Box([0, -1], [2, 1])
    partition = BinaryPartition(box, 5)
    rows = np.random.default_rng(0).uniform([0, -1], [2, 1], (200, 2))
    cells, place, counts = np.unique(partition.locate(rows), return_inverse=True, return_counts=True)
    model = PrivateMeasureMechanism(random_state=0).fit(X3[:, :2])
    model.measure_ = DiscreteMeasure.from_mass(partition, cells, np.full(len(cells), 5), counts)
    display = MeasureDisplay.from_estimator(model)
    assert ((display.low[place] <= rows) & (rows <= display.high[place])).all()


def test_a_measure_of_many_columns_is_summed_over_the_others():
    model = PrivateMeasureMechanism(random_state=0).fit(X3)
    display = MeasureDisplay.from_estimator(model, features=[2, 0])
    grid = np.asarray(display.plot().ax_.collections[0].get_array()).reshape(128, 128)  # rows go up, along column 0
    assert grid.sum() / grid.size == pytest.approx(1)
    sample = model.sample(100_000, random_state=0)
    assert grid[:, :64].sum() / grid.size == pytest.approx(np.mean(sample[:, 2] < 0.5), abs=0.01)


@pytest.mark.parametrize("cells", [None, "points"])
def test_a_signed_measure_stands_beside_the_nearest_at_one_scale(cells):
    points = np.random.default_rng(0).random((30, 2)) if cells else None
    model = SignedMeasureMechanism("auto" if cells else 49, cells=points, random_state=0).fit(X3[:300, :2])
    left, right = (ax.collections[0] for ax in MeasureDisplay.from_estimator(model).plot().axes_.flat)
    assert left.get_clim() == right.get_clim()
    assert left.get_clim()[0] == -left.get_clim()[1] < 0 > left.get_array().min()


def test_signed_measure_is_what_was_released_is_saved_and_is_the_measure_without_noise():
    model = SignedMeasureMechanism(49, random_state=0).fit(X3[:300, :2])
    signed = model.signed_measure_
    assert (signed.shape, signed.sum()) == ((model.measure_.partition.n_cells,), pytest.approx(1))
    np.testing.assert_allclose(signed * 300, np.rint(signed * 300))
    assert signed.min() < 0 < model.solution_.value
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).signed_measure_, signed)
    model = SignedMeasureMechanism(49, epsilon=float("inf")).fit(X3[:300, :2])
    np.testing.assert_allclose(model.signed_measure_[model.measure_.cells], model.measure_.weights)


def test_scree_shows_the_eigenvalues_and_the_noise_edge():
    pca = PrivatePCA(2, random_state=0).fit(X3)
    display = PrivatePCADisplay.from_estimator(pca)
    np.testing.assert_allclose(display.variances[:2].clip(0), pca.explained_variance_)
    kept = [line for line in display.plot().ax_.lines if line.get_label() == "kept: 2"]
    np.testing.assert_allclose(kept[0].get_ydata(), display.variances[:2])
    edges = [line for line in display.ax_.lines if line.get_linestyle() == "--"]
    assert edges[0].get_ydata()[0] == pca.noise_edge_


def test_a_path_shows_mean_and_range_and_the_metric():
    pcas = [PrivatePCA(1, epsilon=epsilon, random_state=seed).fit(X3) for epsilon in (2, 0.5) for seed in range(3)]
    display = PrivatePCADisplay.from_estimators(pcas, X3)
    np.testing.assert_array_equal(display.epsilons, [0.5] * 3 + [2] * 3)
    expected = [captured_variance_ratio(X3, pca.components_) for pca in [*pcas[3:], *pcas[:3]]]
    np.testing.assert_allclose(display.captured, expected)
    np.testing.assert_allclose(display.plot().ax_.lines[0].get_ydata(), [np.mean(expected[:3]), np.mean(expected[3:])])


def test_signs_of_components_follow_the_fit_that_noise_moved_least():
    pcas = [PrivatePCA(2, epsilon=float(epsilon), random_state=0).fit(X3) for epsilon in (1, 3, 10)]
    straight = PrivatePCADisplay.from_estimators(pcas).loadings
    pcas[0].components_ = -pcas[0].components_
    np.testing.assert_array_equal(PrivatePCADisplay.from_estimators(pcas).loadings, straight)
    assert ((straight * straight[-1]).sum(axis=2) >= 0).all()


PMM, PCA = PrivateMeasureMechanism(), PrivatePCA(1)
REFUSED = {
    "no row": (lambda: SynthesisDisplay.from_samples(ROWS[:0], FEW_COLUMNS), "at least one row"),
    "no such column": (lambda: SynthesisDisplay.from_samples(ROWS, FEW_COLUMNS).plot(columns=["z"]), "columns must be names"),
    "text": (lambda: SynthesisDisplay.from_samples(ROWS[:, :1], {0: Text()}), "left out"),
    "no measure": (lambda: MeasureDisplay.from_estimator(OnlineSynthesizer("paper").partial_fit(X3)), "SynthesisDisplay"),
    "no blocks": (lambda: StreamDisplay.from_estimator(OnlineSynthesizer("paper").partial_fit(X3)), "from_curves"),
    "open block": (lambda: StreamDisplay.from_estimator(OnlineSynthesizer(epsilon=0.001).partial_fit(X3[:5])), "still open"),
    "too few times": (lambda: StreamDisplay.from_curves([1, 2], {"error": [1.0]}), "a value for each of 2 times"),
    "not signed": (lambda: MeasureDisplay.from_estimator(PMM.fit(X3)).plot(kind="both"), "signed"),
    "three features": (lambda: MeasureDisplay.from_estimator(PMM.fit(X3), features=[0, 1, 2]), "features must be"),
    "captured by one": (lambda: PrivatePCADisplay.from_estimator(PCA.fit(X3)).plot(kind="captured"), "from_estimators"),
    "scree of several": (lambda: PrivatePCADisplay.from_estimators([PCA.fit(X3)]).plot(kind="scree"), "from_estimator"),
    "no components": (
        lambda: PrivatePCADisplay.from_estimator(PMM.fit(X3)),
        r"^estimator must be fitted PrivatePCA, .* got PrivateMeasure",
    ),
    "some without components": (lambda: PrivatePCADisplay.from_estimators([PMM.fit(X3)]), r"^estimators must be"),
    "no estimator": (lambda: PrivatePCADisplay.from_estimators([]), "at least one"),
    "unlike estimators": (lambda: PrivatePCADisplay.from_estimators([PCA.fit(X3), PrivatePCA(2).fit(X3)]), "equally many"),
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(call, words):
    refuses((TypeError, ValueError), words, call)


def test_bars_of_a_budget_join_up_to_what_was_spent_and_what_remains():
    budget = PrivacyAccountant(2.0)
    for name, epsilon in (("counts", 0.5), ("means", 0.25), ("counts", 0.5)):
        budget.spend(epsilon, name=name)
    display = BudgetDisplay.from_accountant(budget)
    assert dict(zip(display.names, display.epsilons, strict=True)) == {"counts (2 times)": 1.0, "means": 0.25}
    bars = display.plot().ax_.patches
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0.0, 1.0), (1.0, 0.25), (1.25, 0.75)]


def test_parts_of_a_group_are_one_line_where_they_are_many_and_their_charges_add_up():
    few, many = PrivacyAccountant(2.0, 1e-6), PrivacyAccountant(2.0)
    few.child(0.5, name="a", group="halves")
    few.child(0.75, name="b", group="halves")
    for part in range(20):
        many.child(0.5, name=f"block {part}", group="blocks")
    assert sum(epsilon for _, epsilon, _ in few.charges()) == few.spent
    displays = [BudgetDisplay.from_accountant(budget) for budget in (few, many)]
    assert (displays[0].epsilons, displays[1].names, displays[1].epsilons) == ((0.5, 0.25), ("blocks (20 parts)",), (0.5,))
    free = PrivateMeasureMechanism(epsilon=float("inf")).fit(X3)
    assert "not private" in BudgetDisplay.from_accountant(free.accountant_).plot().ax_.texts[0].get_text()


def test_many_charges_are_joined_but_none_is_lost():
    budget = PrivacyAccountant(10.0)
    for i in range(40):
        budget.spend(0.1 + 0.001 * i, name=f"query {i}")
    bars = BudgetDisplay.from_accountant(budget).plot().ax_.patches
    assert (len(bars), sum(bar.get_width() for bar in bars[:-1])) == (13, pytest.approx(float(budget.spent)))


def test_blocks_of_a_stream_follow_each_other_and_what_waits_is_marked():
    model = OnlineSynthesizer(random_state=0).partial_fit(X3)
    assert [start for start, _, _ in model.blocks_[1:]] == [stop for _, stop, _ in model.blocks_[:-1]]
    display = StreamDisplay.from_estimator(model, random_state=0)
    assert display.times[0] == 0
    assert display.times[-1] < display.now == 2000
    _, _, last = model.blocks_[-1]
    expected = np.quantile(last.sample(2000, random_state=0)[:, 1], [0.1, 0.5, 0.9])
    np.testing.assert_allclose(display.quantiles[1, -1], expected)
    waits = [patch for patch in display.plot().axes_[0, 0].patches if "wait" in str(patch.get_label())]
    assert waits[0].get_x() == display.times[-1]


def test_curves_of_several_runs_are_drawn_by_their_mean_and_range():
    display = StreamDisplay.from_curves([1, 2], {"error": [[1.0, 3.0], [2.0, 1.0]]}).plot(ylabel="W1")
    np.testing.assert_allclose(display.ax_.lines[0].get_ydata(), [1.5, 2.0])
    assert display.ax_.get_ylabel() == "W1"


def test_a_plan_is_drawn_by_the_means_of_its_points():
    display = PlanDisplay.from_plan(made("plan")).plot(measure="wasserstein")
    np.testing.assert_allclose(display.ax_.lines[0].get_ydata(), [point.mean[0] for point in made("plan").points])
