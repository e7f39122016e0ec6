"""Sizes are refused by public numbers before the charge; what is accepted stays within the memory that is stated here."""

import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

from skdpsynth import LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Box
from skdpsynth.fitting import Facts

REFUSED = {
    "PMM, optimal": (PrivateMeasureMechanism("optimal", depth=25), (1000, 2), "depth must be at most 24"),
    "PMM, paper": (PrivateMeasureMechanism("paper", depth=26), (1000, 2), "depth must be at most 24"),
    "PCA": (PrivatePCA(), (10, 10_000), "X must have at most 4000 features, got 10000"),
    "PCA inside": (LowDimSynthesizer(2), (10, 10_000), "X must have at most 4000 features, got 10000"),
    "PSMM": (SignedMeasureMechanism(150_000), (50, 1000), "from 1 to 33554, got 150000; .* with solver='highs'"),
    "PSMM inside": (LowDimSynthesizer(500, synthesizer=SignedMeasureMechanism(150_000)), (50, 600), "from 1 to 67108"),
}


@pytest.mark.parametrize(("estimator", "shape", "message"), REFUSED.values(), ids=REFUSED)
def test_a_size_beyond_memory_is_refused_before_the_charge(estimator, shape, message):
    shared = PrivacyAccountant(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=message) as caught:
            estimator.set_params(accountant=shared).fit(np.zeros(shape))
    assert shared.spent == 0
    assert str(caught.value).count(". ") == 0


GROWTH = """
import resource, warnings
import numpy as np
import scipy.linalg
from skdpsynth import *
warnings.simplefilter("ignore")
PrivatePCA().fit(np.zeros((5, 3)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{fit}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux")
@pytest.mark.parametrize(
    ("fit", "most"),
    [
        ("PrivateMeasureMechanism('optimal', depth=19).fit(np.zeros((100, 2)))", 96 * 2**19),  # 1.6 GB at depth 24
        pytest.param("PrivateMeasureMechanism('paper', depth=19).fit(np.zeros((100, 2)))", 112 * 2**19, marks=pytest.mark.nightly),
        pytest.param("PrivatePCA().fit(np.zeros((10, 500)))", 165 * 500**2, marks=pytest.mark.nightly),  # 2.6 GB at 4000 features
    ],
    ids=["PMM-optimal", "PMM-paper", "PCA"],
)
def test_memory_grows_by_no_more_than_is_stated(fit, most):
    """Peak of a process of its own; 16 MB are the process's."""
    done = subprocess.run([sys.executable, "-c", GROWTH.format(fit=fit)], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= most + 2**24


LIMITED = """
import resource, warnings
import numpy as np
import scipy.linalg
from skdpsynth import *
warnings.simplefilter("ignore")
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 700 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
model = LowDimSynthesizer(150, synthesizer=SignedMeasureMechanism(20)).fit(np.random.default_rng(0).random((50, 200)))
print(model.synthesizer_.measure_.partition.n_cells)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_cells_in_a_subspace_of_many_directions_are_found_within_700_megabytes():
    """All sets of directions that span a normal, times their coordinates, would be 90 MB times the work space of the decomposition."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert 1 <= int(done.stdout) <= 20


def test_the_least_epsilon_is_served_on_a_coarser_grid_or_by_the_kind_of_noise_that_can():
    """The sum of the rows on a fine grid would have noise of a scale that cannot be drawn; pure noise of so small a share passes 62 bits
    on every grid, while Gaussian noise, whose scale grows with d and not with d^2, does not."""
    least, delta = Fraction(1, 10**9), Fraction(1, 10**6)
    for n_features in (1, 100, 500, 2000):
        facts = Facts(least, Fraction(0), "replace_one", 10**6, n_features, Box(np.zeros(n_features), np.ones(n_features)))
        assert PrivatePCA(epsilon=1e-9)._plan(facts).ball.box.bits < 16
    for n_samples in (20, 10**6):
        facts = Facts(least, delta, "replace_one", n_samples, 4000, Box(np.zeros(4000), np.ones(4000)))
        assert PrivatePCA(epsilon=1e-9, delta=1e-6)._plan(facts).kind == "gaussian"
        with pytest.raises(ValueError, match="epsilon is too small for 4000 features"):
            PrivatePCA(epsilon=1e-9, delta=1e-6, noise="matrix_laplace")._plan(facts)
