"""Laws of the command line in processes of its own: start, signals, pipes, exit codes."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("pyarrow")

from skdpsynth import PrivacyAccountant, PrivateMeasureMechanism, __version__
from skdpsynth.domain import Schema

COMMAND = [sys.executable, "-m", "skdpsynth"]
SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}  # and exit codes
ENDED = [(getattr(signal, name), code) for name, code in SIGNALS.items() if hasattr(signal, name)]


@pytest.fixture
def environment(tmp_path):
    """Temporary files lie where a test can look for them."""
    (tmp_path / "temporary").mkdir()
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path / "temporary")}


@pytest.fixture
def run(tmp_path, environment):
    def run(*arguments, program=COMMAND, **more):
        return subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path, env=environment, **more)

    return run


def as_usual():
    """Let signals end a process, also where what runs the tests is deaf to them, as under nohup."""
    for number, _ in ENDED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def start(tmp_path, environment):
    """Start a command, and end it whatever the test does."""
    started = []

    def start(*arguments, **more):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if os.name == "posix":
            more["preexec_fn"] = as_usual
        started.append(subprocess.Popen([*COMMAND, *map(str, arguments)], cwd=tmp_path, env=environment, text=True, **pipes, **more))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def folder(tmp_path):
    """A table of two numbers with its schema, a budget, and a fitted model."""
    X = np.random.default_rng(0).random((2000, 2))
    np.savetxt(tmp_path / "points.csv", X, delimiter=",", header="x,y", comments="")
    columns = {"columns": [{"name": name, "kind": "continuous", "bounds": [0.0, 1.0]} for name in "xy"]}
    (tmp_path / "points.json").write_text(json.dumps(columns), encoding="utf-8")
    assert list(Schema.of(tmp_path / "points.json")) == ["x", "y"]
    PrivacyAccountant(4, ledger=tmp_path / "budget.db")
    PrivateMeasureMechanism(depth=4).fit(X).save(tmp_path / "model.skdp")
    return tmp_path


def test_without_click_one_sentence_says_what_to_install_and_the_version_is_that_of_the_package(run):
    script = "import sys; sys.modules['click'] = None; from skdpsynth.cli import main; main()"
    done = run(program=[sys.executable, "-c", script])
    assert done.returncode == 2
    assert done.stderr == "Error: The command line needs the package click; run pip install 'skdpsynth[cli]'.\n"
    assert run("--version").stdout == f"skdpsynth {__version__}\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["synthesize", "--help"], ["budget", "show", "--help"]])
def test_help_waits_for_no_numerical_library(run, words):
    """They take more than a second to import, and a person who asks for help should not wait for them."""
    script = f"import sys; from skdpsynth.cli import main\ntry: main({words})\nexcept SystemExit as end: print(end.code, *sys.modules)"
    code, *modules = run(program=[sys.executable, "-c", script]).stdout.splitlines()[-1].split()
    assert (code, {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "rich"} & set(modules)) == ("0", set())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(environment, run, shell):
    environment["_SKDPSYNTH_COMPLETE"] = f"{shell}_source"
    assert "_SKDPSYNTH_COMPLETE" in run().stdout
    if shell == "bash":
        environment |= {"_SKDPSYNTH_COMPLETE": "bash_complete", "COMP_WORDS": "skdpsynth syn", "COMP_CWORD": "1"}
        assert run().stdout == "plain,synthesize\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a shell with pipes")
def test_a_pipe_carries_rows_from_one_command_to_the_next(folder, environment):
    program = shlex.join(COMMAND)
    line = f"{program} sample model.skdp -n 300 -o - | {program} schema check - --schema points.json --json"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=folder, env=environment)
    assert (json.loads(done.stdout)["rows"], list((folder / "temporary").iterdir())) == (300, [])


@pytest.mark.skipif(os.name == "nt", reason="needs pipes")
def test_a_reader_who_goes_away_gets_no_traceback(folder, start):
    process = start("sample", "model.skdp", "-n", 100_000, "-o", "-")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert "Traceback" not in process.stderr.read()
    process.stdout = None


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
@pytest.mark.parametrize(("number", "code"), ENDED[:2])
def test_a_run_that_is_ended_leaves_no_half_file_and_says_what_was_charged(folder, start, number, code):
    from_pipe = number == signal.SIGINT
    options = ("--schema", "points.json", "--epsilon", 1, "-o", "out.csv")
    if from_pipe:
        process = start("synthesize", "-", *options)
        process.stdin.write("x,y\n0.5,0.5\n" * 20_000)
        process.stdin.flush()
    else:
        process = start("synthesize", "points.csv", *options, "--ledger", "budget.db", "--rows", 50_000_000)
    waited_for(lambda: list((folder / "temporary").rglob("standard_input") if from_pipe else folder.glob(".*.part")))
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in told
    charged = "The budget budget.db was charged before the run broke, and stays so: spent epsilon 0 before, 1 of 4 now.\n"
    assert (charged in told, PrivacyAccountant.at(folder / "budget.db").spent) == (not from_pipe, not from_pipe)
    assert list((folder / "temporary").iterdir()) == []
    assert not [path for path in folder.iterdir() if "out.csv" in path.name]


def waited_for(seen):
    end = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_help_of_the_installed_script_is_that_of_the_module(run):
    """The entry point names a function that is there."""
    root = Path(__file__).parents[1] / "pyproject.toml"
    if not root.exists():
        pytest.skip("needs the source tree")
    import tomllib

    target = tomllib.loads(root.read_text(encoding="utf-8"))["project"]["scripts"]["skdpsynth"]
    module, _, name = target.partition(":")
    script = f"import sys; sys.argv = ['skdpsynth', '--help']; from {module} import {name}; {name}()"
    assert (shown := run(program=[sys.executable, "-c", script]).stdout) == run("--help").stdout
    assert "Usage: skdpsynth " in shown
