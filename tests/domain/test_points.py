"""Points are mapped to cells of a public grid, each by itself, and come back in their cells."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import ALARM, kolmogorov, refuses

from skdpsynth import AreaSynthesizer
from skdpsynth.domain import PointGrid
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.persistence import from_bytes, to_bytes

BOUNDS = {"lat": (46.0, 48.0), "long": (7.0, 11.0)}
GRID = PointGrid(BOUNDS, n_levels=3)
BAD = [None, np.nan, np.inf, -np.inf]
GRIDS = {
    "a region": GRID,
    "the Earth": PointGrid({"lat": (-90, 90), "long": (-180, 180)}, n_levels=4, default=(0, 0)),
    "across 180": PointGrid({"lat": (-20, 0), "long": (170, 190)}, n_levels=2),
    "a pole": PointGrid({"lat": (80, 90), "long": (0, 360)}, n_levels=8),
    "narrow": PointGrid({"lat": (89.999998, 90), "long": (359.999998, 360)}, n_levels=8),
}
each_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


def last(grid):
    return grid.hierarchy.levels[-1]


def frame(points):
    return pd.DataFrame(np.reshape(points, (-1, 2)), columns=["lat", "long"])


def points_in(grid, n, seed=0):
    """Points in the bounds, many of them on edges of cells."""
    rng = np.random.default_rng(seed)
    sides = [np.append(rng.uniform(low, high, n), np.linspace(low, high, 2**grid.n_levels + 1)) for low, high in grid.bounds.values()]
    return frame(np.column_stack([rng.choice(side, n) for side in sides]))


def bounds_of(cells, grid):
    """South, north, west and east of cells, letter by letter."""
    found = []
    for cell in cells:
        (south, north), (west, east) = grid.bounds.values()
        for letter in cell:
            lat, long = (south + north) / 2, (west + east) / 2
            south, north = (lat, north) if letter in "cd" else (south, lat)
            west, east = (long, east) if letter in "bd" else (west, long)
        found.append((south, north, west, east))
    return np.array(found).T


@each_grid
def test_every_point_lies_in_its_cell_and_cells_nest(grid):
    points = points_in(grid, 200)
    cells = grid.to_cells(points)[last(grid)]
    south, north, west, east = bounds_of(cells, grid)
    tiny = 1e-12  # of rounding
    assert ((south - tiny <= points["lat"]) & (points["lat"] <= north + tiny)).all()
    assert ((west - tiny <= points["long"]) & (points["long"] <= east + tiny)).all()
    for n_levels in range(1, grid.n_levels):
        coarse = PointGrid(grid.bounds, n_levels)
        assert coarse.to_cells(points)[last(coarse)].tolist() == cells.str[:n_levels].tolist()


@each_grid
def test_points_drawn_of_a_cell_lie_in_it(grid):
    cells = grid.to_cells(points_in(grid, 500))
    again = grid.to_cells(grid.to_points(cells, random_state=1))
    assert again.equals(cells)


@each_grid
def test_a_point_moves_at_most_the_diameter_of_its_cell(grid):
    points = points_in(grid, 100)
    cells = grid.to_cells(points)
    south, north, west, east = bounds_of(cells[last(grid)], grid)
    nearest = np.where((south <= 0) & (north >= 0), 0, np.minimum(np.abs(south), np.abs(north)))  # to the equator
    degrees = north - south + (east - west) * np.cos(np.radians(nearest))  # along a meridian, then along a parallel
    moved = grid.to_points(cells, random_state=0).to_numpy()
    for before, after, most in zip(points.to_numpy(), moved, degrees, strict=True):
        assert wasserstein_distance([before], [after], "haversine") <= 6371.0088 * np.radians(most) * (1 + 1e-6) + 1e-5


def test_drawn_points_are_uniform_by_area():
    grid, rng = PointGrid({"lat": (0, 90), "long": (-180, 180)}, n_levels=1), np.random.RandomState(0)
    points = grid.to_points(pd.DataFrame({"cell_1": ["c", "d"] * 2000}), rng)
    heights = np.sin(np.radians(points["lat"].to_numpy()))
    low = np.sin(np.radians(45))
    assert kolmogorov((heights - low) / (1 - low), "uniform") > ALARM
    assert kolmogorov((points["lat"].to_numpy() - 45) / 45, "uniform") < ALARM  # so that points uniform in degrees would be found
    assert kolmogorov(points["long"].to_numpy() % 180 / 180, "uniform") > ALARM


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.one_of(st.sampled_from(BAD), st.floats(allow_nan=True))] * 2), min_size=1, max_size=6),
    place=st.integers(0),
)
def test_a_cell_depends_on_its_row_alone(rows, place):
    place %= len(rows)
    alone = pd.DataFrame([rows[place]], columns=["lat", "long"], dtype=float)
    among = GRID.to_cells(pd.DataFrame(rows, columns=["lat", "long"], dtype=float))
    assert among["cell_3"][place] == GRID.to_cells(alone)["cell_3"][0]
    assert among.dtypes.equals(GRID.to_cells(frame([46.5, 8.0])).dtypes)
    words = pd.DataFrame([*rows, ("nowhere", object())], columns=["lat", "long"], dtype=object)
    assert GRID.to_cells(words)["cell_3"].tolist() == [*among["cell_3"], "aaa"]


def test_points_without_numbers_are_in_the_default_cell_which_comes_first():
    grid = PointGrid(BOUNDS, 2, default=(47.9, 10.9))
    assert grid.to_cells(pd.DataFrame({"lat": [*BAD, 46.1], "long": [8.0] * 4 + [np.nan]}))["cell_2"].tolist() == ["dd"] * 5
    assert [areas[0] for areas in grid.hierarchy.areas] == ["d", "dd"]
    drawn = grid.to_points(pd.DataFrame({"cell_2": ["aa", None, "nowhere", 7, np.nan]}, dtype=object), 0)
    assert grid.to_cells(drawn)["cell_2"].tolist() == ["aa"] + ["dd"] * 4


def test_points_out_of_bounds_are_in_the_nearest_cell_around_the_circle():
    points = frame([[90, 9], [-90, 9], [47, 12], [47, 6], [47, 9 + 179], [47, 9 - 179], [47, 8 + 360], [47, 8 - 720]])
    edges = GRID.to_cells(frame([[48, 9], [46, 9], [47, 11], [47, 7], [47, 11], [47, 7], [47, 8], [47, 8]]))
    assert GRID.to_cells(points).equals(edges)
    grid = GRIDS["across 180"]
    pairs = grid.to_cells(frame([[-3, 184], [-3, -176], [-3, -160], [-3, 165]]))["cell_2"].tolist()
    assert pairs == ["dc", "dc", "dd", "cc"]
    assert grid.to_points(pd.DataFrame({"cell_2": ["dc"]}), 0)["long"].between(180, 185).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_all_libraries_keep_their_other_columns(library):
    for needed in {"pandas": (), "polars": ("polars", "pyarrow"), "pyarrow": ("pyarrow",)}[library]:
        pytest.importorskip(needed)
    table = pd.DataFrame({"age": [3, 4, 5], "lat": [46.1, 47.9, None], "name": ["x", "y", None], "long": [7.1, 10.9, 8.0]})
    given = {"pandas": lambda: table.set_index(pd.Index([5, 5, 7]))}
    given |= {"polars": lambda: __import__("polars").from_pandas(table)}
    given |= {"pyarrow": lambda: __import__("pyarrow").Table.from_pandas(table, preserve_index=False)}
    cells = GRID.to_cells(given[library]())
    plain = cells if library == "pandas" else cells.to_pandas()
    assert list(plain) == ["age", "cell_3", "name"]
    assert plain["cell_3"].tolist() == ["aaa", "ddd", "aaa"]
    points = GRID.to_points(cells, 0)
    assert type(points) is type(cells)
    plain = points if library == "pandas" else points.to_pandas()
    assert list(plain) == ["age", "lat", "long", "name"]
    assert plain["age"].tolist() == [3, 4, 5]
    if library == "pandas":
        assert points.index.tolist() == cells.index.tolist() == [5, 5, 7]
        assert GRID.to_cells(given[library]()[["lat", "long"]]).index.tolist() == [5, 5, 7]
    empty = GRID.to_cells(given[library]()[:0])
    assert len(empty) == len(GRID.to_points(empty)) == 0
    assert empty.dtypes.equals(cells.dtypes) if library == "pandas" else empty.schema == cells.schema


def test_the_seed_draws_the_same_points_and_none_draws_others():
    cells = GRID.to_cells(points_in(GRID, 20))
    assert GRID.to_points(cells, 3).equals(GRID.to_points(cells, 3))
    assert not GRID.to_points(cells).equals(GRID.to_points(cells))


def test_areas_synthesize_points():
    rng = np.random.default_rng(0)
    town = rng.choice(2, 600, p=[0.7, 0.3])
    people = pd.DataFrame({"lat": np.array([46.3, 47.6])[town], "long": 8.1, "sex": rng.choice(["f", "m"], 600)})
    model = AreaSynthesizer({"sex": ["f", "m"]}, GRID.hierarchy, by=["sex"], epsilon=float("inf"))
    sample = GRID.to_points(model.fit(GRID.to_cells(people)).sample(random_state=0), 0)
    assert sample.columns.tolist() == ["lat", "long", "sex"]
    assert sorted(GRID.to_cells(sample)["cell_3"]) == sorted(GRID.to_cells(people)["cell_3"])
    distance = wasserstein_distance(people[["lat", "long"]], sample[["lat", "long"]], "haversine")
    assert distance < 48  # a quarter of a degree to the north, half of one to the east


def test_it_comes_back_from_a_file():
    for grid in GRIDS.values():
        assert from_bytes(to_bytes(grid)) == grid


@pytest.mark.parametrize(
    "bounds",
    [
        *(None, [(0, 1), (0, 1)], {"lat": (0, 1)}, {"lat": (0, 1), "long": (0, 1), "z": (0, 1)}, {"lat": 1, "long": (0, 1)}),
        *({"lat": (0, 91), "long": (0, 1)}, {"lat": (0, 1), "long": (-181, 1)}, {"lat": (0, 1), "long": (-180, 181)}),
        *({"lat": (1, 0), "long": (0, 1)}, {"lat": (0, 1e-7), "long": (0, 1)}, {"lat": (0, np.nan), "long": (0, 1)}),
    ],
)
def test_bounds_that_are_none_are_refused(bounds):
    refuses(
        ValueError, r"^bounds must be a dict \{column: \(low, high\)\} of the latitude, then the longitude[^\n]*\.$", PointGrid, bounds, 2
    )


def test_other_parameters_and_tables_are_refused_in_a_sentence():
    for n_levels in (0, 9, 2.5, None):
        refuses(ValueError, "n_levels must be an integer from 1 to 8", PointGrid, BOUNDS, n_levels)
    for default in ("aa", (40, 8), (47, None), 3):
        refuses(ValueError, "default must be a point", PointGrid, BOUNDS, 2, default)
    refuses(TypeError, "X must be a data frame in memory", GRID.to_cells, np.zeros((3, 2)))
    refuses(ValueError, "it lacks 'long'", GRID.to_cells, pd.DataFrame({"lat": [1.0]}))
    refuses(ValueError, "X must not have the columns 'cell_1'", GRID.to_cells, frame([47, 8]).assign(cell_1="a"))
    refuses(ValueError, "it lacks 'cell_3'", GRID.to_points, frame([47, 8]))
    refuses(ValueError, "X must not have the columns 'lat'", GRID.to_points, pd.DataFrame({"cell_3": ["aaa"], "lat": 1.0}))
    refuses(ValueError, "random_state must be None, an int", GRID.to_points, pd.DataFrame({"cell_3": ["aaa"]}), "seed")
