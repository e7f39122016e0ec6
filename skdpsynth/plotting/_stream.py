"""Display of streams."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import as_numeric_array, check_attributes, check_choice, short_repr
from skdpsynth.plotting._display import COLORS, PALE, SYNTHETIC, Display, draw_mean_and_range, headline, panels, shorten, tidy

_ROWS = 2000  # synthetic rows of a block for its quantiles
_LEVELS = (0.1, 0.5, 0.9)


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

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first panel, or the Axes that was given.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

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

    times: Any
    quantiles: Any = None
    curves: Any = None
    names: Any = ()
    now: Any = None
    unit: str = "rows"

    @classmethod
    def from_estimator(cls, estimator: Any, random_state: Any = None) -> Self:
        """Draw 2000 synthetic rows of each block that was released, and take their quantiles.

        Parameters
        ----------
        estimator : OnlineSynthesizer
            With ``strategy="blocks"``, of columns of numbers, after at least one block.
        random_state : int, RandomState or None, default=None
            Seed of the synthetic rows; it may be chosen freely.

        Returns
        -------
        display : StreamDisplay

        Raises
        ------
        ValueError
            If the estimator keeps no blocks, or none was released yet.
        """
        check_attributes("estimator", estimator, ("fit",), "a fitted OnlineSynthesizer")
        check_is_fitted(estimator)
        if not hasattr(estimator, "blocks_"):
            raise ValueError("estimator must be an OnlineSynthesizer with strategy='blocks', which keeps blocks; else use from_curves.")
        blocks = estimator.blocks_
        if not blocks:
            raise ValueError("estimator must have released at least one block, but its first is still open; give it more rows.")
        rows = [np.asarray(model.sample(_ROWS, random_state=random_state), dtype=float) for _, _, model in blocks]
        quantiles = np.array([np.quantile(some, _LEVELS, axis=0).T for some in rows]).swapaxes(0, 1)
        times = np.array([start for start, _, _ in blocks] + [blocks[-1][1]])
        ticks = getattr(estimator, "n_ticks_seen_", None)
        now = estimator.n_samples_seen_ if ticks is None else ticks
        names = getattr(estimator, "feature_names_in_", None)
        names = [f"column {i}" for i in range(len(quantiles))] if names is None else names
        return cls(times, quantiles, None, tuple(map(str, names)), int(now), "rows" if ticks is None else "ticks")

    @classmethod
    def from_curves(cls, times: Any, curves: Any, unit: str = "rows") -> Self:
        """Keep curves over time, such as the ``value`` of a counter, or distances at some times.

        Parameters
        ----------
        times : array-like of shape (n_times,)
        curves : dict of str to array-like of shape (n_times,) or (n_runs, n_times)
            By their names. They are drawn as they are: curves that were computed from real rows are not private.
        unit : str, default="rows"
            Unit of time.

        Returns
        -------
        display : StreamDisplay

        Raises
        ------
        ValueError
            If a curve has not one value for each time.
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

    def plot(self, ax: Any = None, *, scale: str = "linear", ylabel: str | None = None, title: str | None = None, **options: Any) -> Self:
        """Draw; of several runs the mean and the range.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place; an Axes is divided if there are several columns. None: a new figure.
        scale : {"linear", "log"}, default="linear"
            "log": both axes of curves are logarithmic.
        ylabel : str, default=None
            Label of the values of curves.
        title : str, default=None
        **options : dict
            Passed to ``Axes.plot``, for curves.

        Returns
        -------
        display : StreamDisplay
            Itself.
        """
        check_choice("scale", scale, ("linear", "log"))
        if self.curves is not None:
            return self._plot_curves(ax, scale, ylabel, title, options)
        n = len(self.quantiles)
        axes, whole = panels(ax, (n, 1), (6.4, 1.5 + 1.5 * n), sharex=True)
        for one, name, quantiles in zip(axes.flat, self.names, self.quantiles, strict=True):
            self._draw_blocks(one, name, quantiles)
        axes.flat[-1].set_xlabel(f"{self.unit} so far")
        axes.flat[0].legend(frameon=False, fontsize=7.5, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
        headline(axes, whole, title, pad=22)
        return self._remember_axes(axes, whole)

    def _draw_blocks(self, ax: Any, name: str, quantiles: np.ndarray) -> None:
        low, middle, high = quantiles.T
        ax.stairs(high, self.times, baseline=low, fill=True, color=SYNTHETIC, alpha=0.25, linewidth=0, label="10 to 90 % of a block")
        ax.hlines(middle, self.times[:-1], self.times[1:], color=SYNTHETIC, linewidth=1.8, label="median")
        if self.now is not None and self.now > self.times[-1]:
            ax.axvspan(self.times[-1], self.now, color=PALE, linewidth=0, zorder=0, label=f"{self.unit} that wait in the open block")
        ax.set_ylabel(shorten(name), fontsize=8.5)
        ax.set_xlim(self.times[0], max(self.now or 0, self.times[-1]))
        tidy(ax)

    def _plot_curves(self, ax: Any, scale: str, ylabel: str | None, title: str | None, options: dict[str, Any]) -> Self:
        axes, _ = panels(ax, (1, 1), (6.4, 3.8))
        one = axes[0, 0]
        for number, (name, table) in enumerate(self.curves.items()):
            style = {"color": COLORS[number % len(COLORS)], "marker": "o", "markersize": 3.5, "label": shorten(name, 40), **options}
            draw_mean_and_range(one, np.tile(self.times, len(table)), table.ravel(), **style)
        one.set(xscale=scale, yscale=scale, xlabel=f"{self.unit} so far", ylabel=ylabel or "")
        if len(self.curves) > 1:
            one.legend(frameon=False, fontsize=8)
        tidy(one)
        headline(axes, None, title)
        return self._remember_axes(axes)
