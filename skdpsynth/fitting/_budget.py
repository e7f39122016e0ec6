"""Public facts of a fit, its plan and its budget."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._progress import task
from skdpsynth._sensitivity import Query
from skdpsynth.domain import Schema
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.frames import Rows
from skdpsynth.privacy import (
    Discovery,
    Mechanism,
    PrivacyAccountant,
    PrivacyLoss,
    RandomBits,
    epsilon_of_rho,
    rho_of_epsilon,
    split_exactly,
)

_LARGEST_SIZE = 2.0**24
_USUAL_DELTA = Fraction(1, 10**6)
_SEVERAL = 3  # times less noise that make a delta worth a word
_LARGEST_EPSILON = 1024  # beyond, a row has more cells than its neighbors can tell apart
_MIN_REMAINING_SHARE = Fraction(1, 4)
GUIDE = "See the guide: Choosing epsilon, delta, relation and unit."


@dataclass(frozen=True)
class Facts:
    """Public numbers of a fit: all that a plan may depend on.

    Attributes
    ----------
    epsilon, delta : Fraction
        The budget (epsilon may be ``math.inf``).
    neighboring : {"replace_one", "add_or_remove_one"}
    n_samples : int or None
        Number of rows. None while it is private; an estimate once that is released.
    n_features : int
    box : Box or None
        Public bounds of rows of numbers.
    schema : Schema or None
        Public facts about the columns of a mixed table.
    missing : tuple of MissingFact
        What is still to be bought; until then placeholders stand for it.
    rho : {None, "gaussian", "zcdp"}
        The kind of rho in which all releases must be charged, because a public fact was bought so; None: the plan decides.
    rows_per_unit : int
        The most rows of one unit of privacy, which all noise covers; 1 where the unit is the row.
    count_error : float
        Expected absolute error of `n_samples`; 0 where it is public.
    told : list of (str, type)
        Warnings for the caller.

    See Also
    --------
    Plan : Decides by these facts.
    PrivateEstimator : Hands them to `_plan`.
    """

    epsilon: Any
    delta: Fraction
    neighboring: str
    n_samples: int | None
    n_features: int
    box: Any = None  # what reads it knows that it is there
    schema: Schema | None = None
    missing: tuple["MissingFact", ...] = ()
    rho: str | None = None
    rows_per_unit: int = 1
    count_error: float = 0.0
    told: list[tuple[str, type[Warning]]] = field(default_factory=list, compare=False)

    @property
    def share(self) -> PrivacyLoss:
        """The whole budget as a loss."""
        return PrivacyLoss(self.epsilon, self.delta, rows=self.rows_per_unit)

    def pure(self, epsilon: Fraction | float) -> PrivacyLoss:
        """Return the loss of a part of the budget, in epsilon."""
        return PrivacyLoss(epsilon=epsilon, rows=self.rows_per_unit)

    @property
    def size(self) -> float:
        """Epsilon times the number of rows over the rows of a unit: depths and numbers of cells follow from it.

        It is capped, so that these stay within memory; epsilon counts up to 1024, so that absurd values, and no noise at all, cost no more
        time than the rows are worth.
        """
        return min(float(min(self.epsilon / self.rows_per_unit, _LARGEST_EPSILON)) * (self.n_samples or 1), _LARGEST_SIZE)

    @property
    def takes_delta(self) -> bool:
        """Whether a missing fact takes a part of delta, so that the whole fit spends it."""
        return any(fact.takes_delta for fact in self.missing)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning; it is issued before the charge where it is known by then, else when the fit is done."""
        self.told.append((message, category))

    @property
    def usual_delta(self) -> Fraction:
        """A delta that promises enough for this many rows: the smaller of a millionth and a tenth of 1 / n_samples."""
        return min(_USUAL_DELTA, Fraction(1, 10 * (self.n_samples or 1)))

    def warn_if_delta_is_large(self) -> None:
        """Warn where delta promises little to a row, as soon as the number of rows is known."""
        if self.n_samples is not None and self.delta * self.n_samples > 1:
            self.warn(
                f"delta={float(self.delta):g} is above 1 / n_samples, with n_samples={self.n_samples}: such a promise allows to publish a "
                f"row as it is; use delta={float(self.usual_delta):g} or less. {GUIDE}",
                BudgetWarning,
            )

    def warn_if_delta_helps(self, deviation: float, with_delta: float) -> None:
        """Warn where noise of a pure loss has at least three times the `deviation` of Gaussian noise at the usual delta."""
        if not self.delta and deviation >= _SEVERAL * with_delta > 0:
            self.warn(
                f"With delta={float(self.usual_delta):g} the noise on {self.n_features} features would be "
                f"{deviation / with_delta:.3g} times smaller than with delta=0; give a delta unless the promise must be a pure one. "
                f"{GUIDE}",
                BudgetWarning,
            )

    def part(self, **changes: Any) -> "Facts":
        """Return the facts of an inner estimator, which collects its own warnings."""
        return replace(self, **{"missing": (), **changes}, told=[])


@dataclass(frozen=True, eq=False)
class MissingFact:
    """A private fact that a share of the budget buys before the plan is made."""

    share = Fraction(1, 10)  # of the budget
    takes_delta = False  # whether its share is one of epsilon and of delta

    def placeholder(self, facts: Facts) -> Facts:
        """Return facts with the budget that will be left, and something made up where nothing is known."""
        delta = facts.delta * (1 - self.share) if self.takes_delta else facts.delta
        return replace(facts, epsilon=facts.epsilon * (1 - self.share), delta=delta)

    def reserve(self, facts: Facts, rho: str | None) -> tuple[PrivacyLoss, Facts, str | None]:
        """Return the loss of buying it, the facts with the rest of the budget, and the kind of rho that the rest is charged in, if any."""
        loss, rest = reserve_budget(facts, self.share, rho)
        return loss, rest, rest.rho

    def buy(self, rows: Rows, facts: Facts, share: PrivacyLoss, budget: "Budget") -> tuple[Facts, dict[int, Any]]:
        """Release it; return the facts, and by columns what was bought."""
        raise NotImplementedError


def reserve_budget(facts: Facts, part: Fraction, rho: str | None) -> tuple[PrivacyLoss, Facts]:
    """Return a part of the budget for noise that is charged as pure or, if the plan charges `rho`, as Gaussian; and the facts of the rest.

    In rho the part is a share of rho, which is more than that share of epsilon. Gaussian noise of a rho is zCDP of that rho too, so it adds
    up in rho with a rest of either kind. The kind of the rest must not follow from what was bought: a choice between two kinds, each of
    which fits, by the first noise would lose up to twice delta.
    """
    first, rest = split_exactly(facts.epsilon, [part, 1 - part])
    pure = facts.pure(first), replace(facts, epsilon=rest, rho=None)
    if rho is None or facts.epsilon == math.inf:
        return pure
    is_gaussian = rho == "gaussian"
    whole = rho_of_epsilon(facts.epsilon, facts.delta, gaussian=is_gaussian)
    rest = epsilon_of_rho((1 - part) * whole, facts.delta, gaussian=is_gaussian)
    if rest < _MIN_REMAINING_SHARE * facts.epsilon:
        return pure  # a delta that is large beside epsilon pays for rho alone, so that no epsilon tells what is left
    # All but the rho that the rest will take, to the last digit.
    bought = whole - rho_of_epsilon(rest, facts.delta, gaussian=is_gaussian)
    return PrivacyLoss(rho=bought, gaussian=True, rows=facts.rows_per_unit), replace(facts, epsilon=rest, rho=rho)


@dataclass(frozen=True)
class Plan:
    """Decisions of a mechanism by public facts; subclasses add fields.

    Attributes
    ----------
    rho : {None, "gaussian", "zcdp"}
        The kind of rho in which all releases are charged, if they are. Then a public fact bought before may be charged so too, and a shared
        accountant is charged rho, which covers nothing else. A plan follows `Facts.rho` where that is not None.
    spends_delta : bool
        Whether the delta of the budget is needed; `Mechanism.spends_delta` answers for one release. Where the number of rows is private
        the plan is made twice, and delta is charged with the first.

    See Also
    --------
    Facts : Public facts that it is made from.
    PrivateEstimator : Hands it to `_release`.
    """

    spends_delta: bool = False
    rho: str | None = field(default=None, kw_only=True)


class Budget:
    """The budget of a fit: charges each answer to a query and covers it with noise.

    Parameters
    ----------
    accountant : PrivacyAccountant or callable
        The accountant of this fit, or what opens it at the first answer: rows that cannot be read cost nothing then.
    rng : RandomBits
        Stream of random bits for the noise.
    told : list of (str, type), default=None
        Warnings for the caller, issued when the fit is done.
    relation : str, default=None
        Which tables are neighbors. None: as the accountant says.

    Attributes
    ----------
    relation : str
        Which tables are neighbors.
    is_broken : bool
        Whether a release raised an error after it was charged.

    See Also
    --------
    PrivacyAccountant : Charges the losses.
    Query : Exact values with their sensitivity.
    skdpsynth.privacy.mechanism : Calibrates the noise.
    """

    is_broken = False

    def __init__(
        self, accountant: Any, rng: RandomBits, told: list[tuple[str, type[Warning]]] | None = None, relation: str | None = None
    ) -> None:
        self._account: Callable[[], PrivacyAccountant] | PrivacyAccountant = accountant
        self.relation = accountant.neighboring if relation is None else relation
        self.rng = rng
        self.told = [] if told is None else told

    @property
    def accountant(self) -> PrivacyAccountant:
        """The accountant of this fit."""
        if not isinstance(self._account, PrivacyAccountant):
            self._account = self._account()
        return self._account

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit of privacy, which all noise covers."""
        return self.accountant.rows_per_unit

    def answer(self, query: Query, chosen: Mechanism, name: str) -> np.ndarray:
        """Charge the loss of a mechanism, and return the values of a query with its noise.

        Parameters
        ----------
        query : Query
        chosen : Mechanism
            Calibrated to the sensitivity of this query.
        name : str
            Name of the release in the ledger.

        Returns
        -------
        noisy_values : int64 ndarray
        """
        if query.sensitivity != chosen.sensitivity:
            raise ValueError(
                f"The noise of {name!r} was made for {chosen.sensitivity}, but the query has {query.sensitivity}; plan it anew."
            )
        with task(name, total=0):
            rng = self.rng.child(name)
            return self.accountant.release(query.values, chosen.noise, rng, name=name, loss=chosen.loss, sensitivity=query.sensitivity)

    def discover(self, tables: Sequence[Mapping[Any, int]], chosen: Discovery, name: str) -> list[list[Any]]:
        """Charge the loss of a partition selection, and return the levels that enough rows have.

        Parameters
        ----------
        tables : sequence of dict of level to int
            Counts of the levels that occur; only the number of tables is public.
        chosen : Discovery
            Calibrated for this number of tables.
        name : str
            Name of the release in the ledger.
        """
        return self.accountant.release_discovered(tables, chosen, self.rng.child(name), name=name)

    def choose(self, utilities: Query, share: PrivacyLoss, name: str) -> int:
        """Charge a share, and return the number of a candidate chosen by its exact utility.

        Parameters
        ----------
        utilities : Query
            One value for each candidate.
        share : PrivacyLoss
        name : str
            Name of the choice in the ledger.
        """
        return self.accountant.release_choice(utilities.values, utilities.sensitivity, self.rng.child(name), name=name, loss=share)

    def part(self, share: PrivacyLoss, name: str, group: str | None = None) -> "Budget":
        """Charge a share in epsilon, and return it as a budget of its own, with its own noise.

        Parameters
        ----------
        share : PrivacyLoss
        name : str
            Purpose of the part or, within a group, whose rows it is for.
        group : str, default=None
            Parts of one group hold disjoint rows: together they cost the largest of them.
        """
        return Budget(self.accountant.child(share.epsilon, share.delta, name=name, group=group), self.rng.child(name), self.told)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning that follows from what was released."""
        self.told.append((message, category))

    def generator(self) -> np.random.Generator:
        """Return a numpy generator for choices that are post-processing."""
        return self.rng.child("public").generator()
