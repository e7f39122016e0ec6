"""From right guesses of the coins of one table to lower bounds. The proofs are in the notes of `audit_one_run`."""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth.auditing._bounds import lower_share

_STEPS = 40  # of bisection
_LARGEST = 40.0  # mu: beyond, nothing is hidden


def lower_epsilon_of_one_run(n_right: int, n_guesses: int, n_coins: int, delta: float, alpha: float) -> float:
    """Return a lower bound on epsilon at level ``1 - alpha``, from guesses of some of the coins that made a table.

    Parameters
    ----------
    n_right, n_guesses : int
    n_coins : int
        Guessed or not.
    delta : float
    alpha : float

    Returns
    -------
    bound : float
        At least 0.
    """
    leaks = n_coins * delta / 2
    struck = max(0, math.ceil(2 * leaks / alpha) - 1)
    level = alpha - leaks / (struck + 1)
    share = min(float(lower_share(np.array([max(0, n_right - struck)]), np.array([n_guesses]), level)[0]), 1 - 1e-12)
    return max(0.0, math.log(max(share, 1e-300) / (1 - share)))


def lower_mu_of_one_run(n_right: int, n_guesses: int, n_coins: int, alpha: float) -> float:
    """Return a lower bound on mu at level ``1 - alpha``, where a number of guesses that was fixed before had to be made."""
    low, high = 0.0, _LARGEST
    if not is_refuted(low, n_right, n_guesses, n_coins, alpha):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle, n_right, n_guesses, n_coins, alpha) else (low, middle)
    return low


def is_refuted(mu: float, n_right: int, n_guesses: int, n_coins: int, alpha: float) -> bool:
    """Whether under mu-GDP so many right guesses have less than alpha of probability: else more mass than 1 would be needed in all."""
    total, right = alpha, alpha * n_right / n_coins
    wrong = alpha * (n_guesses - n_right) / n_coins
    for level in range(n_right - 1, -1, -1):
        more = max(0.0, float(ndtr(ndtri(right) - mu)) - wrong) * n_coins / (n_guesses - level)
        total += more
        if total > 1:
            return True
        right, wrong = right + level * more / n_coins, wrong + (n_guesses - level) * more / n_coins
    return False
