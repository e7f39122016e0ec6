"""Counters that stay private along a stream: at any time, the number of events so far, under one budget for the whole stream.

The unit of privacy is one event: two streams are neighbours if they differ in what arrives at one time. All counters are
vectorised: one object counts many cells at once.
"""

import copy
import math
import threading
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from skdpsynth._sklearn import check_choice, is_whole
from skdpsynth.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyAccountant,
    PrivacyLoss,
    StandingRelease,
    check_epsilon,
    check_rng,
    epsilon_of_rho,
    laplace_scale,
)

_FIXED_POINT = 2**20
_ONE_READER = threading.RLock()  # two threads must not draw the noise of one node twice


class ContinualCounter(ABC):
    """Base of the counters: what has arrived, and the door that noise comes through."""

    def __init__(self, horizon, *, epsilon=1.0, n_counters=1, sensitivity=1, accountant=None, random_state=None, name=None):
        for what, number in (("horizon", horizon), ("n_counters", n_counters), ("sensitivity", sensitivity)):
            if not is_whole(number, 1):
                raise ValueError(f"{what} must be a positive integer, got {number!r}.")
        self.horizon, self.n_counters, self.sensitivity = int(horizon), int(n_counters), int(sensitivity)
        self.epsilon = check_epsilon(epsilon)
        self.name = type(self).__name__ if name is None else name
        self.n_steps = 0
        self._counts = np.zeros(self.n_counters, dtype=np.int64)
        self._prepare()
        self.resume(accountant, random_state)

    def resume(self, accountant=None, random_state=None):
        """Go on after loading: charge the whole of epsilon to `accountant` (None: one of its own) and take noise from now on.

        Two counters that go on from one state are two releases of what follows.

        Parameters
        ----------
        accountant : PrivacyAccountant, default=None
            Or a `StandingRelease`, whose charge covers this counter.
        random_state : int, RandomState or None, default=None
            None: secure noise.
        """
        accountant = self._own_accountant() if accountant is None else accountant
        if not hasattr(accountant, "standing"):
            self._attach(accountant)
            return
        self._attach(accountant.standing(self._noise(), _stream(random_state), name=self.name, loss=self._loss()))

    def _own_accountant(self):
        return PrivacyAccountant(self.epsilon)

    def _attach(self, door):
        self._attached = door

    @property
    def _door(self):
        """Where noise comes from."""
        if self._attached is None:
            raise ValueError(f"{self!r} was loaded or copied, and has no noise; call resume() to go on.")
        return self._attached

    def settle(self):
        """Draw the noise of this time, so that copies that are made now agree on it."""
        if self._attached is not None:
            _ = self.value

    @abstractmethod
    def _prepare(self):
        """Set what the noise depends on, and the empty state."""

    def update(self, x):
        """Count what arrives at one time.

        Parameters
        ----------
        x : int or array-like of shape (n_counters,)
            Whole numbers. Replacing the event of this time must change `x` by at most `sensitivity` in L1 norm.
        """
        x = _as_counts(x, self.n_counters)
        self._check_steps(1)
        self._advance(x, 1)

    def update_cells(self, cells):
        """Count events that fall into one cell each, one a time step.

        Parameters
        ----------
        cells : array-like of shape (n_steps,), int
            In [0, n_counters).
        """
        cells = _as_cells(cells, self.n_counters)
        self._check_steps(len(cells))
        if len(cells):
            self._advance_cells(cells)

    @property
    @abstractmethod
    def value(self):
        """Released counts so far, shape (n_counters,)."""

    @abstractmethod
    def _noise(self):
        """What the ledger shows."""

    def _loss(self):
        return PrivacyLoss(epsilon=self.epsilon)

    def _advance(self, x, n_steps):
        self._counts += x
        self.n_steps += n_steps

    def _advance_cells(self, cells):
        if len(cells) == 1:
            self._counts[cells[0]] += 1
            self.n_steps += 1
        else:
            self._advance(np.bincount(cells, minlength=self.n_counters), len(cells))

    def _check_steps(self, n_steps):
        if self.n_steps + n_steps > self.horizon:
            raise ValueError(
                f"horizon is {self.horizon} steps, and {self.n_steps} are past: {n_steps} more are too many; use a larger horizon."
            )

    def __getstate__(self):
        self.settle()
        return {**vars(self), "_attached": None}

    def __copy__(self):
        return copy.deepcopy(self)

    def __repr__(self):
        return (
            f"{type(self).__name__}(horizon={self.horizon}, n_counters={self.n_counters}, n_steps={self.n_steps})"  # never what it counted
        )


class _TreeCounter(ContinualCounter):
    """The exact count plus the noise of the nodes of a tree over time that make up the time so far.

    Noise of a node is drawn when it is first used and kept as long as it can be used again: a fresh draw for each use would let it
    be averaged away. All is whole numbers.
    """

    base: int
    n_levels: int

    def _prepare(self):
        self._kept = {}  # noise by (level, index): as secret as the data
        self.base, self.n_levels = self._shape(self.horizon)

    @abstractmethod
    def _shape(self, horizon):
        """Return ``base`` and ``n_levels``."""

    @abstractmethod
    def _nodes(self, t):
        """Yield (level, index, sign): the nodes whose signed sums of events are the count up to `t`."""

    def _noise(self):
        # A time step is in one node of each level, so one event changes the vector of all nodes by n_levels * sensitivity in L1 norm.
        return DiscreteLaplace(laplace_scale(self.n_levels * self.sensitivity, self.epsilon))

    @property
    def value(self):
        """Released counts so far, shape (n_counters,), int64."""
        with _ONE_READER:
            t = self.n_steps
            self._kept = {node: noise for node, noise in self._kept.items() if self._ends(*node) + self.base ** (node[0] + 1) >= t}
            return self._door.release(self._counts, noise=_SumOfNodes(self, t))

    def _ends(self, level, index):
        return (index + 1) * self.base**level


class _SumOfNodes:
    """The noise of a tree counter at one time: signed noise of the nodes that make it up."""

    def __init__(self, counter, t):
        self.counter, self.t = counter, t

    def sample(self, size, rng):
        total, kept, noise = np.zeros(size, dtype=np.int64), self.counter._kept, self.counter._noise()
        for level, index, sign in self.counter._nodes(self.t):
            if (level, index) not in kept:
                kept[level, index] = noise.sample(size, rng.child(f"{self.counter.name}: node {index} of level {level}"))
            total += sign * kept[level, index]
        return total


class BinaryCounter(_TreeCounter):
    """The binary mechanism: a count is the sum of the blocks of time in the binary expansion of its length.

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
        cell.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), int64
        Released counts so far.
    n_steps : int
        Time steps so far.

    Notes
    -----
    *Privacy.* Pure epsilon, also when the stream reacts to what was released. A step is in one block of each of L =
    floor(log2(horizon)) + 1 levels, so noise of scale L / epsilon on every block will do.

    References
    ----------
    .. [1] Chan, Shi, Song (2011), "Private and continual release of statistics"; Dwork, Naor, Pitassi, Rothblum (2010).

    Examples
    --------
    >>> from skdpsynth.continual import BinaryCounter
    >>> counter = BinaryCounter(100, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value.shape
    (1,)
    """

    def _shape(self, horizon):
        return 2, horizon.bit_length()

    def _nodes(self, t):
        for level in range(t.bit_length()):
            if t >> level & 1:
                yield level, (t >> level) - 1, 1


class KaryCounter(_TreeCounter):
    """The k-ary tree mechanism with subtraction: counts by the balanced base-k digits of time. The default for pure epsilon.

    A count is that up to a round time, plus a few blocks after it, or minus a few blocks before it, whose noise is drawn ahead of
    time.

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
        cell.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), int64
        Released counts so far.
    n_steps : int
        Time steps so far.

    Notes
    -----
    *Privacy.* With A the prefix sums, R the sums of the nodes and L the signs, A = L R: what is released, A x + L noise, is a
    function of R x + noise. A step is in one node of each of h levels, so the L1 sensitivity of R x is h, and noise of scale h /
    epsilon makes it epsilon-differentially private, also when the stream reacts to what was released. The branching k (odd) and the
    height h (the least with (k**h - 1) / 2 >= horizon) are those of the least mean squared error.

    References
    ----------
    .. [1] Andersson, Pagh, Steiner, Torkamani (2024), "Count on your elders: Laplace vs Gaussian noise".

    Examples
    --------
    >>> from skdpsynth.continual import KaryCounter
    >>> counter = KaryCounter(1000, epsilon=5.0, n_counters=3, sensitivity=2)
    >>> counter.update_cells([0, 2, 2, 1])
    >>> counter.value.shape
    (3,)
    """

    def _shape(self, horizon):
        # Mean squared error at scale h: a digit is (k^2 - 1) / 4k in absolute value on average, in each of h levels.
        def shapes():
            for height in range(1, 2 + int(math.log2(horizon + 1))):
                k = max(3, (int((2 * horizon + 1) ** (1 / height)) - 2) | 1)
                while (k**height - 1) // 2 < horizon:
                    k += 2
                yield height**3 * (k * k - 1) / k, k, height

        return min(shapes())[1:]

    def _nodes(self, t):
        k, rest, digits = self.base, t, []
        while rest:
            digit = (rest + k // 2) % k - k // 2
            digits.append(digit)
            rest = (rest - digit) // k
        start = 0  # of what is left of t, in steps
        for level in range(len(digits) - 1, -1, -1):
            side, digit = k**level, digits[level]
            sign = 1 if digit > 0 else -1
            first = start // side if digit > 0 else start // side + digit
            for index in range(first, first + abs(digit)):
                yield level, index, sign
            start += digit * side


class HonakerCounter(ContinualCounter):
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
        cell.
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

    Notes
    -----
    *Privacy.* Releases the noisy count of every block of the binary mechanism; the estimate is a function of those. Its variance is
    .55 to .65 of `BinaryCounter`'s, but more than `KaryCounter`'s. It counts a step at a time.

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

    def _prepare(self):
        self._exact, self._estimates = [], []  # of the blocks in the expansion of the time, by level (None where it has none)

    def _noise(self):
        return DiscreteLaplace(laplace_scale(self.horizon.bit_length() * self.sensitivity, self.epsilon))

    def _advance_cells(self, cells):
        for cell in cells:
            self._advance(_one_hot(cell, self.n_counters), 1)

    def _advance(self, x, n_steps):
        self.n_steps += 1
        exact, estimate, level, variance = x, None, 0, 0.0
        estimates, exacts = list(self._estimates), list(self._exact)
        while True:
            noisy = self._door.release(exact, f"{self.name}: block of level {level} that ends at {self.n_steps}").astype(float)
            # Inverse variances: a block's own noise has 1, the sum of its halves twice the variance of one.
            weight = 1.0 if estimate is None else 2 * variance / (1 + 2 * variance)
            estimate = noisy if estimate is None else weight * noisy + (1 - weight) * estimate
            variance = weight
            if level == len(estimates):
                estimates.append(None)
                exacts.append(None)
            if estimates[level] is None:
                estimates[level], exacts[level] = estimate, exact
                break
            exact, estimate = exact + exacts[level], estimate + estimates[level]
            estimates[level] = exacts[level] = None
            level += 1
        self._estimates, self._exact = estimates, exacts

    @property
    def value(self):
        """Released counts so far, shape (n_counters,), float."""
        return sum((estimate for estimate in self._estimates if estimate is not None), np.zeros(self.n_counters))


class SquareRootCounter(ContinualCounter):
    """Prefix sums by the square root of their matrix, for zCDP: the least noise of the counters with Gaussian noise.

    Parameters
    ----------
    horizon : int
        Number of time steps, at most 20,000: the matrix is dense, and time grows with its square.
    rho : float, default=0.01
        Cost of the whole stream in zero-concentrated differential privacy, under the change of what arrives at one time.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        By how much changing what arrives at one time may change the cells' counts, in *squared* L2 norm: 2 where an event moves to
        another cell.
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

    Notes
    -----
    *Privacy.* The prefix sums A are R R with R Toeplitz, f_0 = 1, f_k = f_(k-1) (2k - 1) / 2k. Released are, one a
    step, the whole numbers Q x + N_Z(s**2) with Q = round(2**20 R) and s**2 = sensitivity * c / (2 rho), c the squared length of a column
    of Q; counts are A times the inverse of Q of those. Q is lower triangular, so this holds also when the stream reacts to what was
    released.

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

    def __init__(self, horizon, *, rho=0.01, n_counters=1, sensitivity=1, accountant=None, random_state=None, name=None):
        if not is_whole(horizon, 1, 20_000):
            raise ValueError(f"horizon must be an integer from 1 to 20000, got {horizon!r}; use KaryCounter for more.")
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

    def _own_accountant(self):
        return PrivacyAccountant(math.inf if self.rho == math.inf else epsilon_of_rho(self.rho, Fraction(1, 10**6)), 1e-6)

    def _prepare(self):
        k = np.arange(1, self.horizon)
        factors = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
        self._row = np.rint(_FIXED_POINT * factors).astype(np.int64)
        self._past = np.zeros((0, self.n_counters), dtype=np.int64)  # what arrived: as secret as the data
        self._noisy = np.zeros((0, self.n_counters), dtype=np.int64)

    def _noise(self):
        squared = sum(int(entry) ** 2 for entry in self._row) * self.sensitivity
        if self.rho == math.inf:
            return DiscreteGaussian(0)
        return DiscreteGaussian(math.isqrt(math.ceil(Fraction(squared) / (2 * self.rho))) + 1)

    def _loss(self):
        return PrivacyLoss(rho=self.rho)

    def _advance_cells(self, cells):
        for cell in cells:
            self._advance(_one_hot(cell, self.n_counters), 1)

    def _advance(self, x, n_steps):
        past = np.vstack([self._past, x])
        exact = self._row[: len(past)][::-1] @ past
        noisy = self._door.release(exact, f"{self.name}: step {self.n_steps}")
        self._noisy = np.vstack([self._noisy, noisy])
        self._past, self.n_steps = past, self.n_steps + 1

    @property
    def value(self):
        """Released counts so far, shape (n_counters,), float."""
        if not self.n_steps:
            return np.zeros(self.n_counters)
        row = self._row[: self.n_steps] / _FIXED_POINT
        inverse = np.zeros(self.n_steps)  # of the power series of the row
        inverse[0] = 1 / row[0]
        for t in range(1, self.n_steps):
            inverse[t] = -(row[1 : t + 1] @ inverse[t - 1 :: -1][:t]) / row[0]
        return np.cumsum(inverse)[::-1] @ (self._noisy / _FIXED_POINT)


class SparseCounter(ContinualCounter):
    """Sparse counting: a released count changes only when enough has arrived since it last did.

    Parameters
    ----------
    horizon : int
        Number of time steps.
    epsilon : float, default=1.0
        Cost of the whole stream, under the change of what arrives at one time.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        How many cells' counts change, by one each, with what arrives at one time: 2 where an event moves to another cell.
    every : int, default=1
        Thresholds are compared at multiples of this many steps only: a public choice, which the proof does not mind.
    accountant : PrivacyAccountant, default=None
        Charged epsilon at once. None: one of its own.
    random_state : int, RandomState or None, default=None
        None: secure noise.
    name : str, default=None
        For the ledger; counters that share a seed need different ones.

    Attributes
    ----------
    value : ndarray of shape (n_counters,), int64
        Released counts so far.
    n_steps : int
        Time steps so far.
    threshold : float
        9 log(horizon) / e with e = epsilon / sensitivity: what a segment holds before it is closed, about.

    Notes
    -----
    *Privacy.* Let a cell's count change by one at one time, and e be the cost for that. Half of e pays for the segments, half for a
    `KaryCounter` of their counts. Segments cost the *larger*, not the sum, of 1 / (scale of the threshold's noise) and 1 / (scale
    of the queries' noise), here both e / 2. Proof: let x' = x + 1 at time t0. Segmentations that agree up to there have equal laws
    elsewhere. In the segment of t0 with threshold noise l and query noise q_s, that it closes at k has probability sum_l f(l)
    prod_(s<k) P(N_s + q_s <= T + l) P(N_k + q_k > T + l). From x to x', replace l by l - 1: every factor grows or stays, and f
    changes by a factor exp(e / 2) at most. From x' to x, keep l: the factors before k grow, and only the last shrinks, by exp(e /
    2) at most. Both hold at any public set of times of comparison.

    References
    ----------
    .. [1] He (2025), dissertation, Algorithm 10; Dwork, Naor, Reingold, Rothblum (2015), "Pure differential privacy for rectangle
       queries via private partitions". Corrected: the loop ends at the horizon.

    Examples
    --------
    >>> from skdpsynth.continual import SparseCounter
    >>> counter = SparseCounter(1000, epsilon=5.0)
    >>> counter.update(1)
    >>> counter.value
    array([0])
    """

    def __init__(self, horizon, *, epsilon=1.0, n_counters=1, sensitivity=1, every=1, accountant=None, random_state=None, name=None):
        if not is_whole(every, 1):
            raise ValueError(f"every must be a positive integer, got {every!r}.")
        self.every = int(every)
        super().__init__(
            horizon,
            epsilon=epsilon,
            n_counters=n_counters,
            sensitivity=sensitivity,
            accountant=accountant,
            random_state=random_state,
            name=name,
        )

    def _prepare(self):
        self._limits = None
        self._closed = {}  # by cell: the counter of its segments
        unit = self.epsilon / self.sensitivity
        self.threshold = 0.0 if unit == math.inf else 9 * math.log(max(self.horizon, 2)) / float(unit)

    def _noise(self):
        return DiscreteLaplace(laplace_scale(2 * self.sensitivity, self.epsilon))

    def _attach(self, door):
        self._attached = door
        for counter in self._closed.values():
            counter._attach(door)

    def _advance_cells(self, cells):
        first = min(len(cells), self.every - self.n_steps % self.every)
        for part in (cells[:first], *(cells[i : i + self.every] for i in range(first, len(cells), self.every))):
            super()._advance_cells(part)
            if self.n_steps % self.every == 0:
                self._compare()

    def _advance(self, x, n_steps):
        super()._advance(x, n_steps)
        if n_steps == 1 and self.n_steps % self.every == 0:
            self._compare()

    def _compare(self):
        """Close the segments that hold enough, by a noisy comparison with a noisy limit."""
        name = f"{self.name}: time {self.n_steps}"
        if self._limits is None:
            self._limits = self._fresh_limits(np.zeros_like(self._counts), f"{self.name}: first limits")
        over = np.flatnonzero(self._door.release(self._counts, f"{name}, queries", self._noise()) > self._limits)
        for cell in over.tolist():
            if cell not in self._closed:
                self._closed[cell] = KaryCounter(
                    -(-self.horizon // self.every),
                    epsilon=self.epsilon / (2 * self.sensitivity),
                    accountant=self._door,
                    name=f"{self.name}: segments of cell {cell}",
                )
            self._closed[cell].update(self._counts[cell])
        if len(over):
            self._counts[over] = 0
            self._limits[over] = self._fresh_limits(self._counts[over], f"{name}, limits")

    def _fresh_limits(self, zeros, name):
        return self.threshold + self._door.release(zeros, name, self._noise())

    @property
    def value(self):
        """Released counts so far, shape (n_counters,), int64."""
        out = np.zeros(self.n_counters, dtype=np.int64)
        for cell, counter in self._closed.items():
            out[cell] = counter.value[0]
        return out


class InhomogeneousCounter:
    """Counts over levels of time, each with a budget of its own: the counts of the levels past, and a counter of the present one.

    Parameters
    ----------
    counter : {"kary", "binary", "sparse"}, default="sparse"
        What counts within a level. With "sparse", half of a level's epsilon is kept for its total, released when it ends; the
        others end with their own.
    n_counters : int, default=1
        Cells that are counted side by side.
    sensitivity : int, default=1
        By how much changing what arrives at one time may change the cells' counts, in L1 norm.
    every : int, default=1
        For "sparse": see `SparseCounter`.
    history : array-like of shape (n_counters,), default=None
        Released counts of what came before. None: zeros.
    name : str, default="InhomogeneousCounter"
        For the ledger.

    Notes
    -----
    *Privacy.* What arrives in a level is counted by that level's counter, at the level's epsilon, and nowhere else.

    References
    ----------
    .. [1] He (2025), dissertation, Algorithm 11.

    Examples
    --------
    >>> from skdpsynth.continual import InhomogeneousCounter
    >>> from skdpsynth.privacy import PrivacyAccountant, check_rng
    >>> counter = InhomogeneousCounter("kary")
    >>> counter.start_level(10, 2.0, PrivacyAccountant(2.0), check_rng(None))
    >>> counter.update_cells([0, 0, 0])
    >>> counter.value.shape
    (1,)
    """

    def __init__(self, counter="sparse", *, n_counters=1, sensitivity=1, every=1, history=None, name="InhomogeneousCounter"):
        check_choice("counter", counter, tuple(_KINDS))
        self.counter, self.n_counters, self.sensitivity, self.every, self.name = counter, n_counters, sensitivity, every, name
        self._past = np.zeros(n_counters, dtype=np.int64) if history is None else np.array(history, dtype=np.int64)
        self._present: Any = None
        self._door: Any = None

    def start_level(self, horizon, epsilon, accountant, random_state=None):
        """End the present level and start another.

        Parameters
        ----------
        horizon : int
            Number of time steps of the new level.
        epsilon : float
            Its cost.
        accountant : PrivacyAccountant
            Charged `epsilon` at once.
        random_state : int, RandomState, stream or None, default=None
            None: secure noise. Levels need different seeds, or children of one stream: equal ones would draw equal noise.
        """
        epsilon, rng = check_epsilon(epsilon), _stream(random_state)
        own = {"every": self.every} if self.counter == "sparse" else {}
        # With "sparse" half of epsilon is for the level as it goes, half for its total.
        present = _KINDS[self.counter](
            horizon,
            epsilon=epsilon / 2 if self.counter == "sparse" else epsilon,
            n_counters=self.n_counters,
            sensitivity=self.sensitivity,
            accountant=StandingRelease(accountant, None, rng),  # not charged yet, and not drawn from
            name=self.name,
            **own,
        )
        door = accountant.standing(present._noise(), rng, name=self.name, loss=epsilon)
        present._attach(door)
        self.end_level()
        self.epsilon, self._door, self._present = epsilon, door, present
        self._exact = np.zeros(self.n_counters, dtype=np.int64)  # of this level: as secret as the data

    def end_level(self):
        """Add the released total of the present level, if there is one, to the past."""
        if self._present is None:
            return
        if self.counter == "sparse":
            self._past = self._past + self._door.release(self._exact, f"{self.name}: total", noise=self._noise_of_total())
        else:
            self._past = self._past + self._present.value
        self._present = self._door = None

    def resume(self, accountant, rng):
        """Take noise from the stream `rng` from now on, under what `accountant` was charged already: after loading."""
        if self._present is not None:
            self._door = StandingRelease(accountant, self._present._noise(), rng)
            self._present._attach(self._door)

    def update(self, x):
        """Count what arrives at one time; see `KaryCounter.update`."""
        x = _as_counts(x, self.n_counters)
        self._started().update(x)
        self._exact += x

    def update_cells(self, cells):
        """Count events that fall into one cell each, one a time step; see `KaryCounter.update_cells`."""
        cells = _as_cells(cells, self.n_counters)
        self._started().update_cells(cells)
        if self.counter == "sparse":
            if len(cells) == 1:
                self._exact[cells[0]] += 1
            else:
                self._exact += np.bincount(cells, minlength=self.n_counters)

    @property
    def value(self):
        """Released counts so far, shape (n_counters,), int64."""
        return self._past.copy() if self._present is None else self._past + self._present.value

    def _started(self):
        if self._present is None:
            raise ValueError("No level has started; call start_level first.")
        return self._present

    def _noise_of_total(self):
        return DiscreteLaplace(laplace_scale(2 * self.sensitivity, self.epsilon))

    def __getstate__(self):
        return {**vars(self), "_door": None}

    def __copy__(self):
        return copy.deepcopy(self)

    def __repr__(self):
        return f"InhomogeneousCounter({self.counter!r}, n_counters={self.n_counters})"


_KINDS = {"kary": KaryCounter, "binary": BinaryCounter, "sparse": SparseCounter}


def _as_counts(x, n_counters):
    """Return whole numbers as a fresh int64 array of shape (n_counters,), or raise."""
    x = np.asarray(x)
    if x.dtype.kind not in "iub" or x.shape not in ((), (n_counters,)):
        raise ValueError(f"x must hold a whole number for each of {n_counters} counters, got {x.dtype} of shape {x.shape}.")
    return np.broadcast_to(x, (n_counters,)).astype(np.int64)


def _as_cells(cells, n_counters):
    """Return cell numbers as an array of shape (n_steps,), or raise."""
    cells = np.asarray(cells)
    if cells.size == 0:
        return np.zeros(0, dtype=np.int64)
    if cells.dtype.kind not in "iu" or cells.ndim != 1:
        raise ValueError(f"cells must hold one whole number a time step, got {cells.dtype} of shape {cells.shape}.")
    if cells.min() < 0 or cells.max() >= n_counters:
        raise ValueError(f"cells must lie in [0, n_counters={n_counters}), but some do not; check what numbers them.")
    return cells


def _one_hot(cell, n_counters):
    x = np.zeros(n_counters, dtype=np.int64)
    x[cell] = 1
    return x


def _stream(random_state):
    """Return a stream of bits, of a seed or given as such."""
    return random_state if hasattr(random_state, "seeded") else check_rng(random_state)
