"""A network flow by OR-Tools, in a process of its own: ``python _network.py < problem > flows``.

OR-Tools carries a HiGHS library that cannot be loaded beside the one that cvxpy uses (google/or-tools, issue 5246), so whichever comes
second in a process fails.
"""

import io
import os
import subprocess
import sys
from typing import Any

import numpy as np


def solve_apart(**problem: Any) -> np.ndarray:
    """Solve in a child process; see `_solve`.

    Raises
    ------
    RuntimeError
        With the solver's status, or the child's last line.
    """
    message = io.BytesIO()
    np.savez(message, **problem)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # what this process can import
    try:
        done = subprocess.run([sys.executable, "-P", __file__], input=message.getbuffer(), capture_output=True, env=paths, check=False)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"process ended with {done.returncode}")
        return np.load(io.BytesIO(done.stdout), allow_pickle=False)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise RuntimeError(f"its process gave no answer: {type(error).__name__}") from None


def _solve(source: np.ndarray, sink: np.ndarray, cost: np.ndarray, supply: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """Return the flow on each arc; all arguments are whole, and what no sink wants goes to a node of its own."""
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
