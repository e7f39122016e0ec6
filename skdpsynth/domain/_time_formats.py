"""Forms in which text holds dates, times of day and durations: codes of strptime, read and written alike in every locale."""

import datetime
import re
from functools import lru_cache

import numpy as np

from skdpsynth._validation import short_repr

HOUR, DAY = 3_600_000_000, 86_400_000_000  # microseconds
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
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
        is_date = not held & set("YymdqbB") or (
            len(held & set("Yy")) == 1 and len(held & set("mqbB")) == ("d" in held or bool(held & set("mqbB")))
        )
        is_clock = (
            len(held & set("HI")) == bool(held & set("HIMSfp")) and ("I" in held) == ("p" in held) and not ("f" in held and "S" not in held)
        )
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

    def _read_part(self, i: int) -> str:
        part = self._parts[i]
        if i % 2 == 0:
            return re.escape(part)
        beside = (i > 1 and not self._parts[i - 1]) or (i + 2 < len(self._parts) and not self._parts[i + 1])
        return f"(?P<{part.lstrip('-')}>{'[0-9]{2}' if beside and part in 'mdyHIMS' else _CODES[part][0]})"

    @property
    def is_date(self) -> bool:
        """Whether it tells a date."""
        return "Y" in self.codes or "y" in self.codes

    @property
    def months(self) -> int:
        """How many months it takes as one, 0 if it tells days."""
        return 0 if "d" in self.codes or not self.is_date else 1 if set("mbB") & set(self.codes) else 3 if "q" in self.codes else 12

    @property
    def resolution(self) -> str:
        """The finest unit that it tells."""
        units = (("f", "microsecond"), ("S", "second"), ("M", "minute"), ("H", "hour"), ("I", "hour"))
        return next((unit for code, unit in units if code in self.codes), "day")

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
            day = datetime.date(year, month, int(cells.get("d", 1))).toordinal() - _EPOCH_DAY
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
        """Return a text for each number of microseconds."""
        days, rest = np.divmod(microseconds, DAY) if self.is_date else (np.zeros_like(microseconds), microseconds)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        year, month = np.divmod(months.astype(np.int64), 12)
        hour, names = rest // HOUR, np.array(_MONTHS, dtype=object)[month]
        cells = {
            "Y": year + 1970,
            "y": (year + 1970) % 100,
            "m": month + 1,
            "q": month // 3 + 1,
            "d": (dates - months).astype(np.int64) + 1,
        }
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
