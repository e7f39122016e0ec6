"""Laws of synthetic rows."""

from functools import partial
from typing import Any

import numpy as np

from skdpsynth.testing._check import can_sample, catch_refusal, clone_with, clone_with_seed, law, record_warnings, require, rows
from skdpsynth.testing._state import as_rows


@law(needs=can_sample)
def check_samples_lie_in_the_box_and_are_as_many_as_the_rows(estimator: Any) -> None:
    """Synthetic rows lie within bounds, also if rows did not, and are as many as the rows (or as their noisy number)."""
    low, high = np.array([-3.0, 10.0, 0.1]), np.array([-1.0, 11.0, 0.3])
    table = low + (high - low) * np.random.default_rng(0).random((200, 3)) * 1.5  # some rows outside
    fitted = clone_with(estimator, bounds=(low, high)).fit(table)
    drawn = as_rows(fitted.sample())
    expected = len(table) if fitted.neighboring == "replace_one" else fitted.n_samples_
    require(drawn.shape == (expected, 3) == (fitted.n_samples_, 3), f"a sample of {expected} rows has shape {drawn.shape}")
    require(((drawn >= low) & (drawn <= high)).all(), "a synthetic row lies outside of bounds")


@law(needs=can_sample)
def check_samples_repeat_by_their_own_seed_only(estimator: Any) -> None:
    """A sample repeats by its own seed; without one it does not, also after a seeded fit."""
    for mechanism in (clone_with(estimator, random_state=None), clone_with_seed(estimator)):
        fitted = mechanism.fit(rows())
        first, second = (as_rows(fitted.sample(50, random_state=0)) for _ in range(2))
        require(np.array_equal(first, second), "two samples of one seed differ")
        require(as_rows(fitted.sample(1)).shape == (1, 3), "a sample of one row has another shape")
        # Noise leaves a model of a single row now and then, but hardly four times in a row.
        require(not all(_samples_are_equal(mechanism) for _ in range(4)), "two samples without a seed are equal")


def _samples_are_equal(mechanism: Any) -> bool:
    fitted = mechanism.fit(rows())
    first, second = (as_rows(fitted.sample(50)) for _ in range(2))
    return np.array_equal(first, second)


@law(needs=can_sample)
def check_batches_are_the_rows_of_one_sample(estimator: Any) -> None:
    """A few batches are together the rows of a sample under the same seed, in their order."""
    fitted = clone_with(estimator).fit(rows())
    batches = [as_rows(batch) for batch in fitted.sample_batches(50, 20, random_state=0)]
    require([len(batch) for batch in batches] == [20, 20, 10], f"batches of 20 of 50 rows have {[len(batch) for batch in batches]} rows")
    require(np.array_equal(np.concatenate(batches), as_rows(fitted.sample(50, random_state=0))), "they are not the rows of the sample")


@law(needs=can_sample)
def check_sample_refuses_a_bad_number_of_rows(estimator: Any) -> None:
    """Sample refuses a number of rows that is none, in the name of n_samples."""
    fitted = clone_with(estimator).fit(rows())
    for bad in (0, -1, 2.5, "many", True):
        error = catch_refusal(partial(fitted.sample, bad), f"n_samples={bad!r}")
        require("n_samples must be a positive integer" in str(error), f"n_samples={bad!r} was refused with {error}")


@law(needs=can_sample)
def check_score_is_a_repeatable_negative_distance(estimator: Any) -> None:
    """The score repeats, and is minus a distance."""
    fitted = clone_with(estimator).fit(rows())
    require(fitted.score(rows()) == fitted.score(rows()) < 0, f"it scored {fitted.score(rows())}, then {fitted.score(rows())}")


@law(needs=can_sample)
def check_error_falls_as_epsilon_grows(estimator: Any) -> None:
    """Samples of clustered rows are better at epsilon 50 than at 0.0005: means of some fits, far apart even where there are two cells."""
    table = np.random.default_rng(0).beta(30, 70, size=(200, 3))

    def mean_score(epsilon: float, n_fits: int) -> float:
        return float(np.mean([clone_with(estimator, epsilon=epsilon).fit(table).score(table) for _ in range(n_fits)]))

    # Among two cells noise picks the right one every other time: 14 times out of 14 once in 16,000 runs of this law.
    weak, strong = mean_score(0.0005, 14), mean_score(50, 4)
    require(strong > weak, f"the mean score was {weak:.4g} at epsilon 0.0005 and {strong:.4g} at 50")


@law(needs=can_sample)
def check_sampling_spends_nothing_and_says_nothing(estimator: Any) -> None:
    """Samples are free: the ledger stays as it was, and no warning comes."""
    fitted = clone_with(estimator, random_state=None).fit(rows())
    before = fitted.accountant_.spent, len(fitted.accountant_.ledger)
    with record_warnings() as caught:
        fitted.sample(5)
        fitted.sample()
    require(before == (fitted.accountant_.spent, len(fitted.accountant_.ledger)), "the ledger has changed")
    require(not caught, f"sample warned: {caught[0].message if caught else ''}")
