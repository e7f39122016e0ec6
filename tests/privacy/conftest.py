"""Scripted bits, exact laws in decimals, and a forked process."""

import decimal
import os
import pickle
from decimal import Decimal
from fractions import Fraction
from functools import cache

import pytest
from internals import _ledger_file

DIGITS = decimal.Context(prec=100)


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
        line = self._lines.pop(0) if self._lines else self._then
        if isinstance(line, int):
            line = bytes([line]) * size
        assert len(line) == size
        return line


class ExactLaw:
    """The integers 0, 1, 2, ... with given weights, at 100 digits: the definition summed up, no closed form.

    ``doubled`` is the law of a magnitude: every weight but the first stands for two signs.
    """

    def __init__(self, exponents, doubled):
        weights = [DIGITS.exp(DIGITS.divide(Decimal(-e.numerator), Decimal(e.denominator))) for e in exponents]
        weights = weights[:1] + [DIGITS.multiply(w, 2 if doubled else 1) for w in weights[1:]]
        tails = [Decimal(0)]
        for weight in reversed(weights):
            tails.append(DIGITS.add(tails[-1], weight))
        tails.reverse()
        self.survival = [DIGITS.divide(tail, tails[0]) for tail in tails]  # P(M >= k), k = 0, 1, ...

    def inverse(self, V):
        """Return max{k : V < P(M >= k)} for a Fraction V."""
        V = DIGITS.divide(Decimal(V.numerator), Decimal(V.denominator))
        low, high = 0, len(self.survival)  # survival falls: bisect
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.survival[middle] > V else (low, middle)
        return low

    def floors(self, bits):
        """Return floor(P(M >= k) * 2**bits) for k = 1, 2, ... while it is positive."""
        scaled = (int(DIGITS.multiply(s, 1 << bits)) for s in self.survival[1:])
        return [floor for floor in scaled if floor]


@pytest.fixture
def scripted():
    return ScriptedBits


@pytest.fixture(scope="session")
def exact_law():
    """Return the law called `name` ("laplace", "gaussian": of the magnitude; "geometric", "half_gaussian", "digit") of a scale."""

    @cache
    def make(name, scale):
        if name == "digit":
            return ExactLaw([Fraction(j) / scale for j in range(256)], doubled=False)
        power, exponents = 2 if "gaussian" in name else 1, []
        while not exponents or exponents[-1] < 200:  # exp(-200) is below 10**-86
            exponents.append((Fraction(len(exponents)) / Fraction(scale)) ** power / power)
        return ExactLaw(exponents, doubled=name in ("laplace", "gaussian"))

    return make


@pytest.fixture
def unflushed(monkeypatch):
    """Ledgers in files do not wait for the disk."""
    monkeypatch.setattr(_ledger_file, "SYNCHRONOUS", "off")
    monkeypatch.setattr(_ledger_file, "_flush_folder", lambda path: None)


@pytest.fixture
def in_child_process():
    """Run a function in a forked process and return its result, or the exception it raised."""
    if not hasattr(os, "fork"):
        pytest.skip("fork is a POSIX call")

    def run(function):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                try:
                    result = function()
                except Exception as error:
                    result = error
                os.write(writer, pickle.dumps(result))
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            result = pipe.read()
        os.waitpid(process, 0)
        return pickle.loads(result)

    return run
