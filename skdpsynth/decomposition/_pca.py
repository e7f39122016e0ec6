"""Private principal component analysis."""

import math
from typing import Any

import numpy as np

from skdpsynth._validation import check_choice, is_inside, is_integer, is_real, short_repr
from skdpsynth.decomposition._pca_api import PrincipalComponents, result_dtype
from skdpsynth.decomposition._second_moment import SecondMomentPlan, plan_second_moment, shrink_mean
from skdpsynth.domain import BITS, Ball, Box, has_private
from skdpsynth.fitting import Budget, Facts, PrivateEstimator
from skdpsynth.frames import Rows, drop_unit
from skdpsynth.persistence import savable

__all__ = ["PrivatePCA"]

_MOST_FEATURES = 4000  # whose moments, noise and decomposition take a few minutes and gigabytes


@savable
class PrivatePCA(PrincipalComponents, PrivateEstimator):
    """Principal component analysis under differential privacy.

    Finds a ball where the rows lie, privately, releases their second moment in it with noise that fits it, and decomposes that.
    It reads like scikit-learn's ``PCA``, to which it converges as ``epsilon`` grows.

    Parameters
    ----------
    n_components : int, float, "auto" or None, default=None
        Number of components. None: all features. A float in (0, 1): as many as explain that share of the trace of
        the noisy covariance.
        "auto": as many eigenvalues (at least 1, at most 10) as stand above `noise_edge_`.
    center : {"private", "public"} or array-like of shape (n_features,), default="private"
        "private": estimate the mean within the same budget. "public": center at the midpoint of the box, or at a public point within it,
        at no cost; better when the data lie around it.
    noise : {"auto", "matrix_laplace", "gaussian", "laplace"}, default="auto"
        "matrix_laplace" is pure: a symmetric random matrix whose eigenvalues are as small as those of d^2 numbers can be. "gaussian" needs
        ``delta > 0``. "auto" takes the one that disturbs eigenvalues least, by public numbers: with delta 1e-6 and epsilon 1 "gaussian"
        from some four features on. "laplace" is the noise of [1]_ made tight: it knows the box alone, and is kept for comparison.
    max_norm : float, default=None
        A public bound on the distance of a row from the center; rows beyond are shrunk to it. With ``center="private"`` that is the one
        bought first. None: a radius is found privately, for 2 to 20 % of the budget. Never take it from the data. At least a thousandth
        of the widest column.
    whiten : bool, default=False
        Whether `transform` divides each projected column by the square root of its ``explained_variance_``, so that all have unit
        variance, and `inverse_transform` multiplies by it.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        0: pure differential privacy.
    bounds : tuple, dict or "private", default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`. Noise has one size on all columns, so
        put columns of unlike units on one scale first, by their public bounds: ``(X - low) / (high - low)``. Bounds may be generous where
        rows are many or lie about the center: the noise on the moments follows the radius, not the box.
        "private": unknown, so a tenth of the budget buys them first; a dict may say so of some columns.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which tables are neighbors. "replace_one": those that differ in one row; the number of rows is public. "add_or_remove_one": those
        where one has a row more; the number of rows is private, and a twentieth of the budget buys a noisy one.
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit`: the most rows of each that count, chosen at random. Then `epsilon` protects all of them together, and the
        noise is that many times larger. It must be public; see the guide on units.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged the whole ``epsilon`` before the first draw.
        None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.
    n_jobs : int, default=None
        Threads that add up the rows, as everywhere in scikit-learn: the model does not depend on it. None: 1, or what
        ``joblib.parallel_config`` says.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows, by falling eigenvalue. The first entry of at least 0.4 of the largest is positive, a sign that noise
        seldom flips.
    mean_ : ndarray of shape (n_features,)
        The noisy mean, or the public center.
    explained_variance_ : ndarray of shape (n_components,)
        Eigenvalues of `covariance_`, clipped at 0.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Their share of the trace of `covariance_`, or of their sum where noise makes that larger.
    singular_values_ : ndarray of shape (n_components,)
        Square roots of ``(n_samples_ - 1) * explained_variance_``.
    noise_variance_ : float
        Mean of the other eigenvalues, as in probabilistic PCA: the mean variance of the rows beside the components. 0 if all
        components are kept, or if noise makes the mean negative.
    noise_edge_ : float
        The largest eigenvalue that noise alone is likely to show, by its law; 0 without noise. Compare `explained_variance_` with it.
    n_components_ : int
    covariance_ : ndarray of shape (n_features, n_features)
        The noisy covariance (about the public center, if that was asked for); it need not be positive.
    bounds_ : tuple of ndarray of shape (n_features,)
        Low and high; only where bounds were private.
    accountant_ : PrivacyAccountant
        Record of the spent budget.
    n_samples_ : int
        Number of rows: public under "replace_one", noisy under "add_or_remove_one".
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
        If, by public numbers, the noise exceeds any variance that the rows can have.
    BudgetWarning
        If epsilon is above 20, delta above one over the number of rows, or delta 0 where one of 1e-6 would make the noise at least three
        times smaller (from some fifty features on).

    See Also
    --------
    LowDimSynthesizer : Synthetic rows from private directions.
    skdpsynth.metrics.captured_variance_ratio : How much of the variance directions capture.
    sklearn.decomposition.PCA : The same without privacy.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) with Gaussian noise) with respect to `neighboring`; every
    attribute is released under that guarantee, and fitting again spends epsilon again. ``transform`` of the training rows is **not**
    private: it maps each row on its own. Timing is not protected.

    *After fit.* `score`, `score_samples`, `get_covariance` and `get_precision` are those of probabilistic PCA. Noise makes some
    eigenvalues of `covariance_` negative or too small, so in these methods, and in whitening, a mean variance of m directions is at
    least ``noise_edge_ / (2 sqrt(n_features m))``, what noise alone does to it, and at least that of rounding to the grid: all
    results are finite. `score`, `score_samples` and `transform` read their rows unprotected.

    Sparse rows release what dense ones do, and are never written out all at once. Fitted to floats of 32 bits, `components_` and the
    attributes that follow are rounded to 32 bits after the release; `covariance_` is not. `transform` and `inverse_transform` return
    the floats that they get.

    For synthetic data use `LowDimSynthesizer`; a `PrivateMeasureMechanism` after this in a Pipeline needs ``bounds`` for the
    projected coordinates.

    *Steps.* Rows become whole numbers, of one length on all axes. (1) With ``center="private"`` a tenth of the budget buys the sum of
    the rows in the box, and they are centered at it as far as it is no noise. (2) From 2 to 20 %, more for few rows, buy counts of
    their squared lengths, between public radii that fall by the fourth root of 2. The radius r is taken that balances the noise, which
    grows as r^2, with what shrinking takes from the second moment; rows beyond are shrunk to it, exactly, each by itself. (3) The rest
    buys the second moment in the ball, with one more coordinate ``c = r / sqrt(10)`` of every row that carries the mean. Steps that
    few rows cannot pay for are left out, by public numbers.

    *Noise.* Replacing a row moves that matrix by at most ``2 (r^2 + c^2)`` in nuclear norm and ``sqrt(2) (r^2 + c^2)`` in Frobenius norm,
    adding one by half and by ``1 / sqrt(2)`` of that. Matrix Laplace noise of scale ``beta = 2 (r^2 + c^2) / epsilon`` has spectral norm
    1.665 d beta [2]_, where independent noise on d^2 entries has one of order d^2.5. What shrinking took from the sum of all variances is
    given back to `covariance_` as a factor, which is about right in the mean over the directions: where rows were shrunk, large
    eigenvalues come out too small, the more so the heavier the tails. Noise makes the largest ones too large.

    References
    ----------
    .. [1] He, Strohmer, Vershynin, Zhu (2024), "Differentially private low-dimensional synthetic data from high-dimensional
       datasets", Algorithms 2 and 3.
    .. [2] See `skdpsynth.privacy.DiscreteMatrixLaplace`, where its privacy is proved.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA
    >>> t = np.random.default_rng(0).random((20_000, 1))
    >>> X = np.hstack([t, 1 - t, 0.5 + 0 * t])
    >>> pca = PrivatePCA(n_components=1, epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.6)
    True
    >>> pca.transform(X).shape
    (20000, 1)
    """

    def __init__(
        self,
        n_components: Any = None,
        *,
        center: Any = "private",
        noise: str = "auto",
        max_norm: Any = None,
        whiten: bool = False,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        bounds: Any = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: Any = 1,
        accountant: Any = None,
        random_state: Any = None,
        n_jobs: Any = None,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.noise = noise
        self.max_norm = max_norm
        self.whiten = whiten
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _plan(self, facts: Facts) -> SecondMomentPlan:
        point = self._check_parameters(facts.box)
        has_mean = isinstance(self.center, str) and self.center == "private"
        kinds = [self.noise] if self.noise != "auto" else ["matrix_laplace", *(["gaussian"] if facts.delta else [])]
        kinds = kinds if facts.rho is None else ["gaussian"]
        options = [steps for kind in kinds if (steps := plan_second_moment(kind, facts, point, self.max_norm, has_mean)) is not None]
        if not options:
            raise ValueError(
                f"epsilon is too small for {facts.n_features} features, got {short_repr(self.epsilon)}; use a larger epsilon or fewer "
                "features."
            )
        plan = min(options, key=lambda steps: steps.relative_edge)
        self._warn_of_noise(plan, facts, point)
        return plan

    def _warn_of_noise(self, plan: SecondMomentPlan, facts: Facts, point: np.ndarray | None) -> None:
        """Warn, by public numbers, if noise exceeds the largest variance that rows can have, or where a delta would help."""
        n_samples = facts.n_samples or 1
        if plan.relative_edge > n_samples:
            facts.warn(
                f"n_samples={n_samples} and epsilon={float(facts.epsilon):g} are too small for {facts.n_features} features: "
                "the components will be noise; use more rows, fewer features, a larger epsilon, or delta > 0."
            )
        if self.noise == "auto" and not facts.delta and facts.epsilon != math.inf:
            gaussian = plan_second_moment("gaussian", facts.part(delta=facts.usual_delta), point, self.max_norm, plan.has_mean)
            facts.warn_if_delta_helps(plan.relative_edge, gaussian.relative_edge if gaussian else 0.0)

    def _release(self, rows: Rows, plan: SecondMomentPlan, budget: Budget) -> None:
        exact, rows, plan = plan.summed(rows)
        ball, stretch, exact = plan.located(exact, rows, self.n_samples_, budget)
        total, second = plan.answered(exact, ball, budget)
        mean, covariance = self._centered(total, second, ball, plan.mean_deviation(ball) / self.n_samples_ if plan.has_mean else 0.0)
        edge = stretch * plan.edge(ball) / self.n_samples_ * float(np.max(ball.unit)) ** 2
        self._set_components(stretch * covariance, mean, edge, result_dtype(rows, ball.width), float(ball.box.step.min()))
        if self.explained_variance_[0] < self.noise_edge_ and plan.relative_edge <= self.n_samples_:  # else it was told before
            budget.warn(
                f"None of the components stands above noise_edge_={self.noise_edge_:.3g}, the largest variance that noise alone may show; "
                "use more rows, fewer features or a larger epsilon."
            )

    def fit_transform(self, X: Any, y: Any = None, unit: Any = None) -> Any:
        """Fit, and project the same rows onto the components: all of them, also those that did not count for their unit.

        What `fit` releases is private; the projected rows are **not**: each is mapped by itself.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or other table that `fit` takes, of shape (n_samples, n_features)
        y : None
            Ignored.
        unit : str, int or array-like of shape (n_samples,), default=None
            As in `fit`; a column of labels is not projected.

        Returns
        -------
        X_projected : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X, y).transform(X) if unit is None else self.fit(X, y, unit=unit).transform(drop_unit(X, unit))

    def _check_parameters(self, box: Box) -> np.ndarray | None:
        """Return the public center, None for the midpoint; refuse parameters that are out of their domain."""
        check_choice("noise", self.noise, ("auto", "matrix_laplace", "laplace", "gaussian"))
        if self.noise == "gaussian" and not self.delta:
            raise ValueError('noise="gaussian" needs delta > 0, got delta=0; give a delta such as 1e-6, or use noise="auto".')
        if box.n_features > _MOST_FEATURES:
            raise ValueError(
                f"X must have at most {_MOST_FEATURES} features, got {box.n_features}: all their products are held; drop or join columns."
            )
        if not 1e-150 < box.width.min() <= box.width.max() < 1e140:
            raise ValueError("bounds must span widths from 1e-150 to 1e140, whose squares with noise are floats; rescale the columns.")
        if has_private(self.bounds) and (self.max_norm is not None or not (isinstance(self.center, str) or self.center is None)):
            raise ValueError(
                "max_norm and a point as center must be left out for bounds='private', because they tell where rows lie; give bounds too."
            )
        self._check_max_norm(box)
        if not isinstance(self.whiten, bool | np.bool_):
            raise ValueError(f"whiten must be True or False, got {short_repr(self.whiten)}; False keeps the units of the columns.")
        k, n_features = self.n_components, box.n_features
        if not (k is None or is_integer(k, 1, n_features) or is_inside(k, 0, 1) or (isinstance(k, str) and k == "auto")):
            raise ValueError(
                f"n_components must be None, 'auto', an int from 1 to n_features={n_features} or a float in (0, 1), got {short_repr(k)}; "
                "'auto' counts what stands above the noise."
            )
        return _public_center(self.center, box)

    def _check_max_norm(self, box: Box) -> None:
        if self.max_norm is None:
            return
        if not (is_real(self.max_norm) and 0 < self.max_norm < math.inf):
            raise ValueError(
                f"max_norm must be None or a positive finite number, got {short_repr(self.max_norm)}; None finds a radius privately."
            )
        if self.noise == "laplace":
            raise ValueError('max_norm does not serve noise="laplace", whose scale knows the bounds only; use noise="auto".')
        least = 64 * float(box.width.max()) / 2**BITS
        if self.max_norm < least:
            raise ValueError(
                f"max_norm must be at least {least:g}, a thousandth of the widest column, got {short_repr(self.max_norm)}; narrow the "
                "bounds."
            )

    def _centered(self, total: np.ndarray | None, second: np.ndarray, ball: Ball, deviation: float) -> tuple[np.ndarray, np.ndarray]:
        """Turn noisy moments into a mean and a covariance about it, in the units of the data; `deviation` is that of the mean."""
        n, unit = self.n_samples_, ball.unit
        center, second = ball.box.midpoint + unit * ball.center, second / n
        if total is not None:
            mean = np.clip(total / n, -ball.largest, ball.largest)
            # The square of a noisy mean is too large by the noise, in expectation; and the mean is nearer if it is shrunk by that share.
            nearer = shrink_mean(mean, deviation)
            second = (second - np.outer(nearer, mean)) * (n / max(n - 1, 1))
            center = ball.clipped(center + unit * nearer)
        return center, unit[:, None] * second * unit


def _public_center(center: Any, box: Box) -> np.ndarray | None:
    """Return a public center that is a point within bounds, or None for "private" and "public"."""
    if isinstance(center, str) or center is None:
        check_choice("center", center, ("private", "public"), " or a public point")
        return None
    point = _as_floats(center)
    if point.shape != (box.n_features,) or not ((box.low <= point) & (point <= box.high)).all():
        raise ValueError(
            f"center must be 'private', 'public' or a point of shape ({box.n_features},) within bounds, got {short_repr(center)}; "
            "'public' is the midpoint of the bounds."
        )
    return point


def _as_floats(values: Any) -> np.ndarray:
    """Return an array-like of real numbers as floats; anything else as an empty array."""
    try:
        array = np.asarray(values)
        return array.astype(float) if array.dtype.kind in "iuf" else np.zeros(0)
    except (TypeError, ValueError):
        return np.zeros(0)
