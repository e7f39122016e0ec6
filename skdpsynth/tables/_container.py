"""The caller's kind of table of numbers: what it was called and made of, never what it held."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpsynth._state_validation import check_installed, is_of_type, require
from skdpsynth._validation import short_repr
from skdpsynth.domain._box import BITS, Box
from skdpsynth.domain._private_bounds import UnknownBounds
from skdpsynth.frames import cast, eager_frame, frame_of, holds_some, range_of, to_native
from skdpsynth.persistence import savable

_NUMPY = {f"{kind}{bits}": np.dtype(f"{kind}{bits}".lower()) for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)}
_NUMPY |= {"Float32": np.dtype("float32"), "Float64": np.dtype("float64"), "Boolean": np.dtype(bool)}


@savable
@dataclass(frozen=True)
class Container:
    """Kind, column names and dtypes of a table of numbers.

    Attributes
    ----------
    backend : str
        "numpy", or the data-frame library.
    columns : tuple of str, or None
    dtypes : tuple
        A numpy dtype for each column (one for all in numpy), or the own dtype of pandas. What is no number, and what numpy
        has no dtype for, becomes float64.
    """

    backend: Any
    columns: Any
    dtypes: tuple

    def _check_loaded(self) -> None:
        check_installed(self.backend)
        require(self.dtypes and all(getattr(_plain(dtype), "kind", "") in "iufb" for dtype in self.dtypes))
        if self.backend == "numpy":
            require(self.columns is None and len(self.dtypes) == 1 and isinstance(self.dtypes[0], np.dtype))
        else:
            require(is_of_type(self.columns, tuple[str, ...]) and len(set(self.columns)) == len(self.dtypes) == len(self.columns))

    @classmethod
    def of(cls, X: Any) -> "Container":
        """Describe an array-like or an eager data frame."""
        X = to_native(X)
        frame = eager_frame(X)
        if frame is None:
            dtype = getattr(X, "dtype", np.dtype(float))
            return cls("numpy", None, (dtype if isinstance(dtype, np.dtype) and dtype.kind in "iufb" else np.dtype(float),))
        backend, kinds = frame.implementation.value, [str(kind) for kind in frame.schema.values()]
        dtypes = [_NUMPY.get(kind, np.dtype(float)) for kind in kinds]
        if backend == "pandas":
            dtypes = [dtype if kind in _NUMPY else np.dtype(float) for dtype, kind in zip(X.dtypes, kinds, strict=True)]
        return cls(backend, tuple(frame.columns), tuple(dtypes))

    def whole(self, n_features: int) -> np.ndarray:
        """Which columns hold whole numbers by their dtype, shape (n_features,)."""
        return np.resize([dtype.kind in "iub" for dtype in self.dtypes], n_features)

    def box(self, bounds: Any, n_features: int, bits: int = BITS) -> Box:
        """Return the box of `bounds` for this table, or refuse them where a dtype can hold no number within them.

        Parameters
        ----------
        bounds : tuple or dict
            As `Box.from_bounds` takes them.
        n_features : int
        bits : int, default=16

        Returns
        -------
        box : Box
        """
        box = Box.from_bounds(bounds, n_features, self.columns, bits, self.whole(n_features))
        dtypes = [_plain(dtype) for dtype in self.dtypes] * (n_features if self.backend == "numpy" else 1)
        for feature, (dtype, low, high) in enumerate(zip(dtypes, box.low.tolist(), box.high.tolist(), strict=True)):
            if not holds_some(dtype, low, high):
                name = feature if self.columns is None else short_repr(self.columns[feature])
                raise ValueError(
                    f"bounds of column {name} must hold a number that its dtype, {dtype.name}, can hold, got ({low:g}, {high:g}); give "
                    "other bounds, or convert the column."
                )
        return box

    def unknown(self, columns: Sequence[int], n_features: int) -> UnknownBounds | None:
        """Return what is public about columns whose bounds are to be bought; None if there are none."""
        if not columns:
            return None
        dtypes = [_plain(dtype) for dtype in self.dtypes] * (n_features if self.backend == "numpy" else 1)
        least, most = np.array([range_of(dtypes[column]) for column in columns]).T
        return UnknownBounds(tuple(columns), least, most, self.whole(n_features)[list(columns)])

    def fill(self, rows: np.ndarray, start: int = 0, n_samples: int | None = None) -> Any:
        """Return `rows`, floats of shape (n_samples, n_features), in the caller's kind of table; where they stand in a sample is ignored.

        Columns of integers and booleans get the nearest whole number that their dtype can hold.
        """
        if self.backend == "numpy":
            return cast(rows, self.dtypes[0])
        columns = [np.ascontiguousarray(cast(rows[:, i], _plain(dtype))) for i, dtype in enumerate(self.dtypes)]
        if self.backend == "pandas":
            import pandas as pd

            pairs = zip(columns, self.dtypes, strict=True)
            columns = [cells if isinstance(dtype, np.dtype) else pd.array(cells, dtype=dtype) for cells, dtype in pairs]
        return frame_of(columns, self.columns, self.backend)

    def specimen(self, n_features: int, n_samples: int) -> Any:
        """Return a table of one row, for the dtypes of what `fill` gives."""
        return self.fill(np.zeros((1, n_features)))


def _plain(dtype: Any) -> np.dtype:
    """Return the numpy dtype of one of numpy or pandas."""
    return dtype if isinstance(dtype, np.dtype) else dtype.numpy_dtype
