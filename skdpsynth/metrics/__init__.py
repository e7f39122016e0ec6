"""Distances between real and synthetic rows: functions of (X, X_synthetic) that read both unprotected."""

from skdpsynth.metrics._associations import association_matrix, correlation_error
from skdpsynth.metrics._downstream import train_synthetic_test_real
from skdpsynth.metrics._marginals import marginal_total_variation
from skdpsynth.metrics._quality import QualityReport, quality_report
from skdpsynth.metrics._quality import numbers_table as numbers_table
from skdpsynth.metrics._quantiles import columns_in as columns_in
from skdpsynth.metrics._quantiles import schema_of_ranges as schema_of_ranges
from skdpsynth.metrics._quantiles import with_facts_of_rows as with_facts_of_rows
from skdpsynth.metrics._rules import rule_violations
from skdpsynth.metrics._variance import captured_variance_ratio
from skdpsynth.metrics._wasserstein import sliced_wasserstein_distance, wasserstein_distance

__all__ = [
    "QualityReport",
    "captured_variance_ratio",
    "correlation_error",
    "marginal_total_variation",
    "quality_report",
    "rule_violations",
    "sliced_wasserstein_distance",
    "train_synthetic_test_real",
    "wasserstein_distance",
]
