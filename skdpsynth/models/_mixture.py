"""Mixtures of products, from which the columns of a block are drawn, and their exact conditional laws."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class WithinClass:
    """The codes of a column given its class and the node."""

    classes: np.ndarray  # of each code
    probabilities: np.ndarray  # shape (n_codes, n_nodes); sum to 1 over each class

    def given(self, allowed: np.ndarray) -> tuple["WithinClass", np.ndarray]:
        """Return (this on a condition, P(condition | class, node)); a class that it excludes stays as it is."""
        joint = self.probabilities * allowed[:, None]
        whole = np.zeros((int(self.classes.max()) + 1, joint.shape[1]))
        np.add.at(whole, self.classes, joint)
        of_codes = whole[self.classes]
        with np.errstate(divide="ignore", invalid="ignore"):
            return WithinClass(self.classes, np.where(of_codes > 0, joint / of_codes, self.probabilities)), whole


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Columns that are drawn together given a node: one, or several that a rule ties."""

    columns: tuple[int, ...]  # their places within the block
    codes: np.ndarray  # that each tuple stands for, shape (n_tuples, n_columns); of one column, each of its codes once
    probabilities: np.ndarray  # P(tuple | node)
    within: Mapping[int, "WithinClass"] = field(default_factory=dict)  # of columns whose `codes` are classes

    def __repr__(self) -> str:
        return f"Part(columns={self.columns}, {len(self.codes)} tuples)"

    @classmethod
    def of_column(cls, column: int, probabilities: np.ndarray) -> "Part":
        """Return the part of one column, whose tuples are its codes."""
        return cls((column,), np.arange(len(probabilities))[:, None], probabilities)

    @property
    def is_plain(self) -> bool:
        """Whether a tuple is known by its place: one column, with all of its codes up to the last."""
        return len(self.columns) == 1 and not self.within and bool((self.codes[:, 0] == np.arange(len(self.codes))).all())

    def shares(self, allowed: Mapping[int, np.ndarray]) -> np.ndarray:
        """Return P(condition | tuple), shape (n_tuples, 1 or n_nodes): columns are independent of each other given their codes."""
        shares = np.ones((len(self.codes), 1))
        for place, column in enumerate(self.columns):
            if column in allowed:
                told = np.asarray(allowed[column], dtype=float)
                of_codes = self.within[column].given(told)[1] if column in self.within else told[:, None]
                shares = shares * of_codes[self.codes[:, place]]
        return shares

    def only(self, kept: np.ndarray) -> tuple["Part", np.ndarray]:
        """Return (the part on some of its tuples, their probability given each node)."""
        conditional, whole = _normalized(self.probabilities[kept])
        return Part(self.columns, self.codes[kept], conditional, self.within), whole

    def given(self, allowed: Mapping[int, np.ndarray]) -> tuple["Part", np.ndarray]:
        """Return (the part on a condition, P(condition | node)); tuples that it excludes are left out.

        Where a node excludes it, all tuples count alike there: such a node has no weight.
        """
        shares = self.shares(allowed)
        kept = np.flatnonzero((shares > 0).any(axis=1))
        conditional, whole = _normalized(self.probabilities[kept] * shares[kept])
        within = {c: each.given(np.asarray(allowed[c], dtype=float))[0] if c in allowed else each for c, each in self.within.items()}
        return Part(self.columns, self.codes[kept], conditional, within), whole


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """The law of the columns of a block in one class: a node is drawn by its weight, and given it, parts are independent."""

    weights: np.ndarray  # of the nodes
    parts: tuple[Part, ...]  # in the order of their first columns; each column is in one of them

    def __repr__(self) -> str:
        return f"Mixture({len(self.weights)} nodes, {list(self.parts)})"

    @classmethod
    def of_columns(cls, probabilities: list[np.ndarray]) -> "Mixture":
        """Return a mixture of equally likely nodes in which each column is a part by itself, from P(code | node) of each."""
        n_nodes = probabilities[0].shape[1]
        return cls(np.full(n_nodes, 1 / n_nodes), tuple(Part.of_column(column, table) for column, table in enumerate(probabilities)))

    @property
    def n_columns(self) -> int:
        return sum(len(part.columns) for part in self.parts)

    def recode(self, tables: Mapping[int, Callable[[np.ndarray], np.ndarray]]) -> "Mixture":
        """Return the mixture in which some columns, each a part by itself, have other codes, by maps of P(code | node)."""
        parts = (
            Part.of_column(part.columns[0], tables[part.columns[0]](part.probabilities)) if part.columns[0] in tables else part
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    def given(self, allowed: Mapping[int, np.ndarray]) -> tuple["Mixture", float]:
        """Condition on allowed codes of some columns, exactly; return the mixture (this one, if the probability is 0) and the probability.

        By the rule of Bayes P(node | condition) is in proportion to P(node) times the product over parts of P(condition | node), and given
        the node, parts stay independent. A code may be allowed with a probability between 0 and 1: that of its cells.
        """
        parts, logs = [], np.zeros(len(self.weights))
        for part in self.parts:
            if allowed.keys() & set(part.columns):
                part, whole = part.given(allowed)
                with np.errstate(divide="ignore"):
                    logs += np.log(whole)
            parts.append(part)
        # In parts of the largest first: the product over many columns may be less than floats can tell from 0.
        largest = logs.max()
        weights = self.weights * np.exp(logs - largest) if largest > -math.inf else np.zeros(len(logs))
        total = float(weights.sum())
        if not total:
            return self, 0.0
        return replace(self, weights=weights / total, parts=tuple(parts)), total * math.exp(largest)

    def reweigh(self, columns: tuple[int, int], factors: np.ndarray) -> tuple["Mixture", float]:
        """Condition on an event with probability `factors` given the codes of two columns of one part; return as `given` does.

        Codes beyond the factors, such as that of a missing cell, have the factor 1. The mean of the factors is a probability together with
        that of `given`.
        """
        number, part = next((n, part) for n, part in enumerate(self.parts) if columns[0] in part.columns)
        first, second = (part.codes[:, part.columns.index(column)] for column in columns)
        inside = (first < factors.shape[0]) & (second < factors.shape[1])
        own = np.ones(len(part.codes))
        own[inside] = factors[first[inside], second[inside]]
        conditional, whole = _normalized(part.probabilities * own[:, None])
        return self.replace_part(number, replace(part, probabilities=conditional), whole)

    def replace_part(self, number: int, part: Part, whole: np.ndarray) -> tuple["Mixture", float]:
        """Replace a part by a conditional one, with P(condition | node); return as `given` does."""
        weights = self.weights * whole
        if not (total := float(weights.sum())):
            return self, 0.0
        return Mixture(weights / total, (*self.parts[:number], part, *self.parts[number + 1 :])), total


def _normalized(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (probabilities of tuples given each node, their sums); where these are 0, all tuples count alike."""
    whole = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, joint / whole, 1 / max(len(joint), 1)), whole
