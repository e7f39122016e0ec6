"""Choices before and around a fit: what to expect of a budget, and a private choice among candidates."""

from skdpsynth.model_selection._plan import plan
from skdpsynth.model_selection._plan_result import SpendingPlan
from skdpsynth.model_selection._search import PrivateSearchCV

__all__ = ["PrivateSearchCV", "SpendingPlan", "plan"]
