"""Columns of a mixed table, written back in the caller's library and dtypes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.domain._columns import cast, family_of, numpy_dtype, other_numbers, pandas_numbers
from skdpsynth.domain._kinds import Continuous, Ordinal


def column_out(values: np.ndarray, kind: Any, backend: Any, dtype: str) -> Any:
    """Return the values of a column, as `read` gives them, as a column of a data-frame library."""
    if backend == "pandas":
        return (_pandas_numbers_out if isinstance(kind, Continuous) else _pandas_levels_out)(values, kind, dtype)
    return (_other_numbers_out if isinstance(kind, Continuous) else _other_levels_out)(values, kind, backend, dtype)


def array_out(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    """Return one array of all columns: of the dtype that came in, if it can hold them; objects of numbers alone become numbers."""
    if dtype.kind in "iufb" or all(isinstance(kind, Continuous) for kind in kinds):
        return _array_of_numbers(values, kinds, dtype)
    rows = np.empty((len(values[0]), len(kinds)), dtype=object)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        rows[:, j] = _objects(column, kind)
    texts = any(isinstance(level, str) for kind in kinds if not isinstance(kind, Continuous) for level in kind.levels)
    return rows.astype(str) if dtype.kind == "U" and texts and not any(kind.nullable for kind in kinds) else rows


def _array_of_numbers(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    dtype = dtype if _fits(kinds, dtype) else np.dtype(float)
    rows = np.empty((len(values[0]), len(kinds)), dtype)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        if isinstance(kind, Continuous):
            rows[:, j] = cast(column, dtype, kind.low, kind.high)
        else:
            rows[:, j] = _held(kind, dtype)[column]
            if kind.nullable:
                rows[column >= len(kind.levels), j] = np.nan
    return rows


def _fits(kinds: Sequence[Any], dtype: np.dtype) -> bool:
    """Whether a dtype can hold all columns, missing cells as well."""
    if dtype.kind not in "iub" or any(kind.nullable for kind in kinds):
        return dtype.kind == "f"
    return all(isinstance(kind, Continuous) or _held(kind, dtype).dtype == dtype for kind in kinds)


def _objects(column: np.ndarray, kind: Any) -> np.ndarray:
    if not isinstance(kind, Continuous):
        return _level_cells(kind, column)
    return column.astype(np.int64) if kind.integer and not kind.nullable else column


def _pandas_numbers_out(x: np.ndarray, kind: Continuous, dtype: str) -> Any:
    import pandas as pd

    if dtype in ("object", "category"):
        dtype = "int64" if kind.integer else "float64"
    target = pd.api.types.pandas_dtype(dtype)
    cells = cast(x, getattr(target, "numpy_dtype", target), kind.low, kind.high)
    return pandas_numbers(cells, np.isnan(x), kind.nullable, target)


def _other_numbers_out(x: np.ndarray, kind: Continuous, backend: str, dtype: str) -> Any:
    plain = numpy_dtype(dtype) if family_of(dtype) == "number" else np.dtype(np.int64 if kind.integer else float)
    return other_numbers(cast(x, plain, kind.low, kind.high), np.isnan(x), plain, backend)


def _pandas_levels_out(codes: np.ndarray, kind: Any, dtype: str) -> Any:
    """Return a column of levels; ordinal ones as ordered categories."""
    import pandas as pd

    missing = codes >= len(kind.levels)
    if isinstance(kind, Ordinal) or dtype == "category":
        return pd.Categorical.from_codes(np.where(missing, -1, codes), categories=list(kind.levels), ordered=isinstance(kind, Ordinal))
    target = pd.api.types.pandas_dtype(dtype)
    if family_of(dtype) == "number":
        plain = getattr(target, "numpy_dtype", target)
        held = _held(kind, plain)
        return pandas_numbers(held[codes], missing, kind.nullable, target if held.dtype == plain else held.dtype)
    cells = _level_cells(kind, codes)
    return pd.Series(cells, dtype=object) if target == np.dtype(object) else pd.array(cells, dtype=target)


def _other_levels_out(codes: np.ndarray, kind: Any, backend: Any, dtype: str) -> Any:
    """Return a column of levels; ordinal texts as ordered categories where the library has them."""
    if not any(isinstance(level, str) for level in kind.levels):
        held = _held(kind, numpy_dtype(dtype) if family_of(dtype) == "number" else np.array(kind.levels).dtype)
        return other_numbers(held[codes], codes >= len(kind.levels), held.dtype, backend)
    import narwhals.stable.v2 as nw

    cells = [None if cell is None else str(cell) for cell in _level_cells(kind, codes)]
    target: Any = nw.Categorical() if dtype == "Categorical" else nw.String()
    if backend == "polars" and (isinstance(kind, Ordinal) or dtype.startswith("Enum")):
        target = nw.Enum([str(level) for level in kind.levels])
    return nw.new_series("", cells, nw.String(), backend=backend).cast(target)


def _held(kind: Any, dtype: np.dtype) -> np.ndarray:
    """Return levels that are numbers as an array of a numpy dtype, or of another if that cannot hold them; the first once more."""
    levels = [*kind.levels, kind.levels[0]]
    try:
        with np.errstate(invalid="ignore"):
            held = np.array(levels, dtype=dtype)
        if dtype.kind == "f" or held.tolist() == levels:
            return held
    except OverflowError:
        pass
    return np.array(levels)


def _level_cells(kind: Any, codes: np.ndarray) -> np.ndarray:
    """Levels as objects, None where missing."""
    cells = np.empty(len(kind.levels) + 1, dtype=object)
    cells[:] = [*kind.levels, None]
    return cells[codes]
