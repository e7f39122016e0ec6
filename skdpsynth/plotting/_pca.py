"""Display of private principal components."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpsynth._validation import check_attributes, check_choice, short_repr
from skdpsynth.metrics import captured_variance_ratio
from skdpsynth.plotting._display import (
    COLORS,
    PALE,
    QUIET,
    SYNTHETIC,
    Display,
    draw_mean_and_range,
    epsilon_axis,
    headline,
    panels,
    shorten,
    tidy,
)

_MOST = 30  # eigenvalues that are drawn
_REFERENCE = "PCA, not private"
_MOST_NAMED = 16  # columns that are named


@dataclass(eq=False, repr=False)
class PrivatePCADisplay(Display):
    """Private principal components: their variances beside those of noise alone, or how they change along epsilon.

    Make it by `from_estimator`, or by `from_estimators` for a path of fits.

    Parameters
    ----------
    variances : ndarray of shape (n_features,), default=None
        Eigenvalues of the noisy covariance, the largest first; some may be negative.
    n_components : int, default=0
        How many of them are kept.
    noise_edge : float, default=0.0
        The largest eigenvalue that noise alone is likely to show.
    epsilons : ndarray of shape (n_fits,), default=None
        Epsilons of a path of fits.
    loadings : ndarray of shape (n_fits, n_components, n_features), default=None
        Components, each with the sign nearer to the fits of largest epsilon.
    captured : ndarray of shape (n_fits,), default=None
        Variance that they capture of the rows that were given, over that of as many components of PCA.
    names : tuple of str, default=()
        Names of the columns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

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

    variances: Any = None
    n_components: int = 0
    noise_edge: float = 0.0
    epsilons: Any = None
    loadings: Any = None
    captured: Any = None
    names: Any = ()

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read a fitted `PrivatePCA`: the picture is as public as the fit.

        Parameters
        ----------
        estimator : PrivatePCA
            Fitted; or a `LowDimSynthesizer`, whose ``reducer_`` it is.

        Returns
        -------
        display : PrivatePCADisplay

        Raises
        ------
        TypeError
            If the estimator has no principal components.
        """
        pca = _pca_of(estimator, "estimator")
        variances = np.linalg.eigvalsh(pca.covariance_)[::-1]
        one = cls._of_path([pca], None)
        return cls(variances, pca.n_components_, float(pca.noise_edge_), one.epsilons, one.loadings, None, one.names)

    @classmethod
    def from_estimators(cls, estimators: Any, X: Any = None) -> Self:
        """Read several fits of the same columns, at several epsilons, or several times at each.

        Parameters
        ----------
        estimators : sequence of PrivatePCA
            Fitted, with equally many components. Their epsilons add up, where they were fitted to the same rows.
        X : array-like of shape (n_samples, n_features), default=None
            Rows whose captured variance is computed. They are read unprotected, so that picture is **not private**: use public rows. None:
            the path of the loadings alone, which is as public as the fits.

        Returns
        -------
        display : PrivatePCADisplay

        Raises
        ------
        TypeError
            If one of them has no principal components.
        ValueError
            If there are no estimators, or they differ in their columns or in how many components they keep.
        """
        if not isinstance(estimators, list | tuple):
            raise TypeError(f"estimators must be a list of fitted PrivatePCAs, got {short_repr(estimators)}.")
        estimators = list(estimators)
        if not estimators:
            raise ValueError("estimators must hold at least one fitted PrivatePCA, got none.")
        estimators = [_pca_of(estimator, "estimators") for estimator in estimators]
        if len({estimator.components_.shape for estimator in estimators}) > 1:
            raise ValueError("estimators must have equally many components of the same columns, but they differ; set n_components.")
        return cls._of_path(estimators, X)

    @classmethod
    def _of_path(cls, pcas: list[Any], X: Any) -> Self:
        pcas = sorted(pcas, key=lambda pca: float(pca.epsilon))
        loadings = np.array([pca.components_ for pca in pcas], dtype=float)
        # A component has no sign of its own: each fit gets that of the last one, which noise moved least.
        signs = np.where((loadings * loadings[-1]).sum(axis=2, keepdims=True) < 0, -1.0, 1.0)
        names = getattr(pcas[0], "feature_names_in_", None)
        names = tuple(map(str, range(loadings.shape[2]) if names is None else names))
        captured = None if X is None else np.array([captured_variance_ratio(X, components) for components in loadings])
        epsilons = np.array([float(pca.epsilon) for pca in pcas])
        return cls(epsilons=epsilons, loadings=loadings * signs, captured=captured, names=names)

    def plot(self, ax: Any = None, *, kind: str = "auto", title: str | None = None, **options: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Place; an Axes is divided if there are several panels. None: a new figure.
        kind : {"auto", "scree", "captured", "loadings"}, default="auto"
            "scree": eigenvalues beside the noise edge. "captured": the captured variance over epsilon, the mean and range of the fits at
            each. "loadings": the components, of one fit as shades, of a path over epsilon. "auto": the first of these that there is.
        title : str, default=None
        **options : dict
            Passed to ``Axes.plot``, for the line of "scree" and "captured".

        Returns
        -------
        display : PrivatePCADisplay
            Itself.

        Raises
        ------
        ValueError
            If the numbers that `kind` draws were not computed.
        """
        check_choice("kind", kind, ("auto", "scree", "captured", "loadings"))
        if kind == "auto":
            kind = "scree" if self.variances is not None else "loadings" if self.captured is None else "captured"
        if kind == "scree" and self.variances is None:
            raise ValueError("kind='scree' needs one fit; make the display by from_estimator.")
        if kind == "captured" and self.captured is None:
            raise ValueError("kind='captured' needs rows; make the display by from_estimators(estimators, X).")
        return getattr(self, f"_plot_{kind}")(ax, title, options)

    def _plot_scree(self, ax: Any, title: str | None, options: dict[str, Any]) -> Self:
        axes, _ = panels(ax, (1, 1), (6.0, 3.4))
        one, k = axes[0, 0], self.n_components
        values = self.variances[:_MOST]
        places = np.arange(1, len(values) + 1)
        if self.noise_edge > 0:
            one.axhspan(min(values.min(), 0.0), self.noise_edge, color=PALE, linewidth=0, zorder=0)
            one.axhline(self.noise_edge, color=QUIET, linestyle="--", linewidth=1, label="noise edge: noise alone stays below")
        one.plot(places[k - 1 :], values[k - 1 :], color="0.7", linewidth=1, zorder=1)
        one.plot(places[k:], values[k:], "o", color="white", markeredgecolor="0.55", markersize=4, label="left out", zorder=2)
        kept = {"color": SYNTHETIC, "marker": "o", "markersize": 5, "label": f"kept: {k}", **options}
        one.plot(places[:k], values[:k], **kept, zorder=3)
        one.set_ylim(min(0.0, 1.1 * values.min()), 1.08 * max(values.max(), self.noise_edge))
        one.set_xlabel("component" + (f" (the first {_MOST} of {len(self.variances)})" if len(self.variances) > _MOST else ""))
        one.set_ylabel("noisy variance, squared units of the data", fontsize=8.5)
        one.xaxis.get_major_locator().set_params(integer=True)
        one.legend(frameon=False, fontsize=8, reverse=True)
        tidy(one)
        headline(axes, None, title)
        return self._remember_axes(axes)

    def _plot_captured(self, ax: Any, title: str | None, options: dict[str, Any]) -> Self:
        axes, _ = panels(ax, (1, 1), (6.0, 3.6))
        one = axes[0, 0]
        draw_mean_and_range(one, self.epsilons, self.captured, **{"color": SYNTHETIC, "marker": "o", **options})
        if not any(text.get_text() == _REFERENCE for text in one.texts):  # several paths may be drawn on one Axes
            one.axhline(1, color=QUIET, linestyle="--", linewidth=1)
            place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right", "fontsize": 8}
            one.annotate(_REFERENCE, (0.99, 1), (0, 3), **place)
            one.set_ylim(0.999, 1)
        # Start at 0, or closer if all values are near 1: these are no bars.
        low = 0.0 if self.captured.min() < 0.5 else 1 - 1.5 * (1 - self.captured.min()) - 1e-3
        low = min(low, one.get_ylim()[0])
        one.set(ylabel="captured variance / that of PCA\n(not private: of the rows given)", ylim=(low, 1 + 0.12 * (1 - low)))
        epsilon_axis(one, self.epsilons)
        tidy(one)
        headline(axes, None, title)
        return self._remember_axes(axes)

    def _plot_loadings(self, ax: Any, title: str | None, options: dict[str, Any]) -> Self:
        if len(self.loadings) == 1:
            return self._plot_shades(ax, title)
        k = self.loadings.shape[1]
        axes, whole = panels(ax, (1, k), (3.1 * k + 1.2, 3.4), sharey=True)
        # The columns that weigh most in the fits of largest epsilon are named; all are drawn.
        last = np.abs(self.loadings[-1]).max(axis=0)
        named = list(np.argsort(-last, kind="stable")[: len(COLORS)])
        for number, one in enumerate(axes.flat):
            for column in range(self.loadings.shape[2]):
                style = {"color": COLORS[named.index(column)], "linewidth": 1.6} if column in named else {"color": "0.8", "linewidth": 0.8}
                label = shorten(self.names[column]) if column in named else None
                draw_mean_and_range(
                    one, self.epsilons, self.loadings[:, number, column], label=label, zorder=2 + (column in named), **style
                )
            one.axhline(0, color=QUIET, linewidth=0.8)
            one.set_title(f"component {number + 1}", fontsize=9)
            epsilon_axis(one, self.epsilons)
            tidy(one)
        axes.flat[0].set_ylabel("loading")
        axes.flat[-1].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), title="column", title_fontsize=7)
        headline(axes, whole, title)
        return self._remember_axes(axes, whole)

    def _plot_shades(self, ax: Any, title: str | None) -> Self:
        components = self.loadings[0]
        k, d = components.shape
        axes, _ = panels(ax, (1, 1), (min(max(0.32 * d + 1.6, 3.5), 9.0), 0.32 * k + 1.7))
        one = axes[0, 0]
        most = np.abs(components).max()
        image = one.imshow(components, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        if d <= _MOST_NAMED:
            one.set_xticks(range(d), [shorten(name, 14) for name in self.names], rotation=90 if d > 6 else 0, fontsize=7)
        else:
            one.xaxis.get_major_locator().set_params(integer=True)
        one.set_yticks(range(k), range(1, k + 1), fontsize=7)
        one.set(xlabel="column", ylabel="component")
        one.figure.colorbar(image, ax=one, label="loading")
        headline(axes, None, title)
        return self._remember_axes(axes)


def _pca_of(estimator: Any, name: str) -> Any:
    check_attributes(name, estimator, ("fit",), "a fitted PrivatePCA")
    check_is_fitted(estimator)
    pca = getattr(estimator, "reducer_", estimator)
    if not hasattr(pca, "covariance_"):
        raise TypeError(f"{name} must be fitted PrivatePCA, or LowDimSynthesizer, which holds one, got {type(pca).__name__}.")
    return pca
