"""Array-likes as arrays; no message quotes a number."""

from contextlib import suppress
from itertools import repeat
from typing import Any

import numpy as np

from skdpsynth._validation import check_type, is_integer, short_repr


def as_array(values: Any, dtype: Any = None) -> np.ndarray:
    """Return an array-like as an array, or an array of one object where numpy cannot read it.

    Callers refuse such a dtype in a sentence of their own: numpy's errors quote cells.
    """
    if type(values) is np.ndarray and dtype is None:
        return values
    if not isinstance(values, str | bytes | np.ma.MaskedArray):
        with suppress(Exception):
            return np.asarray(values, dtype=dtype)
    return np.array(None, dtype=object)


def as_numeric_array(values: Any, name: str, ndim: int | None = 1, *, whole: bool = False) -> np.ndarray:
    """Return an array-like of numbers as an array with `ndim` axes (None: any); `whole` numbers come back as int64."""
    array = as_array(values)
    if array.dtype == float and not array.size:  # what numpy makes of an empty list
        array = array.astype(np.int64 if whole else float)
    if array.dtype.kind == "O":
        with suppress(Exception):
            array = array.astype(np.int64 if whole and all(map(is_integer, array.flat, repeat(-(2**63)))) else float)
    if whole and array.dtype.kind == "f":
        with np.errstate(all="ignore"):  # 2**53 is infinite in half precision
            if np.all(np.abs(array) < 2**53) and np.all(array == np.trunc(array)):
                array = array.astype(np.int64)
    kinds = "iu" if whole else "iufb"
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must hold {'whole ' if whole else ''}numbers only, got {short_repr(values)}; give an array of them.")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}, got shape {array.shape}.")
    if whole and array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must hold whole numbers below 2**63, but one is larger.")
    return array.astype(np.int64, copy=False) if whole else array


def check_generator(rng: Any) -> None:
    check_type("rng", rng, np.random.Generator, "a generator of numpy, such as np.random.default_rng()")
