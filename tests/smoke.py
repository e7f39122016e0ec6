"""Each estimator once, with numpy alone: run by `.ci/run` where only the wheel is installed."""

import sys
import tempfile
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import skdpsynth
from skdpsynth.metrics import quality_report

OPTIONAL = ("pandas", "polars", "pyarrow", "matplotlib", "ot", "yaml", "jinja2", "click", "rich")


def main():
    warnings.simplefilter("ignore", UserWarning)
    assert version("skdpsynth") == skdpsynth.__version__
    X = np.random.default_rng(0).beta(2, 5, size=(2000, 3))
    models = [
        skdpsynth.PrivateMeasureMechanism(),
        skdpsynth.SignedMeasureMechanism(64),
        skdpsynth.LowDimSynthesizer(1),
        skdpsynth.OnlineSynthesizer(),
        skdpsynth.LatentFactorSynthesizer({0: (0.0, 1.0), 1: (0.0, 1.0), 2: (0.0, 1.0)}, delta=1e-6),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            path = Path(folder) / "model.zip"
            model.fit(X).save(path)
            rows = skdpsynth.load(path).sample(100)
            assert rows.shape == (100, 3)
            assert quality_report(X, rows).n_real == 2000
    assert skdpsynth.PrivatePCA(2).fit_transform(X).shape == (2000, 2)
    here = [name for name in OPTIONAL if find_spec(name)]
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}, skdpsynth {skdpsynth.__version__}: all well; optional here: {here}")


if __name__ == "__main__":
    main()
