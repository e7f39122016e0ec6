"""Noise scales: rational numbers, or arrays of them."""

import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._checks import is_real, shown
from skdpsynth.privacy._random import RandomBits, check_stream

LARGEST = 2**58
SMALLEST = Fraction(1, 100)


def to_fraction(value: Any) -> Fraction:
    """Return the rational a number stands for; a float means the decimal it prints (0.1 is 1/10)."""
    if type(value) is Fraction:  # most are, and it cannot change
        return value
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def check_scale(scale: Any) -> Any:
    """Return `scale` as a Fraction, or as a read-only object array of Fractions."""
    if isinstance(scale, numbers.Real):
        return _check_one(scale)
    array = np.asarray(scale, dtype=object)
    if array.ndim == 0:
        return _check_one(array[()])
    unique = {value: _check_one(value) for value in set(array.ravel().tolist())}
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [unique[value] for value in array.ravel().tolist()]
    out.setflags(write=False)
    return out


def _check_one(value: Any) -> Fraction:
    try:
        fraction = to_fraction(value) if is_real(value) else None
    except (ValueError, OverflowError):  # nan, infinities, more than floats hold
        fraction = None
    if fraction is None or not (fraction == 0 or SMALLEST <= fraction <= LARGEST):
        raise ValueError(
            f"scale must be 0 or between 1/100 and 2**58, got {shown(value)}; "
            "rescale the integers that are released, or give this release another share of the budget."
        )
    return fraction


def sample_by_scale(scale: Any, size: Any, rng: RandomBits, sample_one: Callable[[Fraction, int, RandomBits], np.ndarray]) -> np.ndarray:
    """Draw an array of shape `size`, one exact sampler for each distinct scale."""
    check_stream(rng)
    shape = (size,) if isinstance(size, numbers.Integral) else tuple(size)
    count = int(np.prod(shape, dtype=np.int64))
    if isinstance(scale, Fraction):
        draws = sample_one(scale, count, rng) if scale else np.zeros(count, dtype=np.int64)
        return draws.reshape(shape)
    scales = np.broadcast_to(scale, shape).ravel()
    out = np.zeros(count, dtype=np.int64)
    for value in sorted(set(scales.tolist())):
        where = np.flatnonzero(scales == value)
        if value:
            out[where] = sample_one(value, len(where), rng)
    return out.reshape(shape)


def distinct(scale: Any) -> tuple[Fraction, ...]:
    """Return the different scales of a noise, the least first."""
    return (scale,) if isinstance(scale, Fraction) else tuple(sorted(set(np.ravel(scale).tolist())))


def described(kind: str, scales: tuple[Fraction, ...]) -> str:
    """Say in words what noise of some kind and scales is."""
    return f"{kind}(scale={', '.join(f'{float(scale):.6g}' for scale in scales)})"


def fits(scale: Any, shape: tuple[int, ...]) -> bool:
    """Whether scales broadcast to values of a shape, and leave it as it is."""
    try:
        return np.broadcast_shapes(np.shape(scale), shape) == shape
    except ValueError:
        return False
