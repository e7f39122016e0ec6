"""Kinds of columns that hold dates and times."""

import datetime
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from skdpsynth._validation import short_repr
from skdpsynth.domain._kinds import Bounded, Continuous, bounds_repr
from skdpsynth.persistence import savable

_MOST_UNITS = 2**53  # whole numbers beyond it are not all floats
_EPOCH = datetime.datetime(1970, 1, 1)
_HOUR = 3_600_000_000
MICROSECONDS = {"day": 24 * _HOUR, "hour": _HOUR, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}


@dataclass(frozen=True, repr=False)
class Times(Bounded):
    """Dates or times within bounds; mechanisms see whole numbers that count from the lower one."""

    low: Any = None
    high: Any = None
    nullable: Any = field(default=None, kw_only=True)
    bounds: Any = field(default=None, kw_only=True)
    missing: Any = field(default=(), kw_only=True)

    resolution: ClassVar[Any] = "day"

    def __post_init__(self) -> None:
        self._check_missing()
        object.__setattr__(self, "missing", tuple(map(str, self.missing)))
        if self._check_word():
            return
        low, high = _moment(self.low, self), _moment(self.high, self)
        if (low.tzinfo is None) != (high.tzinfo is None):
            raise ValueError(f"bounds must both have a time zone or neither, got {_pair(self)}; write the offset in both.")
        if not 0 < self.units_since_1970(high) - self.units_since_1970(low) <= _MOST_UNITS:
            raise ValueError(
                f"bounds must be two times with low < high, at most 2**53 {self.resolution}s apart, got {_pair(self)}; swap or correct "
                "them, or take a coarser resolution."
            )
        for name, moment in (("low", low), ("high", high)):
            begin = self.begin_of_unit(moment)
            object.__setattr__(self, name, begin.date() if isinstance(self, Date) else begin)

    @property
    def _unit(self) -> datetime.timedelta:
        return datetime.timedelta(microseconds=MICROSECONDS[self.resolution])

    def units_since_1970(self, moment: datetime.datetime) -> int:
        """Return how many units of the resolution lie between 1970 (of UTC, where there are zones) and the one that a time is in."""
        return (moment.replace(tzinfo=None) - _EPOCH) // self._unit

    def begin_of_unit(self, moment: datetime.datetime) -> datetime.datetime:
        """Return the beginning of the unit that a time is in."""
        return _EPOCH.replace(tzinfo=moment.tzinfo) + self.units_since_1970(moment) * self._unit

    @property
    def first(self) -> int:
        """The lower bound, in units of the resolution since 1970."""
        return units_of_moment(self.low, self)

    @property
    def zone(self) -> Any:
        """UTC where the bounds have a time zone, else None."""
        return getattr(self.low, "tzinfo", None)

    @property
    def coded(self) -> Continuous:
        """The whole numbers that mechanisms see: units of the resolution since the lower bound."""
        if self.bounds is not None:
            return Continuous(integer=True, nullable=self.nullable, bounds=self.bounds)
        return Continuous(0, units_of_moment(self.high, self) - self.first, integer=True, nullable=self.nullable)

    def _in_file(self, bound: Any) -> Any:
        return bound.isoformat()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), **({} if self.bounds else {"low": self.low.isoformat(), "high": self.high.isoformat()})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(type(self)(**state).__dict__)


@savable
@dataclass(frozen=True, repr=False)
class Date(Times):
    """A column of dates within public bounds.

    Its cells may be dates or times (whose date counts), objects that are dates, or text in ISO format ("2024-03-31"), as a CSV file has
    it; they come back in their dtype. A column with a time zone needs `DateTime`.

    Parameters
    ----------
    low, high : date, str in ISO format, datetime64 or Timestamp, default=None
        Public bounds, ``low < high``. Dates outside are clipped.
    nullable : bool, default=None
        Whether cells may be missing. If not, one that is missing, or no date, counts as the midpoint. None: yes, if `missing` is given.
    missing : list of str or date, default=()
        Dates that stand for a missing cell, such as "1900-01-01". Texts that are no date do so anyway.
    bounds : {None, "private", "open"}, default=None
        In place of `low` and `high`: see `Continuous`.

    Raises
    ------
    ValueError
        If the bounds are not two dates in order.

    See Also
    --------
    DateTime : A column of times.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Date
    >>> Date("2015-01-01", "2024-12-31")
    Date(low='2015-01-01', high='2024-12-31', nullable=False)
    """


@savable
@dataclass(frozen=True, repr=False)
class DateTime(Times):
    """A column of times within public bounds, to a public resolution.

    Its cells may be times or dates, objects that are either, or text in ISO format ("2024-03-31 14:05:00"), as a CSV file has it; they
    come back in their dtype. Times are cut to the resolution, never rounded up.

    Parameters
    ----------
    low, high : datetime, str in ISO format, datetime64 or Timestamp, default=None
        Public bounds, ``low < high``. Times outside are clipped. A bound without a time of day is midnight. Bounds with a time zone are
        for columns with one, which are read in UTC and come back in their own zone; bounds without are for columns without.
    nullable : bool, default=None
        Whether cells may be missing. If not, one that is missing, or no time, counts as the midpoint. None: yes, if `missing` is given.
    missing : list of str or date, default=()
        Times that stand for a missing cell, such as "1900-01-01". Texts that are no time do so anyway.
    bounds : {None, "private", "open"}, default=None
        In place of `low` and `high`: see `Continuous`.
    resolution : {"second", "day", "hour", "minute", "millisecond", "microsecond"}, default="second"
        The unit in which times are counted. The coarser, the less is lost to noise.

    Raises
    ------
    ValueError
        If the bounds are not two times in order, both with a zone or both without, or `resolution` is none of those.

    See Also
    --------
    Date : A column of dates.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import DateTime
    >>> DateTime("2024-01-01", "2024-12-31T23:59", resolution="minute")
    DateTime(low='2024-01-01T00:00:00', high='2024-12-31T23:59:00', nullable=False, resolution='minute')
    """

    resolution: Any = field(default="second", kw_only=True)  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not isinstance(self.resolution, str) or self.resolution not in MICROSECONDS:
            raise ValueError(f"resolution must be one of {', '.join(map(repr, MICROSECONDS))}, got {short_repr(self.resolution)}.")
        super().__post_init__()


def _pair(kind: Times) -> str:
    """Return how a message shows bounds, which are public."""
    ends = (bound.isoformat() if isinstance(bound, datetime.date) else bound for bound in (kind.low, kind.high))
    return bounds_repr(*(str(bound) if isinstance(bound, np.datetime64) else bound for bound in ends))


def _moment(bound: Any, kind: Times) -> datetime.datetime:
    """Return a bound as a time, in UTC if it has a zone."""
    try:
        moment = read_moment(bound)
    except Exception:  # also of the caller's own objects
        moment = None
    if moment is None:
        raise ValueError(
            f"bounds must be two dates or times (low, high), such as '2020-01-31', got {_pair(kind)}; they are public facts, never "
            "learned from rows."
        )
    if moment.tzinfo is None:
        return moment
    if isinstance(kind, Date):
        raise ValueError(f"bounds of dates must have no time zone, got {_pair(kind)}; use DateTime for a column that has one.")
    return moment.astimezone(datetime.UTC)


def units_of_moment(moment: Any, kind: Times) -> int:
    """Return a date or time, as bounds are given, in units of the resolution since 1970."""
    return kind.units_since_1970(_moment(moment, kind))


def read_moment(bound: Any) -> datetime.datetime | None:
    """Return a date or time, as bounds are given, as a datetime; None if it is none."""
    if isinstance(bound, np.datetime64):
        bound = bound.astype("datetime64[us]").item()
    if isinstance(bound, str):
        bound = datetime.datetime.fromisoformat(bound)
    if hasattr(bound, "to_pydatetime"):
        bound = bound.to_pydatetime(warn=False)
    if isinstance(bound, datetime.datetime):
        return bound if bound == bound else None  # NaT is a datetime, and equals nothing
    return datetime.datetime.combine(bound, datetime.time()) if isinstance(bound, datetime.date) else None
