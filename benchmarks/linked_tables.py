"""Linked tables: LinkedTablesSynthesizer beside one-table fits that are joined afterwards.

SKDPSYNTH_DATA=FOLDER python benchmarks/linked_tables.py [--seeds 3] [--sets arc semcog "made up" nafld wages] [--epsilon 1 3.2]
    [--baselines [missing | all]]

linked_data.py describes the sets, which are coded by public cuts. The unit is a root with all that belongs to it; the relation is
replace-one, delta is 1e-6, and seeds are 0, 1, 2. Figures are means over seeds, with the standard deviation in brackets.

Measures are mean total variations over all pairs of columns (TV2): of the parent, of the child, of one column of the parent with one of the
child (each child counts once), and of two children of one parent (exchangeable: all pairs of siblings; histories: consecutive rows), by
pair, and by root, where each parent counts once. `same` is the part by pair where both columns are the same; `count` is the total variation
of the number of children of a parent.

Baselines use `LatentFactorSynthesizer` alone. independent: parents with their number of children, and children with their parent as the
unit, at half of rho and of delta each, joined at random. flattened: each child row with its parent's columns and number of children, the
parent as the unit; drawn rows with equal parents are grouped. parent alone, child alone: that table gets the whole budget. A number in the
name is `max_rows_per_unit`. halves: one random half of the real roots beside the other, where copies of one record stay together. All are
stored in peers/linked.json with date and version; `--baselines` makes those that are missing there, or all of them again.
"""

import argparse
import datetime
import json
import time
import warnings
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from linked_data import SETS

import skdpsynth
from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import Nominal, Ordinal
from skdpsynth.exceptions import BudgetWarning, InsecureRandomnessWarning, SmallSampleWarning
from skdpsynth.privacy import epsilon_of_rho, rho_of_epsilon

STORED = Path(__file__).parent / "peers" / "linked.json"
DELTA = 1e-6
NUMBER = "number of children"
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
            cell = f"{name} {who}" if who == "halves" else f"{name} {epsilon:g} {who}"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["arc", "semcog", "made up", "nafld", "wages"], choices=SETS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.2])
    choice = {"nargs": "?", "const": "missing", "choices": ["missing", "all"]}
    parser.add_argument("--baselines", **choice, help="fit the baselines, and store their figures")
    arguments = parser.parse_args()
    for category in (SmallSampleWarning, BudgetWarning, InsecureRandomnessWarning):
        warnings.simplefilter("ignore", category)
    cells = [cell for cell in BASELINE_CELLS if cell[0] in arguments.sets and cell[1] in arguments.epsilon]
    if arguments.baselines:
        make_baselines(cells, arguments.seeds, arguments.baselines == "all")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
