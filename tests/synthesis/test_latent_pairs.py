"""Which way pairs of columns are released, by public numbers."""

from fractions import Fraction
from itertools import combinations

import pytest
from internals import Pairs

from skdpsynth.privacy import DiscreteGaussian, DiscreteLaplace, PrivacyLoss, mechanism
from skdpsynth.statistics import Marginals

RELATIONS = ["replace_one", "add_or_remove_one"]
each_relation = pytest.mark.parametrize("relation", RELATIONS)


def pairs(n_columns):
    return list(combinations(range(n_columns), 2))


def chosen(sizes, share, relation="replace_one", of_columns=100.0, n_samples=1000):
    return Pairs.chosen([*sizes, 1], pairs(len(sizes)), of_columns, share, relation, n_samples)


@each_relation
def test_pairs_of_a_pure_budget_are_tables(relation):
    found = chosen([2] * 16, PrivacyLoss(epsilon=1), relation)
    assert found.over is None
    assert isinstance(found.noise.noise, DiscreteLaplace)


def test_pairs_of_no_noise_are_tables():
    assert chosen([2] * 16, PrivacyLoss(epsilon=float("inf"))).over is None


@each_relation
@pytest.mark.parametrize("gaussian", [False, True])
def test_gaussian_pairs_of_binary_columns_whose_counts_are_known_are_interactions(relation, gaussian):
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=gaussian)
    found = chosen([2] * 16, share, relation)
    tables = mechanism(Marginals.change(relation, 120), share)
    assert isinstance(found.noise.noise, DiscreteGaussian)
    assert found.over is not None
    assert found.noise.loss == share
    assert found.deviation < tables.deviation / 1.9


def test_pairs_are_tables_where_the_counts_of_columns_have_much_noise():
    """Tables tell of their columns, interactions do not."""
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=True)
    assert chosen([2, 2], share, of_columns=1e6).over is None
    assert chosen([2, 2], share, of_columns=0.01).over is not None


@each_relation
@pytest.mark.parametrize("sizes", [[2, 3, 4], [2] * 16, [16, 32, 9, 32, 2]], ids=str)
@pytest.mark.parametrize("of_columns", [1.0, 1e3, 1e6])
def test_the_way_of_less_error_is_chosen(relation, sizes, of_columns):
    share = PrivacyLoss(rho=Fraction(1, 50), gaussian=True)
    found = chosen(sizes, share, relation, of_columns)
    tables = Pairs((*sizes, 1), tuple(pairs(len(sizes))), mechanism(Marginals.change(relation, len(pairs(len(sizes)))), share))
    assert found.error(of_columns) <= tables.error(of_columns)
    assert (found.over is None) == (found.error(of_columns) == tables.error(of_columns))


def test_multipliers_are_smaller_where_the_noise_would_be_too_large_to_be_sampled():
    usual = chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 50), gaussian=True))
    found = chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 2**100), gaussian=True))
    assert found.over is not None
    assert max(found.over.multipliers) < max(usual.over.multipliers)
    assert max(found.noise.noise.scales) <= 2**58


def test_pairs_of_more_rows_than_fit_beside_multipliers_are_tables():
    assert chosen([2] * 16, PrivacyLoss(rho=Fraction(1, 50), gaussian=True), n_samples=2**61).over is None
