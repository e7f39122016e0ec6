"""Synthetic data that lie near a low-dimensional affine subspace."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from skdpsynth._validation import Between, Whole, check_choice, check_parameters
from skdpsynth.decomposition import MAX_AUTO_COMPONENTS, PrivatePCA, keep_first
from skdpsynth.domain import BoundsLike, Box
from skdpsynth.fitting import (
    Budget,
    Facts,
    Plan,
    PrivateEstimator,
    check_part,
    check_useful_epsilon,
    clone_part,
    fit_part,
    random_state_from,
)
from skdpsynth.frames import Rows, Table, concatenate
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Seed, split_exactly
from skdpsynth.synthesis._base import BATCH, PrivateSynthesizer, iter_batches
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism
from skdpsynth.synthesis._subspace import Subspace, axis_scales, default_ranges, range_noise, release_ranges

_RANGES_SHARE = Fraction(1, 10)  # of what the reducer leaves
_MEASURE = 0.3  # error of a measure on k axes, in widths of the widest over the k-th root of rows times epsilon
_MARGIN = 2.3  # times by which distances must save more than they cost: measured on thin and on thick data


@dataclass(frozen=True, kw_only=True)
class _LowDimPlan(Plan):
    """Unfitted inner estimators, each with its facts."""

    inner: Any
    inner_facts: Facts
    reducer: PrivatePCA | None = None
    reducer_facts: Any = None
    box: Box


@savable
class LowDimSynthesizer(PrivateSynthesizer):
    """Low-dimensional synthesis: private PCA, a private measure in its subspace, and back.

    Good when the data have many columns but lie near a few directions; the error then grows with the number of directions,
    not of columns.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Dimension d' of the subspace. "auto": of the directions that stand above the noise (at most 10), as many as are worth what they
        cost the measure, and at least 1; see Notes.
    synthesizer : {"auto", "pmm", "psmm"} or an unfitted synthesizer, default="auto"
        The synthesizer in the subspace: `PrivateMeasureMechanism`, `SignedMeasureMechanism` on all cubes that meet the image of the box, or
        an estimator, which is cloned and gets its ``epsilon``, ``delta``, ``bounds``, ``neighboring``, ``accountant`` and ``random_state``
        set. "auto" is "pmm" on one axis or two, without a reducer, and beyond unless rows are few; see Notes.
    reducer_share : float, default=0.5
        Share of epsilon for the private PCA. Little depends on it about one half; more serves some rows of many columns.
    center : {"public", "private"} or array-like of shape (n_features,), default="public"
        Where the subspace passes: the midpoint of the box, at no cost, a private mean, or a public point. Use "private" for data far
        from the midpoint.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Above 0, the moments of the PCA get Gaussian noise where that is smaller; the counts keep Laplace noise.
    bounds : tuple, dict or "private", default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`.
        "private": unknown, so a tenth of the budget buys them first; a dict may say so of some columns.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated with 5 % of the budget, once.
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
    reducer_ : PrivatePCA or None
        The fitted reducer; None if `n_components` is the number of columns, where there is nothing to reduce.
    synthesizer_ : estimator
        The synthesizer fitted on projected rows, within the range of each axis; where distances from the subspace are measured, they
        are its last axis.
    n_components_ : int
        Number of directions.
    bounds_ : tuple of ndarray of shape (n_features,)
        Low and high; only where bounds were private.
    accountant_ : PrivacyAccountant
        Record of the spent budget.
    n_samples_ : int
        Number of rows; a noisy count (at least 1) under "add_or_remove_one".
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
        If, by public numbers, the components will be noise, or the rows are too few for the synthesizer in the subspace.
    BudgetWarning
        If epsilon is above 20, delta above one over the number of rows, or delta 0 where a small one would make the noise of the
        moments at least three times smaller.

    See Also
    --------
    PrivatePCA : The directions alone.
    PrivateMeasureMechanism : Runs in the subspace by default.
    LatentFactorSynthesizer : For tables of mixed types.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) if delta > 0) under `neighboring`: the budget is split between
    the reducer, the ranges and the measure (adaptive composition), and the projection in between is a fixed map of each row given the
    released directions, in exact integers. `sample` is free. `score` is not private, and neither is a search of
    ``n_components`` by scores: see `skdpsynth.PrivateMeasureMechanism.score`.

    *Ranges and distances.* A tenth of what the reducer leaves buys the range of each axis where rows are seen; rows beyond are clipped, a
    hundredth of them at most. Where the released covariance says that distances of rows from the subspace are worth an axis, the measure
    has one more, and a synthetic row stands at its distance, in a random direction.

    *n_components="auto"* takes the least of an estimate: the part of the released covariance that is left out, as the largest coordinate
    of a vector in random direction, and 0.3 widths of the widest axis over the d'-th root of rows times epsilon for what the measure errs.

    *synthesizer="auto".* With m the number of rows times the epsilon of the measure, "psmm" is taken on three or four axes up to
    m = 1000, and on more up to 3000: there it was measured to be closer, or no farther than the errors of the measurement
    (``benchmarks/accuracy_signed.py``).

    References
    ----------
    .. [1] He, Strohmer, Vershynin, Zhu (2024), "Differentially private low-dimensional synthetic data from high-dimensional
       datasets", Algorithm 1. Corrected: tight moments, ranges of the axes, an exact budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import LowDimSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 + 0.4 * rng.uniform(-1, 1, (20_000, 1)) @ np.array([[1.0, -1.0, 0.5, 0.2]])
    >>> model = LowDimSynthesizer(n_components=1, epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> model.sample(3).shape
    (3, 4)
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        synthesizer: str | BaseEstimator = "auto",
        reducer_share: float = 0.5,
        center: str | ArrayLike = "public",
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
        self.synthesizer = synthesizer
        self.reducer_share = reducer_share
        self.center = center
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        rows, more = super()._open_table(X)
        if not (rows.source.is_readable or isinstance(self.synthesizer, str | PrivateEstimator)):
            rows.source.chunks()  # which it needs: refused before any budget is spent
        return rows, more

    def _plan(self, facts: Facts) -> _LowDimPlan:
        inner, box = self._check_parameters(facts.n_features), facts.box
        assert box is not None
        if self.n_components == facts.n_features:
            whole = facts.part(delta=0)
            check_part(clone(inner), whole)
            facts.warnings.extend(whole.warnings)
            return _LowDimPlan(False, inner=inner, inner_facts=whole, box=box)
        first, rest = split_exactly(facts.epsilon, [self.reducer_share, 1 - self.reducer_share])
        reducer, reducer_facts = PrivatePCA(self.n_components, center=self.center), facts.part(epsilon=first)
        spends_delta = check_part(reducer, reducer_facts).spends_delta
        if spends_delta and check_part(reducer, more := facts.gaussian_part(rest)).rho == "gaussian":
            reducer_facts = more
        most = min(MAX_AUTO_COMPONENTS, facts.n_features) if self.n_components == "auto" else self.n_components
        # The part sees every number of axes that may come, one more for distances, so that it refuses before the charge.
        may_come: dict[int, Any] = dict.fromkeys(
            [most, *range(1 if self.n_components == "auto" else most, most + 1 + self._may_have_distance)]
        )
        for k in may_come:
            unit = Box(np.zeros(k), np.ones(k))  # the real one follows from the directions
            may_come[k] = facts.part(epsilon=check_useful_epsilon(rest), delta=0, n_features=k, box=unit)
            check_part(clone(inner), may_come[k])
        inner_facts: Facts = may_come[most]
        facts.warnings.extend([*reducer_facts.warnings, *inner_facts.warnings])
        return _LowDimPlan(spends_delta, inner=inner, inner_facts=inner_facts, reducer=reducer, reducer_facts=reducer_facts, box=box)

    def _release(self, rows: Rows, plan: _LowDimPlan, budget: Budget) -> None:
        self.reducer_, self._box, inner, facts = None, plan.box, clone(plan.inner), plan.inner_facts
        if plan.reducer is not None:
            # Private covariance matrix: directions that are worth their cost, if their number is free, perhaps the distance from them.
            self.reducer_, self._has_distance = fit_part(clone(plan.reducer), rows, budget, plan.reducer_facts), False
            if self.n_components == "auto":
                keep_first(self.reducer_, n_directions(self._subspace, facts.size))
            self._has_distance = self._may_have_distance and needs_distance(self._subspace, facts.size)

            # Private linear projection: coordinates of the rows on them, and the ranges where they lie.
            subspace = self._subspace
            facts, scales = facts.part(n_features=subspace.n_axes), axis_scales(subspace.reach, subspace.variances)
            rows = rows.map(subspace.project, subspace.n_axes).materialize()
            for_ranges, rest = split_exactly(facts.epsilon, [_RANGES_SHARE, 1 - _RANGES_SHARE])
            noise = range_noise(facts, for_ranges)
            if noise is None:
                low, high = default_ranges(subspace.reach, scales)
            else:
                low, high = release_ranges(rows, subspace.reach, scales, noise, budget, self.n_samples_)
                facts = facts.part(epsilon=rest)
            facts = facts.part(box=Box(low, high))

            # Low-dimensional synthetic data. For few rows PSMM came at least as close as PMM, up to errors of measuring: see the class.
            few = facts.n_features >= 3 and facts.size <= (1000 if facts.n_features <= 4 else 3000)
            if isinstance(self.synthesizer, str) and self.synthesizer == "auto" and few:
                inner = SignedMeasureMechanism()
            if isinstance(inner, PrivateSynthesizer):
                inner = inner._for_projected_rows(partial(subspace.lattice, (low, high)), facts)
        self.synthesizer_ = fit_part(inner, rows, budget, facts)
        self.n_components_ = facts.n_features if self.reducer_ is None else self.reducer_.n_components_

    @property
    def _may_have_distance(self) -> bool:
        """Whether the synthesizer may get one axis more than directions; a caller's partition fixes their number."""
        return isinstance(self.synthesizer, str) or getattr(self.synthesizer, "partition", None) is None

    @property
    def _subspace(self) -> Subspace:
        return Subspace(cast("PrivatePCA", self.reducer_), self._box, self._has_distance)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return concatenate(self._sample_blocks(n_samples, rng))

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        subspace = None if self.reducer_ is None else self._subspace
        for rows in iter_batches(self.synthesizer_, n_samples, BATCH, lambda: random_state_from(rng)):
            yield rows if subspace is None else subspace.lift(rows, rng)

    def _check_parameters(self, n_features: int) -> Any:
        table = {
            "n_components": ("auto", Whole(1, n_features), "'auto' counts what stands above the noise"),
            "reducer_share": (Between(0, 1), "0.5 is the default"),
        }
        check_parameters(self, table)
        if isinstance(self.center, str) or self.center is None:  # a point is checked by the reducer
            check_choice("center", self.center, ("public", "private"), " or a public point")
        if isinstance(self.synthesizer, str):
            check_choice("synthesizer", self.synthesizer, ("auto", "pmm", "psmm"), " or an unfitted synthesizer")
            return SignedMeasureMechanism() if self.synthesizer == "psmm" else PrivateMeasureMechanism()
        inner = clone_part(self.synthesizer, "LowDimSynthesizer", "'auto', 'pmm', 'psmm' or ")
        if getattr(inner, "cells", None) is not None:
            raise ValueError("synthesizer must have cells=None, because the cells follow from the subspace; give n_cells instead.")
        return inner


def n_directions(subspace: Subspace, size: float) -> int:
    """Return the number of directions of the least expected error, by released numbers.

    The error is that of leaving out the others, and that of a measure on the ones that stay; `size` is rows times epsilon of the measure.
    """
    total, widths = np.trace(subspace.reducer.covariance_), _axis_widths(subspace)
    left = total - np.cumsum(subspace.variances)
    errors = [
        _expected_displacement(rest, subspace.box.n_features) + _expected_measure_error(widths[:k], size)
        for k, rest in enumerate(left, start=1)
    ]
    return int(np.argmin(errors)) + 1


def needs_distance(subspace: Subspace, size: float) -> bool:
    """Whether distances of rows from the subspace are worth a further axis, beyond a mean square that noise could show."""
    others = subspace.box.n_features - subspace.n_axes
    beside = subspace.beside - subspace.reducer.noise_edge_
    if others <= 0 or beside <= 0:
        return False
    widths = _axis_widths(Subspace(subspace.reducer, subspace.box, has_distance=True))
    dearer = _expected_measure_error(widths, size) - _expected_measure_error(widths[:-1], size)
    return _expected_displacement(beside, subspace.box.n_features) > _MARGIN * dearer


def _axis_widths(subspace: Subspace) -> np.ndarray:
    reach = subspace.reach
    low, high = default_ranges(reach, axis_scales(reach, subspace.variances))
    return high - low


def _expected_displacement(mean_square: float, n_features: int) -> float:
    """Return the expected largest coordinate of a vector of this mean square in random direction: how far rows move."""
    return math.sqrt(max(mean_square, 0.0) * 2 * math.log(max(n_features, 2)) / n_features)


def _expected_measure_error(widths: np.ndarray, size: float) -> float:
    """Return the expected error of a measure on axes of these widths, cut equally often: the widest stays the widest."""
    return _MEASURE * float(widths.max()) * max(size, 1.0) ** (-1 / len(widths))
