"""Files of Stata and SPSS, whose columns have declared types and value labels."""

import codecs
import mmap
import struct
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skdpsynth.frames._cells import cell_text
from skdpsynth.frames._files import Files, ReadOptions, selected, suffix_of
from skdpsynth.frames._source import each_without_cells_in_errors, require_package, short_path, without_cells_in_errors

_SPSS_UNITS = dict.fromkeys(("DATE", "ADATE", "EDATE", "SDATE", "JDATE"), "D") | dict.fromkeys(("DATETIME", "YMDHMS"), "s")
_STATA_UNITS = {"%tc": "ms", "%tC": "ms", "%td": "D", "%d": "D", "%tm": "M"}  # by the first letters of formats
_DTYPES = {"int8": "i1", "int16": "i2", "int32": "i4", "float": "f4", "double": "f8"}
_FAILS = "{name} must be a whole file of Stata or SPSS, but {file} is none or is damaged ({error}); write it again."


class Declared(NamedTuple):
    """What a file declares of a column: its type in numpy (None: words), the unit of its times, whether it is whole, and value labels."""

    dtype: str | None
    unit: str | None
    is_whole: bool
    labels: Mapping[Any, str]


def declared_columns(file: Path, name: str) -> dict[str, Declared]:
    """Return what a file declares of its columns; no row is read."""
    require_package("pyreadstat", name, "a file of Stata or SPSS")
    fails = _FAILS.replace("{name}", name).replace("{file}", short_path(file))
    told = without_cells_in_errors(lambda: _reader_of(file)(str(file), metadataonly=True)[1], fails)
    return {each: _declared(told, each, suffix_of(file) == ".dta") for each in told.column_names}


def _reader_of(file: Path) -> Any:
    import pyreadstat

    return pyreadstat.read_dta if suffix_of(file) == ".dta" else pyreadstat.read_sav


def _declared(told: Any, name: str, is_stata: bool) -> Declared:
    form, kind = told.original_variable_types[name] or "", told.readstat_variable_types[name]
    letters, decimals = form.rstrip("0123456789."), form.partition(".")[2]
    units = [unit for start, unit in _STATA_UNITS.items() if form.startswith(start)] if is_stata else [_SPSS_UNITS.get(letters)]
    is_whole = kind.startswith("int") if is_stata else letters == "F" and not decimals.strip("0")
    return Declared(_DTYPES.get(kind), next(iter(units), None), is_whole, told.variable_value_labels.get(name, {}))


class StatisticsFiles(Files):
    """Files of Stata or SPSS, read in chunks; a cell of words is missing where it is empty."""

    def __init__(self, name: str, files: list[Path], read: ReadOptions) -> None:
        import pyarrow as pa

        self._declared, self._labels = declared_columns(files[0], name), set(read.labels)
        whole = pa.schema([(each, self._type(each)) for each in self._declared])
        selected(whole, read.labels, name, files[0])  # refuses other names
        if other := next((file for file in files if declared_columns(file, name) != self._declared), None):
            raise ValueError(f"{name} must have the same columns, types and labels in all files, but {short_path(other)} has others.")
        super().__init__(name, files, selected(whole, read.columns, name, files[0]), None)

    def _type(self, column: str) -> Any:
        import pyarrow as pa

        dtype, unit, *_ = self._declared[column]
        if column in self._labels or dtype is None:
            return pa.string()
        if unit is not None:
            return pa.date32() if unit in "DM" else pa.timestamp("ms")
        return pa.from_numpy_dtype(np.dtype(dtype))

    def _read(self) -> Iterator[Any]:
        import pyarrow as pa

        for file in self._files:
            fails = _FAILS.replace("{name}", self.name).replace("{file}", short_path(file))
            with closing(_frames(file, list(self.kind.columns), self._at_once)) as frames:
                for found in each_without_cells_in_errors(frames, fails):
                    yield pa.table([self._column(*each) for each in found.items()], names=list(found))

    def _column(self, name: str, cells: Any) -> Any:
        """Return a column in its declared type, whatever its cells are."""
        import pyarrow as pa

        (dtype, unit, _, labels), target = self._declared[name], self._type(name)
        if name in self._labels:
            texts = {cell_text(code): label for code, label in labels.items()}
            found = (cell_text(cell) for cell in cells.tolist())
            return pa.array([None if cell in ("", "nan") else texts.get(cell, cell) for cell in found], target)
        if dtype is None:
            return pa.array([cell or None if isinstance(cell, str) else None for cell in cells.tolist()], target)
        numbers = cells.to_numpy(dtype=float, na_value=np.nan)
        missing = ~np.isfinite(numbers)
        known = np.clip(np.where(missing, 0, numbers), -2e14, 2e14) if dtype[0] == "i" or unit else numbers
        if unit is not None:
            is_stata = suffix_of(self._files[0]) == ".dta"
            zero = np.datetime64("1960-01-01" if is_stata else "1582-10-14", "D" if unit == "D" else "M" if unit == "M" else "ms")
            per_unit = 1 if is_stata else 1 / 86400 if unit == "D" else 1000  # SPSS counts seconds
            stamps = zero + np.rint(known * per_unit).astype(np.int64)
            return pa.array(stamps.astype("M8[D]" if unit in "DM" else "M8[ms]"), target, mask=missing)
        return pa.array(np.rint(known).astype(dtype) if dtype[0] == "i" else known.astype(dtype), target, mask=missing)


def _frames(file: Path, columns: list[str], n_rows: int) -> Generator[dict[str, Any], None, None]:
    """Yield columns as series of pandas whose numbers, dates and codes are as they stand, and whose texts were decoded one by one."""
    import pandas as pd

    start, read = 0, _reader_of(file)
    told = read(str(file), metadataonly=True)[1]
    # One text that cannot be decoded would end the reading, so bytes are read, as characters of Latin-1. Columns are called so as well.
    encoding = _encoding_of(file, told.file_encoding)
    how: dict[str, Any] = {"encoding": encoding and "LATIN1", "disable_datetime_conversion": True, "row_limit": n_rows}
    called = dict(zip(told.column_names, read(str(file), metadataonly=True, **how)[1].column_names, strict=True))
    how["usecols"] = [called[each] for each in columns]
    widths = {each: told.variable_storage_width[each] for each in columns if told.readstat_variable_types[each] == "string"}
    # The long texts of Stata, of width 0, are read as UTF-8 whatever the encoding.
    texts = [each for each, width in widths.items() if width and encoding is not None]
    source = str(file) if all(widths.values()) else _without_odd_long_texts(file)
    while len(frame := read(source, row_offset=start, **how)[0]):
        found = {each: frame[called[each]] for each in columns}
        for each in texts:
            cells = found[each].tolist()
            known = {cell: _decoded(cell, str(encoding)) for cell in set(cells)}
            found[each] = pd.Series([known[cell] for cell in cells], dtype=object)
        yield found
        start += n_rows
        if not isinstance(source, str):
            source.seek(0)


def _without_odd_long_texts(file: Path) -> Any:
    """Return the path of a file of Stata, or what it holds with empty texts in place of long ones that are no UTF-8."""
    with file.open("rb") as stream:
        content, is_odd = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY), False
    order, size = "<" if content.find(b"LSF", 0, 80) >= 0 else ">", 16 if content[28:31] == b"117" else 20
    place = struct.unpack_from(f"{order}Q", content, content.find(b"<map>") + 85)[0] + len(b"<strls>")
    while content[place : place + 3] == b"GSO":
        start = place + size
        place = start + struct.unpack_from(f"{order}L", content, start - 4)[0]
        if _decoded(content[start:place].decode("latin-1"), "utf-8") is None:
            content[start:place], is_odd = bytes(place - start), True
    return content if is_odd else str(file)


def _encoding_of(file: Path, stated: str | None) -> str | None:
    """Return the encoding of texts; None of one that Python does not know."""
    if stated is None and suffix_of(file) == ".dta":
        with file.open("rb") as stream:
            stated = None if stream.read(31)[11:] >= b"<header><release>118" else "cp1252"  # as pyreadstat takes it
    try:
        return codecs.lookup(stated or "utf-8").name
    except LookupError:
        return None


def _decoded(cell: Any, encoding: str) -> str | None:
    """Return the text of a cell, without a character that is cut off at its end; None of what is none."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(cell.encode("latin-1")) if isinstance(cell, str) else None
    except UnicodeDecodeError:
        return None
