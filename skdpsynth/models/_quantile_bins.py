"""Quantile bins: the noisy law of one column cut into bins, refined ones, and groups of rare levels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtri

from skdpsynth._parallel import cached_property
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import as_numeric_array, check_integer, check_real, short_repr
from skdpsynth.measures import least_squares, mass_from_root
from skdpsynth.models._mixture_sampling import points_below
from skdpsynth.models._noisy_tables import shares_of
from skdpsynth.persistence import savable

_MOST_BINS = 1 << 24
_NARROWEST = 1e-9  # of a bin: rows that lie within so little of it are at its border
_POINTS = 25  # that stand for a prior of a share
_PRIORS = (1.0, 8.0, 64.0)  # their weights, in observations
_PRIOR_ROUNDS = 10
_CLEAR = 6.0  # deviations: estimates of a node of more rows have no prior

N_FINE_BINS = 48  # bins, into which fewer are cut
_LEAST_PROBABILITY = 1e-9  # probability of a code, in logarithms
_FARTHEST = 2.0  # distances between two bins, up to which a trend goes on beyond the outer ones
_FITTING_ROUNDS = 50
_CLOSE = 1e-7  # share of a bin

_HEAVY = 4  # deviations of noise above which a level may have a code of its own
_CLEAR_COUNT = 8  # ... and above which its count needs no prior
_COUNT_STEPS = 200
_COUNT_POINTS = 64  # of the prior
_COUNT_BINS = 4  # to a deviation, within which counts are alike


@savable
@dataclass(frozen=True, eq=False, repr=False)
class Link:
    """A probability measure on the cells of a line, and bins of about equal mass.

    A cell with more than the mass of a bin is a bin of its own, which keeps atoms.

    Attributes
    ----------
    mass : ndarray of shape (n_cells,)
        Sums to 1.
    edges : ndarray of shape (n_bins + 1,), int64
        Bin b holds the cells from ``edges[b]`` up to, not with, ``edges[b + 1]``.
    alike : ndarray of shape (n_bins,), int64, or None
        The bin that the rows of each bin are like, where its own counts are noise; None: each is like itself alone.

    See Also
    --------
    LatentFactors : Predicts the bins.
    LatentFactorSynthesizer : Learns both.
    """

    mass: np.ndarray
    edges: np.ndarray
    alike: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Link(n_cells={len(self.mass)}, n_bins={len(self.edges) - 1})"

    def _check_loaded(self) -> None:
        require(is_array(self.mass, "f", -1) and is_array(self.edges, "i", -1) and self.mass.min() >= 0 and self.mass.sum() > 0)
        require(self.edges[0] == 0 and self.edges[-1] == len(self.mass) and np.all(np.diff(self.edges) > 0))
        require(self.alike is None or (is_array(self.alike, "i", self.n_bins) and set(self.alike.tolist()) <= set(range(self.n_bins))))

    @classmethod
    def of(
        cls, levels: Sequence[np.ndarray | None], variance: float, n_cells: int, n_bins: int, cuts: Sequence[int] | np.ndarray = ()
    ) -> "Link":
        """Make noisy counts of a tree consistent, and cut.

        Parameters
        ----------
        levels : list of ndarray
            Noisy counts of the levels 1, ..., depth: 2**j numbers at level j; None where a level was not released.
        variance : float
            Of every count.
        n_cells : int
            How many leaves can hold rows.
        n_bins : int
            The target; there may be fewer, or up to twice as many with atoms.
        cuts : array-like of int, default=()
            Cells with which a bin begins anyway.
        """
        # Bins are cut as if heaps were as likely as even splits: one too many costs little, and one too few would lose an atom.
        return cls(_cell_masses(levels, variance, n_cells), _edges(_cell_masses(levels, variance, n_cells, 1), n_bins, cuts))

    def reweigh(self, levels: Sequence[np.ndarray | None], variance: float) -> "Link":
        """Return the same bins with the mass of other noisy counts."""
        return Link(_cell_masses(levels, variance, len(self.mass)), self.edges)

    def recut(self, n_bins: int, cuts: Sequence[int] | np.ndarray = ()) -> "Link":
        """Return the same measure in other bins."""
        return Link(self.mass, _edges(self.mass, n_bins, cuts))

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def masses(self) -> np.ndarray:
        """The mass of each bin, shape (n_bins,)."""
        return np.add.reduceat(self.mass, self.edges[:-1])

    @property
    def codes(self) -> np.ndarray:
        """The bin of each cell, shape (n_cells,)."""
        return np.repeat(np.arange(self.n_bins), np.diff(self.edges))

    def bins_of(self, cells: np.ndarray) -> np.ndarray:
        """Return the bins of cells; -1 stays -1."""
        return np.searchsorted(self.edges, as_numeric_array(cells, "cells", None, whole=True), side="right") - 1


def _cell_masses(levels: Sequence[np.ndarray | None], variance: float, n_cells: int, n_priors: int = len(_PRIORS)) -> np.ndarray:
    """Check noisy counts of a tree, make them consistent, and return the share of each cell."""
    if not isinstance(levels, list | tuple) or not levels:
        raise TypeError(f"levels must be a list of the noisy counts of each level, got {short_repr(levels)}.")
    tree: list[np.ndarray | None] = [None]
    for level in levels:
        counts = None if level is None else np.asarray(as_numeric_array(level, "levels"), dtype=float)
        if counts is not None and (len(counts) != 2 ** len(tree) or not np.isfinite(counts).all()):
            raise ValueError("levels must hold 2**j finite numbers at level j, or None in their place; count from the root down.")
        tree.append(counts)
    if all(counts is None for counts in tree):
        raise ValueError("levels must hold the counts of one level at least, got None for all.")
    variance, n_cells = check_real("variance", variance, 0), check_integer("n_cells", n_cells, 1, 2 ** len(levels))
    estimates, errors = least_squares(tree, [np.inf, *[variance or 1.0] * len(levels)])
    root = np.maximum(estimates[0], 0.0)[0]
    if not variance:
        return shares_of(mass_from_root(estimates[1:], np.array(root))[:n_cells])
    return shares_of(split_mass(estimates[1:], errors[1:], root, n_cells, n_priors))


def _edges(mass: np.ndarray, n_bins: int, cuts: Sequence[int] | np.ndarray) -> np.ndarray:
    n_bins = check_integer("n_bins", n_bins, 1, _MOST_BINS)
    cuts = as_numeric_array(cuts, "cuts", whole=True)
    n_cells, upto = len(mass), np.concatenate([[0.0], np.cumsum(mass)])
    heavy = np.flatnonzero(mass > 1 / n_bins)
    inner = np.searchsorted(upto, np.arange(1, n_bins) / n_bins)
    edges = np.unique(np.concatenate([[0], inner, heavy, heavy + 1, cuts, [n_cells]]))
    return edges[(edges >= 0) & (edges <= n_cells)]


def split_mass(
    estimates: Sequence[np.ndarray], errors: Sequence[float], root: float, n_cells: int, n_priors: int = len(_PRIORS)
) -> np.ndarray:
    """Return the mass of each cell: each child of a node gets its expected share, given the noisy difference of the siblings' counts.

    Estimates cut off at 0 and at the mass of the node would make a law of noise where noise is large: with few rows, one that is farther
    from theirs than the uniform law is. Here the share of the left child has a mixture of beta priors, whose mean is the child's share of
    the cells. Under the first, of one observation's worth of weight, heaps and atoms are as likely as even splits; under the last all
    splits are nearly even. The nodes of a level tell the weights of the mixture (empirical Bayes, by expectation maximization); those of
    the level above count as one node. With one of `n_priors` there is no choice. The estimates of the levels 1 to depth are by least
    squares from below, and `errors` their variances.
    """
    mass, weights = np.array([root]), np.full(n_priors, 1 / n_priors)
    for level, variance in zip(estimates, errors, strict=True):
        width = (1 << len(estimates)) // len(level)
        cells = np.clip(n_cells - np.arange(len(level)) * width, 0, width)
        means, differences = cells[0::2] / np.maximum(cells[0::2] + cells[1::2], 1), level[0::2] - level[1::2]
        shares = np.clip((differences / np.where(mass > 0, mass, 1.0) + 1) / 2, 0, 1)
        noisy, two_sided = mass <= _CLEAR * np.sqrt(2 * variance), (means > 0) & (means < 1)
        shares[noisy & (means == 1)] = 1.0
        expected, weights = _expected_shares(means[two_sided], differences[two_sided], mass[two_sided], variance, weights)
        shares[noisy & two_sided] = expected[noisy[two_sided]]
        mass = np.stack([mass * shares, mass * (1 - shares)], axis=1).ravel()
    return mass[:n_cells]


def _expected_shares(
    means: np.ndarray, differences: np.ndarray, mass: np.ndarray, variance: float, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior means of the shares of the left children of some nodes of a level, and the weights of the priors."""
    distinct, places = np.unique(means, return_inverse=True)
    points = np.array([_prior_points(float(mean))[: len(weights)] for mean in distinct]).reshape(-1, len(weights), _POINTS)[places]
    off = 2 * points - 1  # in place from here on: there may be a million numbers
    off *= -mass[:, None, None]
    off += differences[:, None, None]
    off *= off
    exact = np.maximum(variance, (mass / _POINTS) ** 2)[:, None, None]  # a difference tells no more than how far apart points are
    np.subtract(off.min(axis=(1, 2), keepdims=True), off, out=off)
    off /= 4 * exact
    likelihood = np.exp(off, out=off)
    of_priors, before = likelihood.mean(axis=2), weights
    for _ in range(_PRIOR_ROUNDS):
        chosen = of_priors * weights
        weights = (before + (chosen / chosen.sum(axis=1, keepdims=True)).sum(axis=0)) / (1 + len(means))
    points *= likelihood
    return points.mean(axis=2) @ weights / (of_priors @ weights), weights


@lru_cache(256)
def _prior_points(mean: float) -> np.ndarray:
    quantiles = (np.arange(_POINTS) + 0.5) / _POINTS
    return np.array([betaincinv(weight * mean, weight * (1 - mean), quantiles) for weight in _PRIORS])


def grade_bins(link: Link, growth: float) -> Link:
    """Return the same measure in bins of which none, from the densest outwards, is more than `growth` times as wide as all before it.

    Wider ones are cut: only counts of narrow bins tell how far out the rows of the last bins lie. The bounds, where clipped numbers pile
    up, become bins of their own.
    """
    widths = np.diff(link.edges).tolist()
    densest, further = int(np.argmax(link.masses / widths)), list[int]()
    for step in (1, -1):
        widest, place = widths[densest], densest + step
        while 0 <= place < link.n_bins:
            left, near = widths[place], int(link.edges[place + (step < 0)])
            while left > growth * widest:
                widest = int(growth * widest)
                left, near = left - widest, near + step * widest
                further.append(near)
            widest, place = max(widest, left), place + step
    bounds = [1, len(link.mass) - 1] if len(link.mass) > 1 else []
    return Link(link.mass, np.union1d(link.edges, np.array([*further, *bounds], dtype=np.int64)))


def reweigh_bins(link: Link, counts: np.ndarray, alike: np.ndarray, falls: np.ndarray, places: np.ndarray) -> Link:
    """Return the same bins with `counts` rows in each, and with others that they are like.

    Cells keep their shares of a bin, but where `falls` says that noise hides them. There the density falls as an exponential law does, to
    the right (1) or to the left (-1), from `density_at_border`. `places` are the edges of the cells.
    """
    n_cells, own = np.diff(link.edges), link.masses
    within = np.where(np.repeat(own, n_cells) > 0, link.mass, 1.0) / np.repeat(np.where(own > 0, own, n_cells), n_cells)
    widths = np.diff(places[link.edges])
    densities = np.maximum(counts / widths, 1e-300)
    for bin_, way in zip(np.flatnonzero(falls).tolist(), falls[falls != 0].tolist(), strict=True):
        outwards = slice(bin_, None, -way)
        border = density_at_border(densities[outwards][:3], widths[outwards][:3])
        first, last = link.edges[bin_], link.edges[bin_ + 1]
        own_widths = np.diff(places[first : last + 1])[::way]
        rate = decay_rate(min(densities[bin_] / border, 1.0)) / own_widths.sum()
        shares = np.exp(-rate * (np.cumsum(own_widths) - own_widths)) * (-np.expm1(-rate * own_widths) if rate else own_widths)
        within[first:last] = (shares / shares.sum())[::way]
    return Link(np.repeat(counts / counts.sum(), n_cells) * within, link.edges, alike)


def density_at_border(densities: np.ndarray, widths: np.ndarray) -> float:
    """Return the density where a bin begins, from its own mean density and those of one or two bins before it, the nearest first.

    The logarithms of the two before continue as a straight line, unless they rise; but the result is no less than the geometric mean of the
    density of the bin and of the one before.
    """
    own, before = float(densities[0]), float(densities[1])
    slope = math.log(before / densities[2]) / ((widths[1] + widths[2]) / 2) if len(densities) > 2 else 0.0
    return max(math.sqrt(own * before), before * math.exp(max(min(slope, 0.0) * float(widths[1]) / 2, -600.0)), 1e-300)


def decay_rate(mean: float) -> float:
    """Return r such that exp(-r x) on [0, 1] has this mean: 0 where that is 1 or more, and never more than 1e9."""
    # (1 - exp(-r)) / r = mean; r lies below 1 / mean, as the left side does below 1 / r.
    if mean >= 1 - 1e-6:
        return 0.0
    return float(brentq(lambda r: -math.expm1(-r) / r - mean, 1e-9, 1 / mean + 1)) if mean > _NARROWEST else 1 / _NARROWEST


def share_by_mass(link: Link, table: np.ndarray) -> np.ndarray:
    """Return P(bin | node) in which bins that are like one share their joint probability by mass; further codes stay."""
    if link.alike is None:
        return table
    masses, together = link.masses, np.zeros((link.n_bins, table.shape[1]))
    np.add.at(together, link.alike, table[: link.n_bins])
    whole = np.bincount(link.alike, masses, link.n_bins)[link.alike]
    shares = np.where(whole > 0, masses, link.alike == np.arange(link.n_bins)) / np.where(whole > 0, whole, 1.0)
    return np.vstack([together[link.alike] * shares[:, None], table[link.n_bins :]])


@dataclass(frozen=True, eq=False)
class CellsInBins:
    """Cells drawn within the bins of a `Link`."""

    bins: np.ndarray  # of each cell
    part: np.ndarray  # share of its bin's mass in each cell; cells count alike where a bin has no mass

    @classmethod
    def of(cls, link: Link) -> "CellsInBins":
        widths = np.diff(link.edges)
        bins = np.repeat(np.arange(link.n_bins), widths)
        whole = link.masses[bins]
        return cls(bins, np.where(whole > 0, link.mass, 1.0) / np.where(whole > 0, whole, widths[bins]))

    @cached_property
    def upto(self) -> np.ndarray:
        """The share of its bin's mass up to the end of each cell, shape (n_cells,)."""
        # In parts of the bin first: in a sum over all bins, one of very little mass would be nothing.
        upto = np.cumsum(self.part)
        first = np.searchsorted(self.bins, self.bins)
        upto -= np.concatenate([[0.0], upto])[first]
        # A cell without mass adds nothing to the sum, so behind the last one with mass it is 1 exactly.
        whole = upto[np.searchsorted(self.bins, self.bins, side="right") - 1]
        return upto / np.where(whole > 0, whole, 1.0)

    def select(self, cells: np.ndarray) -> "CellsInBins":
        """Return the selected cells, in order; the parts of a bin need not sum to 1 then."""
        return CellsInBins(self.bins[cells], self.part[cells])

    def condition(self, shares: np.ndarray, n_bins: int) -> tuple["CellsInBins", np.ndarray]:
        """Condition exactly, on an event with a probability in each cell; return (the conditional cells, its probability in each bin)."""
        part = self.part * shares
        whole = np.bincount(self.bins, part, minlength=n_bins)
        return CellsInBins(self.bins, part / np.where(whole > 0, whole, 1.0)[self.bins]), whole

    def sample_cells(self, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a cell of each bin in a list, independent of all others."""
        # A share of less than 1 stays below the end of its bin also after the number of the bin is added.
        shares = np.minimum(rng.random(len(bins)), 1 - 1e-9)
        return np.searchsorted(self.bins + self.upto, bins + shares, side="right")

    def cells(self, counts: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """Return so many cells of each bin by systematic sampling, with shifts in [0, 1), bin after bin, in order."""
        upto = points_below(self.upto, counts[self.bins], shifts[self.bins]).astype(np.int64)
        upto += (np.cumsum(counts) - counts)[self.bins]
        return np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))


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
        finer = link.recut(N_FINE_BINS, link.edges)
        # No finer bin may be empty in a bin that has mass: a row whose cell has none is known by its bin. Empty ones join the one before;
        # the first of a bin, if it is empty still, the one behind.
        is_edge = np.isin(finer.edges, link.edges)
        kept = is_edge | np.append(finer.masses > 0, True)
        finer, is_edge = Link(finer.mass, finer.edges[kept]), is_edge[kept]
        after_empty = np.append(False, (finer.masses == 0) & is_edge[:-1])
        finer = Link(finer.mass, finer.edges[is_edge | ~after_empty])
        if finer.n_bins == link.n_bins:
            return None
        coarse = link.bins_of(finer.edges[:-1])
        scores, places = _normal_scores(link), _normal_scores(finer)
        before = np.clip(np.searchsorted(scores, places) - 1, 0, link.n_bins - 2)
        weights = (places - scores[before]) / np.maximum(np.diff(scores)[before], _LEAST_PROBABILITY)
        masses, widths = finer.masses, np.diff(finer.edges).astype(float)
        masses = np.where(np.bincount(coarse, masses)[coarse] > 0, masses, widths)  # by width, as numbers are drawn, where there is no mass
        parts = masses / np.bincount(coarse, masses)[coarse]
        return cls(finer, coarse, before, np.clip(weights, -_FARTHEST, 1 + _FARTHEST), parts)

    def probabilities(self, table: np.ndarray) -> np.ndarray:
        """Return P(finer bin | node) of equally likely nodes, and at last that of a missing cell, where `table` has it.

        Within a bin it is in proportion to the trend times a factor of each finer bin, such that the mean over nodes is `parts`: found by
        iterated proportional fitting, in which every round ends with probabilities that sum to 1 within a bin.
        """
        n_bins, first = int(self.coarse[-1]) + 1, np.flatnonzero(np.diff(self.coarse, prepend=-1))
        logs, weights = np.log(np.maximum(table[:n_bins], _LEAST_PROBABILITY)), self.weights[:, None]
        trend = (1 - weights) * logs[self.before] + weights * logs[self.before + 1]
        tilts = np.exp(trend - np.maximum.reduceat(trend, first, axis=0)[self.coarse])
        factors, of_bins = self.parts.copy(), table[self.coarse]
        of_nodes = of_bins / np.maximum(of_bins.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        for _ in range(_FITTING_ROUNDS):
            joint = factors[:, None] * tilts
            joint /= np.maximum(np.add.reduceat(joint, first, axis=0), np.finfo(float).tiny)[self.coarse]
            found = (joint * of_nodes).sum(axis=1)
            if np.abs(found - self.parts).max() < _CLOSE:
                break
            factors *= np.divide(self.parts, found, out=np.ones_like(found), where=found > 0)
        return np.vstack([of_bins * joint, table[n_bins:]])


def _normal_scores(link: Link) -> np.ndarray:
    """Return the mean of a standard normal number between the quantiles where each bin begins and ends: rising."""
    masses = np.maximum(link.masses, _LEAST_PROBABILITY)
    masses /= masses.sum()
    upto = np.clip(np.cumsum(masses), 0, 1)[:-1]
    density = np.concatenate([[0.0], np.exp(-(ndtri(upto) ** 2) / 2) / np.sqrt(2 * np.pi), [0.0]])
    return (density[:-1] - density[1:]) / masses


@savable
@dataclass(frozen=True, eq=False)
class LevelGroups:
    """The levels of a column, ordered by their codes, as cells of a `Link` whose bins are the codes."""

    order: np.ndarray  # numbers of levels: those of code 0 first
    link: Link  # with the mass of each level, in this order

    def _check_loaded(self) -> None:
        require(is_array(self.order, "i", len(self.link.mass)) and sorted(self.order) == list(range(len(self.order))))

    @classmethod
    def of(cls, counts: np.ndarray, deviation: float, groups: np.ndarray, most: int) -> "LevelGroups":
        """Choose at most `most` codes from noisy counts.

        Every group has a code for its levels, except the heaviest, which have their own as long as there are codes left: those that stand
        out of the noise, and where there are several groups, those that hold as many rows as an equal share of all codes. Where there are
        more groups than codes, the lightest are one.
        """
        masses = np.bincount(groups, counts)
        if len(masses) > most:
            heaviest, numbers = np.argsort(-masses, kind="stable")[: most - 1], np.full(len(masses), most - 1)
            numbers[heaviest] = np.arange(most - 1)
            groups = numbers[groups]
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

    def reweigh(self, counts: np.ndarray, deviation: float) -> "LevelGroups":
        return LevelGroups(self.order, Link(shares_of(posterior_counts(counts, deviation))[self.order], self.link.edges))

    @property
    def n_bins(self) -> int:
        return self.link.n_bins

    @property
    def codes(self) -> np.ndarray:
        codes = np.empty(len(self.order), dtype=np.int64)
        codes[self.order] = self.link.codes
        return codes


def posterior_counts(counts: np.ndarray, deviation: float) -> np.ndarray:
    """Return the expected true counts given noisy ones, by a prior learned from all of them (empirical Bayes).

    Most of thousands of levels have fewer rows than their noise, and positive parts of noise would be half of all rows drawn. The prior is
    a mixture of points, found by expectation maximization; counts far above the noise stay as they are.
    """
    if not deviation:
        return np.maximum(counts, 0).astype(float)
    points = np.linspace(0, _CLEAR_COUNT + 1, _COUNT_POINTS)  # in deviations
    small = counts < _CLEAR_COUNT * deviation
    places, inverse, n_alike = np.unique(np.rint(_COUNT_BINS * counts[small] / deviation), return_inverse=True, return_counts=True)
    out = np.maximum(counts, 0).astype(float)
    if not len(places):
        return out
    likelihood = np.exp(-((places[:, None] / _COUNT_BINS - points) ** 2) / 2) + 1e-300
    prior = np.full(_COUNT_POINTS, 1 / _COUNT_POINTS)
    for _ in range(_COUNT_STEPS):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = n_alike @ posterior / n_alike.sum()
    out[small] = (posterior @ points * deviation)[inverse]
    return out
