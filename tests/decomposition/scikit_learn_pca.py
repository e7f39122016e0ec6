"""Our PrivatePCA behind the signature of scikit-learn's PCA, without noise, for scikit-learn's own tests."""

import math

import numpy as np
from scipy.sparse import issparse

from skdpsynth import PrivatePCA

# A row is moved by at most half of a step of 2**-16 of the range of its column, and on average not at all. So moments are right to about
# one part in 10**5 of the squared range, and what follows from them to some such parts over the gaps between eigenvalues.
GRID_RTOL, GRID_ATOL = 2e-4, 5e-5  # of a number, and of the largest number beside it


class PCA(PrivatePCA):
    """It takes its bounds from the rows, which is no harm without noise and no private thing to do."""

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
    ):
        # There is one solver here, and no seed where there is no noise.
        super().__init__(n_components, whiten=whiten, epsilon=math.inf)
        self.copy, self.svd_solver, self.tol, self.iterated_power = copy, svd_solver, tol, iterated_power
        self.n_oversamples, self.power_iteration_normalizer = n_oversamples, power_iteration_normalizer

    def fit(self, X, y=None):
        values = X.toarray() if issparse(X) else np.asarray(X, dtype=float)
        low, high = values.min(axis=0), values.max(axis=0)
        self.bounds = low, np.where(high > low, high, low + 1)
        return super().fit(X, y)


def assert_close_on_the_grid(actual, desired, rtol=1e-7, atol=0.0, **_):
    """As numpy's ``assert_allclose``, to what the grid lets through."""
    actual, desired = np.asarray(actual), np.asarray(desired)
    largest = np.abs(desired).max(initial=0) or 0.5  # zeros have no size of their own
    assert np.isfinite(actual).all()
    assert (np.abs(actual - desired) <= max(rtol, GRID_RTOL) * np.abs(desired) + max(atol, GRID_ATOL * largest)).all()
