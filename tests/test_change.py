"""By how much one row moves exact integers."""

from fractions import Fraction

import numpy as np
import pytest
from internals import count_sensitivity
from laws import refuses

from skdpsynth.statistics import Query, Sensitivity


def test_numbers_that_no_move_has_and_unknown_relations_are_refused():
    for numbers in ((1, 1, 2), (1, 0.5, 1), (-1, 1, 0), (1, 3, -1), (0, 0, 1), (100, 1, 1), (0.5, 0.5, 0.5)):
        with pytest.raises(ValueError, match=r"A change of whole numbers has sup <= l1 <= l2_squared, .*, got .*; derive it again"):
            Sensitivity("replace_one", *numbers)
    for relation in ("swap", None):
        refuses(ValueError, "relation must be one of", Sensitivity, relation, 1, 1, 1)


def test_a_change_holds_exact_fractions():
    sensitivity = Sensitivity("replace_one", np.int64(2), 2, Fraction(1))
    assert all(type(number) is Fraction for number in (sensitivity.l1, sensitivity.l2_squared, sensitivity.sup))


@pytest.mark.parametrize(("relation", "changed"), [("replace_one", 2), ("add_or_remove_one", 1)])
def test_a_row_in_one_cell_of_each_table_moves_one_or_two_counts_of_each_by_one(relation, changed):
    for n_tables in (1, 3):
        assert count_sensitivity(relation, n_tables) == Sensitivity(relation, changed * n_tables, changed * n_tables, 1)
    assert count_sensitivity(relation, 0).sup == 0


def test_a_query_never_shows_its_values():
    query = Query(np.array([918273, 645]), count_sensitivity("replace_one"))
    assert "918273" not in repr(query)
    assert "2 values" in repr(query)
