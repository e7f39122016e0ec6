"""The same warning is said once a place: asked of a plain script, because pytest has filters of its own."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HEAD = """
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from skdpsynth import PrivatePCA, PrivateMeasureMechanism, PrivacyAccountant

X = np.random.default_rng(0).random((60, 3))
"""


def said(script, tmp_path, *options):
    """How often each of our warnings was printed, by its text."""
    file = Path(tmp_path, "script.py")
    file.write_text(HEAD + script)
    done = subprocess.run([sys.executable, *options, file], capture_output=True, text=True, check=True, timeout=300)
    return Counter(
        line.partition("Warning: ")[2]
        for line in done.stderr.splitlines()
        if re.search(r": (Budget|Bounds|InsecureRandomness|SmallSample)Warning: ", line)
    )


SEARCHES = {
    "GridSearchCV": "GridSearchCV(PrivatePCA(), {'n_components': [1, 2, 3]}, cv=5).fit(X)",
    "cross_val_score": "cross_val_score(PrivatePCA(1, epsilon=30), X, cv=5)",
    "pipelines": """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
GridSearchCV(make_pipeline(MinMaxScaler(), PrivatePCA(random_state=0)), {'privatepca__n_components': [1, 2, 3]}, cv=5).fit(X)
""",
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_search_says_each_thing_once(search, tmp_path):
    told = said(search, tmp_path)
    assert set(told.values()) == {1}
    assert sum(text.startswith("A clone is fitted") for text in told) == 1


@pytest.mark.parametrize(("backend", "most"), [("loky", 2), ("threading", 1)])
def test_a_search_in_parallel_says_each_thing_once_a_worker_process(backend, most, tmp_path):
    """And once more for the refit, which happens elsewhere."""
    script = f"""
from joblib import parallel_config
with parallel_config("{backend}"):
    GridSearchCV(PrivatePCA(), {{"n_components": [1, 2, 3]}}, cv=5, n_jobs=2).fit(X)
"""
    told = said(script, tmp_path)
    assert max(told.values()) <= most + 1
    assert any(text.startswith("A clone is fitted") for text in told)


def test_fits_at_one_place_say_it_once_and_at_two_places_twice(tmp_path):
    script = """
for _ in range(3):
    PrivateMeasureMechanism(epsilon=30).fit(X)
PrivateMeasureMechanism(epsilon=30).fit(X)
"""
    assert [times for text, times in said(script, tmp_path).items() if "epsilon=30 is above" in text] == [2]


def test_who_wants_to_hear_all_hears_all(tmp_path):
    script = "for _ in range(3): PrivateMeasureMechanism(epsilon=30).fit(X)"
    told = said(script, tmp_path, "-W", "always")
    assert [times for text, times in told.items() if "epsilon=30 is above" in text] == [3]


def test_a_search_with_one_accountant_has_no_fit_that_spends_by_itself(tmp_path):
    script = "GridSearchCV(PrivatePCA(accountant=PrivacyAccountant(20)), {'n_components': [1, 2, 3]}, cv=5).fit(X)"
    assert not any("by itself" in text for text in said(script, tmp_path))
