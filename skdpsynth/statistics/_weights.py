"""Exact sums of rows by survey weights: a row of weight w counts as w equal rows, and how far one row moves them then."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity
from skdpsynth.frames import Chunk, Rows
from skdpsynth.persistence import savable
from skdpsynth.statistics._aggregator import Aggregator
from skdpsynth.statistics._linked import Weights

_STEPS = 1 << 10  # of weights that are not whole


@savable
@dataclass(frozen=True)
class SurveyWeights:
    """The public facts about a column of weights; as a map, it puts the whole-number weight of each row last.

    A weight is clipped to ``[low, high]``, so `high` is the cap; negative and missing ones count as `low`. Then it is rounded to the
    nearest multiple of `unit`. All of this is public, and treats each row by itself.
    """

    place: int  # of the column
    low: float
    high: float
    unit: float

    @classmethod
    def within(cls, place: int, low: float, high: float, is_whole: bool) -> "SurveyWeights":
        """Return the weights of a column with public bounds: whole ones as they are, others in 1024 steps up to the cap."""
        return cls(place, float(low), float(high), 1.0 if is_whole else float(high) / _STEPS)

    @property
    def total(self) -> int:
        """The cap in units: as so many rows the row of the largest weight counts."""
        return round(self.high / self.unit)

    @property
    def usual(self) -> float:
        """A public guess of the mean weight."""
        return (self.low + self.high) / 2

    def whole(self, weights: np.ndarray) -> np.ndarray:
        """Return weights in units, as int64."""
        clipped = np.where(weights >= self.low, np.minimum(weights, self.high), self.low)  # no comparison with NaN holds
        return np.minimum(np.rint(clipped / self.unit), self.total).astype(np.int64)

    def __call__(self, chunk: Chunk) -> Chunk:
        return [*chunk, self.whole(np.asarray(chunk[self.place], dtype=float))]

    def weigh(self, rows: Rows) -> Rows:
        """Return rows, chunks of which are lists of columns, whose sums are weighted from now on."""
        fields = {name: getattr(rows, name) for name in ("source", "n_features", "n_samples", "n_jobs", "dtype")}
        return WeighedRows(**fields, maps=(*rows.maps, self)).materialize()

    def sensitivity(self, of_row: Sensitivity) -> Sensitivity:
        """Return how far a row with its weight moves a statistic that an unweighted row moves so far: a public fact.

        Let (x, w) become (x', w'), with whole weights up to the cap C. Put the w rows that are equal to x beside the w' equal to x'. Then
        min(w, w') rows are replaced, and ``|w - w'|`` come or go: these are max(w, w') <= C steps from one table of equal weights to a
        neighbor. Where a row comes or goes under add/remove, w <= C steps are. So by the triangle inequality all norms grow by C, if a row
        that comes or goes moves the statistic by no more than one that is replaced: this holds for each statistic of a table, as each
        states itself, and a test compares them all. Counts of k tables move by C k in l1 under add/remove and by 2 C k under replace-one,
        C**2 k and 2 C**2 k in squared l2, and C in sup. It is attained where both weights are C.

        Under replace-one the number of rows is public, but the sum of the weights moves by up to C less the least weight: so nothing may
        take it for public.
        """
        moved = Weights(self.place, self.total).sensitivity(lambda _: of_row, of_row.relation)
        return replace(moved, statistic=(*(moved.statistic or ()), ("survey", 1)))  # tells them from those of linked tables

    def query(self, of_rows: Query) -> Query:
        return Query(of_rows.values, self.sensitivity(of_rows.sensitivity))


@savable
@dataclass(frozen=True, eq=False)
class BesideWeights:
    """A map of all columns but the last, which stays."""

    change: Any

    def __call__(self, chunk: Chunk) -> Chunk:
        return [*self.change(chunk[:-1]), chunk[-1]]


@savable
@dataclass(frozen=True, eq=False)
class WeighedSums(Aggregator):
    """Sums by another rule, in which each row counts as often as its weight says, the last column.

    A sum over rows is linear. So where a rule has no weights of its own, rows are summed for each binary digit of theirs, and the sums
    added in proportion to the digits: exact, and the same as of a table in which each row is repeated.
    """

    rule: Any

    def zero(self) -> Any:
        return self.rule.zero()

    @property
    def n_values(self) -> int:
        return self.rule.n_values

    def add(self, statistic: Any, chunk: Chunk) -> Any:
        *columns, weights = chunk
        if getattr(self.rule, "weight", 0) is None:
            return replace(self.rule, weight=len(columns)).add(statistic, chunk)
        for digit in range(int(weights.max(initial=0)).bit_length()):
            rows = np.flatnonzero(weights >> digit & 1)
            statistic = statistic.with_sums(statistic.flat + (self.rule.of([column[rows] for column in columns]).flat << digit))
        return statistic


@dataclass(frozen=True, eq=False, repr=False)
class WeighedRows(Rows):
    """Rows whose last column are their weights, which maps leave alone, and sums count by."""

    def map(self, change: Callable[[Chunk], Chunk], n_features: int | None = None) -> Rows:
        return super().map(BesideWeights(change), n_features)

    def aggregate(self, rule: Any) -> Any:
        return super().aggregate(WeighedSums(rule))
