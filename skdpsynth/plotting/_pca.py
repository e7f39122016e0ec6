"""Display of private principal components."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.frames import Table
from skdpsynth.metrics import captured_variance_ratio
from skdpsynth.plotting._display import (
    Axes,
    Color,
    Display,
    Place,
    check_fitted,
    draw_mean_and_range,
    label_epsilons,
    panels,
    shorten,
    tidy,
)

_MOST = 30  # eigenvalues that are drawn
_MOST_NAMED = 16  # columns that are named
_REFERENCE = "PCA, not private"


@dataclass(eq=False, repr=False)
class PrivatePCADisplay(Display):
    """Private principal components: their variances beside those of noise alone, or how they change along epsilon.

    Make it by `from_estimator`, or by `from_estimators` for a path of fits.

    Parameters
    ----------
    epsilons : ndarray of shape (n_fits,)
    loadings : ndarray of shape (n_fits, n_components, n_features)
        Components, each with the sign nearer to the fits of largest epsilon.
    names : tuple of str
        Names of the columns.
    captured : ndarray of shape (n_fits,), default=None
        Variance that they capture of the rows that were given, over that of as many components of PCA.
    variances : ndarray of shape (n_features,), default=None
        Eigenvalues of the noisy covariance of one fit, the largest first; some may be negative.
    noise_edge : float, default=0.0
        The largest eigenvalue that noise alone is likely to show.

    {drawn}

    See Also
    --------
    skdpsynth.PrivatePCA : The estimator.
    skdpsynth.metrics.captured_variance_ratio : The share that is drawn over epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA
    >>> from skdpsynth.plotting import PrivatePCADisplay
    >>> X = np.random.default_rng(0).random((5000, 1)) * [0.2, 0.5, 1.0]
    >>> display = PrivatePCADisplay.from_estimator(PrivatePCA(n_components=1, bounds=(0, 1)).fit(X))
    >>> display.variances.shape
    (3,)
    >>> figure = display.plot().figure_
    """

    epsilons: np.ndarray
    loadings: np.ndarray
    names: tuple[str, ...]
    captured: np.ndarray | None = None
    variances: np.ndarray | None = None
    noise_edge: float = 0.0

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator) -> Self:
        """Read a fitted `PrivatePCA`, or that of a `LowDimSynthesizer`: the picture is as public as the fit."""
        pca = _pca_of(estimator, "estimator")
        display = cls.from_estimators([pca])
        display.variances, display.noise_edge = np.linalg.eigvalsh(pca.covariance_)[::-1], float(pca.noise_edge_)
        return display

    @classmethod
    def from_estimators(cls, estimators: Mapping[str, BaseEstimator] | Sequence[BaseEstimator], X: Table = None) -> Self:
        """Read several fits of the same columns, at several epsilons, or several times at each.

        Parameters
        ----------
        estimators : sequence of PrivatePCA
            Fitted, with equally many components. Their epsilons add up, where they were fitted to the same rows.
        X : array-like of shape (n_samples, n_features), default=None
            Rows whose captured variance is computed. They are read unprotected, so that picture is **not private**: use public rows. None:
            the path of the loadings alone, which is as public as the fits.
        """
        if not isinstance(estimators, list | tuple):
            raise TypeError(f"estimators must be a list of fitted PrivatePCAs, got {short_repr(estimators)}.")
        if not estimators:
            raise ValueError("estimators must hold at least one fitted PrivatePCA, got none.")
        pcas = [_pca_of(estimator, "estimators") for estimator in estimators]
        if len({pca.components_.shape for pca in pcas}) > 1:
            raise ValueError("estimators must have equally many components of the same columns, but they differ; set n_components.")
        pcas.sort(key=lambda pca: float(pca.epsilon))
        loadings = np.array([pca.components_ for pca in pcas], dtype=float)
        # A component has no sign of its own: each fit gets that of the last one, which noise moved least.
        signs = np.where((loadings * loadings[-1]).sum(axis=2, keepdims=True) < 0, -1.0, 1.0)
        names = tuple(map(str, getattr(pcas[0], "feature_names_in_", range(loadings.shape[2]))))
        captured = None if X is None else np.array([captured_variance_ratio(X, components) for components in loadings])
        epsilons = np.array([float(pca.epsilon) for pca in pcas])
        return cls(epsilons, loadings * signs, names, captured)

    def plot(self, ax: Place = None, *, title: str | None = None, kind: str = "auto", **options: Any) -> Self:
        """Draw.

        {place}
        kind : {"auto", "scree", "captured", "loadings"}, default="auto"
            "scree": eigenvalues beside the noise edge. "captured": the captured variance over epsilon, the mean and range of the fits at
            each. "loadings": the components, of one fit as shades, of a path over epsilon. "auto": the first of these that there is.
        **options : dict
            Passed to ``Axes.plot``, for the line of "scree" and "captured".

        {itself}
        """
        check_choice("kind", kind, ("auto", "scree", "captured", "loadings"))
        if kind == "auto":
            kind = "scree" if self.variances is not None else "loadings" if self.captured is None else "captured"
        if kind == "loadings":
            return self._plot_shades(ax, title) if len(self.loadings) == 1 else self._plot_paths(ax, title)
        axes, _ = panels(ax, (1, 1), (6.0, 3.4 if kind == "scree" else 3.6))
        style = {"color": Color.SYNTHETIC, "marker": "o", **options}
        if kind == "scree":
            if self.variances is None:
                raise ValueError("kind='scree' needs one fit; make the display by from_estimator.")
            self._draw_scree(axes[0, 0], self.variances, style)
        else:
            if self.captured is None:
                raise ValueError("kind='captured' needs rows; make the display by from_estimators(estimators, X).")
            self._draw_captured(axes[0, 0], self.captured, style)
        tidy(axes[0, 0])
        return self._finish(axes, None, title)

    def _draw_scree(self, ax: Axes, variances: np.ndarray, style: dict[str, Any]) -> None:
        k, values = self.loadings.shape[1], variances[:_MOST]
        places = np.arange(1, len(values) + 1)
        if self.noise_edge > 0:
            ax.axhspan(min(values.min(), 0.0), self.noise_edge, color=Color.PALE, linewidth=0, zorder=0)
            ax.axhline(self.noise_edge, color=Color.QUIET, linestyle="--", linewidth=1, label="noise edge: noise alone stays below")
        ax.plot(places[k - 1 :], values[k - 1 :], color="0.7", linewidth=1, zorder=1)
        ax.plot(places[k:], values[k:], "o", color="white", markeredgecolor="0.55", markersize=4, label="left out", zorder=2)
        ax.plot(places[:k], values[:k], **{"markersize": 5, "label": f"kept: {k}", **style}, zorder=3)
        ax.set_ylim(min(0.0, 1.1 * values.min()), 1.08 * max(values.max(), self.noise_edge))
        of_all = f" (the first {len(values)} of {len(variances)})" if len(values) < len(variances) else ""
        ax.set_xlabel(f"component{of_all}")
        ax.set_ylabel("noisy variance, squared units of the data", fontsize=8.5)
        ax.locator_params(axis="x", integer=True)
        ax.legend(frameon=False, fontsize=8, reverse=True)

    def _draw_captured(self, ax: Axes, captured: np.ndarray, style: dict[str, Any]) -> None:
        draw_mean_and_range(ax, self.epsilons, captured, **style)
        if not any(text.get_text() == _REFERENCE for text in ax.texts):  # several paths may be drawn on one Axes
            ax.axhline(1, color=Color.QUIET, linestyle="--", linewidth=1)
            place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right", "fontsize": 8}
            ax.annotate(_REFERENCE, (0.99, 1), (0, 3), **place)
            ax.set_ylim(0.999, 1)
        # Start at 0, or closer if all values are near 1: these are no bars.
        low = 0.0 if captured.min() < 0.5 else 1 - 1.5 * (1 - captured.min()) - 1e-3
        low = min(low, ax.get_ylim()[0])
        ax.set(ylabel="captured variance / that of PCA\n(not private: of the rows given)", ylim=(low, 1 + 0.12 * (1 - low)))
        label_epsilons(ax, self.epsilons)

    def _plot_paths(self, ax: Place, title: str | None) -> Self:
        k = self.loadings.shape[1]
        axes, whole = panels(ax, (1, k), (3.1 * k + 1.2, 3.4), sharey=True)
        # The columns that weigh most in the fits of largest epsilon are named; all are drawn.
        named = dict(zip(np.argsort(-np.abs(self.loadings[-1]).max(axis=0), kind="stable"), Color.SERIES, strict=False))
        places = np.unique(self.epsilons)
        for number, one in enumerate(axes.flat):
            for column, name in enumerate(self.names):
                values = self.loadings[:, number, column]
                if column in named:
                    style = {"color": named[column], "linewidth": 1.6, "label": shorten(name), "zorder": 3}
                    draw_mean_and_range(one, self.epsilons, values, **style)
                else:  # bands of many columns would hide each other
                    one.plot(places, [values[self.epsilons == place].mean() for place in places], color="0.8", linewidth=0.6, zorder=2)
            one.axhline(0, color=Color.QUIET, linewidth=0.8)
            one.set_title(f"component {number + 1}", fontsize=9)
            label_epsilons(one, self.epsilons)
            tidy(one)
        axes.flat[0].set_ylabel("loading")
        axes.flat[-1].legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5), title="column", title_fontsize=8.5)
        return self._finish(axes, whole, title)

    def _plot_shades(self, ax: Place, title: str | None) -> Self:
        components = self.loadings[0]
        k, d = components.shape
        axes, _ = panels(ax, (1, 1), (min(max(0.32 * d + 1.6, 3.5), 9.0), 0.32 * k + 1.7))
        one, most = axes[0, 0], np.abs(components).max()
        image = one.imshow(components, cmap=Color.SIGNED, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        if d <= _MOST_NAMED:
            one.set_xticks(range(d), [shorten(name, 14) for name in self.names], rotation=90 if d > 6 else 0, fontsize=7)
        else:
            one.locator_params(axis="x", integer=True)
        one.set_yticks(range(k), range(1, k + 1), fontsize=7)
        one.set(xlabel="column", ylabel="component")
        one.figure.colorbar(image, ax=one, label="loading")
        return self._finish(axes, None, title)


def _pca_of(estimator: BaseEstimator, name: str) -> Any:
    check_fitted(name, estimator, "a fitted PrivatePCA")
    pca = getattr(estimator, "reducer_", estimator)
    if not hasattr(pca, "covariance_"):
        raise TypeError(f"{name} must be fitted PrivatePCA, or LowDimSynthesizer, which holds one, got {type(pca).__name__}.")
    return pca
