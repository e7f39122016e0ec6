"""Fixtures of the tests of synthesizers."""

import pytest
from internals import _wide_factors


@pytest.fixture
def hasty(hasty, monkeypatch):
    """Models of very many columns are fitted in fewer steps too."""
    monkeypatch.setattr(_wide_factors, "_STEPS", 10)
    monkeypatch.setattr(_wide_factors, "_PILOT_STEPS", 2)
