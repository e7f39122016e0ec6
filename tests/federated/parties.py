"""Tables that are cut into sites, and the estimators that are fitted to them."""

import numpy as np
import pandas as pd

from skdpsynth import LatentFactorSynthesizer, LowDimSynthesizer, PrivateMeasureMechanism, PrivatePCA, SignedMeasureMechanism
from skdpsynth.domain import Continuous, Date, Identifier, Ordinal, Schema
from skdpsynth.federated import Masks, Site, Sites

SCHEMA = Schema(
    {
        "number": Identifier(),
        "age": (0, 99),
        "weight": Continuous(0.0, 150.0, nullable=True),
        "ill": ["no", "yes"],
        "stage": Ordinal(["a", "b", "c"]),
        "visit": Date("2020-01-01", "2021-12-31"),
    }
)


def numbers(n=800, d=4, dtype=float):
    """Rows near a line, some of them out of bounds."""
    rng = np.random.default_rng(0)
    return (rng.normal(0.4, 0.3, (n, 1)) * [1, 0.5, 0.2, 0.8][:d] + rng.normal(0, 0.05, (n, d))).astype(dtype)


def patients(n=800):
    """A mixed table with missing cells and unknown levels."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 110, n)
    weight = np.where(rng.random(n) < 0.1, np.nan, 40 + age / 3 + rng.normal(0, 5, n))
    stage = rng.choice(["a", "b", "c", "?"], n, p=[0.5, 0.3, 0.1, 0.1])
    ill, visit = np.where(rng.random(n) < age / 150, "yes", "no"), pd.Timestamp("2020-01-01") + pd.to_timedelta(7 * age, unit="D")
    return pd.DataFrame({"number": np.arange(n), "age": age, "weight": weight, "ill": ill, "stage": stage, "visit": visit})


# name: (estimator, which of the tables it takes)
FITS = {
    "pca": (PrivatePCA(2), "numbers"),
    "pca-gaussian": (PrivatePCA(2, center="public", delta=1e-6), "numbers"),
    "pca-laplace": (PrivatePCA(2, noise="laplace"), "numbers"),
    "pmm-adaptive": (PrivateMeasureMechanism("adaptive"), "numbers"),
    "pmm-optimal": (PrivateMeasureMechanism("optimal"), "numbers"),
    "psmm": (SignedMeasureMechanism(60), "numbers"),
    "psmm-cells": (SignedMeasureMechanism(cells=np.random.default_rng(2).random((30, 4))), "numbers"),
    "low-dim": (LowDimSynthesizer(2, epsilon=50), "numbers"),
    "low-dim-psmm": (LowDimSynthesizer("auto", synthesizer="psmm", epsilon=50), "numbers"),
    "latent": (LatentFactorSynthesizer(n_factors=1), "numbers"),
    "latent-table": (LatentFactorSynthesizer(SCHEMA, stratify="ill", n_factors=1, delta=1e-6), "patients"),
}
TABLES = {"numbers": numbers, "patients": patients}


def sites_of(X, n_sites, *, masks=True, head=None, n_samples=None, **agreed):
    """Return (sites, table of them all): rows are dealt out unevenly, and the first site has one row."""
    cuts = np.sort(np.random.default_rng(3).integers(2, len(X), n_sites - 2))
    parts = [X[start:stop] for start, stop in zip([0, 1, *cuts], [1, *cuts, len(X)], strict=True)]
    names = [f"site {i}" for i in range(n_sites)]
    keys = Masks.for_all(names) if masks else dict.fromkeys(names)
    sites = {name: Site(part, masks=keys[name], **agreed) for name, part in zip(names, parts, strict=True)}
    head = X[:0] if head is None else head
    return sites, Sites({name: site.answer for name, site in sites.items()}, head=head, n_samples=n_samples)


def learned(model):
    """What a fitted model gives, for a seed, as a table."""
    if hasattr(model, "sample"):
        return pd.DataFrame(model.sample(100, random_state=0))
    return pd.DataFrame(np.vstack([model.components_, model.mean_, model.covariance_]))
