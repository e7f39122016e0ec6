"""Columns of a mixed table, read as numbers and codes. What is out of the domain has its place, and no cell can raise or warn."""

import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.domain._dates import Times
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._schema import Schema
from skdpsynth.frames import is_pandas_column, number_in
from skdpsynth.tables._level_cells import level_cells
from skdpsynth.tables._read_levels import read_levels
from skdpsynth.tables._read_times import read_times

_NUMBERS = (float, int, str, bytes, numbers.Real, decimal.Decimal, np.bool_)


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
        Of the columns that mechanisms see, those of ``schema.coded``. Where bounds or levels are to be bought, numbers are not clipped,
        and levels stand as they are: `ApplyPrivateFacts` does the rest.
    """
    columns = zip(schema.items(), raw, dtypes, strict=True)
    return [read_column(column, kind, dtype) for (name, kind), column, dtype in columns if schema.is_coded(name)]


def read_column(column: Any, kind: Any, dtype: str) -> np.ndarray:
    """Return one column as `read` does."""
    if kind.unstated is not None:
        return _read_unstated(column, kind)
    if isinstance(kind, Continuous):
        return _read_numbers(column, kind)
    if isinstance(kind, Times):
        x = read_times(column, kind, dtype)
        if not kind.nullable:
            x[np.isnan(x)] = kind.coded.midpoint
        return x
    return read_levels(column, kind, dtype)


def _read_unstated(column: Any, kind: Any) -> np.ndarray:
    """Return numbers that nothing clips, NaN where there is none; or levels as they stand, None where there is none."""
    if isinstance(kind, Continuous):
        x = numbers_of(column)
        return np.rint(x, out=x) if kind.integer else x
    return level_cells(column.to_list() if hasattr(column, "to_list") else column.tolist())


def numbers_of(column: Any) -> np.ndarray:
    """Return a raw column as a new array of floats, NaN where there is no number."""
    array = _as_array(column)
    if array.dtype.kind not in "iufb":
        array = np.fromiter(map(_number_of_cell, array.tolist()), dtype=float, count=len(array))
    return array.astype(float)


def _read_numbers(column: Any, kind: Continuous) -> np.ndarray:
    x = numbers_of(column)
    if kind.integer:
        np.rint(x, out=x)
    np.clip(x, kind.low, kind.high, out=x)
    if not kind.nullable:
        x[np.isnan(x)] = kind.midpoint
    return x


def _as_array(column: Any) -> np.ndarray:
    """Return a raw column as a numpy array; of dtypes that numpy has not, floats with NaN or objects with None where cells are missing."""
    if isinstance(column, np.ndarray):
        return column
    if is_pandas_column(column) and not isinstance(column.dtype, np.dtype):
        is_number = getattr(column.dtype, "numpy_dtype", np.dtype(object)).kind in "iufb"
        return column.to_numpy(dtype=float, na_value=np.nan) if is_number else column.to_numpy(dtype=object)
    return column.to_numpy()


def _number_of_cell(cell: Any) -> float:
    """Return a cell as a float: NaN if it is no number, and no text that reads as one."""
    if type(cell) is float:
        return cell
    if isinstance(cell, np.ndarray) and cell.ndim == 0 and not isinstance(cell, np.ma.MaskedArray):
        cell = cell.item()
    try:
        return number_in(cell) if type(cell) is str else float(cell) if _is_number(cell) else np.nan
    except OverflowError:
        return _infinity_like(cell)
    except Exception:  # a string that reads as none, a signalling NaN
        return np.nan


def _infinity_like(cell: Any) -> float:
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
