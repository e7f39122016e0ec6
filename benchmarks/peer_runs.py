"""Run a peer: a script in an environment of its own that reads a table and a schema, and writes synthetic rows.

A script of benchmarks/peers/ is called as

    PYTHON SCRIPT --table ROWS.csv --schema SCHEMA.json --epsilon E --delta D --seed S --out SYNTHETIC.csv

and prints one line of JSON about itself (tool, version, fit_seconds). The packages it needs, with their versions, are in a list (NAME.txt
beside it) or in its own head, as a block of inline script metadata (PEP 723).
"""

import json
import os
import re
import resource
import signal
import subprocess
import tomllib
import venv
from functools import partial
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
HEAD = re.compile(r"^# /// script\n(.*?)^# ///$", re.MULTILINE | re.DOTALL)


def metadata(script):
    """Return the inline metadata of a script; {} where it has none."""
    block = HEAD.search(script.read_text(encoding="utf-8"))
    return tomllib.loads(re.sub(r"^# ?", "", block[1], flags=re.MULTILINE)) if block else {}


def environment(name, folder, requirements=None):
    """Return the interpreter of an environment, made where there is none, of peers/NAME.txt or of these requirements."""
    python = folder / name / "bin" / "python"
    if not python.exists():
        venv.create(folder / name, with_pip=True)
        wanted = ["-r", PEERS / f"{name}.txt"] if requirements is None else requirements
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    return python


def at_most(limit):
    """Limit the processor seconds of this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def run(words, limit):
    """Run a command without the settings of this interpreter; return what it prints, or None if it took too long."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, words)), stdout=subprocess.PIPE, text=True, env=clean, check=False, preexec_fn=partial(at_most, limit)
    )
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    done.check_returncode()
    return done.stdout


def fitted(command, rows, columns, out, *, epsilon, delta, seed, limit):
    """Fit a peer and return what it says of itself, with its rows in the file `out`; None if it took too long.

    What a run before this one left at `out` is not made again.
    """
    report = out.with_suffix(".json")
    if not report.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        table, facts = out.with_suffix(".rows.csv"), out.with_suffix(".schema.json")
        rows.to_csv(table, index=False)
        facts.write_text(json.dumps({"columns": columns}))
        options = ["--table", table, "--schema", facts, "--epsilon", epsilon, "--delta", delta, "--seed", seed, "--out", out]
        if (said := run([*command, *options], limit)) is None:
            return None
        report.write_text(said.splitlines()[-1])
    return json.loads(report.read_text())
