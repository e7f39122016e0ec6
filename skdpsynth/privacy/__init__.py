"""The door: exact noise, what it costs, and the accountant that adds it."""

from skdpsynth.privacy._accountant import LedgerEntry, PrivacyAccountant, StandingRelease, check_accountant
from skdpsynth.privacy._composition import epsilon_of_rho, rho_of_epsilon, split_exactly
from skdpsynth.privacy._gaussian import DiscreteGaussian, gaussian_scale
from skdpsynth.privacy._laplace import DiscreteLaplace, laplace_scale
from skdpsynth.privacy._losses import PrivacyLoss, check_delta, check_epsilon, check_neighboring
from skdpsynth.privacy._random import SecureBits, SeededBits, check_rng
from skdpsynth.privacy._sup_norm import DiscreteSupNorm

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscreteSupNorm",
    "LedgerEntry",
    "PrivacyAccountant",
    "PrivacyLoss",
    "SecureBits",
    "SeededBits",
    "StandingRelease",
    "check_accountant",
    "check_delta",
    "check_epsilon",
    "check_neighboring",
    "check_rng",
    "epsilon_of_rho",
    "gaussian_scale",
    "laplace_scale",
    "rho_of_epsilon",
    "split_exactly",
]
