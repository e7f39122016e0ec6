"""Public facts about the data: bounds, grids, and the caller's kind of table."""

from skdpsynth.domain._box import Box
from skdpsynth.domain._container import Container

__all__ = ["Box", "Container"]
