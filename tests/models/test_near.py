"""Columns of numbers near each other: probabilities and derivatives by brute force, and the law of rows by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from internals import DifferenceSampler, _conditional_sampling, difference_pairs, quasi_normal, sample_missing
from internals import linked_columns_Numbers as Numbers
from laws import ALARM, CERTAIN, has_law
from test_row_law import among, p_value

from skdpsynth.domain import AllowedCells, Continuous, Schema, grids_of
from skdpsynth.models import DifferenceLaw, LatentFactors, Link, TableModel

SCHEMA = Schema({"start": Continuous(0, 9), "job": ["x", "y"], "end": Continuous(0, 11, nullable=True)})
EDGES = {"start": np.array([0, 3, 7, 10]), "end": np.array([0, 2, 5, 9, 12])}
NEAR = DifferenceLaw("start", "end", np.arange(-4.0, 5.0), np.array([0, 0, 0, 0.05, 0.3, 0.4, 0.2, 0.05]), True)


def a_model(seed=0):
    """Whole numbers in three bins and in four, the second 0 to 3 above the first, or one below it."""
    rng = np.random.default_rng(seed)
    links = {name: Link(rng.dirichlet(np.ones(edges[-1])), edges) for name, edges in EDGES.items()}
    sizes = np.array([3, 2, 5])
    groups = difference_pairs([NEAR], SCHEMA, links, list(SCHEMA), (0, 1, 2))
    a, B = rng.normal(0, 1, (2, 1, 10)), rng.normal(size=(2, 1, 10, 2))
    factors = LatentFactors(sizes, quasi_normal(8, 2), a, B, groups)
    return TableModel(SCHEMA, None, np.ones(1), ((0, 1, 2),), (factors,), links, near=(NEAR,))


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


CONDITIONS = {
    "none": ({}, [range(10), range(2), range(13)]),
    "range of the first": ({"start": AllowedCells(2, 5)}, [range(2, 6), range(2), range(13)]),
    "range of the second": ({"end": AllowedCells(3, 7)}, [range(10), range(2), range(3, 8)]),
    "ranges": ({"start": AllowedCells(1, 4), "end": AllowedCells(4, 9)}, [range(1, 5), range(2), range(4, 10)]),
    "numbers": ({"start": among(2, 6), "end": among(2, 3, 8), "job": among(1)}, [[2, 6], [1], [2, 3, 8]]),
    "numbers and missing": ({"end": among(4, missing=True)}, [range(10), range(2), [4, 12]]),
    "far apart": ({"start": AllowedCells(0, 1), "end": AllowedCells(9, 11)}, [range(2), range(2), range(9, 12)]),
}


def codes_of(columns):
    end = np.where(np.isnan(columns[2]), 12, columns[2])
    return tuple(np.asarray(column, dtype=float).astype(int) for column in (columns[0], columns[1], end))


@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_on_a_condition_have_its_law_and_its_probability(name):
    """20,000 rows, and the first ones of samples of two; numbers that are near by their bins alone fail, but where a condition leaves only
    some that are far apart."""
    model, rng = a_model(2), np.random.default_rng(1)
    (wanted, within), joint = CONDITIONS[name], law(model)
    conditional, probability = model.law().condition(wanted)
    assert probability == pytest.approx(joint[np.ix_(*within)].sum(), rel=1e-5)
    assert p_value(codes_of(conditional.sample(20_000, rng)), joint, within) > ALARM
    by_bins = codes_of(replace(conditional, near=()).sample(20_000, rng))
    assert name == "far apart" or p_value(by_bins, joint, within) < CERTAIN

    def first_rows(n):
        return np.array([[column[0] for column in conditional.sample(2, rng)] for _ in range(n)]).T

    assert name != "none" or has_law(first_rows, lambda rows: p_value(codes_of(rows), joint, within), 500)


def test_real_numbers_keep_the_difference_to_the_last_digit():
    """The second is drawn beside the first itself, not beside its cell."""
    schema = Schema({"a": (0.0, 100.0), "b": (0.0, 100.0)})
    near = DifferenceLaw("a", "b", np.array([-1.0, 0.0, 1e-6, 1.0]), np.array([0.0, 1.0, 0.0]), False)
    grids, link = grids_of(schema), None
    n = grids["a"].n_cells
    link = Link(np.full(n, 1 / n), np.array([0, n // 3, n]))
    draw = DifferenceSampler.of(near, {name: Numbers.of(link, grids[name]) for name in schema})
    values, codes = {name: np.zeros(1000) for name in schema}, {name: np.arange(1000) % 2 for name in schema}
    draw.place(values, codes, np.random.default_rng(0))
    assert np.mean((values["b"] >= values["a"]) & (values["b"] - values["a"] <= 1.1e-6)) > 0.99


def test_a_filled_bin_knows_where_in_its_bin_the_other_number_lies(monkeypatch):
    """Frequencies of the end beside a start, against the law: one of several draws comes near to it, and a single one does not."""
    model, n = a_model(), 20_000
    joint = law(model)[6, 0, :12]  # 6 is the last of its bin

    def miss():
        to_fill = [np.full(n, name == "end") for name in SCHEMA]
        values = [np.full(n, 6.0), np.zeros(n, dtype=int), np.zeros(n)]
        out = sample_missing(model.law(), values, to_fill, np.random.default_rng(0))
        return np.abs(np.bincount(out[2].astype(int), minlength=12) / n - joint / joint.sum()).sum() / 2

    several = miss()
    monkeypatch.setattr(_conditional_sampling, "_CHOICES", 1)
    assert several < 0.05
    assert several < miss() / 3
