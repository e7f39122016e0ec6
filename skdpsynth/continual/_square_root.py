"""Counters with Gaussian noise, by the square root of the prefix sums: with a horizon, and without."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma

from skdpsynth._parallel import lock_of
from skdpsynth._sensitivity import Sensitivity, statistic_facts
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import is_integer, short_repr
from skdpsynth.continual._tree import MAX_COUNT, ContinualCounter, check_counter_memory, check_size
from skdpsynth.persistence import savable
from skdpsynth.privacy import AccountantLike, PrivacyAccountant, PrivacyLoss, Seed, check_epsilon, epsilon_of_rho

_FIXED_POINT = 2**16  # of the square root
_GAIN = 2**12  # of the first step: a gain is rounded down by at most this part of itself
_UNIT = 2**30  # of the square root without horizon
_NEAR, _EARLY = 80, 16  # a block of w steps is at least _NEAR * w steps old, and begins after _EARLY * w steps at least


class _RootCounter(ContinualCounter):
    """A counter with Gaussian noise and a cost in rho, whose state is never changed in place; every step is released."""

    rho: Any
    _parameters: ClassVar[tuple[str, ...]] = ("horizon", "rho", "n_counters", "sensitivity", "name")

    def _set_up(self, *, rho: float = 0.01, **parameters: Any) -> None:
        super()._set_up(epsilon=math.inf, **parameters)
        self.rho, self._stride = check_epsilon(rho, "rho"), 1

    def _own_accountant(self) -> PrivacyAccountant:
        return PrivacyAccountant(math.inf if self.rho == math.inf else epsilon_of_rho(self.rho, Fraction(1, 10**6), gaussian=True), 1e-6)

    def _loss(self) -> PrivacyLoss:
        return PrivacyLoss(rho=self.rho, gaussian=True)


@savable
class SquareRootCounter(_RootCounter):
    """Prefix sums by the normalized square root of their matrix, with Gaussian noise: for zCDP, the least error of the counters.

    Parameters
    ----------
    horizon : int
        Number of time steps, at most 20,000: the matrix is dense, and time grows with its square.
    rho : float, default=0.01
        Cost of the whole stream in zero-concentrated differential privacy, where the events of one time change. As a loss of
        Gaussian noise it converts to a smaller epsilon than by zCDP alone: see `skdpsynth.privacy.PrivacyLoss`.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that events of one time change the counts, in *squared* L2 norm: 2 where one moves to another cell, else 1.
    accountant : PrivacyAccountant, default=None
        Charged rho at once; it needs a delta. None: one of its own, with delta = 1e-6.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    See Also
    --------
    UnboundedCounter : Without a horizon, and for long streams.
    KaryCounter : For pure budgets.

    Notes
    -----
    *Privacy.* The prefix sums A are F F with F Toeplitz, f_0 = 1, f_k = f_(k-1) (2k - 1) / 2k. A late event is in few rows of F, so its
    column is short and would get more privacy than was asked for. So each column is stretched to the length of the first, as in [1]_:
    Q = round(2**16 F) diag(g), with whole numbers g, 2**12 for the first step and more for later ones. Released are, one a step, the
    whole numbers Q x + N_Z(s**2) with s**2 = sensitivity * c / (2 rho) + 5/3, c the squared length of the first column of Q, which no
    other exceeds; counts are A times the inverse of Q of those. Q is lower triangular, so this holds also when the stream reacts to what
    was released.

    *Copies.* Each step is released when it has come. So two copies that go on share the noise of the steps before, which both saw
    alike, and no other.

    References
    ----------
    .. [1] Henzinger, Kalinin, Upadhyay (2025), "Normalized square root: sharper matrix factorization bounds for differentially private
       continual counting".
    .. [2] Fichtenberger, Henzinger, Upadhyay (2023), "Constant matters: fine-grained error bound on differentially private
       continual observation".

    Examples
    --------
    >>> from skdpsynth.continual import SquareRootCounter
    >>> counter = SquareRootCounter(100, rho=0.5)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    def __init__(
        self,
        horizon: int,
        *,
        rho: float = 0.01,
        n_counters: int = 1,
        sensitivity: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        name: str | None = None,
    ) -> None:
        self._set_up(horizon=horizon, rho=rho, n_counters=n_counters, sensitivity=sensitivity, name=name)
        self.resume(accountant, random_state)

    def _set_up(self, **parameters: Any) -> None:
        horizon, n_counters = parameters["horizon"], parameters["n_counters"]
        if not is_integer(horizon, 1, 20_000):
            raise ValueError(f"horizon must be an integer from 1 to 20000, got {short_repr(horizon)}; use UnboundedCounter for more.")
        check_counter_memory(check_size("n_counters", n_counters), 4 * int(horizon))  # a count and an estimate of each step, old and new
        super()._set_up(**parameters)
        self._row, self._gains = _normalized_root(self.horizon)
        self._state = np.zeros((0, self.n_counters), dtype=np.int64), np.zeros((0, self.n_counters))  # gain * x by step: exact, estimated

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the vector Q x, of every cell.

        An event changes x at one time j, by whole numbers d over the cells with squared L2 norm `sensitivity` at most, and so with L1 norm
        `sensitivity` at most. Q x changes by column j of Q times d: the first entries of the row, times the gain of j. By the choice of
        the gains the first column is the longest; the last has the greatest entry.
        """
        s, gains = self.sensitivity, self._gains
        l1 = int((np.cumsum(self._row)[::-1] * gains).max())
        l2_squared = int(gains[0]) ** 2 * int((self._row**2).sum())
        sup, bits = int(gains[-1] * self._row[0]) * math.isqrt(s), _FIXED_POINT.bit_length() - 1
        facts = statistic_facts("square_root_over_time", steps=self.horizon, bits=bits, gain=_GAIN, sensitivity=s)
        return Sensitivity(relation, l1 * s, l2_squared * s, sup, statistic=facts)

    def _largest(self) -> int:
        return MAX_COUNT // int(self._row.sum() * self._gains[-1])

    def _check_loaded(self) -> None:
        scaled, estimates = self._state
        require(is_array(scaled, "i", -1, self.n_counters) and is_array(estimates, "f", *scaled.shape) and len(scaled) <= self.horizon)

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return len(self._state[0])

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        t = len(state[0])
        scaled, back = np.vstack([state[0], self._gains[t] * x[:-1]]), self._row[t::-1]
        noisy = self._door.release(back @ scaled, f"{self.name}: step {t}")
        estimate = (noisy - back[:-1] @ state[1]) / back[-1]  # the inverse of a triangular matrix, a row at a time
        return scaled, np.vstack([state[1], estimate])

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), float."""
        with lock_of(self):
            estimates = self._state[1]
        return (1 / self._gains[: len(estimates)]) @ estimates


@savable
class UnboundedCounter(_RootCounter):
    """Prefix sums of a stream that has no end, with Gaussian noise: no horizon, and little memory.

    At every time that was tried (all up to 4096, some up to 2**20) the variance is at most 1.6 times the mean squared error of a
    `SquareRootCounter` whose horizon is just that time. The ratio grows slowly, so expect it to pass 1.6 some doublings later.

    Parameters
    ----------
    rho : float, default=0.01
        Cost of the whole stream, however long, in zero-concentrated differential privacy, where the events of one time change.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        The most that events of one time change the counts, in *squared* L2 norm: 2 where one moves to another cell, else 1.
    accountant : PrivacyAccountant, default=None
        Charged rho at once; it needs a delta. None: one of its own, with delta = 1e-6.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    See Also
    --------
    SquareRootCounter : Has less error, for a known number of steps up to 20,000.
    KaryCounter : For pure budgets.

    Notes
    -----
    *Privacy.* Let R be lower triangular, with squared entries ::

        R[t, j]**2 = g(j) / ((t + 2) (1 + 3 (t - j))),    g(j) = (3 (j + 2) - 1) / (digamma(j + 2) - digamma(1/3)),    1 <= j <= t.

    They fall as the square root of the prefix sums does, and a little faster as time goes on, so that a column has length 1 though it
    never ends. With k = t - j and A = j + 2, ::

        sum over k >= 0 of 1 / ((k + A) (1 + 3 k)) = sum of (1 / (k + 1/3) - 1 / (k + A)) / (3 A - 1) = 1 / g(j),

    as the sum in the middle is digamma(A) - digamma(1/3). Released are, one a step, the whole numbers Q x + N_Z(s**2) with
    s**2 = sensitivity * 2**60 / (2 rho) + 5/3, and Q[t, j] = floor(2**30 R[t, i]), i <= j the first step of the block that j is in. R grows
    with j in each row, so Q[t, j] <= 2**30 R[t, j], and the squares of a column of Q sum to at most 2**60. Counts are A times the inverse
    of Q of those. Q is lower triangular, so this holds also when the stream reacts to what was released.

    *Memory.* Two neighboring blocks of w / 2 steps become one when they are 80 w steps old. So each cell keeps a count and an estimate for
    each of fewer than 96 log2(2 t) blocks.

    *Copies.* Each step is released when it has come. So two copies that go on share the noise of the steps before, which both saw
    alike, and no other.

    At time t what arrives may be 2**30 / sqrt(t) in a cell, or half of that: else sums could leave 64 bits.

    References
    ----------
    .. [1] Jacobsen, Fawaz (2025), "Private continual counting of unbounded streams".
    .. [2] Andersson, Pagh (2024), "Streaming private continual counting via binning".

    Examples
    --------
    >>> from skdpsynth.continual import UnboundedCounter
    >>> counter = UnboundedCounter(rho=0.5)
    >>> for visits in (3, 0, 5):
    ...     counter.update(visits)
    >>> counter.value.shape
    (1,)
    """

    _parameters = ("rho", "n_counters", "sensitivity", "name")

    def __init__(
        self,
        *,
        rho: float = 0.01,
        n_counters: int = 1,
        sensitivity: int = 1,
        accountant: AccountantLike = None,
        random_state: Seed = None,
        name: str | None = None,
    ) -> None:
        self._set_up(rho=rho, n_counters=n_counters, sensitivity=sensitivity, name=name)
        self.resume(accountant, random_state)

    def _set_up(self, **parameters: Any) -> None:
        super()._set_up(horizon=MAX_COUNT, **parameters)
        nothing = np.zeros((0, self.n_counters), dtype=np.int64)
        # Steps so far; by block: how many steps came before it, what arrived, and the estimate of that.
        self._state = 0, np.zeros(0, dtype=np.int64), nothing, nothing.astype(float)

    def _counter_sensitivity(self, relation: str = "replace_one") -> Sensitivity:
        """Return the sensitivity of the vector Q x, of every cell, for as long as the stream lasts.

        An event changes x at one time, by whole numbers d over the cells with squared L2 norm `sensitivity` at most. Q x changes by a
        column of Q times d, whose squares sum to 2**60 * sensitivity at most (see the notes of the class). Whole numbers are at most
        their squares, so this bounds the L1 norm too; and no entry of Q exceeds the length of its column.
        """
        s = self.sensitivity
        facts = statistic_facts("endless_root_over_time", bits=_UNIT.bit_length() - 1, sensitivity=s)
        return Sensitivity(relation, _UNIT**2 * s, _UNIT**2 * s, _UNIT * math.isqrt(s), statistic=facts)

    def _largest(self) -> int:
        # With x[j] <= C / sqrt(j), C = 2**30, row t of Q x is at most 2**30 C times the sum of R[t, j] / sqrt(j). R[t, j]**2 is at most
        # 1 / (1 + 3 k), k = t - j, as R[j, j] <= 1 and t + 2 grows. So the sum is at most 1 + sum over 0 < k < t of 1 / sqrt(3 k (t - k)),
        # where each term is at most the integral of it half a step to both sides, as it is convex: 1 + pi / sqrt(3) < 4 in all.
        return _UNIT >> ((self.n_steps + 1).bit_length() + 1) // 2

    def _check_loaded(self) -> None:
        n_steps, starts, exact, estimates = self._state
        require(is_array(starts, "i", -1) and is_integer(n_steps, 0, MAX_COUNT))
        require(is_array(exact, "i", len(starts), self.n_counters) and is_array(estimates, "f", *exact.shape))
        require(np.all(np.diff(np.append(starts, n_steps)) > 0) and (starts[0] == 0 if len(starts) else n_steps == 0))

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[0])

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        t, starts, counts, estimates = state
        kept = np.flatnonzero(~np.isin(starts, closed_block_starts(t)))
        if len(kept) < len(starts):
            starts, counts, estimates = starts[kept], np.add.reduceat(counts, kept), np.add.reduceat(estimates, kept)
        starts, counts = np.append(starts, t), np.vstack([counts, x[:-1]])
        row = coefficients(starts)
        noisy = self._door.release(row @ counts, f"{self.name}: step {t}")
        estimate = (noisy - row[:-1] @ estimates) / row[-1]  # the inverse of a triangular matrix, a row at a time
        return t + 1, starts, counts, np.vstack([estimates, estimate])

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), float."""
        with lock_of(self):
            return self._state[3].sum(axis=0)


@lru_cache(8)
def _normalized_root(horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first column of round(2**16 F), and the gains: the greatest whole numbers that leave no column longer than the first."""
    k = np.arange(1, horizon)
    factors = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    row = np.rint(_FIXED_POINT * factors).astype(np.int64)
    lengths = np.cumsum(row**2)[::-1].tolist()  # squared, of the columns
    # gain**2 * length is at most that of the first: below 2**58, so the squares above fit.
    return row, np.array([math.isqrt(_GAIN**2 * lengths[0] // length) for length in lengths], dtype=np.int64)


def closed_block_starts(t: int) -> list[int]:
    """Return the starts of the blocks that end after `t` steps: each becomes the later half of a block of w steps.

    A block of w steps begins at a multiple of w and is made when _NEAR * w steps have come since, unless too near to the beginning. Its
    halves were made before, and blocks of different lengths that are made at one time lie apart.
    """
    dividing_powers = (2**i for i in range(1, (t & -t).bit_length()))
    return [t - _NEAR * w - w // 2 for w in dividing_powers if t >= (_NEAR + 1 + _EARLY) * w]


def coefficients(starts: np.ndarray) -> np.ndarray:
    """Return a row of Q by block, int64: the last block is the step itself, counted from 0."""
    j, t = starts + 1.0, starts[-1] + 1.0
    g = (3 * (j + 2) - 1) / (digamma(j + 2) - digamma(1 / 3))
    R = np.sqrt(g / ((t + 2) * (1 + 3 * (t - j))))
    # The factor makes up for the rounding of R, which is wrong by less than 2**-45 of itself.
    return np.floor(_UNIT * (1 - 2.0**-40) * R).astype(np.int64)
