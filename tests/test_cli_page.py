"""Pages of the command line show what the commands show."""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from readme_blocks import blocks

pytest.importorskip("click")
pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from click.testing import CliRunner
from internals import program

PAGE, MESSY = "docs/command_line.md", "docs/messy_files.md"
ON_FAILURE = '|| echo "exit code $?"'
needs_source = pytest.mark.skipif(not (Path(__file__).parents[1] / PAGE).exists(), reason="needs the source tree")


def steps(page):
    """(command, what it shows) of each block, in order."""
    for block in blocks(page, "console"):
        for step in block.split("$ ")[1:]:
            command, shown = re.split(r"(?<!\\)\n", step, maxsplit=1)
            yield command, shown


@pytest.fixture
def people(tmp_path, monkeypatch):
    """The folder of the page, with its table."""
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 99, 1000), rng.choice(["no", "yes"], 1000)
    rows = [f"{a},{300 * a + i}.5,{s}\n" for i, (a, s) in enumerate(zip(age, smokes, strict=True))]
    (tmp_path / "people.csv").write_text("age,income,smokes\n" + "".join(rows), encoding="utf-8")
    ward = rng.choice(["A", "B", "annex", "tent"], 1000, p=[0.6, 0.3, 0.07, 0.03])
    visits = [
        f"V{i:04};{1 + i % 28:02}/{1 + i % 12:02}/2024;{'' if i % 9 == 0 else f'{50 + i % 400 / 10:.1f}'};"
        f"{-999 if i % 5 == 0 else f'{4 + i % 30 / 10:.1f}'};{smokes[i]};{ward[i]};north\n".replace(".", ",")
        for i in range(1000)
    ]
    (tmp_path / "visits.txt").write_text("visit;seen;weight;sugar;smokes;ward;site\n" + "".join(visits), encoding="utf-8")
    (tmp_path / "household.csv").write_text(
        "household_id,region\n" + "".join(f"{i},{'north' if i % 3 else 'south'}\n" for i in range(300)), encoding="utf-8"
    )
    persons = [f"{i},{age[i + j]},{'other' if j else 'householder'}\n" for i in range(300) for j in range(1 + i % 3)]
    (tmp_path / "person.csv").write_text("household_id,age,relation\n" + "".join(persons), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command):
    """Return what a shell would show of a command of the page; processes of their own are tested elsewhere."""
    name, *arguments = shlex.split(command.replace("\\\n", " ").removesuffix(ON_FAILURE))
    assert name == "skdpsynth"
    done = CliRunner().invoke(program, arguments, prog_name=name)
    return done.output + (f"exit code {done.exit_code}\n" if done.exit_code and command.endswith(ON_FAILURE) else "")


@needs_source
@pytest.mark.parametrize("page", [PAGE, MESSY])
def test_a_page_shows_what_the_commands_show(people, page):
    filled = iter(blocks(page, "yaml"))
    checker, wrong = doctest.OutputChecker(), []
    for command, shown in steps(page):
        found = run(command)
        if not checker.check_output(shown, found, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE):
            wrong.append((command, shown, found))
        if command.startswith("skdpsynth schema init"):
            (people / shlex.split(command)[-1]).write_text(next(filled), encoding="utf-8")
    assert wrong == []


@needs_source
def test_the_page_shows_every_command():
    text = (Path(__file__).parents[1] / PAGE).read_text(encoding="utf-8")
    assert [name for name in program.commands if f"skdpsynth {name}" not in text] == []
    assert len(list(steps(PAGE))) >= 12
