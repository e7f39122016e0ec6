"""Choices before and around a fit: plans of what a budget buys, a private search, and fits to a stated error."""

from skdpsynth.model_selection._fit_to_error import ErrorFit, fit_to_error
from skdpsynth.model_selection._plan import SpendingPlan, plan
from skdpsynth.model_selection._search import PrivateSearchCV

__all__ = ["ErrorFit", "PrivateSearchCV", "SpendingPlan", "fit_to_error", "plan"]
