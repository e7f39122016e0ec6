"""The sign of a component is a public rule that does not flip from fit to fit."""

import numpy as np
from internals import fix_signs

from skdpsynth import PrivatePCA


def largest_entry(vectors):
    """The rule that most libraries have, for comparison."""
    at = np.argmax(np.abs(vectors), axis=1)[:, None]
    return vectors * np.sign(np.take_along_axis(vectors, at, axis=1))


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
    assert np.array_equal(fix_signs(vectors), vectors * [[-1], [-1], [-1]])
    assert np.array_equal(fix_signs(-vectors), fix_signs(vectors))
