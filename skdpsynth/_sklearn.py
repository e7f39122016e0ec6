"""The ways into scikit-learn beyond its public estimators: checks of tables, and links in notebooks."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import sklearn
from numpy.typing import DTypeLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_array, check_random_state, validate_data

from skdpsynth._parallel import lock_of
from skdpsynth._serialization import is_array, require
from skdpsynth._validation import as_array, is_integer, short_repr
from skdpsynth.frames import NamedArray, Table, column_names, is_arrow, is_pandas, table_of_numbers, to_native

# Exported by the package; all other classes are exported by their rooms, but those of `tables` by `domain`.
TOP_LEVEL_CLASSES = (
    *("AreaSynthesizer", "LatentFactorSynthesizer", "LinkedTablesSynthesizer", "LowDimSynthesizer", "OnlineSynthesizer"),
    *("PrivacyAccountant", "PrivateMeasureMechanism", "PrivatePCA", "SignedMeasureMechanism"),
)
API_URL = "https://skdpsynth.readthedocs.io/en/stable/api/generated/"
# From 1.9 scikit-learn reads the column names of every eager frame; before, only pandas' and those of an old protocol.
_READS_FRAMES = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


def validate_rows(estimator: BaseEstimator, X: Table, *, reset: bool, ensure_min_samples: int = 1, allow_nan: bool = False) -> Any:
    """Return a table of finite numbers as rows; set (`reset`) or compare ``n_features_in_`` and ``feature_names_in_``.

    Rows are an ndarray, or compressed sparse rows where the tag ``input_tags.sparse`` of the estimator is set; no copy where the input is
    such numbers already. NaN and infinity are refused unless `allow_nan`, whatever scikit-learn's ``assume_finite`` says. No message
    depends on the value of a cell, except that it says whether there is NaN or infinity.
    """
    X = to_native(X)
    table = table_of_numbers(X)
    kinds: dict[str, Any] = {"ensure_all_finite": False, "ensure_min_samples": ensure_min_samples}
    kinds["accept_sparse"] = ["csr"] if get_tags(estimator).input_tags.sparse else False
    # A floating-point warning would tell of values. One thread at a time: `check_array` changes the warning filters of the process for a
    # moment, and two threads would restore them in the wrong order, and leave them changed for good.
    with lock_of(check_array), np.errstate(all="ignore"):
        if column_names(X) is not None and not is_pandas(X):  # the names of other frames not all versions read
            remember_columns(estimator, X, reset=reset)
            rows = check_array(np.asarray(table), estimator=estimator, input_name="X", **kinds)
        else:
            rows = validate_data(estimator, table, reset=reset, **kinds)
    if not allow_nan:
        check_finite(rows.data if issparse(rows) else rows)
    return rows


def check_points(X: Table, dtype: DTypeLike = float) -> np.ndarray:
    """Return finite points that are no rows of a table, for ``inverse_transform``, maybe none; no message quotes them."""
    X = table_of_numbers(X)
    with lock_of(check_array):
        points = check_array(X, dtype=dtype, ensure_min_samples=0, ensure_all_finite=False)
    check_finite(points)
    return points


@np.errstate(all="ignore")
def check_finite(rows: np.ndarray) -> None:
    """Refuse NaN and infinity in one static sentence, in memory that does not grow with the rows."""
    if rows.dtype.kind != "f" or not rows.size or np.isfinite(rows.sum()):
        return
    low, high = rows.min(), rows.max()
    if np.isfinite(low) and np.isfinite(high):  # the sum was too large
        return
    # The first words are those of scikit-learn, which its users know.
    raise ValueError(
        f"Input X contains {'NaN' if np.isnan(low) else 'infinity'}. Drop or fill those rows, or give LatentFactorSynthesizer a schema "
        "whose column is nullable."
    )


def remember_columns(estimator: BaseEstimator, X: Table, *, reset: bool) -> None:
    """Set or compare ``n_features_in_`` and ``feature_names_in_`` for a table that need not hold numbers, without reading a cell."""
    X, names = to_native(X), column_names(X)
    if names is not None and not is_pandas(X) and not _READS_FRAMES:
        X = NamedArray(X, names)
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def check_loaded_columns(estimator: BaseEstimator, table: Any) -> None:
    """Refuse a fitted estimator from a file whose columns are not those of its format of tables, if it has one."""
    names, n_features = getattr(estimator, "feature_names_in_", None), estimator.n_features_in_
    require(type(n_features) is int and n_features >= 1 and (names is None or is_array(names, "O", n_features)))
    require(names is None or all(isinstance(name, str) for name in names))
    require(table is None or table.kind.names is None or names is None or table.kind.names == tuple(names))


def check_feature_names(estimator: BaseEstimator, input_features: Sequence[str] | None = None) -> list[str]:
    """Return the names of the columns of ``fit``, or those given for an array; refuse others, in scikit-learn's words."""
    known = getattr(estimator, "feature_names_in_", None)
    if input_features is None:
        return [f"x{i}" for i in range(estimator.n_features_in_)] if known is None else list(known)
    names = as_array(input_features, object)
    if names.ndim == 1 and not all(isinstance(name, str) for name in names):
        raise TypeError(f"input_features must be None or a list of strings, got {short_repr(input_features)}; list the names.")
    if known is not None and (names.ndim == 1 or isinstance(input_features, str)) and not np.array_equal(known, names):
        raise ValueError("input_features is not equal to feature_names_in_; give the columns that fit got, or None.")
    if names.ndim != 1 or len(names) != estimator.n_features_in_:
        raise ValueError(f"input_features should have length equal to number of features ({estimator.n_features_in_}), got {names.shape}.")
    return [str(name) for name in names]


def check_seed(random_state: int | np.random.RandomState | None) -> np.random.RandomState:
    """Return scikit-learn's generator for a seed; anything else is refused here, because its own message would print a table."""
    if not (random_state is None or is_integer(random_state, 0, 2**32 - 1) or isinstance(random_state, np.random.RandomState)):
        raise ValueError(
            f"random_state must be None, an int from 0 to 2**32 - 1 or a numpy RandomState, got {short_repr(random_state)}; None is fresh."
        )
    return check_random_state(random_state)


def take_rows(X: Table, positions: np.ndarray) -> Any:
    """Return the rows of a table in memory at some positions, as the same kind of table."""
    X = to_native(X)
    X = X if hasattr(X, "__getitem__") else np.asarray(X)
    return X.take(positions) if is_arrow(X) else _safe_indexing(X, positions)


def public_name(cls: type) -> str:
    """Return the full name under which people import a class: from the package, or from its room; those of `tables` from `domain`."""
    room = list(takewhile(lambda part: not part.startswith("_"), cls.__module__.split(".")))
    place = ["skdpsynth"] if cls.__name__ in TOP_LEVEL_CLASSES else ["skdpsynth", "domain"] if room[1:] == ["tables"] else room
    return ".".join([*place, cls.__name__])


class DocLinkMixin:
    """Links of the HTML representation of an estimator to this documentation instead of scikit-learn's."""

    _doc_link_module = "skdpsynth"
    _doc_link_template = API_URL + "{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, Any]:
        return {"name": public_name(type(self))}
