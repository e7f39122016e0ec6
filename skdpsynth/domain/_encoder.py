"""Mixed tables as points of a cube, and back: public facts only."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpsynth._sklearn import check_points, remember_columns, validate_rows
from skdpsynth.domain._box import Box
from skdpsynth.domain._container import Container
from skdpsynth.domain._schema import Continuous, Nominal, Schema
from skdpsynth.domain._table import MixedTable, check_dtypes, read


class MixedTypeEncoder(TransformerMixin, BaseEstimator):
    """Map a mixed table to points of the cube [0, 1]^d and back, by its public schema alone.

    With it every estimator for rows in a box serves mixed tables. A column of numbers is scaled by its bounds; ordinal levels are spread
    evenly; nominal levels get a column each (two: one column). Where cells may be missing, a further column says whether one is
    (nominal: missing is a level more).

    Parameters
    ----------
    schema : dict or Schema, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: every column is a number within `bounds`.
    bounds : tuple or dict, default=(0.0, 1.0)
        Public bounds where `schema` is None: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``.

    Attributes
    ----------
    schema_ : Schema
        In the order of the columns.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the input had names.

    Raises
    ------
    ValueError
        If `schema` is wrong or does not fit the columns; cells never raise.
    TypeError
        If a dtype cannot hold what `schema` says.

    Notes
    -----
    *Privacy.* Nothing is learned from rows: `fit` reads names and dtypes. `transform` maps each row on its own, so it is **as private as
    the row**. What lies out of the domain has a fixed place: numbers are clipped, unknown levels are missing; where nothing may be
    missing, a missing number becomes the midpoint and a missing level the first.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpsynth import PrivateMeasureMechanism
    >>> from skdpsynth.domain import MixedTypeEncoder
    >>> X = np.array([[34, "no"], [71, "yes"], [50, "no"]], dtype=object)
    >>> encoder = MixedTypeEncoder({0: (18, 98), 1: ["no", "yes"]})
    >>> encoder.fit_transform(X)
    array([[0.2   , 0.    ],
           [0.6625, 1.    ],
           [0.4   , 0.    ]])
    >>> pipeline = make_pipeline(encoder, PrivateMeasureMechanism(epsilon=1.0)).fit(np.repeat(X, 100, axis=0))
    >>> encoder.inverse_transform(pipeline[-1].sample(5)).shape
    (5, 2)
    """

    def __init__(self, schema=None, *, bounds=(0.0, 1.0)):
        self.schema = schema
        self.bounds = bounds

    def fit(self, X, y=None):
        """Read the names and dtypes of the columns.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : MixedTypeEncoder
        """
        self._table, _ = start_table(self, X)
        self.schema_ = self._table.schema
        return self

    def transform(self, X):
        """Encode rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)

        Returns
        -------
        X_encoded : ndarray of shape (n_samples, n_encoded)
            In [0, 1].
        """
        check_is_fitted(self)
        return encode(continue_table(self, X), self.schema_)

    def inverse_transform(self, X):
        """Decode points, each to the nearest levels and whole numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_encoded)

        Returns
        -------
        X_original : array or data frame of shape (n_samples, n_features)
            In the kind of table that `fit` got, with its columns and dtypes.
        """
        check_is_fitted(self)
        X = check_points(X)
        wanted = self._n_features_out
        if X.shape[1] != wanted:
            raise ValueError(f"X must have {wanted} columns, those of transform, got {X.shape[1]}.")
        return self._table.fill(decode(X, self.schema_))

    def get_feature_names_out(self, input_features=None):
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : None
            Ignored: the names are those of the schema.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = []
        for i, (name, kind) in enumerate(self.schema_.items()):
            name = name if isinstance(name, str) else f"x{i}"
            if _is_one_hot(kind):
                names += [f"{name}_{level}" for level in kind.levels] + [f"{name}_missing"] * kind.nullable
            else:
                names += [name] + [f"{name}_missing"] * (_width(kind) - 1)
        return np.array(names, dtype=object)

    @property
    def _n_features_out(self):
        return sum(map(_width, self.schema_.values()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.schema is not None
        return tags


def start_table(estimator, X, ensure_min_samples=1):
    """Check a table in ``fit``.

    Parameters
    ----------
    estimator : object with ``schema`` and ``bounds``
    X : array-like or data frame of shape (n_samples, n_features)
    ensure_min_samples : int, default=1

    Returns
    -------
    table : MixedTable
        With its schema, in the order of the columns.
    values : list of ndarray
        As `read` gives them.
    """
    if estimator.schema is not None:
        schema = estimator.schema if isinstance(estimator.schema, Schema) else Schema(estimator.schema)
        table, raw = MixedTable.of(X)
        table = table.match(schema)
        remember_columns(estimator, X, reset=True)
        check_rows(raw, ensure_min_samples)
        return table, read(raw, table.schema, table.dtypes)
    container = Container.of(X)
    numbers = validate_rows(estimator, X, reset=True, ensure_min_samples=ensure_min_samples, allow_nan=True)
    n_features = numbers.shape[1]
    box = Box.from_bounds(estimator.bounds, n_features, container.columns, whole=container.whole(n_features))
    if container.backend == "numpy":
        table = MixedTable("numpy", tuple(range(n_features)), (container.dtypes[0].str,) * n_features)
    else:
        table, _ = MixedTable.of(X)
    table = table.match(_within(box, table.columns))
    return table, read(list(numbers.T), table.schema, table.dtypes)


def continue_table(estimator, X):
    """Check a table after ``fit``, whose columns are known by their place; return its values as `read` gives them."""
    schema = estimator.schema_
    if estimator.schema is None:
        numbers = validate_rows(estimator, X, reset=False, allow_nan=True)
        return read(list(numbers.T), schema, (numbers.dtype.str,) * numbers.shape[1])
    table, raw = MixedTable.of(X)
    remember_columns(estimator, X, reset=False)
    if table.backend != "numpy" and table.columns != tuple(schema) and not any(isinstance(name, str) for name in table.columns):
        # Names that are strings scikit-learn has compared.
        raise ValueError("X must have the columns that fit got, in their order; select them by X[list(schema_)].")
    check_dtypes(schema, table.dtypes)
    check_rows(raw, 1)
    return read(raw, schema, table.dtypes)


def check_rows(raw, least):
    """Refuse a table of no columns, or of too few rows."""
    n_samples = len(raw[0]) if raw else 0
    if n_samples < least:
        raise ValueError(f"Found array with {n_samples} sample(s) while a minimum of {least} is required.")


def _within(box, names):
    """The schema of numbers in a box."""
    kinds = {}
    for name, low, high, whole in zip(names, box.low.tolist(), box.high.tolist(), box.whole.tolist(), strict=True):
        whole = whole and low.is_integer() and high.is_integer() and max(abs(low), abs(high)) <= 2**53
        kinds[name] = Continuous(low, high, integer=whole)
    return Schema(kinds)


def _is_one_hot(kind):
    return isinstance(kind, Nominal) and kind.n_codes > 2


def _width(kind):
    """Number of encoded columns."""
    return kind.n_codes if _is_one_hot(kind) else 2 if kind.nullable and not isinstance(kind, Nominal) else 1


def encode(values, schema):
    """Return values as `read` gives them as an (n_samples, n_encoded) array in [0, 1]."""
    out = np.empty((len(values[0]), sum(map(_width, schema.values()))))
    start = 0
    for column, kind in zip(values, schema.values(), strict=True):
        block = out[:, start : start + _width(kind)]
        start += _width(kind)
        if _is_one_hot(kind):
            block[:] = column[:, None] == np.arange(kind.n_codes)
            continue
        missing = np.isnan(column) if isinstance(kind, Continuous) else column >= len(kind.levels)
        if isinstance(kind, Continuous):
            unit = (column - kind.low) / (kind.high - kind.low)
        else:
            unit = column / (kind.n_codes - 1 if isinstance(kind, Nominal) else len(kind.levels) - 1)
        if block.shape[1] == 2:
            unit, block[:, 1] = np.where(missing, 0.5, unit), missing
        block[:, 0] = np.clip(unit, 0, 1)
    return out


def decode(X, schema):
    """Return points of the cube as values of columns: the inverse of `encode` on its image, the nearest elsewhere."""
    values, start = [], 0
    for kind in schema.values():
        block = X[:, start : start + _width(kind)]
        start += _width(kind)
        if _is_one_hot(kind):
            values.append(block.argmax(axis=1))
            continue
        unit = np.clip(block[:, 0], 0, 1)
        missing = block[:, 1] > 0.5 if block.shape[1] == 2 else np.zeros(len(X), dtype=bool)
        if isinstance(kind, Continuous):
            width = kind.high - kind.low
            x = np.where(unit < 0.5, kind.low + unit * width, kind.high - (1 - unit) * width)  # from the nearer end, which is met exactly
            x = np.clip(np.rint(x) if kind.integer else x, kind.low, kind.high)
            values.append(np.where(missing, np.nan, x))
        else:
            last = kind.n_codes - 1 if isinstance(kind, Nominal) else len(kind.levels) - 1
            values.append(np.where(missing, len(kind.levels), np.rint(unit * last).astype(np.int64)))
    return values
