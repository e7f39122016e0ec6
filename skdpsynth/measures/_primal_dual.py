"""Least-cost flow by the primal-dual method: flow over arcs that just pay, then prices where it is stuck; all in whole numbers.

A price of each node, at least 0, that rises by at most the cost along every arc proves a bound: what all demands pay at their prices, less
what all supplies are paid. An arc is tight if it rises by just its cost. A flow over tight arcs that meets all demands, and leaves
something only where the price is 0, costs as much as the prices prove, so both are best.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

_BITS = 30  # of a capacity in scipy's int32; what is larger is sent in coarser units first
_FINER = 10  # bits, from one unit to the next: all arcs together then carry less than 2 ** _BITS of the rest


class PrimalDual:
    """Prices and a flow, from any prices to the best.

    Parameters
    ----------
    source, sink, cost : ndarray of shape (n_arcs,), int
        No pair of nodes twice, in neither direction if both cost nothing.
    mass : ndarray of shape (n_nodes,), int
        Supplies, and demands below 0, which the supplies can meet.
    price : ndarray of shape (n_nodes,), int
        To start from: at least 0, and ``price[sink] <= price[source] + cost``.

    Attributes
    ----------
    price : ndarray of shape (n_nodes,), int
    flow : csr_array of shape (n_nodes, n_nodes), int
        What leaves the first node for the second; negative where it comes from there.
    sent : ndarray of shape (n_nodes,), int
        Of the supply.
    """

    def __init__(self, source: np.ndarray, sink: np.ndarray, cost: np.ndarray, mass: np.ndarray, price: np.ndarray) -> None:
        n = len(mass)
        self.source, self.sink, self.cost, self.price = source, sink, cost, price
        self.supply, self.demand = np.maximum(mass, 0), np.maximum(-mass, 0)
        self.flow = csr_array((n, n), dtype=np.int64)
        self.sent, self.met = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def solve(self) -> "PrimalDual":
        """Meet all demands, then use all supplies that are dear, each step at prices that prove more."""
        # Flow stays on tight arcs: one that would cease to be tight leads out of a set that flow could leave, so it carries none.
        while True:
            sent, met, rest = self._push_flow(self.supply - self.sent, self.demand - self.met)
            self.sent, self.met = self.sent + sent, self.met + met
            if np.array_equal(self.met, self.demand):
                break
            starving = _reachable(rest.T.tocsr(), len(self.price) + 1)  # from where unmet demand could be met, if anything came there
            self.price = self.price + starving * self._slack(~starving, starving)
        while True:
            dear = np.where(self.price > 0, self.supply - self.sent, 0)
            if not dear.any():
                return self
            sent, kept, rest = self._push_flow(dear, np.where(self.price == 0, self.sent, 0))  # in place of what costs nothing to keep
            self.sent = self.sent + sent - kept
            full = _reachable(rest, len(self.price))  # to where unsent supply could go
            if full.any():
                self.price = self.price - full * min(self._slack(full, ~full), int(self.price[full].min()))

    def _slack(self, outside: np.ndarray, inside: np.ndarray) -> int:
        """The least by which an arc from the first to the second set is not tight."""
        crossing = np.flatnonzero(outside[self.source] & inside[self.sink])
        slack = self.price[self.source[crossing]] + self.cost[crossing] - self.price[self.sink[crossing]]
        return int(slack.min(initial=np.iinfo(np.int64).max))

    def _push_flow(self, give: np.ndarray, take: np.ndarray) -> tuple[np.ndarray, np.ndarray, csr_array]:
        """Send as much as tight arcs and taking back allow from nodes that give to nodes that take.

        Returns what each gave, what each took, and the capacities that are left, in which two nodes more are before the first and after
        the last.
        """
        n, most = len(give), int(min(give.sum(dtype=float), take.sum(dtype=float)))  # sums of 64 bits may overflow
        tight = np.flatnonzero(self.price[self.sink] == self.price[self.source] + self.cost)
        given, taken = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        shift = max(0, most.bit_length() - _BITS)
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
                return given, taken, _drop_zeros(rest - moved)
            shift = max(0, shift - _FINER)

    def _capacities(self, tight: np.ndarray, give: np.ndarray, take: np.ndarray, shift: int) -> csr_array:
        n, most = len(give), 1 << _BITS
        gives, takes = np.flatnonzero(give), np.flatnonzero(take)
        rows, columns, amounts = _entries(self.flow)
        back = amounts < 0  # what comes from the second node may be sent back there
        at = (
            np.concatenate([np.full(len(gives), n), takes, self.source[tight], rows[back]]),
            np.concatenate([gives, np.full(len(takes), n + 1), self.sink[tight], columns[back]]),
        )
        bounded = np.concatenate([give[gives], take[takes], np.full(len(tight), most << shift), -amounts[back]]) >> shift
        capacities = np.minimum(bounded, most).astype(np.int32)
        return _drop_zeros(csr_array((capacities, tuple(index.astype(np.int32) for index in at)), shape=(n + 2, n + 2)))


def _entries(matrix: csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    listed = matrix.tocoo()
    return listed.row, listed.col, listed.data


def _drop_zeros(capacities: csr_array) -> csr_array:
    capacities.eliminate_zeros()
    return capacities


def _reachable(capacities: csr_array, start: int) -> np.ndarray:
    """Whether each node, but the two more, can be reached from the start."""
    is_reached = np.zeros(capacities.shape[0], dtype=bool)
    is_reached[breadth_first_order(capacities, start, return_predecessors=False)] = True
    return is_reached[:-2]
