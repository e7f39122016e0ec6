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

lines = np.arange(len(frame) + 1)
north, south = ([0, *np.cumsum(frame["epsilon"].where(frame["note"] == team, 0.0))] for team in ("north", "south"))
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.stackplot(lines, north, south, labels=["north", "south"], colors=["#1f5fa8", "#b0782b"], step="pre", linewidth=0)
ax.axhline(3.0, color="#a4262c", lw=1)
ax.text(0.3, 3.05, "the budget of both", color="#a4262c", va="bottom")
ax.set(xlabel="models in the ledger", ylabel="epsilon spent", xlim=(0, lines[-1]), ylim=(0, 3.4))
ax.legend(frameon=False, loc="center left", reverse=True)
ax.spines[["top", "right"]].set_visible(False)
folder.cleanup()
plt.show()
