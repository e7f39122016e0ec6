"""Principal components under differential privacy."""

from skdpsynth.decomposition._pca import PrivatePCA
from skdpsynth.decomposition._pca_api import MAX_AUTO_COMPONENTS, keep_first

__all__ = ["PrivatePCA"]
