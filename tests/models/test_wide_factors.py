"""Factors that many columns share: derivatives by brute force, conditions by enumeration, and what rows are drawn from."""

from itertools import product

import numpy as np
import pytest
from internals import (
    CoarsePairs,
    CommonFactors,
    CommonNodeSampler,
    JointDistribution,
    Mixture,
    Targets,
    WideTargets,
    _Descent,
    _shuffle_places_within,
    _wide_factors,
    quasi_normal,
    sample_missing,
)
from internals import mixture_Part as Part
from laws import ALARM, CERTAIN, binomial, chi_squared

from skdpsynth.domain import AllowedCells, Nominal, Schema
from skdpsynth.models import NoisyTables, learn_common_factors

BLOCKS = ((0, 2), (1,))
SIZES = (2, 3, 2)


def law(weights=(1.0,), seed=0):
    """Two blocks that share three nodes, with four and one for each: of tables of two strata where there are two weights."""
    rng = np.random.default_rng(seed)
    mixtures, common = [], []
    for _ in weights:
        of_blocks = []
        for block, n_inner in zip(BLOCKS, (4, 1), strict=True):
            parts = [Part.of_column(place, rng.dirichlet(np.ones(SIZES[column]), 3 * n_inner).T) for place, column in enumerate(block)]
            of_blocks.append(Mixture(rng.dirichlet(np.ones(3 * n_inner)), tuple(parts)))
        mixtures.append(tuple(of_blocks))
        common.append(rng.dirichlet(np.ones(3)))
    schema = Schema({i: Nominal(list(range(size))) for i, size in enumerate(SIZES)})
    if len(weights) > 1:
        schema = Schema({**schema, "class": Nominal(list(range(len(weights))))})
    stratum = "class" if len(weights) > 1 else None
    return JointDistribution(schema, stratum, BLOCKS, np.array(weights), tuple(mixtures), {}, common=tuple(common))


def table_of(law):
    """Return P of every row, shape (n_strata, 2, 3, 2): by brute force over all nodes."""
    out = np.zeros((len(law.weights), *SIZES))
    for stratum, (weight, common) in enumerate(zip(law.weights, law.common, strict=True)):
        if common is None:
            continue
        for node, share in enumerate(common):
            of_blocks = []
            for mixture in law.mixtures[stratum]:
                inner = mixture.weights.reshape(3, -1)[node]
                chosen = slice(node * len(inner), (node + 1) * len(inner))
                inner = inner / inner.sum() if inner.sum() else inner
                tables = []
                for part in mixture.parts:
                    size = SIZES[BLOCKS[len(of_blocks)][part.columns[0]]]
                    table = np.zeros((size, len(inner)))
                    table[part.codes[:, 0]] = part.probabilities[:, chosen]
                    tables.append(table)
                of_blocks.append((inner, tables))
            (inner, (first, third)), (alone, (second,)) = of_blocks
            out[stratum] += weight * share * np.einsum("l,al,cl,m,bm->abc", inner, first, third, alone, second)
    return out


@pytest.mark.parametrize("weights", [(1.0,), (0.3, 0.7)])
def test_samples_have_the_law_of_the_mixture_over_common_nodes(weights):
    """40,000 rows; blocks drawn without their common node fail."""
    made = law(weights)
    values = made.sample(40_000, np.random.default_rng(1))
    codes = [np.asarray(column, dtype=int) for column in values]
    strata = codes[3] if len(weights) > 1 else np.zeros(len(codes[0]), dtype=int)
    counts = np.zeros((len(weights), *SIZES))
    np.add.at(counts, (strata, *codes[:3]), 1)
    table = table_of(made)
    assert abs(table.sum() - 1) < 1e-9
    assert chi_squared(counts, table) > ALARM
    apart = np.einsum("sac,sb->sabc", table.sum(axis=2), table.sum(axis=(1, 3))) / table.sum(axis=(1, 2, 3))[:, None, None, None]
    assert chi_squared(counts, apart) < CERTAIN


@pytest.mark.parametrize("allowed", [{0: [1]}, {1: [0, 2]}, {0: [0], 2: [1], 1: [1]}, {2: [0], "class": [1]}])
def test_conditions_are_exact_and_may_be_joined(allowed):
    made = law((0.3, 0.7))
    table, axes = table_of(made), {"class": 0, 0: 1, 1: 2, 2: 3}
    for name, codes in allowed.items():
        kept = np.isin(np.arange(table.shape[axes[name]]), codes)
        table = table * np.expand_dims(kept, [axis for axis in range(4) if axis != axes[name]])
    at_once, probability = made.condition({name: AllowedCells(among=np.array(codes)) for name, codes in allowed.items()})
    assert probability == pytest.approx(table.sum())
    np.testing.assert_allclose(table_of(at_once), table / table.sum(), atol=1e-12)
    for name, codes in allowed.items():
        made = made.condition({name: AllowedCells(among=np.array(codes))})[0]
    np.testing.assert_allclose(table_of(made), table / table.sum(), atol=1e-12)


def test_shuffles_stay_within_their_groups_and_nodes_without_weight_get_no_row():
    counts = np.array([3, 0, 5, 1])
    places = _shuffle_places_within(counts, np.random.default_rng(0))
    assert [sorted(part.tolist()) for part in np.split(places, np.cumsum(counts)[:-1])] == [[0, 1, 2], [], [3, 4, 5, 6, 7], [8]]
    counts = CommonNodeSampler(np.array([0.0, 0.4, 0.0, 0.6, 0.0]), np.random.default_rng(0)).counts(1001, 0)
    assert counts.sum() == 1001
    assert not counts[[0, 2, 4]].any()


def test_missing_cells_have_the_law_of_the_model_given_the_others():
    """Of each pair of known cells the third column, and of three the stratum."""
    made, rng = law((0.3, 0.7)), np.random.default_rng(0)
    table = table_of(made)
    n = 4000
    for (first, second), stratum in product(product(range(2), range(3)), range(2)):
        values = [np.full(n, code) for code in (first, second, 0, stratum)]
        to_fill = [np.full(n, is_missing) for is_missing in (False, False, True, False)]
        third = sample_missing(made, values, to_fill, rng)[2]
        share = table[stratum, first, second] / table[stratum, first, second].sum()
        assert binomial((third == 1).sum(), n, share[1]) > ALARM
    strata = sample_missing(made, [np.full(n, code) for code in (1, 2, 0, 0)], [np.full(n, place == 3) for place in range(4)], rng)[3]
    share = table[:, 1, 2, 0] / table[:, 1, 2, 0].sum()
    assert binomial((strata == 1).sum(), n, share[1]) > ALARM


def test_derivatives_are_those_of_differences():
    """Of all parameters, in two classes, by central differences in floats of 32 bits."""
    rng = np.random.default_rng(0)
    groups = [np.array([0, 1]), np.array([0, 1, 1]), np.array([0, 1])]
    tables = rng.normal(size=(6, 6)).astype(np.float32)
    merged = CoarsePairs(tuple(groups), (tables + tables.T) / 10, 0.5, 80.0)
    common = CommonFactors(merged, rng.normal(size=(4, 2)), rng.normal(size=(6, 2)).astype(np.float32), 0.3)
    targets = []
    for block in BLOCKS:
        of_classes = []
        for n in (30.0, 50.0):
            one = [n * rng.dirichlet(np.ones(SIZES[column])) for column in block]
            two = {(0, 1): n * rng.dirichlet(np.ones(4)).reshape(2, 2)} if len(block) > 1 else {}
            of_classes.append(Targets.of(one, two, n, (3.0, 5.0)))
        targets.append(of_classes)
    nodes = [np.hstack([np.repeat(common.nodes, inner, axis=0), rng.normal(size=(4 * inner, 1))]) for inner in (3, 1)]
    is_ordered = [np.ones(2, dtype=bool), np.ones(3, dtype=bool), np.zeros(2, dtype=bool)]
    descent = _Descent(WideTargets(BLOCKS, targets, nodes, common, np.array([0.375, 0.625]), is_ordered, 0.7), 0)
    parameters = [*descent.intercepts, descent.slopes, descent.bends, *descent.own]
    gradients, _ = descent.gradients()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = rng.normal(size=parameter.shape).astype(np.float32)
        start, found = parameter.copy(), []
        for step in (0.02, -0.02):
            parameter[:] = start + step * direction
            found.append(descent.gradients()[1])
        parameter[:] = start
        wanted = float((gradient * direction).sum())
        assert (found[0] - found[1]) / 0.04 == pytest.approx(wanted, rel=0.02, abs=2e-4)


def test_common_factors_are_as_many_as_noise_lets_be_seen(monkeypatch):
    """Thirty columns of four codes on two factors, which lie between any of the codes."""
    monkeypatch.setattr(_wide_factors, "_PILOT_STEPS", 80)  # as it is outside of tests
    d, n = 30, 10_000
    for seed, deviation in enumerate((0.01, 0.04)):
        rng = np.random.default_rng(seed)
        P = np.exp(rng.normal(size=(d, 4, 2)) @ quasi_normal(256, 2).T)
        P /= P.sum(axis=1, keepdims=True)
        noisy = {(i, j): n * (P[i] @ P[j].T / 256 + deviation * rng.standard_normal((4, 4)))[None] for j in range(d) for i in range(j)}
        merged = CoarsePairs.of(NoisyTables(noisy, (n * deviation) ** 2), [np.arange(4)] * d, n)
        common, _ = learn_common_factors(merged, list(n * P.mean(axis=2)), n, 6)
        assert common.nodes.shape[1] == common.loadings.shape[1] == 2
