"""fit(X, unit=...): whose rows count, whatever holds them, and what the ledger says."""

import copy
import pickle
import warnings
from collections import Counter
from decimal import Decimal
from importlib.util import find_spec
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import sources
from internals import _Choice, _source
from laws import refuses
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, load
from skdpsynth.domain import Nominal
from skdpsynth.exceptions import InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.federated import RemoteTable
from skdpsynth.frames import FirstRows
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.privacy import Unit
from skdpsynth.synthesis import LatentFactorSynthesizer, OnlineSynthesizer

N, K = 700, 3
RNG = np.random.default_rng(0)
X = RNG.random((N, 2))
LABELS = RNG.integers(0, 150, N)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(who=[f"p{label}" for label in LABELS])
FIRST = np.array([np.sum(LABELS[:i] == label) < K for i, label in enumerate(LABELS)])


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        warnings.simplefilter("ignore", SmallSampleWarning)
        yield


def model(**parameters):
    return PrivateMeasureMechanism(**{"random_state": 0, "max_rows_per_unit": K, **parameters})


def sampled(fitted):
    return np.asarray(fitted.sample(200, random_state=0))


def expected(unit):
    """Samples of a table in memory; which rows of a unit count follows from its label."""
    return sampled(model().fit(X, unit=list(unit)))


EXPECTED, OF_WORDS = expected(LABELS.tolist()), expected(FRAME["who"])


QUERIED = ("polars lazy", "list", "generator", "parquet of row groups", "csv", "duckdb", "dask of 4 partitions")
WITH_COLUMN = {
    "pandas": lambda table, folder: table,
    "pandas with an odd index": lambda table, folder: table.set_index(np.arange(N)[::-1] // 2),
    "polars": lambda table, folder: pl.from_pandas(table),
    "arrow": lambda table, folder: sources.arrow(table),
    **{name: sources.SOURCES[name] for name in QUERIED},
}


@pytest.mark.parametrize(("n_rows", "n_jobs"), [(40, 2), (100_000, None)])
@pytest.mark.parametrize("name", WITH_COLUMN)
def test_the_same_rows_of_each_unit_count_whatever_holds_the_column(name, n_rows, n_jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(_source, "rows_at_once", lambda n_columns: n_rows)
    table = WITH_COLUMN[name](FRAME, tmp_path)
    fitted = model(n_jobs=n_jobs).fit(table, unit="who")
    assert np.array_equal(sampled(fitted), OF_WORDS)
    assert fitted.n_samples_ == FIRST.sum()
    assert list(fitted.feature_names_in_) == ["a", "b"]


LABEL_KINDS = {
    "array": lambda: LABELS,
    "list": lambda: LABELS.tolist(),
    "numbers as text": lambda: LABELS.astype(str).tolist(),
    "words": lambda: [f"p{label}" for label in LABELS],
    "bytes": lambda: np.array([b"p%d" % label for label in LABELS]),
    "floats": lambda: LABELS.astype(float),
    "times": lambda: np.datetime64("2020-01-01", "ns") + LABELS.astype("timedelta64[ns]"),
    "series": lambda: pd.Series(LABELS, index=np.arange(N)[::-1]),
    "categories": lambda: pd.Categorical(FRAME["who"]),
    "categorical series": lambda: FRAME["who"].astype("category"),
    "polars": lambda: pl.Series(LABELS),
    "arrow": lambda: pytest.importorskip("pyarrow").chunked_array([LABELS[:100], LABELS[100:]]),
    "tuples": lambda: [("site", label) for label in LABELS.tolist()],
}


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_may_be_an_array_like_of_any_kind(kind):
    given = LABEL_KINDS[kind]()
    fitted = model().fit(X, unit=given)
    if kind in ("times", "tuples"):  # other labels choose other rows, but as many
        assert fitted.n_samples_ == FIRST.sum()
        assert np.array_equal(sampled(fitted), expected(given.astype("int64").tolist() if kind == "times" else given))
    else:
        is_word = kind in ("words", "bytes", "categories", "categorical series")
        assert np.array_equal(sampled(fitted), OF_WORDS if is_word else EXPECTED)


def test_labels_go_along_with_chunks_are_a_column_by_its_number_and_serve_sparse_rows():
    for chunks in ([N], [1, 299, 400], [100] * 7):
        assert np.array_equal(sampled(model().fit(np.split(X, np.cumsum(chunks)[:-1]), unit=LABELS)), EXPECTED)
    assert np.array_equal(sampled(model().fit(np.insert(X, 1, LABELS, axis=1), unit=1)), EXPECTED)
    rows, pca = csr_array(np.where(X > 0.5, X, 0)), PrivatePCA(random_state=0, max_rows_per_unit=K)
    sparse, full = (clone(pca).fit(table, unit=LABELS).covariance_ for table in (rows, rows.toarray()))
    assert np.array_equal(sparse, full)


MISSING = {
    "list": lambda labels: [None if out else label for label, out in labels],
    "NaN": lambda labels: np.array([np.nan if out else label for label, out in labels]),
    "NaT": lambda labels: np.array([np.datetime64("NaT") if out else np.datetime64(int(label), "D") for label, out in labels]),
    "pandas": lambda labels: pd.array([pd.NA if out else label for label, out in labels], dtype="Int64"),
    "objects": lambda labels: pd.Series([pd.NA if out else str(label) for label, out in labels]),
    "polars": lambda labels: pl.Series([None if out else int(label) for label, out in labels]),
    "masked": lambda labels: np.ma.MaskedArray([label for label, _ in labels], [out for _, out in labels]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_rows_without_a_label_are_left_out_and_never_refused(kind):
    out = np.arange(N) % 5 == 0
    fitted = model().fit(X, unit=MISSING[kind](list(zip(LABELS, out, strict=True))))
    assert np.array_equal(sampled(fitted), sampled(model().fit(X[~out], unit=LABELS[~out])))


def test_counting_is_the_same_however_rows_are_cut():
    whole = FirstRows(K).mask(LABELS.tolist())
    counting, parts = FirstRows(K), np.array_split(LABELS, 13)
    assert np.array_equal(whole, FIRST)
    assert np.array_equal(np.concatenate([counting.mask(part.tolist()) for part in parts]), FIRST)
    assert not FirstRows(1, {"7": 1}).mask([7, "7", 7.0, np.int8(7), b"7", 7 + 0j]).any()


def test_a_float_that_stands_for_several_whole_numbers_is_no_label():
    ids = [2**53 + 1, 2**53, -(2**53) - 1, 2**53 - 1]
    assert FirstRows(1).mask([float(each) for each in ids]).tolist() == [False, False, False, True]
    assert FirstRows(1).mask(ids).tolist() == [True, True, True, True]
    assert not FirstRows(1).mask([float("inf"), np.float32(2**60)]).any()
    later = stream(max_rows_per_unit=1).partial_fit(X[:1], unit=[ids[0]])
    later.partial_fit(X[:2], unit=pd.Series([ids[0], None]))  # pandas makes floats of them
    assert later.n_samples_seen_ == 1


def of_stream(rows, k):
    return FirstRows(k).mask([label for label, _ in rows])


def of_table(rows, k):
    cells = np.array([cell for _, cell in rows], dtype=float).reshape(-1, 1)
    return _Choice(k, bytes(64)).of_table(cells, [label for label, _ in rows])


def cells_that_count(rows, k, chosen):
    return Counter(cell for (_, cell), is_kept in zip(rows, chosen(rows, k), strict=True) if is_kept)


def distance(first, second):
    return sum((first - second).values()) + sum((second - first).values())


@pytest.mark.parametrize("chosen", [of_stream, of_table])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("n_rows", [pytest.param(4, marks=pytest.mark.must), 5])
def test_a_unit_that_goes_or_is_replaced_moves_at_most_k_rows_that_count_by_brute_force(n_rows, k, chosen):
    """All tables of some rows of two people in two cells, every unit."""
    for labels in product("ab", repeat=n_rows):
        for cells in product((0, 1), repeat=n_rows):
            rows = list(zip(labels, cells, strict=True))
            counted = cells_that_count(rows, k, chosen)
            assert distance(counted, cells_that_count([row for row in rows if row[0] != "a"], k, chosen)) <= k
            replaced = [(label, 1 - cell) if label == "a" else (label, cell) for label, cell in rows]
            assert distance(counted, cells_that_count(replaced, k, chosen)) <= 2 * k  # each of k rows leaves one cell, and comes to another


@pytest.mark.parametrize(("chosen", "k"), [(of_stream, 1), (of_stream, 2), (of_table, 2)])
def test_one_row_that_goes_may_move_two_that_count_so_a_sum_over_several_units_promises_to_rows_that_are_alone(k, chosen):
    largest = {True: 0, False: 0}
    for labels, cells in product(product("ab", repeat=4), product((0, 1), repeat=4)):
        rows = list(zip(labels, cells, strict=True))
        for place, (label, _) in enumerate(rows):
            is_alone, moved = labels.count(label) == 1, cells_that_count(rows[:place] + rows[place + 1 :], k, chosen)
            largest[is_alone] = max(largest[is_alone], distance(cells_that_count(rows, k, chosen), moved))
    assert largest == {True: 1, False: 2}


def test_codes_that_are_text_stay_text_in_csv_files_where_rows_have_units(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"who": LABELS, "code": np.where(X[:, 0] > 0.5, "01067", "10115")})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    fitted = LatentFactorSynthesizer({"code": Nominal(["01067", "10115"])}, max_rows_per_unit=K, random_state=0)
    assert set(np.asarray(fitted.fit(tmp_path / "rows.csv", unit="who").sample(50)["code"])) <= {"01067", "10115"}


class Elsewhere(RemoteTable):
    def ask(self, question):
        raise AssertionError("nothing may be asked")


def stream(**parameters):
    return OnlineSynthesizer(**{"random_state": 0, "max_rows_per_unit": K, **parameters})


def fed():
    return stream().partial_fit(X, unit=LABELS)


PROVED_FOR_ONE_ROW = {"strategy": "paper"}, {"delta": 1e-6}


def of(table, unit, **parameters):
    return lambda shared: model(accountant=shared, **parameters).fit(table, unit=unit)


AS_Y = "y is ignored and must not name a column, got 'who'; for whose row each is, say unit='who'"
COUNTS = "there are more or fewer labels than rows"
ONE_ROW, IN_MEMORY = "max_rows_per_unit must be 1 for a stream with", "X must be in memory where a stream has units"
K_OR_MORE, COUNT = (0, -1, 1.5, True, None, "3", [3]), "max_rows_per_unit must be a positive integer, got"
SEARCH = {"param_grid": {"n_components": [1]}, "scoring": "captured_variance"}
REFUSED = [  # (call with an account, words)
    (of(FRAME, "whom"), "got 'whom', which is no column; correct the name"),
    *((of(X, unit), "which is no column") for unit in (2, "who")),
    (of(X.tolist(), 1), "which has no columns by name; give the labels"),
    (of(FRAME[["who"]], "who"), "X must have a column beside that of the units"),
    *((of(*given), COUNTS) for given in ((X, LABELS[:-1]), ([X[:9], X[9:]], LABELS[:-1]), ([X[:9], X[9:]], [*LABELS, 1]))),
    (of(X, FRAME[["who"]]), "give one column"),
    (of(X, LABELS[:, None]), "got an array of shape"),
    (of(X, 1.5), "got a float"),
    (of(Elsewhere(np.empty((0, 2))), LABELS), "unit must be None where rows lie elsewhere"),
    (of(X, None), "max_rows_per_unit is 3, but fit got no unit, so each row would be protected by itself"),
    *((of(X, LABELS, max_rows_per_unit=bad), COUNT) for bad in K_OR_MORE),
    (of(X, LABELS, max_rows_per_unit=10**10), r"max_rows_per_unit must be at most epsilon \* 1e9, got 10000000000"),
    (lambda shared: model(accountant=shared).fit(FRAME, "who"), AS_Y),
    (lambda shared: PrivatePCA(1, accountant=shared).fit_transform(FRAME, "who"), AS_Y),
    (lambda shared: stream(accountant=shared).partial_fit(FRAME, "who", unit="who"), AS_Y),
    (lambda _: stream().partial_fit(FRAME, unit="who").partial_fit(FRAME, "who", unit="who"), AS_Y),
    (lambda shared: PrivateSearchCV(PrivatePCA(), **SEARCH, accountant=shared).fit_transform(X, "who"), AS_Y),
    (lambda _: stream().partial_fit(X, unit=LABELS).partial_fit(X), "unit must be given always or never .*, which began with one"),
    (lambda _: stream(max_rows_per_unit=1).partial_fit(X).partial_fit(X, unit=LABELS), "which began with none"),
    (lambda _: fed().set_params(max_rows_per_unit=4).partial_fit(X, unit=LABELS), "max_rows_per_unit must not change along a stream"),
    *((lambda shared, given=given: stream(**given, accountant=shared).fit(X, unit=LABELS), ONE_ROW) for given in PROVED_FOR_ONE_ROW),
    (lambda shared: stream(accountant=shared).fit([X[:9], X[9:]], unit=LABELS), IN_MEMORY),
    (lambda _: fed().partial_fit([X[:9], X[9:]], unit=LABELS), IN_MEMORY),
]


def test_what_units_cannot_be_is_refused_in_one_sentence_and_costs_nothing():
    for call, words in REFUSED:
        shared = PrivacyAccountant(1)
        refuses((TypeError, ValueError), words, call, shared)
        assert shared.spent == 0
    for given in PROVED_FOR_ONE_ROW:  # one row of a unit is proved for every stream
        stream(**given, max_rows_per_unit=1).fit(X, unit=LABELS)


def test_a_budget_that_is_shared_names_the_unit_of_each_fit_or_serves_one_alone():
    shared = PrivacyAccountant(4)
    for table, unit, k in ((FRAME, "who", K), (FRAME[["a", "b"]], FRAME["who"], 1), (X, LABELS, K), (X, None, 1)):
        model(accountant=shared, max_rows_per_unit=k).fit(table, unit=unit)
    assert [entry.unit for entry in shared.ledger] == ["who, at most 3 rows", "who", "given labels, at most 3 rows", None]
    one = PrivacyAccountant(2, unit=Unit("who", K))
    model(accountant=one).fit(FRAME, unit="who")
    for table, unit, k, words in ((X, None, 1, "who, at most 3 rows, got None"), (FRAME, "who", 2, "got who, at most 2 rows")):
        refuses(ValueError, words, model(accountant=one, max_rows_per_unit=k).fit, table, unit=unit)
    assert one.spent == 1


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_bounds_and_levels_are_bought_for_units_too(relation):
    frame = FRAME.assign(level=np.where(X[:, 0] > 0.3, "often", "seldom"))
    fitted = LatentFactorSynthesizer(
        {"a": (0, 1), "b": (0, 1), "level": Nominal("private")}, epsilon=20, delta=1e-4, neighboring=relation, max_rows_per_unit=K
    ).fit(frame, unit="who")
    assert set(fitted.schema_["level"].levels) <= {"other", "often", "seldom", "none"}
    shown = PrivateMeasureMechanism(bounds="private", epsilon=20, neighboring=relation, max_rows_per_unit=K).fit(FRAME, unit="who")
    assert (shown.bounds_[1] >= 0.9).all()


def test_a_fitted_model_is_saved_with_its_unit(tmp_path):
    fitted = model().fit(FRAME, unit="who")
    fitted.save(tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    assert again.accountant_.unit == fitted.accountant_.unit == Unit("who", K)
    assert clone(fitted).max_rows_per_unit == K
    assert pickle.loads(pickle.dumps(fitted)).accountant_.ledger[-1].unit == "who, at most 3 rows"


def test_fit_transform_projects_all_rows_without_the_column_of_labels(tmp_path):
    tables = [FRAME, pl.from_pandas(FRAME), [FRAME[:9], FRAME[9:]]]
    for table in (*tables, *([sources.files(FRAME, tmp_path)] if find_spec("pyarrow") else [])):
        pca = PrivatePCA(1, random_state=0, max_rows_per_unit=K)
        assert np.allclose(pca.fit_transform(table, unit="who"), pca.transform(FRAME[["a", "b"]]))
    assert PrivatePCA(1, random_state=0).fit_transform(X).shape == (N, 1)
    assert PrivatePCA(1).set_output(transform="pandas").fit_transform(FRAME, unit="who").shape == (N, 1)


def test_scikit_learn_routes_the_unit_through_a_pipeline():
    steps = [("half", FunctionTransformer(lambda rows: rows / 2)), ("pca", PrivatePCA(2, random_state=0, max_rows_per_unit=K))]
    with sklearn.config_context(enable_metadata_routing=True):
        measure = PrivateMeasureMechanism(bounds=(-1, 1), random_state=0, max_rows_per_unit=K).set_fit_request(unit=True)
        steps[1] = ("pca", steps[1][1].set_fit_request(unit=True))
        pipeline = Pipeline([*steps, ("pmm", measure)]).fit(X, unit=LABELS)
        assert {step.accountant_.ledger[-1].unit for step in (pipeline[1], pipeline[2])} == {"given labels, at most 3 rows"}
        refuses(ValueError, "fit got no unit", clone(pipeline).fit, X)
    by_name = Pipeline([("pmm", model())]).fit(X, pmm__unit=LABELS)
    assert np.array_equal(sampled(by_name[-1]), EXPECTED)


def test_rows_of_a_unit_are_counted_over_the_whole_stream_also_after_it_was_saved_or_copied(tmp_path):
    whole, parts = stream().fit(X, unit=LABELS), stream()
    for start in range(0, N, 50):
        parts.partial_fit(X[start : start + 50], unit=LABELS[start : start + 50])
    assert parts.n_samples_seen_ == whole.n_samples_seen_ == FIRST.sum()
    assert np.array_equal(sampled(parts), sampled(whole))
    assert float(parts.accountant_.spent) == 1
    whole.save(tmp_path / "stream.zip")
    for again in (load(tmp_path / "stream.zip"), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert again.partial_fit(X, unit=LABELS).n_samples_seen_ == sum(min(2 * count, K) for count in np.bincount(LABELS))
    few = stream(max_rows_per_unit=1).partial_fit(X[:3], unit=[7, "7", "8"])  # a number and its text are one unit
    assert few.partial_fit(X[:3], unit=[8, 7.0, (1, "a")]).n_samples_seen_ == 3


def test_a_stream_that_fails_has_counted_no_row_of_a_unit():
    model = stream(horizon=int(FIRST[:400].sum()) + 5).partial_fit(X[:400], unit=LABELS[:400])
    refuses(ValueError, "horizon is", model.partial_fit, X[400:], unit=LABELS[400:])
    model.set_params(horizon=None).partial_fit(X[400:], unit=LABELS[400:])
    assert model.n_samples_seen_ == FIRST.sum()


@pytest.mark.parametrize("odd", [np.int8(1), np.int64(3), np.float32(2), True])
def test_labels_that_cannot_be_compared_with_each_other_raise_nothing(odd):
    """Which labels others have is private: none may decide whether one can be looked up."""
    X, labels = np.linspace(0, 1, 40)[:, None], np.array([*map(Decimal, range(39)), odd], dtype=object)
    model = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1), max_rows_per_unit=2, random_state=0)
    assert model.fit(X, unit=labels).n_samples_ == 40
