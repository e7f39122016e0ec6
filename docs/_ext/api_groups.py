"""The side bar of the reference: its names stand under the titles that the page of the reference gives them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from sphinx.application import Sphinx

AFTER_THE_THEME = 900  # whose handler has the priority 500


def groups(reference: Path) -> dict[str, int]:
    """Return the titles of the page of the reference, each with the number of names below it."""
    found: dict[str, int] = {}
    title = ""
    for line in reference.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"## (.+)", line):
            title = match[1]
        elif re.fullmatch(r"   [\w.]+", line):
            found[title] = found.get(title, 0) + 1
    return found


def grouped(html: str, titles: dict[str, int]) -> str:
    """Return a side bar whose names lie in drawers, of which the one with the current page is open."""
    soup = BeautifulSoup(html, "html.parser")
    names = next((each for each in soup.find_all("ul") if len(each.find_all("li", recursive=False)) == sum(titles.values())), None)
    if names is None:  # another page's: the reference is closed there
        return html
    items = names.find_all("li", recursive=False)
    for title, size in titles.items():
        inside, items = items[:size], items[size:]
        drawer, heading, below = soup.new_tag("details"), soup.new_tag("summary"), soup.new_tag("ul")
        heading.string = title
        if any("current" in each.get("class", ()) for each in inside):
            drawer["open"] = ""
        below.extend([each.extract() for each in inside])
        drawer.extend([heading, below])
        group = soup.new_tag("li", attrs={"class": "api-group"})
        group.append(drawer)
        names.append(group)
    return str(soup)


def group(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the theme's function that writes the side bar put the names of the reference into drawers."""
    write: Callable[..., Any] | None = context.get("generate_toctree_html")
    if write is None:
        return

    def written(kind: str, *args: Any, **kwargs: Any) -> Any:
        html = write(kind, *args, **kwargs)
        return grouped(str(html), app.config.skdpsynth_groups) if kind == "sidebar" and pagename.startswith("api") else html

    context["generate_toctree_html"] = written


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the step that follows the theme's."""
    app.add_config_value("skdpsynth_groups", groups(Path(app.srcdir) / "api.md"), "env")
    app.connect("html-page-context", group, priority=AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
