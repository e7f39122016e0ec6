"""Synthesizers: fit on private rows, sample synthetic ones."""

from skdpsynth.synthesis._areas import AreaSynthesizer
from skdpsynth.synthesis._base import PrivateSynthesizer
from skdpsynth.synthesis._intervals import Interval
from skdpsynth.synthesis._latent_factor import LatentFactorSynthesizer
from skdpsynth.synthesis._linked_tables import LinkedTablesSynthesizer
from skdpsynth.synthesis._low_dim import LowDimSynthesizer
from skdpsynth.synthesis._online import OnlineSynthesizer
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism

__all__ = [
    "AreaSynthesizer",
    "Interval",
    "LatentFactorSynthesizer",
    "LinkedTablesSynthesizer",
    "LowDimSynthesizer",
    "OnlineSynthesizer",
    "PrivateMeasureMechanism",
    "PrivateSynthesizer",
    "SignedMeasureMechanism",
]
