"""The probability measure nearest to a signed one, against programs that share no code with it."""

import importlib.util
import re
import sys
import warnings

import numpy as np
import pytest
from dense_program import bounded_lipschitz, nearest_by_cutting_planes, pairwise
from internals import _grid_transport, _min_cost_flow, _ortools, _transport, min_cost_flow
from laws import refuses
from scipy.optimize import linprog
from scipy.sparse import identity, kron
from scipy.spatial.distance import cdist

from skdpsynth.measures import MAX_CELLS, nearest_probability_measure

# OR-Tools is never imported here: its HiGHS cannot live beside the one of cvxpy.
needs_ortools = pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="OR-Tools is not installed")
each_solver = pytest.mark.parametrize("solver", ["highs", pytest.param("ortools", marks=needs_ortools)])
each_metric_and_solver = pytest.mark.parametrize(
    ("metric", "solver"),
    [*((metric, "highs") for metric in ("chebyshev", "cityblock", "euclidean")), pytest.param("cityblock", "ortools", marks=needs_ortools)],
)
each_metric = pytest.mark.parametrize("metric", ["chebyshev", "cityblock", "euclidean"])


def of_total(mass, total):
    return mass + (total - mass.sum()) / len(mass)


def irregular(seed, m, d, total):
    """Positions in general position, so that the optimum is unique, and weights of which about half are negative."""
    rng = np.random.default_rng(seed)
    return rng.random((m, d)), of_total(rng.normal(size=m), total)


def noisy_grid(seed, shape):
    """A full grid and whole noisy counts of at least one row a cell, with their sum."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    positions = np.stack(np.unravel_index(np.arange(size), shape), axis=1) / 8
    noise = rng.geometric(0.3, size) - rng.geometric(0.3, size)
    counts = rng.multinomial(size, rng.dirichlet(np.full(size, 0.3))) + noise
    return positions, counts


def transport_program(positions, signed, metric, total=1.0):
    """Return (value, what is left of the positive mass) by one linear program over all arcs, by scipy."""
    signed = np.asarray(signed) / total
    donors, holes = np.flatnonzero(signed > 0), np.flatnonzero(signed < 0)
    supply = np.append(signed[donors], max(0, 1 - signed.sum()))  # the last may be created
    cost = np.vstack([cdist(positions[donors], positions[holes], metric), np.zeros(len(holes))])
    leaving, entering = kron(identity(len(supply)), np.ones(len(holes))), kron(np.ones(len(supply)), identity(len(holes)))
    found = linprog(cost.ravel(), A_ub=leaving, b_ub=supply, A_eq=entering, b_eq=-signed[holes], method="highs")
    left = np.zeros(len(signed))
    left[donors] = (supply - leaving @ found.x)[:-1]
    return found.fun + abs(signed.sum() - 1) * cdist(positions, positions, metric).max(), left * total


def assert_probabilities(weights):
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("on_grid", [False, True])
@each_metric
def test_no_probability_measure_is_nearer_by_the_definition(metric, on_grid, scale):
    rng = np.random.default_rng([on_grid, int(10 * scale), len(metric)])
    for _ in range(12):
        m, d = rng.integers(2, 13), rng.integers(1, 4)
        positions = scale * (rng.integers(0, 4, (m, d)) / 3 if on_grid else rng.random((m, d)))  # those of a grid coincide at times
        signed = of_total(rng.normal(size=m), rng.uniform(-0.3, 2.2))
        copies = positions.copy(), signed.copy()
        result = nearest_probability_measure(positions, signed, metric)
        assert all(np.array_equal(*pair) for pair in zip(copies, (positions, signed), strict=True))
        distances = pairwise(positions, metric)
        least, _ = nearest_by_cutting_planes(signed, distances, distances.max())
        attained, _ = bounded_lipschitz(signed - result.weights, distances, distances.max())
        assert_probabilities(result.weights)
        assert result.status == "optimal"
        assert [result.value, attained, result.lower_bound] == pytest.approx([least] * 3, abs=1e-9)


@pytest.mark.parametrize("total", [0.8, 1.3])
@each_metric_and_solver
def test_bound_and_value_are_those_of_a_program_over_all_arcs(metric, total, solver):
    positions, signed = irregular(2, 200, 2, total)
    result = nearest_probability_measure(positions, signed, metric, solver=solver)
    expected, left = transport_program(positions, signed, metric)
    assert result.value == pytest.approx(expected, rel=1e-9)
    assert result.lower_bound == pytest.approx(expected, rel=1e-9)
    # What is left of the positive mass is unique here, and a surplus is removed from it in proportion.
    np.testing.assert_allclose(result.weights, left / left.sum(), atol=1e-9)


@pytest.fixture
def from_cell_to_cell(monkeypatch):
    """Whole grids are solved by moves to the cells beside, also where few masses have to move."""
    monkeypatch.setattr(_transport, "_FEW_HOLES", 0)

    def refuse(*arguments):
        raise AssertionError("solved over arcs from donors to holes")

    monkeypatch.setattr(_transport, "min_cost_flow", refuse)


GRIDS = [(7, 8), (3, 1, 9), (4, 3, 5)]


@pytest.mark.parametrize("total", ["sum", "more", "less"])
@pytest.mark.parametrize("shape", GRIDS)
@pytest.mark.parametrize("metric", ["chebyshev", "cityblock"])
def test_moves_from_cell_to_cell_cost_what_a_program_over_all_arcs_costs(metric, shape, total, from_cell_to_cell):
    for seed in range(4):
        positions, counts = noisy_grid(seed, shape)
        if seed == 3:  # no whole numbers, in a box one of whose cells has no position
            positions, counts = np.delete(positions, 8, axis=0), 1.37 * np.delete(counts, 8)
        gain = np.maximum(counts, 0).sum()
        counts[0] += max(0, 9 - counts.sum())
        total_mass = {"sum": counts.sum(), "more": (counts.sum() + gain) / 2, "less": 0.7 * counts.sum()}[total]
        result = nearest_probability_measure(positions, counts, metric, total=total_mass)
        expected, _ = transport_program(positions, counts, metric, total_mass)
        distances = pairwise(positions, metric)
        attained, _ = bounded_lipschitz(counts / total_mass - result.weights, distances, distances.max())
        assert ([result.value, attained], result.status) == (pytest.approx([expected] * 2, rel=1e-7), "optimal")
        assert_probabilities(result.weights)


@pytest.mark.parametrize("rich", [1e7, 1e10, 1e14])
def test_small_demands_beside_large_supplies_are_met_exactly(rich, from_cell_to_cell):
    # Rounding to a unit of all the supply would leave some of the demand unmet.
    positions, counts = noisy_grid(6, (9, 8))
    signed = counts + np.where(counts < 0, 0.37, 0.0)
    signed[[3, 50]] += rich
    result = nearest_probability_measure(positions, signed, total=signed.sum())
    expected, _ = transport_program(positions, np.clip(signed, None, 1e3), "chebyshev", np.clip(signed, None, 1e3).sum())
    assert result.status == "optimal"
    assert result.value * signed.sum() == pytest.approx(expected * np.clip(signed, None, 1e3).sum(), rel=1e-9)


def test_grids_that_are_long_or_nearly_empty_and_positions_that_are_no_grid_are_solved_over_arcs(monkeypatch):
    monkeypatch.setattr(_transport, "_FEW_HOLES", 20)
    for shape, share in (((2, 600), 1.0), ((90, 90), 0.1)):
        positions, counts = noisy_grid(7, shape)
        counts = np.where(np.random.default_rng(7).random(len(counts)) < share, counts, 0)
        counts[0] += 10 + max(0, -counts.sum())
        assert nearest_probability_measure(positions, counts, total=counts.sum()).n_iter > 0
    positions, counts = noisy_grid(0, (40, 41))  # and others from cell to cell
    assert nearest_probability_measure(positions, counts, total=counts.sum()).n_iter == 0
    for positions in ([[0, 0], [1, 0], [0, 2], [5, 5]], [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]], np.eye(4)):
        assert _grid_transport.TransportGrid.of(np.array(positions, dtype=float), "chebyshev", 100) is None


@pytest.mark.parametrize("shape", [(6, 7), (4, 3, 5)])
def test_of_equal_moves_from_cell_to_cell_those_of_the_fewest_steps_are_chosen(shape, from_cell_to_cell):
    # Two programs in turn, over all moves: the fewest, and of these the shortest; and the shortest with what ours left of each donor.
    chosen = []
    for seed in range(6):
        positions, counts = noisy_grid(seed, shape)
        counts[0] += max(0, 9 - counts.sum())
        total = counts.sum()
        kept = np.rint(nearest_probability_measure(positions, counts, total=total).weights * total)
        places = np.rint(positions * 8)
        apart = np.abs(places[:, None] - places[None]).max(axis=2)
        source, sink = np.nonzero(apart == 1)
        length = np.abs(places[source] - places[sink]).sum(axis=1)
        leaving = np.zeros((len(counts), len(source)))
        np.add.at(leaving, (source, np.arange(len(source))), 1)
        np.add.at(leaving, (sink, np.arange(len(source))), -1)
        fewest = linprog(np.ones(len(source)), A_ub=leaving, b_ub=counts, method="highs").fun
        few = {"A_ub": np.vstack([leaving, np.ones(len(source))]), "method": "highs"}
        shortest = linprog(length, b_ub=np.append(counts, fewest + 1e-7), **few).fun
        longest = -linprog(-length, b_ub=np.append(counts, fewest + 1e-7), **few).fun
        given = np.where(counts > 0, counts - kept, counts)
        ours = linprog(length, b_ub=np.append(given + 1e-7, fewest + 1e-4), **few).fun
        assert ours == pytest.approx(shortest, abs=0.01)
        chosen.append(longest - shortest)
    assert max(chosen) > 0.4


def test_a_simplex_method_that_takes_too_many_steps_is_followed_by_another_in_silence(monkeypatch):
    positions, signed = irregular(5, 150, 2, 1.2)
    expected = nearest_probability_measure(positions, signed)
    tried, solve = [], _min_cost_flow._solve_or_error
    monkeypatch.setattr(_min_cost_flow, "_STEPS_A_NODE", 0)
    monkeypatch.setattr(_min_cost_flow, "_solve_or_error", lambda problem, options: tried.append(solve(problem, options)) or tried[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nearest_probability_measure(positions, signed)
    assert (tried[:2], found.value) == (["user_limit", ""], pytest.approx(expected.value, rel=1e-12))


@pytest.mark.parametrize("total", [0.7, 1.2])
@each_metric
def test_bound_is_true_even_of_a_search_that_was_cut_short_and_whatever_flow_the_solver_returns(metric, total, monkeypatch):
    def check(positions, signed):
        result, (expected, _) = nearest_probability_measure(positions, signed, metric), transport_program(positions, signed, metric)
        assert result.lower_bound <= expected * (1 + 1e-9)
        assert result.value >= expected * (1 - 1e-9)
        return result

    def dear_flow(solver, source, sink, cost, supply, demand, start):
        away = np.where(cost < cost.max(), -cost, 3 * cost.max())  # the dearest that still leaves the artificial donor alone
        leaving, entering = (np.equal.outer(np.arange(len(end)), at) for end, at in ((supply, source), (demand, sink)))
        return linprog(away, leaving, supply, entering, demand, method="highs").x

    for rounds, sweeps in ((1, 5000), (2, 2), (60, 1)):
        with monkeypatch.context() as patch:
            patch.setattr(_transport, "_MOST_ROUNDS", rounds)
            patch.setattr(_transport, "_MOST_SWEEPS", sweeps)
            assert check(*irregular(5, 150, 2, total)).n_iter <= rounds
    monkeypatch.setattr(_transport, "min_cost_flow", dear_flow)
    for seed in range(8):
        check(*irregular(seed, 30, 2, total))


def test_result_without_a_proof_is_called_feasible(monkeypatch):
    positions, signed = np.random.default_rng(6).random((101, 2)), np.append(np.ones(100), -80.0)
    monkeypatch.setattr(_transport, "_MOST_ROUNDS", 1)
    result = nearest_probability_measure(positions, signed, total=20)
    assert result.status == "feasible"
    assert result.gap == result.value - result.lower_bound > 1e-3 * result.value
    assert_probabilities(result.weights)


@each_metric_and_solver
@pytest.mark.parametrize("clusters", [False, True])
def test_holes_that_need_more_donors_than_their_near_ones_find_the_far_ones(clusters, metric, solver, monkeypatch):
    """75 donors of one hole, of which 48 are near; or 30 units from another cluster; a few holes at a time as all at once."""
    rng = np.random.default_rng(7)
    positions, signed, total = rng.random((101, 2)), np.append(np.ones(100), -75.0), 25
    if clusters:
        positions = np.vstack([positions[:90], positions[:90] + np.array([16, 0])])
        signed, total = np.concatenate([np.ones(60), np.full(30, -3.0), np.ones(90)]), 60
    result = nearest_probability_measure(positions, signed, metric, total=total, solver=solver)
    expected, left = transport_program(positions, signed, metric, total=total)
    assert result.n_iter > 1
    assert (result.status, result.value) == ("optimal", pytest.approx(expected, rel=1e-9))
    np.testing.assert_allclose(result.weights * total, left, atol=1e-9)
    monkeypatch.setattr(_transport, "_BLOCK", 500)
    parts = nearest_probability_measure(positions, signed, metric, total=total, solver=solver)
    np.testing.assert_array_equal(parts.weights, result.weights)


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1e-3, 1e9, 1e300])
@pytest.mark.parametrize("solver", ["cell to cell", "highs", pytest.param("ortools", marks=needs_ortools)])
def test_unit_of_mass_does_not_matter_nor_do_features_in_which_all_positions_agree(unit, solver, monkeypatch):
    positions, signed = irregular(13, 60, 2, 0.9)
    if solver == "cell to cell":
        monkeypatch.setattr(_transport, "_FEW_HOLES", 0)
        (positions, signed), solver = noisy_grid(6, (9, 8)), "highs"
    total = signed.sum()
    base = nearest_probability_measure(positions, signed, total=total)
    wide = np.insert(positions, [0, 1, 2], [7.0, -1.0, 0.25], axis=1)
    scaled = nearest_probability_measure(wide, unit * signed, total=unit * total, solver=solver)
    assert (scaled.status, scaled.value) == ("optimal", pytest.approx(base.value, rel=1e-9))


@pytest.mark.parametrize(
    ("positions", "signed", "total", "weights", "value"),
    [
        *(
            ([[0, 0], [3, 0], [0, 4], [0, 0]], signed, 1, [0.25] * 4, 4 * (1 - sum(signed)))
            for signed in ([-0.1, -0.2, -0.5, -1], [0.0] * 4)
        ),
        ([[0.0], [1.0], [4.0]], [1.0, -5.0, 3.0], 8, [0.25, 0, 0.75], 4 * 9 / 8),  # too little mass grows, and no hole is filled
        *(([[3.0, 4.0]], [signed], 1, [1.0], 0) for signed in (-2.0, 0.0, 0.3, 5.0)),
        *((np.ones((4, d)), [3, -1, -1, 1], total, None, 0) for d in (1, 2) for total in (1, 2, 3)),
        ([[0.0], [1.0], [2 + 2e-7], [3.0]], [0.5, -0.6, 1.1, 0.0], 1, None, 0.6 + 2e-8),  # almost a grid
    ],
)
def test_measures_whose_nearest_one_is_known_by_hand(positions, signed, total, weights, value):
    result = nearest_probability_measure(positions, signed, total=total)
    assert_probabilities(result.weights)
    assert weights is None or result.weights.tolist() == weights
    assert result.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("total", [0.4, 1.0, 1.7])
@each_metric
def test_measure_without_holes_is_normalized_and_pays_the_diameter_for_what_is_missing_or_too_much(metric, total, monkeypatch):
    monkeypatch.setattr(_transport, "_BLOCK", 2048)  # distances at a time: the diameter is found in many steps
    rng = np.random.default_rng(15)
    positions, signed = rng.random((300, 3)), rng.random(300) * (rng.random(300) < 0.5)
    signed *= total / signed.sum()
    result = nearest_probability_measure(positions, signed, metric)
    np.testing.assert_allclose(result.weights, signed / total, rtol=1e-12)
    assert result.value == pytest.approx(abs(total - 1) * pairwise(positions, metric).max(), abs=1e-12)
    assert (result.gap, result.n_iter) == (0, 0)


def test_a_line_of_too_many_weights_that_sum_to_too_little_is_refused_and_others_are_not(monkeypatch):
    monkeypatch.setattr(_transport, "_MOST_FALLING", 3)
    line, signed = np.arange(4.0)[:, None], [2, -1, -1, 1]
    with pytest.raises(ValueError, match="at most 3 that are not zero where they sum to less than total on a line, got 4"):
        nearest_probability_measure(line, signed, total=2)
    assert nearest_probability_measure(line, signed, total=1).status == "optimal"


@pytest.mark.parametrize("metric", ["chebyshev", "cityblock"])
def test_of_equal_transports_over_a_grid_one_of_least_euclidean_cost_is_chosen(metric):
    # Two programs in turn, over all arcs: the least cost, and at that cost the least euclidean one; ours with what each donor gave.
    rng = np.random.default_rng(16)
    chosen = []
    for _ in range(15):
        places = rng.permutation(25)[:16]
        positions = np.stack(np.divmod(places, 5), axis=1)
        counts = np.concatenate([rng.integers(1, 4, 8), rng.integers(-2, 0, 8)]).astype(float)
        counts[0] += max(0, 1 - counts.sum())
        total = counts.sum()
        kept = nearest_probability_measure(positions, counts, metric, total=total).weights * total
        first, second = (cdist(positions[:8], positions[8:], name).ravel() for name in (metric, "euclidean"))
        leaving, entering = kron(identity(8), np.ones(8)).toarray(), kron(np.ones(8), identity(8)).toarray()
        filled = {"A_eq": entering, "b_eq": -counts[8:], "method": "highs"}
        least = linprog(first, A_ub=leaving, b_ub=counts[:8], **filled).fun
        limit = {"A_ub": np.vstack([leaving, first]), **filled}
        best = linprog(second, b_ub=np.append(counts[:8], least + 1e-9), **limit).fun
        ours = linprog(second, b_ub=np.append(counts[:8] - kept[:8] + 1e-9, least + 1e-6), **limit).fun
        worst = -linprog(-second, b_ub=np.append(counts[:8], least + 1e-9), **limit).fun
        assert ours == pytest.approx(best, abs=1e-5)
        chosen.append(worst - best)
    assert max(chosen) > 0.1  # there was a choice


def child_that(program, tmp_path):
    """A file in place of an interpreter."""
    path = tmp_path / "child"
    path.write_text(f"#!{sys.executable}\nimport sys, time\nimport numpy as np\n{program}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("time.sleep(60)", "gave no answer in 1 s"),
        ("print('no array')", "gave no answer: ValueError"),
        ("pass", "gave no answer: ValueError|gave no answer: EOFError"),
        ("sys.stdout.buffer.write(b'PK' + bytes(60))", "gave no answer: ValueError"),
        ("np.save(sys.stdout.buffer, np.ones(1, dtype=np.int64))", "answer to something else"),
        ("np.save(sys.stdout.buffer, np.full(2, 0.5))", "answer to something else"),
        ("np.save(sys.stdout.buffer, np.array([1, -1]))", "answer to something else"),
        ("sys.exit('not feasible')", "^not feasible$"),
        (None, "did not start: "),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="runs a script")
def test_a_child_that_gives_no_answer_or_a_wrong_one_is_told_in_a_few_words(program, words, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", program and child_that(program, tmp_path))
    monkeypatch.setattr(_ortools, "_LEAST_WAIT", 1.0 if program and "sleep" in program else 60.0)
    one = np.ones(2, dtype=np.int64)
    refuses(RuntimeError, words, _ortools.solve_in_subprocess, source=0 * one, sink=np.arange(2), cost=one, supply=3 * one[:1], demand=one)


@each_solver
def test_flow_meets_all_demands_exactly_at_the_least_cost_and_is_whole_if_they_are(solver):
    # Half of the arcs cost nothing, over which a simplex method that meets demands as inequalities may bring too much (1 in 60 here).
    rng = np.random.default_rng(0)
    source, sink = (index.ravel() for index in np.indices((6, 5)))
    leaving, entering = kron(identity(6), np.ones(5)), kron(np.ones(6), identity(5))
    for _ in range(60 if solver == "highs" else 2):
        cost = np.where(rng.random(30) < 0.5, 0, rng.random(30))
        supply, demand = rng.integers(3, 9, 6).astype(float), rng.integers(0, 4, 5).astype(float)
        flow = min_cost_flow(solver, source, sink, cost, supply, demand)
        np.testing.assert_allclose(flow, np.rint(flow), atol=1e-9)
        np.testing.assert_allclose(entering @ flow, demand, atol=1e-9)
        assert np.all(leaving @ flow <= supply + 1e-9)
        assert cost @ flow == pytest.approx(linprog(cost, leaving, supply, entering, demand, method="highs").fun, rel=1e-9, abs=1e-12)


@each_solver
def test_demand_that_cannot_be_met_is_reported_by_its_status(solver):
    zero = np.zeros(1, dtype=np.int64)
    refuses(RuntimeError, r"(?i)^infeasible$", min_cost_flow, solver, zero, zero, np.ones(1), np.ones(1), np.full(1, 2.0))


def test_trouble_of_a_solver_is_told_in_one_sentence_by_sizes_and_status_and_no_mass(monkeypatch):
    def give_up(*arguments):
        raise RuntimeError("infeasible")

    monkeypatch.setattr(_transport, "min_cost_flow", give_up)
    sentence = r"^The transport from 3 positive to 2 negative weights over \d+ arcs was not solved by 'highs' \(status: infeasible\); .*\.$"
    with pytest.raises(RuntimeError, match=sentence) as caught:
        nearest_probability_measure([[0, 0], [1, 0], [0, 2], [5, 5], [7, 1]], [81.25, 72.5, 93.75, -61.5, -42.25], total=143.75)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert not any(mass in str(caught.value) for mass in ("81", "72", "93", "61", "42", "143"))


LINE, HALVES = [[0.0], [1.0]], [0.5, 0.5]
BAD = {
    "positions": ([0.0, 1.0], np.empty((0, 2)), np.empty((2, 0)), [[7.25], [np.nan]], [[0.0], [np.inf]]),
    "signed_weights": ([7.25], [[0.5], [0.5]], [7.25, np.nan], [0.5, -np.inf]),
    "metric": ("manhattan", None, ["chebyshev"]),
    "solver": ("simplex", None),
    "total": (0, -1.0, np.inf, np.nan, None, "1"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_argument_is_refused_in_one_sentence_that_names_it_and_quotes_no_cell(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must [^\n]*\.$") as caught:
        nearest_probability_measure(
            **{"positions": LINE, "signed_weights": HALVES[: len(value)] if name == "positions" else HALVES, name: value}
        )
    assert "7.25" not in str(caught.value)


@pytest.mark.parametrize(("solver", "package"), [("highs", "cvxpy"), ("ortools", "ortools")])
def test_solver_that_is_not_installed_is_refused_with_the_way_to_install_it(solver, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=rf"^solver='{solver}' needs the package {package}, [^\n]*pip install {package}\.$"):
        nearest_probability_measure(LINE, HALVES, solver=solver)


def test_too_many_cells_for_a_solver_are_refused_but_empty_ones_do_not_count(monkeypatch):
    monkeypatch.setitem(MAX_CELLS, "highs", 2)
    square, counts = [[0, 0], [0, 1], [1, 0], [1, 1]], np.array([2.0, -1.0, 0.0, 0.0])
    assert nearest_probability_measure(square, counts).weights.tolist() == [1, 0, 0, 0]
    counts[3] = 1
    with pytest.raises(ValueError, match=r"^signed_weights must have at most 2 [^\n]*, got 3; use coarser cells, or solver='ortools'\.$"):
        nearest_probability_measure(square, counts)


def test_grid_far_from_zero_is_a_grid():
    """Its coordinates are as coarse as their floats; the value is that of the grid at zero."""
    grid = np.indices((12, 12)).reshape(2, -1).T * 0.1
    signed = np.random.default_rng(0).integers(-3, 5, 144)
    near, far = (nearest_probability_measure(grid + offset, signed, total=100) for offset in (0, 1e6))
    assert (far.status, far.value) == ("optimal", pytest.approx(near.value, rel=1e-6))


def test_two_narrow_clusters_far_apart_are_solved_at_their_own_scale():
    rng = np.random.default_rng(0)
    clusters = [rng.random((20, 2)) * 1e-4, rng.random((20, 2)) * 1e-4]
    signed = [v - v.mean() + 0.025 for v in (rng.normal(size=20), rng.normal(size=20))]
    alone = [nearest_probability_measure(x, v, total=v.sum()) for x, v in zip(clusters, signed, strict=True)]
    both = nearest_probability_measure(np.vstack([clusters[0], clusters[1] + 1e4]), np.concatenate(signed))
    assert both.status == "optimal"
    assert both.value == pytest.approx(sum(part.value * v.sum() for part, v in zip(alone, signed, strict=True)), rel=1e-6)


@pytest.mark.parametrize("total", [5e-324, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("scale", [2.0**-1000, 1.0, 2.0**60, 2.0**1000])
@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_extremes_are_refused_in_one_sentence_or_right(total, scale, unit):
    rng = np.random.default_rng(0)
    positions, weights = unit * rng.random((6, 2)), scale * np.array([3.0, -1.0, 2.0, -1.5, 0.5, -0.2])
    try:
        with np.errstate(all="raise"):
            result = nearest_probability_measure(positions, weights, total=total)
    except ValueError as error:
        assert re.fullmatch(r"positions, signed_weights and total must [^\n]*\.", str(error))  # noqa: PT017
    else:
        assert result.weights.sum() == pytest.approx(1)
        assert np.isfinite([result.value, result.lower_bound]).all()
        assert result.gap <= 1e-6 * result.value
