"""Cells of raw columns of all libraries, as numbers, codes or missing ones: each by itself, and none can raise or warn."""

import decimal
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.domain import Boolean, ColumnKind, Constant, Continuous
from skdpsynth.frames import (
    MISSING_WORDS,
    Cell,
    Column,
    decimals_in,
    is_pandas_column,
    is_unicode,
    pandas_dtype_name,
    parse_dtype,
    plain_name,
)

_NUMBERS = (float, int, str, bytes, numbers.Real, decimal.Decimal, np.bool_)
LONGEST_LEVEL = 100  # characters; a longer text is missing, by this public rule
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats
# Where the types of cells come from that may be looked up among levels: asking an object of the caller's own would run its code.
_KNOWN = {"builtins", "numpy", "pandas", "polars", "pyarrow", "datetime", "decimal", "fractions"}
_TRUTH = (("false", "no", "n", "f", "0"), ("true", "yes", "y", "t", "1"))


def cells_of(column: Column) -> list[Any]:
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


def is_missing(value: Cell) -> bool:
    """Whether this is one of the words for a missing cell: None, NaN, NaT or NA."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def missing_cells(column: Column, is_text: bool = False) -> np.ndarray:
    """Which cells a library takes as missing; of a text file, words."""
    if is_text:
        return np.isin(column.to_numpy().astype(object), MISSING_WORDS)
    if is_pandas_column(column):
        return column.isna().to_numpy()
    cells = column if isinstance(column, np.ndarray) else column.to_numpy()
    if cells.dtype.kind in "fmM":
        return np.isnan(cells)
    return column.is_null().to_numpy() if hasattr(column, "is_null") else np.array(list(map(is_missing, cells.tolist())), dtype=bool)


def _library_of(column: Column) -> str:
    """Return the library of a column that narwhals wraps, "" of others."""
    return str(getattr(getattr(column, "implementation", None), "value", ""))


def map_texts(
    column: Column, look_up: Callable[[list[Any]], np.ndarray], missing: Cell, listed: list[str] | None = None, other: Cell = None
) -> np.ndarray | None:
    """Return what `look_up` makes of the different texts of a column, and `missing` for cells without one; None of a column of no texts.

    It may be known to make `other` of all but the `listed` texts: then polars need not look for the different ones.
    """
    if is_pandas_column(column):
        dtype = pandas_dtype_name(column.dtype)
        if dtype.startswith("category"):
            return np.append(look_up(column.cat.categories.tolist()), missing)[column.cat.codes.to_numpy()]  # of a missing cell, -1
        if parse_dtype(dtype).family != "text":
            return None
        import pandas as pd

        places, texts = pd.factorize(column)
        return np.append(look_up(texts.tolist()), missing)[places]
    library = _library_of(column)
    if library not in ("polars", "pyarrow") or not str(column.dtype).startswith(("String", "Categorical", "Enum")):
        return None
    if library == "pyarrow":
        parts = [look_up([])]
        for chunk in column.to_native().chunks:
            chunk = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
            places = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            parts.append(np.append(look_up(chunk.dictionary.to_pylist()), missing)[places])
        return np.concatenate(parts)
    import polars as pl

    column = column.to_native().cast(pl.String)
    texts = column.unique().drop_nulls() if listed is None else pl.Series(listed, dtype=pl.String)
    found, other = pl.Series(look_up(texts.to_list())), int(missing if listed is None else other)
    codes = column.replace_strict(texts, found, default=other, return_dtype=found.dtype).to_numpy()
    return codes if other == missing else np.where(column.is_null().to_numpy(), missing, codes)


def plain_numbers(column: Column) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return (numbers of a column, or None where no array of numpy holds them as they are; which are missing, or None of none)."""
    missing = None
    if is_pandas_column(column):
        plain = column.dtype if isinstance(column.dtype, np.dtype) else getattr(column.dtype, "numpy_dtype", None)
        if plain is None or plain.kind not in "iufb":
            return None, None
        if plain is not column.dtype:
            missing, column = column.isna().to_numpy(), column.to_numpy(dtype=plain, na_value=plain.type(0))
    elif hasattr(column, "is_null") and parse_dtype(plain_name(column.dtype)).family == "number" and (gone := column.is_null()).any():
        missing, column = gone.to_numpy(), column.fill_null(False if str(column.dtype) == "Boolean" else 0)
    values = column if isinstance(column, np.ndarray) else column.to_numpy()
    return (values, missing) if values.dtype.kind in "iufb" else (None, None)


def numbers_of(column: Column, decimal_mark: str = ".") -> np.ndarray:
    """Return a raw column as a new array of floats, NaN where there is no number."""
    if _is_arrow_text(column):
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = with_points(column, decimal_mark).to_native()
        for words in ((), MISSING_WORDS):  # at once, or cell by cell where one is no number, with the same numbers for all others
            with suppress(pa.ArrowInvalid):
                cells = pc.if_else(pc.is_in(texts, pa.array(words)), pa.scalar(None, pa.string()), texts) if words else texts
                return pc.cast(cells, pa.float64()).to_numpy().astype(float)  # a new array
        return np.fromiter(map(number_in, texts.to_pylist()), dtype=float, count=len(texts))
    if parse_dtype(plain_name(column.dtype)).decimal is not None:
        return decimals_in(column)
    values, missing = (column.to_numpy(), None) if hasattr(column, "to_native") else plain_numbers(column)
    if values is None or values.dtype.kind not in "iufb":
        return np.fromiter(map(_number_of_cell, cells_of(column)), dtype=float, count=len(column))
    x = values.astype(float)
    if missing is not None:
        x[missing] = np.nan
    return x


def _is_arrow_text(column: Column) -> bool:
    return _library_of(column) == "pyarrow" and str(column.dtype) == "String"


def with_points(column: Column, marks: str) -> Any:
    """Return text of Arrow with points as the mark of decimals; what had others is no number.

    `marks`: that of decimals, and after it that between groups of digits, if there is one.
    """
    if marks == "." or not _is_arrow_text(column):
        return column
    for mark in "\u00a0\u202f " if marks[1:] == " " else marks[1:]:
        column = column.str.replace_all(mark, "", literal=True)
    return column if marks[0] == "." else column.str.replace_all(".", "x", literal=True).str.replace_all(marks[0], ".", literal=True)


def _number_of_cell(cell: Cell) -> float:
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


class _Words(NamedTuple):
    levels: tuple
    nullable: bool


def kind_out(kind: ColumnKind, dtype: str) -> Any:
    """Return the kind by whose rules a column of a dtype is written: of a constant, one level; of truth values, their words."""
    if isinstance(kind, Boolean):
        plain, as_text = parse_dtype(dtype).number, ("false", "true") if parse_dtype(dtype).family == "text" else kind.levels
        fit = kind.words and (plain is None or (plain.kind != "b" and all(_exact_in_dtype(word, plain) is not None for word in kind.words)))
        return _Words(kind.words if fit else as_text, kind.nullable)
    return _Words((kind.value,), False) if isinstance(kind, Constant) else kind


def is_word(level: Cell) -> bool:
    return isinstance(level, str)


def has_numbers(kind: ColumnKind) -> bool:
    """Whether cells of a kind may be numbers with decimals."""
    return isinstance(kind, Continuous) or any(isinstance(level, float) for level in getattr(kind, "levels", ()))


def missing_forms(missing: Sequence[Any]) -> list[Any]:
    """Return what stands for missing cells, in text and as the number that a text is."""
    forms = [form for each in missing for form in (each, _number_in(each) if isinstance(each, str) else str(each))]
    return [form for form in forms if isinstance(form, str) or abs(form) < 2.0**64]


def is_sentinel(x: np.ndarray, kind: Continuous, dtype: str) -> np.ndarray:
    """Which numbers stand for a missing cell; in short floats also as the nearest that they can hold."""
    stated = [float(form) for form in missing_forms(kind.missing) if not isinstance(form, str)]
    short = _short_float(dtype)
    return np.isin(x, stated if short is None else [*stated, *np.array(stated, dtype=short).astype(float)])


def _short_float(dtype: str) -> np.dtype | None:
    """Return a dtype of floats in which 0.1 stands as the nearest that it can hold; None of all others."""
    number = parse_dtype(dtype).number
    return number if number is not None and number.kind == "f" and number.itemsize < 8 else None


def level_cells(cells: Iterable[Any]) -> np.ndarray:
    """Return cells as levels: strings and whole numbers as they stand, anything else None, which is missing.

    Each cell becomes a level by itself: 3, 3.0 and numpy's 3 are the number 3, True is 1, "3" is a text. So equal cells have equal levels
    whatever other rows hold, if the reader did not choose their type by other rows; from CSV files all cells are texts. Texts of more than
    100 characters, and those that no file can hold, are missing. No cell can raise, and none is asked anything of its own.
    """
    found = list(map(_level_of, cells))
    levels = np.empty(len(found), dtype=object)
    levels[:] = found
    return levels


def _level_of(cell: Cell) -> Any:
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


class Codes(dict):
    """Numbers of levels, where a text is also the level that it reads as: "2" and "2.0" are 2, "true" is True.

    `missing` and `unknown` are those of a missing cell, and of one that is no level. Among truth values a number is what its text is, and
    True is what "true" is, whatever dtype a library takes from other cells.
    """

    def __init__(self, kind: ColumnKind, is_text: bool = False, unknown: int | None = None) -> None:
        levels, other = {level: code for code, level in enumerate(kind.levels)}, getattr(kind, "other", None)
        self.missing = len(levels) if kind.nullable else 0
        self.unknown = unknown if unknown is not None else self.missing if other is None else levels[other]
        words = MISSING_WORDS if is_text and self.unknown != self.missing else ()
        self.words = {word: code for code, words in enumerate(_TRUTH) for word in words} if isinstance(kind, Boolean) else {}
        self.words |= {str(word).lower(): code for code, word in enumerate(getattr(kind, "words", None) or ())}
        levels |= {number: code for word, code in self.words.items() if (number := _number_in(word)) == number}
        super().__init__(dict.fromkeys((*words, *missing_forms(getattr(kind, "missing", ()))), self.missing) | levels)
        self.has_numbers = not all(isinstance(level, str) for level in self)

    def __missing__(self, cell: Cell) -> int:
        """Return the number of the level of a cell that is not written as the level is."""
        code = None
        if isinstance(cell, str):
            code = self.words.get(cell.strip().lower())
            if code is None and self.has_numbers:
                code = self.get(_number_in(cell))
        if code is not None:
            return code
        return self.missing if self.missing == self.unknown or is_missing(cell) else self.unknown


def _number_in(text: str) -> Any:
    """Return the number that a text is, a whole one exactly; NaN of any other."""
    try:
        return int(text)
    except ValueError:
        return number_in(text)


@np.errstate(all="ignore")  # a level may be beyond what a dtype holds
def read_levels(column: Column, kind: ColumnKind, dtype: str, is_text: bool = False, unknown: int | None = None) -> np.ndarray:
    """Return the number of each cell's level; of what is none, that of `other`, of a missing cell, or 0; or `unknown`."""
    is_category = is_pandas_column(column) and str(column.dtype) == "category"
    codes, short = Codes(kind, is_text, unknown), _short_float(str(column.cat.categories.dtype if is_category else dtype))
    if short is not None:
        codes.update({short.type(level).item(): code for level, code in codes.items() if not isinstance(level, str)})
    with suppress(Exception):  # whatever a library says of cells that it cannot hold, such as half of a surrogate pair
        values, missing = plain_numbers(column) if parse_dtype(dtype).family == "number" and not is_category else (None, None)
        if values is not None:
            found = _among_numbers(values, codes)
            return found if missing is None else np.where(missing, np.int32(codes.missing), found)
        # Words are looked up as they are; truth values and numbers are many texts.
        words = [level for level in codes if isinstance(level, str) and (level.isascii() or is_unicode(level))]
        listed = None if codes.words or codes.has_numbers else words
        texts = map_texts(column, lambda cells: look_up(cells, codes), np.int32(codes.missing), listed, codes.unknown)
        if texts is not None:
            return texts
    return look_up(cells_of(column), codes)


def _among_numbers(values: np.ndarray, codes: Codes) -> np.ndarray:
    """Return the codes of numbers: a search among the levels that the dtype can hold exactly, as no cell of it equals another."""
    if values.dtype.kind == "b":
        if codes.words:
            return np.where(values, np.int32(codes["true"]), np.int32(codes["false"]))
        values = values.view(np.int8)
    held = sorted((number, code) for level, code in codes.items() if (number := _exact_in_dtype(level, values.dtype)) is not None)
    unknown: Any = np.int32(codes.unknown)
    if codes.missing != codes.unknown and values.dtype.kind == "f":
        unknown = np.where(np.isnan(values), np.int32(codes.missing), unknown)
    if not held:
        return np.full(len(values), unknown, dtype=np.int32)
    levels = np.array([level for level, _ in held], dtype=values.dtype)
    numbers = np.array([code for _, code in held], dtype=np.int32)
    places = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    return np.where(levels[places] == values, numbers[places], unknown)


def _exact_in_dtype(level: Cell, dtype: np.dtype) -> Any:
    """Return a level as a number that the dtype holds exactly, or None."""
    try:
        held = None if isinstance(level, str) else dtype.type(level).item()
    except (OverflowError, ValueError):
        return None
    return held if held == level else None


def look_up(cells: list[Any], codes: Codes) -> np.ndarray:
    types, of_truth = set(map(type, cells)), {bool, np.bool_}
    if codes.words and types & of_truth:
        cells, types = [("true" if cell else "false") if type(cell) in of_truth else cell for cell in cells], types - of_truth | {str}
    known = {kind for kind in types if str(kind.__module__).split(".")[0] in _KNOWN or issubclass(kind, numbers.Real | str)}
    with suppress(Exception):  # a cell that cannot be looked up, such as a list
        if len(known) == len(types):
            return np.array(list(map(codes.__getitem__, cells)), dtype=np.int32)
    found = np.full(len(cells), codes.unknown, dtype=np.int32)
    for place, cell in enumerate(cells):
        with suppress(Exception):
            found[place] = codes[cell] if type(cell) in known else codes.unknown
    return found
