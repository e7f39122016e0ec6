"""Measures from noisy counts of a partition, in one or two stages, with proved bounds: from released counts and public numbers."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth._state_validation import is_array, require
from skdpsynth.measures._consistency import interleave_siblings, least_squares, mass_from_root, pair_sums
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.persistence import savable

# Deviations of shares about a half (beyond those of chance) and about 0 or 1; how usual each is in an even, a smooth and a crowded table;
# and how usual such tables are. Chosen among many by the W1 of one and two features on the sets of benchmarks/hindsight.py.
_ABOUT_HALF = np.array([0.0, 0.03, 0.15, 0.4])
_ABOUT_EDGE = np.array([0.0, 0.08])
_IN_TABLES = np.array([[20.0, 4.0, 2.0, 0.5, 0.5, 0.5], [1.0, 1.0, 16.0, 8.0, 2.0, 4.0], [2.0, 1.0, 4.0, 4.0, 40.0, 40.0]])
_PARTS = 1 << 18  # parts whose sums are made at a time
MOST_LEARNED = 1 << 14  # parts; beyond, least squares alone was measured to be faster and better
_MIN_TIMES = 1e-9  # of an even share of the rows


def level_sums(leaves: np.ndarray, depth: int) -> list[np.ndarray]:
    """Return the sums of the levels 0, ..., `depth` of a complete binary tree, from the values of its leaves."""
    levels = [leaves]
    for _ in range(depth):
        levels.append(pair_sums(levels[-1]))
    return levels[::-1]


def widest_diameters(partition: Any, depth: int) -> list[float]:
    """Return the diameter of the widest cell of each level from 0 to `depth`."""
    return [float(np.max(partition.diameters(level))) for level in range(depth + 1)]


def total_diameters(partition: Any, depth: int) -> tuple[float, ...]:
    """Return W_i, the sum of the diameters of the cells of level i, for i < `depth`."""
    diameters = [partition.diameters(i) for i in range(depth)]
    return tuple(
        each * 2.0**i if isinstance(each, float) else float(np.sum(np.broadcast_to(each, 1 << i))) for i, each in enumerate(diameters)
    )


def rounding_bound(partition: Any, depth: int, n: float) -> float:
    """Bound n times the expected transport of rounding to n rows along the curve: half a unit a node, never more than n a level."""
    return sum(widest * min(2.0**i / 2, n) for i, widest in enumerate(widest_diameters(partition, depth - 1)))


def measure_of_leaves(partition: Any, depth: int, mass: np.ndarray) -> DiscreteMeasure:
    """Return the measure with the given non-negative mass on all cells of one level."""
    cells = np.arange(1 << depth)
    return DiscreteMeasure.from_mass(partition, cells, np.full(len(cells), depth, dtype=np.int8), mass)


def bound_of_least_squares(partition: Any, depth: int, n: float, errors: Sequence[float], *, noise_free: bool = False) -> float:
    """Bound E W1 of least squares on a tree with mass shared from the root.

    Halving a deficit, a node moves half the difference of its children's errors, whose mean absolute value is at most its deviation
    ``sqrt(t_{i+1} / 2)``; each unit moves at most the diameter of the node. `errors` are the variances of the levels 0, ..., `depth`, from
    `least_squares`; without noise they are weights, not variances.
    """
    totals, widest = total_diameters(partition, depth), widest_diameters(partition, depth)
    moved = sum(0.0 if noise_free else min(totals[i] * math.sqrt(errors[i + 1] / 2), n * widest[i]) for i in range(depth))
    bound = (moved + rounding_bound(partition, depth, n)) / n + widest[depth]
    return min(bound, widest[0])


def bound_of_clamped_counts(partition: Any, depth: int, n: float, total: float, spreads: Sequence[float]) -> float:
    """Bound E W1 of the papers' algorithm: clamped counts, made consistent by the uniform transformation.

    `total` is the noisy count of the root, at least 1; `spreads` are the mean absolute noises of a count of the levels 0, ..., `depth`.
    """
    totals, widest = total_diameters(partition, depth), widest_diameters(partition, depth)
    moved = sum(min(totals[i] * spreads[i + 1], total * widest[i]) for i in range(depth)) + rounding_bound(partition, depth, n)
    bound = moved / total + widest[0] * abs(total - n) / max(total, n) + widest[depth]
    return min(bound, widest[0])


def choose_refinement(estimates: Sequence[np.ndarray], n: float, halvings: float, most: int) -> np.ndarray:
    """Return how often each coarse cell is halved in the second stage: a function of the first stage and of public numbers.

    A cell with an even share of the rows is halved `halvings` times, rounded down; one with k times as many has k times as many parts; none
    is halved more than `most` times. `estimates` are those of the levels 0, 1, ... by the first stage.
    """
    rough = mass_from_root(estimates[1:], np.array(n, dtype=float))
    times = rough * (len(rough) / n)
    refinement = np.maximum(halvings + np.log2(np.maximum(times, _MIN_TIMES)), 0.0).astype(np.int64)
    return np.minimum(refinement, most, out=refinement)


class _Group(NamedTuple):
    """Coarse cells that are halved `halvings` times, and the sums of their parts: levels 1 to `halvings` below each."""

    halvings: int
    members: np.ndarray
    below: list[np.ndarray]


@savable
@dataclass(frozen=True, eq=False)
class TwoStages:
    """Two independent noisy histograms: of the cells of one level, and of a partition that halves each of these some times more."""

    partition: Any
    n: int  # of rows
    coarse: np.ndarray  # noisy counts of the coarse cells, shape (2**coarse_depth,), int
    refinement: np.ndarray  # how often each coarse cell was halved for the second stage, int64
    fine: np.ndarray  # noisy counts of the second stage, shape (sum(2**refinement),), int, in the order of `Histogram.over_refined`
    first_variance: float  # of the noise of a count; without noise a weight for joining
    second_variance: float
    noise_free: bool = False
    above: Sequence[Any] = ()  # noisy counts of the levels 0, ..., coarse_depth - 1, or None, where the first stage has them; else empty
    above_variances: Sequence[float] = ()

    def _check_loaded(self) -> None:
        depth = self.coarse_depth
        require(is_array(self.coarse, "i", 1 << max(depth, 0)) and is_array(self.refinement, "i", len(self.coarse)) and self.n >= 1)
        require(self.refinement.min() >= 0 and depth + self.refinement.max() <= self.partition.depth)
        require(is_array(self.fine, "i", -1) and float(np.sum(2.0**self.refinement)) == len(self.fine))
        require(0 < self.first_variance < math.inf and 0 < self.second_variance < math.inf)
        require(len(self.above) == len(self.above_variances) and len(self.above) in (0, depth))
        for level, (counts, variance) in enumerate(zip(self.above, self.above_variances, strict=True)):
            require(counts is None or (is_array(counts, "i", 1 << level) and 0 < variance < math.inf))

    @property
    def coarse_depth(self) -> int:
        return len(self.coarse).bit_length() - 1

    def pairs(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray | float]]:
        """Yield the siblings that were counted, in groups: their level, their parents, and estimates with variances."""
        for level, (estimates, variances) in enumerate(self._joined_levels[1:], 1):
            yield level, np.arange(1 << (level - 1)), estimates, variances
        for halvings, members, below in self._groups():
            for i in range(1, halvings + 1):
                parents = (members[:, None] << (i - 1)) + np.arange(1 << (i - 1))
                yield self.coarse_depth + i, parents.ravel(), below[i].ravel(), self.second_variance * 2.0 ** (halvings - i)

    def _groups(self) -> Iterator[_Group]:
        """Yield coarse cells in the order of `fine`, in groups, as their sums take twice the memory of their parts."""
        start = 0
        for halvings in np.unique(self.refinement).tolist():
            alike = np.flatnonzero(self.refinement == halvings)
            at_once = max(1, _PARTS >> halvings)
            for members in (alike[first : first + at_once] for first in range(0, len(alike), at_once)):
                parts = self.fine[start : start + (len(members) << halvings)].reshape(len(members), -1).astype(float)
                start += parts.size
                yield _Group(halvings, members, level_sums(parts, halvings))

    @cached_property
    def _fine_sums(self) -> np.ndarray:
        """Count of each coarse cell by the second stage."""
        sums = np.empty(len(self.coarse))
        for group in self._groups():
            sums[group.members] = group.below[0][:, 0]
        return sums

    @cached_property
    def _fine_variances(self) -> np.ndarray:
        return self.second_variance * 2.0**self.refinement

    @cached_property
    def _first(self) -> tuple[list[np.ndarray], list[float]]:
        """Estimates of the levels 0, ..., coarse_depth from the first stage alone, and their variances."""
        above = self.above or [None] * self.coarse_depth
        return least_squares([*above, self.coarse], [*(self.above_variances or [math.inf] * self.coarse_depth), self.first_variance])

    @cached_property
    def joined(self) -> list[np.ndarray]:
        """Estimates of the levels 0, ..., coarse_depth from both stages: unbiased, with the least variance."""
        return [estimates for estimates, _ in self._joined_levels]

    @cached_property
    def _joined_levels(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Estimates, and the variances they would have if the second stage did not follow from the first."""
        variances = self._fine_variances
        weights = variances / (self.first_variance + variances)
        levels = [(weights * self.coarse + (1 - weights) * self._fine_sums, weights * self.first_variance)]
        for level in reversed(range(self.coarse_depth)):
            estimates, variances = (pair_sums(values) for values in levels[-1])
            if self.above and self.above[level] is not None:
                weights = variances / (self.above_variances[level] + variances)
                estimates, variances = weights * self.above[level] + (1 - weights) * estimates, weights * self.above_variances[level]
            levels.append((estimates, variances))
        return levels[::-1]

    def _is_led_by_first(self, level: int) -> bool:
        """Whether the first stage has less noise on a level than the second, however few parts that has: a public fact."""
        return self._first[1][level] < self.second_variance * 2.0 ** (self.coarse_depth - level)

    @cached_property
    def _left_shares(self) -> list[np.ndarray | float]:
        """Share of a deficit that goes to the left child at each level down to the coarse cells.

        By the children's variances; but where the first stage leads one half, which does not depend on it.
        """
        levels = enumerate(self._joined_levels[1:], 1)
        return [0.5 if self._is_led_by_first(level) else v[0::2] / (v[0::2] + v[1::2]) for level, (_, v) in levels]

    def _shared(
        self, estimates: Sequence[np.ndarray], root: np.ndarray, variances: Sequence[Any], left_shares: Sequence[Any]
    ) -> tuple[np.ndarray, list[float]]:
        if self.noise_free or len(self.fine) > MOST_LEARNED:
            return mass_from_root(estimates, root, left_shares), [0.0] * len(estimates)
        return posterior_mass(estimates, root, variances, left_shares, self._fitted_prior)[:2]

    @cached_property
    def _levels(self) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray], list[np.ndarray | float]]:
        """Estimates, root, variances and left shares of the levels down to the coarse cells."""
        return self.joined[1:], np.array(self.n, dtype=float), [v for _, v in self._joined_levels[1:]], self._left_shares

    @cached_property
    def _fitted_prior(self) -> np.ndarray:
        return fit_prior(*self._levels)

    @cached_property
    def _coarse(self) -> tuple[np.ndarray, list[float]]:
        return self._shared(*self._levels)

    def coarse_mass(self) -> np.ndarray:
        """Return the mass of each coarse cell: non-negative, n in all."""
        return self._coarse[0]

    def measure(self) -> tuple[DiscreteMeasure, float]:
        """Return the measure on the cells of the second stage, and a number whose expectation bounds E W1.

        The distance is that between the rows and n rows sampled from the measure.
        """
        (coarse_mass, learned), n_kept = self._coarse, 0
        learned = learned + [0.0] * int(self.refinement.max(initial=0))
        # Room for all, of which those with mass are kept: to join lists of them would take twice the memory.
        cells, levels, mass = (np.empty(len(self.fine), dtype=dtype) for dtype in (np.int64, np.int8, float))
        for halvings, members, below in self._groups():
            variances = [self.second_variance * 2.0**i for i in reversed(range(halvings))]
            shared, moved = self._shared(below[1:], coarse_mass[members], variances, [0.5] * halvings)
            shared = shared.ravel()
            for i, units in enumerate(moved):
                learned[self.coarse_depth + i] += units
            keep = np.flatnonzero(shared > 0)
            some = slice(n_kept, n_kept := n_kept + len(keep))
            cells[some] = ((members[:, None] << halvings) + np.arange(1 << halvings)).ravel()[keep]
            levels[some], mass[some] = self.coarse_depth + halvings, shared[keep]
        for array in (cells, levels, mass):
            array.resize(n_kept, refcheck=False)
        measure = DiscreteMeasure.from_mass(self.partition, cells, levels, mass)
        return measure, self._bound(measure, learned)

    def _bound(self, measure: DiscreteMeasure, learned: Sequence[float]) -> float:
        """Bound E W1 by the mass that noise moves, the mass that learning moves on top (seen), rounding, and the size of cells.

        The joined estimate is z = y + c with y the estimate of one stage, and c seen. Where the second stage leads, y is its sum: given the
        first stage its noise is centered, independent and of known variance. Where the first leads, y is its least-squares estimate, whose
        variance is known, and which is not conditioned on. So the mass moved in a node is at most abs(c-part) plus a term of known standard
        deviation. (Nothing is assumed of the first stage's noise where weights depend on it.)
        """
        deepest = int(measure.levels.max())
        widest = widest_diameters(self.partition, max(deepest, self.coarse_depth + int(self.refinement.max(initial=0))))
        moved = sum([*self._transport_above(widest), *self._transport_below(widest)])
        moved += sum(units * width for units, width in zip(learned, widest, strict=False))
        inside = float(np.sum(measure.weights * np.array(widest)[measure.levels]))
        return min((moved + rounding_bound(self.partition, deepest, self.n)) / self.n + inside, widest[0])

    def _transport_above(self, widest: list[float]) -> Iterator[float]:
        """Yield the expected transport between coarse cells, level by level."""
        fine, variances = (level_sums(values, self.coarse_depth) for values in (self._fine_sums, self._fine_variances))
        for i, share in enumerate(self._left_shares):
            if self._is_led_by_first(i + 1):
                own, unseen = self._first[0][i + 1], 2.0**i * math.sqrt(self._first[1][i + 1] / 2)
            else:
                own, v = fine[i + 1], variances[i + 1]
                unseen = float(np.sum(np.sqrt((1 - share) ** 2 * v[0::2] + share**2 * v[1::2])))
            c = self.joined[i + 1] - own
            seen = float(np.sum(np.abs((1 - share) * c[0::2] - share * c[1::2])))
            yield (seen + (0.0 if self.noise_free else unseen)) * widest[i]

    def _transport_below(self, widest: list[float]) -> Iterator[float]:
        """Yield the expected transport within coarse cells, level by level."""
        for i in range(0 if self.noise_free else int(self.refinement.max(initial=0))):
            # A node i levels below a coarse cell that is halved k times has children of variance v 2**(k - i - 1).
            k = self.refinement[self.refinement > i]
            unseen = float(np.sum(2.0**i * np.sqrt(self.second_variance * 2.0 ** (k - i - 1) / 2)))
            yield min(unseen, self.n) * widest[self.coarse_depth + i]


_IN_TABLES /= _IN_TABLES.sum(axis=1, keepdims=True)
_HALVES, _EDGES = len(_ABOUT_HALF), len(_ABOUT_EDGE)
_DEVIATIONS = np.concatenate([_ABOUT_HALF, _ABOUT_EDGE, _ABOUT_EDGE])[:, None]
_CENTERS = np.repeat([0.5, 0.0, 1.0], [_HALVES, _EDGES, _EDGES])[:, None]
_BY_CHANCE = np.repeat([0.25, 0.0], [_HALVES, 2 * _EDGES])[:, None]
_MERGED = np.vstack([np.eye(_HALVES + _EDGES), np.eye(_EDGES, _HALVES + _EDGES, _HALVES)])  # kinds about 1 are those about 0
_SPREAD = _MERGED.T / _MERGED.sum(axis=0)[:, None]
_FAIR = _MERGED @ _SPREAD  # neither child is favored
_TABLES = np.array([0.1, 0.2, 0.7])
DEFAULT_PRIOR = _TABLES @ _IN_TABLES  # before any count of a table is seen
NO_PAIRS = np.empty((len(_CENTERS), 0))  # likelihoods of no node
_NODES = 1.5  # weight of the prior, in nodes
_ROUNDS = 6
_MOST = 1 << 11  # nodes of a level; beyond, time matters and the noise of each counts little
_NONE = 1e-9  # mass that is not worth sharing
_LEAST = 1e-18  # variance of a share: less would be lost in rounding


def fit_prior(
    estimates: Sequence[np.ndarray], root: np.ndarray, variances: Sequence[np.ndarray | float], left_shares: Sequence[np.ndarray | float]
) -> np.ndarray:
    """Return how usual each kind of share is in this table: the mean over kinds of tables, by their likelihood over all levels.

    A node's children share its mass evenly (where rows are spread out), one of them has all of it (where rows crowd), or anything between.
    How often each happens depends on the kind of table, about which all levels inform, and is learned from the noisy counts of the level
    themselves. Each share is its posterior mean.
    """
    return prior_of(posterior_mass(estimates, root, variances, left_shares, DEFAULT_PRIOR)[2])


def prior_of(likelihoods: Iterable[np.ndarray]) -> np.ndarray:
    """Return how usual each kind of share is, from the likelihoods that `left_mass` gives of each level."""
    kinds = _IN_TABLES @ _SPREAD
    evidence = sum((np.log(np.einsum("tk,kn->tn", kinds, each)).sum(axis=1) for each in likelihoods), np.zeros(len(_TABLES)))
    tables = _TABLES * np.exp(evidence - evidence.max())
    return tables / tables.sum() @ _IN_TABLES


def posterior_mass(
    estimates: Sequence[np.ndarray],
    root: np.ndarray,
    variances: Sequence[np.ndarray | float],
    left_shares: Sequence[np.ndarray | float],
    usual: np.ndarray,
) -> tuple[np.ndarray, list[float], list[np.ndarray]]:
    """Share the root's mass downwards, each node by the posterior mean of its left child's share.

    The estimates are signed, with noise that is independent from node to node. Returned are the mass of the last level; by level of the
    parents, how much mass went to another child than by `mass_from_root`, and the likelihoods of `left_mass`.
    """
    mass, moved, likelihoods = np.asarray(root, dtype=float)[..., None], [], []
    for level, variance, share in zip(estimates, variances, left_shares, strict=True):
        left, units, likelihood = left_mass(mass, level, variance, share, usual)
        moved.append(units)
        likelihoods.append(likelihood)
        mass = interleave_siblings(left, mass - left)
    return mass, moved, likelihoods


def left_mass(
    mass: np.ndarray, estimates: np.ndarray, variances: np.ndarray | float, share: np.ndarray | float, usual: np.ndarray | None
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the mass of each left child, how much mass the prior `usual` moved to another child, and the likelihood of kinds of shares.

    The estimates of children lie side by side. `share` is that of a deficit for the left child; without `usual` the estimates alone decide.
    """
    left_estimate, right_estimate = estimates[..., 0::2], estimates[..., 1::2]
    raw = left_estimate + share * (mass - left_estimate - right_estimate)
    left = np.minimum(np.maximum(raw, 0), mass)
    if usual is None or mass.size > _MOST:
        return left, 0.0, NO_PAIRS
    of_left, of_right = (variances[..., 0::2], variances[..., 1::2]) if isinstance(variances, np.ndarray) else (variances, variances)
    some = mass > _NONE
    whole = mass[some]
    noise = (np.zeros(mass.shape) + ((1 - share) ** 2 * of_left + share**2 * of_right))[some]
    shares, likelihood = _posterior(raw[some] / whole, np.maximum(noise / whole**2, _LEAST), whole, usual)
    learned = shares * whole
    moved = float(np.abs(learned - left[some]).sum())
    left[some] = learned
    return left, moved, likelihood


def _posterior(seen: np.ndarray, noise: np.ndarray, rows: np.ndarray, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean of shares observed with normal noise, and the likelihood of each kind of share, by node, up to a factor.

    A share is normal about a half, or about 0 or 1 (equally often), with one of some deviations. Rows that fall into either half by chance
    add a variance of 1 / (4 rows) about a half. The frequencies of the kinds maximize the likelihood, with a few nodes added that have the
    usual ones (expectation and maximization).
    """
    own = _DEVIATIONS**2 + _BY_CHANCE / np.maximum(rows, 1.0)
    total = own + noise
    off = seen - _CENTERS
    likelihood = -0.5 * (off**2 / total + np.log(total))
    likelihood = np.exp(likelihood - likelihood.max(axis=0, initial=-np.inf))
    usual = usual @ _SPREAD
    kinds, added = usual, _NODES * usual
    for _ in range(_ROUNDS):  # up to a factor, which cancels
        kinds = (kinds * np.einsum("kn,n->k", likelihood, 1 / np.einsum("k,kn->n", kinds, likelihood))) @ _FAIR + added
    joint = kinds[:, None] * likelihood
    means = np.minimum(np.maximum(_CENTERS + off * (own / total), 0), 1)
    shares = np.einsum("kn,kn->n", joint, means) / joint.sum(axis=0)
    return np.minimum(shares, 1.0), likelihood  # rounding may make one a little more
