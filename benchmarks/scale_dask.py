"""A fit on a cluster of Dask: two workers beside one, on more rows than one of them has memory for.

python benchmarks/scale_dask.py          # 2e7 x 5 rows, 763 MiB, workers of 600 MiB
python benchmarks/scale_dask.py --full   # 1e8 x 5 rows, 3.7 GiB, workers of 1 GiB
"""

import argparse
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from skdpsynth import PrivateMeasureMechanism

GOAL = 1.5
FILE_ROWS = 10**6


def _peak():
    """Peak memory of this process in MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _write(folder, n_rows):
    import pandas as pd

    for i in range(n_rows // FILE_ROWS):
        X = np.random.default_rng(i).random((FILE_ROWS, 5))
        pd.DataFrame(X, columns=list("abcde")).to_parquet(Path(folder) / f"{i:04}.parquet")


def dask(args):
    """Measure; return whether a target was missed."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    n_rows, limit = (10**8, "1GiB") if args.full else (args.rows or 2 * 10**7, "600MiB")
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, n_rows)
        for n_workers in (1, 2):
            options = {"threads_per_worker": 1, "memory_limit": limit, "dashboard_address": ":0", "silence_logs": logging.ERROR}
            with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster) as client:
                PrivateMeasureMechanism().fit(dd.read_parquet(Path(folder) / "0000.parquet"))  # imports are not the fit's
                people = dd.read_parquet(folder)
                start = time.perf_counter()
                PrivateMeasureMechanism(random_state=0).fit(people)
                seconds[n_workers] = time.perf_counter() - start
                peak = max(client.run(_peak).values())
                sent = max(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())
                print(
                    f"{n_rows:.0e} x 5 rows ({n_rows * 40 >> 20} MiB), {n_workers} worker(s) of {limit}: {seconds[n_workers]:.1f} s, "
                    f"{n_rows / seconds[n_workers] / 1e6:.1f} million rows a second, peak of a worker {peak:.0f} MiB, "
                    f"sent by one {sent / 2**20:.2f} MiB",
                    flush=True,
                )
    ratio = seconds[1] / seconds[2]
    print(f"two workers beside one: {ratio:.2f} times as fast, goal >= {GOAL}", flush=True)
    return ratio < GOAL


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rows", type=int, help="a multiple of a million, in place of 2e7")
    sys.exit(dask(parser.parse_args()))
