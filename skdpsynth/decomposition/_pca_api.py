"""The API of scikit-learn's ``PCA`` after `fit`, as post-processing."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpsynth._sklearn import check_feature_names, check_points
from skdpsynth.frames import Table, dense_chunks
from skdpsynth.tables import check_enough, collect_arrays, continue_numbers

MAX_AUTO_COMPONENTS = 10  # largest n_components that "auto" chooses
_LEADING = 0.4  # of the largest entry: the first entry so large is made positive
_VALUES = 1 << 17  # of rows that are scored at a time
_NARROWEST, _WIDEST = 1e-12, 1e15  # sides whose squares, and one over those of a grid step, are floats of 32 bits


class PrincipalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """The API of scikit-learn's ``PCA`` after `fit`, from a released mean and covariance.

    A subclass has the parameters ``n_components`` and ``whiten``, sets ``n_samples_`` and calls `_set_components` at the end of its fit.
    """

    n_components: Any
    whiten: Any
    n_samples_: int

    def _set_components(self, covariance: np.ndarray, mean: np.ndarray, edge: float, dtype: DTypeLike, step: float) -> None:
        """Set the fitted attributes from a released mean and covariance, which may have negative eigenvalues.

        `edge` is the largest eigenvalue that noise alone is likely to show, `step` the smallest side of a step of the grid of the rows.
        """
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1].T
        positive = np.clip(values, 0, None)
        # Noise has no trace on average, while the positive eigenvalues add up noise: shares are of the trace, as far as that holds them.
        shares = np.cumsum(values / trace) if (trace := float(values.sum())) > 0 else np.arange(1, len(values) + 1) / len(values)
        self.covariance_, self.noise_edge_ = covariance, float(edge)
        self._rounding = step**2 / 12  # the variance of an error that is uniform on a step
        k: Any = self.n_components
        if k is None:
            k = len(values)
        elif isinstance(k, str):
            k = np.clip(np.sum(values > edge), 1, min(MAX_AUTO_COMPONENTS, len(values)))
        elif not isinstance(k, numbers.Integral):
            k = min(np.argmax(np.append(shares, math.inf) > k) + 1, len(values))
        k = self.n_components_ = int(k)
        self.mean_ = mean.astype(dtype)
        self.components_ = fix_signs(vectors[:k]).astype(dtype)
        self.explained_variance_ = positive[:k].astype(dtype)
        kept = float(positive[:k].sum())
        whole = trace if kept <= trace * (1 + 1e-12) else kept
        self.explained_variance_ratio_ = (positive[:k] / whole if whole > 0 else np.full(k, 1 / len(values))).astype(dtype)
        self.singular_values_ = np.sqrt(max(self.n_samples_ - 1, 0) * positive[:k]).astype(dtype)
        # Negative eigenvalues count too: noise has no trace on average, while the positive ones alone would add up noise. And as many
        # as n rows can have, as in scikit-learn.
        rest = min(self.n_samples_, len(values)) - k
        self.noise_variance_ = max(float(values[k:].sum()) / rest, 0.0) if rest > 0 else 0.0

    def transform(self, X: Table) -> Any:
        """Project rows onto the components.

        **Not private** for the rows you trained on: each row is mapped by itself.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Sparse rows are projected as they are; files and all else that is not in memory, chunk by chunk.

        Returns
        -------
        X_projected : ndarray of shape (n_samples, n_components)
            Of 32 bits where `X` has floats of 32 bits, else of 64. With ``whiten=True`` each column is divided by the square root of
            its ``explained_variance_``, or of the smallest variance that stands out of noise and grid, if that is larger.
        """
        check_is_fitted(self)
        return collect_arrays(continue_numbers(self, X).map(self._project_rows, self.n_components_))

    def _project_rows(self, X: Table) -> np.ndarray:
        dtype, axes, mean = _float_dtype(X), self._axes(-1).T, self.mean_.astype(float)
        if issparse(X):
            return (X @ axes - mean @ axes).astype(dtype)
        # A fit that kept 64 bits may have numbers that 32 cannot hold.
        work = np.result_type(dtype, self.components_.dtype)
        return ((X.astype(work, copy=False) - mean.astype(work)) @ axes.astype(work)).astype(dtype, copy=False)

    def inverse_transform(self, X: Table) -> np.ndarray:
        """Map projected rows back to the space of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Of 32 bits where `X` has floats of 32 bits, else of 64.
        """
        check_is_fitted(self)
        X = check_points(X, dtype=[np.float64, np.float32])
        if X.shape[1] != self.n_components_:
            raise ValueError(f"X must have {self.n_components_} columns, one for each component, got {X.shape[1]}.")
        work = np.result_type(X.dtype, self.components_.dtype)
        return (X @ self._axes(1).astype(work) + self.mean_.astype(work)).astype(X.dtype, copy=False)

    def get_covariance(self) -> np.ndarray:
        """Return the covariance of the probabilistic model: `explained_variance_` along the components, `noise_variance_` elsewhere.

        Unlike `covariance_`, which is what was released, it is positive definite. Variances below what stands out of noise and grid are
        raised to that (see Notes of the class).

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self)
        return self._matrix_from_eigenvalues(*self._variances())

    def get_precision(self) -> np.ndarray:
        """Return the inverse of `get_covariance`.

        Returns
        -------
        precision : ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self)
        along, beside = self._variances()
        return self._matrix_from_eigenvalues(1 / along, 1 / beside)

    def score_samples(self, X: Table) -> np.ndarray:
        """Return the log-likelihood of each row under the probabilistic model.

        Reads `X` unprotected, so it is **not private** for the rows you trained on.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or other table that `fit` takes, of shape (n_samples, n_features)

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return collect_arrays(continue_numbers(self, X).map(self._scores))

    def _scores(self, X: Table) -> np.ndarray:
        axes, (along, beside), scores = self.components_.astype(float), self._variances(), np.empty(X.shape[0])
        log_volume = np.log(along).sum() + (len(self.mean_) - len(along)) * math.log(beside)
        for some, rows in dense_chunks(X, max(1, _VALUES // X.shape[1])):
            centered = rows.astype(float) - self.mean_
            projected = centered @ axes.T
            # Deviations, not variances, are divided by: squares may leave the range of floats.
            residual = (centered - projected @ axes) / math.sqrt(beside)
            squares = np.square(projected / np.sqrt(along)).sum(axis=1) + np.square(residual).sum(axis=1)
            scores[some] = -0.5 * (squares + log_volume + len(self.mean_) * math.log(2 * math.pi))
        return scores

    def score(self, X: Table, y: object = None) -> float:
        """Return the mean log-likelihood of rows under the probabilistic model.

        Reads `X` unprotected, so it is **not private** for the rows you trained on.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        n_samples, total = 0, 0.0
        for scores in continue_numbers(self, X).map(self._scores).chunks():
            n_samples, total = n_samples + len(scores), total + float(scores.sum())
        check_enough(n_samples, 1)
        return total / n_samples

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Return the names of the components.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Must be the names of the columns of `fit`, where those had names.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        check_feature_names(self, input_features)
        return super().get_feature_names_out()

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _axes(self, power: int) -> np.ndarray:
        """Components, times a power of their deviations if whitened: `inverse_transform` multiplies by the divisors of `transform`."""
        axes = self.components_.astype(float)
        if not self.whiten:
            return axes
        return axes * np.sqrt(np.maximum(self.explained_variance_, self._least(1)))[:, None] ** power

    def _least(self, n_directions: int) -> float:
        """Return the smallest mean variance of this many directions that can be told from 0, a function of released numbers.

        Independent noise of deviation s on the entries shows eigenvalues up to 2 s sqrt(d), and moves the mean variance of m orthogonal
        directions by about s / sqrt(m): no less is known. Without noise it is the variance that the grid makes.
        """
        noise = self.noise_edge_ / (2 * math.sqrt(len(self.mean_) * n_directions))
        return max(noise, self._rounding, float(np.finfo(float).tiny))

    def _variances(self) -> tuple[np.ndarray, float]:
        """Variances of the probabilistic model: along each component, and along every direction orthogonal to them."""
        along = np.maximum(self.explained_variance_.astype(float), max(self.noise_variance_, self._least(1)))
        others = len(self.mean_) - self.n_components_
        # With all components there is nothing beside them, and any number will do.
        return along, max(self.noise_variance_, self._least(others)) if others else float(along[-1])

    def _matrix_from_eigenvalues(self, along: np.ndarray, beside: float) -> np.ndarray:
        axes = self.components_.astype(float)
        matrix = (axes.T * (along - beside)) @ axes
        matrix[np.diag_indices(len(matrix))] += beside
        return matrix.astype(self.components_.dtype)


def keep_first(fitted: PrincipalComponents, n_components: int) -> None:
    """Keep the first components alone, in place; the variance of the others counts as variance beside the components."""
    dropped = float(fitted.explained_variance_[n_components:].sum())
    rest = min(fitted.n_samples_, len(fitted.mean_)) - fitted.n_components_
    fitted.noise_variance_ = (fitted.noise_variance_ * max(rest, 0) + dropped) / max(rest + fitted.n_components_ - n_components, 1)
    fitted.n_components_ = n_components
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        setattr(fitted, name, getattr(fitted, name)[:n_components])


def fix_signs(vectors: np.ndarray) -> np.ndarray:
    """Return rows, each with the sign that makes its first large entry positive: the first of at least 0.4 of the largest.

    No rule is stable at every vector: a continuous odd function has a zero on every path from v to -v. The largest entry and the sum have
    theirs at the vectors of real data: contrasts, waves, patterns of images, where equal entries of both signs flip every other fit. This
    rule flips least of those that were tried (sums with generic, falling and oscillating weights, powers, largest and first entries) on
    cosines, patches, contrasts and random vectors with noise.
    """
    size = np.abs(vectors)
    first = np.argmax(size >= _LEADING * size.max(axis=1, keepdims=True), axis=1)
    return vectors * np.sign(np.take_along_axis(vectors, first[:, None], axis=1))


def result_dtype(X: Table, width: np.ndarray) -> Any:
    """Return the dtype of a model fitted to `X`: 32 bits stay, where public bounds of this width let all results be such floats."""
    return _float_dtype(X) if width.min() >= _NARROWEST and width.max() <= _WIDEST else np.dtype(np.float64)


def _float_dtype(X: Table) -> Any:
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
