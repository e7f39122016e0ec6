"""Counts on their way out: what the measure mechanisms share."""

import math
import warnings

import numpy as np

from skdpsynth._estimator import public_size
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.privacy import DiscreteLaplace, check_epsilon, laplace_scale, split_exactly

_COUNT_SHARE = 0.05  # of the budget, for the number of rows under add/remove


class Release:
    """The counts of one fit: cell counts have one sensitivity, set by the relation."""

    def __init__(self, accountant, rng):
        self.accountant = accountant
        self.rng = rng
        # L1 sensitivity of the counts of disjoint cells: replacing a row takes one unit from a cell and gives one to another (2);
        # adding or removing one changes a single cell (1).
        self.sensitivity = 2 if accountant.neighboring == "replace_one" else 1
        self.epsilon = accountant.remaining
        self.count_error = 0.0  # E|noise| of the number of rows

    def counts(self, values, epsilon, name):
        """Release cell counts at `epsilon`."""
        noise = DiscreteLaplace(laplace_scale(self.sensitivity, epsilon))
        return self.accountant.release(values, noise, self.rng.child(name), name=name, loss=epsilon)

    def number_of_rows(self, n):
        """Return the number of rows: public under replace-one; else released, as adding or removing a row changes it by 1; at least 1."""
        if self.accountant.neighboring == "replace_one":
            return n
        share, self.epsilon = split_exactly(self.epsilon, [_COUNT_SHARE, 1 - _COUNT_SHARE])
        noise = DiscreteLaplace(laplace_scale(1, share))
        self.count_error = noise.mean_absolute()
        noisy = self.accountant.release(np.array([n]), noise, self.rng.child("rows"), name="number of rows", loss=share)
        return max(1, int(noisy[0]))

    def variance(self, epsilon, nominal=1.0):
        """Noise variance of a count released at `epsilon`; without noise, a weight for joining: that of the `nominal` epsilon."""
        if epsilon == math.inf:
            return 2 * (self.sensitivity / float(nominal)) ** 2
        return DiscreteLaplace(laplace_scale(self.sensitivity, epsilon)).variance()

    def public_generator(self):
        """A numpy generator for choices that are post-processing."""
        return np.random.default_rng(np.frombuffer(self.rng.child("public").bytes(32), dtype=np.uint32))


def open_release(estimator, n_samples, n_features, rng, prepare):
    """Open the budget of a fit; return (release, number of rows, what ``prepare(size)`` returned).

    ``size`` is the public number that sizes follow from. Where it is public before any budget is spent, `prepare` is called before.
    """
    is_public = estimator.neighboring == "replace_one"
    prepared = prepare(_size(check_epsilon(estimator.epsilon), n_samples, n_features)) if is_public else None
    release = Release(estimator._open_accountant(delta=0), rng)
    n = release.number_of_rows(n_samples)
    return release, n, prepared if is_public else prepare(_size(release.epsilon, n, n_features))


def _size(epsilon, n, n_features):
    """Return epsilon times the number of rows (capped), and warn where it is small."""
    size = public_size(epsilon, n)
    if size <= 100 and n_features > 1:
        warnings.warn(
            f"n_samples * epsilon is {size:g}, and up to 100 the noise may leave synthetic rows of {n_features} features no closer "
            "to the data than uniform ones; use more rows, a larger epsilon or fewer features.",
            SmallSampleWarning,
            stacklevel=5,
        )
    return size
