"""Laws that hold for every public estimator."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators import all_estimators, variants
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, OnlineSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.exceptions import BudgetExceededError, InsecureRandomnessWarning, SmallSampleWarning

VARIANTS = variants()
SYNTHESIZERS = {name: estimator for name, estimator in VARIANTS.items() if hasattr(estimator, "sample")}
each = pytest.mark.parametrize("estimator", VARIANTS.values(), ids=VARIANTS)
each_synthesizer = pytest.mark.parametrize("estimator", SYNTHESIZERS.values(), ids=SYNTHESIZERS)
each_class = pytest.mark.parametrize("cls", all_estimators())
pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


@parametrize_with_checks(
    [cls() for cls in all_estimators()]
    + [PrivateMeasureMechanism("optimal"), PrivateMeasureMechanism("paper"), PrivatePCA(1, center="public"), LowDimSynthesizer(1)]
    + [LatentFactorSynthesizer(strategy="scores")]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks_pass_without_expected_failures(estimator, check):
    check(estimator)


def test_every_estimator_is_among_the_variants():
    assert {type(estimator) for estimator in VARIANTS.values()} == set(all_estimators())


# Budget


@each
@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(1, 3), 7.5])
def test_ledger_total_of_pure_losses_is_exactly_epsilon(estimator, epsilon, X):
    fitted = clone(estimator).set_params(epsilon=epsilon).fit(X)
    expected = epsilon if isinstance(epsilon, Fraction) else Fraction(str(epsilon))
    assert fitted.accountant_.spent == expected
    assert fitted.accountant_.remaining == 0


@each
def test_ledger_total_with_delta_is_at_most_epsilon_and_short_of_it_by_under_a_millionth(estimator, X):
    fitted = clone(estimator).set_params(epsilon=0.7, delta=1e-6)
    if hasattr(fitted, "noise"):
        fitted.set_params(noise="gaussian")
    spent = fitted.fit(X).accountant_.spent
    assert Fraction(7, 10) * (1 - Fraction(1, 10**6)) <= spent <= Fraction(7, 10)


@each
def test_epsilon_inf_is_recorded_as_an_infinite_loss(estimator, X):
    fitted = clone(estimator).set_params(epsilon=float("inf")).fit(X)
    assert fitted.accountant_.spent == float("inf")
    assert "inf" in repr(fitted.accountant_)


@each
def test_a_shared_accountant_is_charged_the_whole_epsilon_at_each_fit(estimator, X):
    shared = PrivacyAccountant(1, neighboring=estimator.neighboring)
    estimator = clone(estimator).set_params(epsilon=0.4, accountant=shared)
    assert clone(estimator).accountant is shared
    estimator.fit(X)
    clone(estimator).fit(X)
    assert shared.spent == Fraction(8, 10)
    before = vars(estimator).copy()
    with pytest.raises(BudgetExceededError):
        estimator.fit(X)
    assert shared.spent == Fraction(8, 10)
    assert vars(estimator).get("accountant_") is before["accountant_"]


@each
def test_a_fit_that_is_refused_spends_nothing(estimator, X):
    shared = PrivacyAccountant(1, neighboring=estimator.neighboring)
    estimator = clone(estimator).set_params(accountant=shared)
    for bad in ([] if takes_nan(estimator) else [np.full((5, 3), np.nan)]) + [np.array([["a", "b", "c"]]), np.ones(5)]:
        with pytest.raises((ValueError, TypeError)):
            estimator.fit(bad)
    assert shared.spent == 0


@each
def test_a_fit_that_is_refused_leaves_the_object_as_it_was(estimator, X):
    fitted = clone(estimator).fit(X)
    before = vars(fitted).copy()
    with pytest.raises(ValueError, match="bounds"):
        fitted.set_params(bounds=(1, 0)).fit(np.ones((4, 7)))
    fitted.set_params(bounds=estimator.bounds)
    assert vars(fitted) == before


@each_synthesizer
def test_delta_that_is_not_needed_is_not_charged(estimator, X):
    """Counts get Laplace noise, and so do the moments of three columns; many tables of counts get Gaussian noise."""
    if isinstance(estimator, LatentFactorSynthesizer):
        pytest.skip("it needs delta")
    shared = PrivacyAccountant(1, 1e-6, neighboring=estimator.neighboring)
    clone(estimator).set_params(delta=1e-6, accountant=shared).fit(X)
    assert shared.ledger[0].loss.delta == 0


@each
@pytest.mark.parametrize("epsilon", [1e-17, 1e-300, 1e300])
def test_absurd_epsilons_are_served_or_refused_before_the_charge(estimator, epsilon, X):
    shared = PrivacyAccountant(float("inf"), neighboring=estimator.neighboring)
    try:
        clone(estimator).set_params(epsilon=epsilon, accountant=shared).fit(X)
    except ValueError:
        assert shared.spent == 0


# Randomness


@each
def test_unseeded_fits_differ(estimator, X):
    first, second = (_released(clone(estimator).fit(X)) for _ in range(2))
    assert not _equal(first, second)


@each
def test_seeded_fits_are_equal_and_say_so(estimator, X):
    with pytest.warns(InsecureRandomnessWarning):
        first = clone(estimator).set_params(random_state=7).fit(X)
    with pytest.warns(InsecureRandomnessWarning):
        second = clone(estimator).set_params(random_state=7).fit(X)
    assert _equal(_released(first), _released(second))
    assert all(entry.randomness == "seeded" for entry in first.accountant_.ledger)
    shared = PrivacyAccountant(1, neighboring=estimator.neighboring)
    clone(estimator).set_params(random_state=7, accountant=shared).fit(X)
    assert shared.ledger[0].randomness == "seeded"


@each
def test_secure_fits_say_so_and_do_not_warn(estimator, X):
    with warnings.catch_warnings():
        warnings.simplefilter("error", InsecureRandomnessWarning)
        fitted = clone(estimator).fit(X)
    assert {entry.randomness for entry in fitted.accountant_.ledger} == {"secure"}


# What leaves fit


@each
def test_a_pickle_holds_no_row_and_works(estimator):
    X = np.random.default_rng(1).random((200, 3))
    fitted = clone(estimator).fit(X)
    data = pickle.dumps(fitted)
    for value in X.ravel():
        assert value.tobytes() not in data
    again = pickle.loads(data)
    assert again.accountant_.spent == 1
    assert _equal(_released(fitted), _released(again))


@each
def test_a_fitted_estimator_with_a_shared_accountant_pickles_with_a_record(estimator, X):
    shared = PrivacyAccountant(3, neighboring=estimator.neighboring)
    unfitted = clone(estimator).set_params(accountant=shared)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(unfitted)
    again = pickle.loads(pickle.dumps(unfitted.fit(X)))
    assert again.accountant_.spent == 1
    with pytest.raises(BudgetExceededError, match="closed record"):
        again.fit(X)
    shared.spend(1, name="the original stays open")


@each
def test_attributes_shapes_and_warnings_do_not_depend_on_private_values(estimator):
    """Neighbours and the same noise stream: the same attributes, types, shapes and warnings (noisy values may differ)."""
    X = np.random.default_rng(2).random((150, 3))
    neighbour = X.copy()
    neighbour[0] = [0.0, 1.0, 0.0]
    outside = X.copy()
    outside[0] = [-1e300, 1e300, 5.0]
    constant = np.full_like(X, 0.5)
    facts = []
    for data in (X, neighbour, outside, constant):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = clone(estimator).set_params(random_state=3).fit(data)
        facts.append((_shape_of(fitted), [str(w.message) for w in caught], [str(e) for e in fitted.accountant_.ledger]))
    assert facts[0] == facts[1] == facts[2] == facts[3]


@each
def test_the_input_is_not_modified(estimator, X):
    before = X.copy()
    clone(estimator).fit(X)
    assert np.array_equal(X, before)


@each
def test_fit_is_the_same_for_every_memory_layout(estimator, X):
    fits = [_released(clone(estimator).set_params(random_state=0).fit(Z)) for Z in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2])]
    assert _equal(fits[0], fits[1])
    assert _equal(fits[0], fits[2])


@each
def test_released_values_do_not_depend_on_the_order_of_rows(estimator, X):
    if isinstance(estimator, OnlineSynthesizer):
        pytest.skip("the order of a stream is time")
    shuffled = np.random.default_rng(5).permutation(X)
    first, second = (_released(clone(estimator).set_params(random_state=0).fit(Z)) for Z in (X, shuffled))
    assert _equal(first, second)


# Samples


@each_synthesizer
def test_samples_lie_in_the_box_and_have_as_many_rows_as_the_data(estimator):
    low, high = np.array([-3.0, 10.0, 0.1]), np.array([-1.0, 11.0, 0.3])
    X = low + (high - low) * np.random.default_rng(0).random((500, 3)) * 1.5  # some rows outside
    fitted = clone(estimator).set_params(bounds=(low, high)).fit(X)
    rows = fitted.sample()
    assert rows.shape == (fitted.n_samples_, 3)
    if fitted.neighboring == "replace_one":
        assert len(rows) == 500
    assert ((rows >= low) & (rows <= high)).all()


@each_synthesizer
def test_samples_repeat_by_seed_only(estimator, X):
    fitted = clone(estimator).fit(X)
    assert np.array_equal(fitted.sample(50, random_state=0), fitted.sample(50, random_state=0))
    assert not np.array_equal(fitted.sample(50), fitted.sample(50))
    assert fitted.sample(1).shape == (1, 3)


@each_synthesizer
def test_a_seeded_fit_does_not_seed_its_samples(estimator, X):
    fitted = clone(estimator).set_params(random_state=0).fit(X)
    assert not np.array_equal(fitted.sample(50), fitted.sample(50))


@each_synthesizer
@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "many", True])
def test_sample_refuses_a_bad_number_of_rows(estimator, n_samples, X):
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        clone(estimator).fit(X).sample(n_samples)


@each_synthesizer
def test_score_is_a_repeatable_negative_distance(estimator, X):
    fitted = clone(estimator).fit(X)
    assert fitted.score(X) == fitted.score(X) < 0


@each_synthesizer
def test_error_falls_as_epsilon_grows(estimator):
    """Mean scores of 6 fits at epsilon 0.05 and 50 on clustered data; they differ by tens of standard errors."""
    X = np.clip(0.3 + 0.05 * np.random.default_rng(0).normal(size=(1000, 3)), 0, 1)
    weak, strong = (np.mean([clone(estimator).set_params(epsilon=e).fit(X).score(X) for _ in range(6)]) for e in (0.05, 50))
    assert strong > weak


# Bad input: one clear sentence each


@each
@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), "1", None, True])
def test_bad_epsilon(estimator, epsilon, X):
    with pytest.raises(ValueError, match=r"epsilon must be a number greater than 0 .*got"):
        clone(estimator).set_params(epsilon=epsilon).fit(X)


@each
@pytest.mark.parametrize("delta", [-0.1, 1, float("nan"), "x"])
def test_bad_delta(estimator, delta, X):
    with pytest.raises(ValueError, match=r"delta must be a number in \[0, 1\), got"):
        clone(estimator).set_params(delta=delta).fit(X)


@each
@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 0), "low < high"),
        ((0, 0), "low < high"),
        ((0, np.inf), "finite"),
        ((0, np.nan), "finite"),
        (([0, 0], [1, 1]), r"shape \(3,\)"),
        (5, "pair"),
        (("a", "b"), "numbers"),
        ({"a": (0, 1)}, "no column names"),
    ],
)
def test_bad_bounds(estimator, bounds, message, X):
    with pytest.raises(ValueError, match=f"bounds.*{message}"):
        clone(estimator).set_params(bounds=bounds).fit(X)


@each
def test_nan_is_refused_with_scikit_learns_static_sentence_or_taken(estimator, X):
    X[3, 1] = np.nan
    if takes_nan(estimator):
        clone(estimator).fit(X)
        return
    with pytest.raises(ValueError, match="contains NaN"):
        clone(estimator).fit(X)


@each
@pytest.mark.parametrize("bad", [np.array([["secret-7", "1"], ["2", "3"]]), np.array([["secret-7", 1.0], [2.0, 3.0]], dtype=object)])
def test_strings_are_refused_without_quoting_them(estimator, bad):
    with pytest.raises((ValueError, TypeError), match="X must hold numbers only") as caught:
        clone(estimator).fit(bad)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


class _Objects:
    """An array-like of objects."""

    def __array__(self, dtype=None, copy=None):
        return np.array([["31415.5", "x"]], dtype=object)


@each
@pytest.mark.parametrize(
    "bad",
    [
        np.array([31415.5, 0.2, 0.7]),
        [31415.5, 0.2],
        np.array(31415.5),
        np.array([[31415.5 + 1j, 2]]),
        {"a": [31415.5]},
        [[31415.5, "x"]],
        [[31415.5, 10**400]],
        _Objects(),
        np.array([["31415-01-01"]], dtype="M8[D]"),
        np.array([(31415.5, 1)], dtype=[("a", float), ("b", int)]),
        pd.Series([31415.5, 1]),
        pd.DataFrame({"a": [31415.5, 1], "b": ["x", "y"]}),
        pd.DataFrame({"a": pd.Categorical(["31415", "y"])}),
        pl.Series([31415.5, 1]),
        pl.DataFrame({"a": ["31415", "y"]}),
        pl.DataFrame({"a": [31415.5, 1]}).lazy(),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_no_error_quotes_a_cell(estimator, bad):
    with pytest.raises((ValueError, TypeError)) as caught:
        clone(estimator).fit(bad)
    error = caught.value
    while error is not None:
        assert "31415" not in str(error)
        error = error.__cause__ or error.__context__


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_the_ends_of_floating_point_cause_no_warning(estimator, dtype):
    X = np.random.default_rng(0).random((512, 2)).astype(dtype)
    most = np.finfo(dtype).max
    X[[0, 8]], X[[200, 208]], X[[3, 4]] = most, -most, np.finfo(dtype).smallest_subnormal
    with np.errstate(over="raise", invalid="raise", divide="raise"), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        clone(estimator).fit(X)


@each
@pytest.mark.parametrize("n", [63, 64, 128])
def test_dates_are_refused_whatever_their_number(estimator, n):
    with pytest.raises(TypeError, match="X must hold numbers only, got dtype datetime64"):
        clone(estimator).fit(np.arange(2 * n).reshape(-1, 2).astype("M8[D]"))


@each
def test_another_width_is_refused_after_fit(estimator, X):
    fitted = clone(estimator).fit(X)
    with pytest.raises(ValueError, match="features"):
        (fitted.score if hasattr(fitted, "sample") else fitted.transform)(X[:, :2])


@each
def test_a_one_dimensional_array_is_refused(estimator):
    with pytest.raises(ValueError, match="2D array"):
        clone(estimator).fit(np.ones(5))


@each
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("neighboring", "both"),
        ("accountant", 1.0),
        ("random_state", np.random.default_rng(0)),
        ("random_state", "seed"),
        ("random_state", -1),
    ],
)
def test_bad_shared_parameters_are_named(estimator, parameter, value, X):
    with pytest.raises(ValueError, match=parameter):
        clone(estimator).set_params(**{parameter: value}).fit(X)


@pytest.mark.parametrize("estimator", [PrivatePCA(), LowDimSynthesizer()])
@pytest.mark.parametrize("n_components", [0, 4, -1, "all", 1.5, [1]])
def test_bad_n_components(estimator, n_components, X):
    with pytest.raises(ValueError, match="n_components must be"):
        clone(estimator).set_params(n_components=n_components).fit(X)


def test_an_accountant_of_another_relation_is_refused(X):
    shared = PrivacyAccountant(1, neighboring="add_or_remove_one")
    with pytest.raises(ValueError, match="one relation"):
        PrivateMeasureMechanism(accountant=shared).fit(X)


@each
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (50, 1)])
def test_tiny_tables_fit(estimator, shape):
    estimator = clone(estimator)
    if getattr(estimator, "n_components", None) == 2 and shape[1] < 2:
        estimator.set_params(n_components=1)
    fitted = estimator.fit(np.full(shape, 0.25))
    assert fitted.n_features_in_ == shape[1]


@each
@pytest.mark.parametrize("epsilon", [1e-3, 1e4, 1e15])
def test_tiny_and_huge_epsilon_fit(estimator, epsilon, X):
    fitted = clone(estimator).set_params(epsilon=epsilon).fit(X)
    # A stream has spent nothing before its first block is full.
    assert fitted.accountant_.remaining == 0 or (isinstance(fitted, OnlineSynthesizer) and fitted.accountant_.spent == 0)


def test_small_samples_warn_by_public_numbers_only():
    X = np.random.default_rng(0).random((100, 2))
    with pytest.warns(SmallSampleWarning, match="n_samples \\* epsilon is 100, "):
        PrivateMeasureMechanism(epsilon=1).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallSampleWarning)
        PrivateMeasureMechanism(epsilon=1.01).fit(X)
        PrivateMeasureMechanism(epsilon=1).fit(X[:, :1])


def takes_nan(estimator):
    return estimator.__sklearn_tags__().input_tags.allow_nan


def _released(fitted):
    """The noisy numbers of a fit, as a list of arrays."""
    if isinstance(fitted, PrivatePCA):
        return [fitted.covariance_, fitted.mean_]
    if isinstance(fitted, LatentFactorSynthesizer):
        return [fitted.sample(300, random_state=0), *fitted.marginals_.values()]
    if isinstance(fitted, LowDimSynthesizer):
        return ([] if fitted.reducer_ is None else _released(fitted.reducer_)) + _released(fitted.synthesizer_)
    if isinstance(fitted, OnlineSynthesizer):
        return [fitted.sample(300, random_state=0)]
    return [fitted.measure_.cells, fitted.measure_.weights]


def _equal(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def _shape_of(fitted):
    """Names and types of the fitted attributes, and the shapes of those whose shape does not come from noisy values."""
    noisy_shapes = (PrivatePCA,) if getattr(fitted, "n_components", None) == "auto" else ()
    facts = {}
    for name, value in vars(fitted).items():
        shape = value.shape if isinstance(value, np.ndarray) and not isinstance(fitted, noisy_shapes) else None
        facts[name] = (type(value), shape)
    if isinstance(fitted, LowDimSynthesizer) and fitted.reducer_ is not None and fitted.n_components != "auto":
        facts["reducer"] = _shape_of(fitted.reducer_)
    return facts
