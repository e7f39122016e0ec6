"""Minimum-cost flow from sources to sinks over listed arcs: two solvers, one answer."""

import importlib.util
import math
from functools import cache

import numpy as np
from scipy.sparse import csr_array

from skdpsynth.measures._network import solve_apart

SOLVERS = {"highs": "cvxpy", "ortools": "ortools"}  # by the package that must be installed
MOST_CELLS = {"highs": 150_000, "ortools": 1_000_000}  # beyond, minutes turn into hours or memory ends
_LARGEST_COST = 2.0**58  # OR-Tools multiplies costs by the number of nodes, and a little more, in int64
_LARGEST_SUPPLY = 2.0**50
_SUPPLY = 2.0**20  # what masses are scaled to sum to for HiGHS, whose tolerances are absolute
_MOST_WHOLE = 2.0**24  # whole masses are left as they are up to this sum
_TOLERANCE = 1e-9


def check_solver(solver):
    """Raise unless `solver` is known and installed."""
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(f"solver must be one of 'highs', 'ortools', got {solver!r}.")
    if importlib.util.find_spec(SOLVERS[solver]) is None:
        raise ValueError(f"solver={solver!r} needs the package {SOLVERS[solver]}, which is not installed; pip install {SOLVERS[solver]}.")
    trouble = _trouble_apart() if solver == "ortools" else None
    if trouble:
        raise ValueError(f"solver='ortools' does not start here ({trouble}); reinstall the package ortools, or use solver='highs'.")
    return solver


@cache
def _trouble_apart():
    """What a process of its own says of the smallest problem, or None."""
    one = np.ones(1, dtype=np.int64)
    try:
        solve_apart(source=0 * one, sink=0 * one, cost=one, supply=one, demand=one)
    except RuntimeError as error:
        return str(error)
    return None


def least_cost_flow(solver, source, sink, cost, supply, demand):
    """Meet every demand from the supplies over the arcs, at the least cost.

    Parameters
    ----------
    solver : {"highs", "ortools"}
    source, sink : ndarray of shape (n_arcs,), int
    cost : ndarray of shape (n_arcs,), non-negative
    supply : ndarray of shape (n_sources,)
    demand : ndarray of shape (n_sinks,)

    Returns
    -------
    flow : ndarray of shape (n_arcs,)
        A vertex: whole if supplies and demands are.

    Raises
    ------
    RuntimeError
        With the status, if the solver does not end at an optimum.
    """
    return {"highs": _by_highs, "ortools": _by_ortools}[solver](source, sink, cost, supply, demand)


def _by_highs(source, sink, cost, supply, demand):
    import cvxpy as cp

    whole = _are_whole(supply, demand)
    unit = 1.0 if whole and supply.sum() <= _MOST_WHOLE else 2.0 ** math.floor(math.log2(_SUPPLY / supply.sum()))
    supply, demand = supply * unit, demand * unit
    arcs = np.arange(len(cost))
    ones = np.ones(len(cost))
    leaving = csr_array((ones, (source, arcs)), shape=(len(supply), len(cost)))
    entering = csr_array((ones, (sink, arcs)), shape=(len(demand), len(cost)))
    # One vector over the arcs and two incidence matrices, so that cvxpy has little to compile; no capacities on arcs, which would make
    # saturated ones look worth adding.
    flow = cp.Variable(len(cost), nonneg=True)
    problem = cp.Problem(cp.Minimize(cost @ flow), [leaving @ flow <= supply, entering @ flow >= demand])
    # The simplex method ends at a vertex, where whole numbers stay whole. If it gives up, it tries again from the plain problem.
    tight = {"solver": "simplex", "primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    trouble: str | None = None
    for options in (tight, {"solver": "simplex", "presolve": "off"}):
        try:
            problem.solve(solver=cp.HIGHS, highs_options=options)
        except cp.error.SolverError as error:
            trouble = str(error).splitlines()[0]
            continue
        trouble = None if problem.status == cp.OPTIMAL and flow.value is not None else str(problem.status)
        if trouble is None:
            break
    if trouble is not None:
        raise RuntimeError(trouble)
    found = np.maximum(np.asarray(flow.value), 0)
    # Demands are met as inequalities, which the simplex method solves in half the time; only arcs that cost nothing can bring more.
    excess = np.bincount(sink, found, minlength=len(demand)) - demand
    for arc in np.flatnonzero((cost == 0) & (found > 0)):
        cut = min(found[arc], max(excess[sink[arc]], 0.0))
        found[arc] -= cut
        excess[sink[arc]] -= cut
    return np.rint(found / unit) if whole else found / unit


def _by_ortools(source, sink, cost, supply, demand):
    """OR-Tools takes whole numbers: masses that are not are scaled up and rounded, and costs too."""
    unit = 1.0 if _are_whole(supply, demand) and supply.sum() <= _LARGEST_SUPPLY else _LARGEST_SUPPLY / supply.sum()
    supply, demand = (np.rint(mass * unit).astype(np.int64) for mass in (supply, demand))
    # Costs that are multiples of 2**-20 stay exact; the product with the number of nodes must fit into 64 bits.
    fit = math.floor(math.log2(_LARGEST_COST / (len(supply) + len(demand) + 2) / cost.max()))
    cost = np.rint(cost * 2.0**fit).astype(np.int64)
    return solve_apart(source=source, sink=sink, cost=cost, supply=supply, demand=demand) / unit


def _are_whole(*masses):
    return all(np.array_equal(mass, np.rint(mass)) for mass in masses)
