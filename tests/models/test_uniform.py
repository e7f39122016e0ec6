"""The model of a table of which only the schema is known."""

import numpy as np
from laws import ALARM, chi_squared

from skdpsynth.domain import Continuous, Impossible, Nominal, Ordinal, Schema, ties_of
from skdpsynth.models import uniform_model


def drawn(schema, n, stratum=None, most_codes=64):
    schema = Schema.of(schema)
    columns = uniform_model(schema, stratum, ties_of(schema, schema.rules), most_codes).sample(n, np.random.default_rng(0))
    return dict(zip(schema, columns, strict=True))


def p_value(codes, n_codes):
    return chi_squared(np.bincount(codes.astype(int), minlength=n_codes), np.ones(n_codes))


def test_levels_are_uniform_and_a_missing_one_is_among_them():
    columns = drawn({"a": Nominal(["x", "y", "z"], nullable=True), "b": Ordinal([1, 2, 3, 4]), "s": [0, 1, 2, 3]}, 8000, stratum="s")
    assert all(p_value(codes, 4) > ALARM for codes in columns.values())


def test_numbers_are_uniform_and_none_is_missing():
    columns = drawn({"x": Continuous(-1.0, 3.0, nullable=True, integer=False), "n": Continuous(0, 99, integer=True)}, 8000)
    assert p_value(np.floor((columns["x"] + 1) / 0.4), 10) > ALARM
    assert p_value(columns["n"] // 10, 10) > ALARM
    assert np.array_equal(columns["n"], np.rint(columns["n"]))


def test_what_rules_leave_is_drawn_in_proportion():
    """Of nine combinations two cannot be."""
    rule = Impossible({"a": [0], "b": [1, 2]})
    columns = drawn(Schema({"a": [0, 1, 2], "b": [0, 1, 2]}, rules=[rule]), 7000)
    both = 3 * columns["a"].astype(int) + columns["b"]
    assert not np.isin(both, [1, 2]).any()
    assert p_value(np.searchsorted([0, 3, 4, 5, 6, 7, 8], both), 7) > ALARM
