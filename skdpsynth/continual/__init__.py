"""Counters that stay private along a stream: at any time, the number of events so far, under one budget for the whole stream.

The unit of privacy is one event: two streams are neighbours if they differ in what arrives at one time. All counters are vectorised:
one object counts many cells at once. Threads may share a counter: it is read and updated by one of them at a time.
"""

from skdpsynth.continual._levels import InhomogeneousCounter
from skdpsynth.continual._matrix import HonakerCounter, SquareRootCounter
from skdpsynth.continual._sparse import SparseCounter
from skdpsynth.continual._tree import BinaryCounter, KaryCounter

__all__ = ["BinaryCounter", "HonakerCounter", "InhomogeneousCounter", "KaryCounter", "SparseCounter", "SquareRootCounter"]
