"""How many rows a sample has unless a caller says so, where the number of rows is private and may be nothing but noise."""

import numpy as np
import pytest
from internals import _drawing, usual_number
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning", "ignore::skdpsynth.exceptions.BudgetWarning")
AR = "add_or_remove_one"
WAYS = {
    "pmm": PrivateMeasureMechanism(),
    "psmm": SignedMeasureMechanism(2),
    "lowdim": LowDimSynthesizer(1),
    "latent-factors": LatentFactorSynthesizer(n_factors=1),
    "scores": LatentFactorSynthesizer(strategy="scores"),
    "blocks": OnlineSynthesizer(),
    "paper": OnlineSynthesizer("paper"),
}


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
    assert usual_number(n, error, n_features) == rows


@pytest.mark.parametrize("model", WAYS.values(), ids=WAYS)
def test_a_tiny_epsilon_makes_no_huge_sample(model, monkeypatch):
    """Noise alone is beyond ten errors once in 40,000 times: in 12 fits once in 3,000 runs, and of most of these nobody sees it."""
    monkeypatch.setattr(_drawing, "_UNSURE_CELLS", 3000)
    X, sizes = np.full((50, 3), 0.5), []
    for seed in range(12):
        fitted = model.set_params(epsilon=1e-5, neighboring=AR, random_state=seed).fit(X)
        sizes.append(fitted.n_samples_)
        sample = fitted.sample()
        assert len(sample) == min(fitted.n_samples_, 1000)
        assert sum(map(len, fitted.sample_batches())) == len(sample)
        assert len(fitted.sample(1200)) == 1200
    assert max(sizes) > 10**5  # as the noise makes them


@pytest.mark.parametrize("model", [WAYS["pmm"], WAYS["blocks"]], ids=["pmm", "blocks"])
def test_a_number_that_is_more_than_noise_is_kept(model, monkeypatch):
    monkeypatch.setattr(_drawing, "_UNSURE_CELLS", 300)
    fitted = model.set_params(epsilon=1.0, neighboring=AR, random_state=None).fit(np.full((5000, 3), 0.5))
    assert len(fitted.sample()) == fitted.n_samples_ > 4000


@pytest.mark.parametrize("model", [WAYS["pmm"], WAYS["blocks"]], ids=["pmm", "blocks"])
def test_a_public_number_is_kept_whatever_epsilon_is(model, monkeypatch):
    monkeypatch.setattr(_drawing, "_UNSURE_CELLS", 30)
    fitted = model.set_params(epsilon=1e-5, neighboring="replace_one", random_state=None).fit(np.full((500, 3), 0.5))
    assert len(fitted.sample()) == 500


@pytest.mark.parametrize("model", WAYS.values(), ids=WAYS)
def test_more_rows_than_memory_holds_are_refused_with_a_way_out(model):
    fitted = clone(model).fit(np.random.default_rng(0).random((300, 2)))
    for n_samples in (10**11, 2**40):
        with pytest.raises(ValueError, match=r"makes a table of .* GiB, more than this machine's memory; draw it by sample_batches"):
            fitted.sample(n_samples)
    for n_samples in (2**40 + 1, 2**64, 10**400):
        with pytest.raises(ValueError, match=r"n_samples must be at most 2\*\*40"):
            fitted.sample(n_samples)
        with pytest.raises(ValueError, match=r"n_samples must be at most 2\*\*40"):
            fitted.sample_batches(n_samples)


def test_batches_of_more_rows_than_memory_holds_are_refused():
    fitted = PrivateMeasureMechanism().fit(np.full((300, 2), 0.5))
    with pytest.raises(ValueError, match=r"batch_size=1099511627776 makes tables of .* GiB, more than this machine's memory; draw fewer"):
        fitted.sample_batches(2**40, batch_size=2**40)
    assert len(next(iter(fitted.sample_batches(50, batch_size=2**40)))) == 50
