"""Joint distribution of the rows of a mixed table: strata, a mixture of each block in each stratum, and cells within codes."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Schema
from skdpsynth.frames import concatenate_batches
from skdpsynth.models._differences import DifferenceSampler
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._noisy_tables import Block
from skdpsynth.models._row_sampling import RowSampler
from skdpsynth.models._structural_zeros import ConstrainedColumns
from skdpsynth.models._within_bin import LinkedColumn

_LEAST_DRAWN, _MOST_DRAWN = 1 << 10, 1 << 16  # rows drawn at a time
_TRIES = 1 << 10  # rows drawn for each that is wanted, at most, beyond the first ones
_FIRST_TRIES = 1 << 20


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
        """The columns of the blocks: all but the stratum."""
        return [name for name in self.schema if name != self.stratum]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.tables` reads them, made by `n_jobs` threads."""
        return RowSampler(self, n_samples, rng).values(n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return RowSampler(self, n_samples, rng).blocks()

    def given(self, wanted: Mapping[Hashable, AllowedCells]) -> tuple["JointDistribution", float]:
        """Condition on allowed cells of some columns; return the law (this one, if the condition has probability 0) and the probability.

        Given the codes of a row its cells are independent, and given the stratum and a node of each block, so are its codes. So a condition
        on cells is one on codes with the probability of the remaining cells, and P(stratum | condition) is in proportion to the weight of
        the stratum times the probability of the condition in it. Where blocks share nodes, the same holds for these within the stratum. A
        number of a continuous column counts as an interval as wide as floats resolve.
        """
        shares, linked = {}, dict(self.linked)
        for name, want in wanted.items():
            shares[name], linked = self._shares(name, want, linked)
        near = [(each, each.on(linked)) for each in self.near]
        of_strata = shares.get(self.stratum, np.ones(len(self.weights)))
        allowed = {place: shares[name] for place, name in enumerate(self.names) if name in shares}
        possible = [each for each in self.tied if each.tie.orders.columns and set(each.tie.columns) & set(wanted)]
        corrections = self._difference_corrections(near, allowed)
        laws: list[_Stratum] = []
        logs = np.full(len(self.weights), -math.inf)
        for stratum, weight in enumerate(self.weights * of_strata):
            found, log = self._mixtures(stratum, allowed, possible, linked, corrections) if weight > 0 else (_Stratum(None), -math.inf)
            laws.append(found)
            logs[stratum] = math.log(weight) + log if weight > 0 else -math.inf
        if logs.max() == -math.inf:
            return self, 0.0
        weights = np.exp(logs - logs.max())
        law = replace(
            self,
            weights=weights / weights.sum(),
            mixtures=tuple(each.mixtures for each in laws),
            linked=linked,
            near=tuple(each for _, each in near),
            wanted={**self.wanted, **wanted},
            common=None if self.common is None else tuple(each.common for each in laws),
        )
        return law, float(weights.sum() * math.exp(logs.max()))

    def _shares(
        self, name: Hashable, wanted: AllowedCells, linked: dict[Hashable, LinkedColumn]
    ) -> tuple[np.ndarray, dict[Hashable, LinkedColumn]]:
        """Return (P(condition | code) of a column, the linked columns with this one on the condition)."""
        kind = self.schema[name]
        if name in linked:
            column, shares = linked[name].given(wanted)
            linked = {**linked, name: column}
        else:
            shares = np.isin(np.arange(len(kind.levels)), wanted.chosen).astype(float)
        return np.append(shares, float(wanted.missing)) if kind.nullable else shares, linked

    def _difference_corrections(
        self, near: Sequence[tuple[DifferenceSampler, DifferenceSampler]], allowed: Mapping[int, np.ndarray]
    ) -> dict[tuple[int, int], np.ndarray]:
        """Return by how much a condition on a pair with a difference law is more likely than by each of their codes."""
        out = {}
        for before, after in near:
            pair = (self.names.index(before.names[0]), self.names.index(before.names[1]))
            if allowed.keys() & set(pair):
                out[pair] = after.correction(before, allowed.get(pair[1]))
        return out

    def _mixtures(
        self,
        stratum: int,
        allowed: Mapping[int, np.ndarray],
        tied: Sequence[ConstrainedColumns],
        linked: Mapping[Hashable, LinkedColumn],
        corrections: Mapping[tuple[int, int], np.ndarray],
    ) -> tuple["_Stratum", float]:
        """Return (the law of a stratum on a condition, the logarithm of its probability there)."""
        found, log = [], 0.0
        common = None if self.common is None else self.common[stratum]
        logs = np.zeros(0 if common is None else len(common))
        for block, mixture in zip(self.blocks, self.mixtures[stratum] or (), strict=True):
            here = {place: allowed[column] for place, column in enumerate(block) if column in allowed}
            conditional, probability = mixture.given(here) if here else (mixture, 1.0)
            for pair, factors in corrections.items() if probability else ():
                if pair[0] in block:
                    conditional, share = conditional.reweigh((block.index(pair[0]), block.index(pair[1])), factors)
                    probability *= share
            for each in tied if probability else ():
                conditional, share = self._exclude_impossible(conditional, block, each, linked)
                probability *= share
            if not probability:
                return _Stratum(None), -math.inf
            found.append(conditional)
            if common is None:
                log += math.log(probability)
            elif conditional is not mixture:
                logs += (
                    math.log(probability) + _log_weights_by_common(conditional, len(common)) - _log_weights_by_common(mixture, len(common))
                )
        if common is None:
            return _Stratum(tuple(found)), log
        with np.errstate(divide="ignore"):
            logs = np.where(common > 0, np.log(common) + np.where(common > 0, logs, 0), -math.inf)
        if (largest := logs.max()) == -math.inf:
            return _Stratum(None), -math.inf
        weights = np.exp(logs - largest)
        return _Stratum(tuple(found), weights / weights.sum()), float(largest + math.log(weights.sum()))

    def _exclude_impossible(
        self, mixture: Mixture, block: Block, tied: ConstrainedColumns, linked: Mapping[Hashable, LinkedColumn]
    ) -> tuple[Mixture, float]:
        """Leave out tuples of bins of which a condition leaves only numbers that break a rule."""
        places = {self.names[column]: place for place, column in enumerate(block)}
        names = [name for name in tied.tie.columns if name != self.stratum]
        if names[0] not in places:
            return mixture, 1.0
        number, part = next((n, part) for n, part in enumerate(mixture.parts) if places[names[0]] in part.columns)
        codes = {name: part.codes[:, part.columns.index(places[name])] for name in tied.tie.orders.columns}
        part, whole = part.only(tied.can_hold(codes, linked))
        return mixture.replace_part(number, part, whole)

    def dtype_of(self, name: Hashable) -> Any:
        if name in self.linked and isinstance(self.linked[name].missing, float):
            return float
        return np.min_scalar_type(-self.schema[name].n_codes)


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Mixtures of one stratum, and the weights of its common nodes."""

    mixtures: tuple[Mixture, ...] | None
    common: np.ndarray | None = None


def _log_weights_by_common(mixture: Mixture, n_common: int) -> np.ndarray:
    """Return the logarithm of the weight that the nodes of each common node have together."""
    with np.errstate(divide="ignore"):
        return np.log(mixture.weights.reshape(n_common, -1).sum(axis=1))


@dataclass(frozen=True, eq=False)
class RejectionSampler:
    """A law on a condition on several columns together, which no code tells: rows that do not meet it are drawn again."""

    law: JointDistribution
    meets: Callable[[list[np.ndarray]], np.ndarray]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns; `n_jobs` is ignored."""
        return concatenate_batches(self.sample_blocks(n_samples, rng))

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
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
