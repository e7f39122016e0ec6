"""Partition selection: levels that nobody has listed are shown if enough rows have them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._sensitivity import count_sensitivity
from skdpsynth._validation import check_integer, check_type, is_integer, short_repr
from skdpsynth.privacy._laplace import DiscreteLaplace, laplace_scale
from skdpsynth.privacy._losses import PrivacyLoss, check_neighboring
from skdpsynth.privacy._random import RandomBits, check_stream, exp_minus

_LARGEST_SCALE = 2**40  # noise of it reaches 2**62 with a chance of exp(-2**22): far below one part in 2**_BITS
_BITS = 1 << 12
_MOST_ROWS = 2**62  # noise of int64 is added to their number


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

    def shown_levels(self, counts: Mapping[Any, int], rng: RandomBits) -> list[Any]:
        """Draw the noise of one table, and return the levels above the threshold: numbers first, then words, each in order.

        The `counts` of levels are exact, and **private**: only `PrivacyAccountant.release_discovered`, which charges, calls this.
        """
        (counts,) = check_tables([counts])
        levels = sorted((level for level, count in counts.items() if count >= 1), key=level_sort_key)
        noisy = np.array([counts[level] for level in levels], dtype=np.int64) + self.noise.sample(len(levels), rng)
        return [level for level, count in zip(levels, noisy.tolist(), strict=True) if count > self.threshold]


def level_sort_key(level: Any) -> tuple[bool, Any]:
    """Return a key that sorts whole numbers before words, so that the order of levels says nothing about rows."""
    return isinstance(level, str), level


def discovery(relation: str, n_tables: int, share: PrivacyLoss) -> Discovery:
    """Return the noise and the least threshold that show levels of tables at a share of the budget.

    Parameters
    ----------
    relation : {"replace_one", "add_or_remove_one"}
    n_tables : int
        At least 1.
    share : PrivacyLoss
        (epsilon, delta), delta above 0; an infinite epsilon means no noise, and shows every level that occurs.

    Returns
    -------
    discovery : Discovery

    See Also
    --------
    Discovery : The result.
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
        raise ValueError(
            f"epsilon is too small to show levels of {short_repr(n_tables)} columns, got {float(share.epsilon):g}; use a larger epsilon."
        )
    return Discovery(relation, n_tables, DiscreteLaplace(scale), _threshold(scale, share.delta / n_tables, share.rows), share)


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


def _threshold(scale: Fraction, delta: Fraction, n_rows: int) -> int:
    threshold = _approximate_threshold(scale, delta, n_rows)
    while not is_hidden(scale, threshold, delta, n_rows):
        threshold += 1
    while threshold > 1 and is_hidden(scale, threshold - 1, delta, n_rows):
        threshold -= 1
    return threshold


def _approximate_threshold(scale: Fraction, delta: Fraction, n_rows: int) -> int:
    """Return where the search for the least threshold starts: floats may be wrong by one or two."""
    q = math.exp(-float(1 / scale))
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    threshold = max(1, math.floor(-float(scale) * (log_delta + math.log1p(q))))
    return max(threshold + n_rows - 1, threshold + math.floor(float(scale) * math.log(n_rows)))


def check_tables(tables: Sequence[Mapping[Any, int]]) -> list[dict[Any, int]]:
    """Return tables of exact counts; refuse other numbers, without a word about them."""
    listed = [dict(table) for table in tables] if isinstance(tables, list | tuple) and all(isinstance(t, Mapping) for t in tables) else None
    if listed is None:
        raise TypeError(f"tables must be a list of dicts of level to int, got {short_repr(tables)}; count the levels of each column.")
    if not all(isinstance(level, str) or is_integer(level, -math.inf) for table in listed for level in table):
        raise TypeError("tables must have levels that are strings or whole numbers, but some are not; write them as strings.")
    if not all(is_integer(count, 0, _MOST_ROWS) for table in listed for count in table.values()):
        raise TypeError("tables must hold whole numbers of rows, so that their sensitivity is exact; count them.")
    return listed
