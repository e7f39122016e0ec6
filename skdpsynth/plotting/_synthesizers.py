"""Displays of fitted synthesizers: measures and streams."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from skdpsynth._validation import as_numeric_array, check_choice, short_repr
from skdpsynth.domain import Box
from skdpsynth.measures import BinaryPartition, Lattice
from skdpsynth.plotting._display import Axes, Color, Display, Place, check_fitted, draw_mean_and_range, panels, shorten, tidy

_MOST_DRAWN = 1500  # cells to draw one by one; more are drawn as a grid
_MOST_EDGED = 400
_MOST_WHOLE = 2000  # whole numbers that have a step each
_MOST_VECTORS = 100  # shapes; more become pixels, so that SVG files stay small
_AT_ONCE = 1 << 14  # cells
_LARGEST = 160.0  # area of an atom, in points squared
_BLOCK_ROWS = 2000  # synthetic rows of a block for its quantiles
_LEVELS = (0.1, 0.5, 0.9)


@dataclass(eq=False, repr=False)
class MeasureDisplay(Display):
    """A measure on cells: a density on one axis, cells or atoms on two; of a signed mechanism, beside what was released first.

    Make it by `from_estimator`. The measure is released, so the picture is public.

    Parameters
    ----------
    weights : ndarray of shape (n_cells,)
        Probabilities of the cells.
    low, high : ndarray of shape (n_cells, 1 or 2)
        Corners of the cells on the axes that are drawn; equal where cells are points.
    ends : ndarray of shape (1 or 2, 2)
        The public bounds of these axes.
    names : tuple of str
        Names of the axes.
    signed : ndarray of shape (n_cells,), default=None
        The weights before the nearest probability measure was sought.
    whole : bool, default=False
        Whether the only column holds whole numbers: then each has a step.

    {drawn}

    See Also
    --------
    skdpsynth.PrivateMeasureMechanism, skdpsynth.SignedMeasureMechanism : Estimators that have a measure.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.plotting import MeasureDisplay
    >>> pmm = PrivateMeasureMechanism(epsilon=1.0, bounds=(0, 1)).fit(np.random.default_rng(0).beta(2, 5, size=(5000, 2)))
    >>> display = MeasureDisplay.from_estimator(pmm)
    >>> len(display.weights) == pmm.measure_.n_cells
    True
    >>> figure = display.plot().figure_
    """

    weights: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ends: np.ndarray
    names: tuple[str, ...]
    signed: np.ndarray | None = None
    whole: bool = False

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, features: Sequence[Hashable] | None = None) -> Self:
        """Read the measure of a fitted synthesizer that has one, or whose ``synthesizer_`` does: then the axes are components.

        `features` are one or two columns to draw, by name or place; the measure of more columns is summed over the others. None: the first
        two, or the only one.
        """
        check_fitted("estimator", estimator, "a fitted synthesizer")
        inner = getattr(estimator, "synthesizer_", None)
        owner = estimator if inner is None else inner
        if not hasattr(owner, "measure_"):
            raise ValueError(f"estimator must have a measure_, but {type(owner).__name__} has none; draw its samples by SynthesisDisplay.")
        measure, signed = owner.measure_, getattr(owner, "signed_measure_", None)
        weights, cells, levels = measure.weights, measure.cells, measure.levels
        if signed is not None:
            weights = np.zeros(len(signed))
            weights[cells] = measure.weights
            cells, levels = np.arange(len(signed)), np.zeros(len(signed), dtype=np.int8)
        low, high, box = _corners(measure.partition, cells, levels)
        names = _names(owner, low.shape[1]) if inner is None else [f"component {i + 1}" for i in range(low.shape[1])]
        chosen = _feature_places(features, names)
        ends = np.column_stack([box.low, box.high])[chosen]
        return cls(weights, low[:, chosen], high[:, chosen], ends, tuple(names[i] for i in chosen), signed, bool(box.whole[chosen].all()))

    def plot(self, ax: Place = None, *, title: str | None = None, kind: str = "auto", **options: Any) -> Self:
        """Draw.

        {place}
        kind : {"auto", "measure", "both"}, default="auto"
            "measure": the probability measure. "both": the signed measure beside it, at one scale. "auto": both, where there are both.
        **options : dict
            Passed to the drawing function of matplotlib: ``stairs`` on one axis; on two axes ``pcolormesh`` for a grid, ``PolyCollection``
            for cells, ``scatter`` for atoms.

        {itself}
        """
        check_choice("kind", kind, ("auto", "measure", "both"))
        if kind == "both" and self.signed is None:
            raise ValueError("kind='both' needs a signed measure, which a fitted SignedMeasureMechanism has; use kind='measure'.")
        drawn = [self.weights] if self.signed is None or kind == "measure" else [self.signed, self.weights]
        both, on_line = len(drawn) == 2, len(self.names) == 1
        size = (6.0 + 3.4 * both, 3.2) if on_line else (4.6 + 3.6 * both, 3.9 + 0.4 * both)
        axes, whole = panels(ax, (1, len(drawn)), size, sharex=True, sharey=True)
        (self._draw_line if on_line else self._draw_plane)(axes, drawn, options)
        if both:
            axes[0, 0].set_title("released: signed", fontsize=9)
            axes[0, 1].set_title("nearest probability measure", fontsize=9)
        return self._finish(axes, whole, title)

    @property
    def _are_points(self) -> bool:
        return bool((self.low == self.high).all())

    def _draw_line(self, axes: np.ndarray, drawn: list[np.ndarray], options: dict[str, Any]) -> None:
        ends = self.ends[0]
        for one, weights in zip(axes.flat, drawn, strict=True):
            color = Color.SECOND if weights is self.signed else Color.SYNTHETIC
            if self._are_points:
                one.vlines(self.low[:, 0], 0, weights, color=color, **options)
            else:
                steps = _probability_steps if self.whole and np.ptp(ends) <= _MOST_WHOLE else _density_steps
                edges, density = steps(self.low[:, 0], self.high[:, 0], weights, ends)
                one.stairs(density, edges, **{"fill": True, "color": color, "alpha": 0.8, "linewidth": 0, **options})
            one.axhline(0, color="0.4", linewidth=0.8)
            one.set_xlabel(shorten(self.names[0]))
            one.set_xlim(ends[0] - 0.5 * self.whole, ends[1] + 0.5 * self.whole)
            tidy(one)
        axes.flat[0].set_ylabel("probability" if self._are_points or self.whole else "probability per unit")

    def _draw_plane(self, axes: np.ndarray, drawn: list[np.ndarray], options: dict[str, Any]) -> None:
        """Draw points as atoms, and cells one by one where they are few and disjoint, not those of a marginal; else as a grid."""
        areas, whole_area = np.prod(self.high - self.low, axis=1), np.prod(np.ptp(self.ends, axis=1))
        draw: Any = None
        if self._are_points:
            draw, shades = self._draw_atoms, drawn
        elif len(areas) <= _MOST_DRAWN and areas.sum() <= whole_area * (1 + 1e-9):
            draw, shades = self._draw_cells, [weights / areas for weights in drawn]
        else:
            masses = [_mass_grid(self.low, self.high, weights, self.ends) for weights in drawn]
            shades = [mass * mass.size / whole_area for mass in masses]
        most = max(np.abs(values).max() for values in shades) or 1.0
        is_signed = min(values.min() for values in shades) < 0
        scale = {"cmap": Color.SIGNED if is_signed else Color.POSITIVE, "vmin": -most if is_signed else 0, "vmax": most}  # white at 0
        for one, values in zip(axes.flat, shades, strict=True):
            if draw is None:
                x, y = np.linspace(self.ends[:, 0], self.ends[:, 1], len(values) + 1, axis=1)
                image = one.pcolormesh(x, y, values.T, rasterized=True, **{**scale, **options})
            else:
                image = draw(one, values, {**scale, **options})
            one.set(xlim=self.ends[0], ylim=self.ends[1], xlabel=shorten(self.names[0]))
            if np.ptp(self.ends[0]) == np.ptp(self.ends[1]):
                one.set_aspect("equal")
        axes.flat[0].set_ylabel(shorten(self.names[1]))
        label = "probability" if self._are_points else "probability per unit of area"
        axes.flat[0].figure.colorbar(image, ax=list(axes.flat), label=label, shrink=0.85, pad=0.02)

    def _draw_atoms(self, ax: Axes, weights: np.ndarray, style: dict[str, Any]) -> Any:
        some = np.flatnonzero(weights)
        some = some[np.argsort(np.abs(weights[some]), kind="stable")]
        edges = {"edgecolors": "0.4", "linewidths": 0.3} if len(some) <= _MOST_VECTORS else {"edgecolors": "none", "rasterized": True}
        sizes = _LARGEST * np.abs(weights[some]) / style["vmax"]
        return ax.scatter(*self.low[some].T, **{"s": sizes, "c": weights[some], **edges, **style})

    def _draw_cells(self, ax: Axes, values: np.ndarray, style: dict[str, Any]) -> Any:
        from matplotlib.collections import PolyCollection

        (x0, y0), (x1, y1) = self.low.T, self.high.T
        corners = np.stack([np.column_stack(pair) for pair in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)
        edges = {"edgecolor": "0.75", "linewidth": 0.4} if len(values) <= _MOST_EDGED else {"edgecolor": "face", "linewidth": 0.2}
        span = {name: style.pop(name) for name in ("vmin", "vmax")}
        cells = PolyCollection(list(corners), array=values, rasterized=len(values) > _MOST_VECTORS, **{**edges, **style})
        cells.set_clim(**span)
        return ax.add_collection(cells)


def _names(estimator: BaseEstimator, n_features: int) -> list[str]:
    return list(map(str, getattr(estimator, "feature_names_in_", [f"column {i}" for i in range(n_features)])))


def _corners(partition: Any, cells: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, Box]:
    """Return lower and upper corners of cells, each (n_cells, n_features), and their box; both corners of a point are equal."""
    boxes = getattr(partition, "partition", partition)  # a partition of the caller's is wrapped
    if isinstance(boxes, Lattice):
        low = boxes.box.low + boxes.coordinates[cells] * boxes.sides
        return low, low + boxes.sides, boxes.box
    if isinstance(boxes, BinaryPartition):
        low, high = np.empty((2, len(cells), boxes.box.n_features))
        for level in np.unique(levels):
            these = np.flatnonzero(levels == level)
            sides = boxes.box.width / 2.0 ** boxes.cuts(int(level))
            low[these] = boxes.box.low + np.column_stack(boxes.corners(cells[these], int(level))) * sides
            high[these] = low[these] + sides
        return low, high, boxes.box
    if not hasattr(partition, "positions"):
        raise ValueError(
            f"estimator must have cells that are boxes or points, but those of {type(partition).__name__} are neither; draw its samples by "
            "SynthesisDisplay."
        )
    return partition.positions[cells], partition.positions[cells], partition.box


def _feature_places(features: Sequence[Hashable] | None, names: list[str]) -> list[int]:
    if features is None:
        return list(range(min(2, len(names))))
    given = list(features) if isinstance(features, list | tuple) else [features]
    places: list[Any] = [names.index(feature) if isinstance(feature, str) and feature in names else feature for feature in given]
    if not 1 <= len(places) <= 2 or not all(isinstance(place, int | np.integer) and 0 <= place < len(names) for place in places):
        raise ValueError(f"features must be one or two of the {len(names)} columns, by name or place, got {short_repr(features)}.")
    return [int(place) for place in places]


def _density_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges on one axis and the densities between them; intervals may overlap, as those of a marginal do."""
    edges = np.unique(np.concatenate([low, high, ends]))
    density = weights / (high - low)
    rise = np.zeros(len(edges))
    np.add.at(rise, np.searchsorted(edges, low), density)
    np.add.at(rise, np.searchsorted(edges, high), -density)
    return edges, np.cumsum(rise)[:-1]


def _probability_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges between whole numbers, and their probabilities, as samples have them.

    A cell divides its mass evenly among its whole numbers; a cell without any gives it to the one nearest to its middle.
    """
    bottom, top = np.ceil(ends[0]), np.floor(ends[1])
    first = np.clip(np.ceil(low), bottom, top)
    stop = np.where(high >= ends[1], top + 1, np.minimum(np.ceil(high), top + 1))
    nearest = np.clip(np.rint((low + high) / 2), bottom, top)
    first, count = np.where(stop > first, first, nearest), np.maximum(stop - first, 1)
    rise = np.zeros(int(top - bottom) + 2)
    np.add.at(rise, (first - bottom).astype(np.int64), weights / count)
    np.add.at(rise, (first + count - bottom).astype(np.int64), -weights / count)
    return np.arange(bottom, top + 2) - 0.5, np.cumsum(rise)[:-1]


def _mass_grid(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: np.ndarray, size: int = 128) -> np.ndarray:
    """Return the mass in each cell of an even grid on two axes, (size, size): a box gives by the share of its overlap."""
    mass, edges = np.zeros((size, size)), np.linspace(ends[:, 0], ends[:, 1], size + 1, axis=1)
    for start in range(0, len(weights), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        length = np.minimum(high[some, :, None], edges[:, 1:]) - np.maximum(low[some, :, None], edges[:, :-1])
        shares = np.maximum(length, 0) / (high - low)[some, :, None]
        mass += (shares[:, 0] * weights[some, None]).T @ shares[:, 1]
    return mass


@dataclass(eq=False, repr=False)
class StreamDisplay(Display):
    """A stream along time: the synthetic rows of each block, or curves that were computed at some times.

    Make it by `from_estimator`, which reads what was released, so that the picture is public; or by `from_curves`.

    Parameters
    ----------
    times : ndarray of shape (n_blocks + 1,) or (n_times,)
        Ends of the blocks, or times of the curves.
    quantiles : ndarray of shape (n_features, n_blocks, 3), default=None
        10, 50 and 90 % of the synthetic rows of each block.
    curves : dict of str to ndarray of shape (n_runs, n_times), default=None
    names : tuple of str, default=()
        Names of the columns.
    now : int, default=None
        Current time of the stream: rows after the last block wait, and nothing of them is released.
    unit : str, default="rows"
        Unit of time.

    {drawn}

    See Also
    --------
    skdpsynth.OnlineSynthesizer : The estimator.
    skdpsynth.continual.KaryCounter : A counter along time, whose ``value`` at each time makes a curve.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import OnlineSynthesizer
    >>> from skdpsynth.plotting import StreamDisplay
    >>> model = OnlineSynthesizer(epsilon=1.0, bounds=(0, 1)).partial_fit(np.random.default_rng(0).beta(2, 5, size=(2000, 1)))
    >>> display = StreamDisplay.from_estimator(model)
    >>> display.quantiles.shape[0], display.now
    (1, 2000)
    >>> figure = display.plot().figure_
    """

    times: np.ndarray
    quantiles: Any = None
    curves: dict[str, np.ndarray] | None = None
    names: tuple[str, ...] = ()
    now: int | None = None
    unit: str = "rows"

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, random_state: int | np.random.RandomState | None = None) -> Self:
        """Draw 2000 synthetic rows of each block that was released, and take their quantiles.

        The stream has ``strategy="blocks"``, columns of numbers, and at least one block. The seed `random_state` may be chosen freely.
        """
        check_fitted("estimator", estimator, "a fitted OnlineSynthesizer")
        if not hasattr(estimator, "blocks_"):
            raise ValueError("estimator must be an OnlineSynthesizer with strategy='blocks', which keeps blocks; else use from_curves.")
        if not estimator.blocks_:
            raise ValueError("estimator must have released at least one block, but its first is still open; give it more rows.")
        starts, stops, models = zip(*estimator.blocks_, strict=True)
        rows = [np.asarray(model.sample(_BLOCK_ROWS, random_state=random_state), dtype=float) for model in models]
        quantiles = np.array([np.quantile(some, _LEVELS, axis=0).T for some in rows]).swapaxes(0, 1)
        has_ticks = hasattr(estimator, "n_ticks_seen_")
        now = int(estimator.n_ticks_seen_ if has_ticks else estimator.n_samples_seen_)
        times, names = np.array([*starts, stops[-1]]), tuple(_names(estimator, len(quantiles)))
        return cls(times, quantiles, None, names, now, "ticks" if has_ticks else "rows")

    @classmethod
    def from_curves(cls, times: ArrayLike, curves: Mapping[str, ArrayLike], unit: str = "rows") -> Self:
        """Keep curves over `times` by names, such as the ``value`` of a counter, or distances: (n_times,) or (n_runs, n_times) numbers.

        They are drawn as they are: curves that were computed from real rows are not private. `unit` is that of time.
        """
        times = as_numeric_array(times, "times")
        if not isinstance(curves, dict):
            raise TypeError(f"curves must be a dict of a name to its values at the times, got {short_repr(curves)}.")
        tables = {name: np.atleast_2d(as_numeric_array(curve, "curves", None).astype(float)) for name, curve in curves.items()}
        for name, table in tables.items():
            if table.ndim != 2 or table.shape[1] != len(times):
                raise ValueError(
                    f"curves must have a value for each of {len(times)} times, but {short_repr(name)} has shape {table.shape}; give "
                    "arrays of shape (n_runs, n_times)."
                )
        return cls(times, None, tables, unit=unit)

    def plot(self, ax: Place = None, *, title: str | None = None, scale: str = "linear", ylabel: str | None = None, **options: Any) -> Self:
        """Draw; of several runs the mean and the range.

        {place}
        scale : {"linear", "log"}, default="linear"
            "log": both axes of curves are logarithmic.
        ylabel : str, default=None
            Label of the values of curves.
        **options : dict
            Passed to ``Axes.plot``, for curves.

        {itself}
        """
        check_choice("scale", scale, ("linear", "log"))
        if self.curves is not None:
            axes, whole = panels(ax, (1, 1), (6.4, 3.8))
            one = axes[0, 0]
            for (name, table), color in zip(self.curves.items(), Color.SERIES * len(self.curves), strict=False):
                style = {"color": color, "marker": "o", "markersize": 3.5, "label": shorten(name, 40), **options}
                draw_mean_and_range(one, np.tile(self.times, len(table)), table.ravel(), **style)
            one.set(xscale=scale, yscale=scale, xlabel=f"{self.unit} so far", ylabel=ylabel or "")
            if len(self.curves) > 1:
                one.legend(frameon=False, fontsize=8)
            tidy(one)
            return self._finish(axes, whole, title)
        n = len(self.quantiles)
        axes, whole = panels(ax, (n, 1), (6.4, 1.5 + 1.5 * n), sharex=True)
        for one, name, quantiles in zip(axes.flat, self.names, self.quantiles, strict=True):
            low, middle, high = quantiles.T
            band = {"color": Color.SYNTHETIC, "alpha": 0.25, "linewidth": 0, "label": "10 to 90 % of a block"}
            one.stairs(high, self.times, baseline=low, fill=True, **band)
            one.hlines(middle, self.times[:-1], self.times[1:], color=Color.SYNTHETIC, linewidth=1.8, label="median")
            if self.now is not None and self.now > self.times[-1]:
                waits = f"{self.unit} that wait in the open block"
                one.axvspan(self.times[-1], self.now, color=Color.PALE, linewidth=0, zorder=0, label=waits)
            one.set_ylabel(shorten(name), fontsize=8.5)
            one.set_xlim(self.times[0], max(self.now or 0, self.times[-1]))
            tidy(one)
        axes.flat[-1].set_xlabel(f"{self.unit} so far")
        axes.flat[0].legend(frameon=False, fontsize=7.5, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
        return self._finish(axes, whole, title, pad=22)
