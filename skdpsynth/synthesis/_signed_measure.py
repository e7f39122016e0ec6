"""The private signed measure mechanism (PSMM)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from skdpsynth._validation import Whole, check_parameters, short_repr
from skdpsynth.domain import BoundsLike, Box, has_private
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.frames import Rows, Table
from skdpsynth.measures import MAX_CELLS, NORMS, DiscreteMeasure, Lattice, NearestCells, check_solver, nearest_probability_measure
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Mechanism, Seed, mechanism
from skdpsynth.statistics import Histogram, total
from skdpsynth.synthesis._base import PrivateSynthesizer, warn_if_small

_MOST_AUTO = 10_000  # cells that "auto" asks for: about a second of solving
_MOST_ON_A_LINE = 1_000_000
_MOST_COORDINATES = 1 << 25  # of all cells together: a quarter of a gigabyte
_SPARSE = 4  # cells for a row times epsilon: with more, solving gets slow
_FEW_CELLS = 1000
_MOST_CUT = {"highs": 30_000, "ortools": 100_000}  # cells of a lattice: about ten seconds of solving
_MOST_OF_NOISE = {"highs": 5_000, "ortools": 30_000}  # ... where nearly all that they count is noise, so that mass moves far


@dataclass(frozen=True, kw_only=True)
class _CellsPlan(Plan):
    """The cells, and the noise of their counts: of the first of two alone, where that determines the other."""

    partition: Any
    noise: Mechanism
    count_error: float


@savable
class SignedMeasureMechanism(PrivateSynthesizer):
    """Private signed measure mechanism (PSMM): noisy counts of cells, and the probability measure nearest to them.

    Adds integer noise to the count of every cell, which makes a signed measure, and replaces it by a nearest probability measure in the
    bounded-Lipschitz distance: a linear program, solved exactly and with a certificate. It serves any space with a distance in which
    representative points can be listed.

    Parameters
    ----------
    n_cells : "auto" or int, default="auto"
        At most how many cells the box is cut into, each axis equally often or once more. "auto" follows from the number of rows times
        epsilon. From two features on, what would take minutes to solve is cut into fewer, with a warning: 30,000 ("ortools": 100,000),
        or 5,000 (30,000) where there are more than 4 cells for each row times epsilon.
    cells : array-like of shape (n_cells, n_features) or Lattice, default=None
        None: cut the box. Or public representatives, all within `bounds`: a row belongs to the nearest (the first of them, in a tie), and
        samples are representatives (rounded, where the rows are whole numbers); a data frame is matched by column. Or a
        `skdpsynth.measures.Lattice`, whose cells need not be all of a box. Never take them from the data.
    metric : {"chebyshev", "cityblock", "euclidean"}, default="chebyshev"
        Distance in which mass is moved. With ``cells=None`` every column is stretched to the width of the widest, so that columns in unlike
        units count alike; else it is in the units of the data.
    solver : {"highs", "ortools"}, default="highs"
        "highs": through cvxpy, for up to 150,000 cells. "ortools": a network flow, for up to 1,000,000; the package must be installed.
        So many are solved if they are given as `cells`.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Accepted for symmetry; for one histogram the Laplace noise of pure differential privacy wins, so no delta is spent.
    bounds : tuple, dict or "private", default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`.
        "private": unknown, so a tenth of the budget buys them first; a dict may say so of some columns.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated with 5 % of the budget and from
        the cells.
    max_rows_per_unit : int, default=1
        Where `fit` gets a `unit`: the most rows of each that count, chosen at random. Then `epsilon` protects all of them together, and the
        noise is that many times larger. It must be public; see the guide on units.
    accountant : PrivacyAccountant, str or path-like, default=None
        A shared budget, or the path of its ledger, charged the whole ``epsilon`` (and no delta) before the first draw.
        None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.
    n_jobs : int, default=None
        Threads that add up the rows, and that make the rows of `sample`, as everywhere in scikit-learn: neither the model nor a sample
        depends on it. None: 1, or what ``joblib.parallel_config`` says.

    Attributes
    ----------
    measure_ : DiscreteMeasure
        Weights on the cells: whole numbers of rows, divided by ``n_samples_``.
    signed_measure_ : ndarray of shape (n_cells,)
        The noisy counts of all cells, shifted to sum to ``n_samples_`` and divided by it: a signed measure, some of whose weights may be
        negative. ``measure_`` is a probability measure nearest to it. In the order of the cells of ``measure_.partition``.
    solution_ : NearestMeasure
        ``value`` (distance between the noisy signed measure and ``measure_``, in the units that `metric` says), ``lower_bound``, ``gap``,
        ``status``, ``n_iter``.
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
        If a parameter is out of its domain, a solver is not installed or the cells are too many for it, before any budget is spent. (Of
        scattered `cells` at most 30,000, or 100,000 with "ortools", where they are more than 4 for each row times epsilon and the number
        of rows is public.)
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.
    RuntimeError
        If the solver gives up, with its status; then epsilon is spent.

    Warns
    -----
    SmallSampleWarning
        If the number of rows times epsilon is at most 100 with two features or more: uniform points may do as well. Also if there are
        more features than the cells can tell apart, so that some come out uniform whatever they hold, or if the cells are so many that
        solving would take minutes, and there are fewer for it, or `cells` are (hours, at worst, with "highs").
    BudgetWarning
        If epsilon is above 20, or delta above one over the number of rows.

    See Also
    --------
    PrivateMeasureMechanism : Cells of a tree, with a proved bound on the error.
    skdpsynth.measures.nearest_probability_measure : Makes a probability measure of noisy counts.
    skdpsynth.measures.Lattice : Cells of equal size, or some of them.

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
        n_cells: int | Literal["auto"] = "auto",
        *,
        cells: Table = None,
        metric: str = "chebyshev",
        solver: str = "highs",
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_cells = n_cells
        self.cells = cells
        self.metric = metric
        self.solver = solver
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _plan(self, facts: Facts) -> _CellsPlan:
        box = facts.box
        assert box is not None
        given = self._check_parameters(box)
        partition = self._choose_cells(given, facts, box)
        first_only = partition.n_cells == 2 and facts.neighboring == "replace_one"
        sensitivity = (Histogram.sensitivity_of_first if first_only else Histogram.sensitivity)(facts.neighboring)
        n_values = partition.n_cells - first_only
        noise = mechanism(sensitivity, facts.share.pure, ("laplace",), n_values)
        return _CellsPlan(False, partition=partition, noise=noise, count_error=facts.count_error)

    def _release(self, rows: Rows, plan: _CellsPlan, budget: Budget) -> None:
        n, partition, histogram = self.n_samples_, plan.partition, total(rows, Histogram.over(plan.partition))
        if plan.noise.n_values < partition.n_cells:
            first = budget.answer(histogram.query_of_first(budget.relation), plan.noise, "count of the first of two cells")
            noisy = np.concatenate([first, n - first])
        else:
            noisy = budget.answer(histogram.query(budget.relation), plan.noise, "counts of the cells")

        # All that follows is post-processing. The signed measure: counts shifted by whole numbers to sum to the number of rows.
        noisy_total = int(noisy.sum())
        if plan.count_error:
            # Two estimates of the number of rows, joined by inverse variance.
            share = 1 / (1 + 2 * plan.count_error**2 / (len(noisy) * plan.noise.variance))
            n = max(1, round(share * n + (1 - share) * noisy_total))
        shift, rest = divmod(noisy_total - n, len(noisy))
        counts = noisy - shift
        counts[budget.generator().permutation(len(noisy))[:rest]] -= 1

        # Algorithm 2: the linear program, whose costs are the distances of these points, one a cell.
        positions = partition.positions
        if self.cells is None:
            positions = (partition.coordinates + 0.5) * (partition.box.width.max() / partition.shape)
        self.solution_ = nearest_probability_measure(positions, counts, self.metric, total=float(n), solver=self.solver)
        everywhere = np.arange(partition.n_cells)
        self.n_samples_ = n
        self.signed_measure_ = counts / n
        self.measure_ = DiscreteMeasure.from_mass(partition, everywhere, np.zeros_like(everywhere), self.solution_.weights)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return self.measure_.sample(n_samples, rng, self.n_jobs)

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        return self.measure_.sample_blocks(n_samples, rng)

    def _for_projected_rows(self, lattice_of: Callable[[int], Lattice], facts: Facts) -> "SignedMeasureMechanism":
        n_cells = default_n_cells(facts.size, facts.n_features) if self.n_cells == "auto" else self.n_cells
        return self.set_params(n_cells="auto", cells=lattice_of(n_cells))

    @property
    def _lacks_bounds(self) -> bool:
        return super()._lacks_bounds and self.cells is None

    def _check_parameters(self, box: Box) -> Any:
        """Return the partition, if it does not depend on the number of rows; or raise."""
        check_parameters(self, {"metric": (*NORMS, "")})
        check_solver(self.solver)
        most = _MOST_ON_A_LINE if box.n_features == 1 else min(MAX_CELLS[self.solver], _MOST_COORDINATES // box.n_features)
        hint = "use fewer" + (", or solver='ortools'" if self.solver == "highs" and box.n_features > 1 else "")
        check_parameters(self, {"n_cells": ("auto", Whole(1, most), f"'auto' is the default; with solver={self.solver!r} {hint}")})
        if self.cells is None:
            return None
        if has_private(self.bounds):
            raise ValueError("cells must be None for bounds='private', because they lie within bounds; give bounds=(low, high).")
        if self.n_cells != "auto":
            raise ValueError(f"n_cells must be 'auto' where cells are given, got {short_repr(self.n_cells)}; give one of the two.")
        partition = self._given_cells(box)
        if partition.n_cells > most:
            raise ValueError(f"cells must be at most {most} for solver={self.solver!r}, got {partition.n_cells}; {hint}.")
        return partition

    def _choose_cells(self, given: Any, facts: Facts, box: Box) -> Any:
        """Return the cells that were given, or a lattice; warn if they are too many."""
        partition = given
        if partition is None:
            n_cells = (
                default_n_cells(facts.size, box.n_features)
                if self.n_cells == "auto"
                else self._max_solvable_cells(self.n_cells, facts, box.n_features)
            )
            partition = Lattice(box, lattice_shape(n_cells, box))
        elif facts.neighboring == "replace_one":  # else the number of rows has been paid for, and the fit goes on with a warning
            # Scattered cells that nearly all count noise, and are so many that canceling it takes minutes or hours.
            most = _MOST_CUT[self.solver]
            scattered = facts.n_features > 1 and not isinstance(given, Lattice)
            if scattered and given.n_cells > most and _is_sparse(given.n_cells, facts.size):
                raise ValueError(
                    f"cells must be at most {most} for solver={self.solver!r} where they are more than {_SPARSE} * n_samples * epsilon = "
                    f"{_SPARSE * facts.size:g}, got {given.n_cells}, whose noise would take very long to cancel; give fewer, or a Lattice."
                )
        # The caller gets no warning of a choice of their own.
        n_divided: Any = box.n_features
        if given is None and self.n_cells == "auto":  # features whose values the cells tell apart, or that have but one value
            n_divided = np.sum((np.array(partition.shape) > 1) | (box.whole & (np.floor(box.high) == np.ceil(box.low))))
        warn_if_small(facts, n_divided)
        if box.n_features > 1 and _is_sparse(partition.n_cells, facts.size):
            facts.warn(
                f"There are {partition.n_cells} cells for n_samples * epsilon = {facts.size:g}: nearly all that they count is noise, "
                "which takes long to cancel (minutes, from some ten thousands of cells on); use fewer cells."
            )
        elif box.n_features > 1 and partition.n_cells > _MOST_AUTO and self.solver == "highs":
            facts.warn(
                f"There are {partition.n_cells} cells, which may take minutes to solve with solver='highs'; use fewer cells, or "
                "solver='ortools'."
            )
        return partition

    def _max_solvable_cells(self, n_cells: int, facts: Facts, n_features: int) -> int:
        """Return the most cells of the lattice: those asked for or, with a warning, those that take seconds to solve."""
        most = (_MOST_OF_NOISE if _is_sparse(n_cells, facts.size) else _MOST_CUT)[self.solver]
        if n_features == 1 or n_cells <= most:
            return int(n_cells)
        facts.warn(
            f"n_cells={n_cells} for n_samples * epsilon = {facts.size:g} and solver={self.solver!r} would take minutes to solve, so "
            f"the box is cut into at most {most}; give a Lattice as `cells` to have all of them."
        )
        return most

    def _given_cells(self, box: Box) -> Any:
        """Return `cells` as a partition of the box, or raise."""
        if isinstance(self.cells, Lattice):
            if not (np.array_equal(self.cells.box.low, box.low) and np.array_equal(self.cells.box.high, box.high)):
                raise ValueError("cells must cover the box of bounds, got a Lattice of another box; give bounds=(box.low, box.high).")
            return self.cells
        cells, names = self.cells, list(getattr(self, "feature_names_in_", ()))
        if hasattr(cells, "columns") and names:  # in the order of the columns of the rows
            if sorted(map(str, cells.columns)) != sorted(names):
                raise ValueError(f"cells must have the columns of X, {names}, got {list(map(str, cells.columns))}; rename or drop some.")
            cells = np.column_stack([np.asarray(cells[name]) for name in names])
        try:
            positions = np.array(cells, dtype=float)
        except (TypeError, ValueError, OverflowError):  # which quote the cell
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


def default_n_cells(size: float, n_features: int) -> int:
    """Return the number of cells for `size` rows times epsilon: the noise of many against the width of few, as measured in benchmarks."""
    if n_features == 1:
        wanted = 0.5 * size ** (2 / 3)
    elif n_features == 2:
        wanted = size / 4
    else:
        wanted = (25 if n_features == 3 else 50) * (size / 100) ** 1.3
    return int(min(max(2, wanted), _MOST_AUTO, _MOST_COORDINATES // n_features))


def _is_sparse(n_cells: int, size: float) -> bool:
    """Whether nearly all cells count nothing but noise."""
    return n_cells > max(_SPARSE * size, _FEW_CELLS)


def lattice_shape(n_cells: int, box: Box) -> tuple[int, ...]:
    """Return the parts of each axis: nearly equal, at most `n_cells` cells, and at most one for each value of a whole-number feature."""
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
