"""
A register of residents, released
=================================

A statistical office keeps a register of households and persons. Researchers ask for microdata, and the law forbids to give away any
household. This is the whole way, on a made-up register: facts that are public, a rehearsal to choose epsilon, a budget in a file, one fit,
a look inside, the files that go out, and intervals for those who use them. The page :doc:`A register, from schema to intervals </agency>`
says who decides what.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LinkedTablesSynthesizer, PrivacyAccountant, load
from skdpsynth.domain import LinkedSchema
from skdpsynth.metrics import marginal_total_variation
from skdpsynth.report import card

HERE = Path(__file__).parent if "__file__" in globals() else Path()
FACTS = HERE / "register.yaml"
folder = tempfile.TemporaryDirectory()
office, outside = Path(folder.name, "office"), Path(folder.name, "outside")  # what stays, and what is published
office.mkdir()
outside.mkdir()

# Published by the office each year: the number of households by place.
HOUSEHOLDS = {"Altstadt": 7000, "Hafen": 5000, "Nordfeld": 4000, "Bergdorf": 2500, "Seedorf": 1500}
PLACES = list(HOUSEHOLDS)
n = sum(HOUSEHOLDS.values())

# %%
# A made-up register
# ------------------
# Couples, children and others; activity follows age, and income follows activity, age, sex, place and what a household shares.


def register(rng):
    """Tables of households and persons, as the office holds them."""
    place = rng.permutation(np.repeat(PLACES, list(HOUSEHOLDS.values())))
    rural = np.isin(place, ["Bergdorf", "Seedorf"])
    head_age = np.clip(rng.normal(np.where(rural, 54, 48), 17), 18, 98).astype(int)
    has_partner = rng.random(n) < np.select([head_age < 28, head_age < 75], [0.3, 0.62], 0.42)
    n_children = rng.binomial(3, np.where(has_partner, 0.42, 0.13) * ((head_age > 24) & (head_age < 64)))
    size = 1 + has_partner + n_children + (rng.random(n) < 0.06) * rng.integers(1, 4, n)
    house = np.repeat(np.arange(n), size)
    m, nth = len(house), np.arange(len(house)) - np.searchsorted(house, house)
    roles = [nth == 0, (nth == 1) & has_partner[house], nth < (1 + has_partner + n_children)[house]]
    relation = np.select(roles, ["reference", "partner", "child"], "other")
    head = head_age[house]
    ages = [head, np.clip(head + rng.normal(-1, 4, m), 16, 100), np.clip(head - rng.uniform(20, 40, m), 0, None)]
    age = np.select(roles, ages, rng.integers(18, 95, m)).astype(int)
    is_female = (rng.random(n) < 0.42)[house] ^ (relation == "partner")
    is_female = np.where(nth < 1 + has_partner[house], is_female, rng.random(m) < 0.5)
    u, at_harbor = rng.random(m), (place == "Hafen")[house]
    stages = [age < 15, (age < 25) & (u < 0.7 - 0.05 * (age - 15)), (age > 65) | ((age > 60) & (u < 0.3))]
    stages += [u < 0.05 + 0.04 * at_harbor, u < 0.17 + 0.06 * is_female]
    activity = np.select(stages, ["minor", "student", "retired", "unemployed", "other"], "employed")
    usual = {"minor": 0, "student": 5000, "retired": 21_000, "unemployed": 13_000, "other": 7000, "employed": 38_000}
    shared = pd.Series(place).map(dict(zip(PLACES, [0.08, -0.12, 0, -0.05, 0.22], strict=True))) + rng.normal(0, 0.25, n)
    career = (activity == "employed") * (0.012 * (np.clip(age, 20, 55) - 38) - 0.18 * is_female)
    income = pd.Series(activity).map(usual) * np.exp(shared.to_numpy()[house] + career + rng.normal(0, 0.4, m))
    owned = rng.random(n) < np.clip(0.15 + 0.008 * (head_age - 25) + 0.25 * rural + 0.15 * has_partner, 0, 0.95)
    key = 100_000 + rng.permutation(n)
    sex = np.where(is_female, "female", "male")
    cells = {
        "relation": relation,
        "sex": sex,
        "age": age,
        "activity": activity,
        "income": income.round(-2).clip(0, 150_000).where(age >= 15),
    }
    household = pd.DataFrame({"household_id": key, "place": place, "dwelling": np.where(owned, "owned", "rented")})
    return {"household": household, "person": pd.DataFrame({"household_id": key[house], **cells})}


tables = register(np.random.default_rng(0))
print(f"{n:,} households, {len(tables['person']):,} persons")

# %%
# Does the register fit what is public?
# -------------------------------------
# ``register.yaml`` says what law, forms and published tables say. A register has its mistakes: here a place is written otherwise, and two
# persons are left of a household that moved away. A fit would count them in silence, so the office looks before, and mends.

raw = {name: table.copy() for name, table in tables.items()}
raw["household"].loc[:30, "place"] = raw["household"].loc[:30, "place"].str.upper()
raw["person"].loc[:1, "household_id"] = 1
schema = LinkedSchema.from_yaml(FACTS)
for name, findings in schema.check(raw).items():
    print(f"{name}: {findings}")

# %%
# Which epsilon? A rehearsal
# --------------------------
# The same fit on a made-up register of the same size shows what each epsilon buys, before anything is spent. Made-up rows must not be
# made of real ones: these come from the same lines of code, with another seed. The office wants incomes by place within some 3 %.


def median_income(tables):
    """Median income of households by place."""
    income = tables["person"].groupby("household_id")["income"].sum()
    household = tables["household"].set_index("household_id")
    return income.groupby(household["place"].astype(str).reindex(income.index)).median()[PLACES]


rehearsed, errors = register(np.random.default_rng(1)), {}
for epsilon in (0.1, 0.3, 1):
    trial = LinkedTablesSynthesizer(schema, epsilon=epsilon, delta=1e-6).fit(rehearsed).sample()
    off = (median_income(trial) / median_income(rehearsed) - 1).abs().mean()
    pairs = marginal_total_variation(
        rehearsed["person"].drop(columns="household_id"), trial["person"].drop(columns="household_id"), schema.schemas["person"]
    )
    errors[epsilon] = off, pairs
    print(f"epsilon {epsilon:<4} median incomes off by {off:.1%}, pairs of columns of persons by {pairs:.3f}")

# %%
# One budget, one fit
# -------------------
# The privacy officer decides on the total for this register, once; it lies in a file, and refuses what would exceed it.

budget = PrivacyAccountant(epsilon=2.0, delta=1e-5, ledger=office / "budget.db", dataset="register of residents, 2026")
model = LinkedTablesSynthesizer(schema, epsilon=1.0, delta=1e-6, accountant=budget).fit(tables)
print(budget)
try:
    LinkedTablesSynthesizer(schema, epsilon=2.0, delta=1e-6, accountant=budget).fit(tables)
except ValueError as refused:
    print("Refused:", refused)

# %%
# A look inside
# -------------
# This reads the register: it is for the office only.

print(model.evaluate(tables))

# %%
# What goes out
# -------------
# Two files of rows, the facts, a card, the ledger, and the model, from which anybody draws more rows or intervals. The number of
# households by place is published anyway, so the files keep it: more are drawn, and the first so many of each place stay.

drawn = model.sample(5 * n // 4)
nth = drawn["household"].groupby("place").cumcount()
kept = drawn["household"][nth < drawn["household"]["place"].map(HOUSEHOLDS)]
synthetic = {"household": kept, "person": drawn["person"][drawn["person"]["household_id"].isin(kept["household_id"])]}
for name, table in synthetic.items():
    table.to_csv(outside / f"{name}.csv", index=False)
(outside / "register.yaml").write_text(FACTS.read_text(encoding="utf-8"), encoding="utf-8")
released = sorted(outside.glob("*.csv"))  # their names and hashes stand on the card
card(model, title="Synthetic register of residents, 2026", files=released).save(outside / "card.html")
budget.to_frame().to_csv(outside / "ledger.csv", index=False)
model.save(outside / "register.skdp")
print(*sorted(f"{path.name:15} {path.stat().st_size / 1000:8,.0f} kB" for path in outside.iterdir()), sep="\n")
print(kept["place"].value_counts().to_dict() == HOUSEHOLDS)

# %%
# How sure is a number? A user's view
# -----------------------------------
# From here on only published files are read. A statistic of the files alone has no error bar: a textbook one would leave out the noise.
# The model has one, at no cost of privacy.


def wanted(tables):
    """Median income of households by place; people who live alone; minors who live with nobody employed."""
    person = tables["person"]
    size = person.groupby("household_id")["age"].transform("size")
    works = (person["activity"] == "employed").groupby(person["household_id"]).transform("any")
    minors = person["activity"] == "minor"
    return median_income(tables).to_dict() | {"live alone": (size == 1).mean(), "minors, nobody works": (~works[minors]).mean()}


published = load(outside / "register.skdp")
found = published.interval(wanted, n_refits=8, n_samples=n)
truth = wanted(tables)
for name, estimate, low, high in zip(found.names, found.estimate, found.low, found.high, strict=True):
    form = "{:,.0f}" if name in PLACES else "{:.1%}"
    print(f"{name:21}", *(form.format(number).rjust(8) for number in (estimate, low, high)), "   register:", form.format(truth[name]))

# %%
# What the files are not for
# --------------------------
# Small groups, and what persons of one household have in common in detail: the office compares, and says so beside the files.


def details(tables):
    """Median difference of ages within couples, and the number of unemployed in the smallest place."""
    person = tables["person"].join(tables["household"].set_index("household_id")["place"], on="household_id").set_index("household_id")
    partner, reference = (person.loc[person["relation"] == name, "age"] for name in ("partner", "reference"))
    unemployed = (person["place"] == "Seedorf") & (person["activity"] == "unemployed")
    return f"ages within couples differ by {(partner - reference).abs().median():.0f} years, {unemployed.sum()} are unemployed in Seedorf"


print("register: ", details(tables))
print("synthetic:", details(synthetic))

# %%
# The picture
# -----------
# Left: residents by age, as the register and the published files have them. Middle: what each epsilon would cost in accuracy, from the
# rehearsal. Right: what a user says about incomes, and the truth, which the user cannot see.

figure, (ages, choice, incomes) = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained", width_ratios=(1.15, 0.85, 1.1))
edges, real, made = np.arange(0, 105, 5), "#6b7280", "#1f5fa8"
for sex, side in (("male", -1), ("female", 1)):
    for source, color in ((synthetic, made), (tables, real)):
        rows = source["person"]
        counts = side * np.histogram(rows.loc[rows["sex"].astype(str) == sex, "age"], edges)[0]
        if source is synthetic:
            ages.barh(edges[:-1], counts, height=4.4, align="edge", color=color, alpha=0.55, label="synthetic" if side > 0 else None)
        else:
            ages.stairs(counts, edges, orientation="horizontal", color=color, lw=1.6, baseline=None, label="register" if side > 0 else None)
ages.axvline(0, color="white", lw=1)
ages.xaxis.set_major_formatter(lambda x, _: f"{abs(x):,.0f}")
ages.set(title="Residents by age", ylabel="age", xlabel="men                    women", ylim=(0, 100))
ages.legend(frameon=False, fontsize=9, loc="upper right")

offs = 100 * np.array([off for off, _ in errors.values()])
choice.plot(list(errors), offs, "o-", color=made)
choice.axhline(3, color="0.6", lw=1, ls="--")
choice.annotate("wanted: 3 %", (0.1, 3), xytext=(0, 4), textcoords="offset points", color="0.4", fontsize=9)
choice.set(title="Rehearsal: which epsilon?", xlabel="epsilon", ylabel="error of median incomes by place (%)", xscale="log", ylim=0)
choice.set_xticks(list(errors), [f"{epsilon:g}" for epsilon in errors])
choice.minorticks_off()

at = np.arange(len(PLACES))[::-1]
low, estimate, high = (np.array(each[: len(PLACES)]) / 1000 for each in (found.low, found.estimate, found.high))
incomes.errorbar(estimate, at, xerr=(estimate - low, high - estimate), fmt="o", color=made, capsize=3, label="published: 95 % interval")
incomes.plot([truth[name] / 1000 for name in PLACES], at, "D", color=real, mfc="white", ms=6, label="register")
incomes.set(title="Median income of households", xlabel="thousand a year", yticks=at, yticklabels=PLACES, ylim=(-0.6, 5.4))
incomes.legend(frameon=False, fontsize=9, loc="upper right")
for ax in (ages, choice, incomes):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
folder.cleanup()
