"""Transport on a line, by isotonic regression, and over a whole grid of cells, by flow between adjacent ones.

Where a grid holds all cells of its box, a path of steps along the axes (cityblock), or of a king's moves (chebyshev), that stays in the box
is as long as the distance of its ends. So a flow over these arcs costs as much as transport between all pairs does; and prices of cells
that differ between adjacent cells by at most the cost of the arc are 1-Lipschitz.

Among equally many king's moves those of the fewest steps along axes are taken, so mass goes straight where it can. Prices of a grid of half
as many cells along each axis, doubled, are near those of the whole: from there few steps are left.
"""

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

_MOST_AXES = 3  # a cell has 26 neighbors then
_LONGEST = 512  # cells along an axis: long flows take long to find
_FEW = 8  # cells along an axis: fewer are solved from prices of 0
_FIRST = 2**24  # weight of the first cost, which no cycle through all cells makes up for by the second
# By the number of axes of a move: its euclidean length, less 1, in units of 0.4142 and, with three axes, near 0.1036.
_SECOND = {1: (0, 0), 2: (0, 0, 1), 3: (0, 0, 1, 2)}
_BITS = 60  # of all demands together, where they are scaled to be whole
_MOST = 1 << (_BITS + 1)  # cap of a supply: beyond all demand, and twice that is still an int64
_CAPACITY_BITS = 30  # of a capacity in scipy's int32; larger amounts are sent in coarser units first
_FINER_BITS = 10  # bits, from one unit to the next: all arcs together then carry less than 2 ** _CAPACITY_BITS of the rest


def transport_on_a_line(points: np.ndarray, mass: np.ndarray, created: float = 0.0) -> tuple[np.ndarray, float, float]:
    """Cancel the negative mass on a line by moving positive mass as little as possible.

    The flow over the gap after point k is F_k - K_k, with F the cumulative mass and K that of the residual, which must be nondecreasing and
    end where F ends. So K minimizes the sum of gap * abs(F - K): a weighted L1 isotonic regression, clipped to [0, total].

    Where a mass `created`, at most that of the holes, may appear for nothing wherever it is of most use, K may fall by as much in all; see
    `_nearly_isotonic`.

    Points are in increasing order. Returned are the residual, non-negative and made of sums of the masses (so whole if they are and nothing
    is created); the cost, mass times distance; and the lower bound that a 1-Lipschitz potential proves of it.
    """
    gaps, cumulative = np.diff(points), np.cumsum(mass)
    total = cumulative[-1]
    if created:
        kept, price = _nearly_isotonic(cumulative[:-1], gaps, total, created)
    else:
        kept, price = np.clip(_isotonic(cumulative[:-1], gaps), 0, total), np.inf
    flow = cumulative[:-1] - kept
    left = np.diff(np.concatenate([[mass.dtype.type(0)], kept, [total]]))
    # The largest f <= 0 that is 1-Lipschitz, falls by the gap wherever mass flows, and is -price where it is created: a shortest path
    # along the chain, so two sweeps.
    least = 1e-14 * np.abs(mass).sum() if created else 0.0  # less is rounding
    most = np.where(left < -least, -price, 0.0)
    potential = np.full(len(most), np.inf)
    for sign in (1, -1):  # the shortest distance to each point from any point before, beginning with `most` there
        lengths = np.where(sign * flow > least, -gaps, gaps)[::sign]
        reached = np.array([0.0, *itertools.accumulate(lengths.tolist())])
        potential = np.minimum(potential, (reached + np.minimum.accumulate(most[::sign] - reached))[::sign])
    potential = np.maximum(potential, -price)
    bound = float(mass @ potential) - (created * price if created else 0.0)
    return np.maximum(left, 0), float(gaps @ np.abs(flow)), bound


def _nearly_isotonic(values: np.ndarray, weights: np.ndarray, total: float, created: float) -> tuple[np.ndarray, float]:
    """Return the sequence from 0 to `total` that falls by `created` in all and minimizes ``sum weights * abs(values - k)``; and its price.

    At a price for each unit of fall the minimum is that of `_penalized_isotonic`; as a function of the price it is concave and piecewise
    linear, its slope the fall. Two sequences, of more and of less fall than wanted, cost the same at the price where their lines meet. If
    none costs less there, both are best at that price, so is every mixture, whose cost and fall are linear; else the one that does takes
    the place of one of the two. Each step finds another line, so this ends.
    """

    def fall(kept: np.ndarray) -> float:
        return float(np.maximum(-np.diff(np.concatenate([[0.0], kept, [total]])), 0).sum())

    def cost(kept: np.ndarray) -> float:
        return float(weights @ np.abs(values - kept))

    far = 2 * float(weights.sum()) or 1.0  # a price at which nothing falls that need not
    much, little = values.astype(float), _penalized_isotonic(values, weights, total, far)
    if fall(much) <= created:
        return much, 0.0
    if fall(little) >= created:
        return little, far
    while True:
        price = (cost(little) - cost(much)) / (fall(much) - fall(little))
        between = _penalized_isotonic(values, weights, total, price)
        if cost(between) + price * fall(between) >= (cost(much) + price * fall(much)) * (1 - 1e-13):
            part = (created - fall(little)) / (fall(much) - fall(little))
            return little + part * (much - little), price
        if fall(between) == created:
            return between, price
        much, little = (between, little) if fall(between) > created else (much, between)


def _penalized_isotonic(values: np.ndarray, weights: np.ndarray, total: float, price: float) -> np.ndarray:
    """Return K from 0 to `total` that minimizes the sum of ``weights * abs(values - k)`` and of `price` times the fall of k: O(n log n).

    The least cost of all points before is convex in k, and the next k may rise for nothing and fall at the price, so slopes above 0 and
    below -price are cut off: the breakpoints that are left are in two heaps, from above and from below.
    """
    rise = [price]  # of the slope at each breakpoint; the first is 0, from which all start
    above, below = [(0.0, 0)], [(0.0, 0)]
    lowest, highest = np.empty(len(values)), np.empty(len(values))
    for k, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        rise.append(2 * weight)
        heapq.heappush(above, (-value, k + 1))
        heapq.heappush(below, (value, k + 1))
        # Beyond all breakpoints the slope was between -price and 0, and is now lower or higher by the weight.
        _cut_slopes(above, rise, weight)
        _cut_slopes(below, rise, weight)
        lowest[k], highest[k] = below[0][0], -above[0][0]
    kept, after = np.empty(len(values)), total
    for k in range(len(values) - 1, -1, -1):
        after = kept[k] = min(highest[k], max(after, lowest[k]))
    return kept


def _cut_slopes(heap: list[tuple[float, int]], rise: list[float], excess: float) -> None:
    """Take `excess` from the rises of the first breakpoints, and leave one, however floats round."""
    while len(heap) > 1 and rise[heap[0][1]] <= excess:
        at = heapq.heappop(heap)[1]
        excess -= rise[at]
        rise[at] = 0.0
    rise[heap[0][1]] -= excess


def _isotonic(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return nondecreasing k that minimize ``sum weights * abs(values - k)``: O(n log n), by a heap of slopes."""
    heap: list[tuple] = []  # (-breakpoint, by how much the slope of the minimum over prefixes rises there)
    last = np.empty_like(values)
    for k, (value, weight) in enumerate(zip(values.tolist(), weights.tolist(), strict=True)):
        heapq.heappush(heap, (-value, 2 * weight))
        # A larger next value costs nothing, so slopes above zero are cut off.
        excess = weight
        while heap[0][1] <= excess and len(heap) > 1:
            excess -= heapq.heappop(heap)[1]
        heap[0] = (heap[0][0], heap[0][1] - excess)
        last[k] = -heap[0][0]
    return np.minimum.accumulate(last[::-1])[::-1]


class PrimalDual:
    """Least-cost flow by the primal-dual method, from any prices to the best, in whole numbers.

    A price of each node, at least 0, that rises by at most the cost along every arc proves a bound: the sum that all demands pay at their
    prices, less the sum that all supplies are paid. An arc is tight if it rises by just its cost. A flow over tight arcs that meets all
    demands, and leaves something only where the price is 0, costs as much as the prices prove, so both are best.

    Arcs list no pair of nodes twice, in neither direction if both cost nothing. `mass` holds supplies, and demands below 0, which the
    supplies can meet; the first prices satisfy ``price[sink] <= price[source] + cost``.
    """

    def __init__(self, source: np.ndarray, sink: np.ndarray, cost: np.ndarray, mass: np.ndarray, price: np.ndarray) -> None:
        n = len(mass)
        self.source, self.sink, self.cost, self.price = source, sink, cost, price
        self.supply, self.demand = np.maximum(mass, 0), np.maximum(-mass, 0)
        self.flow = csr_array((n, n), dtype=np.int64)  # from row to column; negative where it goes the other way
        self.sent, self.met = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def solve(self) -> "PrimalDual":
        """Meet all demands, then use all supplies that have a price, each step at prices that prove more."""
        # Flow stays on tight arcs: one that would cease to be tight leads out of a set that flow could leave, so it carries none.
        while True:
            sent, met, rest = self._push_flow(self.supply - self.sent, self.demand - self.met)
            self.sent, self.met = self.sent + sent, self.met + met
            if np.array_equal(self.met, self.demand):
                break
            starving = _reachable(rest.T.tocsr(), len(self.price) + 1)  # nodes from which unmet demand could be met
            self.price = self.price + starving * self._slack(~starving, starving)
        while True:
            dear = np.where(self.price > 0, self.supply - self.sent, 0)
            if not dear.any():
                return self
            sent, kept, rest = self._push_flow(dear, np.where(self.price == 0, self.sent, 0))  # in place of supply whose price is 0
            self.sent = self.sent + sent - kept
            full = _reachable(rest, len(self.price))  # nodes that unsent supply could reach
            if full.any():
                self.price = self.price - full * min(self._slack(full, ~full), int(self.price[full].min()))

    def _slack(self, outside: np.ndarray, inside: np.ndarray) -> int:
        """Return the least by which an arc from the first to the second set is not tight."""
        crossing = np.flatnonzero(outside[self.source] & inside[self.sink])
        slack = self.price[self.source[crossing]] + self.cost[crossing] - self.price[self.sink[crossing]]
        return int(slack.min(initial=np.iinfo(np.int64).max))

    def _push_flow(self, give: np.ndarray, take: np.ndarray) -> tuple[np.ndarray, np.ndarray, csr_array]:
        """Send as much as tight arcs and returned flow allow from nodes that give to nodes that take.

        Return how much each gave and took, and the capacities that are left, with one node more before the first and one after the last.
        """
        n, most = len(give), int(min(give.sum(dtype=float), take.sum(dtype=float)))  # a sum of int64 may overflow
        tight = np.flatnonzero(self.price[self.sink] == self.price[self.source] + self.cost)
        given, taken = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        shift = max(0, most.bit_length() - _CAPACITY_BITS)
        while True:
            rest = self._capacities(tight, give - given, take - taken, shift)
            moved = maximum_flow(rest, n, n + 1).flow
            rows, columns, amounts = _entries(moved)
            amounts = amounts.astype(np.int64) << shift
            inner = (rows < n) & (columns < n)
            self.flow = self.flow + csr_array((amounts[inner], (rows[inner], columns[inner])), shape=(n, n))
            from_first, to_last = rows == n, columns == n + 1
            given[columns[from_first]] += amounts[from_first]
            taken[rows[to_last]] += amounts[to_last]
            if not shift:
                rest = rest - moved
                rest.eliminate_zeros()
                return given, taken, rest
            shift = max(0, shift - _FINER_BITS)

    def _capacities(self, tight: np.ndarray, give: np.ndarray, take: np.ndarray, shift: int) -> csr_array:
        n, most = len(give), 1 << _CAPACITY_BITS
        gives, takes = np.flatnonzero(give), np.flatnonzero(take)
        rows, columns, amounts = _entries(self.flow)
        back = amounts < 0  # flow from the second node may be returned to it
        at = (
            np.concatenate([np.full(len(gives), n), takes, self.source[tight], rows[back]]),
            np.concatenate([gives, np.full(len(takes), n + 1), self.sink[tight], columns[back]]),
        )
        bounded = np.concatenate([give[gives], take[takes], np.full(len(tight), most << shift), -amounts[back]]) >> shift
        capacities = np.minimum(bounded, most).astype(np.int32)
        matrix = csr_array((capacities, tuple(index.astype(np.int32) for index in at)), shape=(n + 2, n + 2))
        matrix.eliminate_zeros()
        return matrix


def _entries(matrix: csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    listed = matrix.tocoo()
    return listed.row, listed.col, listed.data


def _reachable(capacities: csr_array, start: int) -> np.ndarray:
    """Return which nodes, but the two added ones, can be reached from the start."""
    is_reached = np.zeros(capacities.shape[0], dtype=bool)
    is_reached[breadth_first_order(capacities, start, return_predecessors=False)] = True
    return is_reached[:-2]


@dataclass(frozen=True, eq=False)
class TransportGrid:
    """The cells of a box, and the moves from each to those beside it."""

    shape: tuple[int, ...]
    cell: np.ndarray  # of each position
    metric: str  # "chebyshev" or "cityblock"

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
        """Meet all demands (negative masses) from the supplies at the least cost, and among equal ones by the fewest steps.

        `created` mass comes from nowhere, at no cost; a unit of demand that rounding left unmet costs `dearest`. Returned are the residual
        of the supplies, the cost, and a lower bound of the least cost.
        """
        amounts = np.zeros(math.prod(self.shape))
        amounts[self.cell] = mass
        # In whole numbers of 1 / unit, with no more demand than there is supply. A supply beyond all demand is never sent in full, so the
        # excess is cut: one large supply does not make the unit coarse.
        demand = float(-amounts[amounts < 0].sum())
        is_whole = demand <= 2.0**_BITS and np.array_equal(amounts, np.rint(amounts)) and created == np.rint(created)
        unit = 1.0 if is_whole else 2.0 ** min(_BITS - math.frexp(demand)[1], 1000)
        whole = np.rint(np.minimum(amounts * unit, _MOST)).astype(np.int64)
        new = int(np.rint(min(created * unit, _MOST)))
        supply = sum(whole[whole > 0].tolist())  # of Python's numbers, which do not overflow
        whole[np.argmin(whole)] += max(0, -int(whole[whole < 0].sum()) - supply - new)  # rounded: the largest demand can spare it
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
    """Prices of each cell and of created mass."""

    cells: np.ndarray  # of the first cost
    created: int
    more: np.ndarray  # added by the second cost
    more_created: int


def _moves(shape: tuple[int, ...], metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (source, sink, second cost) of all moves; the second cost is by how many steps along axes a king's move is longer than one."""
    numbers, arcs = np.arange(math.prod(shape)).reshape(shape), []
    for move in itertools.product((-1, 0, 1), repeat=len(shape)):
        n_axes = int(np.count_nonzero(move))
        if n_axes == 1 or (n_axes and metric == "chebyshev"):
            leaves, enters = (
                tuple(slice(max(0, -s * step), min(k, k - s * step)) for step, k in zip(move, shape, strict=True)) for s in (1, -1)
            )
            arcs.append((numbers[leaves].ravel(), numbers[enters].ravel(), np.full(numbers[leaves].size, n_axes - 1)))
    source, sink, second = (np.concatenate(parts) for parts in zip(*arcs, strict=True))
    return source, sink, second


def _solve_prices(mass: np.ndarray, created: int, metric: str) -> tuple[_Prices, PrimalDual]:
    """Return the best prices for both costs, and the flow."""
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
        prices, lower = np.maximum(prices, 0), np.maximum(prices, 0)
        np.minimum.at(lower, sink, prices[source] + cost)
        while not np.array_equal(lower, prices):  # to the largest that rise by at most the cost along every move
            prices = lower.copy()
            np.minimum.at(lower, sink, prices[source] + cost)
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
    """Return the prices of cells that are half as long, interpolated between the coarse cells."""
    values = 2.0 * prices
    for axis, size in enumerate(shape):
        last = values.shape[axis] - 1
        at = np.clip((np.arange(size) - 0.5) / 2, 0, last)
        before = np.minimum(at.astype(int), max(0, last - 1))
        share = (at - before).reshape([-1 if other == axis else 1 for other in range(values.ndim)])
        values = values.take(before, axis) * (1 - share) + values.take(np.minimum(before + 1, last), axis) * share
    return np.floor(values).astype(np.int64).ravel()
