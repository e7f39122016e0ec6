"""Synthesis of mixed tables: what neighbors change, what the ledger says, what data cannot say, and what samples keep."""

import math
import pickle
import warnings
import zlib
from datetime import datetime
from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from internals import LatentLinks, NoiseLoss, ParitySearch, _latent_high, _latent_planning, pair_loss
from internals import _ledger_entry as ledger
from internals import _measurements as marginal_model
from internals import _wide_factors as wide_factors
from laws import ALARM, kept_beside_answers, refuses
from scipy import stats
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivacyAccountant
from skdpsynth.domain import Continuous, Nominal, Ordinal, Schema, grids_of
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Facts
from skdpsynth.privacy import epsilon_of_rho, rho_of_epsilon

INF = float("inf")
RO, AR = "replace_one", "add_or_remove_one"
SCHEMA = {
    "age": (18, 99),
    "gain": (0.0, 10_000.0),
    "school": Ordinal(["low", "middle", "high"]),
    "ill": ["no", "yes"],
    "job": Nominal(["a", "b", "c", "d"], nullable=True),
    "weight": Continuous(10, 60, integer=False, nullable=True),
}
MARGINALS = {
    "pure": {},
    "stratify": {"stratify": "ill"},
    "zcdp": {"delta": 1e-6},
    "zcdp-stratify": {"delta": 1e-6, "stratify": "job"},
    "add_or_remove": {"neighboring": AR},
    "add_or_remove-stratify": {"neighboring": AR, "stratify": "ill"},
    "add_or_remove-zcdp-stratify": {"neighboring": AR, "delta": 1e-6, "stratify": "job"},
}
SCORES = {
    "scores": {"strategy": "scores"},
    "scores-pmm": {"strategy": "scores", "synthesizer": "pmm"},
    "scores-psmm": {"strategy": "scores", "synthesizer": "psmm"},
    "scores-add_or_remove": {"strategy": "scores", "neighboring": AR},
    "scores-pmm-add_or_remove": {"strategy": "scores", "synthesizer": "pmm", "neighboring": AR},
}
quick = pytest.mark.usefixtures("hasty")
each_way = pytest.mark.parametrize("params", [*MARGINALS.values(), *SCORES.values()], ids=[*MARGINALS, *SCORES])
each_marginal_way = pytest.mark.parametrize("params", MARGINALS.values(), ids=MARGINALS)
# Without "scores-psmm", whose program takes long on made-up moments.
each_fast_way = pytest.mark.parametrize("params", [*MARGINALS.values(), SCORES["scores"], SCORES["scores-pmm"]])
each_score_way = pytest.mark.parametrize("params", SCORES.values(), ids=SCORES)


def people(n=1000, seed=0):
    """The ill are older and heavier; four fifths gain nothing, a fifth has no job, and of a tenth the weight is not known."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    job = rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05]).astype(object)
    job[rng.random(n) < 0.2] = None
    age, gain = np.clip(np.rint(rng.normal(40 + 25 * ill, 8)), 18, 99), np.where(rng.random(n) < 0.8, 0.0, rng.uniform(500, 10_000, n))
    school, ill_or_not = rng.choice(["low", "middle", "high"], n, p=[0.5, 0.3, 0.2]), np.where(ill, "yes", "no")
    weight = np.where(rng.random(n) < 0.1, np.nan, np.clip(rng.normal(25 + 10 * ill, 3), 10, 60))
    columns = {"age": age.astype(int), "gain": gain, "school": school, "ill": ill_or_not, "job": job, "weight": weight}
    return pd.DataFrame(columns).astype(dict.fromkeys(["school", "ill", "job"], object))


def codes_of(model, frame):
    """The codes of a frame by the rules that are told: bins, levels as in the schema, missing last."""
    out = {}
    for name, kind in model.schema_.items():
        if isinstance(kind, Continuous):
            x, bins = np.clip(frame[name].to_numpy(float), kind.low, kind.high), model.bins_[name]
            out[name] = np.where(np.isnan(x), len(bins) - 1, np.searchsorted(bins[1:-1], x, side="right"))
        else:
            out[name] = np.array([kind.levels.index(cell) if cell in kind.levels else len(kind.levels) for cell in frame[name]])
    return out


def total_variation(first, second, names):
    """Between the tables of some columns; numbers are cut at quantiles of the first, a cell further on, so that an atom is in one part."""
    parts = []
    for frame in (first, second):
        columns = {}
        for name in names:
            kind = Schema(SCHEMA)[name]
            if isinstance(kind, Continuous):
                cuts = np.unique(np.nanquantile(first[name], np.linspace(0.1, 0.9, 5))) + (kind.high - kind.low) / 1000
                columns[name] = np.where(frame[name].isna(), -1, np.searchsorted(cuts, frame[name]))
            else:
                columns[name] = frame[name].astype(object).where(frame[name].notna(), "missing").to_numpy()
        parts.append(pd.DataFrame(columns).value_counts(normalize=True))
    return parts[0].sub(parts[1], fill_value=0).abs().sum() / 2


@pytest.fixture
def door(door, monkeypatch):
    """The door; its noise is real, "zero", or its answers are "frozen" by name and shape alone."""
    door.noise, door.salt = "real", 0

    def answer(name, values, drawn):
        if door.noise == "frozen":
            seed = zlib.crc32(f"{name} {values.shape} {door.salt}".encode())
            return np.random.default_rng(seed).integers(-5, 60, values.shape)
        return values if door.noise == "zero" else drawn

    door.answer = answer
    # The ledger tells the second.
    monkeypatch.setattr(ledger, "datetime", SimpleNamespace(now=lambda zone: datetime(2000, 1, 1, tzinfo=zone)))
    return door


@pytest.fixture
def unfitted(monkeypatch):
    """No models: what is released does not hang on them, but for the search beyond pairs, which is left out."""
    monkeypatch.setattr(_latent_high, "_MOST_SETS", 0)
    monkeypatch.setattr(marginal_model, "LatentFactors", SimpleNamespace(of=lambda *_: None))
    monkeypatch.setattr(wide_factors, "_STEPS", 2)
    monkeypatch.setattr(wide_factors, "_PILOT_STEPS", 2)


def loss_between(first, second):
    """Exact loss, at worst over outputs, of releases with the same answers before them: (pure epsilon, Gaussian rho)."""
    assert [(each.name, each.noise) for each in first] == [(each.name, each.noise) for each in second]
    lost = sum((pair_loss(*pair) for pair in zip(first, second, strict=True)), NoiseLoss())
    return lost.epsilon, lost.gaussian


def random_kind(rng):
    nullable, levels = bool(rng.integers(2)), list(range(int(rng.integers(2, 6))))
    bounds = (-1.5, 2.5), (0, int(rng.integers(1, 40))), (-(10**4), 10**4)
    kinds = [Continuous(*ends, nullable=nullable) for ends in bounds] + [
        Ordinal(levels, nullable=nullable),
        Nominal(levels, nullable=nullable),
    ]
    return kinds[rng.integers(5)]


def random_rows(schema, n, rng):
    """Rows anywhere in the domain, on its ends, missing, and out of it."""
    columns = []
    for kind in schema.values():
        if isinstance(kind, Continuous):
            column = rng.uniform(kind.low, kind.high, n)
            ends = rng.choice([kind.low, kind.high, 2.0 * kind.high + 1, np.nan], n)
            columns.append(np.where(rng.random(n) < 0.5, column, ends))
        else:
            columns.append(rng.integers(-1, len(kind.levels) + 1, n).astype(float))
    return np.column_stack(columns)


def neighbors(schema, neighboring, rng, n_pairs):
    """Pairs of tables; the last one attains the most that can change: two rows that differ in every cell, and miss none."""
    low, high = (
        [[(kind.low if k == 0 else kind.high) if isinstance(kind, Continuous) else kind.levels[-k] for kind in schema.values()]]
        for k in (0, 1)
    )
    for k in range(n_pairs + 1):
        rows = random_rows(schema, 4, rng)
        old, new = (low, high) if k == n_pairs else (random_rows(schema, 1, rng), random_rows(schema, 1, rng))
        yield (np.vstack([rows, old]), np.vstack([rows, new])) if neighboring == RO else (rows, np.vstack([rows, new]))


def losses(door, model, schema, rng, n_pairs):
    """The losses of pairs of neighbors, whose releases have the same answers; every pair has other answers."""
    door.noise, out = "frozen", []
    for door.salt, pair in enumerate(neighbors(schema, model.neighboring, rng, n_pairs)):
        out.append(loss_between(*(model.fit(X) and door.take() for X in pair)))
    return out


@pytest.mark.parametrize("neighboring", [RO, AR])
@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.must)])
def test_neighbors_change_counts_by_epsilon_in_all_and_some_attain_it(door, unfitted, neighboring, stratified, seed):
    rng = np.random.default_rng(seed)
    schema = {name: random_kind(rng) for name in range(rng.integers(2, 5))}
    if stratified:
        schema[9] = Nominal([0, 1, 2], nullable=bool(seed % 2))
        schema = dict(enumerate(schema.values()))
    model = LatentFactorSynthesizer(
        schema, stratify=len(schema) - 1 if stratified else None, n_factors=1, epsilon=Fraction(7, 10), neighboring=neighboring
    )
    found = losses(door, model, schema, rng, 8)
    assert all(rho == 0 for _, rho in found)
    assert max(epsilon for epsilon, _ in found) == found[-1][0] == Fraction(7, 10)


BITS = {"x": (0, 5), **{f"bit {i}": [0, 1] for i in range(9)}, "of": [0, 1, 2]}  # so many columns that pairs are released as interactions


def rows_that_differ_somewhere():
    """Pairs of rows of BITS that differ in some columns: bits are alike, so how many of them is all that matters."""
    low = np.zeros(len(BITS))
    for x, n_bits, of in product([0, 5], range(10), [0, 1]):
        yield low, np.array([x, *(np.arange(9) < n_bits), of], dtype=float)


@pytest.mark.parametrize(
    ("neighboring", "stratified"),
    [pytest.param(RO, False, marks=pytest.mark.must), pytest.param(RO, True, marks=pytest.mark.must), (AR, True)],
)
def test_neighbors_change_what_is_released_by_rho_at_most_and_some_attain_it_in_each_step(door, unfitted, neighboring, stratified):
    """Two rows that differ everywhere move counts most; interactions are moved most by rows that differ in some of the columns."""
    params = {"epsilon": 0.7, "delta": 1e-6, "neighboring": neighboring, "stratify": "of" if stratified else None}
    model, rows = LatentFactorSynthesizer(BITS, n_factors=1, **params), np.zeros((4, len(BITS)))
    door.noise, most = "frozen", {}
    for old, new in rows_that_differ_somewhere():
        pair = [np.vstack([rows, old]) if neighboring == RO else rows, np.vstack([rows, new])]
        given = [model.fit(pd.DataFrame(X, columns=list(BITS))) and door.take() for X in pair]
        for one, other in zip(*given, strict=True):
            epsilon, rho = loss_between([one], [other])
            assert epsilon == 0
            most[one.name] = max(most.get(one.name, 0), rho)
    charged = {entry.name: entry.loss.rho for entry in model.accountant_.ledger}
    assert list(charged) == ["counts of cells", "counts of columns", "interactions of pairs"]
    for name, rho in charged.items():
        assert rho * (1 - Fraction(1, 10**5)) < most[name] <= rho
    assert Fraction(7, 10) * (1 - Fraction(1, 10**5)) < epsilon_of_rho(sum(charged.values()), 1e-6, gaussian=True) <= Fraction(7, 10)


@pytest.mark.parametrize(("neighboring", "stratified"), [(RO, True), (AR, False)])
def test_neighbors_change_the_counts_of_blocks_by_epsilon_in_all(door, unfitted, neighboring, stratified, monkeypatch):
    """41 columns and more: the tables of all pairs, merged, come before those within blocks."""
    monkeypatch.setattr(_latent_planning, "_MOST_GRAM_CODES", 0)
    rng = np.random.default_rng(3)
    schema = {**{i: Nominal([0, 1]) if i % 3 else Ordinal([0, 1, 2]) for i in range(41)}, 41: Continuous(0.0, 1.0), 42: Nominal([0, 1])}
    model = LatentFactorSynthesizer(schema, stratify=42 if stratified else None, n_factors=1, epsilon=2, neighboring=neighboring)
    found = losses(door, model, schema, rng, 1)
    assert [entry.name for entry in model.accountant_.ledger] == [
        *map("counts of ".__add__, ["cells", "columns", "pairs, merged", "pairs"])
    ]
    assert max(epsilon for epsilon, _ in found) == found[-1][0] == 2


@pytest.mark.parametrize("delta", [0, 1e-9])
@pytest.mark.parametrize(("neighboring", "stratified"), [(RO, True), pytest.param(RO, False, marks=pytest.mark.must), (AR, False)])
def test_neighbors_change_a_gram_matrix_by_epsilon_at_most_and_nearly_attain_it_without_delta(
    door, unfitted, neighboring, stratified, delta, monkeypatch
):
    """Rows of two classes and a row that comes attain it; of one class, the more so the nearer their codes are to a right angle."""
    monkeypatch.setattr(ParitySearch, "reserve", lambda plan, *_: (None, plan))
    monkeypatch.setattr(_latent_planning, "_FEW_ROWS", 0)
    schema = {**{i: Nominal([0, 1]) if i % 3 else Ordinal([0, 1, 2]) for i in range(7)}, 7: Nominal([0, 1])}
    params = {"stratify": 7 if stratified else None, "epsilon": 2, "delta": delta, "neighboring": neighboring}
    model = LatentFactorSynthesizer(schema, n_factors=1, **params)
    attained = 0.95 if neighboring == RO and not stratified else 1
    found = losses(door, model, schema, np.random.default_rng(3), 1 if attained == 1 else 30)
    (entry,) = model.accountant_.ledger
    assert (entry.name, entry.noise) == ("Gram matrix of columns and pairs", "DiscreteMatrixLaplace")
    assert model.accountant_.spent == 2
    assert model.accountant_.spent_delta == 0
    assert 2 * attained * (1 - 1e-3) <= max(epsilon for epsilon, _ in found) <= 2


@pytest.mark.parametrize("neighboring", [RO, AR])
@pytest.mark.parametrize("params", [pytest.param(SCORES["scores"], marks=pytest.mark.must), SCORES["scores-pmm"]])
def test_neighbors_change_what_scores_release_by_epsilon_at_most(door, params, neighboring):
    """Thresholds of ordinal columns attain their share; the moments of the latent rows have theirs.

    Replaced, a row changes one count of two levels and two of more; added, one of each column. It is the last of its table, so the draws
    of the others are the same.
    """
    rng = np.random.default_rng(5)
    kinds = (
        Ordinal([0, 1]),
        Ordinal([0, 1, 2, 3]),
        Nominal([0, 1, 2]),
        Continuous(0.0, 1.0, nullable=True),
        Ordinal([0, 1], nullable=True),
    )
    schema = dict(enumerate(kinds))
    model = LatentFactorSynthesizer(schema, epsilon=1, random_state=0, neighboring=neighboring, **params)
    door.noise, found, thresholds = "frozen", [], []
    for door.salt, pair in enumerate(neighbors(schema, neighboring, rng, 8)):
        given = [model.fit(X) and door.take() for X in pair]
        found.append(loss_between(*given)[0])
        given = [[draw for draw in draws if draw.name == "counts of ordinal levels"] for draws in given]
        assert [draw.values.shape for draw in given[0]] == [(1 + 4,) if neighboring == RO else (2 + 4,)]
        thresholds.append(loss_between(*given)[0])
    assert 0.2 < max(found) <= 1 + 1e-9
    assert max(thresholds) == thresholds[-1] == Fraction(1, 5)
    entry = model.accountant_.ledger[0]
    assert list(model.marginals_) == [0, 1]
    assert (entry.name, entry.loss.epsilon, entry.noise) == ("counts of ordinal levels", Fraction(1, 5), "DiscreteLaplace")
    assert entry.scale == ((15,) if neighboring == RO else (10,))


@pytest.mark.must
@each_score_way
def test_latent_rows_of_neighbors_differ_in_one(monkeypatch, params):
    """Thresholds are released before they are used, so given them a row's latent columns are its own affair."""
    monkeypatch.setattr(PrivacyAccountant, "release", lambda self, values, noise, rng, **cost: np.full(values.shape, 7))
    seen = []
    real = LatentLinks.latent
    monkeypatch.setattr(LatentLinks, "latent", lambda *args: seen.append(real(*args)) or seen[-1])
    model, frame = LatentFactorSynthesizer(SCHEMA, random_state=0, **params), people(50)
    other, changed = frame.copy(), [17]
    row = [99, 9e3, "high", "yes", "d", 60.0]
    if params.get("neighboring") == AR:
        other.loc[50], changed = row, []
    else:
        other.loc[17] = row
    for table in (frame, other):
        try:
            model.fit(table)
        except Exception:  # made-up moments need not make sense to what follows
            assert len(seen) in (1, 2)
    assert np.flatnonzero((seen[0] != seen[1][:50]).any(axis=1)).tolist() == changed
    assert len(seen[1]) == 50 + (not changed)
    assert np.abs(seen[0]).max() <= 4


STEPS = [
    ({0: (0.0, 1.0)}, ["cells", "columns"]),
    ({0: [0, 1]}, ["columns"]),
    ({0: [0, 1], 1: Ordinal([0, 1])}, ["columns", "pairs"]),
    ({key: [0, 1] for key in range(41)}, ["columns", "pairs, merged", "pairs"]),
]


@quick
@pytest.mark.parametrize(("schema", "names"), STEPS)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_steps_that_a_schema_has_no_use_for_are_left_out_and_the_budget_is_spent(schema, names, delta):
    X = np.random.default_rng(0).integers(0, 2, (3000, len(schema)))
    model = LatentFactorSynthesizer(schema, epsilon=1, delta=delta).fit(X)
    assert [entry.name.split(" of ")[1] for entry in model.accountant_.ledger] == (
        names if delta or len(schema) < 41 else ["columns and pairs"]
    )
    assert 1 - Fraction(1, 10**6) < model.accountant_.spent <= 1
    assert model.accountant_.spent == 1 or delta


@quick
@pytest.mark.parametrize("neighboring", [RO, AR])
@pytest.mark.parametrize("schema", [{0: [0, 1]}, {0: [0, 1], 1: [0, 1, 2]}, {0: [0, 1], 1: [0, 1], 2: [0, 1]}], ids=len)
def test_tables_of_few_columns_take_pure_noise_and_no_delta_where_it_is_less(schema, neighboring):
    """At epsilon 1 and delta 1e-6 the counts of the last step have less noise than Gaussian noise of their share would be."""
    shared = PrivacyAccountant(1, 1e-5, neighboring=neighboring)
    model = LatentFactorSynthesizer(schema, delta=1e-6, neighboring=neighboring, accountant=shared).fit(np.zeros((300, len(schema))))
    assert model.accountant_.spent == shared.spent == 1
    assert shared.spent_delta == 0
    last = model.accountant_.ledger[-1]
    changed = (2 if neighboring == RO else 1) * max(1, math.comb(len(schema), 2))
    of_gaussian = math.sqrt(changed / 2 / float(last.loss.epsilon * rho_of_epsilon(1, 1e-6, gaussian=True)))
    if last.noise == "DiscreteLaplace":
        assert math.sqrt(2) * last.scale[0] < of_gaussian
    else:
        assert last.noise == "DiscreteMatrixLaplace"
        assert max(model.marginals_errors_.values()) < of_gaussian
    many = LatentFactorSynthesizer({i: [*range(6)] for i in range(12)}, delta=1e-12, neighboring=neighboring).fit(np.zeros((300, 12)))
    assert {entry.noise for entry in many.accountant_.ledger} == {"DiscreteGaussian"}


@quick
def test_the_last_step_has_counts_even_if_no_columns_belong_together(door):
    """Whether columns are dependent is seen in noise, so what is spent must not hang on it."""
    door.noise, model = "frozen", LatentFactorSynthesizer({key: [0, 1] for key in range(41)}, epsilon=1)
    for door.salt in range(2):
        assert model.fit(np.zeros((100, 41), dtype=int)).accountant_.spent == 1
        assert any(len(block) > 1 for block in model._model.blocks)


def facts(model, frame):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame)
    arrays = {key: value.tolist() for held in (model.marginals_, getattr(model, "cells_", {})) for key, value in held.items()}
    return (
        sorted(vars(model)),
        [str(warning.message) for warning in caught],
        arrays,
        model.n_samples_,
        str(model.accountant_.ledger),
        model.sample(40, random_state=0).to_csv(),
        pickle.dumps(model),
    )


def strange(n):
    """Nothing of it is in the domain."""
    cells = {"age": -5, "gain": np.inf, "school": "phd", "ill": None, "job": "x", "weight": np.nan}
    return pd.DataFrame([cells] * n).astype(people(1).dtypes)


@quick
@each_fast_way
@pytest.mark.parametrize("epsilon", [pytest.param(0.01, marks=pytest.mark.must), 100])  # 100: few rows would be warned of, if counted
def test_given_the_released_numbers_all_is_the_same_for_every_table(door, params, epsilon, monkeypatch):
    monkeypatch.setattr(ledger, "new_ledger_id", lambda: "ledger-0")  # else random, and in every pickle
    chosen = PrivacyAccountant.release_choice
    monkeypatch.setattr(PrivacyAccountant, "release_choice", lambda *given, **said: 0 * chosen(*given, **said))  # a choice is an answer
    door.noise = "frozen"
    model = LatentFactorSynthesizer(SCHEMA, epsilon=epsilon, **{**params, "random_state": 0} if params in SCORES.values() else params)
    tables = [people(50), people(50, seed=1), strange(50)]
    if params.get("neighboring") == AR:
        tables += [people(120), people(1), people(0)]
    told = [facts(clone(model), frame) for frame in tables]
    assert all(other == told[0] for other in told[1:])


@quick
def test_given_the_released_numbers_all_is_the_same_for_many_columns(door):
    door.noise = "frozen"
    rng, model = np.random.default_rng(0), LatentFactorSynthesizer({key: [0, 1] for key in range(45)}, neighboring=AR)
    assert kept_beside_answers(lambda X: clone(model).fit(X), rng.integers(0, 2, (40, 45)), [np.ones((0, 45), dtype=int)], door) == []


@quick
@each_marginal_way
def test_what_was_released_is_shown_exactly(door, params):
    """Counts in `marginals_`; interactions, where pairs are released so, in `interactions_`."""
    model = LatentFactorSynthesizer(SCHEMA, **params).fit(people(100))
    cells, one_way, of_pairs = (draw.answer for draw in door.take())
    np.testing.assert_array_equal(np.concatenate(list(model.cells_.values())), cells)
    lead = "stratify" in params
    counts = {1: [], 2: []}
    for key, table in model.marginals_.items():
        counts[len(key) - lead].append(table.ravel())
        assert table.dtype == np.int64
    np.testing.assert_array_equal(np.concatenate(counts[1]), one_way)
    shown = [table.ravel() for table in model.interactions_.values()] or counts[2]
    np.testing.assert_array_equal(np.concatenate(shown), of_pairs)
    assert list(model.interactions_) == list(model.interaction_scales_)
    assert not model.interactions_ or "delta" in params


@quick
@pytest.mark.parametrize("neighboring", [RO, AR])
@pytest.mark.parametrize("stratify", [None, "of"])
def test_pairs_that_are_released_as_interactions_are_shown_as_counts_too(door, neighboring, stratify):
    """Whole numbers that add up to the noisy counts of the columns, but for rounding, and hold the interactions that were released."""
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (500, len(BITS))), columns=list(BITS))
    model = LatentFactorSynthesizer(BITS, delta=1e-6, neighboring=neighboring, stratify=stratify).fit(X)
    np.testing.assert_array_equal(np.concatenate([table.ravel() for table in model.interactions_.values()]), door.take()[-1].answer)
    for key, released in model.interactions_.items():
        table, scale = model.marginals_[key], model.interaction_scales_[key]
        axes = table.ndim - 2, table.ndim - 1
        centered = [counts - counts.mean(axis=axes[0], keepdims=True) for counts in (table, released / scale)]
        first, second = (counts - counts.mean(axis=axes[1], keepdims=True) for counts in centered)
        assert np.abs(first - second).max() <= 2.0 + 1e-9  # each cell is half a unit off at most, and so are the three means
        assert np.abs(table - model.marginals_consistent_[key]).max() <= 0.5 + 1e-9


@quick
@each_marginal_way
def test_consistent_tables_have_the_margins_of_each_other_and_the_public_number_of_rows(params):
    model = LatentFactorSynthesizer(SCHEMA, **params).fit(people(100))
    lead = "stratify" in params
    tables = model.marginals_consistent_
    assert list(tables) == list(model.marginals_) == list(model.marginals_errors_)
    for key, table in tables.items():
        assert table.shape == model.marginals_[key].shape
        if params.get("neighboring") != AR:
            np.testing.assert_allclose(table.sum(), 100)
        for axis in range(lead, len(key)) if len(key) - lead == 2 else ():
            margin = (*key[:axis], *key[axis + 1 :])
            np.testing.assert_allclose(table.sum(axis=axis), tables[margin], atol=1e-6)


LEVELS = {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1, 2, 3], "d": [0, 1, 2, 3, 4], "ill": [0, 1], "e": list(range(8)), "f": [0, 1]}
each_kind_of_noise = pytest.mark.parametrize(
    "params",
    [{}, {"delta": 1e-6, "stratify": "ill"}, {"delta": 1e-6, "neighboring": AR}],
    ids=["pure", "zcdp-stratify", "add_or_remove-zcdp"],
)


@each_kind_of_noise
def test_errors_of_consistent_tables_are_unbiased_and_as_large_as_stated(unfitted, params):
    """Of 25 fits, of every table; errors stated half or twice as large would have a mean square of 4 or 1/4.

    A table has at least one free number a fit, so the mean of its (error / stated)**2 is as near to 1 as chi squared of 25, over 25. Some
    150 numbers are free a fit: the mean of 15 to 28 tables has a deviation of .06, and the share of errors below 1.96 one of .008.
    """
    rng, n_fits = np.random.default_rng(0), 25
    X = pd.DataFrame({name: rng.integers(0, len(levels), 2000) for name, levels in LEVELS.items()})
    exact = LatentFactorSynthesizer(LEVELS, **{**params, "delta": 0}, epsilon=INF).fit(X).marginals_
    models = [LatentFactorSynthesizer(LEVELS, **params).fit(X) for _ in range(n_fits)]
    errors = {key: [(m.marginals_consistent_[key] - table) / m.marginals_errors_[key] for m in models] for key, table in exact.items()}
    means = [np.mean(np.square(each)) for each in errors.values()]
    assert min(means) > stats.chi2.ppf(ALARM / 30, n_fits) / n_fits
    assert max(means) < stats.chi2.isf(ALARM / 30, n_fits) / n_fits
    assert 0.6 < np.mean(means) < 1.4
    cells = np.concatenate([np.reshape(each, (n_fits, -1)) for each in errors.values()], axis=1)
    assert np.abs(cells.mean(axis=0)).max() < stats.norm.isf(ALARM / 1000) / math.sqrt(n_fits)
    assert 0.91 < (np.abs(cells) < 1.96).mean() < 0.99


@quick
@pytest.mark.parametrize("params", [{}, {"stratify": "job"}, {"neighboring": AR, "stratify": "ill"}, {"neighboring": AR, "delta": 1e-6}])
def test_without_noise_marginals_are_the_true_counts_of_every_column_and_every_pair(params):
    frame = people(500)
    model = LatentFactorSynthesizer(SCHEMA, epsilon=INF, **params).fit(frame)
    lead = (params["stratify"],) if "stratify" in params else ()
    names = [name for name in SCHEMA if name not in lead]
    assert list(model.marginals_) == [(*lead, *key) for key in [*((name,) for name in names), *combinations(names, 2)]]
    codes = codes_of(model, frame)
    for key, table in model.marginals_.items():
        kinds = [(name, model.schema_[name]) for name in key]
        sizes = [len(model.bins_[name]) - 1 + kind.nullable if isinstance(kind, Continuous) else kind.n_codes for name, kind in kinds]
        expected = np.histogramdd([codes[name] for name in key], [np.arange(size + 1) - 0.5 for size in sizes])[0]
        np.testing.assert_array_equal(table, expected)
        assert table.sum() == 500
    assert model.n_samples_ == 500
    assert list(model.cells_) == ["age", "gain", "weight"]
    assert [len(levels) for levels in model.cells_.values()] == [4 + 16 + 128, *[4 + 16 + 64 + 512 + 4096] * 2]


@quick
def test_without_noise_cells_are_the_true_counts_of_the_levels():
    frame = people(500)
    model = LatentFactorSynthesizer(SCHEMA, epsilon=INF).fit(frame)
    weights = np.histogram(frame["weight"].dropna(), bins=grids_of(model.schema_)["weight"].edges)[0]
    for name, leaves, depths in (("weight", weights, (2, 4, 6, 9, 12)), ("age", np.bincount(frame["age"] - 18), (2, 4, 7))):
        leaves = np.pad(leaves, (0, 2 ** depths[-1] - len(leaves)))
        np.testing.assert_array_equal(model.cells_[name], np.concatenate([leaves.reshape(2**j, -1).sum(axis=1) for j in depths]))


@quick
def test_small_tables_are_warned_of_by_public_or_noisy_numbers():
    for n_rows in (200, 20):
        with pytest.warns(SmallSampleWarning, match="more than a tenth of the rows"):
            LatentFactorSynthesizer(SCHEMA, epsilon=0.1).fit(people(n_rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallSampleWarning)
        LatentFactorSynthesizer(SCHEMA, epsilon=100).fit(people(200))


@pytest.mark.all_fits
@pytest.mark.nightly
def test_without_noise_pairs_of_columns_are_kept():
    """Total variation of 5,000 rows in tables of at most 6 x 6 quantile bins; of a fresh table of the law it is .03 on average."""
    frame = people(5000)
    sample = LatentFactorSynthesizer(SCHEMA, epsilon=INF).fit(frame).sample(random_state=0)
    found = {pair: total_variation(frame, sample, pair) for pair in combinations(SCHEMA, 2)}
    assert np.mean(list(found.values())) < 0.04
    assert max(found.values()) < 0.07
    shuffled = sample.assign(ill=sample["ill"].sample(frac=1, random_state=0).to_numpy())
    assert total_variation(frame, shuffled, ["age", "ill"]) > 0.2


def test_rows_of_classes_come_in_random_order():
    """Of 2,000 rows in two classes: nearly as many changes of class as in independent rows, 2 p (1 - p) of them; 6 standard errors."""
    model = LatentFactorSynthesizer(SCHEMA, stratify="ill", epsilon=INF).fit(people(500))
    ill = model.sample(2000, random_state=0)["ill"].eq("yes").to_numpy()
    assert np.mean(ill[1:] != ill[:-1]) == pytest.approx(2 * ill.mean() * (1 - ill.mean()), abs=6 / math.sqrt(8000))


@pytest.mark.parametrize(("epsilon", "off"), [(1, 0.04), (INF, 0.015)])
def test_an_atom_is_kept_and_no_atom_is_made(epsilon, off):
    """Four fifths of a column are 0: they stay in its cell, a thousandth of the range."""
    gain = LatentFactorSynthesizer(SCHEMA, epsilon=epsilon, random_state=0).fit(people(5000)).sample(random_state=0)["gain"]
    assert (gain < 10_000 / 1024).mean() == pytest.approx(0.8, abs=off)
    rest = gain[gain > 400]
    assert len(rest) > 500
    assert rest.nunique() == len(rest)


@quick
@each_way
def test_rows_out_of_the_domain_are_taken_to_their_documented_places(params):
    """As if their cells stood there: clipped, the midpoint, the first level, or missing."""
    frame, placed = people(60), people(60)
    frame.loc[:9] = strange(10).astype(frame.dtypes.to_dict())
    for name, cell in {"age": 18, "gain": 10_000.0, "school": "low", "ill": "no", "job": None, "weight": np.nan}.items():
        placed.loc[:9, name] = cell
    fits = (LatentFactorSynthesizer(SCHEMA, random_state=0, **params).fit(table) for table in (frame, placed))
    pd.testing.assert_frame_equal(*(model.sample(50, random_state=0) for model in fits))


ALONE = [(0.0, 1.0), Continuous(0.0, 1.0, nullable=True), (0, 1), (-(10**9), 10**9), Ordinal([0, 1, 2]), Ordinal([0, 1], nullable=True)]
ALONE += [[0, 1], [0, 1, 2], Nominal([0, 1, 2], nullable=True)]


@quick
@each_way
@pytest.mark.parametrize("kind", ALONE, ids=str)
def test_a_table_of_one_column_fits(params, kind):
    model = LatentFactorSynthesizer({0: kind}, **{name: value for name, value in params.items() if name != "stratify"})
    assert model.fit(np.random.default_rng(0).integers(0, 2, (30, 1))).sample(20).shape == (20, 1)


@quick
@each_way
def test_a_column_without_any_cell_and_one_row_fit_and_none_where_the_number_of_rows_is_private(params):
    for frame in (people(100).assign(weight=np.nan), people(1), people(0))[: 2 + ("neighboring" in params)]:
        model = LatentFactorSynthesizer(SCHEMA, **params).fit(frame)
        assert model.n_samples_ >= 1
        assert model.sample(5).shape == (5, 6)
    if "strategy" not in params:
        frame = people(100).assign(weight=np.nan)
        sample = LatentFactorSynthesizer(SCHEMA, **{**params, "epsilon": INF}).fit(frame).sample(200, random_state=0)
        assert sample["weight"].isna().mean() > 0.95


def test_dependent_columns_are_found_among_many_and_stay_dependent():
    """Bits, of which five at a time hang on one number; independent groups stay so: the mean of independent rows is .006."""
    rng = np.random.default_rng(0)
    X = (np.repeat(rng.random((20_000, 9)), 5, axis=1) + rng.random((20_000, 45)) < 1).astype(int)
    model = LatentFactorSynthesizer({key: [0, 1] for key in range(45)}, epsilon=1, delta=1e-6, random_state=0).fit(X)
    together = {pair for block in model._model.blocks for pair in combinations(block, 2)}
    assert {(i, j) for i, j in combinations(range(45), 2) if i // 5 == j // 5} <= together
    assert max(map(len, model._model.blocks)) <= 12
    assert set(model.marginals_) == {*((i,) for i in range(45)), *together}
    wanted, got = np.corrcoef(X.T), np.corrcoef(model.sample(20_000, random_state=0).T)
    assert np.abs(got - wanted)[wanted > 0.2].mean() < 0.1
    assert np.abs(got[wanted < 0.2]).max() < 0.1
    assert np.abs(got[wanted < 0.2]).mean() < 0.02


def test_a_factor_that_all_columns_share_survives_and_conditions_on_it_move_all():
    """Four ordered levels each, which hang on one number. Of 990 pairs the mean error of correlations, .4 in the rows, is below .1; of
    columns that are independent it is .4. Where one block is known, columns of all others move with it."""
    rng = np.random.default_rng(0)
    X = np.digitize(0.7 * rng.normal(size=(20_000, 1)) + 0.7 * rng.normal(size=(20_000, 45)), [-0.7, 0.0, 0.7])
    schema = {key: Ordinal([0, 1, 2, 3]) for key in range(45)}
    model = LatentFactorSynthesizer(schema, epsilon=2, delta=1e-6, random_state=0).fit(X)
    pairs = np.triu_indices(45, 1)
    wanted, got = np.corrcoef(X.T)[pairs], np.corrcoef(model.sample(random_state=0).T)[pairs]
    assert wanted.mean() > 0.4
    assert np.abs(wanted - got).mean() < 0.1
    for code in (0, 3):
        rows = model.sample(4000, conditions=dict.fromkeys(range(3), code), random_state=0)
        assert (rows[:, :3] == code).all()
        real = X[(X[:, :3] == code).all(axis=1)][:, 3:].mean()
        assert abs(np.nanmean(rows[:, 3:].astype(float)) - real) < 0.15


def test_blocks_hang_together_through_the_stratum():
    """Each column is a noisy copy of the target: of 42 columns few pairs are counted, and all are seen in each class."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 3000)
    X = np.column_stack([np.where(rng.random((42, 3000)) < 0.8, target, 1 - target).T, target])
    model = LatentFactorSynthesizer({key: [0, 1] for key in range(43)}, stratify=42, epsilon=INF).fit(X)
    sample = model.sample(random_state=0)
    assert max(map(len, model._model.blocks)) == 12
    assert sorted(column for block in model._model.blocks for column in block) == list(range(42))
    assert np.corrcoef(sample.T)[0, 1:42].min() > 0.25  # of X: .36
    assert np.corrcoef(sample.T)[42, :42].min() > 0.5  # of X: .6


@each_score_way
def test_scores_keep_columns_without_noise(params):
    """The published route: frequencies of ordinal levels and means, loosely."""
    frame = people(3000)
    sample = LatentFactorSynthesizer(SCHEMA, epsilon=INF, random_state=0, **params).fit(frame).sample(random_state=0)
    assert total_variation(frame, sample, ["school"]) < (0.05 if params == SCORES["scores"] else 0.25)
    assert sample["age"].mean() == pytest.approx(frame["age"].mean(), abs=5)
    assert total_variation(frame, sample, ["ill"]) < 0.25


@quick
def test_order_of_columns_in_the_schema_does_not_matter():
    frame = people(60)
    turned = dict(reversed(SCHEMA.items()))
    first, second = (LatentFactorSynthesizer(s, random_state=0).fit(frame).sample(30, random_state=0) for s in (SCHEMA, turned))
    pd.testing.assert_frame_equal(first, second)


ELEVEN = [*"abcdefghijk"]
TEN_OR_NONE = Nominal(ELEVEN[:10], nullable=True)
REFUSED = [
    ({"stratify": "income"}, "stratify must be a column of schema, got 'income'"),
    ({"stratify": ["ill"]}, "stratify must be a column of schema, got a list of 1; give its name"),
    *(({"stratify": name}, f"nominal column, but '{name}' is {kind}") for name, kind in (("age", "continuous"), ("school", "ordinal"))),
    *(({"stratify": "job", "schema": {**SCHEMA, "job": levels}}, "at most 10 levels .*'job' has 11") for levels in (ELEVEN, TEN_OR_NONE)),
    ({"stratify": "ill", "strategy": "scores"}, "stratify must be None for strategy='scores'"),
    *(({"n_factors": n}, "n_factors must be 'auto' or an integer from 1 to 64, got") for n in (0, 65, 2.0, True, None, "many")),
    ({"strategy": "paper"}, "strategy must be one of 'marginals', 'scores', got 'paper'"),
    ({"synthesizer": "pmm"}, "synthesizer must be None for strategy='marginals', got 'pmm'"),
    ({"strategy": "scores", "synthesizer": "auto"}, "synthesizer must be one of 'pmm', 'psmm', got 'auto'"),
    *(({"schema": schema}, "schema must be a dict") for schema in ("auto", {})),
    *(({"schema": {**SCHEMA, "age": kind}}, f"for column 'age', got {kind!r}") for kind in ("auto", None)),
    ({"schema": {**SCHEMA, "age": (5, 5)}}, "schema of column 'age': bounds must be finite with low < high"),
    ({"schema": {**SCHEMA, "ill": ["no"]}}, "schema of column 'ill': levels must be a list of 2 or more"),
    ({"schema": {**SCHEMA, "ill": ["no", "no"]}}, "schema of column 'ill': levels must be distinct"),
    ({"schema": {name: kind for name, kind in SCHEMA.items() if name != "job"}}, "has no entry for 'job'"),
    ({"schema": {**SCHEMA, "shoe": (30, 50)}}, "names 'shoe', which X lacks"),
    *[({"bounds": bounds}, "bounds") for bounds in ("nonsense", (1.0, 0.0), (0.0, INF), {"age": (0, 1)})],
]
REFUSED_ROWS = [
    ({"schema": {"ill": ["no", "yes"]}, "stratify": "ill"}, people(40)[["ill"]], "must leave other columns .*'ill' is the only one"),
    ({"schema": None, "stratify": 0}, np.zeros((10, 2)), "stratify must be a nominal column, but 0 is continuous"),
    ({}, people(10).assign(ill=1), "column 'ill' has dtype int64, but its levels in schema are not all numbers"),
    ({"schema": {"a": (0, 1)}}, np.zeros((5, 1)), "schema names columns, but X is an array"),
    ({}, people(0), "minimum of 1"),
    ({"strategy": "scores"}, people(0), "minimum of 1"),
    *(
        ({"schema": {i: list(range(size)) for i, size in enumerate(sizes)}, **params}, np.zeros((3, len(sizes))), message)
        for sizes, params, message in [
            ([60] * 500, {}, "schema has 30000 levels and bins in all .*merge levels"),
            ([600] * 500, {}, "schema has 32000 levels and bins in all"),  # at most 64 codes of each have pairs
            ([2] * 5000, {}, "schema has 5000 columns, whose pairs are more than 524288 tables"),
            ([60] * 200 + [4], {"stratify": 200}, r"schema has 12000 levels and bins in all \(in 4 classes"),
            ([5000], {"strategy": "scores"}, "schema makes 4999 latent columns of 3 rows .*merge levels, or use strategy='marginals'"),
            ([1000, 1000, 1000], {"strategy": "scores", "synthesizer": "pmm"}, "schema makes 2997 latent columns"),
        ]
    ),
]


@quick
@pytest.mark.parametrize(("params", "frame", "message"), [*((params, people(40), message) for params, message in REFUSED), *REFUSED_ROWS])
def test_what_makes_no_sense_is_named_before_the_charge(params, frame, message):
    shared = PrivacyAccountant(5, 1e-6)
    model = LatentFactorSynthesizer(SCHEMA).fit(people(40))
    before = {name: value for name, value in vars(model).items() if name not in {*params, "accountant"}}
    model.set_params(accountant=shared, **params)
    refuses((TypeError, ValueError), message, model.fit, frame)
    assert shared.spent == 0
    assert {name: vars(model)[name] for name in before} == before


def test_a_schema_inside_another_synthesizer_is_refused_and_says_that_cells_may_be_missing():
    outer = LowDimSynthesizer().set_params(synthesizer=LatentFactorSynthesizer({0: (0, 1), 1: (0, 1)}))
    refuses(ValueError, r"synthesizer must have schema=None.* MixedTypeEncoder", outer.fit, np.zeros((10, 2)))
    assert [LatentFactorSynthesizer(each).__sklearn_tags__().input_tags.allow_nan for each in (None, SCHEMA)] == [False, True]


def test_levels_are_counted_by_the_blocks_that_columns_can_form_and_latent_cells_by_the_public_number_of_rows():
    """150 columns of 60 levels: all pairs would be 81 million counts, but at most 12 columns are in a block."""
    facts = Facts(1, Fraction(0), RO, 1000, 150, schema=Schema({i: list(range(60)) for i in range(150)}))
    assert list(LatentFactorSynthesizer()._plan(facts).shares) == ["counts of columns", "counts of pairs, merged", "counts of pairs"]
    facts = Facts(1, Fraction(0), RO, 10**6, 3, schema=Schema({i: list(range(300)) for i in range(3)}))
    model = LatentFactorSynthesizer(strategy="scores")
    refuses(ValueError, "schema makes 897 latent columns of 1000000 rows", model._plan, facts)
    assert model._plan(facts.part(n_samples=10**5)).part_facts.n_features == 897
