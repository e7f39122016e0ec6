"""Kinds of columns from short forms, declared dtypes and metadata of SDV."""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._kinds import (
    Continuous,
    Identifier,
    Kind,
    Nominal,
    Ordinal,
    as_nullable,
    bounds_repr,
    is_name,
    list_names,
    name_column_in_errors,
    name_repr,
)

_SYNTHESIZED = ("numerical", "categorical", "boolean", "datetime")
_HAS_TIME = re.compile(r"%[HIMSfpcXsTR]")  # in a format of times
_WRONG_DOMAIN: dict[Any, type] = {"numerical": list, "categorical": tuple}  # short forms that users mix up


def kind_of(name: Any, value: Any) -> Any:
    """Return the kind that a value of a schema stands for."""
    if isinstance(value, Kind):
        return value
    if isinstance(value, type) and issubclass(value, Kind):
        raise ValueError(f"schema of column {name_repr(name)} must be a kind with its facts, got the class; call {value.__name__}(...).")
    if isinstance(value, tuple) and len(value) == 2:
        return name_column_in_errors(name, lambda: _of_bounds(*value))
    if not isinstance(value, list):
        raise ValueError(
            f"schema must give a tuple (low, high), a list of levels, or a kind such as Continuous, Ordinal, Nominal, Date, DateTime or "
            f"Identifier for column {name_repr(name)}, got {short_repr(value)}; bounds and levels are public facts, never learned from "
            "rows." + _hint(name, value)
        )
    if value and all(isinstance(item, Mapping) for item in value):
        raise ValueError(f"schema of column {name_repr(name)} is a list of dicts, and levels are words or numbers.{_hint(name, value)}")
    if len(value) == 2 and all(map(is_real, value)) and value[1] - value[0] != 1:
        raise ValueError(
            f"schema of column {name_repr(name)} is a list of two numbers: write a tuple for bounds, {bounds_repr(*value)}, or "
            f"Nominal([{short_repr(value[0])}, {short_repr(value[1])}]) for two levels."
        )
    return name_column_in_errors(name, lambda: Nominal(value))


def _hint(name: Any, value: Any) -> str:
    """Return advice for a caller who gives metadata of SDV, or the parsed file of a schema."""
    if name == "columns" and isinstance(value, list):
        return " If this is what a file of a schema holds, read it by Schema.from_json or Schema.from_yaml."
    if name in ("columns", "tables") and isinstance(value, Mapping):
        return " If this is metadata of SDV, read it by Schema.from_sdv."
    return ""


def _of_bounds(low: Any, high: Any) -> Any:
    if not any(isinstance(bound, datetime.date | np.datetime64 | str) for bound in (low, high)):
        return Continuous(low, high)
    return (Date if _is_day(low) and _is_day(high) else DateTime)(low, high)


def _is_day(bound: Any) -> bool:
    """Whether a bound is a day by its type, or as it is written: midnight is none."""
    if isinstance(bound, str):
        return len(bound) == len("2020-01-31")
    if isinstance(bound, np.datetime64):
        return np.datetime_data(bound.dtype)[0] in ("Y", "M", "W", "D")
    return isinstance(bound, datetime.date) and not isinstance(bound, datetime.datetime)


def schema_of_dtypes(dtypes: Any, public: bool, bounds: Any, nullable: Iterable[Any]) -> dict[Any, Any]:
    if hasattr(dtypes, "columns") or not hasattr(dtypes, "keys"):
        raise ValueError(
            f"dtypes must map columns to dtypes, got {type(dtypes).__name__}; give frame.dtypes (pandas) or frame.schema (polars)."
        )
    if public is not True:
        raise ValueError(
            f"public must be True, got {short_repr(public)}: a categorical dtype may have its levels from the rows (astype('category') "
            "does), which are private; declare them, and say public=True."
        )
    given = _by_column("bounds", bounds)
    columns = {name: _with_dtype(name, given.pop(name, None), dtype) for name, dtype in dict(dtypes).items()}
    return _complete(columns, given, nullable, "bounds")


def _with_dtype(name: Any, given: Any, dtype: Any) -> Any:
    """Return the kind that a dtype declares, unless a domain is given; a range of numbers in a column of floats is one of real numbers."""
    if given is None:
        return name_column_in_errors(name, lambda: kind_of_dtype(dtype))
    if isinstance(given, tuple) and len(given) == 2 and str(dtype).lower().startswith("float"):
        return name_column_in_errors(name, lambda: Continuous(*given, integer=False))
    return given


def kind_of_dtype(dtype: Any) -> Any:
    categories = getattr(dtype, "categories", None)
    # Those of a Categorical of polars are a pool that all its columns share, and declare nothing.
    if categories is not None and not callable(categories) and not str(dtype).startswith("Categorical"):
        return (Ordinal if getattr(dtype, "ordered", False) else Nominal)(list(categories))
    return Nominal([False, True]) if str(dtype) in ("bool", "boolean", "Boolean") else None


def schema_of_sdv(metadata: Any, domains: Any, nullable: Iterable[Any]) -> dict[Any, Any]:
    """Read the kinds of columns from metadata of SDV; bounds and levels from `domains`."""
    leave_open = isinstance(domains, str) and domains == "open"
    given, table = _by_column("domains", None if leave_open else domains), _sdv_table(metadata)
    keys = {table.get("primary_key"), *table.get("alternate_keys", ())}
    columns = {name: _from_sdtype(name, facts, given, name in keys) for name, facts in table["columns"].items()}
    if leave_open:
        columns = {name: _left_open(table["columns"][name]) if kind is None else kind for name, kind in columns.items()}
    return _complete(columns, given, nullable, "domains")


def _sdv_table(metadata: Any) -> Mapping[Any, Any]:
    facts = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
    if not isinstance(facts, Mapping):
        raise ValueError(f"metadata must be SDV metadata or the dict of it, got {type(facts).__name__}.")
    tables = list(facts["tables"].values()) if "tables" in facts else [facts]
    if len(tables) != 1 or "columns" not in tables[0]:
        raise ValueError(f"metadata must describe the columns of one table, got {len(tables)} tables; give that of one.")
    return tables[0]


def _from_sdtype(name: Any, facts: Mapping[str, Any], given: dict[Any, Any], is_key: bool) -> Any:
    """Return the domain of a column, removed from those `given`; None if there is none."""
    sdtype = facts.get("sdtype")
    if name not in given and sdtype == "id":
        return Identifier(labels=is_key)
    if name not in given and sdtype not in _SYNTHESIZED:
        raise ValueError(
            f"column {name_repr(name)} has sdtype {short_repr(sdtype)}, which is not synthesized; give it the domain Identifier(), or "
            "leave it out of the table and of the metadata."
        )
    domain, wrong = given.pop(name, [False, True] if sdtype == "boolean" else None), _WRONG_DOMAIN.get(sdtype)
    if wrong is not None and isinstance(domain, wrong):
        raise ValueError(
            f"column {name_repr(name)} is {sdtype} in metadata, got a {wrong.__name__} of domains: give (low, high) for numbers, a list "
            "for levels, or a kind."
        )
    if sdtype == "numerical" and isinstance(domain, tuple) and len(domain) == 2 and "computer_representation" in facts:
        whole = _is_whole(facts) and all(is_real(end) and float(end).is_integer() for end in domain)
        return name_column_in_errors(name, lambda: Continuous(*domain, integer=whole))
    if sdtype == "datetime" and isinstance(domain, tuple) and len(domain) == 2:
        return name_column_in_errors(name, lambda: _time_kind(facts)(*domain))
    return domain


def _left_open(facts: Mapping[str, Any]) -> Any:
    """Return the kind of a column without its bounds or levels."""
    if facts["sdtype"] == "datetime":
        return _time_kind(facts)(bounds="open")
    return Nominal("open") if facts["sdtype"] == "categorical" else Continuous(bounds="open", integer=_is_whole(facts))


def _is_whole(facts: Mapping[str, Any]) -> bool:
    return "int" in facts.get("computer_representation", "").lower()


def _time_kind(facts: Mapping[str, Any]) -> type[Date] | type[DateTime]:
    return DateTime if facts.get("datetime_format") is None or _HAS_TIME.search(facts["datetime_format"]) else Date


def _by_column(parameter: str, facts: Any) -> dict[Any, Any]:
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"{parameter} must be a dict by column, got {short_repr(facts)}; it states public facts, never learned from rows.")
    return dict(facts or {})


def _complete(columns: dict[Any, Any], unused: dict[Any, Any], nullable: Iterable[Any], parameter: str) -> dict[Any, Any]:
    """Return kinds, those of `nullable` made so, or refuse columns without facts and facts without columns."""
    if lacking := [name for name, kind in columns.items() if kind is None]:
        raise ValueError(
            f"{parameter} must give (low, high) or levels for {list_names(lacking)}; they are public facts, never learned from rows."
        )
    if isinstance(nullable, str) or not isinstance(nullable, Sequence | Set) or not all(map(is_name, nullable)):
        raise ValueError(f"nullable must be a list of columns, got {short_repr(nullable)}; list their names.")
    nullable = set(nullable)
    if unknown := [*unused, *(nullable - set(columns))]:
        raise ValueError(f"{parameter} and nullable must name columns of the table, got {list_names(unknown)}.")
    kinds = {name: kind_of(name, kind) for name, kind in columns.items()}
    return {name: as_nullable(kind) if name in nullable else kind for name, kind in kinds.items()}
