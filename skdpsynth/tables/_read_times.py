"""Columns of dates, times of day and durations, read as whole numbers since their lower bound, and written back as they came.

All are stamps here: times of day and durations as those that long after the beginning of 1970.
"""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np

from skdpsynth.domain import MICROSECONDS, Calendar, Continuous, Date, Duration, Times, axis_of
from skdpsynth.frames import Backend, Cell, Column, is_pandas_column, pandas_dtype, parse_dtype
from skdpsynth.tables._cells import cells_of, map_texts, numbers_of

_LEAST = np.iinfo(np.int64).min  # stands for NaT
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY, _MICROSECOND, _DAY = _EPOCH.toordinal(), datetime.timedelta(microseconds=1), MICROSECONDS["day"]
_MOST = 2**62  # microseconds from 1970, either way: 146,000 years
_MOST_NANOSECONDS = 2**63 // 1000 - 1  # microseconds that nanoseconds of 64 bits can tell
_ZONES = ("datetime", "zoneinfo", "pytz", "dateutil", "pandas")  # whose code may be asked for an offset


@np.errstate(all="ignore")
def read_times(column: Column, kind: Times, dtype: str) -> np.ndarray:
    """Return the units of the resolution since the lower bound, as floats: cut, then clipped; NaN where there is no time.

    No cell raises, and none of a class of the caller's own is asked.
    """
    stamps = stamps_of(column, kind, dtype)
    missing = np.isnat(stamps) | is_missing_time(stamps, kind)
    return np.where(missing, np.nan, np.clip(units_of(stamps, kind), 0, kind.coded.high))


def is_missing_time(stamps: np.ndarray, kind: Times) -> np.ndarray:
    """Which stamps are times that stand for a missing cell; of dates, by their day."""
    if not kind.missing:
        return np.zeros(len(stamps), dtype=bool)
    grain, sentinels = _DAY if isinstance(kind, Date) else 1, np.array(kind.sentinels, dtype=np.int64)
    sentinels = axis_of(kind).floor(sentinels) if kind.months else sentinels
    return np.isin(stamps.view(np.int64) // grain, sentinels // grain) & ~np.isnat(stamps)


def units_of(stamps: np.ndarray, kind: Times) -> np.ndarray:
    """Return units of the resolution since the lower bound, whole numbers."""
    return stamps.view(np.int64) // kind.microseconds - kind.first


def stamps_of(column: Column, kind: Times, dtype: str) -> np.ndarray:
    """Return a column as datetime64 of microseconds, in UTC where it has a zone; what is no time is NaT."""
    family = parse_dtype(dtype).family
    if family == "number":  # each number or text that occurs is read once
        different, places = np.unique(numbers_of(column), return_inverse=True)
        return _stamps_of_cells(different.tolist(), kind)[places]
    if family not in ("time", "time of day", "duration"):
        found = map_texts(column, lambda texts: _stamps_of_cells(texts, kind).view(np.int64), np.int64(_LEAST))
        return _stamps_of_cells(cells_of(column), kind) if found is None else found.view("datetime64[us]")
    is_arrow = is_pandas_column(column) and dtype.endswith("[pyarrow]")
    if is_arrow or hasattr(column, "to_native"):
        stamps = _native_stamps(column.array.__arrow_array__() if is_arrow else column.to_native())
    elif isinstance(column, np.ndarray):
        stamps = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
    else:
        unit = getattr(column.dtype, "unit", None) or np.datetime_data(column.dtype)[0]
        stamps = column.to_numpy(dtype=f"{'timedelta' if family == 'duration' else 'datetime'}64[{unit}]")  # of zones: UTC
    unit = np.datetime_data(stamps.dtype)[0]
    stamps, ends = stamps.view(f"datetime64[{unit}]"), np.array([_LEAST + 10**12 + 1, -_LEAST - 1])  # nearer ones numpy would not round
    if unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us"):  # in which microseconds may have no place
        ends = np.array([-_MOST, _MOST]).view("datetime64[us]").astype(stamps.dtype)
    return np.clip(stamps, *ends.view(stamps.dtype)).astype("datetime64[us]")


def _native_stamps(column: Column) -> np.ndarray:
    """Return a column of times of polars or Arrow by the whole numbers that it is made of."""
    if type(column).__module__.split(".")[0] == "polars":
        import polars as pl

        unit = getattr(column.dtype, "time_unit", "D" if column.dtype == pl.Date else "ns")
        return column.to_physical().cast(pl.Int64).fill_null(_LEAST).to_numpy().view(f"datetime64[{unit}]")
    import pyarrow as pa

    is_short = column.type.bit_width == 32
    unit = getattr(column.type, "unit", "D" if is_short else "ms")  # dates tell none
    whole = (column.cast(pa.int32()) if is_short else column).cast(pa.int64())
    return np.asarray(whole.fill_null(_LEAST)).view(f"datetime64[{unit}]")


def _stamps_of_cells(cells: list[Any], kind: Times) -> np.ndarray:
    """Return cells as datetime64 of microseconds, NaT where there is no time."""
    read = kind.read_text if kind.form is None else kind.form.read
    known: dict[str, int] = {}  # a text is read once, however often it stands there
    out = np.full(len(cells), _LEAST, dtype=np.int64)
    for i, cell in enumerate(cells):
        if type(cell) is str:
            found = known.get(cell)
            if found is None:
                known[cell] = found = _microseconds(cell, kind, read)
            out[i] = found
        elif type(cell) is datetime.date and isinstance(kind, Calendar):
            out[i] = (cell.toordinal() - _EPOCH_DAY) * _DAY
        elif cell is not None:
            out[i] = _microseconds(cell, kind, read)
    if kind.months:
        out[out != _LEAST] = axis_of(kind).floor(out[out != _LEAST])
    return out.view("datetime64[us]")


def _microseconds(cell: Cell, kind: Times, read: Callable[[str], int | None]) -> int:
    """Return microseconds since 1970 of one cell, that of NaT if it is no time."""
    try:
        if type(cell) is str:
            found = read(cell)
        elif kind.form is not None and kind.form.width and isinstance(cell, int | float | np.integer | np.floating):
            found = read(str(int(cell))) if cell == int(cell) else None
        elif isinstance(kind, Calendar):  # a date is that of the cell's own zone, a time one in UTC
            if isinstance(cell, np.datetime64):
                cell = cell.astype("datetime64[us]").item()
            elif type(cell).__module__.split(".")[0] == "pandas" and hasattr(cell, "to_pydatetime"):
                cell = cell.to_pydatetime(warn=False) if cell == cell else None
            if type(cell) is datetime.date:
                cell = datetime.datetime.combine(cell, datetime.time())
            zone = cell.tzinfo if type(cell) is datetime.datetime else None  # no other object is asked
            is_known = type(cell) is datetime.datetime and (zone is None or type(zone).__module__.split(".")[0] in _ZONES)
            offset = (cell.utcoffset() if is_known and not isinstance(kind, Date) else None) or datetime.timedelta()
            found = (cell.replace(tzinfo=None) - offset - _EPOCH) // _MICROSECOND if is_known else None
        elif isinstance(kind, Duration):
            is_known = type(cell) is datetime.timedelta or type(cell).__module__.split(".")[0] in ("numpy", "pandas")
            cell = cell.astype("timedelta64[us]").item() if isinstance(cell, np.timedelta64) else cell
            found = cell // _MICROSECOND if is_known and isinstance(cell, datetime.timedelta) and cell == cell else None
        else:
            found = kind.microseconds_of(cell) if type(cell) is datetime.time else None
        return _LEAST if found is None else min(max(found, -_MOST), _MOST)
    except Exception:
        return _LEAST


def times_out(values: np.ndarray, kind: Times, backend: Backend, dtype: str) -> Any:
    """Return values, as `read_times` gives them, as a column of a data-frame library."""
    facts = parse_dtype(dtype)
    family, (unit, zone) = facts.family, facts.time or ("", None)
    if family == "time of day":  # which ends at 24:00
        values = np.minimum(values, (_DAY - 1) // kind.microseconds - kind.first)
    if facts.time is None or (family == "time of day" and backend != "pandas"):
        return _words_out(values, kind, backend, dtype)
    stamps = _stamps_out(values, kind, unit)
    if family == "duration":
        stamps = stamps.view(f"timedelta64[{unit}]")
    if backend != "pandas":
        import narwhals.stable.v2 as nw

        own = nw.Duration(unit) if family == "duration" else nw.Date() if unit == "D" else nw.Datetime(unit)  # type: ignore[arg-type]
        column = nw.new_series("", stamps, own, backend=backend)
        return column if zone is None else column.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    import pandas as pd

    target = pandas_dtype(dtype)
    if family == "time of day":
        import pyarrow as pa

        whole = pa.array(stamps.view(np.int64).astype(f"i{target.pyarrow_dtype.bit_width // 8}"), mask=np.isnat(stamps))
        return pd.arrays.ArrowExtensionArray(whole.cast(target.pyarrow_dtype))
    if zone is None:
        return pd.array(stamps, dtype=target)
    return pd.Series(pd.DatetimeIndex(stamps).tz_localize("UTC")).astype(target).array


def time_cells(values: np.ndarray, kind: Times, dtype: np.dtype) -> np.ndarray:
    """Return values as cells of an array of numpy: of times, of texts in their form, or of objects of Python unless a form is stated."""
    if dtype.kind in "mM":
        unit = "D" if np.datetime_data(dtype)[0] in "YMW" else np.datetime_data(dtype)[0]
        return _stamps_out(values, kind, unit).view(f"{dtype.kind}8[{unit}]").astype(dtype)
    stamps = _stamps_out(values, kind, "us")
    if kind.form is not None or not isinstance(kind, Calendar):
        return _cells_in_form(stamps, kind, is_text=dtype.kind != "O")
    if dtype.kind == "O":
        cells = stamps.astype("datetime64[D]" if isinstance(kind, Date) else "datetime64[us]").astype(object)
        return cells if kind.zone is None else np.array([cell and cell.replace(tzinfo=kind.zone) for cell in cells], dtype=object)
    unit = "D" if isinstance(kind, Date) else {"day": "D", "millisecond": "ms", "microsecond": "us"}.get(kind.resolution, "s")
    texts = np.datetime_as_string(stamps.astype(f"datetime64[{unit}]")).astype(object)
    if kind.zone is not None:
        texts += "+00:00"
    texts[np.isnat(stamps)] = None
    return texts


def _cells_in_form(stamps: np.ndarray, kind: Times, is_text: bool) -> np.ndarray:
    missing, cells = np.isnat(stamps), np.empty(len(stamps), dtype=object)
    microseconds = np.where(missing, 0, stamps.view(np.int64))
    if kind.form is None and isinstance(kind, Duration) and not is_text:
        cells[:] = microseconds.view("timedelta64[us]").tolist()
    elif kind.form is None and not is_text and (kind.first + kind.coded.high) * kind.microseconds < _DAY:
        cells[:] = [(_EPOCH + datetime.timedelta(microseconds=each)).time() for each in microseconds.tolist()]
    else:  # no object of Python is a time beyond 24:00
        cells[:] = kind.write(microseconds)
    cells[missing] = None
    return cells


def as_numbers(values: np.ndarray, kind: Times) -> tuple[np.ndarray, Continuous]:
    """Return values as whole numbers in the form of a kind, and the kind of those."""
    form: Any = kind.form
    different, places = _distinct_values(values, kind.coded.high)
    cells = _cells_in_form(_stamps_out(different, kind, "us"), kind, is_text=True)
    numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])[places]
    return numbers, Continuous(0, 10**form.width - 1, integer=True, nullable=kind.nullable)


def _words_out(values: np.ndarray, kind: Times, backend: Backend, dtype: str) -> Any:
    """Return a column of text in its form, and one of objects as those of Python; libraries without objects get their own times."""
    facts = parse_dtype(dtype)
    is_text = facts.family == "text" or dtype == "category" or (kind.form is not None and facts.time is None)
    different, places = _distinct_values(values, kind.coded.high)  # each is written once
    cells = time_cells(different, kind, np.dtype("U" if is_text else "O"))
    if backend == "pandas":
        import pandas as pd

        if not is_text or dtype == "object":
            return pd.Series(cells[places], dtype=object)
        return pd.array(cells, dtype=pandas_dtype("string" if dtype == "category" else dtype)).take(places)
    import narwhals.stable.v2 as nw

    own: Any = {"duration": nw.Duration("us"), "time of day": nw.Time()}.get(kind.family)
    own = own or (nw.Date() if isinstance(kind, Date) else nw.Datetime("us", "UTC" if kind.zone is not None else None))
    if backend == "pyarrow" and own == nw.Time and not is_text:
        import pyarrow as pa

        return pa.array(cells, pa.time64("us")).take(pa.array(places))  # as files have it; narwhals would take nanoseconds
    return nw.new_series("", cells.tolist(), nw.String() if is_text else own, backend=backend)[places]


def _distinct_values(values: np.ndarray, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (values of which each occurs once at most, the places of all among them): all there are, if those are fewer than the rows."""
    if last >= len(values):
        return np.unique(values, return_inverse=True)
    return np.append(np.arange(last + 1.0), np.nan), np.where(np.isnan(values), last + 1, values).astype(np.int64)


def _stamps_out(values: np.ndarray, kind: Times, unit: str) -> np.ndarray:
    """Return values as datetime64 of a unit: each as the nearest within the bounds that it can hold, NaT where NaN."""
    missing = np.isnan(values)
    numbers = (np.where(missing, 0, values).astype(np.int64) + kind.first) * kind.microseconds
    numbers = np.clip(numbers, -_MOST_NANOSECONDS, _MOST_NANOSECONDS) if unit == "ns" else numbers
    numbers[missing] = _LEAST
    return numbers.view("datetime64[us]").astype(f"datetime64[{unit}]")


def holds_times(kind: Times, unit: str) -> bool:
    """Whether a dtype of this unit can hold any time within the bounds."""
    first, last = kind.first * kind.microseconds, (kind.first + kind.coded.high) * kind.microseconds
    return unit != "ns" or (last > -_MOST_NANOSECONDS and first < _MOST_NANOSECONDS)
