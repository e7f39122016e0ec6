"""The maps between rows and latent columns of the published route."""

import numpy as np
from scipy import stats

from skdpsynth.domain import Ordinal, Schema
from skdpsynth.models import LatentLinks


def test_latent_columns_lie_in_their_public_box_and_have_the_laws_of_the_equations():
    """Of 200,000 rows some would leave [-4, 4]: normal scores of thresholds, and utilities of which the largest is the level's."""
    links = LatentLinks.of(Schema({0: Ordinal([0, 1]), 1: [0, 1, 2], 2: (0.0, 1.0)}), {0: np.array([100_000])}, 200_000)
    levels = np.arange(200_000)
    values = [levels % 2, levels % 3, np.full(200_000, 1e9).clip(0, 1)]
    latent = links.latent(values, np.random.default_rng(0))
    assert np.abs(latent).max() == 4
    assert stats.kstest(latent[:, 0], "norm").pvalue > 1e-4
    np.testing.assert_array_equal(latent[:, 0] > 0, values[0] == 1)
    np.testing.assert_array_equal(np.where(latent[:, 1:3].max(axis=1) > 0, latent[:, 1:3].argmax(axis=1) + 1, 0), values[1])
    assert set(latent[:, 3]) == {4}
