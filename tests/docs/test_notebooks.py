"""Notebooks of examples: what the examples say, and Python that can be read."""

import ast
import json
import subprocess
import sys

import pytest
from extensions import DOCS, extension

FOLDER = DOCS.parent / "examples"
NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))


@pytest.fixture
def notebooks():
    return extension("notebooks")


def test_notebooks_agree_with_their_examples(notebooks):
    assert {path.stem for path in (FOLDER / "notebooks").glob("*.ipynb")} == {name.removeprefix("plot_") for name in notebooks.CHOSEN}
    for name in notebooks.CHOSEN:
        stored = (FOLDER / "notebooks" / f"{name.removeprefix('plot_')}.ipynb").read_text(encoding="utf-8")
        assert stored == notebooks.notebook((FOLDER / f"{name}.py").read_text(encoding="utf-8")), "run docs/_ext/notebooks.py"


def test_the_cells_of_a_notebook_are_the_code_of_its_example_in_order(notebooks):
    for name in notebooks.CHOSEN:
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        made = json.loads(notebooks.notebook(source))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in made if cell["cell_type"] == "code")
        assert ast.dump(ast.Module(ast.parse(source).body[1:], [])) == ast.dump(ast.parse(code)), name
        assert "".join(made[0]["source"]).startswith("# ")
        assert not any("# %%" in line for cell in made for line in cell["source"])


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_an_empty_folder_as_a_kernel_runs_it(path, tmp_path):
    """Without a `__file__`, and beside arguments that are those of the kernel."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    run = [sys.executable, "-c", code, "-f", "kernel.json"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
