"""Pages: single HTML files without scripts or external resources."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any
from xml.etree import ElementTree

from skdpsynth._atomic_write import atomic_write, output_path
from skdpsynth.measures import BinaryPartition, Lattice
from skdpsynth.plotting import BudgetDisplay, MeasureDisplay, PrivatePCADisplay, SynthesisDisplay
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.report._facts import CardFacts

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_ALLOWED_TAGS = {"svg", "g", "defs", "style", "path", "use", "text", "tspan", "image", "clipPath"}


@dataclass(frozen=True)
class Page:
    """One file of HTML: no script, and nothing that is loaded from elsewhere.

    Attributes
    ----------
    title : str
    html : str

    See Also
    --------
    card : A release card.
    quality_page : A report of quality.
    """

    title: str
    html: str = field(repr=False)

    @property
    def _is_public(self) -> bool:
        return False

    def to_html(self) -> str:
        """Return the page as text."""
        return self.html

    def save(self, path: Any) -> None:
        """Write the page to a file, which is complete or not there.

        Parameters
        ----------
        path : str or path-like
            It ends in ".html", as a rule. An existing file is replaced. Only the owner may read a page that is not private.
        """
        with atomic_write(output_path(path), is_private=not self._is_public) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        # A frame of its own: neither styles the other, and the sandbox lets nothing run.
        style = "width:100%;height:40em;border:1px solid #ccc"
        return f'<iframe title="{escape(self.title)}" sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def render_template(template: str, **values: Any) -> str:
    """Fill in a template of this package, escaping every value."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ImportError("A release card needs jinja2: pip install 'skdpsynth[report]'.") from None
    environment = Environment(
        loader=PackageLoader("skdpsynth.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


_ALLOWED_TAGS |= {"rect", "circle", "line", "polygon", "polyline"}
_WHOLE = ("Pairs of columns", "Budget")
_MOST_PICTURED = 20  # columns: each picture is some 10 kB
_MOST_ASSOCIATED = 40  # with more columns the cells are too small to see


@dataclass(frozen=True)
class Picture:
    """A drawing and its caption."""

    title: str
    words: str
    svg: str = field(repr=False)
    is_whole: bool = False  # whether it needs the whole width of a page


def pictures_of(model: Any, facts: CardFacts, real: Any, accountant: PrivacyAccountant | None) -> Iterator[Picture]:
    """Yield the pictures of a card; only `real` gives real rows."""
    drawn = [
        *_sample_pictures(facts, real),
        *_model_pictures(getattr(model, "best_estimator_", model)),
        *_budget_pictures(model, accountant),
    ]
    for number, (title, words, svg) in enumerate(drawn):
        yield Picture(title, words, inline_svg(svg, number, f"{title}. {words}"), title in _WHOLE)


def _sample_pictures(facts: CardFacts, real: Any) -> Iterator[tuple[str, str, str]]:
    """Yield two columns a picture, so that a phone shows them large enough to read."""
    if facts.sample is None:
        return
    rows = f"{len(facts.sample):,} synthetic rows" + (" beside real ones: not private." if real is not None else ".")
    display = SynthesisDisplay.from_samples(facts.sample, schema=facts.schema, X=real)
    names = [column.name for column in display.columns]
    for first in range(0, min(len(names), _MOST_PICTURED), 2):
        two = names[first : first + 2]
        yield "Columns", f"{' and '.join(map(str, two))}, of {rows}", display.to_svg(columns=two)
    if len(names) > _MOST_PICTURED:
        rows += f" Only the first {_MOST_PICTURED} columns are pictured alone."
    if len(names) > 1:
        yield "Pairs of columns", f"Those that depend most on each other, of {rows}", display.to_svg(kind="pairs")
    if 2 < len(names) <= _MOST_ASSOCIATED:
        words = f"1 or -1: one column follows from the other; 0: they have nothing to do with each other. Of {rows}"
        yield "Associations", words, display.to_svg(kind="correlations")


def _model_pictures(model: Any) -> Iterator[tuple[str, str, str]]:
    if hasattr(model, "noise_edge_"):
        words = "Variance of each direction as released, with noise, and the largest that noise alone is likely to show."
        yield "Directions of largest variance", words, PrivatePCADisplay.from_estimator(model).to_svg()
    partition = getattr(getattr(model, "measure_", None), "partition", None)
    if isinstance(partition, BinaryPartition | Lattice) and model.n_features_in_ <= 2:
        words = "The released probability measure: how much of it lies where."
        yield "Released measure", words, MeasureDisplay.from_estimator(model).to_svg()


def _budget_pictures(model: Any, accountant: PrivacyAccountant | None) -> Iterator[tuple[str, str, str]]:
    if accountant is None:
        accountant = model if isinstance(model, PrivacyAccountant) else model.accountant_
    if accountant.ledger:
        yield "Budget", "What each release was charged.", BudgetDisplay.from_accountant(accountant).to_svg()


def inline_svg(svg: str, number: int, label: str) -> str:
    """Return an SVG document as an element of a page: scalable, with names of its own, and with a label for screen readers."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root, prefix = ElementTree.fromstring(svg), f"p{number}-"  # comments are dropped
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.removeprefix(f"{{{_SVG}}}") not in _ALLOWED_TAGS:  # drop metadata and any script
                element.remove(child)
        for name, value in element.attrib.items():
            element.set(name, _prefix_names(name, value, prefix))
    for size in ("width", "height"):  # the box is left
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label}
    return ElementTree.tostring(root, encoding="unicode")


def _prefix_names(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == f"{{{_LINK}}}href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return re.sub(r"url\(#", f"url(#{prefix}", value)
