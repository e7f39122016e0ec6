"""The same warning is said once a place: asked of a plain script, because pytest has filters of its own."""

import re
import subprocess
import sys
from collections import Counter

import pytest

SCRIPTS = {
    "GridSearchCV": "GridSearchCV(PrivatePCA(), {'n_components': [1, 2, 3]}, cv=5).fit(X)",
    "cross_val_score": "cross_val_score(PrivatePCA(1, epsilon=30), X, cv=5)",
    "pipelines": """
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
GridSearchCV(make_pipeline(MinMaxScaler(), PrivatePCA(random_state=0)), {'privatepca__n_components': [1, 2, 3]}, cv=5).fit(X)
""",
    "threads": "GridSearchCV(PrivatePCA(), {'n_components': [1, 2, 3]}, cv=5, n_jobs=2).fit(X)",
    "places": """
for _ in range(3):
    PrivateMeasureMechanism(epsilon=30).fit(X)
PrivateMeasureMechanism(epsilon=30).fit(X)
""",
    "accountant": "GridSearchCV(PrivatePCA(accountant=PrivacyAccountant(20)), {'n_components': [1, 2, 3]}, cv=5).fit(X)",
    "processes": "GridSearchCV(PrivatePCA(), {'n_components': [1, 2, 3]}, cv=5, n_jobs=2).fit(X)",
}
RUN = """
import sys
import numpy as np
from joblib import parallel_config
from sklearn.model_selection import GridSearchCV, cross_val_score
from skdpsynth import PrivatePCA, PrivateMeasureMechanism, PrivacyAccountant

for name, script in {scripts!r}.items():
    print("script", name, file=sys.stderr, flush=True)
    names = {{**globals(), "__name__": name, "X": np.random.default_rng(0).random((60, 3))}}
    names.pop("__warningregistry__", None)
    with parallel_config("loky" if name == "processes" else "threading"):
        exec(compile(script, name + ".py", "exec"), names)
"""


def said(names, *options):
    """How often each of our warnings was printed, by its text, of each of some scripts in one process."""
    run = RUN.format(scripts={name: SCRIPTS[name] for name in names})
    done = subprocess.run([sys.executable, *options, "-c", run], capture_output=True, text=True, check=True, timeout=300)
    told = {}
    for line in done.stderr.splitlines():
        if line.startswith("script "):
            of = told[line.removeprefix("script ")] = Counter()
        elif re.search(r": (Budget|Bounds|InsecureRandomness|SmallSample)Warning: ", line):
            of[line.partition("Warning: ")[2]] += 1
    return told


@pytest.fixture(scope="module")
def told():
    return said([name for name in SCRIPTS if name != "processes"])


@pytest.mark.parametrize(("name", "most"), [pytest.param("processes", 2, marks=pytest.mark.nightly), ("threads", 1)])
def test_a_search_in_parallel_says_each_thing_once_a_worker_process(name, most, request):
    """And once more for the refit, which happens elsewhere."""
    found = said([name])[name] if name == "processes" else request.getfixturevalue("told")[name]
    assert max(found.values()) <= most + 1
    assert any(text.startswith("A clone is fitted") for text in found)


def test_a_search_says_each_thing_once_and_fits_once_a_place_and_who_wants_to_hear_all_hears_all(told):
    for search in ("GridSearchCV", "cross_val_score", "pipelines"):
        assert set(told[search].values()) == {1}
        assert sum(text.startswith("A clone is fitted") for text in told[search]) == 1
    assert not any("by itself" in text for text in told["accountant"])
    for found, n_times in ((told["places"], 2), (said(["places"], "-W", "always")["places"], 4)):
        assert [times for text, times in found.items() if "epsilon=30 is above" in text] == [n_times]
