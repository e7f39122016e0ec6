"""
What a private measure looks like
=================================

A picture for a lecture. `PrivateMeasureMechanism` cuts the box into cells, counts, adds noise and repairs the counts; synthetic rows are
drawn from the cells. The more rows times epsilon, the finer the cells. The rows are made up, so they may be shown. Each
picture is of one fit.
"""

# sphinx_gallery_thumbnail_number = 2

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdpsynth import PrivateMeasureMechanism, SignedMeasureMechanism
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.plotting import MeasureDisplay

warnings.simplefilter("ignore", SmallSampleWarning)  # that epsilon 0.05 is little for so few rows is what the first panel shows
rng = np.random.default_rng(7)
turn = rng.uniform(0.3, 2 * np.pi, 2000)
X = 0.5 + 0.065 * turn[:, None] * np.column_stack([np.cos(2 * turn), np.sin(2 * turn)]) + rng.normal(0, 0.02, (2000, 2))
X = np.clip(X, 0, 1)

# %%
# Cells follow epsilon
# --------------------
# One scale for all three: the darkest blue is a density of 12 and more. Uniform rows would have 1.

epsilons = (0.05, 0.5, 5)
figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
axes[0].scatter(*X.T, s=2, color="0.4")
axes[0].set(title="2,000 rows (private)", xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="column 0", ylabel="column 1")
for ax, epsilon in zip(axes[1:], epsilons, strict=True):
    model = PrivateMeasureMechanism(epsilon=epsilon, bounds=(0, 1)).fit(X)
    MeasureDisplay.from_estimator(model).plot(ax, title=f"epsilon {epsilon:g}: {model.measure_.n_cells} cells", vmax=12)

# %%
# A signed measure, and the nearest probability measure
# -----------------------------------------------------
# `SignedMeasureMechanism` takes another way: noisy counts of equal cells are a measure with negative weights, and a linear program finds
# the probability measure nearest to it. What was released is ``signed_measure_``; what rows are drawn from is ``measure_``.

model = SignedMeasureMechanism(n_cells=400, epsilon=0.5).fit(X)
MeasureDisplay.from_estimator(model).plot(title=f"Epsilon 0.5, distance {model.solution_.value:.3f}, gap {model.solution_.gap:.1g}")
print(f"{np.sum(model.signed_measure_ < 0)} of {len(model.signed_measure_)} cells were negative; of the nearest measure none is.")

# %%
# One column
# ----------
# The same on a line, where the density has a height that can be read off.

model = SignedMeasureMechanism(epsilon=0.5, bounds=(0, 1)).fit(X[:500, :1])
MeasureDisplay.from_estimator(model).plot(title="One column of 500 rows, epsilon 0.5")
