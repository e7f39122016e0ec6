"""
Private PCA before a classifier
===============================

Does a private PCA cost accuracy downstream? `PrivatePCA` drops into a Pipeline, and its number of components into a grid
search, like scikit-learn's own. The data are scikit-learn's digits: 1797 images of 8 x 8 pixels, with public bounds 0 to 16.

What is private here: the components. What is **not**: the classifier, which is an ordinary one, the projected training rows, and the scores
of a search, which read the data unprotected.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth import PrivatePCA

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)


def pipeline(reducer):
    """PCA, then logistic regression."""
    return Pipeline([("pca", reducer), ("scale", StandardScaler()), ("classify", LogisticRegression())])


# %%
# Accuracy against epsilon
# ------------------------

warnings.simplefilter("ignore", UserWarning)  # the ends of the curve are extreme: mere noise, and a poor promise
epsilons = (0.3, 1, 3, 10, 30, 100)
curves = {}
for delta, label in ((0.0, "pure"), (1e-5, "delta = 1e-5")):
    scores = [
        [pipeline(PrivatePCA(6, epsilon=e, delta=delta, bounds=(0, 16))).fit(X_train, y_train).score(X_test, y_test) for _ in range(5)]
        for e in epsilons
    ]
    curves[label] = np.array(scores)
reference = pipeline(PCA(6)).fit(X_train, y_train).score(X_test, y_test)

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (label, curve), color, marker in zip(curves.items(), ("#b0782b", "#1f5fa8"), "so", strict=True):
    ax.fill_between(epsilons, curve.min(axis=1), curve.max(axis=1), color=color, alpha=0.18, linewidth=0)
    ax.plot(epsilons, curve.mean(axis=1), marker=marker, color=color, label=f"PrivatePCA, {label}: mean and range of 5 fits")
ax.axhline(reference, color="0.4", linestyle="--", label="PCA, not private")
ax.set(xscale="log", xlabel="epsilon of the PCA", ylabel="test accuracy", ylim=(0, 1))
ax.set_title("Digits: 6 private components, then a logistic regression that is not private", fontsize=9)
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)

# %%
# Searching the number of components
# ----------------------------------
# Each of the fits below spends epsilon on its fold, and the scores are unprotected reads of the data: a search like this one is for
# data that you may look at.

search = GridSearchCV(pipeline(PrivatePCA(epsilon=3, delta=1e-5, bounds=(0, 16))), {"pca__n_components": [2, 10, 20]}, cv=3)
search.fit(X_train, y_train)
best = search.best_params_["pca__n_components"]
same = pipeline(PCA(best)).fit(X_train, y_train).score(X_test, y_test)
print(f"best: {best} components, test accuracy {search.score(X_test, y_test):.3f}; PCA with as many, not private: {same:.3f}")
print(f"the refitted PCA spent epsilon {float(search.best_estimator_['pca'].accountant_.spent):.6f}, with delta 1e-5")
