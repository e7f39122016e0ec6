"""Columns of numbers near each other: probabilities and derivatives by brute force, and the law of rows by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from internals import NearDraw, NearPair, _filling, filled, pairs_near, quasi_normal
from internals import linked_columns_Numbers as Numbers
from laws import ALARM, CERTAIN, chi_squared, has_law

from skdpsynth.domain import Continuous, Inequality, Schema, Wanted, grids_of, ties_of
from skdpsynth.models import LatentFactors, Link, MarginalModel, Near, tied_columns

SCHEMA = Schema({"start": Continuous(0, 9), "job": ["x", "y"], "end": Continuous(0, 11, nullable=True)})
EDGES = {"start": np.array([0, 3, 7, 10]), "end": np.array([0, 2, 5, 9, 12])}
NEAR = Near("start", "end", np.arange(-4.0, 5.0), np.array([0, 0, 0, 0.05, 0.3, 0.4, 0.2, 0.05]), True)
RULED = Schema(dict(SCHEMA), rules=[Inequality("start", "end")])
ABOVE = Near("start", "end", np.arange(0.0, 5.0), np.array([0.1, 0.4, 0.3, 0.2]), True)


def a_model(seed=0, is_ruled=False):
    """Whole numbers in three bins and in four, the second 0 to 3 above the first, or one below it but where a rule excludes it."""
    rng = np.random.default_rng(seed)
    links = {name: Link(rng.dirichlet(np.ones(edges[-1])), edges) for name, edges in EDGES.items()}
    sizes = np.array([3, 2, 5])
    schema, near = (RULED, ABOVE) if is_ruled else (SCHEMA, NEAR)
    tied, _ = tied_columns(ties_of(schema, schema.rules), schema, links)
    groups = pairs_near([near], schema, links, list(schema), (0, 1, 2), tied)
    a, B = rng.normal(0, 1, (2, 1, 10)), rng.normal(size=(2, 1, 10, 2))
    factors = LatentFactors(sizes, quasi_normal(8, 2), a, B, groups)
    return MarginalModel(schema, None, np.ones(1), ((0, 1, 2),), (factors,), links, tuple(tied), near=(near,))


def within(model):
    """P(start, end | their bins), shape (10, 12), by enumeration; and the bins of each."""
    starts, ends = (np.searchsorted(EDGES[name], np.arange(EDGES[name][-1]), side="right") - 1 for name in EDGES)
    law, (near,) = np.zeros((10, 12)), model.near
    masses = dict(zip(near.edges, near.mass, strict=False))
    for x in range(10):
        for y in range(12):
            law[x, y] = model.links["start"].mass[x] * masses.get(y - x, 0)
    for i in range(3):
        for j in range(4):
            block = np.ix_(starts == i, ends == j)
            if law[block].sum() < 1e-9:
                law[block] = np.outer(model.links["start"].mass[starts == i], model.links["end"].mass[ends == j])
            law[block] /= law[block].sum()
    return law, starts, ends


def law(model):
    """P(start, job, end or missing), by enumeration over nodes, codes and cells."""
    inside, starts, ends = within(model)
    factors = model.factors[0]
    logits = np.hstack([a[0][:, None] + B[0] @ factors.nodes.T for a, B in zip(factors.intercepts, factors.loadings, strict=True)])
    first, job, second = (np.exp(each) for each in np.split(logits, [3, 5]))
    pair = first[:, None] * factors.groups[0].weights[:, :, None] * second[None]
    pair /= pair.sum(axis=(0, 1))
    codes = np.einsum("ijz,kz->ikj", pair, job / job.sum(axis=0)) / pair.shape[2]
    out = np.zeros((10, 2, 13))
    for x in range(10):
        out[x, :, :12] = codes[starts[x]][:, ends] * inside[x]
        out[x, :, 12] = codes[starts[x], :, 4] * model.links["start"].mass[x] / model.links["start"].mass[starts == starts[x]].sum()
    return out


def among(*numbers, missing=False):
    return Wanted(among=np.array(numbers), missing=missing)


CONDITIONS = {
    "range of the first": ({"start": Wanted(2, 5)}, [range(2, 6), range(2), range(13)]),
    "range of the second": ({"end": Wanted(3, 7)}, [range(10), range(2), range(3, 8)]),
    "ranges": ({"start": Wanted(1, 4), "end": Wanted(4, 9)}, [range(1, 5), range(2), range(4, 10)]),
    "numbers": ({"start": among(2, 6), "end": among(2, 3, 8), "job": among(1)}, [[2, 6], [1], [2, 3, 8]]),
    "numbers and missing": ({"end": among(4, missing=True)}, [range(10), range(2), [4, 12]]),
    "far apart": ({"start": Wanted(0, 1), "end": Wanted(9, 11)}, [range(2), range(2), range(9, 12)]),
}


def codes_of(columns):
    end = np.where(np.isnan(columns[2]), 12, columns[2])
    return tuple(np.asarray(column, dtype=float).astype(int) for column in (columns[0], columns[1], end))


def p_value(rows, joint, within):
    """Chi squared of rows against a law on some of them; 0 if any other occurs. Rows of one sample are evener than independent ones."""
    observed, expected = np.zeros(joint.shape), np.zeros(joint.shape)
    np.add.at(observed, codes_of(rows), 1)
    expected[np.ix_(*within)] = joint[np.ix_(*within)]
    return chi_squared(observed, expected)


ALL = [range(10), range(2), range(13)]


@pytest.mark.parametrize("is_ruled", [False, True])
def test_rows_have_the_law_of_enumeration(is_ruled):
    """20,000 rows, and the first ones of samples of two; numbers that are near by their bins alone fail."""
    model, rng = a_model(is_ruled=is_ruled), np.random.default_rng(0)
    law_, joint = model.law(), law(model)
    assert p_value(law_.sample(20_000, rng), joint, ALL) > ALARM
    assert p_value(replace(law_, near=()).sample(20_000, rng), joint, ALL) < CERTAIN

    def first_rows(n):
        return np.array([[column[0] for column in law_.sample(2, rng)] for _ in range(n)]).T

    assert has_law(first_rows, lambda rows: p_value(rows, joint, ALL), 500)


@pytest.mark.parametrize("is_ruled", [False, True])
@pytest.mark.parametrize("name", CONDITIONS)
def test_probability_of_a_condition_is_that_of_its_rows(name, is_ruled):
    model = a_model(1, is_ruled)
    wanted, rows = CONDITIONS[name]
    assert model.law().given(wanted)[1] == pytest.approx(law(model)[np.ix_(*rows)].sum(), rel=1e-5)


@pytest.mark.parametrize("is_ruled", [False, True])
@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_on_a_condition_have_its_law(name, is_ruled):
    """20,000 rows; numbers that are near by their bins alone fail, but where a condition leaves only some that are far apart."""
    model = a_model(2, is_ruled)
    wanted, within = CONDITIONS[name]
    conditional, _ = model.law().given(wanted)
    assert p_value(conditional.sample(20_000, np.random.default_rng(1)), law(model), within) > ALARM
    by_bins = replace(conditional, near=()).sample(20_000, np.random.default_rng(1))
    assert name == "far apart" or p_value(by_bins, law(model), within) < CERTAIN


def test_pairs_of_codes_that_a_rule_excludes_are_never_drawn():
    """By enumeration: no start of the second or third bin goes with an end of the first, and so on; all other pairs can be."""
    (group,) = a_model(is_ruled=True).factors[0].groups
    allowed = [[EDGES["start"][i] <= EDGES["end"][j + 1] - 1 for j in range(4)] + [True] for i in range(3)]
    np.testing.assert_array_equal(group.weights > 0, allowed)
    assert len(group.law(0).part(group.law(0).forward([np.zeros((3, 1)), np.zeros((5, 1))])).codes) == np.sum(allowed)


def test_conditions_can_follow_each_other():
    model = a_model()
    first, p = model.law().given({"end": Wanted(3, 9)})
    _, q = first.given({"start": Wanted(2, 4), "end": among(4, 6)})
    assert p * q == pytest.approx(law(model)[np.ix_(range(2, 5), range(2), [4, 6])].sum(), rel=1e-5)


@pytest.mark.parametrize("is_ruled", [False, True])
@pytest.mark.parametrize("gone", ["end", "start"])
def test_a_filled_number_is_near_the_one_that_is_there(gone, is_ruled):
    """It keeps to differences that have mass, in a bin that they lead to."""
    model, n = a_model(is_ruled=is_ruled), 2000
    start, end = np.full(n, 4.0), np.full(n, 6.0)
    to_fill = [np.full(n, name == gone) for name in SCHEMA]
    out = filled(model.law(), [start, np.zeros(n, dtype=int), end], to_fill, np.random.default_rng(0))
    assert np.mean((out[2] - out[0] >= -1) & (out[2] - out[0] <= 3)) > 0.99
    assert not is_ruled or np.all(out[2] >= out[0])


def test_rows_do_not_depend_on_threads():
    model = a_model()
    one, other = (model.sample(200_000, np.random.default_rng(3), n_jobs) for n_jobs in (1, 2))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_law_backwards_has_the_same_numbers():
    other = NEAR.backwards()
    for k in range(-4, 5):
        assert other.below(-k + 1.0) - other.below(-k + 0.0) == pytest.approx(NEAR.below(k + 1.0) - NEAR.below(k + 0.0))
    assert (other.first, other.second) == ("end", "start")


def test_real_numbers_keep_the_difference_to_the_last_digit():
    """The second is drawn beside the first itself, not beside its cell."""
    schema = Schema({"a": (0.0, 100.0), "b": (0.0, 100.0)})
    near = Near("a", "b", np.array([-1.0, 0.0, 1e-6, 1.0]), np.array([0.0, 1.0, 0.0]), False)
    grids, link = grids_of(schema), None
    n = grids["a"].n_cells
    link = Link(np.full(n, 1 / n), np.array([0, n // 3, n]))
    draw = NearDraw.of(near, {name: Numbers.of(link, grids[name]) for name in schema})
    values, codes = {name: np.zeros(1000) for name in schema}, {name: np.arange(1000) % 2 for name in schema}
    draw.place(values, codes, np.random.default_rng(0))
    assert np.mean((values["b"] >= values["a"]) & (values["b"] - values["a"] <= 1.1e-6)) > 0.99


@pytest.fixture(params=[False, True], ids=["all pairs", "some excluded"])
def case(request):
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.1, 2, (4, 3))
    if request.param:
        weights[1:, 0] = weights[3, 1] = 0.0
    return NearPair((0, 1), weights), [rng.normal(size=(size, 6)) for size in (4, 3)]


def brute_force(pair, logits):
    joint = np.exp(logits[0])[:, None] * np.float32(pair.weights)[:, :, None] * np.exp(logits[1])[None]
    return joint / joint.sum(axis=(0, 1))


def test_codes_of_a_pair_have_the_weighted_product(case):
    law_, dense = case[0].law(0), brute_force(*case)
    state = law_.forward(case[1])
    np.testing.assert_allclose(state.singles[0], dense.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(state.singles[1], dense.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(law_.joint(state, (0, 1)), dense.mean(axis=2), atol=1e-12)
    np.testing.assert_allclose(law_.part(state).probabilities, dense[case[0].weights > 0], atol=1e-12)


def test_derivatives_of_a_pair_are_those_of_differences(case):
    pair, logits = case
    law_, rng = pair.law(0), np.random.default_rng(2)
    by_singles, by_pair = [rng.normal(size=own.shape) for own in logits], rng.normal(size=(4, 3))

    def value(logits):
        dense = brute_force(pair, logits)
        singles = dense.sum(axis=1), dense.sum(axis=0)
        return sum((g * s).sum() for g, s in zip(by_singles, singles, strict=True)) + (by_pair[:, :, None] * dense).sum()

    found = law_.backward(law_.forward(logits), by_singles, {(0, 1): by_pair})
    for which, place in ((0, (2, 1)), (0, (0, 5)), (1, (1, 3)), (1, (2, 0))):
        moved = [[own.copy() for own in logits] for _ in range(2)]
        moved[0][which][place] += 1e-5
        moved[1][which][place] -= 1e-5
        assert found[which][place] == pytest.approx((value(moved[0]) - value(moved[1])) / 2e-5, rel=1e-5, abs=1e-8)


def test_a_filled_bin_knows_where_in_its_bin_the_other_number_lies(monkeypatch):
    """Frequencies of the end beside a start, against the law: one of several draws comes near to it, and a single one does not."""
    model, n = a_model(), 20_000
    joint = law(model)[6, 0, :12]  # 6 is the last of its bin

    def miss():
        to_fill = [np.full(n, name == "end") for name in SCHEMA]
        values = [np.full(n, 6.0), np.zeros(n, dtype=int), np.zeros(n)]
        out = filled(model.law(), values, to_fill, np.random.default_rng(0))
        return np.abs(np.bincount(out[2].astype(int), minlength=12) / n - joint / joint.sum()).sum() / 2

    several = miss()
    monkeypatch.setattr(_filling, "_CHOICES", 1)
    assert several < 0.05
    assert several < miss() / 3
