"""What no ledger says: a line of evidence that holds it is wrong, before anything is derived from it."""

import math
import re
from collections.abc import Iterator
from typing import Any

from skdpsynth.testing._evidence_losses import number

_LOSSES = ({"epsilon", "delta"}, {"rho", "gaussian"})
_WORDS, _SCALES = ("kind", "scoring"), ("segment_scale", "total_scale")
_MAY_BE_ZERO = ("tables", "coordinate", "mean_weight", "pairs")
_MOST = {"steps": 20_000, "bits": 62}  # else its column would fill the memory


def find_format_errors(release: dict[str, Any], lines: dict[Any, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the form of a line, in words that follow its name.

    Parameters
    ----------
    release : dict
    lines : dict of int to dict
        All lines by number.
    """
    if not is_loss(release["loss"]):
        yield "charges what is no loss: numbers of at least 0"
    if not is_unit(release):
        yield f"protects {release['unit'] or 'a row'}, which are not {release['rows_per_unit']!r} rows"
    if _is_circular(release, lines):
        yield "is part of itself, so nobody pays for it"
    if "noise" not in release:
        return
    scales = [number(scale) for scale in release["scales"]]
    if release["loss"].get("epsilon", release["loss"].get("rho")) != "inf" and not (scales and min(scales) > 0 and max(scales) < math.inf):
        yield "has noise of scale 0, whose loss is infinite" if scales and min(scales) == 0 else "does not say the scale of its noise"
    if release["randomness"] not in ("secure", "seeded"):
        yield "does not say where its noise comes from"
    for name, fact in (release["statistic"] or {}).items():
        if not _is_fact(name, fact):
            yield f"moves numbers whose {name} is {str(fact)[:40]!r}, which it cannot be"


def is_loss(loss: dict[str, Any]) -> bool:
    """Whether a loss is in epsilon and delta, or in rho, and takes nothing back."""
    if set(loss) not in _LOSSES or not isinstance(loss.get("gaussian", True), bool):
        return False
    return all(number(amount) >= 0 for name, amount in loss.items() if name != "gaussian")


def is_unit(protects: dict[str, Any]) -> bool:
    """Whether a line, or a promise, protects as many rows as its unit has, which is how the words of a unit end."""
    found = re.search(r", at most (\d+) rows?$", protects["unit"] or "")
    return _is_whole(protects["rows_per_unit"], 1) and protects["rows_per_unit"] == (int(found[1]) if found else 1)


def _is_circular(release: dict[str, Any], lines: dict[Any, dict[str, Any]]) -> bool:
    """Whether the lines that this one is part of lead back to one of them."""
    seen, above = {release["number"]}, release["part_of"]
    while above in lines:
        if above in seen:
            return True
        seen.add(above)
        above = lines[above]["part_of"]
    return False


def _is_fact(name: str, fact: Any) -> bool:
    """Whether a fact is one that a statistic can have: whole numbers, nearly all of at least 1, or lists of them."""
    if name in _WORDS:
        return isinstance(fact, str)
    if name in _SCALES:
        return bool(0 < number(fact) < math.inf)
    if name == "ranges":
        return all(all(_is_whole(end, -math.inf) for end in (low, high)) and low <= high and _is_whole(n, 1) for low, high, n in fact)
    if isinstance(fact, list | tuple):
        return all(_is_fact(name, each) for each in fact)
    return _is_whole(fact, name not in _MAY_BE_ZERO) and fact <= _MOST.get(name, math.inf)


def _is_whole(value: Any, least: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
