"""Strategy "scores" of mixed tables, the published route made private: thresholds, latent normal columns, private moments."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from skdpsynth._validation import short_repr
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.domain import Box, Ordinal, Schema, keys_of, ties_of
from skdpsynth.fitting import Budget, Facts, Plan, check_part, fit_part
from skdpsynth.frames import Rows
from skdpsynth.models import LatentLinks, ScoreModel, shares_of
from skdpsynth.privacy import Mechanism, RandomBits, mechanism
from skdpsynth.statistics import Thresholds
from skdpsynth.synthesis._low_dim import LowDimSynthesizer

_EXPLAINED = 0.8  # of the noisy variance, by the factors: c of equation (3)
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

    def check_parameters(self, synthesizer: BaseEstimator, schema: Schema) -> None:
        for name in ("prior", "stratify", "within"):
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
            facts.warnings.extend(part_facts.warnings)
        return ScoresPlan(spends_delta, schema=schema, n_samples=facts.n_samples, thresholds=noise, part=part, part_facts=part_facts)

    def release_model(self, synthesizer: BaseEstimator, rows: Rows, plan: ScoresPlan, budget: Budget) -> dict[str, Any]:
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
        part = fit_part(clone(plan.part), links.latent(values, _Uniforms(budget.rng.child("latent rows")).random), budget, plan.part_facts)
        if plan.n_samples is None:
            facts = plan.part_facts.part(n_samples=part.n_samples_)
            check_part(clone(plan.part), facts)  # it warns as soon as the number of rows is known
            budget.warnings.extend(facts.warnings)
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
