"""Audits that redraw only the noise and reuse the exact values of the first runs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsynth.auditing._likelihood import RATIO, minus_log_likelihoods, noise_scales, visible_draws
from skdpsynth.auditing._outputs import probe_runs, run
from skdpsynth.privacy import SecureBits
from skdpsynth.testing import Draw, kind_of, watch_releases

_AT_ONCE = 1 << 14  # values
_MORE = 15  # further runs that only compare values


@dataclass(frozen=True, eq=False)
class NoiseAudit:
    """Pairs of releases on two tables, where neither values nor noise depend on earlier answers."""

    pairs: list[tuple[Draw, Draw]]
    names: ClassVar[list[str]] = [RATIO]

    @classmethod
    def of(cls, mechanism: Any, X: Any, X_neighbor: Any) -> "NoiseAudit":
        """Run the mechanism on both tables, or raise ValueError if releases differ between runs, or given the other table's answers."""
        with watch_releases() as door:
            (_, runs), (_, other_runs) = probe_runs(mechanism, X), probe_runs(mechanism, X_neighbor)
            first, other = runs[0], other_runs[0]
            for table, found in ((X, runs), (X_neighbor, other_runs)):
                found += [run(mechanism, table, until=len(found[0]))[1] for _ in range(_MORE)]
            fixed = _is_same_release(first, other, of_other_rows=True) and all(
                _is_same_release(expected, draws) and _is_same_release(unlike, _replay(mechanism, table, draws))
                for expected, unlike, found, table in ((first, other, runs, X_neighbor), (other, first, other_runs, X))
                for draws in found
            )
        is_seen = len(visible_draws(first)) == len(first)  # secret values may decide later releases
        if not first or not fixed or not is_seen or door.n_choices or any(draw.shared for draw in first):
            raise ValueError(
                "event must be None, 'released' or a function where what is released hangs on what was released before, shares noise or "
                "does not pass the door of this package, got 'noise'; 'released' looks at whole runs."
            )
        return cls(list(zip(first, other, strict=True)))

    @property
    def at_once(self) -> int:
        return max(1, _AT_ONCE // max(1, sum(first.values.size for first, _ in self.pairs)))

    def rows(self, bits: np.ndarray) -> np.ndarray:
        """Return the likelihood ratio of each run, as rows of one number."""
        ratios, rng = np.zeros(len(bits)), SecureBits()
        for first, other in self.pairs:
            exact = np.where(bits.reshape(-1, *[1] * first.values.ndim), other.values, first.values)
            answers = exact + _draw_noise(first.noise, exact.shape, rng)
            ratios += minus_log_likelihoods(answers, first.values, first)
            ratios -= minus_log_likelihoods(answers, other.values, first)
        return np.round(ratios, 6)[:, None]


def _replay(mechanism: Any, table: Any, answers: list[Draw]) -> list[Draw]:
    """Return the releases on a table given these answers, or nothing if other releases are made."""
    try:
        return run(mechanism, table, answers, len(answers))[1]
    except AssertionError:
        return []


def _is_same_release(draws: list[Draw], others: list[Draw], of_other_rows: bool = False) -> bool:
    """Whether all releases agree in name, noise, shape and, unless the rows differ, values."""
    return len(draws) == len(others) and all(
        draw.name == other.name
        and kind_of(draw.noise) == kind_of(other.noise)
        and np.array_equal(noise_scales(draw), noise_scales(other))
        and draw.values.shape == other.values.shape
        and (of_other_rows or np.array_equal(draw.values, other.values))
        for draw, other in zip(draws, others, strict=True)
    )


def _draw_noise(noise: Any, shape: tuple[int, ...], rng: Any) -> np.ndarray:
    """Draw independent noise for a stack of values, each of shape ``shape[1:]``."""
    if "SupNorm" in kind_of(noise):  # values drawn together share one radius
        return np.array([noise.sample(shape[1:], rng) for _ in range(shape[0])])
    return noise.sample(shape, rng)
