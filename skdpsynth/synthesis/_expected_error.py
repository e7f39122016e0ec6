"""The W1 distance to expect of a released measure: an estimate, by running the mechanism again on rows made of what it released.

Rows of a cell are put at one random point of it. What is within a cell is not known, and rows spread evenly there would make the next
fit too good: its distance is then .4 to .9 of the real one, and so .6 to 1.5 (benchmarks/accuracy_measure.py).
"""

import math
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import clone

from skdpsynth.fitting import Facts
from skdpsynth.frames import InMemory, Rows
from skdpsynth.measures import DiscreteMeasure, Partition
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.privacy import SeededBits
from skdpsynth.synthesis._linked_intervals import ReplayBudget

_REPEATS = 2
_MOST_ROWS = 1_000_000  # beyond, fewer rows are made, with as much larger an epsilon
_FEW = 2000  # rows for which transport between all takes no time
_WINDOW, _MARGIN, _WINDOWS = 1000, 50, 6
_SEED = 0x5EED_0F_E44  # results repeat; made-up rows need no protection
_found: WeakKeyDictionary[DiscreteMeasure, float] = WeakKeyDictionary()


def expect_distance(model: Any, measure: DiscreteMeasure, n: int) -> float:
    """Return about the expected W1 distance (chebyshev) between n rows and n sampled ones; a second call for a measure costs no time."""
    if measure not in _found:
        n_made, rng = max(1, min(n, _MOST_ROWS)), np.random.default_rng(_SEED)
        box = model._container.box(getattr(model, "bounds_", model.bounds))
        # Noise for several rows of a unit is that at so much less epsilon.
        epsilon = model.epsilon * n / n_made / model.max_rows_per_unit
        facts = Facts(epsilon if epsilon == math.inf else Fraction(epsilon), Fraction(0), model.neighboring, n_made, len(box.low), box=box)
        budget = ReplayBudget(SeededBits(_SEED), model.neighboring)
        distances = []
        for _ in range(_REPEATS):
            made, again = _lumps(measure, n_made, rng), clone(model)
            again.n_samples_, again._size_error = n_made, 0.0
            again._release(Rows(InMemory(made), len(box.low), n_made), again._plan(facts), budget)
            distances.append(_distance(made, again.measure_.sample(n_made, rng), measure.partition, rng))
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
