"""Error measures of estimators against simulated rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Schema
from skdpsynth.metrics import (
    captured_variance_ratio,
    correlation_error,
    marginal_total_variation,
    sliced_wasserstein_distance,
    wasserstein_distance,
)
from skdpsynth.tables import columns_of

_DIRECTIONS = 30
_MOST_COMPARED = 1000  # rows on each side of an exact transport: a fifth of a second


@dataclass(frozen=True)
class Measure:
    """A measure of error; less is better."""

    name: str
    title: str  # of an axis
    sentence: str  # its meaning, with ``{}`` for the number


@dataclass(frozen=True, eq=False)
class NumberErrors:
    """Errors of synthetic rows of numbers."""

    width: np.ndarray  # of the bounds, (n_features,)
    window: Any = None  # number of last rows that a stream stands for, or None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Return the measures, the main one first."""
        exact = Measure("wasserstein", "W1 distance, in units of the data", "synthetic rows lie about {} from real ones (W1 distance)")
        columns = Measure("columns", "error of a column, share of its range", "a column is off by about {} of its range")
        if len(self.width) == 1:
            return exact, columns
        sliced = Measure(
            "sliced", "sliced W1 distance, in units of the data", "synthetic rows lie about {} from real ones (sliced W1 distance)"
        )
        return sliced, replace(exact, title="W1 distance of 1000 rows, in units of the data"), columns

    def of_model(self, model: Any, X: Any, rng: np.random.Generator) -> tuple[float, ...]:
        """Return the errors of a fitted model against its own rows."""
        X = as_array(X)[-self.window :] if self.window else as_array(X)
        Y = as_array(model.sample(len(X), random_state=_seed(rng)))
        return self._between(X, Y, as_array(model.sample(min(len(X), _MOST_COMPARED), random_state=_seed(rng))), rng)

    def baseline_errors(self, X: Any, uniform: Any, model: Any, rng: np.random.Generator) -> tuple[float, ...]:
        return self._between(as_array(X), as_array(uniform), as_array(uniform)[:_MOST_COMPARED], rng)

    def _between(self, X: np.ndarray, Y: np.ndarray, few: np.ndarray, rng: np.random.Generator) -> tuple[float, ...]:
        columns = [wasserstein_distance(X[:, [i]], Y[:, [i]]) for i in range(X.shape[1])]
        share = float(np.mean(columns / self.width))
        if X.shape[1] == 1:
            return columns[0], share
        some = X if len(X) <= len(few) else X[rng.choice(len(X), len(few), replace=False)]
        return sliced_wasserstein_distance(X, Y, _DIRECTIONS), wasserstein_distance(some, few[: len(some)]), share


@dataclass(frozen=True, eq=False)
class TableErrors:
    """Errors of synthetic rows of a mixed table."""

    schema: Schema

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Return the measures, the main one first."""
        several = (
            Measure(
                "pairs",
                "total variation of a pair of columns",
                "a share of rows read off two columns is wrong by at most about {}, on average over the pairs",
            ),
            Measure(
                "singles", "total variation of a column", "a share of rows read off one column is wrong by at most about {}, on average"
            ),
            Measure("correlations", "error of a correlation", "a correlation of two columns is off by about {}"),
        )
        means = Measure("means", "error of a mean, in deviations", "a mean of numbers is off by about {} standard deviations")
        return (*(several if len(self.schema) > 1 else several[1:2]), *([means] if self._numbers else []))

    @property
    def _numbers(self) -> list[Any]:
        return [name for name, kind in self.schema.items() if isinstance(kind.coded, Continuous)]

    def of_model(self, model: Any, X: Any, rng: np.random.Generator) -> tuple[float, ...]:
        """Return the errors of a fitted model against its own rows."""
        return self._between(X, model.sample(len(X), random_state=_seed(rng)))

    def baseline_errors(self, X: Any, uniform: Any, model: Any, rng: np.random.Generator) -> tuple[float, ...]:
        return self._between(X, uniform)

    def _between(self, X: Any, Y: Any) -> tuple[float, ...]:
        single = marginal_total_variation(X, Y, self.schema, order=1)
        means = self._mean_errors(X, Y)
        if len(self.schema) == 1:
            return single, *means
        return marginal_total_variation(X, Y, self.schema), single, correlation_error(X, Y, self.schema), *means

    def _mean_errors(self, X: Any, Y: Any) -> list[float]:
        if not self._numbers:
            return []
        real, made = (columns_of(table, self.schema) for table in (X, Y))
        off = [abs(np.nanmean(made[name]) - np.nanmean(real[name])) / max(np.nanstd(real[name]), 1e-300) for name in self._numbers]
        return [float(np.mean(off))]


@dataclass(frozen=True, eq=False)
class ComponentErrors:
    """Errors of private principal components."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Return the measures, the main one first."""
        return (
            Measure("variance", "share of the variance that is lost", "of the variance that as many components can hold, {} is lost"),
            Measure("covariance", "error of the covariance", "the covariance is off by {} of its largest eigenvalue"),
        )

    def of_model(self, model: Any, X: Any, rng: np.random.Generator) -> tuple[float, ...]:
        """Return the errors of fitted components, or of the first one if all are kept."""
        X, components = as_array(X), np.atleast_2d(model.components_)
        kept = components if len(components) < X.shape[1] else components[:1]
        true = np.cov(X, rowvar=False, ddof=0).reshape(X.shape[1], X.shape[1])
        noisy = model.covariance_ if hasattr(model, "covariance_") else model.get_covariance()
        off = np.linalg.norm(noisy - true, 2) / np.linalg.norm(true, 2)
        return 1 - captured_variance_ratio(X, kept), float(off)

    def baseline_errors(self, X: Any, uniform: Any, model: Any, rng: np.random.Generator) -> tuple[float, ...]:
        """Return the errors of random directions, and of no covariance at all."""
        X, n_components = as_array(X), len(np.atleast_2d(model.components_))
        n_components = n_components if n_components < X.shape[1] else 1
        from scipy.stats import uniform_direction

        directions = uniform_direction(X.shape[1]).rvs(n_components, random_state=rng).reshape(n_components, -1)
        return 1 - captured_variance_ratio(X, directions), 1.0


def as_array(X: Any) -> np.ndarray:
    return np.asarray(X, dtype=float)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
