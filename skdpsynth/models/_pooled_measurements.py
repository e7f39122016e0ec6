"""The tables of a union of rows, from noisy tables of its parts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skdpsynth.models._column_blocks import NoisyTables
from skdpsynth.models._measurements import Measurements
from skdpsynth.models._pooling import Table, pool_tables
from skdpsynth.models._public_prior import PublicPrior
from skdpsynth.models._quantile_bins import Link
from skdpsynth.models._rare_levels import LevelGroups


def pool_measurements(parts: Sequence[Measurements], numbers: Sequence[float]) -> Measurements:
    """Estimate the tables of the union of disjoint parts, in the codes of the last one.

    Parameters
    ----------
    parts : sequence of Counted
        With one schema and stratum; by time.
    numbers : sequence of float
        How many rows of the union each part stands for.
    """
    last = parts[-1]
    steps = [_pool_step(parts, numbers, step) for step in ("one_way", "two_way")]
    return replace(last, one_way=steps[0], two_way=steps[1], n_samples=max(1, round(sum(numbers))), beside=_latest_prior(parts))


def _latest_prior(parts: Sequence[Measurements]) -> PublicPrior | None:
    """Return the counts of a public table in the codes of the last part; of an earlier one where a stream that was loaded lacks it."""
    known = [part for part in parts if part.beside is not None]
    if not known or known[-1] is parts[-1]:
        return parts[-1].beside
    part, recodings = known[-1], _recoding_matrices(known[-1], parts[-1])
    assert part.beside is not None
    steps = {
        step: {place: _recode_table(table, 0.0, [recodings[i] for i in place])[0] for place, table in getattr(part.beside, step).items()}
        for step in ("one_way", "two_way")
    }
    return replace(part.beside, **steps)


def _pool_step(parts: Sequence[Measurements], numbers: Sequence[float], step: str) -> NoisyTables:
    """Return the tables of the union in one step."""
    last = parts[-1]
    recodings = [_recoding_matrices(part, last) for part in parts]
    counts = [max(1.0, float(part.totals.sum())) for part in parts]
    tables, variances, sizes = {}, [], []
    for place in getattr(last, step).tables:
        found: list[Table | None] = []
        for part, recoding in zip(parts, recodings, strict=True):
            noisy = getattr(part, step)
            table = noisy.tables.get(place)
            found.append(None if table is None else _recode_table(table, noisy.variance, [recoding[i] for i in place]))
        tables[place], variance = pool_tables(found, counts, numbers)
        variances.append(variance)
        sizes.append(tables[place].size)
    return NoisyTables(tables, float(np.average(variances, weights=sizes)) if sizes else getattr(last, step).variance)


def _recoding_matrices(part: Measurements, last: Measurements) -> dict[int, np.ndarray | None]:
    """Return, by the place of each column, the shares of the old codes that become each new one; None where codes stayed."""
    names = [name for name in last.schema if name != last.stratum]
    out: dict[int, np.ndarray | None] = {}
    for place, name in enumerate(names):
        old, new = part.codes.links.get(name), last.codes.links.get(name)
        out[place] = None if old is None or new is None or old is new else recoding_matrix(old, new, last.schema[name].nullable)
    return out


def recoding_matrix(old: Link | LevelGroups, new: Link | LevelGroups, nullable: bool) -> np.ndarray:
    """Return which share of each old code becomes each new one, by the mass of the cells that both hold.

    Parameters
    ----------
    old, new : Link or LevelGroups
        Of one column: their cells are the same.
    nullable : bool
        Whether the code after the last is a missing cell.

    Returns
    -------
    shares : ndarray of shape (n_old, n_new)
        Rows sum to 1.
    """
    shares = np.zeros((old.n_bins + nullable, new.n_bins + nullable))
    mass = _cell_masses(new)
    # A code without mass is spread over its cells alike.
    np.add.at(shares, (old.codes, new.codes), mass + 1e-12 / len(mass))
    if nullable:
        shares[-1, -1] = 1
    return shares / shares.sum(axis=1, keepdims=True)


def _cell_masses(link: Link | LevelGroups) -> np.ndarray:
    if isinstance(link, Link):
        return link.mass
    mass = np.empty(len(link.order))
    mass[link.order] = link.link.mass
    return mass


def _recode_table(table: np.ndarray, variance: float, recodings: Sequence[np.ndarray | None]) -> Table:
    """Return a table of classes by codes in other codes, and the mean variance of a count of it."""
    for axis, shares in enumerate(recodings, start=1):
        if shares is not None:
            table = np.moveaxis(np.tensordot(table, shares, (axis, 0)), -1, axis)
            variance *= float((shares**2).sum(axis=0).mean())
    return table, variance
