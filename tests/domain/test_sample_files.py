"""Samples in files, and files at all: complete, or as before."""

import os
import stat
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import _base, atomic_write, output_path

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Continuous, Date, Derived, Identifier, Nominal


def from_pandas(X):
    pytest.importorskip("pyarrow")
    return pl.from_pandas(X)


read_csv = partial(pd.read_csv, float_precision="round_trip")  # the default of older pandas is not exact
ROWS = np.random.default_rng(0).beta(2, 4, size=(300, 3))
MIXED = pd.DataFrame(
    {
        "age": np.arange(400) % 90,
        "income": np.where(np.arange(400) % 7, 1000.5, np.nan),
        "sex": ["f", "m", 'oth"er,', None] * 100,
        "grade": pd.Categorical(["a", "b"] * 200),
        "ill": [True, False] * 200,
        "visits": pd.array([1, None] * 200, dtype="Int64"),
        "who": np.arange(400, dtype="int16"),
        "code": np.arange(400).astype(str),
    }
)
SCHEMA = {
    **{"age": (0, 99), "income": Continuous(0, 5000.0, nullable=True), "sex": Nominal(["f", "m", 'oth"er,'], nullable=True)},
    **{"grade": ["a", "b"], "ill": [False, True], "visits": Nominal([1, 2, 3], nullable=True)},
    **{"who": Identifier(labels=True), "code": Identifier(labels="P")},
}
DAYS = np.datetime64("2020-01-01") + np.arange(400)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture(scope="module")
def model():
    return PrivateMeasureMechanism().fit(ROWS)


@pytest.fixture(scope="module")
def people():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LatentFactorSynthesizer(SCHEMA).fit(MIXED)


def files_of(folder):
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("name", ["rows.csv", "ROWS.CSV", "rows.parquet"])
def test_a_file_holds_the_rows_of_the_sample_and_its_path_comes_back(model, tmp_path, name):
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    for given in (path, str(path)):
        assert model.sample(700, random_state=1, out=given) == given
        back = pd.read_parquet(path) if name.endswith("parquet") else read_csv(path)
        assert list(back.columns) == ["x0", "x1", "x2"]
        np.testing.assert_array_equal(back.to_numpy(), model.sample(700, random_state=1))
    assert files_of(tmp_path) == [name]


@pytest.mark.parametrize("make", [lambda X: X, pl.from_pandas], ids=["pandas", "polars"])
def test_a_mixed_table_comes_back_from_parquet_with_its_dtypes(make, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(_base, "BATCH", 1024)
    X = MIXED.assign(born=DAYS.astype("M8[ns]"))
    model = LatentFactorSynthesizer({**SCHEMA, "born": Date("2019-01-01", "2022-12-31")}).fit(make(X))
    model.sample(3000, random_state=0, out=tmp_path / "people.parquet")
    whole = model.sample(3000, random_state=0)
    assert [whole["who"].to_list(), whole["code"].to_list()] == [list(range(1, 3001)), [f"P{number}" for number in range(1, 3001)]]
    if isinstance(whole, pd.DataFrame):
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "people.parquet"), whole)
    else:
        assert pl.read_parquet(tmp_path / "people.parquet").cast(whole.schema).equals(whole)


@pytest.mark.parametrize("make", [lambda X: X, from_pandas, lambda X: X.to_numpy()], ids=["pandas", "polars", "numpy"])
def test_a_mixed_table_comes_back_from_csv(make, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(_base, "BATCH", 1024)
    X = make(MIXED)
    named = hasattr(X, "columns")
    model = LatentFactorSynthesizer(SCHEMA if named else dict(enumerate(SCHEMA.values()))).fit(X)
    whole = model.sample(2000, random_state=0)
    whole = pd.DataFrame(whole.to_numpy() if named else whole)
    model.sample(2000, random_state=0, out=tmp_path / "people.csv")
    back = read_csv(tmp_path / "people.csv")
    assert list(back.columns) == (list(SCHEMA) if named else [f"x{j}" for j in range(8)])
    for j in range(8):
        cells, expected = back.iloc[:, j].tolist(), whole.iloc[:, j].tolist()
        assert [None if pd.isna(cell) else cell for cell in cells] == [None if pd.isna(cell) else cell for cell in expected]


@pytest.mark.parametrize("name", ["people.tsv", "people.csv.gz", "people.v2.TSV.GZ"])
def test_files_with_tabs_and_packed_ones_hold_what_a_csv_file_does(name, people, tmp_path):
    pytest.importorskip("pyarrow")
    for out in ("people.csv", name, f"again.{name}"):
        people.sample(400, random_state=0, out=tmp_path / out)
    packing = "gzip" if name.lower().endswith(".gz") else None
    back = read_csv(tmp_path / name, sep="\t" if "tsv" in name.lower() else ",", compression=packing)
    pd.testing.assert_frame_equal(back, read_csv(tmp_path / "people.csv"))
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again.{name}").read_bytes()  # no name, no time


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_dates_have_no_time_in_text(unit, tmp_path):
    pytest.importorskip("pyarrow")
    days = np.datetime64("2020-01-01", unit) + np.arange(60).astype("m8[D]")
    X = pd.DataFrame({"day": pd.Series(days).where(np.arange(60) % 9 > 0), "group": ["a", "b"] * 30})
    schema = {"day": Date("2020-01-01", "2020-12-31", nullable=True), "group": ["a", "b"], "next": Derived("day + 1", gives="date")}
    model = LatentFactorSynthesizer(schema).fit(X.assign(next=X["day"] + pd.Timedelta("1D")))
    model.sample(200, random_state=0, out=tmp_path / "days.csv")
    back, expected = read_csv(tmp_path / "days.csv"), model.sample(200, random_state=0)
    for name in ("day", "next"):
        assert back[name].fillna("").tolist() == expected[name].dt.strftime("%Y-%m-%d").fillna("").tolist()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("No space left on device")])
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.tsv.gz"])
def test_whatever_breaks_in_leaves_the_old_file_and_nothing_else(model, name, error, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(_base, "BATCH", 1024)
    (tmp_path / name).write_text("old")
    fill, calls = type(model._container).fill, []

    def broken(self, rows, *place):
        calls.append(len(rows))
        if len(calls) > 3:
            raise error
        return fill(self, rows, *place)

    monkeypatch.setattr(type(model._container), "fill", broken)
    with pytest.raises(type(error)):
        model.sample(10_000, out=tmp_path / name)
    assert files_of(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_a_place_that_is_none_is_refused_in_one_sentence(model, tmp_path):
    names = [tmp_path / name for name in ("a.json", "rows", "a.csv.zst", "a.parquet.gz", ".gz", "a.parquet.tmp")]
    for out in [*names, 3, b"a.csv", True, ROWS]:
        with pytest.raises(
            (TypeError, ValueError), match=r"^out must be None or a path that ends in \.parquet, \.csv, [^\n]*, got [^\n]*\.$"
        ):
            model.sample(3, out=out)
    assert files_of(tmp_path) == []
    with pytest.raises(FileNotFoundError, match=r"^out must lie in a folder that exists, [^\n]*\.$"):
        model.sample(3, out=tmp_path / "no" / "rows.csv")
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(IsADirectoryError, match=r"^out must name a file, [^\n]*\.$"):
        model.sample(3, out=tmp_path / "rows.csv")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_files_without_pyarrow_are_refused_with_the_way_out(name, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"^out needs pyarrow, [^\n]*pip install pyarrow\.$"):
        model.sample(3, out=tmp_path / name)


# Any file
MODES = pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@MODES
def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path):
    (tmp_path / "page").touch(0o644)
    with atomic_write(tmp_path / "page", is_private=True):
        assert {mode_of(path) for path in tmp_path.iterdir() if path.name != "page"} == {0o600}
    assert mode_of(tmp_path / "page") == 0o600


@MODES
def test_a_public_file_has_the_mode_of_what_it_replaces_or_of_any_new_file(tmp_path, monkeypatch):
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "any").touch()
    monkeypatch.setattr(os, "umask", None)  # it is that of other threads too
    for name in ("old", "new", long := "n" * 250):
        with atomic_write(tmp_path / name):
            pass
    assert (mode_of(tmp_path / "old"), mode_of(tmp_path / "new")) == (0o640, mode_of(tmp_path / "any"))
    assert (tmp_path / long).exists()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    with atomic_write(output_path(tmp_path / "link")) as file:
        file.write(b"new")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "old").read_bytes()) == (True, b"new")


@MODES
def test_a_pipe_and_a_device_are_refused_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(ValueError, match="path must name a plain file"):
            output_path(place)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_path_that_names_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    errors = {"": ValueError, "a\0b": ValueError, ".": IsADirectoryError, "nowhere/x": FileNotFoundError}
    for path, error in {**dict.fromkeys([None, 3, b"x", 1.5, (), object()], TypeError), **errors}.items():
        with pytest.raises(error, match=r"^path must "):
            output_path(path)


def test_what_a_killed_process_left_is_removed_after_an_hour(tmp_path):
    old, young, other = (tmp_path / name for name in (".page.1.part", ".page.2.part", ".other.3.part"))
    for left in (old, young, other):
        left.touch()
    for left in (old, other):
        os.utime(left, (0, 0))
    with atomic_write(tmp_path / "page"):
        pass
    assert sorted(os.listdir(tmp_path)) == [".other.3.part", ".page.2.part", "page"]


def test_the_file_and_its_folder_are_on_the_disk_before_the_end(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(stat.S_ISDIR(os.fstat(number).st_mode)))
    with atomic_write(tmp_path / "page"):
        pass
    assert flushed == ([False] if os.name == "nt" else [False, True])
