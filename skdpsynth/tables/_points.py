"""Points on the Earth as cells of a public grid, and back."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from skdpsynth._sklearn import check_seed
from skdpsynth._validation import check_integer, is_real, short_repr
from skdpsynth.domain import Hierarchy, Nominal, is_name, list_names
from skdpsynth.frames import Column, Table, TableKind, frame_of, is_pandas_column, split_columns
from skdpsynth.persistence import savable
from skdpsynth.tables._cells import numbers_of, read_levels

_QUADRANTS = "abcd"  # south-west, south-east, north-west, north-east
_MOST_LEVELS = 8
_NARROWEST = 1e-6  # degrees, a tenth of a meter: so the edges of cells differ as floats
_LIMITS = ((-90, 90), (-180, 360))


@savable
@dataclass(frozen=True)
class PointGrid:
    """Cells of latitude and longitude in larger cells: a public grid, by which `AreaSynthesizer` synthesizes points.

    The bounds are halved in both directions, and so are their quarters, level by level. A cell has a letter for each level, from "a" in
    the south-west over "b" in the south-east and "c" in the north-west to "d": "ca" lies in the cell "c" of the first level.

    Parameters
    ----------
    bounds : dict
        ``{column: (low, high)}`` of the latitude, then of the longitude, in degrees: public bounds at least 1e-6 apart, latitudes from -90
        to 90, longitudes from -180 to 360 and at most 360 apart. Longitudes are read around the circle: where bounds cross 180, state
        (170, 190) for example, in which -175 is 185.
    n_levels : int
        Number of levels, 1 to 8: their columns are "cell_1", "cell_2" and so on, of 4, 16 and so on cells.
    default : (latitude, longitude), default=None
        The point within `bounds` in whose cell a row counts that has no finite latitude or longitude. None: the south-west corner.

    See Also
    --------
    skdpsynth.AreaSynthesizer : Counts of cells that add up, and rows in them.
    Hierarchy : Areas that have names of their own.
    skdpsynth.metrics.wasserstein_distance : With ``metric="haversine"``, the distance between two tables of points.

    Notes
    -----
    *Privacy.* Nothing is learned from rows: `to_cells` maps each row on its own, so its result is **as private as the rows**.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.domain import PointGrid
    >>> grid = PointGrid({"lat": (46.0, 48.0), "long": (7.0, 9.0)}, n_levels=3)
    >>> cells = grid.to_cells(pd.DataFrame({"lat": [46.1, 47.9, None], "long": [7.1, 8.9, 8.0], "age": [20, 30, 40]}))
    >>> cells["cell_3"].tolist()
    ['aaa', 'ddd', 'aaa']
    >>> points = grid.to_points(cells, random_state=0)
    >>> list(points), bool(points["lat"].between(46, 48).all())
    (['lat', 'long', 'age'], True)
    """

    bounds: dict[Hashable, tuple[float, float]]
    n_levels: int
    default: tuple[float, float] | None = field(default=None)

    def __post_init__(self) -> None:
        is_dict = isinstance(self.bounds, Mapping) and len(self.bounds) == 2 and all(map(is_name, self.bounds))
        sides = [side if isinstance(side, list | tuple) else () for side in self.bounds.values()] if is_dict else []
        if not sides or not all(map(_is_range, sides, _LIMITS)):
            raise ValueError(
                "bounds must be a dict {column: (low, high)} of the latitude, then the longitude, in degrees, at least 1e-6 apart, of -90 "
                f"to 90 and of -180 to 360, these at most 360 apart, got {short_repr(self.bounds)}; correct them."
            )
        vars(self).update(bounds={name: (float(low), float(high)) for name, (low, high) in zip(self.bounds, sides, strict=True)})
        vars(self).update(n_levels=check_integer("n_levels", self.n_levels, 1, _MOST_LEVELS, "8 levels have 65536 cells"))
        if self.default is not None:
            point = self.default if isinstance(self.default, list | tuple) and len(self.default) == 2 else (np.nan, np.nan)
            if not all(is_real(x) and low <= x <= high for x, (low, high) in zip(point, self.bounds.values(), strict=True)):
                raise ValueError(f"default must be a point (latitude, longitude) within bounds or None, got {short_repr(self.default)}.")
            vars(self).update(default=(float(point[0]), float(point[1])))

    @property
    def hierarchy(self) -> Hierarchy:
        """The cells in their larger cells, as `AreaSynthesizer` takes them; that of `default` comes first."""
        return Hierarchy(self._levels, _tree("", self.n_levels), self._cells[self._default_number])

    def to_cells(self, X: Table) -> Any:
        """Replace latitude and longitude by the smallest cell: each row by itself.

        Parameters
        ----------
        X : data frame in memory
            Of pandas, polars, Arrow or another library that narwhals knows. Points out of bounds count in the nearest cell, by latitude
            and by longitude.

        Returns
        -------
        X_cells : data frame
            Of the same library, with the column of the last level, where the latitude was. It is as private as `X`.
        """
        kind, columns = _columns_of(X, list(self.bounds), self._levels)
        points = np.array([numbers_of(columns[name]) for name in self.bounds])
        is_finite = np.isfinite(points).all(axis=0)
        numbers = np.where(is_finite, self._locate(np.where(is_finite, points, 0.0)), self._default_number)
        return _exchange(kind, columns, list(self.bounds), {self._levels[-1]: np.array(self._cells)[numbers]})

    def to_points(self, X: Table, random_state: int | np.random.RandomState | None = None) -> Any:
        """Replace the smallest cell by a random point in it, uniform by area on the sphere.

        Parameters
        ----------
        X : data frame in memory
            With the column of the last level, such as a sample of `AreaSynthesizer`. A cell that is missing or unknown is that of
            `default`.
        random_state : int, RandomState or None, default=None
            Seed of the points. None: other ones at each call.

        Returns
        -------
        X_points : data frame
            Of the same library, with latitude and longitude, within `bounds`, where the cell was.
        """
        rng = np.random.default_rng(None if random_state is None else np.frombuffer(check_seed(random_state).bytes(32), dtype=np.uint32))
        last = self._levels[-1]
        kind, columns = _columns_of(X, [last], list(self.bounds))
        cells = self.hierarchy.areas[-1]  # a missing or unknown cell is read as the first
        codes = read_levels(columns[last], Nominal(list(cells)), kind.dtypes[kind.columns.index(last)])
        numbers = np.searchsorted(self._cells, cells)[codes]
        south, west = _unlace(numbers, self.n_levels)
        ends = [(edges[at], edges[at + 1]) for edges, at in zip(self._edges, (south, west), strict=True)]
        lat = np.degrees(np.arcsin(rng.uniform(*np.sin(np.radians(ends[0])))))
        drawn = zip(self.bounds, (lat, rng.uniform(*ends[1])), ends, strict=True)
        # The upper edge belongs to the next cell.
        new = {name: np.clip(x, low, np.nextafter(high, -np.inf)) for name, x, (low, high) in drawn}
        return _exchange(kind, columns, [last], new)

    @property
    def _levels(self) -> list[Hashable]:
        return [f"cell_{level + 1}" for level in range(self.n_levels)]

    @property
    def _cells(self) -> list[str]:
        return ["".join(letters) for letters in product(_QUADRANTS, repeat=self.n_levels)]

    @property
    def _edges(self) -> list[np.ndarray]:
        return [np.linspace(low, high, 2**self.n_levels + 1) for low, high in self.bounds.values()]

    @property
    def _default_number(self) -> int:
        return 0 if self.default is None else int(self._locate(np.array(self.default)[:, None])[0])

    def _locate(self, points: np.ndarray) -> np.ndarray:
        """Return the number of the cell of each finite point, shape (2, n)."""
        _, (west, east) = self.bounds.values()
        middle = west / 2 + east / 2
        nearest = middle + (points[1] - middle + 180) % 360 - 180
        long = np.where((points[1] < west) | (points[1] > east), nearest, points[1])
        last, sides = 2**self.n_levels - 1, zip(self._edges, (points[0], long), strict=True)
        south, west_cell = (np.clip(np.searchsorted(edges, x, side="right") - 1, 0, last) for edges, x in sides)
        return _lace(south, west_cell, self.n_levels)


def _is_range(side: Sequence[Any], limits: tuple[int, int]) -> bool:
    if len(side) != 2 or not all(is_real(x) and limits[0] <= x <= limits[1] for x in side):
        return False
    return _NARROWEST <= float(side[1]) - float(side[0]) <= 360


def _tree(cell: str, n_levels: int) -> Any:
    within = [cell + letter for letter in _QUADRANTS]
    return within if n_levels == 1 else {each: _tree(each, n_levels - 1) for each in within}


def _lace(south: np.ndarray, west: np.ndarray, n_levels: int) -> np.ndarray:
    """Return the numbers of cells, whose pairs of bits are those of a row and a column of the grid."""
    numbers = np.zeros_like(south)
    for level in reversed(range(n_levels)):
        numbers = 4 * numbers + 2 * (south >> level & 1) + (west >> level & 1)
    return numbers


def _unlace(numbers: np.ndarray, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
    south, west = np.zeros_like(numbers), np.zeros_like(numbers)
    for level in reversed(range(n_levels)):
        south, west = 2 * south + (numbers >> 2 * level + 1 & 1), 2 * west + (numbers >> 2 * level & 1)
    return south, west


def _columns_of(X: Table, old: list[Hashable], new: list[Hashable]) -> tuple[TableKind, dict[Hashable, Column]]:
    kind, raw = split_columns(X)
    if kind.names is None:
        raise TypeError(f"X must be a data frame in memory, whose columns have names, got {short_repr(X)}; make one of it.")
    if lacking := [name for name in old if name not in kind.names]:
        raise ValueError(f"X must have the columns {list_names(old)}, but it lacks {list_names(lacking)}; rename or add them.")
    if taken := [name for name in new if name in kind.names]:
        raise ValueError(f"X must not have the columns {list_names(taken)}, which name new ones or larger cells; rename or drop them.")
    return kind, dict(zip(kind.names, raw, strict=True))


def _exchange(kind: TableKind, columns: dict[Hashable, Column], old: list[Hashable], new: dict[Hashable, np.ndarray]) -> Any:
    """Return a data frame with new columns at the place of the first of the old ones."""
    found: dict[Hashable, Column] = {}
    for name, column in columns.items():
        if name == old[0]:  # with the index of pandas
            found |= {each: type(column)(x, column.index) if is_pandas_column(column) else x for each, x in new.items()}
        elif name not in old:
            found[name] = column
    return frame_of(list(found.values()), tuple(found), kind.library)
