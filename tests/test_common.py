"""Laws that hold for every public estimator: those of `skdpsynth.testing`, scikit-learn's, and what a variant must be."""

import itertools

import pytest
from estimators import all_estimators, linked_variants, public_estimators, variants
from internals import difference, full_state, require_fresh_refit
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA
from skdpsynth.testing import check_synthesizer

VARIANTS = variants()
LINKED = linked_variants()  # with tables
ALL = VARIANTS | {name: estimator for name, (estimator, _) in LINKED.items()}
_MUST = {  # the promise itself: they run in every lane
    "check_what_leaves_depends_on_the_answers_alone",
    "check_large_tables_leave_what_their_answers_say",
    "check_neighbors_that_get_the_same_answers_lose_at_most_epsilon",
    "check_units_that_get_the_same_answers_lose_at_most_epsilon",
    "check_a_fit_does_not_fail_after_its_charge",
    "check_the_noise_of_every_entry_covers_its_loss",
    "check_the_ledger_sums_to_epsilon",
    "check_errors_do_not_depend_on_the_rows",
}
_OF_BOTH_RELATIONS = {  # they ask under each relation by themselves
    "check_what_leaves_depends_on_the_answers_alone",
    "check_large_tables_leave_what_their_answers_say",
    "check_rows_that_come_later_leave_the_answers_alone",
    "check_neighbors_that_get_the_same_answers_lose_at_most_epsilon",
    "check_units_that_get_the_same_answers_lose_at_most_epsilon",
    "check_a_fit_does_not_fail_after_its_charge",
    "check_the_noise_of_every_entry_covers_its_loss",
}
# Variants of a class under one relation differ in what they release: one of them is asked all laws, and the others these.
_OF_THE_RELEASE = {
    *_MUST,
    *_OF_BOTH_RELATIONS,
    "check_a_refit_leaves_nothing_of_the_fit_before",
    "check_a_saved_estimator_is_the_same_when_loaded",
    "check_noise_for_units_of_k_rows_is_k_fold",
    "check_rows_beyond_the_most_of_their_unit_change_nothing",
    "check_rows_of_other_units_decide_nothing",
}
_BY_THE_CLOCK = "check_absurd_epsilons_take_no_longer"
pytestmark = [
    pytest.mark.usefixtures("hasty"),  # what is asked here does not hang on how well models of tables fit
    pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning"),
    pytest.mark.filterwarnings("ignore:epsilon=500 is above:skdpsynth.exceptions.BudgetWarning"),
]


def has_twin(estimator):
    """Whether another variant is the same under "replace_one"."""
    if estimator.neighboring == "replace_one":
        return False
    twin = repr(clone(estimator).set_params(neighboring="replace_one"))
    return any(repr(other) == twin for other in ALL.values())


def laws():
    """(variant, law) for all that are to be run."""
    first = {(type(estimator), estimator.neighboring): name for name, estimator in reversed(ALL.items())}.values()
    for name, estimator in ALL.items():
        for _, law in check_synthesizer(estimator, LINKED[name][1] if name in LINKED else None, generate_only=True):
            if (law.__name__ in _OF_BOTH_RELATIONS and has_twin(estimator)) or not (name in first or law.__name__ in _OF_THE_RELEASE):
                continue
            mark = pytest.mark.must if law.__name__ in _MUST else pytest.mark.nightly if law.__name__ == _BY_THE_CLOCK else ()
            yield pytest.param(estimator, law, id=f"{name}-{law.__name__}", marks=mark)


@pytest.mark.parametrize(("estimator", "law"), list(laws()))
def test_law(estimator, law):
    law(estimator)


@parametrize_with_checks(
    [cls() for cls in all_estimators()]  # others take dicts of tables, which these checks do not know
    + [PrivateMeasureMechanism("optimal"), PrivateMeasureMechanism("paper"), PrivatePCA(1, center="public"), LowDimSynthesizer(1)]
    + [LatentFactorSynthesizer(strategy="scores")]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks_pass_without_expected_failures(estimator, check):
    check(estimator)


def test_every_estimator_is_checked_as_it_is_and_by_all_laws_that_are_for_it():
    """A new class needs no edit here."""
    assert {cls.__name__ for cls in public_estimators()} <= set(ALL)
    assert {"check_neighbors_that_get_the_same_answers_lose_at_most_epsilon"} < {mark.values[1].__name__ for mark in laws()}


def pairs():
    """Variants of one class, each before the next and the first after the last."""
    for cls in all_estimators():
        names = [name for name, estimator in VARIANTS.items() if type(estimator) is cls]
        yield from itertools.pairwise([*names, names[0]])


@pytest.mark.parametrize(("before", "after"), list(pairs()))
def test_a_refit_as_another_variant_leaves_nothing_of_the_first(before, after):
    require_fresh_refit(VARIANTS[before], VARIANTS[after])


@pytest.mark.filterwarnings("ignore:A clone is fitted")
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(LINKED, 2)))
def test_a_refit_to_other_linked_tables_leaves_nothing_of_the_first(before, after):
    (first, others), (second, tables) = LINKED[before], LINKED[after]
    first, second = (clone(each).set_params(random_state=0) for each in (first, second))
    expected = full_state(clone(second).fit(tables))
    first.fit(others).set_params(**second.get_params(deep=False)).fit(tables)
    assert difference(expected, full_state(first)) is None
