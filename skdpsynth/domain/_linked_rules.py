"""Rules between linked tables: public facts about a row, its parent and its siblings, which every sampled root keeps."""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from skdpsynth._validation import check_integer, check_type, short_repr
from skdpsynth.domain._constraints import level_of
from skdpsynth.domain._kinds import Continuous, Ordinal, list_names, name_repr
from skdpsynth.domain._links import Children
from skdpsynth.domain._order_constraints import Axis, axis_of
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._structural_zeros import Tie, keys_of, ties_of
from skdpsynth.domain._times import Times
from skdpsynth.persistence import savable

Ref: TypeAlias = tuple[str, Any]  # a table, or "table.head", and a column
Cells: TypeAlias = dict[Ref, np.ndarray]  # what rules of a table look at: its own, those of heads below it, and those of its parents
Codes: TypeAlias = Mapping[Ref, tuple[int, ...]]
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_FLIPPED = dict(zip(_OPERATORS, (">", ">=", "<", "<="), strict=True))
_FORMULA = re.compile(r"\s*(sum|count)\s*\(([^()]*)\)\s*")


@savable
@dataclass(frozen=True)
class AtMost:
    """At most so many rows of each parent have some cells, such as one spouse in a household; the head counts among them.

    Parameters
    ----------
    n : int
    cells : dict
        For each column a level, or a list of levels: a row that has one of them in each column is such a row.
    table : str
        The child table, without `order`.

    See Also
    --------
    Children : With `head`, states what exactly one row has.

    Examples
    --------
    >>> from skdpsynth.domain import AtMost
    >>> AtMost(1, {"relation": "spouse"}, table="person")
    AtMost(n=1, cells={'relation': 'spouse'}, table='person')
    """

    n: int
    cells: Any
    _: KW_ONLY
    table: str

    def __post_init__(self) -> None:
        check_type("table", self.table, str, "the name of a table")
        vars(self).update(n=check_integer("n", self.n, 0), cells=_checked_cells("cells", self.cells))


@savable
@dataclass(frozen=True)
class Compared:
    """A column of a table that is below or above one of its parent's table, or of the head of its parent; missing cells bind nothing.

    Parameters
    ----------
    left : str
        A column as "table.column", or "table.head.column" of the head. A rule for "person.age" is also one for the age of the head,
        unless it compares with this.
    op : {"<", "<=", ">", ">="}
    right : str
        A column of numbers, times or ordinal levels, as `left` is.
    where : dict, default=None
        For each of some columns of the table of `left` a level, or a list of levels: only rows that have them keep the rule. None: all.

    See Also
    --------
    Inequality : For two columns of one table.

    Examples
    --------
    >>> from skdpsynth.domain import Compared
    >>> Compared("person.age", "<", "person.head.age", where={"relation": "child"}).op
    '<'
    """

    left: str
    op: str
    right: str
    where: Any = None

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            check_type(name, getattr(self, name), str, 'a column of a table, such as "person.age"')
        if not isinstance(self.op, str) or self.op not in _OPERATORS:
            raise ValueError(f"op must be one of {', '.join(map(repr, _OPERATORS))}, got {short_repr(self.op)}.")
        vars(self).update(where=None if self.where is None else _checked_cells("where", self.where))


@savable
@dataclass(frozen=True)
class Total:
    """A column of numbers of a parent's table that follows from its children: neither counted nor modeled, but computed from sampled rows.

    It is clipped into its bounds, missing cells count for nothing, and heads are counted as all children are.

    Parameters
    ----------
    column : str
        As "table.column".
    formula : str
        "sum(item.price)", or "count(person)", or with conditions "count(person, work = yes)" and "sum(item.price, kind = food)".

    See Also
    --------
    Derived : A column computed from others of its row.

    Examples
    --------
    >>> from skdpsynth.domain import Total
    >>> Total("household.workers", "count(person, work = yes)")
    Total(column='household.workers', formula='count(person, work = yes)')
    """

    column: str
    formula: str

    def __post_init__(self) -> None:
        check_type("column", self.column, str, 'a column of a table, such as "order.total"')
        if not isinstance(self.formula, str) or not _FORMULA.fullmatch(self.formula):
            raise ValueError(f'formula must be such as "sum(item.price)" or "count(person, work = yes)", got {short_repr(self.formula)}.')


def _checked_cells(name: str, cells: object) -> dict[Any, Any]:
    if not isinstance(cells, Mapping) or not cells:
        raise ValueError(f'{name} must be a dict of column: level, {{"relation": "child"}} for example, got {short_repr(cells)}.')
    return dict(cells)


LinkedRule: TypeAlias = AtMost | Compared | Total


def _have(cells: Cells, codes: Codes) -> np.ndarray:
    return np.logical_and.reduce([np.isin(cells[ref], list(each)) for ref, each in codes.items()])


@dataclass(frozen=True, eq=False)
class CellsCheck:
    """At most n rows of a parent have some codes: those beyond break it."""

    n: int
    codes: Codes
    of_head: Codes  # empty: there is none

    def broken(self, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        assert owner is not None
        met = _have(cells, self.codes)
        before = np.cumsum(met) - met
        before = before - before[np.searchsorted(owner, owner)] + (_have(cells, self.of_head) if self.of_head else 0)
        return met & (before >= self.n)

    def mend(self, cells: Cells, rows: np.ndarray) -> None:
        """Leave it to other codes."""


@dataclass(frozen=True, eq=False)
class OrderCheck:
    """A number is below or above another, on their axes; of ordinal levels, codes are compared."""

    refs: tuple[Ref, Ref]  # the first is moved where no row is drawn that keeps it
    kinds: tuple[Any, Any]
    axes: tuple[Axis | None, Axis | None]
    op: str
    codes: Codes  # of rows that must keep it
    beside: tuple[
        tuple[Ref, Any, Axis | None], ...
    ] = ()  # the other time of a row of a history, moved alike so that its rows stay in order

    def _side_of(self, cells: Cells, side: int) -> np.ndarray:
        values, axis = cells[self.refs[side]], self.axes[side]
        if axis is None:
            return np.where(values < len(self.kinds[side].levels), values, np.nan)
        return np.where(np.isnan(values), np.nan, axis.show(values))

    def broken(self, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        left, right = self._side_of(cells, 0), self._side_of(cells, 1)
        broken = ~(_OPERATORS[self.op](left, right) | np.isnan(left) | np.isnan(right))
        return broken & _have(cells, self.codes) if self.codes else broken

    def mend(self, cells: Cells, rows: np.ndarray) -> None:
        """Move numbers to the nearest that is allowed, where there is one."""
        way, moved, fits = 1 if self.op[0] == ">" else -1, {}, np.ones(len(rows), dtype=bool)
        end = self._side_of(cells, 1)[rows] + way * (len(self.op) == 1)
        for ref, kind, axis in ((self.refs[0], self.kinds[0], self.axes[0]), *self.beside):
            values, low, high = end, 0, len(getattr(kind, "levels", ())) - 1
            if axis is not None:
                at = end.astype(np.int64) if isinstance(kind, Times) else end
                values, low, high = axis.value((axis.ceil if way > 0 else axis.floor)(at)), kind.coded.low, kind.coded.high
            fits &= (values >= low) & (values <= high)
            moved[ref] = (np.maximum if way > 0 else np.minimum)(cells[ref][rows], values)
        for ref, values in moved.items():
            cells[ref][rows[fits]] = values[fits]


@dataclass(frozen=True, eq=False)
class TieCheck:
    """The rules of a schema on columns of one row."""

    tie: Tie
    table: str
    kinds: Mapping[Any, Any]
    codes: Codes = field(default_factory=dict)

    def broken(self, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        own, axes, shown, missing = {name: cells[self.table, name] for name in self.tie.columns}, self.tie.axes, {}, {}
        for name, values in own.items():
            shown[name] = axes[name].show(values) if name in axes else values
            missing[name] = np.isnan(values) if name in axes else values >= len(self.kinds[name].levels)
        return ~self.tie.holds(shown, missing)

    def mend(self, cells: Cells, rows: np.ndarray) -> None:
        """Leave it to other rows."""


Check: TypeAlias = CellsCheck | OrderCheck | TieCheck


@dataclass(frozen=True, eq=False)
class ChildSum:
    """The column of a parent that is computed from its children."""

    ref: Ref
    child: str
    part: tuple[Any, Axis] | None  # None: rows are counted
    codes: Codes
    kind: Continuous

    def of(self, columns: Mapping[Any, np.ndarray], owner: np.ndarray, n_parents: int) -> np.ndarray:
        """Return the cells of the parents, from the columns of their children."""
        parts = np.ones(len(owner))
        if self.part is not None:
            name, axis = self.part
            parts = np.nan_to_num(axis.show(columns[name]))
        if self.codes:
            parts = parts * _have({(self.child, name): columns[name] for _, name in self.codes}, self.codes)
        return np.clip(np.bincount(owner, parts, n_parents), self.kind.low, self.kind.high)


@dataclass(frozen=True, eq=False)
class LinkedRules:
    """Rules of linked tables against their schemas; what does not fit is refused."""

    stated: Sequence[LinkedRule]
    schemas: Mapping[str, Schema]
    links: Mapping[str, Children]  # by child tables, parents before children
    dtypes: Mapping[str, Mapping[Any, str]]
    sums: dict[Ref, ChildSum] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)  # by tables, of rows as they are drawn

    def __post_init__(self) -> None:
        if not isinstance(self.stated, list | tuple) or not all(isinstance(rule, LinkedRule) for rule in self.stated):
            raise ValueError(
                f"rules must be a list of AtMost, Compared and Total, got {short_repr(self.stated)}; those of one table go there."
            )
        for rule in (rule for rule in self.stated if isinstance(rule, Total)):
            self._add_sum(rule)
        for rule in self.stated:
            if isinstance(rule, AtMost):
                self._add_most(rule)
            elif isinstance(rule, Compared):
                self._add_order(rule)
        for name, schema in self.schemas.items():
            self._add_ties(name, schema)

    def computed_columns(self, table: str) -> list[Any]:
        return [name for of, name in self.sums if of == table]

    def _ref(self, text: str, seen: bool = True) -> Ref:
        """Return the column that a text names; or refuse it, also if no mechanism sees it, where one must."""
        for table, schema in self.schemas.items():
            rest, names = text.removeprefix(f"{table}."), {str(name): name for name in schema}
            for prefix, name in ((table, rest), (f"{table}.head", rest.removeprefix("head."))):
                has_it = rest != text and name in names and (prefix == table or (rest != name and self.links[table].head is not None))
                if has_it and not seen:
                    return prefix, names[name]
                if has_it:
                    return self._checked_ref((prefix, names[name]))
        known = ", ".join(f"{table}." for table in self.schemas)
        raise ValueError(
            f"rules must name columns of tables, such as {known}column, or table.head.column, got {short_repr(text)}; correct it."
        )

    def _checked_ref(self, ref: Ref) -> Ref:
        table, (prefix, name) = ref[0].removesuffix(".head") if ref[0] not in self.schemas else ref[0], ref
        link = self.links.get(table)
        is_wave = link is not None and link.grid is not None and name == link.order
        if name not in self.schemas[table] or not self.schemas[table].is_coded(name) or (prefix, name) in self.sums or is_wave:
            raise ValueError(f"rules must name columns of {short_repr(table)} that are modeled, got {name_repr(name)}; leave it out.")
        return ref

    def _kind(self, ref: Ref) -> Any:
        return self.schemas[ref[0] if ref[0] in self.schemas else ref[0].removesuffix(".head")][ref[1]]

    def _codes(self, prefix: str, cells: Mapping[Any, Any]) -> dict[Ref, tuple[int, ...]]:
        found = {}
        for name, stated in cells.items():
            ref = self._checked_ref((prefix, name))
            levels, items = getattr(self._kind(ref), "levels", ()), stated if isinstance(stated, list) else [stated]
            codes = [levels.index(item) for item in (level_of(self._kind(ref), item) for item in items) if item in levels]
            if len(codes) < len(items) or not items:
                raise ValueError(f"rules must have levels of column {name_repr(name)}, got {short_repr(stated)}; correct them.")
            found[ref] = tuple(codes)
        return found

    def _axis(self, ref: Ref) -> Axis | None:
        kind = self._kind(ref)
        return None if isinstance(kind, Ordinal) else axis_of(kind, self.dtypes[ref[0].removesuffix(".head")].get(ref[1]))

    def _add_sum(self, rule: Total) -> None:
        ref, match = self._ref(rule.column, seen=False), _FORMULA.fullmatch(rule.formula)
        assert match is not None
        first, *conditions = (part.strip() for part in match[2].split(","))
        child, part = (first, None) if match[1] == "count" else self._ref(first, seen=False)
        kinds = [self._kind(each) for each in (ref, *([] if part is None else [(child, part)]))]
        if child not in self.links or self.links[child].of != ref[0]:
            raise ValueError(f"Total must be of a table whose children are counted or summed, got {short_repr(rule.formula)}; correct it.")
        link = self.links.get(ref[0])
        is_used = ref in self.sums or (link is not None and ref[1] in (link.order, link.until)) or not self.schemas[ref[0]].is_coded(ref[1])
        if is_used or not all(isinstance(kind, Continuous) for kind in kinds) or kinds[0].integer > kinds[-1].integer:
            raise ValueError(
                f"Total must be of numbers, computed once, no time of a history, and whole only if its parts are, got {short_repr(rule)}."
            )
        cells = {name.strip(): word.strip() for name, _, word in (each.partition("=") for each in conditions)}
        levels = {name: {str(level): level for level in getattr(self.schemas[child].get(name), "levels", ())} for name in cells}
        codes = self._codes(child, {name: levels[name].get(word.strip("'\""), word) for name, word in cells.items()})
        self.sums[ref] = ChildSum(
            ref, child, None if part is None else (part, axis_of(kinds[1], self.dtypes[child].get(part))), codes, kinds[0]
        )

    def _add_most(self, rule: AtMost) -> None:
        link = self.links.get(rule.table)
        if link is None or link.order is not None:
            raise ValueError(f"AtMost must be of a child table without order, got {short_repr(rule.table)}; correct it.")
        of_head = {} if link.head is None else self._codes(f"{rule.table}.head", rule.cells)
        self.checks.setdefault(rule.table, []).append(CellsCheck(rule.n, self._codes(rule.table, rule.cells), of_head))

    def _prefixes(self, table: str) -> tuple[list[str], list[str]]:
        """Return whose cells a row of a table holds, by its own and by those of the heads below it, and whose stand beside it."""
        link = self.links.get(table)
        heads = [f"{child}.head" for child, each in self.links.items() if each.of == table and each.head is not None]
        return [table, *heads], [] if link is None else [link.of, *([f"{table}.head"] if link.head is not None else [])]

    def _add_order(self, rule: Compared) -> None:
        refs, op = (self._ref(rule.left), self._ref(rule.right)), rule.op
        codes = self._codes(refs[0][0], rule.where or {})
        ordered = [*(name for name in self.schemas if name not in self.links), *self.links]
        tables = [name for name in ordered if {ref[0] for ref in refs} <= {*chain(*self._prefixes(name))}]
        if refs[0][0] == refs[1][0] or not tables:
            raise ValueError(
                f"Compared must be between a table and its parent's, or the head of its parent, got {short_repr(rule.left)} and "
                f"{short_repr(rule.right)}; rules of one table go into its schema."
            )
        if refs[0][0] not in self._prefixes(table := tables[0])[0]:
            refs, op = refs[::-1], _FLIPPED[op]
        self._add_comparison(table, refs, op, codes, rule)
        (child, name), link = refs[0], self.links.get(refs[0][0])
        if link is not None and link.head is not None and refs[1][0] == link.of:  # the head is a row of the table, too
            head = f"{child}.head"
            self._add_comparison(
                link.of, ((head, name), refs[1]), op, {(head if of == child else of, c): x for (of, c), x in codes.items()}, rule
            )

    def _add_comparison(self, table: str, refs: tuple[Ref, Ref], op: str, codes: Codes, rule: Compared) -> None:
        first, second = kinds = self._kind(refs[0]), self._kind(refs[1])
        are_times = isinstance(first, Times) and isinstance(second, Times) and first.family == second.family
        are_times = are_times and (first.zone is None) == (second.zone is None)
        are_levels = isinstance(first, Ordinal) and isinstance(second, Ordinal) and first.levels == second.levels
        are_numbers = isinstance(first, Continuous) and isinstance(second, Continuous)
        if not (are_times or are_levels or are_numbers) or (are_numbers and len(op) == 1 and not (first.integer and second.integer)):
            raise ValueError(
                "Compared must be between two columns of numbers (with < or > of whole ones), of times, or of the same ordinal levels, got "
                f"{short_repr(rule.left)} {rule.op} {short_repr(rule.right)}; correct it."
            )
        link, beside = self.links.get(table), tuple[tuple[Ref, Any, Axis | None], ...]()
        if link is not None and refs[0] in ((table, link.order), (table, link.until)):
            if codes:
                raise ValueError(f"where must be None beside a time of a history, got {short_repr(rule.where)}; leave it out.")
            others = [name for name in (link.order, link.until) if name not in (None, refs[0][1])]
            beside = tuple(((table, name), self._kind((table, name)), self._axis((table, name))) for name in others)
        check = OrderCheck(refs, kinds, (self._axis(refs[0]), self._axis(refs[1])), op, codes, beside)
        self.checks.setdefault(table, []).append(check)

    def _add_ties(self, name: str, schema: Schema) -> None:
        if not schema.rules:
            return
        if keys := keys_of(schema.rules, schema):
            raise ValueError(f"rules of linked tables must not be Unique, got one of {list_names(keys[0])}; leave it out.")
        link, ties = self.links.get(name), ties_of(schema, schema.rules, self.dtypes[name])
        if used := [
            each for tie in ties for each in tie.columns if (name, each) in self.sums or (link and link.grid and each == link.order)
        ]:
            raise ValueError(f"rules of {short_repr(name)} must leave out {list_names(used)}, which is not modeled.")
        for tie in ties:
            self.checks.setdefault(name, []).append(TieCheck(tie, name, schema))
            if link is not None and link.head is not None:
                self.checks.setdefault(link.of, []).append(TieCheck(tie, f"{name}.head", schema))

    def broken(self, table: str, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        """Return which rows of a table break a rule; of siblings those that come later."""
        return np.logical_or.reduce([check.broken(cells, owner) for check in self.checks[table]])

    def mend(self, table: str, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        """Move numbers into what is allowed, then try other levels in place of those that a rule names; return which rows break one yet."""
        link = self.links.get(table)
        for check in self.checks[table]:
            check.mend(cells, np.flatnonzero(check.broken(cells, owner)))
        for check, ref in [(each, ref) for each in self.checks[table] for ref in each.codes if ref[0] == table]:
            taken = {
                *check.codes[ref],
                *(self._codes(table, {ref[1]: link.head[ref[1]]})[ref] if link and ref[1] in (link.head or ()) else ()),
            }
            for code in set(range(len(self._kind(ref).levels))) - taken:
                rows = np.flatnonzero(check.broken(cells, owner))
                before = cells[ref][rows]
                cells[ref][rows] = code
                worse = self.broken(table, cells, owner)[rows]
                cells[ref][rows[worse]] = before[worse]
        return self.broken(table, cells, owner)
