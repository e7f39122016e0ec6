"""Displays of released results, in scikit-learn's convention: ``from_...`` computes, ``plot`` draws."""

from skdpsynth.plotting._pca import PrivatePCADisplay
from skdpsynth.plotting._privacy import AuditDisplay, BudgetDisplay, EvidenceDisplay, PlanDisplay
from skdpsynth.plotting._synthesis import SynthesisDisplay
from skdpsynth.plotting._synthesizers import MeasureDisplay, StreamDisplay

__all__ = [
    "AuditDisplay",
    "BudgetDisplay",
    "EvidenceDisplay",
    "MeasureDisplay",
    "PlanDisplay",
    "PrivatePCADisplay",
    "StreamDisplay",
    "SynthesisDisplay",
]
