"""
Choosing a hyper-parameter within one epsilon
=============================================

How many directions should synthetic data keep? `PrivateSearchCV` fits every candidate on a part of the rows, asks the others privately
which fits best, and fits that one again: all for one epsilon. The scores it shows carry noise, and say how much; the choice is made with
noise of its own. So where bars overlap, the lowest point need not be the chosen one. A million rows make the bars short; more rows or a
larger epsilon shorten them further.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpsynth import LowDimSynthesizer
from skdpsynth.model_selection import PrivateSearchCV

rng = np.random.default_rng(0)
n, d = 1_000_000, 10
frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
X = np.clip(0.5 + 0.8 * rng.uniform(-1, 1, (n, 2)) @ frame.T / 2 + 0.01 * rng.normal(size=(n, d)), 0, 1)

dimensions = [1, 2, 3, 4, 6]
search = PrivateSearchCV(LowDimSynthesizer(bounds=(0, 1)), {"n_components": dimensions}, epsilon=2.0).fit(X)
print(f"chosen: {search.best_params_}, spent: epsilon {float(search.accountant_.spent):g} of 2")
for entry in search.accountant_.ledger:
    print(f"  {entry.name}: {entry.loss}")

distance, noise = -search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"]
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.errorbar(dimensions, distance, yerr=noise, fmt="o-", color="#1f5fa8", capsize=3, label="noisy score, and the deviation of its noise")
ax.plot(search.best_params_["n_components"], distance[search.best_index_], "o", ms=13, mfc="none", color="#b0782b", label="chosen")
ax.set(xlabel="number of components d'", ylabel="distance to held-out rows", title=f"{n:,} rows near a plane, epsilon 2 in all")
ax.set_xticks(dimensions)
ax.set_ylim(bottom=0)
ax.legend(frameon=False, loc="upper center")
ax.spines[["top", "right"]].set_visible(False)
