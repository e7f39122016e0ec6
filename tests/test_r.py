"""The functions for R, where R is installed, and what can be told of them where it is not."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "r"
READY = 'stopifnot(packageVersion("reticulate") >= "1.38", requireNamespace("testthat"))'
pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="needs the source tree")


def exported():
    return re.findall(r"^export\((\w+)\)$", (PACKAGE / "NAMESPACE").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_each_function_has_its_help_and_stands_on_the_page():
    page = (ROOT / "docs" / "r.md").read_text(encoding="utf-8")
    aliases = "\n".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "man").glob("*.Rd"))
    assert "dp_fit" in exported()
    assert [name for name in exported() if f"`{name}`" not in page and f"{name}(" not in page] == []
    assert [name for name in exported() if rf"\alias{{{name}}}" not in aliases] == []


def test_the_vignette_and_the_page_have_the_rows_of_the_readmes_table():
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    labels = re.findall(r"^(\S.*?)  +\d.*$", table, flags=re.MULTILINE)
    vignette = (PACKAGE / "vignettes" / "patients.Rmd").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "r.md").read_text(encoding="utf-8")
    assert len(labels) == 9
    assert [label for label in labels if f'"{label}" = function' not in vignette or f"\n{label}  " not in page] == []


@pytest.mark.nightly
def test_the_tests_of_the_package_for_r_pass(tmp_path):
    if shutil.which("Rscript") is None or subprocess.run(["Rscript", "-e", READY], capture_output=True, check=False).returncode:
        pytest.skip("needs R with testthat, and a reticulate that knows numpy 2")
    shutil.copytree(PACKAGE, tmp_path / "r")
    subprocess.run(["R", "CMD", "INSTALL", "-l", str(tmp_path), "r"], cwd=tmp_path, check=True, capture_output=True)
    set_up = {"R_LIBS": str(tmp_path), "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["Rscript", "testthat.R"], cwd=tmp_path / "r" / "tests", env=os.environ | set_up, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"FAIL 0 .* SKIP 0 \| PASS [1-9]", done.stdout), done.stdout
