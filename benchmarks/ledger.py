"""Ledgers in files: charges per second, time to open, and charges that survive processes killed at random moments.

A charge is in the file on the disk before anything is drawn. This takes some three flushes, so the script also prints how often the disk
can flush. A folder in memory, where a flush costs nothing, shows the remaining time. After processes were killed, the file is also copied
without its ``-wal``, and must have every reported charge.

    python benchmarks/ledger.py [--full] [--folder FOLDER]
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from skdpsynth import PrivacyAccountant
from skdpsynth.exceptions import BudgetExceededError

FAILED = []
LOSS = Fraction(1, 100)


def report(what, value, target, at_least=False, unit=""):
    met = value >= target if at_least else value <= target
    if not met:
        FAILED.append(what)
    print(f"{what}: {value:.4g}{unit}, target {'>=' if at_least else '<='} {target}{unit}: {'met' if met else 'MISSED'}", flush=True)


def flushes(folder, n=200):
    """Return how often a second the disk can flush what a file was given."""
    with open(Path(folder) / "flushed", "wb", buffering=0) as file:
        file.write(bytes(4096 * n))
        os.fsync(file.fileno())
        start = time.perf_counter()
        for i in range(n):
            os.pwrite(file.fileno(), b"x" * 4096, 4096 * i)
            os.fsync(file.fileno())
        return n / (time.perf_counter() - start)


def spends(folder, n):
    accountant = PrivacyAccountant(10**6, ledger=Path(folder) / "speed.db")
    start = time.perf_counter()
    for i in range(n):
        accountant.spend(LOSS, name=f"step {i}")
    return n / (time.perf_counter() - start)


def opening(folder, n):
    """Make a ledger of n entries, and return the seconds to open it and read what was spent."""
    path, many = Path(folder) / "long.db", PrivacyAccountant(10**9)
    for i in range(n):
        many.spend(LOSS, name=f"step {i}")
    ledger = PrivacyAccountant(10**9, ledger=path)
    start = time.perf_counter()
    ledger.import_record(many.record())
    print(f"import of {n:.0e} entries, in one transaction: {time.perf_counter() - start:.3g} s", flush=True)
    ledger.close()
    start = time.perf_counter()
    again = PrivacyAccountant(10**9, ledger=path)
    spent = again.spent
    seconds = time.perf_counter() - start
    assert spent == n * LOSS
    start = time.perf_counter()
    again.spend(LOSS, name="one more")
    print(f"one more charge: {1e3 * (time.perf_counter() - start):.3g} ms; {path.stat().st_size / 1e6:.3g} MB", flush=True)
    return seconds


def work(path, budget, which, told, n_spends):
    """Spend, and write down each charge after it was made; until the budget is spent or somebody kills this process."""
    random.seed(which * 7919 + os.getpid())
    accountant = PrivacyAccountant(budget, ledger=path)
    with open(told, "ab", buffering=0) as file:
        for i in range(n_spends):
            try:
                accountant.spend(LOSS, name=f"{which}-{i}")
            except BudgetExceededError:
                return
            file.write(f"{which}-{i}\n".encode())


def killed_round(folder, n_processes, n_spends, seconds):
    """Let processes spend from one ledger, kill each of them at a random moment, and look at what is left."""
    path, budget = Path(folder) / "shared.db", n_processes * n_spends * LOSS * Fraction(3, 4)
    told = [Path(folder) / f"told {which}" for which in range(n_processes)]
    started = []
    for which in range(n_processes):
        process = os.fork()
        if process == 0:
            try:
                work(path, budget, which, told[which], n_spends)
            finally:
                os._exit(0)
        started.append(process)
    moments = sorted((random.uniform(0, seconds), process) for process in started)
    begin, n_killed = time.perf_counter(), 0
    for moment, process in moments:
        time.sleep(max(0, moment - (time.perf_counter() - begin)))
        os.kill(process, signal.SIGKILL)
    for process in started:
        n_killed += os.WIFSIGNALED(os.waitpid(process, 0)[1])
    copy = Path(folder) / "alone.db"
    shutil.copyfile(path, copy)  # as people copy: what was drawn is in the file alone
    alone = PrivacyAccountant(budget, ledger=copy)
    alone_spent, alone_kept = alone.spent, {entry.name for entry in alone.ledger}
    start = time.perf_counter()
    accountant = PrivacyAccountant(budget, ledger=path)
    spent, kept = accountant.spent, [entry.name for entry in accountant.ledger]
    opened = time.perf_counter() - start
    reported = {line for file in told if file.exists() for line in file.read_text().splitlines()}
    accountant.spend(LOSS, name="after") if accountant.remaining >= LOSS else None
    return {
        "over the budget": int(spent > budget),
        "lost": len(reported - set(kept)),
        "lost without -wal": len(reported - alone_kept) + int(alone_spent < len(reported) * LOSS),
        "twice": len(kept) - len(set(kept)),
        "sums that differ from the lines": int(spent != len(kept) * LOSS),
        "charged and not reported": len(set(kept) - reported),
        "charged": len(kept),
        "killed": n_killed,
        "spent to the end": int(spent == budget),
        "opening": opened,
    }


def killed(folder, n_rounds, n_processes=8, n_spends=200):
    """Print and judge what rounds of killed processes leave behind."""
    totals, slowest = {}, 0.0
    for k in range(n_rounds):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            found = killed_round(place, n_processes, n_spends, random.uniform(0.1, 8))
        slowest = max(slowest, found.pop("opening"))
        totals = {name: totals.get(name, 0) + value for name, value in found.items()}
        if k % 10 == 9:
            print(f"  {k + 1} rounds: {totals}", flush=True)
    print(f"{n_rounds} rounds of {n_processes} processes x {n_spends} charges: {totals}; slowest opening {slowest:.3g} s")
    for name in ("over the budget", "lost", "lost without -wal", "twice", "sums that differ from the lines"):
        report(f"... {name}", totals[name], 0)
    report("... charged and not reported, by process killed", totals["charged and not reported"] / max(totals["killed"], 1), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="50 rounds of killed processes, not 10")
    parser.add_argument("--folder", help="where to put the ledgers: on the disk that shall be measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rate = flushes(folder)
        found = spends(folder, 500)
        print(f"charges a second on this disk: {found:.4g}; it flushes {rate:.4g} times a second: {found / rate:.2f} charges a flush")
        report("seconds to open a ledger of 1e5 entries", opening(folder, 10**5), 1, unit=" s")
        killed(folder, 50 if arguments.full else 10)
    memory = Path("/dev/shm")
    if memory.is_dir():
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            report("charges a second where a flush costs nothing", spends(folder, 3000), 1000, at_least=True)
    sys.exit(f"missed: {', '.join(FAILED)}" if FAILED else 0)


if __name__ == "__main__":
    main()
