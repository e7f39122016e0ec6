"""Histories: times and ends of rows become gaps and lengths and are written back in order, without overlaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpsynth.domain import Children, Continuous, Date, DateTime, Ordinal, history_of
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.tables import open_forest

pytestmark = pytest.mark.usefixtures("rows_by_arrival")
PATIENTS = pd.DataFrame({"id": range(3), "sex": ["f", "m", "f"]})
STAY = Children("stay", of="patient", key="id", most=9, order="begin", until="end")
KINDS = {
    "whole numbers": (Continuous(0, 50), Continuous(0, 60)),
    "numbers": (Continuous(-1.0, 50.0, decimals=1), Continuous(0.0, 45.0, decimals=1, nullable=True)),
    "dates": (Date("2024-01-01", "2024-12-31", nullable=True), Date("2023-12-01", "2024-11-30", nullable=True)),
    "times": (DateTime("2024-01-01", "2024-01-31", resolution="hour"), DateTime("2024-01-02", "2024-02-28", resolution="hour")),
}


def opened(stays, kinds, link=STAY):
    schemas = {"patient": {"sex": ["f", "m"]}, "stay": dict(zip(["begin", "end"], kinds, strict=False))}
    return open_forest(schemas, [link], {"patient": PATIENTS, "stay": stays})


def written(forest, linked):
    tables = {**forest.tables, "stay": linked.decode("stay", forest.tables["stay"], forest.owners["stay"])}
    return linked.write(tables, forest.owners)["stay"]


def made_up(kinds, n=60, seed=0):
    """Any stays, with overlaps, ends before their begins, and times out of bounds."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, kind in zip(["begin", "end"], kinds, strict=True):
        if isinstance(kind, Continuous):
            columns[name] = rng.integers(-5, 65, n) if kind.integer else np.where(rng.random(n) < 0.1, np.nan, rng.random(n) * 70 - 5)
        else:
            columns[name] = pd.Timestamp("2023-12-25") + pd.to_timedelta(rng.random(n) * 380, "D")
            columns[name] = pd.Series(columns[name].astype("datetime64[us]")).mask(rng.random(n) < 0.1)
    return pd.DataFrame({"id": rng.integers(0, 3, n), **columns})


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_drawn_stays_are_in_order_in_bounds_and_never_overlap(kind):
    linked = opened(made_up(KINDS[kind]), KINDS[kind])[1]
    rng, n = np.random.default_rng(1), 4000
    owner = np.sort(rng.integers(0, n // 6, n))
    columns = [np.arange(n // 6) % 2, np.bincount(owner, minlength=n // 6)]
    drawn = []
    for name, each in list(linked.model_kinds("stay").items()):
        values = rng.integers(0, each.high, n, endpoint=True).astype(float) if each.integer else rng.random(n) * each.high
        values *= rng.random(n) < 0.3  # many touch
        drawn.append(np.where(rng.random(n) < 0.1 * each.nullable, np.nan, values))
        assert name in ("begin", "end")
    stays = linked.decode("stay", [*drawn, np.zeros(n, int)], owner)
    table = linked.write({"patient": columns, "stay": stays}, {"stay": owner})["stay"]
    begin, end = table["begin"], table["end"].fillna(table["begin"])
    assert (end.isna() | begin.isna() | (end >= begin)).all()
    reached = end.fillna(begin).groupby(table["id"]).cummax().groupby(table["id"]).shift()
    assert not (begin < reached).any()
    assert len(table) == 4000
    for name, stated in zip(["begin", "end"], KINDS[kind], strict=True):
        cells = table[name].dropna()
        low, high = (pd.Timestamp(each) if not isinstance(stated, Continuous) else each for each in (stated.low, stated.high))
        assert cells.between(low, high).all()
        assert (cells == high).any() or name == "begin" or kind == "times"


STAYS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(0, 8)), max_size=12)


@given(STAYS)
def test_gaps_and_lengths_are_what_a_loop_over_rows_finds_and_come_back_where_no_stays_overlap(rows):
    stays = pd.DataFrame(rows, columns=["id", "begin", "length"])
    stays = stays.assign(end=np.minimum(stays["begin"] + stays["length"], 60))[["id", "begin", "end"]]
    forest, linked = opened(stays, KINDS["whole numbers"])
    gaps, lengths, disjoint = [], [], True
    for patient in range(3):
        reached = 0
        mine = [row for row in rows if row[0] == patient]
        for _, begin, length in sorted(mine, key=lambda row: row[1])[:9]:
            gaps.append(max(begin - reached, 0))
            lengths.append(length)
            disjoint &= begin >= reached
            reached = begin + length
    assert forest.tables["stay"][0].tolist() == gaps
    assert forest.tables["stay"][1].tolist() == lengths
    back = written(forest, linked)
    if disjoint:
        expected = stays.sort_values(["id", "begin"], kind="stable").groupby("id").head(9)
        assert back[["begin", "end"]].to_numpy().tolist() == expected[["begin", "end"]].to_numpy().tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_lasts_longer_than_is_stated(kind):
    link = Children("stay", of="patient", key="id", most=9, order="begin", until="end", longest=3)
    rng, owner, (forest, linked) = np.random.default_rng(1), np.repeat(np.arange(100), 4), opened(made_up(KINDS[kind]), KINDS[kind], link)
    kinds = linked.model_kinds("stay")
    assert kinds["end"].high == 3 < kinds["begin"].high
    assert np.nanmax(forest.tables["stay"][1]) <= 3
    drawn = [rng.integers(0, int(each.high), 400, endpoint=True).astype(float) for each in kinds.values()]
    begin, end, _ = linked.decode("stay", [*drawn, np.zeros(400, int)], owner)
    gaps = linked._history("stay")
    assert (np.maximum(begin, gaps.least) + 3 >= end + gaps.apart).all()  # none can end before


def test_a_row_whose_begin_is_missing_lasts_from_the_end_of_the_row_before():
    """Else its length would be missing too, which the schema of its end may rule out."""
    stays = pd.DataFrame({"id": 0, "begin": [10.0, 20.0, np.nan], "end": [15.0, 30.0, 50.0]})
    link = Children("stay", of="patient", key="id", most=4, order="begin", until="end")
    forest, linked = opened(stays, [Continuous(0.0, 60.0, nullable=True), Continuous(0.0, 60.0)], link)
    assert forest.tables["stay"][1].tolist() == [5, 10, 20]
    assert not linked.schemas["stay"]["end"].nullable
    pd.testing.assert_frame_equal(written(forest, linked)[["begin", "end"]], stays[["begin", "end"]])


def test_levels_stay_in_order_and_missing_ones_last():
    visits = pd.DataFrame({"id": [0, 0, 0, 0, 1], "begin": ["c", None, "a", "c", "b"]})
    link = Children("stay", of="patient", key="id", most=4, order="begin")
    forest, linked = opened(visits, [Ordinal(["a", "b", "c"], nullable=True)], link)
    assert forest.tables["stay"][0].tolist() == [0, 2, 2, 3, 1]
    forest.tables["stay"][0][:4] = [2, 3, 0, 2]  # as a model may draw them
    back = written(forest, linked)
    assert back["begin"].astype(object).fillna("-").tolist() == ["a", "c", "c", "-", "b"]


@pytest.mark.parametrize(
    ("kind", "grid", "cells"),
    [
        (Continuous(1980, 1999), range(1990, 1993), [1980, 1990]),
        (Ordinal(["w1", "w2", "w3", "w4"]), ["w1", "w3", "w4"], ["w1", "w3"]),
        (Date("2020-01-01", "2024-12-31"), ["2021-01-01", "2022-01-01", "2023-01-01"], ["2021-05-05"] * 2),
    ],
)
def test_waves_of_a_grid_are_not_modeled_and_written_by_place(kind, grid, cells):
    dtype = "datetime64[us]" if isinstance(kind, Date) else None
    waves = pd.DataFrame({"id": [2, 2], "begin": pd.Series(cells, dtype=dtype), "end": 7})
    link = Children("stay", of="patient", key="id", most=3, least=3, order="begin", grid=grid)
    forest, linked = opened(waves, [kind, (0, 9)], link)
    assert list(linked.schemas["stay"]) == ["end", "stay.nth"]
    assert [column.tolist() for column in forest.tables["stay"]] == [[7, 7], [0, 1]]
    assert from_bytes(to_bytes(linked)) == linked
    back = written(forest, linked)
    assert [str(cell)[:10] for cell in back["begin"]] == [str(cell) for cell in list(grid)[:2]]
    assert back["end"].tolist() == [7, 7]


@pytest.mark.parametrize(
    ("kinds", "change", "message"),
    [
        ([(0, 9), (0.0, 9.0)], {}, "order and until must be two columns .* in one unit and dtype, got 'begin'"),
        ([(0, 9), ["a", "b"]], {}, "order and until must be two columns"),
        ([Ordinal([1, 2]), Ordinal([1, 2])], {}, "order and until must be two columns"),
        ([(0, 9), (20, 30)], {}, "order and until must have bounds between which rows can begin and end"),
        ([(10, 19), (0, 10)], {}, "order and until must have bounds"),
        ([(0, 9), (0, 9)], {"until": "length"}, "order and until must be two columns"),
        ([(0, 9), (0, 9)], {"until": None, "least": 3, "grid": [1, 1, 2]}, "grid must have cells of column 'begin', ascending and as"),
        ([(0, 9), (0, 9)], {"until": None, "least": 3, "grid": [1, 2, 10]}, "grid must have cells"),
        ([(0, 9), (0, 9)], {"until": None, "least": 3, "grid": [1, 2, "x"]}, "grid must have cells"),
        ([(0, 9), (0, 9)], {"until": None, "least": 3, "grid": [1, 2, None]}, "grid must have cells"),
        ([Ordinal([1, 2]), (0, 9)], {"until": None, "least": 3, "grid": [1, 2, 3]}, "grid must have cells"),
    ],
)
def test_columns_that_have_no_gaps_and_grids_that_do_not_fit_are_refused(kinds, change, message):
    link = Children("stay", **{"of": "patient", "key": "id", "most": 3, "order": "begin", "until": "end", **change})
    stays = pd.DataFrame({"id": [0], "begin": [1], "end": [2]})
    with pytest.raises((TypeError, ValueError), match=message):
        opened(stays.astype({"end": str}) if isinstance(kinds[1], list) else stays, kinds, link)


def test_times_that_dtypes_round_in_two_ways_are_refused():
    kinds = {"begin": DateTime("2024-01-01", "2024-01-31"), "end": DateTime("2024-01-01", "2024-01-31")}
    assert history_of(STAY, kinds, {"begin": "datetime64[us]", "end": "datetime64[ms]"}).apart == 0
    for dtypes in ({"begin": "datetime64[us]", "end": "Date"}, {"begin": "float32", "end": "float64"}):
        stated = kinds if "64[us]" in dtypes["begin"] else dict.fromkeys(kinds, Continuous(0.0, 9.0))
        with pytest.raises(ValueError, match="in one unit and dtype"):
            history_of(STAY, stated, dtypes)
