"""Which rows of a unit count: as many as are promised, by chance, and whatever their order and whatever holds them."""

import decimal
import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from internals import _privacy_units, fixed_bits, siphash, watch_releases
from laws import ALARM, CERTAIN, chi_squared, refuses
from sklearn.base import clone
from sources import SOURCES

from skdpsynth import PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Nominal
from skdpsynth.exceptions import InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.frames import KEY_OF_CHOICE, FirstRows, Rows, bound_contributions
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ibis")

RNG = np.random.default_rng(5)
N, K = 600, 2
LABELS = RNG.integers(0, 60, N)
CELLS = {"a": RNG.integers(0, 4, N) / 4, "b": np.where(RNG.random(N) < 0.2, -0.0, RNG.random(N).round(1))}
FRAME = pd.DataFrame({"who": [f"p{label}" for label in LABELS], **CELLS, "level": RNG.choice(["no", "some", "much"], N)})
KEY = bytes(range(KEY_OF_CHOICE))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        warnings.simplefilter("ignore", SmallSampleWarning)
        yield


def values_at_the_door(fit):
    """The exact values that a fit releases, with bits that follow a seed."""
    with watch_releases() as door, fixed_bits():
        fit()
    return [draw.values for draw in door.draws]


def visits(*more):
    """People who come twice each; what comes in `added_amount` is a neighbor under "add_or_remove_one"."""
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("SET threads=1")
    connection.execute("create table visits(person INTEGER, kind INTEGER, x DOUBLE)")
    connection.execute("insert into visits select range, 1, 0.9 from range(1000)")
    connection.execute("insert into visits select range, 0, 0.1 from range(1000)")
    for row in more:
        connection.execute("insert into visits values (?, ?, ?)", row)
    return connection.sql("SELECT person, max(x) AS x FROM visits GROUP BY person, kind")


def test_one_more_person_who_reorders_a_query_moves_counts_by_one_row():
    """DuckDB gives a GROUP BY in another order once one key is large."""

    def counts(query):
        model = PrivateMeasureMechanism("optimal", depth=1, epsilon=1.0, bounds={"x": (0, 1)}, neighboring="add_or_remove_one")
        values = values_at_the_door(lambda: model.fit(query, unit="person"))
        return [np.asarray(each, dtype=float) for each in values]

    for before, after in zip(counts(visits()), counts(visits((1500, 1, 0.5))), strict=True):
        assert np.abs(after - before).sum() <= 1


@pytest.mark.parametrize("library", ["duckdb", "polars lazy", "ibis", "dask of 4 partitions"])
def test_streams_of_rows_and_labels_by_row_refuse_queries_and_a_tick_may_be_one_because_its_rows_have_no_order(library, tmp_path):
    """One more key would reorder a query. What refused it is then as it was. A fit chooses from it as from a table in memory."""
    query = SOURCES[library](FRAME[["a", "b"]], tmp_path)
    for strategy in ("blocks", "paper"):
        stream = OnlineSynthesizer(strategy, random_state=0).partial_fit(FRAME[["a", "b"]])
        for call in (stream.partial_fit, OnlineSynthesizer(strategy).partial_fit, OnlineSynthesizer(strategy).fit):
            refuses(TypeError, r"X must come in a stated order for OnlineSynthesizer.* to a Parquet file", call, query)
        assert stream.n_samples_seen_ == N
    with pytest.raises(ValueError, match="unit must be the name of a column where X is a lazy frame or query"):
        PrivateMeasureMechanism().fit(query, unit=FRAME["who"])
    ticks = OnlineSynthesizer(neighboring="add_or_remove_one", random_state=0)
    assert ticks.partial_fit(query).partial_fit(query).n_ticks_seen_ == 2
    query = SOURCES[library](FRAME.sample(frac=1, random_state=3, ignore_index=True), tmp_path)
    assert released(ESTIMATORS["private levels"], query, "replace_one") == released(ESTIMATORS["private levels"], FRAME, "replace_one")


@pytest.mark.parametrize("query", ["who, a, max(b) AS b FROM t GROUP BY who, a", "t.* FROM t JOIN u USING (who)"])
def test_two_readings_of_a_query_by_several_threads_give_one_fit(query):
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("SET threads=4")
    connection.execute("create table t as select (range * 7919) % 5000 as who, random() as a, random() as b from range(60000)")
    connection.execute("create table u as select range as who from range(5000)")

    def fitted():
        return PrivateMeasureMechanism(random_state=0).fit(connection.sql(f"SELECT {query}"), unit="who").sample(300, random_state=0)

    assert fitted().equals(fitted())


SCHEMA = {"a": (0, 1), "b": (0, 1), "level": ["no", "some", "much"]}
NUMBERS = ["who", "a", "b"]
ESTIMATORS = {
    "adaptive": PrivateMeasureMechanism("adaptive"),
    "optimal": PrivateMeasureMechanism("optimal"),
    "private bounds": PrivateMeasureMechanism(bounds="private", epsilon=20),
    "signed": SignedMeasureMechanism(20),
    "pca": PrivatePCA(),
    "low dimension": LowDimSynthesizer(1),
    "mixed": LatentFactorSynthesizer(SCHEMA),
    "private levels": LatentFactorSynthesizer({**SCHEMA, "level": Nominal("private")}, delta=1e-5, epsilon=20),
}


def released(estimator, table, relation):
    fitted = estimator.__class__(**estimator.get_params(deep=False))
    fitted.set_params(neighboring=relation, random_state=0, max_rows_per_unit=K).fit(table, unit="who")
    shown = fitted.covariance_ if isinstance(fitted, PrivatePCA) else fitted.sample(100, random_state=0)
    names = getattr(shown, "column_names", None)
    columns = [shown.column(name).to_pylist() for name in names] if names else np.asarray(shown, dtype=object).T.tolist()
    return columns, fitted.n_samples_


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_rows_in_another_order_give_the_same_fit(name, relation):
    frame = FRAME if ESTIMATORS[name].get_params(deep=False).get("schema") else FRAME[NUMBERS]
    whole = released(ESTIMATORS[name], frame, relation)
    order = np.random.default_rng(1).permutation(N)
    assert released(ESTIMATORS[name], frame.iloc[order], relation) == whole
    chunks = np.array_split(np.random.default_rng(2).permutation(N), 7)
    assert released(ESTIMATORS[name], [frame.iloc[part] for part in chunks], relation) == whole


def chosen(cells, labels, most, key=KEY):
    return bound_contributions(Rows.of(np.asarray(cells, dtype=float).reshape(len(labels), -1)), labels, most, key).collect()


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("at_once", [3, 1 << 20])
def test_each_unit_keeps_as_many_rows_as_it_has_and_may_have(most, at_once, monkeypatch):
    monkeypatch.setattr(_privacy_units, "_AT_ONCE", at_once)
    table = np.column_stack([LABELS, RNG.integers(0, 3, N)])  # many rows are equal
    kept = chosen(table, LABELS.tolist(), most)
    assert np.array_equal(np.bincount(kept[:, 0].astype(int), minlength=60), np.minimum(np.bincount(LABELS, minlength=60), most))
    parts = [table[i : i + 37].astype(float) for i in range(0, N, 37)]
    read = PrivateMeasureMechanism(bounds=(0, 60), max_rows_per_unit=most, random_state=0).fit(parts, unit=LABELS)
    assert read.n_samples_ == len(kept)
    both, held = values_of(parts, most), values_of(table.astype(float), most)
    assert all(np.array_equal(*pair) for pair in zip(both, held, strict=True))


def values_of(table, most):
    return values_at_the_door(lambda: PrivateMeasureMechanism(bounds=(0, 60), max_rows_per_unit=most).fit(table, unit=LABELS))


def test_a_row_is_chosen_as_often_as_any_other_of_its_unit():
    """Of 4 rows of 20,000 units, two of them equal, of which 1 and then 2 count; the first rows of all units would not pass."""
    key, n, cells = bytes(range(16)), 20_000, [0.1, 0.5, 0.5, 0.9]
    high, low = siphash(key, [np.array([0x0706050403020100], dtype=np.uint64)])  # the vector of the reference implementation
    assert (int(high[0]).to_bytes(8, "little") + int(low[0]).to_bytes(8, "little")).hex() == "3b62a9ba6258f5610f83e264f31497b4"
    labels = np.repeat(np.arange(n), 4).tolist()
    for most in (1, 2):
        kept = chosen(cells * n, labels, most).ravel()
        seen = np.array([(kept == cell).sum() for cell in (0.1, 0.5, 0.9)])
        assert chi_squared(seen, [1, 2, 1]) > ALARM
        assert chi_squared([n, (most - 1) * n, 0], [1, 2, 1]) < CERTAIN


def test_a_key_is_drawn_for_each_fit():
    def kept():
        with watch_releases() as door:
            PrivateMeasureMechanism(depth=6).fit(FRAME[["a", "b"]], unit=LABELS)
        return [draw.values for draw in door.draws]

    assert any(not np.array_equal(*pair) for pair in zip(kept(), kept(), strict=True))


def test_labels_that_are_equal_or_the_text_of_each_other_are_one_unit_and_others_are_not():
    odd = [7, 7.0, "7", np.int64(7), Fraction(7), b"7", True, 1, "1"]
    assert len(chosen(np.arange(9), odd, 1)) == 2
    parts = np.array_split(np.arange(9.0)[:, None], 2)
    assert PrivateMeasureMechanism(bounds=(0, 9), random_state=0).fit(parts, unit=odd).n_samples_ == 2
    others = ["a", "A", ("a", "b"), ("ab",), 0.5, 10**5000, -1, -2, pd.Timestamp(0), "\ud800"]
    assert len(chosen(np.arange(10), others, 1)) == 10


EXACT = decimal.Decimal("12345678901234567.1")  # rounds to a float that others round to
ONE_UNIT = {
    "a fraction of a float": [0.5, Fraction(1, 2), decimal.Decimal("0.50"), np.float32(0.5), np.longdouble(0.5), "0.5"],
    "a text of a float": [0.1, Fraction(1, 10), decimal.Decimal("0.1"), decimal.Decimal.from_float(0.1), Fraction(0.1), "0.1"],
    "a fraction beside all floats": [EXACT, Fraction(EXACT), EXACT.normalize(), decimal.Decimal(f"{EXACT}0")],
    "a third": [Fraction(1, 3), Fraction(2, 6), "1/3"],
    "a pair": [(0.5, "a"), (Fraction(1, 2), b"a")],
    "many digits": [10**5000, Fraction(10**5000), decimal.Decimal("1e5000")],
}
NO_FLOATS = [*(EXACT + decimal.Decimal(i) / 10 for i in range(5)), *(Fraction(1, 3) + Fraction(i, 10**20) for i in range(5))]
APART = {
    "decimals": [*NO_FLOATS, 1 / 3, 12345678901234568],
    "long doubles": [0.1, *({*np.nextafter(np.longdouble(0.1), np.longdouble([0, 1]))} if np.finfo(np.longdouble).nmant > 52 else ())],
    "what is hashed": [decimal.Decimal("Infinity"), 314159, decimal.Decimal("1e-999999999"), decimal.Decimal("1e999999999"), 0],
    "pairs": [("a", "b"), "1:a1:b", b"\xff(1:a1:b", "\xff(1:a1:b", ("a", ("b",))],
}


@pytest.mark.parametrize(("labels", "n_units"), [*((one, 1) for one in ONE_UNIT.values()), *((each, len(each)) for each in APART.values())])
def test_numbers_are_one_unit_where_they_are_equal_or_the_text_of_one_and_never_by_rounding(labels, n_units):
    for these in (labels, labels[::-1]):
        assert len(chosen(np.arange(len(these)), these, 1)) == n_units
        assert FirstRows(1).mask(these).sum() == n_units


ODD_LABELS = [[1], {"a": 1}, np.array([1, 2]), decimal.Decimal("sNaN"), math.nan, pd.NaT, pd.NA, set(), (1, [2]), 2.0**60, None]


@pytest.mark.parametrize(
    "model", [PrivateMeasureMechanism("optimal", depth=2), OnlineSynthesizer()], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("how", ["labels", "series", "column", "chunks"])
@pytest.mark.parametrize("odd", ODD_LABELS, ids=repr)
def test_a_label_that_names_nobody_raises_nothing_and_leaves_its_row_out(odd, how, model):
    if how == "chunks" and isinstance(model, OnlineSynthesizer):
        pytest.skip("a stream with units takes tables in memory")
    X = pd.DataFrame({"x": np.linspace(0, 1, 60)})

    def fitted(rows, labels):
        who = pd.Series(index=range(len(labels)), dtype=object)
        for place, label in enumerate(labels):
            who.iat[place] = label
        table, unit = rows.reset_index(drop=True), {"labels": labels, "series": who}.get(how, "who")
        if isinstance(unit, str):
            table = table.assign(who=who)
        table = [table[:20], table[20:]] if how == "chunks" else table
        part = clone(model).set_params(bounds={"x": (0, 1)}, random_state=0, neighboring="add_or_remove_one", max_rows_per_unit=2)
        return part.fit(table, unit=unit).sample(9, random_state=0)

    labels = [place % 20 for place in range(60)]
    expected = fitted(X, labels)
    pd.testing.assert_frame_equal(fitted(pd.concat([X[:30], X[:1], X[30:]]), [*labels[:30], odd, *labels[30:]]), expected)


def test_a_table_that_gives_other_rows_when_it_is_read_again_is_refused():
    rows, readings = RNG.random((90, 2)), []

    def start():
        readings.append(1)
        return iter([rows + len(readings)])

    with pytest.raises(ValueError, match="X must give the same rows whenever it is read"):
        PrivateMeasureMechanism(bounds=(0, 100)).fit(start, unit=np.arange(90) % 30)
