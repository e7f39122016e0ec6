"""
Patients with their stays in time
=================================

A hospital has a table of patients and a table of their stays. Do synthetic patients have histories: stays that do not overlap, wards that
follow one another as in life, and short gaps after a hard stay? One epsilon protects a patient with all stays.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LinkedTablesSynthesizer
from skdpsynth.domain import Children

# %%
# A hospital
# ----------
# 20,000 patients with up to six stays. Who was in intensive care mostly goes to the surgical ward next, and comes back soon.

rng = np.random.default_rng(0)
n, wards = 20_000, np.array(["medical", "surgical", "intensive"])
follows = np.array([[0.7, 0.2, 0.1], [0.25, 0.65, 0.1], [0.1, 0.75, 0.15]])  # the next ward, by the ward
mean_gap, mean_days = np.array([200, 150, 25]), np.array([5, 8, 12])
age = np.clip(rng.normal(60, 17, n), 18, 99).astype(int)
n_stays = np.clip(rng.poisson(np.where(age > 65, 2.2, 1.0)), 0, 6)
ward, free, stays = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.integers(0, 400, n), []
for number in range(6):
    who = np.flatnonzero(n_stays > number)
    days = rng.geometric(1 / mean_days[ward[who]])
    stays.append(pd.DataFrame({"patient_id": who, "admitted": free[who], "days": days, "ward": wards[ward[who]]}))
    free[who] += days + rng.geometric(1 / mean_gap[ward[who]])
    ward[who] = (rng.random((len(who), 1)) > follows[ward[who]].cumsum(axis=1)).sum(axis=1)
stay = pd.concat(stays, ignore_index=True)
start = pd.Timestamp("2020-01-01")
stay["admitted"], stay["discharged"] = (start + pd.to_timedelta(stay["admitted"] + more, unit="D") for more in (0, stay.pop("days")))
tables = {"patient": pd.DataFrame({"patient_id": np.arange(n), "sex": rng.choice(["f", "m"], n), "age": age}), "stay": stay}
print(f"{len(stay)} stays of {n} patients")

# %%
# What is public, and the fit
# ---------------------------
# `order` and `until` say that stays are a history. Lengths of stays and gaps between them are modeled, so stays do not overlap.

dates = ("2020-01-01", "2024-12-31")
schemas = {
    "patient": {"sex": ["f", "m"], "age": (18, 99)},
    "stay": {"admitted": dates, "discharged": dates, "ward": [*wards]},
}
links = [Children("stay", of="patient", key="patient_id", most=6, order="admitted", until="discharged")]
model = LinkedTablesSynthesizer(schemas, links=links, epsilon=2.0, delta=1e-6).fit(tables)
synthetic = model.sample()
print(synthetic["stay"].head(6).to_string(index=False))
print("Unit of the ledger:", model.accountant_.ledger[0].unit)

# %%
# Histories of people who do not exist
# ------------------------------------
# Left: the stays of twelve synthetic patients. Middle and right: the ward of a stay, and the share of each ward in the next one.

colors = dict(zip(wards, ["#1f5fa8", "#b0782b", "#a8321f"], strict=True))


def next_wards(stay):
    """The share of each ward after a stay, by the ward of the stay."""
    stay = stay.sort_values(["patient_id", "admitted"])
    follows = stay["patient_id"].shift(-1) == stay["patient_id"]
    return pd.crosstab(stay["ward"][follows], stay["ward"].shift(-1)[follows], normalize="index").loc[wards, wards]


fig, (left, *others) = plt.subplots(1, 3, figsize=(11, 3.6), width_ratios=(1.6, 1, 1), layout="constrained")
drawn = synthetic["stay"]
often = drawn["patient_id"].value_counts()
for line, patient in enumerate(often.index[often >= 3][:12]):
    for _, row in drawn[drawn["patient_id"] == patient].iterrows():
        length = max(row["discharged"] - row["admitted"], pd.Timedelta(days=14))  # shorter ones are hard to see
        left.barh(line, length, left=row["admitted"], color=colors[row["ward"]], height=0.6)
left.legend([plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()], colors, loc="upper right", fontsize=8)
left.set(title="stays of twelve synthetic patients", ylabel="patient", yticks=[])
years = range(2020, 2025)
left.set(xticks=[pd.Timestamp(f"{year}-01-01") for year in years], xticklabels=years, ylim=(-1, 14))
for ax, (name, each) in zip(others, {"real": stay, "synthetic": drawn}.items(), strict=True):
    shares = next_wards(each)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (i, j), share in np.ndenumerate(shares.to_numpy()):
        ax.text(j, i, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.5 else "black")
    ax.set(title=name, xlabel="next ward", xticks=range(3), xticklabels=wards, yticks=range(3), yticklabels=wards)

# %%
# The gap after a stay
# --------------------
# Its median in days, by the ward of the stay, and how many stays begin before the last one has ended.

for name, each in {"real": stay, "synthetic": drawn}.items():
    each = each.sort_values(["patient_id", "admitted"])
    later = each.shift(-1)[each["patient_id"].shift(-1) == each["patient_id"]]
    gaps = (later["admitted"] - each.loc[later.index, "discharged"]).dt.days
    print(f"{name:>10}:", gaps.groupby(each["ward"]).median().loc[wards].to_dict(), "overlaps:", int((gaps < 0).sum()))
plt.show()
