"""Tables of three columns: which of them a model of pairs may miss, and their use in training."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

Triple = tuple[int, ...]


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
