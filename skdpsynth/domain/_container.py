"""The caller's kind of table: what it was called and made of, never what it held."""

from dataclasses import dataclass
from typing import Any

import numpy as np

_NUMPY = {f"{kind}{bits}": np.dtype(f"{kind}{bits}".lower()) for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)}
_NUMPY |= {"Float32": np.dtype("float32"), "Float64": np.dtype("float64"), "Boolean": np.dtype(bool)}


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

    @classmethod
    def of(cls, X):
        """Describe an array-like or an eager data frame."""
        import narwhals.stable.v2 as nw
        from narwhals.exceptions import DuplicateError

        try:
            frame = nw.from_native(X, eager_only=True, pass_through=True)
            kinds = [str(kind) for kind in frame.schema.values()] if isinstance(frame, nw.DataFrame) else None
        except DuplicateError:
            raise ValueError("X must have distinct column names, but one occurs twice; rename the columns.") from None
        if kinds is None:
            dtype = getattr(X, "dtype", np.dtype(float))
            return cls("numpy", None, (dtype if isinstance(dtype, np.dtype) and dtype.kind in "iufb" else np.dtype(float),))
        backend = frame.implementation.value
        if backend == "pandas":
            dtypes = [dtype if kind in _NUMPY else np.dtype(float) for dtype, kind in zip(X.dtypes, kinds, strict=True)]
        else:
            dtypes = [_NUMPY.get(kind, np.dtype(float)) for kind in kinds]
        return cls(backend, tuple(frame.columns), tuple(dtypes))

    def whole(self, n_features):
        """Which columns hold whole numbers by their dtype, shape (n_features,)."""
        return np.resize([dtype.kind in "iub" for dtype in self.dtypes], n_features)

    def fill(self, rows):
        """Return `rows`, floats of shape (n_samples, n_features), in the caller's kind of table.

        Columns of integers and booleans get the nearest whole number that their dtype can hold.
        """
        if self.backend == "numpy":
            return _cast(rows, self.dtypes[0])
        if self.backend == "pandas":
            import pandas as pd

            frame = pd.DataFrame({i: _cast_pandas(rows[:, i], dtype) for i, dtype in enumerate(self.dtypes)}, copy=False)
            frame.columns = list(self.columns)
            return frame
        import narwhals.stable.v2 as nw

        columns = (np.ascontiguousarray(_cast(rows[:, i], dtype)) for i, dtype in enumerate(self.dtypes))
        return nw.from_dict(dict(zip(self.columns, columns, strict=True)), backend=self.backend).to_native()


def _cast(values, dtype):
    if dtype.kind == "b":
        return values >= 0.5
    if dtype.kind in "iu":
        low, end = np.iinfo(dtype).min, np.iinfo(dtype).max + 1.0  # a float: 2.0**63 is no int64, so the last float below it
        whole = np.rint(values)
        return np.clip(whole, low, np.nextafter(end, 0), out=whole).astype(dtype)
    return values.astype(dtype, copy=False)


def _cast_pandas(values, dtype):
    if isinstance(dtype, np.dtype):
        return _cast(values, dtype)
    import pandas as pd

    return pd.array(_cast(values, dtype.numpy_dtype), dtype=dtype)
