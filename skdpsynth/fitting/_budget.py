"""Public facts of a fit, private facts that a share of the budget buys before the plan is made, the plan, and the budget."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdpsynth._progress import task
from skdpsynth._sensitivity import Query
from skdpsynth.domain import PLACEHOLDER, Nominal, Schema, UnknownBounds, list_names
from skdpsynth.exceptions import BudgetWarning, SmallSampleWarning
from skdpsynth.frames import Rows
from skdpsynth.privacy import (
    Amount,
    Discovery,
    DiscreteGaussian,
    DiscreteLaplace,
    Mechanism,
    PrivacyAccountant,
    PrivacyLoss,
    RandomBits,
    discovery,
    epsilon_beside,
    epsilon_of_rho,
    mechanism,
    rho_of_epsilon,
    split_exactly,
)
from skdpsynth.statistics import MAGNITUDES, EvenCells, Magnitudes, Occurrences, RowCount, total
from skdpsynth.tables import TableFormat, columns_without_bounds, with_placeholder_kinds

_LARGEST_SIZE = 2.0**24
_USUAL_DELTA = Fraction(1, 10**6)
_SEVERAL = 3  # times less noise that make a delta worth a word
_LARGEST_EPSILON = 1024  # beyond, a row has more cells than its neighbors can tell apart
_MIN_REMAINING_SHARE = Fraction(1, 4)
GUIDE = "See the guide: Choosing epsilon, delta, relation and unit."
_EVEN = 64  # cells of the second count
_FALSE_ALARMS = 0.01  # chance that noise alone is taken for rows, in any window of any column
_FARTHEST = 20  # powers of two from where most numbers are, beyond which those that are seen are clipped: nothing else could be told apart
_WINDOWS = (1, 2, 4)  # cells, of powers of two
_EVEN_WINDOWS = (1, 2, 4, 8, 16)
_CLEAR = 0.1  # of the rows: the least that one cell must show for a second count to be of use
_DOUBTFUL = 0.05  # of the rows: where a cell must show more to be seen, tails are long
_MANY = 0.25  # of the rows: if so many are not seen, they may as well be of the other sign
_MOST_STRETCH = 3.0
_ROUNDING = Fraction(1, 10**8)  # of rho
_SURE, _LIKELY = 2.0, 1.5  # deviations of a sum, up to which it is taken for noise


@dataclass(frozen=True)
class Facts:
    """Public numbers of a fit: all that a plan may depend on.

    Attributes
    ----------
    epsilon, delta : Fraction
        The budget (epsilon may be ``math.inf``).
    neighboring : {"replace_one", "add_or_remove_one"}
    n_samples : int or None
        Number of rows. None while it is private; an estimate once that is released.
    n_features : int
    box : Box or None
        Public bounds of rows of numbers.
    schema : Schema or None
        Public facts about the columns of a mixed table.
    missing : tuple of MissingFact
        What is still to be bought; until then placeholders stand for it.
    rho : {None, "gaussian", "zcdp"}
        The kind of rho in which all releases must be charged, because a public fact was bought so; None: the plan decides.
    rows_per_unit : int
        The most rows of one unit of privacy, which all noise covers; 1 where the unit is the row.
    count_error : float
        Expected absolute error of `n_samples`; 0 where it is public.
    bought : Fraction or inf
        The epsilon of facts that were bought at losses in epsilon, beyond `epsilon`; 0 if one was bought in rho.
    warnings : list of (str, type)
        Warnings for the caller.

    See Also
    --------
    PrivateEstimator : Hands them to `_plan`.
    """

    epsilon: Any
    delta: Fraction
    neighboring: str
    n_samples: int | None
    n_features: int
    box: Any = None  # what reads it knows that it is there
    schema: Schema | None = None
    missing: tuple["MissingFact", ...] = ()
    rho: str | None = None
    rows_per_unit: int = 1
    count_error: float = 0.0
    bought: Amount = Fraction(0)
    warnings: list[tuple[str, type[Warning]]] = field(default_factory=list, compare=False)

    @property
    def share(self) -> PrivacyLoss:
        """The whole budget as a loss."""
        return PrivacyLoss(self.epsilon, self.delta, rows=self.rows_per_unit)

    def pure(self, epsilon: Fraction | float) -> PrivacyLoss:
        """Return the loss of a part of the budget, in epsilon."""
        return PrivacyLoss(epsilon=epsilon, rows=self.rows_per_unit)

    @property
    def size(self) -> float:
        """Epsilon times the number of rows over the rows of a unit: depths and numbers of cells follow from it.

        It is capped, so that these stay within memory; epsilon counts up to 1024, so that absurd values, and no noise at all, cost no more
        time than the rows are worth.
        """
        return min(float(min(self.epsilon / self.rows_per_unit, _LARGEST_EPSILON)) * (self.n_samples or 1), _LARGEST_SIZE)

    @property
    def takes_delta(self) -> bool:
        """Whether a missing fact takes a part of delta, so that the whole fit spends it."""
        return any(fact.takes_delta for fact in self.missing)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning; it is issued before the charge where it is known by then, else when the fit is done."""
        self.warnings.append((message, category))

    @property
    def usual_delta(self) -> Fraction:
        """A delta that promises enough for this many rows: the smaller of a millionth and a tenth of 1 / n_samples."""
        return min(_USUAL_DELTA, Fraction(1, 10 * (self.n_samples or 1)))

    def warn_if_delta_is_large(self) -> None:
        """Warn where delta promises little to a row, as soon as the number of rows is known."""
        if self.n_samples is not None and self.delta * self.n_samples > 1:
            self.warn(
                f"delta={float(self.delta):g} is above 1 / n_samples, with n_samples={self.n_samples}: such a promise allows publishing a "
                f"row as it is; use delta={float(self.usual_delta):g} or less. {GUIDE}",
                BudgetWarning,
            )

    def warn_if_delta_helps(self, deviation: float, with_delta: float) -> None:
        """Warn where noise of a pure loss has at least three times the `deviation` of Gaussian noise at the usual delta."""
        if not self.delta and deviation >= _SEVERAL * with_delta > 0:
            self.warn(
                f"With delta={float(self.usual_delta):g} the noise on {self.n_features} features would be "
                f"{deviation / with_delta:.3g} times smaller than with delta=0; give a delta unless the promise must be a pure one. "
                f"{GUIDE}",
                BudgetWarning,
            )

    def gaussian_part(self, pure: Amount) -> "Facts":
        """Return the facts of a part with Gaussian noise alone, beside others at a pure loss, of the sum `pure`, and what was bought.

        Another part of pure losses may come in its place, even by what was bought: with at most `epsilon` it adds nothing to delta.
        """
        beside = epsilon_beside(self.bought + pure, self.bought + self.epsilon, self.delta)
        return self.part(epsilon=beside, bought=Fraction(0))

    def divide(self, weights: Sequence[Amount], as_gaussian: bool) -> "list[Facts]":
        """Return the facts of parts with shares of epsilon and delta, or of the rho of Gaussian noise: then each has all of delta.

        In rho a hundred millionth is kept back for the rounding of conversions.
        """
        if as_gaussian:
            whole = (1 - _ROUNDING) * rho_of_epsilon(self.epsilon, self.delta, gaussian=True)
            return [self.part(epsilon=epsilon_of_rho(rho, self.delta, gaussian=True)) for rho in split_exactly(whole, weights)]
        shares = zip(split_exactly(self.epsilon, weights), split_exactly(self.delta, weights), strict=True)
        return [self.part(epsilon=epsilon, delta=delta) for epsilon, delta in shares]

    def part(self, **changes: Any) -> "Facts":
        """Return the facts of an inner estimator, which collects its own warnings."""
        return replace(self, **{"missing": (), **changes}, warnings=[])


@dataclass(frozen=True)
class Plan:
    """Decisions of a mechanism by public facts; subclasses add fields.

    Attributes
    ----------
    rho : {None, "gaussian", "zcdp"}
        The kind of rho in which all releases are charged, if they are. Then a public fact bought before may be charged so too, and a shared
        accountant is charged rho, which covers nothing else. A plan follows `Facts.rho` where that is not None.
    spends_delta : bool
        Whether the delta of the budget is needed; `Mechanism.spends_delta` answers for one release. Where the number of rows is private
        the plan is made twice, and delta is charged with the first.

    See Also
    --------
    PrivateEstimator : Hands it to `_release`.
    """

    spends_delta: bool = False
    rho: str | None = field(default=None, kw_only=True)


class Budget:
    """The budget of a fit: charges each answer to a query and covers it with noise.

    Parameters
    ----------
    accountant : PrivacyAccountant or callable
        The accountant of this fit, or what opens it at the first answer: rows that cannot be read cost nothing then.
    rng : RandomBits
        Stream of random bits for the noise.
    warnings : list of (str, type), default=None
        Warnings for the caller, issued when the fit is done.
    relation : str, default=None
        Which tables are neighbors. None: as the accountant says.

    See Also
    --------
    skdpsynth.privacy.mechanism : Calibrates the noise.
    """

    is_broken = False  # whether a release raised an error after it was charged

    def __init__(
        self,
        accountant: PrivacyAccountant | Callable[[], PrivacyAccountant],
        rng: RandomBits,
        warnings: list[tuple[str, type[Warning]]] | None = None,
        relation: str | None = None,
    ) -> None:
        self._account, self.rng, self.warnings = accountant, rng, [] if warnings is None else warnings
        self.relation = self.accountant.neighboring if relation is None else relation

    @property
    def accountant(self) -> PrivacyAccountant:
        """The accountant of this fit."""
        if not isinstance(self._account, PrivacyAccountant):
            self._account = self._account()
        return self._account

    @property
    def rows_per_unit(self) -> int:
        """The most rows of one unit of privacy, which all noise covers."""
        return self.accountant.rows_per_unit

    def answer(self, query: Query, chosen: Mechanism, name: str) -> np.ndarray:
        """Charge the loss of a mechanism that is calibrated to the sensitivity of a query, and return its values with noise, as int64.

        The ledger calls the release `name`.
        """
        if query.sensitivity != chosen.sensitivity:
            raise ValueError(
                f"The noise of {name!r} was made for {chosen.sensitivity}, but the query has {query.sensitivity}; plan it anew."
            )
        with task(name, total=0):
            rng = self.rng.child(name)
            return self.accountant.release(query.values, chosen.noise, rng, name=name, loss=chosen.loss, sensitivity=query.sensitivity)

    def discover(self, tables: Sequence[Mapping[Any, int]], chosen: Discovery, name: str) -> list[list[Any]]:
        """Charge the loss of a partition selection, and return the levels that enough rows have.

        `tables` hold counts of the levels that occur; only their number is public, for which `chosen` is calibrated.
        """
        return self.accountant.release_discovered(tables, chosen, self.rng.child(name), name=name)

    def choose(self, utilities: Query, share: PrivacyLoss, name: str) -> int:
        """Charge a share, and return the number of a candidate chosen by its exact utility: `utilities` has one value for each."""
        return self.accountant.release_choice(utilities.values, utilities.sensitivity, self.rng.child(name), name=name, loss=share)

    def part(self, share: PrivacyLoss, name: str, group: str | None = None, rho: str | None = None) -> "Budget":
        """Charge a share in epsilon, or the `rho` that converts to it, and return it as a budget of its own, with its own noise.

        Parts of one `group` hold disjoint rows, those that `name` says: together they cost the largest of them.
        """
        child = self.accountant.child(share.epsilon, share.delta, name=name, group=group, rho=rho)
        return Budget(child, self.rng.child(name), self.warnings)

    def warn(self, message: str, category: type[Warning] = SmallSampleWarning) -> None:
        """Note a warning that follows from what was released."""
        self.warnings.append((message, category))

    def generator(self) -> np.random.Generator:
        """Return a numpy generator for choices that are post-processing."""
        return self.rng.child("public").generator()


# Facts that are bought


@dataclass(frozen=True, eq=False)
class MissingFact:
    """A private fact that a share of the budget buys before the plan is made."""

    share = Fraction(1, 10)  # of the budget
    takes_delta = False  # whether its share is one of epsilon and of delta

    def reserve(self, facts: Facts, rho: str | None) -> tuple[PrivacyLoss, Facts, str | None]:
        """Return the loss of buying it, the facts with the rest of the budget, and the kind of rho that the rest is charged in, if any."""
        loss, rest = reserve_budget(facts, self.share, rho)
        return loss, rest, rest.rho

    def check(self, epsilon: float, delta: float) -> None:
        """Refuse a budget that cannot buy it."""

    def buy(self, rows: Rows, facts: Facts, share: PrivacyLoss, budget: "Budget") -> tuple[Facts, dict[int, Any]]:
        """Release it; return the facts, and by columns what was bought."""
        raise NotImplementedError


def reserve_budget(facts: Facts, part: Fraction, rho: str | None) -> tuple[PrivacyLoss, Facts]:
    """Return a part of the budget for noise that is charged as pure or, if the plan charges `rho`, as Gaussian; and the facts of the rest.

    In rho the part is a share of rho, which is more than that share of epsilon. Gaussian noise of a rho is zCDP of that rho too, so it adds
    up in rho with a rest of either kind. The kind of the rest must not follow from what was bought: a choice between two kinds, each of
    which fits, by the first noise would lose up to twice delta.
    """
    first, rest = split_exactly(facts.epsilon, [part, 1 - part])
    pure = facts.pure(first), replace(facts, epsilon=rest, rho=None, bought=facts.bought + first)
    if rho is None or facts.epsilon == math.inf:
        return pure
    is_gaussian = rho == "gaussian"
    whole = rho_of_epsilon(facts.epsilon, facts.delta, gaussian=is_gaussian)
    rest = epsilon_of_rho((1 - part) * whole, facts.delta, gaussian=is_gaussian)
    if rest < _MIN_REMAINING_SHARE * facts.epsilon:
        return pure  # a delta that is large beside epsilon pays for rho alone, so that no epsilon tells what is left
    # All but the rho that the rest will take, to the last digit.
    bought = whole - rho_of_epsilon(rest, facts.delta, gaussian=is_gaussian)
    return PrivacyLoss(rho=bought, gaussian=True, rows=facts.rows_per_unit), replace(facts, epsilon=rest, rho=rho, bought=Fraction(0))


def reserve_all(facts: Facts, rho: str | None) -> tuple[Facts, str | None]:
    """Return the facts that are left when all is bought, made up where they are unknown, and the kind of rho of the whole fit, if any.

    `rho` is that of the plan.
    """
    rest, takes_delta = facts.part(missing=facts.missing), facts.takes_delta
    for fact in facts.missing:
        _, rest, rho = fact.reserve(rest, rho)
        if isinstance(fact, NumberOfRows):
            rest = replace(rest, n_samples=1)
    return rest, None if takes_delta else rho


def buy_facts(rows: Rows, facts: Facts, rho: str | None, budget: Budget) -> tuple[Facts, dict[int, Any]]:
    """Buy what is missing, one after the other; return the facts for the rest of the budget, and by columns what was bought."""
    bought: dict[int, Any] = {}
    for fact in facts.missing:
        share, facts, rho = fact.reserve(facts, rho)
        facts, found = fact.buy(rows, facts, share, budget)
        bought |= found
    return replace(facts, missing=()), bought


class NumberOfRows(MissingFact):
    """The number of rows, where it is private."""

    share = Fraction(1, 20)

    def buy(self, rows: Rows, facts: Facts, share: PrivacyLoss, budget: Budget) -> tuple[Facts, dict[int, Any]]:
        query = RowCount(rows.n_samples or 0).query(budget.relation)
        chosen = mechanism(query.sensitivity, share)
        noisy = budget.answer(query, chosen, "number of rows")
        error = chosen.noise.mean_absolute() if isinstance(chosen.noise, DiscreteLaplace) else chosen.deviation
        facts = replace(facts, n_samples=max(1, int(noisy[0])), count_error=float(error))
        facts.warn_if_delta_is_large()
        return facts, {}


@dataclass(frozen=True, eq=False)
class PrivateLevels(MissingFact):
    """The levels of some columns; a share of delta pays for them too."""

    columns: dict[int, Any]  # names by place
    takes_delta = True

    def check(self, epsilon: float, delta: float) -> None:
        if not delta and epsilon != math.inf:
            named = list_names(list(self.columns.values()))
            raise ValueError(f"delta must be greater than 0 to buy the levels of {named}, got 0; use 1e-6, or list the levels.")

    def reserve(self, facts: Facts, rho: str | None) -> tuple[PrivacyLoss, Facts, str | None]:
        delta, left = 0 if facts.epsilon == math.inf else facts.delta * self.share, 1 - self.share
        first = facts.epsilon * self.share
        rest = replace(facts, epsilon=facts.epsilon * left, delta=facts.delta * left, bought=facts.bought + first)
        return PrivacyLoss(first, delta, rows=facts.rows_per_unit), rest, rho

    def buy(self, rows: Rows, facts: Facts, share: PrivacyLoss, budget: Budget) -> tuple[Facts, dict[int, Any]]:
        tables = total(rows, Occurrences.over(tuple(self.columns))).tables
        shown = budget.discover(tables, discovery(budget.relation, len(self.columns), share), "levels")
        found = dict(zip(self.columns, shown, strict=True))
        if few := [self.columns[place] for place, levels in found.items() if len(levels) < 2]:
            budget.warn(
                f"Fewer than two levels of {list_names(few)} have enough rows to be shown, so made-up ones stand there; list the levels, "
                "use more rows, a larger epsilon or delta."
            )
        return facts, found


@dataclass(frozen=True, eq=False)
class PrivateBounds(MissingFact):
    """The bounds of some columns of numbers."""

    unknown: UnknownBounds
    names: Sequence[Any]  # of these columns

    def buy(self, rows: Rows, facts: Facts, share: PrivacyLoss, budget: Budget) -> tuple[Facts, dict[int, Any]]:
        found = buy_bounds(partial(total, rows), self.unknown, share, budget, facts.n_samples)
        if unseen := [name for name, is_seen in zip(self.names, found.is_seen, strict=True) if not is_seen]:
            budget.warn(
                f"The noisy counts show no rows of {list_names(unseen)}, so the bounds are {PLACEHOLDER} there, and what lies beyond is "
                "clipped; give bounds, use more rows or a larger epsilon."
            )
        return facts, dict(zip(self.unknown.columns, zip(found.low.tolist(), found.high.tolist(), strict=True), strict=True))


def private_columns(table: TableFormat, rows: Rows, n_levels: int) -> tuple[Schema, tuple[MissingFact, ...]]:
    """Return the coded schema of a table with placeholders, at most as many levels each, and what of it is still to be bought."""
    coded = table.schema.coded
    missing: list[MissingFact] = []
    if levels := {place: name for place, (name, kind) in enumerate(coded.items()) if isinstance(kind, Nominal) and kind.stand_in}:
        if not rows.source.is_readable:
            raise ValueError("schema must list all levels where rows lie elsewhere, got 'private', as which occur is no sum; list them.")
        missing.append(PrivateLevels(levels))
    dtypes = [dtype for name, dtype in zip(table.schema, table.dtypes, strict=True) if table.schema.is_coded(name)]
    if (unknown := columns_without_bounds(coded, dtypes)) is not None:
        missing.append(PrivateBounds(unknown, [list(coded)[place] for place in unknown.columns]))
    return with_placeholder_kinds(coded, n_levels), tuple(missing)


class BoughtBounds(NamedTuple):
    low: np.ndarray
    high: np.ndarray
    is_seen: np.ndarray  # where counts showed any rows; elsewhere the bounds are (-1, 1)


def buy_bounds(
    total: Callable[[Any], Any], unknown: UnknownBounds, share: PrivacyLoss, budget: Budget, n_samples: int | None
) -> BoughtBounds:
    """Release counts of magnitudes and, where they can show something, of even cells between the bounds that these show.

    ``total(rule)`` aggregates all rows; `share` pays for both releases; `n_samples` is public or noisy, None where it is neither yet.
    """
    columns, n_columns = unknown.columns, len(unknown.columns)
    first, second = share.split([1, 1])
    finer = mechanism(EvenCells.sensitivity(budget.relation, n_columns), second, n_values=n_columns * _EVEN)
    is_clear = n_samples is None or noise_threshold(finer, 1, n_columns * _EVEN * len(_EVEN_WINDOWS)) <= _CLEAR * n_samples
    magnitudes = total(Magnitudes.over(columns)).query(budget.relation)
    coarse = mechanism(magnitudes.sensitivity, first if is_clear else share, n_values=len(magnitudes.values))
    noisy = budget.answer(magnitudes, coarse, "bounds: magnitudes").reshape(n_columns, -1)
    alarms = _noise_thresholds(coarse, _WINDOWS, noisy.size)
    n_samples = n_samples or max(1, int(np.median(noisy.sum(axis=1))))
    found = [
        _bounds_from_magnitudes(counts, alarms, coarse.deviation, n_samples, is_clear, ends)
        for counts, *ends in zip(noisy, unknown.least, unknown.most, strict=True)
    ]
    low, high = np.array([PLACEHOLDER if each is None else each for each in found]).T
    low, high = _round_to_dtypes(low, high, unknown)
    if is_clear:
        even = total(EvenCells.over(columns, low, high, _EVEN)).query(budget.relation)
        noisy = budget.answer(even, finer, "bounds: even cells").reshape(n_columns, -1)
        alarms = _noise_thresholds(finer, _EVEN_WINDOWS, noisy.size)
        found_finer = [_bounds_from_even_cells(*each, alarms, finer.deviation, n_samples) for each in zip(noisy, low, high, strict=True)]
        low, high = np.array(found_finer).T
        low, high = _round_to_dtypes(low, high, unknown)
    return BoughtBounds(low, high, np.array([each is not None for each in found]))


def noise_threshold(noise: Mechanism, width: int, n_windows: int) -> float:
    """Return the value that the noise of a sum of `width` counts exceeds in any of `n_windows` windows with a chance of at most 1 %.

    By Chernoff's bound: the noise of a count has E exp(tZ) <= 1 / (1 - (t s)**2) (Laplace, below 1 / s) or exp((t s)**2 / 2) (Gaussian).
    """
    least, scale = math.log(n_windows / _FALSE_ALARMS), float(max(noise.noise.scales))
    if isinstance(noise.noise, DiscreteGaussian):
        return scale * math.sqrt(2 * width * least)
    t = np.linspace(0.001, 0.999999, 1 << 10)
    return scale * float(np.min((least - width * np.log1p(-t * t)) / t))


def _noise_thresholds(noise: Mechanism, widths: Sequence[int], n_cells: int) -> list[tuple[int, float]]:
    return [(width, noise_threshold(noise, width, n_cells * len(widths))) for width in widths]


def occupied_cells(counts: np.ndarray, alarms: Sequence[tuple[int, float]]) -> np.ndarray:
    """Return the numbers of the cells in which rows are seen: post-processing of noisy counts.

    Windows that sum to more than noise explains are taken, the shortest first, and longer ones where nothing was seen yet: many small
    counts show together rows that none of them shows. `alarms` holds widths of windows, and the largest sum that noise makes of each.
    """
    is_seen = np.zeros(len(counts), dtype=bool)
    upto = np.concatenate([[0], np.cumsum(counts)])
    for width, most in alarms:
        for start in np.flatnonzero(upto[width:] - upto[:-width] > most):
            if not is_seen[start : start + width].any():
                is_seen[start : start + width] = True
    return np.flatnonzero(is_seen)


def _bounds_from_magnitudes(
    counts: np.ndarray, alarms: Sequence[tuple[int, float]], deviation: float, n_samples: int, is_clear: bool, ends: Sequence[float]
) -> tuple[float, float] | None:
    """Choose bounds from the noisy counts of magnitudes; None where nothing is seen.

    They are those of the cells that are seen, and a power of two more on either side: clipping is costly, room to spare is cheap. Without a
    second count to take back the excess, none is added if all rows are seen, and two powers if a cell must hold many rows to be seen; and
    where a quarter of the rows is not seen, the bounds are equally far from 0 on either side.
    """
    counts = np.where((MAGNITUDES[1:] >= ends[0]) & (MAGNITUDES[:-1] <= ends[1]), counts, 0)  # what the dtype cannot hold is noise
    middle = len(counts) // 2  # the cell of 0
    cells = occupied_cells(counts, alarms)
    if len(others := cells[cells != middle]):  # cells much farther from 0, or much nearer to it, than that of most nonzero numbers go
        usual = abs(others[np.argmax(counts[others])] - middle)
        cells = cells[(cells == middle) | (np.abs(np.abs(cells - middle) - usual) <= _FARTHEST)]
    if not len(cells):
        return None
    start, stop, room = int(cells[0]), int(cells[-1]) + 1, 1
    if not is_clear:
        unseen = n_samples - counts[start:stop].sum()
        room = 0 if unseen <= _SURE * deviation * math.sqrt(stop - start) else 1 + (alarms[0][1] > _DOUBTFUL * n_samples)
        if room and unseen > _MANY * n_samples:
            start, stop = min(start, len(counts) - stop), max(stop, len(counts) - start)
    start = start if start == middle else max(start - room, 0)
    stop = stop if stop == middle + 1 else min(stop + room, len(counts))
    low, high = float(MAGNITUDES[start]), float(MAGNITUDES[stop])
    # Numbers in the cell of 0 are 0, and so is an end next to it, as far as even cells tell.
    from_zero, to_zero = start == middle or 0 < low <= high / _EVEN, stop == middle + 1 or low / _EVEN <= high < 0
    low, high = 0.0 if from_zero else low, 0.0 if to_zero else high
    return (low, high) if low < high else PLACEHOLDER


def _bounds_from_even_cells(
    counts: np.ndarray, low: float, high: float, alarms: Sequence[tuple[int, float]], deviation: float, n_samples: int
) -> tuple[float, float]:
    """Cut bounds to where noisy counts of even cells show rows, with room for rows that they do not show; post-processing.

    An exponential tail has the last of n rows log(n) of its lengths away, and the last that is seen at log(n / alarm): so the range is
    stretched by the ratio. Where more rows may lie beyond than noise explains, nothing is cut.
    """
    cells = occupied_cells(counts, alarms)
    if not len(cells) or (low, high) == PLACEHOLDER:
        return low, high
    start, stop = int(cells[0]), int(cells[-1]) + 1
    ratio = math.log(max(n_samples, 3)) / math.log(max(n_samples / max(alarms[0][1], 1.0), math.e))
    room = max(1, math.ceil((min(ratio, _MOST_STRETCH) - 1) / 2 * (stop - start)))
    start, stop = max(start - room, 0), min(stop + room, len(counts))
    n_beyond = len(counts) - (stop - start)
    if counts.sum() - counts[start:stop].sum() > _LIKELY * deviation * math.sqrt(n_beyond):
        return low, high
    edges = np.linspace(low, high, len(counts) + 1)
    return float(edges[start]), float(edges[stop])


def _round_to_dtypes(low: np.ndarray, high: np.ndarray, unknown: UnknownBounds) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds that their dtypes can hold; those of whole numbers are rounded outward, and at least 1 apart."""
    least, most = unknown.least, unknown.most
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    low = np.where(unknown.whole, np.clip(np.floor(low), least, most - 1), low)
    return low, np.where(unknown.whole, np.clip(np.ceil(high), low + 1, most), high)
