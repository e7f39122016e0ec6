"""Mixed tables as points of a cube, and back: public facts only."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdpsynth._serialization import require
from skdpsynth._sklearn import DocLinkMixin, check_feature_names, check_loaded_columns, check_points
from skdpsynth._validation import warn
from skdpsynth.domain import NO_BOUNDS, BoundsLike, ColumnKind, Continuous, Nominal, Schema, SchemaLike
from skdpsynth.exceptions import BoundsWarning
from skdpsynth.frames import Table
from skdpsynth.persistence import savable
from skdpsynth.tables._open import collect_arrays, continue_table, start_table
from skdpsynth.tables._table import TableFormat

_MOST_VALUES = 1 << 29  # encoded at a time: 4 GiB


@savable
class MixedTypeEncoder(TransformerMixin, DocLinkMixin, BaseEstimator):
    """Map a mixed table to points of the cube [0, 1]^d and back, by its public schema alone.

    For tools that want numbers: distances between rows of mixed tables, classifiers trained on synthetic rows, principal components. A
    column of numbers is scaled by its bounds; ordinal levels are spread evenly; nominal levels get a column each (two: one column). Where
    cells may be missing, a further column says whether one is (nominal: missing is a level more). Dates and times are numbers of their
    resolution's units; an `Identifier` is left out.

    To synthesize a mixed table use `skdpsynth.LatentFactorSynthesizer`, which takes it as it is: Census Income encodes to 93 columns that
    depend on each other strictly, and what `PrivateMeasureMechanism` or a stream makes of them is hardly better than uniform noise.

    Parameters
    ----------
    schema : dict, Schema or path of a file, default=None
        ``{column: (low, high), [levels] or a kind}``, see `skdpsynth.domain.Schema`. None: every column is a number within `bounds`.
    bounds : tuple or dict, default=None
        Public bounds where `schema` is None: ``(low, high)`` as scalars or arrays of shape (n_features,), or ``{column: (low, high)}``.
        None: (0, 1), with a `BoundsWarning`.

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

    See Also
    --------
    Schema : The facts that it maps by.
    LatentFactorSynthesizer : Synthesizes mixed tables without it.

    Notes
    -----
    *Privacy.* Nothing is learned from rows: `fit` reads names and dtypes. `transform` maps each row on its own, so it is **as private as
    the row**. Cells out of the domain have a fixed place: numbers are clipped, unknown levels are missing; where nothing may be
    missing, a missing number becomes the midpoint and a missing level the first.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth.domain import MixedTypeEncoder
    >>> X = np.array([[34, "no"], [71, "yes"], [50, "no"]], dtype=object)
    >>> encoder = MixedTypeEncoder({0: (18, 98), 1: ["no", "yes"]})
    >>> encoder.fit_transform(X)
    array([[0.2   , 0.    ],
           [0.6625, 1.    ],
           [0.4   , 0.    ]])
    >>> encoder.inverse_transform([[0.21, 0.4]])
    array([[35, 'no']], dtype=object)
    """

    def __init__(self, schema: SchemaLike | None = None, *, bounds: BoundsLike = None) -> None:
        self.schema = schema
        self.bounds = bounds

    def fit(self, X: Table, y: object = None) -> "MixedTypeEncoder":
        """Read the names and dtypes of the columns.

        Parameters
        ----------
        X : array-like, data frame or any other table, of shape (n_samples, n_features)
            See `skdpsynth.PrivateMeasureMechanism.fit`. No row is read of a table that is not in memory.
        y : None
            Ignored.

        Returns
        -------
        self : MixedTypeEncoder
        """
        self._table, _ = start_table(self, X)
        if self.schema is None and self.bounds is None:
            warn(NO_BOUNDS, BoundsWarning)
        self.schema_ = self._table.schema
        return self

    def _check_loaded(self) -> None:
        if "schema_" in vars(self):
            require(isinstance(self._table, TableFormat) and self.schema_ == self._table.schema)
            check_loaded_columns(self, self._table)

    def transform(self, X: Table) -> np.ndarray:
        """Encode rows.

        Parameters
        ----------
        X : array-like, data frame or other table that `fit` takes, of shape (n_samples, n_features)
            Files and all else that is not in memory are encoded chunk by chunk; what comes of them must fit into 4 GiB.

        Returns
        -------
        X_encoded : ndarray of shape (n_samples, n_encoded)
            In [0, 1].
        """
        check_is_fitted(self)
        return collect_arrays(continue_table(self, X).map(partial(encode, schema=self.schema_), self._n_features_out))

    def inverse_transform(self, X: Table) -> Any:
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

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Must be the names of the columns of `fit`, where those had names. For an array: names to use instead of x0, x1, ...

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = check_feature_names(self, input_features)
        out: list[str] = []
        for name, kind in zip(names, (kind.coded for kind in self.schema_.values()), strict=True):
            if kind is not None and _is_one_hot(kind):
                out += [f"{name}_{level}" for level in kind.levels] + [f"{name}_missing"] * kind.nullable
            elif kind is not None:
                out += [name] + [f"{name}_missing"] * (_width(kind) - 1)
        return np.array(out, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return sum(map(_width, self.schema_.coded.values()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = self.schema is not None
        return tags


def _is_one_hot(kind: ColumnKind) -> bool:
    return isinstance(kind, Nominal) and kind.n_codes > 2


def _width(kind: ColumnKind) -> int:
    return kind.n_codes if _is_one_hot(kind) else 2 if kind.nullable and not isinstance(kind, Nominal) else 1


def encode(values: Sequence[np.ndarray], schema: Schema) -> np.ndarray:
    """Return values as `read_columns` gives them as an (n_samples, n_encoded) array in [0, 1]."""
    kinds = schema.coded.values()
    n_samples, n_encoded = len(values[0]), sum(map(_width, kinds))
    if n_samples * n_encoded > _MOST_VALUES:
        raise ValueError(
            f"X must have at most {_MOST_VALUES // n_encoded} rows, as they are encoded as {n_encoded} columns, got {n_samples}; encode "
            "fewer at a time, or merge levels."
        )
    out, start = np.empty((n_samples, n_encoded)), 0
    for column, kind in zip(values, kinds, strict=True):
        block = out[:, start : start + _width(kind)]
        start += _width(kind)
        if _is_one_hot(kind):
            block[:] = 0
            block[np.arange(n_samples), column] = 1
            continue
        if isinstance(kind, Continuous):
            missing, unit = np.isnan(column), (column - kind.low) / (kind.high - kind.low)
        else:
            missing, unit = column >= len(kind.levels), column / _last(kind)
        if block.shape[1] == 2:
            unit, block[:, 1] = np.where(missing, 0.5, unit), missing
        block[:, 0] = np.clip(unit, 0, 1)
    return out


def _last(kind: ColumnKind) -> int:
    return kind.n_codes - 1 if isinstance(kind, Nominal) else len(kind.levels) - 1


def decode(X: np.ndarray, schema: Schema) -> list[np.ndarray]:
    """Return points of the cube as values of columns: the inverse of `encode` on its image, the nearest elsewhere."""
    values, start = [], 0
    for kind in schema.coded.values():
        block = X[:, start : start + _width(kind)]
        start += _width(kind)
        if _is_one_hot(kind):
            values.append(block.argmax(axis=1))
            continue
        unit = np.clip(block[:, 0], 0, 1)
        missing = block[:, 1] > 0.5 if block.shape[1] == 2 else np.zeros(len(block), dtype=bool)
        if isinstance(kind, Continuous):
            width = kind.high - kind.low
            x = np.where(unit < 0.5, kind.low + unit * width, kind.high - (1 - unit) * width)  # from the nearer end, which is met exactly
            values.append(np.where(missing, np.nan, np.clip(np.rint(x) if kind.integer else x, kind.low, kind.high)))
        else:
            values.append(np.where(missing, len(kind.levels), np.rint(unit * _last(kind)).astype(np.int64)))
    return values
