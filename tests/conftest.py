"""Fixtures of all tests."""

import hashlib
import os

if "PYTEST_XDIST_WORKER" in os.environ:  # each has a core: threads of several would wait for each other, most of the time
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from skdpsynth.models import _latent_factors, _together, _training, _wide_factors
from skdpsynth.privacy import SecureBits
from skdpsynth.testing._door import watched

pytest_plugins = ["lanes"]

# How long an example takes says more about the machine than about the code.
LAX = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("same each time", derandomize=True, **LAX)
settings.register_profile("fresh", **LAX)


class NamedNoise:
    """Bits that follow the name of the test that runs, so that what failed once fails again. Other processes have those of the system."""

    def restart(self, name):
        digest = hashlib.sha256(name.encode()).digest()
        self._process, self._bits = os.getpid(), np.random.Generator(np.random.SFC64(int.from_bytes(digest)))

    def bytes(self, size):
        return self._bits.bytes(size) if os.getpid() == self._process else os.urandom(size)


NOISE, OF_THE_SYSTEM = NamedNoise(), SecureBits.bytes


def pytest_addoption(parser):
    parser.addoption("--fresh", action="store_true", help="draw noise and examples anew, as users have them, instead of by the test's name")


def pytest_configure(config):
    settings.load_profile("fresh" if config.getoption("--fresh") else "same each time")


# Models of tables are fitted twice, in few steps and with the usual prior: that takes a fraction of the time.
QUICK = {
    (_latent_factors, "_FITS"): 2,
    (_latent_factors, "_STEPS"): 150,
    (_training, "_SPLITS"): 0,
    (_together, "_PILOT_STEPS"): 20,
    (_together, "_PILOT_STEPS_TOGETHER"): 6,
    (_wide_factors, "_STEPS"): 100,
    (_wide_factors, "_PILOT_STEPS"): 20,
}
AS_USERS_HAVE_THEM = {place: getattr(*place) for place in QUICK}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):  # before fixtures, also those of a module, which fit too
    for place, value in (QUICK if item.get_closest_marker("all_fits") is None else AS_USERS_HAVE_THEM).items():
        setattr(*place, value)
    if item.config.getoption("--fresh") or item.get_closest_marker("real_noise"):
        SecureBits.bytes = OF_THE_SYSTEM
    else:
        NOISE.restart(item.nodeid)
        SecureBits.bytes = lambda self, size: NOISE.bytes(size)


def pytest_unconfigure():
    SecureBits.bytes = OF_THE_SYSTEM


@pytest.fixture
def X():
    """300 rows of 3 features in the unit cube."""
    return np.random.default_rng(0).beta(2, 4, size=(300, 3))


@pytest.fixture
def door():
    """The door, watched: `draws` and `take()` tell what passed; `answer` says what comes out, and `replay` old answers."""
    with watched() as seen:
        yield seen


@pytest.fixture
def hasty(monkeypatch):
    """Models of tables are fitted in still fewer steps, where the quality of samples is not the point."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 20)
