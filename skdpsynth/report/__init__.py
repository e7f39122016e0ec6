"""Release cards and quality pages."""

from skdpsynth.report._card import Card, card
from skdpsynth.report._checklist import Check
from skdpsynth.report._facts import CardFacts
from skdpsynth.report._page import Page
from skdpsynth.report._quality import quality_page

__all__ = ["Card", "CardFacts", "Check", "Page", "card", "quality_page"]
