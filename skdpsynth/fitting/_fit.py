"""The one `fit` of all private estimators."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._doc_links import DocLinkMixin
from skdpsynth._parallel import check_n_jobs, lock_of
from skdpsynth._progress import CallbackMixin, bar, run_with_callbacks, set_rows_public
from skdpsynth._validation import short_repr, warn
from skdpsynth.domain import NO_BOUNDS, Schema, has_private, with_placeholder_bounds
from skdpsynth.exceptions import BoundsWarning, BudgetWarning, InsecureRandomnessWarning
from skdpsynth.fitting._budget import COUNT_SHARE, Budget
from skdpsynth.fitting._facts import (
    Facts,
    Plan,
    check_rows_per_unit,
    check_useful_epsilon,
    check_y_is_ignored,
    identifier_without_unit,
    privacy_unit,
)
from skdpsynth.fitting._private_facts import (
    BOUNDS_SHARE,
    buy_bounds,
    loss_kind_of_fit,
    reserve_budget,
    warn_of_unseen,
    without_levels_share,
)
from skdpsynth.frames import KEY_OF_CHOICE, Rows, TableKind, bound_contributions, split_units
from skdpsynth.persistence import save
from skdpsynth.privacy import (
    SEED_WARNING,
    PrivacyAccountant,
    RandomBits,
    Unit,
    check_delta,
    check_neighboring,
    claim_child,
    is_durable,
    make_stream,
    resolve_accountant,
)
from skdpsynth.statistics import RowCount, total
from skdpsynth.tables import ClipToBounds, TableFormat, check_enough, open_numbers, reading_options

_CLONE = "_is_clone"  # marks what scikit-learn's `clone` made; it goes to worker processes too
_CLONE_REMARK = "the fit of a clone, as in a search or cross-validation: other fits are not in this ledger"


@dataclass(frozen=True)
class NestedContext:
    """Where an inner estimator charges, its noise, and the number of rows if the outer one has bought it."""

    budget: Budget
    rng: RandomBits
    name: str
    group: str | None = None
    n_samples: int | None = None
    count_error: float = 0.0
    rows_per_unit: int = 1

    def told(self, facts: Facts) -> Facts:
        """Return the facts of the inner estimator with those that the outer one knows."""
        facts = replace(facts, rows_per_unit=self.rows_per_unit)
        return facts if facts.n_samples is not None else replace(facts, n_samples=self.n_samples, count_error=self.count_error)


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
    def fit(self, X: Any, y: Any = None, unit: Any = None) -> Any:
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
            for message, category in run_with_callbacks(self, partial(self._fit, X, unit=unit)):
                warn(message, category)
        return self

    def __sklearn_clone__(self) -> Any:
        """Mark a clone: whoever makes clones may fit many, none of which knows what the others spend."""
        made = super().__sklearn_clone__()
        vars(made)[_CLONE] = True
        return made

    def _fit(self, X: Any, hand: NestedContext | None = None, unit: Any = None) -> list:
        """Fit, or leave the object as it was; return the warnings that are not issued yet (all of them for an inner estimator)."""
        check_neighboring(self.neighboring)
        blank = self._unfitted_copy()
        if hand is not None:  # a part is charged to the whole, whoever made it
            vars(blank).pop(_CLONE, None)
        before = {*vars(blank)}
        # How many rows of a unit there are is private, whatever the relation.
        are_public = set_rows_public(self.neighboring == "replace_one" and unit is None)
        with np.errstate(all="ignore"), are_public, bar(f"fit {type(self).__name__}"):
            told = blank._run(X, hand, unit)  # a floating-point warning would tell of values, and an error would cost the budget
        blank._names_of_fit = ("_names_of_fit", *sorted({*vars(blank)} - before))
        self.__dict__ = vars(blank)
        return told

    def _unfitted_copy(self) -> Any:
        blank: Any = object.__new__(type(self))
        gone = vars(self).get("_names_of_fit", ())
        vars(blank).update({name: value for name, value in vars(self).items() if name not in gone and not name.endswith("_")})
        return blank

    def _run(self, X: Any, hand: NestedContext | None, labels: Any) -> list:
        shared = self._check_privacy_parameters()
        unit = privacy_unit(labels, self._rows_per_unit, shared) if hand is None else None
        rng = make_stream(self.random_state) if hand is None else hand.rng
        rows, facts = self._open_rows(X, labels, rng)
        if hand is not None:
            facts = hand.told(facts)
        is_private = facts.n_samples is None and self._counts_rows
        # Where a public fact is yet to be bought, a plan by made-up ones, at what will be left of epsilon, refuses what parameters forbid
        # before anything is charged.
        plan = self._plan(_placeholder_facts(facts, is_private) if is_private or facts.lacks_facts else facts)
        _check_plan(plan, type(self).__name__)
        parts = [COUNT_SHARE] * is_private + [BOUNDS_SHARE] * (facts.unknown is not None)
        in_rho = loss_kind_of_fit(facts, parts, plan.rho) if is_private or facts.lacks_facts else plan.rho
        if hand is None:
            self._warn_before_charge(facts, rng.seeded, plan, shared, in_rho, labels is not None)
        budget = Budget.opened_late(partial(self._open_account, plan, hand, shared, unit, in_rho), self.neighboring, rng, facts.told)
        if is_private:
            share, facts = reserve_budget(facts, COUNT_SHARE, plan.rho)
            n_samples, error = budget.number_of_rows(RowCount(rows.n_samples or 0), share)
            facts = replace(facts, n_samples=n_samples, count_error=error)
            facts.warn_if_delta_is_large()
        if facts.lacks_facts:
            rows, facts = self._buy_missing_facts(rows, facts, plan, budget)
            is_private = True
        if is_private:
            plan = self._replan(plan, facts)
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
        self.accountant_ = budget.accountant if hand is None else budget.accountant.record()
        return facts.told

    def _warn_before_charge(
        self, facts: Facts, is_seeded: bool, plan: Plan, shared: PrivacyAccountant | None, in_rho: str | None, has_unit: bool
    ) -> None:
        """Issue the warnings known by now, and refuse a fit for which a shared budget is too small."""
        if not has_unit:
            self._note_missing_unit(facts)
        self._note_public_warnings(facts, is_seeded)
        if shared is not None and not self._claims:
            delta = self.delta if plan.spends_delta else 0
            shared.check_affordable(self.epsilon, delta, name=type(self).__name__, rho=in_rho)
        while facts.told:
            warn(*facts.told.pop(0))

    def _note_public_warnings(self, facts: Facts, is_seeded: bool) -> None:
        if is_seeded:
            facts.warn(SEED_WARNING, InsecureRandomnessWarning)
        facts.warn_if_epsilon_is_large()
        facts.warn_if_delta_is_large()
        if self._lacks_bounds:
            facts.warn(NO_BOUNDS, BoundsWarning)
        if self.accountant is None and _is_clone(self):
            facts.warn(
                f"A clone is fitted, as in a search or cross-validation: this fit spends epsilon={float(self.epsilon):g} by itself, and so "
                "does every other fit of a clone; give the estimator one accountant=PrivacyAccountant(...) that counts them all, or use "
                "PrivateSearchCV.",
                BudgetWarning,
            )

    def _note_missing_unit(self, facts: Facts) -> None:
        schema = self._stated_schema
        if schema is not None and (name := identifier_without_unit(schema)) is not None:
            facts.warn(
                f"schema has the identifier {short_repr(name)}, but fit got no unit, so one row is protected, and not all rows of one "
                f"{short_repr(name)}; give fit(X, unit={short_repr(name)}), or, if no two rows have the same, the rule "
                f"Unique({short_repr(name)}).",
                BudgetWarning,
            )

    def _replan(self, first: Plan, facts: Facts) -> Plan:
        """Return the plan by the facts that were bought."""
        # What was not charged cannot be spent, whatever kind of noise would be less for what is left of epsilon.
        facts = facts if first.spends_delta else replace(facts, delta=Fraction(0))
        plan = self._plan(facts)
        if facts.rho not in (None, plan.rho):
            raise TypeError(f"{type(self).__name__}._plan must charge all that follows in {facts.rho!r}, as Facts.rho says.")
        return plan

    def _open_rows(self, X: Any, unit: Any, rng: RandomBits) -> tuple[Rows, Facts]:
        """Open and count the rows; return them with the public facts.

        Under "add_or_remove_one" a table that is not in memory is read once to count and check it, whatever its files say: so one that
        cannot be read is refused before the count is bought.
        """
        X, labels = (X, None) if unit is None else split_units(X, unit, **reading_options(self, unit))
        rows, more = self._read(X)
        if unit is not None:
            rows = self._bound_contributions(rows, labels, rng)
        n_samples = rows.n_samples
        if n_samples is None or not (rows.source.in_memory or unit is not None or self.neighboring == "replace_one"):
            n_samples = total(rows, RowCount.over()).n_samples
        check_enough(n_samples, self._least_rows)
        return rows.counted(n_samples), self._facts(n_samples, rows.n_features, **more)

    def _bound_contributions(self, rows: Rows, labels: Any, rng: RandomBits) -> Rows:
        """Keep the chosen rows of each unit; `labels` are those of a table in memory."""
        return bound_contributions(rows, labels, self._rows_per_unit, rng.child("rows of units").bytes(KEY_OF_CHOICE))

    @property
    def _stated_schema(self) -> Schema | None:
        schema = getattr(self, "schema", None)
        return None if schema is None else Schema.of(schema)

    @property
    def _has_schema(self) -> bool:
        return getattr(self, "schema", None) is not None

    @property
    def _lacks_bounds(self) -> bool:
        """Whether rows are clipped to bounds that nobody gave."""
        return not self._has_schema and self.bounds is None

    @property
    def _rows_per_unit(self) -> int:
        return int(getattr(self, "max_rows_per_unit", 1))

    def _read(self, X: Any) -> tuple[Rows, dict[str, Any]]:
        """Open a table of numbers; return its rows and further public facts, as fields of `Facts`."""
        if isinstance(X, Rows):  # of a containing estimator, which has checked them
            self.n_features_in_ = X.n_features
            self._container, rows = TableFormat(TableKind("numpy", tuple(range(X.n_features)), (X.dtype.str,) * X.n_features)), X
        else:
            self._container, rows = open_numbers(self, X, self._least_rows)
        if has_private(self.bounds) and not self._buys_facts:
            raise ValueError(
                f"bounds must be public for {type(self).__name__}, got 'private', because they must stand before the first row comes; give "
                "(low, high)."
            )
        bounds, columns = with_placeholder_bounds(self.bounds, rows.n_features, self._container.kind.names)
        box = self._container.box(bounds)
        if rows.source.is_text and not isinstance(X, Rows):
            rows = rows.map(ClipToBounds.within(box, columns))
        return rows, {"box": box, "unknown": self._container.unknown(columns)}

    def _buy_missing_facts(self, rows: Rows, facts: Facts, plan: Plan, budget: Budget) -> tuple[Rows, Facts]:
        """Buy the facts that nobody knows, here bounds; return the rows and the facts."""
        unknown = facts.unknown
        share, facts = reserve_budget(facts, BOUNDS_SHARE, plan.rho)
        bought = buy_bounds(partial(total, rows), unknown, share, budget, facts.n_samples)
        low, high = facts.box.low.copy(), facts.box.high.copy()
        low[list(unknown.columns)], high[list(unknown.columns)] = bought.low, bought.high
        self.bounds_ = low, high
        names = self._container.columns
        warn_of_unseen([names[column] for column in np.array(unknown.columns)[~bought.is_seen]], budget)
        box = self._container.box((low, high))
        rows = rows.map(ClipToBounds.within(box)) if rows.source.is_text else rows
        return rows, replace(facts, box=box, unknown=None)

    def _facts(self, n_samples: int, n_features: int, **more: Any) -> Facts:
        public = n_samples if self.neighboring == "replace_one" else None
        epsilon, delta = check_useful_epsilon(self.epsilon), check_delta(self.delta)
        return Facts(epsilon, delta, self.neighboring, public, n_features, rows_per_unit=self._rows_per_unit, **more)

    @property
    def _least_rows(self) -> int:
        """Under add/remove an empty table is a neighbor of one row, so it must fit; but an empty list has no columns."""
        return 1 if self.neighboring == "replace_one" else 0

    def _check_privacy_parameters(self) -> PrivacyAccountant | None:
        """Check the parameters of every private estimator except bounds; return the shared accountant."""
        epsilon = check_useful_epsilon(self.epsilon)
        check_delta(self.delta)
        check_neighboring(self.neighboring)
        shared = resolve_accountant(self.accountant)
        check_rows_per_unit(getattr(self, "max_rows_per_unit", 1), epsilon)
        check_n_jobs(getattr(self, "n_jobs", None))
        if shared is not None and shared.neighboring != self.neighboring:
            raise ValueError(
                f"accountant counts under {shared.neighboring!r}, but neighboring is {self.neighboring!r}; use one relation for both."
            )
        return shared

    def _open_account(
        self, plan: Plan, hand: NestedContext | None, shared: PrivacyAccountant | None, unit: Unit | None, in_rho: str | None
    ) -> PrivacyAccountant:
        """Return the accountant of this fit: its own, or a child that charges the shared one at once, in rho if all of the fit is."""
        delta = self.delta if plan.spends_delta else 0
        if hand is not None:
            # Members of a group may be of several kinds, of which only those in epsilon cost their largest.
            rho = None if hand.group is not None else in_rho
            own = hand.budget.accountant.child(self.epsilon, delta, name=hand.name, group=hand.group, rho=rho)
        elif shared is None:
            own = PrivacyAccountant(self.epsilon, delta, neighboring=self.neighboring, unit=unit)
            own.remark = _CLONE_REMARK if _is_clone(self) else None
        else:
            charge = partial(claim_child, shared) if self._claims else shared.child
            own = charge(self.epsilon, delta, name=type(self).__name__, rho=in_rho, unit=unit)
        own._planned = True  # the plan has fixed what each step costs
        return own

    def save(self, path: Any) -> None:
        """Write this estimator to a file that `skdpsynth.load` reads, without code in it and without a seed.

        Parameters
        ----------
        path : str or path-like
        """
        save(self, path)

    def _charge_to(self, accountant: Any) -> None:
        """Charge a shared budget from now on; for an estimator that was loaded."""
        self.accountant = resolve_accountant(accountant)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "accountant_" in state:
            state.pop(_CLONE, None)  # its ledger says so
        shared = state.get("accountant")
        if "accountant_" not in state or shared is None or getattr(shared, "closed", False):
            return state
        # A fitted estimator keeps what was spent, as a record; the open budget stays where it is. Of a ledger in a file it is what this
        # fit spent: the lines of others, and the path, are nobody's business who gets the model.
        is_shared = isinstance(shared, PrivacyAccountant) and not is_durable(shared)
        return {**state, "accountant": (shared if is_shared else self.accountant_).record()}


def _placeholder_facts(facts: Facts, is_private: bool) -> Facts:
    """Return facts of one row in a made-up box, with the budget that will be left once the true ones are bought."""
    facts = facts.part(unknown=facts.unknown, unlisted=facts.unlisted, **{"n_samples": 1} if is_private else {})
    for share in [COUNT_SHARE] * is_private + [BOUNDS_SHARE] * (facts.unknown is not None):
        facts = replace(facts, epsilon=facts.epsilon * (1 - share))
    return without_levels_share(facts) if facts.unlisted else facts


def _is_clone(estimator: PrivateEstimator) -> bool:
    return _CLONE in vars(estimator)


def _check_plan(plan: Any, name: str) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"{name}._plan must return a Plan, got a {type(plan).__name__}; derive yours from skdpsynth.fitting.Plan.")
