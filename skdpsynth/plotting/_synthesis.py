"""Display of synthetic rows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Self

import numpy as np

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.domain import (
    Calendar,
    ColumnKind,
    Continuous,
    Date,
    DateTime,
    Duration,
    Identifier,
    Nominal,
    Schema,
    SchemaLike,
    Text,
    Times,
    as_nullable,
)
from skdpsynth.frames import Table, split_columns
from skdpsynth.metrics import association_matrix
from skdpsynth.plotting._display import Axes, Color, Display, Place, panels, shorten, tidy
from skdpsynth.tables import open_columns

_BINS = 24
_MOST_VALUES = 32  # whole numbers that are drawn one by one
_MOST_BARS = 12
_MOST_LEVELS = 1000  # of a column whose schema is inferred
_PAIRED = 4  # columns of a picture of pairs
_A_ROW = 4  # panels of marginals
_ASSOCIATION_ROWS = 20_000  # rows for associations, drawn with a fixed public seed
_SEED = 14
_SMALL = 7  # points


@dataclass(frozen=True, eq=False)
class Column:
    """One column of one or two tables, as shares of all rows."""

    name: Any
    kind: Any  # from the schema, or inferred from synthetic rows
    edges: np.ndarray | None  # (n_parts + 1,), cuts of numbers or of times as datetime64
    levels: tuple[str, ...]  # in drawing order; empty for numbers
    shares: np.ndarray  # (n_tables, n_parts); with `missing` they sum to 1
    missing: np.ndarray  # (n_tables,)

    @property
    def has_times(self) -> bool:
        return self.edges is not None and self.edges.dtype.kind == "M"

    @property
    def ends(self) -> np.ndarray:
        """Where each part ends on an axis of matplotlib, which has numbers of its own for times."""
        if self.edges is None:
            return np.arange(len(self.levels) + 1) - 0.5
        if not self.has_times:
            return self.edges
        from matplotlib.dates import date2num

        return date2num(self.edges)


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

    {drawn}

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

    columns: tuple[Column, ...]
    pairs: dict[tuple[int, int], np.ndarray]
    associations: np.ndarray
    with_real: bool = False

    @classmethod
    def from_samples(cls, X_synthetic: Table, schema: SchemaLike | None = None, X: Table = None) -> Self:
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
        """
        if schema is None:  # infer it, without columns of no kind, or of too many levels
            table, columns = split_columns(X_synthetic)
            dtypes = (
                {name: np.dtype(dtype) for name, dtype in zip(table.columns, table.dtypes, strict=True)}
                if table.library == "numpy"
                else X_synthetic
            )
            guessed = Schema.skeleton(dtypes)
            schema = {name: _infer_kind(guessed[name], column) for name, column in zip(table.columns, columns, strict=True)}
        schema = Schema.of(schema)
        # Read as nullable, a missing cell is neither a midpoint nor a first level.
        nullable = Schema({name: as_nullable(kind) for name, kind in schema.items()})
        tables = [("X_synthetic", X_synthetic)] + [("X", X)] * (X is not None)
        read = [open_columns(table, nullable, name).collect() for name, table in tables]
        for (name, _), columns in zip(tables, read, strict=True):
            if not len(columns[0]):
                raise ValueError(f"{name} must have at least one row, got none; give a table with rows.")
        kinds = {name: kind for name, kind in schema.items() if kind.coded is not None}
        coded = [_divide(name, kind, values) for (name, kind), values in zip(kinds.items(), zip(*read, strict=True), strict=True)]
        few = []
        for columns in read:
            n, rng = len(columns[0]), np.random.default_rng(_SEED)
            some = rng.choice(n, _ASSOCIATION_ROWS, replace=False) if n > _ASSOCIATION_ROWS else slice(None)
            few.append([column[some] for column in columns])
        associations = np.array([association_matrix(columns, Schema(kinds).coded) for columns in few])
        pairs = {(i, j): _count_pairs(coded[i], coded[j]) for i, j in combinations(_strongest_places(associations[0]), 2)}
        return cls(tuple(column for column, _ in coded), pairs, associations, X is not None)

    def plot(
        self, ax: Place = None, *, title: str | None = None, kind: str = "marginals", columns: Sequence[Hashable] | None = None
    ) -> Self:
        """Draw.

        {place}
        kind : {"marginals", "pairs", "correlations"}, default="marginals"
            "marginals": each column, with the share of missing cells. "pairs": the four columns that depend most on each other in the
            synthetic rows, each with each. "correlations": the associations of all pairs, as `skdpsynth.metrics.correlation_error`
            defines them.
        columns : list, default=None
            Names of the columns to draw as marginals, in this order. None: all.

        {itself}
        """
        check_choice("kind", kind, ("marginals", "pairs", "correlations"))
        if kind == "correlations":
            (axes, whole), words = self._plot_associations(ax), ""
        elif kind == "pairs":
            (axes, whole), words = self._plot_pairs(ax), "below the diagonal synthetic rows, above it real ones"
        else:
            (axes, whole), words = self._plot_marginals(ax, columns), "filled: synthetic rows, outlined: real ones"
        heading = " – ".join(filter(None, [title, words * self.with_real]))
        return self._finish(axes, whole, heading, is_private=not self.with_real)

    def _plot_marginals(self, ax: Place, names: Sequence[Hashable] | None) -> tuple[np.ndarray, Place]:
        known = {column.name: column for column in self.columns}
        drawn = list(known if names is None else names)
        if strange := [name for name in drawn if name not in known]:
            raise ValueError(f"columns must be names of columns that were drawn, got {short_repr(strange[0])}; leave it out for all.")
        n_high = -(-len(drawn) // _A_ROW)
        n_wide = -(-len(drawn) // n_high)
        axes, whole = panels(ax, (n_high, n_wide), (max(2.7 * n_wide, 4.5), 2.1 * n_high + 0.5))
        for name, place in zip(drawn, axes.flat, strict=False):
            _draw_marginal(place, known[name], self.with_real)
        for place in axes.flat[len(drawn) :]:
            place.set_axis_off()
        return axes, whole

    def _plot_pairs(self, ax: Place) -> tuple[np.ndarray, Place]:
        chosen = sorted({place for pair in self.pairs for place in pair})
        if not chosen:
            raise ValueError("kind='pairs' needs two columns at least, got one; draw its marginal.")
        n = len(chosen)
        axes, whole = panels(ax, (n, n), (1.9 * n + 0.6, 1.7 * n + 0.5))
        for (i, j), one in zip(product(chosen, repeat=2), axes.flat, strict=True):
            if i == j:
                _draw_marginal(one, self.columns[i], self.with_real, is_narrow=True)
            elif j < i or self.with_real:
                # Synthetic below the diagonal, real above: the same pair on both sides.
                joint = self.pairs[min(i, j), max(i, j)][int(i < j)]
                joint, columns = joint if j < i else joint.T, (self.columns[j], self.columns[i])
                _draw_joint(one, *columns, joint, "Greys" if i < j else Color.POSITIVE, (i == chosen[-1], j == chosen[0]))
            else:
                one.set_axis_off()
        return axes, whole

    def _plot_associations(self, ax: Place) -> tuple[np.ndarray, Place]:
        n_tables, n = self.associations.shape[:2]
        side = min(max(0.42 * n + 1.4, 3.2), 9.0)
        axes, whole = panels(ax, (1, n_tables), (side * n_tables + 0.8, side))
        names = [shorten(column.name, 16) for column in self.columns]
        for table, (one, matrix) in enumerate(zip(axes.flat, self.associations, strict=True)):
            image = one.imshow(matrix, cmap=Color.SIGNED, vmin=-1, vmax=1)
            one.set_xticks(range(n), names, rotation=90, fontsize=7)
            one.set_yticks(range(n), names if table == 0 else [], fontsize=7)
            one.set_title(("synthetic", "real")[table] if n_tables > 1 else "", fontsize=9)
            for i, j in np.argwhere(~np.eye(n, dtype=bool)) if n <= 9 else ():
                color = "white" if abs(matrix[i, j]) > 0.6 else "0.2"
                one.text(j, i, f"{round(matrix[i, j], 2) + 0.0:.2f}", ha="center", va="center", fontsize=6.5, color=color)
        bar = axes.flat[0].figure.colorbar(image, ax=list(axes.flat), shrink=0.75, pad=0.02)
        bar.set_label("association of two columns", fontsize=8)
        bar.ax.tick_params(labelsize=7)
        return axes, whole


def _divide(name: Hashable, kind: ColumnKind, values: tuple[np.ndarray, ...]) -> tuple[Column, list[np.ndarray]]:
    """Divide a column into the parts to draw, and return the part of each cell in each table, -1 where it is missing."""
    edges: np.ndarray | None = None
    levels: tuple[str, ...] = ()
    if isinstance(kind.coded, Continuous):
        known = np.concatenate([cells[~np.isnan(cells)] for cells in values])
        low, high = (known.min(), known.max()) if len(known) else (kind.coded.low, kind.coded.high)
        if not kind.coded.integer:
            edges = np.linspace(low, high, _BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
        else:  # between whole numbers
            step = 1 if high - low < _MOST_VALUES else int(np.ceil((high - low + 1) / _BINS))
            edges = low - 0.5 + step * np.arange(int((high - low) // step) + 2)
        places = [np.clip(np.searchsorted(edges, cells, side="right") - 1, 0, len(edges) - 2) for cells in values]
        codes = [np.where(np.isnan(cells), -1, place) for cells, place in zip(values, places, strict=True)]
        if isinstance(kind, Calendar):
            edges = np.rint((kind.first + edges) * kind.microseconds).astype(np.int64).astype("datetime64[us]")
        elif isinstance(kind, Times):
            edges = kind.first + edges
    else:
        n_levels, levels = len(kind.levels), tuple(map(str, getattr(kind, "words", None) or kind.levels))
        codes = [np.where(cells < n_levels, cells, -1).astype(np.int64) for cells in values]
        if n_levels > _MOST_BARS:
            # The first table, which is synthetic, alone decides: real rows must not choose what a picture shows.
            counts = np.bincount(codes[0][codes[0] >= 0], minlength=n_levels)
            kept = np.argsort(-counts, kind="stable")[: _MOST_BARS - 1]
            kept = kept if isinstance(kind, Nominal) else np.sort(kept)
            place = np.full(n_levels + 1, _MOST_BARS - 1)
            place[kept], place[-1] = np.arange(len(kept)), -1
            codes, levels = [place[cells] for cells in codes], (*(levels[i] for i in kept), "(other)")
    n_parts = len(levels) if edges is None else len(edges) - 1
    shares = np.array([np.bincount(cells[cells >= 0], minlength=n_parts) / len(cells) for cells in codes])
    missing = np.array([np.mean(cells < 0) for cells in codes])
    return Column(name, kind, edges, levels, shares, missing), codes


def _count_pairs(one: tuple[Column, list[np.ndarray]], other: tuple[Column, list[np.ndarray]]) -> np.ndarray:
    """Return shares of pairs of parts, (n_tables, n_parts, n_parts of the other), among rows that have both."""
    shape = one[0].shares.shape[1], other[0].shares.shape[1]
    out = []
    for a, b in zip(one[1], other[1], strict=True):
        known = (a >= 0) & (b >= 0)
        counts = np.bincount(a[known] * shape[1] + b[known], minlength=shape[0] * shape[1]).reshape(shape)
        out.append(counts / max(counts.sum(), 1))
    return np.array(out)


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


def _draw_marginal(ax: Axes, column: Column, with_real: bool, is_narrow: bool = False) -> None:
    """Draw the shares of a column, filled, and the real ones as an outline; a narrow panel omits the share of missing cells."""
    if column.edges is not None:
        ax.stairs(column.shares[0], column.ends, fill=True, color=Color.SYNTHETIC, alpha=0.8, linewidth=0, label="synthetic")
        if with_real:
            ax.stairs(column.shares[1], column.ends, color="black", linewidth=1, label="real")
        ax.set_ylim(bottom=0)
        ax.set_ylabel("share of rows", fontsize=_SMALL)
        ax.yaxis.set_major_formatter(_percent)
        ax.locator_params(axis="y", nbins=4)
        _label_times(ax.xaxis, column)
        if column.missing.any() and not is_narrow:
            words = f"missing {_share(column.missing[0])}" + (f" (real {_share(column.missing[1])})" if with_real else "")
            ax.set_title(words, fontsize=_SMALL, loc="right", color=Color.QUIET)
    else:
        shares, names = column.shares, [shorten(level, 16) for level in column.levels]
        if column.missing.any():
            shares, names = np.column_stack([shares, column.missing]), [*names, "(missing)"]
        places = np.arange(len(names))
        ax.barh(places, shares[0], height=0.75, color=Color.SYNTHETIC, alpha=0.8, label="synthetic")
        if with_real:
            ax.barh(places, shares[1], height=0.75, fill=False, edgecolor="black", linewidth=1, label="real")
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set_xlabel("share of rows", fontsize=_SMALL)
        ax.set_xlim(left=0)
        ax.xaxis.set_major_formatter(_percent)
        ax.locator_params(axis="x", nbins=4)
    ax.set_title(shorten(column.name, 26), fontsize=8.5, loc="left")
    ax.tick_params(labelsize=_SMALL, length=2)
    tidy(ax)


def _draw_joint(ax: Axes, across: Column, up: Column, joint: np.ndarray, colors: str, is_named: tuple[bool, bool]) -> None:
    """Draw shares of pairs of parts as shades; `joint` is indexed by the parts of `across`, then of `up`."""
    ax.set_facecolor("white")
    ax.pcolormesh(across.ends, up.ends, np.sqrt(joint.T), cmap=colors, vmin=0, rasterized=True)  # square roots make rare pairs visible
    directions: tuple[Any, ...] = (ax.xaxis, ax.yaxis)
    for axis, column, has_names in zip(directions, (across, up), is_named, strict=True):
        if column.edges is None:
            labels = [shorten(level, 10) for level in column.levels] if has_names else []
            axis.set_ticks(np.arange(len(column.levels)), labels, rotation=90 if axis is ax.xaxis else 0)
        else:
            _label_times(axis, column)
            if not column.has_times:
                axis.get_major_locator().set_params(nbins=3)
            axis.set_tick_params(**{"labelbottom" if axis is ax.xaxis else "labelleft": has_names})
        if has_names:
            axis.set_label_text(shorten(column.name, 16), fontsize=_SMALL)
    ax.tick_params(labelsize=6, length=2)
    ax.spines[:].set_color(Color.PALE)


def _label_times(axis: Any, column: Column) -> None:
    if column.has_times:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=2, maxticks=5)  # with 4 it finds no interval for 20 months, or 40 hours, and warns
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))


def _percent(value: float, place: float) -> str:
    return f"{100 * value:.3g} %"


def _share(value: float) -> str:
    """Format a share as a percentage that is never rounded to 0."""
    return f"{100 * value:.0f} %" if value >= 0.01 or value == 0 else f"{100 * value:.1g} %"


def _infer_kind(kind: ColumnKind, column: Any) -> Any:
    """Give a kind the bounds or levels of its cells."""
    cells = [cell for cell in (column.to_list() if hasattr(column, "to_list") else column.tolist()) if cell is not None and cell == cell]
    if isinstance(column, np.ndarray) and column.dtype == object:  # which tells nothing of its cells
        has_numbers = bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
        kind = Continuous(bounds="open", integer=all(isinstance(cell, int) for cell in cells)) if has_numbers else Nominal("open")
    if kind.stand_in is None:
        return Identifier() if isinstance(kind, Text) else kind
    if isinstance(kind, Nominal):
        if not all(isinstance(cell, str | int | float) for cell in cells) or len(set(cells)) > _MOST_LEVELS:
            return Identifier()
        levels = sorted(set(cells), key=lambda level: (str(type(level)), level))
        while len(levels) < 2:  # as a schema wants; the second never occurs, and its share says so
            levels.append("(no other)" if not levels or isinstance(levels[0], str) else levels[0] + 1)
        return Nominal(levels)
    low, high = (min(cells), max(cells)) if cells else (np.nan, np.nan)
    if isinstance(kind, Duration):
        return Duration(low, high + np.timedelta64(1, "s").astype(object))
    if isinstance(kind, Calendar):
        return (Date if isinstance(kind, Date) else DateTime)(low, high + np.timedelta64(1, "D").astype(object))
    if not np.isfinite([float(low), float(high)]).all():
        return Identifier()
    if kind.integer:
        return Continuous(int(low), max(int(high), int(low) + 1), integer=True)
    return Continuous(float(low), float(high) if high > low else float(low) + 1.0, integer=False)
