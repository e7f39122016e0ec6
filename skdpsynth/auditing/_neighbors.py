"""Neighboring tables: checks, the pairs that lose most, and extreme rows."""

import copy
import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from skdpsynth._validation import as_array, check_integer, check_memory, short_repr
from skdpsynth.auditing._outputs import independent_draws, probe_runs, run
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.domain import Box, Schema, has_private
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.frames import Cell, column_names, eager_frame, make_frame
from skdpsynth.metrics import Table
from skdpsynth.privacy import epsilon_of_rho
from skdpsynth.testing import Estimator, NoiseLoss, pair_loss

_FRAMES_NEED = "columns with names need pandas, polars or pyarrow, because neighboring tables are made"
_CELL = 100  # bytes of a cell in a list of rows, at most
_REPEATS = 3  # fits of a pair if later releases depend on earlier noise
_GAUSSIAN = (SquareRootCounter, UnboundedCounter)
_COUNTERS = (BinaryCounter, KaryCounter, SparseCounter, *_GAUSSIAN)
_TIMES = 4  # first times at which an event is moved, to find the largest loss
_DELTA = Fraction(1, 10**6)  # for converting a cost in rho to epsilon, as counters do


def worst_case_neighbors(estimator: Estimator, n: int, *, n_features: int | None = None) -> tuple[Any, Any]:
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
    n = check_integer("n", n, 2, more="20 is enough for most")
    if is_counter(estimator):
        mechanism: Any = CountingMechanism.of(estimator)
        pairs: Iterable[tuple[Any, Any]] = mechanism.candidates(min(n, getattr(estimator, "horizon", n)))
    else:
        if isinstance(estimator, type) or not isinstance(estimator, PrivateEstimator):
            raise TypeError(
                f"estimator must be a private estimator or counter of this package, got {short_repr(estimator)}; make a pair by hand."
            )
        mechanism, domain = estimator, Corners(estimator, n_features)
        check_memory("n", n, _CELL * n * domain.n_features)  # lists of cells
        rest = [domain.row(np.full(domain.n_features, float(place % 2))) for place in range(n - 1)]
        opposite = domain.candidates(estimator.neighboring == "add_or_remove_one")
        pairs = ((domain.table([row, *rest]), domain.table(rest if other is None else [other, *rest])) for row, other in opposite)
    most, best, until = -math.inf, None, None
    for pair in pairs:
        until = until or max(map(len, probe_runs(mechanism, pair[0])[1]))
        loss = _loss(mechanism, *pair, until)
        if best is None or loss > most * (1 + 1e-9):
            most, best = loss, pair
    assert best is not None
    return best


def _loss(estimator: Estimator, X: Table, X_neighbor: Table, until: int) -> float:
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


def check_neighbors(mechanism: Estimator, X: Table, X_neighbor: Table) -> None:
    """Refuse equal tables, tables of different types, and tables that are no neighbors under the relation of the mechanism."""
    if X is X_neighbor:
        raise ValueError("X_neighbor must be a table of its own, but is X itself; copy X before you change a row.")
    if isinstance(mechanism, CountingMechanism):
        mechanism.check_neighbors(X, X_neighbor)
        return
    columns = []
    for table, name in ((X, "X"), (X_neighbor, "X_neighbor")):
        frame = None if column_names(table, name) is None else eager_frame(table, name)
        columns.append(None if frame is None else [frame.implementation, *frame.schema.items()])
    if columns[0] != columns[1]:
        raise ValueError(
            "X_neighbor must have the columns and dtypes of X: they are public, so they must not tell the tables apart; make it of a copy "
            "of X, and cast what changed."
        )
    relation = getattr(mechanism, "neighboring", None)
    if relation not in ("replace_one", "add_or_remove_one"):
        return
    first, other = (
        [tuple(None if _is_missing(cell) else cell for cell in row) for row in rows_of(table, name)]
        for table, name in ((X, "X"), (X_neighbor, "X_neighbor"))
    )
    if first == other:
        raise ValueError("X_neighbor must differ from X in a row, but both have the same rows; copy X before you change a row.")
    gone, come = Counter(first) - Counter(other), Counter(other) - Counter(first)
    if relation == "add_or_remove_one":
        n_moved, words = gone.total() + come.total(), "the same rows but for one more or less"
    else:
        n_moved, words = gone.total(), "as many rows, of which all but one are equal"
        if len(first) != len(other):
            n_moved = len(first) + len(other)
        elif hasattr(mechanism, "partial_fit"):  # the order is time
            n_moved = sum(a != b for a, b in zip(first, other, strict=True))
    if n_moved > (most := int(getattr(mechanism, "max_rows_per_unit", 1))):
        allowed = words if most == 1 else words.replace("one", f"{most} (max_rows_per_unit)")
        raise ValueError(f"X_neighbor must have {allowed}, as {relation!r} says, but {n_moved} rows differ; see worst_case_neighbors.")


def rows_of(table: Table, name: str) -> list[tuple]:
    names = column_names(table)
    if names is not None:
        columns = [table[each] for each in names]
        return list(zip(*(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list() for column in columns), strict=True))
    rows = as_array(table, object)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be a table in memory, got {short_repr(table)}; give an array of rows and columns or a data frame.")
    return [tuple(row) for row in rows.tolist()]


def table_of(rows: list[Any], names: list[Any] | None, n_features: int, dtype: DTypeLike) -> Any:
    if names is None:
        return np.array(rows, dtype=dtype).reshape(len(rows), n_features)
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
    return make_frame(dict(zip(names, columns, strict=True)), _FRAMES_NEED)


def _is_missing(cell: Cell) -> bool:
    try:
        return bool(cell != cell)
    except TypeError:
        return True


class Corners:
    """Corners of a domain as rows: 0 and 1 stand for the ends of each column."""

    def __init__(self, estimator: Estimator, n_features: int | None) -> None:
        schema = getattr(estimator, "schema", None)
        if n_features is not None:
            n_features = check_integer("n_features", n_features, 1, more="leave it out")
        self.kinds: list[Any] = []
        if schema is not None:
            self.names, self.kinds = list(Schema.of(schema)), list(Schema.of(schema).values())
            self.ends: list[tuple[Any, Any]] = []
            for name, kind in Schema.of(schema).items():
                if getattr(kind, "stand_in", None) is not None:
                    raise ValueError(f"schema must state the bounds and levels of {short_repr(name)} for a worst pair; state them.")
                levels, low, high = getattr(kind, "levels", None), getattr(kind, "low", ""), getattr(kind, "high", "")
                if levels is not None:
                    low, high = levels[0], levels[-1]
                elif not isinstance(low, str | datetime.date):
                    low, high = float(low), float(high)
                self.ends.append((low, high))  # two empty texts of an identifier or a text, which no mechanism reads
        else:
            if has_private(estimator.bounds):
                raise ValueError("bounds must be public for a worst pair, got 'private'; give (low, high).")
            self.names, low, high = _bounds_of(estimator, n_features)
            self.ends = list(zip(low, high, strict=True))
        if n_features not in (None, len(self.ends)):
            raise ValueError(f"n_features must be {len(self.ends)}, as bounds or schema say, got {short_repr(n_features)}; leave it out.")
        self.n_features = len(self.ends)
        self.is_mixed = schema is not None

    def row(self, places: np.ndarray) -> list[Any]:
        """Return the row at these places between the ends of each column; a column of levels takes the nearer end."""
        return [
            low + (high - low) * place if isinstance(low, float) else (high if place >= 0.5 else low)
            for (low, high), place in zip(self.ends, places.tolist(), strict=True)
        ]

    def table(self, rows: list[list[Any]]) -> Any:
        names = None if all(isinstance(name, int) for name in self.names) else self.names
        return table_of(rows, names, self.n_features, object if self.is_mixed else float)

    def values(self, n_places: int) -> list[list[Any]]:
        """Return the levels of each column, or of numbers the middles of `n_places` parts."""
        return [
            list(kind.levels)
            if hasattr(kind, "levels")
            else [low + (high - low) * (k + 0.5) / n_places for k in range(n_places)]
            if isinstance(low, float)
            else [low]
            for kind, (low, high) in zip(self.kinds, self.ends, strict=True)
        ]

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


def _bounds_of(estimator: Estimator, n_features: int | None) -> tuple[list[Any], list[float], list[float]]:
    bounds = estimator.bounds
    if isinstance(bounds, dict):
        box = Box.from_bounds(bounds, len(bounds), list(bounds))
        return list(bounds), box.low.tolist(), box.high.tolist()
    widths = [np.size(side) for side in bounds if np.ndim(side)] if isinstance(bounds, tuple | list) else []
    usual = 2 if hasattr(estimator, "schema") or hasattr(estimator, "n_factors") else 1
    width: int = widths[0] if widths else n_features or getattr(estimator, "n_features_in_", None) or usual
    check_memory("n_features", width, _CELL * width)
    box = Box.from_bounds(bounds, width)
    return list(range(width)), box.low.tolist(), box.high.tolist()


@dataclass(frozen=True, eq=False)
class CountingMechanism:
    """A counter as a function of events of shape (n_steps, n_counters)."""

    counter: Any  # has counted nothing; each run uses a copy with fresh noise and no accountant

    @classmethod
    def of(cls, counter: Any) -> "CountingMechanism":
        if counter.n_steps:
            raise ValueError(f"estimator must be a counter that has counted nothing yet, got {short_repr(counter)}; make a new one.")
        return cls(copy.copy(counter))

    def __call__(self, events: np.ndarray) -> np.ndarray:
        counter = copy.copy(self.counter)
        counter.resume()
        released = []
        for event in np.asarray(events):
            counter.update(event)
            released.append(counter.value)
        return np.concatenate(released) if released else np.zeros(0)

    @property
    def mu(self) -> float | None:
        return math.sqrt(2 * float(self.counter.rho)) if isinstance(self.counter, _GAUSSIAN) else None

    @property
    def promise(self) -> tuple[Any, Any]:
        if not isinstance(self.counter, _GAUSSIAN):
            return self.counter.epsilon, 0.0
        return epsilon_of_rho(self.counter.rho, _DELTA, gaussian=True), _DELTA

    def check_neighbors(self, X: Table, X_neighbor: Table) -> None:
        """Refuse streams that differ at more than one time, or by more than the sensitivity."""
        first, other = np.asarray(X), np.asarray(X_neighbor)
        if first.ndim != 2 or first.shape != other.shape:
            raise ValueError(f"X and X_neighbor must be events of shape (n_steps, n_counters), got {first.shape} and {other.shape}.")
        moved = np.abs(other.astype(np.int64) - first.astype(np.int64))
        n_moved, size = int(moved.any(axis=1).sum()), int((moved if self.mu is None else moved**2).sum())
        if n_moved > 1 or size > self.counter.sensitivity:
            raise ValueError(
                f"X_neighbor must differ from X at one time, by at most sensitivity={self.counter.sensitivity}, but {n_moved} times "
                f"differ, by {size}; see worst_case_neighbors."
            )

    def candidates(self, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs of streams of `n` steps that differ as much as allowed at one of the first times."""
        s, n_counters = self.counter.sensitivity, self.counter.n_counters
        moves = [np.eye(1, n_counters, dtype=np.int64)[0] * (s if self.mu is None else math.isqrt(s))]
        if 1 < s <= n_counters:
            moves.append((np.arange(n_counters) < s).astype(np.int64))
        at = np.arange(n)[:, None]
        return [(np.zeros((n, n_counters), dtype=np.int64), (at == time) * move) for time in range(min(n, _TIMES)) for move in moves]


def is_counter(thing: object) -> bool:
    return isinstance(thing, _COUNTERS)
