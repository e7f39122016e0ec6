"""Schemas: what is public about the columns of a mixed table, stated by the user and never inferred from rows."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from skdpsynth._checks import shown
from skdpsynth.domain._importers import schema_of_dtypes, schema_of_json, schema_of_sdv
from skdpsynth.domain._kinds import Continuous, kind_of, listed
from skdpsynth.persistence import savable


@savable
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

    def __init__(self, columns: Any) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError(
                f"schema must be a dict of column: (low, high) or [levels], got {shown(columns)}; it states public facts and is never "
                "inferred from rows (Schema.from_json reads a file)."
            )
        self._columns = {name: kind_of(name, value) for name, value in columns.items()}

    def __getitem__(self, name: Any) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Schema({self._columns!r})"

    def ordered(self, names: Iterable[Any]) -> "Schema":
        """Return the schema in the order of `names`, the columns of a table, which must be those of the schema.

        Parameters
        ----------
        names : list

        Returns
        -------
        schema : Schema
        """
        names = list(names)
        present = set(names)
        missing = [name for name in names if name not in self._columns]
        extra = [name for name in self._columns if name not in present]
        if missing or extra:
            raise ValueError(
                "schema must name the columns of X, each once, but "
                + " and ".join(
                    [f"has no entry for {listed(missing)}"] * bool(missing) + [f"names {listed(extra)}, which X lacks"] * bool(extra)
                )
                + "; add what is missing, or leave the columns out (X[list(schema)])."
            )
        return Schema({name: self._columns[name] for name in names})

    def to_json(self, path: Any = None) -> str | None:
        """Return the schema as JSON text, or write it to a file.

        Parameters
        ----------
        path : str or path-like, default=None

        Returns
        -------
        text : str or None
        """
        text = json.dumps({"columns": [_to_keys(name, kind) for name, kind in self._columns.items()]}, indent=1, ensure_ascii=False)
        if path is None:
            return text
        Path(path).write_text(text + "\n", encoding="utf-8")
        return None

    @classmethod
    def from_json(cls, source: Any) -> "Schema":
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
        return cls(schema_of_json(source))

    @classmethod
    def from_dtypes(cls, dtypes: Any, public: bool = False, bounds: Any = None, nullable: Iterable[Any] = ()) -> "Schema":
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
        return cls(schema_of_dtypes(dtypes, public, bounds, nullable))

    @classmethod
    def from_sdv(cls, metadata: Any, domains: Any = None, nullable: Iterable[Any] = ()) -> "Schema":
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
        return cls(schema_of_sdv(metadata, domains, nullable))


def _to_keys(name: Any, kind: Any) -> dict[str, Any]:
    facts = {"bounds": [kind.low, kind.high], "integer": kind.integer} if isinstance(kind, Continuous) else {"levels": list(kind.levels)}
    return {"name": name, "kind": type(kind).__name__.lower(), **facts, "nullable": kind.nullable}
