"""Refined bins: the place of a number within a wide bin follows the factors, as the bin itself does."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skdpsynth.models._quantile_bins import Link

N_FINE_BINS = 48  # bins, into which fewer are cut
_LEAST = 1e-9  # probability of a code, in logarithms
_FARTHEST = 2.0  # distances between two bins, up to which a trend goes on beyond the outer ones
_ROUNDS = 50
_CLOSE = 1e-7  # share of a bin


@dataclass(frozen=True, eq=False)
class RefinedBins:
    """The bins of a link, each cut into finer ones.

    Within wide bins columns would be independent, which takes a part of every correlation: a third, if normal columns have three bins. Here
    the logarithms of the probabilities of bins given a node continue within bins: they are interpolated between the bins along normal
    scores, and extrapolated as straight lines beyond the outer ones. In a model of normal factors that is exact: there the logarithm of
    P(number | node) is linear in the number, but for a part that all nodes share. That part keeps P(finer bin) as the link has it. P(bin |
    node) stays the same, too: so the law of the bins of all columns does not change.
    """

    link: Link  # the same measure in finer bins
    coarse: np.ndarray  # the bin that each finer one is in
    before: np.ndarray  # the first of the two bins between which it is interpolated
    weights: np.ndarray  # of the second
    parts: np.ndarray  # share of each in its bin

    @classmethod
    def of(cls, link: Link) -> "RefinedBins | None":
        """Cut the bins of a link where they are few; None where there is one, or enough."""
        if not 1 < link.n_bins < N_FINE_BINS:
            return None
        finer = Link(link.mass, _drop_empty_bins(link.recut(N_FINE_BINS, link.edges), link.edges))
        if finer.n_bins == link.n_bins:
            return None
        coarse = link.bins_of(finer.edges[:-1])
        scores, places = _normal_scores(link), _normal_scores(finer)
        before = np.clip(np.searchsorted(scores, places) - 1, 0, link.n_bins - 2)
        weights = (places - scores[before]) / np.maximum(np.diff(scores)[before], _LEAST)
        return cls(finer, coarse, before, np.clip(weights, -_FARTHEST, 1 + _FARTHEST), _shares_within_bins(finer, coarse))

    def probabilities(self, table: np.ndarray) -> np.ndarray:
        """Return P(finer bin | node) of equally likely nodes, and at last that of a missing cell, where `table` has it."""
        n_bins = int(self.coarse[-1]) + 1
        logs, weights = np.log(np.maximum(table[:n_bins], _LEAST)), self.weights[:, None]
        trend = (1 - weights) * logs[self.before] + weights * logs[self.before + 1]
        return np.vstack(
            [table[self.coarse] * self._within(np.exp(trend - _largest_within_bins(trend, self.coarse)), table), table[n_bins:]]
        )

    def _within(self, tilts: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return P(finer bin | bin, node), in proportion to the tilts but for a factor of each finer bin that leaves `parts` in the mean.

        Found by iterated proportional fitting, of which every round ends with probabilities that sum to 1 within a bin.
        """
        first, factors = np.flatnonzero(np.diff(self.coarse, prepend=-1)), self.parts.copy()
        of_nodes = table[self.coarse]
        of_nodes = of_nodes / np.maximum(of_nodes.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        for _ in range(_ROUNDS):
            joint = factors[:, None] * tilts
            joint /= np.maximum(np.add.reduceat(joint, first, axis=0), np.finfo(float).tiny)[self.coarse]
            found = (joint * of_nodes).sum(axis=1)
            if np.abs(found - self.parts).max() < _CLOSE:
                break
            factors *= np.divide(self.parts, found, out=np.ones_like(found), where=found > 0)
        return joint


def _drop_empty_bins(finer: Link, edges: np.ndarray) -> np.ndarray:
    """Return edges such that no finer bin is empty in a bin that has mass: a row whose cell has none is known by its bin."""
    is_edge = np.isin(finer.edges, edges)
    # An empty bin joins the one before; the first of a bin, if it is empty still, the one behind.
    kept = is_edge | np.append(finer.masses > 0, True)
    finer, is_edge = Link(finer.mass, finer.edges[kept]), is_edge[kept]
    after_empty = np.append(False, (finer.masses == 0) & is_edge[:-1])
    return finer.edges[is_edge | ~after_empty]


def _normal_scores(link: Link) -> np.ndarray:
    """Return the mean of a standard normal number between the quantiles where each bin begins and ends: rising."""
    masses = np.maximum(link.masses, _LEAST)
    masses /= masses.sum()
    upto = np.clip(np.cumsum(masses), 0, 1)[:-1]
    density = np.concatenate([[0.0], np.exp(-(ndtri(upto) ** 2) / 2) / np.sqrt(2 * np.pi), [0.0]])
    return (density[:-1] - density[1:]) / masses


def _shares_within_bins(finer: Link, coarse: np.ndarray) -> np.ndarray:
    """Return the share of each finer bin in its bin; by width where that has no mass, as numbers are drawn in it."""
    masses, widths = finer.masses, np.diff(finer.edges).astype(float)
    masses = np.where(np.bincount(coarse, masses)[coarse] > 0, masses, widths)
    return masses / np.bincount(coarse, masses)[coarse]


def _largest_within_bins(table: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """Return the largest number of each bin at each node, at each finer bin."""
    return np.maximum.reduceat(table, np.flatnonzero(np.diff(coarse, prepend=-1)), axis=0)[coarse]
