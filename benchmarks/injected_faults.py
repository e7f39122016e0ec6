"""Faults of privacy that are put by hand into a copy of the package, one at a time: the tests must fail each time.

    python benchmarks/injected_faults.py [--only paper_exact_n ...] [--lane day]

Each fault is a line or two that a hurried author might write. It lets something private leave a fit, or it lowers the noise or the charge
below the stated one. Nothing is changed in place: the project is copied to a temporary folder, and the text that a fault replaces must
stand there exactly once. The tests that are most likely to see it run first (the folder of its room, then the common laws and the rules on
the syntax trees), then all others of the lane, up to the first failure; that test must pass again without the fault.

It prints the test that failed first, and ends with 1 if a fault survives.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
LEFT_OUT = (".git", "dist", "output")  # and environments


@dataclass(frozen=True)
class Fault:
    """A text of a file that becomes another, and what leaks then."""

    name: str
    file: str
    old: str
    new: str
    leaks: str

    @property
    def room(self) -> str:
        """The folder of the tests of what it is in."""
        folder = self.file.partition("/")[0]
        return {"frames": "domain", "tables": "domain"}.get(folder, folder)


FAULTS = (
    Fault(
        "paper_exact_n",
        "synthesis/_private_measure.py",
        "max(1, int(noisy[0][0]))",
        "max(1, int(counts.levels()[0].query(budget.relation).values[0]))",
        "error_bound_ follows from the exact number of rows",
    ),
    Fault(
        "bound_exact_n",
        "synthesis/_private_measure.py",
        "plan.release_measure(rows, self.n_samples_, budget)",
        "plan.release_measure(rows, max(1, rows.n_samples or 0), budget)",
        "error_bound_ follows from the exact number of rows",
    ),
    Fault(
        "ranges_exact_n",
        "synthesis/_low_dim.py",
        "noise, budget, self.n_samples_)",
        "noise, budget, rows.n_samples or 0)",
        "how much of an axis is cut off follows from the exact number of rows",
    ),
    Fault(
        "tick_exact_n",
        "synthesis/_online_blocks.py",
        '("add_or_remove_one", None) if self.in_ticks',
        '("add_or_remove_one", self.n_open) if self.in_ticks',
        "a block of a stream shows the exact number of its rows",
    ),
    Fault(
        "half_scale",
        "privacy/_laplace.py",
        "return self._sample_by_scale(size,",
        "return DiscreteLaplace(self.scale / 2)._sample_by_scale(size,",
        "Laplace noise costs twice what is charged",
    ),
    Fault(
        "half_change",
        "statistics/_marginals.py",
        "return count_sensitivity(relation, n_tables)",
        "return count_sensitivity(relation, max(1, n_tables // 2))",
        "counts of tables cost twice what is charged",
    ),
    Fault(
        "kept_attribute",
        "fitting/_fit.py",
        'name in gone or name.endswith("_") or',
        'name.endswith("_") or',
        "a refit keeps what the fit before had learned of other rows",
    ),
    Fault(
        "warning_of_rows",
        "decomposition/_pca.py",
        "        exact, rows, ball, counted = _sum_rows(rows, plan)\n",
        "        if any((chunk > plan.ball.box.high).any() for chunk in rows.chunks()):\n"
        '            budget.warn("Values above the bounds are clipped.")\n'
        "        exact, rows, ball, counted = _sum_rows(rows, plan)\n",
        "a warning says whether a value lies above the bounds",
    ),
    Fault(
        "shape_of_rows",
        "synthesis/_signed_measure.py",
        "self.signed_measure_ = counts / n\n",
        "self.signed_measure_ = (counts / n)[: 1 + np.flatnonzero(histogram.query(budget.relation).values).max(initial=0)]\n",
        "an attribute ends with the last cell that has rows",
    ),
    Fault(
        "dtype_of_cells",
        "frames/_table_kind.py",
        "        array = table if is_array else as_cells(table)\n",
        "        array = table if is_array else as_cells(table)\n"
        "        array = array.astype(int) if array.dtype == float and len(array.data) and not np.any(np.mod(array, 1)) else array\n",
        "samples are whole numbers if all cells of the rows are",
    ),
    Fault(
        "reused_draw",
        "continual/_tree.py",
        "ahead._kept, ahead._past = {}, (",
        "ahead._kept, ahead._past = dict(self._kept), (",
        "a counter that goes on from a copy adds the same noise to other counts",
    ),
    Fault(
        "forgotten_charge",
        "fitting/_budget.py",
        'noisy = budget.answer(query, chosen, "number of rows")',
        'noisy = query.values + chosen.noise.sample(query.values.shape, budget.rng.child("number of rows"))',
        "the number of rows is released, and not charged",
    ),
    Fault(
        "stratum_exact",
        "synthesis/_latent_marginals.py",
        "totals = estimates.rows(plan.n_samples)\n    n_samples",
        "totals = total(coded.rows, Marginals.over(coded.sizes, [(len(coded.sizes) - 1,)])).tables()[0].astype(float)\n    n_samples",
        "how many rows each class has, and there are in all, is exact",
    ),
    Fault(
        "triples_exact",
        "synthesis/_latent_planning.py",
        "np.argsort(-noisy,",
        "np.argsort(0 * noisy - query.values,",
        "which three columns are counted follows from exact distances",
    ),
    Fault(
        "limits_of_one",
        "continual/_sparse.py",
        'self._draw_limits(len(over), f"{name}, limits")',
        'self._draw_limits(1, f"{name}, limits")',
        "cells that are closed together share the noise of one limit",
    ),
    Fault(
        "choice_for_one",
        "privacy/_accountant.py",
        "selection_mechanism(sensitivity.times(self.rows_per_unit), loss,",
        "selection_mechanism(sensitivity, loss,",
        "a person of several rows moves a choice by more than is charged",
    ),
    Fault(
        "labels_apart",
        "frames/_privacy_units.py",
        "choice.counts(choice.merge_labels(units), high, low, n_equal)",
        "choice.counts(units, high, low, n_equal)",
        "a person whose label comes as a number and as a text has twice the rows",
    ),
    Fault(
        "kept_points",
        "model_selection/_search.py",
        "        best = budget.choose(query, plan.choice",
        "        self._compared = points\n        best = budget.choose(query, plan.choice",
        "a search keeps the rows that it compares candidates by",
    ),
    Fault(
        "told_cell",
        "federated/_sites.py",
        "if type(error) in (TypeError, ValueError):",
        "if isinstance(error, TypeError | ValueError):",
        "what a library says of a cell leaves its site",
    ),
    Fault(
        "open_card",
        "report/_pages.py",
        "return self.facts.promise.holds",
        "return True",
        "a card of no promise is readable for all",
    ),
    Fault(
        "near_exact",
        "synthesis/_latent_marginals.py",
        "zip(pairs, exact.tables(noisy), edges, apart, strict=True)",
        "zip(pairs, exact.tables(), edges, apart, strict=True)",
        "which columns are near each other follows from exact differences",
    ),
    Fault(
        "unclipped_part",
        "fitting/_fit.py",
        "np.clip(rows.collect(), facts.box.low, facts.box.high) if isinstance(rows, Rows) else rows",
        "rows.collect() if isinstance(rows, Rows) else rows",
        "a synthesizer of others gets rows beyond the bounds that its noise is made for",
    ),
    Fault(
        "statistic_of_rows",
        "statistics/_interactions.py",
        "dtype=np.int64), sensitivity_of_distances(relation, len(expected))",
        'dtype=np.int64), __import__("dataclasses").replace(sensitivity_of_distances(relation, len(expected)), '
        'statistic=statistic_facts("distances", tables=int(exact.tables()[0].flat[0])))',
        "what the ledger says of a statistic has an exact count in it",
    ),
    Fault(
        "rows_of_nobody",
        "frames/_privacy_units.py",
        "        chosen = units >= 0\n",
        "        chosen = units >= 0\n"
        '        __import__("warnings").warn(f"{(~chosen).sum()} rows have no unit.", UserWarning, stacklevel=2)\n',
        "a warning counts the rows without a label",
    ),
    Fault(
        "deviation_of_rows",
        "model_selection/_search.py",
        "plan.utility.score(plan.noise.deviation, self._n_held_out)",
        "plan.utility.score(plan.noise.deviation, len(points))",
        "the deviation of a search's scores follows from the exact number of its rows",
    ),
    Fault(
        "root_of_one_row",
        "statistics/_linked.py",
        "replace(moved.times(self.total), statistic=",
        "replace(moved, statistic=",
        "a root with many rows below it costs more than is charged",
    ),
    Fault(
        "whole_siblings",
        "statistics/_linked.py",
        "(_shared_mass(forest, table, totals) // np.maximum(forest.counts(table), fewest))[owner]",
        "_shared_mass(forest, table, totals)[owner]",
        "each child weighs what all of its parent share",
    ),
    Fault(
        "whole_pairs",
        "statistics/_linked.py",
        "return first, second, (k * n_others)[first]",
        "return first, second, n_others[first]",
        "pairs of siblings weigh more than a row together",
    ),
    Fault(
        "whole_histories",
        "statistics/_linked.py",
        "[parents] // np.maximum(counts[parents] - 1, 1)",
        "[parents]",
        "a long history weighs more than a short one",
    ),
    Fault(
        "shallow_total",
        "statistics/_linked.py",
        "found[link.of] * min(least,",
        "min(least,",
        "rows of the third level have the noise of the second",
    ),
    Fault(
        "doubled_root",
        "tables/_forest.py",
        "_distinct(np.zeros_like(own[linked.root]), own[linked.root])",
        "np.flatnonzero(own[linked.root] >= 0)",
        "a root that is in its table twice counts twice",
    ),
    Fault(
        "beyond_the_cap",
        "tables/_forest.py",
        "places[ranks_within(owner[places]) < link.most]",
        "places",
        "rows beyond the most of a parent count",
    ),
    Fault(
        "adopted_orphans",
        "tables/_forest.py",
        "places = np.flatnonzero(owner >= 0)",
        "owner = np.where(owner < 0, 0, owner)\n        places = np.flatnonzero(theirs[name] >= 0)",
        "rows that hang on nothing count as rows of the first root",
    ),
    Fault(
        "order_of_arrival",
        "tables/_forest.py",
        "take_rows([*read, high], np.lexsort((high, low)))",
        "[*read, high]",
        "which rows of a root count follows from the order in which all arrived",
    ),
    Fault(
        "gap_of_another",
        "domain/_histories.py",
        "np.where(ranks_within(owner) == 0, self.low, reached)",
        "reached",
        "the first time of a root counts from the last one of the root before",
    ),
    Fault(
        "number_of_roots",
        "synthesis/_linked_tables.py",
        "max(1, round(counted.mass(plan.root)))",
        "len(rows.source.table)",
        "the number of roots is exact where it is private",
    ),
    Fault(
        "bins_exact",
        "synthesis/_linked_counts.py",
        "exact.levels(noisy), strict=True)",
        "exact.levels(), strict=True)",
        "bins of linked numbers follow from exact counts",
    ),
    Fault(
        "unspent_share",
        "synthesis/_linked_planning.py",
        "shares=split_share(budget, weights))",
        'shares=split_share(budget, {**weights, "kept": 0.5}))',
        "a third of the budget is spent on nothing",
    ),
)


def injected(fault: Fault, copy: Path) -> str:
    """Write a fault into a copy of the project, and return what stood there."""
    path = copy / "skdpsynth" / fault.file
    source = path.read_text(encoding="utf-8")
    if source.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.old!r} stands {source.count(fault.old)} times in {fault.file}, not once; mend the fault.")
    path.write_text(source.replace(fault.old, fault.new), encoding="utf-8")
    return source


def caught_by(copy: Path, lane: str, tests: list[str]) -> str | None:
    """Run tests of a copy up to the first that fails, and return its name, or None."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "--tb=no",
        "--lane",
        lane,
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    failed = re.search(r"^FAILED (\S.*?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        raise SystemExit(f"pytest ended with {done.returncode}, and no test failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1]


def tried(fault: Fault, lane: str) -> str | None:
    """Return the first test that fails where a fault is in, or None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for path in (each for each in HERE.iterdir() if each.name not in LEFT_OUT and not each.name.startswith(".venv")):
            if path.is_dir():
                shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__", "_build", "auto_examples"))
            else:
                shutil.copy(path, copy / path.name)
        source = injected(fault, copy)
        room = [f"tests/{fault.room}"] if (copy / "tests" / fault.room).exists() else []
        common = ["tests/test_common.py", "tests/test_architecture.py"]
        rest = ["tests", *(f"--ignore={name}" for name in (*room, *common))]
        test = next(filter(None, (caught_by(copy, lane, names) for names in (room, common, rest) if names)), None)
        (copy / "skdpsynth" / fault.file).write_text(source, encoding="utf-8")
        if test is not None and caught_by(copy, lane, [test]) is not None:
            raise SystemExit(f"{test} fails without {fault.name} too; mend it first.")
        return test


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[fault.name for fault in FAULTS], metavar="NAME")
    parser.add_argument("--lane", choices=["quick", "day"], default="quick")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - {fault.name for fault in FAULTS}:
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    survive = []
    print(f"{'fault':18}{'room':15}{'seconds':>8}  caught by")
    for fault in FAULTS:
        if fault.name in arguments.only:
            begun = time.monotonic()
            test = tried(fault, arguments.lane)
            print(f"{fault.name:18}{fault.room:15}{time.monotonic() - begun:8.0f}  {test or 'nothing: ' + fault.leaks}", flush=True)
            survive += [] if test else [fault.name]
    print(f"{', '.join(survive)} survived" if survive else "all were caught")
    sys.exit(bool(survive))
