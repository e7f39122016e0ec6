"""Synthetic data that lie near a low-dimensional affine subspace."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth._checks import check_choice, is_inside, is_whole, shown
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.domain import Box
from skdpsynth.fitting import Budget, Facts, Plan, check_part, check_useful, clone_part, fit_part, seed_from
from skdpsynth.persistence import savable
from skdpsynth.privacy import split_exactly
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism
from skdpsynth.synthesis._subspace import image, lattice_of_image, project

_MOST_AUTO = 5  # directions that "auto" chooses at most


@dataclass(frozen=True)
class _Parts(Plan):
    """Unfitted parts, and the facts that each is fitted with."""

    inner: Any = None
    inner_facts: Any = None
    reducer: PrivatePCA | None = None
    reducer_facts: Any = None
    box: Any = None


@savable
class LowDimSynthesizer(PrivateSynthesizer):
    """Low-dimensional synthesis: private PCA, a private measure in its subspace, and back.

    Good when the data have many columns but lie near a few directions; the error then grows with the number of directions,
    not of columns.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        Dimension d' of the subspace. "auto": as many noisy eigenvalues (at least 1, at most 5) as stand above the noise.
    synthesizer : {"auto", "pmm", "psmm"} or an unfitted synthesizer, default="auto"
        What runs in the subspace: `PrivateMeasureMechanism`, `SignedMeasureMechanism` on all cubes that meet the image of the box, or
        an estimator, which is cloned and gets its ``epsilon``, ``delta``, ``bounds``, ``neighboring``, ``accountant`` and
        ``random_state`` set. "auto" is "pmm" for d' <= 2, without a reducer, and beyond unless rows are few; see Notes.
    reducer_share : float, default=0.5
        Share of epsilon for the private PCA.
    center : {"public", "private"}, default="public"
        Where the subspace passes: the midpoint of the box, at no cost, or a private mean. Use "private" for data far from the
        midpoint.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Above 0, the moments of the PCA get Gaussian noise where that is smaller (from 6 or 7 columns); the counts keep Laplace
        noise.
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
    reducer_ : PrivatePCA or None
        The fitted reducer; None if `n_components` is the number of columns, where there is nothing to reduce.
    synthesizer_ : estimator
        The synthesizer fitted on projected rows, within public bounds of each direction.
    n_components_ : int
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
        If, by public numbers, the components will be noise, or the rows are too few for the synthesizer in the subspace.
    BudgetWarning
        If epsilon is above 20, delta above one over the number of rows, or delta 0 where a small one would make the noise of the
        moments at least three times smaller.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) if delta > 0) with respect to replacing one row: the
    budget is split between the moments and the measure (adaptive composition), and the projection in between is a fixed map of each
    row given the released directions, in exact integers. `sample` is free. `score` is not private, and neither is a search of
    ``n_components`` by scores: see `skdpsynth.PrivateMeasureMechanism.score`.

    *"auto".* With m the number of rows times the epsilon of the second step, "psmm" is taken up to m = 300 for d' = 3, 1000 for d' = 4
    and 3000 beyond. W1 of "psmm" over that of "pmm" near d' directions of ten columns, for m = 100, 300, 1000, 3000, 10,000: d' = 2: 0.88,
    0.98, 0.98, 1.02, 1.02; d' = 3: 0.90, 0.96, 1.05, 1.08, 1.05; d' = 4: 0.93, 0.87, 0.95, 1.02, 1.07; d' = 5: 0.96, 0.88, 0.93, 0.96, 1.02
    (standard errors 0.015 to 0.05; ``benchmarks/accuracy_signed.py``).

    Each direction k is cut to the interval that the image of the public box reaches, and to 3 noisy standard deviations about its
    centre; rows beyond are clipped.

    References
    ----------
    .. [1] He, Strohmer, Vershynin, Zhu (2024), "Differentially private low-dimensional synthetic data from high-dimensional
       datasets", Algorithm 1. Corrected: tight moments, an interval for each direction, an exact budget.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import LowDimSynthesizer
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 + 0.4 * rng.uniform(-1, 1, (20_000, 1)) @ np.array([[1.0, -1.0, 0.5, 0.2]])
    >>> model = LowDimSynthesizer(n_components=1, epsilon=1.0).fit(X)
    >>> model.sample(3).shape
    (3, 4)
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        synthesizer: Any = "auto",
        reducer_share: Any = 0.5,
        center: str = "public",
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        bounds: Any = (0.0, 1.0),
        neighboring: str = "replace_one",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.synthesizer = synthesizer
        self.reducer_share = reducer_share
        self.center = center
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _plan(self, facts: Facts) -> _Parts:
        inner, box = self._check_parameters(facts.n_features), facts.box
        inner_facts, reducer, reducer_facts, spends_delta = facts.part(delta=0), None, None, False
        if self.n_components != facts.n_features:
            first, rest = split_exactly(facts.epsilon, [self.reducer_share, 1 - self.reducer_share])
            reducer, reducer_facts = PrivatePCA(self.n_components, center=self.center), facts.part(epsilon=first)
            spends_delta = check_part(reducer, reducer_facts).spends_delta
            k = min(_MOST_AUTO, facts.n_features) if self.n_components == "auto" else self.n_components
            unit = Box(np.zeros(k), np.ones(k))  # the real one follows from the directions
            inner_facts = facts.part(epsilon=check_useful(rest), delta=0, n_features=k, box=unit)
        check_part(clone(inner), inner_facts)
        facts.told.extend([*(reducer_facts.told if reducer_facts else []), *inner_facts.told])
        return _Parts(spends_delta, inner, inner_facts, reducer, reducer_facts, box)

    def _release(self, X: np.ndarray, plan: _Parts, budget: Budget) -> None:
        self._box, self.reducer_, inner, facts = plan.box, None, clone(plan.inner), plan.inner_facts
        if plan.reducer is not None:
            self.reducer_ = reducer = fit_part(clone(plan.reducer), X, budget, plan.reducer_facts)
            bounds = image(reducer, plan.box)
            X = project(X, reducer, plan.box, bounds)
            facts = facts.part(box=Box(*bounds), n_features=reducer.n_components_)
            if self._wants_auto and _signed_is_better(facts):
                inner = SignedMeasureMechanism()
            if isinstance(inner, PrivateSynthesizer):
                inner = inner._placed(partial(lattice_of_image, reducer, plan.box, bounds), facts)
        self.synthesizer_ = fit_part(inner, X, budget, facts)
        self.n_components_ = facts.n_features

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        rows = self.synthesizer_.sample(n_samples, random_state=seed_from(rng))
        return rows if self.reducer_ is None else self._box.clip(self.reducer_.inverse_transform(rows))

    @property
    def _wants_auto(self) -> bool:
        return isinstance(self.synthesizer, str) and self.synthesizer == "auto"

    def _check_parameters(self, n_features: int) -> Any:
        """Return the unfitted synthesizer, or raise."""
        k = self.n_components
        if not (is_whole(k, 1, n_features) or (isinstance(k, str) and k == "auto")):
            raise ValueError(
                f"n_components must be 'auto' or an int from 1 to n_features={n_features}, got {shown(k)}; "
                "'auto' counts what stands above the noise."
            )
        check_choice("center", self.center, ("public", "private"))
        if not is_inside(self.reducer_share, 0, 1):
            raise ValueError(f"reducer_share must be a number in (0, 1), got {shown(self.reducer_share)}; 0.5 is the default.")
        if self.neighboring != "replace_one":
            raise ValueError(
                f'LowDimSynthesizer supports neighboring="replace_one" only so far, got {shown(self.neighboring)}; '
                "use that if the number of rows is public."
            )
        if isinstance(self.synthesizer, str):
            check_choice("synthesizer", self.synthesizer, ("auto", "pmm", "psmm"), " or an unfitted synthesizer")
            return SignedMeasureMechanism() if self.synthesizer == "psmm" else PrivateMeasureMechanism()
        inner = clone_part(self.synthesizer, "LowDimSynthesizer", "'auto', 'pmm', 'psmm' or ")
        if getattr(inner, "cells", None) is not None:
            raise ValueError("synthesizer must have cells=None, because the cells follow from the subspace; give n_cells instead.")
        return inner


def _signed_is_better(facts: Facts) -> bool:
    """Where PSMM was measured to come closer in a subspace than PMM: see the class."""
    return facts.n_features >= 3 and facts.size <= {3: 300, 4: 1000}.get(facts.n_features, 3000)
