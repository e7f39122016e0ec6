"""Pictures of synthetic rows."""

from itertools import combinations
from typing import Any, Self

import numpy as np

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.domain import Schema
from skdpsynth.metrics import association_matrix
from skdpsynth.plotting._columns import coded, read_columns
from skdpsynth.plotting._display import SIGNED, Display, headline, panels, shorten
from skdpsynth.plotting._infer_schema import infer_schema
from skdpsynth.plotting._marginals import draw_joint, draw_marginal

_PAIRED = 4  # columns of a picture of pairs
_ASSOCIATION_ROWS = 20_000  # of which associations are computed, by a fixed public seed
_SEED = 14
_A_ROW = 4  # panels of marginals


class SynthesisDisplay(Display):
    """Synthetic rows: their columns, pairs of columns, and associations.

    Make it by `from_samples`. Sampling is free of charge and synthetic rows are public, so the picture is, as long as no real rows are
    given to it.

    Parameters
    ----------
    columns : tuple of Column
        What is drawn of each column: `name`, `edges` or `levels`, and the `shares` and `missing` of each table.
    pairs : dict of (int, int) to ndarray of shape (n_tables, n_parts, n_parts)
        Shares of the rows, by the places of two columns.
    associations : ndarray of shape (n_tables, n_columns, n_columns)
    with_real : bool, default=False
        Whether the second table holds real rows, so that the picture is not private.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first panel, or the Axes that was given.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    skdpsynth.metrics.marginal_total_variation : How far marginals are from those of the real rows, as a number.
    skdpsynth.metrics.correlation_error : How far associations are.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.plotting import SynthesisDisplay
    >>> rows = np.random.default_rng(0).beta(2, 5, size=(500, 2))
    >>> display = SynthesisDisplay.from_samples(rows, {0: (0.0, 1.0), 1: (0.0, 1.0)})
    >>> bool(np.isclose(display.columns[0].shares.sum(), 1))
    True
    >>> figure = display.plot().figure_
    """

    def __init__(self, columns: Any, pairs: Any, associations: Any, with_real: bool = False) -> None:
        self.columns = columns
        self.pairs = pairs
        self.associations = associations
        self.with_real = with_real

    @classmethod
    def from_samples(cls, X_synthetic: Any, schema: Any = None, X: Any = None) -> Self:
        """Compute what is drawn.

        Parameters
        ----------
        X_synthetic : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Synthetic rows.
        schema : dict, Schema or path of a file, default=None
            ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: as the synthetic rows show it, which must
            be in memory then.
        X : array-like, data frame or other table, default=None
            Real rows, drawn beside the synthetic ones. They are read unprotected, and the picture is **not private**: it says so. Leave
            it out for whatever others shall see.

        Returns
        -------
        display : SynthesisDisplay

        Raises
        ------
        ValueError
            If the columns are not those of `schema`, or a table has no rows.
        """
        schema = infer_schema(X_synthetic) if schema is None else Schema.of(schema)
        tables = [("X_synthetic", X_synthetic)] + [("X", X)] * (X is not None)
        read = read_columns(tables, schema)
        kinds = {name: kind for name, kind in schema.items() if kind.coded is not None}
        parts = [coded(name, kind, list(values)) for (name, kind), values in zip(kinds.items(), zip(*read, strict=True), strict=True)]
        associations = np.array([association_matrix(_subsample(columns), Schema(kinds).coded) for columns in read])
        chosen = _strongest_places(associations[0])
        pairs = {(i, j): parts[i].joint(parts[j]) for i, j in combinations(chosen, 2)}
        return cls(tuple(each.column for each in parts), pairs, associations, X is not None)

    def plot(self, ax: Any = None, *, kind: str = "marginals", columns: Any = None, title: str | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, default=None
            Where; an Axes is divided. None: a new figure.
        kind : {"marginals", "pairs", "correlations"}, default="marginals"
            "marginals": each column, with the share of missing cells. "pairs": the four columns that depend most on each other in the
            synthetic rows, each with each. "correlations": the associations of all pairs, as `skdpsynth.metrics.correlation_error`
            defines them.
        columns : list, default=None
            Names of the columns to draw as marginals, in this order. None: all.
        title : str, default=None

        Returns
        -------
        display : SynthesisDisplay
            Itself.
        """
        check_choice("kind", kind, ("marginals", "pairs", "correlations"))
        if kind == "marginals":
            return self._plot_marginals(ax, self._named(columns), title)
        if kind == "pairs":
            return self._plot_pairs(ax, title)
        return self._plot_associations(ax, title)

    def _named(self, names: Any) -> list[Any]:
        if names is None:
            return list(self.columns)
        known = {each.name: each for each in self.columns}
        if strange := [name for name in names if name not in known]:
            raise ValueError(f"columns must be names of columns that were drawn, got {short_repr(strange[0])}; leave it out for all.")
        return [known[name] for name in names]

    def _plot_marginals(self, ax: Any, drawn: list[Any], title: str | None) -> Self:
        n_high = -(-len(drawn) // _A_ROW)
        n_wide = -(-len(drawn) // n_high)
        axes, whole = panels(ax, (n_high, n_wide), (max(2.7 * n_wide, 4.5), 2.1 * n_high + 0.5))
        for each, place in zip(drawn, axes.flat, strict=False):
            draw_marginal(place, each, self.with_real)
        for place in axes.flat[len(drawn) :]:
            place.set_axis_off()
        words = "filled: synthetic rows, outlined: real ones" * self.with_real
        headline(axes, whole, _joined(title, words), not self.with_real)
        return self._remember_axes(axes, whole)

    def _plot_pairs(self, ax: Any, title: str | None) -> Self:
        chosen = sorted({place for pair in self.pairs for place in pair})
        if not chosen:
            raise ValueError("kind='pairs' needs two columns at least, got one; draw its marginal.")
        n = len(chosen)
        axes, whole = panels(ax, (n, n), (1.9 * n + 0.6, 1.7 * n + 0.5))
        for row, i in enumerate(chosen):
            for place, j in enumerate(chosen):
                one = axes[row, place]
                if row == place:
                    draw_marginal(one, self.columns[i], self.with_real, is_narrow=True)
                elif row > place or self.with_real:
                    # Synthetic below the diagonal, real above: the same pair on both sides.
                    joint = self.pairs[min(i, j), max(i, j)][int(row < place)]
                    draw_joint(one, self.columns[j], self.columns[i], joint if j < i else joint.T, row == n - 1, place == 0, row < place)
                else:
                    one.set_axis_off()
        words = "below the diagonal synthetic rows, above it real ones" * self.with_real
        headline(axes, whole, _joined(title, words), not self.with_real)
        return self._remember_axes(axes, whole)

    def _plot_associations(self, ax: Any, title: str | None) -> Self:
        n_tables, n = self.associations.shape[:2]
        side = min(max(0.42 * n + 1.4, 3.2), 9.0)
        axes, whole = panels(ax, (1, n_tables), (side * n_tables + 0.8, side))
        names = [shorten(each.name, 16) for each in self.columns]
        for table, one in enumerate(axes.flat):
            matrix = self.associations[table]
            image = one.imshow(matrix, cmap=SIGNED, vmin=-1, vmax=1)
            one.set_xticks(range(n), names, rotation=90, fontsize=7)
            one.set_yticks(range(n), names if table == 0 else [], fontsize=7)
            if n_tables > 1:
                one.set_title(("synthetic", "real")[table], fontsize=9)
            for i, j in np.argwhere(~np.eye(n, dtype=bool)) if n <= 9 else ():
                color = "white" if abs(matrix[i, j]) > 0.6 else "0.2"
                one.text(j, i, f"{round(matrix[i, j], 2) + 0.0:.2f}", ha="center", va="center", fontsize=6.5, color=color)
        bar = axes.flat[0].figure.colorbar(image, ax=list(axes.flat), shrink=0.75, pad=0.02)
        bar.set_label("association of two columns", fontsize=8)
        bar.ax.tick_params(labelsize=7)
        headline(axes, whole, title, not self.with_real)
        return self._remember_axes(axes, whole)


def _joined(title: str | None, words: str) -> str | None:
    return " – ".join(part for part in (title, words) if part) or None


def _subsample(columns: list[np.ndarray]) -> list[np.ndarray]:
    n_rows = len(columns[0])
    if n_rows <= _ASSOCIATION_ROWS:
        return columns
    some = np.random.default_rng(_SEED).choice(n_rows, _ASSOCIATION_ROWS, replace=False)
    return [column[some] for column in columns]


def _strongest_places(associations: np.ndarray) -> list[int]:
    """Return the places of the columns that depend most on each other, in the order of the table."""
    strength = np.abs(associations - np.eye(len(associations)))
    if len(strength) <= _PAIRED:
        return list(range(len(strength)))
    chosen = list(map(int, np.unravel_index(np.argmax(strength), strength.shape)))
    while len(chosen) < _PAIRED:
        reach = strength[chosen].max(axis=0)
        reach[chosen] = -1
        chosen.append(int(np.argmax(reach)))
    return sorted(chosen)
