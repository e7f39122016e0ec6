"""Principal components under differential privacy."""

from skdpsynth.decomposition._pca import PrivatePCA

__all__ = ["PrivatePCA"]
