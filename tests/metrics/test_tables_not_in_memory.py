"""Metrics, scores and transforms of tables that are not in memory, against those of the same rows in memory."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import _base, _marginals, _open, _read_tables, _source, open_source
from sklearn.linear_model import LogisticRegression
from sources import SOURCES, cut

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import MixedTypeEncoder
from skdpsynth.frames import Rows
from skdpsynth.metrics import (
    captured_variance_ratio,
    correlation_error,
    marginal_total_variation,
    sliced_wasserstein_distance,
    train_synthetic_test_real,
    wasserstein_distance,
)

SCHEMA = {"a": (0.0, 1.0), "n": (0, 8), "level": ["x", "why", "z"], "group": ["u", "v"]}
each_order = pytest.mark.parametrize("order", [1, 3])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of at most 100 rows, none of which is read into memory at once."""
    monkeypatch.setattr(_source, "rows_at_once", lambda n_columns: 100)
    monkeypatch.setattr(_read_tables, "MOST_READ", 0)


def table(seed, n=700):
    rng = np.random.default_rng(seed)
    a = rng.beta(2, 1 + seed, n)
    made = pd.DataFrame({"a": a, "n": rng.binomial(8, a), "level": rng.choice(["x", "why", "z"], n), "group": np.where(a > 0.5, "u", "v")})
    made.loc[rng.random(n) < 0.1, "a"] = np.nan
    return made


def numbers(seed, n=300):
    return np.random.default_rng(seed).beta(2, 1 + seed, (n, 3))


PCA = PrivatePCA(2, whiten=True, random_state=0)
# Of rows X: what is measured of them, in memory or not, and by how much it may differ.
MEASURED = {
    "marginals": (table, lambda X: marginal_total_variation(X, table(1, 400), SCHEMA), {"rel": 0, "abs": 0}),
    "associations": (table, lambda X: correlation_error(X, table(1, 400), SCHEMA), {"abs": 1e-3}),
    "a model": (table, lambda X: train_synthetic_test_real(LogisticRegression(), X, table(1), "group", SCHEMA), {"rel": 0, "abs": 0}),
    "codes": (table, lambda X: MixedTypeEncoder(SCHEMA).fit_transform(X), {"rel": 0, "abs": 0}),
    "variance": (numbers, lambda X: captured_variance_ratio(X, [[1.0, 1.0, 0.0]]), {"rel": 1e-12}),
    "distance": (numbers, lambda X: wasserstein_distance(X, numbers(1)), {"rel": 1e-12}),
    "sliced distance": (numbers, lambda X: sliced_wasserstein_distance(X, numbers(1)), {"rel": 1e-12}),
    "components": (numbers, lambda X: PCA.transform(X), {"rel": 1e-12, "abs": 1e-12}),
    "scores of samples": (numbers, lambda X: PCA.score_samples(X), {"rel": 1e-12}),
    "score": (numbers, lambda X: PCA.score(X), {"rel": 1e-12}),
}


@pytest.mark.parametrize(
    "kind", ["parquet of row groups", "csv", "polars lazy", "duckdb", "dask of 4 partitions", "list of polars", "function"]
)
@pytest.mark.parametrize("what", MEASURED)
def test_what_is_measured_of_a_source_is_that_of_its_rows_in_memory(what, kind, tmp_path):
    make, measure, slack = MEASURED[what]
    X = pd.DataFrame(make(0)).rename(columns=str)
    if make is numbers:
        PCA.fit(X)
    assert measure(SOURCES[kind](X, tmp_path)) == pytest.approx(measure(X), nan_ok=True, **slack)


@each_order
@pytest.mark.parametrize("cells", [1, 50])
def test_marginals_are_the_same_however_their_tables_are_grouped(order, cells, monkeypatch):
    # 1: only combinations that occur are counted; 50: some tables whole, a few at each reading.
    X, Y = table(0), table(1, 400)
    expected = marginal_total_variation(X, Y, SCHEMA, order)
    monkeypatch.setattr(_marginals, "_MOST_CELLS", cells)
    assert marginal_total_variation(cut(X, 20, 150), cut(Y, 100), SCHEMA, order) == expected
    assert marginal_total_variation(X, Y, SCHEMA, order) == expected


def test_a_small_table_is_read_once_and_a_large_one_as_often_as_the_notes_say(monkeypatch):
    readings = []

    def read():
        readings.append(1)
        return iter(cut(table(0), 100))

    marginal_total_variation(read, read, SCHEMA)
    opened = 2  # the first chunk, to know the columns
    assert len(readings) == opened + (1 + 4 + 1) + (1 + 1)  # counted, cut, counted; counted, counted
    monkeypatch.setattr(_read_tables, "MOST_READ", 10**6)
    readings.clear()
    marginal_total_variation(read, read, SCHEMA)
    assert len(readings) == opened + 2 + 2  # counted, collected


floats = st.floats(allow_nan=True, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e308])


@given(values=st.lists(floats, min_size=1, max_size=60), n_parts=st.integers(2, 13), cut=st.integers(0, 60))
@settings(max_examples=40, deadline=None)
def test_numbers_are_cut_where_sorting_cuts_them(values, n_parts, cut):
    column = np.array(values)
    pieces = [column[:cut, None], column[cut:, None]]
    rows = Rows(open_source([piece for piece in pieces if len(piece)]), 1, len(column), (as_columns,))
    (found,) = _marginals.quantile_bins(rows, [0], n_parts).cuts.values()
    np.testing.assert_array_equal(found, _marginals.bin_edges(column, n_parts))


def as_columns(chunk):
    return list(chunk.T)


def test_associations_are_those_in_memory_where_columns_have_few_values():
    X, Y = (rows.assign(a=np.rint(100 * rows["a"]) / 100) for rows in (table(0), table(1)))
    assert correlation_error(cut(X, 20), cut(Y, 500), SCHEMA) == pytest.approx(correlation_error(X, Y, SCHEMA), abs=1e-12)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.95, 1.0])
def test_parts_of_many_distinct_numbers_move_a_rank_correlation_by_less_than_a_thousandth(rho, monkeypatch):
    # 200,000 rows, cut by 100,000 of them.
    monkeypatch.setattr(_source, "rows_at_once", lambda n_columns: 2**17)
    rng = np.random.default_rng(0)
    x = rng.normal(size=200_000)
    X = np.column_stack([np.exp(3 * x), rho * x + math.sqrt(1 - rho**2) * rng.normal(size=len(x))])
    schema = {0: (0.0, 1e9), 1: (-10.0, 10.0)}
    independent = np.column_stack([np.repeat([0.0, 1.0], 2), np.tile([0.0, 1.0], 2)])
    expected = correlation_error(X, independent, schema)
    assert correlation_error(cut(X, 1000), independent, schema) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("distance", [wasserstein_distance, sliced_wasserstein_distance])
def test_of_many_rows_some_are_drawn_by_the_seed(distance):
    X, Y = numbers(0), numbers(1)
    drawn = [rows[np.sort(np.random.default_rng(5).choice(300, 60, replace=False))] for rows in (X, Y)]
    found = distance(cut(X, 3, 90), cut(Y, 250), max_samples=60, random_state=5)
    assert found == distance(*drawn, random_state=5)
    assert found != distance(cut(X, 3, 90), cut(Y, 250), max_samples=60, random_state=6)


def test_chunks_that_do_not_fit_are_refused():
    for measure in (wasserstein_distance, sliced_wasserstein_distance, lambda X, Y: captured_variance_ratio(X, np.eye(3))):
        for cell in (np.nan, np.inf):
            X = numbers(0)
            X[250, 1] = cell
            with pytest.raises(ValueError, match=r"^X must be finite; [^\n]*\.$"):
                measure(cut(X, 200), numbers(1))
    X = table(0)
    for measure in (marginal_total_variation, correlation_error):
        for Y, error, words in [
            ([X[:0]], ValueError, "Y must have at least one row"),
            ([X[["a"]]], ValueError, "with Y as X: schema must name the columns of X"),
            ("nowhere.csv", FileNotFoundError, r"Y must be [^\n]*'nowhere.csv'[^\n]*\.$"),
        ]:
            with pytest.raises(error, match=f"^{words}"):
                measure(X, Y, SCHEMA)


def test_what_would_fill_the_memory_is_refused(monkeypatch):
    X = numbers(0)
    monkeypatch.setattr(_open, "_MOST_VALUES", 500)
    for fitted in (MixedTypeEncoder().fit(X), PrivatePCA(2).fit(X)):
        with pytest.raises(ValueError, match=r"^X makes more than 500 numbers, [^\n]*chunk at a time\.$"):
            fitted.transform(cut(X, 100))
        assert len(fitted.transform(X)) == 300


FITTED = {
    "PMM": PrivateMeasureMechanism(),
    "PSMM": SignedMeasureMechanism(30),
    "LowDim": LowDimSynthesizer(2),
    "Online": OnlineSynthesizer(),
    "LatentFactor": LatentFactorSynthesizer(n_factors=2),
}


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("estimator", FITTED.values(), ids=FITTED)
def test_score_is_that_in_memory(estimator, monkeypatch):
    X = numbers(0)
    fitted = estimator.fit(X)
    for n_compared in (2000, 100):  # of more rows some are compared
        monkeypatch.setattr(_base, "_SCORE_ROWS", n_compared)
        assert fitted.score(cut(X, 3, 90)) == fitted.score(X) < 0
