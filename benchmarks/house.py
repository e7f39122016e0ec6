"""The structure of the package, from its syntax trees: how long bodies are, and which rooms import which.

A body is counted without signature and docstring. A room is a folder or a module of the package; run-time imports count too.

    python benchmarks/house.py
"""

import ast
import sys
from pathlib import Path

import numpy as np

PACKAGE = Path(__file__).parents[1] / "skdpsynth"
TARGETS = {"median": 6, "90th percentile": 16, "longest": 40}


def bodies(tree):
    """Lines of each function, without signature and docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield body[-1].end_lineno - body[0].lineno + 1 if body else 0


def rooms(tree):
    """Rooms of the package that a file imports."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (name.split(".")[1] for name in names if name.startswith("skdpsynth."))


def circle(arrows):
    """Rooms that import each other around, if there are any: what is left when rooms that import nothing are taken away."""
    left = {room: set(others) for room, others in arrows.items()}
    while True:
        free = {room for room, others in left.items() if not others & left.keys()}
        if not free:
            return sorted(left)
        left = {room: others for room, others in left.items() if room not in free}


def main():
    files = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    lengths = np.array([length for tree in files.values() for length in bodies(tree)])
    found = {"median": np.median(lengths), "90th percentile": np.percentile(lengths, 90), "longest": lengths.max()}
    met = True
    for what, value in found.items():
        met &= bool(value <= TARGETS[what])
        print(f"body of a function, {what}: {value:g} lines, target <= {TARGETS[what]}: {'met' if value <= TARGETS[what] else 'MISSED'}")
    arrows: dict = {}
    for path, tree in files.items():
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room != "__init__":
            arrows.setdefault(room, set()).update(set(rooms(tree)) - {room})
    around = circle(arrows)
    print(f"{len(lengths)} functions, {len(arrows)} rooms, {sum(map(len, arrows.values()))} arrows, in a circle: {around or 'none'}")
    return 0 if met and not around else 1


if __name__ == "__main__":
    sys.exit(main())
