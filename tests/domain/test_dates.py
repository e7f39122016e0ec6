"""Columns of dates and times: whole numbers for mechanisms, and back in the caller's dtype."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sources import again, matched, values_of

import skdpsynth
from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Date, DateTime, MixedTypeEncoder, Schema

pa = pytest.importorskip("pyarrow")

MOMENT = datetime.datetime(2020, 1, 1, 0, 0, 1)
DATE, TIME = Date("2020-01-01", "2021-12-31"), DateTime("2020-01-01", "2021-12-31T23:59:59")
ZONED = DateTime("2020-01-01T00:00+00:00", "2021-12-31T23:59:59+00:00")


# Kinds


def test_bounds_of_dates_may_be_written_in_many_ways():
    for bounds in [
        ("2015-01-01", "2020-12-31"),
        (pd.Timestamp("2015-01-01"), pd.Timestamp("2020-12-31 10:00")),
        (np.datetime64("2015-01-01"), np.datetime64("2020-12-31T23:00")),
        ("20150101", datetime.datetime(2020, 12, 31, 8)),
    ]:
        assert Date(*bounds) == Date(datetime.date(2015, 1, 1), datetime.date(2020, 12, 31))
        for kind in (Date(*bounds), DateTime(*bounds, nullable=True), DateTime(*bounds, resolution="hour")):
            assert eval(repr(kind)) == kind


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
    ],
)
def test_wrong_bounds_of_times_are_refused_in_one_sentence(make, words):
    with pytest.raises(ValueError, match=rf"^[^\n]*{words}[^\n]*\.$"):
        make()


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2020-01-01", "2021-12-31", "2020-02-29"], DATE),
        (["2020-01-01T00:00:01", "2021-12-31T10:00:00", "2020-02-29T23:59:59"], TIME),
        (["2020-01-01T00:00:01+00:00", "2021-12-31T10:00:00+00:00"], ZONED),
        (["2020-01-01T00:00:01.500", "2020-01-01T12:00:00.000"], DateTime("2020-01-01", "2020-01-02", resolution="millisecond")),
    ],
    ids=["dates", "times", "zone", "milliseconds"],
)
def test_texts_in_iso_format_come_back_as_such(texts, kind):
    assert again(pd.DataFrame({"a": pd.array(texts, dtype="string")}), kind)["a"].tolist() == texts
    assert again(pl.DataFrame({"a": texts}), kind)["a"].to_list() == texts
    out = again(np.array(texts)[:, None], kind)
    assert out.dtype.kind == "U"
    assert out[:, 0].tolist() == texts


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


def test_a_missing_time_is_the_midpoint_where_none_may_be_missing():
    for X in (pd.DataFrame({"a": [pd.NaT, MOMENT]}), pl.DataFrame({"a": [None, MOMENT]}), np.array([["NaT"], ["2020-01-01"]], "M8[s]")):
        assert values_of(X, DATE)[0][0] == DATE.coded.midpoint
        assert np.isnan(values_of(X, Date(DATE.low, DATE.high, nullable=True))[0][0])


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


CELLS = {
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
    "None": (None, None),
    "nan": (float("nan"), None),
    "NaT": (pd.NaT, None),
    "NA": (pd.NA, None),
    "datetime64": (np.datetime64("2020-01-02T10"), 1),
    "datetime64 NaT": (np.datetime64("NaT"), None),
    "datetime64 far": (np.datetime64("99999-01-01"), None),
    "Timestamp": (pd.Timestamp("2020-01-02 10:00", tz="Europe/Berlin"), 1),
    "date": (datetime.date(2020, 1, 2), 1),
    "subclass": (Day(2020, 1, 2), None),
    "timedelta": (datetime.timedelta(1), None),
    "own zone": (datetime.datetime(2020, 1, 2, tzinfo=Evil()), None),
    "zone that warns": (datetime.datetime(2020, 1, 2, tzinfo=Loud()), None),
    "list": (["2020-01-02"], None),
    "bytes": (b"2020-01-02", None),
    "null byte": ("2020-01-02\0", None),
    "surrogate": ("\ud800", None),
}


@pytest.mark.parametrize(("cell", "day"), CELLS.values(), ids=CELLS)
def test_every_cell_of_a_column_of_dates_has_its_place(cell, day):
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = [0, "2020-12-31"]
    X[0, 0] = cell
    for table in (X, pd.DataFrame(X, columns=["a"], dtype=object)):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            (got,) = values_of(table, Date("2020-01-01", "2020-12-31", nullable=True))
        np.testing.assert_array_equal(got, [np.nan if day is None else day, 365])


def test_an_offset_in_a_text_is_turned_into_utc():
    X = pl.DataFrame({"a": ["2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00"]})
    for kind in (DateTime("2020-01-01", "2020-01-02"), ZONED):
        np.testing.assert_array_equal(values_of(X, kind)[0], 0)


# Refusals by dtype


def test_a_dtype_that_can_hold_no_time_within_the_bounds_is_refused():
    X = np.array([["2020-01-01"]], dtype="M8[ns]")
    with pytest.raises(TypeError, match=r"^column 0 has dtype [^\n]*no time within its bounds"):
        MixedTypeEncoder({0: Date("1500-01-01", "1600-01-01")}).fit(X)
    MixedTypeEncoder({0: Date("1500-01-01", "1700-01-01")}).fit(X)


def test_times_beyond_a_dtype_are_the_last_that_it_can_hold():
    table, _ = matched(np.array([["2020-01-01"]], dtype="M8[ns]"), Date("1500-01-01", "2500-01-01"))
    out = table.fill([np.array([0.0, 365_000.0])])
    assert out.astype("M8[Y]").astype(str)[:, 0].tolist() == ["1677", "2262"]


# Everything downstream


def visits(n=400):
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    return pd.DataFrame({"day": start, "late": np.where(start > "2021-01-01", "yes", "no")})


SCHEMA = {"day": Date("2020-01-01", "2021-12-31"), "late": ["no", "yes"]}


def test_synthetic_dates_depend_on_other_columns_and_survive_saving(tmp_path):
    X = visits(1000)
    model = LatentFactorSynthesizer(SCHEMA, epsilon=float("inf")).fit(X)
    out = model.sample(1000, random_state=0)
    assert out.dtypes.equals(X.dtypes)
    assert out["day"].between("2020-01-01", "2021-12-31").all()
    assert (out["day"] == out["day"].dt.normalize()).all()
    assert out["day"][out["late"] == "yes"].mean() > out["day"][out["late"] == "no"].mean()
    model.save(tmp_path / "model.zip")
    again = skdpsynth.load(tmp_path / "model.zip")
    assert again.schema_ == model.schema_ == Schema(SCHEMA)
    pd.testing.assert_frame_equal(again.sample(20, random_state=1), model.sample(20, random_state=1))


def test_encoder_scales_dates_by_their_bounds_and_decodes_them():
    X = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-07-01", "2020-12-31"])})
    encoder = MixedTypeEncoder({"day": ("2020-01-01", "2020-12-31")}).fit(X)
    np.testing.assert_allclose(encoder.transform(X)[:, 0], [0, 182 / 365, 1])
    pd.testing.assert_frame_equal(encoder.inverse_transform(encoder.transform(X)), X)
    assert encoder.get_feature_names_out().tolist() == ["day"]
