"""Pairs of columns whose codes depend on each other beyond all factors, within a mixture of products.

Given the factors, the probability of a pair of codes is in proportion to the product of those of the two columns times a fixed weight:

    p(i, j) = A_i W_ij B_j / Z,    A = exp(logits of one), B = exp(logits of the other), Z = sum of A_i W_ij B_j,

so all sums over pairs are products with the matrix W, and none of them has to be listed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from skdpsynth._state_validation import is_array, require
from skdpsynth.models._mixture import Part
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True, eq=False, repr=False)
class WeightedPair:
    """Two columns of a block, by their places, in all classes of rows, with the weights W of their codes."""

    columns: tuple[int, ...]
    weights: np.ndarray

    def __repr__(self) -> str:
        return f"WeightedPair(columns={self.columns})"

    def _check_loaded(self) -> None:
        require(len(self.columns) == 2 and is_array(self.weights, "f", -1, -1))
        require(self.weights.min(initial=0) >= 0 and self.weights.sum() > 0)

    def law(self, label: int) -> "WeightedPairLaw":
        return WeightedPairLaw(self.columns, np.asarray(self.weights, dtype=np.float32))

    law_of_descent = law


@dataclass(frozen=True, eq=False)
class WeightedPairState:
    """Probabilities at every node."""

    singles: list[np.ndarray]  # of the codes of each column
    first: np.ndarray  # A / Z
    second: np.ndarray  # B


@dataclass(frozen=True, eq=False)
class WeightedPairLaw:
    """A pair in one class of rows: probabilities from logits, and their derivatives, with the methods of `ConstrainedSoftmax`."""

    columns: tuple[int, ...]
    weights: np.ndarray

    tuples: ClassVar[tuple[Any, ...]] = ()  # none is listed, which would take time
    pairs: ClassVar[list[tuple[int, int]]] = [(0, 1)]

    @cached_property
    def _other(self) -> np.ndarray:
        return np.ascontiguousarray(self.weights.T)

    def forward(self, logits: Sequence[np.ndarray]) -> WeightedPairState:
        """Return the probabilities from the logits of both columns, shape (size, n_nodes)."""
        A, B = (np.exp(own - own.max(axis=0)) for own in logits)  # of logits of the model, not of rows
        on_first = self.weights.astype(A.dtype) @ B
        A /= np.maximum(np.einsum("iz,iz->z", A, on_first), np.finfo(A.dtype).tiny)  # where all likely pairs are excluded
        return WeightedPairState([A * on_first, B * (self._other.astype(A.dtype) @ A)], A, B)

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
        second = Q * H + B * (self._other @ (A * G) + E.T @ A)
        mean = first.sum(axis=0)
        return [first - P * mean, second - Q * mean]

    def part(self, state: WeightedPairState) -> Part:
        """Return the pair as a part of a mixture, with the tuples that are possible: others are never drawn, however floats round."""
        first, second = np.nonzero(self.weights)
        probabilities = self.weights[first, second, None] * state.first[first] * state.second[second]
        return Part(self.columns, np.column_stack([first, second]), np.asarray(probabilities, dtype=float))
