"""Columns that rules tie, or that are near each other: laws by brute force, and derivatives against finite differences."""

import itertools

import numpy as np
import pytest
from internals import ConstrainedGroup, WeightedPair

SIZES = (4, 3, 5)
CLASSES = {
    "singletons": tuple(np.arange(size) for size in SIZES),
    "renamed": (np.array([2, 0, 3, 1]), np.array([1, 2, 0]), np.arange(5)),
    "classes": (np.array([0, 1, 0, 1]), np.array([0, 0, 1]), np.array([2, 1, 0, 1, 2])),
    "mixed": (np.array([0, 1, 0, 1]), np.arange(3), np.array([0, 0, 0, 1, 1])),
}


def group_of(classes, seed=0):
    rng = np.random.default_rng(seed)
    tuples = np.array(list(itertools.product(*(range(int(c.max()) + 1) for c in classes))))
    kept = rng.random(len(tuples)) < 0.6
    kept[:2] = True
    return ConstrainedGroup((0, 1, 2), classes, tuples, kept[None])


def near_pair(excluded):
    weights = np.random.default_rng(1).uniform(0.1, 2, (4, 3))
    if excluded:
        weights[1:, 0] = weights[3, 1] = 0.0
    return WeightedPair((0, 1), weights), np.float32(weights)


def tied(name):
    """A group, and its weights: which codes can occur together."""
    group = group_of(CLASSES[name])
    allowed, weights = {tuple(t) for t in group.tuples[group.allowed[0]]}, np.zeros(SIZES)
    for codes in itertools.product(*map(range, SIZES)):
        weights[codes] = tuple(int(own[code]) for own, code in zip(group.classes, codes, strict=True)) in allowed
    return group, weights


CASES = {**{name: (tied, name) for name in CLASSES}, "near": (near_pair, False), "near, some excluded": (near_pair, True)}


def dense(weights, logits):
    """P(codes | node): the product of exponentials and weights."""
    joint = np.ones(1) * weights[..., None]
    for axis, own in enumerate(logits):
        joint = joint * np.exp(own).reshape([len(own) if other == axis else 1 for other in range(len(logits))] + [-1])
    return joint / joint.sum(axis=tuple(range(len(logits))))


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_columns_and_pairs_have_the_weighted_product_and_derivatives_of_finite_differences(make):
    group, weights = make[0](make[1])
    law, rng, columns = group.law(0), np.random.default_rng(2), range(weights.ndim)
    logits = [2 * rng.normal(size=(size, 6)) for size in weights.shape]
    by_singles = [rng.normal(size=each.shape) for each in logits]
    by_pairs = {(j, k): rng.normal(size=(weights.shape[j], weights.shape[k])) for j, k in itertools.combinations(columns, 2)}

    def margin(joint, kept):
        return joint.sum(axis=tuple({*columns} - {*kept}))

    def value(logits):
        joint = dense(weights, logits)
        singles = sum(float((G * margin(joint, [column])).sum()) for column, G in enumerate(by_singles))
        return singles + sum(float((H[..., None] * margin(joint, pair)).sum()) for pair, H in by_pairs.items())

    state, joint = law.forward(logits), dense(weights, logits)
    for column in columns:
        np.testing.assert_allclose(state.singles[column], margin(joint, [column]), atol=1e-12)
    for pair in by_pairs:
        np.testing.assert_allclose(law.joint(state, pair), margin(joint, pair).mean(axis=2), atol=1e-12)
    found = law.backward(state, by_singles, by_pairs)
    for column, node in itertools.product(columns, (0, 3)):
        for code in range(weights.shape[column]):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [np.array(each) for each in logits]
                moved[column][code, node] += step
                ends.append(value(moved))
            assert found[column][code, node] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["singletons", "renamed"])
def test_two_columns_are_descended_by_matrices_which_say_the_same(name):
    rng, classes = np.random.default_rng(3), CLASSES[name][:2]
    group = ConstrainedGroup(
        (0, 1), classes, np.array([[0, 1], [1, 0], [2, 2], [3, 0], [3, 1]]), np.array([[True, True, True, True, False]])
    )
    listed, products = group.law(0), group.law_of_descent(0)
    assert type(products) is not type(listed)
    logits = [2 * rng.normal(size=(size, 6)) for size in SIZES[:2]]
    by_singles, by_pairs = [rng.normal(size=each.shape) for each in logits], {(0, 1): rng.normal(size=SIZES[:2])}
    found = [law.forward(logits) for law in (listed, products)]
    for one, other in zip(*(state.singles for state in found), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(listed.joint(found[0], (0, 1)), products.joint(found[1], (0, 1)), atol=1e-12)
    for one, other in zip(
        *(law.backward(state, by_singles, by_pairs) for law, state in zip((listed, products), found, strict=True)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_products_stay_finite_where_all_that_is_likely_is_excluded():
    law = ConstrainedGroup((0, 1), (np.arange(2), np.arange(2)), np.array([[0, 1], [1, 0]]), np.array([[True, True]])).law_of_descent(0)
    likely = np.array([[0.0], [-200.0]], dtype=np.float32)
    state = law.forward([likely, likely])
    assert all(np.isfinite(part).all() for part in law.backward(state, state.singles, {(0, 1): np.ones((2, 2))}))
