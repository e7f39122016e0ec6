"""Group raw cells that every map of the rows gives the same code."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.domain import MICROSECONDS, Continuous, Nominal, Ordinal, Schema, Times
from skdpsynth.duckdb import Classes, Clock, Cuts, Database, Values
from skdpsynth.frames import Rows, TableKind
from skdpsynth.statistics._encoding import CellsOf, ColumnMap, Origins
from skdpsynth.tables import read

_WHOLE = {f"{sign}{bits}": (sign == "Int", bits) for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)}
_REAL = ("Float32", "Float64")
_TEXT = ("String", "Enum", "Categorical")


def classes_of(rows: Rows, database: Database) -> list[Classes] | None:
    """Return the classes of raw cells that a schema and the grids of rows tell apart, by column; None if a database may see it otherwise."""
    schema, raw = schema_of(rows), database.column_types()
    if list(raw) != list(schema) or not all(isinstance(each, ColumnMap) for each in rows.maps[1:]):
        return None
    grids = rows.maps[1].grids if len(rows.maps) > 1 and isinstance(rows.maps[1], CellsOf) else {}
    columns = [(kind, repr(dtype)) for (name, kind), dtype in zip(schema.items(), raw.values(), strict=True) if schema.is_coded(name)]
    classes = [_classes(kind, dtype, grids.get(place)) for place, (kind, dtype) in enumerate(columns)]
    return None if any(each is None for each in classes) else classes  # type: ignore[return-value]


def codes_of(rows: Rows, classes: Sequence[Classes], maps: Sequence[Any]) -> tuple[list[np.ndarray], Origins]:
    """Return the codes of the classes after some of the maps of rows, by column, and the column read from which each comes.

    A cell of each class goes through the maps themselves, as a chunk would: what is counted in a database and in memory cannot differ.
    """
    schema, dtypes = schema_of(rows), TableKind.of(rows.source.head).dtypes
    length = max(len(each.cells) for each in classes)
    cells = iter(classes)
    chunk: Any = read([_padded(next(cells).cells, length) if schema.is_coded(name) else None for name in schema], schema, dtypes)
    origins: Origins = tuple(range(len(classes)))
    for change in maps[1:]:
        chunk, origins = change(chunk), change.origins(origins)
    n_classes = [1 if place is None else len(classes[place].cells) for place in origins]
    return [np.asarray(codes[:n], dtype=np.int64) for codes, n in zip(chunk, n_classes, strict=True)], origins


def schema_of(rows: Rows) -> Schema:
    """Return the schema by which rows are read, which is the first that happens to them."""
    reading: Any = rows.maps[0]
    return reading.schema


def _classes(kind: Any, dtype: str, grid: Any) -> Classes | None:
    if kind.unstated is not None or (isinstance(kind.coded, Continuous) and grid is None):
        return None
    if isinstance(kind, Times):
        clock = _clock(kind, dtype)
        return None if clock is None else Cuts(grid.cuts, 0.0, float(kind.coded.high), clock)
    dtype = dtype.split("(")[0]
    if type(kind) is Continuous:
        is_whole = dtype in _WHOLE or dtype == "Boolean"
        return Cuts(grid.cuts, float(kind.low), float(kind.high), is_whole=is_whole) if is_whole or dtype in _REAL else None
    if type(kind) not in (Nominal, Ordinal) or not (dtype in _WHOLE or dtype in _REAL or dtype in _TEXT or dtype == "Boolean"):
        return None
    levels: list[Any] = list(kind.levels)
    if dtype == "Float32":
        # As in `read`: what a level is in a column of so few digits.
        levels = [np.float32(level).item() for level in levels if not isinstance(level, str)]
    values = tuple(dict.fromkeys(value for level in levels for value in _values_of(level, dtype)))
    # SQL ends at a null character.
    return None if any(isinstance(value, str) and "\0" in value for value in values) else Values(values)


def _clock(kind: Times, dtype: str) -> Clock | None:
    if dtype not in ("Date", "Datetime(time_unit='us', time_zone=None)"):
        return None
    return Clock(kind.first, kind.first + kind.coded.high, MICROSECONDS[kind.resolution], dtype == "Date")


def _values_of(level: Any, dtype: str) -> list[Any]:
    """Return the value of a column to which a level is equal, if it can have one."""
    if dtype in _TEXT:
        return [level] if isinstance(level, str) and _is_text(level) else []
    if isinstance(level, str):
        return []
    if dtype == "Boolean":
        return [bool(level)] if level in (0, 1) else []
    if dtype in _REAL:
        return [float(level)] if float(level) == level else []
    is_signed, bits = _WHOLE[dtype]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return [int(level)] if math.isfinite(level) and level == int(level) and low <= level <= high else []


def _is_text(level: str) -> bool:
    try:
        level.encode()
    except UnicodeEncodeError:
        return False
    return True


def _padded(cells: np.ndarray, length: int) -> np.ndarray:
    padded = np.full(length, cells[0], dtype=cells.dtype)
    padded[: len(cells)] = cells
    return padded
