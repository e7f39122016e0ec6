"""Plans before spending: expected errors at several budgets, from public numbers alone."""

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from threading import get_ident
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpsynth._parallel import run_all
from skdpsynth._progress import task
from skdpsynth._sklearn import check_seed
from skdpsynth._validation import as_array, is_integer, is_real, short_repr
from skdpsynth.exceptions import BoundsWarning, BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.model_selection._plan_result import Point, SpendingPlan
from skdpsynth.model_selection._plan_setting import Setting, make_setting
from skdpsynth.privacy import check_delta, check_epsilon, epsilon_of_rho, rho_of_epsilon

_LARGEST_EPSILON = 1024.0  # in a simulation with fewer rows: sizes do not depend on larger ones
_SEEDS = 2**32
_MOST_BUDGETS = 1000  # one fit each, and one for each repeat: the first table is always finished


def plan(
    estimator: Any,
    n_samples: int,
    *,
    bounds: Any = None,
    schema: Any = None,
    n_features: int | None = None,
    epsilons: Sequence[float] = (0.1, 0.3, 1, 3, 10),
    deltas: Any = None,
    unit_rows: Any = None,
    prior: Any = None,
    too_wide: float = 1.0,
    n_repeats: int = 5,
    max_rows: int = 100_000,
    time_limit: float = 60.0,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> SpendingPlan:
    """Simulate the errors of an estimator on a table at several budgets, before any of them is spent.

    Copies of the estimator are fitted to simulated tables, which are public, and their errors are measured. No private row is read, and no
    accountant is charged: a plan costs nothing but time.

    Parameters
    ----------
    estimator : estimator object
        An estimator of this package, or with the same parameters: a synthesizer, or principal components. It is cloned, without its
        accountant.
    n_samples : int
        Number of rows of the private table; a guess if that is private.
    bounds : tuple or dict, default=None
        Public bounds, as estimators take them. None: those of the estimator. If it buys its bounds, or has defaults that do not fit,
        give a generous guess: simulated rows lie within it.
    schema : Schema, dict or path of a file, default=None
        Public facts about a mixed table. None: those of the estimator. If it buys some, give guesses.
    n_features : int, default=None
        Number of columns, where neither bounds nor `prior` tell.
    epsilons : sequence of float, default=(0.1, 0.3, 1, 3, 10)
        Values to try: with `deltas` and `unit_rows` at most 1000 combinations.
    deltas : float or sequence of float, default=None
        None: that of the estimator.
    unit_rows : int or sequence of int, default=None
        Number of rows that a person, or another unit of privacy, may have. The noise is as many times larger. None: `max_rows_per_unit`
        of the estimator, or 1.
    prior : None, "uniform" or table, default=None
        Source of the rows. None: made-up rows, uneven and dependent, within the bounds or levels. "uniform": even rows, which show the
        error of noise alone. A public array or data frame similar to the private one, such as that of another year: rows are drawn from it.
    too_wide : float, default=1.0
        Factor by which the bounds are wider than necessary: simulated numbers lie within the first part of them. 10 and 100 show the cost
        of a generous guess for this estimator and these budgets. It must be 1 with a table as `prior`.
    n_repeats : int, default=5
        Tables that are simulated.
    max_rows : int, default=100000
        The most rows that are simulated. If `n_samples` is more, epsilon is larger in the simulation, so that noise has the same share in
        the fewer rows; the errors are the same up to rounding and the effect of few rows on the best ones.
    time_limit : float, default=60.0
        Seconds after which no further table is begun. The first is always finished.
    n_jobs : int, default=None
        Threads that fit. None: 1, or what ``joblib.parallel_config`` says.
    random_state : int, RandomState or None, default=None
        Makes the plan repeatable; simulated rows need no protection.

    Returns
    -------
    plan : SpendingPlan
        Print it, or call `to_frame`, `smallest_epsilon` and `plot`.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, or neither parameter nor estimator tells where rows lie; or what `fit` refuses.
    TypeError
        If `estimator` has no epsilon, or can neither sample nor has components.

    See Also
    --------
    SpendingPlan : The result.
    PrivateSearchCV : Choose settings by the data, at a cost.

    Notes
    -----
    *What is measured.* Synthetic rows of numbers: the 1-Wasserstein distance (of one feature the exact one; of more the sliced one of all
    rows, and the exact one of 1000), and the mean error of single columns in shares of their range. Mixed tables: the total variation of
    pairs of columns and of single ones, the error of correlations, and that of means in standard deviations. Principal components: the
    share of the variance that is lost, and the error of the covariance. Streams: as synthesizers, at their end. Errors are against the
    simulated rows, beside those at ``epsilon=inf`` and those of a uniform guess.

    *Accuracy.* The guide "Choosing epsilon, delta, relation and unit" shows measurements: errors depend on the rows. Plans are best with a
    public table that is similar to the private one. **Never give the private table itself as** `prior`: the plan then tells of its rows,
    unprotected.

    *Rows of a unit.* `n_samples` counts the rows that are learned, of each unit its first ones. Pure noise for k rows is that at
    epsilon / k; Gaussian noise is that at a mu of Gaussian differential privacy k times smaller, at the same delta.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.model_selection import plan
    >>> expected = plan(PrivateMeasureMechanism(bounds=(0, 120)), n_samples=5000, n_features=1, epsilons=[0.1, 1, 10], random_state=0)
    >>> frame = expected.to_frame()
    >>> errors = frame.loc[frame["measure"] == "wasserstein", "error"]
    >>> bool(errors.is_monotonic_decreasing)
    True
    >>> 0.1 < expected.smallest_epsilon(0.5) < 10
    True
    """
    _check_numbers(n_samples, n_repeats, max_rows, time_limit)
    budgets = _budgets(estimator, epsilons, deltas, unit_rows)
    setting = make_setting(estimator, bounds, schema, n_features, prior, too_wide)
    n_simulated = min(int(n_samples), int(max_rows))
    simulation = _Simulation(setting, budgets, int(n_samples) / n_simulated, n_simulated, random_state)
    with _silence_warnings(simulation), task("simulated fits", total=int(n_repeats) * (1 + len(budgets))) as progress:
        jobs = simulation.jobs(int(n_repeats), float(min(time_limit, sys.float_info.max)))
        run_all((partial(_with_step, job, progress) for job in jobs), n_jobs)
    return simulation.result(type(estimator).__name__, int(n_samples))


def _with_step(job: Callable[[], Any], progress: Any) -> None:
    job()
    progress.step()


@dataclass(frozen=True)
class _BudgetAt:
    epsilon: float
    delta: float
    unit_rows: int


class _Simulation:
    """Fits of simulated tables, and their errors."""

    def __init__(self, setting: Setting, budgets: list[_BudgetAt], fewer: float, n_rows: int, random_state: Any) -> None:
        self.setting, self.budgets, self.fewer, self.n_rows = setting, budgets, fewer, n_rows
        self.is_seeded = random_state is not None
        self.seed: Any = np.random.SeedSequence().entropy
        if self.is_seeded:
            self.seed = int(check_seed(random_state).randint(_SEEDS, dtype=np.int64))
        self.errors: dict[Any, dict[int, tuple]] = {}  # by budget, and by repeat: threads finish in any order
        self.small: set[Any] = set()
        self.fitting: dict[int, Any] = {}  # the budget that each thread is at

    def jobs(self, n_repeats: int, time_limit: float) -> Iterator[Callable[[], Any]]:
        """Yield the fits table by table, so that a time limit omits repeats and no budget."""
        start = time.monotonic()
        for repeat in range(n_repeats):
            if repeat and time.monotonic() - start > time_limit:
                return
            rngs = [np.random.default_rng([self.seed, repeat, place]) for place in range(len(self.budgets) + 3)]
            X = self.setting.ground.rows(self.n_rows, rngs[0])
            uniform = self.setting.ground.uniform(self.n_rows, rngs[1])
            for budget, rng in zip([None, *self.budgets], rngs[2:], strict=True):
                yield partial(self.measure, budget, repeat, X, uniform, rng)

    def measure(self, budget: Any, repeat: int, X: Any, uniform: Any, rng: np.random.Generator) -> None:
        """Note the errors of a fit at one budget, or, at None, of a fit without noise and of a guess without data."""
        self.fitting[get_ident()] = budget
        settings: dict[str, Any] = {"epsilon": math.inf} if budget is None else self._settings(budget)
        if "random_state" in self.setting.estimator.get_params(deep=False):
            settings["random_state"] = int(rng.integers(2**31)) if self.is_seeded else None
        model = clone(self.setting.estimator).set_params(**settings).fit(X)
        self._note(budget, repeat, self.setting.errors.of_model(model, X, rng))
        if budget is None:
            self._note("no data", repeat, self.setting.errors.baseline_errors(X, uniform, model, rng))

    def _settings(self, budget: _BudgetAt) -> dict[str, Any]:
        has_delta = "delta" in self.setting.estimator.get_params(deep=False)
        epsilon = _epsilon_for_noise(budget.epsilon, budget.delta, self.fewer / budget.unit_rows)
        return {"epsilon": epsilon, **({"delta": budget.delta} if has_delta else {})}

    def _note(self, what: Any, repeat: int, errors: tuple) -> None:
        self.errors.setdefault(what, {})[repeat] = errors

    def result(self, name: str, n_samples: int) -> SpendingPlan:
        found = {what: np.array([by_repeat[repeat] for repeat in sorted(by_repeat)]) for what, by_repeat in self.errors.items()}
        points = [Point(each.epsilon, each.delta, each.unit_rows, found[each], each in self.small) for each in self.budgets]
        setting = self.setting
        relation = setting.estimator.get_params(deep=False).get("neighboring", "replace_one")
        references = found[None].mean(axis=0), found["no data"].mean(axis=0)
        return SpendingPlan(name, n_samples, self.n_rows, setting.words, relation, setting.errors.measures, tuple(points), *references)


@contextmanager
def _silence_warnings(simulation: _Simulation) -> Iterator[None]:
    """Hide warnings that protect rows, because these are public, and note the budgets at which a fit warns of few rows."""
    with warnings.catch_warnings():
        for category in (InsecureRandomnessWarning, BudgetWarning, BoundsWarning):
            warnings.simplefilter("ignore", category)
        warnings.simplefilter("always", SmallSampleWarning)
        shown_before = warnings.showwarning

        def show(message: Any, category: Any, *others: Any, **named: Any) -> None:
            if issubclass(category, SmallSampleWarning) and get_ident() in simulation.fitting:
                simulation.small.add(simulation.fitting[get_ident()])
            else:
                shown_before(message, category, *others, **named)

        warnings.showwarning = show
        yield


def _epsilon_for_noise(epsilon: float, delta: float, times: float) -> float:
    """Return the epsilon at which noise is `times` times smaller: pure noise falls with epsilon, Gaussian noise with the root of rho."""
    if times == 1:
        return epsilon
    if not delta:
        return min(epsilon * times, max(epsilon, _LARGEST_EPSILON))
    rho = float(rho_of_epsilon(epsilon, delta, gaussian=True)) * times**2
    return min(float(epsilon_of_rho(rho, delta, gaussian=True)), max(epsilon, _LARGEST_EPSILON))


def _budgets(estimator: Any, epsilons: Any, deltas: Any, unit_rows: Any) -> list[_BudgetAt]:
    """Return all combinations, those of one curve together."""
    own = getattr(estimator, "delta", 0.0) if deltas is None else deltas
    checked_deltas = [float(check_delta(delta)) for delta in _as_list("deltas", own)]
    checked_epsilons = sorted({float(check_epsilon(epsilon)) for epsilon in _as_list("epsilons", epsilons)})
    own_rows = getattr(estimator, "max_rows_per_unit", 1)
    units = _as_list("unit_rows", own_rows if unit_rows is None else unit_rows)
    if not checked_epsilons or math.inf in checked_epsilons:
        raise ValueError("epsilons must be finite numbers, at least one; what no privacy gives is always told beside them.")
    if not len(units) or not all(is_integer(rows, 1, 2**62) for rows in units):
        raise ValueError(f"unit_rows must be a positive integer or several, got {short_repr(unit_rows)}; 1 protects a row.")
    if not checked_deltas:
        raise ValueError("deltas must be at least one number from 0 to less than 1, got none; None takes that of the estimator.")
    parts = (dict.fromkeys(checked_deltas), dict.fromkeys(map(int, units)), checked_epsilons)
    if (n_budgets := math.prod(len(part) for part in parts)) > _MOST_BUDGETS:
        raise ValueError(
            f"epsilons, deltas and unit_rows must make at most {_MOST_BUDGETS} budgets, got {n_budgets}; each is one fit or more, "
            "and some ten of them draw a curve."
        )
    return [_BudgetAt(epsilon, delta, rows) for delta, rows, epsilon in product(*parts)]


def _as_list(name: str, values: Any) -> list[Any]:
    """Return a number or several as a list; refuse everything else without printing it."""
    array = as_array(values, object)
    if array.ndim > 1 or not all(map(is_real, array.flat)):
        raise ValueError(f"{name} must be a number or a list of numbers, got {short_repr(values)}; see plan.")
    return list(array.flat)


def _check_numbers(n_samples: Any, n_repeats: Any, max_rows: Any, time_limit: Any) -> None:
    for name, value, words in (
        ("n_samples", n_samples, "it is the number of rows of the table that you plan for"),
        ("n_repeats", n_repeats, "5 tables show roughly how much errors vary"),
        ("max_rows", max_rows, "it is the number of rows that are simulated at most"),
    ):
        if not is_integer(value, 1, 2**62):
            raise ValueError(f"{name} must be a positive integer (at most 2**62), got {short_repr(value)}; {words}.")
    if not is_real(time_limit) or not time_limit >= 0:
        raise ValueError(f"time_limit must be a number of seconds, at least 0, got {short_repr(time_limit)}; 0 simulates one table.")
