"""Log-linear laws of histories: drawn rows against enumeration, and fits against a known Markov chain."""

from itertools import combinations, product

import numpy as np
import pytest
from internals import _rake_stays
from laws import ALARM, CERTAIN, chi_squared

from skdpsynth.models import BlockTables, HistoryFactors, LatentFactors
from skdpsynth.persistence import from_bytes, to_bytes

GROUPS, MOST, LEVELS, MARKS, NTH = (
    2,
    4,
    3,
    2,
    3,
)  # of the parent: a group and the number of rows; of a row: a level, which row it is, a mark
NTH_CODES = np.array([0, 1, 2])
SIZES = (GROUPS, MOST + 1, *(2 * (LEVELS + 1, NTH + 1, MARKS + 1)))
OF_GROUP, OF_BEFORE = np.array([[0.5, 0, 0], [-0.5, 0, 1]]), np.array([[1.5, 0, -0.5], [0, 1.5, 0], [-0.5, 0, 1.5]])
FIRST = np.exp(OF_GROUP + np.array([1, 0, -1]))  # law of the level of the first row, by group
FIRST /= FIRST.sum(axis=1, keepdims=True)
NEXT = np.exp(OF_GROUP[:, None] + OF_BEFORE)
NEXT /= NEXT.sum(axis=2, keepdims=True)
MARK = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])  # by level
NUMBERS = np.array([[0.2, 0.3, 0.2, 0.2, 0.1], [0.05, 0.1, 0.15, 0.3, 0.4]])


def levels_of(group, turn):
    return FIRST[group] @ np.linalg.matrix_power(NEXT[group], turn)


def tables_of_chain(n=100_000):
    """Return the tables of a root that is the mean of its pairs of consecutive rows, cell by cell."""
    joint = np.zeros(SIZES)
    for group, k in product(range(GROUPS), range(MOST + 1)):
        mass = [0.55, 0.45][group] * NUMBERS[group, k]
        if k == 0:
            joint[group, k, LEVELS, NTH, MARKS, LEVELS, NTH, MARKS] += mass
        if k == 1:
            joint[group, k, :LEVELS, 0, :MARKS, LEVELS, NTH, MARKS] += mass * levels_of(group, 0)[:, None] * MARK
        for turn in range(k - 1):
            both = levels_of(group, turn)[:, None] * NEXT[group]
            cells = both[:, None, :, None] * MARK[:, :, None, None] * MARK[None, None]
            joint[group, k, :LEVELS, NTH_CODES[min(turn, 2)], :MARKS, :LEVELS, NTH_CODES[min(turn + 1, 2)], :MARKS] += (
                mass * cells / (k - 1)
            )
    assert joint.sum() == pytest.approx(1)

    def margin(*kept):
        return n * joint.sum(axis=tuple(set(range(len(SIZES))) - set(kept)))[None]

    pairs = {pair: margin(*pair) for pair in combinations(range(len(SIZES)), 2)}
    return BlockTables([margin(i) for i in range(len(SIZES))], pairs, np.array([float(n)]), (1.0, 1.0))


def a_model(seed=0):
    """Of random effects: 0 where there is nothing before a row, and of a column on those that are drawn before it."""
    rng = np.random.default_rng(seed)
    n_codes, rows = sum(SIZES), LEVELS + MARKS
    factors = LatentFactors(
        np.array(SIZES), rng.standard_normal((8, 2)), np.zeros((1, 1, n_codes)), rng.standard_normal((1, 1, n_codes, 2))
    )
    effects, starts = rng.standard_normal((n_codes, rows)).astype(np.float32), np.cumsum(SIZES) - SIZES
    effects[starts[5] : starts[6], :LEVELS] = effects[starts[7] :] = 0
    return HistoryFactors(factors, 2, 1, NTH_CODES, effects)


def law_of_row(model, parent, before, turn):
    """Return P(level, mark), one column and one code after the other."""
    starts, T = (np.cumsum(SIZES) - SIZES).tolist(), model.effects.astype(float)
    known = [starts[0] + parent[0], starts[1] + parent[1], starts[6] + NTH_CODES[min(turn, 2)]]
    known += [starts[2 + place] + code for place, code in enumerate(before)]
    law = np.zeros((LEVELS, MARKS))
    for level in range(LEVELS):
        of_levels = np.exp([sum(T[place, other] for place in known) for other in range(LEVELS)])
        of_marks = np.exp([sum(T[place, LEVELS + mark] for place in [*known, starts[5] + level]) for mark in range(MARKS)])
        law[level] = of_levels[level] / of_levels.sum() * of_marks / of_marks.sum()
    return law


def test_rows_are_drawn_by_the_stated_law_given_the_parent_and_the_row_before():
    model, parent, n = a_model(), (1, 3), 60_000
    rows = model.draw_rows(np.repeat([[each] for each in parent], n, axis=1), np.full(n, 3), np.random.default_rng(1)).reshape(3, n, 3)
    np.testing.assert_array_equal(rows[1], np.tile(NTH_CODES[:3], (n, 1)))
    observed = np.zeros((LEVELS, MARKS) * 3)
    np.add.at(observed, tuple(rows[place, :, turn] for turn in range(3) for place in (0, 2)), 1)
    expected, without = np.zeros_like(observed), np.zeros_like(observed)
    gone = (LEVELS, NTH, MARKS)
    first = law_of_row(model, parent, gone, 0)
    for level, mark in product(range(LEVELS), range(MARKS)):
        second = law_of_row(model, parent, (level, 0, mark), 1)
        for other, beside in product(range(LEVELS), range(MARKS)):
            third = law_of_row(model, parent, (other, 1, beside), 2)
            expected[level, mark, other, beside] = first[level, mark] * second[other, beside] * third
            without[level, mark, other, beside] = (
                first[level, mark] * second[other, beside] * law_of_row(model, parent, (level, 1, mark), 2)
            )
    assert chi_squared(observed, expected) > ALARM
    assert chi_squared(observed, without) < CERTAIN


def test_each_parent_has_as_many_rows_as_it_is_said():
    model, counts = a_model(), np.array([2, 0, 1, 4, 0])
    rows = model.draw_rows(np.zeros((2, 5), dtype=np.int64), counts, np.random.default_rng(0))
    assert rows[1].tolist() == [0, 1, 0, 0, 1, 2, 2]
    assert model.draw_rows(np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.int64), np.random.default_rng(0)).shape == (3, 0)


@pytest.mark.all_fits
def test_a_fit_without_noise_follows_a_markov_chain_to_its_last_row():
    """Where the tables are exact, so are laws of late rows, which pairs weigh least: far nearer than if each were the mean of all."""
    tables, rng = tables_of_chain(), np.random.default_rng(2)
    model = HistoryFactors.of(tables, LatentFactors.of(tables, 4), 2, 1, NTH_CODES, 1, 0)
    parents = np.repeat([[0, 1], [MOST, MOST]], 50_000, axis=1)
    rows = model.draw_rows(parents, parents[1], rng).reshape(3, -1, MOST)
    for group, turn in product(range(GROUPS), range(MOST)):
        level, _, mark = rows[:, parents[0] == group, turn]
        found = np.bincount(level * MARKS + mark, minlength=LEVELS * MARKS).reshape(LEVELS, MARKS) / 50_000
        wanted = levels_of(group, turn)[:, None] * MARK
        assert np.abs(found - wanted).sum() / 2 < 0.04
        if turn in (0, MOST - 1):
            mean = np.mean([levels_of(group, each) for each in range(MOST)], axis=0)[:, None] * MARK
            assert np.abs(mean - wanted).sum() / 2 > 0.07
    before, after = rows[0, :, 2], rows[0, :, 3]
    for group in range(GROUPS):
        here = parents[0] == group
        found = np.bincount(before[here] * LEVELS + after[here], minlength=LEVELS**2).reshape(LEVELS, LEVELS) / 50_000
        assert np.abs(found - levels_of(group, 2)[:, None] * NEXT[group]).sum() / 2 < 0.07


def test_raking_gives_codes_that_stay_their_share_and_leaves_the_margins():
    table = np.random.default_rng(0).random((5, 5)) + 0.5
    table += table.T
    for share in (0.1, 0.5, 0.9):
        wanted = share * table[:-1, :-1].sum()
        raked = _rake_stays(table, wanted)
        np.testing.assert_allclose(raked.sum(axis=0), table.sum(axis=0), rtol=1e-6)
        np.testing.assert_allclose(raked.sum(axis=1), table.sum(axis=1), rtol=0.02)
        assert raked[:-1, :-1].trace() == pytest.approx(wanted, rel=0.05)
        odds = np.delete(raked[:-1, :-1] / table[:-1, :-1], 0, axis=0)  # rows and columns are scaled, and the diagonal beside
        assert odds[0, 0] * odds[1, 3] == pytest.approx(odds[0, 3] * odds[1, 0])
    assert (_rake_stays(table, 99.0) > 0).all()


def test_a_model_from_a_file_draws_the_same_rows():
    model = a_model()
    loaded, parents = from_bytes(to_bytes(model)), np.ones((2, 50), dtype=np.int64)
    rows = [each.draw_rows(parents, parents[0] * 3, np.random.default_rng(4)) for each in (model, loaded)]
    np.testing.assert_array_equal(*rows)
