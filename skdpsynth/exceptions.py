"""Errors and warnings that callers may want to catch."""

__all__ = ["BudgetExceededError", "InsecureRandomnessWarning", "SmallSampleWarning"]


class BudgetExceededError(ValueError):
    """A release would cost more than what remains; nothing was drawn and nothing was charged.

    Attributes
    ----------
    requested : Fraction or float
        The epsilon asked for (of a rho-zCDP loss: the epsilon it would add at the accountant's delta).
    remaining : Fraction or float
        The epsilon that was left.
    """

    def __init__(self, message, requested=None, remaining=None):
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self):
        return type(self), (*self.args, self.requested, self.remaining)


class InsecureRandomnessWarning(UserWarning):
    """Noise follows a seed, so whoever knows the seed can subtract it: good for tests, never for a release."""


class SmallSampleWarning(UserWarning):
    """The public numbers (rows, epsilon, features) say that noise will dominate what is released."""
