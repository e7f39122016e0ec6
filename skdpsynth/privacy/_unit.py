"""The unit of privacy: a row, or all rows of one label."""

from collections.abc import Iterable
from dataclasses import dataclass

from skdpsynth._validation import is_integer, short_repr
from skdpsynth.persistence import savable


@savable
@dataclass(frozen=True)
class Unit:
    """The unit of privacy: whoever a label stands for, with at most so many rows.

    Neighbors differ in the rows of one unit. Under "replace_one" they are replaced by as many others, and how many rows each unit has is
    public; under "add_or_remove_one" a unit comes or goes with all its rows.

    Parameters
    ----------
    name : str
        Of the column of labels, or what they are; it is public.
    rows : int
        The most rows of one unit that any sum counts.

    See Also
    --------
    PrivacyAccountant : Protects units where it is given one.
    Sensitivity : How far one row moves a statistic; `multiply_bounds` says how far a unit does.

    Examples
    --------
    >>> from skdpsynth.privacy import Unit
    >>> print(Unit("patient_id", 5))
    patient_id, at most 5 rows
    """

    name: str
    rows: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name must be a string that says what the labels are, got {short_repr(self.name)}; 'patient_id' for example.")
        if not is_integer(self.rows, 1):
            raise ValueError(f"rows must be a positive integer, got {short_repr(self.rows)}; it is the most rows that one unit may have.")
        object.__setattr__(self, "rows", int(self.rows))

    def __str__(self) -> str:
        return f"{self.name}, at most {self.rows} row{'s' * (self.rows > 1)}"


LONE_ROW = "row that is the only one of its unit"


def common_unit(units: Iterable[str | None]) -> str | None:
    """Return the unit that all of some entries protect, in words; None: the row.

    Where units differ, that is a row whose unit has no other: with it its unit comes, goes or is replaced. If a unit has more rows than
    count, one row that goes lets another count in its place: under "add_or_remove_one" two rows that count differ, and noise for one row
    loses twice its epsilon.
    """
    all_units = set(units)
    return all_units.pop() if len(all_units) == 1 else LONE_ROW


def check_unit(unit: Unit | None, within: Unit | None = None) -> Unit | None:
    if unit is not None and not isinstance(unit, Unit):
        raise TypeError(f"unit must be None or a Unit, got {short_repr(unit)}; give skdpsynth.privacy.Unit(name, rows).")
    if within is not None and unit not in (None, within):
        raise ValueError(f"unit must be that of the whole account, {within}, got {unit}; open an account of its own.")
    return within if unit is None else unit
