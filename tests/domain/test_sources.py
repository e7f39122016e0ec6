"""Tables that are not in memory: whatever they are, their chunks are the rows, in order, as often as asked, read one ahead."""

import itertools
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sources
from hypothesis import given
from hypothesis import strategies as st
from internals import _files, _open_source, _source, open_source, read_ahead
from internals import _source as source_module
from scipy.sparse import coo_array, csr_array
from sources import SOURCES

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.frames import Rows

N = 1000


def frame(n=N):
    """Four columns of common dtypes."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.random(n), "b": rng.integers(0, 9, n), "c": rng.choice(["x", "why", "z"], n), "d": rng.random(n) < 0.5})


def numbers(n=N):
    return frame(n)[["a", "b"]].to_numpy()


def texts(chunk):
    """The cells of a chunk as texts, rows as tuples."""
    if hasattr(chunk, "toarray"):
        chunk = chunk.toarray()
    if isinstance(chunk, np.ndarray):
        return [tuple(map(str, row)) for row in chunk.tolist()]
    columns = chunk.to_pydict() if hasattr(chunk, "to_pydict") else chunk.to_dict() if hasattr(chunk, "to_dict") else None
    if isinstance(chunk, pd.DataFrame):
        columns = {name: chunk[name].tolist() for name in chunk}
    elif isinstance(chunk, pl.DataFrame):
        columns = chunk.to_dict(as_series=False)
    return [tuple(map(str, row)) for row in zip(*columns.values(), strict=True)]


def rows_in(source):
    return list(itertools.chain.from_iterable(map(texts, source.chunks())))


def arrow():
    return sources.arrow(frame())


BACKENDS = {
    **dict.fromkeys(("reader", "dataset", "dataset in memory", "scanner", "ParquetFile", "list of batches"), "pyarrow"),
    **dict.fromkeys(("duckdb", "ibis", "ibis in memory"), "pyarrow"),
    **dict.fromkeys(("polars lazy", "narwhals lazy", "list of polars"), "polars"),
}
ALL_MIXED = pytest.mark.parametrize("kind", SOURCES)


@ALL_MIXED
def test_chunks_are_the_rows_in_order_as_often_as_asked(kind, tmp_path):
    expected = texts(frame())  # of a CSV file all cells are text
    source = open_source(SOURCES[kind](frame(), tmp_path))
    chunks = source.chunks()
    first = texts(next(chunks))
    chunks.close()  # a reading that stops early leaves nothing behind
    assert first == expected[: len(first)]
    for _ in range(2):
        assert rows_in(source) == expected


@ALL_MIXED
def test_head_has_the_columns_and_the_number_of_rows_is_told_only_where_it_is_known_without_reading(kind, tmp_path):
    source = open_source(SOURCES[kind](frame(), tmp_path))
    assert source.library == BACKENDS.get(kind, "pandas")
    assert source.library in type(source.head).__module__
    assert source.head.shape == (0, 4)
    names = source.head.column_names if source.library == "pyarrow" else source.head.columns
    assert list(names) == ["a", "b", "c", "d"]
    knows = ("parquet", "parquet of row groups", "parquet of 4 files", "folder", "list of paths", "dataset", "ParquetFile")
    assert source.n_samples == (N if kind in knows else None)


NUMERIC = {
    "dask array": lambda: pytest.importorskip("dask.array").from_array(numbers(), chunks=(130, 1)),
    "dask array of unknown length": lambda: sources.dask(frame(), 3)[["a", "b"]].to_dask_array(),
    "list of arrays": lambda: [numbers()[:7], numbers()[7:]],
    "tuple of arrays": lambda: (numbers()[:7], numbers()[7:]),
    "function": lambda: lambda: iter([numbers()[:7], numbers()[7:]]),
    "generator": lambda: iter([numbers()[:7], np.asfortranarray(numbers()[7:])]),
    "sparse": lambda: [csr_array(numbers()[:7]), coo_array(numbers()[7:])],
}


@pytest.mark.parametrize("kind", NUMERIC)
def test_chunks_of_arrays_are_the_rows_in_order_as_often_as_asked(kind):
    source = open_source(NUMERIC[kind]())
    assert (source.library, source.head.shape) == ("numpy", (0, 2))
    assert source.n_samples == (N if kind == "dask array" else None)
    for _ in range(2):
        assert rows_in(source) == texts(numbers())


def test_what_is_in_memory_is_taken_as_it_is():
    X, batches = numbers(), arrow().to_batches()
    tables = [X, X.tolist(), list(X), ((1.0, 2.0), (3.0, 4.0)), [], [["a", "b"]], csr_array(X), frame(), sources.polars(frame()), arrow()]
    for table in [*tables, batches[0], __import__("narwhals").from_native(frame()), frame()["a"], {"a": [1]}, range(3)]:
        source = open_source(table)
        assert source.in_memory
        assert source.table is table or "narwhals" in type(table).__module__


@pytest.mark.nightly
def test_plain_tables_are_told_without_importing_a_package():
    script = (
        "import sys, numpy, pandas; from skdpsynth.frames import open_source; frame = pandas.DataFrame({'a': [1]});"
        "before = set(sys.modules); assert open_source(numpy.ones((2, 2))).in_memory and open_source(frame).in_memory;"
        "assert open_source([[1, 2]]).in_memory and not open_source([numpy.ones((2, 2))]).in_memory;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - {'skdpsynth'})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame, csr_array, lambda X: arrow().from_pandas(pd.DataFrame(X))])
def test_large_chunks_are_cut_and_empty_ones_left_out(make, monkeypatch):
    monkeypatch.setattr(source_module, "rows_at_once", lambda n_columns: 300)
    X = numbers()
    source = open_source([make(X[:0]), make(X[:650]), make(X[:0]), make(X[650:])])
    assert [chunk.shape[0] for chunk in source.chunks()] == [300, 300, 50, 300, 50]
    np.testing.assert_array_equal(np.vstack([np.array(texts(chunk), dtype=float) for chunk in source.chunks()]), X)


FRAMES = {
    "array": lambda a: a[:, None],
    "sparse": lambda a: csr_array(a[:, None]),
    "pandas": lambda a: pd.DataFrame({"a": a}, copy=False),
    "polars": lambda a: pl.DataFrame({"a": a}),
    "pyarrow": lambda a: pytest.importorskip("pyarrow").table({"a": a}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_an_array_that_their_loader_fills_again_are_copied(kind):
    buffer = np.empty(10)

    def chunks():
        for i in range(1, 4):
            buffer[:] = i
            chunk = FRAMES[kind](buffer)
            yield chunk
            if kind == "sparse":
                chunk.data[:] = -1

    for X in (chunks, chunks()):
        kept = list(open_source(X).chunks())
        assert [texts(chunk)[0] for chunk in kept] == [("1.0",), ("2.0",), ("3.0",)]


def filled_anew():
    held, chunks = np.empty((N // 2, 2)), []
    for half in np.split(numbers(), 2):
        held[:] = half
        chunks.append(held[:])
    return chunks


def test_one_chunk_twice_in_a_list_is_refused_as_one_file_twice_is():
    for chunks in ([numbers()] * 2, (frame(),) * 2, filled_anew(), [csr_array(numbers())] * 2):
        with pytest.raises(ValueError, match=r"^X must hold each chunk once, but chunk 2 is chunk 1 again, [^\n]*\.$"):
            open_source(chunks)


def test_one_shot_iterator_is_kept_to_be_read_again_while_it_is_small(monkeypatch):
    monkeypatch.setattr(_open_source, "MOST_KEPT", 16 * N)
    source = open_source(iter([numbers()[:700], numbers()[700:]]))
    assert rows_in(source) == rows_in(source) == texts(numbers())
    monkeypatch.setattr(_open_source, "MOST_KEPT", 16 * N - 1)
    large = open_source(iter([numbers()[:700], numbers()[700:]]))
    for words in ("can be read only once, and holds more than", "was read already"):
        with pytest.raises(ValueError, match=rf"^X is a list_iterator, which {words} [^\n]*; [^\n]*\.$"):
            rows_in(large)


def test_one_shot_iterator_that_failed_is_not_taken_for_its_beginning():
    def chunks():
        yield numbers()
        raise KeyError("secret")

    source = open_source(chunks())
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^X is a generator"):
            rows_in(source)


def reader():
    pa = pytest.importorskip("pyarrow")
    return pa.Table.from_pandas(frame()[["a", "b"]]).to_reader(max_chunksize=300)


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_one_shot_iterator_is_not_fitted_twice(neighboring):
    X, model = reader(), PrivateMeasureMechanism("optimal", neighboring=neighboring)
    model.fit(X)
    with pytest.raises(ValueError, match=r"^X is a \w+, which was read already and can be read only once; give a function [^\n]*\.$"):
        model.fit(X)


def test_an_iterator_that_was_refused_unread_is_still_whole():
    X = reader()
    with pytest.raises(ValueError, match="bounds must"):
        PrivateMeasureMechanism(bounds=(1, 0)).fit(X)
    assert PrivateMeasureMechanism("optimal").fit(X).n_samples_ == N


def test_folder_leaves_out_hidden_files_and_those_of_engines(tmp_path):
    sources.files(frame(), tmp_path, n_files=2)
    for name in ("_SUCCESS", "_metadata.parquet", ".hidden.parquet", "readme.txt"):
        (tmp_path / name).write_text("")
    assert rows_in(open_source(tmp_path)) == texts(frame())


@pytest.mark.nightly
def test_memory_does_not_grow_with_a_row_group(tmp_path):
    """2 million rows in one row group, 80 MB: reading takes less than 40 MB above what the libraries take."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({f"x{i}": rng.random(2_000_000) for i in range(5)}), tmp_path / "f.parquet", row_group_size=2_000_000)
    script = (
        "import resource, sys; from skdpsynth.frames import open_source; import pandas, pyarrow.parquet;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak();"
        f"print(sum(chunk.num_rows for chunk in open_source({str(tmp_path / 'f.parquet')!r}).chunks()), peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    n_rows, grown = map(int, done.stdout.split())
    assert n_rows == 2_000_000
    assert grown < 80 * 1024 * (1 if sys.platform != "darwin" else 1024)


def test_samples_come_back_as_arrow_without_pandas(tmp_path, monkeypatch):
    path = sources.files(frame(), tmp_path)
    find_spec = _files.find_spec
    monkeypatch.setattr(_files, "find_spec", lambda name: None if name == "pandas" else find_spec(name))
    source = open_source(path)
    assert (source.library, type(source.head).__name__) == ("pyarrow", "Table")


def test_one_partition_is_computed_at_a_time():
    array = pytest.importorskip("dask.array")
    made = []

    def count(block):
        made.append(len(block))
        return block

    X = array.from_array(numbers(), chunks=(100, 2)).map_blocks(count, dtype=float, meta=np.empty((0, 2)))
    chunks = open_source(X).chunks()
    for n_read in range(1, 4):
        next(chunks)
        assert len(made) == n_read


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_file_that_is_named_twice_is_refused_since_its_rows_would_count_twice(tmp_path):
    sources.files(frame(), tmp_path)
    ds = pytest.importorskip("pyarrow.dataset")
    first, linked = tmp_path / "part-0.parquet", tmp_path / "linked"
    linked.mkdir()
    os.link(first, linked / "same.parquet")
    (tmp_path / "same.parquet").symlink_to(first)
    one, other = ds.dataset(first), ds.dataset(linked / "same.parquet")
    for X in (tmp_path, [first, tmp_path / "." / "part-0.parquet"], [first, linked], ds.dataset([first, first]), ds.dataset([one, other])):
        with pytest.raises(ValueError, match=r"^X must name each file once, but [^\n]* is there twice; leave one out\.$"):
            open_source(X)


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


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_columns_are_kept_as_columns(n_jobs, monkeypatch):
    monkeypatch.setattr(_source, "_LEAST_ROWS", 2)
    columns = [np.arange(9), np.arange(9.0)]
    kept = Rows.of(columns, n_jobs=n_jobs).map(lambda chunk: [2 * column for column in chunk]).materialize()
    assert [column.tolist() for column in kept.collect()] == [(2 * column).tolist() for column in columns]


class Given:
    """A generator that tells how many tables it gave, and whether it was closed."""

    def __init__(self, n, fails_at=None):
        self.given, self.closed, self.threads = 0, False, set()
        self.tables = self.made(n, fails_at)

    def made(self, n, fails_at):
        try:
            for number in range(n):
                if number == fails_at:
                    raise OSError("gone")
                self.given += 1
                self.threads.add(threading.current_thread())
                yield number
        finally:
            self.closed = True


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_all_tables_come_in_their_order_from_another_thread(n):
    made = Given(n)
    assert list(read_ahead(made.tables)) == list(range(n))
    assert made.closed
    assert threading.current_thread() not in made.threads


def test_one_table_is_read_ahead_and_no_more():
    made = Given(50)
    tables = read_ahead(made.tables)
    assert next(tables) == 0
    tables.close()
    assert made.given == 2
    assert made.closed
    assert not made.threads & set(threading.enumerate())


@pytest.mark.parametrize("fails_at", [0, 3])
def test_what_fails_ahead_is_raised_after_the_tables_before_it(fails_at):
    made, got = Given(5, fails_at), []
    with pytest.raises(OSError, match="gone"):
        got.extend(read_ahead(made.tables))
    assert got == list(range(fails_at))
    assert made.closed


def test_what_the_caller_does_about_floating_point_errors_holds_in_the_thread():
    def divided():
        yield np.ones(1) / np.zeros(1)

    with np.errstate(all="ignore"):
        (table,) = read_ahead(divided())
    assert np.isinf(table).all()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        list(read_ahead(divided()))
