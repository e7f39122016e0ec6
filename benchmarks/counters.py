"""Error of the counters with Gaussian noise: SquareRootCounter at its horizon, and UnboundedCounter at every time.

    python benchmarks/counters.py [--steps 1048576] [--only horizon|endless]

All errors are exact, from the whole numbers that the counters use and the scale of their noise, times 2 rho. horizon: the mean over all
times, and the largest, beside those of the square root before normalizing and the lower bound for any factorization (asymptotic, Henzinger,
Kalinin, Upadhyay 2025); and the time of an update and a reading. endless: the variance of UnboundedCounter over the mean of the variances
of the normalized square root whose horizon is that time: at every time to 4096, and at some 20 up to `--steps`.
"""

import argparse
import math
import sys
import time

import numpy as np

from skdpsynth.continual import SquareRootCounter, UnboundedCounter
from skdpsynth.continual._square_root import closed_block_starts, coefficients

RHO = 0.01
FAILED = []


def check(what, value, target):
    met = value <= target
    if not met:
        FAILED.append(what)
    print(f"{what}: {value:.4g}, target <= {target:.4g}: {'met' if met else 'MISSED'}", flush=True)


def square_root(n):
    """Coefficients of (1 - z)**(-1/2), and of its inverse."""
    k = np.arange(1, n)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))]), np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])


def variances(Q, scale):
    """Of all times, times 2 rho."""
    return 2 * RHO * scale**2 * np.square(np.cumsum(np.linalg.inv(Q), axis=0)).sum(axis=1)


class Bounded:
    """The normalized square root of real numbers, whatever the horizon."""

    def __init__(self, n):
        root, self.inverse = square_root(n)
        self.lengths = np.sqrt(np.cumsum(root**2))

    def variance(self, t, horizon):
        """At time `t`, times 2 rho: a row of the factor on the left is a correlation of two sequences."""
        lengths = self.lengths[:horizon][::-1][:t]
        size = 1 << (2 * t - 1).bit_length()
        row = np.fft.irfft(np.fft.rfft(lengths[::-1], size) * np.fft.rfft(self.inverse[:t], size), size)[:t]
        return float(row @ row)

    def mean(self, horizon):
        """Over all times: variances are smooth, so those between some 60 are interpolated."""
        some = np.unique(np.concatenate([np.geomspace(1, horizon, 30), np.linspace(1, horizon, 30)]).astype(int))
        return np.interp(np.arange(1, horizon + 1), some, [self.variance(t, horizon) for t in some.tolist()]).mean()


def toeplitz(row):
    lags = np.subtract.outer(np.arange(len(row)), np.arange(len(row)))
    return np.where(lags >= 0, row[np.maximum(lags, 0)], 0.0)


def horizons():
    for horizon in (63, 1023, 4095):
        counter = SquareRootCounter(horizon, rho=RHO)
        plain = toeplitz(square_root(horizon)[0])
        before = variances(plain, math.sqrt(np.square(plain).sum(axis=0).max() / (2 * RHO)))
        now = variances(toeplitz(counter._row) * counter._gains, float(counter._noise().scale))
        bound = (0.701 + math.log(horizon) / math.pi) ** 2
        print(f"horizon {horizon}, 2 rho times the variance, mean / most: square root {before.mean():.2f} / {before.max():.2f}, "
              f"normalized {now.mean():.2f} / {now.max():.2f}; lower bound of the mean {bound:.2f}")  # fmt: skip
        if horizon == 1023:
            check("SquareRootCounter, horizon 1023, 2 rho MSE", now.mean(), 9.0)


def times():
    for what, counter in (("SquareRootCounter", SquareRootCounter(1023, rho=RHO)), ("UnboundedCounter", UnboundedCounter(rho=RHO))):
        start = time.perf_counter()
        for _ in range(1023):
            counter.update(1)
            _ = counter.value
        print(f"{what}: {(time.perf_counter() - start) / 1023 * 1e6:.0f} microseconds for an update and a reading, mean of 1023")


def blocks(n_steps):
    """Starts of the blocks of each step, in order."""
    starts = []
    for t in range(n_steps):
        gone = set(closed_block_starts(t))
        starts = [*(s for s in starts if s not in gone), t] if gone else [*starts, t]
        yield starts


def matrix(n_steps):
    """Q of UnboundedCounter."""
    Q = np.zeros((n_steps, n_steps))
    for t, starts in enumerate(blocks(n_steps)):
        Q[t, : t + 1] = np.repeat(coefficients(np.array(starts)), np.diff([*starts, t + 1]))
    return Q


def endless_variances(ends):
    """2 rho times the variance at each of these times: the squared length of l with l Q = 1 up to the time, from the last entry back."""
    *_, starts = blocks(max(ends))
    starts, n_blocks = np.array(starts), len(starts)
    sums, total = np.zeros((n_blocks, len(ends))), np.zeros(len(ends))  # of l times the column of Q, of the rows after t
    for t in range(max(ends) - 1, -1, -1):
        row = coefficients(starts)[:, None].astype(float)
        entry = np.where(t < np.array(ends), (1 - sums[-1]) / row[-1], 0)
        total += entry**2
        sums += row * entry
        starts, sums = starts[:-1], sums[:-1]
        for s in sorted(closed_block_starts(t)):
            place = np.searchsorted(starts, s)
            starts, sums = np.insert(starts, place, s), np.insert(sums, place, sums[place - 1], axis=0)
    return total * 2.0**60, n_blocks


def ratios(bounded, ends, found):
    """Variances over the means at those horizons: such means are smooth, and beyond 256 those of some are interpolated."""
    some = np.unique(np.concatenate([np.arange(1, 257), np.geomspace(256, max(ends), 40).astype(int)]))
    means = np.array([bounded.mean(t) for t in some.tolist()])
    return np.asarray(found) / np.interp(np.log(ends), np.log(some), means)


def endless(n_steps):
    bounded, early = Bounded(max(n_steps, 4096)), np.arange(1, 4097)
    over = ratios(bounded, early, variances(matrix(4096), float(UnboundedCounter(rho=RHO)._noise().scale)))
    check(f"UnboundedCounter, most of all times to 4096 (at {1 + int(over.argmax())}), over the best with that horizon", over.max(), 1.6)
    drawn = np.exp(np.random.default_rng(0).uniform(math.log(4096), math.log(n_steps), 6)).astype(int)
    around = [2**i + d for i in range(13, 1 + int(math.log2(n_steps))) for d in (-1, 0)]
    ends = sorted({1023, 4095, n_steps, *drawn.tolist(), *(t for t in around if t <= n_steps)})
    found, n_blocks = endless_variances(ends)
    over = ratios(bounded, ends, found)
    for t, variance, ratio in zip(ends, found.tolist(), over.tolist(), strict=True):
        if t & (t - 1) == 0 or t in (1023, 4095):
            most = variance / max(bounded.variance(s, t) for s in np.unique(np.linspace(t / 2, t, 30).astype(int)).tolist())
            print(f"time {t}: 2 rho times the variance {variance:.2f}, {ratio:.4f} of the best's mean, {most:.4f} of its most", flush=True)
    check(f"UnboundedCounter, most of {len(ends)} times to {n_steps}, over the best with that horizon", over.max(), 1.6)
    print(f"UnboundedCounter keeps {n_blocks} blocks after {n_steps} steps")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2**20)
    parser.add_argument("--only", choices=["horizon", "endless"])
    arguments = parser.parse_args()
    if arguments.only != "endless":
        horizons()
        times()
    if arguments.only != "horizon":
        endless(arguments.steps)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
