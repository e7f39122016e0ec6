"""Export of a ledger: as data that an independent program can check, and to the package dp-accounting."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from skdpsynth._version import __version__
from skdpsynth.privacy._account_sums import Sums, largest
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
    facts: dict[str, Any] = {
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
        return facts
    sensitivity, norm = entry.sensitivity, _NORMS.get(entry.noise)
    stated = None if sensitivity is None or norm is None else getattr(sensitivity, norm)
    statistic = (
        None if sensitivity is None or sensitivity.statistic is None else {name: _to_json(value) for name, value in sensitivity.statistic}
    )
    return facts | {
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


def dp_events(ledger: Ledger, account: int | None) -> Any:
    try:
        from dp_accounting import dp_event
    except ModuleNotFoundError:
        raise ImportError("to_dp_events needs dp-accounting: pip install 'skdpsynth[accounting]'.") from None
    return dp_event.ComposedDpEvent([_event(dp_event, loss) for loss in _losses(ledger, account)])


def _losses(ledger: Ledger, account: int | None) -> Iterator[PrivacyLoss]:
    """Yield the losses of all releases; of a group, those of its costliest member."""
    groups: dict[str, dict[str, list[LedgerEntry]]] = {}
    for entry in ledger.entries(account):
        if entry.group is None:
            yield from _release_losses(ledger, entry)
        else:
            groups.setdefault(entry.group, {}).setdefault(entry.name, []).append(entry)
    for members in groups.values():
        yield from _largest_member_losses(ledger, members)


def _release_losses(ledger: Ledger, entry: LedgerEntry) -> Iterator[PrivacyLoss]:
    if ledger.entries(entry.id):
        yield from _losses(ledger, entry.id)
    else:
        yield entry.loss


def _largest_member_losses(ledger: Ledger, members: dict[str, list[LedgerEntry]]) -> list[PrivacyLoss]:
    """Return the losses of the costliest member; where none is the largest in all, the largest of each kind."""
    sums = {name: Sums.of(*(entry.loss for entry in entries)) for name, entries in members.items()}
    most = largest(sums.values())
    for name, entries in members.items():
        if sums[name] == most:
            return [loss for entry in entries for loss in _release_losses(ledger, entry)]
    return most.losses()


def _event(dp_event: Any, loss: PrivacyLoss) -> Any:
    if loss.is_infinite:
        return dp_event.NonPrivateDpEvent()
    if loss.rho is not None:
        rho = float(loss.rho)
        return dp_event.GaussianDpEvent(noise_multiplier=1 / math.sqrt(2 * rho)) if loss.gaussian else dp_event.ZCDpEvent(rho=rho)
    if loss.delta:
        return dp_event.UnsupportedDpEvent()
    return dp_event.DiscreteLaplaceDpEvent(noise_parameter=float(loss.epsilon), sensitivity=1)
