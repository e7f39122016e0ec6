"""The synthesizer of areas in areas."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import Between, check_parameters, short_repr
from skdpsynth.domain import WHOLE, AllowedCells, BoundsLike, Hierarchy, Schema, SchemaLike, Unique, grids_of, is_name, list_names
from skdpsynth.fitting import Budget, Facts, Plan, check_part, clone_part, fit_part
from skdpsynth.frames import ChunkedSource, Rows, Table, TableKind, concatenate, open_source
from skdpsynth.measures import level_shares, shrink_tables, tree_least_squares, tree_variances, whole_counts
from skdpsynth.models import JointDistribution, spread_pairs
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Mechanism, PrivacyLoss, Seed, losses_of_kind, mechanism
from skdpsynth.statistics import CellsOf, Coding, Marginals, total
from skdpsynth.synthesis._base import BATCH, PrivateSynthesizer
from skdpsynth.synthesis._latent_factor import LatentFactorSynthesizer
from skdpsynth.synthesis._latent_planning import MAX_CODES, least_rows
from skdpsynth.tables import TableFormat, continue_table, encode, reading_options, start_table

_MOST_COUNTS = 1 << 24  # of the smallest areas
_MOST_ROWS = 1 << 26
_MOST_SPREAD = 1 << 26  # pairs of columns in all rows of a sample
_MOST_COUNTS_OF_PAIRS = 1 << 24  # of codes, in all parts and areas of a group
_KINDS = 16  # of a column
_FOLD = 4  # kinds of a number that are one in tables of areas: more kinds drown in noise
_ROWS_OF_GROUP = 5  # times the least rows of a table, so many in each group pay for keeping groups apart
_OF_TABLES = 0.08  # of the model's share, for tables of columns in the smallest areas
_SHIFT = 1 / 16  # of the rows of an area: a difference to its group that pays for these tables where noise is less
_POOL = 2.2  # times the rows of a sample, that are drawn of the model at once
_LEFT_OVER, _NO_ROW = -1, 1e-9  # the area of rows that are in none; in place of no row


@dataclass(frozen=True, kw_only=True)
class _AreasPlan(Plan):
    noises: Mapping[str, Mechanism]  # of each level that is counted, by its name
    of_tables: Mechanism | None  # None: there are none
    inner: LatentFactorSynthesizer
    inner_facts: Facts
    n_samples: int | None


@savable
class AreaSynthesizer(PrivateSynthesizer):
    """Synthetic tables with areas in areas: counts of areas that add up from level to level, and rows that agree with them.

    It counts each area of a public tree, in each cell of a few columns such as sex and age group, and joins the noisy counts of all levels
    to whole numbers of at least 0 that add up. All other columns follow the model of a `LatentFactorSynthesizer`, in which larger areas
    are a column. A sample of the default size has exactly the released counts.

    Parameters
    ----------
    schema : dict, Schema or path of a file, default=None
        Public facts about each column but those of areas, as `LatentFactorSynthesizer` takes them; none of them may be private. None: all
        columns are numbers within `bounds`, and there is no hierarchy.
    hierarchy : Hierarchy, default=None
        The public tree of areas, and the columns that say where a row is. None: the whole table is one area.
    by : list of columns, default=()
        Columns of few levels, whose combinations are counted in each area. One rule of the schema may name one of them only.
    synthesizer : LatentFactorSynthesizer, default=None
        The unfitted model of all other columns, which is cloned. None: one with the default parameters.
    groups : "auto" or column, default="auto"
        The level of `hierarchy` on which other columns may differ from area to area. "auto": the last one of at most 64 areas.
    counts_share : float, default=0.68
        Share of the budget for the counts of areas; the model of other columns gets the rest. It is one of rho where all noise is Gaussian.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        0: pure differential privacy. Above 0 the noise is Gaussian where that is less; 1e-6 is common.
    bounds : tuple or dict, default=None
        Public bounds of all columns, used where `schema` is None. None: (0, 1), with a `BoundsWarning`.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated from the counts.
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit`: the most rows of each that count, chosen at random, a public number. `epsilon` protects all of them.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged all of `epsilon` and `delta` before the first draw. None: a new one a `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.
    n_jobs : int, default=None
        Threads for counting; results do not depend on it. None: 1, or what ``joblib.parallel_config`` says.

    Attributes
    ----------
    schema_ : Schema
        With the columns of areas.
    counts_ : dict of str to int64 ndarray
        The released counts by level ("whole", then the names of levels): an axis of areas, as in ``hierarchy.areas``, and one for each
        column of `by`. They are at least 0 and add up.
    noisy_counts_ : dict of str to int64 ndarray
        The counts with noise, exactly as released, of each level that was counted.
    noise_errors_ : dict of str to float
        The standard deviation of the noise of each count in `noisy_counts_`.
    counts_errors_ : dict of str to ndarray
        By level, for each area the standard deviation of the noise of each of its least squares estimates, which `counts_` round: 1.96
        times as much on both sides is an interval of 95 % (less than that, where counts are held at 0). It is public.
    noisy_tables_ : dict of column to int64 ndarray
        For each column outside `by` the noisy counts of its levels (of many: 16 kinds of them), or of four kinds of numbers, in each of the
        smallest areas, exactly as released, shape (n_areas, n_kinds); empty where they do not pay. Those of missing cells come last.
    tables_error_ : float
        The standard deviation of the noise of each count in `noisy_tables_`; 0 where there are none.
    synthesizer_ : LatentFactorSynthesizer
        The fitted model of the other columns. Its column of the smallest areas holds areas of the level `groups`.
    accountant_ : PrivacyAccountant
    n_samples_ : int
        Number of rows; an estimate from the counts (at least 1) under "add_or_remove_one".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its domain, or the columns of `X` are not those of `schema` and `hierarchy`: before any budget is spent.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    See Also
    --------
    skdpsynth.domain.Hierarchy : The public tree.
    LatentFactorSynthesizer : The model of all columns, without a tree.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private under `neighboring`; (epsilon, delta) if delta > 0. On each level a row is counted in
    one cell of one table, so a row that comes or goes changes one count by 1, and one that is replaced two; in k tables of other columns it
    changes k and 2 k (`skdpsynth.statistics.Marginals`). The levels, the model and these tables share the budget (adaptive composition),
    and all else is post-processing.

    *Counts.* The shares of levels follow from the numbers of areas. The noisy counts of all levels are joined by least squares along the
    tree. Then, from the whole down, the parts of each area are the whole numbers of at least 0 nearest to the estimates that add up to it.

    *Rows.* For each released count that many rows are drawn from the model, given the cells of `by` and the area of level `groups`; pairs
    of columns are kept as frequent in each group as the model has them. Then rows of equal cells of `by` change places until pairs are as
    frequent in each area as in its group. Under "replace_one", where areas have many rows for the noise, noisy tables of the columns not
    in `by` are released in each of the smallest areas, for 8 % of the share of the model: then areas of a group differ as far as these
    tables show it beyond noise and chance. Another number of rows is shared among areas in proportion, rounded so that it adds up.

    References
    ----------
    .. [1] Abowd and others (2022), "The 2020 Census Disclosure Avoidance System TopDown Algorithm".
    .. [2] Hay, Rastogi, Miklau, Suciu (2010), "Boosting the accuracy of differentially private histograms through consistency".

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from skdpsynth import AreaSynthesizer
    >>> from skdpsynth.domain import Hierarchy
    >>> rng = np.random.default_rng(0)
    >>> town = rng.choice(["Ash", "Elm", "Oak"], 3000, p=[0.5, 0.3, 0.2])
    >>> X = pd.DataFrame({"town": town, "sex": rng.choice(["f", "m"], 3000), "income": rng.gamma(2, 10, 3000)})
    >>> places = Hierarchy(["county", "town"], {"north": ["Ash", "Elm"], "south": ["Oak"]})
    >>> model = AreaSynthesizer({"sex": ["f", "m"], "income": (0, 100)}, places, by=["sex"], epsilon=1.0, delta=1e-6).fit(X)
    >>> sample = model.sample()
    >>> bool((sample["town"] == "Oak").sum() == model.counts_["county"][1].sum())
    True
    """

    _counts_rows = False  # the counts tell how many there are
    _buys_facts = False

    def __init__(
        self,
        schema: SchemaLike | None = None,
        hierarchy: Hierarchy | None = None,
        *,
        by: Sequence[Hashable] = (),
        synthesizer: BaseEstimator | None = None,
        groups: Literal["auto"] | Hashable = "auto",
        counts_share: float = 0.68,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.schema = schema
        self.hierarchy = hierarchy
        self.by = by
        self.synthesizer = synthesizer
        self.groups = groups
        self.counts_share = counts_share
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        if isinstance(X, Rows):
            raise ValueError(f"{type(self).__name__} must get a table, and not the rows of an estimator around it; fit it by itself.")
        stated, table = self._stated_with_areas(X)
        reader = self._with_schema(stated)
        self._container, rows = start_table(reader, table, self._least_rows)
        names = ("n_features_in_", "feature_names_in_")
        self.__dict__.update({name: vars(reader)[name] for name in names if name in vars(reader)})
        return rows, {"schema": self._container.schema.coded}

    def _with_schema(self, schema: Schema | None) -> Any:
        """Return a copy of this that states the columns of areas too."""
        reader: Any = object.__new__(type(self))
        vars(reader).update({**vars(self), "schema": schema})
        return reader

    def _stated_with_areas(self, X: Table) -> tuple[Schema | None, Any]:
        """Return the schema with kinds and rules of the columns of areas that a table has, and the table, perhaps opened."""
        stated = None if self.schema is None else Schema.of(self.schema)
        if (tree := self.hierarchy) is None:
            return stated, X
        if not isinstance(tree, Hierarchy):
            raise TypeError(f"hierarchy must be None or a Hierarchy, got {short_repr(tree)}; see skdpsynth.domain.Hierarchy.")
        if stated is None:
            raise ValueError("schema must state the other columns where a hierarchy is given, got None; give {column: facts}.")
        if twice := [name for name in tree.levels if name in stated]:
            raise ValueError(f"schema must leave the columns of areas to hierarchy, but states {list_names(twice)}; leave them out.")
        source = open_source(X, **reading_options(self))
        kind = source.kind if isinstance(source, ChunkedSource) else TableKind.of(source.head)
        kinds, rules = tree.columns(kind.columns)
        return Schema({**stated, **kinds}, [*stated.rules, *rules], stated.read), source

    # Public facts of areas, in the order of the columns of the model

    @property
    def _levels(self) -> list[str]:
        return [WHOLE, *(() if self.hierarchy is None else map(str, self.hierarchy.levels))]

    @property
    def _unstated(self) -> tuple:
        """Columns that are read beside those of `schema`."""
        return self.hierarchy.levels if isinstance(self.hierarchy, Hierarchy) else ()

    @property
    def _of_smallest(self) -> np.ndarray:
        """For each level the area that each of the smallest areas lies in."""
        return np.zeros((1, 1), dtype=np.int64) if self.hierarchy is None else self.hierarchy.smallest

    @property
    def _places_of_by(self) -> list[int]:
        return list(map(list(self._container.schema.coded).index, self.by))

    @property
    def _places_outside(self) -> list[int]:
        """Columns that are neither areas nor in `by`."""
        return sorted({*range(len(self._container.schema.coded))} - {self._place_of_areas, *self._places_of_by})

    @property
    def _table_sizes(self) -> list[int]:
        """Number of codes of each column in tables of areas."""
        kinds = self._container.schema.coded.values()
        return [min(_KINDS, kind.n_codes) if hasattr(kind, "levels") else _KINDS + kind.nullable for kind in kinds]

    @property
    def _folds(self) -> list[np.ndarray]:
        """For each code of a column its place in the tables of areas."""
        kinds = self._container.schema.coded.values()
        return [np.arange(size) // (1 if hasattr(kind, "levels") else _FOLD) for kind, size in zip(kinds, self._table_sizes, strict=True)]

    @property
    def _parents(self) -> tuple[np.ndarray, ...]:
        return () if self.hierarchy is None else self.hierarchy.parents

    @property
    def _by_sizes(self) -> tuple[int, ...]:
        coded = self._container.schema.coded
        return tuple(coded[name].n_codes for name in self.by)

    @property
    def _n_areas(self) -> list[int]:
        return [1, *map(len, self._parents)]

    @property
    def _group_level(self) -> int:
        """The level whose areas the model has."""
        if self.groups != "auto" and self.hierarchy is not None:
            return 1 + self.hierarchy.levels.index(self.groups)
        return max((level for level, n in enumerate(self._n_areas) if n <= MAX_CODES), default=0)

    @property
    def _place_of_areas(self) -> int | None:
        """The place of the smallest areas among the columns that are read."""
        return None if self.hierarchy is None else list(self._container.schema.coded).index(self.hierarchy.levels[-1])

    def _inner_format(self) -> TableFormat:
        """Return the format of the table of the model: without larger areas, and with those of groups in the column of the smallest."""
        table, tree = self._container, self.hierarchy
        if tree is None:
            return table
        level, schema = self._group_level, table.schema
        # On the level of the whole all rows have the first of two areas.
        kinds = {name: kind for name, kind in schema.items() if name not in tree.levels[:-1]}
        kinds[tree.levels[-1]] = replace(schema[tree.levels[-1]], levels=tree.areas[level - 1] if level else tree.areas[0][:2])
        rules = [rule for rule in schema.rules if not set(rule.columns_named) & set(tree.levels)]
        kept = [place for place, name in enumerate(table.columns) if name in kinds]
        kind = replace(table.kind, columns=tuple(table.columns[i] for i in kept), dtypes=tuple(table.dtypes[i] for i in kept))
        return replace(table, kind=kind, schema=Schema(kinds, rules, schema.read))

    # Fit

    def _plan(self, facts: Facts) -> _AreasPlan:
        """Share rho where all noise is Gaussian, and otherwise epsilon and delta."""
        self._check_parameters()
        if facts.delta and facts.epsilon != math.inf:
            # A rho that delta pays for alone has no epsilon; what is refused for another reason is refused again below.
            with suppress(ArithmeticError, ValueError):
                plan = self._plan_shares(other := facts.part(), as_gaussian=True)
                if check_part(plan.inner, plan.inner_facts).rho == "gaussian":
                    facts.warnings.extend(other.warnings)
                    return plan
        return self._plan_shares(facts, as_gaussian=False)

    def _plan_shares(self, facts: Facts, as_gaussian: bool) -> _AreasPlan:
        has_parts = self._group_level < len(self._levels) - 1
        if facts.n_samples and has_parts and self._places_outside and self._is_spread(facts.n_samples):
            plan = self._plan_parts(other := facts.part(), as_gaussian, _OF_TABLES)
            if plan.of_tables is not None and plan.of_tables.deviation <= _SHIFT * facts.n_samples / self._n_areas[-1]:
                facts.warnings.extend(other.warnings)
                return plan
        return self._plan_parts(facts, as_gaussian)

    def _is_spread(self, n_rows: int) -> bool:
        """Return whether rows of the areas of a group change places, which takes time and memory."""
        sizes = np.delete(self._table_sizes, [] if self._place_of_areas is None else self._place_of_areas)
        n_labels = int(np.bincount(self._of_smallest[self._group_level]).max()) + 1 + math.prod(self._by_sizes)
        n_codes = (int(sizes.sum()) ** 2 - int((sizes**2).sum())) // 2
        return len(sizes) > 1 and n_rows * math.comb(len(sizes), 2) <= _MOST_SPREAD and n_labels * n_codes <= _MOST_COUNTS_OF_PAIRS

    def _plan_parts(self, facts: Facts, as_gaussian: bool, of_tables: float = 0.0) -> _AreasPlan:
        is_counted = [facts.n_samples is None or bool(self.by)] + [True] * (len(self._levels) - 1)
        noises, inner_facts, tables, rest = {}, facts, None, 1 - self.counts_share
        if any(is_counted):
            weights = [self.counts_share, rest * (1 - of_tables), rest * of_tables]
            of_counts, inner_facts, *last = facts.divide([weight for weight in weights if weight], as_gaussian)
            shares = [losses_of_kind("gaussian", of.share)[0] if as_gaussian else of.share.pure for of in (of_counts, *last)]
            noises = self._plan_noises(shares[0], is_counted, facts.neighboring)
            if last:
                sensitivity = Marginals.sensitivity(facts.neighboring, len(self._places_outside))
                n_values = self._n_areas[-1] * sum(int(self._folds[i][-1]) + 1 for i in self._places_outside)
                tables = mechanism(sensitivity, shares[1], n_values=n_values)
        made = LatentFactorSynthesizer() if self.synthesizer is None else clone_part(self.synthesizer, type(self).__name__)
        inner = made._for_read_rows(table := self._inner_format())
        inner_facts = inner_facts.part(schema=table.schema.coded, delta=facts.delta)
        plan = self._plan_model(inner, inner_facts, facts.n_samples or math.inf)
        facts.warnings.extend(inner_facts.warnings)
        return _AreasPlan(
            as_gaussian or plan.spends_delta,
            rho="gaussian" if as_gaussian else plan.rho if not any(is_counted) else None,
            noises=noises,
            of_tables=tables,
            inner=inner,
            inner_facts=inner_facts,
            n_samples=facts.n_samples,
        )

    def _plan_model(self, inner: LatentFactorSynthesizer, facts: Facts, n_rows: float) -> Any:
        """Return the plan of the model, which keeps groups apart where they have rows enough, by public numbers or the released one."""
        chosen, tree = getattr(self.synthesizer, "stratify", None), self.hierarchy
        plan, n_groups = check_part(inner.set_params(stratify=chosen), facts.part()), self._n_areas[self._group_level]
        if chosen is None and tree and n_groups > 1 and n_rows >= n_groups * _ROWS_OF_GROUP * least_rows(plan, facts.neighboring):
            with suppress(ValueError):  # more counts than a model may have
                apart = check_part(inner.set_params(stratify=tree.levels[-1]), other := facts.part())
                # A private number may not choose the kind of noise: what is charged before it is known would not pay for the other kind.
                if facts.n_samples is not None or (apart.rho, apart.spends_delta) == (plan.rho, plan.spends_delta):
                    facts.warnings.extend(other.warnings)
                    return apart
        return check_part(inner.set_params(stratify=chosen), facts)

    def _plan_noises(self, share: PrivacyLoss, is_counted: Sequence[bool], relation: str) -> dict[str, Mechanism]:
        sensitivity, n_cells = Marginals.sensitivity(relation, 1), math.prod(self._by_sizes)
        parts = level_shares(self._parents, is_counted, 2 if share.rho is None else 1)
        counted = [level for level, part in enumerate(parts) if part]
        losses = share.split([parts[level] for level in counted])
        return {
            self._levels[level]: mechanism(sensitivity, loss, n_values=self._n_areas[level] * n_cells)
            for level, loss in zip(counted, losses, strict=True)
        }

    def _release(self, rows: Rows, plan: _AreasPlan, budget: Budget) -> None:
        """Release counts of each level, join them to whole numbers that add up, and fit a model to what lies below."""
        self.schema_, self.noisy_counts_ = self._container.schema, dict[str, np.ndarray]()
        for level, noise in plan.noises.items():
            exact = self._count(rows, self._levels.index(level))
            noisy = budget.answer(exact.query(budget.relation), noise, f"counts of areas: {level}")
            self.noisy_counts_[level] = exact.tables(noisy)[0]
        self.noise_errors_ = {level: noise.deviation for level, noise in plan.noises.items()}
        self._join_counts(plan)
        if plan.n_samples is None:
            self._plan_model(plan.inner, plan.inner_facts.part(), self.n_samples_)
        self.synthesizer_ = fit_part(plan.inner, rows.map(self._coding(self._group_level)).materialize(), budget, plan.inner_facts)
        self.noisy_tables_, self.tables_error_ = dict[Hashable, np.ndarray](), 0.0
        self._codings: tuple[CellsOf, Coding] | None = None
        if plan.of_tables is not None:
            self.tables_error_ = plan.of_tables.deviation
            self.noisy_tables_, self._codings = self._release_tables(rows, plan.of_tables, budget)

    def _release_tables(self, rows: Rows, noise: Mechanism, budget: Budget) -> tuple[dict[Hashable, np.ndarray], tuple[CellsOf, Coding]]:
        """Release tables of columns that are not in `by` in each of the smallest areas, and return the maps to codes of all columns too.

        A row is in one area, and has one kind of each column, so it is counted once in the table of each. One that goes changes as many
        counts by 1 as there are tables, and one that is replaced twice as many, if it moves to another area, or all of its kinds change:
        `Marginals.sensitivity` of so many tables. Numbers are cut at quantiles of the model, which is released: given the model, kinds are
        public, so this holds for neighbors too whose own fits would have had others (adaptive composition).
        """
        coded, place, links = self._container.schema.coded, self._place_of_areas, self.synthesizer_._model.links
        grids = {list(coded).index(name): grid for name, grid in grids_of(coded).items()}
        columns, bins = [i for i in range(len(coded)) if i != place], dict[int, np.ndarray]()
        for i, (name, kind) in enumerate(coded.items()):
            if i in grids:
                # The model has the duration in place of the end of an interval.
                even = np.full(n := grids[i].n_cells, 1 / n)
                mass = links[name].mass if name in links and len(links[name].mass) == n else even
                cut = np.minimum((np.cumsum(mass) - mass / 2) * _KINDS, _KINDS - 1).astype(np.int64)
                bins[i] = np.append(cut, self._table_sizes[i] - 1)
            elif i != place:
                bins[i] = np.arange(kind.n_codes) * _KINDS // max(_KINDS, kind.n_codes)
        codings = CellsOf(grids), Coding((*columns, place), bins)
        folds, tables = [self._folds[i] for i in columns], [columns.index(i) for i in self._places_outside]
        rule = Marginals.over([*(int(fold[-1]) + 1 for fold in folds), self._n_areas[-1]], [(len(columns), i) for i in tables])
        fold = Coding(tuple(range(len(columns) + 1)), dict(enumerate(folds)))
        exact = total(rows.map(codings[0]).map(codings[1]).map(fold), rule)
        noisy = budget.answer(exact.query(budget.relation), noise, "counts of columns in areas")
        return dict(zip([list(coded)[i] for i in self._places_outside], exact.tables(noisy), strict=True)), codings

    def _coding(self, level: int, only: Sequence[Hashable] | None = None) -> Coding:
        """Return the map of rows to areas of a level and other columns: all in their order, or first the area, then `only`."""
        names, place = list(self._container.schema.coded), self._place_of_areas
        columns = range(len(names)) if only is None else [place, *map(names.index, only)]
        return Coding(tuple(columns), {} if place is None else {place: self._of_smallest[level]})

    def _count(self, rows: Rows, level: int) -> Marginals:
        sizes = [self._n_areas[level], *self._by_sizes]
        counted: Marginals = total(rows.map(self._coding(level, list(self.by))), Marginals.over(sizes, [tuple(range(len(sizes)))]))
        return counted

    def _join_counts(self, plan: _AreasPlan) -> None:
        n_cells, shapes = math.prod(self._by_sizes), [(n, *self._by_sizes) for n in self._n_areas]
        noisy = [
            self.noisy_counts_.get(level, np.full(shape, plan.n_samples or 0)).reshape(-1, n_cells)
            for level, shape in zip(self._levels, shapes, strict=True)
        ]
        variances = [plan.noises[level].variance if level in plan.noises else math.inf for level in self._levels]
        if len(noisy) == 1 and math.isinf(variances[0]):
            variances = [1.0]  # nothing was counted, as all is public
        estimates = tree_least_squares(noisy, self._parents, variances, plan.n_samples)
        known = 1 / n_cells if plan.n_samples else 0.0
        self.counts_errors_ = dict(zip(self._levels, map(np.sqrt, tree_variances(self._parents, variances, known)[2]), strict=True))
        self.n_samples_ = plan.n_samples or max(1, round(float(estimates[0].sum())))
        self._size_error = 0.0 if plan.n_samples else math.sqrt(n_cells * variances[0])
        whole = whole_counts(estimates, self._parents, self.n_samples_)
        self.counts_ = {level: counts.reshape(shape) for level, counts, shape in zip(self._levels, whole, shapes, strict=True)}

    # Samples

    @np.errstate(all="ignore")
    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
        if n_samples > _MOST_ROWS:
            raise ValueError(f"n_samples must be at most {_MOST_ROWS}, as rows of areas are drawn together, got {n_samples}; draw fewer.")
        parts, smallest = self._places_of_rows(n_samples)
        drawn, of = self._draw_parts(np.bincount(parts, minlength=math.prod(self._part_shape)), rng)
        # The first rows of a part stand in areas; those that are left over change places with them.
        places = np.searchsorted(of, parts) + np.arange(n_samples) - np.searchsorted(parts, parts)
        areas = np.full(len(of), _LEFT_OVER)
        areas[places] = smallest
        # Where the model gives a combination no chance, it drew another.
        cells = np.unravel_index(of % math.prod(self._by_sizes), self._by_sizes) if self.by else ()
        for place, codes in zip(self._places_of_by, cells, strict=True):
            drawn[place] = codes
        order = rng.permutation(n_samples)
        rows = self._spread_rows(drawn, of, areas, rng)[places[order]]
        return [smallest[order] if i == self._place_of_areas else column[rows] for i, column in enumerate(drawn)]

    def _spread_rows(self, columns: list[np.ndarray], parts: np.ndarray, areas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return an order of rows within their parts in which areas have their tables, or the pairs of columns of their group."""
        rows, found = np.arange(len(parts)), list[np.ndarray]()
        if not self._is_spread(int((areas != _LEFT_OVER).sum())):
            return rows
        codes, tilts = self._codes_and_tilts(columns, parts, areas)
        groups, n_cells = self._of_smallest[self._group_level], math.prod(self._by_sizes)
        for own in np.split(rows, np.flatnonzero(np.diff(parts // n_cells)) + 1):
            members = np.flatnonzero(groups == parts[own[0]] // n_cells)  # they follow each other
            here = [np.vstack([tilt[members], np.ones(tilt.shape[1])]) for tilt in tilts]
            local = np.where(areas[own] == _LEFT_OVER, len(members), areas[own] - members[0])
            found.append(own[spread_pairs(codes[:, own], parts[own] % n_cells, local, here, rng)])
        return np.concatenate(found)

    def _codes_and_tilts(self, columns: list[np.ndarray], parts: np.ndarray, areas: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return codes of all columns but areas, and for each how often areas have them, over counts in proportion, by noisy tables."""
        place, n_cells, tilts = self._place_of_areas, math.prod(self._by_sizes), list[np.ndarray]()
        if self._codings is None:
            return coarse_codes([column for i, column in enumerate(columns) if i != place]), tilts
        locate, code = self._codings
        *codes, _ = code(locate(columns))
        groups, inside, scale = self._of_smallest[self._group_level], areas != _LEFT_OVER, (areas != _LEFT_OVER).sum() / self.n_samples_
        of_parts = np.bincount(parts, minlength=math.prod(self._part_shape)).reshape(-1, n_cells)
        here = np.bincount(areas[inside] * n_cells + parts[inside] % n_cells, minlength=len(groups) * n_cells).reshape(-1, n_cells)
        shares = here / np.maximum(of_parts[groups], 1)
        for i, own in zip(code.columns[:-1], codes, strict=True):
            size, fold, name = self._table_sizes[i], self._folds[i], list(self._container.schema.coded)[i]
            tilts.append(np.ones((len(groups), size)))
            if name in self.noisy_tables_:
                tables = np.bincount(parts * size + own, minlength=of_parts.size * size).reshape(-1, n_cells, size)
                tables = tables @ (fold[:, None] == np.arange(fold[-1] + 1))
                expected = np.concatenate([shares[groups == group] @ table for group, table in enumerate(tables)])
                near = shrink_tables(self.noisy_tables_[name] * scale, expected, (self.tables_error_ * scale) ** 2, groups)
                tilts[-1] = (near / np.maximum(expected, _NO_ROW))[:, fold]
        return np.array(codes), tilts

    def _draw_parts(self, numbers: np.ndarray, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
        """Draw at least so many rows of the model of each part, a group and a cell of `by`, and return them and their parts, in order.

        Most are drawn without a condition, which is quick; those that a part lacks are drawn given the part.
        """
        model, parts, rows = self.synthesizer_, np.empty(0, dtype=np.int64), list[list[np.ndarray]]()
        law = model._model.law()
        if len(numbers) > 1:
            rows.append(pool := model._spans.decode(law.sample(math.ceil(_POOL * numbers.sum()), rng)))
            given = [column for place, column in enumerate(pool) if place == self._place_of_areas]
            parts = np.ravel_multi_index((*given, *map(pool.__getitem__, self._places_of_by)), self._part_shape[1 - len(given) :])
        lacking = np.maximum(numbers - np.bincount(parts, minlength=len(numbers)), 0)
        for part in np.flatnonzero(lacking).tolist():
            rows.append(model._spans.decode(_law_given(law, self._given(part)).sample(int(lacking[part]), rng)))
        parts = np.append(parts, np.repeat(np.arange(len(numbers)), lacking))
        order = np.lexsort((rng.random(len(parts)), parts))
        return [column[order] for column in concatenate(rows)], parts[order]

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        columns = self._sample_rows(n_samples, rng)  # counts are kept by all rows together
        for start in range(0, n_samples, BATCH):
            yield [column[start : start + BATCH] for column in columns]

    def _places_of_rows(self, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the part, a group and a cell of `by`, and the smallest area of each row, in the order of parts."""
        n_cells = math.prod(self._by_sizes)
        counts = [self.counts_[level].reshape(-1, n_cells) for level in self._levels]
        if n_samples != self.n_samples_:
            counts = whole_counts([each * (n_samples / self.n_samples_) for each in counts], self._parents, n_samples)
        parts = (self._of_smallest[self._group_level][:, None] * n_cells + np.arange(n_cells)).ravel()
        order = np.argsort(parts, kind="stable")
        counted = np.repeat(order, counts[-1].ravel()[order])
        return parts[counted], counted // n_cells

    @property
    def _part_shape(self) -> tuple[int, ...]:
        return (self._n_areas[self._group_level], *self._by_sizes)

    def _given(self, part: int) -> dict[Hashable, AllowedCells]:
        """Return the conditions on the model for rows of a part, the least important last."""
        group, *codes = map(int, np.unravel_index(part, self._part_shape))
        given = {}
        for name, code in zip(self.by, codes, strict=True):
            is_missing = code == len(self._container.schema.coded[name].levels)
            given[name] = AllowedCells(among=np.array([] if is_missing else [code]), missing=is_missing)
        if self.hierarchy is not None:
            given[self.hierarchy.levels[-1]] = AllowedCells(among=np.array([group]))
        return given

    def _public_schema(self) -> Schema:
        return self.schema_

    def _points(self, X: Table) -> Rows:
        rows = continue_table(self._with_schema(None if self.schema is None else self.schema_), X)
        return rows.map(partial(encode, schema=self.schema_))

    def _sample_points(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return encode(self._sample_rows(n_samples, rng), self.schema_)

    def _check_parameters(self) -> None:
        check_parameters(self, {"counts_share": (Between(0, 1), "0.68 is the default")})
        coded = self._container.schema.coded
        if not isinstance(self.by, list | tuple) or not all(map(is_name, self.by)) or len(set(self.by)) < len(self.by):
            raise ValueError(f"by must be a list of different columns, got {short_repr(self.by)}; give [] for counts of areas alone.")
        areas = () if self.hierarchy is None else self.hierarchy.levels
        for name in self.by:
            if name in areas or name not in coded or not hasattr(coded[name], "levels"):
                raise ValueError(f"by must be columns of levels that schema states, got {short_repr(name)}; list its levels.")
        for rule in self._container.schema.rules:
            if len(set(self.by) & set(rule.columns_named)) > 1:
                raise ValueError(
                    f"by must have at most one column of each rule, got {list_names(rule.columns_named)}; leave one out, or the rule."
                )
            if isinstance(rule, Unique):
                raise ValueError(
                    f"schema must have no Unique, got that of {list_names(rule.columns_named)}; drop the rule, or the columns."
                )
        n_counts = self._n_areas[-1] * math.prod(self._by_sizes)
        if n_counts > _MOST_COUNTS:
            raise ValueError(f"by must leave at most {_MOST_COUNTS} counts of the smallest areas, got {n_counts}; leave columns out.")
        is_level = is_name(self.groups) and self.groups in ("auto", *areas)
        if not is_level or self._n_areas[self._group_level] > MAX_CODES:
            raise ValueError(f"groups must be 'auto' or a level of at most {MAX_CODES} areas, got {short_repr(self.groups)}; name another.")
        part = self.synthesizer
        if part is not None and (getattr(part, "strategy", None) != "marginals" or getattr(part, "weights", None) is not None):
            raise ValueError(
                "synthesizer must be None or an unfitted LatentFactorSynthesizer of strategy 'marginals', whose rows on conditions are "
                f"needed, without weights, got {short_repr(part)}."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        has_schema = self.schema is not None
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = has_schema
        return tags


def coarse_codes(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return each column as codes of a few kinds: its levels, or numbers that follow each other."""
    codes = np.array([np.unique(column, return_inverse=True)[1] for column in columns])
    return codes * _KINDS // np.maximum(codes.max(axis=1, keepdims=True, initial=0) + 1, _KINDS)


def _law_given(law: JointDistribution, given: Mapping[Hashable, AllowedCells]) -> JointDistribution:
    """Return a law on conditions; while they have the probability 0 in it together, the last one is left out."""
    left = dict(given)
    while left:
        conditional, probability = law.condition(left)
        if probability:
            return conditional
        left.popitem()
    return law
