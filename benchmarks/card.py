"""Release cards: their size, time and validity, what they say of attackers, and a search for anything of the rows in them.

The script makes a card of each kind of model, and of a mixed table of 13 columns like Census Income. It plants canaries in the rows: a
number, a level that the schema does not know, and words of a column that is left out. Then it searches card and registry record for all of
them. The HTML parser html5lib judges validity in its strict mode, which stops at the first error; it needs `pip install html5lib`.

    python benchmarks/card.py [--output FOLDER]
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import html5lib
import numpy as np
import pandas as pd

from skdpsynth import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivacyAccountant,
    PrivateMeasureMechanism,
    PrivatePCA,
    SignedMeasureMechanism,
)
from skdpsynth.domain import Continuous, Identifier
from skdpsynth.report import card

MOST_BYTES, MOST_SECONDS = 500_000, 15
NUMBER, LEVEL, WORDS = 0.4183279165, "canary-level-2718", "canary words 3141"
SECRETS = (f"{NUMBER:.8f}"[:8], LEVEL, WORDS)


def numbers(n_rows=5000, n_columns=3):
    X = np.random.default_rng(0).beta(2, 5, size=(n_rows, n_columns))
    X[:: n_rows // 20] = NUMBER
    return X


def census(n_rows=10_000):
    """Thirteen columns that depend on each other, and two that are left out: rows, and what is public of them."""
    rng = np.random.default_rng(1)
    hidden, frame, schema = rng.normal(size=n_rows), {}, {}
    for place in range(5):
        frame[f"number {place}"] = np.clip(50 + 15 * (hidden * (place % 2) + rng.normal(size=n_rows)), 0, 100)
        schema[f"number {place}"] = Continuous(0.0, 100.0, nullable=place == 0)
    for place in range(8):
        levels = [f"level {place}.{number}" for number in range(2 + 2 * place)]
        drawn = np.clip((hidden + rng.normal(size=n_rows) + 2) / 4 * len(levels), 0, len(levels) - 1).astype(int)
        frame[f"words {place}"], schema[f"words {place}"] = np.array(levels, dtype=object)[drawn], levels
    table = pd.DataFrame(frame)
    table.loc[::500, "words 3"], table.loc[::500, "number 1"] = LEVEL, 100 * NUMBER
    return table.assign(name=[f"{LEVEL} {row}" for row in range(n_rows)], remark=WORDS), schema | {
        "name": Identifier(),
        "remark": Identifier(),
    }


def models():
    X, (people, schema) = numbers(), census()
    shared = PrivacyAccountant(3, 1e-5)
    yield "13 mixed columns", LatentFactorSynthesizer(schema, epsilon=1.0, delta=1e-6).fit(people)
    yield "PMM", PrivateMeasureMechanism(epsilon=1.0).fit(X)
    yield "PSMM", SignedMeasureMechanism(200, epsilon=1.0).fit(X[:, :2])
    yield "PCA", PrivatePCA(2, accountant=shared).fit(X)
    yield "low dimension", LowDimSynthesizer(1, accountant=shared).fit(X)
    yield "stream", OnlineSynthesizer(epsilon=1.0).partial_fit(X)
    yield "account", shared


def is_valid(html):
    try:
        html5lib.HTMLParser(strict=True).parse(html)
    except html5lib.html5parser.ParseError as error:
        print(f"    {error}")
        return False
    return True


def found_in(text):
    return sum(secret in text for secret in SECRETS) + (f"{100 * NUMBER:.6f}"[:7] in text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=None, help="folder for the cards")
    folder = parser.parse_args().output
    sizes, times, invalid, canaries = {}, {}, 0, 0
    warnings.simplefilter("ignore")  # of few rows
    for name, model in models():
        start = time.process_time()
        release = card(model, title=f"Release: {name}")
        times[name] = time.process_time() - start
        html = release.to_html()
        sizes[name] = len(html.encode())
        invalid += not is_valid(html)
        canaries += found_in(html + json.dumps(release.to_registry()))
        promise = release.facts.promise
        right = f"right at most {100 * promise.risks[0].accuracy:.2f} %, by epsilon alone {100 * promise.accuracy_of_epsilon:.2f} %"
        print(f"{name}: {sizes[name] / 1000:.0f} kB, {times[name]:.1f} s; an attacker is {right}", flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            release.save(folder / f"{name.replace(' ', '_')}.html")
    rows = (
        ("largest card", max(sizes.values()) / 1000, MOST_BYTES / 1000, "kB"),
        ("longest processor time for a card", max(times.values()), MOST_SECONDS, "s"),
        ("cards that are not valid HTML", invalid, 0, ""),
        ("canaries found in cards and records", canaries, 0, ""),
    )
    missed = [what for what, figure, target, _ in rows if figure > target]
    for what, figure, target, unit in rows:
        print(
            f"{what}: {figure:.3g} {unit}, target <= {target:g} {unit}: {'MISSED' if what in missed else 'met'}".replace(" ,", ",").replace(
                " :", ":"
            )
        )
    assert found_in(f"{NUMBER} {LEVEL} {WORDS} {100 * NUMBER}") == 4, "the search finds what is there"
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
