"""One fit: public facts, a plan and a budget."""

from skdpsynth.fitting._budget import Budget, Facts, MissingFact, Plan, PrivateLevels, buy_bounds, private_columns, reserve_budget
from skdpsynth.fitting._fit import (
    OuterFit,
    PrivateEstimator,
    check_part,
    check_rows_per_unit,
    check_unit,
    check_useful_epsilon,
    check_y_is_ignored,
    clone_part,
    fit_part,
    random_state_from,
)

__all__ = ["Budget", "Facts", "Plan", "PrivateEstimator"]
