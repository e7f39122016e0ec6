"""How far tables of counts are from tables that were expected of them."""

from collections.abc import Sequence

import numpy as np

from skdpsynth._sensitivity import Query, Sensitivity, statistic_facts
from skdpsynth.statistics._marginals import Marginals


def distances(exact: Marginals, expected: Sequence[np.ndarray], relation: str) -> Query:
    """Return the sum of absolute differences of each table from what was expected, with their change.

    Parameters
    ----------
    exact : Marginals
    expected : sequence of ndarray of int64
        Of the shapes of its tables, made of what was released before: a neighbor has the same.
    relation : str
    """
    pairs = zip(exact.tables(), expected, strict=True)
    return Query(np.array([np.abs(table - guess).sum() for table, guess in pairs], dtype=np.int64), sensitivity(relation, len(expected)))


def sensitivity(relation: str, n_tables: int) -> Sensitivity:
    """Return by how much one row moves the distances of so many tables: a public fact.

    By the triangle inequality a distance moves by no more than its table does, in the sum of absolute changes. Adding or removing a row
    moves one count of each table by 1. Replacing it moves two: a distance moves by 2, as where a row leaves a cell that has too few for
    one that has too many. All tables may do so at once.
    """
    most = 2 if relation == "replace_one" else 1
    told = statistic_facts("distances", tables=n_tables)
    return Sensitivity(relation, most * n_tables, most**2 * n_tables, min(most, most * n_tables), statistic=told)
