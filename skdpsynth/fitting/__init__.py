"""One fit: public facts, a plan, a budget, and what an estimator does with its rows."""

from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts, Plan, check_useful_epsilon, public_size
from skdpsynth.fitting._fit import PrivateEstimator
from skdpsynth.fitting._nested import check_part, check_part_rows, clone_part, fit_part, random_state_from, read_with_part
from skdpsynth.fitting._private_bounds import BOUNDS_SHARE as BOUNDS_SHARE
from skdpsynth.fitting._private_bounds import buy_bounds as buy_bounds
from skdpsynth.fitting._private_bounds import warn_of_unseen as warn_of_unseen
from skdpsynth.fitting._private_levels import buy_levels as buy_levels
from skdpsynth.fitting._private_levels import warn_of_few_levels as warn_of_few_levels
from skdpsynth.fitting._private_levels import without_levels_share as without_levels_share
from skdpsynth.fitting._reserved_budget import reserve_budget as reserve_budget
from skdpsynth.fitting._unit import check_rows_per_unit as check_rows_per_unit
from skdpsynth.fitting._unit import check_y_is_ignored as check_y_is_ignored
from skdpsynth.fitting._unit import identifier_without_unit as identifier_without_unit

__all__ = ["Budget", "Facts", "Plan", "PrivateEstimator"]
