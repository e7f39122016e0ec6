"""Differentially private synthetic data and principal components, with the habits of scikit-learn."""

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
    "load",
]
__version__ = "0.1.0"
