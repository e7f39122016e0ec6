"""Rules between linked tables, and order in histories, hold in every sampled root."""

import numpy as np
import pandas as pd
import pytest

from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant, load
from skdpsynth.domain import (
    AtMost,
    Children,
    Compared,
    Date,
    Derived,
    Determines,
    Impossible,
    Inequality,
    Ordinal,
    Schema,
    Total,
    parents_of,
)

RELATIONS = ["householder", "spouse", "child", "other"]
KIN = {"householder": "yes", "spouse": "no", "child": "yes", "other": "no"}
GRADES = Ordinal(["low", "middle", "high"])
SCHEMAS = {
    "household": Schema(
        {
            "region": ["north", "south"],
            "oldest": (0, 110),
            "first": Date("1990-01-01", "2020-12-31"),
            "last": Date("1990-01-01", "2024-12-31"),
            "limit": GRADES,
            "workers": (0, 9),
            "income": (0.0, 400.0),
        },
        rules=[Inequality("first", "last")],
    ),
    "person": Schema(
        {
            "relation": RELATIONS,
            "age": (0, 110),
            "came": Date("1980-01-01", "2024-12-31"),
            "grade": GRADES,
            "work": ["no", "yes"],
            "pay": (0.0, 60.0),
            "kin": ["no", "yes"],
            "pay twice": Derived("2 * pay"),
        },
        rules=[Impossible({"age": (0, 14), "work": "yes"}), Determines("relation", "kin", KIN)],
    ),
}
RULES = [
    AtMost(1, {"relation": "spouse"}, table="person"),
    AtMost(2, {"work": "yes"}, table="person"),
    Compared("person.age", "<", "person.head.age", where={"relation": "child"}),
    Compared("person.age", "<=", "household.oldest"),
    Compared("household.first", "<=", "person.came"),
    Compared("person.grade", "<=", "household.limit"),
    Total("household.workers", "count(person, work = yes)"),
    Total("household.income", "sum(person.pay)"),
]
PERSONS = Children("person", of="household", key="id", most=6, least=1, head={"relation": "householder"})


def households(n=2000, seed=0):
    """Households that keep the rules, drawn without regard to the model's form."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n), rng.integers(1, 7, n))
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    relation = np.where(rank == 0, 0, np.where((rank == 1) & (rng.random(len(owner)) < 0.6), 1, rng.choice([2, 2, 3], len(owner))))
    head = rng.integers(25, 90, n)
    age = np.where(relation == 0, head[owner], np.clip(head[owner] - rng.integers(-5, 8, len(owner)) - 22 * (relation == 2), 0, 99))
    first = pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D")
    limit = rng.integers(0, 3, n)
    household = {"id": np.arange(n), "region": rng.choice(["north", "south"], n), "oldest": head + 8, "first": first}
    household |= {
        "last": first + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
        "limit": np.array(GRADES.levels)[limit],
        "workers": 0,
        "income": 0.0,
    }
    works = (age > 14) & (rank < 2) & (rng.random(len(owner)) < 0.7)
    person = {"id": owner, "relation": np.array(RELATIONS)[relation], "age": age}
    person |= {"came": first[owner] + pd.to_timedelta(rng.integers(0, 900, len(owner)), "D")}
    person |= {"grade": np.array(GRADES.levels)[rng.integers(0, limit[owner] + 1)], "work": np.where(works, "yes", "no")}
    person |= {"pay": np.round(rng.random(len(owner)) * 60, 2), "kin": np.array(list(KIN.values()))[relation], "pay twice": 0.0}
    return {"household": pd.DataFrame(household), "person": pd.DataFrame(person)}


def broken(out):
    """How many rows break each rule."""
    household = out["household"].set_index("id")
    person, codes = out["person"], {grade: code for code, grade in enumerate(GRADES.levels)}
    mine = household.loc[person["id"]].reset_index()
    heads = person[person["relation"] == "householder"].set_index("id")
    of_head = heads["age"].reindex(person["id"]).to_numpy()
    works = (person["work"] == "yes").groupby(person["id"]).sum()
    return {
        "one head": int((person[person["relation"] == "householder"].groupby("id").size().reindex(household.index) != 1).sum()),
        "one spouse": int((person[person["relation"] == "spouse"].groupby("id").size() > 1).sum()),
        "two workers": int((works > 2).sum()),
        "younger": int(((person["relation"] == "child") & (person["age"] >= of_head)).sum()),
        "oldest": int((person["age"].to_numpy() > mine["oldest"].to_numpy()).sum()),
        "came": int((person["came"].to_numpy() < mine["first"].to_numpy()).sum()),
        "grade": int((person["grade"].astype(object).map(codes).to_numpy() > mine["limit"].astype(object).map(codes).to_numpy()).sum()),
        "workers": int((works.reindex(household.index) != household["workers"]).sum()),
        "income": int((np.abs(person.groupby("id")["pay"].sum().clip(upper=400) - household["income"]) > 1e-6).sum()),
        "first": int((household["first"] > household["last"]).sum()),
        "kin": int((person["relation"].map(KIN) != person["kin"]).sum()),
        "pay twice": int((np.abs(person["pay twice"] - 2 * person["pay"]) > 1e-9).sum()),
        "at work": int(((person["age"] <= 14) & (person["work"] == "yes")).sum()),
    }


@pytest.fixture(scope="module")
def fitted():
    model = LinkedTablesSynthesizer(SCHEMAS, links=[PERSONS], rules=RULES, epsilon=3.0, delta=1e-6, random_state=0)
    return model.fit(households())


def test_tables_of_the_tests_keep_the_rules():
    tables = households()
    person = tables["person"]
    works = (person["work"] == "yes").groupby(person["id"]).sum()
    tables["person"] = person.assign(**{"pay twice": 2 * person["pay"]})
    tables["household"] = tables["household"].assign(workers=works, income=person.groupby("id")["pay"].sum().clip(upper=400))
    assert not any(broken(tables).values())


def test_every_sampled_root_keeps_all_rules(fitted):
    out = fitted.sample(16_000, random_state=0)
    assert len(out["household"]) == 16_000
    assert len(out["person"]) > 50_000
    assert not any(broken(out).values())
    for seed in range(10):
        assert not any(broken(fitted.sample(1, random_state=seed)).values())


def test_what_rules_do_not_name_stays_as_it_is_without_them(fitted):
    """The shares of regions, and the number of persons."""
    totals = [rule for rule in RULES if isinstance(rule, Total)]
    free = LinkedTablesSynthesizer(SCHEMAS, links=[PERSONS], rules=totals, epsilon=3.0, delta=1e-6, random_state=0).fit(households())
    with_rules, without = (model.sample(8000, random_state=0) for model in (fitted, free))
    assert any(broken(without).values())
    assert abs(len(with_rules["person"]) - len(without["person"])) < 0.02 * len(without["person"])
    shares = [(out["household"]["region"] == "north").mean() for out in (with_rules, without)]
    assert abs(shares[0] - shares[1]) < 0.03


def test_rows_that_the_model_hardly_draws_are_mended_or_left_out():
    """All of the data break the rules: persons older than allowed, and spouses alone."""
    tables = households(600)
    rng = np.random.default_rng(0)
    others = tables["person"]["relation"] != "householder"
    tables["person"] = tables["person"].assign(
        relation=tables["person"]["relation"].where(~others, "spouse"), age=80, work="yes", grade="high"
    )
    tables["household"] = tables["household"].assign(oldest=20, limit="low", first=pd.Timestamp("2020-12-31"))
    tables["person"] = tables["person"].assign(came=pd.Timestamp("1980-01-01"), pay=np.round(rng.random(len(tables["person"])), 2))
    model = LinkedTablesSynthesizer(SCHEMAS, links=[PERSONS], rules=RULES, epsilon=10.0, delta=1e-6, random_state=0).fit(tables)
    out = model.sample(500, random_state=0)
    assert not any(broken(out).values())
    assert len(out["household"]) == 500


def test_a_saved_model_keeps_the_rules(fitted, tmp_path):
    fitted.save(tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    assert again.get_params()["rules"] == RULES
    for one, other in zip(fitted.sample(50, random_state=3).values(), again.sample(50, random_state=3).values(), strict=True):
        pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([AtMost(1, {"relation": "wife"}, table="person")], "rules must have levels"),
        ([Compared("person.age", "<", "household.region")], "Compared must be between"),
        ([Total("household.region", "count(person)")], "Total must be"),
        (AtMost(1, {"relation": "spouse"}, table="person"), "rules must be a list"),
        (None, "rules must be a list"),
    ],
)
def test_rules_that_do_not_fit_are_refused_before_anything_is_charged(rules, message):
    accountant = PrivacyAccountant(1.0, 1e-6)
    model = LinkedTablesSynthesizer(SCHEMAS, links=[PERSONS], rules=rules, epsilon=1.0, delta=1e-6, accountant=accountant)
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(households(20))
    assert accountant.spent == 0


# Histories


def clinic(n=1500, seed=0, days=3653):
    """Patients with stays that do not overlap: older ones come more often, and stay longer."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    owner = np.repeat(np.arange(n), np.minimum(1 + rng.poisson(0.5 + age / 40, n), 10))
    is_first = np.append(True, owner[1:] != owner[:-1])
    gap = np.where(
        is_first,
        rng.integers(0, days // 2, n)[owner],
        np.exp(5 - 0.012 * (age[owner] - 50) + 0.8 * rng.normal(size=len(owner))).astype(int),
    )
    length = np.exp(1.4 + 0.02 * (age[owner] - 50) + 0.7 * rng.normal(size=len(owner))).astype(int)
    end = pd.Series(gap + length).groupby(owner).cumsum().to_numpy()
    start = pd.Timestamp("2015-01-01")
    stay = pd.DataFrame(
        {"id": owner, "admitted": start + pd.to_timedelta(end - length, "D"), "discharged": start + pd.to_timedelta(end, "D")}
    )
    stay = stay.assign(ward=rng.choice(["a", "b"], len(owner)))[end < days].reset_index(drop=True)
    born = pd.Timestamp("2015-01-01") - pd.to_timedelta(age * 365, "D")
    return {"patient": pd.DataFrame({"id": np.arange(n), "age": age, "registered": born + pd.to_timedelta(age * 340, "D")}), "stay": stay}


DAYS = ("2015-01-01", "2024-12-31")
CLINIC = {
    "patient": {"age": (18, 89), "registered": Date("1920-01-01", "2015-12-31")},
    "stay": {"admitted": Date(*DAYS), "discharged": Date(*DAYS), "ward": ["a", "b"]},
}
STAYS = Children("stay", of="patient", key="id", most=10, order="admitted", until="discharged")


def medians(stay):
    gap = (stay["admitted"] - stay.groupby("id")["discharged"].shift()).dt.days
    return (stay["discharged"] - stay["admitted"]).dt.days, gap.dropna()


def test_stays_keep_their_lengths_and_gaps_and_never_overlap():
    tables = clinic()
    model = LinkedTablesSynthesizer(CLINIC, links=[STAYS], epsilon=float("inf"), random_state=0).fit(tables)
    out = model.sample(20_000, random_state=0)
    assert len(out["stay"]) > 50_000
    for drawn, real in zip(medians(out["stay"]), medians(tables["stay"]), strict=True):
        assert drawn.min() >= 0
        assert 1 / 1.15 < drawn.median() / real.median() < 1.15
    assert (out["stay"]["admitted"] >= DAYS[0]).all()
    assert (out["stay"]["discharged"] <= DAYS[1]).all()


def test_rules_of_times_of_a_history_leave_it_in_order():
    """A rule that most drawn histories break: those that are mended begin with what it allows."""
    rules = [Compared("stay.admitted", ">=", "patient.registered"), Total("patient.stays", "count(stay)")]
    schemas = {**CLINIC, "patient": {**CLINIC["patient"], "registered": Date("2015-01-01", "2024-12-31"), "stays": (0, 10)}}
    tables = clinic(800)
    registered = pd.Timestamp("2023-01-01") - pd.to_timedelta(np.arange(800) % 300, "D")
    tables["patient"] = tables["patient"].assign(registered=registered, stays=0)
    out = LinkedTablesSynthesizer(schemas, links=[STAYS], rules=rules, epsilon=3.0, delta=1e-6, random_state=0).fit(tables).sample(3000)
    length, gap = medians(out["stay"])
    assert min(length.min(), gap.min()) >= 0
    assert (out["stay"]["admitted"] >= out["patient"].set_index("id")["registered"].loc[out["stay"]["id"]].to_numpy()).all()
    assert out["patient"]["stays"].sum() == len(out["stay"])


def test_rows_of_a_history_by_levels_are_in_order():
    rng = np.random.default_rng(0)
    levels = Ordinal(["early", "middle", "late", "last"], nullable=True)
    visit = pd.DataFrame({"id": rng.integers(0, 300, 1200), "when": np.append(levels.levels, None)[rng.integers(0, 5, 1200)]})
    schemas = {"patient": {"age": (18, 89)}, "visit": {"when": levels, "ward": ["a", "b"]}}
    tables = {"patient": clinic(300)["patient"][["id", "age"]], "visit": visit.assign(ward=np.where(visit["when"] == "early", "a", "b"))}
    links = [Children("visit", of="patient", key="id", most=6, order="when")]
    out = LinkedTablesSynthesizer(schemas, links=links, epsilon=2.0, delta=1e-6, random_state=0).fit(tables).sample(5000, random_state=0)
    codes = pd.Series(pd.Categorical(out["visit"]["when"], levels.levels).codes).replace(-1, 9)
    assert not (codes < codes.groupby(out["visit"]["id"]).shift()).any()
    assert len(codes) > 15_000


def test_a_panel_in_one_long_table_comes_back_with_its_waves():
    rng = np.random.default_rng(0)
    panel = pd.DataFrame({"nr": np.repeat(np.arange(400), 8), "year": np.tile(np.arange(1980, 1988), 400)})
    panel["school"], level = (rng.integers(8, 16, 400))[panel["nr"]], rng.normal(size=400)[panel["nr"]]
    panel["wage"] = np.clip(np.round(5 + level + 0.2 * (panel["year"] - 1980) + 0.3 * rng.normal(size=len(panel)), 2), 0, 12)
    tables = parents_of(panel, key="nr", columns=["school"])
    schemas = {"parent": {"school": (6, 18)}, "child": {"year": (1980, 1987), "wage": (0.0, 12.0)}}
    links = [Children("child", of="parent", key="nr", most=8, least=8, order="year", grid=range(1980, 1988))]
    model = LinkedTablesSynthesizer(schemas, links=links, epsilon=float("inf"), random_state=0).fit(tables)
    out = model.sample(300, random_state=0)
    assert out["child"].groupby("nr")["year"].agg(list).map(lambda years: years == list(range(1980, 1988))).all()
    before = out["child"].groupby("nr")["wage"].shift()
    assert out["child"]["wage"].corr(before) > 0.6
    assert ("child", "year") not in {name for pair in model.marginals_consistent_["parent", "child"] for name in pair}
