"""Release cards and quality pages."""

from skdpsynth.report._facts import CardFacts
from skdpsynth.report._pages import Card, Page, card, quality_page
from skdpsynth.report._registry import Check

__all__ = ["Card", "CardFacts", "Check", "Page", "card", "quality_page"]
