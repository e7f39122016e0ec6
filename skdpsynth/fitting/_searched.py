"""Fits that scikit-learn makes in numbers: searches and cross-validations, of which a fit knows only who called it."""

import sys

REMARK = "one fit of a search or cross-validation, whose other fits are not in this ledger"


def is_searched() -> bool:
    """Whether a search or cross-validation of scikit-learn is among the callers.

    A clone shares nothing with its siblings, on purpose; so how many they are, and what they spent, cannot be told here.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection."):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def words_of_search(epsilon: float) -> str:
    """Return the warning of such a fit that has no shared accountant."""
    return (
        f"This fit spends epsilon={epsilon:g} by itself, and so does every other fit of the search or cross-validation that made it; give "
        "the estimator one accountant=PrivacyAccountant(...) that counts them all, or use PrivateSearchCV."
    )
