"""The pages of classes: an entry for every public attribute, property and method, and links from short names.

numpydoc lists attributes as text. Here each becomes an entry of its own, so that the index of objects, the search and other
projects' links find it.
"""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from docutils import nodes
from numpydoc.docscrape import NumpyDocString
from numpydoc.xref import make_xref
from sphinx.application import Sphinx

PACKAGE = "skdpsynth"
BEFORE_NUMPYDOC, AFTER_NUMPYDOC = 400, 600  # its own handler has the priority 500


def listed(reference: Path) -> Iterator[str]:
    """Yield the full names that the page of the reference lists."""
    module = PACKAGE
    for line in reference.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   ([\w.]+)", line):
            yield f"{module}.{match[1]}"


def is_ours(thing: Any) -> bool:
    """Whether a function, method or property was written in this package."""
    if isinstance(thing, property):
        thing = thing.fget
    thing = getattr(thing, "func", thing) if isinstance(thing, cached_property) else getattr(thing, "__func__", thing)
    return (getattr(thing, "__module__", None) or "").startswith(PACKAGE)


def members(cls: type) -> tuple[list[str], list[str]]:
    """Return the names of the public properties and methods of a class that were written in this package, inherited ones too."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("_")}
    ours = {name: thing for name, thing in found.items() if is_ours(thing)}
    properties = [name for name, thing in ours.items() if isinstance(thing, property | cached_property)]
    is_method = {name: callable(getattr(thing, "__func__", thing)) and not inspect.isclass(thing) for name, thing in ours.items()}
    return properties, [name for name in ours if is_method[name]]


class ClassPages:
    """What a page of a class shows, in two steps: attributes leave the text of the docstring, and come back as entries.

    Parameters
    ----------
    short : dict
        Short name -> full name, of what the reference lists.
    """

    def __init__(self, short: dict[str, str]) -> None:
        self.short = short
        self._attributes: dict[str, list[Any]] = {}

    def take_out(self, app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        """Take the section Attributes out of the docstring of a class."""
        if not isinstance(obj, type):
            return
        self._attributes[name] = NumpyDocString("\n".join(lines))["Attributes"]
        titles = [i for i, under in enumerate(lines[1:]) if re.fullmatch(r"-{3,}", under.strip())]
        starts = [i for i in titles if lines[i].strip() == "Attributes"]
        for start in starts:
            del lines[start : min((i for i in titles if i > start), default=len(lines))]

    def put_back(self, app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        """Append an entry for each attribute, property and method."""
        if not isinstance(obj, type):
            return
        properties, methods = members(obj)
        entries = [(entry, [one for one in entry.name.split(", ") if one not in properties]) for entry in self._attributes.pop(name, [])]
        if any(names for _, names in entries) or properties:
            lines += ["", ".. rubric:: Attributes", ""]
        for entry, names in entries:
            lines += self._entry(entry, names) if names else []
        for shown in properties:
            lines += [f".. autoproperty:: {name}.{shown}", ""]
        if methods:
            lines += ["", ".. rubric:: Methods", ""]
        for shown in methods:
            lines += [f".. automethod:: {name}.{shown}", ""]

    def _entry(self, entry: Any, names: list[str]) -> Iterator[str]:
        """Yield the lines of an attribute, or of several that share a description."""
        first, *others = names
        yield f".. py:attribute:: {first}"
        yield from (f"                  {other}" for other in others)
        yield ""
        yield f"   *Type:* {make_xref(entry.type, self.short, 'all')}" if entry.type else ""
        yield ""
        yield from (f"   {line}" for line in entry.desc)
        yield ""

    def resolve(self, app: Sphinx, env: Any, node: Any, shown: nodes.Node) -> nodes.Node | None:
        """Let a short name, alone or before a member, lead to its page from everywhere."""
        if node.get("refdomain") != "py":
            return None
        name, dot, member = node["reftarget"].partition(".")
        full = self.short.get(name)
        if full is None:
            return None
        target = f"{full}{dot}{member}"
        domain = env.domains["py"]
        reference: nodes.Node | None = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, shown)
        return reference


def use_aliases(app: Sphinx) -> None:
    """Let numpydoc link the types of parameters to our own pages only: those of other projects need a network."""
    app.config.numpydoc_xref_aliases_complete = app.config.skdpsynth_pages


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the steps around numpydoc's own."""
    names = list(listed(Path(app.srcdir) / "api.md"))
    short = {full.rpartition(".")[2]: full for full in names if full.rpartition(".")[2][0].isupper()}
    pages = ClassPages(short)
    app.add_config_value("skdpsynth_pages", short, "env")
    app.connect("builder-inited", use_aliases, priority=AFTER_NUMPYDOC)
    app.connect("autodoc-process-docstring", pages.take_out, priority=BEFORE_NUMPYDOC)
    app.connect("autodoc-process-docstring", pages.put_back, priority=AFTER_NUMPYDOC)
    app.connect("missing-reference", pages.resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
