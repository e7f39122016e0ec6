"""Cells as levels of a column whose levels nobody has listed."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

LONGEST_LEVEL = 100  # characters; a longer text is missing, by this public rule
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats


def level_cells(cells: Iterable[Any]) -> np.ndarray:
    """Return cells as levels: strings and whole numbers as they stand, anything else None, which is missing.

    Each cell becomes a level by itself: 3, 3.0 and numpy's 3 are the number 3, True is 1, "3" is a text. So equal cells have equal levels
    whatever other rows hold, if the reader did not choose their type by other rows; from CSV files all cells are texts. Texts of more than
    100 characters, and those that no file can hold, are missing. No cell can raise, and none is asked anything of its own.

    Parameters
    ----------
    cells : iterable
        A column.

    Returns
    -------
    levels : ndarray of object
    """
    listed = list(cells)
    levels = np.empty(len(listed), dtype=object)
    levels[:] = list(map(_level_of, listed))
    return levels


def _level_of(cell: Any) -> Any:
    kind = type(cell)
    if kind is str or kind is np.str_:
        return str(cell) if len(cell) <= LONGEST_LEVEL and (cell.isascii() or _can_be_written(cell)) else None
    if kind is int or kind is bool or (isinstance(cell, np.bool_ | np.integer) and not isinstance(cell, np.timedelta64)):
        number = int(cell)
        return number if -(2**63) <= number < 2**64 else None
    if kind is float or isinstance(cell, np.floating):
        real = float(cell)
        return int(real) if math.isfinite(real) and real.is_integer() and abs(real) <= _MOST_WHOLE else None
    return None


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
