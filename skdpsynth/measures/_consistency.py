"""Measures from noisy counts of a partition: the budget of its levels, least squares upwards, masses from the root downwards, two stages.

All follows from released counts and public numbers. A level is an array; its entries 2i and 2i + 1 are the children of entry i above.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.measures._line_bound import BoundaryNoise, is_line, moved_on_a_line
from skdpsynth.measures._measure import DiscreteMeasure
from skdpsynth.measures._partition import Partition
from skdpsynth.persistence import savable

_THOUSANDTHS = 1000  # shares are whole thousandths, so that fractions sum to 1
_MOST_LEVELS = 6  # levels that share the budget at a start of the search
_STEPS = 100
_PARTS = 1 << 18  # parts whose sums are made at a time
_MOST_LEARNED = 1 << 14  # parts; beyond, least squares alone was measured to be faster and better
_MIN_TIMES = 1e-9  # of an even share of the rows
_USUAL_PARTS = 16  # of a coarse cell
_CLEAR = 2.0  # standard errors
_FEWEST_ROWS = 1e-9

# Deviations of shares about a half (beyond those of chance) and about 0 or 1; how usual each is in an even, a smooth and a crowded table;
# and how usual such tables are. Chosen among many by the W1 of one and two features on the sets of benchmarks/hindsight.py.
_ABOUT_HALF = np.array([0.0, 0.03, 0.15, 0.4])
_ABOUT_EDGE = np.array([0.0, 0.08])
_IN_TABLES = np.array([[20.0, 4.0, 2.0, 0.5, 0.5, 0.5], [1.0, 1.0, 16.0, 8.0, 2.0, 4.0], [2.0, 1.0, 4.0, 4.0, 40.0, 40.0]])
_IN_TABLES /= _IN_TABLES.sum(axis=1, keepdims=True)
_TABLES = np.array([0.1, 0.2, 0.7])
_HALVES, _EDGES = len(_ABOUT_HALF), len(_ABOUT_EDGE)
_VARIANCES = np.concatenate([_ABOUT_HALF, _ABOUT_EDGE, _ABOUT_EDGE])[:, None] ** 2
_CENTERS = np.repeat([0.5, 0.0, 1.0], [_HALVES, _EDGES, _EDGES])[:, None]
_BY_CHANCE = np.repeat([0.25, 0.0], [_HALVES, 2 * _EDGES])[:, None]
_MERGED = np.vstack([np.eye(_HALVES + _EDGES), np.eye(_EDGES, _HALVES + _EDGES, _HALVES)])  # kinds about 1 are those about 0
_SPREAD = _MERGED.T / _MERGED.sum(axis=0)[:, None]
_FAIR = _MERGED @ _SPREAD  # neither child is favored
DEFAULT_PRIOR = _TABLES @ _IN_TABLES  # before any count of a table is seen
_NO_PAIRS = np.empty((len(_CENTERS), 0))  # likelihoods of no node
_NODES = 1.5  # weight of the prior, in nodes
_ROUNDS = 6
_MOST_NODES = 1 << 11  # of a level; beyond, time matters and the noise of each counts little
_NONE = 1e-9  # mass that is not worth sharing
_LEAST = 1e-18  # variance of a share: less would be lost in rounding


def least_squares(noisy: Sequence[np.ndarray | None], variances: Sequence[float]) -> tuple[list[np.ndarray], list[float]]:
    """Return the best linear unbiased estimate of every node's count from its own subtree (upward pass), and its variance at each level.

    A level that was not released is None; the last one must be there. The variances satisfy ``1/t_j = 1/v_j + 1/(2 t_{j+1})``.
    """
    estimates, errors = [np.asarray(noisy[-1], dtype=float)], [variances[-1]]
    for level, variance in zip(reversed(noisy[:-1]), reversed(variances[:-1]), strict=True):
        from_children, error = pair_sums(estimates[-1]), 2 * errors[-1]
        if level is not None:
            weight = error / (variance + error)
            from_children = weight * level + (1 - weight) * from_children
            error = weight * variance
        estimates.append(from_children)
        errors.append(error)
    return estimates[::-1], errors[::-1]


def pair_sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of siblings (strided: several times faster than a reshape)."""
    return values[..., 0::2] + values[..., 1::2]


def interleave_siblings(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the values of a level from those of its left and right children."""
    level = np.empty((*left.shape[:-1], 2 * left.shape[-1]), dtype=left.dtype)
    level[..., 0::2], level[..., 1::2] = left, right
    return level


def mass_from_root(estimates: Sequence[np.ndarray], root: np.ndarray, left_shares: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """Share the root's mass downwards: each node gives its children as much as their signed estimates say, within [0, mass].

    Arrays have the shapes (..., 2**j), so that many roots are shared at once. `left_shares` are the shares of a deficit that go to the left
    child at each level; None: one half.
    """
    shares = [0.5] * len(estimates) if left_shares is None else left_shares
    return posterior_mass(estimates, root, [0.0] * len(estimates), shares, None)[0]


def mass_from_root_unclipped(estimates: Sequence[np.ndarray], root: float) -> np.ndarray:
    """Return what `mass_from_root` does without the limits of 0 and the mass: signed, but unbiased. `estimates` begin with the root's."""
    mass = np.array([float(root)])
    for level in estimates[1:]:
        left = (mass + level[0::2] - level[1::2]) / 2
        mass = interleave_siblings(left, mass - left)
    return mass


def uniform_consistency(counts: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Apply Algorithm 3 of the dissertation with its uniform transformation to clamped integer counts of the levels 0 to r.

    The randomness is public: it says which child takes the odd unit of a deficit.
    """
    mass = counts[0]
    for level in counts[1:]:
        twice = mass + level[0::2] - level[1::2]
        left = np.clip(twice + rng.integers(0, 2, len(twice)) >> 1, 0, mass)
        mass = interleave_siblings(left, mass - left)
    return mass


@lru_cache(maxsize=256)
@np.errstate(under="ignore")  # shares that go to zero do so by underflow
def optimal_shares(total_diameters: tuple[float, ...]) -> tuple[Fraction, ...]:
    """Return the shares of the budget that minimize the bound on E W1 of least squares and mass from the root.

    Minimizes ``sum_{i<r} W_i sqrt(t_{i+1} / 2)`` over the simplex, with W_i the sum of the diameters of the cells of level i, ``v_j``
    proportional to ``1 / share_j**2``, and t of `least_squares`. The shares are those of the levels 0, ..., r and sum to 1; the root has
    none, and a level without a share is not released.
    """
    W, r = np.array(total_diameters), len(total_diameters)
    level = np.arange(r)
    # Unrolled, the recursion of `least_squares` reads 1 / t_j = sum_{k >= j} share_k**2 2**(j - k).
    decay = np.triu(2.0 ** (level[:, None] - level))

    def bounds(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        precision = np.maximum(shares**2 @ decay.T, 1e-30)
        return (W / np.sqrt(precision)).sum(axis=-1), W / precision**1.5

    # The bound has many local minima, each with few levels: start from every first level and number of levels.
    starts = np.full((_MOST_LEVELS, r, r), 0.02)
    for i, first in product(range(_MOST_LEVELS), range(r)):
        starts[i, first, np.rint(np.linspace(first, r - 1, i + 1)).astype(int)] = 1.0
    shares = starts.reshape(-1, r)
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        # Majorize and minimize, so that no step raises the bound: by Jensen's inequality it is at most sum_k c_k / share_k, with
        # equality at the present shares and c_k = share_k**3 times the sum below; the minimum has shares proportional to sqrt(c_k).
        shares *= np.sqrt(shares * (bounds(shares)[1] @ decay))
        shares /= shares.sum(axis=1, keepdims=True)

    parts = np.rint(_THOUSANDTHS * shares)
    parts[parts < 2] = 0
    parts[:, -1] = np.maximum(parts[:, -1], 2)
    parts[np.arange(len(parts)), np.argmax(parts, axis=1)] += _THOUSANDTHS - parts.sum(axis=1)
    best = parts[np.argmin(bounds(parts)[0])]
    return (Fraction(0), *(Fraction(int(part), _THOUSANDTHS) for part in best))


def paper_shares(total_diameters: Sequence[float]) -> tuple[Fraction, ...]:
    """Return the shares of equation (3.7): proportional to ``sqrt(W_{j-1})`` for the levels j = 0, ..., r, with W_{-1} = W_0."""
    roots = np.sqrt([total_diameters[0], *total_diameters])
    parts = np.maximum(1, np.floor(2**20 * roots / roots.sum())).astype(int)
    parts[-1] += 2**20 - parts.sum()
    return tuple(Fraction(int(part), 2**20) for part in parts)


def level_sums(leaves: np.ndarray, depth: int) -> list[np.ndarray]:
    """Return the sums of the levels 0, ..., `depth` of a complete binary tree, from the values of its leaves."""
    levels = [leaves]
    for _ in range(depth):
        levels.append(pair_sums(levels[-1]))
    return levels[::-1]


def total_diameters(partition: Partition, depth: int) -> tuple[float, ...]:
    """Return W_i, the sum of the diameters of the cells of level i, for i < `depth`."""
    totals: list[float] = []
    for i in range(depth):
        d = partition.diameters(i)
        totals.append(2.0**i * d if isinstance(d, float) else float(np.sum(np.broadcast_to(d, 1 << i))))
    return tuple(totals)


def _widest_diameters(partition: Partition, depth: int) -> list[float]:
    """Return the diameter of the widest cell of each level from 0 to `depth`."""
    return [float(np.max(partition.diameters(level))) for level in range(depth + 1)]


def _rounding_bound(widest: Sequence[float], depth: int, n: float) -> float:
    """Bound n times the expected transport of rounding to n rows along the curve: half a unit a node, never more than n a level."""
    return sum(width * min(2.0**i / 2, n) for i, width in enumerate(widest[:depth]))


def measure_of_leaves(partition: Partition, depth: int, mass: np.ndarray) -> DiscreteMeasure:
    """Return the measure with the given non-negative mass on all cells of one level."""
    cells = np.arange(1 << depth)
    return DiscreteMeasure.from_mass(partition, cells, np.full(len(cells), depth, dtype=np.int8), mass)


def bound_of_least_squares(partition: Partition, depth: int, n: float, errors: Sequence[float], *, noise_free: bool = False) -> float:
    """Bound E W1 of least squares on a tree with mass shared from the root.

    Halving a deficit, a node moves half the difference of its children's errors, whose mean absolute value is at most its deviation
    ``sqrt(t_{i+1} / 2)``; each unit moves at most the diameter of the node. `errors` are the variances of the levels 0, ..., `depth`, from
    `least_squares`; without noise they are weights, not variances.
    """
    totals, widest = total_diameters(partition, depth), _widest_diameters(partition, depth)
    moved = sum(0.0 if noise_free else min(totals[i] * math.sqrt(errors[i + 1] / 2), n * widest[i]) for i in range(depth))
    return min((moved + _rounding_bound(widest, depth, n)) / n + widest[depth], widest[0])


def bound_on_a_line(partition: Partition, estimates: Sequence[np.ndarray], errors: Sequence[float], mass: np.ndarray, n: float) -> float:
    """Bound E W1 of least squares on a line with mass shared from the root, by `_line_bound`; without noise `errors` are zero."""
    unclipped, depth = mass_from_root_unclipped(estimates, n), len(errors) - 1
    gaps = np.append(0.0, np.cumsum(unclipped - mass)[:-1])
    moved = moved_on_a_line(unclipped[:, None], mass[:, None], gaps, BoundaryNoise.of_tree(errors), 0.0)
    widest = _widest_diameters(partition, depth)
    return min((moved / n + 1) * widest[depth], widest[0])


def bound_of_clamped_counts(partition: Partition, depth: int, n: float, total: float, spreads: Sequence[float]) -> float:
    """Bound E W1 of the papers' algorithm: clamped counts, made consistent by the uniform transformation.

    `total` is the noisy count of the root, at least 1; `spreads` are the mean absolute noises of a count of the levels 0, ..., `depth`.
    """
    totals, widest = total_diameters(partition, depth), _widest_diameters(partition, depth)
    moved = sum(min(totals[i] * spreads[i + 1], total * widest[i]) for i in range(depth)) + _rounding_bound(widest, depth, n)
    return min(moved / total + widest[0] * abs(total - n) / max(total, n) + widest[depth], widest[0])


def choose_refinement(estimates: Sequence[np.ndarray], n: float, halvings: float, most: int) -> np.ndarray:
    """Return how often each coarse cell is halved in the second stage: a function of the first stage and of public numbers.

    A cell with an even share of the rows is halved `halvings` times, rounded down; one with k times as many has k times as many parts; none
    is halved more than `most` times. `estimates` are those of the levels 0, 1, ... by the first stage.
    """
    rough = mass_from_root(estimates[1:], np.array(n, dtype=float))
    times = rough * (len(rough) / n)
    refinement = np.maximum(halvings + np.log2(np.maximum(times, _MIN_TIMES)), 0.0).astype(np.int64)
    return np.minimum(refinement, most, out=refinement)


class _Level(NamedTuple):
    """Estimates of a level from both stages."""

    estimates: np.ndarray  # unbiased, with the least variance
    variances: np.ndarray  # ... if the second stage did not follow from the first
    own: np.ndarray  # estimates of one stage alone: the first, if it has less noise than the second, however few parts that has
    own_variances: np.ndarray | float  # one number of the first; so which stage leads is a public fact
    left_share: np.ndarray | float  # of a deficit of the parents: by the variances, but a half where the first stage leads


@savable
@dataclass(frozen=True, eq=False)
class TwoStages:
    """Two independent noisy histograms: of the cells of one level, and of a partition that halves each of these some times more."""

    partition: Partition
    n: int  # of rows
    coarse: np.ndarray  # noisy counts of the coarse cells, shape (2**coarse_depth,), int
    refinement: np.ndarray  # how often each coarse cell was halved for the second stage, int64
    fine: np.ndarray  # noisy counts of the second stage, shape (sum(2**refinement),), int, in the order of `Histogram.over_refined`
    first_variance: float  # of the noise of a count; without noise a weight for joining
    second_variance: float
    noise_free: bool = False
    above: Sequence[Any] = ()  # noisy counts of the levels 0, ..., coarse_depth - 1, or None, where the first stage has them; else empty
    above_variances: Sequence[float] = ()

    @property
    def coarse_depth(self) -> int:
        return len(self.coarse).bit_length() - 1

    def pairs(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray | float]]:
        """Yield the siblings that were counted, in groups: their level, their parents, and estimates with variances."""
        for i, level in enumerate(self.join()[1:], 1):
            yield i, np.arange(1 << (i - 1)), level.estimates, level.variances
        for halvings, members, below in self._groups():
            for i in range(1, halvings + 1):
                parents = (members[:, None] << (i - 1)) + np.arange(1 << (i - 1))
                yield self.coarse_depth + i, parents.ravel(), below[i].ravel(), self.second_variance * 2.0 ** (halvings - i)

    def _groups(self) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
        """Yield coarse cells that are halved equally often, in the order of `fine`: halvings, cells, and the sums of each level of parts.

        In groups, as these sums take twice the memory of the parts.
        """
        start = 0
        for halvings in np.unique(self.refinement).tolist():
            alike = np.flatnonzero(self.refinement == halvings)
            at_once = max(1, _PARTS >> halvings)
            for first in range(0, len(alike), at_once):
                members = alike[first : first + at_once]
                parts = self.fine[start : start + (len(members) << halvings)].reshape(len(members), -1).astype(float)
                start += parts.size
                yield halvings, members, level_sums(parts, halvings)

    def _levels_above(self) -> tuple[Sequence[Any], Sequence[float]]:
        return self.above or [None] * self.coarse_depth, self.above_variances or [math.inf] * self.coarse_depth

    def first_stage(self) -> tuple[list[np.ndarray], list[float]]:
        """Return the estimates of the levels 0, ..., coarse_depth by the first stage alone, and their variances."""
        above, variances = self._levels_above()
        return least_squares([*above, self.coarse], [*variances, self.first_variance])

    def first_leads(self, errors: Sequence[float]) -> bool:
        """Whether the first stage, with these variances, tells the number of rows better than the second: a public fact."""
        return errors[0] < _USUAL_PARTS * self.second_variance * 2.0**self.coarse_depth

    def fine_sums(self) -> np.ndarray:
        """Return the counts of the coarse cells by the second stage."""
        sums = np.empty(len(self.coarse))
        for _, members, below in self._groups():
            sums[members] = below[0][:, 0]
        return sums

    def join(self) -> list[_Level]:
        """Join both stages at the levels 0, ..., coarse_depth."""
        depth, (above, above_variances) = self.coarse_depth, self._levels_above()
        first, first_errors = self.first_stage()
        sums, variances = self.fine_sums(), self.second_variance * 2.0**self.refinement
        second, second_errors = level_sums(sums, depth), level_sums(variances, depth)
        weights = variances / (self.first_variance + variances)
        estimates, variances = weights * self.coarse + (1 - weights) * sums, weights * self.first_variance
        levels = []
        for i in reversed(range(depth + 1)):
            if i < depth:
                estimates, variances = pair_sums(estimates), pair_sums(variances)
            if i < depth and above[i] is not None:
                weights = variances / (above_variances[i] + variances)
                estimates, variances = weights * above[i] + (1 - weights) * estimates, weights * above_variances[i]
            if first_errors[i] < self.second_variance * 2.0 ** (depth - i):
                levels.append(_Level(estimates, variances, first[i], float(first_errors[i]), 0.5))
            else:
                left_share = variances[0::2] / pair_sums(variances) if i else 0.5
                levels.append(_Level(estimates, variances, second[i], second_errors[i], left_share))
        return levels[::-1]

    def join_number(self, error: float) -> tuple["TwoStages", float]:
        """Return the same counts with a better number of rows, and a bound on its expected error; `error` is that of the noisy `n`.

        All counts and the noisy number are joined by inverse variance. The bound is that of a number joined with the counts of one stage,
        which one is a public fact, and the distance of both, which is seen. The noise of that stage is independent of that of `n`, and
        centered and of known variance given the weight, so its mean absolute value is at most its deviation.
        """
        first, first_errors = self.first_stage()
        if self.first_leads(first_errors):
            counted, variance = float(first[0][0]), first_errors[0]
        else:
            counted, variance = float(self.fine.sum()), self.second_variance * len(self.fine)
        root, of_n = self.join()[0], 2 * error**2
        weight, best_weight = variance / (variance + of_n), float(root.variances[0]) / (float(root.variances[0]) + of_n)
        one, best = (w * self.n + (1 - w) * count for w, count in ((weight, counted), (best_weight, float(root.estimates[0]))))
        return replace(self, n=max(1, round(best))), weight * error + (1 - weight) * math.sqrt(variance) + abs(best - one)

    def coarse_mass(self, levels: Sequence[_Level]) -> tuple[np.ndarray, list[float], np.ndarray | None]:
        """Return the mass of each coarse cell (n in all), how much of it learning moved by level, and what was learned of shares."""
        joined = [level.estimates for level in levels[1:]], np.array(self.n, dtype=float)
        more = [level.variances for level in levels[1:]], [level.left_share for level in levels[1:]]
        prior = None
        if not self.noise_free and len(self.fine) <= _MOST_LEARNED:
            prior = prior_of(posterior_mass(*joined, *more, DEFAULT_PRIOR)[2])
        return *posterior_mass(*joined, *more, prior)[:2], prior

    def measure(self) -> tuple[DiscreteMeasure, float]:
        """Return the measure on the cells of the second stage, and a number whose expectation bounds E W1.

        The distance is that between the rows and n rows sampled from the measure.
        """
        levels = self.join()
        coarse_mass, learned, prior = self.coarse_mass(levels)
        line = _LineOfStages.of(self, coarse_mass) if is_line(self.partition) else None
        learned, n_kept = learned + [0.0] * int(self.refinement.max(initial=0)), 0
        # Room for all, of which those with mass are kept: to join lists of them would take twice the memory.
        cells, depths, mass = (np.empty(len(self.fine), dtype=dtype) for dtype in (np.int64, np.int8, float))
        for halvings, members, below in self._groups():
            variances = [self.second_variance * 2.0**i for i in reversed(range(halvings))]
            shared, moved, _ = posterior_mass(below[1:], coarse_mass[members], variances, [0.5] * halvings, prior)
            if line is not None:
                line.add(halvings, members, below[-1], shared)
            shared = shared.ravel()
            for i, units in enumerate(moved, self.coarse_depth):
                learned[i] += units
            keep = np.flatnonzero(shared > 0)
            some = slice(n_kept, n_kept := n_kept + len(keep))
            cells[some] = ((members[:, None] << halvings) + np.arange(1 << halvings)).ravel()[keep]
            depths[some], mass[some] = self.coarse_depth + halvings, shared[keep]
        for array in (cells, depths, mass):
            array.resize(n_kept, refcheck=False)
        measure = DiscreteMeasure.from_mass(self.partition, cells, depths, mass)
        return measure, self._bound(levels, measure, learned) if line is None else line.bound(measure)

    def _bound(self, levels: Sequence[_Level], measure: DiscreteMeasure, learned: Sequence[float]) -> float:
        """Bound E W1 by the mass that noise moves, the mass that learning moves on top (seen), rounding, and the size of cells.

        The joined estimate is z = y + c with y the estimate of one stage, and c seen. Where the second stage leads, y is its sum: given the
        first stage its noise is centered, independent and of known variance. Where the first leads, y is its least-squares estimate, whose
        variance is known, and which is not conditioned on. So the mass moved in a node is at most abs(c-part) plus a term of known standard
        deviation. (Nothing is assumed of the first stage's noise where weights depend on it.)
        """
        depth, deepest, halvings = self.coarse_depth, int(measure.levels.max()), int(self.refinement.max(initial=0))
        widest, moved = _widest_diameters(self.partition, max(deepest, depth + halvings)), []
        for i, level in enumerate(levels[1:]):  # between coarse cells
            share, v = level.left_share, level.own_variances
            if isinstance(v, np.ndarray):
                unseen = float(np.sum(np.sqrt((1 - share) ** 2 * v[0::2] + share**2 * v[1::2])))
            else:
                unseen = 2.0**i * math.sqrt(v / 2)
            c = level.estimates - level.own
            seen = float(np.sum(np.abs((1 - share) * c[0::2] - share * c[1::2])))
            moved.append((seen + (0.0 if self.noise_free else unseen)) * widest[i])
        for i in range(0 if self.noise_free else halvings):  # within coarse cells
            # A node i levels below a coarse cell that is halved k times has children of variance v 2**(k - i - 1).
            k = self.refinement[self.refinement > i]
            unseen = float(np.sum(2.0**i * np.sqrt(self.second_variance * 2.0 ** (k - i - 1) / 2)))
            moved.append(min(unseen, self.n) * widest[depth + i])
        by_learning = sum(units * width for units, width in zip(learned, widest, strict=False))
        inside = float(np.sum(measure.weights * np.array(widest)[measure.levels]))
        return min((sum(moved) + by_learning + _rounding_bound(widest, deepest, self.n)) / self.n + inside, widest[0])


@dataclass(kw_only=True)
class _LineOfStages:
    """The bound of `_line_bound` for two stages, added up over groups of coarse cells.

    Which stage says how many rows a coarse cell has in H is a public fact. If it is the first, its noise is not conditioned on, and that
    of the second, given the first, comes on top. If it is the second, all of its noise is known given the first.
    """

    stages: TwoStages
    gaps: np.ndarray  # left of each coarse cell
    unclipped: np.ndarray  # of H in each coarse cell
    noise: BoundaryNoise
    moved: float = 0.0  # rows times the length of a part

    @classmethod
    def of(cls, stages: TwoStages, coarse_mass: np.ndarray) -> "_LineOfStages":
        first, errors = stages.first_stage()
        if stages.first_leads(errors):
            unclipped, noise = mass_from_root_unclipped(first, stages.n), BoundaryNoise.of_tree(errors)
        else:
            numbers, sums = 2.0**stages.refinement, stages.fine_sums()
            unclipped = sums + numbers * ((stages.n - sums.sum()) / numbers.sum())
            noise = BoundaryNoise.of_parts(numbers, stages.second_variance)
        if stages.noise_free:
            noise = BoundaryNoise(*(0 * moments for moments in noise))
        upto = np.cumsum(unclipped - coarse_mass)
        return cls(stages=stages, gaps=np.append(0.0, upto[:-1]), unclipped=unclipped, noise=noise)

    def add(self, halvings: int, members: np.ndarray, parts: np.ndarray, shared: np.ndarray) -> None:
        rest = (self.unclipped[members] - parts.sum(axis=1)) / parts.shape[1]
        variance = 0.0 if self.stages.noise_free else self.stages.second_variance
        moved = moved_on_a_line(parts + rest[:, None], shared, self.gaps[members], self.noise.take(members), variance)
        self.moved += moved * float(np.max(self.stages.partition.diameters(self.stages.coarse_depth + halvings)))

    def bound(self, measure: DiscreteMeasure) -> float:
        widest = _widest_diameters(self.stages.partition, int(measure.levels.max()))
        inside = float(np.sum(measure.weights * np.array(widest)[measure.levels]))
        return min(self.moved / self.stages.n + inside, widest[0])


def prior_of(likelihoods: Iterable[np.ndarray]) -> np.ndarray:
    """Return how usual each kind of share is in a table: the mean over kinds of tables, by their likelihood over all levels.

    A node's children share its mass evenly (where rows are spread out), one of them has all of it (where rows crowd), or anything between.
    How often each happens depends on the kind of table, about which all levels inform, and is learned from the noisy counts of the level
    themselves. Each share is its posterior mean. `likelihoods` are those that `left_mass` gives of each level.
    """
    kinds, evidence = _IN_TABLES @ _SPREAD, np.zeros(len(_TABLES))
    for each in likelihoods:
        evidence = evidence + np.log(np.einsum("tk,kn->tn", kinds, each)).sum(axis=1)
    tables = _TABLES * np.exp(evidence - evidence.max())
    return tables / tables.sum() @ _IN_TABLES


def posterior_mass(
    estimates: Sequence[np.ndarray],
    root: np.ndarray,
    variances: Sequence[np.ndarray | float],
    left_shares: Sequence[np.ndarray | float],
    prior: np.ndarray | None,
) -> tuple[np.ndarray, list[float], list[np.ndarray]]:
    """Share the root's mass downwards, each node by the posterior mean of its left child's share; without a prior as `mass_from_root`.

    The estimates are signed, with noise that is independent from node to node. Returned are the mass of the last level; by level of the
    parents, how much mass went to another child than by `mass_from_root`, and the likelihoods of `left_mass`.
    """
    mass, moved, likelihoods = np.asarray(root, dtype=float)[..., None], [], []
    for level, variance, share in zip(estimates, variances, left_shares, strict=True):
        left, units, likelihood = left_mass(mass, level, variance, share, prior)
        moved.append(units)
        likelihoods.append(likelihood)
        mass = interleave_siblings(left, mass - left)
    return mass, moved, likelihoods


def left_mass(
    mass: np.ndarray, estimates: np.ndarray, variances: np.ndarray | float, share: np.ndarray | float, prior: np.ndarray | None
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the mass of each left child, how much mass the prior moved to another child, and the likelihood of kinds of shares.

    The estimates of children lie side by side. `share` is that of a deficit for the left child; without a prior the estimates alone decide.
    """
    left_estimate, right_estimate = estimates[..., 0::2], estimates[..., 1::2]
    raw = left_estimate + share * (mass - left_estimate - right_estimate)
    left = np.minimum(np.maximum(raw, 0), mass)
    if prior is None or mass.size > _MOST_NODES:
        return left, 0.0, _NO_PAIRS
    of_left, of_right = (variances[..., 0::2], variances[..., 1::2]) if isinstance(variances, np.ndarray) else (variances, variances)
    noise = np.broadcast_to((1 - share) ** 2 * of_left + share**2 * of_right, mass.shape).ravel()
    whole, raw, flat, some = mass.ravel(), raw.ravel(), left.reshape(-1), mass.ravel() > _NONE
    if not some.all():
        whole, raw, noise = whole[some], raw[some], noise[some]
    shares, likelihood = _posterior(raw / whole, np.maximum(noise / whole**2, _LEAST), whole, prior)
    learned = shares * whole
    moved = float(np.abs(learned - flat[some]).sum())
    flat[some] = learned  # a view of `left`
    return left, moved, likelihood


def _posterior(seen: np.ndarray, noise: np.ndarray, rows: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean of shares observed with normal noise, and the likelihood of each kind of share, by node, up to a factor.

    A share is normal about a half, or about 0 or 1 (equally often), with one of some deviations. Rows that fall into either half by chance
    add a variance of 1 / (4 rows) about a half. The frequencies of the kinds maximize the likelihood, with a few nodes added that have the
    usual ones (expectation and maximization).
    """
    own = _VARIANCES + _BY_CHANCE / np.maximum(rows, 1.0)
    total = own + noise
    off = seen - _CENTERS
    likelihood = -0.5 * (off**2 / total + np.log(total))
    likelihood = np.exp(likelihood - likelihood.max(axis=0, initial=-np.inf))
    usual = prior @ _SPREAD
    kinds, added = usual, _NODES * usual
    for _ in range(_ROUNDS):  # up to a factor, which cancels
        kinds = (kinds * np.einsum("kn,n->k", likelihood, 1 / np.einsum("k,kn->n", kinds, likelihood))) @ _FAIR + added
    joint = kinds[:, None] * likelihood
    means = np.minimum(np.maximum(_CENTERS + off * (own / total), 0), 1)
    shares = np.einsum("kn,kn->n", joint, means) / joint.sum(axis=0)
    return np.minimum(shares, 1.0), likelihood  # rounding may make one a little more


class _SiblingCounts(NamedTuple):
    """Siblings of one level and their counts."""

    parents: np.ndarray  # of siblings that some part counted, in order
    estimates: np.ndarray  # sums of the counts of both
    variances: np.ndarray
    counted: np.ndarray  # rows that these stand for


def measure_of_union(parts: Sequence[TwoStages], numbers: Sequence[float]) -> DiscreteMeasure:
    """Return the measure of the union of disjoint rows, each part of which was counted by itself.

    The counts of a cell add up, and so do the variances of their noise. So noise is removed once, from the sums: mass that each part made
    of its own noise would add up too. The parts number their cells alike; `numbers` tells how many rows of the union each part stands for.
    """
    found, levels = defaultdict(list), []  # the counts of all parts at the levels 1, 2, ...
    for part, number in zip(parts, numbers, strict=True):
        weight = number / part.n
        for level, parents, estimates, variances in part.pairs():
            spread = np.broadcast_to(variances, estimates.shape)
            found[level].append((parents, weight * estimates, weight**2 * spread, np.full(len(parents), float(number))))
    for level in sorted(found):
        parents, estimates, variances, counted = map(np.concatenate, zip(*found.pop(level), strict=True))
        distinct, places = np.unique(parents, return_inverse=True)
        children, n = interleave_siblings(2 * places, 2 * places + 1), len(distinct)
        counts, noise = (np.bincount(children, values, 2 * n) for values in (estimates, variances))
        levels.append(_SiblingCounts(distinct, counts, noise, np.bincount(places, counted, n)))
    n_all, noise_free, prior = float(sum(numbers)), parts[-1].noise_free, None
    if not noise_free and sum(len(pairs.parents) for pairs in levels) < _MOST_LEARNED:
        prior = prior_of(likelihood for _, _, likelihood in _share_union(levels, n_all, DEFAULT_PRIOR, noise_free))
    cells, depths, mass = [], [], list[np.ndarray]()
    for depth, (numbered, shared, _) in enumerate(_share_union(levels, n_all, prior, noise_free)):
        ends = np.ones(len(numbered), dtype=bool)
        if depth < len(levels):
            ends[np.searchsorted(numbered, levels[depth].parents)] = False
        cells.append(numbered[ends])
        depths.append(np.full(len(cells[-1]), depth, dtype=np.int8))
        mass.append(shared[ends])
    partition = max((part.partition for part in parts), key=lambda partition: partition.depth)
    return DiscreteMeasure.from_mass(partition, np.concatenate(cells), np.concatenate(depths), np.concatenate(mass))


def _share_union(
    levels: Sequence[_SiblingCounts], n_all: float, prior: np.ndarray | None, noise_free: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the cells of the levels 0, 1, ... with their mass, shared from the root, and the likelihoods of `left_mass`."""
    cells, mass = np.zeros(1, dtype=np.int64), np.array([n_all])
    yield cells, mass, _NO_PAIRS
    for parents, estimates, variances, counted in levels:
        whole = mass[np.searchsorted(cells, parents)]
        # Rows of each parent in the parts that counted its children: the same share as of all rows, unless the counts themselves are clear
        # of that; and at least all that the other parts cannot hold.
        seen = estimates[0::2] + estimates[1::2]
        reach = 0.0 if noise_free else _CLEAR * np.sqrt(variances[0::2] + variances[1::2])
        likely = np.clip(whole * (counted / n_all), seen - reach, seen + reach)
        times = whole / np.maximum(np.clip(likely, whole - (n_all - counted), whole), _FEWEST_ROWS)
        of_pair = np.repeat(times, 2)
        share = variances[0::2] / (variances[0::2] + variances[1::2])
        left, _, likelihood = left_mass(whole, of_pair * estimates, of_pair**2 * variances, share, prior)
        cells, mass = interleave_siblings(2 * parents, 2 * parents + 1), interleave_siblings(left, whole - left)
        yield cells, mass, likelihood
