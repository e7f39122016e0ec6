"""Private selection by exact whole numbers: permute-and-flip for a pure loss, the exponential mechanism for one in rho."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._sensitivity import Sensitivity
from skdpsynth._validation import as_array
from skdpsynth.privacy._gaussian_dp import gaussian_of_pure, pure_of_gaussian
from skdpsynth.privacy._losses import PrivacyLoss
from skdpsynth.privacy._random import RandomBits, bernoulli_exp_minus, check_stream

_STEPS = 1 << 20  # of a scale, as of Gaussian ones


@dataclass(frozen=True)
class _Selection(ABC):
    """A private choice of a candidate by its utility."""

    scale: Fraction

    @property
    def scales(self) -> tuple[Fraction, ...]:
        return (self.scale,)

    @abstractmethod
    def _proposals(self, size: int, rng: RandomBits) -> Iterable[int]: ...

    def choose(self, utilities: Sequence[int], rng: RandomBits) -> int:
        """Draw the number of a candidate, by exact and **private** utilities: only `release_choice`, which charges, calls this."""
        best = max(utilities)
        if not self.scale:
            return utilities.index(best)
        return next(each for each in self._proposals(len(utilities), rng) if _is_taken((best - utilities[each]) / self.scale, rng))


@dataclass(frozen=True)
class PermuteAndFlip(_Selection):
    """Visit candidates in random order, and take candidate c with probability ``exp((u_c - max u) / scale)``.

    The best one is always taken when it is visited, so one round is enough. With scale 0 the best one is taken, the first of several; that
    has an infinite loss, unless no utility moves.

    *Loss.* Where neighbors move every utility by at most D, the choice is (2 D / scale)-differentially private. Let
    ``p_c = exp((u_c - max u) / scale)``. Give each candidate a time uniform on (0, 1); in their order, c is taken if all that came before
    refused, so

        P(c) = p_c * integral over s from 0 to 1 of the product over j != c of (1 - s p_j).

    That is the law of ``argmax(u_j + Z_j)`` with independent Z_j of the exponential distribution of mean `scale`: given Z_c = z, all others
    lose with the product over j of ``max(0, 1 - exp(-(u_c + z - u_j) / scale))``; put ``s = exp(-(u_c + z - max u) / scale)``, so that
    ``exp(-z / scale) dz / scale = p_c ds``. The loss of the argmax is plain: fix the Z_j of the others, let t be the largest of their
    ``u_j + Z_j``. Then c wins with ``P(Z_c > t - u_c)``. A neighbor moves t and u_c by at most D each, and
    ``P(Z > x + 2 D) >= exp(-2 D / scale) P(Z > x)`` for all x, also below 0.

    Nothing is rounded: the order is uniform, and ``U < exp(-x)`` is decided for a rational x by certified bounds and as many bits of U as
    that takes.

    References
    ----------
    .. [1] McKenna, Sheldon (2020), "Permute-and-flip: a new mechanism for differentially private selection".
    .. [2] Ding, Kifer, Steinke, Wang, Xiao, Zhang (2021), "The permute-and-flip mechanism is identical to report-noisy-max with
       exponential noise".
    """

    def _proposals(self, size: int, rng: RandomBits) -> Iterable[int]:
        return _random_permutation(size, rng)


@dataclass(frozen=True)
class ExponentialMechanism(_Selection):
    """Choose candidate c with probability in proportion to ``exp(u_c / scale)``; with scale 0 the best one, the first of several.

    A candidate is drawn evenly and taken with probability ``exp((u_c - max u) / scale)``; where it is not, another draw follows.

    *Loss.* Where neighbors move every utility by at most D, the logarithm of P(c) / Q(c) is ``(u_c - v_c) / scale`` and a number that all
    candidates share: it lies in an interval of length b = 2 D / scale. Such a range is the Gaussian loss of a pure epsilon of b / 2 [1]_,
    as `_gaussian_dp` proves: so at the same loss in rho the scale is half of that of permute-and-flip.

    .. [1] Dong, Durfee, Rogers (2020), "Optimal differential privacy composition for exponential mechanisms".
    """

    def _proposals(self, size: int, rng: RandomBits) -> Iterable[int]:
        while True:
            yield _uniform_below(size, rng)


def _is_taken(x: Fraction, rng: RandomBits) -> bool:
    return x == 0 or bernoulli_exp_minus(x, rng, int.from_bytes(rng.bytes(8)), 64)


def _random_permutation(size: int, rng: RandomBits) -> list[int]:
    """Return the numbers below `size` in uniform order (Fisher and Yates)."""
    order = list(range(size))
    for last in range(size - 1, 0, -1):
        other = _uniform_below(last + 1, rng)
        order[last], order[other] = order[other], order[last]
    return order


def _uniform_below(size: int, rng: RandomBits) -> int:
    """Return a whole number uniform on [0, size): draws beyond the last multiple of `size` are drawn again."""
    whole = (1 << 64) - (1 << 64) % size
    while (drawn := int.from_bytes(rng.bytes(8))) >= whole:
        pass
    return drawn % size


def selection_mechanism(
    sensitivity: Sensitivity, loss: PrivacyLoss, relation: str, rng: RandomBits
) -> PermuteAndFlip | ExponentialMechanism:
    """Return the choice of least scale that a loss covers, where the sup of the sensitivity bounds how far utilities move."""
    check_stream(rng)
    if sensitivity.relation != relation:
        raise ValueError(f"change is stated under {sensitivity.relation!r}, but this budget is under {relation!r}; ask for that.")
    if loss.rho is None:
        return PermuteAndFlip(Fraction(0) if loss.epsilon == math.inf else 2 * sensitivity.sup / loss.epsilon)
    return ExponentialMechanism(Fraction(0) if loss.rho == math.inf else exponential_scale(sensitivity.sup, loss.rho))


@lru_cache(maxsize=1 << 10)
def exponential_scale(sup: Fraction, rho: Fraction) -> Fraction:
    """Return the least scale, a multiple of 2**-20, of the exponential mechanism whose Gaussian loss is at most `rho`."""
    epsilon = pure_of_gaussian(rho)
    if not epsilon:
        raise ValueError(f"A loss of rho={float(rho):g} is too small for a choice; give it a larger share of the budget.")
    return Fraction(math.ceil(sup / epsilon * _STEPS), _STEPS)


def selection_loss(sup: Fraction, scale: Fraction, kind: PrivacyLoss) -> PrivacyLoss:
    """Return the cost of a choice of some scale, in the kind of another loss: the inverse of `selection_mechanism`."""
    if kind.rho is None:
        return PrivacyLoss(epsilon=2 * sup / scale, rows=kind.rows)
    return PrivacyLoss(rho=gaussian_of_pure(sup / scale), gaussian=kind.gaussian, rows=kind.rows)


def check_utilities(utilities: Any) -> list[int]:
    """Return utilities as whole numbers; refuse others, without a word about them."""
    utilities = as_array(utilities)
    if utilities.ndim != 1 or not utilities.size or utilities.dtype != np.int64:
        raise TypeError(
            f"utilities must be a non-empty int64 array of one axis, so that their sensitivity is exact, got {utilities.dtype} of shape "
            f"{utilities.shape}; count in whole units."
        )
    listed: list[int] = utilities.tolist()
    return listed
