"""What strategy "scores" keeps of a table: latent normal columns, and how they become cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._state_validation import is_array, require
from skdpsynth.frames import concatenate_batches
from skdpsynth.models._column_blocks import shares_of
from skdpsynth.models._latent_links import LatentLinks
from skdpsynth.persistence import savable

_EXPLAINED = 0.8  # of the noisy variance, by the factors: c of equation (3)
_ROWS = 1 << 16  # of a block


@savable
@dataclass(frozen=True, eq=False)
class ScoreModel:
    """LatentLinks, and normal latent columns near a few factors; or a synthesizer of latent columns.

    Attributes
    ----------
    links : LatentLinks
    mean : ndarray of shape (n_latent,)
    loadings : ndarray of shape (n_latent, n_factors)
    residual : ndarray of shape (n_latent,)
        Standard deviations beyond the factors.
    synthesizer : fitted synthesizer or None
        What samples latent columns, if it is not the normal distribution.
    """

    links: LatentLinks
    mean: np.ndarray
    loadings: np.ndarray
    residual: np.ndarray
    synthesizer: Any = None

    def _check_loaded(self) -> None:
        n_latent = sum(self.links.widths) if self.synthesizer is None else 0
        require(is_array(self.mean, "f", n_latent) and is_array(self.residual, "f", n_latent))
        require(is_array(self.loadings, "f", n_latent, -1))
        require(self.residual.min(initial=0) >= 0)

    @classmethod
    def of_moments(
        cls, links: LatentLinks, mean: np.ndarray, components: np.ndarray, variances: np.ndarray, covariance: np.ndarray, most_factors: int
    ) -> "ScoreModel":
        """Keep as many principal components as hold 80 % of the variance, at most so many, as factors, equation (3).

        Parameters
        ----------
        links : LatentLinks
        mean : ndarray of shape (n_latent,)
        components : ndarray of shape (n_components, n_latent)
        variances : ndarray of shape (n_components,)
            Along the components, the largest first.
        covariance : ndarray of shape (n_latent, n_latent)
        most_factors : int
        """
        r = min(int(np.searchsorted(np.cumsum(shares_of(variances)), _EXPLAINED)) + 1, most_factors, len(variances))
        loadings = components[:r].T * np.sqrt(variances[:r])
        residual = np.sqrt(np.maximum(np.diag(covariance) - (loadings**2).sum(axis=1), 0))
        return cls(links, mean, loadings, residual)

    @classmethod
    def of_synthesizer(cls, links: LatentLinks, synthesizer: Any) -> "ScoreModel":
        """Let a fitted synthesizer sample the latent columns."""
        none = np.zeros(0)
        return cls(links, none, np.zeros((0, 0)), none, synthesizer)

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them; `n_jobs` is ignored."""
        return concatenate_batches(self.sample_blocks(n_samples, rng))

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        if self.synthesizer is not None:
            seed = np.random.RandomState(rng.integers(2**32, size=8, dtype=np.uint32))
            for latent in self.synthesizer.sample_batches(n_samples, _ROWS, random_state=seed):
                yield self.links.values(latent, np.ones(latent.shape[1]), np.zeros(latent.shape[1]))
            return
        scale = np.sqrt((self.loadings**2).sum(axis=1) + self.residual**2)
        scale = np.where(scale > 0, scale, 1.0)
        for start in range(0, n_samples, _ROWS):
            n_rows = min(_ROWS, n_samples - start)
            scores, noise = (ndtri(rng.random((n_rows, k))) for k in (self.loadings.shape[1], len(self.mean)))
            yield self.links.values(self.mean + scores @ self.loadings.T + noise * self.residual, scale, self.mean)
