"""A schema for synthetic rows that came without one: they are public, so it may be read from them."""

from typing import Any

import numpy as np

from skdpsynth.domain import Continuous, Date, DateTime, Identifier, Nominal, Schema, Text, Times
from skdpsynth.frames import split_columns

_MOST_LEVELS = 1000


def infer_schema(X: Any) -> Schema:
    """Return a schema of a table in memory that holds all its values; what has no kind, or too many levels, is left out.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        Synthetic rows: bounds and levels are taken from them.
    """
    table, raw = split_columns(X)
    if table.library == "numpy":
        dtypes = dict(zip(table.columns, map(np.dtype, table.dtypes), strict=True))
        skeleton = {name: _kind_of_cells(raw[name]) if dtype.kind == "O" else None for name, dtype in dtypes.items()}
        known = Schema.skeleton(dtypes)
        skeleton = {name: kind or known[name] for name, kind in skeleton.items()}
    else:
        skeleton = dict(Schema.skeleton(X))
    return Schema({name: _state_range(kind, column) for (name, kind), column in zip(skeleton.items(), raw, strict=True)})


def _kind_of_cells(cells: np.ndarray) -> Any:
    """Return the kind of an array of objects: numbers, or words."""
    known = [cell for cell in cells.tolist() if cell is not None and cell == cell]
    if known and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known):
        return Continuous(bounds="open", integer=all(isinstance(cell, int) for cell in known))
    return Nominal("open")


def _state_range(kind: Any, column: Any) -> Any:
    """Return a kind with the bounds or levels of the cells."""
    if kind.unstated is None:
        return Identifier() if isinstance(kind, Text) else kind
    cells = [cell for cell in (column.to_list() if hasattr(column, "to_list") else column.tolist()) if cell is not None and cell == cell]
    if isinstance(kind, Nominal):
        return _levels_of(cells)
    if not cells:
        return Identifier()
    low, high = min(cells), max(cells)
    if isinstance(kind, Times):
        return Date(low, _later(high)) if isinstance(kind, Date) else DateTime(low, _later(high))
    if not (np.isfinite(float(low)) and np.isfinite(float(high))):
        return Identifier()
    if kind.integer:
        return Continuous(int(low), max(int(high), int(low) + 1), integer=True)
    return Continuous(float(low), float(high) if high > low else float(low) + 1.0, integer=False)


def _levels_of(cells: list[Any]) -> Any:
    try:
        levels = sorted(set(cells), key=lambda level: (str(type(level)), level))
    except TypeError:
        return Identifier()
    if len(levels) > _MOST_LEVELS or not all(isinstance(level, str | int | float) for level in levels):
        return Identifier()
    # A schema wants two levels at least; the second never occurs, and its share says so.
    while len(levels) < 2:
        levels.append("(no other)" if not levels or isinstance(levels[0], str) else levels[0] + 1)
    return Nominal(levels)


def _later(time: Any) -> Any:
    """Return the next day, so that bounds differ."""
    return time + np.timedelta64(1, "D").astype(object)
