"""The plan of strategy "marginals": the budget of each step, and limits on its time, by public numbers; choices of pairs and triples."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Grid, Nominal, Schema, Tie, cuts_of, grids_of, list_names
from skdpsynth.exceptions import BoundsWarning
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.frames import Rows
from skdpsynth.models import (
    MAX_TUPLES,
    MIN_ROWS,
    Codes,
    DifferenceLaw,
    NoisyTables,
    TableModel,
    candidate_triples,
    max_pair_counts,
    max_tuples,
    most_dependent_triples,
    shares_of,
    triple_frequencies,
)
from skdpsynth.privacy import Mechanism, PrivacyLoss, losses_of_kind, mechanism, selection_loss
from skdpsynth.statistics import Marginals, Query, Trees, dependences, distances, sensitivity_of_dependences, total
from skdpsynth.synthesis._latent_releases import GramRelease, Pair, PairRelease

# Shares of the budget, in proportion for the steps that there are. Up to ONE_BLOCK columns, others do about as well.
_SHARES = {"counts of cells": 0.1, "counts of levels": 0.1, "counts of columns": 0.2, "counts of pairs": 0.7}
# Predicting a class needs columns above all: .2 was too little for it, at the same distance of pairs.
_SHARES_OF_CLASSES = {"counts of cells": 0.03, "counts of levels": 0.1, "counts of columns": 0.42, "counts of pairs": 0.55}
_SHARES_OF_BLOCKS = {
    **{"counts of cells": 0.2, "counts of levels": 0.2, "counts of columns": 0.3, "counts of pairs, merged": 0.2, "counts of pairs": 0.3}
}
_OF_CODES = 2  # times the share of what chooses codes, in a block of a stream: later rows are counted in them, too
ONE_BLOCK = 40  # columns up to which every pair is counted
_PARTS_OF_COLUMNS = (0.25, 0.3, 0.4, 0.5, 0.6)  # of what columns and pairs have together, where more than usual is better
_FOR_CELLS = 0.2  # of what pairs have, which cells get in a table of numbers alone: its bins are few, so cells tell more
_LEAST_BINS, _BINS, _MOST_BINS = 3, 16, 24  # of a continuous column
_CLEAR = 4  # times the noise of a pair: so many rows of a bin pay for more bins, and of a cell of a pair, for as many
_EXACT = 1e-12  # variance
_USUAL_DEPTH, _USUAL_SIZE = 12, 8  # of a tree of cells, and of a column, where the true ones may not be asked for
MANY_CLASSES = 10  # more have no rounds beyond pairs: noise of all adds up
MAX_CODES = 64  # of a nominal column: more levels are merged
_SURE = 10  # times the noise of a count: so many rows are more than noise
_SURE_OF_FIRST = 10.5  # ... in the first block of a stream, if all of the budget went to tables of pairs
_MAX_TABLES = 1 << 19  # of pairs of columns, all of which are counted, merged: of 1024 columns, which take about a minute
_MAX_COUNTS = 1 << 24  # of pairs of codes, in all classes: a model of so many takes about a quarter of a minute
PAIRS, LOOK, CHOICE = "counts of pairs", "spread of dependence", "choice of pairs"
GRAM = "Gram matrix of columns and pairs"
MOST_GRAM_ROWS, _MOST_GRAM_CODES = 512, 800  # of all columns: a fit of so many codes takes some ten seconds
_LEAST_EPSILON, _LARGEST_EPSILON = 2.0**-20, 1024  # beyond, the scale of matrix noise may be too large or too small to be sampled
# Times the expected error of other releases: a Gram matrix is taken where it leaves less; and the same of few rows. Beside tables, little
# gain in expected error has been none in fact, of few rows above all. Interactions have noise of the same form; but of few rows, Gaussian
# noise alone leaves enough for a search of dependence beyond pairs.
_GAIN_OVER_TABLES, _GAIN_OVER_INTERACTIONS = (0.75, 0.55), (0.95, 0.75)
_FEW_ROWS, _USUAL_ROWS = 5000, 2000  # times epsilon; and where the number of rows is private
USUAL_ROWS_OF_SEARCHES = 20_000  # where the number of rows is private, and a delta may buy a round of triples, or a search
_USUAL_BLOCK = 12  # columns
_SHARES_OF_CHOICE = {LOOK: 0.05, CHOICE: 0.57, PAIRS: 0.38}  # of what pairs would have alone
_LARGER = 16  # times the share of a pair, that of one that is chosen, pays for choosing it
_STRONG = Fraction(1, 2)  # of the rows: the distance of a pair whose columns have a correlation of about .75
_CHOICE_MARGIN = 1.5  # scales of a choice by which such a pair stands out, beyond the logarithm of the number of pairs
_DROWNED = 3  # times the noise of all pairs: of fewer rows they say nothing
_SEEN = 20  # times the noise of a look: so many rows pay for one
_WIDE = 0.1  # of the rows: a distance of the upper quartile beyond which dependence is in most pairs, and all are counted
SPLITS = 7  # of a column, at most
DISTANCES, TRIPLES = "distances of triples", "counts of triples"
_SHARES_OF_TRIPLES = {PAIRS: 0.75, DISTANCES: 0.02, TRIPLES: 0.23}  # of what pairs would have alone
_MOST, _CONSIDERED = 20, 60  # triples
_SHARES_OF_WITHIN = {PAIRS: 0.5, TRIPLES: 0.5}
_MOST_CELLS = 4096  # of a triple, in all classes
_CLEAR_OF_TRIPLES, _CLEAR_WITHIN = 3000, 300  # times the noise of a count: so many rows pay for a second round
Triple = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class MarginalsPlan(Plan):
    """The steps of counting, and their shares of the budget."""

    schema: Schema
    stratum: Hashable = None  # a column
    within: Hashable = None  # a column, in whose levels pairs of the others shall be right
    n_factors: int = 1
    n_samples: int | None = None  # where it is public
    shares: Mapping[str, PrivacyLoss] = field(default_factory=dict)  # of each step, in their order, by the name of its release
    ties: tuple[Tie, ...] = ()  # constraints of the schema on several columns
    is_block: bool = False  # whether it is a block of a stream, which is counted only: the model is that of all blocks
    codes: Codes | None = None  # released by earlier blocks
    chooses: bool = True  # whether codes are chosen (anew, by these counts and the earlier ones); else they stay, and cost nothing
    in_database: bool = False  # whether rows are better not read
    prior: Rows | None = None  # a public table of the same columns, on which no release but the choice of parities depends

    @cached_property
    def places(self) -> dict[Hashable, int]:
        return {name: place for place, name in enumerate(self.schema)}

    @cached_property
    def grids(self) -> dict[Hashable, Grid]:
        return grids_of(self.schema)

    @cached_property
    def names(self) -> list[Hashable]:
        """Names of the columns, without the stratum."""
        return [name for name in self.schema if name != self.stratum]

    @cached_property
    def kinds(self) -> list[Any]:
        """Kinds of the columns, without the stratum."""
        return list(map(self.schema.__getitem__, self.names))

    @cached_property
    def planned_sizes(self) -> list[int]:
        """Approximate number of codes of the columns that have tables."""
        return [_BINS + kind.nullable if isinstance(kind, Continuous) else min(kind.n_codes, MAX_CODES) for kind in self.kinds]

    @property
    def place_within(self) -> int | None:
        return None if self.within is None else self.names.index(self.within)

    @property
    def n_classes(self) -> int:
        return 1 if self.stratum is None else self.schema[self.stratum].n_codes

    @property
    def counts_all_pairs(self) -> bool:
        """Whether the columns form one block, all of whose pairs may be counted."""
        return GRAM in self.shares or (PAIRS in self.shares and "counts of pairs, merged" not in self.shares)

    @property
    def pair_step(self) -> str:
        """The step that counts pairs."""
        return GRAM if GRAM in self.shares else PAIRS


def plan_steps(facts: Facts, bare: MarginalsPlan) -> MarginalsPlan:
    """Share the budget among the steps that this schema needs; refuse what would take too long."""
    _check_size(bare)
    _check_structural_zeros(bare)
    schema, n_columns, relation = bare.schema, len(bare.kinds), facts.neighboring
    has_blocks = n_columns > ONE_BLOCK
    has_step = {
        "counts of cells": bare.chooses and any(isinstance(kind, Continuous) for kind in schema.values()),
        "counts of levels": bare.chooses and bool(many_level_columns(schema)),
        "counts of columns": True,
        "counts of pairs, merged": bare.chooses and has_blocks,
        "counts of pairs": n_columns > 1,
    }
    usual = _SHARES_OF_BLOCKS if has_blocks else _SHARES if bare.stratum is None else _SHARES_OF_CLASSES
    more = 0.0 if has_blocks else round(_FOR_CELLS * _numeric_weight(bare.kinds), 2)  # hundredths: a ledger is read by people
    weights = {}
    for name in filter(has_step.__getitem__, usual):
        weights[name] = round(usual[name] + {"counts of cells": more, "counts of pairs": -more}.get(name, 0), 2)
        if bare.is_block and name in ("counts of cells", "counts of levels"):
            weights[name] *= _OF_CODES
    options = []
    for budget in budgets_of(facts):
        rho = None if budget.rho is None else "gaussian" if budget.gaussian else "zcdp"
        options.append(replace(bare, spends_delta=rho is not None, rho=rho, shares=split_share(budget, weights)))
    made = min(options, key=lambda option: _noise_error(option, relation)) if len(options) > 1 else options[0]
    if PAIRS in weights:
        made = _prefer_gram(facts, made if has_blocks else _optimize_column_share(made, relation), weights)
    if facts.n_samples is not None:
        warn_of_noise(facts, made, relation, facts.n_samples)
    if not facts.delta and facts.epsilon != math.inf:
        with_delta = plan_steps(facts.part(delta=facts.usual_delta), bare)
        facts.warn_if_delta_helps(_largest_deviation(made, relation), _largest_deviation(with_delta, relation))
    return made


def _prefer_gram(facts: Facts, made: MarginalsPlan, weights: Mapping[str, float]) -> MarginalsPlan:
    """Return the plan with one Gram matrix in place of tables of columns and pairs, where it leaves clearly less error, by public numbers.

    Its noise is pure, so a delta is not spent then. Codes that were bought may decide: what follows costs no more of epsilon and of delta
    than is left of each, in either case. Where it would drown most pairs all the same, and few of them can be chosen, these are counted:
    the strongest dependences are then kept, at some cost in all others.
    """
    sizes, relation = made.planned_sizes, facts.neighboring
    if facts.rho or facts.takes_delta or not _LEAST_EPSILON <= facts.epsilon <= _LARGEST_EPSILON:
        return made
    if sum(sizes) > _MOST_GRAM_CODES or sum(sizes) - len(sizes) >= MOST_GRAM_ROWS:
        return made
    if TRIPLES in plan_triples(made, [*sizes, made.n_classes], facts.n_samples or USUAL_ROWS_OF_SEARCHES, relation, ()).shares:
        return made
    kept = {name: weight for name, weight in weights.items() if name in ("counts of cells", "counts of levels")}
    shares = split_share(facts.share.pure, {**kept, GRAM: round(sum(weights.values()) - sum(kept.values()), 2)})
    plan = replace(made, spends_delta=False, rho=None, shares=shares)
    if (n := facts.n_samples) and PairSelection.of(made, relation, n) and _drowns_pairs(plan, relation, n):
        return made
    n_rows, gains = (USUAL_ROWS_OF_SEARCHES, _GAIN_OVER_INTERACTIONS) if made.rho else (_USUAL_ROWS, _GAIN_OVER_TABLES)
    gain = gains[(facts.n_samples or n_rows) * facts.epsilon < _FEW_ROWS]
    errors = [_cell_deviation(each, relation) * _plan_pairs(each, relation).error for each in (plan, made)]
    return plan if errors[0] < gain * errors[1] else made


def _check_size(plan: MarginalsPlan) -> None:
    """Refuse a schema that would take too long or too much memory, by public numbers."""
    sizes = []  # the most codes that each column may have in tables of pairs
    for kind in plan.kinds:
        n_codes = 2 * _MOST_BINS + kind.nullable if isinstance(kind, Continuous) else kind.n_codes
        sizes.append(min(n_codes, MAX_CODES + kind.nullable) if isinstance(kind, Nominal) else n_codes)
    if math.comb(len(sizes), 2) > _MAX_TABLES:
        raise ValueError(
            f"schema has {len(sizes)} columns, whose pairs are more than {_MAX_TABLES} tables and would take minutes; leave columns out."
        )
    if max_pair_counts(sizes, len(sizes) > ONE_BLOCK) * plan.n_classes > _MAX_COUNTS:
        raise ValueError(
            f"schema has {sum(sizes)} levels and bins in all (in {plan.n_classes} classes of stratify), whose pairs are more than "
            f"{_MAX_COUNTS} counts and would take minutes; merge levels, or leave columns out."
        )


def _check_structural_zeros(plan: MarginalsPlan) -> None:
    """Refuse rules with too many combinations for the model, or on merged levels, by public facts."""
    schema = plan.schema
    many, cuts = many_level_columns(schema), cuts_of(schema.whole, schema.rules)
    for tie in plan.ties:
        told = {name for each in tie.allowed for name, score in each.scores.items() if len(score.levels)}
        for name in (each for each in many if each in told):
            raise ValueError(
                f"rules must name levels of columns of at most {MAX_CODES}, but {list_names([name])} has {len(schema[name].levels)} that "
                "are merged; leave the rule out, or merge levels."
            )
        if (n_tuples := max_tuples(tie, schema, cuts)) > MAX_TUPLES:
            raise ValueError(
                f"rules must tie columns that have at most {MAX_TUPLES} combinations of levels and ranges, but {list_names(tie.columns)} "
                f"may have {n_tuples}; merge levels, or leave a rule out."
            )


def many_level_columns(schema: Schema) -> list[Hashable]:
    """Return the nominal columns whose levels are merged for the tables of pairs."""
    return [name for name, kind in schema.items() if isinstance(kind, Nominal) and len(kind.levels) > MAX_CODES]


def split_share(share: PrivacyLoss, weights: Mapping[str, float]) -> dict[str, PrivacyLoss]:
    return dict(zip(weights, share.split(list(weights.values())), strict=True))


def _numeric_weight(kinds: Sequence[Any]) -> float:
    """Return 0 where half of the columns or fewer are numbers, up to 1 where all are; a public fact."""
    return max(0.0, 2 * sum(isinstance(kind, Continuous) for kind in kinds) / max(len(kinds), 1) - 1)


def budgets_of(facts: Facts) -> list[PrivacyLoss]:
    """Return the whole budget in each kind of loss that the noise of every step may have: rho if there is a delta, or epsilon."""
    if not facts.delta or facts.share.is_infinite:
        return [facts.share.pure]
    pure = [] if facts.rho or facts.takes_delta else [facts.share.pure]
    try:
        # Beside what was bought there is one kind alone: with two, which has less noise could follow from that.
        of_kinds = losses_of_kind("gaussian", facts.gaussian_part(0).share)[:1] if facts.bought else losses_of_kind("gaussian", facts.share)
    except (ArithmeticError, ValueError):
        raise ValueError(
            f"epsilon is too large to go with delta={float(facts.delta):g}, got {short_repr(facts.epsilon)}; use delta=0."
        ) from None
    return pure + [loss for loss in of_kinds if facts.rho in (None, "gaussian" if loss.gaussian else "zcdp")]


def _noise_error(plan: MarginalsPlan, relation: str) -> float:
    """Return the noise of a plan, to compare kinds of noise: the product of the errors of cells and of the last tables.

    It depends on the number of columns, but not on their levels, bounds or bins, which may have been bought: the kind of noise for all of
    a budget must not follow from the release of a part of it.
    """
    of_cells = _cell_deviation(plan, relation)
    if not plan.counts_all_pairs:
        return of_cells * math.prod(_table_deviations(plan, relation))
    return of_cells * _plan_pairs(plan, relation, [_USUAL_SIZE] * len(plan.kinds)).error


def _cell_deviation(plan: MarginalsPlan, relation: str) -> float:
    """Return the deviation of the noise on a count of a cell, of trees of the usual depth; 1 where there are none."""
    if "counts of cells" not in plan.shares:
        return 1.0
    n_trees = sum(isinstance(kind, Continuous) for kind in plan.schema.values())
    return mechanism(Trees.sensitivity(relation, [_USUAL_DEPTH] * n_trees), plan.shares["counts of cells"]).deviation


def _optimize_column_share(plan: MarginalsPlan, relation: str) -> MarginalsPlan:
    """Give the columns more of the joint share of columns and pairs, where that makes the counts of pairs more exact.

    Interactions contain no margins, so where columns have few levels, such as two, the counts of columns limit those of pairs.
    """
    first, second = plan.shares["counts of columns"], plan.shares["counts of pairs"]
    if first.rho is None:
        return plan
    options, usual = [plan], float(first.rho / (first.rho + second.rho))
    for part in (part for part in _PARTS_OF_COLUMNS if part > usual):
        of_columns, of_pairs = replace(first, rho=first.rho + second.rho).split([part, 1 - part])
        options.append(replace(plan, shares={**plan.shares, "counts of columns": of_columns, "counts of pairs": of_pairs}))
    return min(options, key=lambda option: _plan_pairs(option, relation).error)


def _plan_pairs(plan: MarginalsPlan, relation: str, sizes: Sequence[int] | None = None) -> PairRelease | GramRelease:
    """Return the release of pairs of columns, of the planned sizes or of these: of all pairs, or of those in blocks of the usual size."""
    sizes = [*(plan.planned_sizes if sizes is None else sizes), plan.n_classes]
    if GRAM in plan.shares:
        return GramRelease.choose(sizes, plan.shares[GRAM], relation, plan.n_samples)
    n_columns = len(plan.kinds)
    column_variance = mechanism(Marginals.sensitivity(relation, n_columns), plan.shares["counts of columns"]).variance
    width = n_columns if plan.counts_all_pairs else _USUAL_BLOCK
    blocks = [range(start, min(start + width, n_columns)) for start in range(0, n_columns, width)]
    pairs = [pair for block in blocks for pair in combinations(block, 2)]
    return PairRelease.choose(sizes, pairs, column_variance, plan.shares[PAIRS], relation, plan.n_samples)


def _largest_deviation(plan: MarginalsPlan, relation: str) -> float:
    """Return the largest deviation of the noise on the steps whose number of tables is public."""
    if not plan.counts_all_pairs:
        return max(_table_deviations(plan, relation))
    pairs = _plan_pairs(plan, relation)
    return max(math.sqrt(pairs.column_variance), pairs.deviation)


def _table_deviations(plan: MarginalsPlan, relation: str) -> list[float]:
    if GRAM in plan.shares:
        return [math.sqrt(_plan_pairs(plan, relation).column_variance)]
    n_tables = {"counts of columns": len(plan.kinds), "counts of pairs, merged": math.comb(len(plan.kinds), 2)}
    steps = [name for name in n_tables if name in plan.shares]
    return [mechanism(Marginals.sensitivity(relation, n_tables[name]), plan.shares[name]).deviation for name in steps]


def warn_of_noise(warner: Facts | Budget, plan: MarginalsPlan, relation: str, n: float) -> None:
    """Let facts or a budget warn, by public or noisy numbers, of the effect of noise on tables of n rows."""
    deviation = max(_table_deviations(plan, relation))
    if deviation > n / _SURE:
        warner.warn(
            f"the noise of each count has a standard deviation of {deviation:.3g}, more than a tenth of the rows, so synthetic rows "
            "may tell little; use more rows, a larger epsilon, delta > 0 or fewer columns."
        )
        return
    if len(plan.kinds) > 1 and plan.counts_all_pairs and _drowns_pairs(plan, relation, n):
        warner.warn(
            f"Noise is as large as the counts of most of the {math.comb(len(plan.kinds), 2)} pairs of columns, at so many rows and this "
            "budget, so only strong dependences are kept: use more rows, a larger epsilon or fewer columns."
        )
        return
    numbers = [name for name, kind in plan.schema.items() if isinstance(kind, Continuous)]
    if numbers and bin_growth(plan, relation, n) is None:
        warner.warn(
            f"Noise hides where the numbers of {list_names(numbers)} end within their bounds, at so many rows and this budget: if bounds "
            "are many times too wide, means and deviations of synthetic rows may be too large. Narrow them by what is publicly known, or "
            "use more rows or a larger epsilon.",
            BoundsWarning,
        )


def _drowns_pairs(plan: MarginalsPlan, relation: str, n: float) -> bool:
    """Whether noise alone makes as much total variation as there is, in the mean pair of columns of n rows."""
    n_bins = choose_n_bins(plan, relation, n)
    sizes = [n_bins if isinstance(kind, Continuous) else size for kind, size in zip(plan.kinds, plan.planned_sizes, strict=True)]
    n_cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / (2 * math.comb(len(sizes), 2))  # of the mean pair
    # Half the mean absolute value of Gaussian noise in each cell.
    return n_cells * _plan_pairs(plan, relation, sizes).deviation / math.sqrt(2 * math.pi) > n


def least_rows(plan: MarginalsPlan, relation: str) -> int:
    """Return the least number of rows of the first block of a stream: a public number.

    It is measured by the noise that the tables of all pairs of columns would have for the whole budget. So the shares of the steps do not
    move it.
    """
    first, *others = plan.shares.values()
    sensitivity = Marginals.sensitivity(relation, max(1, math.comb(len(plan.kinds), 2)))
    return math.ceil(_SURE_OF_FIRST * mechanism(sensitivity, sum(others, start=first)).deviation)


def choose_n_bins(plan: MarginalsPlan, relation: str, n_rows: float) -> int:
    """Return the number of bins of a column of numbers, by public and noisy numbers: more where the noise of pairs is small.

    In a table of numbers there are fewer than usual where that noise is large. With K bins a column, the noise on a correlation is in
    proportion to K - 1, as a row moves the table of a pair by the same amount for any number of cells, while few bins lose little of a
    smooth law (`RefinedBins` restores it within them). So there are as many as leave each cell of a pair, in the geometric mean over the
    other columns, `_CLEAR` times the noise. Blocks of a stream keep the usual number: more rows may be counted in their bins.
    """
    if not plan.counts_all_pairs or not any(isinstance(kind, Continuous) for kind in plan.kinds):
        return _BINS
    noise = _plan_pairs(plan, relation).deviation
    if not noise:
        return _MOST_BINS
    few = 0.0 if plan.is_block else _numeric_weight(plan.kinds)
    sizes = [size for size, kind in zip(plan.planned_sizes, plan.kinds, strict=True) if not isinstance(kind, Continuous)]
    n_others = len(plan.kinds) - 1
    # Tables of all classes inform the same factors, so their noise adds up.
    logarithm = n_others * math.log(n_rows / (_CLEAR * noise * math.sqrt(plan.n_classes))) - float(np.log(sizes).sum())
    if (found := _BINS ** (1 - few) * math.exp(logarithm / (2 * n_others - len(sizes))) ** few) < _BINS:
        return max(round(found), _LEAST_BINS)
    return int(np.clip(n_rows / (_CLEAR * noise), _BINS, _MOST_BINS))


def bin_growth(plan: MarginalsPlan, relation: str, n_rows: float) -> float | None:
    """Return how many times as wide as all bins between an outer bin may be, by public and noisy numbers; None if noise hides it.

    Only narrow bins show where rows end. But the rows of one must stand out of the noise of all bins that it is cut into: so bins double
    where a bin of the usual mass, cut in as many as there are levels of cells, has `_CLEAR` times their noise, and else grow faster.
    """
    sizes = plan.planned_sizes
    if plan.counts_all_pairs:
        pairs = _plan_pairs(plan, relation, sizes)
        precision = 1 / max(pairs.column_variance, _EXACT)
        if pairs.over is None:  # tables tell of columns, too
            precision += (len(sizes) - 1) / max(pairs.deviation**2 * float(np.mean(sizes)), _EXACT)
    else:
        precision = 1 / max(mechanism(Marginals.sensitivity(relation, len(sizes)), plan.shares["counts of columns"]).variance, _EXACT)
    rows = n_rows * math.sqrt(precision / plan.n_classes)
    return None if rows < MIN_ROWS else 2.0 ** max(1.0, _USUAL_DEPTH * (_MOST_BINS * _CLEAR / rows) ** 2)


def answer_query(
    query: Query, share: PrivacyLoss, budget: Budget, name: str, kinds: Sequence[str] = ("laplace", "gaussian")
) -> tuple[np.ndarray, Mechanism]:
    noise = mechanism(query.sensitivity, share, kinds, len(query.values))
    return budget.answer(query, noise, name), noise


@dataclass(frozen=True, eq=False)
class PairSelection:
    """The number of pairs to choose, and their shares of the budget."""

    n_pairs: int
    shares: Mapping[str, PrivacyLoss]  # of a look at the spread of dependence, where that is worth it, of the choices, and of the counts
    n_rows: int  # public or estimated
    n_bins: int  # of a column of numbers

    @classmethod
    def of(cls, plan: MarginalsPlan, relation: str, n_rows: float) -> "PairSelection | None":
        """Return the selection that pays better than counting all pairs, by public numbers and the noisy number of rows; None if none does.

        A choice costs more, the more pairs there are and the weaker the dependences it looks for. One choice for each of the t pairs of
        strong dependence that the share pays for would be many for tables of many rows, with noise on all their counts: so there are the
        root of t, which finds weaker pairs, too. They pay where each is counted at `_LARGER` times the share of each of all pairs: with
        Gaussian noise, the noise is smaller by the root of that.
        """
        if not plan.counts_all_pairs or GRAM in plan.shares or plan.is_block or plan.stratum is not None:
            return None
        share, n_columns, n_rows = plan.shares[PAIRS], len(plan.schema), max(1, round(n_rows))
        if share.is_infinite or n_columns < 3:
            return None
        n_all, of_all = math.comb(n_columns, 2), mechanism(Marginals.sensitivity(relation, math.comb(n_columns, 2)), share).deviation
        shares = split_share(share, _SHARES_OF_CHOICE)
        look = mechanism(sensitivity_of_dependences(relation, n_all, n_all // 4 + 1), shares[LOOK]).deviation
        if n_rows < _DROWNED * of_all or n_rows < _SEEN * look:
            shares = split_share(share, {name: weight for name, weight in _SHARES_OF_CHOICE.items() if name != LOOK})
        scale = _STRONG * n_rows / Fraction(round(64 * (math.log(n_all) + _CHOICE_MARGIN)), 64)
        sup = sensitivity_of_dependences(relation, n_all).times(share.rows).sup
        n_affordable = loss_ratio(shares[CHOICE], selection_loss(sup, scale, share))
        if n_affordable < 1:
            return None
        n_pairs = min(math.ceil(math.sqrt(n_affordable)), n_columns - 1)
        if n_all * loss_ratio(shares[PAIRS], share) < _LARGER * n_pairs:
            return None
        of_few = mechanism(Marginals.sensitivity(relation, n_pairs), shares[PAIRS]).deviation
        n_bins = int(np.clip(round(math.sqrt(n_rows / (_CLEAR * of_few))), _LEAST_BINS, _BINS))
        return cls(n_pairs, shares, n_rows, n_bins)

    def choose(
        self, rows: Rows, sizes: Sequence[int], splits: Sequence[np.ndarray], plan: MarginalsPlan, budget: Budget
    ) -> tuple[list[Pair], MarginalsPlan]:
        """Return the pairs to count, and the plan with the share that is left for them.

        They are all pairs if a look shows that most depend on each other. Else they are chosen one after the other, and none closes a
        circle of earlier ones: most of its information would follow from them. `rows` are codes, and `splits` those of `dependences`.
        """
        pairs = list(combinations(range(len(sizes)), 2))
        exact = total(rows, Marginals.over(list(sizes), pairs))
        if LOOK in self.shares:
            query = dependences(exact, pairs, splits, self.n_rows, budget.relation, len(pairs) // 4 + 1)
            if budget.answer(query, mechanism(query.sensitivity, self.shares[LOOK]), LOOK)[0] > _WIDE * self.n_rows:
                return pairs, _with_pair_share(plan, self.shares[CHOICE] + self.shares[PAIRS])
        query, part = dependences(exact, pairs, splits, self.n_rows, budget.relation), list(range(len(sizes)))
        left, chosen = list(range(len(pairs))), list[Pair]()
        for number, share in enumerate(self.shares[CHOICE].split([1] * self.n_pairs), start=1):
            some = sensitivity_of_dependences(budget.relation, len(left))
            place = budget.choose(replace(query, values=query.values[left], sensitivity=some), share, f"{CHOICE} {number}")
            i, j = pairs[left[place]]
            chosen.append((i, j))
            part = [part[i] if each == part[j] else each for each in part]
            left = [each for each in left if part[pairs[each][0]] != part[pairs[each][1]]]
        return sorted(chosen), _with_pair_share(plan, self.shares[PAIRS])


def loss_ratio(loss: PrivacyLoss, other: PrivacyLoss) -> float:
    """Return how many losses like another one, of the same kind, add up to this one."""
    return float(loss.epsilon / other.epsilon if loss.rho is None else loss.rho / other.rho)


def _with_pair_share(plan: MarginalsPlan, share: PrivacyLoss) -> MarginalsPlan:
    return replace(plan, shares={**plan.shares, PAIRS: share})


def column_splits(shares: np.ndarray, kind: object) -> np.ndarray:
    """Return splits of a column by its noisy counts or masses: edges between codes, or one code and all others."""
    mass, n_splits = np.maximum(shares, 0.0), min(SPLITS, len(shares) - 1)
    codes = np.arange(len(mass))
    if isinstance(kind, Nominal):
        return codes == np.argsort(-mass, kind="stable")[: n_splits if n_splits < 2 else n_splits + (len(mass) <= SPLITS), None]
    if n_splits < SPLITS:
        return codes < codes[1:, None]
    upto = np.cumsum(mass) / max(mass.sum(), 1e-9)
    edges = np.unique(np.clip(np.searchsorted(upto, np.arange(1, n_splits + 1) / (n_splits + 1)) + 1, 1, len(mass) - 1))
    return codes < edges[:, None]


def plan_triples(plan: MarginalsPlan, sizes: Sequence[int], n_rows: float, relation: str, near: Sequence[DifferenceLaw]) -> MarginalsPlan:
    """Share what pairs have with a second round where it pays, by public numbers and the noisy number of rows."""
    if plan.is_block or not plan.counts_all_pairs or GRAM in plan.shares or plan.n_classes > MANY_CLASSES:
        return plan
    share, has_all, clear = plan.shares[PAIRS], plan.within is not None, _CLEAR_OF_TRIPLES if plan.within is None else _CLEAR_WITHIN
    n_triples = len(_candidate_triples(plan, sizes, near))
    if not n_triples or share.rho is None or share.is_infinite:
        return plan
    weights = {name: weight for name, weight in _SHARES_OF_TRIPLES.items() if name != DISTANCES or n_triples > _MOST}
    parts = split_share(share, _SHARES_OF_WITHIN if has_all else weights)
    sensitivity = Marginals.sensitivity(relation, n_triples if has_all else min(n_triples, _MOST))
    noise = mechanism(sensitivity, parts[TRIPLES], ("gaussian",)).deviation
    return replace(plan, shares={**plan.shares, **parts}) if n_rows >= clear * noise else plan


def _candidate_triples(plan: MarginalsPlan, sizes: Sequence[int], near: Sequence[DifferenceLaw]) -> list[Triple]:
    """Return the triples that a second round may count: those with the column `within`, or those of which no two columns are tied."""
    if (within := plan.place_within) is not None:
        return [triple for triple in candidate_triples(sizes[:-1], (), _MOST_CELLS // sizes[-1]) if within in triple]
    return candidate_triples(sizes[:-1], columns_drawn_together(plan, near), _MOST_CELLS // sizes[-1])


def columns_drawn_together(plan: MarginalsPlan, near: Sequence[DifferenceLaw]) -> list[int]:
    tied = {name for tie in plan.ties for name in tie.columns} | {name for each in near for name in (each.first, each.second)}
    return [place for place, name in enumerate(plan.names) if name in tied]


def release_triples(
    rows: Rows,
    sizes: Sequence[int],
    plan: MarginalsPlan,
    budget: Budget,
    near: Sequence[DifferenceLaw],
    model: TableModel,
    totals: np.ndarray,
) -> NoisyTables:
    """Choose all triples with the column `within`, or else those farthest from a model of pairs, with class totals, and release them.

    `rows` are private codes of columns, and last of the class; `sizes` are the numbers of codes of each.
    """
    chosen = _candidate_triples(plan, sizes, near)
    if plan.within is None:
        classes = [model.probabilities(label) for label in range(len(totals))]
        chosen = most_dependent_triples(chosen, classes, shares_of(totals), _CONSIDERED)
    if plan.within is None and len(chosen) > _MOST:
        expected = [
            np.rint([n * triple_frequencies(P, triple) for n, P in zip(totals, classes, strict=True)]).astype(np.int64) for triple in chosen
        ]
        query = distances(_count_triples(rows, sizes, chosen), expected, budget.relation)
        noisy, _ = answer_query(query, plan.shares[DISTANCES], budget, DISTANCES, ("gaussian",))
        chosen = sorted(chosen[place] for place in np.argsort(-noisy, kind="stable")[:_MOST].tolist())
    exact = _count_triples(rows, sizes, chosen)
    noisy, noise = answer_query(exact.query(budget.relation), plan.shares[TRIPLES], budget, TRIPLES, ("gaussian",))
    return NoisyTables(dict(zip(chosen, exact.tables(noisy), strict=True)), noise.variance)


def _count_triples(rows: Rows, sizes: Sequence[int], triples: Sequence[Triple]) -> Marginals:
    return total(rows, Marginals.over(sizes, [(len(sizes) - 1, *triple) for triple in triples]))
