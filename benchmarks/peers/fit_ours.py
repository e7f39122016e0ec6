"""Fit a synthesizer of skdpsynth to a table of mixed type and write as many synthetic rows as it has.

    python benchmarks/peers/fit_ours.py --tool latent-factor --table TRAIN.csv --schema SCHEMA.json --epsilon 1 --out SYNTHETIC.csv

Called as fit_peer.py is, and prints the same line of JSON. The relation is add/remove of one row, as it is for the peers.
"""

import argparse
import json
import resource
import time
import warnings
from pathlib import Path

import skdpsynth
from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Schema


def unfitted(arguments):
    budget = {"epsilon": arguments.epsilon, "delta": arguments.delta, "neighboring": "add_or_remove_one"}
    if arguments.tool == "latent-factor":
        return LatentFactorSynthesizer(arguments.schema, stratify=arguments.target, **budget)
    with open(arguments.schema) as file:
        columns = json.load(file)["columns"]
    return PrivateMeasureMechanism(bounds={column["name"]: column["bounds"] for column in columns}, **budget)


def peak_mib():
    """Return the peak memory of this process: the kernel's own file does not count what its parent held, as getrusage does."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    known = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return round((known[0] if known else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=("latent-factor", "pmm"), required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--schema", required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0, help="of the sample; noise takes none")
    parser.add_argument("--target")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with open(arguments.table) as file:
        n_rows = sum(1 for _ in file) - 1

    Schema.of(arguments.schema)
    start = time.perf_counter()
    model = unfitted(arguments).fit(arguments.table)
    fitted = time.perf_counter()
    model.sample(n_rows, random_state=arguments.seed, out=arguments.out)
    report = {
        "tool": f"skdpsynth {arguments.tool}",
        "version": skdpsynth.__version__,
        "fit_seconds": round(fitted - start, 2),
        "sample_seconds": round(time.perf_counter() - fitted, 2),
        "peak_mib": peak_mib(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
