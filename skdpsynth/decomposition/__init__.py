"""Principal components under differential privacy."""

from skdpsynth.decomposition._components import MOST_AUTO as MOST_AUTO
from skdpsynth.decomposition._components import keep_first as keep_first
from skdpsynth.decomposition._pca import PrivatePCA

# What users are told of; `synthesis` imports more.
__all__ = ["PrivatePCA"]
