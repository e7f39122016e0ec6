"""The page of the privacy contract says what is released, and by how much a row moves it."""

import warnings

import numpy as np
import pytest
from extensions import extension
from internals import Roots, fixed_bits, use_roots, watch_releases, worst_neighbors
from sklearn.base import BaseEstimator, clone

import skdpsynth
from skdpsynth.fitting import PrivateEstimator
from skdpsynth.model_selection import PrivateSearchCV
from skdpsynth.statistics import Histogram, Marginals

contract = extension("contract")
SETTINGS = [(cls, said, estimator) for cls, named in contract.settings().items() for said, estimator in named.items()]
CASES = [
    pytest.param(estimator, relation, id=f"{cls}-{said}-{relation}") for cls, said, estimator in SETTINGS for relation in contract.RELATIONS
]


@pytest.fixture(scope="module")
def page():
    return contract.page()


def test_every_public_estimator_has_a_contract():
    public = [getattr(skdpsynth, name) for name in skdpsynth.__all__]
    estimators = {thing for thing in [*public, PrivateSearchCV] if isinstance(thing, type) and issubclass(thing, PrivateEstimator)}
    assert {cls.__name__ for cls in estimators} == set(contract.settings())
    assert all(issubclass(cls, BaseEstimator) for cls in estimators)


@pytest.mark.parametrize(("cls", "said"), [(cls, said) for cls, said, _ in SETTINGS])
def test_every_setting_has_a_table_for_each_relation_or_says_why_not(page, cls, said):
    part = page.split(f"## {cls}\n", 1)[1].split("\n## ", 1)[0]
    if said != "as it is":
        part = part.split(f"### {cls}, {said.replace('`', '')}\n", 1)[1].split("\n### ", 1)[0]
    for relation in contract.SAID.values():
        text = part.split(f"**{relation}, δ = 0**", 1)[1].split("\n**", 1)[0]
        assert "\n| release |" in text or ": refused." in text


@pytest.mark.parametrize(("estimator", "relation"), CASES)
def test_every_release_names_who_states_its_change_and_all_cost_epsilon_where_they_see_the_same_rows(estimator, relation):
    found = contract.releases(estimator, relation, 0.0)
    assert found
    assert [release.entry.name for release in found if release.statistic is None or release.entry.sensitivity is None] == []
    assert any(release.account for release in found) or sum(release.entry.loss.epsilon for release in found) == 1


def neighbors(table, relation):
    """Tables that differ from one in one row: a corner of the box in place of another, or gone."""
    if isinstance(table, dict):
        with use_roots(Roots.of(contract.LINKED, contract.TABLES)):
            yield from worst_neighbors(relation, 200)[1]
        return
    if relation == "add_or_remove_one":
        yield np.delete(table, 7, axis=0)
        yield np.delete(table, np.argmax(table.sum(axis=1)), axis=0)
        return
    for corner in (0.0, 1.0):
        other = table.copy()
        other[7] = corner
        yield other


def first_table(estimator, relation):
    if not hasattr(estimator, "links"):
        return contract.table_for(estimator)
    with use_roots(Roots.of(estimator, contract.TABLES)):
        return worst_neighbors(relation, 200)[0]


# A search refits what it chose, and the choice is not one of the answers that come out again.
REPLAYED = [case for case in CASES if not isinstance(case.values[0], PrivateSearchCV)]


@pytest.mark.parametrize(("estimator", "relation"), REPLAYED)
def test_no_neighbor_moves_a_release_by_more_than_its_change(estimator, relation):
    """The answers of the first fit come out again, so that later steps ask the same of both tables."""
    table = first_table(estimator, relation)
    fit = contract._set(clone(estimator), relation, 0.0).fit
    with warnings.catch_warnings(), watch_releases() as door, fixed_bits():
        warnings.simplefilter("ignore")
        fit(table)
        first = door.take()
        for other in neighbors(table, relation):
            door.replay(first)
            fit(other)
            for before, after in zip(first, door.take(), strict=True):
                if before.sensitivity is not None:
                    moved = np.abs(before.values - after.values).astype(object)
                    assert moved.sum() <= before.sensitivity.l1
                    assert (moved**2).sum() <= before.sensitivity.l2_squared
                    assert moved.max(initial=0) <= before.sensitivity.sup


@pytest.mark.parametrize(("relation", "changed"), [("replace_one", 2), ("add_or_remove_one", 1)])
def test_changes_are_those_that_the_statistics_state(relation, changed):
    cells = contract.releases(skdpsynth.SignedMeasureMechanism(), relation, 0.0)[-1]
    assert (cells.entry.sensitivity, cells.entry.sensitivity.l1) == (Histogram.sensitivity(relation), changed)
    pairs = contract.releases(skdpsynth.LatentFactorSynthesizer(), relation, 0.0)[-1]
    assert pairs.entry.sensitivity == Marginals.sensitivity(relation, 3)  # of three columns
    assert contract.method_of(pairs.statistic) == "Marginals.sensitivity"


def test_every_row_of_a_table_fills_the_columns_of_its_head_and_every_link_has_its_place(page):
    lines = [line for line in page.splitlines() if line.startswith("|") and not line.startswith("|-")]
    assert {line.count(" | ") for line in lines if "z^T" not in line and "|z|" not in line} == {contract.HEAD[0].count(" | ")}
    assert all("= " in line.rpartition(" | ")[2] for line in lines if not line.startswith("| release") and not line.startswith("|z|"))
    linked = {part.split(")")[0] for part in page.split("](#")[1:]}
    assert linked
    assert all(f"({anchor})=" in page for anchor in linked)


def test_numbers_of_levels_are_left_open():
    assert (contract.spoken("rows 16 to 31"), contract.span([2.0, 2.0])) == ("rows *i* to *j*", "2")
    assert (contract.span([1.0, 3.0]), contract.span([1.3107e6])) == ("1 to 3", "1.31e6")
    assert contract.span([6.4e10]) == "6.40e10"
