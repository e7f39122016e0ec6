"""Neighboring tables: checks, and the pairs that lose most."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._validation import check_memory, is_integer, short_repr
from skdpsynth.auditing._audit_counters import CountingMechanism, is_counter
from skdpsynth.auditing._corners import CELL, Corners
from skdpsynth.auditing._likelihood import independent_draws
from skdpsynth.auditing._outputs import probe_runs, run
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import column_names, eager_frame
from skdpsynth.testing import NoiseLoss, pair_loss

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
