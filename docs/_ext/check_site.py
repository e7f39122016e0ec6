"""Check pages that were built: every link within them leads somewhere, and nothing public was left out.

    python docs/_ext/check_site.py docs/_build/html

Exits with 1 and one line for each fault. Links to other sites are not followed: they need a network.
"""

import importlib
import inspect
import re
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from api_pages import listed, members
from numpydoc.docscrape import NumpyDocString

DOCS = Path(__file__).parents[1]
LEAST_LINKS = 3  # of a page of prose, to other pages
ALONE = ("changelog", "citing", "contributing", "security")  # pages that come from files outside the site


class Page(HTMLParser):
    """What a page links, and where it can be linked.

    Attributes
    ----------
    places : set of str
        Names within the page.
    links : list of str
        All links; `within` those of its own text.
    outside : list of str
        What would be loaded from another site.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.within: list[str] = []
        self.outside: list[str] = []
        self._depth = 0  # of elements within the article
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the names and links of an element."""
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        self._depth += tag == "article"
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
            if self._depth and "headerlink" not in found.get("class", ""):
                self.within.append(found["href"])
        loaded = found.get("src", "") if tag in ("script", "img", "iframe") else found.get("href", "") if tag == "link" else ""
        if urlsplit(loaded).netloc and found.get("rel") not in ("canonical", "alternate"):
            self.outside.append(loaded)

    def handle_endtag(self, tag: str) -> None:
        """Leave the article."""
        self._depth -= tag == "article"


def faults_of_links(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield a line for each link that leads nowhere, and for what is loaded from elsewhere."""
    for path, page in pages.items():
        shown = path.relative_to(site)
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{shown}: {link} leads to no file"
            elif "_modules" in shown.parts:  # a page of sources leads to the right page, but calls a place by the module's first name
                continue
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{shown}: {link} leads to no place in its page"
        yield from (f"{shown}: loads {link} from another site" for link in page.outside)


def faults_of_prose(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield a line for each page of prose with few links."""
    for source in sorted(DOCS.glob("*.md")):
        page = pages.get((site / f"{source.stem}.html").resolve())
        if page is None or source.stem in ALONE:
            continue
        others = {urlsplit(link).path for link in page.within} - {""}
        if len(others) < LEAST_LINKS:
            yield f"{source.name}: links to {len(others)} other pages, of {LEAST_LINKS} at least"


def faults_of_formulas(site: Path) -> Iterator[str]:
    """Yield a line for each command of LaTeX that was not understood."""
    for path in sorted(site.rglob("*.html")):
        for command in sorted(set(re.findall(r"<m[iox]>(\\\w+)", path.read_text(encoding="utf-8")))):
            yield f"{path.relative_to(site)}: {command} was not made a formula"


def faults_of_objects(site: Path) -> Iterator[str]:
    """Yield a line for each public name that the index of objects lacks."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    indexed = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines() if " py:" in line}
    yield from (f"objects.inv lacks {name}" for name in public_names() if name not in indexed)


def public_names() -> Iterator[str]:
    """Yield what the reference lists, with all members and attributes."""
    for name in listed(DOCS / "api.md"):
        yield name
        module, _, attribute = name.rpartition(".")
        thing = getattr(importlib.import_module(module), attribute)
        if inspect.isclass(thing):
            written = [part for entry in NumpyDocString(inspect.getdoc(thing) or "")["Attributes"] for part in entry.name.split(", ")]
            yield from (f"{name}.{member}" for member in dict.fromkeys([*written, *(one for kind in members(thing) for one in kind)]))


def main(site: Path) -> int:
    """Print the faults of a site, and return whether there are any."""
    site = site.resolve()
    paths = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path) for path in paths}
    faults = [*faults_of_links(site, pages), *faults_of_prose(site, pages), *faults_of_formulas(site), *faults_of_objects(site)]
    print(*faults or [f"{len(pages)} pages: no broken link, no page of prose with few links, every public name indexed"], sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
