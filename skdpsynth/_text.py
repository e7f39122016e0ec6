"""Numbers and lists in texts for people."""

import math
from collections.abc import Sequence


def format_number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:,.0f}"


def percent_at_most(share: float) -> str:
    """Return a share in percent, rounded up."""
    digits = 1 if share >= 0.001 or not share else -math.floor(math.log10(share)) - 1  # two that tell
    return f"{math.ceil(100 * share * 10**digits * (1 - 1e-9)) / 10**digits:.12g} %"


def join_words(words: Sequence[str], conjunction: str) -> str:
    *most, last = words
    return f"{', '.join(most)} {conjunction} {last}" if most else last
