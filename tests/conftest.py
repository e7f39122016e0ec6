"""Fixtures of all tests."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from skdpsynth.models import _latent_factors, _training
from skdpsynth.testing._door import watched

# How long an example takes says more about the machine than about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
settings.load_profile("any machine")


@pytest.fixture
def X():
    """300 rows of 3 features in the unit cube."""
    return np.random.default_rng(0).beta(2, 4, size=(300, 3))


@pytest.fixture
def door():
    """The door, watched: `draws` and `take()` tell what passed; `answer` says what comes out, and `replay` old answers."""
    with watched() as seen:
        yield seen


@pytest.fixture(autouse=True)
def few_fits(request, monkeypatch):
    """Models of tables are fitted twice, and with the usual prior: that takes a fifth of the time."""
    if request.node.get_closest_marker("all_fits") is None:
        monkeypatch.setattr(_latent_factors, "_FITS", 2)
        monkeypatch.setattr(_training, "_SPLITS", 0)


@pytest.fixture
def hasty(monkeypatch):
    """Models of tables are fitted in a few steps, where the quality of samples is not the point."""
    monkeypatch.setattr(_latent_factors, "_STEPS", 20)
