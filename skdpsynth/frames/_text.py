"""Texts that are numbers, and texts that a file cannot hold."""

import math


def number_in(text: str | None) -> float:
    """Return the number that a text is, NaN of any other; "true" and "false" are 1 and 0."""
    if text is None:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.strip().lower(), math.nan)


def is_unicode(text: str) -> bool:
    """Whether a text can stand in a column of text at all: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
