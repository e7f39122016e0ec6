"""Check of the evidence of a ledger, for auditors: standard library alone, and no code of `skdpsynth`."""

from skdpsynth_evidence._check import EvidenceCheck, check_evidence

__all__ = ["EvidenceCheck", "check_evidence"]
