"""What is published: one version number, a wheel and a source archive that hold what they should, links that an index page can follow."""

import ast
import contextlib
import email
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import skdpsynth

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")
NEEDED = {"pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "SECURITY.md", "Makefile"}
NEEDED |= {"CODE_OF_CONDUCT.md", "SUPPORT.md", "paper/paper.md", "paper/paper.bib", ".github/workflows/release.yml"}
NEEDED |= {"r/DESCRIPTION", "r/NAMESPACE", "r/R/skdpsynth.R", "r/man/dp_fit.Rd", "r/vignettes/patients.Rmd"}
NEEDED |= {".ci/run", ".readthedocs.yaml", ".pre-commit-config.yaml", ".github/workflows/ci.yml", ".github/workflows/nightly.yml"}


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The (wheel, source archive) of this tree, made as an index gets them."""
    pytest.importorskip("hatchling")
    pytest.importorskip("hatch_fancy_pypi_readme")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def metadata(published):
    with zipfile.ZipFile(published[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(wheel.read(name))


def test_version_is_written_in_one_place_and_is_that_of_what_is_installed():
    settings = project()
    assert "version" in settings["project"]["dynamic"]
    assert settings["tool"]["hatch"]["version"]["path"] == "skdpsynth/_version.py"
    (assigned,) = (node for node in ast.parse((ROOT / "skdpsynth" / "_version.py").read_text()).body if isinstance(node, ast.Assign))
    assert assigned.value.value == skdpsynth.__version__
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        assert importlib.metadata.version("skdpsynth") == skdpsynth.__version__


def test_citation_names_the_version_and_the_licence_and_the_changelog_begins_with_it():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {skdpsynth.__version__}\n" in text
    assert f"\nlicense: {project()['project']['license']}\n" in text
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1] == skdpsynth.__version__


def test_places_that_wait_for_the_owner_are_marked():
    lines = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if "**owner**" in line]
    named = {name for line in lines for name in re.findall(r"`([\w./]+)`", line)} | {"README.md"}
    assert named >= {"pyproject.toml", "CITATION.cff", "paper/paper.md", "r/DESCRIPTION"}
    assert [name for name in named if "todo" not in (ROOT / name).read_text(encoding="utf-8").lower()] == []


def test_wheel_holds_the_package_and_nothing_else(published):
    with zipfile.ZipFile(published[0]) as wheel:
        names = set(wheel.namelist())
    paths = [path for folder in ("skdpsynth", "skdpsynth_evidence") for path in (ROOT / folder).rglob("*")]
    here = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file() and "__pycache__" not in path.parts}
    assert {name for name in names if ".dist-info/" not in name} == here
    assert "skdpsynth/py.typed" in here
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_source_archive_holds_all_that_its_tests_and_pages_need_and_nothing_that_was_made(published):
    with tarfile.open(published[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= NEEDED
    assert [name for name in names if re.search(r"__pycache__|_build/|auto_examples/|\.venv|\.pyc$", name)] == []
    for folder in ("skdpsynth", "skdpsynth_evidence", "tests", "docs", "examples", "benchmarks"):
        here = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py") if "auto_examples" not in path.parts}
        assert {name for name in here - names if "_build/" not in name and "generated/" not in name} == set()


def test_links_and_pictures_of_the_page_are_absolute(metadata):
    prose = re.sub(r"^```.*?^```$", "", metadata.get_payload(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r"(?:href|src)=\"([^\"]+)\"", prose)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_links_of_the_page_lead_to_pages_of_the_documentation(metadata):
    """To a page that has a source, or to a picture that a page shows."""
    site = re.escape(project()["project"]["urls"]["Documentation"] + "/en/latest/")
    of_root = {"changelog", "citing", "contributing", "security", "support", "conduct"}  # pages that include the files beside README.md
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for target in set(re.findall(rf"\]\({site}([^)#]+)", metadata.get_payload())):
        folder, _, name = target.rpartition("/")
        if folder == "_images":
            assert f"images/{name}" in pages, target
        elif folder != "auto_examples":
            page = name.removesuffix(".html")
            assert page in of_root or (ROOT / "docs" / f"{page}.md").exists(), target


def test_extras_and_classifiers_are_published(metadata):
    assert set(metadata.get_all("Provides-Extra")) == set(project()["project"]["optional-dependencies"])
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} | {"Typing :: Typed"} <= set(
        metadata.get_all("Classifier")
    )


def test_pythons_are_those_of_the_classifiers_and_of_the_workflow():
    settings = project()["project"]
    minors = sorted(int(match[1]) for match in re.finditer(r"Python :: 3\.(\d+)", "\n".join(settings["classifiers"])))
    assert settings["requires-python"] == f">=3.{minors[0]}"
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "[" + ", ".join(f'"3.{minor}"' for minor in minors) + "]" in workflow
    assert "bash .ci/run" in workflow
