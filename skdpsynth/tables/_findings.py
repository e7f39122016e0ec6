"""What stands out when a table is compared with its schema: for whoever holds the table, and for nobody else."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from skdpsynth.domain import Constant, Continuous, Identifier, Inequality, Text, Times, as_nullable, name_repr
from skdpsynth.frames import family_of, open_source, split_columns
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
from skdpsynth.tables._read_times import is_missing_time, stamps_of, units_of
from skdpsynth.tables._table import check_dtype
from skdpsynth.tables._violations import Violations, count_violations

_WARNING = "Reads the rows unprotected: do not publish."
_NOTES = "Read from the rows, no problems; to adopt a proposal makes it a fact that you state:"
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
_DAMAGED = (
    "they have another number of cells, or a quote that is open at the end, and count as rows of missing cells or not at all; mend them{0}"
    "; if cells hold line breaks, say so in the schema: read={{'multiline': True}}, in YAML read: and below it multiline: true."
)


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
        "decimals", "step" or "whole".
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
    """What stands out when a table is compared with its schema, from `Schema.check`: as secret as the rows.

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
def findings_of(schema: Any, frame: Any) -> Findings:
    """Compare a table with a schema; one that is not in memory, chunk by chunk."""
    findings = _of_columns(schema, frame)
    lacking = {each.column for each in findings if each.problem in ("lacking", "dtype")}
    if not (schema.rules or schema.sources) or lacking:
        return findings
    broken, _ = count_violations(schema, frame, "frame")
    told = tuple(_of_rule(rule, found) for rule, found in broken if found.rows)
    return Findings(findings.n_samples, (*findings.findings, *told), findings.notes)


def _of_rule(rule: Any, found: Violations) -> Finding:
    column, rule = rule if isinstance(rule, tuple) else (rule.columns_named, rule)
    counts = "as if both were equal" if isinstance(rule, Inequality) else "as they are"
    swapped = "; are low and high swapped?" if isinstance(rule, Inequality) and found.share > _MOST_BROKEN else "."
    return Finding(column, "rule", found.rows, found.share, f"breaks {rule!r}; such rows count {counts}, and samples have none{swapped}")


def _of_columns(schema: Any, frame: Any) -> Findings:
    source, looks = open_source(frame, "frame", read=schema.read), {name: _Look(kind) for name, kind in schema.items()}
    kept: dict[Any, Finding] = {}
    n_samples = n_chunks = 0
    for chunk in chain([source.head] * (not source.in_memory), source.chunks()):
        n_rows, found = _of_table(schema, chunk, looks, source, n_samples)
        n_samples, n_chunks = n_samples + n_rows, n_chunks + (n_rows > 0)
        for each in found:
            before = kept.get((each.column, each.problem), replace(each, rows=0))
            kept[each.column, each.problem] = replace(before, rows=before.rows + each.rows)
    # A column that is constant in each of several chunks need not be so in all of them.
    found = [each for each in kept.values() if each.problem != "constant" or n_chunks <= 1]
    if source.is_text and source.n_damaged:
        lines = source.damaged_lines(_MOST_SHOWN)
        more = " and more" * (source.n_damaged > len(lines))
        where = f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}{more})" if lines else ""
        found.insert(0, Finding(tuple(schema), "damaged lines", source.n_damaged, 0.0, _DAMAGED.format(where)))
    found, notes = ([replace(each, share=each.rows / max(n_samples, 1)) for each in part] for part in (found, _notes_of(looks, n_samples)))
    return Findings(n_samples, tuple(found), tuple(notes))


class _Look:
    """What of a column may be proposed: over all chunks, values outside the bounds, cells of `other`, the unit of all others."""

    def __init__(self, kind: Any) -> None:
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

    def notes(self, n_samples: int) -> Iterator[tuple[str, int, str]]:
        """Yield (what, rows, told)."""
        if self.n_other:
            yield "other", self.n_other, f"unlisted cells, which count as {self.kind.other!r}."
        often = [(value, n) for value, n in self.outside.most_common(_MOST_SHOWN) if n >= max(5, _OFTEN * n_samples)]
        if often:
            words = [*self.kind.missing, *(int(value) if value.is_integer() else value for value, _ in often)]
            told = f"the same outside the bounds; if they stand for missing cells, say missing={words}."
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


def _notes_of(looks: dict[Any, _Look], n_samples: int) -> list[Finding]:
    return [Finding(name, what, rows, 0.0, told) for name, look in looks.items() for what, rows, told in look.notes(n_samples)]


def _of_table(schema: Any, frame: Any, looks: dict[Any, _Look], source: Any, start: int) -> tuple[int, list[Finding]]:
    """Compare a table in memory with a schema: return its number of rows, and what stands out but for its share of all."""
    table, raw = split_columns(frame)
    columns = dict(zip(table.columns, zip(raw, table.dtypes, strict=True), strict=True))
    found: list[Finding] = []
    for name, kind in schema.items():
        if name in columns:
            column, dtype = columns[name]
            own = _of_column(name, looks[name], column, dtype, source, start)
            found += (Finding(name, problem, rows, 0.0, told) for problem, rows, told in own)
        elif not isinstance(kind, Identifier):
            found.append(Finding(name, "lacking", 0, 0.0, "the table has no such column."))
    extra = (name for name in columns if name not in schema)
    found += [Finding(name, "not in schema", 0, 0.0, "add it, or drop it from the table.") for name in extra]
    return len(raw[0]) if raw else 0, found


def _of_column(name: Any, look: _Look, column: Any, dtype: str, source: Any, start: int) -> Iterator[tuple[str, int, str]]:
    """Yield (problem, rows, told) of a column; the dtypes of text tell nothing."""
    kind = look.kind
    if isinstance(kind, Text):
        yield "text", 0, "not synthesized; drop it, or say Identifier()."
    if kind.unstated == "open":
        yield "open", 0, "its bounds or levels are not stated."
    if (kind.coded is None and not isinstance(kind, Constant)) or kind.unstated is not None:
        return
    try:
        if not source.is_text:
            check_dtype(name, kind, dtype)
    except TypeError as error:
        yield "dtype", 0, str(error)
        return
    missing = missing_cells(column, source.is_text)
    column = with_points(column, source.decimal) if has_numbers(kind) else column
    if kind.coded is None:
        yield from _of_constant(column, kind, dtype)
        return
    of = _of_numbers if isinstance(kind, Continuous) else partial(_of_times, start=start) if isinstance(kind, Times) else _of_levels
    if kind.missing:
        missing = missing | _stated_missing(column, kind, dtype)
    for problem, rows, told in of(column, look, dtype, missing):
        if problem == "constant" or np.sum(rows):
            yield problem, int(np.sum(rows)), told
    if missing.any() and not kind.nullable:
        yield "missing", int(missing.sum()), f"set nullable=True; else they count as {_stand_in(kind)}."


def _stand_in(kind: Any) -> str:
    return f"{kind.levels[0]!r}, the first level" if hasattr(kind, "levels") else "the midpoint"


def _stated_missing(column: Any, kind: Any, dtype: str) -> np.ndarray:
    """Which cells the schema says stand for missing ones."""
    words = {form for form in missing_forms(kind.missing) if isinstance(form, str) or not isinstance(kind, Continuous | Times)}
    found = np.array([cell in words for cell in level_cells(cells_of(column)).tolist()], dtype=bool)
    if isinstance(kind, Continuous):
        found |= is_sentinel(numbers_of(column), kind, dtype)
    return found | is_missing_time(stamps_of(column, kind, dtype), kind) if isinstance(kind, Times) else found


def _of_constant(column: Any, kind: Constant, dtype: str) -> Iterator[tuple]:
    """Count cells that are not the constant; those of times are not read."""
    if family_of(dtype) != "time":
        codes = read_levels(column, kind_out(kind, dtype), dtype, unknown=-1)
        if codes.any():
            yield "other values", np.count_nonzero(codes), f"the column comes back as {kind.value!r} in every row."


def _of_numbers(column: Any, look: _Look, dtype: str, missing: np.ndarray) -> Iterator[tuple]:
    kind, x = look.kind, numbers_of(column)
    x[missing] = np.nan
    told = "they count as missing; if they should not, mend them, or state decimal and thousands in read (1,5 and 1 000 are no numbers)."
    yield "no number", np.isnan(x) & ~missing, told
    # Floats of 32 bits meet a bound in the nearest one, which may lie just beyond it.
    outside = ((x < kind.low) & (x != np.float32(kind.low))) | ((x > kind.high) & (x != np.float32(kind.high)))
    look.at_numbers(x, outside)
    yield "clipped", outside, f"outside the bounds ({kind.low}, {kind.high})."
    if kind.integer:
        yield "not whole", ~np.isnan(x) & (x != np.rint(x)), "they are rounded; set integer=False if they should not be."
    yield from _constant(x[~np.isnan(x)])


def _of_times(column: Any, look: _Look, dtype: str, missing: np.ndarray, start: int) -> Iterator[tuple]:
    kind = look.kind
    stamps = stamps_of(column, kind, dtype)
    known, units = ~np.isnat(stamps) & ~missing, units_of(stamps, kind)
    unread = ~known & ~missing
    if unread.any():
        yield "no time", unread, _of_no_time(column, kind, dtype, unread, start)
    low, high = kind.bounds_in_files()
    yield "clipped", known & ((units < 0) | (units > kind.coded.high)), f"outside the bounds ({low}, {high})."
    yield from _constant(units[known])


def _of_no_time(column: Any, kind: Times, dtype: str, unread: np.ndarray, start: int) -> str:
    """Say which rows have no time, and in which other form more would have one."""
    rows = np.flatnonzero(unread)
    cells = cells_of(column)
    shown = ", ".join(f"{cells[row]!r} in row {start + row}" for row in rows[:_MOST_SHOWN]) + " and others" * (len(rows) > _MOST_SHOWN)
    forms = [kind]
    for form in _FORMS[kind.family]:
        with suppress(ValueError):  # of bounds that are equal in this form
            forms.append(replace(kind, format=form))
    # An integer dtype is read by forms of digits alone.
    forms = [form for form in forms if family_of(dtype) != "number" or (form.form is not None and form.form.width)]
    counts = [int(np.count_nonzero(~np.isnat(stamps_of(column, form, dtype)))) for form in forms]
    best = [form.format for form, count in zip(forms, counts, strict=True) if count == max(counts) and count > len(cells) - len(rows)]
    way = "write them in ISO format, such as 2024-01-31" if kind.form is None and kind.family == "time" else "write them in their form"
    if best:
        way = f"more are times by format={' or '.join(map(repr, best[:2]))} (read from rows: state it only if it is a fact about the table)"
    return f"{shown} count as missing; {way}."


def _of_levels(column: Any, look: _Look, dtype: str, missing: np.ndarray) -> Iterator[tuple]:
    kind = look.kind
    codes = read_levels(column, as_nullable(kind), dtype, unknown=-1)
    cells = cells_of(column)
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
        told = f"{few}: they count as {place}; other=... names a level for them."
        yield "unknown levels", sum(counts[cell] for cell in far), told
    if not far and not near:
        yield from _constant(codes[(codes >= 0) & (codes < len(kind.levels))])


def _constant(values: np.ndarray) -> Iterator[tuple]:
    if len(values) and values.min() == values.max():
        yield "constant", 0, "all cells that are not missing are equal, so it may be stated: Constant(value)."


def _plain(level: Any) -> str:
    """Return a level without what people overlook: case, spaces at the ends or doubled, and that it is a number."""
    text = " ".join(str(level).split()).casefold()
    try:
        return repr(float(text))
    except ValueError:
        return text
