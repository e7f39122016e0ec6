"""Observation of releases in tests: record inputs and outputs, or give the same answers for other rows."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from skdpsynth.privacy import DiscreteLaplace, PrivacyAccountant, SecureBits


@dataclass(frozen=True, eq=False)
class Draw:
    """One released answer."""

    name: str | None
    values: np.ndarray  # exact, hence private, int64
    noise: Any
    loss: Any  # charged; None: all that remained
    sensitivity: Any  # stated
    answer: np.ndarray  # released, int64
    standing: bool = False  # whether it came from a standing release, which was charged before
    shared: bool = False  # whether it shares noise with other answers
    nodes: tuple[tuple[str, int], ...] = ()  # names of the draws whose signed sum its noise is


class StopRun(BaseException):
    """Ends a run at its last release; `except Exception` does not catch it."""


class Spy:
    """Releases while they are watched."""

    def __init__(self, answers: list[Draw] | None = None, until: int | None = None) -> None:
        self.draws: list[Draw] = []
        self.answer: Callable[[str | None, np.ndarray, np.ndarray], np.ndarray] | None = None
        self.answers, self.until, self.n_choices = answers, until, 0

    def take(self) -> list[Draw]:
        """Return the draws since the last call, and forget them."""
        draws, self.draws = self.draws, []
        return draws

    def replay(self, answers: list[Draw]) -> None:
        """Release these answers from now on, and forget the draws so far."""
        self.answers, self.draws = answers, []

    def observe(self, values: Any, noise: Any, drawn: np.ndarray, said: dict[str, Any], **how: Any) -> np.ndarray:
        """Record a draw and return the answer to release."""
        values, name = np.array(values), said.get("name")
        answer = self._again(name, drawn) if self.answer is None else self.answer(name, values, drawn)
        self.draws.append(Draw(name, values, noise, said.get("loss"), said.get("sensitivity"), answer.copy(), **how))
        if len(self.draws) == self.until:
            raise StopRun
        return answer

    def _again(self, name: str | None, drawn: np.ndarray) -> np.ndarray:
        if self.answers is None:
            return drawn
        place = len(self.draws)
        if place >= len(self.answers) or self.answers[place].name != name or self.answers[place].answer.shape != drawn.shape:
            was = "nothing" if place >= len(self.answers) else f"{self.answers[place].name!r} of shape {self.answers[place].answer.shape}"
            raise AssertionError(f"release {place} is {name!r} of shape {drawn.shape}, where on the neighbor it was {was}")
        return self.answers[place].answer.copy()


@contextmanager
def watch_releases(answers: list[Draw] | None = None, until: int | None = None) -> Iterator[Spy]:
    """Watch all releases of this thread; with `answers`, release these again; with `until`, raise `StopRun` after so many.

    Releases of other threads are neither recorded nor changed.
    """
    door = Spy(answers, until)
    with _PATCH:
        doors = _spies()
        doors.append(door)
        try:
            yield door
        finally:
            doors.remove(door)


@contextmanager
def fixed_bits(seed: int = 0) -> Iterator[None]:
    """Silently draw the secure bits of this thread from a seed, so that a mechanism repeats what it does for users."""
    with _PATCH:
        before = getattr(_MINE, "bits", None)
        _MINE.bits = np.random.default_rng(seed)
        try:
            yield
        finally:
            _MINE.bits = before


_MINE = threading.local()  # the spies of this thread, the latest last, and the generator of its fixed bits


def _spies() -> list[Spy]:
    if not hasattr(_MINE, "doors"):
        _MINE.doors = []
    doors: list[Spy] = _MINE.doors
    return doors


class _Patch:
    """Patches of the release methods while any thread watches: the first to come applies them, the last to go removes them."""

    def __init__(self) -> None:
        self._lock, self._users, self._patches = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._patches.enter_context(_patch_releases())
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._patches.close()


_PATCH = _Patch()


@contextmanager
def _patch_releases() -> Iterator[None]:
    """Lead the releases of this process past the spies of their threads."""
    standing = type(PrivacyAccountant(float("inf")).standing(DiscreteLaplace(0), SecureBits(), name="tap", loss=float("inf")))
    release, stand, nodes_of = PrivacyAccountant.release, standing.release, standing.release_nodes
    secure = SecureBits.bytes

    def through(self: Any, values: Any, noise: Any, rng: Any, **said: Any) -> np.ndarray:
        return _notify_spies(values, noise, release(self, values, noise, rng, **said), said)

    def through_standing(self: Any, values: Any, name: str) -> np.ndarray:
        return _notify_spies(values, self.noise, stand(self, values, name), {"name": name}, standing=True)

    def through_nodes(self: Any, values: Any, nodes: Any, kept: Any) -> np.ndarray:
        nodes = list(nodes)
        name = ", ".join(f"{'-' if sign < 0 else '+'}{name}" for _, name, sign in nodes)
        how = {"standing": True, "shared": True, "nodes": tuple((each, sign) for _, each, sign in nodes)}
        return _notify_spies(values, self.noise, nodes_of(self, values, nodes, kept), {"name": name}, **how)

    def counted(method: Callable) -> Callable:
        def passed(self: Any, *given: Any, **said: Any) -> Any:
            for door in _spies():
                door.n_choices += 1
            return method(self, *given, **said)

        return passed

    def bits(self: Any, size: int) -> bytes:
        generator = getattr(_MINE, "bits", None)
        return secure(self, size) if generator is None else generator.bytes(size)

    of_standing = patch.multiple(standing, release=through_standing, release_nodes=through_nodes)
    choices: Any = {name: counted(getattr(PrivacyAccountant, name)) for name in ("release_choice", "release_discovered")}
    at_door = patch.multiple(PrivacyAccountant, release=through, **choices)
    with at_door, of_standing, patch.object(SecureBits, "bytes", bits):
        yield


def _notify_spies(values: Any, noise: Any, drawn: np.ndarray, said: dict[str, Any], **how: Any) -> np.ndarray:
    for door in _spies():
        drawn = door.observe(values, noise, drawn, said, **how)
    return drawn


@dataclass(frozen=True)
class NoiseLoss:
    """Loss of noise between two tables."""

    epsilon: Any = Fraction(0)  # Fraction or inf, of noise with a pure loss
    rho: Any = Fraction(0)  # of Gaussian noise, in zCDP: the sum of change^2 over 2 scale^2
    gaussian: Any = Fraction(0)  # half of mu^2 of the continuous noise that was rounded: over 2 (scale^2 - 5/3); inf for scales below 3

    def __add__(self, other: "NoiseLoss") -> "NoiseLoss":
        return NoiseLoss(self.epsilon + other.epsilon, self.rho + other.rho, self.gaussian + other.gaussian)


def pair_loss(draw: Draw, other: Draw) -> NoiseLoss:
    """Return the exact loss of one answer between the tables of two draws.

    Laplace noise loses the sum of |change| over scale, sup-norm noise the largest of them, matrix Laplace noise the sum of the absolute
    eigenvalues of the change over scale, Gaussian noise sums of squares.
    """
    if "MatrixLaplace" in kind_of(draw.noise):
        return NoiseLoss(_nuclear(draw.values - other.values, Fraction(draw.noise.scale)))
    moved = np.flatnonzero(draw.values.ravel() != other.values.ravel())
    if not len(moved):
        return NoiseLoss()
    scales = np.broadcast_to(np.asarray(draw.noise.scale, dtype=object), draw.values.shape).ravel()[moved]
    if any(scale == 0 for scale in scales):
        return NoiseLoss(float("inf"))
    first, second = draw.values.ravel()[moved].tolist(), other.values.ravel()[moved].tolist()
    changes = [(Fraction(abs(a - b)), Fraction(scale)) for a, b, scale in zip(first, second, scales, strict=True)]
    kind = kind_of(draw.noise)
    if "Gaussian" in kind:
        return sum((gaussian_loss(sensitivity**2, scale) for sensitivity, scale in changes), NoiseLoss())
    return loss_of_ratios(kind, [sensitivity / scale for sensitivity, scale in changes])


def _nuclear(moved: np.ndarray, scale: Fraction) -> Any:
    """Return the nuclear norm over scale, less the 1e-9 that floats may be wrong."""
    norm = float(np.abs(np.linalg.eigvalsh(moved.astype(float))).sum())
    if not norm:
        return Fraction(0)
    return Fraction(norm * (1 - 1e-9)) / scale if scale else float("inf")


def gaussian_loss(squared: Fraction, scale: Fraction) -> NoiseLoss:
    """Return the loss of Gaussian noise for a squared change."""
    continuous = scale**2 - Fraction(5, 3)
    return NoiseLoss(rho=squared / (2 * scale**2), gaussian=squared / (2 * continuous) if scale >= 3 else float("inf"))


def loss_of_ratios(kind: str, ratios: list[Fraction]) -> NoiseLoss:
    """Return the loss of noise of a pure kind, from |change| over scale of each value."""
    if "SupNorm" in kind:
        return NoiseLoss(max(ratios))
    if "Laplace" in kind:
        return NoiseLoss(sum(ratios, Fraction(0)))
    raise AssertionError(f"the noise {kind} has no loss that is known here")


def kind_of(noise: Any) -> str:
    return str(getattr(noise, "kind", type(noise).__name__))
