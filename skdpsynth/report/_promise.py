"""What an account promises, as data: numbers, relation, unit, the lines of its ledger, and what an attacker gains."""

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
    """Return a fraction as a float of at most six digits that is never below it: a page may not promise more than was kept."""
    if amount == math.inf:
        return math.inf
    return float(_UP.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


@dataclass(frozen=True)
class LedgerLine:
    """One line of a ledger, as a page shows it.

    Attributes
    ----------
    name : str
    depth : int
        0 for a charge; n for a part of a part ... of it, which adds nothing.
    loss : str
    epsilon, delta : float or None
        What it added to what was spent.
    noise, change : str or None
        In words; the change is that of the released values, in their own units.
    n_values : int or None
    randomness, group, unit : str or None
    time : str
    version : str
        Of the package that charged it.
    """

    name: str
    depth: int
    loss: str
    epsilon: float | None
    delta: float | None
    noise: str | None
    sensitivity: str | None
    n_values: int | None
    randomness: str | None
    group: str | None
    unit: str | None
    time: str
    version: str


@dataclass(frozen=True)
class Promise:
    """What was promised, by the ledger alone.

    Attributes
    ----------
    epsilon, delta : float
        What was spent, rounded up to six digits.
    budget_epsilon, budget_delta : float
        The most that the account allows.
    neighboring : {"replace_one", "add_or_remove_one"}
    unit : str or None
        Whom all lines protect, in words; None: one row.
    is_seeded : bool
        Whether any noise can be drawn again by whoever knows a seed.
    remark : str or None
        What the account says besides.
    datasets : tuple of str
        What callers called the data.
    lines : tuple of LedgerLine
        At most 60.
    n_more : int
        Lines that are not listed.
    kinds : tuple of str
        Kinds of loss among the releases: "pure", "gaussian", "zcdp", "approximate".
    has_groups : bool
        Whether some charges hold disjoint rows, and cost their largest together.
    n_noisy, n_stated : int
        Releases with noise, and those of them whose change was stated, so that the accountant checked the noise against it.
    n_untold : int
        Charges that name neither noise nor parts: what was released for them, nothing here knows.
    risks : tuple of AttackRisk
        At false alarms of 1, 5 and 10 %.
    """

    epsilon: float
    delta: float
    budget_epsilon: float
    budget_delta: float
    neighboring: str
    unit: str | None
    is_seeded: bool
    remark: str | None
    datasets: tuple[str, ...]
    lines: tuple[LedgerLine, ...]
    n_more: int
    kinds: tuple[str, ...]
    has_groups: bool
    n_noisy: int
    n_stated: int
    n_untold: int
    risks: tuple[AttackRisk, ...]

    @property
    def is_infinite(self) -> bool:
        """Whether nothing was noisy enough to promise anything."""
        return self.epsilon == math.inf

    @property
    def holds(self) -> bool:
        """Whether there is a promise at all: secure noise, and a finite epsilon."""
        return not self.is_seeded and not self.is_infinite

    @classmethod
    def of(cls, accountant: PrivacyAccountant, *, in_full: bool = False) -> "Promise":
        """Read an account; nothing is charged. `in_full` promises what the whole budget allows, of a stream that goes on."""
        record = accountant.record()  # of one moment, whoever charges meanwhile
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
    """Return an account whose budget is like that of another, and spent: the worst that may still come."""
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
            noise=entry.describe(),  # that of a part stands in its own line
            sensitivity=None if entry.sensitivity is None else _describe_sensitivity(entry),
            n_values=entry.n_values,
            randomness=entry.randomness,
            group=entry.group,
            unit=entry.unit,
            time=entry.time,
            version=entry.version,
        )


def _describe_sensitivity(entry: LedgerEntry) -> str:
    """Say how far one row, or unit, moves the values, in the norm that the noise is measured by."""
    sensitivity: Any = entry.sensitivity
    if entry.noise == "DiscreteGaussian":
        return f"{math.sqrt(sensitivity.l2_squared):.6g} (L2)"
    if entry.noise == "DiscreteMatrixLaplace" and sensitivity.nuclear is not None:
        return f"{float(sensitivity.nuclear):.6g} (nuclear)"
    if entry.noise == "DiscreteLaplace":
        return f"{float(sensitivity.l1):.6g} (L1)"
    return f"{float(sensitivity.sup):.6g} (largest)"
