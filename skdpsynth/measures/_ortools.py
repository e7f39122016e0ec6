"""Minimum-cost flow by OR-Tools, in a process of its own: ``python _ortools.py < problem > flows``.

OR-Tools carries a HiGHS library that cannot be loaded beside the one that cvxpy uses (google/or-tools, issue 5246), so whichever comes
second in a process fails.
"""

import io
import os
import subprocess
import sys
from typing import Any

import numpy as np

_LEAST_WAIT, _WAIT_AN_ARC = 120.0, 1e-3  # seconds: many times as long as a child that is alive takes


def solve_in_subprocess(**problem: Any) -> np.ndarray:
    """Solve in a child process by `_solve`, or raise RuntimeError with the solver's status or the child's last line."""
    message = io.BytesIO()
    np.savez(message, **problem)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # the import path of this process
    n_arcs = len(problem["cost"])
    wait = _LEAST_WAIT + n_arcs * _WAIT_AN_ARC
    command = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(command, input=message.getbuffer(), capture_output=True, env=paths, check=False, timeout=wait)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"its process gave no answer in {wait:.0f} s") from None
    except (OSError, ValueError, TypeError) as error:  # no interpreter, say
        raise RuntimeError(f"its process did not start: {type(error).__name__}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"process ended with {done.returncode}")
    try:
        flows = np.lib.format.read_array(io.BytesIO(done.stdout), allow_pickle=False)
    except (OSError, ValueError, TypeError, EOFError, MemoryError) as error:
        raise RuntimeError(f"its process gave no answer: {type(error).__name__}") from None
    if flows.shape != (n_arcs,) or flows.dtype.kind != "i" or flows.min(initial=0) < 0:
        raise RuntimeError("its process gave an answer to something else")
    return flows


def _solve(source: np.ndarray, sink: np.ndarray, cost: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """Return the flow on each arc; all arguments are whole, and the excess of supply goes to a node of its own."""
    from ortools.graph.python import min_cost_flow

    n_sources, rest = len(supply), len(supply) + len(demand)
    problem = min_cost_flow.SimpleMinCostFlow()
    # No arc needs more than its ends have, and smaller capacities help.
    capacity = np.minimum(supply[source], demand[sink])
    arcs = problem.add_arcs_with_capacity_and_unit_cost(source.astype(np.int32), (sink + n_sources).astype(np.int32), capacity, cost)
    sources = np.arange(n_sources, dtype=np.int32)
    problem.add_arcs_with_capacity_and_unit_cost(sources, np.full_like(sources, rest), supply, np.zeros_like(supply))
    excess = np.concatenate([supply, -demand, [demand.sum() - supply.sum()]])
    problem.set_nodes_supplies(np.arange(rest + 1, dtype=np.int32), excess)
    status = problem.solve()
    if status != problem.OPTIMAL:
        sys.exit(status.name)
    return problem.flows(arcs)


if __name__ == "__main__":
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as given:
        flows = _solve(**given)
    np.save(sys.stdout.buffer, flows)
