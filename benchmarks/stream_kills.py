"""Streams that are fed and saved in one step, and killed with SIGKILL at random points: whether they continue, and what they spend.

    python benchmarks/stream_kills.py [--kills 200] [--ticks 12] [--seed 0] [--only "no ledger"]

A child process loads the stream, or begins it, and calls ``partial_fit(rows, save="stream.zip")`` tick by tick, from row
``n_samples_seen_`` on. In turn it is killed after a random time, where a random line of the package begins, and where one begins of the
files that keep ledger and file in step. Then another child continues, until all ticks are in, and the next stream begins. The budget is
equal to epsilon. The script notes all results of calls, like a user who draws a sample after each call.

| column | meaning |
|---|---|
| kills | children that were killed, and streams that they fed |
| dead | streams that could not continue: there must be none |
| spent / epsilon | the largest, of all streams; in the ledger where there is one |
| rows lost | rows neither in a block nor waiting at the end, or in a block whose mean they do not fit |
| released twice | rows in two different blocks that were shown |
| drawn anew | blocks that were charged and drawn, and died with their process |
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import skdpsynth
from skdpsynth import OnlineSynthesizer, PrivacyAccountant, load

PACKAGE = os.path.dirname(skdpsynth.__file__) + os.sep
_STEPS = ("synthesis/_online.py", "privacy/_streams.py", "privacy/_ledger_file.py", "_atomic_write.py")
STEPS = tuple(PACKAGE + name for name in _STEPS)
EPSILON, ROWS = 10_000.0, 60  # so much epsilon that the mean of a block tells which rows are in it
SETTINGS = {
    "ledger in a file": ({}, True),
    "no ledger": ({}, False),
    "ledger in a file, ticks": ({"neighboring": "add_or_remove_one", "growth": 1.5}, True),
    "ledger in a file, window": ({"window": 200}, True),
    "no ledger, ticks": ({"neighboring": "add_or_remove_one", "growth": 1.5}, False),
}


def rows_of(tick, ticks):
    """Row t of the stream holds its time, from 0 to 1."""
    return ((np.arange(tick * ROWS, (tick + 1) * ROWS) + 0.5) / (ticks * ROWS))[:, None]


def seen(model):
    """How many ticks are in."""
    return model.n_ticks_seen_ if model._stream.in_ticks else model.n_samples_seen_ // ROWS


def blocks(model):
    """(start, stop, what its noise is known by) of each block."""
    return [(start, stop, float(part.sample(20, random_state=0).sum())) for start, stop, part in model.blocks_]


def feed(folder, setting, has_ledger, ticks, killer=None):
    """Feed the stream to its end, and note what every call shows; kill this process at a line of the package, if asked to."""
    path, budget, relation = folder / "stream.zip", None, setting.get("neighboring", "replace_one")
    if killer is not None:
        sys.settrace(killer.enter)
    if has_ledger:
        budget = PrivacyAccountant(EPSILON, ledger=folder / "budget.db", neighboring=relation)
    model = load(path) if path.exists() else OnlineSynthesizer(epsilon=EPSILON, accountant=budget, **setting)
    with open(folder / "shown", "a") as out:
        for tick in range(seen(model) if hasattr(model, "accountant_") else 0, ticks):
            model.partial_fit(rows_of(tick, ticks), save=path)
            out.write(json.dumps(blocks(model)) + "\n")
            out.flush()


class Killer:
    """Counts lines that begin of some files, and kills the process at one of them."""

    def __init__(self, at, files):
        self.left, self.files = at, files

    def enter(self, frame, event, argument):
        return self.line if frame.f_code.co_filename.startswith(self.files) else None

    def line(self, frame, event, argument):
        self.left -= event == "line"
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.line


def child(*arguments, seconds=None):
    """Feed in a fork, which is killed after some time; return "done", "killed", or what was said."""
    read, write = os.pipe()
    number = os.fork()
    if not number:
        try:
            feed(*arguments)
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode()[:500])
            os._exit(1)
        os._exit(0)
    os.close(write)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(number, signal.SIGKILL)
    with os.fdopen(read) as said:
        words = said.read()
    status = os.waitpid(number, 0)[1]
    return "killed" if os.WIFSIGNALED(status) else "done" if status == 0 else words


def laws(folder, has_ledger, ticks):
    """Return what a stream that is over has spent, and rows lost, released twice and drawn anew."""
    model = load(folder / "stream.zip")
    spent = PrivacyAccountant.at(folder / "budget.db").spent if has_ledger else model.accountant_.spent
    shown = {block for line in (folder / "shown").read_text().splitlines() for block in map(tuple, json.loads(line))}
    unit = ROWS if model._stream.in_ticks else 1
    often = np.zeros(ticks * ROWS, dtype=int)
    for start, stop, _ in shown:
        often[start * unit : stop * unit] += 1
    kept, n_rows = model._stream, ticks * ROWS
    lost = (n_rows - model._time * unit) + abs(kept.n_open - (kept.n_seen - kept.begun) * unit)
    lost += sum(after[0] - before[1] for before, after in zip(kept.blocks, kept.blocks[1:], strict=False)) * unit
    lost += (kept.begun - kept.blocks[-1][1] if kept.blocks else kept.begun) * unit
    for start, stop, part in kept.blocks:  # one that was left out would lie in the block before it
        mean = part.sample(2000, random_state=0).mean()
        lost += (stop - start) * unit * (abs(mean - (start + stop) * unit / 2 / n_rows) > 0.3 / n_rows * (stop - start) * unit + 0.002)
    anew = sum("drawn anew" in entry.name for entry, _ in model.accountant_.lines())
    return float(spent) / EPSILON, lost, int((often > 1).sum()), anew


def tried(name, kills, ticks, rng):
    """Kill children until there were so many; print the line of this setting, and return whether all laws hold."""
    setting, has_ledger = SETTINGS[name]
    started, n_killed, streams, dead, most, lost, twice, anew, said = time.perf_counter(), 0, 0, 0, 0.0, 0, 0, 0, ""
    whole = None
    while n_killed < kills:
        streams += 1
        with tempfile.TemporaryDirectory() as place:
            folder, outcome = Path(place), "killed"
            while outcome == "killed":
                arguments = folder, setting, has_ledger, ticks
                if whole is None:  # how long it takes undisturbed
                    at = time.perf_counter()
                    outcome = child(*arguments)
                    whole = time.perf_counter() - at
                elif n_killed >= kills:
                    outcome = child(*arguments)
                elif n_killed % 3 == 0:
                    outcome = child(*arguments, seconds=rng.uniform(0, whole / 2))
                elif n_killed % 3 == 1:
                    outcome = child(*arguments, Killer(int(10 ** rng.uniform(2, 5.5)), PACKAGE))
                else:
                    outcome = child(*arguments, Killer(int(10 ** rng.uniform(1, 4)), STEPS))
                n_killed += outcome == "killed"
            if outcome != "done":
                dead, said = dead + 1, outcome
                continue
            spent, *more = laws(folder, has_ledger, ticks)
            most, (lost, twice, anew) = max(most, spent), np.add((lost, twice, anew), more)
    seconds = time.perf_counter() - started
    print(f"| {name} | {n_killed} / {streams} | {dead} | {most:g} | {lost} | {twice} | {anew} | {seconds:.0f} | {said}", flush=True)
    return dead == lost == twice == 0 and most <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ticks", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=SETTINGS, default=None)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| budget | kills / streams | dead | spent / epsilon | rows lost | released twice | drawn anew | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    kept = [tried(name, wanted.kills, wanted.ticks, np.random.default_rng(wanted.seed)) for name in wanted.only or SETTINGS]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
