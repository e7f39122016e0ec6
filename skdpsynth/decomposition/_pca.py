"""Private principal component analysis."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from operator import add, attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from skdpsynth._sensitivity import count_sensitivity
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import Between, Whole, check_choice, check_parameters, is_real, short_repr
from skdpsynth.decomposition._pca_api import PrincipalComponents, result_dtype
from skdpsynth.domain import BITS, Ball, BoundsLike, Box, has_private
from skdpsynth.fitting import Budget, Facts, Plan, PrivateEstimator
from skdpsynth.frames import Rows, Table, Unit, drop_unit
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Mechanism, PrivacyLoss, Seed, losses_of_kind, mechanism, scale_of_kind
from skdpsynth.statistics import CountLengths, Gram, Histogram, KeptLengths, Moments, Packing, total, total_and_kept

__all__ = ["PrivatePCA"]

_MOST_FEATURES = 4000  # whose moments, noise and decomposition take a few minutes and gigabytes
_CENTER_SHARE = Fraction(1, 10)  # of the budget; measured, and little depends on it
_RADIUS_SHARES = (0.02, 0.2)  # a tenth at 1000 for rows times epsilon; few rows need more to be seen
_BORDER = 10  # the squared radius is so many times the square of the coordinate that carries the mean
_LARGEST_SCALE = 2**57
_LARGEST_SUM = 2**62
_MOST_RADII = 60
_CERTAIN = 3  # deviations of the noise, within which a count is known
_LONG = 3.3  # deviations by which noise may be longer than is expected
_SEEN = 4.5  # deviations beyond which rows are seen: noise alone passes it at some radius in 1 of 700 fits (3 deviations: 1 of 50)
_MOST_STRETCH = 4
_SPREAD = 1 / 128  # what shrinking takes, against noise: it turns no direction, and its sum is given back
_Counted = tuple[Histogram, Rows] | None  # of the lengths of rows, and the cells of these


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
    attributes that follow are rounded to 32 bits after the release; `covariance_` is not.

    *Algorithm.* Rows become whole numbers. A tenth of the budget buys their center, 2 to 20 % of it a radius beyond which rows are shrunk,
    and the rest their second moment in that ball, with noise made for a matrix [2]_; steps that few rows cannot pay for are left out, by
    public numbers. A factor gives back to `covariance_` the part of the sum of all variances that shrinking took: where rows were shrunk,
    large eigenvalues come out too small, the more so the heavier the tails. Noise makes the largest ones too large. The guide "Private
    PCA" has the steps and their proofs.

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
        n_components: float | str | None = None,
        *,
        center: ArrayLike | None = "private",
        noise: str = "auto",
        max_norm: float | None = None,
        whiten: bool = False,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
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

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if hasattr(self, "components_"):
            k, d = self.n_components_, self.n_features_in_
            require(is_array(self.components_, "f", k, d) and is_array(self.mean_, "f", d) and is_array(self.covariance_, "f", d, d))
            for each in (self.explained_variance_, self.explained_variance_ratio_, self.singular_values_):
                require(is_array(each, "f", k) and each.min() >= 0)
            require(min(self.noise_variance_, self.noise_edge_, self._rounding) >= 0)

    def _plan(self, facts: Facts) -> "_PCAPlan":
        assert facts.box is not None
        point = self._check_parameters(facts.box)
        has_mean = isinstance(self.center, str) and self.center == "private"
        kinds = [self.noise] if self.noise != "auto" else ["matrix_laplace", *(["gaussian"] if facts.delta else [])]
        kinds = kinds if facts.rho is None else ["gaussian"]
        options = [plan for kind in kinds if (plan := _plan_moments(kind, facts, point, self.max_norm, has_mean)) is not None]
        if not options:
            raise ValueError(
                f"epsilon is too small for {facts.n_features} features, got {short_repr(self.epsilon)}; use a larger epsilon or fewer "
                "features."
            )
        plan = min(options, key=attrgetter("relative_edge"))
        if plan.relative_edge > (facts.n_samples or 1):
            facts.warn(
                f"n_samples={facts.n_samples or 1} and epsilon={float(facts.epsilon):g} are too small for {facts.n_features} features: "
                "the components will be noise; use more rows, fewer features, a larger epsilon, or delta > 0."
            )
        if self.noise == "auto" and not facts.delta and facts.epsilon != math.inf:
            gaussian = _plan_moments("gaussian", facts.part(delta=facts.usual_delta), point, self.max_norm, has_mean)
            facts.warn_if_delta_helps(plan.relative_edge, gaussian.relative_edge if gaussian else 0.0)
        return plan

    def _release(self, rows: Rows, plan: "_PCAPlan", budget: Budget) -> None:
        n, stretch = self.n_samples_, 1.0
        exact, rows, ball, counted = _sum_rows(rows, plan)
        if plan.center_noise is not None:  # a noisy mean of the rows becomes the center of the ball
            start = replace(ball, squared_radius=None)  # a public radius is about the center
            noisy = budget.answer(exact.query_of_sum(plan.relation, start), plan.center_noise, "center")
            ball = ball.about(shrunken_center(noisy / n, plan.center_noise.deviation / n))
            exact = exact.about(ball.center - start.center)
        if plan.radius_noise is not None:  # noisy counts of lengths about it give the radius
            ball, stretch, exact = _shrink_ball(exact, rows, counted, n, ball, plan, plan.radius_noise, budget)
        elif plan.center_noise is not None and ball.shrinks:
            exact += total(rows, Moments.moved_by_shrinking(ball))
        # The private covariance matrix (Algorithm 2 of [1]), of the rows within that ball.
        layout, noise, edge, mean_deviation = plan.moment_noise(ball)
        noisy_sum, second = layout.unpack(budget.answer(exact.query(plan.relation, layout), noise, "moments"))

        # All that follows is post-processing: a mean and a covariance about it, in the units of the data.
        unit, mean = ball.unit, ball.box.midpoint + ball.unit * ball.center
        second = second / n
        if noisy_sum is not None:
            offset = np.clip(noisy_sum / n, -ball.largest, ball.largest)
            # The square of a noisy mean is too large by the noise, in expectation; and the mean is nearer if it is shrunk by that share.
            nearer = shrink_mean(offset, mean_deviation / n)
            second = (second - np.outer(nearer, offset)) * (n / max(n - 1, 1))
            mean = ball.clip(mean + unit * nearer)
        covariance, edge = stretch * (unit[:, None] * second * unit), stretch * edge / n * float(np.max(unit)) ** 2
        self._set_components(covariance, mean, edge, result_dtype(rows, ball.width), float(ball.box.step.min()))
        if self.explained_variance_[0] < self.noise_edge_ and plan.relative_edge <= n:  # else it was told before
            budget.warn(
                f"None of the components stands above noise_edge_={self.noise_edge_:.3g}, the largest variance that noise alone may show; "
                "use more rows, fewer features or a larger epsilon."
            )

    def fit_transform(self, X: Table, y: object = None, unit: Unit = None) -> Any:
        """Fit, and project the same rows onto the components: all of them, also those that did not count for their unit.

        The release of `fit` is private; the projected rows are **not**: each is mapped by itself.

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
        n_features = box.n_features
        table = {
            "noise": ("auto", "matrix_laplace", "laplace", "gaussian", ""),
            "whiten": (True, False, "False keeps the units of the columns"),
            "n_components": (None, "auto", Whole(1, n_features), Between(0, 1), "'auto' counts what stands above the noise"),
        }
        check_parameters(self, table)
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
        if isinstance(self.center, str) or self.center is None:
            check_choice("center", self.center, ("private", "public"), " or a public point")
            return None
        with suppress(TypeError, ValueError):
            point = np.asarray(self.center)
            if point.dtype.kind in "iuf" and point.shape == (n_features,) and ((box.low <= point) & (point <= box.high)).all():
                return point.astype(float)
        raise ValueError(
            f"center must be 'private', 'public' or a point of shape ({n_features},) within bounds, got {short_repr(self.center)}; "
            "'public' is the midpoint of the bounds."
        )

    def _check_max_norm(self, box: Box) -> None:
        least = 64 * float(box.width.max()) / 2**BITS
        if self.max_norm is not None and not (is_real(self.max_norm) and 0 < self.max_norm < math.inf):
            raise ValueError(
                f"max_norm must be None or a positive finite number, got {short_repr(self.max_norm)}; None finds a radius privately."
            )
        if self.max_norm is not None and self.noise == "laplace":
            raise ValueError('max_norm does not serve noise="laplace", whose scale knows the bounds only; use noise="auto".')
        if self.max_norm is not None and self.max_norm < least:
            raise ValueError(
                f"max_norm must be at least {least:g}, a thousandth of the widest column, got {short_repr(self.max_norm)}; narrow the "
                "bounds."
            )


def _sum_rows(rows: Rows, plan: "_PCAPlan") -> tuple[Moments, Rows, Ball, _Counted]:
    """Return the exact moments of rows in the first ball, and the rows and the ball for the steps that follow.

    Rows that are slow to read again, and take little memory as grid coordinates, are kept as such. In arrays lengths about a public
    center are counted in the same reading.
    """
    # A public radius is about the private center.
    ball = plan.ball if plan.center_noise is None else replace(plan.ball, squared_radius=None)
    read_once = plan.center_noise is None and plan.radius_noise is None
    if plan.center_noise is None and not read_once and _is_plain_array(rows):
        rule, sums = CountLengths(ball, candidate_radii(ball.reach)), Moments.over(ball)
        states, cells = rows.fold_into(
            np.empty(rows.n_samples or 0, dtype=np.uint8),
            lambda: (sums.zero(), rule.zero()),
            lambda state, chunk, kept: (sums.add(state[0], chunk, KeptLengths(rule, state[1], kept)), state[1]),
        )
        moments, lengths = (reduce(add, each) for each in zip(*states, strict=True))
        return moments, rows, ball, (lengths, cells)
    if read_once or _is_plain_array(rows) or issparse(rows.table) or not rows.may_be_kept(2 * rows.n_features):
        return total(rows, Moments.over(ball)), rows, plan.ball, None
    kept = np.empty((rows.n_samples or 0, rows.n_features), dtype=np.uint16)
    return *total_and_kept(rows, Moments.over(ball), kept), plan.ball.of_coordinates(), None


def _is_plain_array(rows: Rows) -> bool:
    """Whether the rows are an array, read again faster than copied to new memory."""
    return rows.source.in_memory and not rows.maps and not issparse(rows.table) and isinstance(rows.table, np.ndarray)


def shrunken_center(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk toward 0, rounded; 0 where all of it may be noise, as a noisy center makes rows longer.

    Noise alone is longer than sqrt(d) + 3.3 deviations at one in 230 draws or fewer, for any d and any noise that a center gets.
    """
    d = len(mean)
    return np.rint(shrink_mean(mean, deviation)) if float(mean @ mean) > ((math.sqrt(d) + _LONG) * deviation) ** 2 else np.zeros(d)


def shrink_mean(mean: np.ndarray, deviation: float) -> np.ndarray:
    """Return a noisy mean shrunk toward 0 by the share of its square that is noise (James, Stein)."""
    noise, square = len(mean) * deviation**2, float(mean @ mean)
    return mean * max(0.0, 1 - noise / square) if square else mean


def _shrink_ball(
    exact: Moments, rows: Rows, counted: _Counted, n_samples: int, ball: Ball, plan: "_PCAPlan", noise: Mechanism, budget: Budget
) -> tuple[Ball, float, Moments]:
    """Return the ball beyond which rows add more noise than information.

    With it come the factor by which shrinking rows to the ball reduces their squares, and the exact moments in the ball.
    """
    radii = candidate_radii(ball.reach)
    rule = CountLengths(ball, radii)
    keeps_cells = ball.takes_coordinates or _is_plain_array(rows)
    if keeps_cells:
        lengths, cells = counted or total_and_kept(rows, rule, np.empty(rows.n_samples or 0, dtype=np.uint8))
        rows = Rows.of([rows.collect(), cells.collect()], n_jobs=rows.n_jobs)
    else:
        lengths = total(rows, rule)
    counts = budget.answer(lengths.query(plan.relation), noise, "radius")
    place, stretch = choose_radius(counts, radii, noise.deviation, plan.moment_noise(ball).edge / ball.reach, n_samples)
    ball = ball.within(int(radii[place]))
    if ball.shrinks:
        exact += total(rows, Moments.moved_by_shrinking(ball, place if keeps_cells else None))
    return ball, stretch, exact


def candidate_radii(squared: int) -> np.ndarray:
    """Return squared radii from the largest down by factors of sqrt(2), whole numbers as floats."""
    radii = {float(math.isqrt(squared**2 >> j)) for j in range(_MOST_RADII)} - {0.0}
    return np.array(sorted(radii, reverse=True))


def choose_radius(counts: np.ndarray, radii: np.ndarray, deviation: float, noise_rate: float, n_samples: int) -> tuple[int, float]:
    """Choose the radius that balances noise with the bias of shrinking; return its place, and squared lengths over those after shrinking.

    `counts` are noisy numbers of rows between one of the squared, falling `radii` and the next, with noise of this `deviation`;
    `noise_rate` is the spectral norm of the noise of a squared radius, over that. The ratio is at most 4, beyond which it is mostly noise.
    """
    places = np.arange(len(counts))
    noise = deviation * np.sqrt(1 + places)  # of the number of rows beyond the next radius
    doubt, unseen = _CERTAIN * noise, _SEEN * noise
    outside = np.cumsum(counts)
    # The largest radius where rows are seen, or the least of which it is known that half of the rows are within.
    found = (outside > unseen) | (doubt > n_samples / 2)
    first = int(np.argmax(found)) if found.any() else len(counts) - 1
    if doubt[first] > n_samples / 2:
        return max(first - 1, 0), 1.0
    rows = np.where(places >= first, counts, 0)
    squares = rows * np.sqrt(radii * np.append(radii[1:], 0))  # of rows between one radius and the next, about
    beyond = np.cumsum(rows) - rows  # rows outside each radius
    taken = np.maximum(np.cumsum(squares) - squares - radii * beyond, 0)
    # Within the radius of half of the rows, less noise is less of what they tell in proportion.
    serves = (places >= first) & (np.maximum.accumulate(beyond) + noise <= n_samples / 2)
    serves[first] = True
    place = int(np.argmin(np.where(serves, noise_rate * radii + _SPREAD * taken, math.inf)))
    # Rows farther than is seen for sure count too: without it the squares would come out too small wherever rows are shrunk.
    far = float(np.clip(outside[first - 1], 0, unseen[first - 1])) if first else 0.0
    whole = float(squares.sum()) + far * float(radii[first])
    lost = float(taken[place]) + far * float(radii[first] - radii[place])
    return place, whole / max(whole - lost, whole / _MOST_STRETCH) if whole > 0 else 1.0


class _MomentNoise(NamedTuple):
    """The layout of the moments of rows in a ball, and the noise that covers it."""

    layout: Packing | Gram
    noise: Mechanism
    edge: float  # the largest eigenvalue that noise is likely to show in a sum of rows, in its units: 99 of 100 draws show less
    mean_deviation: float  # of the noise on a sum of rows: on an entry of its border, or of its weighted list


@dataclass(frozen=True, kw_only=True)
class _PCAPlan(Plan):
    """Plan of the release of the moments, by public numbers alone."""

    ball: Ball  # all rows within the bounds, or a public radius, about the public center
    kind: str  # of the noise on the moments
    has_mean: bool  # whether the mean is released with the moments
    center_noise: Mechanism | None = None  # for the sum of the rows; None leaves the step out
    radius_noise: Mechanism | None = None  # for the counts of their lengths; None leaves the step out
    moments_share: PrivacyLoss  # the most that the moments may cost
    relation: str
    relative_edge: float = 0.0  # of the noise on a sum, over the squared reach of the rows: the most that one row can add

    def layout(self, ball: Ball) -> Packing | Gram:
        d = ball.box.n_features
        if self.kind == "laplace":
            return Packing.of(d, int(ball.largest.max()), self.has_mean)
        return Gram(d, ball.reach, max(1, math.isqrt(ball.reach // _BORDER)) if self.has_mean else 0)

    def moment_noise(self, ball: Ball) -> _MomentNoise:
        """Return the noise of the moments in a ball.

        Gaussian noise on all m^2 entries, averaged with their mirrors, makes a symmetric matrix with entries of half the variance, whose
        eigenvalues end at 2 sqrt(m / 2) deviations; of Laplace noise on one triangle they end at 2 sqrt(m). Beyond that end reach
        fluctuations of relative order m^(-2/3): 1.9 of it for matrix Laplace noise (simulated), 1.01 for the others (Tracy, Widom).
        """
        layout, m, is_gaussian = self.layout(ball), ball.box.n_features, self.kind == "gaussian"
        noise = mechanism(layout.sensitivity(self.relation), self.moments_share, (self.kind,), layout.n_values)
        if self.moments_share.is_infinite:
            return _MomentNoise(layout, noise, 0.0, 0.0)
        if self.kind == "matrix_laplace":
            edge = float(noise.noise.spectral_norm(m)) * (1 + 1.9 * m ** (-2 / 3))  # type: ignore[attr-defined]
        else:
            edge = 2 * noise.deviation * math.sqrt(m / (2 if is_gaussian else 1)) * (1 + 1.01 * m ** (-2 / 3))
        weight = layout.mean_weight if isinstance(layout, Packing) else layout.coordinate * (math.sqrt(2) if is_gaussian else 1)
        return _MomentNoise(layout, noise, edge, noise.deviation / weight if weight else 0.0)

    def fits(self, n_samples: int) -> bool:
        """Whether sums and noise stay within 62 bits, wherever the center comes to lie."""
        ball = self.ball if self.center_noise is None else self.ball.about(2 * self.ball.most)
        layout = self.layout(ball)
        scale = scale_of_kind(self.kind, layout.sensitivity(self.relation), self.moments_share)
        return n_samples * layout.largest_term < _LARGEST_SUM and scale * ball.box.n_features <= _LARGEST_SCALE


def _plan_moments(kind: str, facts: Facts, point: np.ndarray | None, max_norm: float | None, has_mean: bool) -> _PCAPlan | None:
    """Return the plan for a kind of noise on the finest grid that fits; None if no grid does.

    `point` is a public center (None: the midpoint of the bounds), and `max_norm` a public radius in the units of the data (None: a private
    one). `has_mean` says whether the mean is private.
    """
    assert facts.box is not None
    # A radius in units of the data needs equal units; without noise the finest grid stays.
    equal_units = max_norm is not None or (kind != "laplace" and facts.epsilon != math.inf)
    for bits in range(16, 1, -1):
        ball = Ball.of(facts.box, bits, equal_units)
        if point is not None:
            ball = ball.about(np.rint((point - facts.box.midpoint) / ball.unit))
        if max_norm is not None:
            ball = ball.within(int(min(float(min(max_norm, 1e300)) / ball.unit[0], 2.0**40)) ** 2)
        plan = _share_budget(kind, facts, ball, has_mean)
        if plan.fits(facts.n_samples or 1):
            return replace(plan, relative_edge=plan.moment_noise(plan.ball).edge / plan.ball.reach)
    return None


def _share_budget(kind: str, facts: Facts, ball: Ball, has_mean: bool) -> _PCAPlan:
    """Share the budget between the steps that are worth their cost."""
    share, relation, n_samples, d = losses_of_kind(kind, facts.share)[0], facts.neighboring, facts.n_samples or 1, ball.box.n_features
    in_rho = None if kind != "gaussian" or share.is_infinite else "gaussian" if share.gaussian else "zcdp"
    bare = _PCAPlan(
        spends_delta=kind == "gaussian", rho=in_rho, ball=ball, kind=kind, has_mean=has_mean, moments_share=share, relation=relation
    )
    # Without noise only a public radius needs a center. Where the grid is too fine for the moments, the noise of the sums may have a
    # scale that cannot be drawn either.
    if kind == "laplace" or (share.is_infinite and ball.squared_radius is None) or not bare.fits(n_samples):
        return bare
    radius_share = Fraction(round(1000 * float(np.clip(0.1 * (1000 / facts.size) ** 0.6, *_RADIUS_SHARES))), 1000)
    for_center, for_radius, _ = share.split([_CENTER_SHARE, radius_share, 1 - _CENTER_SHARE - radius_share])
    center = mechanism(Moments.sensitivity_of_sum(relation, ball), for_center, ("laplace", "sup_norm", "gaussian"), d)
    radius = mechanism(count_sensitivity(relation), for_radius, n_values=len(candidate_radii(ball.reach)))
    # A noisy mean within a quarter of the squared reach may move the center; lengths show once the rows pass the noise of a count.
    has_center = has_mean and d * center.deviation**2 < n_samples**2 * ball.reach / 4
    has_radius = n_samples > 6 * radius.deviation and ball.squared_radius is None
    if has_mean and not has_center:  # a public radius about a center that nobody knows says nothing
        bare = replace(bare, ball=replace(ball, squared_radius=None))
    bought = [_CENTER_SHARE] * has_center + [radius_share] * has_radius
    *_, moments = share.split([*bought, 1 - sum(bought)])
    center_noise, radius_noise = center if has_center else None, radius if has_radius else None
    return replace(bare, center_noise=center_noise, radius_noise=radius_noise, moments_share=moments)
