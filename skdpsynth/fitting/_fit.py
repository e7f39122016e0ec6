"""The one `fit` of all private estimators, and estimators inside estimators."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from inspect import signature
from math import inf
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from skdpsynth._parallel import check_n_jobs, lock_of
from skdpsynth._progress import CallbackMixin, fit_bar, run_with_callbacks, run_with_outer_callbacks
from skdpsynth._serialization import require
from skdpsynth._sklearn import DocLinkMixin, check_loaded_columns
from skdpsynth._validation import is_integer, short_repr, warn
from skdpsynth.domain import NO_BOUNDS, Identifier, Schema, Unique, has_private, with_placeholder_bounds
from skdpsynth.exceptions import BoundsWarning, BudgetWarning, InsecureRandomnessWarning
from skdpsynth.fitting._budget import GUIDE, Budget, Facts, MissingFact, NumberOfRows, Plan, PrivateBounds, buy_facts, reserve_all
from skdpsynth.frames import KEY_OF_CHOICE, Rows, Table, TableKind, bound_contributions, name_of_unit, split_units
from skdpsynth.persistence import save
from skdpsynth.privacy import (
    CLONE_REMARK,
    SEED_WARNING,
    AccountantLike,
    PrivacyAccountant,
    RandomBits,
    Unit,
    check_delta,
    check_epsilon,
    check_neighboring,
    make_stream,
    resolve_accountant,
    streams,
)
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import ClipToBounds, TableFormat, check_enough, open_numbers, reading_options

_SMALLEST_EPSILON = Fraction(1, 10**9)  # its noise still fits into 64 bits
_LARGEST_PROMISE = 20  # of epsilon: at more, what one row adds is hardly hidden
_CLONE = "_is_clone"  # marks what scikit-learn's `clone` made; it goes to worker processes too
_ATTRIBUTES_BEFORE_FIT = {"feature_names_in_", "n_features_in_", "schema_"}  # of the estimator of a stream, which fits copies of it
_REQUIRED_PARAMETERS = ("epsilon", "delta", "bounds", "neighboring", "accountant", "random_state")


@dataclass(frozen=True)
class OuterFit:
    """Where an inner estimator charges, its noise, and the number of rows if the outer one has bought it."""

    budget: Budget
    rng: RandomBits
    name: str
    group: str | None
    facts: Facts


class PrivateEstimator(DocLinkMixin, CallbackMixin, BaseEstimator):
    """Base of the private estimators: `fit` is written here once, a mechanism fills in `_plan` and `_release`.

    The order of a fit: parameters and rows are checked; `_plan` decides, or refuses, by public facts alone; warnings known by then are
    issued; `_release` asks its queries of the budget, which is charged when the first is answered, and sets the fitted attributes. It
    happens on a blank copy of the estimator, whose state replaces that of the estimator in one step at the end: a fit that fails changes
    nothing, and a refit leaves nothing of the fit before.

    See Also
    --------
    PrivateSynthesizer : Base of those that sample.
    Budget : Answers the queries of `_release`.
    skdpsynth.testing.check_synthesizer : The laws that hold for it.
    """

    epsilon: Any
    delta: Any
    bounds: Any
    neighboring: Any
    accountant: Any
    random_state: Any

    _container: Any
    _reads_public_numbers = True  # whether under "replace_one" the number of rows that are read is public
    _counts_rows = True  # whether a private number of rows is released before the plan is made
    _keeps_budget_open = False  # whether the budget is spent from after fit
    _buys_facts = True  # whether bounds and levels may be bought
    _claims = False  # whether what a fit was charged that died before it showed anything serves this one
    _state_is_private = False  # whether a file of it is for its owner alone
    accountant_: PrivacyAccountant
    n_features_in_: int
    n_samples_: int
    _names_of_fit: tuple[str, ...]
    _size_error: float  # expected absolute error of n_samples_; 0 where it is public

    @abstractmethod
    def _plan(self, facts: Facts) -> Plan:
        """Decide sizes and noise from public facts alone; refuse here whatever can be refused."""

    @abstractmethod
    def _release(self, rows: Any, plan: Any, budget: Budget) -> None:
        """Release noisy answers about the rows, and set the fitted attributes.

        How much is spent in epsilon and how much in rho must follow from the plan, not from earlier answers: so the account of a fit takes
        both by turns.
        """

    @final
    def fit(self, X: Table, y: object = None, unit: ArrayLike | None = None) -> Any:
        """Learn from rows under differential privacy; a refit forgets the fit before, and spends epsilon again.

        Parameters
        ----------
        X : array-like, data frame or any other table, of shape (n_samples, n_features)
            Finite numbers, or cells that a schema describes. Values outside `bounds` are clipped. A table that is not in memory is read in
            chunks, as often as the method needs: the path, or paths, of Parquet or CSV files; a data set or stream of pyarrow; a lazy frame
            of polars; a relation of DuckDB or table of Ibis; an array or data frame of Dask; a data frame of Spark; a list of chunks, or a
            function that returns an iterator of them.
        y : None
            Ignored.
        unit : str, int or array-like of shape (n_samples,), default=None
            Whom the budget protects: the name (in an array the number) of the column of `X` that says whose row it is, which the model
            leaves out; or such labels. At most `max_rows_per_unit` rows of each label count, chosen at random (of a stream the first ones),
            and rows without a label do not. None: each row is protected by itself.

        Returns
        -------
        self : object
        """
        check_y_is_ignored(y)
        with lock_of(self):
            for message, category in run_with_callbacks(self, partial(self._fit, X, unit)):
                warn(message, category)
        return self

    def _fit(self, X: Table, unit: ArrayLike | None = None, outer: OuterFit | None = None) -> list[tuple[str, type[Warning]]]:
        """Fit, or leave the object as it was; return the warnings that are not issued yet (all of them for an inner estimator)."""
        check_neighboring(self.neighboring)
        blank: Any = object.__new__(type(self))
        gone = vars(self).get("_names_of_fit", ())
        for name, value in vars(self).items():
            if not (name in gone or name.endswith("_") or (name == _CLONE and outer is not None)):  # a part is charged to the whole
                vars(blank)[name] = value
        before = {*vars(blank)}
        # How many rows of a unit there are is private.
        are_public = self.neighboring == "replace_one" and unit is None and self._reads_public_numbers
        with np.errstate(all="ignore"), fit_bar(f"fit {type(self).__name__}", are_public):
            warnings = blank._run(X, unit, outer)  # a floating-point warning would tell of values, and an error would cost the budget
        blank._names_of_fit = ("_names_of_fit", *sorted({*vars(blank)} - before))
        self.__dict__ = vars(blank)
        return warnings

    def _run(self, X: Table, labels: ArrayLike | None, outer: OuterFit | None) -> list[tuple[str, type[Warning]]]:
        """Read, plan, charge, release. Where a public fact is missing, plan by a made-up one, charge, buy it, and plan again."""
        shared = self._check_privacy_parameters()
        unit = self._privacy_unit(labels, shared) if outer is None else None
        rng = make_stream(self.random_state) if outer is None else outer.rng
        rows, facts = self._open_rows(X, labels, rng, outer)
        plan, rho = self._first_plan(facts)
        if outer is None:
            self._warn_before_charge(facts, plan, rng.seeded, labels is not None)
            if shared is not None and not self._claims:
                shared.check_affordable(self.epsilon, self.delta if plan.spends_delta else 0, name=type(self).__name__, rho=rho)
            while facts.warnings:
                warn(*facts.warnings.pop(0))
        account = partial(self._open_account, plan, outer, shared, unit, rho)
        budget = Budget(account, rng, facts.warnings, self.neighboring)
        if facts.missing:
            rows, facts, plan = self._buy_and_plan(rows, facts, plan, budget)
        self._size_error = facts.count_error
        if facts.n_samples is not None:
            self.n_samples_ = facts.n_samples
        with rows.source.session():
            self._release(rows, plan, budget)
        if facts.n_samples is None:
            replace(facts, n_samples=self.n_samples_).warn_if_delta_is_large()
        if not self._keeps_budget_open:
            budget.accountant.close()
        budget.accountant._planned = False  # nobody planned what its owner, or who reopens a record of it, charges from now on
        # A part keeps a record of its own: the ledger of a stream folds what is past.
        self.accountant_ = budget.accountant if outer is None else budget.accountant.record()
        return facts.warnings

    def _first_plan(self, facts: Facts) -> tuple[Plan, str | None]:
        """Return the plan before anything is bought, and the kind of rho that a shared budget is charged in, if it is."""
        plan = self._plan(reserve_all(facts, None)[0] if facts.missing else facts)
        if not isinstance(plan, Plan):
            name, kind = type(self).__name__, type(plan).__name__
            raise TypeError(f"{name}._plan must return a Plan, got a {kind}; derive yours from skdpsynth.fitting.Plan.")
        return plan, reserve_all(facts, plan.rho)[1] if facts.missing else plan.rho

    def _is_charged_as_gaussian(self, facts: Facts) -> bool:
        """Whether a fit with these facts, whose rows are yet to be counted where their number is private, is charged as Gaussian noise."""
        is_counted = facts.n_samples is not None or not self._counts_rows
        return self._first_plan(facts.part() if is_counted else facts.part(missing=(NumberOfRows(),)))[1] == "gaussian"

    def _open_rows(self, X: Table, unit: ArrayLike | None, rng: RandomBits, outer: OuterFit | None) -> tuple[Rows, Facts]:
        """Open and count the rows; return them with the public facts, some of which an outer fit knows.

        Under "add_or_remove_one" a table that is not in memory is read once to count and check it, whatever its files say: so one that
        cannot be read is refused before the count is bought.
        """
        X, labels = (X, None) if unit is None else split_units(X, unit, **reading_options(self, unit))
        rows, more = self._open_table(X)
        if unit is not None:
            rows = self._bound_contributions(rows, labels, rng)
        is_public, n_samples = self.neighboring == "replace_one", rows.n_samples
        if n_samples is None or not (rows.source.in_memory or unit is not None or is_public):
            n_samples = total(rows, RowCount.over()).n_samples
        check_enough(n_samples, self._least_rows)
        budget = check_useful_epsilon(self.epsilon), check_delta(self.delta), self.neighboring
        rows_per_unit = self._rows_per_unit if outer is None else outer.facts.rows_per_unit
        facts = Facts(*budget, n_samples if is_public else None, rows.n_features, rows_per_unit=rows_per_unit, **more)
        if outer is not None and facts.n_samples is None:
            facts = replace(facts, n_samples=outer.facts.n_samples, count_error=outer.facts.count_error)
        if facts.n_samples is None and self._counts_rows:
            facts = replace(facts, missing=(NumberOfRows(), *facts.missing))
        return replace(rows, n_samples=n_samples), facts

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        """Open a table of numbers; return its rows and further public facts, as fields of `Facts`."""
        if isinstance(X, Rows):  # of a containing estimator, which has checked them
            self.n_features_in_ = X.n_features
            self._container, rows = TableFormat(TableKind("numpy", tuple(range(X.n_features)), (X.dtype.str,) * X.n_features)), X
        else:
            self._container, rows = open_numbers(self, X, self._least_rows)
        missing: tuple[MissingFact, ...] = ()
        private: tuple[int, ...] = ()
        if not has_private(self.bounds):
            box = self._container.box(self.bounds)
        elif self._buys_facts:
            bounds, private = with_placeholder_bounds(self.bounds, rows.n_features, self._container.kind.names)
            box, names = self._container.box(bounds), [self._container.columns[place] for place in private]
            missing = (PrivateBounds(self._container.unknown(private), names),)
        else:
            raise ValueError(
                f"bounds must be public for {type(self).__name__}, got 'private', because they must stand before the first row comes; give "
                "(low, high)."
            )
        if rows.source.is_text and not isinstance(X, Rows):
            rows = rows.map(ClipToBounds.within(box, private))
        return rows, {"box": box, "missing": missing}

    def _bound_contributions(self, rows: Rows, labels: Sequence[Any] | None, rng: RandomBits) -> Rows:
        """Keep the chosen rows of each unit; `labels` are those of a table in memory."""
        return bound_contributions(rows, labels, self._rows_per_unit, rng.child("rows of units").bytes(KEY_OF_CHOICE))

    def _warn_before_charge(self, facts: Facts, plan: Plan, is_seeded: bool, has_unit: bool) -> None:
        """Note the warnings that are known by now."""
        if not has_unit and (schema := self._stated_schema) is not None:
            keys = [rule.columns_named for rule in schema.rules if isinstance(rule, Unique)]
            for name in [name for name, kind in schema.items() if isinstance(kind, Identifier) and (name,) not in keys][:1]:
                facts.warn(
                    f"schema has the identifier {short_repr(name)}, but fit got no unit, so one row is protected, and not all rows of one "
                    f"{short_repr(name)}; give fit(X, unit={short_repr(name)}), or, if no two rows have the same, the rule "
                    f"Unique({short_repr(name)}).",
                    BudgetWarning,
                )
        if is_seeded:
            facts.warn(SEED_WARNING, InsecureRandomnessWarning)
        if _LARGEST_PROMISE < facts.epsilon < inf:  # an infinite one says so itself
            facts.warn(
                f"epsilon={float(facts.epsilon):g} is above {_LARGEST_PROMISE}: what is released may show nearly all of a row; common "
                f"choices lie between 0.1 and 10, and epsilon=float('inf') says plainly that nothing is private. {GUIDE}",
                BudgetWarning,
            )
        facts.warn_if_delta_is_large()
        if self._lacks_bounds:
            facts.warn(NO_BOUNDS, BoundsWarning)
        if self.accountant is None and _CLONE in vars(self):
            facts.warn(
                f"A clone is fitted, as in a search or cross-validation: this fit spends epsilon={float(facts.epsilon):g} by itself, and "
                "so does every other fit of a clone; give the estimator one accountant=PrivacyAccountant(...) that counts them all, or use "
                "PrivateSearchCV.",
                BudgetWarning,
            )

    def _buy_and_plan(self, rows: Rows, facts: Facts, first: Plan, budget: Budget) -> tuple[Rows, Facts, Plan]:
        """Buy what is missing; return the rows and the facts with it, and the plan by these."""
        facts, bought = buy_facts(rows, facts, first.rho, budget)
        if bought:
            rows, facts = self._close(bought, rows, facts)
        # A delta that was not charged cannot be spent, even if noise that spends it would be less now.
        plan = self._plan(facts := facts if first.spends_delta else replace(facts, delta=Fraction(0)))
        if facts.rho not in (None, plan.rho):
            raise TypeError(f"{type(self).__name__}._plan must charge all that follows in {facts.rho!r}, as Facts.rho says.")
        return rows, facts, plan

    def _close(self, bought: Mapping[int, Any], rows: Rows, facts: Facts) -> tuple[Rows, Facts]:
        """Put the bounds that were bought, by columns, in place of the placeholders."""
        low, high = facts.box.low.copy(), facts.box.high.copy()
        for place, bounds in bought.items():
            low[place], high[place] = bounds
        self.bounds_ = low, high
        box = self._container.box((low, high))
        return rows.map(ClipToBounds.within(box)) if rows.source.is_text else rows, replace(facts, box=box)

    @property
    def _stated_schema(self) -> Schema | None:
        schema = getattr(self, "schema", None)
        return None if schema is None else Schema.of(schema)

    @property
    def _remark(self) -> str | None:
        """The remark of an account of its own: a clone may be one of many."""
        return CLONE_REMARK if _CLONE in vars(self) else None

    @property
    def _lacks_bounds(self) -> bool:
        """Whether rows are clipped to bounds that nobody gave."""
        return getattr(self, "schema", None) is None and self.bounds is None

    @property
    def _rows_per_unit(self) -> int:
        return int(getattr(self, "max_rows_per_unit", 1))

    @property
    def _least_rows(self) -> int:
        """Under add/remove an empty table is a neighbor of one row, so it must fit; but an empty list has no columns."""
        return 1 if self.neighboring == "replace_one" else 0

    def _check_privacy_parameters(self) -> PrivacyAccountant | None:
        """Check the parameters of every private estimator but bounds, and `neighboring`, checked by then; return the shared accountant."""
        epsilon = check_useful_epsilon(self.epsilon)
        check_delta(self.delta)
        shared = resolve_accountant(self.accountant)
        check_rows_per_unit(getattr(self, "max_rows_per_unit", 1), epsilon)
        check_n_jobs(getattr(self, "n_jobs", None))
        if shared is not None and shared.neighboring != self.neighboring:
            raise ValueError(f"accountant counts under {shared.neighboring!r}, but neighboring is {self.neighboring!r}; use one for both.")
        return shared

    def _privacy_unit(self, labels: ArrayLike | None, shared: PrivacyAccountant | None) -> Unit | None:
        """Return the unit that a fit protects, None for the row; refuse it where the caller means another one."""
        n_rows = self._rows_per_unit
        if labels is None and n_rows > 1:
            raise ValueError(
                f"max_rows_per_unit is {n_rows}, but fit got no unit, so each row would be protected by itself; give fit(X, unit=...), or "
                "leave max_rows_per_unit at 1."
            )
        return check_unit(None if labels is None else Unit(name_of_unit(labels), n_rows), shared)

    def _open_account(
        self, plan: Plan, outer: OuterFit | None, shared: PrivacyAccountant | None, unit: Unit | None, rho: str | None
    ) -> PrivacyAccountant:
        """Return the accountant of this fit: its own, or a child that charges the shared one at once, in rho if all of the fit is."""
        delta = self.delta if plan.spends_delta else 0
        if outer is not None:
            # Members of a group may be of several kinds, of which only those in epsilon cost their largest.
            rho = None if outer.group is not None else rho
            own = outer.budget.accountant.child(self.epsilon, delta, name=outer.name, group=outer.group, rho=rho)
        elif shared is None:
            own = PrivacyAccountant(self.epsilon, delta, neighboring=self.neighboring, unit=unit)
            own.remark = self._remark
        else:
            charge = partial(streams.claim_child, shared) if self._claims else shared.child
            own = charge(self.epsilon, delta, name=type(self).__name__, rho=rho, unit=unit)
        own._planned = True  # the plan has fixed what each step costs
        return own

    def save(self, path: str | PathLike[str]) -> None:
        """Write this estimator to a file that `skdpsynth.load` reads, without code in it and without a seed.

        Parameters
        ----------
        path : str or path-like
        """
        save(self, path)

    def _charge_to(self, accountant: AccountantLike) -> None:
        """Charge a shared budget from now on; for an estimator that was loaded."""
        self.accountant = resolve_accountant(accountant)

    def __sklearn_clone__(self) -> Any:
        """Mark a clone: whoever makes clones may fit many, none of which knows what the others spend."""
        made = super().__sklearn_clone__()
        vars(made)[_CLONE] = True
        return made

    def _check_loaded(self) -> None:
        if not vars(self).get("_names_of_fit"):
            require({name for name in vars(self) if name.endswith("_")} <= _ATTRIBUTES_BEFORE_FIT)
        else:
            require({"accountant_", "n_samples_", "_size_error"} <= vars(self).keys())
            self._check_loaded_columns()

    def _check_loaded_columns(self) -> None:
        check_loaded_columns(self, vars(self).get("_container"))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "accountant_" in state:
            state.pop(_CLONE, None)  # its ledger says so
        shared = state.get("accountant")
        if "accountant_" not in state or shared is None or getattr(shared, "closed", False):
            return state
        # A fitted estimator keeps what was spent, as a record; the open budget stays where it is. From a ledger in a file it keeps only
        # what this fit spent: whoever gets the model must not see the lines of others, or the path.
        is_shared = isinstance(shared, PrivacyAccountant) and not streams.is_durable(shared)
        return {**state, "accountant": (shared if is_shared else self.accountant_).record()}


def check_y_is_ignored(y: object) -> None:
    """Refuse a column name as `y`: the caller almost certainly meant `unit`, which changes whom epsilon protects."""
    if isinstance(y, str):
        raise ValueError(f"y is ignored and must not name a column, got {short_repr(y)}; for whose row each is, say unit={short_repr(y)}.")


def check_unit(unit: Unit | None, shared: PrivacyAccountant | None) -> Unit | None:
    """Return the unit that a fit protects, or refuse one that a shared accountant does not."""
    if shared is not None and shared.unit not in (None, unit):
        raise ValueError(f"unit must be that of accountant, {shared.unit}, got {unit or 'None'}; give it, or another accountant.")
    return unit


def check_useful_epsilon(epsilon: Fraction | float) -> Any:
    """Return epsilon as an exact number, or refuse one that is invalid or absurdly small."""
    exact = check_epsilon(epsilon)
    if exact < _SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least 1e-9, got {short_repr(epsilon)}; common choices lie between 0.1 and 10.")
    return exact


def check_rows_per_unit(n_rows: object, epsilon: Fraction | float) -> None:
    """Refuse a number of rows of a unit that is invalid, or for whose noise 64 bits are too few."""
    if not is_integer(n_rows, 1):
        raise ValueError(f"max_rows_per_unit must be a positive integer, got {short_repr(n_rows)}; 1 keeps one row of each unit.")
    if int(n_rows) * _SMALLEST_EPSILON > epsilon:
        raise ValueError(
            f"max_rows_per_unit must be at most epsilon * 1e9, got {short_repr(int(n_rows))} with epsilon={float(epsilon):g}: the noise "
            "on each count grows with it; use a smaller one."
        )


def clone_part(synthesizer: BaseEstimator, owner: str, words: str = "", takes_tables: bool = False) -> Any:
    """Return an unfitted copy of a caller's synthesizer, or refuse it.

    Messages name the `owner` and, in `words`, other values of the parameter. With `takes_tables` the synthesizer may have a schema.
    """
    wanted = f"synthesizer must be {words}an unfitted synthesizer"
    if isinstance(synthesizer, type) or not hasattr(synthesizer, "get_params"):
        raise ValueError(f"{wanted}, got {short_repr(synthesizer)}; give an instance.")
    lacking = [name for name in _REQUIRED_PARAMETERS if name not in synthesizer.get_params()]
    lacking += ["sample"] if not hasattr(synthesizer, "sample") else []
    if lacking:
        raise ValueError(f"{wanted}, but {type(synthesizer).__name__} lacks {', '.join(lacking)}.")
    if not takes_tables and getattr(synthesizer, "schema", None) is not None:
        raise ValueError(
            f"synthesizer must have schema=None, because {owner} hands it rows of numbers; encode mixed rows with MixedTypeEncoder first."
        )
    if synthesizer.accountant is not None:
        raise ValueError(f"synthesizer must have accountant=None, because it is charged to this fit; give the accountant to {owner}.")
    if hasattr(synthesizer, "partial_fit"):
        # The rows of its open block would lie in what is fitted, and be published with it.
        raise ValueError(f"synthesizer must be no stream, because {owner} publishes it as it is; {type(synthesizer).__name__} keeps rows.")
    given = {name: short_repr(synthesizer.get_params()[name]) for name in ("epsilon", "delta", "neighboring")}
    usual = {name: each.default for name, each in signature(type(synthesizer)).parameters.items()}
    if unused := [name for name, value in given.items() if value != short_repr(usual.get(name))]:
        values = ", ".join(f"{name}={given[name]}" for name in unused)
        warn(f"synthesizer spends the budget of {owner}, so its own {values} is not used; give that to {owner}.", BudgetWarning)
    return clone(synthesizer)


def check_part(part: BaseEstimator, facts: Facts) -> Any:
    """Return the plan of an inner estimator, which refuses its parameters before any budget is spent.

    A caller's synthesizer that cannot plan is fitted to made-up rows instead.
    """
    part.set_params(**_part_parameters(part, facts))
    if facts.rows_per_unit > 1 and not isinstance(part, PrivateEstimator):
        raise ValueError(
            f"max_rows_per_unit must be 1 for a synthesizer that is no PrivateEstimator, got {facts.rows_per_unit}: whether the noise of "
            f"{type(part).__name__} covers so many rows is not known."
        )
    if isinstance(part, PrivateEstimator):
        part._check_privacy_parameters()
        return part._plan(facts)
    steps = np.linspace(0, 1, 100)[:, None]
    clone(part).set_params(random_state=None).fit(facts.box.low + facts.box.width * steps)
    return None


def _part_parameters(part: BaseEstimator, facts: Facts) -> dict[str, Any]:
    box = facts.box
    settings: dict[str, Any] = {} if box is None else {"bounds": (box.low, box.high)}
    if "max_rows_per_unit" in part.get_params(deep=False):
        settings["max_rows_per_unit"] = facts.rows_per_unit
    return {"epsilon": facts.epsilon, "delta": facts.delta, "neighboring": facts.neighboring, **settings}


def fit_part(
    part: BaseEstimator, rows: Rows | np.ndarray, budget: Budget, facts: Facts, *, name: str | None = None, group: str | None = None
) -> Any:
    """Fit an inner estimator within the budget of the outer one, which issues all warnings; return it.

    Its epsilon, delta, relation and box come from `facts`; a private number of rows bought already, with its error, is not bought again.
    The `name` (None: that of its class) is for the ledger and the noise. Parts of one `group` hold disjoint rows.
    """
    part.set_params(**_part_parameters(part, facts))
    name = type(part).__name__ if name is None else name
    rng = budget.rng.child(name)
    if isinstance(part, PrivateEstimator):
        outer = OuterFit(budget, rng, name, group, facts)
        run_with_outer_callbacks(part, f"fit {type(part).__name__}", partial(part._fit, rows, None, outer))
    else:
        child = budget.accountant.child(facts.epsilon, facts.delta, name=name, group=group)
        X = np.clip(rows.collect(), facts.box.low, facts.box.high) if isinstance(rows, Rows) else rows
        part.set_params(accountant=child, random_state=rng.random_state()).fit(X)
        child.close()
    return part.set_params(accountant=None, random_state=None)  # no derived seed stays behind


def random_state_from(rng: np.random.Generator) -> np.random.RandomState:
    """Return a RandomState for an inner `sample`, from a numpy Generator."""
    return np.random.RandomState(rng.integers(2**32, size=8, dtype=np.uint32))
