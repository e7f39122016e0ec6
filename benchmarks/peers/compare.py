"""Peers beside skdpsynth on the same data, at the same promise: accuracy, time and memory, on a dated page of the documentation.

python benchmarks/peers/compare.py [--seeds 3] [--environments FOLDER] [--limit 600] [--page docs/comparison.md] [--only pca tables]

Each peer gets an environment of its own, made from a list beside this file; one that cannot be made is said to be missing. Every fit is a
process of its own, with a limit of time. Synthesizers run under add/remove of one row, at (epsilon, delta) = (1, 1e-6), in all. Private PCA
runs under replace-one at epsilon 1: OpenDP states its epsilon for one row more or less, so it gets half. The page's tables stand between
two marks and are written anew; in every line the best figure is bold, whoever has it.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from generators import cube, planar  # noqa: E402
from mixed_data import adult, downstream_auc, read_rows  # noqa: E402

from skdpsynth import PrivatePCA  # noqa: E402
from skdpsynth.domain import Schema  # noqa: E402
from skdpsynth.metrics import captured_variance_ratio, marginal_total_variation, wasserstein_distance  # noqa: E402

ENVIRONMENTS = {"diffprivlib": [], "opendp": [], "dpmm": [], "smartnoise": ["--no-deps"]}
TOOLS = {  # name in the tables: environment, script, name of the tool there
    "AIM (dpmm)": ("dpmm", "fit_peer.py", "aim"),
    "MST (dpmm)": ("dpmm", "fit_peer.py", "mst"),
    "PrivBayes (dpmm)": ("dpmm", "fit_peer.py", "privbayes"),
    "MST (smartnoise)": ("smartnoise", "fit_smartnoise.py", "mst"),
    "AIM (smartnoise)": ("smartnoise", "fit_smartnoise.py", "aim"),
}
DPSYNTH = "git+https://github.com/google/dpsynth"
PCA_LIMIT = 60  # seconds: where the peers' sampler returns, it does in a few
MARKS = "<!-- measured: below -->", "<!-- measured: above -->"


def interpreters(folder):
    """Return the interpreters of the peers that can be installed, and a sentence on each that cannot."""
    found, missing = {}, []
    for name, options in ENVIRONMENTS.items():
        python = folder / name / "bin" / "python"
        if not (folder / name / "installed").exists():
            venv.create(folder / name, with_pip=True, clear=True)
            done = run([python, "-m", "pip", "install", "-q", *options, "-r", HERE / f"{name}.txt"], 1800)
            if done is None or done.returncode:
                missing.append(f"{name} could not be installed from `benchmarks/peers/{name}.txt`.")
                continue
            (folder / name / "installed").touch()
        found[name] = python
    return found, missing


def dpsynth_installs(folder):
    """Whether google/dpsynth, which no package index has, can be installed from its source."""
    python = folder / "dpsynth" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "dpsynth", with_pip=True)
    done = run([python, "-m", "pip", "install", "-q", DPSYNTH], 600)
    return done is not None and done.returncode == 0


def run(command, limit):
    """Run a command; None if it takes longer than the limit."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment["PYTHONPATH"] = str(HERE.parents[1]) if str(command[0]) == sys.executable else ""
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=limit, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return None


def clinic(split):
    """Return 10,000 rows to learn from and 5,000 held out: numbers, levels and yes or no, from two factors; made up, so anyone has them."""
    rng = np.random.default_rng(1000 + split)
    frail, rich = rng.normal(size=(2, 15_000))
    table = pd.DataFrame(
        {
            "age": np.clip(np.rint(50 + 18 * frail + 4 * rng.normal(size=15_000)), 18, 99).astype(int),
            "pressure": np.clip(125 + 14 * frail - 4 * rich + 9 * rng.normal(size=15_000), 70, 220),
            "income": np.clip(35_000 * np.exp(0.6 * rich), 0, 250_000),
            "smokes": np.array(["no", "yes"])[(0.6 * frail - 0.5 * rich + rng.normal(size=15_000) > 0.8).astype(int)],
            "stage": np.array(["none", "early", "late"])[np.digitize(frail + 0.7 * rng.normal(size=15_000), [0.3, 1.2])],
            "region": np.array(list("abcdef"))[np.digitize(rich + rng.normal(size=15_000), [-1.5, -0.6, 0, 0.6, 1.5])],
            "visits": rng.poisson(np.exp(0.4 + 0.4 * frail)).clip(max=12),
            "returned": (frail - 0.3 * rich + rng.normal(size=15_000) > 0.4).astype(int),
        }
    )
    facts = {
        "age": (18, 99),
        "pressure": (70.0, 220.0),
        "income": (0.0, 250_000.0),
        "smokes": ["no", "yes"],
        "stage": ["none", "early", "late"],
        "region": list("abcdef"),
        "visits": (0, 12),
        "returned": [0, 1],
    }
    schema = json.loads(Schema(facts).to_json())
    return table[:10_000], table[10_000:].reset_index(drop=True), schema, "returned"


def points(name, d, split):
    """Return rows of numbers in the unit cube, and none held out."""
    table = pd.DataFrame(cube(name, 10_000, d, split), columns=[f"x{i}" for i in range(d)])
    return table, None, json.loads(Schema(dict.fromkeys(table, (0.0, 1.0))).to_json()), None


TABLES = {
    "10,000 points near five centers, 2 columns": (partial(points, "gmm", 2), "pmm"),
    "10,000 points in twenty clusters, 3 columns": (partial(points, "sparse", 3), "pmm"),
    "a made-up clinic, 10,000 x 8": (clinic, "latent-factor"),
}
CENSUS = {"Census Income, 32,561 x 13": (adult, "latent-factor")}


def judged(train, test, synthetic, schema, target, seed):
    """Return the figures of one synthetic table, by name."""
    if target is None:
        rng = np.random.default_rng(seed)
        some = [rng.permutation(rows.to_numpy())[:2000] for rows in (train, synthetic)]
        return {"W1": wasserstein_distance(*some)}
    facts = Schema.from_json(schema)
    return {
        "TV2": marginal_total_variation(train, synthetic, facts, 2),
        "TV3": marginal_total_variation(train, synthetic, facts, 3),
        "AUC": downstream_auc(synthetic, test, target, schema, seed=seed),
    }


def fitted(call, seed, folder, limit, table):
    """Fit and sample in a process; return the synthetic rows and what it says of itself, or None."""
    train, _, schema, target = table
    paths = [folder / name for name in ("rows.csv", "rows.schema.json", "synthetic.csv")]
    train.to_csv(paths[0], index=False)
    paths[1].write_text(json.dumps(schema))
    paths[2].unlink(missing_ok=True)
    python, script, tool = call
    options = ["--seed", seed, "--out", paths[2], *(["--target", target] if script == "fit_ours.py" and target else [])]
    done = run(
        [python, HERE / script, "--tool", tool, "--table", paths[0], "--schema", paths[1], "--seed", seed, "--out", paths[2], *options],
        limit,
    )
    if done is None or done.returncode:
        return None
    return read_rows(paths[2], schema), json.loads(done.stdout.splitlines()[-1])


def tables(seeds, found, folder, limit):
    """Yield the lines of the tables of synthesizers."""
    for name, (make, ours) in {**TABLES, **(CENSUS if "SKDPSYNTH_DATA" in os.environ else {})}.items():
        calls = {"**skdpsynth**": (sys.executable, "fit_ours.py", ours)}
        calls |= {label: (found[tool[0]], *tool[1:]) for label, tool in TOOLS.items() if tool[0] in found}
        lines = {}
        for label, call in calls.items():
            figures = []
            for seed in range(seeds):
                table = make(seed)
                train, test, schema, target = table
                if (result := fitted(call, seed, folder, limit, table)) is None:
                    break  # a tool that did not finish once is not asked again
                synthetic, said = result
                figures.append(
                    judged(train, test, synthetic, schema, target, seed) | {"fit, s": said["fit_seconds"], "memory, MiB": said["peak_mib"]}
                )
            lines[label] = figures
            print(f"{name}: {label}: {figures}", flush=True)
        yield from shown_table(name, lines, limit, seeds)


def shown_table(name, lines, limit, seeds):
    """Yield a table in Markdown: means, with the deviation between runs; the best of a column is bold."""
    lines = {label if len(runs) in (0, seeds) else f"{label}, {len(runs)} of {seeds} runs": runs for label, runs in lines.items()}
    columns = list(next(figures[0] for figures in lines.values() if figures))
    means = {label: {c: np.mean([run[c] for run in figures]) for c in columns} for label, figures in lines.items() if figures}
    best = {c: (max if c in ("AUC", "captured") else min)(mean[c] for mean in means.values()) for c in columns}
    yield from (f"### {name[0].upper()}{name[1:]}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|")
    for label, figures in lines.items():
        if not figures:
            yield f"| {label} | no result within {limit} s |" + " |" * (len(columns) - 1)
            continue
        cells = [one_cell([run[c] for run in figures], means[label][c] == best[c]) for c in columns]
        yield f"| {label} | {' | '.join(cells)} |"
    yield ""


def one_cell(values, is_best):
    mean = np.mean(values)
    digits = 0 if mean >= 100 else 1 if mean >= 10 else 2 if mean >= 1 else 4
    text = f"{mean:.{digits}f}" if mean >= 10 else f"{mean:.{digits}f} ({np.std(values):.{digits}f})"
    return f"**{text}**" if is_best else text


def components(seeds, found, folder, limit):
    """Yield the lines of the tables of private PCA."""
    PrivatePCA(2).fit(planar(100, 5, np.random.default_rng(0)))  # what is loaded at a first call is no part of a fit
    for d in (5, 20):
        lines = {"**skdpsynth**": [], "diffprivlib": [], "OpenDP": []}
        for seed in range(seeds):
            X = planar(10_000, d, np.random.default_rng(seed))
            start = time.perf_counter()
            ours = PrivatePCA(2, epsilon=1.0).fit(X).components_
            taken = time.perf_counter() - start
            lines["**skdpsynth**"].append({"captured": captured_variance_ratio(X, ours), "fit, s": taken})
            for label, tool, epsilon in (("diffprivlib", "diffprivlib", 1.0), ("OpenDP", "opendp", 0.5)):
                if tool in found and len(lines[label]) == seed:
                    lines[label] += peer_components(found[tool], tool, X, epsilon, folder, limit)
        print(d, lines, flush=True)
        yield from shown_table(f"private PCA, 10,000 rows near a plane in {d} columns, private center", lines, min(limit, PCA_LIMIT), seeds)


def peer_components(python, tool, X, epsilon, folder, limit):
    """Return a list of the figures of one fit: empty, if it does not finish."""
    rows, out = folder / "rows.npy", folder / "components.npy"
    np.save(rows, X - 0.5)
    call = ["--tool", tool, "--table", rows, "--components", 2, "--epsilon", epsilon, "--center", "private", "--out", out]
    done = run([python, HERE / "fit_pca.py", *call], min(limit, PCA_LIMIT))
    if done is None or done.returncode:
        return []
    return [{"captured": captured_variance_ratio(X, np.load(out)), "fit, s": json.loads(done.stdout.splitlines()[-1])["fit_seconds"]}]


def versions(found):
    """Return the versions of the peers that were run."""
    packages = {"diffprivlib": "diffprivlib", "opendp": "opendp", "dpmm": "dpmm", "smartnoise": "smartnoise-synth"}
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    return ", ".join(f"{packages[name]} {run([python, '-c', code, packages[name]], 60).stdout.strip()}" for name, python in found.items())


def written(page, lines):
    """Put the lines between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(MARKS[0])
    _, tail = rest.split(MARKS[1])
    page.write_text("\n".join([head + MARKS[0], "", *lines, MARKS[1]]) + tail, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=600, help="seconds of one fit")
    parser.add_argument("--environments", type=Path, default=HERE.parents[1] / ".venv-peers")
    parser.add_argument("--page", type=Path, help="Markdown with two marks, between which the tables are written")
    parser.add_argument("--only", nargs="*", default=["pca", "tables"], choices=["pca", "tables"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.environments.mkdir(exist_ok=True)
    found, missing = interpreters(arguments.environments)
    if not dpsynth_installs(arguments.environments):
        missing.append(f"google/dpsynth is on no package index, and could not be installed from its source (`{DPSYNTH}`).")
    machine = f"{os.cpu_count()} cores and {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    lines = [
        f"Measured on {datetime.datetime.now(datetime.UTC):%Y-%m-%d} with Python {platform.python_version()}, {machine}, "
        f"{arguments.seeds} runs a cell:",
        f"{versions(found)}.",
        *missing,
        "",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        for name, part in (("pca", components), ("tables", tables)):
            if name in arguments.only:
                lines += part(arguments.seeds, found, Path(scratch), arguments.limit)
    print("\n".join(lines))
    if arguments.page:
        written(arguments.page, lines)


if __name__ == "__main__":
    sys.exit(main())
