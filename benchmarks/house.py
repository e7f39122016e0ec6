"""The structure of the package: the files and functions that one fit enters, the size of its rooms, and the imports between them.

A fit and a sample of a plain array are run to count files and functions (`sys.setprofile`); all other counts are from the syntax trees. A
body is counted without signature and docstring. A room is a folder or a module of the package; run-time imports count too.

    python benchmarks/house.py
"""

import ast
import re
import sys
import tokenize
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

import skdpsynth
from skdpsynth.domain import Schema
from skdpsynth.synthesis import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism
from skdpsynth.tables import start_table

PACKAGE = Path(skdpsynth.__file__).parent
BODIES = {"median": 6, "90th percentile": 16, "longest": 35}
ENTERED = {"PrivateMeasureMechanism": (25, 150), "PrivatePCA": (26, 190), "LatentFactorSynthesizer": (42, 300)}  # files, functions of a fit
OPENED = 10  # files of opening a table
SIZES = {"lines": 40_000, "lines of code": 23_000, "files": 160}
MOST_ANY, TEST_LINES, DOCSTRING_LINES = 100, 27_000, 150
ANYTHING = {"Table", "Column", "Cell", "Unit"}  # other names of Any, for what users may really pass
REGISTERED = {"decomposition", "federated", "model_selection", "synthesis"}  # whose classes may be in a file that is read
FROM_ABOVE = {"tables"}  # which `domain` imports when `Schema.check`, `Findings` or `MixedTypeEncoder` are asked for: public names of its
DIALECT = re.compile(r"(?:^|[.:;] |\"\"\"|\n *# )(?:Of|What|Whoever) [a-z]", re.M)  # a sentence that begins so
PARTICIPLE = re.compile(r"_?([a-z]+ed|told|shown|kept|met|given|found|drawn|made|known|held|seen|taken|cut|put|sent|built|bought|written)$")


def trees():
    """The syntax trees of the package by path."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def functions(tree):
    """All functions of a file."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_property(function):
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def body_length(function):
    """Lines of a function without signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def imported_rooms(tree):
    """Rooms of the package that a file imports."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (name.split(".")[1] for name in names if name.startswith("skdpsynth."))


def imported_files(path, tree, files):
    """Files of the package that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skdpsynth":
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                place = PACKAGE.parent / Path(*name.split("."))
                yield from (each for each in (place.with_suffix(".py"), place / "__init__.py") if each in files and each != path)


def circle(arrows):
    """What imports each other around: what is left when all that imports nothing, or is imported by nothing, is taken away."""
    left = {each: set(others) & arrows.keys() for each, others in arrows.items()}
    while True:
        targets = set().union(*left.values()) if left else set()
        ends = {each for each, others in left.items() if not others & left.keys() or each not in targets}
        if not ends:
            return sorted(left)
        left = {each: others - ends for each, others in left.items() if each not in ends}


def code_lines(path):
    """Lines of a file that hold code: neither blank, nor a comment, nor a docstring."""
    lines, is_statement_start = set(), True
    passed = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in passed:
                continue
            if not (token.type == tokenize.STRING and is_statement_start):
                lines.update(range(token.start[0], token.end[0] + 1) if token.type != tokenize.NEWLINE else ())
            is_statement_start = token.type == tokenize.NEWLINE
    return len(lines)


def entered(call):
    """Return (files, functions, depth of the stack) of the package that a call enters."""
    files, codes, depth, deepest = set(), set(), 0, 0

    def watch(frame, event, argument):
        nonlocal depth, deepest
        if not frame.f_code.co_filename.startswith(str(PACKAGE)) or event not in ("call", "return"):
            return
        if event == "return":
            depth -= 1
            return
        depth += 1
        deepest = max(deepest, depth)
        if frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len(files), len(codes), deepest


def fits():
    """Return by name a fit, and a sample, of a plain array."""
    rows = np.random.default_rng(0).random((500, 4))
    made = {
        "PrivatePCA": (skdpsynth.PrivatePCA(2, bounds=(0, 1)), rows),
        "PrivateMeasureMechanism": (PrivateMeasureMechanism(bounds=(0, 1)), rows[:, :2]),
        "SignedMeasureMechanism": (SignedMeasureMechanism(bounds=(0, 1), n_cells=64), rows[:, :2]),
        "LowDimSynthesizer": (LowDimSynthesizer(2, bounds=(0, 1)), rows),
        "LatentFactorSynthesizer": (LatentFactorSynthesizer(bounds=(0, 1)), rows),
    }
    for name, (estimator, X) in made.items():
        estimator.fit(X)  # lazy imports are over
        yield f"{name}.fit", lambda estimator=estimator, X=X: estimator.fit(X)
        if hasattr(estimator, "sample"):
            estimator.sample(10)
            yield f"{name}.sample", lambda estimator=estimator: estimator.sample(10)


class Reader(BaseEstimator):
    """An estimator that opens tables, and does nothing else."""

    schema, bounds = Schema({"age": (0, 99), "sex": ["f", "m"]}), None


def opening():
    """Open a data frame by a schema: the walk from a table to its rows."""
    import pandas as pd

    frame, reader = pd.DataFrame({"age": np.arange(50) % 80, "sex": ["f", "m"] * 25}), Reader()
    start_table(reader, frame)
    return lambda: start_table(reader, frame)


def table_of_rooms(files):
    """Print files, lines and code of each room; return the sums."""
    rooms: dict = {}
    for path in files:
        rooms.setdefault(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), []).append(path)
    folders = {room: paths for room, paths in rooms.items() if (PACKAGE / room).is_dir()}
    folders["top level"] = [path for room, paths in rooms.items() if room not in folders for path in paths]
    print(f"{'room':18} {'files':>6} {'lines':>7} {'code':>7} {'functions':>10}")
    sums = dict.fromkeys(SIZES, 0)
    for room, paths in sorted(folders.items(), key=lambda each: -len(each[1])):
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        code, number = sum(map(code_lines, paths)), sum(len(functions(files[path])) for path in paths)
        print(f"{room:18} {len(paths):6d} {lines:7d} {code:7d} {number:10d}")
        sums = {"lines": sums["lines"] + lines, "lines of code": sums["lines of code"] + code, "files": sums["files"] + len(paths)}
    beside = [path.read_text(encoding="utf-8") for path in (PACKAGE.parent / "skdpsynth_evidence").glob("*.py")]
    print(f"beside the package: skdpsynth_evidence, {sum(len(text.splitlines()) for text in beside)} lines")
    return sums


def names_of_any(trees):
    """Return the names that the package gives to Any."""
    names = set()
    for tree in trees.values():
        for node in tree.body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
            if targets and isinstance(node.value, ast.Name) and node.value.id == "Any":
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def dialect(trees):
    """Return how many sentences of docstrings, comments and messages begin with Of, What or Whoever."""
    return sum(len(DIALECT.findall(path.read_text(encoding="utf-8"))) for path in trees)


def report(what, value, target):
    """Print a figure beside its target; return whether it is met."""
    print(f"{what}: {value:g}, target <= {target:g}: {'met' if value <= target else 'MISSED'}")
    return bool(value <= target)


def main():
    warnings.simplefilter("ignore")
    files = trees()
    sums = table_of_rooms(files)
    every = [function for tree in files.values() for function in functions(tree)]
    arguments = [
        argument for function in every for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    ]
    annotated = [ast.unparse(argument.annotation) for argument in arguments if argument.annotation is not None]
    of_any = {"Any", *names_of_any(files)} - ANYTHING
    n_any = sum(name in of_any for name in annotated)
    # A property is an adjective, as `closed` of a file; `read` is a verb, too.
    participles = sum(bool(PARTICIPLE.match(function.name)) for function in every if not is_property(function))
    print(f"{len(every)} functions, {len(annotated)} annotated parameters")
    lengths = np.array(list(map(body_length, every)))
    bodies = {"median": np.median(lengths), "90th percentile": np.percentile(lengths, 90), "longest": lengths.max()}
    met = [report(f"body of a function, {what}", value, BODIES[what]) for what, value in bodies.items()]
    met += [report(f"{what} of the package", value, SIZES[what]) for what, value in sums.items()]
    met.append(report("functions that are bare participles", participles, 0))
    met.append(report("parameters typed Any, or by another name of it", n_any, MOST_ANY))
    met.append(report("sentences that begin with Of, What or Whoever", dialect(files), 0))
    tests = (PACKAGE.parent / "tests").rglob("*.py")
    met.append(report("lines of tests", sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests), TEST_LINES))
    longest = max(len((getattr(skdpsynth, name).__doc__ or "").splitlines()) for name in skdpsynth.__all__ if name[0].isupper())
    met.append(report("lines of the longest docstring of an estimator", longest, DOCSTRING_LINES))
    for name, call in fits():
        n_files, n_functions, depth = entered(call)
        print(f"{name} of an array: {n_files} files, {n_functions} functions, {depth} deep")
        estimator, _, method = name.partition(".")
        if method == "fit" and estimator in ENTERED:
            for what, value, most in zip(("files", "functions"), (n_files, n_functions), ENTERED[estimator], strict=True):
                met.append(report(f"{what} of {name}", value, most))
    met.append(report("files of opening a table", entered(opening())[0], OPENED))
    room_arrows: dict = {}
    for path, tree in files.items():
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            room_arrows.setdefault(room, set()).update(set(imported_rooms(tree)) - {room})
    room_arrows["domain"] -= FROM_ABOVE
    room_arrows["_serialization"] -= REGISTERED
    # A face (`__init__`) imports its files, and they do not import it: circles are those among the others.
    arrows = {path: set(imported_files(path, tree, files)) for path, tree in files.items() if path.name != "__init__.py"}
    around = [circle(room_arrows), [str(path.relative_to(PACKAGE)) for path in circle(arrows)]]
    print(f"in a circle: rooms {around[0] or 'none'}; files {around[1] or 'none'}")
    return 0 if all(met) and not any(around) else 1


if __name__ == "__main__":
    sys.exit(main())
