"""Optimal composition of pure losses that are fixed in advance, rounded up: the least epsilon, and the best attack.

Every e-differentially private mechanism is post-processing of randomized response: one bit, true with probability
p = e^e / (1 + e^e) [1]_, even if it is asked again and again [3]_. So k of them are post-processing of k such bits, in whatever order
they are used, and randomized response itself attains it. The privacy loss of the bits is the sum of independent +-e_i, each + with
probability p_i under the first table and with 1 - p_i under the second. With its law P, and Q(s) = P(-s) under the second,

    delta(epsilon) = sum over s > epsilon of P(s) - e^epsilon P(-s),

and the least epsilon at a delta is where that is delta [1]_ [2]_. A chance of delta_i to lose all leaves 1 - delta_i for the rest:
delta becomes 1 - (1 - delta) prod (1 - delta_i).

**Least epsilon.** The sum over s > epsilon is the largest of all sums P(s > t) - e^epsilon Q(s > t). So delta(epsilon) <= delta holds from
the largest of all ln((P(s > t) - delta) / Q(s > t)) on.

**Rounding.** The e_i are rounded up to multiples of a step (a promise of e implies every larger one): the largest that divides
all of them, or, where that makes too many, their sum over the most steps. After that only floats round, and they hold
products and sums of positive numbers: n of those in a row are wrong by a factor 1 +- n 2^-52, and by 1e-150 where numbers vanish.
The result has P larger and Q smaller by that.

References
----------
.. [1] Kairouz, Oh, Viswanath (2015), "The composition theorem for differential privacy", theorems 3.3 and 3.4.
.. [2] Murtagh, Vadhan (2016), "The complexity of computing the optimal composition of differential privacy".
.. [3] Vadhan, Wang (2021), "Concurrent composition of differential privacy"; with deltas, Vadhan, Zhang (2023), "Concurrent composition
   theorems for differential privacy".
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from skdpsynth._validation import check_choice, short_repr
from skdpsynth.privacy._composition import rho_of_epsilon
from skdpsynth.privacy._losses import Amount, PrivacyLoss, to_fraction

_MOST_STEPS = 1 << 17  # of the grid, from 0 to the sum of all
_MOST_LOSSES = 1 << 16
_MOST_DISTINCT = 1 << 12  # whose attacks are found in seconds, where not all are equal
_GRID = 10**15
_VANISHED = 1e-150
_SLACK = Fraction(1, 10**9)


def losses_of_child(epsilon: Amount, delta: Fraction, rho: str | None, parents: Fraction) -> list[PrivacyLoss]:
    """Return how a child of a budget of delta `parents` may be charged, the least first: in rho if all of it is, and (epsilon, delta)."""
    if rho is not None:
        check_choice("rho", rho, ("gaussian", "zcdp"), " or None")
    whole = PrivacyLoss(epsilon, delta)
    if rho is None or not delta or not parents or whole.is_infinite:
        return [whole]
    gaussian = rho == "gaussian"
    return [PrivacyLoss(rho=rho_of_epsilon(epsilon, delta, gaussian=gaussian), gaussian=gaussian), whole]


def optimal_loss(losses: Sequence[PrivacyLoss], delta: Fraction) -> PrivacyLoss:
    """Return the joint cost of losses that are fixed in advance, at `delta` more than their own deltas."""
    if not losses or len(losses) > _MOST_LOSSES or any(loss.rho is not None for loss in losses):
        bad = next((loss for loss in losses if loss.rho is not None), f"{len(losses)} losses")
        raise ValueError(
            f"losses must be 1 to {_MOST_LOSSES} losses in epsilon, got {short_repr(str(bad))}; losses in rho add up by themselves."
        )
    kept = math.prod((1 - loss.delta for loss in losses), start=Fraction(1))
    basic = sum(loss.epsilon for loss in losses)
    epsilon = basic if not delta or basic == math.inf else min(basic, optimal_epsilon([loss.epsilon for loss in losses], delta))
    return PrivacyLoss(epsilon, 1 - kept * (1 - (delta if epsilon < basic else 0)))


def covers_composition(losses: Sequence[PrivacyLoss], charge: PrivacyLoss) -> bool:
    """Whether a charge in epsilon pays for losses that were fixed in advance, up to the last digits of another processor."""
    kept = math.prod((1 - loss.delta for loss in losses), start=Fraction(1))
    delta = 1 - (1 - charge.delta) / kept
    if not 0 < delta < 1 or len(losses) > _MOST_LOSSES or any(loss.rho is not None or loss.is_infinite for loss in losses):
        return False
    return optimal_epsilon([loss.epsilon for loss in losses], delta) <= charge.epsilon * (1 + _SLACK)


def optimal_epsilon(epsilons: Sequence[Fraction], delta: Fraction) -> Amount:
    """Return the least epsilon at `delta` > 0 of pure losses that are fixed in advance, rounded up; infinite where floats fail.

    Where the losses have a common step, at most 2^17 of which are their sum, it exceeds the least by less than 1e-9 of it. Otherwise each
    loss is rounded up by less than 2^-17 of the sum of all.
    """
    law, error = _compose(epsilons)
    return _least_epsilon(law, float(delta), error)


def tradeoff_curve(epsilons: Sequence[Fraction]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return lower bounds on how often the best attacks on fixed pure losses are wrong, and upper bounds on how often right; or None.

    They are the corners of the trade-off curve, which is straight between them: by Neyman and Pearson the best attack gives the alarm where
    the privacy loss of all bits is more than some t, and so it is right with P(s > t), and wrong with P(s < -t). Rounded as above. None
    where so many losses would take long.
    """
    n_losses = len(epsilons)
    if not 0 < n_losses <= _MOST_LOSSES or (n_losses > _MOST_DISTINCT and len(set(epsilons)) > 1):
        return None
    law, error = _compose(epsilons)
    wrong, right = np.cumsum(law) * (1 - error) - _VANISHED, np.cumsum(law[::-1]) * (1 + error) + _VANISHED
    return np.append(0.0, np.maximum(wrong, 0)), np.append(0.0, np.minimum(right, 1))


def _compose(epsilons: Sequence[Fraction]) -> tuple[np.ndarray, float]:
    """Return the law of the privacy loss, from -S to S steps, and a bound on the relative error of its sums."""
    whole, one = sum(epsilons), math.lcm(*(epsilon.denominator for epsilon in epsilons))
    common = Fraction(math.gcd(*(int(epsilon * one) for epsilon in epsilons)), one)  # the largest step that divides all of them
    step = Fraction(max(common, whole / _MOST_STEPS))
    law, n_rounded = np.ones(1), 64.0
    for steps, count in sorted(Counter(math.ceil(epsilon / step) for epsilon in epsilons).items()):
        law = _convolve(law, _binomial_pmf(float(step * steps), count), steps)
        n_rounded += count * (8 + float(step * steps))
    return law, (n_rounded + len(law)) * 2.0**-52


def _binomial_pmf(epsilon: float, count: int) -> np.ndarray:
    """Return probabilities that 0, 1, ... of `count` bits are false: binomial, by ratios from the largest on, whose sum is 1."""
    false = np.arange(1, count + 1)
    ratios = (count - false + 1) / false * math.exp(-epsilon)  # which fall
    top = int(np.count_nonzero(ratios > 1))
    weights = np.concatenate([np.cumprod(1 / ratios[:top][::-1])[::-1], [1.0], np.cumprod(ratios[top:])])
    return weights / weights.sum()


def _convolve(law: np.ndarray, bits: np.ndarray, steps: int) -> np.ndarray:
    """Return the law of a loss, from -S to S steps, with equal bits added."""
    joined = np.zeros(len(law) + 2 * steps * (len(bits) - 1))
    for n_false, probability in enumerate(bits[::-1]):  # from the least loss, of which all are false
        if probability > _VANISHED**2:
            start = 2 * steps * n_false
            joined[start : start + len(law)] += probability * law
    return joined


def _least_epsilon(law: np.ndarray, delta: float, error: float) -> Amount:
    above, below = np.cumsum(law[::-1]), np.cumsum(law)  # of the largest losses, first the largest alone: under the one table, the other
    excess = above * (1 + error) + _VANISHED - delta * (1 - 2.0**-52)
    least = below * (1 - error) - _VANISHED
    if np.any((excess > 0) & (least <= 0)):
        return math.inf
    needed = float(np.max(np.log(excess[excess > 0] / least[excess > 0]), initial=0.0))
    return Fraction(math.ceil(to_fraction(needed * (1 + 1e-12) + 1e-12) * _GRID), _GRID)
