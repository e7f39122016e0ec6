"""Export of a ledger as data that an independent program can check."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from skdpsynth._version import __version__
from skdpsynth.privacy._ledger import Ledger, LedgerEntry
from skdpsynth.privacy._ledger_text import exact_text
from skdpsynth.privacy._losses import PrivacyLoss

FORMAT, VERSION = "skdpsynth evidence", 1

# The norm of a change that each noise covers; a choice is charged by what one utility moves.
_NORMS = {
    "DiscreteLaplace": "l1",
    "DiscreteGaussian": "l2_squared",
    "DiscreteSupNorm": "sup",
    "DiscreteMatrixLaplace": "nuclear",
    "PermuteAndFlip": "sup",
    "ExponentialMechanism": "sup",
}


def evidence_of(accountant: Any, ledger: Ledger, account: int | None) -> dict[str, Any]:
    entries = list(ledger.below(account))
    charge = ledger.charge_of(account)
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"skdpsynth {__version__}",
        "promise": {
            "epsilon": exact_text(accountant.epsilon),
            "delta": exact_text(accountant.delta),
            "relation": accountant.neighboring,
            "unit": None if accountant.unit is None else str(accountant.unit),
            "rows_per_unit": accountant.rows_per_unit,
        },
        "charged": None if charge is None else _loss(charge),
        "spent": {"epsilon": exact_text(accountant.spent), "delta": exact_text(accountant.spent_delta)},
        "numbers": list(_consecutive_ranges(sorted(entry.id for entry in entries))),
        "releases": [_release_facts(entry, account) for entry in entries],
    }


def _release_facts(entry: LedgerEntry, account: int | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "number": entry.id,
        "name": entry.name,
        "part_of": None if entry.part_of == account else entry.part_of,
        "group": entry.group,
        "relation": entry.neighboring,
        "unit": entry.unit,
        "rows_per_unit": _rows_per_unit(entry.unit),
        "loss": _loss(entry.loss),
    }
    if entry.noise is None:
        return told
    sensitivity, norm = entry.sensitivity, _NORMS.get(entry.noise)
    stated = None if sensitivity is None or norm is None else getattr(sensitivity, norm)
    statistic = (
        None if sensitivity is None or sensitivity.statistic is None else {name: _to_json(value) for name, value in sensitivity.statistic}
    )
    return told | {
        "statistic": statistic,
        "norm": norm,
        "sensitivity": None if stated is None else exact_text(stated),
        "noise": entry.noise,
        "scales": [exact_text(scale) for scale in entry.scale],
        "values": entry.n_values,
        "randomness": entry.randomness,
    }


def _loss(loss: PrivacyLoss) -> dict[str, Any]:
    if loss.rho is not None:
        return {"rho": exact_text(loss.rho), "gaussian": loss.gaussian}
    return {"epsilon": exact_text(loss.epsilon), "delta": exact_text(loss.delta)}


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    return value if isinstance(value, str | int) else exact_text(value)


def _rows_per_unit(unit: str | None) -> int:
    """Return the most rows of a unit, which its words end with."""
    found = re.search(r", at most (\d+) rows?$", unit or "")
    return int(found[1]) if found else 1


def _consecutive_ranges(numbers: list[int]) -> Iterator[list[int]]:
    """Yield the first and the last number of each run without a gap; entries that a stream folded leave gaps."""
    ends = [i for i, (a, b) in enumerate(pairwise(numbers)) if b > a + 1]
    starts = [0, *(i + 1 for i in ends)]
    yield from ([numbers[a], numbers[b]] for a, b in zip(starts, [*ends, len(numbers) - 1], strict=True) if numbers)
