"""Streams of random bits: of the operating system, or from a seed for tests.

A stream keeps no buffer between calls, so a forked process never repeats the noise of its parent, unless both follow a seed.
"""

import hashlib
import numbers
import os
from typing import Any

import numpy as np

from skdpsynth._validation import is_integer, short_repr, warn
from skdpsynth.exceptions import InsecureRandomnessWarning

SEED_WARNING = (
    "random_state is set, so the noise can be recomputed and the result is not private; leave random_state=None for anything that is "
    "released."
)


class RandomBits:
    """A stream of random bits."""

    seeded: bool

    def bytes(self, size: int) -> bytes:
        raise AssertionError("a stream says where its bits come from")

    def child(self, name: str) -> "RandomBits":
        """Return the stream of the mechanism called `name`; secure streams are independent as they are."""
        return self

    def random_state(self) -> Any:
        """Return the ``random_state`` of an inner estimator."""

    def generator(self) -> np.random.Generator:
        """Return a numpy generator that starts from these bits, for public choices: never for noise."""
        return np.random.default_rng(np.frombuffer(self.bytes(32), dtype=np.uint32))


class SecureBits(RandomBits):
    """Random bits of the operating system (``os.urandom``)."""

    seeded = False

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)


class SeededBits(RandomBits):
    """Reproducible bits for tests: the same samplers run on them, but the output is not private.

    The stream follows from `entropy` and the names of the mechanisms from the root to it; streams of different paths are independent.
    """

    seeded = True

    def __init__(self, entropy: int, path: tuple[str, ...] = ()) -> None:
        self._entropy = entropy
        self._path = path
        # A hash of the path, not a counter: the stream of one mechanism does not depend on its neighbors.
        digest = hashlib.sha256(repr((entropy, path)).encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest))))

    def bytes(self, size: int) -> bytes:
        return self._generator.bytes(size)

    def child(self, name: str) -> "SeededBits":
        return SeededBits(self._entropy, (*self._path, name))

    def random_state(self) -> np.random.RandomState:
        return np.random.RandomState(np.frombuffer(self.bytes(64), dtype=np.uint32))

    def __repr__(self) -> str:
        return "SeededBits()"  # never the seed


def check_rng(random_state: Any) -> SecureBits | SeededBits:
    """Turn scikit-learn's ``random_state`` into a stream of bits for noise.

    Parameters
    ----------
    random_state : None, int or RandomState
        None: the operating system's secure randomness, never numpy's global state. Otherwise a reproducible
        stream, with an `InsecureRandomnessWarning`.

    Returns
    -------
    rng : SecureBits or SeededBits

    Raises
    ------
    ValueError
        If `random_state` is of another type.

    See Also
    --------
    PrivacyAccountant.release : Draws noise from such a stream.
    skdpsynth.exceptions.InsecureRandomnessWarning : The warning of a seed.
    """
    rng = make_stream(random_state)
    if rng.seeded:
        warn(SEED_WARNING, InsecureRandomnessWarning)
    return rng


def make_stream(random_state: Any) -> SecureBits | SeededBits:
    """Return the stream of a ``random_state`` as `check_rng` does, but leave the warning to the caller."""
    if random_state is None:
        return SecureBits()
    if is_integer(random_state, 0):
        return SeededBits(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return SeededBits(int.from_bytes(random_state.bytes(16)))
    raise ValueError(
        "random_state must be None (secure noise), a non-negative int or a numpy RandomState, "
        f"got {short_repr(random_state) if isinstance(random_state, numbers.Integral) else type(random_state).__name__}; "
        "leave it None unless you are testing."
    )


def check_stream(rng: Any) -> None:
    """Raise TypeError unless `rng` is a stream of this file: numpy's generators have ``bytes`` too, but not secure ones."""
    if not hasattr(rng, "seeded"):
        raise TypeError(f"rng must be a stream made by check_rng, got {type(rng).__name__}; use check_rng(None) for secure noise.")
