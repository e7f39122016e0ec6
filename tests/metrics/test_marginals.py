"""Total variation of marginals, and differences of associations, against cross tables, scipy and brute force."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from internals import _marginals
from scipy.stats import rankdata, spearmanr
from scipy.stats.contingency import association

from skdpsynth.domain import Continuous, Nominal, Ordinal, Schema
from skdpsynth.metrics import correlation_error, marginal_total_variation

SCHEMA = Schema(
    {
        "age": Continuous(0, 99, nullable=True),
        "income": (0.0, 1.0),
        "school": Ordinal(["basic", "high", "college"]),
        "color": Nominal(["red", "green", "blue"], nullable=True),
        "smokes": ["no", "yes"],
    }
)
each_order = pytest.mark.parametrize("order", [1, 2, 3])
each_measure = pytest.mark.parametrize("measure", [marginal_total_variation, correlation_error])


def table(seed, n=150, missing=0.1):
    """A pandas frame with ties, associations that depend on the seed, and missing cells where SCHEMA has them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=n)

    def mixed(scale):
        return hidden * rng.uniform(-2, 2) + scale * rng.normal(size=n)

    def code(levels):
        return np.array(levels, dtype=object)[np.clip(np.rint(mixed(0.7) + 1), 0, len(levels) - 1).astype(int)]

    frame = pd.DataFrame(
        {
            "age": np.clip(np.rint(40 + 10 * mixed(1)), 0, 99),
            "income": 1 / (1 + np.exp(-mixed(1))),
            "school": code(["basic", "high", "college"]),
            "color": code(["red", "green", "blue"]),
            "smokes": code(["no", "yes"]),
        }
    )
    for name in ("age", "color"):
        frame.loc[rng.random(n) < missing, name] = None
    return frame


def cut_by_brute_force(x, y):
    """Parts of two lists of numbers, a value and a cut at a time."""
    known = sorted(value for value in x if value == value)
    quantiles = [known[-(-k * len(known) // 12) - 1] for k in range(1, 12)]

    def part(value):
        if value != value:
            return "missing"
        below = sum(quantile < value for quantile in quantiles)
        return f"= {value}" if quantiles.count(value) > 1 else below

    return [part(value) for value in x], [part(value) for value in y]


def total_variation_by_brute_force(X, Y, schema, order):
    X, Y = X.copy(), Y.copy()
    for name, kind in schema.items():
        if isinstance(kind, Continuous):
            X[name], Y[name] = cut_by_brute_force(X[name].tolist(), Y[name].tolist())
        else:
            X[name], Y[name] = (frame[name].where(frame[name].notna(), "missing") for frame in (X, Y))
    both = pd.concat([X, Y]).astype(str)
    from_x = np.repeat([True, False], [len(X), len(Y)])
    distances = []
    for names in combinations(schema, order):
        shares = pd.crosstab([both[name] for name in names], from_x, normalize="columns")
        distances.append((shares[True] - shares[False]).abs().sum() / 2)
    return np.mean(distances)


@each_order
@pytest.mark.parametrize("seed", range(3))
def test_distance_is_that_of_the_cross_tables(order, seed):
    X, Y = table(seed), table(seed + 100, n=90)
    expected = total_variation_by_brute_force(X, Y, SCHEMA, order)
    assert marginal_total_variation(X, Y, SCHEMA, order=order) == pytest.approx(expected, rel=1e-12)
    assert expected > 0.05


@each_order
def test_cells_are_counted_alike_when_there_are_more_than_rows(order):
    # 40^2 and 40^3 cells for 60 rows.
    rng = np.random.default_rng(0)
    schema = Schema({j: list(range(40)) for j in range(4)})
    X, Y = (pd.DataFrame(np.minimum(rng.geometric(0.2, size=(n, 4)), 39)) for n in (40, 20))
    expected = total_variation_by_brute_force(X, Y, schema, order)
    assert marginal_total_variation(X, Y, schema, order=order) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_marginals_of_more_cells_than_memory_holds_are_compared(order):
    # 10^9 and 10^13 cells.
    schema = {j: list(range(30_000)) for j in range(3)}
    X, Y = np.arange(12).reshape(4, 3), 29_999 - np.arange(12).reshape(4, 3)
    Y[0] = X[0]
    assert marginal_total_variation(X, Y, schema, order=order) == 3 / 4


def test_of_very_many_sets_of_columns_as_many_as_said_are_compared(monkeypatch):
    """Half of the rows differ in the sets that hold one of the first three columns, and none in others."""
    monkeypatch.setattr(_marginals, "_MOST_SETS", 2000)
    n, X = 24, np.zeros((2, 24), dtype=int)
    Y = X.copy()
    Y[0, :3] = 1
    schema = {j: [0, 1] for j in range(n)}
    with pytest.warns(UserWarning, match=rf"^2000 of the {math.comb(n, 3)} sets of 3 columns are compared, [^\n]*\.$"):
        distance = marginal_total_variation(X, Y, schema, order=3)
    share = 1 - math.comb(n - 3, 3) / math.comb(n, 3)
    # 6 standard errors of a hypergeometric mean; the seed is the library's own.
    error = math.sqrt(share * (1 - share) / 2000 * (1 - 2000 / math.comb(n, 3)))
    assert abs(distance - share / 2) <= 3 * error


def test_missing_cells_are_a_level_more_even_where_the_schema_has_none_and_so_are_unknown_ones():
    X, Y = np.full((8, 1), 4.0), np.full((8, 1), 4.0)
    Y[:3] = np.nan  # 4 is the midpoint too: that is where the estimators put them
    for kind in ((0, 9), [*range(10)]):
        assert marginal_total_variation(X, Y, {0: kind}, order=1) == 3 / 8
    assert marginal_total_variation([["a"], ["a"], ["b"]], [["c"], ["a"], ["b"]], {0: ["a", "b"]}, order=1) == pytest.approx(1 / 3)
    gone = np.full((5, 1), np.nan)
    for Y, distance in [(gone, 0), (np.array([[0.5], [np.nan]]), 0.5)]:
        assert marginal_total_variation(gone, Y, {0: (0.0, 1.0)}, order=1) == distance


@pytest.mark.parametrize("atom", [0, 40, 99])
def test_frequent_value_is_a_part_of_its_own(atom):
    # 90 of 100 rows at one end or in the middle; no cut at a quantile alone tells all of them from the others.
    rest = [value for value in (0, 10, 39, 41, 70, 99) if value != atom][:5] * 2
    X, Y = np.array([atom] * 90 + rest)[:, None], np.full((100, 1), atom)
    assert marginal_total_variation(X, Y, {0: (0, 99)}, order=1) == pytest.approx(0.1)


def test_numbers_are_cut_into_twelve_parts_of_equal_shares():
    X = np.random.default_rng(8).permutation(np.linspace(0, 1, 1200))[:, None]
    nearest = [marginal_total_variation(X, [[value]], {0: (0.0, 1.0)}, order=1) for value in (0.0, 0.5, 1.0)]
    assert nearest == pytest.approx([11 / 12] * 3)
    # Within a part nothing is told apart; the first ends at row 100.
    assert marginal_total_variation(X, np.where(X < 100 / 1199.5, 0.01, X), {0: (0.0, 1.0)}, order=1) == 0
    assert marginal_total_variation(X, np.where(X < 101 / 1199.5, 0.01, X), {0: (0.0, 1.0)}, order=1) == pytest.approx(1 / 1200)


def ordered_codes(column, kind):
    return column.to_numpy(dtype=float) if isinstance(kind, Continuous) else column.map({k: i for i, k in enumerate(kind.levels)})


def association_by_brute_force(frame, first, second):
    frame = frame[[first, second]].dropna()
    nominal = [isinstance(SCHEMA[name], Nominal) for name in (first, second)]
    if all(nominal):
        return association(pd.crosstab(frame[first], frame[second]).to_numpy(), method="cramer")
    if not any(nominal):
        return spearmanr(*(ordered_codes(frame[name], SCHEMA[name]) for name in (first, second))).statistic
    group, number = (first, second) if nominal[0] else (second, first)
    ranks = pd.Series(rankdata(ordered_codes(frame[number], SCHEMA[number])), index=frame.index)
    fitted = ranks.groupby(frame[group]).transform("mean")
    return np.sqrt(fitted.var() / ranks.var())


@pytest.mark.parametrize("pair", list(combinations(SCHEMA, 2)), ids="-".join)
def test_error_of_a_pair_is_the_difference_of_its_associations(pair):
    X, Y = table(9), table(10, n=80)
    expected = abs(association_by_brute_force(X, *pair) - association_by_brute_force(Y, *pair))
    schema = {name: SCHEMA[name] for name in pair}
    assert correlation_error(X[[*pair]], Y[[*pair]], schema) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.01


def test_error_is_the_mean_over_all_pairs():
    X, Y = table(9), table(10)
    pairs = [correlation_error(X[[*pair]], Y[[*pair]], {name: SCHEMA[name] for name in pair}) for pair in combinations(SCHEMA, 2)]
    assert correlation_error(X, Y, SCHEMA) == pytest.approx(np.mean(pairs))


def test_rows_with_a_missing_or_unknown_cell_are_left_out():
    X, Y = table(21), table(22)
    gaps = X.head(20).assign(age=np.nan, income=np.nan, school="unknown", color=None, smokes="unknown")
    assert correlation_error(pd.concat([gaps, X]), Y, SCHEMA) == pytest.approx(correlation_error(X, Y, SCHEMA))


@pytest.mark.parametrize("cells", [{"income": 0.5}, {"smokes": "no"}, {"income": np.nan}, {"smokes": None}])
@pytest.mark.parametrize("other", ["school", "color"])
def test_constant_and_empty_columns_have_no_association(cells, other):
    (name,) = cells
    schema = {column: SCHEMA[column] for column in (name, other)}
    X = table(23).assign(**cells)[list(schema)]
    assert correlation_error(X, X.sample(frac=0.5, random_state=0), schema) == 0
    Y = table(24)
    assert correlation_error(X, Y[list(schema)], schema) == pytest.approx(abs(association_by_brute_force(Y, name, other)))


@each_measure
def test_tables_and_schemas_that_do_not_fit_are_named(measure):
    X, times = table(0), pd.Timestamp("2020-01-01")
    for first, second, schema, message in [
        (X.drop(columns="age"), X, SCHEMA, "schema must name the columns of X, .* names 'age', which X lacks"),
        (X, X.drop(columns="age"), SCHEMA, "with Y as X: schema must name the columns of X, .* names 'age', which X lacks"),
        (X.head(0), X, SCHEMA, "X must have at least one row"),
        (X, X.head(0), SCHEMA, "Y must have at least one row"),
        (X, X.assign(income=times), SCHEMA, "with Y as X: column 'income' has dtype .*, but is continuous in schema"),
        (X, X, None, "schema must be a dict"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"^{message}"):
            measure(first, second, schema)
    rows, schema = [[0.5, 0.5]], {0: (0.0, 1.0), 1: (0.0, 1.0)}
    for bad in (np.array([[1 + 2j, 0.5]]), np.ma.array([[31415.0, 0.5]], mask=[[1, 0]]), None, {"a": [31415]}):
        with pytest.raises((TypeError, ValueError), match=r"^[^\n]+\.$") as first:
            measure(bad, rows, schema)
        with pytest.raises((TypeError, ValueError), match=r"^(with Y as X: |Y must )[^\n]+\.$") as second:
            measure(rows, bad, schema)
        assert "31415" not in f"{first.value} {second.value}"


def test_orders_are_refused_that_the_columns_have_not_and_others_shown_shortly():
    with pytest.raises(ValueError, match=r"^order must be at most the number of columns, 1, got 2"):
        marginal_total_variation([[0]], [[1]], {0: [0, 1]})
    with pytest.raises(ValueError, match=r"^schema must have at least two columns"):
        correlation_error([[0]], [[1]], {0: [0, 1]})
    for order in (np.ones((3, 3)), "31415" * 99, None, 1.0, 0, 4, True, "2"):
        with pytest.raises(ValueError, match=r"^order must be 1, 2 or 3, got [^\n]{1,100}\.$"):
            marginal_total_variation([[0.5]], [[0.5]], {0: (0, 1.0)}, order)
