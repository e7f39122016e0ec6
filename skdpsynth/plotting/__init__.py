"""Displays of released results, in scikit-learn's convention: ``from_...`` computes, ``plot`` draws."""

from skdpsynth.plotting._budget import BudgetDisplay
from skdpsynth.plotting._evidence import AuditDisplay, EvidenceDisplay
from skdpsynth.plotting._measure import MeasureDisplay
from skdpsynth.plotting._pca import PrivatePCADisplay
from skdpsynth.plotting._plan import PlanDisplay
from skdpsynth.plotting._stream import StreamDisplay
from skdpsynth.plotting._synthesis import SynthesisDisplay

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
