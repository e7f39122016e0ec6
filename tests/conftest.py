"""Fixtures of all tests."""

import numpy as np
import pytest

from skdpsynth.testing._door import watched


@pytest.fixture
def X():
    """300 rows of 3 features in the unit cube."""
    return np.random.default_rng(0).beta(2, 4, size=(300, 3))


@pytest.fixture
def door():
    """The door, watched: `draws` and `take()` tell what passed; `answer` says what comes out, and `replay` old answers."""
    with watched() as seen:
        yield seen
