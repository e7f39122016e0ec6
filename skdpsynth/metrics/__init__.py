"""How far synthetic rows are from real ones: functions of (X, X_synthetic) that read both unprotected."""

from skdpsynth.metrics._variance import captured_variance_ratio
from skdpsynth.metrics._wasserstein import sliced_wasserstein_distance, wasserstein_distance

__all__ = ["captured_variance_ratio", "sliced_wasserstein_distance", "wasserstein_distance"]
