"""Schemas: what is public about the columns of a mixed table, stated by the user and never inferred from rows."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from skdpsynth._checks import shown
from skdpsynth._notebook import small_table
from skdpsynth.domain._forms import kind_of
from skdpsynth.domain._importers import schema_of_dtypes, schema_of_sdv
from skdpsynth.domain._kinds import listed
from skdpsynth.domain._left_out import Identifier
from skdpsynth.domain._schema_files import columns_of_file, columns_of_json, columns_of_yaml, json_of, yaml_of
from skdpsynth.domain._skeleton import skeleton_of
from skdpsynth.persistence import savable

_MOST_SHOWN = 50  # columns


@savable
class Schema(Mapping):
    """The public facts about a mixed table: the kind of each column, with its bounds or levels.

    A mapping from column to kind, so ``{**schema, "age": (0, 99)}`` changes one and a comprehension leaves some out.

    Parameters
    ----------
    columns : dict
        Of each column (its name; its number for an array) a kind: `Continuous`, `Ordinal`, `Nominal`, `Date`, `DateTime`, `Identifier` or
        `Text`; or short ``(low, high)`` (a tuple: numbers, whole if both are ints; or dates or times, also as text in ISO format) or
        ``[level, ...]`` (a list: nominal). A column name that has several parts, as in a MultiIndex of pandas, is a tuple.

    Raises
    ------
    ValueError
        If a column has no such kind; the message names it.

    See Also
    --------
    Continuous : A column of numbers.
    Nominal : A column of categories.
    Findings : What `check` returns.
    LatentFactorSynthesizer : Synthesizes tables of a schema.

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
                "inferred from rows (Schema.from_json and from_yaml read a file, Schema.from_sdv metadata of SDV)."
            )
        self._columns = {name: kind_of(name, value) for name, value in columns.items()}

    @classmethod
    def of(cls, schema: Any) -> "Schema":
        """Return the schema that a parameter `schema` stands for, wherever one is taken.

        Parameters
        ----------
        schema : Schema, dict, or the path of a file
            A file of YAML (.yaml, .yml) or JSON (.json), as `to_yaml` and `to_json` write it.

        Returns
        -------
        schema : Schema
        """
        if isinstance(schema, cls):
            return schema
        return cls(columns_of_file(schema) if isinstance(schema, str | os.PathLike) else schema)

    def __getitem__(self, name: Any) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        if len(self) <= _MOST_SHOWN:
            return f"Schema({self._columns!r})"
        first = ", ".join(f"{name!r}: {self._columns[name]!r}" for name in list(self)[:_MOST_SHOWN])
        return f"Schema({{{first}, ... {len(self)} columns}})"

    def _repr_html_(self) -> str:
        rows = [(name, kind) for name, kind in self._columns.items()]
        more = f"The first {_MOST_SHOWN} of {len(self)} columns." if len(self) > _MOST_SHOWN else ""
        return small_table(
            f"Schema of {len(self)} columns", rows[:_MOST_SHOWN], "schemas.html", heads=("column", "public facts"), more=more
        )

    @property
    def coded(self) -> "Schema":
        """The columns that mechanisms see, as numbers and levels: dates count from their lower bound, identifiers and text are left out.

        Returns
        -------
        schema : Schema
            Of `Continuous`, `Ordinal` and `Nominal` alone; this one, if it has nothing else.
        """
        columns = {name: kind.coded for name, kind in self._columns.items()}
        if all(columns[name] is kind for name, kind in self._columns.items()):
            return self
        columns = {name: kind for name, kind in columns.items() if kind is not None}
        if not columns:
            raise ValueError(f"schema must have a column that is synthesized, but all of {listed(list(self))} are left out; add another.")
        return Schema(columns)

    def ordered(self, names: Iterable[Any]) -> "Schema":
        """Return the schema in the order of `names`, the columns of a table, which must be those of the schema.

        Columns that are an `Identifier` may be lacking.

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
        extra = [name for name, kind in self._columns.items() if name not in present and not isinstance(kind, Identifier)]
        if missing or extra:
            raise ValueError(
                "schema must name the columns of X, each once, but "
                + " and ".join(
                    [f"has no entry for {listed(missing)}"] * bool(missing) + [f"names {listed(extra)}, which X lacks"] * bool(extra)
                )
                + "; add what is missing, or leave the columns out (X[list(schema)]); a column that fit takes as unit is an "
                "Identifier() or left out."
            )
        return Schema({name: self._columns[name] for name in names})

    def to_json(self, path: Any = None, *, overwrite: bool = False) -> str | None:
        """Return the schema as JSON text, or write it to a file.

        Parameters
        ----------
        path : str or path-like, default=None
        overwrite : bool, default=False
            Whether a file that holds something else may be replaced: facts that were filled in would be lost.

        Returns
        -------
        text : str or None

        Raises
        ------
        FileExistsError
            If there is a file that holds something else, and `overwrite` is false.
        """
        return _written(json_of(self), path, overwrite)

    @classmethod
    def from_json(cls, source: Any) -> "Schema":
        """Read a schema from JSON.

        Parameters
        ----------
        source : path, str or dict
            A file, its text, or what it parses to: ``{"columns": [{"name": ..., "kind": "continuous", "ordinal", "nominal", "date",
            "datetime", "identifier" or "text", "bounds": [low, high], "integer": ..., "levels": [...], "resolution": ..., "labels": ...,
            "nullable": ...}, ...]}``. In place of bounds or levels may stand "open" or "private". Other keys are left aside.

        Returns
        -------
        schema : Schema
        """
        return cls(columns_of_json(source))

    def to_yaml(self, path: Any = None, *, overwrite: bool = False) -> str | None:
        """Return the schema as YAML text, made to be edited, or write it to a file.

        It holds what `to_json` does; beside what is still open stands a comment with TODO. Needs PyYAML
        (``pip install 'skdpsynth[yaml]'``).

        Parameters
        ----------
        path : str or path-like, default=None
        overwrite : bool, default=False
            Whether a file that holds something else may be replaced: facts that were filled in would be lost.

        Returns
        -------
        text : str or None

        Raises
        ------
        FileExistsError
            If there is a file that holds something else, and `overwrite` is false.
        """
        return _written(yaml_of(self), path, overwrite)

    @classmethod
    def from_yaml(cls, source: Any) -> "Schema":
        """Read a schema from YAML.

        A level that is a word of YAML needs quotes: ``no`` and ``off`` without them are False, ``1`` is a number, ``2024-01-31`` a date.
        Needs PyYAML (``pip install 'skdpsynth[yaml]'``).

        Parameters
        ----------
        source : path or str
            A file, or its text (of several lines). The keys are those of `from_json`.

        Returns
        -------
        schema : Schema
        """
        return cls(columns_of_yaml(source))

    @classmethod
    def skeleton(cls, source: Any) -> "Schema":
        """Write down the columns of a table, each with the kind that its dtype suggests, and every bound and level left open.

        Write the result to a file (`to_yaml`), fill in what is public about each column, and read it again: `fit` refuses a schema with
        something open, and names the column.

        Parameters
        ----------
        source : path, data frame, schema of Arrow, dict of column to dtype, or any table that a fit takes
            Of a data frame (in memory or lazy), a schema and a Parquet file, names and dtypes are read, and no cell. **Of a CSV file, the
            header and the first 1000 rows** are read, to tell numbers, dates and words apart: an unprotected look, of which nothing but
            the kind of each column is kept. Check the kinds before you show them to others.

        Returns
        -------
        schema : Schema
            Numbers are `Continuous`, times `Date` or `DateTime`, truth values ``Nominal([False, True])``, words `Nominal`; what has no kind
            is `Text`. No column is nullable: a dtype does not tell, so say it where cells may be missing.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsynth.domain import Schema
        >>> Schema.skeleton({"age": np.dtype("int64"), "smokes": "bool"})
        Schema({'age': Continuous(bounds='open', integer=True, nullable=False), 'smokes': Nominal(levels=(False, True), nullable=False)})
        """
        return cls(skeleton_of(source))

    def check(self, frame: Any) -> Any:
        """Compare a table with the schema, for whoever holds the table: the result tells of its rows, and is **not private**.

        A fit says nothing about cells, because that would tell of them: numbers outside the bounds are clipped, a level "yes" where the
        schema says "Yes" counts as missing, all in silence. Call this before the fit, where you may see the rows, and keep what it says as
        secret as them. If you change bounds after what you saw, they are no longer public facts: change what is misspelt, not what is
        tight.

        Parameters
        ----------
        frame : array-like, data frame, or any table that a fit takes, such as the path of a file
            Of a table that is not in memory, chunk by chunk: levels that are told are those of the first chunk that has some.

        Returns
        -------
        findings : Findings
            Printed, a list of what stands out; ``findings.to_frame()`` gives a data frame of pandas.
        """
        from skdpsynth.domain._findings import findings_of

        return findings_of(self, frame)

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

        Columns of sdtype "id" become an `Identifier`; of primary and alternate keys, one with labels made anew.

        Parameters
        ----------
        metadata : SDV metadata of one table, or the dict of it
        domains : dict or "open", default=None
            For every numerical column ``(low, high)``, for every datetime one two dates, for every categorical one ``[level, ...]``; or
            a kind. "open": what is not known stays open, to be written in the file of the schema.
        nullable : list, default=()
            Columns in which cells may be missing.

        Returns
        -------
        schema : Schema
        """
        return cls(schema_of_sdv(metadata, domains, nullable))


def _written(text: str, path: Any, overwrite: bool) -> str | None:
    if path is None:
        return text
    file, written = Path(path), (text if text.endswith("\n") else text + "\n").encode()
    if not overwrite and file.exists() and file.read_bytes() != written:
        raise FileExistsError(
            f"path must be a new file, but {shown(str(path))} holds something else, maybe facts that were filled in; give another path, or "
            "overwrite=True."
        )
    file.write_bytes(written)
    return None
