"""Filled cells and rules: cells that are there stay, and all rules that these leave open hold."""

import numpy as np
import pandas as pd
import pytest
from test_rules_kept import TWELVE, broken, fitted, patients

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer
from skdpsynth.domain import Continuous, Determines, Impossible, Inequality, MissingTogether, Schema, Sum, Unique

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsynth.exceptions.SmallSampleWarning",
    "ignore::skdpsynth.exceptions.BudgetWarning",
    "ignore::skdpsynth.exceptions.InsecureRandomnessWarning",
)
N = 800
RNG = np.random.default_rng(1)
NAMES = ["p", "q", "r"]
CASES = {
    "chain": (
        Schema(dict.fromkeys("abc", (0.0, 9.0)), rules=[Inequality("a", "b"), Inequality("b", "c")]),
        dict(zip("abc", 9 * RNG.random((3, N)), strict=True)),
    ),
    "impossible": (
        Schema({"a": NAMES, "b": (0, 9), "c": NAMES}, rules=[Impossible({"a": "p", "b": (0, 4)}), Impossible({"b": (5, 7), "c": "q"})]),
        {"a": RNG.choice(NAMES, N), "b": RNG.integers(0, 10, N), "c": RNG.choice(NAMES, N)},
    ),
    "determined": (
        Schema(
            {"a": NAMES, "b": (0, 9), "c": ["x", "y"]},
            rules=[Determines("a", "b", {"p": 1, "q": 2, "r": 2}), Determines("a", "c", {"p": "x", "q": "x", "r": "y"})],
        ),
        {"a": RNG.choice(NAMES, N), "b": RNG.integers(0, 10, N), "c": RNG.choice(["x", "y"], N)},
    ),
    "determined by two": (
        Schema(
            {"a": NAMES, "b": NAMES, "c": (0, 9)}, rules=[Determines(["a", "b"], "c", {(x, y): (x == y) + 0 for x in NAMES for y in NAMES})]
        ),
        {"a": RNG.choice(NAMES, N), "b": RNG.choice(NAMES, N), "c": RNG.integers(0, 10, N)},
    ),
    "sum": (
        Schema({"a": (0, 9), "b": (0, 9), "t": (2, 15)}, rules=[Sum(["a", "b"], "t")]),
        dict(zip("abt", RNG.integers(0, 9, (3, N)), strict=True)),
    ),
    "together": (
        Schema({name: Continuous(0, 9, nullable=True) for name in "ab"}, rules=[MissingTogether(["a", "b"])]),
        dict(zip("ab", RNG.integers(0, 10, (2, N)).astype(float), strict=True)),
    ),
    "key": (Schema({"k": (0, 999), "w": NAMES}, rules=[Unique(["k", "w"])]), {"k": RNG.integers(0, 1000, N), "w": RNG.choice(NAMES, N)}),
}


def with_holes(rows, share=0.4, seed=0):
    rng, out = np.random.default_rng(seed), rows.copy()
    for name in out:
        out[name] = out[name].where(rng.random(len(out)) > share)
    return out


def of_case(name):
    schema, table = CASES[name]
    model = fitted(pd.DataFrame(table), schema)
    return schema, model, with_holes(model.sample(600, random_state=1))


@pytest.mark.parametrize("name", list(CASES))
def test_rows_that_can_keep_rules_keep_them_and_no_cell_changes(name):
    schema, model, rows = of_case(name)
    filled = model.impute(rows, random_state=0)
    assert broken(filled, schema) == {}
    assert not filled.isna().any().any()
    for column in rows:
        known = rows[column].notna()
        assert (filled[column][known].to_numpy() == rows[column][known].to_numpy()).all()


def test_given_cells_that_break_a_rule_stay_and_other_rules_hold():
    _, model, _ = of_case("chain")
    filled = model.impute(pd.DataFrame({"a": [8.0] * 50, "b": [3.0] * 50, "c": [None] * 50}), random_state=0)
    assert (filled["a"] == 8).all()
    assert (filled["b"] == 3).all()
    assert (filled["c"].astype(float) >= 3).all()


def test_a_level_has_the_law_of_those_that_have_the_value_that_is_there():
    """Within six standard deviations."""
    _, model, _ = of_case("determined")
    filled = model.impute(pd.DataFrame({"a": [None] * 2000, "b": [2.0] * 2000}), random_state=0)
    drawn = model.sample(20_000, random_state=1)["a"].value_counts()
    share = drawn["q"] / (drawn["q"] + drawn["r"])
    assert set(filled["a"]) == {"q", "r"}
    assert (filled["a"] == "q").mean() == pytest.approx(share, abs=6 * 0.5 / 2000**0.5)


def test_a_part_is_what_total_and_other_parts_leave():
    _, model, _ = of_case("sum")
    filled = model.impute(pd.DataFrame({"a": [3.0, None], "b": [None, 2.0], "t": [10.0, 9.0]}), random_state=0)
    assert filled.astype(int).to_numpy().tolist() == [[3, 7, 10], [7, 2, 9]]


def test_a_cell_that_rules_leave_no_value_stays_missing():
    schema = Schema(
        {"smokes": ["no", "yes"], "cigarettes": Continuous(0, 40, nullable=True)},
        rules=[Impossible({"smokes": "no", "cigarettes": (0, 40)})],
    )
    smokes = RNG.choice(["no", "yes"], N)
    table = pd.DataFrame({"smokes": smokes, "cigarettes": np.where(smokes == "yes", RNG.integers(0, 40, N), np.nan)})
    model = fitted(table, schema)
    filled = model.impute(pd.DataFrame({"smokes": ["no", "yes", None] * 200, "cigarettes": [None] * 600}), random_state=0)
    assert (filled["cigarettes"].isna() == (filled["smokes"] == "no")).all()
    assert set(filled["smokes"][2::3]) == {"no", "yes"}


def test_conditions_on_a_determined_column_are_those_on_its_levels():
    _, model, _ = of_case("determined")
    rows = model.sample(300, random_state=0, conditions={"b": 2})
    pd.testing.assert_frame_equal(rows, model.sample(300, random_state=0, conditions={"a": ["q", "r"]}))
    assert set(model.sample(50, conditions={"b": (2, None), "c": "x"})["a"]) == {"q"}
    with pytest.raises(ValueError, match="values that Determines maps to"):
        model.sample(5, conditions={"b": 7})
    with pytest.raises(ValueError, match="leave nothing"):
        model.sample(5, conditions={"b": 1, "c": "y"})


def test_conditions_on_what_two_columns_determine_together_are_refused():
    _, model, _ = of_case("determined by two")
    with pytest.raises(ValueError, match="follows from 'a', 'b'; name these"):
        model.sample(5, conditions={"c": 1})


def test_twelve_rules_hold_in_a_sample_of_a_stream_and_in_its_batches():
    model = OnlineSynthesizer(synthesizer=LatentFactorSynthesizer(TWELVE), epsilon=1.0, delta=1e-6, random_state=0)
    model.partial_fit(patients(4000))
    assert len(model.blocks_) > 1
    assert broken(model.sample(4900, random_state=0), TWELVE) == {}
    assert broken(pd.concat(model.sample_batches(4900, 700, random_state=0)), TWELVE) == {}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_key_that_its_dtype_cannot_hold_is_refused(dtype):
    most = {"float32": 2**24 + 1, "int8": 128}[dtype]
    frame = pd.DataFrame({"k": np.arange(100).astype(dtype), "b": np.arange(100) % 3})
    with pytest.raises(TypeError, match=f"its dtype, {dtype}, cannot hold all values"):
        fitted(frame, Schema({"k": (0, most), "b": (0, 2)}, rules=[Unique("k")]))
    fitted(frame, Schema({"k": (0, most - 1), "b": (0, 2)}, rules=[Unique("k")]))
