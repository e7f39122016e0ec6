"""Transport over a whole grid of cells: mass goes from cell to cell beside it, so there are a few arcs a cell and not one for each pair.

Where a grid holds all cells of its box, a path of steps along the axes (cityblock), or of a king's moves (chebyshev), that stays in the box
is as long as the distance of its ends. So a flow over these arcs costs what transport between all pairs does; and a price of each cell that
changes by at most the cost from cell to cell beside it is 1-Lipschitz.

Of equally many king's moves those of the fewest steps along axes are taken, so mass goes straight where it can. Prices of a grid of half as
many cells along each axis, doubled, are near those of the whole: from there few steps are left.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from skdpsynth.measures._primal_dual import PrimalDual

_MOST_AXES = 3  # a cell has 26 neighbors then
_LONGEST = 512  # cells along an axis: flows along a long way take long to find
_FEW = 8  # cells along an axis, which are solved from prices of 0
_FIRST = 2**24  # what the first cost counts of the second, which a cycle through all cells does not make up for
# Of a move along so many axes: its euclidean length, less 1, in units of 0.4142 and, with three axes, near 0.1036.
_SECOND = {1: (0, 0), 2: (0, 0, 1), 3: (0, 0, 1, 2)}
_BITS = 60  # of all demands together, where they are scaled to be whole
_MOST = 1 << (_BITS + 1)  # supply of a cell that is told from more: beyond all demand, and twice that is still an int64


@dataclass(frozen=True, eq=False)
class TransportGrid:
    """The cells of a box, and the moves from each to those beside it.

    Attributes
    ----------
    shape : tuple of int
    cell : ndarray of shape (n_positions,), int
        Of each position.
    metric : {"chebyshev", "cityblock"}
    """

    shape: tuple[int, ...]
    cell: np.ndarray
    metric: str

    @classmethod
    def of(cls, places: np.ndarray, metric: str, most: int) -> "TransportGrid | None":
        """Return the grid of whole places; None where their box has more cells than `most`, or is too long, or they share a cell."""
        n, d = places.shape
        if d > _MOST_AXES:
            return None
        axes = [np.unique(column) for column in places.T]
        shape = tuple(len(axis) for axis in axes)
        if any(len(axis) < np.ptp(axis) + 1 for axis in axes) or max(shape) > _LONGEST or math.prod(shape) > most:
            return None
        # Places are public cells, or were released: the least of them tells nothing.
        cell = np.ravel_multi_index(tuple((places - places.min(axis=0)).astype(int).T), shape)
        return cls(shape, cell, metric) if len(np.unique(cell)) == n else None

    def transport(self, mass: np.ndarray, created: float, dearest: float) -> tuple[np.ndarray, float, float]:
        """Meet all demands (negative masses) from the supplies (positive ones) at the least cost, and of equal ones by the fewest steps.

        Parameters
        ----------
        mass : ndarray of shape (n_positions,)
        created : float
            Mass that comes from nowhere, at no cost.
        dearest : float
            What a unit of demand costs that rounding left unmet.

        Returns
        -------
        residual : ndarray of shape (n_positions,)
            What is left of the supplies.
        cost, bound : float
            The second is at most the least cost.
        """
        amounts = np.zeros(math.prod(self.shape))
        amounts[self.cell] = mass
        unit, whole, new = _to_whole_numbers(amounts, created)
        prices, found = _solve_prices(whole.reshape(self.shape), new, self.metric)
        cells = slice(0, amounts.size)
        used = found.sent[cells] / unit
        moved = found.flow[cells, cells].data
        unmet = float(np.maximum(-amounts - np.maximum(-whole, 0) / unit, 0).sum())
        residual = np.zeros_like(mass)
        residual[mass > 0] = np.maximum(amounts - used, 0)[self.cell[mass > 0]]
        cost = float(moved[moved > 0].sum(dtype=float) / unit) + dearest * unmet
        return residual, cost, float(-amounts @ prices.cells - created * prices.created)


@dataclass(frozen=True, eq=False)
class _Prices:
    """Of each cell and of created mass: of the first cost, and what the second adds to it."""

    cells: np.ndarray
    created: int
    more: np.ndarray
    more_created: int


def _to_whole_numbers(amounts: np.ndarray, created: float) -> tuple[float, np.ndarray, int]:
    """Return (unit, amounts, created) in whole numbers of 1 / unit, with no more demand than there is supply.

    A supply beyond all demand is never sent in full, so what is more than that is cut: one that is large does not make the unit coarse.
    """
    demand = float(-amounts[amounts < 0].sum())
    is_whole = demand <= 2.0**_BITS and np.array_equal(amounts, np.rint(amounts)) and created == np.rint(created)
    unit = 1.0 if is_whole else 2.0 ** min(_BITS - math.frexp(demand)[1], 1000)
    whole = np.rint(np.minimum(amounts * unit, _MOST)).astype(np.int64)
    new = int(np.rint(min(created * unit, _MOST)))
    supply = sum(whole[whole > 0].tolist())  # of Python's numbers, which do not overflow
    whole[np.argmin(whole)] += max(0, -int(whole[whole < 0].sum()) - supply - new)  # rounded: the largest demand can spare it
    return unit, whole, new


def _moves(shape: tuple[int, ...], metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (source, sink, second cost) of all moves; the second is by how many steps along axes a king's move is longer than one."""
    numbers, arcs = np.arange(math.prod(shape)).reshape(shape), []
    for move in product((-1, 0, 1), repeat=len(shape)):
        n_axes = int(np.count_nonzero(move))
        if n_axes == 1 or (n_axes and metric == "chebyshev"):
            leaves, enters = (
                tuple(slice(max(0, -s * step), min(k, k - s * step)) for step, k in zip(move, shape, strict=True)) for s in (1, -1)
            )
            arcs.append((numbers[leaves].ravel(), numbers[enters].ravel(), np.full(numbers[leaves].size, n_axes - 1)))
    source, sink, second = (np.concatenate(parts) for parts in zip(*arcs, strict=True))
    return source, sink, second


def _solve_prices(mass: np.ndarray, created: int, metric: str) -> tuple[_Prices, PrimalDual]:
    """Return the best prices, and prices and a flow that are best of the second cost, too."""
    source, sink, second = _moves(mass.shape, metric)
    start = _Prices(np.zeros(mass.size, dtype=np.int64), 0, np.zeros(mass.size, dtype=np.int64), 0)
    if max(mass.shape) > _FEW:
        coarse = mass
        for axis, size in enumerate(mass.shape):
            coarse = np.minimum(np.add.reduceat(coarse, np.arange(0, size, 2), axis=axis), _MOST)
        rough, _ = _solve_prices(coarse, created, metric)
        finer = (_refine_prices(prices.reshape(coarse.shape), mass.shape) for prices in (rough.cells, rough.more))
        start = _Prices(next(finer), 2 * rough.created, next(finer), 2 * rough.more_created)
    flat = mass.ravel()

    def best(cost: np.ndarray, prices: np.ndarray, price: int) -> tuple[np.ndarray, int, PrimalDual]:
        prices = _lipschitz_prices(np.maximum(prices, 0), source, sink, cost)
        holes = np.flatnonzero(flat < 0)
        new = np.full(len(holes), flat.size)  # a node more, from which mass goes to any hole at no cost
        arcs = np.append(source, new), np.append(sink, holes), np.append(cost, np.zeros_like(new))
        found = PrimalDual(*arcs, np.append(flat, created), np.append(prices, max(price, prices[holes].max(initial=0)))).solve()
        return found.price[:-1], int(found.price[-1]), found

    prices, price, found = best(np.ones(len(source), dtype=np.int64), start.cells, start.created)
    if not second.any():
        return _Prices(prices, price, start.more, 0), found
    fine, fine_price, found = best(_FIRST + second, _FIRST * prices + start.more, _FIRST * price + start.more_created)
    return _Prices(prices, price, fine - _FIRST * prices, fine_price - _FIRST * price), found


def _refine_prices(prices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the prices of cells that are half as long, between those of the coarse cells."""
    values = 2.0 * prices
    for axis, size in enumerate(shape):
        last = values.shape[axis] - 1
        at = np.clip((np.arange(size) - 0.5) / 2, 0, last)
        before = np.minimum(at.astype(int), max(0, last - 1))
        share = (at - before).reshape([-1 if other == axis else 1 for other in range(values.ndim)])
        values = values.take(before, axis) * (1 - share) + values.take(np.minimum(before + 1, last), axis) * share
    return np.floor(values).astype(np.int64).ravel()


def _lipschitz_prices(prices: np.ndarray, source: np.ndarray, sink: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the largest prices up to these that rise by at most the cost along every move."""
    while True:
        lower = prices.copy()
        np.minimum.at(lower, sink, prices[source] + cost)
        if np.array_equal(lower, prices):
            return prices
        prices = lower
