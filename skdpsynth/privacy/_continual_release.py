"""Releases of a mechanism that is charged once and releases again and again, such as a counter along a stream."""

import os
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import short_repr
from skdpsynth.privacy._composition import covers
from skdpsynth.privacy._ledger import LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._mechanism import check_covered
from skdpsynth.privacy._noise import Noise, check_int64
from skdpsynth.privacy._random import RandomBits

Node = tuple[Hashable, str, int]
"""Key of a node in what the caller keeps, name of its draw, and its sign."""


class ContinualRelease:
    """Noise for all releases of one mechanism, under one charge. Only `PrivacyAccountant` makes one.

    Every value that leaves carries noise of this scale, which is 0 only where the loss is infinite. The charge is known here, so a
    mechanism that costs more is refused. It stays in its process, even where the ledger is in a file: a fork has a copy of all noise so
    far, so releases of different events in both would differ by exact counts, or be a second release that nobody pays for.
    """

    def __init__(self, accountant: Any, noise: Noise, loss: PrivacyLoss, rng: RandomBits) -> None:
        if np.any(np.asarray(noise.scale == 0)) and not loss.is_infinite:
            raise ValueError(f"noise of scale 0 has an infinite loss, got {loss}; give the noise a positive scale.")
        self._accountant, self.noise, self.loss, self._rng, self._process = accountant, noise, loss, rng, os.getpid()

    @property
    def neighboring(self) -> str:
        return str(self._accountant.neighboring)

    def check_open(self, name: str) -> None:
        """Raise unless the accountant is open, in the process in which this was charged."""
        self._accountant.check_open(name)
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{short_repr(name)} cannot be released in another process than that which charged it, where it would be a second release; "
                "go on with a pickle, or with a file of save, which is charged anew."
            )

    def part(self, noise: Noise, loss: PrivacyLoss, sensitivity: Sensitivity) -> "ContinualRelease":
        """Return the release of a part of the mechanism, with noise of its own that covers `sensitivity` at `loss`.

        The mechanism proves that its parts together cost what was charged. One part alone never may cost more.
        """
        self.check_open("a part")
        check_covered(noise, self._rng, sensitivity, loss, self.neighboring, "a part", self._accountant.rows_per_unit)
        if not covers(self.loss, loss):
            raise ValueError(
                f"accountant was charged {self.loss} for what stands here, less than the {loss} that is needed; "
                "charge more, or use an accountant of its own."
            )
        return ContinualRelease(self._accountant, noise, loss, self._rng)

    def release(self, values: np.ndarray, name: str) -> np.ndarray:
        """Add noise to exact int64 values at no further charge; a seeded draw follows from its name."""
        values = check_int64(values)
        self.check_open(name)
        return values + self._draw(values.shape, name)

    def release_nodes(self, values: np.ndarray, nodes: Iterable[Node], kept: dict[Any, np.ndarray]) -> np.ndarray:
        """Add the signed noise of nodes to exact int64 values, which are the signed sum of the nodes.

        The noise of a node is drawn once and `kept`, by its key: it is as secret as the values. With a seed, it follows from the name.
        """
        values, nodes = check_int64(values), list(nodes)
        if not nodes or len({key for key, _, _ in nodes}) < len(nodes) or any(abs(sign) != 1 for _, _, sign in nodes):
            raise ValueError("nodes must be at least one, each once, with signs 1 or -1: else exact values would leave without noise.")
        self.check_open(nodes[0][1])
        noisy = values.copy()
        for key, name, sign in nodes:
            if key not in kept:
                kept[key] = self._draw(values.shape, name)
            noisy += sign * kept[key]
        return noisy

    def _draw(self, shape: tuple[int, ...], name: str) -> np.ndarray:
        self.noise.check_shape(shape)  # noise of matrices draws stacks, too, each of which would cost as much
        return self.noise.sample(shape, self._rng.child(name))


def pop_charge(entries: list[LedgerEntry], name: str, loss: PrivacyLoss) -> LedgerEntry:
    """Remove the last entry that charged at least `loss` under a name, and return it; raise ValueError if there is none.

    Each charge is taken up once: continuing under it twice makes two releases, and needs a second copy of the record.
    """
    for place in reversed(range(len(entries))):
        entry = entries[place]
        if entry.name == name and entry.noise is not None and covers(entry.loss, loss):
            return entries.pop(place)
    raise ValueError(
        f"accountant holds no charge of {loss} for {short_repr(name)} from before it was saved; reopen the record of the accountant that "
        "was charged, or charge a new one."
    )
