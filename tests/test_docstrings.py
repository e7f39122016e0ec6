"""What the docstrings say of parameters is what the signatures say."""

import ast
import importlib
import inspect
import pkgutil
import re
from itertools import pairwise
from pathlib import Path

import pytest

import skdpsynth


def public_modules():
    """The package, and its rooms and modules without a leading underscore that say what they export."""
    names = [info.name for info in pkgutil.walk_packages(skdpsynth.__path__, "skdpsynth.")]
    public = [name for name in names if not any(part.startswith("_") for part in name.split("."))]
    return [module for module in map(importlib.import_module, ["skdpsynth", *public]) if hasattr(module, "__all__")]


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
    hidden = {(module, name) for module, name in exported - names if not any(_of(module, name) is thing for thing in known)}
    assert sorted(hidden) == []


def _of(module, name):
    return getattr(importlib.import_module(module), name)


def test_reference_is_read_by_modules_and_names():
    text = ".. currentmodule:: a.b\n.. autosummary::\n   :toctree: x\n\n   One\n   c.two\n"
    assert list(listed(text)) == [("a.b", "One"), ("a.b.c", "two")]


def callables():
    """Name -> public class, function or public method of such a class; exceptions are raised, not called."""
    found = {}
    for exported in (getattr(module, name) for module in public_modules() for name in module.__all__):
        if inspect.isclass(exported) and not issubclass(exported, Exception):
            methods = [method for name, method in inspect.getmembers(exported, inspect.isroutine) if not name.startswith("_")]
        else:
            methods = []
        for thing in [exported, *methods]:
            inner = inspect.unwrap(getattr(thing, "__func__", thing))
            if callable(inner) and (getattr(inner, "__module__", None) or "").startswith("skdpsynth"):
                found[f"{inner.__module__}.{inner.__qualname__}"] = thing
    return {name: thing for name, thing in found.items() if not (inspect.isclass(thing) and issubclass(thing, Exception))}


def entries(thing, *sections):
    """Name -> what stands after its colon, in the first of these numpydoc sections that the docstring has."""
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    titles = [i for i, under in enumerate(lines[1:]) if re.fullmatch("-{3,}", under)]
    for section in sections:
        for start, end in pairwise([*titles, len(lines)]):
            if lines[start] == section:
                found = [line.partition(" : ") for line in lines[start + 2 : end] if line and not line.startswith(" ")]
                return {name: rest for names, _, rest in found for name in names.strip().split(", ")}
    return None


def defaults(thing):
    """Name -> default, for the parameters that a caller names."""
    parameters = inspect.signature(thing).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


CALLABLES = callables()


def each(law):
    """Decorate a law of a docstring: one test holds all of them to it, because to set up a test for each took longer than the law."""

    def test():
        broken = {}
        for name, thing in CALLABLES.items():
            try:
                law(thing)
            except AssertionError as error:
                broken[name] = str(error)
        assert broken == {}

    test.__name__, test.__doc__ = law.__name__, law.__doc__
    return test


def test_walk_finds_the_estimators_the_functions_and_their_methods():
    assert {
        "skdpsynth.decomposition._pca.PrivatePCA",
        "skdpsynth.fitting._fit.PrivateEstimator.fit",
        "skdpsynth.synthesis._base.PrivateSynthesizer.sample",
        "skdpsynth.metrics._wasserstein.wasserstein_distance",
        "skdpsynth.domain._box.Box.from_bounds",
        "skdpsynth.privacy._accountant.PrivacyAccountant.release",
    } <= set(CALLABLES)


@each
def test_docstring_documents_every_parameter_and_invents_none(thing):
    # A frozen record lists its fields as attributes; a function of one or two parameters may say all in its sentence.
    documented = entries(thing, "Parameters", "Attributes") if inspect.isclass(thing) else entries(thing, "Parameters")
    expected = set(defaults(thing))
    if documented is None:
        assert thing.__doc__
        assert len(expected) <= (0 if inspect.isclass(thing) else 2)
    elif inspect.isclass(thing) and entries(thing, "Parameters") is None:
        assert expected <= set(documented)
    else:
        assert {name for name in documented if not name.startswith("*")} == expected


def stated_defaults(thing):
    """Name -> the text after ``default=``, for the documented parameters that have one."""
    matches = {name: re.search("default=(.+)$", rest) for name, rest in (entries(thing, "Parameters") or {}).items()}
    return {name: match.group(1) for name, match in matches.items() if match}


@each
def test_default_in_the_docstring_is_the_default_of_the_signature(thing):
    stated = {name: ast.literal_eval(text) for name, text in stated_defaults(thing).items()}
    assert stated == {name: defaults(thing)[name] for name in stated}


@pytest.mark.parametrize("cls", [thing for thing in CALLABLES.values() if inspect.isclass(thing) and entries(thing, "Parameters")])
def test_docstring_of_a_class_states_every_default(cls):
    assert set(stated_defaults(cls)) == {name for name, value in defaults(cls).items() if value is not inspect.Parameter.empty}


@each
def test_every_docstring_starts_with_one_sentence(thing):
    first = inspect.cleandoc(thing.__doc__).split("\n\n")[0]
    assert first.endswith(".")


PAGES = ["federated", "internet_scale", "large_data", "plots", "private_facts", "schemas", "sharp_edges", "tables"]


@pytest.mark.parametrize("page", [*(f"docs/{name}.md" for name in PAGES), "README.md", "CHANGELOG.md"])
def test_lines_of_prose_have_at_most_100_characters(page):
    text = (API.parents[1] / page).read_text(encoding="utf-8")
    prose = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE).splitlines()
    assert [line for line in prose if len(line) > 100 and not line.startswith(("|", "!"))] == []
