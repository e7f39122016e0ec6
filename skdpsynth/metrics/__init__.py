"""Distances between real and synthetic rows: functions of (X, X_synthetic) that read both unprotected."""

from skdpsynth.metrics._distances import captured_variance_ratio, sliced_wasserstein_distance, wasserstein_distance
from skdpsynth.metrics._downstream import train_synthetic_test_real
from skdpsynth.metrics._linked import LinkedReport, linked_report
from skdpsynth.metrics._marginals import association_matrix, correlation_error, marginal_total_variation
from skdpsynth.metrics._quality import QualityReport, numbers_table, quality_report, rule_violations
from skdpsynth.metrics._read_tables import SchemaLike, Table, columns_in, schema_of_ranges, with_facts_of_rows

__all__ = [
    "LinkedReport",
    "QualityReport",
    "captured_variance_ratio",
    "correlation_error",
    "linked_report",
    "marginal_total_variation",
    "quality_report",
    "rule_violations",
    "sliced_wasserstein_distance",
    "train_synthetic_test_real",
    "wasserstein_distance",
]
