"""
Choosing the dimension of a low-dimensional synthesizer
=======================================================

How many directions should synthetic data keep? Too few lose shape; too many spread the same privacy budget over more cells. The data lie
near a plane in ten columns. `GridSearchCV` compares dimensions by `score`, minus the W1 distance to held-out rows, and
``n_components="auto"`` decides without it, from noisy eigenvalues alone.

The scores of this search read the data unprotected. Choose with public or historical data, let "auto" choose, or use `PrivateSearchCV`,
which protects the whole search by one epsilon.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from skdpsynth import LowDimSynthesizer

rng = np.random.default_rng(0)
n, d = 20_000, 10
frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
X = np.clip(0.5 + 0.8 * rng.uniform(-1, 1, (n, 2)) * [1, 0.6] @ frame.T / 2 + 0.01 * rng.normal(size=(n, d)), 0, 1)

dimensions = [1, 2, 3, 4, 6]
search = GridSearchCV(LowDimSynthesizer(epsilon=1.0, bounds=(0, 1)), {"n_components": dimensions}, cv=4).fit(X)
distance, spread = -search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"]
auto = LowDimSynthesizer(epsilon=1.0, bounds=(0, 1)).fit(X)
print(f"search: {search.best_params_}; auto: {auto.n_components_} at no extra cost (epsilon {float(auto.accountant_.spent):g} in all)")

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
label = "mean and standard deviation over four folds"
ax.errorbar(dimensions, distance, yerr=spread, fmt="o-", color="#1f5fa8", capsize=3, label=label)
ax.axvline(auto.n_components_, color="#b0782b", linestyle="--", label=f'n_components="auto": {auto.n_components_}')
ax.set(
    xlabel="number of components d'",
    ylabel="W1 to held-out rows, units of the data",
    title="Data near a plane, 20,000 x 10, epsilon 1",
    xticks=dimensions,
)
ax.set_ylim(bottom=0)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
