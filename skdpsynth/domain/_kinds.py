"""Kinds of columns that users state: numbers within bounds, levels with or without an order, identifiers and text."""

import datetime
import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from skdpsynth._text import short_tuple_repr
from skdpsynth._validation import as_numeric_array, is_integer, is_real, list_or_none, short_repr
from skdpsynth.frames import Cell
from skdpsynth.persistence import savable

_Made = TypeVar("_Made")
_MOST_DECIMALS = 30
_MOST_WHOLE = 2**53  # whole numbers beyond it are not all floats
_MOST_IN_RANGE = 100_000  # levels
_WHOLE = re.compile(r"0|-?[1-9]\d*")
_CONSTANT = "a constant column is Constant(value)."
UNSTATED = ("open", "private")  # words in place of bounds or levels: still to be written, or to be bought


class Kind:
    """Public facts about a column, a dataclass. Mechanisms see `coded` kinds: numbers and levels alone."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the caller knows whether it has levels, a range or a value

    @property
    def stand_in(self) -> str | None:
        """The word "open" or "private" in place of bounds or levels; None where they are stated."""
        return None

    @property
    def coded(self) -> Any:
        """The column as a mechanism sees it: `Continuous`, `Ordinal` or `Nominal`; None where it sees nothing of it."""
        return self

    def _facts(self) -> dict[str, Any]:
        facts = {each.name: getattr(self, each.name) for each in fields(self) if each.init}  # type: ignore[arg-type]
        return {name: fact for name, fact in facts.items() if fact not in (None, ())}

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it, beside its name."""
        facts = {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in self._facts().items()}
        return {"kind": type(self).__name__.lower().removesuffix("ofday"), **facts}

    def __repr__(self) -> str:
        shown = {name: short_tuple_repr(fact) if isinstance(fact, tuple) else repr(fact) for name, fact in self._facts().items()}
        return f"{type(self).__name__}({', '.join(f'{name}={fact}' for name, fact in shown.items())})"

    def _check_missing(self) -> None:
        """Check `missing` and `nullable`; cells may be missing by default where something stands for a missing cell."""
        missing, nullable = getattr(self, "missing", ()), getattr(self, "nullable", None)
        listed = [missing] if isinstance(missing, str | int | float | datetime.date | datetime.time) else () if missing is None else missing
        stated = None if isinstance(listed, Set | Mapping) else list_or_none(listed)
        kept = [plain_value(each) for each in stated or () if each is not None and not (is_real(each) and each != each)]
        if stated is None or not all(map(_is_level, kept)):
            told = "missing must be a word, a number or a time that stands for a missing cell, or a list of them"
            raise ValueError(f"{told}, got {short_repr(missing)}.")
        if nullable is not None and not is_flag(nullable):
            raise ValueError(f"nullable must be True or False, got {short_repr(nullable)}.")
        vars(self).update(nullable=bool(stated if nullable is None else nullable), missing=tuple(kept))


ColumnKind: TypeAlias = Kind


class Bounded(Kind):
    low: Any
    high: Any
    nullable: bool
    bounds: Any

    @property
    def stand_in(self) -> str | None:
        return self.bounds

    def _check_word(self) -> bool:
        if self.bounds is None:
            return False
        if not isinstance(self.bounds, str) or self.bounds not in UNSTATED or self.low is not None or self.high is not None:
            raise ValueError(f"bounds must be 'private' or 'open', without low and high, got {short_repr(self.bounds)}; or give these.")
        return True

    def _in_file(self, bound: object) -> Any:
        return bound

    def bounds_in_files(self) -> Any:
        """Return the bounds as a file holds them."""
        return self.bounds or [self._in_file(self.low), self._in_file(self.high)]

    def _facts(self) -> dict[str, Any]:
        return {name: self._in_file(fact) for name, fact in super()._facts().items()}

    def to_keys(self) -> dict[str, Any]:
        keys = super().to_keys()
        others = {name: fact for name, fact in keys.items() if name not in ("kind", "low", "high", "bounds", "nullable")}
        return {"kind": keys["kind"], "bounds": self.bounds_in_files(), **others, "nullable": self.nullable}


@savable
@dataclass(frozen=True, repr=False)
class Continuous(Bounded):
    """A column of numbers within public bounds.

    Parameters
    ----------
    low, high : float, default=None
        Public bounds, ``low < high``. Values outside are clipped. None only where `bounds` is given.
    bounds : {None, "private", "open"}, default=None
        In place of `low` and `high`. "private": nobody knows them, so a fit that can buys them with a part of its budget. "open": they
        are still to be written, as in `Schema.skeleton`; no fit takes that.
    integer : bool, default=None
        Whether the numbers are whole. None: yes, if both bounds are ints, and the step, if there is one.
    nullable : bool, default=None
        Whether cells may be missing. If not, a missing one counts as the midpoint. None: yes, if `missing` is given.
    missing : list of str, int or float, default=()
        Numbers that stand for a missing cell, such as -99. Texts that are no numbers do so anyway.
    decimals : int, default=None
        How many decimals numbers have: those that come back are rounded to them.
    step : int or float, default=None
        In place of `decimals`: the number of which all numbers are multiples, such as 0.05 or 25.

    See Also
    --------
    Date : A column of dates.
    Ordinal : A column of few numbers, or of words in order.

    Examples
    --------
    >>> from skdpsynth.domain import Continuous
    >>> Continuous(1, 99, nullable=True)
    Continuous(low=1, high=99, integer=True, nullable=True)
    >>> Continuous(0, 500, decimals=2, missing=[-1])
    Continuous(low=0.0, high=500.0, integer=False, nullable=True, missing=(-1,), decimals=2)
    """

    low: Any = None
    high: Any = None
    bounds: Any = field(default=None, kw_only=True)
    integer: Any = field(default=None, kw_only=True)
    nullable: Any = field(default=None, kw_only=True)
    missing: Any = field(default=(), kw_only=True)
    decimals: Any = field(default=None, kw_only=True)
    step: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.integer is not None and not is_flag(self.integer):
            raise ValueError(f"integer must be None, True or False, got {short_repr(self.integer)}.")
        self._check_missing()
        decimals, step = self.decimals, self.step
        if decimals is not None and not is_integer(decimals, 0, _MOST_DECIMALS):
            raise ValueError(f"decimals must be a whole number from 0 to {_MOST_DECIMALS}, got {short_repr(decimals)}.")
        if step is not None and not (is_real(step) and 0 < step < math.inf):
            raise ValueError(f"step must be a number above 0, got {short_repr(step)}.")
        if None not in (decimals, step):
            raise ValueError(f"step must be left out where decimals are given, got {short_repr(step)} beside {short_repr(decimals)}.")
        vars(self).update(decimals=None if decimals is None else int(decimals), step=plain_value(step))
        low, high, integer = self.low, self.high, bool(self.integer)
        is_whole = self.unit is None or self.unit.denominator == 1
        if integer and not is_whole:
            raise ValueError("integer must be False where decimals or step are no whole numbers, got True; leave one of them out.")
        if not self._check_word():
            low, high = check_bounds(low, high)
            integer = isinstance(low, int) and isinstance(high, int) and is_whole if self.integer is None else integer
            if integer and not (low == int(low) and high == int(high) and max(abs(low), abs(high)) <= _MOST_WHOLE):
                raise ValueError(f"bounds must be whole and at most 2**53, got {bounds_repr(low, high)}; or set integer=False.")
            low, high = (int(low), int(high)) if integer else (float(low), float(high))
        vars(self).update(low=low, high=high, integer=integer)
        if self.unit is None or self.bounds is not None or (ends := _multiples_within(self.unit, low, high)) is None:
            return
        if ends[0] > ends[1]:
            raise ValueError(f"bounds must hold a multiple of {float(self.unit):g}, got {bounds_repr(low, high)}; correct step or bounds.")

    @property
    def unit(self) -> Fraction | None:
        """The step of the numbers that come back, exactly as it is printed; None: any number."""
        if self.decimals is not None:
            return Fraction(1, 10**self.decimals)
        return None if self.step is None else Fraction(str(self.step))

    @property
    def midpoint(self) -> float:
        """The number that a missing cell counts as where the column is not nullable; whole, if the column is."""
        middle = self.low / 2 + self.high / 2
        return float(math.floor(middle)) if self.integer else middle


@savable
@dataclass(frozen=True, repr=False)
class Span(Continuous):
    """Distance of a number above another one, from 0 on: mechanisms see it in place of a column that an `Inequality` orders.

    Where `low` is -1, that stands for a number beside which the other one is missing.
    """


@dataclass(frozen=True, repr=False)
class _Levels(Kind):
    levels: Any
    nullable: Any = field(default=None, kw_only=True)
    missing: Any = field(default=(), kw_only=True)
    other: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_missing()
        if self.stand_in is not None:
            if self.other is not None:
                raise ValueError(f"other must be None where levels are {self.levels!r}, got {short_repr(self.other)}; write the levels.")
            return
        levels = _listed_levels(self.levels)
        levels += () if self.other is None or (_is_level(self.other) and self.other in levels) else (self.other,)
        if strange := [level for level in levels if not _is_level(level)]:
            given = strange[0] if isinstance(self.levels, list | tuple) else self.levels
            raise ValueError(
                f"levels must be strings, finite numbers (whole ones of 64 bits) or booleans, got {short_repr(given)}; for missing cells "
                "set nullable=True."
            )
        if len(levels) < 2:
            raise ValueError(f"levels must be a list of 2 or more, got {len(levels)}; {_CONSTANT}")
        if len(set(levels)) < len(levels):
            raise ValueError(f"levels must be distinct, got {short_repr(first_duplicate(levels))} twice (1, 1.0 and True are equal).")
        if twice := set(self.missing) & set(levels):
            raise ValueError(f"missing must be no level, got {short_repr(min(twice, key=str))}, which is one; take it out of one of them.")
        vars(self).update(levels=levels)

    @property
    def stand_in(self) -> str | None:
        return self.levels if isinstance(self.levels, str) and self.levels in UNSTATED else None

    @property
    def n_codes(self) -> int:
        """Number of levels, with that of a missing cell."""
        if self.stand_in is not None:
            raise ValueError(f"levels must be stated to be counted, got {self.levels!r}; write them as a list.")
        return len(self.levels) + self.nullable


@savable
@dataclass(frozen=True, repr=False)
class Nominal(_Levels):
    """A column of categories without an order.

    Parameters
    ----------
    levels : list of str, int, float or bool, or "private" or "open"
        All that can occur, at least two: public; "1..9" and "A..F" stand for whole numbers and letters. A value that is not among them
        counts as `other`, else as missing, or as the first if not `nullable`. "private" and "open" as in `Continuous`.
    nullable : bool, default=None
        Whether cells may be missing. None: yes, if `missing` is given.
    missing : list of str, int, float or bool, default=()
        What stands for a missing cell, such as "?" or 99.
    other : level, default=None
        The level that takes all cells that are none of the others; it is added to the levels, if it is not among them.
    groups : int, dict or list, default=None
        Which levels are alike, where there are very many (more than 64), so that a mechanism may merge those that are rare: a number k
        (texts that begin with the same k characters, such as postcodes of a region), a dict from level to the name of its group, or a list
        of names, one for each level. None: all are.

    See Also
    --------
    Ordinal : Categories in order.
    Text : A column that is not synthesized.

    Examples
    --------
    >>> from skdpsynth.domain import Nominal
    >>> Nominal(["red", "green"], nullable=True).n_codes
    3
    >>> Nominal(["10115", "10117", "80331"], groups=2).group_numbers
    array([0, 0, 1])
    >>> Nominal("A..C", other="else", missing=["?"])
    Nominal(levels=('A', 'B', 'C', 'else'), nullable=True, missing=('?',), other='else')
    """

    groups: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        groups, levels = self.groups, self.levels
        if groups is None or (is_integer(groups, 1) and (self.stand_in or all(isinstance(level, str) for level in levels))):
            vars(self).update(groups=groups and int(groups))
            return
        if self.stand_in or isinstance(groups, str) or not isinstance(groups, Mapping | Sequence):
            raise ValueError(f"groups must be a number of first characters, or of stated levels a dict or list, got {short_repr(groups)}.")
        if isinstance(groups, Mapping):
            if missing := [level for level in levels if level not in groups]:
                raise ValueError(f"groups must name the group of every level, but has none for {short_repr(missing[0])}; add it.")
            groups = [groups[level] for level in levels]
        if len(groups) != len(levels) or not all(isinstance(group, str | int) for group in groups):
            raise ValueError(f"groups must be {len(levels)} words or whole numbers, one for each level, got {len(groups)}; complete them.")
        vars(self).update(groups=tuple(groups))

    @property
    def group_numbers(self) -> np.ndarray:
        """The group of each level, as a number, in the order in which the groups come."""
        if self.groups is None:
            return np.zeros(len(self.levels), dtype=np.int64)
        names = [level[: self.groups] for level in self.levels] if isinstance(self.groups, int) else self.groups
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return np.array([numbers[name] for name in names], dtype=np.int64)


@savable
class Ordinal(_Levels):
    """A column of categories in order: words come back as ordered categories in pandas and polars, numbers as numbers.

    Parameters
    ----------
    levels : list of str, int, float or bool, or "private" or "open"
        All that can occur, from the lowest to the highest, as of `Nominal`.
    nullable : bool, default=None
    missing : list of str, int, float or bool, default=()
        As of `Nominal`.
    other : level, default=None
        The level that takes all cells that are none of the others; it is added as the highest, if it is not among them.

    See Also
    --------
    Nominal : Categories without an order.
    Continuous : A column of numbers.

    Examples
    --------
    >>> from skdpsynth.domain import Ordinal
    >>> Ordinal(["low", "middle", "high"]).levels
    ('low', 'middle', 'high')
    """


@savable
@dataclass(frozen=True, repr=False)
class Boolean(_Levels):
    """A column of truth values, however they are written: true and false, yes and no, y and n, t and f, 1 and 0, in any case.

    Parameters
    ----------
    nullable : bool, default=None
        Whether cells may be missing; if not, one that is counts as false. None: yes, if `missing` is given.
    missing : list of str, int or float, default=()
        What stands for a missing cell, as all does that is no truth value.
    words : tuple of two levels, default=None
        What false and true come back as where no dtype says it, such as ("no", "yes") or (0, 1); words are read, too. None: False and
        True, in a column of text "false" and "true".

    See Also
    --------
    Nominal : A column of categories.

    Examples
    --------
    >>> from skdpsynth.domain import Boolean
    >>> Boolean(words=("no", "yes"))
    Boolean(nullable=False, words=('no', 'yes'))
    """

    levels: Any = field(default=(False, True), init=False)
    other: Any = field(default=None, init=False)
    words: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(other=None)  # saved as all fields are
        if self.words is not None:
            vars(self).update(words=Nominal(self.words).levels)
            if len(self.words) != 2:
                raise ValueError(f"words must be two, for false and for true, got {len(self.words)}; correct them.")

    @property
    def coded(self) -> Nominal:
        return Nominal(self.levels, nullable=self.nullable)


class Unseen(Kind):
    coded = None  # no mechanism sees the column


@savable
@dataclass(frozen=True)
class Identifier(Unseen):
    """A column that says who a row is about: a number of a patient, a name, an address. It is never read.

    Samples are without it, or have labels that are made anew. Metrics leave it out, and a table may lack it. It does not tell apart the
    rows of one person: the promise is for a row.

    Parameters
    ----------
    labels : bool or str, default=False
        False: samples have no such column. True: they have 1, 2, 3 and so on in it, one for each row. A word goes before the number:
        "patient-" gives "patient-1"; that needs a column of text or objects. Labels are unique within one sample, also one in batches.

    See Also
    --------
    Text : A column that is left out.

    Examples
    --------
    >>> from skdpsynth.domain import Identifier, Schema
    >>> schema = Schema({"patient": Identifier(labels="P"), "age": (0, 99)})
    >>> list(schema.coded)
    ['age']
    """

    labels: Any = False

    def __post_init__(self) -> None:
        if not isinstance(self.labels, bool | str) or self.labels == "":
            raise ValueError(f"labels must be True, False or a word to go before the number, got {short_repr(self.labels)}.")

    @property
    def comes_back(self) -> bool:
        """Whether samples have the column."""
        return self.labels is not False

    def make_labels(self, numbers: np.ndarray) -> np.ndarray:
        """Return labels for the rows of a sample, by their numbers."""
        numbers = as_numeric_array(numbers, "numbers", whole=True)
        return numbers if self.labels is True else np.array([f"{self.labels}{number}" for number in numbers.tolist()], dtype=object)


@savable
@dataclass(frozen=True)
class Constant(Unseen):
    """A column that has one public value in every row. It is never read, and costs nothing.

    Parameters
    ----------
    value : str, int, float, bool or date
        It comes back in every row, in the dtype of the column; a date or time is kept as text in ISO format.

    See Also
    --------
    Derived : A column that is computed.

    Examples
    --------
    >>> from skdpsynth.domain import Constant, Schema
    >>> schema = Schema({"year": Constant(2024), "age": (0, 99)})
    >>> list(schema.coded)
    ['age']
    """

    value: Any

    comes_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        value = plain_value(self.value)
        if not _is_level(value) or self.value != self.value:
            raise ValueError(f"value must be a text, a finite number, a truth value or a date, got {short_repr(self.value)}.")
        vars(self).update(value=value)


@savable
@dataclass(frozen=True)
class Text(Unseen):
    """A column of free text, or of something else that is not synthesized: a note that it is there.

    Every fit refuses it, because text about people cannot be learned from counts: drop the column, or say `Identifier` to leave it out
    of samples. Metrics leave it out.

    See Also
    --------
    Identifier : A column that says who a row is about.
    Nominal : A column of categories.

    Examples
    --------
    >>> from skdpsynth.domain import Text
    >>> Text()
    Text()
    """


def check_bounds(low: Cell, high: Cell) -> tuple[Any, Any]:
    if not (is_real(low) and is_real(high)):
        raise ValueError(f"bounds must be two numbers, got {bounds_repr(low, high)}; they are public facts, never learned from rows.")
    low, high = (bound.item() if hasattr(bound, "item") else bound for bound in (low, high))
    with suppress(OverflowError):  # whole numbers beyond floats
        if -math.inf < float(low) < float(high) < math.inf and float(high) - float(low) < math.inf:
            return low, high
    way = _CONSTANT if low == high else "swap or correct them."
    raise ValueError(f"bounds must be finite with low < high, got {bounds_repr(low, high)}; {way}")


def _levels_in_range(text: str) -> list:
    """Return the levels of a part such as 1..9 or A..F, or one whole number or word."""
    first, dots, last = text.strip().partition("..")
    if not dots:
        return [int(first) if _WHOLE.fullmatch(first) else first]
    if _WHOLE.fullmatch(first) and _WHOLE.fullmatch(last) and int(last) - int(first) < _MOST_IN_RANGE:
        return list(range(int(first), int(last) + 1))
    if len(first) == len(last) == 1 and first.isascii() and last.isascii() and (first + last).isalpha():
        return [chr(letter) for letter in range(ord(first), ord(last) + 1)]
    raise ValueError(f"levels must be a list, or ranges of whole numbers or letters such as 1..9 or A..F, got {short_repr(text)}.")


def _listed_levels(levels: object) -> tuple:
    """Return levels as values of Python; a set or a mapping has no order, so it is no list of them."""
    if isinstance(levels, str) and ".." in levels:
        return tuple(level for part in levels.split(",") for level in _levels_in_range(part))
    if not isinstance(levels, str | bytes | Set | Mapping) and hasattr(levels, "__iter__"):
        with suppress(Exception):  # of the caller's own objects
            return tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
    raise ValueError(f"levels must be a list, got {short_repr(levels)}; they are public facts, never learned from rows.")


def plain_value(value: object) -> Any:
    """Return numbers as those of Python, dates and times as text in ISO format, and durations as their seconds in text."""
    if isinstance(value, tuple):
        return tuple(map(plain_value, value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds()} s"
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else value


def _is_level(level: object) -> bool:
    is_whole = isinstance(level, int) and -(2**63) <= level < 2**64
    return isinstance(level, str) or is_whole or (isinstance(level, float) and math.isfinite(level))


def is_flag(value: object) -> bool:
    return isinstance(value, bool | np.bool_ | int | float) and value in (True, False)


def as_nullable(kind: Kind | None) -> Any:
    return replace(kind, nullable=True) if hasattr(kind, "nullable") else kind  # type: ignore[type-var]


def ends_of_cells(kind: Kind) -> tuple[float, float]:
    """Return the first and the last code or number that mechanisms see of a column; a missing cell lies beyond."""
    return (0, len(kind.levels) - 1) if hasattr(kind, "levels") else (kind.coded.low, kind.coded.high)


def name_column_in_errors(name: Hashable, make: Callable[[], _Made], what: str = "schema of column") -> _Made:
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"{what} {name_repr(name)}: {error}") from None


def first_duplicate(values: Sequence[Any]) -> Any:
    seen: set = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]


def is_name(name: object) -> bool:
    """Whether something can be the name of a column: a word, a number, a date, or a tuple of these."""
    if isinstance(name, tuple):
        return all(map(is_name, name))
    return name is None or (isinstance(name, str | int | float | np.generic | datetime.date) and not isinstance(name, np.void))


def name_repr(name: Hashable) -> str:
    return f"({', '.join(map(name_repr, name))})" if isinstance(name, tuple) else short_repr(name)


def list_names(names: Sequence[Any], most: int = 5) -> str:
    return ", ".join(map(name_repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def bounds_repr(low: object, high: object) -> str:
    return f"({short_repr(plain_value(low))}, {short_repr(plain_value(high))})"


@lru_cache(maxsize=1024)
def _multiples_within(unit: Fraction, low: float, high: float) -> tuple[int, int] | None:
    """Return the first and last multiple within bounds, as counts; None where floats are no finer than the multiples."""
    first, last = (Fraction(str(bound)) / unit for bound in (low, high))
    ends = math.ceil(first), math.floor(last)
    is_exact = max(unit.denominator, *(abs(end) * unit.numerator for end in ends), *map(abs, ends)) < _MOST_WHOLE
    return ends if is_exact else None


def round_to_step(x: np.ndarray, kind: ColumnKind) -> np.ndarray:
    """Return numbers as the nearest multiple of the step within the bounds; NaN stays.

    A count times the numerator is exact below 2**53, and IEEE division rounds correctly: each is the float that the decimal reads as.
    """
    unit: Fraction | None = getattr(kind, "unit", None)
    if unit is None or (ends := _multiples_within(unit, kind.low, kind.high)) is None:
        return x
    return np.clip(np.rint(x * unit.denominator / unit.numerator), *ends) * unit.numerator / unit.denominator


def ceil_to_step(t: np.ndarray, unit: Fraction) -> np.ndarray:
    """Return the least multiple at or above each number, as a float."""
    counts = np.rint(t * unit.denominator / unit.numerator)
    return (counts + (counts * unit.numerator / unit.denominator < t)) * unit.numerator / unit.denominator
