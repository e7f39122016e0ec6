"""Model of an exchangeable link: factors that a parent shares with its children, and factors of each child."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from skdpsynth._parallel import cached_property, one_blas_thread
from skdpsynth.models._latent_factors import quasi_normal
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._mixture_sampling import CommonNodeSampler, MixtureSampler
from skdpsynth.models._training import (
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

_NODES = 128  # points of the shared factors
_OWN_NODES = 32  # points of a child's own factors beside each of them
_FITS = 2
_STEPS = 1000
_VARIANCE = 1.0
_START = 0.1  # deviation of the first loadings
_LEAST_DEVIATION = 0.3  # of a count: less is less than what rounding to whole numbers adds
_MOST_WEIGHT = 50.0  # of columns against pairs
_BLOCK = 1 << 16  # rows that `MixtureSampler` draws at once
_CELLS = 1 << 17  # rows times nodes at once
FAMILIES = ("parent", "cross", "child", "siblings")

Pair = tuple[int, int]
Tables = Mapping[Pair, np.ndarray]


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
        Of the noise of a count of "columns", "parent", "cross", "child" and "siblings"; of [i, i] siblings that of an unordered cell.
    precisions : mapping of (family, (i, j)) to float, default={}
        Of single tables, relative to the deviation of their family; missing: 1.
    masses : tuple of two ndarrays or None, default=None
        By the number of children: what all children of a parent weigh in `cross` and `child`, and what its pairs of siblings weigh.
        None: 1 from one child on, and from two on.
    """

    parent: tuple[Sequence[np.ndarray], Tables]
    cross: Tables
    child: tuple[Sequence[np.ndarray], Tables]
    siblings: Tables
    count: int
    n: float
    deviations: Mapping[str, float]
    precisions: Mapping[tuple[str, Pair], float] = field(default_factory=dict)
    masses: tuple[np.ndarray, np.ndarray] | None = None

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
    weight: float  # of `one_way`
    cross: tuple[np.ndarray, np.ndarray]
    child: tuple[np.ndarray, np.ndarray]
    siblings: tuple[np.ndarray, np.ndarray]
    count: slice  # rows of the parent that are numbers of children
    masses: tuple[np.ndarray, np.ndarray]
    smoothness: Smoothness

    @classmethod
    def of(cls, tables: LinkTables, n_ordered: tuple[Sequence[int], Sequence[int]] | None, dtype: type) -> "_Targets":
        columns, pairs = tables.parent
        n, deviations = tables.n, (tables.deviation("columns"), tables.deviation("parent"))
        own = {pair: tables.precisions.get(("parent", pair), 1.0) for pair in pairs}
        ordered = n_ordered or (None, None)
        parent = Targets.of([n * t for t in columns], {pair: n * t for pair, t in pairs.items()}, n, deviations, (), ordered[0], own)
        sizes = np.array([len(t) for t in tables.child[0]])
        mass = max(float(np.mean([t.sum() for t in tables.child[0]])), 1 / n)
        one_way: np.ndarray = np.concatenate([mass * nearest_probabilities(t / mass) for t in tables.child[0]]).astype(dtype)
        matrices = {
            "cross": _matrices(tables, "cross", tables.cross, (parent.sizes, sizes), dtype),
            "child": _matrices(tables, "child", tables.child[1], (sizes, sizes), dtype),
            "siblings": _matrices(tables, "siblings", tables.siblings, (sizes, sizes), dtype),
        }
        start = int(starts_of(parent.sizes)[tables.count])
        count = slice(start, start + int(parent.sizes[tables.count]))
        masses = tables.mass_by_count()
        smoothness = Smoothness() if n_ordered is None else Smoothness.of(starts_of(sizes).tolist(), n_ordered[1])
        return cls(
            parent,
            sizes,
            one_way,
            parent.weight,
            **matrices,
            count=count,
            masses=(masses[0].astype(dtype), masses[1].astype(dtype)),
            smoothness=smoothness,
        )

    @cached_property
    def to_columns(self) -> Any:
        return sum_to_columns(self.sizes)


def _matrices(tables: LinkTables, family: str, own: Tables, sizes: tuple[np.ndarray, np.ndarray], dtype: type) -> tuple:
    """Return the tables of a family in one matrix, and the precision of each cell; symmetric but for those of a parent and a child."""
    rows, columns = (starts_of(each).tolist() for each in sizes)
    shape = int(sizes[0].sum()), int(sizes[1].sum())
    values: np.ndarray = np.zeros(shape, dtype)
    precision = values.copy()
    for (i, j), table in own.items():
        weight = np.full(table.shape, tables.relative_precision(family, (i, j)))
        if family == "siblings" and i == j:
            # The noise of an unordered cell is that of the sum of two ordered ones; as each pair stands twice in the matrix, and cells on
            # the diagonal once, they count 4 and 2 times.
            weight *= 4 - 2 * np.eye(len(table))
        a, b = slice(rows[i], rows[i] + len(table)), slice(columns[j], columns[j] + table.shape[1])
        values[a, b], precision[a, b] = table, weight
        if family != "cross":
            values[b, a], precision[b, a] = table.T, weight.T
    return values, precision


class _Descent:
    """The parameters of a fit, and the derivatives of its objective.

    With H nodes z and M nodes u beside each, X(z) = softmax(a + B z) of the parent's codes, Y(z, u) = softmax(c + D z + E u) of a child's,
    o1(z) and o2(z) the mean mass of children and of siblings given z, tables are means over nodes of X X', X o1 Y', Y o1 Y' and, with Z(z)
    the mean of Y over u, Z o2 Z'. Minimized are their squared errors times precisions, and the prior's part, as in `train_factors`.
    """

    def __init__(self, targets: _Targets, Z: np.ndarray, U: np.ndarray, variance: float, seed: int) -> None:
        self.targets, self.Z, self.U = targets, Z, U.reshape(-1, U.shape[2])
        self.n_nodes, self.n_own = U.shape[:2]
        rng, dtype = np.random.default_rng(seed), Z.dtype
        mass = max(float(targets.one_way.sum()) / len(targets.sizes), 1e-9)

        def start(n_codes: int, n_factors: int) -> np.ndarray:
            return (_START * ndtri(rng.uniform(0.01, 0.99, (n_codes, n_factors)))).astype(dtype)

        a, c = (np.log(np.maximum(t, 1e-4))[:, None].astype(dtype) for t in (targets.parent.one_way, targets.one_way / mass))
        self.parameters = [a, start(len(a), Z.shape[1]), c, start(len(c), Z.shape[1]), start(len(c), U.shape[2])]
        noise = (targets.parent.deviation / targets.parent.n) ** 2
        self.pull = np.asarray(noise / variance, dtype=dtype)
        n_counts = sum(np.count_nonzero(each[1]) for each in (targets.cross, targets.child, targets.siblings)) + np.count_nonzero(
            targets.parent.mask
        )
        self.least_fall = PLATEAU_TOLERANCE * WINDOW * n_counts / 4 * noise

    def probabilities(self) -> tuple[Probabilities, np.ndarray]:
        """Return P(code of the parent | z), and P(code of a child | z, u), shape (n_codes, H * M)."""
        a, B, c, D, E = self.parameters
        logits = E @ self.U.T
        logits.reshape(len(c), self.n_nodes, self.n_own)[...] += (c + D @ self.Z.T)[:, :, None]
        return Probabilities.of(self.targets.parent, a + B @ self.Z.T), softmax(logits, self.targets.to_columns)

    def gradients(self) -> tuple[list[np.ndarray], float]:
        _, B, c, D, E = self.parameters
        at, Y = self.probabilities()
        beside, slope, value = self._errors(at.singles, Y)
        by_parent, square = at.slope(self.targets.parent, beside)
        by_parent /= self.n_nodes
        by_own = slope.reshape(len(c), self.n_nodes, self.n_own)
        by_child = by_own.sum(axis=2)
        of_loadings = [by_parent @ self.Z, by_child @ self.Z, slope @ self.U]
        stiff = [self.targets.parent.smoothness.times(B), self.targets.smoothness.times(D), self.targets.smoothness.times(E)]
        value += square + float(self.pull) / 2 * sum(float(np.vdot(*pair)) for pair in zip((B, D, E), stiff, strict=True))
        B_slope, D_slope, E_slope = (slope + self.pull * each for slope, each in zip(of_loadings, stiff, strict=True))
        return [by_parent.sum(axis=1, keepdims=True), B_slope, by_child.sum(axis=1, keepdims=True), D_slope, E_slope], value

    def _errors(self, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return derivatives by X, times the number of nodes, and by the logits of Y, and the errors of all tables but the parent's."""
        t, H, M = self.targets, self.n_nodes, self.n_own
        of_counts, (c1, c2) = X[t.count], t.masses
        o1, o2 = c1 @ of_counts, c2 @ of_counts
        weighted = X * o1
        weighted[t.count] = of_counts * c1[:, None]
        cells = Y.reshape(len(Y), H, M)
        mean = cells.mean(axis=2)
        flat = np.repeat(o1 / (H * M), M)
        of_columns = mean @ o1 / H - t.one_way
        cross, child, siblings = weighted @ mean.T / H - t.cross[0], (Y * flat) @ Y.T - t.child[0], (mean * o2) @ mean.T / H - t.siblings[0]
        by_cross, by_child, by_siblings = cross * t.cross[1], child * t.child[1], siblings * t.siblings[1]
        value = float(np.vdot(cross, by_cross)) / 2 + float(np.vdot(child, by_child)) / 4 + float(np.vdot(siblings, by_siblings)) / 4
        value += t.weight * float(of_columns @ of_columns) / 2
        by_columns = np.asarray(t.weight, X.dtype) * of_columns
        by_weighted, sum_child, sum_siblings = by_cross @ mean, by_child @ Y, by_siblings @ mean
        beside = by_weighted * o1
        by_weighted *= X
        by_o1 = by_weighted.sum(axis=0) - by_weighted[t.count].sum(axis=0)
        beside[t.count] = (by_cross[t.count] @ mean) * c1[:, None]
        slope = sum_child.reshape(cells.shape)
        by_o1 += by_columns @ mean + np.einsum("chm,chm->h", slope, cells) / (2 * M)
        beside[t.count] += np.outer(c1, by_o1) + np.outer(c2, (sum_siblings * mean).sum(axis=0) / 2)
        by_mean = by_cross.T @ weighted + by_columns[:, None] * o1 + sum_siblings * o2
        slope *= o1[:, None]
        slope += by_mean[:, :, None]
        slope *= cells
        slope /= H * M
        flat_slope = slope.reshape(Y.shape)
        flat_slope -= Y * np.repeat(t.to_columns @ flat_slope, t.sizes, axis=0)
        return beside, flat_slope, value


@savable
@dataclass(frozen=True, eq=False, repr=False)
class LinkFactors:
    """Factors z that a parent shares with its children, and factors u of each child: given z, children are independent.

    Given its node, columns are independent, and a column of the parent has the code m with probability softmax(a + B z)_m, one of a child
    with softmax(c + D z + E u)_m. Several fits are mixed equally.

    Attributes
    ----------
    sizes : tuple of two ndarrays
        Number of codes of each column of the parent, and of a child.
    nodes : ndarray of shape (n_fits, n_nodes, n_factors)
        Points that stand for z, equally likely.
    own_nodes : ndarray of shape (n_fits, n_nodes, n_own_nodes, n_factors)
        Points that stand for u beside each.
    parent_factors : tuple of two ndarrays
        a, shape (n_fits, n_codes, 1), and B, shape (n_fits, n_codes, n_factors).
    child_factors : tuple of three ndarrays
        c, D and E.
    variance : float
        Of the prior of the loadings.
    """

    sizes: tuple[np.ndarray, np.ndarray]
    nodes: np.ndarray
    own_nodes: np.ndarray
    parent_factors: tuple[np.ndarray, np.ndarray]
    child_factors: tuple[np.ndarray, np.ndarray, np.ndarray]
    variance: float

    def __repr__(self) -> str:
        return f"LinkFactors({len(self.sizes[0])} and {len(self.sizes[1])} columns, {len(self.nodes)} fits)"

    @property
    def n_nodes(self) -> int:
        """Nodes of z in all fits."""
        return self.nodes.shape[0] * self.nodes.shape[1]

    @property
    def _parent(self) -> np.ndarray:
        a, B = self.parent_factors
        return softmax(np.hstack(a + B @ self.nodes.transpose(0, 2, 1)), sum_to_columns(self.sizes[0]))

    @property
    def _child(self) -> np.ndarray:
        (c, D, E), (n_fits, H, M, G) = self.child_factors, self.own_nodes.shape
        logits = (E @ self.own_nodes.reshape(n_fits, H * M, G).transpose(0, 2, 1)).reshape(n_fits, -1, H, M)
        logits += (c + D @ self.nodes.transpose(0, 2, 1))[..., None]
        return softmax(np.concatenate(list(logits), axis=1).reshape(logits.shape[1], -1), sum_to_columns(self.sizes[1]))

    def parent(self) -> Mixture:
        """Return the law of a parent, over nodes of z."""
        return Mixture.of_columns(np.split(self._parent, starts_of(self.sizes[0])[1:]))

    def child(self) -> Mixture:
        """Return the law of a child over nodes of z and u: equally many of u for each of z, one node of z after the other."""
        return Mixture.of_columns(np.split(self._child, starts_of(self.sizes[1])[1:]))

    def draw_parents(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return codes of n parents, shape (n_columns, n), and their nodes of z."""
        mixture, order = self.parent(), rng.permutation(n)
        common, sampler = CommonNodeSampler(mixture.weights, rng), MixtureSampler(mixture, rng, self.n_nodes)
        codes, nodes = np.empty((mixture.n_columns, n), dtype=np.int64), np.empty(n, dtype=np.int64)
        for block, start in enumerate(range(0, n, _BLOCK)):
            rows = order[start : start + _BLOCK]
            counts = common.counts(len(rows), block)
            nodes[rows] = np.repeat(np.arange(self.n_nodes), counts)
            codes[:, rows] = list(sampler.codes(len(rows), block, rng, counts))
        return codes, nodes

    def draw_nodes(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the node of each parent given its codes, shape (n_columns, n)."""
        logs = np.log(np.maximum(self._parent, np.finfo(np.float32).tiny)).astype(np.float32)
        places, out = codes + starts_of(self.sizes[0])[:, None], np.empty(codes.shape[1], dtype=np.int64)
        for rows in _chunks(len(out), self.n_nodes):
            own = logs[places[0, rows]]
            for column in places[1:]:
                own += logs[column[rows]]
            own -= own.max(axis=1, keepdims=True)
            out[rows] = _draw(np.exp(own, out=own), rng)
        return out

    def draw_children(
        self, nodes: np.ndarray, rng: np.random.Generator, ranks: np.ndarray | None = None, allowed: Mapping[int, np.ndarray] | None = None
    ) -> np.ndarray:
        """Return codes of children, shape (n_columns, n_children), given the node of each one's parent.

        `ranks` are their places among their siblings, 0 first: those of different ranks are drawn independently, those of one rank evenly.
        `allowed` has masks of codes of some columns, shape (n_codes,) or (n_children, n_codes): children are drawn on that condition.
        """
        sampler, ranks = MixtureSampler(self.child(), rng, self.n_nodes), np.zeros(len(nodes), int) if ranks is None else ranks
        out, block = np.empty((len(self.sizes[1]), len(nodes)), dtype=np.int64), 0
        for rank in np.flatnonzero(np.bincount(ranks)):
            of_rank = np.flatnonzero(ranks == rank)
            for start in range(0, len(of_rank), _BLOCK):
                rows = of_rank[start : start + _BLOCK]
                rows = rows[np.argsort(nodes[rows], kind="stable")]
                out[:, rows] = list(sampler.codes(len(rows), block, rng, np.bincount(nodes[rows], minlength=self.n_nodes)))
                block += 1
        if allowed:
            masks = {column: np.broadcast_to(mask, (len(nodes), mask.shape[-1])) for column, mask in allowed.items()}
            kept = np.all([mask[np.arange(len(nodes)), out[column]] for column, mask in masks.items()], axis=0)
            broken = np.flatnonzero(~kept)
            out[:, broken] = self._draw_allowed(nodes[broken], {column: mask[broken] for column, mask in masks.items()}, rng)
        return out

    def _draw_allowed(self, nodes: np.ndarray, allowed: Mapping[int, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Draw children on the condition that codes are allowed: u by P(u | z, condition), then codes given both."""
        columns = np.split(self._child, starts_of(self.sizes[1])[1:])
        columns = [table.reshape(len(table), self.n_nodes, -1) for table in columns]
        out = np.empty((len(columns), len(nodes)), dtype=np.int64)
        for rows in _chunks(len(nodes), columns[0].shape[2] * max(map(len, columns))):
            z, weights = nodes[rows], np.ones((1, 1))
            for column, mask in allowed.items():
                weights = weights * np.einsum("nc,cnm->nm", mask[rows].astype(float), columns[column][:, z])
            u = _draw(np.broadcast_to(weights, (len(z), columns[0].shape[2])), rng)
            for column, table in enumerate(columns):
                law = table[:, z, u].T
                out[column, rows] = _draw(law * allowed[column][rows] if column in allowed else law, rng)
        return out


def _chunks(n_rows: int, width: int) -> Iterator[slice]:
    size = max(1, _CELLS // width)
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def _draw(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a place in each row, in proportion to its weights."""
    upto = np.cumsum(weights, axis=1, dtype=float)
    return np.minimum((upto <= rng.random((len(upto), 1)) * upto[:, -1:]).sum(axis=1), upto.shape[1] - 1)


def fit_link_factors(tables: LinkTables, n_ordered: tuple[Sequence[int], Sequence[int]] | None = None, n_factors: int = 32) -> LinkFactors:
    """Fit a link to estimated tables.

    `n_ordered` says how many codes of each column, of the parent and of a child, have an order, along which the prior is smooth.
    """
    targets = _Targets.of(tables, n_ordered, np.float32)
    Z = quasi_normal(_FITS * _NODES, n_factors).astype(np.float32).reshape(_FITS, _NODES, n_factors)
    U = quasi_normal(_FITS * _NODES * _OWN_NODES, n_factors).astype(np.float32).reshape(_FITS, _OWN_NODES, _NODES, n_factors)
    U = np.ascontiguousarray(U.transpose(0, 2, 1, 3))
    fits = []
    with one_blas_thread():
        for seed, (nodes, own) in enumerate(zip(Z, U, strict=True)):
            descent = _Descent(targets, nodes, own, _VARIANCE, seed)
            descend(descent.parameters, [1.0] * 5, descent.gradients, _STEPS, descent.least_fall)
            fits.append(descent.parameters)
    a, B, c, D, E = (np.array(each) for each in zip(*fits, strict=True))
    return LinkFactors((targets.parent.sizes, targets.sizes), Z, U, (a, B), (c, D, E), _VARIANCE)
