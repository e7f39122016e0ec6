"""Audits: what an attacker can tell of two neighbouring tables, measured by fitting both many times; and attacks on one table."""

from skdpsynth.auditing._audit import audit_epsilon
from skdpsynth.auditing._evidence import privacy_evidence
from skdpsynth.auditing._found import PrivacyEvidence
from skdpsynth.auditing._gaps import Gap
from skdpsynth.auditing._neighbors import worst_case_neighbors
from skdpsynth.auditing._result import AuditResult

__all__ = ["AuditResult", "Gap", "PrivacyEvidence", "audit_epsilon", "privacy_evidence", "worst_case_neighbors"]
