"""
Areas in areas
==============

A census office wants to publish people of 40 tracts in 5 counties, as rows. Do the rows of a county add up to its count, how far off is the
count of a tract, and do incomes still differ from county to county?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import AreaSynthesizer
from skdpsynth.domain import Hierarchy

# %%
# A census
# --------
# 60,000 people in tracts of very different sizes. The tree of areas is public.

rng = np.random.default_rng(0)
n, counties = 60_000, ["Alder", "Birch", "Cedar", "Dogwood", "Elm"]
tree = {county: [f"{county} {number}" for number in range(1, 9)] for county in counties}
shares = rng.lognormal(0, 0.8, 40)
place = rng.choice(40, n, p=shares / shares.sum())
tract = np.array([name for names in tree.values() for name in names])[place]
age = np.clip(rng.normal(32 + 3 * (place // 8), 20), 0, 99).astype(int)
people = pd.DataFrame(
    {
        "tract": tract,
        "sex": rng.choice(["f", "m"], n),
        "age": np.array(["0-17", "18-64", "65+"])[np.digitize(age, [18, 65])],
        "income": np.where(age < 18, 0, np.clip(rng.gamma(3, 8 + 3 * (place // 8)), 0, 200)),
    }
)

# %%
# The fit
# -------
# Counts of each area by sex and age group get most of the budget; incomes follow a model, with an area of the level `groups` in it.

schema = {"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"], "income": (0.0, 200.0)}
places = Hierarchy(["county", "tract"], tree)
model = AreaSynthesizer(schema, places, by=["sex", "age"], groups="county", epsilon=1.0, delta=1e-6).fit(people)
synthetic = model.sample()
in_rows = synthetic["tract"].value_counts().reindex(places.areas[-1])
print("rows of each tract are its released count:", bool((in_rows.to_numpy() == model.counts_["tract"].sum(axis=(1, 2))).all()))

# %%
# What was published
# ------------------
# Left: people of a tract aged 65 or more, by sex, with intervals of 95 %. Middle: the mean absolute error of a count on each level, beside
# that of the noisy counts of tracts as they were released, summed up. Right: mean incomes of grown people, by county.


def true_counts(level):
    """Count people of each area by sex and age group."""
    areas = people["tract"] if level == "tract" else people["tract"].str.split(" ").str[0]
    names = places.areas[places.levels.index(level)]
    cells = pd.MultiIndex.from_product([names, schema["sex"], schema["age"]])
    return people.groupby([areas, "sex", "age"]).size().reindex(cells, fill_value=0).to_numpy().reshape(len(names), 2, 3)


fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
exact, released = true_counts("tract")[:, :, 2].ravel(), model.counts_["tract"][:, :, 2].ravel()
errors = 1.96 * np.repeat(model.counts_errors_["tract"], 2) + 0.5
axes[0].errorbar(exact, released, errors, fmt=".", color="#1f5fa8", elinewidth=0.8)
axes[0].axline((0, 0), slope=1, color="0.6", linewidth=0.8)
axes[0].set(title="65 or more in a tract", xlabel="people", ylabel="released count")

summed = {"county": model.noisy_counts_["tract"].reshape(5, 8, 2, 3).sum(axis=1), "tract": model.noisy_counts_["tract"]}
for offset, (name, counts, color) in enumerate([("released", model.counts_, "#1f5fa8"), ("noisy tracts, summed", summed, "#b0782b")]):
    heights = [np.abs(counts[level] - true_counts(level)).mean() for level in places.levels]
    bars = axes[1].bar(np.arange(2) + 0.4 * offset - 0.2, heights, 0.38, color=color, label=name)
    axes[1].bar_label(bars, fmt="%.1f")
axes[1].set(title="error of a count", ylabel="people", ylim=(0, axes[1].get_ylim()[1] * 1.3))
axes[1].set_xticks(range(2), places.levels)
axes[1].legend(frameon=False)

for offset, (name, rows, color) in enumerate([("real", people, "0.75"), ("synthetic", synthetic, "#1f5fa8")]):
    grown = rows[rows["age"] != "0-17"]
    means = grown["income"].groupby(grown["tract"].str.split(" ").str[0]).mean()
    axes[2].bar(np.arange(5) + 0.4 * offset - 0.2, means, 0.38, color=color, label=name)
axes[2].set(title="income of grown people", ylabel="thousands")
axes[2].set_xticks(range(5), counties)
axes[2].legend(frameon=False)
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
