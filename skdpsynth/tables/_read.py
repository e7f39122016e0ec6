"""Columns of a table, read as numbers and codes. What is out of the domain has its place, and no cell can raise or warn."""

import decimal
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Schema, Times
from skdpsynth.frames import MISSING_WORDS, is_pandas_column, is_unicode
from skdpsynth.tables._read_levels import number_in, read_levels
from skdpsynth.tables._read_times import read_times

LONGEST_LEVEL = 100  # characters; a longer text is missing, by this public rule
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats
_NUMBERS = (float, int, str, bytes, numbers.Real, decimal.Decimal, np.bool_)


@np.errstate(all="ignore")  # a warning would tell of values
def read(raw: Sequence[Any], schema: Schema, dtypes: Sequence[str], is_text: bool = False) -> list[np.ndarray]:
    """Return the columns of a table that mechanisms see, as floats and codes; what is out of the domain goes to its documented place.

    Numbers are clipped (whole ones rounded first), what is no number and unknown levels are missing. Where nothing may be missing, a
    missing number becomes the midpoint and a missing level the first. No message depends on a cell, and nothing of the process is
    changed meanwhile: tables may be read in threads. Where bounds or levels are to be bought, numbers are not clipped, and levels stand as
    they are: `ApplyPrivateFacts` does the rest.

    Parameters
    ----------
    raw : list of columns
        From `split_columns`.
    schema : Schema
        In the order of the columns.
    dtypes : tuple of str
    is_text : bool, default=False
        Whether they are cells of a text file, of which some words stand for missing cells.
    """
    columns, decimal_mark = zip(schema.items(), raw, dtypes, strict=True), str(schema.read.get("decimal", "."))
    return [read_column(column, kind, dtype, is_text, decimal_mark) for (name, kind), column, dtype in columns if schema.is_coded(name)]


def read_column(column: Any, kind: Any, dtype: str, is_text: bool = False, decimal_mark: str = ".") -> np.ndarray:
    """Return one column as `read` does."""
    if isinstance(kind, Continuous):
        x = numbers_of(column, decimal_mark)
        if kind.integer:
            np.rint(x, out=x)
        if kind.unstated is None:
            np.clip(x, kind.low, kind.high, out=x)
            if not kind.nullable:
                x[np.isnan(x)] = kind.midpoint
        return x
    if kind.unstated is not None:
        cells = column.to_list() if hasattr(column, "to_list") else column.tolist()
        return level_cells([None if cell in MISSING_WORDS else cell for cell in cells] if is_text else cells)
    if isinstance(kind, Times):
        x = read_times(column, kind, dtype)
        if not kind.nullable:
            x[np.isnan(x)] = kind.coded.midpoint
        return x
    return read_levels(column, kind, dtype)


def numbers_of(column: Any, decimal_mark: str = ".") -> np.ndarray:
    """Return a raw column as a new array of floats, NaN where there is no number."""
    if getattr(getattr(column, "implementation", None), "value", None) == "pyarrow" and str(column.dtype) == "String":
        return _numbers_in_text(column.to_native(), decimal_mark)
    array = _as_array(column)
    if array.dtype.kind not in "iufb":
        array = np.fromiter(map(_number_of_cell, array.tolist()), dtype=float, count=len(array))
    return array.astype(float)


def _numbers_in_text(column: Any, decimal_mark: str) -> np.ndarray:
    """Return text of Arrow as numbers: at once, or cell by cell where one is no number, with the same numbers for all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal_mark != ".":
        column = pc.replace_substring(pc.replace_substring(column, ".", "x"), decimal_mark, ".")
    for missing in ((), MISSING_WORDS):
        try:
            cells = pc.if_else(pc.is_in(column, pa.array(missing)), pa.scalar(None, pa.string()), column) if missing else column
            return pc.cast(cells, pa.float64()).to_numpy().astype(float)  # a new array
        except pa.ArrowInvalid:
            continue
    return np.fromiter(map(number_in, column.to_pylist()), dtype=float, count=len(column))


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


def level_cells(cells: Iterable[Any]) -> np.ndarray:
    """Return cells as levels: strings and whole numbers as they stand, anything else None, which is missing.

    Each cell becomes a level by itself: 3, 3.0 and numpy's 3 are the number 3, True is 1, "3" is a text. So equal cells have equal levels
    whatever other rows hold, if the reader did not choose their type by other rows; from CSV files all cells are texts. Texts of more than
    100 characters, and those that no file can hold, are missing. No cell can raise, and none is asked anything of its own.

    """
    listed = list(cells)
    levels = np.empty(len(listed), dtype=object)
    levels[:] = list(map(_level_of, listed))
    return levels


def _level_of(cell: Any) -> Any:
    kind = type(cell)
    if kind is str or kind is np.str_:
        return str(cell) if len(cell) <= LONGEST_LEVEL and (cell.isascii() or is_unicode(cell)) else None
    if kind is int or kind is bool or (isinstance(cell, np.bool_ | np.integer) and not isinstance(cell, np.timedelta64)):
        number = int(cell)
        return number if -(2**63) <= number < 2**64 else None
    if kind is float or isinstance(cell, np.floating):
        real = float(cell)
        return int(real) if math.isfinite(real) and real.is_integer() and abs(real) <= _MOST_WHOLE else None
    return None
