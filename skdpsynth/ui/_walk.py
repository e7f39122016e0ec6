"""One walk through the form, from a file to its releases: what was typed, and the commands that it runs."""

import re
import secrets
import shlex
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skdpsynth.ui._columns import Facts, Typed
from skdpsynth.ui._work import Command

SCHEMA = "schema.yaml"
FILES = {"synthetic.csv": "text/csv", "card.html": "text/html", "model.skdp": "application/octet-stream"}
EVALUATION = "evaluation-private.html"
_END = "END-OF-SCHEMA"


@dataclass
class Release:
    """A release of a walk: the folder of its files, and what the command said."""

    folder: Path
    arguments: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass
class Walk:
    """State of a walk; each tab has its own, and no page changes another's."""

    folder: Path
    file: str = ""
    columns: list[Facts] = field(default_factory=list)
    read: Facts = field(default_factory=dict)
    typed: dict[str, Typed] = field(default_factory=dict)  # by page
    faults: dict[str, Typed] = field(default_factory=dict)  # by page: a sentence for each field
    schema: str = ""
    findings: dict[str, Any] | None = None
    preview: dict[str, Any] | None = None
    ledger: Path | None = None
    budget: list[str] = field(default_factory=list)  # the command that made the ledger, or would
    command: Command | None = None
    releases: list[Release] = field(default_factory=list)
    ticket: str = field(default_factory=secrets.token_urlsafe)  # what a form sends back: the same is taken once
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def reached(self) -> set[str]:
        """The steps that can be gone to."""
        after = {"columns": "columns" in self.typed, "check": self.schema, "budget": self.schema, "release": self.schema and self.ledger}
        return {step for step, is_there in (after | {"result": self.releases}).items() if is_there}

    def start(self, title: str, page: str, arguments: Sequence[str], done: Callable[[Command], None]) -> Command:
        """Start a command of this walk, which has one at a time."""
        with self.lock:
            if self.command is None or self.command.code is not None:
                self.command = Command(title, page, arguments, self.folder, done)
            return self.command

    def unit_options(self) -> list[str]:
        typed = self.typed["columns"]
        return [f"--unit={typed['unit']}", f"--max-rows-per-unit={typed['most']}"] if typed.get("whose") == "column" else []

    def plan(self, relation: str) -> list[str]:
        """Return the command for the preview: it reads no row."""
        typed = self.typed["release"]
        epsilons = sorted({0.1, 0.3, 1.0, 3.0, float(typed["epsilon"])})
        options = [
            f"--rows={typed['about']}",
            f"--delta={typed['delta']}",
            f"--neighboring={relation}",
            *self.unit_options(),
            *self._target(),
        ]
        return [
            "plan",
            "--schema",
            SCHEMA,
            *options,
            *(f"--epsilon={each:g}" for each in epsilons),
            "--repeats=2",
            "--time-limit=30",
            "--json",
        ]

    def _target(self) -> list[str]:
        target = self.typed["release"].get("target")
        return [f"--stratify={target}"] if target else []

    def synthesize(self, relation: str) -> Release:
        """Return a release to be, with the command that makes it."""
        typed = self.typed["release"]
        options = [f"--epsilon={typed['epsilon']}", f"--delta={typed['delta']}", f"--neighboring={relation}", *self.unit_options()]
        rows = [f"--rows={typed['rows']}"] if typed.get("rows") else []
        folder = self.folder / str(len(self.releases) + 1)
        return Release(folder, ["synthesize", self.file, "--schema", SCHEMA, *options, *self._target(), *rows])

    def script(self, release: Release) -> str:
        """Return the commands of a release as a script of the shell."""
        end = _END
        while end in self.schema:
            end += "-"
        ledger = shlex.quote(self.ledger.name if self.ledger else "")
        budget = f"[ -e {ledger} ] || skdpsynth {shlex.join(self.budget[:2])} {ledger} {shlex.join(self.budget[3:])}"
        places = f"--ledger {ledger} -o synthetic.csv --card card.html --model model.skdp"
        return (
            f"#!/bin/sh\n# Makes such a release again, where {self.file} and {ledger} lie. It charges the budget once more.\nset -eu\n"
            f"[ -e {SCHEMA} ] || cat > {SCHEMA} <<'{end}'\n{self.schema.rstrip()}\n{end}\n{budget}\n"
            f"skdpsynth {shlex.join(release.arguments)} \\\n    {places}\n"
            f"# Private, do not publish what it prints: skdpsynth evaluate {shlex.quote(self.file)} synthetic.csv --schema {SCHEMA}\n"
        )


def file_name(name: str) -> str:
    """Return the name under which a file is kept: its own, unless a command could mistake it for anything else."""
    from skdpsynth.frames import kind_of_file, suffix_of

    name = re.split(r"[\\/]", name)[-1]
    kind_of_file(Path(name), "The file")  # raises ValueError
    suffix = name[name.lower().rindex(suffix_of(Path(name))) :]
    is_plain = re.fullmatch(r"\w[\w .-]*", name) and name not in (SCHEMA, *FILES)
    return name if is_plain else f"table{suffix}"
