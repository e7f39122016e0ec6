"""
Pictures of a release
=====================

What can you show of a private release? The synthetic rows, what they cost, and what the models learned: all of that is public, and
`skdpsynth.plotting` draws it. Only a picture that is given real rows is not private, and it says so. The patients here are made up.
"""

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivatePCA
from skdpsynth.domain import Continuous, Date, Ordinal, Schema
from skdpsynth.plotting import BudgetDisplay, PrivatePCADisplay, StreamDisplay, SynthesisDisplay

rng = np.random.default_rng(0)
n = 10_000
age = np.clip(rng.normal(58, 17, n), 18, 99).astype(int)
risk = (age - 58) / 17 + rng.normal(0, 1, n)
pressure = np.where(rng.random(n) < 0.12, np.nan, 118 + 9 * risk + rng.normal(0, 9, n))
patients = pd.DataFrame(
    {
        "age": age,
        "pressure": pressure,
        "stage": np.array(["none", "mild", "severe"])[np.digitize(risk, [0, 1.5])],
        "admitted": pd.Timestamp("2025-01-01") + pd.to_timedelta((365 * rng.beta(2, 1.2, n)).astype(int), "D"),
        "readmitted": rng.random(n) < 1 / (1 + np.exp(2.2 - 1.1 * risk)),
    }
)
schema = Schema(
    {
        "age": (18, 99),
        "pressure": Continuous(60.0, 220.0, nullable=True),
        "stage": Ordinal(["none", "mild", "severe"]),
        "admitted": Date("2025-01-01", "2025-12-31"),
        "readmitted": [False, True],
    }
)

# %%
# Synthetic patients: every column, with what is missing
# ------------------------------------------------------

budget = PrivacyAccountant(epsilon=3.0, delta=1e-6, dataset="patients of 2025")
model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-7, accountant=budget).fit(patients)
display = SynthesisDisplay.from_samples(model.sample(random_state=0), schema)
display.plot(title="Synthetic patients, epsilon 1")

# %%
# Pairs of columns, and how strongly columns depend on each other
# ---------------------------------------------------------------

display.plot(kind="pairs")
display.plot(kind="correlations", title="Associations of synthetic patients")

# %%
# For your eyes only: beside the real rows
# ----------------------------------------

SynthesisDisplay.from_samples(model.sample(random_state=0), schema, patients).plot()

# %%
# What it cost
# ------------
# A second release under the same budget: principal components of thirty measurements. Those above the noise edge are more than noise.

directions = np.linalg.qr(rng.normal(size=(30, 3)))[0]
measured = np.clip(0.5 + rng.normal(size=(n, 3)) * [0.12, 0.08, 0.05] @ directions.T + 0.005 * rng.normal(size=(n, 30)), 0, 1)
pca = PrivatePCA(n_components="auto", noise="gaussian", epsilon=1.0, delta=1e-7, accountant=budget, bounds=(0, 1)).fit(measured)
BudgetDisplay.from_accountant(budget).plot(title="Patients of 2025")
PrivatePCADisplay.from_estimator(pca).plot(title="Thirty measurements: which components are more than noise?")

# %%
# A stream along time
# -------------------
# Each block was released when it ended. What lies in the open one waits.

waiting_times = np.clip(rng.gamma(4, 0.05, 30_000) + 0.2 * np.sin(np.linspace(0, 3, 30_000)), 0, 1)
stream = OnlineSynthesizer(epsilon=1.0, bounds=(0, 1))
frame = pd.DataFrame({"waiting time (days)": waiting_times})
for start in range(0, len(frame), 500):
    stream.partial_fit(frame[start : start + 500])
StreamDisplay.from_estimator(stream, random_state=0).plot(title="Waiting times, epsilon 1 for all blocks")
