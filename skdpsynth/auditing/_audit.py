"""Lower bounds on epsilon from many runs on two neighboring tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from skdpsynth._parallel import check_n_jobs, effective_n_processes
from skdpsynth._progress import task
from skdpsynth._sklearn import check_seed
from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.auditing._audit_noise import CountingMechanism, NoiseAudit, is_counter
from skdpsynth.auditing._neighbors import check_neighbors
from skdpsynth.auditing._outputs import Layout, learn_rule, run
from skdpsynth.auditing._result import EPSILON_SHARE, AuditResult, lower_epsilon, lower_mu
from skdpsynth.privacy import SecureBits
from skdpsynth.testing import watch_releases

_MOST_TRIALS = 10**7
_AT_ONCE = 50  # runs between two steps of the progress bar
_ENOUGH = 5000  # most runs to choose the thresholds of a single score


def audit_epsilon(
    estimator: Any,
    X: Any,
    X_neighbor: Any,
    event: Callable[[Any], Any] | str | None = None,
    *,
    n_trials: int = 1000,
    confidence: float = 0.99,
    epsilon: Any = None,
    delta: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> AuditResult:
    """Fit two neighboring tables many times, and bound epsilon from below by how well the results tell the tables apart.

    It reads both tables unprotected, and no accountant is charged: give public tables that were made up for the test, such as those of
    `worst_case_neighbors`. **Never give a table of people**: the printed result tells of it.

    Parameters
    ----------
    estimator : estimator, counter or callable
        Any estimator with `fit`, of this package or of another; a counter of `skdpsynth.continual` that has counted nothing, whose
        tables are events of shape (n_steps, n_counters); or a function that takes a table and returns numbers. It is cloned, without
        its accountant, and draws fresh noise in each run.
    X, X_neighbor : array-like or data frame
        Neighbors under the relation of the estimator, in memory, with the same columns and dtypes. If the estimator has no
        `neighboring`, you must see to it that they are neighbors.
    event : callable, "released" or "noise", default=None
        Maps a fitted estimator, or the result of the function, to a number or a boolean, by which the tables are guessed. None: releases,
        fitted attributes, and sums of them that are learned from the first half of the runs. "released": only the likelihood ratio of the
        releases of this package. A run then ends at its last release: many times faster for slow models, but blind to other leaks.
        "noise": the same, but fresh noise is added to the values of the first fits: millions of runs in a minute, if no release depends on
        an earlier one, and blind to everything else that fits do. It is refused if values differ between twenty fits; it says nothing
        about a mechanism whose values are random in a rarer way.
    n_trials : int, default=1000
        Fits in all. Half of them choose how to guess, and half of them count; if there is only one number to look at, a fifth of them, at
        most 5000 whole runs, choose. More runs can show more: see `epsilon_most` of the result.
    confidence : float, default=0.99
        The least probability that both lower bounds of the result hold.
    epsilon, delta : float, default=None
        The promise. None: the estimator's parameters, or the cost of a counter. For a function `epsilon` must be given; its delta is 0 by
        default.
    n_jobs : int, default=None
        Processes of joblib, at most as many as its backend has workers. None: 1.
    random_state : int, RandomState or None, default=None
        For the order of the tables, never for noise.

    Returns
    -------
    result : AuditResult
        ``print(result)`` says it in a sentence.

    Raises
    ------
    TypeError
        If the estimator cannot be cloned, or gives no number to look at.
    ValueError
        If the estimator is seeded or promises nothing (epsilon=inf), if the tables are equal, no neighbors or of different columns or
        dtypes, or a parameter is out of its domain.

    See Also
    --------
    worst_case_neighbors : Tables at which our estimators lose most.
    skdpsynth.testing.check_synthesizer : Laws that compare what is released with what is charged, exactly.

    Notes
    -----
    *Why the bound holds.* A fair coin picks the table of each counted run, and a rule guesses it from the outputs, or passes. The rule is
    fixed by then: scores, thresholds and directions are all chosen on the other half of the runs. So there is one test, of guesses of both
    tables together, and nothing to correct for. Under epsilon-differential privacy each guess is right with probability at most
    e^epsilon / (1 + e^epsilon), whatever the earlier outputs: the lower Clopper-Pearson limit of that probability, in log-odds, is
    `epsilon_lower`. With delta > 0 as many right guesses are struck out as delta may have given away. `mu_lower` comes from guesses at all
    runs, which under mu-GDP are right with probability at most Phi(mu / 2). The probability of an error, 1 -
    confidence, is divided among the bounds, so both hold together: nine tenths go to mu if the ledger promises a mu, else to epsilon.

    *Limits.* A lower bound is no proof of privacy: another pair of tables, or another rule, may show more. For estimators of this package
    the rule sees each released value and its exact likelihoods, so at the worst pair the bound comes near to the truth.

    References
    ----------
    .. [1] Jagielski, Ullman, Oprea (2020), "Auditing Differentially Private Machine Learning".
    .. [2] Annamalai, Ganev, De Cristofaro (2024), "What do you want from theory alone? Experimenting with Tight Auditing of Differentially
       Private Synthetic Data Generation".
    .. [3] Kairouz, Oh, Viswanath (2015), "The Composition Theorem for Differential Privacy".

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.auditing import audit_epsilon, worst_case_neighbors
    >>> pmm = PrivateMeasureMechanism(depth=2, epsilon=2.0, bounds=(0, 1))
    >>> result = audit_epsilon(pmm, *worst_case_neighbors(pmm, 20), n_trials=400, confidence=0.999999)
    >>> result.is_broken
    False
    """
    n_trials = _check_numbers(n_trials, confidence)
    check_n_jobs(n_jobs)
    estimator = CountingMechanism.of(estimator) if is_counter(estimator) else estimator
    epsilon, delta = claimed_privacy(estimator, epsilon, delta)
    mechanism = clone_for_audit(estimator)
    check_neighbors(mechanism, X, X_neighbor)
    runs = _Runs(mechanism, X, X_neighbor, _make_observer(event, mechanism, X, X_neighbor))
    if isinstance(mechanism, CountingMechanism):
        mu = mechanism.mu
    else:
        mu = ledger_mu(run(mechanism, X)[0], delta) if delta and hasattr(mechanism, "fit") else None
    alpha = 1 - confidence
    for_epsilon = EPSILON_SHARE[mu is not None] * alpha
    coins = SecureBits().generator() if random_state is None else check_seed(random_state)

    # A single score needs only thresholds.
    n_choosing = n_trials // 2 if len(runs.names) > 1 else min(n_trials // 5, _ENOUGH * max(1, runs.at_once // _AT_ONCE))
    choosing = np.arange(n_choosing) % 2 == 1
    bits = np.asarray(coins.choice(2, size=n_trials - n_choosing), dtype=bool)
    with task("audit", total=-(-n_choosing // runs.at_once) - (-len(bits) // runs.at_once)) as progress:
        rule = learn_rule(runs.vectors(choosing, n_jobs, progress), choosing, runs.names, len(bits), delta, for_epsilon)
        n_guesses, n_right, n_right_of_all = rule.counts(runs.vectors(bits, n_jobs, progress), bits)
    epsilon_lower = float(lower_epsilon(np.array([n_right]), np.array([n_guesses]), len(bits), delta, for_epsilon)[0])
    mu_lower = lower_mu(n_right_of_all, len(bits), alpha - for_epsilon)
    counts = (n_trials, len(bits), n_guesses, n_right, n_right_of_all)
    return AuditResult(epsilon_lower, mu_lower, epsilon, delta, mu, float(confidence), str(rule), *counts, n_asked=len(bits))


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of a mechanism on one of two tables each, observed as vectors."""

    mechanism: Any
    X: Any
    X_neighbor: Any
    seen: Any

    @property
    def names(self) -> list[str]:
        return self.seen.names if isinstance(self.seen, Layout | NoiseAudit) else ["event"]

    @property
    def at_once(self) -> int:
        return self.seen.at_once if isinstance(self.seen, NoiseAudit) else _AT_ONCE

    def vectors(self, bits: np.ndarray, n_jobs: int | None, progress: Any) -> np.ndarray:
        """Return a row for each run; the number of processes does not change the result."""
        parts = [bits[start : start + self.at_once] for start in range(0, len(bits), self.at_once)]
        width = effective_n_processes(n_jobs)
        found: list[np.ndarray] = []
        with Parallel(n_jobs=min(width, len(parts))) as pool:
            for start in range(0, len(parts), width):
                for rows in pool(delayed(self.rows)(part) for part in parts[start : start + width]):
                    found.append(rows)
                    progress.step()
        return np.concatenate(found)

    def rows(self, bits: np.ndarray) -> np.ndarray:
        if isinstance(self.seen, NoiseAudit):
            return self.seen.rows(bits)
        with watch_releases():  # watch once for all runs, because the outermost watch does the patching
            return np.array([self._row(self.X_neighbor if bit else self.X) for bit in bits])

    def _row(self, X: Any) -> np.ndarray:
        until = self.seen.until if isinstance(self.seen, Layout) else None
        outcome, draws = run(self.mechanism, X, until=until)
        if isinstance(self.seen, Layout):
            return self.seen.vector(outcome, draws)
        value = self.seen(outcome)
        if not isinstance(value, bool | int | float | np.number | np.bool_):
            raise TypeError(f"event must return a number or a boolean, got {short_repr(value)}; threshold or sum what it returns.")
        return np.array([float(np.nan_to_num(float(value), nan=-np.inf))])


def _make_observer(event: Any, mechanism: Any, X: Any, X_neighbor: Any) -> Any:
    """Return the object that turns a run into numbers."""
    if isinstance(event, str):
        if event not in ("released", "noise"):
            raise ValueError(
                f"event must be None, 'released', 'noise' or a function, got {short_repr(event)}; 'released' looks at no fitted attribute."
            )
        return (Layout.of_released if event == "released" else NoiseAudit.of)(mechanism, X, X_neighbor)
    if event is not None and not callable(event):
        raise TypeError(
            f"event must be None, 'released', 'noise' or a function of what a run returns, got {short_repr(event)}; leave it out."
        )
    return Layout.of(mechanism, X, X_neighbor) if event is None else event


def _check_numbers(n_trials: Any, confidence: Any) -> int:
    if not is_integer(n_trials, 20, _MOST_TRIALS):
        raise ValueError(f"n_trials must be an integer from 20 to {_MOST_TRIALS}, got {short_repr(n_trials)}; 1000 is the default.")
    check_confidence(confidence)
    return int(n_trials)  # a numpy integer may overflow


def check_confidence(confidence: Any) -> None:
    if not (is_real(confidence) and 0.5 <= confidence < 1):
        raise ValueError(f"confidence must be a number in [0.5, 1), got {short_repr(confidence)}; 0.99 is the default.")


def claimed_privacy(estimator: Any, epsilon: Any, delta: Any) -> tuple[float, float]:
    """Return the epsilon and delta that the mechanism promises, or raise."""
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") or callable(estimator)):
        raise TypeError(f"estimator must have fit, or be a function of a table, got {short_repr(estimator)}; give an instance.")
    stated = getattr(estimator, "epsilon", None), getattr(estimator, "delta", 0.0)
    if isinstance(estimator, CountingMechanism):
        stated = estimator.promise
    epsilon, delta = (stated[0] if epsilon is None else epsilon), (stated[1] if delta is None else delta)
    if epsilon is None:
        raise ValueError("epsilon must be given where the estimator has no parameter of that name; say what it promises.")
    if not (is_real(epsilon) and 0 < epsilon <= 1e300):
        raise ValueError(
            f"epsilon must be positive and finite, got {short_repr(epsilon)}; without noise nothing is promised that could fail."
        )
    if not (is_real(delta) and 0 <= delta < 1):
        raise ValueError(f"delta must be a number in [0, 1), got {short_repr(delta)}; 0 promises pure differential privacy.")
    return float(epsilon), float(delta)


def clone_for_audit(estimator: Any) -> Any:
    """Return a copy without an accountant, or raise if its noise is seeded."""
    if not hasattr(estimator, "fit"):
        return estimator
    if not hasattr(estimator, "get_params"):
        raise TypeError(
            f"estimator must have get_params as scikit-learn's have, to be cloned for each run, got {short_repr(estimator)}; "
            "derive it from BaseEstimator, or give a function that fits it."
        )
    parameters = estimator.get_params()
    seeded = [name for name, value in parameters.items() if name.rpartition("__")[2] == "random_state" and value is not None]
    if seeded:
        raise ValueError(f"{seeded[0]} must be None for an audit, got a seed: all runs would have the same noise, which is not private.")
    copy = clone(estimator)
    return copy.set_params(accountant=None) if "accountant" in parameters else copy


def ledger_mu(outcome: Any, delta: float) -> float | None:
    """Return mu by the ledger of a fitted estimator, or None if not all noise is Gaussian."""
    accountant = getattr(outcome, "accountant_", None) if delta else None
    losses = [entry.loss for entry in accountant.ledger] if accountant is not None else []
    if not losses or not all(loss.rho is not None and loss.gaussian for loss in losses):
        return None
    return math.sqrt(2 * float(sum(loss.rho for loss in losses)))
