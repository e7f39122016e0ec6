"""What one release costs."""

import math
from dataclasses import dataclass
from typing import Any

from skdpsynth.privacy._scales import is_real, to_fraction

NEIGHBORING = ("replace_one", "add_or_remove_one")


def check_epsilon(epsilon, name="epsilon"):
    """Return a privacy parameter as an exact Fraction, or ``math.inf``.

    A float means the decimal it prints: 0.1 is 1/10.

    Raises
    ------
    ValueError
        If it is not a number greater than 0.
    """
    valid = is_real(epsilon) and epsilon > 0  # nan > 0 is False
    if not valid:
        raise ValueError(
            f"{name} must be a number greater than 0 (float('inf') for no noise), got {epsilon!r}; common choices lie between 0.1 and 10."
        )
    return math.inf if epsilon == math.inf else to_fraction(epsilon)


def check_delta(delta):
    """Return delta as an exact Fraction in [0, 1), or raise ValueError."""
    valid = is_real(delta) and 0 <= delta < 1
    if not valid:
        raise ValueError(f"delta must be a number in [0, 1), got {delta!r}; use 0 for pure differential privacy.")
    return to_fraction(delta)


def check_neighboring(neighboring):
    """Return the neighbouring relation, or raise ValueError if it is not a known one."""
    if neighboring not in NEIGHBORING:
        raise ValueError(
            f"neighboring must be one of {NEIGHBORING}, got {neighboring!r}; use 'replace_one' when the number of rows is public."
        )
    return neighboring


@dataclass(frozen=True)
class PrivacyLoss:
    """The cost of one release: pure or approximate differential privacy, or zero-concentrated (zCDP).

    Parameters
    ----------
    epsilon : number, default=None
        The epsilon of (epsilon, delta)-differential privacy. ``float("inf")``: no noise, no privacy.
    delta : number, default=0
        The delta that goes with `epsilon`.
    rho : number, default=None
        The rho of rho-zCDP. Give either `epsilon` or `rho`.

    Raises
    ------
    ValueError
        If both or neither of `epsilon` and `rho` are given, or if one is not a positive number.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyLoss
    >>> PrivacyLoss(epsilon=0.1).epsilon
    Fraction(1, 10)
    """

    epsilon: Any = None
    delta: Any = 0
    rho: Any = None

    def __post_init__(self):
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError(
                f"PrivacyLoss needs exactly one of epsilon and rho, got epsilon={self.epsilon!r} and rho={self.rho!r}; leave one out."
            )
        if self.rho is None:
            object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        else:
            object.__setattr__(self, "rho", check_epsilon(self.rho, "rho"))
        object.__setattr__(self, "delta", check_delta(self.delta))
        if self.rho is not None and self.delta:
            raise ValueError(f"delta belongs to epsilon, not to rho, got delta={float(self.delta):g} with rho; leave it out.")

    def __str__(self):
        if self.rho is not None:
            return f"rho={float(self.rho):.6g}"
        return f"epsilon={float(self.epsilon):.6g}" + (f", delta={float(self.delta):.3g}" if self.delta else "")
