"""Units of privacy: whose row is whose.

Rows without a label are left out, because nobody could say whose they are: to keep them would protect no one, and to refuse them would
tell of one.
"""

import numbers
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdpsynth._validation import as_array, is_integer, short_repr
from skdpsynth.frames._csv import MISSING_WORDS
from skdpsynth.frames._open_source import open_source
from skdpsynth.frames._source import ChunkedSource
from skdpsynth.frames._table_kind import column_names, eager_frame, is_pandas, to_native, without_odd_text, without_odd_texts, without_rows

_SEVERAL = 2.0**53  # from here on a float stands for several whole numbers: whose row it is, it does not say
_WANTED = "unit must be the name of a column of X, or an array-like with the label of each row"


class FirstRows:
    """Which rows of a stream count: the first ones of each unit, by arrival.

    The order of a stream is public, and so which rows of a unit count follows from that unit alone: whatever rows others bring, none of
    them takes the place of another's.
    """

    def __init__(self, most: int, before: dict[Any, int] | None = None) -> None:
        self.most, self.before = most, before or {}  # how many were kept of each unit earlier; it is not changed
        self.latest = dict[Any, int]()  # how many were kept, of the units of this reading; as secret as the labels

    def kept(self, labels: Sequence[Any]) -> np.ndarray:
        """Return which of the next rows are kept, as booleans of shape (n_rows,)."""
        kept = np.zeros(len(labels), dtype=bool)
        for place, label in enumerate(labels):
            if is_missing(label):
                continue
            unit = _unit_of(label)
            count = self.latest.get(unit, self.before.get(unit, 0))
            if count < self.most:
                self.latest[unit] = count + 1
                kept[place] = True
        return kept


def _unit_of(label: Any) -> Any:
    """Return what tells a unit from all others: a text, or, where only Python can tell it, the label itself."""
    try:
        return exact_word(label).decode("latin-1")
    except Exception:
        return label


def exact_word(label: Any) -> bytes:
    """Return bytes of a label that is not missing: equal labels have equal ones, whatever holds them and in every process.

    A number and the text of it are one label, because a file of text knows no other. Raises where only Python can tell what is equal: of
    numbers of thousands of digits, infinities and objects of other kinds.
    """
    if type(label) is int:  # most labels are, or words
        return b"%d" % label
    if isinstance(label, bytes):
        return label
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, complex) and not label.imag:
        label = label.real
    if isinstance(label, str):
        return label.encode("utf-8", "surrogatepass")
    if isinstance(label, tuple):
        return b"".join(b"%d:%b" % (len(word), word) for word in map(exact_word, label))
    if isinstance(label, numbers.Real | Decimal):
        whole = int(label)  # type: ignore[arg-type]
        return b"%d" % whole if whole == label else repr(float(label)).encode()
    if isinstance(label, datetime) and label.tzinfo is not None:
        label = label.astimezone(UTC)
    if isinstance(label, date):
        return label.isoformat().encode()
    raise TypeError("a label of another kind")


def is_missing(label: Any) -> bool:
    """Whether a label names nobody: it is missing, cannot be told from others, or is a float that stands for several whole numbers."""
    if label is None or type(label).__name__ == "NAType":
        return True
    try:
        hash(label)
        return bool(label != label) or (isinstance(label, float | np.floating) and abs(float(label)) >= _SEVERAL)
    except Exception:  # a list, a signaling NaN: an error would tell that there is one
        return True


class UnitTable(ChunkedSource):
    """A table that is not in memory and has labels: all of its rows, without the column of labels.

    Rows that lie with others (Dask, Spark, a database) are read here. `unit` is a column, which is left out, or the labels of all rows.
    """

    def __init__(self, source: ChunkedSource, unit: Any) -> None:
        self._source, self._unit, self._by_column = source, unit, is_column(unit)
        self.is_text, self.decimal, self.has_order = source.is_text, source.decimal, source.has_order
        kind, head = source.kind, source.head
        if self._by_column:
            kind, head = kind.without(_place(kind.columns, unit)), without_rows(_split(head, unit)[0])
        super().__init__(source.name, head, kind, library=source.library)

    def _read(self) -> Iterator[Any]:
        with closing(self.labeled()) as chunks:
            for chunk, _ in chunks:
                yield chunk

    def labeled(self) -> Generator[tuple[Any, Sequence[Any]], None, None]:
        """Yield the rows from the start, in tables of the form of this source, with their labels."""
        start = 0
        with closing(self._source.chunks()) as chunks:
            for chunk in chunks:
                stop = start + chunk.shape[0]
                chunk, labels = _split(chunk, self._unit) if self._by_column else (chunk, self._unit[start:stop])
                if self.is_text and self._by_column:
                    labels = [None if label in MISSING_WORDS else label for label in labels]
                start = stop
                if len(labels) < chunk.shape[0]:
                    raise _other_length()
                yield chunk, labels
        if not self._by_column and start < len(self._unit):
            raise _other_length()


def split_units(X: Any, unit: Any, **reading: Any) -> tuple[Any, list[Any] | None]:
    """Return a table without its column of labels, and the labels.

    `reading` goes to `open_source`. A table that is not in memory becomes a `UnitTable`, without labels; of one in memory there is a list
    of labels, None where a row has none.
    """
    source = open_source(X, **reading)
    if not source.is_readable:
        raise TypeError(
            "unit must be None where rows lie elsewhere, because they are summed there; keep at most max_rows_per_unit rows of each unit "
            "in one place, and fit there."
        )
    # The name of a column within a list would be the label of one row.
    if isinstance(unit, list | tuple) and len(unit) == 1 and isinstance(unit[0], str) and unit[0] in (column_names(source.head) or ()):
        raise ValueError(f"{_WANTED}, got {short_repr(unit)}; give unit={short_repr(unit[0])}.")
    unit = unit if is_column(unit) else _label_list(unit)
    if not source.in_memory:
        if not (is_column(unit) or source.has_order):
            raise ValueError(
                "unit must be the name of a column where X is a lazy frame or query, whose rows have no stated order, got labels of "
                "rows; select the column of labels too."
            )
        return UnitTable(source, unit), None
    return _split(X, unit) if is_column(unit) else (X, unit)


def drop_unit(X: Any, unit: Any) -> Any:
    """Return a table without its column of labels, if it has one; with all its rows."""
    if not is_column(unit):
        return X
    source = open_source(X)
    return _split(X, unit)[0] if source.in_memory else UnitTable(source, unit)


def is_column(unit: Any) -> bool:
    """Whether labels are given as the name or number of a column."""
    return isinstance(unit, str) or is_integer(unit, 0)


def name_of_unit(unit: Any) -> str:
    """Return what a ledger calls a unit: the name of the column or series, which are public."""
    if isinstance(unit, str):
        return unit
    if is_column(unit):
        return f"column {int(unit)}"
    name = getattr(unit, "name", None)
    return name if isinstance(name, str) and name else "given labels"


def check_length(labels: Sequence[Any], n_samples: int | None) -> None:
    """Refuse labels that are not one for each row."""
    if len(labels) != n_samples:
        raise _other_length()


def _other_length() -> ValueError:
    return ValueError(f"{_WANTED}, but there are more or fewer labels than rows; give one for each row.")


def _place(columns: Sequence[Any], unit: Any) -> int:
    """Return which of some columns holds the labels."""
    if unit not in columns:
        raise ValueError(f"{_WANTED}, got {short_repr(unit)}, which is no column; correct the name.")
    if len(columns) < 2:
        raise ValueError(f"X must have a column beside that of the units, {short_repr(unit)}; give the columns to be learned too.")
    return list(columns).index(unit)


def _split(X: Any, unit: Any) -> tuple[Any, list[Any]]:
    """Return a table in memory without a column, and its cells."""
    X = without_odd_texts(to_native(X))
    if isinstance(X, np.ndarray) and X.ndim == 2:
        place = _place(range(X.shape[1]), unit)
        return np.delete(X, place, axis=1), _label_list(X[:, place])
    if is_pandas(X):
        _place(list(X.columns), unit)
        return X.drop(columns=[unit]), _label_list(X[unit])
    frame = None if issparse(X) else eager_frame(X)
    if frame is None:
        raise TypeError(f"{_WANTED}, got {short_repr(unit)} for a {type(X).__name__}, which has no columns by name; give the labels.")
    _place(frame.columns, unit)
    return frame.drop(unit).to_native(), frame[unit].to_list()


def _label_list(unit: Any) -> list[Any]:
    """Return an array-like of labels as a list of plain objects, None where a label is missing."""
    unit = without_odd_text(unit)
    if hasattr(unit, "notna") and hasattr(unit, "where"):  # pandas
        unit = unit.tolist() if getattr(unit, "dtype", None) == np.dtype(object) else unit.astype(object).where(unit.notna(), None)
    if to_list := getattr(unit, "to_pylist", None) or getattr(unit, "to_list", None):  # of Arrow, polars and pandas
        return to_list()
    if isinstance(unit, np.ma.MaskedArray):
        unit = np.where(np.ma.getmaskarray(unit), np.array(None), unit.data.astype(object))
    if isinstance(unit, list | tuple):
        return list(unit)
    labels = as_array(unit)
    if labels.ndim != 1:
        got = f"an array of shape {labels.shape}" if labels.ndim else f"a {type(unit).__name__}"
        raise ValueError(f"{_WANTED}, got {got}; give one column.")
    if labels.dtype.kind in "mM":  # whole numbers tell times apart, and objects would not always
        return np.where(np.isnat(labels), np.array(None), labels.astype("int64").astype(object)).tolist()
    return labels.tolist()
