"""Points inside rectangular cells."""

import numpy as np

_ROWS = 1 << 15  # rows placed at a time: the scratch stays in cache


def place_points(box, corners, sides, levels, which, order, rng, spread):
    """Place one point a row in cells of a box, evenly spread or at random; whole-number features get whole numbers.

    Parameters
    ----------
    box : Box
    corners : ndarray of shape (n_features, n_cells), float
        Lower corners, in sides of the cell's level. **Overwritten**.
    sides : ndarray of shape (n_features, n_levels)
        Side lengths of the cells of each level.
    levels : ndarray of shape (n_cells,), int
    which : ndarray of shape (n_samples,), int
        The index of each row's cell.
    order : ndarray of shape (n_samples,), int
        A numbering of the rows in which those of one cell follow each other: they are spread evenly.
    rng : numpy.random.Generator
    spread : bool

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    """
    choices = {}  # of whole numbers in a cell
    for axis in range(box.n_features):
        side = np.take(sides[axis], levels)
        if box.whole[axis]:
            corners[axis], choices[axis] = _whole_numbers(box, axis, corners[axis], side)
        else:
            corners[axis] *= side
            corners[axis] += box.low[axis]
    steps, shifts = _kronecker_steps(box.n_features), rng.integers(2**32, size=box.n_features, dtype=np.uint32)
    X = np.empty((len(which), box.n_features))
    for start in range(0, len(X), _ROWS):
        rows = slice(start, start + _ROWS)
        cell, number = which[rows], order[rows].astype(np.uint32)
        level = np.take(levels, cell, mode="wrap")
        for axis in range(box.n_features):
            if spread:
                # A Kronecker sequence modulo 2**32 under one random shift: any run of it is evenly spread.
                offset = (number * steps[axis] + shifts[axis]) * 2.0**-32
            else:
                offset = rng.random(len(cell))
            if axis in choices:
                offset = np.floor(offset * np.take(choices[axis], cell, mode="wrap"))
            else:
                offset *= np.take(sides[axis], level, mode="wrap")
            offset += np.take(corners[axis], cell, mode="wrap")
            np.minimum(offset, box.high[axis], out=X[rows, axis])
    return X


def _whole_numbers(box, axis, coordinate, side):
    """Return the first whole number of each cell of an axis and how many it has (none: the nearest to its middle, and 1).

    A number is of the cell that `Box.column_steps` says it is in, whatever the rounding.
    """
    low, high = box.low[axis], box.high[axis]
    parts = np.rint(box.width[axis] / side)
    bottom, top = np.ceil(low), np.floor(high)

    def first(cell):
        """Smallest whole number within bounds whose cell is at least `cell` (none: one more than the largest)."""
        number = np.ceil(low + cell * side)
        for shift in (-1, 1):  # rounding may be off by one either way
            step = np.floor((number + min(shift, 0) - low) * (parts / box.width[axis]))
            number = np.where(step >= cell, number - 1, number) if shift < 0 else np.where(step < cell, number + 1, number)
        return np.where(cell >= parts, top + 1, np.clip(number, bottom, top + 1))

    start = first(coordinate)
    count = first(coordinate + 1) - start
    nearest = np.clip(np.rint(low + (coordinate + 0.5) * side), bottom, top)
    return np.where(count > 0, start, nearest), np.maximum(count, 1)


def _kronecker_steps(n_axes):
    """Steps of the R_d sequence, modulo 2**32: 1/g, 1/g**2, ... with g**(d+1) = g + 1.

    Source: M. Roberts (2018), the generalised golden ratio.
    """
    g = 2.0
    for _ in range(60):
        g = (1 + g) ** (1 / (n_axes + 1))
    return (g ** -np.arange(1.0, n_axes + 1) * 2.0**32).astype(np.uint32)
