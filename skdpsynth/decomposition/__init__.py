"""Principal components under differential privacy."""

from skdpsynth.decomposition._pca import PrivatePCA
from skdpsynth.decomposition._pca_api import MAX_AUTO_COMPONENTS as MAX_AUTO_COMPONENTS
from skdpsynth.decomposition._pca_api import keep_first as keep_first

# What users are told of; `synthesis` imports more.
__all__ = ["PrivatePCA"]
