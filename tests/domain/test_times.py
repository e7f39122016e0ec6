"""Columns of dates in any form, times of day, durations and times that are computed: whole numbers for mechanisms, and back."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sources import again, duck, matched, values_of

from skdpsynth import LatentFactorSynthesizer, load
from skdpsynth.domain import Continuous, Date, DateTime, Derived, Duration, Inequality, MixedTypeEncoder, Schema, TimeOfDay

pa = pytest.importorskip("pyarrow")
YEARS = ("2015-01-01", "2025-12-31")
DATE, TIME = Date("2020-01-01", "2021-12-31"), DateTime("2020-01-01", "2021-12-31T23:59:59")
ZONED = DateTime("2020-01-01T00:00+00:00", "2021-12-31T23:59:59+00:00")
# Kinds


def test_bounds_with_a_zone_are_kept_in_utc():
    kind = DateTime("2020-01-01T01:00+01:00", "2020-12-31T00:00-01:00")
    assert (kind.low.isoformat(), kind.high.isoformat()) == ("2020-01-01T00:00:00+00:00", "2020-12-31T01:00:00+00:00")


def test_a_tuple_of_days_means_dates_and_one_with_a_time_of_day_times():
    day, time = datetime.date(2020, 1, 1), datetime.datetime(2019, 1, 1)
    days = [("2020-01-01", "2020-12-31"), (day, datetime.date(2020, 12, 31)), tuple(np.array(["2020-01-01", "2020-12-31"], "M8[D]"))]
    times = [("2020-01-01", "2020-12-31T10:00"), (time, day), (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-12-31"))]
    times += [tuple(np.array(["2020-01-01T00", "2020-12-31T00"], "M8[h]"))]
    assert {type(Schema({"a": bounds})["a"]) for bounds in days} == {Date}
    assert {type(Schema({"a": bounds})["a"]) for bounds in times} == {DateTime}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Date("2020-01-01", "2020-01-01"), "low < high"),
        (lambda: Date("2020-12-31", "2020-01-01"), "low < high"),
        (lambda: Date("2020-01-01", "soon"), "two dates or times"),
        (lambda: Date("2020-01-01", None), "two dates or times"),
        (lambda: Date(pd.NaT, "2020-01-01"), "two dates or times"),
        (lambda: Date(np.datetime64("NaT"), "2020-01-01"), "two dates or times"),
        (lambda: Date(2015, 2020), "two dates or times"),
        (lambda: Date("2020-01-01T00:00+00:00", "2020-12-31T00:00+00:00"), "use DateTime"),
        (lambda: DateTime("2020-01-01T00:00+00:00", "2020-12-31"), "both have a time zone or neither"),
        (lambda: DateTime("2020-01-01", "2020-01-02", resolution="month"), "resolution must be one of"),
        (lambda: DateTime("2020-01-01T10:00:01", "2020-01-01T10:00:59", resolution="minute"), "low < high"),
        (lambda: DateTime("1500-01-01", "2020-01-02", resolution="microsecond"), "coarser resolution"),
        (lambda: Date("2020-01-01", "2020-12-31", nullable=3), "nullable must be"),
        (lambda: Date("2020-01-01", bounds="private"), "without low and high"),
        (lambda: Date(bounds="auto"), "'private' or 'open'"),
        (lambda: Date(*YEARS, format="%d/%m"), "format must be"),
        (lambda: Date(*YEARS, format="soon"), "format must be"),
        (lambda: Date(*YEARS, format=3), "format must be"),
        (lambda: Date(*YEARS, format="%H:%M"), "format must be one of dates"),
        (lambda: TimeOfDay(format="%Y-%m"), "format must be one of times of day"),
        (lambda: TimeOfDay("10:00", "9:00"), "low < high"),
        (lambda: TimeOfDay(9, 10), "times of day in quotes"),
        (lambda: Duration("long", 10), "two durations"),
        (lambda: Derived("a + b", gives="moment"), "gives must be"),
        (lambda: Derived("a + b", format="%Y"), "gives must be"),
        (lambda: Schema({"a": TimeOfDay(), "b": Duration(0, 9)}, rules=[Inequality("a", "b")]), "Inequality must be between"),
    ],
)
def test_wrong_facts_of_times_are_refused_in_one_sentence(make, words):
    with pytest.raises(ValueError, match=rf"^[^\n]*{words}[^\n]*\.$"):
        make()


# Where cells go
RESOLUTIONS = ["day", "hour", "minute", "second", "millisecond", "microsecond"]


def test_times_are_cut_to_the_resolution_and_clipped_to_the_bounds():
    times = {"a": [datetime.datetime(1800, 1, 1), datetime.datetime(2020, 1, 2, 23, 59, 59), datetime.datetime(2999, 1, 1)]}
    for X in (pd.DataFrame(times), pl.DataFrame(times), np.array(times["a"], dtype="M8[us]")[:, None]):
        np.testing.assert_array_equal(values_of(X, Date("2020-01-01", "2020-12-31"))[0], [0, 1, 365])
        np.testing.assert_array_equal(values_of(X, DateTime("2020-01-01", "2020-12-31", resolution="hour"))[0], [0, 47, 365 * 24])
        np.testing.assert_array_equal(values_of(X, DateTime("2020-01-01T00:30", "2020-12-31", resolution="hour"))[0], [0, 47, 365 * 24])


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_the_farthest_times_of_every_unit_are_clipped_to_the_bounds(unit, resolution):
    """No product of 64 bits overflows on the way: the law compares with whole numbers of Python."""
    X = np.array([-(2**63) + 1, -1, 0, 1, 2**63 - 1]).view(f"M8[{unit}]")[:, None]
    kind = DateTime("1969-12-31T23:59:59.999", "1970-01-01T00:00:01", resolution=resolution, nullable=True)
    if resolution == "day":
        kind = DateTime("1969-12-30", "1970-01-03", resolution=resolution, nullable=True)
    per_day = {"D": 1, "h": 24, "m": 1440, "s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}
    ours = dict(zip(RESOLUTIONS, per_day.values(), strict=False))[resolution]
    assert DateTime("2020-01-01", "2020-01-02", resolution=resolution).coded == Continuous(0, ours)
    wanted = [min(max(int(v) * ours // per_day[unit] - kind.first, 0), kind.coded.high) for v in X.view(np.int64)[:, 0]]
    np.testing.assert_array_equal(values_of(X, kind)[0], wanted)


class Evil(datetime.tzinfo):
    def utcoffset(self, moment):
        raise RuntimeError("secret")


class Loud(datetime.tzinfo):
    def utcoffset(self, moment):
        warnings.warn("secret", UserWarning, stacklevel=2)
        return datetime.timedelta(0)


class Day(datetime.date):
    def __sub__(self, other):
        raise RuntimeError("secret")


CELLS_OF_DATES = {
    "text": ("secret", None),
    "number": (20200101, None),
    "text of a number": ("20200102", 1),
    "week": ("2020-W01-4", 1),
    "month": ("2020-01", None),
    "spaces": (" 2020-01-02", None),
    "American": ("01/02/2020", None),
    "time": ("2020-01-02 23:59:59.999999", 1),
    "offset": ("2020-01-02T23:59:59-05:00", 1),
    "leap": ("2021-02-29", None),
    "NaT": (pd.NaT, None),
    "datetime64": (np.datetime64("2020-01-02T10"), 1),
    "datetime64 NaT": (np.datetime64("NaT"), None),
    "datetime64 far": (np.datetime64("99999-01-01"), None),
    "Timestamp": (pd.Timestamp("2020-01-02 10:00", tz="Europe/Berlin"), 1),
    "date": (datetime.date(2020, 1, 2), 1),
    "subclass": (Day(2020, 1, 2), None),
    "timedelta": (datetime.timedelta(1), None),
    "own zone": (datetime.datetime(2020, 1, 2, tzinfo=Evil()), None),
    "zone that warns": (datetime.datetime(2020, 1, 2, tzinfo=Loud()), None),
    "bytes": (b"2020-01-02", None),
    "null byte": ("2020-01-02\0", None),
    "surrogate": ("\ud800", None),
}


@pytest.mark.parametrize(("cell", "day"), CELLS_OF_DATES.values(), ids=CELLS_OF_DATES)
def test_every_cell_of_a_column_of_dates_has_its_place(cell, day):
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = [0, "2020-12-31"]
    X[0, 0] = cell
    for table in (X, pd.DataFrame(X, columns=["a"], dtype=object)):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            (got,) = values_of(table, Date("2020-01-01", "2020-12-31", nullable=True))
        np.testing.assert_array_equal(got, [np.nan if day is None else day, 365])


def test_a_dtype_that_can_hold_no_time_within_the_bounds_is_refused():
    X = np.array([["2020-01-01"]], dtype="M8[ns]")
    with pytest.raises(TypeError, match=r"^column 0 has dtype [^\n]*no time within its bounds"):
        MixedTypeEncoder({0: Date("1500-01-01", "1600-01-01")}).fit(X)
    MixedTypeEncoder({0: Date("1500-01-01", "1700-01-01")}).fit(X)


def test_times_beyond_a_dtype_are_the_last_that_it_can_hold():
    table, _ = matched(np.array([["2020-01-01"]], dtype="M8[ns]"), Date("1500-01-01", "2500-01-01"))
    out = table.fill([np.array([0.0, 365_000.0])])
    assert out.astype("M8[Y]").astype(str)[:, 0].tolist() == ["1677", "2262"]


CLOCK, WAIT = datetime.time, datetime.timedelta


def cells(table):
    column = table[:, 0] if isinstance(table, np.ndarray) else table["a"]
    listed = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist() if hasattr(column, "tolist") else column.to_list()
    return [None if cell is None or cell is pd.NA or cell != cell else cell for cell in listed]


def dtype_of(table):
    return str(next(getattr(table, name) for name in ("schema", "dtypes", "dtype") if hasattr(table, name)))


FORMS = [
    (DATE, ["2020-01-01", "2021-12-31", "2020-02-29"]),
    (TIME, ["2020-01-01T00:00:01", "2021-12-31T10:00:00", "2020-02-29T23:59:59"]),
    (ZONED, ["2020-01-01T00:00:01+00:00", "2021-12-31T10:00:00+00:00"]),
    (DateTime("2020-01-01", "2020-01-02", resolution="millisecond"), ["2020-01-01T00:00:01.500", "2020-01-01T12:00:00.000"]),
    (Date(*YEARS, format="%d/%m/%Y"), ["31/12/2024", "01/02/2020"]),
    (Date(*YEARS, format="mm/dd/yyyy"), ["12/31/2024", "02/01/2020"]),
    (Date(*YEARS, format="m/d/yyyy"), ["12/31/2024", "2/1/2020"]),
    (Date(*YEARS, format="dd-mm-yyyy"), ["31-12-2024", "01-02-2020"]),
    (Date(*YEARS, format="yyyymmdd"), ["20241231", "20200201"]),
    (Date(*YEARS, format="%d %b %y"), ["31 Dec 24", "01 Feb 20"]),
    (Date("2015-01", "2025-12", format="%Y-%m"), ["2024-12", "2020-02"]),
    (Date("2015Q1", "2025Q4", format="yyyyQq"), ["2024Q4", "2020Q1"]),
    (DateTime(*YEARS, format="%Y-%m-%d %H:%M:%S"), ["2019-03-23 20:21:09"]),
    (DateTime(*YEARS, format="dd/mm/yyyy hh:mm"), ["23/03/2019 20:21"]),
    (DateTime("2015-01-01T00:00Z", "2025-12-31T00:00Z", format="%Y-%m-%dT%H:%M:%SZ"), ["2019-03-23T20:21:09Z"]),
    (TimeOfDay(), ["09:51:00", "23:59:59"]),
    (TimeOfDay("00:00", "29:59", format="%H:%M:%S"), ["25:45:00", "09:51:00"]),
    (TimeOfDay(resolution="minute"), ["09:51"]),
    (TimeOfDay(format="%I:%M %p"), ["12:05 AM", "01:00 PM"]),
    (TimeOfDay(format="%H%M"), ["0005", "2359"]),
    (Duration(0, "9 days"), ["26:05:00", "00:00:01"]),
    (Duration("-1:30:00", "1:30:00", resolution="minute"), ["-01:30", "00:05"]),
    (Duration(0, 90, resolution="day"), ["2 days", "90 days"]),
]


@pytest.mark.parametrize(("kind", "texts"), FORMS, ids=[texts[0] for _, texts in FORMS])
def test_text_comes_back_in_the_form_that_the_schema_states(kind, texts):
    for X in (pd.DataFrame({"a": pd.array(texts, dtype="string")}), pl.DataFrame({"a": texts}), pa.table({"a": texts})):
        assert cells(again(X, kind)) == texts
    assert cells(again(np.array(texts)[:, None], kind)) == texts
    assert eval(repr(kind)) == kind
    schema = Schema({"a": kind})
    assert Schema.from_yaml(schema.to_yaml()) == Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [(Date("1500-01-01", "2020-12-31", format="%Y%m%d"), [15550217, 19800101]), (TimeOfDay(format="%H%M"), [5, 951, 2359])],
)
def test_whole_numbers_come_back_as_whole_numbers(kind, numbers):
    may_miss = type(kind)(kind.low, kind.high, format=kind.format, nullable=True)
    for X in (pd.DataFrame({"a": numbers}), pl.DataFrame({"a": numbers}), pa.table({"a": numbers}), np.array(numbers)[:, None]):
        assert cells(again(X, kind)) == numbers
    for X in (pd.DataFrame({"a": [*numbers, None]}), pl.DataFrame({"a": [*numbers, None]}), pa.table({"a": [*numbers, None]})):
        assert cells(again(X, may_miss)) == [*numbers, None]
    odd = [-1, 0.5, 1e300, np.inf, np.nan, 1275 if kind.form.width == 4 else 20200230]
    assert np.isnan(values_of(np.array(odd)[:, None], may_miss)[0]).sum() == 6
    with pytest.raises(TypeError, match="more bits"):
        values_of(pd.DataFrame({"a": np.array([1], dtype=np.int8)}), kind)


OBJECTS = [
    (TimeOfDay(nullable=True), [CLOCK(9, 51), CLOCK(23, 59, 59), None], [pa.time32("s"), pa.time64("us"), pa.time64("ns")]),
    (
        Duration(0, "9 days", nullable=True),
        [WAIT(minutes=15), WAIT(days=2), None],
        [pa.duration("s"), pa.duration("ms"), pa.duration("ns")],
    ),
]


@pytest.mark.parametrize(("kind", "objects", "dtypes"), OBJECTS, ids=["times of day", "durations"])
def test_times_of_day_and_durations_come_back_in_their_dtype(kind, objects, dtypes):
    frames = [pl.DataFrame({"a": objects}), pa.table({"a": objects}), pd.DataFrame({"a": pd.Series(objects, dtype=object)})]
    frames += [pd.DataFrame({"a": pd.array(objects, dtype=pd.ArrowDtype(dtype))}) for dtype in dtypes]
    for X in frames:
        back = again(X, kind)
        assert dtype_of(back) == dtype_of(X)
        assert cells(back) == objects
    if isinstance(kind, Duration):
        for X in (pd.DataFrame({"a": pd.to_timedelta(objects)}), np.array(objects, dtype="m8[s]")[:, None]):
            back = again(X, kind)
            assert dtype_of(back) == dtype_of(X)
            assert cells(back)[:2] == objects[:2]
    model = LatentFactorSynthesizer({"a": kind, "g": ["p", "q"]}, n_factors=1).fit(
        duck(pl.DataFrame({"a": objects * 9, "g": [*"pqp"] * 9}))
    )
    assert str(model.sample(3).schema.field("a").type) in ("time64[us]", "duration[us]")


CELLS = {  # in seconds; None: no such thing
    "time of day": (TimeOfDay("00:00", "29:59", nullable=True), {"25:45:00": 92_700, "9:51": 35_460, "9:51:00.9": 35_460, "9:60": None}),
    "duration": (
        Duration(0, "9 days", nullable=True),
        {
            "PT1H30M": 5400,
            "90 min": 5400,
            "1 day, 1:00:00": 90_000,
            "1 days 01:00:00": 90_000,
            "-1 days +02:00:00": 0,
            "P1M": None,
            "soon": None,
        },
    ),
}


@pytest.mark.parametrize(("kind", "texts"), CELLS.values(), ids=CELLS)
def test_every_text_has_its_place(kind, texts):
    (found,) = values_of(pl.DataFrame({"a": [*texts, "9" * 400]}), kind)
    np.testing.assert_array_equal(found, [np.nan if each is None else each for each in texts.values()] + [np.nan])


def test_rules_hold_where_a_form_tells_months_alone():
    n, rng = 400, np.random.default_rng(0)
    begin = rng.integers(0, 60, n)
    months = np.datetime_as_string(np.datetime64("2018-01") + np.array([begin, begin + rng.integers(0, 5, n)]))
    kind = Date("2017-01", "2026-12", format="%Y-%m")
    schema = Schema({"a": kind, "b": kind}, rules=[Inequality("a", "b")])
    rows = LatentFactorSynthesizer(schema, epsilon=0.1, random_state=0).fit(pd.DataFrame({"a": months[0], "b": months[1]})).sample(500)
    assert (rows["a"] <= rows["b"]).all()
    assert rows["a"].between("2017-01", "2026-12").all()


@pytest.mark.parametrize("suffix", ["csv", "pandas", "polars"])
def test_a_computed_time_agrees_with_its_inputs_in_every_table(suffix, tmp_path):
    n, rng = 300, np.random.default_rng(0)
    start = np.datetime64("2020-01-01T00:00", "s") + rng.integers(0, 10**7, n).astype("m8[s]")
    X = pd.DataFrame(
        {"start": start, "mins": rng.integers(0, 60, n), "born": start.astype("M8[D]").astype("M8[s]"), "end": start, "wait": 1.0}
    )
    schema = {
        "start": DateTime("2020-01-01", "2020-12-31"),
        "mins": (0, 60),
        "born": Date("2020-01-01", "2020-12-31"),
        "end": Derived("start + mins * 60", gives="datetime"),
        "wait": Derived("end - start"),
    }
    assert Schema.from_yaml(Schema(schema).to_yaml()) == Schema(schema)
    if suffix == "csv":
        X.to_csv(tmp_path / "a.csv", index=False)
    model = LatentFactorSynthesizer(schema, n_factors=1).fit({"csv": tmp_path / "a.csv", "pandas": X}.get(suffix, pl.from_pandas(X)))
    model.save(tmp_path / "model.zip")
    rows = load(tmp_path / "model.zip").sample(50)
    if suffix == "pandas":
        assert rows["end"].dtype == X["end"].dtype
    end, start = (pd.to_datetime(pd.Series(list(rows[name]))) for name in ("end", "start"))
    np.testing.assert_array_equal((end - start).dt.total_seconds(), np.array(rows["mins"]) * 60)
    np.testing.assert_array_equal(rows["wait"], np.array(rows["mins"]) * 60)


def test_times_add_up_in_days_beside_dates_and_in_seconds_beside_times():
    schema = Schema(
        {
            "admission": Date(*YEARS, format="dd/mm/yyyy"),
            "stay": Duration(0, 90, resolution="day"),
            "clock": TimeOfDay(),
            "discharge": Derived("admission + stay", gives="date", format="dd/mm/yyyy"),
            "month": Derived("discharge", gives="date", format="yyyy-mm"),
            "again": Derived("discharge - admission", gives="duration"),
            "moment": Derived("admission * 86400 + clock", gives="datetime"),
            "later": Derived("clock + stay", bounds=("00:00", "30:00"), gives="time"),
        }
    )
    text = {"admission": ["20/03/2020", "31/12/2023"], "stay": ["3 days", "1 days"], "clock": ["10:00:00", "23:00:00"]}
    X = pl.DataFrame({**text, **dict.fromkeys(list(schema)[3:], "")})
    assert again(X, dict(schema)).to_dict(as_series=False) == text | {
        "discharge": ["23/03/2020", "01/01/2024"],
        "month": ["2020-03", "2024-01"],
        "again": ["72:00:00", "24:00:00"],
        "moment": ["2020-03-20T10:00:00", "2023-12-31T23:00:00"],
        "later": ["30:00:00", "30:00:00"],
    }
    assert {each.problem for each in schema.check(again(X, dict(schema)))} <= {"constant"}


SENTINELS = [  # kind, cells that stand for missing ones, cells that do not
    (Date(*YEARS, format="dd/mm/yyyy", missing=["01/01/1900"]), ["01/01/1900", "1/1/1900"], ["02/01/2020"]),
    (Date(*YEARS, format="dd/mm/yyyy", missing=[datetime.date(1900, 1, 1)]), ["01/01/1900"], ["01/01/2020"]),
    (Date(*YEARS, format="yyyymmdd", missing=[20201231]), [20201231], [20201230]),
    (Date("2015-01", "2025-12", format="%Y-%m", missing=["2020-01"]), ["2020-01"], ["2020-02"]),
    (DateTime(*YEARS, format="dd/mm/yyyy hh:mm", missing=["01/01/1900 00:00"]), ["01/01/1900 00:00"], ["01/01/1900 00:01"]),
    (TimeOfDay(missing=["00:00"]), ["0:00", "00:00:00"], ["00:00:01"]),
    (TimeOfDay(format="%H%M", missing=[2359]), [2359], [2358, 0]),
    (TimeOfDay(missing=["00:00"]), [CLOCK(0)], [CLOCK(1)]),
    (Duration(0, "9 days", missing=[-1, "99 h", WAIT(days=7)]), ["-1 s", "99:00:00", "7 days"], ["-2 s", "98:00:00"]),
    (Duration(0, 90, resolution="day", missing=[99]), [WAIT(99)], [WAIT(98)]),
]


@pytest.mark.parametrize(("kind", "gone", "others"), SENTINELS, ids=[repr(kind) for kind, _, _ in SENTINELS])
def test_times_that_stand_for_missing_cells_do_so_in_every_form(kind, gone, others):
    assert kind.nullable
    assert eval(repr(kind)) == kind
    schema = Schema({"a": kind})
    assert Schema.from_yaml(schema.to_yaml()) == Schema.from_json(schema.to_json()) == schema
    cells = [*gone, *others]
    for X in (pd.DataFrame({"a": cells}), pl.DataFrame({"a": cells}), pa.table({"a": cells}), np.array(cells, dtype=object)[:, None]):
        assert np.isnan(values_of(X, kind)[0]).tolist() == [True] * len(gone) + [False] * len(others)
    assert "no time" not in {each.problem for each in schema.check(pd.DataFrame({"a": cells}))}


@pytest.mark.parametrize("kind", [Date("2020-05-01", "2020-05-20"), DateTime("2020-05-01T00:00", "2020-05-01T20:00")])
def test_check_proposes_no_form_in_which_the_bounds_would_be_equal(kind):
    (found,) = Schema({"a": kind}).check(pd.DataFrame({"a": ["01/05/2020 10:00", "02/05/2020 11:00"]}))
    assert found.problem == "no time"


def test_skeletons_name_forms_that_are_plain_and_ask_for_the_others(tmp_path):
    columns = {
        "iso": "2024-05-06",
        "dmy": "31/12/2024",
        "dmyt": "1.2.2024 10:00",
        "month": "2024-05",
        "quarter": "2024Q1",
        "clock": "09:51",
    }
    columns |= {"late": "25:45:00", "number": "20240506"}
    pd.DataFrame({name: [cell] * 3 for name, cell in columns.items()}).to_csv(tmp_path / "a.csv", index=False)
    schema = Schema.skeleton(tmp_path / "a.csv")
    assert {name: type(kind).__name__ for name, kind in schema.items() if name != "number"} == dict(
        zip(columns, ["Date", "Date", "DateTime", "Date", "Date", "TimeOfDay", "TimeOfDay"], strict=False)
    )
    assert [getattr(kind, "format", None) for kind in schema.values()] == [None, "open", "open", "yyyy-mm", "yyyyQq", None, None, None]
    assert schema.to_yaml().count("format: open  # TODO") == 2
    assert Schema.from_yaml(schema.to_yaml()) == schema
    with pytest.raises(ValueError, match="'a' has open format"):
        LatentFactorSynthesizer({"a": Date(*YEARS, format="open")}).fit(pd.DataFrame({"a": ["31/12/2024"]}))


def test_check_names_rows_that_are_no_times_and_a_form_that_reads_them():
    X = pd.DataFrame({"a": [f"{day:02d}/05/2024" for day in range(1, 32)] + ["soon"]})
    for table in (X, pl.from_pandas(X)):
        (found,) = Schema({"a": Date(*YEARS)}).check(table)
        assert (found.problem, found.rows) == ("no time", 32)
        assert "'01/05/2024' in row 0" in found.told
        assert "format='dd/mm/yyyy' (read from rows" in found.told
    (found,) = Schema({"a": Date(*YEARS, format="dd/mm/yyyy")}).check(X)
    assert (found.rows, "'soon' in row 31" in found.told, "format=" in found.told) == (1, True, False)
