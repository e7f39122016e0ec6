"""How DuckDB counts the cuts that are at most as large as a number, where they are many: in a few exact steps for each number."""

from dataclasses import dataclass, replace

import numpy as np

from skdpsynth.duckdb._classes import Cuts

_MORE = 8  # cuts beside those of a rule
_NEAR = 2.0**-20  # steps within which of a cut a number is compared with it
_MOST_WHOLE = 2**53  # whole numbers up to it are floats


@dataclass(frozen=True)
class WholeCuts:
    """Cuts at which the nearest whole number reaches the terms of a progression, or one of a few other numbers.

    Attributes
    ----------
    start, width : int
        Of the progression: start, start + width, ... up to the last of all.
    more : tuple of int
        Those that are not of it.
    first, last : int
        Of all.
    of_whole : bool
        Whether the numbers are whole before they are rounded.
    """

    start: int
    width: int
    more: tuple[int, ...]
    first: int
    last: int
    of_whole: bool = False

    @classmethod
    def of(cls, classes: Cuts) -> "WholeCuts | None":
        """Return what cuts are; None if they are not such cuts."""
        whole = np.ceil(classes.cuts)
        halves = whole - 0.5
        reached = np.where(np.rint(halves) >= whole, halves, np.nextafter(halves, np.inf))
        if np.abs(whole).max() > _MOST_WHOLE or not np.array_equal(reached, classes.cuts):
            return None
        numbers = whole.astype(np.int64)
        width = int(np.median(np.diff(numbers)))
        rests, counts = np.unique(numbers % width, return_counts=True)
        regular = numbers % width == rests[np.argmax(counts)]
        terms, more = numbers[regular], numbers[~regular]
        if len(more) > _MORE or not np.array_equal(terms, np.arange(terms[0], numbers[-1] + 1, width)):
            return None
        return cls(int(terms[0]), width, tuple(more.tolist()), int(numbers[0]), int(numbers[-1]), classes.is_whole)

    def n_below(self, x: str) -> str:
        """Write the number of cuts up to x, which is rounded half to even by operations that are exact, or far from a half."""
        number = f"least(greatest({x}, {float_literal(self.first - 1)}), {float_literal(self.last)})"
        whole = f"CAST({number} AS BIGINT)"
        if not self.of_whole:
            floor = f"CAST(floor({number}) AS BIGINT)"
            rest = f"({number} - floor({number}))"
            whole = f"({floor} + CASE WHEN {rest} > 0.5 OR ({rest} = 0.5 AND {floor} % 2 <> 0) THEN 1 ELSE 0 END)"
        index = f"greatest(0, ({whole} - {self.start} + {self.width}) // {self.width})"
        return f"({' + '.join([index, *(f'CAST({whole} >= {more} AS BIGINT)' for more in self.more)])})"


@dataclass(frozen=True)
class EvenCuts:
    """Cuts at ``low + (high - low) * (k * step)`` for k = 1, ..., n - 1 with ``step = 1 / n``, and a few others.

    Attributes
    ----------
    low, high : float
    n_steps : int
    more : tuple of float
        Those that are not of the rule.
    near : float
        Part of a step beyond which of a cut rounding cannot matter.
    """

    low: float
    high: float
    n_steps: int
    more: tuple[float, ...] = ()
    near: float = _NEAR

    @classmethod
    def of(cls, classes: Cuts) -> "EvenCuts | None":
        """Return what cuts are; None if they are not such cuts."""
        for n_more in range(min(_MORE, len(classes.cuts) - 1)):
            n_steps = len(classes.cuts) - n_more + 1
            rule = cls(classes.low, classes.high, n_steps)
            even = rule._cut(np.arange(1, n_steps))
            if np.isin(even, classes.cuts).all():
                near = next((near for near in (_NEAR, 0.5) if replace(rule, near=near)._is_exact(even)), None)
                return None if near is None else replace(rule, near=near, more=tuple(np.setdiff1d(classes.cuts, even).tolist()))
        return None

    def _cut(self, k: np.ndarray) -> np.ndarray:
        return self.low + (self.high - self.low) * (k * (1.0 / self.n_steps))

    def _is_exact(self, even: np.ndarray) -> bool:
        """Whether a first guess is right far from cuts, and at most one off near them.

        Steps do not fall as x grows. So if those of each cut, and of the float below it, are near its number, steps that are far from all
        numbers lie between those of the two cuts around x.
        """
        k, x = np.tile(np.arange(1, self.n_steps), 2), np.concatenate([even, np.nextafter(even, -np.inf)])
        steps = (x - self.low) * self._scale
        guess = np.floor(steps)
        right = np.clip(guess + (x >= self._cut(guess + 1)) - (x < self._cut(guess)), 0, self.n_steps - 1)
        return bool(np.all(np.abs(steps - k) < self.near) and np.array_equal(right, np.searchsorted(even, x, side="right")))

    @property
    def _scale(self) -> float:
        return float(min(self.n_steps / (self.high - self.low), np.finfo(float).max))

    def steps(self, x: str) -> str:
        """Write how many steps x lies above the lower bound."""
        low, high, scale = map(float_literal, (self.low, self.high, self._scale))
        return f"(least(greatest({x}, {low}), {high}) - {low}) * {scale}"

    def n_below(self, x: str, steps: str, floor: str) -> str:
        """Write the number of cuts up to x: the floor of its steps, put right by the cuts beside it where x is near one."""
        low, width, step = map(float_literal, (self.low, self.high - self.low, 1.0 / self.n_steps))
        cut = f"({low} + {width} * (({floor} + {{}}) * {step}))"
        right = f"{floor} + CAST({x} >= {cut.format(float_literal(1))} AS DOUBLE) - CAST({x} < {cut.format(float_literal(0))} AS DOUBLE)"
        right = f"greatest(least({right}, {float_literal(self.n_steps - 1)}), {float_literal(0)})"
        is_far = f"abs({steps} - {floor} - {float_literal(0.5)}) < {float_literal(0.5 - self.near)}"
        whole = f"CAST(CASE WHEN {is_far} THEN {floor} ELSE {right} END AS UINTEGER)"
        return f"({' + '.join([whole, *(f'CAST({x} >= {float_literal(cut)} AS UINTEGER)' for cut in self.more)])})"


def float_literal(number: float) -> str:
    """Write a float so that the same is read: a literal with a point would be a decimal number."""
    return f"CAST('{float(number)!r}' AS DOUBLE)"


def list_literal(values: np.ndarray, dtype: str) -> str:
    """Write a list as one text, which is parsed faster than as many numbers."""
    return f"CAST(string_split('{','.join(map(repr, values.tolist()))}', ',') AS {dtype}[])"
