"""Schemas with private bounds or levels: placeholders until these are bought, and the schema and rows after that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import PLACEHOLDER, ColumnKind, Continuous, Nominal, Schema, UnknownBounds
from skdpsynth.frames import Chunk, parse_dtype, range_of
from skdpsynth.persistence import savable

OTHER = "other"  # the level of a text that is not shown, where none may be missing
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats


def columns_without_bounds(schema: Schema, dtypes: Sequence[str]) -> UnknownBounds | None:
    """Return what is public about the columns of numbers whose bounds are to be bought, of a schema of coded kinds; None without any."""
    columns = {place: kind for place, kind in enumerate(schema.values()) if isinstance(kind, Continuous) and kind.stand_in}
    if not columns:
        return None
    numbers = [parse_dtype(dtypes[i]).number for i in columns]
    ranges = [(-np.inf, np.inf) if number is None else range_of(number) for number in numbers]
    whole = np.array([bool(kind.integer) for kind in columns.values()])
    least, most = np.array(ranges).T
    least, most = np.where(whole, np.maximum(least, -_MOST_WHOLE), least), np.where(whole, np.minimum(most, _MOST_WHOLE), most)
    return UnknownBounds(tuple(columns), least, most, whole)


def with_placeholder_kinds(schema: Schema, n_levels: int) -> Schema:
    """Return a schema with (-1, 1) for bounds that are to be bought, and as many levels for levels."""
    kinds = dict(schema)
    for name, kind in schema.items():
        if kind.stand_in and isinstance(kind, Continuous):
            kinds[name] = with_bounds(kind, *PLACEHOLDER)
        elif kind.stand_in:
            kinds[name] = Nominal(range(n_levels), nullable=kind.nullable)
    return schema.with_kinds(kinds)


def close_schema(schema: Schema, dtypes: Sequence[str], bought: Mapping[int, Any]) -> "tuple[Schema, ApplyPrivateFacts]":
    """Return a schema with bounds and levels that were bought, by the places of its coded columns, and the map that reads rows so."""
    names, dtype_of, kinds = list(schema.coded), dict(zip(schema, dtypes, strict=True)), {}
    for place, fact in bought.items():
        kind, dtype = schema.coded[names[place]], dtype_of[names[place]]
        kinds[place] = with_bounds(kind, *fact) if isinstance(kind, Continuous) else with_levels(kind, fact, dtype)
    return schema.with_kinds({**schema, **{names[place]: kind for place, kind in kinds.items()}}), ApplyPrivateFacts(kinds)


def with_bounds(kind: Continuous, low: float, high: float) -> Continuous:
    low, high = (int(low), int(high)) if kind.integer else (float(low), float(high))
    try:
        return replace(kind, low=low, high=high, bounds=None)
    except ValueError:  # no multiple of its step lies within them
        return replace(kind, low=low, high=high, bounds=None, decimals=None, step=None)


def with_levels(kind: Nominal, found: Sequence[Any], dtype: str) -> Nominal:
    """Return a kind with some levels; what is not among them counts as missing, or as the first.

    A column of texts in which none may be missing has "other" for that, as its first level, whether or not there is any. Where fewer than
    two levels are left, made-up ones complete them.
    """
    # Where a dtype tells nothing of its cells, what was bought does.
    family = parse_dtype(dtype).family
    is_number = family == "number" or (family == "any" and found and not any(isinstance(each, str) for each in found))
    levels = list(found) if is_number or kind.nullable else [OTHER, *(level for level in found if level != OTHER)]
    for more in (0, 1) if is_number else (OTHER, "none"):
        if len(levels) < 2 and more not in levels:
            levels.append(more)
    groups = kind.groups if all(isinstance(level, str) for level in levels) else None
    return Nominal(levels, nullable=kind.nullable, groups=groups, missing=[each for each in kind.missing if each not in levels])


@savable
@dataclass(frozen=True, eq=False)
class ApplyPrivateFacts:
    """Columns that were read without bounds or levels, as `read_columns` gives them by the kinds that were bought."""

    kinds: Mapping[int, Any]  # by the place of the column

    @np.errstate(all="ignore")  # a warning would tell of a value
    def __call__(self, chunk: Chunk) -> Chunk:
        return [self._apply(column, self.kinds[i]) if i in self.kinds else column for i, column in enumerate(chunk)]

    @staticmethod
    def _apply(column: np.ndarray, kind: ColumnKind) -> np.ndarray:
        if isinstance(kind, Continuous):
            x = np.clip(column, kind.low, kind.high)
            return x if kind.nullable else np.where(np.isnan(x), kind.midpoint, x)
        codes, fallback = {level: code for code, level in enumerate(kind.levels)}, len(kind.levels) if kind.nullable else 0
        return np.array([codes.get(level, fallback) for level in column.tolist()], dtype=np.int32)
