"""One fit: public facts, a plan and a budget."""

from skdpsynth.fitting._budget import Budget
from skdpsynth.fitting._facts import (
    Facts,
    Plan,
    check_rows_per_unit,
    check_useful_epsilon,
    check_y_is_ignored,
    identifier_without_unit,
    public_size,
)
from skdpsynth.fitting._fit import PrivateEstimator
from skdpsynth.fitting._nested import check_part, check_part_rows, clone_part, fit_part, random_state_from, read_with_part
from skdpsynth.fitting._private_facts import (
    BOUNDS_SHARE,
    buy_bounds,
    buy_levels,
    reserve_budget,
    warn_of_few_levels,
    warn_of_unseen,
    without_levels_share,
)

__all__ = ["Budget", "Facts", "Plan", "PrivateEstimator"]
