"""
Survey weights
==============

A survey asked old people four times as often as others, so each of its rows has a weight. Do synthetic rows look like the population, and
how sure are their shares?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer

# %%
# A population and its survey
# ---------------------------
# A fifth of 400,000 people is old. Of 5,000 who are asked, half are.

rng = np.random.default_rng(0)
size, n = 400_000, 5_000
old = rng.random(size) < 0.2
homes = pd.DataFrame({"old": np.where(old, "yes", "no"), "rents": np.where(rng.random(size) < np.where(old, 0.2, 0.6), "yes", "no")})
homes["lives"] = np.where(rng.random(size) < np.where(old, 0.5, 0.2), "alone", "with others")
asked = np.concatenate([rng.choice(np.flatnonzero(old == part), n // 2, replace=False) for part in (True, False)])
survey = homes.iloc[asked].assign(weight=np.where(old[asked], old.sum(), (~old).sum()) // (n // 2)).reset_index(drop=True)

# %%
# The fit
# -------
# The bounds of the weights are public, and the upper one is the cap.

yes = ["no", "yes"]
schema = {"old": yes, "rents": yes, "lives": ["alone", "with others"], "weight": (30, 130)}
model = LatentFactorSynthesizer(schema, weights="weight", epsilon=1.0, delta=1e-6).fit(survey)
print(f"people, as estimated: {model.population_:,.0f}")
print(model.sample(3, random_state=0))

# %%
# What was published
# ------------------
# Shares of the population (lines) lie in the intervals of synthetic rows. Those of the survey, each row counted once, are far off.

LEVELS = {"old": "yes", "rents": "yes", "lives": "alone"}


def shares(table):
    """Return shares of three levels."""
    return [(table[name] == level).mean() for name, level in LEVELS.items()]


found = model.interval(shares, n_refits=20, random_state=0)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
places = np.arange(3)
ax.bar(places - 0.18, shares(survey), 0.3, color="0.8", label="rows of the survey")
ends = [found.estimate - found.low, found.high - found.estimate]
ax.bar(places + 0.18, found.estimate, 0.3, color="tab:blue", yerr=ends, capsize=4, label="synthetic, with 95 % intervals")
ax.hlines(shares(homes), places - 0.4, places + 0.4, color="tab:red", label="population")
ax.set_xticks(places, ["old", "rents", "lives alone"])
ax.set_ylabel("share")
ax.set_ylim(0, 0.9)
ax.legend(frameon=False, ncols=2, fontsize="small")
plt.show()
