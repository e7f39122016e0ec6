"""The synthesizer of linked tables."""

import math
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdpsynth._serialization import require
from skdpsynth._validation import check_memory, short_repr
from skdpsynth.domain import Children, LinkedRule, LinkedSchema, LinkedSchemaLike, Schema, grids_of, name_repr
from skdpsynth.fitting import Budget, Facts, check_unit, private_columns
from skdpsynth.frames import Cell, InMemory, Rows
from skdpsynth.metrics import LinkedReport, Table, linked_report
from skdpsynth.models import (
    HistoryFactors,
    JointDistribution,
    LatentFactors,
    Link,
    LinkFactors,
    RefinedBins,
    draw_values,
    fit_link_factors,
    link_column,
)
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, PrivacyAccountant, PrivacyLoss, Seed, Unit, make_stream
from skdpsynth.statistics import CellsOf, Coding
from skdpsynth.synthesis._base import check_generator, check_n_samples, default_n_samples
from skdpsynth.synthesis._conditional import condition_law
from skdpsynth.synthesis._intervals import REFITS, STEPS_OF_REFIT, BootstrapSynthesizer, population_size
from skdpsynth.synthesis._latent_planning import MAX_CODES
from skdpsynth.synthesis._linked_counts import LinkedCounts, release_bins, release_levels
from skdpsynth.synthesis._linked_intervals import LinkedWorld
from skdpsynth.synthesis._linked_planning import LinkedPlan, plan_linked, quote_name
from skdpsynth.synthesis._linked_rules import draw_kept
from skdpsynth.tables import KEY_OF_ORDER, Forest, allowed_cells, read_forest, with_placeholder_kinds

_N_FACTORS = 32
_MOST_EVALUATED = 50_000  # roots: a report compares no more
_N_TRIAL_ROOTS = 64  # of a model from a file
_Given: TypeAlias = "tuple[JointDistribution, ToCodes] | None"  # the law of roots on conditions, and what makes codes of them
NTH_CODES = np.array([0, 1, 2, 2, 3])  # of `nth`: 1, 2, 3-4, 5+


@savable
class LinkedTablesSynthesizer(BootstrapSynthesizer):
    """Synthetic tables that hang on each other, such as households with persons, or patients with visits.

    A root, such as a household, is protected with all that hangs on it: its persons, and their trips. It counts pairs of columns of a
    table, of a row and its children, and of two children, in whole numbers whose sum over one root is that of one row of an ordinary table;
    so the noise does not grow with the number of children. A model with factors that children share with their parent, and with factors
    of their own, is fitted to the noisy counts. Samples have fresh keys, and each child has a parent. Rows of one parent stand together,
    its head first, the others in the order that `Children` states; where it states none, their order means nothing, as in the data.

    Parameters
    ----------
    schemas : dict of str to dict, Schema or path of a file; or LinkedSchema or the path of its file
        Public facts about the columns of each table, as `LatentFactorSynthesizer` takes them, without the columns of keys. Unknown facts
        are bought first, those of all tables together: ``Continuous(bounds="private")`` for a tenth of the budget, ``Nominal("private")``
        for a tenth of epsilon and of delta. Levels beyond 64 of a column are merged for pairs, by noisy counts.
    links : list of Children, default=None
        How tables hang on each other: a tree, whose root is the table that hangs on none. None: as a `LinkedSchema` states.
    rules : list of AtMost, Compared and Total, default=()
        Public facts between tables, which every sampled root keeps, as it keeps the rules within a table that its schema states. Rows that
        break one are drawn again, given their parent, up to 100 times; then numbers are moved into what is allowed and levels changed. A
        row for which nothing is allowed beside its parent is left out.
    epsilon : float, default=1.0
        The whole budget of one `fit`, which protects a root with all that hangs on it. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        0: pure differential privacy. Above 0 the noise is Gaussian where that is less; 1e-6 is common.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of roots, which is that of different keys, is public, and that of all other rows is not; a root that is
        replaced has a key of its own. "add_or_remove_one": both are private.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged all of `epsilon` and `delta` before the first draw. None: a new one a `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    schemas_ : dict of str to Schema
        With the bounds and levels that were bought.
    factors_ : dict of (str, str) to LinkFactors
        The model of each link, by the names of the parent's table and of the child's.
    marginals_consistent_ : dict of tuple of tables to dict of tuple of columns to ndarray
        Estimates of counts of columns and of pairs, by least squares from all noisy tables: of a table ``["person",]``, of parents with
        their children ``["household", "person"]``, of two children of one parent ``["person", "person"]``. In a history, rows and next ones
        are in ``["patient", "visit"]`` by the columns ``("visit", column)`` and ``("next", column)``. A root counts as one row in each:
        children share the weight of their parent, as `rows_per_count_` says.
    marginals_errors_ : dict of tuple of tables to dict of tuple of columns to float
        The standard deviation of the noise of every cell of a table in `marginals_consistent_`.
    rows_per_count_ : dict of str to ndarray
        By child table without an order: for how many rows of a parent a count of 1 in its own tables, and in those with its parent, stands.
        Place k is for parents with k rows beside a head: it is k, or 3 for one and two rows, where noise is so low that this is better.
    accountant_ : PrivacyAccountant
    n_samples_ : int
        Number of roots; an estimate from noisy counts (at least 1) under "add_or_remove_one".
    n_features_in_ : int
        Number of columns of all tables.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its domain, or `schemas` and `links` do not fit the columns of the tables: before any budget is spent. No
        cell raises. Rows without a parent do not count, nor do those beyond `most`, which are the last ones by `order` or else those that
        a keyed hash leaves out; of several roots, or other parents, of one key the hash chooses one.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    Warns
    -----
    SmallSampleWarning
        If noise hides most pairs of columns.

    See Also
    --------
    skdpsynth.domain.Children : How tables hang on each other.
    skdpsynth.domain.LinkedSchema : Schemas and links in one, and as a file.
    LatentFactorSynthesizer : For one table; with `unit`, of several rows of a person.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private, or (epsilon, delta) if delta > 0, under `neighboring`, where one root with all that
    hangs on it is replaced by any other, or comes or goes. A root is the mean of the rows that pairs of its children make with it, times a
    public whole number: all norms are convex, so it moves no sum by more than one row does (proof: ``statistics/_linked.py``). A person is
    protected as a part of the household. Levels and bounds are bought from one row of each root, with one of its persons, whom a hash
    chooses.

    References
    ----------
    .. [1] Cai, Xiao, Cormode (2023), "PrivLava: Synthesizing Relational Data with Foreign Keys under Differential Privacy".

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from skdpsynth import LinkedTablesSynthesizer
    >>> from skdpsynth.domain import Children
    >>> rng = np.random.default_rng(0)
    >>> region = rng.choice(["north", "south"], 3000)
    >>> household = pd.DataFrame({"household_id": np.arange(3000), "region": region})
    >>> owner = np.repeat(np.arange(3000), rng.integers(1, 4, 3000))
    >>> speaks = np.where(rng.random(len(owner)) < 0.9, region[owner], "both")
    >>> person = pd.DataFrame({"household_id": owner, "speaks": speaks})
    >>> schemas = {"household": {"region": ["north", "south"]}, "person": {"speaks": ["north", "south", "both"]}}
    >>> links = [Children("person", of="household", key="household_id", most=3, least=1)]
    >>> model = LinkedTablesSynthesizer(schemas, links=links, epsilon=1.0, delta=1e-6)
    >>> out = model.fit({"household": household, "person": person}).sample(1000)
    >>> len(out["household"]), set(out["person"]["household_id"]) == set(out["household"]["household_id"])
    (1000, True)
    """

    bounds = None  # schemas state them
    _reads_public_numbers = False  # that of roots is public, that of all others is not
    _counts_rows = False  # the tables tell how many roots there are
    _shares: dict[str, PrivacyLoss]  # of the releases, for those of `interval`
    _takes_gram: bool
    _fewest: dict[str, int]

    def __init__(
        self,
        schemas: LinkedSchemaLike,
        *,
        links: Sequence[Children] | None = None,
        rules: Sequence[LinkedRule] = (),
        epsilon: float = 1.0,
        delta: float = 0.0,
        neighboring: str = "replace_one",
        accountant: AccountantLike = None,
        random_state: Seed = None,
    ) -> None:
        self.schemas = schemas
        self.links = links
        self.rules = rules
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    @property
    def _lacks_bounds(self) -> bool:
        return False

    def _privacy_unit(self, labels: ArrayLike | None, shared: PrivacyAccountant | None) -> Unit | None:
        if labels is not None:
            raise ValueError("unit must be None for linked tables, because a root with all that hangs on it is protected; leave it out.")
        stated = LinkedSchema.of(self.schemas, self.links)
        return check_unit(Unit(f"{stated.root} with {', '.join(link.table for link in stated.links)}", 1), shared)

    def _open_table(self, X: Mapping[str, Table]) -> tuple[Rows, dict[str, Any]]:
        key, skips_damaged = make_stream(self.random_state).child("rows of roots").bytes(KEY_OF_ORDER), self.neighboring != "replace_one"
        forest, form = read_forest(self.schemas, self.links, X, self.rules, key=key, skips_damaged=skips_damaged, buys=True)
        self._container, self.n_features_in_ = form, sum(len(table.schema) for table in form.formats.values())
        rows = Rows(InMemory(forest), self.n_features_in_, len(forest), n_jobs=1)
        _, missing = private_columns(form.side_by_side(), rows, MAX_CODES + 1)
        for fact in missing:
            fact.check(self.epsilon, self.delta)
        # A root is one row of what is bought first, and of all that follows.
        return (rows.map(Forest.one_row_of_each), {"missing": missing}) if missing else (rows.map(form.encode).materialize(), {})

    def _close(self, bought: Mapping[int, Any], rows: Rows, facts: Facts) -> tuple[Rows, Facts]:
        self._container, changes = self._container.close(bought)
        read = partial(Forest.map_tables, change=changes)
        return replace(rows, maps=(read, self._container.encode)).materialize(), facts

    def _plan(self, facts: Facts) -> LinkedPlan:
        return plan_linked(facts, self._bare_plan(facts.n_samples))

    def _bare_plan(self, n_samples: int | None) -> LinkedPlan:
        """Return a plan that has no shares yet."""
        form = self._container.with_kinds(with_placeholder_kinds(self._container.side_by_side().schema, MAX_CODES + 1))
        names = [form.root, *(link.table for link in form.links)]
        tables = {name: Schema(form.schemas[name].coded) for name in names}
        groups = {name: _groups(name, list(tables[name]), form.links) for name in names}
        heads = []
        for link in form.links:
            heads += [(link.table, list(tables[link.table]).index(name), code) for name, code in form.head_codes(link).items()]
        return LinkedPlan(tables=tables, groups=groups, links=form.links, heads=tuple(heads), n_samples=n_samples)

    def _release(self, rows: Rows, plan: LinkedPlan, budget: Budget, most: tuple[int, int] | None = None) -> None:
        """Release bins of numbers, then counts of columns and of families of pairs; fit a model of each link to their estimates."""
        bins: dict[str, Any] = {table: release_bins(rows, table, plan, budget) for table in plan.tables}
        bins = {table: {**links, **release_levels(rows, table, plan, budget)} for table, links in bins.items()}
        sizes = {table: plan.sizes(table, of_table) for table, of_table in bins.items()}
        coded = rows.map(ToCodes.of(plan, bins)).materialize()
        counted = LinkedCounts.of(coded, sizes, plan, budget)
        self.schemas_ = {name: table.schema for name, table in self._container.formats.items()}
        self._tables, self._bins, self._heads = dict(plan.tables), bins, plan.heads
        self._shares, self._takes_gram, self._fewest = dict(plan.shares), plan.takes_gram, dict(plan.fewest)
        self.factors_ = {(link.of, link.table): _fit_link(link, counted, most) for link in plan.links}
        self.marginals_consistent_, self.marginals_errors_ = counted.attributes()
        self.rows_per_count_ = {link.table: counted.rows_per_count(link) for link in plan.links if link.order is None}
        self.n_samples_ = plan.n_samples or max(1, round(counted.mass(plan.root)))
        self._warn_of_noise(budget)
        self._size_error = 0.0 if plan.n_samples else math.sqrt(counted.own[plan.root].variance_of_total)

    def _warn_of_noise(self, budget: Budget) -> None:
        """Warn, by public and noisy numbers, where noise alone makes a total variation of 1 in most tables of pairs."""
        tables = [
            (each, self.marginals_errors_[of][key]) for of, found in self.marginals_consistent_.items() for key, each in found.items()
        ]
        noisy = [each.size * error > self.n_samples_ * math.sqrt(2 * math.pi) for each, error in tables if each.ndim == 2]
        if 2 * sum(noisy) > len(noisy):
            budget.warn(
                f"Noise is as large as the counts of {sum(noisy)} of {len(noisy)} pairs of columns, at so many rows of the root and this "
                "budget, so only strong dependences are kept: use more rows, delta > 0, a larger epsilon or fewer columns."
            )

    def sample(
        self, n_samples: int | None = None, random_state: Seed = None, *, conditions: Mapping[str, Mapping[Hashable, Cell]] | None = None
    ) -> dict[str, Any]:
        """Draw synthetic tables, of all roots or of those that meet conditions; this is post-processing and costs no privacy.

        Parameters
        ----------
        n_samples : int, default=None
            Number of roots. None: as many as the data had (under "add_or_remove_one": the noisy count).
        random_state : int, RandomState or None, default=None
            May be seeded freely. None: fresh entropy, never the seed of `fit`.
        conditions : dict, default=None
            For the root's table, and no other, the cells that are allowed in some of its columns, as `LatentFactorSynthesizer.sample` takes
            them: ``{"household": {"region": "north", "rent": (None, 500)}}``. Roots, and all that hangs on them, have the law of the model
            given the conditions.

        Returns
        -------
        tables : dict of str to data frame
            Each in the kind of table that `fit` got, with its columns and dtypes, and fresh keys: 0, 1, 2, ... in the order of rows. Rows
            of one parent stand together, its head first, and the others of a history in order.

        Raises
        ------
        ValueError
            If no root can meet `conditions`, by itself or beside the rules.
        """
        check_is_fitted(self)
        n = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_) if n_samples is None else n_samples
        n, rng = check_n_samples(n), check_generator(random_state)
        check_memory("n_samples", n, 8 * n * self.n_features_in_)
        with np.errstate(all="ignore"):
            given = None if conditions is None else self._condition_roots(conditions)
            return self._container.write(*self._draw(n, rng, given))

    def evaluate(self, tables: Mapping[str, Table], *, random_state: int | None = 0) -> LinkedReport:
        """Compare synthetic tables of this estimator with real ones in one call; the result is **not private**.

        It draws as many roots as the data had (at most 50,000), free of charge, and gives them to `skdpsynth.metrics.linked_report`. That
        reads the real tables unprotected, without noise: show the report only to people who may see them.

        Parameters
        ----------
        tables : dict of str to data frame or other table that `fit` takes
            Real tables, with the columns of `fit`: best of roots that `fit` has not seen.
        random_state : int or None, default=0
            Seed of the sample and of the report. None: other rows at each call.

        Returns
        -------
        report : LinkedReport
            Printed, a table of distances, each beside that between two halves of the real roots.

        See Also
        --------
        skdpsynth.metrics.linked_report : The same for any two sets of tables.
        """
        check_is_fitted(self)
        synthetic = self.sample(min(self.n_samples_, _MOST_EVALUATED), random_state)
        return linked_report(tables, synthetic, self.schemas_, self._container.links, random_state=random_state)

    def _bootstrap_world(self, what: str, n_samples: int | None, random_state: Seed) -> LinkedWorld:
        check_is_fitted(self)
        n_roots = default_n_samples(self.n_samples_, self._size_error, self.n_features_in_)
        size = population_size(n_roots, self.n_features_in_, has_keys=False)
        rng, drawn = check_generator(random_state), size if n_samples is None else check_n_samples(n_samples)
        check_memory("n_samples", drawn, 8 * drawn * self.n_features_in_)
        return LinkedWorld(copy(self), n_roots, size, drawn, rng)

    def _fit_again(self, forest: Forest, budget: Budget) -> "LinkedTablesSynthesizer":
        """Return this with what a fit to other roots releases; its models are made faster, from fewer starts."""
        again, n_public = copy(self), len(forest) if self.neighboring == "replace_one" else None
        plan = replace(self._bare_plan(n_public), shares=self._shares, takes_gram=self._takes_gram, fewest=self._fewest)
        again._release(Rows(InMemory(forest), self.n_features_in_, len(forest), n_jobs=1), plan, budget, (REFITS, STEPS_OF_REFIT))
        return again

    def _condition_roots(self, conditions: Mapping[str, Mapping[Hashable, Cell]]) -> _Given:
        """Return the law of roots on conditions, or refuse these; and what turns roots into codes, which tell of their children."""
        form, grids = self._container, grids_of(self._tables[self._container.root])
        if not isinstance(conditions, Mapping) or [*conditions] != [form.root]:
            raise ValueError(
                f"conditions must be a dict of the root's table alone, {{{short_repr(form.root)}: {{column: what it may be}}}}, got "
                f"{short_repr(conditions)}; draw more roots and keep those whose rows you want, which costs no privacy."
            )
        wanted = allowed_cells(conditions[form.root], form.formats[form.root])
        if summed := [name for name in wanted if (form.root, name) in form.rules.sums]:
            child = short_repr(form.rules.sums[form.root, summed[0]].child)
            told = f"{name_repr(summed[0])} follows from rows of {child}; draw more roots and keep those that you want."
            raise ValueError(f"conditions must be on columns that are not computed, but {told}")
        schema, bins = self._tables[form.root], self._bins[form.root]
        linked = {name: link_column(link, grids.get(name)) for name, link in bins.items()}
        mixture = self.factors_[form.root, form.links[0].table].parent()
        law = JointDistribution(schema, None, (tuple(range(len(schema))),), np.ones(1), ((mixture,),), linked)
        return condition_law(law, wanted), ToCodes.of(self._bare_plan(None), {form.root: bins})

    def _draw(
        self, n_roots: int, rng: np.random.Generator, given: _Given = None
    ) -> tuple[dict[str, list[np.ndarray]], dict[str, np.ndarray]]:
        """Return the columns of each table, as they are written, and the parents of its rows.

        The root is drawn with its first link; the nodes of further links follow from the codes of the parent.
        """
        codes: dict[str, np.ndarray] = {}
        owners: dict[str, np.ndarray] = {}
        tables: dict[str, list[np.ndarray]] = {}
        for link in self._container.links:
            model, nodes = self.factors_[link.of, link.table], None
            if link.of not in codes:
                draw = partial(self._draw_parents, link, rng, given)
                drawn, tables[link.of], _ = draw_kept(self._container, link.of, n_roots, draw, None, tables, rng, mends=given is None)
                codes[link.of], nodes = drawn[:-1], drawn[-1]
            of = codes[link.of]
            count = of[list(self._tables[link.of]).index(f"{link.table}.number")]
            np.maximum(count, link.least - (link.head is not None), out=count)
            owner = np.repeat(np.arange(len(count)), count)
            if isinstance(model, LinkFactors):
                nodes = model.draw_child_nodes(model.draw_nodes(of, rng) if nodes is None else nodes, count, rng)
            draw = partial(self._draw_rows, link, of, nodes, owner, rng)
            codes[link.table], tables[link.table], kept = draw_kept(self._container, link.table, len(owner), draw, owner, tables, rng)
            owners[link.table] = owner[kept]
        return tables, owners

    def _draw_parents(
        self, link: Children, rng: np.random.Generator, given: _Given, places: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return codes of as many roots, with their nodes in the last row, and their columns."""
        model, nodes = self.factors_[link.of, link.table], None
        if given is None:
            codes, nodes = model.draw_parents(len(places), rng)
            columns = self._columns(link.of, codes, None, rng)
        else:
            law, to_codes = given
            values = law.sample(len(places), rng)
            codes, columns = np.array(to_codes.of_table(link.of, values)), self._container.decode(link.of, values, None)
            nodes = model.draw_nodes(codes, rng) if isinstance(model, LinkFactors) else None
        return np.vstack([codes, np.zeros(len(places), dtype=np.int64) if nodes is None else nodes]), columns

    def _draw_rows(
        self, link: Children, of: np.ndarray, nodes: np.ndarray | None, owner: np.ndarray, rng: np.random.Generator, places: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return codes and columns of some children, of which each has its node; of a history of all that their parents have."""
        model, own = self.factors_[link.of, link.table], owner[places]
        if isinstance(model, LinkFactors):
            assert nodes is not None
            codes = model.draw_children(nodes[places], rng, np.arange(len(own)) - np.searchsorted(own, own))
        else:
            parents, counts = np.unique(own, return_counts=True)
            finer, names = self._finer(link.table), list(self._tables[link.table])
            codes = model.draw_rows(of[:, parents], counts, rng, {names.index(name): bins for name, bins in finer.items()})
        for table, place, code in self._heads:
            if table == link.table:
                codes[place] += codes[place] >= code
        return codes, self._columns(link.table, codes, own, rng)

    def _finer(self, table: str) -> dict[Any, RefinedBins]:
        """Return finer bins of a history: in wide ones a number would not depend on the parent."""
        is_history = any(link.table == table and link.order is not None for link in self._container.links)
        found = {name: RefinedBins.of(link) for name, link in self._bins[table].items() if is_history and isinstance(link, Link)}
        return {name: bins for name, bins in found.items() if bins is not None}

    def _columns(self, table: str, codes: np.ndarray, owner: np.ndarray | None, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the columns of a table, as they are written, from codes."""
        grids = grids_of(self._tables[table])
        links = self._bins[table] | {name: bins.link for name, bins in self._finer(table).items()}
        linked = {name: link_column(link, grids.get(name)) for name, link in links.items()}
        return self._container.decode(table, draw_values(list(codes), self._tables[table], linked, rng), owner)

    def _check_loaded_columns(self) -> None:
        form, plan = self._container, self._bare_plan(None)
        require({"_shares", "_takes_gram", "_fewest"} <= vars(self).keys())
        require(list(self.factors_) == [(link.of, link.table) for link in form.links])
        require(self._tables.keys() == self._bins.keys() == plan.tables.keys() and self._heads == plan.heads)
        require(self.schemas_ == {name: table.schema for name, table in form.formats.items()})
        require(all([*self._tables[name].items()] == [*own.items()] for name, own in plan.tables.items()))
        for link in form.links:
            model = self.factors_[link.of, link.table]
            require(isinstance(model, HistoryFactors) == (link.order is not None))
            if isinstance(model, HistoryFactors):
                require(list(plan.tables[link.table])[model.nth] == f"{link.table}.nth" and np.array_equal(model.nth_codes, NTH_CODES))

    def _try_loaded(self) -> None:
        if hasattr(self, "accountant_"):
            self.sample(_N_TRIAL_ROOTS, random_state=0)


def _fit_link(link: Children, counted: LinkedCounts, most: tuple[int, int] | None) -> LinkFactors | HistoryFactors:
    if link.order is None:
        return fit_link_factors(counted.of_link(link), _N_FACTORS, most)
    nth, least = list(counted.plan.tables[link.table]).index(f"{link.table}.nth"), counted.plan.least_of(link)
    p, count, tables = len(counted.sizes[link.of]), counted.plan.count_place(link), counted.of_history(link)
    return HistoryFactors.of(tables, LatentFactors.of(tables, _N_FACTORS, most), p, nth, NTH_CODES, count, least)


def _groups(table: str, columns: Sequence[Any], links: Sequence[Children]) -> dict[str, tuple[int, ...]]:
    """Return the places of a table's own columns and numbers of children, and of each head, by what they are."""
    heads = {f"head of {quote_name(link.table)}": f"{link.table}.head." for link in links if link.of == table and link.head is not None}
    found: dict[str, list[int]] = {quote_name(table): [], **{label: [] for label in heads}}
    for place, name in enumerate(columns):
        label = next((label for label, start in heads.items() if isinstance(name, str) and name.startswith(start)), quote_name(table))
        found[label].append(place)
    return {label: tuple(places) for label, places in found.items() if places}


@savable
@dataclass(frozen=True, eq=False)
class ToCodes:
    """Numbers of linked tables become the bins that hold them."""

    cells: Mapping[str, CellsOf]
    codings: Mapping[str, Coding]

    @classmethod
    def of(cls, plan: LinkedPlan, bins: Mapping[str, Any]) -> "ToCodes":
        codings = {name: Coding(tuple(range(len(plan.tables[name]))), plan.recodings(name, own)) for name, own in bins.items()}
        return cls({name: CellsOf(plan.grids(name)) for name in bins}, codings)

    def __call__(self, forest: Forest) -> Forest:
        return forest.map_tables({name: partial(self.of_table, name) for name in self.cells})

    def of_table(self, name: str, columns: list) -> list:
        return self.codings[name](self.cells[name](columns))
