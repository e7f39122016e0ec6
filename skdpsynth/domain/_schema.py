"""Schemas: what is public about the columns of a mixed table, stated by the user and never inferred from rows."""

import json
import math
import numbers
import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MOST_WHOLE = 2.0**53  # whole numbers beyond it are not all floats


@dataclass(frozen=True)
class Continuous:
    """A column of numbers within public bounds.

    Parameters
    ----------
    low, high : float
        Public bounds, ``low < high``. Values outside are clipped.
    integer : bool, default=None
        Whether the numbers are whole. None: yes, if both bounds are ints.
    nullable : bool, default=False
        Whether cells may be missing. If not, a missing one counts as the midpoint.

    Raises
    ------
    ValueError
        If the bounds are not two finite numbers in order, or not whole where `integer` is true.

    Examples
    --------
    >>> from skdpsynth.domain import Continuous
    >>> Continuous(1, 99, nullable=True)
    Continuous(low=1, high=99, integer=True, nullable=True)
    """

    low: Any
    high: Any
    integer: Any = field(default=None, kw_only=True)
    nullable: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        low, high = self.low, self.high
        if not all(isinstance(bound, numbers.Real) and not isinstance(bound, bool) for bound in (low, high)):
            raise ValueError(
                f"bounds must be two numbers (low, high), got {_shown((low, high))}; they are public facts, never learned from rows."
            )
        low, high = (bound.item() if hasattr(bound, "item") else bound for bound in (low, high))
        ends = _as_float(low), _as_float(high)
        if not (-math.inf < ends[0] < ends[1] < math.inf and ends[1] - ends[0] < math.inf):
            raise ValueError(f"bounds must be finite with low < high, got ({low!r}, {high!r}); swap or correct them.")
        if self.integer not in (None, True, False):
            raise ValueError(f"integer must be None, True or False, got {_shown(self.integer)}.")
        integer = isinstance(low, int) and isinstance(high, int) if self.integer is None else bool(self.integer)
        if integer and not (low == int(low) and high == int(high) and max(abs(low), abs(high)) <= _MOST_WHOLE):
            raise ValueError(f"bounds of whole numbers must be whole and at most 2**53, got ({low!r}, {high!r}); or set integer=False.")
        low, high = (int(low), int(high)) if integer else ends
        for name, value in (("low", low), ("high", high), ("integer", integer), ("nullable", _flag(self.nullable))):
            object.__setattr__(self, name, value)

    @property
    def midpoint(self):
        """Where a missing cell goes that may not be missing (whole, if the column is)."""
        middle = self.low / 2 + self.high / 2
        return float(math.floor(middle)) if self.integer else middle


@dataclass(frozen=True)
class _Levels:
    levels: Any
    nullable: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        if isinstance(self.levels, str | bytes | Set | Mapping) or not hasattr(self.levels, "__iter__"):
            raise ValueError(f"levels must be a list, got {_shown(self.levels)}; they are public facts, never learned from rows.")
        levels = tuple(level.item() if hasattr(level, "item") else level for level in self.levels)
        strange = [level for level in levels if not _is_level(level)]
        if strange:
            raise ValueError(
                f"levels must be strings, finite numbers (whole ones of 64 bits) or booleans, got {_shown(strange[0])}; for missing cells "
                "set nullable=True."
            )
        if len(levels) < 2:
            raise ValueError(f"levels must be at least 2, got {list(levels)!r}; leave a constant column out.")
        if len(set(levels)) < len(levels):
            twice = next(level for i, level in enumerate(levels) if level in levels[:i])
            raise ValueError(f"levels must be distinct, but {twice!r} occurs twice (1, 1.0 and True are equal).")
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "nullable", _flag(self.nullable))

    @property
    def n_codes(self):
        """Number of levels, with that of a missing cell."""
        return len(self.levels) + self.nullable


class Nominal(_Levels):
    """A column of categories without an order.

    Parameters
    ----------
    levels : list of str, int, float or bool
        All that can occur, at least two: public. A value that is not among them counts as missing, or as the first if not `nullable`.
    nullable : bool, default=False
        Whether cells may be missing.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones.

    Examples
    --------
    >>> from skdpsynth.domain import Nominal
    >>> Nominal(["red", "green"], nullable=True).n_codes
    3
    """


class Ordinal(_Levels):
    """A column of categories in order; in pandas and polars it comes back as ordered categories.

    Parameters
    ----------
    levels : list of str, int, float or bool
        All that can occur, from the lowest to the highest, at least two: public. A value that is not among them counts as missing, or as
        the first if not `nullable`.
    nullable : bool, default=False
        Whether cells may be missing.

    Raises
    ------
    ValueError
        If there are fewer than two levels, or equal ones.

    Examples
    --------
    >>> from skdpsynth.domain import Ordinal
    >>> Ordinal(["low", "middle", "high"]).levels
    ('low', 'middle', 'high')
    """


_KINDS = {"continuous": Continuous, "ordinal": Ordinal, "nominal": Nominal}


class Schema(Mapping):
    """The public facts about a mixed table: the kind of each column, with its bounds or levels.

    A mapping from column to kind, so ``{**schema, "age": (0, 99)}`` changes one and a comprehension leaves some out.

    Parameters
    ----------
    columns : dict
        Of each column (its name; its number for an array) a kind: `Continuous`, `Ordinal` or `Nominal`, or short
        ``(low, high)`` (a tuple: numbers; whole if both are ints) or ``[level, ...]`` (a list: nominal).

    Raises
    ------
    ValueError
        If a column has no such kind; the message names it.

    Examples
    --------
    >>> from skdpsynth.domain import Ordinal, Schema
    >>> schema = Schema({"age": (17, 90), "school": Ordinal(["basic", "high", "college"]), "smokes": ["no", "yes"]})
    >>> schema["age"]
    Continuous(low=17, high=90, integer=True, nullable=False)
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    def __init__(self, columns):
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError(
                f"schema must be a dict of column: (low, high) or [levels], got {_shown(columns)}; it states public facts and is never "
                "inferred from rows (Schema.from_json reads a file)."
            )
        self._columns = {name: _kind_of(name, value) for name, value in columns.items()}

    def __getitem__(self, name):
        return self._columns[name]

    def __iter__(self):
        return iter(self._columns)

    def __len__(self):
        return len(self._columns)

    def __repr__(self):
        return f"Schema({self._columns!r})"

    def ordered(self, names):
        """Return the schema in the order of `names`, the columns of a table, which must be those of the schema.

        Parameters
        ----------
        names : list

        Returns
        -------
        schema : Schema
        """
        present = set(names)
        missing = [name for name in names if name not in self._columns]
        extra = [name for name in self._columns if name not in present]
        if missing or extra:
            raise ValueError(
                "schema must name the columns of X, each once, but "
                + " and ".join(
                    [f"has no entry for {_listed(missing)}"] * bool(missing) + [f"names {_listed(extra)}, which X lacks"] * bool(extra)
                )
                + "; add what is missing, or leave the columns out (X[list(schema)])."
            )
        return Schema({name: self._columns[name] for name in names})

    def to_json(self, path=None):
        """Return the schema as JSON text, or write it to a file.

        Parameters
        ----------
        path : str or path-like, default=None

        Returns
        -------
        text : str or None
        """
        columns = []
        for name, kind in self._columns.items():
            told = {"name": name, "kind": type(kind).__name__.lower()}
            if isinstance(kind, Continuous):
                told |= {"bounds": [kind.low, kind.high], "integer": kind.integer}
            else:
                told |= {"levels": list(kind.levels)}
            columns.append({**told, "nullable": kind.nullable})
        text = json.dumps({"columns": columns}, indent=1, ensure_ascii=False)
        if path is None:
            return text
        Path(path).write_text(text + "\n", encoding="utf-8")
        return None

    @classmethod
    def from_json(cls, source):
        """Read a schema from JSON.

        Parameters
        ----------
        source : path, str or dict
            A file, its text, or what it parses to: ``{"columns": [{"name": ..., "kind": "continuous", "ordinal" or "nominal",
            "bounds": [low, high], "integer": ..., "levels": [...], "nullable": ...}, ...]}``. Other keys are left aside.

        Returns
        -------
        schema : Schema
        """
        if isinstance(source, os.PathLike) or (isinstance(source, str) and not source.lstrip().startswith("{")):
            source = Path(source).read_text(encoding="utf-8")
        told = json.loads(source) if isinstance(source, str) else source
        columns = told.get("columns") if isinstance(told, Mapping) else None
        if not isinstance(columns, list) or not all(isinstance(column, Mapping) and "name" in column for column in columns):
            raise ValueError('source must hold {"columns": [{"name": ..., "kind": ...}, ...]}.')
        names = [tuple(column["name"]) if isinstance(column["name"], list) else column["name"] for column in columns]
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise ValueError(f"source must name each column once, but {twice[0]!r} occurs twice.")
        return cls({name: _named(name, lambda column=column: _from_keys(column)) for name, column in zip(names, columns, strict=True)})

    @classmethod
    def from_dtypes(cls, dtypes, public=False, bounds=None, nullable=()):
        """Read kinds and levels from the dtypes of a data frame, which must have been declared, not made from its rows.

        Parameters
        ----------
        dtypes : mapping of column to dtype
            ``frame.dtypes`` of pandas, or ``frame.schema`` of polars: never rows. A categorical dtype gives its levels
            (ordered: ordinal), a boolean one ``[False, True]``.
        public : bool, default=False
            Must be True: your word that the levels are public. ``astype("category")`` takes them from the rows, and a dtype does not
            tell.
        bounds : dict, default=None
            For every other column ``(low, high)`` (whole numbers, if both are ints and the dtype is no float) or a kind.
        nullable : list, default=()
            Columns in which cells may be missing.

        Returns
        -------
        schema : Schema
        """
        if hasattr(dtypes, "columns") or not hasattr(dtypes, "keys"):
            raise ValueError(
                f"dtypes must map columns to dtypes, got {type(dtypes).__name__}; give frame.dtypes (pandas) or frame.schema (polars)."
            )
        if public is not True:
            raise ValueError(
                f"public must be True, got {_shown(public)}: a categorical dtype may have its levels from the rows (astype('category') "
                "does), which are private; declare them, and say public=True."
            )
        bounds, columns = _by_column("bounds", bounds), {}
        for name, dtype in dict(dtypes).items():
            given = bounds.pop(name) if name in bounds else _named(name, lambda dtype=dtype: _kind_of_dtype(dtype))
            if isinstance(given, tuple) and len(given) == 2 and str(dtype).lower().startswith("float"):
                given = _named(name, lambda given=given: Continuous(*given, integer=False))
            columns[name] = given
        return cls(_complete(columns, bounds, set(nullable), "bounds"))

    @classmethod
    def from_sdv(cls, metadata, domains=None, nullable=()):
        """Read the kinds of columns from metadata of SDV, which know no bounds and no levels.

        Parameters
        ----------
        metadata : SDV metadata of one table, or the dict of it
        domains : dict, default=None
            For every numerical column ``(low, high)``, for every categorical one ``[level, ...]``; or a kind.
        nullable : list, default=()
            Columns in which cells may be missing.

        Returns
        -------
        schema : Schema
        """
        told = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata
        if not isinstance(told, Mapping):
            raise ValueError(f"metadata must be SDV metadata or the dict of it, got {type(told).__name__}.")
        tables = list(told["tables"].values()) if "tables" in told else [told]
        if len(tables) != 1 or "columns" not in tables[0]:
            raise ValueError(f"metadata must describe the columns of one table, got {len(tables)} tables; give that of one.")
        domains, columns = _by_column("domains", domains), {}
        for name, facts in tables[0]["columns"].items():
            sdtype = facts.get("sdtype")
            if name not in domains and sdtype not in ("numerical", "categorical", "boolean"):
                raise ValueError(
                    f"column {name!r} has sdtype {sdtype!r}, which is not synthesized; leave it out of the table and of the metadata, or "
                    "give its domain."
                )
            domain = domains.pop(name, [False, True] if sdtype == "boolean" else None)
            wrong = {"numerical": list, "categorical": tuple}.get(sdtype)
            if wrong is not None and isinstance(domain, wrong):
                raise ValueError(
                    f"column {name!r} is {sdtype} in metadata, got a {wrong.__name__} of domains: give (low, high) for numbers, a list for "
                    "levels, or a kind."
                )
            if sdtype == "numerical" and isinstance(domain, tuple) and len(domain) == 2 and "computer_representation" in facts:
                domain = _named(
                    name, lambda d=domain, f=facts: Continuous(*d, integer="int" in f["computer_representation"].lower() and _whole(d))
                )
            columns[name] = domain
        return cls(_complete(columns, domains, set(nullable), "domains"))


def _by_column(parameter, facts):
    if facts is not None and not isinstance(facts, Mapping):
        raise ValueError(f"{parameter} must be a dict by column, got {_shown(facts)}; it states public facts, never learned from rows.")
    return dict(facts or {})


def _complete(columns, unused, nullable, parameter):
    """Check that every column has its facts, and make those of `nullable` so."""
    lacking = [name for name, kind in columns.items() if kind is None]
    if lacking:
        raise ValueError(
            f"{parameter} must give (low, high) or levels for {_listed(lacking)}; they are public facts, never learned from rows."
        )
    unknown = [*unused, *(nullable - set(columns))]
    if unknown:
        raise ValueError(f"{parameter} and nullable must name columns of the table, got {_listed(unknown)}.")
    kinds = {name: _kind_of(name, kind) for name, kind in columns.items()}
    return {name: _nullable(kind) if name in nullable else kind for name, kind in kinds.items()}


def _nullable(kind):
    if isinstance(kind, Continuous):
        return Continuous(kind.low, kind.high, integer=kind.integer, nullable=True)
    return type(kind)(kind.levels, nullable=True)


def _kind_of(name, value):
    """Return the kind that a value of a schema stands for."""
    if isinstance(value, Continuous | Nominal | Ordinal):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return _named(name, lambda: Continuous(*value))
    if isinstance(value, list):
        if (
            len(value) == 2
            and all(isinstance(end, numbers.Real) and not isinstance(end, bool) for end in value)
            and value[1] - value[0] != 1
        ):
            raise ValueError(
                f"schema of column {name!r} is a list of two numbers: write a tuple for bounds, ({value[0]!r}, {value[1]!r}), or "
                f"Nominal({value!r}) for two levels."
            )
        return _named(name, lambda: Nominal(value))
    raise ValueError(
        f"schema must give a tuple (low, high), a list of levels, Continuous, Ordinal or Nominal for column {name!r}, got {_shown(value)}; "
        "bounds and levels are public facts, never learned from rows."
    )


def _named(name, make):
    """Call `make`; say which column an error is about."""
    try:
        return make()
    except ValueError as error:
        raise ValueError(f"schema of column {name!r}: {error}") from None


def _from_keys(column):
    kind = column.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}.")
    nullable = column.get("nullable", False)
    if kind == "continuous":
        bounds = column.get("bounds")
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise ValueError(f"bounds must be two numbers [low, high], got {bounds!r}; they are public facts, never learned from rows.")
        return Continuous(*bounds, integer=column.get("integer"), nullable=nullable)
    return _KINDS[kind](column.get("levels"), nullable=nullable)


def _kind_of_dtype(dtype):
    """Return what a dtype of pandas or polars declares, or None."""
    categories = getattr(dtype, "categories", None)
    # Those of a Categorical of polars are a pool that all its columns share, and declare nothing.
    if categories is not None and not callable(categories) and not str(dtype).startswith("Categorical"):
        return (Ordinal if getattr(dtype, "ordered", False) else Nominal)(list(categories))
    return Nominal([False, True]) if str(dtype) in ("bool", "boolean", "Boolean") else None


def _whole(bounds):
    return all(isinstance(bound, numbers.Real) and float(bound).is_integer() for bound in bounds)


def _is_level(level):
    return (
        isinstance(level, str)
        or (isinstance(level, int) and -(2**63) <= level < 2**64)
        or (isinstance(level, float) and math.isfinite(level))
    )


def _as_float(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _flag(value):
    if value not in (True, False):
        raise ValueError(f"nullable must be True or False, got {_shown(value)}.")
    return bool(value)


def _shown(value):
    """Name a value that has no place in a schema: a table or an array may hold rows, so only its type."""
    if isinstance(value, tuple):
        text = f"({', '.join(map(_shown, value))})"
    else:
        text = repr(value) if isinstance(value, str | numbers.Number | None) else type(value).__name__
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:40]}..."


def _listed(names, most=5):
    text = ", ".join(repr(name) for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")
