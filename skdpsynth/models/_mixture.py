"""Mixtures of products: the law of a block of columns, its exact conditional laws, and posteriors of very many rows at once."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skdpsynth._parallel import cached_property

_CELLS = 1 << 17  # of rows times nodes at once: they stay in cache
_FEW = 1 << 12  # rows, up to which each finds its tuple by itself
_MOST_KEPT = 1 << 26  # numbers of patterns in memory
_CONTRADICTION = 1e6  # taken from the logarithm of the evidence for each: a class without one, if there is any, is always nearer
_NARROW = 64  # tuples, up to which all are compared with a row's number at once


@dataclass(frozen=True, eq=False)
class WithinClass:
    """The codes of a column given its class and the node."""

    classes: np.ndarray  # of each code
    probabilities: np.ndarray  # shape (n_codes, n_nodes); sum to 1 over each class

    def condition(self, allowed: np.ndarray) -> tuple["WithinClass", np.ndarray]:
        """Return (this on a condition, P(condition | class, node)); a class that it excludes stays as it is."""
        joint = self.probabilities * allowed[:, None]
        whole = np.zeros((self.n_classes, joint.shape[1]))
        np.add.at(whole, self.classes, joint)
        of_codes = whole[self.classes]
        with np.errstate(divide="ignore", invalid="ignore"):
            return WithinClass(self.classes, np.where(of_codes > 0, joint / of_codes, self.probabilities)), whole

    @cached_property
    def n_classes(self) -> int:
        return int(self.classes.max()) + 1

    @cached_property
    def logs(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(self.probabilities), np.log(np.finfo(np.float32).tiny)).astype(np.float32)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.classes, kind="stable")

    @cached_property
    def _upto(self) -> np.ndarray:
        """P(code in `_order` or one before | class and node), plus the class, plus `n_classes` for each node before: rising numbers."""
        classes, upto = self.classes[self._order], np.cumsum(self.probabilities[self._order], axis=0)
        last = np.searchsorted(classes, np.arange(self.n_classes), side="right") - 1
        before = np.vstack([np.zeros((1, upto.shape[1])), upto[last[:-1]]])[classes]
        shares = np.clip((upto - before) / (upto[last][classes] - before), 0, 1)
        return (shares + classes[:, None] + np.arange(upto.shape[1]) * self.n_classes).T.ravel()

    def codes_at(self, nodes: np.ndarray, classes: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the code of each row at a share of its class, from 0 to 1, given its node."""
        places = np.searchsorted(self._upto, nodes * self.n_classes + classes + np.minimum(shares, 1 - 1e-9), side="right")
        return self._order[places % len(self._order)]


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Columns that are drawn together given a node: one, or several that a rule ties."""

    columns: tuple[int, ...]  # their places within the block
    codes: np.ndarray  # the codes of each tuple, shape (n_tuples, n_columns); a single column has each of its codes once
    probabilities: np.ndarray  # P(tuple | node)
    within: Mapping[int, "WithinClass"] = field(default_factory=dict)  # of columns whose `codes` are classes

    def __repr__(self) -> str:
        return f"Part(columns={self.columns}, {len(self.codes)} tuples)"

    @classmethod
    def of_column(cls, column: int, probabilities: np.ndarray) -> "Part":
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
                of_codes = self.within[column].condition(told)[1] if column in self.within else told[:, None]
                shares = shares * of_codes[self.codes[:, place]]
        return shares

    def condition(self, allowed: Mapping[int, np.ndarray]) -> tuple["Part", np.ndarray]:
        """Return (the part on a condition, P(condition | node)); tuples that it excludes are left out.

        Where a node excludes it, all tuples count alike there: such a node has no weight.
        """
        shares = self.shares(allowed)
        kept = np.flatnonzero((shares > 0).any(axis=1))
        conditional, whole = _normalize(self.probabilities[kept] * shares[kept])
        within = {c: each.condition(np.asarray(allowed[c], dtype=float))[0] if c in allowed else each for c, each in self.within.items()}
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

    def table(self, column: int) -> np.ndarray:
        """Return P(code | node) of a column that is a part by itself."""
        return next(part.probabilities for part in self.parts if part.columns == (column,))

    def recode(self, tables: Mapping[int, Callable[[np.ndarray], np.ndarray]]) -> "Mixture":
        """Return the mixture in which some columns, each a part by itself, have other codes, by maps of P(code | node)."""
        parts = (
            Part.of_column(part.columns[0], tables[part.columns[0]](part.probabilities)) if part.columns[0] in tables else part
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

    def condition(self, allowed: Mapping[int, np.ndarray]) -> tuple["Mixture", float]:
        """Condition on allowed codes of some columns, exactly; return the mixture (this one, if the probability is 0) and the probability.

        By the rule of Bayes P(node | condition) is in proportion to P(node) times the product over parts of P(condition | node), and given
        the node, parts stay independent. A code may be allowed with a probability between 0 and 1: that of its cells.
        """
        parts, logs = [], np.zeros(len(self.weights))
        for part in self.parts:
            if allowed.keys() & set(part.columns):
                part, whole = part.condition(allowed)
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

    def reweigh(self, columns: Sequence[int], factors: Callable[..., np.ndarray]) -> tuple["Mixture", float]:
        """Condition on an event with the probability ``factors(*codes)`` given the codes of some columns of one part, as `condition` does.

        A mean of factors that are no probabilities is one together with that of `condition`.
        """
        number, part = next((n, part) for n, part in enumerate(self.parts) if columns[0] in part.columns)
        shares = factors(*(part.codes[:, part.columns.index(column)] for column in columns))
        kept = np.flatnonzero(shares)
        conditional, whole = _normalize(part.probabilities[kept] * shares[kept, None])
        weights = self.weights * whole
        if not (total := float(weights.sum())):
            return self, 0.0
        part = replace(part, codes=part.codes[kept], probabilities=conditional)
        return Mixture(weights / total, (*self.parts[:number], part, *self.parts[number + 1 :])), total


def _normalize(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (probabilities of tuples given each node, their sums); where these are 0, all tuples count alike."""
    whole = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, joint / whole, 1 / max(len(joint), 1)), whole


@dataclass(frozen=True, eq=False)
class Pattern:
    """The tuples of a part, grouped by the codes of those of its columns that are known.

    Among tuples that differ only in cells to be filled, those are left out in which more of them are missing than need be: a cell stays
    missing only where rules leave it no value. The last group has all tuples once more: it serves codes that cannot occur together, which
    say nothing of the nodes.
    """

    codes: np.ndarray  # group after group, shape (n_tuples, n_columns)
    probabilities: np.ndarray  # shape (n_tuples, n_nodes)
    keys: np.ndarray  # the known codes of each group as one number, in order
    starts: np.ndarray  # where the tuples of each group begin, shape (n_groups + 2,)
    known: np.ndarray  # columns
    sizes: np.ndarray  # number of codes of each column

    @classmethod
    def of(cls, part: Part, known: np.ndarray, sizes: np.ndarray, gone: np.ndarray) -> "Pattern":
        """Group the tuples; `sizes` are the numbers of codes of the columns, and `gone` the code of a missing cell, or -1."""
        possible = (part.probabilities > 0).any(axis=1)
        codes, probabilities = part.codes[possible], part.probabilities[possible]
        missing, kept = (codes == gone) & ~known, np.ones(len(codes), dtype=bool)
        for some in np.unique(missing[missing.any(axis=1)], axis=0):  # tuples that have more missing cells than need be
            keys = known_code_keys(codes, ~some, sizes)
            alike = (missing == some).all(axis=1)
            fuller = (~missing | some).all(axis=1) & ~alike
            kept &= ~(alike & np.isin(keys, keys[fuller]))
        codes, probabilities = codes[kept], probabilities[kept]
        keys = known_code_keys(codes, known, sizes)
        order = np.argsort(keys, kind="stable")
        different, first = np.unique(keys[order], return_index=True)
        codes, probabilities = np.concatenate([codes[order], codes]), np.concatenate([probabilities[order], probabilities])
        return cls(codes, probabilities, different, np.concatenate([first, [len(order), 2 * len(order)]]), known, sizes)

    @cached_property
    def masses(self) -> np.ndarray:
        """P(group | node), shape (n_groups + 1, n_nodes)."""
        return np.add.reduceat(self.probabilities, self.starts[:-1], axis=0)

    @cached_property
    def logs(self) -> np.ndarray:
        """Logarithms of `masses`, float32; 0 in place of a group that no node allows."""
        with np.errstate(divide="ignore"):
            return np.where(self.masses.any(axis=1, keepdims=True), np.log(self.masses), 0.0).astype(np.float32)

    @cached_property
    def impossible(self) -> np.ndarray:
        """Mask of the groups that the model rules out, shape (n_groups + 1,): always the last, whose codes cannot occur together."""
        out = np.array(~self.masses.any(axis=1))
        out[-1] = True
        return out

    def groups(self, codes: np.ndarray) -> np.ndarray:
        keys = known_code_keys(codes, self.known, self.sizes)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, len(self.keys))

    @cached_property
    def upto(self) -> np.ndarray:
        """Sums of P(tuple | group and node) up to each tuple, shape (n_nodes, n_tuples + 1): each group adds 1."""
        sizes = np.diff(self.starts)
        whole = np.repeat(self.masses, sizes, axis=0)
        even = np.repeat(1 / np.maximum(sizes, 1), sizes)[:, None]
        share = np.where(whole > 0, self.probabilities / np.where(whole > 0, whole, 1.0), even)
        return np.concatenate([np.zeros((1, share.shape[1])), np.cumsum(share, axis=0)]).T.copy()

    def sample(self, groups: np.ndarray, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        first, last = self.starts[groups], self.starts[groups + 1]
        if len(groups) <= _FEW and "upto" not in vars(self):  # row by row, as sums over all tuples would take longer
            steps = []
            for start, stop, node, share in zip(first, last, nodes, rng.random(len(nodes)), strict=True):
                upto = np.cumsum(self.probabilities[start:stop, node])
                upto = upto if upto[-1] > 0 else np.arange(1.0, stop - start + 1)
                steps.append(min(int(np.searchsorted(upto, share * upto[-1], side="right")), stop - start - 1))
            return self.codes[first + steps]
        low, high = self.upto[nodes, first], self.upto[nodes, last]
        targets = low + rng.random(len(groups)) * (high - low)
        if self.upto.shape[1] <= _NARROW:
            places = (self.upto[nodes, 1:] <= targets[:, None]).sum(axis=1)
        else:
            places = np.empty(len(nodes), dtype=np.int64)
            order = np.argsort(nodes.astype(np.min_scalar_type(len(self.upto))), kind="stable")  # short numbers sort in one pass
            different, starts = np.unique(nodes[order], return_index=True)
            for node, rows in zip(different, np.split(order, starts[1:]), strict=True):
                places[rows] = np.searchsorted(self.upto[node], targets[rows], side="right") - 1
        return self.codes[np.clip(places, first, last - 1)]


def known_code_keys(codes: np.ndarray, known: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the codes of the known columns as one number, shape (n_rows,); rules tie too few columns for an overflow."""
    keys = np.zeros(len(codes), dtype=np.int64)
    for column in np.flatnonzero(known):
        keys = keys * sizes[column] + codes[:, column]
    return keys


class Posterior:
    """The law of a block of columns in one class, given the known codes of each row.

    The sizes count the code of a missing cell. Unknown codes are to be filled: they are not missing but where rules leave them no value.
    Patterns of parts are kept in `patterns` for other rows.
    """

    def __init__(
        self, mixture: Mixture, sizes: np.ndarray, nullable: np.ndarray, codes: np.ndarray, known: np.ndarray, patterns: dict | None = None
    ) -> None:
        self.mixture, self.n_rows = mixture, len(codes)
        patterns = {} if patterns is None else patterns
        self.parts = [_PartRows(part, sizes, nullable, codes, known, patterns) for part in mixture.parts]
        self._contradiction_penalty = _CONTRADICTION * sum((part.is_contradicted for part in self.parts), np.zeros(len(codes)))

    def evidence(self, n_common: int = 1) -> np.ndarray:
        """Return the log-likelihood of the known cells of each row given each common node, shape (n_rows, n_common).

        Codes that the model rules out say nothing of the nodes, but each such contradiction speaks against the class as a whole.
        """
        whole = self.mixture.weights.reshape(n_common, -1).sum(axis=1)
        out = np.empty((self.n_rows, n_common))
        for rows, logs, excluded in self._chunks():
            inner = logs.reshape(len(logs), n_common, -1)
            largest = np.maximum(inner.max(axis=2, keepdims=True), np.finfo(np.float32).min)  # no difference of infinities
            with np.errstate(divide="ignore"):
                out[rows] = np.log(np.exp(inner - largest).sum(axis=2, dtype=float)) + largest[:, :, 0] - _CONTRADICTION * excluded[:, None]
        with np.errstate(divide="ignore"):
            out -= np.where(whole > 0, np.log(whole), 0.0)
        return out - self._contradiction_penalty[:, None]

    def impute(self, rng: np.random.Generator, common: np.ndarray | None = None, n_common: int = 1) -> np.ndarray:
        """Return the codes with the unknown ones drawn, shape (n_rows, n_columns), int64.

        `common` is the common node of each row, of `n_common`, where blocks share nodes.
        """
        nodes = np.empty(self.n_rows, dtype=np.int64)
        for rows, logs, _ in self._chunks():
            if common is not None:
                logs = logs.reshape(len(logs), n_common, -1)[np.arange(len(logs)), common[rows]]
                logs[~np.isfinite(logs).any(axis=1)] = 0  # of a row of contradictions, in which no node is possible
            logs -= logs.max(axis=1, keepdims=True)
            upto = np.cumsum(np.exp(logs, out=logs), axis=1, dtype=float)
            targets = rng.random(len(upto)) * upto[:, -1]
            nodes[rows] = np.minimum((upto <= targets[:, None]).sum(axis=1), upto.shape[1] - 1)
            if common is not None:
                nodes[rows] += common[rows] * logs.shape[1]
        out = np.empty((self.n_rows, self.mixture.n_columns), dtype=np.int64)
        for part in self.parts:
            part.fill(out, np.minimum(nodes, len(self.mixture.weights) - 1), rng)
        return out

    def _chunks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield some rows, log P(node and known cells) up to a constant of each row, and which rows no node allows."""
        with np.errstate(divide="ignore"):
            weights = np.log(self.mixture.weights).astype(np.float32)
        size = max(1, _CELLS // len(weights))
        for start in range(0, self.n_rows, size):
            rows = slice(start, min(start + size, self.n_rows))
            logs = np.repeat(weights[None], rows.stop - start, axis=0)
            for part in self.parts:
                part.add_to(logs, rows)
            # Where parts contradict each other in every node, the known cells say nothing.
            impossible = ~np.isfinite(logs).any(axis=1)
            logs[impossible] = weights
            yield rows, logs, impossible


def _cached_pattern(part: Part, known: np.ndarray, sizes: np.ndarray, gone: np.ndarray, kept: dict) -> Pattern:
    """Return a pattern, if possible one that was made for other rows; the oldest ones are forgotten."""
    key = id(part), known.tobytes()
    if key not in kept:
        pattern = Pattern.of(part, known, sizes, gone)
        if pattern.probabilities.size > _MOST_KEPT:
            return pattern
        while sum(each.probabilities.size for _, each in kept.values()) + pattern.probabilities.size > _MOST_KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = part, pattern  # with the part, so that no other one gets its id
    return kept[key][1]


class _PartRows:
    """The columns of one part in all rows: which tuples agree with the known cells."""

    def __init__(self, part: Part, sizes: np.ndarray, nullable: np.ndarray, codes: np.ndarray, known: np.ndarray, kept: dict) -> None:
        self.columns = list(part.columns)
        self.codes, self.is_known = codes[:, self.columns].copy(), known[:, self.columns]
        sizes, self.within = sizes[self.columns].copy(), []
        gone = np.where(nullable[self.columns], sizes - 1, -1)
        for place, column in enumerate(self.columns):
            if column in part.within:  # from here on its codes are classes
                within = part.within[column]
                self.within.append((place, self.codes[:, place].copy(), within))
                self.codes[:, place], sizes[place] = within.classes[self.codes[:, place]], within.n_classes
                gone[place] = within.classes[-1] if nullable[column] else -1
        # Rules tie few columns, so which of them are known is a small number.
        bits = 1 << np.arange(len(self.columns))
        numbers = self.is_known @ bits
        different = np.flatnonzero(np.bincount(numbers))
        self.pattern = np.searchsorted(different, numbers)
        patterns = (different[:, None] & bits) > 0
        self.patterns = [_cached_pattern(part, pattern, sizes, gone, kept) for pattern in patterns]
        self.group = np.empty(len(codes), dtype=np.int64)
        self.place = np.empty(len(codes), dtype=np.int64)  # in the logarithms of all patterns
        tables, before = [], 0
        for number, pattern in enumerate(self.patterns):
            rows = np.flatnonzero(self.pattern == number)
            self.group[rows] = pattern.groups(self.codes[rows])
            self.place[rows] = self.group[rows] + before
            tables.append(pattern.logs)
            before += len(tables[-1])
        impossible = np.concatenate([pattern.impossible for pattern in self.patterns]) if tables else np.zeros(0, dtype=bool)
        self.is_contradicted = impossible[self.place]
        self.table = np.concatenate(tables) if tables else np.zeros((0, 1), dtype=np.float32)

    def add_to(self, logs: np.ndarray, rows: slice) -> None:
        """Add log P(known cells | node) of some rows."""
        logs += self.table[self.place[rows]]
        for place, codes, within in self.within:
            logs += np.where(self.is_known[rows, place, None], within.logs[codes[rows]], np.float32(0))

    def fill(self, out: np.ndarray, nodes: np.ndarray, rng: np.random.Generator) -> None:
        made = self.codes
        for number, pattern in enumerate(self.patterns):
            missing = np.flatnonzero(~pattern.known)
            rows = np.flatnonzero(self.pattern == number)
            if len(missing) and len(rows):
                made[np.ix_(rows, missing)] = pattern.sample(self.group[rows], nodes[rows], rng)[:, missing]
        for place, codes, within in self.within:
            drawn = within.codes_at(nodes, made[:, place], rng.random(len(nodes)))
            made[:, place] = np.where(self.is_known[:, place], codes, drawn)
        out[:, self.columns] = made
