"""Simulated rows and error measures for an estimator and the public facts of a table."""

from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from skdpsynth._arrays import as_array
from skdpsynth._validation import is_integer, is_real, short_repr
from skdpsynth.domain import UNIT, Box, Continuous, Schema, has_private, list_names, pair_of
from skdpsynth.model_selection._plan_measures import ComponentErrors, NumberErrors, TableErrors
from skdpsynth.model_selection._simulate import RowSource, narrow_bounds


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


_TABLE = "rows of a public table"
_WIDEST = 1e15


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
