"""The traffic of sites in a fit: questions, bytes, and the time of masks.

    python benchmarks/federated.py

There are twenty sites, rows near a plane in ten columns, and a mixed table of as many columns. Bytes do not depend on the rows.
"""

import time
import warnings

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.federated import Masks, Site, Sites

N_SITES, N_ROWS, N_COLUMNS = 20, 100_000, 10
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.clip(0.5 + rng.normal(0, 0.1, (N_ROWS, 2)) @ rng.normal(0, 1, (2, N_COLUMNS)) + rng.normal(0, 0.01, (N_ROWS, N_COLUMNS)), 0, 1)
table = pd.DataFrame({f"x{i}": X[:, i] if i < 5 else np.digitize(X[:, i], [0.3, 0.5, 0.7]) for i in range(N_COLUMNS)})
schema = {f"x{i}": (0.0, 1.0) if i < 5 else [0, 1, 2, 3] for i in range(N_COLUMNS)}
fits = {
    "PrivatePCA(2)": (PrivatePCA(2), X),
    "PrivateMeasureMechanism(), 2 columns": (PrivateMeasureMechanism(), X[:, :2]),
    "SignedMeasureMechanism(1000), 2 columns": (SignedMeasureMechanism(1000), X[:, :2]),
    "LowDimSynthesizer(2)": (LowDimSynthesizer(2), X),
    "LatentFactorSynthesizer, 10 mixed columns": (LatentFactorSynthesizer(schema, delta=1e-6), table),
}
names = [f"site {i}" for i in range(N_SITES)]
print(f"{'fit':<44}{'questions':>10}{'asked':>12}{'answered':>12}{'seconds':>10}{'in one table':>14}")
for name, (model, rows) in fits.items():
    masks, sent = Masks.for_all(names), []
    sites = {}
    for place, site_name in enumerate(names):
        site = Site(rows[place::N_SITES] if isinstance(rows, np.ndarray) else rows.iloc[place::N_SITES], masks=masks[site_name])

        def carry(message, site=site, is_first=place == 0):
            answer = site.answer(message)
            if is_first:
                sent.append((len(message), len(answer)))  # noqa: B023  used in this turn
            return answer

        sites[site_name] = carry
    start = time.perf_counter()
    model.fit(Sites(sites, head=rows[:0]))
    together = time.perf_counter() - start
    start = time.perf_counter()
    model.fit(rows)
    alone = time.perf_counter() - start
    asked, answered = np.sum(sent, axis=0)
    print(f"{name:<44}{len(sent):>10}{asked:>12,}{answered:>12,}{together:>10.2f}{alone:>14.2f}")

values = np.zeros(1_000_000, dtype=np.uint64)
start = time.perf_counter()
Masks.for_all(names)["site 3"].hide(values, b"question")
seconds = time.perf_counter() - start
rate = (N_SITES - 1) * values.nbytes / seconds / 1e6
print(f"\nA mask of a million numbers, {N_SITES} sites: {seconds:.2f} s, {rate:.0f} MB of pads a second")
