"""Fit MST or AIM of smartnoise-synth to a table of mixed type and write as many synthetic rows as it has.

    python benchmarks/peers/fit_smartnoise.py --tool mst --table TRAIN.csv --schema SCHEMA.json --epsilon 1 --out SYNTHETIC.csv

Called as fit_peer.py is, and prints the same line of JSON. Both are told the levels. Continuous columns are cut into equal bins within
their public bounds, which costs nothing, and come back uniform within a bin: the whole budget goes to the model. The relation is
add/remove of one row. Needs nothing of skdpsynth.
"""

import argparse
import csv
import json
import resource
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from snsynth import Synthesizer


class Levels:
    """Codes of a column of levels, in the order of the schema; missing is one more."""

    def __init__(self, column, bins):
        self.spellings = [str(level) for level in column["levels"]] + [""] * column["nullable"]

    def encode(self, cells):
        code = {spelling: i for i, spelling in enumerate(self.spellings)}
        return np.array([code.get(cell, 0) for cell in cells])

    def decode(self, codes, rng):
        return [self.spellings[code] for code in codes]


class Bins:
    """Codes of a column of numbers: equal bins between its bounds, no more than it has whole numbers; missing is one more."""

    def __init__(self, column, bins):
        (self.low, high), self.whole = column["bounds"], column["integer"]
        self.width = high - self.low + self.whole  # a whole number takes the step up to the next
        self.bins = min(bins, self.width) if self.whole else bins

    def encode(self, cells):
        values = pd.to_numeric(pd.Series(cells, dtype=object).replace("", None)).to_numpy(float)
        part = (values - self.low) / self.width
        return np.where(np.isnan(values), self.bins, np.clip(np.nan_to_num(part) * self.bins, 0, self.bins - 1)).astype(int)

    def decode(self, codes, rng):
        values = self.low + (np.minimum(codes, self.bins - 1) + rng.random(len(codes))) / self.bins * self.width
        values = np.floor(values).astype(int) if self.whole else values
        return ["" if code == self.bins else value for code, value in zip(codes, values, strict=True)]


def peak_mib():
    """Return the peak memory of this process: the kernel's own file does not count what its parent held, as getrusage does."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    known = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return round((known[0] if known else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=("mst", "aim"), required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--schema", required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bins", type=int, default=20)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    np.random.seed(arguments.seed)  # noqa: NPY002  it draws from numpy's global stream
    rng = np.random.default_rng(arguments.seed)
    with open(arguments.schema) as file:
        columns = json.load(file)["columns"]
    table = pd.read_csv(arguments.table, dtype=str, keep_default_na=False)

    start = time.perf_counter()
    coders = {column["name"]: (Bins if column["kind"] == "continuous" else Levels)(column, arguments.bins) for column in columns}
    codes = pd.DataFrame({name: coder.encode(table[name]) for name, coder in coders.items()})
    model = Synthesizer.create(arguments.tool, epsilon=arguments.epsilon, delta=arguments.delta)
    model.fit(codes, categorical_columns=list(codes), preprocessor_eps=0.0)
    fitted = time.perf_counter()
    drawn = model.sample(len(table))
    synthetic = {name: coder.decode(drawn[name].to_numpy(int), rng) for name, coder in coders.items()}
    sampled = time.perf_counter()

    with open(arguments.out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(synthetic)
        writer.writerows(zip(*synthetic.values(), strict=True))
    report = {
        "tool": f"smartnoise-synth {arguments.tool}",
        "version": version("smartnoise-synth"),
        "fit_seconds": round(fitted - start, 2),
        "sample_seconds": round(sampled - fitted, 2),
        "peak_mib": peak_mib(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
