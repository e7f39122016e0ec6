"""Parities in a mixture: columns drawn together given a node, so that the product of their signs has some mean and all pairs stay.

Given a node, signs t of some columns are drawn in proportion to psi(t) times the product over columns of P(sign t_j | node), and a code by
its sign alone. Nodes keep their weights, and so columns outside their laws. psi is such that the signs have over all nodes the law that is
nearest to that of the mixture in relative entropy and has its tables of pairs, and the mean product.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

import numpy as np

from skdpsynth._serialization import is_array, require
from skdpsynth.models._mixture import Mixture, Part, WithinClass
from skdpsynth.persistence import savable

_MOST_COLUMNS = 12  # of a part
_SCALINGS, _SWEEPS = 200, 60
_CLOSE = 1e-9  # of probabilities
_LARGEST_MEAN = 0.998  # of a product of signs: no sign is ruled out
_LEAST = 1e-300


@savable
@dataclass(frozen=True, eq=False)
class ParityPart:
    """Columns of a block with their signs and the weights psi of these, in each class of rows."""

    columns: tuple[int, ...]  # places in the block, in order
    signs: tuple[np.ndarray, ...] = field(repr=False)  # whether each code of a column has the sign -1
    weights: np.ndarray = field(repr=False)  # psi, shape (n_labels, 2, ..., 2)

    def _check_loaded(self) -> None:
        n = len(self.columns)
        require(1 < n <= _MOST_COLUMNS and list(self.columns) == sorted(set(self.columns)) and len(self.signs) == n)
        require(all(is_array(sign, "b", -1) for sign in self.signs) and is_array(self.weights, "f", -1, *[2] * n))
        require(bool(self.weights.min() >= 0 and self.weights.max(axis=tuple(range(1, n + 1))).min() > 0))

    def law(self, mixture: Mixture, label: int) -> np.ndarray:
        """Return P(signs | node), shape (2, ..., 2, n_nodes), from a mixture in which each of the columns is a part by itself."""
        tables = [_sum_by_class(mixture.table(column), sign.astype(int), 2) for column, sign in zip(self.columns, self.signs, strict=True)]
        joint = reduce(lambda whole, table: whole[..., None, :] * table, tables) * self.weights[label][..., None]
        return np.asarray(joint / np.maximum(joint.sum(axis=tuple(range(len(tables)))), _LEAST))

    def join(self, mixture: Mixture, label: int, coarse: Mapping[int, np.ndarray], nullable: Sequence[bool]) -> Mixture:
        """Return a mixture in which the columns are one part.

        `coarse` holds, for columns whose codes were cut finer, the code that each comes from. A missing cell is a class by itself, as cells
        that are filled in are not missing.
        """
        signs, codes, tables, within = [], [], [], {}
        for column, sign in zip(self.columns, self.signs, strict=True):
            own = mixture.table(column)
            classes = (sign[coarse[column]] if column in coarse else sign).astype(np.int64)
            classes[len(classes) - nullable[column] :] += 2
            different, first, classes, sizes = np.unique(classes, return_index=True, return_inverse=True, return_counts=True)
            signs.append(different % 2)
            tables.append(_sum_by_class(own, classes, len(first)))
            codes.append(first)
            if len(first) < len(classes):
                whole = tables[-1][classes]
                within[column] = WithinClass(classes, np.where(whole > 0, own / np.maximum(whole, _LEAST), 1 / sizes[classes][:, None]))
                codes[-1] = np.arange(len(first))
        tuples = np.indices(list(map(len, tables))).reshape(len(tables), -1)
        joint = self.weights[label][tuple(map(np.take, signs, tuples))][:, None]
        for table, place in zip(tables, tuples, strict=True):
            joint = joint * table[place]
        part = Part(self.columns, np.column_stack(list(map(np.take, codes, tuples))), joint / np.maximum(joint.sum(axis=0), _LEAST), within)
        others = (each for each in mixture.parts if each.columns[0] not in self.columns)
        return replace(mixture, parts=tuple(sorted([*others, part], key=lambda each: each.columns[0])))


def _sum_by_class(table: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.array([table[classes == each].sum(axis=0) for each in range(n_classes)])


def parity_means(
    mixture: Mixture, label: int, parts: Sequence[ParityPart], signs: Mapping[int, np.ndarray], sets: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the mean product of the signs of each set in a mixture with some parts.

    `signs` are those of some columns, among them all of the parts, and sets hold their numbers in it, order by order.
    """
    numbers = {column: number for number, column in enumerate(signs)}
    means = np.array([1 - 2 * mixture.table(column)[sign].sum(axis=0) for column, sign in signs.items()])
    inside, products = [], []  # by part the numbers of its columns, and at each node the mean product of every subset of them
    for part in parts:
        law, own = part.law(mixture, label), [numbers[column] for column in part.columns]
        for axis in range(len(own)):  # the transform of Walsh and Hadamard
            plus, minus = np.moveaxis(law, axis, 0)
            law = np.stack([plus + minus, plus - minus], axis)
        means[own] = [law[tuple(unit)] for unit in np.eye(len(own), dtype=int)]
        inside.append(own)
        products.append(law)
    found = []
    for members in sets:
        found.append(_mean_products(mixture.weights, means, members))
        is_in = (members[:, :, None] == np.arange(len(means))).any(axis=1).astype(int)
        held = np.flatnonzero(sum((is_in[:, own].sum(axis=1) > 1 for own in inside), np.zeros(len(members), dtype=bool)))
        joined = np.array([number for own in inside for number in own], dtype=int)
        patterns, of_sets = np.unique(is_in[np.ix_(held, joined)], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):  # sets that have the same columns of parts
            some, product = held[of_sets.ravel() == number], mixture.weights
            for law, subset in zip(products, np.split(pattern, np.cumsum(list(map(len, inside)))), strict=False):
                product = product * law[tuple(subset)]
            free = members[some][~np.isin(members[some], joined)].reshape(len(some), -1)
            found[-1][some] = means[free].prod(axis=1) @ product
    return np.concatenate(found)


def _mean_products(weights: np.ndarray, means: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Return the mean over nodes of the product of the means of each set, as a product of matrices for its last two and all others."""
    factors, places = [], []
    for members in (sets[:, :-2], sets[:, -2:]):
        different, inverse = np.unique(members, axis=0, return_inverse=True)
        factors.append(means[different].prod(axis=1))
        places.append(inverse.ravel())
    return np.asarray(((factors[0] * weights) @ factors[1].T)[tuple(places)])


def tilt(
    mixtures: Sequence[Mixture], parts: Sequence[ParityPart], signs: Mapping[int, np.ndarray], means: np.ndarray
) -> tuple[ParityPart, ...] | None:
    """Return the parts with one more, in which the product of some columns' signs has a mean in each class; NaN: it stays as it is there.

    `mixtures` are those of the classes, with each of the columns as a part by itself. Parts that hold some of the columns are joined with
    the new one; the result is None where that would have too many columns.
    """
    inside = [part for part in parts if set(part.columns) & set(signs)]
    sign_of = {column: sign for part in inside for column, sign in zip(part.columns, part.signs, strict=True)} | {**signs}
    union = tuple(sorted(sign_of))
    if len(union) > _MOST_COLUMNS:
        return None
    weights = np.ones((len(mixtures), *[2] * len(union)))
    for part in inside:
        weights *= np.expand_dims(part.weights, tuple(1 + axis for axis, column in enumerate(union) if column not in part.columns))
    joined = ParityPart(union, tuple(map(sign_of.__getitem__, union)), weights)
    outside = tuple(axis for axis, column in enumerate(union) if column not in signs)
    for label, (mixture, mean) in enumerate(zip(mixtures, means.tolist(), strict=True)):
        goal = None
        for _ in range(0 if np.isnan(mean) else _SWEEPS):
            now = (joined.law(mixture, label) @ mixture.weights).sum(axis=outside, keepdims=True)
            goal = nearest_law(now, mean) if goal is None else goal
            if np.abs(goal - now).max() < _CLOSE:
                break
            weights[label] *= goal / np.maximum(now, _LEAST)
        weights[label] /= weights[label].max()
    return (*(part for part in parts if part not in inside), joined)


def nearest_law(law: np.ndarray, mean: float) -> np.ndarray:
    """Return the law of signs nearest to one in relative entropy that has its tables of pairs, and a mean product of all signs.

    By iterative scaling. It ends with the pairs alone: where no law has both, they are kept. An axis of one element has no sign.
    """
    axes = [axis for axis, size in enumerate(law.shape) if size > 1]
    goals = [(rest, law.sum(axis=rest, keepdims=True)) for pair in combinations(axes, 2) for rest in [tuple({*axes} - {*pair})]]
    product = (-1.0) ** np.indices(law.shape)[axes].sum(axis=0)
    mean = float(np.clip(mean, -_LARGEST_MEAN, _LARGEST_MEAN))
    for has_mean in (True, False):
        for _ in range(_SCALINGS):
            before, plus = law, law[product > 0].sum()
            if has_mean:
                law = law * np.where(product > 0, (1 + mean) / 2 / max(plus, _LEAST), (1 - mean) / 2 / max(1 - plus, _LEAST))
            for rest, goal in goals:
                law = law * (goal / np.maximum(law.sum(axis=rest, keepdims=True), _LEAST))
            if np.abs(law - before).max() < _CLOSE:
                break
    return law
