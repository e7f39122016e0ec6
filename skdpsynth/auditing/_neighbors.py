"""Pairs of neighbouring tables: which are, and which lose most."""

import datetime
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from skdpsynth._checks import is_whole, shown
from skdpsynth._input import column_names, frame_of
from skdpsynth.auditing._observing import run
from skdpsynth.domain import Box, Schema, has_private
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.testing import Lost, pair_loss

_NEEDS = "columns with names need pandas, polars or pyarrow, because neighbouring tables are made"
_REPEATS = 3  # fits of a pair, where later releases depend on earlier noise


def worst_case_neighbors(estimator: Any, n: int, *, n_features: int | None = None) -> tuple[Any, Any]:
    """Return two neighbouring tables at which an estimator of this package loses most, or nearly.

    Half of the rows lie at the lower bounds (or first levels) and half at the upper ones. One row is replaced, or left out, under the
    estimator's `neighboring`: of some opposite rows, those are taken whose releases the noise hides least, by the exact change of each
    value that passes the door. All is made from public facts: bounds, levels, `n`.

    Parameters
    ----------
    estimator : private estimator
        Of this package, or derived from its bases; with public bounds and levels, and no seed.
    n : int
        Rows of the first table; at least 2. What is released does not depend on it much; clipping of noisy counts at 0 plays no part
        where there are many times 1 / epsilon.
    n_features : int, default=None
        None: as many as the bounds or the schema have; 1 if they do not tell (for `LatentFactorSynthesizer` 2, one pair).

    Returns
    -------
    X, X_neighbor : ndarray of shape (n, n_features), or a data frame
        A frame where columns have names: of pandas, or else of polars or pyarrow, whichever is installed. Under "add_or_remove_one" the
        second has n - 1 rows.

    Raises
    ------
    TypeError, ValueError
        If the estimator is none, or keeps its bounds private; or if `n` is too small.

    See Also
    --------
    audit_epsilon : Measures what the pair tells.

    Examples
    --------
    >>> from skdpsynth import SignedMeasureMechanism
    >>> from skdpsynth.auditing import worst_case_neighbors
    >>> X, X_neighbor = worst_case_neighbors(SignedMeasureMechanism(2), 4)
    >>> X.ravel(), X_neighbor.ravel()
    (array([1., 0., 1., 0.]), array([0., 0., 1., 0.]))
    """
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        raise TypeError(f"estimator must be a private estimator of this package, got {shown(estimator)}; make such a pair by hand.")
    if not is_whole(n, 2):
        raise ValueError(f"n must be an integer of at least 2, got {shown(n)}; 20 is enough for most.")
    domain = _Corners(estimator, n_features)
    rest = [domain.row(np.full(domain.n_features, float(place % 2))) for place in range(n - 1)]
    drops = estimator.neighboring == "add_or_remove_one"
    best: tuple[float, Any, Any] | None = None
    for row, other in domain.candidates(drops):
        pair = domain.table([row, *rest]), domain.table(rest if other is None else [other, *rest])
        loss = _loss(estimator, *pair)
        if best is None or loss > best[0] * (1 + 1e-9):
            best = loss, *pair
    assert best is not None
    return best[1], best[2]


def _loss(estimator: Any, X: Any, X_neighbor: Any) -> float:
    """Return what is lost between two tables: epsilon of pure noise, and mu of Gaussian noise.

    The same answers come out on both, so that later releases, which may depend on them, ask the same.
    """
    losses = []
    for _ in range(_REPEATS):
        _, draws = run(estimator, X)
        _, others = run(estimator, X_neighbor, draws)
        lost = sum((pair_loss(draw, other) for draw, other in zip(draws, others, strict=True)), Lost())
        losses.append(float(lost.epsilon) + math.sqrt(2 * float(lost.rho)))
        if len(draws) < 2:
            break
    return float(np.mean(losses))


class _Corners:
    """The corners of a domain, as rows: 0 and 1 stand for the ends of each column."""

    def __init__(self, estimator: Any, n_features: int | None) -> None:
        schema = getattr(estimator, "schema", None)
        if n_features is not None and not is_whole(n_features, 1):
            raise ValueError(f"n_features must be None or an integer of at least 1, got {shown(n_features)}; leave it out.")
        if schema is not None:
            self.ends = [_ends_of(kind, name) for name, kind in Schema.of(schema).items()]
            self.names = list(Schema.of(schema))
        else:
            if has_private(estimator.bounds):
                raise ValueError("bounds must be public for a worst pair, got 'private'; give (low, high).")
            self.names, low, high = _bounds_of(estimator, n_features)
            self.ends = list(zip(low, high, strict=True))
        if n_features not in (None, len(self.ends)):
            raise ValueError(f"n_features must be {len(self.ends)}, as bounds or schema say, got {shown(n_features)}; leave it out.")
        self.n_features = len(self.ends)
        self.is_mixed = schema is not None
        self.has_names = not all(isinstance(name, int) for name in self.names)

    def row(self, places: np.ndarray) -> list[Any]:
        """Return a row at these places between the ends of each column; of levels, the nearer end."""
        return [
            low + (high - low) * place if isinstance(low, float) else (high if place >= 0.5 else low)
            for (low, high), place in zip(self.ends, places.tolist(), strict=True)
        ]

    def table(self, rows: list[list[Any]]) -> Any:
        """Return rows as an array, or as a frame where columns have names."""
        if self.has_names:
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in self.names]
            return frame_of(dict(zip(self.names, columns, strict=True)), _NEEDS)
        dtype = object if self.is_mixed else float
        return np.array(rows, dtype=dtype).reshape(len(rows), self.n_features)

    def candidates(self, drops: bool) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of rows; the second is None where one is left out.

        Opposite corners move all counts. Second moments move most between rows at right angles, as seen from the midpoint of the box:
        half of the signs changed, or, in one dimension, a row at the midpoint; packed with sums, a bit beyond it.
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
    width = widths[0] if widths else n_features or usual
    box = Box.from_bounds(bounds, width)
    return list(range(width)), box.low.tolist(), box.high.tolist()


def _ends_of(kind: Any, name: Any) -> tuple[Any, Any]:
    """Return the two ends of a column of a schema."""
    if getattr(kind, "unstated", None) is not None:
        raise ValueError(f"schema must state the bounds and levels of {shown(name)} for a worst pair, got none; state them.")
    levels = getattr(kind, "levels", None)
    if levels is not None:
        return levels[0], levels[-1]
    if hasattr(kind, "low"):
        low, high = kind.low, kind.high
        return (float(low), float(high)) if not isinstance(low, datetime.date) else (low, high)
    return "", ""  # an identifier or a text, which no mechanism reads


def check_neighbors(mechanism: Any, X: Any, X_neighbor: Any) -> None:
    """Refuse tables that are no neighbours under the relation of a mechanism, where it says one."""
    relation = getattr(mechanism, "neighboring", None)
    if relation not in ("replace_one", "add_or_remove_one"):
        return
    most = int(getattr(mechanism, "max_rows_per_unit", 1))
    first, other = _rows_of(X, "X"), _rows_of(X_neighbor, "X_neighbor")
    if relation == "replace_one":
        if len(first) == len(other) and hasattr(mechanism, "partial_fit"):
            n_moved = sum(a != b for a, b in zip(first, other, strict=True))
        else:
            n_moved = sum((Counter(first) - Counter(other)).values()) if len(first) == len(other) else len(first) + len(other)
        words = "as many rows, of which all but one are equal"
    else:
        n_moved = sum((Counter(first) - Counter(other)).values()) + sum((Counter(other) - Counter(first)).values())
        words = "the same rows but for one more or less"
    if n_moved > most:
        allowed = words if most == 1 else words.replace("one", f"{most} (max_rows_per_unit)")
        raise ValueError(f"X_neighbor must have {allowed}, as {relation!r} says, but {n_moved} rows differ; see worst_case_neighbors.")


def _rows_of(X: Any, name: str) -> list[tuple]:
    """Return the rows of a table in memory as tuples that can be counted."""
    table = (
        np.asarray(X, dtype=object) if column_names(X) is None else np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=object)
    )
    if table.ndim != 2:
        raise ValueError(
            f"{name} must be a table in memory, got {shown(X)}; give an array of shape (n_samples, n_features) or a data frame."
        )
    return [tuple(None if cell != cell else cell for cell in row) for row in table.tolist()]
