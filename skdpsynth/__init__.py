"""Differentially private synthetic data and principal components, with the habits of scikit-learn."""

from skdpsynth.decomposition import PrivatePCA
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.synthesis import LowDimSynthesizer, PrivateMeasureMechanism, SignedMeasureMechanism

__all__ = ["LowDimSynthesizer", "PrivacyAccountant", "PrivateMeasureMechanism", "PrivatePCA", "SignedMeasureMechanism"]
__version__ = "0.1.0"
