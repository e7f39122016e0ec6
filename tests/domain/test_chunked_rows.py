"""The rows of one fit: chunks that can be read again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import _source, open_source

from skdpsynth.frames import Rows


def twice(chunk):
    return 2 * chunk


def held_and_chunked(n=20, cuts=(3, 4, 15)):
    X = np.random.default_rng(0).random((n, 3))
    chunks = open_source(np.split(X, cuts))
    return X, [Rows.of(X), Rows(chunks, 3)]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_maps_come_in_their_order_and_keeping_them_changes_nothing(n_jobs, monkeypatch):
    monkeypatch.setattr(_source, "_LEAST_ROWS", 4)
    X, made = held_and_chunked()
    for rows in (replace(rows, n_jobs=n_jobs) for rows in made):
        mapped = rows.map(twice).map(np.floor)
        for same in (mapped, mapped.materialize()):
            np.testing.assert_array_equal(same.collect(), np.floor(2 * X))


@given(positions=st.lists(st.integers(0, 19), unique=True))
def test_rows_at_some_positions_come_in_the_order_asked_for(positions):
    X, made = held_and_chunked()
    for rows in made:
        np.testing.assert_array_equal(rows.take(np.array(positions, dtype=int)), X[positions])


def test_rows_in_memory_are_cut_into_views_and_no_repr_tells_of_them():
    X, (held, _) = held_and_chunked()
    for n_rows in (1, 7, 20, 50):
        chunks = list(held.chunks(n_rows))
        assert [len(chunk) for chunk in chunks[:-1]] == [n_rows] * (len(chunks) - 1)
        assert all(np.shares_memory(chunk, X) for chunk in chunks)
    assert repr(Rows.of(np.full((7, 1), 0.25))) == "Rows(n_features=1)"


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_rows_are_written_in_another_form_while_they_are_summed(n_jobs, monkeypatch):
    monkeypatch.setattr(_source, "_LEAST_ROWS", 4)
    X, _ = held_and_chunked()

    def step(state, chunk, places):
        places[...] = 2 * chunk
        return state + chunk.sum(axis=0)

    for rows in (Rows.of(X, n_jobs=n_jobs), Rows(open_source(np.split(X, [3, 4, 15])), 3, 20, n_jobs=n_jobs)):
        assert rows.may_be_kept(24)
        states, kept = rows.fold_into(np.empty_like(X), lambda: np.zeros(3), step)
        assert kept.source.in_memory
        np.testing.assert_allclose(sum(states), X.sum(axis=0))
        np.testing.assert_array_equal(kept.collect(), 2 * X)


def test_rows_that_grow_between_readings_are_refused():
    X, _ = held_and_chunked()
    rows = Rows(open_source(np.split(X, [3, 4, 15])), 3, 19)
    with pytest.raises(ValueError, match="same rows whenever it is read"):
        rows.fold_into(np.empty((19, 3)), lambda: None, lambda *_: None)


def test_large_rows_are_not_kept_nor_those_that_are_not_in_memory(monkeypatch):
    _, (held, chunked) = held_and_chunked()
    assert held.map(twice).materialize().maps == ()
    assert chunked.map(twice).materialize().maps == (twice,)
    monkeypatch.setattr(_source, "_MOST_KEPT", 20 * 24 - 1)
    assert not held.may_be_kept(24)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_columns_are_kept_as_columns(n_jobs, monkeypatch):
    monkeypatch.setattr(_source, "_LEAST_ROWS", 2)
    columns = [np.arange(9), np.arange(9.0)]
    kept = Rows.of(columns, n_jobs=n_jobs).map(lambda chunk: [2 * column for column in chunk]).materialize()
    assert [column.tolist() for column in kept.collect()] == [(2 * column).tolist() for column in columns]
