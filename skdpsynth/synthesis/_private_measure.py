"""The private measure mechanism (PMM)."""

import math

import numpy as np

from skdpsynth._estimator import all_or_nothing
from skdpsynth._sklearn import check_choice, is_whole
from skdpsynth.domain import Box
from skdpsynth.measures import (
    MAX_DEPTH,
    BinaryPartition,
    DiscreteMeasure,
    least_squares,
    mass_from_root,
    optimal_shares,
    pair_sums,
    paper_shares,
    uniform_consistency,
)
from skdpsynth.privacy import DiscreteLaplace, laplace_scale, split_exactly
from skdpsynth.statistics import Histogram
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._release import open_release

_FIRST_SHARE = 0.25  # of the rest, for the first of the two adaptive stages
_SMALL_PLANE = 500  # n * epsilon up to which one release serves two features better than two
_SMALL = 100  # ... and more than two features
_POINTS_A_CELL = 2.0  # epsilon-weighted points that a cell of the second stage should hold
_POINTS_A_CELL_IN_SPACE = 1.4  # ... with three or four features


class PrivateMeasureMechanism(PrivateSynthesizer):
    """Private measure mechanism (PMM): synthetic data that are close in the Wasserstein distance.

    Counts the cells of a binary partition, adds integer noise to every count, makes the tree consistent and samples
    from the resulting probability measure.

    Parameters
    ----------
    strategy : {"auto", "adaptive", "optimal", "paper"}, default="auto"
        "adaptive": a coarse histogram decides how finely each of its cells is counted in a second release.
        "optimal": one histogram; the budget is shared over its levels by least squares theory. "paper": Algorithm 4 of [1]_ with the
        noise doubled for "replace_one", for comparison. "auto": "optimal" for one feature, and where the number of rows times
        epsilon is at most 500 (two features) or 100 (more); else "adaptive".
    depth : "auto" or int, default="auto"
        Deepest level of the partition. "auto" follows from the number of rows times epsilon.
    partition : object, default=None
        None: halve the box in turn along its axes. Or any object with ``depth``, ``locate(X)``, ``diameters(level)`` and
        ``sample(cells, level, rng)`` (see `skdpsynth.measures.BinaryPartition`), for other metric spaces; then `bounds`
        is only checked.
    epsilon : float, default=1.0
        The whole budget of one `fit`. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Accepted for symmetry; with few levels the Laplace noise of pure differential privacy wins, so no delta is spent.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated with 5 % of the budget.
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` (and no delta) before the first draw. None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.

    Attributes
    ----------
    measure_ : DiscreteMeasure
        Released weights on the cells.
    partition_ : BinaryPartition
        Or the `partition` given.
    error_bound_ : float
        A proved bound on the expected W1 distance (chebyshev, in units of the data) between the data and ``n_samples_`` sampled
        rows; see Notes.
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
        If a parameter is out of its domain, before any budget is spent.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    Warns
    -----
    SmallSampleWarning
        If the number of rows times epsilon is at most 100 with two features or more: uniform points may do as well.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private under `neighboring`; every attribute is released under that guarantee,
    and fitting again spends epsilon again. `sample` is free. `score` is not private. Timing is not protected.

    *Error bound.* For the cell A with children's estimates z_0, z_1 of true counts n_0, n_1, the mass moved between the
    children is at most ``|(1 - s) (z_0 - n_0) - s (z_1 - n_1)|``, s the left child's share of a deficit, and each unit moves at most the
    diameter of A. Summing expected absolute values over the cells, adding the diameter of the leaf of each unit and half a unit a cell
    for rounding to whole rows gives the bound. With "adaptive" the bound itself depends on the first release, and what is proved is that
    its expectation exceeds the expected distance. It holds for any data (clipped to `bounds`, and before rounding to integer dtypes), so it
    is usually several times what is seen. Under "add_or_remove_one" the noisy count stands for the number of rows, and the bound is one to
    first order in its error.

    References
    ----------
    .. [1] He, Vershynin, Zhu (2023), "Algorithmically effective differentially private synthetic data", Algorithm 4, Theorem 10
       (numbered as in the authors' dissertation: Algorithms 3-4, equation 3.7).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 2))
    >>> pmm = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(X)
    >>> pmm.sample().shape
    (5000, 2)
    >>> pmm.accountant_.spent
    Fraction(1, 1)
    """

    def __init__(
        self,
        strategy="auto",
        *,
        depth="auto",
        partition=None,
        epsilon=1.0,
        delta=0.0,
        bounds=(0.0, 1.0),
        neighboring="replace_one",
        accountant=None,
        random_state=None,
    ):
        self.strategy = strategy
        self.depth = depth
        self.partition = partition
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
        self : PrivateMeasureMechanism
        """
        X, box, rng = self._begin(X)
        depth = self._check_parameters(box)
        # One axis alone may be cut more often than 16 times.
        box = Box(box.low, box.high, 30, box.whole) if box.n_features == 1 else box
        release, n, size = open_release(self, len(X), box.n_features, rng, lambda size: size)
        strategy = self.strategy
        if strategy == "auto":
            one_pass = box.n_features == 1 or size <= (_SMALL_PLANE if box.n_features == 2 else _SMALL)
            strategy = "optimal" if one_pass else "adaptive"
        make_partition = self._partition_of(box, spread=strategy != "paper")
        fit_measure = {"adaptive": _fit_adaptive, "optimal": _fit_optimal, "paper": _fit_paper}[strategy]
        self.measure_, self.error_bound_ = fit_measure(X, n, size, depth, box.n_features, make_partition, release)
        release.accountant.close()

        if self.neighboring == "add_or_remove_one":
            # The noisy count stood for n, from which it differs by E|Z| on average: twice that, against dividing by a noisy number.
            widest = float(np.max(self.measure_.partition.diameters(0)))
            self.error_bound_ = min(self.error_bound_ + widest * 2 * release.count_error / n, widest)
        self.partition_ = self.measure_.partition if self.partition is None else self.partition
        self.accountant_ = release.accountant
        self.n_samples_ = n
        return self

    def _sample_rows(self, n_samples, rng):
        return self.measure_.sample(n_samples, rng)

    def _check_parameters(self, box):
        """Return the depth asked for (None: "auto"), or raise."""
        check_choice("strategy", self.strategy, ("auto", "adaptive", "optimal", "paper"))
        if self.partition is not None:
            missing = [name for name in ("depth", "locate", "diameters", "sample") if not hasattr(self.partition, name)]
            if missing:
                raise ValueError(
                    "partition must have depth, locate, diameters and sample, "
                    f"but {type(self.partition).__name__} lacks {', '.join(missing)}."
                )
            _rehearse(self.partition, box)
            most = self.partition.depth
        else:
            most = min(MAX_DEPTH, 30 if box.n_features == 1 else box.n_features * box.bits)
        if isinstance(self.depth, str) and self.depth == "auto":
            return None
        if not is_whole(self.depth, 1, most):
            raise ValueError(f"depth must be 'auto' or an integer from 1 to {most}, got {self.depth!r}.")
        if self.strategy != "adaptive" and self.depth > 26:
            raise ValueError(
                f"depth must be at most 26 for strategy={self.strategy!r}, got {self.depth}: "
                "2**depth cells are held; use strategy='adaptive'."
            )
        return int(self.depth)

    def _partition_of(self, box, spread):
        """Return a function from a wanted depth to (partition, depth at most that)."""

        def make(depth):
            if self.partition is not None:
                return _Guarded(self.partition), min(depth, self.partition.depth)
            depth = min(depth, MAX_DEPTH, box.n_features * box.bits)
            return BinaryPartition(box, depth, spread=spread), depth

        return make


def _rehearse(partition, box):
    """Try a caller's partition on one made-up row, so that what it gets wrong is said before any budget is spent."""
    if not is_whole(partition.depth, 1, MAX_DEPTH):
        raise ValueError(f"partition.depth must be an integer from 1 to {MAX_DEPTH}, got {partition.depth!r}.")
    row = box.midpoint[None, :]
    try:
        cells = np.asarray(partition.locate(row))
        rows = np.asarray(partition.sample(np.zeros(1, dtype=np.int64), 1, np.random.default_rng(0)))
        partition.diameters(0)
    except Exception as error:
        raise ValueError(
            f"partition does not serve rows of {box.n_features} features within bounds: {error}; see BinaryPartition."
        ) from error
    located = cells.shape == (1,) and cells.dtype.kind in "iu" and 0 <= cells[0] < 2**partition.depth
    if not located or rows.shape != row.shape:
        raise ValueError(
            "partition.locate must return one integer in [0, 2**depth) a row, and partition.sample rows of the features of X, "
            f"got {cells.dtype} of shape {cells.shape} and rows of shape {rows.shape} for one row of {box.n_features} features."
        )


class _Guarded:
    """A caller's partition, whose cell numbers are copied and clipped: no row can fail or change after the charge."""

    def __init__(self, partition):
        self.partition = partition
        self.depth, self.diameters, self.sample = int(partition.depth), partition.diameters, partition.sample

    def locate(self, X):
        return np.clip(np.array(self.partition.locate(X), dtype=np.int64), 0, 2**self.depth - 1)


def _total_diameters(partition, depth):
    """W_i: the sum of the diameters of the cells of level i, for i < depth."""
    return tuple(float(np.sum(np.broadcast_to(partition.diameters(i), 1 << i))) for i in range(depth))


def _levels_of(counts, depth):
    """Exact counts of the levels 0, ..., depth, from those of the leaves."""
    levels = [counts]
    for _ in range(depth):
        levels.append(pair_sums(levels[-1]))
    return levels[::-1]


def _leaf_counts(X, partition, depth):
    return (
        Histogram.of(X, partition).coarsen(partition.depth - depth).counts
        if partition.depth <= 26
        else Histogram.of_cells(partition.locate(X) >> (partition.depth - depth), 1 << depth).counts
    )


def _fit_optimal(X, n, size, depth, n_features, make_partition, release):
    """One histogram; optimal shares over its levels, least squares, mass from the root."""
    log_size = int(math.log2(max(2.0, size)))
    wanted = depth or max(1, log_size - (1 + log_size // 3 if n_features == 1 else 1 if size > 1000 else 2))
    partition, depth = make_partition(wanted)
    totals = _total_diameters(partition, depth)
    shares = optimal_shares(totals)

    levels = _levels_of(_leaf_counts(X, partition, depth), depth)
    used = [j for j in range(1, depth + 1) if shares[j]]
    epsilons = dict(zip(used, split_exactly(release.epsilon, [shares[j] for j in used]), strict=True))
    noisy, variances = [None] * (depth + 1), [math.inf] * (depth + 1)
    for j in used:
        noisy[j] = release.counts(levels[j], epsilons[j], f"counts of level {j}")
        variances[j] = release.variance(epsilons[j], shares[j])

    estimates, errors = least_squares(noisy, variances)
    mass = mass_from_root(estimates[1:], np.array(n, dtype=float))
    noise_free = release.epsilon == math.inf
    widest = [float(np.max(partition.diameters(i))) for i in range(depth + 1)]
    moved = sum(0.0 if noise_free else min(totals[i] * math.sqrt(errors[i + 1] / 2), n * widest[i]) for i in range(depth))
    bound = (moved + _rounding(partition, depth, n)) / n + widest[depth]
    return _measure_of_leaves(partition, depth, mass), min(bound, widest[0])


def _fit_paper(X, n, size, depth, n_features, make_partition, release):
    """Algorithm 4: noise on every level by equation (3.7), clamped, made consistent by Algorithm 3."""
    log_size = int(math.log2(max(2.0, size)))
    partition, depth = make_partition(depth or max(1, log_size - (n_features == 1)))
    totals = _total_diameters(partition, depth)

    levels = _levels_of(_leaf_counts(X, partition, depth), depth)
    epsilons = split_exactly(release.epsilon, paper_shares(totals))
    noisy = [
        release.counts(counts, epsilon, f"counts of level {j}") for j, (counts, epsilon) in enumerate(zip(levels, epsilons, strict=True))
    ]
    leaves = uniform_consistency([np.maximum(counts, 0) for counts in noisy], release.public_generator())

    spreads = [DiscreteLaplace(laplace_scale(release.sensitivity, epsilon)).mean_absolute() for epsilon in epsilons]
    total = max(1, int(noisy[0][0]))
    widest = [float(np.max(partition.diameters(i))) for i in range(depth + 1)]
    moved = sum(min(totals[i] * spreads[i + 1], total * widest[i]) for i in range(depth)) + _rounding(partition, depth, n)
    bound = moved / total + widest[0] * abs(total - n) / max(total, n) + widest[depth]
    return _measure_of_leaves(partition, depth, leaves), min(bound, widest[0])


def _fit_adaptive(X, n, size, depth, n_features, make_partition, release):
    """A coarse histogram, then the counts of a partition that is fine where the first stage saw mass."""
    first, second = split_exactly(release.epsilon, [_FIRST_SHARE, 1 - _FIRST_SHARE])
    coarse_depth = int(0.6 * math.log2(max(2.0, size)) if n_features <= 2 else math.log2(max(1.0, _FIRST_SHARE * size)) - 3)
    coarse_depth = max(coarse_depth, 0)
    points = _POINTS_A_CELL_IN_SPACE if n_features in (3, 4) else _POINTS_A_CELL
    weight = (1 - _FIRST_SHARE) * size / n / points  # cells that one row can pay for
    finest = coarse_depth + max(0, int(math.log2(max(1.0, weight * n))))
    partition, finest = make_partition(min(depth or finest, finest))
    coarse_depth = min(coarse_depth, finest)
    n_coarse = 1 << coarse_depth

    # Stage one: the coarse histogram, projected to non-negative mass.
    cells = partition.locate(X)
    coarse_shift = partition.depth - coarse_depth
    noisy = release.counts(Histogram.of_cells(cells >> coarse_shift, n_coarse).counts, first, f"counts of level {coarse_depth}")
    root = np.array(n, dtype=float)
    rough = mass_from_root(_levels_of(noisy.astype(float), coarse_depth)[1:], root)

    # Stage two: each coarse cell is halved k times, a function of stage one (and of public numbers) only.
    refinement = np.log2(np.maximum(rough * weight, 1.0)).astype(np.int64)
    np.clip(refinement, 0, finest - coarse_depth, out=refinement)
    fine = release.counts(Histogram.of_refined(cells, coarse_shift, refinement).counts, second, "counts of the refined cells")

    # Join the two estimates of each coarse cell by inverse variance, and share the mass from the root downwards.
    v_first, v_second = release.variance(first, _FIRST_SHARE), release.variance(second, 1 - _FIRST_SHARE)
    groups, start = [], 0
    fine_sum = np.empty(n_coarse)
    for k in np.unique(refinement):
        members = np.flatnonzero(refinement == k)
        parts = fine[start : start + (len(members) << k)].reshape(len(members), -1).astype(float)
        start += parts.size
        tree = [parts]
        for _ in range(k):
            tree.append(pair_sums(tree[-1]))
        fine_sum[members] = tree[-1][:, 0]
        groups.append((int(k), members, tree[-2::-1]))
    v_fine = v_second * 2.0**refinement
    weight_first = v_fine / (v_first + v_fine)
    joined = weight_first * noisy + (1 - weight_first) * fine_sum
    variances = _levels_of(v_first * v_fine / (v_first + v_fine), coarse_depth)[1:]
    left_shares = [v[0::2] / (v[0::2] + v[1::2]) for v in variances]
    mass = mass_from_root(_levels_of(joined, coarse_depth)[1:], root, left_shares)

    listed, levels, masses = [], [], []
    for k, members, tree in groups:
        listed.append(((members[:, None] << k) + np.arange(1 << k)).ravel())
        levels.append(np.full(len(members) << k, coarse_depth + k, dtype=np.int8))
        masses.append(mass_from_root(tree, mass[members]).ravel())
    measure = DiscreteMeasure.from_mass(partition, np.concatenate(listed), np.concatenate(levels), np.concatenate(masses))
    bound = _adaptive_bound(
        partition, measure, n, coarse_depth, refinement, weight_first * (noisy - fine_sum), left_shares, v_second, release.epsilon
    )
    return measure, bound


def _adaptive_bound(partition, measure, n, coarse_depth, refinement, correction, left_shares, v_second, epsilon):
    """A number whose expectation bounds E W1.

    The joined estimate is z = s + c with s the second-stage sum and c = w (first - s), which is seen. Given the first stage the
    noise of s is centred, independent and of known variance, so the mass moved in a node is at most |c-part| plus a term of known
    standard deviation. (Nothing is assumed of the first stage's noise, on which w depends.)
    """
    noisy = epsilon != math.inf
    moved = 0.0
    corrections = _levels_of(correction, coarse_depth)
    variances = _levels_of(v_second * 2.0**refinement, coarse_depth)
    for i in range(coarse_depth):
        share = left_shares[i]
        c, v = corrections[i + 1], variances[i + 1]
        seen = np.abs((1 - share) * c[0::2] - share * c[1::2])
        unseen = np.sqrt((1 - share) ** 2 * v[0::2] + share**2 * v[1::2]) if noisy else 0.0
        moved += float(np.sum(seen + unseen)) * float(np.max(partition.diameters(i)))
    for i in range(int(refinement.max(initial=0))):
        # A node i levels below a coarse cell that is halved k times has children of variance v 2**(k - i - 1).
        k = refinement[refinement > i]
        unseen = float(np.sum(2.0**i * np.sqrt(v_second * 2.0 ** (k - i - 1) / 2))) if noisy else 0.0
        moved += min(unseen, n) * float(np.max(partition.diameters(coarse_depth + i)))
    deepest = int(measure.levels.max())
    by_level = np.array([float(np.max(partition.diameters(level))) for level in range(deepest + 1)])
    inside = float(np.sum(measure.weights * by_level[measure.levels]))
    bound = (moved + _rounding(partition, deepest, n)) / n + inside
    return min(bound, float(np.max(partition.diameters(0))))


def _rounding(partition, depth, n):
    """Expected transport, times n, of rounding to n rows along the curve: half a unit a node, and never more than n a level."""
    return sum(float(np.max(partition.diameters(i))) * min(2.0**i / 2, n) for i in range(depth))


def _measure_of_leaves(partition, depth, mass):
    cells = np.arange(1 << depth)
    return DiscreteMeasure.from_mass(partition, cells, np.full(len(cells), depth, dtype=np.int8), mass)
