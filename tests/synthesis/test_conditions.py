"""Rows on conditions and missing cells of given rows: both have the law of the model given what is known, and keep rules."""

import datetime
import functools
import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws import ALARM, CERTAIN, refuses, same_law
from test_rules_kept import TWELVE, broken, case_of, patients
from test_rules_kept import fitted as keeping

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Continuous, Date, DateTime, Determines, Identifier, Impossible, Nominal, Ordinal, Schema, Sum, Unique

INF = float("inf")
TOWNS = [f"{i:03d}" for i in range(90)]
COLUMNS = {"id": Identifier(labels=True), "age": (18, 99), "gain": Continuous(0.0, 10_000.0, nullable=True)}
COLUMNS |= {"school": Ordinal(["low", "middle", "high"], nullable=True), "ill": ["no", "yes"], "town": Nominal(TOWNS)}
SCHEMA = Schema({**COLUMNS, "seen": Date("2020-01-01", "2020-12-31", nullable=True)})


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.3
    gain = np.where(rng.random(n) < 0.5, 0.0, rng.uniform(0, 10_000, n) ** (1 - 0.3 * ill))
    gain[rng.random(n) < 0.1] = np.nan
    school = rng.choice(np.array(["low", "middle", "high", None], dtype=object), n, p=[0.4, 0.3, 0.2, 0.1])
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 200 + 166 * ill), unit="D"))
    age, ill = np.clip(np.rint(rng.normal(40 + 25 * ill, 9)), 18, 99).astype(int), np.where(ill, "yes", "no").astype(object)
    town = np.array(TOWNS, dtype=object)[rng.integers(0, 89, n)]
    frame = pd.DataFrame({"id": np.arange(n), "age": age, "gain": gain, "school": school, "ill": ill, "town": town})
    return frame.assign(seen=days.where(rng.random(n) > 0.05))


@functools.cache
def fitted(**params):
    settings = {"epsilon": INF, "n_factors": 2, "random_state": 0, "stratify": "ill", **params}
    return LatentFactorSynthesizer(SCHEMA, **settings).fit(people())


@pytest.fixture(scope="module", params=["ill", None])
def model(request):
    return fitted(stratify=request.param)


@pytest.fixture(scope="module")
def stratified():
    return fitted()


def holds(rows, conditions):
    """Whether each row meets conditions, by what pandas says of the cells that came back."""
    out = np.ones(len(rows), dtype=bool)
    for name, want in conditions.items():
        cells = rows[name].astype(object) if str(rows[name].dtype) == "category" else rows[name]
        if want is None:
            out &= cells.isna()
        elif isinstance(want, list):
            out &= cells.isin([each for each in want if each is not None]) | (cells.isna() & (None in want))
        elif isinstance(want, tuple) and name == "school":
            levels = ["low", "middle", "high"]
            out &= cells.isin(levels[levels.index(want[0]) : levels.index(want[1]) + 1])
        elif isinstance(want, tuple):
            low, high = (None if end is None else pd.Timestamp(end) if name == "seen" else end for end in want)
            out &= (cells >= (low if low is not None else cells.min())) & (cells <= (high if high is not None else cells.max()))
        else:
            out &= cells == (pd.Timestamp(want) if name == "seen" else want)
    return out.to_numpy()


CONDITIONS = [
    {"ill": "yes"},
    {"ill": ["yes", "no"], "age": 40},
    {"age": (30, 44)},
    {"age": (None, 35), "ill": "no"},
    {"age": [30, 44, 51]},
    {"gain": (1234.5, 4321.25)},
    {"gain": 0.0},
    {"gain": None, "school": "low"},
    {"school": ["high", None]},
    {"school": ("middle", "high"), "town": TOWNS[3:40]},
    {"town": "017"},
    {"seen": ("2020-02-10", "2020-04-20"), "ill": "no"},
    {"seen": (datetime.date(2020, 3, 1), pd.Timestamp("2020-03-31 12:00"))},
    {"seen": [None], "age": (60, None)},
    {"ill": "yes", "age": (50, 70), "gain": (100.0, None), "school": ["low"], "town": TOWNS[:60], "seen": (None, "2020-11-30")},
]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=str)
def test_every_row_meets_the_conditions(model, conditions, tmp_path):
    rows = model.sample(3000, random_state=1, conditions=conditions)
    assert holds(rows, conditions).all()
    assert list(rows.columns) == list(SCHEMA)
    assert (rows.dtypes == model.sample(3, random_state=1).dtypes).all()
    if conditions is CONDITIONS[-1]:  # rows go to a file too
        model.sample(500, random_state=0, out=tmp_path / "rows.csv", conditions=conditions)
        rows = pd.read_csv(tmp_path / "rows.csv", dtype={"town": str}, parse_dates=["seen"])
        assert len(rows) == 500
        assert holds(rows, conditions).all()


def codes_of(rows):
    """Columns in at most ten classes, for tables of counts."""
    days = (rows["seen"] - pd.Timestamp("2020-01-01")).dt.days
    return {
        "age": np.digitize(rows["age"], [31, 39, 47, 61]),
        "gain": np.where(rows["gain"].isna(), 9, np.digitize(rows["gain"], [1e-9, 800, 2500, 6000])),
        "school": rows["school"].astype(object).map({"low": 0, "middle": 1, "high": 2}).fillna(9).to_numpy(int),
        "ill": (rows["ill"] == "yes").to_numpy(int),
        "town": rows["town"].str[:2].to_numpy(int),
        "seen": np.where(days.isna(), 9, np.digitize(days, [61, 121, 201])),
    }


@pytest.fixture(scope="module")
def crowd(model):
    rows = model.sample(200_000, random_state=7)
    return rows, codes_of(rows)


@pytest.mark.parametrize("conditions", [CONDITIONS[i] for i in (0, 4, 5, 8, 9, 14)], ids=str)
def test_conditional_frequencies_are_those_of_a_large_sample_of_which_rows_are_kept(model, crowd, conditions):
    """Tables of all pairs. Rows of a sample are evener than independent ones, so statistics are no larger than chi squared.

    Where the other columns do not know of the condition, their tables are those of all rows.
    """
    all_rows, everyone = crowd
    met = holds(all_rows, conditions)
    drawn = codes_of(model.sample(20_000, random_state=8, conditions=conditions))
    for first, second in itertools.combinations(drawn, 2):
        assert same_law(10 * everyone[first][met] + everyone[second][met], 10 * drawn[first] + drawn[second]) > ALARM, (first, second)
    if conditions == {"ill": "yes"}:
        assert same_law(everyone["age"], drawn["age"]) < CERTAIN


BAD = {
    "no dict": ([("age", 3)], "must be a dict of column"),
    "a frame": (pd.DataFrame({"age": [30]}), r"must be a dict .*impute\(frame\)"),
    "unknown column": ({"agee": 30}, r"columns of the table, got 'agee'; there are 'id', 'age'"),
    "identifier": ({"id": 3}, r"'id' is Identifier in schema"),
    "unknown level": ({"ill": "maybe"}, r"column 'ill' must be levels of schema, got 'maybe'; it has 'no', 'yes'"),
    "unknown level of many": ({"town": ["001", "x"]}, r"'town' must be levels of schema, got 'x'; it has one of its 90 levels"),
    "a level that is a list": ({"ill": [["no"]]}, "must be levels of schema, got a list of 1"),
    "no order": ({"ill": ("no", "yes")}, "levels have no order"),
    "wrong order of levels": ({"school": ("high", "low")}, "in the order of its levels"),
    "empty range": ({"age": (50, 40)}, r"holds something, got \(50, 40\)"),
    "empty range of whole numbers": ({"age": (40.2, 40.8)}, "holds something"),
    "below the bounds": ({"age": (0, 17)}, r"within its bounds \(18, 99\), got \(0, 17\)"),
    "above the bounds": ({"age": (100, None)}, "within its bounds"),
    "a value outside": ({"age": 120}, "within its bounds"),
    "a list outside": ({"age": [30, 120]}, "within its bounds"),
    "a date outside": ({"seen": "2031-01-01"}, "within its bounds"),
    "three ends": ({"age": (1, 2, 3)}, r"a tuple \(low, high\) .*for several values give a list"),
    "no number": ({"age": "old"}, "must be numbers, got 'old'"),
    "true": ({"age": True}, "must be numbers, got True"),
    "infinity": ({"gain": (0, math.inf)}, "must be numbers, got inf"),
    "not whole": ({"age": 30.5}, "whole numbers, got 30.5"),
    "a list of real numbers": ({"gain": [1.0, 2.0]}, "a list of values is for levels and whole numbers"),
    "an empty list": ({"ill": []}, "an empty list allows nothing"),
    "a dict": ({"age": {"low": 3}}, "must be a value, a list of values"),
    "a matrix": ({"age": np.zeros((2, 2))}, "must be a value, a list of values"),
    "not nullable": ({"age": None}, r"no cell of it may be missing"),
    "nan, not nullable": ({"ill": ["no", float("nan")]}, "no cell of it may be missing"),
    "no date": ({"seen": "soon"}, "must be dates or times, such as '2020-01-31', got 'soon'"),
    "a zone": ({"seen": "2020-01-01T00:00+00:00"}, "leave the offset out"),
    "a time of day": ({"seen": "2020-03-03T10:00"}, "whole days, got '2020-03-03T10:00'; give a range"),
    "probability 0": ({"town": "089", "ill": "no"}, "above 0 in the model, but that on 'town' has none"),  # nobody is from there
}


@pytest.mark.parametrize(("conditions", "message"), BAD.values(), ids=BAD)
def test_conditions_that_no_row_meets_are_refused_in_one_sentence(stratified, conditions, message, tmp_path):
    for method in (stratified.sample, stratified.sample_batches, functools.partial(stratified.sample, out=tmp_path / "rows.csv")):
        with pytest.raises(ValueError, match=message) as caught:
            method(10, conditions=conditions)
        assert str(caught.value).endswith(".")
        assert "conditions" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_conditions_that_exclude_each_other_are_told_together():
    """Of two equal columns: each level occurs, but never two different ones, as far as floats tell."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 3, 500)[:, None], 2, axis=1)
    model = LatentFactorSynthesizer({0: [0, 1, 2], 1: [0, 1, 2]}, stratify=0, epsilon=INF, n_factors=1).fit(X)
    mixture = model.factors_[0]
    mixture.intercepts[:] = -1e6
    for label in range(3):
        mixture.intercepts[:, label, label] = 1e6
    assert (model.sample(5, conditions={0: 1, 1: 1}) == 1).all()
    refuses(ValueError, r"those on 0, 1 together have none", model.sample, 5, conditions={0: 1, 1: 2})


def test_the_published_route_says_that_it_has_no_conditions():
    model = LatentFactorSynthesizer({0: (0.0, 1.0), 1: [0, 1]}, strategy="scores").fit(np.zeros((50, 2)))
    for call in (lambda: model.sample(3, conditions={1: 0}), lambda: model.impute(np.zeros((2, 2)))):
        refuses(ValueError, r"needs strategy='marginals', .* got strategy='scores'; fit with that, or ", call)


def of_column(kind, cells, conditions, n=2000, other=np.uint8):
    """Sample a column on a condition, from a frame with one more."""
    frame = pd.DataFrame({"x": cells, "y": np.arange(len(cells)).astype(other) % 2})
    model = LatentFactorSynthesizer({"x": kind, "y": [0, 1]}, epsilon=INF, n_factors=1).fit(frame)
    return model.sample(n, random_state=0, conditions={"x": conditions})["x"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_short_floats_lie_in_their_range_and_a_value_is_the_nearest(dtype):
    cells = np.random.default_rng(0).random(20_000).astype(dtype)
    for low, high in [(0.25, 0.2502), (0.1, 0.10001 if dtype == "float32" else 0.1002)]:
        x = of_column((0.0, 1.0), cells, (low, high))
        assert x.dtype == dtype
        assert x.astype(float).between(low, high).all()
    assert (of_column((0.0, 1.0), cells, 0.1) == np.array(0.1, dtype=dtype)).all()


def test_real_numbers_in_a_column_of_whole_ones_lie_in_the_range_when_they_are_rounded_or_end_with_the_dtype():
    cells = np.random.default_rng(0).integers(0, 11, 2000).astype(np.int32)
    assert set(of_column((0.0, 10.0), cells, (2.4, 5.0))) == {3, 4, 5}
    assert set(of_column((0.0, 10.0), cells, 7)) == {7}
    short = np.random.default_rng(0).integers(0, 127, 2000).astype(np.int8)
    assert set(of_column((0, 300), short, (120, 130))) <= set(range(120, 128))
    for bounds, given, wanted, words in (
        ((0.0, 10.0), cells, (2.2, 2.8), "its dtype can hold, got .* int32 rounds; widen it"),
        ((0.0, 10.0), cells, 2.5, "its dtype can hold"),
        ((0, 300), short, (200, 250), "dtype can hold"),
    ):
        refuses(ValueError, words, of_column, bounds, given, wanted)


def test_times_that_come_back_as_days_lie_in_the_range_then():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 60, 2000), unit="D")
    frame = pl.DataFrame({"x": days.to_numpy(), "y": np.arange(2000) % 2}).with_columns(pl.col("x").cast(pl.Date))
    schema = {"x": DateTime("2020-01-01", "2020-03-01", resolution="hour"), "y": [0, 1]}
    model = LatentFactorSynthesizer(schema, epsilon=INF, n_factors=1).fit(frame)
    x = model.sample(2000, random_state=0, conditions={"x": ("2020-01-10T12:00", "2020-01-20T06:00")})["x"]
    assert x.dtype == pl.Date
    assert (x.min(), x.max()) == (datetime.date(2020, 1, 11), datetime.date(2020, 1, 20))


def test_times_with_a_zone_are_asked_for_in_any():
    times = pd.Timestamp("2020-01-01", tz="Europe/Berlin") + pd.to_timedelta(np.random.default_rng(0).integers(0, 9999, 2000), unit="min")
    kind = DateTime("2020-01-01T00:00+00:00", "2020-01-09T00:00+00:00", resolution="minute")
    low, high = "2020-01-02T01:00+01:00", "2020-01-02T06:00-01:00"
    x = of_column(kind, times, (low, high))
    assert x.between(pd.Timestamp(low), pd.Timestamp(high)).all()
    assert str(x.dtype).endswith("Europe/Berlin]")
    refuses(ValueError, r"write the offset", of_column, kind, times, "2020-01-02")


@pytest.mark.parametrize(
    "make", [np.asarray, lambda X: X.astype(object), lambda X: X.astype(str).astype(object)], ids=["floats", "objects", "text"]
)
def test_arrays_are_asked_by_the_numbers_of_their_columns(make):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, 900), rng.integers(0, 3, 900)]).astype(float)
    levels = ["0.0", "1.0", "2.0"] if make(X).dtype == object and isinstance(make(X)[0, 0], str) else [0, 1, 2]
    model = LatentFactorSynthesizer({0: (0, 19), 1: levels}, epsilon=INF, n_factors=1).fit(make(X))
    rows = model.sample(200, random_state=0, conditions={np.int64(0): (3, 5), 1: levels[1:]})
    assert set(rows[:, 0].astype(float)) <= {3.0, 4.0, 5.0}
    assert set(rows[:, 1].tolist()) <= set(levels[1:])


def test_conditions_reach_only_the_block_of_a_wide_table():
    """Groups of three columns hang together: given one, the others of it follow, as in a large sample; other groups stay as they were."""
    rng = np.random.default_rng(0)
    noisy = np.repeat(rng.integers(0, 2, (3000, 20)), 3, axis=1) ^ (rng.random((3000, 60)) < 0.15)
    X = pd.DataFrame(noisy, columns=[f"c{i}" for i in range(60)])
    model = LatentFactorSynthesizer({name: [0, 1] for name in X}, epsilon=INF).fit(X)
    assert len(model.factors_) > 1
    rows, everyone = (
        model.sample(20_000, random_state=0, conditions={"c0": 1, "c30": 0, "c59": [0, 1]}),
        model.sample(100_000, random_state=1),
    )
    for column, given, value in (("c1", "c0", 1), ("c31", "c30", 0)):
        assert (rows[given] == value).all()
        assert rows[column].mean() == pytest.approx(everyone.loc[everyone[given] == value, column].mean(), abs=0.02)
    assert abs(rows["c1"].mean() - everyone["c1"].mean()) > 0.1
    assert rows["c20"].mean() == pytest.approx(everyone["c20"].mean(), abs=0.02)
    conditions = {name: int(i % 3 == 0) for i, name in enumerate(X)}
    assert (model.sample(100, random_state=0, conditions=conditions) == list(conditions.values())).all().all()


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
    refuses(error, message, model.impute, rows)


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
        refuses(ValueError, words, of.sample, 5, conditions=conditions)


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
