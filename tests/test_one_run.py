"""Audits by one fit: the bounds err as seldom as they say, whatever honest mechanism is asked, and find faults.

A bound is above the truth in at most one of ten million audits (`SURE`). Beside an audit stands what share of the promise it showed over
many seeds, mean and deviation: it must show the mean less six deviations. Levels are exact where a law can be written down.
"""

import itertools
import math

import numpy as np
import pytest
from internals import is_refuted, lower_epsilon_of_one_run, lower_mu_of_one_run
from laws import ALARM, binomial, clopper_pearson, refuses
from scipy.special import ndtr
from scipy.stats import binom, norm
from sklearn.base import BaseEstimator

from skdpsynth import LatentFactorSynthesizer, OnlineSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.auditing import audit_one_run, isolated_canaries
from skdpsynth.privacy import DiscreteLaplace, check_rng

N_CELLS = 400
ROWS = np.arange(N_CELLS, dtype=float)[:, None]
SURE = 1 - 1e-7
DROP = {"neighboring": "add_or_remove_one"}


def share(epsilon):
    return 1 / (1 + math.exp(-epsilon))


def audited(estimator, n, **parameters):
    return audit_one_run(estimator, None, *isolated_canaries(estimator, n), confidence=SURE, **parameters)


@pytest.mark.parametrize("n", [10, 150])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (3.0, 0.0), (0.5, 1e-4), (0.5, 1e-3), (0.5, 0.02)])
def test_the_bound_on_epsilon_errs_as_seldom_as_said_where_coins_are_told_at_once_or_each_by_itself(n, epsilon, delta):
    """With probability delta all is told, or a coin, else each coin is answered at random: (epsilon, delta)-private mechanisms."""
    alpha, right = 0.05, np.arange(n + 1)
    is_wrong = np.array([lower_epsilon_of_one_run(k, n, n, delta, alpha) > epsilon for k in right])
    at_once = (1 - delta) * binom.pmf(right, n, share(epsilon))[is_wrong].sum() + delta * is_wrong[-1]
    by_itself = binom.pmf(right, n, delta + (1 - delta) * share(epsilon))[is_wrong].sum()
    assert max(at_once, by_itself) <= alpha


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_the_bound_on_mu_errs_as_seldom_as_said_for_coins_by_themselves(mu):
    for n in (20, 100):
        is_wrong = np.array([lower_mu_of_one_run(k, n, n, 0.05) > mu for k in range(n + 1)])
        assert binom.pmf(np.arange(n + 1), n, ndtr(mu / 2))[is_wrong].sum() <= 0.05


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n_guesses", [4, 10])
def test_the_bound_on_mu_errs_as_seldom_as_said_where_guesses_stand_and_fall_together(mu, n_guesses):
    """Released is the sum of 10 coins, each 1 or -1, with noise of deviation 2 / mu; all coins that are guessed are guessed by its sign."""
    n, alpha = 10, 0.05
    is_wrong = [lower_mu_of_one_run(k, n_guesses, n, alpha) > mu for k in range(n_guesses + 1)]
    wrong = 0.0
    for signs in itertools.product((-1, 1), repeat=n):
        n_up = sum(sign > 0 for sign in signs[:n_guesses])
        up = norm.sf(0, loc=sum(signs), scale=2 / mu)
        wrong += (up * is_wrong[n_up] + (1 - up) * is_wrong[n_guesses - n_up]) / 2**n
    assert wrong <= alpha


def test_more_right_guesses_refute_more():
    bounds = [lower_mu_of_one_run(k, 60, 200, 0.01) for k in range(61)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 0.9
    assert not is_refuted(bounds[-1] + 0.01, 60, 60, 200, 0.01)


def test_an_honest_fit_is_accused_as_seldom_as_said():
    """Of 60 audits at 90 % each may err in 1 of 11 (epsilon gets nine tenths); had they no confidence at all, half of them would."""
    estimator = SignedMeasureMechanism(64, epsilon=1.0, **DROP)
    canaries, _ = isolated_canaries(estimator, 64)
    accused = sum(audit_one_run(estimator, None, canaries, confidence=0.9).epsilon_lower > 1 for _ in range(60))
    assert clopper_pearson(accused, 60)[0] <= 0.09


PROMISES = {  # estimator, canaries; over 98 seeds the mean share of the promise, and its deviation
    "PSMM": (SignedMeasureMechanism(2048, epsilon=2.0), 1000, 0.69, 0.055),
    "PSMM-add_or_remove_one": (SignedMeasureMechanism(1024, epsilon=2.0, **DROP), 1000, 0.72, 0.043),
    "PMM": (PrivateMeasureMechanism("optimal", depth=11, epsilon=2.0, bounds=([0, 0], [1, 1])), 1000, 0.56, 0.045),
    "LatentFactor": (LatentFactorSynthesizer({i: [str(k) for k in range(40)] for i in range(2)}, epsilon=2.0), 500, 0.39, 0.059),
}


@pytest.mark.parametrize(("estimator", "n", "mean", "deviation"), PROMISES.values(), ids=PROMISES)
def test_one_fit_shows_much_of_the_promise_and_not_more(estimator, n, mean, deviation, hasty):
    result = audited(estimator, n)
    assert mean - 6 * deviation < result.epsilon_lower / result.epsilon <= 1
    assert not result.is_broken


def test_more_fits_show_more():
    """Over 4 seeds .94 (deviation .24) and 2.47 (.09)."""
    estimator = SignedMeasureMechanism(256, epsilon=3.0)
    one, many = audited(estimator, 128), audited(estimator, 128, n_fits=20)
    assert one.epsilon_lower < many.epsilon_lower <= 3
    assert (many.n_runs, many.n_trials) == (20 * 128, 20)


class Cells(BaseEstimator):
    """Counts rows by cell, with a fault."""

    def __init__(self, fault=None, epsilon=1.0, neighboring="add_or_remove_one", random_state=None):
        self.fault, self.epsilon, self.neighboring, self.random_state = fault, epsilon, neighboring, random_state

    def fit(self, X, y=None):
        rng = check_rng(7 if self.fault == "reused seed" else None)
        counts = np.bincount(X[:, 0].astype(int), minlength=N_CELLS)
        noise = DiscreteLaplace(0.5 if self.fault == "half of the noise" else 1)
        self.counts_ = counts + noise.sample(N_CELLS, rng)
        if self.fault == "forgotten charge":
            self.counts_ = self.counts_ + counts + noise.sample(N_CELLS, rng)
        if self.fault == "metadata":
            self.levels_ = np.unique(X).astype(int)
        return self


SCORES = {
    "reused seed": lambda model: model.counts_ - DiscreteLaplace(1).sample(N_CELLS, check_rng(7)),
    "metadata": lambda model: np.isin(np.arange(N_CELLS), model.levels_),
}


def by_count(model):
    return model.counts_


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.InsecureRandomnessWarning")
@pytest.mark.parametrize("fault", ["half of the noise", "forgotten charge", "reused seed", "metadata"])
def test_faults_are_caught_by_one_fit(fault):
    result = audit_one_run(Cells(fault), None, ROWS, score=SCORES.get(fault, by_count), n_fits=20, confidence=SURE)
    assert result.is_broken
    assert "canaries in" in str(result)


def test_the_same_without_a_fault_is_not_accused():
    """Over 98 seeds it shows .74 of the promise, with a deviation of .049."""
    result = audit_one_run(Cells(), None, ROWS, score=by_count, n_fits=10, confidence=SURE)
    assert 0.44 < result.epsilon_lower <= 1


def test_what_is_guessed_does_not_follow_from_the_coins():
    """A score that is equal for all canaries tells nothing: half of the guesses are right, whatever the coins are."""
    result = audit_one_run(Cells(), None, ROWS, score=lambda model: np.zeros(N_CELLS), n_fits=30)
    assert result.n_guesses == 30 * N_CELLS // 2
    assert binomial(result.n_right, result.n_guesses, 0.5) > ALARM


@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")
@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_canaries_of_a_box_are_in_cells_of_their_own(n_features, relation):
    estimator = PrivateMeasureMechanism("optimal", depth=7, bounds=([0.0] * n_features, [2.0] * n_features), neighboring=relation)
    canaries, others = isolated_canaries(estimator, 50)
    rows = canaries if others is None else np.concatenate([canaries, others])
    assert rows.shape == (50 if others is None else 100, n_features)
    partition = estimator.fit(rows).partition_
    assert len(np.unique(partition.locate(rows))) == len(rows)


def test_canaries_of_a_schema_share_no_cell_in_any_pair_of_columns():
    schema = {"a": [str(k) for k in range(20)], "b": [str(k) for k in range(30)], "c": (0.0, 1.0), "d": ["x", "y"]}
    canaries, others = isolated_canaries(LatentFactorSynthesizer(schema), 40)
    columns = {name: [*canaries[name], *others[name]] for name in schema}
    for first, second in itertools.combinations("abc", 2):
        cells = set(zip(columns[first], columns[second], strict=True))
        assert len(cells) == 80


OTHER = Cells(neighboring="replace_one")
REFUSED = [
    ((OTHER, None, ROWS), {}, "others must be given"),
    ((Cells(), None, ROWS, ROWS), {}, "others must be None"),
    ((Cells(), None, None), {}, "canaries must be a table of at least 2 rows, got None"),
    ((Cells(), None, ROWS[:1]), {}, "canaries must be at least 2 rows"),
    ((Cells(), np.zeros((3, 2)), ROWS), {}, "the same columns"),
    ((Cells(), None, np.zeros(3)), {}, "canaries must be a table in memory"),
    ((Cells(), None, ROWS), {}, "score must be given"),
    ((Cells(), None, ROWS), {"score": 3}, "score must be None or a function"),
    ((Cells(), None, ROWS), {"score": lambda model: [1.0]}, "score must return a number for each of 400"),
    *(((Cells(), None, ROWS), {"n_fits": n_fits}, "n_fits must be") for n_fits in (0, 2**31)),
    ((Cells(), None, ROWS), {"confidence": 1}, "confidence must be"),
    ((Cells(random_state=0), None, ROWS), {}, "random_state must be None"),
    ((PrivatePCA(epsilon=math.inf), None, ROWS), {}, "epsilon must be positive and finite"),
]


def test_what_cannot_be_audited_is_refused_or_says_so():
    for arguments, parameters, message in REFUSED:
        refuses((TypeError, ValueError), message, audit_one_run, *arguments, **parameters)
    result = audited(PrivateMeasureMechanism(depth=1), 32)
    assert result.n_guesses == 0
    assert "No released number was moved by one canary alone" in str(result)
    assert not audited(OnlineSynthesizer(epsilon=1.0), 16).is_broken
