# /// script
# requires-python = ">=3.11,<3.12"
# [tool.leaderboard]
# environment = "dpmm"
# peers = { "MST (dpmm)" = ["--tool", "mst"], "AIM (dpmm)" = ["--tool", "aim"], "PrivBayes (dpmm)" = ["--tool", "privbayes"] }
# ///
"""Fit AIM, MST or PrivBayes of dpmm to a table of mixed type and write as many synthetic rows as it has.

python -m venv peers && peers/bin/pip install -r benchmarks/peers/dpmm.txt
peers/bin/python benchmarks/peers/fit_peer.py --tool aim --table TRAIN.csv --schema SCHEMA.json --epsilon 1 --out SYNTHETIC.csv

The schema holds the columns of the table (see benchmarks/mixed_data.py); an empty cell is missing. Prints one line of JSON: tool,
version, seconds of fit and of sample, peak memory in MiB. Needs nothing of skdpsynth.

What the budget means. `epsilon` is the total: dpmm spends its `proc_epsilon` for bins on top of the epsilon of the model, so here a
tenth goes to the bins (shared equally by the continuous columns; pure epsilon) and nine tenths to the model, with all of delta. The
relation is add/remove of one row, as in our own figures: the models turn (epsilon, delta) into rho of zCDP and add Gaussian noise of
variance 1 / (2 rho) to a marginal, which is L2 sensitivity 1 (replacing a row would need sqrt(2)), AIM and MST select by L1 scores of
sensitivity 1, and PrivTree is calibrated to one point more or less. Where dpmm promises more than it proves, its word is taken and it
gains by it: PrivTree's threshold is the exact number of rows over that of bins, and PrivBayes selects, with half of epsilon, by mutual
information in bits over the root of the entropies, while the sensitivity is that of mutual information in nats with n public.
A seed fixes selection and sampling only: the noise comes from OpenDP, which takes none.
"""

import argparse
import csv
import json
import resource
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline
from dpmm.processing.binners import PrivTreeBinner

PIPELINES = {"aim": AIMPipeline, "mst": MSTPipeline, "privbayes": PrivBayesPipeline}
BINNING = 0.1  # the share of epsilon that the bins of continuous columns cost


class Levels:
    """Codes of a column of levels, in the order of the schema; missing is one more."""

    def __init__(self, column):
        self.spellings = [str(level) for level in column["levels"]] + [""] * column["nullable"]
        self.size = len(self.spellings)

    def encode(self, cells):
        code = {spelling: i for i, spelling in enumerate(self.spellings)}
        return np.array([code[cell] for cell in cells])

    def decode(self, codes):
        return [self.spellings[code] for code in codes]


class Bins:
    """Codes of a continuous column: dpmm's PrivTree bins between the public bounds; missing is one more."""

    def __init__(self, column, cells, epsilon, n_bins, rng):
        self.dtype = np.int64 if column["integer"] else np.float64
        low, high = column["bounds"]
        self.binner = PrivTreeBinner(n_bins=n_bins, epsilon=epsilon, lower=low, upper=high, rnd=rng)
        self.binner.fit(self._numbers([cell for cell in cells if cell]))
        self.missing = self.binner.bin_domain
        self.size = self.missing + column["nullable"]

    def _numbers(self, cells):
        return np.array(cells, dtype=float).astype(self.dtype)

    def encode(self, cells):
        is_missing = np.array([not cell for cell in cells])
        codes = np.full(len(cells), self.missing)
        codes[~is_missing] = self.binner.transform(self._numbers([cell for cell in cells if cell]))
        return codes

    def decode(self, codes):
        values = self.binner.inverse_transform(np.minimum(codes, self.missing - 1))
        return ["" if code == self.missing else value for code, value in zip(codes, values, strict=True)]


def fit(table, schema, arguments, rng):
    """Return the codes of the columns, by name, and the fitted model. All that is public comes from the schema."""
    columns = schema["columns"]
    n_continuous = sum(column["kind"] == "continuous" for column in columns)
    share = BINNING if n_continuous else 0
    coders = {}
    for column in columns:
        if column["kind"] == "continuous":
            epsilon = share * arguments.epsilon / n_continuous
            coders[column["name"]] = Bins(column, table[column["name"]], epsilon, arguments.bins, rng)
        else:
            coders[column["name"]] = Levels(column)
    is_aim = arguments.tool == "aim"
    model = PIPELINES[arguments.tool](
        epsilon=(1 - share) * arguments.epsilon,
        delta=arguments.delta,
        max_model_size=arguments.max_model_mb if is_aim else None,
        n_jobs=1,
        gen_kwargs={"rounds": arguments.rounds or 2 * len(columns)} if is_aim else None,
        disable_processing=True,
    )
    codes = pd.DataFrame({name: coder.encode(table[name]) for name, coder in coders.items()})
    model.fit(codes, domain={name: coder.size for name, coder in coders.items()}, random_state=rng)
    return coders, model


def peak_mib():
    """Return the peak memory of this process: the kernel's own file does not count what its parent held, as getrusage does."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    known = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return round((known[0] if known else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=PIPELINES, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--schema", required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True)
    parser.add_argument("--bins", type=lambda text: text if text == "auto" else int(text), default="auto", help="most bins of a column")
    parser.add_argument("--rounds", type=int, help="of AIM; default: two a column (dpmm's own sixteen take hours)")
    parser.add_argument("--max-model-mb", type=float, default=8, help="of AIM")
    arguments = parser.parse_args()

    with open(arguments.schema) as file:
        schema = json.load(file)
    table = pd.read_csv(arguments.table, dtype=str, keep_default_na=False)
    if list(table.columns) != [column["name"] for column in schema["columns"]]:
        parser.error("the schema's columns are not those of the table")
    rng = np.random.RandomState(arguments.seed)

    start = time.perf_counter()
    coders, model = fit(table, schema, arguments, rng)
    fitted = time.perf_counter()
    codes = model.generate(n_records=len(table), random_state=rng)
    synthetic = {name: coder.decode(codes[name].to_numpy(int)) for name, coder in coders.items()}
    sampled = time.perf_counter()

    with open(arguments.out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(synthetic)
        writer.writerows(zip(*synthetic.values(), strict=True))
    report = {
        "tool": f"dpmm {arguments.tool}",
        "version": version("dpmm"),
        **{key: value for key, value in vars(arguments).items() if key in ("epsilon", "delta", "seed", "bins")},
        "fit_seconds": round(fitted - start, 2),
        "sample_seconds": round(sampled - fitted, 2),
        "peak_mib": peak_mib(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
