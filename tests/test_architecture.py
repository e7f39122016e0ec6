"""Who may import whom, read from the syntax trees, so that raw rows and noise stay in their rooms."""

import ast
import dataclasses
import functools
import inspect
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import skdpsynth

PACKAGE = Path(skdpsynth.__file__).parent
ROOT = Path(__file__).parents[1]


@functools.cache
def trees():
    """The syntax trees of the package by the names of their files."""
    return {path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def FILES(law):
    """Decorate a law of a file: one test holds every file to it, because to set up a test a file took longer than the law."""

    def test():
        broken = {}
        for path, tree in trees().items():
            try:
                law(path, tree)
            except AssertionError as error:
                broken[str(path)] = str(error)
        assert broken == {}

    test.__name__, test.__doc__ = law.__name__, law.__doc__
    return test


FLOORS = {
    13: {"__main__"},
    12: {"cli"},
    11: {"report", "ui"},
    10: {"auditing", "model_selection"},
    9: {"plotting", "testing"},
    8: {"synthesis"},
    7: {"decomposition", "continual"},
    6: {"fitting", "federated", "metrics"},
    5: {"statistics", "models"},
    4: {"measures", "tables"},
    3: {"domain"},
    2: {"_sklearn"},
    1: {"privacy", "frames"},
    0: {"duckdb"},
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
# What every room stands on. Of these files each imports only those before it.
GROUND = (
    *("_version", "exceptions", "_validation", "_text", "_progress", "_parallel"),
    *("_serialization", "_atomic_write", "persistence", "_sensitivity"),
)
# Public names of `domain` whose code stands above it, imported when they are asked for.
PUBLIC_FROM_ABOVE = {f"domain/{name}.py": {"tables"} for name in ("__init__", "_schema", "_linked_schema")}
# A file that is read may name a class of any room: all are imported then.
PUBLIC_FROM_ABOVE |= {"_serialization.py": {"decomposition", "federated", "model_selection", "synthesis"}}
# Where nothing can be released.
NO_PRIVACY = {"frames", "duckdb", "domain", "tables", "measures", "models", "statistics", "metrics", "federated"}
BEHIND_THE_DOOR = {"fitting", "continual"}  # the rooms that may open it; all others ask a Budget or a counter
OPTIONAL = {"cvxpy", "matplotlib", "pandas", "polars", "pyarrow", "dask", "distributed", "duckdb", "ibis", "yaml", "ot", "ortools"}
OPTIONAL |= {"dp_accounting", "jinja2", "click", "rich", "starlette", "uvicorn"}
OF_FRONTS = {"cli": {"click"}, "ui": {"starlette", "jinja2"}}  # what the files of a room are made of, beside its `__init__`
NOISE = {"laplace", "normal", "standard_normal", "multivariate_normal", "lognormal", "randn", "geometric", "exponential"}
NOISE |= {"standard_exponential", "gumbel", "logistic", "standard_t", "standard_cauchy", "poisson", "negative_binomial"}


def room_of(path):
    """The room of a file: the folder or the module right under the package."""
    return path.parts[0] if len(path.parts) > 1 else path.stem


def imports(tree, module_level=False):
    """Dotted names of all that a file imports; or only of what it imports when it is imported."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if module_level and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if not (module_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            nodes.extend(ast.iter_child_nodes(node))


def rooms_imported(path, tree):
    """Other rooms of the package that a file imports."""
    names = [name.split(".") for name in imports(tree)]
    return {name[1] for name in names if name[0] == "skdpsynth" and len(name) > 1} - {room_of(path)}


def may_import(room, other):
    if other in GROUND:
        return room not in GROUND or GROUND.index(other) < GROUND.index(room)
    if room in GROUND:
        return False
    if other == "privacy" and room in NO_PRIVACY:
        return False
    if room == "privacy":
        return False
    return FLOOR_OF[other] < FLOOR_OF[room]


def _is_not_exceptions(path, tree):
    assert path != Path("exceptions.py")


def test_law_names_the_files_that_break_it_and_no_other():
    with pytest.raises(AssertionError, match=r"exceptions\.py") as caught:
        FILES(_is_not_exceptions)()
    assert "persistence.py" not in str(caught.value)


ALONE = {"duckdb": {"numpy", "narwhals"}}  # rooms that could be packages of their own, and all that they import from elsewhere


@FILES
def test_rooms_that_stand_alone_import_nothing_of_the_package(path, tree):
    if (room := room_of(path)) in ALONE:
        others = {name.split(".")[0] for name in imports(tree) if not name.startswith(f"skdpsynth.{room}.")}
        assert others <= ALONE[room] | sys.stdlib_module_names


FRONT_OF_FEDERATED = {"statistics", "tables", "domain", "frames"}


@FILES
def test_federated_sites_know_tables_and_statistics_alone(path, tree):
    """No estimator, plan or measure: so the room could be a package of its own."""
    if room_of(path) == "federated":
        assert rooms_imported(path, tree) - {*GROUND} <= FRONT_OF_FEDERATED


def test_every_file_belongs_to_a_room_with_a_floor():
    assert {room_of(path) for path in trees()} <= {*FLOOR_OF, *GROUND, "__init__"}


@pytest.mark.parametrize(
    ("room", "other"),
    [
        *(("measures", "privacy"), ("metrics", "privacy"), ("statistics", "privacy"), ("domain", "measures"), ("statistics", "metrics")),
        *(("statistics", "decomposition"), ("fitting", "decomposition"), ("decomposition", "synthesis"), ("exceptions", "_sklearn")),
        *(("models", "privacy"), ("domain", "privacy"), ("privacy", "domain"), ("models", "fitting"), ("synthesis", "testing")),
        *(("models", "statistics"), ("models", "synthesis"), ("statistics", "models"), ("measures", "models")),
        *(("persistence", "domain"), ("persistence", "synthesis"), ("_validation", "persistence"), ("persistence", "_sensitivity")),
        *(("frames", "domain"), ("domain", "tables")),
        *(("plotting", "model_selection"), ("auditing", "report"), ("model_selection", "auditing"), ("report", "cli"), ("ui", "cli")),
    ],
)
def test_rules_forbid_what_they_should(room, other):
    assert not may_import(room, other)


@FILES
def test_imports_go_down_only(path, tree):
    if path != Path("__init__.py"):
        room, up = room_of(path), PUBLIC_FROM_ABOVE.get(path.as_posix(), set())
        assert not up & {name.split(".")[1] for name in imports(tree, module_level=True) if name.startswith("skdpsynth.")}
        assert [other for other in rooms_imported(path, tree) - up if not may_import(room, other)] == []


UNSEEN = {"__import__", "eval", "exec", "import_module", "load_module", "module_from_spec", "run_module", "run_path"}


def names_at_run_time(tree):
    """Lines by which a file could import, or reach, a module whose name the laws above cannot read."""
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", None)) if isinstance(node, ast.Name | ast.Attribute) else None
        if name in UNSEEN or (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules"):
            yield f"{ast.unparse(node)} in line {node.lineno}"
    yield from (name for name in imports(tree) if name.rpartition(".")[2] in UNSEEN or name == "sys.modules")


@FILES
def test_no_file_imports_by_a_name_that_is_made_at_run_time(path, tree):
    """Else an import could go up unseen: as long as a list of names decided where classes live, it did."""
    assert list(names_at_run_time(tree)) == []


@pytest.mark.parametrize(
    "line",
    [
        *("import importlib; importlib.import_module(name)", "from importlib import import_module", "__import__(name)"),
        *("import sys; sys.modules[name]", "from sys import modules", "exec(text)", "import runpy; runpy.run_module(name)"),
    ],
)
def test_imports_at_run_time_are_seen(line):
    assert list(names_at_run_time(ast.parse(line)))


@FILES
def test_no_file_imports_the_package_as_a_whole(path, tree):
    assert "skdpsynth" not in set(imports(tree))


@FILES
def test_rooms_are_entered_by_their_front_door(path, tree):
    """A private module is imported only within its room."""
    for name in imports(tree):
        parts = name.split(".")
        if parts[0] == "skdpsynth" and len(parts) > 2 and parts[1] != room_of(path):
            assert parts[1] in GROUND or not parts[2].startswith("_"), name


@FILES
def test_only_one_file_imports_private_names_of_scikit_learn(path, tree):
    if path != Path("_sklearn.py"):
        private = [name for name in imports(tree) if name.startswith("sklearn.") and any(part.startswith("_") for part in name.split("."))]
        assert private == []


def calls_of(tree, method):
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == method]


@FILES
def test_private_data_become_public_only_in_the_rooms_of_the_mechanisms(path, tree):
    if room_of(path) not in BEHIND_THE_DOOR | {"privacy"}:
        assert calls_of(tree, "release") == []


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("params", [{}, {"strategy": "scores"}])
def test_what_a_fitted_table_synthesizer_samples_from_lives_in_models_which_knows_no_privacy(params):
    """By its kind: whatever it keeps that has ``sample(n_samples, rng)``, there or inside."""
    model = skdpsynth.LatentFactorSynthesizer({0: (0.0, 1.0), 1: [0, 1], 2: [0, 1]}, **params).fit(np.zeros((40, 3)))
    kept = list(vars(model).values())
    kept += [inner for thing in kept if dataclasses.is_dataclass(thing) for inner in vars(thing).values()]
    kept += [inner for thing in kept if isinstance(thing, tuple) for inner in thing]
    samplers = [
        type(thing) for thing in kept if hasattr(thing, "sample") and list(inspect.signature(thing.sample).parameters)[1:2] == ["rng"]
    ]
    assert samplers
    assert all(sampler.__module__.startswith("skdpsynth.models.") for sampler in samplers)
    assert not [path for path, tree in trees().items() if room_of(path) == "models" and "privacy" in rooms_imported(path, tree)]


def test_mechanisms_do_release():
    assert {room_of(path) for path, tree in trees().items() if calls_of(tree, "answer")} >= {"synthesis", "decomposition", "fitting"}


ROOMS_WITH_A_PLAN = {"fitting", "synthesis", "decomposition"}
PUBLIC = {"facts", "plan", "self", "_counted"}  # their n_samples is None where it is private
READ_ROWS = {"total", "total_and_kept"}  # calls that give an exact statistic
MAY_COUNT = {  # file and function that read an exact number of rows, or an exact statistic, and why
    ("fitting/_fit.py", "_open_rows"): "before the plan: the facts say the number only where the relation makes it public",
    ("fitting/_budget.py", "buy"): "asks the door for a noisy number",
    ("fitting/_budget.py", "buy_bounds"): "how many counts there are, not what they are",
    ("decomposition/_pca.py", "_sum_rows"): "room in memory",
    ("decomposition/_pca.py", "_shrink_ball"): "room in memory",
    ("decomposition/_pca_api.py", "inverse_transform"): "not of the fit",
    ("decomposition/_pca_api.py", "_scores"): "not private, as it says",
    ("synthesis/_base.py", "score"): "not private, as it says",
    ("synthesis/_latent_factor.py", "open_prior"): "a public table",
    ("synthesis/_latent_marginals.py", "_count_prior"): "a public table",
    ("synthesis/_intervals.py", "_release_again"): "rows of a model",
    ("synthesis/_private_measure.py", "_try_partition"): "made-up rows",
    ("synthesis/_base.py", "_fill_batches"): "synthetic rows",
    ("synthesis/_subspace.py", "lift"): "synthetic rows",
    ("synthesis/_subspace.py", "__call__"): "one row at a time: it makes room for a chunk",
    ("synthesis/_online.py", "_first_rows_of_units"): "as many labels as rows, or an error before the plan",
    ("synthesis/_online.py", "_take_table"): "rows are time: a tick is one",
    ("synthesis/_online_blocks.py", "write"): "one row, or many: only how they are written",
    ("synthesis/_online_blocks.py", "with_new_rows"): "rows are time",
    ("synthesis/_online_blocks.py", "_add_rows"): "room in memory",
    ("synthesis/_online_blocks.py", "_release_block"): "rows are time, or None for those of a tick; and which rows of the buffer are read",
    ("synthesis/_online_blocks.py", "_check_loaded"): "a private file is checked",
    ("synthesis/_online_blocks.py", "__getstate__"): "a private file is written",
    ("synthesis/_online_tree.py", "with_new_rows"): "rows are time",
}


def counts_rows(node, exact):
    """Whether an expression is a number of private rows, or the exact values of a statistic; `check_int64` names those of a function."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        held = node.args and (ast.unparse(node.args[0]) in {"X", "rows", "table", "chunk", "part"} or calls_of(node.args[0], "collect"))
        return (name in {"len", "n_rows_of"} and bool(held)) or "RowCount" in name.split(".")
    if not isinstance(node, ast.Attribute):
        return False
    of = ast.unparse(node.value)
    if node.attr in {"n_samples", "n_open"}:
        return of.rpartition(".")[2] not in PUBLIC or node.attr == "n_open"
    if node.attr == "shape":
        return of in {"X", "rows", "table", "chunk"}
    return node.attr in {"counts", "values"} and (of in exact or is_exact(node.value) or calls_of(node.value, "query") != [])


def is_exact(node):
    """Whether an expression asks for a statistic of rows."""
    calls = (call for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(ast.unparse(call.func).rpartition(".")[2] in READ_ROWS for call in calls)


def reads_of_rows(tree):
    """Functions that read how many rows there are, with the expression, unless it is written to."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            bound = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and is_exact(node.value)]
            exact = {
                ast.unparse(name) for node in bound for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }
            for node in ast.walk(function):
                if counts_rows(node, exact) and not isinstance(getattr(node, "ctx", None), ast.Store):
                    yield function.name, ast.unparse(node)


@pytest.mark.must
def test_exact_numbers_of_rows_are_not_read_after_the_plan_but_where_they_are_public():
    found = {}
    for path, tree in trees().items():
        if room_of(path) in ROOMS_WITH_A_PLAN:
            for function, expression in reads_of_rows(tree):
                found.setdefault((path.as_posix(), function), []).append(expression)
    assert {place: said for place, said in found.items() if place not in MAY_COUNT} == {}
    assert [place for place in MAY_COUNT if place not in found] == []  # a reason that nobody needs


@pytest.mark.parametrize(
    "line",
    [
        *("self.n = rows.n_samples", "self.n = len(rows)", "n = n_rows_of(X)", "n = len(rows.map(f).collect())", "n, d = X.shape"),
        *("n = total(rows, RowCount.over()).n_samples", "budget.number_of_rows(RowCount(7))", "n = state.n_open"),
        *(
            "exact = total(rows, f)\n    n = exact.counts.sum()",
            "n = total(rows, f).counts.sum()",
            "n = counts.query(relation, 0).values[0]",
        ),
    ],
)
def test_exact_numbers_of_rows_are_seen(line):
    assert list(reads_of_rows(ast.parse(f"def f():\n    {line}")))


@FILES
def test_fit_is_written_once(path, tree):
    """`PrivateEstimator.fit` is the only one of the private estimators; the encoder's learns nothing of rows."""
    found = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "fit"]
    assert len(found) == (str(path) in {"fitting/_fit.py", "tables/_encoder.py"})


@FILES
def test_no_body_is_over_forty_lines(path, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            assert not body or body[-1].end_lineno - body[0].lineno < 40, node.name


@FILES
def test_no_float_noise_is_used(path, tree):
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {name.rpartition(".")[2] for name in imports(tree) if name.startswith(("numpy", "scipy.stats", "random."))}
    assert (attributes | imported) & NOISE == set()


@pytest.mark.parametrize("folder", ["benchmarks", "examples"])
def test_scripts_import_what_the_package_has(folder):
    """So what is renamed is renamed there, too."""
    scripts = sorted((Path(__file__).parents[1] / folder).rglob("*.py"))
    if not scripts:
        pytest.skip("needs the source tree")
    pytest.importorskip("click")  # of which the command line is made
    names = {name for script in scripts for name in imports(ast.parse(script.read_text(encoding="utf-8"))) if name.startswith("skdpsynth.")}
    places = {name: name.rpartition(".") for name in sorted(names)}
    missing = [name for name, (owner, _, what) in places.items() if not hasattr(import_module(owner), what) and find_spec(name) is None]
    assert missing == []


@FILES
def test_properties_that_are_kept_hold_no_lock(path, tree):
    """That of functools holds one in Python 3.11, for which a forked child would wait for ever."""
    assert path.name == "_parallel.py" or "functools.cached_property" not in imports(tree)


@FILES
def test_global_generator_of_numpy_is_not_used(path, tree):
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and getattr(node.value, "attr", None) == "random")
    used = {node.attr for node in attributes if ast.unparse(node.value) == "np.random"}
    assert used <= {"default_rng", "Generator", "RandomState", "PCG64", "SeedSequence"}
    assert not [name for name in imports(tree) if name == "random" or name.startswith(("random.", "numpy.random"))]


@FILES
def test_optional_and_slow_packages_are_imported_where_used(path, tree):
    # A command is a function that click has decorated; only `main` imports these files, where click is.
    allowed = OF_FRONTS.get(room_of(path), set()) if path.name != "__init__.py" else set()
    assert {name.split(".")[0] for name in imports(tree, module_level=True)} & OPTIONAL <= allowed


def test_only_the_command_line_itself_imports_what_is_made_of_click():
    importers = {path for path, tree in trees().items() if any(name.startswith("skdpsynth.cli._") for name in imports(tree))}
    assert {room_of(path) for path in importers} == {"cli"}
    assert not list(filter(lambda name: name.startswith("skdpsynth.cli"), imports(trees()[Path("cli/__init__.py")], module_level=True)))


def test_importing_the_package_loads_none_of_the_slow_ones():
    # scikit-learn may load pandas itself, which costs us nothing more.
    script = (
        "import sys, sklearn.base, sklearn.utils; before = set(sys.modules); from skdpsynth import *; print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert "skdpsynth.privacy" in loaded
    assert loaded & OPTIONAL == set()


def test_tests_name_private_places_in_one_list():
    """`internals.py` finds what it is asked for wherever it is, so a file may move."""
    private = re.compile(r"skdpsynth(\.\w+)*\._[a-z]")
    likely = re.compile(private.pattern + r"|\bimport[\s(]+(\w+[,\s]+)*_[a-z]")
    found = {}
    for path in Path(__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "internals.py" and likely.search(text):
            tree = ast.parse(text)
            named = {*imports(tree), *(node.args[0].value for node in ast.walk(tree) if _replaces_by_name(node))}
            if named := set(filter(private.match, named)):
                found[path.name] = named
    assert found == {}


def _replaces_by_name(node):
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr" and bool(node.args)
    return called and isinstance(node.args[0], ast.Constant)


def texts():
    """The files of the project that are text, without what tools have made."""
    folders = [ROOT / name for name in ("skdpsynth", "tests", "docs", "examples", "benchmarks")]
    made = {"__pycache__", "_build", "auto_examples", "generated"}
    paths = [*(path for folder in folders for path in folder.rglob("*")), *ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    suffixes = {".py", ".md", ".rst", ".toml", ".txt", ".cff", ".yml", ".yaml", ".cfg", ".ini", ".html", ".ipynb", ""}
    return sorted(path for path in paths if path.is_file() and path.suffix in suffixes and not made & set(path.parts))


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")
def test_no_file_holds_a_path_of_somebodys_machine():
    personal = re.compile(r"(?<![\w./])/(?:" + "|".join(["home", "Users", "root", "mnt", "work", "tmp", "private"]) + r")/\w|\b[A-Z]:\\\w")
    found = [str(path.relative_to(ROOT)) for path in texts() if personal.search(path.read_text(encoding="utf-8", errors="replace"))]
    assert found == []
    assert personal.search(" /" + "home/somebody")
