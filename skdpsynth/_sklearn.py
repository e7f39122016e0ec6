"""What we need of scikit-learn beyond its public estimators: input checks, in one place."""

import math
import numbers

import numpy as np
import sklearn
from sklearn.utils.validation import validate_data

# From 1.9 scikit-learn reads the column names of every eager frame; before, only pandas' and those of an old protocol.
_READS_FRAMES = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


def validate_rows(estimator, X, *, reset, ensure_min_samples=1):
    """Check a table of finite numbers; set or compare ``n_features_in_`` and ``feature_names_in_``.

    No message depends on the value of a cell.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like or data frame of shape (n_samples, n_features)
    reset : bool
        Whether to remember the columns (in ``fit``) or to compare with them.
    ensure_min_samples : int, default=1

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        No copy where the input is an array of numbers already.
    """
    X = _without_objects(X)
    names = _frame_columns(X)
    if names is not None and not _is_pandas(X) and not _READS_FRAMES:
        X = _Named(np.asarray(X.to_numpy()), names)
    return validate_data(estimator, X, reset=reset, ensure_min_samples=ensure_min_samples)


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
        self.shape, self.dtype = values.shape, values.dtype

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


def _without_objects(X):
    """Turn objects into floats; a cell that is no number gives an error that does not quote it."""
    if isinstance(X, np.ndarray):
        objects = X.dtype.kind in "OUS"
    elif _is_pandas(X) and hasattr(X, "dtypes"):
        objects = any(getattr(dtype, "kind", "O") not in "iufb" for dtype in np.atleast_1d(np.array(X.dtypes, dtype=object)))
    elif _frame_columns(X) is not None:
        objects = np.asarray(X.head(0).to_numpy()).dtype.kind not in "iufb"
        if objects:
            raise TypeError("X must hold numbers only, but a column has another type; drop or encode it first.")
    else:
        objects = isinstance(X, list | tuple)
    if not objects:
        return X
    kind: type[Exception]
    try:
        if _is_pandas(X):
            return X.astype(float)
        array = np.asarray(X)
        return array.astype(float) if array.dtype.kind in "OUS" else array
    except TypeError:
        kind = TypeError
    except ValueError:
        kind = ValueError
    # Raised here, so that it has no context: the original error quotes the cell.
    raise kind(
        "X must hold numbers only: of a table of objects, every cell as an argument must be a string that reads as a number, or a number; "
        "drop or encode the other columns first."
    )
