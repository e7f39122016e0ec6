"""What an attacker sees of one run, as numbers: all that passed the door, and all that was fitted."""

import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth.auditing._likelihood import RATIO, Likelihood, published
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.testing import Draw, Enough, watched

_MOST = 1024  # numbers of a run that a rule may look at
_DEEPEST = 4
_NOT_SEEN = {"accountant_", "accountant", "random_state"}  # what was spent is public, and big


def run(mechanism: Any, X: Any, answers: list[Draw] | None = None, until: int | None = None) -> tuple[Any, list[Draw]]:
    """Run a mechanism on a table with fresh noise; return what came out, and what passed the door.

    Parameters
    ----------
    mechanism : estimator or callable
    X : table
    answers : list of Draw, default=None
        Where given, these come out of the door again, in place of fresh ones.
    until : int, default=None
        Where given, the run ends once so many answers have passed: what follows is post-processing.

    Returns
    -------
    outcome : object
        A fitted estimator, or what the callable returned; None of a run that ended before.
    draws : list of Draw
    """
    outcome = None
    with warnings.catch_warnings(), watched(answers, until) as door, suppress(Enough):
        warnings.simplefilter("ignore")
        outcome = clone(mechanism).fit(X) if hasattr(mechanism, "fit") else mechanism(X)
    return outcome, door.draws


def observed(outcome: Any, draws: list[Draw]) -> dict[str, np.ndarray]:
    """Return all numbers of a run that can be seen, by where they are."""
    seen = {f"{draw.name!r} as released ({place})": np.ravel(draw.answer).astype(float) for place, draw in enumerate(published(draws))}
    if not hasattr(outcome, "fit"):
        seen.update(_numbers("output", outcome, 0))
        return seen
    own = outcome.get_params(deep=False) if hasattr(outcome, "get_params") else {}
    is_stream = hasattr(outcome, "partial_fit")  # whose open block is as secret as the data
    for name, value in vars(outcome).items():
        if name not in own and name not in _NOT_SEEN and not (is_stream and name.startswith("_")):
            seen.update(_numbers(name, value, 0))
    if not isinstance(outcome, PrivateEstimator) and hasattr(outcome, "sample"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen.update(_numbers("sample()", outcome.sample(), 0))
    return seen


def _numbers(name: str, value: Any, depth: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers within a value; of words, a number that tells them apart."""
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


@dataclass(frozen=True, eq=False)
class Layout:
    """How a run becomes a vector: numbers by their place, how many there are at each place, and the likelihood ratio of what was released.

    Attributes
    ----------
    sizes : dict of str to int
        How many numbers of each place are taken.
    likelihood : Likelihood
        From a first run on each of the tables: the score that tells the tables apart best.
    until : int or None
        Where given, a run ends once so many answers have passed the door, and is nothing but its likelihood ratio.
    """

    sizes: dict[str, int]
    likelihood: Likelihood
    until: int | None = None

    @classmethod
    def of(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "Layout":
        """Return the layout that serves two tables, from a run on each."""
        (first, draws), (second, other_draws) = run(mechanism, X), run(mechanism, X_neighbor)
        sizes: dict[str, int] = {}
        for seen in (observed(first, draws), observed(second, other_draws)):
            for name, numbers in seen.items():
                room = _MOST - sum(sizes.values()) + sizes.get(name, 0)
                sizes[name] = min(max(sizes.get(name, 0), len(numbers)), room)
        return cls(sizes, Likelihood.of(draws, other_draws))

    @classmethod
    def of_released(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "Layout":
        """Return the layout that looks at nothing but what passes the door."""
        (_, draws), (_, other_draws) = run(mechanism, X), run(mechanism, X_neighbor)
        if not draws:
            raise ValueError("event must be None or a function where nothing passes the door of this package, got 'released'.")
        return cls({}, Likelihood.of(draws, other_draws), max(len(draws), len(other_draws)))

    @property
    def names(self) -> list[str]:
        """What each number of a vector is."""
        numbers = [f"{name}[{i}]" if size > 1 else name for name, size in self.sizes.items() for i in range(size)]
        return [*numbers, *(f"the length of {name}" for name in self.sizes), RATIO]

    def vector(self, outcome: Any, draws: list[Draw]) -> np.ndarray:
        """Return a run as a vector; -inf where there is nothing."""
        seen, vector = observed(outcome, draws) if self.sizes else {}, []
        for name, size in self.sizes.items():
            numbers = np.nan_to_num(seen.get(name, np.zeros(0))[:size], nan=-np.inf)
            vector.append(np.concatenate([numbers, np.full(size - len(numbers), -np.inf)]))
        lengths = [float(len(seen.get(name, ()))) for name in self.sizes]
        return np.concatenate([*vector, lengths, [self.likelihood.ratio(draws)]])
