"""Scripted bits, exact laws in decimals, and a forked process."""

import pytest
from internals import _ledger_file


class ScriptedBits:
    """A stream that answers each request with the next line of a script, and then repeats one byte.

    A line is what to return, or one byte (an int) to repeat.
    """

    seeded = True

    def __init__(self, *lines, then=0):
        self._lines = list(lines)
        self._then = then
        self.requests = 0

    def bytes(self, size):
        self.requests += 1
        line = self._lines.pop(0) if self._lines and size else self._then
        if isinstance(line, int):
            line = bytes([line]) * size
        assert len(line) == size
        return line


@pytest.fixture
def scripted():
    return ScriptedBits


@pytest.fixture
def unflushed(monkeypatch):
    """Ledgers in files do not wait for the disk."""
    monkeypatch.setattr(_ledger_file, "SYNCHRONOUS", "off")
    monkeypatch.setattr(_ledger_file, "_flush_folder", lambda path: None)
