"""Share of its promise that each audit of a whole fit shows in `tests/test_auditing.py`, over many seeds: the bounds stand there.

    python benchmarks/audit_shares.py [--seeds 100] [--cases PSMM] [--jobs 2]

It prints the mean, deviation, least and largest share, the number of audits that found a promise broken, and the time in seconds.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import QUICK
from internals import _latent_factors
from test_auditing import REDRAWN, WHOLE, shown

CASES = WHOLE | {f"{name}, noise alone": (estimator, n_trials, "noise", *share) for name, (estimator, n_trials, *share) in REDRAWN.items()}


def share(name):
    for place, value in (QUICK | {(_latent_factors, "_STEPS"): 20}).items():  # as the tests have it
        setattr(*place, value)
    return shown(*CASES[name][:3])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"{'audit':40} {'mean':>6} {'sd':>6} {'least':>6} {'most':>6} {'broken':>6}", flush=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.cases:
            start = time.perf_counter()
            shares, is_broken = np.array(list(pool.map(share, [name] * options.seeds))).T
            figures = " ".join(f"{figure:6.3f}" for figure in (shares.mean(), shares.std(ddof=1), shares.min(), shares.max()))
            print(f"{name:40} {figures} {int(is_broken.sum()):6} {time.perf_counter() - start:7.0f}", flush=True)
