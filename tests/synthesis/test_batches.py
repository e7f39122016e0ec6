"""Samples in batches: the rows of one sample, in bounded memory."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import _deal, _latent_factors

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Identifier

ROWS = np.random.default_rng(0).beta(2, 4, size=(500, 3))
MIXED = pd.DataFrame({"age": [20, 31, 62, 45] * 100, "sex": ["f", "m", "f", None] * 100, "ill": [True, False] * 200})
SCHEMA = {"age": (0, 99), "sex": ["f", "m"], "ill": [False, True]}
MODELS = {
    "PMM": PrivateMeasureMechanism(),
    "PMM-paper": PrivateMeasureMechanism("paper"),
    "PSMM": SignedMeasureMechanism(30),
    "LowDim": LowDimSynthesizer(2),
    "LowDim-psmm": LowDimSynthesizer(2, synthesizer="psmm"),
    "LatentFactor": LatentFactorSynthesizer(),
    "LatentFactor-scores": LatentFactorSynthesizer(strategy="scores"),
    "LatentFactor-scores-pmm": LatentFactorSynthesizer(strategy="scores", synthesizer="pmm"),
    "Online": OnlineSynthesizer(growth="auto"),
    "Online-paper": OnlineSynthesizer("paper"),
    "Online-LatentFactor": OnlineSynthesizer(synthesizer=LatentFactorSynthesizer()),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@pytest.fixture(autouse=True)
def quiet_and_hasty(monkeypatch):
    """No warnings, and models that are fitted in a few steps, since their quality is not the point."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture
def small_blocks(monkeypatch):
    """As many blocks and decks for a few thousand rows as there are for a hundred million."""
    for name, size in {
        **dict.fromkeys(["synthesis._base.BATCH", "synthesis._low_dim.BATCH", "synthesis._online_blocks.BATCH"], 128),
        **dict.fromkeys(["models._score_model._ROWS", "models._marginal_draw._ROWS", "models._marginal_draw._LEAST_ROWS"], 128),
        **{"measures._deal._ROWS": 32, "measures._deal._LEAST_ROWS": 32, "measures._deal._DECK": 700, "measures._deal._SLAB": 4},
    }.items():
        monkeypatch.setattr(f"skdpsynth.{name}", size)


@each_model
@pytest.mark.parametrize("batch_size", [1, 100, 128, 999, 5000])
def test_batches_together_are_the_rows_of_one_sample(model, batch_size, small_blocks):
    model = model.fit(ROWS)
    n_samples = 1003 if batch_size > 1 else 150
    batches = list(model.sample_batches(n_samples, batch_size, random_state=3))
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    np.testing.assert_array_equal(np.concatenate(batches), model.sample(n_samples, random_state=3))


@pytest.mark.parametrize(
    "make",
    [lambda X: X, lambda X: pytest.importorskip("pyarrow") and pl.from_pandas(X), lambda X: X.to_numpy()],
    ids=["pandas", "polars", "numpy"],
)
@pytest.mark.parametrize("stratify", [None, "ill"])
def test_batches_of_a_mixed_table_are_the_rows_of_one_sample(make, stratify, small_blocks):
    X, schema = make(MIXED), SCHEMA
    if isinstance(X, np.ndarray):
        schema, stratify = dict(enumerate(SCHEMA.values())), stratify and 2
    model = LatentFactorSynthesizer(schema, stratify=stratify).fit(X)
    batches = list(model.sample_batches(1000, 300, random_state=0))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert all(type(batch) is type(X) for batch in batches)
    whole = model.sample(1000, random_state=0)
    if isinstance(X, pd.DataFrame):
        pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), whole)
    elif isinstance(X, pl.DataFrame):
        assert pl.concat(batches).equals(whole)
    else:
        assert np.concatenate(batches).tolist() == whole.tolist()


@each_model
def test_batches_are_as_many_rows_as_the_data_had_unless_told(model):
    model = model.fit(ROWS)
    assert sum(map(len, model.sample_batches())) == 500


@each_model
def test_batches_repeat_by_their_seed_only(model):
    model = model.fit(ROWS)
    first, second, other, fresh = (np.concatenate(list(model.sample_batches(90, 40, seed))) for seed in (1, 1, 2, None))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, fresh)


@each_model
def test_a_fit_in_between_changes_nothing_of_batches_that_were_begun(model, small_blocks):
    model = model.fit(ROWS)
    expected = model.sample(2000, random_state=0)
    batches = model.sample_batches(2000, 50, random_state=0)
    first = next(batches)
    model.fit(ROWS / 2)
    np.testing.assert_array_equal(np.concatenate([first, *batches]), expected)


@pytest.mark.parametrize("strategy", ["blocks", "paper"])
def test_rows_of_a_stream_that_come_in_between_change_nothing_of_batches_that_were_begun(strategy, small_blocks):
    model = OnlineSynthesizer(strategy).fit(ROWS)
    expected = model.sample(2000, random_state=0)
    batches = model.sample_batches(2000, 50, random_state=0)
    for batch in np.array_split(expected, 40):
        np.testing.assert_array_equal(next(batches), batch)
        model.partial_fit(ROWS[:20])


def test_batches_of_a_stream_leave_out_what_sample_leaves_out():
    model = OnlineSynthesizer().fit(ROWS)
    batches = np.concatenate(list(model.sample_batches(300, 100, 0, since=450)))
    np.testing.assert_array_equal(batches, model.sample(300, 0, since=450))


@pytest.mark.parametrize("size", [0, -3, 2.5, "many", True, None])
def test_a_bad_batch_size_is_refused_before_anything_is_drawn(size):
    model = PrivateMeasureMechanism().fit(ROWS)
    with pytest.raises(ValueError, match=r"^batch_size must be a positive integer, got [^\n]*\.$"):
        model.sample_batches(10, size)


def test_a_bad_number_of_rows_or_seed_is_refused_when_batches_are_asked_for():
    model = PrivateMeasureMechanism().fit(ROWS)
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        model.sample_batches(0)
    with pytest.raises(ValueError, match="random_state must be None"):
        model.sample_batches(10, random_state="seed")


def test_batches_before_a_fit_are_refused():
    with pytest.raises(ValueError, match="not fitted"):
        PrivateMeasureMechanism().sample_batches(3)


@pytest.mark.parametrize("n_jobs", [2, 5])
@pytest.mark.parametrize("name", ["PMM", "PSMM", "LatentFactor"])
def test_a_sample_does_not_depend_on_the_number_of_threads(name, n_jobs, small_blocks):
    model = MODELS[name].fit(ROWS)
    alone = model.sample(3000, random_state=0)
    np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).sample(3000, random_state=0), alone)
    model.set_params(n_jobs=None)


@pytest.mark.parametrize("name", ["PMM", "LowDim", "LatentFactor", "LatentFactor-scores", "Online", "Online-paper"])
def test_memory_of_batches_does_not_grow_with_their_number(name, monkeypatch):
    # Each block of a stream has a deck of its own.
    monkeypatch.setattr(_deal, "_DECK", 1 << 13)
    monkeypatch.setattr(_deal, "_ROWS", 1 << 10)
    model = MODELS[name].fit(ROWS)
    peaks = []
    for n_samples in (200_000, 200_000, 1_000_000):  # the first one imports
        tracemalloc.start()
        assert sum(map(len, model.sample_batches(n_samples, 10_000, random_state=0))) == n_samples
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1]
    assert peaks[2] < 1_000_000 * 3 * 8


def test_a_few_rows_that_are_kept_do_not_keep_the_block_they_were_made_in():
    batch = next(PrivateMeasureMechanism().fit(ROWS).sample_batches(50_000, 10))
    assert batch.base is None or batch.base.size <= batch.size


def test_floating_point_settings_of_the_caller_are_left_alone_between_batches():
    model = LatentFactorSynthesizer().fit(ROWS)
    with np.errstate(all="raise"):
        for _ in model.sample_batches(1000, 100):
            assert np.geterr() == dict.fromkeys(["divide", "over", "under", "invalid"], "raise")


@pytest.mark.parametrize("dtype", ["int64", "int8", "str"])
def test_labels_made_anew_go_on_from_batch_to_batch(dtype):
    """Of 8 bits numbers up to 300 have no room, in none of the batches."""
    X = MIXED.assign(who=np.arange(400) % 100).astype({"who": dtype})
    model = LatentFactorSynthesizer({**SCHEMA, "who": Identifier(labels=True)}).fit(X)
    batches = list(model.sample_batches(300, 100, random_state=0))
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), model.sample(300, random_state=0))
    assert len({batch["who"].dtype for batch in batches}) == 1
    assert pd.concat(batches)["who"].astype(int).tolist() == list(range(1, 301))
