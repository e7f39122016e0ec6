"""Schemas from elsewhere: declared dtypes, metadata of SDV. Each gives a dict of column to kind."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from skdpsynth._validation import is_real, short_repr
from skdpsynth.domain._dates import Date, DateTime
from skdpsynth.domain._identifiers import Identifier
from skdpsynth.domain._kinds import Continuous, Nominal, Ordinal, as_nullable, is_name, list_names, name_column_in_errors, name_repr
from skdpsynth.domain._shorthand import kind_of

_SYNTHESIZED = ("numerical", "categorical", "boolean", "datetime")
_HAS_TIME = re.compile(r"%[HIMSfpcXsTR]")  # in a format of times
_WRONG_DOMAIN: dict[Any, type] = {"numerical": list, "categorical": tuple}  # what users mix up


def schema_of_dtypes(dtypes: Any, public: bool, bounds: Any, nullable: Iterable[Any]) -> dict[Any, Any]:
    """Read kinds and levels from declared dtypes of a data frame."""
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
    """Return what a dtype declares, unless a domain is given; a range of numbers in a column of floats is one of real numbers."""
    if given is None:
        return name_column_in_errors(name, lambda: _kind_of_dtype(dtype))
    if isinstance(given, tuple) and len(given) == 2 and str(dtype).lower().startswith("float"):
        return name_column_in_errors(name, lambda: Continuous(*given, integer=False))
    return given


def _kind_of_dtype(dtype: Any) -> Any:
    """Return what a dtype of pandas or polars declares, or None."""
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
    told = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
    if not isinstance(told, Mapping):
        raise ValueError(f"metadata must be SDV metadata or the dict of it, got {type(told).__name__}.")
    tables = list(told["tables"].values()) if "tables" in told else [told]
    if len(tables) != 1 or "columns" not in tables[0]:
        raise ValueError(f"metadata must describe the columns of one table, got {len(tables)} tables; give that of one.")
    return tables[0]


def _from_sdtype(name: Any, facts: Mapping[str, Any], given: dict[Any, Any], is_key: bool) -> Any:
    """Return the domain of a column, taken out of those `given`; None if there is none."""
    sdtype = facts.get("sdtype")
    if name not in given and sdtype == "id":
        return Identifier(labels=is_key)
    if name not in given and sdtype not in _SYNTHESIZED:
        raise ValueError(
            f"column {name_repr(name)} has sdtype {short_repr(sdtype)}, which is not synthesized; give it the domain Identifier(), or leave it "
            "out of the table and of the metadata."
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
        return name_column_in_errors(name, lambda: (DateTime if _has_time(facts) else Date)(*domain))
    return domain


def _left_open(facts: Mapping[str, Any]) -> Any:
    """Return the kind of a column of which metadata tell no facts."""
    sdtype = facts["sdtype"]
    if sdtype == "datetime":
        return (DateTime if _has_time(facts) else Date)(bounds="open")
    return Nominal("open") if sdtype == "categorical" else Continuous(bounds="open", integer=_is_whole(facts))


def _is_whole(facts: Mapping[str, Any]) -> bool:
    return "int" in facts.get("computer_representation", "").lower()


def _has_time(facts: Mapping[str, Any]) -> bool:
    return facts.get("datetime_format") is None or _HAS_TIME.search(facts["datetime_format"]) is not None


def _by_column(parameter: str, facts: Any) -> dict[Any, Any]:
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"{parameter} must be a dict by column, got {short_repr(facts)}; it states public facts, never learned from rows.")
    return dict(facts or {})


def _complete(columns: dict[Any, Any], unused: dict[Any, Any], nullable: Iterable[Any], parameter: str) -> dict[Any, Any]:
    """Check that every column has its facts, and make those of `nullable` so."""
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
