"""Simulated tables, made from public facts or drawn from a public table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils import resample

from skdpsynth.domain import Continuous, Schema
from skdpsynth.frames import make_frame

_SHARES = (0.25, 0.13, 0.06, 0.03, 0.03)  # of the variance of a column, by hidden factor; the rest is its own
_SHAPE = (2.0, 4.0)  # of the numbers within their bounds: a hump at a third, a tail to the right
_MISSING = 0.1  # of the cells of a column that may be missing
_TINY = 1e-12  # where probabilities would be 0 or 1
_SEEDS = 2**32
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
