"""Minimum-cost flow from sources to sinks over listed arcs: two solvers, one answer."""

import importlib.util
import math
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from skdpsynth._validation import short_repr
from skdpsynth.measures._ortools import solve_in_subprocess

if TYPE_CHECKING:
    import cvxpy as cp

SOLVERS = {"highs": "cvxpy", "ortools": "ortools"}  # by solver, the package that must be installed
MAX_CELLS = {"highs": 150_000, "ortools": 1_000_000}  # beyond, minutes turn into hours or memory ends
_LARGEST_COST = 2.0**58  # OR-Tools multiplies costs by the number of nodes, and a little more, in int64
_LARGEST_SUPPLY = 2.0**50
_SUPPLY = 2.0**20  # sum to which masses are scaled for HiGHS, whose tolerances are absolute
_MOST_WHOLE = 2.0**24  # sum up to which whole masses are not scaled
_TIGHT = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_RICH = 4  # times the median: mass of a source beyond that is far from the demand it has to serve
_SCARCE = 1.1
_MANY_ARCS = 20_000  # fewer are solved in no time by any method
_STEPS_A_NODE = 4  # of the simplex method, before another is tried: usual are one or two


def check_solver(solver: object) -> str:
    """Raise unless `solver` is known and installed."""
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(f"solver must be one of 'highs', 'ortools', got {short_repr(solver)}.")
    if importlib.util.find_spec(SOLVERS[solver]) is None:
        raise ValueError(f"solver={solver!r} needs the package {SOLVERS[solver]}, which is not installed; pip install {SOLVERS[solver]}.")
    trouble = _ortools_error() if solver == "ortools" else None
    if trouble:
        raise ValueError(f"solver='ortools' does not start here ({trouble}); reinstall the package ortools, or use solver='highs'.")
    return solver


@cache
def _ortools_error() -> str | None:
    """Return the error of a child process on the smallest problem, or None."""
    one = np.ones(1, dtype=np.int64)
    try:
        solve_in_subprocess(source=0 * one, sink=0 * one, cost=one, supply=one, demand=one)
    except RuntimeError as error:
        return str(error)
    return None


def is_mass_far(supply: np.ndarray, demand: np.ndarray) -> bool:
    """Return whether much of the demand must be met from afar: a few sources hold nearly all mass that is not needed where it is."""
    return float(np.minimum(supply, _RICH * np.median(supply)).sum()) < _SCARCE * float(demand.sum())


def min_cost_flow(
    solver: str,
    source: np.ndarray,
    sink: np.ndarray,
    cost: np.ndarray,
    supply: np.ndarray,
    demand: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Meet every demand from the supplies over the arcs at the least cost, or raise RuntimeError with the solver's status.

    Costs are non-negative. `start`, a flow that meets the demands at the least cost over some of these arcs, only saves time. The flow is a
    vertex: whole if supplies and demands are.
    """
    whole = all(np.array_equal(mass, np.rint(mass)) for mass in (supply, demand))
    if solver == "ortools":
        # It takes whole numbers: other masses, and costs, are scaled and rounded. Costs that are multiples of 2**-20 stay exact; the
        # product with the number of nodes must fit into 64 bits.
        unit = 1.0 if whole and supply.sum() <= _LARGEST_SUPPLY else _LARGEST_SUPPLY / supply.sum()
        supply, demand = (np.rint(mass * unit).astype(np.int64) for mass in (supply, demand))
        fit = math.floor(math.log2(_LARGEST_COST / (len(supply) + len(demand) + 2) / cost.max()))
        cost = np.rint(cost * 2.0**fit).astype(np.int64)
        return solve_in_subprocess(source=source, sink=sink, cost=cost, supply=supply, demand=demand) / unit
    # Masses are scaled to the absolute tolerances of HiGHS.
    unit = 1.0 if whole and supply.sum() <= _MOST_WHOLE else 2.0 ** math.floor(math.log2(_SUPPLY / supply.sum()))
    problem = _Problem(source, sink, cost, supply * unit, demand * unit)
    found = None if start is None else problem.resume_from(start * unit)
    found = problem.trim(np.maximum(problem.solve() if found is None else found, 0))
    return np.rint(found / unit) if whole else found / unit


class _Problem(NamedTuple):
    """The linear program of a flow, for HiGHS."""

    source: np.ndarray
    sink: np.ndarray
    cost: np.ndarray
    supply: np.ndarray
    demand: np.ndarray

    def solve(self) -> np.ndarray:
        """Solve it through cvxpy.

        The simplex method ends at a vertex, where whole numbers stay whole. Where mass has to go far it takes very many steps, and an
        interior point method is faster, from which HiGHS then goes to a vertex. If one method gives up, the next is tried.
        """
        import cvxpy as cp

        _silence_highs_banner()
        arcs, ones = np.arange(len(self.cost)), np.ones(len(self.cost))
        leaving = csr_array((ones, (self.source, arcs)), shape=(len(self.supply), len(arcs)))
        entering = csr_array((ones, (self.sink, arcs)), shape=(len(self.demand), len(arcs)))
        # One vector over the arcs and two incidence matrices, so that cvxpy has little to compile; no capacities on arcs, which would make
        # saturated ones look worth adding. Demands are met as inequalities, which the simplex method solves in half the time.
        flow = cp.Variable(len(self.cost), nonneg=True)
        problem = cp.Problem(cp.Minimize(self.cost @ flow), [leaving @ flow <= self.supply, entering @ flow >= self.demand])
        few: dict[str, Any] = {"solver": "simplex", "simplex_iteration_limit": _STEPS_A_NODE * (len(self.supply) + len(self.demand))}
        methods: list[dict[str, Any]] = [few, {"solver": "ipm"}, {"solver": "simplex"}]
        if len(self.cost) > _MANY_ARCS and is_mass_far(self.supply, self.demand):
            methods = methods[1:]
        trouble = ""
        for options in (*({**method, **_TIGHT} for method in methods), {"solver": "simplex", "presolve": "off"}):
            trouble = _solve_or_error(problem, options)
            if not trouble and flow.value is not None:
                return np.asarray(flow.value)
        raise RuntimeError(trouble)

    def resume_from(self, start: np.ndarray) -> np.ndarray | None:
        """Continue from a flow, by HiGHS itself, as cvxpy takes no start; None if that fails."""
        import highspy

        _silence_highs_banner()
        n_arcs, n_sources = len(self.cost), len(self.supply)
        try:
            model = highspy.HighsLp()
            model.num_col_, model.num_row_ = n_arcs, n_sources + len(self.demand)
            model.col_cost_, model.col_lower_, model.col_upper_ = self.cost, np.zeros(n_arcs), np.full(n_arcs, np.inf)
            model.row_lower_ = np.concatenate([np.full(n_sources, -np.inf), self.demand])
            model.row_upper_ = np.concatenate([self.supply, np.full(len(self.demand), np.inf)])
            # Each column holds two ones: at the source of the arc and at its sink.
            model.a_matrix_.start_ = np.arange(0, 2 * n_arcs + 1, 2)
            model.a_matrix_.index_ = np.column_stack([self.source, n_sources + self.sink]).ravel()
            model.a_matrix_.value_ = np.ones(2 * n_arcs)
            highs = highspy.Highs()
            options: dict[str, Any] = {"output_flag": False, **_TIGHT, "solver": "simplex", "simplex_strategy": 4}
            for name, value in options.items():  # strategy 4 is primal: the start is feasible
                highs.setOptionValue(name, value)
            highs.passModel(model)
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            highs.setSolution(solution)
            highs.run()
            optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
            return np.array(highs.getSolution().col_value) if optimal else None
        except (AttributeError, TypeError, ValueError, RuntimeError):  # another release of HiGHS: cvxpy knows how to call it
            return None

    def trim(self, flow: np.ndarray) -> np.ndarray:
        """Cut flow beyond the demands, which only arcs that cost nothing can bring."""
        excess = np.bincount(self.sink, flow, minlength=len(self.demand)) - self.demand
        for arc in np.flatnonzero((self.cost == 0) & (flow > 0)):
            cut = min(flow[arc], max(excess[self.sink[arc]], 0.0))
            flow[arc] -= cut
            excess[self.sink[arc]] -= cut
        return flow


@cache
def _silence_highs_banner() -> None:
    """Keep the banner of HiGHS off stdout.

    HiGHS logs it once a process, and `highspy.Highs()`, which cvxpy calls too, does so before anybody could set an option. The class under
    it waits for its first callback; with logs to the console off, the banner goes nowhere, and counts as logged.
    """
    import highspy

    with suppress(AttributeError, TypeError):  # another release of HiGHS
        highs = highspy._Highs()  # type: ignore[attr-defined]  # its stubs leave it out
        highs.setOptionValue("log_to_console", False)
        highs.setCallback(lambda *_: None, None)


def _solve_or_error(problem: "cp.Problem", options: dict[str, Any]) -> str:
    """Solve a problem of cvxpy; return the error in a few words, or nothing.

    In the steps of ``problem.solve``, which would warn of a solution that is not used.
    """
    import cvxpy as cp

    try:
        data, chain, inverse_data = problem.get_problem_data(cp.HIGHS)
        found = chain.solve_via_data(problem, data, warm_start=False, verbose=False, solver_opts={"highs_options": options})
        solution = chain.invert(found, inverse_data)
        if solution.status == cp.OPTIMAL:
            problem.unpack(solution)
    except (cp.error.SolverError, ValueError, ArithmeticError) as error:  # cvxpy raises ValueError where HiGHS knows no status
        return (str(error).splitlines() or [type(error).__name__])[0]
    return "" if solution.status == cp.OPTIMAL else str(solution.status)
