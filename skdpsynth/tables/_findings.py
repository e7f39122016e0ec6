"""What stands out when a table is compared with its schema: for whoever holds the table, and for nobody else."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Identifier, Inequality, Text, Times, as_nullable, name_repr
from skdpsynth.frames import MISSING_WORDS, family_of, open_source, split_columns
from skdpsynth.tables._conditions import is_missing
from skdpsynth.tables._read import numbers_of, read_column
from skdpsynth.tables._read_times import parse_times, stamps_of, units_of
from skdpsynth.tables._table import check_dtype
from skdpsynth.tables._violations import Violations, count_violations

_WARNING = "Reads the rows unprotected: do not publish."
_MOST_SHOWN = 5
_MOST_BROKEN = 0.5  # of the rows: more say that a rule is the wrong way round
_DAMAGED = (
    "they have another number of cells, or a quote that is open at the end, and count as rows of missing cells or not at all; mend them, "
    "or, if cells hold line breaks, say so in the schema: read={'multiline': True}, in YAML read: and below it multiline: true."
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
        "no number", "no time", "lacking", "not in schema", "open", "private", "rule".
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


class Findings:
    """What stands out when a table is compared with its schema, from `Schema.check`: as secret as the rows.

    Attributes
    ----------
    n_samples : int
    findings : tuple of Finding
        With column, problem, rows, share and told.

    See Also
    --------
    Schema.check : Makes it.
    Schema.skeleton : A schema to fill in.
    """

    def __init__(self, n_samples: int, findings: tuple[Finding, ...]) -> None:
        self.n_samples = n_samples
        self.findings = findings

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __repr__(self) -> str:
        lines = [f"{_WARNING} {self.n_samples} rows, {len(self)} finding{'s' * (len(self) != 1)}."]
        for each in self:
            rows = f" ({each.rows} of {self.n_samples} rows)" if each.rows else ""
            about = "" if each.problem == "damaged lines" else f"{name_repr(each.column)}: "
            lines.append(f"  {about}{each.problem}{rows}: {each.told}")
        return "\n".join(lines)

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
    return Findings(findings.n_samples, (*findings.findings, *told))


def _of_rule(rule: Any, found: Violations) -> Finding:
    column, rule = rule if isinstance(rule, tuple) else (rule.columns_named, rule)
    counts = "as if both were equal" if isinstance(rule, Inequality) else "as they are"
    swapped = "; are low and high swapped?" if isinstance(rule, Inequality) and found.share > _MOST_BROKEN else "."
    return Finding(column, "rule", found.rows, found.share, f"breaks {rule!r}; such rows count {counts}, and samples have none{swapped}")


def _of_columns(schema: Any, frame: Any) -> Findings:
    source = open_source(frame, "frame", read=schema.read)
    if source.in_memory:
        return _of_table(schema, frame)
    parts = [_of_table(schema, chunk, source.is_text) for chunk in source.chunks()] or [_of_table(schema, source.head)]
    n_samples = sum(part.n_samples for part in parts)
    kept: dict[Any, Finding] = {}
    for part in parts:
        for each in part:
            before = kept.get((each.column, each.problem))
            rows = each.rows + (before.rows if before else 0)
            kept[each.column, each.problem] = replace(before or each, rows=rows, share=rows / max(n_samples, 1))
    # A column that is constant in each of several chunks need not be so in all of them.
    found = tuple(each for each in kept.values() if each.problem != "constant" or len(parts) == 1)
    n_damaged = source.n_damaged if source.is_text else 0
    damaged = (Finding(tuple(schema), "damaged lines", n_damaged, n_damaged / max(n_samples, 1), _DAMAGED),) * bool(n_damaged)
    return Findings(n_samples, (*damaged, *found))


def _of_table(schema: Any, frame: Any, is_text: bool = False) -> Findings:
    """Compare a table in memory with a schema; the dtypes of text that was read by the schema tell nothing."""
    table, raw = split_columns(frame)
    n_samples = len(raw[0]) if raw else 0
    columns = dict(zip(table.columns, zip(raw, table.dtypes, strict=True), strict=True))
    found: list[Finding] = []
    for name, kind in schema.items():
        if name in columns:
            found += _of_column(name, kind, *columns[name], is_text=is_text)
        elif not isinstance(kind, Identifier):
            found.append(Finding(name, "lacking", 0, 0.0, "the table has no such column."))
    extra = (name for name in columns if name not in schema)
    found += [Finding(name, "not in schema", 0, 0.0, "add it, or drop it from the table.") for name in extra]
    return Findings(n_samples, tuple(found))


def _of_column(name: Any, kind: Any, column: Any, dtype: str, *, is_text: bool) -> Iterator[Finding]:
    if isinstance(kind, Text):
        yield Finding(name, "text", 0, 0.0, "not synthesized; drop it, or say Identifier().")
    if kind.unstated is not None:
        yield Finding(name, kind.unstated, 0, 0.0, "its bounds or levels are not stated.")
    if kind.coded is None or kind.unstated is not None:
        return
    try:
        if not is_text:
            check_dtype(name, kind, dtype)
    except TypeError as error:
        yield Finding(name, "dtype", 0, 0.0, str(error))
        return
    of = _of_numbers if isinstance(kind, Continuous) else _of_times if isinstance(kind, Times) else _of_levels
    missing = missing_cells(column, is_text)
    for problem, rows, told in of(column, kind, dtype, missing):
        count = int(np.count_nonzero(rows)) if isinstance(rows, np.ndarray) else 0
        if count or not isinstance(rows, np.ndarray):
            yield Finding(name, problem, count, count / max(len(missing), 1), told)
    if missing.any() and not kind.nullable:
        count = int(missing.sum())
        yield Finding(name, "missing", count, count / len(missing), f"set nullable=True; else they count as {_stand_in(kind)}.")


def _stand_in(kind: Any) -> str:
    return f"{kind.levels[0]!r}, the first level" if hasattr(kind, "levels") else "the midpoint"


def missing_cells(column: Any, is_text: bool = False) -> np.ndarray:
    """Which cells a library takes as missing; of a text file, words."""
    if is_text:
        return np.isin(column.to_numpy().astype(object), MISSING_WORDS)
    if hasattr(column, "isna"):
        return column.isna().to_numpy()
    cells = column.to_numpy() if hasattr(column, "is_null") else column
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind in "mM":
        return np.isnat(cells)
    if hasattr(column, "is_null"):
        return column.is_null().to_numpy()
    return np.fromiter(map(is_missing, cells.tolist()), dtype=bool, count=len(cells))


def _of_numbers(column: Any, kind: Continuous, dtype: str, missing: np.ndarray) -> Iterator[tuple]:
    x = numbers_of(column)
    yield "no number", np.isnan(x) & ~missing, "they count as missing; mend them if they should not (1,5 and 1 000 are no numbers)."
    # Floats of 32 bits meet a bound in the nearest one, which may lie just beyond it.
    outside = ((x < kind.low) & (x != np.float32(kind.low))) | ((x > kind.high) & (x != np.float32(kind.high)))
    yield "clipped", outside, f"outside the bounds ({kind.low}, {kind.high})."
    if kind.integer:
        yield "not whole", ~np.isnan(x) & (x != np.rint(x)), "they are rounded; set integer=False if they should not be."
    yield from _constant(x[~np.isnan(x)])


def _of_times(column: Any, kind: Times, dtype: str, missing: np.ndarray) -> Iterator[tuple]:
    stamps = stamps_of(column) if family_of(dtype) == "time" else parse_times(column, kind)
    known, units = ~np.isnat(stamps), units_of(stamps, kind)
    yield "no time", ~known & ~missing, "they count as missing; write them in ISO format, such as 2024-01-31."
    low, high = kind.bounds_in_files()
    yield "clipped", known & ((units < 0) | (units > kind.coded.high)), f"outside the bounds ({low}, {high})."
    yield from _constant(units[known])


def _of_levels(column: Any, kind: Any, dtype: str, missing: np.ndarray) -> Iterator[tuple]:
    codes = read_column(column, as_nullable(kind), dtype)
    unknown = (codes == len(kind.levels)) & ~missing
    cells = column.to_list() if hasattr(column, "to_list") else column.tolist()
    counts: dict[str, int] = {}
    for cell in (cells[i] for i in np.flatnonzero(unknown)):
        counts[str(cell)] = counts.get(str(cell), 0) + 1
    plain = {_plain(level): level for level in kind.levels}
    near = {cell: plain[_plain(cell)] for cell in counts if _plain(cell) in plain}
    far = sorted((cell for cell in counts if cell not in near), key=lambda cell: -counts[cell])
    place = "missing" if kind.nullable else _stand_in(kind)
    if near:
        pairs = ", ".join(f"{cell!r} against {level!r}" for cell, level in list(near.items())[:_MOST_SHOWN])
        rows = np.zeros(len(missing), dtype=bool)
        rows[: sum(counts[cell] for cell in near)] = True
        yield "near miss", rows, f"{pairs} in schema; they count as {place}."
    if far:
        rows = np.zeros(len(missing), dtype=bool)
        rows[: sum(counts[cell] for cell in far)] = True
        more = f" and {len(far) - _MOST_SHOWN} more" if len(far) > _MOST_SHOWN else ""
        yield "unknown levels", rows, f"{', '.join(map(repr, far[:_MOST_SHOWN]))}{more}: they count as {place}."
    yield from _constant(codes[codes < len(kind.levels)])


def _constant(values: np.ndarray) -> Iterator[tuple]:
    if len(values) and values.min() == values.max():
        yield "constant", None, "all cells that are not missing are equal, so a synthetic column may as well be written down."


def _plain(level: Any) -> str:
    """Return a level without what people overlook: case, spaces at the ends or doubled, and that it is a number."""
    text = " ".join(str(level).split()).casefold()
    try:
        return repr(float(text))
    except ValueError:
        return text
