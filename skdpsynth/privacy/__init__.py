"""The door: exact noise, what it costs, and the accountant that adds it."""

from skdpsynth.privacy import _streams as streams
from skdpsynth.privacy._accountant import AccountantLike, PrivacyAccountant, check_accountant, resolve_accountant
from skdpsynth.privacy._amplification import CLONE_REMARK, SecretSample
from skdpsynth.privacy._composition import AttackRisk, epsilon_beside, epsilon_of_rho, rho_of_epsilon
from skdpsynth.privacy._gaussian import DiscreteGaussian, gaussian_scale
from skdpsynth.privacy._laplace import DiscreteLaplace, DiscreteSupNorm, laplace_scale
from skdpsynth.privacy._ledger_entry import LedgerEntry
from skdpsynth.privacy._losses import LONE_ROW, Amount, PrivacyLoss, Unit, check_delta, check_epsilon, check_neighboring, split_exactly
from skdpsynth.privacy._matrix_laplace import DiscreteMatrixLaplace
from skdpsynth.privacy._mechanism import ContinualRelease, Mechanism, loss_of_kind, losses_of_kind, mechanism, scale_of_kind
from skdpsynth.privacy._noise import Noise as Noise
from skdpsynth.privacy._random import SEED_WARNING, RandomBits, SecureBits, Seed, SeededBits, check_rng, make_stream
from skdpsynth.privacy._selection import Discovery, discovery, selection_loss

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
    "SecretSample",
    "Unit",
    "check_rng",
    "discovery",
    "epsilon_of_rho",
    "mechanism",
    "rho_of_epsilon",
]
