"""The rows of one fit of an estimator for mixed tables, with what is public about them."""

from typing import Any

import numpy as np

from skdpsynth._sklearn import remember_columns, validate_rows
from skdpsynth.domain._box import Box
from skdpsynth.domain._container import Container
from skdpsynth.domain._kinds import Continuous
from skdpsynth.domain._reading import read
from skdpsynth.domain._schema import Schema
from skdpsynth.domain._table import MixedTable, check_dtypes, check_room, read_table

_Rows = tuple[MixedTable, list[np.ndarray]]


def start_table(estimator: Any, X: Any, ensure_min_samples: int = 1) -> _Rows:
    """Read a table in ``fit``, and let the estimator remember its columns.

    Parameters
    ----------
    estimator : estimator with ``schema`` and ``bounds``
        NaN may stand in numbers without a schema where its tag ``allow_nan`` says so.
    X : array-like or data frame of shape (n_samples, n_features)
    ensure_min_samples : int, default=1

    Returns
    -------
    table : MixedTable
        With its schema, in the order of the columns.
    values : list of ndarray
        As `read` gives them.
    """
    if estimator.schema is None:
        numbers = validate_rows(estimator, X, reset=True, ensure_min_samples=ensure_min_samples, allow_nan=_takes_nan(estimator))
        return numbers_in_bounds(X, numbers, estimator.bounds)
    table, raw = read_table(X)
    table = table.match(estimator.schema if isinstance(estimator.schema, Schema) else Schema(estimator.schema))
    check_room(table)
    # They have no use beside a schema, but nonsense would pass unnoticed.
    Box.from_bounds(estimator.bounds, len(table.columns), None if table.backend == "numpy" else table.columns)
    remember_columns(estimator, X, reset=True)
    _check_rows(raw, ensure_min_samples)
    return table, read(raw, table.schema, table.dtypes)


def continue_table(estimator: Any, X: Any) -> list[np.ndarray]:
    """Read a table after ``fit``, whose columns are known by their place; return its values as `read` gives them."""
    schema = estimator.schema_
    if estimator.schema is None:
        numbers = validate_rows(estimator, X, reset=False, allow_nan=_takes_nan(estimator))
        return read(list(numbers.T), schema, (numbers.dtype.str,) * numbers.shape[1])
    table, raw = read_table(X)
    remember_columns(estimator, X, reset=False)
    if table.backend != "numpy" and table.columns != tuple(schema) and not any(isinstance(name, str) for name in table.columns):
        # Names that are strings scikit-learn has compared.
        raise ValueError("X must have the columns that fit got, in their order; select them by X[list(schema_)].")
    check_dtypes(schema, table.dtypes)
    _check_rows(raw, 1)
    return read(raw, schema, table.dtypes)


def numbers_in_bounds(X: Any, numbers: np.ndarray, bounds: Any) -> _Rows:
    """Return what `start_table` does for a table whose columns are all numbers within `bounds`.

    Parameters
    ----------
    X : array-like or data frame
        As the caller gave it.
    numbers : ndarray of shape (n_samples, n_features)
        Its cells.
    bounds : tuple or dict
    """
    container, n_features = Container.of(X), numbers.shape[1]
    box = container.box(bounds, n_features)
    if container.backend == "numpy":
        table = MixedTable("numpy", tuple(range(n_features)), (container.dtypes[0].str,) * n_features)
    else:
        table, _ = read_table(X)
    table = table.match(_schema_of(box, table.columns))
    return table, read(list(numbers.T), table.schema, table.dtypes)


def _takes_nan(estimator: Any) -> bool:
    return estimator.__sklearn_tags__().input_tags.allow_nan


def _check_rows(raw: list[Any], least: int) -> None:
    """Refuse a table of no columns, or of too few rows."""
    n_samples = len(raw[0]) if raw else 0
    if n_samples < least:
        raise ValueError(f"Found array with {n_samples} sample(s) while a minimum of {least} is required.")


def _schema_of(box: Box, names: tuple) -> Schema:
    """The schema of numbers in a box."""
    kinds = {}
    for name, low, high, whole in zip(names, box.low.tolist(), box.high.tolist(), box.whole.tolist(), strict=True):
        whole = whole and low.is_integer() and high.is_integer() and max(abs(low), abs(high)) <= 2**53
        kinds[name] = Continuous(low, high, integer=whole)
    return Schema(kinds)
