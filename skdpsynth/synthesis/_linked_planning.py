"""The plan of linked tables: families of tables of virtual rows, and their shares of the budget, by public numbers."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._validation import short_repr
from skdpsynth.domain import Children, Continuous, Grid, Nominal, Schema, grids_of, list_names
from skdpsynth.fitting import Facts, Plan
from skdpsynth.models import LevelGroups, Link
from skdpsynth.privacy import PrivacyLoss, mechanism
from skdpsynth.statistics import ChildRows, HistoryRows, Marginals, SiblingRows, TableRows, Weights, total_weights
from skdpsynth.synthesis._latent_planning import MAX_CODES, MOST_GRAM_ROWS, ONE_BLOCK, budgets_of, many_level_columns, split_share
from skdpsynth.synthesis._latent_releases import GramRelease, Pair, PairRelease
from skdpsynth.tables import most_of

_SHARES = {"cells": 0.1, "levels": 0.1, "columns": 0.12, "pairs": 0.78}
_POWER = 1 / 3  # of the number of tables of a family: then the mean noise of a table, summed over families, is least
_OWN = 3.0  # times the share of pairs of the root's own columns: they are few, and people know them best
_OWN_BESIDE_HEADS, _SIBLINGS_BESIDE_HEADS = 3.6, 0.4  # heads have pairs of their own, and with their siblings
_GRAM, _OWN_BESIDE_GRAMS = 3.0, 1.2  # times the share of siblings, beside Gram matrices
_USUAL_SIZE = 8  # of a column of numbers
_ALIKE = 3  # children weigh the same up to so many of one parent
_LEVELS = 7  # of a tree that are counted, at most
_LOW_NOISE = 0.01  # total variation that noise adds to the table of a column of a parent and one of a child, below which they do


@dataclass(frozen=True)
class Family:
    """Tables of pairs of columns of virtual rows that are released together."""

    name: str  # of the release
    kind: str  # "own", "cross" or "siblings"
    table: str  # whose columns the pairs are of; with those of its parent, or of another of its rows
    rows: Callable[[Any], list]  # makes the virtual rows of linked tables
    sizes: tuple[int, ...]  # of their columns
    pairs: tuple[Pair, ...]  # of places of these
    weights: Weights


@dataclass(frozen=True, kw_only=True)
class LinkedPlan(Plan):
    """The steps of counting, and their shares of the budget."""

    tables: Mapping[str, Schema]  # the root first; of each the coded columns, its own and those that links add
    groups: Mapping[str, Mapping[str, tuple[int, ...]]]  # of each table, the places of own columns and counts, and of heads
    links: tuple[Children, ...]  # parents before children
    heads: tuple[tuple[str, int, int], ...] = ()  # table, place and code of what heads have, and no other row
    n_samples: int | None = None  # where it is public
    shares: Mapping[str, PrivacyLoss] = field(default_factory=dict)  # by the name of a release
    takes_gram: bool = False  # whether a Gram matrix of each link tells of all but siblings
    fewest: Mapping[str, int] = field(default_factory=dict)  # by table: rows of a parent with fewer weigh as if there were so many; else 1

    @property
    def root(self) -> str:
        return next(iter(self.tables))

    @property
    def histories(self) -> set[str]:
        """The tables whose rows are histories."""
        return {link.table for link in self.links if link.order is not None}

    @property
    def own_pairs(self) -> str:
        """The release of pairs of the root's own columns: few, and what people know best."""
        return f"pairs of {quote_name(self.root)}"

    @cached_property
    def totals(self) -> Mapping[str, int]:
        """The sum of the weights of the rows of a root in each table."""
        return total_weights(self.links)

    def grids(self, table: str) -> dict[int, Grid]:
        """Grids of the columns of numbers of a table, by their places."""
        places = {name: place for place, name in enumerate(self.tables[table])}
        return {places[name]: grid for name, grid in grids_of(self.tables[table]).items()}

    def parent_of(self, table: str) -> str | None:
        return next((link.of for link in self.links if link.table == table), None)

    def count_place(self, link: Children) -> int:
        """Return which column of the parent is the number of children."""
        return list(self.tables[link.of]).index(f"{link.table}.number")

    def public_mass(self, table: str) -> int | None:
        """Return the mass of a table, where it is public: that of the roots, if each has rows there, as links say."""
        links = {link.table: link for link in self.links}
        while table in links:
            if self.least_of(links[table]) < self.fewest.get(table, 1):
                return None
            table = links[table].of
        return self.n_samples

    def least_of(self, link: Children) -> int:
        """Return how many rows each parent has at least, beside a head."""
        return link.least - (link.head is not None)

    def rows_of(self, table: str) -> TableRows:
        return TableRows(table, self.totals, self.fewest.get(table, 1))

    def weights(self, table: str, n_columns: int) -> Weights:
        """Return how virtual rows of so many columns are weighed."""
        return Weights(n_columns, self.totals[table])

    def recodings(self, table: str, bins: Mapping[Any, Link | LevelGroups]) -> dict[int, np.ndarray]:
        """Return the new codes of some columns: bins of cells, and the levels that heads leave, where that of heads counts as the first."""
        places = {name: place for place, name in enumerate(self.tables[table])}
        found = {places[name]: np.append(link.codes, link.n_bins).astype(np.int32) for name, link in bins.items()}
        for of, place, code in self.heads:
            if of == table:
                codes = np.arange(list(self.tables[table].values())[place].n_codes, dtype=np.int32)
                found[place] = np.where(codes == code, 0, codes - (codes > code))
        return found

    def sizes(self, table: str, bins: Mapping[Any, Link | LevelGroups]) -> list[int]:
        """Return the number of codes of each column, with these bins of numbers and groups of many levels; without, as many as usual."""
        sizes = []
        for name, kind in self.tables[table].items():
            usual = _USUAL_SIZE if isinstance(kind, Continuous) else min(len(kind.levels), MAX_CODES)
            if (link := bins.get(name)) is not None or isinstance(kind, Continuous | Nominal):
                sizes.append((usual if link is None else link.n_bins) + kind.nullable)
            else:
                sizes.append(kind.n_codes)
        for place in (place for of, place, _ in self.heads if of == table):
            sizes[place] -= 1
        return sizes

    def families(self, sizes: Mapping[str, Sequence[int]]) -> Iterator[Family]:
        """Yield the families of pairs, for so many codes of the columns of each table; none that is without pairs."""
        found = [self._pairs_of(table, tuple(sizes[table])) for table in self.tables if table not in self.histories]
        for link in self.links:
            of_link = self._of_history if link.table in self.histories else self._of_siblings
            found.append(of_link(link, tuple(sizes[link.table]), tuple(sizes[link.of])))
        for family in chain.from_iterable(found):
            if family.pairs and (not self.takes_gram or family.kind == "siblings" or family.name == self.own_pairs):
                yield family

    def _of_siblings(self, link: Children, own: tuple[int, ...], of: tuple[int, ...]) -> Iterator[Family]:
        """Yield pairs of a column of the parent and one of a child, and of two children."""
        child, places = link.table, _of_several_codes(own)
        with_parent, weights = ChildRows(child, self.totals, None, self.fewest.get(child, 1)), self.weights(child, len(of) + len(own))
        for label, others in self.groups[link.of].items():
            pairs = tuple((i, len(of) + j) for i, j in product(others, places) if of[i] > 1)
            yield Family(f"{label} with {quote_name(child)}", "cross", child, with_parent, (*of, *own), pairs, weights)
        pairs = tuple((i, len(own) + j) for i, j in combinations_with_replacement(places, 2))
        rows, weights = SiblingRows(child, self.totals), self.weights(child, 2 * len(own))
        if most_of(link) > 1:
            yield Family(f"siblings of {child}", "siblings", child, rows, (*own, *own), pairs, weights)

    def gram_of(self, link: Children, sizes: Mapping[str, Sequence[int]]) -> Family:
        """Return rows of a parent with one of its rows, or with two that follow each other; a code after the last stands for none."""
        own, of = tuple(sizes[link.table]), tuple(sizes[link.of])
        is_history = link.table in self.histories
        rows = self.history_rows(link, own) if is_history else ChildRows(link.table, self.totals, own)
        of_rows = (*of, *(size + 1 for size in own * (1 + is_history)))
        name, pairs = f"Gram matrix of {quote_name(link.of)} with {quote_name(link.table)}", tuple(combinations(range(len(of_rows)), 2))
        return Family(name, "gram", link.table, rows, of_rows, pairs, self.weights(link.table, len(of_rows)))

    def history_rows(self, link: Children, own: Sequence[int]) -> HistoryRows:
        return HistoryRows(link.table, self.totals, tuple(own))

    def _of_history(self, link: Children, own: tuple[int, ...], of: tuple[int, ...]) -> Iterator[Family]:
        """Yield pairs of columns of the parent, of a row and of the next one, in one virtual row."""
        child, p, q = link.table, len(of), len(own)
        sizes = (*of, *(size + 1 for size in (*own, *own)))
        family = Family("", "history", child, self.history_rows(link, own), sizes, (), self.weights(child, len(sizes)))
        yield replace(family, name=f"{quote_name(link.of)} with {quote_name(child)}", pairs=tuple(product(range(p), range(p, p + 2 * q))))
        within = [pair for start in (p, p + q) for pair in combinations(range(start, start + q), 2)]
        yield replace(family, name=f"pairs of {quote_name(child)}", pairs=tuple(within))
        yield replace(family, name=f"consecutive rows of {child}", pairs=tuple(product(range(p, p + q), range(p + q, p + 2 * q))))

    def _pairs_of(self, table: str, sizes: tuple[int, ...]) -> Iterator[Family]:
        """Yield pairs within each group of columns, and between groups: those of a head are many, and others need not share their noise."""
        rows, weights, several = self.rows_of(table), self.weights(table, len(sizes)), _of_several_codes(sizes)
        groups = {label: sorted({*places} & {*several}) for label, places in self.groups[table].items()}
        for label, places in groups.items():
            yield Family(f"pairs of {label}", "own", table, rows, sizes, tuple(combinations(places, 2)), weights)
        for (first, places), (second, others) in combinations(groups.items(), 2):
            pairs = tuple(sorted((min(i, j), max(i, j)) for i, j in product(places, others)))
            yield Family(f"{first} and {second}", "own", table, rows, sizes, pairs, weights)


def quote_name(table: str) -> str:
    """Return a table's name as releases say it: in quotes where it may be more than a word, so that no two are called alike."""
    return table if table.isidentifier() else repr(table)


def _of_several_codes(sizes: Sequence[int]) -> list[int]:
    return [place for place, size in enumerate(sizes) if size > 1]


def plan_linked(facts: Facts, bare: LinkedPlan) -> LinkedPlan:
    """Share the budget among families, in the kind of loss that leaves less noise; refuse what would take too long."""
    _check_sizes(bare)
    weights: dict[str, float] = {}
    sizes = {name: bare.sizes(name, {}) for name in bare.tables}
    trees = {f"cells of {name}": len(bare.grids(name)) for name in bare.tables if bare.grids(name)}
    levels = {f"levels of {name}": len(many) for name, schema in bare.tables.items() if (many := many_level_columns(schema))}
    columns = {f"columns of {name}": len(of_table) for name, of_table in sizes.items()}
    for link in bare.links:
        columns[f"columns of {link.table}"] *= 1 + (link.order is not None)
    pairs = {family.name: len(family.pairs) for family in bare.families(sizes)}
    favor = {f"siblings of {link.table}": _SIBLINGS_BESIDE_HEADS for link in bare.links if link.head is not None}
    if all(link.of != bare.root or link.order is None for link in bare.links):  # histories need theirs more
        favor[bare.own_pairs] = _OWN_BESIDE_HEADS if favor else _OWN
    for share, numbers in zip(_SHARES.values(), (trees, levels, columns, pairs), strict=True):
        thirds = {name: n_tables**_POWER * favor.get(name, 1.0) for name, n_tables in numbers.items()}
        weights |= {name: share * third / sum(thirds.values()) for name, third in thirds.items()}
    options = []
    for budget in budgets_of(facts):
        rho = None if budget.rho is None else "gaussian" if budget.gaussian else "zcdp"
        plan = replace(bare, spends_delta=rho is not None, rho=rho, shares=split_share(budget, weights))
        options.append((_mean_noise(plan, {**columns, **pairs}, facts.neighboring), plan))
    made = min(options, key=lambda option: option[0])[1]
    made = made if made.rho is not None else _prefer_grams(facts, made, sizes, trees, levels)
    n_tables = {**{name: _LEVELS * n for name, n in trees.items()}, **levels, **columns, **pairs}
    _check_scales(facts, made, {name: n for name, n in n_tables.items() if name in made.shares}, sizes)
    return _weigh_alike(facts, made, sizes)


def _weigh_alike(facts: Facts, made: LinkedPlan, sizes: Mapping[str, Sequence[int]]) -> LinkedPlan:
    """Let all rows of up to three of one parent weigh the same where noise is low, as models of unlike weights then err more than noise."""
    fewest, links = dict[str, int](), {link.table: link for link in made.links}
    for family in made.families(sizes):
        if family.kind == "cross" and all(link.of != family.table for link in made.links):
            noise = mechanism(Marginals.sensitivity(facts.neighboring, len(family.pairs)), made.shares[family.name]).deviation
            n_cells = np.mean([family.sizes[i] * family.sizes[j] for i, j in family.pairs])
            is_low = noise * n_cells / math.sqrt(2 * math.pi) < _LOW_NOISE * (facts.n_samples or 0)
            fewest[family.table] = min(_ALIKE, most_of(links[family.table])) if is_low else 1
    return replace(made, fewest=fewest)


def _check_sizes(plan: LinkedPlan) -> None:
    for table, place, _ in plan.heads:
        if (name := list(plan.tables[table])[place]) in many_level_columns(plan.tables[table]):
            raise ValueError(f"head must name columns of at most {MAX_CODES} levels, but {list_names([name])} has more; merge levels.")
    for link in plan.links:
        if link.of in plan.histories:
            raise ValueError(
                f"links must hang no table on a history, but {short_repr(link.table)} hangs on {short_repr(link.of)}, which has an order; "
                "leave order out, or the table."
            )
        n_columns = len(plan.tables[link.of]) + 2 * len(plan.tables[link.table])
        if n_columns > ONE_BLOCK:
            raise ValueError(
                f"schemas of {short_repr(link.of)} and {short_repr(link.table)} must have few columns, at most {ONE_BLOCK} in a row with "
                f"two of its children and what links add, but have {n_columns}; leave columns out."
            )


def _prefer_grams(facts: Facts, made: LinkedPlan, sizes: Mapping[str, Sequence[int]], *before: Mapping[str, int]) -> LinkedPlan:
    """Return the plan with a Gram matrix of each link in place of tables, where these have less noise: of many columns, at a pure loss."""
    bare = replace(made, takes_gram=True)
    grams = {family.name: family for family in (bare.gram_of(link, sizes) for link in bare.links)}
    others = {family.name: _OWN_BESIDE_GRAMS if family.name == bare.own_pairs else 1.0 for family in bare.families(sizes)}
    if facts.share.is_infinite or any(sum(family.sizes) - len(family.sizes) >= MOST_GRAM_ROWS for family in grams.values()):
        return made
    weights = {**dict.fromkeys(grams, _GRAM), **others}
    of_bins = {name: _SHARES["cells"] * sum(weights.values()) / len(of_step) for of_step in before for name in of_step}
    plan = replace(bare, shares=split_share(facts.share.pure, {**of_bins, **weights}))
    errors, relation = [], facts.neighboring
    for name, family in grams.items():
        first, *more = (made.shares[each.name] for each in made.families(sizes) if each.table in (family.table, made.root))
        share = sum(more, start=first)
        public = (relation, facts.n_samples, family.weights)
        try:
            of_tables = PairRelease.choose((*family.sizes, 1), family.pairs, 1.0, share, *public)
            gram = GramRelease.choose((*family.sizes, 1), plan.shares[name], *public)
        except (ArithmeticError, ValueError):  # its scale is too large to be sampled
            return made
        errors.append(gram.deviation / of_tables.deviation)
    return plan if max(errors) < 1 else made


def _check_scales(facts: Facts, plan: LinkedPlan, n_tables: Mapping[str, int], sizes: Mapping[str, Sequence[int]]) -> None:
    """Refuse noise that is too large to be sampled, of some releases of so many tables each; bounds that are bought change nothing here."""
    totals = {f"{step} of {table}": total for step in ("cells", "levels", "columns") for table, total in plan.totals.items()}
    totals |= {family.name: family.weights.total for family in plan.families(sizes)}
    for name, n in n_tables.items():
        try:
            mechanism(Marginals.sensitivity(facts.neighboring, n).times(totals[name]), plan.shares[name])
        except ValueError:
            raise ValueError(
                f"epsilon must leave noise of a scale of 2**58 or less on {name}, whose weights sum to {totals[name]:,}, got "
                f"{float(facts.epsilon):g} for all counts; raise epsilon, or state a smaller most."
            ) from None


def _mean_noise(plan: LinkedPlan, n_tables: Mapping[str, int], relation: str) -> float:
    """Return the logarithm of the deviation of tables, in the mean over families."""
    deviations = [mechanism(Marginals.sensitivity(relation, n), plan.shares[name]).deviation for name, n in n_tables.items()]
    return sum(math.log(max(deviation, 1e-12)) for deviation in deviations) / len(deviations)
