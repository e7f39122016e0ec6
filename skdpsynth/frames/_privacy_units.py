"""Units of privacy: whose row is whose, and contribution bounding, the k rows of each unit that count.

Rows without a label are left out, because nobody could say whose they are: to keep them would protect no one, and to refuse them would
tell of one.

The rows of a unit that count are its k rows of least keyed hash, in whatever order they come. The hash is of the unit's label, of the
row's cells as the estimator reads them, and of how many equal rows of the unit stand before it; its key is drawn for each fit.

*Sensitivity.* For each key, which rows of a unit count, as a multiset of cells, is a function of the multiset of that unit's rows and of
its label: rows of others are not looked at, and no order is, since equal rows are interchangeable and numbered from 0 to their number less
one in any order. So with the key fixed, and it is drawn before any row is looked at, tables that differ in one unit differ, once cut, in at
most k rows: k of them come or go, or k are replaced by as many. The laws of all mechanisms for k rows hold for each key, hence for a
random one. Privacy needs no more of the hash: who knows its function and even its key learns nothing but which of the rows count. That the
key is secret and the function pseudorandom makes the choice uniform among the rows of a unit, and those of two units independent: nobody
can prepare rows that are preferred.

Two different rows, or two units, that had equal hashes would be taken for one. For n of them that happens with a probability of at most
n^2 / 2^129, which is 10^-19 for 10^10.

*Cells as read.* The choice is made once in a fit, before bounds or levels are bought, of cells as they are read until then. So it does not
depend on a release, and all releases of a fit are of the same rows: what was bought and what is counted by it are moved by the same k.

*Hash.* SipHash-2-4 of 128 bits, of many rows of words at once, a pseudorandom function (Aumasson and Bernstein, 2012): without its key
nobody tells its values from independent uniform ones.
"""

import numbers
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from skdpsynth._validation import as_array, is_integer, short_repr
from skdpsynth.frames._csv import MISSING_WORDS
from skdpsynth.frames._dtypes import Cell, Table
from skdpsynth.frames._open_source import open_source
from skdpsynth.frames._source import Chunk, ChunkedSource, Rows, Source, n_rows_of, take_rows
from skdpsynth.frames._table_kind import TableKind, column_names, eager_frame, is_pandas, to_native, without_odd_text, without_rows

Unit: TypeAlias = Any  # the name or number of a column, or an array-like with the label of each row

KEY_OF_CHOICE = 64  # bytes
_SEVERAL = 2.0**53  # from here on a float stands for several whole numbers: whose row it is, it does not say
_WANTED = "unit must be the name of a column of X, or an array-like with the label of each row"
_AT_ONCE = 1 << 20  # rows of which hashes are compared at once, or wait to be counted
_START = tuple(map(np.uint64, (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)))  # as published
_HASHED_AT_ONCE = 1 << 14  # rows: what is worked on stays in the cache of a core
_MOST_CELLS = 1 << 20
_MOST_DIGITS = 5000  # of a number: Python writes none of so many


class FirstRows:
    """Which rows of a stream count: the first ones of each unit, by arrival.

    The order of a stream is public, and so which rows of a unit count follows from that unit alone: whatever rows others bring, none of
    them takes the place of another's.
    """

    def __init__(self, most: int, before: dict[Any, int] | None = None) -> None:
        self.most, self.before = most, before or {}  # how many were kept of each unit earlier; it is not changed
        self.latest = dict[Any, int]()  # how many were kept, of the units of this reading; as secret as the labels

    def mask(self, labels: Sequence[Any]) -> np.ndarray:
        """Return which of the next rows are kept, as booleans of shape (n_rows,)."""
        kept = np.zeros(len(labels), dtype=bool)
        for place, label in enumerate(labels):
            if is_missing(label):
                continue
            try:  # what tells a unit from all others: a text, or, where only Python can tell it, the label itself
                unit = exact_word(label).decode("latin-1")
            except Exception:
                unit = label
            count = self.latest.get(unit, self.before.get(unit, 0))
            if count < self.most:
                self.latest[unit] = count + 1
                kept[place] = True
        return kept


def exact_word(label: Cell) -> bytes:
    """Return bytes of a label that is not missing: equal labels have equal ones, whatever holds them and in every process.

    A number and the text of it are one label, because a file of text knows no other. A fraction has the text of a float that is equal to
    it, or that is written so, and else its own: two that round to one float are two labels. Raises where only Python can tell what is
    equal: of numbers of thousands of digits, infinities and objects of other kinds.
    """
    if type(label) is int:  # most labels are, or words
        return b"%d" % label
    if isinstance(label, bytes):
        return label.replace(b"\xff", b"\xff\xff")  # one alone, which is in no text, marks what is none
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, complex) and not label.imag:
        label = label.real
    if isinstance(label, str):
        return label.encode("utf-8", "surrogatepass")
    if isinstance(label, tuple):
        return b"\xff(" + b"".join(b"%d:%b" % (len(word), word) for word in map(exact_word, label))
    if isinstance(label, numbers.Real | Decimal):
        if isinstance(label, Decimal) and abs(label.adjusted()) > _MOST_DIGITS:
            raise ValueError("a number of thousands of digits")
        whole = int(label)  # type: ignore[arg-type]
        if whole == label:
            return b"%d" % whole
        text = repr(float(label))
        if isinstance(label, float) or label == float(text):
            return text.encode()
        exact = Fraction(*label.as_integer_ratio())  # type: ignore[union-attr]
        return (text if exact == Fraction(text) else str(exact)).encode()
    if isinstance(label, datetime) and label.tzinfo is not None:
        label = label.astimezone(UTC)
    if isinstance(label, date):
        return label.isoformat().encode()
    raise TypeError("a label of another kind")


def is_missing(label: Cell) -> bool:
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

    def __init__(self, source: ChunkedSource, unit: Unit) -> None:
        self._source, self._unit, self._by_column = source, unit, is_column(unit)
        self.is_text, self.decimal, self.has_order = source.is_text, source.decimal, source.has_order
        kind, head = source.kind, source.head
        if self._by_column:
            place, head = _place(kind.columns, unit), without_rows(_split(head, unit)[0])
            columns, dtypes = ((*each[:place], *each[place + 1 :]) for each in (kind.columns, kind.dtypes))
            kind = TableKind(kind.library, tuple(range(len(columns))) if kind.names is None else columns, dtypes)
        super().__init__(source.name, head, kind=kind, library=source.library)

    def _read_tables(self) -> Iterator[Any]:
        with closing(self.read_labeled()) as chunks:
            for chunk, _ in chunks:
                yield chunk

    def read_labeled(self) -> Generator[tuple[Any, Sequence[Any]], None, None]:
        """Yield the rows from the start, in tables of the form of this source, with their labels."""
        start = 0
        with closing(self._source.chunks()) as chunks:
            for chunk in chunks:
                stop = start + chunk.shape[0]
                chunk, labels = _split(chunk, self._unit) if self._by_column else (chunk, self._unit[start:stop])
                if self.is_text and self._by_column:
                    labels = [None if label in MISSING_WORDS else label for label in labels]
                start = stop
                check_length(labels, chunk.shape[0])
                yield chunk, labels
        if not self._by_column:
            check_length(self._unit, start)


def split_units(X: Table, unit: Unit, **reading: Any) -> tuple[Any, list[Any] | None]:
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
    unit = unit if is_column(unit) else label_list(unit)
    if not source.in_memory:
        if not (is_column(unit) or source.has_order):
            raise ValueError(
                "unit must be the name of a column where X is a lazy frame or query, whose rows have no stated order, got labels of "
                "rows; select the column of labels too."
            )
        return UnitTable(source, unit), None
    return _split(X, unit) if is_column(unit) else (X, unit)


def drop_unit(X: Table, unit: Unit) -> Any:
    """Return a table without its column of labels, if it has one; with all its rows."""
    if not is_column(unit):
        return X
    source = open_source(X)
    return _split(X, unit)[0] if source.in_memory else UnitTable(source, unit)


def is_column(unit: Unit) -> bool:
    return isinstance(unit, str) or is_integer(unit, 0)


def name_of_unit(unit: Unit) -> str:
    """Return what a ledger calls a unit: the name of the column or series, which are public."""
    if isinstance(unit, str):
        return unit
    if is_column(unit):
        return f"column {int(unit)}"
    name = getattr(unit, "name", None)
    return name if isinstance(name, str) and name else "given labels"


def check_length(labels: Sequence[Any], n_samples: int | None) -> None:
    if len(labels) != n_samples:
        raise ValueError(f"{_WANTED}, but there are more or fewer labels than rows; give one for each row.")


def _place(columns: Sequence[Any], unit: Unit) -> int:
    if unit not in columns:
        raise ValueError(f"{_WANTED}, got {short_repr(unit)}, which is no column; correct the name.")
    if len(columns) < 2:
        raise ValueError(f"X must have a column beside that of the units, {short_repr(unit)}; give the columns to be learned too.")
    return list(columns).index(unit)


def _split(X: Table, unit: Unit) -> tuple[Any, list[Any]]:
    """Return a table in memory without a column, and its cells."""
    X = without_odd_text(to_native(X))
    if isinstance(X, np.ndarray) and X.ndim == 2:
        place = _place(range(X.shape[1]), unit)
        return np.delete(X, place, axis=1), label_list(X[:, place])
    if is_pandas(X):
        _place(list(X.columns), unit)
        return X.drop(columns=[unit]), label_list(X[unit])
    frame = None if issparse(X) else eager_frame(X)
    if frame is None:
        raise TypeError(f"{_WANTED}, got {short_repr(unit)} for a {type(X).__name__}, which has no columns by name; give the labels.")
    _place(frame.columns, unit)
    return frame.drop(unit).to_native(), frame[unit].to_list()


def label_list(unit: Unit) -> list[Any]:
    """Return an array-like of labels as a list of plain objects."""
    unit = without_odd_text(unit)
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


# Contribution bounding


def bound_contributions(rows: Rows, labels: Sequence[Any] | None, most: int, key: bytes) -> Rows:
    """Return of each unit as many rows as may count, in the order of the table.

    Rows are as an estimator reads them: in memory, with a label of each, or of a `UnitTable`, which is read once here.
    """
    choice = _Choice(most, key)
    if rows.source.in_memory:
        check_length(labels or [], rows.n_samples)
        return rows.only(choice.of_table(rows.collect(), labels or []))
    # A reading holds 32 bytes for each row that differs from all others of its unit.
    different, pending, n_pending = tuple(np.empty(0, dtype) for dtype in (np.int64, np.uint64, np.uint64, np.int64)), [], 0
    for numbers_, cells in choice.read(rows):
        pending.append((numbers_, *choice.hashes(numbers_, cells), np.ones(len(numbers_), dtype=np.int64)))
        n_pending += len(numbers_)
        if n_pending > max(_AT_ONCE, len(different[0])):
            different, pending, n_pending = _merge_equal_rows([different, *pending]), [], 0
    units, high, low, n_equal = _merge_equal_rows([different, *pending])
    counts = choice.counts(choice.merge_labels(units), high, low, n_equal)
    some = counts > 0
    chosen = ChosenRows(rows, choice, high[some], low[some], counts[some])
    return replace(rows, source=chosen, maps=(), n_samples=chosen.n_samples)


class ChosenRows(Source):
    """The rows that count of a table that is not in memory, as an estimator reads them: all rows of a `UnitTable`, and hashes of those.

    Of equal rows of a unit those count that come first in a reading, as many as were chosen. The labels of all units are in memory, and 32
    bytes for each row that counts.
    """

    def __init__(self, rows: Rows, choice: "_Choice", high: np.ndarray, low: np.ndarray, counts: np.ndarray) -> None:
        order = _runs_of_equal_pairs(high, low)[0]  # all of them differ
        self._rows, self._choice, self.head = rows, choice, rows.source.head
        self.has_order, self.is_text, self.decimal = rows.source.has_order, rows.source.is_text, rows.source.decimal
        self._high, self._low, self._counts = high[order], low[order], counts[order]
        # Equal first words stand together; there is hardly ever more than one.
        self._n_alike = int(np.diff(np.flatnonzero(np.diff(self._high, prepend=0) != 0), append=len(order)).max(initial=1))
        self.n_samples = int(counts.sum())

    def chunks(self, n_rows: int | None = None) -> Iterator[Chunk]:
        left = self._counts.copy()
        for numbers_, cells in self._choice.read(self._rows):
            high, low = self._choice.hashes(numbers_, cells)
            found, first = np.full(len(high), -1), np.searchsorted(self._high, high)
            for step in range(self._n_alike if len(self._high) else 0):
                at = np.minimum(first + step, len(self._high) - 1)
                found = np.where((self._high[at] == high) & (self._low[at] == low), at, found)
            places = np.flatnonzero(found >= 0)
            places = places[np.argsort(found[places], kind="stable")]
            kinds, starts, n_equal = np.unique(found[places], return_index=True, return_counts=True)
            taken = np.minimum(left[kinds], n_equal)
            left[kinds] -= taken
            yield take_rows(cells, np.sort(places[_ranks(starts, len(places)) < np.repeat(taken, n_equal)]))
        if left.any():
            raise ValueError("X must give the same rows whenever it is read, but gave others; copy it first.")


class _Choice:
    def __init__(self, most: int, key: bytes) -> None:
        self._most, self._of_copies = most, key[:16]
        self._units, self._hash = Digests(key[16:32], _word_of_lookup), RowHash(key[32:])

    def numbers_of(self, labels: Sequence[Any]) -> np.ndarray:
        """Return the number of the unit of each row, -1 where it is nobody's."""
        return self._units.numbers_of(_lookups(labels))

    def hashes(self, numbers_: np.ndarray, cells: Chunk) -> tuple[np.ndarray, np.ndarray]:
        return self._hash([*np.ascontiguousarray(self._units.pairs(numbers_).T)], cells)

    def read(self, rows: Rows) -> Iterator[tuple[np.ndarray, Chunk]]:
        """Yield the rows of a table that are somebody's, with the numbers of their units."""
        labeled: Any = rows.source  # a `UnitTable`
        with closing(labeled.read_labeled()) as chunks:
            for chunk, labels in chunks:
                numbers_ = self.numbers_of(labels)
                has_unit = np.flatnonzero(numbers_ >= 0)
                yield numbers_[has_unit], take_rows(rows.apply_maps(chunk), has_unit)

    def of_table(self, cells: Chunk, labels: Sequence[Any]) -> np.ndarray:
        """Return which rows of a table in memory count, as booleans."""
        units = self.merge_labels(self.numbers_of(labels))
        chosen = units >= 0
        sizes = np.bincount(units[chosen], minlength=len(self._units) + 1)
        crowded = np.flatnonzero(sizes[units] > self._most)  # the others have no choice; -1 stands for the last, of which there is none
        units = units[crowded]
        high, low = self.hashes(units, take_rows(cells, crowded))
        order, starts = _runs_of_equal_pairs(high, low)
        n_equal, first = np.diff(starts, append=len(order)), order[starts]
        counts = self.counts(units[first], high[first], low[first], n_equal)
        chosen[crowded[order]] = _ranks(starts, len(order)) < np.repeat(counts, n_equal)
        return chosen

    def merge_labels(self, numbers_: np.ndarray) -> np.ndarray:
        """Return one number of each unit where several labels are its own, such as 7 and "7"."""
        high, low = np.ascontiguousarray(self._units.pairs(np.arange(len(self._units))).T)
        order, starts = _runs_of_equal_pairs(high, low)
        if len(starts) == len(order):
            return numbers_
        one_of_all = np.empty(len(order) + 1, dtype=np.int64)
        one_of_all[order] = np.repeat(order[starts], np.diff(starts, append=len(order)))
        one_of_all[-1] = -1
        return one_of_all[numbers_]

    def counts(self, units: np.ndarray, high: np.ndarray, low: np.ndarray, n_equal: np.ndarray) -> np.ndarray:
        """Return how many of each of some different rows count, of which a unit has so many equal ones."""
        sizes = np.bincount(units, weights=n_equal)  # exact below 2^53
        counts = np.where(sizes[units] <= self._most, n_equal, 0)
        of_crowded = np.flatnonzero(sizes[units] > self._most)
        of_crowded = of_crowded[np.argsort(units[of_crowded], kind="stable")]
        end = np.cumsum(np.where(sizes > self._most, sizes, 0))[units[of_crowded]]  # of the unit of each, in rows of all crowded units
        for part in np.split(of_crowded, np.flatnonzero(np.diff(end // _AT_ONCE)) + 1):  # whole units
            row = np.repeat(part, n_equal[part])
            copies = _ranks(np.cumsum(n_equal[part]) - n_equal[part], len(row))
            # The first of equal rows has its own hash, each after it one of how many stand before it.
            h, g, again = high[row], low[row], np.flatnonzero(copies)
            h[again], g[again] = siphash(self._of_copies, [h[again], g[again], copies[again].astype(np.uint64)])
            row = row[np.lexsort((g, h, units[row]))]
            least = _ranks(np.flatnonzero(np.diff(units[row], prepend=-1)), len(row)) < self._most
            counts += np.bincount(row[least], minlength=len(counts))
        return counts


def _merge_equal_rows(parts: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Return (unit, hash, number of equal ones) of different rows, of parts in which rows may stand again."""
    units, high, low, n_equal = (np.concatenate(each) for each in zip(*parts, strict=True))
    order, starts = _runs_of_equal_pairs(high, low)
    first = order[starts]
    return units[first], high[first], low[first], np.add.reduceat(n_equal[order], starts) if len(starts) else n_equal


def _runs_of_equal_pairs(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of pairs of words, and where in it each run of equal pairs begins."""
    order = np.argsort(high)
    is_new = np.diff(high[order], prepend=0) != 0
    if (~is_new[1:] & (low[order[1:]] != low[order[:-1]])).any():  # hardly ever
        order = np.lexsort((low, high))
        is_new = (np.diff(high[order], prepend=0) != 0) | (np.diff(low[order], prepend=0) != 0)
    is_new[:1] = True
    return order, np.flatnonzero(is_new)


def _ranks(starts: np.ndarray, n: int) -> np.ndarray:
    """Return the place of each of n things within its run, by where runs begin."""
    return np.arange(n) - np.repeat(starts, np.diff(starts, append=n))


def _lookups(labels: Sequence[Any]) -> Sequence[Any]:
    """Return labels with words in place of those but texts and whole numbers: some could not be looked up, or be compared with others."""
    if {*map(type, labels)} <= {int, str}:
        return labels
    return [label if type(label) in (int, str) else _word_of_label(label) for label in labels]


def _word_of_label(label: Cell) -> bytes | None:
    """Return bytes of a label, None where it is missing: equal labels have equal ones, whatever holds them."""
    try:
        return None if type(label) not in (int, str) and is_missing(label) else exact_word(label)  # most labels are one of these
    except Exception:  # what is equal only as Python says
        return b"\xff#%d" % hash(label)


def _word_of_lookup(label: object) -> bytes | None:
    return label if type(label) is bytes else _word_of_label(label)


class Digests(dict[Any, int]):
    """Numbers of things, from 0 on in the order in which they are first asked for, and a keyed hash of the bytes of each; -1 has none."""

    def __init__(self, key: bytes, word: Callable[[Any], bytes | None]) -> None:
        super().__init__()
        self._keyed, self._word, self._digests = blake2b(digest_size=16, key=key), word, bytearray()

    def __missing__(self, thing: object) -> int:
        word = self._word(thing)
        if word is None:
            return -1
        hashed = self._keyed.copy()  # half the time of setting the key anew
        hashed.update(word)
        self._digests += hashed.digest()
        self[thing] = number = len(self)
        return number

    def numbers_of(self, things: Sequence[Any]) -> np.ndarray:
        return np.fromiter(map(self.__getitem__, things), dtype=np.int64, count=len(things))

    def pairs(self, numbers: np.ndarray) -> np.ndarray:
        """Return hashes by number, as a new array of shape (n, 2) of unsigned integers: bytes that are looked at could not grow."""
        return np.frombuffer(self._digests, dtype="<u8").reshape(-1, 2)[numbers].astype(np.uint64, copy=False)


class LabelNumbers(dict[Any, int]):
    """Numbers of labels: labels that are one, such as 7 and "7", have one number, and those that name nobody have -1.

    A whole number below 2^62 from 0 on is its own, whatever holds it and whatever other labels there are; all other labels have numbers
    from 2^62 on, as they come. Floats from 2^53 on, which stand for several whole numbers, name nobody.
    """

    FIRST_OTHER = 1 << 62

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[bytes, int] = {}

    def __missing__(self, label: Cell) -> int:
        word = _word_of_lookup(label)
        if word is None:
            return -1
        is_whole = word.isdigit() and len(word) < 20 and (word[:1] != b"0" or word == b"0") and int(word) < self.FIRST_OTHER
        self[label] = number = int(word) if is_whole else self._others.setdefault(word, self.FIRST_OTHER + len(self._others))
        return number

    def numbers_of(self, labels: Sequence[Any]) -> np.ndarray:
        return np.fromiter(map(self.__getitem__, _lookups(labels)), dtype=np.int64, count=len(labels))

    def hashes(self, numbers: np.ndarray) -> np.ndarray:
        """Return two words of each label by its number, whichever others there are, as unsigned integers of shape (2, n)."""
        digests = b"".join(blake2b(word, digest_size=16).digest() for word in self._others)
        others, is_other = np.frombuffer(digests + bytes(16), dtype="<u8").reshape(-1, 2), numbers >= self.FIRST_OTHER
        words = others[np.where(is_other, numbers - self.FIRST_OTHER, -1)].T.astype(np.uint64)
        words[0, ~is_other] = numbers[~is_other].astype(np.uint64)
        return words


class RowHash:
    """A keyed hash of 128 bits of rows, as estimators read them: equal rows have equal ones, whatever held them; the key has 32 bytes."""

    def __init__(self, key: bytes) -> None:
        def word(level: str | int | None) -> bytes:  # of each level, as `level_cells` gives it, another
            return b"" if level is None else f"{type(level).__name__} {level}".encode()

        self._key, self._levels = key[:16], Digests(key[16:], word)

    def __call__(self, heads: Sequence[np.ndarray], rows: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Return the hash of each row, after some words that stand before it, as two arrays of unsigned integers."""
        n_rows = n_rows_of(rows)
        high, low = np.empty(n_rows, dtype=np.uint64), np.empty(n_rows, dtype=np.uint64)
        step = _HASHED_AT_ONCE if isinstance(rows, list) else max(1, min(_HASHED_AT_ONCE, _MOST_CELLS // max(1, rows.shape[1])))
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            high[part], low[part] = siphash(self._key, [*(head[part] for head in heads), *self._words(take_rows(rows, part))])
        return high, low

    def _words(self, rows: Chunk) -> Iterable[np.ndarray]:
        columns = rows if isinstance(rows, list) else (rows.toarray() if issparse(rows) else np.asarray(rows)).T
        for column in map(np.asarray, columns):
            if column.dtype == object:  # levels that nobody has listed
                numbers = self._levels.numbers_of(column.tolist())
                yield from np.ascontiguousarray(self._levels.pairs(numbers).T)
            else:
                numbers = column.astype(float) + 0.0  # no minus zero
                numbers[np.isnan(numbers)] = np.nan  # one kind of NaN
                yield numbers.view(np.uint64)


def siphash(key: bytes, words: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return SipHash-2-4 of 128 bits, as two arrays, of messages of words of 64 bits: the first words of all, the second, and so on."""
    n_rows = len(words[0])
    keys = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    v = [np.full(n_rows, start ^ keys[i % 2]) for i, start in enumerate(_START)]
    free = np.empty(n_rows, dtype=np.uint64)
    v[1] ^= np.uint64(0xEE)
    for word in [*words, np.uint64(8 * len(words) % 256 << 56)]:
        v[3] ^= word
        _rounds(v, free, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xEE)
    _rounds(v, free, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= np.uint64(0xDD)
    _rounds(v, free, 4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[np.ndarray], free: np.ndarray, n_rounds: int) -> None:
    for _ in range(n_rounds):
        for to, by, turned, also in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
            v[to] += v[by]
            _turn(v[by], turned, free)
            v[by] ^= v[to]
            if also:
                _turn(v[to], 32, free)


def _turn(x: np.ndarray, n_bits: int, free: np.ndarray) -> None:
    np.left_shift(x, np.uint64(n_bits), out=free)
    np.right_shift(x, np.uint64(64 - n_bits), out=x)
    np.bitwise_or(x, free, out=x)
