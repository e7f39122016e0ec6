"""Columns that are computed from others."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from skdpsynth._arrays import as_numeric_array
from skdpsynth.domain._expressions import Expression
from skdpsynth.domain._kinds import Kind, _checked_bounds
from skdpsynth.persistence import savable

expression_of = lru_cache(maxsize=256)(Expression)


@savable
@dataclass(frozen=True)
class Derived(Kind):
    """A column that is computed from others in each row: it is never synthesized and never counted, and costs nothing.

    Real cells of it are not read. In synthetic rows it is what the expression gives, so it always agrees with the other columns.

    Parameters
    ----------
    expression : str
        Arithmetic over columns: their names, numbers, ``+ - * / // % **``, and abs, sqrt, log, exp, floor, ceil, min and max of two,
        ``round(x)`` and ``round(x, digits)``. A name that is no word of Python stands in backticks, as in pandas; columns of an array
        are x0, x1 and so on. Of dates stands the number of days since 1970, of times that of seconds, of levels their numbers.
    bounds : (low, high), default=None
        Numbers to which the result is clipped. None: it is not.

    Raises
    ------
    ValueError
        If this is no such expression, or no such bounds.

    See Also
    --------
    Sum : A column that is the sum of others.
    Determines : A column that follows from levels of others.
    Schema : All columns of a table.

    Notes
    -----
    The text is parsed, and computed by this library: nothing in it runs as code, so a schema from anywhere may be opened. Where a column
    is missing, or there is no finite result (a division by 0), the cell is missing. A column of whole numbers gets the nearest one.

    Examples
    --------
    >>> from skdpsynth.domain import Derived, Schema
    >>> schema = Schema({"kg": (30.0, 200.0), "cm": (120.0, 220.0), "bmi": Derived("kg / (cm / 100) ** 2")})
    >>> list(schema.coded)
    ['kg', 'cm']
    """

    expression: str
    bounds: Any = field(default=None)

    def __post_init__(self) -> None:
        expression_of(self.expression) if isinstance(self.expression, str) else Expression(self.expression)
        if self.bounds is not None:
            if not isinstance(self.bounds, tuple | list) or len(self.bounds) != 2:
                _checked_bounds(self.bounds, None)
            object.__setattr__(self, "bounds", _checked_bounds(*self.bounds))

    @property
    def coded(self) -> None:
        """Nothing: mechanisms do not see it."""
        return None

    @property
    def parsed(self) -> Expression:
        """The expression, ready to be computed."""
        return expression_of(self.expression)

    def clipped(self, values: np.ndarray) -> np.ndarray:
        """Return values within the bounds."""
        values = as_numeric_array(values, "values", None)
        return values if self.bounds is None else np.clip(values, *self.bounds)

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it, beside its name."""
        bounds = {} if self.bounds is None else {"bounds": list(self.bounds)}
        return {"kind": "derived", "expression": self.expression, **bounds}
