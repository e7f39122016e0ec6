"""Interrupts, exceptions, lack of memory, kills and full disks at random points, and the state of object, ledger and files afterwards.

    python benchmarks/faults.py [--trials 100] [--soak 1000000] [--seed 0]

An injected fault is raised where a random line of the package begins. These statements must hold:

* `fit`, `fit` of a whole model: the object is as it was (or, after the last line, done), the ledger is never below what was drawn, and a
  second try gives the model of an undisturbed fit of the same seed.
* `partial_fit`: rows count once after a second try, or the second try is refused; `spent` is what was declared.
* updates of counters: the second try counts once, and all readings are those of an undisturbed counter of the same seed.
* `sample`: changes nothing. `save`: leaves the old file or the new one, whole, and no other file beside it.
* `spend` in a ledger file: no reported charge is lost, and none counts twice.

A kill is SIGKILL after a random time; a full disk is a limit on the size of files, at which the system refuses to write. At the end comes a
stream of a million rows, saved and loaded on the way, with time and memory per call, the amount spent, and the distance of its sample.
"""

import argparse
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

import skdpsynth
from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
    load,
)
from skdpsynth.continual import BinaryCounter, KaryCounter, SparseCounter, SquareRootCounter, UnboundedCounter
from skdpsynth.models import _latent_factors
from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, DiscreteMatrixLaplace, SeededBits

PACKAGE = os.path.dirname(skdpsynth.__file__) + os.sep
FAULTS = (KeyboardInterrupt, MemoryError, OSError, RuntimeError)
X = np.random.default_rng(0).random((300, 2))
ESTIMATORS = {
    "PrivateMeasureMechanism": PrivateMeasureMechanism(),
    "PrivateMeasureMechanism, optimal": PrivateMeasureMechanism("optimal", neighboring="add_or_remove_one"),
    "SignedMeasureMechanism": SignedMeasureMechanism(30),
    "PrivatePCA": PrivatePCA(),
    "LowDimSynthesizer": LowDimSynthesizer(1),
    "LatentFactorSynthesizer": LatentFactorSynthesizer(n_factors=2),
}
STREAMS = {
    "OnlineSynthesizer": {},
    "OnlineSynthesizer, window": {"window": 60, "growth": 1.01},
    "OnlineSynthesizer, paper": {"strategy": "paper"},
    "OnlineSynthesizer, paper, sparse": {"strategy": "paper", "counter": "sparse"},
}
COUNTERS = {
    "KaryCounter": lambda rng: KaryCounter(2000, n_counters=3, random_state=rng),
    "BinaryCounter": lambda rng: BinaryCounter(2000, n_counters=3, random_state=rng),
    "SparseCounter": lambda rng: SparseCounter(2000, n_counters=3, random_state=rng),
    "SquareRootCounter": lambda rng: SquareRootCounter(2000, n_counters=3, random_state=rng),
    "UnboundedCounter": lambda rng: UnboundedCounter(n_counters=3, random_state=rng),
}


class Lines:
    """Counts lines of the package that begin, and raises a fault where the one asked for does."""

    def __init__(self, at=0, fault=KeyboardInterrupt):
        self.at, self.fault, self.count = at, fault, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.count += 1
            if self.count == self.at:
                raise self.fault("injected")
        return self._line


def n_lines(call):
    with Lines() as lines:
        call()
    return lines.count


def disturbed(call, at, fault):
    """Call, with a fault at a line; return whether it came out of the call."""
    try:
        with Lines(at, fault):
            call()
    except fault:
        return True
    return False


def points(call, trials, rng):
    """Random lines of a call and faults; `call` is run once to know how many lines it has."""
    lines = n_lines(call)
    for _ in range(trials):
        yield int(rng.integers(1, lines + 1)), FAULTS[rng.integers(len(FAULTS))]


class Draws:
    """How often noise is drawn, of any kind."""

    def __init__(self):
        self.n = 0

    def __enter__(self):
        self.kinds = {kind: kind.sample for kind in (DiscreteLaplace, DiscreteGaussian, DiscreteMatrixLaplace)}
        for kind, sample in self.kinds.items():
            kind.sample = lambda noise, size, rng, sample=sample: self._count() or sample(noise, size, rng)
        return self

    def __exit__(self, *_):
        for kind, sample in self.kinds.items():
            kind.sample = sample

    def _count(self):
        self.n += 1


def fits(model, trials, rng):
    """Faults in `fit`; return how many came out of it."""
    shared = PrivacyAccountant(10**6, neighboring=model.neighboring)
    model = model.set_params(accountant=shared, random_state=0).fit(X)

    def rows_of(fitted):
        return fitted.sample(50, random_state=1) if hasattr(fitted, "sample") else fitted.components_

    expected, out = rows_of(model), 0
    for at, fault in points(lambda: model.fit(X), trials, rng):
        before, spent = dict(vars(model)), shared.spent
        with Draws() as draws:
            failed = disturbed(lambda: model.fit(X), at, fault)
        charged = shared.spent - spent
        assert charged in (0, 1), charged
        assert charged or not draws.n
        after = vars(model)
        if after["accountant_"] is before["accountant_"]:
            assert failed
            assert after.keys() == before.keys()
            assert all(after[name] is before[name] for name in before)
        else:
            assert charged == 1
        out += failed
        assert np.array_equal(rows_of(model.fit(X)), expected)
    return out


def streams(parameters, trials, rng):
    """Faults in `partial_fit` of rows that fill several blocks; a paper stream may refuse to go on once it has begun to count."""

    def begun():
        return OnlineSynthesizer(random_state=0, **parameters).fit(X[:60])

    calm = begun()
    data = pickle.dumps(calm)
    calm = pickle.loads(data).partial_fit(X[60:110])
    expected, out = calm.sample(50, random_state=1), 0
    for at, fault in points(lambda: pickle.loads(data).partial_fit(X[60:110]), trials, rng):
        model = pickle.loads(data)
        failed = disturbed(lambda: model.partial_fit(X[60:110]), at, fault)  # noqa: B023
        out += failed
        if failed and model.n_samples_seen_ == 60:
            try:
                model.partial_fit(X[60:110])
            except RuntimeError as error:
                assert "was interrupted" in str(error)  # noqa: PT017
                assert parameters.get("strategy") == "paper"
                continue
        assert model.n_samples_seen_ == 110
        assert model.accountant_.spent == 1
        names = [entry.name for entry in model.accountant_.ledger if not entry.name.startswith("resumed")]
        assert len(names) == len(set(names))
        assert model.sample(50, random_state=1).shape == expected.shape
    return out


def counters(make, trials, rng):
    """Faults in an update, at random times of a counter."""
    broken, calm, out = make(SeededBits(3)), make(SeededBits(3)), 0
    for _ in range(trials):
        for _ in range(rng.integers(1, 8)):
            broken.update([1, 0, 2])
            calm.update([1, 0, 2])
        if disturbed(lambda: broken.update([1, 0, 2]), int(rng.integers(1, 60)), FAULTS[rng.integers(len(FAULTS))]):
            out += 1
            broken.update([1, 0, 2])
        calm.update([1, 0, 2])
        assert np.array_equal(broken.value, calm.value)
        assert broken.n_steps == calm.n_steps
    return out


def samples(model, trials, rng):
    """Faults in `sample`: the model and its ledger do not change."""
    model = model.fit(X)
    expected, spent, out = model.sample(500, random_state=1), model.accountant_.spent, 0
    for at, fault in points(lambda: model.sample(500, random_state=2), trials, rng):
        out += disturbed(lambda: model.sample(500, random_state=2), at, fault)
        assert np.array_equal(model.sample(500, random_state=1), expected)
        assert model.accountant_.spent == spent
    return out


def two_models():
    """A model to save, one that is there, and what tells them apart."""
    models = PrivateMeasureMechanism().fit(X), PrivateMeasureMechanism().fit(X**3)
    return models, [model.sample(50, random_state=1) for model in models]


def is_whole(path, both):
    rows = load(path).sample(50, random_state=1)
    return any(np.array_equal(rows, each) for each in both)


def saves(trials, rng, folder):
    """Faults in `save` over an older file."""
    (old, new), both = two_models()
    path, out = folder / "model.zip", 0
    old.save(path)
    for number, (at, fault) in enumerate(points(lambda: new.save(path), trials, rng)):
        model = (old, new)[number % 2]
        out += disturbed(lambda: model.save(path), at, fault)  # noqa: B023
        assert is_whole(path, both)
        assert [file.name for file in folder.iterdir()] == ["model.zip"]
    return out


def in_child(work, then=lambda child: None):
    """Run `work` in a fork; `then` gets its process number. Return its exit status."""
    child = os.fork()
    if not child:
        try:
            work()
        except (OSError, ValueError):
            os._exit(3)
        finally:
            os._exit(0)
    then(child)
    return os.waitpid(child, 0)[1]


def killed_after(seconds):
    def kill(child):
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)

    return kill


def limited(most):
    """Let no file of this process grow beyond so many bytes: what a full disk says, at a place of choice."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def saves_killed(trials, rng, folder):
    """A process that saves two models in turn is killed."""
    (old, new), both = two_models()
    path = folder / "model.zip"
    old.save(path)

    def forever():
        while True:
            new.save(path)
            old.save(path)

    for _ in range(trials):
        in_child(forever, killed_after(rng.uniform(0, 0.03)))
        assert is_whole(path, both)
    return trials


def saves_on_a_full_disk(trials, rng, folder):
    (old, new), both = two_models()
    path, out = folder / "model.zip", 0
    old.save(path)
    size = path.stat().st_size

    def save_some(most):
        limited(most)
        new.save(path)

    for _ in range(trials):
        most = int(rng.integers(0, size))
        out += in_child(lambda: save_some(most)) != 0  # noqa: B023
        assert is_whole(path, both)
        assert [file.name for file in folder.iterdir()] == ["model.zip"]
    return out


def spends(trials, rng, folder):
    """Faults in `spend` of a ledger file: what came back is in the file, and nothing twice."""
    path, reported, out = folder / "budget.db", 0, 0
    accountant = PrivacyAccountant(1000, ledger=path)
    lines = n_lines(lambda: accountant.spend(Fraction(1, 100), name="first"))
    for k in range(trials):
        fault, before = FAULTS[rng.integers(len(FAULTS))], accountant.spent
        failed = disturbed(lambda: accountant.spend(Fraction(1, 100), name=f"{k}"), int(rng.integers(1, lines + 1)), fault)  # noqa: B023
        out, reported = out + failed, reported + (not failed)
        assert accountant.spent - before in ((0, Fraction(1, 100)) if failed else (Fraction(1, 100),))
        again = PrivacyAccountant(1000, ledger=path)
        assert again.spent == accountant.spent >= Fraction(reported + 1, 100)
    return out


def spends_killed(trials, rng, folder):
    """A process that spends is killed: what it reported is in the ledger, and at most one more."""
    path, said = folder / "budget.db", folder / "said"
    PrivacyAccountant(10**6, ledger=path)

    def forever():
        accountant = PrivacyAccountant(10**6, ledger=path)
        with open(said, "ab", buffering=0) as out:
            while True:
                accountant.spend(Fraction(1, 100), name="one")
                out.write(b".")

    for k in range(trials):
        in_child(forever, killed_after(rng.uniform(0, 0.05)))
        reported = said.stat().st_size if said.exists() else 0
        assert reported <= PrivacyAccountant(10**6, ledger=path).spent * 100 <= reported + k + 1
    return trials


def spends_on_a_full_disk(trials, rng, folder):
    path, said = folder / "budget.db", folder / "said"
    PrivacyAccountant(10**6, ledger=path).spend(1, name="first")

    def until_full(most):
        accountant = PrivacyAccountant(10**6, ledger=path)
        limited(most)
        with open(said, "ab", buffering=0) as out:
            for _ in range(200):
                accountant.spend(Fraction(1, 100), name="x" * 500)
                out.write(b".")

    out = 0
    for k in range(trials):
        most = path.stat().st_size + int(rng.integers(0, 20_000))
        out += in_child(lambda: until_full(most)) != 0  # noqa: B023
        reported = said.stat().st_size if said.exists() else 0
        assert reported <= (PrivacyAccountant(10**6, ledger=path).spent - 1) * 100 <= reported + k + 1
    return out


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def soak(n_rows, folder, at_once=50, rounds=100):
    """Stream rows whose law is known, saved and loaded on the way; print time and memory by tenths of the stream, and what came out."""
    rng, path = np.random.default_rng(0), folder / "stream.zip"
    model, at, tenths, laps, kept = OnlineSynthesizer(), 0, [], [], max(1, n_rows // at_once // rounds)
    for call in range(n_rows // at_once):
        rows = rng.beta(2, 5, size=(at_once, 1))
        started = time.perf_counter()
        model.partial_fit(rows)
        laps.append(time.perf_counter() - started)
        at += at_once
        if call % kept == kept - 1:
            model.save(path)
            model = load(path)
        if len(laps) == n_rows // at_once // 10:
            tenths.append((float(np.median(laps)) * 1e6, memory(), path.stat().st_size / 1024 if path.exists() else 0.0))
            laps = []
    assert model.n_samples_seen_ == at
    assert model.accountant_.spent == 1
    sample, expected = np.sort(model.sample(20_000, random_state=0)[:, 0]), np.sort(np.random.default_rng(1).beta(2, 5, size=20_000))
    distance = float(np.abs(sample - expected).mean())
    print(f"| soak of {at} rows, {at_once} a call, saved and loaded {rounds} times: microseconds a call, MiB, kB of the file, by tenths |")
    print("; ".join(f"{micro:.0f}, {mib:.0f}, {kb:.0f}" for micro, mib, kb in tenths))
    print(f"spent {model.accountant_.spent}, {len(model.accountant_.ledger)} lines of ledger, W1 of the sample {distance:.4f}", flush=True)
    return distance < 0.02 and tenths[-1][0] < 2 * tenths[0][0] and tenths[-1][1] < tenths[0][1] + 50


def attacks():
    """Yield (what, where, function of (trials, rng, folder))."""
    for name, model in ESTIMATORS.items():
        yield "fault in fit", name, lambda trials, rng, folder, model=model: fits(model, trials, rng)
    for name, parameters in STREAMS.items():
        yield "fault in partial_fit", name, lambda trials, rng, folder, own=parameters: streams(own, trials, rng)
    for name, make in COUNTERS.items():
        yield "fault in update", name, lambda trials, rng, folder, make=make: counters(make, trials, rng)
    for name in ("PrivateMeasureMechanism", "LatentFactorSynthesizer"):
        yield "fault in sample", name, lambda trials, rng, folder, name=name: samples(ESTIMATORS[name], trials, rng)
    yield "fault in save", "over an older file", saves
    yield "kill in save", "over an older file", saves_killed
    yield "full disk in save", "over an older file", saves_on_a_full_disk
    yield "fault in spend", "ledger file", spends
    yield "kill in spend", "ledger file", spends_killed
    yield "full disk in spend", "ledger file", spends_on_a_full_disk


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--soak", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    _latent_factors._STEPS = 5  # the fit of a model is post-processing
    failed = False
    print("| fault | of | tried | came out | laws |")
    for what, name, attack in attacks():
        with tempfile.TemporaryDirectory() as folder:
            try:
                out, kept = attack(wanted.trials, np.random.default_rng(wanted.seed), Path(folder)), "kept"
            except AssertionError as error:
                out, kept, failed = "", f"BROKEN at line {error.__traceback__.tb_next.tb_lineno}: {error}", True
        print(f"| {what} | {name} | {wanted.trials} | {out} | {kept} |", flush=True)
    if wanted.soak:
        with tempfile.TemporaryDirectory() as folder:
            failed |= not soak(wanted.soak, Path(folder))
    sys.exit(failed)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
