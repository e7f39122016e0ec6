"""Scores of models that learned from synthetic rows, against the same done by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, r2_score, roc_auc_score
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from skdpsynth.domain import Ordinal, Schema
from skdpsynth.metrics import train_synthetic_test_real

SCHEMA = Schema({"age": (0, 100), "color": ["red", "green", "blue"], "smokes": ["no", "yes"], "income": (-10.0, 10.0)})


def table(seed, n=200):
    rng = np.random.default_rng(seed)
    age, color = rng.integers(0, 101, n), rng.integers(0, 3, n)
    signal = age / 25 - 2 + 1.5 * (color == 1)
    return pd.DataFrame(
        {
            "age": age,
            "color": np.array(["red", "green", "blue"], dtype=object)[color],
            "smokes": np.where(signal + rng.logistic(size=n) > 0, "yes", "no").astype(object),
            "income": np.clip(signal + rng.normal(size=n), -10, 10),
        }
    )


SYNTHETIC, REAL = table(0), table(1, n=150)


def by_hand(frame, target):
    """Numbers in [0, 1], and a column for each level of color."""
    one_hot = OneHotEncoder(categories=[["red", "green", "blue"]], sparse_output=False)
    columns = {
        "age": frame[["age"]] / 100,
        "color": one_hot.fit_transform(frame[["color"]]),
        "smokes": frame[["smokes"]] == "yes",
        "income": (frame[["income"]] + 10) / 20,
    }
    return np.hstack([np.asarray(column, dtype=float) for name, column in columns.items() if name != target])


@pytest.mark.parametrize(
    ("target", "model", "score", "answers", "least", "most"),
    [
        ("smokes", LogisticRegression(), lambda y, z: roc_auc_score(y == "yes", z), LogisticRegression.decision_function, 0.7, 0.95),
        ("color", LogisticRegression(), accuracy_score, LogisticRegression.predict, 0.35, 0.8),
        ("income", LinearRegression(), r2_score, LinearRegression.predict, 0.3, 0.9),
    ],
)
def test_score_suits_the_target(target, model, score, answers, least, most):
    fitted = clone(model).fit(by_hand(SYNTHETIC, target), SYNTHETIC[target])
    expected = score(REAL[target], answers(fitted, by_hand(REAL, target)))
    assert train_synthetic_test_real(model, SYNTHETIC, REAL, target, SCHEMA) == pytest.approx(expected, rel=1e-6)
    assert least < expected < most


def test_second_level_is_the_positive_one():
    turned = Schema({**SCHEMA, "smokes": Ordinal(["yes", "no"])})
    scores = [
        train_synthetic_test_real(LogisticRegression(), SYNTHETIC, REAL, "smokes", schema, "average_precision")
        for schema in (SCHEMA, turned)
    ]
    model = LogisticRegression().fit(by_hand(SYNTHETIC, "smokes"), SYNTHETIC["smokes"])
    values = model.decision_function(by_hand(REAL, "smokes"))
    expected = [average_precision_score(REAL["smokes"] == level, sign * values) for level, sign in (("yes", 1), ("no", -1))]
    assert scores == pytest.approx(expected, rel=1e-6)
    assert scores[0] != pytest.approx(scores[1])


def test_rows_without_a_target_are_left_out():
    def with_gaps(frame, level):
        gaps = frame.head(60).assign(age=frame["age"].head(60).to_numpy()[::-1], smokes=level)
        return pd.concat([gaps, frame])

    expected = train_synthetic_test_real(LogisticRegression(), SYNTHETIC, REAL, "smokes", SCHEMA)
    for level in (None, "unknown"):
        X, Y = with_gaps(SYNTHETIC, level), with_gaps(REAL, level)
        assert train_synthetic_test_real(LogisticRegression(), X, Y, "smokes", SCHEMA) == expected


@pytest.mark.parametrize("model", [LogisticRegression(), RandomForestClassifier(5)], ids=["refuses one class", "takes one class"])
@pytest.mark.parametrize("level", ["no", "yes"])
def test_one_level_in_all_synthetic_rows_is_scored_as_a_constant_prediction(model, level):
    constant, share = SYNTHETIC.assign(smokes=level), (REAL["smokes"] == level).mean()
    assert train_synthetic_test_real(model, constant, REAL, "smokes", SCHEMA) == 0.5
    assert train_synthetic_test_real(model, constant, REAL, "smokes", SCHEMA, "accuracy") == pytest.approx(share)
    base = (REAL["smokes"] == "yes").mean()
    assert train_synthetic_test_real(model, constant, REAL, "smokes", SCHEMA, "average_precision") == pytest.approx(base)


def test_estimator_and_tables_stay_as_they_are():
    model, X, Y = LogisticRegression(C=2.0), SYNTHETIC.copy(), REAL.copy()
    before = clone(model).get_params()
    train_synthetic_test_real(model, X, Y, "smokes", SCHEMA)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert model.get_params() == before
    pd.testing.assert_frame_equal(X, SYNTHETIC)
    pd.testing.assert_frame_equal(Y, REAL)


def test_wrong_arguments_are_refused():
    given = {"estimator": LogisticRegression(), "X_synthetic": SYNTHETIC, "X_real": REAL, "target": "smokes", "schema": SCHEMA}
    linear = {"estimator": LinearRegression()}
    for change, message in [
        ({"target": "weight"}, "target must be a column of schema, got 'weight'"),
        ({"target": ["smokes"]}, "target must be a column of schema, got a list of 1"),
        ({"schema": {"smokes": ["no", "yes"]}}, "schema must have columns besides the target, got 'smokes' alone"),
        ({"schema": None}, "schema must be a dict"),
        ({"X_synthetic": SYNTHETIC[["smokes"]]}, "with X_synthetic as X: schema must name the columns of X"),
        ({"X_real": REAL[["smokes"]]}, "with X_real as X: schema must name the columns of X"),
        ({"X_real": REAL.head(0)}, "X_real must have at least one row"),
        ({"X_synthetic": SYNTHETIC.assign(smokes=None)}, "X_synthetic must have rows with a target, but column 'smokes'"),
        ({"X_real": REAL.assign(income=np.nan), "target": "income", **linear}, "X_real must have rows with a target"),
        ({"target": "income"}, "estimator must be a regressor, since target 'income' holds numbers in schema, got the classifier Log"),
        (linear, "estimator must be a classifier, since target 'smokes' holds levels in schema, got the regressor"),
        ({"scoring": ["roc_auc", "accuracy"]}, "scoring must be None, the name of a scorer or a callable, got"),
        ({"scoring": "roc"}, ".*'roc'"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            train_synthetic_test_real(**given | change)
