"""Columns of tables as shares of their rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.domain import Calendar, Continuous, Nominal, Schema, Times, as_nullable
from skdpsynth.plotting._display import PALE, POSITIVE, QUIET, SYNTHETIC, share, shorten, tidy
from skdpsynth.tables import open_columns

BINS = 24
_MOST_VALUES = 32  # whole numbers that are drawn one by one
_MOST_LEVELS = 12
_OTHER = "(other)"


@dataclass(frozen=True, eq=False)
class Column:
    """One column of one or two tables, as shares of all rows."""

    name: Any
    kind: Any  # from the schema, or inferred from synthetic rows
    edges: Any  # (n_parts + 1,), cuts of numbers or of times as datetime64; else None
    levels: tuple  # in drawing order; empty for numbers
    shares: np.ndarray  # (n_tables, n_parts); with `missing` they sum to 1
    missing: np.ndarray  # (n_tables,)


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """A column, and its cells in each table as numbers of parts, -1 where missing."""

    column: Column
    codes: list[np.ndarray]

    def joint(self, other: "EncodedColumn") -> np.ndarray:
        """Return shares of pairs of parts, (n_tables, n_parts, n_parts of the other), among rows that have both."""
        shape = self.column.shares.shape[1], other.column.shares.shape[1]
        out = np.zeros((len(self.codes), *shape))
        for table, (a, b) in enumerate(zip(self.codes, other.codes, strict=True)):
            known = (a >= 0) & (b >= 0)
            counts = np.bincount(a[known] * shape[1] + b[known], minlength=shape[0] * shape[1]).reshape(shape)
            out[table] = counts / max(counts.sum(), 1)
        return out


def read_columns(tables: list[tuple[str, Any]], schema: Schema) -> list[list[np.ndarray]]:
    """Read the columns of tables by a nullable schema, so that a missing cell is neither a midpoint nor a first level."""
    schema = Schema({name: as_nullable(kind) for name, kind in schema.items()})
    read = [open_columns(X, schema, name).collected() for name, X in tables]
    for (name, _), columns in zip(tables, read, strict=True):
        if not len(columns[0]):
            raise ValueError(f"{name} must have at least one row, got none; give a table with rows.")
    return read


def coded(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    """Divide a column into the parts to draw, by its common range in all tables."""
    if isinstance(kind.coded, Continuous):
        return _encode_numbers(name, kind, values)
    return _encode_levels(name, kind, values)


def _encode_numbers(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    known = np.concatenate([column[~np.isnan(column)] for column in values])
    low, high = (known.min(), known.max()) if len(known) else (kind.coded.low, kind.coded.high)
    edges = _edges(float(low), float(high), kind.coded.integer)
    codes = []
    for column in values:
        places = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)
        codes.append(np.where(np.isnan(column), -1, places))
    return _make_column(name, kind, _as_times(edges, kind), (), codes, len(edges) - 1)


def _edges(low: float, high: float, whole: bool) -> np.ndarray:
    """Return where to cut a range: between whole numbers if it holds only those."""
    if not whole:
        return np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    step = 1 if high - low < _MOST_VALUES else int(np.ceil((high - low + 1) / BINS))
    return low - 0.5 + step * np.arange(int((high - low) // step) + 2)


def _as_times(edges: np.ndarray, kind: Any) -> np.ndarray:
    """Turn edges, in units since the lower bound, into datetime64 for a column of dates, and numbers of units for other times."""
    if not isinstance(kind, Calendar):
        return kind.first + edges if isinstance(kind, Times) else edges
    return np.rint((kind.first + edges) * kind.microseconds).astype(np.int64).astype("datetime64[us]")


def _encode_levels(name: Any, kind: Any, values: list[np.ndarray]) -> EncodedColumn:
    n_levels = len(kind.levels)
    codes = [np.where(column < n_levels, column, -1).astype(np.int64) for column in values]
    levels = tuple(map(str, kind.levels))
    if n_levels > _MOST_LEVELS:
        # The first table, which is synthetic, alone decides: real rows must not choose what a picture shows.
        counts = np.bincount(codes[0][codes[0] >= 0], minlength=n_levels)
        kept = np.argsort(-counts, kind="stable")[: _MOST_LEVELS - 1]
        kept = kept if isinstance(kind, Nominal) else np.sort(kept)
        place = np.full(n_levels + 1, _MOST_LEVELS - 1)
        place[kept], place[-1] = np.arange(len(kept)), -1
        codes, levels = [place[column] for column in codes], (*(levels[i] for i in kept), _OTHER)
    return _make_column(name, kind, None, levels, codes, len(levels))


def _make_column(name: Any, kind: Any, edges: Any, levels: tuple, codes: list[np.ndarray], n_parts: int) -> EncodedColumn:
    shares = np.array([np.bincount(column[column >= 0], minlength=n_parts) / len(column) for column in codes])
    missing = np.array([np.mean(column < 0) for column in codes])
    return EncodedColumn(Column(name, kind, edges, levels, shares, missing), codes)


_SMALL = 7


def draw_marginal(ax: Any, column: Column, with_real: bool, is_narrow: bool = False) -> None:
    """Draw the shares of a column, filled, and the real ones as an outline; a narrow panel omits the share of missing cells."""
    (_draw_numbers if column.edges is not None else _draw_levels)(ax, column, with_real)
    ax.set_title(shorten(column.name, 26), fontsize=8.5, loc="left")
    if column.edges is not None and column.missing.any() and not is_narrow:
        words = f"missing {share(column.missing[0])}" + (f" (real {share(column.missing[1])})" if with_real else "")
        ax.set_title(words, fontsize=_SMALL, loc="right", color=QUIET)
    ax.tick_params(labelsize=_SMALL, length=2)
    tidy(ax)


def _draw_numbers(ax: Any, column: Column, with_real: bool) -> None:
    edges = _plain(column.edges)
    ax.stairs(column.shares[0], edges, fill=True, color=SYNTHETIC, alpha=0.8, linewidth=0, label="synthetic")
    if with_real:
        ax.stairs(column.shares[1], edges, color="black", linewidth=1, label="real")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("share of rows", fontsize=_SMALL)
    ax.yaxis.set_major_formatter(_percent())
    ax.locator_params(axis="y", nbins=4)
    _label_times(ax, column)


def _draw_levels(ax: Any, column: Column, with_real: bool) -> None:
    shares, names = column.shares, [shorten(level, 16) for level in column.levels]
    if column.missing.any():
        shares, names = np.column_stack([shares, column.missing]), [*names, "(missing)"]
    places = np.arange(len(names))
    ax.barh(places, shares[0], height=0.75, color=SYNTHETIC, alpha=0.8, label="synthetic")
    if with_real:
        ax.barh(places, shares[1], height=0.75, fill=False, edgecolor="black", linewidth=1, label="real")
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.set_xlabel("share of rows", fontsize=_SMALL)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_formatter(_percent())
    ax.locator_params(axis="x", nbins=4)


def draw_joint(ax: Any, across: Column, up: Column, joint: np.ndarray, names_x: bool, names_y: bool, is_real: bool) -> None:
    """Draw shares of pairs of parts as shades; `joint` is indexed by the parts of `across`, then of `up`."""
    ax.set_facecolor("white")
    # Square roots make rare pairs visible beside frequent ones.
    x, y = _plain(_ends(across)), _plain(_ends(up))
    ax.pcolormesh(x, y, np.sqrt(joint.T), cmap="Greys" if is_real else POSITIVE, vmin=0, rasterized=True)
    for axis, column, is_named in (("x", across, names_x), ("y", up, names_y)):
        if column.edges is None:
            places = np.arange(len(column.levels))
            labels = [shorten(level, 10) for level in column.levels] if is_named else []
            getattr(ax, f"set_{axis}ticks")(places, labels, **({"rotation": 90} if axis == "x" else {}))
        else:
            _label_times(ax, column, axis)
            ax.locator_params(axis=axis, nbins=3) if not _is_time(column) else None
            ax.tick_params(**{f"label{'bottom' if axis == 'x' else 'left'}": is_named})
        if is_named:
            getattr(ax, f"set_{axis}label")(shorten(column.name, 16), fontsize=_SMALL)
    ax.tick_params(labelsize=6, length=2)
    for side in ax.spines.values():
        side.set_color(PALE)


def _ends(column: Column) -> np.ndarray:
    return np.arange(len(column.levels) + 1) - 0.5 if column.edges is None else column.edges


def _is_time(column: Column) -> bool:
    return column.edges is not None and column.edges.dtype.kind == "M"


def _plain(edges: np.ndarray) -> np.ndarray:
    """Return edges as numbers; matplotlib has its own for times."""
    if edges.dtype.kind != "M":
        return edges
    from matplotlib.dates import date2num

    return date2num(edges)


def _label_times(ax: Any, column: Column, axis: str = "x") -> None:
    if not _is_time(column):
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    one = getattr(ax, f"{axis}axis")
    locator = AutoDateLocator(minticks=2, maxticks=5)  # with 4 it finds no interval for 20 months, or 40 hours, and warns
    one.set_major_locator(locator)
    one.set_major_formatter(ConciseDateFormatter(locator))


def _percent() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{100 * value:.3g} %")
