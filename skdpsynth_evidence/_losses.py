"""Losses of noise and their sums in fractions and certified decimals, without code of the mechanisms."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

NORM_OF = {
    "DiscreteLaplace": "l1",
    "DiscreteGaussian": "l2_squared",
    "DiscreteSupNorm": "sup",
    "DiscreteMatrixLaplace": "nuclear",
    "PermuteAndFlip": "sup",
    "ExponentialMechanism": "sup",
}
CHOICES = dict.fromkeys(("PermuteAndFlip", "ExponentialMechanism"), ("utilities", "dependences", "parity_gaps"))  # kinds to choose from
ROUNDED = Fraction(5, 3)  # of the variance: discrete Gaussian noise is the rounding of continuous noise of so much less
_DIGITS = 60
_SLACK = Fraction(1, 10**12)  # of a converted epsilon, which is rounded up to 15 decimals, with 2e-13 for the rounding above
_STEP = Fraction(1, 2**20)  # Gaussian scales are rounded up to it
_LEAST = Fraction(1, 100)  # of all scales
_MOST_SUMS = 20_000
_LARGE = 100  # epsilon


def number(text: Any) -> Any:
    """Return the exact number of a text such as "1/10", or infinity."""
    return math.inf if text == "inf" else Fraction(text)


def cost(release: dict[str, Any], sensitivity: Any, scale: Fraction) -> Any:
    """Return the loss of a release, as (epsilon, delta) or as rho, from its sensitivity in the norm of its noise.

    - Laplace, of values, of their largest or of a symmetric matrix: the exponent of the density moves by at most sensitivity / scale.
    - Permute and flip is the largest of utilities with exponential noise: the winner and the largest of the others both move.
    - The exponential mechanism: the logarithm of the ratio of probabilities lies in a range of 2 sensitivity / scale, which is as Gaussian
      as a pure loss of half of it.
    - Gaussian: sensitivity^2 / (2 scale^2) of zCDP; half the square of mu is over the variance that is left after rounding.
    - Levels that enough rows have, and sparse counts: see below and `_exposure_delta`.
    """
    noise, kind, loss = release["noise"], (release["statistic"] or {}).get("kind"), release["loss"]
    if noise == "DiscreteGaussian":
        variance = scale**2 - (ROUNDED if loss.get("gaussian") else 0)
        return math.inf if loss.get("gaussian") and scale < 3 else sensitivity / (2 * variance)
    if noise == "ExponentialMechanism":
        return gaussian_of_pure(sensitivity / scale)
    if kind == "levels_shown":
        return sensitivity / scale, _exposure_delta(release, scale)
    if kind == "sparse_over_time":
        # One comparison is charged, because an event is in one segment, then the counts of segments, and the total.
        statistic, total = release["statistic"], release["statistic"].get("total_scale")
        segments = sensitivity * statistic["segment_levels"] / number(statistic["segment_scale"])
        return sensitivity / scale + segments + (sensitivity / number(total) if total is not None else 0), Fraction(0)
    return (2 if noise == "PermuteAndFlip" else 1) * sensitivity / scale, Fraction(0)


def _exposure_delta(release: dict[str, Any], scale: Fraction, less: int = 0) -> Fraction:
    """Return the probability that a level of one unit alone is released: the larger of all k rows in one level and one in each of k.

    A level of a rows is released with P(a + Z > t) = q^(t - a + 1) / (1 + q), q = exp(-1 / scale).
    """
    k, threshold = release["rows_per_unit"], release["statistic"]["threshold"] - less
    if threshold < k:
        return Fraction(1)
    with localcontext() as context:
        context.prec = _DIGITS
        q = (-1 / _decimal(scale)).exp()
        chances = [q ** (threshold - a + 1) / (1 + q) for a in (1, k)]
        return release["statistic"]["tables"] * Fraction(max(k * chances[0], chances[1]))


def is_least(release: dict[str, Any], sensitivity: Any, scale: Fraction) -> bool:
    """Whether a scale is no larger than the loss needs, up to the rounding of scales."""
    loss = release["loss"]
    if scale == _LEAST or not sensitivity:
        return True
    if release["noise"] in ("DiscreteGaussian", "ExponentialMechanism"):
        return scale == 3 or (
            is_charge_sufficient(loss, cost(release, sensitivity, scale))
            and not is_charge_sufficient(loss, cost(release, sensitivity, scale - _STEP))
        )
    if (release["statistic"] or {}).get("kind") == "levels_shown" and number(loss["delta"]) >= _exposure_delta(release, scale, 1) < 1:
        return False
    return bool("rho" in loss or cost(release, sensitivity, scale)[0] == number(loss["epsilon"]))


def is_charge_sufficient(loss: dict[str, Any], needed: Any) -> bool:
    """Whether the charge is at least `needed`: (epsilon, delta), or rho of the kind that is charged."""
    is_rho = not isinstance(needed, tuple)
    if "rho" in loss:
        of_pure = gaussian_of_pure if loss["gaussian"] else rho_of_pure
        return bool(number(loss["rho"]) >= (needed if is_rho else of_pure(needed[0])) and (is_rho or not needed[1]))
    epsilon, delta = number(loss["epsilon"]), number(loss["delta"])
    if is_rho:
        return bool(delta > 0 and is_budget_kept(epsilon, delta, Sums(rho=needed, gaussian=False)))
    return bool(epsilon >= needed[0] and delta >= needed[1])


# Sums of losses


@dataclass(frozen=True)
class Sums:
    """Sums of losses; `gaussian` says whether all of rho is of Gaussian noise."""

    epsilon: Any = Fraction(0)  # of pure and approximate losses, as delta
    delta: Fraction = Fraction(0)
    rho: Any = Fraction(0)
    gaussian: bool = True
    in_rho: Any = Fraction(0)  # rho of zCDP of the losses in epsilon
    in_gaussian: Any = Fraction(0)  # ... and of Gaussian noise

    @classmethod
    def of(cls, losses: Iterable[dict[str, Any]]) -> "Sums":
        listed = list(losses)
        pure, others = [x for x in listed if "rho" not in x], [x for x in listed if "rho" in x]
        epsilons = [number(x["epsilon"]) for x in pure]
        delta, rho = sum((number(x["delta"]) for x in pure), Fraction(0)), sum((number(x["rho"]) for x in others), Fraction(0))
        in_rho, in_gaussian = (sum(map(of_pure, epsilons), Fraction(0)) for of_pure in (rho_of_pure, gaussian_of_pure))
        return cls(sum(epsilons, Fraction(0)), delta, rho, all(x["gaussian"] for x in others), in_rho, in_gaussian)

    @classmethod
    def largest(cls, all_sums: Iterable["Sums"]) -> "Sums":
        """Return a bound for each of some sums: of members of a group, whose rows are disjoint."""
        listed = list(all_sums)
        most = {name: max(getattr(each, name) for each in listed) for name in _ADDED}
        return cls(**most, gaussian=all(each.gaussian for each in listed))

    def __add__(self, other: "Sums") -> "Sums":
        both = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return Sums(**both, gaussian=self.gaussian and other.gaussian)

    def all_in_rho(self, gaussian: bool) -> "Sums":
        """Return the sums of an account that counts pure losses in rho, of Gaussian noise or of zCDP."""
        more = self.in_gaussian if gaussian else self.in_rho
        return Sums(delta=self.delta, rho=self.rho + more, gaussian=self.gaussian and gaussian)


_ADDED = ("epsilon", "delta", "rho", "in_rho", "in_gaussian")


def add_charges(releases: Iterable[dict[str, Any]]) -> Sums:
    """Add the charges of one account; of a group only the largest member counts, and equal names are one member."""
    alone: list[dict[str, Any]] = []
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for release in releases:
        if release["group"] is None:
            alone.append(release["loss"])
        else:
            groups.setdefault(release["group"], {}).setdefault(release["name"], []).append(release["loss"])
    total = Sums.of(alone)
    for members in groups.values():
        total = total + Sums.largest(map(Sums.of, members.values()))
    return total


def is_budget_kept(epsilon: Any, delta: Fraction, sums: Sums, slack: Any = 0) -> bool:
    """Whether sums keep (epsilon, delta): pure losses add up, and rho is converted at the rest of both, or they are taken together."""
    if _is_kept_apart(epsilon, delta, sums, slack):
        return True
    left, chance = epsilon - sums.epsilon, delta - sums.delta
    return bool(sums.gaussian and 0 < sums.rho < math.inf and left >= 0 < chance and _mixture_delta(sums, left) <= chance)


def _is_kept_apart(epsilon: Any, delta: Fraction, sums: Sums, slack: Any = 0) -> bool:
    if epsilon == math.inf:
        return True
    if sums.epsilon == math.inf or sums.rho == math.inf or sums.epsilon > epsilon or sums.delta > delta:
        return False
    if not sums.rho:
        return True
    left, chance = epsilon - sums.epsilon + slack, delta - sums.delta
    return chance > 0 and (_zcdp_holds(sums.rho, left, chance) or (sums.gaussian and _gaussian_delta(sums.rho, left) <= chance))


def is_tight(epsilon: Any, delta: Fraction, sums: Sums) -> bool:
    """Whether sums added up keep no smaller epsilon, up to the rounding of conversions."""
    if not sums.rho or epsilon == math.inf:
        return bool(epsilon == sums.epsilon)
    return not _is_kept_apart(epsilon - _SLACK * max(1, epsilon), delta, sums)


def is_amplified(rate: Fraction, epsilon: Any, whole: Any) -> bool:
    """Whether ``exp(epsilon) - 1`` is at least `rate` times that of the whole: a sample at this rate, of which nobody is known to be in."""
    if epsilon >= whole or math.inf in (epsilon, whole) or rate == 1:
        return bool(epsilon >= whole)
    with localcontext() as context:
        context.prec = _DIGITS
        return _decimal(epsilon).exp() - 1 >= _decimal(rate) * (_decimal(whole).exp() - 1)


def rho_of_pure(epsilon: Any) -> Any:
    """Return epsilon tanh(epsilon / 2): the rho of randomized response, the worst mechanism of that epsilon."""
    if epsilon == math.inf or not epsilon:
        return epsilon
    with localcontext() as context:
        context.prec = _DIGITS
        grown = _decimal(min(epsilon, Fraction(10**4))).exp()
        return epsilon * Fraction((grown - 1) / (grown + 1))


def gaussian_of_pure(epsilon: Any) -> Any:
    """Return the rho of Gaussian noise as bad as randomized response of epsilon: mu / 2 has the upper tail 1 / (1 + e^epsilon).

    Newton's method comes from below, because the tail is convex there, and its last step is rounded up.
    """
    if epsilon == math.inf or not epsilon:
        return epsilon
    if epsilon > _LARGE:
        return 4 * epsilon  # the tail at x is below exp(-x^2 / 2) / 2
    with localcontext() as context:
        context.prec = _DIGITS
        wanted, x = 1 / (1 + _decimal(epsilon).exp()), Decimal(0)
        root, step = (2 * _pi()).sqrt(), Decimal(1)
        while step > x * Decimal("1e-30"):
            step = (upper_tail(x) - wanted) * root * (x * x / 2).exp()
            x += step
        return 2 * Fraction(x * (1 + Decimal("1e-28"))) ** 2


def _zcdp_holds(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether some alpha proves ln delta >= (alpha - 1) (alpha rho - epsilon) + alpha ln(1 - 1/alpha) - ln(alpha - 1).

    The right side is convex in alpha: golden sections find its minimum, and any value is a proof.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        r, e, target, one = _decimal(rho), _decimal(epsilon), _decimal(delta).ln(), Decimal(1)

        def log_delta(excess: Decimal) -> Decimal:
            alpha = one + excess
            return excess * (alpha * r - e) + alpha * (excess / alpha).ln() - excess.ln()

        low, high, ratio = Decimal(-40), Decimal(40), (Decimal(5).sqrt() - 1) / 2  # of ln(alpha - 1)
        for _ in range(90):
            a, b = high - ratio * (high - low), low + ratio * (high - low)
            low, high = (low, b) if log_delta(a.exp()) < log_delta(b.exp()) else (a, high)
        return log_delta(low.exp()) <= target


def _gaussian_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return the delta of mu-GDP, mu^2 = 2 rho, with the cost of rounding: Q(a) - e^epsilon Q(a + mu), a = epsilon / mu - mu / 2."""
    with localcontext() as context:
        context.prec = _DIGITS
        rounding = Decimal("2e-13")
        e, mu = _decimal(epsilon) - rounding, (2 * _decimal(rho)).sqrt()
        a = e / mu - mu / 2
        return Fraction((upper_tail(a) - e.exp() * upper_tail(a + mu)) * (1 + rounding / 2))


def _mixture_delta(sums: Sums, left: Any) -> Fraction:
    """Return the delta of pure losses and Gaussian ones at `left` beyond the pure: randomized response puts +-epsilon beside the Gaussian.

    Beyond 20 of its deviations the Gaussian has next to nothing, and less than what it has there.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        odds, mu = (-_decimal(sums.epsilon)).exp(), (2 * _decimal(sums.rho)).sqrt()
        far = left + min(2 * sums.epsilon, Fraction(20 * mu))
        near, beyond = (_decimal(_gaussian_delta(sums.rho, each)) for each in (left, far))
        return Fraction((near + odds * beyond) / (1 + odds) * (1 + Decimal("1e-50")))


def upper_tail(x: Decimal) -> Decimal:
    """Return the upper tail Q(x) of the standard normal law by the series of phi(t) x^(2k + 1) / (2k + 1)!!, with digits to cancel."""
    with localcontext() as context:
        context.prec = 2 * _DIGITS + int(abs(x)) ** 2
        half, term, total, odd = x * x / 2, abs(x), Decimal(0), 1
        while term > Decimal(10) ** -context.prec:
            total += term
            odd += 2
            term = term * x * x / odd
        # The sum is sqrt(2 pi) e^(x^2/2) (1/2 - Q): two numbers that agree to many digits where x is large.
        upper = Decimal("0.5") - total * (-half).exp() / (2 * _pi()).sqrt()
        return upper if x >= 0 else 1 - upper


def _pi() -> Decimal:
    """Return pi = 16 arctan(1/5) - 4 arctan(1/239), by Machin."""
    with localcontext() as context:
        context.prec += 5
        total = Decimal(0)
        for weight, inverse in ((16, 5), (-4, 239)):
            power, k = Decimal(weight) / inverse, 0
            while abs(power) > Decimal(10) ** -context.prec:
                total += power / (2 * k + 1) * (-1) ** k
                power, k = power / inverse**2, k + 1
        return total


def optimal_holds(parts: list[dict[str, Any]], epsilon: Fraction, delta: Fraction) -> bool | None:
    """Whether fixed losses in epsilon keep (epsilon, delta) by optimal composition; None if there are too many to tell.

    Randomized response is the worst of each: the sum of +-epsilon_i, with weights e^epsilon_i and 1.
    """
    kept = math.prod((1 - number(part["delta"]) for part in parts), start=Fraction(1))
    with localcontext() as context:
        context.prec = _DIGITS
        law: dict[Fraction, Decimal] = {Fraction(0): Decimal(1)}
        for part in parts:
            one, grown = number(part["epsilon"]), _decimal(number(part["epsilon"])).exp()
            after: dict[Fraction, Decimal] = {}
            for loss, weight in law.items():
                after[loss + one] = after.get(loss + one, Decimal(0)) + weight * grown / (1 + grown)
                after[loss - one] = after.get(loss - one, Decimal(0)) + weight / (1 + grown)
            law = after
            if len(law) > _MOST_SUMS:
                return None
        most = sum((p - _decimal(epsilon).exp() * law[-loss] for loss, p in law.items() if loss > epsilon), Decimal(0))
        return 1 - kept * (1 - Fraction(most)) <= delta


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)
