"""Columns that rules tie, or that are near each other: laws by brute force, and derivatives against finite differences."""

import itertools

import numpy as np
import pytest
from internals import ConstrainedGroup, Mixture, Probabilities, Targets, WeightedPair, WithinErrors, join_boxes, split_into_boxes

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


def two_columns():
    kept = np.array([[True, True, True, True, False]])
    return ConstrainedGroup((0, 1), CLASSES["renamed"][:2], np.array([[0, 1], [1, 0], [2, 2], [3, 0], [3, 1]]), kept)


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


def free(logits):
    """P(code | node) of columns by themselves, one after the other."""
    return np.concatenate([np.exp(own) / np.exp(own).sum(axis=0) for own in logits])


def of_columns(sizes, rng, n_nodes=6):
    """Made-up derivatives by codes, and by pairs of codes of different columns."""
    column, n_codes = np.repeat(np.arange(len(sizes)), sizes), sum(sizes)
    by_pairs = rng.normal(size=(n_codes, n_codes)) * (column[:, None] != column)
    return rng.normal(size=(n_codes, n_nodes)), by_pairs + by_pairs.T


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_columns_and_pairs_have_the_weighted_product_and_derivatives_of_finite_differences(make):
    group, weights = make[0](make[1])
    law, rng, columns = group.law_of_descent(0), np.random.default_rng(2), range(weights.ndim)
    logits = [2 * rng.normal(size=(size, 6)) for size in weights.shape]
    by_singles, by_pairs = of_columns(weights.shape, rng)
    ends = np.cumsum(weights.shape)
    own = [slice(end - size, end) for end, size in zip(ends, weights.shape, strict=True)]

    def margin(joint, kept):
        return joint.sum(axis=tuple({*columns} - {*kept}))

    def value(logits):
        joint = dense(weights, logits)
        singles = sum(float((by_singles[own[column]] * margin(joint, [column])).sum()) for column in columns)
        pairs = itertools.combinations(columns, 2)
        return singles + sum(float((by_pairs[own[j], own[k], None] * margin(joint, (j, k))).sum()) for j, k in pairs)

    state, joint = law.forward(free(logits)), dense(weights, logits)
    together = law.joint(state)
    for column in columns:
        np.testing.assert_allclose(state.singles[own[column]], margin(joint, [column]), atol=1e-12)
    for j, k in itertools.combinations(columns, 2):
        np.testing.assert_allclose(together[own[j], own[k]], margin(joint, (j, k)).mean(axis=2), atol=1e-12)
        np.testing.assert_allclose(together[own[k], own[j]], together[own[j], own[k]].T, atol=1e-15)
    found = law.backward(state, by_singles, law.times(state, by_pairs))
    for column, node in itertools.product(columns, (0, 3)):
        for code in range(weights.shape[column]):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [np.array(each) for each in logits]
                moved[column][code, node] += step
                ends.append(value(moved))
            assert found[own[column]][code, node] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


@pytest.mark.parametrize("name", [*CLASSES, "matrix"])
def test_a_law_of_descent_has_the_probabilities_of_the_listed_tuples(name):
    group, sizes = (group_of(CLASSES[name]), SIZES) if name in CLASSES else (two_columns(), SIZES[:2])
    listed, other = group.law(0), group.law_of_descent(0)
    assert isinstance(other, WeightedPair) == (name == "matrix")
    P = free([2 * np.random.default_rng(3).normal(size=(size, 6)) for size in sizes])
    state = listed.forward(P)
    np.testing.assert_allclose(state.singles, other.forward(P).singles, atol=1e-12)
    np.testing.assert_allclose(state.tuples.sum(axis=0), 1)
    mixture = Mixture(np.full(6, 1 / 6), (listed.part(state),))
    for place, codes in enumerate(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])):
        for code, row in enumerate(codes):
            told = {place: np.arange(sizes[place]) == code}
            assert mixture.condition(told)[1] == pytest.approx(state.singles[row].mean(), abs=1e-12)


def test_groups_of_boxes_are_descended_together_and_do_not_touch_each_other():
    groups = [group_of(CLASSES["classes"]), group_of(CLASSES["mixed"], seed=4)]
    groups[1] = ConstrainedGroup((5, 3, 4), groups[1].classes, groups[1].tuples, groups[1].allowed)
    apart = [group.law_of_descent(0) for group in groups]
    [together] = join_boxes(apart)
    rng, half = np.random.default_rng(5), sum(SIZES)
    P = free([2 * rng.normal(size=(size, 6)) for size in SIZES * 2])
    by_singles, by_pairs = of_columns(SIZES * 2, rng)
    state, found = together.forward(P), []
    assert together.columns == (0, 1, 2, 5, 3, 4)
    np.testing.assert_array_equal(together.pairs, np.kron(np.eye(2), np.ones((half, half))) > 0)
    for law, own in zip(apart, (slice(half), slice(half, None)), strict=True):
        one = law.forward(P[own])
        np.testing.assert_allclose(state.singles[own], one.singles, atol=1e-12)
        np.testing.assert_allclose(together.joint(state)[own, own], law.joint(one), atol=1e-12)
        found.append(law.backward(one, by_singles[own], law.times(one, by_pairs[own, own])))
    slope = together.backward(state, by_singles, together.times(state, by_pairs * together.pairs))
    np.testing.assert_allclose(slope, np.concatenate(found), atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_hold_each_tuple_once_and_no_other(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, int(rng.integers(2, 5)))
    every = np.array(list(itertools.product(*map(range, sizes))))
    tuples = every[rng.random(len(every)) < rng.choice([0.2, 0.5, 0.9])][:60]
    boxes = split_into_boxes(tuples)
    held = [codes for box in boxes for codes in itertools.product(*(own.tolist() for own in box))]
    assert sorted(held) == sorted(map(tuple, tuples.tolist()))


def test_a_chain_of_columns_is_split_at_its_middle():
    chain = np.array([(i, j, k) for i, j, k in itertools.product(range(6), repeat=3) if i <= j <= k])
    assert len(split_into_boxes(chain)) == 6


@pytest.mark.parametrize("n_columns", [2, 3])
def test_products_stay_finite_where_all_that_is_likely_is_excluded(n_columns):
    tuples = np.array([[0, 1, 0], [1, 0, 0]])[:, :n_columns]
    law = ConstrainedGroup(tuple(range(n_columns)), (np.arange(2),) * n_columns, tuples, np.array([[True, True]])).law_of_descent(0)
    likely = np.array([[0.0], [-200.0]], dtype=np.float32)
    state = law.forward(free([likely] * n_columns))
    assert np.isfinite(law.backward(state, state.singles, law.times(state, np.ones((2 * n_columns,) * 2)))).all()


def test_errors_of_pairs_within_levels_have_derivatives_of_finite_differences_also_of_tied_columns():
    """A column of two levels, a free one, three tied ones and two near each other: all pairs of the other six within each level."""
    sizes, rng = (2, 3, *SIZES, 4, 3), np.random.default_rng(6)
    group, weights = tied("mixed")
    near, of_near = near_pair(True)
    laws = [ConstrainedGroup((2, 3, 4), group.classes, group.tuples, group.allowed).law_of_descent(0), WeightedPair((5, 6), near.weights)]
    one_way = [rng.dirichlet(np.ones(size)) for size in sizes]
    target = Targets.of(one_way, {}, 1.0, (1.0, 1.0), laws)
    logits = [rng.normal(size=(size, 4)) for size in sizes]
    tables = {(0, j, k): np.float32(rng.dirichlet(np.ones(2 * sizes[j] * sizes[k]))) for j, k in itertools.combinations(range(1, 7), 2)}
    tables = {(i, j, k): table.reshape(2, sizes[j], sizes[k]) for (i, j, k), table in tables.items()}

    def value(logits):
        P = [np.exp(own) / np.exp(own).sum(axis=0) for own in logits]
        joint, both = dense(weights, logits[2:5]), dense(of_near, logits[5:])
        P[2:5] = [joint.sum(axis=tuple({0, 1, 2} - {place})) for place in range(3)]
        P[5:] = [both.sum(axis=1), both.sum(axis=0)]
        total = 0.0
        for (_, j, k), table in tables.items():
            pair = P[j][:, None] * P[k]
            if 2 <= j < k <= 4:
                pair = joint.sum(axis=({0, 1, 2} - {j - 2, k - 2}).pop())
            elif j == 5:
                pair = both
            total += 0.5 * 0.25 * ((np.einsum("lz,mnz->lmn", P[0], pair) / 4 - table) ** 2).sum()
        return total

    at = Probabilities.of(target, np.concatenate(logits))
    more = WithinErrors(tables, target, 0, 0.25).slope(at)
    found = (at.slope(target, *more)[0] - at.slope(target)[0]) / 4
    starts = np.cumsum([0, *sizes])
    for column, node in itertools.product(range(7), (0, 3)):
        for code in range(sizes[column]):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [np.array(each) for each in logits]
                moved[column][code, node] += step
                ends.append(value(moved))
            assert found[starts[column] + code, node] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)
