"""Synthesizers: fit on private rows, sample synthetic ones."""

from skdpsynth.synthesis._low_dim import LowDimSynthesizer
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism

__all__ = ["LowDimSynthesizer", "PrivateMeasureMechanism", "SignedMeasureMechanism"]
