"""The law of the rows of a table: exact conditional laws, and rows sampled in blocks that are made one by one and in threads."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from skdpsynth._parallel import run_all
from skdpsynth.domain import AllowedCells, Continuous, Nominal, Ordinal, Schema, ends_of, keys_of, list_names
from skdpsynth.frames import concatenate
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._mixture_sampling import CELLS, STRATA, CommonNodeSampler, MixtureSampler, balanced_half, block_shifts, points_below
from skdpsynth.models._noisy_tables import Block
from skdpsynth.models._structural_zeros import ConstrainedColumns, restrict_axes
from skdpsynth.models._within_bin import DifferenceSampler, LinkedColumn

_LEAST_DRAWN, _MOST_DRAWN = 1 << 10, 1 << 16  # rows drawn at a time
_TRIES = 1 << 10  # rows drawn for each that is wanted, at most, beyond the first ones
_FIRST_TRIES = 1 << 20

_MARKED = 1 << 24  # keys up to which each is marked when it is taken
_KEY_TRIES = 8
_ROWS = 1 << 16  # of a block
_LEAST_ROWS = 1 << 11
_CELLS = 1 << 23  # of rows times columns in a block, where rows are wide
_BIN_BIT = 48  # of a word that is sorted: bin, random bits, row
_ROW_BITS = 16
_BALANCED = 1 << 23  # pairs of codes of a sample, beyond which its rows are not chosen to be even: that would take more than a second
_REDRAWS = 16  # draws of rows that break a rule, before they are moved


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """The law of rows, which can be conditioned exactly and sampled from."""

    schema: Schema
    stratum: Hashable
    blocks: tuple[Block, ...]  # columns that depend on each other, by their places without the stratum
    weights: np.ndarray
    mixtures: tuple[tuple[Mixture, ...] | None, ...]  # by stratum and block; None without weight
    linked: Mapping[Hashable, LinkedColumn]  # columns whose codes are bins
    tied: tuple[ConstrainedColumns, ...] = ()
    wanted: Mapping[Hashable, AllowedCells] = field(default_factory=dict)  # the conditions so far
    # Weights of nodes that blocks share, in each stratum. Each block has equally many nodes for each of them, one after the other; given
    # it, blocks are independent, and the weights of a mixture compare the nodes of one common node. None: independent given the stratum.
    common: tuple[np.ndarray | None, ...] | None = None
    near: tuple[DifferenceSampler, ...] = ()

    @property
    def names(self) -> list[Hashable]:
        return [name for name in self.schema if name != self.stratum]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        return RowSampler(self, n_samples, rng).values(n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        return RowSampler(self, n_samples, rng).blocks()

    def condition(self, wanted: Mapping[Hashable, AllowedCells]) -> tuple["JointDistribution", float]:
        """Condition on allowed cells of some columns; return the law (this one, if the condition has probability 0) and the probability.

        Given the codes of a row its cells are independent, and given the stratum and a node of each block, so are its codes. So a condition
        on cells is one on codes with the probability of the remaining cells, and P(stratum | condition) is in proportion to the weight of
        the stratum times the probability of the condition in it. Where blocks share nodes, the same holds for these within the stratum. A
        number of a continuous column counts as an interval as wide as floats resolve.
        """
        shares, linked = {}, dict(self.linked)
        for name, want in wanted.items():
            kind = self.schema[name]
            if name in linked:
                linked[name], own = linked[name].condition(want)
            else:
                own = np.isin(np.arange(len(kind.levels)), want.chosen).astype(float)
            shares[name] = np.append(own, float(want.missing)) if kind.nullable else own
        names, near = self.names, [each.on(linked) for each in self.near]
        allowed = {place: shares[name] for place, name in enumerate(names) if name in shares}
        possible = [each for each in self.tied if each.tie.orders.columns and set(each.tie.columns) & set(wanted)]
        corrections = {}  # by how much a condition on a pair with a difference law is more likely than by each of their codes
        for before, after in zip(self.near, near, strict=True):
            pair = (names.index(before.names[0]), names.index(before.names[1]))
            if allowed.keys() & set(pair):
                corrections[pair] = after.correction(before, allowed.get(pair[1]))
        laws, logs = [], np.full(len(self.weights), -math.inf)
        for stratum, weight in enumerate(self.weights * shares.get(self.stratum, np.ones(len(self.weights)))):
            is_left = weight > 0
            laws.append(self._condition_stratum(stratum, allowed, possible, linked, corrections) if is_left else (None, None, -math.inf))
            logs[stratum] = math.log(weight) + laws[-1][2] if is_left else -math.inf
        if logs.max() == -math.inf:
            return self, 0.0
        weights = np.exp(logs - logs.max())
        law = replace(
            self,
            weights=weights / weights.sum(),
            mixtures=tuple(mixtures for mixtures, _, _ in laws),
            linked=linked,
            near=tuple(near),
            wanted={**self.wanted, **wanted},
            common=None if self.common is None else tuple(common for _, common, _ in laws),
        )
        return law, float(weights.sum() * math.exp(logs.max()))

    def _condition_stratum(
        self,
        stratum: int,
        allowed: Mapping[int, np.ndarray],
        tied: Sequence[ConstrainedColumns],
        linked: Mapping[Hashable, LinkedColumn],
        corrections: Mapping[tuple[int, int], np.ndarray],
    ) -> tuple[tuple[Mixture, ...] | None, np.ndarray | None, float]:
        """Return (the mixtures of a stratum on a condition, the weights of its common nodes, the logarithm of its probability there)."""
        common = None if self.common is None else self.common[stratum]
        common = np.ones(1) if common is None else common
        found, logs = [], np.zeros(len(common))
        for block, mixture in zip(self.blocks, self.mixtures[stratum] or (), strict=True):
            here = {place: allowed[column] for place, column in enumerate(block) if column in allowed}
            conditional, probability = mixture.condition(here) if here else (mixture, 1.0)
            for pair, factors in corrections.items() if probability else ():
                if pair[0] in block:
                    conditional, share = conditional.reweigh([block.index(column) for column in pair], partial(_look_up, factors))
                    probability *= share
            for each in tied if probability else ():  # tuples of bins in which a condition leaves only numbers that break a rule go
                columns = [self.names.index(name) for name in each.tie.orders.columns]
                if columns[0] in block:
                    places, can_hold = [block.index(column) for column in columns], partial(_can_hold, each, linked)
                    conditional, share = conditional.reweigh(places, can_hold)
                    probability *= share
            if not probability:
                return None, None, -math.inf
            found.append(conditional)
            if conditional is not mixture:
                with np.errstate(divide="ignore"):
                    after, before = (np.log(each.weights.reshape(len(common), -1).sum(axis=1)) for each in (conditional, mixture))
                logs += math.log(probability) + after - before
        with np.errstate(divide="ignore"):
            logs = np.where(common > 0, np.log(common) + np.where(common > 0, logs, 0), -math.inf)
        if (largest := logs.max()) == -math.inf:
            return None, None, -math.inf
        weights = np.exp(logs - largest)
        return tuple(found), weights / weights.sum(), float(largest + math.log(weights.sum()))

    def dtype_of(self, name: Hashable) -> Any:
        if name in self.linked and isinstance(self.linked[name].missing, float):
            return float
        return np.min_scalar_type(-self.schema[name].n_codes)


def _look_up(factors: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the factors of pairs of codes; 1 beyond them, as of a missing cell."""
    return np.pad(factors, (0, 1), constant_values=1.0)[np.minimum(first, len(factors)), np.minimum(second, factors.shape[1])]


def _can_hold(tied: ConstrainedColumns, linked: Mapping[Hashable, LinkedColumn], *codes: np.ndarray) -> np.ndarray:
    return tied.can_hold(dict(zip(tied.tie.orders.columns, codes, strict=True)), linked)


@dataclass(frozen=True, eq=False)
class RejectionSampler:
    """The law on a condition on several columns together: rows that do not meet it are drawn again, as codes cannot tell."""

    law: JointDistribution
    meets: Callable[[list[np.ndarray]], np.ndarray]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        return concatenate(self.sample_blocks(n_samples, rng))

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        n_left, n_drawn, size = n_samples, 0, min(max(_LEAST_DRAWN, n_samples), _MOST_DRAWN)
        while n_left:
            if n_drawn > _FIRST_TRIES + _TRIES * n_samples:
                raise ValueError(
                    f"conditions on columns that a rule orders or adds up must be met by at least one row in {_TRIES} of the model, got "
                    f"{n_samples - n_left} of {n_drawn} drawn; widen the range, or set one on the smaller column too."
                )
            for block in self.law.sample_blocks(size, rng):
                met = np.flatnonzero(self.meets(block))[:n_left]
                n_left -= len(met)
                if len(met):
                    yield [column[met] for column in block]
            n_drawn, size = n_drawn + size, _MOST_DRAWN


class RowSampler:
    def __init__(self, law: JointDistribution, n_samples: int, rng: np.random.Generator) -> None:
        self.keys = [UniqueKeySampler(names, law.schema, law.wanted) for names in keys_of(law.schema.rules, law.schema.whole)]
        for keys in self.keys:
            if n_samples > keys.n_keys:
                raise ValueError(
                    f"n_samples must be at most {keys.n_keys}, the number of different values that a Unique of schema leaves for "
                    f"{list_names(keys.names)}, got {n_samples}; draw fewer rows, or widen the bounds."
                )
        self.law, self.n_samples = law, n_samples
        self.size = max(_LEAST_ROWS, min(_ROWS, 1 << (_CELLS // len(law.schema)).bit_length() - 1))
        self.entropy = rng.integers(2**32, size=4).tolist()
        self.shift = rng.random(1)
        n_pairs = math.comb(len(law.names), 2)
        self.is_balanced = n_pairs > 0 and len(law.blocks) == 1 and n_samples <= min(_ROWS, _BALANCED // max(n_pairs, 1))
        self.strata = np.cumsum(law.weights) / np.sum(law.weights)
        self.strata[np.flatnonzero(law.weights)[-1] :] = 1.0  # rounding must not give a row to those behind, which have no weight
        common = law.common or [None] * len(law.mixtures)
        self.codes = [
            [MixtureSampler(mixture, rng, None if weights is None else len(weights)) for mixture in mixtures or ()]
            for mixtures, weights in zip(law.mixtures, common, strict=True)
        ]
        self.common = [None if weights is None else CommonNodeSampler(weights, rng) for weights in common]
        self.linked = {name: BinSampler(column, rng) for name, column in law.linked.items()}
        self.settling = [BinConstraintSampler(tied, law.linked) for tied in law.tied]

    def values(self, n_jobs: int | None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.tables` reads them; levels in the narrowest signed integers."""
        columns = [np.empty(self.n_samples, dtype=self.law.dtype_of(name)) for name in self.law.schema]
        run_all((partial(self._write, block, columns) for block in range(self.n_blocks)), n_jobs)
        for block in range(self.n_blocks) if self.keys else ():  # one after the other: a key must differ from all before
            self._settle_keys(block, [column[self._rows(block)] for column in columns])
        return columns

    def blocks(self) -> Iterator[list[np.ndarray]]:
        for block in range(self.n_blocks):
            rows = self._rows(block)
            columns = [np.empty(rows.stop - rows.start, dtype=self.law.dtype_of(name)) for name in self.law.schema]
            self._write(block, columns, offset=rows.start)
            self._settle_keys(block, columns)
            yield columns

    def _settle_keys(self, block: int, columns: list[np.ndarray]) -> None:
        places = {name: place for place, name in enumerate(self.law.schema)}
        for number, keys in enumerate(self.keys):
            keys.settle([columns[places[name]] for name in keys.names], np.random.default_rng([*self.entropy, block, number]))

    @property
    def n_blocks(self) -> int:
        return -(-self.n_samples // self.size)

    def _rows(self, block: int) -> slice:
        return slice(block * self.size, min((block + 1) * self.size, self.n_samples))

    def _write(self, block: int, columns: list[np.ndarray], offset: int = 0) -> None:
        rows, rng = self._rows(block), np.random.default_rng([*self.entropy, block])
        n_rows = rows.stop - rows.start
        upto = points_below(self.strata, n_rows, block_shifts(self.shift, block, STRATA)).astype(np.int64)
        coded = [np.empty(n_rows, dtype=np.uint32) for _ in range(sum(map(len, self.law.blocks)))]
        for of_stratum, common, start, stop in zip(self.codes, self.common, [0, *upto], upto, strict=False):
            if stop > start:
                n_rows_of = int(stop - start)
                counts = None if common is None else common.counts(n_rows_of, block)
                order = None if common is None else rng.permutation(n_rows_of)
                for draw, places in zip(of_stratum, self.law.blocks, strict=True):
                    if self.is_balanced:
                        drawn = iter(balanced_half(list(draw.codes(2 * n_rows_of, block, rng)), rng))
                    else:
                        drawn = draw.codes(n_rows_of, block, rng, counts)
                    for place, own in zip(places, drawn, strict=True):
                        coded[place][start:stop] = own if order is None else np.take(own, order)
        strata = np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))
        if len(upto) > 1:
            order = rng.permutation(n_rows)
            strata, coded = strata[order], [np.take(own, order) for own in coded]
        codes, codes_of, written = iter(coded), {}, {}
        for name, column in zip(self.law.schema, columns, strict=True):
            out = written[name] = column[rows.start - offset : rows.stop - offset]
            if name == self.law.stratum:
                out[:] = strata
            elif name in self.linked:
                codes_of[name] = next(codes)
                self.linked[name].write(codes_of[name], block, rng, out)
            else:
                out[:] = next(codes)
        for near in self.law.near:
            near.place(written, codes_of, rng)
        for settling in self.settling:
            settling.settle(written, codes_of, rng)


class BinSampler:
    def __init__(self, column: LinkedColumn, rng: np.random.Generator) -> None:
        self.column, self.shifts = column, rng.random(column.n_bins)

    def write(self, codes: np.ndarray, block: int, rng: np.random.Generator, out: np.ndarray) -> None:
        """Draw a value in each of the bins listed, at most 65,536; the code after the last bin is a missing cell."""
        n_bins = len(self.shifts)
        keys = codes.astype(np.uint64) << np.uint64(_BIN_BIT)
        keys |= rng.integers(2**32, size=len(codes), dtype=np.uint32).astype(np.uint64) << np.uint64(_ROW_BITS)
        keys |= np.arange(len(codes), dtype=np.uint64)
        keys.sort()  # by bin; within a bin in random order, so that the rows of a bin get its numbers in that
        rows = (keys & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)
        counts = np.bincount(codes, minlength=n_bins + 1)
        cells = self.column.inside.cells(counts[:n_bins], block_shifts(self.shifts, block, CELLS))
        out[rows[: len(cells)]] = self.column.place(cells, rng)
        out[rows[len(cells) :]] = self.column.missing


def draw_values(
    codes: Sequence[np.ndarray], schema: Schema, linked: Mapping[Hashable, LinkedColumn], rng: np.random.Generator
) -> list[np.ndarray]:
    """Return values of the columns of rows of codes, as `skdpsynth.tables` reads them."""
    columns = []
    for own, (name, kind) in zip(codes, schema.items(), strict=True):
        if name not in linked:
            columns.append(own.astype(np.min_scalar_type(-kind.n_codes)))
            continue
        sampler, column = BinSampler(linked[name], rng), np.empty(len(own), dtype=float if isinstance(linked[name].missing, float) else int)
        for block, start in enumerate(range(0, len(own), _ROWS)):
            sampler.write(own[start : start + _ROWS], block, rng, column[start : start + _ROWS])
        columns.append(column)
    return columns


class BinConstraintSampler:
    """The columns of numbers of one tie, drawn within their bins (maybe on conditions) so that the rules hold.

    The codes of a row are such that some numbers within its bins keep all rules. Numbers are drawn within each bin by itself first, and
    rows that break a rule draw again: the result has the law of all that keep it. After some tries, the rest moves to the nearest numbers
    that do.
    """

    def __init__(self, tied: ConstrainedColumns, linked: Mapping[Hashable, LinkedColumn]) -> None:
        self.names = [name for name in tied.tie.columns if name in tied.tie.axes]
        self.tie, self.orders = tied.tie, restrict_axes(tied.tie.orders, linked)
        self.linked = {name: linked[name] for name in self.names}
        self.ends = {name: linked[name].ends() for name in self.names}
        self.cells = {name: tied.conditional_cells(name, linked) for name in self.names}

    def settle(self, values: Mapping[Hashable, np.ndarray], codes: Mapping[Hashable, np.ndarray], rng: np.random.Generator) -> None:
        """Change numbers within their bins, in place, until the rules hold."""
        codes = {name: np.asarray(codes[name], dtype=np.int64) for name in self.names}
        missing = {name: self.cells[name].missing[codes[name]] for name in self.names}
        shown = {name: self._to_axis(name, values[name], codes[name]) for name in self.names}
        orders = self.orders
        if orders.columns:
            self._order(shown, codes, missing, rng)
        for name in self.names:
            first, last = (ends[np.minimum(codes[name], len(ends) - 1)] for ends in self.ends[name])
            settled = np.clip(self.tie.axes[name].value(shown[name]), first, last)
            np.copyto(values[name], settled, where=~missing[name])

    def _to_axis(self, name: Hashable, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return numbers as they are written, within the remains of their bins."""
        first = self.ends[name][0]
        known = np.where(np.isnan(values), first[0], values)
        return np.clip(self.tie.axes[name].show(known), *ends_of(self.cells[name], codes))

    def _order(self, shown: dict, codes: Mapping, missing: Mapping, rng: np.random.Generator) -> None:
        """Draw rows again that break an inequality or a sum, then move them."""
        orders = self.orders
        broken = np.flatnonzero(~orders.holds(shown, missing))
        for _ in range(_REDRAWS):
            if not len(broken):
                return
            of_rows = {name: missing[name][broken] for name in orders.columns}
            drawn = {}
            for name in orders.columns:  # any number for a missing cell
                own, column = codes[name][broken], self.linked[name]
                cells = column.inside.sample_cells(np.minimum(own, column.n_bins - 1), rng)
                drawn[name] = self._to_axis(name, column.place(cells, rng), own)
            holds = orders.holds(drawn, of_rows)
            for name in orders.columns:
                shown[name][broken[holds]] = drawn[name][holds]
            broken = broken[~holds]
        ends = {name: ends_of(self.cells[name], codes[name][broken]) for name in orders.columns}
        moved = orders.repair(
            {name: shown[name][broken] for name in orders.columns},
            {name: least for name, (least, _) in ends.items()},
            {name: most for name, (_, most) in ends.items()},
            {name: missing[name][broken] for name in orders.columns},
        )
        for name in orders.columns:
            shown[name][broken] = moved[name]


class UniqueKeySampler:
    """The keys of a sample, in the order of its blocks: drawing without replacement, on conditions.

    A key is a number whose last digit, in a mixed radix, is the column of most values: so a key that is taken is replaced by one that has
    the same values in all other columns, as long as there are some.
    """

    def __init__(self, names: Sequence[Hashable], schema: Schema, wanted: Mapping[Hashable, AllowedCells]) -> None:
        digits = {name: _Digits.of(schema[name], wanted.get(name)) for name in names}
        self.names = sorted(names, key=lambda name: digits[name].size)
        self.digits = [digits[name] for name in self.names]
        self.sizes = [each.size for each in self.digits]
        self.n_keys = math.prod(self.sizes)
        self.taken = np.zeros(self.n_keys, dtype=bool) if self.n_keys <= _MARKED else None
        self.runs: list[np.ndarray] = []  # sorted, each at least twice as long as the next

    def settle(self, columns: Sequence[np.ndarray], rng: np.random.Generator) -> None:
        """Replace keys that occur again, in place; `columns` are those of `names`."""
        keys = np.zeros(len(columns[0]), dtype=np.int64)
        for column, digits in zip(columns, self.digits, strict=True):
            keys = keys * digits.size + digits.of_values(column.astype(np.int64))
        again = np.flatnonzero(self._is_repeated(keys))
        if len(again):
            self._take(np.delete(keys, again))
            keys[again] = self._free_keys(keys[again], rng)
            self._take(keys[again])
            for column, digits in zip(reversed(columns), reversed(self.digits), strict=True):
                keys, column[:] = keys // digits.size, digits.values(keys % digits.size)
        else:
            self._take(keys)

    def _is_repeated(self, keys: np.ndarray) -> np.ndarray:
        again = np.ones(len(keys), dtype=bool)
        again[np.unique(keys, return_index=True)[1]] = False
        return again | self._is_taken(keys)

    def _is_taken(self, keys: np.ndarray) -> np.ndarray:
        if self.taken is not None:
            return self.taken[keys]
        found = np.zeros(len(keys), dtype=bool)
        for run in self.runs:
            found |= run[np.minimum(np.searchsorted(run, keys), len(run) - 1)] == keys
        return found

    def _take(self, keys: np.ndarray) -> None:
        if self.taken is not None:
            self.taken[keys] = True
        elif len(keys):
            self.runs.append(np.sort(keys))
            while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
                self.runs[-2:] = [np.sort(np.concatenate(self.runs[-2:]))]

    def _free_keys(self, keys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.taken is not None:  # the next above that no other takes, from the front again beyond the last
            free, order, steps = np.flatnonzero(~self.taken), np.argsort(keys, kind="stable"), np.arange(len(keys))
            places = np.maximum.accumulate(np.searchsorted(free, keys[order]) - steps) + steps
            beyond = places >= len(free)
            places[beyond] = np.setdiff1d(np.arange(len(free)), places[~beyond])[: int(beyond.sum())]
            out = np.empty_like(keys)
            out[order] = free[places]
            return out
        out, left = keys.copy(), np.arange(len(keys))
        for attempt in range(_KEY_TRIES):  # among so many, hardly one is hit twice
            last = self.sizes[-1] if attempt < _KEY_TRIES // 2 else self.n_keys
            drawn = out[left] // last * last + rng.integers(last, size=len(left))
            fresh = ~self._is_repeated(drawn) & ~np.isin(drawn, np.delete(out, left))
            out[left[fresh]] = drawn[fresh]
            left = left[~fresh]
            if not len(left):
                return out
        n_taken = sum(map(len, self.runs)) + len(keys)
        start = int(rng.integers(self.n_keys))
        near = (start + np.arange(min(n_taken + len(left), self.n_keys))) % self.n_keys
        near = near[~self._is_taken(near) & ~np.isin(near, np.delete(out, left))]
        out[left] = near[: len(left)]
        return out


@dataclass(frozen=True, eq=False)
class _Digits:
    """The values of a column as digits: all from the lowest on, or some."""

    size: int
    low: int
    some: np.ndarray | None

    @classmethod
    def of(cls, kind: Continuous | Nominal | Ordinal, wanted: AllowedCells | None) -> "_Digits":
        low, high = (int(kind.low), int(kind.high)) if isinstance(kind, Continuous) else (0, len(kind.levels) - 1)
        if wanted is not None and (wanted.among is not None or not isinstance(kind, Continuous)):
            some = np.unique(wanted.chosen.astype(np.int64))
            some = some[(some >= low) & (some <= high)]
            return cls(len(some), 0, some)
        if wanted is not None:
            low, high = max(low, math.ceil(wanted.low)), min(high, math.floor(wanted.high))
        return cls(high - low + 1, low, None)

    def of_values(self, values: np.ndarray) -> np.ndarray:
        return values - self.low if self.some is None else np.searchsorted(self.some, values)

    def values(self, digits: np.ndarray) -> np.ndarray:
        return digits + self.low if self.some is None else self.some[digits]
