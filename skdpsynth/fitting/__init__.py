"""One fit: public facts, a plan, a budget, and what an estimator does with its rows."""

from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts, Plan, check_useful, public_size
from skdpsynth.fitting._fit import PrivateEstimator
from skdpsynth.fitting._parts import check_part, clone_part, fit_part, seed_from

__all__ = ["Budget", "Facts", "Plan", "PrivateEstimator"]
