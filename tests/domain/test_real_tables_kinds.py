"""Tables as people have them: words for missing cells, decimals, constants, flags, other levels, decimals of databases."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sources import polars

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import (
    Boolean,
    Constant,
    Continuous,
    Date,
    Derived,
    Identifier,
    Inequality,
    MixedTypeEncoder,
    Nominal,
    Ordinal,
    Schema,
    Sum,
)
from skdpsynth.tables import columns_of

pytestmark = pytest.mark.filterwarnings("ignore")
N = 400
G = np.random.default_rng(0).choice(["p", "q"], N)


def sample(X, schema, n_samples=N, epsilon=float("inf")):
    model = LatentFactorSynthesizer(schema, n_factors=1, epsilon=epsilon, random_state=0).fit(X)
    return model.sample(n_samples, random_state=0)


def read_one(column, kind):
    return columns_of(pd.DataFrame({"x": pd.Series(column), "g": G[: len(column)]}), {"x": kind, "g": ["p", "q"]})["x"]


def test_sentinels_are_missing_in_each_kind():
    table = pd.DataFrame({"n": [-200, 5] * (N // 2), "w": ["?", "a"] * (N // 2), "d": ["1900-01-01", "2020-05-05"] * (N // 2), "g": G})
    schema = {
        "n": Continuous(0, 9, missing=[-200]),
        "w": Nominal(["a", "b"], missing=["?"], other="c"),
        "d": Date("2020-01-01", "2020-12-31", missing=["1900-01-01"]),
        "g": ["p", "q"],
    }
    back = sample(table, schema)
    for name in "nwd":
        assert back[name].isna().mean() == pytest.approx(0.5, abs=0.1), name
    assert set(back["w"].dropna()) == {"a"}


def test_a_sentinel_is_missing_before_clipping_and_counts_as_the_public_default_where_none_may_be_missing():
    assert read_one([-99.0, 5, 99], Continuous(0, 10, missing=[-99])).tolist()[1:] == [5, 10]
    assert read_one([-99.0, 5, 99], Continuous(0, 10, missing=[-99], nullable=False)).tolist() == [5, 5, 10]
    assert read_one(["?", "b", "x"], Nominal(["a", "b"], missing=["?"], nullable=False, other="c")).tolist() == [0, 1, 2]
    assert np.isnan(read_one(np.array([-9.9, 1], dtype="float32"), Continuous(0, 10, missing=[-9.9]))[0])


def test_a_sentinel_of_text_is_the_number_that_it_reads_as_and_the_other_way_round():
    assert np.isnan(read_one([9.0, 1], Continuous(0, 10, missing=["9"]))[0])
    assert read_one(["9", "1"], Nominal([1, 2], missing=[9])).tolist() == [2, 0]
    assert read_one([9, 1], Nominal([1, 2], missing=["9"], other=3)).tolist() == [3, 0]


def test_giving_what_is_missing_makes_a_kind_nullable_unless_it_is_said_not_to_be():
    for kind, bounds in ((Continuous, (0, 9)), (Date, ("2020-01-01", "2020-12-31")), (Nominal, (["a", "b"],)), (Boolean, ())):
        assert kind(*bounds, missing=["?"]).nullable
        assert kind(*bounds, missing="?") == kind(*bounds, missing=["?"])
        assert not kind(*bounds, missing=["?"], nullable=False).nullable
        assert not kind(*bounds).nullable


@pytest.mark.parametrize("words", [None, (1, 2), (2, 1), (1, 0), ("1", "2"), ("no", "yes"), (0, 1), ("J", "N")], ids=str)
def test_a_truth_value_is_read_by_itself_whatever_other_cells_make_of_its_dtype(words):
    """So a word among numbers, by which pandas reads all of them as text, moves no other row."""
    kind = Boolean(words=words, nullable=True)
    cells = [0, 1, 2, "0", "1", "2", "1.0", 1.0, True, False, "true", "False", np.bool_(True), np.int8(1), "yes", "no", None, "x", 3]
    alone = [columns_of(pd.DataFrame({"b": pd.Series([cell], dtype=object)}), {"b": kind})["b"][0] for cell in cells]
    assert columns_of(pd.DataFrame({"b": cells}, dtype=object), {"b": kind})["b"].tolist() == alone
    dtypes = {"int64": [0, 1, 2, 3], "float64": [0.0, 1.0, 2.0], "uint8": [2, 1], "Int64": [1, None, 2], "bool": [True, False]}
    for dtype, values in dtypes.items():
        column = pd.Series(values, dtype=dtype)
        as_text = pd.Series([None if cell is None else str(cell) for cell in values], dtype=object)
        same = [columns_of(pd.DataFrame({"b": each}), {"b": kind})["b"].tolist() for each in (column, as_text)]
        assert same[0] == same[1], dtype


WHOLE = [Continuous(0, 9), Continuous(bounds="private"), Nominal([0, 1, 2], nullable=True), Boolean(nullable=True)]


@pytest.mark.parametrize("kind", [*WHOLE, Constant("north"), Identifier(labels="P"), Derived("x * 2")], ids=repr)
def test_one_huge_number_or_word_changes_no_dtype_that_comes_back_and_no_chunk(kind):
    def made(cell):
        return pd.DataFrame({"a": pd.Series([1, 0, cell, 2] * 25, dtype="uint64" if cell else "int64"), "x": np.arange(100) % 9 * 1.0})

    model = LatentFactorSynthesizer({"a": kind, "x": (0.0, 9.0)}, epsilon=5.0, delta=1e-6, random_state=0)
    whole = [clone(model).fit(X) for X in (made(1).astype({"a": "int64"}), made(2**64 - 1))]
    assert len({str(each.sample(3).dtypes.to_dict()) for each in whole}) == 1
    assert len({(each.accountant_.ledger[0].name, each.accountant_.ledger[0].n_values) for each in whole}) == 1
    words = made(1).assign(a="north" if isinstance(kind, Constant) else "1")
    missing = made(1).astype({"a": float}).assign(a=np.nan)
    clone(model).fit([made(1).astype({"a": "int64"}), made(2**64 - 1), words, missing])
    for X in (words, missing):
        clone(model).fit(X)


def test_whole_levels_that_floats_do_not_hold_need_a_dtype_that_stays():
    levels, cells = Nominal([2**53 + 1, 2**53 + 3], nullable=True), [2**53 + 1, 2**53 + 3] * 10
    for column in (pd.Series(cells), pd.Series([*cells[1:], None]), pd.Series([*map(str, cells[1:]), "x"])):
        with pytest.raises(TypeError, match=r"column 'a' has a dtype that pandas infers, [^\n]*; convert it to Int64"):
            MixedTypeEncoder({"a": levels}).fit(pd.DataFrame({"a": column}))
    assert columns_of(pd.DataFrame({"a": pd.array([*cells, None], "Int64")}), {"a": levels})["a"].tolist() == [0, 1] * 10 + [2]


def test_rows_are_multiples_of_the_step_within_the_bounds_and_print_as_such():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.choice([0.05, 0.1, 0.15, 0.2], N), "c": rng.normal(50, 20, N), "t": rng.integers(1, 9, N) * 25, "g": G})
    schema = {"p": Continuous(0, 0.3, step=0.05), "c": Continuous(0.005, 100, decimals=2), "t": Continuous(10, 210, step=25)}
    back = sample(table, schema | {"g": ["p", "q"]}, epsilon=1.0)
    assert set(map(str, back["p"])) <= {"0.0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}
    assert max(len(str(cell).partition(".")[2]) for cell in back["c"]) == 2
    assert back["c"].between(0.01, 100).all()
    assert set(back["t"]) <= set(range(25, 201, 25))
    assert str(back["t"].dtype) == "int64"


def test_rules_hold_between_rounded_cells():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(N) * 9, "b": rng.random(N) * 9}).assign(low=rng.random(N) * 50, high=50 + rng.random(N) * 50)
    table = table.assign(total=table.a + table.b, double=2 * table.a)
    schema = {"a": Continuous(0, 9, decimals=1), "b": Continuous(0, 9, decimals=1), "low": Continuous(0, 100, decimals=2)}
    schema |= {"high": Continuous(0, 100, step=25), "total": Continuous(0, 18, decimals=1), "double": Derived("2 * a")}
    facts = Schema(schema, rules=[Inequality("low", "high"), Sum(["a", "b"], "total")])
    back = sample(table, facts, epsilon=1.0)
    assert (back["low"] <= back["high"]).all()
    assert ((back["a"] + back["b"]).round(1) == back["total"]).all()
    assert (back["double"] == 2 * back["a"]).all()


def test_imputed_cells_are_rounded_and_sentinels_are_imputed():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"c": rng.random(N).round(2), "b": rng.random(N) < 0.5, "g": G})
    schema = {"c": Continuous(0.0, 1.0, decimals=2, missing=[-1]), "b": Boolean(words=("n", "y")), "g": ["p", "q"]}
    model = LatentFactorSynthesizer(schema, n_factors=1, epsilon=float("inf"), random_state=0).fit(table)
    whole = model.impute(pd.DataFrame({"c": [-1, 0.25, np.nan], "b": [True, True, False], "g": ["p", None, "q"]}), random_state=0)
    assert whole["c"].between(0, 1).all()
    assert (whole["c"].round(2) == whole["c"]).all()
    assert whole["c"][1] == 0.25


@pytest.mark.parametrize(("condition", "cells"), [({"p": (0.1, 0.2)}, {0.1, 0.15, 0.2}), ({"p": 0.15}, {0.15}), ({"b": "yes"}, {True})])
def test_conditions_hold_on_cells_as_they_come_back(condition, cells):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"p": rng.integers(0, 7, N) / 20, "b": rng.random(N) < 0.5})
    schema = {"p": Continuous(0, 0.3, step=0.05, missing=[0.05]), "b": Boolean()}
    model = LatentFactorSynthesizer(schema, n_factors=1, epsilon=float("inf"), random_state=0).fit(table)
    assert set(model.sample(200, conditions=condition, random_state=0)[next(iter(condition))]) == cells


def test_a_constant_comes_back_in_every_row_and_costs_nothing():
    table = pd.DataFrame({"k": [80] * N, "w": "x", "d": pd.Timestamp("2020-01-01"), "g": G})
    schema = {"k": Constant(80), "w": Constant("x"), "d": Constant(datetime.date(2020, 1, 1)), "g": ["p", "q"]}
    for back in (sample(table, schema), pd.DataFrame(sample(polars(table), schema).to_dict(as_series=False))):
        assert ({*back["k"]}, {*back["w"]}, {*back["d"]}) == ({80}, {"x"}, {pd.Timestamp("2020-01-01")})
        assert (str(back["k"].dtype), back["d"].dtype.kind) == ("int64", "M")
    assert list(Schema(schema).coded) == ["g"]


def test_one_level_or_equal_bounds_name_the_way_out():
    for make in (lambda: Nominal([80]), lambda: Schema({"k": (80, 80)})):
        with pytest.raises(ValueError, match=r"Constant\(value\)"):
            make()


def test_truth_values_are_read_however_they_are_written():
    flags = pd.DataFrame({"b": ["yes", "No", "Y", "n", "TRUE", "false", "t", "F", "1", "0"]})
    for X in (flags, polars(flags)):
        assert columns_of(X, {"b": Boolean(nullable=True)})["b"].tolist() == [1, 0] * 5


def test_truth_values_of_a_dtype_come_back_in_it():
    frame = pl.DataFrame({"b": [True, False] * 50, "i": pl.Series([1, 0] * 50, dtype=pl.Int8), "g": G[:100]})
    back = sample(frame, {"b": Boolean(words=("n", "y")), "i": Boolean(), "g": ["p", "q"]})
    assert dict(back.schema) == dict(frame.schema)
    flags = sample(pd.DataFrame({"i": [0, 1] * 50, "g": G[:100]}), {"i": Boolean(words=(0, 1)), "g": ["p", "q"]})
    assert str(flags["i"].dtype) == "int64"


def test_short_forms_of_lists_are_the_lists():
    assert Ordinal("1..4").levels == (1, 2, 3, 4)
    assert Nominal("A..C, 9").levels == ("A", "B", "C", 9)
    assert Nominal("-1..1").levels == (-1, 0, 1)
    for wrong in ("9..1", "01..12", "a..Z9", "1..", "..", "1.5..2", "0..99999999999"):
        with pytest.raises(ValueError, match=r"^levels must be"):
            Nominal(wrong)


def test_ordinal_whole_numbers_that_may_be_missing_come_back_as_such():
    table = pd.DataFrame({"q": [1, 2, None, 3] * 100, "g": G})
    assert str(sample(table, {"q": Ordinal("1..3", nullable=True), "g": ["p", "q"]})["q"].dtype) == "Int64"


def decimals(library):
    pa = pytest.importorskip("pyarrow")
    some = [None if i % 8 == 0 else decimal.Decimal(i).scaleb(-2) for i in range(N)]
    table = pa.table({"d": pa.array(some, pa.decimal128(10, 2)), "g": G.tolist()})
    if library == "duckdb":
        return pytest.importorskip("duckdb").connect().from_arrow(table)
    return pl.from_arrow(table) if library == "polars" else table if library == "arrow" else table.to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("library", ["arrow", "polars", "pandas", "duckdb", "parquet"])
def test_decimals_are_numbers_and_come_back_as_decimals(library, tmp_path):
    if library == "parquet":
        decimals("polars").write_parquet(tmp_path / "d.parquet")
    X, schema = tmp_path / "d.parquet", {"d": Continuous(0.0, 4.0, nullable=True), "g": ["p", "q"]}
    X = X if library == "parquet" else decimals(library)
    back = sample(X, schema)
    dtypes = ("decimal128(10, 2)", "decimal128(10, 2)[pyarrow]", "Decimal(precision=10, scale=2)")
    assert str(back["d"].dtype if hasattr(back["d"], "dtype") else back["d"].type) in dtypes
    if library not in ("duckdb", "parquet"):
        np.testing.assert_array_equal(columns_of(X, schema)["d"], [np.nan if i % 8 == 0 else i / 100 for i in range(N)])
    assert (back if isinstance(back, pd.DataFrame) else back.to_pandas())["d"].isna().mean() == pytest.approx(1 / 8, abs=0.08)
    assert Schema.skeleton(X)["d"] == Continuous(bounds="open", decimals=2)


@pytest.mark.parametrize("precision", [9, 18, 38])
def test_decimals_are_the_floats_that_they_read_as(precision):
    rng = np.random.default_rng(0)
    pa = pytest.importorskip("pyarrow")
    some = [decimal.Decimal(int(each)).scaleb(-3) for each in rng.integers(-(10 ** min(precision, 18)) + 1, 10 ** min(precision, 18), 500)]
    table = pa.table({"d": pa.array(some, pa.decimal128(precision, 3))})
    wide = {"d": Continuous(-1e16, 1e16)}
    for X in (table, table.slice(7), pl.from_arrow(table), table.to_pandas(types_mapper=pd.ArrowDtype)):
        np.testing.assert_array_equal(columns_of(X, wide)["d"], list(map(float, some[500 - len(X) :])))


def test_check_proposes_sentinels_decimals_and_steps():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": np.where(rng.random(N) < 0.2, -200, rng.integers(0, 50, N)), "c": rng.random(N).round(2)})
    table = table.assign(t=rng.integers(1, 9, N) * 25, p=rng.integers(1, 9, N) / 20, r=rng.random(N))
    found = Schema({"s": (0, 50), "c": (0.0, 1.0), "t": (0, 999), "p": (0.0, 1.0), "r": (0.0, 1.0)}).check(table)
    told = {(note.column, note.problem): note.told for note in found.notes}
    assert told.keys() == {("s", "sentinel"), ("c", "decimals"), ("t", "step"), ("p", "step")}
    assert "widen the bounds, or, if they stand for missing cells, say missing=[-200]" in told["s", "sentinel"]
    assert "step=25 " in told["t", "step"]
    assert "step=0.05 " in told["p", "step"]
    assert "you state it as a public fact" in str(found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Continuous(0, 9, missing={"?": 1}), "missing must be a word"),
        (lambda: Continuous(0, 9, missing=[[1]]), "missing must be a word"),
        (lambda: Nominal(["a", "?"], missing=["?"]), "missing must be no level"),
        (lambda: Continuous(0, 9, decimals=2, step=0.1), "step must be left out"),
        (lambda: Continuous(0, 9, decimals=-1), "decimals must be"),
        (lambda: Continuous(0, 9, step=0), "step must be"),
        (lambda: Continuous(1, 9, step=20), "bounds must hold a multiple"),
        (lambda: Continuous(1, 9, integer=True, step=0.5), "integer must be False"),
        (lambda: Nominal("private", other="x"), "other must be None"),
        (lambda: Boolean(words=("a", "b", "c")), "words must be two"),
        (lambda: Boolean(words=("a", "a")), "levels must be distinct"),
        (lambda: Constant(None), "value must be"),
        (lambda: Constant([1]), "value must be"),
    ],
)
def test_what_is_no_fact_is_refused(make, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        make()
