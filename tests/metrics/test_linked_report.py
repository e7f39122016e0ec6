"""The report of linked tables against counts by hand, and `evaluate`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skdpsynth import LinkedTablesSynthesizer
from skdpsynth.domain import Children, LinkedSchema
from skdpsynth.metrics import LinkedReport, linked_report

SCHEMAS = {
    "household": {"region": ["north", "south"], "rooms": (1.0, 9.0)},
    "person": {"relation": ["head", "other"], "language": ["north", "south", "both"]},
    "visit": {"day": (0, 999), "ward": ["a", "b"]},
}
PERSONS = Children("person", of="household", key="id", most=3)
VISITS = Children("visit", of="person", key=("id", "number"), most=4, order="day")
NUMBERS = ("rows", "repeated keys", "rows of a parent", "orphans", "beyond most")


def tables(seed, n=120):
    rng = np.random.default_rng(seed)
    household = pd.DataFrame({"id": np.arange(n), "region": rng.choice(["north", "south"], n), "rooms": rng.uniform(1, 9, n)})
    counts = rng.integers(0, 4, n)
    owner, number = np.repeat(np.arange(n), counts), np.concatenate([np.arange(count) for count in counts])
    language = np.where(rng.random(len(owner)) < 0.7, household["region"].to_numpy()[owner], "both")
    person = pd.DataFrame({"id": owner, "number": number, "relation": np.where(number == 0, "head", "other"), "language": language})
    visit = person.loc[rng.integers(0, len(person), 3 * n), ["id", "number"]].groupby(["id", "number"]).head(4)
    visit = visit.assign(day=rng.integers(0, 999, len(visit)), ward=rng.choice(["a", "b"], len(visit)))
    return {"household": household, "person": person, "visit": visit}


def two_tables(tables):
    return {"household": tables["household"], "person": tables["person"].drop(columns="number")}


def variation(first, second, weights=(None, None)):
    """The total variation distance of two frames of columns of levels."""
    shares = [
        frame.assign(w=1 if w is None else w).groupby(list(frame))["w"].sum() for frame, w in zip((first, second), weights, strict=True)
    ]
    x, y = (each / each.sum() for each in shares)
    return x.sub(y, fill_value=0).abs().sum() / 2


def siblings(person):
    pairs = person.assign(row=range(len(person))).merge(person.assign(row=range(len(person))), on="id", suffixes=("", " of other"))
    pairs = pairs[pairs["row"] != pairs["row of other"]]
    return pairs, 1 / pairs.groupby("id")["row"].transform("size")


@pytest.fixture(scope="module")
def both():
    return tables(0), tables(1)


@pytest.fixture(scope="module")
def figures(both):
    return linked_report(*both, SCHEMAS, [PERSONS, VISITS]).figures


def test_distances_are_those_of_counts_by_hand(both, figures):
    real, made = both
    columns = ["relation", "language"]
    assert figures["person", "pairs"][0] == pytest.approx(variation(real["person"][columns], made["person"][columns]))
    joined = [each["person"].merge(each["household"], on="id") for each in both]
    region = [variation(*(each[["region", column]] for each in joined)) for column in columns]
    numbers = np.sort(real["household"]["rooms"].to_numpy())
    cuts = [numbers[-(-len(numbers) * k // 12) - 1] for k in range(1, 12)]  # the least number up to which so many twelfths of all are
    binned = [each.assign(rooms=np.searchsorted(cuts, each["rooms"])) for each in joined]
    rooms = [variation(*(each[["rooms", column]] for each in binned)) for column in columns]
    assert figures["person", "with parent"][0] == pytest.approx(np.mean(region + rooms))
    counts = [
        each["household"].assign(n=each["household"]["id"].map(each["person"]["id"].value_counts()).fillna(0))[["n"]] for each in both
    ]
    assert figures["person", "number"][0] == pytest.approx(variation(*counts))


def test_siblings_are_all_ordered_pairs_and_by_root_each_root_counts_once(both, figures):
    (first, w), (second, v) = (siblings(each["person"]) for each in both)
    of_other = [("relation", "relation of other"), ("relation", "language of other"), ("language", "language of other")]
    by_pair = [variation(first[[*pair]], second[[*pair]]) for pair in of_other]
    by_root = [variation(first[[*pair]], second[[*pair]], (w, v)) for pair in of_other]
    assert figures["person", "siblings by pair"][0] == pytest.approx(np.mean(by_pair))
    assert figures["person", "siblings by root"][0] == pytest.approx(np.mean(by_root))
    assert not np.isclose(np.mean(by_pair), np.mean(by_root))


def test_rows_of_a_history_are_beside_the_next_ones_in_time(both):
    """Wards that take turns in time are told from wards at random, whatever the order of the table."""
    turns = both[0]["visit"].sort_values(["id", "number", "day"])
    turns = turns.assign(ward=np.where(turns.groupby(["id", "number"]).cumcount() % 2, "a", "b"))
    synthetic, schemas = (
        both[0] | {"visit": turns.sample(frac=1, random_state=0)},
        {**SCHEMAS, "visit": {"day": (0, 999), "ward": ["a", "b"]}},
    )
    found = linked_report(both[0], synthetic, schemas, [PERSONS, VISITS]).figures
    again = linked_report(both[0] | {"visit": turns}, synthetic, schemas, [PERSONS, VISITS]).figures
    assert found["visit", "consecutive by pair"][0] > found["visit", "pairs"][0] + 0.05
    assert {again[key][0] for key in again if key[0] == "visit" and key[1] not in NUMBERS} == {0.0}


PATIENTS = pd.DataFrame({"id": [1, 2, 3, 4], "sex": ["f", "m", "f", "m"]})
STAYS = [(1, 10, "a", 12), (1, 0, "a", 4), (2, 5, "a", 5), (2, 30, "b", 40), (2, 5, "b", 8), (3, 7, "b", 9)]  # 4 has none, 3 one alone
OTHERS = [(1, 0, "b", 4), (1, 10, "a", 12), (2, 5, "a", 8), (2, 7, "a", 9), (4, 30, "b", 40), (4, 10, "b", 12), (4, 7, "b", 9)]


@pytest.mark.parametrize("ends", [False, True])
def test_histories_are_compared_by_consecutive_rows_and_by_spans_as_by_hand(ends):
    """Real spans are 10 and 25 up to the last begin, 12 and 35 up to its end; synthetic ones 10, 2 and 23, and 12, 4 and 33."""
    real, made = (
        {"patient": PATIENTS, "stay": pd.DataFrame(rows, columns=["id", "day", "ward", "end"])[["id", "day", "ward", *["end"] * ends]]}
        for rows in (STAYS, OTHERS)
    )
    schemas = {"patient": {"sex": ["f", "m"]}, "stay": {"day": (0, 50), "ward": ["a", "b"], **({"end": (0, 60)} if ends else {})}}
    link = Children("stay", of="patient", key="id", most=4, order="day", until="end" if ends else None)
    figures = linked_report(real, made, schemas, [link]).figures
    # Half of the real ones are the shorter, half the longer; a third of the synthetic ones below, at and above the shorter.
    assert figures["stay", "span"][0] == pytest.approx((1 / 3 + (1 / 2 - 1 / 3) + 1 / 3 + 1 / 2) / 2)
    assert figures["stay", "rows of a parent"] == (7 / 4, 6 / 4)
    assert figures["stay", "number"][0] == pytest.approx((abs(1 - 1) + abs(1 - 0) + abs(1 - 2) + abs(1 - 1)) / 8)
    if ends:
        return
    pairs = []
    for tables in (real, made):
        stays = tables["stay"].sort_values(["id", "day"], kind="stable")
        after = stays.groupby("id").shift(-1).add_prefix("next ")
        both = pd.concat([stays, after], axis=1).dropna()
        pairs.append((both, 1 / both.groupby("id")["id"].transform("size")))
    (first, w), (second, v) = pairs
    columns = [(one, f"next {other}") for one in ("day", "ward") for other in ("day", "ward")]
    by_pair = [variation(first[[*pair]], second[[*pair]]) for pair in columns]
    by_root = [variation(first[[*pair]], second[[*pair]], (w, v)) for pair in columns]
    assert figures["stay", "consecutive by pair"][0] == pytest.approx(np.mean(by_pair))
    assert figures["stay", "consecutive by root"][0] == pytest.approx(np.mean(by_root))
    assert not np.isclose(np.mean(by_pair), np.mean(by_root))


def test_equal_tables_are_at_no_distance_and_halves_at_some(both):
    figures = linked_report(both[0], both[0], SCHEMAS, [PERSONS, VISITS]).figures
    distances = {key: values for key, values in figures.items() if key[1] not in NUMBERS}
    assert len(distances) == 1 + 2 * 5 + 1
    assert all(made == 0 < halves < 1 for made, halves in distances.values())


def test_rows_without_a_parent_or_beyond_the_cap_and_repeated_keys_are_counted_apart(both, figures):
    person = pd.concat([both[1]["person"], pd.DataFrame({"id": [-1, 5000], "number": 0, "relation": "head", "language": "both"})])
    person = pd.concat([person, pd.DataFrame({"id": [0] * 9, "number": range(20, 29), "relation": "other", "language": "both"})])
    made = {**both[1], "person": person, "household": pd.concat([both[1]["household"], both[1]["household"][5:6]])}
    found = linked_report(both[0], made, SCHEMAS, [PERSONS, VISITS]).figures
    assert found["person", "orphans"] == (2, 0)
    assert found["visit", "orphans"] == (0, 0)
    assert found["person", "beyond most"] == ((person["id"] == 0).sum() - 3, 0)
    assert found["household", "repeated keys"] == (1, 0)
    assert found["person", "rows"][0] <= figures["person", "rows"][0] + 3
    assert found["person", "rows of a parent"][1] == len(both[0]["person"]) / 120


def test_tables_without_children_and_of_few_roots_have_figures(both):
    household = both[0]["household"]
    nobody = {"household": household[:3], "person": two_tables(both[0])["person"][:0]}
    schemas = {name: SCHEMAS[name] for name in nobody}
    found = linked_report(two_tables(both[0]), nobody, schemas, [PERSONS]).figures
    assert found["person", "siblings by pair"][0] == 1
    found = linked_report(nobody, nobody, schemas, [PERSONS]).figures
    assert (found["person", "siblings by pair"][0], found["person", "rows"]) == (0, (0, 0))
    assert np.isnan(found["person", "number"][1])


def test_a_report_prints_all_of_its_figures(both):
    report = linked_report(*both, SCHEMAS, [VISITS, PERSONS])
    assert "do not publish" in str(report)
    assert "person, siblings by root" in str(report)
    frame = report.to_frame()
    assert len(frame) == len(report.figures) == len(str(report).splitlines()) - 4
    assert list(frame) == ["table", "measure", "synthetic", "real"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"synthetic": {"household": None}}, "with synthetic as X: X must be a dict of the tables 'household', 'person', got"),
        ({"random_state": -1}, "random_state must be a non-negative integer or None, got -1"),
        ({"links": []}, "links must be a list of Children"),
    ],
)
def test_what_does_not_fit_is_refused(both, change, message):
    two = two_tables(both[0])
    given = {"real": two, "synthetic": two, "schemas": {name: SCHEMAS[name] for name in two}, "links": [PERSONS], **change}
    with pytest.raises(ValueError, match=message):
        linked_report(**given)


def test_a_report_takes_schemas_and_links_in_one(both):
    stated = LinkedSchema(SCHEMAS, [VISITS, PERSONS])
    assert linked_report(*both, stated).figures == linked_report(*both, SCHEMAS, [VISITS, PERSONS]).figures


def test_evaluate_compares_a_sample(both, hasty):
    schemas = {name: SCHEMAS[name] for name in ("household", "person")}
    headed = [Children("person", of="household", key="id", most=3, least=1, head={"relation": "head"})]
    model = LinkedTablesSynthesizer(schemas, links=headed, random_state=0)
    real = two_tables(both[0])
    with pytest.raises(NotFittedError):
        model.evaluate(real)
    report = model.fit(real).evaluate(real, random_state=3)
    assert isinstance(report, LinkedReport)
    assert report == linked_report(real, model.sample(120, random_state=3), schemas, headed, random_state=3)
