"""Schemas from elsewhere: JSON, declared dtypes, metadata of SDV. Each gives a dict of column to kind."""

import json
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from skdpsynth._checks import is_real, shown
from skdpsynth.domain._kinds import Continuous, Nominal, Ordinal, about, as_nullable, first_twice, kind_of, listed, shown_name

_KINDS: dict[str, Any] = {"continuous": Continuous, "ordinal": Ordinal, "nominal": Nominal}
_SYNTHESIZED = ("numerical", "categorical", "boolean")
_WRONG_DOMAIN: dict[Any, type] = {"numerical": list, "categorical": tuple}  # what users mix up


def schema_of_json(source: Any) -> dict[Any, Any]:
    """Read the columns of a schema from a file, its text, or what it parses to."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{")):
        source = Path(source).read_text(encoding="utf-8")
    told = json.loads(source) if isinstance(source, str) else source
    columns = told.get("columns") if isinstance(told, Mapping) else None
    if not isinstance(columns, list) or not all(isinstance(column, Mapping) and "name" in column for column in columns):
        raise ValueError('source must hold {"columns": [{"name": ..., "kind": ...}, ...]}.')
    names = [tuple(column["name"]) if isinstance(column["name"], list) else column["name"] for column in columns]
    if strange := [name for name in names if not _is_name(name)]:
        raise ValueError(f"source must name columns by words or numbers, got {shown(strange[0])}.")
    if len(set(names)) < len(names):
        raise ValueError(f"source must name each column once, but {shown_name(first_twice(names))} occurs twice.")
    return {name: about(name, partial(_from_keys, column)) for name, column in zip(names, columns, strict=True)}


def _is_name(name: Any) -> bool:
    return all(map(_is_name, name)) if isinstance(name, tuple) else name is None or isinstance(name, str | int | float)


def _from_keys(column: Mapping[str, Any]) -> Any:
    kind, nullable = column.get("kind"), column.get("nullable", False)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {shown(kind)}.")
    if kind != "continuous":
        return _KINDS[kind](column.get("levels"), nullable=nullable)
    bounds = column.get("bounds")
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise ValueError(f"bounds must be two numbers [low, high], got {shown(bounds)}; they are public facts, never learned from rows.")
    return Continuous(*bounds, integer=column.get("integer"), nullable=nullable)


def schema_of_dtypes(dtypes: Any, public: bool, bounds: Any, nullable: Iterable[Any]) -> dict[Any, Any]:
    """Read kinds and levels from declared dtypes of a data frame."""
    if hasattr(dtypes, "columns") or not hasattr(dtypes, "keys"):
        raise ValueError(
            f"dtypes must map columns to dtypes, got {type(dtypes).__name__}; give frame.dtypes (pandas) or frame.schema (polars)."
        )
    if public is not True:
        raise ValueError(
            f"public must be True, got {shown(public)}: a categorical dtype may have its levels from the rows (astype('category') "
            "does), which are private; declare them, and say public=True."
        )
    given = _by_column("bounds", bounds)
    columns = {name: _with_dtype(name, given.pop(name, None), dtype) for name, dtype in dict(dtypes).items()}
    return _complete(columns, given, nullable, "bounds")


def _with_dtype(name: Any, given: Any, dtype: Any) -> Any:
    """Return what a dtype declares, unless a domain is given; a range of numbers in a column of floats is one of real numbers."""
    if given is None:
        return about(name, lambda: _kind_of_dtype(dtype))
    if isinstance(given, tuple) and len(given) == 2 and str(dtype).lower().startswith("float"):
        return about(name, lambda: Continuous(*given, integer=False))
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
    given = _by_column("domains", domains)
    columns = {name: _from_sdtype(name, facts, given) for name, facts in _sdv_columns(metadata).items()}
    return _complete(columns, given, nullable, "domains")


def _sdv_columns(metadata: Any) -> Mapping[Any, Any]:
    told = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
    if not isinstance(told, Mapping):
        raise ValueError(f"metadata must be SDV metadata or the dict of it, got {type(told).__name__}.")
    tables = list(told["tables"].values()) if "tables" in told else [told]
    if len(tables) != 1 or "columns" not in tables[0]:
        raise ValueError(f"metadata must describe the columns of one table, got {len(tables)} tables; give that of one.")
    return tables[0]["columns"]


def _from_sdtype(name: Any, facts: Mapping[str, Any], given: dict[Any, Any]) -> Any:
    """Return the domain of a column, taken out of those `given`."""
    sdtype = facts.get("sdtype")
    if name not in given and sdtype not in _SYNTHESIZED:
        raise ValueError(
            f"column {shown_name(name)} has sdtype {shown(sdtype)}, which is not synthesized; leave it out of the table and of the "
            "metadata, or give its domain."
        )
    domain, wrong = given.pop(name, [False, True] if sdtype == "boolean" else None), _WRONG_DOMAIN.get(sdtype)
    if wrong is not None and isinstance(domain, wrong):
        raise ValueError(
            f"column {shown_name(name)} is {sdtype} in metadata, got a {wrong.__name__} of domains: give (low, high) for numbers, a list "
            "for levels, or a kind."
        )
    if sdtype == "numerical" and isinstance(domain, tuple) and len(domain) == 2 and "computer_representation" in facts:
        whole = "int" in facts["computer_representation"].lower() and all(is_real(end) and float(end).is_integer() for end in domain)
        return about(name, lambda: Continuous(*domain, integer=whole))
    return domain


def _by_column(parameter: str, facts: Any) -> dict[Any, Any]:
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"{parameter} must be a dict by column, got {shown(facts)}; it states public facts, never learned from rows.")
    return dict(facts or {})


def _complete(columns: dict[Any, Any], unused: dict[Any, Any], nullable: Iterable[Any], parameter: str) -> dict[Any, Any]:
    """Check that every column has its facts, and make those of `nullable` so."""
    if lacking := [name for name, kind in columns.items() if kind is None]:
        raise ValueError(
            f"{parameter} must give (low, high) or levels for {listed(lacking)}; they are public facts, never learned from rows."
        )
    nullable = set(nullable)
    if unknown := [*unused, *(nullable - set(columns))]:
        raise ValueError(f"{parameter} and nullable must name columns of the table, got {listed(unknown)}.")
    kinds = {name: kind_of(name, kind) for name, kind in columns.items()}
    return {name: as_nullable(kind) if name in nullable else kind for name, kind in kinds.items()}
