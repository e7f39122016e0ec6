"""Plans as data frames, words and pictures."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from skdpsynth._text import format_number
from skdpsynth._validation import check_choice, is_real, short_repr
from skdpsynth.model_selection._plan_setting import Measure

_LIKE_GUESSING = 0.75  # of the error without data
_LIKE_PUBLISHING = 1.25  # times the error without privacy


@dataclass(frozen=True, eq=False)
class Point:
    """Simulated errors at one budget."""

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


@dataclass(frozen=True, eq=False)
class SpendingPlan:
    """Expected errors of an estimator by epsilon, from public facts alone. `plan` makes it; print it, or look at its `plot`.

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
        """Yield what each delta and number of rows a unit gives by epsilon, under the words that tell them apart."""
        deltas, units = ({getattr(point, name) for point in self.points} for name in ("delta", "unit_rows"))
        for (delta, unit_rows), points in groupby(self.points, lambda point: (point.delta, point.unit_rows)):
            words = [f"delta={delta:g}"] * (len(deltas) > 1) + [_rows_of_unit(unit_rows)] * (len(units) > 1)
            yield ", ".join(words), list(points)

    def to_frame(self) -> Any:
        """Return a data frame of pandas with a row for each budget and measure.

        Returns
        -------
        frame : DataFrame
            With the columns epsilon, delta, unit_rows, measure, error (mean of the repeats), spread (their standard deviation), n_repeats,
            no_privacy, no_data, and too_few_rows (whether the fit warned of it).
        """
        import pandas as pd

        rows = [
            (point.epsilon, point.delta, point.unit_rows, measure.name, *numbers, len(point.errors), *references, point.is_small)
            for point in self.points
            for measure, *both in zip(self.measures, point.mean, point.spread, self.no_privacy, self.no_data, strict=True)
            for numbers, references in [(both[:2], both[2:])]
        ]
        names = "epsilon delta unit_rows measure error spread n_repeats no_privacy no_data too_few_rows"
        return pd.DataFrame(rows, columns=names.split())

    def smallest_epsilon(self, error: float, measure: str | None = None, *, delta: Any = None, unit_rows: Any = None) -> float:
        """Return about the smallest epsilon whose error is expected to be at most `error`.

        Between the epsilons of the plan it is read off straight lines on logarithmic scales; below the first there is no answer but that.
        Mean errors that rise with epsilon, by the luck of few tables, are first replaced by their common mean.

        Parameters
        ----------
        error : float
        measure : str, default=None
            One of the names in `measures`. None: the main one.
        delta : float, default=None
            One of those planned. None: the first.
        unit_rows : int, default=None
            One of those planned. None: the first.

        Returns
        -------
        epsilon : float

        Raises
        ------
        ValueError
            If no epsilon of the plan is enough, or a parameter is not one of the plan.
        """
        if not is_real(error) or not error > 0:
            raise ValueError(f"error must be a number greater than 0, got {short_repr(error)}; no finite epsilon gives none at all.")
        error = float(min(error, sys.float_info.max))
        names = [each.name for each in self.measures]
        place = names.index(check_choice("measure", names[0] if measure is None else measure, names))
        points = self._line(delta, unit_rows)
        errors = _isotonic_means(points, place)
        reached = np.flatnonzero(errors <= error)
        if not len(reached):
            raise ValueError(
                f"error must be at least {errors[-1]:.3g}, what epsilon={points[-1].epsilon:g} gives, got {short_repr(error)} "
                f"(without privacy: {self.no_privacy[place]:.3g}); plan for larger epsilons, or more rows."
            )
        first = int(reached[0])
        if not first or errors[first] <= 0:
            return points[first].epsilon
        before, after = np.log(errors[first - 1]), np.log(errors[first])
        low, high = math.log(points[first - 1].epsilon), math.log(points[first].epsilon)
        return math.exp(low + (high - low) * float((before - math.log(error)) / (before - after)))

    def _line(self, delta: Any, unit_rows: Any) -> list[Point]:
        wanted = {"delta": delta, "unit_rows": unit_rows}
        points = list(self.points)
        for name, value in wanted.items():
            planned = list(dict.fromkeys(getattr(point, name) for point in points))
            if value is not None and not (is_real(value) and value in planned):
                raise ValueError(
                    f"{name} must be one of those planned, {', '.join(f'{each:g}' for each in planned)}, got {short_repr(value)}."
                )
            points = [point for point in points if getattr(point, name) == (planned[0] if value is None else value)]
        return points

    def plot(self, ax: Any = None, *, measure: str | None = None) -> Any:
        """Draw the errors by epsilon, between what no privacy and what no data gives. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes for one measure. None: a new figure, with axes for each measure (or for `measure`).
        measure : str, default=None
            One of the names in `measures`. None: all of them; the main one, where `ax` is given.

        Returns
        -------
        figure : matplotlib Figure
        """
        from skdpsynth.plotting import PlanDisplay

        return PlanDisplay.from_plan(self).plot(ax, measure=measure).figure_

    def __repr__(self) -> str:
        n_budgets = len(self.points)
        return f"<SpendingPlan of {self.estimator} for {self.n_samples:,} rows: {n_budgets} budgets; print it, or plot()>"

    def __str__(self) -> str:
        return "\n".join([self._heading(), "", *self._table(), "", *self._legend(), "", *self._words()])

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        table = [_html_row(head, "th"), *(_html_row(row, "td") for row in rows)]
        words = [*self._legend(), *self._words()]
        lines = "".join(f"<p>{escape(sentence.lstrip('- '))}</p>" for sentence in words)
        return f"<div><p><b>{escape(self._heading())}</b></p><table>{''.join(table)}</table>{lines}</div>"

    def _heading(self) -> str:
        less = f" ({self.n_simulated:,} of them simulated, with epsilon as much larger)" if self.n_simulated < self.n_samples else ""
        deltas = {point.delta for point in self.points}
        delta = f", delta={min(deltas):g}" if len(deltas) == 1 else ""
        units = {point.unit_rows for point in self.points}
        unit = f", {_rows_of_unit(min(units))}" if len(units) == 1 and max(units) > 1 else ""
        promise = f"{self.neighboring}{delta}{unit}"
        return f"{self.estimator} on {self.n_samples:,} rows{less}, {promise}: errors to expect, simulated on {self.rows}"

    def _cells(self) -> list[list[str]]:
        """Return the cells of the table, a header first."""
        shown_lines = list(self.lines())
        rows = [["epsilon", *(measure.name for measure in self.measures), ""]]
        rows.append(["no data", *map(format_number, self.no_data), ""])
        for words, points in shown_lines:
            if words:
                rows.append([words, *[""] * len(self.measures), ""])
            rows += [_cells_of(point) for point in points]
        rows.append(["no privacy", *map(format_number, self.no_privacy), ""])
        return rows

    def _table(self) -> list[str]:
        rows = self._cells()
        widths = [max(len(row[place]) for row in rows if place or row[1] or not place) for place in range(len(rows[0]))]
        return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def _legend(self) -> list[str]:
        legend = [f"- {measure.name}: {measure.title}" for measure in self.measures]
        n_repeats = max(len(point.errors) for point in self.points)
        if n_repeats > 1:
            legend.append(f"- ±: standard deviation from table to table; each error is the mean of {n_repeats} simulated ones")
        return legend

    def _words(self) -> list[str]:
        words = []
        for name, points in self.lines():
            one = min(points, key=lambda point: abs(math.log(point.epsilon)))
            told = self.measures[0].sentence.format(format_number(one.mean[0]))
            end = f"(without data {format_number(self.no_data[0])}, without privacy {format_number(self.no_privacy[0])})."
            name = name or (_rows_of_unit(one.unit_rows) if one.unit_rows > 1 else "")
            words.append(f"At epsilon {one.epsilon:g}{f' and {name}' if name else ''}, {told} {end}")
            words += _limits(points, self.no_data[0], self.no_privacy[0])
        if any(point.is_small for point in self.points):
            words.append("* the fit warns that, by public numbers, rows are too few for this budget.")
        return words


def _limits(points: list[Point], no_data: float, no_privacy: float) -> list[str]:
    """Say from which epsilon on more buys little, and up to which nothing is learned, unless the references lie too close."""
    if no_data < 2 * no_privacy:
        return []
    words, errors = [], _isotonic_means(points, 0)
    poor = [point.epsilon for point, error in zip(points, errors, strict=True) if error > _LIKE_GUESSING * no_data]
    rich = [point.epsilon for point, error in zip(points, errors, strict=True) if error < _LIKE_PUBLISHING * no_privacy]
    if poor:
        words.append(f"Up to epsilon {max(poor):g} the result is hardly better than a guess without data.")
    if rich:
        words.append(f"From epsilon {min(rich):g} on more buys little: the error is nearly that without privacy.")
    return words


def _isotonic_means(points: list[Point], place: int) -> np.ndarray:
    """Return the mean errors that fit best among those that fall with epsilon.

    In expectation more epsilon is no worse. A running minimum would fall too, but it would keep a lucky dip for all later epsilons.
    """
    return isotonic_regression([point.mean[place] for point in points], increasing=False)


def _rows_of_unit(unit_rows: int) -> str:
    return f"{unit_rows} row{'s' * (unit_rows > 1)} a unit"


def _cells_of(point: Point) -> list[str]:
    spreads = [f" ±{format_number(spread)}" if spread == spread else "" for spread in point.spread]
    cells = [f"{format_number(mean)}{spread}" for mean, spread in zip(point.mean, spreads, strict=True)]
    return [f"{point.epsilon:g}", *cells, "*" if point.is_small else ""]


def _html_row(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
