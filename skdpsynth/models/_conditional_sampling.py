"""Imputation of missing cells: they are deduced, drawn from the model given the known cells of their rows, or computed."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Cells, Continuous, Schema, Spans, Tie, cells_of_levels, ends_of, keys_of, ties_of
from skdpsynth.models._joint_distribution import BinSampler, JointDistribution
from skdpsynth.models._mixture import Mixture, Part, Posterior
from skdpsynth.models._structural_zeros import ConstrainedColumns
from skdpsynth.models._within_bin import MIN_LEAD, DifferenceSampler, ListedColumn, NumberColumn, remaining_bin_ends
from skdpsynth.tables import Evidence, with_all

_ROWS = 1 << 16  # at once, as many as `BinSampler` takes
_CHOICES = 8  # draws of rows in which a number is given beside one that is not, of which one is taken
_TRIES = 8  # draws of rows that break a rule, before numbers move within their bins
_REDRAWS = 4  # draws of rows that contradict a known computed column
_MOST_LISTED = 1 << 20  # keys that are listed to find one that is free
_KEY_TRIES = 32
Columns = Mapping[Hashable, np.ndarray]


@dataclass(frozen=True, eq=False)
class ConstraintImputer:
    """Fills the columns of one tie in rows of which some cells are given.

    A rule about given cells alone binds nothing here: if they break it, they stay, and all other rules still hold.
    """

    tied: ConstrainedColumns
    tie: Tie  # the same rules, on the axes of the table whose rows are filled
    schema: Schema
    linked: Mapping[Hashable, Any]

    @property
    def names(self) -> tuple:
        return self.tie.columns

    def holds(self, values: Columns, to_fill: Columns) -> np.ndarray:
        """Return which rows keep all rules about a cell that is filled, shape (n_rows,)."""
        kept = np.ones(len(values[self.names[0]]), dtype=bool)
        for rows, free in _fill_patterns(self.names, to_fill):
            if free:
                kept[rows] = self.tie.about(free).holds(*self.to_axes({name: values[name][rows] for name in self.names}))
        return kept

    def to_axes(self, values: Columns) -> tuple[dict[Hashable, np.ndarray], dict[Hashable, np.ndarray]]:
        """Return (values as the rules compare them, which are missing); a missing number becomes any number."""
        shown, missing = {}, {}
        for name in self.names:
            axis, own = self.tie.axes.get(name), values[name]
            missing[name] = own >= len(self.schema[name].levels) if axis is None else np.isnan(own)
            shown[name] = own if axis is None else axis.show(np.where(missing[name], self.linked[name].ends()[0][0], own))
        return shown, missing

    def move_numbers(self, values: Columns, to_fill: Columns, rng: np.random.Generator) -> dict[Hashable, np.ndarray]:
        """Return numbers moved within their bins so that inequalities and sums hold, where that is possible; given ones stay."""
        out = {name: values[name].copy() for name in self.names}
        for rows, free in _fill_patterns(self.names, to_fill):
            orders = self.tie.about(free).orders
            if not orders.columns or not free:
                continue
            own, least, most = {name: values[name][rows] for name in self.names}, {}, {}
            shown, missing = self.to_axes(own)
            for name in orders.columns:
                least[name] = most[name] = shown[name]
                if name in free:
                    bins = np.minimum(self.linked[name].codes_of(own[name]), self.linked[name].n_bins - 1)
                    least[name], most[name] = ends_of(self.tied.conditional_cells(name, self.linked), bins)
            moved, can = orders.solve(least, most, missing, rng), orders.can_hold(least, most, missing)
            for name in orders.columns:
                if name in free:
                    changed = can & ~missing[name]
                    out[name][rows[changed]] = self.tie.axes[name].value(moved[name][changed])
        return out

    def repair(
        self, mixture: Mixture, places: Mapping[Hashable, int], row: Columns, free: Sequence, rng: np.random.Generator
    ) -> dict | None:
        """Return cells of one row from a tuple of codes that agrees with the given ones; None, if there is none.

        The mixture is that of the block and stratum of the row; `places` are those of all columns of the tie but the stratum in the block;
        `row` has the stratum that is tried, and `free` are the columns to fill, perhaps with the stratum.
        """
        drawn = [name for name in free if name in places]
        if not drawn:
            return {} if self.holds(row, {name: np.array([name in free]) for name in self.names})[0] else None
        part = next(part for part in mixture.parts if places[drawn[0]] in part.columns)
        columns = [part.columns.index(places[name]) for name in drawn]
        tuples, inverse = np.unique(part.codes[:, columns], axis=0, return_inverse=True)
        weights = np.bincount(inverse.ravel(), weights=part.probabilities @ mixture.weights)
        # A code of each tuple in each column, and the cells of codes: a given number is a bin of its own.
        codes, cells, (shown, missing) = dict[Hashable, np.ndarray](), dict[Hashable, Cells](), self.to_axes(row)
        for name in self.names:
            if name in drawn:
                within, own = part.within.get(places[name]), tuples[:, drawn.index(name)]
                codes[name] = own if within is None else np.unique(within.classes, return_index=True)[1][own]
                cells[name] = self.tied.cells[name]
            elif name in self.tie.axes:
                cells[name] = Cells(0, shown[name], shown[name], True)
                codes[name] = np.full(len(tuples), int(missing[name][0]))
            else:
                column = self.linked.get(name)
                cells[name] = cells_of_levels(len(self.schema[name].levels) if column is None else column.n_bins, True)
                codes[name] = np.full(len(tuples), int(row[name][0] if column is None else column.codes_of(row[name])[0]))
        can = self.tie.about(free).can_occur(codes, cells) & (weights > 0)
        for name in drawn:  # a value, where there is one
            fuller = can & ~cells[name].missing[codes[name]]
            can = fuller if fuller.any() else can
        if not can.any():
            return None
        chosen = int(rng.choice(len(can), p=np.where(can, weights, 0) / weights[can].sum()))
        return {name: self._value(name, part, places[name], int(tuples[chosen, place]), mixture, rng) for place, name in enumerate(drawn)}

    def _value(self, name: Hashable, part: Part, place: int, code: int, mixture: Mixture, rng: np.random.Generator) -> Any:
        within = part.within.get(place)
        if within is not None:  # a code of the class
            weights = np.where(within.classes == code, within.probabilities @ mixture.weights, 0)
            code = int(rng.choice(len(weights), p=weights / weights.sum()))
        if name not in self.linked:
            return code
        column = self.linked[name]
        return column.missing if code >= column.n_bins else column.place(column.inside.sample_cells(np.array([code]), rng), rng)[0]


def _fill_patterns(names: Sequence[Hashable], to_fill: Columns) -> list[tuple[np.ndarray, list]]:
    """Return, for each set of columns that are filled together, the rows and the columns."""
    flags = np.column_stack([to_fill[name] for name in names])
    different, inverse = np.unique(flags, axis=0, return_inverse=True)
    return [
        (np.flatnonzero(inverse.ravel() == number), [n for n, is_free in zip(names, free, strict=True) if is_free])
        for number, free in enumerate(different)
    ]


class DifferenceImputer:
    """Fills two columns whose difference has a law, beside given cells."""

    def __init__(self, draw: DifferenceSampler) -> None:
        self.draw = draw
        back = replace(draw, near=draw.near.swap_columns(), first=draw.second, second=draw.first, free=draw.free.T)
        # Drawn beside the second, numbers of the first are equally likely within their bin.
        low, high = np.zeros(1), np.ones(1)
        if not isinstance(draw.first, ListedColumn):
            low, high = remaining_bin_ends(draw.first)
        spread = draw.shares.T * np.maximum(high - low, 1e-300)
        self.ways = (
            () if isinstance(draw.first, ListedColumn) or isinstance(draw.second, ListedColumn) else ((draw, draw.shares), (back, spread))
        )

    def alone(self, to_fill: Columns) -> np.ndarray:
        """Return which rows lack one of the two."""
        return to_fill[self.draw.near.first] != to_fill[self.draw.near.second]

    def evidence(self, values: Columns, to_fill: Columns) -> np.ndarray:
        """Return how much more likely the given number of a row is than by the bins of both: P(it leads to the other's bin), over the mean.

        It is 1 where both are given, or none, or differences tell nothing.
        """
        out = np.ones(len(to_fill[self.draw.near.first]))
        for way, shares in self.ways:
            rows, codes, other = self._rows(way, values, to_fill)
            out[rows] = self._lead(way, values[way.near.first][rows], other) / shares[codes, other]
        return out

    def complete(self, values: Columns, to_fill: Columns, rng: np.random.Generator) -> None:
        """Change numbers that were filled within their bins, in place."""
        rows = np.flatnonzero(np.all([to_fill[name] for name in self.draw.names], axis=0))
        own = {name: values[name][rows] for name in self.draw.names}
        columns = dict(zip(self.draw.names, (self.draw.first, self.draw.second), strict=True))
        self.draw.place(own, {name: columns[name].codes_of(own[name]) for name in own}, rng)
        for way, _ in self.ways:
            beside, _, other = self._rows(way, values, to_fill)
            x = values[way.near.first][beside]
            leads = self._lead(way, x, other) > MIN_LEAD
            values[way.near.second][beside[leads]] = way.beside(x[leads], other[leads], rng)
        for name, column in own.items():
            values[name][rows] = column

    def _rows(self, way: DifferenceSampler, values: Columns, to_fill: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows in which the second is to be filled beside a given first, and the codes of both there."""
        first, second = way.names
        rows = np.flatnonzero(to_fill[second] & ~to_fill[first])
        i, j = way.first.codes_of(values[first][rows]), way.second.codes_of(values[second][rows])
        known = np.flatnonzero((i < way.first.n_bins) & (j < way.second.n_bins))
        known = known[~way.free[i[known], j[known]]]
        return rows[known], i[known], j[known]

    @staticmethod
    def _lead(way: DifferenceSampler, x: np.ndarray, codes: np.ndarray) -> np.ndarray:
        assert isinstance(way.second, NumberColumn)
        low, high = remaining_bin_ends(way.second)
        return way.near.below(high[codes] - x) - way.near.below(low[codes] - x)


def sample_missing(
    law: JointDistribution,
    values: Sequence[np.ndarray],
    to_fill: Sequence[np.ndarray],
    rng: np.random.Generator,
    ties: Sequence[Tie] = (),
    patterns: dict | None = None,
) -> list[np.ndarray]:
    """Return values of columns with the cells `to_fill` drawn from P(those cells | all others), missing only where rules leave no value.

    A row has a stratum with probability in proportion to its weight times that of the known cells in it; a node of each block likewise; and
    given the node, the cells of each part that agree with the known ones. A number is known by its bin. `ties` are the rules of the table
    of these rows, by default those of the fit; `patterns` keeps precomputed parts of the model for other rows.

    Rows in which numbers break a rule with given ones are drawn again, and the rest then has the law given that they keep it. After some
    tries numbers move within their bins; where that is not enough, the row takes codes that agree with the given cells.
    """
    out = [column.copy() for column in values]
    columns, free = (dict(zip(law.schema, each, strict=True)) for each in (values, to_fill))
    incomplete = np.flatnonzero(np.any(to_fill, axis=0))
    filling = _RowImputer(law, rng, ties, {} if patterns is None else patterns)
    for start in range(0, len(incomplete), _ROWS):
        rows = incomplete[start : start + _ROWS]
        made = filling.impute(_take(columns, rows), _take(free, rows), start // _ROWS)
        for column, mask, new in zip(out, to_fill, made.values(), strict=True):
            column[rows] = np.where(mask[rows], new, column[rows])
    return out


def _take(columns: Columns, rows: np.ndarray) -> dict[Hashable, np.ndarray]:
    return {name: column[rows] for name, column in columns.items()}


class _RowImputer:
    def __init__(self, law: JointDistribution, rng: np.random.Generator, ties: Sequence[Tie], patterns: dict) -> None:
        self.law, self.rng, self.patterns = law, rng, patterns
        self.ties = [
            ConstraintImputer(tied, tie, law.schema, law.linked)
            for tied, tie in zip(law.tied, ties or [tied.tie for tied in law.tied], strict=True)
        ]
        self.near = [DifferenceImputer(near) for near in law.near]
        self.draws = {name: BinSampler(column, rng) for name, column in law.linked.items()}
        self.nullable = np.array([bool(law.schema[name].nullable) for name in law.names])
        n_codes = {name: law.schema[name].n_codes for name in law.names if name not in law.linked}
        n_codes |= {name: column.n_bins + law.schema[name].nullable for name, column in law.linked.items()}
        self.sizes = np.array([n_codes[name] for name in law.names])

    def impute(self, values: Columns, free: Columns, block: int) -> dict[Hashable, np.ndarray]:
        """Return filled values such that rules hold wherever the given cells let them."""
        out = self._draw(values, free, block)
        if not self.ties:
            return out
        broken = self._rows_breaking_rules(out, free)
        for _ in range(_TRIES):
            if not len(broken):
                return out
            again = self._draw(_take(values, broken), _take(free, broken), block)
            for name, new in again.items():
                out[name][broken] = new
            broken = broken[self._rows_breaking_rules(again, _take(free, broken))]
        for tied in self.ties:
            rows = broken
            for look_further in (False, True):
                rows = rows[~tied.holds(_take(out, rows), _take(free, rows))] if len(rows) else rows
                for row in rows if look_further else ():
                    self._repair(tied, out, free, row)
                for name, column in tied.move_numbers(_take(out, rows), _take(free, rows), self.rng).items():
                    out[name][rows] = column
        return out

    def _draw(self, values: Columns, free: Columns, block: int) -> dict[Hashable, np.ndarray]:
        out = self._draw_by_codes(values, free, block)
        if self.near:
            rows = np.flatnonzero(np.any([near.alone(free) for near in self.near], axis=0))
            if len(rows):
                self._choose(out, _take(values, rows), _take(free, rows), rows, block)
            for near in self.near:
                near.complete(out, free, self.rng)
        return out

    def _choose(self, out: Columns, values: Columns, free: Columns, rows: np.ndarray, block: int) -> None:
        """Take one of several draws of some rows, in place, by the evidence of a given number beyond its bin."""
        whole = np.zeros(len(rows))
        for attempt in range(_CHOICES):
            again = self._draw_by_codes(values, free, block) if attempt else _take(out, rows)
            weights = np.prod([near.evidence(again, free) for near in self.near], axis=0)
            whole += weights
            # Each draw so far is kept in proportion to its weight.
            taken = self.rng.random(len(rows)) * whole < weights
            for name, column in out.items():
                column[rows[taken]] = again[name][taken]

    def _rows_breaking_rules(self, values: Columns, free: Columns) -> np.ndarray:
        if not len(next(iter(values.values()))):
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(~np.all([tied.holds(values, free) for tied in self.ties], axis=0))

    def _repair(self, tied: ConstraintImputer, out: Columns, free: Columns, row: int) -> None:
        """Give one row codes that agree with its given cells, in another stratum if its own is filled and has none."""
        law = self.law
        block = next((b for b in law.blocks if any(law.names[place] in tied.names for place in b)), None)
        if block is None:
            return
        places = {law.names[column]: place for place, column in enumerate(block)}
        mine = {name: out[name][row : row + 1] for name in tied.names}
        wanted = [name for name in tied.names if free[name][row]]
        # Its own stratum; and if rules tie that and it is filled, all others in a random order, the likely ones first.
        strata = [0 if law.stratum is None else int(out[law.stratum][row])]
        if law.stratum in wanted:
            weights = np.asarray(law.weights[: len(law.schema[law.stratum].levels)])
            others = np.flatnonzero(weights > 0)
            order = self.rng.choice(others, len(others), replace=False, p=weights[others] / weights[others].sum())
            strata += [int(stratum) for stratum in order if stratum != strata[0]]
        for stratum in strata:
            if (mixtures := law.mixtures[stratum]) is None:
                continue
            if law.stratum in wanted:
                mine[law.stratum] = np.array([stratum])
            cells = tied.repair(mixtures[law.blocks.index(block)], places, mine, wanted, self.rng)
            if cells is not None:
                cells |= {law.stratum: stratum} if law.stratum in wanted else {}
                for name, value in cells.items():
                    out[name][row] = value
                return

    def _draw_by_codes(self, values: Columns, free: Columns, block: int) -> dict[Hashable, np.ndarray]:
        law = self.law
        columns = [law.linked[n].codes_of(values[n]) if n in law.linked else values[n].astype(np.int64) for n in law.names]
        codes = np.column_stack(columns)
        known = ~np.column_stack([free[name] for name in law.names])
        strata, drawn = np.zeros(len(codes), dtype=np.int64), np.empty_like(codes)
        if law.stratum is not None:  # it is drawn given all other cells where it is to be filled
            strata, rows = values[law.stratum].astype(np.int64), np.flatnonzero(free[law.stratum])
            with np.errstate(divide="ignore"):
                logs = np.tile(np.log(law.weights[: len(law.schema[law.stratum].levels)]), (len(rows), 1))
            for stratum in range(logs.shape[1] if len(rows) else 0):
                logs[:, stratum] += np.logaddexp.reduce(self._log_evidence(stratum, codes[rows], known[rows]), axis=1)
            strata[rows] = _sample_from_logs(logs, self.rng)
        for stratum in np.unique(strata):
            rows = np.flatnonzero(strata == stratum)
            common, n_common = None, 1
            if law.common is not None:
                logs = self._log_evidence(stratum, codes[rows], known[rows])
                common, n_common = _sample_from_logs(logs, self.rng), logs.shape[1]
            for place in law.blocks:
                posterior = self._posterior(stratum, place, codes[rows], known[rows])
                drawn[np.ix_(rows, np.array(place))] = posterior.impute(self.rng, common, n_common)
        made = {law.stratum: strata}
        for own, name in zip(drawn.T, law.names, strict=True):
            made[name] = own
            if name in self.draws:
                made[name] = np.empty(len(codes), dtype=law.dtype_of(name))
                self.draws[name].write(own, block, self.rng, made[name])
        return {name: np.where(free[name], made[name], column) for name, column in values.items()}

    def _posterior(self, stratum: int, block: tuple[int, ...], codes: np.ndarray, known: np.ndarray) -> Posterior:
        mixtures = self.law.mixtures[stratum]
        assert mixtures is not None
        place = list(block)
        mixture = mixtures[self.law.blocks.index(block)]
        return Posterior(mixture, self.sizes[place], self.nullable[place], codes[:, place], known[:, place], self.patterns)

    def _log_evidence(self, stratum: int, codes: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return log P(common node and known cells) of each row; where blocks share no nodes, there is one."""
        common = None if self.law.common is None else self.law.common[stratum]
        weights = np.ones(1) if common is None else common
        with np.errstate(divide="ignore"):
            logs = np.tile(np.log(weights), (len(codes), 1))
        for block in self.law.blocks:
            logs += self._posterior(stratum, block, codes, known).evidence(len(weights))
        return logs


def _sample_from_logs(logs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a column for each row, with probability in proportion to the exponential of its number; any, if all are minus infinity."""
    largest = logs.max(axis=1, keepdims=True)
    upto = np.cumsum(np.where(np.isfinite(largest), np.exp(logs - np.where(np.isfinite(largest), largest, 0)), 1.0), axis=1)
    return np.minimum((upto <= rng.random((len(logs), 1)) * upto[:, -1:]).sum(axis=1), logs.shape[1] - 1)


def impute_table(
    law: JointDistribution,
    schema: Schema,
    dtypes: Mapping[Hashable, str],
    values: Columns,
    missing: Columns,
    spans: Spans,
    rng: np.random.Generator,
    complete: bool = False,
) -> Columns:
    """Return columns with their missing cells filled; others are never changed, even where they break rules.

    `schema` is that of the whole table, with computed columns, and `dtypes` say how cells are written; `values` are as `skdpsynth.tables`
    reads them. `complete`: cells that rules leave no value get one against the rules.
    """
    if not len(next(iter(values.values()))):
        return dict(values)
    imputer = _TableImputer(law, schema, dtypes, spans, rng)
    evidence = Evidence(schema, values, {name: ~gone for name, gone in missing.items()}, dtypes)
    out = imputer.draw(evidence)
    if schema.sources:
        imputer.redraw_levels(evidence, out)
        imputer.redraw_parts(evidence, out)
    for names in keys_of(law.schema.rules, law.schema.whole):
        fill_keys(names, law.schema, out, {name: ~evidence.known[name] for name in names}, rng)
    for place, name in enumerate(law.schema if complete else ()):  # cells still missing, by draws from the law of their column alone
        kind, is_number = schema.coded[name], isinstance(schema.coded[name], Continuous)
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
    return with_all(evidence, out, evidence.known).values


class _TableImputer:
    def __init__(
        self, law: JointDistribution, schema: Schema, dtypes: Mapping[Hashable, str], spans: Spans, rng: np.random.Generator
    ) -> None:
        self.law, self.schema, self.dtypes, self.spans, self.rng = law, schema, dtypes, spans, rng
        self.names = list(law.schema)
        self.patterns: dict = {}
        self.ties = ties_of(schema, law.schema.rules, dtypes)

    def draw(self, evidence: Evidence) -> Columns:
        given, known = ({name: each[name] for name in self.names} for each in (evidence.values, evidence.known))
        values, known_here = self.spans.encode_known(given, known) if self.spans else ([*given.values()], [*known.values()])
        out = [column.copy() for column in values]
        for rows, wanted in evidence.allowed_levels():
            conditional, probability = self.law.condition(wanted) if wanted else (self.law, 1.0)
            mixtures = zip(conditional.mixtures, self.law.mixtures, strict=True)
            law = replace(conditional, mixtures=tuple(own or other for own, other in mixtures)) if probability else self.law
            cells, is_missing = [column[rows] for column in values], [~flag[rows] for flag in known_here]
            made = sample_missing(law, cells, is_missing, self.rng, self.ties, self.patterns)
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
        for attempt in range(_REDRAWS + 1):
            rows = np.flatnonzero(evidence.disagreement(out, are_sums=False))
            if not len(rows):
                return
            rules = [source for source in self.schema.sources.values() if hasattr(source, "given") and attempt == _REDRAWS]
            held = [name for rule in rules for name in rule.given[:-1] if not evidence.known[name][rows].all()]
            _write_rows(out, rows, self._again(evidence, rows, out, *held)[1])

    def redraw_parts(self, evidence: Evidence, out: Columns) -> None:
        """Draw missing parts of a known total several times, and keep the draw that comes nearest to it.

        Then the last of them is the remainder, where its bounds allow it, or the one before.
        """
        far = evidence.disagreement(out, are_sums=True)
        rows = np.flatnonzero(far)
        for _ in range(_REDRAWS if len(rows) else 0):
            again = self._again(evidence, rows, out)[1]
            part = {name: column[rows] for name, column in out.items()}
            own = evidence.take(rows)
            better = own.disagreement(again, are_sums=True) < own.disagreement(part, are_sums=True)
            _write_rows(out, rows[better], {name: column[better] for name, column in again.items()})
        sums = [source for source in self.schema.sources.values() if hasattr(source, "total")]
        self._take_remainders(evidence, out, sums)
        if (rows := np.flatnonzero(evidence.disagreement(out, are_sums=True))).size:
            # The remainder is spread over the parts that may change, one after the other, each up to its bounds.
            for rule in (rule for rule in sums if rule.total in evidence.values):
                parts = [out.get(part, evidence.values[part])[rows] for part in rule.columns]
                lacking = np.where(evidence.known[rule.total][rows], evidence.values[rule.total][rows] - np.sum(parts, axis=0), 0.0)
                lacking = np.nan_to_num(lacking)  # a part that stays missing leaves the sum open
                for name in (part for part in reversed(rule.columns) if part in out):
                    kind, held = self.law.schema[name], out[name][rows]
                    moved = np.where(evidence.known[name][rows] | np.isnan(held), 0.0, np.clip(held + lacking, kind.low, kind.high) - held)
                    out[name][rows] = held + moved
                    lacking = lacking - moved
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


def _write_rows(out: Columns, rows: np.ndarray, new: Columns) -> None:
    for name, column in new.items():
        out[name][rows] = column


def fill_keys(names: Sequence[Hashable], schema: Schema, values: Columns, to_fill: Columns, rng: np.random.Generator) -> None:
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
            keys[row] = key = _find_free_key(key, free[row], ends, taken, listed, rng) or key
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
