"""The W1 distance to expect of a released measure: an estimate, by fitting the mechanism again to rows made of what it released.

Rows of a cell are put at one random point of it. What is within a cell is not known, and rows spread evenly there would make the next
fit too good: its distance is then .4 to .9 of the real one, and so .6 to 1.8 (benchmarks/accuracy_measure.py).
"""

import warnings
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth.measures import DiscreteMeasure, Partition
from skdpsynth.metrics import wasserstein_distance

_REPEATS = 2
_MOST_ROWS = 1_000_000  # beyond, fewer rows are made, with as much larger an epsilon
_FEW = 2000  # rows for which transport between all takes no time
_WINDOW, _MARGIN, _WINDOWS = 1000, 50, 6
_SEED = 0x5EED_0F_E44  # results repeat; made-up rows need no protection
_found: WeakKeyDictionary[DiscreteMeasure, float] = WeakKeyDictionary()


def expect_distance(model: BaseEstimator, measure: DiscreteMeasure, n: int) -> float:
    """Return about the expected W1 distance (chebyshev) between n rows and n sampled ones; a second call for a measure costs no time."""
    if measure not in _found:
        n_made, rng = max(1, min(n, _MOST_ROWS)), np.random.default_rng(_SEED)
        epsilon = model.epsilon * n / n_made / getattr(model, "max_rows_per_unit", 1)
        changes = {"epsilon": epsilon, "max_rows_per_unit": 1, "accountant": None}
        distances = []
        with warnings.catch_warnings():  # they protect rows, and these are public
            warnings.simplefilter("ignore")
            for _ in range(_REPEATS):
                rows = _lumps(measure, n_made, rng)
                again = clone(model).set_params(**changes, random_state=int(rng.integers(2**31))).fit(rows)
                distances.append(_distance(rows, again.measure_.sample(n_made, rng), measure.partition, rng))
        _found[measure] = float(np.mean(distances))
    return _found[measure]


def _lumps(measure: DiscreteMeasure, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n rows by the weights of the cells, those of each cell at one random point of it."""
    counts = measure.counts(n, rng)
    some = np.flatnonzero(counts)
    points = np.concatenate(
        [measure.partition.sample(measure.cells[some[at]], int(level), rng) for level, at in _by_level(measure.levels[some])]
    )
    order = np.concatenate([at for _, at in _by_level(measure.levels[some])])
    return np.repeat(points, counts[some[order]], axis=0)


def _by_level(levels: np.ndarray) -> list[tuple[int, np.ndarray]]:
    return [(int(level), np.flatnonzero(levels == level)) for level in np.unique(levels)]


def _distance(made: np.ndarray, drawn: np.ndarray, partition: Partition, rng: np.random.Generator) -> float:
    """Return about W1 of as many rows of both: of one feature exactly, of more by transport between windows along the curve.

    Rows of a window go to those of a wider one. The freedom to leave some of these out makes up for the rows that are near in space, but
    not along the curve.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    if made.shape[1] == 1:
        return wasserstein_distance(made, drawn)
    made, drawn = (rows[np.argsort(partition.locate(rows), kind="stable")] for rows in (made, drawn))
    size, margin = (_WINDOW, _MARGIN) if len(made) > _FEW else (len(made), 0)
    costs = []
    for start in rng.integers(0, len(made) - size + 1, _WINDOWS if margin else 1).tolist():
        cost = cdist(made[start : start + size], drawn[max(0, start - margin) : start + size + margin], "chebyshev")
        costs.append(cost[linear_sum_assignment(cost)].mean())
    return float(np.mean(costs))
