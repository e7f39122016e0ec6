"""Codes drawn from a mixture of products, in blocks of rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from skdpsynth.models._mixture import Mixture

# Steps 1/g, 1/g**2, ... with g**5 = g + 1: of points in four dimensions that are even together, one for each stage of sampling. With one
# step for two stages, blocks that give a node more rows would be those with certain shifts of its codes.
_RATIO = 1.1673039782614187
STRATA, NODES, CODES, CELLS = (_RATIO**-stage for stage in range(1, 5))
COMMON = (5**0.5 - 1) / 2  # of nodes that all blocks of columns share: the golden ratio, which is in no small relation to those
_GROUP_BIT, _ROW_BITS = 48, 16  # of a word that is sorted: common node, random bits, row of a block
_RAKES, _NO_ROW = 4, 1e-9  # of a table to those of its two columns; in place of no row
_SWEEPS, _STEPS = 48, 256  # over all rows, in which two may be exchanged, and of a sweep, at most
_FEW = 0.02  # of the couples: as many exchanges of a sweep end them
_AT_ONCE = 16  # couples of rows that are chosen from by the same counts
_NARROW = 64  # codes of a column, beyond which rows are looked up instead of the ends of codes


class MixtureSampler:
    """Codes of one class, in blocks of rows.

    Nodes, and tuples of codes within a node, are drawn by systematic sampling in random order: each row has the law of the mixture, and the
    frequencies of a sample come closer to it than those of independent rows. Blocks of columns may share `n_common` nodes: each has equally
    many nodes of the mixture, one common node after the other.
    """

    def __init__(self, mixture: Mixture, rng: np.random.Generator, n_common: int | None = None) -> None:
        self.parts = [(part.columns, None if part.is_plain else part.codes.T) for part in mixture.parts]
        self.within = [part.within for part in mixture.parts]
        self.of_parts = []  # P(code <= m | node), shape (n_nodes, n_codes)
        for part in mixture.parts:
            upto = np.cumsum(part.probabilities, axis=0)
            upto /= upto[-1]
            self.of_parts.append(np.ascontiguousarray(upto.T, dtype=np.float32 if len(upto) <= _NARROW else float))
        self.nodes_upto = _cumulative_shares(mixture.weights.reshape(n_common or 1, -1))
        self.of_nodes = rng.random(n_common or 1)
        self.of_codes = rng.random((len(mixture.parts), len(mixture.weights)), dtype=np.float32)

    def codes(self, n_rows: int, block: int, rng: np.random.Generator, of_common: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Yield the codes of a block of rows, column after column, from the block's own `rng`.

        `of_common` is the number of rows of each common node: they come one common node after the other.
        """
        shifts = block_shifts(self.of_nodes, block, NODES)
        n_points = np.array([n_rows]) if of_common is None else of_common
        counts = np.diff(points_below(self.nodes_upto, n_points[:, None], shifts[:, None]).astype(np.int64), axis=1).ravel()
        nodes = np.flatnonzero(counts)
        counts = counts[nodes]
        order = rng.permutation(n_rows) if of_common is None else _shuffle_places_within(of_common, rng)
        drawn: dict[int, np.ndarray] = {}  # columns that wait for one before them, which is in a later part
        column = 0
        for (columns, codes), of_part, start, within in zip(self.parts, self.of_parts, self.of_codes, self.within, strict=True):
            tuples = _codes_of_nodes(of_part, nodes, counts, block_shifts(start[nodes], block, CODES))
            # Shuffled within each node, so that parts are independent given the node.
            tuples = shuffle_within(tuples, of_part.shape[1], counts, rng)
            classes = {columns[0]: tuples} if codes is None else {c: np.take(own, tuples) for c, own in zip(columns, codes, strict=True)}
            for each, own in within.items():
                of_rows, in_class = np.repeat(nodes, counts.astype(np.int64)), classes[each].astype(np.int64)
                classes[each] = own.codes_at(of_rows, in_class, _systematic_shares(of_rows * own.n_classes + in_class, rng))
            drawn |= {each: np.take(own, order) for each, own in classes.items()}
            while column in drawn:
                yield drawn.pop(column)
                column += 1


class CommonNodeSampler:
    """Numbers of rows of a block by the node that all blocks of columns share."""

    def __init__(self, weights: np.ndarray, rng: np.random.Generator) -> None:
        self.upto, self.shift = _cumulative_shares(weights[None])[0], rng.random(1)

    def counts(self, n_rows: int, block: int) -> np.ndarray:
        return np.diff(points_below(self.upto, n_rows, block_shifts(self.shift, block, COMMON)).astype(np.int64))


def balanced_half(codes: Sequence[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Return half of an even number of rows of codes, in random order, whose pairs of columns are nearly as frequent as in all of them.

    Two rows at a time, the one is kept whose kind has been kept less often than left out: where the signed counts of its pairs of codes,
    summed, are lower. As each choice would be the other one if all before were, a row that is kept has the law of all rows; and signed
    counts stay near 0, where those of a random half would grow with the root of the number of rows. It is a halving walk with the kernel
    that counts the pairs of columns in which two rows agree; see Dwivedi and Mackey (2021), "Kernel thinning".
    """
    first, second = np.triu_indices(len(codes), 1)
    starts = np.cumsum([0, *(int(column.max(initial=0)) + 1 for column in codes)])
    places = np.array([column.astype(np.int64) + start for column, start in zip(codes, starts, strict=False)])
    signed, width = np.zeros(starts[-1] ** 2, dtype=np.int32), int(starts[-1])
    couples, kept = rng.permutation(len(codes[0])).reshape(-1, 2), [np.empty(0, dtype=np.int64)]
    heads = rng.random(len(couples)) < 0.5
    for start in range(0, len(couples), _AT_ONCE):
        both = couples[start : start + _AT_ONCE]
        own = places[:, both]
        cells = own[first] * width + own[second]  # shape (n_pairs, n_couples, 2)
        excess = np.subtract(*signed[cells].sum(axis=0).T)
        takes_second = np.where(excess == 0, heads[start : start + len(both)], excess > 0)
        kept.append(both[np.arange(len(both)), takes_second.astype(np.int64)])
        np.add.at(signed, cells.ravel(), np.tile(np.stack([1 - 2 * takes_second, 2 * takes_second - 1], axis=1).ravel(), len(first)))
    rows = np.concatenate(kept)
    return [np.take(column, rows) for column in codes]


def spread_pairs(
    codes: np.ndarray, parts: np.ndarray, areas: np.ndarray, tilts: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Return the row that each place gets, in the part of the row that stood there, such that pairs of columns are alike in all areas.

    `parts` and `areas` are those of places. Two places of a part in different areas exchange their rows where that brings the counts of
    pairs nearer, in squares, to those in proportion: an area has of each part's rows the share that it has of the part's places. As it
    matters only which rows an area gets, and not how many, all counts of parts by areas stay. `tilts` are tables of areas by codes, one a
    column: so many times the counts in proportion an area shall have, to which its pairs are raked first. Without any they stay.
    """
    rows, (first, second) = np.arange(len(parts)), np.triu_indices(len(codes), 1)
    sizes = np.array([tilt.shape[1] for tilt in tilts]) if tilts else codes.max(axis=1, initial=0) + 1
    places = np.bincount(parts * (areas.max() + 1) + areas, minlength=(parts.max() + 1) * (areas.max() + 1)).reshape(-1, areas.max() + 1)
    ends = np.cumsum(sizes[first] * sizes[second])
    if places.shape[1] < 2:
        return rows
    cells = (codes[first] * sizes[second, None] + codes[second] + np.append(0, ends[:-1])[:, None]).T
    # Counts of pairs in each area beyond those in proportion.
    shares = places / np.maximum(places.sum(axis=1, keepdims=True), 1)
    wanted = shares.T @ _count_cells(cells, parts, ends)
    if tilts:
        pairs = np.split(wanted, ends[:-1], axis=1)
        wanted = np.hstack([_rake(own, tilts[i], tilts[j]) for own, i, j in zip(pairs, first.tolist(), second.tolist(), strict=True)])
    excess = (_count_cells(cells, areas, ends) - wanted).ravel()
    starts = areas * ends[-1]
    for sweep in range(_SWEEPS):
        n_exchanged = 0
        order = np.lexsort((rng.random(len(parts)), parts))[sweep % 2 :]
        couples = order[: len(order) // 2 * 2].reshape(-1, 2).T
        couples = couples[:, (parts[couples[0]] == parts[couples[1]]) & (areas[couples[0]] != areas[couples[1]])]
        for start in range(0, couples.shape[1], at_once := max(_AT_ONCE, couples.shape[1] // _STEPS)):
            here = couples[:, start : start + at_once]
            of, at = cells[rows[here]], starts[here][:, :, None]
            stay, move = excess[of + at], excess[of + at[::-1]]
            change = (move - stay).sum(axis=(0, 2)) + 2 * (of[0] != of[1]).sum(axis=1)  # half of that of all squares
            better = change < 0
            n_exchanged += int(better.sum())
            rows[here[:, better]] = rows[here[::-1, better]]
            of, at = of[:, better], at[:, better]
            np.subtract.at(excess, of + at, 1.0)
            np.add.at(excess, of + at[::-1], 1.0)
        if n_exchanged <= _FEW * couples.shape[1]:
            break
    return rows


def _rake(wanted: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return tables of a pair of columns in each area, raked until each column is as often there as before, times its tilt."""
    table = wanted.reshape(-1, first.shape[1], second.shape[1])
    of_first, of_second = table.sum(axis=2) * first[: len(table)], table.sum(axis=1) * second[: len(table)]
    for _ in range(_RAKES):
        table = table * (of_first / np.maximum(table.sum(axis=2), _NO_ROW))[:, :, None]
        table = table * (of_second / np.maximum(table.sum(axis=1), _NO_ROW))[:, None]
    return table.reshape(wanted.shape)


def _count_cells(cells: np.ndarray, labels: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the counts of all cells for each label: those of the rows of a pair of columns end at `ends`."""
    tables, n_labels = [], int(labels.max()) + 1
    for own, start, end in zip(cells.T, np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
        counts = np.bincount(labels * (end - start) + own - start, minlength=n_labels * (end - start))
        tables.append(counts.reshape(n_labels, end - start))
    return np.hstack(tables)


def _cumulative_shares(weights: np.ndarray) -> np.ndarray:
    """Return the shares of the nodes of each row up to each, from 0 to 1, shape (n_rows, n_nodes + 1)."""
    if np.ptp(weights) == 0:  # sums would be off in the last digit
        return np.tile(np.arange(weights.shape[1] + 1) / weights.shape[1], (len(weights), 1))
    upto = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    whole = upto[:, -1:]
    upto /= np.where(whole > 0, whole, 1.0)
    # The part below 1 that rounding leaves belongs to the last node that has a weight: nodes without one get no row.
    last = weights.shape[1] - np.argmax(weights[:, ::-1] > 0, axis=1)
    upto[np.arange(weights.shape[1] + 1) >= last[:, None]] = 1.0
    return upto


def _shuffle_places_within(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the places of rows in random order within each of some groups of `counts` rows, group after group."""
    groups = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    words = groups << np.uint64(_GROUP_BIT)
    words |= rng.integers(1 << (_GROUP_BIT - _ROW_BITS), size=len(groups), dtype=np.uint64) << np.uint64(_ROW_BITS)
    words |= np.arange(len(groups), dtype=np.uint64)
    words.sort()
    return (words & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)


def _systematic_shares(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return numbers from 0 to 1 that are a systematic sample, in random order, among the rows of each group."""
    order = np.lexsort((rng.random(len(groups)), groups))
    _, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
    ranks, shares = np.arange(len(groups)) - np.repeat(first, counts), np.empty(len(groups))
    shares[order] = (ranks + np.repeat(rng.random(len(counts)), counts)) / np.repeat(counts, counts)
    return shares


def _codes_of_nodes(upto: np.ndarray, nodes: np.ndarray, counts: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return the codes of a systematic sample of each node, node after node, in order."""
    n_codes = upto.shape[1]
    if n_codes > _NARROW:
        return np.concatenate(
            [
                np.searchsorted(upto[node], (np.arange(count) + shift) / count, side="right")
                for node, count, shift in zip(nodes.tolist(), counts.tolist(), shifts.tolist(), strict=True)
            ]
        ).astype(np.uint32)
    below = points_below(upto if len(nodes) == len(upto) else upto[nodes], counts[:, None].astype(np.float32), shifts[:, None])
    below += (np.cumsum(counts) - counts)[:, None].astype(np.float32)  # whole numbers below 2**24
    ends = below.astype(np.int32).ravel()
    return np.repeat(np.tile(np.arange(n_codes, dtype=np.uint8), len(nodes)), np.diff(ends, prepend=np.int32(0)))


def block_shifts(start: np.ndarray, block: int, stage: float) -> np.ndarray:
    """Return the shifts of a block, in [0, 1), from those of block 0, for `stage` one of `STRATA`, `NODES`, `CODES` or `CELLS`.

    A systematic sample of c points takes those at ``(t + shift) / c``. Each block's shift is uniform if that of block 0 is, so a block has
    the law of a sample. The steps from block to block keep the shifts of any run of blocks apart: so the points of the blocks fall between
    each other, and a frequency in all of k blocks is off by little more than in one, where that of independent ones is by sqrt(k) times as
    much.
    """
    return (start + block * stage % 1.0) % 1.0


def points_below(share: np.ndarray, n_points: np.ndarray | int, shift: np.ndarray | float) -> np.ndarray:
    """Return how many points of a systematic sample lie below `share` of the unit interval: floats that are whole numbers.

    ``(t + shift) / n_points < share`` holds for the t below ``share * n_points - shift``. None lie below 0, all below 1.
    """
    upto = share * n_points
    upto -= shift
    np.ceil(upto, out=upto)
    np.copyto(upto, n_points, where=share >= 1)  # rounding could lose the last
    return np.maximum(upto, 0, out=upto)


def shuffle_within(codes: np.ndarray, n_codes: int, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shuffle the codes of each group among themselves, group after group; each has at least one.

    They are sorted by random bits above the code: that is one pass over short runs, and as uniform as a shuffle but for ties of at least 20
    bits.
    """
    bits = max(n_codes - 1, 1).bit_length()
    word: type = np.uint32 if bits <= 12 else np.uint64
    code_bits = word((1 << bits) - 1)
    keys = rng.integers(np.iinfo(word).max, size=len(codes), dtype=word, endpoint=True)
    keys &= ~code_bits
    keys |= codes
    width = int(counts.max(initial=0))
    if width > 1 and len(codes) == width * len(counts):
        keys.reshape(-1, width).sort(axis=1)
    elif width > 1:
        held = np.arange(width) < counts[:, None]
        table: np.ndarray = np.full(held.shape, np.iinfo(word).max, dtype=word)
        table[held] = keys
        table.sort(axis=1)  # padding stays at the end of a row
        keys = table[held]
    return np.bitwise_and(keys, code_bits, out=keys)
