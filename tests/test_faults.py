"""Objects, ledgers and files after interrupts, exceptions, kills and full disks: a few of what benchmarks/faults.py tries."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from internals import _latent_factors

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "faults.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.exists(), reason="benchmarks are not here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is a POSIX call"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("faults", SCRIPT)
    module = sys.modules["faults"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["faults"]


FAULTS = [*(f"fault in {what}" for what in ("fit", "partial_fit", "update", "sample", "save", "spend"))]
FAULTS += [f"{how} in {what}" for how in ("kill", "full disk") for what in ("save", "spend")]


@pytest.mark.parametrize("what", FAULTS)
def test_object_ledger_and_files_are_as_documented_after_faults(script, what, tmp_path, monkeypatch):
    monkeypatch.setattr(_latent_factors, "_STEPS", 5)
    n_out = 0
    for number, (name, _, attack) in enumerate(script.attacks()):
        if name == what:
            folder = tmp_path / f"{number}"
            folder.mkdir()
            n_out += attack(20 if what == "fault in save" else 3, np.random.default_rng(7), folder)
    assert n_out > 0


def test_what_each_injected_fault_replaces_stands_once_in_its_file(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    from injected_faults import FAULTS, HERE

    times = {fault.name: (HERE / "skdpsynth" / fault.file).read_text(encoding="utf-8").count(fault.old) for fault in FAULTS}
    assert {name: number for name, number in times.items() if number != 1} == {}


@pytest.mark.nightly  # it is by the clock
def test_a_short_soak_ends_as_declared(script, tmp_path, capsys):
    assert script.soak(6000, tmp_path, rounds=10)
    assert "spent 1," in capsys.readouterr().out
