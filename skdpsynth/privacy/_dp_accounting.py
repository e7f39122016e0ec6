"""Export of a ledger to the package dp-accounting."""

import math
from collections.abc import Iterator
from typing import Any

from skdpsynth.privacy._account_sums import Sums, largest
from skdpsynth.privacy._ledger import Ledger, LedgerEntry
from skdpsynth.privacy._losses import PrivacyLoss


def dp_events(ledger: Ledger, account: int | None) -> Any:
    """Return the charges of an account as a ``ComposedDpEvent``."""
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
