"""Survey weights around the releases of a table: their column, the budget that covers them, and samples as a survey draws them."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skdpsynth._sensitivity import Query
from skdpsynth._validation import short_repr
from skdpsynth.domain import Continuous, Schema, is_name
from skdpsynth.fitting import Budget, Facts
from skdpsynth.privacy import Mechanism, PrivacyLoss
from skdpsynth.statistics import SurveyWeights

_MOST_ROWS = 10**9  # times epsilon, of a unit: for noise on more of them 64 bits are too few
_TOSSES = 16  # for each row that is drawn, in the mean
POOL = 16  # times the rows of a sample: so many model rows it is drawn from


def survey_weights(column: Hashable, schema: Schema) -> SurveyWeights:
    """Return the public facts about a column of weights, or refuse it."""
    if not is_name(column) or column not in schema:
        raise ValueError(f"weights must be a column of schema, got {short_repr(column)}; give its name.")
    kind = schema[column]
    if not isinstance(kind, Continuous) or kind.bounds is not None or kind.stand_in is not None:
        raise ValueError(
            f"weights must be a column of numbers with public bounds, of which the upper one is the cap, but {short_repr(column)} is none; "
            "give (low, cap) for it."
        )
    if kind.low < 0 or kind.high <= 0 or (kind.integer and kind.high >= 1 << 31):
        raise ValueError(f"weights must have bounds from 0 to below 2**31, but {short_repr(column)} has {kind.low:g} to {kind.high:g}.")
    if any(column in rule.columns_named for rule in schema.rules):
        raise ValueError(f"weights must be a column that no rule constrains, got {short_repr(column)}; leave the rule out.")
    return SurveyWeights.within(list(schema).index(column), kind.low, kind.high, kind.integer)


def weighed_facts(facts: Facts, weights: SurveyWeights) -> Facts:
    """Return the facts of a plan for weighted rows: each may count as often as the cap says, and the sum of weights is private."""
    if facts.missing:
        raise ValueError("schema and bounds must be public where weights are given, got 'private'; state them.")
    rows = facts.rows_per_unit * weights.total
    if rows > _MOST_ROWS * facts.epsilon:
        raise ValueError(
            f"weights must have a cap of at most epsilon * 1e9 over max_rows_per_unit, got {weights.total} (in steps) with "
            f"epsilon={float(facts.epsilon):g}: the noise on each count grows with it; use a smaller one."
        )
    return replace(facts, n_samples=None, rows_per_unit=rows)


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
class SurveyDesign:
    """The design by which a sample with weights stands for a population, by public or released numbers.

    A row of weight w was drawn with a probability in proportion to 1 / w. So from rows by their law in the population, a sample with
    replacement with probabilities in proportion to 1 / w, each row counted w times, has the error of such a design (Hansen and Hurwitz); a
    design without replacement or with strata has less, one with clusters more. Where the number of rows is private it is that of tosses.
    """

    weights: SurveyWeights
    population: float  # sum of the weights, as estimated, in their units
    n_samples: int  # rows of the survey, public or estimated
    is_public: bool  # whether `n_samples` is
    is_whole: bool  # whether the weights in the table are whole

    def fill(self, columns: Sequence[np.ndarray], population: float, start: int = 0) -> list[np.ndarray]:
        """Return columns of self-weighting rows: the weight is the mean one in all, or, of whole weights, a whole number beside it.

        These sum to the mean times the number of rows, rounded.
        """
        weights = self.weights
        mean = min(max(population * weights.unit / self.n_samples, weights.low), weights.high)
        steps = np.arange(start, start + len(columns[0]) + 1) * mean
        filled = np.diff(np.floor(steps)) if self.is_whole else np.full(len(columns[0]), mean)
        return [filled if place == weights.place else column for place, column in enumerate(columns)]

    def fill_blocks(self, blocks: Iterable[Sequence[np.ndarray]]) -> Iterator[list[np.ndarray]]:
        start = 0
        for columns in blocks:
            yield self.fill(columns, self.population, start)
            start += len(columns[0])

    def draw(self, whole: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the places of a sample with replacement from rows with these weights in units."""
        inverse = self._inverse(whole)
        n_drawn = self.n_samples
        if not self.is_public:
            tosses = rng.random(_TOSSES * max(1, round(self.population * inverse.mean())))
            n_drawn = max(1, int((tosses < 1 / _TOSSES).sum()))
        return rng.choice(len(whole), n_drawn, p=inverse / inverse.sum())

    def expected_sum(self, whole: np.ndarray) -> float:
        """Return the expected sum of the weights of such a sample, in units."""
        mean = float(self._inverse(whole).mean())
        return self.n_samples / mean if self.is_public else self.population

    def select(self, columns: Sequence[np.ndarray], n_samples: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return so many of the rows, drawn systematically: the expected number of times that one is drawn is in proportion to 1 / w."""
        upto = np.cumsum(self._inverse(self.weights.whole(np.asarray(columns[self.weights.place], dtype=float))))
        points = (np.arange(n_samples) + rng.random()) * (upto[-1] / n_samples)
        rows = rng.permutation(np.minimum(np.searchsorted(upto, points), len(upto) - 1))
        return [column[rows] for column in columns]

    @staticmethod
    def _inverse(whole: np.ndarray) -> np.ndarray:
        return 1.0 / np.maximum(whole, 1)
