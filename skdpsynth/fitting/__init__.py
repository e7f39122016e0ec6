"""One fit: public facts, a plan, a budget, and what an estimator does with its rows."""

from skdpsynth.fitting._bounds import BOUNDS_SHARE as BOUNDS_SHARE
from skdpsynth.fitting._bounds import buy_bounds as buy_bounds
from skdpsynth.fitting._bounds import warn_of_unseen as warn_of_unseen
from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import Facts, Plan, check_useful, public_size
from skdpsynth.fitting._fit import PrivateEstimator
from skdpsynth.fitting._levels import buy_levels as buy_levels
from skdpsynth.fitting._levels import warn_of_few as warn_of_few
from skdpsynth.fitting._levels import without_levels_share as without_levels_share
from skdpsynth.fitting._parts import check_part, check_rows_of_part, clone_part, fit_part, opened_part, seed_from
from skdpsynth.fitting._set_aside import set_aside as set_aside
from skdpsynth.fitting._unit import check_ignored as check_ignored
from skdpsynth.fitting._unit import check_rows_per_unit as check_rows_per_unit
from skdpsynth.fitting._unit import unit_left_out as unit_left_out

__all__ = ["Budget", "Facts", "Plan", "PrivateEstimator"]
