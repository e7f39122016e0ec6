"""Schemas whose bounds or levels are bought: how cells are read until then, and after."""

import math

import numpy as np
import pandas as pd
import pytest
from internals import ApplyPrivateFacts, level_cells, split_columns
from sources import Evil

from skdpsynth.domain import Continuous, Nominal, Schema
from skdpsynth.tables import columns_without_bounds, read_columns, with_levels, with_placeholder_kinds

OPEN = Schema({"x": Continuous(bounds="private"), "n": Continuous(bounds="private", integer=True, nullable=True), "w": Nominal("private")})


def test_strings_and_whole_numbers_are_levels_and_anything_else_is_missing():
    cells = ["a", "", np.str_("b"), 3, np.int8(3), 3.0, np.float32(3), True, np.True_, -7, 2**63, "ä"]
    assert level_cells(cells).tolist() == ["a", "", "b", 3, 3, 3, 3, 1, 1, -7, 2**63, "ä"]
    junk = [None, math.nan, 2.5, math.inf, 1e300, 2**64, -(2**63) - 1, pd.NA, pd.NaT, b"a", (1,), [1], {}, 3j, Evil(), "x" * 101, "\ud800"]
    junk += [np.timedelta64(1, "D"), np.datetime64("2020-01-01")]
    assert level_cells(junk).tolist() == [None] * len(junk)
    # Equal cells are of one type: else which of them came first would tell of rows.
    assert {type(level) for level in level_cells([1, 1.0, True, np.int64(1), np.float16(1)])} == {int}


def frame():
    return pd.DataFrame({"x": [0.5, math.nan, 1e9], "n": [2.4, math.nan, -1e9], "w": ["a", None, "b"]})


def test_without_bounds_and_levels_cells_are_read_as_they_stand():
    table, raw = split_columns(frame())
    x, n, w = read_columns(raw, OPEN, table.dtypes)
    np.testing.assert_array_equal(x, [0.5, math.nan, 1e9])
    np.testing.assert_array_equal(n, [2, math.nan, -1e9])
    assert w.tolist() == ["a", None, "b"]


@pytest.mark.parametrize("nullable", [True, False])
def test_closed_columns_are_those_that_the_closed_schema_reads(nullable):
    kinds = [Continuous(-1.0, 3.0), Continuous(-2, 5, nullable=nullable), Nominal(["z", "b", "a"], nullable=nullable)]
    closed = Schema(dict(zip(OPEN, kinds, strict=True)))
    table, raw = split_columns(frame())
    expected = read_columns(raw, closed, table.dtypes)
    for got, wanted in zip(ApplyPrivateFacts(dict(enumerate(kinds)))(read_columns(raw, OPEN, table.dtypes)), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_what_is_public_of_unknown_columns_follows_from_dtypes():
    unknown = columns_without_bounds(OPEN, ("float32", "int64", "object"))
    assert unknown.columns == (0, 1)
    assert unknown.least.tolist() == [-float(np.finfo("float32").max), -(2.0**53)]
    assert unknown.whole.tolist() == [False, True]
    assert columns_without_bounds(Schema({"x": (0, 1)}), ("int64",)) is None


def test_made_up_kinds_are_stated():
    schema = with_placeholder_kinds(OPEN, 65)
    assert not any(kind.stand_in for kind in schema.values())
    assert (schema["n"].integer, schema["n"].nullable, schema["w"].n_codes) == (True, True, 65)


def test_levels_that_are_found_are_completed_by_a_public_rule():
    for nullable, found, dtype, levels in [
        (True, ["a", "b"], "object", ("a", "b")),
        (False, ["a", "b"], "str", ("other", "a", "b")),
        (False, ["a", "other"], "str", ("other", "a")),
        (False, [], "str", ("other", "none")),
        (True, [], "str", ("other", "none")),
        (True, ["none"], "str", ("none", "other")),
        (False, [3, 5], "int64", (3, 5)),
        (False, [1], "int64", (1, 0)),
        (False, [0], "bool", (0, 1)),
        (False, [7], "uint8", (7, 0)),
        (False, [], "float64", (0, 1)),
    ]:
        assert with_levels(Nominal("private", nullable=nullable), found, dtype).levels == levels


GROUPED = Nominal(["10115", "10117", "80331"], groups={"10115": "Berlin", "10117": "Berlin", "80331": "Munich"})


def test_groups_are_numbered_in_the_order_in_which_they_come():
    assert GROUPED.group_numbers.tolist() == [0, 0, 1]
    assert Nominal(GROUPED.levels, groups=1).group_numbers.tolist() == [0, 0, 1]
    assert Nominal(GROUPED.levels, groups=["b", "a", "b"]).group_numbers.tolist() == [0, 1, 0]
    assert Nominal(GROUPED.levels).group_numbers.tolist() == [0, 0, 0]


def test_groups_survive_files():
    for kind in (GROUPED, Nominal(GROUPED.levels, groups=2), Nominal("private", groups=2)):
        schema = Schema({"plz": kind})
        assert Schema.from_json(schema.to_json()) == schema
        pytest.importorskip("yaml")
        assert Schema.from_yaml(schema.to_yaml()) == schema


def test_groups_that_do_not_fit_are_refused():
    for groups in (0, -1, 1.5, "ab", ["a"], {"10115": 1}, [1, 2, None], {1, 2}, True):
        with pytest.raises(ValueError, match="groups must"):
            Nominal(GROUPED.levels, groups=groups)
    for levels, groups in [("private", {"a": "b"}), ([1, 2, 3], 1)]:  # levels that are not stated are grouped by prefixes
        with pytest.raises(ValueError, match="groups must"):
            Nominal(levels, groups=groups)
