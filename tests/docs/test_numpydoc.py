"""Docstrings pass numpydoc's validation, but for a stated list of its codes."""

import ast
import importlib
import inspect
import re

import pytest
from estimators import all_estimators
from extensions import DOCS, extension

validate = pytest.importorskip("numpydoc.validate").validate
NumpyDocString = pytest.importorskip("numpydoc.docscrape").NumpyDocString

EXCLUDED = {
    "EX01": "an example stands where it helps: a method is shown in the example of its class",
    "ES01": "one sentence may say it all",
    "RT02": "what is returned has a name, as in scikit-learn",
    "PR07": "a name, a type and a shape may say it all",
    "RT03": "the same",
    "YD01": "the same as RT01, for generators",
}
OF_METHODS = {"SA01": "its class has the section"}
OF_SENTENCES = {
    "PR01": "a docstring of prose only names its parameters, if any, in its sentences",
    "RT01": "it says Return in its first sentence, or has no sections at all",
}
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "Examples")


def targets():
    """Full name -> object, of all that the reference lists and its public members of this package."""
    found = {}
    api_pages = extension("api_pages")
    for name in api_pages.listed(DOCS / "api.md"):
        module, _, attribute = name.rpartition(".")
        thing = getattr(importlib.import_module(module), attribute)
        found[name] = thing
        properties, methods = api_pages.members(thing) if inspect.isclass(thing) else ([], [])
        for member in [*properties, *methods]:
            found[f"{name}.{member}"] = inspect.getattr_static(thing, member)
    return found


def excused(code, said, thing, is_member):
    """Whether a code is no fault of a docstring."""
    is_class, text = inspect.isclass(thing), inspect.getdoc(thing) or ""
    if code in EXCLUDED or (code in OF_METHODS and is_member):
        return True
    if code == "GL08":  # what overrides a member of a base has its docstring
        return is_member and bool(text)
    if code == "PR01" and is_class:  # what callers do not make themselves has attributes for parameters
        fields = [name for entry in NumpyDocString(text)["Attributes"] for name in entry.name.split(", ")]
        return set(re.findall(r"'(\w+)'", said)) <= {"message", *fields}
    if code == "PR02":
        return said == "Unknown parameters {'cls'}"  # numpydoc takes the first parameter of a decorator for that of a class method
    prose = not any(f"\n{section}\n---" in text for section in SECTIONS)
    returns = re.search(r"\breturn", text.split("\n\n")[0], flags=re.IGNORECASE)
    return not is_class and code in OF_SENTENCES and bool(prose or (code == "RT01" and returns))


def faults(name, thing, is_member):
    """The faults that numpydoc finds and that nothing excuses."""
    return [(code, said) for code, said in validate(name)["errors"] if not excused(code, said, thing, is_member)]


def test_docstrings_are_clean():
    things = targets()
    members = {name for name in things if name.rpartition(".")[0] in things}
    found = {name: faults(name, thing, name in members) for name, thing in things.items()}
    assert {name: listed for name, listed in found.items() if listed} == {}


def test_a_fault_would_be_found(monkeypatch):
    from skdpsynth.privacy import Unit

    monkeypatch.setattr(Unit, "__doc__", "no capital and no full stop")
    assert {"SS02", "SS03", "SA01", "PR01"} <= {code for code, _ in faults("skdpsynth.privacy.Unit", Unit, False)}


def test_every_class_and_function_says_what_to_see_also():
    things = targets()
    alone = [name for name in things if name.rpartition(".")[0] not in things]
    assert len(alone) > 80
    assert [name for name in alone if "See Also\n--------" not in inspect.getdoc(things[name])] == []


def test_every_function_and_estimator_has_an_example():
    things = targets()
    shown = [name for name, thing in things.items() if inspect.isfunction(thing) and name.rpartition(".")[0] not in things]
    shown += [name for name, thing in things.items() if inspect.isclass(thing) and thing in all_estimators()]
    assert len(shown) > 40
    within_a_fit = {"skdpsynth.statistics.total"}  # shown where a mechanism is built: docs/mechanism.md
    assert {name for name in shown if ">>> " not in inspect.getdoc(things[name])} == within_a_fit


def defaults(thing):
    """(defaults that the docstring states, those of the signature), by name."""
    stated = {}
    for entry in NumpyDocString(inspect.getdoc(thing) or "")["Parameters"]:
        if match := re.search("default=(.+)$", entry.type):
            stated |= dict.fromkeys(entry.name.split(", "), ast.literal_eval(match[1]))
    parameters = inspect.signature(thing).parameters.values()
    return stated, {each.name: each.default for each in parameters if each.default is not each.empty}


def test_docstrings_state_the_defaults_of_signatures_and_those_of_classes_all_of_them():
    things = {name: getattr(thing, "__func__", thing) for name, thing in targets().items()}
    errors = {name for name, thing in things.items() if inspect.isclass(thing) and issubclass(thing, Exception)}
    found = {name: (thing, *defaults(thing)) for name, thing in things.items() if callable(thing) and name not in errors}
    assert sum(len(stated) for _, stated, _ in found.values()) > 300
    assert [name for name, (_, stated, right) in found.items() if not stated.items() <= right.items()] == []
    unsaid = [name for name, (thing, stated, right) in found.items() if inspect.isclass(thing) and stated and stated.keys() != right.keys()]
    assert unsaid == []
