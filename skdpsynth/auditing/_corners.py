"""Corners of a public domain, and rows made of them."""

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsynth._validation import check_memory, is_integer, short_repr
from skdpsynth.domain import Box, Schema, has_private
from skdpsynth.frames import make_frame

FRAMES_NEED = "columns with names need pandas, polars or pyarrow, because neighboring tables are made"
CELL = 100  # bytes of a cell in a list of rows, at most


class Corners:
    """Corners of a domain as rows: 0 and 1 stand for the ends of each column."""

    def __init__(self, estimator: Any, n_features: int | None) -> None:
        schema = getattr(estimator, "schema", None)
        if n_features is not None and not is_integer(n_features, 1):
            raise ValueError(f"n_features must be None or an integer of at least 1, got {short_repr(n_features)}; leave it out.")
        if schema is not None:
            self.kinds = list(Schema.of(schema).values())
            self.ends = [_column_ends(kind, name) for name, kind in Schema.of(schema).items()]
            self.names = list(Schema.of(schema))
        else:
            if has_private(estimator.bounds):
                raise ValueError("bounds must be public for a worst pair, got 'private'; give (low, high).")
            self.names, low, high = _bounds_of(estimator, n_features)
            self.ends = list(zip(low, high, strict=True))
        if n_features not in (None, len(self.ends)):
            raise ValueError(f"n_features must be {len(self.ends)}, as bounds or schema say, got {short_repr(n_features)}; leave it out.")
        self.n_features = len(self.ends)
        self.is_mixed = schema is not None
        self.has_names = not all(isinstance(name, int) for name in self.names)

    def row(self, places: np.ndarray) -> list[Any]:
        """Return the row at these places between the ends of each column; a column of levels takes the nearer end."""
        return [
            low + (high - low) * place if isinstance(low, float) else (high if place >= 0.5 else low)
            for (low, high), place in zip(self.ends, places.tolist(), strict=True)
        ]

    def table(self, rows: list[list[Any]]) -> Any:
        if self.has_names:
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in self.names]
            return make_frame(dict(zip(self.names, columns, strict=True)), FRAMES_NEED)
        dtype = object if self.is_mixed else float
        return np.array(rows, dtype=dtype).reshape(len(rows), self.n_features)

    def sizes(self, n_places: int) -> list[int]:
        """Return the number of levels of each column, counting `n_places` for a column of numbers."""
        return [len(kind.levels) if hasattr(kind, "levels") else n_places if _is_real(kind) else 1 for kind in self.kinds]

    def spread(self, numbers: np.ndarray, n_places: int) -> list[list[Any]]:
        """Return rows at the levels with these numbers, shape (n_rows, n_columns), or in the middle of one of `n_places` parts."""
        columns = []
        for kind, (low, high), column in zip(self.kinds, self.ends, numbers.T.tolist(), strict=True):
            if hasattr(kind, "levels"):
                columns.append([kind.levels[number] for number in column])
            else:
                columns.append([low + (high - low) * (number + 0.5) / n_places if _is_real(kind) else low for number in column])
        return [list(row) for row in zip(*columns, strict=True)]

    def candidates(self, drops: bool) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of rows; the second is None under add-or-remove.

        Opposite corners move all counts. Second moments move most between rows at right angles, seen from the midpoint of the box: half of
        the signs are flipped, or, in one dimension, a row lies at the midpoint or, for sums and moments that are packed together, slightly
        beyond it.
        """
        d = self.n_features
        corner, middle = np.ones(d), np.full(d, 0.5)
        if drops:
            yield from ((self.row(place), None) for place in (corner, 1 - corner, middle))
            return
        others = [1 - corner, middle, np.full(d, 0.5 - 5 / 16)]
        others += [np.arange(d) < count for count in {d // 2, -(-d // 2)} if 0 < count < d]
        yield from ((self.row(corner), self.row(np.asarray(other, dtype=float))) for other in others)


def _bounds_of(estimator: Any, n_features: int | None) -> tuple[list[Any], list[float], list[float]]:
    bounds = estimator.bounds
    if isinstance(bounds, dict):
        box = Box.from_bounds(bounds, len(bounds), list(bounds))
        return list(bounds), box.low.tolist(), box.high.tolist()
    widths = [np.size(side) for side in bounds if np.ndim(side)] if isinstance(bounds, tuple | list) else []
    usual = 2 if hasattr(estimator, "schema") or hasattr(estimator, "n_factors") else 1
    width: int = widths[0] if widths else n_features or getattr(estimator, "n_features_in_", None) or usual
    check_memory("n_features", width, CELL * width)
    box = Box.from_bounds(bounds, width)
    return list(range(width)), box.low.tolist(), box.high.tolist()


def _column_ends(kind: Any, name: Any) -> tuple[Any, Any]:
    if getattr(kind, "unstated", None) is not None:
        raise ValueError(f"schema must state the bounds and levels of {short_repr(name)} for a worst pair, got none; state them.")
    levels = getattr(kind, "levels", None)
    if levels is not None:
        return levels[0], levels[-1]
    if hasattr(kind, "low"):
        low, high = kind.low, kind.high
        return (float(low), float(high)) if not isinstance(low, datetime.date) else (low, high)
    return "", ""  # an identifier or a text, which no mechanism reads


def _is_real(kind: Any) -> bool:
    return isinstance(getattr(kind, "low", None), int | float)
