"""Transport over a whole grid of cells: mass goes from cell to cell beside it, so there are a few arcs a cell and not one for each pair.

Where a grid holds all cells of its box, a path of steps along the axes (cityblock), or of a king's moves (chebyshev), that stays in the box
is as long as the distance of its ends. So a flow over these arcs costs what transport between all pairs does; and a price of each cell that
changes by at most the cost from cell to cell beside it is 1-Lipschitz.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.sparse import csr_array

from skdpsynth.measures._flow import TIGHT, trouble_of, unit_of

_MOST_AXES = 3  # a cell has 26 neighbours then
_MOST_EMPTY = 2.0  # cells of the box for each position
_TIE_BREAK = 2.0**-14  # of the euclidean length of a move, against zigzags


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of a box, and the moves from each to those beside it.

    Attributes
    ----------
    n_cells : int
    cell : ndarray of shape (n_positions,), int
        Of each position.
    source, sink : ndarray of shape (n_moves,), int
    length : ndarray of shape (n_moves,)
        Euclidean; each costs 1.
    """

    n_cells: int
    cell: np.ndarray
    source: np.ndarray
    sink: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, places: np.ndarray, metric: str) -> "Grid | None":
        """Return the grid of whole places; None where they leave out much of their box, share a cell, or have too many axes."""
        n, d = places.shape
        if d > _MOST_AXES:
            return None
        axes = [np.unique(column) for column in places.T]
        if any(len(axis) < np.ptp(axis) + 1 for axis in axes) or np.prod([len(axis) for axis in axes]) > _MOST_EMPTY * n:
            return None
        shape = tuple(len(axis) for axis in axes)
        # Places are public cells, or were released: the least of them tells nothing.
        cell = np.ravel_multi_index(tuple((places - places.min(axis=0)).astype(int).T), shape)
        if len(np.unique(cell)) < n:
            return None
        numbers, arcs = np.arange(np.prod(shape)).reshape(shape), []
        for move in product((-1, 0, 1), repeat=d):
            n_axes = int(np.count_nonzero(move))
            if n_axes == 1 or (n_axes and metric == "chebyshev"):
                leaves, enters = (
                    tuple(slice(max(0, -s * step), min(k, k - s * step)) for step, k in zip(move, shape, strict=True)) for s in (1, -1)
                )
                arcs.append((numbers[leaves].ravel(), numbers[enters].ravel(), np.full(numbers[leaves].size, np.sqrt(n_axes))))
        source, sink, length = (np.concatenate(parts) for parts in zip(*arcs, strict=True))
        return cls(numbers.size, cell, source, sink, length)

    def transport(self, mass: np.ndarray, created: float, dearest: float) -> tuple[np.ndarray, float, float]:
        """Meet all demands (negative masses) from the supplies (positive ones) at the least cost.

        Parameters
        ----------
        mass : ndarray of shape (n_positions,)
        created : float
            Mass that comes from nowhere, at no cost.
        dearest : float
            What a unit of demand costs that a tolerance left unmet.

        Returns
        -------
        residual : ndarray of shape (n_positions,)
            What is left of the supplies.
        cost, bound : float
            The second is at most the least cost, whatever the solver did.

        Raises
        ------
        RuntimeError
            With the status, if the solver does not end at an optimum.
        """
        supply = np.zeros(self.n_cells)
        supply[self.cell] = mass
        unit, whole = unit_of(np.append(np.maximum(supply, 0), created), np.maximum(-supply, 0))
        flow, made, price, dearest_made = self._solved(supply * unit, created * unit)
        if whole:
            flow, made = np.rint(flow / unit), np.rint(made / unit)
        else:
            flow, made = flow / unit, made / unit
        left = np.bincount(self.source, flow, minlength=self.n_cells) - np.bincount(self.sink, flow, minlength=self.n_cells) - made
        unmet = float(np.maximum(left - supply, 0)[supply <= 0].sum())
        cost = float(flow.sum()) + (dearest * unmet if unmet > 1e-15 * np.abs(supply).sum() else 0.0)
        residual = np.zeros_like(mass)
        residual[mass > 0] = np.clip(supply - left, 0, supply.clip(0))[self.cell[mass > 0]]
        return residual, cost, self._bound(supply, created, price, dearest_made)

    def _solved(self, supply: np.ndarray, created: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the flow, what is created in each cell, the price of each cell and that of what is created."""
        import cvxpy as cp

        moves, ones, holes = np.arange(len(self.source)), np.ones(len(self.source)), np.flatnonzero(supply < 0)
        shape = (self.n_cells, len(moves))
        leaving, entering = (csr_array((ones, (ends, moves)), shape=shape) for ends in (self.source, self.sink))
        flow = cp.Variable(len(moves), nonneg=True)
        moved = (leaving - entering) @ flow
        if created:
            new = cp.Variable(len(holes), nonneg=True)
            to_holes = csr_array((np.ones(len(holes)), (holes, np.arange(len(holes)))), shape=(self.n_cells, len(holes)))
            balance, most = moved - to_holes @ new <= supply, [cp.sum(new) <= created]
        else:
            balance, most = moved <= supply, []
        problem, trouble = cp.Problem(cp.Minimize((1 + _TIE_BREAK * self.length) @ flow), [balance, *most]), ""
        for method in ("ipm", "simplex"):
            trouble = trouble_of(problem, {"solver": method, **TIGHT})
            if not trouble and flow.value is not None:
                break
        else:
            raise RuntimeError(trouble)
        made = np.zeros(self.n_cells)
        if created:
            made[holes] = np.maximum(np.asarray(new.value), 0)
        return np.maximum(np.asarray(flow.value), 0), made, np.asarray(balance.dual_value), float(most[0].dual_value) if most else np.inf

    def _bound(self, supply: np.ndarray, created: float, price: np.ndarray, most: float) -> float:
        """Return the value of the prices nearest to these that are at least 0, at most that of created mass, and 1-Lipschitz."""
        price = np.rint(price)  # those of the cost without tie-break are whole
        top = np.rint(most) if created else np.inf
        price = np.clip(price, 0, top)
        steepest = float((price[self.sink] - price[self.source]).max(initial=1.0))
        return float(-supply @ price - (created * top if created else 0.0)) / steepest
