"""The package is light to import, whole as soon as a name of it is asked for, and prints nothing: in processes of their own."""

import os
import subprocess
import sys
from operator import attrgetter

import numpy as np
import pytest
from estimators import all_estimators

import skdpsynth
from skdpsynth import PrivateMeasureMechanism


def told(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, check=True, env=environment).stdout


def test_the_package_by_itself_loads_no_numerical_library():
    modules = set(told("import sys, skdpsynth; skdpsynth.__version__; print(*sys.modules)").split())
    assert {"numpy", "scipy", "sklearn"} & modules == set()


@pytest.mark.parametrize("name", skdpsynth.__all__)
def test_every_public_name_is_there_when_asked_for(name):
    assert getattr(skdpsynth, name) is getattr(skdpsynth, name)
    assert name in dir(skdpsynth)


def test_a_name_that_the_package_lacks_is_said_as_python_says_it():
    with pytest.raises(AttributeError, match=r"^module 'skdpsynth' has no attribute 'PrivatePCS'$"):
        skdpsynth.PrivatePCS  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from skdpsynth import Nothing  # noqa: F401


MEANT = {
    "PMM": "PrivateMeasureMechanism",
    "PSMM": "SignedMeasureMechanism",
    "DPPCA": "PrivatePCA",
    "AIM": "LatentFactorSynthesizer",
    "HMASynthesizer": "LinkedTablesSynthesizer",
    "BudgetAccountant": "PrivacyAccountant",
    "Schema": "domain.Schema",
    "Children": "domain.Children",
    "PrivateSearchCV": "model_selection.PrivateSearchCV",
}


@pytest.mark.parametrize(("name", "meant"), MEANT.items())
def test_a_name_of_the_papers_or_of_another_library_is_answered_by_that_of_here(name, meant):
    with pytest.raises(AttributeError, match=rf"^module 'skdpsynth' has no attribute '{name}'; did you mean skdpsynth\.{meant}\?$"):
        getattr(skdpsynth, name)
    assert attrgetter(meant)(skdpsynth)
    assert not hasattr(skdpsynth, name)


def test_a_room_is_an_attribute_and_a_file_loads_in_a_program_that_has_imported_nothing_else(tmp_path):
    path = tmp_path / "model.skdp"
    PrivateMeasureMechanism(depth=3).fit(np.random.default_rng(0).random((50, 1))).save(path)
    shown = told("import sys, skdpsynth; print(skdpsynth.load(sys.argv[1]).sample(4).shape, skdpsynth.domain.Box((0,), (1,)).low)", path)
    assert shown == "(4, 1) [0.]\n"


FIT_AND_SAMPLE = """
import sys, warnings
import numpy as np
import skdpsynth

warnings.simplefilter("ignore")
X = np.random.default_rng(0).random((60, 2))
for name in sys.argv[1:]:
    model = getattr(skdpsynth, name)(**{"n_factors": 1} if name == "LatentFactorSynthesizer" else {}).fit(X)
    model.sample(20) if hasattr(model, "sample") else model.transform(X)
"""
BY_HIGHS_ALONE = """
import numpy as np
from skdpsynth.measures._min_cost_flow import min_cost_flow

a, b = np.divmod(np.arange(9), 3)
min_cost_flow("highs", a, b, 1.0 + np.abs(a - b), np.array([2.0, 3, 4]), np.array([3.0, 3, 3]), np.full(9, 1.0))
"""


@pytest.mark.parametrize(("script", "arguments"), [(FIT_AND_SAMPLE, [cls.__name__ for cls in all_estimators()]), (BY_HIGHS_ALONE, [])])
def test_the_first_fits_samples_and_flows_of_a_process_print_nothing(script, arguments):
    assert told(script, *arguments) == ""
