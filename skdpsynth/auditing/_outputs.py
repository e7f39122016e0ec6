"""Runs of a mechanism: all numbers that an attacker sees of a run, and the likelihood ratio of its releases.

The auditor knows the exact values of both tables and the distribution of the noise. If they were wrong, the score would be worse and the
bound still valid.
"""

import inspect
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth.fitting import PrivateEstimator
from skdpsynth.metrics import Table
from skdpsynth.testing import Draw, Estimator, StopRun, kind_of, watch_releases

MOST_NUMBERS = 1024  # of a run that a rule may look at
_DEEPEST = 4
_SOME_ROWS = 20  # from a sampler that needs a number of rows
_TRIED = 5  # runs, because releases may depend on earlier ones
_IGNORED_ATTRIBUTES = {"accountant_", "accountant", "random_state"}  # expenses are public, and large
_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(40)
_AT_ONCE = 1 << 12  # matrices: the scratch stays in cache

ExactValues = dict[tuple, np.ndarray]  # of releases by name, shape and occurrence


def run(mechanism: Estimator, X: Table, answers: list[Draw] | None = None, until: int | None = None) -> tuple[Any, list[Draw]]:
    """Run a mechanism with fresh noise; return its outcome and its releases.

    With `answers`, these are released again. With `until`, the run ends after so many releases, because the rest is post-processing; its
    outcome is then None.
    """
    outcome = None
    with warnings.catch_warnings(), watch_releases(answers, until) as door, suppress(StopRun):
        warnings.simplefilter("ignore")
        outcome = clone(mechanism).fit(X) if hasattr(mechanism, "fit") else mechanism(X)
    return outcome, door.draws


def probe_runs(mechanism: Estimator, X: Table) -> tuple[Any, list[list[Draw]]]:
    outcome, draws = run(mechanism, X)
    return outcome, [draws, *(run(mechanism, X)[1] for _ in range(_TRIED - 1))]


def visible_numbers(outcome: object, draws: list[Draw]) -> dict[str, np.ndarray]:
    seen = {f"{draw.name!r} as released ({place})": np.ravel(draw.answer).astype(float) for place, draw in enumerate(visible_draws(draws))}
    seen.update(_numbers("" if hasattr(outcome, "fit") else "output", outcome, 0, set()))
    if not isinstance(outcome, PrivateEstimator) and hasattr(outcome, "sample"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                inspect.signature(outcome.sample).bind()
                rows = outcome.sample()
            except TypeError:  # the number of rows must be given
                rows = outcome.sample(_SOME_ROWS)
            seen.update(_numbers("sample()", rows, 0, set()))
    return seen


def _numbers(path: str, value: object, depth: int, met: set[int]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers within a value, of estimators those of their fitted attributes, each once; words become checksums."""
    inner: Iterable[tuple[str, Any]] = ()
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        value = value.to_numpy()
    if isinstance(value, bool | int | float | np.number | np.bool_):
        yield path, np.array([float(value)])
    elif isinstance(value, str):
        yield path, np.array([float(zlib.crc32(value.encode()))])
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufMm":
        yield path, value.ravel().astype(float)
    elif hasattr(value, "fit"):
        if id(value) not in met:
            met.add(id(value))
            hidden = "_" if hasattr(value, "partial_fit") else "\0"  # the open block of a stream is as secret as the data
            shown = {name: each for name, each in vars(value).items() if name not in _IGNORED_ATTRIBUTES and not name.startswith(hidden)}
            own = value.get_params(deep=False) if hasattr(value, "get_params") else {}  # parameters are looked into for fitted parts alone
            shown = {name: each for name, each in shown.items() if name not in own or isinstance(each, list | tuple | dict | BaseEstimator)}
            inner, depth = ((path + "." * bool(path) + name, each) for name, each in shown.items()), -1
    elif isinstance(value, dict):
        inner = ((f"{path}[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple | np.ndarray):
        listed = value.ravel().tolist() if isinstance(value, np.ndarray) else value
        inner = ((f"{path}[{place}]", each) for place, each in enumerate(listed[:MOST_NUMBERS]))
    elif is_dataclass(value) and not isinstance(value, type):
        inner = ((f"{path}.{field.name}", getattr(value, field.name)) for field in fields(value))
    if depth < _DEEPEST:
        for name, each in inner:
            yield from _numbers(name, each, depth + 1, met)


# Likelihoods


def exact_values(runs: list[list[Draw]]) -> ExactValues:
    """Return the exact values in the first run that released each array, because not every run has all of them."""
    values: ExactValues = {}
    for draws in runs:
        for key, draw in _by_key(draws).items():
            values.setdefault(key, draw.values)
    return values


def likelihood_ratio(draws: list[Draw], values: ExactValues, other_values: ExactValues) -> float:
    """Return the log-likelihood of the neighbor over that of the first table (approximate from three columns on)."""
    ratio = 0.0
    for key, draw in _by_key(draws).items():
        if key in values and key in other_values:
            first, other = (minus_log_likelihoods(draw.answer[None], each[key], draw) for each in (values, other_values))
            ratio += float(first[0]) - float(other[0])
    return round(ratio, 6)  # rounding errors must not tell runs with the largest ratio apart


def _by_key(draws: list[Draw]) -> dict[tuple, Draw]:
    """Key the visible draws by name, shape and occurrence."""
    alike: dict[tuple, list[Draw]] = {}
    for draw in independent_draws(visible_draws(draws)):
        alike.setdefault((str(draw.name), draw.values.shape), []).append(draw)
    return {(*key, place): draw for key, found in alike.items() for place, draw in enumerate(found)}


def visible_draws(draws: list[Draw]) -> list[Draw]:
    """Leave out the comparisons of `SparseCounter`, whose noise stays secret."""
    return [draw for draw in draws if not str(draw.name).endswith(", queries")]


def minus_log_likelihoods(answers: np.ndarray, values: np.ndarray, draw: Draw) -> np.ndarray:
    if "MatrixLaplace" in kind_of(draw.noise):
        matrices = ((answers - values) / noise_scales(draw)).reshape(-1, *answers.shape[-2:])
        return minus_log_density(matrices).reshape(len(answers), -1).sum(axis=1)
    each = minus_log_likelihood_by_value(answers, values, draw).reshape(len(answers), -1)
    return (np.max if "SupNorm" in kind_of(draw.noise) else np.sum)(each, axis=1, initial=0.0)


def minus_log_likelihood_by_value(answers: np.ndarray, values: np.ndarray, draw: Draw) -> np.ndarray:
    off = np.abs(answers - values).astype(float) / noise_scales(draw)
    return off**2 / 2 if "Gaussian" in kind_of(draw.noise) else off


def noise_scales(draw: Draw) -> np.ndarray:
    return np.maximum(np.asarray(draw.noise.scale, dtype=float), 1e-9)


def independent_draws(draws: list[Draw]) -> list[Draw]:
    """Return draws with independent noise, solving sums that share noise for their nodes.

    A counter releases at each time a signed sum of nodes, whose noise is drawn once. If there are as many sums as nodes, each determines
    the other, so the likelihoods of the nodes are those of everything released. Otherwise the draws are returned unchanged.
    """
    shared = [draw for draw in draws if draw.nodes]
    if not shared or any(draw.answer.shape != shared[0].answer.shape or draw.noise != shared[0].noise for draw in shared):
        return draws
    solution = _solution(tuple(draw.nodes for draw in shared))
    if solution is None:
        return draws
    sums = [draw.answer for draw in shared], [draw.values for draw in shared]
    answers, values = (np.rint(np.tensordot(solution, np.array(each, dtype=float), 1)) for each in sums)
    nodes = [replace(shared[0], answer=answer, values=value, nodes=()) for answer, value in zip(answers, values, strict=True)]
    return [*(draw for draw in draws if not draw.nodes), *nodes]


@lru_cache(maxsize=64)
def _solution(sums: tuple[tuple[tuple[str, int], ...], ...]) -> np.ndarray | None:
    """Return the matrix that recovers nodes from their signed sums, or None."""
    places = {name: place for place, name in enumerate(dict.fromkeys(name for nodes in sums for name, _ in nodes))}
    signs = np.zeros((len(sums), len(places)))
    for row, nodes in enumerate(sums):
        for name, sign in nodes:
            signs[row, places[name]] = sign
    return np.linalg.pinv(signs) if np.linalg.matrix_rank(signs) == len(places) else None


def minus_log_density(Z: np.ndarray) -> np.ndarray:
    """Return minus the log-density, up to a constant, of noise of scale 1 at each matrix of a stack (k, m, m).

    The noise is V - (V - Z) for matrices V and V - Z, both positive semidefinite (psd) and of density exp(-tr): at Z it has the integral of
    exp(-tr V - tr(V - Z)) over the V with V and V - Z psd. Where all eigenvalues of Z have one sign this is, times a constant, exp of minus
    the nuclear norm. Else it is larger: each number that V has between a direction of a positive eigenvalue p and one of a negative
    eigenvalue -n has more room. For m of 2 there is one, and the excess is exact. For m of 3 and more each pair of such directions is
    taken by itself. That is an approximation: the mean of a ratio of densities, which is 1, comes out within 5 % for m up to 5.
    """
    eigenvalues = np.linalg.eigvalsh(Z)
    out = np.abs(eigenvalues).sum(axis=-1)
    first, second = np.triu_indices(Z.shape[-1], 1)
    which, pair = np.nonzero((eigenvalues[:, first] < 0) & (eigenvalues[:, second] > 0))
    n, p = -eigenvalues[which, first[pair]], eigenvalues[which, second[pair]]
    excess = np.concatenate([np.zeros(0), *(_log_excess(n[k : k + _AT_ONCE], p[k : k + _AT_ONCE]) for k in range(0, len(n), _AT_ONCE))])
    return out - np.bincount(which, excess, len(out))


def _log_excess(n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the logarithm of the density at diag(p, -n) over that at a psd matrix of the same nuclear norm.

    Write (x, y, t) for the matrix [[t + x, y], [y, t - x]]: psd ones are a cone of slope 1 over the plane of x and y. V is in this cone and
    in the one shifted to Z: at height h a lens, of discs of radius h and h - t whose centers are (p + n) / 2 apart. For a psd Z
    there are discs, whose integral is pi / 32.
    """
    areas = _lenses((p + n) / 2, np.abs(p - n) / 2, _NODES[:, None] / 4)
    return np.log(np.maximum(_WEIGHTS @ areas * (8 / np.pi), 1e-300))


def _lenses(across: np.ndarray, t: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the area that two discs share at a height above the one at which they touch.

    Each side of their chord is a segment of area ``r**2 (angle - sin(angle) cos(angle))``, with the angle from the center to an end.
    """
    half_chord = np.sqrt(above * (across + above) * (across - t) * (across + t)) / across
    first, second = (across + t) / 2 + above, (across - t) / 2 + above  # radii; the discs cross, as abs(first - second) = t < across
    from_first = (across**2 + first**2 - second**2) / (2 * across)
    return _segment(half_chord, from_first) + _segment(half_chord, across - from_first)


def _segment(half_chord: np.ndarray, distance: np.ndarray) -> np.ndarray:
    angle = np.arctan2(half_chord, distance)
    return (half_chord**2 + distance**2) * angle - half_chord * distance
