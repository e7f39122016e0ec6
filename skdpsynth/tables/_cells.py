"""Cells of raw columns of all libraries, as numbers, texts or missing ones: each by itself, and none can raise or warn."""

import decimal
import math
import numbers
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from skdpsynth.frames import MISSING_WORDS, decimal_of, decimals_in, family_of, is_pandas_column, pandas_dtype_name

_NUMBERS = (float, int, str, bytes, numbers.Real, decimal.Decimal, np.bool_)


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column as objects of Python."""
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


def is_missing(value: Any) -> bool:
    """Whether this is one of the words for a missing cell: None, NaN, NaT or NA."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def missing_cells(column: Any, is_text: bool = False) -> np.ndarray:
    """Which cells a library takes as missing; of a text file, words."""
    if is_text:
        return np.isin(column.to_numpy().astype(object), MISSING_WORDS)
    if hasattr(column, "isna"):
        return column.isna().to_numpy()
    cells = column.to_numpy() if hasattr(column, "is_null") else column
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind in "mM":
        return np.isnat(cells)
    if hasattr(column, "is_null"):
        return column.is_null().to_numpy()
    return np.fromiter(map(is_missing, cells.tolist()), dtype=bool, count=len(cells))


def _library_of(column: Any) -> str:
    """Return the library of a column that narwhals wraps, "" of others."""
    return str(getattr(getattr(column, "implementation", None), "value", ""))


def map_texts(
    column: Any, look_up: Callable[[list[Any]], np.ndarray], missing: Any, listed: list[str] | None = None, other: Any = None
) -> np.ndarray | None:
    """Return what `look_up` makes of the different texts of a column, and `missing` for cells without one; None of a column of no texts.

    It may be known to make `other` of all but the `listed` texts: then polars need not look for the different ones.
    """
    library = _library_of(column)
    if is_pandas_column(column):
        dtype = pandas_dtype_name(column.dtype)
        if dtype.startswith("category"):
            return np.append(look_up(column.cat.categories.tolist()), missing)[column.cat.codes.to_numpy()]  # of a missing cell, -1
        if family_of(dtype) == "text":
            import pandas as pd

            places, texts = pd.factorize(column)
            return np.append(look_up(texts.tolist()), missing)[places]
    elif library in ("polars", "pyarrow") and str(column.dtype).startswith(("String", "Categorical", "Enum")):
        if library == "pyarrow":
            return _map_arrow(column.to_native(), look_up, missing)
        import polars as pl

        column = column.to_native().cast(pl.String)
        texts = column.unique().drop_nulls() if listed is None else pl.Series(listed, dtype=pl.String)
        found, other = pl.Series(look_up(texts.to_list())), int(missing if listed is None else other)
        codes = column.replace_strict(texts, found, default=other, return_dtype=found.dtype).to_numpy()
        return codes if other == missing else np.where(column.is_null().to_numpy(), missing, codes)
    return None


def _map_arrow(column: Any, look_up: Callable[[list[Any]], np.ndarray], missing: Any) -> np.ndarray:
    import pyarrow as pa

    parts = [look_up([])]
    for chunk in column.chunks:
        chunk = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        places = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        parts.append(np.append(look_up(chunk.dictionary.to_pylist()), missing)[places])
    return np.concatenate(parts)


def plain_numbers(column: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return (numbers of a column, or None where no array of numpy holds them as they are; which are missing, or None of none)."""
    missing = None
    if is_pandas_column(column):
        plain = column.dtype if isinstance(column.dtype, np.dtype) else getattr(column.dtype, "numpy_dtype", None)
        if plain is None or plain.kind not in "iufb":
            return None, None
        if plain is not column.dtype:
            missing, column = column.isna().to_numpy(), column.to_numpy(dtype=plain, na_value=plain.type(0))
    elif hasattr(column, "is_null") and family_of(str(column.dtype)) == "number" and (gone := column.is_null()).any():
        missing, column = gone.to_numpy(), column.fill_null(False if str(column.dtype) == "Boolean" else 0)
    values = column if isinstance(column, np.ndarray) else column.to_numpy()
    return (values, missing) if values.dtype.kind in "iufb" else (None, None)


def numbers_of(column: Any, decimal_mark: str = ".") -> np.ndarray:
    """Return a raw column as a new array of floats, NaN where there is no number."""
    if _is_arrow_text(column):
        return _numbers_in_text(with_points(column, decimal_mark).to_native())
    if decimal_of(str(column.dtype)) is not None:
        return decimals_in(column)
    values, missing = (column.to_numpy(), None) if hasattr(column, "to_native") else plain_numbers(column)
    if values is None or values.dtype.kind not in "iufb":
        return np.fromiter(map(_number_of_cell, cells_of(column)), dtype=float, count=len(column))
    x = values.astype(float)
    if missing is not None:
        x[missing] = np.nan
    return x


def _is_arrow_text(column: Any) -> bool:
    return _library_of(column) == "pyarrow" and str(column.dtype) == "String"


def with_points(column: Any, decimal_mark: str) -> Any:
    """Return text of Arrow with points as the mark of decimals; what had points is no number."""
    if decimal_mark == "." or not _is_arrow_text(column):
        return column
    return column.str.replace_all(".", "x", literal=True).str.replace_all(decimal_mark, ".", literal=True)


def _numbers_in_text(column: Any) -> np.ndarray:
    """Return text of Arrow as numbers: at once, or cell by cell where one is no number, with the same numbers for all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for missing in ((), MISSING_WORDS):
        try:
            cells = pc.if_else(pc.is_in(column, pa.array(missing)), pa.scalar(None, pa.string()), column) if missing else column
            return pc.cast(cells, pa.float64()).to_numpy().astype(float)  # a new array
        except pa.ArrowInvalid:
            continue
    return np.fromiter(map(number_in, column.to_pylist()), dtype=float, count=len(column))


def _number_of_cell(cell: Any) -> float:
    """Return a cell as a float, NaN if it is no number; objects that would run code of their own, or warn as complex numbers, are none."""
    if type(cell) is float:
        return cell
    if isinstance(cell, np.ndarray) and cell.ndim == 0 and not isinstance(cell, np.ma.MaskedArray):
        cell = cell.item()
    try:
        if type(cell) is str:
            return number_in(cell)
        return float(cell) if isinstance(cell, _NUMBERS) and not isinstance(cell, np.timedelta64) else math.nan
    except OverflowError:  # larger than all floats
        with suppress(Exception):
            return math.inf if cell > 0 else -math.inf
    except Exception:  # a string that reads as none, a signalling NaN
        pass
    return math.nan


def number_in(text: str | None) -> float:
    """Return the number that a text is, NaN of any other; "true" and "false" are 1 and 0."""
    if text is None:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.strip().lower(), math.nan)
