# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy==2.4.6", "pandas==3.1.1"]
# [tool.leaderboard]
# peers = { "independent columns" = [] }
# ///
"""Columns as if they were independent, each drawn from its own noisy counts: the least that a peer must do, and how to write one.

    python benchmarks/leaderboard.py --peer "independent columns"

The relation is add/remove of one row: it changes one count of each column, so the L2 sensitivity of all counts is the root of the number of
columns, and Gaussian noise has the scale of zCDP. Numbers are in 20 equal bins of their public bounds. Noise is numpy's: not for a release.
"""

import argparse
import json
import math
import time

import numpy as np
import pandas as pd

N_BINS = 20

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, kind in (("table", str), ("schema", str), ("epsilon", float), ("delta", float), ("seed", int), ("out", str)):
    parser.add_argument(f"--{name}", type=kind, required=True)
arguments = parser.parse_args()

start, rng = time.perf_counter(), np.random.default_rng(arguments.seed)
table = pd.read_csv(arguments.table, dtype=str, keep_default_na=False)
with open(arguments.schema) as file:
    columns = json.load(file)["columns"]
log = math.log(1 / arguments.delta)
rho = (math.sqrt(log + arguments.epsilon) - math.sqrt(log)) ** 2
scale = math.sqrt(len(columns) / (2 * rho))

synthetic, n_rows = {}, 0
for column in columns:
    cells = table[column["name"]].to_numpy()
    if column["kind"] == "continuous":
        low, high = map(float, column["bounds"])
        place = np.array([-1.0 if cell == "" else (float(cell) - low) / (high - low) for cell in cells])
        code, size = np.where(place < 0, N_BINS, np.minimum(place * N_BINS, N_BINS - 1)).astype(int), N_BINS + 1
    else:
        levels = [str(level) for level in column["levels"]] + [""]
        code, size = pd.Categorical(cells, categories=levels).codes, len(levels)
    counts = np.bincount(code, minlength=size) + rng.normal(0, scale, size)
    counts[-1] *= column["nullable"]  # the last one is that of missing cells
    shares = np.maximum(counts, 0) / np.maximum(counts, 0).sum()
    n_rows = n_rows or round(counts.sum())
    drawn = rng.choice(size, n_rows, p=shares)
    if column["kind"] == "continuous":
        numbers = low + (high - low) * (drawn + rng.random(n_rows)) / N_BINS
        numbers = np.floor(numbers).astype(int) if column["integer"] else numbers
        synthetic[column["name"]] = np.where(drawn == N_BINS, "", numbers.astype(str))
    else:
        synthetic[column["name"]] = np.array(levels)[drawn]
pd.DataFrame(synthetic).to_csv(arguments.out, index=False)
print(json.dumps({"tool": "numpy", "version": np.__version__, "fit_seconds": round(time.perf_counter() - start, 2)}))
