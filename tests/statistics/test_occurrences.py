"""Counts of levels that nobody has listed."""

from collections import Counter
from itertools import chain, product

import numpy as np
import pytest

from skdpsynth.statistics import Change, Occurrences

RELATIONS = ["replace_one", "add_or_remove_one"]


def column(*cells):
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def tables_of(rows, n_columns):
    return Occurrences.over(range(n_columns)).of([column(*(row[j] for row in rows)) for j in range(n_columns)]).tables


def test_levels_are_counted_and_missing_cells_are_not():
    counted = Occurrences.over([1]).of([column(1, 2, 3, 4), column("b", None, "a", "b")])
    assert counted.tables == (Counter(b=2, a=1),)


def test_counts_of_parts_add_up_to_those_of_the_whole():
    rng = np.random.default_rng(0)
    cells = column(*rng.choice(["x", "y", "z", None, 7], 200).tolist())
    rule = Occurrences.over([0])
    merged = rule.of([cells[:50]]) + rule.of([cells[50:]])
    assert merged.tables == rule.of([cells]).tables
    assert rule.add(rule.of([cells[:50]]), [cells[50:]]).tables == merged.tables


def test_no_repr_shows_a_level():
    assert "secret" not in repr(Occurrences.over([0]).of([column("secret")]))


@pytest.mark.must
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_columns", [1, 2])
def test_change_is_the_largest_of_all_neighbours(relation, n_columns):
    rows = list(product(["a", "b", None], repeat=n_columns))
    worst = np.zeros(3, dtype=int)
    for kept in chain([()], ((row,) for row in rows)):
        for old, new in product(rows, repeat=2) if relation == "replace_one" else ((None, new) for new in rows):
            first, second = ([*kept, *([row] if row is not None else [])] for row in (old, new))
            moved = []
            for mine, other in zip(tables_of(first, n_columns), tables_of(second, n_columns), strict=True):
                moved += [abs(mine[level] - other[level]) for level in {*mine, *other}]
            worst = np.maximum(worst, [sum(moved), sum(m * m for m in moved), max(moved, default=0)])
    assert Change(relation, *map(int, worst)) == Occurrences.change(relation, n_columns)
