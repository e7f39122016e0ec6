"""Private principal component analysis."""

import math
import numbers
import warnings
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpsynth._estimator import PrivateEstimator, all_or_nothing
from skdpsynth._sklearn import check_choice, check_points, is_inside, is_whole, validate_rows
from skdpsynth.domain import Box
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteSupNorm,
    PrivacyLoss,
    check_delta,
    check_epsilon,
    laplace_scale,
    rho_of_epsilon,
)
from skdpsynth.statistics import Moments

__all__ = ["PrivatePCA"]

_KAPPA = Fraction(1, 4)  # weight of the mean against the second moment in one joint Laplace release
_MEAN_SHARE = Fraction(1, 5)  # share of rho that goes to the mean
_MOST_AUTO = 5  # largest n_components that "auto" chooses
_LARGEST_SCALE = 2**57


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Principal component analysis under differential privacy.

    Releases the exact second moment about the public midpoint of the box (and the sum of the rows) with integer noise,
    and decomposes that. It reads like scikit-learn's ``PCA``, to which it converges as ``epsilon`` grows.

    Parameters
    ----------
    n_components : int, float, "auto" or None, default=None
        Number of components. None: all features. A float in (0, 1): as many as explain that share of the noisy variance.
        "auto": as many eigenvalues (at least 1, at most 5) as stand above the edge of the noise.
    center : {"private", "public"}, default="private"
        "private": estimate the mean within the same budget. "public": centre at the midpoint of the box, at no cost; better
        when the data lie around it.
    noise : {"auto", "laplace", "gaussian", "sup_norm"}, default="auto"
        "gaussian" needs ``delta > 0``. "sup_norm" is pure: one random radius for all moments, then uniform noise within it.
        "auto" takes the one whose second moments have the smallest standard deviation, a public number: "sup_norm" from
        three or four features on, and at delta 1e-6, epsilon 1 "gaussian" from six or seven.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        0: pure differential privacy.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data.
    neighboring : {"replace_one"}, default="replace_one"
        Two tables are neighbours if they differ in one row; the number of rows is public. "add_or_remove_one" is not
        available here yet.
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` before the first draw. None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, by falling eigenvalue.
    mean_ : ndarray of shape (n_features,)
        The noisy mean, or the midpoint of the box.
    explained_variance_ : ndarray of shape (n_components,)
        Eigenvalues of `covariance_`, clipped at 0.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their share of the sum of all positive eigenvalues.
    n_components_ : int
    covariance_ : ndarray of shape (n_features, n_features)
        The noisy covariance (about the midpoint of the box if ``center="public"``); it need not be positive.
    accountant_ : PrivacyAccountant
        What was spent, as a record.
    n_samples_ : int
        Number of rows, public under "replace_one".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, before any budget is spent.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    Warns
    -----
    SmallSampleWarning
        If, by public numbers, the noise exceeds any variance that rows within the bounds can have.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) with Gaussian noise) with respect to replacing one
    row; every attribute is released under that guarantee, and fitting again spends epsilon again. ``transform`` of the
    training rows is **not** private: it maps each row on its own. Timing is not protected.

    For synthetic data use `LowDimSynthesizer`; a `PrivateMeasureMechanism` after this in a Pipeline needs ``bounds`` for the
    projected coordinates.

    Released together are the sum S and the upper second moment P of rows y in [-K, K]^d. With "sup_norm", c = ceil(d / 8) copies of
    K S, P off the diagonal and 2 P on it, D integers in all that move by at most 2 K^2 each, get noise of density proportional to
    ``exp(-epsilon max|z| / (2 K^2))`` [2]_, of standard deviation about ``2 K^2 (D + 1.5) / (sqrt(3) epsilon)``. With "laplace", scales
    ``s = K^2 d (d + 1) (1 + k)^2 / (2 epsilon)`` on P and ``t = K d (1 + k)^2 / (2 k epsilon)`` on S, k = 1/4, cost epsilon exactly (k = 0,
    and no S, for a public centre): for many features 24 times less noise (15 times with k = 1/4) than in [1]_, whose
    moments are about the data's own mean.

    References
    ----------
    .. [1] He, Strohmer, Vershynin, Zhu (2024), "Differentially private low-dimensional synthetic data from high-dimensional
       datasets", Algorithms 2 and 3.
    .. [2] Hardt, Talwar (2010), "On the geometry of differential privacy": the K-norm mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA
    >>> t = np.random.default_rng(0).random((20_000, 1))
    >>> X = np.hstack([t, 1 - t, 0.5 + 0 * t])
    >>> pca = PrivatePCA(n_components=1, epsilon=1.0).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.6)
    True
    >>> pca.transform(X).shape
    (20000, 1)
    """

    def __init__(
        self,
        n_components=None,
        *,
        center="private",
        noise="auto",
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
        self.n_components = n_components
        self.center = center
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        """Release noisy moments of `X` and decompose them.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : PrivatePCA
        """
        X, box, rng = self._begin(X)
        self._check_parameters(box)
        plan, loss, bits = self._calibrate(len(X), box.n_features)
        box = Box(box.low, box.high, bits)  # the components are real, whatever the columns
        self._warn_if_noise_is_all(plan, len(X), box)
        moments = Moments.of(X, box)
        accountant = self._open_accountant(delta=None if loss.rho is not None else 0)
        noisy = accountant.release(self._pack(moments, plan), plan.noise, rng.child("moments"), name="moments", loss=loss)
        accountant.close()

        self.accountant_ = accountant
        self.n_samples_ = len(X)
        self._decompose(noisy, plan, box)
        return self

    def transform(self, X):
        """Project rows onto the components.

        Of the training rows this is **not private**: each row is mapped on its own.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        X_projected : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return (validate_rows(self, X, reset=False) - self.mean_) @ self.components_.T

    def inverse_transform(self, X):
        """Map projected rows back to the space of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = check_points(X)
        if X.shape[1] != self.n_components_:
            raise ValueError(f"X must have {self.n_components_} columns, one for each component, got {X.shape[1]}.")
        return X @ self.components_ + self.mean_

    @property
    def _n_features_out(self):
        return self.n_components_

    def _check_parameters(self, box):
        check_choice("center", self.center, ("private", "public"))
        check_choice("noise", self.noise, ("auto", "laplace", "gaussian", "sup_norm"))
        if self.noise == "gaussian" and not self.delta:
            raise ValueError('noise="gaussian" needs delta > 0, got delta=0; give a delta such as 1e-6, or use noise="auto".')
        if self.neighboring != "replace_one":
            raise ValueError(
                f'PrivatePCA supports neighboring="replace_one" only so far, got {self.neighboring!r}; '
                "use that if the number of rows is public."
            )
        if not 1e-150 < box.width.min() <= box.width.max() < 1e150:
            raise ValueError("bounds must span widths from 1e-150 to 1e150, whose squares are floats; rescale the columns.")
        k, n_features = self.n_components, box.n_features
        if not (k is None or is_whole(k, 1, n_features) or is_inside(k, 0, 1) or (isinstance(k, str) and k == "auto")):
            raise ValueError(
                f"n_components must be None, 'auto', an int from 1 to n_features={n_features} or a float in (0, 1), got {k!r}."
            )

    def _calibrate(self, n_samples, n_features):
        """Choose a release, its loss and the bits of the grid from public numbers."""
        epsilon, delta = check_epsilon(self.epsilon), check_delta(self.delta)
        private_mean = self.center == "private"
        if epsilon == math.inf:
            return _Plan(DiscreteLaplace, 0, 0.0, 0), PrivacyLoss(epsilon=epsilon), _bits(n_samples, lambda K: 0)
        kinds = [self.noise] if self.noise != "auto" else ["laplace", "sup_norm", *(["gaussian"] if delta else [])]
        options = []
        for kind in kinds:
            loss = PrivacyLoss(rho=rho_of_epsilon(epsilon, delta)) if kind == "gaussian" else PrivacyLoss(epsilon=epsilon)
            budget = loss.epsilon if loss.rho is None else loss.rho
            options.append((loss, partial(_PLANS[kind], n_features, budget=budget, private_mean=private_mean)))
        loss, plan = min(options, key=lambda option: option[1](K=2**16 - 1).deviation)
        bits = _bits(n_samples, lambda K: plan(K=K).largest)
        chosen = plan(K=2**bits - 1)
        if chosen.deviation == math.inf:
            raise ValueError(f"noise='sup_norm' does not serve so large an epsilon, got {self.epsilon!r}; use noise='auto'.")
        return chosen, loss, bits

    def _warn_if_noise_is_all(self, plan, n_samples, box):
        """Warn, from public numbers, if noise alone exceeds the largest variance that rows of the box can have."""
        K = 2**box.bits - 1
        if _noise_edge(plan, n_samples, np.ones(box.n_features)) > box.n_features * K * K:
            warnings.warn(
                f"n_samples={n_samples} and epsilon={float(self.epsilon):g} are too small for {box.n_features} features: "
                "the components will be noise; "
                "use more rows, fewer features, a larger epsilon, or delta > 0.",
                SmallSampleWarning,
                stacklevel=4,
            )

    def _pack(self, moments, plan):
        """The integers to release: the upper second moment, after the sum if the mean is private."""
        d = len(moments.total)
        weighted = moments.second * np.where(np.eye(d, dtype=bool), plan.diagonal_weight, 1)
        sums = np.tile(plan.mean_weight * moments.total, plan.copies if self.center == "private" else 0)
        return np.concatenate([sums, weighted[np.triu_indices(d)]])

    def _decompose(self, noisy, plan, box):
        """Turn noisy integer moments into the fitted attributes: post-processing."""
        n, d, K = self.n_samples_, box.n_features, 2**box.bits - 1
        unit = box.step / 2  # one unit of the integers, in the units of the data
        n_upper = d * (d + 1) // 2
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = noisy[-n_upper:] / n
        second += np.triu(second, 1).T
        second[np.diag_indices(d)] /= plan.diagonal_weight
        self.mean_ = box.midpoint
        if self.center == "private":
            sums = noisy[:-n_upper].reshape(plan.copies, d).mean(axis=0) / plan.mean_weight
            mean = np.clip(sums / n, -K, K)
            self.mean_ = box.midpoint + unit * mean
            second = (second - np.outer(mean, mean)) * (n / max(n - 1, 1))
        self.covariance_ = unit[:, None] * second * unit
        values, vectors = np.linalg.eigh(self.covariance_)
        values, vectors = values[::-1], vectors[:, ::-1].T
        positive = np.clip(values, 0, None)
        ratio = positive / positive.sum() if positive.any() else np.full(d, 1 / d)
        edge = _noise_edge(plan, n, unit)
        k = self.n_components_ = self._choose(values, ratio, edge)
        signs = np.sign(vectors[np.arange(k), np.argmax(np.abs(vectors[:k]), axis=1)])
        self.components_ = vectors[:k] * signs[:, None]
        self.explained_variance_ = positive[:k]
        self.explained_variance_ratio_ = ratio[:k]

    def _choose(self, values, ratio, edge):
        """Number of components, from noisy eigenvalues."""
        if self.n_components is None:
            return len(values)
        if self.n_components == "auto":
            return int(np.clip(np.sum(values > edge), 1, min(_MOST_AUTO, len(values))))
        if isinstance(self.n_components, numbers.Integral):
            return int(self.n_components)
        return int(min(np.searchsorted(np.cumsum(ratio), self.n_components) + 1, len(values)))


def _noise_edge(plan, n, unit):
    """Largest eigenvalue that noise alone is likely to show.

    The spectral norm of independent noise on a symmetric matrix is about twice the largest row norm of its deviations.
    """
    return 2 * plan.deviation / n * float(np.max(unit)) * float(np.linalg.norm(unit))


@dataclass(frozen=True)
class _Plan:
    """One way to release the moments: the noise, and whole weights that the sums get before it."""

    kind: Any
    scale: Any
    deviation: float  # of an off-diagonal second moment
    largest: Any  # a size that must stay within 57 bits
    mean_weight: int = 1
    copies: int = 1  # how often the weighted sum of the rows is listed
    diagonal_weight: int = 1

    @property
    def noise(self):
        return self.kind(self.scale)


def _laplace_plan(d, K, budget, private_mean):
    mean_scale, scale = _laplace_scales(d, K, budget, private_mean)
    scales = ([mean_scale] * d if private_mean else []) + [scale] * (d * (d + 1) // 2)
    return _Plan(DiscreteLaplace, scales, math.sqrt(2) * float(scale), max(mean_scale, scale))


def _gaussian_plan(d, K, budget, private_mean):
    mean_scale, scale = _gaussian_scales(d, K, budget, private_mean)
    scales = ([mean_scale] * d if private_mean else []) + [scale] * (d * (d + 1) // 2)
    return _Plan(DiscreteGaussian, scales, float(scale), max(mean_scale, scale))


def _sup_norm_plan(d, K, budget, private_mean):
    """All of K S_i, P_ij (i < j) and 2 P_ii move by at most 2 K^2, so the loss is at most 2 K^2 / scale.

    Proof: |y_i| <= K, so a row contributes K y_i, y_i y_j and 2 y_i^2, in intervals of length 2 K^2. The sum is listed d/8 times: a
    weight for the mean, which costs little and keeps its error, which grows as d^2.5, from passing that of the second moment.
    """
    copies = -(-d // 8)
    scale = laplace_scale(2 * K * K, budget)
    count = d * (d + 1) // 2 + (copies * d if private_mean else 0)
    # Its sampler needs a scale that is not small against the number of values; at epsilons below 1e5 it never is.
    deviation = float(scale) * math.sqrt((count + 1) * (count + 2) / 3) if scale >= count else math.inf
    return _Plan(DiscreteSupNorm, scale, deviation, scale * (count + 1), mean_weight=K, copies=copies, diagonal_weight=2)


_PLANS = {"laplace": _laplace_plan, "gaussian": _gaussian_plan, "sup_norm": _sup_norm_plan}


def _laplace_scales(d, K, epsilon, private_mean):
    """Scales (mean, second moment) of the joint release under replace-one, exact.

    Proof: replace y by y' in [-K, K]^d, let q = y - y' and Q = sum |q_i|. As y y^T - y' y'^T is the symmetric part of
    (y + y') q^T and |y_i + y'_i| + |q_i| <= 2 K, the loss is at most Q / t + c (2 K d Q - Q^2), c = (d + 1) / (2 d s). Its maximum
    over Q is c K^2 d^2 (1 + k)^2 with k = 1 / (2 K d c t): epsilon for the scales below. It is attained at y = K 1, y' = -k K 1.
    """
    if not private_mean:
        return Fraction(0), laplace_scale(Fraction(K * K * d * (d + 1), 2), epsilon)
    joint = (1 + _KAPPA) ** 2
    return laplace_scale(K * d * joint / (2 * _KAPPA), epsilon), laplace_scale(K * K * d * (d + 1) * joint / 2, epsilon)


def _gaussian_scales(d, K, rho, private_mean):
    """Scales (mean, second moment) for rho-zCDP under replace-one, rounded up to whole numbers.

    The upper second moment moves by at most K^2 d in L2, the sum by at most 2 K sqrt(d): rho = (K^2 d)^2 / (2 s^2) + 2 K^2 d / t^2.
    """
    mean_rho = rho * _MEAN_SHARE if private_mean else Fraction(0)
    scale = _root_above(Fraction(K**4 * d * d) / (2 * (rho - mean_rho)))
    return (_root_above(2 * K * K * d / mean_rho) if private_mean else Fraction(0)), scale


def _root_above(square):
    """Smallest whole number whose square is at least the given Fraction."""
    return Fraction(math.isqrt(math.ceil(square) - 1) + 1)


def _bits(n_samples, largest_scale):
    """Bits of the grid: 16, or fewer where sums or noise would pass 62 bits (a rule on public numbers)."""
    for bits in range(16, 1, -1):
        K = 2**bits - 1
        if n_samples * K * K < 2**62 and largest_scale(K) <= _LARGEST_SCALE:
            return bits
    raise ValueError("epsilon is too small for this many features; use a larger epsilon or fewer features.")
