"""Strategy "scores" of mixed tables, the published route made private: thresholds, latent normal columns, private moments."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator, clone

from skdpsynth._validation import short_repr
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.domain import Box, Continuous, Ordinal, Schema, keys_of, ties_of
from skdpsynth.fitting import Budget, Facts, Plan, check_part, fit_part
from skdpsynth.frames import Rows, concatenate
from skdpsynth.models import shares_of
from skdpsynth.persistence import savable
from skdpsynth.privacy import Mechanism, RandomBits, mechanism
from skdpsynth.statistics import Thresholds
from skdpsynth.synthesis._low_dim import LowDimSynthesizer

_EXPLAINED = 0.8  # of the noisy variance, by the factors: c of equation (3)
_ROWS = 1 << 16  # of a block
_SHARE = 0.2  # of epsilon, for thresholds
_MOST_LATENT = 1 << 11  # latent columns: moments of so many take about ten seconds, of twice as many a minute
_MOST_VALUES = 1 << 29  # of latent rows: 4 GiB


@dataclass(frozen=True, kw_only=True)
class ScoresPlan(Plan):
    """The noise of thresholds, and the inner estimator that learns the latent rows."""

    schema: Schema
    n_samples: int | None  # None: private, so the part releases it
    thresholds: Mechanism | None  # None: no column has thresholds
    part: Any  # unfitted PrivatePCA or LowDimSynthesizer
    part_facts: Facts


class ScoresStrategy:
    """Algorithms 1 to 3 of Zhang, Xu, Tang and Qu (2024), made private."""

    n_factors = 8  # usual

    def check(self, synthesizer: BaseEstimator, schema: Schema) -> None:
        for name in ("prior", "stratify"):
            if (value := getattr(synthesizer, name)) is not None:
                raise ValueError(f"{name} must be None for strategy='scores', got {short_repr(value)}; use strategy='marginals'.")
        if ties_of(schema.whole, schema.rules) or keys_of(schema.rules, schema.whole):
            raise ValueError("schema must have no rules but those that compute columns for strategy='scores'; use strategy='marginals'.")

    def plan(self, synthesizer: BaseEstimator, facts: Facts, schema: Schema) -> ScoresPlan:
        """Share epsilon between thresholds and moments; refuse what the inner estimator refuses, and what would take too long."""
        sizes = _threshold_columns(schema)
        n_latent = sum(LatentLinks(schema, dict.fromkeys(sizes, np.zeros(0))).widths)
        n_samples = facts.n_samples or 1
        if n_latent > _MOST_LATENT or n_latent * n_samples > _MOST_VALUES:
            raise ValueError(
                f"schema makes {n_latent} latent columns of {n_samples} rows for strategy='scores', and up to {_MOST_LATENT} columns and "
                f"{_MOST_VALUES} values are practical; merge levels, or use strategy='marginals'."
            )
        noise, rest = None, facts.epsilon
        if sizes:
            first, second = facts.share.pure.split([_SHARE, 1 - _SHARE])
            noise, rest = mechanism(Thresholds.sensitivity(facts.neighboring, list(sizes.values())), first), second.epsilon
        edge = np.full(n_latent, LatentLinks.edge)
        inner = synthesizer.synthesizer
        part = PrivatePCA(center="private") if inner is None else LowDimSynthesizer(synthesizer=inner, center="private")
        part_facts = facts.part(epsilon=rest, n_features=n_latent, box=Box(-edge, edge), schema=None)
        spends_delta = check_part(part, part_facts).spends_delta
        if facts.n_samples is not None:
            facts.told.extend(part_facts.told)
        return ScoresPlan(spends_delta, schema=schema, n_samples=facts.n_samples, thresholds=noise, part=part, part_facts=part_facts)

    def fitted_attributes(self, synthesizer: BaseEstimator, rows: Rows, plan: ScoresPlan, budget: Budget) -> dict[str, object]:
        """Run Algorithms 1 to 3 with private releases; return the fitted attributes.

        In either relation a row is counted in one level of each ordinal column, and, given the thresholds, has one latent row, whose draw
        depends on no other row. So for each outcome of the draws the latent tables of neighbors are neighbors (where a row is added, up to
        the order of rows, which does not change sums); what is released of them has the loss of the inner estimator, whatever the draws
        are, and so has their mixture.
        """
        values, counts = rows.collect(), {}  # each row gets a latent row at random, once
        if plan.thresholds is not None:
            sizes = _threshold_columns(plan.schema)
            columns = [column for name, column in zip(plan.schema, values, strict=True) if name in sizes]
            exact = Thresholds.of(columns, list(sizes.values()), budget.relation)
            noisy = budget.answer(exact.query(budget.relation), plan.thresholds, "counts of ordinal levels")
            counts = dict(zip(sizes, exact.columns(noisy), strict=True))
        links = LatentLinks.of(plan.schema, counts, plan.n_samples)
        part = fit_part(clone(plan.part), links.latent(values, _Uniforms(budget.rng.child("latent rows"))), budget, plan.part_facts)
        if plan.n_samples is None:
            facts = plan.part_facts.part(n_samples=part.n_samples_)
            check_part(clone(plan.part), facts)  # it warns as soon as the number of rows is known
            budget.told.extend(facts.told)
        if isinstance(part, LowDimSynthesizer):
            model = ScoreModel(links, np.zeros(0), np.zeros((0, 0)), np.zeros(0), part)
        else:  # the principal components that hold 80 % of the variance, at most `n_factors`, are factors: equation (3)
            variances = part.explained_variance_
            r = int(np.searchsorted(np.cumsum(shares_of(variances)), _EXPLAINED)) + 1
            r = min(r, synthesizer._n_factors, len(variances))
            loadings = part.components_[:r].T * np.sqrt(variances[:r])
            residual = np.sqrt(np.maximum(np.diag(part.covariance_) - (loadings**2).sum(axis=1), 0))
            model = ScoreModel(links, part.mean_, loadings, residual)
        return {"n_samples_": part.n_samples_, "_size_error": part._size_error, "marginals_": counts, "factors_": part, "_model": model}


class _Uniforms:
    """Uniform numbers from the bits of the noise: draws of rows must be independent where the number of rows is private."""

    def __init__(self, bits: RandomBits) -> None:
        self.bits = bits

    def random(self, shape: tuple[int, int]) -> np.ndarray:
        whole = np.frombuffer(self.bits.bytes(8 * shape[0] * shape[1]), dtype=np.uint64)
        return np.ldexp((whole >> np.uint64(11)).astype(float), -53).reshape(shape)


def _threshold_columns(schema: Schema) -> dict[Hashable, int]:
    return {name: len(kind.levels) for name, kind in schema.items() if isinstance(kind, Ordinal) and not kind.nullable}


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

    def latent(self, values: Sequence[np.ndarray], rng: np.random.Generator | _Uniforms) -> np.ndarray:
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
            uniform = np.split(rng.random((len(chunk[0]), sum(n_uniform))), np.cumsum(n_uniform)[:-1], axis=1)
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
