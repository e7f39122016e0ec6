"""The published route of mixed tables, made private: thresholds, latent normal columns, private moments, scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skdpsynth.decomposition import PrivatePCA
from skdpsynth.domain import Continuous, Ordinal
from skdpsynth.privacy import DiscreteLaplace, check_epsilon, laplace_scale, split_exactly
from skdpsynth.synthesis._inner import fit_quietly, rehearse, seed_from
from skdpsynth.synthesis._low_dim import LowDimSynthesizer

_EDGE = 4.0  # latent columns are clipped to [-4, 4], a public choice
_SHARE = 0.2  # of epsilon, for thresholds
_EXPLAINED = 0.8  # of the noisy variance, by the factors: c of equation (3)


@dataclass(frozen=True, eq=False)
class LatentLinks:
    """The maps between a row and its latent columns, equations (5) to (7): private thresholds, and else public facts alone.

    Attributes
    ----------
    schema : Schema
    thresholds : dict
        Of each ordinal column that may not be missing, shape (n_levels - 1,). Other columns of levels have latent utilities, and so
        does whether a number is missing.
    """

    schema: Any
    thresholds: dict

    @classmethod
    def of(cls, schema, counts, n_samples):
        """Make thresholds of noisy counts.

        Parameters
        ----------
        schema : Schema
        counts : dict
            Of each ordinal column that may not be missing, those of its levels (of two levels: that of the first).
        n_samples : int
            Public.
        """
        thresholds = {}
        for name, noisy in counts.items():
            kept = np.clip(noisy, 0, n_samples).astype(float)
            kept = np.append(kept, n_samples - kept) if len(kept) == 1 else kept
            total = kept.sum()
            share = kept / total if total > 0 else np.full(len(kept), 1 / len(kept))
            edge = 1 / (2 * max(total, 1.0))
            thresholds[name] = ndtri(np.clip(np.cumsum(share)[:-1], edge, 1 - edge))
        return cls(schema, thresholds)

    @property
    def widths(self):
        """Number of latent columns of each column."""
        return [
            1 + kind.nullable if isinstance(kind, Continuous) else 1 if name in self.thresholds else kind.n_codes - 1
            for name, kind in self.schema.items()
        ]

    def latent(self, values, rng):
        """Draw the latent columns of each row, within ``[-4, 4]``.

        A row's draw depends on the row and the released thresholds alone, so neighbours stay neighbours.
        """
        blocks = []
        for (name, kind), column in zip(self.schema.items(), values, strict=True):
            if isinstance(kind, Continuous):
                missing = np.isnan(column)
                x = np.where(missing, kind.midpoint, column)
                blocks.append(_EDGE * (2 * (x - kind.low) / (kind.high - kind.low) - 1)[:, None])
                if kind.nullable:
                    blocks.append(_utilities(missing.astype(np.int64), 2, rng))
            elif name in self.thresholds:
                upto = np.concatenate([[0.0], ndtr(self.thresholds[name]), [1.0]])
                u = upto[column] + rng.random(len(column)) * (upto[column + 1] - upto[column])
                blocks.append(ndtri(u)[:, None])
            else:
                blocks.append(_utilities(column, kind.n_codes, rng))
        return np.clip(np.hstack(blocks), -_EDGE, _EDGE)

    def values(self, latent, scale, centre):
        """Return the values of synthetic latent columns.

        Parameters
        ----------
        latent : ndarray of shape (n_samples, n_latent)
        scale, centre : ndarray of shape (n_latent,)
            By which columns of thresholds are standardised, as they were when drawn.
        """
        out, start = [], 0
        for (name, kind), width in zip(self.schema.items(), self.widths, strict=True):
            block = latent[:, start : start + width]
            if isinstance(kind, Continuous):
                unit = (np.clip(block[:, 0], -_EDGE, _EDGE) / _EDGE + 1) / 2
                x = kind.low + unit * (kind.high - kind.low)
                x = np.clip(np.rint(x) if kind.integer else x, kind.low, kind.high)
                out.append(np.where(block[:, 1] > 0, np.nan, x) if kind.nullable else x)
            elif name in self.thresholds:
                out.append(np.searchsorted(self.thresholds[name], (block[:, 0] - centre[start]) / scale[start], side="right"))
            else:
                out.append(np.where(block.max(axis=1) > 0, block.argmax(axis=1) + 1, 0))
            start += width
        return out


def _utilities(codes, n_codes, rng):
    """Draw latent utilities of the codes but the first, equation (6): all below 0 for code 0, else the code's is largest and above 0.

    The largest of k normals, given that it is above 0, is m with Phi(m)**k uniform on (2**-k, 1); the others are normals below it.
    """
    k = n_codes - 1
    floor = 0.5**k
    largest = ndtri((floor + rng.random(len(codes)) * (1 - floor)) ** (1 / k))
    top = np.where(codes == 0, 0.0, largest)
    utilities = ndtri(np.maximum(rng.random((len(codes), k)) * ndtr(top)[:, None], 1e-300))
    rows = np.flatnonzero(codes)
    utilities[rows, codes[rows] - 1] = largest[rows]
    return utilities


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
    synthesizer : LowDimSynthesizer or None
        What samples latent columns, if it is not the normal distribution.
    """

    links: LatentLinks
    mean: np.ndarray
    loadings: np.ndarray
    residual: np.ndarray
    synthesizer: Any = None

    def sample(self, n_samples, rng):
        """Return values of columns, as `skdpsynth.domain.read` gives them."""
        if self.synthesizer is not None:
            latent = self.synthesizer.sample(n_samples, random_state=seed_from(rng))
            return self.links.values(latent, np.ones(latent.shape[1]), np.zeros(latent.shape[1]))
        scores, noise = (ndtri(rng.random((n_samples, k))) for k in (self.loadings.shape[1], len(self.mean)))
        scale = np.sqrt((self.loadings**2).sum(axis=1) + self.residual**2)
        latent = self.mean + scores @ self.loadings.T + noise * self.residual
        return self.links.values(latent, np.where(scale > 0, scale, 1.0), self.mean)


def fit_scores(values, schema, synthesizer, n_factors, accountant_of, epsilon, delta, rng):
    """Algorithms 1 to 3 with what they release made private.

    Returns
    -------
    model : ScoreModel
    marginals : dict
    part : PrivatePCA or LowDimSynthesizer
    accountant : PrivacyAccountant
    """
    ordinal = {name: i for i, (name, kind) in enumerate(schema.items()) if isinstance(kind, Ordinal) and not kind.nullable}
    first, rest = split_exactly(check_epsilon(epsilon), [_SHARE, 1 - _SHARE]) if ordinal else (None, check_epsilon(epsilon))
    n_latent = sum(LatentLinks(schema, dict.fromkeys(ordinal, ())).widths)
    bounds = (-_EDGE, _EDGE)
    part = (
        PrivatePCA(center="private", epsilon=rest, delta=delta, bounds=bounds)
        if synthesizer is None
        else LowDimSynthesizer("auto", synthesizer=synthesizer, center="private", epsilon=rest, delta=delta, bounds=bounds)
    )
    rehearse(part, n_latent, bounds)
    accountant = accountant_of()

    counts = {}
    if ordinal:
        sizes = {name: len(schema[name].levels) for name in ordinal}
        # Replacing a row moves one unit between two levels of each column: L1 sensitivity 2 a column. Of two levels one count says all, as
        # the number of rows is public: 1.
        exact = {
            name: np.bincount(values[i], minlength=sizes[name]).astype(np.int64)[: sizes[name] - (sizes[name] == 2)]
            for name, i in ordinal.items()
        }
        noise = DiscreteLaplace(laplace_scale(sum(1 if size == 2 else 2 for size in sizes.values()), first))
        noisy = accountant.release(
            np.concatenate(list(exact.values())), noise, rng.child("thresholds"), name="counts of ordinal levels", loss=first
        )
        stops = np.cumsum([len(part) for part in exact.values()])[:-1]
        counts = dict(zip(ordinal, np.split(noisy, stops), strict=True))
    links = LatentLinks.of(schema, counts, len(values[0]))
    public = np.random.default_rng(np.frombuffer(rng.child("links").bytes(32), dtype=np.uint32))
    part.set_params(accountant=accountant, random_state=rng.child("moments").random_state())
    fit_quietly(part, links.latent(values, public))
    part.set_params(random_state=None, accountant=None)
    return _model_of(links, part, n_factors), counts, part, accountant


def _model_of(links, part, n_factors):
    if isinstance(part, LowDimSynthesizer):
        none = np.zeros(0)
        return ScoreModel(links, none, np.zeros((0, 0)), none, part)
    variances = part.explained_variance_
    r = min(int(np.searchsorted(np.cumsum(part.explained_variance_ratio_), _EXPLAINED)) + 1, n_factors, len(variances))
    loadings = part.components_[:r].T * np.sqrt(variances[:r])
    residual = np.sqrt(np.maximum(np.diag(part.covariance_) - (loadings**2).sum(axis=1), 0))
    return ScoreModel(links, part.mean_, loadings, residual)
