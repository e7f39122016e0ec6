"""Structural zeros: the ties of a schema as groups of codes, and the product of softmaxes over columns on the tuples that are allowed.

Codes that no rule tells apart are one class. A rule binds the classes of columns, and within its class each column is free: so a rule on an
age below 16 needs two classes of ages, however many bins there are. With logits l of the codes, S(c) the log of the sum of exp(l) over a
class, and w(m) = exp(l(m) - S(c)) the law within it, a tuple t of classes has the probability

    p(t) = exp(sum of S(t_j) over columns j) / (the sum of the same over all allowed tuples),

which is the product of softmaxes of all columns, restricted to allowed tuples. A code has p(m) = w(m) R(c), with R(c) the sum of p(t) over
the tuples with this class; and two codes w(m) w(m') W(c, c'), with W that over the tuples with both.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skdpsynth._parallel import cached_property
from skdpsynth.domain import Cells, Grid, Orders, Schema, Tie, cells_of_bins, cells_of_levels, cells_of_numbers, cuts_of, ends_of, grids_of
from skdpsynth.models._mixture import Part, WithinClass
from skdpsynth.models._quantile_bins import LevelGroups, Link
from skdpsynth.persistence import savable

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_TUPLES = 1 << 14  # of columns tied by rules, by public facts alone
_USUAL_TUPLES = 1 << 10  # more make a fit slow, so bins are joined
_BINS = (12, 9, 7, 5, 4, 3, 2)  # of a column that is compared with others, where there would be more tuples
_DENSE = 16  # times as many zeros and ones take less time in products than tuples do in a list
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

    def law_of_descent(self, label: int) -> "BoxedSoftmax | WeightedPair":
        """Return the law, up to rounding, in a form that has derivatives.

        The tuples of two columns are a matrix of zeros and ones, those of more are boxes, and often few: where all rules are about ages,
        the other columns are independent given the class of an age.
        """
        law, sizes = self.law(label), list(map(len, self.classes))
        shape = law.n_classes
        if len(sizes) == 2 and all(law.is_plain) and shape[0] * shape[1] <= _DENSE * len(law.tuples):
            weights = np.zeros(shape, dtype=np.float32)
            weights[tuple(law.tuples.T)] = 1
            return WeightedPair(self.columns, weights[np.ix_(*self.classes)])
        boxes = split_into_boxes(law.tuples)
        codes = [np.array([np.isin(own, box[j]) for box in boxes]) for j, own in enumerate(self.classes)]
        return BoxedSoftmax(self.columns, np.array(sizes), np.hstack(codes), np.zeros(len(boxes), dtype=int))


@dataclass(frozen=True, eq=False)
class ConstrainedState:
    tuples: np.ndarray  # shape (n_tuples, n_nodes)
    singles: np.ndarray  # of the codes of all columns, one after the other
    within: list[np.ndarray]  # of each code within its class


@dataclass(frozen=True, eq=False)
class ConstrainedSoftmax:
    """A group in one class of rows: the probabilities of its tuples."""

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

    def forward(self, free: np.ndarray) -> ConstrainedState:
        """Return the probabilities, from P(code | node) by the softmax of each column alone, shape (n_codes, n_nodes)."""
        within, scores, ends = [], [], np.cumsum(list(map(len, self.classes)))
        for own, classes, n, tuples in zip(np.split(free, ends[:-1]), self.classes, self.n_classes, self.tuples.T, strict=True):
            sums = np.maximum(sum_matrix(classes, n) @ own, np.finfo(free.dtype).tiny)  # where all likely codes are excluded
            within.append(own / sums[classes])
            scores.append(np.log(sums)[tuples])
        score = np.sum(scores, axis=0)
        score = np.exp(score - score.max(axis=0))
        score /= score.sum(axis=0)
        singles = []
        for w, classes, n, tuples in zip(within, self.classes, self.n_classes, self.tuples.T, strict=True):
            singles.append(w * (sum_matrix(tuples, n) @ score)[classes])
        return ConstrainedState(score, np.concatenate(singles), within)

    def part(self, state: ConstrainedState) -> Part:
        """Return the group as a part of a mixture; columns whose codes are classes of their own have codes in place of these."""
        codes, within = np.array(self.tuples), {}
        for place, (column, classes) in enumerate(zip(self.columns, self.classes, strict=True)):
            if self.is_plain[place]:
                codes[:, place] = np.argsort(classes)[codes[:, place]]
            else:
                within[column] = WithinClass(classes, state.within[place])
        return Part(self.columns, codes, state.tuples, within)


def split_into_boxes(tuples: np.ndarray) -> list[list[np.ndarray]]:
    """Return products of sets, one set of each column, that hold each of some different tuples once.

    Tuples that are no such product are split by the classes of a column, after which the most of them are one, and the fewest remain.
    """
    found, left = list[list[np.ndarray]](), [tuples]
    while left:
        sets = _sets_of(some := left.pop())
        if len(some) == math.prod(map(len, sets)):
            found.append(sets)
        else:
            splits = [_split_by_class(some, column) for column, own in enumerate(sets) if len(own) > 1]
            boxes, rest = min(splits, key=lambda split: (sum(map(len, split[1])), len(split[0])))
            found, left = found + boxes, left + rest
    return found


def _sets_of(tuples: np.ndarray) -> list[np.ndarray]:
    return [np.unique(own) for own in tuples.T]


def _split_by_class(tuples: np.ndarray, column: int) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Return the boxes that tuples are within classes of a column, joined where all other sets are the same; and the tuples of the rest."""
    boxes: dict[tuple[bytes, ...], list[np.ndarray]] = {}
    rest = []
    for own in np.unique(tuples[:, column]):
        some = tuples[tuples[:, column] == own]
        sets = _sets_of(some)
        if len(some) == math.prod(map(len, sets)):
            key = tuple(each.tobytes() for place, each in enumerate(sets) if place != column)
            before = boxes.setdefault(key, sets)
            before[column] = np.union1d(before[column], own)
        else:
            rest.append(some)
    return list(boxes.values()), rest


@dataclass(frozen=True, eq=False)
class BoxState:
    singles: np.ndarray  # P(code | node) of all columns, shape (n_codes, n_nodes)
    given: np.ndarray  # P(code | box and node), of the codes in each box, one box after the other
    joint: np.ndarray  # P(code and box | node)
    weights: np.ndarray  # P(box | node), shape (n_boxes, n_nodes)


@dataclass(frozen=True, eq=False)
class BoxedSoftmax:
    """Groups in one class of rows, each of whose tuples are few boxes: products of sets of codes.

    Given the node and the box of a group, its columns are independent. With S_j(b) the probability that the softmax of column j gives to
    its set in b, a box has a probability in proportion to the product of S_j(b) over columns.
    """

    columns: tuple[int, ...]
    sizes: np.ndarray  # number of codes of each column
    tuples: np.ndarray  # which codes, of one column after the other, are in each box, shape (n_boxes, n_codes)
    groups: np.ndarray  # of boxes: 0, 1, ...

    @cached_property
    def pairs(self) -> np.ndarray:
        """Whether two codes are of one group, shape (n_codes, n_codes)."""
        of_codes = self.groups[self.tuples.argmax(axis=0)]
        return of_codes[:, None] == of_codes

    @cached_property
    def _first(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.groups, prepend=-1))

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The box, the set and the number of each code of each box."""
        boxes, codes = np.nonzero(self.tuples)
        keys = boxes * len(self.sizes) + np.repeat(np.arange(len(self.sizes)), self.sizes)[codes]
        return boxes, np.unique(keys, return_inverse=True)[1].ravel(), codes

    @cached_property
    def _blocks(self) -> tuple[list[tuple[slice, slice, int]], np.ndarray]:
        """For each box its rows, its pairs of codes in a list of all pairs, and its size; and where in a matrix these pairs are."""
        codes, sizes = self._places[2], self.tuples.sum(axis=1).tolist()
        ends, lasts = np.cumsum(sizes).tolist(), np.cumsum(np.square(sizes)).tolist()
        blocks = list(zip(map(slice, [0, *ends], ends), map(slice, [0, *lasts], lasts), sizes, strict=False))
        return blocks, np.concatenate([(codes[own, None] * self.tuples.shape[1] + codes[own]).ravel() for own, _, _ in blocks])

    @cached_property
    def _sums(self) -> tuple[Any, Any, Any, Any]:
        """Matrices that sum codes of boxes over sets and to codes, sets over boxes, and boxes over groups."""
        boxes, sets, codes = self._places
        to_sets, to_codes = sum_matrix(sets, sets[-1] + 1), sum_matrix(codes, self.tuples.shape[1])
        to_boxes = sum_matrix(boxes[np.unique(sets, return_index=True)[1]], len(self.tuples)).toarray()
        return to_sets, to_codes, to_boxes, sum_matrix(self.groups, self.groups[-1] + 1).toarray()

    def forward(self, free: np.ndarray) -> BoxState:
        (boxes, sets, codes), (to_sets, to_codes, to_boxes, to_groups) = self._places, self._sums
        given = free[codes]
        sums = np.maximum(to_sets @ given, np.finfo(given.dtype).tiny)  # where all likely codes are excluded
        given /= sums[sets]
        weights = to_boxes @ np.log(sums)
        weights = np.exp(weights - np.maximum.reduceat(weights, self._first, axis=0)[self.groups])
        weights /= (to_groups @ weights)[self.groups]
        joint = weights[boxes]
        joint *= given
        return BoxState(to_codes @ joint, given, joint, weights)

    def joint(self, state: BoxState, shares: np.ndarray | float = 1.0) -> np.ndarray:
        """Return the mean over nodes of shares times P(two codes | node), shape (n_codes, n_codes), of different columns of a group."""
        blocks, places = self._blocks
        found, out = np.empty(len(places), dtype=state.singles.dtype), np.zeros(self.pairs.size, dtype=state.singles.dtype)
        for rows, own, size in blocks:
            np.matmul(state.joint[rows] * shares, state.given[rows].T, out=found[own].reshape(size, size))
        np.add.at(out, places, found)
        return out.reshape(self.pairs.shape) / state.singles.shape[1]

    def times(self, state: BoxState, by_pairs: np.ndarray) -> np.ndarray:
        """Return derivatives by pairs of codes times P(code | box and node), the derivatives by this, shape of `state.joint`."""
        (blocks, places), found = self._blocks, np.empty_like(state.given)
        by_blocks = by_pairs.astype(found.dtype, copy=False).ravel()[places]
        for rows, own, size in blocks:
            np.matmul(by_blocks[own].reshape(size, size), state.given[rows], out=found[rows])
        return found

    def backward(self, state: BoxState, by_singles: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the derivatives by logits.

        `by_singles` are those by the probability of each code at each node; `slope`, which is overwritten, those by P(code | box and node)
        through pairs, from `times`. With D their sum, m its mean over a set, f the derivative by P(box | node), and F its mean over a
        group, the one by the logit of a code is the sum over boxes of P(code and box | node) (D - m + f - F).
        """
        (_, sets, codes), (to_sets, to_codes, to_boxes, to_groups) = self._places, self._sums
        of_pairs = to_sets @ (state.given * slope)
        slope += by_singles[codes]
        means = to_sets @ (state.given * slope)
        by_boxes = to_boxes @ (means - of_pairs / 2)  # in which each pair stands twice
        by_boxes -= (to_groups @ (state.weights * by_boxes))[self.groups]
        slope += (to_boxes.T @ by_boxes - means)[sets]
        slope *= state.joint
        return to_codes @ slope


def sum_matrix(keys: np.ndarray, size: int) -> "csr_array":
    """Return a sparse matrix that sums rows by key: products with it take a fifth of the time of `np.add.reduceat`."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(keys), dtype=np.float32), (keys, np.arange(len(keys)))), shape=(size, len(keys)))


@dataclass(frozen=True, eq=False)
class WeightedPairState:
    singles: np.ndarray  # of the codes of both columns, one after the other
    first: np.ndarray  # A / Z
    second: np.ndarray  # B

    @property
    def joint(self) -> np.ndarray:
        return np.concatenate([self.first, self.second])


@savable
@dataclass(frozen=True, eq=False, repr=False)
class WeightedPair:
    """Two columns of a block, by their places, with the weights W of their codes; its own law in all classes of rows.

    Probabilities and their derivatives have the methods of `BoxedSoftmax`.
    """

    columns: tuple[int, ...]
    weights: np.ndarray

    tuples: ClassVar[tuple[Any, ...]] = ()  # none is listed, which would take time
    pairs: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"WeightedPair(columns={self.columns})"

    def law(self, label: int) -> "WeightedPair":
        return replace(self, weights=np.asarray(self.weights, dtype=np.float32))

    law_of_descent = law

    def _split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return codes[: len(self.weights)], codes[len(self.weights) :]

    def forward(self, free: np.ndarray) -> WeightedPairState:
        A, B = self._split(free)
        on_first = self.weights.astype(A.dtype) @ B
        A = A / np.maximum(np.einsum("iz,iz->z", A, on_first), np.finfo(A.dtype).tiny)  # where all likely pairs are excluded
        return WeightedPairState(np.concatenate([A * on_first, B * (self._transpose(A) @ A)]), A, B)

    def _transpose(self, A: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.weights.T, dtype=A.dtype)

    def joint(self, state: WeightedPairState, shares: np.ndarray | float = 1.0) -> np.ndarray:
        n = len(self.weights)
        out = np.zeros((len(state.singles),) * 2, dtype=state.singles.dtype)
        out[:n, n:] = self.weights * ((state.first * shares) @ state.second.T) / state.first.shape[1]
        out[n:, :n] = out[:n, n:].T
        return out

    def times(self, state: WeightedPairState, by_pairs: np.ndarray) -> np.ndarray:
        A, B = state.first, state.second
        E = self.weights * by_pairs[: len(A), len(A) :].astype(A.dtype, copy=False)
        return np.concatenate([E @ B, E.T @ A])

    def backward(self, state: WeightedPairState, by_singles: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Return the derivatives by logits.

        With D_ij the derivative by p(i, j), which is G_i + H_j + E_ij, and m the mean of it, the one by the logit of i is the sum over j of
        p(i, j) (D_ij - m), and likewise for j. G and H are those by the probability of each code at each node, E by that of two codes at
        each node, the same at all.
        """
        A, B, (P, Q), (G, H) = state.first, state.second, self._split(state.singles), self._split(by_singles)
        of_first, of_second = self._split(slope)
        first = P * G + A * (self.weights @ (B * H) + of_first)
        second = Q * H + B * (self._transpose(A) @ (A * G) + of_second)
        mean = first.sum(axis=0)
        return np.concatenate([first - P * mean, second - Q * mean])

    def part(self, state: WeightedPairState) -> Part:
        """Return the pair as a part of a mixture, with the tuples that are possible: others are never drawn, however floats round."""
        first, second = np.nonzero(self.weights)
        probabilities = self.weights[first, second, None] * state.first[first] * state.second[second]
        return Part(self.columns, np.column_stack([first, second]), np.asarray(probabilities, dtype=float))


Law = BoxedSoftmax | WeightedPair


def join_boxes(laws: Sequence[Law]) -> list[Law]:
    """Return laws with all groups of boxes as one law, which takes less time."""
    boxed, others = [law for law in laws if isinstance(law, BoxedSoftmax)], [law for law in laws if not isinstance(law, BoxedSoftmax)]
    if len(boxed) < 2:
        return list(laws)
    from scipy.linalg import block_diag

    columns, tuples = tuple(column for law in boxed for column in law.columns), [law.tuples for law in boxed]
    groups, sizes = np.repeat(np.arange(len(boxed)), list(map(len, tuples))), np.concatenate([law.sizes for law in boxed])
    return [*others, BoxedSoftmax(columns, sizes, block_diag(*tuples).astype(bool), groups)]
