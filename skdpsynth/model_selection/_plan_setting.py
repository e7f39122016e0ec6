"""The setting of a plan: simulated rows and error measures for an estimator and the public facts of a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import clone
from sklearn.utils import resample

from skdpsynth._validation import as_array, is_integer, is_real, short_repr
from skdpsynth.domain import UNIT, Box, Continuous, Schema, has_private, list_names, pair_of
from skdpsynth.frames import make_frame
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
_SHARES = (0.25, 0.13, 0.06, 0.03, 0.03)  # of the variance of a column, by hidden factor; the rest is its own
_SHAPE = (2.0, 4.0)  # of the numbers within their bounds: a hump at a third, a tail to the right
_MISSING = 0.1  # of the cells of a column that may be missing
_TINY = 1e-12  # where probabilities would be 0 or 1
_SEEDS = 2**32
_TABLE = "rows of a public table"
_WIDEST = 1e15
_NEEDS = "bounds or schema with names of columns need pandas, polars or pyarrow, because a table is simulated"


@dataclass(frozen=True, eq=False)
class RowSource:
    """Source of simulated rows."""

    schema: Schema  # numbers within bounds, and levels; all of it stated
    names: Sequence[Any] | None  # of the columns of a data frame; None: an array
    prior: Any  # None: made-up rows; "uniform": even and independent columns; else a public table

    def rows(self, n_samples: int, rng: np.random.Generator) -> Any:
        if self.prior is None or isinstance(self.prior, str):
            return self._table(simulate_columns(self.schema, n_samples, rng) if self.prior is None else self._even(n_samples, rng))
        # Rows are drawn with replacement only where there are too few of them.
        seed = int(rng.integers(_SEEDS))
        is_short = n_samples > (int(self.prior.shape[0]) if hasattr(self.prior, "shape") else len(self.prior))
        return resample(self.prior, replace=is_short, n_samples=n_samples, random_state=seed)

    def uniform(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Return rows that need no data: every value within bounds, and every level, is equally likely."""
        return self._table(self._even(n_samples, rng))

    def _even(self, n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
        return [_even(kind, rng.random(n_samples)) for kind in self.schema.values()]

    def _table(self, columns: list[np.ndarray]) -> Any:
        """Return columns as the kind of table that a fit would get: codes of levels become levels."""
        kinds = list(self.schema.values())
        if self.names is not None:
            return _frame(self.names, kinds, columns)
        if all(isinstance(kind, Continuous) for kind in kinds):
            return np.column_stack(columns)
        rows = np.empty((len(columns[0]), len(columns)), dtype=object)
        for place, (kind, column) in enumerate(zip(kinds, columns, strict=True)):
            rows[:, place] = column if isinstance(kind, Continuous) else _levels(kind, column)
        return rows


def narrow_bounds(schema: Schema, too_wide: float) -> Schema:
    """Shrink the ranges of numbers in a schema of coded columns to their first part, by a factor of `too_wide`."""
    kinds = dict(schema)
    for name, kind in schema.items():
        if isinstance(kind, Continuous):
            high = kind.low + (kind.high - kind.low) / too_wide
            kinds[name] = replace(kind, high=max(kind.low + 1, int(high)) if kind.integer else high)
    return Schema(kinds)


def simulate_columns(schema: Schema, n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return columns somewhat like data: uneven, and dependent through a few hidden factors.

    Numbers have a hump at a third of their range and a tail to the right; the k-th level has a frequency in proportion to 1/k; a tenth of
    the cells that may be missing are. Two columns have a correlation of about .2, of either sign. All of this follows from bounds and
    levels alone.
    """
    shares = np.array(_SHARES)
    loadings = np.sqrt(shares)[:, None] * rng.choice([-1.0, 1.0], size=(len(shares), len(schema)))
    factors = ndtri(rng.uniform(_TINY, 1, size=(n_samples, len(shares))))
    columns = []
    for kind, loading in zip(schema.values(), loadings.T, strict=True):
        own = ndtri(rng.uniform(_TINY, 1, size=n_samples))
        columns.append(_skewed_column(kind, ndtr(factors @ loading + np.sqrt(1 - shares.sum()) * own), rng))
    return columns


def _skewed_column(kind: Any, ranks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a column whose values follow the order of `ranks`, in (0, 1)."""
    if isinstance(kind, Continuous):
        a, b = _SHAPE
        # The quantiles of Kumaraswamy's law, which is close to a beta law and has a closed form.
        column = _between(kind, (1 - (1 - ranks) ** (1 / b)) ** (1 / a))
    else:
        shares = 1 / np.arange(1, len(kind.levels) + 1)
        column = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], ranks, side="right")
    if kind.nullable:
        column[rng.random(len(column)) < _MISSING] = np.nan if isinstance(kind, Continuous) else -1
    return column


def _even(kind: Any, uniform: np.ndarray) -> np.ndarray:
    if isinstance(kind, Continuous):
        return _between(kind, uniform)
    codes = (uniform * kind.n_codes).astype(np.int64)
    return np.where(codes < len(kind.levels), codes, -1)


def _between(kind: Continuous, shares: np.ndarray) -> np.ndarray:
    """Return numbers at these shares of the range of a column; whole ones if it holds those."""
    if not kind.integer:
        return kind.low + (kind.high - kind.low) * shares
    return np.minimum(kind.low + np.floor((kind.high - kind.low + 1) * shares), kind.high)


def _levels(kind: Any, codes: np.ndarray) -> np.ndarray:
    cells = np.array([*kind.levels, None], dtype=object)
    return cells[codes]


def _frame(names: Sequence[Any], kinds: Sequence[Any], columns: Sequence[np.ndarray]) -> Any:
    """Return a data frame of an installed library."""
    both = list(zip(kinds, columns, strict=True))
    try:
        import pandas as pd
    except ImportError:
        cells = [(column if isinstance(kind, Continuous) else _levels(kind, column)).tolist() for kind, column in both]
        return make_frame(dict(zip(names, cells, strict=True)), _NEEDS)
    cells = [
        column if isinstance(kind, Continuous) else pd.Categorical.from_codes(column, categories=list(kind.levels)) for kind, column in both
    ]
    return pd.DataFrame(dict(zip(names, cells, strict=True)))


@dataclass(frozen=True, eq=False)
class Setting:
    """The estimator, the rows it is fitted to, and the measures of its errors."""

    estimator: Any  # unfitted, without an accountant
    ground: RowSource
    errors: Any  # NumberErrors, TableErrors or ComponentErrors
    words: str  # description of the rows


def make_setting(estimator: Any, bounds: Any, schema: Any, n_features: Any, prior: Any, too_wide: Any = 1.0) -> Setting:
    _check_estimator(estimator)
    prior, words = _check_prior(prior)
    if not (is_real(too_wide) and 1 <= too_wide <= _WIDEST):
        raise ValueError(
            f"too_wide must be a number from 1 to 1e15, got {short_repr(too_wide)}; 10 simulates rows in a tenth of the bounds."
        )
    if too_wide > 1 and words == _TABLE:
        raise ValueError("too_wide must be 1 beside a public table as prior, whose rows lie where they lie; widen the bounds themselves.")
    setting = _make_setting(estimator, bounds, schema, n_features, prior, words)
    if too_wide == 1:
        return setting
    ground = replace(setting.ground, schema=narrow_bounds(setting.ground.schema, float(too_wide)))
    return replace(setting, ground=ground, words=f"{words} in a part of bounds that are {float(too_wide):g} times as wide")


def _make_setting(estimator: Any, bounds: Any, schema: Any, n_features: Any, prior: Any, words: str) -> Setting:
    fitted = clone(estimator)
    params = fitted.get_params(deep=False)
    if "accountant" in params:
        fitted.set_params(accountant=None)
    if "max_rows_per_unit" in params:
        # A simulated row is a unit of its own; the cost of several rows is in the loss (`unit_rows`).
        fitted.set_params(max_rows_per_unit=1)
    if params.get("partition") is not None and words != _TABLE:
        raise ValueError("prior must be a public table for an estimator with a partition of its own, because its rows lie in no bounds.")
    if "schema" in params and (schema is not None or params["schema"] is not None):
        return _schema_setting(fitted, schema, prior, words)
    if schema is not None:
        raise ValueError(f"schema must be None for {type(fitted).__name__}, which takes numbers within bounds; give bounds.")
    return _bounds_setting(fitted, bounds, n_features, prior, words)


def _check_prior(prior: Any) -> tuple[Any, str]:
    if prior is None:
        return None, "made-up rows"
    if isinstance(prior, str):
        if prior != "uniform":
            raise ValueError(f"prior must be None, 'uniform' or a public table in memory, got {short_repr(prior)}; read a file first.")
        return prior, "uniform rows"
    prior = prior if hasattr(prior, "shape") else as_array(prior)
    if len(prior.shape) != 2 or not prior.shape[0]:
        raise ValueError(f"prior must be a public table with rows and columns, got {short_repr(prior)}; of one column, give (n, 1).")
    return prior, _TABLE


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params") or "epsilon" not in estimator.get_params(deep=False):
        raise TypeError(f"estimator must be an unfitted private estimator, with a parameter epsilon, got {short_repr(estimator)}.")
    if not hasattr(estimator, "sample") and "n_components" not in estimator.get_params(deep=False):
        raise TypeError(f"estimator must sample synthetic rows or have components, but {type(estimator).__name__} does neither.")


def _schema_setting(fitted: Any, schema: Any, prior: Any, words: str) -> Setting:
    own, given = (None if each is None else Schema.of(each) for each in (fitted.schema, schema))
    if own is not None and given is not None and set(own) != set(given):
        raise ValueError("schema must have the columns of the schema of the estimator; leave one of them out, or make them alike.")
    stated: Any = own if given is None else given
    if unknown := [name for name, kind in stated.items() if kind.unstated is not None]:
        raise ValueError(
            f"schema must state bounds and levels to simulate rows, but has none for {list_names(unknown)}; give plan a schema with "
            "guesses."
        )
    # Facts that the estimator buys, it buys in the simulation, too.
    buys = own is not None and any(kind.unstated is not None for kind in own.values())
    learned: Any = own if buys else stated
    if words != _TABLE:
        # Mechanisms see the coded columns alone: dates as whole numbers, and no identifiers.
        learned, stated = learned.coded, stated.coded
    fitted.set_params(schema=learned)
    return Setting(fitted, RowSource(stated, _names_of(stated), prior), TableErrors(stated), words)


def _names_of(schema: Schema) -> Any:
    """Return names of columns, or None for the columns of an array."""
    return None if list(schema) == list(range(len(schema))) else list(schema)


def _bounds_setting(fitted: Any, bounds: Any, n_features: Any, prior: Any, words: str) -> Setting:
    params = fitted.get_params(deep=False)
    own = params.get("bounds")
    given = own if bounds is None else bounds
    is_table = words == _TABLE
    if given is None:
        given = UNIT
        if "bounds" in params and not is_table:  # rows are made up within them: there is nothing to clip
            fitted.set_params(bounds=UNIT)
    if has_private(given):
        raise ValueError("bounds must be two numbers to simulate rows within, got 'private'; give plan a generous guess as bounds.")
    if bounds is not None and "bounds" in params and not has_private(own):
        fitted.set_params(bounds=bounds)
    names = list(given) if isinstance(given, dict) else None
    if is_table:
        names = list(prior.columns) if hasattr(prior, "columns") else None
    width = _checked_width(given, n_features, prior if is_table else None, " or a schema" if "schema" in params else "")
    box = Box.from_bounds(given, width, names)
    schema = Schema({i: Continuous(low, high, integer=False) for i, (low, high) in enumerate(zip(box.low, box.high, strict=True))})
    if "schema" in params:
        errors: Any = TableErrors(schema if names is None else Schema(dict(zip(names, schema.values(), strict=True))))
    elif hasattr(fitted, "sample"):
        errors = NumberErrors(box.width, getattr(fitted, "window", None))
    else:
        errors = ComponentErrors()
    return Setting(fitted, RowSource(schema, names, prior), errors, words)


def _checked_width(bounds: Any, n_features: Any, table: Any, or_schema: str) -> int:
    if n_features is not None and not is_integer(n_features, 1):
        raise ValueError(f"n_features must be a positive integer, got {short_repr(n_features)}; it is the number of columns.")
    known = [] if table is None else [int(table.shape[1])]
    known += [len(bounds)] if isinstance(bounds, dict) else [side.size for side in map(as_array, pair_of(bounds)) if side.ndim == 1]
    known += [] if n_features is None else [int(n_features)]
    if not known:
        raise ValueError(
            f"bounds must tell how many columns there are, got one pair for all of them; give bounds={{column: (low, high)}}{or_schema}, "
            "or n_features where they do have the same bounds."
        )
    if len(set(known)) > 1:
        raise ValueError(f"n_features must be the number of columns of bounds and prior, but they say {list_names(sorted(set(known)))}.")
    return known[0]


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
        X = _as_floats(X)[-self.window :] if self.window else _as_floats(X)
        Y = _as_floats(model.sample(len(X), random_state=_seed(rng)))
        return self._between(X, Y, _as_floats(model.sample(min(len(X), _MOST_COMPARED), random_state=_seed(rng))), rng)

    def baseline_errors(self, X: Any, uniform: Any, model: Any, rng: np.random.Generator) -> tuple[float, ...]:
        return self._between(_as_floats(X), _as_floats(uniform), _as_floats(uniform)[:_MOST_COMPARED], rng)

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
        X, components = _as_floats(X), np.atleast_2d(model.components_)
        kept = components if len(components) < X.shape[1] else components[:1]
        true = np.cov(X, rowvar=False, ddof=0).reshape(X.shape[1], X.shape[1])
        noisy = model.covariance_ if hasattr(model, "covariance_") else model.get_covariance()
        off = np.linalg.norm(noisy - true, 2) / np.linalg.norm(true, 2)
        return 1 - captured_variance_ratio(X, kept), float(off)

    def baseline_errors(self, X: Any, uniform: Any, model: Any, rng: np.random.Generator) -> tuple[float, ...]:
        """Return the errors of random directions, and of no covariance at all."""
        X, n_components = _as_floats(X), len(np.atleast_2d(model.components_))
        n_components = n_components if n_components < X.shape[1] else 1
        from scipy.stats import uniform_direction

        directions = uniform_direction(X.shape[1]).rvs(n_components, random_state=rng).reshape(n_components, -1)
        return 1 - captured_variance_ratio(X, directions), 1.0


def _as_floats(X: Any) -> np.ndarray:
    return np.asarray(X, dtype=float)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
