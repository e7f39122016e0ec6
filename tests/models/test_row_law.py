"""The law of the rows of a table on conditions, against enumeration; and of one of which only the schema is known."""

from functools import reduce
from itertools import product

import numpy as np
import pytest
from internals import RefinedBins, quasi_normal, sample_missing
from laws import ALARM, CERTAIN, chi_squared, has_law

from skdpsynth.domain import AllowedCells, Continuous, Impossible, Nominal, Ordinal, Schema, ties_of
from skdpsynth.models import LatentFactors, LevelGroups, Link, TableModel, uniform_model

SCHEMA = Schema(
    {"group": ["a", "b", "c"], "age": Continuous(0, 9, nullable=True), "job": Nominal(["x", "y", "z"]), "town": Nominal(list(range(6)))}
)
EDGES = np.array([0, 3, 4, 8, 10])
ORDER = np.array([4, 0, 2, 1, 5, 3])


def a_model(seed=0):
    """A stratum, a number in four bins, three levels, and six levels in two codes: so few rows that all can be listed."""
    rng = np.random.default_rng(seed)
    age, town = rng.dirichlet(np.ones(10)), rng.dirichlet(np.ones(6))
    age[1] = age[8] = age[9] = 0  # the last bin has no mass: its cells count alike
    links = {"age": Link(age, EDGES), "town": LevelGroups(ORDER, Link(town, np.array([0, 2, 6])))}
    sizes = np.array([5, 3, 2])
    a, B = rng.normal(0, 1, (2, 3, 10)), 1.5 * rng.normal(size=(2, 3, 10, 2))
    factors = LatentFactors(sizes, quasi_normal(8, 2), a, B)
    return TableModel(SCHEMA, "group", np.array([0.5, 0.3, 0.2]), ((0, 1, 2),), (factors,), links)


def parts_of(link, n_bins):
    """P(cell | bin) of each cell, and its bin."""
    bins = np.searchsorted(link.edges, np.arange(len(link.mass)), side="right") - 1
    out = np.zeros(len(link.mass))
    for b in range(n_bins):
        mass = link.mass[bins == b]
        out[bins == b] = mass / mass.sum() if mass.sum() else 1 / len(mass)
    return bins, out


def law(model):
    """P(group, age or missing, job, town) of each row, shape (3, 11, 3, 6), by enumeration."""
    out, finer = np.zeros((3, 11, 3, 6)), RefinedBins.of(model.links["age"])
    n_bins = finer.link.n_bins
    (age_bins, in_age), (town_bins, in_town) = (parts_of(link, n) for link, n in ((finer.link, n_bins), (model.links["town"].link, 2)))
    for group, weight in enumerate(model.weights):
        P = np.split(model.factors[0].probabilities(group), [5, 8])
        P[0] = finer.probabilities(P[0])
        joint = np.einsum("ik,jk,lk->ijl", *P) / P[0].shape[1]
        for age, job, cell in product(range(11), range(3), range(6)):
            code, inside = (n_bins, 1.0) if age == 10 else (age_bins[age], in_age[age])
            out[group, age, job, ORDER[cell]] += weight * joint[code, job, town_bins[cell]] * inside * in_town[cell]
    return out


def among(*numbers, missing=False):
    return AllowedCells(among=np.array(numbers), missing=missing)


CONDITIONS = {
    "stratum": ({"group": among(0, 2)}, [[0, 2], range(11), range(3), range(6)]),
    "range": ({"age": AllowedCells(2.0, 5.0)}, [range(3), range(2, 6), range(3), range(6)]),
    "whole numbers": ({"age": among(0, 3, 9)}, [range(3), [0, 3, 9], range(3), range(6)]),
    "numbers or missing": ({"age": among(7, missing=True)}, [range(3), [7, 10], range(3), range(6)]),
    "missing": ({"age": among(missing=True), "job": among(1)}, [range(3), [10], [1], range(6)]),
    "levels of many": ({"town": among(1, 4, 5), "age": AllowedCells(0, 8)}, [range(3), range(9), range(3), [1, 4, 5]]),
    "all": ({"group": among(1), "age": AllowedCells(3, 3), "job": among(0, 2), "town": among(2)}, [[1], [3], [0, 2], [2]]),
}


def codes_of(columns):
    """Rows of values as numbers of `law`."""
    age = np.where(np.isnan(columns[1]), 10, columns[1])
    return tuple(np.asarray(column, dtype=float).astype(int) for column in (columns[0], age, columns[2], columns[3]))


def p_value(codes, joint, within):
    """Chi squared of rows of codes against a law on some of them; 0 if any other occurs. Rows of one sample are evener."""
    observed, expected = np.zeros(joint.shape), np.zeros(joint.shape)
    np.add.at(observed, tuple(codes), 1)
    expected[np.ix_(*within)] = joint[np.ix_(*within)]
    return chi_squared(observed, expected)


def independent(joint, within):
    """Return the law of columns that have the frequencies of a law on some rows, and nothing to do with each other."""
    joint, out = joint[np.ix_(*within)], np.zeros(joint.shape)
    margins = (joint.sum(axis=tuple({*range(joint.ndim)} - {axis})) for axis in range(joint.ndim))
    out[np.ix_(*within)] = reduce(np.multiply.outer, margins)
    return out


@pytest.mark.parametrize("name", CONDITIONS)
def test_rows_on_a_condition_have_its_law_and_its_probability(name):
    """20,000 rows, and the first ones of samples of three; where more than one column is left free, independent columns fail."""
    (wanted, within), joint, rng = CONDITIONS[name], law(a_model(1)), np.random.default_rng(3)
    conditional, probability = a_model(1).law().condition(wanted)
    assert probability == pytest.approx(joint[np.ix_(*within)].sum(), rel=1e-12)
    codes = codes_of(conditional.sample(20_000, rng))
    assert p_value(codes, joint, within) > ALARM
    assert name == "all" or p_value(codes, independent(joint, within), within) < CERTAIN

    def first_rows(n):
        return np.array([[column[0] for column in conditional.sample(3, rng)] for _ in range(n)]).T

    assert name != "numbers or missing" or has_law(first_rows, lambda rows: p_value(codes_of(rows), joint, within), 500)


# The first is a cell without mass in a bin that has some.
@pytest.mark.parametrize("wanted", [{"age": among(1)}, {"job": among()}, {"group": among(), "age": AllowedCells(0, 9)}])
def test_conditions_that_the_model_excludes_have_probability_0(wanted):
    law_ = a_model().law()
    assert law_.condition(wanted) == (law_, 0.0)


def test_a_stratum_without_weight_gets_no_row_whatever_rounding_does():
    model = a_model()
    law_ = TableModel(SCHEMA, "group", np.array([0.1, 0.9, 0.0]), model.blocks, model.factors, model.links).law()
    conditional, _ = law_.condition({"job": among(0, 1)})
    assert conditional.mixtures[2] is None
    assert set(conditional.sample(100_000, np.random.default_rng(0))[0]) == {0, 1}


PATTERNS = {
    "age": (["age"], (1, None, 2, 3)),
    "group": (["group"], (None, 4.0, 1, 0)),
    "group and town": (["group", "town"], (None, np.nan, 0, None)),
    "all": (list(SCHEMA), (None, None, None, None)),
    "job": (["job"], (2, 1.0, None, 5)),  # a cell without mass is known by its bin
}


@pytest.mark.parametrize("name", PATTERNS)
def test_filled_cells_have_the_law_given_the_others(name):
    """20,000 rows of one kind; the law whatever the others are fails."""
    columns, row = PATTERNS[name]
    model, n = a_model(2), 20_000
    values = [np.full(n, 0.0 if cell is None else cell) for cell in row]
    values = [column if name == "age" else column.astype(int) for name, column in zip(SCHEMA, values, strict=True)]
    rows = sample_missing(model.law(), values, [np.full(n, name in columns) for name in SCHEMA], np.random.default_rng(4))
    joint, within = law(model), [range(3), range(10), range(3), range(6)]
    for place, (column, cell) in enumerate(zip(SCHEMA, row, strict=True)):
        if column not in columns:
            within[place] = [10 if cell != cell else int(cell)]
    whatever = np.zeros(joint.shape)
    whatever[np.ix_(*within)] = independent(joint, [range(3), range(11), range(3), range(6)])[np.ix_(*within)]
    if name == "job":  # P(job | bin of age): of the mass of a cell there is none to divide by
        joint[:, 1] = joint[:, 0]
    assert p_value(codes_of(rows), joint, within) > ALARM
    assert p_value(codes_of(rows), whatever, within) < CERTAIN


def drawn_of(schema, n, stratum=None, most_codes=64):
    schema = Schema.of(schema)
    columns = uniform_model(schema, stratum, ties_of(schema, schema.rules), most_codes).sample(n, np.random.default_rng(0))
    return dict(zip(schema, columns, strict=True))


def p_of_uniform(codes, n_codes):
    return chi_squared(np.bincount(codes.astype(int), minlength=n_codes), np.ones(n_codes))


def test_levels_are_uniform_and_a_missing_one_is_among_them():
    columns = drawn_of({"a": Nominal(["x", "y", "z"], nullable=True), "b": Ordinal([1, 2, 3, 4]), "s": [0, 1, 2, 3]}, 8000, stratum="s")
    assert all(p_of_uniform(codes, 4) > ALARM for codes in columns.values())


def test_numbers_are_uniform_and_none_is_missing():
    columns = drawn_of({"x": Continuous(-1.0, 3.0, nullable=True, integer=False), "n": Continuous(0, 99, integer=True)}, 8000)
    assert p_of_uniform(np.floor((columns["x"] + 1) / 0.4), 10) > ALARM
    assert p_of_uniform(columns["n"] // 10, 10) > ALARM
    assert np.array_equal(columns["n"], np.rint(columns["n"]))


def test_what_rules_leave_is_drawn_in_proportion():
    """Of nine combinations two cannot be."""
    rule = Impossible({"a": [0], "b": [1, 2]})
    columns = drawn_of(Schema({"a": [0, 1, 2], "b": [0, 1, 2]}, rules=[rule]), 7000)
    both = 3 * columns["a"].astype(int) + columns["b"]
    assert not np.isin(both, [1, 2]).any()
    assert p_of_uniform(np.searchsorted([0, 3, 4, 5, 6, 7, 8], both), 7) > ALARM
