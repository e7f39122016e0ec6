"""Sparse rows: as dense ones, but never written out all at once."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from internals import dense_chunks
from laws import refuses

from skdpsynth import PrivatePCA
from skdpsynth.domain import Box

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")

FORMATS = ("csr_matrix", "csr_array", "csc_matrix", "csc_array", "coo_array", "lil_matrix", "bsr_array")


def table(n_samples=400, n_features=7, dtype=float):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n_samples, n_features)) < 0.3, rng.random((n_samples, n_features)), 0)
    return (X * 10 if np.dtype(dtype).kind in "iu" else X).astype(dtype)


def shown(fitted):
    names = ("components_", "mean_", "explained_variance_", "covariance_", "noise_variance_", "noise_edge_")
    return [np.asarray(getattr(fitted, name)).tobytes() for name in names]


CASES = [*((getattr(sp, name), float) for name in FORMATS), *((sp.csr_array, dtype) for dtype in (np.float32, np.int64, np.uint8, bool))]


@pytest.mark.parametrize(("form", "dtype"), CASES)
def test_sparse_rows_are_fitted_to_the_bit_projected_and_scored_as_dense_ones(form, dtype):
    X, parameters = table(dtype=dtype), {"bounds": (-1, 10), "random_state": 0}
    twice = sp.coo_array(([0.25, 0.5, 0.125], ([0, 0, 1], [1, 1, 0])), shape=(3, 2))  # a cell that is named twice holds its sum
    assert shown(PrivatePCA(**parameters).fit(twice)) == shown(PrivatePCA(**parameters).fit(twice.toarray()))
    fitted = PrivatePCA(3, **parameters).fit(X)
    assert shown(PrivatePCA(3, **parameters).fit(form(X))) == shown(fitted)
    for whiten in (False, True):
        dense, sparse = (fitted.set_params(whiten=whiten).transform(rows) for rows in (X, form(X)))
        assert sparse.dtype == dense.dtype
        assert type(sparse) is np.ndarray
        assert np.allclose(sparse, dense, atol=1e-4 if dtype is np.float32 else 1e-10)
        assert np.array_equal(fitted.score_samples(form(X)), fitted.score_samples(X))


def test_chunks_of_sparse_rows_are_those_of_dense_rows():
    X = table(1000, 300)
    for size in (1, 7, 1000, 5000):
        chunks = list(dense_chunks(sp.csr_array(X), size))
        assert [rows for rows, _ in chunks] == [rows for rows, _ in dense_chunks(X, size)]
        assert np.array_equal(np.concatenate([chunk for _, chunk in chunks]), X)
    box = Box(np.zeros(300), np.ones(300))
    for (rows, steps), (same, expected) in zip(box.chunks(sp.csr_array(X)), box.chunks(X), strict=True):
        assert rows == same
        assert np.array_equal(steps, expected)


def test_rows_are_never_written_out_all_at_once():
    """100,000 rows of 100 columns would take 80 MB; fit, transform and score stay below a fourth of that."""
    cells = np.random.default_rng(0).integers(10**7, size=10**4)
    X = sp.csr_array((np.full(10**4, 0.5), (cells // 100, cells % 100)), shape=(100_000, 100))
    tracemalloc.start()
    fitted = PrivatePCA(2, epsilon=float("inf")).fit(X)
    fitted.transform(X)
    fitted.score(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("cell", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_cells_of_sparse_rows_are_refused(cell):
    X = sp.csr_array(np.where(np.eye(20, 3) > 0, cell, 0))
    fitted = PrivatePCA().fit(table(20, 3))
    for call in (PrivatePCA().fit, fitted.transform, fitted.score):
        refuses(ValueError, r"contains (NaN|infinity)", call, X)
    for X in (sp.coo_array(np.ones(5)), sp.csr_array(np.ones((5, 2)) * 1j), sp.csr_array(np.ones((5, 2)))):
        refuses(ValueError, r"2D array|Complex data|2 features", fitted.transform, X)
