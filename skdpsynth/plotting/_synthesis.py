"""Display of synthetic rows."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.domain import Calendar, Continuous, Date, DateTime, Duration, Identifier, Nominal, Schema, Text
from skdpsynth.frames import split_columns
from skdpsynth.metrics import association_matrix
from skdpsynth.plotting._columns import coded, draw_joint, draw_marginal, read_columns
from skdpsynth.plotting._display import SIGNED, Display, headline, panels, shorten

_PAIRED = 4  # columns of a picture of pairs
_ASSOCIATION_ROWS = 20_000  # rows for associations, drawn with a fixed public seed
_SEED = 14
_A_ROW = 4  # panels of marginals
_MOST_LEVELS = 1000  # of a column whose schema is inferred


@dataclass(eq=False, repr=False)
class SynthesisDisplay(Display):
    """Synthetic rows: their columns, pairs of columns, and associations.

    Make it by `from_samples`. Sampling is free of charge and synthetic rows are public, so the picture is, as long as no real rows are
    given to it.

    Parameters
    ----------
    columns : tuple of Column
        Drawn facts of each column: `name`, `edges` or `levels`, and the `shares` and `missing` of each table.
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

    columns: Any
    pairs: Any
    associations: Any
    with_real: bool = False

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
            Real rows, drawn beside the synthetic ones. They are read unprotected, so the picture is **not private**, and says so. Leave it
            out of pictures that others will see.

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
            Place; an Axes is divided. None: a new figure.
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
    """Return the places of the columns with the strongest associations, in table order."""
    strength = np.abs(associations - np.eye(len(associations)))
    if len(strength) <= _PAIRED:
        return list(range(len(strength)))
    chosen = list(map(int, np.unravel_index(np.argmax(strength), strength.shape)))
    while len(chosen) < _PAIRED:
        reach = strength[chosen].max(axis=0)
        reach[chosen] = -1
        chosen.append(int(np.argmax(reach)))
    return sorted(chosen)


def infer_schema(X: Any) -> Schema:
    """Infer a schema from synthetic rows, which are public; columns without a kind, or with too many levels, are left out."""
    table, raw = split_columns(X)
    if table.library == "numpy":
        dtypes = dict(zip(table.columns, map(np.dtype, table.dtypes), strict=True))
        skeleton = {name: _kind_of_cells(raw[name]) if dtype.kind == "O" else None for name, dtype in dtypes.items()}
        known = Schema.skeleton(dtypes)
        skeleton = {name: kind or known[name] for name, kind in skeleton.items()}
    else:
        skeleton = dict(Schema.skeleton(X))
    return Schema({name: _state_range(kind, column) for (name, kind), column in zip(skeleton.items(), raw, strict=True)})


def _kind_of_cells(cells: np.ndarray) -> Any:
    known = [cell for cell in cells.tolist() if cell is not None and cell == cell]
    if known and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known):
        return Continuous(bounds="open", integer=all(isinstance(cell, int) for cell in known))
    return Nominal("open")


def _state_range(kind: Any, column: Any) -> Any:
    """Give a kind the bounds or levels of its cells."""
    if kind.unstated is None:
        return Identifier() if isinstance(kind, Text) else kind
    cells = [cell for cell in (column.to_list() if hasattr(column, "to_list") else column.tolist()) if cell is not None and cell == cell]
    if isinstance(kind, Nominal):
        return _levels_of(cells)
    if not cells:
        return Identifier()
    low, high = min(cells), max(cells)
    if isinstance(kind, Duration):
        return Duration(low, high + np.timedelta64(1, "s").astype(object))
    if isinstance(kind, Calendar):
        return Date(low, _later(high)) if isinstance(kind, Date) else DateTime(low, _later(high))
    if not (np.isfinite(float(low)) and np.isfinite(float(high))):
        return Identifier()
    if kind.integer:
        return Continuous(int(low), max(int(high), int(low) + 1), integer=True)
    return Continuous(float(low), float(high) if high > low else float(low) + 1.0, integer=False)


def _levels_of(cells: list[Any]) -> Any:
    try:
        levels = sorted(set(cells), key=lambda level: (str(type(level)), level))
    except TypeError:
        return Identifier()
    if len(levels) > _MOST_LEVELS or not all(isinstance(level, str | int | float) for level in levels):
        return Identifier()
    # A schema wants two levels at least; the second never occurs, and its share says so.
    while len(levels) < 2:
        levels.append("(no other)" if not levels or isinstance(levels[0], str) else levels[0] + 1)
    return Nominal(levels)


def _later(time: Any) -> Any:
    return time + np.timedelta64(1, "D").astype(object)
