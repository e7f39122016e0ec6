"""Codes of columns of very many levels: heavy ones have a code each, and the others share one in each group."""

from dataclasses import dataclass

import numpy as np

from skdpsynth.models._noisy_tables import shares_of
from skdpsynth.models._quantile_bins import Link
from skdpsynth.persistence import savable

_HEAVY = 4  # deviations of noise above which a level may have a code of its own
_CLEAR = 8  # ... and above which its count needs no prior
_STEPS = 200
_POINTS = 64  # of the prior
_BINS = 4  # to a deviation, within which counts are alike


@savable
@dataclass(frozen=True, eq=False)
class LevelGroups:
    """The levels of a column, ordered by their codes, as cells of a `Link` whose bins are the codes."""

    order: np.ndarray  # numbers of levels: those of code 0 first
    link: Link  # with the mass of each level, in this order

    @classmethod
    def of(cls, counts: np.ndarray, deviation: float, groups: np.ndarray, most: int) -> "LevelGroups":
        """Choose at most `most` codes from noisy counts.

        Every group has a code for its levels, except the heaviest, which have their own as long as there are codes left: those that stand
        out of the noise, and where there are several groups, those that hold as many rows as an equal share of all codes. Where there are
        more groups than codes, the lightest are one.
        """
        groups = _merge_lightest(groups, np.bincount(groups, counts), most)
        own = np.argsort(-counts, kind="stable")[: max(0, most - int(groups.max()) - 1)]
        # Where there are groups of like levels, a level that leaves its group must be worth a code.
        least = max(_HEAVY * deviation, counts.sum() / most if groups.max() else 0.0)
        own = own[counts[own] > least]
        codes = len(own) + groups
        codes[own] = np.arange(len(own))
        codes = np.unique(codes, return_inverse=True)[1]  # a group may have no levels left
        order = np.argsort(codes, kind="stable")
        edges = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(order, Link(shares_of(posterior_counts(counts, deviation))[order], edges))

    def weighed(self, counts: np.ndarray, deviation: float) -> "LevelGroups":
        """Return the same codes with the mass of other noisy counts."""
        return LevelGroups(self.order, Link(shares_of(posterior_counts(counts, deviation))[self.order], self.link.edges))

    @property
    def n_bins(self) -> int:
        return self.link.n_bins

    @property
    def codes(self) -> np.ndarray:
        """The code of each level, shape (n_levels,)."""
        codes = np.empty(len(self.order), dtype=np.int64)
        codes[self.order] = self.link.codes
        return codes


def _merge_lightest(groups: np.ndarray, masses: np.ndarray, most: int) -> np.ndarray:
    """Join the lightest of more than `most` groups."""
    if len(masses) <= most:
        return groups
    kept = np.argsort(-masses, kind="stable")[: most - 1]
    numbers = np.full(len(masses), most - 1)
    numbers[kept] = np.arange(most - 1)
    return numbers[groups]


def posterior_counts(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Return the expected true counts given noisy ones, by a prior learned from all of them (empirical Bayes).

    Most of thousands of levels have fewer rows than their noise, and positive parts of noise would be half of all rows drawn. The prior is
    a mixture of points, found by expectation maximization; counts far above the noise stay as they are.
    """
    if not deviation:
        return np.maximum(counts, 0).astype(float)
    points = np.linspace(0, _CLEAR + 1, _POINTS)  # in deviations
    small = counts < _CLEAR * deviation
    places, inverse, n_alike = np.unique(np.rint(_BINS * counts[small] / deviation), return_inverse=True, return_counts=True)
    out = np.maximum(counts, 0).astype(float)
    if not len(places):
        return out
    likelihood = np.exp(-((places[:, None] / _BINS - points) ** 2) / 2) + 1e-300
    prior = np.full(_POINTS, 1 / _POINTS)
    for _ in range(_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = n_alike @ posterior / n_alike.sum()
    out[small] = (posterior @ points * deviation)[inverse]
    return out
