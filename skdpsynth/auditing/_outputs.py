"""Outputs of one run that an attacker sees, as numbers."""

import inspect
import math
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from skdpsynth.auditing._likelihood import RATIO, Likelihood, visible_draws
from skdpsynth.auditing._result import lower_epsilon
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.testing import Draw, StopRun, watch_releases

_CUTS = 24  # thresholds to try: with more of them, rare events win by chance
_RARE = 200  # runs beyond the outermost threshold
_STRICTER = 0.01  # factor on alpha when thresholds are compared, for the same reason
_SINGLE = 8  # numbers of a run to try as scores by themselves
_CLEAR = 4.0  # standard errors by which the mean of a number must differ
_ODD = 4.0  # standard errors, and guesses, by which likelihood ratios may be off
_MARGIN = 1.1  # factor by which a later score must promise more
_MOST = 1024  # numbers of a run that a rule may look at
_DEEPEST = 4
_SOME_ROWS = 20  # from a sampler that needs a number of rows
_TRIED = 5  # runs, because releases may depend on earlier ones
_IGNORED_ATTRIBUTES = {"accountant_", "accountant", "random_state"}  # expenses are public, and large


def run(mechanism: Any, X: Any, answers: list[Draw] | None = None, until: int | None = None) -> tuple[Any, list[Draw]]:
    """Run a mechanism with fresh noise; return its outcome and its releases.

    With `answers`, these are released again. With `until`, the run ends after so many releases, because the rest is post-processing; its
    outcome is then None.
    """
    outcome = None
    with warnings.catch_warnings(), watch_releases(answers, until) as door, suppress(StopRun):
        warnings.simplefilter("ignore")
        outcome = clone(mechanism).fit(X) if hasattr(mechanism, "fit") else mechanism(X)
    return outcome, door.draws


def probe_runs(mechanism: Any, X: Any) -> tuple[Any, list[list[Draw]]]:
    """Return the outcome of one run, and the releases of several."""
    outcome, draws = run(mechanism, X)
    return outcome, [draws, *(run(mechanism, X)[1] for _ in range(_TRIED - 1))]


def visible_numbers(outcome: Any, draws: list[Draw]) -> dict[str, np.ndarray]:
    """Return all visible numbers of a run by their place."""
    seen = {f"{draw.name!r} as released ({place})": np.ravel(draw.answer).astype(float) for place, draw in enumerate(visible_draws(draws))}
    if not hasattr(outcome, "fit"):
        seen.update(_numbers("output", outcome, 0))
        return seen
    for path, estimator in _estimators(outcome):
        own = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
        for name, value in _visible_attributes(estimator).items():
            if name not in own:
                seen.update(_numbers(path + name, value, 0))
    if not isinstance(outcome, PrivateEstimator) and hasattr(outcome, "sample"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.update(_numbers("sample()", _sample(outcome), 0))
    return seen


def _sample(outcome: Any) -> Any:
    """Sample some rows, also if the number of rows must be given."""
    try:
        inspect.signature(outcome.sample).bind()
    except TypeError:
        return outcome.sample(_SOME_ROWS)
    return outcome.sample()


def _visible_attributes(estimator: Any) -> dict[str, Any]:
    is_stream = hasattr(estimator, "partial_fit")  # its open block is as secret as the data
    return {
        name: value
        for name, value in vars(estimator).items()
        if name not in _IGNORED_ATTRIBUTES and not (is_stream and name.startswith("_"))
    }


def _estimators(outcome: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fitted estimator and all estimators nested in it, each once, with its path."""
    met: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", outcome)]
    while waiting:
        path, value = waiting.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, list | tuple):
            inner: Any = ((f"{path}[{place}]", each) for place, each in enumerate(value))
        elif isinstance(value, dict):
            inner = ((f"{path}[{key!r}]", each) for key, each in value.items())
        else:
            path += "." * bool(path)
            yield path, value
            inner = ((path + name, each) for name, each in _visible_attributes(value).items())
        waiting += [(place, each) for place, each in inner if isinstance(each, list | tuple | dict | BaseEstimator)]


def _numbers(name: str, value: Any, depth: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers within a value; words become checksums."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        yield name, np.array([float(value)])
    elif isinstance(value, str):
        yield name, np.array([float(zlib.crc32(value.encode()))])
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufMm":
        yield name, value.ravel().astype(float)
    elif depth < _DEEPEST:
        yield from _numbers_within(name, value, depth + 1)


def _numbers_within(name: str, value: Any, depth: int) -> Iterator[tuple[str, np.ndarray]]:
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, dict):
        inner: Any = ((f"{name}[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple):
        inner = ((f"{name}[{place}]", each) for place, each in enumerate(value[:_MOST]))
    elif is_dataclass(value) and not isinstance(value, type):
        inner = ((f"{name}.{field.name}", getattr(value, field.name)) for field in fields(value))
    else:
        return
    for path, each in inner:
        yield from _numbers(path, each, depth)


def _numbers_per_place(sizes: dict[str, int]) -> dict[str, int]:
    """Return how many numbers of each place to use: small places whole, so that a large one does not hide them."""
    shares, room = dict.fromkeys(sizes, 0), _MOST
    for place, name in enumerate(sorted(sizes, key=sizes.__getitem__)):
        shares[name] = min(sizes[name], room // (len(sizes) - place))
        room -= shares[name]
    return shares


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of a run as a vector: numbers by place, their counts, and the likelihood ratio of the releases."""

    sizes: dict[str, int]  # numbers taken from each place
    likelihood: Likelihood  # the score that tells the tables apart best
    until: int | None = None  # if given, a run ends after so many releases, and only its likelihood ratio counts

    @classmethod
    def of(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "Layout":
        (first, runs), (second, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
        sizes: dict[str, int] = {}
        for seen in (visible_numbers(first, runs[0]), visible_numbers(second, other_runs[0])):
            for name, numbers in seen.items():
                sizes[name] = max(sizes.get(name, 0), len(numbers))
        if not sizes:
            raise TypeError(
                "estimator must fit or return numbers that an audit can look at, but there are none; return them, or give event."
            )
        return cls(_numbers_per_place(sizes), Likelihood.of(runs, other_runs))

    @classmethod
    def of_released(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "Layout":
        """Return the layout that looks at releases only."""
        (_, runs), (_, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
        if not any(runs):
            raise ValueError("event must be None or a function where nothing passes the door of this package, got 'released'.")
        return cls({}, Likelihood.of(runs, other_runs), max(len(draws) for draws in runs + other_runs))

    @property
    def names(self) -> list[str]:
        numbers = [f"{name}[{i}]" if size > 1 else name for name, size in self.sizes.items() for i in range(size)]
        return [*numbers, *(f"the length of {name}" for name in self.sizes), RATIO]

    def vector(self, outcome: Any, draws: list[Draw]) -> np.ndarray:
        """Return a run as a vector; missing numbers become -inf."""
        seen, vector = visible_numbers(outcome, draws) if self.sizes else {}, []
        for name, size in self.sizes.items():
            numbers = np.nan_to_num(seen.get(name, np.zeros(0))[:size], nan=-np.inf)
            vector.append(np.concatenate([numbers, np.full(size - len(numbers), -np.inf)]))
        lengths = [float(len(seen.get(name, ()))) for name in self.sizes]
        return np.concatenate([*vector, lengths, [self.likelihood.ratio(draws)]])


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


_FAR = 1e30


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
    """Yield candidates: single numbers, and sums over all numbers that clearly differ."""
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
    cuts = np.unique(np.quantile(scores, _threshold_quantiles(len(scores)), method="nearest"))
    at_least, at_most = scores[:, None] >= cuts, scores[:, None] <= cuts
    right = expit(scores)  # probability that a guess is right: if the score is the ratio, more precise than counts, for any number of runs
    if score.words != RATIO or not _is_calibrated(right, bits, at_least, at_most):
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


def _threshold_quantiles(n_runs: int) -> np.ndarray:
    """Return the quantiles to try as thresholds; many runs allow rarer ones."""
    even = np.linspace(0, 1, _CUTS)
    rare = even[1] / 2.0 ** np.arange(1, 1 + max(0, int(np.log2(even[1] * n_runs / _RARE))))
    return np.concatenate([even, rare, 1 - rare])


def _is_calibrated(right: np.ndarray, bits: np.ndarray, at_least: np.ndarray, at_most: np.ndarray) -> bool:
    """Whether guesses beyond every threshold are right about as often as the likelihood ratios say.

    They are not if the exact values differ between runs, as after another private radius.
    """
    variance = right * (1 - right)
    return all((np.abs((right - bits) @ beyond) <= _ODD * np.sqrt(variance @ beyond) + _ODD).all() for beyond in (at_least, at_most))
