"""The leaderboard: skdpsynth beside stored peers on public benchmarks, on a dated page (docs/leaderboard.md).

    [SKDPSYNTH_DATA=FOLDER] [SKDPSYNTH_DPBENCH=FOLDER] python benchmarks/leaderboard.py [--only BOARD ...] [--page-only]
    python benchmarks/leaderboard.py --peer "independent columns" [--seeds 3] [--limit 3600] [--only nist coded]

`make leaderboard` runs it in an environment with pinned versions (leaderboard.txt). The scripts beside this one measure; here their figures
are gathered in leaderboard.json, and the page is written from it and from the figures of peers in peers/. A board whose data are not there
is left out with a sentence, and keeps the figures and the date of its last run. benchmarks/README.md says where the data are from.

`--peer` fits a peer to the tables of the boards `nist` and `coded`, and stores its figures in peers/boards.json. A peer is one file in
peers/, called as peer_runs.py says. Its head names the packages that it needs, and itself (`[tool.leaderboard]`); independent.py is an
example of 50 lines. Noise is secure, so figures move from run to run; their spread is shown.
"""

import argparse
import datetime
import json
import os
import platform
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path

import coded_tables
import hindsight
import nist_crc
import numpy as np
import pandas as pd
import pca_peers
import ranges
import small_tables
import spiked_pca
from mixed_data import load, read_rows, typed
from peer_runs import PEERS, environment, fitted, metadata

from skdpsynth.exceptions import BoundsWarning, BudgetWarning, SmallSampleWarning

HERE = Path(__file__).parent
RESULTS, PAGE, MEASURED = HERE / "leaderboard.json", HERE.parent / "docs" / "leaderboard.md", PEERS / "boards.json"
OURS = "**skdpsynth**"
DPBENCH = "https://github.com/dpcomp-org/dpcomp_core"
Row = tuple[str, str, dict]  # task, who, figures by name: a list for the fits


@dataclass(frozen=True)
class Task:
    """A table for synthesizers: rows, the schema as peers read it, the budget, and how synthetic rows in a file are judged."""

    name: str
    rows: pd.DataFrame
    columns: list
    epsilon: float
    delta: float
    judge: Callable


# What is measured


def nist() -> Iterator[Row]:
    rows = typed(*load("acs_ma2019"))
    for name, epsilon in product(nist_crc.SETS, (1.0, 10.0)):
        real, task = rows[nist_crc.columns_of(name)], f"{name}, epsilon {epsilon:g}"
        for who, with_rules in ((f"{OURS}, with rules", True), (OURS, False)):
            scores, broken, _ = zip(*(nist_crc.ours(name, real, epsilon, 1e-9, with_rules) for _ in range(5)), strict=True)
            yield task, who, {"score": scores, "broken": broken}
        again = [nist_crc.judged(name, real, real.sample(frac=1, replace=True, random_state=seed))[0] for seed in range(5)]
        yield task, "real rows, drawn with replacement (not private)", {"score": again}


def nist_tables() -> Iterator[Task]:
    rows = typed(*load("acs_ma2019"))
    for name, epsilon in product(nist_crc.SETS, (1.0, 10.0)):
        real = rows[nist_crc.columns_of(name)]
        schema = json.loads(nist_crc.schema_of(list(real), False).to_json())

        def judge(path, name=name, real=real, schema=schema):
            return dict(zip(("score", "broken"), nist_crc.judged(name, real, read_rows(path, schema)), strict=True))

        yield Task(f"{name}, epsilon {epsilon:g}", real, schema["columns"], epsilon, 1e-9, judge)


def coded() -> Iterator[Row]:
    for name, epsilon in coded_tables.GOALS:
        two, three, _, _ = zip(*(coded_tables.ours(*coded_tables.read(name), epsilon, seed) for seed in range(3)), strict=True)
        yield f"{name}, epsilon {epsilon:g}", OURS, {"TV2": two, "TV3": three}


def coded_peers() -> Iterator[Task]:
    for name, epsilon in coded_tables.GOALS:
        rows, sizes = coded_tables.read(name)

        def judge(path, rows=rows, sizes=sizes):
            return dict(zip(("TV2", "TV3"), coded_tables.distances(rows, pd.read_csv(path), sizes), strict=True))

        yield Task(f"{name}, epsilon {epsilon:g}", rows, coded_tables.all_levels(sizes), epsilon, coded_tables.DELTA, judge)


def small() -> Iterator[Row]:
    for name in (each for each in small_tables.TABLES if each not in small_tables.SURVEYS):
        score, _, _, auc, _ = zip(*(small_tables.ours(name, seed) for seed in range(6)), strict=True)
        yield name, OURS, {"score": score, "AUC": auc}


def dpbench() -> Iterator[Row]:
    folder = Path(os.environ["SKDPSYNTH_DPBENCH"])
    for (d, names), relation, size in product(((1, ("prefixes", "ranges")), (2, ("boxes",))), ranges.RELATIONS, ranges.SIZES):
        group = f"{d}-D, {relation}, {f'{size:,}' if size else 'stored'} rows"
        for at, found in ranges.ratios_by_set(d, folder, 0.1, relation, size, 4).items():
            yield f"{group}: {at}", OURS, dict(zip(names, ([each] for each in found), strict=False))


def pca() -> Iterator[Row]:
    for cell in pca_peers.CELLS:
        yield pca_task(cell), OURS, {"captured": pca_peers.ours(cell, 5)}


def pca_task(cell):
    name, d, epsilon, center = cell
    return f"{name}, {d} columns, epsilon {epsilon:g}, {center} center"


def spiked() -> Iterator[Row]:
    found: dict = {}
    sizes = (10_000, 30_000, 100_000, 300_000)
    for seed in range(3):
        spiked_pca.run(seed, 0.025, sizes, found)
    methods = {"ours": OURS, "input": "input noise", "output": "output noise", "power": "power method", "oja": "noisy Oja"}
    methods |= {f"input at {share}": f"input noise, norms shrunk to their {share:.0%} quantile" for share in spiked_pca.HINDSIGHT}
    for n, (name, who) in product(sizes, {**methods, "sample": "PCA of the rows (not private)"}.items()):
        yield f"{n:,} rows", who, {"lost": spiked_pca.best(found, n, name)[0][:, 0].tolist()}


def best_depth() -> Iterator[Row]:
    for (name, size), ratio in hindsight.all_ratios(1, 8)[1].items():
        yield f"one column, n * epsilon = {size}: {name}", OURS, {"ratio": [ratio]}


# What is stored of peers: (task, who, figures, where it is from)


def stored_nist():
    for who, said in json.loads((PEERS / "nist.json").read_text())["peers"].items():
        for task, score in said["scores"].items():
            yield task, who, {"score": [score]}, f"{said['source']} ({said['date']})"


def stored_coded():
    stored = json.loads(coded_tables.STORED.read_text())
    for who, said in stored["elsewhere"].items():
        for task in said.keys() - {"date", "source"}:
            yield task, who, {"TV2": [said[task][0]], "TV3": [said[task][1]]}, f"{said['source']} ({said['date']})"
    for cell, fits in stored["fits"].items():
        name, tool, epsilon = cell.split()
        two, three, _ = zip(*fits, strict=True)
        source = f"dpmm {stored['versions']['dpmm']}, `{stored['command']}`: {stored['of a fit']} ({stored['date']})"
        yield f"{name}, epsilon {epsilon}", f"{label(tool)} (dpmm)", {"TV2": two, "TV3": three}, source


def stored_small():
    stored = json.loads(small_tables.STORED.read_text())
    for cell, fits in stored["fits"].items():
        name, tool = cell.split()
        score, _, _, auc, _ = zip(*fits, strict=True)
        yield name, f"{label(tool)} (dpmm)", {"score": score, "AUC": auc}, f"`{stored['command']}`: {stored['of a fit']} ({stored['date']})"


def stored_pca():
    stored = json.loads(pca_peers.STORED.read_text())
    for tool, cell in product(pca_peers.TOOLS, pca_peers.CELLS):
        values = stored[" ".join(map(str, (tool, *cell)))]
        source = f"`python benchmarks/pca_peers.py --measure`, with the versions in `benchmarks/peers/{tool}.txt` (2026-11-22)"
        yield pca_task(cell), {"opendp": "OpenDP"}.get(tool, tool), {"captured": values}, source


def label(tool):
    return {"privbayes": "PrivBayes"}.get(tool, tool.upper())


# The boards


@dataclass(frozen=True)
class Board:
    """A benchmark: its figures, which of them are better if larger, what it needs, and how its table lies."""

    measure: Callable[[], Iterator[Row]]
    figures: dict  # name: (digits, whether larger is better)
    needs: str = ""  # a variable of the environment
    file: str = ""  # in the folder that it names
    stored: Callable = lambda: ()
    tables: Callable = lambda: ()
    is_tall: bool = False  # tasks down, tools across
    is_summed: bool = False  # ratios to one yardstick, in groups of tasks


RATIO = (2, False)
BOARDS = {
    "nist": Board(nist, {"score": (1, True)}, "SKDPSYNTH_DATA", "acs_ma2019.csv", stored_nist, nist_tables),
    "coded": Board(coded, {"TV2": (4, False), "TV3": (4, False)}, "SKDPSYNTH_DATA", "coded", stored_coded, coded_peers),
    "small": Board(small, {"score": (3, True), "AUC": (3, True)}, stored=stored_small),
    "dpbench": Board(dpbench, dict.fromkeys(("prefixes", "ranges", "boxes"), RATIO), "SKDPSYNTH_DPBENCH", "1D", is_summed=True),
    "pca": Board(pca, {"captured": (4, True)}, stored=stored_pca, is_tall=True),
    "spiked": Board(spiked, {"lost": (-1, False)}, is_tall=True),
    "hindsight": Board(best_depth, {"ratio": RATIO}, "SKDPSYNTH_DATA", "adult.csv", is_summed=True),
}


def missing(board):
    """Return why a board cannot be measured here; None where it can."""
    folder = os.environ.get(board.needs or "PATH")
    if not board.needs or (folder and (Path(folder) / board.file).exists()):
        return None
    return f"{board.needs} names no folder with {board.file} (benchmarks/README.md says where the data are from)"


def measured(names):
    """Measure the boards, and store each as soon as it is done."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names:
        if why := missing(BOARDS[name]):
            print(f"skipped {name}: {why}", flush=True)
            continue
        start = time.perf_counter(), time.process_time()
        rows = []
        for task, who, figures in BOARDS[name].measure():
            rows.append([task, who, rounded(figures)])
            print(f"{name}: {task}: {who}: {rows[-1][2]}", flush=True)
        minutes = [round((end - begun) / 60, 1) for begun, end in zip(start, (time.perf_counter(), time.process_time()), strict=True)]
        results[name] = {"date": today(), "minutes": minutes, "machine": machine(), "rows": rows}
        print(f"measured {name} in {minutes[0]} minutes, {minutes[1]} of the processor", flush=True)
        store(RESULTS, results)


def peer(who, names, seeds, limit):
    """Fit a peer to the tables of boards and store its figures."""
    scripts = {each: path for path in sorted(PEERS.glob("*.py")) for each in said_of(path).get("peers", {})}
    if who not in scripts:
        sys.exit(f"--peer must be one of {sorted(scripts)}, got {who!r}.")
    script, results = scripts[who], json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    folder, options = HERE.parent / ".venv-peers", said_of(script)["peers"][who]
    python = environment(said_of(script).get("environment", script.stem), folder, metadata(script).get("dependencies"))
    for name, task in ((each, task) for each in names if not missing(BOARDS[each]) for task in BOARDS[each].tables()):
        found = []
        for seed in range(seeds):
            out = folder / "rows" / f"{who} {name} {task.name} {seed}.csv"
            asked = {"epsilon": task.epsilon, "delta": task.delta, "seed": seed, "limit": limit}
            said = fitted((python, script, *options), task.rows, task.columns, out, **asked)
            if said is None:
                print(f"{who}, {name}, {task.name}: no fit in {limit} seconds of the processor", flush=True)
                break
            found.append(task.judge(out))
        if found:
            figures = rounded({key: [each[key] for each in found] for key in found[0]})
            told = results.setdefault(name, {}).setdefault(who, {"rows": {}})
            told |= {"date": today(), "source": f"`benchmarks/peers/{script.name}`, {said['tool']} {said['version']}"}
            told["rows"][task.name] = figures
            print(f"{who}, {name}, {task.name}: {figures}", flush=True)
            store(MEASURED, results)


def said_of(script):
    return metadata(script).get("tool", {}).get("leaderboard", {})


def rounded(figures):
    return {key: [float(f"{float(value):.5g}") for value in values] for key, values in figures.items()}


def today():
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def machine():
    packages = ", ".join(f"{name} {version(name)}" for name in ("skdpsynth", "numpy", "scipy", "scikit-learn"))
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def store(path, results):
    """Write results, a line for each row."""
    text = re.sub(r"\n {4,}|\n {3}(?=[\d\]}])|\n {2}(?=\],\n {2}\"machine)", "", json.dumps(results, indent=1))
    path.write_text(text + "\n", encoding="utf-8")


# The page


def cells_of(name, results):
    """Return figures by task and tool, and the sources of the peers."""
    cells: dict = {}
    for task, who, figures in results.get(name, {}).get("rows", ()):
        cells.setdefault(task, {})[who] = figures
    sources: dict = {}
    measured_here = json.loads(MEASURED.read_text()).get(name, {}) if MEASURED.exists() else {}
    for task, who, figures, source in BOARDS[name].stored():
        cells.setdefault(task, {})[who] = figures
        sources.setdefault(who, source)
    for who, said in measured_here.items():
        for task, figures in said["rows"].items():
            cells.setdefault(task, {})[who] = figures
        sources[who] = f"{said['source']} ({said['date']})"
    return cells, sources


def is_private(who):
    return "not private" not in who


def best_of(tools, figure, larger):
    """Return the tool with the best mean; ours may have several lines."""
    means = {who: np.mean(values) for who, each in tools.items() if is_private(who) and (values := returned(each.get(figure)))}
    return (max if larger else min)(means, key=means.get) if means else None


def returned(values):
    """Return the figures of the fits that returned in time."""
    return [value for value in values or () if value is not None]


def text(every, digits):
    """Return a mean, and in brackets the standard deviation of several fits; and how many of them returned."""
    if not (values := returned(every)):
        return "none returned"
    whole = len(values) == 1 and float(values[0]).is_integer()  # as it is stored
    shape = ".0f" if whole else ".1e" if digits < 0 else f".{digits}f"
    spread = f" ({np.std(values, ddof=1):{shape}})" if len(values) > 1 else ""
    return f"{np.mean(values):{shape}}{spread}" + (f", {len(values)} of {len(every)} returned" if len(values) < len(every) else "")


def cell(tools, who, board):
    """Return the figures of a tool in a task, the best bold."""
    if who not in tools:
        return ""
    parts = []
    for figure, (digits, larger) in board.figures.items():
        shown = text(tools[who].get(figure, []), digits)
        parts.append(f"**{shown}**" if who == best_of(tools, figure, larger) else shown)
    return ", ".join(parts)


def table(board, cells):
    """Yield the lines of a table."""
    methods = list(dict.fromkeys(who for tools in cells.values() for who in tools))
    methods.sort(key=lambda who: (not who.startswith(OURS), not is_private(who)))
    across, down = (methods, list(cells)) if board.is_tall else (list(cells), methods)
    yield f"| | {' | '.join(across)} |"
    yield "|---" * (len(across) + 1) + "|"
    for left in down:
        pairs = ((left, who) for who in methods) if board.is_tall else ((task, left) for task in cells)
        yield f"| {left} | {' | '.join(cell(cells[task], who, board) for task, who in pairs)} |"


def compared(board, cells):
    """Return where a peer is better in the mean, in words, and the number of comparisons."""
    lost, n_compared = [], 0
    for (task, tools), (figure, (digits, larger)) in product(cells.items(), board.figures.items()):
        ours = {who: each for who, each in tools.items() if who.startswith(OURS)}
        others = {who: each for who, each in tools.items() if who not in ours and is_private(who) and returned(each.get(figure))}
        if not ours or not others:
            continue
        n_compared += 1
        if (best := best_of(tools, figure, larger)) in others:
            mine = text(ours[best_of(ours, figure, larger)][figure], digits)
            lost.append(f"{task}: {best}, {figure} {text(others[best][figure], digits)}, ours {mine}")
    return lost, n_compared


def verdict(board, cells):
    """Return a sentence: where a peer is better."""
    lost, n_compared = compared(board, cells)
    if not lost:
        return f"**Where a peer is better:** in none of {n_compared} comparisons."
    return f"**Where a peer is better:** in {len(lost)} of {n_compared} comparisons. " + "; ".join(lost) + "."


def summed(board, cells):
    """Yield a table of ratios to one yardstick, by groups of tasks, and where the yardstick is better."""
    groups: dict = {}
    for task, tools in cells.items():
        group, at = task.split(": ")
        for figure, (value,) in tools[OURS].items():
            groups.setdefault((group, figure), {})[at] = value
    yield "| tasks | ratio of | geometric mean | worst | where the yardstick is better |"
    yield "|---|---|---|---|---|"
    for (group, figure), found in groups.items():
        logs, lost = np.log(list(found.values())), {at: value for at, value in found.items() if value > 1}
        named = ", ".join(f"{at} {value:.2f}" for at, value in sorted(lost.items(), key=lambda each: -each[1])[:3])
        shown = f"{len(lost)} of {len(found)}" + (f": {named}" + ", ..." * (len(lost) > 3) if lost else "")
        yield f"| {group} | {figure} | {np.exp(logs.mean()):.2f} | {max(found.values()):.2f} | {shown} |"


def summary(results):
    """Yield a table: on each board, how often another method is better."""
    yield from ("", "| benchmark | measured | comparisons | another method is better in |", "|---|---|---|---|")
    titles = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for (name, board), title in zip(BOARDS.items(), titles, strict=True):
        cells, _ = cells_of(name, results)
        if board.is_summed:
            ratios = [value for tools in cells.values() for values in tools[OURS].values() for value in values]
            lost, n_compared = sum(ratio > 1 for ratio in ratios), len(ratios)
        else:
            found, n_compared = compared(board, cells)
            lost = len(found)
        yield f"| {title} | {results[name]['date'] if name in results else 'not yet'} | {n_compared} | {lost} |"
    yield ""


def block(name, results):
    """Return the lines of a board on the page."""
    board, (cells, sources) = BOARDS[name], cells_of(name, results)
    if name not in results:
        return ["", f"Ours is not measured: {missing(board) or 'run `make leaderboard`'}.", ""]
    told = results[name]
    taken = "{:g} minutes, {:g} of them of the processor".format(*told["minutes"])
    lines = ["", wrapped(f"*Measured on {told['date']} in {taken}: {told['machine']}.*"), ""]
    lines += [*(summed if board.is_summed else table)(board, cells), ""]
    if not board.is_summed:
        lines += [wrapped(verdict(board, cells)), ""]
    by_source: dict = {}
    for who, source in sources.items():
        by_source.setdefault(source, []).append(who)
    shown = (f"- {', '.join(methods)}: {source}." for source, methods in by_source.items())
    return [*lines, *map(wrapped, shown), *[""] * bool(sources)]


def wrapped(line):
    """Return a paragraph, or an item of a list, in lines of prose."""
    return textwrap.fill(line, 98, subsequent_indent="  " * line.startswith("- "), break_long_words=False, break_on_hyphens=False)


def write_page():
    """Write the tables of all boards between their marks."""
    results, page = json.loads(RESULTS.read_text()), PAGE.read_text(encoding="utf-8")
    for name in ("summary", *BOARDS):
        marks = f"<!-- {name}: below -->", f"<!-- {name}: above -->"
        head, rest = page.split(marks[0])
        lines = summary(results) if name == "summary" else block(name, results)
        page = "\n".join([head + marks[0], *lines, marks[1]]) + rest.split(marks[1])[1]
    PAGE.write_text(page, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BOARDS, metavar="BOARD", help=", ".join(BOARDS))
    parser.add_argument("--page-only", action="store_true", help="write the page from what is stored")
    parser.add_argument("--peer", help="fit a peer in place of ours")
    parser.add_argument("--seeds", type=int, default=3, help="fits of a peer to each table")
    parser.add_argument("--limit", type=int, default=3600, help="seconds of the processor that a fit of a peer may take")
    arguments = parser.parse_args()
    for category in (BoundsWarning, BudgetWarning, SmallSampleWarning):  # of tables and budgets that others chose
        warnings.simplefilter("ignore", category)
    names = arguments.only or list(BOARDS)
    if arguments.peer:
        peer(arguments.peer, names, arguments.seeds, arguments.limit)
    elif not arguments.page_only:
        measured(names)
    write_page()


if __name__ == "__main__":
    main()
