"""The least epsilon for a stated error: fits that grow until what they release says that it is small enough."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from skdpsynth._sklearn import check_seed
from skdpsynth._text import Result, format_number
from skdpsynth._validation import check_choice, check_real, is_real, short_repr, warn
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.fitting import Facts, PrivateEstimator
from skdpsynth.frames import Unit
from skdpsynth.metrics import SchemaLike, Table, marginal_total_variation
from skdpsynth.model_selection._plan import make_setting
from skdpsynth.privacy import (
    AccountantLike,
    PrivacyAccountant,
    PrivacyLoss,
    check_delta,
    check_epsilon,
    check_neighboring,
    epsilon_of_rho,
    make_stream,
    rho_of_epsilon,
)

_ROUNDS = 10  # the last one takes all that is left
_FIRST = Fraction(1, 256)  # of the cap, in epsilon
_LEAST_GROWTH, _LEAST_STEP, _MOST_GROWTH = 1.1, 1.5, 10.0  # of epsilon from round to round: after a miss, after two, and at most
_LAST_STEP = Fraction(5, 4)
_FAR, _SHORT = 20.0, 4.0  # times an epsilon: a prediction beyond is a direction
_AIM = 0.93  # of the target: a round that just misses costs far more than a little too much epsilon
_SIMULATED = 3  # fits that predict, in a round
_CAUTION = 1.1  # exponent of a predicted growth: the farther, the more margin
_CLOSE = 0.05  # of a logarithm: near enough to read the rest off a straight line
_RUNGS, _STEPS = 32, 3  # of a search without the rows, and of a bisection
_REPEATS = 2  # of a simulated fit
_SEEDS = 2**31
_LEAST_CAP, _MOST_CAP, _LEAST_EPSILON, _LEAST_TARGET = 1e-6, 1e6, 1e-9, 1e-300
_KEPT_BACK = Fraction(1, 10**8)  # of rho, for the rounding of conversions
_REST = "other rounds of fit_to_error, and the rest of its cap"
_REMARK = "one of several fits of fit_to_error, which cost its max_epsilon together"
ERRORS = ("auto", "bound", "wasserstein", "pairs", "width")
_ATTRIBUTES = {"bound": "error_bound_", "wasserstein": "expected_error_"}

ErrorOfModel = Callable[[Any], float]


@dataclass(frozen=True)
class FitRound:
    """One fit of a search."""

    epsilon: Fraction
    delta: Fraction
    error: float  # that the fitted model tells of itself


@dataclass(frozen=True, eq=False, repr=False)
class ErrorFit(Result):
    """The model that `fit_to_error` returns, with its error and what it cost.

    Attributes
    ----------
    model : estimator
        The last one that was fitted. Its `accountant_` has the whole cost, that of the other rounds too.
    target, error : float
        The error asked for, and the one that the model tells of itself.
    is_reached : bool
        Whether `error` is at most `target`.
    is_public : bool
        Whether public numbers alone told the error, so that nothing was searched and only `spent` was charged.
    epsilon, delta : Fraction
        The charge: the promise for all that was released.
    spent : Fraction
        The epsilon that the rounds used. With pure losses it bounds the privacy loss of this very result; with a delta it is no guarantee.
    rounds : tuple of FitRound
        Each with `epsilon`, `delta` and `error`.
    accountant : PrivacyAccountant
        Record of the rounds.

    See Also
    --------
    skdpsynth.model_selection.fit_to_error : Makes it.
    """

    model: Any
    target: float
    error: float
    is_reached: bool
    is_public: bool
    epsilon: Fraction
    delta: Fraction
    spent: Fraction
    rounds: tuple[FitRound, ...]
    accountant: PrivacyAccountant

    def to_records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame` as a list of dicts, without pandas: one for each round."""
        return [{"epsilon": float(each.epsilon), "delta": float(each.delta), "error": each.error} for each in self.rounds]

    def __repr__(self) -> str:
        words = f"{'' if self.is_reached else 'not '}reached, error {format_number(self.error)} of {format_number(self.target)}"
        return f"<ErrorFit: {words}, epsilon={float(self.epsilon):g}>"

    def _parts(self) -> Iterator[str | list[tuple[str, ...]]]:
        words = f"{format_number(self.target)} {'is' if self.is_reached else 'is not'} reached"
        cost = f"epsilon={float(self.epsilon):.4g}" + (f", delta={float(self.delta):g}" if self.delta else "")
        yield f"The target of {words}: {type(self.model).__name__} has an error of {format_number(self.error)}."
        if self.is_public:
            yield f"Public numbers alone tell this error, so nothing was searched: one fit was charged {cost}."
        else:
            yield f"{cost} was charged before the first fit, and is the promise; the rounds used {float(self.spent):.4g} of it."
        rows = [(f"{number}", f"{float(each.epsilon):.4g}", format_number(each.error)) for number, each in enumerate(self.rounds, 1)]
        yield [("round", "epsilon", "error"), *rows]


@dataclass(frozen=True)
class _Cap:
    """The budget of all rounds, in the amounts that add up: epsilon, or the rho of one kind of noise."""

    epsilon: Fraction
    delta: Fraction  # of all rounds
    kind: str | None  # of rho; None: rounds add in epsilon, and share delta

    @property
    def delta_of_round(self) -> Fraction:
        return self.delta if self.kind else self.delta / _ROUNDS

    def amount(self, epsilon: Fraction) -> Fraction:
        return Fraction(rho_of_epsilon(epsilon, self.delta, gaussian=self.kind == "gaussian")) if self.kind else epsilon

    def spent(self, rounds: list[FitRound]) -> Fraction:
        return self._epsilon(sum((self.amount(each.epsilon) for each in rounds), Fraction(0)))

    def rest(self, rounds: list[FitRound]) -> Fraction:
        """Return the epsilon of a round that takes all that is left, or 0."""
        most = self.amount(self.epsilon) * (1 - _KEPT_BACK if self.kind else 1)
        left = most - sum(self.amount(each.epsilon) for each in rounds)
        return self._epsilon(left) if left > most * _KEPT_BACK else Fraction(0)

    def beside(self, epsilon: Fraction) -> PrivacyLoss:
        """Return the loss of all but one round."""
        left = self.amount(self.epsilon) - self.amount(epsilon)
        if self.kind:
            return PrivacyLoss(rho=left, gaussian=self.kind == "gaussian")
        return PrivacyLoss(left, self.delta - self.delta_of_round)

    def _epsilon(self, amount: Fraction) -> Fraction:
        return Fraction(epsilon_of_rho(amount, self.delta, gaussian=self.kind == "gaussian")) if self.kind else amount


@dataclass(eq=False)
class _Search:
    """An estimator, the private rows, and the error of a model."""

    estimator: Any
    X: Table
    unit: Any
    error: ErrorOfModel | None  # None: TV2, by simulation
    may_be_public: bool  # whether the error may be a function of public numbers: not if it is an estimate with chance in it
    is_simulated: bool  # whether errors are predicted by fits: not those that take many fits themselves
    target: float
    cap: _Cap
    facts: Facts
    seeds: np.random.RandomState

    def fit_rows(self, epsilon: Fraction, delta: Fraction, accountant: AccountantLike) -> Any:
        seed = None if self.estimator.random_state is None else int(self.seeds.randint(_SEEDS))
        changes = {"epsilon": epsilon, "delta": delta, "accountant": accountant, "random_state": seed}
        return clone(self.estimator).set_params(**changes).fit(self.X, unit=self.unit)

    def error_at(self, rows: Table, schema: SchemaLike, delta: Fraction, epsilon: float) -> float:
        """Return the error of a fit to public rows, or to released ones."""
        per_unit = self.facts.rows_per_unit
        changes = {"epsilon": max(epsilon / per_unit, _LEAST_EPSILON), "delta": delta, "accountant": None}
        if per_unit > 1:
            changes["max_rows_per_unit"] = 1
        found = []
        with warnings.catch_warnings():  # they protect rows, and these are public
            warnings.simplefilter("ignore")
            for _ in range(_REPEATS):
                seed, other = self.seeds.randint(_SEEDS, size=2).tolist()
                again = clone(self.estimator).set_params(**changes, random_state=seed).fit(rows)
                found.append(self.error(again) if self.error else marginal_total_variation(rows, again.sample(random_state=other), schema))
        return float(np.mean(found))

    def public_epsilon(self) -> Fraction | None:
        """Return the least epsilon whose error meets the target for all data alike, or None where the error depends on the data."""
        if not self.may_be_public or self.facts.n_samples is None:
            return None
        rng = np.random.default_rng(0)
        try:
            ground = make_setting(clone(self.estimator), None, None, self.facts.n_features, None).ground
            uneven, even = ground.rows(self.facts.n_samples, rng), ground.uniform(self.facts.n_samples, rng)
            at, others = (partial(self.error_at, rows, {}, self.cap.delta) for rows in (uneven, even))
            least = at(high := float(self.cap.epsilon))
            if least != others(high) or not math.isfinite(least):
                return None
        except Exception:  # made-up rows may be of another kind than the caller's error takes: a search asks it about real models
            return None
        if least > self.target:
            raise ValueError(
                f"target must be at least {least:.4g}, the error at max_epsilon={high:g} on made-up rows of any kind, got {self.target:g}; "
                "nothing was charged."
            )
        # Errors may rise in between, where sizes change: so the first rung that is enough, and then a bisection below it.
        ladder = [*map(_rounded, np.geomspace(high * float(_FIRST), high, _RUNGS)[:-1]), self.cap.epsilon]
        place = next(place for place, each in enumerate(ladder) if at(float(each)) <= self.target)
        low, best = ladder[max(place - 1, 0)], ladder[place]
        for _ in range(_STEPS):
            tried = _rounded(math.sqrt(low * best))
            low, best = (low, tried) if at(float(tried)) <= self.target else (tried, best)
        return best

    def next_epsilon(self, at: Callable[[float], float], rounds: list[FitRound], rest: Fraction) -> Fraction:
        """Return the epsilon of the next round, from what is predicted to be enough.

        A prediction over more than a factor of twenty is often wrong, so the next round then is a step on the way.
        """
        last, before = rounds[-1].epsilon, rounds[-2].epsilon if len(rounds) > 1 else 0
        least = _LEAST_GROWTH if last > before * _LEAST_STEP else _LEAST_STEP
        low, high = math.log(last * Fraction(least)), math.log(rest)
        if low >= high:
            return rest
        growth = math.exp(_predict(at, math.log(last), self.target * _AIM, low, high)) / float(last)
        growth = min(max(growth / _SHORT, _LEAST_STEP), _MOST_GROWTH) if growth > _FAR else growth**_CAUTION
        found = _rounded(float(last) * growth)
        if 2 * self.cap.amount(min(found, rest)) > self.cap.amount(rest):
            found = found * _LAST_STEP  # no round could follow
        return min(rest, found)


def _rounded(epsilon: float) -> Fraction:
    """Return an epsilon as a short decimal, for the ledger."""
    return Fraction(f"{epsilon:.3g}")


def _power_law(rounds: list[FitRound]) -> Callable[[float], float]:
    """Return the error by epsilon on a line through the last two rounds, on logarithmic scales; in inverse proportion after the first."""
    (*_, before, last), power = [rounds[0], *rounds], -1.0
    if min(last.error, before.error) > 0 and last.epsilon > before.epsilon:
        power = min(max(math.log(last.error / before.error) / math.log(last.epsilon / before.epsilon), -1.0), -0.25)
    return lambda epsilon: last.error * (epsilon / float(last.epsilon)) ** power


def _predict(at: Callable[[float], float], start: float, target: float, low: float, high: float) -> float:
    """Return the logarithm of the epsilon whose simulated error is the target, by secants on logarithmic scales.

    It starts where the last round was. Where an error is 0, epsilon is doubled.
    """
    x, y, slope, goal, before = start, math.inf, -0.5, math.log(target), start
    for step in range(_SIMULATED + 1):
        if step:
            x = min(max(x + (goal - y) / slope, low), high)
        value = at(math.exp(x))
        if not 0 < value < math.inf:
            return min(max(start + math.log(2), low), high)
        if step and x != before:
            slope = min(max((math.log(value) - y) / (x - before), -2.0), -0.1)
        before, y = x, math.log(value)
        is_outside = step and ((x >= high and y > goal) or (x <= low and y <= goal))
        if is_outside or abs(y - goal) < _CLOSE:
            break
    return min(max(x + (goal - y) / slope, low), high)


def _error_of(estimator: PrivateEstimator, error: object, statistic: object, level: object) -> ErrorOfModel | None:
    """Return the function of a model that an error is, None for TV2 by simulation; or refuse it."""
    kind, has_schema = type(estimator).__name__, "schema" in estimator.get_params(deep=False)
    name = error if callable(error) else check_choice("error", error, ERRORS, " or a function of the fitted model")
    if name == "auto":
        name = "pairs" if has_schema else "wasserstein"
    if name == "width" and not (callable(statistic) and is_real(level) and 0 < level < 1):
        raise ValueError(
            f"error='width' needs a function of a table as statistic and a level between 0 and 1, got {short_repr(statistic)} and "
            f"{short_repr(level)}; statistic=lambda table: table.mean() for example."
        )
    if name != "width" and statistic is not None:
        raise ValueError(f"statistic must be None unless error is 'width', got error={short_repr(error)}; a function needs no statistic.")
    can = {"width": hasattr(estimator, "interval"), "pairs": has_schema}
    if not callable(name) and not can.get(name, hasattr(type(estimator), "expected_error_")):
        raise ValueError(f"error must be one that {kind} has, got {short_repr(error)}; give a function of the fitted model.")
    if name == "pairs":
        return None
    if name == "width":
        return partial(_checked, lambda model: _width(model, statistic, level))
    return partial(_checked, name if callable(name) else attrgetter(_ATTRIBUTES[name]))


def _width(model: BaseEstimator, statistic: object, level: object) -> float:
    interval = model.interval(statistic, level, random_state=0)  # no noise: rows of a released model
    return float(np.max(np.asarray(interval.high) - np.asarray(interval.low)))


def _checked(error: Callable[[Any], Any], model: BaseEstimator) -> float:
    value = error(model)
    if not is_real(value) or not value >= 0:
        raise ValueError(f"error must give a number of at least 0 of every fitted model, got {short_repr(value)}; try it on a model.")
    return float(value)


def fit_to_error(
    estimator: BaseEstimator,
    X: Table,
    *,
    target: float,
    max_epsilon: float,
    error: str | ErrorOfModel = "auto",
    statistic: Callable[[Table], ArrayLike] | None = None,
    level: float = 0.95,
    unit: Unit = None,
) -> ErrorFit:
    """Fit an estimator with about the least epsilon that reaches a stated error, and at most `max_epsilon`.

    The first fit takes 1/256 of `max_epsilon`. What it released says how large its error is, and how much more epsilon is needed;
    the next fit takes that, until one meets the target, or nothing is left. Earlier fits count: all rounds share `max_epsilon`.

    Parameters
    ----------
    estimator : estimator
        An unfitted private estimator, no stream. Its ``epsilon`` is ignored; its ``delta`` is that of all rounds together, and its
        ``accountant`` is charged `max_epsilon` before the first draw.
    X : array-like, data frame or any other table
        The private rows, as `fit` takes them. They are read in each round.
    target : float
        The error that is wanted, in the units of `error`.
    max_epsilon : float
        The cap, and the promise: finite.
    error : {"auto", "bound", "wasserstein", "pairs", "width"} or callable, default="auto"
        "bound": ``error_bound_``, a proved bound on the expected W1 distance. "wasserstein": ``expected_error_``, an estimate of it.
        "pairs": total variation of pairs of columns between rows and a sample, by fits to rows of the released model. "width": of the
        interval of `statistic`. "auto": "pairs" for estimators with a schema, else "wasserstein". A function gets a fitted model, and
        returns its error. **It must not read the private rows.**
    statistic : callable, default=None
        A function of a table, as `interval` takes it; with "width" only. If it gives several numbers, the widest interval counts.
    level : float, default=0.95
        The level of that interval.
    unit : str, int or array-like, default=None
        Whom the budget protects, as of `fit`.

    Returns
    -------
    result : ErrorFit
        Its `model`, `error`, `rounds`, and what was charged; print it.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, or public numbers tell that the target cannot be reached: before anything is charged.
    BudgetExceededError
        If the accountant has less than `max_epsilon` left; nothing is drawn then.

    Warns
    -----
    BudgetWarning
        If the target is not reached. The model is then the last one, with the most epsilon.

    See Also
    --------
    plan : Expected errors from public facts, at no cost.
    PrivateSearchCV : Choose settings by the data.

    Notes
    -----
    *Privacy.* All rounds together are max_epsilon-differentially private; (max_epsilon, delta) if delta > 0. Whether there is a round, its
    epsilon, and the error that decides follow from earlier releases and coins: simulations run on rows of a released model. Given all
    before, a pure round moves the probability of its output by exp(e_k) at most, so all of them by the exponential of the sum, which
    never exceeds max_epsilon. (For each result its own sum, `spent`, is enough: an ex-post guarantee [1]_.) Where all fits are charged in
    the rho of one kind of noise, a capped sum of rho is valid however it was chosen [2]_; else each of at most ten rounds has a tenth of
    delta, and epsilons add. The guide "Fit to an error" has the proofs. It also says why the cap is charged in full, for good: figures
    for losses that were fixed in advance, such as `risk`, would be wrong for a sum that followed from noise.

    *Nothing to search.* Where the error is the same for two made-up tables, it is taken for a public number. Then epsilon is found without
    the rows, and one fit is charged that epsilon, not the cap.

    *Cost.* A target that 1/256 of the cap meets is met by the first round. Tests that read the data double epsilon [3]_.

    References
    ----------
    .. [1] Ligett, Neel, Roth, Waggoner, Wu (2017), "Accuracy first: selecting a differential privacy level for accuracy-constrained ERM".
    .. [2] Whitehouse, Ramdas, Rogers, Wu (2023), "Fully-adaptive composition in differential privacy".
    .. [3] Ghazi, Kamath, Knop, Kumar, Manurangsi, Zhang (2025), "Private hyperparameter tuning with ex-post guarantee".

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.model_selection import fit_to_error
    >>> X = np.random.default_rng(0).beta(2, 5, size=(5000, 1))
    >>> found = fit_to_error(PrivateMeasureMechanism(bounds=(0, 1)), X, target=0.02, max_epsilon=4, error="bound")
    >>> found.is_reached, found.error <= 0.02, found.spent < 4
    (True, True, True)
    >>> found.model.sample(3).shape, found.model.accountant_.spent
    ((3, 1), Fraction(4, 1))
    """
    target = check_real("target", target, _LEAST_TARGET, more="no finite epsilon gives no error at all")
    check_real("max_epsilon", max_epsilon, _LEAST_CAP, _MOST_CAP, "the search may spend that much")
    if not isinstance(estimator, PrivateEstimator) or hasattr(estimator, "partial_fit"):
        raise TypeError(f"estimator must be an unfitted private estimator, and no stream, got {short_repr(estimator)}; give an instance.")
    most = Fraction(check_epsilon(max_epsilon))
    search, shared, protected = _prepare(estimator, X, target, most, (error, statistic, level), unit)
    if (known := search.public_epsilon()) is not None:
        return _fit_once(search, known)
    cap = search.cap
    whole = PrivacyAccountant(cap.epsilon, cap.delta, neighboring=estimator.neighboring, unit=protected) if shared is None else shared
    account = whole.child(cap.epsilon, cap.delta, name=f"fit_to_error of {type(estimator).__name__}", rho=cap.kind, unit=protected)
    try:
        model, rounds = _run_rounds(search, account)
    finally:
        account.close()
    _charge_model(model, cap, rounds[-1], protected)
    is_reached = _warn_unless_reached(target, rounds, cap.epsilon)
    facts = target, rounds[-1].error, is_reached, False
    return ErrorFit(model, *facts, cap.epsilon, cap.delta, cap.spent(rounds), tuple(rounds), account)


def _prepare(
    estimator: PrivateEstimator, X: Table, target: float, epsilon: Fraction, error: tuple[Any, Any, float], unit: Unit
) -> tuple[_Search, PrivacyAccountant | None, Any]:
    """Check all that can be checked, read the rows once, and decide by public plans how rounds are charged."""
    check_neighboring(estimator.neighboring)
    delta = check_delta(estimator.delta)
    of_model = _error_of(estimator, *error)
    seeds = np.random.RandomState() if estimator.random_state is None else check_seed(estimator.random_state)
    blank = clone(estimator).set_params(epsilon=epsilon)
    shared = blank._check_privacy_parameters()
    protected = blank._privacy_unit(unit, shared)
    with np.errstate(all="ignore"):
        _, facts = blank._open_rows(X, unit, make_stream(None), None)
    ladder = [epsilon / 2**k for k in range(9) if 2**k <= 1 / _FIRST]
    plans = [blank._first_plan(replace(facts, epsilon=each, warnings=[])) for each in [*ladder, epsilon * _FIRST]]
    kinds = {rho for _, rho in plans}
    delta = delta if any(plan.spends_delta for plan, _ in plans) else Fraction(0)
    kind = kinds.pop() if delta and len(kinds) == 1 else None
    cap = _Cap(epsilon, delta, kind)
    may_be_public = unit is None and (error[0] == "bound" or callable(error[0]))
    return _Search(estimator, X, unit, of_model, may_be_public, error[0] != "width", target, cap, facts, seeds), shared, protected


def _run_rounds(search: _Search, account: PrivacyAccountant) -> tuple[Any, list[FitRound]]:
    cap, rounds = search.cap, list[FitRound]()
    epsilon, delta = cap.epsilon * _FIRST, cap.delta_of_round
    while True:
        rest = cap.rest(rounds)
        epsilon = rest if len(rounds) == _ROUNDS - 1 else min(epsilon, rest)
        hand = account.child(epsilon, delta, name=f"round {len(rounds) + 1}", rho=cap.kind)
        with warnings.catch_warnings(record=True) as issued:  # only those of the last round say something about the result
            warnings.simplefilter("always")
            model = search.fit_rows(epsilon, delta, hand)
        hand.close()
        at = None
        if search.is_simulated and hasattr(model, "sample"):  # its rows were released, so fits to them are post-processing
            rows = model.sample(random_state=int(search.seeds.randint(_SEEDS)))
            at = partial(search.error_at, rows, getattr(model, "schema_", {}), delta)
        error = at(float(epsilon)) if at and search.error is None else search.error(model)  # type: ignore[misc]
        rounds.append(FitRound(epsilon, delta, error))
        rest = cap.rest(rounds)
        if rounds[-1].error <= search.target or rest <= epsilon or len(rounds) == _ROUNDS:
            for each in issued:
                warn(str(each.message), each.category)
            return model, rounds
        try:
            epsilon = search.next_epsilon(at or _power_law(rounds), rounds, rest)
        except Exception:  # released rows may be such that a fit refuses them; what is spent is spent, so the search goes on
            epsilon = search.next_epsilon(_power_law(rounds), rounds, rest)


def _charge_model(model: PrivateEstimator, cap: _Cap, last: FitRound, unit: Unit) -> None:
    """Give a model a ledger that has the cost of all rounds beside its own releases, so that nobody takes it for a fit alone."""
    record = PrivacyAccountant(cap.epsilon, cap.delta, neighboring=model.neighboring, unit=unit)
    record._planned, record.remark = True, _REMARK  # the account of the rounds was the filter; this only repeats its sum
    record.import_record(model.accountant_)
    if last.epsilon < cap.epsilon:
        record.spend(cap.beside(last.epsilon), name=_REST)
    record.close()
    model.accountant_ = record


def _warn_unless_reached(target: float, rounds: list[FitRound], epsilon: Fraction) -> bool:
    if rounds[-1].error <= target:
        return True
    warn(
        f"target={target:g} is not reached with epsilon={float(epsilon):g}, which is spent: after {len(rounds)} rounds the error is "
        f"{rounds[-1].error:.4g}; plan for more rows, or a larger error.",
        BudgetWarning,
    )
    return False


def _fit_once(search: _Search, epsilon: Fraction) -> ErrorFit:
    """Fit with an epsilon that follows from public numbers, as any fit."""
    delta, shared = search.cap.delta, search.estimator.accountant
    own = PrivacyAccountant(epsilon, delta, neighboring=search.estimator.neighboring) if shared is None else shared
    model = search.fit_rows(epsilon, delta, own)
    assert search.error is not None
    rounds = [FitRound(epsilon, delta, search.error(model))]
    facts = search.target, rounds[0].error, _warn_unless_reached(search.target, rounds, epsilon), True
    return ErrorFit(model, *facts, epsilon, delta, epsilon, tuple(rounds), model.accountant_)
