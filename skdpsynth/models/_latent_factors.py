"""Latent factor models with softmax links, fitted to noisy counts of one, two and three columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import one_blas_thread
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._mixture_sampling import MixtureSampler
from skdpsynth.models._noisy_tables import Block, NoisyTables, weighting_deviations
from skdpsynth.models._structural_zeros import ConstrainedGroup, ConstrainedSoftmax, WeightedPair, join_boxes
from skdpsynth.models._training import (
    VARIANCES,
    FactorFit,
    Targets,
    Triple,
    TripleErrors,
    WithinErrors,
    choose_variance,
    codes_of,
    softmax,
    starts_of,
    step_work,
    sum_to_columns,
    train_factors,
)
from skdpsynth.persistence import savable

_TRIPLE_STEPS, _LEAST_TRIPLE_STEPS = 150, 20
_OF_CELLS = 2.0  # work of a cell of a triple, in pairs of codes

_NODES = 256  # quasi-random points of the factors: a power of two
_SEED = 7  # public: it scrambles the nodes
_FITS = 10  # from different starts at most, and fewer where they take long
# Rows for each fit: fewer leave its nodes a handful of rows, so that a sample is off by more than mixing fits takes from the model's error.
_ROWS_OF_FIT = 2000
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
    precisions: Mapping[tuple[int, int], float] = field(default_factory=dict)  # of pairs, relative to the deviation; none: 1

    @classmethod
    def of(
        cls, block: Block, one_way: NoisyTables, two_way: NoisyTables, totals: np.ndarray, groups: tuple, n_ordered: tuple[int, ...]
    ) -> "BlockTables":
        places = {(a, b): (i, j) for (a, i), (b, j) in combinations(enumerate(block), 2)}
        pairs = {pair: two_way.tables[place] for pair, place in places.items() if place in two_way.tables}
        precisions = {pair: two_way.precisions[place] for pair, place in places.items() if place in two_way.precisions}
        columns, deviations = [one_way.tables[i,] for i in block], weighting_deviations(one_way, two_way)
        return cls(columns, pairs, np.maximum(totals, _LEAST_ROWS), deviations, groups, n_ordered, precisions)

    def targets(self) -> list[Targets]:
        out = []
        for c, n in enumerate(self.totals):
            one_way = list(map(itemgetter(c), self.one_way))
            two_way = dict(zip(self.two_way, map(itemgetter(c), self.two_way.values()), strict=True))
            laws = join_boxes([group.law_of_descent(c) for group in self.groups])
            out.append(Targets.of(one_way, two_way, n, self.deviations, laws, self.n_ordered or None, self.precisions))
        return out


@savable
@dataclass(frozen=True, eq=False, repr=False)
class LatentFactors:
    """A mixture of products in each of some classes.

    Given the factors z of a node, columns are independent, and a column has the code m with probability softmax(a + B z)_m. Where there are
    many rows, several fits from different starts are mixed equally, so that their errors average out.

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
    def of(cls, tables: BlockTables, n_factors: int, most: tuple[int, int] | None = None) -> "LatentFactors":
        """Fit to noisy counts by weighted least squares, with a normal prior on the loadings, in `most` fits and steps of each."""
        nodes, targets, limits = quasi_normal(_NODES, n_factors), tables.targets(), most or (_FITS, _STEPS)
        sizes = targets[0].sizes
        if not tables.two_way:  # no data on factors
            intercepts = np.log(np.maximum([target.one_way for target in targets], 1e-30)).astype(float)
            loadings = np.zeros((1, *intercepts.shape, n_factors))
            return cls(sizes, nodes, intercepts[None], loadings, tables.groups, n_ordered=tables.n_ordered)
        a_step, n_pairs = step_work(targets), int(np.count_nonzero(targets[0].mask))
        has_all_pairs = n_pairs == int(sizes.sum() ** 2 - (sizes**2).sum())
        variances, most_fits = (VARIANCES, limits[0]) if has_all_pairs else (_VARIANCES_FOR_FEW_PAIRS, min(limits[0], _FITS_FOR_FEW_PAIRS))
        most_fits = min(most_fits, int(np.ceil(np.sum(tables.totals) / _ROWS_OF_FIT)))
        fits: list[FactorFit] = []
        # Threads cost more than they bring on small matrices, and very much more on a busy machine.
        with one_blas_thread(int(sizes.sum()) <= _SMALL):
            variance, work = choose_variance(targets, nodes, _WORK / 4, variances)
            while not fits or (len(fits) < most_fits and work + fits[-1].n_steps * a_step <= _WORK):  # as long as there is time
                most_steps = int(np.clip((_WORK - work) / a_step, _LEAST_STEPS, min(limits[1], _STEPS)))
                fits += train_factors(targets, nodes, variance, [len(fits)], most_steps)
                work += fits[-1].n_steps * a_step
        return cls(sizes, nodes, *_stack_fits(fits), tables.groups, variance, tables.n_ordered)

    def refit(self, tables: BlockTables, n_fits: int, n_steps: int) -> "LatentFactors":
        """Fit to other counts in the same codes from the first `n_fits` fits, under the same prior, in `n_steps` at most."""
        if not tables.two_way:
            return LatentFactors.of(tables, self.nodes.shape[1])
        targets = tables.targets()
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = [train_factors(targets, self.nodes, self.variance, [fit], n_steps)[0] for fit in self._fits[:n_fits]]
        intercepts, loadings = _stack_fits(fits)
        return replace(self, intercepts=intercepts, loadings=loadings)

    def with_triples(
        self, tables: BlockTables, triples: Mapping[Triple, np.ndarray], deviation: float, within: int | None = None
    ) -> "LatentFactors":
        """Continue all fits together, with tables of three columns (and the deviation of their noise) beside those of `of`.

        They are all with the column `within`, if it is given, which no rule ties; else no two of them are tied.
        """
        targets, n_cells = tables.targets(), sum(table.size for table in triples.values())
        # As far as they are exact, a table of three columns weighs no more than one of two.
        weight = min((targets[0].deviation / deviation) ** 2, 1.0) if deviation else 1.0
        shares = [{triple: table[c] / n for triple, table in triples.items()} for c, n in enumerate(tables.totals)]
        errors: list[Any] = [TripleErrors(own, self.sizes, weight) for own in shares]
        if within is not None:
            errors = [WithinErrors(own, target, within, weight) for own, target in zip(shares, targets, strict=True)]
        a_step = (step_work(targets) + _OF_CELLS * n_cells) * len(self.loadings)
        n_steps = int(np.clip(_WORK / 2 / a_step, _LEAST_TRIPLE_STEPS, _TRIPLE_STEPS))
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = train_factors(targets, self.nodes, self.variance, self._fits, n_steps, errors)
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
        return self._at_nodes(label)[0]

    def _at_nodes(self, label: int) -> tuple[np.ndarray, list[tuple[ConstrainedSoftmax | WeightedPair, Any]]]:
        """Return P(code | fit and node) in a class, and the laws of the groups there with their states."""
        logits = np.hstack([a[label][:, None] + B[label] @ self.nodes.T for a, B in zip(self.intercepts, self.loadings, strict=True)])
        probabilities = softmax(logits, sum_to_columns(self.sizes))
        laws = [group.law(label) for group in self.groups]
        states = [(law, law.forward(probabilities[codes_of(law.columns, self.sizes)])) for law in laws]
        for law, state in states:
            probabilities[codes_of(law.columns, self.sizes)] = state.singles
        return probabilities, states

    def mixture(self, label: int = 0) -> Mixture:
        """Return the law of a class, which can be conditioned and sampled from."""
        probabilities, states = self._at_nodes(label)
        mixture, tied = Mixture.of_columns(np.split(probabilities, starts_of(self.sizes)[1:])), [law.part(state) for law, state in states]
        free = [part for part in mixture.parts if not any(set(part.columns) & set(each.columns) for each in tied)]
        return Mixture(mixture.weights, tuple(sorted([*free, *tied], key=lambda part: part.columns[0])))

    def sample(self, n_samples: int, rng: np.random.Generator, label: int = 0) -> np.ndarray:
        """Draw codes of a class.

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
        return np.array(list(MixtureSampler(self.mixture(label), rng).codes(n_samples, 0, rng)), dtype=np.int64)


def _stack_fits(fits: Sequence[FactorFit]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(list(map(attrgetter("intercepts"), fits))), np.array(list(map(attrgetter("loadings"), fits)))


def quasi_normal(n_points: int, n_dimensions: int) -> np.ndarray:
    """Return public quasi-random points of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(int(n_dimensions), seed=_SEED).random(n_points)
    return ndtri(np.clip(points, 1e-4, 1 - 1e-4))


def candidate_triples(sizes: Sequence[int], left_out: Sequence[int], most_cells: int) -> list[Triple]:
    """Return the triples of columns that may be counted, with `most_cells` at most, without the columns that are left out."""
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
