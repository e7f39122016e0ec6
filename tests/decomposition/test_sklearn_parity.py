"""Without noise PrivatePCA does what scikit-learn's PCA does, as far as a grid of 16 bits lets it."""

import importlib
import inspect
import itertools

import numpy as np
import pytest
import sklearn.decomposition
from scikit_learn_pca import PCA, assert_close_on_the_grid
from sklearn.datasets import load_digits, load_iris

THEIRS = sklearn.decomposition.PCA
IRIS = load_iris().data
close = assert_close_on_the_grid


def tables():
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(300, 6)) @ np.diag([5, 3, 2, 1, 0.5, 0.2]) @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + rng.normal(size=6)
    units = rng.random((500, 4)) * [1, 2, 5, 10] + [0, 30, -5, 1]
    return {"iris": IRIS, "mixed": mixed, "units": units, "digits": load_digits().data}


TABLES = tables()
each_table = pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)


def both(X, *args, **kwargs):
    """Ours and theirs, and the signs that make our components theirs."""
    ours, theirs = PCA(*args, **kwargs).fit(X), THEIRS(*args, **kwargs).fit(X)
    return ours, theirs, np.sign(np.sum(ours.components_ * theirs.components_, axis=1))


@each_table
@pytest.mark.parametrize("n_components", [1, 3, None, 0.01, 0.3, 0.8, 0.99])
def test_spectrum_and_likelihood_are_those_of_pca(X, n_components):
    ours, theirs, _ = both(X, n_components)
    for name in ("mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "noise_variance_"):
        close(getattr(ours, name), getattr(theirs, name))
    assert (ours.n_components_, ours.n_samples_) == (theirs.n_components_, theirs.n_samples_)
    if n_components in (1, 3):
        close(ours.get_covariance(), theirs.get_covariance())
        # The mean of squares over variances: its errors are those of the variances.
        close(ours.score_samples(X), theirs.score_samples(X), atol=5e-3)
        assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-3)


@each_table
@pytest.mark.parametrize("whiten", [False, True])
def test_components_and_projections_are_those_of_pca_up_to_sign(X, whiten):
    ours, theirs, signs = both(X, 3, whiten=whiten)
    close(ours.components_ * signs[:, None], theirs.components_)
    close(ours.transform(X) * signs, theirs.transform(X))
    close(ours.inverse_transform(ours.transform(X)), theirs.inverse_transform(theirs.transform(X)))
    close(ours.inverse_transform(np.eye(3) * signs), theirs.inverse_transform(np.eye(3)))


def test_the_share_that_some_components_reach_exactly_takes_one_more():
    share = PCA().fit(IRIS).explained_variance_ratio_.cumsum()[-2]
    assert PCA(share).fit(IRIS).n_components_ == 4
    assert PCA(np.nextafter(share, 0)).fit(IRIS).n_components_ == 3


def test_likelihood_does_not_depend_on_whitening():
    """scikit-learn's does, by components that it scales twice."""
    assert PCA(2, whiten=True).fit(IRIS).score(IRIS) == PCA(2).fit(IRIS).score(IRIS)


def test_fewer_rows_than_columns_have_the_noise_variance_of_pca():
    X = np.random.default_rng(0).normal(size=(10, 30))
    ours, theirs, _ = both(X, 4)
    close(ours.noise_variance_, theirs.noise_variance_)
    assert PCA(10).fit(X).noise_variance_ == 0


# scikit-learn's own tests, run on the adapter

MODULE = "sklearn.decomposition.tests.test_pca"
# Left out: test_pca_validation, test_sparse_pca_solver_error, test_pca_svd_solver_auto (about svd_solver); test_n_components_mle*,
# test_pca_dim, test_mle_*, test_fit_mle_*, test_small_eigenvalues_mle, test_assess_* (about "mle" and its private functions);
# test_pca_score3 (n_components=0, refused here); test_pca_score (asks that whitening lowers the likelihood; see above);
# test_pca_*consistency*, test_sparse_pca_auto_arpack_*, test_pca_randomized_* (compare solvers, of which there is one here);
# test_*array_api* (other array libraries); test_n_components_none for other solvers, and for fewer rows than columns (all columns are
# kept here).
THEIR_TESTS = [
    *("test_pca", "test_pca_sparse", "test_pca_sparse_fit_transform"),
    *("test_no_empty_slice_warning", "test_whitening", "test_pca_solver_equivalence", "test_pca_explained_variance_empirical"),
    *("test_pca_singular_values", "test_pca_check_projection"),
    *("test_pca_check_projection_list", "test_pca_inverse", "test_n_components_none", "test_infer_dim_1", "test_infer_dim_2"),
    *("test_infer_dim_3", "test_infer_dim_by_explained_variance", "test_pca_sanity_noise_variance"),
    *("test_pca_zero_noise_variance_edge_cases", "test_pca_deterministic_output"),
    *("test_pca_dtype_preservation", "test_pca_n_components_mostly_explained_variance_ratio"),
    *("test_feature_names_out", "test_variance_correctness"),
]
# The solver is no parameter here, so one value of each is enough; of sparse tables, whose fits take longest, the first of each kind.
_SAME = {"svd_solver", "solver", "other_svd_solver", "copy"}
_SAME_IF_SPARSE = _SAME | {"density", "scale", "n_components"}


def shipped():
    """The module of scikit-learn's tests, or None where it is not installed with it."""
    try:
        return importlib.import_module(MODULE)
    except ImportError:
        return None


def values_of(mark, same):
    """(names, values) of one mark of parametrisation; of `same` the first alone."""
    names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
    values = [value if len(names) > 1 else (value,) for value in mark.args[1]]
    return names, values[:1] if set(names) <= same else values


def calls(function):
    """Keyword arguments of all calls that its marks ask for."""
    same = _SAME_IF_SPARSE if "sparse" in function.__name__ else _SAME
    marks = [values_of(mark, same) for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    for chosen in itertools.product(*(values for _, values in marks)):
        yield {name: value for (names, _), row in zip(marks, chosen, strict=True) for name, value in zip(names, row, strict=True)}


def their_tests():
    module = shipped()
    functions = [getattr(module, name, None) for name in THEIR_TESTS]  # older releases lack a few
    for function in filter(None, functions):
        fixtures = {"global_random_seed": [0], "global_dtype": [np.float64, np.float32]}
        taken = {name: values for name, values in fixtures.items() if name in inspect.signature(function).parameters}
        drawn = [dict(zip(taken, row, strict=True)) for row in itertools.product(*taken.values())]
        for number, (arguments, fixture) in enumerate(itertools.product(calls(function), drawn)):
            if function.__name__ != "test_n_components_none" or (len(arguments["data"]) > 4 and arguments["solver"] == "full"):
                yield pytest.param(function, arguments | fixture, id=f"{function.__name__[5:]}-{number}")


@pytest.mark.skipif(shipped() is None, reason="scikit-learn is installed without its tests")
@pytest.mark.parametrize(("function", "arguments"), list(their_tests()))
def test_scikit_learns_own(function, arguments, monkeypatch):
    module = importlib.import_module(MODULE)
    monkeypatch.setattr(module, "PCA", PCA)
    monkeypatch.setattr(module, "assert_allclose", close)
    monkeypatch.setattr(np.testing, "assert_allclose", close)
    function(**arguments)
