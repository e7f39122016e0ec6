"""Synthesizers: fit on private rows, sample synthetic ones."""

from skdpsynth.synthesis._latent_factor import LatentFactorSynthesizer
from skdpsynth.synthesis._latent_marginals import MarginalModel
from skdpsynth.synthesis._latent_scores import LatentLinks, ScoreModel
from skdpsynth.synthesis._low_dim import LowDimSynthesizer
from skdpsynth.synthesis._online import OnlineSynthesizer
from skdpsynth.synthesis._online_blocks import Blocks
from skdpsynth.synthesis._online_tree import GrowingTree
from skdpsynth.synthesis._private_measure import PrivateMeasureMechanism
from skdpsynth.synthesis._signed_measure import SignedMeasureMechanism

__all__ = [
    "Blocks",
    "GrowingTree",
    "LatentFactorSynthesizer",
    "LatentLinks",
    "LowDimSynthesizer",
    "MarginalModel",
    "OnlineSynthesizer",
    "PrivateMeasureMechanism",
    "ScoreModel",
    "SignedMeasureMechanism",
]
