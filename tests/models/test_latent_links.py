"""The maps between rows and latent columns of the published route."""

import numpy as np
from internals import LatentLinks
from laws import ALARM, kolmogorov
from scipy import stats

from skdpsynth.domain import Ordinal, Schema


def test_a_row_that_comes_leaves_the_draws_of_those_before_it():
    """Each row has numbers of its own, in the order of the rows: also beyond the rows that are drawn at once."""
    schema = Schema({0: Ordinal([0, 1]), 1: [0, 1, 2], 2: (0.0, 1.0)})
    links = LatentLinks.of(schema, {0: np.array([3, 4])}, None)
    levels = np.arange(70_001)
    values = [levels % 2, levels % 3, np.zeros(70_001)]
    latent = links.latent(values, np.random.default_rng(0).random)
    for n in (0, 1, 65_536, 70_000):
        np.testing.assert_array_equal(links.latent([column[:n] for column in values], np.random.default_rng(0).random), latent[:n])


def test_thresholds_of_a_private_number_of_rows_follow_from_the_counts_of_levels():
    schema = Schema({0: Ordinal([0, 1]), 1: Ordinal([0, 1, 2])})
    links = LatentLinks.of(schema, {0: np.array([300, 100]), 1: np.array([-5, 50, 50])}, None)
    np.testing.assert_allclose(stats.norm.cdf(links.thresholds[0]), [0.75])
    np.testing.assert_allclose(stats.norm.cdf(links.thresholds[1]), [1 / 200, 0.5])


def test_latent_columns_lie_in_their_public_box_and_have_the_laws_of_the_equations():
    """Of 200,000 rows some would leave [-4, 4]: normal scores of thresholds, and utilities of which the largest is the level's."""
    links = LatentLinks.of(Schema({0: Ordinal([0, 1]), 1: [0, 1, 2], 2: (0.0, 1.0)}), {0: np.array([100_000])}, 200_000)
    levels = np.arange(200_000)
    values = [levels % 2, levels % 3, np.full(200_000, 1e9).clip(0, 1)]
    latent = links.latent(values, np.random.default_rng(0).random)
    assert np.abs(latent).max() == 4
    assert kolmogorov(latent[:, 0], "norm") > ALARM
    np.testing.assert_array_equal(latent[:, 0] > 0, values[0] == 1)
    np.testing.assert_array_equal(np.where(latent[:, 1:3].max(axis=1) > 0, latent[:, 1:3].argmax(axis=1) + 1, 0), values[1])
    assert set(latent[:, 3]) == {4}
