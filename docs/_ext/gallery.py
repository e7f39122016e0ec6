"""Examples: their order, that in which ``examples/README.rst`` names them, and links to their files, which a site leads to their pages."""

import re
from pathlib import Path

from sphinx.application import Sphinx

PAGE = Path(__file__).parents[2] / "examples" / "README.rst"
LINK = re.compile(r"`([^`<]+) <(plot_\w+\.py)>`__")
TO_PAGES = (
    (re.compile(r"\]\(\.\./examples/(plot_\w+)\.py\)"), r"](auto_examples/\1.rst)"),
    (re.compile(r"\]\(\.\./examples/README\.rst\)"), "](auto_examples/index.rst)"),
    (LINK, r":ref:`\1 <sphx_glr_auto_examples_\2>`"),
)


class AsNamed:
    """Sort key of the names of example files; one that is not named comes last.

    Parameters
    ----------
    folder : str
        Of the examples.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.names = [name for _, name in LINK.findall(PAGE.read_text(encoding="utf-8"))]

    def __call__(self, name: str) -> tuple[int, str]:
        """Return what a file is sorted by."""
        return (self.names.index(name) if name in self.names else len(self.names)), name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.names})"  # part of what tells whether the gallery must be made again


def with_pages(text: str) -> str:
    """Return the source of a page whose links to the files of examples lead to the pages that the gallery made of them."""
    for link, page in TO_PAGES:
        text = link.sub(page, text)
    return text


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Change the source of a page before it is parsed."""
    source[0] = with_pages(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
