"""The reference lists what the package exports."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import skdpsynth


def public_modules():
    """The packages, and rooms and modules without a leading underscore that say what they export."""
    names = [info.name for info in pkgutil.walk_packages(skdpsynth.__path__, "skdpsynth.")]
    public = [name for name in names if not any(part.startswith("_") for part in name.split("."))]
    return [module for module in map(importlib.import_module, ["skdpsynth", "skdpsynth_evidence", *public]) if hasattr(module, "__all__")]


API = Path(__file__).parents[1] / "docs" / "api.md"


def listed(text):
    """(module, name) of each line of the reference that lists one."""
    module = None
    for line in text.splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   ([\w.]+)", line):
            yield tuple(f"{module}.{match[1]}".rsplit(".", 1))


@pytest.mark.skipif(not API.exists(), reason="needs the source tree")
def test_all_that_modules_export_is_listed_in_the_reference_and_nothing_else():
    """Under one of its names: what the package exports itself need not be listed again where it is made."""
    names = set(listed(API.read_text(encoding="utf-8")))
    exported = {(module.__name__, name) for module in public_modules() for name in module.__all__ if not name.startswith("__")}
    assert sorted(names - exported) == []
    known = [getattr(importlib.import_module(module), name) for module, name in names]
    hidden = {
        (module, name)
        for module, name in exported - names
        if not any(getattr(importlib.import_module(module), name) is thing for thing in known)
    }
    assert sorted(hidden) == []


def test_reference_is_read_by_modules_and_names():
    text = ".. currentmodule:: a.b\n.. autosummary::\n   :toctree: x\n\n   One\n   c.two\n"
    assert list(listed(text)) == [("a.b", "One"), ("a.b.c", "two")]
