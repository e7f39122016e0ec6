"""Privacy audits: lower bounds on epsilon from runs on neighboring tables or on canaries, and attacks on synthetic rows."""

from skdpsynth.auditing._attacks import Gap, Guesses, PrivacyEvidence, privacy_evidence
from skdpsynth.auditing._audit import audit_epsilon
from skdpsynth.auditing._linked_attacks import linked_evidence
from skdpsynth.auditing._neighbors import worst_case_neighbors
from skdpsynth.auditing._one_run import audit_one_run, isolated_canaries
from skdpsynth.auditing._result import AuditResult

__all__ = [
    "AuditResult",
    "Gap",
    "Guesses",
    "PrivacyEvidence",
    "audit_epsilon",
    "audit_one_run",
    "isolated_canaries",
    "linked_evidence",
    "privacy_evidence",
    "worst_case_neighbors",
]
