"""Linked tables in memory: each root with all that hangs on it as one row, and sampled ones as tables of their own.

*One row is one root.* Which rows hang on a root, which of them count, in which order they come and what is computed of them follows from
the rows that have its key alone: they are found by equal keys, rows are told apart and counted within one parent, and no cell can raise.
Where no column orders them, a keyed hash of their own keys and cells does, as it chooses the rows of a unit, and never their arrival.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._serialization import require
from skdpsynth._validation import short_repr
from skdpsynth.domain import (
    Children,
    Identifier,
    LinkedRule,
    LinkedRules,
    LinkedSchema,
    LinkedSchemaLike,
    NoHistory,
    Ordinal,
    Schema,
    as_nullable,
    history_of,
    key_columns,
    list_names,
    name_repr,
    names_in,
    ranks_within,
    with_keys,
)
from skdpsynth.frames import (
    MISSING_WORDS,
    LabelNumbers,
    RowHash,
    Source,
    Table,
    TableKind,
    concatenate,
    label_list,
    open_source,
    split_columns,
    take_rows,
)
from skdpsynth.persistence import savable
from skdpsynth.tables._findings import Finding, Findings, findings_of
from skdpsynth.tables._open import (
    ApplyPrivateFacts,
    check_no_text,
    close_schema,
    infers_dtypes,
    read_column,
    read_columns,
    split_under,
)
from skdpsynth.tables._table import TableFormat, check_room, name_table_in_errors

Columns: TypeAlias = list[np.ndarray]
KEY_OF_ORDER = 32  # bytes
_NTH = Ordinal(["1", "2", "3-4", "5+"])  # which row of its history one is


@dataclass(frozen=True, eq=False, repr=False)  # no repr shows rows, or how many there are
class Forest:
    """Linked tables as rows of one fit: a root with all rows that hang on it is one row."""

    root: str
    tables: Mapping[str, Columns]  # of each: its own columns, as `read_columns` gives them, and those that links add
    owners: Mapping[str, np.ndarray]  # of each child table, the places of its rows' parents, in ascending order
    parents: Mapping[str, str]  # of each child table, parents before children
    hashes: np.ndarray | None = None  # a whole number of each root, which follows from its key and cells and is as good as random

    def __len__(self) -> int:
        return len(self.tables[self.root][0])

    def __getitem__(self, roots: slice | np.ndarray) -> "Forest":
        """Return some roots, in their order, with all that hangs on them."""
        chosen, owners = {self.root: np.arange(len(self))[roots]}, {}
        for child, parent in self.parents.items():
            counts, wanted = self.counts(child), chosen[parent]
            sizes = counts[wanted]
            owners[child] = np.repeat(np.arange(len(wanted)), sizes)
            chosen[child] = np.repeat((np.cumsum(counts) - counts)[wanted], sizes) + ranks_within(owners[child])
        tables = {name: take_rows(columns, chosen[name]) for name, columns in self.tables.items()}
        return replace(self, tables=tables, owners=owners, hashes=None if self.hashes is None else self.hashes[roots])

    def counts(self, child: str) -> np.ndarray:
        """Return how many rows of a child table each row of its parent has."""
        parent = self.parents[child]
        return np.bincount(self.owners[child], minlength=len(self) if parent == self.root else len(self.owners[parent]))

    def map_tables(self, change: Mapping[str, Callable[[Columns], Columns]]) -> "Forest":
        """Return this with other columns in some tables, of the same rows."""
        return replace(self, tables={name: change[name](each) if name in change else each for name, each in self.tables.items()})

    def one_row_of_each(self) -> Columns:
        """Return the columns of all tables side by side, in one row of each root: of every table one of its rows, or missing cells.

        Which one follows from the root alone. So a root is one row of an ordinary table, in whatever is released of these: also of levels
        that nobody knows, which are shown where enough rows have them. Each of k siblings is as likely, so that the counts to expect are
        those of rows that weigh 1/k; but no root has several levels that no other one has, for all of which delta would pay.
        """
        places, columns = {self.root: np.arange(len(self))}, Columns()
        left = np.zeros(len(self), dtype=np.int64) if self.hashes is None else self.hashes  # without any the first row is taken
        for child, parent in self.parents.items():
            counts = np.append(self.counts(child), 0)  # the last one, of no row
            of, most = places[parent], np.maximum(counts, 1)
            places[child] = np.where(counts[of] > 0, (np.cumsum(counts) - counts)[of] + left % most[of], -1)
            left = left // most[of]
        for name, cells in self.tables.items():
            blanks = (np.array([None if each.dtype == object else np.nan if each.dtype.kind == "f" else 0], each.dtype) for each in cells)
            columns += [np.append(each, blank)[places[name]] for each, blank in zip(cells, blanks, strict=True)]
        return columns


@savable
@dataclass(frozen=True)
class LinkedFormat:
    """Kinds and schemas of linked tables, never what they held: rows go back in it."""

    stated: LinkedSchema
    formats: Mapping[str, TableFormat]  # keys are identifiers
    keys: Mapping[str, tuple]  # of each child table, pairs of its columns and its parent's

    @property
    def root(self) -> str:
        return self.stated.root

    @property
    def links(self) -> tuple[Children, ...]:
        """All links, parents before children."""
        return self.stated.links

    @cached_property
    def rules(self) -> LinkedRules:
        dtypes = {name: dict(zip(table.columns, table.dtypes, strict=True)) for name, table in self.formats.items()}
        return LinkedRules(self.stated.rules, {name: table.schema for name, table in self.formats.items()}, self.below(), dtypes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "rules"}

    def _check_loaded(self) -> None:
        require(self.formats.keys() == self.stated.schemas.keys())
        columns = {name: table.columns for name, table in self.formats.items()}
        require(self.keys == {link.table: key_columns(link, columns[link.table], columns[link.of]) for link in self.links})
        self.check_columns()

    def below(self, name: str | None = None) -> dict[str, Children]:
        """Return the links below a table, or all, by the names of their tables."""
        return {link.table: link for link in self.links if name in (None, link.of)}

    def side_by_side(self) -> TableFormat:
        """Return the format of `Forest.one_row_of_each`, whose columns are called by their table, too."""
        kinds, dtypes = dict[Any, Any](), dict[Any, str]()
        for name, table in self.formats.items():
            kinds |= {(name, column): table.schema[column] for column in self.read_columns(name)}
            dtypes |= {(name, column): dtype for column, dtype in zip(table.columns, table.dtypes, strict=True)}
        return TableFormat(TableKind("numpy", tuple(kinds), tuple(map(dtypes.__getitem__, kinds))), Schema(kinds))

    def with_kinds(self, kinds: Mapping[Any, Any]) -> "LinkedFormat":
        """Return this with the kinds of columns side by side."""
        formats = {}
        for name, table in self.formats.items():
            own = {column: kinds.get((name, column), kind) for column, kind in table.schema.items()}
            formats[name] = table.with_schema(table.schema.with_kinds(own))
        return replace(self, formats=formats)

    def close(self, bought: Mapping[int, Any]) -> tuple["LinkedFormat", dict[str, Callable[[Columns], Columns]]]:
        """Return this with bounds and levels that were bought, by their places side by side, and what reads each table so."""
        stated, changes, start = self.side_by_side(), dict[str, Callable[[Columns], Columns]](), 0
        closed, facts = close_schema(stated.schema, stated.dtypes, bought)
        for name in self.formats:
            stop = start + len(self.read_columns(name))
            own = {place - start: kind for place, kind in facts.kinds.items() if start <= place < stop}
            changes[name], start = ApplyPrivateFacts(own), stop
        return self.with_kinds(closed), changes

    def check_columns(self) -> None:
        """Refuse orders, heads and rules that columns cannot have, and columns that have the names of added ones."""
        _ = self.rules  # which are checked when they are made, with heads
        for name, table in self.formats.items():
            if taken := [column for column in self._columns_of_links(name) if column in table.schema]:
                raise ValueError(f"schema of {short_repr(name)} must not have {list_names(taken)}, which a link adds; rename the column.")
            link = self.below().get(name)
            needed = [] if link is None or link.until is link.grid is None else [link.order, link.until]
            if private := [column for column in needed if getattr(table.schema.get(column), "stand_in", None)]:
                raise ValueError(
                    f"order must have public bounds beside until or a grid, and so must until, but {list_names(private)} has none."
                )
            self._history(name)

    # Columns. Those of a forest are in the order of the schema, whatever that of the caller's table is.

    def read_columns(self, name: str) -> list[Any]:
        """Return a table's own columns that mechanisms may see."""
        return [column for column in self.stated.schemas[name] if self.formats[name].schema.is_coded(column)]

    def own_columns(self, name: str) -> list[Any]:
        """Return a table's own columns that are drawn, or follow from what is drawn of their table."""
        return [column for column in self.read_columns(name) if (name, column) not in self.rules.sums]

    def model_kinds(self, name: str) -> dict[Any, Any]:
        """Return the kinds of a table's own columns in a forest: gaps and lengths of times with ends, and no waves or what is computed."""
        return self._history(name).kinds({column: self.formats[name].schema[column].coded for column in self.own_columns(name)})

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schema of each table of a `Forest`, with the columns that links add after its own."""
        return {name: Schema({**self.model_kinds(name), **self._columns_of_links(name)}) for name in self.formats}

    def _columns_of_links(self, name: str) -> dict[str, Any]:
        below, added = self.below(name), dict[str, Any]()
        for child, link in below.items():
            columns = [column for column in self.read_columns(child) if link.head and column not in link.head]
            added |= {f"{child}.head.{column}": self.formats[child].schema[column] for column in columns}
        added |= {f"{child}.number": Ordinal(range(most_of(link) + 1)) for child, link in below.items()}
        return added | {f"{name}.nth": _NTH for link in self.links if link.table == name and link.order is not None}

    def _history(self, name: str) -> NoHistory:
        table = self.formats[name]
        return history_of(self.below().get(name), table.schema, dict(zip(table.columns, table.dtypes, strict=True)))

    def head_codes(self, link: Children) -> dict[Any, int]:
        """Return the code of each cell that the heads of a link have, by its column."""
        return self.rules.heads.get(link.table, {})

    def encode(self, forest: Forest) -> Forest:
        """Return a forest with the columns that are modeled and those that links add, from one with the columns that were read."""
        forest = _with_added(self, forest)
        tables = dict(forest.tables)
        for name in self.formats:
            read, owner = dict(zip(self.read_columns(name), tables[name], strict=False)), forest.owners.get(name, np.arange(len(forest)))
            modeled = self._history(name).encode({column: read[column] for column in self.own_columns(name)}, owner)
            tables[name] = [*modeled.values(), *tables[name][len(read) :]]
        return replace(forest, tables=tables)

    def forest_of(self, tables: Mapping[str, Columns], owners: Mapping[str, np.ndarray]) -> Forest:
        """Return rows as `write` takes them with the columns that are modeled and those that links add, as from `encode`."""
        columns = {}
        for name, written in tables.items():
            n_own, n_heads = len(self.own_columns(name)), sum(".head." in str(each) for each in self._columns_of_links(name))
            own = dict(zip(self.own_columns(name), written, strict=False))
            modeled = self._history(name).encode(own, owners.get(name, np.arange(len(written[0]))))
            columns[name] = [*modeled.values(), *written[n_own : n_own + n_heads]]
        return _with_numbers(self, Forest(self.root, columns, owners, {link.table: link.of for link in self.links}))

    def decode(self, name: str, columns: Columns, owner: np.ndarray | None) -> Columns:
        """Return columns of a table as they are written, of those that are modeled and of the parents of its rows."""
        modeled = dict(zip((*self.model_kinds(name), *self._columns_of_links(name)), columns, strict=True))
        written = self._history(name).decode(modeled, np.arange(len(columns[0])) if owner is None else owner)
        return [written[column] for column in (*self.own_columns(name), *self._columns_of_links(name))]

    def cells(self, name: str, columns: Columns, owner: np.ndarray | None, tables: Mapping[str, Columns]) -> dict[Any, np.ndarray]:
        """Return what rules of a table look at, of its columns as they are written, and of its parents' in `tables`."""
        cells = self._cells_of(name, columns)
        if owner is not None:
            parent = self.below()[name].of
            beside = self._cells_of(parent, tables[parent])
            cells |= {ref: each[owner] for ref, each in beside.items() if ref[0] in (parent, f"{name}.head")}
        return cells

    def _cells_of(self, name: str, columns: Columns) -> dict[Any, np.ndarray]:
        written = dict(zip((*self.own_columns(name), *self._columns_of_links(name)), columns, strict=True))
        cells = {(name, column): written[column] for column in self.own_columns(name)}
        for child, link in self.below(name).items():
            codes = self.head_codes(link)
            for column in self.read_columns(child) if link.head else ():
                known = np.full(len(columns[0]), codes[column]) if column in codes else written[f"{child}.head.{column}"]
                cells[f"{child}.head", column] = known
        return cells

    def write(self, tables: Mapping[str, Columns], owners: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Return rows of a forest, decoded, as tables in the kinds and dtypes of their inputs, with keys that are made anew.

        Keys count from 0 in the order of rows, and from 1 within the parent where they hold its key too. The head of a parent comes first
        among its rows.
        """
        columns = {name: dict(zip(self.own_columns(name), tables[name], strict=False)) for name in self.formats}
        rows = {self.root: np.arange(len(tables[self.root][0])), **owners}
        for child, link in self.below().items():
            if link.head:
                heads, every = self._cells_of(link.of, tables[link.of]), np.append(np.arange(len(rows[link.of])), rows[child])
                order = np.argsort(every, kind="stable")  # heads stand before all others
                columns[child] = {name: np.append(heads[f"{child}.head", name], own)[order] for name, own in columns[child].items()}
                rows[child] = every[order]
        for link in reversed(self.links):
            for (table, name), total in self.rules.sums.items():
                if total.child == link.table:
                    columns[table][name] = total.of(columns[link.table], rows[link.table], len(rows[table]))
        labels = dict[str, dict[Any, np.ndarray]]()
        for name, owner in rows.items():
            of_parent = {mine: labels[self.below()[name].of][theirs][owner] for mine, theirs in self.keys.get(name, ())}
            own = {mine for child in self.below(name) for _, mine in self.keys[child]}
            numbers = 1 + ranks_within(owner) if of_parent and own > of_parent.keys() else np.arange(len(owner))
            labels[name] = dict.fromkeys(own, numbers) | of_parent
        return {
            name: table.fill([columns[name][column] for column in table.schema.coded], labels=labels[name])
            for name, table in self.formats.items()
        }


def most_of(link: Children) -> int:
    """Return how many rows of a parent stand in the child table of a forest: all but the head."""
    return link.most - (link.head is not None)


# Reading


def open_forest(
    schemas: LinkedSchemaLike,
    links: Sequence[Children] | None,
    X: Mapping[str, Table],
    rules: Sequence[LinkedRule] = (),
    key: bytes = bytes(KEY_OF_ORDER),
) -> tuple[Forest, LinkedFormat]:
    """Read linked tables as `read_forest` does, and add the columns of links."""
    forest, linked = read_forest(schemas, links, X, rules, key=key)
    return linked.encode(forest), linked


def read_forest(
    schemas: LinkedSchemaLike,
    links: Sequence[Children] | None,
    X: Mapping[str, Table],
    rules: Sequence[LinkedRule] = (),
    *,
    key: bytes = bytes(KEY_OF_ORDER),
    skips_damaged: bool = False,
    buys: bool = False,
) -> tuple[Forest, LinkedFormat]:
    """Read linked tables, a dict of whatever a fit takes as a table, or refuse them in one sentence that quotes no cell.

    `schemas`, `links`, `rules`: what `LinkedSchema.of` takes. `key`: of the hash that orders rows. `skips_damaged`: as of `open_source`.
    `buys`: whether bounds and levels may be private, which are still to be bought.
    """
    linked, tables = _read_linked(LinkedSchema.of(schemas, links, rules), X, key, skips_damaged, buys)
    return _forest_of(linked, tables), linked


def _read_linked(
    stated: LinkedSchema, X: Mapping[str, Table], key: bytes, skips_damaged: bool, buys: bool
) -> tuple[LinkedFormat, dict[str, "_TableRows"]]:
    if not isinstance(X, Mapping) or X.keys() != stated.schemas.keys():
        raise ValueError(
            f"X must be a dict of the tables {list_names(list(stated.schemas))}, got "
            f"{f'one of {list_names(list(X))}' if isinstance(X, Mapping) and X else short_repr(X)}; give these tables and no others."
        )
    named, opened = [name for link in stated.links for name in names_in(link.key)], dict[str, tuple]()
    for name, schema in stated.schemas.items():
        told = f"X[{short_repr(name)}]"
        source = open_source(X[name], told, read=schema.read, skips_damaged=skips_damaged, wanted=[*schema, *named])
        if not source.is_readable:
            raise TypeError(f"{told} must be a table whose rows can be read here, got sums of rows; collect the rows first.")
        with name_table_in_errors(told):
            opened[name] = source, *split_under(source, schema)
    columns = {name: kind.columns for name, (_, kind, _) in opened.items()}
    keys = {link.table: key_columns(link, columns[link.table], columns[link.of]) for link in stated.links}
    of_keys, formats = _labels_of_keys(stated, keys), {}
    for name, (source, kind, _) in opened.items():
        with name_table_in_errors(f"X[{short_repr(name)}]"):
            formats[name] = _format_of(source, TableFormat(kind), stated.schemas[name], of_keys[name], buys)
    linked, known = LinkedFormat(stated, formats, keys), LabelNumbers()
    linked.check_columns()
    tables = {name: _read_table(linked, name, source, raw, of_keys[name], known, key) for name, (source, _, raw) in opened.items()}
    return linked, tables


def _columns_of_keys(name: str, links: Sequence[Children], keys: Mapping[str, tuple]) -> list[Any]:
    """Return the columns of a table that are of a key; or refuse several keys of its own."""
    own = [[theirs for _, theirs in keys[link.table]] for link in links if link.of == name]
    if any({*each} != {*own[0]} for each in own):
        raise ValueError(f"key must name the same columns of {short_repr(name)} in all links, because they say which row is which.")
    return list(dict.fromkeys([*chain(*own), *(mine for mine, _ in keys.get(name, ()))]))


def _labels_of_keys(stated: LinkedSchema, keys: Mapping[str, tuple]) -> dict[str, dict[Any, Any]]:
    """Return the columns of each table that are of a key, and the labels of its identifiers: those that one table states hold in all."""
    kinds = {(name, each): kind for name, schema in stated.schemas.items() for each, kind in schema.items()}
    labels = {ref: kind.labels for ref, kind in kinds.items() if isinstance(kind, Identifier) and kind.comes_back}
    for link in (*reversed(stated.links), *stated.links):  # up to the root, then down to all
        for mine, theirs in keys[link.table]:
            both = ((link.of, theirs), (link.table, mine))
            found = [labels[ref] for ref in both if ref in labels]
            if len({*found}) > 1:
                told = f"must be one in {short_repr(link.of)} and {short_repr(link.table)}, got {' and '.join(map(short_repr, found))}"
                raise ValueError(f"labels of {name_repr(theirs)} {told}; rows find each other by them, so correct one.")
            labels |= dict.fromkeys(both, *found[:1]) if found else {}
    return {name: {each: labels.get((name, each), True) for each in _columns_of_keys(name, stated.links, keys)} for name in stated.schemas}


def _format_of(source: Source, table: TableFormat, schema: Schema, keys: Mapping[Any, Any], buys: bool) -> TableFormat:
    """Return the format of a table whose keys come back, with their labels, or refuse a schema that does not fit it."""
    if wrong := [name for name in keys if not isinstance(schema.get(name, Identifier()), Identifier)]:
        raise ValueError(f"schema must leave out {list_names(wrong)}, or say Identifier(), because it is of a key; correct it.")
    kinds = {name: Identifier(labels) for name, labels in keys.items()}
    table = table.match(Schema({**schema, **kinds}, schema.rules, schema.read), buys, infers_dtypes(source))
    check_no_text(table.schema)
    check_room(table)
    return table


@dataclass(frozen=True, eq=False, repr=False)
class _TableRows:
    columns: Columns
    labels: dict[Any, np.ndarray]  # numbers of the labels of each column of a key
    times: np.ndarray  # by which rows are ordered, those of one time as they stand
    hashes: np.ndarray


def _read_table(
    linked: LinkedFormat, name: str, source: Source, raw: list[Any], keys: Collection[Any], known: LabelNumbers, key: bytes
) -> _TableRows:
    """Read the rows of a table, in the order of a keyed hash of their keys and cells."""
    table, order = linked.formats[name], getattr(linked.below().get(name), "order", None)
    columns, how, parts = list(table.schema), (source.is_text, source.decimal), list[Columns]()
    places = {each: place for place, each in enumerate(table.schema.coded)}
    # The head is there for files without rows.
    chunks = (split_columns(chunk, source.is_text)[1] for chunk in chain([source.head], source.chunks()))
    for cells in [raw] if source.in_memory else chunks:
        labels = [label_list(cells[columns.index(each)]) for each in keys]
        if source.is_text:
            labels = [[None if label in MISSING_WORDS else label for label in each] for each in labels]
        part = list(map(known.numbers_of, labels))
        if order is not None:  # a cell that is missing comes last, also where it is read as another
            place = columns.index(order)
            part.append(read_column(cells[place], as_nullable(table.schema[order]), table.dtypes[place], *how))
        coded = read_columns(cells, table.schema, table.dtypes, *how)
        parts.append([*part, *(coded[places[each]] for each in linked.read_columns(name))])
    read, n_keys = concatenate(parts), len(keys)
    words = [word for numbers in read[:n_keys] for word in known.hashes(numbers)]
    high, low = RowHash(key)(words, read[n_keys:])
    *read, high = take_rows([*read, high], np.lexsort((high, low)))
    times, own = (np.zeros(len(read[0])), read[n_keys:]) if order is None else (read[n_keys], read[n_keys + 1 :])
    return _TableRows(own, dict(zip(keys, read, strict=False)), times, (high >> np.uint64(1)).astype(np.int64))


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


def _keys_of(linked: LinkedFormat, tables: Mapping[str, _TableRows]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return numbers of the keys by which tables are named as parents, and those of the parents of each child table."""
    own, theirs = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name in tables:
        if below := [*linked.below(name)]:
            names = [parent for _, parent in linked.keys[below[0]]]  # in one order for all
            parts = [[tables[name].labels[each] for each in names]]
            for child in below:
                mine = {parent: column for column, parent in linked.keys[child]}
                parts.append([tables[child].labels[mine[each]] for each in names])
            own[name], *others = _key_numbers(parts)
            theirs |= dict(zip(below, others, strict=True))
    return own, theirs


def _claims(linked: LinkedFormat, link: Children, table: _TableRows) -> np.ndarray:
    """Return which rows have the cells of a head."""
    cells = dict(zip(linked.read_columns(link.table), table.columns, strict=True))
    return np.logical_and.reduce([cells[column] == code for column, code in linked.head_codes(link).items()])


def _forest_of(linked: LinkedFormat, tables: Mapping[str, _TableRows]) -> Forest:
    own, theirs = _keys_of(linked, tables)
    rows, owners = {linked.root: _distinct(np.zeros_like(own[linked.root]), own[linked.root])}, dict[str, np.ndarray]()
    for name, link in linked.below().items():
        found = _first_places(own[link.of][rows[link.of]])
        owner = found[np.minimum(theirs[name], len(found) - 1)]
        places = np.flatnonzero(owner >= 0)
        if name in own:
            places = places[_distinct(owner[places], own[name][places])]
        times, follows = tables[name].times, np.ones(len(owner), dtype=bool)
        if link.head is not None:  # before the cap, which else could take it away: of rows that claim to be it the first, or of all
            claims = _claims(linked, link, tables[name])
            claiming = places[np.lexsort((times[places], ~claims[places], owner[places]))]
            follows[claiming[ranks_within(owner[claiming]) == 0]] = False
        places = places[np.lexsort((times[places], follows[places], owner[places]))]
        rows[name] = places[ranks_within(owner[places]) < link.most]
        owners[name] = owner[rows[name]]
    chosen = {name: take_rows(table.columns, rows[name]) for name, table in tables.items()}
    hashes = tables[linked.root].hashes[rows[linked.root]]
    return Forest(linked.root, chosen, owners, {link.table: link.of for link in linked.links}, hashes)


def _distinct(owner: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the places of rows that have a key, and are the first of their owner that has it."""
    pairs = _small(owner * (keys.max(initial=-1) + 2) + keys + 1)
    return np.flatnonzero((_first_places(pairs)[pairs] == np.arange(len(pairs))) & (keys >= 0))


def _with_added(linked: LinkedFormat, forest: Forest) -> Forest:
    """Return a forest of own columns with those that links add, where heads stand in the rows of their parents."""
    tables, owners = {name: list(columns) for name, columns in forest.tables.items()}, dict(forest.owners)
    for link in (link for link in linked.links if link.head is not None):
        codes, owner, schema = linked.head_codes(link), owners[link.table], linked.formats[link.table].schema
        is_head, own = ranks_within(owner) == 0, dict(zip(linked.read_columns(link.table), tables[link.table], strict=True))
        missing = read_columns([np.array([None], dtype=object)] * len(schema), schema, ["object"] * len(schema))
        blanks = dict(zip(schema.coded, missing, strict=True))  # where there is no row
        for name, column in own.items():
            if name not in codes:
                tables[link.of].append(np.full(len(tables[link.of][0]), blanks[name], dtype=column.dtype))
                tables[link.of][-1][owner[is_head]] = column[is_head]
        tables[link.table], owners[link.table] = take_rows(tables[link.table], ~is_head), owner[~is_head]
    return _with_numbers(linked, replace(forest, tables=tables, owners=owners))


def _with_numbers(linked: LinkedFormat, forest: Forest) -> Forest:
    """Return a forest with the number of children of each row, and of histories which row of them one is."""
    tables = {name: list(columns) for name, columns in forest.tables.items()}
    for link in linked.links:
        tables[link.of].append(forest.counts(link.table).astype(np.int32))
    for link in (link for link in linked.links if link.order is not None):
        tables[link.table].append(np.digitize(ranks_within(forest.owners[link.table]), [1, 2, 4]).astype(np.int32))
    return replace(forest, tables=tables)


# Findings


def findings_of_links(stated: LinkedSchema, X: Mapping[str, Table]) -> dict[str, list[Finding]]:
    """Return by table which keys and numbers of children are not as links say: for those who hold the tables alone."""
    linked, tables = _read_linked(stated, X, bytes(KEY_OF_ORDER), skips_damaged=False, buys=True)
    own, theirs = _keys_of(linked, tables)
    found: dict[str, list[Finding]] = {name: [] for name in tables}

    def add(table: str, columns: Iterable[Any], problem: str, n: int | np.integer, told: str) -> None:
        column, n_all = tuple(columns), max(1, len(tables[table].times))
        found[table] += [Finding(column if len(column) > 1 else column[0], problem, int(n), int(n) / n_all, told)] * bool(n)

    columns = {link.of: [theirs for _, theirs in linked.keys[link.table]] for link in linked.links}
    for name, numbers in own.items():
        add(name, columns[name], "no key", (numbers < 0).sum(), "they lack a part of the key, and are left out.")
        told = "a row before has their key, and all that hangs on it; a number that is unique within a parent needs its key beside it."
        add(name, columns[name], "repeated key", (numbers >= 0).sum() - len(np.unique(numbers[numbers >= 0])), told)
    for name, link in linked.below().items():
        of, mine = short_repr(link.of), [each for each, _ in linked.keys[name]]
        first, numbers = _first_places(own[link.of]), own[link.of]
        first[-1] = -1  # of rows without a key
        owner = first[np.minimum(theirs[name], len(first) - 1)]
        counts, is_parent = np.bincount(owner + 1, minlength=len(numbers) + 1)[1:], first[numbers] == np.arange(len(numbers))
        add(name, mine, "no parent", (owner < 0).sum(), f"no row of {of} has their key, so they are left out; is it written alike in both?")
        told = f"{of} has {link.most} rows of {short_repr(name)} at most, so these are left out."
        add(name, mine, "beyond most", np.maximum(counts - link.most, 0).sum(), told)
        told = f"they have less than {link.least} rows of {short_repr(name)}, but all sampled ones have so many."
        add(link.of, columns[link.of], "less than least", (is_parent & (counts < link.least)).sum(), told)
        if link.head is not None:
            heads = np.bincount(owner + 1, _claims(linked, link, tables[name]), len(numbers) + 1)[1:]
            add(link.of, columns[link.of], "no head", (is_parent & (counts > 0) & (heads == 0)).sum(), "some other row stands for it.")
            add(link.of, columns[link.of], "several heads", (heads > 1).sum(), "one of them counts as it.")
    return found


def check_tables(stated: LinkedSchema, X: Mapping[str, Table]) -> dict[str, Findings]:
    of_links = findings_of_links(stated, X)  # which refuses what a fit would refuse
    found = {name: findings_of(with_keys(stated, name), X[name]) for name in stated.schemas}
    return {name: replace(each, findings=(*of_links[name], *each.findings)) for name, each in found.items()}
