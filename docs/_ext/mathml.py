"""Formulas as MathML, written when the pages are: a reader needs no network, no script and no font of ours."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

ROMAN = re.compile(r"\\operatorname\{(\w+)\}")  # the converter sets the letters of an operator's name in italics


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(f'<span class="math">{convert(prepared(node.astext()))}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula that stands alone, in a box that scrolls where it is wider than the page."""
    formula = convert(prepared(node.astext()), display="block")
    self.body.append(self.starttag(node, "div", CLASS="math displayed") + formula + "</div>\n")
    raise nodes.SkipNode


def prepared(latex: str) -> str:
    """Return LaTeX that the converter writes as TeX would set it."""
    return ROMAN.sub(r"\\mathrm{\1}", latex)


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer; `html_math_renderer` chooses it."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
