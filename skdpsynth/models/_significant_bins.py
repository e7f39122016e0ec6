"""Bins of numbers that hold more than noise, and the expected counts beyond them."""

import math
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from skdpsynth.models._noisy_tables import Block, NoisyTables, center_table, shares_of
from skdpsynth.models._quantile_bins import LevelGroups, Link, decay_rate, density_at_border, grade_bins, reweigh_bins

MIN_ROWS = 150.0  # deviations of the count of a bin; with fewer rows, single bins cannot be told from noise
_MIN_ROWS_OF_SPANS = 20.0  # deviations: what bins far out hold would be all of a mean
_CLEAR = 4.5  # deviations of the count of a bin beside those that are clear, and half of one more for each further bin of a sum
_ALONE = 6.0  # ... of one bin, however far out it lies: noise alone, be it of Laplace's law, hardly ever has so much
_AT_BOUND = 2.5  # ... of a bound alone, from which a growing part of it counts, up to all of it at `_CLEAR`
_SEEN = 2.0  # ... of one bin beside those that are clear
_FEW = 4  # times fewer rows than in the mean: bins at the ends that hold so few say too little of other columns
_CLEAR_PAIR = 3.0  # squared deviations of a row of a pair, for each cell: half of the interactions of as many rows count
_LEAST = 1.0  # rows: fewer, far out, would come and go with the sample, and are most of a deviation


def threshold_bins(
    names: Sequence[Hashable],
    links: Mapping[Hashable, Link | LevelGroups],
    one_way: NoisyTables,
    two_way: NoisyTables,
    totals: np.ndarray,
    drawn_together: Set[Hashable],
    spans: Mapping[Hashable, np.ndarray],
) -> tuple[dict[Hashable, Link | LevelGroups], NoisyTables, NoisyTables]:
    """Empty the bins that hold nothing but noise, in links and tables.

    Noise in bins far from the rows, as where bounds are generous, would become rows: few, but so far out that they distort means and
    deviations. Here the bins that are clear of noise, and those between them, keep their counts. The counts expected beyond them
    (`expected_counts`) are added to the last bin that says something of other columns, and dealt out again, by the mass of the link, when
    rows are drawn. Mass that noise had put there goes back to the others. Tables are those of `Estimates`. In columns that are drawn
    together, by rules or differences, an expected count stays in its bin. Cells of `spans`, given by their edges, are as wide as they
    lie far out, so that few rows of noise would be all of a mean: there the law falls with the values.
    """
    new, columns, merged = dict(links), dict(one_way.tables), dict[int, _Merged]()
    deviation = one_way.deviation * math.sqrt(len(totals))
    for i, name in enumerate(names):
        link, table = new.get(name), columns[i,]
        if not isinstance(link, Link):
            continue
        counts = table[:, : link.n_bins].sum(axis=0)
        places = spans.get(name, np.arange(len(link.mass) + 1))
        widths = np.diff(places[link.edges])
        first_is_bound, last_is_bound = (np.diff(link.edges)[[0, -1]] == 1).tolist()
        enough = MIN_ROWS if name not in spans else _MIN_ROWS_OF_SPANS
        found = expected_counts(counts, deviation, len(names), first_is_bound, last_is_bound, widths, enough)
        if found is None:
            falls = tail_directions(link.masses, widths)
            new[name] = reweigh_bins(link, link.masses, np.arange(link.n_bins), falls, places) if falls.any() else link
            continue
        expected, alike, falls = found
        if name in drawn_together:
            alike = np.where(expected > 0, np.arange(link.n_bins), alike)
        if name in drawn_together or name in spans:
            falls = np.where(falls, falls, tail_directions(link.masses, widths))
        new[name] = reweigh_bins(link, np.maximum(expected, 0.0), alike, falls, places)
        codes = np.append(alike, np.arange(link.n_bins, table.shape[1]))
        kept = np.unique(codes)
        merged[i] = _Merged(codes, kept, np.append(expected, np.zeros(table.shape[1] - link.n_bins)), table.sum(axis=0))
        more = np.bincount(alike, expected, table.shape[1]) - np.append(counts, np.zeros(table.shape[1] - link.n_bins))
        own = table[:, kept] + np.outer(shares_of(totals), more[kept])
        own += (table.sum(axis=1) - own.sum(axis=1))[:, None] / len(kept)
        columns[i,] = np.zeros_like(table, dtype=float)
        columns[i,][:, kept] = own
    pairs = {pair: _threshold_pair(table, pair, columns, merged, two_way.deviation) for pair, table in two_way.tables.items()}
    return new, NoisyTables(columns, one_way.variance), replace(two_way, tables=pairs)


@dataclass(frozen=True, eq=False)
class _Merged:
    """Bins of a column that are kept, and what becomes of those beyond them."""

    codes: np.ndarray  # of each code, the one that it is like
    kept: np.ndarray
    expected: np.ndarray  # rows of each bin
    counts: np.ndarray

    def weights(self, size: int, deviation: float) -> np.ndarray:
        """Return how the interactions of all codes with a column of some size make those of the kept ones, shape (n_kept, n_codes).

        Those of a bin beyond come to the last one before, where they are clear of noise; as far as they are not, its rows are taken to
        depend on other columns as those of that one do.
        """
        found = np.zeros((len(self.codes), len(self.codes)))
        found[self.kept, self.kept] = 1
        for code in np.flatnonzero(self.codes != np.arange(len(self.codes))):
            rows, like = max(self.expected[code], 0.0), self.codes[code]
            clear = rows**2 / (rows**2 + (size * deviation) ** 2 / _CLEAR_PAIR) if rows else 0.0
            found[like, code] = clear
            found[like, like] += (1 - clear) * rows / max(self.counts[like], 1.0)
        return found[self.kept]


def _threshold_pair(
    table: np.ndarray, pair: Block, columns: Mapping[Block, np.ndarray], merged: Mapping[int, _Merged], deviation: float
) -> np.ndarray:
    """Return the table of a pair on the kept codes, with the margins of its columns."""
    if not merged.keys() & set(pair):
        return table
    (first, second), within = (columns[i,] for i in pair), table
    places = [merged[i].kept if i in merged else np.arange(columns[i,].shape[1]) for i in pair]
    for axis, i in enumerate(pair, start=1):
        if i in merged:
            weights = merged[i].weights(table.shape[3 - axis], deviation)
            within = np.moveaxis(np.tensordot(within, weights, (axis, 1)), -1, axis)
    out, (rows, cells) = np.zeros(table.shape), places
    even = first.sum(axis=1)[:, None, None] / (len(rows) * len(cells))
    own = first[:, rows, None] / len(cells) + second[:, None, cells] / len(rows) - even + center_table(within)
    out[np.ix_(np.arange(len(table)), rows, cells)] = own
    return out


def threshold_link(link: Link, n_rows: float, deviation: float) -> Link:
    """Return the law of a column by itself without rows that noise made far out, where noise lets bins be told from it.

    The deviation is that of the noise of a node of the tree of the link: a bin is made of several.
    """
    graded, places = grade_bins(link, 2.0), np.arange(len(link.mass) + 1)
    counts, widths = n_rows * graded.masses, np.diff(graded.edges)
    found = expected_counts(counts, math.sqrt(2) * deviation, widths=widths)
    if found is None:
        falls = tail_directions(link.masses, np.diff(link.edges))
        return reweigh_bins(link, link.masses, np.arange(link.n_bins), falls, places)
    return reweigh_bins(graded, np.maximum(found[0], 0.0), np.arange(graded.n_bins), found[2], places)


def tail_directions(masses: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Return 1 or -1, the direction in which the density falls, of bins wider than all between them and the densest one."""
    falls = np.zeros(len(masses), dtype=int)
    densest = int(np.argmax(masses / widths))
    for outwards, way in ((slice(densest, None), 1), (slice(densest, None, -1), -1)):
        side = widths[outwards]
        falls[outwards][1:] = np.where(side[1:] > np.cumsum(side)[:-1], way, 0)
    return falls


def expected_counts(
    counts: np.ndarray,
    deviation: float,
    n_columns: int = 1,
    first_is_bound: bool = False,
    last_is_bound: bool = False,
    widths: np.ndarray | None = None,
    min_rows: float = MIN_ROWS,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Find the bins of a column that are clear of noise, and the counts expected beyond them; None where noise hides too much.

    Returned for each bin are the counts, with expected ones beyond the clear bins; the bin it is like (itself; beyond those that hold
    enough to say something of other columns, the last that does); and 1 or -1, the direction in which the density falls, beyond the clear
    ones. A first or last bin that is a bound of the column alone, where clipped numbers pile up, needs to be less clear of noise.
    `n_columns` columns inform about the number of rows, if that is private; without `widths` all bins are alike.
    """
    if counts.sum() <= min_rows * deviation:
        return None
    heavy, expected, alike, falls = int(np.argmax(counts)), counts.astype(float), np.arange(len(counts)), np.zeros(len(counts), dtype=int)
    wide = np.ones(len(counts)) if widths is None else widths
    rows, least = -float(counts[heavy]), counts.sum() / (_FEW * len(counts))
    for outwards, way, is_bound in ((slice(heavy, None), 1, last_is_bound), (slice(heavy, None, -1), -1, first_is_bound)):
        side = counts[outwards]
        last = _last_significant_bin(side, deviation, len(counts), n_columns) if deviation else len(side) - 1
        densities = np.maximum(side / wide[outwards], 1e-300)[last::-1]
        before = density_at_border(densities[:3], wide[outwards][last::-1][:3]) if last else 0.0
        expected[outwards][last + 1 :] = _tail_counts(side[last:], wide[outwards][last:], before, deviation)
        falls[outwards][last + 1 :] = way
        if is_bound and last + 1 < len(side):
            # A pile of clipped numbers is likely at a bound, but not if bounds are generous.
            found = float(side[-1]) * min(max((float(side[-1]) / deviation - _AT_BOUND) / (_CLEAR - _AT_BOUND), 0.0), 1.0)
            if found > expected[outwards][-1]:
                expected[outwards][-1], falls[outwards][-1] = found, 0
        told = int(np.flatnonzero(side[: last + 1] >= least)[-1])
        alike[outwards][told + 1 :] = alike[outwards][told]
        rows += side[: last + 1].sum()
    return (expected, alike, falls) if rows > counts.sum() / 2 else None


def _last_significant_bin(counts: np.ndarray, deviation: float, n_all: int, n_columns: int) -> int:
    """Return the place of the last bin that is clear of noise, of bins outwards from one that is: alone, or with those before it.

    All other bins inform about the rows at a place or beyond too, where these are few: as the remainder of the number of rows.
    """
    last = int(np.flatnonzero(np.append(_ALONE * deviation + 1, counts[1:]) > _ALONE * deviation)[-1])
    others = n_all - np.arange(len(counts) - 1, 0, -1) + 1 + n_all / n_columns  # with the missing cells, and the number itself
    left = np.flatnonzero(np.cumsum(counts[:0:-1])[::-1] > _CLEAR * deviation * np.sqrt(others))
    last = max(last, int(left[-1]) + 1 if len(left) else 0)
    while last + 1 < len(counts):
        n_bins = np.arange(1, len(counts) - last)
        least = np.minimum(_CLEAR + (n_bins - 1) / 2, _ALONE) * deviation
        clear = np.flatnonzero(np.cumsum(counts[last + 1 :]) > least * np.sqrt(n_bins))
        if not len(clear):
            break
        last += 1 + int(clear[0])
    return last


def _tail_counts(counts: np.ndarray, widths: np.ndarray, before: float, deviation: float) -> np.ndarray:
    """Return the expected counts of the bins beyond the first of these.

    A bin has the posterior mean, given its count, of a normal law whose mean is the mass of an exponential law beyond the bin before, at
    most half of that bin, and whose deviation is as large. How fast that law falls is told by the density of the bin before beside the
    density at its border (`before`, of the first); beyond one that may be noise, it falls no slower than it fell.
    """
    out, most = np.zeros(len(counts) - 1), max(float(counts[0]), 0.0)
    rate = decay_rate(most / widths[0] / before) / widths[0] if before > 0 else 0.0
    for place, (count, width) in enumerate(zip(counts[1:].tolist(), widths[1:].tolist(), strict=True)):
        within = rate * float(widths[place])
        left = -math.expm1(-rate * width) / math.expm1(min(within, 700.0)) if within > 0 else 1.0
        prior = most * min(left, 0.5)
        weight = prior**2 / (prior**2 + deviation**2) if prior else 0.0
        found = min(max(prior + weight * (count - prior), 0.0), most / 2)
        if found < _LEAST:
            break
        seen = decay_rate(math.sqrt(found / width / (most / float(widths[place])))) / width
        rate = seen if count > _SEEN * deviation else max(rate, seen)
        out[place] = most = found
    return out
