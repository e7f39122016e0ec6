"""Privacy losses, and the unit of privacy that they protect."""

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from skdpsynth._sensitivity import RELATIONS
from skdpsynth._validation import as_array, is_integer, is_real, short_repr
from skdpsynth.persistence import savable

_LARGEST = 10**300  # of an epsilon that is not infinite: floats hold what is made of it
_LEAST = Fraction(repr(5e-324))  # less would read as 0 in every report, and cost nothing there

Amount = Fraction | float  # an exact number, or ``math.inf``


def to_fraction(value: float | Rational) -> Fraction:
    """Return the rational number that a number stands for; a float means the decimal it prints (0.1 is 1/10)."""
    if type(value) is Fraction:  # most are, and it cannot change
        return value
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def check_epsilon(epsilon: object, name: str = "epsilon") -> Amount:
    """Return a privacy parameter as an exact Fraction, or ``math.inf``; a float means the decimal it prints: 0.1 is 1/10."""
    if is_real(epsilon) and epsilon == math.inf:
        return math.inf
    exact = _as_finite_fraction(epsilon)
    if exact is None or not _LEAST <= exact <= _LARGEST:
        raise ValueError(
            f"{name} must be a number greater than 0 and at most 1e300 (float('inf') for no noise), got {short_repr(epsilon)}; "
            "common choices lie between 0.1 and 10."
        )
    return exact


def _as_finite_fraction(number: object) -> Fraction | None:
    """Return a number as a fraction; None for anything else, and where floats cannot hold it (wider ones of numpy can)."""
    try:
        return to_fraction(number) if is_real(number) else None
    except (OverflowError, ValueError):
        return None


def check_delta(delta: Amount) -> Fraction:
    exact = _as_finite_fraction(delta)
    # The fraction counts: a wide float of numpy may round to 0 or to 1 on its way there.
    if exact is None or not 0 <= exact < 1 or (delta > 0 and exact < _LEAST):
        raise ValueError(f"delta must be a number in [0, 1), got {short_repr(delta)}; use 0 for pure differential privacy.")
    return exact


def check_neighboring(neighboring: object, name: str = "neighboring") -> str:
    if not isinstance(neighboring, str) or neighboring not in RELATIONS:
        raise ValueError(
            f"{name} must be one of {RELATIONS}, got {short_repr(neighboring)}; use 'replace_one' if the number of rows is public."
        )
    return neighboring


def split_exactly(amount: Amount, weights: Sequence[Amount]) -> list[Amount]:
    """Return Fractions in the proportion of `weights` that sum to `amount` exactly (or infinities)."""
    if is_real(weights):
        raise ValueError(f"weights must be a sequence, one for each part, got {short_repr(weights)}; [1] * 12 makes twelve equal parts.")
    listed = list(np.atleast_1d(as_array(weights, object)))
    shares = [share for share in map(_as_finite_fraction, listed) if share is not None and share > 0]
    if not shares or len(shares) < len(listed):
        raise ValueError(f"weights must be positive finite numbers, got {short_repr(weights)}; leave out the steps that get nothing.")
    if amount == math.inf:
        return [math.inf] * len(shares)
    whole = sum(shares)
    return [amount * share / whole for share in shares]


@savable
@dataclass(frozen=True)
class PrivacyLoss:
    """The cost of one release: pure or approximate differential privacy, zero-concentrated (zCDP), or that of Gaussian noise.

    Losses that share one budget add up with ``+``, as `split` shared them: pure ones, zCDP, or Gaussian ones.

    Parameters
    ----------
    epsilon : number, default=None
        The epsilon of (epsilon, delta)-differential privacy. ``float("inf")``: no noise, no privacy.
    delta : number, default=0
        The delta that goes with `epsilon`.
    rho : number, default=None
        The rho of rho-zCDP. Give either `epsilon` or `rho`.
    gaussian : bool, default=False
        The loss in rho is that of Gaussian noise: ``sqrt(2 * rho)``-GDP (Gaussian differential privacy), which implies rho-zCDP and
        converts to a smaller epsilon.
    rows : int, default=1
        For a share that noise is to be made for: the most rows of one unit of privacy, whose sensitivity `mechanism` covers. The cost
        is the same number, and a ledger has the unit in its own field.

    See Also
    --------
    PrivacyAccountant : Adds losses up, and refuses any that does not fit.
    skdpsynth.privacy.epsilon_of_rho : Convert a loss in rho.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyLoss
    >>> PrivacyLoss(epsilon=0.1).epsilon
    Fraction(1, 10)
    """

    epsilon: Any = None
    delta: Any = 0
    rho: Any = None
    gaussian: bool = False
    rows: int = field(default=1, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError(
                f"PrivacyLoss needs exactly one of epsilon and rho, got epsilon={short_repr(self.epsilon)} and rho={short_repr(self.rho)}; "
                "leave one out."
            )
        unit = "epsilon" if self.rho is None else "rho"
        object.__setattr__(self, unit, check_epsilon(getattr(self, unit), unit))
        object.__setattr__(self, "delta", check_delta(self.delta))
        if self.rho is not None and self.delta:
            raise ValueError(f"delta belongs to epsilon, not to rho, got delta={float(self.delta):g} with rho; leave it out.")
        if not isinstance(self.gaussian, bool) or (self.gaussian and self.rho is None):
            raise ValueError(f"gaussian must be False, or True for a loss in rho, got {short_repr(self.gaussian)}; leave it out.")
        if not is_integer(self.rows, 1):
            raise ValueError(f"rows must be a positive integer, got {short_repr(self.rows)}; 1 is for units of one row.")
        object.__setattr__(self, "rows", int(self.rows))

    @property
    def is_infinite(self) -> bool:
        """Whether it bounds nothing: no noise, no privacy."""
        return math.inf in (self.epsilon, self.rho)

    def split(self, weights: Sequence[Amount]) -> "list[PrivacyLoss]":
        """Return losses in the proportion of `weights`, which add up to this one exactly; each keeps all of delta.

        A delta is kept whole because only one of the parts can spend it: the others are pure.
        """
        if self.rho is None:
            return [replace(self, epsilon=epsilon) for epsilon in split_exactly(self.epsilon, weights)]
        return [replace(self, rho=rho) for rho in split_exactly(self.rho, weights)]

    @property
    def pure(self) -> "PrivacyLoss":
        """Its epsilon alone, for noise that spends no delta."""
        return PrivacyLoss(epsilon=self.epsilon, rows=self.rows)

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        kinds = {(loss.rho is None, loss.gaussian, loss.rows) for loss in (self, other)}
        if len(kinds) > 1 or self.delta or other.delta:
            raise ValueError(f"Losses must be of one kind and without delta to be joined, got {self} and {other}; charge each by itself.")
        return replace(self, epsilon=self.epsilon + other.epsilon) if self.rho is None else replace(self, rho=self.rho + other.rho)

    def __str__(self) -> str:
        if self.rho is not None:
            return f"rho={float(self.rho):.6g}" + (" (Gaussian)" if self.gaussian else "")
        return f"epsilon={float(self.epsilon):.6g}" + (f", delta={float(self.delta):.3g}" if self.delta else "")


Cost = PrivacyLoss | Fraction | float  # as callers may give it: a number is a pure epsilon


def as_loss(loss: Cost) -> PrivacyLoss:
    return loss if isinstance(loss, PrivacyLoss) else PrivacyLoss(epsilon=loss)


@savable
@dataclass(frozen=True)
class Unit:
    """The unit of privacy: one person or thing behind a label, with at most so many rows.

    Neighbors differ in the rows of one unit. Under "replace_one" they are replaced by as many others, and the number of rows of each unit
    is public; under "add_or_remove_one" a unit comes or goes with all its rows.

    Parameters
    ----------
    name : str
        The column of labels, or what they are; it is public.
    rows : int
        The most rows of one unit that any sum counts.

    See Also
    --------
    PrivacyAccountant : Protects units where it is given one.
    Sensitivity : How far one row moves a statistic; its method `times` says how far a unit does.

    Examples
    --------
    >>> from skdpsynth.privacy import Unit
    >>> print(Unit("patient_id", 5))
    patient_id, at most 5 rows
    """

    name: str
    rows: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name must be a string that says what the labels are, got {short_repr(self.name)}; 'patient_id' for example.")
        if not is_integer(self.rows, 1):
            raise ValueError(f"rows must be a positive integer, got {short_repr(self.rows)}; it is the most rows that one unit may have.")
        object.__setattr__(self, "rows", int(self.rows))

    def __str__(self) -> str:
        return self.name if self.rows == 1 else f"{self.name}, at most {self.rows} rows"


LONE_ROW = "row that is the only one of its unit"


def common_unit(units: Iterable[str | None]) -> str | None:
    """Return the unit that all of some entries protect, in words; None: the row.

    Where units differ, that is a row whose unit has no other: with it its unit comes, goes or is replaced. If a unit has more rows than
    count, one row that goes lets another count in its place: under "add_or_remove_one" two rows that count differ, and noise for one row
    loses twice its epsilon.
    """
    all_units = set(units)
    return all_units.pop() if len(all_units) == 1 else LONE_ROW


def check_unit(unit: Unit | None, within: Unit | None = None) -> Unit | None:
    if unit is not None and not isinstance(unit, Unit):
        raise TypeError(f"unit must be None or a Unit, got {short_repr(unit)}; give skdpsynth.privacy.Unit(name, rows).")
    if within is not None and unit not in (None, within):
        raise ValueError(f"unit must be that of the whole account, {within}, got {unit}; open an account of its own.")
    return within if unit is None else unit
