"""Rules and derived columns of a schema, in Python, as text and in files: what is refused, and what is computed."""

import itertools
import json
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from internals import Orders, axis_of, in_order

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import (
    Continuous,
    Date,
    DateTime,
    Derived,
    Determines,
    Identifier,
    Impossible,
    Inequality,
    MissingTogether,
    MixedTypeEncoder,
    Nominal,
    Ordinal,
    Schema,
    Sum,
    Text,
    Unique,
    cells_of_levels,
    cells_of_numbers,
    ties_of,
)
from skdpsynth.persistence import from_bytes, to_bytes

KINDS = {
    "a": (0, 9),
    "b": (5, 20),
    "x": (0.0, 1.0),
    "n": Continuous(0, 9, nullable=True),
    "sex": ["f", "m"],
    "job": ["none", "nurse", "pilot"],
    "day": Date("2024-01-01", "2024-12-31"),
    "time": DateTime("2024-01-01", "2024-12-31", nullable=True),
    "zoned": DateTime("2024-01-01T00:00+00:00", "2024-12-31T00:00+00:00"),
    "id": Identifier(),
    "note": Text(),
    "open": Nominal("open"),
    "far": (100, 200),
    "total": (0, 29),
    "small": (0, 4),
    "bmi": Derived("x / (a + 1)"),
}
NURSES = {"none": 0, "nurse": 1, "pilot": 2}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([1], "rules must be a list of Impossible"),
        ("ab", "rule 1 must be a text such as"),
        ([Inequality("a", "q")], "Inequality names column 'q', which schema has not"),
        ([Inequality("a", "note")], "'note', which is Text"),
        ([Inequality("id", "a")], "'id', which is Identifier"),
        ([Impossible({"open": "x"})], "'open', whose facts are open"),
        ([Inequality("a", "sex")], "between two columns of numbers, or two of dates"),
        ([Inequality("a", "day")], "between two columns of numbers, or two of dates"),
        ([Inequality("day", "zoned")], "both have a zone or neither"),
        ([Inequality("x", "a", strict=True)], "strict must be False for numbers that are not whole"),
        ([Inequality("far", "a")], "nothing that columns 'a', 'far' can hold"),
        ([Inequality("a", "b"), Inequality("b", "a")], "circle"),
        ([Inequality("a", "b"), Inequality("b", "n"), Inequality("n", "a")], "circle"),
        ([Inequality("b", "a"), Impossible({"a": (5, None)})], "nothing that columns 'a', 'b' can hold"),
        ([Impossible({"sex": ["f", "m"]})], "nothing that columns 'sex' can hold"),
        ([Impossible({"sex": "x"})], r"name levels of 'sex' as in schema \(several in a list\), got 'x'"),
        ([Impossible({"sex": ("f", "m")})], "several in a list"),
        ([Impossible({"sex": None})], "'sex' that it is missing, but it is not nullable"),
        ([Impossible({"a": (5, 3)})], "low <= high within the bounds of column 'a'"),
        ([Impossible({"a": (50, 60)})], "within the bounds of column 'a'"),
        ([Impossible({"a": "nine"})], "must give numbers for column 'a'"),
        ([Impossible({"day": 5})], "must give dates or times for column 'day'"),
        ([Determines("sex", "a", {"f": 1})], "must map every level of column 'sex', but has none for 'm'"),
        ([Determines("sex", "a", {"f": 1, "m": 99})], "maps to 99, which column 'a' cannot hold"),
        ([Determines("sex", "a", {"f": 1, "m": 1.5})], "maps to 1.5, which column 'a' cannot hold"),
        ([Determines("sex", "job", {"f": "nurse", "m": "king"})], "maps to 'king', which column 'job' cannot hold"),
        ([Determines("sex", "a", {"f": 1, "m": 2, "x": 3})], "maps from 'x', which is no level of column 'sex'"),
        ([Determines("a", "sex", {1: "f"})], "needs levels to start from, but column 'a' is Continuous"),
        ([Determines("job", "a", NURSES), Determines("sex", "a", {"f": 1, "m": 2})], "'a' once, but it follows from two"),
        ([Determines("sex", "job", {"f": "none", "m": "pilot"}), Determines("job", "sex", dict.fromkeys(NURSES, "f"))], "circle"),
        ([Determines("job", "a", NURSES), Inequality("a", "b")], "'a', which is computed from 'job'; name these"),
        ([Inequality("bmi", "x")], "'bmi', which is computed from 'x', 'a'"),
        ([Sum(["a", "sex"], "b")], "columns of numbers, but 'sex' is Nominal"),
        ([Sum(["a", "x"], "b")], "a total that is not, but 'b' is whole"),
        ([Sum(["a", "n"], "b")], "'b' missing where a part is, but it is not nullable"),
        ([Sum(["a", "b"], "far")], "can never be within the bounds of column 'far'"),
        ([Sum(["a", "b"], "total"), Sum(["a", "small"], "far")], "can never be within"),
        ([Sum(["a", "small"], "b"), Sum(["small", "far"], "total")], "can never be within"),
        ([MissingTogether(["n", "a"])], "'a', which is not nullable"),
        ([Unique("x")], "'x' is of real numbers"),
        ([Unique(["a", "n"])], "'n' is nullable"),
        ([Unique("a"), Inequality("a", "b")], "'a', which another rule names; a key must be free"),
        ([Unique("a"), Unique(["a", "sex"])], "another rule names"),
    ],
)
def test_rules_that_cannot_be_are_refused_in_one_sentence(rules, message):
    with pytest.raises(ValueError, match=message) as caught:
        Schema(KINDS, rules=rules)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_rules_that_tie_too_much_are_refused_by_public_sizes():
    levels = [f"level {i}" for i in range(30)]
    mapping = {(one, two, three): 1 for one in levels for two in levels for three in levels if (one, two) != (three, three)}
    with pytest.raises(ValueError, match="merge levels, or leave a rule out"):
        Schema({"a": levels, "b": levels, "c": levels, "d": (0, 9)}, rules=[Determines(["a", "b", "c"], "d", mapping)])


FULL = Schema(
    {
        ("born", "on"): Date("1930-01-01", "2020-12-31", nullable=True),
        "seen": DateTime("1990-01-01", "2024-12-31T23:59:59"),
        3: (0, 99),
        "part": Continuous(0.0, 10.0, nullable=True),
        "other": Continuous(0.0, 10.0, nullable=True),
        "all": Continuous(0.0, 20.0, nullable=True),
        "smokes": [False, True],
        "grade": Ordinal([1, 2, 3]),
        "bed": (1, 100),
        "cost": Derived("part * 2 + grade", bounds=(0, 15)),
    },
    rules=[
        Inequality(("born", "on"), "seen"),
        Impossible({("born", "on"): ("2000-01-01", None), "smokes": True}),
        Impossible({"part": [None, (2, 3)], "grade": [1, 2]}),
        Determines("grade", 3, {1: 10, 2: 20, 3: 30}),
        Sum(["part", "other"], "all"),
        MissingTogether(["part", "other", "all"]),
        Unique("bed"),
    ],
)


def test_files_hold_rules_which_belong_to_a_schema():
    assert Schema.from_json(FULL.to_json()) == FULL
    assert Schema(dict(FULL)) != FULL
    assert Schema(FULL) == FULL == from_bytes(to_bytes(FULL))
    assert "rules=[Inequality" in repr(FULL)
    assert list(FULL.coded) == [("born", "on"), "seen", "part", "other", "smokes", "grade", "bed"]
    assert FULL.arrange(reversed(list(FULL))).rules == FULL.rules
    assert "rules" not in Schema({"a": (0, 1)}).to_json()
    pytest.importorskip("yaml")
    assert Schema.from_yaml(FULL.to_yaml()) == FULL


def test_rules_in_files_may_be_written_short():
    columns = [{"name": "a", "kind": "continuous", "bounds": [0, 9], "integer": True}]
    columns += [{"name": name, "kind": "nominal", "levels": ["x", "y"]} for name in ("b", "c")]
    rules = [
        {"rule": "determines", "given": "b", "column": "c", "mapping": {"x": "y", "y": "x"}},
        {"rule": "impossible", "cells": [{"column": "a", "is": 0}]},
    ]
    assert Schema.from_json({"columns": columns, "rules": rules}).rules == (
        Determines(["b"], "c", {"x": "y", "y": "x"}),
        Impossible({"a": 0}),
    )


def test_files_with_strange_rules_are_refused():
    told = {"columns": [{"name": "a", "kind": "continuous", "bounds": [0, 9]}]}
    for rules, message in [
        ([{"rule": "never"}], "rule must be one of 'impossible'"),
        ([{"rule": "sum", "columns": ["a", "b"]}], "must have the keys columns, total"),
        ([{"rule": "sum", "columns": ["a", "b"]}], "got 'columns'; correct"),
        ([{"rule": "unique", "columns": ["a"], "extra": 1}], "must have the keys columns, got 'columns', 'extra'"),
        ([{"rule": "unique", "columns": {"a": 1}}], "columns must name columns"),
        ([{"rule": "unique", "columns": 3}], "names column 3, which schema has not"),
        ([{"rule": "impossible", "cells": {"a": 1}}], "cells must be a list such as"),
        ([{"rule": "impossible", "cells": ["a"]}], "cells must be a list such as"),
        ([{"rule": "impossible", "cells": [{"column": "a"}]}], "cells must be a list such as"),
        ([{"rule": "impossible", "cells": [{"column": {}, "is": [1]}]}], "cells must name columns"),
        ([{"rule": "determines", "given": ["a"], "column": "b", "mapping": 3}], "mapping must be a dict"),
        ([{"rule": "determines", "given": ["a"], "column": "b", "mapping": [[1, 2, 3]]}], "mapping must be a dict"),
        ([{"rule": "determines", "given": ["a"], "column": "b", "mapping": [[{}, 1]]}], "mapping must have levels"),
        ("all", "rules must be a list"),
        ([3], "rules must be a list such as .*, got 3"),
        ([None], "rules must be a list such as"),
    ]:
        with pytest.raises(ValueError, match=message):
            Schema.from_json({**told, "rules": rules})


def test_expressions_are_arithmetic():
    columns = {"a": np.array([1.0, 0, np.nan]), "b": np.array([4.0, 0, 1]), "odd name": np.full(3, 7.0)}
    for expression, expected in [
        ("a + b * 2 - 1", [8, -1, math.nan]),
        ("-(a - b) / b", [3 / 4, math.nan, math.nan]),
        ("a ** 2 // 2 % 3", [0, 0, math.nan]),
        ("max(a, b) - min(a, 2) + abs(-a)", [4 - 1 + 1, 0, math.nan]),
        ("round(sqrt(b), 1) + floor(a / 3) + ceil(a / 3)", [2 + 0 + 1, 0, math.nan]),
        ("log(exp(a)) + `odd name`", [8.0, 7.0, math.nan]),
    ]:
        np.testing.assert_allclose(Derived(expression).formula.value(columns), expected)


NO_ARITHMETIC = ["__import__('os')", "a.real", "a[0]", "(lambda: 1)()", "a if b else c", "a and b", "'text' + a", "[a]", "a := 1"]
NO_ARITHMETIC += [
    "eval(a)",
    "f'{a}'",
    "sqrt(a, b)",
    "round(a, b)",
    "round(a, digits=1)",
    "a @ b",
    "a < b",
    "~a",
    "1 + 2",
    "",
    "a +",
    "a" * 2000,
]


def test_what_is_no_arithmetic_is_refused_and_never_run():
    for expression in [*NO_ARITHMETIC, "-" * 500 + "a", 5, None, "a; b", "1j * a"]:
        with pytest.raises(ValueError, match=r"expression must|expression may"):
            Derived(expression)


def test_encoded_tables_are_without_computed_columns_and_come_back_with_them():
    frame = pd.DataFrame({"a": [1, 5], "b": [2, 2], "t": [0, 0], "r": [9.0, 9.0]})
    schema = Schema({"a": (0, 9), "b": (0, 9), "t": (0, 18), "r": Derived("a / b")}, rules=[Sum(["a", "b"], "t")])
    encoder = MixedTypeEncoder(schema).fit(frame)
    points = encoder.transform(frame)
    assert points.shape == (2, 2)
    pd.testing.assert_frame_equal(encoder.inverse_transform(points), frame.assign(t=[3, 7], r=[0.5, 2.5]))


def test_check_tells_of_rows_that_break_rules():
    schema = Schema({"a": (0, 9), "b": (0, 9)}, rules=[Inequality("a", "b")])
    (found,) = schema.check(pd.DataFrame({"a": [1, 5, 6], "b": [2, 2, 3]}))
    assert (found.column, found.problem, found.rows) == (("a", "b"), "rule", 2)


@pytest.mark.parametrize("seed", range(12))
def test_repaired_rows_keep_all_that_can_be_kept(seed):
    # Against brute force: whole numbers in small ranges, a random order of four columns, and a sum within bounds.
    rng = np.random.default_rng(seed)
    names = "abcd"
    edges = tuple((names[i], names[j], bool(rng.integers(2))) for i in range(4) for j in range(i + 1, 4) if rng.random() < 0.5)
    axes = {name: axis_of(Continuous(0, 9)) for name in names}
    total = (("a", "c"), 4.0, 9.0) if seed % 2 else None
    orders = Orders(in_order(names, edges), edges, axes, total)
    least = {name: rng.integers(0, 6, 60).astype(float) for name in names}
    most = {name: least[name] + rng.integers(0, 5, 60) for name in names}
    missing = {name: rng.random(60) < 0.15 for name in names}
    x = {name: rng.integers(least[name], most[name] + 1).astype(float) for name in names}
    can = orders.can_hold(least, most, missing)
    moved = orders.repair(x, least, most, missing)
    held = orders.holds(moved, missing) & np.all([missing[n] | ((moved[n] >= least[n]) & (moved[n] <= most[n])) for n in names], axis=0)
    for row in range(60):
        ranges = [np.arange(least[name][row], most[name][row] + 1) for name in names]
        cells = dict(zip(names, map(np.ravel, np.meshgrid(*ranges)), strict=True))
        some = orders.holds(cells, {name: np.full(len(cells["a"]), missing[name][row]) for name in names}).any()
        assert can[row] == some
        assert not some or held[row]


NONSENSE = [
    (lambda: Impossible({}), "cells must be a dict"),
    (lambda: Impossible({"a": []}), "cells of column 'a'"),
    (lambda: Impossible({"a": (1, 2, 3)}), "cells of column 'a'"),
    (lambda: Inequality("a", "a"), "two columns, got 'a' twice"),
    (lambda: Inequality("a", "b", strict="yes"), "strict must be True or False"),
    (lambda: Sum(["a"], "b"), "at least 2"),
    (lambda: Sum(["a", "b"], "a"), "another column than its parts"),
    (lambda: MissingTogether(["a", "a"]), "each once"),
    (lambda: Unique([]), "at least 1"),
    (lambda: Determines("a", "a", {1: 1}), "another than 'a'"),
    (lambda: Determines("a", "b", {}), "mapping must be a dict"),
    (lambda: Determines(["a", "b"], "c", {1: 2}), "tuples of 2 levels as keys"),
    (lambda: Determines("d", ["c"], {"A": 1}), "column must name columns"),
    (lambda: Schema({"a": (0, 9), "b": Derived("a + q")}), "Derived column 'b' names column 'q'"),
    (lambda: Schema({"a": ["x", "y"], "b": Derived("a + 1")}), "whose levels are no numbers"),
    (lambda: Schema({"a": (0, 9), "b": Derived("c"), "c": Derived("b")}), "circle"),
    (lambda: Schema({"a": Identifier(), "b": Derived("a + 1")}), "which is Identifier"),
    (lambda: Derived("a", bounds=(3, 2)), "low < high"),
    (lambda: Derived("a", bounds=3), "bounds must be"),
]


def test_what_can_be_no_rule_and_no_derived_column_is_refused():
    for make, message in NONSENSE:
        with pytest.raises(ValueError, match=message):
            make()


def test_tuples_that_can_occur_are_those_of_rows_that_keep_all_rules():
    size, missing = 4, None
    kinds = {name: Continuous(0, size - 1, nullable=True) for name in "abc"} | {
        "x": Nominal(["u", "v"], nullable=True),
        "y": ["p", "q", "r"],
    }
    kinds |= {"z": Continuous(0, 9, nullable=True), "s": Continuous(0, 5, nullable=True)}
    allowed = [("u", "p"), ("u", "q"), ("v", "r"), (None, "p")]
    rules = [
        Determines(["x", "y"], "z", {(x, y): place for place, (x, y) in enumerate(allowed)}),
        MissingTogether(["b", "c"]),
        Impossible({"a": (0, 1), "y": ["q", "r"]}),
        Impossible({"x": "v", "c": None}),
        Inequality("a", "b"),
        Sum(["a", "c"], "s"),
    ]
    schema = Schema(kinds, rules=rules)
    (tie,) = ties_of(schema, rules)
    assert tie.columns == ("a", "b", "c", "x", "y")

    def keeps(a, b, c, x, y):
        return (
            ((x, y) in allowed or x is missing)
            and (b is missing) == (c is missing)
            and not (a in (0, 1) and y in ("q", "r"))
            and not (x == "v" and c is missing)
            and (missing in (a, b) or a <= b)
            and (missing in (a, c) or a + c <= 5)
        )

    numbers, codes = [*range(size), missing], {"x": ["u", "v", missing], "y": ["p", "q", "r"]}
    rows = list(itertools.product(numbers, numbers, numbers, codes["x"], codes["y"]))
    kept = np.array([keeps(*row) for row in rows])
    places = {name: [numbers, numbers, numbers, codes["x"], codes["y"]][place] for place, name in enumerate(tie.columns)}
    of_rows = {name: np.array([places[name].index(row[place]) for row in rows]) for place, name in enumerate(tie.columns)}
    gone = {name: np.array([row[place] is missing for row in rows]) for place, name in enumerate(tie.columns)}
    shown = {name: of_rows[name].astype(float) if name in "abc" else of_rows[name] for name in tie.columns}
    np.testing.assert_array_equal(tie.holds(shown, gone), kept)
    cells = {name: cells_of_numbers(tie.axes[name], np.arange(size), np.arange(size), True) for name in "abc"}
    classes, tuples = tie.tuples(cells | {"x": cells_of_levels(2, True), "y": cells_of_levels(3, False)}, 1 << 14)
    of_codes = np.column_stack([classes[name][of_rows[name]] for name in tie.columns])
    assert {tuple(each) for each in of_codes[kept].tolist()} == {tuple(each) for each in tuples.tolist()}
    assert len(np.unique(tuples, axis=0)) == len(tuples)


COLUMNS = {
    "a": (0, 9),
    "b": (0, 9),
    "total": (0, 18),
    "smokes": ["no", "yes"],
    "in": Date("2024-01-01", "2024-12-31"),
    "last day": Date("2024-01-01", "2024-12-31"),
    "x": (0.0, 1.0),
    "y": (0.0, 1.0),
}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a <= b", [Inequality("a", "b")]),
        ("a > b", [Inequality("b", "a", strict=True)]),
        ("a <= b <= total", [Inequality("a", "b"), Inequality("b", "total")]),
        ("`in` < `last day`", [Inequality("in", "last day", strict=True)]),
        ("total = a + b", [Sum(["a", "b"], "total")]),
        ("a + b == total", [Sum(["a", "b"], "total")]),
        ("a > 3 if smokes == 'yes' and b in [1, 2]", [Impossible({"smokes": ["yes"], "b": [1, 2], "a": [(None, 3)]})]),
        ("a <= 3 if b < 1", [Impossible({"b": [(None, 0.9999999999999999)], "a": [(3.0000000000000004, None)]})]),
    ],
)
def test_a_text_is_the_rule_that_it_says_in_python_and_in_files(text, rules):
    pytest.importorskip("yaml")
    schema = Schema(COLUMNS, rules=[text])
    assert schema.rules == tuple(rules)
    parsed = json.loads(Schema(COLUMNS).to_json())
    assert Schema.from_json({**parsed, "rules": [text]}) == Schema.from_yaml(schema.to_yaml()) == schema


def test_a_column_of_an_array_is_named_by_its_place_or_its_number():
    years = {2019: (0, 1), 2020: (0, 1)}
    assert Schema(years, rules="`2019` <= x2020").rules == (Inequality(2019, 2020),)


def test_kind_is_understood_where_a_rule_says_it():
    keys = [{"name": name, "kind": "continuous", "bounds": [0, 9]} for name in "ab"]
    rule = {"low": "a", "high": "b"}
    made = [Schema.from_json({"columns": keys, "rules": [{word: "inequality", **rule}]}) for word in ("rule", "kind")]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a <> b", "rule 2 must be a text such as"),
        ("__import__('os')", "rule 2 must be a text such as"),
        ("total = 2 * a", "make 'total' a column that is computed, Derived('2 * a')"),
        ("`last day` = `in` + 3", "make 'last day' a column that is computed, Derived('`in` + 3')"),
        ("a >= 5", "state bounds of the column"),
        ("smokes == 'no' if a > 3", r"write Impossible\({...}\)"),
        ("x < y", r"strict=False \(in text <=\)"),
        ("total = a + a", "rule 2, 'total = a \\+ a': columns must be a list of at least 2, each once"),
        ("a <= nowhere", "'nowhere', which schema has not"),
        ("a <= b" + " " * 2000, "rule 2 must be a text such as"),
    ],
)
def test_a_text_that_is_no_rule_is_refused_in_one_sentence_with_its_place(text, words):
    words = words if "\\" in words else re.escape(words)
    with pytest.raises(ValueError, match=words) as error:
        Schema(COLUMNS, rules=["a <= b", text])
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def warnings_of(fit):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit()
    return [str(each.message) for each in told]


def test_a_table_whose_pairs_are_noise_is_said_to_be_whatever_its_rows_are():
    schema = {f"c{i}": list("abcdefghij"[: 3 + i % 8]) for i in range(32)}
    one, other = (np.array([[levels[(k * row) % len(levels)] for levels in schema.values()] for row in range(1470)]) for k in (0, 7))
    frames = [pd.DataFrame(rows, columns=list(schema)) for rows in (one, other)]
    model = LatentFactorSynthesizer(schema, epsilon=1, delta=1e-6)
    first, second = (warnings_of(lambda frame=frame: model.fit(frame)) for frame in frames)
    assert first == second
    assert any("most of the 496 pairs of columns" in message for message in first)
    assert not any("pairs of columns" in message for message in warnings_of(lambda: model.set_params(epsilon=20).fit(frames[0])))


@pytest.mark.parametrize("kind", [Date(bounds="private"), Continuous(bounds="private")], ids=repr)
def test_columns_without_bounds_may_stand_beside_rules(kind):
    schema = Schema({"open": kind, "low": (0, 9), "high": (0, 9)}, rules=["low <= high"])
    assert schema.rules == (Inequality("low", "high"),)
