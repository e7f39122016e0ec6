"""The door: exact noise, what it costs, and the accountant that adds it."""

from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._attack import AttackRisk
from skdpsynth.privacy._composition import epsilon_of_rho, rho_of_epsilon
from skdpsynth.privacy._discovery import Discovery, discovery
from skdpsynth.privacy._gaussian import DiscreteGaussian, gaussian_scale
from skdpsynth.privacy._going_on import (
    checkpoint,
    claimed,
    finish,
    going_on,
    is_durable,
    is_last,
    is_overtaken,
    is_settled,
    keep_up,
    mark,
    recover,
    settle,
    unsettle,
    unshown,
    watched,
)
from skdpsynth.privacy._laplace import DiscreteLaplace, laplace_scale
from skdpsynth.privacy._ledger import LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss, check_delta, check_epsilon, check_neighboring, split_exactly
from skdpsynth.privacy._matrix_laplace import DiscreteMatrixLaplace
from skdpsynth.privacy._mechanism import Mechanism, loss_of_kind, losses_of_kind, mechanism, scale_of_kind
from skdpsynth.privacy._opening import check_accountant, opened_accountant
from skdpsynth.privacy._random import SEEDED, RandomBits, SecureBits, SeededBits, check_rng, stream_of
from skdpsynth.privacy._selection import loss_of_choice
from skdpsynth.privacy._standing import StandingRelease
from skdpsynth.privacy._sup_norm import DiscreteSupNorm
from skdpsynth.privacy._unit import ALONE, Unit

__all__ = [
    "AttackRisk",
    "Discovery",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscreteMatrixLaplace",
    "DiscreteSupNorm",
    "LedgerEntry",
    "Mechanism",
    "PrivacyAccountant",
    "PrivacyLoss",
    "Unit",
    "check_rng",
    "discovery",
    "epsilon_of_rho",
    "mechanism",
    "rho_of_epsilon",
]
