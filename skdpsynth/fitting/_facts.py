"""Public facts of a fit, and its plan."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.domain import Identifier, Schema, Unique
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.frames import name_of_unit
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, Unit, check_epsilon

_SMALLEST_EPSILON = Fraction(1, 10**9)  # its noise still fits into 64 bits
_LARGEST_SIZE = 2.0**24
_LARGEST_PROMISE = 20  # of epsilon: at more, what one row adds is hardly hidden
_USUAL_DELTA = Fraction(1, 10**6)
_SEVERAL = 3  # times less noise that make a delta worth a word
_LARGEST_EPSILON = 1024  # beyond, a row has more cells than its neighbors can tell apart
_GUIDE = "See the guide: Choosing epsilon, delta, relation and unit."


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
    unknown : Unknown or None
        The columns whose bounds are still to be bought; until then `box` and `schema` hold placeholders there.
    unlisted : tuple of int
        The columns whose levels are still to be bought.
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
    box: Any = None
    schema: Any = None
    unknown: Any = None
    unlisted: tuple[int, ...] = ()
    rho: str | None = None
    rows_per_unit: int = 1
    count_error: float = 0.0
    told: list = field(default_factory=list, compare=False)

    @property
    def lacks_facts(self) -> bool:
        """Whether bounds or levels are still to be bought."""
        return self.unknown is not None or bool(self.unlisted)

    @property
    def share(self) -> PrivacyLoss:
        """The whole budget as a loss."""
        return PrivacyLoss(self.epsilon, self.delta, rows=self.rows_per_unit)

    def pure(self, epsilon: Any) -> PrivacyLoss:
        """Return the loss of a part of the budget, in epsilon."""
        return PrivacyLoss(epsilon=epsilon, rows=self.rows_per_unit)

    @property
    def size(self) -> float:
        """Epsilon times the number of rows over the rows of a unit, capped: depths and numbers of cells follow from it."""
        return public_size(self.epsilon / self.rows_per_unit, self.n_samples or 1)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning; it is issued before the charge where it is known by then, else when the fit is done."""
        self.told.append((message, category))

    @property
    def usual_delta(self) -> Fraction:
        """A delta that promises enough for this many rows: the smaller of a millionth and a tenth of 1 / n_samples."""
        return min(_USUAL_DELTA, Fraction(1, 10 * (self.n_samples or 1)))

    def warn_if_epsilon_is_large(self) -> None:
        """Warn where epsilon promises little to a row; an infinite one says so itself."""
        if _LARGEST_PROMISE < self.epsilon < math.inf:
            self.warn(
                f"epsilon={float(self.epsilon):g} is above {_LARGEST_PROMISE}: what is released may show nearly all of a row; common "
                f"choices lie between 0.1 and 10, and epsilon=float('inf') says plainly that nothing is private. {_GUIDE}",
                BudgetWarning,
            )

    def warn_if_delta_is_large(self) -> None:
        """Warn where delta promises little to a row, as soon as the number of rows is known."""
        if self.n_samples is not None and self.delta * self.n_samples > 1:
            self.warn(
                f"delta={float(self.delta):g} is above 1 / n_samples, with n_samples={self.n_samples}: such a promise allows to publish a "
                f"row as it is; use delta={float(self.usual_delta):g} or less. {_GUIDE}",
                BudgetWarning,
            )

    def warn_if_delta_helps(self, deviation: float, with_delta: float) -> None:
        """Warn where noise of a pure loss has at least three times the `deviation` of Gaussian noise at the usual delta."""
        if not self.delta and deviation >= _SEVERAL * with_delta > 0:
            self.warn(
                f"With delta={float(self.usual_delta):g} the noise on {self.n_features} features would be "
                f"{deviation / with_delta:.3g} times smaller than with delta=0; give a delta unless the promise must be a pure one. "
                f"{_GUIDE}",
                BudgetWarning,
            )

    def part(self, **changes: Any) -> "Facts":
        """Return the facts of an inner estimator, which collects its own warnings."""
        return replace(self, **{"unknown": None, "unlisted": (), **changes}, told=[])


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


def check_useful_epsilon(epsilon: Any) -> Any:
    """Return epsilon as an exact number, or refuse one that is invalid or absurdly small."""
    exact = check_epsilon(epsilon)
    if exact < _SMALLEST_EPSILON:
        raise ValueError(
            f"epsilon must be at least 1e-9, got {short_repr(epsilon)}: less has no use; common choices lie between 0.1 and 10."
        )
    return exact


def public_size(epsilon: Any, n_samples: int) -> float:
    """Return ``epsilon * n_samples``, capped so that sizes derived from it (depths, numbers of cells) stay within memory.

    Epsilon counts up to 1024, so that absurd values, and no noise at all, cost no more time than the rows are worth.
    """
    return min(float(min(epsilon, _LARGEST_EPSILON)) * n_samples, _LARGEST_SIZE)


def check_y_is_ignored(y: Any) -> None:
    """Refuse a column name as `y`: the caller almost certainly meant `unit`, which changes whom epsilon protects."""
    if isinstance(y, str):
        raise ValueError(f"y is ignored and must not name a column, got {short_repr(y)}; for whose row each is, say unit={short_repr(y)}.")


def identifier_without_unit(schema: Schema) -> Any:
    """Return the first identifier column of a schema that no rule `Unique` makes a row key, a public fact; None if there is none."""
    keys = [rule.columns_named for rule in schema.rules if isinstance(rule, Unique)]
    return next((name for name, kind in schema.items() if isinstance(kind, Identifier) and (name,) not in keys), None)


def check_rows_per_unit(n_rows: Any, epsilon: Any) -> None:
    """Refuse a number of rows of a unit that is invalid, or for whose noise 64 bits are too few."""
    if not is_integer(n_rows, 1):
        raise ValueError(f"max_rows_per_unit must be a positive integer, got {short_repr(n_rows)}; 1 keeps one row of each unit.")
    if int(n_rows) * _SMALLEST_EPSILON > epsilon:
        raise ValueError(
            f"max_rows_per_unit must be at most epsilon * 1e9, got {short_repr(int(n_rows))} with epsilon={float(epsilon):g}: the noise "
            "on each count grows with it; use a smaller one."
        )


def privacy_unit(labels: Any, n_rows: int, shared: PrivacyAccountant | None) -> Unit | None:
    """Return the unit that a fit protects, None for the row; refuse it where the caller means another one. `n_rows` is its most rows."""
    if labels is None and n_rows > 1:
        raise ValueError(
            f"max_rows_per_unit is {n_rows}, but fit got no unit, so each row would be protected by itself; give fit(X, unit=...), or "
            "leave max_rows_per_unit at 1."
        )
    unit = None if labels is None else Unit(name_of_unit(labels), n_rows)
    wanted = None if shared is None else shared.unit
    if wanted not in (None, unit):
        raise ValueError(f"unit must be that of accountant, {wanted}, got {unit or 'None'}; give that unit, or another accountant.")
    return unit
