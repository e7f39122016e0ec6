"""Results of audits, and the lower bounds in them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from skdpsynth._text import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOR_LEAKS = 0.1  # of alpha, for how often delta strikes
_STEPS = 40  # of bisection
_LARGEST = 40.0  # mu: beyond, nothing is hidden
EPSILON_SHARE = {False: 0.9, True: 0.1}
"""Share of the error probability for the bound on epsilon; most of it goes to the bound on mu if the ledger promises a mu."""


@dataclass(frozen=True, repr=False)
class AuditResult(Result):
    """Result of an audit: lower bounds on epsilon and mu beside the promise.

    Attributes
    ----------
    epsilon_lower : float
        Lower bound on the true epsilon (at the promised delta) for this pair of tables, and so for all tables.
    mu_lower : float
        Lower bound on mu of Gaussian differential privacy.
    epsilon, delta : float
        The promise of the mechanism.
    mu : float or None
        The promise of its ledger in Gaussian terms; None if not all of its noise is Gaussian.
    confidence : float
        The least probability that both lower bounds hold.
    event : str
        The rule by which the tables were guessed, in words. It was chosen on runs that were not counted.
    n_trials : int
        Fits in all; half of them chose the rule.
    n_runs, n_guesses, n_right : int
        Counted fits (the other half), those at which the rule guessed, and those at which the guess was right.
    n_right_of_all : int
        Right guesses where a guess had to be made, for `mu_lower`.
    n_asked : int
        Number of forced guesses: all runs, or a number of canaries that was fixed in advance.
    is_one_run : bool
        Whether it comes from `audit_one_run`: then the "runs" of `n_runs` are canaries, each with its coin, of `n_trials` fits.

    See Also
    --------
    audit_epsilon, audit_one_run : Make it, and prove why the bound holds.
    skdpsynth.plotting.AuditDisplay : Draws it.
    """

    epsilon_lower: float
    mu_lower: float
    epsilon: float
    delta: float
    mu: float | None
    confidence: float
    event: str
    n_trials: int
    n_runs: int
    n_guesses: int
    n_right: int
    n_right_of_all: int
    n_asked: int
    is_one_run: bool = False

    @property
    def epsilon_most(self) -> float:
        """The bound on epsilon if every guess had been right: the most that so many runs can show."""
        bound = lower_epsilon_of_one_run if self.is_one_run else lower_epsilon
        return float(bound(self.n_runs, self.n_runs, self.n_runs, self.delta, EPSILON_SHARE[self.mu is not None] * (1 - self.confidence)))

    @property
    def is_broken(self) -> bool:
        """Whether a lower bound exceeds the promise, which happens to sound mechanisms in at most ``1 - confidence`` of audits."""
        return self.epsilon_lower > self.epsilon or (self.mu is not None and self.mu_lower > self.mu)

    def plot(self, ax: "Axes | None" = None) -> Any:
        """Draw the bounds beside the promise, on `ax` or in a new figure, and return the figure. Needs matplotlib."""
        from skdpsynth.plotting import AuditDisplay

        return AuditDisplay.from_results(self).plot(ax).figure_

    def __repr__(self) -> str:
        verdict = "broken" if self.is_broken else "not refuted"
        return f"<AuditResult: epsilon >= {self.epsilon_lower:.3g}, promised {self.epsilon:g}, {verdict}>"

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        at_delta = f" at delta={self.delta:g}" if self.delta else ""
        found, promised = f"epsilon is at least {self.epsilon_lower:.3g}{at_delta}", f"promised: {self.epsilon:g}{at_delta}"
        if self.mu is not None:
            found, promised = f"{found} and mu at least {self.mu_lower:.3g}", f"{promised}, which is mu={self.mu:.3g}"
        where, what = f"in {self.n_runs} runs", "runs"
        if self.is_one_run:
            where, what = f"of {self.n_runs} canaries in {self.n_trials} fit{'s' * (self.n_trials > 1)}", "canaries"
        verdict = "The promise is broken." if self.is_broken else "The promise was not refuted, which proves nothing about other tables."
        if self.is_one_run and not self.n_guesses:
            verdict += " No released number was moved by one canary alone: take fewer of them, or give score."
        elif not self.is_broken and self.epsilon_most < self.epsilon:
            verdict += f" So few {what} could not show more than {self.epsilon_most:.3g}."
        right = f"{self.n_right} of {self.n_guesses} guesses {where} were right"
        yield f"With {100 * self.confidence:g} % confidence {found} ({promised}): {right}. {verdict}"


def lower_share(n_right: np.ndarray | int, n_guesses: np.ndarray | int, alpha: float) -> np.ndarray:
    """Return lower Clopper-Pearson limits of probabilities, each at level ``1 - alpha``."""
    right, guesses = np.broadcast_arrays(np.asarray(n_right, dtype=float), np.asarray(n_guesses, dtype=float))
    limits = np.zeros(right.shape)
    some = right > 0
    limits[some] = beta.ppf(alpha, right[some], guesses[some] - right[some] + 1)
    return limits


def _lower_log_odds(n_right: np.ndarray | int, n_guesses: np.ndarray | int, alpha: float) -> Any:
    share = np.minimum(lower_share(n_right, n_guesses, alpha), 1 - 1e-12)
    return np.maximum(np.log(np.maximum(share, 1e-300) / (1 - share)), 0.0)


def lower_epsilon(n_right: np.ndarray | int, n_guesses: np.ndarray | int, n_runs: int, delta: float, alpha: float) -> Any:
    """Return lower bounds on epsilon, at least 0 and each at level ``1 - alpha``, for rules that may pass on some of `n_runs` runs."""
    if delta > 0:
        struck = int(binom.ppf(1 - _FOR_LEAKS * alpha, n_runs, delta))
        alpha *= 1 - _FOR_LEAKS
        n_right, n_guesses = np.maximum(np.asarray(n_right) - struck, 0), np.maximum(np.asarray(n_guesses) - struck, 0)
    return _lower_log_odds(n_right, n_guesses, alpha)


def lower_mu(n_right: int, n_runs: int, alpha: float) -> float:
    """Return a lower bound on mu at level ``1 - alpha`` from guesses at all runs."""
    share = float(lower_share(n_right, n_runs, alpha))
    return max(0.0, 2 * float(ndtri(share))) if share < 1 else math.inf


def lower_epsilon_of_one_run(n_right: int, n_guesses: int, n_coins: int, delta: float, alpha: float) -> float:
    """Return a lower bound on epsilon, at least 0 and at level ``1 - alpha``, from guesses of some of `n_coins` coins."""
    leaks = n_coins * delta / 2
    struck = max(0, math.ceil(2 * leaks / alpha) - 1)
    return float(_lower_log_odds(max(0, n_right - struck), n_guesses, alpha - leaks / (struck + 1)))


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
