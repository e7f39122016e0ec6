"""Columns of a mixed table, read as numbers and codes. What is out of the domain has its place, and no cell can raise or warn."""

import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.domain._columns import is_pandas_column
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._schema import Schema

_NUMBERS = (float, int, str, bytes, numbers.Real, decimal.Decimal, np.bool_)
_SHORT = ("float32", "float16", "f4", "f2")
# Where the types of cells come from that may be looked up among levels: asking an object of the caller's own would run its code.
_KNOWN = {"builtins", "numpy", "pandas", "polars", "pyarrow", "datetime", "decimal", "fractions"}


@np.errstate(all="ignore")  # a warning would tell of values
def read(raw: Sequence[Any], schema: Schema, dtypes: Sequence[str]) -> list[np.ndarray]:
    """Return the columns of a table as floats and codes; what is out of the domain goes to its documented place.

    Numbers are clipped (whole ones rounded first), what is no number and unknown levels are missing. Where nothing may be missing, a
    missing number becomes the midpoint and a missing level the first. No message depends on a cell, and nothing of the process is
    changed meanwhile: tables may be read in threads.

    Parameters
    ----------
    raw : list of columns
        From `read_table`.
    schema : Schema
        In the order of the columns.
    dtypes : tuple of str

    Returns
    -------
    values : list of ndarray
    """
    return [
        _read_numbers(column, kind) if isinstance(kind, Continuous) else _read_levels(column, kind, dtype)
        for kind, column, dtype in zip(schema.values(), raw, dtypes, strict=True)
    ]


def _read_numbers(column: Any, kind: Continuous) -> np.ndarray:
    array = _native(column)
    if array.dtype.kind not in "iufb":
        array = np.fromiter(map(_number, array.tolist()), dtype=float, count=len(array))
    x = array.astype(float)  # a copy
    if kind.integer:
        np.rint(x, out=x)
    np.clip(x, kind.low, kind.high, out=x)
    if not kind.nullable:
        x[np.isnan(x)] = kind.midpoint
    return x


def _native(column: Any) -> np.ndarray:
    """Return a raw column as a numpy array; of dtypes that numpy has not, floats with NaN or objects with None where cells are missing."""
    if isinstance(column, np.ndarray):
        return column
    if is_pandas_column(column) and not isinstance(column.dtype, np.dtype):
        is_number = getattr(column.dtype, "numpy_dtype", np.dtype(object)).kind in "iufb"
        return column.to_numpy(dtype=float, na_value=np.nan) if is_number else column.to_numpy(dtype=object)
    return column.to_numpy()


def _number(cell: Any) -> float:
    """Return a cell as a float: NaN if it is no number, and no string that reads as one."""
    if type(cell) is float:
        return cell
    if isinstance(cell, np.ndarray) and cell.ndim == 0 and not isinstance(cell, np.ma.MaskedArray):
        cell = cell.item()
    try:
        return float(cell) if _is_number(cell) else np.nan
    except OverflowError:
        return _beyond(cell)
    except Exception:  # a string that reads as none, a signalling NaN
        return np.nan


def _beyond(cell: Any) -> float:
    """Return the infinity of a number that is larger than all floats."""
    try:
        return np.inf if cell > 0 else -np.inf
    except Exception:
        return np.nan


def _is_number(cell: Any) -> bool:
    """Whether asking a cell for its float runs no code that may warn: numpy warns of complex numbers, and objects as they like."""
    if isinstance(cell, np.timedelta64):
        return False
    return isinstance(cell, _NUMBERS)


def _read_levels(column: Any, kind: Any, dtype: str) -> np.ndarray:
    """Return the number of each cell's level."""
    is_category = is_pandas_column(column) and str(column.dtype) == "category"
    dtype = str(column.cat.categories.dtype if is_category else dtype).lower().lstrip("<>")
    fallback, codes = len(kind.levels) if kind.nullable else 0, {level: code for code, level in enumerate(kind.levels)}
    if dtype in _SHORT:
        # 0.1 stands in such a column as the nearest that it can hold.
        codes |= {np.dtype(dtype).type(level).item(): code for level, code in codes.items() if not isinstance(level, str)}
    if not is_category:
        return _look_up(column.to_list() if hasattr(column, "to_list") else column.tolist(), codes, fallback)
    # Its codes say which category; -1, the last here, is a missing cell.
    found = np.append(_look_up(column.cat.categories.tolist(), codes, fallback), np.int32(fallback))
    return found[column.cat.codes.to_numpy()]


def _look_up(cells: list[Any], codes: dict[Any, int], fallback: int) -> np.ndarray:
    types = set(map(type, cells))
    known = {kind for kind in types if str(kind.__module__).split(".")[0] in _KNOWN or issubclass(kind, numbers.Real | str)}
    try:
        if len(known) == len(types):
            return np.array([codes.get(cell, fallback) for cell in cells], dtype=np.int32)
    except Exception:  # a cell that cannot be looked up, such as a list
        pass
    return np.array([_code(cell, codes, fallback) if type(cell) in known else fallback for cell in cells], dtype=np.int32)


def _code(cell: Any, codes: dict[Any, int], fallback: int) -> int:
    try:
        return codes.get(cell, fallback)
    except Exception:
        return fallback
