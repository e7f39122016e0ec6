"""Exact sums over rows: integers, mergeable with ``+``."""

from skdpsynth.statistics._histogram import Histogram
from skdpsynth.statistics._marginals import Marginals
from skdpsynth.statistics._moments import Moments

__all__ = ["Histogram", "Marginals", "Moments"]
