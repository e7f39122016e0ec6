"""The law of the rows of a mixed table: strata, a mixture of each block in each stratum, and cells within codes."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skdpsynth.domain import AllowedCells, Schema
from skdpsynth.models._column_blocks import Block
from skdpsynth.models._differences import DifferenceSampler
from skdpsynth.models._mixture import Mixture
from skdpsynth.models._row_sampling import RowSampler
from skdpsynth.models._structural_zeros import ConstrainedColumns
from skdpsynth.models._within_bin import LinkedColumn


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """What rows are drawn from, which can be conditioned exactly.

    Attributes
    ----------
    schema : Schema
        Of columns as mechanisms see them.
    stratum : column or None
    blocks : tuple of tuple of int
        Columns that depend on each other, by their places without the stratum.
    weights : ndarray of shape (n_strata,)
        Sums to 1.
    mixtures : tuple of tuple of Mixture
        Of each stratum, that of each block; None in place of a stratum that has no weight.
    linked : dict of column to LinkedColumn
        Of columns whose codes are bins.
    tied : tuple of TiedColumns
        Columns that rules tie.
    wanted : dict of column to Wanted
        The conditions that it is on.
    common : tuple of ndarray of shape (n_common,), default=None
        Of each stratum, the weights of nodes that blocks share. Each block has equally many nodes for each of them, one after the other;
        given it, blocks are independent, and the weights of a mixture tell of the nodes for one common node among each other. None:
        blocks are independent given the stratum.
    near : tuple of NearDraw, default=()
        Columns of numbers near each other.
    """

    schema: Schema
    stratum: Hashable
    blocks: tuple[Block, ...]
    weights: np.ndarray
    mixtures: tuple[tuple[Mixture, ...] | None, ...]
    linked: Mapping[Hashable, LinkedColumn]
    tied: tuple[ConstrainedColumns, ...] = ()
    wanted: Mapping[Hashable, AllowedCells] = field(default_factory=dict)
    common: tuple[np.ndarray | None, ...] | None = None
    near: tuple[DifferenceSampler, ...] = ()

    @property
    def names(self) -> list[Hashable]:
        """The columns of the blocks, which are all but the stratum."""
        return [name for name in self.schema if name != self.stratum]

    def sample(self, n_samples: int, rng: np.random.Generator, n_jobs: int | None = None) -> list[np.ndarray]:
        """Return values of columns, as `skdpsynth.domain.read` gives them, made by so many threads."""
        return RowSampler(self, n_samples, rng).values(n_jobs)

    def sample_blocks(self, n_samples: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
        """Yield the same, a block of rows at a time."""
        return RowSampler(self, n_samples, rng).blocks()

    def given(self, wanted: Mapping[Hashable, AllowedCells]) -> tuple["JointDistribution", float]:
        """Condition on what some columns may be.

        Given the codes of a row its cells are independent, and given the stratum and a node of each block, so are its codes. So a condition
        on cells is one on codes with the probability of the cells that are left, and P(stratum | condition) is in proportion to the weight
        of the stratum times the probability of the condition in it. Where blocks share nodes, so it is of these within the stratum.

        Parameters
        ----------
        wanted : dict of column to Wanted

        Returns
        -------
        law : RowLaw
            This one, where the probability is 0.
        probability : float
            Of the condition; a number of a continuous column counts as what floats tell from it.
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
        """Return, of pairs of columns near each other that a condition names, how much more likely it is than by each of their codes."""
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
        weights = mixture.weights * whole
        if not (total := float(weights.sum())):
            return mixture, 0.0
        return Mixture(weights / total, (*mixture.parts[:number], part, *mixture.parts[number + 1 :])), total

    def dtype_of(self, name: Hashable) -> Any:
        """Return the dtype of the values of a column."""
        if name in self.linked and isinstance(self.linked[name].missing, float):
            return float
        return np.min_scalar_type(-self.schema[name].n_codes)


@dataclass(frozen=True, eq=False)
class _Stratum:
    """What a `JointDistribution` has of one stratum."""

    mixtures: tuple[Mixture, ...] | None
    common: np.ndarray | None = None


def _log_weights_by_common(mixture: Mixture, n_common: int) -> np.ndarray:
    """Return the logarithm of the weight that the nodes of each common node have together."""
    with np.errstate(divide="ignore"):
        return np.log(mixture.weights.reshape(n_common, -1).sum(axis=1))
