"""Counts of levels that nobody has listed."""

from collections import Counter

import numpy as np

from skdpsynth.statistics import Occurrences


def column(*cells):
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


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
