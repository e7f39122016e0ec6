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
