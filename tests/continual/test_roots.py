"""Counters by square roots: their whole numbers by brute force, columns that have one length, and the error at every time."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from internals import _EARLY, _NEAR
from laws import refuses
from test_counters import Spy, values_along

from skdpsynth.continual import SquareRootCounter, UnboundedCounter

BOTH = {"square root": lambda n, **own: SquareRootCounter(n, **own), "unbounded": lambda n, **own: UnboundedCounter(**own)}
both = pytest.mark.parametrize("make", BOTH.values(), ids=BOTH)


@cache
def matrix_of(make, n_steps):
    """Return Q: cell j gets an event at step j."""
    counter, spy = make(n_steps, n_counters=n_steps), Spy(2**40)
    counter.resume(spy)
    for x in np.eye(n_steps, dtype=np.int64):
        counter.update(x)
    return np.array(spy.exact).astype(object)


def root(horizon):
    """Return round(2**16 F), F_ij = binom(2k, k) / 4**k with k = i - j: integers, by exact fractions."""
    factors = [round(Fraction(2**16 * math.comb(2 * k, k), 4**k)) for k in range(horizon)]
    return np.array([[factors[i - j] if i >= j else 0 for j in range(horizon)] for i in range(horizon)], dtype=object)


def best(horizon):
    """2 rho times the variances of the normalized square root of real numbers, at all times of a horizon."""
    k = np.arange(1, horizon)
    factors, inverses = (np.concatenate([[1.0], np.cumprod((2 * k - less) / (2 * k))]) for less in (1, 3))
    lengths, lags = np.sqrt(np.cumsum(factors**2))[::-1], np.subtract.outer(np.arange(horizon), np.arange(horizon))
    inverse = np.where(lags >= 0, inverses[np.maximum(lags, 0)], 0)
    return np.square(np.cumsum(lengths[:, None] * inverse, axis=0)).sum(axis=1)


def variances(make, n_steps, rho=0.01):
    """2 rho times the variance at all times, by the dense inverse and the scale of the noise."""
    scale = float(make(n_steps, rho=rho)._noise().scale)
    coefficients = np.cumsum(np.linalg.inv(matrix_of(make, n_steps).astype(float)), axis=0)
    return 2 * rho * scale**2 * np.square(coefficients).sum(axis=1)


@both
def test_a_value_solves_the_dense_system(make):
    stream = np.random.default_rng(0).integers(-3, 4, size=(400, 2))
    counter, spy = make(400, n_counters=2), Spy(2**40)
    counter.resume(spy)
    values, Q = values_along(counter, stream), matrix_of(make, 400)
    np.testing.assert_array_equal(np.array(spy.exact), Q @ stream)
    np.testing.assert_allclose(values, np.tri(400) @ np.linalg.solve(Q.astype(float), np.array(spy.noisy)), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("horizon", [1, 2, 5, 63, 300])
def test_the_columns_of_the_normalized_root_have_the_length_of_the_first(horizon):
    """None is longer, and none is shorter by a thousandth."""
    Q, sensitivity = matrix_of(BOTH["square root"], horizon), SquareRootCounter(horizon)._counter_sensitivity()
    gains = np.diag(Q) // 2**16
    np.testing.assert_array_equal(Q, root(horizon) * gains)
    lengths = (Q * Q).sum(axis=0)
    assert lengths[0] == lengths.max() == sensitivity.l2_squared
    assert lengths.min() > 0.999 * sensitivity.l2_squared
    assert (Q.sum(axis=0).max(), Q.max()) == (sensitivity.l1, sensitivity.sup)


@pytest.mark.parametrize(("horizon", "expected"), [(63, 4.51), (1023, 8.95)])
def test_the_exact_mean_squared_error_is_that_of_the_paper(horizon, expected):
    counter = SquareRootCounter(horizon, rho=0.01)
    lags = np.subtract.outer(np.arange(horizon), np.arange(horizon))
    Q = np.where(lags >= 0, counter._row[np.maximum(lags, 0)], 0) * counter._gains.astype(float)
    coefficients = np.cumsum(np.linalg.inv(Q), axis=0)
    error = 0.02 * float(counter._noise().scale) ** 2 * np.square(coefficients).sum(axis=1).mean()
    assert error == pytest.approx(expected, abs=0.006)


def test_a_long_horizon_is_refused():
    refuses(ValueError, "1 to 20000, got 20001; use UnboundedCounter", SquareRootCounter, 20_001)


def coefficient(t, j):
    """R[t, j], steps counted from 1; the sum that is 1 / g by its first terms, and the integral of the rest, which is in closed form."""
    n, A = 4000, j + 2
    k = np.arange(n)
    rest = math.log((n - 0.5 + A) / (n - 0.5 + 1 / 3)) / (3 * A - 1)
    total = (1 / ((k + A) * (1 + 3 * k))).sum() + rest
    return math.sqrt(1 / (total * (t + 2) * (1 + 3 * (t - j))))


def blocks_after(t):
    """The blocks of the step that follows `t` others: dyadic intervals that are old enough and late enough, and in no larger such."""

    def is_one(start, size):
        return size == 1 or (start >= _EARLY * size and start + size + _NEAR * size <= t)

    start, found = 0, []
    while start < t:
        sizes = [2**i for i in range(20) if start % 2**i == 0 and is_one(start, 2**i)]
        found.append(start)
        start += max(sizes)
    return [*found, t]


def test_the_blocks_are_the_largest_that_are_old_and_late_enough_and_hold_the_counts_of_their_steps():
    counter, stream = UnboundedCounter(rho=math.inf), np.random.default_rng(0).integers(-9, 10, 600)
    for t, x in enumerate(stream):
        counter.update(x)
        if t < 100 or t % 7 == 0:
            blocks = blocks_after(t)
            assert counter._state[1].tolist() == blocks
            np.testing.assert_array_equal(counter._state[2][:, 0], np.add.reduceat(stream[: t + 1], blocks))


def test_each_event_counts_with_the_coefficient_of_the_first_of_its_block():
    n = 420
    Q = matrix_of(BOTH["unbounded"], n)
    for t in (0, 1, 2, 50, 299, 419):
        first = np.repeat(blocks_after(t), np.diff([*blocks_after(t), t + 1]))
        expected = [2**30 * coefficient(t + 1, j + 1) for j in first]
        np.testing.assert_allclose(Q[t, : t + 1].astype(float), expected, rtol=1e-6)
        np.testing.assert_array_less(Q[t, : t + 1].astype(float), [2**30 * coefficient(t + 1, j + 1) * (1 + 1e-8) for j in range(t + 1)])
        assert not Q[t, t + 1 :].any()


def test_an_event_of_an_endless_stream_has_one_length_at_most():
    """What a column has to the end of these steps, and what it may still get: never more than was charged, and near to it for the first."""
    n = 420
    Q = matrix_of(BOTH["unbounded"], n)
    sensitivity = UnboundedCounter()._counter_sensitivity()
    later = np.arange(n + 1, 10**6, dtype=float)
    for j in (1, 2, 3, 10, 64, 65, 100, 257, 400):
        so_far = int((Q[:, j - 1] ** 2).sum())
        unit = coefficient(1, 1) ** 2 * 3 if j == 1 else coefficient(j, j) ** 2 * (j + 2)  # g
        to_come = unit * ((1 / ((later + 2) * (1 + 3 * (later - j)))).sum() + 1 / (3 * later[-1]))
        whole = so_far / 2**60 + to_come
        assert whole <= 1 + 1e-6
        assert whole > 0.98
        assert so_far < sensitivity.l2_squared == 2**60


def test_the_error_is_at_most_8_fifths_of_the_best_for_each_horizon():
    """Over the mean of the variances of the normalized square root whose horizon is just that time; longer times are in the benchmark."""
    ours = variances(BOTH["unbounded"], 400)
    for t in [*range(1, 100), *range(100, 401, 10)]:
        assert ours[t - 1] <= 1.6 * best(t).mean()


def test_memory_grows_with_the_logarithm_of_time():
    counter = UnboundedCounter(rho=math.inf)
    for _ in range(20):
        counter.update_cells([0] * 100)
        t = counter.n_steps
        assert len(counter._state[1]) == len(counter._state[2]) == len(counter._state[3]) <= (_NEAR + _EARLY) * math.log2(2 * t)


def test_what_may_arrive_at_any_time_keeps_every_sum_below_64_bits():
    n, caps = 400, []
    counter = UnboundedCounter(rho=math.inf)
    for _ in range(n):
        caps.append(counter._largest())
        counter.update(0)
    assert all(2**30 / math.sqrt(t) / 2 <= cap <= 2**30 / math.sqrt(t) for t, cap in enumerate(caps, 1))
    assert max(matrix_of(BOTH["unbounded"], n) @ np.array(caps, dtype=object)) < 2**62
    refuses(ValueError, f"x must lie within {counter._largest()} of 0", counter.update, counter._largest() + 1)
    assert (counter.n_steps, counter.value) == (n, 0)
