"""Whether what a schema says of a column can be found in its dtype; both are public."""

from collections.abc import Sequence
from typing import Any

from skdpsynth.domain import Continuous, Date, Derived, Identifier, Kind, Nominal, Ordinal, Schema, Times, name_repr
from skdpsynth.frames import dtype_advice, family_of, numpy_dtype, pandas_dtype, time_of


def check_dtypes(schema: Schema, dtypes: Sequence[str], floats_are_missing: bool = False) -> None:
    """Refuse dtypes, which are public, in which what the schema says would not be found.

    Where pandas takes a dtype from the cells ("object", "str"), one word makes it of a column of numbers, so an error would tell of that
    cell. There each text is read by itself, as the number that it reads as.

    Parameters
    ----------
    schema : Schema
        In the order of the columns.
    dtypes : sequence of str
    floats_are_missing : bool, default=False
        Whether columns of words and of times may come as floats, all of whose cells are missing then. So do libraries write a column that
        has no cell: in rows that follow others, an error would tell that there is none.
    """
    for (name, kind), dtype in zip(schema.items(), dtypes, strict=True):
        if not (floats_are_missing and _is_float(dtype) and _holds_no_floats(kind)):
            check_dtype(name, kind, dtype)


def _is_float(dtype: str) -> bool:
    return family_of(dtype) == "number" and not dtype.startswith("category") and numpy_dtype(dtype).kind == "f"


def _holds_no_floats(kind: Kind) -> bool:
    """Whether a column has times, or words as its levels."""
    if isinstance(kind, Times):
        return True
    return isinstance(kind, Nominal | Ordinal) and kind.unstated is None and all(isinstance(level, str) for level in kind.levels)


def check_dtype(name: Any, kind: Kind, dtype: str) -> None:
    """Refuse a dtype in which nothing of a kind would be found."""
    family = family_of(dtype)
    if isinstance(kind, Identifier) and isinstance(kind.labels, str) and family not in ("text", "any"):
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, which cannot hold the labels {kind.labels + '1'!r} and so on of schema; say "
            "Identifier(labels=True) for plain numbers."
        )
    if isinstance(kind, Derived) and family not in ("number", "any") and dtype != "str":
        raise TypeError(
            f"column {name_repr(name)} is Derived and comes back as numbers, got dtype {dtype}; convert it, or leave it out of the table."
        )
    if kind.coded is None:
        return
    if family == "other":
        way = dtype_advice(dtype) or "convert it"
        raise TypeError(
            f"column {name_repr(name)} must hold numbers, strings, booleans or times, got dtype {dtype}; {way}, or say Identifier()."
        )
    if isinstance(kind, Times):
        _check_times(name, kind, dtype, family)
    elif family == "time":
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, but is {type(kind).__name__.lower()} in schema; say Date(low, high) or "
            "DateTime(low, high), or convert it."
        )
    elif isinstance(kind, Continuous):
        _check_numbers(name, dtype, family)
    elif kind.unstated is None:
        _check_levels(name, kind, dtype, family)


def _check_times(name: Any, kind: Times, dtype: str, family: str) -> None:
    if family == "number":
        raise TypeError(
            f"column {name_repr(name)} is {type(kind).__name__} in schema, but has dtype {dtype}; convert it to times, or give "
            "numbers as bounds."
        )
    if family != "time":
        return
    zone = (time_of(dtype) or ("", None))[1]
    if zone is not None and dtype.startswith("datetime64") and not _is_dtype(dtype):
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, whose time zone has no name by which it could come back; convert it by "
            ".dt.tz_convert('UTC')."
        )
    if zone is not None and isinstance(kind, Date):
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, in which a day depends on the time zone, but is Date in schema; say DateTime "
            "with bounds that have an offset, such as '2020-01-31T00:00+00:00', or convert the column to dates."
        )
    if (zone is None) != (kind.zone is None) and not isinstance(kind, Date):
        has, way = ("no time zone", "without an offset") if zone is None else ("a time zone", "with one, such as '2020-01-31T00:00+00:00'")
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, which has {has}, unlike its bounds in schema; write the bounds {way}, or "
            "convert the column."
        )


def _is_dtype(name: str) -> bool:
    try:
        return pandas_dtype(name) is not None
    except Exception:  # each version of pandas says it in its own way
        return False


def _check_numbers(name: Any, dtype: str, family: str) -> None:
    if family == "text" and dtype != "str":
        raise TypeError(
            f"column {name_repr(name)} is continuous in schema, but has dtype {dtype}; convert it to numbers, or give its levels."
        )


def _check_levels(name: Any, kind: Any, dtype: str, family: str) -> None:
    if family == "any" or dtype == "str":
        return
    if any(isinstance(level, str) != (family == "text") for level in kind.levels):
        as_numbers = "write them as they stand in the table, or read the column as text, as codes such as 01067 need"
        way = "write all in quotes" if family == "text" else as_numbers
        raise TypeError(
            f"column {name_repr(name)} has dtype {dtype}, but its levels in schema are not all "
            f"{'strings' if family == 'text' else 'numbers'}, so they would not be found; {way}."
        )
