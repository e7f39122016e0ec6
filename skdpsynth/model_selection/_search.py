"""Private search of hyper-parameters."""

import math
import sys
from dataclasses import dataclass, fields
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdpsynth._parallel import run_all
from skdpsynth._progress import task
from skdpsynth._validation import check_choice, is_inside, is_real, short_repr
from skdpsynth.fitting import Budget, Facts, PrivateEstimator, fit_part, read_with_part
from skdpsynth.frames import Rows, take_rows
from skdpsynth.model_selection._search_plan import (
    SCORINGS,
    SearchPlan,
    describe_candidate,
    held_out_mask,
    plan_search,
    points_of,
    select_rows,
)
from skdpsynth.persistence import savable
from skdpsynth.privacy import Mechanism, PrivacyAccountant, RandomBits
from skdpsynth.statistics import RowCount

_FIXED = ("epsilon", "delta", "bounds", "schema", "neighboring", "accountant", "random_state")


@dataclass(frozen=True, eq=False, repr=False)
class _Table(Rows):
    """The rows of a search, and the caller's table that they come from."""

    given: Any = None


def _count(points: np.ndarray, noise: Mechanism, budget: Budget) -> int:
    query = RowCount(len(points)).query(budget.relation)
    return max(1, int(budget.answer(query, noise, "number of held-out rows")[0]))


def _grid(param_grid: Any) -> Any:
    grids = [param_grid] if isinstance(param_grid, dict) else param_grid if isinstance(param_grid, list | tuple) else [None]
    if not all(isinstance(grid, dict) and all(isinstance(name, str) for name in grid) for grid in grids):
        raise TypeError(
            f"param_grid must be a dict of the name of a parameter to its values, or a list of such, got {short_repr(param_grid)}."
        )
    from sklearn.model_selection import ParameterGrid  # a room of scikit-learn that takes time to import

    return ParameterGrid(param_grid)


def _has(name: str) -> Any:
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
        Split as epsilon is, for candidates that spend one.
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
    the whole is ``s epsilon + (1 - s) epsilon = epsilon``, exactly; deltas are split and summed likewise. That one part alone differs
    holds under "replace_one" because rows are split by position, drawn without a look at them, and under "add_or_remove_one" because a
    row goes where a keyed hash of its own cells sends it.

    *Why shares, and no random stopping.* A candidate that is drawn at random, fitted and scored at e, again and again, a random number of
    times, of which the best is released, costs (2 + eta) e for a truncated negative binomial number of shape eta > -1 [1]_, 3 e for a
    geometric one [2]_: whatever the number of candidates. That holds while nobody knows how many were tried, and the time of a fit tells;
    and no score but the best may be shown. In what a candidate is fitted with, s epsilon / 3 instead of s epsilon / K, it begins to win
    at four candidates, and it fits each of them many times to be likely to meet the best one. So keep grids small.

    *What is compared.* Candidates are fitted with less than the refit gets, K times less of the search's share. If the best choice
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
    >>> X = 0.5 + 0.4 * rng.uniform(-1, 1, (50_000, 1)) @ np.array([[1.0, -1.0, 0.5, 0.2]])
    >>> search = PrivateSearchCV(LowDimSynthesizer(bounds=(0, 1)), {"n_components": [1, 4]}, epsilon=2.0).fit(X)
    >>> search.best_params_, search.sample(3).shape, search.accountant_.spent
    ({'n_components': 1}, (3, 4), Fraction(2, 1))
    """

    _counts_rows = False  # the refit counts them

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        scoring: Any = "auto",
        refit: Any = True,
        search_share: Any = 0.2,
        holdout: Any = 0.2,
        error_score: Any = "raise",
        accountant: Any = None,
        random_state: Any = None,
        n_jobs: Any = None,
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
        self._check_estimator()
        self._check_parameters()
        return super()._check_privacy_parameters()

    def _open_rows(self, X: Any, unit: Any, rng: RandomBits) -> tuple[Rows, Facts]:
        if unit is not None or getattr(self.estimator, "max_rows_per_unit", 1) != 1:
            raise ValueError(
                "unit must be None and max_rows_per_unit 1 for PrivateSearchCV, which protects rows and splits them one by one; keep one "
                "row of each person, or choose on public data."
            )
        return super()._open_rows(X, unit, rng)

    def _read(self, X: Any) -> tuple[Rows, dict[str, Any]]:
        part = clone(self.estimator)
        rows, more = read_with_part(part, X)
        if not rows.source.in_memory or issparse(rows.table):
            kind = "sparse rows" if issparse(rows.table) else f"a {type(X).__name__}"
            raise ValueError(
                f"X must be a dense table in memory for PrivateSearchCV, which splits it in two, got {kind}; read it, or a part."
            )
        if more.get("unknown") is not None or more.get("unlisted"):
            raise ValueError(
                "bounds and levels must be public for PrivateSearchCV, got 'private', because all candidates are compared in one box; "
                "buy them by a fit of their own first."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(part, name):
                setattr(self, name, getattr(part, name))
        return _Table(**{each.name: getattr(rows, each.name) for each in fields(rows)}, given=X), more

    def _plan(self, facts: Facts) -> SearchPlan:
        scoring = self.scoring
        if scoring == "auto":
            scoring = "sliced_wasserstein" if hasattr(self.estimator, "sample") else "captured_variance"
        share = self.search_share if self.refit else None
        return plan_search(self._part, list(_grid(self.param_grid)), facts, scoring, share, self.holdout, self.error_score == "raise")

    def _part(self, params: dict) -> Any:
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def _release(self, rows: _Table, plan: SearchPlan, budget: Budget) -> None:
        is_out = held_out_mask(rows, plan.n_samples, self.holdout, budget)
        # Tables that differ in one row differ in one of the two parts: see the class.
        learning = budget.part(plan.learning, "training rows", "disjoint rows")
        asking = budget.part(plan.asking, "held-out rows", "disjoint rows")
        fitted = self._fitted(select_rows(rows.given, ~is_out), plan, learning)
        best = self._choose(points_of(take_rows(rows.collected(), is_out), plan), fitted, plan, asking)
        for each in (learning, asking):
            each.accountant.close()
        self.best_index_, self._params = plan.runs[best].place, plan.params
        if plan.final is None:
            self.best_estimator_ = fitted[best]
        else:
            budget.told.extend(plan.runs[best].told)
            self.best_estimator_ = fit_part(self._part(self.best_params_), rows.given, budget, plan.final, name="refit")
        if plan.n_samples is None:
            self.n_samples_ = self.best_estimator_.n_samples_ + (self._n_held_out if plan.final is None else 0)

    def _fitted(self, table: Any, plan: SearchPlan, budget: Budget) -> list[Any]:
        """Fit the candidates on the training rows, each with its share and its own noise, equally in any number of threads."""
        hands = [budget.part(run.loss, f"candidate {run.place}: {describe_candidate(plan.params[run.place])}") for run in plan.runs]
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
        n_held_out = self._n_held_out = len(points) if plan.count is None else _count(points, plan.count, budget)
        rngs = [budget.rng.child(f"points of {run.place}").generator() for run in plan.runs]
        exact = [plan.utility.of(points, model, rng) for model, rng in zip(fitted, rngs, strict=True)]
        query = plan.utility.query(exact, budget.relation)
        best = budget.choose(query, plan.choice, "choice of a candidate")
        noisy = budget.answer(query, plan.noise, "scores").astype(float)
        self._scores = np.full(len(plan.params), np.nan if self.error_score == "raise" else float(self.error_score))
        self._scores[[run.place for run in plan.runs]] = plan.utility.score(noisy, n_held_out)
        self._deviation = abs(float(plan.utility.score(plan.noise.deviation, n_held_out)))
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
    def sample(self, n_samples: Any = None, random_state: Any = None, *, out: Any = None, conditions: Any = None) -> Any:
        """Draw synthetic rows of the chosen estimator; free of charge.

        Parameters
        ----------
        n_samples : int, default=None
            None: as many as the data had, or their noisy number.
        random_state : int, RandomState or None, default=None
            May be seeded freely.
        out : str or path-like, default=None
            A file to write them to, ".parquet" or ".csv".
        conditions : dict, default=None
            Required values of some cells of each row, if the chosen estimator supports it: see `LatentFactorSynthesizer.sample`.
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
    def transform(self, X: Any) -> Any:
        """Return what the chosen estimator makes of rows, each by itself: **not private** for the rows of the fit.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @available_if(_has("transform"))
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return what the chosen estimator makes of the same rows: **not private**.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Ignored.
        """
        return self.fit(X, y).transform(X)

    @available_if(_has("inverse_transform"))
    def inverse_transform(self, X: Any) -> Any:
        """Return rows that the chosen estimator makes of transformed ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(X)

    @available_if(_has("score"))
    def score(self, X: Any, y: Any = None) -> float:
        """Return the score of the chosen estimator. Reads `X` unprotected: **not private**.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Ignored.
        """
        check_is_fitted(self)
        return float(self.best_estimator_.score(X))

    def _check_estimator(self) -> None:
        wanted, kind = "estimator must be an unfitted private estimator that holds no rows", type(self.estimator).__name__
        if (
            not isinstance(self.estimator, PrivateEstimator)
            or hasattr(self.estimator, "partial_fit")
            or isinstance(self.estimator, PrivateSearchCV)
        ):
            raise ValueError(f"{wanted}, such as LowDimSynthesizer(), got {short_repr(self.estimator)}; give an instance of one.")
        for name in ("accountant", "random_state"):
            if getattr(self.estimator, name) is not None:
                raise ValueError(f"estimator must have {name}=None, got a {kind} with one; give it to PrivateSearchCV.")

    def _check_parameters(self) -> None:
        fixed = [name for params in _grid(self.param_grid).param_grid for name in params if name in _FIXED]
        if fixed:
            raise ValueError(
                f"param_grid must leave out {', '.join(_FIXED)}, got {fixed[0]}: it is the same for all candidates; set it in estimator, "
                "or in PrivateSearchCV."
            )
        check_choice("scoring", self.scoring, SCORINGS)
        needed = "inverse_transform" if self.scoring == "captured_variance" else "sample"
        if self.scoring != "auto" and not hasattr(self.estimator, needed):
            raise ValueError(f"scoring must fit the estimator, but {type(self.estimator).__name__} has no {needed}; use 'auto'.")
        if not isinstance(self.refit, bool | np.bool_):
            raise ValueError(f"refit must be True or False, got {short_repr(self.refit)}; the criterion is set by scoring.")
        for name in ("search_share", "holdout"):
            if not is_inside(getattr(self, name), 0, 1):
                raise ValueError(f"{name} must be a number in (0, 1), got {short_repr(getattr(self, name))}; keep the default.")
        is_number = is_real(self.error_score) and not sys.float_info.max < abs(self.error_score) < math.inf
        if not is_number and not (isinstance(self.error_score, str) and self.error_score == "raise"):
            raise ValueError(f"error_score must be 'raise' or a number, got {short_repr(self.error_score)}; 'raise' is the default.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.input_tags.sparse = False
        return tags
