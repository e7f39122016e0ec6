"""The private measure mechanism (PMM)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._serialization import require
from skdpsynth._validation import Whole, check_parameters, is_integer, short_repr
from skdpsynth.domain import BoundsLike, Box, has_private
from skdpsynth.fitting import Budget, Facts, Plan
from skdpsynth.frames import Rows
from skdpsynth.measures import (
    MAX_DEPTH,
    BinaryPartition,
    DiscreteMeasure,
    Partition,
    TwoStages,
    bound_of_clamped_counts,
    bound_of_least_squares,
    bound_on_a_line,
    choose_refinement,
    is_line,
    least_squares,
    mass_from_root,
    measure_of_leaves,
    measure_of_union,
    optimal_shares,
    paper_shares,
    total_diameters,
    uniform_consistency,
)
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Mechanism, Seed, mechanism
from skdpsynth.statistics import Histogram, LeavesOf, total
from skdpsynth.synthesis._base import BlockPlan, PrivateSynthesizer, warn_if_small
from skdpsynth.synthesis._expected_error import expect_distance

_MOST_HELD = 24  # levels whose cells are all held: a gigabyte
_SMALL_LINE = 2000  # n * epsilon up to which one feature is measured at two neighboring levels
_SMALL_PLANE = 1000  # ... two features
_SMALL = 300  # ... more features
_SCOUT_SHARE = Fraction(1, 5)  # of the budget, for the first of the two adaptive stages there
_SCOUT_SHARE_OF_LINE = Fraction(1, 10)  # ... with one feature
_FURTHER = 0.5  # halvings of one feature there beyond those of one stage
_LEAST_HALVINGS = 2  # of the coarse cells of a line by the second stage
_LEVELS_APART = 4  # ... and between the levels of the first stage, at most
_MOST_PARTS = 23  # halvings of all parts
_FIRST_SHARE = Fraction(1, 4)  # of the budget, for the first of the two adaptive stages of larger tables
_MANY_COARSE = 10  # halvings of a plane from which on a level above is measured, too
_ABOVE_SHARE = Fraction(1, 10)  # of the budget, for that
_POINTS_A_CELL = 2.0  # epsilon-weighted points that a cell of the second stage should hold
_POINTS_A_CELL_IN_SPACE = 1.4  # ... with three or four features

MakePartition = Callable[[int], tuple[Partition, int]]  # from a wanted depth to a partition, and its depth, at most that


@savable
class PrivateMeasureMechanism(PrivateSynthesizer):
    """Private measure mechanism (PMM): synthetic data that are close in the Wasserstein distance.

    Counts the cells of a binary partition, adds integer noise to every count, makes the tree consistent and samples
    from the resulting probability measure.

    Parameters
    ----------
    strategy : {"auto", "adaptive", "optimal", "paper"}, default="auto"
        "adaptive", which "auto" means: coarse histograms decide how finely each of their cells is counted in a second release, and what is
        within noise is taken to be like the rest of its level.
        "optimal": one histogram; the budget is shared over its levels by least squares theory. "paper": Algorithm 4 of [1]_ with the
        noise doubled for "replace_one", for comparison.
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
    bounds : tuple, dict or "private", default=None
        Public bounds: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``. Values
        outside are clipped. Never take them from the data. None: (0, 1), with a `BoundsWarning`.
        "private": unknown, so a tenth of the budget buys them first; a dict may say so of some columns.
    neighboring : {"replace_one", "add_or_remove_one"}, default="replace_one"
        "replace_one": the number of rows is public. "add_or_remove_one": it is private, and estimated with 5 % of the budget.
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
        Released weights on the cells.
    partition_ : BinaryPartition
        Or the `partition` given.
    expected_error_ : float
        About the W1 distance (chebyshev, in units of the data) to expect between the data and ``n_samples_`` sampled rows: an estimate,
        not a bound. It is found at the first access, by fits to rows made of the released measure, and costs time, but no budget.
    error_bound_ : float
        A proved bound on the expected W1 distance (chebyshev, in units of the data) between the data and ``n_samples_`` sampled
        rows; see Notes.
    bounds_ : tuple of ndarray of shape (n_features,)
        Low and high; only where bounds were private.
    accountant_ : PrivacyAccountant
        Record of the spent budget.
    n_samples_ : int
        Number of rows; a noisy count (at least 1) under "add_or_remove_one", which "adaptive" joins with the counts of the cells.
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
        If the number of rows times epsilon is at most 100 with two features or more: uniform points may do as well. Also if the
        features are more than the cells are halved, so that some come out uniform whatever they hold.
    BudgetWarning
        If epsilon is above 20, or delta above one over the number of rows.

    See Also
    --------
    SignedMeasureMechanism : Noise on all cells, and the nearest probability measure; for any space with a distance.
    LowDimSynthesizer : For many columns near a few directions.
    LatentFactorSynthesizer : For tables of mixed types.
    OnlineSynthesizer : For rows that come as a stream.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private under `neighboring`; every attribute is released under that guarantee,
    and fitting again spends epsilon again. `sample` is free. `score` is not private. Timing is not protected.

    *Error bound.* Summed over the cells: how much mass noise moves between their halves, times their diameters; the diameter of the leaf of
    each unit; and half a unit a cell for rounding to whole rows (proof in the guide "Private measure"). With "adaptive" it depends on what
    was released, and its expectation exceeds the expected distance. It holds for any data (clipped to `bounds`, and before rounding to
    integer dtypes), so it is usually several times what is seen. Under "add_or_remove_one" the noisy count stands for the number of rows,
    and the bound is one to first order in its error.

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

    partition_: Any
    _counted: TwoStages

    def __init__(
        self,
        strategy: str = "auto",
        *,
        depth: int | Literal["auto"] = "auto",
        partition: Partition | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: BoundsLike = None,
        neighboring: str = "replace_one",
        max_rows_per_unit: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.strategy = strategy
        self.depth = depth
        self.partition = partition
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.max_rows_per_unit = max_rows_per_unit
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _plan(self, facts: Facts) -> Any:
        assert facts.box is not None
        # One axis alone may be cut more often than 16 times.
        box = facts.box.with_bits(30) if facts.n_features == 1 else facts.box
        depth = self._check_parameters(box)
        plan = _STRATEGIES[self.strategy].of(facts, depth, partial(self._make_partition, box))
        # The caller gets no warning of a choice of their own.
        warn_if_small(facts, plan.finest if depth is None and self.partition is None else facts.n_features)
        return plan

    def _release(self, rows: Rows, plan: Any, budget: Budget) -> None:
        if not isinstance(plan, Adaptive):
            self.__dict__.update(self._fitted_attributes(*plan.release_measure(rows, self.n_samples_, budget)))
            return
        counted = plan.release_counts(rows, self.n_samples_, budget)
        if self._size_error:
            counted, self._size_error = counted.join_number(self._size_error)
            self.n_samples_ = counted.n
        if self._block is not None:
            self._counted = counted
        else:
            self.__dict__.update(self._fitted_attributes(*counted.measure()))

    def _fitted_attributes(self, measure: DiscreteMeasure, bound: float) -> dict[str, Any]:
        """Return the attributes that show a measure with a bound for a public number of rows."""
        # A noisy number of rows stood for n, from which it differs by E|Z| on average: twice that, against dividing by a noisy number.
        widest, error = float(np.max(measure.partition.diameters(0))), self._size_error
        bound = min(bound + widest * 2 * error / self.n_samples_, widest) if error else bound
        partition = measure.partition if self.partition is None else self.partition
        return {"measure_": measure, "error_bound_": bound, "partition_": partition}

    @property
    def expected_error_(self) -> float:
        """About the W1 distance to expect, by simulation: see the attributes."""
        return expect_distance(self, self.measure_, self.n_samples_)

    def _sample_rows(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return self.measure_.sample(n_samples, rng, self.n_jobs)

    def _sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        return self.measure_.sample_blocks(n_samples, rng)

    @property
    def _lacks_bounds(self) -> bool:
        return super()._lacks_bounds and self.partition is None

    def _check_parameters(self, box: Box) -> int | None:
        """Return the depth asked for (None: "auto"), or raise."""
        if self.partition is not None and has_private(self.bounds):
            raise ValueError("partition must be None for bounds='private', because it has bounds of its own; give bounds=(low, high).")
        if self.partition is not None:
            _try_partition(self.partition, box)
        most = min(MAX_DEPTH, box.n_features * box.bits) if self.partition is None else self.partition.depth
        depths = "auto", Whole(1, most), "'auto' follows from rows times epsilon"
        check_parameters(self, {"strategy": ("auto", "adaptive", "optimal", "paper", ""), "depth": depths})
        if self.depth == "auto":
            return None
        if self.strategy != "adaptive" and self.depth > _MOST_HELD:
            raise ValueError(
                f"depth must be at most {_MOST_HELD} for strategy={self.strategy!r}, got {self.depth}: "
                "2**depth cells are held; use strategy='adaptive'."
            )
        return int(self.depth)

    def _make_partition(self, box: Box, wanted: int) -> tuple[Partition, int]:
        if self.partition is not None:
            return _GuardedPartition(self.partition), min(wanted, self.partition.depth)
        depth = min(wanted, MAX_DEPTH, box.n_features * box.bits)
        return BinaryPartition(box, depth, spread=self.strategy != "paper"), depth

    def _plan_blocks(self, facts: Facts) -> BlockPlan:
        return BlockPlan(is_joined=self.strategy in ("auto", "adaptive"))

    def _join_blocks(self, blocks: Sequence[Any], numbers: Sequence[float], reader: BaseEstimator) -> "PrivateMeasureMechanism":
        union: Any = object.__new__(type(self))
        vars(union).update({name: value for name, value in vars(blocks[-1]).items() if name != "_counted"})
        union.measure_ = measure_of_union([block._counted for block in blocks], numbers)
        return union

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.partition is None and "measure_" in vars(self):
            require(self.measure_.partition.box.n_features == self.n_features_in_)
            self.partition_ = self.measure_.partition  # one object, as fit made it

    def __getattr__(self, name: str) -> Any:
        # A block of a stream is counted, and gets a measure of its own only where somebody asks for it: a sample of the stream is drawn
        # from one measure of all its blocks.
        if name in ("measure_", "error_bound_", "partition_") and "_counted" in vars(self):
            return self._fitted_attributes(*self._counted.measure())[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@dataclass(frozen=True, kw_only=True)
class PublishedLevels(Plan):
    """The strategy "paper": Algorithm 4, with the noise of each level by equation (3.7), and Algorithm 3 for consistency."""

    partition: Partition
    finest: int
    noises: Sequence[Mechanism]

    @classmethod
    def of(cls, facts: Facts, depth: int | None, make_partition: MakePartition) -> "PublishedLevels":
        wanted = max(1, int(math.log2(max(2.0, facts.size))) - (facts.n_features == 1))
        partition, depth = make_partition(depth or min(wanted, _MOST_HELD))
        noises: Any = _level_noises(facts, paper_shares(total_diameters(partition, depth)))  # none is 0
        return cls(partition=partition, finest=depth, noises=noises)

    def release_measure(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        # Compute true counts, and add noise.
        counts = total(rows, Histogram.over(self.partition, self.partition.depth - self.finest))
        noisy = _release_levels(counts, self.noises, budget)
        # Enforce consistency, of counts clamped to (n + noise)_+; the measure draws the sample later.
        leaves = uniform_consistency([np.maximum(level, 0) for level in noisy], budget.generator())
        spreads = [float(noise.noise.mean_absolute()) for noise in self.noises]  # type: ignore[attr-defined]
        bound = bound_of_clamped_counts(self.partition, self.finest, n, max(1, int(noisy[0][0])), spreads)
        return measure_of_leaves(self.partition, self.finest, leaves), bound


@dataclass(frozen=True, kw_only=True)
class OneStage(Plan):
    """The strategy "optimal": one histogram; optimal shares over its levels, least squares, mass from the root."""

    partition: Partition
    finest: int
    shares: Sequence[Fraction]  # of the budget, by level
    noises: Sequence[Mechanism | None]

    @classmethod
    def of(cls, facts: Facts, depth: int | None, make_partition: MakePartition) -> "OneStage":
        log_size = int(math.log2(max(2.0, facts.size)))
        wanted = max(1, log_size - (1 + log_size // 3 if facts.n_features == 1 else 1 if facts.size > 1000 else 2))
        partition, depth = make_partition(depth or min(wanted, _MOST_HELD))
        shares = optimal_shares(total_diameters(partition, depth))
        return cls(partition=partition, finest=depth, shares=shares, noises=_level_noises(facts, shares))

    def release_measure(self, rows: Rows, n: int, budget: Budget) -> tuple[DiscreteMeasure, float]:
        counts = total(rows, Histogram.over(self.partition, self.partition.depth - self.finest))
        noisy = _release_levels(counts, self.noises, budget)
        estimates, errors = least_squares(noisy, _count_variances(self.noises, self.shares))
        mass = mass_from_root(estimates[1:], np.array(n, dtype=float))
        noise_free = any(noise is not None and noise.loss.is_infinite for noise in self.noises)
        if is_line(self.partition):
            bound = bound_on_a_line(self.partition, estimates, [0.0] * len(errors) if noise_free else errors, mass, n)
        else:
            bound = bound_of_least_squares(self.partition, self.finest, n, errors, noise_free=noise_free)
        return measure_of_leaves(self.partition, self.finest, mass), bound


@dataclass(frozen=True, kw_only=True)
class Adaptive(Plan):
    """The strategy "adaptive": coarse histograms, then the counts of a partition that is fine where the first stage saw mass."""

    partition: Partition
    finest: int
    shares: Sequence[Fraction]  # of the levels of the first stage and, last, of the second
    halvings: float  # of an even cell by the second stage
    noises: Sequence[Mechanism | None]

    @classmethod
    def of(cls, facts: Facts, depth: int | None, make_partition: MakePartition) -> "Adaptive":
        # The rules are for rows that are replaced; where one is added or removed, half of that noise does.
        size = min(facts.size * (2 if facts.neighboring == "add_or_remove_one" else 1), 2.0**_MOST_HELD)
        shares, halvings = _share_stages(size, facts.n_features, depth, make_partition)
        finest = len(shares) - 2 + max(0, int(halvings + len(shares) - 2))  # level of the parts of a cell that holds all rows
        partition, finest = make_partition(min(depth or finest, finest))
        return cls(partition=partition, finest=finest, shares=shares, halvings=halvings, noises=_level_noises(facts, shares))

    def release_counts(self, rows: Rows, n: int, budget: Budget) -> TwoStages:
        """Release the coarse cells; then as many parts of each as the noisy counts of the first stage say."""
        coarse_depth = len(self.shares) - 2
        cells, shift = rows.map(LeavesOf(self.partition)).materialize(), self.partition.depth - coarse_depth
        *first_noises, second = self.noises
        assert second is not None  # it has most of the budget

        counts = total(cells, Histogram.over_cells(1 << coarse_depth, shift))
        *above, coarse = _release_levels(counts, first_noises, budget)
        *above_variances, first_variance, second_variance = _count_variances(self.noises, self.shares)
        estimates, _ = least_squares([*above, coarse], [*above_variances, first_variance])
        refinement = choose_refinement(estimates, n, self.halvings, self.finest - coarse_depth)
        counts = total(cells, Histogram.over_refined(shift, refinement))
        fine = budget.answer(counts.query(budget.relation), second, "counts of the refined cells")

        variances, free = (first_variance, second_variance), second.loss.is_infinite
        return TwoStages(self.partition, n, coarse, refinement, fine, *variances, free, above, above_variances)


_STRATEGIES: dict[str, Any] = {"auto": Adaptive, "adaptive": Adaptive, "optimal": OneStage, "paper": PublishedLevels}


def _share_stages(size: float, d: int, depth: int | None, make_partition: MakePartition) -> tuple[tuple[Fraction, ...], float]:
    """Share the budget over two stages, by rows times epsilon under replace-one.

    Return the shares of the levels of the first stage and, last, of the second; and how often the second halves a cell with an even share
    of the rows.
    """
    if size <= {1: _SMALL_LINE, 2: _SMALL_PLANE}.get(d, _SMALL):
        return _stages_of_few(size, d, depth, make_partition)
    return _stages_of_line(size, depth, make_partition) if d == 1 else _stages_by_rows(size, d, depth, make_partition)


def _stages_of_line(size: float, depth: int | None, make_partition: MakePartition) -> tuple[tuple[Fraction, ...], float]:
    """Measure levels of one feature at most 4 apart, with equal shares of the budget; then parts of the cells of the last of them.

    Fewer levels leave sums of many noisy counts to a range, and a point that holds many rows to a coarse cell; more share the budget too
    thinly.
    """
    log_size = math.log2(size)
    parts = min(0.7 * log_size - 0.2, _MOST_PARTS)  # logarithm of their number
    _, deepest = make_partition(min(depth or MAX_DEPTH, int(parts)))
    coarse_depth = max(1, min(int(0.75 * log_size - 3.8), deepest - _LEAST_HALVINGS))
    n_levels = -(-coarse_depth // _LEVELS_APART)
    measured = {round(coarse_depth * i / n_levels) for i in range(1, n_levels + 1)}
    share = Fraction(1, n_levels + 1)
    return (*(share if level in measured else Fraction(0) for level in range(coarse_depth + 1)), share), parts - coarse_depth


def _stages_of_few(size: float, d: int, depth: int | None, make_partition: MakePartition) -> tuple[tuple[Fraction, ...], float]:
    """Measure the level that one stage would, where the level above it, with a tenth (one feature) or a fifth of the budget, saw rows."""
    log_size = int(math.log2(max(2.0, size)))
    _, deepest = make_partition(min(depth or _MOST_HELD, max(1, log_size - (1 + log_size // 3 if d == 1 else 2))))
    coarse_depth, scout = max(1, deepest - 1), _SCOUT_SHARE_OF_LINE if d == 1 else _SCOUT_SHARE
    return ((Fraction(0),) * coarse_depth) + (scout, 1 - scout), deepest - coarse_depth + (_FURTHER if d == 1 else 0.0)


def _stages_by_rows(size: float, d: int, depth: int | None, make_partition: MakePartition) -> tuple[tuple[Fraction, ...], float]:
    """Measure one coarse level with a quarter of the budget; then parts of its cells with about equally many rows.

    In a plane with many coarse cells, whose sums over a box would be noisy, the level half as deep gets a tenth of the budget first.
    """
    first, log_size = float(_FIRST_SHARE), math.log2(max(2.0, size))
    coarse_depth = int(max(0.6 * log_size, 0.8 * log_size - 3.7)) if d == 2 else max(0, int(math.log2(max(1.0, first * size)) - 3))
    most = math.log2(max(1.0, (1 - first) * size / (_POINTS_A_CELL_IN_SPACE if d in (3, 4) else _POINTS_A_CELL)))
    _, kept = make_partition(min(depth or MAX_DEPTH, coarse_depth))
    shares = [Fraction(0)] * kept + [_FIRST_SHARE, 1 - _FIRST_SHARE]
    if d == 2 and kept >= _MANY_COARSE:
        shares = [share * (1 - _ABOVE_SHARE) for share in shares]
        shares[kept // 2] = _ABOVE_SHARE
    return tuple(shares), most - kept


def _level_noises(facts: Facts, shares: Sequence[Fraction]) -> list[Mechanism | None]:
    """Return the noise of the counts of each level: Laplace, which for few levels is the least; None without a share: not measured."""
    losses = iter(facts.share.split(list(filter(None, shares))))
    sensitivity = Histogram.sensitivity(facts.neighboring)
    return [mechanism(sensitivity, next(losses).pure, ("laplace",)) if share else None for share in shares]


def _count_variances(noises: Sequence[Mechanism | None], shares: Sequence[Fraction]) -> list[float]:
    """Return the noise variance of a count of each level; without noise that of a budget of 1, so that levels are joined alike."""
    return [
        math.inf if noise is None else 2 * (float(noise.sensitivity.l1) / float(share)) ** 2 if noise.loss.is_infinite else noise.variance
        for noise, share in zip(noises, shares, strict=True)
    ]


def _release_levels(counts: Histogram, noises: Sequence[Mechanism | None], budget: Budget) -> list[Any]:
    noisy: list[Any] = []
    for level, (histogram, noise) in enumerate(zip(counts.levels(), noises, strict=True)):
        noisy.append(None if noise is None else budget.answer(histogram.query(budget.relation), noise, f"counts of level {level}"))
    return noisy


def _try_partition(partition: Partition, box: Box) -> None:
    """Try a caller's partition on one made-up row, so that its faults show before any budget is spent."""
    missing = [name for name in ("depth", "locate", "diameters", "sample") if not hasattr(partition, name)]
    if missing:
        raise ValueError(
            f"partition must have depth, locate, diameters and sample, but {type(partition).__name__} lacks {', '.join(missing)}."
        )
    if not is_integer(partition.depth, 1, MAX_DEPTH):
        raise ValueError(f"partition.depth must be an integer from 1 to {MAX_DEPTH}, got {short_repr(partition.depth)}.")
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


@savable
class _GuardedPartition:
    """A caller's partition, whose cell numbers are copied and clipped: no row can fail or change after the charge."""

    def __init__(self, partition: Partition) -> None:
        self.__setstate__({"partition": partition})

    def __getstate__(self) -> dict[str, Any]:
        return {"partition": self.partition}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.partition = partition = state["partition"]
        self.depth, self.diameters, self.sample = int(partition.depth), partition.diameters, partition.sample

    def locate(self, X: np.ndarray) -> np.ndarray:
        return np.clip(np.array(self.partition.locate(X), dtype=np.int64), 0, 2**self.depth - 1)
