"""The package prints nothing, and neither does what it calls: asked of file descriptor 1, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from estimators import all_estimators

HERE = Path(__file__).parent
FIT_AND_SAMPLE = """
import sys, warnings
import numpy as np
import skdpsynth

warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((60, 2))
for name in sys.argv[1:]:
    model = getattr(skdpsynth, name)(**{"n_factors": 1} if name == "LatentFactorSynthesizer" else {}).fit(X)
    model.sample(20) if hasattr(model, "sample") else model.transform(X)
"""
BY_HIGHS_ALONE = """
import numpy as np
from skdpsynth.measures._min_cost_flow import min_cost_flow

a, b = np.divmod(np.arange(9), 3)
min_cost_flow("highs", a, b, 1.0 + np.abs(a - b), np.array([2.0, 3, 4]), np.array([3.0, 3, 3]), np.full(9, 1.0))
"""


def printed(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True, cwd=HERE.parent, timeout=300)
    return done.stdout


def test_the_first_fits_and_samples_of_a_process_print_nothing():
    assert printed(FIT_AND_SAMPLE, *(cls.__name__ for cls in all_estimators())) == b""


def test_the_first_flow_of_a_process_that_starts_from_a_flow_prints_nothing():
    assert printed(BY_HIGHS_ALONE) == b""
