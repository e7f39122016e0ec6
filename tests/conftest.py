"""Fixtures of all tests."""

import hashlib
import os
import secrets
import sys

if "PYTEST_XDIST_WORKER" in os.environ:  # each has a core: threads of several would wait for each other, most of the time
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from internals import _forest, _histories, _latent_factors, _link_factors, _training, _wide_factors, watch_releases

from skdpsynth.privacy import SecureBits

pytest_plugins = ["lanes"]

# How long an example takes says more about the machine than about the code.
LAX = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("same each time", derandomize=True, **LAX)
settings.register_profile("fresh", **LAX)


class NamedNoise:
    """Bits that follow a name and the seed of a run, so that what failed once fails again. Other processes have those of the system."""

    def __init__(self):
        self.seed, self.name, self._process, self._bits = "", "", 0, None

    def restart(self, name):
        digest = hashlib.sha256((self.seed + name).encode()).digest()
        self.name, self._process, self._bits = name, os.getpid(), np.random.Generator(np.random.SFC64(int.from_bytes(digest)))

    def bytes(self, size):
        return self._bits.bytes(size) if os.getpid() == self._process else os.urandom(size)


NOISE, OF_THE_SYSTEM = NamedNoise(), SecureBits.bytes


def pytest_addoption(parser):
    parser.addoption("--fresh", action="store_true", help="draw other noise and other examples than last time")
    parser.addoption("--noise", default="", metavar="SEED", help="draw the noise again that a run with --fresh had")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.option.noise = config.workerinput["noise"]
    elif config.getoption("--fresh"):
        config.option.noise = secrets.token_hex(4)
    NOISE.seed = config.getoption("--noise")
    settings.load_profile("fresh" if NOISE.seed else "same each time")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["noise"] = node.config.getoption("--noise")


def pytest_report_header(config):
    return f"--noise {NOISE.seed}" if NOISE.seed else None


def pytest_terminal_summary(terminalreporter):
    if NOISE.seed:  # the header is not shown by -q
        terminalreporter.write_line(f"--noise {NOISE.seed} draws this noise again")


# Models of tables are fitted twice, in few steps and with the usual prior: that takes a fraction of the time.
QUICK = {
    (_latent_factors, "_FITS"): 2,
    (_latent_factors, "_STEPS"): 150,
    (_histories, "_STEPS"): 100,
    (_link_factors, "_FITS"): 2,
    (_link_factors, "_STEPS"): 150,
    (_training, "_SPLITS"): 0,
    (_wide_factors, "_STEPS"): 100,
    (_wide_factors, "_PILOT_STEPS"): 20,
}
AS_USERS_HAVE_THEM = {place: getattr(*place) for place in QUICK}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):  # before fixtures, also those of a module, which fit too
    for place, value in (QUICK if item.get_closest_marker("all_fits") is None else AS_USERS_HAVE_THEM).items():
        setattr(*place, value)
    if item.get_closest_marker("real_noise"):
        SecureBits.bytes = OF_THE_SYSTEM
    else:
        NOISE.restart(item.nodeid)
        SecureBits.bytes = lambda self, size: NOISE.bytes(size)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What several tests share has noise by its own name, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    test = NOISE.name
    NOISE.restart(f"{fixturedef.baseid}::{fixturedef.argname}::{getattr(request, 'param_index', 0)}")
    try:
        return (yield)
    finally:
        NOISE.restart(test)


def pytest_unconfigure():
    SecureBits.bytes = OF_THE_SYSTEM


@pytest.fixture
def X():
    """300 rows of 3 features in the unit cube."""
    return np.random.default_rng(0).beta(2, 4, size=(300, 3))


@pytest.fixture
def door():
    """The door, watched: `draws` and `take()` tell what passed; `answer` says what comes out, and `replay` old answers."""
    with watch_releases() as seen:
        yield seen


@pytest.fixture(scope="module")
def rows_by_arrival():
    """Rows of linked tables count in the order in which they come, in place of that of a hash."""

    def by_arrival(heads, rows):
        return np.zeros(len(rows[0]), np.uint64), np.arange(len(rows[0]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_forest, "RowHash", lambda key: by_arrival)
        yield


@pytest.fixture
def restless():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def hasty(monkeypatch):
    """Models of tables are fitted in still fewer steps, where the quality of samples is not the point."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 20)
    monkeypatch.setattr(_link_factors, "_STEPS", 20)
