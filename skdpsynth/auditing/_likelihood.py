"""How much likelier what passed the door is on one of two tables.

The exact values of both tables are known to who audits, and so is the law of the noise. Were they wrong, the score would be worse, and a
bound as valid.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from skdpsynth.auditing._matrix_density import minus_log_density
from skdpsynth.testing import Draw, kind_of

RATIO = "the log-likelihood ratio of all that was released"


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood ratio of runs, from some runs on each of two tables.

    Attributes
    ----------
    values, other_values : dict of ndarray
        What the exact values were on each of the tables, in the first run that released such an array.
    """

    values: dict[tuple, np.ndarray]
    other_values: dict[tuple, np.ndarray]

    @classmethod
    def of(cls, runs: list[list[Draw]], other_runs: list[list[Draw]]) -> "Likelihood":
        """Return that of the draws of some runs on each table."""
        return cls(_values_of(runs), _values_of(other_runs))

    def ratio(self, draws: list[Draw]) -> float:
        """Return the logarithm of the likelihood of the neighbor over that of the first table (nearly, of three columns and more)."""
        ratio = 0.0
        for key, draw in _by_key(draws).items():
            if key in self.values and key in self.other_values:
                ratio += minus_log_likelihood(draw, self.values[key]) - minus_log_likelihood(draw, self.other_values[key])
        return round(ratio, 6)  # where it is as large as it can be, rounding must not tell runs apart


def _by_key(draws: list[Draw]) -> dict[tuple, Draw]:
    """Return what an attacker sees of draws by name, shape and how many such came before: not all need be there in every run."""
    alike: dict[tuple, list[Draw]] = {}
    for draw in independent_draws(visible_draws(draws)):
        alike.setdefault((str(draw.name), draw.values.shape), []).append(draw)
    return {(*key, place): draw for key, found in alike.items() for place, draw in enumerate(found)}


def _values_of(runs: list[list[Draw]]) -> dict[tuple, np.ndarray]:
    values: dict[tuple, np.ndarray] = {}
    for draws in runs:
        for key, draw in _by_key(draws).items():
            values.setdefault(key, draw.values)
    return values


def visible_draws(draws: list[Draw]) -> list[Draw]:
    """Return what an attacker sees of draws: all but what `SparseCounter` compares with a limit, whose noise is kept secret as well."""
    return [draw for draw in draws if not str(draw.name).endswith(", queries")]


def minus_log_likelihood(draw: Draw, values: np.ndarray) -> float:
    """Return minus the log-likelihood of an answer, up to a constant, were these the exact values."""
    return float(minus_log_likelihoods(draw.answer[None], values, draw)[0])


def minus_log_likelihoods(answers: np.ndarray, values: np.ndarray, draw: Draw) -> np.ndarray:
    """Return the same of each of some answers that came from the noise of a draw."""
    if "MatrixLaplace" in kind_of(draw.noise):
        return minus_log_density((answers - values) / noise_scales(draw))
    each = _minus_log_likelihood_by_value(answers, values, draw).reshape(len(answers), -1)
    return (np.max if "SupNorm" in kind_of(draw.noise) else np.sum)(each, axis=1, initial=0.0)


def minus_log_likelihood_by_value(draw: Draw, values: np.ndarray) -> np.ndarray:
    """Return minus the log-likelihood of each value of an answer by itself, up to a constant."""
    return _minus_log_likelihood_by_value(draw.answer, values, draw)


def _minus_log_likelihood_by_value(answers: np.ndarray, values: np.ndarray, draw: Draw) -> np.ndarray:
    off = np.abs(answers - values).astype(float) / noise_scales(draw)
    return off**2 / 2 if "Gaussian" in kind_of(draw.noise) else off


def noise_scales(draw: Draw) -> np.ndarray:
    """Return the scale of the noise of each value."""
    return np.maximum(np.asarray(draw.noise.scale, dtype=float), 1e-9)


def independent_draws(draws: list[Draw]) -> list[Draw]:
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
