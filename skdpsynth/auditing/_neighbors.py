"""Neighboring tables: checks, the pairs that lose most, and extreme rows."""

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from skdpsynth._validation import as_array, check_memory, is_integer, short_repr
from skdpsynth.auditing._audit_noise import CountingMechanism, is_counter
from skdpsynth.auditing._likelihood import independent_draws
from skdpsynth.auditing._outputs import probe_runs, run
from skdpsynth.domain import Box, Schema, has_private
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import column_names, eager_frame, make_frame
from skdpsynth.testing import NoiseLoss, pair_loss

FRAMES_NEED = "columns with names need pandas, polars or pyarrow, because neighboring tables are made"
CELL = 100  # bytes of a cell in a list of rows, at most
_REPEATS = 3  # fits of a pair if later releases depend on earlier noise


def worst_case_neighbors(estimator: Any, n: int, *, n_features: int | None = None) -> tuple[Any, Any]:
    """Return two neighboring tables at which an estimator of this package loses most, or nearly.

    Half of the rows lie at the lower bounds (or first levels) and half at the upper ones. One row is replaced, or left out, under the
    estimator's `neighboring`. Among some opposite rows, it takes those whose releases the noise hides least, by the exact change of each
    released value. All is made from public facts: bounds, levels, `n`.

    Parameters
    ----------
    estimator : private estimator or counter
        An estimator of this package, or derived from its bases, with public bounds and levels, and no seed. A counter that has counted
        nothing.
    n : int
        Rows of the first table, or steps of the stream (at most its horizon); at least 2. Releases do not depend on it much; clipping of
        noisy counts at 0 plays no part if it is many times 1 / epsilon.
    n_features : int, default=None
        None: as many as the bounds or the schema have, or else as the estimator was fitted with; 1 if neither tells (for
        `LatentFactorSynthesizer` 2, one pair).

    Returns
    -------
    X, X_neighbor : ndarray of shape (n, n_features), or a data frame
        For a counter, events: an integer array of shape (n, n_counters). A data frame if columns have names: of pandas, or else of polars
        or pyarrow, whichever is installed. Under "add_or_remove_one" the second has n - 1 rows.

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
    if not is_integer(n, 2):
        raise ValueError(f"n must be an integer of at least 2, got {short_repr(n)}; 20 is enough for most.")
    if is_counter(estimator):
        counting = CountingMechanism.of(estimator)
        return _worst(counting, counting.candidates(min(n, getattr(estimator, "horizon", n))))
    if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
        raise TypeError(
            f"estimator must be a private estimator or counter of this package, got {short_repr(estimator)}; make a pair by hand."
        )
    domain = Corners(estimator, n_features)
    check_memory("n", n, CELL * n * domain.n_features)  # lists of cells
    rest = [domain.row(np.full(domain.n_features, float(place % 2))) for place in range(n - 1)]
    opposite = domain.candidates(estimator.neighboring == "add_or_remove_one")
    tables = ((domain.table([row, *rest]), domain.table(rest if other is None else [other, *rest])) for row, other in opposite)
    return _worst(estimator, tables)


def _worst(mechanism: Any, pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the pair with the largest loss."""
    best: tuple[float, Any, Any] | None = None
    n_releases = None
    for pair in pairs:
        n_releases = n_releases or max(map(len, probe_runs(mechanism, pair[0])[1]))
        loss = _loss(mechanism, *pair, n_releases)
        if best is None or loss > best[0] * (1 + 1e-9):
            best = loss, *pair
    assert best is not None
    return best[1], best[2]


def _loss(estimator: Any, X: Any, X_neighbor: Any, until: int) -> float:
    """Return the loss of the first `until` releases between two tables: epsilon of pure noise plus mu of Gaussian noise.

    Both tables get the same answers, so later releases, which may depend on them, ask the same.
    """
    losses = []
    for _ in range(_REPEATS):
        _, draws = run(estimator, X, None, until)
        _, others = run(estimator, X_neighbor, draws, until)
        pairs = zip(independent_draws(draws), independent_draws(others), strict=True)
        lost = sum((pair_loss(draw, other) for draw, other in pairs), NoiseLoss())
        losses.append(float(lost.epsilon) + math.sqrt(2 * float(lost.rho)))
        if len(draws) < 2:
            break
    return float(np.mean(losses))


def check_neighbors(mechanism: Any, X: Any, X_neighbor: Any) -> None:
    """Refuse equal tables, tables of different types, and tables that are no neighbors under the relation of the mechanism."""
    if X is X_neighbor:
        raise ValueError("X_neighbor must be a table of its own, but is X itself; copy X before you change a row.")
    if isinstance(mechanism, CountingMechanism):
        mechanism.check_neighbors(X, X_neighbor)
        return
    if _columns(X, "X") != _columns(X_neighbor, "X_neighbor"):
        raise ValueError(
            "X_neighbor must have the columns and dtypes of X: they are public, so they must not tell the tables apart; "
            "make it of a copy of X, and cast what changed."
        )
    relation = getattr(mechanism, "neighboring", None)
    if relation not in ("replace_one", "add_or_remove_one"):
        return
    most = int(getattr(mechanism, "max_rows_per_unit", 1))
    first, other = _rows_of(X, "X"), _rows_of(X_neighbor, "X_neighbor")
    if first == other:
        raise ValueError("X_neighbor must differ from X in a row, but both have the same rows; copy X before you change a row.")
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


def _columns(X: Any, name: str) -> list | None:
    """Return the library, names and dtypes of a data frame, or None for an array."""
    if column_names(X, name) is None:
        return None
    frame = eager_frame(X, name)
    return None if frame is None else [frame.implementation, *frame.schema.items()]


def _rows_of(X: Any, name: str) -> list[tuple]:
    """Return the rows of a table in memory as hashable tuples."""
    table = as_array(X, object) if column_names(X) is None else np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=object)
    if table.ndim != 2:
        raise ValueError(
            f"{name} must be a table in memory, got {short_repr(X)}; give an array of shape (n_samples, n_features) or a data frame."
        )
    return [tuple(None if _is_missing(cell) else cell for cell in row) for row in table.tolist()]


def _is_missing(cell: Any) -> bool:
    """Whether a cell is NaN or pandas' NA."""
    try:
        return bool(cell != cell)
    except TypeError:
        return True


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
