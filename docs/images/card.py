"""Draw docs/images/card.png: the head of a release card, as a browser shows it.

    python docs/images/card.py

The rows are made up. Needs Chromium, or Chrome, and no network.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.report import card

DOCS = Path(__file__).parents[1]
sys.path.insert(0, str(DOCS / "_ext"))
from phone import FLAGS, browser  # noqa: E402

WIDTH, HEIGHT = 620, 950


def visits(n=5000):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n)
    returned = np.where(rng.random(n) < age / 150, "yes", "no")
    return pd.DataFrame({"age": age, "ward": rng.choice(["surgery", "medicine", "eyes"], n), "returned": returned})


def main():
    schema = {"age": (18, 99), "ward": ["surgery", "medicine", "eyes"], "returned": ["no", "yes"]}
    model = LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(visits())
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder, "card.html"), Path(folder, "card.png")
        synthetic = Path(folder, "synthetic.csv")
        model.sample(out=synthetic)
        card(model, title="Visits in May", files=synthetic).save(page)
        size = f"--window-size={WIDTH},{HEIGHT}"
        subprocess.run([browser(), *FLAGS, f"--user-data-dir={folder}/browser", size, f"--screenshot={shot}", page.as_uri()], check=True)
        few = ImageOps.expand(Image.open(shot).convert("RGB"), 1, "#c8ccd0").quantize(32, dither=Image.Dither.NONE)
        few.save(Path(__file__).with_name("card.png"), optimize=True)


if __name__ == "__main__":
    main()
