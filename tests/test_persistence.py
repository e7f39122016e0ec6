"""Saving and loading: what comes back, what is not in the file, and what a file cannot do."""

import io
import itertools
import json
import warnings
import zipfile
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import variants
from sklearn.base import clone

import skdpsynth
from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, load
from skdpsynth.continual import BinaryCounter, HonakerCounter, InhomogeneousCounter, KaryCounter, SparseCounter, SquareRootCounter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import save
from skdpsynth.privacy import DiscreteLaplace, StandingRelease, check_rng

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
VARIANTS = variants()
each = pytest.mark.parametrize("estimator", VARIANTS.values(), ids=VARIANTS)
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
    """All lines but the one that says that a stream goes on from a copy."""
    return [(str(entry), above) for entry, above in fitted.accountant_.lines() if not entry.name.startswith("resumed")]


# There and back


@each
def test_a_loaded_estimator_is_the_one_that_was_saved(estimator, X, path):
    fitted = clone(estimator).fit(X)
    fitted.save(path)
    again = load(path)
    assert type(again) is type(fitted)
    assert repr(again) == repr(fitted)
    assert np.array_equal(outcome(again, X), outcome(fitted, X))
    assert ledger(again) == ledger(fitted)
    assert again.accountant_.spent == fitted.accountant_.spent == 1
    assert {name for name in vars(again) if name.endswith("_")} == {name for name in vars(fitted) if name.endswith("_")}
    again.fit(X)  # with a budget of its own


@each
def test_a_seed_is_the_only_parameter_that_does_not_come_back(estimator, X, path):
    fitted = clone(estimator).set_params(random_state=SEED, epsilon=0.7).fit(X)
    again = there_and_back(fitted, path)
    assert again.random_state is None
    assert repr(again) == repr(clone(fitted).set_params(random_state=None))
    assert fitted.random_state == SEED
    assert np.array_equal(outcome(again, X), outcome(fitted, X))
    assert {entry.randomness for entry in again.accountant_.ledger if not entry.name.startswith("resumed")} == {"seeded"}


@each
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_the_kind_of_table_comes_back(estimator, kind, path):
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 9, 200), rng.random(200) < 0.5, rng.random(200)
    if kind == "numpy":
        X, bounds = a[:, None].repeat(2, axis=1).astype(np.int16), (0, 8)
    elif kind == "pandas":
        X = pd.DataFrame({"a": pd.array(a, dtype="Int8"), "b": pd.array(b, dtype="boolean"), "c": c.astype(np.float32)})
        bounds = {"a": (0, 8), "b": (0, 1), "c": (0.0, 1.0)}
    else:
        X = pl.DataFrame({"a": a, "b": b, "c": c})
        bounds = {"a": (0, 8), "b": (0, 1), "c": (0.0, 1.0)}
    fitted = clone(estimator).set_params(bounds=bounds).fit(X)
    again = there_and_back(fitted, path)
    before, after = outcome(fitted, X), outcome(again, X)
    assert type(after) is type(before)
    if kind == "pandas":
        pd.testing.assert_frame_equal(pd.DataFrame(before), pd.DataFrame(after))
    elif kind == "polars" and isinstance(before, pl.DataFrame):
        assert after.equals(before)
        assert after.schema == before.schema
    else:
        assert after.dtype == before.dtype
        assert np.array_equal(after, before)
    assert again.bounds == bounds
    if kind != "numpy":
        assert again.feature_names_in_.tolist() == ["a", "b", "c"]
        assert again.feature_names_in_.dtype == fitted.feature_names_in_.dtype
        with pytest.raises(ValueError, match="feature names"):
            (again.score if hasattr(again, "score") else again.transform)(X[["b", "a", "c"]])


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": Fraction(1, 3)},
        {"epsilon": float("inf")},
        {"epsilon": 3, "delta": 1e-6},
        {"bounds": (np.zeros(3), np.array([1.0, 2.0, 3.0]))},
        {"bounds": ([0, 0, 0], (1, 1, 2.5))},
        {"depth": 5},
    ],
)
def test_parameters_come_back_with_their_types(parameters, X, path):
    fitted = PrivateMeasureMechanism(**parameters).fit(X)
    again = there_and_back(fitted, path)
    assert repr(again.get_params()) == repr(fitted.get_params())
    for name, value in parameters.items():
        assert type(getattr(again, name)) is type(value)
    assert again.accountant_.spent == fitted.accountant_.spent
    assert again.accountant_.epsilon == fitted.accountant_.epsilon


@each
def test_an_unfitted_estimator_comes_back_unfitted(estimator, X, path):
    again = there_and_back(estimator, path)
    assert repr(again) == repr(estimator)
    assert not hasattr(again, "accountant_")
    again.fit(X)


@each
def test_saving_changes_nothing(estimator, X, path):
    fitted = clone(estimator).fit(X)
    before = vars(fitted).copy()
    outcome(fitted, X)
    fitted.save(path)
    assert vars(fitted).keys() == before.keys()
    assert fitted.accountant_ is before["accountant_"]
    assert ledger(fitted) == ledger(there_and_back(fitted, path))


def test_arrays_that_were_read_only_stay_so(X, path):
    again = there_and_back(PrivateMeasureMechanism().fit(X), path)
    with pytest.raises(ValueError, match="read-only"):
        again.partition_.box.low[0] = 5
    there_and_back(PrivatePCA().fit(X), path).components_[0, 0] = 0


def test_saving_twice_gives_the_same_members(X, tmp_path):
    fitted = PrivateMeasureMechanism().fit(X)
    fitted.save(tmp_path / "a.zip")
    load(tmp_path / "a.zip").save(tmp_path / "b.zip")
    assert members(tmp_path / "a.zip") == members(tmp_path / "b.zip")


@each
def test_a_saved_estimator_of_a_shared_budget_is_a_record_that_refuses_to_spend(estimator, X, path):
    shared = PrivacyAccountant(3, neighboring=estimator.neighboring)
    fitted = clone(estimator).set_params(accountant=shared).fit(X)
    again = there_and_back(fitted, path)
    assert again.accountant.closed
    assert again.accountant.spent == again.accountant_.spent == 1
    with pytest.raises(BudgetExceededError, match="closed record"):
        again.fit(X)
    with pytest.raises(BudgetExceededError, match="closed record"):
        again.accountant.spend(1, name="more")
    assert shared.spent == 1
    shared.spend(1, name="the original stays open")


def test_an_open_budget_is_not_saved(path):
    with pytest.raises(TypeError, match="open PrivacyAccountant"):
        PrivatePCA(accountant=PrivacyAccountant(1)).save(path)
    assert not path.exists()


def test_published_cells_make_a_small_file(path):
    """2**16 cells, less than 2 MB."""
    fitted = PrivateMeasureMechanism("optimal", depth=16, epsilon=100).fit(np.random.default_rng(0).random((400_000, 2)))
    assert len(fitted.measure_.weights) > 60_000
    fitted.save(path)
    assert path.stat().st_size < 2e6


# Streams that go on


@each_stream
def test_a_stream_goes_on_bit_for_bit_when_its_seed_is_set_again(stream, path):
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
    X = np.random.default_rng(0).random((1500, 2))
    model = clone(stream).set_params(random_state=SEED).fit(X[:500])
    model.save(path)
    two = [load(path).partial_fit(X[500:]) for _ in range(2)]
    first, second, third = (m.sample(500, random_state=0) for m in (model.partial_fit(X[500:]), *two))
    if stream.counter != "sparse":  # whose segments may all be open
        assert not np.array_equal(first, second)
        assert not np.array_equal(second, third)
    assert model.accountant_.ledger[-1].randomness == "seeded"
    assert two[0].accountant_.ledger[-1].randomness == "secure"
    assert two[0].accountant_.spent == 1


@each_stream
def test_a_loaded_stream_samples_what_the_saved_one_does_and_keeps_counting(stream, path):
    X = np.random.default_rng(0).random((500, 2))
    model = clone(stream).fit(X[:300])
    expected = model.sample(100, random_state=0)
    again = there_and_back(model, path)
    assert np.array_equal(again.sample(100, random_state=0), expected)
    assert again.partial_fit(X[300:]).n_samples_seen_ == 500
    assert there_and_back(again, path).n_samples_seen_ == 500


@each_stream
def test_a_loaded_stream_still_refuses_what_changes_and_knows_its_columns(stream, path):
    frame = pd.DataFrame(np.random.default_rng(0).random((100, 2)), columns=["a", "b"])
    again = there_and_back(clone(stream).fit(frame), path)
    assert list(again.partial_fit(frame).sample().columns) == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        again.partial_fit(frame[["b", "a"]])
    with pytest.raises(ValueError, match="epsilon must not change"):
        again.set_params(epsilon=2.0).partial_fit(frame)


COUNTERS = {
    "binary": lambda **kw: BinaryCounter(60, n_counters=3, sensitivity=2, **kw),
    "kary": lambda **kw: KaryCounter(60, n_counters=3, sensitivity=2, **kw),
    "honaker": lambda **kw: HonakerCounter(60, n_counters=3, sensitivity=2, **kw),
    "square root": lambda **kw: SquareRootCounter(60, rho=0.5, n_counters=3, sensitivity=2, **kw),
    "sparse": lambda **kw: SparseCounter(60, epsilon=50.0, n_counters=3, sensitivity=2, **kw),
}


@pytest.mark.parametrize("make", COUNTERS.values(), ids=COUNTERS)
def test_a_loaded_counter_goes_on_as_the_saved_one(make, path):
    cells = np.random.default_rng(0).integers(0, 3, 60)
    counter = make(random_state=SEED)
    for cell in cells[:27]:
        counter.update_cells([cell])
        _ = counter.value
    expected = counter.value
    again = there_and_back(counter, path)
    assert again.n_steps == 27
    for each_one in (counter, again):
        each_one.resume(StandingRelease(PrivacyAccountant(1), DiscreteLaplace(7), check_rng(5)))
    assert np.array_equal(again.value, expected)
    for cell in cells[27:]:
        values = []
        for each_one in (counter, again):
            each_one.update_cells([cell])
            values.append(each_one.value)
        assert np.array_equal(*values)
        assert values[0].dtype == values[1].dtype
    with pytest.raises(ValueError, match="horizon is 60 steps"):
        again.update_cells([0])


@pytest.mark.parametrize("kind", ["kary", "binary", "sparse"])
def test_a_loaded_counter_of_levels_goes_on_as_the_saved_one(kind, path):
    accountant, cells = PrivacyAccountant(20), np.random.default_rng(0).integers(0, 3, 40)
    counter = InhomogeneousCounter(kind, n_counters=3, history=[4, 0, 1])
    counter.start_level(10, 10.0, accountant, SEED)
    counter.update_cells(cells[:10])
    counter.start_level(30, 10.0, accountant, check_rng(SEED).child("second"))
    counter.update_cells(cells[10:23])
    expected = counter.value
    again = there_and_back(counter, path)
    for each_one in (counter, again):
        each_one.resume(accountant, check_rng(5))
    assert np.array_equal(again.value, expected)
    for each_one in (counter, again):
        each_one.update_cells(cells[23:])
    assert np.array_equal(again.value, counter.value)
    for each_one in (counter, again):
        each_one.end_level()
    assert np.array_equal(again.value, counter.value)


# What is not in a file


@each
def test_a_file_holds_no_seed_and_no_pickle(estimator, X, path):
    fitted = clone(estimator).set_params(random_state=SEED).fit(X)
    if "synthesizer" in fitted.get_params() and getattr(fitted, "strategy", "blocks") == "blocks":
        inner = clone(estimator).set_params(random_state=SEED, synthesizer=PrivateMeasureMechanism("optimal", random_state=SEED))
        fitted = inner.fit(X)
    fitted.save(path)
    for name, data in members(path).items():
        for secret in (str(SEED).encode(), SEED.to_bytes(4, "little"), SEED.to_bytes(4, "big"), hex(SEED)[2:].encode()):
            assert secret not in data
        if name == "object.json":
            json.loads(data)
        else:
            assert np.load(io.BytesIO(data), allow_pickle=False).dtype.kind in "iufb"


@each
def test_a_file_of_published_results_holds_no_row(estimator, path):
    X = np.random.default_rng(1).random((200, 3))
    clone(estimator).fit(X).save(path)
    data = b"".join(members(path).values())
    for value in X.ravel():
        assert value.tobytes() not in data
        assert repr(float(value)).encode() not in data


@pytest.mark.parametrize("stream", [STREAMS["blocks"], STREAMS["paper-kary"], STREAMS["paper-binary"]])
def test_a_file_does_not_tell_the_order_of_open_rows(stream, tmp_path):
    """Rows 100 to 109 are of one open block, and of one level of time."""
    X = np.random.default_rng(0).random((110, 2))
    Y = X.copy()
    Y[100:] = X[100:][::-1]
    for name, rows in (("a.zip", X), ("b.zip", Y)):
        clone(stream).set_params(random_state=SEED).fit(rows).save(tmp_path / name)
    assert members(tmp_path / "a.zip") == members(tmp_path / "b.zip")


def test_members_are_one_text_and_plain_arrays(X, path):
    PrivatePCA().fit(X).save(path)
    names = list(members(path))
    assert names[0] == "object.json"
    assert all(name.endswith(".npy") and "/" not in name for name in names[1:])


# A save that fails


class Halves:
    """The unit interval, halved: a partition of the caller's own."""

    depth = 6

    def locate(self, X):
        return np.minimum((np.clip(X[:, 0], 0, 1) * 64).astype(np.int64), 63)

    def diameters(self, level):
        return 2.0**-level

    def sample(self, cells, level, rng):
        return ((cells + rng.random(len(cells))) / 2**level)[:, None]


def test_a_parameter_that_cannot_be_saved_is_named_and_the_old_file_stays(path):
    old = PrivateMeasureMechanism().fit(np.full((50, 1), 0.5))
    old.save(path)
    data = path.read_bytes()
    odd = PrivateMeasureMechanism(partition=Halves()).fit(np.full((50, 1), 0.5))
    with pytest.raises(TypeError, match=r"PrivateMeasureMechanism\.\w+ is a Halves, which cannot be saved"):
        odd.save(path)
    with pytest.raises(TypeError, match=r"LowDimSynthesizer\.synthesizer\.partition is a Halves"):
        LowDimSynthesizer(1, synthesizer=PrivateMeasureMechanism(partition=Halves())).save(path)
    assert path.read_bytes() == data
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_save_that_breaks_off_while_writing_leaves_the_old_file_and_no_other(X, path, monkeypatch):
    fitted = PrivatePCA().fit(X)
    fitted.save(path)
    data = path.read_bytes()

    def full(*args, **keywords):
        raise OSError("disk full")

    for owner, name in ((np, "save"), (zipfile.ZipFile, "writestr")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(OSError, match="disk full"):
                fitted.save(path)
        assert path.read_bytes() == data
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_save_replaces_an_old_file(X, path):
    PrivatePCA(1).fit(X).save(path)
    PrivatePCA(2).fit(X).save(str(path))
    assert load(str(path)).n_components == 2


# Files from anywhere


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
        archive.writestr("object.json", json.dumps({"format": 1, "object": thing}) if text is None else text)
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return path


def check_refused(path):
    """One sentence that says what the file is not."""
    Trap.sprung = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="save") as caught:
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


@pytest.mark.parametrize(
    "thing",
    [
        {"class": "Popen", "state": {"args": "true"}},
        {"class": "os.system", "state": {}},
        {"class": "Trap", "state": {}},
        {"class": "__import__", "state": {}},
        {"class": ["PrivatePCA"], "state": {}},
        {"class": None, "state": {}},
        {"class": "PrivatePCA"},
        {"class": "PrivatePCA", "state": [1, 2]},
        {"class": "PrivatePCA", "state": None},
        {"unknown": 1},
        an_estimator(epsilon={"unknown": 1}),
        an_estimator(mean_={"array": "0.npy"}),
        an_estimator(mean_={"array": "absent.npy", "frozen": True}),
        an_estimator(mean_={"array": "../../etc/passwd", "frozen": True}),
        an_estimator(mean_={"array": "/etc/passwd", "frozen": True}),
        an_estimator(mean_={"array": ["0.npy"], "frozen": True}),
        an_estimator(mean_={"array": "object.json", "frozen": True}),
        an_estimator(epsilon={"tuple": 3}),
        an_estimator(epsilon={"dict": [[[], 1]]}),
        an_estimator(epsilon={"dict": [1]}),
        an_estimator(epsilon={"scalar": "O", "value": 1}),
        an_estimator(epsilon={"scalar": "f8,O", "value": 1}),
        an_estimator(epsilon={"dtype": "O"}),
        an_estimator(epsilon={"dtype": "M8[s]"}),
        an_estimator(epsilon={"float": [1]}),
        an_estimator(epsilon={"pandas_dtype": "no such dtype"}),
        an_estimator(epsilon={"float": "many"}),
        an_estimator(epsilon={"fraction": "a half"}),
        an_estimator(epsilon={"fraction": "1/0"}),
        an_estimator(epsilon={"scalar": "int8", "value": 300}),
        an_estimator(epsilon={"fraction": "1e5"}),
        5,
        [],
        "text",
        None,
        {"dict": []},
        {"class": "PrivatePCA", "state": {}},
        {"class": "PrivateMeasureMechanism", "state": {"epsilon": 1}},
    ],
    ids=lambda thing: json.dumps(thing)[:60],
)
def test_json_of_the_wrong_shape_is_refused(thing, path, monkeypatch):
    monkeypatch.setattr(skdpsynth.synthesis, "Trap", Trap, raising=False)
    monkeypatch.setattr(skdpsynth, "Trap", Trap, raising=False)
    check_refused(write(path, thing))


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "5",
        "null",
        '"text"',
        "{}",
        '{"format": 1}',
        "[" * 100_000,
        '{"format": 1, "object": ' + "[" * 3000 + "]" * 3000 + "}",
        "",
        "{",
        b"\xff\xfe\x00",
        '{"format": 1, "object": ' + "9" * 10_000 + "}",
    ],
    ids=range(12),
)
def test_text_that_is_no_such_json_is_refused(text, path):
    check_refused(write(path, text=text))


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_version_of_the_format_is_refused(version, path):
    write(path, text=json.dumps({"format": version, "object": an_estimator()}))
    with pytest.raises(ValueError, match=r"has format .*, and this version reads 1; use a newer skdpsynth\.$"):
        load(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        npy(np.array([Trap], dtype=object), allow_pickle=True),
        npy(np.array([Trap.__new__(Trap)], dtype=object), allow_pickle=True),
        npy(np.arange(5.0))[:-3],
        b"\x93NUMPY\x01\x00\xff\x00{{{",
        header((10**14,)),
    ],
    ids=["empty", "garbage", "class", "object", "short", "header", "huge"],
)
def test_arrays_that_are_none_or_hold_objects_are_refused(data, path):
    check_refused(write(path, ARRAY, **{"0": data}))


def test_an_archive_within_a_member_is_refused(path):
    inner = io.BytesIO()
    np.savez(inner, a=np.arange(3))
    check_refused(write(path, ARRAY, **{"0": inner.getvalue()}))


def test_what_is_no_zip_is_refused(path):
    for data in (b"", b"PK", b"garbage" * 100, npy(np.arange(5))):
        path.write_bytes(data)
        check_refused(path)


def test_a_file_without_the_text_is_refused(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0.npy", npy(np.arange(3)))
    check_refused(path)


def test_a_truncated_file_is_refused_wherever_it_ends(X, path):
    PrivatePCA().fit(X).save(path)
    data = path.read_bytes()
    for stop in range(0, len(data), 7):
        path.write_bytes(data[:stop])
        check_refused(path)


def test_a_file_with_a_damaged_byte_is_refused_or_unharmed(X, path):
    fitted = PrivatePCA(random_state=0).fit(X)
    fitted.save(path)
    data, expected, refused = path.read_bytes(), members(path), 0
    for i in range(0, len(data), 3):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1 :])
        try:
            load(path)
        except ValueError:
            refused += 1
        else:
            assert members(path) == expected
    assert refused > len(data) / 6


def test_a_zip_bomb_is_refused_by_what_it_claims(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("object.json", json.dumps({"format": 1, "object": an_estimator()}))
        for i in range(5):
            archive.writestr(f"{i}.npy", b"0" * 100)
            archive.filelist[-1].file_size = 2**32 - 2**20
    with pytest.raises(ValueError, match=r"holds more than 16 GiB; it was not written by save\.$"):
        load(path)


def test_names_that_climb_out_of_the_folder_write_nothing(X, path):
    PrivatePCA().fit(X).save(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../climbed", b"x")
        archive.writestr("/climbed-skdpsynth", b"x")
    load(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert not (path.parent.parent / "climbed").exists()


def test_no_file_can_name_what_its_classes_are(path):
    """Names with underscores in a state are plain attributes, or refused."""
    for cls, name in itertools.product(("PrivatePCA", "Box", "Blocks", "PrivacyAccountant"), ("__class__", "__dict__", "__reduce__")):
        write(path, {"class": cls, "state": {name: "Trap"}})
        try:
            thing = load(path)
        except ValueError:
            continue
        assert type(thing).__name__ == cls


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.zip")
