"""Noise scales: rational numbers, or arrays of them."""

import math
import numbers
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._arrays import as_array
from skdpsynth._validation import check_memory, is_integer, is_real, short_repr
from skdpsynth.privacy._random import RandomBits, check_stream

LARGEST = 2**58
SMALLEST = Fraction(1, 100)
MOST_VALUES = 1 << 60  # of one release: more than any memory holds
MAX_CACHED_TABLES = 64  # tables of one kind
_FEW = 2000  # values of each scale: more take longer by rejection than by a table that is made for them

Sampler = Callable[[Fraction, int, RandomBits], np.ndarray]


def to_fraction(value: Any) -> Fraction:
    """Return the rational number that a number stands for; a float means the decimal it prints (0.1 is 1/10)."""
    if type(value) is Fraction:  # most are, and it cannot change
        return value
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


def check_scale(scale: Any) -> Any:
    """Return `scale` as a Fraction, or as a read-only object array of Fractions."""
    if isinstance(scale, numbers.Real):
        return _check_one_scale(scale)
    array = as_array(scale, object)
    if array.ndim == 0:
        return _check_one_scale(array[()] if isinstance(scale, np.ndarray) else scale)
    listed = array.ravel().tolist()
    if not all(map(is_real, listed)):
        raise _scale_error(scale)
    unique = {value: _check_one_scale(value) for value in set(listed)}
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [unique[value] for value in listed]
    out.setflags(write=False)
    return out


def _check_one_scale(value: Any) -> Fraction:
    try:
        fraction = to_fraction(value) if is_real(value) else None
    except (ValueError, OverflowError):  # nan, infinities, more than floats hold
        fraction = None
    if fraction is None or not (fraction == 0 or SMALLEST <= fraction <= LARGEST):
        raise _scale_error(value)
    return fraction


def _scale_error(value: Any) -> ValueError:
    return ValueError(
        f"scale must be 0 or between 1/100 and 2**58, got {short_repr(value)}; "
        "rescale the integers that are released, or give this release another share of the budget."
    )


def shape_of(size: Any, name: str = "size") -> tuple[int, ...]:
    """Return the shape of as many values as memory holds, or raise ValueError."""
    shape = (size,) if is_integer(size, 0) else tuple(size) if isinstance(size, tuple | list) else (None,)
    if not all(is_integer(side, 0) for side in shape):
        raise ValueError(f"{name} must be a whole number or a tuple of them, got {short_repr(size)}.")
    shape = tuple(map(int, shape))
    check_memory(name, size, 8 * math.prod(shape))
    return shape


def sample_by_scale(scale: Any, size: Any, rng: RandomBits, sample_one: Sampler, by_rejection: Sampler) -> np.ndarray:
    """Draw an array of shape `size`, by an exact sampler for each distinct scale.

    Where there are more scales than cached tables and each has few values, rejection is quicker: its proposals have whole scales, which
    return.
    """
    check_stream(rng)
    shape = shape_of(size)
    count = math.prod(shape)
    if isinstance(scale, Fraction):
        draws = sample_one(scale, count, rng) if scale else np.zeros(count, dtype=np.int64)
        return draws.reshape(shape)
    if not is_broadcastable(scale, shape):
        raise ValueError(f"size must be a shape that scales of shape {np.shape(scale)} broadcast to, got {shape}.")
    values = distinct_scales(scale)
    number_of = {value: number for number, value in enumerate(values)}
    numbered = np.array([number_of[value] for value in np.ravel(scale).tolist()], dtype=np.int64).reshape(np.shape(scale))
    of_each = np.broadcast_to(numbered, shape).ravel()
    order, ends = np.argsort(of_each, kind="stable"), np.cumsum(np.bincount(of_each, minlength=len(values))).tolist()
    sample = by_rejection if len(values) > MAX_CACHED_TABLES and count < _FEW * len(values) else sample_one
    out = np.zeros(count, dtype=np.int64)
    for value, start, end in zip(values, [0, *ends], ends, strict=False):
        if value:
            out[order[start:end]] = sample(value, end - start, rng)
    return out.reshape(shape)


def distinct_scales(scale: Any) -> tuple[Fraction, ...]:
    return (scale,) if isinstance(scale, Fraction) else tuple(sorted(set(np.ravel(scale).tolist())))


def describe_noise(kind: str, scales: tuple[Fraction, ...]) -> str:
    return f"{kind}(scale={', '.join(f'{float(scale):.6g}' for scale in scales)})"


def is_broadcastable(scale: Any, shape: tuple[int, ...]) -> bool:
    """Whether scales broadcast to values of a shape, and leave it as it is."""
    try:
        return np.broadcast_shapes(np.shape(scale), shape) == shape
    except ValueError:
        return False
