"""Linked tables in memory: each root with all that hangs on it as one row, and sampled ones as tables of their own.

*One row is one root.* Which rows hang on a root, which of them count, in which order they come and what is computed of them follows from
the rows that have its key alone: they are found by equal keys, rows are told apart and counted within one parent, and no cell can raise.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    Children,
    Continuous,
    Identifier,
    Ordinal,
    Schema,
    SchemaLike,
    Times,
    as_nullable,
    key_columns,
    list_names,
    name_repr,
    names_in,
    order_links,
)
from skdpsynth.frames import (
    MISSING_WORDS,
    Column,
    Digests,
    InMemory,
    LabelNumbers,
    RowHash,
    Source,
    Table,
    TableKind,
    concatenate,
    is_missing,
    label_list,
    open_source,
    parse_dtype,
    plain_name,
    split_columns,
    take_rows,
    word_of_label,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import Codes, plain_numbers
from skdpsynth.tables._open import check_enough, check_no_text, infers_dtypes, read_column, read_columns, split_under
from skdpsynth.tables._table import TableFormat, check_room, name_table_in_errors

Columns: TypeAlias = list[np.ndarray]
Labels: TypeAlias = np.ndarray | list  # of a column of a key: whole numbers of 64 bits, or anything
_NOBODY = np.iinfo(np.int64).min  # among labels that are whole numbers
_SEVERAL = 2.0**53  # from here on a float stands for several whole numbers
_NTH = Ordinal(["1", "2", "3-4", "5+"])  # which row of its history one is


@dataclass(frozen=True, eq=False, repr=False)  # no repr shows rows, or how many there are
class Forest:
    """Linked tables as rows of one fit: a root with all rows that hang on it is one row."""

    root: str
    tables: Mapping[str, Columns]  # of each: its own columns, as `read_columns` gives them, and those that links add
    owners: Mapping[str, np.ndarray]  # of each child table, the places of its rows' parents, in ascending order
    parents: Mapping[str, str]  # of each child table, parents before children

    def __len__(self) -> int:
        return len(self.tables[self.root][0])

    def __getitem__(self, roots: slice | np.ndarray) -> "Forest":
        """Return some roots, in their order, with all that hangs on them."""
        chosen, owners = {self.root: np.arange(len(self))[roots]}, {}
        for child, parent in self.parents.items():
            counts, wanted = self.counts(child), chosen[parent]
            sizes = counts[wanted]
            owners[child] = np.repeat(np.arange(len(wanted)), sizes)
            chosen[child] = np.repeat((np.cumsum(counts) - counts)[wanted], sizes) + _ranks(sizes)
        return replace(self, tables={name: take_rows(columns, chosen[name]) for name, columns in self.tables.items()}, owners=owners)

    def counts(self, child: str) -> np.ndarray:
        """Return how many rows of a child table each row of its parent has."""
        parent = self.parents[child]
        return np.bincount(self.owners[child], minlength=len(self) if parent == self.root else len(self.owners[parent]))

    def map_tables(self, change: Mapping[str, Callable[[Columns], Columns]]) -> "Forest":
        """Return this with other columns in some tables, of the same rows."""
        return replace(self, tables={name: change[name](each) if name in change else each for name, each in self.tables.items()})


@savable
@dataclass(frozen=True)
class LinkedFormat:
    """Kinds and schemas of linked tables, never what they held: rows go back in it."""

    root: str
    links: tuple[Children, ...]  # parents before children
    formats: Mapping[str, TableFormat]  # in the order of the schemas; keys are identifiers
    keys: Mapping[str, tuple]  # of each child table, pairs of its columns and its parent's

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schema of each table of a `Forest`, with the columns that links add after its own."""
        schemas = {}
        for name, table in self.formats.items():
            added = self._added(name)
            if taken := [column for column in added if column in table.schema]:
                raise ValueError(
                    f"schema of {short_repr(name)} must not have the column {list_names(taken)}, which a link adds; rename it."
                )
            schemas[name] = Schema({**table.schema, **added}, table.schema.rules, table.schema.read)
        return schemas

    def _added(self, name: str) -> dict[str, Any]:
        below, added = [link for link in self.links if link.of == name], dict[str, Any]()
        for link in below:
            added |= {f"{link.table}.head.{column}": self.formats[link.table].schema[column] for column in self.head_columns(link)}
        added |= {f"{link.table}.number": Ordinal(range(most_of(link) + 1)) for link in below}
        return added | {f"{link.table}.nth": _NTH for link in self.links if link.table == name and link.order is not None}

    def own_columns(self, name: str) -> list[Any]:
        """Return the columns of a table, without those that links add, that mechanisms see."""
        return list(self.formats[name].schema.coded)

    def head_columns(self, link: Children) -> list[Any]:
        """Return the columns of a child table that stand in its parent's for the head."""
        return [] if link.head is None else [name for name in self.own_columns(link.table) if name not in link.head]

    def head_codes(self, link: Children) -> dict[Any, int]:
        """Return the code of each cell that the head of a link has."""
        schema = self.formats[link.table].schema
        return {name: Codes(schema[name], unknown=-1)[cell] for name, cell in (link.head or {}).items()}

    def write(self, tables: Mapping[str, Columns], owners: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return rows of a forest as tables in the kinds and dtypes of their inputs, with keys that are made anew.

        Keys count from 0 in the order of rows. The head of a parent comes first among its rows.
        """
        columns, rows = {self.root: tables[self.root][: len(self.own_columns(self.root))]}, dict(owners)
        for link in self.links:
            names, start = self.own_columns(link.table), list(self.schemas[link.of].coded).index
            own = tables[link.table][: len(names)]
            if link.head is not None:
                codes, n_parents = self.head_codes(link), len(tables[link.of][0])
                heads = [
                    np.full(n_parents, codes[name]) if name in codes else tables[link.of][start(f"{link.table}.head.{name}")]
                    for name in names
                ]
                every = np.concatenate([np.arange(n_parents), rows[link.table]])
                order = np.argsort(every, kind="stable")  # heads stand before all others
                own = take_rows(concatenate([heads, own]), order)
                rows[link.table] = every[order]
            columns[link.table] = own
        labels = self._fresh_keys({name: len(own[0]) for name, own in columns.items()}, rows)
        return {name: table.fill(columns[name], labels=labels[name]) for name, table in self.formats.items()}

    def _fresh_keys(self, sizes: Mapping[str, int], owners: Mapping[str, np.ndarray]) -> dict[str, dict[Any, np.ndarray]]:
        labels: dict[str, dict[Any, np.ndarray]] = {name: {} for name in sizes}
        for table in [self.root, *(link.table for link in self.links)]:
            for link in self.links:
                if link.table == table:
                    labels[table] |= {column: labels[link.of][theirs][owners[table]] for column, theirs in self.keys[table]}
            for link in self.links:
                if link.of == table:
                    own = {theirs: np.arange(sizes[table]) for _, theirs in self.keys[link.table]}
                    labels[table] = own | labels[table]
        return labels


def most_of(link: Children) -> int:
    """Return how many rows of a parent stand in the child table of a forest: all but the head."""
    return link.most - (link.head is not None)


def state_links(schemas: Mapping[str, SchemaLike], links: Sequence[Children]) -> tuple[str, tuple[Children, ...], dict[str, Schema]]:
    """Return (root, links with parents before children, schemas) of what a caller states, or refuse it."""
    if not isinstance(schemas, Mapping) or not schemas or not all(isinstance(name, str) for name in schemas):
        told = "schemas must be a dict of table: schema, with names of tables as keys"
        raise ValueError(f"{told}, got {short_repr(schemas)}.")
    root, ordered = order_links(list(schemas), links)
    stated = {}
    for name, schema in schemas.items():
        with name_table_in_errors(f"schemas[{short_repr(name)}]"):
            stated[name] = Schema.of(schema)
    return root, ordered, stated


# Reading


@dataclass(frozen=True, eq=False, repr=False)
class _TableRows:
    columns: Columns
    labels: dict[Any, Labels]  # of each column of a key
    times: np.ndarray | None  # by which rows are ordered
    n_rows: int


def open_forest(
    schemas: Mapping[str, SchemaLike], links: Sequence[Children], X: Mapping[str, Table], *, skips_damaged: bool = False
) -> tuple[Forest, LinkedFormat]:
    """Read linked tables, a dict of whatever a fit takes as a table, or refuse them in one sentence that quotes no cell.

    `skips_damaged`: as `open_source` has it.
    """
    root, ordered, stated = state_links(schemas, links)
    if not isinstance(X, Mapping) or (X.keys() ^ stated.keys()):
        got = f"a dict without {list_names([*stated.keys() - X.keys()])}" if isinstance(X, Mapping) else short_repr(X)
        if isinstance(X, Mapping) and stated.keys() <= X.keys():
            got = f"a dict with {list_names([*X.keys() - stated.keys()])}, too"
        raise ValueError(f"X must be a dict of the tables {list_names(list(stated))}, got {got}.")
    named = [name for link in ordered for name in names_in(link.key)]
    opened = {}
    for name, schema in stated.items():
        told = f"X[{short_repr(name)}]"
        source = open_source(X[name], told, read=schema.read, skips_damaged=skips_damaged, wanted=[*schema, *named])
        if not source.is_readable:
            raise TypeError(
                f"{told} must be a table whose rows can be read here, got sums of rows that lie elsewhere; collect the rows first."
            )
        with name_table_in_errors(told):
            opened[name] = source, *split_under(source, schema)
    columns = {name: kind.columns for name, (_, kind, _) in opened.items()}
    keys = {link.table: key_columns(link, columns[link.table], columns[link.of]) for link in ordered}
    identifying = {name: _key_of(name, ordered, keys) for name in stated}
    formats = {}
    for name, (source, kind, _) in opened.items():
        with name_table_in_errors(f"X[{short_repr(name)}]"):
            formats[name] = _format_of(source, TableFormat(kind), stated[name], identifying[name])
    linked = LinkedFormat(root, ordered, formats, keys)
    _check_columns(linked)
    orders = {link.table: link.order for link in ordered}
    tables = {name: _read_table(*each, formats[name].schema, identifying[name], orders.get(name)) for name, each in opened.items()}
    if opened[root][0].in_memory:
        check_enough(tables[root].n_rows, 1)
    return _forest_of(linked, tables), linked


def _key_of(name: str, links: Sequence[Children], keys: Mapping[str, tuple]) -> list[Any]:
    """Return the columns of a table that are of a key, its own ones first; or refuse several own keys."""
    own = {tuple(theirs for _, theirs in keys[link.table]) for link in links if link.of == name}
    if len({frozenset(each) for each in own}) > 1:
        raise ValueError(f"key must name the same columns of {short_repr(name)} in all links, because they say which row is which.")
    return list(dict.fromkeys([*(column for each in own for column in each), *(mine for mine, _ in keys.get(name, ()))]))


def _format_of(source: Source, table: TableFormat, schema: Schema, keys: Sequence[Any]) -> TableFormat:
    """Return the format of a table whose keys are identifiers that come back, or refuse a schema that does not fit it."""
    if wrong := [name for name in keys if not isinstance(schema.get(name, Identifier()), Identifier)]:
        raise ValueError(f"schema must leave out {list_names(wrong)}, or say Identifier(), because it is of a key; correct it.")
    kinds = {name: schema[name] if getattr(schema.get(name), "labels", False) else Identifier(labels=True) for name in keys}
    table = table.match(Schema({**schema, **kinds}, schema.rules, schema.read), are_inferred=infers_dtypes(source))
    check_no_text(table.schema)
    check_room(table)
    return table


def _check_columns(linked: LinkedFormat) -> None:
    """Refuse orders and heads that columns cannot have, and columns that have the names of added ones."""
    for link in linked.links:
        schema = linked.formats[link.table].schema
        if link.order is not None and not isinstance(schema.get(link.order), Continuous | Times | Ordinal):
            raise ValueError(
                f"order must be a column of {short_repr(link.table)} that its schema says is of numbers, times or ordinal levels, got "
                f"{name_repr(link.order)}; correct it, or leave it out."
            )
        for name, cell in (link.head or {}).items():
            kind = schema.get(name)
            if not hasattr(kind, "levels") or not schema.is_coded(name):
                raise ValueError(f"head must name columns of {short_repr(link.table)} with levels, got {name_repr(name)}; correct it.")
            if not isinstance(cell, Hashable) or Codes(kind, unknown=-1)[cell] not in range(len(kind.levels)):
                raise ValueError(f"head must have a level of column {name_repr(name)}, got {short_repr(cell)}; correct it.")
    _ = linked.schemas


def _read_table(source: Source, kind: TableKind, raw: list[Any], schema: Schema, keys: Sequence[Any], order: Any) -> _TableRows:
    place, how = {name: i for i, name in enumerate(schema)}, (source.is_text, source.decimal)
    parts: list[Columns] = []
    labels, times, n_rows = {name: list[Labels]() for name in keys}, [], 0
    chunks = [raw] if source.in_memory else (split_columns(chunk, source.is_text)[1] for chunk in source.chunks())
    for chunk in chunks:
        parts.append(read_columns(chunk, schema, kind.dtypes, *how))
        n_rows += len(chunk[0])
        for name in keys:
            labels[name].append(_labels_in(chunk[place[name]], source.is_text))
        if order is not None:
            times.append(read_column(chunk[place[order]], as_nullable(schema[order]), kind.dtypes[place[order]], *how))
    if not parts:  # a file without rows
        return _read_table(InMemory(source.head), kind, split_columns(source.head)[1], schema, keys, order)
    read = _TableRows(
        concatenate(parts), {name: _one_of(each) for name, each in labels.items()}, concatenate(times) if times else None, n_rows
    )
    return read if source.has_order else _in_order_of_hashes(read)


def _in_order_of_hashes(table: _TableRows) -> _TableRows:
    """Return rows whose order may follow from rows of others in one of their own: by a hash of a row's keys and cells."""
    heads = [] if table.times is None else [*table.times.astype(float)[None].view(np.uint64)]
    for cells in table.labels.values():
        digests = Digests(bytes(16), word_of_label)
        numbers = digests.numbers_of([None if is_missing(label) else label for label in _as_list(cells)])
        heads += [*np.where(numbers < 0, np.uint64(0), digests.pairs(np.maximum(numbers, 0)).T)] if digests else []
    high, low = RowHash(bytes(48))(heads, table.columns)
    order = np.lexsort((low, high))
    labels = {name: [each[i] for i in order] if isinstance(each, list) else each[order] for name, each in table.labels.items()}
    times = None if table.times is None else table.times[order]
    return _TableRows(take_rows(table.columns, order), labels, times, table.n_rows)


# Keys


def _labels_in(column: Column, is_text: bool) -> Labels:
    """Return the labels of a raw column: whole numbers of 64 bits, with `_NOBODY` for a missing one, or a list of anything else."""
    if is_text:
        return [None if label in MISSING_WORDS else label for label in label_list(column)]
    values, missing = (None, None) if parse_dtype(plain_name(column.dtype)).decimal else plain_numbers(column)
    if values is None:
        return label_list(column)
    gone = np.zeros(len(values), dtype=bool) if missing is None else missing
    if values.dtype.kind == "f":
        gone = gone | ~(np.abs(values) < _SEVERAL)
        values = np.where(gone, 0, values)
        if (values != np.trunc(values)).any():
            return label_list(column)
    elif values.dtype.kind == "u" and values.max(initial=0) > np.iinfo(np.int64).max:
        return label_list(column)
    whole = values.astype(np.int64)
    if (whole == _NOBODY).any():
        return label_list(column)
    whole[gone] = _NOBODY
    return whole


def _as_list(labels: Labels) -> list[Any]:
    return labels if isinstance(labels, list) else [None if label == _NOBODY else label for label in labels.tolist()]


def _one_of(parts: Sequence[Labels]) -> Labels:
    if not any(isinstance(part, list) for part in parts):
        return np.concatenate(parts)
    return [label for part in parts for label in _as_list(part)]


def _key_numbers(tables: Sequence[Sequence[Labels]]) -> list[np.ndarray]:
    """Return numbers of the keys of some tables, each of as many columns: equal keys have equal ones, and -1 lacks a part."""
    ends = np.cumsum([len(columns[0]) for columns in tables])
    keys, gone = np.zeros(ends[-1], dtype=np.int64), np.zeros(ends[-1], dtype=bool)
    for parts in zip(*tables, strict=True):
        if any(isinstance(part, list) for part in parts):
            known = LabelNumbers()
            values = np.concatenate([known.numbers_of(_as_list(part)) for part in parts])
            missing = values < 0
        else:
            values = np.concatenate(parts)
            missing = values == _NOBODY
        values = _small(np.where(missing, 0, values))
        keys, gone = _small(keys * (values.max(initial=0) + 1) + values), gone | missing
    return np.split(np.where(gone, -1, keys), ends[:-1])


def _small(values: np.ndarray) -> np.ndarray:
    """Return numbers from 0 to at most four times as many as there are, equal ones for equal ones."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    return values - low if high - low <= 4 * len(values) else np.unique(values, return_inverse=True)[1]


def _first_places(numbers: np.ndarray) -> np.ndarray:
    """Return the place at which each number from 0 on comes first, -1 of one that does not, and at the end a -1 more."""
    places = np.full(numbers.max(initial=-1) + 2, -1)
    places[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is assigned stays
    places[-1] = -1
    return places


# Rows of roots


def _forest_of(linked: LinkedFormat, tables: Mapping[str, _TableRows]) -> Forest:
    own, theirs = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name in tables:
        if below := [link.table for link in linked.links if link.of == name]:
            # The columns of the parent in the order in which the first link names them.
            names = [parent for _, parent in linked.keys[below[0]]]
            mine = {child: {parent: column for column, parent in linked.keys[child]} for child in below}
            columns = [[tables[name].labels[each] for each in names]]
            columns += [[tables[child].labels[mine[child][each]] for each in names] for child in below]
            own[name], *others = _key_numbers(columns)
            theirs |= dict(zip(below, others, strict=True))
    rows, owners = {linked.root: _distinct(np.zeros(tables[linked.root].n_rows, dtype=np.int64), own[linked.root])}, {}
    for link in linked.links:
        name, keys = link.table, own[link.of][rows[link.of]]
        found = _first_places(keys)
        owner = found[np.minimum(theirs[name], len(found) - 1)]
        places = np.flatnonzero(owner >= 0)
        if name in own:
            places = places[_distinct(owner[places], own[name][places])]
        times = tables[name].times
        places = places[np.argsort(owner[places], kind="stable") if times is None else np.lexsort((times[places], owner[places]))]
        kept = _ranks(np.bincount(owner[places])) < link.most
        rows[name] = places[kept]
        owners[name] = owner[rows[name]]
    chosen = {name: take_rows(table.columns, rows[name]) for name, table in tables.items()}
    return _with_added(linked, Forest(linked.root, chosen, owners, {link.table: link.of for link in linked.links}))


def _distinct(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the places of rows that have a key, and are the first of their owner that has it."""
    pairs = _small(owner * (keys.max(initial=-1) + 2) + keys + 1)
    return np.flatnonzero((_first_places(pairs)[pairs] == np.arange(len(pairs))) & (keys >= 0))


def _with_added(linked: LinkedFormat, forest: Forest) -> Forest:
    """Return a forest of own columns with those that links add, where heads stand in the rows of their parents."""
    tables, owners = {name: list(columns) for name, columns in forest.tables.items()}, dict(forest.owners)
    for link in (link for link in linked.links if link.head is not None):
        codes, counts = linked.head_codes(link), forest.counts(link.table)
        own = dict(zip(linked.own_columns(link.table), tables[link.table], strict=True))
        claims = np.logical_and.reduce([own[name] == code for name, code in codes.items()])
        heads = np.lexsort((~claims, owners[link.table]))[_ranks(counts) == 0]  # rows that claim it first, and else as they come
        for (name, column), blank in zip(own.items(), _missing_cells(linked.formats[link.table].schema), strict=True):
            if name not in codes:
                tables[link.of].append(np.full(len(counts), blank, dtype=column.dtype))  # where there is no row
                tables[link.of][-1][owners[link.table][heads]] = column[heads]
        others = np.delete(np.arange(len(claims)), heads)
        tables[link.table], owners[link.table] = take_rows(tables[link.table], others), owners[link.table][others]
    forest = replace(forest, tables=tables, owners=owners)
    for link in linked.links:
        tables[link.of].append(forest.counts(link.table).astype(np.int32))
    for link in (link for link in linked.links if link.order is not None):
        tables[link.table].append(np.digitize(_ranks(forest.counts(link.table)), [1, 2, 4]).astype(np.int32))
    return forest


def _missing_cells(schema: Schema) -> Columns:
    """Return the columns that mechanisms see of one row in which all cells are missing."""
    return read_columns([np.array([None], dtype=object)] * len(schema), schema, ["object"] * len(schema))


def _ranks(sizes: np.ndarray) -> np.ndarray:
    """Return the place of each thing within its group, of groups of these sizes one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)
