"""The page of the command line shows what the commands show."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from readme_blocks import blocks

pytest.importorskip("click")
pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

PAGE = "docs/command_line.md"
ROOT = Path(__file__).parents[1]


def steps():
    """(command, what it shows) of each block, in order."""
    for block in blocks(PAGE, "console"):
        for step in block.split("$ ")[1:]:
            command, shown = re.split(r"(?<!\\)\n", step, maxsplit=1)
            yield command, shown


@pytest.fixture
def people(tmp_path):
    """The table of the page, with its schema as it is filled in there, and the program in the path."""
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 99, 1000), rng.choice(["no", "yes"], 1000)
    rows = [f"{a},{300 * a + i}.5,{s}\n" for i, (a, s) in enumerate(zip(age, smokes, strict=True))]
    (tmp_path / "people.csv").write_text("age,income,smokes\n" + "".join(rows), encoding="utf-8")
    program = tmp_path / "bin" / "skdpsynth"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m skdpsynth "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(os.name == "nt" or not (ROOT / PAGE).exists(), reason="needs a shell and the source tree")
def test_the_page_shows_what_the_commands_show(people):
    path = os.pathsep.join([str(people / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    (filled,) = blocks(PAGE, "yaml")
    checker, wrong = doctest.OutputChecker(), []
    for command, shown in steps():
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(["sh", "-c", command], text=True, cwd=people, env=environment, **both)
        if not checker.check_output(shown, done.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            wrong.append((command, shown, done.stdout))
        if command.startswith("skdpsynth schema init"):
            (people / "people.yaml").write_text(filled, encoding="utf-8")
    assert wrong == []


@pytest.mark.skipif(not (ROOT / PAGE).exists(), reason="needs the source tree")
def test_the_page_shows_every_command():
    from skdpsynth.cli._program import program

    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert [name for name in program.commands if f"skdpsynth {name}" not in text] == []
    assert len(list(steps())) >= 12
