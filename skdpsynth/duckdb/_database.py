"""Counts inside DuckDB, of which nothing but counts is fetched."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from skdpsynth.duckdb._sql import Query, cast

_AT_ONCE = 64  # tables counted by one statement
_MOST_CELLS = 1 << 13  # of a table that is counted in place of several: in the cache
_PERFECT_BITS = 12  # of all codes of a table up to which DuckDB needs no hash


class Database:
    """A relation of DuckDB, asked for counts.

    Its connection is the user's: no setting, no table and no view of it is changed. Tables of codes are temporary, with random names, and
    the caller must have them dropped.
    """

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self.rows = f"_skdpsynth_{uuid4().hex}"
        self._made: dict[Any, tuple[Any, str]] = {}

    def column_types(self) -> dict[str, Any]:
        """Return the dtype of each column, as narwhals calls it."""
        import narwhals.stable.v2 as nw

        return dict(nw.from_native(self._relation).collect_schema())

    def table(self, key: Hashable) -> str | None:
        """Return the name of the table of codes that was made under a key, or None."""
        return self._made[key][1] if key in self._made else None

    def make_table(self, key: Hashable, keep: object, query: Query) -> str:
        """Make a temporary table of codes, to be found by a key; return its name. Its columns are k0, k1, ...; `keep` lives as long."""
        name = f"temp._skdpsynth_{uuid4().hex}"
        try:
            self._run(f"CREATE TEMPORARY TABLE {name} AS {query.select('k')}")
        except BaseException:
            self.drop(name)
            raise
        self._made[key] = keep, name
        return name

    def drop_all(self) -> None:
        """Drop all tables of codes."""
        while self._made:
            self.drop(self._made.popitem()[1][1])

    def n_rows(self, name: str | None = None) -> int:
        """Return the number of rows, or of those of a temporary table."""
        return int(self._fetch(f"SELECT count(*) AS n FROM {name or self.rows}")["n"][0])

    def drop(self, name: str) -> None:
        """Drop a temporary table."""
        try:
            self._relation.query(self.rows, f"DROP TABLE IF EXISTS {name}")
        except Exception:  # the connection is closed or broken, and its temporary tables are gone with it
            return

    def counts(self, name: str, tables: Sequence[tuple[int, ...]], shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        """Count the combinations of codes in the columns of each of some tables: of a temporary table, in arrays of these shapes."""
        queries = []
        for columns, shape in zip(tables, shapes, strict=True):
            keys = {f"k{column}": size for column, size in zip(columns, shape, strict=True) if size > 1}
            cell = cast("0", n_cells := math.prod(shape))
            for key, size in keys.items():
                cell = cast(f"{cell} * {cast(str(size), n_cells)} + {key}", n_cells)
            # A few small columns are addressed directly; of more, one number is hashed faster than several.
            by = ", ".join(keys) if keys and is_small(shape) else "cell"
            queries.append(f"{cell} AS cell, count(*) AS n FROM {name} GROUP BY {by}")
        counts = self._arrays(queries, list(map(math.prod, shapes)))
        return [table.reshape(shape) for table, shape in zip(counts, shapes, strict=True)]

    def counts_of(self, queries: Sequence[Query], sizes: Sequence[int]) -> list[np.ndarray]:
        """Count the codes of one column each, below a size; no table is made for it."""
        return self._arrays([f"k0 AS cell, count(*) AS n FROM ({query.select('k')}) GROUP BY cell" for query in queries], sizes)

    def _arrays(self, queries: Sequence[str], sizes: Sequence[int]) -> list[np.ndarray]:
        """Return an array of counts for each query, without SELECT, whose answer tells numbers of cells and how often they occur."""
        counts = [np.zeros(size, dtype=np.int64) for size in sizes]
        for start in range(0, len(queries), _AT_ONCE):
            numbered = enumerate(queries[start : start + _AT_ONCE], start)
            found = self._fetch(" UNION ALL ".join(f"SELECT {part} AS part, {query}" for part, query in numbered))
            order = np.argsort(found["part"], kind="stable")
            parts, cells, n = (np.asarray(found[key], dtype=np.int64)[order] for key in ("part", "cell", "n"))
            present, first = np.unique(parts, return_index=True)
            for part, rows in zip(present, np.split(np.arange(len(parts)), first[1:]), strict=False):
                counts[part][cells[rows]] = n[rows]
        return counts

    def _fetch(self, sql: str) -> dict[str, np.ndarray]:
        return self._run(sql, lambda answer: answer.fetchnumpy())

    def _run(self, sql: str, read: Callable[[Any], Any] = lambda answer: None) -> Any:
        """Run a statement and read its answer; an error of the database may quote cells, so only its kind is told."""
        try:
            return read(self._relation.query(self.rows, sql))
        except Exception as error:
            kind = type(error).__name__
        # Raised here, so that it has no context, which would quote what the database said.
        raise OSError(
            f"the database must answer queries over X until fit is done, got {kind}; keep its connection open, and see whether it can read "
            "all of X."
        )


@dataclass(frozen=True)
class Joint:
    """A table to count, and those that are sums of it."""

    columns: tuple[int, ...]
    tables: tuple[int, ...]  # which of the wanted tables are over some of these columns


def is_small(sizes: Sequence[int]) -> bool:
    """Whether the codes of all columns of a table fit into so few bits that a database addresses its cells directly."""
    return sum((size + 1).bit_length() for size in sizes if size > 1) <= _PERFECT_BITS


def choose_joint_tables(sizes: Sequence[int], attributes: Sequence[tuple[int, ...]]) -> list[Joint]:
    """Return few tables that hold all wanted ones, each of which is in exactly one; they have two columns besides those that all share.

    Counting a table costs about the same whether it has two columns or five, as long as its cells are few, and one of five columns holds
    ten of pairs. Greedy: a table that is not yet held grows by the column that brings the most others for its price.
    """
    shared = frozenset.intersection(*map(frozenset, attributes)) if attributes else frozenset()
    rest = [tuple(set(columns) - shared) for columns in attributes]
    if any(len(columns) > 2 for columns in rest):
        return [Joint(columns, (table,)) for table, columns in enumerate(attributes)]
    wanted: dict[frozenset[int], list[int]] = {}
    for table, columns in enumerate(rest):
        wanted.setdefault(frozenset(columns), []).append(table)
    # For each column, the columns with which it still shares a wanted table, as bits; itself where it is wanted alone.
    beside = [0] * len(sizes)
    for pair in wanted:
        for one in pair:
            beside[one] |= sum(1 << other for other in pair - {one}) if len(pair) > 1 else 1 << one
    joints = []
    while wanted:
        group = _grow(next(iter(wanted)), shared, sizes, beside)
        within = [(), *((one,) for one in group), *((one, other) for i, one in enumerate(group) for other in group[:i])]
        held = [pair for pair in map(frozenset, within) if pair in wanted]
        joints.append(Joint((*sorted(shared), *sorted(group)), tuple(table for pair in held for table in wanted.pop(pair))))
        for pair in held:
            for one in pair:
                beside[one] &= ~(sum(1 << other for other in pair - {one}) if len(pair) > 1 else 1 << one)
    return joints


def _grow(seed: frozenset[int], shared: frozenset[int], sizes: Sequence[int], beside: Sequence[int]) -> list[int]:
    """Return the columns of a table around a seed that holds the most wanted tables for its price."""
    group, mask, held = sorted(seed), sum(1 << one for one in seed), 1
    best, best_rate = list(group), held / _price(group, shared, sizes)
    while True:
        options = []
        for column, others in enumerate(beside):
            if not (mask >> column & 1) and (new := (others & (mask | 1 << column)).bit_count()):
                grown = [*group, column]
                if math.prod(sizes[one] for one in {*grown, *shared}) <= _MOST_CELLS:
                    options.append(((held + new) / _price(grown, shared, sizes), column, new))
        if not options:
            return best
        rate, column, new = max(options)
        group, mask, held = [*group, column], mask | 1 << column, held + new
        if rate > best_rate:
            best, best_rate = list(group), rate


def _price(group: Sequence[int], shared: frozenset[int], sizes: Sequence[int]) -> float:
    """Milliseconds that DuckDB needs to count a table of 10 million rows on two cores, roughly."""
    of_table = [sizes[column] for column in {*group, *shared}]
    return 33.0 if is_small(of_table) else 45.0 + math.prod(of_table) / 200
