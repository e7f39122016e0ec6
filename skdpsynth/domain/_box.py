"""The box of public bounds with its integer grid, the ball of rows within it, and bounds that nobody knows."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from skdpsynth._validation import as_numeric_array, check_integer, check_memory, is_integer, is_real, short_repr
from skdpsynth.domain._kinds import is_name, list_names
from skdpsynth.frames import as_rows, dense_chunks
from skdpsynth.persistence import savable

BoundsLike: TypeAlias = ArrayLike | Mapping[Hashable, Sequence[float]] | None  # the parameter `bounds` of estimators; a text: "private"
BITS = 16
UNIT = (0.0, 1.0)  # bounds that nobody gave
PRIVATE = "private"  # in place of bounds that are to be bought
PLACEHOLDER = (-1.0, 1.0)  # bounds of a column until any are bought, and where nothing is seen
NO_BOUNDS = (
    "bounds are not given, so values are clipped to (0, 1); give bounds in the units of your columns, such as {'age': (0, 120)}, or "
    "bounds=(0, 1) if these are what they are."
)
_VALUES = 1 << 17  # values at a time: the scratch stays in cache
_TILE = 64  # rows that share one line of bounds
_WIDEST = 990  # widths lie between 2**-990 and 2**990


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Box:
    """A public box, the product of ``[low_i, high_i]`` over the features, with a grid of 2**bits steps a side.

    Nothing here reads a bound from data. Every map is a function of one record alone, so neighboring data go to
    neighboring data, and none of them raises on a value: values outside are clipped, NaN goes to the midpoint.

    Parameters
    ----------
    low, high : array-like of shape (n_features,)
        Finite, ``low < high``.
    bits : int, default=16
        Grid steps a side, as a power of two; 1 to 30.
    whole : array-like of bool of shape (n_features,), default=None
        Which features hold whole numbers: samples then do too. None: none of them.

    Raises
    ------
    ValueError
        If the bounds are not finite, not ordered, or too far apart or too close for floating point.

    See Also
    --------
    BinaryPartition : Cells of a box.
    Lattice : Equal parts of a box.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import Box
    >>> box = Box([0.0, -1.0], [1.0, 1.0], bits=2)
    >>> box.quantize(np.array([[0.3, 5.0], [1.0, np.nan]]))
    array([[1, 3],
           [3, 2]])
    """

    low: np.ndarray
    high: np.ndarray
    bits: int = BITS
    whole: Any = None

    def __post_init__(self) -> None:
        low, high = _as_bounds(self.low), _as_bounds(self.high)
        if low.ndim != 1 or low.shape != high.shape or not len(low):
            raise ValueError(f"bounds must give one low and one high for each feature, got shapes {low.shape} and {high.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
        # One over the width, times a power of two up to 2**30, must be a normal float: then taking leading bits is exact.
        for good, rule, way_out in (
            (np.isfinite(low) & np.isfinite(high) & (low < high), "be finite with low < high", "give the publicly known range"),
            ((width <= 2.0**_WIDEST) & (width >= 2.0**-_WIDEST), "span a width that floats can divide by", "rescale the column"),
        ):
            if not good.all():
                i = int(np.argmin(good))
                raise ValueError(f"bounds must {rule}, got ({low[i]:g}, {high[i]:g}) for feature {i}; {way_out}.")
        if not is_integer(self.bits, 1, 30):
            raise ValueError(f"bits must be an integer from 1 to 30, got {short_repr(self.bits)}; 16 serves nearly all data.")
        whole = np.zeros(len(low), dtype=bool) if self.whole is None else as_numeric_array(self.whole, "whole").copy()
        if whole.dtype != bool or len(whole) != len(low):
            raise ValueError(f"whole must hold {len(low)} booleans, one a feature, got {whole.dtype} of shape {whole.shape}.")
        # A feature of whole numbers without one within its bounds is sampled like any other.
        whole &= np.ceil(low) <= np.floor(high)
        for value in (low, high, whole):
            value.setflags(write=False)
        vars(self).update(low=low, high=high, whole=whole)

    def __repr__(self) -> str:
        sides = f"low={self.low.tolist()}, high={self.high.tolist()}" if len(self.low) <= 3 else f"n_features={len(self.low)}"
        return f"Box({sides}, bits={self.bits})"

    @classmethod
    def from_bounds(
        cls,
        bounds: BoundsLike,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        bits: int = BITS,
        whole: ArrayLike | None = None,
    ) -> "Box":
        """Build the box that an estimator's ``bounds`` parameter describes; a dict of columns needs their names, in order."""
        n_features = check_integer("n_features", n_features, 1)
        check_memory("n_features", n_features, 64 * n_features)
        if bounds is None:
            bounds = UNIT
        low, high = map(_as_bounds, _from_columns(bounds, feature_names) if isinstance(bounds, dict) else pair_of(bounds))
        for name, side in (("low", low), ("high", high)):
            if side.shape not in ((), (n_features,)):
                raise ValueError(
                    f"bounds must hold a number, or one number a feature, {n_features} in all, got shape {side.shape} for {name}."
                )
        return cls(np.broadcast_to(low, n_features), np.broadcast_to(high, n_features), bits, whole)

    def with_bits(self, bits: int) -> "Box":
        """Return the same box with another grid."""
        return replace(self, bits=bits)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.low)

    @property
    def width(self) -> np.ndarray:
        """Side lengths, shape (n_features,)."""
        return self.high - self.low

    @property
    def midpoint(self) -> np.ndarray:
        """The center, shape (n_features,)."""
        return self.low + 0.5 * self.width

    @property
    def step(self) -> np.ndarray:
        """Side lengths of one grid step, shape (n_features,)."""
        return self.width / 2.0**self.bits

    def scratch(self, n_samples: int) -> np.ndarray:
        """Return working space for `steps` on chunks of at most ``chunk_rows`` (or `n_samples`) rows."""
        rows = min(self.chunk_rows, -(-n_samples // _TILE) * _TILE)
        return np.zeros((rows, self.n_features))

    @property
    def chunk_rows(self) -> int:
        """Number of rows that `steps` maps at a time, so that the scratch stays in cache."""
        return max(_TILE, _VALUES // self.n_features // _TILE * _TILE)

    @np.errstate(all="ignore")  # a warning would reveal a value
    def steps(
        self, rows: np.ndarray, bits: np.ndarray, scratch: np.ndarray, finite: bool = False, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Map rows onto ``2**bits`` steps an axis, of each feature: whole numbers in [0, 2**bits), held in floats in a view of `scratch`.

        With `out`, whole numbers go there. Rows are left as they are. With `finite`, the caller promises that no row holds NaN, and none is
        looked for. Taking the leading bits commutes with the map, because multiplying by a power of two is exact.
        """
        n_rows = len(rows)
        if not n_rows:
            return scratch[:0] if out is None else out
        tiles = -(-n_rows // _TILE)
        # Rows are tiled so that each operation runs over long contiguous lines. Subtract and multiply are correctly
        # rounded a value at a time, so the result of a record depends on that record alone.
        block = scratch[: tiles * _TILE].reshape(tiles, -1)
        if n_rows % _TILE == 0 and rows.flags.c_contiguous and rows.dtype.itemsize <= 8:  # wider floats round to double first, always
            source = rows.reshape(block.shape)
        else:
            scratch[:n_rows] = rows
            source = block
        low, factor, top = _step_lines(self.low.tobytes(), self.high.tobytes(), np.asarray(bits, dtype=float).tobytes())
        if low is not None:
            source = np.subtract(source, low, out=block)
        np.multiply(source, factor, out=block)
        # The last step is closed, so the top face of the box belongs to the last cell.
        np.clip(block, 0, top, out=block)
        if not finite and np.isnan(np.min(block)):  # one pass, no scratch; NaN carries through
            np.copyto(block, _tile(2.0 ** (bits - 1)), where=np.isnan(block))
        if out is None:
            return np.floor(block, out=block).reshape(-1, self.n_features)[:n_rows]
        out[...] = block.reshape(-1, self.n_features)[:n_rows]  # none is negative, so what is cut off is what floor takes
        return out

    @np.errstate(all="ignore")
    def column_steps(self, column: np.ndarray, feature: int, n_steps: float, out: np.ndarray) -> np.ndarray:
        """Map one column as `steps` maps rows, onto any number of steps, into contiguous floats, but leave NaN as NaN.

        A power of two as `n_steps` makes the leading bits those of any finer grid.
        """
        column = column.astype(float) if column.dtype.itemsize > 8 else column
        if self.low[feature]:
            column = np.subtract(column, self.low[feature], out=out)
        np.multiply(column, n_steps / self.width[feature], out=out)
        np.clip(out, 0, n_steps - 1, out=out)
        return np.floor(out, out=out)

    def chunks(
        self, X: np.ndarray, bits: np.ndarray | None = None, finite: bool = False, out: np.ndarray | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield ``(rows, steps)`` over `X`, dense or sparse: a slice, and the steps of those rows in reused scratch, or in `out`."""
        X = X if issparse(X) else as_rows(X, self.n_features)
        bits = np.full(self.n_features, self.bits) if bits is None else bits
        scratch = self.scratch(X.shape[0])
        for rows, chunk in dense_chunks(X, self.chunk_rows):
            yield rows, self.steps(chunk, bits, scratch, finite, None if out is None else out[rows])

    def quantize(self, X: np.ndarray) -> np.ndarray:
        """Map rows, in the units of the columns, onto the public integer grid: coordinates in [0, 2**bits), int64.

        What lies outside is clipped, by the public bounds alone, so it costs no privacy.
        """
        X = as_rows(X, self.n_features)
        Q = np.empty(X.shape, dtype=np.int64)
        for _ in self.chunks(X, out=Q):
            pass
        return Q

    def restore(self, Q: np.ndarray) -> np.ndarray:
        """Map grid coordinates to the middle of their step, in the units of the original columns."""
        X = np.multiply(as_rows(Q, self.n_features, "Q"), 2.0, dtype=float)
        X += 1
        X *= self.width / 2.0 ** (self.bits + 1)
        X += self.low
        return np.clip(X, self.low, self.high, out=X)

    def clip(self, X: np.ndarray) -> np.ndarray:
        """Return `X` clipped to the box; features of whole numbers are rounded to those within it."""
        X = np.clip(as_rows(X, self.n_features), self.low, self.high)
        if self.whole.any():
            within = np.clip(np.rint(X[:, self.whole]), np.ceil(self.low[self.whole]), np.floor(self.high[self.whole]))
            X[:, self.whole] = within
        return X


@savable
@dataclass(frozen=True, eq=False)
class Ball:
    """The map of rows to whole numbers ``w = 2 q - (2**bits - 1) - center``, q their grid coordinates.

    Half a grid step is the unit, and without a center the midpoint of the box is the origin. A row outside the ball is shrunk towards
    its center. Rows must be finite, as those of a fit are. Every row is mapped by itself, in whole numbers, so neighboring tables go
    to neighboring tables, and no row is longer than the radius, exactly.
    """

    box: Box  # the grid
    least: np.ndarray  # grid coordinates that bounds allow, of each feature; the box may be wider
    most: np.ndarray
    center: np.ndarray  # int64
    squared_radius: Any = None  # int; None: no row is shrunk
    takes_coordinates: bool = False  # whether rows come as grid coordinates and not in the units of the data

    @classmethod
    def of(cls, box: Box, bits: int, equal_units: bool) -> "Ball":
        """Return all of a box, about its midpoint, on a grid of ``2**bits`` steps along every side.

        With `equal_units` they are along the widest side, and a step has one length on all axes, so lengths of rows are those of the data.
        """
        grid = box.with_bits(bits)
        if equal_units:
            reach = box.width.max() / 2
            grid = Box(box.midpoint - reach, box.midpoint + reach, bits)
        # The grid is monotone, so clipping its coordinates to those of the bounds is to clip the row to the bounds.
        least, most = grid.quantize(np.array([box.low, box.high]))
        return cls(grid, least, most, np.zeros(box.n_features, dtype=np.int64))

    @property
    def unit(self) -> np.ndarray:
        return self.box.step / 2

    @property
    def width(self) -> np.ndarray:
        return (self.most - self.least + 1) * self.box.step

    @property
    def origin(self) -> np.ndarray:
        """The origin in twice the grid coordinates, shape (n_features,), int64."""
        return (1 << self.box.bits) - 1 + self.center

    @property
    def largest(self) -> np.ndarray:
        """The most that a coordinate can be, either way, shape (n_features,)."""
        return np.maximum(np.abs(2 * self.least - self.origin), np.abs(2 * self.most - self.origin))

    @property
    def reach(self) -> int:
        """The squared length that no row exceeds."""
        corner = sum(side**2 for side in self.largest.tolist())  # beyond int64 on fine grids
        return corner if self.squared_radius is None else min(corner, self.squared_radius)

    @property
    def shrinks(self) -> bool:
        return self.reach < int((self.largest**2).sum())

    def clip(self, point: np.ndarray) -> np.ndarray:
        """Clip a point, in the units of the data, to the bounds, up to a grid step."""
        return np.clip(point, self.box.low + self.least * self.box.step, self.box.low + (self.most + 1) * self.box.step)

    def about(self, center: np.ndarray) -> "Ball":
        """Move the center to whole numbers, clipped to the bounds."""
        middle = (1 << self.box.bits) - 1
        return replace(self, center=np.clip(center, 2 * self.least - middle, 2 * self.most - middle).astype(np.int64))

    def within(self, squared_radius: int) -> "Ball":
        """Set the radius to the root of `squared_radius`, at least 1."""
        return replace(self, squared_radius=max(1, int(squared_radius)))

    def of_coordinates(self) -> "Ball":
        """Take rows as grid coordinates, as `steps` gives them."""
        return replace(self, takes_coordinates=True)

    def chunks(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield ``(rows, whole)`` over `X`: a slice, and those rows as whole numbers in reused scratch."""
        origin, shrinks = self.origin, self.shrinks
        for rows, whole in self.steps(X):
            whole *= 2
            whole -= origin
            if shrinks:
                lengths = np.einsum("ij,ij->i", whole, whole)
                far = np.flatnonzero(lengths > self.reach)
                whole[far] = self.nearer(whole[far], lengths[far])
            yield rows, whole

    def steps(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield ``(rows, q)`` over `X`: a slice, and the grid coordinates of those rows within the bounds in reused scratch."""
        if self.takes_coordinates:
            scratch = self.box.scratch(len(X))
            for rows, part in dense_chunks(X, self.box.chunk_rows):
                q = scratch[: len(part)]
                np.copyto(q, part)
                yield rows, q
            return
        is_narrow = self.least.any() or (self.most < (1 << self.box.bits) - 1).any()
        for rows, q in self.box.chunks(X, finite=True):
            yield rows, np.clip(q, self.least, self.most, out=q) if is_narrow else q

    def squared_lengths(self, q: np.ndarray) -> np.ndarray:
        """Return the squared lengths, before they are shrunk, of rows given by grid coordinates.

        ``|2 q - o|^2 = 4 (|q|^2 - q.o) + |o|^2``, of whole numbers below 2**53, which floats hold.
        """
        origin = self.origin.astype(float)
        lengths = np.einsum("ij,ij->i", q, q)
        lengths -= q @ origin
        lengths *= 4
        lengths += origin @ origin
        return lengths

    def nearer(self, whole: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Shrink rows w beyond the radius r: multiply by ``floor(r) / ceil(|w|)``, and round towards 0.

        No square exceeds r**2. |w|**2 < 2**50 is exact in floats, and so is the ceiling of its root: next to a whole number m it differs
        from m by 1 / (2 m) at least, more than rounding moves it. So is the floor of a quotient of whole numbers below 2**50 by one below
        2**25.
        """
        scaled = whole * math.isqrt(self.reach)
        scaled /= np.ceil(np.sqrt(lengths))[:, None]
        return np.trunc(scaled, out=scaled)


@lru_cache(maxsize=16)
def _step_lines(low: bytes, high: bytes, bits: bytes) -> tuple[Any, Any, Any]:
    """Return what `Box.steps` subtracts (None: nothing), multiplies by and clips to, for a tile of rows: made once, not for each chunk."""
    least, steps = np.frombuffer(low), 2.0 ** np.frombuffer(bits)
    return _tile(least) if least.any() else None, _tile(steps / (np.frombuffer(high) - least)), _tile(steps - 1)


def _tile(per_feature: np.ndarray) -> Any:
    return per_feature[0] if (per_feature == per_feature[0]).all() else np.tile(per_feature, _TILE)


def _as_bounds(values: object) -> np.ndarray:
    """Copy numbers to floats, and refuse text that reads like numbers."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            raise TypeError
        array = np.array(values)
        if array.dtype.kind not in "iufbO" or (array.dtype.kind == "O" and any(isinstance(v, str | bytes) for v in array.flat)):
            raise TypeError
        return array.astype(float)
    except Exception:  # also of the caller's own objects
        raise ValueError(f"bounds must hold numbers, got {short_repr(values)}; give (low, high) as floats or arrays.") from None


def pair_of(bounds: Any) -> tuple[Any, Any]:
    """Return the lower and the upper side of bounds. A set has no order, and a text or a masked array is no pair."""
    if isinstance(bounds, list) and bounds and all(isinstance(pair, tuple) for pair in bounds):
        raise ValueError(f"bounds must be a pair (low, high) or a dict, got {len(bounds)} pairs; for these give tuple(zip(*pairs)).")
    try:
        if isinstance(bounds, str | bytes | memoryview | Set | Iterator | np.ma.MaskedArray):
            raise TypeError
        low, high = bounds
        if not isinstance(bounds, list | tuple) and any(isinstance(side, str | bytes) for side in (low, high)):
            raise TypeError  # cells, maybe, which the message must not show
    except Exception:  # also of the caller's own objects
        raise ValueError(f"bounds must be a pair (low, high) or a dict {{column: (low, high)}}, got {short_repr(bounds)}.") from None
    return low, high


def _from_columns(bounds: dict[Any, Any], feature_names: Sequence[str] | None) -> tuple[Any, Any]:
    if feature_names is None:
        raise ValueError("bounds is a dict of columns, but X has no column names; pass a data frame, or bounds=(low, high).")
    listed_names = isinstance(feature_names, list | tuple) or (isinstance(feature_names, np.ndarray) and feature_names.dtype.kind in "OU")
    if not listed_names or not all(map(is_name, feature_names)):
        raise TypeError(f"feature_names must be a list of the columns, got {short_repr(feature_names)}; list their names.")
    names = set(feature_names)
    missing, extra = [name for name in feature_names if name not in bounds], [name for name in bounds if name not in names]
    if missing or extra:
        raise ValueError(
            f"bounds must name every column once, got none for [{list_names(missing)}] and unknown [{list_names(extra)}]; give "
            "{column: (low, high)} for each, and none for a column that fit takes as unit."
        )
    pairs = [pair_of(bounds[name]) for name in feature_names]
    for name, sides in zip(feature_names, pairs, strict=True):
        if all(map(is_real, sides)) and not sides[0] < sides[1]:
            raise ValueError(f"bounds must be finite with low < high, got ({sides[0]:g}, {sides[1]:g}) for column {name!r}; swap them.")
    return tuple(zip(*pairs, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class UnknownBounds:
    columns: tuple[int, ...]  # their places in the rows
    least: np.ndarray  # that the dtype of each can hold; infinite where it says nothing
    most: np.ndarray
    whole: np.ndarray  # which hold whole numbers


def _is_private(bounds: object) -> bool:
    return isinstance(bounds, str) and bounds == PRIVATE


def has_private(bounds: object) -> bool:
    return any(map(_is_private, bounds.values() if isinstance(bounds, dict) else [bounds]))


def with_placeholder_bounds(bounds: Any, n_features: int, names: Sequence[Any] | None) -> tuple[Any, tuple[int, ...]]:
    """Put (-1, 1) in place of bounds that are to be bought; return the bounds and the places of these columns."""
    if _is_private(bounds):
        return PLACEHOLDER, tuple(range(n_features))
    if not has_private(bounds):
        return bounds, ()
    columns = tuple(place for place, name in enumerate(names or ()) if _is_private(bounds.get(name)))
    return {name: PLACEHOLDER if _is_private(pair) else pair for name, pair in bounds.items()}, columns
