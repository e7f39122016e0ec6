"""
Households with their persons
=============================

A survey has a table of households and a table of persons. Do synthetic persons live in households that make sense: a spouse of like age,
children a generation younger, one language at the table? One epsilon protects a household with all of its persons.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LinkedTablesSynthesizer
from skdpsynth.domain import AtMost, Children, Compared

# %%
# A survey
# --------
# 30,000 households. Each has one householder, and up to five more persons. In most, all speak the language of the household.

rng = np.random.default_rng(0)
n = 30_000
region, speaks = rng.choice(["north", "south"], n, p=[0.4, 0.6]), rng.choice(["German", "Turkish", "Polish"], n, p=[0.7, 0.2, 0.1])
head_age = np.clip(rng.normal(50, 16, n), 18, 95).astype(int)
has_spouse = rng.random(n) < 0.55
n_children = np.where((head_age > 22) & (head_age < 62), rng.choice(4, n, p=[0.35, 0.25, 0.3, 0.1]), 0)
house = np.repeat(np.arange(n), 1 + has_spouse + n_children)
place = np.arange(len(house)) - np.searchsorted(house, house)
relation = np.select([place == 0, (place == 1) & has_spouse[house]], ["householder", "spouse"], "child")
years = {"householder": 0, "spouse": rng.normal(-1, 4, len(house)), "child": -rng.uniform(20, 40, len(house))}
age = head_age[house] + np.select([relation == name for name in years], list(years.values()))
language = np.where(rng.random(len(house)) < 0.92, speaks[house], "German")
household = pd.DataFrame({"household_id": np.arange(n), "region": region, "rooms": np.clip(n_children + rng.integers(1, 5, n), 1, 8)})
person = pd.DataFrame({"household_id": house, "relation": relation, "age": np.clip(age, 0, 99).astype(int), "language": language})
tables = {"household": household, "person": person}
print(f"{len(person)} persons in {n} households")

# %%
# What is public, and the fit
# ---------------------------
# A household has at least one person, and six of each count. `head`: exactly one person of each household is its householder.
# `rules`: at most one is the spouse, and children are younger than the householder.

schemas = {
    "household": {"region": ["north", "south"], "rooms": (1, 8)},
    "person": {"relation": ["householder", "spouse", "child"], "age": (0, 99), "language": ["German", "Turkish", "Polish"]},
}
links = [Children("person", of="household", key="household_id", most=6, least=1, head={"relation": "householder"})]
rules = [
    AtMost(1, {"relation": "spouse"}, table="person"),
    Compared("person.age", "<", "person.head.age", where={"relation": "child"}),
]
model = LinkedTablesSynthesizer(schemas, links=links, rules=rules, epsilon=2.0, delta=1e-6).fit(tables)
synthetic = model.sample()
print(synthetic["person"].head(6).to_string(index=False))
print("Unit of the ledger:", model.accountant_.ledger[0].unit)

# %%
# Do households hold together?
# ----------------------------
# Left and middle: the age of a person beside that of the householder. Spouses are one band, children the other. With fewer households, or
# a smaller epsilon, the bands are coarser. Right: how many pairs of persons of a household speak one language; the last bar is of
# households that are made of persons at random.


def with_householder(tables):
    """Each other person beside the householder."""
    others = tables["person"][tables["person"]["relation"] != "householder"]
    heads = tables["person"][tables["person"]["relation"] == "householder"].set_index("household_id")["age"]
    return heads[others["household_id"]].to_numpy(), others["age"].to_numpy()


def one_language(person):
    """The share of pairs of persons of one household that speak one language."""
    counts = person.groupby("household_id")["language"].value_counts().to_numpy()
    sizes = person["household_id"].value_counts().to_numpy()
    return (counts * (counts - 1)).sum() / (sizes * (sizes - 1)).sum()


fig, axes = plt.subplot_mosaic([["real", "synthetic", "language"]], figsize=(11, 3.6), width_ratios=(1, 1, 0.8), layout="constrained")
for name, each in {"real": tables, "synthetic": synthetic}.items():
    ax = axes[name]
    ax.hist2d(*with_householder(each), bins=[np.arange(18, 99, 3), np.arange(0, 99, 3)], cmap="Blues", density=True, vmax=0.0012)
    ax.set(title=f"{name} households", xlabel="age of the householder", ylabel="age of another person")
shuffled = person.assign(language=rng.permutation(person["language"]))
shares = {"real": one_language(person), "synthetic": one_language(synthetic["person"]), "at random": one_language(shuffled)}
bars = axes["language"].bar(list(shares), list(shares.values()), color=["#1f5fa8", "#b0782b", "0.8"], width=0.6)
axes["language"].bar_label(bars, fmt="%.2f")
axes["language"].set(title="pairs of a household\nthat speak one language", ylim=(0, 1))
axes["language"].spines[["top", "right"]].set_visible(False)

# %%
# All figures
# -----------
# The report reads the real tables: it is for the holder of the data only.

print(model.evaluate(tables))
plt.show()
