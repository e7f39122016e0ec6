"""
Patients with several visits
============================

In a table of visits a patient has many rows. A promise to *rows* hides one visit; whoever came forty times is hardly hidden by it. So
say whose row it is: then one epsilon protects all visits of a patient together. What does that cost?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.metrics import wasserstein_distance

warnings.simplefilter("ignore", SmallSampleWarning)

# %%
# A clinic
# --------
# 4,000 patients. Most come once or twice a year, those with a chronic disease up to twelve times; they are older.

rng = np.random.default_rng(0)
n_patients = 4000
chronic = rng.random(n_patients) < 0.15
n_visits = np.where(chronic, rng.integers(6, 13, n_patients), rng.integers(1, 3, n_patients))
age = np.clip(rng.normal(np.where(chronic, 68, 42), 14), 18, 99)
patient = np.repeat(np.arange(n_patients), n_visits)
visits = pd.DataFrame({"patient_id": patient, "age": age[patient]}).sample(frac=1, random_state=0, ignore_index=True)
print(f"{len(visits)} visits of {n_patients} patients, at most {n_visits.max()} each")

# %%
# How many visits of each may count?
# ----------------------------------
# Few: those who come often are heard too little. Many: the noise grows with them. The number must not be read off private rows; a clinic
# that invites its patients at most once a month knows that twelve is the most. Points are means of ten fits, bars their standard deviation.

bounds, spread = {"age": (18, 99)}, {}
for k in (1, 2, 4, 8, 12):
    model = PrivateMeasureMechanism(epsilon=1.0, bounds=bounds, neighboring="add_or_remove_one", max_rows_per_unit=k)
    errors = []
    for _ in range(10):
        synthetic = model.fit(visits, unit="patient_id").sample(20_000)
        errors.append(wasserstein_distance(visits[["age"]], synthetic))
    spread[k] = np.array(errors)
rows = PrivateMeasureMechanism(epsilon=1.0, bounds=bounds, neighboring="add_or_remove_one").fit(visits[["age"]])
of_rows = wasserstein_distance(visits[["age"]], rows.sample(20_000))

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ks = list(spread)
means = [spread[k].mean() for k in ks]
by_patient = "one epsilon for all visits of a patient"
ax.errorbar(range(len(ks)), means, [spread[k].std() for k in ks], fmt="o-", capsize=3, color="#1f5fa8", label=by_patient)
ax.axhline(of_rows, color="#b0782b", ls="--", label="one epsilon for each visit: no promise to patients")
ax.set(xticks=range(len(ks)), xticklabels=ks, xlabel="visits of a patient that count", ylabel="distance of the ages (years)", ylim=0)
ax.legend(frameon=False, fontsize=9, loc="upper right")
ax.spines[["top", "right"]].set_visible(False)

# %%
# What the ledger says
# --------------------
# Whom each line protects, and how far the rows of one patient may move what was released.

frame = model.accountant_.to_frame()
print(frame[["name", "unit", "epsilon", "noise", "sensitivity"]].to_string(index=False))
plt.show()
