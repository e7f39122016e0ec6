"""Rules between linked tables: public facts about a row, its parent and its siblings, which every sampled root keeps."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import numpy as np

from skdpsynth._validation import check_integer, check_type, short_repr
from skdpsynth.domain._constraints import Inequality, StatedRule, level_of
from skdpsynth.domain._kinds import Continuous, Ordinal, ends_of_cells, list_names, name_repr
from skdpsynth.domain._links import Children
from skdpsynth.domain._order_constraints import Axis, Orders, axis_of, in_order
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._structural_zeros import Tie, keys_of, ties_of
from skdpsynth.persistence import savable

Ref: TypeAlias = tuple[str, Any]  # a table, or "table.head", and a column
Cells: TypeAlias = dict[Ref, np.ndarray]  # what rules of a table look at: its own, those of heads below it, and those of its parents
Codes: TypeAlias = Mapping[Ref, tuple[int, ...]]
_OPERATORS = ("<", "<=", ">", ">=")
_FORMULA = re.compile(r"\s*(sum|count)\s*\(([^()]*)\)\s*")


@savable
@dataclass(frozen=True)
class AtMost(StatedRule):
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
    AtMost(n=1, cells={'relation': ['spouse']}, table='person')
    """

    n: int
    cells: Any
    _: KW_ONLY
    table: str
    _word: ClassVar[str] = "at most"

    def __post_init__(self) -> None:
        check_type("table", self.table, str, "the name of a table")
        vars(self).update(n=check_integer("n", self.n, 0), cells=_checked_cells("cells", self.cells))


@savable
@dataclass(frozen=True)
class Compared(StatedRule):
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
    _word: ClassVar[str] = "compared"

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            check_type(name, getattr(self, name), str, 'a column of a table, such as "person.age"')
        if not isinstance(self.op, str) or self.op not in _OPERATORS:
            raise ValueError(f"op must be one of {', '.join(map(repr, _OPERATORS))}, got {short_repr(self.op)}.")
        vars(self).update(where=None if self.where is None else _checked_cells("where", self.where))


@savable
@dataclass(frozen=True)
class Total(StatedRule):
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
    _word: ClassVar[str] = "total"

    def __post_init__(self) -> None:
        check_type("column", self.column, str, 'a column of a table, such as "order.total"')
        if not isinstance(self.formula, str) or not _FORMULA.fullmatch(self.formula):
            raise ValueError(f'formula must be such as "sum(item.price)" or "count(person, work = yes)", got {short_repr(self.formula)}.')


LinkedRule: TypeAlias = AtMost | Compared | Total
LINKED_RULES = (AtMost, Compared, Total)


def _checked_cells(name: str, cells: object) -> dict[Any, list]:
    if not isinstance(cells, Mapping) or not cells or any(isinstance(stated, list) and not stated for stated in cells.values()):
        raise ValueError(f'{name} must be a dict of column: level, {{"relation": "child"}} for example, got {short_repr(cells)}.')
    return {column: stated if isinstance(stated, list) else [stated] for column, stated in cells.items()}


def check_linked_rules(rules: object) -> tuple[LinkedRule, ...]:
    if not isinstance(rules, list | tuple) or not all(isinstance(rule, LinkedRule) for rule in rules):
        raise ValueError(f"rules must be a list of AtMost, Compared and Total, got {short_repr(rules)}; those of one table go there.")
    return tuple(rules)


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


@dataclass(frozen=True, eq=False)
class RowCheck:
    """Rules on columns of a row, and on those of its parent and of heads, which some rows must keep."""

    tie: Tie
    refs: Mapping[Any, Ref]  # by the columns of the tie
    ends: Mapping[Any, tuple[float, float]]  # the least and the largest cell; missing ones lie beyond
    codes: Codes = field(default_factory=dict)  # of rows that must keep it
    moved: tuple = ()  # numbers that are moved where no row is drawn that keeps it
    moves: Orders | None = None  # what is kept then

    def _show(self, cells: Cells, rows: slice | np.ndarray = slice(None)) -> tuple[dict, dict]:
        values = {name: cells[ref][rows] for name, ref in self.refs.items()}
        missing = {name: ~(each <= self.ends[name][1]) for name, each in values.items()}
        return {name: self.tie.axes[name].show(each) if name in self.tie.axes else each for name, each in values.items()}, missing

    def broken(self, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        return ~self.tie.holds(*self._show(cells)) & _have(cells, self.codes)

    def mend(self, cells: Cells, rows: np.ndarray) -> None:
        """Move numbers to the nearest that is allowed, where there is one."""
        if self.moves is None:
            return
        (x, missing), axes, each = self._show(cells, rows), self.moves.axes, np.ones(len(rows))
        least, most = (x | {name: axes[name].show(self.ends[name][side] * each) for name in self.moved} for side in (0, 1))
        fits, found = self.moves.can_hold(least, most, missing), self.moves.repair(x, least, most, missing)
        for name in self.moved:
            places = np.flatnonzero(fits & ~missing[name])
            cells[self.refs[name]][rows[places]] = axes[name].value(found[name])[places]


Check: TypeAlias = CellsCheck | RowCheck


@dataclass(frozen=True, eq=False)
class ChildSum:
    """The column of a parent that is computed from its children."""

    child: str
    part: tuple[Any, Axis] | None  # None: rows are counted
    codes: Codes
    kind: Continuous

    def of(self, columns: Mapping[Any, np.ndarray], owner: np.ndarray, n_parents: int) -> np.ndarray:
        """Return the cells of the parents, from the columns of their children."""
        parts = np.ones(len(owner)) if self.part is None else np.nan_to_num(self.part[1].show(columns[self.part[0]]))
        parts = parts * _have({(self.child, name): cells for name, cells in columns.items()}, self.codes)
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
    kinds: dict[Ref, Any] = field(default_factory=dict)  # of columns that are modeled or computed here
    heads: dict[str, dict[Any, int]] = field(default_factory=dict)  # by child tables, the code of each cell that their heads have

    def __post_init__(self) -> None:
        heads = {f"{name}.head": self.schemas[name] for name, link in self.links.items() if link.head is not None}
        waves = {(name, link.order) for name, link in self.links.items() if link.grid is not None}
        for prefix, schema in {**self.schemas, **heads}.items():
            stated = {(prefix, name): schema[name] for name in schema.coded if schema[name].stand_in is None}
            self.kinds.update({ref: kind for ref, kind in stated.items() if ref not in waves})
        for name, link in self.links.items():
            codes = self._codes(name, {column: [cell] for column, cell in (link.head or {}).items()}, "head")
            self.heads[name] = {column: code for (_, column), (code,) in codes.items()}
        add: dict[type, Callable[[Any], None]] = {Total: self._add_sum, AtMost: self._add_most, Compared: self._add_order}
        for made in add:  # first of all what is computed, which no other rule may name
            for place, rule in enumerate(self.stated, start=1):
                try:
                    if isinstance(rule, made):
                        add[made](rule)
                except ValueError as error:
                    raise ValueError(f"rule {place}: {error}") from None
        for name, schema in self.schemas.items():
            self._add_ties(name, schema)

    def _add(self, table: str, check: Check) -> None:
        self.checks.setdefault(table, []).append(check)

    def _ref(self, text: str, may_be_computed: bool = False, subject: str = "rules") -> Ref:
        """Return the column that a text names."""
        found = [ref for ref in self.kinds if text == f"{ref[0]}.{ref[1]}" and (may_be_computed or ref not in self.sums)]
        if not found:
            if (named := text.rpartition(".head.")[0]) in self.links and self.links[named].head is None:
                raise ValueError(f"{subject} must name heads where links state them, got {short_repr(text)}; state head.")
            such = " or ".join([*(f"{table}.column" for table in self.schemas), "table.head.column"])
            raise ValueError(f"{subject} must name columns that are modeled, whose facts are stated, as {such}, got {short_repr(text)}.")
        return found[0]

    def _codes(self, prefix: str, cells: Mapping[Any, list], subject: str = "rules") -> dict[Ref, tuple[int, ...]]:
        found = {}
        for name, items in cells.items():
            kind = self.kinds[ref := self._ref(f"{prefix}.{name}", subject=subject)]
            levels, items = getattr(kind, "levels", ()), [level_of(kind, item) for item in items]
            if wrong := [item for item in items if not isinstance(item, Hashable) or item not in levels]:
                raise ValueError(f"{subject} must have levels of column {name_repr(name)}, got {short_repr(wrong[0])}; correct them.")
            found[ref] = tuple(map(levels.index, items))
        return found

    def _dtype(self, ref: Ref) -> str | None:
        return self.dtypes.get(ref[0].removesuffix(".head"), {}).get(ref[1])

    def _add_sum(self, rule: Total) -> None:
        ref, match = self._ref(rule.column, may_be_computed=True), _FORMULA.fullmatch(rule.formula)
        assert match is not None
        first, *conditions = (part.strip() for part in match[2].split(","))
        part = None if match[1] == "count" else self._ref(first, may_be_computed=True)
        child, kinds = first if part is None else part[0], [self.kinds[each] for each in (ref, part) if each is not None]
        if child not in self.links or self.links[child].of != ref[0]:
            raise ValueError(f"Total must be of a table whose children are counted or summed, got {short_repr(rule.formula)}; correct it.")
        link = self.links.get(ref[0])
        for is_right, told in (
            (ref not in self.sums, "the only one of its column"),
            (link is None or ref[1] not in (link.order, link.until), "of no time of a history"),
            (all(isinstance(kind, Continuous) for kind in kinds), "of columns of numbers"),
            (getattr(kinds[0], "integer", 0) <= getattr(kinds[-1], "integer", 0), "of a column that is not whole, as its parts are not"),
        ):
            if not is_right:
                raise ValueError(f"Total must be {told}, got {short_repr(f'{rule.column} = {rule.formula}')}; correct it.")
        cells = {}
        for name, word in ((name.strip(), word.strip()) for name, _, word in (each.partition("=") for each in conditions)):
            levels = {str(level): level for level in getattr(self.schemas[child].get(name), "levels", ())}
            cells[name] = [levels.get(word.strip("'\""), word)]
        axis = None if part is None else (part[1], axis_of(kinds[1], self._dtype(part)))
        self.sums[ref] = ChildSum(child, axis, self._codes(child, cells), kinds[0])

    def _add_most(self, rule: AtMost) -> None:
        link = self.links.get(rule.table)
        if link is None or link.order is not None:
            raise ValueError(f"AtMost must be of a child table without order, got {short_repr(rule.table)}; correct it.")
        of_head = {} if link.head is None else self._codes(f"{rule.table}.head", rule.cells)
        self._add(rule.table, CellsCheck(rule.n, self._codes(rule.table, rule.cells), of_head))

    def _seen(self, table: str) -> tuple[list[str], list[str]]:
        """Return whose cells a row of a table holds, its own and those of heads below it, if there are any, and whose stand beside it."""
        own = [table, *(f"{child}.head" for child, link in self.links.items() if link.of == table)]
        return own, [self.links[table].of, f"{table}.head"] if table in self.links else []

    def _add_order(self, rule: Compared) -> None:
        refs, root = (self._ref(rule.left), self._ref(rule.right)), [name for name in self.schemas if name not in self.links]
        codes, sides = self._codes(refs[0][0], rule.where or {}), {ref[0] for ref in refs}
        table = next((name for name in [*root, *self.links] if sides <= {*chain(*self._seen(name))}), None)
        if len(sides) < 2 or table is None:
            raise ValueError(
                f"Compared must be between a table and its parent's, or the head of its parent, got {short_repr(rule.left)} and "
                f"{short_repr(rule.right)}; rules of one table go into its schema."
            )
        mine = 0 if refs[0][0] in self._seen(table)[0] else 1
        self._add_comparison(table, refs, mine, codes, rule)
        link = self.links.get(table)
        if link is not None and link.head is not None and sides == {table, link.of}:  # the head is a row of the table, too
            (first, x), (second, y) = refs
            head = {table: f"{table}.head", link.of: link.of}
            codes = {(head[of], name): each for (of, name), each in codes.items()}
            self._add_comparison(link.of, ((head[first], x), (head[second], y)), mine, codes, rule)

    def _add_comparison(self, table: str, refs: tuple[Ref, Ref], at: int, codes: Codes, rule: Compared) -> None:
        """Add the check of a table, of whose rows the column at a place is moved where no row is drawn that keeps the rule."""
        kinds = {ref: self.kinds[ref] for ref in refs}
        if all(isinstance(kind, Ordinal) for kind in kinds.values()) and len({kind.levels for kind in kinds.values()}) == 1:
            kinds = {ref: Continuous(0, max(len(kind.levels) - 1, 1)) for ref, kind in kinds.items()}  # codes are in order
        way, strict = 1 if rule.op[0] == "<" else -1, len(rule.op) == 1
        try:
            low, high = refs[::way]
            Inequality(low, high, strict)._check(kinds, {})
        except ValueError as error:
            got = short_repr(f"{rule.left} {rule.op} {rule.right}")
            raise ValueError(f"Compared must be between numbers, times or the same ordinal levels, got {got}: {error}") from None
        link, mine = self.links.get(table), refs[at]
        # The other time of a row of a history is moved alike, so that its rows stay in order.
        history = [] if link is None or link.order is None else [(table, name) for name in (link.order, link.until) if name is not None]
        moved = tuple(history) if mine in history else (mine,)
        if mine in history and codes:
            raise ValueError(f"where must be None beside a time of a history, got {short_repr(rule.where)}; leave it out.")
        kinds |= {ref: self.kinds[ref] for ref in moved if ref not in kinds}
        axes = {ref: axis_of(kind, self._dtype(ref)) for ref, kind in kinds.items()}
        edges = tuple((each, high, strict) if low == mine else (low, each, strict) for each in moved)
        moves = Orders(in_order(list(kinds), edges), edges, axes)
        tie = Tie(tuple(kinds), axes, (), moves.only({*refs}.issuperset))
        ends = {ref: ends_of_cells(kind) for ref, kind in kinds.items()}
        self._add(table, RowCheck(tie, {ref: ref for ref in kinds}, ends, codes, moved, moves))

    def _add_ties(self, name: str, schema: Schema) -> None:
        if keys := keys_of(schema.rules, schema):
            raise ValueError(f"rules of linked tables must not be Unique, got one of {list_names(keys[0])}; leave it out.")
        known = {prefix for prefix, _ in self.kinds} & {name, f"{name}.head"}
        places = [(table, prefix) for table in self.schemas for prefix in self._seen(table)[0] if prefix in known]
        for tie in ties_of(schema, schema.rules, self.dtypes.get(name)):
            if used := [each for each in tie.columns if (name, each) not in self.kinds or (name, each) in self.sums]:
                raise ValueError(f"rules of {short_repr(name)} must leave out {list_names(used)}, which is not modeled.")
            ends = {each: ends_of_cells(schema[each]) for each in tie.columns}
            for table, prefix in places:
                self._add(table, RowCheck(tie, {each: (prefix, each) for each in tie.columns}, ends))

    def broken(self, table: str, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        """Return which rows of a table break a rule; of siblings those that come later."""
        return np.logical_or.reduce([check.broken(cells, owner) for check in self.checks[table]])

    def mend(self, table: str, cells: Cells, owner: np.ndarray | None) -> np.ndarray:
        """Move numbers into what is allowed, then try other levels in place of those that a rule names; return which rows break one yet."""
        for check in self.checks[table]:
            if isinstance(check, RowCheck):
                check.mend(cells, np.flatnonzero(check.broken(cells, owner)))
        for check, ref in [(each, ref) for each in self.checks[table] for ref in each.codes if ref[0] == table]:
            of_head = self.heads.get(table, {}).get(ref[1])
            for code in set(range(len(self.kinds[ref].levels))) - {*check.codes[ref], of_head}:
                rows = np.flatnonzero(check.broken(cells, owner))
                before = cells[ref][rows]
                cells[ref][rows] = code
                worse = self.broken(table, cells, owner)[rows]
                cells[ref][rows[worse]] = before[worse]
        return self.broken(table, cells, owner)
