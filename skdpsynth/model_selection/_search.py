"""Private search of hyper-parameters."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from inspect import signature
from itertools import combinations
from os import PathLike
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpsynth._parallel import cached_property, run_all
from skdpsynth._progress import task
from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth._serialization import require
from skdpsynth._sklearn import take_rows as take_table_rows
from skdpsynth._validation import Between, check_parameters, is_real, short_repr
from skdpsynth.domain import Box, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, OuterFit, Plan, PrivateEstimator, check_part, fit_part
from skdpsynth.frames import Cell, Rows, Unit, take_rows
from skdpsynth.metrics import Table
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, Mechanism, PrivacyAccountant, PrivacyLoss, RandomBits, Seed, losses_of_kind, mechanism
from skdpsynth.statistics import RowCount
from skdpsynth.tables import encode

_FIXED = ("epsilon", "delta", "bounds", "schema", "neighboring", "accountant", "random_state")
N_POINTS = 1 << 14  # points that a model draws for comparison
_DIRECTIONS = 64
_GRID = 1 << 10  # cells along a direction
_REACH = 0.75  # of the length of a direction, on either side of the middle: rows beyond are clipped
_STEPS, _SUMMANDS = 16, 4  # sums of uniform numbers: nearly as uniform on the sphere as normal ones, and whole
_PARTS = 8  # of a column, where pairs of columns are counted
_MOST_PAIRS = 300
_SEED = 7  # of directions and pairs: they are public, and the same in all searches of so many columns
_CHOICE, _SCORES = 1, 1  # shares of the budget of held-out rows for the choice and for the shown scores
_COUNT = Fraction(1, 20)  # share of it for their number, if that is private


@dataclass(frozen=True)
class Utility(ABC):
    """A criterion for comparing candidates, within a public box of points."""

    box: Box

    def sensitivity_of(self, n_candidates: int, relation: str) -> Sensitivity:
        """Return the sensitivity of the utilities of candidates: under both relations, each moves by `sensitivity` at most."""
        statistic, one = statistic_facts("utilities", candidates=n_candidates, **self.facts), self.sensitivity
        return Sensitivity(relation, n_candidates * one, n_candidates * one**2, one, statistic=statistic)

    def of(self, points: np.ndarray, model: BaseEstimator, rng: np.random.Generator) -> int:
        rows = self.counts(self.box.quantize(points))
        drawn = self.counts(self.box.quantize(model._sample_points(N_POINTS, rng)))
        return -int(np.abs(N_POINTS * rows - len(points) * drawn).sum())

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return public numbers from which the sensitivity follows."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """Return how far one row, added, removed or replaced, moves the utility of a model, with a proof."""

    @abstractmethod
    def score(self, utility: np.ndarray | float, n_rows: int) -> Any:
        """Scale a utility, perhaps with noise, for people; 0 is best."""

    def counts(self, cells: np.ndarray) -> np.ndarray:
        """Return int64 counts of rows, from their places on the grid of the box."""
        raise NotImplementedError


@dataclass(frozen=True)
class SlicedDistance(Utility):
    """Minus the 1-Wasserstein distance along some directions, in units of the sides of the box.

    A row's place along a direction is a cell from 0 to G - 1: the product of two vectors of whole numbers, cut off at a distance from the
    middle of the box, and divided with rounding down. Let C(t) be the number of rows whose cell is at most t, and Q(t) that of the N
    points. On a line, W1 between the m rows and the points is the sum over t of ``|C(t) / m - Q(t) / N|`` cells; so the utility is
    minus ``m N`` times the sum of W1 over the directions.

    *Sensitivity.* For one direction and one t < G - 1 (at G - 1 the term is ``|N m - m N| = 0``):

    - a row added or removed moves ``N C(t) - m Q(t)`` by ``N 1[cell <= t] - Q(t)``, which lies between -N and N;
    - a row replaced moves it by N times a difference of two indicators.

    Either is at most N, so a row moves the utility by at most **(number of directions) (G - 1) N**: m W1 moves by at most the diameter
    of what the rows are cut to. It is attained by a row that goes from one end of all directions to the other.
    """

    @cached_property
    def directions(self) -> np.ndarray:
        """Return random vectors of whole numbers, (n_directions, n_features), from a public seed."""
        if self.box.n_features == 1:
            return np.array([[_STEPS]])
        drawn = np.random.default_rng(_SEED).integers(-_STEPS, _STEPS + 1, (_DIRECTIONS, self.box.n_features, _SUMMANDS)).sum(axis=2)
        drawn[~drawn.any(axis=1)] = _STEPS
        return drawn

    @cached_property
    def _reach(self) -> np.ndarray:
        """Return how far from the middle a row is clipped, in half steps of the grid: where the box ends, if that is nearer."""
        largest = (1 << self.box.bits) - 1
        lengths = np.sqrt((self.directions**2).sum(axis=1))
        return np.minimum(np.abs(self.directions).sum(axis=1) * largest, np.ceil(2 * _REACH * lengths * largest).astype(np.int64))

    @property
    def facts(self) -> dict[str, Any]:
        return {"scoring": "sliced_wasserstein", "directions": len(self.directions), "cells": _GRID, "points": N_POINTS}

    @property
    def sensitivity(self) -> int:
        return len(self.directions) * (_GRID - 1) * N_POINTS

    def counts(self, cells: np.ndarray) -> np.ndarray:
        """Return how many rows lie at most at each cell of each direction, shape (n_directions, G)."""
        centered = 2 * cells - ((1 << self.box.bits) - 1)
        out = np.empty((len(self.directions), _GRID), dtype=np.int64)
        for place, (direction, reach) in enumerate(zip(self.directions, self._reach, strict=True)):
            # Floats hold these whole numbers, below 2**53, exactly: so a product of matrices has one result, in whatever order it sums.
            along = (centered.astype(float) @ direction.astype(float)).astype(np.int64)
            cell = (np.clip(along, -reach, reach) + reach) * _GRID // (2 * reach + 1)
            out[place] = np.bincount(cell, minlength=_GRID).cumsum()
        return out

    def score(self, utility: np.ndarray | float, n_rows: int) -> Any:
        """Return minus the mean distance along a direction of length 1, in units of the sides of the box."""
        lengths = np.sqrt((self.directions**2).sum(axis=1))
        cell = np.mean(2 * self._reach / lengths) / _GRID / 2 / ((1 << self.box.bits) - 1)
        return utility / (max(n_rows, 1) * N_POINTS * len(self.directions)) * cell


@dataclass(frozen=True)
class MarginalDistance(Utility):
    """Minus the total variation between marginals of pairs of columns, each cut into eight even parts.

    The utility is minus the sum, over pairs and cells, of ``|N c - m q|`` with c and q the counts of rows and points.

    *Sensitivity.* A row is in one cell of each pair. Replaced, it moves ``N c`` by N in two cells of a pair at most. Added or removed, it
    moves ``N c - m q`` by N - q in its own cell and by q in each other one: ``2 (N - q)`` in all. Either is at most 2 N, so the utility
    moves by at most **2 N (number of pairs)**.
    """

    @cached_property
    def pairs(self) -> list[tuple[int, ...]]:
        """Return all pairs of columns, or 300 drawn with a public seed; a single column is a pair with itself."""
        every = list(combinations(range(self.box.n_features), min(2, self.box.n_features)))
        if len(every) <= _MOST_PAIRS:
            return every
        return [every[i] for i in np.sort(np.random.default_rng(_SEED).choice(len(every), _MOST_PAIRS, replace=False))]

    @property
    def facts(self) -> dict[str, Any]:
        return {"scoring": "marginals", "pairs": len(self.pairs), "points": N_POINTS}

    @property
    def sensitivity(self) -> int:
        return 2 * N_POINTS * len(self.pairs)

    def counts(self, cells: np.ndarray) -> np.ndarray:
        """Return how many rows are in each cell of each pair, shape (n_pairs, 64)."""
        parts = (cells * _PARTS) >> self.box.bits
        codes = (parts[:, pair[0]] * _PARTS + parts[:, pair[-1]] for pair in self.pairs)
        return np.array([np.bincount(code, minlength=_PARTS**2) for code in codes], dtype=np.int64)

    def score(self, utility: np.ndarray | float, n_rows: int) -> Any:
        return utility / (2 * max(n_rows, 1) * N_POINTS * len(self.pairs))


@dataclass(frozen=True)
class CapturedVariance(Utility):
    """Share of the squared distance of rows from the mean that the components keep.

    The utility is the sum over rows of a whole number from 0 to S: S times the squared length of the row, less the mean, along the
    components, over a quarter of the squared diagonal of the box, rounded down and cut off at S.

    *Sensitivity.* A row adds a number from 0 to S, so the utility moves by at most **S**, added, removed or replaced.
    """

    @property
    def facts(self) -> dict[str, Any]:
        return {"scoring": "captured_variance", "most": N_POINTS}

    @property
    def sensitivity(self) -> int:
        return N_POINTS

    def of(self, points: np.ndarray, model: BaseEstimator, rng: np.random.Generator) -> int:
        unit, largest = self.box.step.max(), (1 << self.box.bits) - 1
        # Whole numbers below 2**53 until the square, so that a row counts the same beside any others.
        basis = np.rint(np.clip(model.components_, -1, 1) * (self.box.step / unit) * (1 << 10))
        center = self.box.quantize(np.asarray(model.mean_)[None, :])
        along = ((self.box.quantize(points) - center).astype(float) @ basis.T).astype(np.int64) >> 10
        quarter = float(((self.box.step / unit * largest) ** 2).sum()) / 4
        shares = np.minimum((along**2).sum(axis=1) / quarter * N_POINTS, N_POINTS)
        return int(np.floor(shares).astype(np.int64).sum())

    def score(self, utility: np.ndarray | float, n_rows: int) -> Any:
        """Return the mean over rows, as a share of a quarter of the squared diagonal."""
        return utility / (max(n_rows, 1) * N_POINTS)


SCORINGS: dict[str, type[Utility]] = {
    "sliced_wasserstein": SlicedDistance,
    "marginals": MarginalDistance,
    "captured_variance": CapturedVariance,
}


@dataclass(frozen=True)
class Run:
    """A candidate that the estimator does not refuse."""

    place: int  # among all candidates
    loss: PrivacyLoss  # of its fit on the training rows
    warnings: Sequence[Any]  # of its refit, as (text, category)
    final_spends_delta: bool
    is_gaussian: bool  # whether all of it is charged as Gaussian noise


@dataclass(frozen=True, kw_only=True)
class SearchPlan(Plan):
    """The budget of a search in parts."""

    n_samples: int | None  # None where it is private
    params: list[dict[str, Any]]  # of all candidates
    runs: list[Run]  # the candidates that are fitted
    training: Facts  # of each candidate; its bounds are those of the estimator
    final: Facts | None  # of the refit
    learning: PrivacyLoss  # from the training rows
    asking: PrivacyLoss  # of the held-out rows, with the same epsilon
    utility: Utility
    schema: Schema | None  # of rows that are encoded to be compared
    choice: PrivacyLoss
    noise: Mechanism  # on the scores
    count: Mechanism | None  # of the number of held-out rows, where it is private


@dataclass(frozen=True, eq=False, repr=False)
class _Table(Rows):
    """The rows of a search, and the caller's table that they come from."""

    given: Any = None


def _describe_candidate(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={short_repr(value)}" for name, value in params.items()) or "the estimator as it is"


def _n_held_out(n_samples: int, holdout: float) -> int:
    """Return the number of held-out rows among a public number of rows: at least one, and not all."""
    return min(max(1, round(holdout * n_samples)), n_samples - 1)


def held_out_mask(rows: Rows, n_samples: int | None, holdout: float, budget: Budget) -> np.ndarray:
    """Return which rows of a table in memory are held out; `n_samples` is None where it is private.

    For neighboring tables, one part is the same and the other is the same or a neighbor:

    - "replace_one": positions are drawn at random, without a look at the rows; the row that is replaced stands at one position, in one
      part.
    - "add_or_remove_one": one more row would shift all later positions. A keyed hash of its own cells sends each row to a part, whatever
      other rows there are, so one more row is one more row in one part. Equal rows stay together, as do equal numbers of other dtypes.
    """
    rng = budget.rng.child("split")
    if n_samples is not None:
        chosen = np.zeros(n_samples, dtype=bool)
        chosen[rng.generator().permutation(n_samples)[: _n_held_out(n_samples, holdout)]] = True
        return chosen
    table, key = rows.collect(), rng.bytes(16)
    columns = table if isinstance(table, list) else list(np.asarray(table).T)
    numbers = np.column_stack([np.asarray(column, dtype=float) for column in columns]) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
    hashed = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in numbers]
    return np.frombuffer(b"".join(hashed), dtype=np.uint64) < int(holdout * 2**64)


def _grid(param_grid: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]]) -> Any:
    grids = [param_grid] if isinstance(param_grid, dict) else param_grid if isinstance(param_grid, list | tuple) else [None]
    if not all(isinstance(grid, dict) and all(isinstance(name, str) for name in grid) for grid in grids):
        raise TypeError(f"param_grid must be a dict of a parameter's name to its values, or a list of such, got {short_repr(param_grid)}.")
    from sklearn.model_selection import ParameterGrid  # a room of scikit-learn that takes time to import

    return ParameterGrid(param_grid)


def _has(name: str) -> Callable[[Any], bool]:
    """Return a test whether the chosen estimator, or before a fit the unfitted one, has a method."""
    return lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name)


@savable
class PrivateSearchCV(PrivateEstimator):
    """Choose hyper-parameters under differential privacy: all fits, the comparison and the final fit cost epsilon together.

    Used like scikit-learn's ``GridSearchCV``. Every candidate is fitted on a part of the rows, with a share of the budget; rows that were
    held out tell privately which fits best, and the chosen one is fitted again on all rows with most of the budget.

    Parameters
    ----------
    estimator : estimator
        An unfitted private estimator, such as `LowDimSynthesizer`. Its bounds, schema and relation are those of the search. Its own
        ``epsilon`` and ``delta`` are ignored, and its ``accountant`` and ``random_state`` must be None.
    param_grid : dict or list of dict
        ``{parameter: [values]}``: all combinations are candidates. Public: never take values from the data.
    epsilon : float, default=1.0
        The whole budget of one `fit`, of everything. ``float("inf")``: no noise, not private.
    delta : float, default=0.0
        Where every candidate, and its refit, has Gaussian noise alone, all parts of the search share the rho that converts to (epsilon,
        delta), which leaves each of them less noise. Otherwise it is split as epsilon is, for candidates that spend one.
    scoring : {"auto", "sliced_wasserstein", "marginals", "captured_variance"}, default="auto"
        Criterion for held-out rows. "sliced_wasserstein": W1 along 64 directions; "marginals": total variation of pairs of columns;
        "captured_variance": what ``components_`` keep, for estimators that do not sample, and only where all candidates have as many. Of
        mixed tables the columns are those of `MixedTypeEncoder`. "auto" is the first, or, for what does not sample, the last.
    refit : bool, default=True
        Whether to fit the chosen candidate again on all rows. If not, the whole epsilon is for the search, and `best_estimator_` is the
        candidate as it was fitted on its share and on the training rows.
    search_share : float, default=0.2
        Share of epsilon for the search, if there is a refit after it.
    holdout : float, default=0.2
        Share of the rows that are held out.
    error_score : "raise" or float, default="raise"
        Treatment of candidates whose parameters the estimator refuses by public facts: raise, or, with a number such as nan, warn, leave
        them out before anything is charged, and show the number as their score.
    accountant : PrivacyAccountant, default=None
        A shared budget, charged the whole ``epsilon`` before the first draw. None: one of its own for each `fit`.
    random_state : int, RandomState or None, default=None
        None: secure noise. A seed makes the noise reproducible and the result *not private*.
    n_jobs : int, default=None
        Threads in which candidates are fitted. The result does not depend on it.

    Attributes
    ----------
    best_estimator_ : estimator
        Fitted on all rows (with ``refit=False``: on the training rows). `sample`, `transform`, `score` and others are its own.
    best_params_ : dict
    best_index_ : int
        Index of the chosen candidate in `cv_results_`.
    best_score_ : float
        Its noisy score.
    cv_results_ : dict
        As scikit-learn's: "params", "param_...", "mean_test_score" (noisy), "std_test_score" (the deviation of the **noise** on it) and
        "rank_test_score" (1 for what was chosen, then by noisy scores).
    accountant_ : PrivacyAccountant
        Record of the expenses: a line for each candidate, the choice, the scores and the refit.
    n_samples_ : int
        Number of rows; a noisy count under "add_or_remove_one".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, before any budget is spent.
    BudgetExceededError
        If a shared accountant has less than ``epsilon`` left; nothing is drawn then.

    See Also
    --------
    skdpsynth.model_selection.plan : Choose by public facts, at no cost.
    sklearn.model_selection.GridSearchCV : The same without privacy.

    Notes
    -----
    *Privacy.* `fit` is epsilon-differentially private ((epsilon, delta) if delta > 0) under the relation of the estimator. Rows are in
    two disjoint parts: training rows T and held-out rows H. Let the share of the search be s.

    1. Each of K candidates is fitted on T with s epsilon / K. They hold the same rows, so they cost s epsilon together.
    2. Given these fits, H answers: a choice, by permute-and-flip on exact whole numbers of bounded sensitivity
       (`PrivacyAccountant.release_choice`), with half of s epsilon; noisy scores, for people, with the other half. (Under
       "add_or_remove_one" also the number of rows of H, with 1/20 before.) They cost s epsilon together.
    3. The chosen candidate is fitted on all rows with (1 - s) epsilon.

    Neighboring tables differ in one row. Either T differs, and H is the same: then the fits of step 1 lose s epsilon, and step 2 is the
    same function of them and of H, a post-processing. Or H differs and T is the same: then step 1 loses nothing and step 2 loses
    s epsilon, given any fits. So steps 1 and 2 lose **the larger**, s epsilon, not the sum, and by adaptive composition with step 3
    the whole is ``s epsilon + (1 - s) epsilon = epsilon``, exactly; deltas are split and summed likewise, or the rho of Gaussian noise,
    where the choice is by the exponential mechanism. That one part alone differs
    holds under "replace_one" because rows are split by position, drawn without a look at them, and under "add_or_remove_one" because a
    row goes where a keyed hash of its own cells sends it.

    *Why shares, and no random stopping.* A candidate that is drawn at random, fitted and scored at e, again and again, a random number of
    times, of which the best is released, costs (2 + eta) e for a truncated negative binomial number of shape eta > -1 [1]_, 3 e for a
    geometric one [2]_: whatever the number of candidates. That holds while nobody knows how many were tried, and the time of a fit tells;
    and no score but the best may be shown. In what a candidate is fitted with, s epsilon / 3 instead of s epsilon / K, it begins to win
    at four candidates, and it fits each of them many times to be likely to meet the best one. So keep grids small.

    *Comparison.* Candidates are fitted with less than the refit gets, K times less of the search's share. If the best choice
    depends on the budget, the search prefers the simpler one.

    References
    ----------
    .. [1] Papernot, Steinke (2022), "Hyperparameter tuning with Renyi differential privacy".
    .. [2] Liu, Talwar (2019), "Private selection from private candidates".

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import LowDimSynthesizer
    >>> from skdpsynth.model_selection import PrivateSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 + 0.4 * rng.uniform(-1, 1, (50_000, 1)) * np.linspace(-1, 1, 8)
    >>> search = PrivateSearchCV(LowDimSynthesizer(bounds=(0, 1)), {"n_components": [1, 8]}, epsilon=2.0).fit(X)
    >>> search.best_params_, search.sample(3).shape, search.accountant_.spent
    ({'n_components': 1}, (3, 8), Fraction(2, 1))
    """

    _counts_rows = False  # the refit counts them
    best_estimator_: PrivateEstimator
    best_index_: int
    _params: list[dict[str, Any]]

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Mapping[str, Sequence] | Sequence[Mapping[str, Sequence]],
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        scoring: str = "auto",
        refit: bool = True,
        search_share: float = 0.2,
        holdout: Table = 0.2,
        error_score: float | Literal["raise"] = "raise",
        accountant: AccountantLike = None,
        random_state: Seed = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.refit = refit
        self.search_share = search_share
        self.holdout = holdout
        self.error_score = error_score
        self.accountant = accountant
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def neighboring(self) -> Any:
        """The relation of the estimator."""
        return getattr(self.estimator, "neighboring", "replace_one")

    @property
    def _lacks_bounds(self) -> bool:
        return bool(self.estimator._lacks_bounds)

    @property
    def _least_rows(self) -> int:
        return 2 if self.neighboring == "replace_one" else 0  # one in each part

    def _check_privacy_parameters(self) -> PrivacyAccountant | None:
        wanted, kind = "estimator must be an unfitted private estimator that holds no rows", type(self.estimator)
        is_private = isinstance(self.estimator, PrivateEstimator) and not isinstance(self.estimator, PrivateSearchCV)
        if not is_private or hasattr(self.estimator, "partial_fit"):
            raise ValueError(f"{wanted}, such as LowDimSynthesizer(), got {short_repr(self.estimator)}; give an instance of one.")
        for name in ("accountant", "random_state"):
            if getattr(self.estimator, name) is not None:
                raise ValueError(f"estimator must have {name}=None, got a {kind.__name__} with one; give it to PrivateSearchCV.")
        fixed = [name for params in _grid(self.param_grid).param_grid for name in params if name in _FIXED]
        if fixed:
            raise ValueError(f"param_grid must leave out {', '.join(_FIXED)}, got {fixed[0]}; set it in estimator, or in PrivateSearchCV.")
        table = {
            "scoring": ("auto", *SCORINGS, ""),
            "refit": (True, False, "the criterion is set by scoring"),
            "search_share": (Between(0, 1), "keep the default"),
            "holdout": (Between(0, 1), "keep the default"),
        }
        check_parameters(self, table)
        needed = "inverse_transform" if self.scoring == "captured_variance" else "sample"
        if self.scoring != "auto" and not hasattr(self.estimator, needed):
            raise ValueError(f"scoring must fit the estimator, but {kind.__name__} has no {needed}; use 'auto'.")
        is_number = is_real(self.error_score) and not sys.float_info.max < abs(self.error_score) < math.inf
        if not is_number and not (isinstance(self.error_score, str) and self.error_score == "raise"):
            raise ValueError(f"error_score must be 'raise' or a number, got {short_repr(self.error_score)}; 'raise' is the default.")
        return super()._check_privacy_parameters()

    def _open_rows(self, X: Table, unit: Unit, rng: RandomBits, outer: OuterFit | None) -> tuple[Rows, Facts]:
        if unit is not None or getattr(self.estimator, "max_rows_per_unit", 1) != 1:
            raise ValueError(
                "unit must be None and max_rows_per_unit 1 for PrivateSearchCV, which protects rows and splits them one by one; keep one "
                "row of each person, or choose on public data."
            )
        return super()._open_rows(X, unit, rng, outer)

    def _open_table(self, X: Table) -> tuple[Rows, dict[str, Any]]:
        part = clone(self.estimator)
        rows, more = part._open_table(X)
        if not rows.source.in_memory or issparse(rows.table):
            kind = "sparse rows" if issparse(rows.table) else f"a {type(X).__name__}"
            raise ValueError(f"X must be a dense table in memory for PrivateSearchCV, which splits it, got {kind}; read it, or a part.")
        if more.get("missing"):
            raise ValueError(
                "bounds and levels must be public for PrivateSearchCV, got 'private', because all candidates are compared in one box; "
                "buy them by a fit of their own first."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(part, name):
                setattr(self, name, getattr(part, name))
        return _Table(**{each.name: getattr(rows, each.name) for each in fields(rows)}, given=X), more

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if "accountant_" in vars(self):
            require(0 <= self.best_index_ < len(self._params) == len(self._scores))

    def _plan(self, facts: Facts) -> SearchPlan:
        """Share rho where all candidates have Gaussian noise alone, and otherwise epsilon and delta."""
        if facts.delta and facts.epsilon != math.inf:
            with suppress(ValueError):  # no epsilon tells the rho that delta alone pays for; a candidate that is refused is refused below
                plan = self._plan_shares(other := facts.part(), as_gaussian=True)
                if all(run.is_gaussian for run in plan.runs):
                    facts.warnings.extend(other.warnings)
                    return plan
        return self._plan_shares(facts, as_gaussian=False)

    def _plan_shares(self, facts: Facts, as_gaussian: bool) -> SearchPlan:
        scoring = self.scoring
        if scoring == "auto":
            scoring = "sliced_wasserstein" if hasattr(self.estimator, "sample") else "captured_variance"
        weights = [self.search_share, 1 - self.search_share] if self.refit else [1]
        search, final, *_ = *facts.divide(weights, as_gaussian), None
        n_training = None if facts.n_samples is None else facts.n_samples - _n_held_out(facts.n_samples, self.holdout)
        search = search.part(n_samples=n_training)
        params, box, relation = list(_grid(self.param_grid)), facts.box, facts.neighboring
        runs, training = self._accepted_runs(params, facts, search, final, as_gaussian)
        asking = PrivacyLoss(search.epsilon, search.delta if as_gaussian else 0)
        to_share = losses_of_kind("gaussian", asking)[0] if as_gaussian else asking
        if facts.schema is not None:
            width = encode([np.zeros(0, dtype=np.int64)] * len(facts.schema.coded), facts.schema).shape[1]
            box = Box(np.zeros(width), np.ones(width))
        assert box is not None  # numbers have one
        utility = SCORINGS[scoring](box)
        first, rest = to_share.split([_COUNT, 1 - _COUNT]) if facts.n_samples is None else (None, to_share)
        choice, scores = rest.split([_CHOICE, _SCORES])
        return SearchPlan(
            any(run.loss.delta or run.final_spends_delta for run in runs),
            n_samples=facts.n_samples,
            params=params,
            runs=runs,
            # An estimator that reads its table itself has its bounds as the caller wrote them.
            training=training.part(box=None, schema=None),
            final=None if final is None else final.part(box=None, schema=None),
            rho="gaussian" if as_gaussian else None,
            learning=PrivacyLoss(search.epsilon, search.delta if as_gaussian else sum(run.loss.delta for run in runs)),
            asking=asking,
            utility=utility,
            schema=facts.schema,
            choice=choice,
            noise=mechanism(utility.sensitivity_of(len(runs), relation), scores, n_values=len(runs)),
            count=None if first is None else mechanism(RowCount(0).query(relation).sensitivity, first),
        )

    def _accepted_runs(
        self, params: list[dict[str, Any]], facts: Facts, search: Facts, final: Facts | None, as_gaussian: bool
    ) -> tuple[list[Run], Facts]:
        """Return the accepted candidates and the facts of each fit; refused ones get no share.

        Candidates are asked again once shares have grown, because others were refused.
        """
        places = list(range(len(params)))
        while places:
            training = search.divide([1] * len(places), as_gaussian)[0]
            runs, doubts, known = [], [], [training] if final is None else [training, final]
            for place in places:
                parts = [self._part(params[place]) for _ in known]  # a name that is no parameter ends the search
                made_up = 1 if parts[0]._counts_rows else None  # as the fit will plan
                asked = [each.part(n_samples=each.n_samples or made_up) for each in known]
                try:
                    plans = [check_part(*each) for each in zip(parts, asked, strict=True)]
                except ValueError as error:
                    if self.error_score == "raise":
                        raise
                    refused = f"{_describe_candidate(params[place])} is refused, so the search goes on without it: {error}"
                    facts.warn(refused, FitFailedWarning)
                    continue
                loss = PrivacyLoss(training.epsilon, training.delta if plans[0].spends_delta else 0)
                # Where the number of rows is private, a warning would mention a made-up one.
                warnings = asked[-1].warnings if final and facts.n_samples is not None else ()
                is_gaussian = as_gaussian and all(map(PrivateEstimator._is_charged_as_gaussian, parts, known))
                runs.append(Run(place, loss, warnings, final is not None and plans[-1].spends_delta, is_gaussian))
                doubts.append(any(category is SmallSampleWarning for _, category in asked[0].warnings))
            if len(runs) == len(places):
                if all(doubts) and facts.n_samples is not None:
                    facts.warn(
                        f"Each of {len(runs)} candidates is fitted with epsilon={float(training.epsilon):.3g} on {training.n_samples} "
                        "rows, which are so few that their comparison may be noise; use a smaller param_grid or a larger epsilon."
                    )
                return runs, training
            places = [run.place for run in runs]
        raise ValueError("param_grid must hold a candidate that the estimator takes, but all are refused; error_score='raise' says why.")

    def _part(self, params: dict) -> Any:
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def _release(self, rows: _Table, plan: SearchPlan, budget: Budget) -> None:
        is_out = held_out_mask(rows, plan.n_samples, self.holdout, budget)
        # Tables that differ in one row differ in one of the two parts: see the class.
        learning = budget.part(plan.learning, "training rows", "disjoint rows", plan.rho)
        asking = budget.part(plan.asking, "held-out rows", "disjoint rows", plan.rho)
        fitted = self._fit_candidates(take_table_rows(rows.given, np.flatnonzero(~is_out)), plan, learning)
        held_out = take_rows(rows.collect(), is_out)
        best = self._choose(np.asarray(held_out) if plan.schema is None else encode(held_out, plan.schema), fitted, plan, asking)
        for each in (learning, asking):
            each.accountant.close()
        self.best_index_, self._params = plan.runs[best].place, plan.params
        if plan.final is None:
            self.best_estimator_ = fitted[best]
        else:
            budget.warnings.extend(plan.runs[best].warnings)
            self.best_estimator_ = fit_part(self._part(self.best_params_), rows.given, budget, plan.final, name="refit")
        if plan.n_samples is None:
            self.n_samples_ = self.best_estimator_.n_samples_ + (self._n_held_out if plan.final is None else 0)

    def _fit_candidates(self, table: Table, plan: SearchPlan, budget: Budget) -> list[Any]:
        """Fit the candidates on the training rows, each with its share and its own noise, equally in any number of threads."""
        names = [f"candidate {run.place}: {_describe_candidate(plan.params[run.place])}" for run in plan.runs]
        hands = [budget.part(run.loss, name, rho=plan.rho) for run, name in zip(plan.runs, names, strict=True)]
        fitted: list[Any] = [None] * len(hands)

        def fit_one(place: int) -> None:
            part = self._part(plan.params[plan.runs[place].place])
            fitted[place] = fit_part(part, table, hands[place], plan.training)
            hands[place].accountant.close()
            progress.step()

        with task("candidates", total=len(hands), nests=True) as progress:
            run_all([partial(fit_one, place) for place in range(len(hands))], self.n_jobs)
        return fitted

    def _choose(self, points: np.ndarray, fitted: list[Any], plan: SearchPlan, budget: Budget) -> int:
        """Choose a candidate and release scores by the held-out rows; return the number of a run."""
        self._n_held_out = len(points)
        if plan.count is not None:
            count = budget.answer(RowCount(len(points)).query(budget.relation), plan.count, "number of held-out rows")
            self._n_held_out = max(1, int(count[0]))
        rngs = [budget.rng.child(f"points of {run.place}").generator() for run in plan.runs]
        exact = [plan.utility.of(points, model, rng) for model, rng in zip(fitted, rngs, strict=True)]
        query = Query(np.array(exact, dtype=np.int64), plan.utility.sensitivity_of(len(exact), budget.relation))
        best = budget.choose(query, plan.choice, "choice of a candidate")
        noisy = budget.answer(query, plan.noise, "scores").astype(float)
        self._scores = np.full(len(plan.params), np.nan if self.error_score == "raise" else float(self.error_score))
        self._scores[[run.place for run in plan.runs]] = plan.utility.score(noisy, self._n_held_out)
        self._deviation = abs(float(plan.utility.score(plan.noise.deviation, self._n_held_out)))
        return best

    @property
    def best_params_(self) -> dict[str, Any]:
        """Parameters of the candidate that was chosen."""
        return dict(self._params[self.best_index_])

    @property
    def best_score_(self) -> float:
        """Its noisy score."""
        return float(self._scores[self.best_index_])

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Public results of all candidates, in the format of scikit-learn."""
        found: dict[str, Any] = {}
        for name in dict.fromkeys(name for params in self._params for name in params):
            column = np.ma.MaskedArray(np.empty(len(self._params), dtype=object), mask=True)
            for place, params in enumerate(self._params):
                if name in params:
                    column[place] = params[name]
            found[f"param_{name}"] = column
        by_score = np.argsort(-np.nan_to_num(self._scores, nan=-np.inf), kind="stable").tolist()
        order = [self.best_index_, *(place for place in by_score if place != self.best_index_)]
        ranks = np.empty(len(order), dtype=np.int32)
        ranks[order] = np.arange(1, len(order) + 1)
        deviations = np.full(len(order), self._deviation)
        scores = {"mean_test_score": self._scores.copy(), "std_test_score": deviations, "rank_test_score": ranks}
        return {**found, "params": [dict(params) for params in self._params], **scores}

    @available_if(_has("sample"))
    def sample(
        self,
        n_samples: int | None = None,
        random_state: Seed = None,
        *,
        out: str | PathLike[str] | None = None,
        conditions: Mapping[Hashable, Cell] | None = None,
    ) -> Any:
        """Draw synthetic rows of the chosen estimator; free of charge, and `random_state` may be seeded freely.

        Without `n_samples` there are as many as the data had, or their noisy number. They may go to a file `out`, ".parquet" or ".csv", and
        fulfill `conditions` if the chosen estimator supports it: see `LatentFactorSynthesizer.sample`.
        """
        check_is_fitted(self)
        best = self.best_estimator_
        more = {} if conditions is None else {"conditions": conditions}
        if more and "conditions" not in signature(best.sample).parameters:
            raise ValueError(
                f"conditions must be None for {type(best).__name__}, which draws none of its rows on conditions; search over "
                "LatentFactorSynthesizer, or draw more rows and keep those that you want, which costs no privacy."
            )
        return best.sample(self.n_samples_ if n_samples is None else n_samples, random_state, out=out, **more)

    @available_if(_has("transform"))
    def transform(self, X: Table) -> Any:
        """Return what the chosen estimator makes of rows `X`, each by itself: **not private** for the rows of the fit."""
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @available_if(_has("transform"))
    def fit_transform(self, X: Table, y: object = None) -> Any:
        """Fit, and return what the chosen estimator makes of the same rows `X`: **not private**; `y` is ignored."""
        return self.fit(X, y).transform(X)

    @available_if(_has("inverse_transform"))
    def inverse_transform(self, X: Table) -> Any:
        """Return rows that the chosen estimator makes of transformed ones, `X`."""
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(X)

    @available_if(_has("score"))
    def score(self, X: Table, y: object = None) -> float:
        """Return the score of the chosen estimator. Reads `X` unprotected: **not private**; `y` is ignored."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags.sparse = False
        return tags
