"""Columns that rules tie within a mixture of products: against brute force, and derivatives against finite differences."""

import itertools

import numpy as np
import pytest
from internals import Group

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
    return Group((0, 1, 2), classes, tuples, kept[None])


def brute_force(group, logits):
    """P(codes | node) as a dense array: the product of exponentials where it is allowed."""
    a, b, c = (np.exp(each) for each in logits)
    dense = a[:, None, None] * b[None, :, None] * c[None, None]
    allowed = {tuple(t) for t in group.tuples[group.allowed[0]]}
    for codes in itertools.product(*map(range, SIZES)):
        if tuple(int(own[code]) for own, code in zip(group.classes, codes, strict=True)) not in allowed:
            dense[codes] = 0
    return dense / dense.sum(axis=(0, 1, 2))


@pytest.fixture(params=list(CLASSES))
def case(request):
    rng = np.random.default_rng(1)
    return group_of(CLASSES[request.param]), [2 * rng.normal(size=(size, 6)) for size in SIZES]


def test_codes_of_a_group_have_the_product_on_what_is_allowed(case):
    group, logits = case
    law, dense = group.law(0), brute_force(*case)
    state = law.forward(logits)
    for column, single in enumerate(state.singles):
        others = tuple(axis for axis in range(3) if axis != column)
        np.testing.assert_allclose(single, dense.sum(axis=others), atol=1e-12)


def test_two_columns_of_a_group_have_the_joint_law_on_what_is_allowed(case):
    group, logits = case
    law, dense = group.law(0), brute_force(*case).mean(axis=3)
    state = law.forward(logits)
    for pair in law.pairs:
        (other,) = {0, 1, 2} - set(pair)
        np.testing.assert_allclose(law.joint(state, pair), dense.sum(axis=other), atol=1e-12)


def test_derivatives_are_those_of_finite_differences(case):
    group, logits = case
    law, rng = group.law(0), np.random.default_rng(2)
    by_singles = [rng.normal(size=each.shape) for each in logits]
    by_pairs = {(j, k): rng.normal(size=(SIZES[j], SIZES[k])) for j, k in law.pairs}

    def value(logits):
        state = law.forward(logits)
        singles = sum(float((G * single).sum()) for G, single in zip(by_singles, state.singles, strict=True))
        return singles + sum(float((H * law.joint(state, pair)).sum()) * 6 for pair, H in by_pairs.items())

    found = law.backward(law.forward(logits), by_singles, by_pairs)
    for column, node in itertools.product(range(3), (0, 3)):
        for code in range(SIZES[column]):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [np.array(each) for each in logits]
                moved[column][code, node] += step
                ends.append(value(moved))
            assert found[column][code, node] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["singletons", "renamed"])
def test_two_columns_are_descended_by_matrices_which_say_the_same(name):
    rng, classes = np.random.default_rng(3), CLASSES[name][:2]
    group = Group((0, 1), classes, np.array([[0, 1], [1, 0], [2, 2], [3, 0], [3, 1]]), np.array([[True, True, True, True, False]]))
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
    law = Group((0, 1), (np.arange(2), np.arange(2)), np.array([[0, 1], [1, 0]]), np.array([[True, True]])).law_of_descent(0)
    likely = np.array([[0.0], [-200.0]], dtype=np.float32)
    state = law.forward([likely, likely])
    assert all(np.isfinite(part).all() for part in law.backward(state, state.singles, {(0, 1): np.ones((2, 2))}))
