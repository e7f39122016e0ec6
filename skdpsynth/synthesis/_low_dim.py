"""Synthetic data that lie near a low-dimensional affine subspace."""

from sklearn.base import clone

from skdpsynth._estimator import all_or_nothing, check_useful, public_size
from skdpsynth._sklearn import check_choice, is_inside, is_whole
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.privacy import check_epsilon, split_exactly
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._inner import clone_inner, fit_quietly, rehearse, seed_from
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism, default_n_cells
from skdpsynth.synthesis._subspace import image, lattice_of_image, project


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
        n_components="auto",
        *,
        synthesizer="auto",
        reducer_share=0.5,
        center="public",
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
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

    @all_or_nothing
    def fit(self, X, y=None):
        """Release a subspace and a measure in it.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : LowDimSynthesizer
        """
        X, box, rng = self._begin(X)
        inner = self._check_parameters(box.n_features)
        bounds, reducer, rest = (box.low, box.high), None, check_epsilon(self.epsilon)
        if self.n_components != box.n_features:
            first, rest = split_exactly(rest, [self.reducer_share, 1 - self.reducer_share])
            reducer = PrivatePCA(self.n_components, center=self.center, epsilon=first, delta=self.delta, bounds=bounds)
            rehearse(clone(reducer), box.n_features, bounds)
        check_useful(rest)
        n_inner = box.n_features if reducer is None else self.n_components
        rehearse(
            # Without noise the signed measure is a probability measure, so no program is solved in vain.
            clone(inner).set_params(
                epsilon=float("inf") if isinstance(inner, SignedMeasureMechanism) else rest, delta=0.0, neighboring=self.neighboring
            ),
            min(5, box.n_features) if n_inner == "auto" else n_inner,
        )
        needs_delta = reducer is not None and reducer._calibrate(len(X), box.n_features)[1].rho is not None
        accountant = self._open_accountant(delta=None if needs_delta else 0)
        if reducer is not None:
            fit_quietly(reducer.set_params(accountant=accountant, random_state=rng.child("reducer").random_state()), X)
            if isinstance(self.synthesizer, str) and self.synthesizer == "auto" and _signed_is_better(rest, len(X), reducer.n_components_):
                inner = SignedMeasureMechanism()
            bounds = image(reducer, box)
            X = project(X, reducer, box, bounds)
            if isinstance(inner, SignedMeasureMechanism):
                n_cells = default_n_cells(public_size(rest, len(X)), reducer.n_components_) if inner.n_cells == "auto" else inner.n_cells
                inner.set_params(n_cells="auto", cells=lattice_of_image(reducer, box, bounds, n_cells))
        inner.set_params(
            epsilon=rest,
            delta=0.0,
            bounds=bounds,
            neighboring=self.neighboring,
            accountant=accountant,
            random_state=rng.child("synthesizer").random_state(),
        )
        fit_quietly(inner, X)
        accountant.close()
        for part in (reducer, inner):
            if part is not None:
                part.set_params(random_state=None)  # no derived seed stays behind

        self.reducer_, self.synthesizer_ = reducer, inner
        self.accountant_ = accountant
        self.n_components_ = box.n_features if reducer is None else reducer.n_components_
        self.n_samples_ = len(X)
        self._box = box
        return self

    def _sample_rows(self, n_samples, rng):
        rows = self.synthesizer_.sample(n_samples, random_state=seed_from(rng))
        return rows if self.reducer_ is None else self._box.clip(self.reducer_.inverse_transform(rows))

    def _check_parameters(self, n_features):
        """Return the unfitted synthesizer, or raise."""
        k = self.n_components
        if not (is_whole(k, 1, n_features) or (isinstance(k, str) and k == "auto")):
            raise ValueError(f"n_components must be 'auto' or an int from 1 to n_features={n_features}, got {k!r}.")
        check_choice("center", self.center, ("public", "private"))
        if not is_inside(self.reducer_share, 0, 1):
            raise ValueError(f"reducer_share must be a number in (0, 1), got {self.reducer_share!r}; 0.5 is the default.")
        if self.neighboring != "replace_one":
            raise ValueError(
                f'LowDimSynthesizer supports neighboring="replace_one" only so far, got {self.neighboring!r}; '
                "use that if the number of rows is public."
            )
        if isinstance(self.synthesizer, str):
            check_choice("synthesizer", self.synthesizer, ("auto", "pmm", "psmm"))
            return SignedMeasureMechanism() if self.synthesizer == "psmm" else PrivateMeasureMechanism()
        inner = clone_inner(self.synthesizer, "LowDimSynthesizer", "'auto', 'pmm', 'psmm' or ")
        if isinstance(self.synthesizer, SignedMeasureMechanism) and self.synthesizer.cells is not None:
            raise ValueError("synthesizer must have cells=None, because the cells follow from the subspace; give n_cells instead.")
        return inner


def _signed_is_better(epsilon, n_samples, n_components):
    """Where PSMM was measured to come closer in a subspace than PMM: see the class."""
    return n_components >= 3 and public_size(epsilon, n_samples) <= {3: 300, 4: 1000}.get(n_components, 3000)
