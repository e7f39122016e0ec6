"""Plans before spending: expected errors at several budgets, simulated from public facts alone."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, clone
from sklearn.isotonic import isotonic_regression
from sklearn.utils import resample

from skdpsynth._parallel import run_all
from skdpsynth._progress import Task, task
from skdpsynth._sklearn import check_seed
from skdpsynth._text import Result, format_number
from skdpsynth._validation import as_array, check_choice, check_integer, check_real, collect_warnings, is_integer, is_real, short_repr, warn
from skdpsynth.domain import UNIT, BoundsLike, Box, Continuous, Schema, has_private, list_names, pair_of
from skdpsynth.exceptions import BoundsWarning, BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.frames import make_frame
from skdpsynth.metrics import (
    SchemaLike,
    Table,
    captured_variance_ratio,
    correlation_error,
    marginal_total_variation,
    sliced_wasserstein_distance,
    wasserstein_distance,
)
from skdpsynth.privacy import Seed, check_delta, check_epsilon, epsilon_of_rho, rho_of_epsilon
from skdpsynth.tables import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST_EPSILON = 1024.0  # in a simulation with fewer rows: sizes do not depend on larger ones
_SEEDS = 2**32
_MOST_BUDGETS = 1000  # one fit each, and one for each repeat: the first table is always finished
_LIKE_GUESSING = 0.75  # of the error without data
_LIKE_PUBLISHING = 1.25  # times the error without privacy
_DIRECTIONS = 30
_MOST_COMPARED = 1000  # rows on each side of an exact transport: a fifth of a second
_SHARES = np.array([0.25, 0.13, 0.06, 0.03, 0.03])  # of the variance of a column, by hidden factor; the rest is its own
_SHAPE = (2.0, 4.0)  # of the numbers within their bounds: a hump at a third, a tail to the right
_MISSING = 0.1  # of the cells of a column that may be missing
_TINY = 1e-12  # where probabilities would be 0 or 1
_WIDEST = 1e15
_OF_PRIVATE_ROWS = InsecureRandomnessWarning, BudgetWarning, BoundsWarning, SmallSampleWarning  # these rows are public
_NEEDS = "bounds or schema with names of columns need pandas, polars or pyarrow, because a table is simulated"

Budget = tuple[float, float, int]  # epsilon, delta, rows of a unit


@dataclass(frozen=True)
class Measure:
    """A measure of error; less is better."""

    name: str
    title: str  # of an axis
    sentence: str  # its meaning, with ``{}`` for the number


_W1 = Measure("wasserstein", "W1 distance, in units of the data", "synthetic rows lie about {} from real ones (W1 distance)")
_SHARE = "a share of rows read off {} is wrong by at most about {{}}, on average"
MEASURES = {
    "sliced": Measure("sliced", "sliced W1 distance, in units of the data", "synthetic rows lie about {} from real ones (sliced W1)"),
    "wasserstein": _W1,
    "wasserstein of some": replace(_W1, title="W1 distance of 1000 rows, in units of the data"),
    "columns": Measure("columns", "error of a column, share of its range", "a column is off by about {} of its range"),
    "pairs": Measure("pairs", "total variation of a pair of columns", f"{_SHARE.format('two columns')} over the pairs"),
    "singles": Measure("singles", "total variation of a column", _SHARE.format("one column")),
    "correlations": Measure("correlations", "error of a correlation", "a correlation of two columns is off by about {}"),
    "means": Measure("means", "error of a mean, in deviations", "a mean of numbers is off by about {} standard deviations"),
    "variance": Measure("variance", "share of the variance that is lost", "of the variance that as many components can hold, {} is lost"),
    "covariance": Measure("covariance", "error of the covariance", "the covariance is off by {} of its largest eigenvalue"),
}


@dataclass(frozen=True, eq=False)
class Point:
    epsilon: float
    delta: float
    unit_rows: int
    errors: np.ndarray  # (n_repeats, n_measures)
    is_small: bool  # whether a fit warned that rows are too few

    @property
    def mean(self) -> np.ndarray:
        return self.errors.mean(axis=0)

    @property
    def spread(self) -> np.ndarray:
        """Return the standard deviation of the repeats, shape (n_measures,); NaN for a single one."""
        return self.errors.std(axis=0, ddof=1) if len(self.errors) > 1 else np.full(self.errors.shape[1], math.nan)


@dataclass(frozen=True, eq=False, repr=False)
class SpendingPlan(Result):
    """Expected errors of an estimator by epsilon, from public facts alone. `plan` makes it; print it, or look at its `plot`.

    Its data frame has a row for each budget and measure: error is the mean of the repeats, spread their standard deviation, too_few_rows
    whether the fit warned of it.

    Attributes
    ----------
    estimator : str
        Its class.
    n_samples : int
        Rows of the table that is planned for.
    n_simulated : int
        Rows that were simulated; where that is less, at an epsilon that is as much larger.
    rows : str
        Description of the simulated rows.
    neighboring : str
    measures : tuple of Measure
        Measures of error, the main one first; each has a `name`.
    points : tuple of Point
        By delta, rows of a unit and epsilon.
    no_privacy, no_data : ndarray of shape (n_measures,)
        Mean errors at ``epsilon=inf``, and of a uniform guess.

    See Also
    --------
    skdpsynth.model_selection.plan : Makes it.

    Examples
    --------
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.model_selection import plan
    >>> plan(PrivateMeasureMechanism(), n_samples=2000, n_features=1, epsilons=[0.1, 1], random_state=0).to_frame().shape
    (4, 10)
    """

    estimator: str
    n_samples: int
    n_simulated: int
    rows: str
    neighboring: str
    measures: tuple[Measure, ...]
    points: tuple[Point, ...]
    no_privacy: np.ndarray
    no_data: np.ndarray

    def lines(self) -> Iterator[tuple[str, list[Point]]]:
        """Yield the points of each delta and number of rows of a unit by epsilon, under the words that tell them apart."""
        n_deltas, n_units = (len({getattr(point, name) for point in self.points}) for name in ("delta", "unit_rows"))
        for (delta, unit_rows), points in groupby(self.points, lambda point: (point.delta, point.unit_rows)):
            words = [f"delta={delta:g}"] * (n_deltas > 1) + [_rows_of_unit(unit_rows)] * (n_units > 1)
            yield ", ".join(words), list(points)

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame` as a list of dicts, without pandas."""
        records = []
        for point in self.points:
            budget = {"epsilon": point.epsilon, "delta": point.delta, "unit_rows": point.unit_rows}
            for i, measure in enumerate(self.measures):
                errors = {"measure": measure.name, "error": point.mean[i], "spread": point.spread[i], "n_repeats": len(point.errors)}
                references = {"no_privacy": self.no_privacy[i], "no_data": self.no_data[i]}
                records.append({**budget, **errors, **references, "too_few_rows": point.is_small})
        return records

    def smallest_epsilon(
        self, error: float, measure: str | None = None, *, delta: float | None = None, unit_rows: int | None = None
    ) -> float:
        """Return about the least epsilon whose expected error is at most `error`, or raise ValueError if none in the plan is enough.

        Between the epsilons of the plan it is read off straight lines on logarithmic scales; below the first there is no answer but that.
        Mean errors that rise with epsilon, by the luck of few tables, are first replaced by their common mean. `measure` is one of those in
        `measures` (None: the main one), `delta` and `unit_rows` are among those planned (None: the first).
        """
        if not is_real(error) or not error > 0:
            raise ValueError(f"error must be a number greater than 0, got {short_repr(error)}; no finite epsilon gives none at all.")
        error = float(min(error, sys.float_info.max))
        names = [each.name for each in self.measures]
        place = names.index(check_choice("measure", names[0] if measure is None else measure, names))
        points = list(self.points)
        for name, value in (("delta", delta), ("unit_rows", unit_rows)):
            planned = list(dict.fromkeys(getattr(point, name) for point in points))
            if value is not None and not (is_real(value) and value in planned):
                raise ValueError(f"{name} must be one of those planned, {', '.join(map('{:g}'.format, planned))}, got {short_repr(value)}.")
            points = [point for point in points if getattr(point, name) == (planned[0] if value is None else value)]
        errors = _isotonic_means(points, place)
        if errors[-1] > error:
            raise ValueError(
                f"error must be at least {errors[-1]:.3g}, what epsilon={points[-1].epsilon:g} gives, got {short_repr(error)} "
                f"(without privacy: {self.no_privacy[place]:.3g}); plan for larger epsilons, or more rows."
            )
        first = int(np.argmax(errors <= error))
        if not first or errors[first] <= 0:
            return points[first].epsilon
        before, after = np.log(errors[first - 1]), np.log(errors[first])
        low, high = math.log(points[first - 1].epsilon), math.log(points[first].epsilon)
        return math.exp(low + (high - low) * float((before - math.log(error)) / (before - after)))

    def plot(self, ax: "Axes | None" = None, *, measure: str | None = None) -> Any:
        """Draw the errors by epsilon, between what no privacy and what no data gives, and return the figure. Needs matplotlib.

        One of the names in `measures` as `measure`, else the main one, is drawn on an Axes `ax`; without, all of them in a new figure.
        """
        from skdpsynth.plotting import PlanDisplay

        return PlanDisplay.from_plan(self).plot(ax, measure=measure).figure_

    def __repr__(self) -> str:
        n_budgets = len(self.points)
        return f"<SpendingPlan of {self.estimator} for {self.n_samples:,} rows: {n_budgets} budgets; print it, or plot()>"

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        less = f" ({self.n_simulated:,} of them simulated, with epsilon as much larger)" if self.n_simulated < self.n_samples else ""
        deltas, units = ({getattr(point, name) for point in self.points} for name in ("delta", "unit_rows"))
        promise = [self.neighboring] + [f"delta={min(deltas):g}"] * (len(deltas) == 1)
        promise += [_rows_of_unit(min(units))] * (len(units) == 1 and max(units) > 1)
        yield f"{self.estimator} on {self.n_samples:,} rows{less}, {', '.join(promise)}: errors to expect, simulated on {self.rows}"

        names, nothing = [measure.name for measure in self.measures], [""] * len(self.measures)
        table = [("epsilon", *names, ""), ("no data", *map(format_number, self.no_data), "")]
        for words, points in self.lines():
            table += [(words, *nothing, "")] * bool(words)
            for point in points:
                spreads = ["" if math.isnan(spread) else f" ±{format_number(spread)}" for spread in point.spread]
                cells = [f"{format_number(mean)}{spread}" for mean, spread in zip(point.mean, spreads, strict=True)]
                table.append((f"{point.epsilon:g}", *cells, "*" if point.is_small else ""))
        yield [*table, ("no privacy", *map(format_number, self.no_privacy), "")]

        legend, n_repeats = [f"- {measure.name}: {measure.title}" for measure in self.measures], max(len(p.errors) for p in self.points)
        repeats = f"- ±: standard deviation from table to table; each error is the mean of {n_repeats} simulated ones"
        yield "\n".join(legend + [repeats] * (n_repeats > 1))
        yield "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        no_data, no_privacy = self.no_data[0], self.no_privacy[0]
        for name, points in self.lines():
            one = min(points, key=lambda point: abs(math.log(point.epsilon)))
            name = name or (_rows_of_unit(one.unit_rows) if one.unit_rows > 1 else "")
            meaning = self.measures[0].sentence.format(format_number(one.mean[0]))
            references = f"without data {format_number(no_data)}, without privacy {format_number(no_privacy)}"
            yield f"At epsilon {one.epsilon:g}{f' and {name}' if name else ''}, {meaning} ({references})."
            if no_data < 2 * no_privacy:
                continue  # so close that neither end says anything
            errors = list(zip((point.epsilon for point in points), _isotonic_means(points, 0), strict=True))
            if poor := [epsilon for epsilon, error in errors if error > _LIKE_GUESSING * no_data]:
                yield f"Up to epsilon {max(poor):g} the result is hardly better than a guess without data."
            if rich := [epsilon for epsilon, error in errors if error < _LIKE_PUBLISHING * no_privacy]:
                yield f"From epsilon {min(rich):g} on more buys little: the error is nearly that without privacy."
        if any(point.is_small for point in self.points):
            yield "* the fit warns that, by public numbers, rows are too few for this budget."


def _isotonic_means(points: Sequence[Point], place: int) -> np.ndarray:
    """Return the mean errors that fit best among those that fall with epsilon.

    In expectation more epsilon is no worse. A running minimum would fall too, but it would keep a lucky dip for all later epsilons.
    """
    return isotonic_regression([point.mean[place] for point in points], increasing=False)


def _rows_of_unit(unit_rows: int) -> str:
    return f"{unit_rows} row{'s' * (unit_rows > 1)} a unit"


def plan(
    estimator: BaseEstimator,
    n_samples: int,
    *,
    bounds: BoundsLike = None,
    schema: SchemaLike | None = None,
    n_features: int | None = None,
    epsilons: Sequence[float] = (0.1, 0.3, 1, 3, 10),
    deltas: float | Sequence[float] | None = None,
    unit_rows: int | Sequence[int] | None = None,
    prior: Table = None,
    too_wide: float = 1.0,
    n_repeats: int = 5,
    max_rows: int = 100_000,
    time_limit: float = 60.0,
    n_jobs: int | None = None,
    random_state: Seed = None,
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

    See Also
    --------
    SpendingPlan : The result.
    PrivateSearchCV : Choose settings by the data, at a cost.

    Notes
    -----
    *Measures.* Synthetic rows of numbers: the 1-Wasserstein distance (of one feature the exact one; of more the sliced one of all
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
    n_samples = check_integer("n_samples", n_samples, 1, 2**62, "it is the number of rows of the table that you plan for")
    n_repeats = check_integer("n_repeats", n_repeats, 1, 2**62, "5 tables show roughly how much errors vary")
    max_rows = check_integer("max_rows", max_rows, 1, 2**62, "it is the number of rows that are simulated at most")
    if not is_real(time_limit) or not time_limit >= 0:
        raise ValueError(f"time_limit must be a number of seconds, at least 0, got {short_repr(time_limit)}; 0 simulates one table.")
    budgets = _budgets(estimator, epsilons, deltas, unit_rows)
    setting = make_setting(estimator, bounds, schema, n_features, prior, too_wide)
    seed = np.random.SeedSequence().entropy if random_state is None else int(check_seed(random_state).randint(_SEEDS, dtype=np.int64))
    simulation = _Simulation(setting, budgets, n_samples, min(n_samples, max_rows), seed, random_state is not None)
    with task("simulated fits", total=n_repeats * (1 + len(budgets))) as progress:
        run_all(simulation.jobs(n_repeats, float(min(time_limit, sys.float_info.max)), progress), n_jobs)
    for message, category in simulation.issued:
        if category not in _OF_PRIVATE_ROWS:
            warn(message, category)
    errors = simulation.errors
    found = {what: np.array([list(by_repeat[repeat].values()) for repeat in sorted(by_repeat)]) for what, by_repeat in errors.items()}
    measures = tuple(MEASURES[name] for name in errors["no data"][0])
    relation = setting.estimator.get_params(deep=False).get("neighboring", "replace_one")
    points = tuple(Point(*budget, found[budget], budget in simulation.small) for budget in budgets)
    facts = (type(estimator).__name__, n_samples, simulation.n_rows, setting.words, relation, measures)
    return SpendingPlan(*facts, points, no_privacy=found["no privacy"].mean(axis=0), no_data=found["no data"].mean(axis=0))


def _budgets(
    estimator: BaseEstimator,
    epsilons: float | Sequence[float],
    deltas: float | Sequence[float] | None,
    unit_rows: int | Sequence[int] | None,
) -> list[Budget]:
    """Return all combinations, those of one curve together."""
    own = getattr(estimator, "delta", 0.0), getattr(estimator, "max_rows_per_unit", 1)
    checked_deltas = [float(check_delta(delta)) for delta in _list_numbers("deltas", own[0] if deltas is None else deltas)]
    checked_epsilons = sorted({float(check_epsilon(epsilon)) for epsilon in _list_numbers("epsilons", epsilons)})
    units = _list_numbers("unit_rows", own[1] if unit_rows is None else unit_rows)
    if not checked_epsilons or math.inf in checked_epsilons:
        raise ValueError("epsilons must be finite numbers, at least one; the error without privacy always stands beside them.")
    if not units or not all(is_integer(rows, 1, 2**62) for rows in units):
        raise ValueError(f"unit_rows must be a positive integer or several, got {short_repr(unit_rows)}; 1 protects a row.")
    if not checked_deltas:
        raise ValueError("deltas must be at least one number from 0 to less than 1, got none; None takes that of the estimator.")
    parts = (dict.fromkeys(checked_deltas), dict.fromkeys(map(int, units)), checked_epsilons)
    if (n_budgets := math.prod(len(part) for part in parts)) > _MOST_BUDGETS:
        raise ValueError(f"epsilons, deltas and unit_rows must make at most {_MOST_BUDGETS} budgets, got {n_budgets}; ten draw a curve.")
    return [(epsilon, delta, rows) for delta, rows, epsilon in product(*parts)]


def _list_numbers(name: str, values: object) -> list[Any]:
    """Return a number or several as a list; refuse everything else without printing it."""
    array = as_array(values, object)
    if array.ndim > 1 or not all(map(is_real, array.flat)):
        raise ValueError(f"{name} must be a number or a list of numbers, got {short_repr(values)}; see plan.")
    return list(array.flat)


@dataclass(eq=False)
class _Simulation:
    setting: "Setting"
    budgets: list[Budget]
    n_samples: int  # of the table that is planned for
    n_rows: int  # simulated
    seed: Any
    is_seeded: bool
    # By budget or reference, and by repeat: threads finish in any order.
    errors: dict[Budget | str, dict[int, dict[str, float]]] = field(default_factory=dict)
    small: set[Budget | str] = field(default_factory=set)  # budgets at which a fit warned of few rows
    issued: dict[tuple[str, type[Warning]], None] = field(default_factory=dict)  # warnings of fits

    def jobs(self, n_repeats: int, time_limit: float, progress: Task) -> Iterator[Callable[[], None]]:
        """Yield the fits table by table, so that a time limit omits repeats and no budget."""
        start = time.monotonic()
        for repeat in range(n_repeats):
            if repeat and time.monotonic() - start > time_limit:
                return
            rngs = [np.random.default_rng([self.seed, repeat, place]) for place in range(len(self.budgets) + 3)]
            X, guess = self.setting.ground.rows(self.n_rows, rngs[0]), self.setting.ground.uniform(self.n_rows, rngs[1])
            places: list[Budget | str] = ["no privacy", *self.budgets]
            for budget, rng in zip(places, rngs[2:], strict=True):
                yield partial(self._fit, budget, repeat, X, guess, rng, progress)

    def _fit(self, budget: Budget | str, repeat: int, X: Table, guess: Table, rng: np.random.Generator, progress: Task) -> None:
        """Note the errors of a fit at one budget, or of a fit without noise and of a guess without data."""
        params: dict[str, Any] = {"epsilon": math.inf}
        if not isinstance(budget, str):
            epsilon, delta, unit_rows = budget
            times = (
                self.n_samples / self.n_rows / unit_rows
            )  # that noise is smaller: pure noise by epsilon, Gaussian noise by the root of rho
            if times != 1:
                rho = float(rho_of_epsilon(epsilon, delta, gaussian=True)) * times**2 if delta else 0.0
                more = float(epsilon_of_rho(rho, delta, gaussian=True)) if delta else epsilon * times
                epsilon = min(more, max(epsilon, _LARGEST_EPSILON))
            params = {"epsilon": epsilon, "delta": delta}
        params["random_state"] = int(rng.integers(2**31)) if self.is_seeded else None
        own = self.setting.estimator.get_params(deep=False)
        with collect_warnings() as issued:
            model = clone(self.setting.estimator).set_params(**{name: value for name, value in params.items() if name in own}).fit(X)
            self.errors.setdefault(budget, {})[repeat] = self.setting.errors(model, X, None, rng)
            if budget == "no privacy":
                self.errors.setdefault("no data", {})[repeat] = self.setting.errors(model, X, guess, rng)
        self.issued |= issued
        if any(category is SmallSampleWarning for _, category in issued):
            self.small.add(budget)
        progress.step()


# Simulated rows, and the errors of a model of them


@dataclass(frozen=True, eq=False)
class RowSource:
    """Source of simulated rows: made up from bounds and levels alone, or drawn from a public table."""

    schema: Schema  # numbers within bounds, and levels; all of it stated
    names: Sequence[Any] | None  # of the columns of a data frame; None: an array
    prior: Any  # None: uneven and dependent columns; "uniform": even and independent ones; else a public table

    def rows(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Return rows somewhat like data: uneven, and dependent through a few hidden factors.

        Numbers have a hump at a third of their range and a tail to the right; the k-th level has a frequency in proportion to 1/k; a tenth
        of the cells that may be missing are. Two columns have a correlation of about .2, of either sign.
        """
        if isinstance(self.prior, str):
            return self.uniform(n_samples, rng)
        if self.prior is not None:  # with replacement only where there are too few rows
            seed, n_public = int(rng.integers(_SEEDS)), self.prior.shape[0] if hasattr(self.prior, "shape") else len(self.prior)
            return resample(self.prior, replace=n_samples > int(n_public), n_samples=n_samples, random_state=seed)
        loadings = np.sqrt(_SHARES)[:, None] * rng.choice([-1.0, 1.0], size=(len(_SHARES), len(self.schema)))
        factors = ndtri(rng.uniform(_TINY, 1, size=(n_samples, len(_SHARES))))
        columns = []
        for kind, loading in zip(self.schema.values(), loadings.T, strict=True):
            own = ndtri(rng.uniform(_TINY, 1, size=n_samples))
            ranks = ndtr(factors @ loading + np.sqrt(1 - _SHARES.sum()) * own)
            if isinstance(kind, Continuous):
                a, b = _SHAPE
                # The quantiles of Kumaraswamy's law, which is close to a beta law and has a closed form.
                column = _numbers_at(kind, (1 - (1 - ranks) ** (1 / b)) ** (1 / a))
            else:
                shares = 1 / np.arange(1, len(kind.levels) + 1)
                column = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], ranks, side="right")
            if kind.nullable:
                column[rng.random(n_samples) < _MISSING] = np.nan if isinstance(kind, Continuous) else -1
            columns.append(column)
        return self._table(columns)

    def uniform(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Return rows that need no data: every value within bounds, and every level, is equally likely."""
        columns = []
        for kind in self.schema.values():
            even = rng.random(n_samples)
            if isinstance(kind, Continuous):
                columns.append(_numbers_at(kind, even))
            else:
                codes = (even * kind.n_codes).astype(np.int64)
                columns.append(np.where(codes < len(kind.levels), codes, -1))
        return self._table(columns)

    def _table(self, columns: list[np.ndarray]) -> Any:
        """Return columns as the kind of table that a fit would get: codes of levels become levels."""
        kinds = list(self.schema.values())
        if self.names is None and all(isinstance(kind, Continuous) for kind in kinds):
            return np.column_stack(columns)
        try:
            import pandas as pd
        except ImportError:
            pd = None
        cells: list[Any] = list(columns)
        for place, kind in enumerate(kinds):
            if isinstance(kind, Continuous):
                continue
            if self.names is not None and pd is not None:
                cells[place] = pd.Categorical.from_codes(columns[place], categories=list(kind.levels))
            else:
                cells[place] = np.array([*kind.levels, None], dtype=object)[columns[place]]
        if self.names is None:
            rows = np.empty((len(cells[0]), len(cells)), dtype=object)
            for place, column in enumerate(cells):
                rows[:, place] = column
            return rows
        if pd is not None:
            return pd.DataFrame(dict(zip(self.names, cells, strict=True)))
        return make_frame({name: column.tolist() for name, column in zip(self.names, cells, strict=True)}, _NEEDS)


def _numbers_at(kind: Continuous, shares: np.ndarray) -> np.ndarray:
    """Return numbers at these shares of the range of a column; whole ones if it holds those."""
    if not kind.integer:
        return kind.low + (kind.high - kind.low) * shares
    return np.minimum(kind.low + np.floor((kind.high - kind.low + 1) * shares), kind.high)


def _draw(model: BaseEstimator, n_samples: int, guess: Table, rng: np.random.Generator) -> Any:
    return getattr(model, "_sample_as_data", model.sample)(n_samples, random_state=int(rng.integers(2**31))) if guess is None else guess


def row_errors(
    model: BaseEstimator, X: Table, guess: Table, rng: np.random.Generator, width: np.ndarray, window: int | None
) -> dict[str, float]:
    """Return the errors of synthetic rows of numbers; a stream stands for the last rows of its window."""
    X = np.asarray(X, dtype=float)
    X = X[-window:] if window and guess is None else X
    Y, few = (np.asarray(_draw(model, n, guess, rng), dtype=float)[:n] for n in (len(X), min(len(X), _MOST_COMPARED)))
    columns = [wasserstein_distance(X[:, [i]], Y[:, [i]]) for i in range(X.shape[1])]
    share = {"columns": float(np.mean(columns / width))}
    if X.shape[1] == 1:
        return {"wasserstein": columns[0], **share}
    some = X if len(X) <= len(few) else X[rng.choice(len(X), len(few), replace=False)]
    return {"sliced": sliced_wasserstein_distance(X, Y, _DIRECTIONS), "wasserstein of some": wasserstein_distance(some, few), **share}


def table_errors(model: BaseEstimator, X: Table, guess: Table, rng: np.random.Generator, schema: Schema) -> dict[str, float]:
    """Return the errors of synthetic rows of a mixed table."""
    Y = _draw(model, len(X), guess, rng)
    found = {"singles": marginal_total_variation(X, Y, schema, order=1)}
    if len(schema) > 1:
        found = {"pairs": marginal_total_variation(X, Y, schema), **found, "correlations": correlation_error(X, Y, schema)}
    if numbers := [name for name, kind in schema.items() if isinstance(kind.coded, Continuous)]:
        real, made = (columns_of(table, schema) for table in (X, Y))
        off = [abs(np.nanmean(made[name]) - np.nanmean(real[name])) / max(np.nanstd(real[name]), 1e-300) for name in numbers]
        found["means"] = float(np.mean(off))
    return found


def component_errors(model: BaseEstimator, X: Table, guess: Table, rng: np.random.Generator) -> dict[str, float]:
    """Return the errors of components (of the first if all are kept), or of random ones without a covariance."""
    X, components = np.asarray(X, dtype=float), np.atleast_2d(model.components_)
    kept = components if len(components) < X.shape[1] else components[:1]
    if guess is not None:
        from scipy.stats import uniform_direction

        directions = uniform_direction(X.shape[1]).rvs(len(kept), random_state=rng).reshape(len(kept), -1)
        return {"variance": 1 - captured_variance_ratio(X, directions), "covariance": 1.0}
    true = np.cov(X, rowvar=False, ddof=0).reshape(X.shape[1], X.shape[1])
    noisy = model.covariance_ if hasattr(model, "covariance_") else model.get_covariance()
    off = float(np.linalg.norm(noisy - true, 2) / np.linalg.norm(true, 2))
    return {"variance": 1 - captured_variance_ratio(X, kept), "covariance": off}


@dataclass(frozen=True, eq=False)
class Setting:
    """The estimator, the rows it is fitted to, and the measures of its errors."""

    estimator: Any  # unfitted, without an accountant
    ground: RowSource
    errors: Callable[..., dict[str, float]]  # (model, X, guess, rng) -> errors of the model, or of a guess, the main one first
    words: str  # description of the rows


def make_setting(
    estimator: BaseEstimator, bounds: BoundsLike, schema: SchemaLike | None, n_features: int | None, prior: Table, too_wide: float = 1.0
) -> Setting:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params") or "epsilon" not in estimator.get_params(deep=False):
        raise TypeError(f"estimator must be an unfitted private estimator, with a parameter epsilon, got {short_repr(estimator)}.")
    fitted = clone(estimator)
    params = fitted.get_params(deep=False)
    if not hasattr(estimator, "sample") and "n_components" not in params:
        raise TypeError(f"estimator must sample synthetic rows or have components, but {type(estimator).__name__} does neither.")
    is_table = prior is not None and not (isinstance(prior, str) and prior == "uniform")
    if is_table:
        if isinstance(prior, str):
            raise ValueError(f"prior must be None, 'uniform' or a public table in memory, got {short_repr(prior)}; read a file first.")
        prior = prior if hasattr(prior, "shape") else as_array(prior)
        if len(prior.shape) != 2 or not prior.shape[0]:
            raise ValueError(f"prior must be a public table with rows and columns, got {short_repr(prior)}; of one column, give (n, 1).")
    too_wide = check_real("too_wide", too_wide, 1, _WIDEST, "10 simulates rows in a tenth of the bounds")
    if too_wide > 1 and is_table:
        raise ValueError("too_wide must be 1 beside a public table as prior, whose rows lie where they lie; widen the bounds themselves.")
    # A simulated row is a unit of its own; the cost of several rows is in the loss (`unit_rows`).
    fitted.set_params(**{name: value for name, value in {"accountant": None, "max_rows_per_unit": 1}.items() if name in params})
    if params.get("partition") is not None and not is_table:
        raise ValueError("prior must be a public table for an estimator with a partition of its own, because its rows lie in no bounds.")
    if "schema" in params and (schema is not None or params["schema"] is not None):
        ground, errors = _use_schema(fitted, schema, prior, is_table)
    elif schema is not None:
        raise ValueError(f"schema must be None for {type(fitted).__name__}, which takes numbers within bounds; give bounds.")
    else:
        ground, errors = _use_bounds(fitted, bounds, n_features, prior, is_table)
    words = "rows of a public table" if is_table else "made-up rows" if prior is None else "uniform rows"
    if too_wide > 1:
        words += f" in a part of bounds that are {too_wide:g} times as wide"
        ends = {name: kind.low + (kind.high - kind.low) / too_wide for name, kind in ground.schema.items() if isinstance(kind, Continuous)}
        kinds: dict[Any, Any] = dict(ground.schema)
        for name, high in ends.items():
            kinds[name] = replace(kinds[name], high=max(kinds[name].low + 1, int(high)) if kinds[name].integer else high)
        ground = replace(ground, schema=Schema(kinds))
    return Setting(fitted, ground, errors, words)


def _use_schema(
    fitted: BaseEstimator, schema: SchemaLike | None, prior: Table, is_table: bool
) -> tuple[RowSource, Callable[..., dict[str, float]]]:
    """Give an estimator the facts of its own schema or of the caller's; what it buys it buys in the simulation, too."""
    own, given = (None if each is None else Schema.of(each) for each in (fitted.schema, schema))
    if own is not None and given is not None and set(own) != set(given):
        raise ValueError("schema must have the columns of the schema of the estimator; leave one of them out, or make them alike.")
    stated: Any = own if given is None else given
    if unknown := [name for name, kind in stated.items() if kind.stand_in is not None]:
        raise ValueError(f"schema must state bounds and levels to simulate rows, but has none for {list_names(unknown)}; give guesses.")
    buys = own is not None and any(kind.stand_in is not None for kind in own.values())
    learned: Any = own if buys else stated
    if not is_table:  # mechanisms see the coded columns alone: dates as whole numbers, and no identifiers
        learned, stated = learned.coded, stated.coded
    fitted.set_params(schema=learned)
    return RowSource(stated, None if list(stated) == list(range(len(stated))) else list(stated), prior), partial(
        table_errors, schema=stated
    )


def _use_bounds(
    fitted: BaseEstimator, bounds: BoundsLike, n_features: int | None, prior: Table, is_table: bool
) -> tuple[RowSource, Callable[..., dict[str, float]]]:
    params = fitted.get_params(deep=False)
    own = params.get("bounds")
    given = own if bounds is None else bounds
    if given is None:
        given = UNIT
        if "bounds" in params and not is_table:  # rows are made up within them: there is nothing to clip
            fitted.set_params(bounds=UNIT)
    if has_private(given):
        raise ValueError("bounds must be two numbers to simulate rows within, got 'private'; give plan a generous guess as bounds.")
    if bounds is not None and "bounds" in params and not has_private(own):
        fitted.set_params(bounds=bounds)
    names = list(given) if isinstance(given, dict) else None
    if is_table:
        names = list(prior.columns) if hasattr(prior, "columns") else None
    known = [int(prior.shape[1])] if is_table else []
    known += [len(given)] if isinstance(given, dict) else [side.size for side in map(as_array, pair_of(given)) if side.ndim == 1]
    known += [] if n_features is None else [check_integer("n_features", n_features, 1, more="it is the number of columns")]
    if not known:
        way_out = "bounds={column: (low, high)}" + " or a schema" * ("schema" in params)
        raise ValueError(f"bounds must tell how many columns there are, got one pair for all; give {way_out}, or n_features.")
    if len(set(known)) > 1:
        raise ValueError(f"n_features must be the number of columns of bounds and prior, but they say {list_names(sorted(set(known)))}.")
    box = Box.from_bounds(given, known[0], names)
    schema = Schema({i: Continuous(low, high, integer=False) for i, (low, high) in enumerate(zip(box.low, box.high, strict=True))})
    errors: Callable[..., dict[str, float]] = component_errors
    if "schema" in params:
        errors = partial(table_errors, schema=schema if names is None else Schema(dict(zip(names, schema.values(), strict=True))))
    elif hasattr(fitted, "sample"):
        errors = partial(row_errors, width=box.width, window=getattr(fitted, "window", None))
    return RowSource(schema, names, prior), errors
