"""The Gram matrix of coded rows: its codes, what it is made of, and by how much one row moves it, by brute force."""

from itertools import product

import numpy as np
import pytest
from laws import ALARM, binomial

from skdpsynth.privacy import DiscreteMatrixLaplace, PrivacyLoss, SeededBits, mechanism
from skdpsynth.statistics import CodedGram, Marginals

ADD, REPLACE = "add_or_remove_one", "replace_one"
SETTINGS = [([2, 3], 1), ([2, 2, 2], 1), ([4, 2], 1), ([3, 3, 2], 1), ([2] * 6, 1), ([3, 2], 2), ([1, 3, 2], 1), ([5, 4], 2)]
each_setting = pytest.mark.parametrize(("sizes", "n_classes"), SETTINGS, ids=str)


def gram_of(sizes, n_classes=1, border=1.4, n_samples=None, bits=6):
    weights = [1 + 0.3 * (j % 2) for j in range(len(sizes))]
    return CodedGram.over(sizes, weights, border, n_classes, n_samples, bits)


def vectors(over, rows):
    """The codes of rows (of which the last is the class) beside the coordinate, and in their class alone."""
    parts = [np.full((len(rows), 1), over.coordinate), *(V[:, rows[:, j]].T for j, V in enumerate(over.codes))]
    v = np.hstack(parts)
    return np.einsum("nk,nc->nck", v, np.eye(over.n_classes, dtype=np.int64)[rows[:, -1]])


def tables_of(over, rows):
    codes, last = list(rows.T.astype(np.int64)), len(over.sizes)
    return Marginals.of(codes, [*over.sizes, over.n_classes], [(last, *pair) for pair in over.pairs])


def all_rows(over):
    return np.array(list(product(*map(range, over.sizes), range(over.n_classes))))


@pytest.mark.parametrize("size", [2, 3, 4, 5, 16, 64])
def test_codes_are_the_corners_of_a_regular_simplex_but_for_their_rounding(size):
    V = gram_of([size], border=1.0, bits=10).codes[0]
    products = np.full((size, size), -1 / (size - 1)) + np.eye(size) * (1 + 1 / (size - 1))
    np.testing.assert_allclose(V.T @ V / 2**20, products, atol=2e-3)
    assert abs(np.linalg.det(np.vstack([np.ones(size), V / 2**10]))) > 0.9


@each_setting
def test_the_matrices_are_the_sums_of_the_products_of_codes(sizes, n_classes):
    over, rng = gram_of(sizes, n_classes), np.random.default_rng(0)
    rows = np.column_stack([rng.integers(size, size=50) for size in [*sizes, n_classes]])
    v = vectors(over, rows)
    values = over.query(tables_of(over, rows), ADD).values
    np.testing.assert_array_equal(values, np.einsum("nck,ncl->ckl", v, v))


@pytest.mark.must
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@each_setting
def test_no_row_moves_the_matrices_by_more_than_is_stated_and_some_row_by_nearly_as_much(sizes, n_classes, relation):
    over = gram_of(sizes, n_classes)
    v = vectors(over, all_rows(over))
    each = np.einsum("nck,ncl->nckl", v, v)
    moves = each if relation == ADD else (each[:, None] - each).reshape(-1, *each.shape[1:])
    stated, entries = over.sensitivity(relation), np.abs(moves.reshape(len(moves), -1))
    assert entries.sum(axis=1).max() <= stated.l1
    assert (entries**2).sum(axis=1).max() <= stated.l2_squared
    assert entries.max() <= stated.sup
    nuclear = np.abs(np.linalg.eigvalsh(moves.astype(float))).sum(axis=(1, 2)).max() / float(stated.nuclear)
    assert nuclear <= 1 + 1e-12
    assert nuclear >= (1 - 1e-12 if relation == ADD or n_classes > 1 else 0.9)


def test_one_column_of_two_levels_and_no_more_than_a_touch_of_border_is_laplace_noise_on_a_count():
    over = CodedGram((2,), (1000,), 1)
    noise = mechanism(over.sensitivity(ADD), PrivacyLoss(epsilon=1), ("matrix_laplace",), over.n_rows**2).noise
    assert isinstance(noise, DiscreteMatrixLaplace)
    assert float(noise.scale) / 1000**2 == pytest.approx(1, rel=1e-5)


def test_numbers_that_do_not_fit_into_64_bits_are_refused_and_fewer_bits_have_room():
    assert gram_of([2] * 40, n_samples=1 << 40, bits=10) is None
    assert gram_of([2] * 40, n_samples=1 << 40, bits=5) is not None
    assert gram_of([64] * 8, bits=10) is not None


@pytest.mark.parametrize(("sizes", "n_classes"), [([2, 1], 1), ([2, 2], 1), ([2, 1], 2)], ids=str)
def test_draws_show_all_of_epsilon_between_the_worst_rows_where_noise_has_the_sign_of_the_change(sizes, n_classes):
    """A row comes, or goes to another class: as likely as not by exp(epsilon), in 2**(-m (m + 1) / 2) of the draws of each m x m matrix.

    There all eigenvalues of the noise have the sign of the change, and its density is exp of minus its trace. Rounding moves eigenvalues by
    at most m / 2. 60,000 seeded draws; half of the noise fails, and twice as much.
    """
    over, n, epsilon = gram_of(sizes, n_classes, bits=10), 60_000, 1.0
    sensitivity = over.sensitivity(ADD if n_classes == 1 else REPLACE)
    noise = mechanism(sensitivity, PrivacyLoss(epsilon=1), ("matrix_laplace",), over.n_rows**2).noise
    v, signs = vectors(over, all_rows(over)), np.array([1, -1])[:n_classes]
    lengths = (v**2).sum(axis=2)
    longest = v[lengths.argmax(axis=0), np.arange(n_classes)]
    assert (lengths.max(axis=0) == over.squared_length).all()
    Z = noise.sample((n, n_classes, over.n_rows, over.n_rows), SeededBits(5)) * signs[:, None, None]
    moved = np.einsum("ck,cl->ckl", longest, longest)
    shown, wrong = ((np.linalg.eigvalsh(each.astype(float)) >= over.n_rows / 2).all(axis=(1, 2)).sum() for each in (Z, Z - moved))
    chance = 2.0 ** (-n_classes * over.n_rows * (over.n_rows + 1) / 2)
    assert binomial(shown, n, chance) > ALARM
    assert binomial(wrong, n, chance * np.exp(-epsilon)) > ALARM
    assert all(binomial(wrong, n, chance * np.exp(-epsilon * factor)) < ALARM for factor in (0.5, 2))
