"""Synthesizers of other people, as the tests of `fitting` put them into ours."""

import warnings
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from skdpsynth import PrivacyAccountant
from skdpsynth.privacy import DiscreteLaplace, PrivacyLoss, check_rng, mechanism
from skdpsynth.statistics import Histogram


class Foreign(BaseEstimator):
    """Counts the rows left and right of the middle of each feature; knows nothing of plans."""

    seen: ClassVar[list] = []  # (number of rows, random_state, accountant) of each fit

    def __init__(
        self, factor=1, *, epsilon=1.0, delta=0.0, bounds=(0.0, 1.0), neighboring="replace_one", accountant=None, random_state=None
    ):
        self.factor = factor  # of its share, that it tries to spend
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X, y=None):
        Foreign.seen.append((len(X), self.random_state, self.accountant))
        accountant = PrivacyAccountant(self.epsilon * self.factor) if self.accountant is None else self.accountant
        low, high = self.bounds
        assert ((low <= X) & (high >= X)).all(), "rows beyond the bounds"
        left = np.sum((np.asarray(low) + high) / 2 > X, axis=0).astype(np.int64)
        noise = DiscreteLaplace(left.size * 2 / (self.factor * self.epsilon))
        rng = check_rng(self.random_state)
        self.left_ = accountant.release(left, noise, rng, name="left", loss=self.factor * self.epsilon)
        self.n_samples_ = len(X)
        return self

    def sample(self, n_samples=None, random_state=None):
        rng = np.random.default_rng(np.random.RandomState(7).randint(2**31) if random_state is None else random_state.randint(2**31))
        shares = np.clip(self.left_ / self.n_samples_, 0, 1)
        low, high = self.bounds
        middle = (np.asarray(low) + high) / 2
        return np.where(rng.random((n_samples, len(shares))) < shares, (low + middle) / 2, (middle + high) / 2)


class ForeignStream(Foreign):
    """A stream: it may keep rows."""

    def partial_fit(self, X, y=None):
        return self.fit(X)


def greedy(budget, rows, epsilon):
    """Ask a budget for counts at an epsilon of one's own."""
    query = Histogram.over_cells(2).of((rows.collect()[:, 0] > 0.5).astype(np.int64)).query(budget.relation)
    return budget.answer(query, mechanism(query.sensitivity, PrivacyLoss(epsilon=epsilon), ("laplace",)), "counts")


def told(run, category=UserWarning, words=""):
    """Messages of one category that a call gives, those with some words, but not that a fit is one of a clone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    messages = [str(each.message) for each in caught if issubclass(each.category, category)]
    return [message for message in messages if words in message and not message.startswith("A clone is fitted")]
