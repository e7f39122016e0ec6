"""A stream whose number of rows is private: time is counted in ticks, and a row more or less shifts nothing."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from estimators import Recorder
from internals import depth_shares, difference, entries_of, fixed_bits, pair_loss, released_state, watch_releases
from laws import refuses

from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism, SignedMeasureMechanism, load
from skdpsynth.continual import InhomogeneousCounter
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer

AR = "add_or_remove_one"
INF = float("inf")
BLOCKS = {
    "blocks": {},
    "blocks-2": {"growth": 2},
    "blocks-auto": {"growth": "auto"},
    "blocks-window": {"window": 5},
    "psmm": {"synthesizer": SignedMeasureMechanism(20)},
}
PAPER = {counter: {"strategy": "paper", "counter": counter} for counter in ("kary", "binary", "sparse")}
each_way = pytest.mark.parametrize("setting", [*BLOCKS.values(), *PAPER.values()], ids=[*BLOCKS, *PAPER])
each_counter = pytest.mark.parametrize("counter", PAPER)


def online(setting=(), **more):
    return OnlineSynthesizer(neighboring=AR, **{**dict(setting), **more})


def ticks_of(n_ticks, d=2, mean=40, seed=0):
    """Rows of each tick: Poisson numbers of them, and every fourth tick has none."""
    rng = np.random.default_rng(seed)
    return [rng.beta(2, 5, size=(0 if t % 4 == 3 else rng.poisson(mean), d)) for t in range(n_ticks)]


def fed(model, ticks):
    for X in ticks:
        model.partial_fit(X)
    return model


def neighbors_of(ticks, d):
    """The stream with a row more in some tick: in a corner, and first, in the middle or last among its rows."""
    for place, corner, at in ((0, 0.0, 0), (3, 0.4, 1), (9, 1.0, 0.5), (len(ticks) - 1, 0.4, 1)):
        more = np.insert(ticks[place], int(at * len(ticks[place])), np.full(d, corner), axis=0)
        yield place, [*ticks[:place], more, *ticks[place + 1 :]]


def along(setting, ticks, door):
    """All that can be seen of a stream after each of its ticks; what passed the door is in ``door.draws``."""
    model, seen = online(setting, epsilon=Fraction(3, 2)), []
    with fixed_bits():
        for X in ticks:
            model.partial_fit(X)
            n_draws = len(door.draws)
            ledger = [(entry.name, str(entry.loss), entry.group) for entry in entries_of(model.accountant_)]
            seen.append({**released_state(model), "ledger": ledger, "draws": n_draws, "repr": repr(model) + repr(vars(model).keys())})
    return model, seen


@pytest.mark.must
@pytest.mark.parametrize(("name", "d"), list(zip([*BLOCKS, *PAPER], (1, 2, 2, 1, 2, 2, 1, 2), strict=True)))
def test_a_row_more_leaves_all_that_is_seen_as_it_was_given_the_same_answers_and_costs_one_block_at_most_epsilon(name, d):
    ticks = ticks_of(14, d)
    setting = (BLOCKS | PAPER)[name]
    with watch_releases() as door:
        _, expected = along(setting, ticks, door)
        answers = door.take()
        door.replay(answers)
        for place, neighbor in neighbors_of(ticks, d):
            model, found = along(setting, neighbor, door)
            for before, after in zip(expected, found, strict=True):
                assert difference(before, after) is None
            again = door.take()
            assert len(again) == len(answers)
            if name in PAPER:
                continue
            lost = [pair_loss(*pair).epsilon for pair in zip(answers, again, strict=True)]
            changed = [i for i, epsilon in enumerate(lost) if epsilon]
            is_open = place >= model._stream.begun
            assert sum(lost) <= Fraction(3, 2)
            assert (not changed) == is_open
            # The releases of one block follow one another, and begin with its number of rows.
            names = [answers[i].name for i in range(min(changed, default=0), max(changed, default=-1) + 1)]
            assert names.count("number of rows") == (not is_open)


def edges_by_the_rule(n_ticks, growth, window=None):
    edges = [0]
    while True:
        before = edges[-1] if window is None else min(edges[-1], window)
        edges.append(edges[-1] + max(1, math.floor((Fraction(growth) - 1) * before)))
        if edges[-1] > n_ticks:
            return edges[:-1]


@pytest.mark.parametrize("growth", [1.25, 2, 4])
@pytest.mark.parametrize("window", [None, 12])
@pytest.mark.parametrize("mean", [0, 1, 60])
def test_blocks_end_at_ticks_that_follow_from_their_number_alone(growth, window, mean):
    model = fed(online(growth=growth, window=window), ticks_of(60, mean=mean))
    ends = [stop for _, stop, _ in model._stream.blocks]
    wanted = edges_by_the_rule(60, growth, window)[1:]
    assert ends == wanted[-len(ends) :]
    assert window is not None or ends == wanted
    assert model._stream.n_seen - model._stream.begun <= (1 - 1 / growth) * 60 + 1


def test_auto_makes_longer_blocks_of_ticks_that_have_fewer_rows():
    """By the numbers of rows that were released: 4 t**(1/2) * (rate * epsilon)**(-1/2), at most t / 4."""

    def longest(mean):
        model = fed(online(growth="auto", epsilon=5), ticks_of(100, d=1, mean=mean))
        return max(stop - start for start, stop, _ in model._stream.blocks)

    assert longest(300) < longest(20) < longest(1)
    model = fed(online(growth="auto", epsilon=INF), ticks_of(3, d=1, mean=100))
    assert model._stream._rows_per_time == pytest.approx(model.n_samples_seen_ / 3, abs=1)


@pytest.mark.must
@each_counter
@pytest.mark.parametrize("d", [1, 2])
def test_a_row_more_moves_one_cell_of_each_depth_by_one_at_one_tick(counter, d, monkeypatch):
    """All that the counters are ever given."""
    given = []
    update = InhomogeneousCounter.update
    monkeypatch.setattr(InhomogeneousCounter, "update", lambda self, x: given.append(np.array(x)) or update(self, x))
    ticks = ticks_of(12, d, mean=3)
    fed(online(PAPER[counter], epsilon=2), ticks)
    first = given.copy()
    for _, neighbor in neighbors_of(ticks, d):
        given.clear()
        fed(online(PAPER[counter], epsilon=2), neighbor)
        moves = [second - one for one, second in zip(first, given, strict=True)]
        moved = [x for x in moves if x.any()]
        assert [len(x) for x in moved] == [2**depth for depth in reversed(range(len(moved)))]  # every depth, and the number of rows
        assert all(x.sum() == 1 and np.abs(x).sum() == 1 for x in moved)


def nodes_over(counter, steps):
    """R: which nodes of all times up to a horizon hold each step, shape (n_nodes, n_steps), by the definition of a node."""
    inside = {}
    for t in range(1, steps + 1):
        for level, index, _ in counter._nodes(t):
            inside[level, index] = [counter.base**level * index <= step < counter.base**level * (index + 1) for step in range(steps)]
    return np.array(list(inside.values()), dtype=int)


@pytest.mark.parametrize("counter", ["kary", "binary"])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 3])
def test_the_nodes_of_all_depths_that_a_row_is_in_cost_epsilon(counter, d, epsilon):
    """Brute force: every tick of a level of time and every cell that a row may be added to; nodes of all depths, over their scales."""
    tree = fed(online(PAPER[counter], epsilon=epsilon), ticks_of(20, d, mean=2))._stream
    depth, worst = tree._partition.depth, Fraction(0)
    parts = [each._level[1] for each in tree.counters]
    assert [part.n_counters for part in parts] == [2**j for j in range(depth + 1)]
    paths = [nodes_over(part, part.horizon) for part in parts]
    for tick, cell in itertools.product(range(parts[0].horizon), range(2**depth)):
        loss = Fraction(0)
        for j, (part, R) in enumerate(zip(parts, paths, strict=True)):
            x = np.zeros((part.horizon, part.n_counters), dtype=int)
            x[tick, cell >> (depth - j)] = 1
            loss += Fraction(int(np.abs(R @ x).sum())) / part._door.noise.scale
        worst = max(worst, loss)
    shares = depth_shares(Fraction(epsilon), depth, d, 0)
    assert worst <= sum(shares) <= epsilon
    assert d == 1 or sum(shares) == epsilon
    assert worst > 0.8 * sum(shares)  # a tick that is in a node of every level


@each_way
def test_the_order_of_rows_within_a_tick_and_how_they_lie_in_memory_mean_nothing(setting, tmp_path):
    rng, ticks = np.random.default_rng(3), ticks_of(12)
    expected = released_state(fed(online(setting, random_state=1), ticks))
    for make in (rng.permutation, np.asfortranarray, lambda X: [X[:7], X[7:7], X[7:]]):  # the last are chunks of one tick
        assert difference(expected, released_state(fed(online(setting, random_state=1), map(make, ticks)))) is None


@each_way
def test_a_stream_of_no_rows_at_all_works(setting):
    model = fed(online(setting, horizon=20), [np.empty((0, 2))] * 20)
    assert model.n_ticks_seen_ == 20
    assert model.n_samples_ >= 1
    assert model.sample(9).shape == (9, 2)
    assert model.sample().shape == (model.n_samples_, 2)
    refuses(ValueError, "horizon is 20 ticks, 20 have come, and 1 more would pass it", model.partial_fit, np.empty((0, 2)))


def test_a_window_and_since_count_ticks_and_sum_released_numbers():
    numbers = list(range(20, 50))
    model = fed(online(window=6, epsilon=INF), [np.full((n, 2), 0.5) for n in numbers])
    assert model.n_samples_seen_ == sum(numbers)
    assert model.n_samples_ == pytest.approx(sum(numbers[-6:]), abs=1)
    assert len(model.sample()) == model.n_samples_
    assert len(model.sample(since=27)) == pytest.approx(sum(numbers[27:]), abs=1)
    for bad in (23, 30, 1.5):
        refuses(ValueError, "since must be a tick of the stream from 24 to 29", model.sample, since=bad)


def test_blocks_are_weighed_by_their_released_numbers_and_the_open_one_by_the_rate_of_the_last():
    model = online(growth=2, epsilon=INF)
    for n, x in ((100, 0.1), (300, 0.3), (200, 0.6), (400, 0.6), (7, 0.9)):
        model.partial_fit(np.full((n, 1), x))
    # Blocks: tick 0, tick 1, ticks 2 and 3; tick 4 is open, so the last block counts 600 * 3 / 2.
    assert model.n_samples_ == 100 + 300 + 900
    sample = model.sample(13_000).ravel()
    for x, share in ((0.1, 1000), (0.3, 3000), (0.6, 9000)):
        assert np.sum(np.abs(sample - x) < 0.05) == pytest.approx(share, abs=2)


PARTS = [PrivateMeasureMechanism("paper"), LowDimSynthesizer(1), LatentFactorSynthesizer(), LatentFactorSynthesizer(strategy="scores")]


@pytest.mark.parametrize("setting", [*BLOCKS.values(), *PAPER.values(), *({"synthesizer": part} for part in PARTS)])
def test_the_ledger_says_epsilon_and_names_ticks_alone(setting):
    shared = PrivacyAccountant(Fraction(1, 3), neighboring=AR)
    model = fed(online(setting, epsilon=Fraction(1, 3), accountant=shared), [X[:, [0, 1, 0]] for X in ticks_of(25)])
    assert shared.spent == Fraction(1, 3) == model.accountant_.spent
    names = [entry.name for entry in model.accountant_.ledger]
    assert all(name.startswith("ticks ") or name == "blocks that the window left behind" for name in names)
    assert {entry.neighboring for entry in entries_of(model.accountant_)} == {AR}
    assert model.sample(10).shape == (10, 3)


@each_way
def test_a_saved_stream_goes_on_at_its_tick(setting, tmp_path):
    ticks = ticks_of(20)
    model = fed(online(setting), ticks[:11])
    model.save(tmp_path / "stream.zip")
    for again in (pickle.loads(pickle.dumps(model)), load(tmp_path / "stream.zip")):
        assert difference(released_state(model), released_state(again)) is None
        fed(again, ticks[11:])
        assert again.n_ticks_seen_ == 20
        assert again.accountant_.spent == 1
        assert "resumed from a copy at tick 11: another that goes on is a release of its own" in [e.name for e in again.accountant_.ledger]


def test_a_synthesizer_that_may_tell_its_number_of_rows_is_refused_before_the_charge():
    shared = PrivacyAccountant(1, neighboring=AR)
    with pytest.raises(ValueError, match="synthesizer must derive from PrivateSynthesizer for neighboring"):
        online(synthesizer=Recorder(), accountant=shared).fit(ticks_of(1)[0])
    assert shared.spent == 0
