"""The extensions of the documentation, for its tests: absent from what is installed, so found beside this folder."""

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def extension(name):
    """A module of docs/_ext; tests are skipped without the source tree, or without what builds the documentation."""
    for needed in ("sphinx", "numpydoc"):
        pytest.importorskip(needed)
    path = DOCS / "_ext" / f"{name}.py"
    if not path.exists():
        pytest.skip("needs the source tree")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
