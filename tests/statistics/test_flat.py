"""Statistics as vectors: there and back, and added modulo 2**64."""

import numpy as np
import pytest
from test_totals import SUMS, X

EACH = pytest.mark.parametrize("name", SUMS)


def halves(name):
    """The rule, and the statistics of two parts of the rows."""
    change, rule, _ = SUMS[name]
    return rule, *(rule.of(part if change is None else change(part)) for part in (X[:300], X[300:]))


@EACH
def test_a_vector_becomes_the_statistic_that_it_was(name):
    rule, one, _ = halves(name)
    again = rule.from_flat(one.flat)
    assert type(again) is type(one)
    assert one.flat.dtype == np.int64
    assert len(one.flat) == rule.n_values
    assert np.array_equal(again.flat, one.flat)
    assert [np.asarray(n).tolist() for n in SUMS[name][2](again)] == [np.asarray(n).tolist() for n in SUMS[name][2](one)]


@EACH
def test_vectors_add_up_as_statistics_do(name):
    rule, one, other = halves(name)
    change = SUMS[name][0]
    whole = rule.of(X if change is None else change(X))
    assert np.array_equal((one + other).flat, whole.flat)
    assert np.array_equal(one.flat + other.flat, whole.flat)


@EACH
def test_shares_that_are_noise_add_up_modulo_two_to_the_64(name):
    rule, one, other = halves(name)
    mask = np.random.default_rng(0).integers(0, 2**64, rule.n_values, dtype=np.uint64)
    shares = one.flat.view(np.uint64) + mask, other.flat.view(np.uint64) - mask
    assert np.array_equal(rule.from_flat(sum(shares).view(np.int64)).flat, (one + other).flat)


@EACH
@pytest.mark.parametrize("wrong", [lambda v: v[1:], lambda v: v.astype(float), lambda v: v.view(np.uint64), lambda v: v[None]])
def test_what_is_no_vector_of_the_rule_is_refused(name, wrong):
    rule, one, _ = halves(name)
    with pytest.raises(ValueError, match="values must be a vector of"):
        rule.from_flat(wrong(one.flat))
