"""Lower bounds on epsilon from many runs on two neighboring tables."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.base import clone

from skdpsynth._parallel import check_n_jobs, effective_n_processes
from skdpsynth._progress import Task, task
from skdpsynth._sklearn import check_seed
from skdpsynth._validation import check_integer, is_real, short_repr
from skdpsynth.auditing._neighbors import CountingMechanism, check_neighbors, is_counter
from skdpsynth.auditing._outputs import (
    MOST_NUMBERS,
    ExactValues,
    exact_values,
    likelihood_ratio,
    minus_log_likelihoods,
    noise_scales,
    probe_runs,
    run,
    visible_draws,
    visible_numbers,
)
from skdpsynth.auditing._result import EPSILON_SHARE, AuditResult, lower_epsilon, lower_mu
from skdpsynth.metrics import Table
from skdpsynth.privacy import SecureBits, Seed
from skdpsynth.testing import Draw, Estimator, kind_of, watch_releases

RATIO = "the log-likelihood ratio of all that was released"
_MOST_TRIALS = 10**7
_AT_ONCE = 50  # whole runs between two steps of the progress bar
_ENOUGH = 5000  # most runs to choose the thresholds of a single score
_NOISE_VALUES = 1 << 14  # values to which noise is added at once
_MORE = 15  # further runs that only compare values
_CUTS = 24  # thresholds to try: with more of them, rare events win by chance
_RARE = 200  # runs beyond the outermost threshold
_STRICTER = 0.01  # factor on alpha when thresholds are compared, for the same reason
_SINGLE = 8  # numbers of a run to try as scores by themselves
_CLEAR = 4.0  # standard errors by which the mean of a number must differ
_ODD = 4.0  # standard errors, and guesses, by which likelihood ratios may be off
_MARGIN = 1.1  # factor by which a later score must promise more
_FAR = 1e30


def audit_epsilon(
    estimator: Estimator,
    X: Table,
    X_neighbor: Table,
    event: Callable[[Any], Any] | str | None = None,
    *,
    n_trials: int = 1000,
    confidence: float = 0.99,
    epsilon: float | None = None,
    delta: float | None = None,
    n_jobs: int | None = None,
    random_state: Seed = None,
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
    >>> result = audit_epsilon(pmm, *worst_case_neighbors(pmm, 20), n_trials=400, confidence=1 - 1e-9)
    >>> result.is_broken
    False
    """
    n_trials = check_integer("n_trials", n_trials, 20, _MOST_TRIALS, "1000 is the default")
    check_confidence(confidence)
    check_n_jobs(n_jobs)
    estimator = CountingMechanism.of(estimator) if is_counter(estimator) else estimator
    epsilon, delta = claimed_privacy(estimator, epsilon, delta)
    mechanism = clone_for_audit(estimator)
    check_neighbors(mechanism, X, X_neighbor)
    observer = _make_observer(event, mechanism, X, X_neighbor)
    if isinstance(mechanism, CountingMechanism):
        mu = mechanism.mu
    else:
        mu = ledger_mu(run(mechanism, X)[0], delta) if delta and hasattr(mechanism, "fit") else None
    alpha = 1 - confidence
    for_epsilon = EPSILON_SHARE[mu is not None] * alpha
    coins = SecureBits().generator() if random_state is None else check_seed(random_state)

    # A single score needs only thresholds.
    n_choosing = n_trials // 2 if len(observer.names) > 1 else min(n_trials // 5, _ENOUGH * max(1, observer.at_once // _AT_ONCE))
    choosing = np.arange(n_choosing) % 2 == 1
    bits = np.asarray(coins.choice(2, size=n_trials - n_choosing), dtype=bool)
    with task("audit", total=-(-n_choosing // observer.at_once) - (-len(bits) // observer.at_once)) as progress:
        vectors = _observe(observer, choosing, n_jobs, progress)
        rule = learn_rule(vectors, choosing, observer.names, len(bits), delta, for_epsilon)
        n_guesses, n_right, n_right_of_all = rule.counts(_observe(observer, bits, n_jobs, progress), bits)
    epsilon_lower = float(lower_epsilon(n_right, n_guesses, len(bits), delta, for_epsilon))
    mu_lower = lower_mu(n_right_of_all, len(bits), alpha - for_epsilon)
    counts = (n_trials, len(bits), n_guesses, n_right, n_right_of_all)
    return AuditResult(epsilon_lower, mu_lower, epsilon, delta, mu, float(confidence), str(rule), *counts, n_asked=len(bits))


def check_confidence(confidence: object) -> None:
    if not (is_real(confidence) and 0.5 <= confidence < 1):
        raise ValueError(f"confidence must be a number in [0.5, 1), got {short_repr(confidence)}; 0.99 is the default.")


def claimed_privacy(estimator: Estimator, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") or callable(estimator)):
        raise TypeError(f"estimator must have fit, or be a function of a table, got {short_repr(estimator)}; give an instance.")
    stated = getattr(estimator, "epsilon", None), getattr(estimator, "delta", 0.0)
    if isinstance(estimator, CountingMechanism):
        stated = estimator.promise
    epsilon, delta = (stated[0] if epsilon is None else epsilon), (stated[1] if delta is None else delta)
    if epsilon is None:
        raise ValueError("epsilon must be given where the estimator has no parameter of that name; say what it promises.")
    if not (is_real(epsilon) and 0 < epsilon <= 1e300):
        raise ValueError(f"epsilon must be positive and finite, got {short_repr(epsilon)}; without noise nothing is promised.")
    if not (is_real(delta) and 0 <= delta < 1):
        raise ValueError(f"delta must be a number in [0, 1), got {short_repr(delta)}; 0 promises pure differential privacy.")
    return float(epsilon), float(delta)


def clone_for_audit(estimator: Estimator) -> Any:
    """Return a copy without an accountant, or raise if its noise is seeded."""
    if not hasattr(estimator, "fit"):
        return estimator
    if not hasattr(estimator, "get_params"):
        raise TypeError(
            f"estimator must have get_params, to be cloned for each run, got {short_repr(estimator)}; or give a function that fits it."
        )
    parameters = estimator.get_params()
    seeded = [name for name, value in parameters.items() if name.rpartition("__")[2] == "random_state" and value is not None]
    if seeded:
        raise ValueError(f"{seeded[0]} must be None for an audit, got a seed: all runs would have the same noise, which is not private.")
    copy = clone(estimator)
    return copy.set_params(accountant=None) if "accountant" in parameters else copy


def ledger_mu(outcome: object, delta: float) -> float | None:
    """Return mu by the ledger of a fitted estimator, or None if not all noise is Gaussian."""
    accountant = getattr(outcome, "accountant_", None) if delta else None
    losses = [entry.loss for entry in accountant.ledger] if accountant is not None else []
    if not losses or not all(loss.rho is not None and loss.gaussian for loss in losses):
        return None
    return math.sqrt(2 * float(sum(loss.rho for loss in losses)))


# Observers


@dataclass(frozen=True, eq=False)
class EventObserver:
    mechanism: Any
    tables: tuple[Any, Any]
    event: Callable[[Any], Any]
    names: ClassVar[list[str]] = ["event"]
    at_once: ClassVar[int] = _AT_ONCE

    def rows(self, bits: np.ndarray) -> np.ndarray:
        with watch_releases():  # watch once for all runs, because the outermost watch does the patching
            values = [self.event(run(self.mechanism, self.tables[bit])[0]) for bit in bits.astype(int)]
        for value in values:
            if not isinstance(value, bool | int | float | np.number | np.bool_):
                raise TypeError(f"event must return a number or a boolean, got {short_repr(value)}; threshold or sum what it returns.")
        return np.nan_to_num(np.array(values, dtype=float)[:, None], nan=-np.inf)


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of a run as a vector: numbers by place, their counts, and the likelihood ratio of the releases."""

    mechanism: Any
    tables: tuple[Any, Any]
    sizes: dict[str, int]  # numbers taken from each place
    values: tuple[ExactValues, ExactValues]  # of the releases, for the score that tells the tables apart best
    until: int | None = None  # if given, a run ends after so many releases, and only its likelihood ratio counts
    at_once: ClassVar[int] = _AT_ONCE

    @classmethod
    def of(cls, mechanism: Estimator, X: Table, X_neighbor: Table, releases_only: bool = False) -> "Layout":
        (first, runs), (second, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
        values = exact_values(runs), exact_values(other_runs)
        if releases_only:
            if not any(runs):
                raise ValueError("event must be None or a function where nothing passes the door of this package, got 'released'.")
            return cls(mechanism, (X, X_neighbor), {}, values, max(len(draws) for draws in runs + other_runs))
        sizes: dict[str, int] = {}
        for name, numbers in chain(visible_numbers(first, runs[0]).items(), visible_numbers(second, other_runs[0]).items()):
            sizes[name] = max(sizes.get(name, 0), len(numbers))
        if not sizes:
            raise TypeError("estimator must fit or return numbers that an audit can look at, but has none; return them, or give event.")
        shares, room = dict.fromkeys(sizes, 0), MOST_NUMBERS
        for place, name in enumerate(sorted(sizes, key=sizes.__getitem__)):  # small places whole, so that a large one does not hide them
            shares[name] = min(sizes[name], room // (len(sizes) - place))
            room -= shares[name]
        return cls(mechanism, (X, X_neighbor), shares, values)

    @property
    def names(self) -> list[str]:
        numbers = [f"{name}[{i}]" if size > 1 else name for name, size in self.sizes.items() for i in range(size)]
        return [*numbers, *(f"the length of {name}" for name in self.sizes), RATIO]

    def rows(self, bits: np.ndarray) -> np.ndarray:
        with watch_releases():
            return np.array([self._vector(*run(self.mechanism, self.tables[bit], until=self.until)) for bit in bits.astype(int)])

    def _vector(self, outcome: object, draws: list[Draw]) -> np.ndarray:
        """Return a run as a vector; missing numbers become -inf."""
        seen, vector = visible_numbers(outcome, draws) if self.sizes else {}, []
        for name, size in self.sizes.items():
            numbers = np.nan_to_num(seen.get(name, np.zeros(0))[:size], nan=-np.inf)
            vector.append(np.concatenate([numbers, np.full(size - len(numbers), -np.inf)]))
        lengths = [float(len(seen.get(name, ()))) for name in self.sizes]
        return np.concatenate([*vector, lengths, [self.ratio(draws)]])

    def ratio(self, draws: list[Draw]) -> float:
        return likelihood_ratio(draws, *self.values)


@dataclass(frozen=True, eq=False)
class NoiseAudit:
    """Pairs of releases on two tables, where neither values nor noise depend on earlier answers."""

    pairs: list[tuple[Draw, Draw]]
    names: ClassVar[list[str]] = [RATIO]

    @classmethod
    def of(cls, mechanism: Estimator, X: Table, X_neighbor: Table) -> "NoiseAudit":
        """Run the mechanism on both tables, or raise ValueError if releases differ between runs, or given the other table's answers."""

        def replay(table: Table, answers: list[Draw]) -> list[Draw]:
            with suppress(AssertionError):  # other releases are made
                return run(mechanism, table, answers, len(answers))[1]
            return []

        with watch_releases() as door:
            (_, runs), (_, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
            first, other = runs[0], other_runs[0]
            for table, found in ((X, runs), (X_neighbor, other_runs)):
                found += [run(mechanism, table, until=len(found[0]))[1] for _ in range(_MORE)]
            fixed = _is_same_release(first, other, of_other_rows=True) and all(
                _is_same_release(expected, draws) and _is_same_release(unlike, replay(table, draws))
                for expected, unlike, found, table in ((first, other, runs, X_neighbor), (other, first, other_runs, X))
                for draws in found
            )
        is_seen = len(visible_draws(first)) == len(first)  # secret values may decide later releases
        if not first or not fixed or not is_seen or door.n_choices or any(draw.shared for draw in first):
            raise ValueError(
                "event must be None, 'released' or a function where what is released hangs on what was released before, shares noise or "
                "does not pass the door of this package, got 'noise'; 'released' looks at whole runs."
            )
        return cls(list(zip(first, other, strict=True)))

    @property
    def at_once(self) -> int:
        return max(1, _NOISE_VALUES // max(1, sum(first.values.size for first, _ in self.pairs)))

    def rows(self, bits: np.ndarray) -> np.ndarray:
        """Return the likelihood ratio of each run, as rows of one number."""
        ratios, rng = np.zeros(len(bits)), SecureBits()
        for first, other in self.pairs:
            answers = np.where(bits.reshape(-1, *[1] * first.values.ndim), other.values, first.values)
            if "SupNorm" in kind_of(first.noise):  # values drawn together share one radius
                answers = answers + np.array([first.noise.sample(first.values.shape, rng) for _ in bits])
            else:
                answers = answers + first.noise.sample(answers.shape, rng)
            ratios += minus_log_likelihoods(answers, first.values, first)
            ratios -= minus_log_likelihoods(answers, other.values, first)
        return np.round(ratios, 6)[:, None]


def _is_same_release(draws: list[Draw], others: list[Draw], of_other_rows: bool = False) -> bool:
    """Whether all releases agree in name, noise, shape and, unless the rows differ, values."""
    return len(draws) == len(others) and all(
        draw.name == other.name
        and kind_of(draw.noise) == kind_of(other.noise)
        and np.array_equal(noise_scales(draw), noise_scales(other))
        and draw.values.shape == other.values.shape
        and (of_other_rows or np.array_equal(draw.values, other.values))
        for draw, other in zip(draws, others, strict=True)
    )


Observer = EventObserver | Layout | NoiseAudit


def _observe(observer: Observer, bits: np.ndarray, n_jobs: int | None, progress: Task) -> np.ndarray:
    """Return a row for each run; the number of processes does not change the result."""
    parts = [bits[start : start + observer.at_once] for start in range(0, len(bits), observer.at_once)]
    width, found = effective_n_processes(n_jobs), []
    with Parallel(n_jobs=min(width, len(parts))) as pool:
        for start in range(0, len(parts), width):
            for rows in pool(delayed(observer.rows)(part) for part in parts[start : start + width]):
                found.append(rows)
                progress.step()
    return np.concatenate(found)


def _make_observer(event: Callable | str | None, mechanism: Estimator, X: Table, X_neighbor: Table) -> Observer:
    if event is None or (isinstance(event, str) and event == "released"):
        return Layout.of(mechanism, X, X_neighbor, event is not None)
    if isinstance(event, str) and event == "noise":
        return NoiseAudit.of(mechanism, X, X_neighbor)
    kind, words = (ValueError, "; 'released' looks at no fitted attribute") if isinstance(event, str) else (TypeError, "; leave it out")
    if not callable(event):
        raise kind(f"event must be None, 'released', 'noise' or a function of what a run returns, got {short_repr(event)}{words}.")
    return EventObserver(mechanism, (X, X_neighbor), event)


# Rules


@dataclass(frozen=True, eq=False)
class Score:
    """A number of a run that is larger where the neighbor is likelier."""

    words: str
    places: np.ndarray  # in the vector of a run
    centers: np.ndarray | None  # medians on both tables, (2, n_places): score how much nearer the neighbor's one is; None: sum the numbers
    weights: np.ndarray  # (n_places,)

    def of(self, vectors: np.ndarray) -> np.ndarray:
        X = np.clip(vectors[:, self.places], -_FAR, _FAR)  # -inf stands for a missing number
        if self.centers is not None:
            X = np.abs(X - self.centers[0]) - np.abs(X - self.centers[1])
        return X @ self.weights


@dataclass(frozen=True, eq=False)
class Rule:
    """Thresholds on a score that decide whether and how a run is guessed."""

    score: Score
    low: float  # guess the first table up to `low`, the neighbor from `high` on, and pass in between
    high: float
    score_of_all: Score
    middle: float  # threshold where every run must be guessed

    def __str__(self) -> str:
        parts = [f"X_neighbor where it is at least {self.high:.4g}"] * bool(np.isfinite(self.high))
        parts += [f"X where it is at most {self.low:.4g}"] * bool(np.isfinite(self.low))
        return f"by {self.score.words}: guess {', and '.join(parts) or 'nothing'}"

    def counts(self, vectors: np.ndarray, bits: np.ndarray) -> tuple[int, int, int]:
        """Return the number of guessed runs, of right guesses, and of right guesses if all runs are guessed."""
        scores = self.score.of(vectors)
        high, low = scores >= self.high, scores <= self.low
        right = (high & bits).sum() + (low & ~bits).sum()
        right_of_all = (self.score_of_all.of(vectors) >= self.middle) == bits
        return int((high | low).sum()), int(right), int(right_of_all.sum())


def learn_rule(vectors: np.ndarray, bits: np.ndarray, names: list[str], n_runs: int, delta: float, alpha: float) -> Rule:
    """Return the most promising rule: sums are learned on half of the runs and cut on the others, for bounds from `n_runs` further runs."""
    learning = np.arange(len(bits)) % 4 < 2  # the tables alternate
    by_epsilon: tuple[float, Any] = (-math.inf, None)
    by_share: tuple[float, Any] = (-math.inf, None)
    for score in _scores(vectors[learning], bits[learning], names):
        chosen = np.ones(len(bits), dtype=bool) if len(score.places) == 1 else ~learning  # a single number has nothing to learn
        epsilon, thresholds, share, middle = _best_thresholds(score, vectors[chosen], bits[chosen], n_runs, delta, alpha)
        # The first score is optimal if the noise is as in the ledger; by chance others often seem slightly better.
        if by_epsilon[1] is None or epsilon > _MARGIN * by_epsilon[0]:
            by_epsilon = epsilon, (score, *thresholds)
        if by_share[1] is None or share - 0.5 > _MARGIN * (by_share[0] - 0.5):
            by_share = share, (score, middle)
    return Rule(*by_epsilon[1], *by_share[1])


def _scores(vectors: np.ndarray, bits: np.ndarray, names: list[str]) -> Iterator[Score]:
    X = np.clip(vectors, -_FAR, _FAR)
    first, other = X[~bits], X[bits]
    shift, spread = other.mean(axis=0) - first.mean(axis=0), (first.std(axis=0) + other.std(axis=0)) / 2
    clear = np.abs(shift) / np.maximum(spread / np.sqrt(len(bits) / 4), 1e-200)  # at most 1e231
    clear[shift == 0] = 0
    order = np.argsort(-clear, kind="stable")
    for place in dict.fromkeys([len(names) - 1, *order[:_SINGLE]]):
        sign = -1.0 if shift[place] < 0 and names[place] != RATIO else 1.0
        words = names[place] if sign > 0 else f"minus {names[place]}"
        yield Score(words, np.array([place]), None, np.array([sign]))
    places = order[clear[order] > _CLEAR]
    places = places[places != len(names) - 1]
    if len(places) < 2:
        return
    centers = np.array([np.median(first[:, places], axis=0), np.median(other[:, places], axis=0)])
    off = (np.abs(first[:, places] - centers[0]).mean(axis=0) + np.abs(other[:, places] - centers[1]).mean(axis=0)) / 2
    yield Score(f"how near {len(places)} numbers are to their medians", places, centers, 1 / np.maximum(off, 1e-9))
    weights = shift[places] / np.maximum(spread[places], 1e-9) ** 2
    yield Score(f"a weighted sum of {len(places)} numbers", places, None, weights)


def _best_thresholds(
    score: Score, vectors: np.ndarray, bits: np.ndarray, n_runs: int, delta: float, alpha: float
) -> tuple[float, tuple[float, float], float, float]:
    """Return the bound that a score promises with its thresholds, and the share of right guesses at all runs with its threshold."""
    scores = score.of(vectors)
    even = np.linspace(0, 1, _CUTS)
    rare = even[1] / 2.0 ** np.arange(1, 1 + max(0, int(np.log2(even[1] * len(scores) / _RARE))))  # which many runs allow
    cuts = np.unique(np.quantile(scores, np.concatenate([even, rare, 1 - rare]), method="nearest"))
    at_least, at_most = scores[:, None] >= cuts, scores[:, None] <= cuts
    right = expit(scores)  # probability that a guess is right: if the score is the ratio, more precise than counts, for any number of runs
    # Guesses beyond a threshold are not right as often as the ratios say if exact values differ between runs, as after a private radius.
    beyond, variance = np.hstack([at_least, at_most]), right * (1 - right)
    if score.words != RATIO or (np.abs((right - bits) @ beyond) > _ODD * np.sqrt(variance @ beyond) + _ODD).any():
        right, n_runs, alpha = bits.astype(float), len(bits), _STRICTER * alpha
    weight = n_runs / len(bits)
    n_high, right_high = np.append(at_least.sum(axis=0), 0), np.append(right @ at_least, 0)
    n_low, right_low = np.append(0, at_most.sum(axis=0)), np.append(0, (1 - right) @ at_most)
    n_right, n_guesses = weight * (right_low[:, None] + right_high), weight * (n_low[:, None] + n_high)
    bounds = lower_epsilon(n_right, n_guesses, n_runs, delta, alpha)
    lows, highs = np.append(-np.inf, cuts), np.append(cuts, np.inf)
    bounds[lows[:, None] >= highs] = -1.0
    low, high = np.unravel_index(int(bounds.argmax()), bounds.shape)
    shares = (right @ at_least + (1 - right) @ ~at_least) / len(bits)
    middle = int(shares.argmax())
    return float(bounds[low, high]), (float(lows[low]), float(highs[high])), float(shares[middle]), float(cuts[middle])
