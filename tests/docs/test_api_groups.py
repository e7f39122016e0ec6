"""The side bar of the reference: names lie in drawers with the titles of the page, and only the drawer of the page shown is open."""

import pytest
from extensions import DOCS, extension

pytest.importorskip("bs4")

SIDE = '<ul><li><a href="../api.html">API</a><ul><li>A</li><li class="toctree-l2 current">B</li><li>C</li></ul></li></ul>'


def test_names_lie_under_their_titles_and_the_drawer_of_the_page_is_open_where_it_has_the_names():
    html = extension("api_groups").grouped(SIDE, {"First": 1, "Second": 2})
    assert "<details><summary>First</summary><ul><li>A</li></ul></details>" in html
    assert '<details open=""><summary>Second</summary><ul><li class="toctree-l2 current">B</li><li>C</li></ul></details>' in html
    assert extension("api_groups").grouped(SIDE, {"First": 7}) == SIDE


def test_each_name_of_the_reference_has_a_drawer():
    names = list(extension("api_pages").listed(DOCS / "api.md"))
    titles = extension("api_groups").groups(DOCS / "api.md")
    assert sum(titles.values()) == len(names)
    assert "" not in titles
