"""Differences between a table and its schema, and counts of rows that break its rules: for those who hold the table alone."""

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.domain import (
    ColumnKind,
    Constant,
    Continuous,
    Derived,
    Determines,
    Identifier,
    Inequality,
    Rule,
    Schema,
    Sum,
    Text,
    Times,
    Unique,
    as_nullable,
    axis_of,
    compute_columns,
    inputs_of,
    name_repr,
    ties_of,
    written_kind,
)
from skdpsynth.frames import Cell, Column, Source, Table, open_source, parse_dtype, split_columns
from skdpsynth.tables._cells import (
    cells_of,
    has_numbers,
    is_sentinel,
    kind_out,
    level_cells,
    missing_cells,
    missing_forms,
    numbers_of,
    read_levels,
    with_points,
)
from skdpsynth.tables._open import read_column
from skdpsynth.tables._read_times import is_missing_time, stamps_of, units_of
from skdpsynth.tables._table import check_dtype

_WARNING = "Reads the rows unprotected: do not publish."
_NOTES = "Read from the rows, no problems; if you adopt a proposal, you state it as a public fact:"
_MOST_SHOWN = 5
_LEAST_ROWS = 20  # of which something common is proposed
_OFTEN = 0.005  # of the rows, and at least 5: a value outside the bounds that occurs so often may stand for missing cells
_SCALES = [10**digits for digits in range(7)]  # of decimals that are proposed
_DATES = ("dd/mm/yyyy", "mm/dd/yyyy", "dd.mm.yyyy", "dd-mm-yyyy", "yyyy/mm/dd", "yyyymmdd", "yyyy-mm", "yyyyQq", "%d %b %Y", "%d %B %Y")
_FORMS = {  # that are tried where cells are no times
    "time": (*_DATES, *(f"{date} {time}" for date in _DATES[:5] for time in ("hh:mm", "hh:mm:ss"))),
    "time of day": ("%H%M", "%I:%M %p", "%I:%M:%S %p", "%H.%M"),
    "duration": ("%H:%M", "%H.%M"),
}
_MOST_BROKEN = 0.5  # of the rows: more say that a rule is the wrong way round
_TOLERANCE = 1e-6  # relative, of numbers that were computed: those of 32 bits are rounded
_DAMAGED = (
    "they have another number of cells, or a quote that is open at the end, and count as rows of missing cells or not at all; mend them{0}"
    "; if cells hold line breaks, say so in the schema: read={{'multiline': True}}, in YAML read: and below it multiline: true."
)

Told = Iterator[tuple[str, Any, str]]  # (problem; how many rows, or which, or None: the column; told)


@dataclass(frozen=True)
class Finding:
    """One thing that stands out in a column.

    Attributes
    ----------
    column : column
        Of a rule, the tuple of its columns; of damaged lines, all columns.
    problem : str
        In a word or two: "damaged lines", "clipped", "unknown levels", "missing", "near miss", "constant", "dtype", "not whole",
        "no number", "no time", "lacking", "not in schema", "open", "rule", "other values"; of a note "other", "sentinel",
        "decimals", "step" or "whole"; of keys, see `LinkedSchema.check`.
    rows : int
        How many it concerns; 0 where it concerns none in particular.
    share : float
        Of all rows.
    told : str
        What it is, and what to do about it.
    """

    column: Any
    problem: str
    rows: int
    share: float
    told: str


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """Differences between a table and its schema, from `Schema.check`: as secret as the rows.

    Attributes
    ----------
    n_samples : int
    findings : tuple of Finding
        With column, problem, rows, share and told.
    notes : tuple of Finding
        Proposals that were read from the rows, and how many cells count as `other`: none of them is a problem.

    See Also
    --------
    Schema.check : Makes it.
    Schema.skeleton : A schema to fill in.
    """

    n_samples: int
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        lines = [f"{_WARNING} {self.n_samples} rows, {len(self)} finding{'s' * (len(self) != 1)}."]
        lines += map(self._line, self)
        lines += [_NOTES] * bool(self.notes) + list(map(self._line, self.notes))
        return "\n".join(lines)

    def _line(self, each: Finding) -> str:
        rows = f" ({each.rows} of {self.n_samples} rows)" if each.rows else ""
        about = "" if each.problem == "damaged lines" else f"{name_repr(each.column)}: "
        return f"  {about}{each.problem}{rows}: {each.told}"

    def to_frame(self) -> Any:
        """Return the findings as a data frame of pandas: column, problem, rows, share and told.

        Returns
        -------
        frame : DataFrame
        """
        import pandas as pd

        return pd.DataFrame([astuple(each) for each in self], columns=[each.name for each in fields(Finding)])


@np.errstate(all="ignore")
def findings_of(schema: Schema, frame: Table) -> Findings:
    source, looks = open_source(frame, "frame", read=schema.read), {name: _Look(kind) for name, kind in schema.items()}
    kept: dict[Any, Finding] = {}
    n_samples = n_chunks = 0
    for chunk in itertools.chain([source.head] * (not source.in_memory), source.chunks()):
        table, raw = split_columns(chunk)
        columns = dict(zip(table.columns, zip(raw, table.dtypes, strict=True), strict=True))
        for each in _of_table(looks, columns, source, n_samples):
            before = kept.get((each.column, each.problem), replace(each, rows=0))
            kept[each.column, each.problem] = replace(before, rows=before.rows + each.rows)
        n_rows = len(raw[0]) if raw else 0
        n_samples, n_chunks = n_samples + n_rows, n_chunks + (n_rows > 0)
    # A column that is constant in each of several chunks need not be so in all of them.
    found = [each for each in kept.values() if each.problem != "constant" or n_chunks <= 1]
    if source.is_text and source.n_damaged:
        lines = source.damaged_lines(_MOST_SHOWN) if hasattr(source, "damaged_lines") else []  # rows of sheets have no lines
        more = " and more" * (source.n_damaged > len(lines))
        where = f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more})" if lines else ""
        found.insert(0, Finding(tuple(schema), "damaged lines", source.n_damaged, 0.0, _DAMAGED.format(where)))
    notes = [Finding(name, what, rows, 0.0, told) for name, look in looks.items() for what, rows, told in look.notes(n_samples)]
    found, notes = ([replace(each, share=each.rows / max(n_samples, 1)) for each in part] for part in (found, notes))
    if (schema.rules or schema.sources) and not any(each.problem in ("lacking", "dtype") for each in found):
        for rule, broken in count_violations(schema, frame, "frame")[0]:
            column, rule = rule if isinstance(rule, tuple) else (rule.columns_named, rule)
            is_order = isinstance(rule, Inequality)
            counts = "as if both were equal" if is_order else "as they are"
            swapped = "; are low and high swapped?" if is_order and broken.share > _MOST_BROKEN else "."
            told = f"breaks {rule!r}; such rows count {counts}, and samples have none{swapped}"
            found += [Finding(column, "rule", broken.rows, broken.share, told)] * (broken.rows > 0)
    return Findings(n_samples, tuple(found), tuple(notes))


class _Look:
    """Facts that may be proposed for a column, over all chunks: values outside the bounds, cells of `other`, the unit of all others."""

    def __init__(self, kind: ColumnKind) -> None:
        self.kind, self.outside, self.n_other, self.ends = kind, Counter[float](), 0, (np.inf, -np.inf)
        self.unit: int | None = 0  # of millionths

    def at_numbers(self, x: np.ndarray, outside: np.ndarray) -> None:
        """Count values outside the bounds, and find the largest number of which all others are multiples: None if they have none."""
        values, counts = np.unique(x[outside & np.isfinite(x)], return_counts=True)
        self.outside.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        inside = np.unique(x[~outside & np.isfinite(x)])
        if not len(inside) or self.unit is None:
            return
        self.ends = min(self.ends[0], inside[0]), max(self.ends[1], inside[-1])
        scale = next((each for each in _SCALES if (np.rint(inside * each) / each == inside).all()), None)
        if scale is None or np.abs(inside).max() * scale >= 2.0**53:
            self.unit = None
            return
        self.unit = math.gcd(self.unit, int(np.gcd.reduce(np.rint(inside * scale).astype(np.int64))) * (_SCALES[-1] // scale))

    def notes(self, n_samples: int) -> Told:
        if self.n_other:
            yield "other", self.n_other, f"unlisted cells, which count as {self.kind.other!r}."
        if often := [(value, n) for value, n in self.outside.most_common(_MOST_SHOWN) if n >= max(5, _OFTEN * n_samples)]:
            words = [*self.kind.missing, *(int(value) if value.is_integer() else value for value, _ in often)]
            told = f"these occur often outside the bounds; widen the bounds, or, if they stand for missing cells, say missing={words}."
            yield "sentinel", sum(n for _, n in often), told
        if not self.unit or self.kind.unit is not None or self.ends[0] == self.ends[1] or n_samples < _LEAST_ROWS:
            return
        unit = Fraction(self.unit, _SCALES[-1])
        if unit.numerator > 1 or unit.denominator not in _SCALES:
            step = unit.numerator if unit.denominator == 1 else float(unit)
            yield "step", 0, f"all are multiples of {step}; say step={step} if they must be."
        elif unit.denominator > 1:
            yield "decimals", 0, f"no cell has more; say decimals={_SCALES.index(unit.denominator)} if none may."
        elif not self.kind.integer:
            yield "whole", 0, "all are whole numbers; say integer=True if they must be."


def _of_table(looks: dict[Any, _Look], columns: dict[Any, tuple[Any, str]], source: Source, start: int) -> Iterator[Finding]:
    for name, look in looks.items():
        if name in columns:
            for problem, which, told in _of_column(name, look, *columns[name], source, start):
                if which is None or np.any(which):
                    yield Finding(name, problem, 0 if which is None else int(np.sum(which)), 0.0, told)
        elif not isinstance(look.kind, Identifier):
            yield Finding(name, "lacking", 0, 0.0, "the table has no such column.")
    for name in columns:
        if name not in looks:
            yield Finding(name, "not in schema", 0, 0.0, "add it, or drop it from the table.")


def _of_column(name: Hashable, look: _Look, column: Column, dtype: str, source: Source, start: int) -> Told:
    """Yield what stands out in a column; the dtypes of text tell nothing."""
    kind = look.kind
    if isinstance(kind, Text):
        yield "text", None, "not synthesized; drop it, or say Identifier()."
    if kind.stand_in == "open":
        yield "open", None, "its bounds or levels are not stated."
    if (kind.coded is None and not isinstance(kind, Constant)) or kind.stand_in is not None:
        return
    try:
        if not source.is_text:
            check_dtype(name, kind, dtype)
    except TypeError as error:
        yield "dtype", None, str(error)
        return
    missing = missing_cells(column, source.is_text)
    column = with_points(column, source.decimal) if has_numbers(kind) else column
    if kind.coded is None:
        if parse_dtype(dtype).family != "time":  # constant times are not read
            codes = read_levels(column, kind_out(kind, dtype), dtype, unknown=-1)
            yield "other values", codes != 0, f"the column comes back as {kind.value!r} in every row."
        return
    if kind.missing:
        missing = missing | _stated_missing(column, kind, dtype)
    if isinstance(kind, Continuous):
        yield from _of_numbers(numbers_of(column), look, missing)
    elif isinstance(kind, Times):
        yield from _of_times(column, kind, dtype, missing, start)
    else:
        yield from _of_levels(column, look, dtype, missing)
    if not kind.nullable:
        yield "missing", missing, f"set nullable=True; else they count as {_stand_in(kind)}."


def _stand_in(kind: ColumnKind) -> str:
    return f"{(getattr(kind, 'words', None) or kind.levels)[0]!r}, the first level" if hasattr(kind, "levels") else "the midpoint"


def _stated_missing(column: Column, kind: ColumnKind, dtype: str) -> np.ndarray:
    """Which cells the schema says stand for missing ones."""
    words = {form for form in missing_forms(kind.missing) if isinstance(form, str) or not isinstance(kind, Continuous | Times)}
    found = np.array([cell in words for cell in level_cells(cells_of(column)).tolist()], dtype=bool)
    if isinstance(kind, Continuous):
        found |= is_sentinel(numbers_of(column), kind, dtype)
    return found | is_missing_time(stamps_of(column, kind, dtype), kind) if isinstance(kind, Times) else found


def _of_numbers(x: np.ndarray, look: _Look, missing: np.ndarray) -> Told:
    kind, x[missing] = look.kind, np.nan
    told = "they count as missing; if they should not, mend them, or state decimal and thousands in read (1,5 and 1 000 are no numbers)."
    yield "no number", np.isnan(x) & ~missing, told
    # Floats of 32 bits meet a bound in the nearest one, which may lie just beyond it.
    outside = ((x < kind.low) & (x != np.float32(kind.low))) | ((x > kind.high) & (x != np.float32(kind.high)))
    look.at_numbers(x, outside)
    yield "clipped", outside, f"outside the bounds ({kind.low}, {kind.high})."
    if kind.integer:
        yield "not whole", ~np.isnan(x) & (x != np.rint(x)), "they are rounded; set integer=False if they should not be."
    yield from _constant(x[~np.isnan(x)])


def _of_times(column: Column, kind: Times, dtype: str, missing: np.ndarray, start: int) -> Told:
    stamps = stamps_of(column, kind, dtype)
    known, units = ~np.isnat(stamps) & ~missing, units_of(stamps, kind)
    unread = ~known & ~missing
    if unread.any():
        yield "no time", unread, _of_no_time(column, kind, dtype, unread, start)
    low, high = kind.bounds_in_files()
    yield "clipped", known & ((units < 0) | (units > kind.coded.high)), f"outside the bounds ({low}, {high})."
    yield from _constant(units[known])


def _of_no_time(column: Column, kind: Times, dtype: str, unread: np.ndarray, start: int) -> str:
    """Say which rows have no time, and in which other form more would have one."""
    rows = np.flatnonzero(unread)
    cells = cells_of(column)
    shown = ", ".join(f"{cells[row]!r} in row {start + row}" for row in rows[:_MOST_SHOWN]) + " and others" * (len(rows) > _MOST_SHOWN)
    forms = [kind]
    for form in _FORMS[kind.family]:
        with suppress(ValueError):  # of bounds that are equal in this form
            forms.append(replace(kind, format=form))
    # An integer dtype is read by forms of digits alone.
    is_number = parse_dtype(dtype).family == "number"
    forms = [form for form in forms if not is_number or (form.form is not None and form.form.width)]
    counts = [int(np.count_nonzero(~np.isnat(stamps_of(column, form, dtype)))) for form in forms]
    best = [form.format for form, count in zip(forms, counts, strict=True) if count == max(counts) and count > len(cells) - len(rows)]
    way = "write them in ISO format, such as 2024-01-31" if kind.form is None and kind.family == "time" else "write them in their form"
    if best:
        way = f"more are times by format={' or '.join(map(repr, best[:2]))} (read from rows: state it only if it is a fact about the table)"
    return f"{shown} count as missing; {way}."


def _of_levels(column: Column, look: _Look, dtype: str, missing: np.ndarray) -> Told:
    kind, cells = look.kind, cells_of(column)
    codes = read_levels(column, as_nullable(kind), dtype, unknown=-1)
    counts = Counter(str(cells[row]) for row in np.flatnonzero((codes < 0) & ~missing))
    plain = {_plain(level): level for level in kind.levels}
    near = {cell: plain[_plain(cell)] for cell in counts if _plain(cell) in plain}
    far = sorted((cell for cell in counts if cell not in near), key=lambda cell: -counts[cell])
    place = repr(kind.other) if kind.other is not None else "missing" if kind.nullable else _stand_in(kind)
    look.n_other += sum(counts[cell] for cell in far) if kind.other is not None else 0
    if near:
        pairs = ", ".join(f"{cell!r} against {level!r}" for cell, level in list(near.items())[:_MOST_SHOWN])
        yield "near miss", sum(counts[cell] for cell in near), f"{pairs} in schema; they count as {place}."
    if far and kind.other is None:
        few = ", ".join(map(repr, far[:_MOST_SHOWN])) + f" and {len(far) - _MOST_SHOWN} more" * (len(far) > _MOST_SHOWN)
        yield "unknown levels", sum(counts[cell] for cell in far), f"{few}: they count as {place}; other=... names a level for them."
    if not far and not near:
        yield from _constant(codes[(codes >= 0) & (codes < len(kind.levels))])


def _constant(values: np.ndarray) -> Told:
    if len(values) and values.min() == values.max():
        yield "constant", None, "all cells that are not missing are equal, so it may be stated: Constant(value)."


def _plain(level: Cell) -> str:
    """Return a level without what people overlook: case, spaces at the ends or doubled, and that it is a number."""
    text = " ".join(str(level).split()).casefold()
    try:
        return repr(float(text))
    except ValueError:
        return text


# Rows that break rules


class Violations(NamedTuple):
    """Number of rows that break a rule.

    Attributes
    ----------
    rows : int
    share : float
        Share of all rows; 0 for a table without rows.
    """

    rows: int
    share: float


def count_violations(schema: Schema, X: Table, name: str = "X") -> tuple[list[tuple[Any, Violations]], int]:
    """Return (pairs of a rule or (column, `Derived`) and how many rows break it, the number of rows), of any table, chunk by chunk."""
    rules: list[Any] = [*schema.rules, *((each, kind) for each, kind in schema.items() if isinstance(kind, Derived))]
    columns = [rule.columns_named if isinstance(rule, Rule) else rule[:1] for rule in rules]
    source = open_source(X, name, read=schema.read)
    counts, n_samples = [0] * len(rules), 0
    seen: list[set] = [set() for _ in rules]
    for chunk in source.chunks():
        rows = _CheckedRows(chunk, schema, {each for named in columns for each in named}, name, source.decimal)
        n_samples += rows.n_rows
        for place, rule in enumerate(rules):
            counts[place] += rows.count(rule, seen[place]) if set(columns[place]) <= rows.raw.keys() else 0
    return [(rule, Violations(count, count / max(n_samples, 1))) for rule, count in zip(rules, counts, strict=True)], n_samples


class _CheckedRows:
    """A chunk, with every cell that may be missing."""

    def __init__(self, chunk: Table, schema: Schema, wanted: set, name: str, decimal: str) -> None:
        table, raw = split_columns(chunk)
        self.n_rows, self.decimal = len(raw[0]) if raw else 0, decimal
        self.raw: dict[Any, Any] = dict(zip(table.columns, raw, strict=True))
        self.dtypes = dict(zip(table.columns, table.dtypes, strict=True))
        sources = schema.sources
        wanted = wanted | {each for source in sources.values() for each in inputs_of(source, schema)}
        if absent := [each for each in wanted if each not in self.raw and schema[each].coded is not None]:
            raise ValueError(f"{name} must have the columns that rules of schema name, but lacks {absent[0]!r}; pass the whole table.")
        self.kinds = kinds = {each: as_nullable(kind) for each, kind in schema.items()}
        read = [each for each in wanted if each in self.raw and kinds[each].coded is not None]
        self.values = values = {each: read_column(self.raw[each], kinds[each], self.dtypes[each], decimal_mark=decimal) for each in read}
        # Inputs that are derived themselves are not read but computed first; all others count as they stand, computed or not.
        for each, source in sources.items():
            if isinstance(source, Derived):
                values[each] = compute_columns(kinds, {each: source}, values, self.dtypes)[each]
        self.computed = {each: compute_columns(kinds, {each: source}, values, self.dtypes)[each] for each, source in sources.items()}

    def _missing(self, name: Hashable) -> np.ndarray:
        values, kind = self.values[name], self.kinds[name]
        return values >= len(kind.levels) if hasattr(kind, "levels") else np.isnan(values)

    def _shown_values(self, name: Hashable) -> np.ndarray:
        kind = self.kinds[name]
        return self.values[name] if hasattr(kind, "levels") else axis_of(kind).show(self.values[name])

    def count(self, rule: Rule, seen: set) -> int:
        """Return how many rows break a rule; `seen` are the keys of the rows before."""
        if isinstance(rule, Unique):
            cells: list[list[Hashable]] = [cells_of(self.values.get(name, self.raw[name])) for name in rule.columns]
            before = len(seen)
            seen.update(zip(*cells, strict=True))
            return self.n_rows - (len(seen) - before)
        computed = rule.columns_named[-1] if isinstance(rule, Determines | Sum) else None if isinstance(rule, Rule) else rule[0]
        holds = np.ones(self.n_rows, dtype=bool) if computed is None else self._agrees(computed)
        for tie in ties_of(self.kinds, [rule]) if isinstance(rule, Rule) and not isinstance(rule, Sum) else ():
            holds &= tie.holds(*({name: of(name) for name in tie.columns} for of in (self._shown_values, self._missing)))
        return self.n_rows - int(holds.sum())

    def _agrees(self, name: Hashable) -> np.ndarray:
        """Return where a column has its computed value: numbers up to rounding."""
        computed, kind, dtype = self.computed[name], self.kinds[name], self.dtypes[name]
        if hasattr(kind, "levels"):
            return self.values[name] == computed
        found = self.values[name]
        if isinstance(kind, Derived):
            is_time = kind.gives is not None
            column = self.raw[name]
            found = read_column(column, written_kind(name, kind, self.kinds), dtype) if is_time else numbers_of(column, self.decimal)
        number = parse_dtype(dtype).number
        computed = np.rint(computed) if number is not None and number.kind in "iub" else computed
        with np.errstate(invalid="ignore"):
            near = np.abs(found - computed) <= _TOLERANCE * (1 + np.maximum(np.abs(found), np.abs(computed)))
        return near | (np.isnan(found) & np.isnan(computed))
