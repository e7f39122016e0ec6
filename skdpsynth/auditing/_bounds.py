"""Lower bounds on epsilon and mu from right guesses; the notes of `audit_one_run` hold the proofs for one run.

*The game.* In each run a fair coin picks one of two neighboring tables, a mechanism runs on it with fresh noise, and a rule that was fixed
before looks at what came out: it guesses the table, or passes. The runs are independent of each other and of the rule.

*Pure.* Let p and q be the probabilities of an outcome on the two tables. Under epsilon neither is more than e^epsilon times the other, so,
given the outcome, each table has probability at most s = e^epsilon / (1 + e^epsilon). Given that m runs were guessed, the number of right
guesses is therefore at most Binomial(m, s) in the stochastic order. A lower Clopper-Pearson limit for s, at level 1 - alpha, exceeds the
true s with probability at most alpha; so does its log-odds exceed epsilon.

*With delta.* An (epsilon, delta)-private pair is a function of this (the dominating pair of Kairouz, Oh, Viswanath 2015): with probability
delta the table is revealed, independently of which one it is; else a bit is given that is right with probability s. Let L of all n runs
reveal their table. Given which, right guesses in the M other runs that are guessed are at most Binomial(M, s), as above. P(L > l) <= alpha
/ 10 for the upper quantile l of Binomial(n, delta). Strike l out of the right guesses and out of all guesses, and take the limit at level 1
- 9/10 alpha. If k more are struck than revealed, the limit is no larger than it should be: Binomial(M, s) is at most k + Binomial(M - k,
s).

*In Gaussian terms.* Under mu-GDP a forced guess is right with probability at most Phi(mu / 2): the total variation distance of
N(0, 1) and N(mu, 1) is 2 Phi(mu / 2) - 1. The limit of that probability gives that of mu.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

_FOR_LEAKS = 0.1  # of alpha, for how often delta strikes


def lower_share(n_right: np.ndarray, n_guesses: np.ndarray, alpha: float) -> np.ndarray:
    """Return lower Clopper-Pearson limits of probabilities, each at level ``1 - alpha``."""
    right, guesses = np.broadcast_arrays(np.asarray(n_right, dtype=float), np.asarray(n_guesses, dtype=float))
    limits = np.zeros(right.shape)
    some = right > 0
    limits[some] = beta.ppf(alpha, right[some], guesses[some] - right[some] + 1)
    return limits


def lower_epsilon(n_right: np.ndarray, n_guesses: np.ndarray, n_runs: int, delta: float, alpha: float) -> np.ndarray:
    """Return lower bounds on epsilon, at least 0 and each at level ``1 - alpha``, for rules that may pass on some of `n_runs` runs."""
    if delta > 0:
        struck = int(binom.ppf(1 - _FOR_LEAKS * alpha, n_runs, delta))
        alpha *= 1 - _FOR_LEAKS
        n_right, n_guesses = np.maximum(np.asarray(n_right) - struck, 0), np.maximum(np.asarray(n_guesses) - struck, 0)
    share = np.minimum(lower_share(n_right, n_guesses, alpha), 1 - 1e-12)
    return np.maximum(np.log(np.maximum(share, 1e-300) / (1 - share)), 0.0)


def lower_mu(n_right: int, n_runs: int, alpha: float) -> float:
    """Return a lower bound on mu at level ``1 - alpha`` from guesses at all runs."""
    share = float(lower_share(np.array([n_right]), np.array([n_runs]), alpha)[0])
    return max(0.0, 2 * float(ndtri(share))) if share < 1 else math.inf


_STEPS = 40  # of bisection
_LARGEST = 40.0  # mu: beyond, nothing is hidden


def lower_epsilon_of_one_run(n_right: int, n_guesses: int, n_coins: int, delta: float, alpha: float) -> float:
    """Return a lower bound on epsilon, at least 0 and at level ``1 - alpha``, from guesses of some of `n_coins` coins."""
    leaks = n_coins * delta / 2
    struck = max(0, math.ceil(2 * leaks / alpha) - 1)
    level = alpha - leaks / (struck + 1)
    share = min(float(lower_share(np.array([max(0, n_right - struck)]), np.array([n_guesses]), level)[0]), 1 - 1e-12)
    return max(0.0, math.log(max(share, 1e-300) / (1 - share)))


def lower_mu_of_one_run(n_right: int, n_guesses: int, n_coins: int, alpha: float) -> float:
    """Return a lower bound on mu at level ``1 - alpha`` from a number of guesses that was fixed in advance."""
    low, high = 0.0, _LARGEST
    if not is_refuted(low, n_right, n_guesses, n_coins, alpha):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_refuted(middle, n_right, n_guesses, n_coins, alpha) else (low, middle)
    return low


def is_refuted(mu: float, n_right: int, n_guesses: int, n_coins: int, alpha: float) -> bool:
    """Whether under mu-GDP so many right guesses have probability below alpha: otherwise a total mass above 1 would be needed."""
    total, right = alpha, alpha * n_right / n_coins
    wrong = alpha * (n_guesses - n_right) / n_coins
    for level in range(n_right - 1, -1, -1):
        more = max(0.0, float(ndtr(ndtri(right) - mu)) - wrong) * n_coins / (n_guesses - level)
        total += more
        if total > 1:
            return True
        right, wrong = right + level * more / n_coins, wrong + (n_guesses - level) * more / n_coins
    return False
