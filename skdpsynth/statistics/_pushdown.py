"""Sums computed inside a database: the same integers as over its rows, which stay where they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from skdpsynth.duckdb._database import Database
from skdpsynth.duckdb._sql import Query, can_be_written, codes_of_cells, recode
from skdpsynth.duckdb._workload import Joint, choose_joint_tables
from skdpsynth.frames import Rows
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._encoding import CellsOf, Origins
from skdpsynth.statistics._marginals import CountCombinations, Marginals
from skdpsynth.statistics._raw_classes import Classes, classes_of, codes_of, schema_of
from skdpsynth.statistics._row_count import CountRows, RowCount
from skdpsynth.statistics._trees import CountNodes, Trees, nodes_of
from skdpsynth.tables import ReadValues


def push_down(rows: Rows, aggregator: Aggregator) -> Any:
    """Return the statistic of rows in a database, computed there; None if the rows must be read for it.

    Parameters
    ----------
    rows : Rows
    aggregator : Aggregator

    Returns
    -------
    statistic : object or None
    """
    compute = next((compute for rule, compute in _COMPUTED.items() if isinstance(aggregator, rule)), None)
    if compute is None or rows.lazy is None or not (rows.maps and isinstance(rows.maps[0], ReadValues)):
        return None
    with keep_tables(rows):
        tables = rows.origin.tables
        return None if tables is None else compute(tables, rows, aggregator)


@contextmanager
def keep_tables(rows: Rows) -> Iterator[None]:
    """Keep the tables of codes that a database makes for the sums of these rows, and drop them at the end.

    Without it they are made for each sum anew.
    """
    origin = rows.origin
    if rows.lazy is None or origin.tables is not None:
        yield
        return
    relation = _relation_of(rows.lazy)
    origin.tables = None if relation is None else _Tables(Database(relation))
    try:
        yield
    finally:
        if origin.tables is not None:
            origin.tables.drop()
        origin.tables = None


class _Tables:
    """The temporary tables of codes that a database has made of rows, by the maps that the rows went through.

    Attributes
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._made: dict[tuple[int, ...], tuple[Rows, str]] = {}  # the rows keep their maps alive, and so the keys apart

    def drop(self) -> None:
        """Drop all tables."""
        while self._made:
            _, (_, name) = self._made.popitem()
            self.database.drop(name)

    def of(self, rows: Rows) -> str | None:
        """Return the name of the table of the codes of rows; None if they cannot be found in the database.

        Codes after further maps follow from the table of fewer, where there is one.
        """
        if _key(rows.maps) not in self._made:
            classes = _known_classes(rows)
            if classes is None:
                return None
            n_before = next((n for n in range(len(rows.maps), 0, -1) if _key(rows.maps[:n]) in self._made), 0)
            query = self._query_of_table(rows, classes, n_before) if n_before else query_of(self.database, rows, classes)
            self._made[_key(rows.maps)] = rows, self.database.make(query)
            self._check_length(rows)
        return self._made[_key(rows.maps)][1]

    def _check_length(self, rows: Rows) -> None:
        """Refuse rows that came or went between sums, as reading them would."""
        if rows.n_samples not in (None, self.database.n_rows(self._made[_key(rows.maps)][1])):
            raise ValueError(
                "X must give the same rows until fit is done, but gave another number of them than before; fit while nobody writes to its "
                "tables, or on a copy of them."
            )

    def _query_of_table(self, rows: Rows, classes: Sequence[Classes], n_before: int) -> Query:
        old_codes, _ = codes_of(rows, classes, rows.maps[:n_before])
        codes, _ = codes_of(rows, classes, rows.maps)
        origins: Origins = tuple(range(len(old_codes)))
        changes: Any = rows.maps[n_before:]
        for change in changes:
            origins = change.origins(origins)
        tables = [column if place is None else _recode(old_codes[place], column) for column, place in zip(codes, origins, strict=True)]
        return recode(self._made[_key(rows.maps[:n_before])][1], [None if place is None else f"k{place}" for place in origins], tables)


def query_of(database: Database, rows: Rows, classes: Sequence[Classes], columns: Sequence[int] | None = None, shift: int = 0) -> Query:
    """Write the query for the codes of rows, each more by `shift`: numbers without a sign have no -1.

    Parameters
    ----------
    database : Database
    rows : Rows
    classes : list of Cuts or Values
    columns : sequence of int, default=None
        Which; None: all.
    shift : int, default=0

    Returns
    -------
    query : Query
    """
    codes, origins = codes_of(rows, classes, rows.maps)
    wanted, schema = range(len(codes)) if columns is None else columns, list(schema_of(rows).coded)
    places = [origins[column] for column in wanted]
    names = [None if place is None else schema[place] for place in places]
    raw = [None if place is None else classes[place] for place in places]
    return codes_of_cells(database.rows, names, raw, [codes[column] + shift for column in wanted])


def _known_classes(rows: Rows) -> list[Classes] | None:
    classes = classes_of(rows)
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


def _relation_of(lazy: Any) -> Any:
    """Return a lazy frame of narwhals as a relation of DuckDB; None if it is not one."""
    import narwhals.stable.v2 as nw

    native = nw.to_native(lazy)
    if type(native).__name__ == "DuckDBPyRelation":
        return native
    if type(native).__module__.split(".")[0] != "ibis":
        return None
    try:
        backend = native.get_backend()
        return backend._to_duckdb_relation(native) if hasattr(backend, "_to_duckdb_relation") else None
    except Exception:  # reading its rows will say what is wrong
        return None


def _row_count(tables: _Tables, rows: Rows, aggregator: CountRows) -> RowCount:
    return RowCount(tables.database.n_rows())


def _trees(tables: _Tables, rows: Rows, aggregator: CountNodes) -> Trees | None:
    leaves = _counts_by_column(tables.database, rows, aggregator.columns, [1 << depth for depth in aggregator.depths])
    if leaves is None:
        return None
    nodes = [nodes_of(counts, depth) for counts, depth in zip(leaves, aggregator.depths, strict=True)]
    return Trees(aggregator.depths, np.concatenate([np.zeros(0, dtype=np.int64), *nodes]))


def _counts_by_column(database: Database, rows: Rows, columns: Sequence[int], sizes: Sequence[int]) -> list[np.ndarray] | None:
    """Count the codes from 0 of some columns, each by itself: no table is made for it."""
    classes = _known_classes(rows)
    if classes is None:
        return None
    queries = [query_of(database, rows, classes, [column], shift=1) for column in columns]
    return [counts[1:] for counts in database.counts_of(queries, [size + 1 for size in sizes])]


def _marginals(tables: _Tables, rows: Rows, aggregator: CountCombinations) -> Marginals | None:
    if isinstance(rows.maps[-1], CellsOf):
        # Cells have no table of codes: -1 stands among them. What is counted beside them are levels, column by column.
        columns = [table[0] for table in aggregator.attributes if len(table) == 1]
        is_plain = len(columns) == len(aggregator.attributes)
        by_column = _counts_by_column(tables.database, rows, columns, [aggregator.sizes[i] for i in columns]) if is_plain else None
        return None if by_column is None else Marginals(aggregator.shapes, np.concatenate(by_column))
    name = tables.of(rows)
    if name is None:
        return None
    joints = choose_joint_tables(aggregator.sizes, aggregator.attributes)
    shapes = [tuple(aggregator.sizes[column] for column in joint.columns) for joint in joints]
    counted = tables.database.counts(name, [joint.columns for joint in joints], shapes)
    return Marginals(aggregator.shapes, np.concatenate(_parts(joints, counted, aggregator.attributes)))


def _parts(joints: Sequence[Joint], counted: Sequence[np.ndarray], attributes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the wanted tables, as sums of those that were counted over the columns that they lack."""
    tables = [np.zeros(0, dtype=np.int64) for _ in range(max(1, len(attributes)))]
    for joint, counts in zip(joints, counted, strict=True):
        for table in joint.tables:
            axes = [joint.columns.index(column) for column in attributes[table]]
            summed = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in axes))
            tables[table] = summed.transpose(np.argsort(np.argsort(axes))).ravel()
    return tables


_COMPUTED: dict[type, Callable[[_Tables, Rows, Any], Any]] = {CountRows: _row_count, CountNodes: _trees, CountCombinations: _marginals}
