"""Kinds of columns that users state: numbers within bounds, levels with or without an order, identifiers and text."""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from skdpsynth._text import short_tuple_repr
from skdpsynth._validation import as_numeric_array, is_integer, is_real, short_repr
from skdpsynth.persistence import savable

_Made = TypeVar("_Made")
_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats
UNSTATED = ("open", "private")  # words in place of bounds or levels: still to be written, or to be bought


class Kind:
    """Public facts about a column, a dataclass. Mechanisms see `coded` kinds: numbers and levels alone."""

    @property
    def unstated(self) -> str | None:
        """The word "open" or "private" in place of bounds or levels; None where they are stated."""
        return None

    @property
    def coded(self) -> Any:
        """The column as a mechanism sees it: `Continuous`, `Ordinal` or `Nominal`; None where it sees nothing of it."""
        return self

    def to_keys(self) -> dict[str, Any]:
        """Return what a file holds of it, beside its name."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        stated = {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in facts.items() if fact is not None}
        return {"kind": type(self).__name__.lower(), **stated}


class Bounded(Kind):
    """A kind with public bounds, or a word in their place."""

    low: Any
    high: Any
    nullable: bool
    bounds: Any

    @property
    def unstated(self) -> str | None:
        return self.bounds

    def _check_word(self) -> bool:
        """Whether a word stands for the bounds."""
        if self.bounds is None:
            return False
        if not isinstance(self.bounds, str) or self.bounds not in UNSTATED or self.low is not None or self.high is not None:
            raise ValueError(
                f"bounds must be 'private' or 'open', without low and high, got {short_repr(self.bounds)}; write bounds that are known as "
                f"{type(self).__name__}(low, high)."
            )
        return True

    def _in_file(self, bound: Any) -> Any:
        return bound

    def bounds_in_files(self) -> Any:
        """Return the bounds as a file holds them."""
        return self.bounds or [self._in_file(self.low), self._in_file(self.high)]

    def to_keys(self) -> dict[str, Any]:
        facts = super().to_keys()
        others = {name: fact for name, fact in facts.items() if name not in ("kind", "low", "high", "bounds", "nullable")}
        return {"kind": facts["kind"], "bounds": self.bounds_in_files(), **others, "nullable": self.nullable}

    def __repr__(self) -> str:
        ends = {"low": self._in_file(self.low), "high": self._in_file(self.high)} if self.bounds is None else {"bounds": self.bounds}
        facts = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("low", "high", "bounds")}  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in (ends | facts).items())})"


@savable
@dataclass(frozen=True, repr=False)
class Continuous(Bounded):
    """A column of numbers within public bounds.

    Parameters
    ----------
    low, high : float, default=None
        Public bounds, ``low < high``. Values outside are clipped. None only where `bounds` is given.
    integer : bool, default=None
        Whether the numbers are whole. None: yes, if both bounds are ints.
    nullable : bool, default=False
        Whether cells may be missing. If not, a missing one counts as the midpoint.
    bounds : {None, "private", "open"}, default=None
        In place of `low` and `high`. "private": nobody knows them, so a fit that can buys them with a part of its budget. "open": they
        are still to be written, as in `Schema.skeleton`; no fit takes that.

    Raises
    ------
    ValueError
        If the bounds are not two finite numbers in order, or not whole where `integer` is true.

    See Also
    --------
    Date : A column of dates.
    Ordinal : A column of few numbers, or of words in order.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Continuous
    >>> Continuous(1, 99, nullable=True)
    Continuous(low=1, high=99, integer=True, nullable=True)
    """

    low: Any = None
    high: Any = None
    integer: Any = field(default=None, kw_only=True)
    nullable: bool = field(default=False, kw_only=True)
    bounds: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.integer is not None and not is_flag(self.integer):
            raise ValueError(f"integer must be None, True or False, got {short_repr(self.integer)}.")
        low, high, integer = self.low, self.high, bool(self.integer)
        if not self._check_word():
            low, high = checked_bounds(low, high)
            integer = isinstance(low, int) and isinstance(high, int) if self.integer is None else integer
            if integer and not (low == int(low) and high == int(high) and max(abs(low), abs(high)) <= _MOST_WHOLE):
                raise ValueError(
                    f"bounds of whole numbers must be whole and at most 2**53, got {bounds_repr(low, high)}; or set integer=False."
                )
            low, high = (int(low), int(high)) if integer else (float(low), float(high))
        for name, value in (("low", low), ("high", high), ("integer", integer), ("nullable", as_flag(self.nullable))):
            object.__setattr__(self, name, value)

    @property
    def midpoint(self) -> float:
        """Number that a missing cell counts as where none may be missing (whole, if the column is)."""
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
    nullable: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nullable", as_flag(self.nullable))
        if self.unstated is not None:
            return
        levels = _listed_levels(self.levels)
        if strange := [level for level in levels if not _is_level(level)]:
            given = strange[0] if isinstance(self.levels, list | tuple) else self.levels
            raise ValueError(
                f"levels must be strings, finite numbers (whole ones of 64 bits) or booleans, got {short_repr(given)}; for missing cells "
                "set nullable=True."
            )
        if len(levels) < 2:
            raise ValueError(f"levels must be at least 2, got {len(levels)}; leave a constant column out.")
        if len(set(levels)) < len(levels):
            raise ValueError(
                f"levels must be distinct, but {short_repr(first_duplicate(levels))} occurs twice (1, 1.0 and True are equal)."
            )
        object.__setattr__(self, "levels", levels)

    def __repr__(self) -> str:
        levels = short_tuple_repr(self.levels) if self.unstated is None else repr(self.levels)
        return f"{type(self).__name__}(levels={levels}, nullable={self.nullable!r})"

    @property
    def unstated(self) -> str | None:
        return self.levels if isinstance(self.levels, str) and self.levels in UNSTATED else None

    @property
    def n_codes(self) -> int:
        """Number of levels, with that of a missing cell."""
        if self.unstated is not None:
            raise ValueError(f"levels must be stated to be counted, got {self.levels!r}; write them as a list.")
        return len(self.levels) + self.nullable


@savable
@dataclass(frozen=True, repr=False)
class Nominal(_Levels):
    """A column of categories without an order.

    Parameters
    ----------
    levels : list of str, int, float or bool, or "private" or "open"
        All that can occur, at least two: public. A value that is not among them counts as missing, or as the first if not `nullable`.
        "private": nobody knows them, so a fit that can buys them with a part of its budget. "open": they are still to be written, as in
        `Schema.skeleton`; no fit takes that.
    nullable : bool, default=False
        Whether cells may be missing.
    groups : int, dict or list, default=None
        Which levels are alike, where there are very many (more than 64), so that a mechanism may merge those that are rare: a number k
        (texts that begin with the same k characters, such as postcodes of a region), a dict from level to the name of its group, or a list
        of names, one for each level. None: all are.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones, or `groups` does not fit them.

    See Also
    --------
    Ordinal : Categories in order.
    Text : A column that is not synthesized.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Nominal
    >>> Nominal(["red", "green"], nullable=True).n_codes
    3
    >>> Nominal(["10115", "10117", "80331"], groups=2).group_numbers
    array([0, 0, 1])
    """

    groups: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        groups, levels = self.groups, self.levels
        if groups is None or (is_integer(groups, 1) and (self.unstated or all(isinstance(level, str) for level in levels))):
            object.__setattr__(self, "groups", groups and int(groups))
            return
        if self.unstated or isinstance(groups, str) or not isinstance(groups, Mapping | Sequence):
            raise ValueError(
                f"groups must be None or a number of first characters of levels that are text, or, of stated levels, a dict or a list, got "
                f"{short_repr(groups)}; see Nominal."
            )
        if isinstance(groups, Mapping):
            if missing := [level for level in levels if level not in groups]:
                raise ValueError(f"groups must name the group of every level, but has none for {short_repr(missing[0])}; add it.")
            groups = [groups[level] for level in levels]
        if len(groups) != len(levels) or not all(isinstance(group, str | int) for group in groups):
            raise ValueError(
                f"groups must be {len(levels)} words or whole numbers, one for each level, got {len(groups)} names; complete them."
            )
        object.__setattr__(self, "groups", tuple(groups))

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
    """A column of categories in order; in pandas and polars it comes back as ordered categories.

    Parameters
    ----------
    levels : list of str, int, float or bool, or "private" or "open"
        All that can occur, from the lowest to the highest, at least two: public. A value that is not among them counts as missing, or as
        the first if not `nullable`. "private" and "open" as in `Nominal`.
    nullable : bool, default=False
        Whether cells may be missing.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones.

    See Also
    --------
    Nominal : Categories without an order.
    Continuous : A column of numbers.
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Ordinal
    >>> Ordinal(["low", "middle", "high"]).levels
    ('low', 'middle', 'high')
    """


class Unseen(Kind):
    """A kind of column that no mechanism sees."""

    @property
    def coded(self) -> None:
        """None: mechanisms do not see it."""
        return None


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

    Raises
    ------
    ValueError
        If `labels` is neither True, False nor a word.

    See Also
    --------
    Text : A column that is left out.
    Schema : All columns of a table.

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

    def made(self, numbers: np.ndarray) -> np.ndarray:
        """Return labels for the rows of a sample, by their numbers."""
        numbers = as_numeric_array(numbers, "numbers", whole=True)
        if self.labels is True:
            return numbers
        cells = np.empty(len(numbers), dtype=object)
        cells[:] = [f"{self.labels}{number}" for number in numbers.tolist()]
        return cells


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
    Schema : All columns of a table.

    Examples
    --------
    >>> from skdpsynth.domain import Text
    >>> Text()
    Text()
    """


def checked_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Return bounds as plain numbers, finite and in order."""
    if not (is_real(low) and is_real(high)):
        raise ValueError(
            f"bounds must be two numbers (low, high), got {bounds_repr(low, high)}; they are public facts, never learned from rows."
        )
    low, high = (bound.item() if hasattr(bound, "item") else bound for bound in (low, high))
    with suppress(OverflowError):  # whole numbers beyond floats
        if -math.inf < float(low) < float(high) < math.inf and float(high) - float(low) < math.inf:
            return low, high
    raise ValueError(f"bounds must be finite with low < high, got {bounds_repr(low, high)}; swap or correct them.")


def _listed_levels(levels: Any) -> tuple:
    """Return levels as values of Python's own; what cannot be gone through, or has no order, is no list of them."""
    if not isinstance(levels, str | bytes | Set | Mapping) and hasattr(levels, "__iter__"):
        with suppress(Exception):  # of the caller's own objects
            return tuple(level.item() if isinstance(level, np.generic) else level for level in levels)
    raise ValueError(f"levels must be a list, got {short_repr(levels)}; they are public facts, never learned from rows.")


def _is_level(level: Any) -> bool:
    is_whole = isinstance(level, int) and -(2**63) <= level < 2**64
    return isinstance(level, str) or is_whole or (isinstance(level, float) and math.isfinite(level))


def is_flag(value: Any) -> bool:
    """Whether this is True or False, or a number equal to one of them."""
    return isinstance(value, bool | np.bool_ | int | float) and value in (True, False)


def as_flag(value: Any) -> bool:
    if not is_flag(value):
        raise ValueError(f"nullable must be True or False, got {short_repr(value)}.")
    return bool(value)


def as_nullable(kind: Any) -> Any:
    """Return a kind whose cells may be missing, if it has a place for that."""
    return replace(kind, nullable=True) if hasattr(kind, "nullable") else kind


def name_column_in_errors(name: Any, make: Callable[[], _Made]) -> _Made:
    """Return what `make` makes, or say which column its error is about."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"schema of column {name_repr(name)}: {error}") from None


def first_duplicate(values: Sequence[Any]) -> Any:
    """Return the first value that occurs a second time, which must be there."""
    seen: set = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]


def is_name(name: Any) -> bool:
    """Whether something can be the name of a column: a word, a number, a date, or a tuple of these."""
    if isinstance(name, tuple):
        return all(map(is_name, name))
    return name is None or (isinstance(name, str | int | float | np.generic | datetime.date) and not isinstance(name, np.void))


def name_repr(name: Any) -> str:
    """Return how a message shows the name of a column, which is public."""
    return f"({', '.join(map(name_repr, name))})" if isinstance(name, tuple) else short_repr(name)


def list_names(names: Sequence[Any], most: int = 5) -> str:
    return ", ".join(map(name_repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def bounds_repr(low: Any, high: Any) -> str:
    return f"({short_repr(low)}, {short_repr(high)})"
