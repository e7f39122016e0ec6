"""Errors and warnings that callers may want to catch."""

from fractions import Fraction
from typing import Any

__all__ = ["BoundsWarning", "BudgetExceededError", "BudgetWarning", "InsecureRandomnessWarning", "LedgerError", "SmallSampleWarning"]


class BudgetExceededError(ValueError):
    """A release would cost more than the remaining budget; nothing was drawn and nothing was charged.

    Attributes
    ----------
    requested : Fraction or float
        The requested epsilon (for a loss in rho: the epsilon it would add at the accountant's delta).
    remaining : Fraction or float
        The remaining epsilon.

    See Also
    --------
    PrivacyAccountant : Raises it before it draws.
    """

    def __init__(self, message: str, requested: Fraction | float | None = None, remaining: Fraction | float | None = None) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.args, self.requested, self.remaining)


class BoundsWarning(UserWarning):
    """Bounds are missing, so values are clipped to (0, 1); or they may be so wide that noise hides where the numbers end.

    It follows from the parameters and from public or noisy numbers alone.

    See Also
    --------
    Box : Bounds of numbers.
    Schema : Bounds of each column.
    """


class BudgetWarning(UserWarning):
    """The budget promises little (a large epsilon or delta), or a small delta would need far less noise.

    See Also
    --------
    skdpsynth.model_selection.plan : Expected errors at an epsilon.
    """


class InsecureRandomnessWarning(UserWarning):
    """Noise follows a seed, so anyone who knows the seed can subtract it: good for tests, never for a release.

    See Also
    --------
    skdpsynth.privacy.check_rng : Gives it.
    """


class SmallSampleWarning(UserWarning):
    """Noise will dominate the release, by the public numbers (rows, epsilon, features).

    See Also
    --------
    skdpsynth.model_selection.plan : Expected errors at a number of rows.
    """


class LedgerError(OSError, ValueError):
    """The file of a ledger cannot be used; nothing was drawn.

    See Also
    --------
    PrivacyAccountant : Keeps the ledger.
    """
