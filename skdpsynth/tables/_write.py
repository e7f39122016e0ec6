"""Columns of a mixed table, written back in the caller's library and dtypes."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from skdpsynth.domain import Constant, Continuous, DateTime, Identifier, Ordinal, Times, read_moment, round_to_step
from skdpsynth.frames import (
    cast,
    decimal_of,
    decimals_out,
    family_of,
    narwhals_dtype,
    numpy_dtype,
    other_numbers,
    pandas_dtype,
    pandas_numbers,
    time_of,
    values_of,
    whole_dtype,
)
from skdpsynth.tables._cells import is_word, kind_out
from skdpsynth.tables._read_times import as_numbers, time_cells, times_out


def moment_of(value: Any) -> Any:
    """Return the time that a text in ISO format is; None of anything else."""
    with suppress(ValueError, TypeError):
        return read_moment(value)
    return None


def column_out(values: np.ndarray, kind: Any, backend: Any, dtype: str) -> Any:
    """Return the values of a column, as `read` gives them, as a column of a data-frame library; of unseen ones, numbers of rows."""
    if isinstance(kind, Constant):
        moment = moment_of(kind.value) if time_of(dtype) is not None else None
        if moment is not None:
            always = DateTime(moment.replace(year=2), moment)
            return times_out(np.full(len(values), float(always.coded.high)), always, backend, dtype)
        values = np.zeros(len(values), dtype=np.int64)
    if isinstance(kind, Times) and kind.form is not None and family_of(dtype) == "number":
        values, kind = as_numbers(values, kind)
    kind, values = kind_out(kind, dtype), round_to_step(values, kind)
    if isinstance(kind, Times):
        return times_out(values, kind, backend, dtype)
    if isinstance(kind, Identifier):
        return labels_out(kind.make_labels(values), backend, dtype)
    if isinstance(kind, Continuous):
        return _numbers_out(values, kind, backend, dtype)
    return _pandas_levels_out(values, kind, dtype) if backend == "pandas" else _other_levels_out(values, kind, backend, dtype)


def array_out(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    """Return one array of all columns: of the dtype that came in, if it can hold them; objects of numbers alone become numbers."""
    if dtype.kind in "mM":
        return np.column_stack([time_cells(column, kind, dtype) for column, kind in zip(values, kinds, strict=True)])
    pairs = zip(values, kinds, strict=True)
    values = [column * 0 if isinstance(kind, Constant) else round_to_step(column, kind) for column, kind in pairs]
    kinds = [kind_out(kind, dtype.str) for kind in kinds]
    if dtype.kind in "iufb" or all(isinstance(kind, Continuous) for kind in kinds):
        return _array_of_numbers(values, kinds, dtype)
    rows = np.empty((len(values[0]), len(kinds)), dtype=object)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        rows[:, j] = _objects(column, kind, dtype)
    has_texts = any(isinstance(kind, Times | Identifier) or any(map(is_word, getattr(kind, "levels", ()))) for kind in kinds)
    may_miss = any(getattr(kind, "nullable", False) for kind in kinds)
    return rows.astype(str) if dtype.kind == "U" and has_texts and not may_miss else rows


def labels_out(labels: np.ndarray, backend: Any, dtype: str) -> Any:
    """Return labels made by an `Identifier` as a column: in its dtype, or as plain numbers or objects."""
    is_text = family_of(dtype) == "text"
    if labels.dtype != object and not is_text:
        return _numbers_out(labels.astype(float), Continuous(0, 2**53, integer=True), backend, dtype)
    cells = labels.astype(str).astype(object)
    if backend == "pandas":
        import pandas as pd

        return pd.Series(cells, dtype=pandas_dtype(dtype if is_text else "object"))
    import narwhals.stable.v2 as nw

    return nw.new_series("", cells.tolist(), nw.String(), backend=backend)


def dtype_of_labels(dtype: str, n_samples: int) -> str:
    """Return the dtype of labels that are numbers: the caller's where it holds them all, of all batches."""
    return dtype if family_of(dtype) != "number" or holds_whole(numpy_dtype(dtype), n_samples) else "int64"


def holds_whole(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype can hold this whole number, and all between it and 0."""
    if dtype.kind == "b":
        return False
    return abs(number) <= 2.0 ** (np.finfo(dtype).nmant + 1) if dtype.kind == "f" else np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def _array_of_numbers(values: Sequence[np.ndarray], kinds: Sequence[Any], dtype: np.dtype) -> np.ndarray:
    dtype = dtype if _can_hold(kinds, dtype) else np.dtype(float)
    rows = np.empty((len(values[0]), len(kinds)), dtype)
    for j, (column, kind) in enumerate(zip(values, kinds, strict=True)):
        if isinstance(kind, Times):
            column, kind = as_numbers(column, kind)
        if isinstance(kind, Continuous):
            rows[:, j] = cast(column, dtype, kind.low, kind.high)
        elif isinstance(kind, Identifier):
            rows[:, j] = kind.make_labels(column)
        else:
            rows[:, j] = _levels_in_dtype(kind, dtype)[column]
            if kind.nullable:
                rows[column >= len(kind.levels), j] = np.nan
    return rows


def _can_hold(kinds: Sequence[Any], dtype: np.dtype) -> bool:
    """Whether a dtype can hold all columns, missing cells as well."""
    if dtype.kind not in "iub" or any(getattr(kind, "nullable", False) for kind in kinds):
        return dtype.kind == "f"
    own = [kind for kind in kinds if not isinstance(kind, Continuous | Times)]
    # Of labels there may be more than a short dtype has numbers.
    has_room = dtype.kind != "b" and dtype.itemsize == 8
    return all(has_room if isinstance(kind, Identifier) else _levels_in_dtype(kind, dtype).dtype == dtype for kind in own)


def _objects(column: np.ndarray, kind: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(kind, Times):
        return time_cells(column, kind, dtype)
    if isinstance(kind, Identifier):
        return kind.make_labels(column)
    if isinstance(kind, Continuous):
        return column.astype(np.int64) if kind.integer and not kind.nullable else column
    return _level_cells(kind, column)


def _numbers_out(x: np.ndarray, kind: Continuous, backend: str, dtype: str) -> Any:
    if decimal_of(dtype) is not None:
        return decimals_out(x, dtype, backend)
    dtype = values_of(whole_dtype(dtype) if backend == "pandas" and kind.integer and kind.nullable else dtype)
    if family_of(dtype) != "number":
        dtype = "int64" if kind.integer else "float64"
    plain = numpy_dtype(dtype)
    cells, missing = cast(x, plain, kind.low, kind.high), np.isnan(x)
    if backend == "pandas":
        return pandas_numbers(cells, missing, kind.nullable, pandas_dtype(dtype))
    return other_numbers(cells, missing, plain, backend)


def _pandas_levels_out(codes: np.ndarray, kind: Any, dtype: str) -> Any:
    """Return a column of levels; ordinal words as ordered categories."""
    import pandas as pd

    missing = codes >= len(kind.levels)
    if dtype == "category" or (isinstance(kind, Ordinal) and any(map(is_word, kind.levels))):
        return pd.Categorical.from_codes(np.where(missing, -1, codes), categories=list(kind.levels), ordered=isinstance(kind, Ordinal))
    if kind.nullable and all(type(level) is int for level in kind.levels) and _levels_in_dtype(kind, np.dtype(np.int64)).dtype == np.int64:
        dtype = whole_dtype(dtype)
    target = pandas_dtype(dtype)
    if family_of(dtype) == "number" and not dtype.startswith("dictionary"):
        plain = getattr(target, "numpy_dtype", target)
        held = _levels_in_dtype(kind, plain)
        return pandas_numbers(held[codes], missing, kind.nullable, target if held.dtype == plain else held.dtype)
    if target == np.dtype(object):
        return pd.Series(_level_cells(kind, codes), dtype=object)
    return pd.array(_level_cells(kind), dtype=target).take(codes)


def _other_levels_out(codes: np.ndarray, kind: Any, backend: Any, dtype: str) -> Any:
    """Return a column of levels; ordinal texts as ordered categories where the library has them."""
    import narwhals.stable.v2 as nw

    if not any(map(is_word, kind.levels)):
        if decimal_of(dtype) is not None:
            return decimals_out(np.array([*map(float, kind.levels), np.nan])[codes], dtype, backend)
        held = _levels_in_dtype(kind, numpy_dtype(dtype) if family_of(dtype) == "number" else np.array(kind.levels).dtype)
        return nw.new_series("", [*held[:-1].tolist(), None], narwhals_dtype(held.dtype), backend=backend)[codes]
    cells = [None if cell is None else str(cell) for cell in _level_cells(kind)]
    target: Any = nw.Categorical() if dtype == "Categorical" else nw.String()
    if backend == "polars" and (isinstance(kind, Ordinal) or dtype.startswith("Enum")):
        target = nw.Enum([str(level) for level in kind.levels])
    return nw.new_series("", cells, nw.String(), backend=backend).cast(target)[codes]


def _levels_in_dtype(kind: Any, dtype: np.dtype) -> np.ndarray:
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


def _level_cells(kind: Any, codes: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Levels as objects, None where missing; without codes, each once and None at the end."""
    cells = np.empty(len(kind.levels) + 1, dtype=object)
    cells[:] = [*kind.levels, None]
    return cells[codes]
