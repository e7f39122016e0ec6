"""Display of private measures."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import check_attributes, check_choice, short_repr
from skdpsynth.measures import BinaryPartition, Lattice
from skdpsynth.plotting._display import POSITIVE, SECOND, SIGNED, SYNTHETIC, Display, headline, panels, shorten, tidy

_MOST_DRAWN = 1500  # cells to draw one by one; more are drawn as a grid
_MOST_EDGED = 400
_MOST_WHOLE = 2000  # whole numbers that have a step each
_MOST_VECTORS = 100  # shapes; more become pixels, so that SVG files stay small
_AT_ONCE = 1 << 14  # cells
_LARGEST = 160.0  # area of an atom, in points squared


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

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first panel, or the Axes that was given.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

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

    weights: Any
    low: Any
    high: Any
    ends: Any
    names: Any
    signed: Any = None
    whole: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any, features: Any = None) -> Self:
        """Read the measure of a fitted estimator.

        Parameters
        ----------
        estimator : PrivateMeasureMechanism, SignedMeasureMechanism, or an estimator with one as ``synthesizer_``
            Fitted. For a `LowDimSynthesizer` the axes are components.
        features : sequence of one or two, str or int, default=None
            Columns to draw, by name or place; the measure of more columns is summed over the others. None: the first two, or the only one.

        Returns
        -------
        display : MeasureDisplay

        Raises
        ------
        ValueError
            If the estimator has no measure, its cells are neither boxes nor points, or `features` are no columns of it.
        """
        check_attributes("estimator", estimator, ("fit",), "a fitted synthesizer")
        check_is_fitted(estimator)
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
        low, high, box = _places(measure.partition, cells, levels)
        names = [f"component {i + 1}" for i in range(low.shape[1])] if owner is inner else _names(owner, low.shape[1])
        chosen = _feature_places(features, names)
        ends = np.column_stack([box.low, box.high])[chosen]
        return cls(
            weights, low[:, chosen], high[:, chosen], ends, tuple(str(names[i]) for i in chosen), signed, bool(box.whole[chosen].all())
        )

    def plot(self, ax: Any = None, *, kind: str = "auto", title: str | None = None, **options: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place; an Axes is divided if there are two panels. None: a new figure.
        kind : {"auto", "measure", "both"}, default="auto"
            "measure": the probability measure. "both": the signed measure beside it, at one scale. "auto": both, where there are both.
        title : str, default=None
        **options : dict
            Passed to the drawing function of matplotlib: ``stairs`` on one axis; on two axes ``pcolormesh`` for a grid, ``PolyCollection``
            for cells, ``scatter`` for atoms.

        Returns
        -------
        display : MeasureDisplay
            Itself.
        """
        check_choice("kind", kind, ("auto", "measure", "both"))
        if kind == "both" and self.signed is None:
            raise ValueError("kind='both' needs a signed measure, which a fitted SignedMeasureMechanism has; use kind='measure'.")
        both = self.signed is not None and kind != "measure"
        on_line = len(self.names) == 1
        size = (6.0 + 3.4 * both, 3.2) if on_line else (4.6 + 3.6 * both, 3.9 + 0.4 * both)
        axes, whole = panels(ax, (1, 1 + both), size, sharex=True, sharey=True)
        drawn = [self.signed, self.weights] if both else [self.weights]
        draw = self._draw_line if on_line else self._draw_plane
        draw(axes, drawn, options)
        if both:
            for one, words in zip(axes.flat, ("released: signed", "nearest probability measure"), strict=True):
                one.set_title(words, fontsize=9)
        headline(axes, whole, title)
        return self._remember_axes(axes, whole)

    @property
    def _are_points(self) -> bool:
        return bool((self.low == self.high).all())

    def _draw_line(self, axes: Any, drawn: list[np.ndarray], options: dict[str, Any]) -> None:
        for one, weights in zip(axes.flat, drawn, strict=True):
            color = SECOND if weights is self.signed else SYNTHETIC
            if self._are_points:
                one.vlines(self.low[:, 0], 0, weights, color=color, **options)
            else:
                steps = probability_steps if self.whole and np.ptp(self.ends[0]) <= _MOST_WHOLE else density_steps
                edges, density = steps(self.low[:, 0], self.high[:, 0], weights, tuple(self.ends[0]))
                one.stairs(density, edges, **{"fill": True, "color": color, "alpha": 0.8, "linewidth": 0, **options})
            one.axhline(0, color="0.4", linewidth=0.8)
            one.set_xlabel(shorten(self.names[0]))
            one.set_xlim(self.ends[0][0] - 0.5 * self.whole, self.ends[0][1] + 0.5 * self.whole)
            tidy(one)
        axes.flat[0].set_ylabel("probability" if self._are_points or self.whole else "probability per unit")

    def _draw_plane(self, axes: Any, drawn: list[np.ndarray], options: dict[str, Any]) -> None:
        draw = self._draw_atoms if self._are_points else self._draw_cells
        images = draw(axes, drawn, options)
        for one in axes.flat:
            one.set(xlim=self.ends[0], ylim=self.ends[1], xlabel=shorten(self.names[0]))
            if np.ptp(self.ends[0]) == np.ptp(self.ends[1]):
                one.set_aspect("equal")
        axes.flat[0].set_ylabel(shorten(self.names[1]))
        label = "probability" if self._are_points else "probability per unit of area"
        axes.flat[0].figure.colorbar(images, ax=list(axes.flat), label=label, shrink=0.85, pad=0.02)

    def _draw_cells(self, axes: Any, drawn: list[np.ndarray], options: dict[str, Any]) -> Any:
        one_by_one = len(self.weights) <= _MOST_DRAWN and self._are_disjoint()
        if one_by_one:
            shades = [weights / np.prod(self.high - self.low, axis=1) for weights in drawn]
        else:
            shades = [self._grid(weights) for weights in drawn]
        scale = _scale(shades)
        image = None
        for one, values in zip(axes.flat, shades, strict=True):
            if one_by_one:
                image = self._cells(one, values, {**scale, **options})
            else:
                x, y = (np.linspace(ends[0], ends[1], len(values) + 1) for ends in self.ends)
                image = one.pcolormesh(x, y, values.T, rasterized=True, **{**scale, **options})
        return image

    def _are_disjoint(self) -> bool:
        """Whether the cells are disjoint, hence not of a marginal: then their areas add up to at most that of the bounds."""
        area = np.prod(self.high - self.low, axis=1).sum()
        return bool(area <= np.prod(np.ptp(self.ends, axis=1)) * (1 + 1e-9))

    def _grid(self, weights: np.ndarray) -> np.ndarray:
        mass = mass_grid(self.low, self.high, weights, self.ends)
        return mass * mass.size / np.prod(np.ptp(self.ends, axis=1))

    def _cells(self, ax: Any, values: np.ndarray, options: dict[str, Any]) -> Any:
        from matplotlib.collections import PolyCollection

        (x0, y0), (x1, y1) = self.low.T, self.high.T
        corners = np.stack([np.column_stack(pair) for pair in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], axis=1)
        edges = {"edgecolor": "0.75", "linewidth": 0.4} if len(values) <= _MOST_EDGED else {"edgecolor": "face", "linewidth": 0.2}
        span = {name: options.pop(name) for name in ("vmin", "vmax")}
        cells = PolyCollection(list(corners), array=values, rasterized=len(values) > _MOST_VECTORS, **{**edges, **options})
        cells.set_clim(**span)
        return ax.add_collection(cells)

    def _draw_atoms(self, axes: Any, drawn: list[np.ndarray], options: dict[str, Any]) -> Any:
        scale, image = _scale(drawn), None
        most = max(np.abs(weights).max() for weights in drawn)
        for one, weights in zip(axes.flat, drawn, strict=True):
            some = np.flatnonzero(weights)
            some = some[np.argsort(np.abs(weights[some]), kind="stable")]
            style = {"s": _LARGEST * np.abs(weights[some]) / most, "c": weights[some], "edgecolors": "0.4", "linewidths": 0.3}
            if len(some) > _MOST_VECTORS:
                style |= {"edgecolors": "none", "rasterized": True}
            image = one.scatter(*self.low[some].T, **{**scale, **style, **options})
        return image


def _scale(shades: list[np.ndarray]) -> dict[str, Any]:
    """Return one color scale for all panels, with white at 0."""
    most = max(np.abs(values).max() for values in shades) or 1.0
    if min(values.min() for values in shades) < 0:
        return {"cmap": SIGNED, "vmin": -most, "vmax": most}
    return {"cmap": POSITIVE, "vmin": 0, "vmax": most}


def _places(partition: Any, cells: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return lower corners, upper corners and box of cells; both corners of a point are equal."""
    corners = cell_corners(partition, cells, levels)
    if corners is not None:
        return *corners, getattr(partition, "partition", partition).box
    if not hasattr(partition, "positions"):
        raise ValueError(
            f"estimator must have cells that are boxes or points, but those of {type(partition).__name__} are neither; draw its samples by "
            "SynthesisDisplay."
        )
    points = partition.positions[cells]
    return points, points, partition.box


def _names(owner: Any, n_features: int) -> list[Any]:
    names = getattr(owner, "feature_names_in_", None)
    return [f"column {i}" for i in range(n_features)] if names is None else list(names)


def _feature_places(features: Any, names: list[Any]) -> list[int]:
    if features is None:
        return list(range(min(2, len(names))))
    given = features
    features = [features] if isinstance(features, str | int) else list(features) if isinstance(features, list | tuple) else []
    if not all(isinstance(feature, str | int | np.integer) for feature in features):
        features = []
    places = [names.index(feature) if feature in names else feature for feature in features]
    if not 1 <= len(places) <= 2 or not all(isinstance(place, int | np.integer) and 0 <= place < len(names) for place in places):
        raise ValueError(f"features must be one or two of the {len(names)} columns, by name or place, got {short_repr(given)}.")
    return [int(place) for place in places]


def cell_corners(partition: Any, cells: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return lower and upper corners, each (n_cells, n_features), of cells that are boxes; None for points."""
    partition = getattr(partition, "partition", partition)  # a partition of the caller's is wrapped
    if isinstance(partition, Lattice):
        low = partition.box.low + partition.coordinates[cells] * partition.sides
        return low, low + partition.sides
    if not isinstance(partition, BinaryPartition):
        return None
    n_features = partition.box.n_features
    low, high = np.empty((len(cells), n_features)), np.empty((len(cells), n_features))
    for level in np.unique(levels):
        these = np.flatnonzero(levels == level)
        sides = partition.box.width / 2.0 ** partition.cuts(int(level))
        low[these] = partition.box.low + np.column_stack(partition.corners(cells[these], int(level))) * sides
        high[these] = low[these] + sides
    return low, high


def density_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return edges on one axis and the densities between them; intervals may overlap, as those of a marginal do."""
    edges = np.unique(np.concatenate([low, high, ends]))
    density = weights / (high - low)
    rise = np.zeros(len(edges))
    np.add.at(rise, np.searchsorted(edges, low), density)
    np.add.at(rise, np.searchsorted(edges, high), -density)
    return edges, np.cumsum(rise)[:-1]


def probability_steps(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
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


def mass_grid(low: np.ndarray, high: np.ndarray, weights: np.ndarray, ends: np.ndarray, size: int = 128) -> np.ndarray:
    """Return the mass in each cell of an even grid on two axes, (size, size): a box gives by the share of its overlap."""
    mass = np.zeros((size, size))
    for start in range(0, len(weights), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        across, up = (_overlaps(low[some, axis], high[some, axis], ends[axis], size) for axis in (0, 1))
        mass += (across * weights[some, None]).T @ up
    return mass


def _overlaps(low: np.ndarray, high: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    edges = np.linspace(ends[0], ends[1], size + 1)
    length = np.minimum(high[:, None], edges[1:]) - np.maximum(low[:, None], edges[:-1])
    return np.maximum(length, 0) / (high - low)[:, None]
