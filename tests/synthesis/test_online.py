"""Synthetic data from a stream: what is public about time, what a row can change, and what it costs."""

import copy
import itertools
import math
import pickle
import threading
import warnings
from datetime import UTC, datetime
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import GrowingTree, _ledger, shares_of_depths
from laws import calls_of
from sklearn.base import BaseEstimator, clone

from skdpsynth import LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.continual import BinaryCounter, KaryCounter
from skdpsynth.domain import Box
from skdpsynth.exceptions import BudgetExceededError
from skdpsynth.fitting import Budget
from skdpsynth.metrics import wasserstein_distance
from skdpsynth.privacy import StandingRelease, check_epsilon, check_rng

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning", "ignore::skdpsynth.exceptions.BudgetWarning"),
]
SETTINGS = {
    "blocks": {},
    "blocks-2": {"growth": 2},
    "blocks-auto": {"growth": "auto"},
    "blocks-window": {"window": 150},
    "paper-kary": {"strategy": "paper"},
    "paper-binary": {"strategy": "paper", "counter": "binary"},
    "paper-sparse": {"strategy": "paper", "counter": "sparse"},
}
each_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
each_strategy = pytest.mark.parametrize("setting", [SETTINGS["blocks"], SETTINGS["paper-kary"]], ids=["blocks", "paper"])


class Recorder(BaseEstimator):
    """No privacy at all: keeps the rows of its block, and repeats the first of them."""

    seen: list = []  # noqa: RUF012

    def __init__(self, epsilon=1.0, delta=0.0, bounds=(0, 1), neighboring="replace_one", accountant=None, random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X, y=None):
        self.first_ = np.asarray(X, dtype=float)[:1]
        if self.accountant is not None:  # else it is a rehearsal
            Recorder.seen.append(np.asarray(X, dtype=float))
        return self

    def sample(self, n_samples, random_state=None):
        return np.repeat(self.first_, n_samples, axis=0)


@pytest.fixture
def blocks():
    """The rows of each block that a `Recorder` was given, in order."""
    Recorder.seen = []
    return Recorder.seen


def clock(n, d=1):
    """A stream that tells the time: row t holds (t + 1/2) / n."""
    return np.repeat((np.arange(n) + 0.5)[:, None] / n, d, axis=1)


def stream_of(n, d=2, seed=0):
    return np.random.default_rng(seed).beta(2, 5, size=(n, d))


def edges_by_the_rule(n, d, epsilon, growth, window=None):
    """Where blocks end, by the documented rule, among the first n rows."""
    edges = [0]
    while True:
        before = edges[-1] if window is None else min(edges[-1], window)
        if growth == "auto":
            size = math.floor(min(4 * before ** (d / (d + 1)) * float(epsilon) ** (-1 / (d + 1)), before / 4))
        else:
            size = math.floor((Fraction(growth) - 1) * before)
        edges.append(edges[-1] + max(16, math.ceil(16 / Fraction(epsilon)), size))
        if edges[-1] > n:
            return edges[:-1]


@pytest.fixture
def still(monkeypatch):
    """A clock that stands still: the ledger tells when it was charged."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(_ledger, "datetime", SimpleNamespace(now=lambda zone: now))
    monkeypatch.setattr(_ledger, "new_id", lambda: "one id")


def public(model):
    """All that a caller can see without a private name, for one seed of the sample."""
    facts = {name: value for name, value in vars(model).items() if not name.startswith("_")}
    facts["accountant_"] = [str(entry) for entry, _ in model.accountant_.lines()]
    return facts, model.sample(120, random_state=3).tobytes(), repr(model)


# One row or many


@each_setting
def test_one_row_at_a_time_odd_batches_and_one_call_give_the_same(setting):
    X = stream_of(700)
    cuts = [0, 1, 2, 9, 9 + 16, 150, 411, 700]
    whole, batches, single = (OnlineSynthesizer(random_state=5, **setting) for _ in range(3))
    whole.fit(X)
    for start, stop in itertools.pairwise(cuts):
        batches.partial_fit(X[start:stop])
    for row in X:
        single.partial_fit(row[None])
    assert public(whole) == public(batches) == public(single)
    more = stream_of(300, seed=1)  # what is not seen yet is the same too
    assert len({public(model.partial_fit(more))[1] for model in (whole, batches, single)}) == 1


@each_setting
def test_sampling_along_the_way_changes_nothing_later(setting):
    X = stream_of(600)
    quiet, curious = (OnlineSynthesizer(random_state=5, **setting) for _ in range(2))
    for start in range(0, 600, 25):
        quiet.partial_fit(X[start : start + 25])
        curious.partial_fit(X[start : start + 25]).sample(7)
    assert public(quiet) == public(curious)


@each_setting
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_and_arrays_of_a_stream_give_the_same(setting, kind):
    X = stream_of(300)
    array, frame = (OnlineSynthesizer(random_state=5, **setting) for _ in range(2))
    for start in (0, 37, 211):
        stop = {0: 37, 37: 211, 211: 300}[start]
        array.partial_fit(X[start:stop])
        frame.partial_fit(kind({"a": X[start:stop, 0], "b": X[start:stop, 1]}))
    sample = frame.sample(100, random_state=0)
    assert isinstance(sample, kind)
    assert list(sample.columns) == ["a", "b"] == frame.feature_names_in_.tolist()
    assert np.array_equal(array.sample(100, random_state=0), sample.to_numpy())


@each_strategy
@pytest.mark.parametrize("dtype", [np.int16, np.uint8, bool, np.float32])
def test_arrays_of_a_stream_keep_the_dtype_of_the_first_rows(setting, dtype):
    X = np.random.default_rng(0).integers(0, 2, (200, 2)).astype(dtype)
    model = OnlineSynthesizer(**setting).partial_fit(X[:5]).partial_fit(X[5:].astype(float))
    sample = model.sample()
    assert sample.dtype == dtype
    assert set(np.unique(sample.astype(float))) <= {0, 1} or dtype == np.float32


@each_strategy
def test_whole_numbers_and_truth_values_in_frames_keep_their_dtypes(setting):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": pd.array(rng.integers(0, 9, 200), dtype="Int8"), "b": pd.array(rng.random(200) < 0.5, dtype="boolean")})
    model = OnlineSynthesizer(bounds={"a": (0, 8), "b": (0, 1)}, **setting)
    sample = model.partial_fit(frame[:50]).partial_fit(frame[50:]).sample()
    assert sample.dtypes.equals(frame.dtypes)
    assert len(sample) == 200
    assert set(sample["a"]) <= set(range(9))


# Blocks: time is public


@pytest.mark.parametrize("epsilon", [0.125, 1, 4, float("inf")])
@pytest.mark.parametrize(("growth", "window"), [(1.25, None), (2, None), (1.5, 200), ("auto", None), ("auto", 300)])
@pytest.mark.parametrize("d", [1, 3])
def test_blocks_end_where_the_public_rule_says(epsilon, growth, window, d, blocks):
    if epsilon == float("inf"):
        expected = edges_by_the_rule(3000, d, 10**300, growth, window)
    else:
        expected = edges_by_the_rule(3000, d, epsilon, growth, window)
    X = clock(3000, d)
    OnlineSynthesizer(synthesizer=Recorder(), epsilon=epsilon, growth=growth, window=window).fit(X)
    assert np.cumsum([0, *map(len, blocks)]).tolist() == expected


@pytest.mark.parametrize("growth", [1.25, 3, "auto"])
def test_blocks_are_disjoint_and_hold_all_rows_but_the_open_ones(growth, blocks):
    n = 2000
    OnlineSynthesizer(synthesizer=Recorder(), growth=growth).fit(clock(n))
    times = [sorted(np.floor(block[:, 0] * n).astype(int)) for block in blocks]
    covered = list(itertools.chain(*times))
    assert covered == list(range(len(covered)))
    assert covered == list(range(edges_by_the_rule(n, 1, 1, growth)[-1]))


@pytest.mark.parametrize("growth", [1.25, 1.5, 2, 4])
@pytest.mark.parametrize("epsilon", [0.25, 1])
def test_the_open_block_holds_at_most_a_share_of_one_less_one_over_growth(growth, epsilon, blocks):
    OnlineSynthesizer(synthesizer=Recorder(), growth=growth, epsilon=epsilon).fit(clock(20_000))
    edges = np.cumsum([0, *map(len, blocks)])
    start = 16 / epsilon / (growth - 1)  # from here on blocks are longer than the first
    shares = [(stop - before) / stop for before, stop in itertools.pairwise(edges) if before >= start]
    assert len(shares) > 3
    assert max(shares) <= 1 - 1 / growth + 1e-12
    assert max(shares) > 0.9 * (1 - 1 / growth)


@pytest.mark.parametrize("d", [1, 2])
def test_the_lag_of_auto_tends_to_zero(d, blocks):
    """At 10**3, 10**4, 10**5 rows: at most 4 t**(-1 / (d + 1)), and a block's worth of rounding."""
    OnlineSynthesizer(synthesizer=Recorder(), growth="auto").fit(clock(110_000, d))
    edges = np.cumsum([0, *map(len, blocks)])
    lags = []
    for t in (10**3, 10**4, 10**5):
        before, stop = next((a, b) for a, b in itertools.pairwise(edges) if b >= t)
        lags.append((stop - before) / stop)
        assert lags[-1] <= min(0.2, 4 * t ** (-1 / (d + 1))) + 1e-12
    assert lags[0] > lags[1] > lags[2]
    assert lags[2] < (0.09 if d == 2 else 0.013)


@pytest.mark.parametrize("n_open", [1, 2, 10])
def test_nothing_released_depends_on_the_open_block(n_open):
    edge = edges_by_the_rule(400, 2, 1, 1.25)[-1]
    X = stream_of(edge + n_open)
    Y = X.copy()
    Y[edge:] = 1 - X[edge:]
    first, second = (OnlineSynthesizer(random_state=5).fit(Z) for Z in (X, Y))
    assert public(first) == public(second)
    assert first.sample(random_state=0, since=edge - 1).tobytes() == second.sample(random_state=0, since=edge - 1).tobytes()
    frames = [model.accountant_.to_frame().drop(columns="time") for model in (first, second)]
    assert frames[0].equals(frames[1])


def test_the_representation_of_a_stream_shows_no_open_row():
    model = OnlineSynthesizer(bounds=(0, 100_000), random_state=0).fit(np.full((5, 1), 31415.0))
    steps = 31415 * 2**30 // 100_000
    assert "31415" not in repr(vars(model))
    assert str(steps)[:6] not in repr(vars(model))


def test_blocks_are_shown_by_their_sizes():
    model = OnlineSynthesizer().fit(np.random.default_rng(0).random((400, 2)))
    blocks = model._stream.blocks
    assert repr(model._stream) == f"Blocks(n_features=2, n_blocks={len(blocks)}, n_seen=400, n_open={400 - blocks[-1][1]})"


def test_samples_are_uniform_before_the_first_block_is_full():
    """15 rows at one point: the mean of 4000 uniform rows is within .03 of the middle, six standard errors."""
    model = OnlineSynthesizer(bounds=(2, 4)).fit(np.full((15, 2), 2.0))
    sample = model.sample(4000, random_state=0)
    assert np.abs(sample.mean(axis=0) - 3).max() < 0.06
    assert sample.min() >= 2
    assert sample.max() <= 4
    assert model.accountant_.spent == 0


# What a row can change


@pytest.fixture
def replay(monkeypatch):
    """All that goes through both doors. The first run is recorded; in later ones the noisy values of the first come out again.

    Returns the list of runs, each a list of (door, accountant, exact values, noise, loss of the door).
    """
    runs, losses = [], {}
    release, standing, stand = PrivacyAccountant.release, StandingRelease.release, PrivacyAccountant.standing
    summed, part = StandingRelease.release_nodes, StandingRelease.part

    def again(door, accountant, values, noisy, noise, loss):
        noisy = runs[0][len(runs[-1])][-1] if len(runs) > 1 else noisy
        assert noisy.shape == values.shape
        runs[-1].append((door, accountant, np.array(values), noise, loss, noisy))
        return noisy

    def through_release(self, values, noise, rng, **keywords):
        noisy = release(self, values, noise, rng, **keywords)
        return again(self, self, values, noisy, noise, keywords.get("loss"))

    def whole(door):
        """The door of the charge that a part of it belongs to."""
        return losses.get(id(door), (None, None, door))[2]

    def through_standing(self, values, name):
        return again(whole(self), self._accountant, values, standing(self, values, name), None, losses[id(whole(self))][0])

    def through_nodes(self, values, nodes, kept):
        return again(whole(self), self._accountant, values, summed(self, values, nodes, kept), None, losses[id(whole(self))][0])

    def charged(self, noise, rng, *, name, loss=None, change=None):
        door = stand(self, noise, rng, name=name, loss=loss, change=change)
        losses[id(door)] = (loss.epsilon, door, door)  # keeps the door, so that no other gets its id
        return door

    def parted(self, noise, loss, change):
        door = part(self, noise, loss, change)
        losses[id(door)] = (None, door, whole(self))
        return door

    monkeypatch.setattr(PrivacyAccountant, "release", through_release)
    monkeypatch.setattr(StandingRelease, "release", through_standing)
    monkeypatch.setattr(StandingRelease, "release_nodes", through_nodes)
    monkeypatch.setattr(StandingRelease, "part", parted)
    monkeypatch.setattr(PrivacyAccountant, "standing", charged)
    return runs


def watched(replay, setting, X, every, **more):
    """Run a stream, sampled along the way; return all that is public about it."""
    replay.append([])
    model = OnlineSynthesizer(**setting, **more)
    seen = []
    for start in range(0, len(X), every):
        seen.append(public(model.partial_fit(X[start : start + every])))
    return seen


def differences(replay):
    """(number of the door in order of use, accountant, L1 distance, loss, exact loss of this call) of releases that differ."""
    order: dict = {}
    out = []
    for (door, accountant, a, noise, loss, _), (_, _, b, _, _, _) in zip(replay[0], replay[-1], strict=True):
        number = order.setdefault(id(door), len(order))
        delta = np.abs(a - b)
        if delta.any():
            exact = None
            if hasattr(noise, "scale"):
                scales = np.broadcast_to(np.asarray(noise.scale, dtype=object), a.shape)
                exact = sum(Fraction(int(x)) / s for x, s in zip(delta.ravel(), scales.ravel(), strict=True) if x)
            out.append((number, id(accountant), int(delta.sum()), loss, exact))
    return out


@pytest.mark.must
@pytest.mark.parametrize("setting", [SETTINGS["blocks"], SETTINGS["blocks-2"], {"synthesizer": SignedMeasureMechanism(20)}])
@pytest.mark.parametrize("time", [0, 15, 16, 40, 70, 99])
@pytest.mark.parametrize("d", [1, 2])
def test_a_row_changes_one_block_by_an_exact_loss_of_at_most_epsilon(setting, time, d, replay):
    X = stream_of(100, d)
    Y = X.copy()
    Y[time] = 1.0
    X[time] = 0.0
    epsilon = Fraction(3, 2)
    runs = [watched(replay, setting, Z, 10, epsilon=epsilon, random_state=1) for Z in (X, Y)]
    assert runs[0] == runs[1]
    changed = differences(replay)
    is_open = time >= edges_by_the_rule(100, d, epsilon, setting.get("growth", 1.25))[-1]
    assert len({accountant for _, accountant, _, _, _ in changed}) == (0 if is_open else 1)
    assert all(distance <= 2 * (1 if "synthesizer" in setting else 16) for _, _, distance, _, _ in changed)
    assert sum(exact for *_, exact in changed) <= epsilon


@pytest.mark.must
@pytest.mark.parametrize("counter", ["kary", "binary", "sparse"])
@pytest.mark.parametrize(("epsilon", "d"), [(1, 2), (4, 1)])
def test_a_row_changes_one_level_of_time_by_two_a_depth_and_the_doors_cost_at_most_epsilon(counter, epsilon, d, replay):
    n = 40
    X = stream_of(n, d)
    X[:] = 0.1
    setting = {"strategy": "paper", "counter": counter}
    reference = watched(replay, setting, X, 4, epsilon=epsilon, random_state=1)
    some_change = False
    for when in (0, 1, 2, 5, 14, 15, 16, 31, 39):
        Y = X.copy()
        Y[when] = 0.9  # another half at every depth
        assert watched(replay, setting, Y, 4, epsilon=epsilon, random_state=1) == reference
        changed = differences(replay)
        doors = {number: (accountant, loss) for number, accountant, _, loss, _ in changed}
        assert all(distance <= 2 for _, _, distance, _, _ in changed)
        assert len({accountant for accountant, _ in doors.values()}) <= 1
        assert sum(loss for _, loss in doors.values()) <= epsilon
        some_change |= bool(doors)
    assert some_change


@pytest.mark.parametrize("counter", [pytest.param("kary", marks=pytest.mark.must), "binary", "sparse"])
@pytest.mark.parametrize(("epsilon", "n"), [(2, 130), (400, 130)])
@pytest.mark.parametrize(("neighboring", "moved"), [("replace_one", 2), ("add_or_remove_one", 1)])
def test_the_scales_that_are_drawn_at_a_door_pay_for_its_share(counter, epsilon, n, neighboring, moved, monkeypatch):
    """Two cells of a depth change by one, or one does where a row comes or goes: all of them for nodes, the queries and the total for
    "sparse", whose limits cost no more."""
    costs = {}  # of each door that was charged for: its share, and what is drawn there
    charge, part, standing, summed = (
        PrivacyAccountant.standing,
        StandingRelease.part,
        StandingRelease.release,
        StandingRelease.release_nodes,
    )
    whole = {}

    def charged(self, noise, rng, *, name, loss=None, change=None):
        door = charge(self, noise, rng, name=name, loss=loss, change=change)
        costs[door], whole[door] = (loss.epsilon, set()), door
        return door

    def parted(self, noise, loss, change):
        door = part(self, noise, loss, change)
        whole[door] = whole[self]
        return door

    def through(self, values, name):
        kind = "total" if name.endswith("total") else "queries" if name.endswith("queries") else "limits"
        costs[whole[self]][1].add((kind, Fraction(moved) / self.noise.scale))
        return standing(self, values, name)

    def through_nodes(self, values, nodes, kept):
        # All nodes of a tree, of the cells of a depth that change, or of their segments.
        costs[whole[self]][1].add(("nodes", Fraction(moved) * heights[self] / self.noise.scale))
        return summed(self, values, nodes, kept)

    def attached(self, door, before):
        attach(self, door, before)
        heights[door] = self.n_levels

    heights, kind = {}, BinaryCounter if counter == "binary" else KaryCounter
    attach = kind._attach
    monkeypatch.setattr(kind, "_attach", attached)
    monkeypatch.setattr(PrivacyAccountant, "standing", charged)
    monkeypatch.setattr(StandingRelease, "part", parted)
    monkeypatch.setattr(StandingRelease, "release", through)
    monkeypatch.setattr(StandingRelease, "release_nodes", through_nodes)
    model = OnlineSynthesizer("paper", counter=counter, epsilon=epsilon, random_state=0, neighboring=neighboring)
    for row in stream_of(n):
        model.partial_fit(row[None]).sample(1)
    whole = 0
    for share, drawn in costs.values():
        paid = dict(drawn)
        assert len(paid) == len(drawn)  # one scale of each kind
        assert paid.pop("limits", 0) <= paid.get("queries", 0) or "queries" not in paid
        assert sum(paid.values()) <= share
        whole += sum(paid.values()) == share
    assert whole > 3 or (counter == "sparse" and epsilon == 2)  # where few segments close, not all is spent


# Budget


@pytest.mark.parametrize("d", range(1, 11))
def test_shares_of_the_depths_leave_each_of_two_paths_half_of_epsilon(d):
    epsilon = Fraction(7, 10)
    for s in range(1, 41):
        shares = shares_of_depths(epsilon, s, d)
        assert len(shares) == s
        assert all(isinstance(share, Fraction) and share > 0 for share in shares)
        assert sum(share / 2 for share in shares) <= epsilon / 2
        if d == 1:
            expected = [2 * 0.775 * 0.7 / (j + 1) ** 2 for j in range(1, s + 1)]
        else:
            assert sum(shares) == epsilon
            alpha = 2 ** ((1 - 1 / d) / 2)
            expected = [0.7 * alpha ** (j - s) * (1 - 1 / alpha) / (1 - alpha**-s) for j in range(1, s + 1)]
        assert [float(share) for share in shares] == pytest.approx(expected, rel=1e-9)


def test_shares_on_the_line_are_the_same_at_every_level_and_use_nearly_all():
    shares = shares_of_depths(Fraction(1), 40, 1)
    assert shares[:7] == shares_of_depths(Fraction(1), 7, 1)
    assert sum(shares_of_depths(Fraction(1), 4000, 1)) > Fraction(99, 100)


@each_setting
@pytest.mark.parametrize("epsilon", [0.3, 1, Fraction(22, 7)])
def test_the_ledger_says_exactly_epsilon_after_any_number_of_blocks_or_levels(setting, epsilon):
    exact = Fraction(str(epsilon))
    shared = PrivacyAccountant(10)
    own, charged = (OnlineSynthesizer(epsilon=epsilon, accountant=accountant, **setting) for accountant in (None, shared))
    X = stream_of(600)
    for start in range(0, 600, 60):
        own.partial_fit(X[start : start + 60])
        charged.partial_fit(X[start : start + 60])
        assert shared.spent == exact
        assert own.accountant_.spent in (0, exact)
        assert own.accountant_.spent == charged.accountant_.spent
        assert len(shared.ledger) == 1
    assert own.accountant_.spent == exact
    assert len(own.accountant_.ledger) > 3


def test_a_shared_accountant_is_charged_when_the_stream_starts_not_when_a_block_ends():
    shared = PrivacyAccountant(1)
    model = OnlineSynthesizer(epsilon=0.75, accountant=shared).partial_fit(np.zeros((1, 2)))
    assert shared.spent == Fraction(3, 4)
    assert model.accountant_.spent == 0
    with pytest.raises(BudgetExceededError):
        OnlineSynthesizer(epsilon=0.5, accountant=shared).partial_fit(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("setting", "delta"),
    [
        ({}, 0),
        ({"strategy": "paper"}, 0),
        ({"synthesizer": PrivateMeasureMechanism()}, Fraction(1, 10**6)),
        ({"synthesizer": LowDimSynthesizer(2)}, Fraction(1, 10**6)),
    ],
)
def test_delta_is_charged_only_where_a_synthesizer_is_given(setting, delta):
    shared = PrivacyAccountant(1, 1e-6)
    OnlineSynthesizer(delta=1e-6, accountant=shared, **setting).fit(stream_of(100, 3))
    assert shared.ledger[0].loss.delta == delta


def test_fit_starts_anew_and_is_charged_again():
    shared = PrivacyAccountant(2)
    X = stream_of(300)
    model = OnlineSynthesizer(accountant=shared, random_state=3).fit(X)
    first = model.sample(50, random_state=0)
    model.partial_fit(X)
    model.fit(X)
    assert model.n_samples_seen_ == 300
    assert np.array_equal(model.sample(50, random_state=0), first)
    assert shared.spent == 2
    model.partial_fit(X)
    with pytest.raises(BudgetExceededError):
        model.fit(X)
    assert model.n_samples_seen_ == 600


# The tree that grows


@pytest.mark.parametrize("epsilon", [0.1, Fraction(1, 3), 1, 4, 5.5])
def test_level_r_of_time_begins_with_row_two_to_the_r_over_epsilon(epsilon):
    n = 300
    model = OnlineSynthesizer("paper", epsilon=epsilon).fit(stream_of(n))
    exact = Fraction(str(epsilon))
    starts = [math.ceil(2**r / exact) for r in range(20)]
    # The level of a row is the last that has begun; rows of level 0 or none are counted nowhere.
    level_of = [max((r for r in range(20) if starts[r] <= t), default=0) for t in range(1, n + 1)]
    levels = sorted({level for level in level_of if level > 0})
    expected = [f"rows {starts[r] - 1} to {starts[r + 1] - 2}" for r in levels]
    assert [entry.name for entry in model.accountant_.ledger] == expected
    depths = [len(model.accountant_.parts_of(entry)) for entry in model.accountant_.ledger]
    assert depths == levels
    if epsilon == 4:
        assert levels[0] == 2  # levels 0 and 1 would begin with the same row


@pytest.mark.parametrize("counter", ["kary", "binary"])
@pytest.mark.parametrize("d", [1, 2])
def test_new_cells_take_half_of_what_was_released_of_their_parent(counter, d):
    X = stream_of(128, d)
    model = OnlineSynthesizer("paper", counter=counter, random_state=0).fit(X[:63])
    for start in (63, 127):  # the rows before a level begins
        if model.n_samples_seen_ < start:
            model.partial_fit(X[model.n_samples_seen_ : start])
        depth, parents = len(model._stream.counters), model._stream.counters[-1].value.copy()
        assert len(parents) == 2**depth
        model.partial_fit(X[start : start + 1])
        assert len(model._stream.counters) == depth + 1
        history = model._stream.counters[-1]._level[0]
        assert np.array_equal(history[0::2] + history[1::2], parents)
        assert np.abs(history[0::2] - history[1::2]).max() <= 1


@pytest.mark.parametrize("counter", ["kary", "binary", "sparse"])
def test_without_noise_cells_count_their_level_exactly_and_halve_their_history(counter):
    n = 200
    x = np.random.default_rng(0).beta(2, 5, n)
    model = OnlineSynthesizer("paper", counter=counter, epsilon=float("inf")).fit(x[:, None])
    counts = [np.array([0])]
    for t, value in enumerate(x, start=1):
        level = t.bit_length() - 1
        if level == len(counts):
            parent = counts[-1]
            counts.append(np.stack([parent - parent // 2, parent // 2], axis=1).ravel())
            counts[0] = np.array([t - 1])
        for depth in range(level + 1):
            counts[depth][int(value * 2**depth)] += 1
    assert len(model._stream.counters) == 7
    for depth in range(1, 8):
        assert np.array_equal(model._stream.counters[depth - 1].value, counts[depth])
        assert counts[depth].sum() == n
    sample = model.sample(20_000, random_state=0)[:, 0]
    shares = np.bincount((sample * 128).astype(int), minlength=128) / len(sample)
    assert np.abs(shares - counts[7] / n).max() < 0.01  # standard errors are below .0015
    assert shares[counts[7] == 0].sum() == 0


@pytest.mark.parametrize("counter", ["kary", "sparse"])
def test_an_absurd_epsilon_grows_no_more_cells_than_rows_can_fill(counter):
    """At most 2**4 for each row that the level of time begins with: it took 28 s and gigabytes."""
    for epsilon, n in [*itertools.product([100, 1e4, 1e6, 1e9, 1e15, float("inf")], [1, 4]), (100, 60), (1e15, 60)]:
        model = OnlineSynthesizer("paper", counter=counter, epsilon=epsilon).fit(stream_of(n))
        assert 2 ** len(model._stream.counters) <= 16 * n
        assert model.sample().shape == (n, 2)


@pytest.mark.parametrize("epsilon", [0.1, 1, 10, 16])
def test_up_to_a_usual_epsilon_the_depth_is_the_level_of_time(epsilon):
    box = Box.from_bounds((0, 1), 3, None, 16, None)
    for n_seen in range(3000):
        tree = GrowingTree(box, Fraction(str(epsilon)), "kary")
        tree.n_seen, level = n_seen, 0
        while tree.start_of(level + 1) <= n_seen + 1:
            level += 1
        if tree.start_of(level) <= n_seen + 1:
            assert tree._depth_of(level) == min(level, 22)


# Windows and histories


def start_times(sample, n):
    return set(np.floor(sample[:, 0] * n).astype(int).tolist())


def test_a_window_drops_whole_blocks_only(blocks):
    n, window = 2000, 300
    model = OnlineSynthesizer(synthesizer=Recorder(), window=window)
    X = clock(n)
    edges = edges_by_the_rule(n, 1, 1, 1.25, window)
    for t in range(100, n + 1, 100):
        model.partial_fit(X[t - 100 : t])
        starts = {a for a, b in itertools.pairwise(edges) if b <= t and b > t - window}
        assert start_times(model.sample(5000), n) == starts
        assert model.n_samples_ == min(t, window) == len(model.sample())
        assert model.n_samples_seen_ == t


def test_blocks_are_weighed_by_how_much_of_them_is_in_the_window(blocks):
    n = 2000
    model = OnlineSynthesizer(synthesizer=Recorder(), window=500).fit(clock(n))
    edges = edges_by_the_rule(n, 1, 1, 1.25, 500)
    assert n > edges[-1]  # rows are waiting: the last block stands in for them
    lengths = {a: (b if b < edges[-1] else n) - max(a, n - 500) for a, b in itertools.pairwise(edges) if b > n - 500}
    times, counts = np.unique(np.floor(model.sample(10_000)[:, 0] * n).astype(int), return_counts=True)
    expected = np.array([lengths[t] for t in times]) / sum(lengths.values())
    assert np.abs(counts / 10_000 - expected).max() < 2e-4  # systematic rounding: within a row
    assert set(times) == set(lengths)


def test_since_uses_only_blocks_that_end_after_it_or_the_last(blocks):
    n = 1000
    model = OnlineSynthesizer(synthesizer=Recorder()).fit(clock(n))
    edges = edges_by_the_rule(n, 1, 1, 1.25)
    for since in (0, 15, 16, 17, 300, edges[-2], edges[-1] - 1, edges[-1], n - 1):
        sample = model.sample(since=since)
        assert len(sample) == n - since
        assert start_times(model.sample(5000, since=since), n) == {a for a, b in itertools.pairwise(edges) if b > since or b == edges[-1]}
    assert len(model.sample(11, since=300)) == 11


@pytest.mark.parametrize("since", [-1, 500, 600, 2.5, "now", True])
def test_a_bad_since_is_refused(since):
    model = OnlineSynthesizer().fit(stream_of(500))
    with pytest.raises(ValueError, match="since must be a row of the stream from 0 to 499"):
        model.sample(since=since)


def test_since_before_the_window_or_without_history_is_refused():
    model = OnlineSynthesizer(window=100).fit(stream_of(500))
    with pytest.raises(ValueError, match="since must be a row of the stream from 400 to 499"):
        model.sample(since=399)
    with pytest.raises(ValueError, match=r"since must be None for strategy=.paper."):
        OnlineSynthesizer("paper").fit(stream_of(50)).sample(since=0)


def test_a_window_may_shrink_or_begin_but_not_grow_beyond_what_is_kept():
    X = stream_of(1000)
    model = OnlineSynthesizer().partial_fit(X[:500])
    model.set_params(window=400).partial_fit(X[500:600])
    model.set_params(window=100).partial_fit(X[600:800])
    before = model.sample(20, random_state=0)
    for window in (500, None):
        with pytest.raises(ValueError, match="window must not grow beyond what is kept"):
            model.set_params(window=window).partial_fit(X[800:])
    model.set_params(window=100)
    assert np.array_equal(model.sample(20, random_state=0), before)
    assert model.partial_fit(X[800:]).n_samples_ == 100


def test_a_window_smaller_than_a_block_still_synthesizes_the_last_block():
    """Rows at one point, epsilon 20: a uniform sample has a standard deviation of .29."""
    model = OnlineSynthesizer(window=10, epsilon=20)
    spread = [model.partial_fit(np.full((1, 1), 0.25)).sample(200, random_state=0).std() for _ in range(64)]
    assert max(spread[16:]) < 0.2


# Refusals


@pytest.fixture
def running():
    """A stream on a shared accountant, some rows into an open block."""
    shared = PrivacyAccountant(2)
    return OnlineSynthesizer(accountant=shared, horizon=300, random_state=1).partial_fit(stream_of(250)), shared


def unchanged(model, shared, call, match):
    before, spent, ledger = pickle.dumps(model), shared.spent, shared.ledger
    with pytest.raises(ValueError, match=match):
        call()
    assert shared.spent == spent
    assert shared.ledger == ledger
    return before


@each_strategy
@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (np.zeros((51, 2)), "horizon is 300 rows, 250 have come, and 51 more would pass it"),
        (np.zeros((3, 3)), "features"),
        (np.zeros((3, 1)), "features"),
        (np.zeros(2), "2D array"),
        (np.array([[np.nan, 0]]), "contains NaN"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(setting, rows, match):
    shared = PrivacyAccountant(2)
    model = OnlineSynthesizer(accountant=shared, horizon=300, random_state=1, **setting).partial_fit(stream_of(250))
    before = unchanged(model, shared, lambda: model.partial_fit(rows), match)
    assert pickle.dumps(model) == before
    assert model.partial_fit(np.zeros((50, 2))).n_samples_seen_ == 300


@pytest.mark.parametrize(
    ("parameter", "value", "match"),
    [
        ("strategy", "paper", "strategy must not change along a stream"),
        ("counter", "sparse", "counter must not change"),
        ("epsilon", 2.0, "epsilon must not change"),
        ("delta", 1e-6, "delta must not change"),
        ("bounds", (0, 2), "bounds must not change"),
        ("neighboring", "add_or_remove_one", "neighboring"),
        ("synthesizer", PrivateMeasureMechanism("paper"), "synthesizer must not change"),
        ("max_rows_per_unit", np.ones(2), "max_rows_per_unit must be a positive integer"),
        ("horizon", 251, "horizon is 251 rows"),
        ("horizon", 0, "horizon must be None or a positive integer"),
        ("window", 0, "window must be None or a positive integer"),
        ("growth", 1, "growth must be None, 'auto' or a number greater than 1"),
    ],
)
def test_parameters_that_change_along_a_stream_are_refused_and_change_nothing(running, parameter, value, match):
    model, shared = running
    old = getattr(model, parameter)
    before = pickle.dumps(model)
    model.set_params(**{parameter: value})
    unchanged(model, shared, lambda: model.partial_fit(np.zeros((2, 2))), match)
    model.set_params(**{parameter: old})
    assert pickle.dumps(model) == before


def test_growth_and_horizon_may_change_along_a_stream(blocks):
    model = OnlineSynthesizer(synthesizer=Recorder(), horizon=400).fit(clock(400))
    model.set_params(growth=2, horizon=None).partial_fit(clock(2000))
    ends = np.cumsum([len(block) for block in blocks]).tolist()
    old = edges_by_the_rule(400, 1, 1, 1.25)[1:]
    assert ends == [*old, *(old[-1] * 2**k for k in range(1, 9) if old[-1] * 2**k <= 2400)]


def test_a_nested_parameter_that_changes_along_a_stream_has_no_effect():
    """The synthesizer was cloned when the stream started."""
    models = [OnlineSynthesizer(synthesizer=PrivateMeasureMechanism(), random_state=1).fit(stream_of(100)) for _ in range(2)]
    models[0].set_params(synthesizer__strategy="paper")
    first, second = (model.partial_fit(stream_of(100)).sample(50, random_state=0) for model in models)
    assert np.array_equal(first, second)


def test_wide_bounds_that_change_along_a_stream_are_refused():
    low, high = np.zeros(1100), np.ones(1100)
    model = OnlineSynthesizer(bounds=(low, high)).fit(np.zeros((2, 1100)))
    other = high.copy()
    other[500] = 2
    with pytest.raises(ValueError, match="bounds must not change"):
        model.set_params(bounds=(low, other)).partial_fit(np.zeros((2, 1100)))


def test_an_equal_parameter_of_another_type_is_no_change():
    model = OnlineSynthesizer(epsilon=1.0).fit(stream_of(30))
    assert model.set_params(epsilon=1).partial_fit(stream_of(30)).n_samples_seen_ == 60


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"strategy": "tree"}, "strategy must be one of"),
        ({"counter": "honaker"}, "counter must be one of"),
        ({"growth": 1}, "growth must be"),
        ({"growth": True}, "growth must be"),
        ({"growth": float("nan")}, "growth must be"),
        ({"growth": float("inf")}, "growth must be"),
        ({"growth": "fast"}, "growth must be"),
        ({"window": 0}, "window must be None or a positive integer"),
        ({"window": 2.0}, "window must be None or a positive integer"),
        ({"horizon": -1}, "horizon must be None or a positive integer"),
        ({"horizon": True}, "horizon must be None or a positive integer"),
        ({"horizon": 10}, "horizon is 10 rows"),
        ({"strategy": "paper", "window": 100}, "window and synthesizer must be None"),
        ({"strategy": "paper", "synthesizer": PrivateMeasureMechanism()}, "window and synthesizer must be None"),
        ({"synthesizer": PrivateMeasureMechanism}, "synthesizer must be None or an unfitted synthesizer"),
        ({"synthesizer": "pmm"}, "synthesizer must be None or an unfitted synthesizer"),
        ({"synthesizer": PrivatePCA()}, "PrivatePCA lacks sample"),
        ({"synthesizer": OnlineSynthesizer}, "synthesizer must be None or an unfitted synthesizer"),
        ({"synthesizer": PrivateMeasureMechanism(accountant=PrivacyAccountant(1))}, "synthesizer must have accountant=None"),
        ({"synthesizer": PrivateMeasureMechanism("haar")}, "strategy must be one of"),
        ({"synthesizer": LowDimSynthesizer(7)}, "n_components"),
    ],
)
def test_bad_parameters_are_refused_before_any_budget_is_spent(parameters, match):
    shared = PrivacyAccountant(1)
    model = OnlineSynthesizer(accountant=shared, **parameters)
    with pytest.raises(ValueError, match=match) as caught:
        model.partial_fit(stream_of(50))
    assert "\n" not in str(caught.value)
    assert shared.spent == 0
    assert vars(model) == vars(OnlineSynthesizer(accountant=shared, **parameters))


# What it is good for


@pytest.mark.parametrize(
    "synthesizer",
    [LowDimSynthesizer(2), SignedMeasureMechanism(), PrivateMeasureMechanism("optimal"), SignedMeasureMechanism(metric="euclidean")],
)
def test_other_synthesizers_run_inside(synthesizer):
    model = OnlineSynthesizer(synthesizer=synthesizer, bounds=(-1, 3), delta=1e-6).fit(4 * stream_of(200, 3) - 1)
    sample = model.sample()
    assert sample.shape == (200, 3)
    assert sample.min() >= -1
    assert sample.max() <= 3
    assert not hasattr(synthesizer, "accountant_")
    assert len(model.accountant_.ledger) == len(edges_by_the_rule(200, 3, 1, 1.25)) - 1


@pytest.mark.parametrize("growth", [1.25, "auto"])
def test_blocks_follow_a_mixture_better_than_uniform_rows_do(growth):
    """Two clusters in the square, 3000 rows, epsilon 1; the ratio is near 0.2 here, and a bound of 0.5 is not met by luck."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.2, 0.3], [0.8, 0.6]])[rng.integers(0, 2, 3000)]
    X = np.clip(centres + 0.05 * rng.normal(size=(3000, 2)), 0, 1)
    sample = OnlineSynthesizer(growth=growth, random_state=0).fit(X).sample(1000, random_state=0)
    thin = X[rng.choice(3000, 1000, replace=False)]
    assert wasserstein_distance(thin, sample) < 0.5 * wasserstein_distance(thin, rng.random((1000, 2)))


# Pickles and copies


@each_setting
def test_a_pickle_holds_no_generator_and_goes_on(setting):
    X = stream_of(700)
    model = OnlineSynthesizer(**setting).fit(X[:500])
    model.sample(3)
    data = pickle.dumps(model)
    for word in (b"SeededBits", b"SecureBits", b"PCG64", b"Generator", b"RandomState", b"MT19937"):
        assert word not in data
    again = pickle.loads(data)
    assert np.array_equal(model.sample(50, random_state=0), again.sample(50, random_state=0))
    assert again.partial_fit(X[500:]).n_samples_seen_ == 700
    assert again.accountant_.spent == 1
    assert model.n_samples_seen_ == 500


def test_a_stream_of_shared_budget_goes_on_after_a_pickle_and_cannot_start_anew():
    shared = PrivacyAccountant(2)
    model = OnlineSynthesizer(accountant=shared).fit(stream_of(100))
    again = pickle.loads(pickle.dumps(model))
    assert again.partial_fit(stream_of(300)).accountant_.spent == 1
    with pytest.raises(BudgetExceededError, match="closed record"):
        again.fit(stream_of(100))
    assert shared.spent == 1


@pytest.mark.parametrize("setting", [SETTINGS["blocks"], SETTINGS["paper-kary"], SETTINGS["paper-binary"]])
def test_a_pickle_does_not_tell_the_order_of_open_rows(setting, still):
    """Rows 100 to 109 are of one open block, and of one level of time."""
    X = stream_of(110)
    Y = X.copy()
    Y[100:] = X[100:][::-1]
    assert edges_by_the_rule(110, 2, 1, 1.25)[-1] == 100
    first, second = (pickle.dumps(OnlineSynthesizer(random_state=5, **setting).fit(Z)) for Z in (X, Y))
    assert first == second


def test_a_pickle_holds_no_seed():
    model = OnlineSynthesizer(random_state=1_923_847_561).fit(stream_of(100))
    data = pickle.dumps(model)
    assert (1_923_847_561).to_bytes(4, "little") not in data
    assert b"1923847561" not in data


@pytest.mark.parametrize("setting", [SETTINGS[name] for name in SETTINGS if name not in ("paper-kary", "paper-sparse")])
def test_a_seeded_stream_goes_on_after_a_pickle_as_if_nothing_had_happened(setting):
    """But for those that count by k-ary trees, which end when they are loaded."""
    X = stream_of(700)
    model = OnlineSynthesizer(random_state=5, **setting).fit(X[:600])
    again = pickle.loads(pickle.dumps(model)).set_params(random_state=5)
    first, second = (m.partial_fit(X[600:]).sample(200, random_state=0) for m in (model, again))
    assert np.array_equal(first, second)


@each_strategy
def test_a_deep_copy_goes_on_by_itself(setting):
    model = OnlineSynthesizer(**setting).fit(stream_of(200))
    twin = copy.deepcopy(model)
    twin.partial_fit(stream_of(200))
    assert (model.n_samples_seen_, twin.n_samples_seen_) == (200, 400)
    assert model.partial_fit(stream_of(100)).n_samples_seen_ == 300


def test_a_clone_is_unfitted_and_shares_the_budget():
    shared = PrivacyAccountant(3)
    model = OnlineSynthesizer("paper", counter="binary", horizon=500, accountant=shared).fit(stream_of(100))
    twin = clone(model)
    assert not hasattr(twin, "accountant_")
    assert twin.get_params() == model.get_params()
    assert twin.fit(stream_of(100)).n_samples_seen_ == 100
    assert shared.spent == 2


def test_sample_before_any_row_is_refused():
    with pytest.raises(ValueError, match="not fitted"):
        OnlineSynthesizer().sample(3)


def test_a_row_far_out_of_bounds_is_silent():
    model = OnlineSynthesizer().fit(np.full((20, 2), 0.5))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        model.partial_fit(np.array([[1e308, -1e308]]))


def test_a_tree_that_was_interrupted_counts_no_row_twice(monkeypatch):
    """It refuses to go on: some counters may have seen rows that others have not."""
    from skdpsynth.continual import InhomogeneousCounter

    model = OnlineSynthesizer("paper").fit(stream_of(50))
    real, calls = InhomogeneousCounter.update_cells, []

    def interrupted(self, cells):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(self, cells)

    monkeypatch.setattr(InhomogeneousCounter, "update_cells", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(stream_of(10))
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="interrupted"):
        model.partial_fit(stream_of(10))


def grown(tree, rows, accountant):
    """Count rows, as a stream that knows of all that came."""
    return tree.extended(rows, SimpleNamespace(_time=tree.n_seen), Budget(accountant, check_rng(None)))


def tree_of(counter="kary", epsilon=1.0, n=50):
    accountant = PrivacyAccountant(epsilon)
    return grown(GrowingTree(Box.from_bounds((0, 1), 1), check_epsilon(epsilon), counter), stream_of(n, 1), accountant), accountant


def test_a_tree_refuses_rows_of_a_caller_who_does_not_know_that_they_were_counted():
    tree, accountant = tree_of()
    grown(tree, stream_of(10, 1), accountant)
    with pytest.raises(RuntimeError, match="interrupted while it took in rows"):
        tree.extended(stream_of(10, 1), SimpleNamespace(_time=50), Budget(accountant, check_rng(None)))
    assert tree.n_seen == 60


@pytest.mark.parametrize("counter", ["kary", "binary", "sparse"])
def test_loaded_trees_that_go_on_with_different_rows_do_not_subtract_to_them(counter):
    """Row by row up to a level's end: wherever copies are made, the cells of the first depths differ by noise."""
    for n in range(33, 60):
        tree, accountant = tree_of(counter, 0.05, n * 20)
        two = [pickle.loads(pickle.dumps(tree.settled())) for _ in range(2)]
        exact, reopened = [], [accountant.record().reopened() for _ in two]
        for again, budget, rows in zip(two, reopened, (np.zeros((7, 1)), np.ones((7, 1))), strict=True):
            again.resume(budget, check_rng(None))
            grown(again, rows, budget)
        found = np.concatenate([a.value - b.value for a, b in zip(two[0].counters, two[1].counters, strict=True)])
        for depth in range(1, len(two[0].counters) + 1):
            exact += [7, *([0] * (2**depth - 2)), -7]
        moved = found != 0
        assert np.count_nonzero(found[moved] == np.array(exact)[moved]) <= 0.2 * np.count_nonzero(moved)
        if counter != "sparse":
            assert moved.mean() > 0.8


def test_a_pickle_of_a_tree_that_is_made_while_another_thread_counts_is_of_one_time():
    model = OnlineSynthesizer("paper", counter="binary", epsilon=float("inf")).fit(stream_of(10, 1))
    states = []

    def count():
        while len(states) < 8:
            model.partial_fit(stream_of(1, 1))

    thread = threading.Thread(target=count)
    thread.start()
    while len(states) < 8:
        states.append(pickle.loads(pickle.dumps(model)))
    thread.join()
    for state in states:
        counters = [counter._level[1] for counter in state._stream.counters]
        assert {counter.n_steps for counter in counters} == {state.n_samples_seen_ + 1 - 2**state._stream.level}
        assert {counter._state[:-1].sum() for counter in counters} == {counters[0].n_steps}
        assert len(state.accountant_.ledger) == state._stream.level


def test_a_shallow_copy_shares_no_open_row():
    model = OnlineSynthesizer(epsilon=float("inf")).partial_fit(np.full((10, 1), 0.1))
    twin = copy.copy(model)
    model.partial_fit(np.full((6, 1), 0.2))
    twin.partial_fit(np.full((6, 1), 0.9))
    assert model.sample(200).max() < 0.3


def test_a_long_window_of_small_blocks_takes_linear_time():
    """Charges of a group are not added up anew for each block: four times the rows, four times the calls, not sixteen times."""
    few, many = (calls_of(lambda: OnlineSynthesizer(window=20).partial_fit(np.zeros((n, 1)))) for n in (300, 1200))  # noqa: B023
    assert many < 5 * few
