"""Places where a long name may be broken: between its words, ``LatentFactor|Synthesizer``, ``error_|bound_``, ``skdpsynth.|metrics``."""

import re
from typing import Any

from sphinx.application import Sphinx

NAME = re.compile(r'(<span class="pre">|<h1>)([\w.]+)(?=<)')
BETWEEN = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[._])(?=[A-Za-z])")


def with_places(html: str) -> str:
    """Return a page whose names in code, and whose title, may be broken between words alone."""
    return NAME.sub(lambda match: match[1] + BETWEEN.sub("<wbr>", match[2]), html)


def mark(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Mark the places in a page that is about to be written."""
    if "body" in context:
        context["body"] = with_places(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen."""
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
