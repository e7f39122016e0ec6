"""Noise and loss, made together from a sensitivity, for one release or for a stream of them."""

import math
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import check_choice, check_integer, check_type, short_repr
from skdpsynth.privacy._composition import covers, rho_of_epsilon
from skdpsynth.privacy._gaussian import DiscreteGaussian, gaussian_scale
from skdpsynth.privacy._laplace import DiscreteLaplace, DiscreteSupNorm, laplace_scale
from skdpsynth.privacy._ledger_entry import Accountant
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._matrix_laplace import DiscreteMatrixLaplace
from skdpsynth.privacy._noise import MOST_VALUES, Noise, check_int64
from skdpsynth.privacy._random import RandomBits, check_stream


@dataclass(frozen=True)
class Mechanism:
    """Noise that covers a sensitivity, and its cost: `mechanism` makes the two together, so neither can be stated apart.

    Attributes
    ----------
    sensitivity : Sensitivity
        How far one row moves the values. The noise covers that of ``loss.rows`` rows, ``sensitivity.times(loss.rows)``.
    noise : DiscreteLaplace, DiscreteGaussian, DiscreteSupNorm or DiscreteMatrixLaplace
    loss : PrivacyLoss
        The charge.
    n_values : int
        How many values it was made for; the variance of some noises depends on it.

    See Also
    --------
    skdpsynth.privacy.mechanism : Makes it.
    """

    sensitivity: Sensitivity
    noise: Noise
    loss: PrivacyLoss
    n_values: int = 1

    @property
    def spends_delta(self) -> bool:
        """Whether it needs the delta of a budget, as Gaussian noise does."""
        return self.loss.rho is not None or bool(self.loss.delta)

    @property
    def variance(self) -> float:
        """Variance of the noise on one value."""
        return float(self.noise.variance(self.n_values))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one value; infinite where the sampler would wait too long."""
        try:
            self.noise.check_size(self.n_values)
        except ValueError:
            return math.inf
        return math.sqrt(self.variance)


def mechanism(sensitivity: Sensitivity, share: PrivacyLoss, kinds: Sequence[str] = ("laplace", "gaussian"), n_values: int = 1) -> Mechanism:
    """Return the noise of least deviation, of some kinds, that covers all rows of a unit at a share of the budget.

    The choice is by public numbers alone.

    Parameters
    ----------
    sensitivity : Sensitivity
        How far one row moves the values.
    share : PrivacyLoss
        The most it may cost, and how many rows a unit may have (``share.rows``, 1 where the unit is the row). A pure share serves all but
        "gaussian", rho serves "gaussian", and (epsilon, delta) all of them: Gaussian noise is then charged as such, or, where its scale
        is so small that this would take more of it, as zCDP.
    kinds : sequence of {"laplace", "gaussian", "sup_norm", "matrix_laplace"}, default=("laplace", "gaussian")
        Allowed kinds; "matrix_laplace" where the values are a whole symmetric matrix and the sensitivity has a nuclear norm.
    n_values : int, default=1
        How many values are released together.

    Returns
    -------
    mechanism : Mechanism

    See Also
    --------
    Budget : Answers queries with it.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyLoss, mechanism
    >>> from skdpsynth.statistics import Histogram
    >>> chosen = mechanism(Histogram.sensitivity("replace_one"), PrivacyLoss(epsilon=0.5))
    >>> chosen.noise, chosen.loss
    (DiscreteLaplace(scale=Fraction(4, 1)), PrivacyLoss(epsilon=Fraction(1, 2), delta=Fraction(0, 1), rho=None, gaussian=False))
    """
    check_type("sensitivity", sensitivity, Sensitivity, "a Sensitivity, as a statistic tells it")
    check_type("share", share, PrivacyLoss, "a PrivacyLoss, such as PrivacyLoss(epsilon=0.5)")
    check_type("kinds", kinds, (tuple, list), "a tuple of kinds of noise, such as ('laplace', 'gaussian')")
    n_values = check_integer("n_values", n_values, 0, MOST_VALUES)
    for kind in kinds:
        check_choice("kinds", kind, tuple(NOISES))
    if share.is_infinite:
        return Mechanism(sensitivity, DiscreteLaplace(Fraction(0)), share, n_values)
    kind, place, scale = _least_deviation(sensitivity, share, tuple(kinds), n_values)
    return Mechanism(sensitivity, NOISES[kind](scale), losses_of_kind(kind, share)[place], n_values)


NOISES: dict[str, type[Noise]] = {
    "laplace": DiscreteLaplace,
    "gaussian": DiscreteGaussian,
    "sup_norm": DiscreteSupNorm,
    "matrix_laplace": DiscreteMatrixLaplace,
}


@lru_cache(maxsize=1024)  # a plan is made twice for each fit, and again for the next one; all of it is public
def _least_deviation(sensitivity: Sensitivity, share: PrivacyLoss, kinds: tuple[str, ...], n_values: int) -> tuple[str, int, Fraction]:
    """Return the kind of noise of least deviation, the number of its loss, and its scale: no object that a pickle may tell apart."""
    options = [
        (Mechanism(sensitivity, NOISES[kind](scale), loss, n_values).deviation, kind, place, scale)
        for kind in kinds
        for place, loss in enumerate(losses_of_kind(kind, share))
        for scale in [scale_of_kind(kind, sensitivity, loss)]
    ]
    if not options:
        raise ValueError(f"kinds must hold one that serves a loss of {share}, got {', '.join(kinds)}; give delta > 0 for Gaussian noise.")
    return min(options, key=itemgetter(0))[1:]


def loss_of_kind(kind: str, share: PrivacyLoss) -> PrivacyLoss | None:
    """Return what noise of a kind can spend of a share: a Gaussian loss or a pure epsilon; None if it does not serve the share."""
    return next(iter(losses_of_kind(kind, share)), None)


def losses_of_kind(kind: str, share: PrivacyLoss) -> list[PrivacyLoss]:
    """Return what noise of a kind can be charged as at a share: Gaussian noise as such, or as zCDP (less noise at small scales)."""
    if kind != "gaussian":
        return [] if share.rho is not None else [share.pure]
    if share.rho is not None:
        return [share]
    if not share.delta:
        return []
    rho_of = {each: rho_of_epsilon(share.epsilon, share.delta, gaussian=each) for each in (True, False)}
    return [PrivacyLoss(rho=rho, gaussian=each, rows=share.rows) for each, rho in rho_of.items()]


def scale_of_kind(kind: str, sensitivity: Sensitivity, loss: PrivacyLoss) -> Fraction:
    """Return the least scale of a kind of noise that covers ``loss.rows`` times a sensitivity, whether or not it can be sampled."""
    moved = NOISES[kind].moved_by(sensitivity.times(loss.rows))
    return gaussian_scale(moved, loss.rho, gaussian=loss.gaussian) if kind == "gaussian" else laplace_scale(moved, loss.epsilon)


def check_covered(
    noise: Noise, rng: RandomBits, sensitivity: Sensitivity | None, loss: PrivacyLoss, relation: str, name: str, n_rows: int
) -> None:
    """Raise unless noise covers, at a loss, the sensitivity of one row times the `n_rows` of a unit: nobody pays for less than is lost.

    Without a sensitivity the caller answers for the loss; still, scale 0 has an infinite loss, and Gaussian noise no pure one. For a unit
    of several rows the sensitivity must be stated.
    """
    check_stream(rng)
    if not isinstance(noise, Noise):
        raise TypeError(f"noise must be a noise such as DiscreteLaplace(scale), got {short_repr(noise)}; see skdpsynth.privacy.")
    if Fraction(0) in noise.scales and not loss.is_infinite:
        raise ValueError(f"Releasing {short_repr(name)} with scale 0 has an infinite loss, got {loss}; give the noise a positive scale.")
    if sensitivity is not None:
        check_type("sensitivity", sensitivity, Sensitivity, "None or a Sensitivity, as a statistic tells it")
    if sensitivity is not None and sensitivity.relation != relation:
        raise ValueError(f"sensitivity is stated under {sensitivity.relation!r}, but this budget is under {relation!r}; ask for that.")
    if sensitivity is None and n_rows > 1:
        raise ValueError(
            f"Releasing {short_repr(name)} must state its sensitivity where a unit may have {n_rows} rows, got None; ask the statistic."
        )
    sensitivity = sensitivity if sensitivity is None else sensitivity.times(n_rows)
    costs = noise.losses(Sensitivity(relation, 1, 1, 1, 1) if sensitivity is None else sensitivity)
    if not costs or loss.is_infinite:
        return
    cost = costs[-1 if loss.gaussian else 0]
    if cost.rho is not None and loss.rho is None and not loss.delta:
        raise ValueError(f"Releasing {short_repr(name)} with Gaussian noise has no pure loss, got {loss}; give loss=PrivacyLoss(rho=...).")
    if sensitivity is not None and not any(covers(loss, each) for each in costs):
        raise ValueError(f"Releasing {short_repr(name)} with {noise.describe()} costs {cost}, more than the loss {loss} that is charged.")


Node = tuple[Hashable, str, int]  # its key in what the caller keeps, the name of its draw, and its sign


class ContinualRelease:
    """Noise for all releases of one mechanism, under one charge. Only `PrivacyAccountant` makes one.

    Every value that leaves carries noise of this scale, which is 0 only where the loss is infinite. The charge is known here, so a
    mechanism that costs more is refused. It stays in its process, even where the ledger is in a file: a fork has a copy of all noise so
    far, so releases of different events in both would differ by exact counts, or be a second release that nobody pays for.
    """

    def __init__(self, accountant: Accountant, noise: Noise, loss: PrivacyLoss, rng: RandomBits) -> None:
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
