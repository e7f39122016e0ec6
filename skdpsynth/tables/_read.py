"""Columns of a table, read as numbers and codes. What is out of the domain has its place, and no cell can raise or warn."""

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from skdpsynth.domain import Boolean, Continuous, Schema, Times
from skdpsynth.frames import MISSING_WORDS, family_of, is_pandas_column, is_unicode, numpy_dtype
from skdpsynth.tables._cells import cells_of, is_missing, map_texts, number_in, numbers_of, plain_numbers, with_points
from skdpsynth.tables._read_times import read_times

LONGEST_LEVEL = 100  # characters; a longer text is missing, by this public rule
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats
_SHORT = ("float32", "float16", "f4", "f2")
# Where the types of cells come from that may be looked up among levels: asking an object of the caller's own would run its code.
_KNOWN = {"builtins", "numpy", "pandas", "polars", "pyarrow", "datetime", "decimal", "fractions"}
_TRUTH = (("false", "no", "n", "f", "0"), ("true", "yes", "y", "t", "1"))


@np.errstate(all="ignore")  # a warning would tell of values
def read(raw: Sequence[Any], schema: Schema, dtypes: Sequence[str], is_text: bool = False, decimal_mark: str = ".") -> list[np.ndarray]:
    """Return the columns that mechanisms see of raw ones, in the order of the schema, as floats and codes.

    Numbers are clipped (whole ones rounded first), what is no number and unknown levels are missing. Where nothing may be missing, a
    missing number becomes the midpoint and a missing level the first. No message depends on a cell, and nothing of the process is
    changed meanwhile: tables may be read in threads. Where bounds or levels are to be bought, numbers are not clipped, and levels stand as
    they are: `ApplyPrivateFacts` does the rest. In cells of a text file (`is_text`) some words stand for missing cells.
    """
    columns = zip(schema.items(), raw, dtypes, strict=True)
    return [read_column(column, kind, dtype, is_text, decimal_mark) for (name, kind), column, dtype in columns if schema.is_coded(name)]


def read_column(column: Any, kind: Any, dtype: str, is_text: bool = False, decimal_mark: str = ".") -> np.ndarray:
    """Return one column as `read` does."""
    if isinstance(kind, Continuous):
        x = numbers_of(column, decimal_mark)
        if kind.missing:
            x[is_sentinel(x, kind, dtype)] = np.nan
        if kind.integer:
            np.rint(x, out=x)
        if kind.unstated is None:
            np.clip(x, kind.low, kind.high, out=x)
            if not kind.nullable:
                x[np.isnan(x)] = kind.midpoint
        return x
    if kind.unstated is not None:
        found, words = level_cells(cells_of(column)), {*(MISSING_WORDS if is_text else ()), *missing_forms(kind.missing)}
        if words:
            found[:] = [None if level in words else level for level in found.tolist()]
        return found
    if isinstance(kind, Times):
        x = read_times(column, kind, dtype)
        if not kind.nullable:
            x[np.isnan(x)] = kind.coded.midpoint
        return x
    return read_levels(with_points(column, decimal_mark) if has_numbers(kind) else column, kind, dtype, is_text)


def has_numbers(kind: Any) -> bool:
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
    name = dtype.lower().lstrip("<>")
    is_short = name.startswith(_SHORT) or name in ("float[pyarrow]", "halffloat[pyarrow]")
    return numpy_dtype(name) if is_short else None


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


class Codes(dict):
    """Numbers of levels, where a text is also the level that it reads as: "2" and "2.0" are 2, "true" is True.

    `missing` and `unknown` are those of a missing cell, and of one that is no level.
    """

    def __init__(self, kind: Any, is_text: bool = False, unknown: int | None = None) -> None:
        levels, other = {level: code for code, level in enumerate(kind.levels)}, getattr(kind, "other", None)
        self.missing = len(levels) if kind.nullable else 0
        self.unknown = unknown if unknown is not None else self.missing if other is None else levels[other]
        words = MISSING_WORDS if is_text and self.unknown != self.missing else ()
        super().__init__(dict.fromkeys((*words, *missing_forms(getattr(kind, "missing", ()))), self.missing) | levels)
        self.has_numbers = not all(isinstance(level, str) for level in self)
        self.words = {word: code for code, words in enumerate(_TRUTH) for word in words} if isinstance(kind, Boolean) else {}
        self.words |= {str(word).lower(): code for code, word in enumerate(getattr(kind, "words", None) or ())}

    def __missing__(self, cell: Any) -> int:
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
def read_levels(column: Any, kind: Any, dtype: str, is_text: bool = False, unknown: int | None = None) -> np.ndarray:
    """Return the number of each cell's level; of what is none, that of `other`, of a missing cell, or 0; or `unknown`."""
    is_category = is_pandas_column(column) and str(column.dtype) == "category"
    codes, short = Codes(kind, is_text, unknown), _short_float(str(column.cat.categories.dtype if is_category else dtype))
    if short is not None:
        codes.update({short.type(level).item(): code for level, code in codes.items() if not isinstance(level, str)})
    try:
        values, missing = plain_numbers(column) if family_of(dtype) == "number" and not is_category else (None, None)
        if values is not None:
            found = _among_numbers(values, codes)
            return found if missing is None else np.where(missing, np.int32(codes.missing), found)
        # Words are looked up as they are; truth values and numbers are many texts.
        listed = None if codes.words or codes.has_numbers else [level for level in codes if isinstance(level, str) and is_unicode(level)]
        texts = map_texts(column, lambda cells: _look_up(cells, codes), np.int32(codes.missing), listed, codes.unknown)
        if texts is not None:
            return texts
    except Exception:  # whatever a library says of cells that it cannot hold, such as half of a surrogate pair
        pass
    return look_up_each(column, codes)


def look_up_each(column: Any, codes: Codes) -> np.ndarray:
    """Return the codes of a column cell by cell: slower, and for every column."""
    return _look_up(cells_of(column), codes)


def _among_numbers(values: np.ndarray, codes: Codes) -> np.ndarray:
    """Return the codes of numbers: a search among the levels that the dtype can hold exactly, as no cell of it equals another."""
    if values.dtype.kind == "b":
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


def _exact_in_dtype(level: Any, dtype: np.dtype) -> Any:
    """Return a level as a number that the dtype holds exactly, or None."""
    try:
        held = None if isinstance(level, str) else dtype.type(level).item()
    except (OverflowError, ValueError):
        return None
    return held if held == level else None


def _look_up(cells: list[Any], codes: Codes) -> np.ndarray:
    types = set(map(type, cells))
    known = {kind for kind in types if str(kind.__module__).split(".")[0] in _KNOWN or issubclass(kind, numbers.Real | str)}
    try:
        if len(known) == len(types):
            return np.array(list(map(codes.__getitem__, cells)), dtype=np.int32)
    except Exception:  # a cell that cannot be looked up, such as a list
        pass
    return np.array([_code(cell, codes) if type(cell) in known else codes.unknown for cell in cells], dtype=np.int32)


def _code(cell: Any, codes: Codes) -> int:
    try:
        return codes[cell]
    except Exception:
        return codes.unknown
