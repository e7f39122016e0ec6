"""Laws of all pictures: what they leave behind, what they read, and what a reader is told."""

import copy
import re
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

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
from skdpsynth.domain import Date, DateTime, Ordinal, Schema
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


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


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
    told = [text for text in texts(display.figure_) if "ot private" in text]
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
