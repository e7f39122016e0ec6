"""Outputs of one run that an attacker sees, as numbers."""

import inspect
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth.auditing._likelihood import RATIO, Likelihood, visible_draws
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.testing import Draw, StopRun, watch_releases

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
