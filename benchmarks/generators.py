"""Data sets of the benchmarks: synthetic ones of every shape, and three that come with scikit-learn."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images
from sklearn.decomposition import PCA

CUBE_SETS = ("uniform", "gmm", "sparse", "manifold", "digits", "cancer")


def cube(name, n, d, seed=0):
    """Return n rows in [0, 1]^d.

    uniform; gmm: five Gaussians of deviation 0.06; sparse: twenty tight clusters; manifold: a curve; digits and cancer: the first
    d principal components of scikit-learn's tables, scaled to the cube (rows repeat beyond the table's size).
    """
    rng = np.random.default_rng(seed)
    if name == "uniform":
        return rng.random((n, d))
    if name == "gmm":
        centers = 0.2 + 0.6 * rng.random((5, d))
        return np.clip(centers[rng.integers(0, 5, n)] + 0.06 * rng.normal(size=(n, d)), 0, 1)
    if name == "sparse":
        centers = rng.random((20, d))
        return np.clip(centers[rng.integers(0, 20, n)] + 0.004 * rng.normal(size=(n, d)), 0, 1)
    if name == "manifold":
        t = rng.random(n)
        curve = np.stack([0.5 + 0.45 * np.cos((i + 1) * 2.1 * t * np.pi / 2 + i) for i in range(d)], axis=1)
        return np.clip(curve + 0.003 * rng.normal(size=(n, d)), 0, 1)
    table = (load_digits() if name == "digits" else load_breast_cancer()).data
    if name == "cancer":
        table = (table - table.mean(axis=0)) / table.std(axis=0)
    scores = PCA(d, random_state=0).fit_transform(table)
    scores = (scores - scores.min(axis=0)) / (scores.max(axis=0) - scores.min(axis=0))
    rows = rng.permutation(len(scores))[:n] if n <= len(scores) else rng.integers(0, len(scores), n)
    return scores[rows]


def low_rank(n, d, k, rng, noise=0.01):
    """Return n rows in [0, 1]^d near a k-dimensional affine subspace: six clusters in it, plus Gaussian noise."""
    loadings = rng.normal(size=(k, d))
    loadings /= np.abs(loadings).sum(axis=0)
    centers = rng.uniform(-0.8, 0.8, (6, k))
    factors = np.clip(centers[rng.integers(0, 6, n)] + 0.15 * rng.normal(size=(n, k)), -1, 1)
    return np.clip(0.5 + 0.5 * factors @ loadings + noise * rng.standard_normal((n, d)), 0, 1)


def planar(n, d, rng, shift=0.0):
    """Return n rows in [0, 1]^d near a plane: uniform on a rectangle in it, plus Gaussian noise.

    The rectangle lies about a point that is `shift` (at most 0.48) from the midpoint in every column, in a random direction each.
    """
    frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    z = rng.uniform(-1, 1, (n, 2)) * [1, 0.6]
    reach = np.max(np.abs(frame[:, 0]) + 0.6 * np.abs(frame[:, 1]))
    noise = rng.normal(0, 0.01, (n, d))
    center = 0.5 + shift * rng.choice([-1, 1], d)
    return np.clip(center + (0.48 - shift) * z @ frame.T / reach + noise, 0, 1)


def disc(n, d, rng):
    """Return n rows of R^d, uniform on the unit disc of a plane through 0: within the ball of radius 1."""
    frame = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    angle = rng.uniform(0, 2 * np.pi, n)
    return (np.sqrt(rng.random(n)) * [np.cos(angle), np.sin(angle)]).T @ frame.T


def spiked(n, d, spikes, noise, rng):
    """Return n Gaussian rows of R^d of covariance U diag(spikes) U' + noise^2 I, and U, random and orthonormal, of shape (d, spikes)."""
    frame = np.linalg.qr(rng.normal(size=(d, len(spikes))))[0]
    rows = noise * rng.standard_normal((n, d))
    rows += (rng.standard_normal((n, len(spikes))) * np.sqrt(spikes)) @ frame.T
    return rows, frame


def survey(n, seed=0):
    """Return n answers to 33 questions, a column a list, and of each the number of its levels.

    Three grades, whole numbers from 0 to 20, follow one ability, with correlations of .84 to .9. The others have 2 to 5 levels in turn;
    three of them follow the ability a little.
    """
    rng = np.random.default_rng(seed)
    ability, columns, n_levels = rng.standard_normal(n), {}, {}

    def answer(weight):
        return weight * ability + np.sqrt(1 - weight**2) * rng.standard_normal(n)

    for number, weight in enumerate((0.90, 0.94, 0.96), start=1):
        columns[f"grade_{number}"] = np.clip(np.rint(11 + 3.5 * answer(weight)), 0, 20).astype(int)
        n_levels[f"grade_{number}"] = 21
    for number in range(30):
        size, weight = 2 + number % 4, {0: 0.35, 4: -0.25, 8: 0.2}.get(number, 0.0)
        latent, cuts = answer(weight), np.sort(rng.normal(0, 0.7, size - 1))
        columns[f"q{number:02}"], n_levels[f"q{number:02}"] = np.digitize(latent, cuts), size
    return columns, n_levels


def words_on_factors(n, n_columns, seed=0):
    """Columns on three normal factors, with noise of their own: one of four words and one of numbers in turn.

    Returns a frame, and of each column of words, these in the order of the factors: an order that is another in each, and that nobody is
    told.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(3, n_columns)) / np.sqrt(3)
    Z = rng.normal(size=(n, 3)) @ loadings + rng.normal(size=(n, n_columns))
    columns, orders = {}, {}
    for j in range(n_columns):
        if j % 2:
            columns[j] = np.clip(Z[:, j], -4, 4)
            continue
        orders[j] = rng.permutation(["ash", "elm", "oak", "pine"])
        columns[j] = orders[j][np.searchsorted([-1, 0, 1], Z[:, j])]
    return pd.DataFrame(columns), orders


def patches():
    """Return the gray 8 x 8 patches of a photograph that comes with scikit-learn: 265,860 rows of 64 columns, from 0 to 255."""
    gray = load_sample_images().images[0].mean(axis=2)
    return np.lib.stride_tricks.sliding_window_view(gray, (8, 8)).reshape(-1, 64)
