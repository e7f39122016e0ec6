"""Sums made inside a database: the same integers as over its rows, which stay where they are."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.domain import MICROSECONDS, Boolean, ColumnKind, Continuous, Nominal, Ordinal, Schema, Times
from skdpsynth.duckdb import Classes, Clock, Cuts, Database, Query, Values, can_be_written, choose_joint_tables, codes_of_cells, recode
from skdpsynth.frames import Cell, Rows, TableKind
from skdpsynth.statistics._aggregator import CellsOf, ColumnMap, Origins
from skdpsynth.tables import ReadValues, read_columns

_WHOLE = {f"{sign}{bits}": (sign == "Int", bits) for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)}
_REAL = ("Float32", "Float64")
_TEXT = ("String", "Enum", "Categorical")


def can_be_pushed_down(rows: Rows) -> bool:
    """Whether rows are read by a schema first."""
    return bool(rows.maps) and isinstance(rows.maps[0], ReadValues)


def _schema_of(rows: Rows) -> Schema:
    reading: Any = rows.maps[0]
    return reading.schema


def counts_by_column(database: Database, rows: Rows, columns: Sequence[int], sizes: Sequence[int]) -> list[np.ndarray] | None:
    """Count the codes from 0 of some columns, each by itself, for which no table is made; None if the rows must be read for it."""
    classes = _classes_of(rows, database)
    if classes is None:
        return None
    # Each code is more by 1: numbers without a sign have no -1.
    queries = [_query_of(database, rows, classes, [column], shift=1) for column in columns]
    return [counts[1:] for counts in database.counts_of(queries, [size + 1 for size in sizes])]


def counts_of_tables(
    database: Database, rows: Rows, sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]
) -> list[np.ndarray] | None:
    """Count the combinations of codes in some tables, each raveled; None if the rows must be read for it."""
    if can_be_pushed_down(rows) and isinstance(rows.maps[-1], CellsOf):
        # Cells have no table of codes: -1 stands among them. Levels are counted beside them, column by column.
        columns = [table[0] for table in attributes if len(table) == 1]
        return counts_by_column(database, rows, columns, [sizes[i] for i in columns]) if len(columns) == len(attributes) else None
    name = _table_of_codes(database, rows)
    if name is None:
        return None
    joints = choose_joint_tables(sizes, attributes)
    shapes = [tuple(sizes[column] for column in joint.columns) for joint in joints]
    tables = [np.zeros(0, dtype=np.int64) for _ in range(max(1, len(attributes)))]
    for joint, counts in zip(joints, database.counts(name, [joint.columns for joint in joints], shapes), strict=True):
        for table in joint.tables:  # sums over the columns that it lacks
            axes = [joint.columns.index(column) for column in attributes[table]]
            summed = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in axes))
            tables[table] = summed.transpose(np.argsort(np.argsort(axes))).ravel()
    return tables


def _table_of_codes(database: Database, rows: Rows) -> str | None:
    """Return the name of the table of the codes of rows; None if they cannot be found in the database.

    Codes after further maps follow from the table of fewer, where there is one.
    """
    key = tuple(map(id, rows.maps))
    if (name := database.table(key)) is not None:
        return name
    classes = _classes_of(rows, database)
    if classes is None:
        return None
    n_before = next((n for n in range(len(key), 0, -1) if database.table(key[:n]) is not None), 0)
    if not n_before:
        query = _query_of(database, rows, classes)
    else:
        old, _ = _codes_of(rows, classes, rows.maps[:n_before])
        codes, _ = _codes_of(rows, classes, rows.maps)
        origins: Origins = tuple(range(len(old)))
        maps: Any = rows.maps[n_before:]
        for step in maps:
            origins = step.origins(origins)
        tables = [column if place is None else _recode(old[place], column) for column, place in zip(codes, origins, strict=True)]
        query = recode(str(database.table(key[:n_before])), [None if place is None else f"k{place}" for place in origins], tables)
    name = database.make_table(key, rows, query)  # the rows keep their maps alive, and so the keys apart
    if rows.n_samples not in (None, database.n_rows(name)):
        raise ValueError(
            "X must give the same rows until fit is done, but gave another number of them than before; fit while nobody writes to its "
            "tables, or on a copy of them."
        )
    return name


def _recode(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the new code of each old one, from those of classes."""
    if np.array_equal(old, new):
        return np.arange(old.max() + 1)
    order = np.argsort(old, kind="stable")
    # A code of no class is that of the last one below.
    return new[order[np.maximum(np.searchsorted(old[order], np.arange(old.max() + 1), side="right") - 1, 0)]]


def _query_of(database: Database, rows: Rows, classes: Sequence[Classes], columns: Sequence[int] | None = None, shift: int = 0) -> Query:
    """Write the query for the codes of some columns of rows (None: all), each more by `shift`."""
    codes, origins = _codes_of(rows, classes, rows.maps)
    wanted, schema = range(len(codes)) if columns is None else columns, list(_schema_of(rows).coded)
    places = [origins[column] for column in wanted]
    names = [None if place is None else schema[place] for place in places]
    raw = [None if place is None else classes[place] for place in places]
    return codes_of_cells(database.rows, names, raw, [codes[column] + shift for column in wanted])


def _codes_of(rows: Rows, classes: Sequence[Classes], maps: Sequence[Any]) -> tuple[list[np.ndarray], Origins]:
    """Return the codes of the classes after some of the maps of rows, by column, and the column read from which each comes.

    A cell of each class goes through the maps themselves, as a chunk would: what is counted in a database and in memory cannot differ.
    """
    schema, dtypes = _schema_of(rows), TableKind.of(rows.source.head).dtypes
    length = max(len(each.cells) for each in classes)
    padded = (np.concatenate([each.cells, np.repeat(each.cells[:1], length - len(each.cells))]) for each in classes)
    chunk: Any = read_columns([next(padded) if schema.is_coded(name) else None for name in schema], schema, dtypes)
    origins: Origins = tuple(range(len(classes)))
    for change in maps[1:]:
        chunk, origins = change(chunk), change.origins(origins)
    n_classes = [1 if place is None else len(classes[place].cells) for place in origins]
    return [np.asarray(codes[:n], dtype=np.int64) for codes, n in zip(chunk, n_classes, strict=True)], origins


def _classes_of(rows: Rows, database: Database) -> list[Classes] | None:
    """Return by column the classes of raw cells that a schema and the grids of rows tell apart.

    None if a database may see others, or their SQL would be too long.
    """
    if not can_be_pushed_down(rows):
        return None
    schema, raw = _schema_of(rows), database.column_types()
    if list(raw) != list(schema) or not all(isinstance(each, ColumnMap) for each in rows.maps[1:]):
        return None
    grids = rows.maps[1].grids if len(rows.maps) > 1 and isinstance(rows.maps[1], CellsOf) else {}
    columns = [(kind, repr(dtype)) for (name, kind), dtype in zip(schema.items(), raw.values(), strict=True) if schema.is_coded(name)]
    classes = [_classes(kind, dtype, grids.get(place)) for place, (kind, dtype) in enumerate(columns)]
    return None if any(each is None or not can_be_written(each) for each in classes) else classes  # type: ignore[return-value]


def _classes(kind: ColumnKind, dtype: str, grid: Any) -> Classes | None:
    if getattr(kind, "missing", ()) or getattr(kind, "other", None) is not None:
        return None
    if kind.stand_in is not None or (isinstance(kind.coded, Continuous) and grid is None):
        return None
    if isinstance(kind, Times):
        if dtype not in ("Date", "Datetime(time_unit='us', time_zone=None)"):
            return None
        clock = Clock(kind.first, kind.first + kind.coded.high, MICROSECONDS[kind.resolution], dtype == "Date")
        return Cuts(grid.cuts, 0.0, float(kind.coded.high), clock)
    dtype = dtype.split("(")[0]
    if type(kind) is Continuous:
        is_whole = dtype in _WHOLE or dtype == "Boolean"
        return Cuts(grid.cuts, float(kind.low), float(kind.high), is_whole=is_whole) if is_whole or dtype in _REAL else None
    if (
        type(kind) not in (Nominal, Ordinal, Boolean)
        or (type(kind) is Boolean and (dtype in _TEXT or kind.words))
        or not (dtype in _WHOLE or dtype in _REAL or dtype in _TEXT or dtype == "Boolean")
    ):
        return None
    levels: list[Any] = list(kind.levels)
    if dtype == "Float32":
        # As in `read_columns`: what a level is in a column of so few digits.
        levels = [np.float32(level).item() for level in levels if not isinstance(level, str)]
    values = tuple(dict.fromkeys(value for level in levels for value in _values_of(level, dtype)))
    # SQL ends at a null character.
    return None if any(isinstance(value, str) and "\0" in value for value in values) else Values(values)


def _values_of(level: Cell, dtype: str) -> list[Any]:
    """Return the value of a column to which a level is equal, if it can have one."""
    if dtype in _TEXT:  # no text has half a surrogate pair
        return [level] if isinstance(level, str) and level.encode(errors="ignore").decode() == level else []
    if isinstance(level, str):
        return []
    if dtype == "Boolean":
        return [bool(level)] if level in (0, 1) else []
    if dtype in _REAL:
        return [float(level)] if float(level) == level else []
    is_signed, bits = _WHOLE[dtype]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return [int(level)] if math.isfinite(level) and level == int(level) and low <= level <= high else []
