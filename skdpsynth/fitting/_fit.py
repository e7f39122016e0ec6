"""The one `fit` of all private estimators."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._checks import warn
from skdpsynth._locks import lock_of
from skdpsynth._sklearn import validate_rows
from skdpsynth.domain import Container
from skdpsynth.exceptions import InsecureRandomnessWarning
from skdpsynth.fitting._budget import COUNT_SHARE, Budget
from skdpsynth.fitting._facts import Facts, Plan, check_useful
from skdpsynth.persistence import save
from skdpsynth.privacy import (
    SEEDED,
    PrivacyAccountant,
    RandomBits,
    check_accountant,
    check_delta,
    check_neighboring,
    stream_of,
)


@dataclass(frozen=True)
class Hand:
    """What a containing estimator hands to its part: where to charge, noise, and the number of rows where that was bought already."""

    accountant: PrivacyAccountant
    rng: RandomBits
    name: str
    group: str | None = None
    n_samples: int | None = None
    count_error: float = 0.0


class PrivateEstimator(BaseEstimator):
    """Base of the private estimators: `fit` is written here once, a mechanism fills in `_plan` and `_release`.

    The order of a fit: parameters and rows are checked; `_plan` decides by public facts alone, and refuses; warnings that are known by
    then are issued; the budget is charged; `_release` asks its queries of it and sets the fitted attributes. It happens on a blank copy
    of the estimator, whose state replaces that of the estimator in one step at the end: a fit that fails changes nothing, and a refit
    leaves nothing of the fit before.
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

    @abstractmethod
    def _plan(self, facts: Facts) -> Plan:
        """Decide sizes and noise from public facts alone; refuse here whatever can be refused."""

    @abstractmethod
    def _release(self, rows: Any, plan: Any, budget: Budget) -> None:
        """Release what the mechanism releases of the rows, and set the fitted attributes."""

    @final
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from rows under differential privacy; a refit forgets the fit before, and spends epsilon again.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers, or what a schema says. Values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        with lock_of(self):
            for message, category in self._fit(X):
                warn(message, category)
        return self

    def _fit(self, X: Any, hand: Hand | None = None) -> list:
        """Fit, or leave the object as it was; return the warnings that are not issued yet (of a part: all of them)."""
        blank = self._blank()
        before = {*vars(blank)}
        with np.errstate(all="ignore"):  # a floating-point warning would tell of values, and an error would cost the budget
            told = blank._run(X, hand)
        blank._names_of_fit = ("_names_of_fit", *sorted({*vars(blank)} - before))
        self.__dict__ = vars(blank)
        return told

    def _blank(self) -> Any:
        blank: Any = object.__new__(type(self))
        gone = vars(self).get("_names_of_fit", ())
        vars(blank).update({name: value for name, value in vars(self).items() if name not in gone and not name.endswith("_")})
        return blank

    def _run(self, X: Any, hand: Hand | None) -> list:
        self._check_promise()
        rows, facts = self._read(X)
        if hand is not None and facts.n_samples is None:
            facts = replace(facts, n_samples=hand.n_samples, count_error=hand.count_error)
        rng = stream_of(self.random_state) if hand is None else hand.rng
        is_private = facts.n_samples is None and self._counts_rows
        # Where the number of rows is private, a plan for one row, at what its count will leave of epsilon, refuses what parameters forbid
        # before anything is charged.
        plan = self._plan(facts.part(n_samples=1, epsilon=facts.epsilon * (1 - COUNT_SHARE)) if is_private else facts)
        _check_plan(plan, type(self).__name__)
        if hand is None:
            if rng.seeded:
                facts.warn(SEEDED, InsecureRandomnessWarning)
            facts.warn_if_epsilon_is_large()
            facts.warn_if_delta_is_large()
            _issue(facts.told)
        budget = Budget(self._opened(plan, hand), rng, facts.told)
        if is_private:
            n_samples, error, rest = budget.number_of_rows(_length(rows))
            facts = replace(facts, n_samples=n_samples, count_error=error, epsilon=rest)
            facts.warn_if_delta_is_large()
            # What was not charged cannot be spent, whatever kind of noise would be less for what is left of epsilon.
            plan = self._plan(facts if plan.spends_delta else replace(facts, delta=Fraction(0)))
        if facts.n_samples is not None:
            self.n_samples_ = facts.n_samples
        self._release(rows, plan, budget)
        if facts.n_samples is None:
            replace(facts, n_samples=self.n_samples_).warn_if_delta_is_large()
        if not self._keeps_budget_open:
            budget.accountant.close()
        # A part keeps a record of its own: the ledger of a stream folds what is past.
        self.accountant_ = budget.accountant if hand is None else budget.accountant.record()
        return facts.told

    def _read(self, X: Any) -> tuple[Any, Facts]:
        """Check rows, and tell what is public about them."""
        container = Container.of(X)
        X = validate_rows(self, X, reset=True, ensure_min_samples=self._least_rows)
        self._container = container
        return X, self._facts(*X.shape, box=container.box(self.bounds, X.shape[1]))

    def _facts(self, n_samples: int, n_features: int, **more: Any) -> Facts:
        is_public = self.neighboring == "replace_one"
        epsilon, delta = check_useful(self.epsilon), check_delta(self.delta)
        return Facts(epsilon, delta, self.neighboring, n_samples if is_public else None, n_features, **more)

    @property
    def _least_rows(self) -> int:
        """An empty table is a neighbour of one row under add/remove, so it must fit too."""
        return 1 if self.neighboring == "replace_one" else 0

    def _check_promise(self) -> None:
        """Check the parameters that every private estimator has, but for bounds."""
        check_useful(self.epsilon)
        check_delta(self.delta)
        check_neighboring(self.neighboring)
        check_accountant(self.accountant)
        if self.accountant is not None and self.accountant.neighboring != self.neighboring:
            raise ValueError(
                f"accountant counts under {self.accountant.neighboring!r}, but neighboring is {self.neighboring!r}; "
                "use one relation for both."
            )

    def _opened(self, plan: Plan, hand: Hand | None) -> PrivacyAccountant:
        """Return the accountant of this fit: its own, or a child that charges the shared one at once."""
        delta = self.delta if plan.spends_delta else 0
        if hand is not None:
            return hand.accountant.child(self.epsilon, delta, name=hand.name, group=hand.group)
        if self.accountant is None:
            return PrivacyAccountant(self.epsilon, delta, neighboring=self.neighboring)
        return self.accountant.child(self.epsilon, delta, name=type(self).__name__)

    def save(self, path: Any) -> None:
        """Write this estimator to a file that `skdpsynth.load` reads, without code in it and without a seed.

        Parameters
        ----------
        path : str or path-like
        """
        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        shared = state.get("accountant")
        if "accountant_" in state and shared is not None and not shared.closed:
            # A fitted estimator keeps what was spent, as a record; the open budget stays where it is.
            state["accountant"] = shared.record()
        return state


def _check_plan(plan: Any, name: str) -> None:
    if not isinstance(plan, Plan):
        raise TypeError(f"{name}._plan must return a Plan, got a {type(plan).__name__}; derive yours from skdpsynth.fitting.Plan.")


def _issue(told: list) -> None:
    while told:
        warn(*told.pop(0))


def _length(rows: Any) -> int:
    return len(rows[0]) if isinstance(rows, tuple) else rows.shape[0]
