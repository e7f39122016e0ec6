"""Counters along a stream: trees by brute force, noise by its covariance, segments by a dynamic programme, the ledger exactly."""

import ast
import inspect
import itertools
import math
import pickle
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from internals import ContinualCounter
from laws import ALARM, CERTAIN, chi_squared, refuses

from skdpsynth.continual import BinaryCounter, InhomogeneousCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.privacy import ContinualRelease, DiscreteLaplace, PrivacyAccountant, PrivacyLoss, SecureBits, SeededBits, epsilon_of_rho

BOUNDED = [BinaryCounter, KaryCounter, SquareRootCounter, SparseCounter]
COUNTERS = [*BOUNDED, UnboundedCounter]
LEVELS = ["kary", "binary", "sparse"]
BY_RHO = (SquareRootCounter, UnboundedCounter)
TREES = [BinaryCounter, KaryCounter]
HORIZONS = [1, 2, 7, 63, 100]
RO, AR = "replace_one", "add_or_remove_one"


def make(kind, horizon, epsilon=1.0, *, accountant=None, **options):
    """Return a counter; square roots have their cost in rho, and one has no horizon. A name is that of levels, of which one is begun."""
    if isinstance(kind, str):
        rng, accountant = options.pop("random_state", None), accountant or PrivacyAccountant(epsilon)
        counter = InhomogeneousCounter(kind, **options)
        counter.start_level(horizon, epsilon, accountant, rng)
        return counter
    sizes = () if kind is UnboundedCounter else (horizon,)
    return kind(*sizes, **{"rho" if kind in BY_RHO else "epsilon": epsilon}, accountant=accountant, **options)


def values_along(counter, stream):
    """Feed a stream of shape (n_steps,) or (n_steps, n_counters) and return the value after every step, as rows."""
    values = []
    for x in stream:
        counter.update(x)
        values.append(counter.value)
    return np.array(values)


def closed_in(counter):
    """The counters of the closed segments of a sparse counter, by cell."""
    return counter._state[2]


def one_hot(cells, n_counters):
    return np.eye(n_counters, dtype=np.int64)[cells]


class RecordingStream:
    """Secure bits, and the names of the draws."""

    seeded = False

    def __init__(self):
        self.names, self.drawn = [], 0

    def child(self, name):
        self.names.append(name)
        return self

    def bytes(self, size):
        self.drawn += size
        return SecureBits().bytes(size)


class Door(ContinualRelease):
    """A door that costs nothing, for tests of what passes it: it is its own part."""

    def __init__(self):
        super().__init__(PrivacyAccountant(math.inf), DiscreteLaplace(1), PrivacyLoss(epsilon=math.inf), SecureBits())

    def part(self, noise, loss, sensitivity):
        return self


class Spy(Door):
    """It adds known noise and remembers what was asked of it."""

    def __init__(self, size=2**22):
        super().__init__()
        self.exact, self.noisy, self.size, self.bits = [], [], size, np.random.default_rng(0)

    def release(self, values, name):
        self.exact.append(np.array(values))
        self.noisy.append(values + self.bits.integers(-self.size, self.size, size=values.shape))
        return self.noisy[-1]


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("kind", COUNTERS)
def test_without_noise_every_value_is_the_prefix_sum_however_often_the_counter_was_saved(kind, horizon):
    stream = np.random.default_rng(horizon).integers(0 if kind is SparseCounter else -6, 6, size=(horizon, 3))
    straight, saved = (make(kind, horizon, math.inf, n_counters=3) for _ in range(2))
    np.testing.assert_array_equal(straight.value, np.zeros(3))
    values, again = values_along(straight, stream), []
    for t, x in enumerate(stream, 1):
        if t % 7 == 0:
            saved = from_bytes(to_bytes(saved)) if t % 2 else pickle.loads(pickle.dumps(saved))
            saved.resume()
        saved.update(x)
        again.append(saved.value)
    for one in (values, again):
        np.testing.assert_allclose(one, np.cumsum(stream, axis=0), rtol=0, atol=1e-6 if kind in BY_RHO else 0)
    assert saved.n_steps == horizon


WAYS = [*((kind, {}) for kind in COUNTERS), (SparseCounter, {"every": 3}), (SparseCounter, {"every": 8})]


@pytest.mark.parametrize(("kind", "options"), WAYS)
def test_steps_and_cells_and_bulks_give_the_same_values_under_one_seed(kind, options):
    cells = np.random.default_rng(0).integers(0, 4, size=40)
    by_step, by_cell, in_bulk = (make(kind, 41, 20.0, n_counters=4, random_state=1, **options) for _ in range(3))
    if kind is SparseCounter:
        for counter in (by_step, by_cell, in_bulk):
            counter.threshold = 1.0
    start = 0
    for size in (1, 2, 3, 1, 7, 6, 11, 9):
        part = cells[start : start + size]
        start += size
        for cell in part:
            by_step.update(one_hot(cell, 4))
            by_cell.update_cells([cell])
            by_cell.update_cells(np.zeros(0, dtype=int))  # no cells change nothing
        in_bulk.update_cells(part)
        np.testing.assert_array_equal(by_step.value, by_cell.value)
        np.testing.assert_array_equal(by_step.value, in_bulk.value)
    assert by_step.n_steps == by_cell.n_steps == in_bulk.n_steps == start == 40
    assert by_step.value.any()


@pytest.mark.parametrize("kind", COUNTERS)
def test_an_array_that_is_used_again_counts_what_it_held(kind):
    counter, buffer = make(kind, 8, math.inf), np.array([1])
    counter.update(buffer)
    buffer[:] = 5
    counter.update(buffer)
    assert counter.value == pytest.approx(6)


def matrices(counter):
    """Return L (times, nodes), R (nodes, steps): signs, and which steps a node sums; steps go on where nodes end later."""
    T = counter.horizon
    terms = [list(counter._nodes(t)) for t in range(1, T + 1)]
    nodes = sorted({term[:2] for line in terms for term in line})
    intervals = [(index * counter.base**level, (index + 1) * counter.base**level) for level, index in nodes]
    steps = np.arange(max(end for _, end in intervals))
    R = np.array([(start <= steps) & (steps < end) for start, end in intervals], dtype=int)
    L = np.zeros((T, len(nodes)), dtype=int)
    for row, line in zip(L, terms, strict=True):
        for level, index, sign in line:
            row[nodes.index((level, index))] += sign
    return L, R, nodes


TREE_HORIZONS = [*range(1, 35), 63, 64, 100, 130]


@pytest.mark.parametrize("kind", TREES)
def test_the_signed_nodes_of_every_time_sum_to_the_prefix(kind):
    for horizon in TREE_HORIZONS:
        L, R, _ = matrices(kind(horizon))
        prefix = np.tri(horizon, R.shape[1], dtype=int)
        np.testing.assert_array_equal(L @ R, prefix)
        assert np.abs(L).max() == 1  # no node twice


def test_the_horizon_is_the_last_time_that_the_digits_reach():
    assert [(KaryCounter(T).base, KaryCounter(T).n_levels) for T in (1023, 65535)] == [(13, 3), (21, 4)]  # those of the paper
    for horizon in [*range(1, 100), 1023, 65535]:
        binary, kary = BinaryCounter(horizon), KaryCounter(horizon)
        assert 2 ** (binary.n_levels - 1) <= horizon < 2**binary.n_levels
        k, h = kary.base, kary.n_levels
        assert k % 2 == 1
        assert (k ** (h - 1) - 1) // 2 < horizon <= (k**h - 1) // 2
        assert h == 1 or k == 3 or ((k - 2) ** h - 1) // 2 < horizon  # no smaller branching would do


def worst_change(answer, pairs):
    """(l1, l2 squared, sup) of the largest change of an answer over pairs of streams: whole numbers."""
    moves = [np.abs(answer(a) - answer(b)).ravel().astype(object) for a, b in pairs]
    return max(m.sum() for m in moves), max((m * m).sum() for m in moves), max(m.max() for m in moves)


def in_another_cell():
    """All streams of 5 steps into 3 cells, and those with one event in another cell."""
    for cells in itertools.product(range(3), repeat=5):
        for step, cell in itertools.product(range(5), range(3)):
            yield one_hot(list(cells), 3), one_hot([*cells[:step], cell, *cells[step + 1 :]], 3)


def with_one_more():
    """All streams of 4 steps of at most one event into 2 cells, and those with an event more at a step."""
    for cells in itertools.product(range(3), repeat=4):
        x = one_hot(list(cells), 3)[:, :2]
        for step, cell in itertools.product(range(4), range(2)):
            yield x, x + np.outer(np.arange(4) == step, np.arange(2) == cell)


def in_one_cell():
    """All streams of 5 steps of none or 3 in one cell, and those with another count at a step."""
    for counts in itertools.product((0, 3), repeat=5):
        for step in range(5):
            yield np.array(counts)[:, None], np.array([*counts[:step], 3 - counts[step], *counts[step + 1 :]])[:, None]


def handed_over(kind, n_steps, sensitivity):
    """Return x -> all that a counter hands to its door; of the trees, which draw a node when it is read, all their nodes."""
    nodes = matrices(kind(n_steps))[1][:, :n_steps] if kind in TREES else None

    def answer(x):
        if nodes is not None:
            return nodes @ x
        counter, spy = make(kind, n_steps, n_counters=x.shape[1], sensitivity=sensitivity), Spy()
        counter.resume(spy)
        for counts in x:
            counter.update(counts)
        return np.array(spy.exact)

    known = cache(lambda flat: answer(np.array(flat).reshape(n_steps, -1)))
    return lambda x: known(tuple(x.ravel()))


TABLES = [(in_another_cell, 5, 2), (with_one_more, 4, 1), (in_one_cell, 5, 3)]
DENSE = [BinaryCounter, KaryCounter, SquareRootCounter, UnboundedCounter]


@pytest.mark.must
@pytest.mark.parametrize(
    ("kind", "pairs", "n_steps", "sensitivity"), [(kind, *table) for kind in DENSE for table in TABLES[: 2 if kind in BY_RHO else 3]]
)
def test_an_event_changes_a_counter_by_exactly_what_it_says(kind, pairs, n_steps, sensitivity):
    """The endless root, whose columns never end, has less than its bounds after few steps."""
    found = worst_change(handed_over(kind, n_steps, sensitivity), pairs())
    for relation in (RO, AR):
        moved = make(kind, n_steps, n_counters=3, sensitivity=sensitivity)._counter_sensitivity(relation)
        bounds = (moved.l1, moved.l2_squared, moved.sup)
        assert moved.relation == relation
        assert all(one <= bound for one, bound in zip(found, bounds, strict=True))
        if kind is not UnboundedCounter and pairs is in_another_cell:
            assert found[:1] == bounds[:1]
        elif kind not in BY_RHO or (kind is SquareRootCounter and pairs is with_one_more):
            assert found == bounds
    if kind is SquareRootCounter:  # the norm that its noise is made for
        assert found[1] == moved.l2_squared


@pytest.mark.parametrize("kind", COUNTERS)
def test_a_counter_under_add_or_remove_one_has_half_the_noise_of_an_event_that_moves(kind):
    """Of variance, for the square root, whose sensitivity is squared. There, when an event comes is private: steps must not tell it."""
    comes, moves = (
        make(kind, 40, 0.02, accountant=PrivacyAccountant(1, 1e-6, neighboring=relation), sensitivity=s)
        for relation, s in ((AR, 1), (RO, 2))
    )
    ratio = moves._door.noise.scale / comes._door.noise.scale
    assert ratio == 2 if kind not in BY_RHO else abs(ratio - math.sqrt(2)) < 1e-3
    assert comes._door.neighboring == AR
    for cells in ([0, 0], []):
        refuses(ValueError, r"update_cells takes a step of time for each event.*give update\(\)", comes.update_cells, cells)
    assert comes.n_steps == 0
    comes.update(0)
    assert comes.n_steps == 1


@pytest.mark.must
def test_moving_an_event_changes_one_comparison_of_sparse_counts_by_exactly_what_it_says():
    sensitivity = SparseCounter(5, n_counters=3, sensitivity=2)._counter_sensitivity()
    assert worst_change(lambda x: x.sum(axis=0), in_another_cell()) == (sensitivity.l1, sensitivity.l2_squared, sensitivity.sup)


@pytest.mark.parametrize("kind", COUNTERS)
def test_noise_and_loss_of_a_counter_are_made_of_its_change(kind):
    for epsilon, sensitivity in ((0.3, 1), (7, 2), (Fraction(1, 3), 3)):
        counter = make(kind, 40, epsilon, n_counters=2, sensitivity=sensitivity)
        moved, noise, loss = counter._counter_sensitivity(), counter._door.noise, counter._door.loss
        if kind in BY_RHO:
            spent, whole = moved.l2_squared / (2 * (noise.scale**2 - Fraction(5, 3))), loss.rho
            assert 0.999 * whole < spent <= whole
        else:
            spent, whole = moved.l1 / noise.scale, loss.epsilon
            assert spent == (whole / 2 if kind is SparseCounter else whole)  # its other half is for the counters of the segments


def test_noise_is_made_of_a_change_in_one_place():
    folder = Path(inspect.getfile(ContinualCounter)).parent
    calls = [node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    makers = ("mechanism", "DiscreteLaplace", "DiscreteGaussian", "laplace_scale", "gaussian_scale")
    assert [ast.unparse(call.func) for call in calls if ast.unparse(call.func) in makers] == ["mechanism"]


@pytest.mark.parametrize(("kind", "horizon"), [(BinaryCounter, 13), (KaryCounter, 20)])
def test_noise_at_two_times_is_that_of_their_nodes(kind, horizon):
    # 20,000 cells. An entry of the covariance matrix has standard deviation .016 of the root of the two variances at most
    # (kurtosis 6), so .13 is 8 of them. Fresh draws would leave nothing off the diagonal.
    counter = kind(horizon, n_counters=20_000, random_state=5)
    noise = values_along(counter, np.ones(horizon, dtype=int)) - np.arange(1, horizon + 1)[:, None]
    L, _, _ = matrices(counter)
    expected = (L @ L.T) * DiscreteLaplace(counter.n_levels / counter.epsilon).variance()
    deviation = np.sqrt(np.diag(expected))
    error = (np.cov(noise) - expected) / np.outer(deviation, deviation)
    assert np.abs(error).max() < 0.13
    assert np.abs(noise.mean(axis=1) / deviation).max() < 6.5 / math.sqrt(20_000)
    assert np.abs((expected - np.diag(deviation**2)) / np.outer(deviation, deviation)).max() > 0.3  # a shared node shows


@pytest.mark.parametrize("kind", COUNTERS)
def test_a_value_read_twice_is_the_same_and_does_not_depend_on_what_was_read_before(kind):
    often, once = (make(kind, 20, n_counters=20, random_state=3) for _ in range(2))
    for counter in (often, once):
        if kind is SparseCounter:
            counter.threshold = 0.0
    for _ in range(14):
        often.update(2)
        once.update(2)
        first = often.value
        np.testing.assert_array_equal(often.value, first)
    np.testing.assert_array_equal(once.value, first)
    assert len(np.unique(first)) > 1


def test_a_counter_followed_by_counts_is_what_it_becomes_when_it_counts_them_and_stays_as_it_was():
    counter = make(KaryCounter, 20, n_counters=3, random_state=0)
    counter.update([1, 0, 2])
    before, twin = counter.value, counter.followed_by([0, 5, 1])
    np.testing.assert_array_equal(counter.value, before)
    counter.update([0, 5, 1])
    np.testing.assert_array_equal(counter.value, twin.value)


@pytest.mark.parametrize("kind", COUNTERS)
def test_every_draw_has_a_name_of_its_own_and_what_trees_keep_stays_bounded(kind):
    stream = RecordingStream()
    counter = make(kind, 200, 50.0, n_counters=3, random_state=stream)
    for t in range(1, 201):
        counter.update(1)
        if t % 3:
            counter.value  # noqa: B018
        assert kind not in TREES or len(counter._kept) <= 2 * counter.base * counter.n_levels
    assert len(stream.names) == len(set(stream.names)) > 100


SPECIFIED = [(BinaryCounter, 63, 219), (BinaryCounter, 1023, 1001), (KaryCounter, 63, 46), (KaryCounter, 1023, 170)]


@pytest.mark.parametrize(("kind", "horizon", "expected"), SPECIFIED)
def test_the_mean_squared_error_is_the_specified_one(kind, horizon, expected):
    epsilon = Fraction(1, 100)  # of continuous noise, to 1e-5
    variance = kind(horizon, epsilon=epsilon)._noise().variance()
    n_draws = np.mean([sum(1 for _ in kind(horizon)._nodes(t)) for t in range(1, horizon + 1)])
    assert n_draws * variance * float(epsilon) ** 2 == pytest.approx(expected, rel=0.01)


def segments_law(scale, threshold):
    """Return (closes, stays): tuple of what came between comparisons -> probability that a segment ends just there, or is open.

    The segment holds N_1, N_2, ... at its comparisons, and closes at the first k with N_k + Lap_Z(scale) > threshold + Lap_Z(scale),
    where the right side is drawn once.
    """
    p = math.exp(-1 / scale)
    limits = np.arange(-math.ceil(80 * scale), math.ceil(80 * scale) + 1)
    mass = (1 - p) / (1 + p) * p ** np.abs(limits)

    def below(N):
        k = np.floor(threshold + limits - N)
        return np.where(k < 0, p ** np.abs(k) / (1 + p), 1 - p ** (np.abs(k) + 1) / (1 + p))

    def above(N):
        k = np.floor(threshold + limits - N)
        return np.where(k < 0, 1 - p ** np.abs(k) / (1 + p), p ** (np.abs(k) + 1) / (1 + p))

    @cache
    def still_open(parts):
        return mass if not parts else still_open(parts[:-1]) * below(sum(parts))

    @cache
    def closes(parts):
        return (still_open(parts[:-1]) * above(sum(parts))).sum()

    return closes, cache(lambda parts: still_open(parts).sum())


def segmentations(parts, closes, stays):
    """Return the probabilities of all segmentations: bit k - 1 of the index says that a segment ends at comparison k."""
    n, law = len(parts), []
    for pattern in range(2**n):
        probability, start = 1.0, 0
        for k in range(1, n + 1):
            if pattern >> (k - 1) & 1:
                probability, start = probability * closes(parts[start:k]), k
        law.append(probability * stays(parts[start:]))
    return np.array(law)


def between_comparisons(stream, every):
    return tuple(sum(stream[i : i + every]) for i in range(0, len(stream), every))


def loss_of_segmentation(scale, threshold, every=1):
    """Return the largest log-ratio of probabilities over all 0/1 streams of 6 steps, their neighbors and all segmentations."""
    laws = segments_law(scale, threshold)
    streams = itertools.product(range(2), repeat=6)
    logs = {stream: np.log(segmentations(between_comparisons(stream, every), *laws)) for stream in streams}
    return max(np.abs(log - logs[(*stream[:t], 1 - stream[t], *stream[t + 1 :])]).max() for stream, log in logs.items() for t in range(6))


@pytest.mark.must
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("threshold", ["own", -40, -10.5, -1, 0, 0.5, 2, 7.3])
def test_segments_cost_at_most_half_of_epsilon_and_can_cost_all_of_it(threshold, every):
    counter = SparseCounter(6, epsilon=1, every=every)
    threshold = counter.threshold if threshold == "own" else threshold
    lost = loss_of_segmentation(float(counter._noise().scale), threshold, every)
    assert (0.499 if threshold == -40 else 0) < lost <= 0.5 + 1e-9  # the larger of the two noises' costs, not their sum, and no less


@pytest.mark.must
@pytest.mark.parametrize("every", [1, 2])
def test_segments_close_with_the_law_of_the_programme(every):
    stream, n = (1, 0, 1, 1, 0, 1), 3000
    counter = SparseCounter(6, epsilon=2, n_counters=n, every=every, random_state=11)
    counter.threshold = 1.5
    pattern, before = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    for t, x in enumerate(stream, 1):
        counter.update(x)
        n_closed = np.zeros(n, dtype=int)
        n_closed[list(closed_in(counter))] = [segments.n_steps for segments in closed_in(counter).values()]
        if t % every == 0:
            pattern |= (n_closed - before) << (t // every - 1)
        else:
            np.testing.assert_array_equal(n_closed, before)
        before = n_closed
    observed = np.bincount(pattern, minlength=2 ** (6 // every))

    def p_value(scale):
        return chi_squared(observed, segmentations(between_comparisons(stream, every), *segments_law(scale, 1.5)))

    scale = float(counter._noise().scale)
    assert p_value(scale) > ALARM
    assert p_value(scale * 2 / 3) < CERTAIN
    assert p_value(scale * 3 / 2) < CERTAIN


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_half_of_epsilon_is_for_the_segments_and_half_for_their_counts(sensitivity):
    counter = SparseCounter(50, epsilon=0.7, sensitivity=sensitivity, n_counters=2, every=4, random_state=0)
    counter.threshold = -1000.0
    counter.update_cells([0] * 4)
    segments = closed_in(counter)[0]
    half = Fraction(7, 20)
    assert sensitivity / counter._noise().scale == half  # the larger of two equal costs, in each cell that changes
    assert sensitivity * segments.epsilon == half
    assert isinstance(segments, KaryCounter)
    assert segments.horizon == 13  # one segment every 4 steps at most


def test_a_sparse_value_changes_only_when_a_segment_closes():
    counter = SparseCounter(60, epsilon=2.0, n_counters=40)
    counter.threshold = 6.0
    value, closed, changes = counter.value, np.zeros(40, dtype=int), 0
    for _ in range(60):
        counter.update(1)
        now = np.array([closed_in(counter)[cell].n_steps if cell in closed_in(counter) else 0 for cell in range(40)])
        new_value = counter.value
        np.testing.assert_array_equal(new_value[now == closed], value[now == closed])
        changes += np.count_nonzero(new_value != value)
        value, closed = new_value, now
    assert 0 < changes <= closed.sum()


def test_the_threshold_is_the_documented_one():
    assert SparseCounter(1000, epsilon=0.5, sensitivity=2).threshold == pytest.approx(9 * math.log(1000) / 0.25)


@pytest.mark.parametrize("kind", ["kary", "binary"])
def test_a_level_ends_with_the_counters_own_value(kind):
    counter, accountant = InhomogeneousCounter(kind, n_counters=30), PrivacyAccountant(1)
    counter.start_level(10, 1, accountant)
    assert f"scale={counter._level[1].n_levels}" in accountant.ledger[0].describe()
    counter.update_cells(np.arange(10))
    value = counter.value
    for _ in range(2):  # the second time there is nothing more to end
        counter.end_level()
        np.testing.assert_array_equal(counter.value, value)


@pytest.mark.parametrize("kind", LEVELS)
def test_without_noise_levels_add_up_to_the_prefix_sum_and_the_history(kind):
    history, total = np.array([5, 0, 7]), np.array([5, 0, 7])
    counter = InhomogeneousCounter(kind, n_counters=3, history=history)
    np.testing.assert_array_equal(counter.value, history)
    rng, accountant = np.random.default_rng(0), PrivacyAccountant(math.inf)
    for horizon in (1, 4, 9):
        counter.start_level(horizon, math.inf, accountant)
        for i in range(horizon):
            cell = rng.integers(3)
            if i % 2:
                counter.update(one_hot(cell, 3))
            else:
                counter.update_cells([cell])
            total = total + one_hot(cell, 3)
            np.testing.assert_array_equal(counter.value, total)
    counter.start_level(8, math.inf, accountant)
    cells = rng.integers(3, size=8)
    counter.update_cells(cells)
    counter.end_level()
    np.testing.assert_array_equal(counter.value, total + np.bincount(cells, minlength=3))
    np.testing.assert_array_equal(history, [5, 0, 7])


@pytest.mark.parametrize("kind", LEVELS)
def test_a_level_is_one_entry_of_the_ledger_at_its_epsilon(kind):
    accountant = PrivacyAccountant(1.0)
    counter = InhomogeneousCounter(kind, name="levels")
    for epsilon in (0.1, 0.2, 0.7):
        counter.start_level(20, epsilon, accountant)
        for _ in range(20):
            counter.update(1)
            counter.value  # noqa: B018
    counter.end_level()
    assert [entry.loss.epsilon for entry in accountant.ledger] == [Fraction(1, 10), Fraction(1, 5), Fraction(7, 10)]
    assert ({entry.name for entry in accountant.ledger}, accountant.remaining) == ({"levels"}, 0)


def test_a_refused_level_leaves_the_present_one_open_and_a_value_is_no_part_of_it():
    counter = InhomogeneousCounter("sparse", every=3)
    counter.start_level(10, math.inf, PrivacyAccountant(math.inf))
    refuses(BudgetExceededError, "charge", counter.start_level, 4, 1, PrivacyAccountant(0.5))
    seen = []
    for _ in range(7):
        counter.update(1)
        value = counter.value
        seen.append(int(value[0]))
        value += 7
    assert seen == [0, 0, 3, 3, 3, 6, 6]
    counter.end_level()
    assert counter.value == 7


@pytest.mark.parametrize("kind", COUNTERS)
def test_a_counter_is_charged_once_and_exactly_whatever_is_read(kind):
    own = make(kind, 40, 0.3)._door._accountant
    accountant = PrivacyAccountant(5, 1e-6)
    counter = make(kind, 40, 0.3, n_counters=2, accountant=accountant, name="events")
    spent = accountant.spent
    if kind is SparseCounter:
        counter.threshold = -10.0
    values_along(counter, np.ones(40, dtype=int))
    (entry,) = accountant.ledger
    assert (entry.name, entry.loss.rho if kind in BY_RHO else entry.loss.epsilon, entry.randomness) == ("events", Fraction(3, 10), "secure")
    assert entry.sensitivity == counter._counter_sensitivity()
    assert entry.describe() == f"{type(counter._noise()).__name__}(scale={float(counter._noise().scale):.6g})"
    assert accountant.spent == spent == own.spent <= own.epsilon
    if kind not in BY_RHO:
        assert (entry.loss.delta, spent, own.epsilon) == (0, Fraction(3, 10), Fraction(3, 10))


@pytest.mark.parametrize("kind", BY_RHO)
@pytest.mark.parametrize("rho", [0.01, 0.3, math.inf])
def test_the_own_account_of_a_counter_in_rho_is_of_what_it_converts_to_at_a_millionth(kind, rho):
    accountant = make(kind, 10, rho)._door._accountant
    assert (accountant.epsilon, accountant.delta) == (epsilon_of_rho(rho, 1e-6, gaussian=True), Fraction(1, 10**6))


@pytest.mark.parametrize("kind", COUNTERS)
def test_an_accountant_too_small_refuses_before_anything_is_drawn(kind):
    accountant, stream = PrivacyAccountant(0.5, 1e-6), RecordingStream()
    refuses(BudgetExceededError, "charge", make, kind, 10, 0.6, accountant=accountant, random_state=stream)
    assert not accountant.ledger
    assert not stream.names
    assert not stream.drawn


def test_a_seed_shows_in_the_ledger():
    for random_state, randomness in ((None, "secure"), (0, "seeded"), (np.random.RandomState(0), "seeded"), (SeededBits(0), "seeded")):
        for kind in COUNTERS:
            (entry,) = make(kind, 10, random_state=random_state)._door._accountant.ledger
            assert entry.randomness == randomness


def test_names_keep_counters_of_one_seed_apart():
    first, second, third = (KaryCounter(5, n_counters=20, random_state=0, name=name) for name in ("a", "b", "a"))
    a, b, again = (values_along(counter, [0]) for counter in (first, second, third))
    assert np.any(a != b)
    np.testing.assert_array_equal(a, again)


@pytest.mark.parametrize("kind", [*COUNTERS, InhomogeneousCounter])
def test_what_is_no_size_no_budget_and_no_stream_is_refused(kind):
    accountant = PrivacyAccountant(1, 1e-6)
    needed = {"horizon": 5} if kind in BOUNDED else {}
    own = {"counter": "sparse"} if kind is InhomogeneousCounter else {"accountant": accountant}
    for number in (0, -1, 1.5, "3", None, True, 2**62 + 1, 10**25, np.timedelta64(1), np.zeros((30, 2))):
        for parameter in [*needed, "n_counters", "sensitivity", *(["every"] if kind in (SparseCounter, InhomogeneousCounter) else [])]:
            with pytest.raises(ValueError, match=f"{parameter} must be a") as caught:
                kind(**needed | own | {parameter: number})
            assert len(str(caught.value)) < 200
    with pytest.raises(ValueError, match=r"^n_counters must be so few that .*, but 1\d* counters hold up to .* GiB; count fewer"):
        kind(**dict.fromkeys(needed, 20000) | own, n_counters=10**12)
    if kind is not InhomogeneousCounter:
        for epsilon in (0, -1.0, math.nan, None):
            refuses((ValueError, TypeError), "rho must" if kind in BY_RHO else "epsilon must", make, kind, 5, epsilon)
        refuses(ValueError, "random_state must be None", make, kind, 5, random_state=np.random.default_rng(0))
    assert not accountant.ledger


def test_what_levels_cannot_count_is_refused_at_no_cost():
    accountant, counter = PrivacyAccountant(1), InhomogeneousCounter("kary")
    refuses(ValueError, "counter must be", InhomogeneousCounter, "square_root")
    for history in ([1.9], [1, 2], [[1]], ["a"], [2**63], [None]):
        with pytest.raises(ValueError, match=r"history must (hold a whole number for each of 1 counters|lie within)"):
            InhomogeneousCounter("kary", history=history)
    refuses(ValueError, "horizon must be a positive integer", counter.start_level, 0, 1, accountant)
    assert accountant.spent == 0
    counter.start_level(4, math.inf, PrivacyAccountant(math.inf))
    refuses(ValueError, "x must lie within", counter.update, 2**63)
    counter.update(np.array([1], dtype=np.uint64))
    assert counter.value == 1


@pytest.mark.parametrize("kind", COUNTERS)
def test_what_is_no_count_or_cell_or_comes_too_late_or_could_overflow_is_refused_and_changes_nothing(kind):
    """What fits into 64 bits, whatever has come before, is a public rule."""
    counter = make(kind, 10, math.inf, n_counters=2)
    counter.update(np.array([True, False]))
    for x in (1.0, [0.5, 1.0], ["a", "b"], None, np.array([1, 2, 3]), np.array([[1, 2], [3, 4]]), np.array([], dtype=int)):
        refuses(ValueError, "x must hold a whole number", counter.update, x)
    for x in (2**63, -(2**63) - 1, 2**64 - 1, np.uint64(2**64 - 1), 10**30, 2**60, -(2**60), np.uint64(2**63), 2**62, -(2**63)):
        refuses(ValueError, "x must", counter.update, x)
    for cells in ([2], [0, 2], [0.5, 1.0], [-1], [True], [[0, 1]], [0, 1, 2]):
        with pytest.raises((IndexError, ValueError, TypeError)):
            counter.update_cells(cells)
    if kind in BOUNDED:
        refuses(ValueError, "horizon is 10 steps, and 1 are past: 10 more are too many", counter.update_cells, [0, 1] * 5)
    assert counter.n_steps == 1
    np.testing.assert_allclose(counter.value, [1, 0])


@pytest.mark.parametrize("kind", BOUNDED)
def test_the_largest_counts_that_are_taken_add_up_exactly(kind):
    counter = make(kind, 10, math.inf)
    largest = counter._largest()
    assert largest == 2**62 // 10 or kind is SquareRootCounter
    for t in range(1, 11):
        counter.update(largest)
        assert counter.value == pytest.approx(t * largest, rel=0 if kind is not SquareRootCounter else 1e-9)
    refuses(ValueError, "horizon is 10 steps, and 10 are past: 1 more are too many", counter.update, 1)
    refuses(ValueError, f"within {largest} of 0", make(kind, 10, math.inf).update, largest + 1)


def test_the_text_of_a_counter_shows_nothing_that_was_counted():
    for kind in COUNTERS:
        counter = make(kind, 7, n_counters=3, random_state=0)
        counter.update(123_456)
        assert repr(counter) == f"{kind.__name__}({'horizon=7, ' * (kind in BOUNDED)}n_counters=3, n_steps=1)"
    levels = make("kary", 7, n_counters=2, history=[41, 43])
    levels.update(123_456)
    assert repr(levels) == "InhomogeneousCounter('kary', n_counters=2)"


def assert_no_door(state):
    for secret in (b"StandingRelease", b"PrivacyAccountant", b"SeededBits", b"SecureBits", b"Generator"):
        assert secret not in state


def charged_again(counter, rng):
    """What a counter resumes with: a charge of its own."""
    return PrivacyAccountant(100, 1e-6).standing(counter._noise(), rng, name="again", loss=counter._loss())


@pytest.mark.parametrize("kind", COUNTERS)
def test_a_loaded_counter_has_no_door_until_it_resumes_and_then_the_noise_that_it_had(kind):
    counter = make(kind, 30, n_counters=50)
    if kind is SparseCounter:
        counter.threshold = 0.0
    for _ in range(11):
        counter.update(1)
    for _ in range(3):  # also what was loaded, before anything comes
        state, value = pickle.dumps(counter), counter.value  # which nobody had read
        assert_no_door(state)
        counter = pickle.loads(state)
        refuses(ValueError, r"call resume\(\) to go on", counter.update, 1)
        assert counter.n_steps == 11
        counter.resume(charged_again(counter, SecureBits()))
        np.testing.assert_array_equal(counter.value, value)


@pytest.mark.parametrize("kind", [BinaryCounter, *BY_RHO])
def test_a_loaded_counter_of_blocks_that_are_over_goes_on_with_the_noise_it_had_under_one_seed(kind):
    stream = np.random.default_rng(1).integers(0, 3, size=(30, 4))
    straight, saved = (make(kind, 30, 5.0, n_counters=4, random_state=SeededBits(16)) for _ in range(2))
    expected = values_along(straight, stream)
    first = values_along(saved, stream[:17])
    loaded = from_bytes(to_bytes(saved))
    loaded.resume(charged_again(loaded, SeededBits(16)))
    np.testing.assert_array_equal(np.vstack([first, values_along(loaded, stream[17:])]), expected)


@pytest.mark.parametrize(("kind", "epsilon"), [("kary", math.inf), ("binary", 30.0), ("sparse", math.inf)])
def test_loaded_levels_go_on_as_those_that_were_never_saved(kind, epsilon):
    cells, accounts = np.random.default_rng(2).integers(0, 3, size=12), [PrivacyAccountant(math.inf) for _ in range(2)]
    own = {"n_counters": 3, "history": [1, 2, 3], "random_state": SeededBits(17)}
    straight, saved = (make(kind, 12, epsilon, accountant=accountant, **own) for accountant in accounts)
    for counter in (straight, saved):
        counter.update_cells(cells[:5])
        counter.value  # noqa: B018
    loaded, accountant = from_bytes(to_bytes(saved)), accounts[1].record().reopen()
    loaded.resume(accountant, SeededBits(17))
    for counter in (straight, loaded):
        counter.update_cells(cells[5:])
    np.testing.assert_array_equal(loaded.value, straight.value)
    for counter in (straight, loaded):
        counter.end_level()
    np.testing.assert_array_equal(loaded.value, straight.value)
    assert len(accountant.ledger) == 1


@pytest.mark.parametrize("kind", LEVELS)
def test_a_level_that_was_loaded_does_not_end_before_it_resumes(kind):
    """Its counts would be lost."""
    state, accountant = pickle.dumps(make(kind, 9)), PrivacyAccountant(1)
    assert_no_door(state)
    loaded = pickle.loads(state)
    for end in (loaded.end_level, lambda: loaded.start_level(9, 1, accountant)):
        refuses(ValueError, r"call resume\(\) to go on", end)
    assert accountant.spent == 0


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_sparse_levels_draw_the_noise_that_their_half_of_the_budget_needs(sensitivity, monkeypatch):
    """Limits and queries at half of epsilon, of which they are a half; the total at the other half; per cell that changes."""
    drawn = {}
    real = ContinualRelease.release

    def release(self, values, name):
        drawn[name.rsplit(": ")[-1].rsplit(", ")[-1]] = (self.noise.scale, self.loss)
        return real(self, values, name)

    monkeypatch.setattr(ContinualRelease, "release", release)
    counter, accountant = InhomogeneousCounter("sparse", n_counters=3, sensitivity=sensitivity), PrivacyAccountant(1)
    counter.start_level(20, 1, accountant)
    assert counter.epsilon == 1
    for _ in range(20):
        counter.update_cells([0])
    counter.end_level()
    half = PrivacyLoss(Fraction(1, 2))
    assert drawn["first limits"] == drawn["queries"] == (4 * sensitivity, half)
    assert drawn["total"] == (2 * sensitivity, half)
    assert dict(accountant.ledger[0].sensitivity.statistic)["total_scale"] == 2 * sensitivity
    assert dict(counter._total_sensitivity().statistic) == {"kind": "total_over_time", "sensitivity": sensitivity}
    assert counter.epsilon is None
