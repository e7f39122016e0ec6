"""Rows completed: what is missing is deduced, drawn from the model, or computed, so that the rules of the schema hold."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from skdpsynth.domain import Spans, keys_of, ties_of
from skdpsynth.models._conditional_sampling import sample_missing
from skdpsynth.models._impute_keys import fill_keys
from skdpsynth.models._joint_distribution import JointDistribution
from skdpsynth.tables import Evidence, with_all

_TRIES = 4  # draws of rows whose computed columns are there and not met
Columns = dict[Any, np.ndarray]


def impute_table(
    law: JointDistribution,
    schema: Any,
    dtypes: Mapping[Any, str],
    values: Mapping[Any, np.ndarray],
    missing: Mapping[Any, np.ndarray],
    spans: Spans,
    rng: np.random.Generator,
) -> Columns:
    """Return columns with their missing cells filled; others are never changed, also where they break rules.

    Parameters
    ----------
    law : RowLaw
    schema : Schema
        Of the whole table.
    dtypes : dict of column to str
        In which cells are written.
    values : dict of column to ndarray of shape (n_rows,)
        As `skdpsynth.domain.read` gives them, computed columns as well.
    missing : dict of column to ndarray of bool
    spans : Spans
        What the law has in place of some columns.
    rng : numpy.random.Generator
    """
    present = {name: ~gone for name, gone in missing.items()}
    if not len(next(iter(values.values()))):
        return dict(values)
    completing = _TableImputer(law, schema, dtypes, spans, rng)
    evidence = Evidence(schema, values, present, dtypes)
    out = completing.drawn(evidence)
    if schema.sources:
        completing.redraw_levels(evidence, out)
        completing.redraw_parts(evidence, out)
    for names in keys_of(law.schema.rules, law.schema.whole):
        fill_keys(names, law.schema, out, {name: ~evidence.known[name] for name in names}, rng)
    return with_all(evidence, out, evidence.known).values


class _TableImputer:
    def __init__(self, law: JointDistribution, schema: Any, dtypes: Mapping[Any, str], spans: Spans, rng: np.random.Generator) -> None:
        self.law, self.schema, self.dtypes, self.spans, self.rng = law, schema, dtypes, spans, rng
        self.names = list(law.schema)
        self.patterns: dict = {}
        self.ties = ties_of(schema, law.schema.rules, dtypes)

    def drawn(self, evidence: Evidence) -> Columns:
        """Return the columns that mechanisms see, filled."""
        given, known = ({name: each[name] for name in self.names} for each in (evidence.values, evidence.known))
        values, known_here = self.spans.encode_known(given, known) if self.spans else ([*given.values()], [*known.values()])
        out = [column.copy() for column in values]
        for rows, wanted in evidence.wanted():
            made = sample_missing(
                self._conditional_law(wanted),
                [column[rows] for column in values],
                [~flag[rows] for flag in known_here],
                self.rng,
                self.ties,
                self.patterns,
            )
            for column, new in zip(out, made, strict=True):
                column[rows] = new
        return self.spans.decode_known(out, given, known) if self.spans else dict(zip(self.names, out, strict=True))

    def _conditional_law(self, wanted: Mapping[Any, Any]) -> JointDistribution:
        """Return the law on a condition; as it is, where that has no probability."""
        conditional, probability = self.law.given(wanted) if wanted else (self.law, 1.0)
        if not probability:
            return self.law
        mixtures = zip(conditional.mixtures, self.law.mixtures, strict=True)
        return replace(conditional, mixtures=tuple(own or other for own, other in mixtures))

    def _again(self, evidence: Evidence, rows: np.ndarray, out: Columns, *held: Any) -> tuple[Evidence, Columns]:
        """Draw some rows again; of some columns cells count as known as they have come out."""
        values = {name: column[rows] for name, column in {**evidence.values, **out}.items()}
        known = {name: flag[rows] | (name in held) for name, flag in evidence.known.items()}
        fresh = Evidence(self.schema, values, known, self.dtypes)
        return fresh, self.drawn(fresh)

    def redraw_levels(self, evidence: Evidence, out: Columns) -> None:
        """Draw rows again whose levels do not have the value by `Determines` that is there; at last one level after the other."""
        for attempt in range(_TRIES + 1):
            rows = np.flatnonzero(evidence.disagreeing(out, are_sums=False))
            if not len(rows):
                return
            held = [] if attempt < _TRIES else self._determining_columns(evidence, rows)
            _write_rows(out, rows, self._again(evidence, rows, out, *held)[1])

    def _determining_columns(self, evidence: Evidence, rows: np.ndarray) -> list[Any]:
        rules = [source for source in self.schema.sources.values() if hasattr(source, "given")]
        return [name for rule in rules for name in rule.given[:-1] if not evidence.known[name][rows].all()]

    def redraw_parts(self, evidence: Evidence, out: Columns) -> None:
        """Of parts whose total is there and of which several are missing, take those of several draws that come nearest to it.

        Then the last of them is what the others leave, where its bounds allow it, or the one before.
        """
        far = evidence.disagreeing(out, are_sums=True)
        rows = np.flatnonzero(far)
        for _ in range(_TRIES if len(rows) else 0):
            again = self._again(evidence, rows, out)[1]
            part = {name: column[rows] for name, column in out.items()}
            own = _subset_evidence(evidence, rows)
            better = own.disagreeing(again, are_sums=True) < own.disagreeing(part, are_sums=True)
            _write_rows(out, rows[better], {name: column[better] for name, column in again.items()})
        sums = [source for source in self.schema.sources.values() if hasattr(source, "total")]
        self._take_remainders(evidence, out, sums)
        if (rows := np.flatnonzero(evidence.disagreeing(out, are_sums=True))).size:
            for rule in sums:
                self._share_remainder(evidence, out, rule, rows)
            self._take_remainders(evidence, out, sums)

    def _take_remainders(self, evidence: Evidence, out: Columns, sums: list[Any]) -> None:
        """Set one part of each sum that is not met to what the others leave, where its bounds allow it."""
        for rule in sums:
            for part in reversed(rule.columns):
                rows = np.flatnonzero((evidence.disagreeing(out, are_sums=True) > 0) & ~evidence.known[part])
                if len(rows) and part in out:
                    held = [name for name in self.names if name != part]
                    fresh, _ = self._again(evidence, rows, out, *held)
                    found = fresh.known[part]
                    out[part][rows[found]] = fresh.values[part][found]

    def _share_remainder(self, evidence: Evidence, out: Columns, rule: Any, rows: np.ndarray) -> None:
        """Spread what the parts of a sum lack over those that may change, one after the other, each up to its bounds."""
        if rule.total not in evidence.values:
            return
        parts = [out.get(part, evidence.values[part])[rows] for part in rule.columns]
        lacking = np.where(evidence.known[rule.total][rows], evidence.values[rule.total][rows] - np.sum(parts, axis=0), 0.0)
        lacking = np.nan_to_num(lacking)  # a part that stays missing leaves the sum open
        for name in (part for part in reversed(rule.columns) if part in out):
            kind, own = self.law.schema[name], out[name][rows]
            moved = np.where(evidence.known[name][rows] | np.isnan(own), 0.0, np.clip(own + lacking, kind.low, kind.high) - own)
            out[name][rows] = own + moved
            lacking = lacking - moved


def _subset_evidence(evidence: Evidence, rows: np.ndarray) -> Evidence:
    some: Any = object.__new__(Evidence)
    parts = {which: {name: column[rows] for name, column in getattr(evidence, which).items()} for which in ("values", "known")}
    vars(some).update({**vars(evidence), **parts})
    return some


def _write_rows(out: Columns, rows: np.ndarray, new: Columns) -> None:
    for name, column in new.items():
        out[name][rows] = column
