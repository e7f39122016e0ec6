"""Audits: what an attacker can tell of two neighbouring tables, measured by fitting both many times."""

from skdpsynth.auditing._audit import audit_epsilon
from skdpsynth.auditing._neighbors import worst_case_neighbors
from skdpsynth.auditing._result import AuditResult

__all__ = ["AuditResult", "audit_epsilon", "worst_case_neighbors"]
