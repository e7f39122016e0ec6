"""Maps between the rows of a mixed table and normal latent columns, as the published route has them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth._state_validation import is_array, require
from skdpsynth.domain import Continuous, Schema
from skdpsynth.persistence import savable

_ROWS = 1 << 16  # that are drawn at once


class Uniforms(Protocol):
    """What makes independent uniform numbers of [0, 1), as a numpy Generator does."""

    def random(self, shape: tuple[int, int]) -> Any:
        """Return an array of them."""


@savable
@dataclass(frozen=True, eq=False)
class LatentLinks:
    """The maps between a row and its latent columns, equations (5) to (7): private thresholds, and else public facts alone.

    Attributes
    ----------
    schema : Schema
    thresholds : dict
        Of each ordinal column that may not be missing, shape (n_levels - 1,). Other columns of levels have latent utilities, and so
        does whether a number is missing.
    edge : float
        Latent columns are clipped to ``[-edge, edge]``, a public choice.
    """

    edge: ClassVar[float] = 4.0

    schema: Schema
    thresholds: Mapping[Hashable, np.ndarray]

    def _check_loaded(self) -> None:
        for name, thresholds in self.thresholds.items():
            require(is_array(thresholds, "f", self.schema[name].n_codes - 1) and np.all(np.diff(thresholds) >= 0))

    @classmethod
    def of(cls, schema: Schema, counts: Mapping[Hashable, np.ndarray], n_samples: int | None) -> "LatentLinks":
        """Make thresholds of noisy counts.

        Parameters
        ----------
        schema : Schema
        counts : dict
            Of each ordinal column that may not be missing, those of its levels (of two levels that of the first, where the number of rows
            is public).
        n_samples : int or None
            Public. None: the counts tell how many rows there are.
        """
        thresholds = {}
        for name, noisy in counts.items():
            kept = np.clip(noisy, 0, n_samples).astype(float)
            kept = np.append(kept, n_samples - kept) if n_samples is not None and len(kept) == 1 else kept
            total = kept.sum()
            share = kept / total if total > 0 else np.full(len(kept), 1 / len(kept))
            edge = 1 / (2 * max(total, 1.0))
            thresholds[name] = ndtri(np.clip(np.cumsum(share)[:-1], edge, 1 - edge))
        return cls(schema, thresholds)

    @property
    def widths(self) -> list[int]:
        """Number of latent columns of each column."""
        return [
            1 + kind.nullable if isinstance(kind, Continuous) else 1 if name in self.thresholds else kind.n_codes - 1
            for name, kind in self.schema.items()
        ]

    def latent(self, values: Sequence[np.ndarray], rng: Uniforms) -> np.ndarray:
        """Draw the latent columns of each row, within ``[-edge, edge]``.

        A row's draw is a function of the row, the released thresholds and numbers of its own, which are independent of those of other
        rows. So replacing a row replaces one latent row; and where one is added, the others keep the law that they had, and one more comes.

        Parameters
        ----------
        values : list of ndarray of shape (n_samples,)
        rng : object with ``random``
            A numpy Generator, or whatever else makes independent uniform numbers.
        """
        parts = [np.empty((0, sum(self.widths)))]
        for start in range(0, len(values[0]), _ROWS):
            part = [column[start : start + _ROWS] for column in values]
            parts.append(self._latent(part, rng.random((len(part[0]), sum(self._n_uniform)))))
        return np.concatenate(parts)

    @property
    def _n_uniform(self) -> list[int]:
        """How many uniform numbers each column of a row takes."""
        return [
            2 * kind.nullable if isinstance(kind, Continuous) else 1 if name in self.thresholds else kind.n_codes
            for name, kind in self.schema.items()
        ]

    def _latent(self, values: Sequence[np.ndarray], uniform: np.ndarray) -> np.ndarray:
        blocks, own = [], np.split(uniform, np.cumsum(self._n_uniform)[:-1], axis=1)
        for (name, kind), column, u in zip(self.schema.items(), values, own, strict=True):
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
        return np.clip(np.hstack(blocks), -self.edge, self.edge)

    def values(self, latent: np.ndarray, scale: np.ndarray, center: np.ndarray) -> list[np.ndarray]:
        """Return the values of synthetic latent columns.

        Parameters
        ----------
        latent : ndarray of shape (n_samples, n_latent)
        scale, center : ndarray of shape (n_latent,)
            By which columns of thresholds are standardised, as they were when drawn.
        """
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
    """Make latent utilities of the codes but the first, equation (6): all below 0 for code 0, else the code's is largest and above 0.

    The largest of k normals, given that it is above 0, is m with Phi(m)**k uniform on (2**-k, 1); the others are normals below it. So
    each row takes k + 1 uniform numbers.
    """
    k = uniform.shape[1] - 1
    floor = 0.5**k
    largest = ndtri((floor + uniform[:, 0] * (1 - floor)) ** (1 / k))
    top = np.where(codes == 0, 0.0, largest)
    utilities = ndtri(np.maximum(uniform[:, 1:] * ndtr(top)[:, None], 1e-300))
    rows = np.flatnonzero(codes)
    utilities[rows, codes[rows] - 1] = largest[rows]
    return utilities
