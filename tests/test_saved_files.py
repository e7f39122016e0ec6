"""Files that were edited are refused or work."""

import copy
import json
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from laws import refuses

from skdpsynth import (
    LatentFactorSynthesizer,
    LinkedTablesSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    load,
)
from skdpsynth.continual import BinaryCounter, KaryCounter
from skdpsynth.domain import Box, Children, Compared, Continuous, MixedTypeEncoder, Schema
from skdpsynth.measures import Lattice
from skdpsynth.persistence import from_bytes, save, to_bytes

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


X = np.random.default_rng(0).random((200, 2))


def fitted():
    return PrivateMeasureMechanism(depth=3).fit(X)


def fitted_pca():
    return PrivatePCA().fit(X)


@pytest.fixture(scope="module")
def attack():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        import hostile_files
    return hostile_files


def edited(path, edit):
    """Return the bytes of a file whose JSON was changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    told = json.loads(members["object.json"])
    edit(told["object"]["state"])
    members["object.json"] = json.dumps(told).encode()
    out = path.with_suffix(".edited")
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.read_bytes()


@pytest.mark.parametrize(
    ("make", "edit"),
    [
        (fitted_pca, lambda state: state.update(transform="x")),
        (fitted_pca, lambda state: state.update(_state_is_private=True)),
        (fitted_pca, lambda state: state.pop("n_components")),
        (fitted_pca, lambda state: state.update(n_features_in_="2")),
        (fitted, lambda state: state["measure_"]["state"].update(cells=state["measure_"]["state"]["weights"])),
        (fitted, lambda state: state["measure_"]["state"]["partition"]["state"].update(depth=-2)),
        (fitted, lambda state: state["_container"]["state"].update(backend="nothing")),
        (fitted, lambda state: state["accountant_"]["state"].update(_entries=[1])),
        (lambda: KaryCounter(9), lambda state: state.update(n_levels=5)),
        (lambda: KaryCounter(1000), lambda state: state.update(n_levels=1)),  # less noise under the same charge
        (lambda: KaryCounter(9), lambda state: state.update(n_counters=2)),
        (lambda: KaryCounter(9), lambda state: state.update(epsilon=-1.0)),
    ],
)
def test_a_state_that_its_class_could_not_have_is_refused(make, edit, tmp_path):
    save(make(), tmp_path / "right.zip")
    refuses(ValueError, r"^data holds a \w+ .*; it was not written by save\.$", from_bytes, edited(tmp_path / "right.zip", edit))


@pytest.mark.parametrize("counter", [KaryCounter, BinaryCounter])
@pytest.mark.parametrize("n_steps", [0, 3])
def test_no_noise_of_what_is_still_to_come_is_read_from_a_file(counter, n_steps):
    """Whoever wrote it there would know it: what is released later would be exact to them."""
    stream = counter(8, epsilon=0.1)
    for _ in range(n_steps):
        stream.update(1)
    known = copy.copy(stream)
    known._kept = {(level, 7): np.zeros(1, dtype=np.int64) for level in range(known.n_levels)}
    if counter is KaryCounter and n_steps:
        loaded = from_bytes(to_bytes(known))
        loaded.resume()
        assert not loaded._kept
    else:
        refuses(ValueError, "parts do not fit each other", from_bytes, to_bytes(known))


def paper_stream():
    rows = np.random.default_rng(0).random((40, 1))
    return OnlineSynthesizer(strategy="paper", counter="kary", epsilon=1.0).partial_fit(rows)


def halve_the_change(state):
    for counter in state["_stream"]["state"]["counters"]:
        counter["state"]["sensitivity"] = counter["state"]["_level"]["tuple"][1]["state"]["sensitivity"] = 1


def give_each_depth(epsilon, state):
    for counter in state["_stream"]["state"]["counters"]:
        level = counter["state"]["_level"]["tuple"]
        level[1]["state"]["epsilon"] = {"fraction": epsilon}


def charge_parts(epsilon, state):
    for entry in state["accountant_"]["state"]["_entries"]:
        if entry["state"]["part_of"] is not None:
            entry["state"]["loss"]["state"]["epsilon"] = {"fraction": epsilon}


@pytest.mark.parametrize(
    ("edit", "cls"),
    [
        (halve_the_change, "GrowingTree"),
        (lambda state: give_each_depth("1", state), "GrowingTree"),
        (lambda state: charge_parts("1", state), "PrivacyAccountant"),
        (lambda state: state["accountant_"]["state"].update(_closed=False), "PrivacyAccountant"),
    ],
)
def test_a_stream_that_would_release_more_than_was_charged_is_refused(edit, cls, tmp_path):
    save(paper_stream(), tmp_path / "right.zip")
    refuses(ValueError, f"holds a {cls} whose parts do not fit each other", from_bytes, edited(tmp_path / "right.zip", edit))


def as_words(state, old, new):
    """Replace a word everywhere in a state."""
    state.update(json.loads(json.dumps(state).replace(old, new)))


def say_ticks_are_rows(state):
    as_words(state, '"add_or_remove_one"', '"replace_one"')
    state["n_samples_seen_"] = state["n_ticks_seen_"]


def count_a_unit_as_one_row(state):
    state["_stream"]["state"]["rows_per_unit"] = 1
    state["accountant_"]["state"]["unit"] = None


@pytest.mark.parametrize(
    ("settings", "edit"),
    [
        ({"strategy": "paper", "neighboring": "add_or_remove_one"}, say_ticks_are_rows),
        ({"max_rows_per_unit": 5}, count_a_unit_as_one_row),
        ({"max_rows_per_unit": 5}, lambda state: state.update(_units=None)),
        ({}, lambda state: state["_stream"]["state"].update(epsilon={"fraction": "10"})),
    ],
)
def test_a_stream_whose_noise_would_cover_less_than_its_settings_say_is_refused(settings, edit, tmp_path):
    unit = np.arange(100) // 5 if "max_rows_per_unit" in settings else None
    stream = OnlineSynthesizer(bounds=(0, 1), **settings).partial_fit(X[:100, :1], unit=unit)
    stream.save(tmp_path / "right.zip")
    load(tmp_path / "right.zip")
    refuses(ValueError, "parts do not fit each other", from_bytes, edited(tmp_path / "right.zip", edit))


@pytest.mark.parametrize("way", ["fewer cells", "later start", "another schema"])
def test_codes_that_some_cell_lacks_are_refused_before_they_are_used(way):
    """A row in that cell would raise an error, and so be told of."""
    rows = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, "x", "y")})
    model = LatentFactorSynthesizer({"a": (0.0, 1.0), "b": ["x", "y"]})
    stream = OnlineSynthesizer(synthesizer=model).partial_fit(pd.concat([rows] * 5))
    for *_, block in stream._stream.blocks:
        counted, link = block._counted, block._counted.codes.links["a"]
        if way == "later start":
            link.edges[0] += 1
        else:
            object.__setattr__(link, "mass", link.mass[:-1])
            link.edges[-1] -= 1
        if way == "another schema":
            object.__setattr__(counted, "schema", Schema({"a": Continuous(0, len(link.mass) - 1, integer=True), "b": ["x", "y"]}))
    refuses(ValueError, r"(parts do not|must) fit", lambda: from_bytes(to_bytes(stream)).partial_fit(pd.concat([rows] * 5)))


def test_cells_of_a_lattice_that_a_row_could_not_be_in_are_refused():
    lattice = Lattice(Box([0], [1]), (16,), keep=np.arange(16) < 15)
    lattice._cell_of[15] = 99
    refuses(ValueError, "parts do not fit each other", from_bytes, to_bytes(lattice))


@pytest.mark.parametrize("labels", [np.arange(40) // 2, [f"unit {i // 2}" for i in range(40)]])
def test_a_stream_of_units_is_read_whatever_their_labels_are_and_no_count_below_one(labels, tmp_path):
    stream = OnlineSynthesizer(max_rows_per_unit=2).partial_fit(np.random.default_rng(0).random((40, 1)), unit=labels)
    save(stream, tmp_path / "stream.zip")
    assert load(tmp_path / "stream.zip")._units[0] == stream._units[1]
    stream._units[1].update(dict.fromkeys(stream._units[1], -9))
    refuses(ValueError, "parts do not fit each other", from_bytes, to_bytes(stream))


@pytest.mark.parametrize("make", [fitted, paper_stream])
def test_no_seed_is_read_from_a_file(make, tmp_path):
    """Noise to come would be known to whoever wrote it there."""
    save(make(), tmp_path / "right.zip")
    with pytest.raises(ValueError, match="with a seed, by which its noise would be known"):
        from_bytes(edited(tmp_path / "right.zip", lambda state: state.update(random_state=3)))


@pytest.mark.parametrize("delta", [0, 1e-3])
def test_a_record_of_children_that_cost_less_together_is_read(delta):
    accountant = PrivacyAccountant(2.0, 0.01)
    for child in accountant.children([0.1] * 12, delta, name="twelve"):
        child.spend(0.1, name="all")
    assert from_bytes(to_bytes(accountant.record())).spent == accountant.spent


def test_hostile_files_are_refused_in_one_sentence_or_read(attack, tmp_path):
    """Loaded here, and used; the script does the same with limits of memory and time, and 10,000 files."""
    bases = [attack.Base(name, make()) for name, make in attack.things() if "latent" not in name and name != "linked"]
    for number in range(250):
        draw = random.Random(number)
        base = draw.choice(bases)
        data, done = base.hostile(draw)
        word, where = attack.attack(base, data, tmp_path / "model.zip")
        assert word != "foreign at load", (base.name, done, where)


def test_a_library_of_tables_that_is_not_installed_is_said_to_be_so(tmp_path, monkeypatch):
    save(PrivateMeasureMechanism(depth=3).fit(pd.DataFrame(X, columns=["a", "b"])), tmp_path / "model.zip")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"model\.zip needs pandas, which is not installed; install it with `pip install pandas`"):
        load(tmp_path / "model.zip")


def shorten(thing, path):
    """Leave out the last number of an array, given by the names that lead to it."""
    *way, last = path.split(".")
    for name in way:
        thing = getattr(thing, name) if hasattr(thing, name) else thing[name]
    object.__setattr__(thing, last, getattr(thing, last)[:-1])


@pytest.mark.parametrize(
    ("cls", "settings", "paths"),
    [
        (PrivateMeasureMechanism, {}, ["measure_.weights", "measure_.cells", "measure_.levels"]),
        (PrivatePCA, {}, ["mean_", "components_", "covariance_", "explained_variance_", "singular_values_", "feature_names_in_"]),
        (
            LatentFactorSynthesizer,
            {"schema": {"a": (0, 1), "b": (0, 1)}},
            ["_model.links.a.edges", "_model.links.b.mass", "_model.schema._columns"],
        ),
        (MixedTypeEncoder, {"schema": {"a": (0, 1), "b": (0, 1)}}, ["feature_names_in_"]),
    ],
)
def test_a_model_whose_arrays_have_other_lengths_is_refused(cls, settings, paths):
    rows = pd.DataFrame(X[:, :2], columns=["a", "b"])
    data = to_bytes(cls(**settings).fit(rows))
    from_bytes(data)
    for path in paths:
        thing = from_bytes(data)
        if path.endswith("_columns"):
            del thing._model.schema._columns["b"]
        else:
            shorten(thing, path)
        refuses(ValueError, "it was not written by save", from_bytes, to_bytes(thing))


def put(thing, name, value):
    object.__setattr__(thing, name, value)


STAYS = {
    "home": {"region": ["north", "south"]},
    "person": {"role": ["head", "child"], "age": (0, 99)},
    "stay": {"begin": (0, 99), "end": (0, 99)},
}
OF_HOMES = [
    Children("person", of="home", key="id", most=4, head={"role": "head"}),
    Children("stay", of="home", key="id", most=3, order="begin", until="end"),
]
ODD_LINKS = {
    "less than is drawn counts": lambda model: put(model._container.links[0], "most", 2),
    "more than is drawn counts": lambda model: put(model._container.links[1], "most", 4096),
    "gaps are times": lambda model: put(model._container.links[1], "until", None),
    "another key": lambda model: put(model._container.links[0], "key", "home"),
    "keys among columns": lambda model: model._container.keys.update(person=(("age", "id"),)),
    "no key": lambda model: model._container.keys.update(stay=()),
    "no parent": lambda model: put(model._container.links[1], "of", "age"),
    "another tree": lambda model: put(model._container.links[1], "of", "person"),
    "a rule of nothing": lambda model: put(model._container.stated, "rules", (Compared("person.age", "<", "person.head.wage"),)),
    "columns in another order": lambda model: put(
        model._tables["home"], "_columns", dict(reversed(model._tables["home"]._columns.items()))
    ),
    "others are heads": lambda model: put(model, "_heads", (("person", 0, 1),)),
    "no heads": lambda model: put(model, "_heads", ()),
    "models in another order": lambda model: put(model, "factors_", dict(reversed(model.factors_.items()))),
    "one model for all": lambda model: model.factors_.update({("home", "stay"): model.factors_["home", "person"]}),
    "a code that nothing has": lambda model: put(model.factors_["home", "stay"], "nth_codes", np.array([0, 1, 9])),
    "another column says which row it is": lambda model: put(model.factors_["home", "stay"], "nth", 0),
    "a column less": lambda model: put(model.factors_["home", "stay"], "n_parent", 1),
    "nodes of fewer factors": lambda model: put(
        model.factors_["home", "person"], "nodes", model.factors_["home", "person"].nodes[..., :-1]
    ),
}


@pytest.mark.usefixtures("hasty")
def test_a_model_of_linked_tables_whose_parts_do_not_fit_is_refused():
    rng = np.random.default_rng(0)
    tables = {
        "home": pd.DataFrame({"id": range(40), "region": rng.choice(["north", "south"], 40)}),
        "person": pd.DataFrame({"id": rng.integers(0, 40, 80), "role": rng.choice(["head", "child"], 80), "age": rng.integers(0, 99, 80)}),
        "stay": pd.DataFrame({"id": rng.integers(0, 40, 60), "begin": rng.integers(0, 50, 60), "end": rng.integers(50, 99, 60)}),
    }
    data = to_bytes(LinkedTablesSynthesizer(STAYS, links=OF_HOMES, delta=1e-6).fit(tables))
    assert from_bytes(data).sample(5).keys() == tables.keys()
    for edit in ODD_LINKS.values():
        model = from_bytes(data)
        edit(model)
        refuses(ValueError, "it was not written by save", from_bytes, to_bytes(model))
