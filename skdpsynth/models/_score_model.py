"""Models of strategy "scores", as published: normal latent columns, and the maps between them and the rows of a mixed table."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth.domain import Continuous, Schema
from skdpsynth.frames import concatenate
from skdpsynth.models._noisy_tables import shares_of
from skdpsynth.persistence import savable

_ROWS = 1 << 16  # of a block


@savable
@dataclass(frozen=True, eq=False)
class LatentLinks:
    """The maps between a row and its latent columns, equations (5) to (7), by private thresholds and public facts alone."""

    edge: ClassVar[float] = 4.0  # latent columns are clipped to [-edge, edge], a public choice

    schema: Schema
    thresholds: Mapping[Hashable, np.ndarray]  # of ordinal columns without missing cells; other levels have utilities

    @classmethod
    def of(cls, schema: Schema, counts: Mapping[Hashable, np.ndarray], n_samples: int | None) -> "LatentLinks":
        """Make thresholds of noisy counts of levels (of two levels that of the first, where the number of rows is public)."""
        thresholds = {}
        for name, noisy in counts.items():
            kept = np.clip(noisy, 0, n_samples).astype(float)
            kept = np.append(kept, n_samples - kept) if n_samples is not None and len(kept) == 1 else kept
            edge = 1 / (2 * max(kept.sum(), 1.0))
            thresholds[name] = ndtri(np.clip(np.cumsum(shares_of(kept))[:-1], edge, 1 - edge))
        return cls(schema, thresholds)

    @property
    def widths(self) -> list[int]:
        return [
            1 + kind.nullable if isinstance(kind, Continuous) else 1 if name in self.thresholds else kind.n_codes - 1
            for name, kind in self.schema.items()
        ]

    def latent(self, values: Sequence[np.ndarray], draw: Callable[[tuple[int, int]], np.ndarray]) -> np.ndarray:
        """Draw the latent columns of each row, within ``[-edge, edge]``.

        A row's draw is a function of the row, the released thresholds and uniform numbers of its own, which are independent of those of
        other rows. So replacing a row replaces one latent row; and where one is added, the others keep their law, and one more comes.
        """
        n_uniform = [
            2 * kind.nullable if isinstance(kind, Continuous) else 1 if name in self.thresholds else kind.n_codes
            for name, kind in self.schema.items()
        ]
        parts = [np.empty((0, sum(self.widths)))]
        for start in range(0, len(values[0]), _ROWS):
            chunk, blocks = [column[start : start + _ROWS] for column in values], []
            uniform = np.split(draw((len(chunk[0]), sum(n_uniform))), np.cumsum(n_uniform)[:-1], axis=1)
            for (name, kind), column, u in zip(self.schema.items(), chunk, uniform, strict=True):
                if isinstance(kind, Continuous):
                    missing = np.isnan(column)
                    x = np.where(missing, kind.midpoint, column)
                    blocks.append(self.edge * (2 * (x - kind.low) / (kind.high - kind.low) - 1)[:, None])
                    if kind.nullable:
                        blocks.append(_utilities(missing.astype(np.int64), u))
                elif name in self.thresholds:
                    upto = np.concatenate([[0.0], ndtr(self.thresholds[name]), [1.0]])
                    blocks.append(ndtri(upto[column] + u[:, 0] * (upto[column + 1] - upto[column]))[:, None])
                else:
                    blocks.append(_utilities(column, u))
            parts.append(np.clip(np.hstack(blocks), -self.edge, self.edge))
        return np.concatenate(parts)

    def values(self, latent: np.ndarray, scale: np.ndarray, center: np.ndarray) -> list[np.ndarray]:
        """Return the values of synthetic latent columns; `scale` and `center` standardize those with thresholds, as when drawn."""
        out, start = [], 0
        for (name, kind), width in zip(self.schema.items(), self.widths, strict=True):
            block = latent[:, start : start + width]
            if isinstance(kind, Continuous):
                unit = (np.clip(block[:, 0], -self.edge, self.edge) / self.edge + 1) / 2
                x = kind.low + unit * (kind.high - kind.low)
                x = np.clip(np.rint(x) if kind.integer else x, kind.low, kind.high)
                out.append(np.where(block[:, 1] > 0, np.nan, x) if kind.nullable else x)
            elif name in self.thresholds:
                out.append(np.searchsorted(self.thresholds[name], (block[:, 0] - center[start]) / scale[start], side="right"))
            else:
                out.append(np.where(block.max(axis=1) > 0, block.argmax(axis=1) + 1, 0))
            start += width
        return out


def _utilities(codes: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draw latent utilities of the codes but the first, equation (6): all below 0 for code 0, else the code's is largest and above 0.

    The largest of k normals, given that it is above 0, is m with Phi(m)**k uniform on (2**-k, 1); the others are normals below it. So each
    row takes k + 1 uniform numbers.
    """
    k = uniform.shape[1] - 1
    floor = 0.5**k
    largest = ndtri((floor + uniform[:, 0] * (1 - floor)) ** (1 / k))
    top = np.where(codes == 0, 0.0, largest)
    utilities = ndtri(np.maximum(uniform[:, 1:] * ndtr(top)[:, None], 1e-300))
    rows = np.flatnonzero(codes)
    utilities[rows, codes[rows] - 1] = largest[rows]
    return utilities


@savable
@dataclass(frozen=True, eq=False)
class ScoreModel:
    """Latent columns that are normal around a few factors, or come from a synthesizer, and their links."""

    links: LatentLinks
    mean: np.ndarray
    loadings: np.ndarray  # shape (n_latent, n_factors)
    residual: np.ndarray  # standard deviations beyond the factors
    synthesizer: Any = None  # a fitted one that samples latent columns, or None

    @property
    def schema(self) -> Schema:
        return self.links.schema

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        return concatenate(self.sample_blocks(n_samples, rng))

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
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
