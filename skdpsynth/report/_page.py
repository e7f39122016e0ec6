"""Pages: single HTML files without scripts or external resources."""

from dataclasses import dataclass, field
from html import escape
from typing import Any

from skdpsynth._atomic_write import atomic_write, output_path


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
