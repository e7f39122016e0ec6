"""The extensions of the documentation: the side bar, the check of the built pages, and the links that notebooks show."""

import importlib
import zlib

import pytest
from extensions import DOCS, extension
from internals import API_URL, public_name
from sklearn.base import BaseEstimator

from skdpsynth import PrivateMeasureMechanism

SIDE = '<ul><li><a href="../api.html">API</a><ul><li>A</li><li class="toctree-l2 current">B</li><li>C</li></ul></li></ul>'


def test_names_lie_under_their_titles_and_the_drawer_of_the_page_is_open_where_it_has_the_names():
    pytest.importorskip("bs4")
    html = extension("api_groups").grouped(SIDE, {"First": 1, "Second": 2})
    assert "<details><summary>First</summary><ul><li>A</li></ul></details>" in html
    assert '<details open=""><summary>Second</summary><ul><li class="toctree-l2 current">B</li><li>C</li></ul></details>' in html
    assert extension("api_groups").grouped(SIDE, {"First": 7}) == SIDE


def test_each_name_of_the_reference_has_a_drawer():
    pytest.importorskip("bs4")
    names = list(extension("api_pages").listed(DOCS / "api.md"))
    titles = extension("api_groups").groups(DOCS / "api.md")
    assert sum(titles.values()) == len(names)
    assert "" not in titles


PAGE = '<html><head>{head}</head><body><article><h1 id="top">Title</h1>{body}</article></body></html>'


@pytest.fixture
def check_site():
    extension("api_pages")  # which it imports
    return extension("check_site")


@pytest.fixture
def faults(check_site, tmp_path):
    """A function of what two pages hold that returns what is found in their links."""

    def found(body, head=""):
        for name, text in {"one": body, "two": ""}.items():
            (tmp_path / f"{name}.html").write_text(PAGE.format(body=text, head=head if name == "one" else ""), encoding="utf-8")
        site = tmp_path.resolve()
        pages = {path: check_site.Page(path) for path in site.rglob("*.html")}
        return list(check_site.faults_of_links(site, pages))

    return found


def test_links_that_lead_nowhere_are_found_and_no_others(faults):
    for link in ("two.html", "two.html#top", "#top", "https://example.org/nothing#here"):
        assert faults(f'<a href="{link}">there</a>') == []
    for link, said in {"three.html": "no file", "two.html#bottom": "no place in its page", "#bottom": "no place in its page"}.items():
        assert faults(f'<a href="{link}">there</a>') == [f"one.html: {link} leads to {said}"]


@pytest.mark.parametrize(
    "head", ['<script src="https://cdn.example.org/a.js"></script>', '<link rel="stylesheet" href="https://cdn.example.org/a.css">']
)
def test_what_needs_a_network_is_found(faults, head):
    assert [fault for fault in faults("", head) if "from another site" in fault]


def test_public_names_hold_methods_properties_and_attributes(check_site):
    names = set(check_site.public_names())
    assert {
        "skdpsynth.PrivatePCA.components_",
        "skdpsynth.PrivateMeasureMechanism.sample",
        "skdpsynth.PrivacyAccountant.remaining",
    } <= names


def test_a_name_that_is_not_indexed_is_found(check_site, tmp_path):
    lines = [f"{name} py:method 1 page.html -" for name in check_site.public_names() if name != "skdpsynth.load"]
    (tmp_path / "objects.inv").write_bytes(b"#\n#\n#\n#\n" + zlib.compress("\n".join(lines).encode()))
    assert list(check_site.faults_of_objects(tmp_path)) == ["objects.inv lacks skdpsynth.load"]


def test_a_formula_that_was_not_understood_is_found(check_site, tmp_path):
    (tmp_path / "page.html").write_text(r"<math><mi>\varbogus</mi></math>", encoding="utf-8")
    assert list(check_site.faults_of_formulas(tmp_path)) == [r"page.html: \varbogus was not made a formula"]


# Made in a room without a face, and shown by another.
ELSEWHERE = {"skdpsynth.statistics.Sensitivity", "skdpsynth.statistics.Query", "skdpsynth.federated.Question"}


def test_classes_and_estimators_have_the_page_that_the_reference_makes_and_those_of_users_none():
    for name in extension("api_pages").listed(DOCS / "api.md"):
        thing = getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        if isinstance(thing, type) and name not in ELSEWHERE:
            assert public_name(thing) == name
        if isinstance(thing, type) and issubclass(thing, BaseEstimator) and not getattr(thing, "__abstractmethods__", None):
            assert thing.__new__(thing)._get_doc_link() == f"{API_URL}{name}.html"
    assert f'href="{API_URL}skdpsynth.PrivateMeasureMechanism.html"' in PrivateMeasureMechanism()._repr_html_()
    assert type("Mine", (PrivateMeasureMechanism,), {"__module__": __name__})()._get_doc_link() == ""


def test_the_page_of_examples_names_each_once_and_in_the_order_of_the_gallery():
    order = extension("gallery").AsNamed(str(DOCS.parent / "examples"))
    files = [path.name for path in (DOCS.parent / "examples").glob("plot_*.py")]
    assert sorted(order.names) == sorted(files)
    assert sorted(files, key=order) == order.names


def test_names_may_be_broken_between_their_words_and_text_stays_as_it_is():
    page = '<h1>LinkedTablesSynthesizer<a href="#x">#</a></h1> <span class="pre">pca.error_bound_</span> NoName <b class="OfCode">A.b</b>'
    marked = extension("words").with_places(page)
    assert "<h1>Linked<wbr>Tables<wbr>Synthesizer<a" in marked
    assert "pca.<wbr>error_<wbr>bound_</span>" in marked
    assert marked.endswith('NoName <b class="OfCode">A.b</b>')
    assert marked.replace("<wbr>", "") == page
