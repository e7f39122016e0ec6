"""Private principal component analysis."""

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpsynth._checks import check_choice, is_inside, is_whole, shown
from skdpsynth._sklearn import check_points, validate_rows
from skdpsynth.domain import Box
from skdpsynth.fitting import Budget, Facts, Plan, PrivateEstimator
from skdpsynth.persistence import savable
from skdpsynth.privacy import Mechanism, loss_of_kind, mechanism, scale_of_kind
from skdpsynth.statistics import Moments, Packing

__all__ = ["PrivatePCA"]

_MOST_FEATURES = 6000  # whose moments, and the work space to decompose them, fit into some gigabytes
_MOST_AUTO = 5  # largest n_components that "auto" chooses
_LARGEST_SCALE = 2**57
_NORM_OF = {"laplace": "l1", "gaussian": "l2", "sup_norm": "sup"}


@dataclass(frozen=True, kw_only=True)
class _Moments(Plan):
    """How the moments are released."""

    packing: Packing
    noise: Mechanism
    box: Box

    @property
    def deviation(self) -> float:
        """Deviation of the noise on a second moment, in units of the largest that one row can add: grids may differ."""
        return self.noise.deviation / self.packing.largest**2

    def edge(self, n_samples: int, unit: np.ndarray) -> float:
        """Largest eigenvalue that noise alone is likely to show.

        The spectral norm of independent noise on a symmetric matrix is about twice the largest row norm of its deviations.
        """
        return 2 * self.noise.deviation / n_samples * float(np.max(unit)) * float(np.linalg.norm(unit))


@savable
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
    BudgetWarning
        If epsilon is above 20, delta above one over the number of rows, or delta 0 where one of 1e-6 would make the noise at least three
        times smaller (from some twenty features on).

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) with Gaussian noise) with respect to replacing one
    row; every attribute is released under that guarantee, and fitting again spends epsilon again. ``transform`` of the
    training rows is **not** private: it maps each row on its own. Timing is not protected.

    For synthetic data use `LowDimSynthesizer`; a `PrivateMeasureMechanism` after this in a Pipeline needs ``bounds`` for the
    projected coordinates.

    Released together are the sum S and the upper second moment P of rows y in [-K, K]^d. With "sup_norm", c = ceil(d / 8) copies of
    K S, P off the diagonal and 2 P on it, D integers in all that move by at most 2 K^2 each, get noise of density proportional to
    ``exp(-epsilon max|z| / (2 K^2))`` [2]_, of standard deviation about ``2 K^2 (D + 1.5) / (sqrt(3) epsilon)``. With "laplace", w S
    and P get noise of scale ``K^2 d (d + 1) (1 + k)^2 / (2 epsilon)``, where the whole weight w is K (d + 1) / 4 to the nearest, and
    k = 1/4 (k = 0, and no S, for a public centre): for many features 24 times less noise (15 times with k = 1/4) than in [1]_, whose
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
        n_components: Any = None,
        *,
        center: str = "private",
        noise: str = "auto",
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        bounds: Any = (0.0, 1.0),
        neighboring: str = "replace_one",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.noise = noise
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _plan(self, facts: Facts) -> _Moments:
        self._check_parameters(facts.box)
        options = [option for kind in self._kinds(facts) if (option := self._option(kind, facts)) is not None]
        if not options:
            raise ValueError(
                f"epsilon is too small for {facts.n_features} features, got {shown(self.epsilon)}; use a larger epsilon or fewer features."
            )
        plan = min(options, key=lambda option: option.deviation)
        if plan.deviation == math.inf:
            raise ValueError(f"noise='sup_norm' does not serve so large an epsilon, got {shown(self.epsilon)}; use noise='auto'.")
        self._warn_if_noise_is_all(plan, facts)
        if self.noise == "auto" and not facts.delta and facts.epsilon != math.inf:
            gaussian = self._option("gaussian", facts.part(delta=facts.usual_delta))
            facts.warn_if_delta_helps(plan.deviation, gaussian.deviation if gaussian else 0.0)
        return plan

    def _kinds(self, facts: Facts) -> list[str]:
        if self.noise != "auto":
            return [self.noise]
        return ["laplace", "sup_norm", *(["gaussian"] if facts.delta else [])] if facts.epsilon != math.inf else ["laplace"]

    def _option(self, kind: str, facts: Facts) -> _Moments | None:
        """Return a kind of noise on the finest grid on which sums and noise stay within 62 bits; None where there is no such grid."""
        loss = loss_of_kind(kind, facts.share)
        assert loss is not None
        for bits in range(16, 1, -1):
            packing = Packing.of(facts.n_features, bits, _NORM_OF[kind], self.center == "private")
            change = packing.change(facts.neighboring)
            widest = scale_of_kind(kind, change, loss) * (packing.n_values + 1 if kind == "sup_norm" else 1)
            if (facts.n_samples or 1) * packing.largest_term < 2**62 and widest <= _LARGEST_SCALE:
                noise = mechanism(change, loss, (kind,), packing.n_values)
                box = Box(facts.box.low, facts.box.high, bits)  # not of whole numbers: the components are real
                return _Moments(kind == "gaussian", packing=packing, noise=noise, box=box)
        return None

    def _release(self, X: np.ndarray, plan: _Moments, budget: Budget) -> None:
        box = plan.box
        query = Moments.of(X, box).query(budget.relation, plan.packing)
        noisy = budget.answer(query, plan.noise, "moments")
        self._centre(*plan.packing.unpacked(noisy), box)
        self._decompose(plan.edge(self.n_samples_, box.step / 2))

    def transform(self, X: Any) -> Any:
        """Project rows onto the components.

        **Not private** for the rows you trained on: each row is mapped by itself.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        X_projected : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return (validate_rows(self, X, reset=False) - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Any) -> np.ndarray:
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
    def _n_features_out(self) -> int:
        return self.n_components_

    def _check_parameters(self, box: Box) -> None:
        check_choice("center", self.center, ("private", "public"))
        check_choice("noise", self.noise, ("auto", "laplace", "gaussian", "sup_norm"))
        if self.noise == "gaussian" and not self.delta:
            raise ValueError('noise="gaussian" needs delta > 0, got delta=0; give a delta such as 1e-6, or use noise="auto".')
        if self.neighboring != "replace_one":
            raise ValueError(
                f'PrivatePCA supports neighboring="replace_one" only so far, got {shown(self.neighboring)}; '
                "use that if the number of rows is public."
            )
        if box.n_features > _MOST_FEATURES:
            raise ValueError(
                f"X must have at most {_MOST_FEATURES} features, got {box.n_features}: all their products are held; drop or join columns."
            )
        if not 1e-150 < box.width.min() <= box.width.max() < 1e150:
            raise ValueError("bounds must span widths from 1e-150 to 1e150, whose squares are floats; rescale the columns.")
        k, n_features = self.n_components, box.n_features
        if not (k is None or is_whole(k, 1, n_features) or is_inside(k, 0, 1) or (isinstance(k, str) and k == "auto")):
            raise ValueError(
                f"n_components must be None, 'auto', an int from 1 to n_features={n_features} or a float in (0, 1), got {shown(k)}; "
                "'auto' counts what stands above the noise."
            )

    def _warn_if_noise_is_all(self, plan: _Moments, facts: Facts) -> None:
        """Warn, from public numbers, if noise alone exceeds the largest variance that rows of the box can have."""
        K, n_samples = 2**plan.box.bits - 1, facts.n_samples or 1
        if plan.edge(n_samples, np.ones(facts.n_features)) > facts.n_features * K * K:
            facts.warn(
                f"n_samples={n_samples} and epsilon={float(facts.epsilon):g} are too small for {facts.n_features} features: "
                "the components will be noise; use more rows, fewer features, a larger epsilon, or delta > 0."
            )

    def _centre(self, total: np.ndarray | None, second: np.ndarray, box: Box) -> None:
        """Turn noisy moments into a mean and a covariance, in the units of the data."""
        n, K, unit = self.n_samples_, 2**box.bits - 1, box.step / 2
        second = second / n
        self.mean_ = box.midpoint
        if total is not None:
            mean = np.clip(total / n, -K, K)
            self.mean_ = box.midpoint + unit * mean
            second = (second - np.outer(mean, mean)) * (n / max(n - 1, 1))
        self.covariance_ = unit[:, None] * second * unit

    def _decompose(self, edge: float) -> None:
        """Take the components from the noisy covariance."""
        values, vectors = np.linalg.eigh(self.covariance_)
        values, vectors = values[::-1], vectors[:, ::-1].T
        positive = np.clip(values, 0, None)
        ratio = positive / positive.sum() if positive.any() else np.full(len(values), 1 / len(values))
        k = self.n_components_ = self._choose(values, ratio, edge)
        signs = np.sign(vectors[np.arange(k), np.argmax(np.abs(vectors[:k]), axis=1)])
        self.components_ = vectors[:k] * signs[:, None]
        self.explained_variance_ = positive[:k]
        self.explained_variance_ratio_ = ratio[:k]

    def _choose(self, values: np.ndarray, ratio: np.ndarray, edge: float) -> int:
        """Number of components, from noisy eigenvalues."""
        if self.n_components is None:
            return len(values)
        if isinstance(self.n_components, str):
            return int(np.clip(np.sum(values > edge), 1, min(_MOST_AUTO, len(values))))
        if isinstance(self.n_components, numbers.Integral):
            return int(self.n_components)
        return int(min(np.searchsorted(np.cumsum(ratio), self.n_components) + 1, len(values)))
