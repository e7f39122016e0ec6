"""Linked tables that benchmarks are measured on: households with persons, patients with diagnoses, a panel, trips; and made-up ones.

Reads SKDPSYNTH_DATA/linked, whose README.md names the sources. All columns are coded by public cuts, stated here and not read from rows:
whole numbers from 0, `Ordinal` where they are cuts of a number and `Nominal` elsewhere. Rows of a history are in order within each parent.
"""

import os
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from skdpsynth.domain import Continuous, Nominal, Ordinal

YEARS = [5, 12, 18, 25, 35, 45, 55, 65, 75]
HOURS = [1, 20, 35, 40, 41, 50]
NTH = "nth"  # of a row in its history
# The 18 codes of SEMCOG in 8: householder, spouse, children, siblings, parents, in-laws and others, further kin, no kin
RELATIONS = np.repeat(np.arange(8), [1, 1, 3, 1, 1, 2, 3, 6])


@dataclass(frozen=True)
class Link:
    """Rows of `child` belong to rows of `parent`, at most `most` to each: those first in `order`, where it is given."""

    child: str
    parent: str
    key: str
    most: int
    least: int = 0
    order: str | None = None
    grid: range | None = None  # waves of a panel, in the column `order`
    head: dict[str, Hashable] | None = None


@dataclass(frozen=True)
class LinkedSet:
    """Tables with the public facts about them.

    Baselines and measures leave out the columns in `aside`: they say what `nth` says. Roots with the same number in `copies` are copies of
    one record.
    """

    tables: dict[str, pd.DataFrame]
    schemas: dict[str, dict[str, Nominal | Ordinal]]
    links: tuple[Link, ...]
    aside: frozenset[str] = frozenset()
    copies: np.ndarray | None = None

    @property
    def root(self):
        return self.links[0].parent

    def columns(self, table):
        """Return the columns that count, with the number of codes of each."""
        return {name: len(kind.levels) for name, kind in self.schemas[table].items() if name not in self.aside}

    def of_roots(self, keys):
        """Return the set with these roots alone."""
        tables = {self.root: self.tables[self.root].set_index(self.links[0].key, drop=False).loc[keys].reset_index(drop=True)}
        for link in self.links:
            child = self.tables[link.child]
            tables[link.child] = child[child[link.key].isin(tables[link.parent][link.key])].reset_index(drop=True)
        return replace(self, tables=tables)


def cut(values, edges):
    """Return ordered codes: the number of edges that are not above a value."""
    return np.searchsorted(edges, values, side="right"), Ordinal(list(range(len(edges) + 1)))


def ordered(values, n_codes):
    return np.asarray(values), Ordinal(list(range(n_codes)))


def named(values, n_codes):
    return np.asarray(values), Nominal(list(range(n_codes)))


def coded(columns, **keys):
    """Return a table with keys and codes, and its schema."""
    codes, kinds = ({name: pair[place] for name, pair in columns.items()} for place in (0, 1))
    return pd.DataFrame({**keys, **codes}), kinds


def linked(tables, links, **facts):
    """Return the set of coded tables, without the rows that no link lets count."""
    frames = {name: frame for name, (frame, _) in tables.items()}
    for link in links:
        child = frames[link.child]
        child = child[child[link.key].isin(frames[link.parent][link.key])]
        child = child[child.groupby(link.key).cumcount() < link.most].reset_index(drop=True)
        if link.order == NTH:
            child[NTH] = child.groupby(link.key).cumcount()
            tables[link.child][1][NTH] = Ordinal(list(range(link.most)))
        frames[link.child] = child
    return LinkedSet(frames, {name: schema for name, (_, schema) in tables.items()}, tuple(links), **facts)


def in_order(child, parent, key, most):
    """Return the link of a history whose rows are in order: `linked` numbers them, as codes of times have many ties."""
    return Link(child, parent, key, most=most, order=NTH)


def read(name):
    return pd.read_csv(Path(os.environ["SKDPSYNTH_DATA"]) / "linked" / f"{name}.csv")


def arc():
    h, p = read("arc_household"), read("arc_person")
    household = {
        "type": named(h.type - 1, 7),
        "building": named(h.building.clip(upper=9) - 1, 9),
        "vehicles": ordered(h.vehicles.clip(upper=4), 5),
        "income": cut(h.income, [15, 30, 50, 75, 100, 150, 200]),
    }
    person = {
        "relation": (np.where(p.nth == 1, "reference", "other"), Nominal(["reference", "other"])),
        "age": cut(p.age, YEARS),
        "sex": named(p.sex - 1, 2),
        "work": named(p.work.clip(lower=0), 7),
        "hours": cut(p.hours, HOURS),
        "school": ordered(p.school.clip(lower=0), 8),
        "education": cut(p.education, [0, 2, 5, 9, 10, 13, 14]),
    }
    tables = {"household": coded(household, household_id=h.household_id), "person": coded(person, household_id=p.household_id)}
    link = Link("person", "household", "household_id", most=8, least=1, head={"relation": "reference"})
    return linked(tables, [link], aside=frozenset({"relation"}), copies=h.copy_of.to_numpy())


def semcog():
    h, p = read("semcog_household"), read("semcog_person")
    household = {
        "type": named(h.type - 1, 7),
        "cars": ordered(h.cars.clip(upper=4), 5),
        "income": cut(h.income, [10, 20, 35, 50, 75, 100, 150]),
    }
    person = {
        "age": cut(p.age, [5, 12, 18, 21, 25, 35, 45, 55, 65, 75]),
        "sex": named(p.sex - 1, 2),
        "relation": named(RELATIONS[p.relation], 8),
        "race": named(p.race - 1, 4),
        "work": named(p.work.clip(lower=0), 7),
        "hours": cut(p.hours, HOURS),
        "school": cut(p.school, [0, 1, 3, 10, 13, 15, 16]),
    }
    tables = {"household": coded(household, household_id=h.household_id), "person": coded(person, household_id=p.household_id)}
    return linked(tables, [Link("person", "household", "household_id", most=8, least=1, head={"relation": 0})])


def nafld():
    p, e = read("nafld_patient"), read("nafld_event")
    weight, _ = cut(p.bmi.fillna(0), [20, 25, 30, 35, 40])
    patient = {
        "age": cut(p.age, [30, 40, 50, 60, 70, 80]),
        "male": named(p.male, 2),
        "weight": named(np.where(p.bmi.isna(), 6, weight), 7),
        "is_case": named(p.is_case, 2),
        "died": named(p.died, 2),
        "followed": cut(p.followed, [365, 1095, 1825, 3650]),
    }
    events = sorted(set(e.event))
    gap, _ = cut(e.groupby("patient_id").day.diff().fillna(0), [1, 31, 181, 366, 731, 1461, 2922])
    event = {
        "event": named(e.event.map(events.index), len(events)),
        "gap": named(np.where(e.patient_id.duplicated(), gap, 8), 9),
        "day": cut(e.day, [-5000, -2500, -1000, -365, 0, 365, 1095, 2500]),
    }
    tables = {"patient": coded(patient, patient_id=p.patient_id), "event": coded(event, patient_id=e.patient_id)}
    return linked(tables, [in_order("event", "patient", "patient_id", most=8)], aside=frozenset({NTH}))


def wages():
    p, y = read("wage_person"), read("wage_year")
    person = {"black": named(p.black, 2), "hisp": named(p.hisp, 2), "educ": cut(p.educ, [9, 11, 12, 13, 15])}
    year = {
        "year": ordered(y.year - 1980, 8),
        "wage": cut(y.log_wage, [1, 1.3, 1.5, 1.7, 1.9, 2.2]),
        "hours": cut(y.hours, [1000, 1900, 2080, 2300, 2800]),
        "married": named(y.married, 2),
        "union": named(y.union, 2),
        "occupation": named(y.occupation - 1, 9),
        "region": named(y.region, 4),
    }
    tables = {"person": coded(person, person_id=p.person_id), "year": coded(year, person_id=y.person_id)}
    return linked(tables, [Link("year", "person", "person_id", most=8, least=8, order="year", grid=range(8))], aside=frozenset({"year"}))


def trips():
    h, p, t = read("trips_household"), read("trips_person"), read("trips_trip")
    household = {"income": cut(h.income, [20, 40, 60, 100]), "type": named(h.type.clip(0, 7), 8), "cars": ordered(h.cars.clip(0, 4), 5)}
    person = {"age": cut(p.age, [5, 12, 18, 25, 35, 50, 65]), "sex": named(p.sex - 1, 2), "kind": named(p.kind - 1, 8)}
    purposes, modes = sorted(set(t.purpose)), sorted(set(t["mode"]))
    trip = {
        "purpose": named(t.purpose.map(purposes.index), len(purposes)),
        "mode": named(t["mode"].map(modes.index), len(modes)),
        "depart": cut(t.depart, [8, 10, 13, 16, 19]),
    }
    tables = {
        "household": coded(household, household_id=h.household_id),
        "person": coded(person, person_id=p.person_id, household_id=p.household_id),
        "trip": coded(trip, person_id=t.person_id),
    }
    links = [
        Link("person", "household", "household_id", most=6, least=1),
        in_order("trip", "person", "person_id", most=8),
    ]
    return linked(tables, links, aside=frozenset({NTH}))


def made_up(n_roots=20_000, seed=0):
    """Return households of 0 to 6 persons by a known law: siblings share a belief by region, and persons of large households are young."""
    rng = np.random.default_rng(seed)
    region = rng.choice(5, n_roots, p=[0.35, 0.25, 0.2, 0.15, 0.05])
    means = rng.normal(0.4 * (region - 1.5), 1)
    beliefs = np.array([[0.7, 0.1, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1], [0.25] * 4, [0.1, 0.1, 0.2, 0.6]])
    shared = (beliefs.cumsum(axis=1)[region] < rng.random((n_roots, 1))).sum(axis=1).clip(max=3)
    household = {
        "region": named(region, 5),
        "wealth": cut(rng.normal(means, 0.5), [-1.2, -0.4, 0.3, 1.0, 1.8]),
        "home": ordered(cut(rng.normal(0.8 * means, 0.8), [-0.5, 0.8])[0], 3),
    }
    number = np.minimum(rng.poisson(np.exp(0.7 - 0.15 * means)), 6)
    of = np.repeat(np.arange(n_roots), number)
    own, z, n = rng.standard_normal(len(of)), means[of], len(of)
    person = {
        "age": cut(own + 0.8 - 0.35 * number[of], [-1.5, -0.8, -0.2, 0.4, 1.0, 1.6]),
        "sex": named(rng.integers(0, 2, n), 2),
        "belief": named(np.where(rng.random(n) < 0.9, shared[of], rng.integers(0, 4, n)), 4),
        "school": cut(rng.normal(0.9 * z + 0.8 * own, 0.5), [-1, 0, 1]),
        "sick": named((rng.random(n) < 1 / (1 + np.exp(2.0 - 0.8 * own + 0.8 * z))).astype(np.int64), 2),
    }
    tables = {"household": coded(household, household_id=np.arange(n_roots)), "person": coded(person, household_id=of)}
    return linked(tables, [Link("person", "household", "household_id", most=6)])


SETS = {"arc": arc, "semcog": semcog, "made up": made_up, "nafld": nafld, "wages": wages, "trips": trips}


def many_households(n_roots=358_000, seed=1):
    """Return ARC's households drawn with replacement: about a million persons."""
    data = arc()
    chosen = np.random.default_rng(seed).integers(0, len(data.tables["household"]), n_roots)
    household = data.tables["household"].iloc[chosen].rename(columns={"household_id": "of"}).assign(household_id=np.arange(n_roots))
    person = household[["of", "household_id"]].merge(data.tables["person"].rename(columns={"household_id": "of"}), on="of")
    return replace(data, tables={"household": household.drop(columns="of"), "person": person.drop(columns="of")}, copies=None)


def clinic(n_roots=2_000, seed=0):
    """Return patients with 0 to 8 stays by a known law: the old and the frail come more often, after fewer days, and stay longer."""
    rng = np.random.default_rng(seed)
    age, sex, frail = rng.uniform(20, 90, n_roots), rng.choice(["f", "m"], n_roots), rng.standard_normal(n_roots)
    number = np.minimum(rng.poisson(np.exp(0.6 + 0.01 * (age - 55) + 0.3 * frail)), 8)
    of = np.repeat(np.arange(n_roots), number)
    beyond = age[of] - 55
    days = np.exp(np.log(4) + 0.025 * beyond + 0.3 * frail[of] + rng.normal(0, 0.6, len(of)))
    gap = np.exp(np.log(120) - 0.02 * beyond - 0.4 * frail[of] + rng.normal(0, 0.9, len(of)))
    stay = pd.DataFrame({"patient_id": of, "days": np.clip(days, 0.1, 60), "gap": np.clip(gap, 1, 1500)})
    stay.insert(1, "nth", stay.groupby("patient_id").cumcount() + 1)
    schemas = {
        "patient": {"age": Continuous(20, 90), "sex": Nominal(["f", "m"])},
        "stay": {"nth": Ordinal(list(range(1, 9))), "days": Continuous(0, 60), "gap": Continuous(0, 1500)},
    }
    patient = pd.DataFrame({"patient_id": np.arange(n_roots), "age": age, "sex": sex})
    return LinkedSet({"patient": patient, "stay": stay}, schemas, (Link("stay", "patient", "patient_id", most=8, order="nth"),))
