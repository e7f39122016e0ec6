"""Rejection sampling: proposals are kept with probability exp(-g), decided exactly."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from skdpsynth.privacy._intervals import bernoulli_exp_minus
from skdpsynth.privacy._random import RandomBits

MARGIN = 2.0**-32  # the float filter below is wrong by less than 2**-37

Proposals = tuple[np.ndarray, np.ndarray]  # values, and which of them are accepted


def sample_by_rejection(size: int, propose: Callable[[int], Proposals]) -> np.ndarray:
    out = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while len(missing):
        proposals, accepted = propose(len(missing))
        out[missing[accepted]] = proposals[accepted]
        missing = missing[~accepted]
    return out


def accept_exactly(exponents: np.ndarray, exact: Callable[[int], Fraction], rng: RandomBits) -> np.ndarray:
    """Decide ``U < exp(-g)`` for each g, which ``exact(place)`` returns exactly.

    `exponents` are g in floats: with an absolute error below 2**-38 up to 1800, and of a few parts in 2**53 beyond, where exp(-g) is tiny.
    """
    accept = np.exp(-exponents)
    words = np.frombuffer(rng.bytes(8 * len(exponents)), dtype=np.uint64)
    uniform = words * 2.0**-64
    accepted: np.ndarray = uniform < accept
    # exp and u lose a few 2**-53 more than g, so beyond the margin the comparison is certain. All others are decided in rationals.
    for i in np.flatnonzero(np.abs(uniform - accept) <= MARGIN):
        accepted[i] = bernoulli_exp_minus(exact(int(i)), rng, int(words[i]), 64)
    return accepted
