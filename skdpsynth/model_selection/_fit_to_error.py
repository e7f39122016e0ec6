"""The least epsilon for a stated error: fits that grow until what they release says that it is small enough."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from skdpsynth._sklearn import check_seed
from skdpsynth._text import Result, format_number
from skdpsynth._validation import check_choice, check_real, collect_warnings, is_real, short_repr, warn
from skdpsynth.exceptions import BudgetWarning
from skdpsynth.fitting import Facts, Plan, PrivateEstimator
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
_STEP = Fraction(9, 8)  # of a ladder of epsilons
_FAR, _SHORT = 10, 3  # times an epsilon: a prediction beyond is a direction
_LAST_STEP = Fraction(5, 4)  # of a round that none could follow
_REPEATS = 5  # simulated fits that must all meet the target: to just miss it costs more than a little too much epsilon
_SEEDS = 2**31
_LEAST_CAP, _MOST_CAP, _LEAST_EPSILON, _LEAST_TARGET = 1e-6, 1e6, Fraction(1, 10**9), 1e-300
_KEPT_BACK = Fraction(1, 10**8)  # of rho, for the rounding of conversions
_REST = "the rest of the cap, which fit_to_error did not need"
_REMARK = "all rounds of fit_to_error, of which the model is the last"
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
        The last one that was fitted. Its `accountant_` has the whole cost, with all rounds.
    target, error : float
        The error asked for, and the one that the model tells of itself.
    is_reached, is_public : bool
        Whether `error` is at most `target`; whether public numbers alone told it, so that nothing was searched, and one fit charged.
    epsilon, delta : Fraction
        The charge: the promise for all that was released.
    spent : Fraction
        The epsilon that the rounds used. With pure losses it bounds the privacy loss of this very result; with a delta it is no guarantee.
    rounds : tuple of FitRound
        Each with `epsilon`, `delta` and `error`.

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

    def amount_left(self, charged: list[Fraction]) -> Fraction:
        return self.amount(self.epsilon) - sum(map(self.amount, charged))

    def rest(self, charged: list[Fraction]) -> Fraction:
        """Return the epsilon of a round that takes all that is left, or 0."""
        kept_back = self.amount(self.epsilon) * (_KEPT_BACK if self.kind else 0)
        left = self.amount_left(charged) - kept_back
        return self.to_epsilon(left) if left > kept_back else Fraction(0)

    def to_epsilon(self, amount: Fraction) -> Fraction:
        return Fraction(epsilon_of_rho(amount, self.delta, gaussian=self.kind == "gaussian")) if self.kind else amount


@dataclass(eq=False)
class _Search:
    """An estimator, the private rows, and the error of a model."""

    estimator: Any
    X: Table
    unit: Any
    kind: str  # of error; "" for a function
    error: ErrorOfModel | None  # None: TV2, by simulation
    target: float
    cap: _Cap
    facts: Facts
    seeds: np.random.RandomState
    warned: dict[tuple[str, type[Warning]], None] = field(default_factory=dict)  # before the charge

    def fit_rows(self, epsilon: Fraction, delta: Fraction, accountant: AccountantLike) -> Any:
        seed = None if self.estimator.random_state is None else int(self.seeds.randint(_SEEDS))
        changes = {"epsilon": epsilon, "delta": delta, "accountant": accountant, "random_state": seed}
        return clone(self.estimator).set_params(**changes).fit(self.X, unit=self.unit)

    def warn_before_charge(self) -> None:
        """Issue what is known by now about a fit of the cap, which is the promise: as an error it comes before the charge."""
        facts, is_seeded = replace(self.facts, epsilon=self.cap.epsilon, warnings=[]), self.estimator.random_state is not None
        self.estimator._warn_before_charge(facts, Plan(), is_seeded, self.unit is not None)
        self.warned |= dict.fromkeys(facts.warnings)
        for each in self.warned:
            warn(*each)

    def error_of(self, model: BaseEstimator) -> float:
        value = self.error(model) if self.error else math.nan
        if not is_real(value) or not value >= 0:
            raise ValueError(f"error must give a number of at least 0 of every fitted model, got {short_repr(value)}; try it on a model.")
        return float(value)

    def error_at(self, rows: Table, schema: SchemaLike, delta: Fraction, epsilon: Fraction) -> float:
        """Return the error of a fit to public rows, or to released ones."""
        per_unit = self.facts.rows_per_unit
        changes: dict[str, Any] = {"epsilon": max(epsilon / per_unit, _LEAST_EPSILON), "delta": delta, "accountant": None}
        if per_unit > 1:
            changes["max_rows_per_unit"] = 1
        seed, other = self.seeds.randint(_SEEDS, size=2).tolist()
        with collect_warnings():  # they protect rows, and these are public
            again = clone(self.estimator).set_params(**changes, random_state=seed).fit(rows)
            return self.error_of(again) if self.error else marginal_total_variation(rows, again.sample(random_state=other), schema)

    def public_epsilon(self) -> Fraction | None:
        """Return the least epsilon whose error meets the target for all data alike, or None where the error depends on the data."""
        if self.kind not in ("", "bound") or self.unit is not None or self.facts.n_samples is None:  # estimates have chance in them
            return None
        rng = np.random.default_rng(0)
        try:
            ground = make_setting(clone(self.estimator), None, None, self.facts.n_features, None).ground
            uneven, even = ground.rows(self.facts.n_samples, rng), ground.uniform(self.facts.n_samples, rng)
            at, others = (partial(self.error_at, rows, {}, self.cap.delta) for rows in (uneven, even))
            least = at(self.cap.epsilon)
            if least != others(self.cap.epsilon) or not math.isfinite(least):
                return None
        except Exception:  # made-up rows may be of another kind than the caller's error takes: a search asks it about real models
            return None
        if least > self.target:
            raise ValueError(
                f"target must be at least {least:.4g}, the error at max_epsilon={float(self.cap.epsilon):g} on made-up rows of any kind, "
                f"got {self.target:g}; nothing was charged."
            )
        return _first_enough(at, self.target, self.cap.epsilon * _FIRST, self.cap.epsilon) or self.cap.epsilon

    def next_epsilon(self, at: Callable[[Fraction], float], rounds: list[FitRound], rest: Fraction) -> Fraction | None:
        """Return the epsilon of the next round, from what is predicted to be enough; None if no more can be charged."""
        last = rounds[-1].epsilon
        found = _first_enough(at, self.target, last * _STEP, min(rest, last * _FAR), _REPEATS)
        if found is None:
            found = _rounded(last * _SHORT) if last * _FAR < rest else rest
        elif 2 * self.cap.amount(min(found, rest)) > self.cap.amount(rest):
            found *= _LAST_STEP
        found = rest if len(rounds) == _ROUNDS - 1 else min(found, rest)
        while not self.is_charged_alike(found):
            if found == rest:
                return None
            found = min(found * _STEP, rest)
        return found

    def is_charged_alike(self, epsilon: Fraction) -> bool:
        """Whether a round is charged in the rho of the search: some estimators change their noise with epsilon."""
        facts = replace(self.facts, epsilon=epsilon, warnings=[])
        return self.cap.kind is None or clone(self.estimator).set_params(epsilon=epsilon)._first_plan(facts)[1] == self.cap.kind


def _rounded(epsilon: Fraction) -> Fraction:
    return Fraction(f"{float(epsilon):.3g}")  # a short decimal, for the ledger


def _first_enough(at: Callable[[Fraction], float], target: float, low: Fraction, high: Fraction, repeats: int = 1) -> Fraction | None:
    """Return the first rung below `high` where each error meets the target, or None; errors may rise in between, where sizes change."""
    while low < high:
        low = _rounded(low)
        if all(at(low) <= target for _ in range(repeats)):
            return low
        low *= _STEP
    return None


def _power_law(rounds: list[FitRound]) -> Callable[[Fraction], float]:
    """Return the error by epsilon on a line through the last round and one of at most half its epsilon, on logarithmic scales.

    Between nearer rounds chance would make the slope. After the first round the error is in inverse proportion. Twice the slope takes half
    of the way: an error that is mostly chance often asks for too much, and one more round is cheaper.
    """
    last, power = rounds[-1], -1.0
    before = next((each for each in reversed(rounds) if 2 * each.epsilon <= last.epsilon), rounds[0])
    if min(last.error, before.error) > 0 and last.epsilon > before.epsilon:
        power = min(max(math.log(last.error / before.error) / math.log(last.epsilon / before.epsilon), -1.0), -0.5)
    return lambda epsilon: last.error * float(epsilon / last.epsilon) ** (2 * power)


def _error_of(estimator: PrivateEstimator, error: object, statistic: object, level: object) -> tuple[str, ErrorOfModel | None]:
    """Return the kind of an error and the function of a model that it is, None for TV2 by simulation; or refuse it."""
    has_schema = "schema" in estimator.get_params(deep=False)
    name = "" if callable(error) else check_choice("error", error, ERRORS, " or a function of the fitted model")
    if name == "auto":
        name = "pairs" if has_schema else "wasserstein"
    if name == "width" and not (callable(statistic) and is_real(level) and 0 < level < 1):
        raise ValueError(
            f"error='width' needs a function of a table as statistic and a level between 0 and 1, got {short_repr(statistic)} and "
            f"{short_repr(level)}; statistic=lambda table: table.mean() for example."
        )
    if name != "width" and statistic is not None:
        raise ValueError(f"statistic must be None unless error is 'width', got error={short_repr(error)}; a function needs no statistic.")
    can = {"": True, "width": hasattr(estimator, "interval"), "pairs": has_schema}
    if not can.get(name, hasattr(type(estimator), "expected_error_")):
        kind = type(estimator).__name__
        raise ValueError(f"error must be one that {kind} has, got {short_repr(error)}; give a function of the fitted model.")
    if name == "width":
        return name, partial(_width, statistic, level)
    return name, error if callable(error) else attrgetter(_ATTRIBUTES[name]) if name in _ATTRIBUTES else None


def _width(statistic: object, level: object, model: BaseEstimator) -> float:
    interval = model.interval(statistic, level, random_state=0)  # no noise: rows of a released model
    return float(np.max(np.asarray(interval.high) - np.asarray(interval.low)))


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
        An unfitted private estimator, no stream. Its ``epsilon`` is ignored, its ``delta`` is that of all rounds together.
    X : array-like, data frame or any other table
        The private rows, as `fit` takes them. They are read in each round.
    target : float
        The error that is wanted, in the units of `error`.
    max_epsilon : float
        The cap, and the promise: finite, and charged before the first draw.
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
        Its `model`, `error`, `rounds`, and what was charged; print it. If the target is not reached, the model is the last one, and a
        `BudgetWarning` says what was spent.

    Raises
    ------
    ValueError
        If a parameter is out of its domain, or public numbers tell that the target cannot be reached: before anything is charged.
    BudgetExceededError
        If the accountant has less than `max_epsilon` left; nothing is drawn then.

    See Also
    --------
    plan : Expected errors from public facts, at no cost.
    PrivateSearchCV : Choose settings by the data.

    Notes
    -----
    *Privacy.* All rounds together are max_epsilon-differentially private; (max_epsilon, delta) if delta > 0. Whether there is a round, its
    epsilon, and the error that decides follow from earlier releases and coins. For pure losses the sum over the rounds, `spent`, bounds
    the loss of this very result; a capped sum of rho is valid however it was chosen; else each of ten rounds has a tenth of delta. The
    guide "Fit to an error" has the proofs, and says why the cap is charged for good.

    *Nothing to search.* Where the error is the same for two made-up tables, it is taken for a public number. Then epsilon is found without
    the rows, and one fit is charged that epsilon, not the cap.

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
        own = PrivacyAccountant(known, search.cap.delta, neighboring=estimator.neighboring) if shared is None else shared
        model = search.fit_rows(known, search.cap.delta, own)
        if shared is None:
            own.close()
            own.remark = estimator._remark
            model.accountant_ = own  # whole, and no part of itself
        return _result(search, model, [FitRound(known, search.cap.delta, search.error_of(model))], [known], is_public=True)
    cap, charged = search.cap, list[Fraction]()
    name = f"fit_to_error of {type(estimator).__name__}"
    search.warn_before_charge()
    if shared is None:
        whole = PrivacyAccountant(cap.epsilon, cap.delta, neighboring=estimator.neighboring, unit=protected)
    else:
        whole = shared.child(cap.epsilon, cap.delta, name=name, rho=cap.kind, unit=protected)
    account = whole.child(cap.epsilon, cap.delta, name=name, rho=cap.kind, unit=protected)  # the cap is one line of the model's ledger too
    try:
        model, rounds = _run_rounds(search, account, charged)
    finally:
        if left := cap.amount_left(charged):  # for good: sums that followed from noise are no promise
            pure = PrivacyLoss(left) if cap.kind is None else None
            account.spend(pure or PrivacyLoss(rho=left, gaussian=cap.kind == "gaussian"), name=_REST)
        account.close()
        whole.close()
    whole.remark = estimator._remark or _REMARK
    model.accountant_ = whole.record()
    return _result(search, model, rounds, charged)


def _prepare(
    estimator: PrivateEstimator, X: Table, target: float, epsilon: Fraction, error: tuple[Any, Any, float], unit: Unit
) -> tuple[_Search, PrivacyAccountant | None, Any]:
    """Check all that can be checked, read the rows once, and decide by public plans how rounds are charged."""
    check_neighboring(estimator.neighboring)
    delta = check_delta(estimator.delta)
    kind_of_error, of_model = _error_of(estimator, *error)
    seeds = np.random.RandomState() if estimator.random_state is None else check_seed(estimator.random_state)
    blank = clone(estimator).set_params(epsilon=epsilon)
    shared = blank._check_privacy_parameters()
    protected = blank._privacy_unit(unit, shared)
    with np.errstate(all="ignore"):
        _, facts = blank._open_rows(X, unit, make_stream(None), None)
    plans = [blank._first_plan(replace(facts, epsilon=epsilon / 2**k, warnings=[])) for k in range(9)]  # down to the first round
    kinds = {rho for _, rho in plans}
    delta = delta if any(plan.spends_delta for plan, _ in plans) else Fraction(0)
    kind = kinds.pop() if delta and len(kinds) == 1 else None
    return _Search(estimator, X, unit, kind_of_error, of_model, target, _Cap(epsilon, delta, kind), facts, seeds), shared, protected


def _run_rounds(search: _Search, account: PrivacyAccountant, charged: list[Fraction]) -> tuple[Any, list[FitRound]]:
    cap, rounds = search.cap, list[FitRound]()
    epsilon: Fraction | None = cap.epsilon * _FIRST
    while epsilon is not None:
        charged.append(epsilon)
        hand = account.child(epsilon, cap.delta_of_round, name=f"round {len(rounds) + 1}", rho=cap.kind)
        with collect_warnings() as issued:  # only those of the last round say something about the result
            model = search.fit_rows(epsilon, cap.delta_of_round, hand)
        hand.close()
        at = None
        if search.kind != "width" and hasattr(model, "sample"):  # its rows were released, so fits to them are post-processing
            rows = model.sample(random_state=int(search.seeds.randint(_SEEDS)))
            at = partial(search.error_at, rows, getattr(model, "schema_", {}), cap.delta_of_round)
        error = search.error_of(model) if search.error else float(np.mean([at(epsilon) for _ in range(_REPEATS)]))  # type: ignore[misc]
        rounds.append(FitRound(epsilon, cap.delta_of_round, error))
        rest = cap.rest(charged)
        if error <= search.target or rest <= epsilon or len(rounds) == _ROUNDS:
            break
        try:
            epsilon = search.next_epsilon(at or _power_law(rounds), rounds, rest)
        except Exception:  # released rows may be such that a fit refuses them; what is spent is spent, so the search goes on
            epsilon = search.next_epsilon(_power_law(rounds), rounds, rest)
    for each in [each for each in issued if each not in search.warned]:
        warn(*each)
    return model, rounds


def _result(search: _Search, model: Any, rounds: list[FitRound], charged: list[Fraction], is_public: bool = False) -> ErrorFit:
    """Return the result, and warn if the target is not reached; a public epsilon was charged alone."""
    error, is_reached = rounds[-1].error, rounds[-1].error <= search.target
    spent = search.cap.to_epsilon(search.cap.amount(search.cap.epsilon) - search.cap.amount_left(charged)) if not is_public else charged[0]
    cost = spent if is_public else search.cap.epsilon
    if not is_reached:
        warn(
            f"target={search.target:g} is not reached with epsilon={float(cost):g}, which is spent: after {len(rounds)} rounds the "
            f"error is {error:.4g}; plan for more rows, or a larger error.",
            BudgetWarning,
        )
    return ErrorFit(model, search.target, error, is_reached, is_public, cost, search.cap.delta, spent, tuple(rounds))
