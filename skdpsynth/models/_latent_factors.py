"""Latent factor models with softmax links, fitted to noisy counts of one, two and three columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import one_blas_thread
from skdpsynth._progress import track_steps
from skdpsynth.models._constrained_softmax import ConstrainedGroup, ConstrainedSoftmax, WeightedPair
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._mixture_sampling import MixtureSampler
from skdpsynth.models._noisy_tables import Block, NoisyTables, weighting_deviations
from skdpsynth.models._training import (
    CLASS_SHARE,
    RATE,
    VARIANCES,
    Adam,
    FactorFit,
    Probabilities,
    Targets,
    choose_variance,
    class_weights,
    pack_fit,
    slices_of,
    softmax,
    starts_of,
    step_work,
    train_factors,
    unpack_fit,
    write_slices,
)
from skdpsynth.persistence import savable

_JOINT_STEPS, _LEAST_JOINT_STEPS = 150, 20
_SLOWER = 0.4  # times the usual rate: fits begin where each is at its best
_COOLS = 0.3  # of the steps, after which the rate falls
_OF_CELLS = 2.0  # work of a cell of a triple, in pairs of codes
Triple = tuple[int, ...]
_NODES = 256  # quasi-random points of the factors: a power of two
_SEED = 7  # public: it scrambles the nodes
_FITS = 10  # from different starts, and fewer where they take long
_STEPS = 1500
_LEAST_STEPS = 100
_WORK = 6e8  # after which no other fit is begun, in the units of `step_work`
_SMALL = 800  # codes
_VARIANCES_FOR_FEW_PAIRS = (*VARIANCES[2:], 4.0)  # of the prior where few pairs were counted: those that say most
_FITS_FOR_FEW_PAIRS = 6  # they take more steps
_LEAST_ROWS = 10.0  # of a class: fewer make frequencies of noise
_LARGEST = 1e6  # number in a model from a file, far above those of a fit


@dataclass(frozen=True, eq=False)
class BlockTables:
    """The noisy tables of a block of columns, in each class of rows, to which factors are fitted."""

    one_way: Sequence[np.ndarray]  # of every column, shape (n_classes, size)
    two_way: Mapping[tuple[int, int], np.ndarray]  # of pairs of columns i < j, shape (n_classes, size_i, size_j)
    totals: Sequence[float] | np.ndarray  # rows of each class
    deviations: tuple[float, float]  # of a count of one and of two columns
    groups: tuple[ConstrainedGroup | WeightedPair, ...] = ()
    n_ordered: tuple[int, ...] = ()  # how many codes of each column have an order; empty: none

    @classmethod
    def of(
        cls, block: Block, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, groups: tuple, n_ordered: tuple[int, ...]
    ) -> "BlockTables":
        """Select the tables of a block from those of all columns."""
        pairs = {(a, b): two_way.tables[i, j] for (a, i), (b, j) in combinations(enumerate(block), 2) if (i, j) in two_way.tables}
        columns, deviations = [one_way.tables[i,] for i in block], weighting_deviations(one_way, two_way)
        return cls(columns, pairs, np.maximum(totals, _LEAST_ROWS), deviations, groups, n_ordered)

    def targets(self) -> list[Targets]:
        out = []
        for c, n in enumerate(self.totals):
            one_way = list(map(itemgetter(c), self.one_way))
            two_way = dict(zip(self.two_way, map(itemgetter(c), self.two_way.values()), strict=True))
            laws = [group.law_of_descent(c) for group in self.groups]
            out.append(Targets.of(one_way, two_way, n, self.deviations, laws, self.n_ordered or None))
        return out


@savable
@dataclass(frozen=True, eq=False, repr=False)
class LatentFactors:
    """A mixture of products in each of some classes.

    Given the factors z of a node, columns are independent, and a column has the code m with probability softmax(a + B z)_m. Several fits
    from different starts are mixed equally, so that their errors average out.

    Attributes
    ----------
    sizes : ndarray of shape (n_columns,), int64
        Number of codes of each column.
    nodes : ndarray of shape (n_nodes, n_factors)
        Points that stand for standard normal factors, equally likely.
    intercepts : ndarray of shape (n_fits, n_classes, n_codes)
        a: of all columns, one after the other.
    loadings : ndarray of shape (n_fits, n_classes, n_codes, n_factors)
        B.
    groups : tuple of ConstrainedGroup or WeightedPair, default=()
        Columns that rules tie, where the product over columns is taken on the allowed tuples, or whose difference has a law.
    variance : float, default=0.2
        Of the prior of the loadings.
    n_ordered : tuple of int, default=()
        How many codes of each column have an order, along which the prior is smooth; empty: none.

    See Also
    --------
    LatentFactorSynthesizer : Shows one as `factors_`.
    Link : Bins of a continuous column.
    """

    sizes: np.ndarray
    nodes: np.ndarray
    intercepts: np.ndarray
    loadings: np.ndarray
    groups: tuple[ConstrainedGroup | WeightedPair, ...] = ()
    variance: float = 0.2
    n_ordered: tuple[int, ...] = ()

    def __repr__(self) -> str:
        n_fits, n_classes, n_codes, n_factors = self.loadings.shape
        return f"LatentFactors({len(self.sizes)} columns, {n_codes} codes, {n_factors} factors, {n_classes} classes, {n_fits} fits)"

    @classmethod
    def of(cls, tables: BlockTables, n_factors: int) -> "LatentFactors":
        """Fit to noisy counts by weighted least squares, with a normal prior on the loadings."""
        nodes, targets = quasi_normal(_NODES, n_factors), tables.targets()
        sizes = targets[0].sizes
        if not tables.two_way:  # no data on factors
            intercepts = np.log(np.maximum([target.one_way for target in targets], 1e-30)).astype(float)
            loadings = np.zeros((1, *intercepts.shape, n_factors))
            return cls(sizes, nodes, intercepts[None], loadings, tables.groups, n_ordered=tables.n_ordered)
        # Threads cost more than they bring on small matrices, and very much more on a busy machine.
        with one_blas_thread(int(sizes.sum()) <= _SMALL):
            fits, variance = _fit_restarts(targets, nodes)
        return cls(sizes, nodes, *_stack_fits(fits), tables.groups, variance, tables.n_ordered)

    def refit(self, tables: BlockTables, n_fits: int, n_steps: int) -> "LatentFactors":
        """Fit to other counts in the same codes from the first `n_fits` fits, under the same prior, in `n_steps` at most."""
        if not tables.two_way:
            return LatentFactors.of(tables, self.nodes.shape[1])
        targets = tables.targets()
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = [train_factors(targets, self.nodes, self.variance, 0, n_steps, fit) for fit in self._fits[:n_fits]]
        intercepts, loadings = _stack_fits(fits)
        return replace(self, intercepts=intercepts, loadings=loadings)

    def with_triples(self, tables: BlockTables, triples: Mapping[Triple, np.ndarray], deviation: float) -> "LatentFactors":
        """Continue all fits together, with tables of three columns (and the deviation of their noise) beside those of `of`."""
        targets = tables.targets()
        # As far as they are exact, a table of three columns weighs no more than one of two.
        weight = min((targets[0].deviation / deviation) ** 2, 1.0) if deviation else 1.0
        errors = [
            TripleErrors({triple: table[c] / n for triple, table in triples.items()}, self.sizes, weight)
            for c, n in enumerate(tables.totals)
        ]
        n_cells = sum(table.size for table in triples.values())
        a_step = (step_work(targets) + _OF_CELLS * n_cells) * len(self.loadings)
        n_steps = int(np.clip(_WORK / 2 / a_step, _LEAST_JOINT_STEPS, _JOINT_STEPS))
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = train_ensemble(targets, self.nodes, self.variance, self._fits, n_steps, errors)
        intercepts, loadings = _stack_fits(fits)
        return replace(self, intercepts=intercepts, loadings=loadings)

    @property
    def _fits(self) -> list[FactorFit]:
        return [FactorFit(a, B, 0) for a, B in zip(self.intercepts, self.loadings, strict=True)]

    def without_loadings(self) -> "LatentFactors":
        """Return a model whose columns are independent, with the same frequencies of codes (where no rule ties them)."""
        classes = [np.log(np.maximum(self.probabilities(label).mean(axis=1), 1e-30)) for label in range(self.intercepts.shape[1])]
        return replace(self, intercepts=np.array([classes]), loadings=np.zeros_like(self.loadings[:1]))

    def probabilities(self, label: int = 0) -> np.ndarray:
        """Return P(code | fit and node) in a class, shape (n_codes, n_fits * n_nodes)."""
        logits = self._logits(label)
        states = self._group_states(label, logits)
        probabilities = softmax(logits, starts_of(self.sizes), self.sizes)
        for law, state in states:
            write_slices(probabilities, slices_of(law, self.sizes), state.singles)
        return probabilities

    def _group_states(self, label: int, logits: np.ndarray) -> list[tuple[ConstrainedSoftmax | WeightedPair, Any]]:
        laws = [group.law(label) for group in self.groups]
        return [(law, law.forward([logits[rows] for rows in slices_of(law, self.sizes)])) for law in laws]

    def _logits(self, label: int) -> np.ndarray:
        parts = [a[label][:, None] + B[label] @ self.nodes.T for a, B in zip(self.intercepts, self.loadings, strict=True)]
        return np.hstack(parts)

    def mixture(self, label: int = 0) -> Mixture:
        """Return the law of a class, which can be conditioned and sampled from."""
        mixture = Mixture.of_columns(np.split(self.probabilities(label), starts_of(self.sizes)[1:]))
        if not self.groups:
            return mixture
        tied = [law.part(state) for law, state in self._group_states(label, self._logits(label))]
        free = [part for part in mixture.parts if not any(set(part.columns) & set(each.columns) for each in tied)]
        return Mixture(mixture.weights, tuple(sorted([*free, *tied], key=lambda part: part.columns[0])))

    def sample(self, n_samples: int, rng: np.random.Generator, label: int = 0) -> np.ndarray:
        """Draw codes of a class; `draw` does it in blocks.

        Parameters
        ----------
        n_samples : int
        rng : numpy.random.Generator
        label : int, default=0
            Which class.

        Returns
        -------
        codes : int64 ndarray of shape (n_columns, n_samples)
        """
        return np.array(list(self.draw(label, rng).codes(n_samples, 0, rng)), dtype=np.int64)

    def draw(self, label: int, rng: np.random.Generator) -> "MixtureSampler":
        """Return a sampler of the codes of a class, in blocks of rows."""
        return MixtureSampler(self.mixture(label), rng)


def _stack_fits(fits: Sequence[FactorFit]) -> tuple[np.ndarray, np.ndarray]:
    """Return the intercepts and the loadings of several fits."""
    return np.array(list(map(attrgetter("intercepts"), fits))), np.array(list(map(attrgetter("loadings"), fits)))


def _fit_restarts(targets: Sequence[Targets], nodes: np.ndarray) -> tuple[list[FactorFit], float]:
    """Fit from different starts, as long as there is time; return also the variance of the prior."""
    a_step, sizes = step_work(targets), targets[0].sizes
    has_all_pairs = int(np.count_nonzero(targets[0].mask)) == int(sizes.sum() ** 2 - (sizes**2).sum())
    variances, most_fits = (VARIANCES, _FITS) if has_all_pairs else (_VARIANCES_FOR_FEW_PAIRS, min(_FITS, _FITS_FOR_FEW_PAIRS))
    variance, work = choose_variance(targets, nodes, _WORK / 4, variances)
    fits: list[FactorFit] = []
    while not fits or (len(fits) < most_fits and work + fits[-1].n_steps * a_step <= _WORK):
        most_steps = int(np.clip((_WORK - work) / a_step, _LEAST_STEPS, _STEPS))
        fits.append(train_factors(targets, nodes, variance, len(fits), most_steps))
        work += fits[-1].n_steps * a_step
    return fits, variance


def quasi_normal(n_points: int, n_dimensions: int) -> np.ndarray:
    """Return public quasi-random points of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(int(n_dimensions), seed=_SEED).random(n_points)
    return ndtri(np.clip(points, 1e-4, 1 - 1e-4))


def candidate_triples(sizes: Sequence[int], left_out: Sequence[int], most_cells: int) -> list[Triple]:
    """Return the triples of columns that may be counted, with `most_cells` at most, without the columns that rules tie."""
    free = [column for column, size in enumerate(sizes) if size > 1 and column not in left_out]
    return [(i, j, k) for i, j, k in combinations(free, 3) if sizes[i] * sizes[j] * sizes[k] <= most_cells]


def most_dependent_triples(
    triples: Sequence[Triple], classes: Sequence[Sequence[np.ndarray]], weights: np.ndarray, most: int
) -> list[Triple]:
    """Return the triples whose columns depend most on each other, in a model: others it can hardly miss.

    A triple depends as its second strongest pair does: one pair alone is known. `classes` are P(code | node) of each column, in each class.
    """
    strength: dict[tuple[int, int], float] = {}
    for i, j in {pair for triple in triples for pair in combinations(triple, 2)}:
        tables = [(P[i] @ P[j].T / P[i].shape[1], np.outer(P[i].mean(axis=1), P[j].mean(axis=1))) for P in classes]
        strength[i, j] = sum(w * float(np.abs(joint - product).sum()) for w, (joint, product) in zip(weights, tables, strict=True))
    ranked = sorted(triples, key=lambda triple: -sorted(strength[pair] for pair in combinations(triple, 2))[1])
    return sorted(ranked[:most])


def triple_frequencies(P: Sequence[np.ndarray], triple: Triple) -> np.ndarray:
    """Return the frequencies of a triple of columns in a mixture of products of equally likely nodes."""
    first, second, third = (P[column] for column in triple)
    both = (first[:, None] * second[None]).reshape(-1, first.shape[1])
    return (both @ third.T / first.shape[1]).reshape(len(first), len(second), len(third))


class TripleErrors:
    """The squared errors of the frequencies of some triples in one class of rows, weighted against those of pairs."""

    def __init__(self, tables: Mapping[Triple, np.ndarray], sizes: np.ndarray, weight: float) -> None:
        starts = np.cumsum(sizes) - sizes
        self._weight = np.float32(weight)
        self._parts = []
        for triple, table in tables.items():
            order = sorted(range(3), key=lambda axis: table.shape[axis])  # the longest last, which takes the least work
            rows = [slice(int(starts[triple[axis]]), int(starts[triple[axis]] + sizes[triple[axis]])) for axis in order]
            self._parts.append((rows, table.transpose(order).reshape(-1, table.shape[order[2]]).astype(np.float32)))

    def slope(self, P: np.ndarray) -> np.ndarray:
        """Return the derivative of ``weight * |error|**2 / 2``, summed over tables, by P, times the number of nodes."""
        found = np.zeros_like(P)
        for rows, table in self._parts:
            first, second, third = (P[each] for each in rows)
            both = (first[:, None] * second[None]).reshape(-1, P.shape[1])
            error = both @ third.T
            error /= np.float32(P.shape[1])
            error -= table
            error *= self._weight
            found[rows[2]] += error.T @ both
            by_both = (error @ third).reshape(len(first), len(second), -1)
            found[rows[0]] += (by_both * second[None]).sum(axis=1)
            found[rows[1]] += (by_both * first[:, None]).sum(axis=0)
        return found


def train_ensemble(
    targets: Sequence[Targets],
    nodes: np.ndarray,
    variance: float,
    fits: Sequence[FactorFit],
    n_steps: int,
    triples: Sequence[TripleErrors] = (),
) -> list[FactorFit]:
    """Continue several fits together, on the errors of `triples` in each class beside those of pairs.

    Minimized is the objective of `train_factors` with the frequencies of the mixture of all fits, and the mean of their penalties: so equal
    fits have the objective of one of them.
    """
    Z = nodes.astype(np.float32)
    parts = list(map(unpack_fit, fits))  # (intercepts of classes, shared loadings, own loadings of classes) of each
    arrays, rates, squares = list[np.ndarray](), list[float](), 0.0
    for intercepts, shared, own in parts:
        arrays += [*intercepts, shared, *own]
        rates += [1.0] * (len(intercepts) + 1) + [CLASS_SHARE] * len(own)
    for target in targets:
        squares += target.n**2
    descent = Adam(arrays, rates)
    pull = np.float32(targets[0].deviation ** 2 / squares / variance / len(parts))
    for step in track_steps("fit the latent factors together", range(n_steps)):
        cooled = max(0.0, (step / n_steps - _COOLS) / (1 - _COOLS))
        descent.step(_gradients(targets, Z, parts, pull, triples), _SLOWER * RATE * (1 - 0.95 * cooled))
    return [pack_fit(*part, n_steps) for part in parts]


def _gradients(
    targets: Sequence[Targets], Z: np.ndarray, parts: Sequence[tuple], pull: np.float32, triples: Sequence[TripleErrors]
) -> list[np.ndarray]:
    """Return the derivatives of the objective by all arrays of all fits, in their order."""
    by_class = []
    for label, (target, weight) in enumerate(zip(targets, class_weights(targets).astype(np.float32), strict=True)):
        logits = np.hstack([a[label] + (shared + own[label] if own else shared) @ Z.T for a, shared, own in parts])
        at = Probabilities.of(target, logits)
        slope, _ = at.slope(target, triples[label].slope(at.singles) if triples else None)
        slope *= weight / np.float32(slope.shape[1])
        by_class.append(np.split(slope, len(parts), axis=1))
    found: list[np.ndarray] = []
    stiff = targets[0].smoothness.times
    for place, (_, shared, own) in enumerate(parts):
        slopes = [of_fits[place] for of_fits in by_class]
        of_loadings = [slope @ Z for slope in slopes]
        found += [slope.sum(axis=1, keepdims=True) for slope in slopes]
        found.append(np.sum(of_loadings, axis=0) + pull * stiff(shared))
        found += [by + pull / np.float32(CLASS_SHARE) * stiff(part) for by, part in zip(of_loadings, own, strict=False)]
    return found
