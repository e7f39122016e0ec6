"""What is public about one fit."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from skdpsynth._validation import short_repr
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.privacy import PrivacyLoss, check_epsilon

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
        The columns whose bounds are still to be bought; until then `box` and `schema` are made up there.
    unlisted : tuple of int
        The columns whose levels are still to be bought.
    rho : {None, "gaussian", "zcdp"}
        What all that is released must be charged in, because a public fact was bought so; None: as the plan decides.
    rows_per_unit : int
        The most rows of one unit of privacy, which all noise covers; 1 where the unit is the row.
    count_error : float
        Expected absolute error of `n_samples`; 0 where it is public.
    told : list of (str, type)
        Warnings for the caller.

    See Also
    --------
    Plan : What is decided from them.
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
        """Return a part of the budget, this epsilon, as a loss."""
        return PrivacyLoss(epsilon=epsilon, rows=self.rows_per_unit)

    @property
    def size(self) -> float:
        """Epsilon times the number of rows, over the rows of a unit, capped: what depths and numbers of cells follow from."""
        return public_size(self.epsilon / self.rows_per_unit, self.n_samples or 1)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning; it is issued before the charge where it is known by then, else when the fit is done."""
        self.told.append((message, category))

    @property
    def usual_delta(self) -> Fraction:
        """A delta that promises enough for so many rows: a millionth, or a tenth of one over the number of rows."""
        return min(_USUAL_DELTA, Fraction(1, 10 * (self.n_samples or 1)))

    def warn_if_epsilon_is_large(self) -> None:
        """Warn where epsilon promises little to a row; one without end says so itself."""
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
        """Warn where noise of a pure loss has several times the `deviation` that Gaussian noise has at the usual delta."""
        if not self.delta and deviation >= _SEVERAL * with_delta > 0:
            self.warn(
                f"With delta={float(self.usual_delta):g} the noise on {self.n_features} features would be "
                f"{deviation / with_delta:.3g} times smaller than with delta=0; give a delta unless the promise must be a pure one. "
                f"{_GUIDE}",
                BudgetWarning,
            )

    def part(self, **changes: Any) -> "Facts":
        """Return the facts of an estimator inside this one; its warnings are its own."""
        return replace(self, **{"unknown": None, "unlisted": (), **changes}, told=[])


@dataclass(frozen=True)
class Plan:
    """What a mechanism decided from public facts; subclasses add to it.

    Attributes
    ----------
    rho : {None, "gaussian", "zcdp"}
        Where all that is released is charged in rho, as what: then a public fact that is bought before may be too, and a shared accountant
        is charged rho, which covers nothing else. A plan keeps to `Facts.rho` where that is not None.
    spends_delta : bool
        Whether the delta of the budget is needed: `Mechanism.spends_delta` tells of one release. Where the number of rows is private
        the plan is made twice, and delta is charged with the first.

    See Also
    --------
    Facts : What it is made from.
    PrivateEstimator : Hands it to `_release_facts`.
    """

    spends_delta: bool = False
    rho: str | None = field(default=None, kw_only=True)


def check_useful_epsilon(epsilon: Any) -> Any:
    """Return epsilon as an exact number; raise unless it is valid and not absurdly small."""
    exact = check_epsilon(epsilon)
    if exact < _SMALLEST_EPSILON:
        raise ValueError(
            f"epsilon must be at least 1e-9, got {short_repr(epsilon)}: less has no use; common choices lie between 0.1 and 10."
        )
    return exact


def check_unit_noise(epsilon: Any, n_rows: int) -> None:
    """Refuse units of so many rows that the noise for them leaves 64 bits."""
    if n_rows * _SMALLEST_EPSILON > epsilon:
        raise ValueError(
            f"max_rows_per_unit must be at most epsilon * 1e9, got {short_repr(n_rows)} with epsilon={float(epsilon):g}: the noise on each "
            "count grows with it; use a smaller one."
        )


def public_size(epsilon: Any, n_samples: int) -> float:
    """Return ``epsilon * n_samples``, capped so that sizes derived from it stay within memory.

    Size rules (depths, numbers of cells) are functions of this public number only. Epsilon counts up to 1024, so that absurd ones, and
    no noise at all, cost no more time than the rows are worth.
    """
    return min(float(min(epsilon, _LARGEST_EPSILON)) * n_samples, _LARGEST_SIZE)
