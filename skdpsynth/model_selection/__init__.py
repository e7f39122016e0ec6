"""Choices before and around a fit: plans of what a budget buys, and a private search."""

from skdpsynth.model_selection._plan import SpendingPlan, plan
from skdpsynth.model_selection._search import PrivateSearchCV

__all__ = ["PrivateSearchCV", "SpendingPlan", "plan"]
