"""Private selection by exact whole numbers: of one candidate (permute-and-flip, exponential mechanism), and of partitions.

Partition selection shows levels that nobody has listed, if enough rows have them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from skdpsynth._sensitivity import Sensitivity, count_sensitivity
from skdpsynth._validation import as_array, check_integer, check_type, is_integer, short_repr
from skdpsynth.privacy._gaussian import gaussian_of_pure, pure_of_gaussian
from skdpsynth.privacy._laplace import DiscreteLaplace, laplace_scale
from skdpsynth.privacy._losses import PrivacyLoss, check_neighboring
from skdpsynth.privacy._random import RandomBits, bernoulli_exp_minus, check_stream, exp_minus

Level = str | int
_STEPS = 1 << 20  # of a scale, as of Gaussian ones
_LARGEST_SCALE = 2**40  # noise of it reaches 2**62 with a chance of exp(-2**22): far below one part in 2**_BITS
_BITS = 1 << 12
_MOST_ROWS = 2**62  # noise of int64 is added to their number


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
        for chosen in self._proposals(len(utilities), rng):
            x = (best - utilities[chosen]) / self.scale
            if x == 0 or bernoulli_exp_minus(x, rng, int.from_bytes(rng.bytes(8)), 64):
                return chosen
        raise AssertionError("the best candidate is always taken")


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
    as `_gaussian` proves: so at the same loss in rho the scale is half of that of permute-and-flip.

    .. [1] Dong, Durfee, Rogers (2020), "Optimal differential privacy composition for exponential mechanisms".
    """

    def _proposals(self, size: int, rng: RandomBits) -> Iterable[int]:
        while True:
            yield _uniform_below(size, rng)


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
        raise ValueError(f"sensitivity is stated under {sensitivity.relation!r}, but this budget is under {relation!r}; ask for that.")
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


def check_utilities(utilities: object) -> list[int]:
    """Return utilities as whole numbers; refuse others, without a word about them."""
    utilities = as_array(utilities)
    if utilities.ndim != 1 or not utilities.size or utilities.dtype != np.int64:
        raise TypeError(
            f"utilities must be a non-empty int64 array of one axis, so that their sensitivity is exact, got {utilities.dtype} of shape "
            f"{utilities.shape}; count in whole units."
        )
    listed: list[int] = utilities.tolist()
    return listed


# Partition selection


@dataclass(frozen=True)
class Discovery:
    """Noise and a threshold that show levels with many rows, and their cost.

    In each of some tables, the counts of the levels that **occur** get noise Z, discrete Laplace of scale s, and a level is shown where
    ``count + Z > threshold``. Neither counts nor how many levels there are leave the door.

    Let q = exp(-1 / s). A level that one row alone has is shown with probability ``p = P(1 + Z > t) = q**t / (1 + q)``, t the threshold.

    *One table*, between two tables of rows that differ in one row (c and c' are counts of a level, 0 where it does not occur):

    - a level with c, c' >= 1, ``|c - c'|`` = 1 is shown or not with probabilities in a ratio of at most e**(1/s), as its noisy count is;
    - a level with c = 1, c' = 0 is shown with probability p, against 0.

    *add_or_remove_one.* One count changes by 1, so the loss is (1/s, 0) or (0, p).

    *replace_one.* The row leaves a level a and comes to a level b. Levels are shown independently, so the law of what is shown is a
    product, and losses of its factors add. If both occur in both tables: (2/s, 0). If a or b occurs in one table only: (1/s, p). If each
    of them occurs in one table only, a here and b there, the first table shows {a} with probability p and else nothing of the two, the
    second {b} with p and else nothing: no event differs by more than p, so the loss is (0, p), not (0, 2p).

    So one table costs (l/s, p), with l = 1 or 2 counts that change; a row in which a column is missing changes fewer. The tables of
    several columns are independent given the rows, and their losses add: **(m l / s, m p)** for m tables. The threshold is the least whole
    number with ``m p <= delta``, by certified bounds on q**t.

    *A unit of k rows.* They come or go, or k others take their place. The counts of levels that occur in both tables change by k l in all:
    (k l / s, 0). A level that occurs in one table only has a rows there, all of this unit, and is shown with
    ``p(a) = P(a + Z > t) = q**(t - a + 1) / (1 + q)`` (t >= a). Let A be the chance that any of those of the first table is shown, B the
    same of the second, and f the law of all other levels, whose loss is pure. An output that shows a level of the first table alone has
    chance A; all others have (1 - A) f in the first and (1 - B) f in the second, which differ by at most max(0, B - A) beyond the pure
    loss: the delta is at most max(A, B). A is at most the sum of p(a) over levels with a >= 1 and sum k. As p is convex, the sum is
    largest for one level or for k: **p_k = max(p(k), k p(1))**. So m tables cost (m k l / s, m p_k), and the threshold is at least k.

    Attributes
    ----------
    relation : {"replace_one", "add_or_remove_one"}
    n_tables : int
        Number of tables; in each a row has one level, or none.
    noise : DiscreteLaplace
    threshold : int
        At least 1.
    loss : PrivacyLoss
        The charge, (epsilon, delta); its ``rows`` are those of a unit.

    See Also
    --------
    skdpsynth.privacy.discovery : Makes it from a share of the budget.
    PrivacyAccountant.release_discovered : Shows the levels.

    References
    ----------
    .. [1] Korolova, Kenthapadi, Mishra, Ntoulas (2009), "Releasing search queries and clicks privately".
    .. [2] Vadhan (2017), "The complexity of differential privacy", theorem 3.5 (stability-based histograms).
    """

    relation: str
    n_tables: int
    noise: DiscreteLaplace
    threshold: int
    loss: PrivacyLoss

    def check(self, relation: str, n_tables: int, rng: RandomBits, name: str, n_rows: int) -> None:
        """Raise unless noise and threshold cover the charge, for tables under a relation and units of `n_rows` rows."""
        check_stream(rng)
        check_neighboring(relation, "relation")
        n_tables, n_rows = check_integer("n_tables", n_tables), check_integer("n_rows", n_rows, 1)
        if (relation, n_tables) != (self.relation, self.n_tables):
            raise ValueError(
                f"{short_repr(name)} was planned for {self.n_tables} tables under {self.relation!r}, got {short_repr(n_tables)} "
                f"under {relation!r}; plan it anew."
            )
        if self.loss.is_infinite:
            return
        scale = self.noise.scale
        covered = isinstance(self.noise, DiscreteLaplace) and isinstance(scale, Fraction) and 0 < scale <= _LARGEST_SCALE
        covered = covered and self.loss.rho is None and self.loss.epsilon * scale >= count_sensitivity(relation, n_tables).times(n_rows).l1
        if not (covered and is_integer(self.threshold, 1) and is_hidden(scale, self.threshold, self.loss.delta / n_tables, n_rows)):
            raise ValueError(
                f"Showing levels of {short_repr(name)} above {short_repr(self.threshold)} with {self.noise.describe()} costs "
                f"more than the loss {self.loss} that is charged; use `discovery`, which makes them together."
            )

    def select_levels(self, counts: Mapping[Level, int], rng: RandomBits) -> list[Level]:
        """Draw the noise of one table, and return the levels above the threshold.

        The `counts` of levels are exact, and **private**: only `PrivacyAccountant.release_discovered`, which charges, calls this.
        """
        (counts,) = check_tables([counts])
        # Whole numbers before words, each in order, so that the order of levels says nothing about rows.
        levels = sorted((level for level, count in counts.items() if count >= 1), key=lambda level: (isinstance(level, str), level))
        noisy = np.array([counts[level] for level in levels], dtype=np.int64) + self.noise.sample(len(levels), rng)
        return [level for level, count in zip(levels, noisy.tolist(), strict=True) if count > self.threshold]


def discovery(relation: str, n_tables: int, share: PrivacyLoss) -> Discovery:
    """Return the noise and the least threshold that show levels of tables at a share of the budget.

    Parameters
    ----------
    relation : {"replace_one", "add_or_remove_one"}
    n_tables : int
        At least 1.
    share : PrivacyLoss
        (epsilon, delta), delta above 0; an infinite epsilon means no noise, and shows every level that occurs.

    See Also
    --------
    PrivacyAccountant.release_discovered : Shows the levels.

    Examples
    --------
    >>> from skdpsynth.privacy import PrivacyLoss, discovery
    >>> discovery("replace_one", 1, PrivacyLoss(epsilon=0.5, delta=1e-6)).threshold
    53
    """
    check_neighboring(relation, "relation")
    n_tables = check_integer("n_tables", n_tables, 1)
    check_type("share", share, PrivacyLoss, "a PrivacyLoss, such as PrivacyLoss(epsilon=0.5, delta=1e-6)")
    if share.is_infinite:
        return Discovery(relation, n_tables, DiscreteLaplace(0), 0, share)
    if share.rho is not None or not share.delta:
        raise ValueError(f"Levels can be shown at a loss in epsilon with delta > 0 only, got {share}; give a delta such as 1e-6.")
    scale = laplace_scale(count_sensitivity(relation, n_tables).times(share.rows).l1, share.epsilon)
    if scale > _LARGEST_SCALE:
        raise ValueError(f"epsilon is too small to show levels of {short_repr(n_tables)} columns, got {float(share.epsilon):g}; raise it.")
    delta, n_rows = share.delta / n_tables, share.rows
    threshold = _approximate_threshold(scale, delta, n_rows)
    while not is_hidden(scale, threshold, delta, n_rows):
        threshold += 1
    while threshold > 1 and is_hidden(scale, threshold - 1, delta, n_rows):
        threshold -= 1
    return Discovery(relation, n_tables, DiscreteLaplace(scale), threshold, share)


def is_hidden(scale: Fraction, threshold: int, delta: Fraction, n_rows: int) -> bool:
    """Whether the levels that only the rows of one unit have are certain to be shown with probability at most `delta`.

    They are one level of `n_rows` rows, p(k), or as many of one row each, k p(1): see `Discovery`.
    """
    return (
        threshold >= n_rows
        and _is_one_row_hidden(scale, threshold - n_rows + 1, delta)
        and _is_one_row_hidden(scale, threshold, delta / n_rows)
    )


def _is_one_row_hidden(scale: Fraction, threshold: int, delta: Fraction) -> bool:
    """Whether the level of one row is certain to be shown with probability at most `delta`: ``q**t / (1 + q) <= delta``.

    The unit that is added to the upper bound on q**t pays for noise that wraps modulo 2**64.
    """
    bits = min(_BITS, 64 + max(0, delta.denominator.bit_length() - delta.numerator.bit_length()))
    high = exp_minus(threshold / scale, bits)[1] + 1
    return high <= delta * ((1 << bits) + exp_minus(1 / scale, bits)[0])


def _approximate_threshold(scale: Fraction, delta: Fraction, n_rows: int) -> int:
    """Return where the search for the least threshold starts: floats may be wrong by one or two."""
    q = math.exp(-float(1 / scale))
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    threshold = max(1, math.floor(-float(scale) * (log_delta + math.log1p(q))))
    return max(threshold + n_rows - 1, threshold + math.floor(float(scale) * math.log(n_rows)))


def check_tables(tables: Sequence[Mapping[Level, int]]) -> list[dict[Level, int]]:
    """Return tables of exact counts; refuse other numbers, without a word about them."""
    listed = [dict(table) for table in tables] if isinstance(tables, list | tuple) and all(isinstance(t, Mapping) for t in tables) else None
    if listed is None:
        raise TypeError(f"tables must be a list of dicts of level to int, got {short_repr(tables)}; count the levels of each column.")
    if not all(isinstance(level, str) or is_integer(level, -math.inf) for table in listed for level in table):
        raise TypeError("tables must have levels that are strings or whole numbers, but some are not; write them as strings.")
    if not all(is_integer(count, 0, _MOST_ROWS) for table in listed for count in table.values()):
        raise TypeError("tables must hold whole numbers of rows, so that their sensitivity is exact; count them.")
    return listed
