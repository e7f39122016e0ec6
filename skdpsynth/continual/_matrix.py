"""Counters by a factorisation of the prefix sums, beyond the trees: kept for comparison."""

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._change import Change
from skdpsynth._checks import is_whole, shown
from skdpsynth._locks import lock_of
from skdpsynth.continual._base import LARGEST, ContinualCounter, change_of, one_hot
from skdpsynth.persistence import savable
from skdpsynth.privacy import PrivacyAccountant, PrivacyLoss, check_epsilon, epsilon_of_rho

_FIXED_POINT = 2**20


class _StepByStep(ContinualCounter):
    """A counter that releases something at each step. Its state is a tuple, of which nothing is changed in place."""

    def _take(self, x: np.ndarray) -> None:
        self._check(1)
        self._state = self._after([x])

    def _take_cells(self, cells: np.ndarray) -> None:
        self._check(len(cells))
        self._state = self._after([one_hot(cell, self.n_counters) for cell in cells])

    def _after(self, steps: list[np.ndarray]) -> tuple:
        """Return the state after some steps. What is drawn for steps that are interrupted never leaves."""
        state = self._state
        for x in steps:
            state = self._next(state, x)
        return state

    @abstractmethod
    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        """Return the state after one step."""


@savable
class HonakerCounter(_StepByStep):
    """The binary mechanism with Honaker's refinement: a block's count is estimated from its halves' too.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, under the change of what arrives at one time.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        By how much changing what arrives at one time may change the cells' counts, in L1 norm: 2 where an event moves to another
        cell, 1 where one comes or goes.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), float
        Released counts so far.
    n_steps : int
        Time steps so far.

    See Also
    --------
    BinaryCounter : The same noise without the refinement.
    KaryCounter : Less error for pure budgets.

    Notes
    -----
    *Privacy.* Releases the noisy count of every block of the binary mechanism; the estimate is a function of those. Its variance is
    .55 to .65 of `BinaryCounter`'s, but more than `KaryCounter`'s. It counts a step at a time.

    *Copies.* A block is released when it is over. So two copies that go on with different events share the noise of blocks that hold
    the same events, and no other.

    References
    ----------
    .. [1] Honaker (2015), "Efficient use of differentially private binary trees".

    Examples
    --------
    >>> from skdpsynth.continual import HonakerCounter
    >>> counter = HonakerCounter(100, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    def _prepare(self) -> None:
        self._state = 0, (), ()  # steps; then, by level, of the blocks in the expansion of the time: exact counts and estimates, or None

    def _change(self, relation: str = "replace_one") -> Change:
        """The vector of all blocks, of every cell.

        A step is in one block of each level that ends within the horizon, of which there are at most horizon.bit_length(); and a block
        changes by as much as the counts of that time do.
        """
        s, levels = self.sensitivity, self.horizon.bit_length()
        return change_of(relation, levels * s, levels * s * s, s)

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return int(self._state[0])

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        t, exacts, estimates = state[0] + 1, list(state[1]), list(state[2])
        exact, estimate, level, variance = x, None, 0, 0.0
        while True:
            noisy = self._door.release(exact, f"{self.name}: block of level {level} that ends at {t}").astype(float)
            # Inverse variances: a block's own noise has 1, the sum of its halves twice the variance of one.
            weight = 1.0 if estimate is None else 2 * variance / (1 + 2 * variance)
            estimate = noisy if estimate is None else weight * noisy + (1 - weight) * estimate
            variance = weight
            if level == len(estimates):
                estimates.append(None)
                exacts.append(None)
            if estimates[level] is None:
                estimates[level], exacts[level] = estimate, exact
                return t, tuple(exacts), tuple(estimates)
            exact, estimate = exact + exacts[level], estimate + estimates[level]
            estimates[level] = exacts[level] = None
            level += 1

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), float."""
        with lock_of(self):
            return sum((estimate for estimate in self._state[2] if estimate is not None), np.zeros(self.n_counters))


@savable
class SquareRootCounter(_StepByStep):
    """Prefix sums by the square root of their matrix, with Gaussian noise: for zCDP, the least of the counters.

    Parameters
    ----------
    horizon : int
        Number of time steps, at most 20,000: the matrix is dense, and time grows with its square.
    rho : float, default=0.01
        Cost of the whole stream in zero-concentrated differential privacy, under the change of what arrives at one time. As a loss of
        Gaussian noise it converts to a smaller epsilon than by zCDP alone: see `skdpsynth.privacy.PrivacyLoss`.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        By how much changing what arrives at one time may change the cells' counts, in *squared* L2 norm: 2 where an event moves to
        another cell, 1 where one comes or goes.
    accountant : PrivacyAccountant, default=None
        Charged rho at once; it needs a delta. None: one of its own, with delta = 1e-6.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), float
        Released counts so far.
    n_steps : int
        Time steps so far.

    See Also
    --------
    KaryCounter : For pure budgets.
    HonakerCounter : For long horizons.

    Notes
    -----
    *Privacy.* The prefix sums A are R R with R Toeplitz, f_0 = 1, f_k = f_(k-1) (2k - 1) / 2k. Released are, one a
    step, the whole numbers Q x + N_Z(s**2) with Q = round(2**20 R) and s**2 = sensitivity * c / (2 rho) + 5/3, c the squared length of a
    column of Q; counts are A times the inverse of Q of those. Q is lower triangular, so this holds also when the stream reacts to what was
    released.

    *Copies.* Each step is released when it has come. So two copies that go on share the noise of the steps before, which both saw
    alike, and no other.

    References
    ----------
    .. [1] Fichtenberger, Henzinger, Upadhyay (2023), "Constant matters: fine-grained error bound on differentially private
       continual observation".

    Examples
    --------
    >>> from skdpsynth.continual import SquareRootCounter
    >>> counter = SquareRootCounter(100, rho=0.5)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    rho: Any

    def __init__(
        self,
        horizon: int,
        *,
        rho: Any = 0.01,
        n_counters: int = 1,
        sensitivity: int = 1,
        accountant: Any = None,
        random_state: Any = None,
        name: str | None = None,
    ) -> None:
        if not is_whole(horizon, 1, 20_000):
            raise ValueError(f"horizon must be an integer from 1 to 20000, got {shown(horizon)}; use KaryCounter for more.")
        self.rho = check_epsilon(rho, "rho")
        super().__init__(
            horizon,
            epsilon=math.inf,
            n_counters=n_counters,
            sensitivity=sensitivity,
            accountant=accountant,
            random_state=random_state,
            name=name,
        )

    def _own_accountant(self) -> PrivacyAccountant:
        return PrivacyAccountant(math.inf if self.rho == math.inf else epsilon_of_rho(self.rho, Fraction(1, 10**6), gaussian=True), 1e-6)

    def _prepare(self) -> None:
        k = np.arange(1, self.horizon)
        factors = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
        self._row = np.rint(_FIXED_POINT * factors).astype(np.int64)
        nothing = np.zeros((0, self.n_counters), dtype=np.int64)
        self._state = nothing, nothing  # by step: what arrived, and what was released

    def _loss(self) -> PrivacyLoss:
        return PrivacyLoss(rho=self.rho, gaussian=True)

    def _change(self, relation: str = "replace_one") -> Change:
        """The vector Q x, of every cell.

        An event changes x at one time, by whole numbers d over the cells with squared L2 norm `sensitivity` at most, and so with L1 norm
        `sensitivity` at most. Q x changes by a column of Q times d; the first column is the longest, and holds all entries.
        """
        entries, s = self._row.tolist(), self.sensitivity
        return change_of(relation, sum(entries) * s, sum(entry**2 for entry in entries) * s, entries[0] * math.isqrt(s))

    def _largest(self) -> int:
        return LARGEST // int(self._row.sum())

    @property
    def n_steps(self) -> int:
        """Time steps so far."""
        return len(self._state[0])

    def _next(self, state: tuple, x: np.ndarray) -> tuple:
        past, noisy = np.vstack([state[0], x]), state[1]
        exact = self._row[: len(past)][::-1] @ past
        return past, np.vstack([noisy, self._door.release(exact, f"{self.name}: step {len(noisy)}")])

    @property
    def value(self) -> np.ndarray:
        """Released counts so far, shape (n_counters,), float."""
        with lock_of(self):
            noisy = self._state[1]
        t = len(noisy)
        if not t:
            return np.zeros(self.n_counters)
        row = self._row[:t] / _FIXED_POINT
        inverse = np.zeros(t)  # of the power series of the row
        inverse[0] = 1 / row[0]
        for i in range(1, t):
            inverse[i] = -(row[1 : i + 1] @ inverse[i - 1 :: -1][:i]) / row[0]
        return np.cumsum(inverse)[::-1] @ (noisy / _FIXED_POINT)
