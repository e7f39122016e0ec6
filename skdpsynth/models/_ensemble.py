"""Joint training of several fits of latent factors, so that the error is that of their mixture."""

from collections.abc import Sequence

import numpy as np

from skdpsynth._progress import track_steps
from skdpsynth.models._three_way import TripleErrors
from skdpsynth.models._training import CLASS_SHARE, RATE, SEED, Adam, FactorFit, Probabilities, Targets, score, train_factors, unpack_fit

_STEPS, _LEAST_STEPS = 150, 20
_SLOWER = 0.4  # times the usual rate: fits begin where each is at its best
_COOLS = 0.3  # of the steps, after which the rate falls
_PILOTS, _PILOT_STEPS, _PILOT_STEPS_TOGETHER = 2, 100, 30
_PAYS = 0.975  # of the score: a smaller gain is lost in tables of three columns, which are not judged
_OF_CELLS = 2.0  # work of a cell of a triple, in pairs of codes


def train_ensemble(
    targets: Sequence[Targets],
    nodes: np.ndarray,
    variance: float,
    fits: Sequence[FactorFit],
    n_steps: int,
    triples: Sequence[TripleErrors] = (),
) -> list[FactorFit]:
    """Continue several fits together.

    Minimized is the objective of `train_factors`, with the frequencies of the mixture of all fits, and the mean of their penalties. So
    equal fits have the objective of one of them, and one fit is trained as before. A fit then makes up for errors of the others: the
    mixture has as many nodes of its own as all of them have, and comes closer to the tables; to their noise as well, so
    `does_ensemble_help` tells when to do it. The errors of `triples`, of each class, count beside those of pairs.
    """
    Z = nodes.astype(np.float32)
    parts = [unpack_fit(fit) for fit in fits]  # (intercepts of classes, shared loadings, own loadings of classes) of each
    arrays = [array for intercepts, shared, own in parts for array in (*intercepts, shared, *own)]
    rates = [rate for intercepts, _, own in parts for rate in (*([1.0] * (len(intercepts) + 1)), *([CLASS_SHARE] * len(own)))]
    descent = Adam(arrays, rates)
    pull = np.float32(targets[0].deviation ** 2 / sum(target.n**2 for target in targets) / variance / len(parts))
    for step in track_steps("fit the latent factors together", range(n_steps)):
        cooled = max(0.0, (step / n_steps - _COOLS) / (1 - _COOLS))
        descent.step(_gradients(targets, Z, parts, pull, triples), _SLOWER * RATE * (1 - 0.95 * cooled))
    return [_pack_fit(*part, n_steps) for part in parts]


def _class_loadings(shared: np.ndarray, own: Sequence[np.ndarray], label: int) -> np.ndarray:
    return shared + own[label] if own else shared


def _pack_fit(intercepts: Sequence[np.ndarray], shared: np.ndarray, own: Sequence[np.ndarray], n_steps: int) -> FactorFit:
    loadings = [_class_loadings(shared, own, label) for label in range(len(intercepts))]
    return FactorFit(np.array([each[:, 0] for each in intercepts], dtype=float), np.array(loadings, dtype=float), n_steps)


def _gradients(
    targets: Sequence[Targets], Z: np.ndarray, parts: Sequence[tuple], pull: np.float32, triples: Sequence[TripleErrors]
) -> list[np.ndarray]:
    """Return the derivatives of the objective by all arrays of all fits, in their order."""
    by_class = []
    squares = np.array([target.n for target in targets]) ** 2
    for label, (target, weight) in enumerate(zip(targets, (squares / squares.sum()).astype(np.float32), strict=True)):
        logits = np.hstack([intercepts[label] + _class_loadings(shared, own, label) @ Z.T for intercepts, shared, own in parts])
        at = Probabilities.of(target, logits)
        slope, _ = at.slope(target, triples[label].slope(at.singles) if triples else None)
        slope *= weight / np.float32(slope.shape[1])
        by_class.append(np.split(slope, len(parts), axis=1))
    found: list[np.ndarray] = []
    stiff = targets[0].smoothness.times
    for place, (_, shared, own) in enumerate(parts):
        slopes = [of_fits[place] for of_fits in by_class]
        of_loadings = [slope @ Z for slope in slopes]
        found += [slope.sum(axis=1, keepdims=True) for slope in slopes]
        found.append(np.sum(of_loadings, axis=0) + pull * stiff(shared))
        found += [by + pull / np.float32(CLASS_SHARE) * stiff(part) for by, part in zip(of_loadings, own, strict=False)]
    return found


def n_ensemble_steps(a_step: float, n_fits: int, most_work: float) -> int:
    """Return for how many steps to train fits together, by the work of a step (`step_work`): 0 where they would be too few to matter."""
    n_steps = min(_STEPS, int(most_work / (a_step * n_fits)))
    return n_steps if n_fits > 1 and n_steps >= _LEAST_STEPS else 0


def n_triple_steps(a_step: float, n_cells: int, n_fits: int, most_work: float) -> int:
    """Return for how many steps to train fits together with triples of so many cells, in all classes."""
    return int(np.clip(most_work / ((a_step + _OF_CELLS * n_cells) * n_fits), _LEAST_STEPS, _STEPS))


def does_ensemble_help(targets: Sequence[Targets], nodes: np.ndarray, variance: float) -> bool:
    """Return whether fits that are trained together come closer to the tables beyond their noise.

    By count splitting, as the variance is chosen, on a few short fits. Without noise they do.
    """
    if not targets[0].deviation:
        return True
    fitted, judged = zip(*(target.split(np.random.default_rng(SEED)) for target in targets), strict=True)
    pilots = [train_factors(fitted, nodes, variance, seed, _PILOT_STEPS) for seed in range(_PILOTS)]
    together = train_ensemble(fitted, nodes, variance, pilots, _PILOT_STEPS_TOGETHER)
    return bool(score(judged, nodes, *together) < _PAYS * score(judged, nodes, *pilots))
