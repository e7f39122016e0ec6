"""What users do: a Pipeline before a classifier, a search of d', private against non-private PCA."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsynth import LowDimSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA

pytestmark = pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.SmallSampleWarning")


@pytest.fixture(scope="module")
def digits():
    """1797 digits of 64 pixels, public bounds 0 to 16."""
    return load_digits(return_X_y=True)


def test_private_pca_in_a_pipeline_before_a_classifier(digits):
    X, y = digits
    pipeline = make_pipeline(PrivatePCA(20, epsilon=200.0, bounds=(0, 16)), LogisticRegression(max_iter=2000))
    assert pipeline.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.8
    assert pipeline[0].accountant_.spent == 200


def test_grid_search_of_components_in_a_pipeline(digits):
    X, y = digits
    pipeline = make_pipeline(PrivatePCA(epsilon=100.0, bounds=(0, 16)), StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"privatepca__n_components": [1, 10]}, cv=2).fit(X[:600], y[:600])
    assert search.best_params_ == {"privatepca__n_components": 10}
    assert search.best_estimator_[0].components_.shape == (10, 64)


def test_grid_search_of_the_dimension_of_a_synthesizer():
    rng = np.random.default_rng(0)
    X = 0.5 + 0.4 * rng.uniform(-1, 1, (4000, 2)) @ np.array([[1.0, 0.3, -0.5, 0.2, 0.1], [0.0, 0.7, 0.4, -0.6, 0.5]]) / 1.2
    search = GridSearchCV(LowDimSynthesizer(epsilon=20.0), {"n_components": [1, 2]}, cv=2).fit(X)
    assert (search.best_params_, search.best_estimator_.sample(10).shape) == ({"n_components": 2}, (10, 5))


def test_a_shared_accountant_tells_what_a_whole_search_costs():
    """Two candidates, two folds and the refit: five fits; the scores are still unprotected reads, as the docs say."""
    X = np.random.default_rng(0).random((200, 3))
    shared = PrivacyAccountant(10)
    search = GridSearchCV(LowDimSynthesizer(epsilon=1.0, accountant=shared), {"n_components": [1, 2]}, cv=2).fit(X)
    assert (shared.spent, search.best_estimator_.accountant_.spent) == (5, 1)


def test_a_shared_accountant_refuses_parallel_processes_in_one_sentence():
    X = np.random.default_rng(0).random((200, 3))
    search = GridSearchCV(LowDimSynthesizer(accountant=PrivacyAccountant(10)), {"n_components": [1, 2]}, cv=2, n_jobs=2)
    with pytest.raises(pickle.PicklingError) as caught:  # joblib's, caused by ours
        search.fit(X)
    assert "An open PrivacyAccountant cannot be pickled" in str(caught.value.__cause__)
    assert "n_jobs=1" in str(caught.value.__cause__)


def test_synthetic_rows_from_a_pipeline_go_back_through_the_reducer():
    """A measure after PrivatePCA in a Pipeline needs bounds of the projected coordinates; its rows come back by inverse_transform."""
    X = np.random.default_rng(0).random((2000, 4))
    pipeline = make_pipeline(PrivatePCA(2, epsilon=0.5), PrivateMeasureMechanism(epsilon=0.5, bounds=(-1, 1))).fit(X)
    rows = pipeline[:-1].inverse_transform(pipeline[-1].sample(50))
    assert (rows.shape, sum((step.accountant_.spent for _, step in pipeline.steps), Fraction(0))) == ((50, 4), 1)
