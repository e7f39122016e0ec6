"""Differentially private synthetic data and principal components, with the habits of scikit-learn."""

import skdpsynth.federated
import skdpsynth.model_selection  # noqa: F401  what both write must load
from skdpsynth._version import __version__
from skdpsynth.decomposition import PrivatePCA
from skdpsynth.persistence import load
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.synthesis import (
    LatentFactorSynthesizer,
    LowDimSynthesizer,
    OnlineSynthesizer,
    PrivateMeasureMechanism,
    SignedMeasureMechanism,
)

__all__ = [
    "LatentFactorSynthesizer",
    "LowDimSynthesizer",
    "OnlineSynthesizer",
    "PrivacyAccountant",
    "PrivateMeasureMechanism",
    "PrivatePCA",
    "SignedMeasureMechanism",
    "__version__",
    "load",
]
