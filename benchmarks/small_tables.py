"""Small tables: the quality score of sdmetrics, and AUC, beside AIM, MST and PrivBayes; and grades in a survey. Downloads nothing.

python benchmarks/small_tables.py [--seeds 3] [--tables digits diabetes wine survey survey_1500]
    [--measure [--environments FOLDER] [--keep FOLDER] [--limit 900] [--peer-seeds 3]]

The tables are scikit-learn's, with public bounds that are stated here and not read from rows. digits: 1,200 of 1,797 images, in 12 parts of
2 x 2 pixels (all but the corners); diabetes: 332 of 442 patients, 11 columns; wine: 133 of 178 wines, 13 columns. Noise is secure, epsilon
is 1, delta is 1e-6, the relation is add/remove of one row, and no column is known to be a target.

survey, survey_1500: made-up answers of 395 and of 1,500 people to 33 questions (generators.py). Beside their score stands the mean absolute
error of the correlations of three grades in 20,000 synthetic rows, under both relations, with delta and without.

The score is the mean of the shapes (1 less the Kolmogorov-Smirnov distance of a column, in the mean over columns) and of the trends (1 less
half of the difference of Pearson correlations, in the mean over pairs whose correlation is above .5 or below -.5 in the training rows), of
as many synthetic rows. The QualityReport of sdmetrics 0.32 gives the same score for numbers; where sdmetrics is installed, the report
itself is asked, and the two must agree. AUC is the mean of logistic regression and gradient boosting, trained on synthetic rows to tell
whether the target is above a public cut, and tested on held-out real rows.

Targets: scores of no table lower than before few pairs were chosen (`BEFORE`, by two standard errors of the difference), and higher in the
mean of all; errors of grades at most half of what they were at delta 1e-6.

Beside peers the targets are a score, and an AUC, of at least the best one's on that table, from benchmarks/peers/small.json with date,
versions and command. `--measure` fits the peers again (peers/dpmm.txt in an environment of its own), one process a fit with a limit of
processor seconds, and stores the results; rows in `--keep` are not made again.
"""

import argparse
import datetime
import json
import sys
import tempfile
import time
import warnings
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from generators import survey
from peer_runs import PEERS, environment, fitted
from scipy.stats import ks_2samp
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Continuous, Nominal, Ordinal, Schema
from skdpsynth.exceptions import SmallSampleWarning

STORED = PEERS / "small.json"
EPSILON, DELTA = 1.0, 1e-6
TOOLS = ("mst", "privbayes", "aim")
TREND = 0.5  # correlations of the training rows beyond this count, either way


def digits():
    parts = load_digits().images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
    places = [(i, j) for i in range(4) for j in range(4) if {i, j} - {0, 3}]
    rows = pd.DataFrame({f"part_{i}{j}": parts[:, i, j] for i, j in places})
    return *split(rows, 1200), dict.fromkeys(rows, (0.0, 16.0)), "part_12", 8.0


def diabetes():
    rows = load_diabetes(scaled=False, as_frame=True).frame.astype(float)
    ends = [(18, 90), (1, 2), (12, 50), (40, 160), (50, 400), (0, 300), (0, 120), (1, 12), (2, 8), (40, 200), (0, 400)]
    return *split(rows, 332), bounds(rows, ends), "target", 140.0


def wine():
    rows = load_wine(as_frame=True).frame.drop(columns="target").astype(float)
    ends = [(10, 16), (0, 7), (1, 4), (8, 32), (60, 180), (0, 5), (0, 6), (0, 1), (0, 5), (0, 15), (0, 2), (1, 5), (200, 2000)]
    return *split(rows, 133), bounds(rows, ends), "proline", 700.0


def answers(n):
    columns, n_levels = survey(n + n // 3)
    rows = pd.DataFrame(columns)
    kinds = [Continuous(0, 20) if size > 5 else (Nominal, Ordinal)[i % 2](range(size)) for i, size in enumerate(n_levels.values())]
    return rows[:n], rows[n:], Schema(dict(zip(rows, kinds, strict=True))), "grade_3", 11


TABLES = {"digits": digits, "diabetes": diabetes, "wine": wine, "survey": partial(answers, 395), "survey_1500": partial(answers, 1500)}
SURVEYS = ("survey", "survey_1500")
GRADES = ["grade_1", "grade_2", "grade_3"]
# Where the pairs of all columns were counted: mean score, its standard deviation, fits; and errors of grades, by delta.
BEFORE = {
    "digits": (0.8530, 0.0193, 12),
    "diabetes": (0.7911, 0.0126, 12),
    "wine": (0.7371, 0.0118, 12),
    "survey": (0.7262, 0.0059, 6),
    "survey_1500": (0.7684, 0.0025, 6),
}
GRADES_BEFORE = {("survey", 1e-6): 0.873, ("survey", 0.0): 0.868, ("survey_1500", 1e-6): 0.862, ("survey_1500", 0.0): 0.860}
RELATIONS = ("replace_one", "add_or_remove_one")
N_SAMPLED = 20_000  # rows, of which correlations of grades are taken


def bounds(rows, ends):
    return {name: (float(low), float(high)) for name, (low, high) in zip(rows, ends, strict=True)}


def split(rows, n_train):
    """Return the training and the held-out rows."""
    mixed = rows.iloc[np.random.default_rng(0).permutation(len(rows))].reset_index(drop=True)
    return mixed[:n_train], mixed[n_train:]


def correlations(rows):
    with np.errstate(invalid="ignore"):  # of a column that is constant
        return np.nan_to_num(np.corrcoef(rows.to_numpy().T))[np.triu_indices(rows.shape[1], 1)]


def own_score(rows, synthetic):
    shapes = np.mean([1 - ks_2samp(rows[name], synthetic[name]).statistic for name in rows])
    real, made = correlations(rows), correlations(synthetic[list(rows)])
    counted = np.abs(real) > TREND
    trends = np.mean(1 - np.abs(real - made)[counted] / 2)
    return (shapes + trends) / 2, shapes, trends


def score(rows, synthetic):
    """Return the score, the shapes and the trends: of sdmetrics, where that is installed."""
    own = own_score(rows, synthetic)
    if find_spec("sdmetrics") is None:
        return own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdmetrics.reports.single_table import QualityReport

        report = QualityReport()
        report.generate(rows, synthetic, {"columns": {name: {"sdtype": "numerical"} for name in rows}}, verbose=False)
    theirs = (report.get_score(), *report.get_properties()["Score"])
    if not np.allclose(own, theirs, atol=1e-9):
        raise AssertionError(f"sdmetrics says {theirs}, and we say {own}")
    return theirs


def auc(synthetic, test, target, cut):
    """Return how well classifiers of synthetic rows tell a high target; one half where all synthetic rows are on one side."""
    X, X_test = (rows.drop(columns=target).to_numpy() for rows in (synthetic[list(test)], test))
    y, y_test = ((rows[target] > cut).to_numpy() for rows in (synthetic, test))
    if y.all() or not y.any():
        return 0.5
    models = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), HistGradientBoostingClassifier(max_iter=60, random_state=0)
    return np.mean([roc_auc_score(y_test, model.fit(X, y).predict_proba(X_test)[:, 1]) for model in models])


def figures(name, synthetic):
    """Return score, shapes, trends and AUC of synthetic rows."""
    rows, test, _, target, cut = TABLES[name]()
    return [*score(rows, synthetic), auc(synthetic, test, target, cut)]


def ours(name, seed):
    rows, _, schema, _, _ = TABLES[name]()
    model = LatentFactorSynthesizer(schema, epsilon=EPSILON, delta=DELTA, neighboring="add_or_remove_one")
    start = time.perf_counter()
    model.fit(rows)
    seconds = time.perf_counter() - start
    return [*figures(name, pd.DataFrame(model.sample(len(rows), random_state=seed), columns=list(rows)).astype(float)), seconds]


def grade_error(name, neighboring, delta, seed):
    """Return by how much correlations of grades are off, and the seconds of the processor that the fit took."""
    rows, _, schema, _, _ = TABLES[name]()
    start = time.process_time()
    model = LatentFactorSynthesizer(schema, epsilon=EPSILON, delta=delta, neighboring=neighboring).fit(rows)
    seconds = time.process_time() - start
    made = model.sample(N_SAMPLED, random_state=seed)
    return np.abs(correlations(made[GRADES]) - correlations(rows[GRADES])).mean(), seconds


def compare_grades(n_fits, names):
    """Print the errors of grades; return whether all goals were met."""
    print("\n| table | relation | delta | fits | error of grades (sd) | before | seconds of the processor | goal |\n" + "|---" * 8 + "|")
    all_met = True
    for name, neighboring, delta in product((each for each in SURVEYS if each in names), RELATIONS, (DELTA, 0.0)):
        found, before = np.array([grade_error(name, neighboring, delta, seed) for seed in range(n_fits)]), GRADES_BEFORE[name, delta]
        mean, met = found[:, 0].mean(), not delta or found[:, 0].mean() <= before / 2
        all_met &= bool(met)
        goal = "" if not delta else f"{before / 2:.3f}: {'met' if met else 'MISSED'}"
        spread = f"{mean:.3f} ({found[:, 0].std(ddof=1):.3f})"
        print(
            f"| {name} | {neighboring} | {delta:g} | {n_fits} | {spread} | {before:.3f} | {found[:, 1].mean():.1f} | {goal} |", flush=True
        )
    return all_met


def no_lower(scores):
    """Print scores beside those before, of each table and in the mean; return whether none is lower and the mean is higher."""
    print("\n| table | score | before | goal |\n|---|---|---|---|")
    all_met = True
    for name, found in scores.items():
        mean, deviation, n_before = BEFORE[name]
        error = 2 * np.hypot(np.std(found, ddof=1) / len(found) ** 0.5, deviation / n_before**0.5)
        met = np.mean(found) >= mean - error
        all_met &= bool(met)
        print(f"| {name} | {np.mean(found):.3f} | {mean:.3f} | within two standard errors, {error:.3f}: {'met' if met else 'MISSED'} |")
    now, then = np.mean([np.mean(found) for found in scores.values()]), np.mean([BEFORE[name][0] for name in scores])
    met = now > then or not set(SURVEYS) & set(scores)
    print(f"| mean | {now:.3f} | {then:.3f} | higher: {'met' if met else 'MISSED'} |", flush=True)
    return all_met and bool(met)


def line(name, who, found, goal=""):
    cells = [f"{np.mean(each):.3f}" + (f" ({np.std(each, ddof=1):.3f})" if len(found) > 1 else "") for each in np.transpose(found)[:4]]
    print(f"| {name} | {who} | {len(found)} | {' | '.join(cells)} | {np.mean(found, axis=0)[4]:.1f} | {goal} |", flush=True)


def compare(seeds, names):
    """Print the tables; return whether all goals were met."""
    stored, all_met, scores = json.loads(STORED.read_text()), True, {}
    print("| table | tool | fits | score (sd) | shapes | trends | AUC | seconds a fit | goal |\n" + "|---" * 9 + "|")
    for name in names:
        found = [ours(name, seed) for seed in range(seeds)]
        scores[name] = [each[0] for each in found]
        theirs = {tool: stored["fits"].get(f"{name} {tool}") for tool in TOOLS}
        means = [np.mean(each, axis=0) for each in theirs.values() if each]
        goal = "no figures of peers: nothing compared"
        if means:
            most = np.max(means, axis=0)[[0, 3]]
            met = bool((np.mean(found, axis=0)[[0, 3]] >= most).all())
            goal, all_met = f"best of peers: {most[0]:.3f}, AUC {most[1]:.3f}: {'met' if met else 'MISSED'}", all_met and met
        line(name, "skdpsynth", found, goal)
        for tool, each in () if name in SURVEYS else theirs.items():
            if each:
                line(name, f"{tool} (dpmm)", each)
            else:
                print(f"| {name} | {tool} (dpmm) | {stored['without figures'].get(f'{name} {tool}', 'not installed')} |", flush=True)
    return all([all_met, no_lower(scores), compare_grades(max(seeds, 10), names)])


def peer(python, tool, name, seed, keep, limit):
    """Return the figures of one fit of a peer; None if it did not finish in time."""
    rows, _, schema, _, _ = TABLES[name]()
    columns = [
        {"name": column, "kind": "continuous", "bounds": ends, "integer": False, "nullable": False} for column, ends in schema.items()
    ]
    out, command = keep / f"{name}_{tool}_{seed}.csv", (python, PEERS / "fit_peer.py", "--tool", tool)
    said = fitted(command, rows, columns, out, epsilon=EPSILON, delta=DELTA, seed=seed, limit=limit)
    return said and [round(float(value), 5) for value in (*figures(name, pd.read_csv(out)), said["fit_seconds"])]


def measure(names, n_fits, environments, keep, limit):
    """Fit the peers again and store what came out."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"fits": {}, "without figures": {}}
    python = environment("dpmm", environments)
    for cell, name, tool in ((f"{name} {tool}", name, tool) for name in names for tool in TOOLS):
        found = [peer(python, tool, name, seed, keep, limit) for seed in range(n_fits)]
        stored["fits"][cell] = [each for each in found if each]
        stored["without figures"].pop(cell, None)
        if not stored["fits"][cell]:
            stored["without figures"][cell] = f"no fit in {limit} seconds of the processor"
        print(cell, stored["fits"][cell], flush=True)
        store(stored)


def store(stored):
    """Write the figures of the peers, a line for each cell."""
    stored["date"] = datetime.date.today().isoformat()
    stored["figures"] = "score, shapes, trends, AUC, seconds of the fit on the clock; a list for each seed that returned"
    stored["command"] = "python benchmarks/small_tables.py --measure"
    stored["of a fit"] = "dpmm 0.1.9, peers/fit_peer.py --epsilon 1 --delta 1e-6 --seed 0, 1, ...; AIM: two rounds a column, 8 MB"
    fits = ",\n".join(f"    {json.dumps(cell)}: {json.dumps(found)}" for cell, found in stored["fits"].items())
    rest = "".join(f"  {json.dumps(key)}: {json.dumps(stored[key])},\n" for key in sorted(stored.keys() - {"fits"}))
    STORED.write_text("{\n" + rest + '  "fits": {\n' + fits + "\n  }\n}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=TABLES)
    parser.add_argument("--measure", action="store_true", help="fit the peers again")
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=900, help="seconds of the processor that a fit of a peer may take")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "skdpsynth-peers")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "skdpsynth-peers" / "small")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", SmallSampleWarning)
    if arguments.measure:
        measure(arguments.tables, arguments.peer_seeds, arguments.environments, arguments.keep, arguments.limit)
    met = compare(arguments.seeds, arguments.tables)
    print("no goal missed" if met else "goals MISSED")
    sys.exit(not met)
