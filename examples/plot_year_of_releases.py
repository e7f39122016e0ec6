"""
A year of releases
==================

A health office publishes synthetic patients and a few principal directions of its registry every month. The registry changes little
from month to month, so all twelve months speak of the same people and share one budget. How far does it go?
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpsynth import PrivacyAccountant, PrivatePCA
from skdpsynth.exceptions import BudgetExceededError

# %%
# One budget for the year
# -----------------------
# It is made once, in a file. Each month another program opens it by its name; here all of them are one loop. A month may cost epsilon
# 0.5: what remains of the year is told by the file, not by a note on somebody's desk.

rng = np.random.default_rng(0)
directions = np.linalg.qr(rng.normal(size=(30, 3)))[0]
folder = tempfile.TemporaryDirectory()
ledger = Path(folder.name) / "registry.db"
PrivacyAccountant(epsilon=2.0, delta=1e-6, ledger=ledger, dataset="registry 2026")

months, spent = [], []
for month in range(1, 13):
    patients = np.clip(0.5 + 0.1 * rng.normal(size=(20_000, 3)) @ directions.T + 0.02 * rng.normal(size=(20_000, 30)), 0, 1)
    year = PrivacyAccountant.at(ledger, note=f"month {month}")
    try:
        PrivatePCA(3, noise="gaussian", epsilon=0.5, delta=1e-7, accountant=year, bounds=(0, 1)).fit(patients)
    except BudgetExceededError as refused:
        print(f"Month {month}: {refused}")
        break
    months.append(month)
    spent.append(float(year.spent))

# %%
# What they cost together
# -----------------------
# The noise of all fits is Gaussian, and what such fits lose adds up by squares. Added as epsilons the budget would have been used up
# after four months.

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(months, 0.5 * np.array(months), "o--", color="0.6", label="sum of the epsilons")
ax.plot(months, spent, "o-", color="#1f5fa8", label="what the ledger counts")
ax.axhline(2.0, color="#a4262c", lw=1)
ax.text(12.4, 2.05, "the budget of the year", color="#a4262c", ha="right", va="bottom")
ax.set(xlabel="month", ylabel="epsilon spent", ylim=(0, 6.3), xticks=range(1, 13), xlim=(0.5, 12.5))
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.93))
ax.spines[["top", "right"]].set_visible(False)

# %%
# What the ledger says
# --------------------
# A line a month, with the note of its program. The column ``epsilon`` says what each added.

frame = PrivacyAccountant.at(ledger).to_frame()
print(frame[["note", "name", "epsilon"]].round(3).to_string(index=False))

# %%
# And what somebody could learn of one patient from all that was published:

print(PrivacyAccountant.at(ledger).risk(fpr=0.01))
folder.cleanup()
plt.show()
