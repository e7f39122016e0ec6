"""Change every scale, share and sensitivity by one part in a hundred, one at a time: some test must fail each time.

The sources are read as syntax trees. A mutant is one number or one expression that a scale, a share, a sensitivity or a loss is made of,
times 101/100. All mutants are compiled into one copy of the project, in memory, where each waits for its number, and a fork of that process
runs with one of them: nothing on disk is ever changed. Tests are run until one fails: first those of the shares, then of the module, then
of the room. Each file of tests first runs once without a mutant. It must succeed, and shows which of its tests reach what: only these are
run.

    python benchmarks/mutations.py              # all mutants; what was found is kept, and the next run goes on
    python benchmarks/mutations.py --only _gaussian --again

It prints the mutants that survive, with their lines, and ends with 1 if `EQUIVALENT` does not explain one of them.

    python benchmarks/mutations.py --turn 40    # 40 of each room: a condition turned around, or a term that is larger by 1 or a tenth

This shows the share of the mistakes in a room that its tests notice. Their texts determine which are tried, so it can be compared before
and after a change. Some survivors change nothing; none are explained.
"""

import argparse
import ast
import gc
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

HERE = Path(__file__).resolve().parent.parent
KEPT = Path(tempfile.gettempdir()) / "skdpsynth-mutations"
WHOLE = ("skdpsynth/privacy", "skdpsynth/statistics", "skdpsynth/_sensitivity.py")
ASKING = tuple(
    f"skdpsynth/{room}"
    for room in ("fitting", "decomposition", "continual", "synthesis", "model_selection", "federated", "measures/_consistency")
)
# Files that hold no noise: how ledgers are kept, shown and written, how sums are read from elsewhere, what a plan expects of errors.
SKIPPED = re.compile(r"privacy/_(ledger\w*|streams|random)\.py|model_selection/_plan\w*\.py|statistics/_pushdown\.py")
# All numbers of these count. How words of random bits become tables of exact laws is compared with those laws elsewhere.
NOISES = re.compile(r"privacy/_(laplace|gaussian|composition|gaussian_dp|mechanism|losses|selection|noise)\.py")

NAMED = re.compile(
    r"scale|share|sensitivit|change|loss|epsilon|rho|delta|spent|l1|l2_squared|\bsup\b|nuclear|units|weight|budget|SLACK|ROUNDED|threshold",
    re.I,
)
MAKERS = {
    "Sensitivity", "count_sensitivity", "PrivacyLoss", "DiscreteLaplace", "DiscreteGaussian", "DiscreteSupNorm", "DiscreteMatrixLaplace",
    "PermuteAndFlip", "ExponentialMechanism", "loss_of_choice", "pure_of_gaussian", "gaussian_of_pure", "laplace_scale", "gaussian_scale",
    "rho_of_epsilon", "epsilon_of_rho", "rho_of_pure", "split", "split_exactly", "times", "mechanism",
    "scale_of_kind", "noise_for", "part", "child", "discovery", "Discovery", "PrivacyAccountant", "selection", "release", "spend",
}  # fmt: skip
ALIKE = {
    "name",
    "names",
    "group",
    "relation",
    "neighboring",
    "kind",
    "kinds",
    "rng",
    "statistic",
    "dtype",
    "message",
    "key",
    "ledger",
    "order",
    "unit",
    "n_values",
    "gaussian",
    "in_rho",
}

# Files that hold the laws of a whole room.
OWN: dict[str, list[str]] = {
    **{room: ["tests/test_shares.py"] for room in ("fitting", "synthesis", "decomposition", "model_selection", "privacy/_losses")},
}
_ADDED_UP = [f"tests/privacy/test_{name}.py" for name in ("losses_and_composition", "mechanism", "accountant")]
_DRAWN = [f"tests/privacy/test_{name}.py" for name in ("noise", "gaussian_dp", "matrix_laplace", "selection", "random", "standing")]
BESIDE = {
    "statistics/_aggregator": ["tests/statistics/test_pushdown.py"],
    "statistics/_moments": ["tests/statistics/test_packing.py"],
    "statistics/_counts": ["tests/statistics/test_counts.py", "tests/statistics/test_pushdown.py"],
    "statistics": ["tests/statistics/test_changes.py", "tests/test_evidence.py"],
    "_sensitivity": ["tests/statistics/test_changes.py", "tests/privacy/test_mechanism.py", "tests/test_evidence.py"],
    "continual": ["tests/continual/test_counters.py", "tests/test_evidence.py"],
    "decomposition": ["tests/decomposition/test_release.py"],
    "fitting": ["tests/fitting/test_fit.py", "tests/fitting/test_warnings.py", "tests/test_evidence.py"],
    "synthesis/_online": ["tests/fitting/test_parts.py", "tests/fitting/test_units.py"],
    "privacy/_accountant": ["tests/privacy/test_ledger_file.py"],
    "privacy/_optimal": [f"tests/privacy/test_totals_{name}.py" for name in ("attack", "of_losses", "peers")],
    "privacy": [*_ADDED_UP, *_DRAWN, "tests/privacy/test_totals_of_losses.py", "tests/privacy/test_sampler_trees.py"],
}

# What changes no noise, no share and no loss, and why: of a whole function, of one expression in it, or of the n-th that reads so (#n).
EQUIVALENT: dict[str, str] = {
    "decomposition/_pca.py:_PCAPlan.fits": "whether a grid is refused; the sensitivity on the chosen one is its own",
    "decomposition/_pca.py::2**57": "as _PCAPlan.fits",
    "decomposition/_pca.py::0.02": "of shares that are rounded to thousandths",
    "privacy/_laplace.py:DiscreteLaplace.variance:1": "a default that plays no part: all values have the same variance",
    "privacy/_gaussian.py:DiscreteGaussian.variance:1": "as DiscreteLaplace.variance",
    "privacy/_losses.py::10**300": "the largest epsilon that is not refused",
    "privacy/_losses.py::5e-324": "the least epsilon and delta that are not refused",
    "privacy/_losses.py:PrivacyLoss.split:weights": "weights that are all larger share alike",
    "privacy/_mechanism.py:check_covered:1": "a change that stands for any: of which kind a loss is follows from none",
    "privacy/_accountant.py:PrivacyAccountant.split:weights": "weights that are all larger share alike",
    "privacy/_accountant.py:PrivacyAccountant.children:sum(part.epsilon for part in parts)": "of a budget that nobody reaches",
    "privacy/_accountant.py:PrivacyAccountant.children:sum(part.delta for part in parts)": "as the sum of epsilons",
    "measures/_consistency.py:optimal_shares:0.02": "where a search begins",
    "measures/_consistency.py:optimal_shares:1.0": "where a search begins",
    "measures/_consistency.py:optimal_shares:starts.reshape(-1, r)": "where a search begins, whose shares are divided by their sum",
    "measures/_consistency.py:optimal_shares.bounds:1e-30": "so that nothing is divided by 0",
    "measures/_consistency.py:paper_shares:1": "of parts that are made whole numbers",
    "model_selection/_search.py:PrivateSearchCV._accepted_runs:1": "a made-up number of rows, by which a part is asked whether it can plan",
    'privacy/_composition.py::Decimal("1e-30")': "far below the last digit that is kept, and towards more loss",
    'privacy/_composition.py::Decimal("1e20")': "from where no digits are left to round",
    "privacy/_composition.py:_zcdp_above:1e-300": "it steers a search for an alpha, at each of which the bound holds",
    "privacy/_composition.py:_zcdp_above:1e-6": "as 1e-300",
    "privacy/_composition.py:_zcdp_above:1e-9": "as 1e-300",
    "privacy/_composition.py:_zcdp_above:1e-12": "as 1e-300",
    "privacy/_composition.py:_rho_below:2#1": "how far a search goes at a step",
    "privacy/_composition.py:_rho_below:1e-9": "how far before a root a search begins",
    "privacy/_composition.py:_rho_below:1e-13": "where floats end a search, after which rho is made smaller until it converts to epsilon",
    "privacy/_composition.py::60": "from where tanh is 1 to all digits that are kept",
    "privacy/_composition.py::1 << 16": "the most losses that are not refused",
    "privacy/_gaussian.py::256": "from where draws are rejected instead of looked up, by the same law",
    'privacy/_gaussian.py::Decimal("1e-70")': "far below the last digit that is kept, and towards more loss",
    'privacy/_gaussian.py::Decimal("1e-20")': "rounded up to more digits than are kept",
    'privacy/_gaussian.py::Decimal("1e40")': "from where no digits are left to round",
    "privacy/_gaussian.py::5": "up to which one of two bounds is taken, both of which hold",
    'privacy/_gaussian.py:_least_a:Decimal("1e-25")': "steps of a search that ends where the bound holds",
    "privacy/_gaussian.py:_least_a:8": "as 1e-25",
    'privacy/_gaussian.py:_series:Decimal("1e-79")': "of terms that are far below what bounds are loosened by",
    "privacy/_gaussian.py:_float_a:1": "where a search begins, which only finds where to look",
    "privacy/_gaussian.py:_float_a:2": "as 1",
    "privacy/_gaussian.py:_float_a:1e-3": "as 1",
    "privacy/_gaussian.py:_float_a:1e-15": "as 1",
    "privacy/_gaussian.py:_float_a:1e-16": "as 1",
    "privacy/_gaussian.py:rho_of_gaussian:Fraction(1, 10**19)": "as _polished",
    "privacy/_gaussian.py:rho_of_gaussian:1e-14": "as _polished",
    "privacy/_gaussian.py:rho_of_gaussian:Fraction(1, 10**12)": "by how much rho is made smaller until it converts to epsilon",
    "privacy/_gaussian.py:rho_of_gaussian:less + less": "as 1 / 10**12",
    "privacy/_gaussian.py:rho_of_gaussian:1": "how far a search goes at a step",
    "privacy/_gaussian.py:_log_delta:1e-4": "as _float_a",
    "privacy/_gaussian.py:_log_delta:2#1": "as _float_a",
    "privacy/_gaussian.py:_log_delta:2#2": "as _float_a",
    "privacy/_gaussian.py::39.0": "where a search ends that only finds where to look",
    "privacy/_noise.py:Noise.variance:1": "a default that each noise has its own of",
    "privacy/_noise.py::1 << 60": "the most values that are not refused",
    "privacy/_noise.py::2000": "from where draws are looked up instead of rejected, by the same law",
    "privacy/_noise.py:shape_of:8": "bytes of a number: what memory is asked for",
    "privacy/_selection.py::2**62": "the largest count that is not refused",
    "synthesis/_latent_planning.py:split_share:list(weights.values())": "as weights",
    "privacy/_selection.py::2**40": "the largest scale that is not refused",
    "privacy/_selection.py::1 << 12": "bits of a bound, which is certified with however many",
    "fitting/_fit.py::Fraction(1, 10**9)": "the least epsilon that is not refused",
    "fitting/_budget.py::Fraction(1, 10**6)": "a delta that a warning proposes",
    "fitting/_budget.py::1024": "the largest epsilon that sizes follow",
    "fitting/_budget.py:Facts.usual_delta": "a delta that a warning proposes",
    "synthesis/_latent_planning.py:plan_steps:facts.usual_delta": "a delta that a warning proposes",
    "statistics/_interactions.py:Interactions.over": "multipliers, of which any serve: the change is derived of those that are taken",
    "synthesis/_latent_marginals.py:can_detect_near_columns": "by public numbers, whether a step is bought, whose noise is planned anew",
    "synthesis/_latent_planning.py:least_rows": "as can_detect_near_columns",
    "synthesis/_latent_planning.py:_noise_error": "an expected error, for a warning and for choices among shares",
    "synthesis/_latent_planning.py:_plan_pairs": "as _noise_error",
    "synthesis/_latent_planning.py::0.1": "of shares that are rounded to hundredths",
    "synthesis/_latent_planning.py::0.2#1": "of shares that are rounded to hundredths",
    "synthesis/_latent_planning.py::0.03": "of shares that are rounded to hundredths",
    "synthesis/_latent_planning.py::0.42": "of shares that are rounded to hundredths",
    "synthesis/_latent_scores.py:plan:n_latent": "a number of columns by which a part is asked whether it refuses",
    "synthesis/_linked_counts.py:_choose_n_bins": "how many bins a column has, by public and noisy numbers: no noise hangs on it",
    "synthesis/_low_dim.py:LowDimSynthesizer._plan:k": "a number of columns by which a part is asked whether it refuses",
    "synthesis/_private_measure.py:_level_noises:list(filter(None, shares))": "weights that are all larger share alike",
    "synthesis/_private_measure.py:PublishedLevels.of:paper_shares(total_diameters(partition, depth))": "as weights",
    "synthesis/_subspace.py:axis_scales": "how wide intervals are, by what was released before: no noise",
    "synthesis/_online.py:OnlineSynthesizer._plan:1": "a number of rows of which it is only asked whether they are too many",
    "synthesis/_online.py:OnlineSynthesizer._plan:max(facts.n_samples or 1, _LONG)": "a number of rows, for warnings",
    "synthesis/_online_tree.py:depth_shares:[alpha ** (j - depth) for j in depths]": "weights that are all larger share alike",
    "synthesis/_online.py:OnlineSynthesizer._inner_synthesizer:1": "a made-up number of rows, by which a part is asked whether it refuses",
}


@dataclass(frozen=True)
class Site:
    """A number or an expression of the sources, by its place."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    within: str
    text: str
    is_early: bool
    place: int = 1  # among those of one text in a function
    is_condition: bool = False

    @property
    def key(self) -> str:
        """What it is called in the file of what was found."""
        return f"{self.path}:{self.line}:{self.column}-{self.end_line}:{self.end_column}:{self.text}"

    @property
    def short(self) -> str:
        """What `EQUIVALENT` calls it: lines move."""
        return f"{self.path.removeprefix('skdpsynth/')}:{self.within}:{self.text}"

    @property
    def is_equivalent(self) -> bool:
        """Whether `EQUIVALENT` says why it changes nothing that counts."""
        return bool({self.short, f"{self.short}#{self.place}", self.short.removesuffix(f":{self.text}")} & EQUIVALENT.keys())


def sites_of(path: Path, root: Path, finder_class: type | None = None) -> list[Site]:
    """Return what is mutated in a file."""
    source = path.read_text(encoding="utf-8")
    finder = (finder_class or _Finder)(str(path.relative_to(root)), source)
    finder.visit(ast.parse(source))
    listed, seen = [], Counter[str]()
    for site in sorted(finder.found.values(), key=lambda site: (site.line, site.column, -site.end_line, -site.end_column)):
        seen[site.short] += 1
        listed.append(replace(site, place=seen[site.short]))
    return listed


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found = path, source, {}
        self.whole = path.startswith(WHOLE)
        self.noises = bool(NOISES.search(path))
        self.within: list[str] = []
        self.is_early = True
        self.counted = False

    def add(self, node: ast.AST) -> None:
        """Add an expression, or the parts of one that only holds others."""
        if isinstance(node, ast.Tuple | ast.List):
            for part in node.elts:
                self.add(part)
        elif isinstance(node, ast.IfExp):
            self.add(node.body), self.add(node.orelse)
        elif isinstance(node, ast.Starred):
            self.add(node.value)
        elif not _says_nothing(node):
            text = " ".join((ast.get_source_segment(self.source, node) or "").split())
            place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
            self.found[place] = Site(self.path, *place, ".".join(self.within), text, self.is_early)

    def add_numbers(self, node: ast.AST) -> None:
        """Add the numbers that are written in an expression."""
        for each in _numbers(node):
            self.add(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self.counted = self.counted, self.counted or self._counts(node)
        early, self.is_early = self.is_early, False
        self._inside(node)
        self.counted, self.is_early = before, early
        self.within.append(node.name)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if self.noises and default is not None:
                self.add_numbers(default)
        self.within.pop()

    def _inside(self, node: ast.AST) -> None:
        self.within.append(node.name)
        for each in node.body:
            self.visit(each)
        self.within.pop()

    def _counts(self, node: ast.FunctionDef) -> bool:
        """Whether all numbers of a function count: of noise and losses, of how far rows move sums, of how a budget is shared."""
        called = {_called(each) for each in ast.walk(node) if isinstance(each, ast.Call)}
        return (
            self.noises
            or node.name in ("_release", "_plan")
            or bool(NAMED.search(node.name))
            or (self.whole and bool({"Sensitivity", "count_sensitivity"} & called))
        )

    def visit_Return(self, node: ast.Return) -> None:
        made = isinstance(node.value, ast.Call) and _called(node.value) in MAKERS  # what it is made of counts, then
        if node.value is not None and self.within and NAMED.search(self.within[-1]) and not made:
            self.add(node.value)
        self._numbers_of(node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        if any(map(NAMED.search, names)) and (self.whole or self.counted or not self.within):
            self.add_value(node.value)
        self._numbers_of(node.value, constant=not self.within and any(self.noises or NAMED.search(name) for name in names))
        self.generic_visit(node)

    def add_value(self, value: ast.AST) -> None:
        """Add what is assigned, unless it is an object that its arguments make."""
        if not (isinstance(value, ast.Call) and _called(value) in MAKERS) and not isinstance(value, ast.Dict | ast.Lambda | ast.Compare):
            self.add(value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._numbers_of(
                node.value, constant=not self.within and isinstance(node.target, ast.Name) and bool(NAMED.search(node.target.id))
            )
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if self.noises:
            self.add_numbers(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _called(node) in MAKERS:
            # The values that are released are no scale, and of noise the kinds and the number of values choose, but cover nothing.
            skipped = slice(1, None) if _called(node) == "release" else slice(0, 2 if _called(node) == "mechanism" else None)
            for argument in node.args[skipped]:
                self.add_value(argument)
                self.add_numbers(argument)
        for keyword in node.keywords:
            named = keyword.arg is not None and keyword.arg not in ALIKE | {"rows"}
            if self.path.startswith("skdpsynth/privacy") and ast.unparse(keyword.value).endswith(str(keyword.arg)):
                continue  # handed on as it is
            if named and (NAMED.search(keyword.arg) or _called(node) in MAKERS) and (self.whole or self.counted or _called(node) in MAKERS):
                self.add_value(keyword.value)
                self.add_numbers(keyword.value)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if self.noises:
            self.add_numbers(node)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._numbers_of(node.value)
            self.generic_visit(node)

    def _numbers_of(self, value: ast.AST | None, constant: bool = False) -> None:
        if value is not None and ((constant) or (self.within and self.counted)):
            self.add_numbers(value)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "np":
        return f"np.{node.func.attr}"  # np.split shares no budget
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _says_nothing(node: ast.AST) -> bool:
    """Whether an expression is no number that could be more: words, nothing, 0, truth values."""
    if isinstance(node, ast.Constant):
        return type(node.value) not in (int, float) or not node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return True
    if isinstance(node, ast.Call):
        return ast.unparse(node) in ("Fraction(0)", "Decimal(0)", "float('inf')", "frozenset()")
    if isinstance(node, ast.Attribute):
        return node.attr in ALIKE | {"inf"}
    if isinstance(node, ast.Name):
        return node.id in ALIKE
    return isinstance(node, ast.Compare | ast.BoolOp | ast.JoinedStr | ast.Lambda | ast.Dict)


def _is_written(node: ast.AST) -> bool:
    """Whether an expression holds numbers alone."""
    if isinstance(node, ast.Call):
        return (
            _called(node) in {"Fraction", "Decimal"}
            and isinstance(node.func, ast.Name)
            and all(map(_is_written, node.args))
            and bool(node.args)
        )
    if isinstance(node, ast.BinOp):
        return _is_written(node.left) and _is_written(node.right)
    return isinstance(node, ast.Constant)


def _numbers(node: ast.AST) -> Iterator[ast.AST]:
    """Yield written numbers, but places of sequences, counts of loops, axes and bits of words, which a hundredth does not reach."""
    if isinstance(node, ast.Constant):
        if not _says_nothing(node):
            yield node
        return
    if isinstance(node, ast.JoinedStr | ast.Lambda):
        return
    if isinstance(node, ast.BinOp | ast.Call) and _is_written(node):
        yield node  # 2**-32 and Fraction(1, 10) are one number each
        return
    if isinstance(node, ast.Call) and _called(node) in {
        "range",
        "round",
        "reshape",
        "Context",
        "child",
        "lru_cache",
        "where",
        "bytes",
        "ValueError",
        "TypeError",
    }:
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.RShift | ast.BitAnd | ast.BitOr | ast.Mod | ast.Pow):
        for each in (node.left, node.right):
            if not isinstance(each, ast.Constant) or (isinstance(node.op, ast.Pow) and each is node.left):
                yield from _numbers(each)
        return
    for name, value in ast.iter_fields(node):
        if (isinstance(node, ast.Subscript) and name == "slice") or (
            isinstance(node, ast.keyword) and node.arg in {"axis", "maxsize", "dtype", "prec"}
        ):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.Compare) and isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value < 100:
                continue  # whole numbers are above 1 where they are above 1.01
            if isinstance(each, ast.AST):
                yield from _numbers(each)


class _Turner(ast.NodeVisitor):
    """Finds conditions, and sums, differences, products and quotients."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found, self.within = path, source, {}, list[str]()

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            self.within.append(node.name)
        conditions = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
        conditions += node.ifs if isinstance(node, ast.comprehension) else node.values if isinstance(node, ast.BoolOp) else []
        is_term = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv)
        for each in [*conditions, *([node] if is_term and not isinstance(node.left, ast.Constant | ast.JoinedStr) else [])]:
            if self.within:  # what is computed at import would be computed anew
                place = each.lineno, each.col_offset, each.end_lineno, each.end_col_offset
                text = " ".join((ast.get_source_segment(self.source, each) or "").split())
                self.found[place] = Site(self.path, *place, ".".join(self.within), text, False, is_condition=each is not node)
        super().generic_visit(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            self.within.pop()


# ---- A mutant, in a process of its own.


def more(value: object) -> object:
    """Return a number times 101/100, at least the next one of whole numbers that an array holds; what is no number as it is."""
    from decimal import Decimal
    from fractions import Fraction

    import numpy as np

    changed: object = value
    if isinstance(value, int | float | Fraction | Decimal | np.number) and type(value) is not bool:
        more.number = True  # type: ignore[attr-defined]
    if isinstance(value, bool | np.bool_ | str | bytes) or value is None or (isinstance(value, float) and value == float("inf")):
        return value
    if getattr(value, "is_infinite", False) is True:
        return value  # no noise, however much more
    if isinstance(value, int | np.integer):
        exact = Fraction(int(value)) * Fraction(101, 100)
        changed = int(exact) if exact.denominator == 1 or abs(int(value)) >= 100 else exact
    elif isinstance(value, Fraction):
        changed = value * Fraction(101, 100)
    elif isinstance(value, float | np.floating):
        changed = type(value)(value * 1.01)
    elif isinstance(value, Decimal):
        changed = Decimal(value * Decimal("1.01"))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
        changed = value + np.sign(value) * np.maximum(1, np.abs(value) // 100).astype(value.dtype)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fO" and value.size:
        changed = value * Fraction(101, 100) if value.dtype.kind == "O" else value * 1.01
    elif type(value) in (tuple, list):
        changed = type(value)(map(more, value))  # type: ignore[call-arg]
    elif type(value).__name__ == "PrivacyLoss":
        changed = _more_of(value, "rho" if value.rho is not None else "epsilon")  # type: ignore[attr-defined]
    elif type(value).__name__ == "Sensitivity":
        changed = _more_of(value, "l1", "l2_squared", "sup", "nuclear")
    if changed is not value and not _are_equal(changed, value):
        more.changed = True  # type: ignore[attr-defined]
    return changed


def turned(value: object, is_condition: bool) -> object:
    """Return the opposite of a condition, or a number that is larger by 1, or by a tenth of itself."""
    import numpy as np

    more.number = True  # type: ignore[attr-defined]
    if isinstance(value, bool | np.bool_) or (is_condition and not isinstance(value, np.ndarray)):
        return not value
    if isinstance(value, np.ndarray) and value.dtype.kind == "b":
        return ~value
    if isinstance(value, int | np.integer) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        return value + 1
    return value * 1.1 if isinstance(value, float | np.floating | np.ndarray) else value


def _are_equal(changed: object, value: object) -> bool:
    import numpy as np

    return bool(np.array_equal(changed, value)) if isinstance(value, np.ndarray) else bool(changed == value)


def _more_of(value: object, *names: str) -> object:
    return replace(value, **{name: more(getattr(value, name)) for name in names})  # type: ignore[type-var]


class _Wrapping(ast.NodeTransformer):
    """Hand the value of each site to `more`, with the number of the site: one of them is more, while it is the mutant."""

    def __init__(self, sites: dict[tuple[int, int, int, int], int]) -> None:
        self.sites = sites

    def visit(self, node: ast.AST) -> ast.AST:
        place = tuple(getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
        node = self.generic_visit(node)
        if isinstance(node, ast.expr) and place in self.sites:
            call = ast.Call(ast.Name("__mutated__", ast.Load()), [ast.Constant(self.sites.pop(place)), node], [])
            return ast.copy_location(call, node)
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    sites: dict[tuple[int, int, int, int], int]

    def get_code(self, fullname: str) -> object:
        tree = _Wrapping(dict(self.sites)).visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class _Changed(importlib.abc.MetaPathFinder):
    def __init__(self, sites: list[Site], copy: Path) -> None:
        self.by_file: dict[str, dict[tuple[int, int, int, int], int]] = {}
        for number, site in enumerate(sites):
            place = site.line, site.column, site.end_line, site.end_column
            self.by_file.setdefault(str(copy / site.path), {})[place] = number

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        if fullname.split(".")[0] != "skdpsynth":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)  # type: ignore[arg-type]
        if spec is not None and spec.origin in self.by_file:
            loader = _Loader(fullname, spec.origin)
            loader.sites, spec.loader = self.by_file[spec.origin], loader
        return spec


MOST_OF_FILE = 300  # seconds, of which tests are recorded
NONE, RECORDING = -1, -2
ACTIVE = NONE
REACHED: set[int] = set()
TURNED: list[bool] = []  # whether each site is a condition, where sites are turned


def mutated(number: int, value: object) -> object:
    """Return the value of a site; more, if that site is the mutant."""
    if number != ACTIVE:
        if ACTIVE == RECORDING:
            REACHED.add(number)
        return value
    mutated.reached = True  # type: ignore[attr-defined]
    return turned(value, TURNED[number]) if TURNED else more(value)


PYTEST = shlex.split("-x -q -p no:cacheprovider -p no:xdist -p no:cov --no-header --tb=no -W ignore")  # and a lane


def prepare(sites: list[Site], files: list[str], copy: Path) -> None:
    """Import the project with every site wrapped, and the tests: a mutant is then a fork in which one site is more."""
    import builtins

    builtins.__mutated__ = mutated  # type: ignore[attr-defined]
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.meta_path.insert(0, _Changed(sites, copy))
    import pytest

    sys.stdout.flush()
    silent, out = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    os.dup2(silent, 1)
    code = pytest.main([*PYTEST, "--collect-only", *files])
    os.dup2(out, 1)
    assert code in (0, 5), f"tests cannot be collected: {code}"
    gc.freeze()


class Watch:
    """What one run of tests sees: the first that fails, and the end of its time. It may run some of the tests of a file alone."""

    def __init__(self, most: float, chosen: dict[str, float] | None = None) -> None:
        self.failed, self.failures, self.session, self.until = "", set[str](), None, time.process_time() + most
        self.chosen = chosen

    def pytest_sessionstart(self, session: object) -> None:
        self.session = session

    def pytest_collection_modifyitems(self, items: list) -> None:
        if self.chosen is not None:
            items[:] = sorted((item for item in items if item.nodeid in self.chosen), key=lambda item: self.chosen[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self.chosen is not None:  # a test that takes far longer than it did has no end: the signal ends this process
            signal.setitimer(signal.ITIMER_PROF, 15 + 20 * self.chosen[nodeid])

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: object) -> None:
        if report.failed:  # type: ignore[attr-defined]
            self.failed = self.failed or report.nodeid  # type: ignore[attr-defined]
            self.failures.add(report.nodeid)  # type: ignore[attr-defined]
        if time.process_time() > self.until:
            self.session.shouldstop = "enough"  # type: ignore[attr-defined]

    def pytest_collectreport(self, report: object) -> None:
        if report.failed and not self.failed:  # type: ignore[attr-defined]
            self.failed = f"import of {report.nodeid}"  # type: ignore[attr-defined]


class Record(Watch):
    """Notes how long each test of a file takes, and what it reaches; nothing that a test before it has computed is kept."""

    def __init__(self, most: float) -> None:
        super().__init__(most)
        self.found: dict[str, tuple[float, list[int]]] = {}
        caches = [each for each in gc.get_objects() if type(each).__name__ == "_lru_cache_wrapper"]
        self.kept = [each for each in caches if str(each.__module__).startswith("skdpsynth")]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        for each in self.kept:
            each.cache_clear()
        REACHED.clear()
        self.begun = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.found[nodeid] = time.process_time() - self.begun, sorted(REACHED)


def run_mutant(number: int, site: Site, batch: list[str], chosen: dict[str, dict[str, float]], most: float, copy: Path) -> dict:
    """Run tests against one mutant, in this process, which is a fork and ends with it: of some files only those that are chosen."""
    global ACTIVE
    import pytest

    ACTIVE = number
    if site.is_early:  # what is computed at import is computed again
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "") or "").startswith(str(copy)):
                del sys.modules[name]
    by, until = "", time.process_time() + most
    for file in batch:
        if not by and chosen.get(file, True) and time.process_time() < until:
            watch = Watch(until - time.process_time(), chosen.get(file))
            code = int(pytest.main([*PYTEST, file], plugins=[watch]))
            by = watch.failed or (f"exit {code}" if code not in (0, 2, 5) else "")
    return {"by": by, "reached": hasattr(mutated, "reached"), "number": hasattr(more, "number"), "changed": hasattr(more, "changed")}


def recorded(file: str, most: float) -> dict[str, tuple[float, list[int]]]:
    """Run the tests of a file without a mutant, in this process, which is a fork: test -> seconds, what it reaches."""
    global ACTIVE
    import pytest

    ACTIVE = RECORDING
    record = Record(most)
    pytest.main([*PYTEST, *(["--maxfail=0"] if TURNED else []), file], plugins=[record])
    assert TURNED or not record.failed, f"without a mutant {record.failed} fails; nothing can be told"
    return {test: each for test, each in record.found.items() if test not in record.failures}  # some fail in a copy, or in a fork


def forked(copy: Path, seconds: int, function: Callable[..., dict], *arguments: object) -> dict:
    """Return what a function returns in a fork of this process, or {"by": why there is nothing}."""
    out = copy / f"found-{os.getpid()}.json"
    out.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # of the processor's time, so that a busy machine kills no mutant
        log = os.open(copy / f"log-{os.getppid()}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            out.write_text(json.dumps(function(*arguments)))
        except BaseException as error:
            out.write_text(json.dumps({"by": f"{type(error).__name__}: {error}"}))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    if out.exists():
        return json.loads(out.read_text())
    is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU, signal.SIGPROF)
    return {"by": "no end" if is_late else "the process died"}


class Reach:
    """Which tests reach a site, found by running them once without a mutant; kept, until a source or a test changes."""

    def __init__(self, sites: list[Site], copy: Path, kept: Path, most: float) -> None:
        self.sites, self.copy, self.most = sites, copy, most
        shared = [path for place in ("skdpsynth", "tests") for path in sorted((copy / place).rglob("*.py")) if "test_" not in path.name]
        sources = [*(path.read_bytes() for path in shared), *(site.key.encode() for site in sites)]
        self.sources = hashlib.sha256(b"\0".join([*sources, *map(str.encode, PYTEST)])).hexdigest()
        self.kept, self.found = kept / "reach", {}
        self.kept.mkdir(exist_ok=True)

    def of_file(self, file: str) -> dict[str, tuple[float, list[int]]]:
        """Return test -> seconds, what it reaches."""
        if file not in self.found:
            name = hashlib.sha256((self.sources + file).encode() + (self.copy / file).read_bytes()).hexdigest()
            place = self.kept / f"{name}.json"
            if not place.exists():
                found = forked(self.copy, 2 * MOST_OF_FILE, recorded, file, MOST_OF_FILE)
                if TURNED and "by" in found:
                    print(f"{file} is left out: {found['by']}")
                    found = {}
                assert "by" not in found, f"{file}: {found['by']}"
                place.write_text(json.dumps(found))
            self.found[file] = json.loads(place.read_text())
        return self.found[file]

    def chosen(self, number: int, batch: list[str]) -> dict[str, dict[str, float]]:
        """Return, of each file, the tests that reach a site, with their seconds; what is computed at import is reached by any."""
        if self.sites[number].is_early:
            return {}
        return {file: {test: seconds for test, (seconds, reached) in self.of_file(file).items() if number in reached} for file in batch}


def tried(number: int, site: Site, batches: list[list[str]], reach: Reach) -> dict:
    """Run the tests of one mutant, those of the first files first, and return what came of it."""
    begun, all_found = time.monotonic(), {"by": "", "reached": False, "number": False, "changed": False}
    for batch in batches:
        chosen = reach.chosen(number, batch)
        if not site.is_early and not any(chosen.values()):
            continue
        found = forked(reach.copy, int(reach.most + 60), run_mutant, number, site, batch, chosen, reach.most, reach.copy)
        for name, before in all_found.items():
            all_found[name] = before or found.get(name, True)
        if found["by"]:
            break
    return {**all_found, "seconds": round(time.monotonic() - begun, 1)}


# ---- Which tests are the likeliest to fail.


def batches_of(site: Site, copy: Path, rooms: bool = True) -> list[list[str]]:
    """Return files of tests: those that are named like the module, those of its room that hold its laws."""
    room = site.path.split("/")[1]
    words = {word for word in re.split(r"[_/.]", site.path) if len(word) > 2} - {"skdpsynth", room}
    scores = {}
    for path in sorted((copy / "tests").rglob("test_*.py")):
        shared = len(words & set(re.split(r"[_/.]", path.stem))) + (path.parent.name == room)
        if shared > 1 or (shared and path.parent.name == "tests"):
            scores[str(path.relative_to(copy))] = shared
    own = sorted(scores, key=lambda file: -scores[file])[:3]
    named = [file for place, files in OWN.items() if place in site.path for file in files]
    beside = [file for place, files in BESIDE.items() if site.path.startswith(f"skdpsynth/{place}") for file in files]
    beside = [file for file in dict.fromkeys(beside) if file not in (*named, *own)]
    return [batch for batch in (named, own, beside) if batch]


# ---- All of them.


def all_sites(root: Path) -> list[Site]:
    """Return every site of the project."""
    files = sorted((root / "skdpsynth").rglob("*.py"))
    chosen = [path for path in files if str(path.relative_to(root)).startswith((*WHOLE, *ASKING)) and not SKIPPED.search(str(path))]
    return [site for path in chosen for site in sites_of(path, root)]


def turned_sites(root: Path, n_of_room: int) -> list[Site]:
    """Return as many sites to turn of each room, chosen by their texts."""
    rooms: dict[str, list[Site]] = {}
    for path in sorted((root / "skdpsynth").rglob("*.py")):
        rooms.setdefault(_room(str(path.relative_to(root))), []).extend(sites_of(path, root, _Turner))
    chosen = []
    for sites in rooms.values():
        chosen += sorted(sites, key=lambda site: hashlib.sha256(f"{site.short}#{site.place}".encode()).digest())[:n_of_room]
    return chosen


def tests_of_room(site: Site, copy: Path) -> list[list[str]]:
    """Return files of tests: those named like the module, all of its room, and those of no room."""
    room, first = _room(site.path), batches_of(site, copy)
    folder = copy / "tests" / {"frames": "domain", "tables": "domain", "duckdb": "statistics"}.get(room, room)
    seen = {file for batch in first for file in batch}
    for paths in (folder.glob("test_*.py"), (copy / "tests").glob("test_*.py")):
        first.append([file for path in sorted(paths) if (file := str(path.relative_to(copy))) not in seen])
    return [batch for batch in first if batch]


def _room(path: str) -> str:
    return path.split("/")[1].removesuffix(".py") if path.count("/") > 1 else "(root)"


def copied(to: Path) -> Path:
    """Copy what tests need into a folder of their own."""
    for name in ("skdpsynth", "tests", "docs", "benchmarks", "examples"):
        shutil.copytree(HERE / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "_build", "auto_examples", "generated"))
    for path in HERE.iterdir():
        if path.is_file():
            shutil.copy(path, to / path.name)
    return to


def report(sites: list[Site], found: dict[str, dict]) -> int:
    """Print how many were killed, room by room, and what survived; return how many did that nothing explains."""
    rooms: dict[str, Counter] = {}
    survived = []
    for site in sites:
        what = found.get(site.key)
        kind = _outcome(site, what)
        rooms.setdefault(_room(site.path), Counter())[kind] += 1
        if kind in ("survived", "unreached"):
            survived.append((site, kind))
    print(f"\n{'':16}{'mutants':>9}{'killed':>9}{'equivalent':>12}{'survived':>10}")
    for room, counts in [*rooms.items(), ("all", sum(rooms.values(), Counter()))]:
        left = counts["survived"] + counts["unreached"] + counts["untried"]
        print(f"{room:16}{counts['killed'] + counts['equivalent'] + left:9}{counts['killed']:9}{counts['equivalent']:12}{left:10}")
    for site, kind in survived:
        print(f"{kind}: {site.path}:{site.line}: {site.within}: {site.text}")
    return len(survived)


def _outcome(site: Site, what: dict | None) -> str:
    if site.is_equivalent:
        return "equivalent"
    if what is None:
        return "untried"
    if what["by"]:
        return "killed"
    if not what["reached"]:
        return "unreached"
    return "survived" if what["changed"] or what.get("number") else "no number"  # of numbers, only 0 and infinity were seen then


def main() -> int:
    """Try them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants whose place holds this regular expression")
    parser.add_argument("--turn", type=int, default=0, help="turn so many conditions and terms of each room, instead")
    parser.add_argument("--again", action="store_true", help="try what survived again")
    parser.add_argument("--narrow", action="store_true", help="only the first tests of each: quick, and more survive")
    parser.add_argument(
        "--most", type=float, default=60.0, help="seconds of the processor for each of the three groups of tests of a mutant"
    )
    parser.add_argument("--lane", choices=["quick", "day"], default="day", help="of which tests one must fail")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    parser.add_argument("--part", default="1/1", help="i/n: every n-th mutant, for several processes")
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder of what is kept between runs")
    asked = parser.parse_args()
    PYTEST.extend(["--lane", asked.lane])
    asked.kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        return _main(asked, copied(Path(folder)))


def _main(asked: argparse.Namespace, copy: Path) -> int:
    sites = turned_sites(copy, asked.turn) if asked.turn else all_sites(copy)
    TURNED.extend(site.is_condition for site in sites if asked.turn)
    tests_of = tests_of_room if asked.turn else batches_of
    wanted = [site for site in sites if re.search(asked.only, f"{site.path}:{site.line}:{site.within}")]
    if asked.list:
        for site in wanted:
            print(f"{site.path}:{site.line}: {site.within}: {site.text}")
        print(len(wanted))
        return 0
    part, parts = map(int, asked.part.split("/"))
    kept = asked.kept / "found.jsonl"
    found = {each["key"]: each for each in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    numbers = {site: number for number, site in enumerate(sites)}
    prepare(sites, sorted({file for site in wanted for batch in tests_of(site, copy) for file in batch}), copy)
    reach = Reach(sites, copy, asked.kept, asked.most)
    for number, site in enumerate(wanted):
        before = found.get(site.key)
        if (
            number % parts != part - 1
            or site.is_equivalent
            or (before and (_outcome(site, before) in ("killed", "no number") or not asked.again))
        ):
            continue
        what = tried(numbers[site], site, tests_of(site, copy)[: 1 if asked.narrow else None], reach)
        found[site.key] = {"key": site.key, **what}
        with kept.open("a") as file:
            file.write(json.dumps(found[site.key]) + "\n")
        by = what["by"].rpartition("/")[2][:90]
        print(
            f"{number + 1}/{len(wanted)} {_outcome(site, what):9} {site.path}:{site.line} {site.text[:60]!r} {what['seconds']} s {by}",
            flush=True,
        )
    return 1 if report(wanted, found) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # some libraries that tests import complain at length when they are unloaded
