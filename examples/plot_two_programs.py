"""
Two programs, one budget
========================

Two teams work on one table, in programs that know nothing of each other. Both name the same ledger, so the second is told what the first
has spent, at the moment it asks. Here both run at once, and together they ask for more than there is.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdpsynth import PrivacyAccountant

# %%
# Two processes that spend as fast as they can
# --------------------------------------------
# Each fits models of epsilon 0.1 until the ledger refuses.

PROGRAM = """
import sys
import numpy as np
from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism
from skdpsynth.exceptions import BudgetExceededError

X = np.load(sys.argv[1])
budget = PrivacyAccountant.at(sys.argv[2], note=sys.argv[3])
while True:
    try:
        PrivateMeasureMechanism(epsilon=0.1, accountant=budget, bounds=(0, 1)).fit(X)
    except BudgetExceededError as refused:
        print(f"{sys.argv[3]}: {refused}")
        break
"""

folder = tempfile.TemporaryDirectory()
table, ledger = Path(folder.name) / "table.npy", Path(folder.name) / "budget.db"
np.save(table, np.random.default_rng(0).beta(2, 5, size=(5000, 2)))
PrivacyAccountant(epsilon=3.0, ledger=ledger, dataset="a table of two teams")

command = [sys.executable, "-c", PROGRAM, str(table), str(ledger)]
teams = [subprocess.Popen([*command, team], stdout=subprocess.PIPE, text=True) for team in ("north", "south")]
for team in teams:
    print(team.communicate()[0].strip())

# %%
# What was spent
# --------------
# Thirty models in all, never one more, whoever came first.

frame = PrivacyAccountant.at(ledger).to_frame()
print(PrivacyAccountant.at(ledger))
print(frame.groupby("note")["epsilon"].agg(["count", "sum"]).round(6))

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for row, team in enumerate(("north", "south")):
    places = np.flatnonzero(frame["note"] == team)
    ax.scatter(places + 1, np.full(len(places), row), s=70, color=f"C{row}", label=team)
ax.set(yticks=[0, 1], yticklabels=["north", "south"], xlabel="number of the line in the ledger", ylim=(-0.6, 1.6))
ax.set_title("Who was charged when, until epsilon 3 was spent", loc="left", fontsize=10)
ax.spines[["top", "right", "left"]].set_visible(False)
folder.cleanup()
plt.show()
