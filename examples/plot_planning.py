"""
Planning before spending
========================

What does epsilon 1 mean for my table? A clinic has 8,000 patients and has spent nothing yet. From its code book alone, `plan` simulates
tables of that size, fits the synthesizer to them at several epsilons, with and without a delta, and measures how far off the synthetic
tables are. No patient's row is read.
"""

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Ordinal
from skdpsynth.model_selection import plan

schema = {
    "age": (18, 99),
    "smokes": ["never", "former", "current"],
    "stage": Ordinal(["none", "mild", "moderate", "severe"]),
    "pressure": Continuous(60.0, 220.0, nullable=True),
    "readmitted": [False, True],
}
settings = {"deltas": [0, 1e-6], "n_repeats": 5, "time_limit": 600, "n_jobs": 2}  # all five tables, on a slow machine too
expected = plan(LatentFactorSynthesizer(schema), n_samples=8_000, random_state=0, **settings)
print(expected)
figure = expected.plot()

# %%
# How much epsilon do I need?
# ---------------------------
# The board wants shares of rows, read off any two columns, to be right within six percent. A delta of one in a million makes that cheaper.

for delta in (0, 1e-6):
    epsilon = expected.smallest_epsilon(0.06, delta=delta)
    print(f"delta={delta:g}: epsilon of about {epsilon:.2g}")

# %%
# Let the rows say when it is enough
# ----------------------------------
# A plan knows made-up rows, not these. `fit_to_error` starts with a small epsilon, and grows it until what was released says that the error
# is small enough. All rounds together cost the cap, which is charged first. These patients are made up.

import numpy as np
import pandas as pd

from skdpsynth.model_selection import fit_to_error

rng = np.random.default_rng(0)
age = rng.normal(58, 17, 8_000).clip(18, 99).round()
ill = rng.random(8_000) < age / 130
stage = np.minimum(rng.poisson(0.3 + ill), 3)
patients = pd.DataFrame(
    {
        "age": age,
        "smokes": rng.choice(schema["smokes"], 8_000, p=[0.5, 0.3, 0.2]),
        "stage": np.array(["none", "mild", "moderate", "severe"])[stage],
        "pressure": rng.normal(105 + 0.4 * age, 18).clip(60, 220),
        "readmitted": rng.random(8_000) < 0.1 + 0.2 * ill,
    }
)
found = fit_to_error(LatentFactorSynthesizer(schema, delta=1e-6), patients, target=0.06, max_epsilon=2)
print(found)
