"""The parameter `accountant`."""

import os
from typing import Any

from skdpsynth.privacy._accountant import PrivacyAccountant
from skdpsynth.privacy._ledger_place import existing_path


def resolve_accountant(accountant: Any) -> PrivacyAccountant | None:
    """Return the accountant that a parameter stands for: itself, that of the ledger at a path, or None."""
    if isinstance(accountant, str | os.PathLike):
        return PrivacyAccountant.at(existing_path(accountant, "accountant"))
    check_accountant(accountant)
    return accountant


def check_accountant(accountant: Any) -> None:
    if accountant is not None and not isinstance(accountant, PrivacyAccountant):
        raise ValueError(
            f"accountant must be None or a PrivacyAccountant, got {type(accountant).__name__}; make one with PrivacyAccountant(epsilon), "
            "or give the path of a ledger."
        )
