"""Linked tables: LinkedTablesSynthesizer beside one-table fits that are joined afterwards.

SKDPSYNTH_DATA=FOLDER python benchmarks/linked_tables.py [--seeds 3] [--epsilon 1 3.2] [--baselines [missing | all]]
    [--only arc semcog "made up" nafld wages trips clinic scale pure]

linked_data.py describes the sets, which are coded by public cuts. The unit is a root with all that belongs to it; the relation is
replace-one, delta is 1e-6, and seeds are 0, 1, 2. Figures are means over seeds, with the standard deviation in brackets.

Measures are mean total variations over all pairs of columns (TV2): of the parent, of the child, of one column of the parent with one of the
child (each child counts once), and of two children of one parent (exchangeable: all pairs of siblings; histories: consecutive rows), by
pair, and by root, where each parent counts once. `same` is the part by pair where both columns are the same; `count` is the total variation
of the number of children of a parent.

Baselines use `LatentFactorSynthesizer` alone. independent: parents with their number of children, and children with their parent as the
unit, at half of rho and of delta each, joined at random. flattened: each child row with its parent's columns and number of children, the
parent as the unit; drawn rows with equal parents are grouped. parent alone, child alone: that table gets the whole budget. A number in the
name is `max_rows_per_unit`. halves: one random half of the real roots beside the other, where copies of one record stay together;
resampled: as many real roots, drawn with replacement. All are stored in peers/linked.json with date and version; `--baselines` makes those
that are missing there, or all of them again.

Targets of the first four sets are in `GOALS`: upper limits of ratios, of a table to the best fit of it alone and of other measures to the
best baseline. No child may lack a parent, and no rule may be broken: children per parent, and exactly one head. Others: wages, a panel of
545 men, beside flattened; trips, three levels, without noise and at epsilon 10; clinic, lengths of stays and gaps before them, beside the
known law; scale, a million persons in 358,000 households, in a process of its own; pure, ARC at delta 0 over delta 1e-6, each measure.
"""

import argparse
import datetime
import json
import subprocess
import sys
import time
import warnings
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from linked_data import SETS, clinic, many_households
from scale_memory import peak
from scipy.stats import spearmanr

import skdpsynth
from skdpsynth import LatentFactorSynthesizer, domain
from skdpsynth.domain import Nominal, Ordinal
from skdpsynth.exceptions import BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.privacy import epsilon_of_rho, rho_of_epsilon

STORED = Path(__file__).parent / "peers" / "linked.json"
DELTA = 1e-6
NUMBER = "number of children"
MEASURES = ("parent", "child", "parent x child", "by pair", "by root", "same", "count")
BESIDE = {
    "child": ("child alone",),
    "parent": ("parent alone",),
    "parent x child": ("independent", "flattened"),
    "by root": ("independent", "flattened"),
}
# the most that a ratio may be, or the figure where nothing stands beside it, at epsilon 1 and 3.2
GOALS = {
    measure: {name: dict(zip((1.0, 3.2), goal, strict=True)) for name, goal in zip(("arc", "semcog", "made up", "nafld"), row, strict=True)}
    for measure, row in {
        "child": ((1.3, 1.6), (1.2, 1.2), (1.5, 1.8), (1.5, 2)),
        "parent": ((1.8, 1.8), (2, 2), (1.4, 1.4), (2, 2)),
        "parent x child": ((0.8, 1.0), (0.75, 0.85), (0.9, 1.1), (0.85, 0.95)),
        "by root": ((0.4, 0.37), (0.45, 0.37), (0.42, 0.32), (0.35, 0.22)),
        "count": ((0.01, 0.01), (0.015, 0.015), (0.01, 0.01), (0.015, 0.015)),
    }.items()
}
BASELINE_CELLS = [*product(("arc", "semcog", "made up", "nafld"), (1.0, 3.2)), ("wages", 3.2)]


# measures


def variation(tables, others):
    """Return the mean total variation between tables, each as shares."""
    return float(np.mean([np.abs(a / max(a.sum(), 1) - b / max(b.sum(), 1)).sum() / 2 for a, b in zip(tables, others, strict=True)]))


def crossed(a, b, sizes, weights=None):
    """Return the table of two columns of codes."""
    return np.bincount(a * sizes[1] + b, weights=weights, minlength=sizes[0] * sizes[1])


def placed(tables, link):
    """Return the place of each child's parent, in order, the child rows in that order, and the number of orphans."""
    places = pd.Index(tables[link.parent][link.key]).get_indexer(tables[link.child][link.key])
    order = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
    return places[order], tables[link.child].iloc[order], np.count_nonzero(places < 0)


def pairs_of_rows(owner, is_history):
    """Return the places of both rows of each pair of children of one parent, and the weight by which each parent counts once."""
    count = np.bincount(owner)[owner]
    if is_history:
        first = np.flatnonzero(owner[1:] == owner[:-1])
        return first, first + 1, 1 / (count[first] - 1)
    start = np.searchsorted(owner, owner)
    first = np.repeat(np.arange(len(owner)), count - 1)
    step = 1 + np.arange(len(first)) - np.repeat(np.cumsum(count - 1) - (count - 1), count - 1)
    second = start[first] + (first - start[first] + step) % count[first]
    return first, second, 1 / (count[first] * (count[first] - 1.0))


def tables_of(data, tables, link):
    """Return the exact tables behind each measure of a link."""
    owner, rows, _ = placed(tables, link)
    above, below = data.columns(link.parent), data.columns(link.child)
    parents = {name: tables[link.parent][name].to_numpy() for name in above}
    children = {name: rows[name].to_numpy() for name in below}
    first, second, weights = pairs_of_rows(owner, link.order)
    at = list(product(below, below) if link.order else ((a, b) for i, a in enumerate(below) for b in list(below)[i:]))
    within = {a: {b: (children[a][first], children[b][second], (below[a], below[b])) for x, b in at if x == a} for a in below}
    number = np.bincount(owner, minlength=len(tables[link.parent])).clip(max=link.most)
    return {
        "parent": [crossed(parents[a], parents[b], (above[a], above[b])) for a, b in combinations(above, 2)],
        "child": [crossed(children[a], children[b], (below[a], below[b])) for a, b in combinations(below, 2)],
        "parent x child": [crossed(parents[a][owner], children[b], (above[a], below[b])) for a, b in product(above, below)],
        "by pair": [crossed(*within[a][b]) for a, b in at],
        "by root": [crossed(*within[a][b], weights) for a, b in at],
        "same": [crossed(*within[a][a]) for a in below],
        "count": [np.bincount(number, minlength=link.most + 1)],
    }


def measures(data, made, link):
    """Return the figures of made-up tables beside the real ones."""
    real, other = tables_of(data, data.tables, link), tables_of(data, made, link)
    return {name: variation(real[name], other[name]) for name in real}


def halves(data, seed):
    """Return the figures of one random half of the roots beside the other."""
    keys = data.tables[data.root][data.links[0].key].to_numpy()
    copies = np.arange(len(keys)) if data.copies is None else data.copies
    side = np.random.default_rng([seed, len(keys)]).random(copies.max() + 1)[copies] < 0.5
    return measures(data.of_roots(keys[side]), data.of_roots(keys[~side]).tables, data.links[0])


def resampled(data, seed):
    """Return the figures of as many real roots, drawn with replacement: a model without any error that draws each root by itself."""
    link, rng = data.links[0], np.random.default_rng([seed, 2])
    parents = data.tables[link.parent].sample(frac=1, replace=True, random_state=rng, ignore_index=True)
    drawn_roots = pd.DataFrame({link.key: parents[link.key], "fresh": np.arange(len(parents))})
    children = drawn_roots.merge(data.tables[link.child], on=link.key)
    return measures(data, with_key(link, parents, children.drop(columns="fresh"), children["fresh"].to_numpy()), link)


# baselines


def fitted(rows, schema, seed, epsilon, delta=DELTA, unit=None, most=1):
    model = LatentFactorSynthesizer(schema, epsilon=epsilon, delta=delta, max_rows_per_unit=most, random_state=seed)
    return model.fit(rows[list(schema)], unit=unit)


def drawn(model, n_rows, seed):
    return model.sample(n_rows, random_state=seed + 1)


def facts(data, table):
    return {name: kind for name, kind in data.schemas[table].items() if name in data.columns(table)}


def counted(data, link):
    """Return the parents with their number of children, a column of their own, and the schema."""
    parents = data.tables[link.parent]
    number = parents[link.key].map(data.tables[link.child][link.key].value_counts()).fillna(0).astype(np.int64)
    return parents.assign(**{NUMBER: number}), {**facts(data, link.parent), NUMBER: Ordinal(list(range(link.most + 1)))}


def with_key(link, parents, children, owner):
    """Return tables with fresh keys."""
    return {link.parent: parents.assign(**{link.key: np.arange(len(parents))}), link.child: children.assign(**{link.key: owner})}


def independent(data, link, epsilon, seed, most):
    half = float(epsilon_of_rho(rho_of_epsilon(epsilon, DELTA, gaussian=True) / 2, DELTA / 2, gaussian=True))
    rows, schema = counted(data, link)
    parents = drawn(fitted(rows, schema, seed, half, DELTA / 2), len(rows), seed)
    owner = np.repeat(np.arange(len(parents)), parents[NUMBER].clip(lower=link.least))
    children = data.tables[link.child]
    model = fitted(children, facts(data, link.child), seed, half, DELTA / 2, children[link.key].to_numpy(), most)
    return with_key(link, parents, drawn(model, len(owner), seed), np.random.default_rng([seed, len(owner)]).permutation(owner))


def flat(data, link):
    """Return one row for each child with its parent's columns, and one for each parent without children; and the schema.

    The cells of a child that is not there have a level of their own.
    """
    parents, schema = counted(data, link)
    children, own = data.tables[link.child], facts(data, link.child)
    rows = parents.merge(children, on=link.key, how="left")
    absent = data.columns(link.child)
    if link.least == 0:
        own = {name: Nominal([*kind.levels, absent[name]]) for name, kind in own.items()}
    return rows.fillna(absent).astype(dict.fromkeys(own, np.int64)), {**schema, **own}


def flattened(data, link, epsilon, seed, most):
    rows, schema = flat(data, link)
    above, sizes = list(data.columns(link.parent)), data.columns(link.child)
    made = drawn(fitted(rows, schema, seed, epsilon, unit=rows[link.key].to_numpy(), most=most), len(rows), seed)
    made = made.sample(frac=1, random_state=seed).sort_values([*above, NUMBER], kind="stable", ignore_index=True)
    below = list(sizes)
    is_child = (made[NUMBER] > 0) & (made[below[0]] < sizes[below[0]])
    # Equal parents with k children each: every k rows in turn are a family; what has no child is a parent of its own.
    place = made[is_child].groupby([*above, NUMBER]).cumcount()
    is_first = ~is_child
    is_first[place.index] = place % made[NUMBER][place.index] == 0
    owner = is_first.cumsum() - 1
    children = made.loc[is_child, below].clip(upper=[sizes[name] - 1 for name in below], axis=1)
    return with_key(link, made.loc[is_first, above].reset_index(drop=True), children, owner[is_child])


def alone(data, link, table, epsilon, seed, most=1):
    """Return the TV2 of one table that is fitted with the whole budget."""
    rows, schema = data.tables[table], facts(data, table)
    unit = None if table == link.parent else rows[link.key].to_numpy()
    made = drawn(fitted(rows, schema, seed, epsilon, unit=unit, most=most), len(rows), seed)
    sizes, pairs = data.columns(table), list(combinations(schema, 2))
    both = [[crossed(each[a].to_numpy(), each[b].to_numpy(), (sizes[a], sizes[b])) for a, b in pairs] for each in (rows, made)]
    return {"parent" if table == link.parent else "child": variation(*both)}


def baselines(data, epsilon):
    """Yield the names of the baselines, and what makes the figures of one seed."""
    link = data.links[0]
    yield "halves", lambda seed: halves(data, seed)
    yield "resampled", lambda seed: resampled(data, seed)
    yield "parent alone", lambda seed: alone(data, link, link.parent, epsilon, seed)
    for most in sorted({min(4, link.most), link.most}):
        yield f"child alone {most}", lambda seed, most=most: alone(data, link, link.child, epsilon, seed, most)
    for join, most in product((independent, flattened), sorted({3, link.most})):
        yield f"{join.__name__} {most}", lambda seed, join=join, most=most: measures(data, join(data, link, epsilon, seed, most), link)


def make_baselines(cells, seeds, again):
    """Fit the baselines, all of them again or those that are missing, and store each figure as it comes."""
    stored, ready = json.loads(STORED.read_text()) if STORED.exists() else {"fits": {}}, set()
    for seed, (name, epsilon) in product(range(seeds), cells):
        data = SETS[name]()
        for who, figures in baselines(data, epsilon):
            cell = f"{name} {who}" if who in ("halves", "resampled") else f"{name} {epsilon:g} {who}"
            found = stored["fits"].setdefault(cell, {})
            if (cell, seed) in ready or (str(seed) in found and not again):
                continue
            ready.add((cell, seed))
            start = time.process_time()
            result = {key: round(value, 5) for key, value in figures(seed).items()}
            found[str(seed)] = {**result, "seconds": round(time.process_time() - start, 1)}
            print(name, epsilon, who, seed, found[str(seed)], flush=True)
            store(stored)


def store(stored):
    """Write the figures, a line for each fit."""
    stored["date"], stored["version"] = datetime.date.today().isoformat(), skdpsynth.__version__
    stored["command"] = "python benchmarks/linked_tables.py --baselines all"
    fits = {
        cell: ",\n".join(f"      {json.dumps(seed)}: {json.dumps(each[seed])}" for seed in each) for cell, each in stored["fits"].items()
    }
    lines = ",\n".join(f"    {json.dumps(cell)}: {{\n{each}\n    }}" for cell, each in fits.items())
    rest = "".join(f"  {json.dumps(key)}: {json.dumps(stored[key])},\n" for key in sorted(stored.keys() - {"fits"}))
    STORED.write_text("{\n" + rest + '  "fits": {\n' + lines + "\n  }\n}\n")


# linked tables


def model_of(data, epsilon, seed, delta=DELTA):
    links = [
        domain.Children(
            each.child, of=each.parent, key=each.key, most=each.most, least=each.least, order=each.order, grid=each.grid, head=each.head
        )
        for each in data.links
    ]
    return skdpsynth.LinkedTablesSynthesizer(data.schemas, links=links, epsilon=epsilon, delta=delta, random_state=seed)


def clocked(call):
    """Return what a call returns, and its seconds of the processor."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def broken(made, link):
    """Return how many children have no parent, and how many parents have too many or too few children, or heads."""
    owner, rows, orphans = placed(made, link)
    number = np.bincount(owner, minlength=len(made[link.parent]))
    wrong = np.count_nonzero((number < link.least) | (number > link.most))
    if link.head:
        is_head = (rows[list(link.head)] == pd.Series(link.head)).all(axis=1).to_numpy()
        wrong += np.count_nonzero(np.bincount(owner[is_head], minlength=len(number)) != 1)
    return {"orphans": orphans, "broken rules": wrong}


def linked_fits(data, epsilon, seeds, delta=DELTA):
    """Return the figures of each seed, by link."""
    found = []
    for seed in range(seeds):
        model, fit = clocked(lambda: model_of(data, epsilon, seed, delta).fit(data.tables))  # noqa: B023
        made, draw = clocked(lambda: model.sample(len(data.tables[data.root]), random_state=seed + 1))  # noqa: B023
        found.append([{**measures(data, made, link), **broken(made, link), "fit, CPU s": fit, "draw, CPU s": draw} for link in data.links])
    return found


def mean_and_spread(values):
    return f"{np.mean(values):.4f}" + (f" ({np.std(values, ddof=1):.4f})" if len(values) > 1 else "")


class Report:
    """The table of figures, and the targets that were missed."""

    def __init__(self):
        self.missed = []
        self.is_headed = False

    def line(self, where, epsilon, measure, values, target, beside=None):
        """Print a figure, or its ratio to the figure in `beside`, with its target; None: no target."""
        value = float(np.mean(values)) if beside is None else float(np.mean(values)) / beside[1]
        met = target is None or value <= target
        if not met:
            self.missed.append(f"{where} at {epsilon:g}, {measure}: {value:.3g} > {target:g}")
        if not self.is_headed:
            print("| set | epsilon | measure | mean (sd) | beside | ratio | target | |\n" + "|---" * 8 + "|")
            self.is_headed = True
        over = "| - | -" if beside is None else f"| {beside[0]}: {beside[1]:.4f} | {value:.2f}"
        verdict = "| - | |" if target is None else f"| {target:g} | {'met' if met else 'MISSED'} |"
        print(f"| {where} | {epsilon:g} | {measure} | {mean_and_spread(values)} {over} {verdict}", flush=True)


def best(stored, cell, measure, kinds):
    """Return the name and the mean figure of the best of some kinds of baselines."""
    fits = {who: found for who, found in stored["fits"].items() if who.startswith(tuple(f"{cell} {kind}" for kind in kinds))}
    means = {who.removeprefix(f"{cell} "): float(np.mean([each[measure] for each in found.values()])) for who, found in fits.items()}
    return min(means.items(), key=lambda pair: pair[1])


def by_measure(found):
    return {measure: [each[measure] for each in found] for measure in found[0]}


def report_set(report, stored, name, epsilon, seeds):
    values = by_measure([each[0] for each in linked_fits(SETS[name](), epsilon, seeds)])
    for measure, goals in GOALS.items():
        beside = best(stored, f"{name} {epsilon:g}", measure, BESIDE[measure]) if measure in BESIDE else None
        report.line(name, epsilon, measure, values[measure], goals[name][epsilon], beside)
    for measure in ("orphans", "broken rules"):
        report.line(name, epsilon, measure, values[measure], 0)
    for measure in ("by pair", "same", "fit, CPU s", "draw, CPU s"):
        report.line(name, epsilon, measure, values[measure], None)


def report_wages(report, stored, seeds):
    values = by_measure([each[0] for each in linked_fits(SETS["wages"](), 3.2, seeds)])
    report.line("wages", 3.2, "by pair", values["by pair"], 0.12)
    report.line("wages", 3.2, "same", values["same"], 0.16)
    report.line("wages", 3.2, "parent x child", values["parent x child"], 1, best(stored, "wages 3.2", "parent x child", ("flattened",)))
    for measure in ("orphans", "broken rules", "count"):
        report.line("wages", 3.2, measure, values[measure], 0)
    for measure in ("parent", "child", "fit, CPU s"):
        report.line("wages", 3.2, measure, values[measure], None)


def report_trips(report, seeds):
    """The child's TV2 of both links: without noise, and at epsilon 10 beside it."""
    data = SETS["trips"]()
    floors, found = linked_fits(data, float("inf"), seeds), linked_fits(data, 10.0, seeds)
    for place, (link, goal) in enumerate(zip(data.links, (0.05, 0.08), strict=True)):
        floor = [each[place]["child"] for each in floors]
        report.line("trips", float("inf"), f"{link.child}, child", floor, goal)
        report.line("trips", 10, f"{link.child}, child", [each[place]["child"] for each in found], 2, ("no noise", float(np.mean(floor))))
        for measure in ("orphans", "broken rules"):
            report.line("trips", 10, f"{link.child}, {measure}", [each[place][measure] for each in found], 0)
        for measure in ("parent x child", "by pair"):
            report.line("trips", 10, f"{link.child}, {measure}", [each[place][measure] for each in found], None)


def stays(tables):
    """Return the medians of the length of a stay and of the gap before it, and Spearman's correlations of both with the patient's age."""
    rows = tables["stay"].merge(tables["patient"], on="patient_id")
    medians = {name: float(rows[name].median()) for name in ("days", "gap")}
    return medians, {name: float(spearmanr(rows[name], rows["age"]).statistic) for name in ("days", "gap")}


def report_clinic(report, seeds):
    """Stays drawn by models of 2,000 patients, beside 400,000 patients of the same law."""
    (true_medians, true_ranks), data = stays(clinic(400_000, seed=1).tables), clinic()
    found = [stays(model_of(data, 3.0, seed).fit(data.tables).sample(20_000, random_state=seed + 1)) for seed in range(seeds)]
    for name in ("days", "gap"):
        ratios = [max(medians[name] / true_medians[name], true_medians[name] / medians[name]) for medians, _ in found]
        report.line("clinic", 3, f"median of {name} (truth {true_medians[name]:.3g}), factor", ratios, 1.3)
        off = [abs(ranks[name] - true_ranks[name]) for _, ranks in found]
        report.line("clinic", 3, f"Spearman of {name} with age (truth {true_ranks[name]:.2f}), off by", off, 0.1)


def scale_here():
    """Print persons, and the seconds of a fit and of a sample, and the peak memory in GB of this process."""
    data = many_households()
    model, fit = clocked(lambda: model_of(data, 1.0, 0).fit(data.tables))
    _, draw = clocked(lambda: model.sample(len(data.tables["household"]), random_state=1))
    print(json.dumps({"persons": len(data.tables["person"]), "fit": fit, "draw": draw, "memory": peak() / 1e3}))


def report_scale(report):
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--only", "scale here"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    where = f"{found['persons']:,} persons"
    for what, goal in (("fit", 40), ("draw", 5), ("memory", 2)):
        report.line(where, 1, {"memory": "peak memory, GB"}.get(what, f"{what}, CPU s"), [found[what]], goal)


def report_pure(report, seeds):
    """ARC at pure epsilon 1, beside delta 1e-6."""
    pure, other = ([each[0] for each in linked_fits(SETS["arc"](), 1.0, seeds, delta)] for delta in (0.0, DELTA))
    for measure in BESIDE:
        beside = float(np.mean([each[measure] for each in other]))
        report.line("arc, delta 0", 1, measure, [each[measure] for each in pure], 2.2, ("delta 1e-6", beside))


def print_baselines(stored):
    print("| baseline | seeds | " + " | ".join(MEASURES) + " |\n" + "|---" * (2 + len(MEASURES)) + "|")
    for cell, found in stored["fits"].items():
        values = [[each[measure] for each in found.values() if measure in each] for measure in MEASURES]
        print(f"| {cell} | {len(found)} | " + " | ".join(mean_and_spread(each) if each else "-" for each in values) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["arc", "semcog", "made up", "nafld", "wages", "trips", "clinic", "scale", "pure"]
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=parts, choices=[*parts, "scale here"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.2], choices=[1.0, 3.2], help="of the first four sets")
    choice = {"nargs": "?", "const": "missing", "choices": ["missing", "all"]}
    parser.add_argument("--baselines", **choice, help="fit the baselines, store their figures, and print them")
    arguments = parser.parse_args()
    for category in (SmallSampleWarning, BudgetWarning, InsecureRandomnessWarning):
        warnings.simplefilter("ignore", category)
    if "scale here" in arguments.only:
        return scale_here()
    if arguments.baselines:
        make_baselines([cell for cell in BASELINE_CELLS if cell[0] in arguments.only], arguments.seeds, arguments.baselines == "all")
        return print_baselines(json.loads(STORED.read_text()))
    report, stored = Report(), json.loads(STORED.read_text())
    for name, epsilon in BASELINE_CELLS[:-1]:
        if name in arguments.only and epsilon in arguments.epsilon:
            report_set(report, stored, name, epsilon, arguments.seeds)
    others = {
        "wages": lambda: report_wages(report, stored, arguments.seeds),
        "trips": lambda: report_trips(report, arguments.seeds),
        "clinic": lambda: report_clinic(report, arguments.seeds),
        "scale": lambda: report_scale(report),
        "pure": lambda: report_pure(report, arguments.seeds),
    }
    for name in filter(others.__contains__, arguments.only):
        others[name]()
    print("missed:", *(report.missed or ["none"]), sep="\n")
    return int(bool(report.missed))


if __name__ == "__main__":
    raise SystemExit(main())
