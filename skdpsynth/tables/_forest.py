"""Linked tables in memory: each root with all that hangs on it as one row, and sampled ones as tables of their own.

*One row is one root.* Which rows hang on a root, which of them count, in which order they come and what is computed of them follows from
the rows that have its key alone: they are found by equal keys, rows are told apart and counted within one parent, and no cell can raise.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._serialization import require
from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    Children,
    Gaps,
    Identifier,
    LinkedRule,
    LinkedRules,
    LinkedSchema,
    LinkedSchemaLike,
    Ordinal,
    Schema,
    as_nullable,
    check_order,
    gaps_of,
    key_columns,
    list_names,
    name_repr,
    names_in,
    order_links,
    waves_of,
)
from skdpsynth.frames import (
    MISSING_WORDS,
    Column,
    LabelNumbers,
    RowHash,
    Source,
    Table,
    TableKind,
    concatenate,
    label_list,
    open_source,
    parse_dtype,
    plain_name,
    split_columns,
    take_rows,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import Codes, plain_numbers
from skdpsynth.tables._open import check_enough, check_no_text, infers_dtypes, read_column, read_columns, split_under
from skdpsynth.tables._table import TableFormat, check_room, name_table_in_errors

Columns: TypeAlias = list[np.ndarray]
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
    stated: Sequence[LinkedRule] = ()

    @cached_property
    def rules(self) -> LinkedRules:
        dtypes = {name: dict(zip(table.columns, table.dtypes, strict=True)) for name, table in self.formats.items()}
        return LinkedRules(self.stated, {name: table.schema for name, table in self.formats.items()}, self.below(), dtypes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "rules"}

    def _check_loaded(self) -> None:
        require(order_links(list(self.formats), self.links) == (self.root, self.links) and self.keys.keys() == set(self.below()))
        self.check_columns()

    def below(self, name: str | None = None) -> dict[str, Children]:
        """Return the links below a table, or all, by the names of their tables."""
        return {link.table: link for link in self.links if name in (None, link.of)}

    def check_columns(self) -> None:
        """Refuse orders, heads and rules that columns cannot have, and columns that have the names of added ones."""
        for name, table in self.formats.items():
            if taken := [column for column in self._columns_of_links(name) if column in table.schema]:
                raise ValueError(f"schema of {short_repr(name)} must not have {list_names(taken)}, which a link adds; rename the column.")
        for link in self.links:
            schema = self.formats[link.table].schema
            if link.order is not None:
                check_order(link, schema)
            if link.until is not None:
                self.gaps(link)
            if link.grid is not None:
                waves_of(link, schema[link.order])
            for name, cell in (link.head or {}).items():
                kind = schema.get(name)
                if not hasattr(kind, "levels") or not schema.is_coded(name):
                    raise ValueError(f"head must name columns of {short_repr(link.table)} with levels, got {name_repr(name)}; correct it.")
                if not isinstance(cell, Hashable) or Codes(kind, unknown=-1)[cell] not in range(len(kind.levels)):
                    raise ValueError(f"head must have a level of column {name_repr(name)}, got {short_repr(cell)}; correct it.")
        _ = self.rules  # which are checked when they are made

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schema of each table of a `Forest`, with the columns that links add after its own."""
        return {name: Schema({**self.model_kinds(name), **self._columns_of_links(name)}) for name in self.formats}

    def model_kinds(self, name: str) -> dict[Any, Any]:
        """Return the kinds of a table's own columns in a forest: gaps and lengths of times with ends, and no waves or what is computed."""
        kinds, link = {each: self.formats[name].schema[each].coded for each in self.own_columns(name)}, self.below().get(name)
        if link is not None and link.grid is not None:
            del kinds[link.order]
        elif link is not None and link.until is not None:
            kinds |= dict(zip((link.order, link.until), self.gaps(link).kinds, strict=True))
        return kinds

    def own_columns(self, name: str) -> list[Any]:
        """Return a table's own columns that are drawn, or follow from what is drawn of their table."""
        return [column for column in self.formats[name].schema.coded if column not in self.rules.computed_columns(name)]

    def gaps(self, link: Children) -> Gaps:
        table = self.formats[link.table]
        return gaps_of(link, table.schema, dict(zip(table.columns, table.dtypes, strict=True)))

    def encode(self, forest: Forest) -> Forest:
        """Return a forest with the columns that are modeled, from one with all that mechanisms may see."""
        tables, links = dict(forest.tables), self.below()
        for name, table in self.formats.items():
            own, link = dict(zip(table.schema.coded, tables[name], strict=False)), links.get(name)
            if link is not None and link.until is not None:
                history = (link.order, link.until)
                own |= dict(zip(history, self.gaps(link).encode([own[column] for column in history], forest.owners[name]), strict=True))
            tables[name] = [*(own[column] for column in self.model_kinds(name)), *tables[name][len(own) :]]
        return replace(forest, tables=tables)

    def decode(self, name: str, columns: Columns, owner: np.ndarray | None) -> Columns:
        """Return columns of a table as they are written, of those that are modeled and of the parents of its rows."""
        own, link = dict(zip(self.model_kinds(name), columns, strict=False)), self.below().get(name)
        added = columns[len(own) :]
        if link is not None and link.order is not None:
            assert owner is not None
            if link.grid is not None:
                own[link.order] = waves_of(link, self.formats[name].schema[link.order])[
                    np.arange(len(owner)) - np.searchsorted(owner, owner)
                ]
            elif link.until is not None:
                history = (link.order, link.until)
                own |= dict(zip(history, self.gaps(link).decode([own[column] for column in history], owner), strict=True))
            else:
                order = np.lexsort((own[link.order], owner))
                own, added = {column: cells[order] for column, cells in own.items()}, take_rows(added, order)
        return [*(own[column] for column in self.own_columns(name)), *added]

    def cells(self, name: str, columns: Columns, owner: np.ndarray | None, tables: Mapping[str, Columns]) -> dict[Any, np.ndarray]:
        """Return what rules of a table look at, of its columns as they are written, and of its parents' in `tables`."""
        cells = self._cells_of(name, columns)
        if owner is not None:
            parent = self.below()[name].of
            beside = self._cells_of(parent, tables[parent])
            cells |= {ref: each[owner] for ref, each in beside.items() if ref[0] in (parent, f"{name}.head")}
        return cells

    def _cells_of(self, name: str, columns: Columns) -> dict[Any, np.ndarray]:
        refs = [*((name, column) for column in self.own_columns(name))]
        cells = dict(zip(refs, columns, strict=False))
        added = dict(zip(self._columns_of_links(name), columns[len(refs) :], strict=True))
        for child, link in self.below(name).items():
            for column in self.formats[child].schema.coded if link.head else ():
                codes = self.head_codes(link)
                column_of = added[f"{child}.head.{column}"] if column not in codes else np.full(len(columns[0]), codes[column])
                cells[f"{child}.head", column] = column_of
        return cells

    def _columns_of_links(self, name: str) -> dict[str, Any]:
        below, added = self.below(name), dict[str, Any]()
        for child, link in below.items():
            own = self.formats[child].schema
            added |= {f"{child}.head.{column}": own[column] for column in own.coded if link.head and column not in link.head}
        added |= {f"{child}.number": Ordinal(range(most_of(link) + 1)) for child, link in below.items()}
        return added | {f"{name}.nth": _NTH for link in self.links if link.table == name and link.order is not None}

    def head_codes(self, link: Children) -> dict[Any, int]:
        """Return the code of each cell that the heads of a link have, by its column."""
        schema = self.formats[link.table].schema
        return {name: Codes(schema[name], unknown=-1)[cell] for name, cell in (link.head or {}).items()}

    def write(self, tables: Mapping[str, Columns], owners: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return rows of a forest, decoded, as tables in the kinds and dtypes of their inputs, with keys that are made anew.

        Keys count from 0 in the order of rows. The head of a parent comes first among its rows.
        """
        columns = {name: dict(zip(self.own_columns(name), tables[name], strict=False)) for name in self.formats}
        rows, n_roots = dict(owners), len(tables[self.root][0])
        for child, link in self.below().items():
            if link.head:
                heads, n_parents = self._cells_of(link.of, tables[link.of]), len(tables[link.of][0])
                every = np.concatenate([np.arange(n_parents), rows[child]])
                order = np.argsort(every, kind="stable")  # heads stand before all others
                columns[child] = {name: np.concatenate([heads[f"{child}.head", name], own])[order] for name, own in columns[child].items()}
                rows[child] = every[order]
        for link in reversed(self.links):
            n_parents = len(rows[link.of]) if link.of in rows else n_roots
            for (table, name), total in self.rules.sums.items():
                if total.child == link.table:
                    columns[table][name] = total.of(columns[link.table], rows[link.table], n_parents)
        labels = dict[str, dict[Any, np.ndarray]]()
        for name in [self.root, *self.below()]:
            fresh = {
                mine: np.arange(len(rows[name]) if name in rows else n_roots) for child in self.below(name) for _, mine in self.keys[child]
            }
            inherited = {mine: labels[self.below()[name].of][theirs][rows[name]] for mine, theirs in self.keys.get(name, ())}
            labels[name] = fresh | inherited
        filled = {name: [columns[name][column] for column in table.schema.coded] for name, table in self.formats.items()}
        return {name: table.fill(filled[name], labels=labels[name]) for name, table in self.formats.items()}


def most_of(link: Children) -> int:
    """Return how many rows of a parent stand in the child table of a forest: all but the head."""
    return link.most - (link.head is not None)


# Reading


def open_forest(
    schemas: LinkedSchemaLike,
    links: Sequence[Children] | None,
    X: Mapping[str, Table],
    *,
    rules: Sequence[LinkedRule] = (),
    skips_damaged: bool = False,
) -> tuple[Forest, LinkedFormat]:
    """Read linked tables, a dict of whatever a fit takes as a table, or refuse them in one sentence that quotes no cell.

    `skips_damaged`: as `open_source` has it.
    """
    linked_schema = LinkedSchema.of(schemas, links)
    root, ordered, stated = linked_schema.root, linked_schema.links, linked_schema.schemas
    if not isinstance(X, Mapping) or X.keys() != stated.keys():
        raise ValueError(
            f"X must be a dict of the tables {list_names(list(stated))}, got "
            f"{f'one of {list_names(list(X))}' if isinstance(X, Mapping) and X else short_repr(X)}; give these tables and no others."
        )
    named, opened = [name for link in ordered for name in names_in(link.key)], {}
    for name, schema in stated.items():
        told = f"X[{short_repr(name)}]"
        source = open_source(X[name], told, read=schema.read, skips_damaged=skips_damaged, wanted=[*schema, *named])
        if not source.is_readable:
            raise TypeError(f"{told} must be a table whose rows can be read here, got sums of rows; collect the rows first.")
        with name_table_in_errors(told):
            opened[name] = source, *split_under(source, schema)
    columns = {name: kind.columns for name, (_, kind, _) in opened.items()}
    keys = {link.table: key_columns(link, columns[link.table], columns[link.of]) for link in ordered}
    of_keys = {name: _columns_of_keys(name, ordered, keys) for name in stated}
    formats = {}
    for name, (source, kind, _) in opened.items():
        with name_table_in_errors(f"X[{short_repr(name)}]"):
            formats[name] = _format_of(source, TableFormat(kind), stated[name], of_keys[name])
    linked = LinkedFormat(root, ordered, formats, keys, tuple(rules) if isinstance(rules, list) else rules)
    orders, known = {link.table: link.order for link in ordered}, LabelNumbers()
    linked.check_columns()
    tables = {name: _read_table(*each, formats[name].schema, of_keys[name], orders.get(name), known) for name, each in opened.items()}
    if opened[root][0].in_memory:
        check_enough(len(tables[root].columns[0]), 1)
    return _forest_of(linked, tables), linked


def _columns_of_keys(name: str, links: Sequence[Children], keys: Mapping[str, tuple]) -> list[Any]:
    """Return the columns of a table that are of a key; or refuse several keys of its own."""
    own = [[theirs for _, theirs in keys[link.table]] for link in links if link.of == name]
    if any({*each} != {*own[0]} for each in own):
        raise ValueError(f"key must name the same columns of {short_repr(name)} in all links, because they say which row is which.")
    return list(dict.fromkeys([*chain(*own), *(mine for mine, _ in keys.get(name, ()))]))


def _format_of(source: Source, table: TableFormat, schema: Schema, keys: Sequence[Any]) -> TableFormat:
    """Return the format of a table whose keys are identifiers that come back, or refuse a schema that does not fit it."""
    if wrong := [name for name in keys if not isinstance(schema.get(name, Identifier()), Identifier)]:
        raise ValueError(f"schema must leave out {list_names(wrong)}, or say Identifier(), because it is of a key; correct it.")
    kinds = {name: schema[name] if getattr(schema.get(name), "labels", False) else Identifier(labels=True) for name in keys}
    table = table.match(Schema({**schema, **kinds}, schema.rules, schema.read), are_inferred=infers_dtypes(source))
    check_no_text(table.schema)
    check_room(table)
    return table


@dataclass(frozen=True, eq=False, repr=False)
class _TableRows:
    columns: Columns
    labels: dict[Any, np.ndarray]  # numbers of the labels of each column of a key
    times: np.ndarray | None  # by which rows are ordered


def _read_table(
    source: Source, kind: TableKind, raw: list[Any], schema: Schema, keys: Sequence[Any], order: Hashable, known: LabelNumbers
) -> _TableRows:
    parts, places, how = [], [list(schema).index(name) for name in keys], (source.is_text, source.decimal)
    n_keys = len(keys)
    # The head is there for files without rows.
    chunks = (split_columns(chunk, source.is_text)[1] for chunk in chain([source.head], source.chunks()))
    for cells in [raw] if source.in_memory else chunks:
        part = [_label_numbers(cells[place], known, source.is_text) for place in places]
        if order is not None:
            place = list(schema).index(order)
            part.append(read_column(cells[place], as_nullable(schema[order]), kind.dtypes[place], *how))
        parts.append([*part, *read_columns(cells, schema, kind.dtypes, *how)])
    read = concatenate(parts)
    if not source.has_order:  # it may follow from rows of others: a hash of a row's keys and cells takes its place
        words = [word for numbers in read[:n_keys] for word in known.hashes(numbers)]
        read = take_rows(read, np.lexsort(RowHash(bytes(48))(words, read[n_keys:])))
    times = None if order is None else read[n_keys]
    return _TableRows(read[n_keys + (order is not None) :], dict(zip(keys, read, strict=False)), times)


@np.errstate(all="ignore")  # a warning would tell of a key
def _label_numbers(column: Column, known: LabelNumbers, is_text: bool) -> np.ndarray:
    """Return the numbers of the labels of a raw column."""
    if is_text:
        return known.numbers_of([None if label in MISSING_WORDS else label for label in label_list(column)])
    values, missing = (None, None) if parse_dtype(plain_name(column.dtype)).decimal else plain_numbers(column)
    if values is None:
        return known.numbers_of(label_list(column))
    # Whole numbers need no looking up; which other labels there are has no bearing on them.
    has_label = np.ones(len(values), dtype=bool) if missing is None else ~missing
    has_label &= (values.dtype.kind != "f") | (np.abs(values) < 2.0**53)
    plain = np.where(has_label, values, np.zeros_like(values))
    is_whole = has_label & (plain >= 0) & (plain < known.FIRST_OTHER) & (plain == np.trunc(plain))
    numbers = np.where(is_whole, np.where(is_whole, plain, np.zeros_like(plain)).astype(np.int64), -1)
    if len(others := np.flatnonzero(has_label & ~is_whole)):
        labels = label_list(column)
        numbers[others] = known.numbers_of([labels[place] for place in others])
    return numbers


# Rows of roots


def _key_numbers(tables: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Return numbers of the keys of some tables, of numbers of their parts: equal keys have equal ones, and what lacks a part -1."""
    parts = [np.concatenate(columns) for columns in zip(*tables, strict=True)]
    keys, has_key = np.zeros(len(parts[0]), dtype=np.int64), np.logical_and.reduce([part >= 0 for part in parts])
    for part in map(_small, parts):
        keys = _small(keys * (part.max(initial=0) + 1) + part)
    return np.split(np.where(has_key, keys, -1), np.cumsum([len(columns[0]) for columns in tables])[:-1])


def _small(numbers: np.ndarray) -> np.ndarray:
    """Return numbers from 0 to four times as many as there are, equal ones for equal ones; less than 0 is 0."""
    return np.maximum(numbers, 0) if numbers.max(initial=0) <= 4 * len(numbers) else np.unique(numbers, return_inverse=True)[1]


def _first_places(numbers: np.ndarray) -> np.ndarray:
    """Return the place at which each number comes first, -1 of one that does not, and at the end a -1 more."""
    places = np.full(numbers.max(initial=-1) + 2, -1)
    places[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is assigned stays
    return places


def _forest_of(linked: LinkedFormat, tables: Mapping[str, _TableRows]) -> Forest:
    own, theirs = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name in tables:
        if below := [link.table for link in linked.links if link.of == name]:
            names = [parent for _, parent in linked.keys[below[0]]]  # in one order for all
            parts = [[tables[name].labels[each] for each in names]]
            for child in below:
                mine = {parent: column for column, parent in linked.keys[child]}
                parts.append([tables[child].labels[mine[each]] for each in names])
            own[name], *others = _key_numbers(parts)
            theirs |= dict(zip(below, others, strict=True))
    rows, owners = {linked.root: _distinct(np.zeros_like(own[linked.root]), own[linked.root])}, dict[str, np.ndarray]()
    for link in linked.links:
        name, found = link.table, _first_places(own[link.of][rows[link.of]])
        owner = found[np.minimum(theirs[name], len(found) - 1)]
        places = np.flatnonzero(owner >= 0)
        if name in own:
            places = places[_distinct(owner[places], own[name][places])]
        times = tables[name].times
        places = places[np.argsort(owner[places], kind="stable") if times is None else np.lexsort((times[places], owner[places]))]
        rows[name] = places[_ranks(np.bincount(owner[places])) < link.most]
        owners[name] = owner[rows[name]]
    chosen = {name: take_rows(table.columns, rows[name]) for name, table in tables.items()}
    return linked.encode(_with_added(linked, Forest(linked.root, chosen, owners, {link.table: link.of for link in linked.links})))


def _distinct(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the places of rows that have a key, and are the first of their owner that has it."""
    pairs = _small(owner * (keys.max(initial=-1) + 2) + keys + 1)
    return np.flatnonzero((_first_places(pairs)[pairs] == np.arange(len(pairs))) & (keys >= 0))


def _with_added(linked: LinkedFormat, forest: Forest) -> Forest:
    """Return a forest of own columns with those that links add, where heads stand in the rows of their parents."""
    tables, owners = {name: list(columns) for name, columns in forest.tables.items()}, dict(forest.owners)
    for link in (link for link in linked.links if link.head is not None):
        codes, counts = linked.head_codes(link), forest.counts(link.table)
        own = dict(zip(linked.formats[link.table].schema.coded, tables[link.table], strict=True))
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
