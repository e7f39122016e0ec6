"""Counts inside DuckDB, by SQL for the codes of columns: comparisons alone, so each is the code that a reader of rows finds."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

_MORE = 8  # cuts beside those of a rule
_NEAR = 2.0**-20  # steps within which of a cut a number is compared with it
_MOST_WHOLE = 2**53  # whole numbers up to it are floats
_IN_LINE = 64  # cases that are tried one after the other
_CUTS_IN_LINE = 4  # ... of cuts, where half of them are left out by one comparison
_MOST_CASES = 1 << 12
_DAY = 86_400_000_000  # microseconds
_TYPES = (("UTINYINT", 1 << 8), ("USMALLINT", 1 << 16), ("UINTEGER", 1 << 32), ("UBIGINT", 1 << 64))

_AT_ONCE = 64  # tables counted by one statement
_MOST_CELLS = 1 << 13  # of a table that is counted in place of several: in the cache
_PERFECT_BITS = 12  # of all codes of a table up to which DuckDB needs no hash


@dataclass(frozen=True)
class Clock:
    """Map of dates or times to numbers: whole units since the lower bound."""

    first: int  # the bounds, in units since 1970
    last: int
    microseconds: int  # of a unit
    is_date: bool  # whether the column holds dates, not times to the microsecond


@dataclass(frozen=True, eq=False)
class Cuts:
    """Classes of a column of numbers: first all that is missing, then the numbers that are at least as large as 0, 1, ... of some cuts."""

    cuts: np.ndarray  # floats in ascending order, shape (n_classes - 2,)
    low: float  # bounds, between which most cuts may lie evenly
    high: float
    clock: Clock | None = None  # of dates and times
    is_whole: bool = False  # whether the column can hold no other than whole numbers, none of which is NaN

    @property
    def cells(self) -> np.ndarray:
        if self.clock is None:
            return np.concatenate([[np.nan, -np.inf], self.cuts])
        units = np.concatenate([[-1], np.ceil(self.cuts).astype(np.int64)]) + self.clock.first
        return np.append(np.datetime64("NaT", "us"), (units * self.clock.microseconds).view("datetime64[us]"))


@dataclass(frozen=True, eq=False)
class Values:
    """Classes of any column: first all that is none of some values, then each of those."""

    values: tuple[Any, ...]  # distinct, of the type of the column

    @property
    def cells(self) -> np.ndarray:
        cells = np.empty(len(self.values) + 1, dtype=object)
        cells[:] = [None, *self.values]
        return cells


Classes = Cuts | Values


@dataclass(frozen=True)
class WholeCuts:
    """Cuts at which the nearest whole number reaches the terms of a progression, or one of a few other numbers."""

    start: int  # of the progression: start, start + width, ... up to the last of all
    width: int
    more: tuple[int, ...]  # those that are not of it
    first: int  # of all
    last: int
    of_whole: bool = False  # whether the numbers are whole before they are rounded

    @classmethod
    def of(cls, classes: Cuts) -> "WholeCuts | None":
        """Return what cuts are; None if they are not such cuts."""
        whole = np.ceil(classes.cuts)
        halves = whole - 0.5
        reached = np.where(np.rint(halves) >= whole, halves, np.nextafter(halves, np.inf))
        if np.abs(whole).max() > _MOST_WHOLE or not np.array_equal(reached, classes.cuts):
            return None
        numbers = whole.astype(np.int64)
        width = int(np.median(np.diff(numbers)))
        rests, counts = np.unique(numbers % width, return_counts=True)
        regular = numbers % width == rests[np.argmax(counts)]
        terms, more = numbers[regular], numbers[~regular]
        if len(more) > _MORE or not np.array_equal(terms, np.arange(terms[0], numbers[-1] + 1, width)):
            return None
        return cls(int(terms[0]), width, tuple(more.tolist()), int(numbers[0]), int(numbers[-1]), classes.is_whole)

    def n_below(self, x: str) -> str:
        """Write the number of cuts up to x, which is rounded half to even by operations that are exact, or far from a half."""
        number = f"least(greatest({x}, {float_literal(self.first - 1)}), {float_literal(self.last)})"
        whole = f"CAST({number} AS BIGINT)"
        if not self.of_whole:
            floor = f"CAST(floor({number}) AS BIGINT)"
            rest = f"({number} - floor({number}))"
            whole = f"({floor} + CASE WHEN {rest} > 0.5 OR ({rest} = 0.5 AND {floor} % 2 <> 0) THEN 1 ELSE 0 END)"
        index = f"greatest(0, ({whole} - {self.start} + {self.width}) // {self.width})"
        return f"({' + '.join([index, *(f'CAST({whole} >= {more} AS BIGINT)' for more in self.more)])})"


@dataclass(frozen=True)
class EvenCuts:
    """Cuts at ``low + (high - low) * (k * step)`` for k = 1, ..., n - 1 with ``step = 1 / n``, and a few others."""

    low: float
    high: float
    n_steps: int
    more: tuple[float, ...] = ()  # those that are not of the rule
    near: float = _NEAR  # part of a step beyond which of a cut rounding cannot matter

    @classmethod
    def of(cls, classes: Cuts) -> "EvenCuts | None":
        """Return what cuts are; None if they are not such cuts."""
        for n_more in range(min(_MORE, len(classes.cuts) - 1)):
            n_steps = len(classes.cuts) - n_more + 1
            rule = cls(classes.low, classes.high, n_steps)
            even = rule._edge(np.arange(1, n_steps))
            if np.isin(even, classes.cuts).all():
                near = next((near for near in (_NEAR, 0.5) if replace(rule, near=near)._is_exact(even)), None)
                return None if near is None else replace(rule, near=near, more=tuple(np.setdiff1d(classes.cuts, even).tolist()))
        return None

    def _edge(self, k: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * (k * (1.0 / self.n_steps))

    def _is_exact(self, even: np.ndarray) -> bool:
        """Whether a first guess is right far from cuts, and at most one off near them.

        Steps do not fall as x grows. So if those of each cut, and of the float below it, are near its number, steps that are far from all
        numbers lie between those of the two cuts around x.
        """
        k, x = np.tile(np.arange(1, self.n_steps), 2), np.concatenate([even, np.nextafter(even, -np.inf)])
        steps = (x - self.low) * self._scale
        guess = np.floor(steps)
        right = np.clip(guess + (x >= self._edge(guess + 1)) - (x < self._edge(guess)), 0, self.n_steps - 1)
        return bool(np.all(np.abs(steps - k) < self.near) and np.array_equal(right, np.searchsorted(even, x, side="right")))

    @property
    def _scale(self) -> float:
        return float(min(self.n_steps / (self.high - self.low), np.finfo(float).max))

    def steps(self, x: str) -> str:
        low, high, scale = map(float_literal, (self.low, self.high, self._scale))
        return f"(least(greatest({x}, {low}), {high}) - {low}) * {scale}"

    def n_below(self, x: str, steps: str, floor: str) -> str:
        """Write the number of cuts up to x: the floor of its steps, put right by the cuts beside it where x is near one."""
        low, width, step = map(float_literal, (self.low, self.high - self.low, 1.0 / self.n_steps))
        cut = f"({low} + {width} * (({floor} + {{}}) * {step}))"
        right = f"{floor} + CAST({x} >= {cut.format(float_literal(1))} AS DOUBLE) - CAST({x} < {cut.format(float_literal(0))} AS DOUBLE)"
        right = f"greatest(least({right}, {float_literal(self.n_steps - 1)}), {float_literal(0)})"
        is_far = f"abs({steps} - {floor} - {float_literal(0.5)}) < {float_literal(0.5 - self.near)}"
        whole = f"CAST(CASE WHEN {is_far} THEN {floor} ELSE {right} END AS UINTEGER)"
        return f"({' + '.join([whole, *(f'CAST({x} >= {float_literal(cut)} AS UINTEGER)' for cut in self.more)])})"


def float_literal(number: float) -> str:
    """Write a float so that the same is read: a literal with a point would be a decimal number."""
    return f"CAST('{float(number)!r}' AS DOUBLE)"


@dataclass(frozen=True)
class Query:
    """Expressions, and what they are to be selected from."""

    items: tuple[str, ...]
    source: str

    def select(self, prefix: str) -> str:
        return f"SELECT {', '.join(f'{item} AS {prefix}{i}' for i, item in enumerate(self.items))} FROM {self.source}"


def can_be_written(classes: Classes) -> bool:
    """Whether the SQL for a column is of a reasonable length: values, and cuts without a rule, are compared with one by one."""
    if isinstance(classes, Cuts):
        return len(classes.cuts) <= _MOST_CASES or _rule_of(classes) is not None
    return len(classes.values) <= _MOST_CASES


def codes_of_cells(table: str, names: Sequence[str | None], classes: Sequence[Classes | None], codes: Sequence[np.ndarray]) -> Query:
    """Write the codes, from 0, of raw cells by the class of each; a column without a name has one code throughout."""
    raw, steps, floors, items = [], [], [], []
    for place, (name, each, to) in enumerate(zip(names, classes, codes, strict=True)):
        if each is None or np.all(to == to[0]):
            items.append(str(to[0]))
            continue
        cell, quoted = f"x{place}", '"' + str(name).replace('"', '""') + '"'
        if isinstance(each, Cuts):
            number = f"CAST({quoted} AS DOUBLE)"
            if each.clock is not None:
                number = _time(quoted, each.clock)
            elif not each.is_whole:
                number = f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END"
            raw.append(f"{number} AS {cell}")
            rule = _rule_of(each, to[1:])
            if isinstance(rule, EvenCuts):
                # Selected one from the other, so that each is computed once.
                steps.append(f"{rule.steps(cell)} AS s{place}")
                floors.append(f"floor(s{place}) AS f{place}")
                code = _element(rule.n_below(cell, f"s{place}", f"f{place}"), to[1:])
            elif rule is None:
                changes = np.flatnonzero(np.diff(to[1:]))
                code = _steps(cell, list(map(float_literal, each.cuts[changes])), to[1:][[0, *(changes + 1)]])
            else:
                code = _element(rule.n_below(cell), to[1:])
            items.append(f"CASE WHEN {cell} IS NULL THEN {to[0]} ELSE {code} END")
        else:
            raw.append(f"{quoted} AS {cell}")
            items.append(_code_of_value(cell, each.values, to[1:], int(to[0])))
    typed = tuple(cast(item, int(to.max()) + 1) for item, to in zip(items, codes, strict=True))
    source = f"(SELECT {', '.join(raw) or '1'} FROM {table})"
    for layer in filter(None, (steps, floors)):
        source = f"(SELECT *, {', '.join(layer)} FROM {source})"
    return Query(typed, source)


def recode(table: str, names: Sequence[str | None], codes: Sequence[np.ndarray]) -> Query:
    """Write codes that follow from those of columns in a table: the new code of each old one, from 0; of no column, one code."""
    items = []
    for name, to in zip(names, codes, strict=True):
        if np.all(to == to[0]):
            item = str(to[0])
        elif np.array_equal(to, np.arange(len(to))):
            item = str(name)
        else:
            changes = np.flatnonzero(np.diff(to)) + 1
            item = _steps(str(name), list(map(str, changes)), to[[0, *changes]])
        items.append(cast(item, int(to.max()) + 1))
    return Query(tuple(items), table)


def cast(code: str, n_values: int) -> str:
    """Write an expression as the smallest type of whole numbers from 0 that has so many values."""
    return f"CAST({code} AS {next(name for name, most in _TYPES if n_values <= most)})"


def _time(column: str, clock: Clock) -> str:
    """Write the whole units of a date or time since the lower bound, as a float; outside the bounds the nearest unit but one will do."""
    size, raw = clock.microseconds, f"epoch_us({column})"
    low, high = (clock.first - 1) * size, (clock.last + 1) * size
    if clock.is_date:
        # Days first: microseconds of a far date are more than 64 bits hold.
        days = f"least(greatest(CAST({column} - DATE '1970-01-01' AS BIGINT), {low // _DAY - 1}), {high // _DAY + 2})"
        raw = f"{days} * {_DAY}"
    since = f"CAST((least(greatest({raw}, {low}), {high}) - {low}) // {size} - 1 AS DOUBLE)"
    end = f"CASE WHEN {column} > DATE '1970-01-01' THEN {float_literal(np.inf)} ELSE {float_literal(-np.inf)} END"
    return f"CASE WHEN {column} IS NULL THEN NULL WHEN isfinite({column}) THEN {since} ELSE {end} END"


def _rule_of(classes: Cuts, codes: np.ndarray | None = None) -> WholeCuts | EvenCuts | None:
    """Return the rule of cuts; None if they have none, or codes change at so few that they are compared with."""
    if codes is not None and np.count_nonzero(np.diff(codes)) <= _IN_LINE:
        return None
    return WholeCuts.of(classes) or EvenCuts.of(classes)


def _steps(cell: str, cuts: Sequence[str], codes: np.ndarray) -> str:
    """Write the code of a number by the first cut that is above it."""
    if len(cuts) > _CUTS_IN_LINE:
        middle = len(cuts) // 2
        halves = _steps(cell, cuts[:middle], codes[: middle + 1]), _steps(cell, cuts[middle + 1 :], codes[middle + 1 :])
        return f"CASE WHEN {cell} < {cuts[middle]} THEN {halves[0]} ELSE {halves[1]} END"
    return f"CASE {' '.join(f'WHEN {cell} < {cut} THEN {code}' for cut, code in zip(cuts, codes, strict=False))} ELSE {codes[-1]} END"


def _code_of_value(cell: str, values: Sequence[Any], codes: np.ndarray, other: int) -> str:
    if isinstance(values[0], str):
        # Byte by byte: a comparison of texts might go by a collation of the database.
        cell = f"CAST({cell} AS VARCHAR)"
        if len(values) <= _IN_LINE:
            names = ", ".join(map(_text, values))
            return f"coalesce({_element(f'enum_code(TRY_CAST({cell} AS ENUM({names})))', codes)}, {other})"
        cases = sorted(zip(values, codes.tolist(), strict=True), key=lambda case: case[0].encode())
        return _search(f"encode({cell})", [(f"encode({_text(value)})", code) for value, code in cases], other)
    if type(values[0]) is float:
        cell = f"CAST({cell} AS DOUBLE)"
    cases = sorted(zip(values, codes.tolist(), strict=True))
    return _search(cell, [(float_literal(value) if type(value) is float else str(value), code) for value, code in cases], other)


def _element(index: str, codes: np.ndarray) -> str:
    """Write the code at an index, which may be NULL."""
    if np.array_equal(codes, np.arange(len(codes)) + codes[0]):
        return f"{index} + {codes[0]}"
    # A list as one text is parsed faster than as many numbers.
    return f"list_extract(CAST(string_split('{','.join(map(repr, codes.tolist()))}', ',') AS UINTEGER[]), {index} + 1)"


def _search(cell: str, cases: Sequence[tuple[str, int]], other: int) -> str:
    """Write which of some values in ascending order a cell equals, by halving where there are many."""
    if len(cases) > _IN_LINE:
        middle = len(cases) // 2
        halves = (_search(cell, part, other) for part in (cases[:middle], cases[middle:]))
        return f"CASE WHEN {cell} < {cases[middle][0]} THEN {next(halves)} ELSE {next(halves)} END"
    return f"CASE {' '.join(f'WHEN {cell} = {value} THEN {code}' for value, code in cases)} ELSE {other} END"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


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
        while self._made:
            self.drop(self._made.popitem()[1][1])

    def n_rows(self, name: str | None = None) -> int:
        return int(self._fetch(f"SELECT count(*) AS n FROM {name or self.rows}")["n"][0])

    def drop(self, name: str) -> None:
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
