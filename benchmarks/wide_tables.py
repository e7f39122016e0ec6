"""Wide tables: common factors of many columns, groups of columns, and time and memory of very many columns.

    python benchmarks/wide_tables.py [--seeds 3] [--only common words groups size]

All fits have delta 1e-6, replace-one, secure noise, and epsilon 1 unless stated. *common*: 100 columns x 20,000 rows on three normal
factors, with noise of each column's own; every second one is cut to four levels, the others are numbers. The figures are the mean absolute
error of the associations of all pairs (`correlation_error`) of a sample, and of the columns each shuffled. *words*: such a table
(`generators.words_on_factors`) whose levels are words without an order, at epsilon 1 and 10. The figures are the mean absolute error of the
correlations of all pairs, and of pairs of words, which are numbered as the factors order them; and `correlation_error`, which has Cramer's
V of pairs of words. *groups*: 100 columns x 50,000 rows in groups of four (`mixed_tables.wide_table`). The figures are the total variation
of pairs within groups, and the correlations between columns of different groups, which are independent. *size*: 300 columns x 50,000 rows
on three factors: seconds of a fit, and peak memory of its process, with imports and data.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from generators import words_on_factors
from mixed_tables import wide_table
from scipy.special import ndtr

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Nominal, Ordinal
from skdpsynth.metrics import correlation_error, marginal_total_variation

MOST_OF_INDEPENDENT, MOST_TV2, MOST_SECONDS, MOST_MIB = 1 / 3, 0.05, 60, 2048
MOST_OF_WORDS = {1.0: (0.05, 0.06, 30), 10.0: (0.03, 0.03, 30)}  # by epsilon: errors of all pairs and of words, seconds of the processor
SIZE = """
import resource, sys, time
sys.path.insert(0, {here!r})
from wide_tables import common_table
from skdpsynth import LatentFactorSynthesizer
X, schema = common_table(50_000, 300)
start = time.perf_counter()
model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(X)
print(time.perf_counter() - start, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def common_table(n, n_columns, n_factors=3, seed=0):
    """Columns that hang on common normal factors: numbers, and four ordered levels, in turn."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(n_factors, n_columns)) / np.sqrt(n_factors)
    Z = rng.normal(size=(n, n_factors)) @ loadings + rng.normal(size=(n, n_columns))
    X, schema = ndtr(Z / np.sqrt((loadings**2).sum(axis=0) + 1)), {}
    for j in range(n_columns):
        schema[j] = Ordinal([0, 1, 2, 3]) if j % 2 else (0.0, 1.0)
        if j % 2:
            X[:, j] = np.minimum(np.floor(4 * X[:, j]), 3)
    return X, schema


def fitted(X, schema):
    """Return a sample of the size of the table, and the seconds of the fit."""
    start = time.perf_counter()
    model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(X)
    seconds = time.perf_counter() - start
    return model.sample(), seconds, model


def shuffled(X):
    """Return the columns, each in an order of its own."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.permutation(column) for column in X.T])


def common(seeds):
    """Print the error of correlations; return whether it is at most a third of that of independent columns."""
    ratios = []
    for seed in range(seeds):
        X, schema = common_table(20_000, 100, seed=seed)
        of_independent = correlation_error(X, shuffled(X), schema)
        sample, seconds, model = fitted(X, schema)
        error = correlation_error(X, sample, schema)
        ratios.append(error / of_independent)
        blocks = sorted((len(block) for block in model._model.blocks), reverse=True)
        print(
            f"common, seed {seed}: correlation error {error:.4f} of {of_independent:.4f}, fit {seconds:.1f} s, blocks {blocks[:8]}",
            flush=True,
        )
    return float(np.mean(ratios)) <= MOST_OF_INDEPENDENT


def numbered(table, orders):
    """Return a frame whose words have the numbers that the factors give them, as an array."""
    places = {j: {word: place for place, word in enumerate(words)} for j, words in orders.items()}
    return np.column_stack([table[j].map(places[j]) if j in places else table[j] for j in table]).astype(float)


def words(seeds):
    """Print errors of correlations and times; return whether all are small enough in the mean."""
    met = True
    for epsilon, most in MOST_OF_WORDS.items():
        runs = []
        for seed in range(seeds):
            table, orders = words_on_factors(20_000, 100, seed)
            schema = {j: Nominal(sorted(orders[j])) if j in orders else (-4.0, 4.0) for j in table}
            start = time.process_time()
            model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=1e-6).fit(table)
            seconds = time.process_time() - start
            sample = model.sample()
            real, made = (np.corrcoef(numbered(each, orders).T) for each in (table, sample))
            both = np.isin(np.arange(100), list(orders))
            parts = [np.triu(np.ones((100, 100), dtype=bool), 1), np.triu(np.outer(both, both), 1)]
            runs.append([*(np.abs(real - made)[part].mean() for part in parts), seconds])
            of_independent = [np.abs(real)[part].mean() for part in parts]
            print(
                f"words, epsilon {epsilon:g}, seed {seed}: error of correlations {runs[-1][0]:.4f} of {of_independent[0]:.4f}, "
                f"of words {runs[-1][1]:.4f} of {of_independent[1]:.4f}, correlation_error {correlation_error(table, sample, schema):.4f}, "
                f"fit {seconds:.1f} s of processor time",
                flush=True,
            )
        met &= bool((np.mean(runs, axis=0) <= most).all())
    return met


def groups(seeds):
    """Print the total variation within groups; return whether it is small enough."""
    X, schema = wide_table(50_000, 100)
    parts, variations = [list(range(start, start + 4)) for start in range(0, 100, 4)], []
    ordered = [j for j in range(100) if j % 3 != 2]
    apart = np.array([[i // 4 != j // 4 for j in ordered] for i in ordered])
    for seed in range(seeds):
        sample, seconds, _ = fitted(X, schema)
        within = [marginal_total_variation(X[:, g], sample[:, g], {i: schema[j] for i, j in enumerate(g)}, 2) for g in parts]
        variations.append(np.mean(within))
        between = np.abs(np.corrcoef(sample[:, ordered].astype(float).T))[apart]
        print(
            f"groups, run {seed}: TV2 within {variations[-1]:.4f}, |correlation| between {between.mean():.4f} (most {between.max():.3f}), "
            f"fit {seconds:.1f} s",
            flush=True,
        )
    return float(np.mean(variations)) <= MOST_TV2


def size(seeds):
    """Print time and peak memory; return whether both are small enough."""
    runs = []
    for _ in range(seeds):
        program = SIZE.format(here=str(Path(__file__).parent))
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        runs.append([float(word) for word in done.stdout.split()])
        print(f"size: {runs[-1][0]:.1f} s, {runs[-1][1]:.1f} s of processor time in all, {runs[-1][2]:.0f} MiB", flush=True)
    seconds, _, mib = np.max(runs, axis=0)
    return bool(seconds < MOST_SECONDS and mib < MOST_MIB)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["common", "words", "groups", "size"], choices=["common", "words", "groups", "size"])
    arguments = parser.parse_args()
    results = {part: globals()[part](arguments.seeds) for part in arguments.only}
    print(", ".join(f"{part}: {'met' if met else 'MISSED'}" for part, met in results.items()))
    sys.exit(not all(results.values()))
