"""Fixtures of all tests."""

import numpy as np
import pytest


@pytest.fixture
def X():
    """300 rows of 3 features in the unit cube."""
    return np.random.default_rng(0).beta(2, 4, size=(300, 3))
