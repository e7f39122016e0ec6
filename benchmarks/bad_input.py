"""Junk in every argument of every public callable: refused in a sentence, accepted, or a fault.

    python benchmarks/bad_input.py [--group domain] [--random 15000] [--page docs/bad_input.md]

Each value of `tests/junk_values.py` stands once in each argument of each public callable, which `tests/junk_calls.py` finds by the exports
of the rooms. Then hypothesis draws calls with junk in several arguments, values that nobody listed, and programs that set scikit-learn's
`assume_finite`, numpy's `seterr` or warnings as errors. A call may take 20 seconds, and the process 6 GiB. A fault is an error that no
`raise` of this package or of scikit-learn made, a call that hangs, budget spent by a refused call, an argument that changed, or a message
that quotes a private cell. --page writes the table into a page of the docs. The exit code is 1 if there are faults.
"""

import argparse
import collections
import faulthandler
import json
import os
import re
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from junk_calls import attempt, calls_by_group, cases, hastily  # noqa: E402
from junk_judge import FAULTS, judge  # noqa: E402
from junk_values import JUNK, KINDS  # noqa: E402

GIB = 1 << 30


class Tally:
    """What came of calls, by group and by kind of junk."""

    def __init__(self):
        self.groups, self.kinds, self.faults = (
            collections.defaultdict(collections.Counter),
            collections.defaultdict(collections.Counter),
            [],
        )

    def take(self, call, words, kind, outcome, faults, message):
        for counter in (self.groups[call.group], self.kinds[kind]):
            counter.update(["tried", outcome, *faults])
        wrong = [fault for fault in faults if fault != "long"]
        if faults:
            self.faults.append((str(call), words, faults, message[:300]))
        if wrong:
            print(f"{call} {words}: {', '.join(wrong)}: {message[:200]!r}", flush=True)

    @property
    def n_wrong(self):
        return sum(any(fault != "long" for fault in faults) for _, _, faults, _ in self.faults)


def try_call(tally, call, junk, words, kind, mode):
    faulthandler.dump_traceback_later(120, exit=True)  # what no signal stops
    outcome = attempt(call, junk, judge, mode)
    faulthandler.cancel_dump_traceback_later()
    tally.take(call, words, kind, *outcome)


def one_by_one(tally, calls):
    for call in calls:
        for argument in call.arguments:
            for words in call.junk_for(argument):
                try_call(tally, call, {argument: JUNK[words]()}, f"{argument}={words}", words.split(": ")[0], "plain")


def drawn(tally, calls, n_calls):
    quick = [call for call in calls if not call.slow]

    @seed(0)
    @settings(max_examples=n_calls, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases(quick))
    def draw(case):
        call, junk, mode = case
        try_call(tally, call, junk, f"{sorted(junk)} {mode}", "drawn by hypothesis", mode)

    draw()


def table(counters, first):
    heads = ("tried", "refused", "accepted", *FAULTS)
    lines = [f"| {first} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    whole = sum(counters.values(), collections.Counter())
    for name, counter in [*counters.items(), ("all", whole)]:
        shown = dict(counter, accepted=counter["accepted"] + counter["warned"])
        lines.append(f"| {name} | " + " | ".join(f"{shown.get(head, 0):,}" for head in heads) + " |")
    return "\n".join(lines)


def write_page(page, tally):
    text = page.read_text(encoding="utf-8")
    for name, counters, first in (("groups", tally.groups, "callables"), ("kinds", tally.kinds, "junk")):
        made = f"<!-- {name} -->\n\n{table(counters, first)}\n\n<!-- end of {name} -->"
        text = re.sub(rf"<!-- {name} -->.*<!-- end of {name} -->", lambda _: made, text, flags=re.DOTALL)  # noqa: B023
    page.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", default="")
    parser.add_argument("--random", type=int, default=15_000)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--faults", type=Path, help="a file for what went wrong, as JSON")
    options = parser.parse_args()
    page, told = (None if each is None else each.resolve() for each in (options.page, options.faults))
    resource.setrlimit(resource.RLIMIT_AS, (6 * GIB, 6 * GIB))
    sysconf = os.sysconf
    os.sysconf = lambda name: 6 * GIB // sysconf("SC_PAGE_SIZE") if name == "SC_PHYS_PAGES" else sysconf(name)
    os.chdir(tempfile.mkdtemp(prefix="junk"))  # some junk is a good name of a file
    warnings.simplefilter("ignore")
    hastily()
    tally, everything = Tally(), []
    for group, calls in calls_by_group():
        if options.group in group:
            start = time.perf_counter()
            one_by_one(tally, calls)
            print(f"{group}: {dict(tally.groups[group])} in {time.perf_counter() - start:.0f} s", flush=True)
            everything += calls
    if options.random:
        drawn(tally, everything, options.random)
    print(table(tally.groups, "callables"), table(tally.kinds, "junk"), sep="\n\n")
    n_calls = sum(each["tried"] for each in tally.groups.values())
    print(f"{n_calls} calls of {len(everything)} callables, {len(JUNK)} values of {len(KINDS)} kinds")
    if page:
        write_page(page, tally)
    if told:
        told.write_text(json.dumps(tally.faults, indent=0))
    sys.exit(tally.n_wrong > 0)


if __name__ == "__main__":
    main()
