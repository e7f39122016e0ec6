"""Kinds of columns that hold dates, times of day and durations, and the forms in which text holds these.

Forms are codes of strptime, read and written alike in every locale.
"""

import datetime
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._kinds import Bounded, Continuous, bounds_repr
from skdpsynth.frames import Cell
from skdpsynth.persistence import savable

HOUR, DAY = 3_600_000_000, 86_400_000_000  # microseconds
_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
_CODES = {  # how each is read and written; m and d with a minus as in "%-d" are written without a leading zero
    **{"Y": ("[0-9]{4}", "%04d"), "q": ("[1-4]", "%d"), "f": ("[0-9]{1,6}", "%06d"), "H": ("[0-9]{1,3}", "%02d")},
    **dict.fromkeys("ymdIMS", ("[0-9]{1,2}", "%02d")),
    **dict.fromkeys(("-m", "-d"), ("[0-9]{1,2}", "%d")),
    **{"B": ("|".join(_MONTHS), "%s"), "b": ("|".join(month[:3] for month in _MONTHS), "%s"), "p": ("AM|PM", "%s")},
    "z": ("Z|[+-][0-9]{2}:?[0-9]{2}", "%s"),
}
_NAMES = {  # of people who know no codes
    **{"yyyy": "%Y", "yy": "%y", "mm": "%m", "m": "%-m", "dd": "%d", "d": "%-d", "q": "%q", "qq": "Q%q"},
    **{"hh:mm:ss": "%H:%M:%S", "hh:mm": "%H:%M", "hhmmss": "%H%M%S", "hhmm": "%H%M"},
}
_NAMED = re.compile("hh:?mm(?::?ss)?|y+|m+|d+|q+", re.IGNORECASE)
_CLOCK = r"(?P<hours>\d{1,4}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
_SIZES = {"w": 7 * DAY, "d": DAY, "h": HOUR, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}
_WORD = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|[wdhms])[a-z]*", re.IGNORECASE)
_WORDS = r"(?:weeks?|w|days?|d|hours?|h|minutes?|mins?|m|seconds?|secs?|s|ms|us)"
_TIME_OF_DAY = re.compile(_CLOCK)
_DURATION = re.compile(
    rf"(?!\W*P[^T]*M)(?P<sign>[+-]?)P?(?P<words>(?:T?\d+(?:\.\d+)?\s*{_WORDS}[,\s]*)*)(?:(?P<sign2>[+-]?){_CLOCK})?", re.IGNORECASE
)
_MOST_UNITS = 2**53  # whole numbers beyond it are not all floats
_EPOCH, _MIDNIGHT, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.time(), datetime.timedelta(microseconds=1)
# Microseconds after which a time goes to the next month, quarter or year, as synthetic ones lie around their first days.
HALF = {0: 0, 1: 14 * DAY, 3: 44 * DAY, 12: 182 * DAY}
MICROSECONDS = {"day": DAY, "hour": HOUR, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1000, "microsecond": 1}


class TimeFormat:
    """A form of text, for microseconds since 1970, since midnight, or of a duration."""

    def __init__(self, text: str) -> None:
        """Parse codes such as "%d/%m/%Y", or a name such as "dd/mm/yyyy"."""
        codes = text if isinstance(text, str) else ""
        if "%" not in codes:
            codes = _NAMED.sub(lambda found: _NAMES.get(found[0].lower(), "%?"), codes)
            codes = codes if re.fullmatch(r"(?:%-?[a-zA-Z]|[^a-zA-Z%]|[TQZ])+", codes) else ""
        self._parts = re.split("%(-?[a-zA-Z])", codes)
        self.codes = [code.lstrip("-") for code in self._parts[1::2]]
        held = set(self.codes)
        n_months, n_hours = len(held & set("mqbB")), len(held & set("HI"))
        is_date = not held & set("YymdqbB") or (len(held & set("Yy")) == 1 and n_months == ("d" in held or n_months > 0))
        is_clock = n_hours == bool(held & set("HIMSfp")) and ("I" in held) == ("p" in held) and ("f" not in held or "S" in held)
        known = all(code in _CODES for code in self._parts[1::2]) and "%" not in "".join(self._parts[::2])
        if not (held and known and len(held) == len(self.codes) and is_date and is_clock and not {"q", "d"} <= held):
            raise ValueError(
                "format must be codes of strptime such as '%d/%m/%Y', '%Y%m%d' or '%H:%M', or a name such as 'dd/mm/yyyy', 'yyyymmdd', "
                f"'yyyy-mm' or 'yyyyQq', got {short_repr(text)}."
            )
        self._pattern = re.compile("".join(map(self._read_part, range(len(self._parts)))), re.IGNORECASE)
        self._template = "".join(_CODES[part][1] if i % 2 else part for i, part in enumerate(self._parts))
        is_whole = not any(self._parts[::2]) and held <= set("YymdHMS")
        self.width = sum(4 if code == "Y" else 2 for code in self.codes) if is_whole else 0  # of whole numbers; 0: they are none
        self.is_date = bool(held & set("Yy"))
        # How many months it takes as one, 0 if it tells days; and the finest unit that it tells.
        self.months = 0 if "d" in held or not self.is_date else 1 if held & set("mbB") else 3 if "q" in held else 12
        units = (("f", "microsecond"), ("S", "second"), ("M", "minute"), ("H", "hour"), ("I", "hour"))
        self.resolution = next((unit for code, unit in units if code in held), "day")

    def _read_part(self, i: int) -> str:
        part = self._parts[i]
        if i % 2 == 0:
            return re.escape(part)
        beside = (i > 1 and not self._parts[i - 1]) or (i + 2 < len(self._parts) and not self._parts[i + 1])
        return f"(?P<{part.lstrip('-')}>{'[0-9]{2}' if beside and part in 'mdyHIMS' else _CODES[part][0]})"

    def read(self, text: str) -> int | None:
        """Return the microseconds that a text tells, None if it is not in this form; a date that is none raises."""
        if self.width:
            text = text.removesuffix(".0")
            text = text.zfill(self.width) if text.isdecimal() else text
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        cells, day = found.groupdict(), 0
        if self.is_date:
            year = int(cells["Y"]) if "Y" in cells else int(cells["y"]) + (1900 if int(cells["y"]) >= 69 else 2000)  # as POSIX says
            name = (cells.get("B") or cells.get("b") or "")[:3].title()
            month = 1 + [each[:3] for each in _MONTHS].index(name) if name else int(cells.get("m", 3 * int(cells.get("q", 1)) - 2))
            day = datetime.date(year, month, int(cells.get("d", 1))).toordinal() - _EPOCH.toordinal()
        hour = int(cells.get("H", cells.get("I", 0)))
        minute, second = int(cells.get("M", 0)), int(cells.get("S", 0))
        if minute > 59 or second > 59 or ("I" in cells and not 1 <= hour <= 12) or (self.is_date and hour > 23):
            return None
        if "p" in cells:
            hour = hour % 12 + 12 * (cells["p"].upper() == "PM")
        offset = cells.get("z", "Z").upper().replace(":", "")
        minute -= 0 if offset == "Z" else int(offset[0] + "1") * (60 * int(offset[1:3]) + int(offset[3:]))
        return day * DAY + hour * HOUR + minute * 60_000_000 + second * 1_000_000 + int(cells.get("f", "0").ljust(6, "0"))

    def write(self, microseconds: np.ndarray) -> list[str]:
        days, rest = np.divmod(microseconds, DAY) if self.is_date else (np.zeros_like(microseconds), microseconds)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        year, month = np.divmod(months.astype(np.int64), 12)
        hour, names = rest // HOUR, np.array(_MONTHS, dtype=object)[month]
        cells = {"Y": year + 1970, "y": (year + 1970) % 100, "m": month + 1, "q": month // 3 + 1}
        cells |= {"d": (dates - months).astype(np.int64) + 1}
        cells |= {"H": hour, "I": (hour - 1) % 12 + 1, "M": rest // 60_000_000 % 60, "S": rest // 1_000_000 % 60, "f": rest % 1_000_000}
        cells |= {"B": names, "b": np.array([name[:3] for name in names], dtype=object), "p": np.where(hour % 24 < 12, "AM", "PM")}
        cells |= {"z": np.full(len(rest), "+0000")}
        return [self._template % row for row in zip(*(cells[code].tolist() for code in self.codes), strict=True)]


format_of = lru_cache(maxsize=256)(TimeFormat)


def read_clock(text: str) -> int | None:
    """Return the microseconds since midnight of a text such as 09:51, 09:51:00.5, or 25:45:00 of a timetable; None of others."""
    found = _TIME_OF_DAY.fullmatch(text)
    return found and _clock(found)


def _clock(found: re.Match) -> int:
    hours, minutes, seconds = (int(found[name] or 0) for name in ("hours", "minutes", "seconds"))
    return hours * HOUR + minutes * 60_000_000 + seconds * 1_000_000 + int((found["fraction"] or "").ljust(6, "0")[:6])


def read_duration(text: str) -> int | None:
    """Return the microseconds of a text such as 1:30:00, 2 days 01:30:00, 90 min or PT1H30M; None of others."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not (found["words"] or found["hours"]):
        return None
    sign, told = -1 if found["sign"] == "-" else 1, _WORD.findall(found["words"])
    total = sign * sum(round(float(number) * _SIZES[unit.lower()]) for number, unit in told)
    if found["hours"] is None:
        return total
    return total + _clock(found) * (-1 if found["sign2"] == "-" or (sign < 0 and not told) else 1)


@dataclass(frozen=True, repr=False)
class Times(Bounded):
    """Dates, times of day or durations within bounds; mechanisms see whole numbers that count from the lower one.

    All count in microseconds: since 1970 (of UTC, where there are zones), since midnight, or those of the duration.
    """

    low: Any = None
    high: Any = None
    bounds: Any = field(default=None, kw_only=True)
    nullable: Any = field(default=None, kw_only=True)
    missing: Any = field(default=(), kw_only=True)
    format: Any = field(default=None, kw_only=True)

    resolution: ClassVar[Any] = "day"
    family: ClassVar[str] = "time"  # of dtypes
    example: ClassVar[str] = "dates or times, such as '2020-01-31'"

    def __post_init__(self) -> None:
        self._check_missing()
        if not isinstance(self.resolution, str) or self.resolution not in MICROSECONDS:
            raise ValueError(f"resolution must be one of {', '.join(map(repr, MICROSECONDS))}, got {short_repr(self.resolution)}.")
        form, is_duration = self.form, self.family == "duration"
        if form is not None:
            if form.is_date is not (self.family == "time") or (is_duration and set(form.codes) & set("Ip")):
                example = "dates, such as '%d/%m/%Y'" if self.family == "time" else "times of day, such as '%H:%M'"
                raise ValueError(f"format must be one of {example}, got {short_repr(self.format)}.")
            if MICROSECONDS[form.resolution] > MICROSECONDS[self.resolution]:
                vars(self).update(resolution=form.resolution)
        keeps_numbers = is_duration and not (form is not None and form.width)  # else they are read as text in the form
        vars(self).update(missing=tuple(value if keeps_numbers and is_real(value) else str(value) for value in self.missing))
        if self._check_word():
            return
        low, high = (self._bound(self._read_bound(self.microseconds_of, bound)) for bound in (self.low, self.high))
        vars(self).update(low=low, high=high)
        if not 0 < self.units_of(self.high) - self.units_of(self.low) <= _MOST_UNITS:
            raise ValueError(
                f"bounds must be two times with low < high, at most 2**53 {self.resolution}s apart, got {bounds_repr(low, high)}; correct "
                "them, or take a coarser resolution."
            )

    @property
    def sentinels(self) -> list[int]:
        """The microseconds of times that stand for a missing cell."""
        found: set[Any] = set()
        for value in self.missing:
            with suppress(Exception):  # a word that is no time, which is missing anyway
                told = self.form.read(value) if self.form is not None and isinstance(value, str) else None
                found.add(self.microseconds_of(value) if told is None else told)
        return sorted(found - {None})

    @property
    def stand_in(self) -> str | None:
        return "open" if isinstance(self.format, str) and self.format == "open" else self.bounds

    @property
    def form(self) -> TimeFormat | None:
        """The form of text and whole numbers that is stated."""
        if not isinstance(self.format, str):
            return None if self.format is None else TimeFormat(self.format)
        return None if self.format == "open" else format_of(self.format)

    @property
    def months(self) -> int:
        """Number of months that the form takes as one; 0 if it tells days."""
        return self.form.months if self.form is not None and self.family == "time" else 0

    @property
    def microseconds(self) -> int:
        """Microseconds of the resolution."""
        return MICROSECONDS[self.resolution]

    def microseconds_of(self, value: Cell) -> int:
        """Return the microseconds of a value, as bounds are given; raise if it is none."""
        raise NotImplementedError

    def _bound(self, microseconds: int) -> Any:
        raise NotImplementedError

    def read_text(self, text: str) -> int | None:
        """Return the microseconds of a cell of text where no form is stated, None or an error of what is no time."""
        raise NotImplementedError

    def write(self, microseconds: np.ndarray) -> list[str]:
        """Return cells of text."""
        codes = {"hour": "%H:%M", "minute": "%H:%M", "day": "%H:%M:%S", "second": "%H:%M:%S"}
        return (self.form or format_of(codes.get(self.resolution, "%H:%M:%S.%f"))).write(microseconds + HALF[self.months])

    def _read_bound(self, read: Callable[[Any], Any], value: object) -> Any:
        """Return what is read from a value, or refuse it."""
        with suppress(Exception):  # also of the caller's own objects
            if (found := read(value)) is not None:
                return found
        shown = bounds_repr(self.low, self.high)
        raise ValueError(f"bounds must be two {self.example}, got {shown}; they are public facts, never learned from rows.")

    def units_of(self, value: object) -> int:
        """Return a value, as bounds are given, in units of the resolution."""
        return self._read_bound(self.microseconds_of, value) // self.microseconds

    @property
    def first(self) -> int:
        """The lower bound, in units of the resolution."""
        return self.units_of(self.low)

    @property
    def zone(self) -> Any:
        """UTC where the bounds have a time zone, else None."""
        return getattr(self.low, "tzinfo", None)

    @property
    def coded(self) -> Continuous:
        """The whole numbers that mechanisms see: units of the resolution since the lower bound."""
        if self.bounds is not None:
            return Continuous(integer=True, nullable=self.nullable, bounds=self.bounds)
        return Continuous(0, self.units_of(self.high) - self.first, integer=True, nullable=self.nullable)

    def _in_file(self, bound: object) -> Any:
        return bound.isoformat() if isinstance(bound, datetime.date) else bound

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), **({} if self.bounds else {name: self._in_file(getattr(self, name)) for name in ("low", "high")})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(type(self)(**state).__dict__)


@dataclass(frozen=True, repr=False)
class Calendar(Times):
    def __post_init__(self) -> None:
        if self.bounds is None:
            moments = [self._read_bound(partial(read_moment, form=self.form), bound) for bound in (self.low, self.high)]
            zones, shown = {moment.tzinfo is not None for moment in moments}, bounds_repr(self.low, self.high)
            if True in zones and isinstance(self, Date):
                raise ValueError(f"bounds of dates must have no time zone, got {shown}; use DateTime for a column that has one.")
            if len(zones) > 1:
                raise ValueError(f"bounds must both have a time zone or neither, got {shown}; write the offset in both.")
            low, high = (moment.astimezone(datetime.UTC) if moment.tzinfo else moment for moment in moments)
            vars(self).update(low=low, high=high)
        super().__post_init__()

    def microseconds_of(self, value: Cell) -> int:
        moment: Any = read_moment(value, self.form)
        if moment.tzinfo is not None:
            if isinstance(self, Date):
                raise ValueError("a date has no time zone")
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        return (moment - _EPOCH) // _MICROSECOND

    def _bound(self, microseconds: int) -> Any:
        begin = _EPOCH + datetime.timedelta(microseconds=microseconds // self.microseconds * self.microseconds)
        if self.months:  # of that month, quarter or year
            begin = datetime.datetime(begin.year, (begin.month - 1) // self.months * self.months + 1, 1)
        return begin.date() if isinstance(self, Date) else begin.replace(tzinfo=self.zone)

    def read_text(self, text: str) -> int | None:
        moment = datetime.datetime.fromisoformat(text)
        # A date is that of the cell's own zone; a time is one in UTC.
        offset = datetime.timedelta() if isinstance(self, Date) else moment.utcoffset() or datetime.timedelta()
        return (moment.replace(tzinfo=None) - offset - _EPOCH) // _MICROSECOND


@savable
@dataclass(frozen=True, repr=False)
class Date(Calendar):
    """A column of dates within public bounds.

    Its cells may be dates or times (whose date counts), objects that are dates, or text in ISO format ("2024-03-31"), or
    text and whole numbers in a `format`; they come back in their dtype and form. A column with a time zone needs `DateTime`.

    Parameters
    ----------
    low, high : date, str in ISO format, datetime64 or Timestamp, default=None
        Public bounds, ``low < high``. Dates outside are clipped.
    bounds : {None, "private", "open"}, default=None
        See `Continuous`.
    nullable : bool, default=None
        Whether cells may be missing; if not, one that is, or is no date, counts as the midpoint. None: yes, if `missing` is given.
    missing : list of str, int or date, default=()
        Dates that stand for a missing cell, such as "1900-01-01", also in the `format`. Texts that are no date do so anyway.
    format : str, default=None
        The form of dates in text and in whole numbers, which is public: codes of strptime ("%d/%m/%Y", "%Y%m%d", "%Y-%m"; "%q" is the
        quarter, "%-d" a day without a leading zero), or a name ("dd/mm/yyyy", "m/d/yyyy", "yyyymmdd", "yyyyQq"). None: ISO format.

    See Also
    --------
    DateTime : A column of times.

    Examples
    --------
    >>> from skdpsynth.domain import Date
    >>> Date("2015-01-01", "2024-12-31")
    Date(low='2015-01-01', high='2024-12-31', nullable=False)
    """


@savable
@dataclass(frozen=True, repr=False)
class DateTime(Calendar):
    """A column of times within public bounds, to a public resolution.

    Its cells may be times or dates, objects that are either, or text in ISO format ("2024-03-31 14:05:00") or in a `format`; they
    come back in their dtype, text without a `format` in the one form "2024-03-31T14:05:00". Times are cut to the resolution, never rounded
    up.

    Parameters
    ----------
    low, high : datetime, str in ISO format, datetime64 or Timestamp, default=None
        Public bounds, ``low < high``. Times outside are clipped. A bound without a time of day is midnight. Bounds with a time zone are
        for columns with one, which are read in UTC and come back in their own zone; bounds without are for columns without.
    bounds : {None, "private", "open"}, default=None
    nullable : bool, default=None
    missing : list of str, int or date, default=()
    format : str, default=None
        As of `Date`.
    resolution : {"second", "day", "hour", "minute", "millisecond", "microsecond"}, default="second"
        The unit in which times are counted, at least that of `format`. The coarser, the less is lost to noise.

    See Also
    --------
    Date : A column of dates.

    Examples
    --------
    >>> from skdpsynth.domain import DateTime
    >>> DateTime("2024-01-01", "2024-12-31T23:59", resolution="minute")
    DateTime(low='2024-01-01T00:00:00', high='2024-12-31T23:59:00', nullable=False, resolution='minute')
    """

    resolution: Any = field(default="second", kw_only=True)  # type: ignore[misc]


@savable
@dataclass(frozen=True, repr=False)
class TimeOfDay(Times):
    """A column of times of day, without a date, within public bounds.

    Its cells may be of a dtype of times of day, objects of Python's `datetime.time`, or text such as "09:51" and "09:51:00.5"; whole
    numbers such as 951 with ``format="%H%M"``. They come back in their dtype, text as "09:51:00" (without seconds, if the resolution is
    coarser).

    Parameters
    ----------
    low, high : str or datetime.time, default=None
        Public bounds, ``low < high``. Times outside are clipped. None: the whole day, "00:00" and "23:59:59". In timetables a bound may be
        beyond 24:00, such as "29:59".
    bounds : {None, "private", "open"}, default=None
    nullable : bool, default=None
    missing : list of str, int or datetime.time, default=()
    format : str, default=None
        As of `Date`, the form such as "%H%M" or "%I:%M %p".
    resolution : {"second", "hour", "minute", "millisecond", "microsecond"}, default="second"
        The unit in which times are counted, at least that of `format`.

    See Also
    --------
    DateTime : A column of times on dates.
    Duration : A column of lengths of time.

    Examples
    --------
    >>> from skdpsynth.domain import TimeOfDay
    >>> TimeOfDay("06:00", "22:00", resolution="minute")
    TimeOfDay(low='06:00:00', high='22:00:00', nullable=False, resolution='minute')
    """

    resolution: Any = field(default="second", kw_only=True)  # type: ignore[misc]
    family = "time of day"
    example = "times of day in quotes, such as '09:30'"

    def __post_init__(self) -> None:
        if self.bounds is None and self.low is None and self.high is None:
            vars(self).update(low="00:00:00", high="23:59:59")
        super().__post_init__()

    read_text = staticmethod(read_clock)

    def microseconds_of(self, value: Cell) -> int:
        if isinstance(value, datetime.time):
            return (datetime.datetime.combine(_EPOCH, value) - _EPOCH) // _MICROSECOND
        found = read_clock(value)
        return self.form.read(value) if found is None and self.form else found  # type: ignore[return-value]

    def _bound(self, microseconds: int) -> str:
        whole = np.array([microseconds // self.microseconds * self.microseconds])
        return format_of("%H:%M:%S.%f" if self.microseconds < MICROSECONDS["second"] else "%H:%M:%S").write(whole)[0]


@savable
@dataclass(frozen=True, repr=False)
class Duration(Times):
    """A column of lengths of time within public bounds.

    Its cells may be of a dtype of durations, objects of Python's `datetime.timedelta`, or text such as "1:30:00", "2 days 01:30:00",
    "90 min" or "PT1H30M". They come back in their dtype, text as "25:30:00" (as "2 days", if the resolution is a day).

    Parameters
    ----------
    low, high : int, str or timedelta, default=None
        Public bounds, ``low < high``: numbers of the resolution, or as cells. Durations outside are clipped.
    bounds : {None, "private", "open"}, default=None
    nullable : bool, default=None
    missing : list of int, str or timedelta, default=()
    format : str, default=None
        As of `Date`; what stands for a missing cell as bounds are written, and the form such as "%H:%M".
    resolution : {"second", "day", "hour", "minute", "millisecond", "microsecond"}, default="second"
        The unit in which durations are counted, at least that of `format`.

    See Also
    --------
    TimeOfDay : A column of times of day.
    Derived : A column that is computed, such as an end from a begin and a duration.

    Examples
    --------
    >>> from skdpsynth.domain import Duration
    >>> Duration("0 min", "1 day", resolution="minute")
    Duration(low=0, high=1440, nullable=False, resolution='minute')
    """

    resolution: Any = field(default="second", kw_only=True)  # type: ignore[misc]
    family = "duration"
    example = "durations, numbers of the resolution or such as '90 min'"

    read_text = staticmethod(read_duration)

    def microseconds_of(self, value: Cell) -> int:
        if isinstance(value, str):
            return read_duration(value)  # type: ignore[return-value]
        if is_real(value):
            return round(value * self.microseconds)
        value = value.astype("timedelta64[us]").item() if isinstance(value, np.timedelta64) else value
        if not isinstance(value, datetime.timedelta):
            raise TypeError("a duration is a number, a text or a timedelta")
        return value // _MICROSECOND

    def _bound(self, microseconds: int) -> int:
        return microseconds // self.microseconds

    def write(self, microseconds: np.ndarray) -> list[str]:
        if self.form is None and self.resolution == "day":
            return [f"{days} days" for days in (microseconds // DAY).tolist()]
        signs = np.where(microseconds < 0, "-", "").tolist()
        return [sign + text for sign, text in zip(signs, super().write(np.abs(microseconds)), strict=True)]


def read_moment(bound: object, form: TimeFormat | None = None) -> datetime.datetime | None:
    """Return a date or time, as bounds are given (text also in a form), as a datetime; None if it is none."""
    if isinstance(bound, np.datetime64):
        bound = bound.astype("datetime64[us]").item()
    if isinstance(bound, str):
        found = None if form is None else form.read(bound)
        bound = datetime.datetime.fromisoformat(bound) if found is None else _EPOCH + datetime.timedelta(microseconds=found)
    if hasattr(bound, "to_pydatetime"):
        bound = bound.to_pydatetime(warn=False)
    if isinstance(bound, datetime.datetime):
        return bound if bound == bound else None  # NaT is a datetime, and equals nothing
    return datetime.datetime.combine(bound, _MIDNIGHT) if isinstance(bound, datetime.date) else None
