"""Sums made inside a database: the same integers as over its rows, which stay where they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skdpsynth.duckdb import Classes, Database, Joint, Query, can_be_written, choose_joint_tables, codes_of_cells, recode
from skdpsynth.frames import Rows
from skdpsynth.statistics._encoding import CellsOf, Origins
from skdpsynth.statistics._raw_classes import classes_of, codes_of, schema_of
from skdpsynth.tables import ReadValues


def can_be_pushed_down(rows: Rows) -> bool:
    """Whether rows are read by a schema first."""
    return bool(rows.maps) and isinstance(rows.maps[0], ReadValues)


def _table_of_codes(database: Database, rows: Rows) -> str | None:
    """Return the name of the table of the codes of rows; None if they cannot be found in the database.

    Codes after further maps follow from the table of fewer, where there is one.
    """
    if (name := database.table(_key(rows.maps))) is not None:
        return name
    classes = _known_classes(rows, database)
    if classes is None:
        return None
    n_before = next((n for n in range(len(rows.maps), 0, -1) if database.table(_key(rows.maps[:n])) is not None), 0)
    query = _query_of_table(database, rows, classes, n_before) if n_before else query_of(database, rows, classes)
    name = database.make_table(_key(rows.maps), rows, query)  # the rows keep their maps alive, and so the keys apart
    if rows.n_samples not in (None, database.n_rows(name)):
        raise ValueError(
            "X must give the same rows until fit is done, but gave another number of them than before; fit while nobody writes to its "
            "tables, or on a copy of them."
        )
    return name


def _query_of_table(database: Database, rows: Rows, classes: Sequence[Classes], n_before: int) -> Query:
    old_codes, _ = codes_of(rows, classes, rows.maps[:n_before])
    codes, _ = codes_of(rows, classes, rows.maps)
    origins: Origins = tuple(range(len(old_codes)))
    maps: Any = rows.maps[n_before:]
    for step in maps:
        origins = step.origins(origins)
    tables = [column if place is None else _recode(old_codes[place], column) for column, place in zip(codes, origins, strict=True)]
    name = str(database.table(_key(rows.maps[:n_before])))
    return recode(name, [None if place is None else f"k{place}" for place in origins], tables)


def query_of(database: Database, rows: Rows, classes: Sequence[Classes], columns: Sequence[int] | None = None, shift: int = 0) -> Query:
    """Write the query for the codes of some columns of rows (None: all), each more by `shift`: numbers without a sign have no -1."""
    codes, origins = codes_of(rows, classes, rows.maps)
    wanted, schema = range(len(codes)) if columns is None else columns, list(schema_of(rows).coded)
    places = [origins[column] for column in wanted]
    names = [None if place is None else schema[place] for place in places]
    raw = [None if place is None else classes[place] for place in places]
    return codes_of_cells(database.rows, names, raw, [codes[column] + shift for column in wanted])


def _known_classes(rows: Rows, database: Database) -> list[Classes] | None:
    classes = classes_of(rows, database)
    return None if classes is None or not all(map(can_be_written, classes)) else classes


def _key(maps: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(id, maps))


def _recode(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the new code of each old one, from those of classes."""
    if np.array_equal(old, new):
        return np.arange(old.max() + 1)
    order = np.argsort(old, kind="stable")
    # A code of no class is that of the last one below.
    return new[order[np.maximum(np.searchsorted(old[order], np.arange(old.max() + 1), side="right") - 1, 0)]]


def counts_by_column(database: Database, rows: Rows, columns: Sequence[int], sizes: Sequence[int]) -> list[np.ndarray] | None:
    """Count the codes from 0 of some columns, each by itself, for which no table is made; None if the rows must be read for it."""
    if not can_be_pushed_down(rows):
        return None
    classes = _known_classes(rows, database)
    if classes is None:
        return None
    queries = [query_of(database, rows, classes, [column], shift=1) for column in columns]
    return [counts[1:] for counts in database.counts_of(queries, [size + 1 for size in sizes])]


def counts_of_tables(
    database: Database, rows: Rows, sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]
) -> list[np.ndarray] | None:
    """Count the combinations of codes in some tables, each raveled; None if the rows must be read for it."""
    if not can_be_pushed_down(rows):
        return None
    if isinstance(rows.maps[-1], CellsOf):
        # Cells have no table of codes: -1 stands among them. What is counted beside them are levels, column by column.
        columns = [table[0] for table in attributes if len(table) == 1]
        is_plain = len(columns) == len(attributes)
        return counts_by_column(database, rows, columns, [sizes[i] for i in columns]) if is_plain else None
    name = _table_of_codes(database, rows)
    if name is None:
        return None
    joints = choose_joint_tables(sizes, attributes)
    shapes = [tuple(sizes[column] for column in joint.columns) for joint in joints]
    return _parts(joints, database.counts(name, [joint.columns for joint in joints], shapes), attributes)


def _parts(joints: Sequence[Joint], counted: Sequence[np.ndarray], attributes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the wanted tables, as sums of those that were counted over the columns that they lack."""
    tables = [np.zeros(0, dtype=np.int64) for _ in range(max(1, len(attributes)))]
    for joint, counts in zip(joints, counted, strict=True):
        for table in joint.tables:
            axes = [joint.columns.index(column) for column in attributes[table]]
            summed = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in axes))
            tables[table] = summed.transpose(np.argsort(np.argsort(axes))).ravel()
    return tables
