"""Fixtures of the tests of synthesizers."""

import warnings

import pytest
from estimators import Recorder
from internals import _wide_factors


@pytest.fixture(autouse=True)
def quiet():
    """Small tables, seeds and odd budgets are what these tests are made of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture
def hasty(hasty, monkeypatch):
    """Models of very many columns are fitted in fewer steps too."""
    monkeypatch.setattr(_wide_factors, "_STEPS", 10)
    monkeypatch.setattr(_wide_factors, "_PILOT_STEPS", 2)


@pytest.fixture
def released():
    """The rows of each block that a `Recorder` was given, in order."""
    Recorder.seen, Recorder.failing = [], []
    return Recorder.seen
