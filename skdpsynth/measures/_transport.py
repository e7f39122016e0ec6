"""The probability measure nearest to a signed one, with a certificate."""

import math
import sys
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from skdpsynth._progress import Task, task
from skdpsynth._validation import as_numeric_array, check_choice, is_real, short_repr
from skdpsynth.measures._grid_transport import TransportGrid, transport_on_a_line
from skdpsynth.measures._min_cost_flow import MAX_CELLS, check_solver, is_mass_far, min_cost_flow
from skdpsynth.measures._partition import NORMS
from skdpsynth.persistence import savable

_TIE_BREAK = 2.0**-14  # of the euclidean distance, on grids: too little to change the first cost, enough to choose between equals
_FINEST = 2**20  # steps of a grid across the positions: further, floats are not taken for a grid
_ON_GRID = 5e-10  # of a step: distances are then off by less than the gap that is called optimal
_COARSE = 1e-6
_EMPTY = 8  # cells of a grid for each weight that is not zero
_FEW_HOLES = 500  # for which a linear program over arcs to near donors takes no time
_RICH = 4  # times as much, from one class of donors to the next
_RICH_LISTED = 3
_BLOCK = 1 << 21  # distances in memory at a time
_MOST_ROUNDS = 60
_PATIENCE = 3  # rounds with few new arcs a hole; then more and more, and all of a small problem
_ALL_ARCS = 300_000
_MOST_SWEEPS = 5000
_MOST_FALLING = 300_000  # on a line, where mass is created: about ten seconds
_TOO_FAR = "positions, signed_weights and total must be of sizes that floats can hold together, but these are too far apart; rescale them."


@savable
@dataclass(frozen=True, eq=False)
class NearestMeasure:
    """A probability measure nearest to a signed measure, and the proof.

    Attributes
    ----------
    weights : ndarray of shape (n_positions,)
        Probabilities. If the signed weights were whole numbers whose sum is `total`, so are ``weights * total``.
    value : float
        Bounded-Lipschitz distance between the signed measure (divided by `total`) and `weights`: mass times distance.
    lower_bound : float
        No probability measure is nearer than this: the value of a potential whose values at any two positions differ by
        no more than their distance.
    status : str
        "optimal" if `value` and `lower_bound` agree to 1e-9 of `value` (1e-6 for euclidean distances); else "feasible": a probability
        measure that is at most ``gap`` farther than the nearest.
    n_iter : int
        How many linear programs were solved; 0 where none is needed: on a line, and on a whole grid with many holes.

    See Also
    --------
    skdpsynth.measures.nearest_probability_measure : Finds it.
    SignedMeasureMechanism : Shows it as `solution_`.
    """

    weights: np.ndarray = field(repr=False)
    value: float
    lower_bound: float
    status: str
    n_iter: int

    @property
    def gap(self) -> float:
        """``value - lower_bound``: at most this far from the nearest."""
        return max(0.0, self.value - self.lower_bound)


def nearest_probability_measure(
    positions: ArrayLike, signed_weights: ArrayLike, metric: str = "chebyshev", *, total: float = 1.0, solver: str = "highs"
) -> NearestMeasure:
    """Find a probability measure nearest to a signed measure in the bounded-Lipschitz distance.

    The distance between nu and tau is the largest difference of the integrals of a function f that is 1-Lipschitz and bounded by the
    diameter D of the positions. Negative weights ("holes") are cancelled by the nearest positive ones, which is a transport problem over
    arcs from positive weights to holes; only arcs that could be used are listed, and all others are priced before the end.

    Parameters
    ----------
    positions : array-like of shape (n_positions, n_features)
        Finite.
    signed_weights : array-like of shape (n_positions,)
        Finite, of any sign.
    metric : {"chebyshev", "cityblock", "euclidean"}, default="chebyshev"
    total : float, default=1.0
        The sum of `signed_weights` without noise: 1, or n for noisy counts of n rows. The weights of the result are
        probabilities in either case.
    solver : {"highs", "ortools"}, default="highs"
        "highs": a linear program through cvxpy. "ortools": the same program as a network flow; the package must be installed. It is many
        times faster where mass has to move far (few positive weights among many negative ones). On a line neither is needed, nor on a
        whole grid with more than 500 holes (see Notes).

    Returns
    -------
    result : NearestMeasure
        With ``weights``, ``value``, ``lower_bound``, ``gap``, ``status`` and ``n_iter``.

    Raises
    ------
    ValueError
        If an argument is out of its domain, or the problem too large for the solver.
    RuntimeError
        If the solver gives up.

    See Also
    --------
    NearestMeasure : Its result.
    SignedMeasureMechanism : Uses it on noisy counts.

    Notes
    -----
    With T the sum of the signed weights (in units of `total`), P that of the positive ones: if P < 1 the missing mass is added in
    proportion to the positive weights, if T > 1 the surplus that transport leaves is removed in proportion; neither depends on the
    order of the positions, and any other way would be as near. Between equal transports over a grid the one of least euclidean cost
    is chosen (among the arcs listed).

    With more than 500 holes on a whole grid of one step, and a metric that is not euclidean, mass moves between adjacent cells: that
    is the same distance, over a few arcs a cell. The flow is found in whole numbers by the primal-dual method, from the prices of coarser
    and coarser grids, with either solver, and among equal transports one of the least cityblock cost is taken. The grid has up to three
    dimensions, 512 cells along each, and at least one in eight of its cells has a weight that is not zero.

    References
    ----------
    .. [1] He, Vershynin, Zhu (2023), "Algorithmically effective differentially private synthetic data", the linear program of PSMM
       (Algorithm 2 in the authors' dissertation). Corrected: flow leaves one cell *and* enters another, and creating mass costs
       twice the diameter.

    Examples
    --------
    >>> from skdpsynth.measures import nearest_probability_measure
    >>> result = nearest_probability_measure([[0.0], [0.1], [0.9], [1.0]], [0.8, -0.3, 0.1, 0.4])
    >>> result.weights.round(12)
    array([0.5, 0. , 0.1, 0.4])
    >>> round(result.value, 12), result.gap < 1e-12
    (0.03, True)
    """
    positions, mass, total = _check_arguments(positions, signed_weights, metric, total, solver)
    with np.errstate(all="ignore"):  # numbers too small for floats are lost
        space = _Space.of(positions, metric)
        if not 2.0**-300 < total < 2.0**300:  # in units near the total no ratio overflows or is lost
            mass, total = mass / _nearest_power_of_two(total), total / _nearest_power_of_two(total)
        if not np.abs(mass).sum() / total < 2.0**300:
            raise ValueError(_TOO_FAR)
        surplus = float(mass.sum() - total)
        if abs(surplus) <= 1e-14 * np.abs(mass).sum():
            surplus = 0.0  # rounding of the sum
        # Mass that is created or destroyed costs D a unit: f may be shifted to +D or -D there, as transport never pays more than D.
        outside = abs(surplus) / total * _diameter(space.places, metric) * space.unit if surplus else 0.0
        gain = np.maximum(mass, 0)
        if gain.sum() <= total or (mass >= 0).all():
            weights = gain / gain.sum() if gain.any() else np.full(len(mass), 1 / len(mass))
            return _certify(weights, outside, outside, metric, 0)
        residual, cost, bound, n_rounds = _residual(space, mass, surplus, solver)
        unit = space.unit / total
        weights = residual / residual.sum()
        return _certify(weights, outside + cost * unit, outside + min(bound, cost) * unit, metric, n_rounds)


def _residual(space: "_Space", mass: np.ndarray, surplus: float, solver: str) -> tuple[np.ndarray, float, float, int]:
    """Return (residual on all positions, cost, lower bound, number of programs), in steps of the space."""
    n_active = int(np.count_nonzero(mass))
    if space.places.shape[1] == 1:
        if surplus < 0 and n_active > _MOST_FALLING:
            raise ValueError(
                f"signed_weights must have at most {_MOST_FALLING} that are not zero where they sum to less than total on a line, "
                f"got {n_active}; use coarser cells."
            )
        order, residual = np.argsort(space.places[:, 0], kind="stable"), np.empty_like(mass)
        residual[order], cost, bound = transport_on_a_line(space.places[order, 0], mass[order], max(0.0, -surplus))
        return residual, cost, bound, 0
    if n_active > MAX_CELLS[solver]:
        raise ValueError(
            f"signed_weights must have at most {MAX_CELLS[solver]} that are not zero for solver={solver!r}, "
            f"got {n_active}; use coarser cells" + (", or solver='ortools'." if solver == "highs" else ".")
        )
    created = max(0.0, -surplus)
    has_many = np.count_nonzero(mass < 0) > _FEW_HOLES
    grid = TransportGrid.of(space.places, space.metric, _EMPTY * n_active) if space.is_whole and has_many else None
    with task("transport") as progress:
        if grid is not None:
            return *grid.transport(mass, created, 2 * _diameter(space.places, space.metric) + 1), 0
        return _Transport(space.places, mass, created, space.metric, space.is_whole, solver).solve(progress)


def _certify(weights: np.ndarray, value: float, lower_bound: float, metric: str, n_iter: int) -> NearestMeasure:
    """Return the result, or raise if the numbers are beyond floats."""
    if not (np.isfinite(weights).all() and np.isfinite([value, lower_bound]).all()):
        raise ValueError(_TOO_FAR)
    exact = value - lower_bound <= (1e-6 if metric == "euclidean" else 1e-9) * value
    return NearestMeasure(weights, float(value), float(lower_bound), "optimal" if exact else "feasible", n_iter)


def _nearest_power_of_two(value: float) -> float:
    """Return a power of two near a positive number: dividing by it rounds nothing (but numbers that become too small)."""
    return 2.0 ** max(-1000, round(math.log2(value)))


@dataclass(frozen=True, eq=False)
class _Space:
    """Positions in units in which a grid is whole, and so are its distances."""

    places: np.ndarray  # without the features in which all are at one place, as these change no distance
    unit: float  # of places, in those of positions
    is_whole: bool  # whether all distances are whole numbers of units
    metric: str

    @classmethod
    def of(cls, positions: np.ndarray, metric: str) -> "_Space":
        # Within a power of two of the unit box no square overflows. Positions are public cells, or were released: extremes tell nothing.
        coarse, widest = 4 * np.finfo(float).eps * np.abs(positions).max(), float(np.max(np.ptp(positions, axis=0)))
        width = _nearest_power_of_two(widest) if widest else 1.0
        varied = np.flatnonzero(np.ptp(positions, axis=0))
        positions = positions[:, varied] if len(varied) else positions[:, :1]
        positions, coarse = (positions - positions.min(axis=0)) / width, coarse / width
        step = _grid_step(positions, coarse)
        unit = step
        if unit is None:  # a typical distance between neighbors
            some = positions[:: -(-len(positions) // 1000)]
            distances = cKDTree(positions).query(some, k=min(len(positions), 4), p=np.inf)[0]
            apart = distances[distances > 0]
            unit = float(np.median(apart)) if len(apart) else float(np.max(np.ptp(positions, axis=0))) or 1.0
        places = np.rint(positions / unit) if step else positions / unit
        return cls(places, unit * width, step is not None and metric != "euclidean", metric)


def _check_arguments(
    positions: ArrayLike, signed_weights: ArrayLike, metric: object, total: object, solver: object
) -> tuple[np.ndarray, np.ndarray, float]:
    named = (("positions", positions), ("signed_weights", signed_weights))
    positions, mass = (as_numeric_array(values, name, None).astype(float) for name, values in named)
    if positions.ndim != 2 or 0 in positions.shape:
        raise ValueError(f"positions must be a table with a row for each, got shape {positions.shape}; reshape(-1, 1) makes one of a line.")
    if mass.shape != positions.shape[:1]:
        raise ValueError(f"signed_weights must hold one number for each of {len(positions)} positions, got shape {mass.shape}.")
    for name, values in (("positions", positions), ("signed_weights", mass)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, but some are NaN or infinite, in shape {values.shape}; drop or replace them.")
    check_choice("metric", metric, tuple(NORMS))
    with np.errstate(over="ignore"):
        spans = np.append(np.ptp(positions, axis=0), np.abs(mass).sum())
    if not np.isfinite(spans).all():
        raise ValueError("positions and signed_weights must have finite differences and sums, but some overflow; rescale them.")
    if not is_real(total) or not 0 < total <= sys.float_info.max:
        raise ValueError(f"total must be a positive number, got {short_repr(total)}; 1 for probabilities, n for counts of n rows.")
    check_solver(solver)
    return positions, mass, float(total)


class _Transport:
    """Transport of positive masses ("donors") to holes, over a growing list of arcs; `whole`: all distances are whole numbers."""

    def __init__(self, positions: np.ndarray, mass: np.ndarray, created: float, metric: str, whole: bool, solver: str) -> None:
        self.mass, self.metric, self.solver = mass, metric, solver
        p = NORMS[metric]
        self.donors, self.holes = np.flatnonzero(mass > 0), np.flatnonzero(mass < 0)
        self.donor_at, self.hole_at = positions[self.donors], positions[self.holes]
        self.demand = -mass[self.holes]
        # Two donors more: mass that may be created (free), and mass that may not, at a price no transport reaches, so that any list of
        # arcs has a flow.
        self.supply = np.concatenate([mass[self.donors], [created, self.demand.sum()]])
        self.extra_costs = np.array([0.0, 2 * np.linalg.norm(np.ptp(positions, axis=0), ord=p) + 1])
        self.tie_break = _TIE_BREAK if whole else 0.0
        self.tolerance = 0.5 if whole else 1e-9
        self.listed = 12 if positions.shape[1] <= 3 else 16
        self.near_cost, self.near = cKDTree(self.donor_at).query(self.hole_at, k=range(1, min(4 * self.listed, len(self.donors)) + 1), p=p)

    def solve(self, progress: Task) -> tuple[np.ndarray, float, float, int]:
        """Return (residual on all positions, cost, lower bound, number of programs)."""
        n_donors, n_holes = len(self.donors), len(self.holes)
        arcs, start = self._first_arcs(), None
        n_rounds, settled = 0, False
        while not settled and n_rounds < _MOST_ROUNDS:
            n_rounds += 1
            progress.step()
            flow = self._flow(arcs, start)
            # Demand that a tolerance left unmet counts at the price of mass that may not be created: the value stays an upper bound.
            unmet = np.maximum(self.demand - np.bincount(arcs.hole, flow, minlength=n_holes), 0)
            unmet[unmet <= 1e-15 * self.demand.sum()] = 0
            cost = float(arcs.cost @ flow + self.extra_costs[-1] * unmet.sum())
            prices, charges = _potentials(arcs, flow, len(self.supply), self.tolerance, most=self.extra_costs[-1])
            # A hole that is not filled gets more and more donors, and every hole all of them in a small problem.
            self.starving = charges >= self.extra_costs[-1]
            self.added = self.listed << max(0, n_rounds - _PATIENCE)
            if n_rounds > _PATIENCE and n_donors * n_holes <= _ALL_ARCS:
                self.added, self.starving = n_donors, np.ones(n_holes, dtype=bool)
            bound, more = self._price_arcs(arcs, prices, charges)
            moved = np.bincount(arcs.donor, flow, minlength=n_donors)[:n_donors]
            start = flow
            if len(more[0]):
                before, arcs = arcs, arcs.join(*more)
                start = np.zeros(len(arcs.cost))
                start[arcs.place(before.hole, before.donor)] = flow
            elif self.tie_break and cost > bound:
                self.tie_break = 0.0  # the second cost has changed the first one
            else:
                settled = True
        residual = np.zeros_like(self.mass)
        residual[self.donors] = np.maximum(self.supply[:n_donors] - moved, 0)
        return residual, cost, max(bound, 0.0), n_rounds

    def _first_arcs(self) -> "_Arcs":
        """Return arcs from the nearest donors of each hole, and from the two donors that have no place."""
        n_donors, n_holes = len(self.donors), len(self.holes)
        listed = min(self.listed, self.near.shape[1])
        arcs = _Arcs(np.repeat(np.arange(n_holes), listed), self.near[:, :listed].ravel(), self.near_cost[:, :listed].ravel())
        for extra, cost in enumerate(self.extra_costs):
            arcs = arcs.join(np.arange(n_holes), np.full(n_holes, n_donors + extra), np.full(n_holes, cost))
        few = self.donor_at.shape[1] <= 3 and not is_mass_far(self.supply, self.demand)
        supply, least, p = self.supply[:n_donors], _RICH * float(np.median(self.supply[:n_donors])), NORMS[self.metric]
        while not few and (supply > least).any():  # the nearest of the donors that have much, of those that have very much, and so on
            rich = np.flatnonzero(supply > least)
            count = min(_RICH_LISTED, len(rich))
            costs, near = cKDTree(self.donor_at[rich]).query(self.hole_at, k=range(1, count + 1), p=p)
            hole, donor, costs = np.repeat(np.arange(n_holes), count), rich[near].ravel(), costs.ravel()
            new = ~arcs.has(hole, donor)
            arcs = arcs.join(hole[new], donor[new], costs[new])
            least = max(_RICH * least, float(supply[rich].min()))
        return arcs

    def _flow(self, arcs: "_Arcs", start: np.ndarray | None = None) -> np.ndarray:
        cost = arcs.cost
        if self.tie_break:
            real = np.flatnonzero(arcs.donor < len(self.donors))
            cost = cost.copy()
            cost[real] += self.tie_break * np.linalg.norm(self.donor_at[arcs.donor[real]] - self.hole_at[arcs.hole[real]], axis=1)
        try:
            return min_cost_flow(self.solver, arcs.donor, arcs.hole, cost, self.supply, self.demand, start)
        except RuntimeError as error:
            raise RuntimeError(
                f"The transport from {len(self.donors)} positive to {len(self.holes)} negative weights over {len(cost)} arcs was not "
                f"solved by {self.solver!r} (status: {error}); use another solver or coarser cells."
            ) from None

    def _price_arcs(self, arcs: "_Arcs", prices: np.ndarray, charges: np.ndarray) -> tuple[float, tuple[np.ndarray, ...]]:
        """Return the lower bound that the prices prove (-inf if not yet known), and arcs (hole, donor, cost) that may improve the flow.

        A donor at distance c serves a hole for c + its price, which is at least c: so only donors nearer than the hole's charge matter.
        """
        donor_prices = prices[: len(self.donors)]
        reduced = self.near_cost + donor_prices[self.near] - charges[:, None]
        more = self._promising_arcs(arcs, reduced, np.arange(len(charges)), self.near, self.near_cost)
        if len(more[0]):
            return -math.inf, more
        lowest = charges + np.minimum(reduced.min(axis=1), 0)
        found: list[tuple] = [more]
        if self.near.shape[1] < len(self.donors):
            far = np.flatnonzero(charges > self.near_cost[:, -1] + self.tolerance)
            for rows in np.array_split(far, -(-len(far) * len(self.donors) // _BLOCK)) if len(far) else ():
                distance = cdist(self.hole_at[rows], self.donor_at, self.metric)
                reduced = distance + donor_prices - charges[rows, None]
                lowest[rows] = charges[rows] + np.minimum(reduced.min(axis=1), 0)
                rows, reduced, distance = (a[lowest[rows] < charges[rows] - self.tolerance] for a in (rows, reduced, distance))
                found.append(
                    self._promising_arcs(arcs, reduced, rows, np.broadcast_to(np.arange(len(self.donors)), reduced.shape), distance)
                )
        more = tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
        return float(self.demand @ lowest - self.supply @ prices), more

    def _promising_arcs(
        self, arcs: "_Arcs", reduced: np.ndarray, holes: np.ndarray, donors: np.ndarray, cost: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return the arcs of negative reduced cost that are not listed, the most promising of each hole."""
        if not reduced.size or reduced.min() >= -self.tolerance:
            return (np.zeros(0, dtype=np.int64),) * 2 + (np.zeros(0),)
        worth = np.flatnonzero(reduced.min(axis=1) < -self.tolerance)
        best = np.argsort(reduced[worth], axis=1, kind="stable")[:, : self.added]
        promising = np.take_along_axis(reduced[worth], best, axis=1) < -self.tolerance
        promising[~self.starving[holes[worth]], self.listed :] = False
        row, column = np.nonzero(promising)
        column = best[row, column]
        row = worth[row]
        hole, donor = holes[row], donors[row, column]
        new = ~arcs.has(hole, donor)
        return hole[new], donor[new], cost[row, column][new]


class _Arcs:
    """Arcs by hole, then by donor."""

    def __init__(self, hole: np.ndarray, donor: np.ndarray, cost: np.ndarray) -> None:
        order = np.lexsort((donor, hole))
        self.hole, self.donor, self.cost = hole[order], donor[order], cost[order]

    def join(self, hole: np.ndarray, donor: np.ndarray, cost: np.ndarray) -> "_Arcs":
        return _Arcs(*(np.concatenate(pair) for pair in ((self.hole, hole), (self.donor, donor), (self.cost, cost))))

    def place(self, hole: np.ndarray, donor: np.ndarray) -> np.ndarray:
        """Return the index of each pair (of a pair that is not listed, where it would be)."""
        span = np.int64(max(self.donor.max(), donor.max(initial=0)) + 1)
        return np.minimum(np.searchsorted(self.hole * span + self.donor, hole * span + donor), len(self.hole) - 1)

    def has(self, hole: np.ndarray, donor: np.ndarray) -> np.ndarray:
        """Return whether each of the pairs is listed."""
        at = self.place(hole, donor)
        return (self.hole[at] == hole) & (self.donor[at] == donor)


def _potentials(arcs: _Arcs, flow: np.ndarray, n_donors: int, tolerance: float, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the least prices of donors (>= 0) and charges of holes under which no listed arc is worth more and those with flow just pay.

    A longest path from zero: charge = price + cost along flow, price >= charge - cost along every arc. It ends if the flow is optimal; if
    it is not, prices grow around a cycle until they pass `most`.
    """
    starts = np.searchsorted(arcs.hole, np.arange(arcs.hole[-1] + 1))
    largest = np.maximum.reduceat(flow, starts)
    is_used = flow > 1e-9 * largest[arcs.hole]  # not rounding beside the largest flow of the hole
    is_used[starts[largest == 0]] = True
    used = np.flatnonzero(is_used)
    first_used = np.searchsorted(arcs.hole[used], np.arange(len(starts)))
    by_donor = np.argsort(arcs.donor, kind="stable")
    hole, cost = arcs.hole[by_donor], arcs.cost[by_donor]
    listed, first = np.unique(arcs.donor[by_donor], return_index=True)
    prices = np.zeros(n_donors)
    used_donor, used_cost = arcs.donor[used], arcs.cost[used]
    for _ in range(_MOST_SWEEPS):
        charges = np.maximum.reduceat(prices[used_donor] + used_cost, first_used)
        wanted = np.maximum.reduceat(charges[hole] - cost, first)
        rising = wanted > prices[listed] + tolerance
        if not rising.any() or wanted.max() > most:
            break
        prices[listed[rising]] = wanted[rising]
    return prices, charges


def _grid_step(positions: np.ndarray, coarse: float) -> float | None:
    """Return the step of the coarsest grid that holds all positions (up to the error `coarse` of their floats), or None.

    Steps of different axes are taken together where they are small multiples of a common one.
    """
    gaps = np.concatenate([np.diff(np.unique(column)) for column in positions.T])
    least, widest = gaps[gaps > coarse].min(initial=math.inf), float(np.max(np.ptp(positions, axis=0)))
    if least == math.inf:
        return None
    for parts in range(1, 65):
        step = least / parts
        if widest / step > _FINEST:
            break
        places = positions / step
        noise = min(coarse / step, _COARSE)
        if np.abs(places - np.rint(places)).max() <= max(_ON_GRID, noise):
            return step
    return None


def _diameter(positions: np.ndarray, metric: str) -> float:
    """Return the largest distance between two positions."""
    if metric == "chebyshev":
        return float(np.ptp(positions, axis=0).max())
    # Positions are public cells, or were released, so their extremes reveal nothing.
    middle = (positions.max(axis=0) + positions.min(axis=0)) / 2
    reach = np.linalg.norm(positions - middle, ord=NORMS[metric], axis=1)
    # Farthest from the middle first: a pair is at most as far apart as the sum of their reaches, so most need no look.
    order = np.argsort(-reach, kind="stable")
    positions, reach = positions[order], reach[order]
    widest, rows = 0.0, max(1, _BLOCK // len(positions))
    for start in range(0, len(positions), rows):
        if reach[0] + reach[start] <= widest:
            break
        widest = max(widest, float(cdist(positions[start : start + rows], positions[: start + rows], metric).max()))
    return widest
