"""Training of latent factors on noisy tables: the most likely loadings under a normal prior, whose variance count splitting chooses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct
from scipy.special import ndtri

from skdpsynth._parallel import cached_property
from skdpsynth._progress import track_steps
from skdpsynth.models._structural_zeros import Law, sum_matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LEAST_ORDERED = 3  # codes
_ROUGH = 0.03  # of the variance of the first cosine, at every frequency: laws of atoms are not smooth
Triple = tuple[int, ...]
RATE = 0.05
_SLOWER = 0.4  # times the usual rate, of fits that go on
_COOLS = 0.3  # ... of their steps, after which the rate falls
CLASS_SHARE = 0.2  # rate of the loadings that a class has of its own, and their prior variance, against the shared ones
_START = 0.1  # deviation of the first loadings
_MOST_WEIGHT = 50.0  # of columns against pairs
_NO_NOISE = 0.3  # deviation of a count: less is less than what rounding to whole numbers adds, and makes no estimate better than another
_MOST_NOISE = 1e4  # deviation of a frequency of a pair: beyond, all is noise, and squares of it would leave the range of a float
WINDOW = 25  # steps, of which the mean objective is compared with the one before
PLATEAU_TOLERANCE = 0.002  # of the objective of noise alone, by which it must fall from window to window
VARIANCES = (0.05, 0.1, 0.2, 0.4, 1.0)  # of the prior, among which count splitting chooses
_USUAL = 0.2  # where a choice would take too long, or there is no noise to split
_PILOT_STEPS = 100
_SPLITS = 2
SEED = 11  # public: of the noise added to released numbers to split them
_WORK_OF_CODE = 100  # in a box of columns that rules tie, in pairs of codes
_LEAST_FREQUENCY = 1e-3  # of a code, in the weights of a score


@dataclass(frozen=True, eq=False)
class Smoothness:
    """The prior precision of loadings, relative to that of independent ones.

    The loadings of the ordered codes of a column on a factor are a sum of cosines along the codes, of independent normal weights whose
    variance falls with the square of the frequency, and is 1 in the mean over frequencies. So noise in the cells of pairs, which has no
    smoothness, moves the trends of columns little, and a prior that keeps it out shrinks them little.
    """

    parts: tuple[tuple[slice, np.ndarray], ...] = ()  # the ordered codes of a column, and the precision of their loadings

    @classmethod
    def of(cls, starts: Sequence[int], n_ordered: Sequence[int]) -> "Smoothness":
        """Return the smoothness of columns that start at these codes; the first `n_ordered` codes of each have an order."""
        parts = []
        for start, n in zip(starts, n_ordered, strict=True):
            if n >= _LEAST_ORDERED:
                parts.append((slice(start, start + n), _precision(n)))
        return cls(tuple(parts))

    def times(self, loadings: np.ndarray) -> np.ndarray:
        if not self.parts:
            return loadings
        out = loadings.copy()
        for rows, precision in self.parts:
            out[rows] = precision @ loadings[rows]
        return out


@lru_cache(64)
def _precision(n: int) -> np.ndarray:
    cosines = dct(np.eye(n), axis=0, norm="ortho")
    variances = _ROUGH + np.maximum(np.arange(n), 1) ** -2.0  # that of the constant, which a softmax does not see, is the first one's
    variances /= variances[1:].mean()
    return (cosines.T @ (cosines / variances[:, None])).astype(np.float32)


INDEPENDENT = Smoothness()


@dataclass(frozen=True, eq=False)
class Targets:
    """Frequencies to fit in one class of rows, and their noise."""

    sizes: np.ndarray
    one_way: np.ndarray  # shape (n_codes,), of all columns, projected to probabilities
    two_way: np.ndarray  # shape (n_codes, n_codes), symmetric
    mask: np.ndarray  # 1 where a pair was counted
    weight: float  # of `one_way` against `two_way`
    n: float  # rows of the class
    deviation: float  # of the noise of a pair's count
    laws: Sequence[Law] = ()  # of columns that rules tie, or whose difference has a law
    smoothness: Smoothness = INDEPENDENT  # of the prior of loadings
    precision: np.ndarray | None = None  # of each pair, relative to the deviation; None: 1

    @classmethod
    def of(
        cls,
        one_way: Sequence[np.ndarray],
        two_way: Mapping[tuple[int, int], np.ndarray],
        n: float,
        deviations: tuple[float, float],
        laws: Sequence[Law] = (),
        n_ordered: Sequence[int] | None = None,
        precisions: Mapping[tuple[int, int], float] | None = None,
    ) -> "Targets":
        """Turn noisy counts into frequencies; the first `n_ordered` codes of each column have an order.

        `precisions` are those of pairs, relative to the deviation.
        """
        sizes = np.array(list(map(len, one_way)))
        starts, n_codes = starts_of(sizes).tolist(), int(sizes.sum())
        matrix, mask = np.zeros((n_codes, n_codes)), np.zeros((n_codes, n_codes), dtype=np.float32)
        precision = np.ones_like(mask) if precisions else None
        for (i, j), counts in two_way.items():
            rows, columns = slice(starts[i], starts[i] + sizes[i]), slice(starts[j], starts[j] + sizes[j])
            matrix[rows, columns], matrix[columns, rows] = counts, counts.T
            mask[rows, columns] = mask[columns, rows] = 1
            if precision is not None and precisions:
                precision[rows, columns] = precision[columns, rows] = precisions.get((i, j), 1.0)
        smoothness = INDEPENDENT if n_ordered is None else Smoothness.of(starts, n_ordered)
        return replace(cls.of_all(one_way, matrix, mask, n, deviations, laws), smoothness=smoothness, precision=precision)

    @classmethod
    def of_all(
        cls,
        one_way: Sequence[np.ndarray],
        two_way: np.ndarray,
        mask: np.ndarray,
        n: float,
        deviations: tuple[float, float],
        laws: Sequence[Law] = (),
    ) -> "Targets":
        """Turn noisy counts of all pairs, in one matrix, into frequencies; `mask` marks the pairs that were counted."""
        first, second = deviations
        n = max(n, second / _MOST_NOISE)
        sizes = np.array(list(map(len, one_way)))
        one = np.concatenate([nearest_probabilities(counts / n) for counts in one_way]).astype(np.float32)
        weight = min((max(second, _NO_NOISE) / max(first, _NO_NOISE)) ** 2, _MOST_WEIGHT)
        return cls(sizes, one, (two_way / n).astype(np.float32), mask, weight, n, second, laws)

    @cached_property
    def to_columns(self) -> Any:
        return sum_to_columns(self.sizes)

    @cached_property
    def places(self) -> list[np.ndarray]:
        """The codes of each law."""
        return [codes_of(law.columns, self.sizes) for law in self.laws]

    @cached_property
    def of_laws(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray | np.float32]]:
        """The part of `two_way`, `mask` and `precision` of each law."""
        out = []
        for law, places in zip(self.laws, self.places, strict=True):
            block = np.ix_(places, places)
            precision = np.float32(1) if self.precision is None else self.precision[block]
            out.append((self.two_way[block], self.mask[block] * law.pairs, precision))
        return out

    @cached_property
    def mask_of_products(self) -> np.ndarray:
        """The mask without pairs of a law, whose probabilities are no products."""
        mask = self.mask.copy()
        for law, own in zip(self.laws, self.places, strict=True):
            mask[np.ix_(own, own)] *= np.logical_not(law.pairs)
        return mask

    def split(self, rng: np.random.Generator) -> tuple["Targets", "Targets"]:
        """Return two copies with more noise, which is independent between them: count splitting.

        With y the table and x normal of the variance of its noise, ``y + x`` and ``y - x`` have normal noise without a correlation, so a
        fit to one can be judged by the other. It is done to the interaction of a pair alone, as its margins come from the columns.
        """
        noise, starts = np.zeros_like(self.two_way), starts_of(self.sizes).tolist()
        for (i, start), (j, other) in combinations(enumerate(starts), 2):
            rows, columns = slice(start, start + self.sizes[i]), slice(other, other + self.sizes[j])
            if self.mask[start, other]:
                drawn = ndtri(rng.uniform(1e-9, 1 - 1e-9, (self.sizes[i], self.sizes[j])))
                drawn -= drawn.mean(axis=0)
                noise[rows, columns] = drawn - drawn.mean(axis=1, keepdims=True)
        noise += noise.T
        noise *= np.float32(self.deviation / self.n)
        if self.precision is not None:
            noise /= np.sqrt(self.precision)
        wider = replace(self, two_way=self.two_way + noise, deviation=self.deviation * 2**0.5)
        return wider, replace(wider, two_way=self.two_way - noise)


@dataclass(frozen=True, eq=False)
class FactorFit:
    intercepts: np.ndarray  # shape (n_classes, n_codes)
    loadings: np.ndarray  # shape (n_classes, n_codes, n_factors)
    n_steps: int


def train_factors(
    targets: Sequence[Targets],
    nodes: np.ndarray,
    variance: float,
    starts: Sequence[FactorFit | int],
    most_steps: int,
    triples: Sequence["_MoreErrors"] = (),
) -> list[FactorFit]:
    """Find the most likely loadings of a mixture of fits, by Adam; each starts at a fit, or at random with a public seed.

    Minimized is, with s the deviation of a count of a pair, n_c the rows of class c, E_c the error of its frequencies of pairs (each pair
    once) and e_c that of columns, ``sum n_c**2 (|E_c|**2 + w |e_c|**2) / 2 + s**2 |B|**2 / (2 v)``: for normal noise minus the logarithm of
    the posterior, times s**2, where loadings B are normal with variance v before. Classes share their loadings but for a part of their own,
    whose variance is smaller; |B|**2 is that of `Smoothness` along ordered codes. Several fits have the frequencies of their mixture and
    the mean of |B|**2. It ends where the objective is flat; or, where the errors of `triples` of each class count too, after all steps.
    """
    Z, parts = nodes.astype(np.float32), [_parameters(targets, nodes.shape[1], start) for start in starts]
    arrays, rates = list[np.ndarray](), list[float]()
    for intercepts, shared, own in parts:
        arrays += [*intercepts, shared, *own]
        rates += [1.0] * (len(intercepts) + 1) + [CLASS_SHARE] * len(own)
    squares, n_counts = 0.0, 0.0
    for target in targets:
        squares, n_counts = squares + target.n**2, n_counts + float(target.mask.sum())
    pull = np.float32(targets[0].deviation ** 2 / squares / variance / len(parts))
    of_noise = n_counts / 4 * targets[0].deviation ** 2 / squares
    least_fall = PLATEAU_TOLERANCE * WINDOW * of_noise if of_noise else -np.inf
    n_steps = descend(arrays, rates, partial(_gradients, targets, Z, parts, pull, triples), most_steps, least_fall, bool(triples))
    return [
        FactorFit(np.array(intercepts, dtype=float)[:, :, 0], np.array([shared + part for part in own] or [shared], dtype=float), n_steps)
        for intercepts, shared, own in parts
    ]


_Parameters = tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]  # intercepts of classes, shared loadings, loadings of their own


def _parameters(targets: Sequence[Targets], n_factors: int, start: FactorFit | int) -> _Parameters:
    """Return the parameters of a fit, whose loadings are shared in the way that is likeliest under the prior, or of a seed."""
    if isinstance(start, int):
        uniform = np.random.default_rng(start).uniform(0.01, 0.99, (len(targets[0].one_way), n_factors))
        shared = (_START * ndtri(uniform)).astype(np.float32)
        own = [np.zeros_like(shared) for _ in targets] if len(targets) > 1 else []
        return [np.log(np.maximum(target.one_way, 1e-4))[:, None] for target in targets], shared, own
    intercepts, loadings = list(start.intercepts[:, :, None].astype(np.float32)), start.loadings.astype(np.float32)
    if len(loadings) == 1:
        return intercepts, loadings[0], []
    # Where the derivative of |S|**2 + sum |B_c - S|**2 / OWN is 0.
    shared = loadings.sum(axis=0) / np.float32(CLASS_SHARE + len(loadings))
    return intercepts, shared, list(loadings - shared)


def _gradients(
    targets: Sequence[Targets], Z: np.ndarray, parts: Sequence[_Parameters], pull: np.float32, triples: Sequence["_MoreErrors"]
) -> tuple[list[np.ndarray], float]:
    """Return the derivatives of the objective of `train_factors`, as a share of the squared rows, and its value without triples."""
    squares = np.array([target.n for target in targets]) ** 2
    weights, objective, by_class = (squares / squares.sum()).astype(np.float32), 0.0, []
    for label, (target, weight) in enumerate(zip(targets, weights, strict=True)):
        logits = [a[label] + (shared + own[label] if own else shared) @ Z.T for a, shared, own in parts]
        at = Probabilities.of(target, np.hstack(logits) if len(parts) > 1 else logits[0])
        slope, square = at.slope(target, *(triples[label].slope(at) if triples else ()))
        objective += square * float(weight)
        by_class.append((np.split(slope, len(parts), axis=1), weight / (len(Z) * len(parts))))
    found, stiff = list[np.ndarray](), targets[0].smoothness.times
    for place, (_, shared, own) in enumerate(parts):
        pulls, own_pulls = stiff(shared), [stiff(part) for part in own]
        objective += float(pull) / 2 * (float(np.vdot(shared, pulls)) + sum(map(float, map(np.vdot, own, own_pulls))) / CLASS_SHARE)
        of_loadings = [slopes[place] @ Z * weight for slopes, weight in by_class]
        found += [*(slopes[place].sum(axis=1, keepdims=True) * weight for slopes, weight in by_class), sum(of_loadings) + pull * pulls]
        found += [slope + pull / CLASS_SHARE * each for slope, each in zip(of_loadings, own_pulls, strict=False)]
    return found, objective


def choose_variance(
    targets: Sequence[Targets], nodes: np.ndarray, most_work: float, variances: Sequence[float] = VARIANCES
) -> tuple[float, float]:
    """Choose the variance of the prior by count splitting: fit to one half of the noise, judge by the other; return also the work.

    Errors count by the root of the frequency that independent columns would have: between absolute errors, in which tables are compared,
    and squared ones, in which a few heavy cells would decide. Beyond `most_work`, in the units of `step_work`, the usual variance is taken.
    """
    work = step_work(targets) * _PILOT_STEPS * len(variances)
    n_splits = min(_SPLITS, int(most_work / work))
    if not n_splits or not targets[0].deviation:
        return _USUAL, 0.0
    rng, scores = np.random.default_rng(SEED), np.zeros(len(variances))
    for _ in range(n_splits):
        fitted, judged = zip(*map(Targets.split, targets, repeat(rng)), strict=True)
        for place, variance in enumerate(variances):
            scores[place] += score(judged, nodes, *train_factors(fitted, nodes, variance, [0], _PILOT_STEPS))
    return variances[int(np.argmin(scores))], work * n_splits


def step_work(targets: Sequence[Targets]) -> float:
    """Return how much work a step of descent is: about the number of pairs of codes, in all classes."""
    work = 0.0
    for target in targets:
        work += float(target.sizes.sum()) ** 2
        for law in target.laws:
            work += _WORK_OF_CODE * np.sum(law.tuples)
    return work


def score(targets: Sequence[Targets], nodes: np.ndarray, *fits: FactorFit) -> float:
    """Return how far the mixture of fits is from the tables of pairs: squared errors of counts, over the root of independent ones."""
    found = 0.0
    for label, target in enumerate(targets):
        logits = np.hstack([fit.intercepts[label][:, None] + fit.loadings[label] @ nodes.T for fit in fits])
        at = Probabilities.of(target, logits.astype(np.float32))
        error, of_laws = at.errors(target)
        weight = (np.maximum(target.one_way, _LEAST_FREQUENCY) ** -0.25).astype(np.float32)
        error *= weight[:, None]
        error *= weight
        found += target.n**2 * float(np.vdot(error, error))
        for places, within in zip(target.places, of_laws, strict=True):
            found += target.n**2 * float(((weight[places, None] * within * weight[places]) ** 2).sum())
    return found


def descend(
    parameters: Sequence[np.ndarray],
    rates: Sequence[float | np.ndarray],
    gradients: Callable[[], tuple[list, float]],
    most_steps: int,
    least_fall: float,
    goes_on: bool = False,
) -> int:
    """Change parameters in place by Adam until the objective is flat; return the number of steps.

    The rate is constant until the objective falls by less than `least_fall` from window to window, and then it falls. Fits that go on are
    at their best each: they take smaller steps, and all of them.
    """
    begin: float = most_steps - (most_steps + 3) // 4  # of the last steps, in which the rate falls
    end = most_steps
    if goes_on:
        begin, end = _COOLS * most_steps + 1, most_steps + 1
    moments = [(np.zeros_like(parameter), np.zeros_like(parameter)) for parameter in parameters]
    whole, before, n_steps = 0.0, np.inf, 0
    for _ in track_steps("fit the latent factors", range(most_steps)):
        if n_steps >= end:
            break
        slopes, objective = gradients()
        n_steps += 1
        whole += objective
        if n_steps % WINDOW == 0:
            if n_steps < begin and before - whole < least_fall and not goes_on:
                begin, end = n_steps, n_steps + n_steps // 3
            before, whole = whole, 0.0
        rate = (_SLOWER * RATE if goes_on else RATE) * (1 - 0.95 * max(0.0, (n_steps - begin) / (end - begin)))
        for parameter, (m, v), slope, factor in zip(parameters, moments, slopes, rates, strict=True):
            m += 0.1 * (slope - m)
            v += 0.01 * (slope * slope - v)
            parameter -= factor * rate * (m / (1 - 0.9**n_steps)) / (np.sqrt(v / (1 - 0.99**n_steps)) + 1e-12)
    return n_steps


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities of the codes of one class at every node."""

    singles: np.ndarray  # shape (n_codes, n_nodes)
    tied: list[Any]  # states of the laws

    @classmethod
    def of(cls, target: Targets, logits: np.ndarray) -> "Probabilities":
        """Compute them from logits, which are overwritten."""
        P = softmax(logits, target.to_columns)
        tied = [law.forward(P[places]) for law, places in zip(target.laws, target.places, strict=True)]
        for places, state in zip(target.places, tied, strict=True):
            P[places] = state.singles
        return cls(P, tied)

    def errors(self, target: Targets) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the errors of pairs, symmetric; and apart, where they are 0, those of pairs of each law, which are no products."""
        error = self.singles @ self.singles.T
        error /= self.singles.shape[1]
        error -= target.two_way
        error *= target.mask_of_products
        parts = zip(target.laws, self.tied, target.of_laws, strict=True)
        return error, [(law.joint(state) - two_way) * mask for law, state, (two_way, mask, _) in parts]

    def slope(self, target: Targets, beside: np.ndarray | None = None, of_laws: Sequence[np.ndarray] = ()) -> tuple[np.ndarray, float]:
        """Return the derivative of the error by the logits (times the number of nodes), and the error itself.

        `beside` is the derivative of other errors by the probabilities, times the number of nodes, and `of_laws` that through the pairs of
        each law.
        """
        P = self.singles
        error, within = self.errors(target)
        of_columns = P.mean(axis=1) - target.one_way
        weighted = error if target.precision is None else error * target.precision
        # Each pair stands twice in the matrix.
        value = float(np.vdot(error, weighted)) / 4 + target.weight * float(np.vdot(of_columns, of_columns)) / 2
        slope = weighted @ P
        slope += np.float32(target.weight) * of_columns[:, None]
        if beside is not None:
            slope += beside
        tied = []
        for number, (law, places, state) in enumerate(zip(target.laws, target.places, self.tied, strict=True)):
            by_pairs = within[number] * target.of_laws[number][2]
            through_pairs = law.times(state, by_pairs)
            tied.append(law.backward(state, slope[places], through_pairs + of_laws[number] if of_laws else through_pairs))
            value += float(np.vdot(within[number], by_pairs)) / 4
        slope *= P
        slope -= P * np.repeat(target.to_columns @ slope, target.sizes, axis=0)
        for places, own in zip(target.places, tied, strict=True):
            slope[places] = own
        return slope, value


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

    def slope(self, at: Probabilities) -> tuple[np.ndarray]:
        """Return the derivative of ``weight * |error|**2 / 2``, summed over tables, by P(code | node), times the number of nodes."""
        P, found = at.singles, np.zeros_like(at.singles)
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
        return (found,)


class WithinErrors:
    """The squared errors of the frequencies of pairs of columns within each level of another one, in one class of rows.

    At each node that column is independent of the others: pairs within a level are pairs at nodes that count by its probability.
    """

    def __init__(self, tables: Mapping[Triple, np.ndarray], target: Targets, column: int, weight: float) -> None:
        starts, sizes = starts_of(target.sizes), target.sizes
        places = [slice(start, start + size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        self._levels, self._target = range(places[column].start, places[column].stop), target
        self._tables = np.zeros((sizes[column], sizes.sum(), sizes.sum()), dtype=np.float32)
        self._mask = np.zeros_like(self._tables[0])
        for triple, table in tables.items():
            j, k = (places[other] for other in triple if other != column)
            own = np.moveaxis(table, triple.index(column), 0)
            self._tables[:, j, k], self._tables[:, k, j] = own, own.transpose(0, 2, 1)
            self._mask[j, k] = self._mask[k, j] = weight
        self._of_laws = [np.ix_(own, own) for own in target.places]

    def slope(self, at: Probabilities) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the derivatives of ``weight * |error|**2 / 2`` by P(code | node), and through pairs of laws, times the number of nodes."""
        P, found, target = at.singles, np.zeros_like(at.singles), self._target
        through = [np.zeros_like(state.joint) for state in at.tied]
        for level, table in zip(self._levels, self._tables, strict=True):
            share = P[level].copy()
            error = ((P * share) @ P.T / np.float32(P.shape[1]) - table) * self._mask
            for number, (law, state, block) in enumerate(zip(target.laws, at.tied, self._of_laws, strict=True)):
                own = np.where(law.pairs, (law.joint(state, share) - table[block]) * self._mask[block], 0)
                error[block] *= np.logical_not(law.pairs)
                of_law = law.times(state, own)
                found[level] += (state.joint * of_law).sum(axis=0) / 2
                through[number] += of_law * share
            of_level = error @ P
            found[level] += (P * of_level).sum(axis=0) / 2
            found += of_level * share
        return found, through


_MoreErrors = TripleErrors | WithinErrors


def codes_of(columns: Sequence[int], sizes: np.ndarray) -> np.ndarray:
    ends = np.cumsum(sizes)
    return np.concatenate([np.arange(ends[column] - sizes[column], ends[column]) for column in columns])


def softmax(logits: np.ndarray, to_columns: "csr_array") -> np.ndarray:
    """Softmax down the rows of each column's block; overwrites."""
    ends = to_columns.indptr.tolist()
    # Maxima of logits of the model, not of rows; column by column, as `np.maximum.reduceat` takes three times as long.
    for start, end in pairwise(ends):
        logits[start:end] -= logits[start:end].max(axis=0)
    np.exp(logits, out=logits)
    logits /= np.repeat(to_columns @ logits, np.diff(ends), axis=0)
    return logits


def sum_to_columns(sizes: np.ndarray) -> "csr_array":
    """Return the matrix that sums codes to their columns."""
    return sum_matrix(np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def starts_of(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def nearest_probabilities(values: np.ndarray) -> np.ndarray:
    """Return the nearest point of the simplex, in the euclidean distance."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0)
