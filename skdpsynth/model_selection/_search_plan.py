"""Plan of a search, from public facts alone, before anything is charged."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning

from skdpsynth._parallel import cached_property
from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth._sklearn import take_rows
from skdpsynth._validation import short_repr
from skdpsynth.domain import Box, Schema
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.fitting import Budget, Facts, Plan, check_part
from skdpsynth.frames import Rows
from skdpsynth.privacy import Mechanism, PrivacyLoss, mechanism, split_exactly
from skdpsynth.statistics import RowCount
from skdpsynth.tables import encode

N_POINTS = 1 << 14  # points that a model draws for comparison
_DIRECTIONS = 64
_GRID = 1 << 10  # cells along a direction
_REACH = 0.75  # of the length of a direction, on either side of the middle: rows beyond are clipped
_STEPS, _SUMMANDS = 16, 4  # sums of uniform numbers: nearly as uniform on the sphere as normal ones, and whole
_PARTS = 8  # of a column, where pairs of columns are counted
_MOST_PAIRS = 300
_SEED = 7  # of directions and pairs: they are public, and the same in all searches of so many columns
SCORINGS = ("auto", "sliced_wasserstein", "marginals", "captured_variance")
_CHOICE, _SCORES = 1, 1  # shares of the budget of held-out rows for the choice and for the shown scores
_COUNT = Fraction(1, 20)  # share of it for their number, if that is private


@dataclass(frozen=True)
class Utility(ABC):
    """A criterion for comparing candidates, within a public box of points."""

    box: Box

    def query(self, utilities: list[int], relation: str) -> Query:
        return Query(np.array(utilities, dtype=np.int64), self.sensitivity_of(len(utilities), relation))

    def sensitivity_of(self, n_candidates: int, relation: str) -> Sensitivity:
        """Return the sensitivity of the utilities of candidates: under both relations, each moves by `sensitivity` at most."""
        told = statistic_facts("utilities", candidates=n_candidates, **self.told)
        return Sensitivity(relation, n_candidates * self.sensitivity, n_candidates * self.sensitivity**2, self.sensitivity, statistic=told)

    def of(self, points: np.ndarray, model: Any, rng: np.random.Generator) -> int:
        """Return the utility of a fitted model for held-out points, drawing a sample of the model by `rng`."""
        rows = self.counts(self.box.quantize(points))
        drawn = self.counts(self.box.quantize(model._sample_points(N_POINTS, rng)))
        return -int(np.abs(N_POINTS * rows - len(points) * drawn).sum())

    @property
    @abstractmethod
    def told(self) -> dict[str, Any]:
        """Return public numbers from which the sensitivity follows."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """Return how far one row, added, removed or replaced, moves the utility of a model, with a proof."""

    @abstractmethod
    def counts(self, cells: np.ndarray) -> np.ndarray:
        """Return int64 counts of rows, from their places on the grid of the box."""

    @abstractmethod
    def score(self, utility: Any, n_rows: int) -> Any:
        """Scale a utility, perhaps with noise, for people; 0 is best."""


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
    def told(self) -> dict[str, Any]:
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

    def score(self, utility: Any, n_rows: int) -> Any:
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
    def told(self) -> dict[str, Any]:
        return {"scoring": "marginals", "pairs": len(self.pairs), "points": N_POINTS}

    @property
    def sensitivity(self) -> int:
        return 2 * N_POINTS * len(self.pairs)

    def counts(self, cells: np.ndarray) -> np.ndarray:
        """Return how many rows are in each cell of each pair, shape (n_pairs, 64)."""
        parts = (cells * _PARTS) >> self.box.bits
        codes = (parts[:, pair[0]] * _PARTS + parts[:, pair[-1]] for pair in self.pairs)
        return np.array([np.bincount(code, minlength=_PARTS**2) for code in codes], dtype=np.int64)

    def score(self, utility: Any, n_rows: int) -> Any:
        return utility / (2 * max(n_rows, 1) * N_POINTS * len(self.pairs))


@dataclass(frozen=True)
class CapturedVariance(Utility):
    """Share of the squared distance of rows from the mean that the components keep.

    The utility is the sum over rows of a whole number from 0 to S: S times the squared length of the row, less the mean, along the
    components, over a quarter of the squared diagonal of the box, rounded down and cut off at S.

    *Sensitivity.* A row adds a number from 0 to S, so the utility moves by at most **S**, added, removed or replaced.
    """

    @property
    def told(self) -> dict[str, Any]:
        return {"scoring": "captured_variance", "most": N_POINTS}

    @property
    def sensitivity(self) -> int:
        return N_POINTS

    def counts(self, cells: np.ndarray) -> np.ndarray:
        raise AssertionError("a variance is no count")

    def of(self, points: np.ndarray, model: Any, rng: np.random.Generator) -> int:
        unit, largest = self.box.step.max(), (1 << self.box.bits) - 1
        # Whole numbers below 2**53 until the square, so that a row counts the same beside any others.
        basis = np.rint(np.clip(model.components_, -1, 1) * (self.box.step / unit) * (1 << 10))
        center = self.box.quantize(np.asarray(model.mean_)[None, :])
        along = ((self.box.quantize(points) - center).astype(float) @ basis.T).astype(np.int64) >> 10
        quarter = float(((self.box.step / unit * largest) ** 2).sum()) / 4
        shares = np.minimum((along**2).sum(axis=1) / quarter * N_POINTS, N_POINTS)
        return int(np.floor(shares).astype(np.int64).sum())

    def score(self, utility: Any, n_rows: int) -> Any:
        """Return the mean over rows, as a share of a quarter of the squared diagonal."""
        return utility / (max(n_rows, 1) * N_POINTS)


def make_utility(scoring: str, box: Box) -> Utility:
    kinds: dict[str, Any] = {"sliced_wasserstein": SlicedDistance, "marginals": MarginalDistance, "captured_variance": CapturedVariance}
    made: Utility = kinds[scoring](box)
    return made


@dataclass(frozen=True)
class Run:
    """A candidate that the estimator does not refuse."""

    place: int  # among all candidates
    loss: PrivacyLoss  # of its fit on the training rows
    told: Sequence[Any]  # warnings of its refit, as (text, category)
    final_spends_delta: bool


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


def plan_search(
    part_of: Callable[[dict[str, Any]], Any],
    params: list[dict[str, Any]],
    facts: Facts,
    scoring: str,
    share: float | None,
    holdout: float,
    raises: bool,
) -> SearchPlan:
    """Plan a search of `params`, whose unfitted estimators `part_of` makes.

    `share` is the share of the search in the budget (None: all of it, and no refit). With `raises`, a refused candidate ends the search.
    """
    weights = [1] if share is None else [share, 1 - share]
    epsilons, deltas = split_exactly(facts.epsilon, weights), split_exactly(facts.delta, weights)
    final = None if share is None else facts.part(epsilon=epsilons[1], delta=deltas[1])
    n_training = None if facts.n_samples is None else facts.n_samples - n_held_out(facts.n_samples, holdout)
    search = facts.part(epsilon=epsilons[0], delta=deltas[0], n_samples=n_training)
    runs, training = _runs(part_of, params, facts, search, final, raises)
    box = facts.box if facts.schema is None else _unit_box(facts.schema)
    utility, relation, asking = make_utility(scoring, box), facts.neighboring, PrivacyLoss(search.epsilon)
    first, rest = asking.split([_COUNT, 1 - _COUNT]) if facts.n_samples is None else (None, asking)
    choice, scores = rest.split([_CHOICE, _SCORES])
    return SearchPlan(
        any(run.loss.delta or run.final_spends_delta for run in runs),
        n_samples=facts.n_samples,
        params=params,
        runs=runs,
        training=_restore_bounds(training),
        final=None if final is None else _restore_bounds(final),
        learning=PrivacyLoss(search.epsilon, sum(run.loss.delta for run in runs)),
        asking=asking,
        utility=utility,
        schema=facts.schema,
        choice=choice,
        noise=mechanism(utility.sensitivity_of(len(runs), relation), scores, ("laplace",), len(runs)),
        count=None if first is None else mechanism(RowCount(0).query(relation).sensitivity, first, ("laplace",)),
    )


def _runs(
    part_of: Callable[[dict[str, Any]], Any], params: list[dict[str, Any]], facts: Facts, search: Facts, final: Facts | None, raises: bool
) -> tuple[list[Run], Facts]:
    """Return the accepted candidates and the facts of each fit; refused ones get no share.

    Candidates are asked again once shares have grown, because others were refused.
    """
    places = list(range(len(params)))
    while places:
        training = replace(search, epsilon=search.epsilon / len(places), delta=search.delta / len(places))
        runs, doubts = [], []
        for place in places:
            asked = [each.part(n_samples=each.n_samples or 1) for each in (training, final) if each is not None]
            parts = [part_of(params[place]) for _ in asked]  # a name that is no parameter ends the search
            try:
                plans = [check_part(*each) for each in zip(parts, asked, strict=True)]
            except ValueError as error:
                if raises:
                    raise
                facts.warn(f"{describe_candidate(params[place])} is refused, so the search goes on without it: {error}", FitFailedWarning)
                continue
            loss = PrivacyLoss(training.epsilon, training.delta if plans[0].spends_delta else 0)
            told = asked[-1].told if final and facts.n_samples is not None else ()  # otherwise it would mention a made-up number of rows
            runs.append(Run(place, loss, told, final is not None and plans[-1].spends_delta))
            doubts.append(any(category is SmallSampleWarning for _, category in asked[0].told))
        if len(runs) == len(places):
            if all(doubts) and facts.n_samples is not None:
                share = float(training.epsilon)
                facts.warn(
                    f"Each of {len(runs)} candidates is fitted with epsilon={share:.3g} on {training.n_samples} rows, which "
                    "are so few that their comparison may be noise; use a smaller param_grid, more rows or a larger epsilon."
                )
            return runs, training
        places = [run.place for run in runs]
    raise ValueError("param_grid must hold a candidate that the estimator takes, but all are refused; error_score='raise' says why.")


def _restore_bounds(facts: Facts) -> Facts:
    """Return facts for an estimator that reads its table itself, so its bounds stay as the caller wrote them."""
    return facts.part(box=None, schema=None)


def _unit_box(schema: Schema) -> Box:
    width = encode([np.zeros(0, dtype=np.int64)] * len(schema.coded), schema).shape[1]
    return Box(np.zeros(width), np.ones(width))


def points_of(chunk: Any, plan: SearchPlan) -> np.ndarray:
    """Return rows as points of the box in which models are compared."""
    return np.asarray(chunk) if plan.schema is None else encode(chunk, plan.schema)


def describe_candidate(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={short_repr(value)}" for name, value in params.items()) or "the estimator as it is"


def n_held_out(n_samples: int, holdout: float) -> int:
    """Return the number of held-out rows among a public number of rows: at least one, and not all."""
    return min(max(1, round(holdout * n_samples)), n_samples - 1)


def held_out_mask(rows: Rows, n_samples: int | None, holdout: float, budget: Budget) -> np.ndarray:
    """Return which rows of a table in memory are held out; `n_samples` is None where it is private.

    For neighboring tables, one part is the same and the other is the same or a neighbor:

    - "replace_one": positions are drawn at random, without a look at the rows; the row that is replaced stands at one position, in one
      part.
    - "add_or_remove_one": one more row would shift all later positions. A keyed hash of its own cells sends each row to a part, whatever
      other rows there are, so one more row is one more row in one part. Equal rows stay together.
    """
    rng = budget.rng.child("split")
    if n_samples is not None:
        chosen = np.zeros(n_samples, dtype=bool)
        chosen[rng.generator().permutation(n_samples)[: n_held_out(n_samples, holdout)]] = True
        return chosen
    return _hashes(rows.collected(), rng.bytes(16)) < int(holdout * 2**64)


def _hashes(table: Any, key: bytes) -> np.ndarray:
    """Return a keyed 64-bit hash of each row; equal numbers have equal hashes, whatever their dtype."""
    columns = table if isinstance(table, list) else list(np.asarray(table).T)
    numbers = np.column_stack([np.asarray(column, dtype=float) for column in columns]) + 0.0  # no minus zero
    numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
    hashed = [blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in numbers]
    return np.frombuffer(b"".join(hashed), dtype=np.uint64)


def select_rows(X: Any, chosen: np.ndarray) -> Any:
    return take_rows(X, np.flatnonzero(chosen))
