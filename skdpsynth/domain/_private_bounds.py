"""Bounds that nobody knows, as a caller writes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PRIVATE = "private"
PLACEHOLDER = (-1.0, 1.0)  # bounds of a column until any are bought, and where nothing is seen


@dataclass(frozen=True, eq=False)
class UnknownBounds:
    """The columns whose bounds are to be bought, and what is public about each.

    Attributes
    ----------
    columns : tuple of int
        Where they stand among the rows.
    least, most : ndarray of shape (n_columns,)
        What the dtype of each can hold; infinite where it says nothing.
    whole : ndarray of bool of shape (n_columns,)
        Which hold whole numbers.
    """

    columns: tuple[int, ...]
    least: np.ndarray
    most: np.ndarray
    whole: np.ndarray


def is_private(bounds: Any) -> bool:
    """Whether this word stands for bounds that are to be bought."""
    return isinstance(bounds, str) and bounds == PRIVATE


def has_private(bounds: Any) -> bool:
    """Whether any bounds are to be bought."""
    return is_private(bounds) or (isinstance(bounds, dict) and any(map(is_private, bounds.values())))


def with_placeholder_bounds(bounds: Any, n_features: int, names: Sequence[Any] | None) -> tuple[Any, tuple[int, ...]]:
    """Return bounds with (-1, 1) for what is to be bought, and the places of those columns.

    Parameters
    ----------
    bounds : "private", or a tuple or dict as `Box.from_bounds` takes them, whose values may be "private"
    n_features : int
    names : sequence, or None
        Of the columns.
    """
    if is_private(bounds):
        return PLACEHOLDER, tuple(range(n_features))
    if not has_private(bounds):
        return bounds, ()
    columns = tuple(place for place, name in enumerate(names or ()) if is_private(bounds.get(name)))
    return {name: PLACEHOLDER if is_private(pair) else pair for name, pair in bounds.items()}, columns
