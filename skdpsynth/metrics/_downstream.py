"""What a model learned from synthetic rows is worth on real ones."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from skdpsynth._checks import shown
from skdpsynth.domain import Continuous, Schema, as_nullable, encode
from skdpsynth.metrics._tables import columns_in


def train_synthetic_test_real(estimator: Any, X_synthetic: Any, X_real: Any, target: Any, schema: Any, scoring: Any = None) -> float:
    """Return the score on real rows of an estimator that was fitted on synthetic ones.

    The columns but `target` are encoded by `schema` alone, as `skdpsynth.domain.MixedTypeEncoder` does. The estimator gets a target of
    numbers clipped to its bounds, and one of levels as their places in `schema`: of two levels, the second is the positive class. Rows
    without a target (missing, or a level that `schema` does not know) are left out on both sides.

    Parameters
    ----------
    estimator : classifier or regressor of scikit-learn
        Cloned, not fitted itself.
    X_synthetic, X_real : array-like, data frame or other table that `fit` takes, (n_samples, n_features) and (m_samples, n_features)
        Tables with the columns of `schema`, the target among them; those that are not in memory are read into it. `X_real` is read
        unprotected, without noise: a score on private rows is not private. Take rows that the synthesizer has not seen.
    target : column of `schema`
        What to predict: a name, or a number in an array.
    schema : dict, Schema or path of a file
        ``{column: (low, high), [levels] or a kind}`` of all columns, see `skdpsynth.domain.Schema`.
    scoring : str or callable, default=None
        A name of scikit-learn's scorers, or ``scorer(estimator, X, y)``. None: "roc_auc" for a target of two levels, "accuracy" for one of
        more, "r2" for one of numbers.

    Returns
    -------
    score : float
        Where the target has one level only in all synthetic rows, the score of predicting it always, whatever the estimator: 0.5 for
        "roc_auc".

    Raises
    ------
    ValueError
        If `target` is not in `schema`, the columns are not those of `schema`, no other column or no row with a target is left, or the
        estimator is of the wrong kind for the default of `scoring`.
    TypeError
        If a dtype cannot hold what `schema` says.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpsynth.metrics import train_synthetic_test_real
    >>> ages = np.arange(20, 80)
    >>> X_real = np.column_stack([ages, ages > 50])
    >>> X_synthetic = np.column_stack([ages + 5, ages > 50])
    >>> train_synthetic_test_real(LogisticRegression(), X_synthetic, X_real, target=1, schema={0: (0, 99), 1: [0, 1]})
    1.0
    """
    schema = Schema.of(schema)
    if not isinstance(target, Hashable) or target not in schema:
        raise ValueError(f"target must be a column of schema, got {shown(target)}; add it there, or name another.")
    if len(schema) < 2:
        raise ValueError(f"schema must have columns besides the target, got {shown(target)} alone; add those to predict from.")
    kind = _kind_of_target(schema, target)
    scorer = _scorer(estimator, scoring, target, kind)
    X_train, y_train = _rows_with_target(X_synthetic, target, schema, "X_synthetic")
    X_test, y_test = _rows_with_target(X_real, target, schema, "X_real")
    if not isinstance(kind, Continuous) and len(np.unique(y_train)) == 1:
        return float(scorer(_constant(y_train[0], len(kind.levels), X_train.shape[1]), X_test, y_test))
    return float(scorer(clone(estimator).fit(X_train, y_train), X_test, y_test))


def _kind_of_target(schema: Schema, target: Any) -> Any:
    """Return the target as numbers or levels."""
    kind = schema[target].coded
    if kind is None:
        raise ValueError(f"target must be a column that is synthesized, but {shown(target)} is {type(schema[target]).__name__} in schema.")
    return kind


def _scorer(estimator: Any, scoring: Any, target: Any, kind: Any) -> Any:
    from sklearn.metrics import check_scoring

    if scoring is None:
        scoring = _default_scoring(estimator, target, kind)
    elif not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"scoring must be None, the name of a scorer or a callable, got {shown(scoring)}; call once for each of several.")
    return check_scoring(estimator, scoring)


def _default_scoring(estimator: Any, target: Any, kind: Any) -> str:
    has_numbers = isinstance(kind, Continuous)
    if (is_classifier if has_numbers else is_regressor)(estimator):
        holds, is_a, way_out = ("numbers", "classifier", "regressor") if has_numbers else ("levels", "regressor", "classifier")
        raise ValueError(
            f"estimator must be a {way_out}, since target {shown(target)} holds {holds} in schema, got the {is_a} "
            f"{type(estimator).__name__}; pass a {way_out}, or say in `scoring` how to score it."
        )
    return "r2" if has_numbers else "roc_auc" if len(kind.levels) == 2 else "accuracy"


def _rows_with_target(X: Any, target: Any, schema: Schema, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (encoded columns, target) of the rows that have one."""
    # Where schema allows none, a missing cell would count as the midpoint or the first level; as a target it has to stand out.
    schema_of_rows = Schema({**schema, target: as_nullable(schema[target])})
    values = dict(zip(schema_of_rows.coded, columns_in(X, schema_of_rows, name).collected(), strict=True))
    y, kind = values.pop(target), schema[target].coded
    known = ~np.isnan(y) if isinstance(kind, Continuous) else y < len(kind.levels)
    if not known.any():
        raise ValueError(f"{name} must have rows with a target, but column {shown(target)} has no number or level of schema in any.")
    return encode([column[known] for column in values.values()], Schema({c: k for c, k in schema.items() if c != target})), y[known]


def _constant(level: int, n_levels: int, n_features: int) -> Any:
    """Return a classifier that knows all levels, so that every scorer takes it, and always predicts one."""
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="constant", constant=level).fit(np.zeros((n_levels, n_features)), np.arange(n_levels))
