"""Counters that stay private along a stream: at any time, the number of events so far, under one budget for the whole stream.

The unit of privacy is one event, and time is public: two streams are neighbors if they differ in the events of one time. Under
"replace_one" an event there is replaced, perhaps by one in another cell (``sensitivity=2``). Under "add_or_remove_one", the relation of
``accountant=PrivacyAccountant(epsilon, neighboring="add_or_remove_one")``, an event comes or goes (``sensitivity=1``, half of the noise),
and the number of events is private: give `update` the counts of each time, zeros where nothing came. One proof serves both. In either
relation the events x change at one time t alone, by d with ``|d|_1 <= sensitivity``; a counter releases a function of R x + noise, R its
nodes, so only column t of R, times d, changes. Nothing else of the relation enters. `update_cells` takes one step of time for each event,
which reveals their number, so it is refused where that is private.

All counters are vectorized: one object counts many cells at once. Threads may share a counter: one of them at a time reads or updates it.
"""

from skdpsynth.continual._sparse import InhomogeneousCounter, SparseCounter
from skdpsynth.continual._square_root import SquareRootCounter, UnboundedCounter
from skdpsynth.continual._tree import BinaryCounter, KaryCounter

__all__ = ["BinaryCounter", "InhomogeneousCounter", "KaryCounter", "SparseCounter", "SquareRootCounter", "UnboundedCounter"]
