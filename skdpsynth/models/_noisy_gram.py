"""A noisy Gram matrix of coded rows, and the tables of columns and pairs in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skdpsynth.models._noisy_tables import Block, center_table


@dataclass(frozen=True, eq=False)
class NoisyGram:
    """The sum of ``v v'`` over the rows of each class, ``v = (c, V_1[:, x_1], ..., V_m[:, x_m])``, with symmetric noise.

    The noise of different entries is uncorrelated, of the same variance off the diagonal, and of twice that on it.
    """

    matrices: np.ndarray  # shape (n_classes, n_rows, n_rows)
    codes: tuple[np.ndarray, ...]  # V of each column, shape (size - 1, size): the corners of a regular simplex about 0
    coordinate: int  # c
    variance: float  # of an entry off the diagonal; 0 without noise

    def parts(self) -> Iterator[tuple[Block, np.ndarray, float]]:
        """Yield estimates of totals, effects and interactions, by their columns, each with the variance of a number before it is centered.

        The corner tells of the total, the border and, of three codes or more, the block of a column of its effects. The inverse of
        ``[1'; V]`` turns ``V t`` and the total into counts t, and pairs in the same way: no rounding of codes is left in them.
        """
        values = self._values()
        for part, variance in gram_variances(self.codes, self.coordinate, self.variance):
            yield part, next(values), variance

    def _values(self) -> Iterator[np.ndarray]:
        gram, starts = self.matrices.astype(float), _starts(self.codes)
        totals = gram[:, 0, 0] / self.coordinate**2
        scaled = gram.copy()
        scaled[:, 0] /= self.coordinate
        scaled[:, :, 0] /= self.coordinate
        inverses = [np.linalg.inv(np.vstack([np.ones(V.shape[1]), V])) for V in self.codes]
        yield totals
        for V, start, inverse in zip(self.codes, starts, inverses, strict=True):
            block = slice(start, start + len(V))
            yield center_table(np.concatenate([totals[:, None], scaled[:, 0, block]], axis=1) @ inverse.T)
            if len(V):
                yield from _parts_of_block(V, gram[:, block, block])
        for i, j in combinations(range(len(self.codes)), 2):
            if len(self.codes[i]) and len(self.codes[j]):
                rows, columns = ([0, *range(starts[k], starts[k] + len(self.codes[k]))] for k in (i, j))
                yield center_table(inverses[i] @ scaled[:, rows][:, :, columns] @ inverses[j].T)


def _starts(codes: Sequence[np.ndarray]) -> list[int]:
    return np.cumsum([1, *map(len, codes)]).tolist()[:-1]


def _parts_of_block(V: np.ndarray, blocks: np.ndarray) -> Iterator[np.ndarray]:
    """Yield totals, and effects if there are any, of the nearest counts t to noisy ``V diag(t) V'``, shape (n_classes, n_codes - 1, ...).

    Noise of twice the variance on the diagonal makes all directions of symmetric matrices alike, so these are least squares.
    """
    squares = np.einsum("kl,ckm,ml->cl", V, blocks, V)
    if len(V) == 1:  # both codes have one square
        yield squares.mean(axis=1) / float(V[0, 0]) ** 4
        return
    counts = np.linalg.solve(_squared_products(V), squares.T).T
    yield counts.sum(axis=1)
    yield center_table(counts)


def _squared_products(V: np.ndarray) -> np.ndarray:
    return (V.T @ V).astype(float) ** 2


def gram_variances(codes: Sequence[np.ndarray], coordinate: int, variance: float) -> Iterator[tuple[Block, float]]:
    """Yield the parts that a noisy Gram matrix tells of, with the variance of a number before it is centered: public numbers.

    ``V V'`` is about q times the unit matrix, so its pseudoinverse turns noise of variance 1 into 1 / q.
    """
    q = [max(float((V.astype(float) ** 2).sum()) / max(len(V), 1), 1.0) for V in codes]
    yield (), 2 * variance / float(coordinate) ** 4
    for j, V in enumerate(codes):
        yield (j,), variance / (coordinate**2 * q[j])
        if len(V) == 1:
            yield (), 2 * variance / float(V[0, 0]) ** 4
        elif len(V):
            inverse = np.linalg.inv(_squared_products(V))
            yield (), 2 * variance * float(inverse.sum())
            yield (j,), 2 * variance * float(np.trace(inverse) - inverse.mean() * len(inverse)) / len(V)
    for i, j in combinations(range(len(codes)), 2):
        if len(codes[i]) and len(codes[j]):
            yield (i, j), variance / (q[i] * q[j])
