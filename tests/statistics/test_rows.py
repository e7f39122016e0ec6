"""The exact number of rows."""

import numpy as np
import pytest

from skdpsynth.statistics import RowCount


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 0), ("add_or_remove_one", 1)])
def test_the_number_of_rows_moves_by_one_row_only_if_one_is_added_or_removed(relation, moved):
    neighbour = RowCount(7 if relation == "replace_one" else 6)
    change = RowCount.change(relation)
    assert (change.relation, change.l1, change.l2_squared, change.sup) == (relation, moved, moved, moved)
    query = RowCount(7).query(relation)
    assert query.change == change
    assert query.values.dtype == np.int64
    assert abs(query.values - neighbour.query(relation).values).max() == moved


def test_chunks_merged_with_plus_give_the_number_of_the_whole():
    assert RowCount(3) + RowCount(4) == RowCount(7)
