"""Results of audits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.auditing._bounds import lower_epsilon, lower_epsilon_of_one_run


@dataclass(frozen=True)
class AuditResult:
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
        alpha = EPSILON_SHARE[self.mu is not None] * (1 - self.confidence)
        if self.is_one_run:
            return lower_epsilon_of_one_run(self.n_runs, self.n_runs, self.n_runs, self.delta, alpha)
        return float(lower_epsilon(np.array([self.n_runs]), np.array([self.n_runs]), self.n_runs, self.delta, alpha)[0])

    @property
    def is_broken(self) -> bool:
        """Whether a lower bound exceeds the promise, which happens to sound mechanisms in at most ``1 - confidence`` of audits."""
        return self.epsilon_lower > self.epsilon or (self.mu is not None and self.mu_lower > self.mu)

    def plot(self, ax: Any = None) -> Any:
        """Draw the bounds beside the promise, on `ax` or in a new figure, and return the figure. Needs matplotlib."""
        from skdpsynth.plotting import AuditDisplay

        return AuditDisplay.from_results(self).plot(ax).figure_

    def __repr__(self) -> str:
        verdict = "broken" if self.is_broken else "not refuted"
        return f"<AuditResult: epsilon >= {self.epsilon_lower:.3g}, promised {self.epsilon:g}, {verdict}>"

    def __str__(self) -> str:
        found = f"epsilon is at least {self.epsilon_lower:.3g}"
        promised = f"promised: {self.epsilon:g}"
        if self.delta:
            found, promised = f"{found} at delta={self.delta:g}", f"{promised} at delta={self.delta:g}"
        if self.mu is not None:
            found, promised = f"{found} and mu at least {self.mu_lower:.3g}", f"{promised}, which is mu={self.mu:.3g}"
        verdict = "The promise is broken" if self.is_broken else "The promise was not refuted, which proves nothing about other tables"
        where, what = f"in {self.n_runs} runs", "runs"
        if self.is_one_run:
            where, what = f"of {self.n_runs} canaries in {self.n_trials} fit{'s' * (self.n_trials > 1)}", "canaries"
        sentence = (
            f"With {100 * self.confidence:g} % confidence {found} ({promised}): {self.n_right} of {self.n_guesses} guesses {where} were "
            f"right. {verdict}."
        )
        if self.is_one_run and not self.n_guesses:
            return f"{sentence} No released number was moved by one canary alone: take fewer of them, or give score."
        if not self.is_broken and self.epsilon_most < self.epsilon:
            sentence += f" So few {what} could not show more than {self.epsilon_most:.3g}."
        return sentence


EPSILON_SHARE = {False: 0.9, True: 0.1}
"""Share of the error probability for the bound on epsilon; most of it goes to the bound on mu if the ledger promises a mu."""
