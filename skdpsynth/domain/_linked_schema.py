"""Linked tables in one statement, and as a file: the schema of each table, what hangs on what, and the rules between them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

from skdpsynth._validation import short_repr
from skdpsynth.domain._constraints import in_file
from skdpsynth.domain._kinds import Identifier, first_duplicate, list_names, name_column_in_errors
from skdpsynth.domain._linked_rules import LINKED_RULES, LinkedRule, LinkedRules, check_linked_rules
from skdpsynth.domain._links import Children, names_in, order_links
from skdpsynth.domain._schema import InFiles, Schema, SchemaLike
from skdpsynth.domain._schema_files import check_keys, columns_of, facts_of, read_file, read_rules, tuple_of
from skdpsynth.frames import Table
from skdpsynth.persistence import savable

_LINK = {each.name: each.default for each in fields(Children) if each.name != "table"}
_RULE = '{"rule": "at most", "n": 1, "cells": {"relation": "spouse"}, "table": "person"}'
_FORM = '{"tables": [{"name": ..., "columns": [...]}, {"name": ..., "of": ..., "key": ..., "most": ..., "columns": [...]}, ...]}'


@savable
@dataclass(frozen=True)
class LinkedSchema(InFiles):
    """The public facts about linked tables: the schema of each table, what hangs on what, and the rules between them.

    Parameters
    ----------
    schemas : dict of str to dict, Schema or path of a file
        The public facts about the columns of each table, without the columns of keys.
    links : list of Children
        What hangs on what: a tree, whose root is the table that hangs on none.
    rules : list of AtMost, Compared and Total, default=()
        Public facts between tables; those within one stand in its schema.

    See Also
    --------
    Children : How tables hang on each other.
    Schema : The public facts about one table.
    skdpsynth.LinkedTablesSynthesizer : Takes it, or the path of its file, as `schemas`.

    Examples
    --------
    >>> from skdpsynth.domain import Children, LinkedSchema
    >>> schemas = {"household": {"region": ["north", "south"]}, "person": {"age": (0, 110)}}
    >>> linked = LinkedSchema(schemas, [Children("person", of="household", key="household_id", most=8)])
    >>> linked.root
    'household'
    >>> LinkedSchema.from_json(linked.to_json()) == linked
    True
    """

    schemas: Mapping[str, Any]  # Schema, once it is made
    links: tuple[Children, ...]
    rules: Sequence[LinkedRule] = ()

    def __post_init__(self) -> None:
        schemas = self.schemas
        if not isinstance(schemas, Mapping) or not schemas or not all(isinstance(name, str) for name in schemas):
            told = "schemas must be a dict of table: schema, with names of tables as keys, a LinkedSchema, or the path of its file"
            raise ValueError(f"{told}, got {short_repr(schemas)}.")
        _, links = order_links(list(schemas), self.links)
        stated = {name: name_column_in_errors(name, partial(_check_coded, schema), "table") for name, schema in schemas.items()}
        vars(self).update(schemas=stated, links=links, rules=check_linked_rules(self.rules))
        LinkedRules(self.rules, stated, {link.table: link for link in links}, {})  # refuses rules that do not fit

    @classmethod
    def of(cls, schemas: object, links: Sequence[Children] | None = None, rules: Sequence[LinkedRule] = ()) -> "LinkedSchema":
        """Return the statement that parameters `schemas`, `links` and `rules` stand for, wherever they are taken.

        Parameters
        ----------
        schemas : dict, LinkedSchema, or the path of a file
            A file of YAML (.yaml, .yml) or JSON (.json), as `to_yaml` and `to_json` write it.
        links : list of Children, default=None
            With a dict, and with nothing else.
        rules : list of AtMost, Compared and Total, default=()
            Beside those of a `LinkedSchema` or file.
        """
        stated = cls._of_facts(read_file(schemas)) if isinstance(schemas, str | os.PathLike) else schemas
        if not isinstance(stated, cls):
            return cls(stated, links, rules)  # type: ignore[arg-type]
        if links is not None:
            raise ValueError(f"links must be None where a file or a LinkedSchema states them, got {short_repr(links)}; leave them out.")
        return replace(stated, rules=(*stated.rules, *check_linked_rules(rules)))

    def check(self, tables: Mapping[str, Table]) -> Any:
        """Compare tables that you hold with the statement, each as `Schema.check` does, and how their keys fit: **not private**.

        Parameters
        ----------
        tables : dict of str to data frame or other table that a fit takes

        Returns
        -------
        findings : dict of str to Findings
            By table. Those of keys are "no key", "repeated key", "no parent", "beyond most", "less than least", "no head" and "several
            heads": a fit leaves such rows out, or takes others in their place, in silence.
        """
        from skdpsynth.tables import check_tables

        return check_tables(self, tables)

    @property
    def root(self) -> str:
        """The table that hangs on none."""
        return self.links[0].of

    @classmethod
    def _of_facts(cls, facts: Any) -> "LinkedSchema":
        tables = facts.get("tables") if isinstance(facts, Mapping) else None
        if not isinstance(tables, list) or not all(isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in tables):
            got = list_names(list(facts)) if isinstance(facts, Mapping) else short_repr(facts)
            raise ValueError(f"source must hold {_FORM}, got {got}; write the tables so.")
        check_keys(facts, ("tables", "rules"), takes_others=False)
        names = [table["name"] for table in tables]
        if len(set(names)) < len(names):
            raise ValueError(f"source must name each table once, but {short_repr(first_duplicate(names))} occurs twice.")
        read = {table["name"]: name_column_in_errors(table["name"], partial(_read_table, table, names), "table") for table in tables}
        links = tuple(link for _, link in read.values() if link is not None)
        if not links:
            raise ValueError("source must have a table that hangs on another (of, key, most), but none does; give such a table.")
        return cls({name: schema for name, (schema, _) in read.items()}, links, read_rules(facts.get("rules"), LINKED_RULES, _RULE))

    def _facts(self) -> dict[str, Any]:
        links = {link.table: link for link in self.links}
        given = {name: {key: getattr(links[name], key) for key in _LINK} if name in links else {} for name in self.schemas}
        linked = {name: {key: in_file(value) for key, value in facts.items() if value != _LINK[key]} for name, facts in given.items()}
        tables = [{"name": name, **linked[name], **facts_of(each, each.rules, each.read)} for name, each in self.schemas.items()]
        return {"tables": tables, **({"rules": [rule.to_keys() for rule in self.rules]} if self.rules else {})}


def _check_coded(schema: SchemaLike) -> Schema:
    schema = Schema.of(schema)
    schema.coded  # noqa: B018  refuses a table of keys alone
    return schema


def _read_table(table: Mapping[str, Any], tables: Sequence[str]) -> tuple[Schema, Children | None]:
    check_keys(table, ("name", "columns", "rules", "read", *_LINK), takes_others=False)
    schema = Schema(*columns_of({key: table[key] for key in ("columns", "rules", "read") if key in table}))
    link = {key: tuple_of(table[key]) for key in _LINK if key in table}
    if link and link.get("of") not in (others := [each for each in tables if each != table["name"]]):
        raise ValueError(f"of must be the table that it hangs on, one of {list_names(others)}, got {short_repr(link.get('of'))}.")
    needed = {key: None for key, default in _LINK.items() if default is MISSING}
    return schema, Children(table["name"], **needed | link) if link else None


def schema_of_file(path: str | PathLike[str]) -> Schema | LinkedSchema:
    """Return what a file states: one table, or linked ones."""
    parsed = read_file(path)
    return (LinkedSchema if isinstance(parsed, Mapping) and "tables" in parsed else Schema)._of_facts(parsed)


def with_keys(linked: LinkedSchema, name: str) -> Schema:
    """Return the schema of a table with the columns of its keys as identifiers: that of all columns that its file has."""
    schema = linked.schemas[name]
    keys = [each for link in linked.links if name in (link.table, link.of) for each in names_in(link.key)]
    return Schema({**dict.fromkeys(keys, Identifier()), **schema}, schema.rules, schema.read)


def propose_links(schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """Return tables as the file of a `LinkedSchema` has them, to be completed: each hangs on the first before it with most of its names."""
    links, in_keys = dict[str, dict[str, Any]](), {name: set[Any]() for name in schemas}
    for place, name in enumerate(schemas):
        if before := {other: [each for each in schemas[other] if each in schemas[name]] for other in [*schemas][:place]}:
            parent = max(before, key=lambda other: len(before[other]))
            key = before[parent]
            links[name] = {"of": parent if key else "open", "key": (key[0] if len(key) == 1 else in_file(key)) or "open", "most": "open"}
            in_keys[name] |= {*key}
            in_keys[parent] |= {*key}
    own = {name: {each: kind for each, kind in schema.items() if each not in in_keys[name]} for name, schema in schemas.items()}
    if empty := [name for name, columns in own.items() if not columns]:
        raise ValueError(
            f"source must be tables with columns that no other has, but {list_names(empty)} has none; add some, or leave it out."
        )
    return {"tables": [{"name": name, **links.get(name, {}), **facts_of(own[name], (), schemas[name].read)} for name in schemas]}


LinkedSchemaLike: TypeAlias = LinkedSchema | Mapping[str, SchemaLike] | str | PathLike[str]  # what `LinkedSchema.of` takes
