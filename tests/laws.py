"""One rate of false alarms for every test that draws: 1e-9, and the faults that it is sure to find.

A test accepts at `ALARM` and shows beside it that the fault it is for has a p-value below `CERTAIN`. Where draws are too dear for both,
`has_law` looks at a few, and at ten times as many only if those look odd.
"""

import linecache
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from internals import difference, full_state
from scipy import stats

ALARM = 1e-9
CERTAIN = 1e-20
ODD = 1e-4


def chi_squared(observed: Any, expected: Any, least: float = 20) -> float:
    """Return the p-value of counts whose expectations, or their ratios, are given.

    Cells in which fewer than `least` are expected are one cell: the law of a smaller count is too far from a normal one to ask it for
    probabilities of one in a billion. A count where none is expected gives 0.
    """
    observed, expected = np.ravel(observed).astype(float), np.ravel(expected).astype(float)
    if observed[expected == 0].any():
        return 0.0
    expected = expected * (observed.sum() / expected.sum())
    small = expected < least
    if small.any():
        observed, expected = np.append(observed[~small], observed[small].sum()), np.append(expected[~small], expected[small].sum())
        if expected[-1] < least and len(expected) > 1:  # still too few: they join the least of the others
            other = np.argmin(expected[:-1])
            observed[other] += observed[-1]
            expected[other] += expected[-1]
            observed, expected = observed[:-1], expected[:-1]
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)) if len(expected) > 1 else 1.0


def symmetric(draws: Any, survival: Callable[[int], float]) -> float:
    """Return the p-value of integers against a law of two equal sides, given its P(|Z| >= k): chi squared in some 40 parts."""
    edges = set()
    for level in np.linspace(0.95, 0.05, 19):
        low, high = 0, 1
        while survival(high) > level:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if survival(middle) > level else (low, middle)
        edges.add(high)
    masses = -np.diff([1.0, *(float(survival(edge)) for edge in sorted(edges)), 0.0])
    parts = np.searchsorted(sorted(edges), np.abs(draws), "right") * np.sign(draws).astype(int) + len(edges)
    observed = np.bincount(np.ravel(parts), minlength=2 * len(edges) + 1)
    return chi_squared(observed, np.concatenate([masses[:0:-1] / 2, masses[:1], masses[1:] / 2]))


def same_law(first: Any, second: Any, least: float = 20) -> float:
    """Return the p-value of two samples of classes by chi squared; classes in which fewer than `least` are expected are one."""
    codes = np.unique(np.concatenate([first, second]), return_inverse=True)[1]
    table = np.array([np.bincount(part, minlength=codes.max() + 1) for part in np.split(codes, [len(first)])])
    small = table.sum(axis=0) * (min(len(first), len(second)) / len(codes)) < least
    if small.any():
        table = np.column_stack([table[:, ~small], table[:, small].sum(axis=1)])
    return float(stats.chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0


def kolmogorov(sample: Any, cdf: Any) -> float:
    """Return the p-value of independent draws against a distribution function, or a name that scipy knows; for laws without steps only."""
    return float(stats.kstest(np.ravel(sample), cdf).pvalue)


def binomial(successes: int, n_trials: int, probability: float) -> float:
    """Return the two-sided p-value of a number of successes."""
    return float(stats.binomtest(int(successes), int(n_trials), float(probability)).pvalue)


def clopper_pearson(successes: int, n_trials: int, alarm: float = ALARM) -> tuple[float, float]:
    """Return bounds on a probability, each of which is wrong with a probability of at most `noise_threshold`."""
    low = stats.beta.ppf(alarm, successes, n_trials - successes + 1) if successes else 0.0
    high = stats.beta.isf(alarm, successes + 1, n_trials - successes) if successes < n_trials else 1.0
    return float(low), float(high)


def has_law(draw: Callable[[int], Any], p_value: Callable[[Any], float], n: int) -> bool:
    """Whether draws have a law: n of them if nothing is odd, else ten times as many new ones; false alarms at most `ALARM`."""
    return p_value(draw(n)) > ODD or p_value(draw(10 * n)) > ALARM


def kept_beside_answers(fit: Callable[[Any], Any], table: Any, others: list, door: Any) -> list[str]:
    """Return where fits to other tables that got the same answers of the door keep something else, in words."""
    kept = full_state(fit(table))
    door.replay(door.take())
    found = []
    for other in others:
        door.take()
        found += [difference(kept, full_state(fit(other)))]
    return [words for words in found if words]


def in_threads(*tasks: Callable[[], Any]) -> None:
    """Run tasks at once; raise what one of them raised."""
    start, failures = threading.Barrier(len(tasks)), []

    def run(task: Callable[[], Any]) -> None:
        start.wait(30)
        try:
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def interrupted(call: Callable[[], Any], line: int, files: str | tuple[str, ...]) -> bool:
    """Call, with a KeyboardInterrupt where line number `line` that runs in these files begins; return whether it came so far."""
    n_lines, before = 0, sys.gettrace()

    def watch(frame: Any, event: str, _: Any) -> Any:
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(files):
            return None
        # The line of a `with` comes up again when its block ends, before the lock is given back: no interrupt of Python's comes there.
        if event == "line" and not linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with lock_of"):
            n_lines += 1
            if n_lines == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return watch

    sys.settrace(watch)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def calls_of(task: Callable[[], Any]) -> int:
    """Return how many functions a task calls: its work, whatever else the machine does."""
    calls, before = [0], sys.getprofile()

    def count(frame: Any, event: str, _: Any) -> None:
        calls[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        task()
    finally:
        sys.setprofile(before)
    return calls[0]


def refuses(error: type[BaseException], words: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Assert that a call raises an error with these words, a regular expression."""
    with pytest.raises(error, match=words):
        call(*arguments, **named)


def in_child(task: Callable[[], Any], seconds: int = 20) -> Any:
    """Return what a task gives, or raises, in a forked process, which is ended after some seconds."""
    if not hasattr(os, "fork"):
        pytest.skip("fork is a POSIX call")
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        signal.alarm(seconds)  # ends a child that hangs, which then says nothing
        try:
            try:
                result = task()
            except Exception as error:
                result = error
            os.write(writer, pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(process, 0)
    return pickle.loads(said)
