"""The recipe of the documentation for Ray gives the models of one table in memory, to the last bit."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA

PAGE = Path(__file__).parents[2] / "docs" / "large_data.md"
RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(RNG.random((900, 3)), columns=list("abc"))
TABLE = NUMBERS.assign(c=RNG.choice(["no", "yes"], 900))
SCHEMA = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": ["no", "yes"]}
FITS = {
    "PMM": (PrivateMeasureMechanism(random_state=0), NUMBERS),
    "PMM, private n": (PrivateMeasureMechanism(random_state=0, neighboring="add_or_remove_one"), NUMBERS),
    "PCA": (PrivatePCA(random_state=0), NUMBERS),
    "LowDim": (LowDimSynthesizer(2, random_state=0), NUMBERS),
    "table": (LatentFactorSynthesizer(SCHEMA, random_state=0), TABLE),
}


def recipe(name):
    """The function of this name in the documentation, as it is written there."""
    block = next(block for block in PAGE.read_text(encoding="utf-8").split("```python\n")[1:] if f"def {name}(" in block)
    names = {}
    exec(compile(block.split("```")[0], str(PAGE), "exec"), names)
    return names[name]


def shown(estimator, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(table)
    return model.covariance_ if isinstance(model, PrivatePCA) else np.asarray(model.sample(100, random_state=0))


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("name", FITS)
def test_ray_gives_the_bits_of_one_table(name, ray):
    estimator, table = FITS[name]
    there = ray.data.from_pandas([table[start : start + 200] for start in range(0, 900, 200)])
    np.testing.assert_array_equal(shown(estimator, recipe("ray_rows")(there)), shown(estimator, table))
