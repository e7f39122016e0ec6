"""Peak memory that fitting 1e7 x 5 rows adds to the input, in a fresh process for each estimator.

python benchmarks/memory.py
"""

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
import skdpsynth
from skdpsynth import {name}
{name}({own}).fit(np.random.default_rng(1).random((1000, 5)))   # imports and tables are not the fit's
X = np.random.default_rng(0).random((10**7, 5))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{name}({own}).fit(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""

failed = False
for name, own in (
    ("PrivateMeasureMechanism", ""),
    ("PrivateMeasureMechanism", "'optimal'"),
    ("PrivatePCA", ""),
    ("LowDimSynthesizer", "2"),
):
    added = float(
        subprocess.run([sys.executable, "-c", PROGRAM.format(name=name, own=own)], check=True, capture_output=True, text=True).stdout
    )
    failed |= added >= 400
    print(f"{name}({own}) on 1e7 x 5 (input 381 MiB): adds {added:.0f} MiB, target < 400", flush=True)
sys.exit(failed)
