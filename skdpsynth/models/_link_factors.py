"""Model of an exchangeable link: factors that a parent shares with its children, and factors of each child."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import cached_property, one_blas_thread
from skdpsynth.models._latent_factors import quasi_normal
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._mixture_sampling import CommonNodeSampler, MixtureSampler, balanced_half
from skdpsynth.models._training import (
    INDEPENDENT,
    PLATEAU_TOLERANCE,
    WINDOW,
    Probabilities,
    Smoothness,
    Targets,
    descend,
    nearest_probabilities,
    softmax,
    starts_of,
    sum_to_columns,
)
from skdpsynth.persistence import savable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_NODES = 128  # points of the shared factors
_OWN_NODES = 4  # points of a child's own factors beside each of them, in each of two roles
_FITS = 8  # from different starts, mixed equally, at most: a power of two
_STEPS, _LEAST_STEPS = 1000, 200  # of each, at most
_PARENTS_OF_FIT = 2000  # fewer leave its nodes a handful of rows, so that samples are less even than the mixture is better
_WORK = 1e8  # of a step of all fits, in products
_VARIANCE, _LEAST_VARIANCE = 2.0, 0.3  # of the prior of loadings
_NOISY = 0.007  # noise of a frequency of a parent and a child, beyond which loadings of shared factors have less
_OTHER = 2.0  # times the prior variance: of loadings that only the special role has
_TOGETHER = 0.3  # times as many steps of all fits as one model, where noise is low
_LOW_NOISE = 0.05  # total variation that noise adds to the table of a column of a parent and one of a child
_START = 0.1  # deviation of the first loadings
_LEAST_DEVIATION = 0.3  # of a count: less is less than what rounding to whole numbers adds
_BLOCK = 1 << 16  # rows that `MixtureSampler` draws at once
_BALANCED = 1 << 23  # parents times pairs of their codes, beyond which they are not chosen to be even: that would take seconds
_CELLS = 1 << 19  # rows times nodes at once

Pair = tuple[int, int]
_Fit = tuple[np.ndarray, np.ndarray, list[np.ndarray]]  # points of z, points of u, and parameters
PairTables = Mapping[Pair, np.ndarray]


@dataclass(frozen=True, eq=False)
class LinkTables:
    """Estimated tables of a link, as frequencies of parents; a parent counts once, and so do its children together.

    Attributes
    ----------
    parent : tuple of (columns, pairs)
        One-way tables of the columns of the parent, and two-way tables of pairs i < j.
    cross : mapping of (i, j) to ndarray
        Column i of the parent and column j of a child: their mass is that of the parents with children.
    child : tuple of (columns, pairs)
    siblings : mapping of (i, j) to ndarray, i <= j
        Column i of a child and column j of another child of the same parent; [i, i] is symmetric over ordered cells.
    count : int
        Which column of the parent is the number of children.
    n : float
        Number of parents.
    deviations : mapping of str to float
        Of the noise of a count of "columns", "parent", "cross", "child" and "siblings".
    precisions : mapping of (family, (i, j)) to float, default={}
        Of single tables, relative to the deviation of their family; missing: 1. Of [i, i] siblings, in which numbers stand twice: that of
        numbers that stand once.
    masses : tuple of two ndarrays or None, default=None
        By the number of children: what all children of a parent weigh in `cross` and `child`, and what its pairs of siblings weigh.
        None: 1 from one child on, and from two on.
    n_ordered : tuple of two sequences of int or None, default=None
        How many codes of each column of the parent and of a child have an order, along which the prior is smooth. None: none.
    """

    parent: tuple[Sequence[np.ndarray], PairTables]
    cross: PairTables
    child: tuple[Sequence[np.ndarray], PairTables]
    siblings: PairTables
    count: int
    n: float
    deviations: Mapping[str, float]
    precisions: Mapping[tuple[str, Pair], float] = field(default_factory=dict)
    masses: tuple[np.ndarray, np.ndarray] | None = None
    n_ordered: tuple[Sequence[int], Sequence[int]] | None = None

    def deviation(self, family: str) -> float:
        return max(self.deviations[family], _LEAST_DEVIATION)

    def relative_precision(self, family: str, pair: Pair) -> float:
        """Return the inverse variance of a table relative to that of pairs of the parent."""
        return (self.deviation("parent") / self.deviation(family)) ** 2 * self.precisions.get((family, pair), 1.0)

    def mass_by_count(self) -> tuple[np.ndarray, np.ndarray]:
        counts = np.arange(len(self.parent[0][self.count]))
        return self.masses or ((counts >= 1).astype(float), (counts >= 2).astype(float))


@dataclass(frozen=True, eq=False)
class _Targets:
    """Tables of a link as matrices over codes, and the precision of their cells: 0 where nothing was counted."""

    parent: Targets
    sizes: np.ndarray  # of the columns of a child
    one_way: np.ndarray
    mass: float  # of each column of a child
    cross: tuple[np.ndarray, np.ndarray]
    child: tuple[np.ndarray, np.ndarray]
    siblings: tuple[np.ndarray, np.ndarray]
    count: slice  # rows of the parent that are numbers of children
    masses: list[np.ndarray]
    smoothness: Smoothness

    @classmethod
    def of(cls, tables: LinkTables, dtype: type) -> "_Targets":
        (columns, pairs), (of_child, child), n = tables.parent, tables.child, tables.n
        own = {pair: tables.precisions.get(("parent", pair), 1.0) for pair in pairs}
        counts, ordered = ([n * t for t in columns], {pair: n * t for pair, t in pairs.items()}), tables.n_ordered
        noise = tables.deviation("columns"), tables.deviation("parent")
        parent = Targets.of(*counts, n, noise, (), None if ordered is None else ordered[0], own)
        sizes, mass = np.array([len(t) for t in of_child]), max(float(np.mean([t.sum() for t in of_child])), 1 / n)
        one_way = np.concatenate([mass * nearest_probabilities(t / mass) for t in of_child])
        cross = _matrices(tables, "cross", tables.cross, (parent.sizes, sizes), dtype)
        within = _matrices(tables, "child", child, (sizes, sizes), dtype)
        siblings = _matrices(tables, "siblings", tables.siblings, (sizes, sizes), dtype)
        ends = np.cumsum(parent.sizes)
        count = slice(int(ends[tables.count] - parent.sizes[tables.count]), int(ends[tables.count]))
        masses: list[np.ndarray] = [np.asarray(each, dtype) for each in tables.mass_by_count()]
        smoothness = INDEPENDENT if ordered is None else Smoothness.of(starts_of(sizes).tolist(), ordered[1])
        return cls(parent, sizes, one_way.astype(dtype), mass, cross, within, siblings, count, masses, smoothness)

    @cached_property
    def masses_of_one(self) -> list[np.ndarray]:
        """Masses over the number of children."""
        return [each / np.maximum(np.arange(len(each), dtype=each.dtype), 1) for each in self.masses]

    @cached_property
    def to_columns(self) -> Any:
        return sum_to_columns(self.sizes)


def _matrices(tables: LinkTables, family: str, own: PairTables, sizes: tuple[np.ndarray, np.ndarray], dtype: type) -> tuple:
    """Return the tables of a family in one matrix, and the precision of each cell; symmetric but for those of a parent and a child."""
    rows, columns = (starts_of(each).tolist() for each in sizes)
    values: np.ndarray = np.zeros((int(sizes[0].sum()), int(sizes[1].sum())), dtype)
    precision = values.copy()
    for (i, j), table in own.items():
        weight = np.float32(tables.relative_precision(family, (i, j)))
        if family == "siblings" and i == j:
            weight *= 2  # all others stand twice in the matrix
        a, b = slice(rows[i], rows[i] + len(table)), slice(columns[j], columns[j] + table.shape[1])
        values[a, b], precision[a, b] = table, weight
        if family != "cross":
            values[b, a], precision[b, a] = table.T, weight
    return values, precision


class _Descent:
    """The parameters of a mixture of fits, and the derivatives of its objective.

    X(z) = softmax(a + B z) is the law of a parent's codes, s(z) = sigmoid(e + f z) the probability that one of its children is the special
    one, S(z) the law of a child's codes in that role and R(z) of all others: means over nodes u of softmax(c + D z + E u), with more
    intercepts and loadings for S. The codes of k children have the law R + s (S - R) / k in the mean, and pairs of siblings have that of
    ``R R' + s / k (S R' + R S' - 2 R R')``. Minimized are the squared errors of all tables times their precisions, and the part of a normal
    prior, as in `train_factors`, in the mean over fits. How many children there are given z counts as known where tables of children are
    fitted: else their errors, which are larger, would move it.
    """

    def __init__(self, targets: _Targets, parts: Sequence[_Fit], variance: float) -> None:
        self.targets, self.parts = targets, parts
        noise = (targets.parent.deviation / targets.parent.n) ** 2
        of_parent, of_child, pull = targets.parent.smoothness, targets.smoothness, noise / variance / len(parts)
        self.priors = {1: (of_parent, pull), 3: (of_child, pull), 4: (of_child, pull * variance / _VARIANCE)}
        self.priors |= dict.fromkeys((7, 8), (of_child, pull / _OTHER)) | {6: (INDEPENDENT, pull / _OTHER)}
        counted = (targets.parent.mask, targets.cross[1], targets.child[1], targets.siblings[1])
        self.least_fall = PLATEAU_TOLERANCE * WINDOW * sum(map(np.count_nonzero, counted)) / 4 * noise

    @property
    def parameters(self) -> list[np.ndarray]:
        return [each for _, _, own in self.parts for each in own]

    def gradients(self) -> tuple[list[np.ndarray], float]:
        t, n_codes = self.targets, len(self.targets.one_way)
        at = Probabilities.of(t.parent, np.hstack([own[0] + own[1] @ Z.T for Z, _, own in self.parts]))
        of_children = [_at_own_nodes(c, D, E, role, Z, U, t.to_columns) for Z, U, (_, _, c, D, E, *role) in self.parts]
        laws, shares = zip(*of_children, strict=True)
        share = np.concatenate(shares)
        beside, cells, of_share, value = self._errors(at.singles, np.hstack(laws).reshape(n_codes, len(share), 2, -1), share)
        by_parent, square = at.slope(t.parent, beside)
        slopes = by_parent / len(share), cells, (of_share * share * (1 - share))[None]
        found, value = list[np.ndarray](), value + square
        for (Z, U, own), *each in zip(self.parts, *(np.split(slope, len(self.parts), axis=1) for slope in slopes), strict=True):
            by_parent, by_cells, by_share = each
            by_role, part = by_cells.sum(axis=3), []
            for slope in (by_parent, by_role.sum(axis=2), by_share, by_role[:, :, 0]):
                part += [slope.sum(axis=1, keepdims=True), slope @ Z]
            part.insert(4, by_cells.reshape(n_codes, -1) @ U)
            for place, (smoothness, pull) in self.priors.items():
                pulled = smoothness.times(own[place]) * np.asarray(pull, Z.dtype)
                part[place] += pulled
                value += float(np.vdot(pulled, own[place])) / 2
            found += part
        return found, value

    def _errors(self, X: np.ndarray, Y: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return derivatives by X, times the number of nodes, by the logits of Y, and by the share, and the errors but the parent's."""
        t, (n_codes, H, _, M) = self.targets, Y.shape
        counts, (c1, c2), (r1, r2) = X[t.count], t.masses, t.masses_of_one
        o1, o2, f1, f2 = c1 @ counts, c2 @ counts, r1 @ counts, r2 @ counts
        v1, v2 = share * f1, share * f2
        (S, R), flat = Y.mean(axis=3).transpose(2, 0, 1), Y.reshape(n_codes, -1)
        W, V = X * o1, X * v1  # of R and of S - R beside the codes of a parent
        W[t.count], V[t.count] = counts * c1[:, None], counts * r1[:, None] * share
        of_nodes = np.stack([v1, o1 - v1], axis=1)[:, :, None] / np.asarray(M, X.dtype)
        by_cross, of_cross = _by_table(((W - V) @ R.T + V @ S.T) / H, t.cross, 1)
        by_child, of_child = _by_table((Y * (of_nodes / H)).reshape(flat.shape) @ flat.T, t.child, 2)
        both = (S * v2) @ R.T
        by_siblings, of_siblings = _by_table(((R * (o2 - 2 * v2)) @ R.T + both + both.T) / H, t.siblings, 2)
        of_columns = (R @ (o1 - v1) + S @ v1) / H - t.one_way
        value = of_cross + of_child + of_siblings + t.parent.weight * float(of_columns @ of_columns) / 2
        of_columns *= t.parent.weight
        by_W, by_V, by_R, slope = by_cross @ R, by_cross @ (S - R), by_siblings @ R, (by_child @ flat).reshape(Y.shape)
        beside = by_W * o1 + by_V * v1
        beside[t.count] = by_W[t.count] * c1[:, None] + by_V[t.count] * r1[:, None] * share
        by_V *= X
        by_special, by_other = np.einsum("chrm,chrm->rh", slope, Y) / M
        by_v1 = by_V.sum(axis=0) - by_V[t.count].sum(axis=0) + of_columns @ (S - R) + (by_special - by_other) / 2
        by_share = by_v1 * f1 + (by_R * (S - R)).sum(axis=0) * f2 + r1 @ by_V[t.count]
        slope *= of_nodes
        of_S, of_R = by_cross.T @ V + of_columns[:, None] * v1, by_cross.T @ (W - V) + of_columns[:, None] * (o1 - v1)
        slope[:, :, 0] += (of_S + by_R * v2)[:, :, None] / M
        slope[:, :, 1] += (of_R + by_R * (o2 - 2 * v2) + (by_siblings @ S) * v2)[:, :, None] / M
        slope *= Y / H
        slope.reshape(flat.shape)[...] -= flat * np.repeat(t.to_columns @ slope.reshape(flat.shape), t.sizes, axis=0)
        return beside, slope, by_share / H, value


def _by_table(found: np.ndarray, wanted: tuple[np.ndarray, np.ndarray], n_times: int) -> tuple[np.ndarray, float]:
    """Return the derivative of the squared errors of tables that stand `n_times` in a matrix, times that number, and the errors."""
    error = found - wanted[0]
    weighted = error * wanted[1]
    return weighted, float(np.vdot(error, weighted)) / (2 * n_times)


def _at_own_nodes(
    c: np.ndarray, D: np.ndarray, E: np.ndarray, role: Sequence[np.ndarray], Z: np.ndarray, U: np.ndarray, to_columns: "csr_array"
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(code of a child | z, role, u), shape (n_codes, n_own_nodes), and P(one child is special | z)."""
    e, f, more, more_loadings = role
    logits = E @ U.T
    cells = logits.reshape(len(c), len(Z), 2, -1)
    cells += (c + D @ Z.T)[:, :, None, None]
    cells[:, :, 0] += (more + more_loadings @ Z.T)[:, :, None]
    return softmax(logits, to_columns), 1 / (1 + np.exp(-(e + f @ Z.T)[0]))


@savable
@dataclass(frozen=True, eq=False, repr=False)
class LinkFactors:
    """Factors z that a parent shares with its children, and factors u of each child.

    Given z, the columns of the parent are independent, and one has the code m with probability softmax(a + B z)_m. With a probability of
    z, one of its children has a role that no other one has, such as that of a spouse: without it siblings could only be alike. Given z
    children are else independent, and given u so are the columns of a child. Several fits are mixed equally.

    Attributes
    ----------
    sizes : tuple of two ndarrays
        Number of codes of each column of the parent, and of a child.
    nodes : ndarray of shape (n_fits, n_nodes, n_factors)
        Points that stand for z, equally likely.
    own_nodes : ndarray of shape (n_fits, n_nodes, 2, n_own_nodes, n_factors)
        Points that stand for u beside each, of the special child and of others.
    factors : tuple of ndarrays, of shapes (n_fits, n_codes or 1, 1 or n_factors)
        Intercepts and loadings: a and B of the parent; c, D and E of a child; of the probability of a special child; and what is added to c
        and D for it.

    See Also
    --------
    LatentFactors : The same for one table.
    """

    sizes: tuple[np.ndarray, np.ndarray]
    nodes: np.ndarray
    own_nodes: np.ndarray
    factors: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return f"LinkFactors({len(self.sizes[0])} and {len(self.sizes[1])} columns, {len(self.nodes)} fits)"

    @property
    def n_nodes(self) -> int:
        """Nodes of z in all fits."""
        return self.nodes.shape[0] * self.nodes.shape[1]

    @property
    def _parent(self) -> np.ndarray:
        a, B = self.factors[:2]
        return softmax(np.hstack(a + B @ self.nodes.transpose(0, 2, 1)), sum_to_columns(self.sizes[0]))

    @property
    def _child(self) -> tuple[np.ndarray, np.ndarray]:
        laws, shares, to_columns = [], [], sum_to_columns(self.sizes[1])
        for Z, U, c, D, E, *role in zip(self.nodes, self.own_nodes, *self.factors[2:], strict=True):
            law, share = _at_own_nodes(c, D, E, role, Z, U.reshape(-1, U.shape[-1]), to_columns)
            laws.append(law)
            shares.append(share)
        return np.hstack(laws), np.concatenate(shares)

    def parent(self) -> Mixture:
        """Return the law of a parent, over nodes of z."""
        return Mixture.of_columns(np.split(self._parent, starts_of(self.sizes[0])[1:]))

    def child(self) -> Mixture:
        """Return the laws of a child, over equally many nodes of u for each node of a child: two for each z, the special child's first."""
        return Mixture.of_columns(np.split(self._child[0], starts_of(self.sizes[1])[1:]))

    def special_share(self) -> np.ndarray:
        """Return P(one child, if there is any, is the special one | node of z)."""
        return self._child[1]

    def draw_parents(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return codes of n parents, shape (n_columns, n), and their nodes of z."""
        mixture, order = self.parent(), rng.permutation(n)
        common, sampler = CommonNodeSampler(mixture.weights, rng), MixtureSampler(mixture, rng, self.n_nodes)
        drawn, is_balanced = np.empty((mixture.n_columns + 1, n), dtype=np.int64), n * mixture.n_columns**2 <= _BALANCED
        size = _BLOCK >> is_balanced
        for block, start in enumerate(range(0, n, size)):
            rows = order[start : start + size]
            counts = common.counts(len(rows) << is_balanced, block)
            of_rows = [*sampler.codes(len(rows) << is_balanced, block, rng, counts), np.repeat(np.arange(self.n_nodes), counts)]
            drawn[:, rows] = balanced_half(of_rows, rng) if is_balanced else of_rows
        return drawn[:-1], drawn[-1]

    def draw_nodes(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the node of z of each parent given its codes, shape (n_columns, n)."""
        logs = np.log(np.maximum(self._parent, np.finfo(np.float32).tiny)).astype(np.float32)
        return draw_nodes_given(np.split(logs, starts_of(self.sizes[0])[1:]), dict(enumerate(codes)), codes.shape[1], rng)

    def draw_child_nodes(self, nodes: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the node of each child, parent after parent, given the nodes of z of parents and how many children each has."""
        special = np.where(rng.random(len(nodes)) < self.special_share()[nodes], (rng.random(len(nodes)) * counts).astype(np.int64), -1)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        return 2 * np.repeat(nodes, counts) + (np.arange(len(first)) - first != np.repeat(special, counts))

    def draw_children(
        self, nodes: np.ndarray, rng: np.random.Generator, ranks: np.ndarray | None = None, allowed: Mapping[int, np.ndarray] | None = None
    ) -> np.ndarray:
        """Return codes of children, shape (n_columns, n_children), given the nodes of `draw_child_nodes`.

        `ranks` are places among siblings, 0 first: children of different ranks are drawn independently, and those of one rank evenly.
        `allowed` has masks of codes of some columns, shape (n_codes,) or (n_children, n_codes): children are drawn on that condition.
        """
        sampler, ranks = MixtureSampler(self.child(), rng, 2 * self.n_nodes), np.zeros(len(nodes), int) if ranks is None else ranks
        out, block = np.empty((len(self.sizes[1]), len(nodes)), dtype=np.int64), 0
        for rank in np.flatnonzero(np.bincount(ranks)):
            of_rank = np.flatnonzero(ranks == rank)
            for start in range(0, len(of_rank), _BLOCK):
                rows = of_rank[start : start + _BLOCK]
                rows = rows[np.argsort(nodes[rows], kind="stable")]
                out[:, rows] = list(sampler.codes(len(rows), block, rng, np.bincount(nodes[rows], minlength=2 * self.n_nodes)))
                block += 1
        if allowed:
            masks = {column: np.broadcast_to(mask, (len(nodes), mask.shape[-1])) for column, mask in allowed.items()}
            kept = np.all([mask[np.arange(len(nodes)), out[column]] for column, mask in masks.items()], axis=0)
            broken = np.flatnonzero(~kept)
            out[:, broken] = self._draw_allowed(nodes[broken], {column: mask[broken] for column, mask in masks.items()}, rng)
        return out

    def _draw_allowed(self, nodes: np.ndarray, allowed: Mapping[int, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Draw children on the condition that codes are allowed: u by P(u | node, condition), then codes given both."""
        columns = [table.reshape(len(table), 2 * self.n_nodes, -1) for table in np.split(self._child[0], starts_of(self.sizes[1])[1:])]
        out, n_own = np.empty((len(columns), len(nodes)), dtype=np.int64), columns[0].shape[2]
        size = max(1, _CELLS // (n_own * max(map(len, columns))))
        for start in range(0, len(nodes), size):
            rows = slice(start, start + size)
            z, weights = nodes[rows], np.ones((1, n_own))
            for column, mask in allowed.items():
                weights = weights * np.einsum("nc,cnm->nm", mask[rows].astype(float), columns[column][:, z])
            u = draw_places(np.broadcast_to(weights, (len(z), n_own)), rng)
            for column, table in enumerate(columns):
                law = table[:, z, u].T
                out[column, rows] = draw_places(law * allowed[column][rows] if column in allowed else law, rng)
        return out


def draw_nodes_given(logs: Sequence[np.ndarray], known: Mapping[int, np.ndarray], n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the node of each row, given the codes of some columns, by the logarithms of P(code | node)."""
    n_nodes, nodes = logs[0].shape[1], np.empty(n_rows, dtype=np.int64)
    size = max(1, _CELLS // n_nodes)
    for start in range(0, n_rows, size):
        rows = slice(start, start + size)
        found = sum(logs[place][codes[rows]] for place, codes in known.items())
        nodes[rows] = draw_places(np.exp(found - np.max(found, axis=1, keepdims=True)), rng)
    return nodes


def draw_places(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a place in each row, in proportion to its weights."""
    upto = np.cumsum(weights, axis=1, dtype=float)
    return np.minimum((upto <= rng.random((len(upto), 1)) * upto[:, -1:]).sum(axis=1), upto.shape[1] - 1)


def fit_link_factors(tables: LinkTables, n_factors: int = 32, most: tuple[int, int] | None = None) -> LinkFactors:
    """Fit a link to estimated tables, with `n_factors` that siblings share and as many of each child, in `most` fits and steps of each."""
    targets, (most_fits, most_steps) = _Targets.of(tables, np.float32), most or (_FITS, _STEPS)
    n_parent, n_child = int(targets.parent.sizes.sum()), int(targets.sizes.sum())
    share = _WORK / (_NODES * (n_parent * (n_parent + n_factors) + 2 * _OWN_NODES * n_child * (n_child + n_factors)))
    n_fits = 1 << int(np.log2(np.clip(min(share, tables.n / _PARENTS_OF_FIT), 1, most_fits)))
    n_steps = int(np.clip(share * _STEPS, _LEAST_STEPS, min(most_steps, _STEPS)))
    Z = quasi_normal(n_fits * _NODES, n_factors).astype(np.float32).reshape(n_fits, _NODES, n_factors)
    # Points of u beside one z are far apart in the sequence, and those of one run even over all z.
    U = quasi_normal(n_fits * 2 * _OWN_NODES * _NODES, n_factors).astype(np.float32).reshape(n_fits, 2, _OWN_NODES, _NODES, n_factors)
    U, fits = np.ascontiguousarray(U.transpose(0, 3, 1, 2, 4)), list[_Fit]()
    variance = float(np.clip(_VARIANCE * (_NOISY * tables.n / tables.deviation("cross")) ** 2, _LEAST_VARIANCE, _VARIANCE))
    with one_blas_thread():
        for seed, (nodes, own) in enumerate(zip(Z, U, strict=True)):
            fits.append((nodes, own.reshape(-1, n_factors), _start(targets, n_factors, seed)))
            _descend(_Descent(targets, fits[-1:], variance), n_steps)
        # The mixture averages the noise out that fits have taken up. Where there is little, it should err less than each of them.
        if _noise_of_table(tables) < _LOW_NOISE:
            _descend(_Descent(targets, fits, variance), int(_TOGETHER * n_steps), goes_on=True)
    factors = tuple(np.array(each) for each in zip(*(parameters for _, _, parameters in fits), strict=True))
    return LinkFactors((targets.parent.sizes, targets.sizes), Z, U, factors)


def _descend(descent: _Descent, n_steps: int, goes_on: bool = False) -> None:
    parameters = descent.parameters
    descend(parameters, [1.0] * len(parameters), descent.gradients, n_steps, descent.least_fall, goes_on)


def _noise_of_table(tables: LinkTables) -> float:
    """Return the total variation that noise adds to a table of a parent and a child, in the mean."""
    n_cells = np.mean([table.size for table in tables.cross.values()] or [0])  # none beside children of one code
    return float(n_cells * tables.deviation("cross") / tables.n / np.sqrt(2 * np.pi))


def _start(targets: _Targets, n_factors: int, seed: int) -> list[np.ndarray]:
    """Return the first parameters of a fit."""
    rng, dtype = np.random.default_rng(seed), targets.one_way.dtype

    def start(n_codes: int, n_factors: int) -> np.ndarray:
        return (_START * ndtri(rng.uniform(0.01, 0.99, (n_codes, n_factors)))).astype(dtype)

    a, c = (np.log(np.maximum(t, 1e-4))[:, None].astype(dtype) for t in (targets.parent.one_way, targets.one_way / targets.mass))
    of_child = [c, start(len(c), n_factors), start(len(c), n_factors)]
    role = [np.zeros((1, 1), dtype), start(1, n_factors), 3 * start(len(c), 1), start(len(c), n_factors)]
    return [a, start(len(a), n_factors), *of_child, *role]
