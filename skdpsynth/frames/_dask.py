"""Arrays and data frames of Dask: their partitions, computed where Dask computes, one at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth.frames._form import Form, as_chunk, without_rows
from skdpsynth.frames._source import Source, without_cells_in_errors

_FAILS = "{name} is {what} of Dask, of which partition {number} could not be computed ({error}); compute it alone to see why."


def open_dask(X: Any, name: str) -> Source | None:
    """Open an array or data frame of Dask; refuse its other collections."""
    kind = type(X).__name__
    if kind == "Array" and len(X.shape) == 2 and not math.isnan(X.shape[1]):
        return Partitions(name, X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X, "an array", _length(X))
    if kind == "DataFrame":
        return Partitions(name, _with_objects(X), "a data frame")
    if kind in ("Array", "Series", "Index"):
        raise ValueError(
            f"Expected 2D array, got {name} as {kind} of Dask of {X.ndim} dimension(s) instead; give columns whose number is known, by "
            ".to_frame() or .reshape(-1, 1) for example."
        )
    raise TypeError(f"{name} must be an array or data frame of Dask, got a {kind} of Dask; convert it, by .to_dataframe() for example.")


def _with_objects(X: Any) -> Any:
    """Return a data frame without Dask's own conversion of objects to strings, which raises where a cell cannot be one."""
    if not hasattr(X, "expr"):
        return X
    try:
        from dask.dataframe.dask_expr import new_collection

        whole = X.expr
        for part in list(whole.walk()):
            if type(part).__name__.startswith("FromPandas"):
                whole = whole.substitute(part, part.substitute_parameters({"pyarrow_strings_enabled": False}))
            elif type(part).__name__ == "ArrowStringConversion":
                whole = whole.substitute(part, part.frame)
        return new_collection(whole)
    except (ImportError, AttributeError):  # a version of Dask that is built otherwise
        return X


def _length(X: Any) -> int | None:
    return None if math.isnan(X.shape[0]) else int(X.shape[0])


class Partitions(Source):
    """Partitions of Dask.

    Parameters
    ----------
    name : str
    X : dask.array.Array or dask.dataframe.DataFrame
        An array in one piece along its columns.
    what : str
        Which of them, for messages.
    n_samples : int or None
    """

    def __init__(self, name: str, X: Any, what: str, n_samples: int | None = None) -> None:
        self._fails = _FAILS.replace("{name}", name).replace("{what}", what)
        meta = X._meta
        if isinstance(meta, np.ndarray):
            meta = np.empty((0, X.shape[1]), dtype=X.dtype)
        head = without_rows(as_chunk(meta, "its description", name))
        super().__init__(name, head, Form.of(head, name), n_samples=n_samples)
        self.has_order = isinstance(meta, np.ndarray)  # rows of a frame go where a shuffle, a join or a groupby sends them
        parts = without_cells_in_errors(lambda: X.to_delayed(), self._fails.replace("{number}", "1"))
        self.pieces = Pieces(name, self._form, self._at_once)
        self.partitions = parts.ravel().tolist() if isinstance(parts, np.ndarray) else list(parts)

    def _read(self) -> Iterator[Any]:
        import dask

        for number, part in enumerate(self.partitions, start=1):
            failed = self._fails.replace("{number}", str(number))
            (table,) = without_cells_in_errors(lambda part=part: dask.compute(part), failed)
            yield as_chunk(table, f"partition {number}", self._name)


@dataclass(frozen=True)
class Pieces:
    """What cuts a computed partition into chunks of the form of the whole, wherever it was computed.

    Attributes
    ----------
    name : str
        What the caller calls the whole, for messages.
    form : Form
    n_rows : int
        The most in a chunk.
    """

    name: str
    form: Form
    n_rows: int

    def __call__(self, partition: Any, number: int) -> Iterator[Any]:
        table = as_chunk(partition, f"partition {number}", self.name)
        self.form.check(table, f"partition {number}", self.name)
        yield from self.form.parts(table, self.n_rows)
