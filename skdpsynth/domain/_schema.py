"""Schemas: public facts about the columns of a mixed table, stated by the user and never inferred from rows."""

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Self, TypeAlias

import numpy as np

from skdpsynth._atomic_write import output_path
from skdpsynth._serialization import require
from skdpsynth._text import html_table
from skdpsynth._validation import check_bool, list_or_none, short_repr
from skdpsynth.domain._box import BoundsLike
from skdpsynth.domain._constraints import Rule
from skdpsynth.domain._kinds import Identifier, is_name, list_names
from skdpsynth.domain._schema_files import RULES, columns_of, facts_of, json_of, read_file, read_json, read_yaml, rules_of_text, yaml_of
from skdpsynth.domain._schema_sources import columns_of_code_book, kind_of, schema_of_dtypes, schema_of_sdv, skeleton_of
from skdpsynth.domain._structural_zeros import check_rules
from skdpsynth.frames import ReadOptions, Table
from skdpsynth.persistence import savable

_MOST_SHOWN = 50  # columns


class InFiles(ABC):
    """Public facts that files of JSON and YAML hold."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """Return what a file holds."""

    @classmethod
    @abstractmethod
    def _of_facts(cls, facts: Any) -> Self:
        """Return what a file states, or refuse it."""

    def to_json(self, path: str | PathLike[str] | None = None, *, overwrite: bool = False) -> str | None:
        """Return the facts as JSON text, or write them to a file.

        Parameters
        ----------
        path : str or path-like, default=None
        overwrite : bool, default=False
            Whether a file that holds something else may be replaced: facts that were filled in would be lost.

        Raises
        ------
        FileExistsError
            If there is a file that holds something else, and `overwrite` is false.
        """
        return _write_text(json_of(self._facts()), path, overwrite)

    @classmethod
    def from_json(cls, source: object) -> Self:
        """Read the facts from JSON.

        Parameters
        ----------
        source : path, str or dict
            A file, its text, or the parsed text: ``{"columns": [{"name": ..., "kind": "continuous", "ordinal", "nominal", "boolean",
            "date", "datetime", "time", "duration", "constant", "identifier", "text" or "derived", "bounds": [low, high], "levels": [...],
            "format": ..., "nullable": ..., "missing": [...], ...}, ...], "rules": [{"rule": ..., ...}, ...], "read": {"multiline":
            true}}``, rules as `to_json` writes them. "open" or "private" may stand in place of bounds or levels. Other keys are ignored.
            A `LinkedSchema`: ``{"tables": [{"name": ..., ...}, ...], "rules": [...]}``, each table with these keys and, if it hangs on
            another, those of `Children`, and rules between tables.
        """
        return cls._of_facts(read_json(source))

    def to_yaml(self, path: str | PathLike[str] | None = None, *, overwrite: bool = False) -> str | None:
        """Return the facts as YAML text, made to be edited, or write them to a file.

        It holds the same facts as `to_json`, and a comment with TODO beside each that is still open.

        Parameters
        ----------
        path : str or path-like, default=None
        overwrite : bool, default=False
            As of `to_json`.
        """
        return _write_text(yaml_of(self._facts()), path, overwrite)

    @classmethod
    def from_yaml(cls, source: object) -> Self:
        """Read the facts from YAML.

        A level that is a word of YAML needs quotes: ``no`` and ``off`` without them are False, ``1`` is a number, ``2024-01-31`` a date.

        Parameters
        ----------
        source : path or str
            A file, or its text (of several lines). The keys are those of `from_json`.
        """
        return cls._of_facts(read_yaml(source))


@savable
class Schema(InFiles, Mapping):
    """The public facts about a mixed table: the kind of each column, with its bounds or levels.

    A mapping from column to kind, so ``{**schema, "age": (0, 99)}`` changes one and a comprehension leaves some out.

    Parameters
    ----------
    columns : dict
        From each column (its name; its number for an array; a tuple for a MultiIndex of pandas) to its kind: `Continuous`, `Ordinal`,
        `Nominal`, `Boolean`, `Date`, `DateTime`, `TimeOfDay`, `Duration`, `Constant`, `Identifier`, `Text` or `Derived`; or short
        ``(low, high)`` (a tuple: numbers, whole if both are ints; or dates or times, also as text in ISO format) or ``[level, ...]`` (a
        list: nominal).
    rules : list of rules, default=()
        Public facts that hold between the columns of each row, never taken from the rows: `Impossible`, `Determines`, `Inequality`, `Sum`,
        `MissingTogether` and `Unique`; or text such as "start <= end" (``<``: strict), "total = a + b" or "age >= 18 if smokes == 'yes'".
        All rows of a sample of `LatentFactorSynthesizer` keep them, and they cost no budget. Rows of the data that break one are counted
        as they are.
    read : dict, default=None
        How files are read, where the default does not fit. For text files: ``separator`` (a tab in .tsv and .tab, else ","), ``decimal``
        ("." or ","), ``thousands`` (a mark between groups of digits), ``encoding`` ("utf-8"), ``comment`` (a sign that begins lines that
        are no rows), ``skip`` (how many lines come before the one that names the columns) and ``multiline`` (True: cells in quotes may
        hold line breaks; the promise then assumes that every record closes its quotes, because one that does not takes others with it).
        For all files: ``columns`` (a list: no others are read). For .xlsx files: ``sheet`` (None: the first). For SQLite files: ``table``.
        For files of Stata and SPSS: ``labels`` (a list of columns whose value labels stand in place of their codes).

    See Also
    --------
    Continuous : A column of numbers.
    Nominal : A column of categories.
    Inequality : A rule.
    skdpsynth.metrics.rule_violations : How many rows break rules.
    Findings : Result of `check`.
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

    _whole: "Schema | None" = None
    _read_as: Mapping[str, Any] = {}

    def __init__(self, columns: object, rules: Iterable[Rule | str] = (), read: Mapping[str, Any] | None = None) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ValueError(
                f"schema must be a dict of column: (low, high) or [levels], got {short_repr(columns)}; it states public facts and is never "
                "inferred from rows (Schema.from_json and from_yaml read a file, Schema.from_sdv metadata of SDV)."
            )
        self._columns = {name: kind_of(name, value) for name, value in columns.items()}
        rules = columns.rules if isinstance(columns, Schema) and not rules else rules
        rules = [rules] if isinstance(rules, Rule | str) else rules
        if wrong := [rule for rule in rules if not isinstance(rule, Rule | str)] if isinstance(rules, list | tuple) else [rules]:
            raise ValueError(f"rules must be a list of {', '.join(each.__name__ for each in RULES)} or text, got {short_repr(wrong[0])}.")
        stated = [rules_of_text(rule, self, place) if isinstance(rule, str) else [rule] for place, rule in enumerate(rules, start=1)]
        self._rules = tuple(rule for some in stated for rule in some)
        self._sources = check_rules(self._columns, self._rules)
        if read := ReadOptions.of(columns.read if isinstance(columns, Schema) and read is None else read).to_dict():
            self._read_as = read

    @classmethod
    def of(cls, schema: object) -> "Schema":
        """Return the schema that a parameter `schema` stands for, wherever one is taken.

        Parameters
        ----------
        schema : Schema, dict, or the path of a file
            A file of YAML (.yaml, .yml) or JSON (.json), as `to_yaml` and `to_json` write it.
        """
        if isinstance(schema, str | os.PathLike):
            return cls._of_facts(read_file(schema))
        return schema if isinstance(schema, cls) else cls(schema)

    def _facts(self) -> dict[str, Any]:
        return facts_of(self, self._rules, self._read_as)

    @classmethod
    def _of_facts(cls, facts: Any) -> "Schema":
        return cls(*columns_of(facts))

    def __getitem__(self, name: Hashable) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        rules, read = (other._rules, other._read_as) if isinstance(other, Schema) else ((), {})
        return super().__eq__(other) and self._rules == rules and self._read_as == read

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = repr(dict(list(self.items())[:_MOST_SHOWN]))
        shown = shown if len(self) <= _MOST_SHOWN else f"{shown[:-1]}, ... {len(self)} columns}}"
        rules, read = (f", rules={list(self._rules)!r}" if self._rules else ""), (f", read={self._read_as!r}" if self._read_as else "")
        return f"Schema({shown}{rules}{read})"

    def _check_loaded(self) -> None:
        """Refuse a schema that no one states: private rows are read by it."""
        again = Schema(self._columns, self._rules if self._whole is None else (), self._read_as)
        require(again._columns == self._columns and again._sources == self._sources and again._read_as == self._read_as)
        require(self._whole is None or (isinstance(self._whole, Schema) and self._columns.keys() <= self._whole.keys()))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that hold between the columns of each row."""
        return self._rules

    @property
    def read(self) -> Mapping[str, Any]:
        """Options of reading files, where they are not the default."""
        return self._read_as

    @property
    def sources(self) -> Mapping[Any, Any]:
        """The rule or kind by which each computed column is computed, inputs first."""
        return self._sources

    @property
    def whole(self) -> "Schema":
        """The schema whose columns this has as mechanisms see them; itself, if it has all."""
        return self._whole or self

    def is_coded(self, name: object) -> bool:
        """Whether mechanisms see a column: not identifiers, text and computed columns."""
        if not is_name(name) or name not in self._columns:
            raise ValueError(f"name must be that of a column of the schema, got {short_repr(name)}; list(schema) has them.")
        return self._columns[name].coded is not None and name not in self._sources

    def with_kinds(self, columns: Mapping[Any, Any]) -> "Schema":
        """Return the same with other kinds for the same columns, bought facts for private ones."""
        return Schema(columns, self._rules, self._read_as) if self._whole is None else self._coded_as(dict(columns))

    def _coded_as(self, columns: dict[Any, Any], rules: tuple[Rule, ...] | None = None) -> "Schema":
        coded = Schema(columns, read=self._read_as)
        coded._rules, coded._whole = self._rules if rules is None else rules, self.whole
        return coded

    def _repr_html_(self) -> str:
        rows, more = list(self.items())[:_MOST_SHOWN], f"The first {_MOST_SHOWN} of {len(self)} columns." if len(self) > _MOST_SHOWN else ""
        return html_table(f"Schema of {len(self)} columns", rows, "schemas.html", heads=("column", "public facts"), more=more)

    @property
    def coded(self) -> "Schema":
        """The columns that mechanisms see, as `Continuous`, `Ordinal` and `Nominal`; this schema, if it has nothing else.

        Dates count from their lower bound on; columns that are left out or computed are not in it.
        """
        columns = {name: kind.coded for name, kind in self._columns.items() if self.is_coded(name)}
        if all(columns.get(name) is kind for name, kind in self._columns.items()):
            return self
        if not columns:
            raise ValueError(f"schema must have a column that is synthesized, but all ({list_names(list(self))}) are left out; add one.")
        return self._coded_as(columns) if self._rules else Schema(columns, read=self._read_as)

    def arrange(self, names: Iterable[Any]) -> "Schema":
        """Return the schema in the order of `names`, the columns of a table: those of the schema, but for an `Identifier`."""
        if isinstance(names, tuple | list) and list(names) == list(self._columns):
            return self
        # A series or an array of numbers with fractions is cells of a table, and not their names.
        may_be_names = hasattr(names, "get_indexer") or (isinstance(names, np.ndarray) and names.dtype.kind in "UOiu")
        listed_names = list_or_none(names) if may_be_names or not hasattr(names, "dtype") else None
        if listed_names is None or not all(map(is_name, listed_names)):
            raise ValueError(f"names must be a list of columns, got {short_repr(names)}; list their names.")
        present = set(listed_names)
        missing = [name for name in listed_names if name not in self._columns]
        extra = [name for name, kind in self._columns.items() if name not in present and not isinstance(kind, Identifier)]
        if missing or extra:
            wrong = [f"has no entry for {list_names(missing)}"] if missing else []
            wrong += [f"names {list_names(extra)}, which X lacks"] if extra else []
            raise ValueError(
                f"schema must name the columns of X, each once, but {' and '.join(wrong)}; add what is missing, or leave the columns out "
                "(X[list(schema)]); a column that fit takes as unit, or a key of linked tables, is an Identifier(), or is left out."
            )
        rules = [rule for rule in self._rules if present.issuperset(rule.columns_named)]  # of identifiers that are lacking, none
        return Schema({name: self._columns[name] for name in listed_names}, rules, self._read_as)

    @classmethod
    def skeleton(cls, source: Table, public: bool = False, read: Mapping[str, Any] | None = None) -> "Schema":
        """Write down the columns of a table, each with the kind that its dtype suggests, and every bound and level left open.

        Write the result to a file (`to_yaml`), fill in what is public about each column, and read it again: no `fit` takes an open fact.

        Parameters
        ----------
        source : path, data frame, schema of Arrow, dict of column to dtype, or any table that a fit takes
            Most give names and dtypes, also a code book of DDI (.xml), a file of Parquet, Stata or SPSS, and metadata of CSVW beside a text
            file: no cell is read. **From another text file, a sheet or SQLite, the header and the first 1000 rows** are read, to tell
            numbers, dates and words apart: an unprotected look, of which nothing but the kind of each column is kept. Check the kinds
            before you show them to others.
        public : bool, default=False
            Your word that categories of dtypes, value labels (Stata, SPSS), and lists and bounds in metadata (CSVW, DDI) are public: they
            are then written down as levels and bounds. Categories that somebody took from the rows are not.
        read : dict, default=None
            How the file is read, as in `Schema`. For a text file, the separator, the encoding, the comment sign and the lines above the
            header are found in the first lines, unless they are given here. A decimal mark stays open where semicolons separate cells.

        Returns
        -------
        schema : Schema
            Numbers are `Continuous`, times `Date`, `DateTime`, `TimeOfDay` or `Duration`, truth values ``Nominal([False, True])``, words
            `Nominal`, columns called id, patient_id or the like `Identifier`, and all else is `Text`. No column is nullable: a dtype does
            not tell, so say it where cells may be missing.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsynth.domain import Schema
        >>> Schema.skeleton({"age": np.dtype("int64"), "smokes": "bool"})
        Schema({'age': Continuous(bounds='open', integer=True, nullable=False), 'smokes': Nominal(levels=(False, True), nullable=False)})
        """
        columns, read = skeleton_of(source, check_bool("public", public), read)
        return cls(columns, read=read)

    @classmethod
    def from_codebook(cls, path: str | PathLike[str], labels: bool = False, read: Mapping[str, Any] | None = None) -> "Schema":
        r"""Read the kinds of columns from a code book: a table of variables, values and labels.

        Parameters
        ----------
        path : path
            A table (.csv, .xlsx, ...) with the columns ``variable``, ``value`` and ``label``, a row for each value, and, where you like,
            ``kind``, ``low``, ``high``, and others of a file of a schema. Or .yaml or .json: a list of dicts with these keys, ``values``
            (a list, or a dict from value to label) among them. A variable with values is nominal, one with bounds continuous, or of dates;
            one without facts stays open, or is an identifier by its name.
        labels : bool, default=False
            Whether the table has the labels in its cells, and not the values.
        read : dict, default=None
            How files of the table are read, as in `Schema`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skdpsynth.domain import Schema
        >>> book = "variable,value,label,low,high\nage,,,0,99\nsex,1,male,,\nsex,2,female,,\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "book.csv").write_text(book)
        ...     schema = Schema.from_codebook(Path(folder, "book.csv"))
        >>> schema["sex"]
        Nominal(levels=(1, 2), nullable=False)
        """
        columns, rules, _ = columns_of({"columns": columns_of_code_book(path, check_bool("labels", labels))})
        return cls(columns, rules, read)

    def check(self, frame: Table) -> Any:
        """Compare a table that you hold with the schema: the result tells about its rows, and is **not private**.

        A fit says nothing about cells, because that would reveal them: numbers outside the bounds are clipped, a level "yes" where the
        schema says "Yes" counts as missing. Call this before, where you may see the rows, and keep the result as secret as them. Bounds
        that you change after looking are no longer public facts: correct misspelt facts, not tight ones.

        Parameters
        ----------
        frame : array-like, data frame, or any table that a fit takes, such as the path of a file
            A table that is not in memory is read chunk by chunk; unknown levels are shown from the first chunk that has some.

        Returns
        -------
        findings : Findings
            Printed, a list of the problems; ``findings.to_frame()`` gives a data frame of pandas.
        """
        from skdpsynth.tables import findings_of

        return findings_of(self, frame)

    @classmethod
    def from_dtypes(cls, dtypes: object, public: bool = False, bounds: BoundsLike = None, nullable: Iterable[Any] = ()) -> "Schema":
        """Read kinds and levels from the dtypes of a data frame, which must have been declared, not made from its rows.

        Parameters
        ----------
        dtypes : mapping of column to dtype
            ``frame.dtypes`` of pandas, or ``frame.schema`` of polars: never rows. A categorical dtype gives its levels
            (ordered: ordinal), a boolean one ``[False, True]``.
        public : bool, default=False
            Must be True: your word that the levels are public. ``astype("category")`` takes them from the rows, and a dtype does not
            show it.
        bounds : dict, default=None
            For every other column ``(low, high)`` (whole numbers, if both are ints and the dtype is no float) or a kind.
        nullable : list, default=()
            Columns in which cells may be missing.
        """
        return cls(schema_of_dtypes(dtypes, public, bounds, nullable))

    @classmethod
    def from_sdv(cls, metadata: object, domains: object = None, nullable: Iterable[Any] = ()) -> "Schema":
        """Read the kinds of columns from metadata of SDV, which have no bounds and no levels.

        Columns of sdtype "id" become an `Identifier`, with labels made anew if they are primary or alternate keys.

        Parameters
        ----------
        metadata : SDV metadata of one table, or the dict of it
        domains : dict or "open", default=None
            For every numerical column ``(low, high)``, for every datetime one two dates, for every categorical one ``[level, ...]``; or
            a kind. "open": facts that are not known stay open, to be written in the file of the schema.
        nullable : list, default=()
            Columns in which cells may be missing.
        """
        return cls(schema_of_sdv(metadata, domains, nullable))


def _write_text(text: str, path: str | PathLike[str] | None, overwrite: bool) -> str | None:
    if path is None:
        return text
    check_bool("overwrite", overwrite)
    file, written = output_path(path), (text if text.endswith("\n") else text + "\n").encode()
    if not overwrite and file.exists() and file.read_bytes() != written:
        raise FileExistsError(
            f"path must be a new file, but {short_repr(str(path))} holds something else, maybe facts that were filled in; give another "
            "path, or overwrite=True."
        )
    file.write_bytes(written)
    return None


SchemaLike: TypeAlias = Schema | dict[Any, Any] | str | os.PathLike[str]  # the types that `Schema.of` takes
