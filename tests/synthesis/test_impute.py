"""Missing cells of given rows: what is there stays, what is filled has the law of the model given it and keeps rules."""

import datetime
import functools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import ALARM, same_law
from test_conditions import SCHEMA, fitted, people
from test_rules_kept import TWELVE, broken, case_of, patients
from test_rules_kept import fitted as keeping

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Continuous, Determines, Impossible, Nominal, Schema, Sum, Unique

INF = float("inf")


@pytest.fixture(scope="module", params=["ill", None])
def model(request):
    return fitted(stratify=request.param)


def with_holes(rows, share=0.4, seed=0):
    """Each cell is lost with this probability; whole numbers become floats, as pandas has it."""
    rng, out = np.random.default_rng(seed), rows.copy()
    for name in out.columns.drop("id", errors="ignore"):
        out[name] = out[name].where(rng.random(len(out)) > share)
    return out


def test_nothing_is_missing_no_cell_has_changed_and_all_lie_in_the_domain(model):
    rows = with_holes(people(3000, 5))
    rows.index = np.arange(3000)[::-1] // 2  # an index of its own, with labels twice
    before = rows.copy()
    filled = model.impute(rows, random_state=0)
    pd.testing.assert_frame_equal(rows, before)
    for again in (model.impute(rows, random_state=0), model.impute(filled, random_state=1)):
        pd.testing.assert_frame_equal(again, filled)
    pd.testing.assert_frame_equal(model.impute(filled[:0]), filled[:0])
    assert filled.isna().sum().sum() == 0
    assert (filled.dtypes == rows.dtypes).all()
    assert not SCHEMA.check(filled)
    for name in rows:
        known = rows[name].notna()
        assert (filled[name][known].to_numpy() == rows[name][known].to_numpy()).all()


@pytest.mark.parametrize(
    "known", [{"ill": "yes", "age": 50}, {"school": "high", "town": "003"}, {"gain": 0.0}, {"seen": "2020-11-20"}], ids=str
)
def test_filled_cells_have_the_law_of_a_conditional_sample(model, known):
    """Numbers and levels within a bin are evener than independent ones, so statistics are no larger than chi squared."""
    n = 4000
    rows = pd.DataFrame({name: [known.get(name)] * n for name in SCHEMA if name != "id"})
    if "seen" in known:
        rows["seen"] = pd.to_datetime(rows["seen"])
        known = {"seen": ("2020-11-11", "2020-11-29")}  # a date is known by its bin, and this is within it
    filled = model.impute(rows, random_state=3)
    drawn = model.sample(3 * n, random_state=4, conditions=known)
    drawn = drawn[drawn.drop(columns="id").notna().all(axis=1)]
    for name in filled.columns.difference(list(known)):
        first, second = (frame[name].astype("int64" if name == "seen" else object) for frame in (filled, drawn))
        if name in ("age", "gain", "seen"):
            edges = np.unique(pd.to_numeric(second).quantile(np.linspace(0, 1, 9)))
            first, second = (np.searchsorted(edges, pd.to_numeric(cells)) for cells in (first, second))
        assert same_law(first, second) > ALARM, name


def test_cells_out_of_the_domain_stay_and_count_as_in_a_fit():
    """120 counts as 99, where nearly all are ill; an unknown level of a column that may be missing, as a missing one."""
    model = fitted(stratify=None, n_factors=4)
    rows = pd.DataFrame({"age": [120] * 2000 + [20] * 2000, "school": ["unheard of"] * 4000})
    filled = model.impute(rows, random_state=0)
    assert (filled["age"] == rows["age"]).all()
    assert (filled["school"] == "unheard of").all()
    ill = filled["ill"] == "yes"
    assert ill[:2000].mean() > ill[2000:].mean() + 0.5


def test_frames_of_other_libraries_keep_their_dtypes():
    pa = pytest.importorskip("pyarrow")
    model, rows = fitted(), with_holes(people(300, 5)).drop(columns="id")
    frame = pl.from_pandas(rows).with_columns(pl.col("age").cast(pl.Int16), pl.col("seen").cast(pl.Date), pl.col("gain").cast(pl.Float32))
    filled = model.impute(frame, random_state=0)
    assert filled.schema == frame.schema
    assert sum(filled.null_count().row(0)) == 0
    assert filled["gain"].is_nan().sum() == 0
    for name in frame.columns:
        known = frame[name].is_not_null() & (frame[name].is_not_nan() if frame[name].dtype.is_float() else True)
        assert filled[name].filter(known).equals(frame[name].filter(known))
    table = pa.Table.from_pandas(rows, preserve_index=False)
    arrow = model.impute(table, random_state=0)
    assert arrow.schema.names == table.schema.names
    assert sum(column.null_count for column in arrow.columns) == 0


@pytest.mark.parametrize(
    ("column", "dtype"), [("age", "Int64"), ("age", "float32"), ("age", object), ("ill", "category"), ("ill", "string"), ("seen", object)]
)
def test_dtypes_of_pandas_are_kept_and_levels_that_a_categorical_column_lacks_are_added(column, dtype):
    rows = with_holes(people(300, 5))
    rows["school"] = pd.Categorical([None, "low"] * 150, categories=["low"])
    is_date = column == "seen"
    rows[column] = rows[column].dt.date.where(rows[column].notna(), None) if is_date else rows[column].astype(dtype)
    filled = fitted().impute(rows, random_state=0)
    assert filled[column].dtype == rows[column].dtype
    assert filled[[column, "school"]].notna().all(axis=None)
    assert not is_date or set(map(type, filled[column])) == {datetime.date}
    assert set(filled["school"]) == {"low", "middle", "high"}


@pytest.mark.parametrize("dtype", [float, object])
def test_arrays_are_filled_by_the_numbers_of_their_columns(dtype):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 900), rng.integers(0, 3, 900), rng.random(900)]).astype(dtype)
    schema = {0: (0, 19), 1: Nominal([0, 1, 2], nullable=True), 2: Continuous(0.0, 1.0)}
    model = LatentFactorSynthesizer(schema, epsilon=INF, n_factors=1).fit(X)
    holes = rng.random(X.shape) < 0.3
    rows = X.copy()
    rows[holes] = np.nan if dtype is float else None
    filled = model.impute(rows, random_state=0)
    assert filled.dtype == dtype
    assert (filled[~holes] == X[~holes]).all()
    assert np.isfinite(filled.astype(float)).all()
    assert set(filled[:, 1]) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.zeros((3, 7)), ValueError, "X must be a data frame, as that of fit was, got an array of 7 columns"),
        (pd.DataFrame({"age": [30], "agee": [1]}), ValueError, "'agee' is none of them; drop it"),
        (pd.DataFrame({"age": [30], "ill": [1.0]}), TypeError, "column 'ill' has dtype float64, but its levels"),
        ("rows.csv", TypeError, "X must be a table in memory"),
        (None, TypeError, "X must be a table in memory"),
    ],
)
def test_tables_of_other_columns_are_refused(model, rows, error, message):
    with pytest.raises(error, match=message):
        model.impute(rows)


# Where rules hold


N = 800
RNG = np.random.default_rng(1)
NAMES = ["p", "q", "r"]
CASES = ["chain of five", "impossible levels", "determined by two", "sum within bounds", "missing together", "key of two", "determined"]


@functools.cache
def of_case(name):
    if name == "determined":
        rules = [Determines("a", "b", {"p": 1, "q": 2, "r": 2}), Determines("a", "c", {"p": "x", "q": "x", "r": "y"})]
        schema = Schema({"a": NAMES, "b": (0, 9), "c": ["x", "y"]}, rules=rules)
        frame = pd.DataFrame({"a": RNG.choice(NAMES, N), "b": RNG.integers(0, 10, N), "c": RNG.choice(["x", "y"], N)})
    else:
        frame, schema = case_of(name)
    model = keeping(frame, schema)
    return schema, model, with_holes(model.sample(600, random_state=1))


@pytest.mark.parametrize("name", CASES)
def test_rows_that_can_keep_rules_keep_them_and_no_cell_changes(name):
    schema, model, rows = of_case(name)
    filled = model.impute(rows, random_state=0)
    assert broken(filled, schema) == {}
    assert not filled.isna().any().any()
    for column in rows:
        known = rows[column].notna()
        assert (filled[column][known].to_numpy() == rows[column][known].to_numpy()).all()


def test_given_cells_that_break_a_rule_stay_and_other_rules_hold():
    _, model, _ = of_case("chain of five")
    filled = model.impute(pd.DataFrame({"a": [8.0] * 50, "b": [3.0] * 50, "c": [None] * 50}), random_state=0)
    assert (filled["a"] == 8).all()
    assert (filled["b"] == 3).all()
    assert (filled["c"].astype(float) >= 3).all()


def test_a_level_has_the_law_of_those_that_have_the_value_that_is_there():
    """Within six standard deviations."""
    _, model, _ = of_case("determined")
    filled = model.impute(pd.DataFrame({"a": [None] * 2000, "b": [2.0] * 2000}), random_state=0)
    drawn = model.sample(20_000, random_state=1)["a"].value_counts()
    share = drawn["q"] / (drawn["q"] + drawn["r"])
    assert set(filled["a"]) == {"q", "r"}
    assert (filled["a"] == "q").mean() == pytest.approx(share, abs=6 * 0.5 / 2000**0.5)


def test_parts_share_what_total_and_other_parts_leave_also_of_a_total_that_hardly_any_row_has():
    _, model, _ = of_case("sum within bounds")
    filled = model.impute(pd.DataFrame({"a": [3.0, None], "b": [None, 2.0], "t": [10.0, 9.0]}), random_state=0)
    assert filled.astype(int).to_numpy().tolist() == [[3, 7, 10], [7, 2, 9]]
    schema = Schema({"a": (0, 9), "b": (0, 9), "c": (0, 9), "t": (0, 27)}, rules=[Sum(["a", "b", "c"], "t")])
    parts = pd.DataFrame(RNG.integers(0, 3, (N, 3)), columns=["a", "b", "c"])
    rows = pd.DataFrame({"a": [None, None, 1.0] * 9, "b": [None] * 27, "c": [None] * 27, "t": [27.0, 25, 19] * 9})
    filled = keeping(parts.assign(t=parts.sum(axis=1)), schema).impute(rows, random_state=0)
    assert (filled[["a", "b", "c"]].astype(float).sum(axis=1) == filled["t"]).all()
    assert filled[["a", "b", "c"]].astype(float).stack().between(0, 9).all()


def test_keys_that_are_nearly_all_taken_are_filled_by_those_that_are_left():
    frame = pd.DataFrame({"k": RNG.permutation(N), "b": np.arange(N) % 2})
    model = keeping(frame, Schema({"k": (0, N - 1), "b": (0, 1)}, rules=[Unique("k")]))
    filled = model.impute(frame.assign(k=frame["k"].where(np.arange(N) >= 5)), random_state=0)
    assert sorted(filled["k"].astype(int)) == list(range(N))


def test_conditions_on_a_determined_column_are_those_on_its_levels_and_on_one_of_two_columns_are_refused():
    _, model, _ = of_case("determined")
    rows = model.sample(300, random_state=0, conditions={"b": 2})
    pd.testing.assert_frame_equal(rows, model.sample(300, random_state=0, conditions={"a": ["q", "r"]}))
    assert set(model.sample(50, conditions={"b": (2, None), "c": "x"})["a"]) == {"q"}
    rules = [Determines(["a", "b"], "c", {(x, y): (x == y) + 0 for x in NAMES for y in NAMES})]
    table = pd.DataFrame({"a": RNG.choice(NAMES, N), "b": RNG.choice(NAMES, N), "c": RNG.integers(0, 10, N)})
    two = keeping(table, Schema({"a": NAMES, "b": NAMES, "c": (0, 9)}, rules=rules))
    for of, conditions, words in (
        (model, {"b": 7}, "values that Determines maps to"),
        (model, {"b": 1, "c": "y"}, "leave nothing"),
        (two, {"c": 1}, "follows from 'a', 'b'; name these"),
    ):
        with pytest.raises(ValueError, match=words):
            of.sample(5, conditions=conditions)


def test_twelve_rules_hold_in_a_sample_of_a_stream_and_in_its_batches():
    model = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(TWELVE), epsilon=1.0, delta=1e-6, random_state=0)
    model.partial_fit(patients(4000))
    assert len(model.blocks_) > 1
    assert broken(model.sample(4900, random_state=0), TWELVE) == {}
    assert broken(pd.concat(model.sample_batches(4900, 700, random_state=0)), TWELVE) == {}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_key_that_its_dtype_cannot_hold_is_refused(dtype):
    most = {"float32": 2**24 + 1, "int8": 128}[dtype]
    frame = pd.DataFrame({"k": np.arange(100).astype(dtype), "b": np.arange(100) % 3})
    with pytest.raises(TypeError, match=f"its dtype, {dtype}, cannot hold all values"):
        keeping(frame, Schema({"k": (0, most), "b": (0, 2)}, rules=[Unique("k")]))
    keeping(frame, Schema({"k": (0, most - 1), "b": (0, 2)}, rules=[Unique("k")]))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_a_cell_that_rules_leave_no_value_stays_missing_unless_all_shall_be_complete(library):
    smokes = np.array(["no", "yes"] * 500)
    rows = pd.DataFrame({"smokes": smokes, "packs": np.where(smokes == "yes", 1.5, np.nan)})
    kinds = {"smokes": ["no", "yes"], "packs": Continuous(0.0, 9.0, nullable=True)}
    schema = Schema(kinds, rules=[Impossible({"smokes": "no", "packs": (None, None)})])
    model = LatentFactorSynthesizer(schema, epsilon=INF).fit(library(rows))
    kept = model.impute(library(rows), random_state=0)
    whole = model.impute(library(rows), random_state=0, complete=True)
    assert kept.equals(library(rows))
    found = np.array(whole["packs"])
    assert np.all((found >= 0) & (found <= 9))
    assert np.array_equal(found[smokes == "yes"], rows["packs"][smokes == "yes"])
