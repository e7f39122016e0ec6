"""The dense linear program of the signed measure mechanism, as a test oracle only: m * m variables, so m <= 216."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist


def dense_program(distances, signed, diameter):
    """Return (value, tau): Algorithm 2 with its flow conserved and mass created at twice the diameter, through cvxpy.

    min sum_ij rho_ij u_ij + 2 D sum_i v_i  subject to  sum_j (u_ij - u_ji) + v_i + tau_i >= nu_i,  sum tau = 1,  u, v, tau >= 0;
    the bounded-Lipschitz distance is that minus D (nu(Omega) - 1), as f was shifted by D.
    """
    import cvxpy as cp

    m = len(signed)
    assert m <= 1000, "a test oracle: the program has m * m variables"
    source, sink = np.nonzero(~np.eye(m, dtype=bool))
    arcs = np.arange(len(source))
    out_of = csr_array((np.ones(len(arcs)), (source, arcs)), shape=(m, len(arcs)))
    into = csr_array((np.ones(len(arcs)), (sink, arcs)), shape=(m, len(arcs)))
    flow, created, tau = (cp.Variable(size, nonneg=True) for size in (len(arcs), m, m))
    constraints = [(out_of - into) @ flow + created + tau >= signed, cp.sum(tau) == 1]
    problem = cp.Problem(cp.Minimize(distances[source, sink] @ flow + 2 * diameter * cp.sum(created)), constraints)
    problem.solve(solver=cp.HIGHS)
    return problem.value - diameter * (signed.sum() - 1), tau.value


def bounded_lipschitz(signed, distances, diameter):
    """Return (distance, f): the largest sum of f * signed over 1-Lipschitz f with abs(f) <= diameter, straight from the definition."""
    m = len(signed)
    i, j = np.nonzero(~np.eye(m, dtype=bool))
    rows = np.arange(len(i))
    pairs = csr_array((np.concatenate([np.ones(len(i)), -np.ones(len(i))]), (np.tile(rows, 2), np.concatenate([i, j]))), shape=(len(i), m))
    found = linprog(-signed, A_ub=pairs, b_ub=distances[i, j], bounds=(-diameter, diameter), method="highs")
    return -found.fun, found.x


def nearest_by_cutting_planes(signed, distances, diameter, tolerance=1e-12):
    """Return (least distance, tau) from the definition alone: no duality, no flow."""
    m = len(signed)
    potentials = [np.full(m, diameter), np.full(m, -diameter)]
    for _ in range(5000):
        F = np.array(potentials)  # t >= F @ (signed - tau)
        found = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.column_stack([-F, -np.ones(len(F))]),
            b_ub=-F @ signed,
            A_eq=np.append(np.ones(m), 0.0)[None],
            b_eq=[1],
            bounds=[(0, None)] * m + [(None, None)],
            method="highs",
        )
        tau = found.x[:m]
        value, f = bounded_lipschitz(signed - tau, distances, diameter)
        if value - found.fun <= tolerance:
            break
        potentials.append(f)
    return value, tau


def pairwise(positions, metric):
    return cdist(positions, positions, metric)
