"""The promise of an account as data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from itertools import islice
from typing import Any

from skdpsynth.privacy import AttackRisk, LedgerEntry, PrivacyAccountant, PrivacyLoss

FALSE_ALARMS = (0.01, 0.05, 0.1)
MOST_LINES = 60  # of a ledger that a page shows: a stream has one for each block
_UP = Context(prec=6, rounding=ROUND_CEILING)


def round_up(amount: Any) -> float:
    """Round a fraction up to six digits: a page must not promise more than was kept."""
    if amount == math.inf:
        return math.inf
    return float(_UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


@dataclass(frozen=True)
class LedgerLine:
    """One line of a ledger, as a page shows it."""

    name: str
    depth: int  # 0 for a charge; n for a part at depth n, which adds nothing
    loss: str
    epsilon: float | None  # added to the total; None for a part, as is delta
    delta: float | None
    noise: str | None
    sensitivity: str | None  # of the released values, in their own units
    n_values: int | None
    randomness: str | None
    group: str | None
    unit: str | None
    time: str
    version: str  # of the package that charged it


@dataclass(frozen=True)
class Promise:
    """The promise of an account, by its ledger alone."""

    epsilon: float  # spent, rounded up to six digits, as is delta
    delta: float
    budget_epsilon: float  # the limit of the account
    budget_delta: float
    neighboring: str
    unit: str | None  # whom all lines protect; None: one row
    is_seeded: bool  # whether a seed can reproduce any noise
    remark: str | None
    datasets: tuple[str, ...]  # names that callers gave to the data
    lines: tuple[LedgerLine, ...]  # the first 60
    n_more: int  # lines that are not listed
    kinds: tuple[str, ...]  # of loss: "pure", "gaussian", "zcdp", "approximate"
    has_groups: bool  # whether some charges hold disjoint rows, and cost their largest together
    n_noisy: int
    n_stated: int  # noisy releases with a stated sensitivity, which the accountant checked against the noise
    n_untold: int  # charges that name neither noise nor parts
    risks: tuple[AttackRisk, ...]  # at false alarms of 1, 5 and 10 %

    @property
    def is_infinite(self) -> bool:
        return self.epsilon == math.inf

    @property
    def holds(self) -> bool:
        """Whether there is a promise at all: secure noise and a finite epsilon."""
        return not self.is_seeded and not self.is_infinite

    @classmethod
    def of(cls, accountant: PrivacyAccountant, *, in_full: bool = False) -> "Promise":
        """Read an account; `in_full` promises the whole budget of a stream that continues."""
        record = accountant.record()  # a snapshot, in case of charges meanwhile
        entries = [entry for entry, _ in record.lines()]
        lines = tuple(islice(_lines(record), MOST_LINES))
        noisy = [entry for entry in entries if entry.noise is not None]
        whole = in_full and record.spent < record.epsilon
        risks = tuple((_spend_fully(record) if whole else record).risk(fpr) for fpr in FALSE_ALARMS)
        return cls(
            epsilon=round_up(record.epsilon if whole else record.spent),
            delta=round_up(record.delta if whole else record.spent_delta),
            budget_epsilon=round_up(record.epsilon),
            budget_delta=round_up(record.delta),
            neighboring=record.neighboring,
            unit=record.risk().unit,
            is_seeded=any(entry.randomness == "seeded" for entry in entries),
            remark=record.remark,
            datasets=tuple(dict.fromkeys(entry.dataset for entry in entries if entry.dataset)),
            lines=lines,
            n_more=len(entries) - len(lines),
            kinds=tuple(sorted({_kind_of(entry) for entry in noisy or entries})),
            has_groups=any(entry.group for entry in entries),
            n_noisy=len(noisy),
            n_stated=sum(entry.sensitivity is not None for entry in noisy),
            n_untold=sum(entry.noise is None and not record.parts_of(entry) for entry in entries),
            risks=risks,
        )


def _spend_fully(record: PrivacyAccountant) -> PrivacyAccountant:
    """Return an account with the same budget, fully spent: the worst that may still come."""
    whole = PrivacyAccountant(record.epsilon, record.delta, neighboring=record.neighboring, unit=record.unit)
    whole.spend(PrivacyLoss(epsilon=record.epsilon, delta=record.delta), name="all of it")
    return whole


def _kind_of(entry: LedgerEntry) -> str:
    loss = entry.loss
    if loss.rho is not None:
        return "gaussian" if loss.gaussian else "zcdp"
    return "approximate" if loss.delta else "pure"


def _lines(record: PrivacyAccountant) -> Iterator[LedgerLine]:
    charges = record.charges()
    for entry, part_of in record.lines():
        _, *added = (None, None, None) if part_of is not None else next(charges)
        epsilon, delta = (None if amount is None else round_up(amount) for amount in added)
        yield LedgerLine(
            name=entry.name,
            depth=0 if part_of is None else part_of.count(" / ") + 1,
            loss=str(entry.loss),
            epsilon=epsilon,
            delta=delta,
            noise=entry.describe(),  # noise of parts stands in their own lines
            sensitivity=None if entry.sensitivity is None else _describe_sensitivity(entry),
            n_values=entry.n_values,
            randomness=entry.randomness,
            group=entry.group,
            unit=entry.unit,
            time=entry.time,
            version=entry.version,
        )


def _describe_sensitivity(entry: LedgerEntry) -> str:
    """Format the sensitivity in the norm of the noise."""
    sensitivity: Any = entry.sensitivity
    if entry.noise == "DiscreteGaussian":
        return f"{math.sqrt(sensitivity.l2_squared):.6g} (L2)"
    if entry.noise == "DiscreteMatrixLaplace" and sensitivity.nuclear is not None:
        return f"{float(sensitivity.nuclear):.6g} (nuclear)"
    if entry.noise == "DiscreteLaplace":
        return f"{float(sensitivity.l1):.6g} (L1)"
    return f"{float(sensitivity.sup):.6g} (largest)"
