"""Systematic sampling of a table in blocks: each block is a sample of its own, and together they are nearly as even as one."""

import numpy as np

# Steps 1/g, 1/g**2, ... with g**5 = g + 1: of points in four dimensions that are even together, one for each stage of sampling. With one
# step for two stages, blocks that give a node more rows would be those with certain shifts of its codes.
_RATIO = 1.1673039782614187
STRATA, NODES, CODES, CELLS = (_RATIO**-stage for stage in range(1, 5))
COMMON = (5**0.5 - 1) / 2  # of nodes that all blocks of columns share: the golden ratio, which is in no small relation to those


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
    if width > 1:
        if len(codes) == width * len(counts):
            keys.reshape(-1, width).sort(axis=1)
        else:
            held = np.arange(width) < counts[:, None]
            table: np.ndarray = np.full(held.shape, np.iinfo(word).max, dtype=word)
            table[held] = keys
            table.sort(axis=1)  # padding stays at the end of a row
            keys = table[held]
    keys &= code_bits
    return keys
