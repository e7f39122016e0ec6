"""Samples in batches: the rows of one sample, in bounded memory, and how many."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from internals import _base, _measure, default_n_samples
from laws import refuses
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism
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
def fast(hasty):
    """Models are fitted in a few steps, since their quality is not the point."""


@pytest.fixture
def small_blocks(monkeypatch):
    """As many blocks and decks for a few thousand rows as there are for a hundred million."""
    batch = [f"synthesis.{file}.BATCH" for file in ("_base", "_low_dim", "_online_blocks")]
    joint = [f"models._joint_distribution.{name}" for name in ("_ROWS", "_LEAST_ROWS")]
    sizes = dict.fromkeys([*batch, "models._score_model._ROWS", *joint], 128)
    sizes |= {f"measures._measure.{name}": size for name, size in (("_ROWS", 32), ("_LEAST_ROWS", 32), ("_DECK", 700), ("_SLAB", 4))}
    for name, size in sizes.items():
        monkeypatch.setattr(f"skdpsynth.{name}", size)


@each_model
@pytest.mark.parametrize("batch_size", [1, 999])
def test_batches_together_are_the_rows_of_one_sample_whatever_is_fitted_in_between(model, batch_size, small_blocks):
    model = model.fit(ROWS)
    n_samples = 1003 if batch_size > 1 else 150
    expected, batches = model.sample(n_samples, random_state=3), model.sample_batches(n_samples, batch_size, random_state=3)
    first = next(batches)
    model.fit(ROWS / 2)
    batches = [first, *batches]
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    np.testing.assert_array_equal(np.concatenate(batches), expected)


@pytest.mark.parametrize("stratify", [None, "ill"])
@pytest.mark.parametrize("make", [pd.DataFrame, lambda X: pytest.importorskip("pyarrow") and pl.from_pandas(X), pd.DataFrame.to_numpy])
def test_batches_of_a_mixed_table_are_the_rows_of_one_sample(make, stratify, small_blocks):
    X, schema = make(MIXED), SCHEMA
    if isinstance(X, np.ndarray):
        schema, stratify = dict(enumerate(SCHEMA.values())), stratify and 2
    model = LatentFactorSynthesizer(schema, stratify=stratify).fit(X)
    batches, whole = list(model.sample_batches(1000, 300, random_state=0)), model.sample(1000, random_state=0)
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert all(type(batch) is type(X) for batch in batches)
    frames = [table.to_pandas() if isinstance(table, pl.DataFrame) else pd.DataFrame(table) for table in (*batches, whole)]
    pd.testing.assert_frame_equal(pd.concat(frames[:-1], ignore_index=True), frames[-1])


@pytest.mark.parametrize(("strategy", "since"), [("blocks", None), ("blocks", 450), ("paper", None)])
def test_rows_of_a_stream_that_come_in_between_change_nothing_of_batches_that_were_begun(strategy, since, small_blocks):
    model = OnlineSynthesizer(strategy).fit(ROWS)
    expected = model.sample(2000, random_state=0, since=since)
    batches = model.sample_batches(2000, 50, random_state=0, since=since)
    for batch in np.array_split(expected, 40):
        np.testing.assert_array_equal(next(batches), batch)
        model.partial_fit(ROWS[:20])


def test_a_bad_batch_size_number_of_rows_or_seed_is_refused_before_anything_is_drawn():
    model = PrivateMeasureMechanism().fit(ROWS)
    for size in (0, -3, 2.5, "many", True, None):
        refuses(ValueError, r"^batch_size must be a positive integer, got [^\n]*\.$", model.sample_batches, 10, size)
    refuses(ValueError, "n_samples must be a positive integer", model.sample_batches, 0)
    refuses(ValueError, "random_state must be None", model.sample_batches, 10, random_state="seed")


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
    monkeypatch.setattr(_measure, "_DECK", 1 << 13)
    monkeypatch.setattr(_measure, "_ROWS", 1 << 10)
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


@pytest.mark.parametrize("dtype", ["int64", "int8", "str"])
def test_labels_made_anew_go_on_from_batch_to_batch(dtype):
    """Of 8 bits numbers up to 300 have no room, in none of the batches."""
    X = MIXED.assign(who=np.arange(400) % 100).astype({"who": dtype})
    model = LatentFactorSynthesizer({**SCHEMA, "who": Identifier(labels=True)}).fit(X)
    batches = list(model.sample_batches(300, 100, random_state=0))
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), model.sample(300, random_state=0))
    assert len({batch["who"].dtype for batch in batches}) == 1
    assert pd.concat(batches)["who"].astype(int).tolist() == list(range(1, 301))


AR = "add_or_remove_one"
each_way = pytest.mark.parametrize("name", ["PMM", "PSMM", "LowDim", "LatentFactor", "LatentFactor-scores", "Online", "Online-paper"])


@pytest.mark.parametrize(
    ("n", "error", "n_features", "rows"),
    [
        (10**9, 0.0, 3, 10**9),  # public, or without noise
        (10**9, 1e8, 3, 10**9),  # ten errors
        (10**9 - 1, 1e8, 3, 2**24 // 3),
        (1000, 1e8, 3, 1000),
        (10**9, 1e9, 2**25, 1),
        (1, 20.0, 5, 1),
    ],
)
def test_a_number_below_ten_errors_counts_up_to_so_many_cells_only(n, error, n_features, rows):
    assert default_n_samples(n, error, n_features) == rows


@each_way
def test_a_tiny_epsilon_makes_no_huge_sample(name, monkeypatch):
    """Noise alone is beyond ten errors once in 40,000 times: in 12 fits once in 3,000 runs, and of most of these nobody sees it."""
    monkeypatch.setattr(_base, "_UNSURE_CELLS", 3000)
    X, sizes = np.full((50, 3), 0.5), []
    for seed in range(12):
        fitted = clone(MODELS[name]).set_params(epsilon=1e-5, neighboring=AR, random_state=seed).fit(X)
        sizes.append(fitted.n_samples_)
        sample = fitted.sample()
        assert len(sample) == min(fitted.n_samples_, 1000)
        assert sum(map(len, fitted.sample_batches())) == len(sample)
        assert len(fitted.sample(1200)) == 1200
    assert max(sizes) > 10**5  # as the noise makes them


@each_way
def test_more_rows_than_memory_holds_are_refused_with_a_way_out(name):
    fitted = clone(MODELS[name]).fit(np.random.default_rng(0).random((300, 2)))
    large, beyond = (
        r"makes a table of .* GiB, more than this machine's memory; draw it by sample_batches",
        r"n_samples must be at most 2\*\*40",
    )
    for draw, n_samples, words in (
        *((fitted.sample, n, large) for n in (10**11, 2**40)),
        *((draw, n, beyond) for n in (2**40 + 1, 2**64, 10**400) for draw in (fitted.sample, fitted.sample_batches)),
    ):
        refuses(ValueError, words, draw, n_samples)
    with pytest.raises(ValueError, match=r"batch_size=1099511627776 makes tables of .* GiB, more than this machine's memory; draw fewer"):
        fitted.sample_batches(2**40, batch_size=2**40)
    assert len(next(iter(fitted.sample_batches(50, batch_size=2**40)))) == 50
