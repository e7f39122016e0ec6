"""Columns and their dtypes: what a dtype can hold, and columns of numbers made for a library.

A dtype is known by its name, as its library tells it; that of a column of Arrow in pandas ends in ``[pyarrow]``.
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow
    from narwhals.typing import EagerAllowed, IntoBackend

Table: TypeAlias = Any  # an array, a data frame, or whatever else a fit takes
Column: TypeAlias = Any  # an array, a series of pandas, or one of narwhals
Cell: TypeAlias = Any  # any object, also a label of a row
Backend: TypeAlias = "IntoBackend[EagerAllowed]"  # of narwhals: in whose columns cells are written
ArrowSchema: TypeAlias = "pyarrow.Schema"  # pyarrow is imported where it reads
_CATEGORY = "category:"
_ARROW = "[pyarrow]"
_ARROW_NUMBERS = {"double": "float64", "float": "float32", "halffloat": "float16"}
_TIMES = [  # of numpy and pandas, of Arrow in pandas, of narwhals
    ("time", re.compile(r"(?:[<>|=]?M8|datetime64)\[(?P<unit>[a-zA-Z]+)(?:, (?P<zone>.+))?\]")),
    ("time", re.compile(r"timestamp\[(?P<unit>\w+)(?:, tz=(?P<zone>.+))?\]\[pyarrow\]")),
    ("time", re.compile(r"Datetime\(time_unit='(?P<unit>\w+)', time_zone=(?:None|'(?P<zone>.+)')\)")),
    ("time of day", re.compile(r"Time|time(?:32|64)\[(?P<unit>\w+)\]\[pyarrow\]")),
    ("duration", re.compile(r"(?:[<>|=]?m8|timedelta64)\[(?P<unit>[WDhmsun]s?)\]")),
    ("duration", re.compile(r"duration\[(?P<unit>\w+)\]\[pyarrow\]")),
    ("duration", re.compile(r"Duration\(time_unit='(?P<unit>\w+)'\)")),
]
_DECIMAL = re.compile(r"[Dd]ecimal\d*\((?:precision=)?(?P<precision>\d+), (?:scale=)?(?P<scale>\d+)\)(?:\[pyarrow\])?")
_DICTIONARY = re.compile(r"dictionary<values=(?P<values>\w+), indices=(?P<indices>\w+), ordered=\d>\[pyarrow\]")


@dataclass(frozen=True)
class DtypeFacts:
    family: str  # "number", "text", "time", "time of day", "duration", "any" or "other": what cells, or categories, can be
    number: np.dtype | None = None  # the same numbers in numpy; None of categories
    time: tuple[str, str | None] | None = None  # unit and name of the time zone, or None: of dates, times, times of day and durations
    decimal: tuple[int, int] | None = None  # precision and scale
    values: str = ""  # the name itself; of a dictionary of Arrow, that of what it holds


@lru_cache(256)
def parse_dtype(name: str) -> DtypeFacts:
    """Return what a dtype of numpy, pandas, polars or Arrow can hold."""
    if name in ("Date", "date32[day][pyarrow]", "date64[ms][pyarrow]"):
        return DtypeFacts("time", time=("D", None), values=name)
    for family, pattern in _TIMES:
        if found := pattern.fullmatch(name):
            return DtypeFacts(family, time=(found["unit"] or "us", found.groupdict().get("zone")), values=name)
    found = _DICTIONARY.fullmatch(name)
    values = f"{found['values']}{_ARROW}" if found else name
    plain = values.removeprefix(_CATEGORY)
    if plain.removesuffix(_ARROW) in ("str", "String", "large_string") or plain.startswith(("string", "<U", ">U", "Enum", "Categorical")):
        return DtypeFacts("text", values=values)
    if plain in ("object", "|O", "Object", "Null", "Unknown", f"null{_ARROW}"):
        return DtypeFacts("any", values=values)
    is_category = name.startswith("category")
    if found := _DECIMAL.fullmatch(plain):
        own = (None, None) if is_category else (np.dtype(float), (int(found["precision"]), int(found["scale"])))
        return DtypeFacts("number", own[0], decimal=own[1], values=values)
    short = plain.removesuffix(_ARROW).lower().replace("boolean", "bool")
    try:
        number = np.dtype(_ARROW_NUMBERS.get(short, short) if plain.endswith(_ARROW) else short)
    except (TypeError, ValueError):
        return DtypeFacts("other", values=values)
    if number.kind not in "iufb":
        return DtypeFacts("other", values=values)
    return DtypeFacts("number", None if is_category else number, values=values)


def decimals_in(column: Column) -> np.ndarray:
    """Return a column of a dtype of decimals as floats, each the nearest; NaN where missing."""
    native = column.array.__arrow_array__() if is_pandas_column(column) else column.to_native()
    if not hasattr(native, "combine_chunks"):
        return np.array([math.nan if cell is None else float(cell) for cell in native.to_list()])
    import pyarrow as pa

    return native.cast(pa.string()).cast(pa.float64()).to_numpy().astype(float)  # the text of a decimal is exact


def pandas_head(table: Table, date_as_object: bool = False) -> Any:
    """Return an empty table of Arrow as one of pandas: dates as times, and decimals as such, not as objects, which could be anything."""
    import pandas as pd
    import pyarrow as pa

    decimals = {"types_mapper": lambda each: pd.ArrowDtype(each) if pa.types.is_decimal(each) else None}
    return table.to_pandas(date_as_object=date_as_object, **decimals)


def decimals_out(x: np.ndarray, dtype: str, backend: Backend) -> Any:
    """Return multiples of a decimal, NaN where missing, as a column of decimals of a library; those beyond it as its last one."""
    precision, scale = parse_dtype(dtype).decimal or (0, 0)
    most = float(10**precision - 1) / 10**scale
    x = np.clip(x, *(sign * (np.nextafter(most, 0) if precision > 15 else most) for sign in (-1, 1)))
    if backend == "polars":
        import polars as pl

        return pl.Series(x).fill_nan(None).cast(pl.Decimal(precision, scale))
    import pyarrow as pa

    target: Any = pandas_dtype(dtype) if backend == "pandas" else None
    column = pa.array(x, from_pandas=True).cast(pa.decimal128(precision, scale) if target is None else target.pyarrow_dtype)
    return column if target is None else target.construct_array_type()(column)


def pandas_dtype(name: str) -> Any:
    """Return the dtype of pandas that has this name; one of Arrow is not what pandas makes of its own name."""
    import pandas as pd

    if not name.endswith(_ARROW):
        return pd.api.types.pandas_dtype(name)
    import pyarrow as pa

    facts, found = parse_dtype(name), _DICTIONARY.fullmatch(name)
    if facts.decimal is not None:
        return pd.ArrowDtype(getattr(pa, name.split("(")[0])(*facts.decimal))
    if found:
        return pd.ArrowDtype(pa.dictionary(pa.type_for_alias(found["indices"]), pa.type_for_alias(found["values"])))
    if facts.time is not None and name.startswith("timestamp"):
        return pd.ArrowDtype(pa.timestamp(*facts.time))
    return pd.ArrowDtype(pa.type_for_alias(name.removesuffix(_ARROW)))


def pandas_dtype_name(dtype: Any) -> str:
    """Name a dtype of pandas; a categorical one by the dtype of its categories."""
    return f"{_CATEGORY}{plain_name(dtype.categories.dtype)}" if str(dtype) == "category" else plain_name(dtype)


def plain_name(dtype: object) -> str:
    """Name a dtype without what may stem from rows: the categories of one of polars, what fills a sparse one of pandas."""
    name = str(dtype)
    if name.lower().startswith(("datetime", "duration", "decimal")):
        return name
    return "Sparse" if name.startswith("Sparse") else name.split("(")[0]


def without_categories(dtype: str) -> str:
    """Return the name of a dtype without that of its categories, which tells whether there are any."""
    return "category" if dtype.startswith("category") else dtype


INFERRED = ("int64", "uint64", "float64", "bool", "object", "str")


def is_inferred(dtype: str) -> bool:
    """Whether pandas takes this dtype from cells: a missing one, or a word, makes another of the whole column."""
    return dtype in INFERRED or re.fullmatch(r"(?:datetime|timedelta)64\[\w+\]", dtype) is not None


def is_pandas_column(column: Column) -> bool:
    return type(column).__module__.split(".")[0] == "pandas"


def range_of(dtype: np.dtype) -> tuple[float, float]:
    """Return the least and the largest number that a dtype can hold (of whole numbers of 64 bits, the last float below the end)."""
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.kind == "f":
        return -float(np.finfo(dtype).max), float(np.finfo(dtype).max)
    return float(np.iinfo(dtype).min), float(np.nextafter(np.iinfo(dtype).max + 1.0, 0))


def holds_some(dtype: np.dtype, low: float, high: float) -> bool:
    least, most = range_of(dtype)
    low, high = max(low, least), min(high, most)
    return low <= high if dtype.kind == "f" else math.ceil(low) <= math.floor(high)


@np.errstate(all="ignore")
def cast(x: np.ndarray, dtype: np.dtype, low: float = -math.inf, high: float = math.inf) -> np.ndarray:
    """Return numbers as a numpy dtype: each as the nearest that it can hold, a whole one within the bounds where there is one.

    NaN becomes the lowest number where a dtype has none; whoever calls marks such cells as missing.
    """
    least, most = range_of(dtype)
    if dtype.kind == "f":
        return x.astype(dtype, copy=False) if dtype.itemsize >= x.dtype.itemsize else np.clip(x, least, most).astype(dtype)
    if math.isfinite(low) and math.isfinite(high) and math.ceil(low) <= math.floor(high):
        least, most = max(least, math.ceil(low)), min(most, math.floor(high))
    if dtype.kind == "b":
        return np.clip(x, least, most) >= 0.5
    whole = np.rint(x)
    if np.isnan(np.min(whole, initial=0)):  # one pass, no scratch
        np.copyto(whole, least, where=np.isnan(whole))
    return np.clip(whole, least, most, out=whole).astype(dtype)


def pandas_numbers(cells: np.ndarray, missing: np.ndarray, nullable: bool, target: Any) -> Any:
    """Return an array of numbers as a column of pandas.

    Missing cells need a dtype that holds them: a public rule, whether or not there are any.
    """
    import pandas as pd

    plain = isinstance(target, np.dtype)
    if plain and target.kind == "f":
        cells[missing] = np.nan
    if plain and (target.kind == "f" or not nullable):
        return cells
    names = {"b": "boolean", "i": f"Int{8 * cells.itemsize}", "u": f"UInt{8 * cells.itemsize}"}
    column = pd.array(cells, dtype=names[target.kind] if plain else target)
    column[missing] = pd.NA
    return column


def whole_dtype(dtype: str) -> str:
    """Return the dtype in which whole numbers that may be missing come back to pandas, by public facts alone.

    There a column of numpy's integers becomes one of floats as soon as a cell is missing, so these two dtypes tell of the rows: both come
    back as "Int64". Dtypes that hold missing cells as they are, and shorter floats, are the caller's choice and stay.
    """
    return "Int64" if re.fullmatch(r"u?int\d+|float64|object|category", dtype) else dtype


def narwhals_dtype(dtype: np.dtype) -> Any:
    import narwhals.stable.v2 as nw

    name = str(dtype).replace("uint", "UInt").replace("bool", "boolean")
    return getattr(nw, name[0].upper() + name[1:])()


def frame_of(columns: list[Any], names: tuple, backend: Any) -> Any:
    """Return columns as a data frame of a library; those of pandas as that, others as series of narwhals or arrays."""
    if backend == "pandas":
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
        has_levels = len({len(name) if isinstance(name, tuple) else 0 for name in names}) == 1  # tuples of a MultiIndex
        frame.columns = pd.Index(names, tupleize_cols=has_levels)
        return frame
    import narwhals.stable.v2 as nw

    natives = (column.to_native() if hasattr(column, "to_native") else column for column in columns)
    return nw.from_dict(dict(zip(names, natives, strict=True)), backend=backend).to_native()
