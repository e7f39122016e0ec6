"""Fits of latent factors that are trained together: their objective and their gain."""

from itertools import combinations

import numpy as np
import pytest
from internals import CLASS_SHARE, FactorFit, Targets, quasi_normal, score, softmax, sum_to_columns, train_factors

SIZES = np.array([3, 4, 5])
NODES = quasi_normal(64, 2)


def some_targets(n_classes=1, n=2000.0, deviation=1.0, seed=0):
    """Tables of a mixture of four products, with noise."""
    rng, targets = np.random.default_rng(seed), []
    for _ in range(n_classes):
        P = [rng.dirichlet(np.full(size, 0.4), 4).T for size in SIZES]
        one_way = [n * p.mean(axis=1) + rng.normal(0, deviation, len(p)) for p in P]
        pairs = combinations(range(len(SIZES)), 2)
        two_way = {(i, j): n * P[i] @ P[j].T / 4 + rng.normal(0, deviation, (SIZES[i], SIZES[j])) for i, j in pairs}
        targets.append(Targets.of(one_way, two_way, n, (deviation, deviation)))
    return targets


def some_fits(targets, n_fits, n_steps=40):
    return [train_factors(targets, NODES, 1.0, [seed], n_steps)[0] for seed in range(n_fits)]


def objective(targets, fits, variance):
    """The documented one, in doubles and by loops: of one class, whose loadings are all shared."""
    (target,) = targets
    P = np.hstack([softmax(f.intercepts[0][:, None] + f.loadings[0] @ NODES.T, sum_to_columns(SIZES)) for f in fits])
    error = (P @ P.T / P.shape[1] - target.two_way) * target.mask
    columns = P.mean(axis=1) - target.one_way
    of_tables = target.n**2 * ((error**2).sum() / 2 + target.weight * (columns**2).sum()) / 2
    return of_tables + target.deviation**2 / (2 * variance) * np.mean([(f.loadings**2).sum() for f in fits])


def test_a_step_goes_down_each_slope_of_the_objective():
    """Adam's first step has the sign of the slope in every number; slopes by central differences, those near 0 left out."""
    targets = some_targets()
    fits = some_fits(targets, 2)
    moved, _ = train_factors(targets, NODES, 0.5, fits, 1)
    start = np.concatenate([fits[0].intercepts[0], fits[0].loadings[0].ravel()])

    def at(x):
        n = int(SIZES.sum())
        return objective(targets, [FactorFit(x[None, :n], x[n:].reshape(1, n, -1), 0), fits[1]], 0.5)

    slopes = np.array([(at(start + step) - at(start - step)) / 2e-4 for step in 1e-4 * np.eye(len(start))])
    change = np.concatenate([moved.intercepts[0], moved.loadings[0].ravel()]) - start
    told = np.abs(slopes) > 1e-2 * np.abs(slopes).max()
    assert told.sum() > 10
    assert (np.sign(change[told]) == -np.sign(slopes[told])).all()


@pytest.mark.parametrize("n_classes", [1, 2])
def test_fits_trained_together_are_closer_to_exact_tables_than_their_mixture_was(n_classes):
    targets = some_targets(n_classes, deviation=0.0)
    fits = some_fits(targets, 3, 300)
    assert score(targets, NODES, *train_factors(targets, NODES, 1.0, fits, 600)) < 0.5 * score(targets, NODES, *fits)


def test_what_classes_do_not_share_is_pulled_to_nothing():
    targets = some_targets(2, deviation=1e4)
    (fit,) = some_fits(targets, 1)
    (out,) = train_factors(targets, NODES, 1e-6, [fit], 150)
    assert np.abs(out.loadings[0] - out.loadings[1]).max() < np.abs(fit.loadings[0] - fit.loadings[1]).max() + CLASS_SHARE
    assert np.abs(out.loadings).max() < np.abs(fit.loadings).max()
