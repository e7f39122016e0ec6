"""The sign of a component is a public rule that does not flip from fit to fit."""

import numpy as np
import pytest
from internals import with_signs
from scipy.fft import dct

from skdpsynth import PrivatePCA


def largest_entry(vectors):
    """The rule that most libraries have, for comparison."""
    at = np.argmax(np.abs(vectors), axis=1)[:, None]
    return vectors * np.sign(np.take_along_axis(vectors, at, axis=1))


def families():
    """Unit vectors as components of data are: cosines of one and two dimensions, contrasts of columns, and any."""
    rng = np.random.default_rng(0)
    waves = dct(np.eye(16), norm="ortho", axis=0)
    patches = np.kron(waves[:3, ::2], waves[:3, ::2])
    contrasts = np.zeros((20, 12))
    for row in contrasts:
        row[rng.choice(12, 2, replace=False)] = 1, -1
    anything = rng.normal(size=(40, 30))
    table = {"cosines": waves[:8], "patches": patches, "contrasts": contrasts, "random": anything}
    return {name: rows / np.linalg.norm(rows, axis=1, keepdims=True) for name, rows in table.items()}


def flips(rule, vectors, noise, n_pairs=200):
    """Share of pairs of noisy copies that the rule gives unlike signs."""
    rng = np.random.default_rng(1)
    first, second = (vectors + noise / np.sqrt(vectors.shape[1]) * rng.normal(size=(n_pairs, *vectors.shape)) for _ in range(2))
    signed = [np.concatenate([rule(copy) for copy in copies]) for copies in (first, second)]
    return np.mean(np.sum(signed[0] * signed[1], axis=1) < 0)


@pytest.mark.parametrize(("name", "most"), [("cosines", 0.01), ("patches", 0.01), ("contrasts", 0.01), ("random", 0.12)])
def test_noise_of_a_tenth_flips_few_signs(name, most):
    """At most these shares of 200 pairs of each vector; the largest entry flips .05 of random ones and .3 to .5 of the others."""
    vectors = families()[name]
    assert flips(with_signs, vectors, 0.1) <= most
    if name != "random":
        assert flips(largest_entry, vectors, 0.1) > 0.25


def test_signs_do_not_flip_from_fit_to_fit():
    """A contrast of two columns and a wave, 40 seeded fits of 3000 fresh rows: the largest entry would flip half of the first."""
    rng = np.random.default_rng(0)
    contrast, wave = np.array([1, -1, 0, 0]) / np.sqrt(2), np.array([1, 1, -1, -1]) / 2
    tables = (0.5 + rng.uniform(-1, 1, (3000, 2)) @ [0.3 * contrast, 0.2 * wave] for _ in range(40))
    fits = [PrivatePCA(2, center="public", random_state=seed).fit(X).components_ for seed, X in enumerate(tables)]
    assert all(np.sum(fit * [contrast, wave], axis=1).min() > 0.5 for fit in fits)
    assert 5 < sum(largest_entry(fit)[0] @ contrast > 0 for fit in fits) < 35


def test_signs_are_those_of_the_first_large_entry():
    vectors = np.array([[0.1, -0.3, 0.5], [-0.3, 0.1, 0.5], [0.0, 0.0, -1.0]])
    assert np.array_equal(with_signs(vectors), vectors * [[-1], [-1], [-1]])
    assert np.array_equal(with_signs(-vectors), with_signs(vectors))
