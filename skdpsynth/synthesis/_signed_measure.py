"""The private signed measure mechanism (PSMM)."""

import math
import warnings

import numpy as np

from skdpsynth._estimator import all_or_nothing
from skdpsynth._sklearn import check_choice, is_whole
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.measures import MOST_CELLS, NORMS, DiscreteMeasure, Lattice, NearestCells, check_solver, nearest_probability_measure
from skdpsynth.statistics import Histogram
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._release import open_release

_MOST_AUTO = 10_000  # cells that "auto" asks for: about a second of solving
_MOST_ON_A_LINE = 1_000_000
_SPARSE = 4  # cells for a row times epsilon: with more, solving gets slow
_FEW_CELLS = 1000


class SignedMeasureMechanism(PrivateSynthesizer):
    """Private signed measure mechanism (PSMM): noisy counts of cells, and the probability measure nearest to them.

    Adds integer noise to the count of every cell, which makes a signed measure, and replaces it by a nearest probability measure in the
    bounded-Lipschitz distance: a linear program, solved exactly and with a certificate. It serves any space with a distance in which
    representative points can be listed.

    Parameters
    ----------
    n_cells : "auto" or int, default="auto"
        At most how many cells the box is cut into, each axis equally often or once more. "auto" follows from the number of rows times
        epsilon.
    cells : array-like of shape (n_cells, n_features) or Lattice, default=None
        None: cut the box. Or public representatives, all within `bounds`: a row belongs to the nearest (the first of them, in a tie), and
        samples are representatives (rounded, where the rows are whole numbers); a data frame is matched by column. Or a
        `skdpsynth.measures.Lattice`, whose cells need not be all of a box. Never take them from the data.
    metric : {"chebyshev", "cityblock", "euclidean"}, default="chebyshev"
        Distance in which mass is moved. With ``cells=None`` every column is stretched to the width of the widest, so that columns in unlike
        units count alike; else it is in the units of the data.
    solver : {"highs", "ortools"}, default="highs"
        "highs": through cvxpy, for up to 150,000 cells. "ortools": a network flow, for up to 1,000,000; the package must be installed.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Accepted for symmetry; for one histogram the Laplace noise of pure differential privacy wins, so no delta is spent.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated with 5 % of the budget and from
        the cells.
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` (and no delta) before the first draw. None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    measure_ : DiscreteMeasure
        Weights on the cells: whole numbers of rows, divided by ``n_samples_``.
    solution_ : NearestMeasure
        ``value`` (distance between the noisy signed measure and ``measure_``, in the units that `metric` says), ``lower_bound``, ``gap``,
        ``status``, ``n_iter``.
    accountant_ : PrivacyAccountant
        What was spent, as a record.
    n_samples_ : int
        Number of rows; a noisy count (at least 1) under "add_or_remove_one".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, a solver is not installed or the cells are too many for it, before any budget is spent.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.
    RuntimeError
        If the solver gives up, with its status; then epsilon is spent.

    Warns
    -----
    SmallSampleWarning
        If the number of rows times epsilon is at most 100 with two features or more: uniform points may do as well. Also if the cells are
        so many for it that solving may take long: hours, at worst, with "highs".

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private under `neighboring`; every attribute is released under that guarantee,
    and fitting again spends epsilon again. Replacing a row moves the counts by 2 in L1 (by 1 if there are two cells, since one of them
    tells the other), so their noise is twice that of the published mechanism, whose proof adds or removes a row. Cells are public. The
    linear program sees noisy counts only. `sample` is free. `score` is not private. Timing is not protected.

    *Exactness.* Noisy counts are shifted by whole numbers to sum to the number of rows, so an optimal measure holds whole rows: sampling
    ``n_samples_`` rows rounds nothing.

    References
    ----------
    .. [1] He, Vershynin, Zhu (2023), "Algorithmically effective differentially private synthetic data", the private signed measure
       mechanism (Algorithms 1-2 in the authors' dissertation). Corrected: noise under replacement; flow conserved in the program.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import SignedMeasureMechanism
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 2))
    >>> psmm = SignedMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> psmm.sample().shape
    (5000, 2)
    >>> psmm.solution_.status
    'optimal'
    """

    def __init__(
        self,
        n_cells="auto",
        *,
        cells=None,
        metric="chebyshev",
        solver="highs",
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
        self.n_cells = n_cells
        self.cells = cells
        self.metric = metric
        self.solver = solver
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X, y=None):
        """Release a noisy measure of `X`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; values outside `bounds` are clipped.
        y : None
            Ignored.

        Returns
        -------
        self : SignedMeasureMechanism
        """
        X, box, rng = self._begin(X)
        given = self._check_parameters(box)
        release, n, partition = open_release(self, len(X), box.n_features, rng, lambda size: self._partition(given, size, box))

        noisy = _release_counts(Histogram.of(X, partition).counts, n, release)
        n, counts = _with_total(noisy, n, release)
        release.accountant.close()

        self.solution_ = nearest_probability_measure(
            self._positions(partition, box), counts, self.metric, total=float(n), solver=self.solver
        )
        everywhere = np.arange(partition.n_cells)
        self.measure_ = DiscreteMeasure.from_mass(partition, everywhere, np.zeros_like(everywhere), self.solution_.weights)
        self.accountant_ = release.accountant
        self.n_samples_ = n
        return self

    def _sample_rows(self, n_samples, rng):
        return self.measure_.sample(n_samples, rng)

    def _check_parameters(self, box):
        """Return the partition, if it does not depend on the number of rows; or raise."""
        check_choice("metric", self.metric, tuple(NORMS))
        check_solver(self.solver)
        most = _MOST_ON_A_LINE if box.n_features == 1 else MOST_CELLS[self.solver]
        hint = "use fewer" + (", or solver='ortools'" if most < MOST_CELLS["ortools"] else "")
        if not (isinstance(self.n_cells, str) and self.n_cells == "auto") and not is_whole(self.n_cells, 1, most):
            way_out = hint if is_whole(self.n_cells, 1) else "'auto' is the default"
            raise ValueError(
                f"n_cells must be 'auto' or an integer from 1 to {most} for solver={self.solver!r}, got {self.n_cells!r}; {way_out}."
            )
        if self.cells is None:
            return None
        if self.n_cells != "auto":
            raise ValueError(f"n_cells must be 'auto' where cells are given, got {self.n_cells!r}; give one of the two.")
        partition = self._given_cells(box)
        if partition.n_cells > most:
            raise ValueError(f"cells must be at most {most} for solver={self.solver!r}, got {partition.n_cells}; {hint}.")
        return partition

    def _partition(self, given, size, box):
        """Return the cells that were given, or a lattice; warn if they are too many."""
        partition = given
        if partition is None:
            n_cells = default_n_cells(size, box.n_features) if self.n_cells == "auto" else self.n_cells
            partition = Lattice(box, lattice_shape(n_cells, box))
        if box.n_features > 1 and partition.n_cells > max(_SPARSE * size, _FEW_CELLS):
            warnings.warn(
                f"There are {partition.n_cells} cells for n_samples * epsilon = {size:g}: nearly all that they count is noise, which "
                "takes long to cancel (minutes, from some thousands of cells on); use fewer cells.",
                SmallSampleWarning,
                stacklevel=6,
            )
        return partition

    def _given_cells(self, box):
        """Return `cells` as a partition of the box, or raise."""
        if isinstance(self.cells, Lattice):
            if not (np.array_equal(self.cells.box.low, box.low) and np.array_equal(self.cells.box.high, box.high)):
                raise ValueError("cells must cover the box of bounds, got a Lattice of another box; give bounds=(box.low, box.high).")
            return self.cells
        cells, names = self.cells, list(getattr(self, "feature_names_in_", ()))
        if hasattr(cells, "columns") and names:
            if sorted(map(str, cells.columns)) != sorted(names):
                raise ValueError(f"cells must have the columns of X, {names}, got {list(map(str, cells.columns))}; rename or drop some.")
            cells = np.column_stack([np.asarray(cells[name]) for name in names])
        try:
            positions = np.array(cells, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"cells must be a Lattice or a table of numbers, a row for each representative, got {type(self.cells).__name__} of "
                "something else; give an array of shape (n_cells, n_features)."
            ) from None
        if positions.ndim != 2 or not len(positions) or positions.shape[1] != box.n_features:
            raise ValueError(
                f"cells must hold at least one representative, a row of {box.n_features} numbers each, got shape {positions.shape}; "
                "reshape it to (n_cells, n_features)."
            )
        if not ((positions >= box.low) & (positions <= box.high)).all():  # False for NaN
            raise ValueError("cells must be finite and lie within bounds, but some do not; widen bounds or move them.")
        if len(np.unique(positions, axis=0)) < len(positions):
            raise ValueError("cells must differ from each other, but some are equal; drop the copies.")
        return NearestCells(box, positions, self.metric)

    def _positions(self, partition, box):
        """Points whose distances the transport pays, one a cell."""
        if self.cells is not None:
            return partition.positions
        return (partition.coordinates + 0.5) * (box.width.max() / partition.shape)


def default_n_cells(size, n_features):
    """How many cells suit ``size`` rows times epsilon: the noise of many against the width of few, as measured in benchmarks."""
    if n_features == 1:
        wanted = 0.5 * size ** (2 / 3)
    elif n_features == 2:
        wanted = size / 4
    else:
        wanted = (25 if n_features == 3 else 50) * (size / 100) ** 1.3
    return int(min(max(2, wanted), _MOST_AUTO))


def lattice_shape(n_cells, box):
    """Parts of each axis: equal or nearly so, at most `n_cells` cells; no more parts than a whole-number feature has values."""
    most = np.where(box.whole, np.floor(box.high) - np.ceil(box.low) + 1, math.inf)
    parts = int(n_cells ** (1 / box.n_features) * (1 + 1e-9))
    parts -= parts**box.n_features > n_cells
    shape = np.minimum(parts, most).astype(int).tolist()
    open_axes = [axis for axis in range(box.n_features) if shape[axis] < most[axis]]
    size = math.prod(shape)
    while open_axes:
        axis = min(open_axes, key=lambda a: (shape[a], a))
        grown = size // shape[axis] * (shape[axis] + 1)
        if grown > n_cells:
            break
        shape[axis], size = shape[axis] + 1, grown
        if shape[axis] >= most[axis]:
            open_axes.remove(axis)
    return tuple(shape)


def _release_counts(counts, n, release):
    """Noisy counts of all cells, at what is left of the budget."""
    if len(counts) == 2 and release.sensitivity == 2:
        # With n public one of two counts tells the other, and replacing a row changes it by 1.
        release.sensitivity = 1
        first = release.counts(counts[:1], release.epsilon, "count of the first of two cells")
        return np.concatenate([first, n - first])
    return release.counts(counts, release.epsilon, "counts of the cells")


def _with_total(noisy, n, release):
    """Return (number of rows, noisy counts shifted by whole numbers to sum to it): post-processing."""
    total = int(noisy.sum())
    if release.count_error:
        # Two estimates of the number of rows, joined by inverse variance.
        share = 1 / (1 + 2 * release.count_error**2 / (len(noisy) * release.variance(release.epsilon)))
        n = max(1, round(share * n + (1 - share) * total))
    shift, rest = divmod(total - n, len(noisy))
    counts = noisy - shift
    counts[release.public_generator().permutation(len(noisy))[:rest]] -= 1
    return n, counts
