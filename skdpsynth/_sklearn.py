"""What we need of scikit-learn beyond its public estimators: input checks, in one place."""

import math
import numbers
import re

import numpy as np
import sklearn
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, validate_data

# From 1.9 scikit-learn reads the column names of every eager frame; before, only pandas' and those of an old protocol.
_READS_FRAMES = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


_HOW = "by skdpsynth.domain.MixedTypeEncoder (LatentFactorSynthesizer takes it as it is, with a schema)"


def validate_rows(estimator, X, *, reset, ensure_min_samples=1, allow_nan=False):
    """Check a table of finite numbers; set or compare ``n_features_in_`` and ``feature_names_in_``.

    No message depends on the value of a cell.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like or data frame of shape (n_samples, n_features)
    reset : bool
        Whether to remember the columns (in ``fit``) or to compare with them.
    ensure_min_samples : int, default=1
    allow_nan : bool, default=False
        Whether NaN and infinity may stand in cells.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        No copy where the input is an array of numbers already.
    """
    if hasattr(X, "collect") and not hasattr(X, "to_numpy"):
        raise TypeError(f"X must be a table in memory, got a lazy {type(X).__name__}; call .collect() first.")
    names = _frame_columns(X)
    if names is not None:
        X = _numbers_of_frame(X)
        if not _is_pandas(X) and not _READS_FRAMES:
            X = _Named(np.asarray(X.to_numpy()), names)
    elif not issparse(X):
        X = _numbers(X)
        _check_shape(X)
    with np.errstate(all="ignore"):  # a floating-point warning would tell of values
        return validate_data(estimator, X, reset=reset, ensure_min_samples=ensure_min_samples, ensure_all_finite=not allow_nan)


def check_points(X):
    """Check points that are no rows of a table, for ``inverse_transform``: finite numbers, maybe none of them.

    No message quotes them.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)

    Returns
    -------
    X : ndarray of float of shape (n_samples, n_features)
    """
    if not issparse(X):
        X = _numbers(X)
        _check_shape(X)
    return check_array(X, dtype=float, ensure_min_samples=0)


def remember_columns(estimator, X, *, reset):
    """Set or compare ``n_features_in_`` and ``feature_names_in_`` for a table that need not hold numbers, without reading a cell."""
    names = _frame_columns(X)
    if names is not None and not _is_pandas(X):
        X = _Named(X, names)
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def _check_shape(X):
    """Refuse what scikit-learn would refuse with a message that prints the values."""
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {'1D' if X.ndim else 'scalar'} array instead. Reshape your data: X.reshape(-1, 1) if it has a single "
            "feature, X.reshape(1, -1) if it is a single row."
        )


def is_whole(value, low, high=math.inf):
    """Whether `value` is an integer (not a bool) in [low, high]."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and low <= int(value) <= high


def is_inside(value, low, high):
    """Whether `value` is a real number that is no integer, in the open interval (low, high)."""
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and low < float(value) < high


def check_choice(name, value, choices):
    """Raise ValueError unless `value` is one of the strings `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


class _Named:
    """An array with column names, told by the interchange protocol and by ``columns`` alike."""

    def __init__(self, values, names):
        self._values, self._names = values, names
        self.shape, self.dtype = values.shape, getattr(values, "dtype", None)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype=dtype)

    def __len__(self):
        return len(self._values)

    def __dataframe__(self, *args, **kwargs):
        return self

    def column_names(self):
        return self._names


def _is_pandas(X):
    return type(X).__module__.split(".")[0] == "pandas"


def _frame_columns(X):
    """Column names of a data frame, or None."""
    if isinstance(X, np.ndarray) or not hasattr(X, "columns") or not hasattr(X, "to_numpy"):
        return None
    return [str(name) for name in X.columns]


def _numbers_of_frame(X):
    """Return a data frame of numbers; names and dtypes are public, so errors may name them."""
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        kind = X[name].head(0).to_numpy().dtype.kind if not _is_pandas(X) else getattr(dtype, "kind", "O")
        if (kind not in "iufb" and dtype is not np.dtype(object)) or str(dtype).startswith("Sparse"):
            dtype = re.split(r"[(\[]", str(dtype))[0]  # in brackets may stand values: categories, what fills a sparse column
            raise TypeError(f"X must hold numbers only, but column {str(name)!r} has dtype {dtype}; drop it, or encode it {_HOW}.")
    return _quietly(lambda: X.astype(float)) if _is_pandas(X) and np.dtype(object) in list(X.dtypes) else X


def _numbers(X):
    """Return an array of numbers; of an array-like of objects, as floats."""
    # A list goes through objects: among numbers of 32 bits one string would turn all into text and back, which moves other rows.
    array = _quietly(lambda: np.asarray(X, dtype=object if isinstance(X, list | tuple) else None))
    if array.dtype.kind in "OUS":
        array = _quietly(lambda: array.astype(float))
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers; give real and imaginary parts as columns.")
    if array.dtype.kind not in "iufb":
        raise TypeError(f"X must hold numbers only, got dtype {array.dtype}; encode it {_HOW}.")
    return array


def _quietly(convert):
    """Call `convert`; what goes wrong is said without the cell it went wrong on, which numpy's own error quotes."""
    kind: type[Exception]
    try:
        return convert()
    except TypeError:
        kind = TypeError
    except (ValueError, OverflowError):
        kind = ValueError
    # Raised here, so that it has no context.
    raise kind(
        "X must hold numbers only: it has objects that are none (an argument must be a number, or a string that reads as a number); "
        f"drop their columns, or encode them {_HOW}."
    )
