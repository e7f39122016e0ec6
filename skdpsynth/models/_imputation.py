"""Imputation of missing cells: they are deduced, drawn from the model, or computed, so that the rules of the schema hold."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Continuous, Schema, Spans, Sum, keys_of, ties_of
from skdpsynth.models._conditional_sampling import sample_missing
from skdpsynth.models._joint_distribution import JointDistribution
from skdpsynth.tables import Evidence, with_all

_TRIES = 4  # draws of rows that contradict a known computed column
Columns = dict[Any, np.ndarray]
_MOST_LISTED = 1 << 20  # keys that are listed to find one that is free
_KEY_TRIES = 32


def impute_table(
    law: JointDistribution,
    schema: Schema,
    dtypes: Mapping[Any, str],
    values: Mapping[Any, np.ndarray],
    missing: Mapping[Any, np.ndarray],
    spans: Spans,
    rng: np.random.Generator,
    complete: bool = False,
) -> Columns:
    """Return columns with their missing cells filled; others are never changed, even where they break rules.

    `schema` is that of the whole table, with computed columns, and `dtypes` say how cells are written; `values` are as `skdpsynth.tables`
    reads them. `complete`: cells that rules leave no value get one against the rules.
    """
    present = {name: ~gone for name, gone in missing.items()}
    if not len(next(iter(values.values()))):
        return dict(values)
    completing = _TableImputer(law, schema, dtypes, spans, rng)
    evidence = Evidence(schema, values, present, dtypes)
    out = completing.draw(evidence)
    if schema.sources:
        completing.redraw_levels(evidence, out)
        completing.redraw_parts(evidence, out)
    for names in keys_of(law.schema.rules, law.schema.whole):
        fill_keys(names, law.schema, out, {name: ~evidence.known[name] for name in names}, rng)
    if complete:
        _fill_against_rules(law, schema.coded, spans, out, rng)
    return with_all(evidence, out, evidence.known).values


def _fill_against_rules(law: JointDistribution, kinds: Mapping[Any, Any], spans: Spans, out: Columns, rng: np.random.Generator) -> None:
    """Fill cells that are still missing, in place, by draws from the law of their column alone."""
    for place, name in enumerate(law.schema):
        kind, is_number = kinds[name], isinstance(kinds[name], Continuous)
        wanted = AllowedCells(kind.low, kind.high) if is_number else AllowedCells(among=np.arange(len(kind.levels)))
        for default in (None, kind.midpoint if is_number else 0):  # where no row of the law has a value
            rows = np.flatnonzero(np.isnan(out[name]) if is_number else out[name] >= len(kind.levels))
            if not len(rows):
                break
            conditional, probability = law.condition(spans.hull({name: wanted}))
            if default is not None:
                out[name][rows] = default
            elif probability:
                out[name][rows] = spans.decode(conditional.sample(len(rows), rng))[place]


class _TableImputer:
    def __init__(self, law: JointDistribution, schema: Schema, dtypes: Mapping[Any, str], spans: Spans, rng: np.random.Generator) -> None:
        self.law, self.schema, self.dtypes, self.spans, self.rng = law, schema, dtypes, spans, rng
        self.names = list(law.schema)
        self.patterns: dict = {}
        self.ties = ties_of(schema, law.schema.rules, dtypes)

    def draw(self, evidence: Evidence) -> Columns:
        """Return the columns that mechanisms see, with missing cells drawn."""
        given, known = ({name: each[name] for name in self.names} for each in (evidence.values, evidence.known))
        values, known_here = self.spans.encode_known(given, known) if self.spans else ([*given.values()], [*known.values()])
        out = [column.copy() for column in values]
        for rows, wanted in evidence.allowed_levels():
            conditional, probability = self.law.condition(wanted) if wanted else (self.law, 1.0)
            mixtures = zip(conditional.mixtures, self.law.mixtures, strict=True)
            made = sample_missing(
                replace(conditional, mixtures=tuple(own or other for own, other in mixtures)) if probability else self.law,
                [column[rows] for column in values],
                [~flag[rows] for flag in known_here],
                self.rng,
                self.ties,
                self.patterns,
            )
            for column, new in zip(out, made, strict=True):
                column[rows] = new
        return self.spans.decode_known(out, given, known) if self.spans else dict(zip(self.names, out, strict=True))

    def _again(self, evidence: Evidence, rows: np.ndarray, out: Columns, *held: Hashable) -> tuple[Evidence, Columns]:
        """Draw some rows again; cells of the columns `held` count as known."""
        values = {name: column[rows] for name, column in {**evidence.values, **out}.items()}
        known = {name: flag[rows] | (name in held) for name, flag in evidence.known.items()}
        fresh = Evidence(self.schema, values, known, self.dtypes)
        return fresh, self.draw(fresh)

    def redraw_levels(self, evidence: Evidence, out: Columns) -> None:
        """Draw rows again whose levels contradict a known value of `Determines`; at last one level after the other."""
        for attempt in range(_TRIES + 1):
            rows = np.flatnonzero(evidence.disagreement(out, are_sums=False))
            if not len(rows):
                return
            rules = [source for source in self.schema.sources.values() if hasattr(source, "given") and attempt == _TRIES]
            held = [name for rule in rules for name in rule.given[:-1] if not evidence.known[name][rows].all()]
            _write_rows(out, rows, self._again(evidence, rows, out, *held)[1])

    def redraw_parts(self, evidence: Evidence, out: Columns) -> None:
        """Draw missing parts of a known total several times, and keep the draw that comes nearest to it.

        Then the last of them is the remainder, where its bounds allow it, or the one before.
        """
        far = evidence.disagreement(out, are_sums=True)
        rows = np.flatnonzero(far)
        for _ in range(_TRIES if len(rows) else 0):
            again = self._again(evidence, rows, out)[1]
            part = {name: column[rows] for name, column in out.items()}
            own = evidence.take(rows)
            better = own.disagreement(again, are_sums=True) < own.disagreement(part, are_sums=True)
            _write_rows(out, rows[better], {name: column[better] for name, column in again.items()})
        sums = [source for source in self.schema.sources.values() if hasattr(source, "total")]
        self._take_remainders(evidence, out, sums)
        if (rows := np.flatnonzero(evidence.disagreement(out, are_sums=True))).size:
            for rule in sums:
                self._share_remainder(evidence, out, rule, rows)
            self._take_remainders(evidence, out, sums)

    def _take_remainders(self, evidence: Evidence, out: Columns, sums: list[Any]) -> None:
        """Set one part of each sum that is not met to the remainder, where its bounds allow it."""
        for rule in sums:
            for part in reversed(rule.columns):
                rows = np.flatnonzero((evidence.disagreement(out, are_sums=True) > 0) & ~evidence.known[part])
                if len(rows) and part in out:
                    held = [name for name in self.names if name != part]
                    fresh, _ = self._again(evidence, rows, out, *held)
                    found = fresh.known[part]
                    out[part][rows[found]] = fresh.values[part][found]

    def _share_remainder(self, evidence: Evidence, out: Columns, rule: Sum, rows: np.ndarray) -> None:
        """Spread the remainder of a sum over the parts that may change, one after the other, each up to its bounds."""
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


def _write_rows(out: Columns, rows: np.ndarray, new: Columns) -> None:
    for name, column in new.items():
        out[name][rows] = column


def fill_keys(
    names: Sequence[Hashable], schema: Schema, values: Mapping[Any, np.ndarray], to_fill: Mapping[Any, np.ndarray], rng: np.random.Generator
) -> None:
    """Make repeated keys unique, in place, by their cells that are to be filled, as long as there are free keys.

    Keys that are given are taken first. A key that no row has yet keeps the cells that the model drew.
    """
    kinds = [schema[name] for name in names]
    ends = [(int(kind.low), int(kind.high)) if isinstance(kind, Continuous) else (0, len(kind.levels) - 1) for kind in kinds]
    keys = np.column_stack([values[name].astype(np.int64) for name in names])
    free = np.column_stack([to_fill[name] for name in names])
    open_rows = np.flatnonzero(free.any(axis=1))
    taken = set(map(tuple, np.delete(keys, open_rows, axis=0).tolist()))
    listed: dict[tuple, list[tuple]] = {}
    room = np.where(free[open_rows], np.log([high - low + 1.0 for low, high in ends]), 0.0).sum(axis=1)
    for row in open_rows[np.argsort(room, kind="stable")]:  # those with the least room first
        key = tuple(keys[row].tolist())
        if key in taken:
            key = _find_free_key(key, free[row], ends, taken, listed, rng) or key
            keys[row] = key
        taken.add(key)
    for place, name in enumerate(names):
        rows = np.flatnonzero(free[:, place])
        values[name][rows] = keys[rows, place]


def _find_free_key(
    key: tuple, free: np.ndarray, ends: Sequence[tuple[int, int]], taken: set, listed: dict[tuple, list[tuple]], rng: np.random.Generator
) -> tuple | None:
    """Return a free key that agrees with the given cells of this one: by some tries, then from the list of all; None if none is left.

    Where listing all keys would take long, hardly one try is in vain.
    """
    sides = list(zip(key, free, ends, strict=True))
    for _ in range(_KEY_TRIES):
        drawn = tuple(int(rng.integers(low, high + 1)) if is_free else own for own, is_free, (low, high) in sides)
        if drawn not in taken:
            return drawn
    if np.prod([high - low + 1.0 if is_free else 1.0 for _, is_free, (low, high) in sides]) > _MOST_LISTED:
        return None
    pattern = tuple(None if is_free else own for own, is_free, _ in sides)
    if pattern not in listed:
        values = [np.arange(low, high + 1) if is_free else np.array([own]) for own, is_free, (low, high) in sides]
        grid = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(values))
        listed[pattern] = list(map(tuple, rng.permutation(grid).tolist()))
    while listed[pattern]:
        if (found := listed[pattern].pop()) not in taken:
            return found
    return None
