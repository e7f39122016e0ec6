"""Latent factor models with softmax links, fitted to noisy counts of one and of two columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from skdpsynth._blas import one_blas_thread
from skdpsynth._progress import steps
from skdpsynth.models._systematic import CODES, NODES, points_below, shifts_of, shuffled_within
from skdpsynth.persistence import savable

_NODES = 256  # quasi-random points of the factors: a power of two
_SEED = 7  # public: it scrambles the nodes
_FITS = 8  # from different starts, and fewer where one takes long, because there is less noise to average out
_STEPS = 1200
_WORK = 1e8  # steps times codes squared, after which no other fit is begun
_LEAST_STEPS = 100  # what is far below the noise of a cell may still show in many
_OWN = 0.2  # rate of the loadings that a class has of its own, against the shared ones
_RATE = 0.05
_SMALL = 800  # codes
_NARROW = 64  # codes of a column, beyond which rows are looked up instead of the ends of codes


@savable
@dataclass(frozen=True, eq=False, repr=False)
class LatentFactors:
    """A mixture of products in each of some classes.

    Given the factors z of a node, columns are independent, and a column has the code m with probability softmax(a + B z)_m. Several fits
    from different starts are mixed equally: what each makes of the noise averages out.

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

    See Also
    --------
    LatentFactorSynthesizer : Shows one as `factors_`.
    Link : Bins of a continuous column.
    """

    sizes: np.ndarray
    nodes: np.ndarray
    intercepts: np.ndarray
    loadings: np.ndarray

    def __repr__(self) -> str:
        n_fits, n_classes, n_codes, n_factors = self.loadings.shape
        return f"LatentFactors({len(self.sizes)} columns, {n_codes} codes, {n_factors} factors, {n_classes} classes, {n_fits} fits)"

    @classmethod
    def of(
        cls,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        totals: Sequence[float] | np.ndarray,
        deviations: tuple[float, float],
        n_factors: int,
    ) -> "LatentFactors":
        """Fit to noisy counts by weighted least squares, up to their noise.

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
        """
        sizes = np.array([counts.shape[1] for counts in one_way])
        nodes = quasi_normal(_NODES, n_factors)
        targets = [
            _Targets.of(sizes, [t[c] for t in one_way], {pair: t[c] for pair, t in two_way.items()}, n, deviations)
            for c, n in enumerate(totals)
        ]
        if not two_way:  # nothing tells of factors
            intercepts = np.log(np.maximum([target.one_way for target in targets], 1e-30)).astype(float)
            return cls(sizes, nodes, intercepts[None], np.zeros((1, *intercepts.shape, n_factors)))
        fits: list[tuple] = []
        n_codes, steps = int(sizes.sum()), 0
        while len(fits) < _FITS and steps < min(_STEPS, _WORK / n_codes**2):
            # Threads cost more than they bring on small matrices, and very much more on a busy machine.
            with one_blas_thread(n_codes <= _SMALL):
                intercepts, loadings, taken = _fit(targets, nodes, seed=len(fits))
            fits.append((intercepts, loadings))
            steps += taken
        return cls(sizes, nodes, *map(np.array, zip(*fits, strict=True)))

    def probabilities(self, label: int = 0) -> np.ndarray:
        """Return P(code | fit and node) in a class, shape (n_codes, n_fits * n_nodes)."""
        logits = [a[label][:, None] + B[label] @ self.nodes.T for a, B in zip(self.intercepts, self.loadings, strict=True)]
        return _softmax(np.hstack(logits), _starts(self.sizes), self.sizes)

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

    def draw(self, label: int, rng: np.random.Generator) -> "FactorDraw":
        """Return what draws codes of a class.

        Parameters
        ----------
        label : int
        rng : numpy.random.Generator
        """
        return FactorDraw(self.sizes, self.probabilities(label), rng)


class FactorDraw:
    """Codes of one class, in blocks of rows.

    Nodes, and levels within a node, are drawn by systematic sampling in random order: each row has the law of the model, and the
    frequencies of a sample come closer to it than those of independent rows.

    Parameters
    ----------
    sizes : ndarray of shape (n_columns,), int64
    probabilities : ndarray of shape (n_codes, n_nodes)
        P(code | node) of all columns, one after the other.
    rng : numpy.random.Generator
    """

    def __init__(self, sizes: np.ndarray, probabilities: np.ndarray, rng: np.random.Generator) -> None:
        self.n_nodes = probabilities.shape[1]
        self.upto = [_distributions(probabilities[start : start + size]) for start, size in zip(_starts(sizes), sizes, strict=True)]
        self.of_nodes = rng.random(1)
        self.of_codes = rng.random((len(sizes), self.n_nodes), dtype=np.float32)

    def codes(self, n_rows: int, block: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the codes of a block of rows, column after column.

        Parameters
        ----------
        n_rows : int
        block : int
            Which: those of all blocks together are even.
        rng : numpy.random.Generator
            The block's own.
        """
        upto = points_below(np.arange(self.n_nodes + 1) / self.n_nodes, n_rows, shifts_of(self.of_nodes, block, NODES))
        counts = np.diff(upto.astype(np.int64))
        nodes = np.flatnonzero(counts)
        counts = counts[nodes]
        order = rng.permutation(n_rows)
        for upto, start in zip(self.upto, self.of_codes, strict=True):
            codes = _codes_of_nodes(upto, nodes, counts, shifts_of(start[nodes], block, CODES))
            # Shuffled within each node, so that columns are independent given the node.
            yield np.take(shuffled_within(codes, upto.shape[1], counts, rng), order)


def _distributions(probabilities: np.ndarray) -> np.ndarray:
    """Return P(code <= m | node), shape (n_nodes, n_codes)."""
    upto = np.cumsum(probabilities, axis=0)
    upto /= upto[-1]
    return np.ascontiguousarray(upto.T, dtype=np.float32 if len(upto) <= _NARROW else float)


def _codes_of_nodes(upto: np.ndarray, nodes: np.ndarray, counts: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return the codes of a systematic sample of each node, node after node, in order."""
    n_codes = upto.shape[1]
    if n_codes > _NARROW:
        return np.concatenate(
            [
                np.searchsorted(upto[node], (np.arange(count) + shift) / count, side="right")
                for node, count, shift in zip(nodes.tolist(), counts.tolist(), shifts.tolist(), strict=True)
            ]
        ).astype(np.uint32)
    below = points_below(upto if len(nodes) == len(upto) else upto[nodes], counts[:, None].astype(np.float32), shifts[:, None])
    below += (np.cumsum(counts) - counts)[:, None].astype(np.float32)  # whole numbers below 2**24
    ends = below.astype(np.int32).ravel()
    return np.repeat(np.tile(np.arange(n_codes, dtype=np.uint8), len(nodes)), np.diff(ends, prepend=np.int32(0)))


def quasi_normal(n_points: int, n_dimensions: int) -> np.ndarray:
    """Return public quasi-random points of a standard normal distribution."""
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(n_dimensions, seed=_SEED).random(n_points)
    return ndtri(np.clip(points, 1e-4, 1 - 1e-4))


@dataclass(frozen=True, eq=False)
class _Targets:
    """Frequencies to fit, and their noise."""

    sizes: np.ndarray
    one_way: np.ndarray  # (n_codes,), projected to probabilities
    two_way: np.ndarray  # (n_codes, n_codes), symmetric
    mask: np.ndarray  # 1 where a pair was counted
    weight: float  # of one_way against two_way
    noise: float  # expected sum of squares
    n: float

    @classmethod
    def of(
        cls,
        sizes: np.ndarray,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        n: float,
        deviations: tuple[float, float],
    ) -> "_Targets":
        starts = _starts(sizes)
        n_codes = int(sizes.sum())
        matrix, mask = (np.zeros((n_codes, n_codes), dtype=np.float32) for _ in range(2))
        for (i, j), counts in two_way.items():
            rows, columns = slice(starts[i], starts[i] + sizes[i]), slice(starts[j], starts[j] + sizes[j])
            matrix[rows, columns], matrix[columns, rows] = counts / n, counts.T / n
            mask[rows, columns] = mask[columns, rows] = 1
        one = np.concatenate([_nearest_probabilities(counts / n) for counts in one_way]).astype(np.float32)
        first, second = deviations
        weight = min((second / first) ** 2, 50.0) if first > 0 else 50.0
        return cls(sizes, one, matrix, mask, weight, (second / n) ** 2 * max(float(mask.sum()), 1.0), n)


def _fit(targets: list[_Targets], nodes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Adam on the weighted squared error of all classes; stop where chi squared a cell falls to 1, because the rest is noise.

    Classes share their loadings but for a part of their own.

    Returns
    -------
    intercepts : ndarray of shape (n_classes, n_codes)
    loadings : ndarray of shape (n_classes, n_codes, n_factors)
    n_steps : int
    """
    Z = nodes.astype(np.float32)
    intercepts = [np.log(np.maximum(target.one_way, 1e-4))[:, None] for target in targets]
    start = np.random.default_rng(seed).uniform(0.01, 0.99, (len(intercepts[0]), Z.shape[1]))
    shared = (0.1 * ndtri(start)).astype(np.float32)
    own = [np.zeros_like(shared) for _ in targets] if len(targets) > 1 else []
    rates = [1.0] * (len(targets) + 1) + [_OWN] * len(own)
    descent = _Adam([*intercepts, shared, *own], rates)
    noise = sum(target.noise * target.n**2 for target in targets)
    for step in steps("fit the latent factors", range(1, _STEPS + 1)):
        loadings = [shared + part for part in own] if own else [shared]
        of_intercepts, of_loadings, misfit = _gradients(targets, Z, intercepts, loadings)
        if step > _LEAST_STEPS and misfit <= noise:
            break
        descent.step([*of_intercepts, sum(of_loadings), *(of_loadings if own else [])])
    loadings = [shared + part for part in own] if own else [shared]
    return np.array([intercept[:, 0] for intercept in intercepts], dtype=float), np.array(loadings, dtype=float), step


class _Adam:
    """Adam with a rate that falls to a twentieth over `_STEPS`, on arrays that it changes in place."""

    def __init__(self, parameters: list[np.ndarray], rates: list[float]) -> None:
        self._rates, self._taken = rates, 0
        self._parts = [(parameter, np.zeros_like(parameter), np.zeros_like(parameter)) for parameter in parameters]

    def step(self, gradients: list) -> None:
        self._taken += 1
        step = self._taken
        rate = _RATE * min(1.0, 2 * (1 - step / _STEPS) + 0.05)
        for (parameter, m, v), gradient, factor in zip(self._parts, gradients, self._rates, strict=True):
            m += 0.1 * (gradient - m)
            v += 0.01 * (gradient * gradient - v)
            parameter -= factor * rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.99**step)) + 1e-12)


def _gradients(
    targets: list[_Targets], Z: np.ndarray, intercepts: list[np.ndarray], loadings: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Return the gradients of each class by its intercepts and loadings, and the squared error of all, in counts."""
    weights = np.array([target.n for target in targets]) ** 2
    weights = (weights / weights.sum()).astype(np.float32)
    of_intercepts, of_loadings, misfit = [], [], 0.0
    for c, target in enumerate(targets):
        starts = _starts(target.sizes)
        slope, square = _slope(target, _softmax(intercepts[c] + loadings[c] @ Z.T, starts, target.sizes), starts)
        misfit += square * target.n**2
        of_intercepts.append(slope.sum(axis=1, keepdims=True) * (weights[c] / len(Z)))
        of_loadings.append(slope @ Z * (weights[c] / len(Z)))
    return of_intercepts, of_loadings, misfit


def _slope(target: _Targets, P: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the derivative of the error of one class by its logits (times the number of nodes), and the squared error of pairs."""
    error = P @ P.T
    error /= P.shape[1]
    error -= target.two_way
    error *= target.mask
    square = float(np.vdot(error, error))
    slope = error @ P
    slope += np.float32(target.weight) * (P.mean(axis=1) - target.one_way)[:, None]
    slope *= P
    slope -= P * np.repeat(np.add.reduceat(slope, starts, axis=0), target.sizes, axis=0)
    return slope, square


def _softmax(logits: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Softmax down the rows of each column's block; overwrites."""
    # Of logits of the model, not of rows. Column by column: `np.maximum.reduceat` takes three times as long.
    largest = np.array([logits[start : start + size].max(axis=0) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)])
    logits -= np.repeat(largest, sizes, axis=0)
    np.exp(logits, out=logits)
    logits /= np.repeat(np.add.reduceat(logits, starts, axis=0), sizes, axis=0)
    return logits


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def _nearest_probabilities(values: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex, in the euclidean distance."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0)
