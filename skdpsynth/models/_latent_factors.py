"""Latent factor models with softmax links, fitted to noisy counts of one and of two columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import one_blas_thread
from skdpsynth._state_validation import is_array, require
from skdpsynth.models._constrained_softmax import ConstrainedGroup, ConstrainedSoftmax
from skdpsynth.models._ensemble import does_ensemble_help, n_ensemble_steps, n_triple_steps, train_ensemble
from skdpsynth.models._mixture import Mixture, Part, WithinClass
from skdpsynth.models._mixture_sampling import MixtureSampler
from skdpsynth.models._three_way import Triple, TripleErrors
from skdpsynth.models._training import (
    VARIANCES,
    FactorFit,
    Targets,
    choose_variance,
    slices_of,
    softmax,
    starts_of,
    step_work,
    train_factors,
    write_slices,
)
from skdpsynth.models._weighted_pairs import WeightedPair, WeightedPairLaw
from skdpsynth.persistence import savable

_NODES = 256  # quasi-random points of the factors: a power of two
_SEED = 7  # public: it scrambles the nodes
_FITS = 10  # from different starts, and fewer where they take long
_STEPS = 1500
_LEAST_STEPS = 100
_WORK = 6e8  # after which no other fit is begun, in the units of `step_work`
_SMALL = 800  # codes
_VARIANCES_FOR_FEW_PAIRS = (*VARIANCES[2:], 4.0)  # of the prior where few pairs were counted: those that say most
_FITS_FOR_FEW_PAIRS = 6  # they take more steps
_LARGEST = 1e6  # number in a model from a file, far above those of a fit


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

    def _check_loaded(self) -> None:
        require(is_array(self.sizes, "i", -1) and len(self.sizes) and self.sizes.min() >= 1 and self.sizes.max() < _LARGEST)
        n_codes, n_columns = int(self.sizes.sum()), len(self.sizes)
        require(is_array(self.intercepts, "f", -1, -1, n_codes) and is_array(self.nodes, "f", -1, -1) and self.intercepts.size)
        require(is_array(self.loadings, "f", *self.intercepts.shape, self.nodes.shape[1]) and len(self.nodes) and self.variance > 0)
        require(all(np.abs(each).max(initial=0) < _LARGEST for each in (self.intercepts, self.nodes, self.loadings)))
        require(len(self.n_ordered) in (0, n_columns) and all(0 <= n <= size for n, size in zip(self.n_ordered, self.sizes, strict=False)))
        for group in self.groups:
            require(all(0 <= column < n_columns for column in group.columns))
            sizes = [int(self.sizes[column]) for column in group.columns]
            if isinstance(group, ConstrainedGroup):
                require([len(classes) for classes in group.classes] == sizes and len(group.allowed) == self.intercepts.shape[1])
            else:
                require(list(group.weights.shape) == sizes)

    @classmethod
    def of(
        cls,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        totals: Sequence[float] | np.ndarray,
        deviations: tuple[float, float],
        n_factors: int,
        groups: tuple[ConstrainedGroup | WeightedPair, ...] = (),
        n_ordered: tuple[int, ...] = (),
    ) -> "LatentFactors":
        """Fit to noisy counts by weighted least squares, with a normal prior on the loadings.

        Parameters
        ----------
        one_way : list of ndarray of shape (n_classes, size)
            Of every column.
        two_way : dict of (i, j) to ndarray of shape (n_classes, size_i, size_j)
            Of pairs of columns, ``i < j``.
        totals : sequence of float
            Number of rows of each class.
        deviations : (float, float)
            Standard deviations of a count of one and of two columns.
        n_factors : int
        groups : tuple of ConstrainedGroup or WeightedPair, default=()
        n_ordered : tuple of int, default=()
        """
        sizes = np.array([counts.shape[1] for counts in one_way])
        nodes = quasi_normal(_NODES, n_factors)
        targets = _make_targets(one_way, two_way, totals, deviations, groups, n_ordered)
        if not two_way:  # no data on factors
            intercepts = np.log(np.maximum([target.one_way for target in targets], 1e-30)).astype(float)
            return cls(sizes, nodes, intercepts[None], np.zeros((1, *intercepts.shape, n_factors)), groups, n_ordered=n_ordered)
        # Threads cost more than they bring on small matrices, and very much more on a busy machine.
        with one_blas_thread(int(sizes.sum()) <= _SMALL):
            fits, variance = _fit_restarts(targets, nodes)
        intercepts, loadings = (np.array([getattr(fit, name) for fit in fits]) for name in ("intercepts", "loadings"))
        return cls(sizes, nodes, intercepts, loadings, groups, variance, n_ordered)

    def again(
        self,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        totals: Sequence[float] | np.ndarray,
        deviations: tuple[float, float],
        n_fits: int,
        n_steps: int,
    ) -> "LatentFactors":
        """Fit to other counts in the same codes, as for `of`, from the first `n_fits` fits, under the same prior, in `n_steps` at most."""
        targets = _make_targets(one_way, two_way, totals, deviations, self.groups, self.n_ordered)
        if not two_way:
            return LatentFactors.of(one_way, two_way, totals, deviations, self.nodes.shape[1], self.groups, self.n_ordered)
        fits = [FactorFit(a, B, 0) for a, B in zip(self.intercepts[:n_fits], self.loadings[:n_fits], strict=True)]
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = [train_factors(targets, self.nodes, self.variance, 0, n_steps, fit) for fit in fits]
        return replace(self, intercepts=np.array([fit.intercepts for fit in fits]), loadings=np.array([fit.loadings for fit in fits]))

    def with_triples(
        self,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        totals: Sequence[float] | np.ndarray,
        deviations: tuple[float, float],
        triples: Mapping[Triple, np.ndarray],
        deviation: float,
    ) -> "LatentFactors":
        """Continue all fits together, with tables of three columns (and the deviation of their noise) beside those of `of`."""
        targets = _make_targets(one_way, two_way, totals, deviations, self.groups, self.n_ordered)
        # As far as they are exact, a table of three columns weighs no more than one of two.
        weight = min((targets[0].deviation / deviation) ** 2, 1.0) if deviation else 1.0
        errors = [
            TripleErrors({triple: table[c] / n for triple, table in triples.items()}, self.sizes, weight) for c, n in enumerate(totals)
        ]
        n_cells = sum(table.size for table in triples.values())
        fits = [FactorFit(a, B, 0) for a, B in zip(self.intercepts, self.loadings, strict=True)]
        n_steps = n_triple_steps(step_work(targets), n_cells, len(fits), _WORK / 2)
        with one_blas_thread(int(self.sizes.sum()) <= _SMALL):
            fits = train_ensemble(targets, self.nodes, self.variance, fits, n_steps, errors)
        return replace(self, intercepts=np.array([fit.intercepts for fit in fits]), loadings=np.array([fit.loadings for fit in fits]))

    def without_loadings(self) -> "LatentFactors":
        """Return a model whose columns are independent, with the same frequencies of codes (where no rule ties them)."""
        classes = [np.log(np.maximum(self.probabilities(label).mean(axis=1), 1e-30)) for label in range(self.intercepts.shape[1])]
        return replace(self, intercepts=np.array([classes]), loadings=np.zeros_like(self.loadings[:1]))

    def probabilities(self, label: int = 0) -> np.ndarray:
        """Return P(code | fit and node) in a class, shape (n_codes, n_fits * n_nodes)."""
        logits = self._logits(label)
        tied = self._tied(label, logits)
        probabilities = softmax(logits, starts_of(self.sizes), self.sizes)
        for law, state in tied:
            write_slices(probabilities, slices_of(law, self.sizes), state.singles)
        return probabilities

    def _tied(self, label: int, logits: np.ndarray) -> list[tuple[ConstrainedSoftmax | WeightedPairLaw, Any]]:
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
        logits = self._logits(label)
        tied = [_mixture_part(law, state) for law, state in self._tied(label, logits)]
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
        """Return a sampler of the codes of a class."""
        return MixtureSampler(self.mixture(label), rng)


def _make_targets(
    one_way: Sequence[np.ndarray],
    two_way: Mapping[tuple[int, int], np.ndarray],
    totals: Sequence[float] | np.ndarray,
    deviations: tuple[float, float],
    groups: tuple[ConstrainedGroup | WeightedPair, ...],
    n_ordered: tuple[int, ...],
) -> list[Targets]:
    laws = [[group.law_of_descent(c) for group in groups] for c in range(len(totals))]
    return [
        Targets.of([t[c] for t in one_way], {pair: t[c] for pair, t in two_way.items()}, n, deviations, laws[c], n_ordered or None)
        for c, n in enumerate(totals)
    ]


def _mixture_part(law: ConstrainedSoftmax | WeightedPairLaw, state: Any) -> Part:
    """Return the part of a mixture that a group makes; columns whose codes are classes of their own have codes in place of these."""
    if isinstance(law, WeightedPairLaw):
        return law.part(state)
    codes = np.array(law.tuples)
    for place, (classes, is_plain) in enumerate(zip(law.classes, law.is_plain, strict=True)):
        codes[:, place] = np.argsort(classes)[codes[:, place]] if is_plain else codes[:, place]
    within = {
        column: WithinClass(classes, inside)
        for column, classes, inside, is_plain in zip(law.columns, law.classes, state.within, law.is_plain, strict=True)
        if not is_plain
    }
    return Part(law.columns, codes, state.tuples, within)


def _fit_restarts(targets: Sequence[Targets], nodes: np.ndarray) -> tuple[list[FactorFit], float]:
    """Fit from different starts, as long as there is time; return also the variance of the prior."""
    a_step = step_work(targets)
    variances, most_fits = (VARIANCES, _FITS) if targets[0].has_all_pairs else (_VARIANCES_FOR_FEW_PAIRS, min(_FITS, _FITS_FOR_FEW_PAIRS))
    variance, work = choose_variance(targets, nodes, _WORK / 4, variances)
    fits: list[FactorFit] = []
    while not fits or (len(fits) < most_fits and work + fits[-1].n_steps * a_step <= _WORK):
        most_steps = int(np.clip((_WORK - work) / a_step, _LEAST_STEPS, _STEPS))
        fits.append(train_factors(targets, nodes, variance, len(fits), most_steps))
        work += fits[-1].n_steps * a_step
    n_steps = n_ensemble_steps(a_step, len(fits), _WORK / 4)
    if n_steps and does_ensemble_help(targets, nodes, variance):
        fits = train_ensemble(targets, nodes, variance, fits, n_steps)
    return fits, variance


def quasi_normal(n_points: int, n_dimensions: int) -> np.ndarray:
    """Return public quasi-random points of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(int(n_dimensions), seed=_SEED).random(n_points)
    return ndtri(np.clip(points, 1e-4, 1 - 1e-4))
