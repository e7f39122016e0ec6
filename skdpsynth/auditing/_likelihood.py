"""How much likelier what passed the door is on one of two tables.

The exact values of both tables are known to who audits, and so is the law of the noise. Were they wrong, the score would be worse, and a
bound as valid.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from skdpsynth.testing import Draw, kind_of

RATIO = "the log-likelihood ratio of all that was released"


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood ratio of runs, from a run on each of two tables.

    Attributes
    ----------
    draws, other_draws : list of Draw
        What passed the door in a first run on each of the tables, with its exact values.
    """

    draws: list[Draw]
    other_draws: list[Draw]

    @classmethod
    def of(cls, draws: list[Draw], other_draws: list[Draw]) -> "Likelihood":
        """Return that of two runs."""
        return cls(untangled(published(draws)), untangled(published(other_draws)))

    def ratio(self, draws: list[Draw]) -> float:
        """Return the logarithm of the likelihood of the neighbour over that of the first table (for matrices of many rows, nearly)."""
        ratio = 0.0
        for draw, first, other in zip(untangled(published(draws)), self.draws, self.other_draws, strict=False):
            if draw.answer.shape == first.values.shape == other.values.shape:
                ratio += distance(draw, first.values) - distance(draw, other.values)
        return round(ratio, 6)  # where it is as large as it can be, rounding must not tell runs apart


def published(draws: list[Draw]) -> list[Draw]:
    """Return what an attacker sees of draws: all but what `SparseCounter` compares with a limit, whose noise is kept secret as well."""
    return [draw for draw in draws if not str(draw.name).endswith(", queries")]


def distance(draw: Draw, values: np.ndarray) -> float:
    """Return minus the log-likelihood of an answer, up to a constant, were these the exact values."""
    off, kind = (draw.answer - values).astype(float), kind_of(draw.noise)
    if "MatrixLaplace" in kind:
        return float(np.abs(np.linalg.eigvalsh(off)).sum() / float(scales_of(draw)))
    return float((np.max if "SupNorm" in kind else np.sum)(distances(draw, values), initial=0.0))


def distances(draw: Draw, values: np.ndarray) -> np.ndarray:
    """Return the same of each value by itself."""
    off = np.abs(draw.answer - values).astype(float) / scales_of(draw)
    return off**2 / 2 if "Gaussian" in kind_of(draw.noise) else off


def scales_of(draw: Draw) -> np.ndarray:
    """Return the scale of the noise of each value."""
    return np.maximum(np.asarray(draw.noise.scale, dtype=float), 1e-9)


def untangled(draws: list[Draw]) -> list[Draw]:
    """Return draws whose noise is independent: sums that share noise are solved for the nodes that they are sums of.

    A counter releases at each time a signed sum of nodes, whose noise is drawn once. Where there are as many sums as nodes, the nodes are a
    function of what was released, and it of them: their likelihoods are those of all that was released. Elsewhere nothing is changed.
    """
    shared = [draw for draw in draws if draw.nodes]
    if not shared or any(draw.answer.shape != shared[0].answer.shape or draw.noise != shared[0].noise for draw in shared):
        return draws
    solution = _solution(tuple(draw.nodes for draw in shared))
    if solution is None:
        return draws
    answers, values = (np.rint(np.tensordot(solution, np.array(sums, dtype=float), 1)) for sums in _sums_of(shared))
    nodes = [replace(shared[0], answer=answer, values=value, nodes=()) for answer, value in zip(answers, values, strict=True)]
    return [*(draw for draw in draws if not draw.nodes), *nodes]


def _sums_of(draws: list[Draw]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [draw.answer for draw in draws], [draw.values for draw in draws]


@lru_cache(maxsize=64)
def _solution(sums: tuple[tuple[tuple[str, int], ...], ...]) -> np.ndarray | None:
    """Return the matrix that makes nodes of their signed sums; None where there is none."""
    places = {name: place for place, name in enumerate(dict.fromkeys(name for nodes in sums for name, _ in nodes))}
    signs = np.zeros((len(sums), len(places)))
    for row, nodes in enumerate(sums):
        for name, sign in nodes:
            signs[row, places[name]] = sign
    return np.linalg.pinv(signs) if np.linalg.matrix_rank(signs) == len(places) else None
