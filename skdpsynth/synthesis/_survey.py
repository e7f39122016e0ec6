"""Sampling designs, of equal chances or with survey weights: what a fit sums, what its noise covers, and how rows are sampled."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._sensitivity import Query
from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Schema, is_name
from skdpsynth.fitting import Budget, Facts
from skdpsynth.frames import Rows
from skdpsynth.privacy import Mechanism, PrivacyLoss
from skdpsynth.statistics import SurveyWeights, WeighedSums

_MOST_ROWS = 10**9  # times epsilon, of a unit: for noise on more of them 64 bits are too few
_TOSSES = 16  # for each row that is drawn, in the mean


class Design:
    """Rows that were drawn each alike, as those of a table without weights: nothing is to be done for them."""

    has_public_sum = True  # of counts, where the number of rows is public
    n_model_rows = 1  # that are drawn of the model for each row like one of the data

    def weigh(self, rows: Rows) -> Rows:
        return rows

    def facts(self, facts: Facts) -> Facts:
        return facts

    def budget(self, budget: Budget) -> Budget:
        return budget

    def results(self, found: dict[str, Any], public: int | None) -> dict[str, Any]:
        """Return the fitted attributes, from those of a release; `public` is the number of rows, if it is."""
        return found

    def with_numbers_of(self, model: BaseEstimator) -> "Design":
        """Return this with the numbers of rows and people of a fitted model."""
        return self

    def check_conditions(self, conditions: Collection[Hashable]) -> None:
        """Refuse a condition that no row may meet."""

    def fill(self, columns: Sequence[np.ndarray], population: float | None = None) -> Sequence[np.ndarray]:
        """Return model rows as rows each of which stands for the population alike."""
        return columns

    def fill_blocks(self, blocks: Iterable[Sequence[np.ndarray]]) -> Iterator[Sequence[np.ndarray]]:
        return iter(blocks)

    def select(self, columns: Sequence[np.ndarray], n_samples: int, rng: np.random.Generator) -> Sequence[np.ndarray]:
        """Return so many of the model rows, as those of the data were drawn."""
        return columns

    def weights_of(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the column by which rows count, if they count by one."""
        return []

    def sum(self, rule: Any, columns: Sequence[np.ndarray]) -> Any:
        """Return sums of rows; the last column is that of `weights_of`, here and below."""
        return rule.of(list(columns))

    def draw(self, columns: Sequence[np.ndarray], n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Return the places of rows of another sample, with replacement."""
        return rng.integers(len(columns[0]), size=n_samples)

    def estimate_population(self, sum_of_counts: float, columns: Sequence[np.ndarray]) -> float | None:
        """Return the estimate of the population from counts of such a sample; None: that of the fit."""
        return None


def design_of(weights: Hashable | None, schema: Schema) -> Design:
    """Return how rows were drawn by the public facts about the column of weights, or refuse it."""
    if weights is None:
        return Design()
    schema = schema.coded
    if not is_name(weights) or weights not in schema:
        raise ValueError(f"weights must be a column of schema, got {short_repr(weights)}; give its name.")
    kind = schema[weights]
    if not isinstance(kind, Continuous) or kind.bounds is not None or kind.stand_in is not None:
        raise ValueError(
            f"weights must be a column of numbers with public bounds, of which the upper one is the cap, but {short_repr(weights)} is "
            "none; give (low, cap) for it."
        )
    if kind.low < 0 or kind.high <= 0 or (kind.integer and kind.high >= 1 << 31):
        raise ValueError(f"weights must have bounds from 0 to below 2**31, but {short_repr(weights)} has {kind.low:g} to {kind.high:g}.")
    if any(weights in rule.columns_named for rule in schema.rules):
        raise ValueError(f"weights must be a column that no rule constrains, got {short_repr(weights)}; leave the rule out.")
    place = list(schema).index(weights)
    return SurveyDesign(weights, SurveyWeights.within(place, kind.low, kind.high, kind.integer), bool(kind.integer))


class WeighedBudget(Budget):
    """A budget for queries of weighted rows: the sensitivity that is recorded, and that noise must cover, is that of a weighted row.

    Plans have made the noise for as many rows as the cap, `weighed_facts`; so the two agree, and the account checks that they do.
    """

    def __init__(self, budget: Budget, weights: SurveyWeights) -> None:
        super().__init__(lambda: budget.accountant, budget.rng, budget.warnings, budget.relation)
        self._weights = weights

    def answer(self, query: Query, chosen: Mechanism, name: str) -> np.ndarray:
        return super().answer(self._weights.query(query), replace(chosen, sensitivity=self._weights.sensitivity(chosen.sensitivity)), name)

    def choose(self, utilities: Query, share: PrivacyLoss, name: str) -> int:
        return super().choose(self._weights.query(utilities), share, name)


@dataclass(frozen=True)
class SurveyDesign(Design):
    """The design by which a sample with weights stands for a population, by public or released numbers.

    A row of weight w was drawn with a probability in proportion to 1 / w. So from rows by their law in the population, a sample with
    replacement with probabilities in proportion to 1 / w, each row counted w times, has the error of such a design (Hansen and Hurwitz); a
    design without replacement or with strata has less, one with clusters more. Where the number of rows is private it is that of tosses.
    """

    name: Hashable  # of the column
    weights: SurveyWeights
    is_whole: bool  # whether the weights in the table are whole
    population: float = 0.0  # sum of the weights, as estimated, in their units
    n_samples: int = 0  # rows of the survey, public or estimated
    is_public: bool = False  # whether `n_samples` is

    has_public_sum = False  # though the number of rows is public, the sum of their weights is not
    n_model_rows = 16

    def weigh(self, rows: Rows) -> Rows:
        return self.weights.weigh(rows)

    def facts(self, facts: Facts) -> Facts:
        """Return the facts of a plan for weighted rows: each may count as often as the cap says, and the sum of weights is private."""
        if facts.missing:
            raise ValueError("schema and bounds must be public where weights are given, got 'private'; state them.")
        rows = facts.rows_per_unit * self.weights.total
        if rows > _MOST_ROWS * facts.epsilon:
            raise ValueError(
                f"weights must have a cap of at most epsilon * 1e9 over max_rows_per_unit, got {self.weights.total} (in steps) with "
                f"epsilon={float(facts.epsilon):g}: the noise on each count grows with it; use a smaller one."
            )
        return replace(facts, n_samples=None, rows_per_unit=rows)

    def budget(self, budget: Budget) -> Budget:
        return WeighedBudget(budget, self.weights)

    def results(self, found: dict[str, Any], public: int | None) -> dict[str, Any]:
        """Tell the number of rows from the sum of their weights, unless it is public."""
        population, error = found["n_samples_"] * self.weights.unit, found["_size_error"] * self.weights.unit
        n_samples, size_error = max(1, round(population / self.weights.usual)), error / self.weights.usual
        numbers = {"n_samples_": public or n_samples, "_size_error": 0.0 if public else size_error}
        return {**found, **numbers, "population_": population}

    def with_numbers_of(self, model: BaseEstimator) -> "SurveyDesign":
        if not hasattr(model, "population_"):
            raise ValueError(f"weights must be those of the fit, got {short_repr(self.name)}, but rows were counted without; fit again.")
        is_public = model.neighboring == "replace_one"
        return replace(self, population=model.population_ / self.weights.unit, n_samples=model.n_samples_, is_public=is_public)

    def check_conditions(self, conditions: Collection[Hashable]) -> None:
        if self.name in conditions:
            raise ValueError(f"conditions must leave out the column of weights, {short_repr(self.name)}, which is alike in all rows.")

    def fill(self, columns: Sequence[np.ndarray], population: float | None = None, start: int = 0) -> list[np.ndarray]:
        """Return columns of self-weighting rows: the weight is the mean one in all, or, of whole weights, a whole number beside it.

        These sum to the mean times the number of rows, rounded.
        """
        weights, population = self.weights, self.population if population is None else population
        mean = min(max(population * weights.unit / self.n_samples, weights.low), weights.high)
        steps = np.arange(start, start + len(columns[0]) + 1) * mean
        filled = np.diff(np.floor(steps)) if self.is_whole else np.full(len(columns[0]), mean)
        return [filled if place == weights.place else column for place, column in enumerate(columns)]

    def fill_blocks(self, blocks: Iterable[Sequence[np.ndarray]]) -> Iterator[list[np.ndarray]]:
        start = 0
        for columns in blocks:
            yield self.fill(columns, start=start)
            start += len(columns[0])

    def select(self, columns: Sequence[np.ndarray], n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Draw rows systematically: the expected number of times that one is drawn is in proportion to 1 / w."""
        upto = np.cumsum(_inverse(*self.weights_of(columns)))
        points = (np.arange(n_samples) + rng.random()) * (upto[-1] / n_samples)
        rows = rng.permutation(np.minimum(np.searchsorted(upto, points), len(upto) - 1))
        return [column[rows] for column in columns]

    def weights_of(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [self.weights.whole(np.asarray(columns[self.weights.place], dtype=float))]

    def sum(self, rule: Any, columns: Sequence[np.ndarray]) -> Any:
        return WeighedSums(rule).of(list(columns))

    def draw(self, columns: Sequence[np.ndarray], n_samples: int, rng: np.random.Generator) -> np.ndarray:
        inverse = _inverse(columns[-1])
        n_drawn = self.n_samples
        if not self.is_public:
            tosses = rng.random(_TOSSES * max(1, round(self.population * inverse.mean())))
            n_drawn = max(1, int((tosses < 1 / _TOSSES).sum()))
        return rng.choice(len(inverse), n_drawn, p=inverse / inverse.sum())

    def estimate_population(self, sum_of_counts: float, columns: Sequence[np.ndarray]) -> float:
        """The weights of model rows may sum to another population than the released tables tell."""
        expected = self.n_samples / float(_inverse(columns[-1]).mean()) if self.is_public else self.population
        return sum_of_counts * self.population / expected


def _inverse(whole: np.ndarray) -> np.ndarray:
    return 1.0 / np.maximum(whole, 1)
