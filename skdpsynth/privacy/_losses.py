"""The cost of one release."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._sensitivity import RELATIONS
from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.persistence import savable
from skdpsynth.privacy._scales import to_fraction

_LARGEST = 10**300  # of an epsilon that is not infinite: floats hold what is made of it
_LEAST = to_fraction(5e-324)  # less would read as 0 in every report, and cost nothing there

Amount = Fraction | float
"""An exact number, or ``math.inf``."""


def check_epsilon(epsilon: Any, name: str = "epsilon") -> Amount:
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


def _as_finite_fraction(number: Any) -> Fraction | None:
    """Return a number as a fraction; None for anything else, and where floats cannot hold it (wider ones of numpy can)."""
    try:
        return to_fraction(number) if is_real(number) else None
    except (OverflowError, ValueError):
        return None


def check_delta(delta: Any) -> Fraction:
    """Return delta as an exact Fraction in [0, 1)."""
    exact = _as_finite_fraction(delta)
    # What counts is the fraction: a wide float of numpy may round to 0 or to 1 on its way there.
    if exact is None or not 0 <= exact < 1 or (delta > 0 and exact < _LEAST):
        raise ValueError(f"delta must be a number in [0, 1), got {short_repr(delta)}; use 0 for pure differential privacy.")
    return exact


def check_neighboring(neighboring: Any, name: str = "neighboring") -> str:
    if not isinstance(neighboring, str) or neighboring not in RELATIONS:
        raise ValueError(
            f"{name} must be one of {RELATIONS}, got {short_repr(neighboring)}; use 'replace_one' when the number of rows is public."
        )
    return neighboring


def split_exactly(amount: Amount, weights: Any) -> list[Any]:
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
    """The cost of one release: pure or approximate differential privacy, or zero-concentrated (zCDP), or that of Gaussian noise.

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
        Of a share that noise is to be made for: the most rows that one unit of privacy may have, so that `mechanism` covers the change of
        so many. What it costs is the same number, and a ledger says the unit in its own field.

    Raises
    ------
    ValueError
        If both or neither of `epsilon` and `rho` are given, or if one is not a positive number. By ``+``: of losses of different
        kinds, or with a delta.

    See Also
    --------
    PrivacyAccountant : Adds losses up, and refuses what does not fit.
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
        if self.rho is None:
            object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        else:
            object.__setattr__(self, "rho", check_epsilon(self.rho, "rho"))
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

    def split(self, weights: Sequence[Any]) -> "list[PrivacyLoss]":
        """Return losses in the proportion of `weights`, which add up to this one exactly; each keeps all of delta.

        A delta is kept whole because only one of the parts can spend it: the others are pure.
        """
        if self.rho is not None:
            return [PrivacyLoss(rho=rho, gaussian=self.gaussian, rows=self.rows) for rho in split_exactly(self.rho, weights)]
        return [PrivacyLoss(epsilon, self.delta, rows=self.rows) for epsilon in split_exactly(self.epsilon, weights)]

    @property
    def pure(self) -> "PrivacyLoss":
        """Its epsilon alone, for noise that spends no delta."""
        return PrivacyLoss(epsilon=self.epsilon, rows=self.rows)

    @property
    def alone(self) -> "PrivacyLoss":
        """What it costs, without the rows of a unit that noise is to be made for."""
        return self if self.rows == 1 else replace(self, rows=1)

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if self._unit != other._unit or self.delta or other.delta:
            raise ValueError(f"Losses must be of one kind and without delta to be joined, got {self} and {other}; charge each by itself.")
        if self.rho is None:
            return PrivacyLoss(epsilon=self.epsilon + other.epsilon, rows=self.rows)
        return PrivacyLoss(rho=self.rho + other.rho, gaussian=self.gaussian, rows=self.rows)

    @property
    def _unit(self) -> tuple[bool, bool, int]:
        return self.rho is None, self.gaussian, self.rows

    def __str__(self) -> str:
        if self.rho is not None:
            return f"rho={float(self.rho):.6g}" + (" (Gaussian)" if self.gaussian else "")
        return f"epsilon={float(self.epsilon):.6g}" + (f", delta={float(self.delta):.3g}" if self.delta else "")


def as_loss(loss: Any) -> PrivacyLoss:
    """Return a loss; a number is a pure epsilon."""
    return loss if isinstance(loss, PrivacyLoss) else PrivacyLoss(epsilon=loss)
