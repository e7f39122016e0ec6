"""Saving and loading: what comes back, what is not in the file, and what a file cannot do."""

import ast
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
from collections import namedtuple
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import all_estimators
from internals import _ledger_entry
from laws import refuses
from sklearn.base import BaseEstimator, clone

import skdpsynth
from skdpsynth import (
    AreaSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    continual,
    load,
)
from skdpsynth.domain import Box
from skdpsynth.persistence import from_bytes, savable, save, to_bytes

pytestmark = [
    pytest.mark.usefixtures("hasty"),
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore:epsilon=500 is above:skdpsynth.exceptions.BudgetWarning"),
]
each = pytest.mark.parametrize("estimator", [cls() for cls in all_estimators()])
STREAMS = {
    "blocks": OnlineSynthesizer(),
    "blocks-auto-window": OnlineSynthesizer(growth="auto", window=400),
    "blocks-inner": OnlineSynthesizer(synthesizer=LowDimSynthesizer(1)),
    "paper-kary": OnlineSynthesizer("paper"),
    "paper-binary": OnlineSynthesizer("paper", counter="binary"),
    "paper-sparse": OnlineSynthesizer("paper", counter="sparse"),
}
each_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
SEED = 1_923_847_561  # all four bytes differ


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.zip"


def there_and_back(thing, path):
    save(thing, path)
    return load(path)


def members(path):
    """Names and bytes of all members of a file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def outcome(fitted, X):
    """What a fitted estimator gives, for a seed of the sample, as a table."""
    return fitted.sample(200, random_state=0) if hasattr(fitted, "sample") else fitted.transform(X)


def ledger(fitted):
    """All lines but the one that says that a stream goes on from a copy, which takes a number too."""
    lines = [line for line in fitted.accountant_.lines() if not line[0].name.startswith("resumed")]
    return [(str(replace(entry, id=0, part_of=None)), above) for entry, above in lines]


def test_a_header_that_another_thread_kept_from_being_parsed_is_parsed_again(monkeypatch):
    """As Python 3.11.7 does once in a million times: no test can wait for that."""
    whole, left = np.lib.format.read_magic, [3]

    def parsed(*arguments):
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch")
        return whole(*arguments)

    monkeypatch.setattr(np.lib.format, "read_magic", parsed)
    model = PrivateMeasureMechanism().fit([[0.5]] * 200)
    assert np.array_equal(from_bytes(to_bytes(model)).sample(5).shape, (5, 1))
    assert left == [0]


@each
def test_an_estimator_comes_back_but_for_its_seed_and_no_row_is_in_its_file(estimator, path):
    """That of each variant comes back is a law of `check_synthesizer`."""
    X = np.random.default_rng(1).random((300, 3))
    assert repr(there_and_back(estimator, path)) == repr(estimator)
    seeded = clone(estimator).set_params(random_state=SEED, epsilon=0.7)
    takes_any = not isinstance(seeded, AreaSynthesizer) and getattr(seeded, "strategy", "blocks") == "blocks"
    if takes_any and "synthesizer" in seeded.get_params():
        seeded.set_params(synthesizer=PrivateMeasureMechanism("optimal", random_state=SEED))
    fitted = seeded.fit(X)
    before = vars(fitted).copy()
    again = there_and_back(fitted, path)
    assert vars(fitted).keys() == before.keys()
    assert again.random_state is None
    assert np.array_equal(outcome(again, X), outcome(fitted, X))
    assert ledger(again) == ledger(fitted)
    assert {entry.randomness for entry in again.accountant_.ledger if not entry.name.startswith("resumed")} == {"seeded"}
    (text, *_), arrays = members(path).items(), {name: data for name, data in members(path).items() if name != "object.json"}
    assert text[0] == "object.json"
    assert all(np.load(io.BytesIO(data), allow_pickle=False).dtype.kind in "iufb" for data in arrays.values())
    data = b"".join(members(path).values())
    seeds = (str(SEED).encode(), SEED.to_bytes(4, "little"), SEED.to_bytes(4, "big"), hex(SEED)[2:].encode())
    rows = [form for value in X.ravel() for form in (value.tobytes(), repr(float(value)).encode())]
    # A stream keeps the rows of its open block, and says that its file is as secret as they are.
    assert not any(secret in data for secret in (*seeds, *(() if isinstance(estimator, OnlineSynthesizer) else rows)))


NUMBERS = np.random.default_rng(0).integers(0, 9, (2, 200))
TABLES = {
    "numpy": (NUMBERS.T.astype(np.int16), (0, 8)),
    "pandas": (
        pd.DataFrame(
            {"a": pd.array(NUMBERS[0], dtype="Int8"), "b": pd.array(NUMBERS[1] > 4, dtype="boolean"), "c": np.float32(NUMBERS[1])}
        ),
        {"a": (0, 8), "b": (0, 1), "c": (0.0, 8.0)},
    ),
    "polars": (pl.DataFrame({"a": NUMBERS[0], "b": NUMBERS[1] > 4}), {"a": (0, 8), "b": (0, 1)}),
}


@each
@pytest.mark.parametrize("kind", TABLES)
def test_the_kind_of_table_comes_back(estimator, kind, path):
    X, bounds = TABLES[kind]
    fitted = clone(estimator).set_params(bounds=bounds).fit(X)
    again = there_and_back(fitted, path)
    before, after = outcome(fitted, X), outcome(again, X)
    assert type(after) is type(before)
    assert str(getattr(after, "dtypes", np.asarray(after).dtype)) == str(getattr(before, "dtypes", np.asarray(before).dtype))
    assert np.array_equal(np.asarray(after), np.asarray(before))
    assert again.bounds == bounds
    if kind != "numpy":
        refuses(ValueError, "feature names", again.score if hasattr(again, "score") else again.transform, X[list(X.columns)[::-1]])


def test_parameters_come_back_with_their_types(path):
    odd = (np.float16(0.5), np.int8(3), np.bool_(True), 10**300, "\ud800", (), [None], {"a": (1, [2])}, {1: 2.5}, Fraction(1, 3))
    for value in (*odd, float("inf"), (np.zeros(2), np.array([1.0, 2.5])), ([0, 0], (1, 2.5))):
        again = there_and_back(PrivatePCA(bounds=value), path).bounds
        assert type(again) is type(value)
        assert repr(again) == repr(value)


def test_a_schema_that_was_given_as_a_path_does_not_keep_a_model_from_being_saved(X, tmp_path, path):
    file = tmp_path / "facts.json"
    skdpsynth.domain.Schema({0: (0.0, 1.0), 1: (0.0, 1.0)}).to_json(file)
    model = skdpsynth.LatentFactorSynthesizer(file).fit(X[:, :2])
    model.save(path)
    assert load(path).get_params()["schema"] == str(file)


def test_arrays_that_were_read_only_stay_so(X, path):
    again = there_and_back(PrivateMeasureMechanism().fit(X), path)
    with pytest.raises(ValueError, match="read-only"):
        again.partition_.box.low[0] = 5
    there_and_back(PrivatePCA().fit(X), path).components_[0, 0] = 0


@pytest.mark.parametrize("stream", [stream for name, stream in STREAMS.items() if name not in ("paper-kary", "paper-sparse")])
def test_a_stream_goes_on_bit_for_bit_when_its_seed_is_set_again(stream, path):
    """But for those that count by k-ary trees, which end when they are loaded."""
    X = np.random.default_rng(0).random((900, 2))
    model = clone(stream).set_params(random_state=SEED).fit(X[:500])
    again = there_and_back(model, path).set_params(random_state=SEED)
    for start in (500, 503, 520, 700):
        stop = {500: 503, 503: 520, 520: 700, 700: 900}[start]
        first, second = (m.partial_fit(X[start:stop]).sample(100, random_state=0) for m in (model, again))
        assert np.array_equal(first, second)
    assert ledger(model) == ledger(again)
    assert [entry.name for entry in again.accountant_.ledger if entry.name.startswith("resumed")]
    assert again.accountant_.spent == 1


@each_stream
def test_a_stream_goes_on_with_fresh_noise_when_no_seed_is_set(stream, path):
    frame = pd.DataFrame(np.random.default_rng(0).random((900, 2)), columns=["a", "b"])
    model = clone(stream).set_params(random_state=SEED).fit(frame[:500])
    model.save(path)
    words = ["SeededBits", "SecureBits", "PCG64", "Generator", "RandomState", "MT19937", str(SEED)]
    assert not [word for word in (*map(str.encode, words), SEED.to_bytes(4, "little")) if word in pickle.dumps(model)]
    assert load(path).sample(99, random_state=0).equals(model.sample(99, random_state=0))
    two = [load(path).partial_fit(frame[500:]) for _ in range(2)]
    first, second, third = (m.sample(500, random_state=0) for m in (model.partial_fit(frame[500:]), *two))
    if stream.counter != "sparse":  # whose segments may all be open
        assert not first.equals(second)
        assert not second.equals(third)
    assert [m.accountant_.ledger[-1].randomness for m in (model, *two)] == ["seeded", "secure", "secure"]
    assert (two[0].accountant_.spent, two[0].n_samples_seen_, there_and_back(two[0], path).n_samples_seen_) == (1, 900, 900)
    refuses(ValueError, "feature names", two[0].partial_fit, frame[["b", "a"]])
    refuses(ValueError, "epsilon must not change", two[0].set_params(epsilon=2.0).partial_fit, frame)


@pytest.mark.parametrize("stream", [STREAMS["blocks"], STREAMS["paper-kary"], STREAMS["paper-binary"]])
def test_a_file_does_not_tell_the_order_of_open_rows(stream, tmp_path, monkeypatch):
    """Rows 100 to 109 are of one open block, and of one level of time. The ledger tells when it was charged: here, at one time."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(_ledger_entry, "datetime", SimpleNamespace(now=lambda zone: now))
    monkeypatch.setattr(_ledger_entry, "new_ledger_id", lambda: "one id")
    X = np.random.default_rng(0).random((110, 2))
    Y = X.copy()
    Y[100:] = X[100:][::-1]
    for name, rows in (("a.zip", X), ("b.zip", Y)):
        clone(stream).set_params(random_state=SEED).fit(rows).save(tmp_path / name)
    assert members(tmp_path / "a.zip") == members(tmp_path / "b.zip")


@savable
class Mine(PrivateMeasureMechanism):
    pass


class Unmarked(PrivateMeasureMechanism):
    pass


@savable
@dataclass(frozen=True)
class Fourths:
    depth: int = 2
    name: str = ""

    @property
    def is_fine(self):
        return True

    @cached_property
    def sides(self):
        return 2**self.depth


def test_an_estimator_and_a_part_of_another_module_are_saved_and_loaded_where_their_classes_say_so(X, path):
    fitted = Mine(random_state=SEED).fit(X)
    again = there_and_back(fitted, path)
    assert type(again) is Mine
    assert again.random_state is None
    assert np.array_equal(again.sample(9, random_state=0), fitted.sample(9, random_state=0))
    assert f'"{__name__}.Mine"'.encode() in members(path)["object.json"]
    assert again.fit(X).sample().shape == X.shape
    assert there_and_back(PrivateMeasureMechanism(partition=Fourths(3)), path).partition == Fourths(3)


def test_a_class_that_was_defined_again_stands_for_the_old_one(path):
    old, new = (savable(type("Again", (BaseEstimator,), {"__module__": __name__})) for _ in range(2))
    refuses(TypeError, "mark the class itself", save, old(), path)
    assert type(there_and_back(new(), path)) is new


def test_only_plain_classes_can_be_marked_each_by_itself_and_under_one_name(X, path):
    for odd in (namedtuple("Pair", "a b"), Enum("Color", "RED"), type("Number", (int,), {}), "Mine", len):
        refuses(TypeError, r"^savable marks classes that make their objects by object\.__new__; ", savable, odd)
    refuses(TypeError, "Two classes Box would have one name in files", savable, type("Box", (), {"__module__": "skdpsynth.elsewhere"}))
    assert savable(Box) is Box
    sentence = "A Unmarked cannot be saved; mark the class itself, even if its base is marked, with skdpsynth.persistence.savable."
    refuses(TypeError, f"^{re.escape(sentence)}$", Unmarked().fit(X).save, path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["antigravity.Chart", "this.x", "os.system", f"{__name__}.Unmarked", f"{__name__}.Trap", "numpy.ndarray"])
def test_a_class_that_is_not_known_is_refused_with_the_way_out_and_nothing_is_imported(name, path):
    before = set(sys.modules)
    check_refused(write(path, {"class": name, "state": {}}))
    sentence = f"{path} holds {name!r}, a class that no imported module marks as savable; import its module first."
    refuses(ValueError, f"^{re.escape(sentence)}$", load, path)
    assert {name for name in set(sys.modules) - before if not name.startswith("encodings.")} == set()  # codecs of zip files


def test_a_name_that_is_not_known_yet_makes_all_savable_classes_of_the_package_known():
    """A file must load after ``import skdpsynth.persistence`` alone, whatever room its classes live in."""
    package = Path(skdpsynth.__file__).parent
    marked = {
        node.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and "savable" in [ast.unparse(decorator) for decorator in node.decorator_list]
    }
    script = "import skdpsynth._serialization as p\ntry: p._class_of('NoSuchClass')\nexcept p.InvalidFile: print(*p._CLASSES)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert len(marked) > 30
    assert marked <= set(done.stdout.split())


@pytest.mark.parametrize("name", ["transform", "fit", "save", "__class__", "__dict__", "__doc__", "__new__"])
def test_a_state_that_hides_what_a_class_defines_is_refused(name, path):
    state = dict.fromkeys(PrivatePCA().get_params())
    check_refused(write(path, an_estimator(**state, **{name: "x"})))
    check_refused(write(path, {"class": f"{__name__}.Fourths", "state": {"is_fine": False}}))


class Halves:
    """A partition of the caller's own."""


def with_partition(partition):
    return PrivateMeasureMechanism(partition=partition)


FOURTHS = Fourths()
assert FOURTHS.sides == 4  # kept in the object, under the name of a method
ODD = (np.longdouble(1), np.timedelta64(1, "s"), np.array(["0", "1"]), {1, 2}, lambda: 1)
NOT_SAVED = [
    (PrivatePCA(accountant=PrivacyAccountant(1)), TypeError, "open PrivacyAccountant"),
    (with_partition(FOURTHS), TypeError, r"^PrivateMeasureMechanism\.partition\.sides cannot be saved, because Fourths defines that name"),
    *((PrivatePCA(bounds=odd), TypeError, r"^PrivatePCA\.bounds .*cannot be saved; only .* can\.$") for odd in ODD),
    (with_partition(Halves()), TypeError, r"\.partition is a Halves, which cannot be saved; .* skdpsynth\.persistence\.savable can\.$"),
    (LowDimSynthesizer(synthesizer=with_partition(Halves())), TypeError, r"LowDimSynthesizer\.synthesizer\.partition is a Halves"),
    (
        PrivatePCA(bounds=["0" * 2**25, 1]),
        ValueError,
        r"A PrivatePCA of so many parts cannot be saved, 3\d MB of text; keep fewer of them\.$",
    ),
]


def test_what_load_would_refuse_is_not_saved_and_the_old_file_stays(path):
    save(Box([0, 1], [2, 3]), path)
    data = path.read_bytes()
    assert to_bytes(load(path)) == data
    for thing, error, words in NOT_SAVED:
        refuses(error, words, thing.save, path)
        assert path.read_bytes() == data
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("now", [0.0, 4.4e9], ids=["1970", "2109"])
def test_the_clock_does_not_matter_and_files_are_equal_byte_for_byte(now, X, tmp_path, monkeypatch):
    fitted = PrivateMeasureMechanism().fit(X)
    fitted.save(tmp_path / "a.zip")
    monkeypatch.setattr(time, "time", lambda: now)
    fitted.save(tmp_path / "b.zip")
    load(tmp_path / "a.zip").save(tmp_path / "c.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes() == (tmp_path / "c.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


class Trap:
    """What must not be called."""

    sprung = False

    def __init__(self, *args):
        Trap.sprung = True

    def __setstate__(self, state):
        Trap.sprung = True

    def __reduce__(self):
        return _spring, ()


def _spring():
    Trap.sprung = True


def npy(array, **keywords):
    data = io.BytesIO()
    np.save(data, array, **keywords)
    return data.getvalue()


def header(shape, descr="<f8"):
    """The beginning of an array that claims a shape, and no data."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": descr, "fortran_order": False, "shape": shape})
    return data.getvalue()


def write(path, thing=None, text=None, **arrays):
    """Write a file by hand: `thing` is the object of the JSON, `text` all of it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("object.json", json.dumps({"format": 2, "object": thing}) if text is None else text)
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return path


def check_refused(path):
    """One sentence that says what the file is not."""
    Trap.sprung = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="sav") as caught:
            load(path)
    assert not Trap.sprung
    message = str(caught.value)
    assert message.endswith(".")
    assert ". " not in message
    assert "\n" not in message
    assert "allow_pickle" not in message


def an_estimator(**state):
    return {"class": "PrivatePCA", "state": state}


ARRAY = an_estimator(components_={"array": "0.npy", "frozen": True})


_OF_EPSILON = (
    *({"unknown": 1}, {"tuple": 3}, {"dict": [[[], 1]]}, {"dict": [1]}, {"scalar": "O", "value": 1}, {"scalar": "f8,O", "value": 1}),
    *({"dtype": "O"}, {"dtype": "M8[s]"}, {"float": [1]}, {"pandas_dtype": "no such dtype"}, {"float": "many"}),
    *({"fraction": "a half"}, {"fraction": "1/0"}, {"fraction": "1e5"}, {"scalar": "int8", "value": 300}),
)
_NO_ARRAYS = ("absent.npy", "../../etc/passwd", "/etc/passwd", ["0.npy"], "object.json")
WRONG = [
    *({"class": name, "state": {}} for name in ("os.system", "Trap", "__import__", ["PrivatePCA"], None)),
    *({"class": "PrivatePCA", "state": state} for state in ([1, 2], None, {})),
    *(
        {"class": "Popen", "state": {"args": "true"}},
        {"class": "PrivatePCA"},
        {"class": "PrivateMeasureMechanism", "state": {"epsilon": 1}},
    ),
    *({"unknown": 1}, an_estimator(mean_={"array": "0.npy"}), 5, [], "text", None, {"dict": []}),
    *(an_estimator(mean_={"array": name, "frozen": True}) for name in _NO_ARRAYS),
    *(an_estimator(epsilon=value) for value in _OF_EPSILON),
]
TEXTS = [
    *("[1]", "5", "null", '"text"', "{}", '{"format": 2}', "[" * 100_000, "", "{", b"\xff\xfe\x00"),
    *('{"format": 2, "object": ' + inner + "}" for inner in ("[" * 3000 + "]" * 3000, "9" * 10_000)),
]


def test_json_of_the_wrong_shape_is_refused(path, monkeypatch):
    monkeypatch.setattr(skdpsynth.synthesis, "Trap", Trap, raising=False)
    monkeypatch.setattr(skdpsynth, "Trap", Trap, raising=False)
    for thing in WRONG:
        check_refused(write(path, thing))
    for text in TEXTS:
        check_refused(write(path, text=text))


@pytest.mark.parametrize(
    ("version", "way_out"),
    [
        (1, "has format 1, and this skdpsynth reads 2; load it with the one that saved it."),
        (3, "has format 3, and this skdpsynth reads 2; load it with the one that saved it."),
        *((odd, "has no number of a format; it was not written by save.") for odd in ("1", None, [1], 2.0, True)),
    ],
)
def test_another_version_of_the_format_is_refused_with_the_way_out(version, way_out, path):
    write(path, text=json.dumps({"format": version, "object": an_estimator()}))
    refuses(ValueError, f"^{re.escape(f'{path} {way_out}')}$", load, path)


def test_what_is_no_array_or_no_zip_or_holds_objects_is_refused(path):
    inner = io.BytesIO()
    np.savez(inner, a=np.arange(3))
    objects = [npy(np.array([trap], dtype=object), allow_pickle=True) for trap in (Trap, Trap.__new__(Trap))]
    short, broken, huge = npy(np.arange(5.0))[:-3], b"\x93NUMPY\x01\x00\xff\x00{{{", header((10**14,))
    for data in (b"", b"garbage", *objects, short, broken, huge, inner.getvalue()):
        check_refused(write(path, ARRAY, **{"0": data}))
    for data in (b"", b"PK", b"garbage" * 100, npy(np.arange(5)), inner.getvalue()):
        path.write_bytes(data)
        check_refused(path)


def test_a_file_with_a_damaged_byte_is_refused_or_unharmed_and_a_truncated_one_refused(X, path):
    fitted = PrivatePCA(random_state=0).fit(X)
    fitted.save(path)
    data, expected, refused = path.read_bytes(), members(path), 0
    for i in range(0, len(data), 7):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :])
        try:
            load(path)
        except ValueError:
            refused += 1
        else:
            assert members(path) == expected
    assert refused > len(data) / 14
    for stop in range(0, len(data), 29):
        path.write_bytes(data[:stop])
        check_refused(path)


def test_files_are_refused_for_their_paths_for_what_they_claim_and_for_what_memory_lacks(path, monkeypatch):
    for no_path in (0, 1, None, b"model.zip", True):
        refuses(TypeError, r"^path must be a path of a file that was written by save, got ", load, no_path)
    for data in (b"", b"PK", to_bytes(Box([0], [1]))[:-9]):
        refuses(ValueError, r"^message was not written by to_bytes, or is damaged \(\w+\); write it again\.$", from_bytes, data, "message")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("object.json", json.dumps({"format": 2, "object": an_estimator()}))
        archive.writestr("0.npy", b"0" * 100)
        archive.filelist[-1].file_size = 2**20
    refuses(ValueError, r"holds more than save writes into a file of its size; it was not written by save\.$", load, path)

    def lacking(*args):
        raise MemoryError

    save(PrivatePCA(), path)
    monkeypatch.setattr(json, "loads", lacking)
    refuses(MemoryError, r"model\.zip holds more than there is memory for; load it where there is more\.$", load, path)


@pytest.mark.parametrize(("n_lists", "level"), [(2_000_000, 9), (12_000_000, 1)], ids=["dense", "long"])
def test_a_text_that_would_fill_the_memory_is_refused_before_it_is_read(n_lists, level, path):
    lists = "[]," * n_lists
    text = '{"format": 2, "object": {"class": "PrivatePCA", "state": {"bounds": [' + lists + "0]}}}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr("object.json", text)
    del text, lists
    tracemalloc.start()
    try:
        refuses(ValueError, r"holds more .*; it was not written by save\.$", load, path)
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_a_model_may_be_read_as_other_files_and_a_stream_by_its_owner_alone(X, tmp_path):
    (tmp_path / "any").touch()
    for thing, is_private in (
        (PrivateMeasureMechanism().fit(X), False),
        (OnlineSynthesizer().fit(X), True),
        (continual.BinaryCounter(9), True),
    ):
        save(thing, tmp_path / "model.zip")
        mode = (tmp_path / "model.zip").stat().st_mode & 0o777
        assert mode == (0o600 if is_private else (tmp_path / "any").stat().st_mode & 0o777)
        (tmp_path / "model.zip").unlink()
