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


def _filled_in(text):
    """The schema of two columns, as a person would fill it in."""
    return text.replace("bounds: open", "bounds: [18, 99]").replace("levels: open", 'levels: ["no", "yes"]')


def test_the_readmes_code_runs_as_written(tmp_path, monkeypatch):
    code = blocks("README.md", "python")
    assert len(code) >= 3
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age,smokes\n" + "34,no\n71,yes\n" * 500, encoding="utf-8")
    namespace = {}
    first, second, *others = code
    exec(compile(first, "README.md", "exec"), namespace)
    with pytest.raises(ValueError, match=r"^schema of column 'age' has open bounds"):
        namespace["LatentFactorSynthesizer"]("people.yaml").fit("people.csv")
    Path("people.yaml").write_text(_filled_in(Path("people.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(FileExistsError, match="holds something else"):
        exec(compile(first, "README.md", "exec"), namespace)
    for block in (second, *others):
        exec(compile(block, "README.md", "exec"), namespace)
    assert len(Path("synthetic.csv").read_text(encoding="utf-8").splitlines()) == 1001
    assert float(namespace["budget"].remaining) == 1.5
    assert namespace["synthetic"].shape == (1000, 20)


@pytest.mark.parametrize("page", ["budgets", "choosing", "ledger", "schemas", "selection", "units"])
def test_a_page_shows_what_python_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(f"docs/{page}.md", "pycon"))
    test = doctest.DocTestParser().get_doctest(code, {}, f"docs/{page}.md", None, 0)
    assert len(test.examples) >= 8
    assert doctest.DocTestRunner().run(test).failed == 0


def test_the_mechanism_of_the_documentation_keeps_the_laws(tmp_path, monkeypatch):
    code = blocks("docs/mechanism.md", "python")
    assert len(code) == 3
    (tmp_path / "noisy_histogram.py").write_text("\n".join(code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("noisy_histogram")  # and with it runs all laws
