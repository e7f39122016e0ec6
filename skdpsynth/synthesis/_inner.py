"""Synthesizers that run inside others."""

import warnings

import numpy as np
from sklearn.base import clone

from skdpsynth.exceptions import InsecureRandomnessWarning

_NEEDED = ("epsilon", "delta", "bounds", "neighboring", "accountant", "random_state")


def clone_inner(synthesizer, owner, words=""):
    """Return an unfitted copy of a caller's synthesizer, or raise; `words` are other values that the parameter takes."""
    if isinstance(synthesizer, type) or not hasattr(synthesizer, "get_params"):
        raise ValueError(f"synthesizer must be {words}an unfitted synthesizer, got {synthesizer!r}; give an instance.")
    lacking = [name for name in _NEEDED if name not in synthesizer.get_params()]
    lacking += ["sample"] if not hasattr(synthesizer, "sample") else []
    if lacking:
        raise ValueError(
            f"synthesizer must be {words}an unfitted synthesizer, but {type(synthesizer).__name__} lacks {', '.join(lacking)}."
        )
    if getattr(synthesizer, "schema", None) is not None:
        raise ValueError(
            f"synthesizer must have schema=None, because {owner} hands it rows of numbers; encode mixed rows with MixedTypeEncoder first."
        )
    if synthesizer.accountant is not None:
        raise ValueError(f"synthesizer must have accountant=None, because it is charged to this fit; give the accountant to {owner}.")
    return clone(synthesizer)


def rehearse(estimator, n_features, bounds=(0.0, 1.0)):
    """Fit on a hundred made-up rows, so that parameters a part refuses are refused before any budget is spent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        low, high = bounds
        estimator.set_params(bounds=bounds).fit(low + (np.asarray(high) - low) * np.linspace(0, 1, 100)[:, None] * np.ones(n_features))


def fit_quietly(estimator, X, *categories):
    """Fit a part; the whole has warned of a seed already (and of `categories`)."""
    with warnings.catch_warnings():
        for category in (InsecureRandomnessWarning, *categories):
            warnings.simplefilter("ignore", category)
        return estimator.fit(X)


def seed_from(rng):
    """Return a RandomState for an inner `sample`, from a numpy Generator."""
    return np.random.RandomState(rng.integers(2**32, size=8, dtype=np.uint32))
