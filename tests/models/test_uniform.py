"""The model of a table of which only the schema is known."""

import numpy as np

from skdpsynth.domain import Continuous, Impossible, Nominal, Ordinal, Schema, ties_of
from skdpsynth.models import uniform_model


def drawn(schema, n, stratum=None, most_codes=64):
    schema = Schema.of(schema)
    columns = uniform_model(schema, stratum, ties_of(schema, schema.rules), most_codes).sample(n, np.random.default_rng(0))
    return dict(zip(schema, columns, strict=True))


def chi_squared(codes, n_codes):
    counts, expected = np.bincount(codes.astype(int), minlength=n_codes), len(codes) / n_codes
    return ((counts - expected) ** 2 / expected).sum()


def test_levels_are_uniform_and_a_missing_one_is_among_them():
    """Chi squared of 8000 rows with 3 degrees of freedom: above 21.1 once in 10,000."""
    columns = drawn({"a": Nominal(["x", "y", "z"], nullable=True), "b": Ordinal([1, 2, 3, 4]), "s": [0, 1, 2, 3]}, 8000, stratum="s")
    assert all(chi_squared(codes, 4) < 21.1 for codes in columns.values())


def test_numbers_are_uniform_and_none_is_missing():
    """Chi squared of 8000 rows with 9 degrees of freedom: above 33.7 once in 10,000."""
    columns = drawn({"x": Continuous(-1.0, 3.0, nullable=True, integer=False), "n": Continuous(0, 99, integer=True)}, 8000)
    assert chi_squared(np.floor((columns["x"] + 1) / 0.4), 10) < 33.7
    assert chi_squared(columns["n"] // 10, 10) < 33.7
    assert np.array_equal(columns["n"], np.rint(columns["n"]))


def test_very_many_levels_are_uniform():
    """Chi squared of 20,000 rows with 199 degrees of freedom: above 281.1 once in 10,000."""
    assert chi_squared(drawn({"a": Nominal([f"v{i}" for i in range(200)]), "b": [0, 1]}, 20_000)["a"], 200) < 281.1


def test_what_rules_leave_is_drawn_in_proportion():
    """Of nine combinations two cannot be. Chi squared of 7000 rows with 6 degrees of freedom: above 27.9 once in 10,000."""
    rule = Impossible({"a": [0], "b": [1, 2]})
    columns = drawn(Schema({"a": [0, 1, 2], "b": [0, 1, 2]}, rules=[rule]), 7000)
    both = 3 * columns["a"].astype(int) + columns["b"]
    assert not np.isin(both, [1, 2]).any()
    assert chi_squared(np.searchsorted([0, 3, 4, 5, 6, 7, 8], both), 7) < 27.9
