"""Scores on real rows of models that were trained on synthetic rows."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor

from skdpsynth._validation import check_attributes, short_repr
from skdpsynth.domain import ColumnKind, Continuous, Schema, as_nullable, is_name
from skdpsynth.metrics._read_tables import SchemaLike, Table, columns_in
from skdpsynth.tables import encode

Sample = tuple[np.ndarray, np.ndarray]  # encoded columns, and targets


def train_synthetic_test_real(
    estimator: BaseEstimator,
    X_synthetic: Table,
    X_real: Table,
    target: Hashable,
    schema: SchemaLike,
    scoring: str | Callable[..., float] | None = None,
) -> float:
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
        The column to predict: a name, or a number in an array.
    schema : dict, Schema or path of a file
        ``{column: (low, high), [levels] or a kind}`` of all columns, see `skdpsynth.domain.Schema`.
    scoring : str or callable, default=None
        A name of scikit-learn's scorers, or ``scorer(estimator, X, y)``. None: "roc_auc" for a target of two levels, "accuracy" for one of
        more, "r2" for one of numbers.

    Returns
    -------
    score : float
        If all synthetic rows have the same level of the target, the score of always predicting it, whatever the estimator: 0.5 for
        "roc_auc".

    See Also
    --------
    skdpsynth.metrics.marginal_total_variation : Compares frequencies instead.

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
    kind = kind_of_target(schema, target)
    check_attributes("estimator", estimator, ("fit", "get_params"), "a classifier or regressor of scikit-learn")
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"scoring must be None, the name of a scorer or a callable, got {short_repr(scoring)}; call once for each.")
    from sklearn.metrics import get_scorer_names

    if isinstance(scoring, str) and scoring not in get_scorer_names():
        raise ValueError(f"scoring must be the name of a scorer, got {short_repr(scoring)}; sklearn.metrics.get_scorer_names() lists them.")
    scoring = default_scoring(estimator, target, kind) if scoring is None else scoring
    # If the schema allows no missing cells, one would count as the midpoint or the first level; as a target it must stand out.
    read = Schema({**schema, target: as_nullable(schema[target])}, read=schema.read)
    train, test = (
        split_target(columns_in(X, read, name).collect(), target, read.coded, kind, name)
        for X, name in ((X_synthetic, "X_synthetic"), (X_real, "X_real"))
    )
    return score_of(estimator, scoring, train, test, kind)


def score_of(estimator: BaseEstimator, scoring: str | Callable[..., float] | None, train: Sample, test: Sample, kind: ColumnKind) -> float:
    """Return the score on `test` after a fit on `train`; with a single level in `train`, that of predicting it always."""
    from sklearn.dummy import DummyClassifier
    from sklearn.metrics import check_scoring

    (X, y), scorer = train, check_scoring(estimator, scoring)
    if isinstance(kind, Continuous) or len(np.unique(y)) > 1:
        return float(scorer(clone(estimator).fit(X, y), *test))
    levels = np.arange(len(kind.levels))  # all of them, so that every scorer accepts it
    return float(scorer(DummyClassifier(strategy="constant", constant=y[0]).fit(np.zeros((len(levels), X.shape[1])), levels), *test))


def kind_of_target(schema: Schema, target: Hashable) -> Any:
    """Return the target as numbers or levels; refuse one that cannot be predicted."""
    if not is_name(target) or target not in schema:
        raise ValueError(f"target must be a column of schema, got {short_repr(target)}; add it there, or name another.")
    if len(schema) < 2:
        raise ValueError(f"schema must have columns besides the target, got {short_repr(target)} alone; add those to predict from.")
    kind = schema[target].coded
    if kind is None:
        raise ValueError(
            f"target must be a column that is synthesized, but {short_repr(target)} is {type(schema[target]).__name__}; omit it."
        )
    return kind


def default_scoring(estimator: BaseEstimator, target: Hashable, kind: ColumnKind) -> str:
    """Return the name of a suitable score, or refuse an estimator that cannot predict the target."""
    has_numbers = isinstance(kind, Continuous)
    if (is_classifier if has_numbers else is_regressor)(estimator):
        holds, is_a, way_out = ("numbers", "classifier", "regressor") if has_numbers else ("levels", "regressor", "classifier")
        raise ValueError(
            f"estimator must be a {way_out}, since target {short_repr(target)} holds {holds} in schema, got the {is_a} "
            f"{type(estimator).__name__}; pass a {way_out}, or say in `scoring` how to score it."
        )
    return "r2" if has_numbers else "roc_auc" if len(kind.levels) == 2 else "accuracy"


def split_target(columns: list[np.ndarray], target: Hashable, schema: Schema, kind: ColumnKind, name: str) -> Sample:
    """Return (encoded columns, target) of the rows that have a target, from columns read by a schema in which it may be missing."""
    values = dict(zip(schema, columns, strict=True))
    y = values.pop(target)
    known = ~np.isnan(y) if isinstance(kind, Continuous) else y < len(kind.levels)
    if not known.any():
        raise ValueError(f"{name} must have rows with a target, but column {short_repr(target)} has no number or level of schema in any.")
    return encode([column[known] for column in values.values()], Schema({c: k for c, k in schema.items() if c != target})), y[known]
