"""Columns of dates and times, read as whole numbers since their lower bound, and written back as they came."""

import datetime
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth.domain import Date, Times
from skdpsynth.frames import family_of, is_pandas_column, pandas_dtype, pandas_dtype_name, time_of

_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_UNITS = {"day": "D", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms", "microsecond": "us"}
_LEAST = np.iinfo(np.int64).min  # stands for NaT
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_ZONES = ("datetime", "zoneinfo", "pytz", "dateutil", "pandas")  # whose code may be asked for an offset


@np.errstate(all="ignore")
def read_times(column: Any, kind: Times, dtype: str) -> np.ndarray:
    """Return the units of the resolution since the lower bound, as floats: cut, then clipped; NaN where there is no time.

    No cell raises, and none of a class of the caller's own is asked.
    """
    stamps = stamps_of(column) if time_of(dtype) is not None else parse_times(column, kind)
    since = units_of(stamps, kind)
    return np.where(np.isnat(stamps) | is_missing_time(stamps, kind), np.nan, np.clip(since, 0, kind.coded.high))


def is_missing_time(stamps: np.ndarray, kind: Times) -> np.ndarray:
    """Which stamps are times that stand for a missing cell; of dates, by their day."""
    if not kind.missing:
        return np.zeros(len(stamps), dtype=bool)
    per_day = _PER_DAY[str(np.datetime_data(stamps.dtype)[0])]
    numbers, grain = stamps.view(np.int64), per_day if isinstance(kind, Date) else 1
    stated = [Fraction(int(each), _PER_DAY["us"]) * per_day // grain for each in _each(list(kind.missing), kind) if each != _LEAST]
    return np.isin(numbers // grain, [int(each) for each in stated if abs(each) < -_LEAST and each == int(each)])


def units_of(stamps: np.ndarray, kind: Times) -> np.ndarray:
    """Return units of the resolution since the lower bound, whole numbers; those far outside the bounds are clipped."""
    unit, last = str(np.datetime_data(stamps.dtype)[0]), kind.first + kind.coded.high
    ours, theirs = _PER_DAY[_UNITS[kind.resolution]], _PER_DAY[unit]
    numbers = stamps.astype(f"datetime64[{unit}]").view(np.int64)
    if theirs >= ours:
        numbers = numbers // (theirs // ours)
    # One unit beyond the bounds is enough to tell what lies outside, and no product below overflows.
    step = max(ours // theirs, 1)
    return np.clip(numbers, *_in_int64(kind.first // step - 1, -(-last // step) + 1)) * step - kind.first


def _in_int64(low: int, high: int) -> tuple[int, int]:
    return max(low, _LEAST + 1), min(high, -_LEAST - 1)


def stamps_of(column: Any) -> np.ndarray:
    """Return a column of a dtype of times as datetime64, in UTC where it has a zone."""
    if isinstance(column, np.ndarray):
        return _days_or_finer(np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("=")))
    if is_pandas_column(column) and hasattr(column.array, "__arrow_array__") and str(column.dtype).endswith("[pyarrow]"):
        return column.array.__arrow_array__().to_numpy()
    if is_pandas_column(column):
        unit = getattr(column.dtype, "unit", None) or np.datetime_data(column.dtype)[0]
        return column.to_numpy(dtype=f"datetime64[{unit}]")  # of zones: UTC
    return column.to_numpy()


def _days_or_finer(stamps: np.ndarray) -> np.ndarray:
    """Return years, months and weeks as days, which are all that they are counted in here."""
    return stamps if np.datetime_data(stamps.dtype)[0] in _PER_DAY else stamps.astype("datetime64[D]")


def parse_times(column: Any, kind: Times) -> np.ndarray:
    """Return cells that are texts or objects as datetime64; what is no time is NaT."""
    if is_pandas_column(column) and family_of(pandas_dtype_name(column.dtype)) == "text":
        import pandas as pd

        places, texts = pd.factorize(column)
        return np.append(_each(texts.tolist(), kind), np.int64(_LEAST))[places].view("datetime64[us]")
    if getattr(getattr(column, "implementation", None), "value", None) == "polars" and str(column.dtype) == "String":
        import polars as pl

        texts = column.to_native().unique().drop_nulls()
        times = pl.Series(_each(texts.to_list(), kind), dtype=pl.Int64)
        return column.to_native().replace_strict(texts, times, default=_LEAST, return_dtype=pl.Int64).to_numpy().view("datetime64[us]")
    return _each(column.to_list() if hasattr(column, "to_list") else column.tolist(), kind).view("datetime64[us]")


def _each(cells: list[Any], kind: Times) -> np.ndarray:
    """Return microseconds since 1970 of cells, those of NaT where there is no time."""
    known: dict[str, int] = {}  # a text is read once, however often it stands there
    out = np.full(len(cells), _LEAST, dtype=np.int64)
    for i, cell in enumerate(cells):
        if type(cell) is str:
            found = known.get(cell)
            if found is None:
                known[cell] = found = _microseconds(cell, kind)
            out[i] = found
        elif type(cell) is datetime.date:
            out[i] = (cell.toordinal() - _EPOCH_DAY) * _PER_DAY["us"]
        elif cell is not None:
            out[i] = _microseconds(cell, kind)
    return out


def _microseconds(cell: Any, kind: Times) -> int:
    """Return microseconds since 1970 of one cell, that of NaT if it is no time."""
    try:
        moment = _moment(cell)
        if moment is None:
            return _LEAST
        if moment.tzinfo is not None:
            if type(moment.tzinfo).__module__.split(".")[0] not in _ZONES:
                return _LEAST
            # A date is that of the cell's own zone; a time is one in UTC.
            moment = moment.replace(tzinfo=None) - (moment.utcoffset() or datetime.timedelta()) * (not isinstance(kind, Date))
        return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    except Exception:
        return _LEAST


def _moment(cell: Any) -> datetime.datetime | None:
    """Return a cell as a time, if it is one or a text that reads as one."""
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    elif type(cell) is str:
        cell = datetime.datetime.fromisoformat(cell)
    elif type(cell).__module__.split(".")[0] == "pandas" and hasattr(cell, "to_pydatetime"):
        cell = cell.to_pydatetime(warn=False) if cell == cell else None
    if type(cell) is datetime.date:
        return datetime.datetime.combine(cell, datetime.time())
    return cell if type(cell) is datetime.datetime else None


def times_out(values: np.ndarray, kind: Times, backend: Any, dtype: str) -> Any:
    """Return values, as `read_times` gives them, as a column of a data-frame library."""
    time = time_of(dtype)
    if time is None:
        return _words_out(values, kind, backend, dtype)
    unit, zone = time
    stamps = _stamps_out(values, kind, unit)
    if backend != "pandas":
        import narwhals.stable.v2 as nw

        column = nw.new_series("", stamps, nw.Date() if unit == "D" else nw.Datetime(unit), backend=backend)  # type: ignore[arg-type]
        return column if zone is None else column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    import pandas as pd

    target = pandas_dtype(dtype)
    if zone is None:
        return pd.array(stamps, dtype=target)
    if dtype.endswith("[pyarrow]"):
        import pyarrow as pa

        return pd.arrays.ArrowExtensionArray(pa.array(stamps).cast(target.pyarrow_dtype))  # of UTC; pandas would take it as in the zone
    return pd.array(pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(target.tz), dtype=target)


def time_cells(values: np.ndarray, kind: Times, dtype: np.dtype) -> np.ndarray:
    """Return values as cells of an array of numpy: of times, of texts in ISO format, or of objects of Python."""
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        return _stamps_out(values, kind, unit if unit in _PER_DAY else "D").astype(dtype)
    stamps = _stamps_out(values, kind, "us")
    if dtype.kind == "O":
        cells = stamps.astype("datetime64[D]" if isinstance(kind, Date) else "datetime64[us]").astype(object)
        return cells if kind.zone is None else _in_zone(cells, kind.zone)
    unit = "D" if isinstance(kind, Date) else _UNITS[kind.resolution]
    texts = np.datetime_as_string(stamps.astype(f"datetime64[{unit if unit in ('D', 'ms', 'us') else 's'}]")).astype(object)
    if kind.zone is not None:
        texts += "+00:00"
    texts[np.isnat(stamps)] = None
    return texts


def _in_zone(cells: np.ndarray, zone: Any) -> np.ndarray:
    out = np.empty(len(cells), dtype=object)
    out[:] = [cell and cell.replace(tzinfo=zone) for cell in cells]
    return out


def _words_out(values: np.ndarray, kind: Times, backend: Any, dtype: str) -> Any:
    """Return a column of text as ISO format, and one of objects as those of Python; libraries without objects get their own times."""
    is_text = family_of(dtype) == "text" or dtype == "category"
    different, places = _distinct_values(values, kind.coded.high)  # each is written once
    cells = time_cells(different, kind, np.dtype("U" if is_text else "O"))
    if backend == "pandas":
        import pandas as pd

        if not is_text:
            return pd.Series(cells[places], dtype=object)
        return pd.array(cells, dtype=pandas_dtype("string" if dtype == "category" else dtype)).take(places)
    import narwhals.stable.v2 as nw

    own: Any = nw.Date() if isinstance(kind, Date) else nw.Datetime("us", "UTC" if kind.zone is not None else None)
    return nw.new_series("", cells.tolist(), nw.String() if is_text else own, backend=backend)[places]


def _distinct_values(values: np.ndarray, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (values of which each occurs once at most, the places of all among them): all there are, if those are fewer than the rows."""
    if last >= len(values):
        return np.unique(values, return_inverse=True)
    return np.append(np.arange(last + 1.0), np.nan), np.where(np.isnan(values), last + 1, values).astype(np.int64)


def _stamps_out(values: np.ndarray, kind: Times, unit: str) -> np.ndarray:
    """Return values as datetime64 of a unit: each as the nearest within the bounds that it can hold, NaT where NaN."""
    missing = np.isnan(values)
    numbers = np.where(missing, 0, values).astype(np.int64) + kind.first
    ours, theirs = _PER_DAY[_UNITS[kind.resolution]], _PER_DAY[unit]
    if theirs > ours:
        most = -(_LEAST + 1) // (theirs // ours)
        numbers = np.clip(numbers, -most, most) * (theirs // ours)
    else:
        numbers = numbers // (ours // theirs)
    numbers[missing] = _LEAST
    return numbers.view(f"datetime64[{unit}]")


def holds_times(kind: Times, unit: str) -> bool:
    """Whether a dtype of this unit can hold any time within the bounds."""
    step = max(_PER_DAY.get(unit, 1) // _PER_DAY[_UNITS[kind.resolution]], 1)
    return (kind.first + kind.coded.high) * step > _LEAST and kind.first * step < -_LEAST
