"""Links of pages lead somewhere for those who read the files as they are, without a site."""

import os.path
import re
import shutil
import subprocess
from pathlib import PurePosixPath

import pytest
from extensions import DOCS, extension

ROOT = DOCS.parent
LINKS = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)"), re.compile(r"`[^`<]+ <(?![a-z]+:)([^`>]+)>`__")


@pytest.fixture(scope="module")
def tracked():
    """The files of the repository, and their folders."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs the repository")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {*files, *(str(folder) for file in files for folder in PurePosixPath(file).parents)}


def dead(text, folder, tracked):
    """The relative links of a page in a folder that lead to no file of the repository."""
    links = [link for pattern in LINKS for link in pattern.findall(text)]
    return [link for link in links if os.path.normpath(f"{folder}/{link}").replace(os.sep, "/") not in tracked]


def test_relative_links_of_pages_lead_to_files_of_the_repository(tracked):
    pages = [path for path in (ROOT / file for file in tracked) if path.suffix in (".md", ".rst") and path.is_file()]
    assert ROOT / "README.md" in pages
    found = {path.name: dead(path.read_text("utf-8"), path.parent.relative_to(ROOT).as_posix(), tracked) for path in pages}
    assert {name: links for name, links in found.items() if links} == {}


def test_a_dead_link_is_found():
    tracked = {"docs", "docs/start.md", "examples/plot_stream.py"}
    text = "[a](start.md#x) [b](../docs) [c](auto_examples/plot_stream.rst) [d](https://a.b) [e](#x) `f <plot_stream.py>`__ `g <plot.py>`__"
    assert dead(text, "docs", tracked) == ["auto_examples/plot_stream.rst", "plot_stream.py", "plot.py"]
    assert dead("`f <plot_stream.py>`__", "examples", tracked) == []


def test_a_site_leads_from_examples_to_their_pages():
    with_pages = extension("gallery").with_pages
    assert with_pages("[a](../examples/plot_stream.py) [b](../examples/README.rst)") == (
        "[a](auto_examples/plot_stream.rst) [b](auto_examples/index.rst)"
    )
    assert with_pages("- `Streams <plot_stream.py>`__") == "- :ref:`Streams <sphx_glr_auto_examples_plot_stream.py>`"
    assert with_pages("[c](../examples/ma2019.yaml) `d <plot>`_") == "[c](../examples/ma2019.yaml) `d <plot>`_"
