"""Structural zeros: the ties of a schema as groups of codes, and the product of softmaxes over columns on the tuples that are allowed.

Codes that no rule tells apart are one class. A rule binds the classes of columns, and within its class each column is free: so a rule on an
age below 16 needs two classes of ages, however many bins there are. With logits l of the codes, S(c) the log of the sum of exp(l) over a
class, and w(m) = exp(l(m) - S(c)) the law within it, a tuple t of classes has the probability

    p(t) = exp(sum of S(t_j) over columns j) / (the sum of the same over all allowed tuples),

which is the product of softmaxes of all columns, restricted to allowed tuples. A code has p(m) = w(m) R(c), with R(c) the sum of p(t) over
the tuples with this class; and two codes w(m) w(m') W(c, c'), with W that over the tuples with both.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth.domain import Cells, Grid, Orders, Schema, Tie, cells_of_bins, cells_of_levels, cells_of_numbers, cuts_of, ends_of, grids_of
from skdpsynth.models._mixture import Part, WithinClass
from skdpsynth.models._quantile_bins import LevelGroups, Link
from skdpsynth.persistence import savable

MAX_TUPLES = 1 << 14  # of columns tied by rules, by public facts alone
_USUAL_TUPLES = 1 << 10  # more make a fit slow, so bins are joined
_BINS = (12, 9, 7, 5, 4, 3, 2)  # of a column that is compared with others, where there would be more tuples
_DENSE = 16  # times as many zeros and ones take less time in products than tuples do in a list
Pair = tuple[int, int]
Links = Mapping[Hashable, Link | LevelGroups]


@savable
@dataclass(frozen=True, eq=False)
class ConstrainedColumns:
    """A tie of a schema, with the cells that the codes of its columns stand for."""

    tie: Tie
    cells: Mapping[Hashable, Cells]
    classes: Mapping[Hashable, np.ndarray]
    tuples: np.ndarray  # of classes, in the order of `tie.columns`, shape (n_tuples, n_columns)

    def conditional_cells(self, name: Hashable, linked: Mapping[Hashable, Any]) -> Cells:
        """Return the cells of a column of numbers, of which conditions may have left a part."""
        first, last = linked[name].ends()
        return self.tie.trim(name, cells_of_numbers(self.tie.axes[name], first, last, self.cells[name].nullable))

    def can_hold(self, codes: Mapping[Hashable, np.ndarray], linked: Mapping[Hashable, Any]) -> np.ndarray:
        """Return which tuples of codes of the columns that are compared have numbers that keep the rules, on conditions."""
        cells = {name: self.conditional_cells(name, linked) for name in codes}
        missing = {name: cells[name].missing[codes[name]] for name in codes}
        least, most = ({name: ends_of(cells[name], own)[side] for name, own in codes.items()} for side in (0, 1))
        return restrict_axes(self.tie.orders, linked).can_hold(least, most, missing)


@dataclass(frozen=True, eq=False)
class RestrictedAxis:
    """An axis on which a condition leaves only some numbers."""

    axis: Any
    numbers: np.ndarray  # on the axis, in order

    def ceil(self, t: np.ndarray) -> np.ndarray:
        """Return the least number at or above t; above all of them, t."""
        places = np.searchsorted(self.numbers, t)
        return np.where(places < len(self.numbers), self.numbers[np.minimum(places, len(self.numbers) - 1)], t)

    def floor(self, t: np.ndarray) -> np.ndarray:
        """Return the largest number at or below t; below all of them, t."""
        places = np.searchsorted(self.numbers, t, side="right") - 1
        return np.where(places >= 0, self.numbers[np.maximum(places, 0)], t)


def restrict_axes(orders: Orders, linked: Mapping[Hashable, Any]) -> Orders:
    """Restrict inequalities between columns to the numbers that conditions leave."""
    numbers = {name: linked[name].numbers for name in orders.axes if len(getattr(linked[name], "numbers", ()))}
    restricted = {name: RestrictedAxis(orders.axes[name], np.unique(orders.axes[name].show(own))) for name, own in numbers.items()}
    return replace(orders, axes={**orders.axes, **restricted})  # type: ignore[dict-item]  # it rounds as the axis does


def constraint_cuts(schema: Schema, grids: Mapping[Hashable, Grid]) -> dict[Hashable, np.ndarray]:
    """Return, for each column, the cells at which rules need a bin to begin."""
    return {name: np.searchsorted(grids[name].edges, cuts) for name, cuts in cuts_of(schema.whole, schema.rules).items() if name in grids}


def constrain_columns(
    ties: Sequence[Tie], schema: Schema, links: Links
) -> tuple[list[ConstrainedColumns], dict[Hashable, Link | LevelGroups]]:
    """Return ties with their codes, and the links, with fewer bins where there would be too many tuples."""
    links, grids, out = dict(links), grids_of(schema), []
    cuts = constraint_cuts(schema, grids)
    for tie in ties:
        for n_bins in (None, *_BINS):
            if n_bins is not None:
                own = [name for name in tie.columns if name in tie.ordered_columns]
                links |= {name: links[name].recut(n_bins, cuts.get(name, ())) for name in own}  # type: ignore[union-attr]
            is_last = n_bins == _BINS[-1] or not tie.ordered_columns
            cells = {}
            for name in tie.columns:
                kind, link = schema[name], links.get(name)
                if isinstance(link, Link):
                    cells[name] = cells_of_bins(tie.axes[name], grids[name].edges[link.edges], kind)
                else:
                    cells[name] = cells_of_levels(len(kind.levels) if link is None else link.n_bins, kind.nullable)
            classes, tuples = tie.tuples(cells, MAX_TUPLES if is_last else _USUAL_TUPLES)
            if tuples is not None:
                break
        assert tuples is not None
        trimmed = {name: tie.trim(name, own) for name, own in cells.items()}
        out.append(ConstrainedColumns(tie, trimmed, classes, tuples))
    return out, links


def max_tuples(tie: Tie, schema: Schema, cuts: Mapping[Hashable, np.ndarray]) -> int:
    """Return how many tuples of classes there are at most, with the fewest bins, by public facts alone."""
    product = 1
    for name in tie.columns:
        kind: Any = schema[name]
        if name in tie.ordered_columns:
            product *= 2 * _BINS[-1] + len(cuts.get(name, ())) + kind.nullable
        elif name in tie.axes:
            product *= len(cuts.get(name, ())) + 1 + kind.nullable
        else:
            product *= int(tie.classes(name, cells_of_levels(len(kind.levels), kind.nullable)).max()) + 1
    return product


def possible_strata(tied: Sequence[ConstrainedColumns], stratum: Hashable, n_strata: int) -> np.ndarray:
    possible = np.ones(n_strata, dtype=bool)
    for each in tied:
        if stratum in each.tie.columns:
            possible &= np.isin(each.classes[stratum], each.tuples[:, each.tie.columns.index(stratum)])
    return possible


def block_groups(
    tied: Sequence[ConstrainedColumns], names: Sequence[Hashable], block: Sequence[int], stratum: Hashable, n_strata: int
) -> tuple:
    """Return the groups of a block of columns, whose places are those in `names`, which are without the stratum."""
    places = {names[place]: number for number, place in enumerate(block)}
    groups = []
    for each in tied:
        own = [name for name in each.tie.columns if name != stratum]
        if not own or own[0] not in places:
            continue
        tuples, inverse = np.unique(each.tuples[:, [each.tie.columns.index(name) for name in own]], axis=0, return_inverse=True)
        allowed = np.ones((n_strata, len(tuples)), dtype=bool)
        if stratum in each.tie.columns:
            of_strata = each.tuples[:, each.tie.columns.index(stratum)]
            for label, own_class in enumerate(each.classes[stratum]):
                allowed[label] = np.isin(np.arange(len(tuples)), inverse.ravel()[of_strata == own_class])
        allowed[~allowed.any(axis=1)] = True  # a class that cannot occur is never drawn
        groups.append(ConstrainedGroup(tuple(places[name] for name in own), tuple(each.classes[name] for name in own), tuples, allowed))
    return tuple(groups)


@savable
@dataclass(frozen=True, eq=False, repr=False)
class ConstrainedGroup:
    """Columns of a block that rules tie."""

    columns: tuple[int, ...]  # places in the block
    classes: tuple[np.ndarray, ...]  # the class of each code of each column: 0, 1, ...
    tuples: np.ndarray  # of classes, shape (n_tuples, n_columns)
    allowed: np.ndarray  # whether each tuple can occur in each class of rows, at least one, shape (n_labels, n_tuples)

    def __repr__(self) -> str:
        return f"ConstrainedGroup(columns={self.columns}, {len(self.tuples)} tuples)"

    def law(self, label: int) -> "ConstrainedSoftmax":
        return ConstrainedSoftmax(self.columns, self.classes, self.tuples[self.allowed[label]])

    def law_of_descent(self, label: int) -> "ConstrainedSoftmax | WeightedPair":
        """Return the law, up to rounding, in a form that takes less time where there is one.

        The tuples of two columns are a matrix of zeros and ones: products with it take the place of lists of hundreds of tuples.
        """
        law = self.law(label)
        shape = law.n_classes
        if len(shape) != 2 or not all(law.is_plain) or shape[0] * shape[1] > _DENSE * len(law.tuples):
            return law
        weights = np.zeros(shape, dtype=np.float32)
        weights[tuple(law.tuples.T)] = 1
        return WeightedPair(self.columns, weights[np.ix_(*self.classes)])


@dataclass(frozen=True, eq=False)
class ConstrainedState:
    tuples: np.ndarray  # shape (n_tuples, n_nodes)
    singles: list[np.ndarray]  # of the codes of each column
    within: list[np.ndarray]  # of each code within its class
    classes: list[np.ndarray]  # of each column


@dataclass(frozen=True, eq=False)
class ConstrainedSoftmax:
    """A group in one class of rows: probabilities from logits, and their derivatives."""

    columns: tuple[int, ...]
    classes: tuple[np.ndarray, ...]
    tuples: np.ndarray  # of classes, that are allowed

    @cached_property
    def n_classes(self) -> list[int]:
        return [int(classes.max()) + 1 for classes in self.classes]

    @cached_property
    def is_plain(self) -> list[bool]:
        """Whether each code of a column is a class of its own."""
        return [n == len(classes) for n, classes in zip(self.n_classes, self.classes, strict=True)]

    @cached_property
    def pairs(self) -> list[Pair]:
        return list(combinations(range(len(self.columns)), 2))

    @cached_property
    def _sums(self) -> list[Any]:
        return [_indicator_matrix(self.tuples[:, j], n) for j, n in enumerate(self.n_classes)]

    @cached_property
    def _pair_sums(self) -> dict[Pair, Any]:
        keys = {(j, k): self.tuples[:, j] * self.n_classes[k] + self.tuples[:, k] for j, k in self.pairs}
        return {(j, k): _indicator_matrix(key, self.n_classes[j] * self.n_classes[k]) for (j, k), key in keys.items()}

    def forward(self, logits: Sequence[np.ndarray]) -> ConstrainedState:
        """Return the probabilities from the logits of each column of the group, shape (size, n_nodes)."""
        within, score = [], None
        for j, own in enumerate(logits):
            if self.is_plain[j]:
                whole, inside = np.empty_like(own), np.ones_like(own)
                whole[self.classes[j]] = own
            else:
                order = np.argsort(self.classes[j], kind="stable")
                first = np.searchsorted(self.classes[j][order], np.arange(self.n_classes[j]))
                largest = np.maximum.reduceat(own[order], first, axis=0)
                shares = np.exp(own - largest[self.classes[j]])
                sums = _sum_by_class(shares, self.classes[j], self.n_classes[j])
                whole, inside = largest + np.log(sums), shares / sums[self.classes[j]]
            within.append(inside)
            part = whole[self.tuples[:, j]]
            score = part if score is None else np.add(score, part, out=score)
        assert score is not None
        score -= score.max(axis=0)  # of logits of the model, not of rows
        np.exp(score, out=score)
        score /= score.sum(axis=0)
        classes = [summing @ score for summing in self._sums]
        singles = [w * R[c] for w, R, c in zip(within, classes, self.classes, strict=True)]
        return ConstrainedState(score, singles, within, classes)

    def joint(self, state: ConstrainedState, pair: Pair) -> np.ndarray:
        """Return the mean over nodes of the probabilities of two columns of the group, shape (size, size)."""
        j, k = pair
        cj, ck = self.classes[j], self.classes[k]
        if self.is_plain[j] and self.is_plain[k]:
            mean = (self._pair_sums[pair] @ state.tuples.mean(axis=1)).reshape(self.n_classes[j], self.n_classes[k])
            return mean[np.ix_(cj, ck)]
        spread = self._of_pair(state, pair)[cj][:, ck] * state.within[j][:, None]
        return np.einsum("mlz,lz->ml", spread, state.within[k]) / spread.shape[2]

    def part(self, state: ConstrainedState) -> Part:
        """Return the group as a part of a mixture; columns whose codes are classes of their own have codes in place of these."""
        codes, within = np.array(self.tuples), {}
        for place, (column, classes) in enumerate(zip(self.columns, self.classes, strict=True)):
            if self.is_plain[place]:
                codes[:, place] = np.argsort(classes)[codes[:, place]]
            else:
                within[column] = WithinClass(classes, state.within[place])
        return Part(self.columns, codes, state.tuples, within)

    def _of_pair(self, state: ConstrainedState, pair: Pair) -> np.ndarray:
        return (self._pair_sums[pair] @ state.tuples).reshape(self.n_classes[pair[0]], self.n_classes[pair[1]], -1)

    def backward(self, state: ConstrainedState, by_singles: Sequence[np.ndarray], by_pairs: Mapping[Pair, np.ndarray]) -> list[np.ndarray]:
        """Return the derivatives by the logits of each column.

        `by_singles` are those by the probability of each code at each node; `by_pairs`, shape (size, size), those by the probability of two
        codes at each node, the same at all.
        """
        by_within = [G * R[c] for G, R, c in zip(by_singles, state.classes, self.classes, strict=True)]
        by_tuples = np.zeros_like(state.tuples)
        for j, (G, w) in enumerate(zip(by_singles, state.within, strict=True)):
            by_tuples += _sum_by_class(G * w, self.classes[j], self.n_classes[j])[self.tuples[:, j]]
        for pair, by_codes in by_pairs.items():
            (j, k), H = pair, by_codes.astype(state.tuples.dtype, copy=False)
            cj, ck, wj, wk = self.classes[j], self.classes[k], state.within[j], state.within[k]
            if self.is_plain[j] and self.is_plain[k]:
                by_class = np.empty_like(H)
                by_class[np.ix_(cj, ck)] = H
                by_tuples += by_class[self.tuples[:, j], self.tuples[:, k]][:, None]
                continue
            # By codes of one column and classes of the other: half of the sum, which both derivatives share.
            half = np.array([H[:, ck == c] @ wk[ck == c] for c in range(self.n_classes[k])])  # (n_classes_k, size_j, n_nodes)
            other = np.array([H[cj == c].T @ wj[cj == c] for c in range(self.n_classes[j])])  # (n_classes_j, size_k, n_nodes)
            W = self._of_pair(state, pair)
            by_within[j] += np.einsum("cmz,mcz->mz", half, W[cj])
            by_within[k] += np.einsum("clz,clz->lz", other, W[:, ck])
            by_W = np.array([_sum_by_class(own * wj, cj, self.n_classes[j]) for own in half])  # (n_classes_k, n_classes_j, n_nodes)
            by_tuples += by_W[self.tuples[:, k], self.tuples[:, j]]
        by_tuples -= np.einsum("tz,tz->z", state.tuples, by_tuples)
        by_tuples *= state.tuples
        out = []
        for j, (w, D) in enumerate(zip(state.within, by_within, strict=True)):
            whole = (self._sums[j] @ by_tuples)[self.classes[j]]
            if not self.is_plain[j]:
                whole = whole + D - _sum_by_class(w * D, self.classes[j], self.n_classes[j])[self.classes[j]]
            out.append(w * whole)
        return out


def _indicator_matrix(keys: np.ndarray, size: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(keys), dtype=np.float32), (keys, np.arange(len(keys)))), shape=(size, len(keys)))


def _sum_by_class(values: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    if n_classes == len(classes):
        out = np.empty_like(values)
        out[classes] = values
        return out
    order = np.argsort(classes, kind="stable")
    return np.add.reduceat(values[order], np.searchsorted(classes[order], np.arange(n_classes)), axis=0)


@dataclass(frozen=True, eq=False)
class WeightedPairState:
    singles: list[np.ndarray]  # of the codes of each column
    first: np.ndarray  # A / Z
    second: np.ndarray  # B


@savable
@dataclass(frozen=True, eq=False, repr=False)
class WeightedPair:
    """Two columns of a block, by their places, with the weights W of their codes; its own law in all classes of rows.

    Probabilities from logits, and their derivatives, have the methods of `ConstrainedSoftmax`.
    """

    columns: tuple[int, ...]
    weights: np.ndarray

    tuples: ClassVar[tuple[Any, ...]] = ()  # none is listed, which would take time
    pairs: ClassVar[list[Pair]] = [(0, 1)]

    def __repr__(self) -> str:
        return f"WeightedPair(columns={self.columns})"

    def law(self, label: int) -> "WeightedPair":
        return replace(self, weights=np.asarray(self.weights, dtype=np.float32))

    law_of_descent = law

    def forward(self, logits: Sequence[np.ndarray]) -> WeightedPairState:
        """Return the probabilities from the logits of both columns, shape (size, n_nodes)."""
        A, B = (np.exp(own - own.max(axis=0)) for own in logits)  # of logits of the model, not of rows
        on_first = self.weights.astype(A.dtype) @ B
        A /= np.maximum(np.einsum("iz,iz->z", A, on_first), np.finfo(A.dtype).tiny)  # where all likely pairs are excluded
        return WeightedPairState([A * on_first, B * (self._transpose(A) @ A)], A, B)

    def _transpose(self, A: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.weights.T, dtype=A.dtype)

    def joint(self, state: WeightedPairState, pair: tuple[int, int]) -> np.ndarray:
        """Return the mean over nodes of the probabilities of the two columns, shape (size, size)."""
        return self.weights * (state.first @ state.second.T) / state.first.shape[1]

    def backward(
        self, state: WeightedPairState, by_singles: Sequence[np.ndarray], by_pairs: Mapping[tuple[int, int], np.ndarray]
    ) -> list[np.ndarray]:
        """Return the derivatives by the logits of each column.

        With D_ij the derivative by p(i, j), which is G_i + H_j + E_ij, and m the mean of it, the one by the logit of i is the sum over j of
        p(i, j) (D_ij - m), and likewise for j. G and H are those by the probability of each code at each node, E by that of two codes at
        each node, the same at all.
        """
        A, B, (P, Q), (G, H) = state.first, state.second, state.singles, by_singles
        E = self.weights * by_pairs[0, 1].astype(A.dtype, copy=False)
        first = P * G + A * (self.weights @ (B * H) + E @ B)
        second = Q * H + B * (self._transpose(A) @ (A * G) + E.T @ A)
        mean = first.sum(axis=0)
        return [first - P * mean, second - Q * mean]

    def part(self, state: WeightedPairState) -> Part:
        """Return the pair as a part of a mixture, with the tuples that are possible: others are never drawn, however floats round."""
        first, second = np.nonzero(self.weights)
        probabilities = self.weights[first, second, None] * state.first[first] * state.second[second]
        return Part(self.columns, np.column_stack([first, second]), np.asarray(probabilities, dtype=float))
