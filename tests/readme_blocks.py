"""Run the code of the pages as it is written: ``pytest tests/readme_blocks.py``."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks(page, language):
    """The code of a page, block by block."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def test_the_readmes_code_runs_as_written(tmp_path, monkeypatch):
    code = blocks("README.md", "python")
    assert len(code) >= 3
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), namespace)
    with pytest.raises(ValueError, match=r"^schema of column 'age' has open bounds"):
        namespace["LatentFactorSynthesizer"]("patients.yaml").fit(namespace["patients"])
    assert float(namespace["budget"].remaining) == 1.5
    assert namespace["synthetic"].shape == (1000, 20)


def test_the_page_on_ledgers_shows_what_python_shows():
    code = "\n".join(blocks("docs/ledger.md", "pycon"))
    test = doctest.DocTestParser().get_doctest(code, {}, "docs/ledger.md", None, 0)
    assert len(test.examples) >= 10
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_page_on_schemas_shows_what_python_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks("docs/schemas.md", "pycon"))
    test = doctest.DocTestParser().get_doctest(code, {}, "docs/schemas.md", None, 0)
    assert len(test.examples) >= 10
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_mechanism_of_the_documentation_keeps_the_laws(tmp_path, monkeypatch):
    code = blocks("docs/mechanism.md", "python")
    assert len(code) == 3
    (tmp_path / "noisy_histogram.py").write_text("\n".join(code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("noisy_histogram")  # and with it runs all laws
