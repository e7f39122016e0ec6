"""Confidence intervals for the gap between training and held-out rows.

The synthetic table is fixed, and each row gets a score that does not look at the others. If training rows and held-out rows come from one
distribution, and the synthetic table was made without either, both kinds of scores have one distribution: their means differ by chance
alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit


@dataclass(frozen=True)
class Gap:
    """A number of training rows beside the same number of held-out rows.

    Attributes
    ----------
    what : str
        The number, in words.
    train, holdout : float
        Means over the rows of each kind.
    low, high : float
        Confidence interval of `difference`, two-sided.
    n_train, n_holdout : int
        Rows that were looked at.
    is_share : bool
        Whether the number is a share of rows, or of guesses; else a distance.

    See Also
    --------
    privacy_evidence : Makes it.
    """

    what: str
    train: float
    holdout: float
    low: float
    high: float
    n_train: int
    n_holdout: int
    is_share: bool = True

    @property
    def difference(self) -> float:
        """Value of the training rows minus value of the held-out rows."""
        return self.train - self.holdout

    @property
    def is_found(self) -> bool:
        """Whether the whole interval lies on the side to which copies of training rows would move it."""
        return self.low > 0 if self.is_share else self.high < 0


def gap_of_shares(what: str, train: np.ndarray, holdout: np.ndarray, confidence: float) -> Gap:
    """Compare two samples of booleans by Newcombe's interval [1]_ from Wilson's, which holds for few rows and for shares of 0.

    References
    ----------
    .. [1] Newcombe (1998), "Interval estimation for the difference between independent proportions", method 10.
    """
    (p, below_p, above_p), (q, below_q, above_q) = (_wilson(hits, confidence) for hits in (train, holdout))
    low, high = p - q - math.hypot(p - below_p, above_q - q), p - q + math.hypot(above_p - p, q - below_q)
    return Gap(what, p, q, low, high, len(train), len(holdout))


def gap_of_means(what: str, train: np.ndarray, holdout: np.ndarray, confidence: float, is_share: bool) -> Gap:
    n, m = len(train), len(holdout)
    x, y = float(train.mean()), float(holdout.mean())
    apart = math.sqrt(train.var(ddof=1) / n + holdout.var(ddof=1) / m)
    # Scores of few rows may all be equal by luck, which would make an interval of no width. If both kinds are alike, the variance of all
    # rows together is that of each.
    together = math.sqrt(np.concatenate([train, holdout]).var(ddof=1) * (1 / n + 1 / m))
    reach = float(stdtrit(min(n, m) - 1, 0.5 + confidence / 2)) * max(apart, together)
    return Gap(what, x, y, x - y - reach, x - y + reach, n, m, is_share)


def _wilson(hits: np.ndarray, confidence: float) -> tuple[float, float, float]:
    n, share, z = len(hits), float(np.mean(hits)), float(ndtri(0.5 + confidence / 2))
    middle, reach = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    return share, (middle - reach) / (1 + z * z / n), (middle + reach) / (1 + z * z / n)
